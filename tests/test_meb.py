"""The minimum enclosing ball: known balls, the cone solver, invariances, refusals.

Modules: `machines/ball`.
"""

import math

import numpy as np
import pytest

import kernelweave as kw
from kernelweave import solve_meb
from kernelweave.machines import ball
from kernelweave.machines.box import Box, kernel_product
from kernelweave.machines.rounding import EPS, sum_error
from oracles import central_difference, meb_by_conic


def rbf(X, gamma=0.3):
    return np.exp(-gamma * np.square(X[:, None] - X).sum(axis=2))


def check(ball, K, tol):
    """What every result promises, recomputed without the solver."""
    b = ball.dual_coef
    assert ball.status is kw.solvers.Status.CONVERGED
    assert ball.certificate.kind == "ball"
    assert 0 <= ball.rel_gap <= tol
    assert b.min() >= 0
    assert b.sum() == pytest.approx(1.0, abs=1e-14)
    assert ball.infeasibility <= 1e-14
    size = np.abs(K).max()
    assert ball.radius2 == pytest.approx(ball.dual + ball.rounding, rel=1e-15)
    assert ball.dual == pytest.approx(b @ np.diag(K) - b @ K @ b, rel=1e-9, abs=1e-13 * size)
    assert ball.center_norm2 == pytest.approx(b @ K @ b, rel=1e-12, abs=1e-14 * size)
    distances = np.diag(K) - 2 * K @ b + b @ K @ b
    assert ball.primal == pytest.approx(distances.max(), rel=1e-9, abs=1e-13 * size)
    assert ball.gap == pytest.approx(ball.primal - ball.dual, rel=1e-6, abs=1e-13 * size)


def test_known_balls():
    square = np.array([[0, 0], [0, 2], [2, 0], [2, 2], [1, 1.5]])
    ball = kw.solve_meb(square @ square.T, tol=1e-12)
    check(ball, square @ square.T, 1e-12)
    assert ball.radius2 == pytest.approx(2.0, rel=1e-12)
    np.testing.assert_allclose(square.T @ ball.dual_coef, [1.0, 1.0], atol=1e-12)
    # orthogonal points: the centre is their mean, r^2 = 1 - 1/n
    for n in (1, 2, 9):
        simplex = kw.solve_meb(np.eye(n))
        assert simplex.radius2 == pytest.approx(1 - 1 / n, abs=1e-14)
        np.testing.assert_allclose(simplex.dual_coef, 1 / n, atol=1e-7)


@pytest.mark.parametrize("kind", ["rbf", "linear", "polynomial"])
def test_values_of_the_cone_solver(kind, rng):
    X = rng.normal(size=(60, 4))
    K = {"rbf": rbf(X), "linear": X @ X.T, "polynomial": (1 + X @ X.T) ** 3}[kind]
    ball = kw.solve_meb(K, tol=1e-10)
    check(ball, K, 1e-10)
    expected = meb_by_conic(K)
    assert ball.radius2 == pytest.approx(expected, rel=1e-7)
    assert ball.primal == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("n", [3, 50, 400])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-12])
def test_tolerances_are_met(n, tol, rng):
    X = rng.normal(size=(n, 3))
    for K in (rbf(X), X @ X.T):
        check(kw.solve_meb(K, tol=tol), K, tol)


def test_invariances(rng):
    X = rng.normal(size=(80, 3))
    K = rbf(X)
    ball = kw.solve_meb(K, tol=1e-12)
    for a in (1e-9, 12.0, 1e9):
        assert kw.solve_meb(a * K, tol=1e-12).radius2 == pytest.approx(a * ball.radius2, rel=1e-11)
    # a constant moves all points together
    assert kw.solve_meb(K + 3.0, tol=1e-11).radius2 == pytest.approx(ball.radius2, rel=1e-10)
    order = rng.permutation(80)
    moved = kw.solve_meb(K[np.ix_(order, order)], tol=1e-12)
    np.testing.assert_allclose(moved.dual_coef, ball.dual_coef[order], atol=1e-6)
    twice = kw.solve_meb(np.tile(K, (2, 2)), tol=1e-11)
    assert twice.radius2 == pytest.approx(ball.radius2, rel=1e-10)


def test_the_ridge_is_added_to_the_diagonal(rng):
    X = rng.normal(size=(50, 2))
    ball = kw.solve_meb(X @ X.T, ridge=0.5, tol=1e-11)
    shifted = X @ X.T + 0.5 * np.eye(50)
    check(ball, shifted, 1e-11)
    assert ball.radius2 == pytest.approx(kw.solve_meb(shifted, tol=1e-11).radius2, rel=1e-10)
    assert ball.radius2 > kw.solve_meb(X @ X.T).radius2


