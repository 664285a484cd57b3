"""Gaps of models on approximate kernels in the problem of the kernels themselves.

Modules: `fitting/omitted`.
"""

from __future__ import annotations

import numpy as np
import pytest

import kernelweave as kw
from kernelweave.fitting import omitted
from kernelweave.kernels import RBF, Linear, Nystroem, RandomFeatures, exact_kernel
from kernelweave.learners import RLS2

N = 150
BANK = [
    RBF(gamma=0.05),
    RBF(gamma=("median", 2.0)).on([0, 1]),
    2.0 * RBF(gamma=0.3).prepared("standardize"),
    Linear(),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=N)


def true_stack(model, X):
    """The kernels themselves with the normalisation of the model."""
    fitted = model.normalizers_[0]
    K = np.stack([exact_kernel(k)(X) for k in model.kernels_])
    if fitted.probability is not None:
        centring = np.eye(len(X)) - fitted.probability
        K = centring @ K @ centring.T
    return K * fitted.scale[:, None, None]


def dual_of(K, y, c, alpha, weight, d=None):
    """The best multiple of coefficients in the dual, of learnt or of given weights."""
    q = np.einsum("i,mij,j->m", c, K, c)
    return 0.5 * (y @ c) ** 2 / (c @ (c / weight) + (q.max() if d is None else d @ q) / alpha)


def objective_of(K, y, c, d, alpha, weight):
    """The objective of weights and dual coefficients."""
    f = np.einsum("m,mij,j->i", d, K, c)
    return 0.5 * weight @ (y - f) ** 2 + 0.5 * alpha * c @ f


@pytest.mark.parametrize("normalize", ["mean-diagonal", "center"])
@pytest.mark.parametrize("rule", [Nystroem(25), RandomFeatures(60)])
@pytest.mark.parametrize(("weighted", "intercept"), [(False, True), (True, True), (True, False)])
def test_gaps_are_those_of_the_kernels_themselves(data, normalize, rule, weighted, intercept):
    X, y = data
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=N) if weighted else np.ones(N)
    # without an intercept coefficients of centred kernels have a sum
    how = {"normalize": normalize, "approximation": rule, "fit_intercept": intercept}
    model = kw.MKLRegressor(BANK, RLS2(alpha=2.0), **how).fit(X, y, weight if weighted else None)
    found = model.approximation_
    K = true_stack(model, X)
    target = y - model.intercept_
    c, d = model.dual_coef_, model.weights_
    dual = dual_of(K, target, c, 2.0, weight)
    exact = isinstance(rule, Nystroem)
    primal = model.objective_ if exact else objective_of(K, target, c, d, 2.0, weight)
    assert found["n_rows"] == N
    assert found["true_gap_error"] == 0.0
    assert found["true_gap"] == pytest.approx(1.0 - dual / primal, rel=1e-6)
    # the optimum of the true problem lies between
    best = kw.solve_rls2(np.moveaxis(K, 0, -1), target, 2.0, sample_weight=weight, tol=1e-9).primal
    assert dual <= best * (1 + 1e-9)
    assert best <= primal * (1 + 1e-7)
    if exact:
        assert found["true_gap"] <= found["true_gap_bound"] + 1e-9
    else:
        assert found["true_gap_bound"] is None


def test_bounds_fall_to_nothing_with_the_number_of_pivots(data):
    X, y = data
    bounds = [
        kw.MKLRegressor(BANK, RLS2(alpha=2.0), approximation=Nystroem(n, tol=0.0)).fit(X, y).approximation_
        for n in (10, 40, 100, N)
    ]
    assert (np.diff([one["true_gap_bound"] for one in bounds]) < 0).all()
    assert bounds[-1]["true_gap_bound"] < 1e-6
    assert bounds[-1]["true_gap"] < 1e-6


@pytest.mark.parametrize("rule", [Nystroem(15), RandomFeatures(20)])
def test_a_sample_of_rows_estimates_the_gap(data, monkeypatch, rule):
    X, y = data

    def fit():
        model = kw.MKLRegressor(BANK, RLS2(alpha=2.0), approximation=rule, normalize="center")
        return model.fit(X, y)

    model = fit()
    whole = model.approximation_["true_gap"]
    monkeypatch.setattr(omitted, "EVERY", 50)
    monkeypatch.setattr(omitted, "DRAWN", 80)
    solved = []
    monkeypatch.setattr(
        "kernelweave.estimators.routes.true_gap", lambda task, given: solved.append((task, given))
    )
    fit()
    found = [omitted.true_gap(*solved[0], seed=seed) for seed in range(40)]
    estimates, errors = (np.array([getattr(one, name) for one in found]) for name in ("estimate", "error"))
    assert found[0].n_rows == 80
    assert abs(estimates.mean() - whole) < 5 * errors.mean() / np.sqrt(40) + 0.05 * whole
    assert 0.5 < errors.mean() / estimates.std() < 2.0


def test_relaxed_models_classes_and_outputs_have_gaps(data):
    X, y = data
    relaxed = kw.MKLRegressor(BANK, RLS2(alpha=2.0, relax=0.1), approximation=Nystroem(40)).fit(X, y)
    K = true_stack(relaxed, X)
    d, c = relaxed.weights_, relaxed.dual_coef_
    target = y - relaxed.intercept_
    dual = dual_of(K, target, c, 0.1, np.ones(N), d)
    primal = relaxed.approximation_["true_gap"], relaxed.approximation_["true_gap_bound"]
    # ridge regression with the learnt weights, in closed form
    best = 0.05 * target @ np.linalg.solve(np.einsum("m,mij->ij", d, K) + 0.1 * np.eye(N), target)
    assert dual <= best * (1 + 1e-9)
    assert 0 < primal[0] <= primal[1]
    assert dual / (1.0 - primal[0]) >= best

    three = np.digitize(y, [-0.5, 0.5])
    classes = kw.MKLClassifier(BANK, RLS2(alpha=2.0), approximation=Nystroem(40)).fit(X, three)
    K = true_stack(classes, X)
    duals = [
        dual_of(K, np.where(three == k, 1.0, -1.0) - b, c, 2.0, np.ones(N))
        for k, (b, c) in enumerate(zip(classes.intercept_, classes.dual_coef_.T, strict=True))
    ]
    assert classes.approximation_["true_gap"] == pytest.approx(
        1.0 - sum(duals) / classes.objective_, rel=1e-6
    )
    for shared in (True, False):
        outputs = kw.MKLRegressor(
            BANK, RLS2(alpha=2.0, shared_weights=shared), approximation=Nystroem(N, tol=0.0)
        )
        assert outputs.fit(X, np.c_[y, X[:, 0]]).approximation_["true_gap_bound"] < 1e-6


def test_models_without_such_gaps_say_what_is_left_out(data):
    X, y = data
    svm = kw.MKLClassifier(BANK, "simple", C=1.0, approximation=Nystroem(20)).fit(X, y > 0)
    assert set(svm.approximation_) == {"maps", "left_out", "left_out_bound"}
    assert set(svm.approximation_["left_out"]) == set(svm.kernel_names_[:3])
    cosine = kw.MKLRegressor(BANK, alpha=1.0, approximation=Nystroem(20), normalize="cosine").fit(X, y)
    assert "true_gap" not in cosine.approximation_
    assert not hasattr(kw.MKLRegressor(BANK, alpha=1.0).fit(X, y), "approximation_")
