"""Kernel logistic regression: against scikit-learn on explicit features, and with learnt kernel weights.

Modules: `machines/reweighted`.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kernelweave as kw
from kernelweave import _loops
from kernelweave.gram import as_gram
from kernelweave.machines.losses import Logistic
from kernelweave.machines.machine import Machine, OnKernel
from kernelweave.mkl.families import WeightedSum
from kernelweave.mkl.steps.rkl import RadiusProblem
from kernelweave.results import Status

CORES = [pytest.param(_loops.numpy_core, id="numpy")]
if _loops.HAS_EXTENSION:
    CORES.append(pytest.param(_loops.core, id="compiled"))


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 4))
    y = np.where(X[:, 0] + 0.8 * rng.normal(size=60) > 0.3, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("C", [1e-4, 0.1, 10.0, 1e4])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_scikit_learn(data, rng, C, weighted):
    X, y = data
    weight = np.r_[np.zeros(3), rng.uniform(0.2, 2.0, 57)] if weighted else np.ones(60)
    found = kw.solvers.solve_klr(X @ X.T, y, C, sample_weight=weight, tol=1e-10)
    known = LogisticRegression(C=C, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    known.fit(X, y, sample_weight=weight)
    w, t = known.coef_[0], known.intercept_[0]
    primal = 0.5 * w @ w + C * weight @ np.logaddexp(0.0, -y * (X @ w + t))
    assert found.status.ok
    assert found.rel_gap <= 1e-10
    assert found.primal == pytest.approx(primal, rel=1e-10)  # measured 2e-12
    # the objective grows with half the square of the distance: measured 1e-7
    np.testing.assert_allclose(X.T @ found.dual_coef, w, atol=3e-5 * np.sqrt(primal))
    problem = OnKernel(X @ X.T, Machine(y, C, Logistic(), weight))
    assert found.verify(problem).status is found.status
    assert (found.dual_coef[weight == 0] == 0).all()


def test_a_weight_equals_a_repetition_and_warm_starts_change_nothing(data, rng):
    X, y = data
    times = rng.integers(0, 4, 60)
    rows = np.repeat(np.arange(60), times)
    K = X @ X.T
    weighted = kw.solvers.solve_klr(K, y, 2.0, sample_weight=times, tol=1e-12)
    repeated = kw.solvers.solve_klr(K[np.ix_(rows, rows)], y[rows], 2.0, tol=1e-12)
    assert weighted.primal == pytest.approx(repeated.primal, rel=1e-11)
    assert weighted.intercept == pytest.approx(repeated.intercept, abs=1e-7)
    for start in (1e6 * rng.normal(size=60), weighted.dual_coef, 1e-3 * weighted.dual_coef):
        warm = kw.solvers.solve_klr(K, y, 2.0, sample_weight=times, tol=1e-12, start=start)
        assert warm.primal == pytest.approx(weighted.primal, rel=1e-11)
        assert warm.status.ok


@pytest.mark.slow
@pytest.mark.parametrize("widths", [(0.1, 3.0), (3.0, 0.03)])
def test_a_start_from_another_kernel_changes_nothing(widths, rng):
    """Damped steps leave an intercept that is not the best one, from which the next step must go down all the same."""
    for _ in range(60):
        X = rng.normal(size=(40, 3))
        s = X[:, 0] + 0.5 * X[:, 1] * X[:, 2]
        y = np.where(s > np.quantile(s, 0.7), 1.0, -1.0)
        D = np.square(X[:, None] - X[None]).sum(-1)
        first, second = (np.exp(-gamma * D) for gamma in widths)
        start = kw.solvers.solve_klr(first, y, 1e5, tol=1e-2).dual_coef
        found = kw.solvers.solve_klr(second, y, 1e5, start=start, tol=1e-8)
        assert found.status is Status.CONVERGED
        assert found.primal == pytest.approx(kw.solvers.solve_klr(second, y, 1e5, tol=1e-8).primal, rel=2e-8)


def test_a_start_that_is_near_enough_is_improved():
    """A solver of kernel weights asks again for coefficients that it can see the next kernel by."""
    x = np.array([-2.0, -1.0, 1.0, 3.0])
    K, y = np.outer(x, x), [-1.0, 1.0, -1.0, 1.0]
    near = kw.solvers.solve_klr(K, y, 1.0, tol=1e-3)
    again = kw.solvers.solve_klr(K, y, 1.0, tol=1e-3, start=near.dual_coef)
    assert again.n_iter == 1
    assert again.gap < near.gap


@pytest.mark.parametrize(
    ("weight_set", "method"),
    [
        ("simplex", "auto"),
        ("simplex", "reduced-gradient"),
        ("simplex", "cutting-plane"),
        (kw.weight_sets.CappedSimplex(0.4), "auto"),
        (kw.weight_sets.CappedSimplex(0.4), "closed-form"),
        (kw.weight_sets.LpBall(2.0), "auto"),
    ],
)
def test_weights_over_every_set(data, weight_set, method):
    X, y = data
    gram = X[:, None, :] * X[None, :, :]
    # cutting planes converge slowly: 3e-8 to 7e-8 after 500 machines (three seeds)
    tol = 1e-6 if method == "cutting-plane" else 1e-8
    found = kw.solve_svm_mkl(gram, y, 3.0, weight_set, loss="logistic", solver=method, tol=tol)
    assert found.status is Status.CONVERGED
    again = found.verify(kw.Problem(gram, y, "logistic", weight_set, 3.0).form)
    assert again.status is found.status
    known = kw.solve_svm_mkl(gram, y, 3.0, weight_set, loss="logistic", tol=1e-9)
    assert abs(found.primal - known.primal) <= found.gap + known.gap


def test_the_interior_point_needs_a_quadratic_dual(data):
    X, y = data
    gram = X[:, None, :] * X[None, :, :]
    with pytest.raises(kw.InputError, match="quadratic program"):
        kw.solve_svm_mkl(gram, y, 3.0, loss="logistic", solver="interior-point")


def test_the_optimal_value_has_the_derivatives_that_newton_takes(data, rng):
    X, y = data
    gram = X[:, None, :] * X[None, :, :]
    machine = Machine(y, 3.0, Logistic(), rng.uniform(0.5, 2.0, 60))
    d, step = np.array([0.4, 0.3, 0.2, 0.1]), 1e-4

    def at(d):
        b = machine.solve(gram @ d, tol=1e-14).dual_coef
        return b, -0.5 * np.einsum("i,ijm,j->m", b, gram, b)

    b, _ = at(d)
    V = np.einsum("ijm,j->mi", gram, b)
    H = machine.curvature(gram @ d, b, V)
    for m in range(4):
        e = step * (np.arange(4) == m)
        slope = (at(d + e)[1] - at(d - e)[1]) / (2 * step)
        np.testing.assert_allclose(H[m], slope, atol=1e-5 * np.abs(H).max())  # measured 1e-7


def test_rkl_is_defined_through_the_value_of_any_machine(data):
    X, y = data
    gram = X[:, None, :] * X[None, :, :]
    found = kw.solve_rkl(gram, y, 3.0, loss="logistic", tol=1e-6)
    assert found.status is Status.CONVERGED
    problem = RadiusProblem(WeightedSum(as_gram(gram), np.ones(4)), Machine(y, 3.0, Logistic()))
    assert found.verify(problem).status is found.status


def test_a_matrix_that_is_no_kernel_is_refused():
    K = np.array([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(kw.NotPSDError):
        kw.solvers.solve_klr(-10.0 * np.eye(2) + K, [-1.0, 1.0], 100.0)


def test_probabilities_that_round_to_zero_leave_no_coefficients():
    # a start with values of plus and minus 1000: every row is so sure that its probability of the other label is 0
    y = np.repeat([-1.0, 1.0], 5)
    K = 1e6 * np.outer(y, y)
    found = kw.solvers.solve_klr(K, y, 1e6, tol=1e-6, start=1e-4 * y)
    cold = kw.solvers.solve_klr(K, y, 1e6, tol=1e-6)
    assert found.status.ok
    assert found.primal == pytest.approx(cold.primal, rel=2e-6)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_start_from_which_every_loss_is_linear_keeps_its_steps_finite():
    # kernels and weights of rows over many decades: steps of infinite length, as a hostile problem once met
    K = np.array(
        [
            [1.3e10, 4.6e09, 8.2e09, 7.5e09, 8.3e09, 9.3e09, 8.3e09, 2.8e09],
            [0.0, 1.3e10, 4.3e09, 3.8e09, 8.0e09, 9.8e09, 4.3e09, 3.8e09],
            [0.0, 0.0, 1.3e10, 7.3e09, 6.3e09, 9.3e09, 6.3e09, 7.4e09],
            [0.0, 0.0, 0.0, 4.1e17, 9.1e09, 7.9e15, 1.1e10, 5.3e09],
            [0.0, 0.0, 0.0, 0.0, 1.3e10, 1.0e10, 9.8e09, 5.0e09],
            [0.0, 0.0, 0.0, 0.0, 0.0, 1.7e21, 8.9e09, 7.2e09],
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.3e10, 5.2e09],
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.7e10],
        ]
    )
    K = np.triu(K) + np.triu(K, 1).T
    y = np.array([1, -1, -1, -1, 1, -1, 1, 1], dtype=float)
    weights = np.array([1.2e09, 1.0e05, 4.3e11, 1.2e09, 1.4e07, 1.2e04, 1.7e04, 9.7e05])
    start = np.array([7.6e-08, -5.3e-08, -9.2e-08, -4.2e-16, 6.2e-08, -6.4e-20, 6.2e-10, 7.1e-09])
    found = kw.solvers.solve_klr(K, y, 1.0, sample_weight=weights, tol=1e-6, start=start)
    cold = kw.solvers.solve_klr(K, y, 1.0, sample_weight=weights, tol=1e-6)
    assert cold.status.ok
    assert found.status.ok
    assert found.dual <= cold.primal
    assert cold.dual <= found.primal


def imbalance(y, costs, f, t):
    """Difference of the logarithms of the residuals of both classes, which rises with t, in extended precision."""
    used = costs > 0
    y, f = y[used], f[used].astype(np.longdouble)
    logs = np.log(costs[used]) - np.logaddexp(np.longdouble(0.0), y * (f + np.longdouble(t)))
    sums = [logs[y == side] for side in (-1.0, 1.0)]
    below, above = (float(part.max() + np.log(np.exp(part - part.max()).sum())) for part in sums)
    return below - above


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("size", [0.0, 1.0, 3.0, 8.0, 20.0])
def test_the_intercept_balances_the_residuals(core, size, rng):
    for _ in range(40):
        n = int(rng.integers(2, 40))
        y = np.r_[-1.0, 1.0, np.sign(rng.normal(size=n - 2))]
        f = rng.normal(size=n) * 10 ** (size * rng.random())
        f += rng.integers(0, 2) * y * np.abs(f).max()
        costs = np.r_[1.0, 1.0, 10.0 ** rng.normal(0.0, 2.0, n - 2)]
        costs[2:][rng.random(n - 2) < 0.2] = 0.0
        t = core.logistic_intercept(y, costs, f)
        near = 1e-12 * max(1.0, abs(t))
        # differences of doubles at the largest f are no smaller than their spacing
        off = 4.0 * np.spacing(np.abs(f).max() + abs(t)) + 1e-12
        assert imbalance(y, costs, f, t - near) <= off
        assert imbalance(y, costs, f, t + near) >= -off


@pytest.mark.parametrize("core", CORES)
def test_the_intercept_of_separated_classes_lies_between_them(core):
    """No sum is a number in double precision, but the logarithms are."""
    y, f = np.array([-1.0, -1.0, 1.0, 1.0]), np.array([-3e5, -1e5, 2e5, 4e5])
    assert core.logistic_intercept(y, np.ones(4), f) == pytest.approx(-5e4, abs=1.0)
    # the class of larger costs has the larger margin
    assert core.logistic_intercept(y, np.array([1.0, 1.0, 1.0, 1.0]), 0.0 * f) == 0.0
    weighted = core.logistic_intercept(y, np.array([1.0, 1.0, np.exp(2.0), np.exp(2.0)]), f)
    assert weighted == pytest.approx(-5e4 + 1.0, abs=1e-6)
