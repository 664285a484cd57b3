"""Solutions and certificates as values, and the names that they had."""

import numpy as np
import pytest

import kernelweave as kw
from kernelweave.results import Certificate, Status


@pytest.fixture
def data(rng):
    X = rng.normal(size=(40, 4))
    gram = X[:, None, :] * X[None, :, :]
    return gram, np.sign(X[:, 0] + 0.3 * rng.normal(size=40))


def test_names_of_the_first_version_are_aliases_that_warn(data):
    gram, y = data
    found = {
        "RLS2Result": kw.solve_rls2(gram, y, 1.0),
        "PathResult": kw.rls2_path(gram, y, [1.0, 0.1]),
        "SVMResult": kw.solve_svc(gram.sum(2), y, 1.0),
        "MEBResult": kw.solve_meb(gram.sum(2)),
        "MKLResult": kw.solve_svm_mkl(gram, y, 1.0),
        "RadiusResult": kw.solve_rkl(gram, y, 1.0),
        "AlignResult": kw.solve_align(gram, y),
        "AlignFResult": kw.solve_alignf(gram, y),
        "EasyMKLResult": kw.solve_easy_mkl(gram, y),
    }
    for name, result in found.items():
        with pytest.warns(FutureWarning, match=f"kernelweave.{name} is now kernelweave.results"):
            old = getattr(kw, name)
        assert isinstance(result, old), name
        assert name not in kw.__all__


#: Gap of the solver, its rounding errors and how it says that it ended, for a primal value of 1 and tol = 1e-6.
ENDS = [
    (1e-7, 1e-8, Status.CONVERGED, Status.CONVERGED),
    (1e-7, 1e-5, Status.CONVERGED, Status.ROUNDING),
    (1e-7, 1e-8, Status.STALLED, Status.CONVERGED),
    (1e-7, 1e-5, Status.STALLED, Status.ROUNDING),
    (2e-6, 1.5e-6, Status.CONVERGED, Status.ROUNDING),
    (2e-6, 1e-7, Status.CONVERGED, Status.STALLED),
    (2e-6, 1e-7, Status.STALLED, Status.STALLED),
    (2e-6, 1e-5, Status.STALLED, Status.ROUNDING),
    (1e-7, 1e-8, Status.MAX_ITER, Status.MAX_ITER),
    (1e-7, 1e-8, Status.INTERRUPTED, Status.INTERRUPTED),
]


@pytest.mark.parametrize(("own", "rounding", "ended", "status"), ENDS)
def test_the_whole_gap_has_the_last_word(own, rounding, ended, status):
    found = Certificate.of("joint", 1.0, own, rounding, ended, tol=1e-6)
    assert found.status is status
    assert found.gap == own + rounding == pytest.approx(found.primal - found.dual)
    assert found.own_gap == pytest.approx(own)
    assert Certificate.of("joint", 1.0, own, rounding, ended).status is ended
