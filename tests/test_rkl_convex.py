"""What the page on RKL's convexity claims, on random problems."""

import numpy as np
import pytest

from kernelweave import solve_meb, solve_rkl, solve_svc
from kernelweave.kernels import RBF
from kernelweave.solvers import solve_l2svc, solve_radius

N = 30


def make(rng, scales=(1.0, 1.0, 1.0, 1.0)):
    X = rng.normal(size=(N, 3))
    y = np.sign(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=N) + 0.1)
    square = (X @ X.T + 1.0) ** 2
    gaussians = [RBF(gamma=gamma)(X) for gamma in (0.1, 1.0)]
    stack = np.stack([*gaussians, X @ X.T, square], axis=2)
    return stack / np.einsum("iim->m", stack) * N * np.array(scales), y


def radius(stack, t):
    return solve_meb(stack @ t, tol=1e-11, check=False).radius2


def value(stack, y, C, t):
    return solve_svc(stack @ t, y, C, tol=1e-10).dual


def quotient(stack, y, C, t):
    return value(stack, y, C, t / radius(stack, t))


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_two_lemmas(rng, C):
    """J is convex and falls along rays; r^2 is convex and homogeneous."""
    stack, y = make(rng)
    for _ in range(10):
        s, t = rng.exponential(size=(2, 4))
        share = rng.uniform()
        between = share * s + (1 - share) * t
        J = [value(stack, y, C, w) for w in (between, s, t)]
        assert J[0] <= (share * J[1] + (1 - share) * J[2]) * (1 + 1e-8)
        r2 = [radius(stack, w) for w in (between, s, t)]
        assert r2[0] <= (share * r2[1] + (1 - share) * r2[2]) * (1 + 1e-8)
        assert radius(stack, 7.0 * t) == pytest.approx(7.0 * r2[2], rel=1e-8)
        assert value(stack, y, C, 1.5 * t) <= J[2] * (1 + 1e-8)


def test_the_quotient_never_exceeds_both_ends_of_a_line(rng):
    stack, y = make(rng, scales=(1.0, 30.0, 1.0, 0.03))
    C = 5.0
    for _ in range(25):
        s, t = rng.dirichlet(np.full(4, 0.5), size=2)
        left, middle, right = (quotient(stack, y, C, w) for w in (s, 0.5 * (s + t), t))
        assert middle <= max(left, right) * (1 + 1e-8)


def test_no_point_of_a_grid_is_below_the_certified_bound(rng):
    """Two kernels whose scales differ by 1e4: the whole simplex, against one descent."""
    stack, y = make(rng, scales=(100.0, 1.0, 1.0, 0.01))
    pair, C = stack[:, :, [0, 3]], 10.0
    found = solve_rkl(pair, y, C, tol=1e-8)
    shares = np.r_[0.0, np.geomspace(1e-7, 1e-2, 12), np.linspace(0.02, 1.0, 30)]
    grid = [quotient(pair, y, C, np.array([s, 1.0 - s])) for s in shares]
    assert min(grid) >= found.dual * (1 - 1e-8)
    assert found.value <= min(grid) * (1 + 1e-8)
    assert found.rel_gap <= 1e-8
    # one valley: from its bottom the values rise to both sides
    bottom = int(np.argmin(grid))
    assert (np.diff(grid[: bottom + 1]) <= 1e-8 * max(grid)).all()
    assert (np.diff(grid[bottom:]) >= -1e-8 * max(grid)).all()


def test_the_quotient_is_not_convex_in_the_weights(rng):
    """As the paper says: which stretch of the simplex is convex depends on how the kernels are scaled."""
    stack, y = make(rng)
    bends = []
    for scale in (1e-2, 1e2):
        pair = stack[:, :, [0, 3]] * np.array([scale, 1.0 / scale])
        curve = [quotient(pair, y, 10.0, np.array([s, 1.0 - s])) for s in np.linspace(0.02, 0.98, 13)]
        bends.append(np.diff(curve, 2).min() / max(curve))
    assert min(bends) < -1e-6


