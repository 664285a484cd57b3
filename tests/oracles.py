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


def _conic(problem):
    """Solve a CVXPY problem as tightly as the cone solver can, and return its value."""
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for tol in (1e-12, 1e-10):
            try:
                problem.solve(
                    solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol, max_iter=500
                )
                break
            except cp.error.SolverError:  # the tighter tolerance is sometimes out of its reach
                continue
    return float(problem.value)


def svc_by_conic(K, y, costs, *, squared=False):
    """Optimal value of the support vector classifier from its primal, by CVXPY with Clarabel."""
    import cvxpy as cp

    F = factor_of(K)
    w, t = cp.Variable(len(F)), cp.Variable()
    slack = cp.pos(1 - cp.multiply(y, F.T @ w + t))
    loss = 0.5 * costs @ cp.square(slack) if squared else costs @ slack
    return _conic(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss)))


def svr_by_conic(K, y, costs, epsilon):
    """Optimal value of support vector regression from its primal, by CVXPY with Clarabel."""
    import cvxpy as cp

    F = factor_of(K)
    w, t = cp.Variable(len(F)), cp.Variable()
    loss = costs @ cp.pos(cp.abs(y - F.T @ w - t) - epsilon)
    return _conic(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss)))


def meb_by_conic(K):
    """Squared radius of the minimum enclosing ball from its primal, by CVXPY with Clarabel."""
    import cvxpy as cp

    F = factor_of(K)
    center, radius = cp.Variable(len(F)), cp.Variable()
    return _conic(cp.Problem(cp.Minimize(radius), [cp.norm(f - center) <= radius for f in F.T])) ** 2


def svm_value(K, y, coef, costs, loss, kinks=(0.0,)):
    """``1/2 ||w||^2`` plus the loss at signed coefficients, minimised over the intercept by trying every candidate.

    The minimum of a piecewise linear loss lies where a residual equals a kink, that of a smooth one is searched.
    """
    from scipy.optimize import minimize_scalar

    f = K @ coef

    def value(t):
        return 0.5 * coef @ f + costs @ loss(y, f + t)

    reach = 2 + np.abs(f).max() + np.abs(y).max()
    smooth = minimize_scalar(value, bounds=(-reach, reach), method="bounded", options={"xatol": 1e-13}).fun
    return min(smooth, *(value(t) for kink in kinks for t in y - f + kink))
