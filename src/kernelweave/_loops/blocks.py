"""Block coordinate descent on plain arrays: the NumPy twins of the compiled functions in ``blocks.hpp``.

They minimise ``1/2 ||Y - Z W||^2 + alpha/2 (sum_m |W_m|)^2`` over blocks with orthogonal columns. With the squared
norms h of these columns, ``v = Z_m'R + h W_m`` and the sum T of the other norms, the minimiser over one block is

    W_m = rho v / ((h + alpha) rho + alpha T) ,     sum_i v_i^2 / ((h_i + alpha) rho + alpha T)^2 = 1 ,

and zero where ``|v| <= alpha T``. After every sweep all coefficients are multiplied by the best common factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._types import Array, Index


def norm_of_block(square: Array, h: Array, alpha: float, pull: float, start: float) -> float:
    """Root rho of ``sum_i square_i / ((h_i + alpha) rho + pull)^2 = 1``, zero where there is none."""
    over = math.sqrt(float(square.sum())) - pull
    if not over > 0.0:
        return 0.0
    c = h + alpha
    low, high = over / float(c.max()), over / float(c.min())
    if low == high:
        return low
    rho = start if low < start < high else low
    for _ in range(60):
        d = 1.0 / (c * rho + pull)
        terms = square * d * d
        total, slope = float(terms.sum()), float(terms @ (c * d))
        low, high = (rho, high) if total > 1.0 else (low, rho)
        # the inverse root of the sum is nearly linear in rho
        after = rho + (math.sqrt(total) - 1.0) * total / slope
        if not low < after < high:
            after = 0.5 * (low + high)
        moved, rho = abs(after - rho), after
        if moved <= 1e-14 * rho:
            break
    return rho


def _minimise(v: Array, h: Array, alpha: float, pull: float, start: float) -> tuple[Array, float]:
    """Coefficients (n_outputs, width) of one block, and their norm."""
    if v.size == 1:
        size = max(0.0, abs(float(v[0, 0])) - pull) / (float(h[0]) + alpha)
        return np.full((1, 1), math.copysign(size, v[0, 0])), size
    rho = norm_of_block(np.square(v).sum(axis=0), h, alpha, pull, start)
    if rho <= 0.0:
        return np.zeros_like(v), 0.0
    fresh = v * (rho / ((h + alpha) * rho + pull))
    return fresh, math.sqrt(float(np.vdot(fresh, fresh)))


#: Sweeps over blocks with coefficients between two over all chosen ones.
_LONGEST = 10


def _descend(
    offsets: Index,
    chosen: Index,
    h: Array,
    W: Array,
    norms: Array,
    alpha: float,
    aim: float,
    most: int,
    gradient: Callable[[slice], Array],
    move: Callable[[slice, Array], None],
    fit: Callable[[], tuple[float, float]],
    rest: Callable[[], tuple[float, float]],
    rescale: Callable[[float], None],
) -> tuple[int, float]:
    columns = {int(m): slice(int(offsets[m]), int(offsets[m + 1])) for m in chosen}
    taken = np.concatenate([np.arange(own.start, own.stop) for own in columns.values()] or [np.empty(0, int)])
    some: list[int] = []
    everything = float(norms[chosen].sum()) > 0.0
    if not everything:
        # from zero, every block could move: the first is the one that gains most
        sizes = {m: float(np.square(gradient(own)).sum()) for m, own in columns.items()}
        best = max(sizes, key=sizes.__getitem__, default=-1)
        if best < 0 or not sizes[best] > 0.0:
            return 0, 1.0
        some = [best]
    sweeps, since, last = 0, 0, 1.0
    while sweeps < most:
        highest, total = 0.0, float(norms[chosen].sum())
        for m in columns if everything else some:
            own = columns[m]
            v = gradient(own)
            highest = max(highest, float(np.vdot(v, v)))
            others = max(0.0, total - float(norms[m]))
            fresh, norm = _minimise(v + h[own] * W[:, own], h[own], alpha, alpha * others, float(norms[m]))
            if norm == 0.0 and norms[m] == 0.0:
                continue
            step = fresh - W[:, own]
            W[:, own] = fresh
            norms[m], total = norm, others + norm
            if step.any():
                move(own, step)
        sweeps += 1
        level = float(norms[chosen].sum())
        along, size = fit()
        below = size + alpha * level * level
        best_scale = along / below if below > 0.0 else 0.0
        if 0.0 < best_scale < 1e6 and best_scale != 1.0:
            W[:, taken] *= best_scale
            norms[chosen] *= best_scale
            level *= best_scale
            rescale(best_scale)
        inner, square = rest()
        primal, under = 0.5 * square + 0.5 * alpha * level * level, square + highest / alpha
        dual = 0.5 * inner * inner / under if under > 0.0 and inner > 0.0 else 0.0
        # below 0 where gradients have grown since their blocks moved: that is no gap of 0
        left = abs(primal - dual) / primal if primal > 0.0 else 0.0
        since += 1
        if everything:
            last, since = left, 0
            if left <= aim:
                break
        everything = not everything and (left <= aim or since >= _LONGEST)
        some = [m for m in columns if norms[m] > 0.0]
    return sweeps, last


def blocks_on_rows(
    Zt: Array,
    offsets: Index,
    chosen: Index,
    h: Array,
    Y: Array,
    W: Array,
    norms: Array,
    R: Array,
    alpha: float,
    aim: float,
    most: int,
) -> tuple[int, float]:
    """Sweeps over the chosen blocks, with the residual ``R = Y - W Zt``.

    Parameters
    ----------
    Zt : array of shape (p, n)
        Columns of all blocks as rows; block m owns rows ``offsets[m]:offsets[m + 1]``, orthogonal to each other.
    offsets, chosen : arrays of int
        Blocks that are not chosen have no coefficients.
    h : array of shape (p,)
        Squared norms of the columns.
    Y : array of shape (n_outputs, n)
    W, norms, R : arrays of shape (n_outputs, p), (n_blocks,) and (n_outputs, n)
        Changed in place.
    alpha, aim : float
    most : int
        Sweeps; they end when the gap over the chosen blocks is at most `aim` times the objective.

    Returns
    -------
    sweeps : int
    left : float
        That gap as a share of the objective, by the gradients that the last sweep over all chosen blocks has met.
    """

    def fit() -> tuple[float, float]:
        f = Y - R
        return float(np.vdot(Y, f)), float(np.vdot(f, f))

    def move(own: slice, step: Array) -> None:
        R[...] -= step @ Zt[own]

    def rescale(best: float) -> None:
        R[...] = Y - best * (Y - R)

    return _descend(
        offsets,
        chosen,
        h,
        W,
        norms,
        alpha,
        aim,
        most,
        lambda own: R @ Zt[own].T,
        move,
        fit,
        lambda: (float(np.vdot(Y, R)), float(np.vdot(R, R))),
        rescale,
    )


def blocks_on_weighted_rows(
    X: Array,
    offsets: Index,
    chosen: Index,
    h: Array,
    turns: Array,
    means: Array,
    weight: Array,
    inverse: Array,
    W: Array,
    norms: Array,
    f: Array,
    u: Array,
    alpha: float,
    aim: float,
    most: int,
) -> tuple[int, float]:
    """The same for ``1/2 sum_i weight_i (y_i - f_i)^2``, with ``f = X'w + t`` and the best t, or without t.

    Parameters
    ----------
    X : array of shape (p, n)
        Columns as rows.
    h : array of shape (p,)
        Eigenvalues of each block of the second derivative ``(X - means) diag(weight) (X - means)'``.
    turns : array of shape (p, widest)
        Its eigenvectors: those of a block of width k are the columns of ``turns[first:last, :k]``.
    means : array of shape (p,)
        Weighted means of the columns, zero without t.
    weight, inverse : arrays of shape (n,)
        Weights of the rows; ``1 / weight``, and 0 for rows without one.
    W, norms, f, u : arrays of shape (1, p), (n_blocks,), (n,) and (n,)
        Changed in place; ``u = weight (y - f)``.
    """
    blocks = [slice(int(offsets[m]), int(offsets[m + 1])) for m in chosen]

    def turn(own: slice) -> Array:
        return turns[own, : own.stop - own.start]

    def move(own: slice, step: Array) -> None:
        back = turn(own) @ step[0]
        d = back @ X[own] - float(back @ means[own])
        f[...] += d
        u[...] -= weight * d

    def rescale(best: float) -> None:
        u[...] += (1.0 - best) * weight * f
        f[...] *= best

    def fit() -> tuple[float, float]:
        size = float(weight @ np.square(f))
        return float(u @ f) + size, size

    def rest() -> tuple[float, float]:
        square = float(inverse @ np.square(u))
        return square + float(u @ f), square

    for own in blocks:
        W[:, own] = W[:, own] @ turn(own)
    found = _descend(
        offsets,
        chosen,
        h,
        W,
        norms,
        alpha,
        aim,
        most,
        lambda own: (X[own] @ u @ turn(own))[None],
        move,
        fit,
        rest,
        rescale,
    )
    for own in blocks:
        W[:, own] = W[:, own] @ turn(own).T
    return found


def blocks_weighted_products(
    X: Array, offsets: Index, chosen: Index, weight: Array, C: Array, sums: Array
) -> None:
    """Lower triangles of ``X_m diag(weight) X_m'`` of some blocks in rows of C (p, widest), and ``sums = X weight``."""
    for m in chosen:
        own = slice(int(offsets[m]), int(offsets[m + 1]))
        weighted = X[own] * weight
        C[own, : len(weighted)] = np.tril(weighted @ X[own].T)
        sums[own] = weighted.sum(axis=1)


