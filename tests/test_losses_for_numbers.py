"""Losses for numbers against other solvers of the same problem, and in estimators, files and commands.

Modules: `machines/losses`, `persistence/states`.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import KFold

import kernelweave as kw
from kernelweave.machines.losses import EpsilonInsensitive, Huber, Quantile
from kernelweave.machines.machine import Machine
from oracles import conic_value, factor_of


def terms(loss, y, f):
    """The losses of the rows, as an expression of CVXPY."""
    import cvxpy as cp

    if isinstance(loss, Quantile):
        return cp.maximum(loss.q * (y - f), (loss.q - 1) * (y - f))
    return 0.5 * cp.huber(y - f, loss.delta)


def data(loss, rng, n=30):
    """A kernel, targets with outliers, and weights of rows with a zero."""
    X = rng.normal(size=(n, 3))
    K = X @ X.T + np.exp(-np.square(X[:, None] - X[None]).sum(-1))
    y = X[:, 0] + 0.5 * rng.standard_t(2, size=n)
    weight = rng.uniform(0.2, 2.0, n)
    weight[3] = 0.0
    return X, K, y, weight


EVERY = pytest.mark.parametrize(
    "loss", [Huber(0.05), Huber(0.5), Huber(50.0), Quantile(0.1), Quantile(0.5), Quantile(0.93)], ids=str
)


@pytest.mark.sampled(3)
@EVERY
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [0.02, 5.0])
def test_the_optimum_at_one_kernel_is_that_of_a_cone_program(loss, C, fit_intercept, rng):
    import cvxpy as cp

    _, K, y, weight = data(loss, rng)
    F = factor_of(K)
    w, t = cp.Variable(len(F)), cp.Variable() if fit_intercept else 0.0
    objective = 0.5 * cp.sum_squares(w) + C * weight @ terms(loss, y, F.T @ w + t)
    best = conic_value(cp.Problem(cp.Minimize(objective)))
    found = Machine(y, C, loss, weight, fit_intercept=fit_intercept).solve(K, tol=1e-9)
    assert found.status is kw.solvers.Status.CONVERGED
    assert found.primal == pytest.approx(best, rel=1e-6)
    assert found.primal - found.gap == pytest.approx(best, rel=1e-6)


def test_ends_of_huber_are_other_losses(rng):
    """Squares where delta is beyond all distances; delta times the absolute error where it is below all of them."""
    _, K, y, weight = data(Huber(), rng)
    far = Machine(y, 2.0, Huber(1e3), weight).solve(K, tol=1e-12)
    squares = Machine(y, 2.0, kw.losses.Squared(), weight, fit_intercept=True).solve(K, tol=1e-12)
    np.testing.assert_allclose(far.dual_coef, squares.dual_coef, atol=1e-6 * np.abs(squares.dual_coef).max())
    near = Machine(y, 2e4, Huber(1e-4), weight).solve(K, tol=1e-9)
    absolute = Machine(y, 2.0, EpsilonInsensitive(0.0), weight).solve(K, tol=1e-9)
    # the square is missing: at most delta / 2 of every row
    assert near.primal == pytest.approx(absolute.primal, abs=2.0 * weight.sum() * 0.5e-4)


@EVERY
def test_estimators_paths_and_files_take_it(loss, rng, tmp_path):
    X, _, y, _ = data(loss, rng, n=60)
    learner = kw.learners.SimpleMKL(loss=loss)
    model = kw.MKLRegressorCV(kw.banks.rkl(), learner, Cs=[0.1, 1.0], cv=3).fit(X, y)
    assert model.rel_gap_ <= 1e-3
    path = tmp_path / "model.kw"
    kw.save(model, path)
    again = kw.load(path)
    assert again.learner.loss == loss
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-12)


def test_quantiles_of_a_weak_penalty_are_those_of_a_linear_program(rng):
    """With a large C the linear kernel has the solution of quantile regression without a penalty."""
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + (1.0 + np.abs(X[:, 1])) * rng.normal(size=60)
    for q in (0.2, 0.5, 0.9):
        found = Machine(y, 1e4, Quantile(q)).solve(X @ X.T, tol=1e-10)
        other = QuantileRegressor(quantile=q, alpha=0.0).fit(X, y)
        np.testing.assert_allclose(X.T @ found.dual_coef, other.coef_, atol=1e-6)
        assert found.intercept == pytest.approx(other.intercept_, abs=1e-6)


@pytest.mark.parametrize("q", [0.1, 0.8])
def test_a_share_of_the_targets_is_below(q, rng):
    """The intercept leaves at most q of the rows below and at most 1 - q above, besides those it goes through."""
    _, K, y, _ = data(Quantile(q), rng, n=80)
    found = Machine(y, 1.0, Quantile(q)).solve(K, tol=1e-9)
    rest = y - K @ found.dual_coef - found.intercept
    slack = 1e-6 * np.abs(y).max()
    assert (rest < -slack).mean() <= q <= 1.0 - (rest > slack).mean()


def test_folds_of_a_quantile_choose_by_its_loss(rng):
    """Scores are minus the mean pinball loss of the folds, weighted; those of other losses stay what they were."""
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.exponential(size=60)
    weight = rng.uniform(0.5, 2.0, 60)
    folds = KFold(3, shuffle=True, random_state=0)
    learner, Cs = kw.learners.Uniform(loss=Quantile(0.9)), [0.1, 10.0]
    found = kw.MKLRegressorCV([kw.kernels.Linear()], learner, Cs=Cs, cv=folds).fit(X, y, sample_weight=weight)
    for k, C in enumerate(sorted(Cs)):
        scores = []
        for train, test in folds.split(X):
            one = kw.MKLRegressor([kw.kernels.Linear()], clone(learner).set_params(C=C))
            p = one.fit(X[train], y[train], sample_weight=weight[train]).predict(X[test])
            scores.append(-mean_pinball_loss(y[test], p, alpha=0.9, sample_weight=weight[test]))
        at = int(np.argmin(np.abs(np.asarray(found.alphas_) - 1.0 / C)))
        assert found.cv_results_["mean_test_score"][at] == pytest.approx(np.mean(scores), abs=1e-3), k
    with_name = kw.MKLRegressor([kw.kernels.Linear()], learner, C="auto").fit(X, y)
    assert "quantile loss" in with_name.explain_defaults()


def test_an_intercept_of_flat_sums_is_the_middle():
    """Two rows far apart with the same weight: anything between their linear parts is best."""
    loss = Huber(0.5)
    found = loss.intercept(np.array([0.0, 10.0]), np.ones(2), np.zeros(2))
    assert found == pytest.approx(5.0, abs=1e-9)
    # a delta far beyond all distances loses no digits
    assert Huber(1e12).intercept(np.array([0.0, 1.0, 5.0]), np.ones(3), np.zeros(3)) == pytest.approx(2.0)


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan, "wide"])
def test_parameters_are_checked(delta):
    with pytest.raises(kw.InputError, match="delta"):
        Huber(delta)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.2, np.nan])
def test_quantiles_are_shares(q):
    with pytest.raises(kw.InputError, match="q"):
        Quantile(q)


def of_quantiles(seed, n=300):
    """Targets whose scale depends on the second column, and half of the rows for a test."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    y = 0.3 * X[:, 0] + np.exp(1.2 * X[:, 1]) * rng.normal(size=n)
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.mark.parametrize("q", [0.1, 0.9])
def test_layers_of_kernels_are_learnt_by_the_loss_of_the_machine(q):
    """With the squared error as criterion the shares are 0.52 and 0.55."""
    shares = []
    for seed in range(3):
        X, y, Z, z = of_quantiles(seed)
        learner = kw.learners.MLMKL(n_layers=2, C=1.0, max_iter=20, loss=Quantile(q))
        model = kw.MKLRegressor(kw.banks.mlmkl(), learner, normalize="cosine").fit(X, y)
        shares.append(np.mean(z < model.predict(Z)))
    assert abs(np.mean(shares) - q) < 0.15


def test_the_best_kernel_is_that_of_the_least_loss():
    taken = []
    for seed in range(4):
        X, y, *_ = of_quantiles(seed)
        bank = [kw.kernels.RBF(2.0).on([j]) for j in range(2)]
        learner = kw.learners.BestKernel(loss=Quantile(0.9))
        taken.append(kw.MKLRegressor(bank, learner).fit(X, y).weights_[1] > 0)
    assert all(taken)
