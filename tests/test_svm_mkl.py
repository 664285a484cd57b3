"""Margin MKL over sets of weights: optimal values, certificates, agreement of the methods, limits."""

import cvxpy as cp
import numpy as np
import pytest

from kernelweave import InputError, solve_svc, solve_svm_mkl, solve_svr
from kernelweave._loops import core, numpy_core
from kernelweave.solvers.weight_sets import CappedSimplex, LpBall, Orthant, Simplex, Sphere

N = 36


@pytest.fixture
def stack(rng):
    X = rng.normal(size=(N, 4))
    squared = np.square(X[:, None] - X[None]).sum(axis=-1)
    smooth = np.stack([np.exp(-gamma * squared) for gamma in (0.05, 0.5)], axis=-1)
    K = np.concatenate([smooth, X[:, None, :2] * X[None, :, :2]], axis=2)
    return K * N / np.einsum("iim->m", K), X


def targets(X, rng, loss):
    if loss == "epsilon-insensitive":
        return np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.05 * rng.normal(size=len(X))
    return np.sign(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X)) + 0.2)


def conic(stack, y, C, loss, epsilon=0.1, p=None, cap=None, weight=None):
    """The optimal value from the dual: max_b reward(b) - 1/2 sigma(q(b))."""
    n, m = len(y), stack.shape[2]
    cost = C * (np.ones(n) if weight is None else weight)
    b = cp.Variable(n)
    q = []
    for k in range(m):
        values, vectors = np.linalg.eigh(stack[:, :, k])
        keep = values > 1e-12 * values[-1]
        q.append(cp.sum_squares((vectors[:, keep] * np.sqrt(values[keep])).T @ b))
    q = cp.hstack(q)
    constraints = [cp.sum(b) == 0]
    reward = y @ b
    if loss == "epsilon-insensitive":
        constraints += [cp.abs(b) <= cost]
        reward -= epsilon * cp.norm1(b)
    else:
        constraints += [cp.multiply(y, b) >= 0]
        if loss == "hinge":
            constraints += [cp.multiply(y, b) <= cost]
        else:
            reward -= 0.5 * cp.sum_squares(b / np.sqrt(cost))
    if p is not None:
        sigma = cp.pnorm(q, p / (p - 1))
    elif cap is not None:
        tau, zeta = cp.Variable(), cp.Variable(m)
        constraints += [zeta >= 0, q <= tau + zeta]
        sigma = tau + cap * cp.sum(zeta)
    else:
        sigma = cp.max(q)
    task = cp.Problem(cp.Maximize(reward - 0.5 * sigma), constraints)
    task.solve(solver=cp.CLARABEL)
    return float(task.value)


LOSSES = ["hinge", "squared-hinge", "epsilon-insensitive"]