def blocks_on_products(
    C: Array,
    offsets: Index,
    chosen: Index,
    h: Array,
    Q: Array,
    total: float,
    W: Array,
    norms: Array,
    G: Array,
    alpha: float,
    aim: float,
    most: int,
) -> tuple[int, float]:
    """The same with ``C = Z'Z`` (p, p), ``Q = Y'Z``, ``total = ||Y||^2`` and the gradient ``G = Q - W C``.

    The gradient is kept for chosen blocks.
    """
    taken = np.zeros(len(h), dtype=bool)
    for m in chosen:
        taken[offsets[m] : offsets[m + 1]] = True

    def move(own: slice, step: Array) -> None:
        G[:, taken] -= step @ C[own][:, taken]

    def fit() -> tuple[float, float]:
        along = float(np.vdot(Q[:, taken], W[:, taken]))
        return along, max(0.0, float(np.vdot((Q - G)[:, taken], W[:, taken])))

    def rest() -> tuple[float, float]:
        inner = total - float(np.vdot(Q[:, taken], W[:, taken]))
        return inner, max(0.0, inner - float(np.vdot(G[:, taken], W[:, taken])))

    def rescale(best: float) -> None:
        G[:, taken] = Q[:, taken] - best * (Q - G)[:, taken]

    return _descend(
        offsets, chosen, h, W, norms, alpha, aim, most, lambda own: G[:, own], move, fit, rest, rescale
    )


