"""Training rows for the fit of kernels; statistics of several kernels are computed once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._parameters import LARGEST_NUMBER
from kernelweave._sparse import entries, is_sparse, sq_norms
from kernelweave.kernels.pairs import (
    IncompleteRows,
    check_sizes,
    statistic_panels,
    weighted_median,
    without_missing,
)
from kernelweave.kernels.steps import Step
from kernelweave.views import SparseTable, Table
from kernelweave.views.selection import Selection

__all__ = ["MEDIAN_ROWS", "TrainingRows"]

FloatArray = NDArray[np.float64]
Rows = NDArray[np.intp]
T = TypeVar("T")

MEDIAN_ROWS = 1000
"""Medians of distances are those of all pairs of up to this many distinct rows, and of a sample of as many of more."""

#: Distances up to this share of the largest one are rounding errors of equal rows.
_ROUNDING = 64.0 * float(np.finfo(np.float64).eps)
#: Halvings of a range of differences at most, and how many differences for each number are then sorted.
_HALVINGS, _TOGETHER = 60, 4
#: From how many numbers on the middle of some of them, of about so many, says which may be their median.
_MANY, _SOME = 20_000, 1_000
#: Numbers of a panel of distances.
_ENTRIES = 2**18


class TrainingRows:
    """Rows on which kernels are fitted.

    Parameters
    ----------
    table : Table
        The training rows.
    sample_weight : array of shape (n_rows,), optional
        A weight is equivalent to repetitions of the row; rows of weight 0 are ignored.
    content : Table, optional
        The original rows, if `table` was changed; they determine the sample of rows.
    targets : array of shape (n_rows, n_outputs), optional
        For steps that learn from them.
    """

    def __init__(
        self,
        table: Table,
        sample_weight: FloatArray | None = None,
        content: Table | None = None,
        targets: FloatArray | None = None,
    ) -> None:
        content = table if content is None else content
        if sample_weight is not None and not (sample_weight > 0).all():
            kept = np.flatnonzero(sample_weight > 0)
            if not len(kept):
                raise InputError("A kernel is fitted on rows with a positive weight, got none. Pass some.")
            table, content, sample_weight = table.rows(kept), content.rows(kept), sample_weight[kept]
            targets = None if targets is None else targets[kept]
        self.table, self.content, self.weight, self.targets = table, content, sample_weight, targets
        self._known: dict[Hashable, Any] = {}
        #: The rows before a preparation, which are distinct where these came from distinct ones.
        self._before: TrainingRows | None = None

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def on(self, columns: Selection) -> TrainingRows:
        """The same rows with some of their columns.

        Parameters
        ----------
        columns : names, positions, slice, mask or None
            The columns; None for all.
        """
        if columns is None:
            return self
        found = self.table.resolve(columns)
        return self._once(
            ("on", found.tobytes()),
            lambda: TrainingRows(
                self.table.select(columns), self.weight, self.content.select(columns), self.targets
            ),
        )

    def after(self, steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], TrainingRows]:
        """Steps with their statistics of these rows, and the rows after them.

        Parameters
        ----------
        steps : tuple of Step
            Preparations, in the order in which they are applied.
        """
        if not steps:
            return (), self
        first, rows = self._once(("after", steps[0]), lambda: self._after(steps[0]))
        rest, rows = rows.after(steps[1:])
        return (first, *rest), rows

    def _after(self, one: Step) -> tuple[Step, TrainingRows]:
        table = self.table.joined()
        fitted = one
        if one.from_targets and not one.is_fitted and self.targets is not None:
            some = self.some(one.most_rows)
            weight = None if self.weight is None else self.weight[some]
            fitted = one.fitted_to(table.rows(some), self.targets[some], weight)
        fitted = fitted.fitted(table, self.weight)
        rows = TrainingRows(fitted.apply(table), self.weight, self.content, self.targets)
        # the sample of rows does not depend on preparations
        rows.sample = self.sample
        rows._before = self
        return fitted, rows

    @cached_property
    def sample(self) -> tuple[Rows, FloatArray | None]:
        """A representative sample of the rows, and its weights.

        All, up to `MEDIAN_ROWS` distinct ones. Of more rows, distinct ones are sorted by their values, and rows are
        taken at equal steps of the sum of weights.
        """
        n = self.table.n_rows
        if n <= MEDIAN_ROWS:
            return np.arange(n), self.weight
        rows, weights = self.distinct
        if len(rows) <= MEDIAN_ROWS:
            return rows, _unless_equal(weights)
        reached = np.cumsum(weights)
        at = (np.arange(MEDIAN_ROWS) + 0.5) / MEDIAN_ROWS * reached[-1]
        taken, counts = np.unique(np.searchsorted(reached, at), return_counts=True)
        return rows[taken], _unless_equal(counts.astype(np.float64))

    def some(self, most: int) -> Rows:
        """At most this number of distinct rows, each with all its repetitions, by digests of their cells.

        These depend on the values of rows, not on their positions, and have no order that a design might have.

        Parameters
        ----------
        most : int
            The largest number of distinct rows.

        Returns
        -------
        array of int
            Positions of the rows, ascending.
        """
        values = np.ascontiguousarray(self.content.joined().content() + 0.0)
        if len(values) <= most:
            return np.arange(len(values))
        digests = np.array(
            [int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=6).digest()) for row in values]
        )
        kept = np.unique(digests)[:most]
        return np.flatnonzero(digests <= kept[-1])

    @cached_property
    def distinct(self) -> tuple[Rows, FloatArray]:
        """Distinct rows, sorted by their values, and the sums of their weights."""
        return distinct_rows(self.content, self.weight) if self._before is None else self._before.distinct

    def median(self, statistic: str) -> float:
        """Median of a distance over pairs of rows that differ, a pair counted with the product of its weights.

        Parameters
        ----------
        statistic : str
            The distance: "sqdist", squared Euclidean, or "l1", the sum of absolute differences.

        Returns
        -------
        float
            > 0; 1 if all rows are equal.
        """
        return self._once(("median", statistic), lambda: self._median(statistic))

    def _median(self, statistic: str) -> float:
        rows, weights = self.sample
        A = self.table.rows(rows).take()
        check_sizes(A)
        n = len(rows)
        if weights is None and n > 1 and isinstance(A, np.ndarray) and A.shape[1] == 1:
            low, high = _middle_on_line(A[:, 0], _ROUNDING if statistic == "l1" else _ROUNDING**0.5)
            middle = 0.5 * (low + high) if statistic == "l1" else 0.5 * (low * low + high * high)
            return _usable(middle, "median distance") if high > 0 else 1.0
        distances = np.empty(n * (n - 1) // 2)
        end = 0
        for _, S in statistic_panels(statistic, A, _ENTRIES):
            for k, row in enumerate(S):
                start, end = end, end + len(row) - k - 1
                distances[start:end] = row[k + 1 :]
        pairs = None
        if weights is not None:
            pairs = np.concatenate([weights[i] * weights[i + 1 :] for i in range(n)])
        differ = distances > _ROUNDING * distances.max(initial=0.0)
        if not differ.all():
            distances, pairs = distances[differ], None if pairs is None else pairs[differ]
        if not len(distances):
            return 1.0
        median = _middle(distances) if pairs is None else weighted_median(distances, pairs)
        return _usable(median, "median distance")

    @cached_property
    def variance(self) -> float:
        """Weighted variance of all cells, 1 if they are equal; categories count as indicator columns."""
        A = self.table.take()
        check_sizes(A)
        if isinstance(A, IncompleteRows):
            return self._variance_of_known(A)
        mean = float(np.average(A.mean(axis=1), weights=self.weight))
        if is_sparse(A):
            # deviations of zeros are not stored
            square = float(np.average(sq_norms(A), weights=self.weight)) / A.shape[1]
            variance = max(square - mean * mean, 0.0)
        else:
            variance = float(np.average(np.square(A - mean).mean(axis=1), weights=self.weight))
        largest = float(np.abs(entries(A)).max(initial=0.0))
        return 1.0 if variance <= (1e-12 * largest) ** 2 else _usable(variance, "variance")

    def _variance_of_known(self, A: IncompleteRows) -> float:
        """The same over the known cells."""
        zeros, missing = without_missing(A.values)
        weight = np.ones(len(A)) if self.weight is None else self.weight
        total = float(weight.sum() * A.shape[1] - (weight @ missing).sum())
        mean = float((weight @ zeros).sum()) / total
        variance = float(weight @ sq_norms(zeros)) / total - mean * mean
        largest = float(np.abs(A.entries()).max(initial=0.0))
        return 1.0 if variance <= (1e-8 * largest) ** 2 else _usable(variance, "variance")

    @property
    def n_columns(self) -> int:
        """Number of columns, categories as indicator columns."""
        return self.table.n_expanded_columns


def distinct_rows(table: Table, weight: FloatArray | None) -> tuple[Rows, FloatArray]:
    """Distinct rows, sorted by their values, and their weights."""
    keys: Any
    table = table.joined()
    if isinstance(table, SparseTable):
        A = table.values
        ends = zip(A.indptr[:-1], A.indptr[1:], strict=True)
        keys = np.array([A.data[a:b].tobytes() + A.indices[a:b].tobytes() for a, b in ends], dtype=object)
    else:
        values = np.ascontiguousarray(table.values + 0.0)  # a negative zero is a zero
        keys = values.view(np.dtype((np.void, values.itemsize * values.shape[1]))).reshape(-1)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, np.bincount(inverse.reshape(-1), weights=weight, minlength=len(first)).astype(np.float64)


def _unless_equal(weights: FloatArray) -> FloatArray | None:
    """Weights, None if they are equal, as then no sorting is needed."""
    return None if (weights == weights[0]).all() else weights


def _middle(values: FloatArray) -> float:
    """The median of values, which may be reordered."""
    half, odd = len(values) // 2, len(values) % 2
    if len(values) >= _MANY:
        # most are far from the middle of some of them, and are only counted
        some = np.sort(values[:: len(values) // _SOME])
        low, high = some[int(0.45 * len(some))], some[int(0.55 * len(some))]
        below, inside = int(np.count_nonzero(values < low)), values[(values >= low) & (values <= high)]
        if below < half < below + len(inside):
            values, half = inside, half - below
    values.partition(half)
    return float(values[half]) if odd else 0.5 * float(values[half] + values[:half].max())


def _middle_on_line(values: FloatArray, least: float) -> tuple[float, float]:
    """The two middle differences of pairs of numbers, the same one twice where pairs are odd; zeros if all are equal.

    Pairs that differ by at most a share of the largest difference are left out. Differences are counted by bisection of
    the sorted numbers, and only those near the middle are made.
    """
    x, own = np.sort(values), np.arange(len(values))

    def ends(most: float) -> Rows:
        return np.maximum(np.searchsorted(x, x + most, side="right"), own + 1)

    def count(most: float) -> int:
        return int((ends(most) - own - 1).sum())

    low, high = least * float(x[-1] - x[0]), float(x[-1] - x[0])
    if not high > 0:
        return 0.0, 0.0
    n_out, n_pairs = count(low), len(x) * (len(x) - 1) // 2
    second = n_out + (n_pairs - n_out) // 2
    first = second - (n_pairs - n_out + 1) % 2
    below, above = n_out, n_pairs
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if above - below <= _TOGETHER * len(x):
            break
        found = count(middle)
        if found <= first:
            low, below = middle, found
        elif found > second:
            high, above = middle, found
        else:
            break
    start = ends(low)
    sizes = np.maximum(ends(high), start) - start if above < n_pairs else len(x) - start
    left = np.repeat(own, sizes)
    inside = x[np.arange(len(left)) - np.repeat(np.cumsum(sizes) - sizes - start, sizes)] - x[left]
    inside.partition([first - below, second - below])
    return float(inside[first - below]), float(inside[second - below])


def _usable(value: float, what: str) -> float:
    if not 10.0 / LARGEST_NUMBER < value < LARGEST_NUMBER / 10.0:
        raise InputError(
            f"The {what} of the training rows is {value:.3g}, which is unusable as a scale. Multiply or divide the "
            "columns by a constant first."
        )
    return value
