"""Kernels without information about the rows: the identity, where no row is similar to another, and the constant."""

from __future__ import annotations

import numpy as np

from kernelweave._types import Array, Index
from kernelweave.gram.base import PIECE, Gram, pieces

#: Largest mean over the rows of the squared cosines with all other rows. The values of a function of such a kernel on
#: similar new rows are about a thousandth of those on its training rows.
ALONE = 1e-6

#: Largest squared distance of a row to the first, as a share of its length: a thousand times the rounding errors.
SAME = 1e-12


def identities_and_constants(gram: Gram) -> tuple[Index, Index]:
    """Positions of the kernels that are diagonal on these rows, and of those that are constant.

    The diagonal and the first row of each kernel decide almost always; only a kernel whose first row is negligible
    beside the diagonal is read as a whole. For a constant the two are enough: all rows are at distance zero from the
    first. A kernel with repeated rows is not an identity, because repeated rows are similar.
    """
    n = gram.n_samples
    alone: list[int] = []
    same: list[int] = []
    step = max(1, PIECE // n) if n > 1 else gram.n_kernels + 1
    ranks, residual = gram.ranks, gram.residual_trace
    for first in range(0, gram.n_kernels if n > 1 else 0, step):
        chunk = np.arange(first, min(first + step, gram.n_kernels))
        diagonal = gram.diagonal(chunk)
        largest, smallest = diagonal.max(axis=1), diagonal.min(axis=1)
        # a positive diagonal matrix has full rank, and is stored as a factor only of rank n
        full = (smallest > 0) & ((ranks[chunk] < 0) | (ranks[chunk] >= n))
        # distances to the first row are squares of differences of lengths at least
        flat = (largest - smallest <= 4.0 * np.sqrt(SAME) * largest) & (residual[chunk] <= SAME * n * largest)
        here = np.flatnonzero(full | flat)
        if not len(here):
            continue
        chunk, diagonal, full, flat = chunk[here], diagonal[here], full[here], flat[here]
        row, own = gram.panel(slice(0, 1), chunk)[:, 0], diagonal[:, :1]
        near = (own + diagonal - 2.0 * row <= SAME * np.maximum(diagonal, own)).all(axis=1)
        same.extend(chunk[near & flat])
        # the first row without its own entry
        row, rest = row[:, 1:], np.where(full[:, None], diagonal[:, 1:], 1.0)
        squares = (row * row / rest).sum(axis=1) / np.where(full, own[:, 0], 1.0)
        maybe = np.flatnonzero(full & (2.0 * squares <= ALONE * n))
        alone.extend(int(chunk[k]) for k in maybe if _is_diagonal(gram, int(chunk[k]), diagonal[k]))
    return np.array(alone, dtype=np.int64), np.array(same, dtype=np.int64)


def _is_diagonal(gram: Gram, m: int, diagonal: Array) -> bool:
    n, total = gram.n_samples, 0.0
    if diagonal.max() == diagonal.min():
        return gram.square_norm(m) - float(diagonal @ diagonal) <= ALONE * n * float(diagonal[0]) ** 2
    root = np.sqrt(diagonal)
    for part in pieces(n, PIECE // n):
        panel = gram.panel(part, np.array([m]))[0]
        cosines = np.square(panel / root[part, None] / root[part.start :])
        square, beyond = np.split(cosines, [len(panel)], axis=1)
        total += float(square.sum() - square.trace()) + 2.0 * float(beyond.sum())
        if total > ALONE * n:
            return False
    return True


#: Share of the largest number of directions, rows less one, over which a kernel spreads, at least, to count as one
#: in which rows hardly resemble each other.
SPREAD = 0.95

#: Standard deviations by which the alignment with the targets exceeds what turned targets give, at least.
BEYOND_CHANCE = 2.0


def spread_and_alignment(
    gram: Gram, targets: Array, sample_weight: Array | None = None
) -> tuple[Array, Array]:
    """How evenly centred kernels spread over all directions, and how far they align with targets beyond chance.

    Parameters
    ----------
    gram : Gram
        Centred here, whether it has been or not.
    targets : array of shape (n_samples, n_outputs)
    sample_weight : array of shape (n_samples,), optional
        A weight equals a repetition of the row.

    Returns
    -------
    spread : array of shape (n_kernels,)
        ``tr(K)^2 / (N |K|_F^2)`` of the centred kernel, N the number of rows less one: 1 for the identity, 1 / N for a
        kernel of one direction. 0 for kernels that are constant.
    beyond : array of shape (n_kernels,)
        ``(tr(K Y) - mean) / deviation`` for ``Y`` the inner products of the centred targets; mean and deviation are
        those over all rotations of the targets about the constant vector, in closed form:
        ``tr(K) tr(Y) / N`` and the root of ``2 (|K|_F^2 - tr(K)^2 / N) (|Y|_F^2 - tr(Y)^2 / N) / ((N - 1) (N + 2))``.

    Notes
    -----
    The mean over rotations equals that over permutations. One pass over each kernel, O(n_samples^2).
    """
    n = gram.n_samples
    weights = np.ones(n) if sample_weight is None else sample_weight
    total = float(weights.sum())
    size = total - 1.0
    Y = targets - weights @ targets / total
    inner = Y.T @ (weights[:, None] * Y)
    trace_y, square_y = float(np.trace(inner)), float(np.square(inner).sum())
    means = gram.matvecs(weights[None])[:, 0]  # K w
    sums = means @ weights
    trace = np.maximum(gram.trace(weights) - sums / total, 0.0)
    raw = np.array([gram.square_norm(m, sample_weight) for m in range(gram.n_kernels)])
    square = raw - 2.0 * (np.square(means) @ weights) / total + np.square(sums / total)
    # what rounding leaves of a constant kernel
    flat = (square <= 1e-10 * raw) | (size < 2.0)
    square = np.where(flat, 1.0, square)
    spread = np.where(flat, 0.0, np.square(trace) / (max(size, 1.0) * square))
    aligned = gram.quadratic_forms(np.ascontiguousarray((weights[:, None] * Y).T))
    room = np.maximum(square - np.square(trace) / max(size, 1.0), 0.0)
    room_y = max(square_y - trace_y * trace_y / max(size, 1.0), 0.0)
    deviation = np.sqrt(2.0 * room * room_y / max((size - 1.0) * (size + 2.0), 1.0))
    excess = aligned - trace * trace_y / max(size, 1.0)
    beyond = np.divide(excess, deviation, out=np.zeros_like(excess), where=(deviation > 0) & ~flat)
    return spread, beyond
