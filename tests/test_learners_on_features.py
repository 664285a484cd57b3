"""Learners with a margin on explicit features: the models of kernels, in every task, and which of both is taken.

Modules: `estimators/sources`, `learners/base`, `learners/margin`, `learners/on_features`, `learners/solving`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernelweave as kw
from kernelweave import learners
from kernelweave.estimators import sources
from kernelweave.gram import FeatureGram
from kernelweave.kernels import RBF, Linear, Polynomial
from kernelweave.learners import on_features
from kernelweave.learners.base import TrainingSet
from kernelweave.machines.losses import Hinge, Logistic
from kernelweave.machines.machine import Machine
from kernelweave.mkl import solve as solving
from kernelweave.mkl.features import newton

N = 160
BANK = [*(Linear().on(range(3 * i, 3 * i + 3)) for i in range(3)), *(Polynomial(2).on([j]) for j in (0, 5))]
LOSSES = ("hinge", "squared-hinge", "logistic")
EVERY = {
    "simple": learners.SimpleMKL(),
    "ball": learners.LpMKL(p=2),
    "small ball": learners.LpMKL(p=1.2),
    "net": learners.ElasticNetMKL(mix=0.5),
    "sum": learners.ElasticNetMKL(mix=0.0),
    "capped": learners.SoftMarginMKL(theta=0.3),
    "average": learners.Uniform(),
}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Features in place of kernels for few rows, and never kernels in their place."""
    monkeypatch.setattr(sources, "MANY_ROWS", 50)
    monkeypatch.setattr(newton, "MOST_ROWS", 0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + 40, 9))
    t = X[:, 0] - X[:, 5] ** 2 + 0.5 * X[:, 7] + 0.5 * rng.normal(size=len(X)) + 0.7
    return X, t


def both(monkeypatch, make):
    """What is made on features, and on kernels."""
    with monkeypatch.context() as context:
        context.setattr(sources, "MANY_ROWS", 10**9)
        return make(), context.undo() or make()


def with_loss(learner, loss):
    return learner if loss is None else type(learner)(**{**learner.get_params(), "loss": loss})


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", [*LOSSES, None])
@pytest.mark.parametrize("name", EVERY)
def test_both_ways_have_one_answer(data, name, loss):
    """`loss=None` is the tube of a regression."""
    X, t = data
    rows = np.concatenate([k.transform(X[:N]) for k in BANK], axis=1)
    offsets = np.r_[0, np.cumsum([k.transform(X[:1]).shape[1] for k in BANK])]
    gram = FeatureGram(np.ascontiguousarray(rows.T), offsets)
    y = t[:N] if loss is None else np.where(t[:N] > 0, 1.0, -1.0)
    weight = np.random.default_rng(1).integers(0, 3, size=N).astype(float)
    info = TrainingSet(gram, y[:, None], np.linspace(0.5, 2.0, 5), weight, classification=loss is not None)
    learner = with_loss(EVERY[name], loss)
    assert learner.on_features
    for alpha in (0.1, 10.0):
        got = learner.solve(info, alpha)
        # other factors are not taken for features
        want = learner.solve(TrainingSet(gram.stack().gram(), *list(vars(info).values())[1:]), alpha)
        assert got.feature_coef.shape == (offsets[-1], 1)
        assert not want.feature_coef.size
        assert got.status.ok
        assert got.rel_gap <= 1e-8
        assert abs(got.primal - want.primal) <= got.gap + want.gap + 1e-13 * want.primal
        # the coefficients' own value: the sum of losses and the penalty with the weights that are returned
        norms = np.add.reduceat(np.square(got.feature_coef[:, 0]), offsets[:-1]) / info.scale
        used = norms > 0
        penalty = 0.5 * float((norms[used] / got.weights[used]).sum())
        f = rows @ got.feature_coef[:, 0] + got.intercept[0]
        losses = learner.loss_for(loss is not None).value(y, f)
        value = float(weight @ losses) / alpha + penalty
        assert value == pytest.approx(got.primal, rel=1e-9)


@pytest.mark.parametrize("name", ["simple", "ball", "average"])
def test_models_have_coefficients_of_features(data, monkeypatch, tmp_path, name):
    X, t = data
    y = np.digitize(t, [-0.5, 0.8])
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=N)

    def make():
        model = kw.MKLClassifier(BANK, EVERY[name], normalize="center", class_weight="balanced")
        return model.fit(X[:N], y[:N], weight)

    kernels, features = both(monkeypatch, make)
    assert features.gram_.startswith("5 kernels as 15 features")
    assert features.feature_coef_.shape == (15, 3)
    assert not hasattr(kernels, "feature_coef_")
    assert features.objective_ == pytest.approx(kernels.objective_, rel=2e-8)
    Q = X[N:]
    # gaps of 1e-8 of the objective leave 1e-4 of the function; measured: 2e-4
    np.testing.assert_allclose(features.decision_function(Q), kernels.decision_function(Q), atol=2e-3)
    np.testing.assert_allclose(features.weights_, kernels.weights_, atol=2e-3)
    parts = features.kernel_contributions(Q).sum(axis=1) + features.intercept_
    np.testing.assert_allclose(parts, features.decision_function(Q), atol=1e-9)
    kw.save(features, tmp_path / "model.kw")
    again = kw.load(tmp_path / "model.kw")
    np.testing.assert_array_equal(again.decision_function(Q), features.decision_function(Q))


