"""Algorithm 1 of P1, as published: alternate between the coefficients (13) and the weights (Problem 7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, check_known
from kernelweave._loops import core
from kernelweave.machines.ridge import NotPositiveDefinite
from kernelweave.mkl.ridge_problem import Callback, RidgeProblem, infinite_alpha, null_result
from kernelweave.mkl.ridge_rounding import rounding_bound
from kernelweave.results import Certificate, Solution, Status

Array = NDArray[np.float64]

LINEAR_SOLVERS = ("auto", "cholesky", "cg")
#: Rows up to which a Cholesky factor replaces conjugate gradients under ``linear_solver="auto"``.
CHOLESKY_ROWS = 5000


def conjugate_gradient(
    problem: RidgeProblem, weights: Array, alpha: float, y: Array, start: Array, delta: float
) -> Array:
    """Solve ``(K(weights) + alpha N) c = y`` to the relative residual `delta`; y and c are (n_samples,)."""
    scaled = weights * problem.scale

    def times(v: Array) -> Array:
        return problem.gram.matvec(scaled, v[None])[0] + alpha * problem.inverse_weights * v

    c = start.copy()
    r = y - times(c)
    p = r.copy()
    target = (delta * float(np.linalg.norm(y))) ** 2
    rr = float(r @ r)
    for _ in range(10 * len(y)):
        if rr <= target:
            break
        q = times(p)
        step = rr / float(p @ q)
        c += step * p
        r -= step * q
        rr, old = float(r @ r), rr
        p = r + (rr / old) * p
    return c


def solve_weights(V: Array, target: Array, weights: Array, *, tol: float = 1e-9) -> Array:
    """Problem 7, ``min_d 1/2 ||V d - target||^2`` over the simplex, by two-coordinate descent (SMO).

    Parameters
    ----------
    V : array of shape (n_rows, n_kernels)
        Columns ``s_m K_m c``.
    target : array of shape (n_rows,)
        ``y - alpha N c / 2``.
    weights : array of shape (n_kernels,)
        Starting point on the simplex. Not modified.
    tol : float
        Largest violation of optimality, relative to the size of the gradient. (The author's toolbox uses an
        absolute one, which depends on the units of y.)
    """
    G = V.T @ V
    b = V.T @ target
    d = weights.copy()
    size = float(np.abs(b).max()) + float(np.abs(G).max())
    core.simplex_smo(np.ascontiguousarray(G), b, d, tol * size, 10_000, 20_000)
    return d / d.sum()


def solve_alternating(
    problem: RidgeProblem,
    alpha: float,
    *,
    delta: float = 1e-2,
    weights0: Array | None = None,
    max_iter: int = 50_000,
    linear_solver: str = "auto",
    callback: Callback | None = None,
) -> Solution:
    """Run Algorithm 1: Lemma 5 start, (13), Problem 7 by SMO, until the residual of (13) at the new weights is small.

    The rule ``||(K(d) + alpha I) c - y|| <= delta ||y||`` measures how much the last weight step changed the
    system; a loose delta stops early at small alpha. The certificate of the result says how good the solution is.
    With a delta below what rounding allows, the objective stops decreasing and the status says so.
    """
    check_known(linear_solver, LINEAR_SOLVERS, "linear_solver")
    if not 0 < delta < 1:
        raise InputError(f"`delta` is a relative residual and must lie in (0, 1), got {delta!r}.")
    Y, noise = problem.targets, problem.inverse_weights
    norm = float(np.linalg.norm(Y))
    everything = np.arange(problem.n_kernels)
    direct = linear_solver == "cholesky" or (
        linear_solver == "auto" and problem.gram.n_samples <= CHOLESKY_ROWS
    )
    # the loss is weighted by 1/noise, so Problem 7 is solved in whitened rows
    root = 1.0 / np.sqrt(noise)

    if weights0 is None or np.isinf(alpha):
        weights, C = infinite_alpha(problem)
        if np.isinf(alpha) or norm == 0:
            return null_result(problem, alpha, weights, C, delta)
        if weights0 is not None:
            weights = weights0
    else:
        weights = weights0.copy()
    C = np.zeros_like(Y)
    V = np.empty((problem.n_kernels, *Y.shape))
    history: dict[str, list[float]] = {"objective": [], "residual": [], "n_active": []}
    status, n_iter, stalled = Status.MAX_ITER, 0, 0
    best = np.inf
    while n_iter < max_iter:
        n_iter += 1
        if direct:
            try:
                C = problem.system(weights, alpha).solve(Y.T).T
            except NotPositiveDefinite:
                if n_iter == 1:
                    raise problem.too_small(alpha) from None
                status = Status.STALLED
                break
        else:
            C = np.stack(
                [conjugate_gradient(problem, weights, alpha, y, c, delta) for y, c in zip(Y, C, strict=True)]
            )
        C = np.ascontiguousarray(C)
        V = problem.products(C, everything)
        rows = (V * root).reshape(problem.n_kernels, -1).T
        goal = ((Y - 0.5 * alpha * noise * C) * root).reshape(-1)
        weights = solve_weights(rows, goal, weights)
        fitted = np.tensordot(weights, V, 1)
        level = float(weights @ np.einsum("kti,ti->k", V, C))
        objective = 0.5 * float(np.sum(np.square(Y - fitted) / noise)) + 0.5 * alpha * level
        residual = float(np.linalg.norm(Y - fitted - alpha * noise * C)) / norm
        history["objective"].append(objective)
        history["residual"].append(residual)
        history["n_active"].append(float(np.count_nonzero(weights)))
        if residual <= delta:
            status = Status.RESIDUAL_RULE
            break
        if callback is not None and callback(n_iter, objective, residual):
            status = Status.INTERRUPTED
            break
        # Lemma 4: J decreases in every round until rounding; below that nothing more can be gained
        stalled = stalled + 1 if objective >= best * (1 - 1e-15) else 0
        best = min(best, objective)
        if stalled > 50:
            status = Status.STALLED
            break

    # the certificate: the forms at the final pair (d, c)
    forms = problem.quad(C)
    r = Y - fitted - alpha * noise * C
    left = 0.5 * float(np.sum(np.square(r) / noise))
    rounding = rounding_bound(problem, alpha, weights, C, forms, primal=objective, residual=left)
    own = max(0.0, left + 0.5 * alpha * (float(forms.max()) - level))
    return Solution(
        weights=weights,
        dual_coef=C.T,
        intercept=0.0,
        certificate=Certificate.of("joint", objective, own, rounding, status),
        n_iter=n_iter,
        alpha=alpha,
        trace={k: np.asarray(v) for k, v in history.items()},
    )
