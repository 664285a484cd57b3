"""Independent answers: conic solutions, brute force, finite differences. Never imported by the package.

Every cone program is solved by `conic_value`, which has a second solver behind the first.
"""

import inspect
import itertools
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import xlogy

#: Raised by an oracle that has no answer: pytest skips the test, with the reason.
Undecided = pytest.skip.Exception

#: Of Clarabel, one after another: tight tolerances are sometimes out of its reach.
CLARABEL = [
    {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol, "max_iter": 500} for tol in (1e-12, 1e-10, 1e-8)
]
#: What Clarabel may call almost solved. Its own limits, 5e-5 and 1e-4, would let wrong values pass for oracles.
ALMOST = {"reduced_tol_gap_abs": 1e-8, "reduced_tol_gap_rel": 1e-8, "reduced_tol_feas": 1e-8}
#: Of SCS, which is of another kind (first order, no interior points): it succeeds where Clarabel loses definiteness.
SCS = {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 10_000}


def conic_value(problem, first=()):
    """Solve a CVXPY problem as tightly as a cone solver can, and return its value: by Clarabel, or else by SCS.

    Options of Clarabel in `first` are tried before the usual ones.

    How far an interior-point method comes before rounding stops it depends on the last digits of the data, and so on
    the processor. Where both solvers give up, the test is skipped as undecided: nothing was found out about the code.
    """
    import cvxpy as cp

    attempts = [(cp.CLARABEL, ALMOST | options) for options in (*first, *CLARABEL)] + [(cp.SCS, SCS)]
    with warnings.catch_warnings():
        # of inaccurate solutions, whose limits are above, and of objectives that CVXPY evaluates at no point at all
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        for solver, options in attempts:
            try:
                problem.solve(solver=solver, **options)
            except cp.error.SolverError:
                continue
            almost = problem.status == cp.OPTIMAL_INACCURATE and solver == cp.CLARABEL
            if (problem.status == cp.OPTIMAL or almost) and np.isfinite(problem.value):
                return float(problem.value)
    raise Undecided("undecided: neither Clarabel nor SCS found the optimum")


def factor_of(K):
    """Rows F (rank, n) with ``F'F = K``, from an eigendecomposition."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-13 * values[-1]
    return (vectors[:, keep] * np.sqrt(values[keep])).T


def rls2_by_conic(gram, y, alpha, *, scale=None, sample_weight=None):
    """Optimal value of RLS2 from its dual, a second-order cone program, by CVXPY.

    ``max_v v'y - 1/2 v' N v - max_m s_m v' K_m v / (2 alpha)`` (v is alpha times the dual coefficients): the weights
    appear only as multipliers, so the model shares nothing with the solver under test. The targets are scaled to
    length one, so that the conic tolerance is relative.
    """
    import cvxpy as cp

    n, _, n_kernels = gram.shape
    s = np.ones(n_kernels) if scale is None else scale
    inverse_weights = np.ones(n) if sample_weight is None else 1.0 / np.asarray(sample_weight)
    size = float(np.sqrt(np.sum(np.square(y) / inverse_weights)))
    v, level = cp.Variable(n), cp.Variable()
    rows = [factor_of(s[m] * gram[:, :, m]) / np.sqrt(alpha) for m in range(n_kernels)]
    # the level is at most of order one: no problem is worse scaled than its kernels
    objective = (
        v @ (y / size)
        - 0.5 * cp.sum_squares(cp.multiply(np.sqrt(inverse_weights), v))
        - 0.5 * cp.square(level)
    )
    problem = cp.Problem(cp.Maximize(objective), [cp.norm(F @ v, 2) <= level for F in rows])
    tight = {
        "tol_gap_abs": 1e-13,
        "tol_gap_rel": 1e-13,
        "tol_feas": 1e-13,
        "max_iter": 500,
        "static_regularization_constant": 1e-14,
        "static_regularization_proportional": 0.0,
        "iterative_refinement_reltol": 1e-15,
        "iterative_refinement_abstol": 1e-15,
        "iterative_refinement_max_iter": 50,
    }
    conic_value(problem, [tight])
    # evaluated at the conic point, this is a lower bound of the optimum whatever the tolerance of the cone solver
    point = v.value
    worst = max(float(np.sum(np.square(F @ point))) for F in rows)
    linear, quadratic = float(point @ y) / size, float(np.sum(inverse_weights * np.square(point))) + worst
    return 0.5 * linear**2 / quadratic * size**2


def rls2_value(gram, y, alpha, weights, *, scale=None, sample_weight=None):
    """Problem 6 at given weights, ``alpha/2 y' (K(d) + alpha N)^-1 y``, by a dense solve."""
    n, _, n_kernels = gram.shape
    s = np.ones(n_kernels) if scale is None else scale
    inverse_weights = np.ones(n) if sample_weight is None else 1.0 / np.asarray(sample_weight)
    K = gram @ (np.asarray(weights) * s)
    return 0.5 * alpha * float(y @ np.linalg.solve(K + alpha * np.diag(inverse_weights), y))