def test_any_machine_and_any_ball_give_a_lower_bound(rng):
    stack, y = make(rng)
    C = 10.0
    best = solve_rkl(stack, y, C, tol=1e-9)
    bounds = []
    for _ in range(40):
        beta = rng.dirichlet(np.ones(N))
        b = y * C * rng.uniform(size=N) * rng.uniform()
        # feasible: coefficients of a box that sum to zero
        positive, negative = b[y > 0].sum(), -b[y < 0].sum()
        b[y > 0] *= min(1.0, negative / positive)
        b[y < 0] *= min(1.0, positive / negative)
        rho = np.einsum("iim,i->m", stack, beta) - np.einsum("ijm,i,j->m", stack, beta, beta)
        q = np.einsum("ijm,i,j->m", stack, b, b)
        bounds.append(y @ b - 0.5 * (q / rho).max())
    assert max(bounds) <= best.value
    # at the solution it is tight
    t = best.weights / radius(stack, best.weights)
    beta = solve_meb(stack @ t, tol=1e-12, check=False).dual_coef
    b = solve_svc(stack @ t, y, C, tol=1e-12).dual_coef
    rho = np.einsum("iim,i->m", stack, beta) - np.einsum("ijm,i,j->m", stack, beta, beta)
    q = np.einsum("ijm,i,j->m", stack, b, b)
    assert y @ b - 0.5 * (q / rho).max() == pytest.approx(best.value, rel=1e-5)


def test_equation_23_is_the_lagrangian(rng):
    """With C_1 = b'K(t)b / 2 at radius 1 the solution minimises J(t) + C_1 r^2(t) over t >= 0: no search for C_1."""
    stack, y = make(rng, scales=(1.0, 10.0, 0.1, 1.0))
    C = 10.0
    found = solve_rkl(stack, y, C, tol=1e-9)
    t = found.weights / radius(stack, found.weights)
    b = solve_svc(stack @ t, y, C, tol=1e-11).dual_coef
    C1 = 0.5 * b @ (stack @ t) @ b
    here = value(stack, y, C, t) + C1
    others = [t * f for f in (0.3, 0.9, 1.1, 3.0)]
    others += [
        np.abs(t + size * t.max() * rng.normal(size=4)) for size in (1e-3, 0.03, 1.0) for _ in range(8)
    ]
    for other in others:
        assert value(stack, y, C, other) + C1 * radius(stack, other) >= here * (1 - 1e-7)


def test_squared_hinges_have_half_of_C(rng):
    """1/2 ||w||^2 + C/2 sum xi^2 is a machine without slack on K + I/C; (10) and (11) print C without the half."""
    stack, y = make(rng)
    C, t = 3.0, np.array([0.4, 0.3, 0.2, 0.1])
    K = stack @ t
    found = solve_l2svc(K, y, C, tol=1e-11)
    b = found.dual_coef
    slack = np.maximum(0.0, 1.0 - y * (K @ b + found.intercept))
    assert 0.5 * b @ K @ b + 0.5 * C * slack @ slack == pytest.approx(found.primal, rel=1e-8)
    hard = solve_svc(K + np.eye(N) / C, y, 1e8, tol=1e-11)
    assert hard.dual == pytest.approx(found.dual, rel=1e-7)
    # Do et al. with C / (2 rho): the machine on K + rho / C
    result = solve_radius(stack, y, C, "do", tol=1e-9)
    rho = result.weights @ [radius(stack, e) for e in np.eye(4)]
    assert solve_svc(stack @ result.weights + rho / C * np.eye(N), y, 1e8, tol=1e-11).dual == pytest.approx(
        result.value, rel=1e-6
    )
    # KL-C: radius and margin of K + I / C
    result = solve_radius(stack, y, C, "kl-c", tol=1e-4)
    both = stack @ result.weights + np.eye(N) / C
    radius2 = solve_meb(both, tol=1e-11, check=False).radius2
    assert radius2 * solve_svc(both, y, 1e8, tol=1e-11).dual == pytest.approx(result.value, rel=1e-5)
