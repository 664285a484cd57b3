"""Limits of seconds and of work: whatever is solved ends with what it has, and a gap that holds."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import kernelweave as kw
import stress
from kernelweave import _allowance
from kernelweave._allowance import LEFT, allowed, used_up
from kernelweave._loops import HAS_EXTENSION
from kernelweave.mkl.loop import most_work
from kernelweave.results import Status

ENDED = 1e-9


@pytest.fixture
def table(rng):
    X = rng.normal(size=(80, 12))
    return X, np.sign(X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=80))


@pytest.fixture
def gram(table):
    X, _ = table
    return np.stack([np.outer(x, x) for x in X.T], axis=-1)


# ---- the limits themselves --------------------------------------------------------------------------


def test_no_limit_without_a_block():
    LEFT.get().work -= 1e300
    assert used_up() is None


def test_the_earlier_end_holds():
    with allowed(seconds=1e-6), allowed(seconds=100.0):
        time.sleep(1e-4)
        assert used_up() == "seconds"
    with allowed(seconds=100.0):
        with allowed(seconds=1e-6):
            time.sleep(1e-4)
            assert used_up() == "seconds"
        assert used_up() is None


def test_work_is_counted_in_its_own_block():
    with allowed(work=3.0):
        LEFT.get().work -= 3.0
        assert used_up() is None
        with allowed(work=1.0):
            LEFT.get().work -= 2.0
            assert used_up() == "work"
        assert used_up() is None
        LEFT.get().work -= 0.5
        assert used_up() == "work"


def test_seconds_inside_keep_the_work_that_is_left():
    with allowed(work=1.0), allowed(seconds=100.0):
        LEFT.get().work -= 2.0
        assert used_up() == "work"


def test_a_block_ends_with_an_error():
    def fail():
        with allowed(work=0.0):
            LEFT.get().work -= 1.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert used_up() is None


# ---- seconds ------------------------------------------------------------------------------------------

MARGIN = [
    ("simplex", "auto"), ("simplex", "newton"), ("simplex", "interior-point"), ("simplex", "reduced-gradient"),
    ("simplex", "cutting-plane"), ("net", "closed-form"), ("lp", "closed-form"), ("lp", "dual-newton"),
]  # fmt: skip
SETS = {
    "simplex": kw.weight_sets.Simplex(),
    "net": kw.weight_sets.ElasticNet(0.5),
    "lp": kw.weight_sets.LpBall(2.0),
}


def bounded(late, best):
    """A late solution says so, and its gap covers the distance to the optimum."""
    assert late.status is Status.MAX_TIME
    assert late.primal - late.gap <= best.primal * (1 + 1e-12)
    assert late.primal >= best.primal - best.gap - 1e-12 * abs(best.primal)
    assert late.rel_gap > 1e-8


def test_alignment_ends_in_time(gram, table):
    best = kw.solvers.solve_alignf(gram, table[1])
    with allowed(seconds=ENDED):
        late = kw.solvers.solve_alignf(gram, table[1])
    assert late.status is Status.MAX_TIME
    assert late.alignment + late.gap >= best.alignment * (1 - 1e-12)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("kind", "method"), MARGIN)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_margin_problems_end_in_time(kind, method, loss, gram, table):
    if loss == "logistic" and method in ("interior-point", "dual-newton"):
        method = "auto"
    given = {"weight_set": SETS[kind], "loss": loss, "solver": method}
    best = kw.solve_svm_mkl(gram, table[1], 100.0, tol=1e-9, **(given | {"solver": "auto"}))
    bounded(kw.solve_svm_mkl(gram, table[1], 100.0, tol=1e-9, max_time=ENDED, **given), best)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_features_end_in_time(loss, table):
    X, y = table
    stack = kw.FeatureStack(X, [0, 6, 12])
    best = kw.solve_svm_mkl(stack, y, 100.0, loss=loss, tol=1e-9)
    bounded(kw.solve_svm_mkl(stack, y, 100.0, loss=loss, tol=1e-9, max_time=ENDED), best)


def test_ridge_problems_end_in_time(gram, table):
    X, y = table
    # nearly the same columns, for which descents need many sweeps
    X = X[:, :1] + 0.01 * X
    groups = [0, 1, 5, 12]
    stack = kw.FeatureStack(X, groups)
    for given in (gram, stack, kw.rows.block_statistics(X, y, groups=groups)):
        target = None if isinstance(given, kw.BlockStatistics) else y
        best = kw.solve_rls2(given, target, 0.003, tol=1e-12)
        late = kw.solve_rls2(given, target, 0.003, tol=1e-12, max_time=ENDED)
        bounded(late, best)


def test_a_path_keeps_its_length(gram, table):
    path = kw.rls2_path(gram, table[1], np.geomspace(10.0, 0.1, 5), tol=1e-12, max_time=ENDED)
    assert len(path) == 5
    assert path.status[-1] is Status.MAX_TIME
    path = kw.solvers.svm_mkl_path(
        kw.FeatureStack(table[0]), table[1], np.geomspace(0.1, 10, 4), tol=1e-12, max_time=ENDED
    )
    assert len(path) == 4
    assert path.status[-1] is Status.MAX_TIME


@pytest.mark.parametrize("kind", ["rkl", "do"])
@pytest.mark.parametrize("step", ["auto", "armijo"])
def test_radius_problems_end_in_time(kind, step, gram, table):
    best = kw.solvers.solve_radius(gram, table[1], 10.0, kind, tol=1e-9)
    bounded(kw.solvers.solve_radius(gram, table[1], 10.0, kind, solver=step, tol=1e-9, max_time=ENDED), best)


@pytest.mark.parametrize("solve", [kw.solve_svc, kw.solvers.solve_l2svc, kw.solve_svr, kw.solvers.solve_klr])
def test_machines_end_in_time(solve, rng):
    # so many rows that the first round, after which the time is looked at, does not solve it
    X = rng.normal(size=(300, 3))
    K, y = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1)), np.sign(X[:, 0] + rng.normal(size=300))
    late = solve(K, y, 1e3, tol=1e-12, max_time=ENDED)
    bounded(late, solve(K, y, 1e3, tol=1e-12))


def test_learners_end_in_time(table):
    X, y = table
    for name in ("simple", "silp", "lp", "elastic-net", "soft-margin", "rkl", "do", "cardinality"):
        learner = kw.learners.LEARNERS[name](C=100.0, max_time=ENDED)
        with pytest.warns(ConvergenceWarning, match="max_time"):
            model = kw.MKLClassifier(learner=learner).fit(X, y)
        assert model.status_ == "max_time", name
        assert model.gap_ > 0
        assert model.predict(X).shape == y.shape
    # descents without a certificate of the optimum say the same
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = kw.MKLClassifier(learner=kw.learners.MLMKL(max_time=ENDED)).fit(X, y)
    assert (model.status_, model.n_iter_) == ("max_time", 1)


def test_time_is_in_seconds(gram, table):
    for wrong in (0.0, -1.0, np.nan, "1"):
        with pytest.raises(kw.InputError, match="max_time"):
            kw.solve_svm_mkl(gram, table[1], 1.0, max_time=wrong)


# ---- work ---------------------------------------------------------------------------------------------

#: Numbers of hostile problems that took 1 to 40 seconds, with their methods.
HOPELESS = {1140: "reduced-gradient", 1819: "auto", 2288: "closed-form", 2918: "newton"}


@pytest.mark.skipif(not HAS_EXTENSION, reason="the NumPy loops take a hundred times as long")
@pytest.mark.parametrize("number", HOPELESS)
def test_what_rounding_decides_ends_soon(number, monkeypatch):
    spent = []

    class Counted(_allowance.Allowance):
        def __setattr__(self, name, value):
            if name == "work" and math.isfinite(value) and hasattr(self, "work"):
                spent.append(self.work - value)
            super().__setattr__(name, value)

    monkeypatch.setattr(_allowance, "Allowance", Counted)
    p = stress.make(number, True)
    # the scales of the time that was measured
    rng = np.random.default_rng([number, 77])
    if rng.random() < 0.3:
        p = replace(p, gram=p.gram * 2.0 ** rng.integers(-120, 121))
    assert p.options["method"] == HOPELESS[number]
    found = stress.solve_margin(p, p.tol)
    assert found.status in (Status.STALLED, Status.ROUNDING, Status.CONVERGED)
    most = most_work(p.gram.shape[0], p.gram.shape[-1])
    # the machine at which it ends, and those of the search that it belongs to, take one round each
    assert sum(spent) <= 1.3 * most


def test_cuts_that_bring_nothing_end():
    """The tolerance of the linear program limited the gap, and cuts went on to the 200th."""
    for number in (2032, 2831):
        p = stress.make(number, True)
        rng = np.random.default_rng([number, 77])
        if rng.random() < 0.3:
            p = replace(p, gram=p.gram * 2.0 ** rng.integers(-120, 121))
        found = kw.solve_rkl(p.gram, p.y, p.parameter, tol=p.tol, sample_weight=p.weights)
        assert found.n_iter < 200
        assert found.status in (Status.STALLED, Status.ROUNDING, Status.CONVERGED)


def test_more_iterations_are_more_work(monkeypatch, gram, table):
    """The limit is of the default alone."""
    monkeypatch.setattr("kernelweave.mkl.loop.WORK", 5.0)
    monkeypatch.setattr("kernelweave.mkl.loop.WORK_EACH", 0.0)
    few = kw.solve_svm_mkl(gram, table[1], 100.0, tol=1e-9)
    assert few.status is Status.STALLED
    assert kw.solve_svm_mkl(gram, table[1], 100.0, tol=1e-9, max_iter=500).status is Status.CONVERGED