def _fractions(values):
    return np.array([Fraction(float(v)) for v in np.ravel(values)], dtype=object).reshape(np.shape(values))


def rls2_exactly(gram, y, alpha, weights, coef, *, scale=None, sample_weight=None):
    """Objective and dual value of RLS2 at a point, as fractions: no rounding at all.

    The weights are divided by their sum, because only then are they on the simplex.
    """
    n, _, n_kernels = gram.shape
    s = _fractions(np.ones(n_kernels) if scale is None else scale)
    w = _fractions(np.ones(n) if sample_weight is None else sample_weight)
    K, y, c, d = _fractions(gram), _fractions(y), _fractions(coef), _fractions(weights)
    alpha, half = Fraction(float(alpha)), Fraction(1, 2)
    products = [s[m] * K[:, :, m].dot(c) for m in range(n_kernels)]
    f = sum(share * product for share, product in zip(d / d.sum(), products, strict=True))
    primal = half * (w * (y - f) ** 2).sum() + half * alpha * c.dot(f)
    largest = max(c.dot(product) for product in products)
    dual = alpha * c.dot(y) - half * alpha**2 * (c**2 / w).sum() - half * alpha * largest
    return primal, dual


def central_difference(function, point, step):
    """Gradient of a scalar function by central differences."""
    out = np.empty(len(point))
    for k in range(len(point)):
        ahead, behind = point.copy(), point.copy()
        ahead[k] += step
        behind[k] -= step
        out[k] = (function(ahead) - function(behind)) / (2 * step)
    return out


def svc_by_conic(K, y, costs, *, squared=False):
    """Optimal value of the support vector classifier from its primal, by CVXPY."""
    import cvxpy as cp

    F = factor_of(K)
    w, t = cp.Variable(len(F)), cp.Variable()
    slack = cp.pos(1 - cp.multiply(y, F.T @ w + t))
    loss = 0.5 * costs @ cp.square(slack) if squared else costs @ slack
    return conic_value(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss)))


def svr_by_conic(K, y, costs, epsilon):
    """Optimal value of support vector regression from its primal, by CVXPY."""
    import cvxpy as cp

    F = factor_of(K)
    w, t = cp.Variable(len(F)), cp.Variable()
    loss = costs @ cp.pos(cp.abs(y - F.T @ w - t) - epsilon)
    return conic_value(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss)))


def meb_by_conic(K):
    """Squared radius of the minimum enclosing ball from its primal, by CVXPY."""
    import cvxpy as cp

    F = factor_of(K)
    center, radius = cp.Variable(len(F)), cp.Variable()
    return conic_value(cp.Problem(cp.Minimize(radius), [cp.norm(f - center) <= radius for f in F.T])) ** 2


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