@pytest.mark.parametrize("C", [1e-3, 0.1, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("loss", LOSSES)
def test_simplex_reaches_the_conic_optimum(stack, rng, loss, C):
    K, X = stack
    y = targets(X, rng, loss)
    optimum = conic(K, y, C, loss)
    found = solve_svm_mkl(K, y, C, loss=loss, tol=1e-8)
    # the cone solver's own tolerance is 1e-8
    assert found.primal == pytest.approx(optimum, rel=1e-5)
    assert found.rel_gap <= 1e-8
    assert found.status.ok


# at p = 4 and C = 100 the cone solver itself calls its answer inaccurate; the agreement is to 1e-6 all the same
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate:UserWarning")
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("p", [4 / 3, 2.0, 4.0])
@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive"])
def test_lp_reaches_the_conic_optimum(stack, rng, loss, p, C):
    K, X = stack
    y = targets(X, rng, loss)
    found = solve_svm_mkl(K, y, C, LpBall(p), loss=loss, tol=1e-7)
    assert found.primal == pytest.approx(conic(K, y, C, loss, p=p), rel=1e-5)
    assert found.status.ok
    assert np.sum(found.weights**p) == pytest.approx(1.0)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("cap", [0.25, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive"])
def test_capped_simplex_reaches_the_conic_optimum(stack, rng, loss, cap, C):
    K, X = stack
    y = targets(X, rng, loss)
    found = solve_svm_mkl(K, y, C, CappedSimplex(cap), loss=loss, tol=1e-7)
    assert found.primal == pytest.approx(conic(K, y, C, loss, cap=cap), rel=1e-5)
    assert found.status.ok
    assert found.weights.max() <= cap + 1e-12
    assert found.weights.sum() == pytest.approx(1.0)


def test_sample_weights_reach_the_conic_optimum(stack, rng):
    K, X = stack
    y = targets(X, rng, "hinge")
    weight = rng.uniform(0.2, 3.0, N)
    found = solve_svm_mkl(K, y, 1.0, sample_weight=weight, tol=1e-8)
    assert found.primal == pytest.approx(conic(K, y, 1.0, "hinge", weight=weight), rel=1e-6)


@pytest.mark.parametrize("most", [1, 2, 4, 50])
@pytest.mark.parametrize("weight_set", [Simplex(), CappedSimplex(0.4), LpBall(2.0)])
def test_the_gap_is_a_certificate(stack, rng, weight_set, most):
    K, X = stack
    y = targets(X, rng, "hinge")
    optimum = solve_svm_mkl(K, y, 5.0, weight_set, tol=1e-9).dual
    found = solve_svm_mkl(K, y, 5.0, weight_set, tol=1e-9, max_iter=most)
    assert found.dual <= optimum * (1 + 1e-9)
    assert found.primal >= optimum * (1 - 1e-9)
    assert found.gap == pytest.approx(found.primal - found.dual)
    assert weight_set.violation(found.weights) < 1e-9
    if most == 1:
        assert found.status.name == "MAX_ITER"


@pytest.mark.parametrize("method", ["newton", "cutting-plane", "reduced-gradient"])
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_methods_agree_and_keep_their_tolerance(stack, rng, method, tol):
    K, X = stack
    y = targets(X, rng, "hinge")
    optimum = solve_svm_mkl(K, y, 2.0, tol=1e-9).dual
    found = solve_svm_mkl(K, y, 2.0, method=method, tol=tol)
    assert found.status.ok
    assert found.rel_gap <= tol
    assert optimum * (1 - 1e-9) <= found.primal <= optimum * (1 + 1.001 * tol)


def test_closed_form_agrees_with_newton(stack, rng):
    K, X = stack
    y = targets(X, rng, "hinge")
    one = solve_svm_mkl(K, y, 2.0, CappedSimplex(0.35), tol=1e-6)
    two = solve_svm_mkl(K, y, 2.0, CappedSimplex(0.35), tol=1e-6, method="closed-form")
    assert one.primal == pytest.approx(two.primal, rel=2e-6)


def test_limits(stack, rng):
    K, X = stack
    y = targets(X, rng, "hinge")
    average = solve_svc(K.mean(axis=2), y, 2.0, tol=1e-9)
    assert solve_svm_mkl(K, y, 2.0, CappedSimplex(0.25), tol=1e-8).primal == pytest.approx(
        average.primal, rel=1e-7
    )
    full = solve_svm_mkl(K, y, 2.0, tol=1e-8).primal
    assert solve_svm_mkl(K, y, 2.0, CappedSimplex(1.0), tol=1e-8).primal == pytest.approx(full, rel=1e-7)
    total = solve_svc(K.sum(axis=2), y, 2.0, tol=1e-9)
    assert solve_svm_mkl(K, y, 2.0, LpBall(1e6), tol=1e-7).primal == pytest.approx(total.primal, rel=1e-5)
    alone = solve_svm_mkl(K[:, :, :1], y, 2.0, tol=1e-8)
    assert alone.weights.tolist() == [1.0]
    assert alone.primal == pytest.approx(solve_svc(K[:, :, 0], y, 2.0, tol=1e-9).primal, rel=1e-8)
    t = targets(X, rng, "epsilon-insensitive")
    alone = solve_svm_mkl(K[:, :, :1], t, 2.0, loss="epsilon-insensitive", tol=1e-8)
    assert alone.primal == pytest.approx(solve_svr(K[:, :, 0], t, 2.0, 0.1, tol=1e-9).primal, rel=1e-8)


def test_invariances(stack, rng):
    K, X = stack
    y = targets(X, rng, "hinge")
    plain = solve_svm_mkl(K, y, 2.0, tol=1e-9)
    kernels, rows = rng.permutation(4), rng.permutation(N)
    moved = solve_svm_mkl(K[np.ix_(rows, rows, kernels)], y[rows], 2.0, tol=1e-9)
    np.testing.assert_allclose(moved.weights, plain.weights[kernels], atol=1e-5)
    assert moved.primal == pytest.approx(plain.primal, rel=1e-8)
    doubled = solve_svm_mkl(np.concatenate([K, K[:, :, :1]], axis=2), y, 2.0, tol=1e-9)
    assert doubled.primal == pytest.approx(plain.primal, rel=1e-8)
    zero = solve_svm_mkl(np.concatenate([K, np.zeros((N, N, 1))], axis=2), y, 2.0, tol=1e-9)
    assert zero.weights[-1] <= 1e-8
    scale = rng.uniform(0.5, 2.0, 4)
    by_scale = solve_svm_mkl(K, y, 2.0, scale=scale, tol=1e-9)
    assert by_scale.primal == pytest.approx(solve_svm_mkl(K * scale, y, 2.0, tol=1e-9).primal, rel=1e-8)
    flipped = solve_svm_mkl(K, -y, 2.0, tol=1e-9)
    assert flipped.primal == pytest.approx(plain.primal, rel=1e-8)
    weights = np.where(np.arange(N) % 2 == 0, 2.0, 1.0)
    weights[:3] = 0.0
    copies = np.repeat(np.arange(N), weights.astype(int))
    one = solve_svm_mkl(K, y, 2.0, sample_weight=weights, tol=1e-8)
    two = solve_svm_mkl(K[np.ix_(copies, copies)], y[copies], 2.0, tol=1e-8)
    assert one.primal == pytest.approx(two.primal, rel=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_scales_that_differ_by_orders_of_magnitude(stack, rng, loss):
    K, X = stack
    y = targets(X, rng, loss)
    found = solve_svm_mkl(K * np.array([1e-8, 1.0, 1e3, 1e8]), y, 1.0, loss=loss, tol=1e-4)
    assert found.status.name in ("CONVERGED", "STALLED")
    assert found.gap >= 0


def test_more_kernels_than_rows(rng):
    X = rng.normal(size=(20, 200))
    y = np.sign(X[:, :3].sum(axis=1) + 0.01)
    found = solve_svm_mkl(X[:, None, :] * X[None, :, :], y, 1.0, tol=1e-6)
    assert found.status.ok
    assert np.count_nonzero(found.weights) < 30


def test_warm_starts_save_machines(stack, rng):
    K, X = stack
    y = targets(X, rng, "hinge")
    cold = warm = 0
    last = None
    for C in np.geomspace(0.05, 50.0, 12):
        one, last = solve_svm_mkl(K, y, C, tol=1e-5), solve_svm_mkl(K, y, C, tol=1e-5, warm_start=last)
        assert last.primal == pytest.approx(one.primal, rel=2e-5)
        cold, warm = cold + one.n_machines, warm + last.n_machines
    # measured: 68 and 46
    assert warm < 0.85 * cold


def test_callback_history_and_frozen_results(stack, rng):
    K, X = stack
    y = targets(X, rng, "hinge")
    for method in ("newton", "cutting-plane", "reduced-gradient"):
        seen = []
        found = solve_svm_mkl(
            K,
            y,
            2.0,
            method=method,
            tol=1e-13,
            callback=lambda *a, seen=seen: seen.append(a) or True,
        )
        assert found.status.name == "INTERRUPTED"
        assert len(seen) == 1
        assert len(found.history["objective"]) == len(found.history["rel_gap"]) >= 1
    with pytest.raises(AttributeError):
        found.gap = 0.0


@pytest.mark.parametrize(("change", "message"), [
    ({"C": 0.0}, "C"),
    ({"C": -1.0}, "C"),
    ({"loss": "log"}, "Unknown loss"),
    ({"method": "magic"}, "Unknown method"),
    ({"weight_set": "ball"}, "Unknown weight_set"),
    ({"weight_set": LpBall(2.0), "method": "newton"}, "does not fit"),
    ({"weight_set": CappedSimplex(0.1)}, "between 1 / n_kernels"),
    ({"weight_set": LpBall(1.0)}, "above 1"),
    ({"weight_set": Sphere()}, "does not fit"),
    ({"scale": [1.0]}, "one positive factor per kernel"),
    ({"tol": 0.0}, "tol"),
    ({"epsilon": -1.0}, "epsilon"),
], ids=str)  # fmt: skip
def test_bad_arguments(stack, rng, change, message):
    K, X = stack
    arguments = {"C": 1.0} | change
    with pytest.raises(InputError, match=message):
        solve_svm_mkl(K, targets(X, rng, "hinge"), **arguments)


def test_bad_arrays(stack, rng):
    K, X = stack
    y = targets(X, rng, "hinge")
    with pytest.raises(InputError, match="one entry per row"):
        solve_svm_mkl(K, y[:-1], 1.0)
    with pytest.raises(InputError, match="-1 and \\+1"):
        solve_svm_mkl(K, np.arange(N), 1.0)
    with pytest.raises(InputError, match="single class"):
        solve_svm_mkl(K, np.ones(N), 1.0)
    with pytest.raises(InputError, match="symmetric"):
        solve_svm_mkl(K + np.triu(np.ones((N, N)), 1)[:, :, None], y, 1.0)
    found = solve_svm_mkl(K, y, 1.0)
    with pytest.raises(InputError, match="solution for 3 kernels"):
        solve_svm_mkl(K[:, :, :3], y, 1.0, warm_start=found)


# ---- weight sets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weight_set", [Simplex(), CappedSimplex(0.3), LpBall(2.0)], ids=lambda s: type(s).__name__
)
def test_projections_are_nearest_points(weight_set, rng):
    for _ in range(5):
        v = rng.normal(size=6)
        x = cp.Variable(6)
        if isinstance(weight_set, LpBall):
            inside = [x >= 0, cp.norm(x, 2) <= 1]
        else:
            inside = [x >= 0, cp.sum(x) == 1, x <= getattr(weight_set, "cap", 1.0)]
        cp.Problem(cp.Minimize(cp.sum_squares(x - v)), inside).solve(solver=cp.CLARABEL)
        projected = weight_set.project(v)
        np.testing.assert_allclose(projected, x.value, atol=1e-5)
        np.testing.assert_allclose(weight_set.project(projected), projected, atol=1e-12)


@pytest.mark.parametrize("weight_set", [Simplex(), CappedSimplex(0.4), LpBall(1.5), LpBall(3.0)], ids=str)
def test_support_functions(weight_set, rng):
    for _ in range(5):
        q = rng.uniform(size=5)
        best = weight_set.best(q)
        assert weight_set.violation(best) < 1e-9
        assert best @ q == pytest.approx(weight_set.support(q), rel=1e-9)
        for _ in range(50):
            assert weight_set.project(rng.normal(size=5)) @ q <= weight_set.support(q) + 1e-9


def test_sets_without_a_bound():
    v = np.array([-1.0, -2.0, -0.5])
    assert Sphere().project(v).tolist() == [0.0, 0.0, 1.0]
    assert np.linalg.norm(Sphere().project(np.array([3.0, 4.0, -1.0]))) == pytest.approx(1.0)
    assert Orthant().project(v).sum() == pytest.approx(1.0)
    with pytest.raises(NotImplementedError):
        Orthant().best(v)


@pytest.mark.parametrize("n", [1, 2, 31, 33, 70])
@pytest.mark.parametrize("which", [numpy_core, core], ids=["numpy", "in use"])
def test_mirror(which, n, rng):
    K = rng.normal(size=(n, n))
    expected = np.triu(K) + np.triu(K, 1).T
    which.mirror(K)
    np.testing.assert_array_equal(K, expected)
