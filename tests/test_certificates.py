"""The tests of the tests: wrong answers must be rejected by what we rely on elsewhere."""

import numpy as np
import pytest

import kernelweave as kw
import oracles
from kernelweave.machines.rounding import entry_error
from kernelweave.mkl.ridge_problem import make_problem as solver_problem
from kernelweave.mkl.solve import check_simplex
from kernelweave.mkl.steps.ridge_newton import RidgeStart, _evaluate
from kernelweave.results import relative_gap
from oracles import Undecided, rls2_by_conic, rls2_value, simplex_dual_by_conic
from problems import make_problem

ALPHA = 0.05


@pytest.fixture
def solved():
    gram, y = make_problem("dense", np.random.default_rng(0))
    return gram, y, kw.solve_rls2(gram, y, ALPHA, tol=1e-12)


def gap_at(gram, y, weights):
    problem, _ = solver_problem(gram, y)
    it = _evaluate(problem, ALPHA, weights, np.arange(gram.shape[2]), None)
    return it.gap(ALPHA, float(it.quadratic_forms.max())), it.primal


@pytest.mark.parametrize("size", [1e-3, 1e-2, 0.3])
def test_the_gap_grows_with_the_error(solved, size):
    gram, y, best = solved
    other = (1 - size) * best.weights + size / gram.shape[2]
    gap, primal = gap_at(gram, y, other)
    assert primal > best.primal
    assert gap >= primal - best.primal
    # and it is no empty promise: within two orders of magnitude of the error, up to its square root
    assert gap <= 100 * np.sqrt((primal - best.primal) * best.primal)


def test_every_vertex_of_the_simplex_is_rejected(solved):
    gram, y, best = solved
    for m in range(gram.shape[2]):
        gap, primal = gap_at(gram, y, np.eye(gram.shape[2])[m])
        assert gap / primal > 1e-3
        assert gap >= primal - best.primal


def test_weights_outside_the_simplex_are_refused():
    for wrong in ([0.5, 0.6], [1.5, -0.5], [np.nan, 1.0], [1.0]):
        with pytest.raises(kw.InputError, match="`start`"):
            check_simplex(wrong, 2)
    np.testing.assert_array_equal(check_simplex([0.25, 0.75], 2), [0.25, 0.75])


def test_the_oracles_tell_right_from_wrong(solved):
    gram, y, best = solved
    lower = rls2_by_conic(gram, y, ALPHA)
    uniform = rls2_value(gram, y, ALPHA, np.full(gram.shape[2], 1 / gram.shape[2]))
    assert lower <= best.primal * (1 + 1e-12)
    assert uniform > best.primal * 1.01
    # another alpha, other targets: another optimum
    assert abs(rls2_by_conic(gram, y, 2 * ALPHA) / lower - 1) > 0.05
    assert abs(rls2_by_conic(gram, y[::-1], ALPHA) / lower - 1) > 0.01


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "epsilon-insensitive", "logistic"])
def test_the_second_cone_solver_agrees_with_the_first(loss, solved, monkeypatch):
    gram, y, _ = solved
    t = y if loss == "epsilon-insensitive" else np.sign(y - np.median(y) + 1e-9)
    value = simplex_dual_by_conic(gram, t, np.ones(len(t)), loss)
    monkeypatch.setattr(oracles, "CLARABEL", [{"max_iter": 1}])
    # measured: 1.4e-11
    assert simplex_dual_by_conic(gram, t, np.ones(len(t)), loss) == pytest.approx(value, rel=1e-9)


def test_an_oracle_without_an_answer_leaves_the_test_undecided(solved, monkeypatch):
    gram, y, _ = solved
    monkeypatch.setattr(oracles, "CLARABEL", [{"max_iter": 1}])
    monkeypatch.setattr(oracles, "SCS", {"max_iters": 1})
    with pytest.raises(Undecided, match="undecided: neither Clarabel nor SCS"):
        simplex_dual_by_conic(gram, y, np.ones(len(y)), "epsilon-insensitive")


def test_a_solver_that_is_cut_short_says_so(solved):
    gram, y, _ = solved
    short = kw.solve_rls2(gram, y, 1e-4, tol=1e-12, max_iter=1)
    assert short.status is kw.solvers.Status.MAX_ITER
    assert short.rel_gap > 1e-12
    assert "max_iter" in short.status.value
    stopped = kw.solve_rls2(gram, y, 1e-4, tol=1e-12, callback=lambda *_: True)
    assert stopped.status is kw.solvers.Status.INTERRUPTED
    assert not stopped.status.ok


def test_relative_gap_of_nothing():
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(0.0, 1.0) == np.inf
    assert relative_gap(-2.0, 1.0) == 0.5


def test_a_stale_warm_start_does_not_leak(solved):
    """A path over other targets must not change what a fresh solve gives."""
    gram, y, best = solved
    warm = RidgeStart(weights=np.eye(gram.shape[2])[3])
    from kernelweave.mkl.steps.ridge_newton import newton_result

    problem, _ = solver_problem(gram, y)
    again = newton_result(problem, ALPHA, tol=1e-12, max_iter=100, warm=warm)
    assert again.primal == pytest.approx(best.primal, rel=1e-11)


CERTIFIED = {
    "margin": lambda gram, y: (kw.solve_svm_mkl(gram, y, C=1.0), kw.problems.margin_problem(gram, y, C=1.0)),
    "cardinality": lambda gram, y: (
        kw.solvers.solve_cardinality_mkl(gram, y, C=1.0, k=2),
        kw.problems.cardinality_problem(gram, y, C=1.0, k=2),
    ),
    "radius": lambda gram, y: (kw.solve_rkl(gram, y, C=1.0), kw.problems.rkl_problem(gram, y, C=1.0)),
    "EasyMKL": lambda gram, y: (
        kw.solvers.solve_easy_mkl(gram, y, 0.5),
        kw.problems.easy_mkl_problem(gram, y, 0.5),
    ),
}


@pytest.mark.parametrize("name", CERTIFIED)
def test_certificates_count_the_errors_of_the_entries_of_kernels(name, monkeypatch):
    gram, y = make_problem("dense", np.random.default_rng(0))
    found, problem = CERTIFIED[name](gram[:30, :30], np.sign(y[:30]))
    before = found.verify(problem)
    for module in ("kernelweave.machines.rounding", "kernelweave.mkl.certify"):
        monkeypatch.setattr(f"{module}.sum_error", lambda n: 1e-8)
    entry_error.cache_clear()
    try:
        assert found.verify(problem).rounding > 10 * before.rounding
    finally:
        entry_error.cache_clear()