def elastic_support(q, mix):
    """``max <d, q>`` over an elastic net: the smallest r^2 + sum_m (sqrt(q_m) - sqrt(mix) r)_+^2 / (1 - mix)."""
    top = max(q.max(), 0.0)
    if top == 0.0:
        return top
    root = np.sqrt(np.maximum(q, 0.0) / top)
    mix = root.dtype.type(mix)  # of any precision
    share = np.sqrt(mix)

    def value(r):
        return r**2 + np.square(np.maximum(root - share * r, 0.0)).sum() / (1 - mix)

    ends = [0 * mix, *np.sort(root) / share]
    best = value(ends[0])
    for low, high in itertools.pairwise(ends):
        # a parabola between any two ends
        active = root > share * (low + high) / 2
        r = share * root[active].sum() / (1 - mix + mix * np.count_nonzero(active))
        best = min(best, value(min(max(r, low), high)))
    return top * best


def _support_of(kind, value, quadratic_forms):
    """``max <d, q>`` over the simplex (value None), the capped simplex (cap) or the ball (p), by enumeration."""
    if kind == "lp":
        r = value / (value - 1)
        return float(np.linalg.norm(quadratic_forms, r))
    if kind == "elastic net":
        return float(elastic_support(quadratic_forms, value))
    if kind == "simplex":
        return float(quadratic_forms.max())
    # fill the largest up to the cap
    rest, total = 1.0, 0.0
    for form in np.sort(quadratic_forms)[::-1]:
        total += min(value, rest) * form
        rest = max(0.0, rest - value)
    return total


def _feasible(b, lower, upper):
    """A point of the box with sum zero that is close to b: the side that is too heavy is made lighter."""
    b = np.clip(b, lower, upper)
    up, down = b[b > 0].sum(), -b[b < 0].sum()
    level = min(up, down)
    return np.where(b > 0, b * (level / up if up else 0.0), b * (level / down if down else 0.0))


def mkl_by_conic(gram, y, costs, kind="simplex", value=None, *, loss="hinge", epsilon=0.1, scale=None):
    """Lower bound of the optimal value of margin kernel learning from its dual, by CVXPY.

    ``max_b linear(b) - 1/2 sigma(q)`` with ``q_m = s_m b'K_m b``: the weights appear only as multipliers of
    ``q_m <= tau`` (simplex), of ``q_m <= tau + zeta_m`` with ``cap sum zeta`` in the objective (capped simplex), or
    not at all (the norm of the q with the exponent p / (p - 1)). The value returned is that of a point that is
    feasible to rounding, so it is a bound whatever the tolerance of the cone solver.
    """
    s = np.ones(gram.shape[2]) if scale is None else scale
    stack = gram * s
    factors = [factor_of(stack[:, :, m]) for m in range(len(s)) if stack[:, :, m].any()]
    used = costs > 0
    most = costs if loss != "squared-hinge" else np.where(used, np.inf, 0.0)
    tube = loss == "epsilon-insensitive"
    lower = -most if tube else np.where(y > 0, 0.0, -most)
    upper = most if tube else np.where(y > 0, most, 0.0)
    ridge = np.divide(1.0, costs, out=np.zeros(len(y)), where=used) * (loss == "squared-hinge")

    def linear_and_quadratic(b):
        quadratic_forms = np.array([max(0.0, b @ stack[:, :, m] @ b) for m in range(len(s))])
        linear = float(y @ b) - (epsilon * float(np.abs(b).sum()) if tube else 0.0)
        return linear, _support_of(kind, value, quadratic_forms) + float(ridge @ np.square(b))

    best = -np.inf
    # the cone solver wants variables of order one: y / K at first, what was found afterwards
    size = max(float(np.linalg.norm(F)) for F in factors)
    unit = min(float(costs.max()), float(np.abs(y).max()) * len(y) / size**2)
    for _ in range(3):
        b = _dual_point(factors, len(s), y, lower, upper, ridge, kind, value, epsilon * tube, unit, size)
        b = _feasible(b, lower, upper)
        linear, quadratic = linear_and_quadratic(b)
        # the best multiple that stays in the box
        room = np.divide(np.where(b > 0, upper, -lower), np.abs(b), out=np.full(len(b), np.inf), where=b != 0)
        t = min(linear / quadratic if quadratic > 0 else 1.0, float(room.min()))
        before, best = best, max(best, t * linear - 0.5 * t * t * quadratic)
        if not b.any() or best - before <= 1e-9 * abs(best):
            break
        unit = float(np.abs(b).max())
        size = max(float(np.linalg.norm(F @ b)) for F in factors) / unit
    return best


