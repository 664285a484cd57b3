"""Statistics of all pairs of rows: squared distances, inner products, sums of absolute differences.

Rows may have missing cells; their statistics are those of the columns that both rows of a pair have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, as_floats, check_known
from kernelweave._loops import core
from kernelweave._parameters import LARGEST_NUMBER
from kernelweave._sparse import entries as stored
from kernelweave._sparse import is_sparse, l1_distances, sq_norms, to_dense
from kernelweave._threads import threads_for
from kernelweave._types import RowIndex

__all__ = [
    "pairwise_statistic",
    "statistic_panels",
]

FloatArray = NDArray[np.float64]
#: Rows of numbers: an array, a sparse one, `IncompleteRows`, or nodes of a graph.
PairRows: TypeAlias = Any

#: Statistics of pairs of rows.
STATISTICS = ("sqdist", "dot", "l1")


def has_missing(A: PairRows) -> bool:
    """Whether an array, or what a sparse one stores, has missing cells."""
    return not is_node(A) and bool(np.isnan(A.data if is_sparse(A) else A).any())


def without_missing(values: PairRows) -> tuple[PairRows, PairRows]:
    """Rows with 0 in place of missing cells, and ones where they are missing."""
    if not is_sparse(values):
        missing = np.isnan(values)
        return np.where(missing, 0.0, values), missing.astype(np.float64)
    zeros, missing = values.copy(), values.copy()
    absent = np.isnan(values.data)
    zeros.data = np.where(absent, 0.0, zeros.data)
    missing.data = absent.astype(np.float64)
    missing.eliminate_zeros()
    return zeros, missing


@dataclass(frozen=True, eq=False)
class ColumnSpread:
    """Mean contributions of columns to statistics of pairs of training rows.

    Attributes
    ----------
    mean, variance : arrays of shape (n_columns,)
        Of the known cells, weighted.
    difference : array of shape (n_columns,)
        Mean absolute difference of two cells, each drawn from the known ones.
    """

    mean: FloatArray
    variance: FloatArray
    difference: FloatArray

    def unit(self, kind: str) -> FloatArray:
        """The part of every column in the statistic `kind`, up to a factor that all columns share."""
        if kind == "dot":
            return self.variance + np.square(self.mean)
        return self.variance if kind == "sqdist" else self.difference

    def alone(self, kind: str) -> float:
        """The mean of the statistic over pairs of training rows, for rows that have no column in common."""
        if kind == "dot":
            return float(np.square(self.mean).sum())
        return float(2.0 * self.variance.sum() if kind == "sqdist" else self.difference.sum())


def column_spread(A: PairRows, weights: FloatArray | None) -> ColumnSpread:
    """Mean, variance and mean difference of every column over the known cells; 0 without any."""
    n, p = A.shape
    w = np.ones(n) if weights is None else weights
    mean, variance, difference = np.zeros((3, p))
    columns = A.tocsc() if is_sparse(A) else A
    for j in range(p):
        x = columns[:, [j]].toarray()[:, 0] if is_sparse(A) else columns[:, j]
        known = ~np.isnan(x)
        if not known.any():
            continue
        order = np.argsort(x[known], kind="stable")
        x, own = x[known][order], w[known][order]
        own = own / own.sum()
        mean[j] = own @ x
        variance[j] = own @ np.square(x - mean[j])
        # pairs by the gaps between neighbours: a gap counts once for every pair on both sides of it
        below = np.cumsum(own)[:-1]
        difference[j] = 2.0 * float(np.diff(x) @ (below * (1.0 - below)))
    return ColumnSpread(mean, variance, difference)


class IncompleteRows:
    """Rows with missing cells; statistics of pairs are those of the columns that both have, scaled to all columns.

    Parameters
    ----------
    values : array or SciPy sparse array of shape (n_rows, n_columns)
        NaN where a cell is missing.
    spread : ColumnSpread
    """

    def __init__(self, values: PairRows, spread: ColumnSpread) -> None:
        self.values, self.spread = values, spread

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.values.shape

    def __len__(self) -> int:
        return self.values.shape[0]

    def __getitem__(self, rows: RowIndex) -> IncompleteRows:
        return IncompleteRows(self.values[rows], self.spread)

    def entries(self) -> FloatArray:
        """The known cells."""
        found = self.values.data if is_sparse(self.values) else self.values
        return found[~np.isnan(found)]

    def sq_norms(self) -> FloatArray:
        """Squared norms of the known cells, scaled to all columns."""
        zeros, missing = without_missing(self.values)
        unit = self.spread.unit("dot")
        squares = zeros.multiply(zeros) if is_sparse(zeros) else np.square(zeros)
        total = row_sums(squares)
        there = unit.sum() - missing @ unit
        alone = unit.sum() if len(unit) else 0.0
        return _scaled(total, there, unit, alone)


def incomplete_statistic(kind: str, A: PairRows, B: PairRows) -> FloatArray:
    """A statistic of pairs over shared columns, scaled to all columns.

    With u_j the part of column j (its variance for squared distances, its mean square for inner products, its mean
    difference for absolute differences), the sum over shared columns is multiplied by ``sum_j u_j`` over the sum of
    u_j of the shared columns. Pairs that share no column get the mean over pairs of training rows.

    Parameters
    ----------
    kind : {"sqdist", "dot", "l1"}
    A, B : IncompleteRows, or arrays of complete rows
        Of shapes (n, n_columns) and (m, n_columns).
    """
    spread = (A if isinstance(A, IncompleteRows) else B).spread
    A, B = (one.values if isinstance(one, IncompleteRows) else one for one in (A, B))
    unit = spread.unit(kind)
    (a, no_a), (b, no_b) = without_missing(A), without_missing(B)
    there = unit.sum() - (no_a @ unit)[:, None] - no_b @ unit + to_dense(_times(no_a, unit) @ no_b.T)
    if kind == "dot":
        S = np.array(to_dense(a @ b.T))
    elif kind == "sqdist":
        S = _sqdist(a, no_a, b, no_b, spread.mean)
    else:
        S = _l1(A, B, a, no_a, b, no_b)
    return _scaled(S, there, unit, spread.alone(kind))


def _scaled(S: FloatArray, there: FloatArray, unit: FloatArray, alone: float) -> FloatArray:
    """Sums over shared columns scaled to all columns; `there` is the sum of units of the shared ones."""
    total = float(unit.sum())
    if total <= 0.0:
        # constant columns have no scale
        return S
    known = there > 1e-12 * total
    return np.where(known, S * (total / np.where(known, there, 1.0)), S + alone)


def _sqdist(a: Any, no_a: Any, b: Any, no_b: Any, mean: FloatArray) -> FloatArray:
    """Squared distances over shared columns."""
    if is_sparse(a) or is_sparse(b):
        squares_a, squares_b = _times(a, a), _times(b, b)
    else:
        # centred, to reduce cancellation
        a, b = (a - mean) * (1.0 - no_a), (b - mean) * (1.0 - no_b)
        squares_a, squares_b = np.square(a), np.square(b)
    S = row_sums(squares_a)[:, None] + row_sums(squares_b)
    S -= to_dense(squares_a @ no_b.T)
    S -= to_dense(no_a @ squares_b.T)
    S -= 2.0 * to_dense(a @ b.T)
    return np.maximum(S, 0.0)


def _l1(A: Any, B: Any, a: Any, no_a: Any, b: Any, no_b: Any) -> FloatArray:
    """Sums of absolute differences over shared columns."""
    if is_sparse(A) or is_sparse(B):
        S = l1_distances(a, b)
        S -= to_dense(no_a @ abs(b).T)
        S -= to_dense(abs(a) @ no_b.T)
        return np.maximum(S, 0.0)
    S = np.zeros((A.shape[0], B.shape[0]))
    for x, z in zip(A.T, B.T, strict=True):
        S += np.nan_to_num(np.abs(x[:, None] - z))
    return S


def _times(A: Any, by: Any) -> Any:
    return A.multiply(by).tocsr() if is_sparse(A) else A * by


def row_sums(A: PairRows) -> Any:
    """Sums of the rows, an array or a node."""
    found = A.sum(axis=1)
    return found if is_node(A) else np.asarray(found, dtype=np.float64).reshape(-1)


#: Up to this many columns squared distances are summed column by column, without cancellation.
FEW_COLUMNS = 4
#: Columns of which nodes of a graph have their absolute differences at a time.
BLOCK = 16


def pairwise_statistic(kind: str, A: PairRows, B: PairRows | None = None) -> FloatArray:
    """Compute a statistic of all pairs of rows.

    Parameters
    ----------
    kind : {"sqdist", "dot", "l1"}
        Squared Euclidean distance, inner product, or sum of absolute differences.
    A : array or SciPy sparse array of shape (n, n_columns)
        One row for each object, in finite numbers.
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
    an absolute error of about 1e-15 times the squared norms; over fewer columns they are summed directly. Sparse rows
    are not centred, and their distances always come from inner products. For nearly equal rows the error may exceed the
    distance, so that a kernel of its square root, such as exp(-sqrt(S)), has the square root of that error.
    Time O(n m n_columns); memory O(n m).

    Examples
    --------
    >>> pairwise_statistic("sqdist", [[0.0, 0.0], [3.0, 4.0]])
    array([[ 0., 25.],
           [25.,  0.]])
    """
    check_known(kind, STATISTICS, "pairwise statistic")
    left = A if is_sparse(A) else as_floats(A, "A")
    right = B if B is None or is_sparse(B) else as_floats(B, "B")
    other = left if right is None else right
    if len(left.shape) != 2 or len(other.shape) != 2 or left.shape[1] != other.shape[1]:
        raise InputError(
            f"Rows must be 2D arrays with equally many columns, got {left.shape} and {other.shape}. Select "
            "the same columns on both sides."
        )
    return pair_values(kind, left, right)


def pair_values(kind: str, A: PairRows, B: PairRows | None = None) -> FloatArray:
    """The same as `pairwise_statistic`, of rows of a table with the same columns."""
    if is_node(A):
        return _of_nodes(kind, A, to_dense(B))
    if B is not None:
        return Others.of(kind, B).values(A)
    check_sizes(A)
    left = _centred(kind, A)
    S = _block(kind, left, left)
    if kind != "dot" or not isinstance(left, np.ndarray):
        np.fill_diagonal(S, sq_norms(left) if kind == "dot" else 0.0)
    return mirror(S)


@dataclass(frozen=True, eq=False)
class Others:
    """Rows that new ones are compared with, and what follows from these rows alone.

    Attributes
    ----------
    kind : {"sqdist", "dot", "l1"}
    rows : array or sparse array of shape (n, n_columns)
        Minus `centre`, if there is one.
    centre : array of shape (n_columns,), or None
    squares : array of shape (n,), or None
        Squared norms of `rows`, of distances from inner products.
    columns : array of shape (n_columns, n), or None
        Of statistics that are summed column by column.
    """

    kind: str
    rows: PairRows
    centre: FloatArray | None = None
    squares: FloatArray | None = None
    columns: FloatArray | None = None

    @classmethod
    def of(cls, kind: str, B: PairRows) -> Others:
        """See `pair_values`."""
        check_sizes(B)
        if not isinstance(B, np.ndarray):
            return cls(kind, B)
        if _sums_columns(kind, B):
            return cls(kind, B, columns=np.ascontiguousarray(B.T))
        rows = _centred(kind, B)
        return cls(kind, B) if rows is B else cls(kind, rows, B.mean(axis=0), sq_norms(rows))

    def values(self, A: PairRows) -> FloatArray:
        """The statistic of new rows with these, shape (n_new, n)."""
        check_sizes(A)
        if not isinstance(A, np.ndarray):
            return _block(self.kind, A, self.rows if self.centre is None else self.rows + self.centre)
        if self.columns is not None:
            return _by_columns(A, self.columns, self.kind)
        return _block(self.kind, A if self.centre is None else A - self.centre, self.rows, right=self.squares)


def statistic_panels(kind: str, A: PairRows, entries: int) -> Iterator[tuple[slice, FloatArray]]:
    """The upper triangle of `pairwise_statistic(kind, A)` without the whole matrix.

    Parameters
    ----------
    kind : {"sqdist", "dot", "l1"}
        The statistic, as in `pairwise_statistic`.
    A : array or SciPy sparse array of shape (n, n_columns)
        The rows, whose pairs are compared.
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
    n, start, first, sparse = A.shape[0], 0, 0, is_sparse(A)
    A = right = _centred(kind, A)
    squares, transposed = sq_norms(A), A.T.tocsr() if sparse else None
    while start < n:
        if sparse and 2 * (n - start) <= n - first:
            # half of the columns are done: products with them are not needed
            first, right = start, A[start:]
            transposed = right.T.tocsr()
        elif not sparse:
            first, right = start, A[start:]
        rows = slice(start, min(n, start + max(1, entries // (n - first))))
        S = _block(kind, A[rows], right, squares[rows], squares[first:], transposed)[:, start - first :]
        np.fill_diagonal(S, squares[rows] if kind == "dot" else 0.0)
        yield rows, S
        start = rows.stop


def is_node(A: object) -> bool:
    """Whether rows are nodes of a graph, of which NumPy's functions make nodes."""
    return hasattr(A, "__array_function__") and not isinstance(A, np.ndarray)


def check_sizes(A: PairRows) -> None:
    """Raise for numbers whose squares overflow."""
    largest = float(np.abs(stored(A)).max(initial=0.0))
    if largest > LARGEST_NUMBER:
        raise InputError(
            f"Rows must not hold numbers above {LARGEST_NUMBER:g}, got {largest:.3g}, whose square overflows. Divide "
            "the column by a constant first."
        )


def _centred(kind: str, A: PairRows) -> PairRows:
    """Rows moved to their mean, where inner products give distances between them."""
    if kind != "sqdist" or not isinstance(A, np.ndarray) or _sums_columns(kind, A) or not len(A):
        return A
    return A - A.mean(axis=0)


def _block(
    kind: str,
    A: PairRows,
    B: PairRows,
    left: FloatArray | None = None,
    right: FloatArray | None = None,
    transposed: Any = None,
) -> FloatArray:
    """A statistic of all pairs of rows, given their squared norms, and B transposed, where these are known."""
    if isinstance(A, IncompleteRows) or isinstance(B, IncompleteRows):
        return incomplete_statistic(kind, A, B)
    sparse = is_sparse(A) or is_sparse(B)
    if kind == "l1" and sparse:
        return l1_distances(A, B)
    if not sparse and _sums_columns(kind, A):
        return _by_columns(A, np.ascontiguousarray(B.T), kind)
    S = A @ (B.T if transposed is None else transposed)
    S = S.toarray() if is_sparse(S) else S
    if kind == "dot":
        return S
    S *= -2.0
    S += (sq_norms(A) if left is None else left)[:, None]
    S += sq_norms(B) if right is None else right
    return np.maximum(S, 0.0, out=S)


def _of_nodes(kind: str, A: Any, B: FloatArray) -> Any:
    """The same between nodes of a graph and rows."""
    n_columns = B.shape[1]
    if kind == "l1":
        blocks = (slice(j, j + BLOCK) for j in range(0, n_columns, BLOCK))
        return sum(np.abs(A[:, None, some] - B[None, :, some]).sum(axis=2) for some in blocks)
    if kind == "dot":
        return A @ B.T
    if n_columns <= FEW_COLUMNS:
        return sum(np.square(A[:, j : j + 1] - B[:, j]) for j in range(n_columns))
    centre = B.mean(axis=0)
    A, B = A - centre, B - centre
    return np.maximum(sq_norms(A)[:, None] + sq_norms(B) - 2.0 * (A @ B.T), 0.0)


def _sums_columns(kind: str, A: FloatArray) -> bool:
    """Whether a statistic is summed column by column."""
    return kind == "l1" or (kind == "sqdist" and A.shape[1] <= FEW_COLUMNS)


def _by_columns(A: FloatArray, columns: FloatArray, kind: str) -> FloatArray:
    """Sums of differences over the columns, absolute or squared, of every row of A and of others, given by columns."""
    n = columns.shape[1]
    S = np.empty((len(A), n)) if kind == "l1" else np.zeros((len(A), n))
    if kind == "l1":
        core.differences(np.ascontiguousarray(A), columns, S, threads_for(min(S.shape)))
        return S
    # in tiles of rows that stay in the cache
    rows = max(1, 32768 // max(n, 1))
    work = np.empty((rows, n))
    for top in range(0, len(A), rows):
        tile = S[top : top + rows]
        difference = work[: len(tile)]
        for a, b in zip(A.T, columns, strict=True):
            np.subtract(a[top : top + rows, None], b, out=difference)
            tile += np.square(difference, out=difference)
    return S


def mirror(K: FloatArray) -> FloatArray:
    """A square matrix whose lower triangle is the upper one, in place where its numbers lie in order."""
    K = np.ascontiguousarray(K, dtype=np.float64)
    core.mirror(K, threads_for(len(K)))
    return K


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """The weighted median; of an even number the mean of the two in the middle."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    half = 0.5 * reached[-1]
    # within rounding of the sums the half is reached
    low, high = np.searchsorted(reached, [half * (1.0 - 1e-12), half * (1.0 + 1e-12)], side="left")
    last = len(values) - 1
    return 0.5 * float(values[order[min(low, last)]] + values[order[min(high, last)]])
