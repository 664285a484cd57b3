"""The loss of counts against other solvers of the same problem, and its means wherever predictions are read.

Modules: `machines/losses`, `machines/reweighted`, `persistence/onnx_file`.
"""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import KFold

import kernelweave as kw
from kernelweave.fitting.folds import split_rows
from kernelweave.inspection.held import HeldOut
from kernelweave.machines.losses import Poisson
from kernelweave.machines.machine import Machine
from kernelweave_app.cli import main
from oracles import conic_value, factor_of, mkl_primal_by_conic
from problems import needs_long_double

LOSS, GROUPS = Poisson(), [0, 3, 6, 9]


def data(rng, n=40, level=1.0):
    """Features in three blocks, counts of which two blocks tell, and weights of rows with a zero."""
    Z = rng.normal(size=(n, 9))
    y = rng.poisson(level * np.exp(0.5 * Z[:, 0] - 0.4 * Z[:, 4])).astype(float)
    weight = rng.uniform(0.3, 2.0, n)
    weight[4] = 0.0
    return Z, y, weight


def stack_of(Z):
    return np.stack([Z[:, a:b] @ Z[:, a:b].T for a, b in itertools.pairwise(GROUPS)], axis=-1)


# ---- the optimum -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [0.02, 5.0])
def test_the_optimum_at_one_kernel_is_that_of_a_cone_program(C, fit_intercept, rng):
    import cvxpy as cp

    Z, y, weight = data(rng)
    K = Z[:, :3] @ Z[:, :3].T + np.exp(-0.3 * np.square(Z[:, None] - Z[None]).sum(-1))
    F = factor_of(K)
    w, t = cp.Variable(len(F)), cp.Variable() if fit_intercept else 0.0
    f = F.T @ w + t
    # a deviance of zero where the mean is the target
    terms = cp.exp(f) - cp.multiply(y, f) + xlogy(y, y) - y
    best = conic_value(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * weight @ terms)))
    found = Machine(y, C, LOSS, weight, fit_intercept=fit_intercept).solve(K, tol=1e-9)
    assert found.status is kw.solvers.Status.CONVERGED
    assert found.primal == pytest.approx(best, rel=1e-6)
    assert found.primal - found.gap == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("level", [0.3, 3.0, 1e4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_linear_kernel_has_the_coefficients_of_another_library(level, fit_intercept, rng):
    Z, y, weight = data(rng, 80, level)
    C = 3.0 / level
    found = Machine(y, C, LOSS, weight, fit_intercept=fit_intercept).solve(Z @ Z.T, tol=1e-13)
    other = PoissonRegressor(
        alpha=1.0 / (C * weight.sum()), fit_intercept=fit_intercept, tol=1e-10, max_iter=10_000
    ).fit(Z, y, sample_weight=weight)
    np.testing.assert_allclose(Z.T @ found.dual_coef, other.coef_, atol=1e-6)
    assert found.intercept == pytest.approx(other.intercept_, abs=1e-6)


def test_rates_with_exposures_as_weights_are_counts_with_an_offset(rng):
    import cvxpy as cp

    Z, *_ = data(rng)
    exposure = rng.uniform(0.2, 5.0, len(Z))
    counts = rng.poisson(exposure * np.exp(0.5 * Z[:, 0]))
    w, t = cp.Variable(9), cp.Variable()
    f = Z @ w + t + np.log(exposure)
    terms = cp.sum(cp.exp(f) - cp.multiply(counts, f))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + 2.0 * terms))
    conic_value(problem)
    found = kw.MKLRegressor(
        [kw.kernels.Linear()], kw.learners.Uniform(loss=LOSS, C=2.0, tol=1e-10), normalize="none"
    ).fit(Z, counts / exposure, sample_weight=exposure)
    # the digits of the cone program
    np.testing.assert_allclose(found.predict(Z), np.exp(Z @ w.value + t.value), rtol=1e-5)


@pytest.mark.parametrize("level", [1.0, 1e3])
@pytest.mark.parametrize("C", [1e-3, 0.3, 30.0])
def test_all_forms_of_kernels_have_one_optimum(C, level, rng):
    Z, y, weight = data(rng, 60, level)
    C = C / level
    given = {"loss": LOSS, "sample_weight": weight, "tol": 1e-8}
    stack = kw.FeatureStack(Z, GROUPS)
    dense = kw.solve_svm_mkl(stack_of(Z), y, C, **given)
    for kernels in (stack.gram(), stack):
        found = kw.solve_svm_mkl(kernels, y, C, **given)
        assert found.status is kw.solvers.Status.CONVERGED
        assert found.primal == pytest.approx(dense.primal, rel=2e-8)
    rows = kw.RowFeatures(Z, y, groups=GROUPS, sample_weight=weight)
    found = kw.solve_svm_mkl(rows, None, C, loss=LOSS, tol=1e-8)
    assert found.status is kw.solvers.Status.CONVERGED
    assert found.primal == pytest.approx(dense.primal, rel=2e-8)