def _dual_point(factors, n_kernels, y, lower, upper, ridge, kind, value, epsilon, unit, size):
    """Coefficients that solve the dual, as ``unit * a``, with the quadratic forms in units of ``(unit size)^2``."""
    import cvxpy as cp

    a = cp.Variable(len(y))
    up, down = np.isfinite(upper), np.isfinite(lower)
    limits = [cp.sum(a) == 0, a[up] <= upper[up] / unit, a[down] >= lower[down] / unit]
    roots = cp.Variable(len(factors), nonneg=True)
    limits += [cp.norm(F @ a, 2) / size <= roots[m] for m, F in enumerate(factors)]
    if kind == "simplex":
        level = cp.Variable()
        limits += [roots <= level]
        support = cp.square(level)
    elif kind == "capped":
        tau, zeta = cp.Variable(), cp.Variable(n_kernels, nonneg=True)
        limits += [cp.square(roots) <= tau + zeta[: len(factors)], tau + zeta >= 0]
        support = tau + value * cp.sum(zeta)
    elif kind == "elastic net":
        level = cp.Variable(nonneg=True)
        support = cp.square(level) + cp.sum_squares(cp.pos(roots - np.sqrt(value) * level)) / (1 - value)
    else:
        support = cp.square(cp.pnorm(roots, 2 * value / (value - 1)))
    linear = y @ a - epsilon * cp.norm1(a) - 0.5 * unit * cp.sum_squares(cp.multiply(np.sqrt(ridge), a))
    conic_value(cp.Problem(cp.Maximize(linear - 0.5 * unit * size**2 * support), limits))
    return unit * np.asarray(a.value)


# ---- the same for every learner: primal programs, which know no coefficients and no support function ----------------


def mkl_primal_by_conic(gram, y, costs, limits, loss, *, epsilon=0.1, alpha=1.0, intercept=True, radii=None):
    """Optimal value of kernel learning over a set of weights, from its joint primal, by CVXPY.

    ``min_{d, w} alpha/2 sum_m ||w_m||^2 / d_m + sum_i costs_i loss_i(y_i, sum_m F_m'w_m + t)`` with the constraints
    ``limits(d)``, or with weights 1 without limits. With `radii` the costs are divided by ``<radii, d>`` (Do et al.).
    """
    import cvxpy as cp

    rows = costs > 0
    gram, y, costs = gram[np.ix_(rows, rows)], y[rows], costs[rows]
    d = cp.Variable(gram.shape[2])
    t = cp.Variable() if intercept else 0.0
    f, norms = t, 0.0
    for m in range(gram.shape[2]):
        if gram[:, :, m].any():
            F = factor_of(gram[:, :, m])
            w = cp.Variable(len(F))
            f, norms = f + F.T @ w, norms + (cp.quad_over_lin(w, d[m]) if limits else cp.sum_squares(w))
    if loss == "hinge":
        error = costs @ cp.pos(1 - cp.multiply(y, f))
    elif loss == "squared-hinge":
        slack = cp.multiply(np.sqrt(costs), cp.pos(1 - cp.multiply(y, f)))
        error = 0.5 * (cp.sum_squares(slack) if radii is None else cp.quad_over_lin(slack, radii @ d))
    elif loss == "epsilon-insensitive":
        error = costs @ cp.pos(cp.abs(y - f) - epsilon)
    elif loss == "logistic":
        error = costs @ cp.logistic(-cp.multiply(y, f))
    elif loss == "huber":  # with delta = 1
        error = 0.5 * costs @ cp.huber(y - f)
    elif loss == "quantile":  # with q = 1/2
        error = 0.5 * costs @ cp.abs(y - f)
    elif loss == "poisson":
        error = costs @ (cp.exp(f) - cp.multiply(y, f) + xlogy(y, y) - y)
    else:
        error = 0.5 * cp.sum_squares(cp.multiply(np.sqrt(costs), y - f))
    return conic_value(cp.Problem(cp.Minimize(0.5 * alpha * norms + error), limits(d) if limits else []))


