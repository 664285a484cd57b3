"""Preparations for missing cells: they are filled, or skipped."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._parameters import Flag, OneOf, Whole, check_value
from kernelweave._sparse import is_sparse
from kernelweave._types import FittedPart, RowIndex
from kernelweave.kernels.incomplete import ColumnSpread, IncompleteRows, column_spread, has_missing
from kernelweave.kernels.preparation import SHORT, Step, step
from kernelweave.kernels.rows import weighted_median
from kernelweave.views import MarkedTable, SparseTable, Table
from kernelweave.views.selection import ColumnsLike
from kernelweave.views.table import TEXT

__all__ = ["Impute", "Skip"]

FloatArray = NDArray[np.float64]

RULES = ("mean", "median", "nearest")

_few = reprlib.Repr()
_few.maxlist, _few.maxother = 20, 40


class _WithArrays(Step):
    """Steps with arrays, which are equal if all their bytes are."""

    takes_missing: ClassVar[bool] = True
    parts: ClassVar[tuple[str, ...]]

    @cached_property
    def _key(self) -> tuple[object, ...]:
        found = (getattr(self, part) for part in self.parts)
        return tuple(v.tobytes() if isinstance(v, np.ndarray) else v for v in found)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key == other._key

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), self._key))

    def __hash__(self) -> int:
        return self._hash

    def _freeze(self, name: str, dtype: Any, ndim: int) -> None:
        given = getattr(self, name)
        if given is None:
            return
        try:
            values = np.array(given, dtype=dtype)
        except (TypeError, ValueError):
            values = np.empty(())
        if values.ndim != ndim:
            what = "one entry for each column" if ndim == 1 else "the training rows"
            raise InputError(
                f"`{name}` of {type(self).__name__} must hold {what}, got {given!r:.60}. Leave it out to take it from "
                "training rows."
            )
        values.flags.writeable = False
        object.__setattr__(self, name, values)

    def _check_columns(self, fitted: int, table: Table) -> None:
        if fitted != table.n_columns:
            raise InputError(
                f"{type(self).__name__} was fitted on {fitted} columns, got {table.n_columns}. Pass the columns of the "
                "training rows."
            )


@step
@dataclass(frozen=True, eq=False, repr=False)
class Impute(_WithArrays):
    """Missing cells filled with numbers from training rows.

    Parameters
    ----------
    rule : {"mean", "median", "nearest"}, default="mean"
        Of numeric columns: the weighted mean or median of the cells that are there; or the mean over the training rows
        that are nearest in the columns that both have, scaled to variance 1 (scikit-learn's KNNImputer, where weights
        of rows do not count). Categories are filled with the most frequent one.
    indicator : bool, default=False
        Add a column of 0 and 1 for every column that had missing cells in training, which marks them. Kernels
        of some columns use the indicators of these columns.
    n_neighbors : int, default=5
        Of "nearest".
    fill : array-like of shape (n_columns,), optional
        Values for missing cells, categories by code. None: computed when the step is fitted.
    marked : array-like of bool, shape (n_columns,), optional
        Columns with an indicator.
    donors : array-like of shape (n_rows, n_columns), optional
        Training rows, for "nearest".

    Notes
    -----
    As a preparation, ``kernel.prepared("impute")`` is the mean, "impute-median" the median with indicators and
    "impute-nearest" the nearest rows; the parameter `missing` of the estimators has the same names. A column without
    any known cell among the training rows of a fold is filled with 0. For sparse rows there is only "mean" without
    indicators.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.kernels import Linear
    >>> k = Linear().prepared("impute").fitted([[1.0], [3.0], [np.nan]])
    >>> k, k([[np.nan]], [[5.0]])
    (Linear().prepared(Impute(fill=[2.0])), array([[10.]]))
    """

    rule: str = "mean"
    indicator: bool = False
    n_neighbors: int = 5
    fill: FittedPart = None
    marked: FittedPart = None
    donors: FittedPart = None

    name: ClassVar[str] = "impute"
    word: ClassVar[str] = "imputed"
    parts: ClassVar[tuple[str, ...]] = ("rule", "indicator", "n_neighbors", "fill", "marked", "donors")

    def __post_init__(self) -> None:
        checks = (("rule", OneOf(*RULES)), ("indicator", Flag()), ("n_neighbors", Whole(1)))
        for name, rule in checks:
            object.__setattr__(self, name, check_value(rule, name, getattr(self, name), of="Impute"))
        for name, dtype, ndim in (("fill", np.float64, 1), ("marked", bool, 1), ("donors", np.float64, 2)):
            self._freeze(name, dtype, ndim)

    @property
    def is_fitted(self) -> bool:
        """Whether the values for missing cells are known."""
        return self.fill is not None

    def fitted(self, table: Table, sample_weight: FloatArray | None = None) -> Impute:
        """See :meth:`Step.fitted`."""
        if self.is_fitted:
            return self
        if isinstance(table, SparseTable):
            if self.rule != "mean" or self.indicator:
                raise InputError(
                    "Missing cells of sparse rows are filled with the mean of their column, without indicators, got "
                    f"{self!r}. Use 'impute', or pass X.toarray()."
                )
            return Impute(fill=_sparse_means(table, sample_weight))
        values, weights = table.values, np.ones(table.n_rows) if sample_weight is None else sample_weight
        middle = _mean if self.rule == "mean" else _median
        fill = np.array(
            [
                (_most_frequent if level else middle)(column[known], weights[known])
                if (known := ~np.isnan(column)).any() and level != TEXT
                else 0.0
                for column, level in zip(values.T, table.levels, strict=True)
            ]
        )
        return Impute(
            self.rule,
            self.indicator,
            self.n_neighbors,
            fill,
            np.isnan(values).any(axis=0) if self.indicator else None,
            values if self.rule == "nearest" else None,
        )

    def apply(self, table: Table) -> Table:
        """See :meth:`Step.apply`."""
        self._check_columns(len(self.fill), table)
        if isinstance(table, SparseTable):
            values = table.values.copy()
            missing = np.isnan(values.data)
            values.data[missing] = self.fill[values.indices[missing]]
            return SparseTable(values, table.names)
        missing = np.isnan(table.values)
        values = table.values
        if missing.any():
            fill = self._nearest(table) if self.rule == "nearest" else self.fill
            values = np.where(missing, fill, values)
        if self.marked is None or not self.marked.any():
            return table.with_values(values)
        return MarkedTable(values, table.names, table.levels, missing, self.marked, table.cells)

    def _nearest(self, table: Table) -> FloatArray:
        """Means of the nearest training rows, for all cells."""
        from sklearn.impute import KNNImputer

        assert self.donors is not None
        with np.errstate(invalid="ignore"):
            known = ~np.isnan(self.donors)
            usable = known.any(axis=0) & (np.asarray(table.levels) == 0)
        out = np.broadcast_to(self.fill, table.values.shape).copy()
        if not usable.any():
            return out
        donors = self.donors[:, usable]
        scale = np.nanstd(donors, axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        imputer = KNNImputer(n_neighbors=self.n_neighbors, keep_empty_features=True).fit(donors / scale)
        out[:, usable] = imputer.transform(table.values[:, usable] / scale) * scale
        return out

    def to_value(self) -> Any:
        """See :meth:`Step.to_value`."""
        settings = {"rule": self.rule, "indicator": self.indicator, "n_neighbors": self.n_neighbors}
        usual = {"rule": "mean", "indicator": False, "n_neighbors": 5}
        given = {k: v for k, v in settings.items() if v != usual[k]}
        if not self.is_fitted:
            for name, (own, preset) in SHORT.items():
                if own == self.name and preset == given:
                    return name
            return {"step": self.name, **given} if given else self.name
        numbers = {k: v.tolist() for k in ("fill", "marked", "donors") if (v := getattr(self, k)) is not None}
        return {"step": self.name, **given, **numbers}

    def __repr__(self) -> str:
        shown = [] if self.rule == "mean" else [f"rule={self.rule!r}"]
        shown += ["indicator=True"] if self.indicator else []
        shown += [f"n_neighbors={self.n_neighbors}"] if self.n_neighbors != 5 else []
        for part in ("fill", "marked", "donors"):
            value = getattr(self, part)
            if value is not None:
                shown.append(f"{part}={_few.repr(value.tolist())}")
        return f"Impute({', '.join(shown)})"


def _mean(values: FloatArray, weights: FloatArray) -> float:
    return float(weights @ values / weights.sum())


def _median(values: FloatArray, weights: FloatArray) -> float:
    return weighted_median(values, weights)


def _most_frequent(codes: FloatArray, weights: FloatArray) -> float:
    """The most frequent category, the first among equals."""
    return float(np.argmax(np.bincount(codes.astype(np.intp), weights=weights)))


def _sparse_means(table: SparseTable, sample_weight: FloatArray | None) -> FloatArray:
    """Means of the known cells of sparse columns, zeros among them."""
    weights = np.ones(table.n_rows) if sample_weight is None else sample_weight
    rows = np.repeat(weights, np.diff(table.indptr))
    missing = np.isnan(table.data)
    p = table.n_columns
    lost = np.bincount(table.indices[missing], weights=rows[missing], minlength=p)
    total = np.bincount(table.indices[~missing], weights=(rows * table.data)[~missing], minlength=p)
    there = weights.sum() - lost
    return np.where(there > 1e-12 * weights.sum(), total / np.where(there > 0, there, 1.0), 0.0)


@step
@dataclass(frozen=True, eq=False, repr=False)
class Skip(_WithArrays):
    """Missing cells skipped: pairs of rows are compared in the columns that both have, scaled to all columns.

    With V the columns that two rows share, a squared distance is

        d^2(x, z) = (sum_j u_j / sum_(j in V) u_j) sum_(j in V) (x_j - z_j)^2 ,

    u_j the variance of column j over training rows; in inner products u_j is the mean square of the column, and in sums
    of absolute differences the mean difference of two of its cells. Of standardised columns the factor of distances and
    inner products is the number of columns over the number of shared ones. Pairs that share no column get the mean over
    pairs of training rows. Always the last step.

    Parameters
    ----------
    mean, variance, difference : array-like of shape (n_columns,), optional
        Statistics of the columns, categories as indicator columns. None: computed when the step is fitted.

    Notes
    -----
    These kernels need not be positive semidefinite if cells are missing. Estimators set negative eigenvalues of the
    training matrix to zero and report the size of the change; kernel values of new rows are projected likewise.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.kernels import RBF
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, np.nan]])
    >>> k = RBF(gamma=0.5).prepared("skip").fitted(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> k(X)[0].round(3)  # the distance of the last row from the first is 1 in one of two columns, so 2
    array([1.   , 0.368, 0.368])
    """

    mean: FittedPart = None
    variance: FittedPart = None
    difference: FittedPart = None

    name: ClassVar[str] = "skip"
    word: ClassVar[str] = "missing cells skipped,"
    skips: ClassVar[bool] = True
    parts: ClassVar[tuple[str, ...]] = ("mean", "variance", "difference")

    def __post_init__(self) -> None:
        for part in self.parts:
            self._freeze(part, np.float64, 1)

    @property
    def is_fitted(self) -> bool:
        """Whether the statistics of the columns are known."""
        return self.variance is not None

    def fitted(self, table: Table, sample_weight: FloatArray | None = None) -> Step:
        """See :meth:`Step.fitted`."""
        if self.is_fitted:
            return self
        spread = column_spread(table.take(), sample_weight)
        return Skip(spread.mean, spread.variance, spread.difference)

    def apply(self, table: Table) -> Table:
        """See :meth:`Step.apply`."""
        if len(self.variance) != table.n_expanded_columns:
            self._check_columns(len(self.variance), table)
        return IncompleteTable(table, ColumnSpread(self.mean, self.variance, self.difference))

    def to_value(self) -> Any:
        """See :meth:`Step.to_value`."""
        if not self.is_fitted:
            return self.name
        return {"step": self.name, **{part: getattr(self, part).tolist() for part in self.parts}}

    def __repr__(self) -> str:
        if not self.is_fitted:
            return "Skip()"
        return f"Skip({', '.join(f'{k}={_few.repr(getattr(self, k).tolist())}' for k in self.parts)})"


class IncompleteTable(Table):
    """A table whose missing cells kernels skip.

    Parameters
    ----------
    table : Table
    spread : ColumnSpread
        Of its columns, categories as indicator columns.
    """

    def __init__(self, table: Table, spread: ColumnSpread) -> None:
        known = {"table": table, "spread": spread, "values": table.values}
        more = {"names": table.names, "levels": table.levels, "cells": table.cells}
        for key, value in (known | more).items():
            object.__setattr__(self, key, value)

    table: Table
    spread: ColumnSpread

    @property
    def n_expanded_columns(self) -> int:
        """See `Table.n_expanded_columns`."""
        return self.table.n_expanded_columns

    def take(self, columns: ColumnsLike = None, expand: bool = True) -> Any:
        """All columns: a plain array, or a sparse one, if no cell is missing."""
        A = self.table.take(columns, expand)
        return IncompleteRows(A, self.spread) if columns is None and expand and has_missing(A) else A

    def rows(self, index: RowIndex) -> Table:
        """See `Table.rows`."""
        return IncompleteTable(self.table.rows(index), self.spread)

    def agreement(self, other: Table) -> FloatArray:
        """The share of shared columns in which rows agree, shape (n_rows, n_other); 0 without a shared column."""
        A, B = self.values, other.values
        if is_sparse(A):
            raise InputError(
                "Categorical compares cells, for which sparse columns must be dense. Pass X.toarray(), or use Linear."
            )
        equal, shared = np.zeros((2, len(A), len(B)))
        for a, b, level in zip(A.T, B.T, self.levels, strict=True):
            unknown = bool(level) & (a < 0)  # an unknown category is equal to no other
            equal += (a[:, None] == b) & ~unknown[:, None]
            shared += ~np.isnan(a)[:, None] & ~np.isnan(b)
        return np.divide(equal, shared, out=np.zeros_like(equal), where=shared > 0)
