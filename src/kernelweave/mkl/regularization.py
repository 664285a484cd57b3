"""What the regularisation parameter of RLS2 does: ridge at given weights, selection criteria, where paths begin.

In RLS2 the regularisation parameter has two effects: it determines the weights, and it shrinks the function. Relaxed,
weights d are those of alpha, and the coefficients those of ridge regression with the kernel K(d) at a regularisation
parameter of its own,

    c = (K(d) + relax N)^-1 y ,      N the inverse of the sample weights,

as the relaxed lasso selects columns at one regularisation parameter and shrinks at another. At fixed weights any c has
the certificate ``1/2 r' N^-1 r`` with ``r = y - K(d) c - relax N c``, to which the rounding of r and of the objective
is added.

Many regularisation parameters at the same weights cost little more than one: the whitened kernel is reduced to
tridiagonal form once (4/3 n^3 operations, against n^3 / 3 for a factorisation and about 9 n^3 for eigenvectors); every
regularisation parameter then costs O(n), and n^2 for its coefficients. Of hundreds of rows and few outputs, all of them
share a Krylov space of the kernel, which takes 20 to 120 products with it and no factorisation.

Degrees of freedom and criteria are written so that a sample weight w equals w repetitions of the row: ``N_eff = sum of
weights``, and determinants are those of the repeated problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas, eigh, lapack

from kernelweave._checks import InputError, of_given_rows
from kernelweave._loops import core
from kernelweave._threads import blas_threads_for, threads_for
from kernelweave._types import Array
from kernelweave.machines.ridge import (
    LOW_RANK_FLOOR,
    NotPositiveDefinite,
    RidgeSystem,
    Workspace,
)
from kernelweave.mkl.ridge_problem import SAFETY, RidgeProblem, first_kernel
from kernelweave.results import Certificate, Path, RelaxedSolution, Solution

#: Regularisation parameters up to which one factorisation each is cheaper than the reduction.
FACTORISE = 5
#: Rows for each output from which several alphas share a Krylov space, its steps at most, as an inverse share of the
#: rows and as a number, and the relative residual at which it ends.
KRYLOV_ROWS, KRYLOV_SHARE, KRYLOV_STEPS, KRYLOV_TOL = 300, 3, 250, 1e-12
#: Columns that the reduction takes at a time; LAPACK's own 32 take a tenth longer at hundreds of rows, one by one twice
#: as long.
BLOCK = 16
#: From how many right-hand sides on reflectors are applied in blocks, which takes half the time of one by one, and the
#: numbers that LAPACK then needs for each of them and beside.
IN_BLOCKS, FOR_EACH, BESIDE = 16, 32, 65 * 64
#: Most numbers of solutions at several regularisation parameters that are computed together.
MOST_NUMBERS = 2**22
#: Relative residual above which a solution is refined once.
REFINE = 1e-9
#: If one kernel is optimal down to this share of its trace, an automatic range starts at the trace itself.
ALWAYS_ONE = 1e-3
#: Rows above which the largest alpha is searched to 50 % instead of 5 %.
EIGEN_ROWS = 1500
#: Smallest alpha of an automatic range, as a share of the largest trace of a kernel.
SMALLEST = 1e-6


# ---- ridge at fixed weights -----------------------------------------------------------------------


def ridge_path(problem: RidgeProblem, weights: Array, alphas: Array) -> tuple[Array, Array, Array, Array]:
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
    log_det : array of shape (n_alphas,)
        ``log det(K(d) + alpha N)`` where a factor of this matrix was made, else NaN.
    """
    Y, N = problem.targets, problem.inverse_weights
    C = np.zeros((len(alphas), *Y.shape))
    primal, gap = np.full(len(alphas), problem.null_value()), np.zeros(len(alphas))
    log_det = np.full(len(alphas), math.nan)
    finite = np.flatnonzero(np.isfinite(alphas))
    if not len(finite) or not Y.any():
        return C, primal, gap, log_det
    times, solver, reduced = _at_weights(problem, weights, alphas[finite])
    enough = REFINE * np.linalg.norm(Y)
    effective = weights * problem.scale
    active = np.flatnonzero(effective)
    sizes = np.sqrt(np.maximum(effective[active] @ problem.gram.diagonal(active), 0.0))
    left_out = float(effective @ problem.gram.residual_trace)
    # one factor at a time takes the memory of one, and many outputs have as many solutions at each alpha
    together = max(1, MOST_NUMBERS // Y.size) if reduced else 1
    for k in np.split(finite, range(together, len(finite), together)):
        each = alphas[k][:, None, None]
        try:
            solve, log_det[k] = solver(alphas[k])
            c = solve(np.broadcast_to(Y, (len(k), *Y.shape)))
        except NotPositiveDefinite:
            raise InputError(
                f"`relax`={alphas[k].min():.3g} is too small for these kernels: K + relax I is not positive definite "
                "in floating point. Raise it, or normalise the kernels."
            ) from None
        fitted = times(c)
        r = Y - fitted - each * N * c
        if (np.linalg.norm(r, axis=(1, 2)) > enough).any():
            c = c + solve(r)
            fitted = times(c)
            r = Y - fitted - each * N * c
        C[k] = c
        primal[k] = 0.5 * np.sum(np.square(Y - fitted) / N + each * c * fitted, axis=(1, 2))
        gap[k] = bound_at_fixed_weights(
            alphas[k], sizes, N, Y, c, fitted, r, primal=primal[k], terms=len(active), left_out=left_out
        )
    return C, primal, gap, log_det


#: ``alphas -> (B -> (K + alpha N)^-1 B)`` for rows of B, of shape (n_alphas, n_outputs, n_samples); and ``log det`` of
#: these matrices, NaN where it is not at hand.
Solver = Callable[[Array], tuple[Callable[[Array], Array], float | Array]]


def _at_weights(
    problem: RidgeProblem, weights: Array, alphas: Array
) -> tuple[Callable[[Array], Array], Solver, bool]:
    """Products with K(weights), and solutions of its ridge systems, by the cheapest method for that many.

    Also whether this is a reduction, which all regularisation parameters share.
    """
    effective = weights * problem.scale
    root = 1.0 / np.sqrt(problem.inverse_weights)
    factor = problem.gram.factor(effective)
    if factor is not None and 2 * len(factor) < len(root):
        rows = factor
        small = float(alphas.min()) * float(problem.inverse_weights.min())
        if small > LOW_RANK_FLOOR * float(np.einsum("rn,rn->", rows, rows)):
            white = rows * root
            inside = _tridiagonal(white @ white.T)

            def through(alphas: Array) -> tuple[Callable[[Array], Array], float]:
                solve, _ = inside(alphas)
                # the identity of Woodbury in the rank of the factor
                return (
                    lambda B: (
                        (B * root - _by(solve(_by(B * root, white.T)), white)) * root / alphas[:, None, None]
                    ),
                    math.nan,
                )

            return lambda B: _by(_by(B, rows.T), rows), through, True
    together = len(alphas) > 1 and len(root) >= KRYLOV_ROWS * len(problem.targets)
    if len(alphas) <= FACTORISE and not together:

        def factorised(alphas: Array) -> tuple[Callable[[Array], Array], float]:
            system = problem.system(weights, float(alphas[0]))
            return lambda B: np.ascontiguousarray(system.solve(B[0].T).T)[None], system.log_det()

        return lambda B: problem.gram.matvec(effective, B[0])[None], factorised, False
    # of these only upper triangles are read
    K = problem.gram.combine(effective, upper=True)
    S = K if (root == 1.0).all() else np.triu(K)
    if S is not K:
        S *= root
        S *= root[:, None]
    solver = _krylov(S) if together else _tridiagonal(S.copy() if S is K else S)

    def whitened(alphas: Array) -> tuple[Callable[[Array], Array], float]:
        solve, _ = solver(alphas)
        return lambda B: solve(B * root) * root, math.nan

    return lambda B: _by_upper(B, K), whitened, True


def _krylov(S: Array) -> Solver:
    """``alphas -> (B -> (S + alpha I)^-1 B)`` for rows of B, in a Krylov space of each.

    By Lanczos' method: with ``S V' = V' T + u e'`` and ``(T + alpha I) z = |b| e_1`` the solution is ``V' z``, and
    the residual ``z_m u``, largest for the smallest alpha. What needs many steps is reduced. The upper triangle of S is
    read.
    """
    n = len(S)
    most = max(1, min(n // KRYLOV_SHARE, KRYLOV_STEPS))
    reduced: list[Solver] = []

    def one(b: Array, alphas: Array) -> Array:
        size = float(np.linalg.norm(b))
        if not size > 0:
            return np.zeros((len(alphas), n))
        V, diagonal, beside = np.empty((most, n)), np.empty(most), np.empty(most)
        V[0] = b / size
        m = core.lanczos(S, float(alphas.min()), KRYLOV_TOL, V, diagonal, beside, threads_for(n))
        if m > 1:
            z = np.zeros((len(alphas), m))
            z[:, 0] = size
            for own, alpha in zip(z, alphas, strict=True):
                own[:] = lapack.dptsv(diagonal[:m] + alpha, beside[: m - 1], own)[2]
            return z @ V[:m]
        if m == 1:
            return size / (diagonal[0] + alphas[:, None]) * V[0]
        if not reduced:
            reduced.append(_tridiagonal(S.copy()))
        return reduced[0](alphas)[0](np.broadcast_to(b, (len(alphas), 1, n)))[:, 0]

    def solver(alphas: Array) -> tuple[Callable[[Array], Array], float]:
        def solve(B: Array) -> Array:
            out = np.empty(B.shape)
            for t, rows in enumerate(B.transpose(1, 0, 2)):
                if (rows == rows[0]).all():
                    out[:, t] = one(rows[0], alphas)
                else:
                    for k, row in enumerate(rows):
                        out[k, t] = one(row, alphas[[k]])[0]
            return out

        return solve, math.nan

    return solver


def _by(B: Array, K: Array) -> Array:
    """``B @ K`` of all regularisation parameters and outputs in one product."""
    return (B.reshape(-1, B.shape[-1]) @ K).reshape(*B.shape[:-1], K.shape[1])


def _by_upper(B: Array, K: Array) -> Array:
    """``B @ K`` as `_by`, for a symmetric K of which the upper triangle is read."""
    product: Array = blas.dsymm(1.0, K.T, B.reshape(-1, len(K)).T, lower=1)
    return product.T.reshape(B.shape)


def _tridiagonal(S: Array) -> Solver:
    """``alphas -> (B -> (S + alpha I)^-1 B)`` for rows of B, from one reduction ``S = Q T Q'``; S is overwritten.

    The upper triangle of S is read.
    """
    n = len(S)
    held, diagonal, beside, tau, _ = lapack.dsytrd(S.T, lower=1, lwork=BLOCK * n, overwrite_a=1)
    # below its diagonal are reflectors, as in a QR factorisation of all rows but the first
    reflectors = np.asfortranarray(held[1:, : n - 1])

    def rotate(B: Array, transposed: str) -> Array:
        out = np.array(B, order="F")
        width = out.shape[1]
        if n > 1:
            room = FOR_EACH * width + BESIDE if width >= IN_BLOCKS else max(1, width)
            out[1:] = lapack.dormqr("L", transposed, reflectors, tau, out[1:], room)[0]
        return out

    def solver(alphas: Array) -> tuple[Callable[[Array], Array], float]:
        def solve(B: Array) -> Array:
            if n == 1:
                return B / (diagonal + alphas[:, None, None])
            # one right-hand side of all parameters is rotated once
            own = B[:1] if (B[0] == B).all() else B
            Z = rotate(own.reshape(-1, n).T, "T").reshape(n, *own.shape[:2])
            Z = np.repeat(Z, len(B) // len(own), axis=1)
            for k, alpha in enumerate(alphas):
                _, _, Z[:, k], info = lapack.dptsv(diagonal + alpha, beside, Z[:, k])
                if info != 0:
                    raise NotPositiveDefinite("alpha is below the rounding error of the kernels")
            return np.ascontiguousarray(rotate(Z.reshape(n, -1), "N").T).reshape(B.shape)

        return solve, math.nan

    return solver


def bound_at_fixed_weights(
    alphas: Array,
    roots: Array,
    inverse_weights: Array,
    Y: Array,
    C: Array,
    fitted: Array,
    residuals: Array,
    *,
    primal: Array,
    terms: int,
    left_out: float,
) -> Array:
    """Gap of the ridge with one kernel K, plus a bound of the rounding of its objective.

    Parameters
    ----------
    alphas : array of shape (n_alphas,)
    roots : array of shape (n_samples,)
        Square roots of the diagonal of K.
    inverse_weights : array of shape (n_samples,)
    Y : array of shape (n_outputs, n_samples)
    C, fitted, residuals : arrays of shape (n_alphas, n_outputs, n_samples)
        Coefficients, K c, and ``y - K c - alpha N c``, as computed.
    primal : array of shape (n_alphas,)
        The objective, as computed.
    terms : int
        Number of kernels in the sum K.
    left_out : float
        Trace of the part of K that the stored factors leave out.

    Notes
    -----
    With the exact r, the objective is at most ``1/2 r' N^-1 r`` above the optimum. With errors e in ``f = K c`` it
    changes by ``-(alpha/2 c + N^-1 r)' e + 1/2 e' N^-1 e``, where ``c'e`` is the error of a quadratic form.
    """
    eps = float(np.finfo(np.float64).eps)
    unit = eps / 2 * SAFETY * math.sqrt(len(roots) + terms + 8)
    root, alpha = 1.0 / np.sqrt(inverse_weights), alphas[:, None, None]
    length, sizes = np.linalg.norm(C, axis=2), np.abs(C) @ roots
    errors = unit * sizes[:, :, None] * roots
    missing = left_out * length * float(root.max())
    off = np.linalg.norm(errors * root, axis=2) + missing
    parts = 2.0 * eps * (np.abs(Y) + np.abs(fitted) + alpha * inverse_weights * np.abs(C))
    reach = np.linalg.norm((np.abs(residuals) + errors + parts) * root, axis=2) + missing
    quadratic_forms = np.maximum(np.einsum("ktn,ktn->kt", C, fitted), 0.0)
    form_errors = (
        unit * sizes * (np.sqrt(quadratic_forms) + np.linalg.norm(C * roots, axis=2)) + left_out * length**2
    )
    of_objective = 0.5 * alphas[:, None] * form_errors + reach * off + 0.5 * off**2
    bounds: Array = np.sum(0.5 * reach**2 + of_objective, axis=1) + 2.0 * unit * primal
    return bounds


# ---- solutions ------------------------------------------------------------------------------------


def join_outputs(parts: Sequence[Solution], rows: NDArray[np.bool_] | None) -> Solution:
    """One result for all given rows from one solution per output on the included ones; certificates add up."""
    found = parts[0]
    if len(parts) > 1:
        found = Solution(
            weights=np.stack([part.weights for part in parts]),
            dual_coef=np.hstack([part.dual_coef for part in parts]),
            intercept=0.0,
            certificate=Certificate.total([part.certificate for part in parts]),
            n_iter=sum(part.n_iter for part in parts),
            alpha=found.alpha,
            feature_coef=np.hstack([part.feature_coef for part in parts]),
        )
    return replace(found, dual_coef=of_given_rows(found.dual_coef, rows))


def squeeze(result: Solution) -> Solution:
    """The result of a single output, with coefficients in one dimension."""
    dual, features = (
        np.ascontiguousarray(coef[:, 0]) if coef.ndim == 2 else coef
        for coef in (result.dual_coef, np.asarray(result.feature_coef))
    )
    return replace(result, dual_coef=dual, feature_coef=features)


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
    kept = slice(None) if problems[0].rows is None else problems[0].rows
    # rows of weight 0 have coefficients of 0
    C = np.zeros((*grid.shape, found.dual_coef.shape[1], sum(len(p.targets) for p in problems)))
    primal, gap, log_det = np.zeros(grid.shape), np.zeros(grid.shape), np.zeros(grid.shape)
    points: list[list[tuple[float, Array, Array]]] = []
    for k, alphas in enumerate(grid):
        weights, coefs = np.atleast_2d(found.weights[k]), []
        for problem, own in zip(problems, weights, strict=True):
            coef, value, left, logs = ridge_path(problem, own, alphas)
            coefs.append(coef)
            primal[k] += value
            gap[k] += left
            log_det[k] += logs
        C[k][:, kept] = np.concatenate(coefs, axis=1).transpose(0, 2, 1)
        points += [
            [(float(alpha), own, coef[j]) for own, coef in zip(weights, coefs, strict=True)]
            for j, alpha in enumerate(alphas)
        ]
    C = C.reshape(*grid.shape, *found.dual_coef.shape[1:])
    if values.ndim == 0:
        C, grid, primal, gap, log_det = C[:, 0], grid[:, 0], primal[:, 0], gap[:, 0], log_det[:, 0]

    def measure(everything: bool) -> Mapping[str, Array]:
        along = criteria_along(problems, points, everything, relaxed=True)
        return {name: value.reshape(grid.shape) for name, value in along.items()}

    relaxed = tuple(
        one.extended(
            RelaxedSolution, dual_coef=c, relax=alpha, ridge_primal=p, ridge_gap=g, ridge_log_det=logs
        )
        for one, c, alpha, p, g, logs in zip(found.solutions, C, grid, primal, gap, log_det, strict=True)
    )
    return Path(found.alphas, relaxed, measure)


# ---- selection criteria ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Criteria:
    """Selection criteria at one solution.

    Attributes
    ----------
    df : float
        ``tr(K(d) (K(d) + alpha N)^-1)`` at fixed weights: equation (15) and its kernel form. 0 at alpha = inf.
    df_total : float
        Divergence of f in y with the weights' own dependence on y (active set held), summed over outputs.
    gcv : float
        ``N_eff RSS / (N_eff - D)^2``, per output and sample, with the degrees of freedom D of an output: its part of
        `df_total`, or `df` where that was not computed.
    aic, bic : float
        ``N_eff log(RSS / N_eff) + 2 (D + 1) N_eff / (N_eff - D - 2)``, AIC with the correction for few rows, and
        ``+ log(N_eff) D``.
    rss : float
        Weighted sum of squared residuals, per output, for `mallows_cp`.
    evidence : float
        Log marginal likelihood of the Gaussian-process reading (the RLS2 paper, section 4.1): prior covariance
        ``tau^2 K(d)``, noise variance ``alpha tau^2``, at the maximising scale tau^2.
    noise_variance : float
        ``alpha tau^2`` at this scale.

    References
    ----------
    C. M. Hurvich, J. S. Simonoff and C.-L. Tsai, Smoothing parameter selection in nonparametric regression using an
    improved Akaike information criterion, Journal of the Royal Statistical Society B 60 (1998).
    """

    df: float
    df_total: float
    gcv: float
    aic: float
    bic: float
    rss: float
    evidence: float
    noise_variance: float


def _corrected_penalty(n_eff: float, df: float) -> float:
    """``2 (D + 1) n / (n - D - 2)``: that of AIC, ``2 D`` and a constant, corrected for few rows."""
    rows = n_eff - df - 2.0
    return 2.0 * (df + 1.0) * n_eff / rows if rows > 0 else math.inf


def compute_criteria(
    problem: RidgeProblem, alpha: float, weights: Array, C: Array, *, total: bool = True
) -> Criteria:
    """Compute all criteria; costs about two factorisations.

    Parameters
    ----------
    problem : RidgeProblem
    alpha : float
    weights : array of shape (n_kernels,)
    C : array of shape (n_outputs, n_samples)
    total : bool
        Also compute `df_total` (needs the products of all active kernels), and criteria with it; NaN otherwise.
    """
    Y, N = problem.targets, problem.inverse_weights
    n_outputs, n = Y.shape
    sample_weight = 1.0 / N
    n_eff = problem.n_eff
    if math.isinf(alpha):
        variance = float(_noise_variances(problem, alpha, C).mean())
        rss = n_eff * variance
        logl = _log_likelihood(n_eff, variance, 0.0, n_outputs) if variance > 0 else math.inf
        gcv = rss / n_eff
        fit = n_eff * _log(rss / n_eff)
        return Criteria(0.0, 0.0, gcv, fit + _corrected_penalty(n_eff, 0.0), fit, rss, logl, variance)
    system = problem.system(weights, alpha)
    residual = alpha * N * C
    rss = float(np.sum(np.square(residual) * sample_weight)) / n_outputs
    extra = _learnt_df(problem, system, alpha, weights, C) if total else math.nan
    log_det = _log_det(system.log_det(), alpha, N)
    # the last use of the system
    df = max(0.0, n - alpha * float(N @ system.inverse_diagonal()))
    df_total = n_outputs * df + extra
    used = df_total / n_outputs if total else df
    slack = n_eff - used
    gcv = n_eff * rss / slack**2 if slack > 0 else math.inf
    fit = n_eff * _log(rss / n_eff)
    variance = float(_noise_variances(problem, alpha, C).mean())
    evidence = _log_likelihood(n_eff, variance, log_det, n_outputs) if variance > 0 else math.inf
    return Criteria(
        df=df,
        df_total=df_total,
        gcv=gcv,
        aic=fit + _corrected_penalty(n_eff, used),
        bic=fit + math.log(n_eff) * used,
        rss=rss,
        evidence=evidence,
        noise_variance=variance,
    )


def gaussian_process(
    problem: RidgeProblem, alpha: float, weights: Array, C: Array, log_det: float = math.nan
) -> tuple[Array, Array]:
    """Variance of the noise and log marginal likelihood of every output, as in `Criteria`, by one factorisation.

    Parameters
    ----------
    problem : RidgeProblem
    alpha : float
    weights : array of shape (n_kernels,)
    C : array of shape (n_outputs, n_samples)
    log_det : float
        ``log det(K(d) + alpha N)`` if it is known, which saves the factorisation.

    Returns
    -------
    noise_variance, evidence : arrays of shape (n_outputs,)
    """
    in_units, variance = 0.0, _noise_variances(problem, alpha, C)
    if math.isfinite(alpha):
        known = problem.system(weights, alpha).log_det() if math.isnan(log_det) else log_det
        in_units = _log_det(known, alpha, problem.inverse_weights)
    evidence = [_log_likelihood(problem.n_eff, v, in_units, 1) if v > 0 else math.inf for v in variance]
    return variance, np.array(evidence)


def _noise_variances(problem: RidgeProblem, alpha: float, C: Array) -> Array:
    """``y' (I + K/alpha)^-1 y / n``, the noise variance ``alpha tau^2`` of every output at its maximising scale."""
    if math.isinf(alpha):
        return np.square(problem.targets) @ (1.0 / problem.inverse_weights) / problem.n_eff
    return alpha * np.einsum("tn,tn->t", problem.targets, C) / problem.n_eff


def _log_det(log_det: float, alpha: float, inverse_weights: Array) -> float:
    """Of the problem with repeated rows, in units of the noise: ``log det(I + W^1/2 K W^1/2 / alpha)``."""
    return log_det - len(inverse_weights) * math.log(alpha) - float(np.log(inverse_weights).sum())


def mallows_cp(rss: Array, df: Array, n_eff: float) -> Array:
    """Mallows' Cp along a path, ``RSS / sigma^2 - N_eff + 2 df``.

    The variance of the noise is that of the residuals of the weakest regularisation, ``RSS / (N_eff - df)`` at the last
    position, as in its use for subsets of columns, with least squares on all of them. NaN without
    residuals.

    Parameters
    ----------
    rss, df : arrays of shape (n_alphas,)
        Alphas descending.
    n_eff : float
        Sum of the sample weights.

    Returns
    -------
    array of shape (n_alphas,)
    """
    variance = rss[-1] / (n_eff - df[-1]) if n_eff > df[-1] else 0.0
    return rss / variance - n_eff + 2.0 * df if variance > 0 else np.full(len(rss), math.nan)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _log_likelihood(n_eff: float, variance: float, log_det: float, n_outputs: int) -> float:
    return -0.5 * n_outputs * (n_eff * (1.0 + math.log(2 * math.pi * variance)) + log_det)


def _learnt_df(problem: RidgeProblem, system: RidgeSystem, alpha: float, weights: Array, C: Array) -> float:
    """Contribution of the learnt weights to the divergence: ``alpha tr(N Q^-1 V P V' Q^-1)``.

    P is the inverse of ``B = V' Q^-1 V`` on directions that keep the weights summing to 1. Differentiating
    ``Q c = y`` and ``q_m = const`` over the active kernels gives ``dd = P V' Q^-1 dy``.
    """
    active = np.flatnonzero(weights > 0)
    if len(active) < 2:
        return 0.0
    V = problem.products(C, active)  # (k, T, n)
    k = len(active)
    solved = np.stack([system.solve(V[:, t].T) for t in range(V.shape[1])])  # (T, n, k)
    B = np.einsum("kti,til->kl", V, solved)
    M = alpha * np.einsum("tik,i,til->kl", solved, problem.inverse_weights, solved)
    # basis of the directions with sum zero
    basis = np.linalg.qr(np.eye(k) - 1.0 / k)[0][:, : k - 1]
    inner = basis.T @ B @ basis
    values, vectors = np.linalg.eigh(inner)
    keep = values > 1e-10 * values[-1]
    half = basis @ vectors[:, keep] / np.sqrt(values[keep])
    return float(np.einsum("ka,kl,la->", half, M, half))


def criteria_along(
    problems: Sequence[RidgeProblem],
    points: Sequence[Sequence[tuple[float, Array, Array]]],
    everything: bool,
    *,
    relaxed: bool = False,
) -> dict[str, Array]:
    """Criteria at every point of a path, or ``df`` alone, summed over groups of outputs.

    Parameters
    ----------
    problems : sequence of RidgeProblem
        One for every group.
    points : sequence of sequences
        Alpha, weights and coefficients (n_outputs, n_samples) of every group.
    everything : bool
    relaxed : bool
        Coefficients of the ridge at other alphas have no ``df_total`` and no ``cp``.
    """
    names = [f.name for f in fields(Criteria)] if everything else ["df"]
    found = np.zeros((len(names), len(problems), len(points)))
    with blas_threads_for(problems[0].gram.n_samples):
        for k, point in enumerate(points):
            for g, (problem, own) in enumerate(zip(problems, point, strict=True)):
                got = compute_criteria(problem, *own, total=everything and not relaxed)
                found[:, g, k] = [getattr(got, name) for name in names]
    out = dict(zip(names, found.sum(axis=1), strict=True))
    if relaxed and everything:
        out["cp"] = np.full(len(points), math.nan)
    elif everything:
        rss, total = found[names.index("rss")], found[names.index("df_total")]
        parts = [
            mallows_cp(r, d / len(problem.targets), problem.n_eff)
            for problem, r, d in zip(problems, rss, total, strict=True)
        ]
        out["cp"] = np.sum(parts, axis=0)
    return out


# ---- where an automatic path begins ---------------------------------------------------------------


def smallest_single(single: Callable[[float], bool], top: float, n_samples: int) -> float:
    """Search the smallest alpha at which a single kernel is optimal.

    Parameters
    ----------
    single : callable
        Whether it is at an alpha.
    top : float
        Largest trace of a kernel.
    n_samples : int
        Above `EIGEN_ROWS` it is found to 50 %, else to 5 %.
    """
    high = 1e3 * top
    if not single(high):
        return high
    low = high
    while single(low):
        low /= 10.0
        # between two powers of ten, so that rounding does not decide
        if low < 0.5 * ALWAYS_ONE * top:
            return top
    while high > (1.5 if n_samples > EIGEN_ROWS else 1.05) * low:
        middle = math.sqrt(high * low)
        high, low = (middle, low) if single(middle) else (high, middle)
    return high


def alpha_range(problem: RidgeProblem) -> tuple[float, float]:
    """Return (largest, smallest) alpha of an automatic path.

    The largest is the smallest alpha at which a single kernel is optimal, found by bisection to 5 %, or to 50 % for
    more than `EIGEN_ROWS` rows; the trace of the largest kernel where one, or several that fit alike, is all there is.
    The smallest is `SMALLEST` times the largest weighted trace ``s_m sum_i w_i K_m(x_i, x_i)``.
    """
    gram, n = problem.gram, problem.gram.n_samples
    top = float((problem.scale * (gram.diagonal() @ (1.0 / problem.inverse_weights))).max())
    if top <= 0 or not problem.targets.any():
        return 1.0, SMALLEST
    start, _ = first_kernel(problem)
    unit = np.zeros(problem.n_kernels)
    unit[start] = 1.0
    if n > EIGEN_ROWS:
        # an eigendecomposition of thousands of rows costs as much as 30 factorisations
        work = Workspace()

        def coefficients(alpha: float) -> Array:
            return np.ascontiguousarray(problem.system(unit, alpha, work).solve(problem.targets.T).T)
    else:
        root = 1.0 / np.sqrt(problem.inverse_weights)
        factor = gram.factor(unit * problem.scale)
        if factor is not None and 2 * len(factor) < n:
            vectors, singular, _ = np.linalg.svd((factor * root).T, full_matrices=False)
            values = np.square(singular)
        else:
            K = gram.combine(unit * problem.scale) * root[:, None] * root
            values, vectors = eigh(K, driver="evd")
        white = problem.targets * root
        coordinates = white @ vectors

        def coefficients(alpha: float) -> Array:
            inside = (coordinates * (values / (values + alpha))) @ vectors.T
            return np.ascontiguousarray((white - inside) / alpha * root)

    def single(alpha: float) -> bool:
        quadratic_forms = problem.quad(coefficients(alpha))
        return bool(quadratic_forms.max() <= quadratic_forms[start] * (1 + 1e-8))

    return smallest_single(single, top, n), SMALLEST * top
