"""Kernels of a few functions of every column, for additive models: intervals and cosines."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from kernelweave._checks import InputError, as_floats
from kernelweave._parameters import Number, Whole, check_fields, listed, shown
from kernelweave._sparse import to_dense
from kernelweave._types import FittedPart
from kernelweave.kernels.base import FloatArray, Kernel, set_fields
from kernelweave.kernels.rows import TrainingRows
from kernelweave.kernels.steps import ByContents
from kernelweave.views import Table

__all__ = ["Bins", "Cosines"]


class _Basis(ByContents, Kernel, described=False):
    """Base of kernels that are mean inner products of functions of single columns."""

    #: Numbers of training rows, (n_columns, any); None before the kernel is fitted.
    _numbers: ClassVar[str]

    def _checked(self) -> None:
        check_fields(self, named=True)
        given = getattr(self, self._numbers)
        if given is None:
            return
        values = None if listed(given) is None else np.array(as_floats(given, self._numbers))
        if values is None or values.ndim != 2 or not np.isfinite(values).all():
            raise InputError(
                f"`{self._numbers}` of {type(self).__name__} must have a row of numbers for every column, got "
                f"{shown(given)}. Leave it out to compute it from training rows."
            )
        values.flags.writeable = False
        set_fields(self, **{self._numbers: values})

    @property
    def is_fitted(self) -> bool:
        """Whether the numbers of the training rows are known."""
        return getattr(self, self._numbers) is not None

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`Kernel.fitted_on`."""
        if self.is_fitted:
            return self
        distinct, weights = rows.distinct()
        columns = _columns(rows.table.rows(distinct))
        own = {self._numbers: np.array([self._learn(x, weights) for x in columns.T])}
        return type(self)(**self._settings(), **own)

    @abstractmethod
    def _learn(self, x: FloatArray, weights: FloatArray) -> FloatArray:
        """The numbers of a column."""

    @abstractmethod
    def _functions(self, x: FloatArray, numbers: FloatArray) -> FloatArray:
        """Values of the functions of a column, shape (n_rows, n_functions)."""

    def _features(self, table: Table) -> FloatArray:
        known = getattr(self, self._numbers)
        columns = _columns(table)
        if columns.shape[1] != len(known):
            raise InputError(
                f"{type(self).__name__} was fitted on {len(known)} columns, got {columns.shape[1]}. Pass the columns "
                "of the training rows."
            )
        parts = [self._functions(x, numbers) for x, numbers in zip(columns.T, known, strict=True)]
        return np.concatenate(parts, axis=1) / math.sqrt(len(parts))

    def _contents(self) -> Iterable[Any]:
        return (*self._settings().values(), getattr(self, self._numbers))

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """The parameters without the numbers of the training rows."""

    def _short(self, nested: bool = False) -> str:
        return f"{type(self).__name__}({', '.join(f'{value:g}' for value in self._settings().values())})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._settings().items())})"

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values for JSON."""
        known = getattr(self, self._numbers)
        own = {} if known is None else {self._numbers: known.tolist()}
        return {"kernel": type(self).__name__.lower(), **self._settings(), **own}


def _columns(table: Table) -> FloatArray:
    """The columns as numbers, categories as indicator columns."""
    return to_dense(table.take())


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
    edges: FittedPart = None

    _numbers: ClassVar[str] = "edges"

    def __post_init__(self) -> None:
        self._checked()

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
        place = np.searchsorted(numbers, x, side="right")
        return (place[:, None] == np.arange(self.n_bins)).astype(np.float64)

    def graph_features(self, columns):
        xp, parts = columns.xp, []
        for j, edges in enumerate(self.edges):
            x = columns.expanded[:, j : j + 1]
            place = xp.sum(xp.astype(x >= edges[None, :], np.float64), axis=1, keepdims=True)
            parts.append(xp.astype(xp.equal(place, np.arange(float(self.n_bins))[None, :]), np.float64))
        return xp.concat(parts, axis=1) / math.sqrt(len(parts))

    def _settings(self) -> dict[str, Any]:
        return {"n_bins": self.n_bins}


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
    smoothness: Annotated[float, Number(above=0)] = 1.0
    ranges: FittedPart = None

    _numbers: ClassVar[str] = "ranges"

    def __post_init__(self) -> None:
        self._checked()

    def _learn(self, x: FloatArray, weights: FloatArray) -> FloatArray:
        return np.array([x.min(), x.max()])

    def _functions(self, x: FloatArray, numbers: FloatArray) -> FloatArray:
        low, high = numbers
        share = np.clip((x - low) / (high - low if high > low else 1.0), 0.0, 1.0)
        j = np.arange(1, self.n_terms + 1)
        return math.sqrt(2.0) * j**-self.smoothness * np.cos(np.pi * share[:, None] * j)

    def graph_features(self, columns):
        xp, parts = columns.xp, []
        j = np.arange(1.0, self.n_terms + 1.0)
        factors = (math.sqrt(2.0) * j**-self.smoothness)[None, :]
        for column, (low, high) in enumerate(self.ranges):
            x = columns.expanded[:, column : column + 1]
            share = xp.clip((x - low) / (high - low if high > low else 1.0), 0.0, 1.0)
            parts.append(factors * xp.cos(share * np.pi * j[None, :]))
        return xp.concat(parts, axis=1) / math.sqrt(len(parts))

    def _settings(self) -> dict[str, Any]:
        return {"n_terms": self.n_terms, "smoothness": self.smoothness}