def test_few_kernels_are_the_best_ones(rng):
    Z, y, weight = data(rng)
    gram, costs = stack_of(Z), 0.5 * weight

    def limits(d):
        return [d >= 0, sum(d) <= 1]

    best = min(
        mkl_primal_by_conic(gram[:, :, list(pair)], y, costs, limits, "poisson")
        for pair in itertools.combinations(range(3), 2)
    )
    found = kw.solvers.solve_cardinality_mkl(gram, y, 0.5, 2, loss=LOSS, sample_weight=weight, tol=1e-8)
    assert np.count_nonzero(found.weights) <= 2
    assert found.primal == pytest.approx(best, rel=1e-6)


# ---- digits ----------------------------------------------------------------------------------------------------------


@needs_long_double
@pytest.mark.parametrize("y", [0.0, 1e-3, 2.0, 1e9])
def test_gaps_and_values_keep_their_digits_near_zero(y):
    """In extended precision, of ratios: the terms are up to 1e14 times as large as the smallest results."""
    EXACT = np.longdouble

    def divergence(m, f):
        """``m log(m) - m f - m + exp(f)``."""
        u = f - np.log(m) if m > 0 else EXACT(0)
        return m * (np.expm1(u) - u) if m > 0 else np.exp(f)

    target, cost = np.array([y]), np.array([0.7])
    eps = float(np.finfo(float).eps)
    for step in (0.0, 1e-7, 1e-3, -0.5, 3.0):
        f = np.array([math.log(y) + step if y else -2.0 + step])
        exact = float(divergence(EXACT(y), EXACT(f[0])))
        # an error of the exponential has the slope of the loss
        off = 4.0 * eps * abs(math.exp(f[0]) - y) + 1e-30 * y
        assert LOSS.value(target, f)[0] == pytest.approx(exact, rel=1e-14, abs=off)
        for share in (-2.0, 0.0, 0.5, 1.0 - 1e-9, 1.0):
            b = cost * share * (y or float(share < 0))
            rest = max(EXACT(y) - EXACT(b[0]) / EXACT(cost[0]), EXACT(0))
            exact = float(cost[0]) * float(divergence(rest, EXACT(f[0])))
            found = LOSS.gap(target, cost, b, f)
            assert found >= 0.0
            assert abs(found - exact) <= LOSS.gap_error(target, cost, b, f) + 2.0 * eps * exact


def test_an_intercept_makes_the_mean_of_predictions_that_of_the_targets(rng):
    y, costs, product = np.array([0.0, 2.0, 7.0]), np.array([1.0, 0.5, 2.0]), np.array([300.0, -4.0, 1.0])
    for shift in (0.0, 700.0, -900.0):
        t = LOSS.intercept(y, costs, product + shift)
        assert costs @ np.exp(product + shift + t) == pytest.approx(costs @ y, rel=1e-12)


def test_predictions_far_away_are_numbers(rng):
    Z, y, _ = data(rng)
    model = kw.MKLRegressor([kw.kernels.Linear()], kw.learners.Uniform(loss=LOSS)).fit(Z, y)
    far = model.predict(1e6 * Z)
    assert np.isfinite(far).all()
    assert far.max() > 1e100
    assert far.min() == 0.0


# ---- what reads predictions ------------------------------------------------------------------------------------------


def fitted(rng, **settings):
    Z, y, _ = data(rng, 90, 2.0)
    learner = kw.learners.SimpleMKL(loss=LOSS)
    bank = [kw.kernels.RBF(0.1), kw.kernels.Linear()]
    return kw.MKLRegressor(bank, learner, **settings).fit(Z[:60], y[:60]), Z, y


def test_predictions_are_means_in_files_graphs_intervals_and_tests(rng, tmp_path):
    model, Z, y = fitted(rng, C=0.3)
    values = model.kernel_contributions(Z).sum(axis=1) + model.intercept_
    np.testing.assert_allclose(model.predict(Z), np.exp(values), rtol=1e-10)
    held = HeldOut.of(model, Z[60:], y[60:])
    np.testing.assert_allclose(held.prediction, model.predict(Z[60:]))
    low, high = model.predict_interval(Z[60:], 0.8).T
    assert (low >= 0.0).all()
    assert (low <= model.predict(Z[60:])).all()
    assert 0.6 <= np.mean((low <= y[60:]) & (y[60:] <= high)) <= 0.97
    # errors out of fold are those of means
    held = model.model_.out_of_fold
    assert np.median(np.abs(held.truth - held.values)) < 1.5
    path = tmp_path / "model.kw"
    kw.save(model, path)
    again = kw.load(path)
    assert again.learner.loss == LOSS
    np.testing.assert_allclose(again.predict(Z), model.predict(Z), rtol=1e-12)
    np.testing.assert_allclose(again.predict_interval(Z, 0.8), model.predict_interval(Z, 0.8), rtol=1e-12)
    ort = pytest.importorskip("onnxruntime")
    kw.to_onnx(model, tmp_path / "model.onnx")
    graph = ort.InferenceSession(str(tmp_path / "model.onnx"))
    np.testing.assert_allclose(graph.run(None, {"X": Z})[0].ravel(), model.predict(Z), rtol=1e-9)


