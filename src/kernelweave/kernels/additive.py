"""Kernels of a few functions of every column, for additive models: intervals and cosines."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np

from kernelweave._parameters import Positive, Whole, check_fields
from kernelweave._sparse import to_dense
from kernelweave._types import FittedPart
from kernelweave.kernels.base import FloatArray, Kernel
from kernelweave.kernels.learnt import Learnt
from kernelweave.kernels.training_rows import TrainingRows
from kernelweave.views import Table

__all__ = ["Bins", "Cosines"]


class _Basis(Learnt, Kernel, described=False):
    """Base of kernels that are mean inner products of functions of single columns, with numbers of each column."""

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        what = f"a row of {self._width} numbers for every column"
        self._freeze(self.learnt[0], what, 2, width=self._width)

    @property
    @abstractmethod
    def _width(self) -> int:
        """How many numbers a column has."""

    def _fit(self, rows: TrainingRows) -> Kernel:
        distinct, weights = rows.distinct
        columns = to_dense(rows.table.rows(distinct).take())
        return replace(self, **{self.learnt[0]: np.array([self._learn(x, weights) for x in columns.T])})  # type: ignore[type-var]

    @abstractmethod
    def _learn(self, x: FloatArray, weights: FloatArray) -> FloatArray:
        """The numbers of a column."""

    @abstractmethod
    def _functions(self, x: FloatArray, numbers: FloatArray) -> FloatArray:
        """Values of the functions of a column (n_rows, 1), shape (n_rows, n_functions)."""

    def _features(self, table: Table) -> FloatArray:
        known, columns = getattr(self, self.learnt[0]), to_dense(table.take())
        self._check_columns(len(known), columns.shape[1])
        parts = [self._functions(columns[:, j : j + 1], numbers) for j, numbers in enumerate(known)]
        return np.concat(parts, axis=1) / math.sqrt(len(parts))

    def _short(self, nested: bool = False) -> str:
        return f"{type(self).__name__}({', '.join(f'{value:g}' for value in self.settings().values())})"


@dataclass(frozen=True, eq=False, repr=False)
class Bins(_Basis):
    """The share of columns in which two rows lie in the same interval between quantiles of the training rows.

    With one kernel for each column, a model is a sum of step functions of single columns.

    Parameters
    ----------
    n_bins : int, default=10
        Number of intervals, which hold equally many training rows; fewer if values are repeated.
    edges : array-like of shape (n_columns, n_bins - 1), optional
        Ends of the intervals; from training rows when the kernel is fitted.

    Notes
    -----
    A sample weight equals as many repetitions of the row. The feature map is the indicators of the intervals.

    Examples
    --------
    >>> Bins(2).fitted([[0.0], [1.0], [2.0], [3.0]])([[0.0], [1.2], [9.0]])
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """

    n_bins: Annotated[int, Whole(2)] = 10
    edges: FittedPart = field(default=None, repr=False)

    learnt: ClassVar[tuple[str, ...]] = ("edges",)

    @property
    def _width(self) -> int:
        return self.n_bins - 1

    def _learn(self, x: FloatArray, weights: FloatArray) -> FloatArray:
        order = np.argsort(x, kind="stable")
        values, first = np.unique(x[order], return_index=True)
        mass = np.add.reduceat(weights[order], first)
        if len(values) == 1:
            return np.full(self.n_bins - 1, values[0])
        reached = np.cumsum(mass)[:-1] / mass.sum()
        wanted = np.arange(1, self.n_bins) / self.n_bins
        # between the two values whose share is nearest
        at = np.abs(reached - wanted[:, None]).argmin(axis=1)
        return 0.5 * (values[at] + values[at + 1])

    def _functions(self, x: FloatArray, numbers: FloatArray) -> FloatArray:
        above, one = (x >= numbers[None, :]).astype(np.float64), np.ones_like(x)
        return np.concat([one, above], axis=1) - np.concat([above, 0.0 * one], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class Cosines(_Basis):
    """Cosines of single columns, k(x, z) = mean_c 2 sum_j j^(-2 s) cos(pi j u_c) cos(pi j v_c).

    u and v are the cells as shares of the range of the training rows. With one kernel for each column, a model is a sum
    of smooth functions of single columns, whose square-integrable derivatives are those up to order s.

    Parameters
    ----------
    n_terms : int, default=10
        Number of cosines for every column, j = 1, ..., n_terms.
    smoothness : float, default=1.0
        s > 0.
    ranges : array-like of shape (n_columns, 2), optional
        Least and largest value of every column; from training rows when the kernel is fitted. Cells outside count as
        the nearer end.

    Notes
    -----
    With s = 1 and many terms it is the kernel of the functions with mean 0 and the penalty of the integral of the
    squared first derivative, times pi^2, on the unit interval.

    Examples
    --------
    >>> Cosines(2).fitted([[0.0], [1.0]])([[0.0], [0.5]]).round(3)
    array([[ 2.5, -0.5],
           [-0.5,  0.5]])
    """

    n_terms: Annotated[int, Whole(1)] = 10
    smoothness: Positive = 1.0
    ranges: FittedPart = field(default=None, repr=False)

    learnt: ClassVar[tuple[str, ...]] = ("ranges",)

    @property
    def _width(self) -> int:
        return 2

    def _learn(self, x: FloatArray, weights: FloatArray) -> FloatArray:
        return np.array([x.min(), x.max()])

    def _functions(self, x: FloatArray, numbers: FloatArray) -> FloatArray:
        low, high = numbers
        share = np.clip((x - low) / (high - low if high > low else 1.0), 0.0, 1.0)
        j = np.arange(1.0, self.n_terms + 1.0)
        return math.sqrt(2.0) * j**-self.smoothness * np.cos(np.pi * share * j)
