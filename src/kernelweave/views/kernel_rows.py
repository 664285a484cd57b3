"""Equal rows, and an order of the others, from kernel values only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Rounds in which rows with the same values are distinguished by the rows with which they share them.
ROUNDS = 3


def kernel_row_content(stack: Array) -> Array:
    """Numbers (n, 2) that agree exactly for rows whose kernel values all agree.

    Their order depends neither on the order of the rows nor on repetitions: it is that of digests of the set of values
    in a row, and if those are equal, of the pairs of a value and the digest of its row, over distinct
    rows. Rows with the same pairs keep their order.

    Parameters
    ----------
    stack : array of shape (n, n, n_kernels)
        If its columns are other rows, only values distinguish them.
    """
    n = len(stack)
    values = np.ascontiguousarray(stack) + 0.0  # no negative zero, whose bytes differ
    rows = [hashlib.sha256(row.tobytes()).digest() for row in values]
    first = {digest: i for i, digest in reversed(list(enumerate(rows)))}
    place = np.array([first[digest] for digest in rows], dtype=np.int64)
    numbers = np.array([_digest(np.unique(row[:, m]) for m in range(row.shape[1])) for row in values])
    square = values.shape[1] == n
    distinct = np.unique(place)
    for _ in range(ROUNDS if square else 0):
        tied = _tied(numbers, place)
        if not tied.any():
            break
        finer, others = numbers.copy(), numbers[distinct]
        for i in distinct[tied[distinct]]:
            own = values[i, distinct]
            pairs = (np.c_[others, own[:, m]][np.lexsort((own[:, m], others))] for m in range(own.shape[1]))
            finer[place == i] = _digest([numbers[i : i + 1], *pairs])
        numbers = finer
    return np.c_[numbers, np.where(_tied(numbers, place), place, 0)]


def _tied(numbers: Array, place: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows that share their number with a row of other values."""
    _, group = np.unique(numbers, return_inverse=True)
    pairs = np.unique(np.c_[group, place], axis=0)
    return np.bincount(pairs[:, 0])[group] > 1


def _digest(parts: Iterable[Array]) -> float:
    data = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return float(int.from_bytes(hashlib.sha256(data).digest()[:6], "big"))
