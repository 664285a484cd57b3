"""What RLS2 on approximate kernels is worth in the problem of the kernels themselves: a bound, and an estimate.

With approximate kernels ``A_m`` in place of ``K_m`` (both normalised alike), coefficients c of the dual are feasible
for ``K_m`` as well, and any multiple of them bounds the optimal value of RLS2 with ``K_m`` from below:

    D(c) = 1/2 (y'c)^2 / (c'N c + max_m q_m / alpha) ,   q_m = s_m c'K_m c .

*Bound.* Where ``E_m = K_m - A_m`` is positive semidefinite, as of Nystroem features, functions of the approximate
kernels are functions of ``K_m`` with a norm that is no larger, so that the objective P of the fit bounds that of the
same function in the problem of ``K_m``. With ``|E_ij| <= sqrt(E_ii E_jj)``, q_m is at most ``s_m c'A_m c + s_m (sum_i
|c_i| sqrt(E_ii))^2``, and ``P - D(c)`` with these bounds the gap of the function. Only diagonals are needed.

*Estimate.* The q_m themselves are sums over rows i of ``c_i (K_m c)_i``, which are estimated from some rows, each drawn
with a known probability; with few rows they are exact. Of Nystroem features this estimates a bound of the gap of the
same function. Random features have no such relation to the kernels, and P is then the objective of ``K(d) c``, weights
and dual coefficients of the fit used with the kernels themselves, estimated from the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave.fitting.source import TableSource
from kernelweave.fitting.task import SolvedProblem, Task
from kernelweave.gram import FeatureGram
from kernelweave.kernels import Kernel, Nystroem, exact_kernel, maps_of
from kernelweave.results import RelaxedSolution

Array = NDArray[np.float64]

#: Rows up to which all are used, and rows that are drawn of more.
EVERY, DRAWN = 1000, 200
#: Numbers of kernel values computed at a time.
ENTRIES = 2**22


@dataclass(frozen=True)
class TrueGap:
    """Gaps in the problem of the kernels themselves, as shares of the objective.

    Attributes
    ----------
    bound : float or None
        Of the fitted function, from diagonals; None if there is none.
    estimate : float
        The same with estimated quadratic forms; of random features of the weights and dual coefficients, used with the
        kernels themselves.
    error : float
        Standard error of `estimate`; 0 if it is exact.
    n_rows : int
        Rows from which it was estimated.
    """

    bound: float | None
    estimate: float
    error: float
    n_rows: int


def true_gap(task: Task, solved: list[SolvedProblem], seed: int = 0) -> TrueGap | None:
    """The gaps of a model of RLS2 on features; None for other models.

    Parameters
    ----------
    task : Task
    solved : list of SolvedProblem
    seed : int
        Of the draw of rows.
    """
    source = task.source
    grams = [s.problem.gram for s in solved]
    if not isinstance(source, TableSource) or not all(isinstance(gram, FeatureGram) for gram in grams):
        return None
    if any(s.problem.normalizer.cosine_scale is not None or not np.isfinite(_alpha(s)) for s in solved):
        return None
    n = source.n_samples
    rng = np.random.default_rng(seed)
    size = np.sqrt(sum(np.square(_dual(s)).sum(axis=1) for s in solved))
    total = float(size.sum())
    chance = 0.5 * size / total + 0.5 / n if total > 0 else np.full(n, 1.0 / n)
    chance /= chance.sum()
    if n <= EVERY:
        rows, share = np.arange(n), np.ones(n)
    else:
        rows = rng.choice(n, DRAWN, p=chance)
        share = 1.0 / (DRAWN * chance[rows])
    exact = [exact_kernel(kernel) for kernel in source.kernels]
    values = _products(source, exact, solved, rows)
    bounds = _bounds(source, solved)
    primal = 0.0
    if bounds is not None:
        # the objective of the fitted function
        primal = sum(float(getattr(s.solution, "ridge_primal", s.solution.primal)) for s in solved)
    below = lowest = 0.0
    reach, objective = np.zeros((2, len(rows)))
    for k, s in enumerate(solved):
        quadratic, value = _by_rows(s, values[k], rows, share)
        dual, slope = _dual_value(s, quadratic.sum(axis=1))
        below, objective = below + dual, objective + value
        reach += np.einsum("mt,mit->i", slope, quadratic)
        if bounds is not None:
            lowest += _dual_value(s, bounds[k])[0]
    if bounds is None:
        primal = float(objective.sum())
    if not primal > 0:
        return TrueGap(None if bounds is None else 0.0, 0.0, 0.0, len(rows))
    by_row = reach / primal
    if bounds is None:
        by_row = by_row + below / primal**2 * objective
    error = 0.0 if n <= EVERY else float(by_row.std(ddof=1)) * np.sqrt(len(rows))
    bound = None if bounds is None else max(1.0 - lowest / primal, 0.0)
    return TrueGap(bound, max(1.0 - below / primal, 0.0), error, len(rows))


def _alpha(s: SolvedProblem) -> float:
    """The regularisation parameter of the coefficients."""
    result: Any = s.solution
    return float(result.relax) if isinstance(result, RelaxedSolution) else float(result.alpha)


def _dual(s: SolvedProblem) -> Array:
    """Dual coefficients, shape (n_samples, n_outputs)."""
    return s.solution.dual_coef.reshape(s.problem.gram.n_samples, -1)


def _inside(s: SolvedProblem) -> Array:
    """Dual coefficients for raw kernels: those of centred kernels less the weights of rows times their sums."""
    C, p = _dual(s), s.problem.normalizer.probability
    return C if p is None else C - p[:, None] * C.sum(axis=0)


def _row_weights(s: SolvedProblem) -> Array:
    weight = s.problem.sample_weight
    return np.ones(s.problem.gram.n_samples) if weight is None else weight


def _scales(s: SolvedProblem) -> Array:
    """Factors of kernels, 0 of those that were set to zero."""
    fitted = s.problem.normalizer
    return fitted.scale if fitted.constant is None else np.where(fitted.constant, 0.0, fitted.scale)


def _products(
    source: TableSource, kernels: list[Kernel], solved: list[SolvedProblem], rows: NDArray[np.intp]
) -> list[Array]:
    """``K_m c`` on some rows, of raw kernels, shape (n_kernels, n_rows, n_outputs) for each problem."""
    C = np.concatenate([_inside(s) for s in solved], axis=1)
    out = np.empty((len(kernels), len(rows), C.shape[1]))
    step = max(1, ENTRIES // source.n_samples)
    for first in range(0, len(rows), step):
        part = source.table.rows(rows[first : first + step])
        for m, kernel in enumerate(kernels):
            out[m, first : first + step] = kernel(part, source.table) @ C
    ends = np.cumsum([_dual(s).shape[1] for s in solved])[:-1]
    return np.split(out, ends, axis=2)


def _by_rows(s: SolvedProblem, V: Array, rows: NDArray[np.intp], share: Array) -> tuple[Array, Array]:
    """Shares of the drawn rows in ``s_m c'K_m c``, (n_kernels, n_rows, n_outputs), and in the objective of K(d) c."""
    C, alpha, weight = _dual(s)[rows], _alpha(s), _row_weights(s)[rows]
    p = s.problem.normalizer.probability
    if p is not None:
        # the mean over training rows, from the drawn ones
        V = V - np.einsum("i,mit->mt", share * p[rows], V)[:, None]
    V = V * _scales(s)[:, None, None]
    weights = np.broadcast_to(np.atleast_2d(s.solution.weights), (C.shape[1], len(V)))
    quadratic = share[:, None] * V * C
    f = np.einsum("tm,mit->it", weights, V)
    errors = 0.5 * share * weight * np.square(s.problem.y[rows] - f).sum(axis=1)
    return quadratic, errors + 0.5 * alpha * np.einsum("tm,mit->i", weights, quadratic)