@pytest.mark.slow
def test_labels_folds_and_calibration_agree_with_kernels(data, monkeypatch):
    X, t = data
    labels = np.c_[t > 0, X[:, 1] > 0.3]
    classes = (t > 0).astype(int)

    def several():
        return kw.MKLClassifier(BANK, "simple", C=0.3).fit(X[:N], labels[:N])

    def by_folds():
        return kw.MKLClassifierCV(BANK, "simple", Cs=[0.01, 0.1, 1.0], cv=3).fit(X[:N], classes[:N])

    def chosen():
        return kw.MKLClassifier(BANK, "lp", C="auto").fit(X[:N], classes[:N]).calibrate(method="platt")

    for make in (several, by_folds, chosen):
        kernels, features = both(monkeypatch, make)
        assert hasattr(features, "feature_coef_")
        assert getattr(features, "C_", None) == getattr(kernels, "C_", None)
        np.testing.assert_allclose(
            # measured: 5e-4
            features.decision_function(X[N:]),
            kernels.decision_function(X[N:]),
            atol=5e-3,
        )
        if hasattr(features, "cv_results_"):
            np.testing.assert_allclose(
                features.cv_results_["mean_test_score"], kernels.cv_results_["mean_test_score"], atol=2e-2
            )


def test_a_fold_of_one_class_has_no_coefficients(data):
    X, t = data
    y = np.where(t[:N] > 0, 1.0, -1.0)
    rows = np.ascontiguousarray(X[:N].T)
    info = TrainingSet(FeatureGram(rows, np.array([0, 4, 9])), np.c_[y, np.ones(N)], np.ones(2), None, True)
    path = learners.SimpleMKL().path(info, np.array([10.0, 1.0]))
    assert path.feature_coef.shape == (2, 9, 2)
    assert not path.feature_coef[:, :, 1].any()
    assert path.feature_coef[:, :, 0].any()


def test_a_path_on_features_is_that_of_single_solutions(data):
    X, t = data
    y = np.where(t[:N] > 0, 1.0, -1.0)
    info = TrainingSet(
        FeatureGram(np.ascontiguousarray(X[:N].T), np.array([0, 4, 9])), y[:, None], np.ones(2)
    )
    info = TrainingSet(info.gram, info.y, info.scale, None, True)
    for learner in (learners.SimpleMKL(), learners.LpMKL(loss="squared-hinge"), learners.Uniform()):
        path = learner.path(info, np.array([10.0, 1.0, 0.1]))
        for k, alpha in enumerate((10.0, 1.0, 0.1)):
            one = learner.solve(info, alpha)
            assert abs(path.primal[k] - one.primal) <= path.gap[k] + one.gap


def test_the_rule(monkeypatch):
    hinge, logistic = Hinge(), Logistic()
    assert on_features.pays(2000, 500, hinge)
    assert not on_features.pays(2000, 501, hinge)
    assert on_features.pays(2000, 2000, logistic)
    assert on_features.pays(20_000, 20_000, hinge)
    assert not on_features.pays(20_000, 20_000, hinge, sparse=False)
    # solvers that were named for what they do on kernels, and learners without a way on features
    for learner in (
        learners.SimpleMKL(solver="newton"),
        learners.SILP(),
        learners.RKL(),
        learners.BestKernel(),
    ):
        assert not learner.on_features
        assert not learner.features_pay(2000, 10)
    assert learners.LpMKL(solver="dual-newton").on_features


def test_approximate_kernels_are_solved_on_their_features(data, monkeypatch):
    X, t = data
    y = t[:N] > 0
    seen = []
    real = learners.solving.solve_on
    monkeypatch.setattr(learners.solving, "solve_on", lambda *a, **k: seen.append(1) or real(*a, **k))
    bank = [RBF(gamma=0.02), RBF(gamma=0.1)]
    for learner in ("simple", learners.SoftMarginMKL(theta=0.7)):
        model = kw.MKLClassifier(bank, learner, approximation=kw.kernels.Nystroem(10)).fit(X[:N], y)
        assert "20 features, " in model.gram_
        assert model.status_ == "converged"
        assert model.score(X[N:], t[N:] > 0) > 0.6
    assert len(seen) == 2


