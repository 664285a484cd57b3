"""RLS2 with two regularisation parameters: kernel weights of one, the function of another.

In RLS2 the regularisation parameter has two effects: it determines the weights, and it shrinks the function. Relaxed,
weights d are those of alpha, and the coefficients those of ridge regression with the kernel K(d) at a regularisation
parameter of its own,

    c = (K(d) + relax N)^-1 y ,      N the inverse of the sample weights,

as the relaxed lasso selects columns at one regularisation parameter and shrinks at another. At fixed weights any c has
the certificate ``1/2 r' N^-1 r`` with ``r = y - K(d) c - relax N c``, to which the rounding of r and of the objective
is added.

Many regularisation parameters at the same weights cost little more than one: the whitened kernel is reduced to
tridiagonal form once (4/3 n^3 operations, against n^3 / 3 for a factorisation and about 9 n^3 for eigenvectors); every
regularisation parameter then costs O(n), and n^2 for its coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack

from kernelweave._checks import InputError
from kernelweave.machines.ridge import LOW_RANK_FLOOR, NotPositiveDefinite
from kernelweave.mkl.ridge_problem import RidgeProblem
from kernelweave.mkl.ridge_rounding import bound_at_fixed_weights
from kernelweave.mkl.selection import Criteria, compute_criteria
from kernelweave.results import Path, RelaxedSolution, Solution

Array = NDArray[np.float64]

#: Regularisation parameters up to which one factorisation each is cheaper than the reduction.
FACTORISE = 2
#: Columns that LAPACK takes at a time; without room for them the reduction takes them one by one, twice as long.
BLOCK = 64
#: Relative residual above which a solution is refined once.
REFINE = 1e-9


# ---- ridge at fixed weights -----------------------------------------------------------------------


def ridge_path(problem: RidgeProblem, weights: Array, alphas: Array) -> tuple[Array, Array, Array]:
    """Solve the ridge problem at fixed weights for every regularisation parameter.

    Parameters
    ----------
    problem : RidgeProblem
    weights : array of shape (n_kernels,)
    alphas : array of shape (n_alphas,)
        Regularisation parameters > 0, in any order; ``inf`` gives 0.

    Returns
    -------
    dual_coef : array of shape (n_alphas, n_outputs, n_samples)
    primal, gap : arrays of shape (n_alphas,)
        Summed over outputs.
    """
    Y, N = problem.targets, problem.inverse_weights
    C = np.zeros((len(alphas), *Y.shape))
    primal, gap = np.full(len(alphas), problem.null_value()), np.zeros(len(alphas))
    finite = np.flatnonzero(np.isfinite(alphas))
    if not len(finite) or not Y.any():
        return C, primal, gap
    times, solver = _at_weights(problem, weights, alphas[finite])
    enough = REFINE * np.linalg.norm(Y)
    effective = weights * problem.scale
    active = np.flatnonzero(effective)
    sizes = np.sqrt(np.maximum(effective[active] @ problem.gram.diagonal(active), 0.0))
    left_out = float(effective @ problem.gram.residual_trace)
    for k in finite:
        alpha = float(alphas[k])
        try:
            solve = solver(alpha)
            c = solve(Y)
        except NotPositiveDefinite:
            raise InputError(
                f"`relax`={alpha:.3g} is too small for these kernels: K + relax I is not positive definite in "
                "floating point. Raise it, or normalise the kernels."
            ) from None
        fitted = times(c)
        r = Y - fitted - alpha * N * c
        if np.linalg.norm(r) > enough:
            c = c + solve(r)
            fitted = times(c)
            r = Y - fitted - alpha * N * c
        C[k] = c
        primal[k] = 0.5 * float(np.sum(np.square(Y - fitted) / N) + alpha * np.vdot(c, fitted))
        gap[k] = bound_at_fixed_weights(
            alpha, sizes, N, Y, c, fitted, r, primal=float(primal[k]), terms=len(active), left_out=left_out
        )
    return C, primal, gap


#: ``alpha -> (B -> (K + alpha N)^-1 B)`` for rows of B.
Solver = Callable[[float], Callable[[Array], Array]]


def _at_weights(
    problem: RidgeProblem, weights: Array, alphas: Array
) -> tuple[Callable[[Array], Array], Solver]:
    """Products with K(weights), and solutions of its ridge systems, by the cheapest method for that many."""
    effective = weights * problem.scale
    root = 1.0 / np.sqrt(problem.inverse_weights)
    factor = problem.gram.factor(effective)
    if factor is not None and 2 * len(factor) < len(root):
        rows = factor
        small = float(alphas.min()) * float(problem.inverse_weights.min())
        if small > LOW_RANK_FLOOR * float(np.einsum("rn,rn->", rows, rows)):
            white = rows * root
            inside = _tridiagonal(white @ white.T)

            def through(alpha: float) -> Callable[[Array], Array]:
                solve = inside(alpha)
                # the identity of Woodbury in the rank of the factor
                return lambda B: (B * root - solve((B * root) @ white.T) @ white) * root / alpha

            return lambda B: (B @ rows.T) @ rows, through
    K = problem.gram.combine(effective)
    if len(alphas) <= FACTORISE:

        def factorised(alpha: float) -> Callable[[Array], Array]:
            system = problem.system(weights, alpha)
            return lambda B: np.ascontiguousarray(system.solve(B.T).T)

        return lambda B: B @ K, factorised
    reduced = _tridiagonal(K * root * root[:, None])

    def whitened(alpha: float) -> Callable[[Array], Array]:
        solve = reduced(alpha)
        return lambda B: solve(B * root) * root

    return lambda B: B @ K, whitened


def _tridiagonal(S: Array) -> Solver:
    """``alpha -> (B -> (S + alpha I)^-1 B)`` for rows of B, from one reduction ``S = Q T Q'``; S is overwritten."""
    n = len(S)
    held, diagonal, beside, tau, _ = lapack.dsytrd(S.T, lower=1, lwork=BLOCK * n, overwrite_a=1)
    # below its diagonal are reflectors, as in a QR factorisation of all rows but the first
    reflectors = np.asfortranarray(held[1:, : n - 1])

    def rotate(B: Array, transposed: str) -> Array:
        out = np.array(B, order="F")
        if n > 1:
            out[1:] = lapack.dormqr("L", transposed, reflectors, tau, out[1:], max(1, BLOCK * out.shape[1]))[
                0
            ]
        return out

    def solver(alpha: float) -> Callable[[Array], Array]:
        def solve(B: Array) -> Array:
            if n == 1:
                return B / (diagonal + alpha)
            _, _, Z, info = lapack.dptsv(diagonal + alpha, beside, rotate(B.T, "T"))
            if info != 0:
                raise NotPositiveDefinite("alpha is below the rounding error of the kernels")
            return np.ascontiguousarray(rotate(Z, "N").T)

        return solve

    return solver