def test_a_weight_is_as_many_rows_with_a_ridge_each(rng):
    X, weight = rng.normal(size=(20, 2)), np.arange(20) % 4
    rows = np.repeat(np.arange(20), weight)
    ball = kw.solve_meb(X @ X.T, ridge=0.5, sample_weight=weight, tol=1e-11)
    repeated = X[rows] @ X[rows].T + 0.5 * np.eye(len(rows))
    assert ball.radius2 == pytest.approx(meb_by_conic(repeated), rel=1e-7)
    assert not ball.dual_coef[weight == 0].any()


def test_the_derivative_in_the_kernel_is_that_of_the_dual_value(rng):
    X = rng.normal(size=(30, 3))
    kernels = [rbf(X, gamma) for gamma in (0.1, 1.0, 5.0)]
    theta = np.array([0.2, 0.5, 0.3])

    def radius2(theta):
        return kw.solve_meb(sum(w * K for w, K in zip(theta, kernels, strict=True)), tol=1e-12).radius2

    b = kw.solve_meb(sum(w * K for w, K in zip(theta, kernels, strict=True)), tol=1e-12).dual_coef
    gradient = [b @ np.diag(K) - b @ K @ b for K in kernels]
    np.testing.assert_allclose(gradient, central_difference(radius2, theta, 1e-5), atol=1e-7)
    assert theta @ gradient == pytest.approx(radius2(theta), rel=1e-12)


def test_a_single_point_and_equal_points():
    for K in (np.array([[4.0]]), np.full((6, 6), 3.0), np.zeros((4, 4))):
        ball = kw.solve_meb(K)
        assert ball.status is kw.solvers.Status.CONVERGED
        assert (ball.radius2, ball.gap, ball.rel_gap) == (0.0, 0.0, 0.0)


def test_a_warm_start_gives_the_same_answer_sooner(rng):
    X = rng.normal(size=(300, 3))
    first = kw.solve_meb(rbf(X), tol=1e-9)
    other = rbf(X, 0.31)
    cold, warm = kw.solve_meb(other, tol=1e-9), kw.solve_meb(other, tol=1e-9, start=first.dual_coef)
    assert warm.radius2 == pytest.approx(cold.radius2, rel=1e-8)
    assert warm.n_iter < 0.8 * cold.n_iter
    assert kw.solve_meb(rbf(X), tol=1e-9, start=first.dual_coef).n_iter <= 3
    for start in (np.zeros(300), -np.ones(300), 1e9 * rng.normal(size=300)):
        any_start = kw.solve_meb(other, tol=1e-9, start=start)
        assert any_start.radius2 == pytest.approx(cold.radius2, rel=1e-8)


def test_unfinished_balls_are_bracketed(rng):
    K = rbf(rng.normal(size=(200, 5)))
    best = kw.solve_meb(K, tol=1e-12)
    short = kw.solve_meb(K, tol=1e-12, max_iter=5)
    assert short.status is kw.solvers.Status.MAX_ITER
    assert short.dual < best.primal
    assert short.primal > best.dual
    assert short.rel_gap > 1e-4


def test_badly_scaled_kernels_end_with_a_status(rng):
    x = np.exp(rng.normal(scale=6.0, size=(60, 1)))
    ball = kw.solve_meb((1.0 + x @ x.T) ** 4, max_iter=50_000)
    assert ball.status.ok == (ball.rel_gap <= 1e-6)
    assert np.isfinite([ball.radius2, ball.primal, ball.gap]).all()