def test_a_test_of_a_source_scores_means(rng):
    model, Z, y = fitted(rng, C=0.3)
    plain = kw.inspection.source_test(model, Z[60:], y[60:], n_permutations=19)
    named = kw.inspection.source_test(model, Z[60:], y[60:], scoring="r2", n_permutations=19)
    np.testing.assert_allclose(plain.loss, named.loss, rtol=1e-9)


def test_folds_choose_by_the_deviance(rng):
    Z, y, _ = data(rng, 60, 2.0)
    weight = rng.uniform(0.5, 2.0, 60)
    folds = KFold(3, shuffle=True, random_state=0)
    learner, Cs = kw.learners.Uniform(loss=LOSS), [0.01, 1.0]
    kernels = [kw.kernels.Linear()]
    found = kw.MKLRegressorCV(kernels, learner, Cs=Cs, cv=folds).fit(Z, y, sample_weight=weight)
    named = kw.MKLRegressorCV(kernels, learner, Cs=Cs, cv=folds, scoring="neg_mean_poisson_deviance").fit(
        Z, y, sample_weight=weight
    )
    for C in Cs:
        scores = []
        for train, test in folds.split(Z):
            one = kw.MKLRegressor(kernels, clone(learner).set_params(C=C))
            p = one.fit(Z[train], y[train], sample_weight=weight[train]).predict(Z[test])
            scores.append(-mean_poisson_deviance(y[test], p, sample_weight=weight[test]))
        at = int(np.argmin(np.abs(np.asarray(found.alphas_) - 1.0 / C)))
        assert found.cv_results_["mean_test_score"][at] == pytest.approx(0.5 * np.mean(scores), abs=1e-3)
        assert named.cv_results_["mean_test_score"][at] == pytest.approx(np.mean(scores), abs=2e-3)


@pytest.mark.full
def test_a_number_of_folds_shares_out_counts(rng):
    """Rows in order of their counts: without shares the training rows of one fold would all be 0."""
    Z, y = rng.normal(size=(30, 2)), np.repeat([2.0, 0.0], [4, 26])
    kernels, learner = [kw.kernels.Linear()], kw.learners.Uniform(loss=LOSS)
    model = kw.MKLRegressorCV(kernels, learner, cv=2, Cs=[0.1, 1.0]).fit(Z, y)
    assert np.isfinite(model.best_score_)
    assert [int((y[test] > 0).sum()) for _, test in split_rows(2, y, classes=LOSS.fold_classes(y))] == [2, 2]
    # folds that are given stay as they are
    halves = [(np.arange(15), np.arange(15, 30)), (np.arange(15, 30), np.arange(15))]
    with pytest.raises(kw.InputError, match="All targets are 0"):
        kw.MKLRegressorCV(kernels, learner, cv=halves, Cs=[0.1, 1.0]).fit(Z, y)
    # counts above 0 alone are no classes
    plain = kw.MKLRegressorCV(kernels, learner, cv=3, Cs=[0.1, 1.0]).fit(Z, y + 1.0)
    same = kw.MKLRegressorCV(kernels, learner, cv=KFold(3), Cs=[0.1, 1.0]).fit(Z, y + 1.0)
    assert plain.best_score_ == same.best_score_


def test_the_command_line_fits_and_predicts_means(rng, tmp_path):
    Z, y, _ = data(rng, 90, 2.0)
    table = pd.DataFrame(Z[:, :3], columns=list("abc"))
    table["y"] = y
    table.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "run"
    how = ["--target", "y", "--learner", "simple", "--loss", "poisson", "--cs", "0.1,1", "--cv", "3"]
    assert main(["fit", str(tmp_path / "t.csv"), *how, "--out", str(out)]) == 0
    model = kw.load(out / "model.skops")
    assert model.model_.learner.loss_for(False) == LOSS
    assert main(["predict", str(out), str(tmp_path / "t.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    found = pd.read_csv(tmp_path / "p.csv")
    f = model.kernel_contributions(table[list("abc")]).sum(axis=1) + model.intercept_
    np.testing.assert_allclose(found["prediction"], np.exp(f), rtol=1e-5)
    assert (found["low"] >= 0.0).all()
    assert (found["low"] <= found["prediction"]).all()


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_what_are_no_counts_is_refused(rng):
    Z, y, _ = data(rng)
    model = kw.MKLRegressor([kw.kernels.Linear()], kw.learners.SimpleMKL(loss="poisson"))
    with pytest.raises(kw.InputError, match=r"counts or rates.*got -3"):
        model.fit(Z, y - 3.0 * (np.arange(40) == np.flatnonzero(y == 0)[0]))
    with pytest.raises(kw.InputError, match="All targets are 0"):
        model.fit(Z, 0.0 * y)
    with pytest.raises(kw.InputError, match="All targets are 0"):
        kw.Problem((Z @ Z.T)[:, :, None], y, LOSS, sample_weight=(y == 0.0).astype(float))
    with pytest.raises(kw.InputError, match="counts or rates"):
        kw.MKLClassifier([kw.kernels.Linear()], kw.learners.SimpleMKL(loss="poisson")).fit(Z, y > 0)