def _bounds(source: TableSource, solved: list[SolvedProblem]) -> list[Array] | None:
    """Upper bounds of ``s_m c'K_m c``, (n_kernels, n_outputs) for each problem; None if a map is of another kind."""
    kernels = source.kernels
    if not all(isinstance(one, Nystroem) for kernel in kernels for one in maps_of(kernel)):
        return None
    gram, means = solved[0].problem.gram, solved[0].problem.means
    assert isinstance(gram, FeatureGram)
    roots = np.zeros((len(kernels), gram.n_samples))
    for m, kernel in enumerate(kernels):
        if not kernel.is_approximate:
            continue
        own = slice(gram.offsets[m], gram.offsets[m + 1])
        phi = gram.rows[own] if means is None else gram.rows[own] + means[own, None]
        left = exact_kernel(kernel).diag(source.table) - np.einsum("rn,rn->n", phi, phi)
        roots[m] = np.sqrt(np.maximum(left, 0.0))
    found = []
    for s in solved:
        C = np.ascontiguousarray(_dual(s).T)
        inside = np.abs(_inside(s))
        quadratic = np.stack([s.problem.gram.quadratic_forms(c[None]) for c in C], axis=1)
        scales = _scales(s)[:, None]
        found.append(scales * quadratic + scales * np.square(roots @ inside))
    return found


def _dual_value(s: SolvedProblem, reach: Array) -> tuple[float, Array]:
    """The bound of the optimal value from below, of the best multiple of the dual coefficients.

    Parameters
    ----------
    s : SolvedProblem
    reach : array of shape (n_kernels, n_outputs)
        ``s_m c'K_m c`` of every output, or upper bounds.

    Returns
    -------
    value : float
    slope : array of shape (n_kernels, n_outputs)
        What it loses with `reach`.
    """
    C, alpha, weight = _dual(s), _alpha(s), _row_weights(s)
    weights = np.atleast_2d(s.solution.weights)
    relaxed = isinstance(s.solution, RelaxedSolution)
    groups = [slice(None)] if len(weights) == 1 else [slice(t, t + 1) for t in range(C.shape[1])]
    total, slope = 0.0, np.zeros(reach.shape)
    for w, group in zip(weights, groups, strict=True):
        inner = float(np.vdot(s.problem.y[:, group], C[:, group]))
        squares = float((np.square(C[:, group]) / weight[:, None]).sum())
        own = reach[:, group].sum(axis=1)
        # of the best kernel, or of fixed weights
        counted = w if relaxed else np.eye(1, len(own), int(own.argmax()))[0]
        below = squares + max(float(counted @ own), 0.0) / alpha
        if inner > 0 and below > 0:
            value = 0.5 * inner * inner / below
            total += value
            slope[:, group] = (value / below / alpha * counted)[:, None]
    return total, slope