def test_refusals(rng):
    K = rbf(rng.normal(size=(20, 2)))
    for options, message in (
        ({"ridge": -1.0}, "ridge"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"start": np.ones(3)}, "start"),
        ({"on_indefinite": "x"}, "on_indefinite"),
    ):
        with pytest.raises(kw.InputError, match=message):
            kw.solve_meb(K, **options)
    with pytest.raises(kw.InputError, match="symmetric"):
        kw.solve_meb(np.tril(K))
    with pytest.raises(kw.InputError, match="shape"):
        kw.solve_meb(K[:3])
    with pytest.raises(kw.NotPSDError, match="distance"):
        kw.solve_meb(1 - K)
    crooked = K - 3 * np.outer(np.sin(np.arange(20)), np.sin(np.arange(20)))
    np.fill_diagonal(crooked, 1.0)
    assert np.linalg.eigvalsh(crooked)[0] < -1
    with pytest.raises(kw.NotPSDError, match="on_indefinite"):
        kw.solve_meb(crooked)
    assert kw.solve_meb(crooked, on_indefinite="clip").status is kw.solvers.Status.CONVERGED
    assert kw.solve_meb(crooked, on_indefinite="shift").status is kw.solvers.Status.CONVERGED


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_a_ball_is_what_it_was(ridge, recorded):
    """With weights of rows of which some are zero, from a start and from none, also where steps end early."""
    rng = np.random.default_rng(0)
    X, weight, start = rng.normal(size=(34, 3)), rng.uniform(0.3, 3.0, 34), rng.uniform(-0.2, 1.0, 34)
    weight[[2, 20]] = 0.0
    # the row farthest from the rest has no weight
    X[20] *= 10.0
    K, found = X @ X.T, {}
    for begin in (None, start):
        for most in (1, 3, None):
            at = solve_meb(K, ridge=ridge, sample_weight=weight, tol=1e-9, max_iter=most, start=begin)
            values = at.radius2, at.center_norm2, at.primal, at.support
            found[f"{begin is None} {most}"] = [at.dual_coef, *values]
            assert at.radius2 == at.primal - at.own_gap
            assert at.infeasibility <= 1e-12
            assert at.certificate.kind == "ball"
    recorded("balls", found, rtol=1e-5)
    b = found["True None"][0]
    distances = np.diag(K) + ridge - 2.0 * (K @ b + ridge * b / np.where(weight > 0, weight, 1.0))
    inner = b @ K @ b + ridge * (b**2)[weight > 0] @ (1.0 / weight[weight > 0])
    assert found["True None"][3] == pytest.approx((distances + inner)[weight > 0].max(), rel=1e-9)


def test_values_of_a_ball_by_their_formulas(rng):
    """At any coefficients: the farthest row, the gap, and bounds of rounding errors that cover exact arithmetic."""
    X = rng.normal(size=(12, 3))
    K, ridge, b = X @ X.T, rng.uniform(0.0, 0.5, 12), rng.dirichlet(np.ones(12))
    b[3], upper = 0.0, np.ones(12)
    upper[3] = 0.0
    diagonal = np.diag(K) + 0.3
    problem = ball._Enclosing(K, Box(-0.5 * diagonal, ridge, np.zeros(12), upper), total=1.0)
    product, error = kernel_product(K, b)
    at = problem.values(b, product)
    Q = K + np.diag(ridge)
    distances = diagonal - 2.0 * Q @ b + b @ Q @ b
    assert at.primal == pytest.approx(np.delete(distances, 3).max(), rel=1e-12)
    assert at.gap == pytest.approx(b @ (at.primal - distances), rel=1e-12)
    assert at.intercept == 0.0
    np.testing.assert_array_equal(problem.inside, upper > 0)
    # 14 terms at most in each sum of 12, and twice in the gap
    middle = b @ (error + EPS * np.abs(Q @ b)) + sum_error(12) * (b @ np.abs(Q @ b))
    own = 2.0 * (error + EPS * np.abs(Q @ b)) + EPS * (np.abs(diagonal - 2.0 * Q @ b) + np.abs(distances))
    primal = np.delete(distances + own, 3).max() - at.primal + middle
    away = abs(math.fsum(b) - 1.0) + sum_error(12)
    expected = primal + middle + away * (b @ diagonal + 2.0 * b @ np.abs(Q @ b))
    assert problem.rounding(b, product, at, error) == pytest.approx(expected, rel=1e-9)
    # around one row there are no sums
    one = np.eye(12)[5]
    product = K @ one
    at = problem.values(one, product)
    distances = diagonal - 2.0 * Q[5] + Q[5, 5]
    own = EPS * (np.abs(diagonal - 2.0 * Q[5]) + np.abs(distances)) * (distances != 0)
    expected = np.delete(distances + own, 3).max() - at.primal
    assert problem.rounding(one, product, at, error) == pytest.approx(expected, rel=1e-6, abs=1e-300)
    seen = problem.look(b)
    np.testing.assert_allclose(seen[-3:], problem.values(seen.b, seen.product), rtol=1e-12)
    assert seen.rounding == problem.rounding(
        seen.b, seen.product, problem.values(seen.b, seen.product), seen.error
    )
