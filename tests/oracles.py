"""Independent answers: conic solutions, brute force, finite differences. Never imported by the package."""

import warnings

import numpy as np


def factor_of(K):
    """Rows F (rank, n) with ``F'F = K``, from an eigendecomposition."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-13 * values[-1]
    return (vectors[:, keep] * np.sqrt(values[keep])).T


def rls2_by_conic(gram, y, alpha, *, scale=None, sample_weight=None):
    """Optimal value of RLS2 from its dual, a second-order cone program, by CVXPY with Clarabel.

    ``max_v v'y - 1/2 v' N v - max_m s_m v' K_m v / (2 alpha)`` (v is alpha times the dual coefficients): the weights
    appear only as multipliers, so the model shares nothing with the solver under test. The targets are scaled to
    length one, so that the conic tolerance is relative.
    """
    import cvxpy as cp

    n, _, n_kernels = gram.shape
    s = np.ones(n_kernels) if scale is None else scale
    noise = np.ones(n) if sample_weight is None else 1.0 / np.asarray(sample_weight)
    size = float(np.sqrt(np.sum(np.square(y) / noise)))
    v, level = cp.Variable(n), cp.Variable()
    rows = [factor_of(s[m] * gram[:, :, m]) / np.sqrt(alpha) for m in range(n_kernels)]
    # the level is at most of order one: no problem is worse scaled than its kernels
    objective = v @ (y / size) - 0.5 * cp.sum_squares(cp.multiply(np.sqrt(noise), v)) - 0.5 * cp.square(level)
    problem = cp.Problem(cp.Maximize(objective), [cp.norm(F @ v, 2) <= level for F in rows])
    with warnings.catch_warnings():
        # the tolerances are beyond what the cone solver promises; the value below does not rely on them
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(
            solver=cp.CLARABEL,
            tol_gap_abs=1e-13,
            tol_gap_rel=1e-13,
            tol_feas=1e-13,
            max_iter=500,
            static_regularization_constant=1e-14,
            static_regularization_proportional=0.0,
            iterative_refinement_reltol=1e-15,
            iterative_refinement_abstol=1e-15,
            iterative_refinement_max_iter=50,
        )
    # evaluated at the conic point, this is a lower bound of the optimum whatever the tolerance of the cone solver
    point = v.value
    worst = max(float(np.sum(np.square(F @ point))) for F in rows)
    linear, quadratic = float(point @ y) / size, float(np.sum(noise * np.square(point))) + worst
    return 0.5 * linear**2 / quadratic * size**2


def rls2_value(gram, y, alpha, weights, *, scale=None, sample_weight=None):
    """Problem 6 at given weights, ``alpha/2 y' (K(d) + alpha N)^-1 y``, by a dense solve."""
    n, _, n_kernels = gram.shape
    s = np.ones(n_kernels) if scale is None else scale
    noise = np.ones(n) if sample_weight is None else 1.0 / np.asarray(sample_weight)
    K = gram @ (np.asarray(weights) * s)
    return 0.5 * alpha * float(y @ np.linalg.solve(K + alpha * np.diag(noise), y))


def central_difference(function, point, step):
    """Gradient of a scalar function by central differences."""
    out = np.empty(len(point))
    for k in range(len(point)):
        ahead, behind = point.copy(), point.copy()
        ahead[k] += step
        behind[k] -= step
        out[k] = (function(ahead) - function(behind)) / (2 * step)
    return out