def test_ctrl_c_keeps_the_coefficients_so_far(data, monkeypatch):
    X, t = data
    y = np.where(t[:N] > 0, 1.0, -1.0)
    calls = []
    real = newton.MarginDescent._step

    def step(self, *args):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(newton.MarginDescent, "_step", step)
    stack = kw.FeatureStack(X[:N], [0, 4, 9])
    got = kw.solve_svm_mkl(stack, y, 1e-3, "simplex", tol=1e-12)
    assert got.status is kw.solvers.Status.INTERRUPTED
    problem = kw.problems.margin_problem(stack, y, 1e-3)
    assert got.verify(problem).gap == pytest.approx(got.gap, rel=1e-6)
    assert 1e-12 < got.rel_gap < 1.0


def test_the_benchmark_fits(monkeypatch):
    from benchmarks import learners_on_features as benchmark

    monkeypatch.setattr(benchmark, "N_TEST", 100)
    record = benchmark.on_rows(150, "simple-squared-hinge", "nystroem-10")
    assert record["status"] == "converged"
    assert record["rel_gap"] <= benchmark.TOL
    assert 0.5 < record["accuracy"] <= 1.0


@pytest.mark.parametrize("kind", ["features", "kernels"])
def test_a_path_ends_at_an_interrupted_solution(data, monkeypatch, kind):
    X, t = data
    stack = kw.FeatureStack(X[:N], [0, 4, 9])
    owner, name = (newton.MarginDescent, "_step") if kind == "features" else (solving, "minimise")
    calls, real = [], getattr(owner, name)

    def interrupted(*args, **options):
        calls.append(1)
        if kind == "features" and len(calls) == 3:
            raise KeyboardInterrupt
        found = real(*args, **options)
        if kind == "features" or len(calls) < 2:
            return found
        return replace(found, certificate=replace(found.certificate, status=kw.solvers.Status.INTERRUPTED))

    monkeypatch.setattr(owner, name, interrupted)
    given = stack if kind == "features" else stack.gram()
    path = kw.solvers.svm_mkl_path(given, np.where(t[:N] > 0, 1, -1), [1e-3, 1e-2, 1e-1, 1.0], tol=1e-8)
    assert len(path) < 4
    assert path.status[-1] is kw.solvers.Status.INTERRUPTED


@pytest.mark.parametrize("sparse_weights", [False, True])
def test_the_machine_at_given_weights_is_that_of_their_sum(data, sparse_weights, rng):
    """Kernels without weight have no part in it, and coefficients of 0."""
    X, t = data
    rows = np.concatenate([k.transform(X[:N]) for k in BANK], axis=1)
    offsets = np.r_[0, np.cumsum([k.transform(X[:1]).shape[1] for k in BANK])]
    gram = FeatureGram(np.ascontiguousarray(rows.T), offsets)
    weights, scale = rng.uniform(0.5, 2.0, 5), rng.uniform(0.5, 2.0, 5)
    weights[[1, 4]] *= not sparse_weights
    machine = Machine(np.where(t[:N] > 0, 1.0, -1.0), 0.5, Hinge(), rng.uniform(0.5, 2.0, N))
    start = on_features.Start()
    want = machine.solve(gram.combine(weights * scale), tol=1e-9)
    for begin in (start, start):
        got = on_features.machine_on(gram, machine, scale, weights, begin, tol=1e-9)
        assert (got.certificate.kind, got.n_iter, got.n_machines) == ("machine", 1, 1)
        np.testing.assert_array_equal(got.weights, weights)
        assert abs(got.primal - want.primal) <= got.gap + want.gap
        f = rows @ got.feature_coef + got.intercept
        # known to the root of the gap
        np.testing.assert_allclose(
            f, gram.combine(weights * scale) @ want.dual_coef + want.intercept, atol=1e-3
        )
        assert (got.feature_coef[np.repeat(weights == 0, np.diff(offsets))] == 0).all()
        start.feature_coef = got.feature_coef


def test_where_features_are_cheaper_than_kernels():
    few, many = 1000, on_features.MANY_ROWS + 1
    for learner, n_rows, share in (
        (learners.RLS2(), few, 1.0),
        (learners.SimpleMKL(), few, on_features.SHARE_OF_HINGE),
        (learners.SimpleMKL(), many, on_features.SHARE),
        (learners.SimpleMKL(loss="logistic"), few, on_features.SHARE),
    ):
        most = int(share * n_rows)
        assert learner.features_pay(n_rows, most)
        assert not learner.features_pay(n_rows, most + 1)
    assert not learners.RLS2(solver="alternating").features_pay(few, 1)
    together = on_features.TOGETHER
    assert learners.LpMKL().most_features == together
    assert learners.LpMKL().features_pay(10**6, together)
    assert not learners.LpMKL().features_pay(10**6, together + 1)
    assert learners.SimpleMKL().most_features is None
    assert learners.SimpleMKL().features_pay(10**6, together + 1)
