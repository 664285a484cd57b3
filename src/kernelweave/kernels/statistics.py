"""Statistics of all pairs of rows: squared distances, inner products, sums of absolute differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, as_floats, check_known
from kernelweave._loops import core
from kernelweave._parameters import LARGEST_NUMBER
from kernelweave._sparse import entries as stored
from kernelweave._sparse import is_sparse, l1_distances, sq_norms
from kernelweave._threads import threads_for
from kernelweave.kernels.incomplete import IncompleteRows, incomplete_statistic

__all__ = ["pairwise_statistic", "statistic_panels"]

FloatArray = NDArray[np.float64]

FEW_COLUMNS = 4
"""Up to this many columns squared distances are summed column by column, without cancellation."""


def pairwise_statistic(kind: str, A: Any, B: Any = None) -> FloatArray:
    """Compute a statistic of all pairs of rows.

    Parameters
    ----------
    kind : {"sqdist", "dot", "l1"}
        Squared Euclidean distance, inner product, or sum of absolute differences.
    A : array or SciPy sparse array of shape (n, n_columns)
    B : the same of shape (m, n_columns) or None
        None: pairs within `A`; the result is then exactly symmetric, and distances are exactly 0 on the
        diagonal.

    Returns
    -------
    array of shape (n, m), float64
        Squared distances are never negative.

    Notes
    -----
    Squared distances over more than four columns come from inner products of rows centred at their mean, with
    an absolute error of about 1e-16 times the squared norms; over fewer columns they are summed directly.
    Time O(n m n_columns); memory O(n m).

    Examples
    --------
    >>> pairwise_statistic("sqdist", [[0.0, 0.0], [3.0, 4.0]])
    array([[ 0., 25.],
           [25.,  0.]])
    """
    check_known(kind, ("sqdist", "dot", "l1"), "pairwise statistic")
    left: Any = A if _is_rows(A) else as_floats(A, "A")
    right: Any = left if B is None else B if _is_rows(B) else as_floats(B, "B")
    if len(left.shape) != 2 or len(right.shape) != 2 or left.shape[1] != right.shape[1]:
        raise InputError(
            f"Rows must be 2D arrays with equally many columns, got {left.shape} and {right.shape}. Select "
            "the same columns on both sides."
        )
    check_sizes(left)
    check_sizes(right)
    symmetric = B is None
    if isinstance(left, IncompleteRows) or isinstance(right, IncompleteRows):
        S = incomplete_statistic(kind, left, right, symmetric=symmetric)
        return mirror(S) if symmetric else S
    if is_sparse(left) or is_sparse(right):
        S = _of_sparse(kind, left, right, right.T)
        if symmetric:
            np.fill_diagonal(S, sq_norms(left) if kind == "dot" else 0.0)
        return mirror(S) if symmetric else S
    if kind == "l1" or (kind == "sqdist" and left.shape[1] <= FEW_COLUMNS):
        S = _by_columns(left, right, kind)
        return mirror(S) if symmetric else S
    if kind == "dot":
        S = left @ right.T
        return mirror(S) if symmetric else S
    centre = right.mean(axis=0) if len(right) else 0.0
    left = left - centre
    right = left if symmetric else right - centre
    S = left @ right.T
    S *= -2.0
    S += sq_norms(left)[:, None]
    S += sq_norms(right)
    np.maximum(S, 0.0, out=S)
    if symmetric:
        np.fill_diagonal(S, 0.0)
    return mirror(S) if symmetric else S


def _is_rows(A: Any) -> bool:
    """Whether rows are in a format that needs no conversion."""
    return is_sparse(A) or isinstance(A, IncompleteRows)


def check_sizes(A: FloatArray) -> None:
    """Raise for numbers whose squares overflow."""
    largest = float(np.abs(stored(A)).max(initial=0.0))
    if largest > LARGEST_NUMBER:
        raise InputError(
            f"Rows must not hold numbers above {LARGEST_NUMBER:g}, got {largest:.3g}, whose square overflows. Divide "
            "the column by a constant first."
        )


def statistic_panels(kind: str, A: FloatArray, entries: int) -> Iterator[tuple[slice, FloatArray]]:
    """The upper triangle of `pairwise_statistic(kind, A)` without the whole matrix.

    Parameters
    ----------
    kind, A : see `pairwise_statistic`
    entries : int
        Numbers computed at a time; at least one row.

    Yields
    ------
    rows : slice
        Some rows, in order.
    S : array of shape (n_rows, n - rows.start)
        Their values with all rows from their own first one on. Inner products of rows with themselves are those that
        `sq_norms` gives, and their distances exactly 0.
    """
    n = A.shape[0]
    if isinstance(A, IncompleteRows):
        yield from _incomplete_panels(kind, A, entries)
        return
    if is_sparse(A):
        yield from _sparse_panels(kind, A, entries)
        return
    by_columns = kind == "l1" or (kind == "sqdist" and A.shape[1] <= FEW_COLUMNS)
    if kind == "sqdist" and not by_columns:
        A = A - A.mean(axis=0)
    squares = None if by_columns else sq_norms(A)
    start = 0
    while start < n:
        rows = slice(start, min(n, start + max(1, entries // (n - start))))
        if squares is None:
            S = _by_columns(A[rows], A[start:], kind)
        else:
            S = A[rows] @ A[start:].T
            if kind == "sqdist":
                S *= -2.0
                S += squares[rows, None]
                S += squares[start:]
                np.maximum(S, 0.0, out=S)
            np.fill_diagonal(S, squares[rows] if kind == "dot" else 0.0)
        yield rows, S
        start = rows.stop


def _incomplete_panels(kind: str, A: IncompleteRows, entries: int) -> Iterator[tuple[slice, FloatArray]]:
    n, start = len(A), 0
    squares = A.sq_norms() if kind == "dot" else np.zeros(n)
    while start < n:
        rows = slice(start, min(n, start + max(1, entries // (n - start))))
        S = incomplete_statistic(kind, A[rows], A[start:])
        np.fill_diagonal(S, squares[rows])
        yield rows, S
        start = rows.stop


def _sparse_panels(kind: str, A: Any, entries: int) -> Iterator[tuple[slice, FloatArray]]:
    n, start, first, right = A.shape[0], 0, 0, A.T.tocsr()
    squares = sq_norms(A)
    while start < n:
        if 2 * (n - start) <= n - first:
            # half of the columns are done: products with them are not needed
            first, right = start, A[start:].T.tocsr()
        rows = slice(start, min(n, start + max(1, entries // (n - first))))
        S = _of_sparse(kind, A[rows], A[first:], right)[:, start - first :]
        np.fill_diagonal(S, squares[rows] if kind == "dot" else 0.0)
        yield rows, S
        start = rows.stop


def _of_sparse(kind: str, A: Any, B: Any, transposed: Any) -> FloatArray:
    """A statistic from sparse products of A with B, of which one at least is sparse; `transposed` is that of B."""
    if kind == "l1":
        return l1_distances(A, B)
    S = A @ transposed
    S = S.toarray() if is_sparse(S) else np.array(S)
    if kind == "sqdist":
        S *= -2.0
        S += sq_norms(A)[:, None]
        S += sq_norms(B)
        np.maximum(S, 0.0, out=S)
    return S


def _by_columns(A: FloatArray, B: FloatArray, kind: str) -> FloatArray:
    """Sums of differences over the columns, absolute or squared, of every row of A and B."""
    columns = np.ascontiguousarray(B.T)
    if kind == "l1":
        S = np.empty((len(A), len(B)))
        core.differences(np.ascontiguousarray(A), columns, S, threads_for(min(S.shape)))
        return S
    # in tiles of rows that stay in the cache
    n, m = len(A), len(B)
    S, rows = np.zeros((n, m)), max(1, 32768 // max(m, 1))
    work = np.empty((rows, m))
    for top in range(0, n, rows):
        tile = S[top : top + rows]
        difference = work[: len(tile)]
        for a, b in zip(A.T, columns, strict=True):
            np.subtract(a[top : top + rows, None], b, out=difference)
            tile += np.square(difference, out=difference)
    return S


def mirror(K: FloatArray, block: int = 512) -> FloatArray:
    """Copy the upper triangle of a square matrix onto the lower one, in place."""
    for top in range(0, len(K), block):
        end = top + block
        K[top:end, :top] = K[:top, top:end].T
        corner = K[top:end, top:end]
        lower = np.tril_indices(len(corner), -1)
        corner[lower] = corner.T[lower]
    return K