def _huber(b, y, costs):
    """Limits and dual term of Huber's loss with delta = 1, by CVXPY."""
    import cvxpy as cp

    return [cp.abs(b) <= costs], y @ b - 0.5 * cp.sum_squares(cp.multiply(b, 1 / np.sqrt(costs)))


def _median(b, y, costs):
    """The same of the quantile loss with q = 1/2."""
    import cvxpy as cp

    return [cp.abs(b) <= 0.5 * costs], y @ b


#: Losses for numbers with their defaults.
NUMBERS = {"huber": _huber, "quantile": _median}


def simplex_dual_by_conic(gram, y, costs, loss, *, epsilon=0.1, ridge=0.0):
    """Optimal value of kernel learning over the simplex, with squared weights times `ridge`, from its dual.

    The smallest ``ridge |d|^2 - 1/2 <d, q>`` over the simplex is the largest ``-t/2 - sum_m max(0, q_m - t)^2 / (16
    ridge)`` over t. Fewer cones than `mkl_primal_by_conic`, and found where that is out of reach.
    """
    import cvxpy as cp

    rows = costs > 0
    gram, y, costs = gram[np.ix_(rows, rows)], y[rows], costs[rows]
    b, t, q = cp.Variable(len(y)), cp.Variable(), cp.Variable(gram.shape[2])
    limits, share = [cp.sum(b) == 0], cp.multiply(b, y / costs)
    if loss == "squared-hinge":
        limits.append(share >= 0)
        dual_term = y @ b - 0.5 * cp.sum_squares(cp.multiply(b, 1 / np.sqrt(costs)))
    elif loss == "logistic":
        dual_term = costs @ (cp.entr(share) + cp.entr(1 - share))
    elif loss == "hinge":
        limits += [share >= 0, share <= 1]
        dual_term = y @ b
    elif loss in NUMBERS:
        more, dual_term = NUMBERS[loss](b, y, costs)
        limits += more
    else:
        limits.append(cp.abs(b) <= costs)
        dual_term = y @ b - epsilon * cp.norm1(b)
    for m in range(gram.shape[2]):
        if gram[:, :, m].any():
            limits.append(cp.sum_squares(factor_of(gram[:, :, m]) @ b) <= q[m])
        else:
            limits.append(q[m] == 0)
    if ridge:
        least = -0.5 * t - cp.sum_squares(cp.pos(q - t)) / (16 * ridge)
    else:
        least = -0.5 * t
        limits.append(q <= t)
    return conic_value(cp.Problem(cp.Maximize(dual_term + least), limits))


def rkl_by_conic(gram, y, costs, loss="hinge", epsilon=0.1):
    """Optimal value of RKL by CVXPY."""
    return rkl_point_by_conic(gram, y, costs, loss, epsilon)[0]