def blocks_residual(Zt: Array, offsets: Index, chosen: Index, Y: Array, W: Array, R: Array) -> None:
    """``R = Y - W Zt`` over the chosen blocks."""
    columns = np.concatenate([np.arange(offsets[m], offsets[m + 1]) for m in chosen] or [np.empty(0, int)])
    R[...] = Y - W[:, columns] @ Zt[columns]


#: Columns that are converted at a time.
_PIECE = 512


def column_products(Zt: NDArray[Any], R: Array, out: Array) -> None:
    """``R Zt'``, shape (n_vectors, p), for columns as rows of Zt (p, n), in single or double precision."""
    for first in range(0, len(Zt), _PIECE):
        part = slice(first, first + _PIECE)
        out[:, part] = R @ np.asarray(Zt[part], dtype=np.float64).T


def column_sums(Zt: NDArray[Any], index: Index, coef: Array, out: Array) -> None:
    """``coef Zt[index]``, shape (n_vectors, n)."""
    out[:] = 0.0
    for first in range(0, len(index), _PIECE):
        part = slice(first, first + _PIECE)
        out += coef[:, part] @ np.asarray(Zt[index[part]], dtype=np.float64)


#: Numbers of waves of a kernel are below this.
MOST_WAVES = 1_000_000


def gaussian_quadratic_forms(
    Xt: NDArray[Any],
    columns: Index,
    middles: Array,
    periods: Array,
    counts: Index,
    gammas: Array,
    R: Array,
    out: Array,
) -> None:
    """``r_v' K_m r_v`` for Gaussian kernels of single columns, as rows of Xt (p, n), by their Fourier series.

    With ``K_m(x, z) = sum_k a_k cos(2 pi k (x - z) / periods[m])`` for k from 0 to ``counts[m]``,
    ``a_0 = sqrt(pi / gamma) / period`` and ``a_k = 2 a_0 exp(-pi^2 k^2 / (gamma period^2))``. Values of column
    ``columns[m]`` lie within half a period of ``middles[m]``.
    """
    if ((counts < 0) | (counts >= MOST_WAVES)).any():
        raise ValueError(f"`counts` must hold integers from 0 to {MOST_WAVES} - 1")
    for m, (column, middle, period, count, gamma) in enumerate(
        zip(columns, middles, periods, counts, gammas, strict=True)
    ):
        k = np.arange(count + 1.0)
        a = np.where(k > 0, 2.0, 1.0) * math.sqrt(math.pi / gamma) / period
        a *= np.exp(-np.square(math.pi * k / period) / gamma)
        angles = (np.asarray(Xt[column], dtype=np.float64) - middle) * (2.0 * math.pi / period)
        sums = R @ np.exp(1j * np.multiply.outer(angles, k))
        out[:, m] = (np.square(sums.real) + np.square(sums.imag)) @ a
