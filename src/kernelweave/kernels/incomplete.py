"""Rows with missing cells, and statistics of pairs of them over shared columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._sparse import is_sparse, l1_distances
from kernelweave._types import RowIndex

__all__ = ["ColumnSpread", "IncompleteRows", "column_spread", "has_missing", "incomplete_statistic"]

FloatArray = NDArray[np.float64]


def has_missing(A: Any) -> bool:
    """Whether an array, or what a sparse one stores, has missing cells."""
    return bool(np.isnan(A.data if is_sparse(A) else A).any())


@dataclass(frozen=True)
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


def column_spread(A: Any, weights: FloatArray | None) -> ColumnSpread:
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

    def __init__(self, values: Any, spread: ColumnSpread) -> None:
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

    def parts(self) -> tuple[Any, Any]:
        """The rows with 0 in place of missing cells, and ones where they are missing."""
        if not is_sparse(self.values):
            missing = np.isnan(self.values)
            return np.where(missing, 0.0, self.values), missing.astype(np.float64)
        zeros, missing = self.values.copy(), self.values.copy()
        absent = np.isnan(self.values.data)
        zeros.data = np.where(absent, 0.0, zeros.data)
        missing.data = absent.astype(np.float64)
        missing.eliminate_zeros()
        return zeros, missing

    def sq_norms(self) -> FloatArray:
        """Squared norms of the known cells, scaled to all columns."""
        zeros, missing = self.parts()
        unit = self.spread.unit("dot")
        squares = zeros.multiply(zeros) if is_sparse(zeros) else np.square(zeros)
        total = np.asarray(squares.sum(axis=1)).reshape(-1)
        there = unit.sum() - missing @ unit
        alone = unit.sum() if len(unit) else 0.0
        return _scaled(total, there, unit, alone)


def incomplete_statistic(kind: str, A: Any, B: Any, *, symmetric: bool = False) -> FloatArray:
    """A statistic of pairs over shared columns, scaled to all columns.

    With u_j the part of column j (its variance for squared distances, its mean square for inner products, its mean
    difference for absolute differences), the sum over shared columns is multiplied by ``sum_j u_j`` over the sum of
    u_j of the shared columns. Pairs that share no column get the mean over pairs of training rows.

    Parameters
    ----------
    kind : {"sqdist", "dot", "l1"}
    A, B : IncompleteRows, or arrays of complete rows
        Of shapes (n, n_columns) and (m, n_columns).
    symmetric : bool, default=False
        Whether A and B are the same rows: distances of rows with themselves are then exactly 0.
    """
    spread = (A if isinstance(A, IncompleteRows) else B).spread
    left = A if isinstance(A, IncompleteRows) else IncompleteRows(A, spread)
    right = B if isinstance(B, IncompleteRows) else IncompleteRows(B, spread)
    unit = spread.unit(kind)
    (a, no_a), (b, no_b) = left.parts(), right.parts()
    there = unit.sum() - (no_a @ unit)[:, None] - no_b @ unit + _dense(_times(no_a, unit) @ no_b.T)
    if kind == "dot":
        S = _dense(a @ b.T)
    elif kind == "sqdist":
        S = _sqdist(a, no_a, b, no_b, spread.mean)
    else:
        S = _l1(left.values, right.values, a, no_a, b, no_b)
    S = _scaled(S, there, unit, spread.alone(kind))
    if symmetric:
        np.fill_diagonal(S, left.sq_norms() if kind == "dot" else 0.0)
    return S


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
    S = _sums(squares_a)[:, None] + _sums(squares_b)
    S -= _dense(squares_a @ no_b.T)
    S -= _dense(no_a @ squares_b.T)
    S -= 2.0 * _dense(a @ b.T)
    return np.maximum(S, 0.0)


def _l1(A: Any, B: Any, a: Any, no_a: Any, b: Any, no_b: Any) -> FloatArray:
    """Sums of absolute differences over shared columns."""
    if is_sparse(A) or is_sparse(B):
        S = l1_distances(a, b)
        S -= _dense(no_a @ abs(b).T)
        S -= _dense(abs(a) @ no_b.T)
        return np.maximum(S, 0.0)
    S = np.zeros((A.shape[0], B.shape[0]))
    for x, z in zip(A.T, B.T, strict=True):
        S += np.nan_to_num(np.abs(x[:, None] - z))
    return S


def _times(A: Any, by: Any) -> Any:
    return A.multiply(by).tocsr() if is_sparse(A) else A * by


def _sums(A: Any) -> FloatArray:
    return np.asarray(A.sum(axis=1)).reshape(-1)


def _dense(A: Any) -> FloatArray:
    return np.array(A.toarray() if is_sparse(A) else A)