def rkl_point_by_conic(gram, y, costs, loss="hinge", epsilon=0.1):
    """Optimal value of RKL from its dual, signed coefficients of the machine, and s times those of the ball."""
    import cvxpy as cp

    tube = loss == "epsilon-insensitive"
    stack = gram / np.einsum("iim->m", gram) * len(y)  # RKL does not see scales, the cone solver does
    b, B, s = cp.Variable(len(y)), cp.Variable(len(y), nonneg=True), cp.Variable()
    limits = [cp.sum(b) == 0, cp.sum(B) == s, B[costs == 0] == 0, b[costs == 0] == 0]
    used = np.flatnonzero(costs)
    share = cp.multiply(b[used], (1.0 if tube else y[used]) / costs[used])
    if loss == "squared-hinge":
        limits += [cp.multiply(y, b) >= 0]
        dual_term = y @ b - 0.5 * cp.sum_squares(cp.multiply(1.0 / np.sqrt(costs[used]), b[used]))
    elif loss == "logistic":
        dual_term = costs[used] @ (cp.entr(share) + cp.entr(1 - share))
    elif loss in NUMBERS:
        more, dual_term = NUMBERS[loss](b[used], y[used], costs[used])
        limits += more
    else:
        # in units of b: shares cost this solver three digits
        limits += [b >= (-costs if tube else np.minimum(0.0, y * costs))]
        limits += [b <= (costs if tube else np.maximum(0.0, y * costs))]
        dual_term = y @ b - epsilon * tube * cp.norm1(b)
    for m in range(stack.shape[2]):
        F = factor_of(stack[:, :, m])
        limits.append(cp.sum_squares(F @ b) + cp.quad_over_lin(F @ B, s) <= np.diag(stack[:, :, m]) @ B)
    value = conic_value(cp.Problem(cp.Maximize(dual_term - 0.5 * s), limits))
    return value, b.value, B.value


def exact_values(kind, gram, weights, y, t, costs, coef, intercept, epsilon=0.1):
    """Primal value on ``gram @ weights`` and dual value over the simplex, in rational numbers.

    `kind` is "svc", "l2svc" or "svr". For the dual the heavier side of the coefficients is made lighter, so that they
    sum to zero exactly.
    """
    n, _, n_kernels = gram.shape
    stack = [[[Fraction(float(gram[i, j, m])) for j in range(n)] for i in range(n)] for m in range(n_kernels)]
    d = [Fraction(float(w)) for w in weights]
    d = [w / sum(d) for w in d]
    b, shift = [Fraction(float(c)) for c in coef], Fraction(float(intercept))
    target = [Fraction(float(value)) for value in (t if kind == "svr" else y)]
    cost = [Fraction(float(c)) for c in np.broadcast_to(costs, n)]

    def products(c):
        return [[sum(row[j] * c[j] for j in range(n) if c[j]) for row in K] for K in stack]

    def dot(u, v):
        return sum(p * q for p, q in zip(u, v, strict=True))

    def loss(value, f):
        if kind == "svr":
            return max(Fraction(0), abs(value - f) - Fraction(epsilon))
        slack = max(Fraction(0), 1 - value * f)
        return slack * slack / 2 if kind == "l2svc" else slack

    f = [dot(d, column) for column in zip(*products(b), strict=True)]
    primal = dot(b, f) / 2 + sum(
        c * loss(value, own + shift) for c, value, own in zip(cost, target, f, strict=True)
    )
    above, below = sum(c for c in b if c > 0), -sum(c for c in b if c < 0)
    if above and below:
        level = min(above, below)
        b = [c * level / (above if c > 0 else below) for c in b]
    linear = dot(target, b)
    if kind == "svr":
        linear -= Fraction(epsilon) * sum(abs(c) for c in b)
    if kind == "l2svc":
        linear -= sum(c * c / (2 * own) for c, own in zip(b, cost, strict=True) if c)
    return primal, linear - max(dot(b, product) for product in products(b)) / 2


def wrong_defaults(functions):
    """Parameters whose default is not the one that their documentation states."""
    found = []
    for function in functions:
        parts = re.findall(r"^ *([\w, ]+) : .*?default=(.+)$", inspect.getdoc(function) or "", re.MULTILINE)
        stated = {name: value for names, value in parts for name in names.split(", ")}
        for name, one in inspect.signature(function).parameters.items():
            if name in stated and str(one.default) != stated[name].strip("\"'"):
                found.append((function.__name__, name, one.default, stated[name]))
    return found