# ---- results --------------------------------------------------------------------------------------


def relax_result(problems: Sequence[RidgeProblem], found: Solution, relax: float) -> RelaxedSolution:
    """Replace the coefficients (n_samples, n_outputs) of a solution by those of the ridge at another alpha."""
    C, primal, gap = _groups(problems, np.atleast_2d(found.weights), np.array([relax]))
    return found.extended(
        RelaxedSolution,
        dual_coef=np.ascontiguousarray(C[0].T),
        relax=relax,
        ridge_primal=float(primal[0]),
        ridge_gap=float(gap[0]),
    )


def relax_path(
    problems: Sequence[RidgeProblem], found: Path[Solution], relax: ArrayLike
) -> Path[RelaxedSolution]:
    """Replace the coefficients along a path by those of the ridge at other regularisation parameters.

    Parameters
    ----------
    problems : sequence of RidgeProblem
        One, or one for every output with separate weights.
    found : Path
    relax : float, array of shape (n_relax,) or (n_alphas, n_relax)
    """
    values = np.asarray(relax, dtype=np.float64)
    if values.ndim == 2 and len(values) < len(found):
        raise InputError(
            f"`relax` must have one row for each of the {len(found)} alphas, got shape {values.shape}."
        )
    grid = values[: len(found)] if values.ndim == 2 else np.tile(values.reshape(1, -1), (len(found), 1))
    n_outputs = sum(len(p.targets) for p in problems)
    rows = problems[0].rows
    kept = slice(None) if rows is None else rows
    # rows of weight 0 have coefficients of 0
    C = np.zeros((*grid.shape, found.dual_coef.shape[1], n_outputs))
    primal, gap = np.empty(grid.shape), np.empty(grid.shape)
    for k, alphas in enumerate(grid):
        own, primal[k], gap[k] = _groups(problems, np.atleast_2d(found.weights[k]), alphas)
        C[k][:, kept] = own.transpose(0, 2, 1)
    measure = partial(_measure, problems, found.weights, C, grid, values.ndim == 0)
    C = C.reshape(*grid.shape, *found.dual_coef.shape[1:])
    if values.ndim == 0:
        C, grid, primal, gap = C[:, 0], grid[:, 0], primal[:, 0], gap[:, 0]
    relaxed = tuple(
        one.extended(RelaxedSolution, dual_coef=c, relax=alpha, ridge_primal=p, ridge_gap=g)
        for one, c, alpha, p, g in zip(found.solutions, C, grid, primal, gap, strict=True)
    )
    return Path(found.alphas, relaxed, measure)


def _groups(problems: Sequence[RidgeProblem], weights: Array, alphas: Array) -> tuple[Array, Array, Array]:
    """Coefficients (n_relax, n_outputs, n_samples), values and gaps, over outputs with separate weights."""
    parts = [ridge_path(p, w, alphas) for p, w in zip(problems, weights, strict=True)]
    C, primal, gap = zip(*parts, strict=True)
    return np.concatenate(C, axis=1), np.sum(primal, axis=0), np.sum(gap, axis=0)


def _measure(
    problems: Sequence[RidgeProblem], weights: Array, C: Array, grid: Array, single: bool, everything: bool
) -> Mapping[str, Array]:
    """Degrees of freedom and criteria of the ridge at fixed weights, summed over outputs with separate weights."""
    names = [f.name for f in fields(Criteria)] if everything else ["df"]
    out = {name: np.zeros(grid.shape) for name in names}
    kept = slice(None) if problems[0].rows is None else problems[0].rows
    for k, alphas in enumerate(grid):
        for j, alpha in enumerate(alphas):
            rows = C[k, j][kept].T
            start = 0
            for problem, own in zip(problems, np.atleast_2d(weights[k]), strict=True):
                stop = start + len(problem.targets)
                got = compute_criteria(problem, float(alpha), own, rows[start:stop], total=False)
                for name in names:
                    out[name][k, j] += getattr(got, name)
                start = stop
    if everything:
        # Cp needs the noise variance at the smallest regularisation parameter, which a relaxed path does not have
        out["cp"] = np.full(grid.shape, np.nan)
    return {name: value[:, 0] if single else value for name, value in out.items()}
