"""Preparations of columns, with numbers from training rows: scaled, normalised, missing cells filled or skipped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, check_known
from kernelweave._parameters import Flag, OneOf, ReadableSignature, Whole, check_fields, shown
from kernelweave._sparse import is_sparse, scale_rows, sq_norms, to_dense
from kernelweave._types import FittedPart, RowIndex, Tree, Values
from kernelweave.kernels.learnt import DONORS, Learnt
from kernelweave.kernels.pairs import (
    ColumnSpread,
    IncompleteRows,
    column_spread,
    has_missing,
    row_sums,
    weighted_median,
    without_missing,
)
from kernelweave.mkl.metric import FORMS, METRICS, learn_metric
from kernelweave.views import BlockTable, GramTable, SparseTable, Table
from kernelweave.views.selection import ColumnsLike
from kernelweave.views.tables import DATE, TEXT

__all__ = ["Impute", "Log1p", "Metric", "NormalizeRows", "Skip", "Standardize", "Step"]

FloatArray = NDArray[np.float64]
Kind = TypeVar("Kind", bound="type[Step]")

#: Steps by their names, as used in arguments and descriptions.
STEPS: dict[str, type[Step]] = {}


#: Short names of steps with settings: the name of the step, and these.
SHORT: dict[str, tuple[str, Tree]] = {
    "impute-median": ("impute", {"rule": "median", "indicator": True}),
    "impute-nearest": ("impute", {"rule": "nearest"}),
}


def step(cls: Kind) -> Kind:
    """Register a step by its name."""
    STEPS[cls.name] = cls
    return cls


class Step(Learnt, ABC):
    """One step of a preparation: a frozen value, like kernels."""

    __signature__ = ReadableSignature()

    name: ClassVar[str]
    #: Its word in labels of kernels.
    word: ClassVar[str]
    #: Whether rows may have missing cells, which the step fills or kernels skip.
    takes_missing: ClassVar[bool] = False
    #: Whether kernels skip missing cells after it; then it is the last step.
    skips: ClassVar[bool] = False
    #: Whether its numbers are learnt from targets, by `fitted_to`, and on how many distinct rows at most.
    from_targets: ClassVar[bool] = False
    most_rows: ClassVar[int] = 0
    #: The type of the cells of the one column that it reads, str or object; None: it reads numbers.
    reads_cells: ClassVar[type | None] = None

    def fitted_to(self, table: Table, targets: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """The step with numbers from training rows and their targets, if it uses targets; otherwise itself.

        Parameters
        ----------
        table : Table
            The training rows.
        targets : array of shape (n_rows, n_outputs)
            Their targets.
        sample_weight : array of shape (n_rows,), optional
            Weights of the rows; equal ones by default.
        """
        return self

    def fitted(self, table: Table, sample_weight: FloatArray | None = None) -> Self:
        """The step with numbers from training rows; unchanged if it has them or needs none.

        Parameters
        ----------
        table : Table
            The training rows.
        sample_weight : array of shape (n_rows,), optional
            Weights of the rows; equal ones by default.
        """
        return self if self.is_fitted else self._fit(table, sample_weight)

    def _fit(self, table: Table, sample_weight: FloatArray | None) -> Self:
        """The step with its numbers, for steps that take some."""
        return self

    @abstractmethod
    def apply(self, table: Table) -> Table:
        """The prepared table.

        Parameters
        ----------
        table : Table
            Rows to prepare.
        """

    def to_value(self) -> str | Tree:
        """The step as a plain value: its name, or a dict with its numbers."""
        values = self.given()
        short = (one for one, known in SHORT.items() if known == (self.name, values))
        return next(short, {"step": self.name, **values} if values else self.name)


#: A step as it is given: itself, its name, or its description.
StepLike: TypeAlias = Step | str | Mapping[str, object] | None


class AffineStep(Step):
    """A step that shifts and scales columns, so that linear kernels of prepared columns are linear ones of columns."""

    @abstractmethod
    def affine(self) -> tuple[FloatArray, FloatArray]:
        """Shift and scale of every column: ``(x - shift) / scale``."""


@step
@dataclass(frozen=True, eq=False, repr=False)
class Standardize(AffineStep):
    """Numeric columns shifted to mean 0 and scaled to variance 1 over the training rows.

    Categorical and constant columns are not changed. A sample weight is equivalent to repetitions of the row.

    Parameters
    ----------
    mean, scale : array-like of shape (n_columns,), optional
        Mean and standard deviation (ddof 0). None: computed when the kernel is fitted.

    Examples
    --------
    >>> from kernelweave.kernels import Linear
    >>> Linear().prepared("standardize").fitted([[1.0], [3.0]])
    Linear().prepared(Standardize(mean=[2.0], scale=[1.0]))
    """

    mean: FittedPart = None
    scale: FittedPart = None

    name: ClassVar[str] = "standardize"
    word: ClassVar[str] = "standardised"
    learnt: ClassVar[tuple[str, ...]] = ("mean", "scale")

    def __post_init__(self) -> None:
        self._freeze_together("one number for each column")
        if self.scale is not None and not (self.scale > 0).all():
            raise InputError(
                "`scale` of Standardize must hold one number for each column, scales above 0. Leave both out to "
                "take them from training rows."
            )

    def _fit(self, table: Table, sample_weight: FloatArray | None) -> Self:
        mean, scale = column_statistics(table, sample_weight)
        return replace(self, mean=mean, scale=scale)

    def apply(self, table: Table) -> Table:
        self._check_columns(len(self.mean), table.n_columns)
        _refuse_sparse(table)
        return table.with_values((table.values - self.mean) / self.scale)

    def affine(self) -> tuple[FloatArray, FloatArray]:
        return self.mean, self.scale


@step
@dataclass(frozen=True, eq=False, repr=False)
class NormalizeRows(Step):
    """Rows divided by their length, categories as indicator columns; rows of zeros are not changed.

    With missing cells, the squared length is that of the known ones times the number of columns over theirs.

    A linear kernel of such rows is the cosine of the angle between them.

    Examples
    --------
    >>> from kernelweave.kernels import Linear
    >>> Linear().prepared("normalize-rows")([[3.0, 4.0], [8.0, 6.0]])
    array([[1.  , 0.96],
           [0.96, 1.  ]])
    """

    name: ClassVar[str] = "normalize-rows"
    word: ClassVar[str] = "row-normalised"

    def apply(self, table: Table) -> Table:
        values = table.take()
        # categories, and cells that were filled beside a column that says so, are more columns than there are names
        names = table.names if values.shape[1] == table.n_columns else None
        known, there = _known(values)
        # the largest entry first, so that no square overflows; the inverse of a subnormal number would
        largest = to_dense(abs(known).max(axis=1)).reshape(-1)
        largest = 1.0 / np.where(largest > 0, np.maximum(largest, np.finfo(np.float64).tiny), 1.0)
        length = np.sqrt(sq_norms(scale_rows(known, largest)) / there)
        values = scale_rows(scale_rows(values, largest), 1.0 / np.where(length > 0, length, 1.0))
        return SparseTable(values, names) if is_sparse(values) else Table.of_checked(values, names)


@step
@dataclass(frozen=True, eq=False, repr=False)
class Log1p(Step):
    """Numeric columns x as sign(x) log(1 + abs(x)), which is log(1 + x) for counts.

    Examples
    --------
    >>> from kernelweave.kernels import Linear
    >>> Linear().prepared("log1p")([[0.0], [1.0]]).round(3)
    array([[0.  , 0.  ],
           [0.  , 0.48]])
    """

    name: ClassVar[str] = "log1p"
    word: ClassVar[str] = "log1p"

    def apply(self, table: Table) -> Table:
        if isinstance(table, SparseTable):
            values = table.values.copy()
            values.data = np.sign(values.data) * np.log1p(np.abs(values.data))
            return SparseTable(values, table.names)
        values = np.sign(table.values) * np.log1p(np.abs(table.values))
        if any(table.levels):
            values = np.where(np.asarray(table.levels)[None, :] == 0, values, table.values)
        return table.with_values(values)


def as_steps(given: Iterable[object]) -> tuple[Step, ...]:
    """Steps from names, descriptions and steps; None means no step. Steps that skip missing cells come last.

    Raises
    ------
    InputError
        For unknown steps (the known ones are listed), and for one that comes twice.
    """
    steps = tuple(sorted((_as_step(one) for one in given if one is not None), key=lambda one: one.skips))
    names = [one.name for one in steps]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"A preparation takes every step once, got {twice[0]!r} twice. Leave one out.")
    return steps


def _as_step(given: object) -> Step:
    if isinstance(given, Step):
        return given
    values = dict(given) if isinstance(given, Mapping) else {"step": given}
    name = values.pop("step", None)
    if not isinstance(name, str):
        raise InputError(
            f"A preparation must be {', '.join(map(repr, [*STEPS, *SHORT]))} or None, got {shown(given)}. Pass several "
            "in their order, such as prepared('log1p', 'standardize')."
        )
    check_known(name, [*STEPS, *SHORT], "preparation")
    if name in SHORT:
        name, preset = SHORT[name]
        values = preset | values
    cls = STEPS[name]
    try:
        return cls(**values)
    except TypeError:
        raise InputError(
            f"The preparation {name!r} has no such numbers: {sorted(map(str, values))}. Leave them out."
        ) from None


def _refuse_sparse(table: Table) -> None:
    if isinstance(table, SparseTable):
        raise InputError(
            "Sparse columns cannot be standardised: without their zeros they would be dense, and rare columns would be "
            "the largest. Use prepared('normalize-rows') or prepared('log1p', 'normalize-rows'), or pass X.toarray()."
        )


def column_statistics(table: Table, sample_weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Weighted mean and standard deviation (ddof 0) of numeric columns; (0, 1) for categorical and constant ones.

    Missing cells are left out. Of several views also (0, 1) for the columns of sparse ones.
    """
    if isinstance(table, BlockTable):
        found = [
            (np.zeros(block.n_columns), np.ones(block.n_columns))
            if isinstance(block, (SparseTable, GramTable))
            else column_statistics(block, sample_weight)
            for block in table.blocks.values()
        ]
        means, deviations = zip(*found, strict=True)
        return np.concatenate(means), np.concatenate(deviations)
    _refuse_sparse(table)
    values = table.values
    weights = np.ones(table.n_rows) if sample_weight is None else sample_weight
    missing = np.isnan(values)
    if missing.any():
        mean, std = _of_known(values, missing, weights)
    else:
        total = weights.sum()
        mean = weights @ values / total
        std = np.sqrt(weights @ np.square(values - mean) / total)
    keep = (np.asarray(table.levels) == 0) & (std > 1e-12 * np.maximum(np.abs(mean), np.finfo(float).tiny))
    return np.where(keep, mean, 0.0), np.where(keep, std, 1.0)


def _of_known(
    values: FloatArray, missing: NDArray[np.bool_], weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the known cells of every column; (0, 0) without any."""
    own = np.where(missing, 0.0, weights[:, None])
    total = own.sum(axis=0)
    share = own / np.where(total > 0, total, 1.0)
    mean = (share * np.where(missing, 0.0, values)).sum(axis=0)
    return mean, np.sqrt((share * np.square(np.where(missing, mean, values) - mean)).sum(axis=0))


def _known(values: Any) -> tuple[Any, FloatArray | float]:
    """Rows with 0 in place of missing cells, and for each row the share of known cells."""
    if not has_missing(values):
        return values, 1.0
    known, missing = without_missing(values)
    p = values.shape[1]
    return known, np.maximum(p - row_sums(missing), 1.0) / p


RULES = ("mean", "median", "nearest")


@step
@dataclass(frozen=True, eq=False, repr=False)
class Impute(Step):
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
        Number of rows that "nearest" averages over.
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

    rule: Annotated[str, OneOf(*RULES)] = "mean"
    indicator: Annotated[bool, Flag()] = False
    n_neighbors: Annotated[int, Whole(1)] = 5
    fill: FittedPart = None
    marked: FittedPart = None
    donors: FittedPart = None

    name: ClassVar[str] = "impute"
    word: ClassVar[str] = "imputed"
    takes_missing: ClassVar[bool] = True
    learnt: ClassVar[tuple[str, ...]] = ("fill", "marked", "donors")

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        self._freeze("fill", "one entry for each column", 1)
        self._freeze("marked", "one entry for each column", 1, bool)
        self._freeze("donors", DONORS, 2, width=None if self.fill is None else len(self.fill))
        for part, needed in (("marked", self.indicator), ("donors", self.rule == "nearest")):
            if self.fill is not None and needed and getattr(self, part) is None:
                raise InputError(
                    f"`fill` and `{part}` of {self!r} must be given together, got no {part}. Give both, or leave both "
                    "out to take them from training rows."
                )

    def _fit(self, table: Table, sample_weight: FloatArray | None) -> Self:
        if isinstance(table, SparseTable):
            if self.rule != "mean" or self.indicator:
                raise InputError(
                    "Missing cells of sparse rows are filled with the mean of their column, without indicators, got "
                    f"{self!r}. Use 'impute', or pass X.toarray()."
                )
            return replace(self, fill=_sparse_means(table, sample_weight))
        values, weights = table.values, np.ones(table.n_rows) if sample_weight is None else sample_weight
        middle = _mean if self.rule == "mean" else weighted_median
        fill = np.array(
            [
                (_most_frequent if level > 0 else middle)(column[known], weights[known])
                if (known := ~np.isnan(column)).any() and level != TEXT
                else 0.0
                for column, level in zip(values.T, table.levels, strict=True)
            ]
        )
        marked = np.isnan(values).any(axis=0) if self.indicator else None
        return replace(self, fill=fill, marked=marked, donors=values if self.rule == "nearest" else None)

    def apply(self, table: Table) -> Table:
        self._check_columns(len(self.fill), table.n_columns)
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
        return table.with_marks(values, missing, self.marked)

    def _nearest(self, table: Table) -> FloatArray:
        """Means of the nearest training rows, for all cells."""
        from sklearn.impute import KNNImputer

        assert self.donors is not None
        with np.errstate(invalid="ignore"):
            known = ~np.isnan(self.donors)
            usable = known.any(axis=0) & np.isin(table.levels, (0, DATE))
        out = np.broadcast_to(self.fill, table.values.shape).copy()
        if not usable.any():
            return out
        donors = self.donors[:, usable]
        scale = np.nanstd(donors, axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        imputer = KNNImputer(n_neighbors=self.n_neighbors, keep_empty_features=True).fit(donors / scale)
        out[:, usable] = imputer.transform(table.values[:, usable] / scale) * scale
        return out


def _mean(values: FloatArray, weights: FloatArray) -> float:
    return float(weights @ values / weights.sum())


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
class Skip(Step):
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
    takes_missing: ClassVar[bool] = True
    skips: ClassVar[bool] = True
    learnt: ClassVar[tuple[str, ...]] = ("mean", "variance", "difference")

    def __post_init__(self) -> None:
        self._freeze_together("one entry for each column")

    def _fit(self, table: Table, sample_weight: FloatArray | None) -> Self:
        spread = column_spread(table.take(), sample_weight)
        return replace(self, mean=spread.mean, variance=spread.variance, difference=spread.difference)

    def apply(self, table: Table) -> Table:
        self._check_columns(len(self.variance), table.n_expanded_columns)
        return IncompleteTable(table, ColumnSpread(self.mean, self.variance, self.difference))


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
        more = {name: getattr(table, name) for name in ("names", "levels", "cells", "dates")}
        for key, value in (known | more).items():
            object.__setattr__(self, key, value)

    table: Table
    spread: ColumnSpread

    @property
    def n_expanded_columns(self) -> int:
        """See `Table.n_expanded_columns`."""
        return self.table.n_expanded_columns

    def take(self) -> Values | IncompleteRows:
        """All columns: a plain array, or a sparse one, if no cell is missing."""
        A = self.table.take()
        return IncompleteRows(A, self.spread) if has_missing(A) else A

    def select(self, columns: ColumnsLike) -> Table:
        """See `Table.select`."""
        return self if columns is None else self.table.select(columns)

    def rows(self, index: RowIndex) -> Table:
        """See `Table.rows`."""
        return IncompleteTable(self.table.rows(index), self.spread)


@step
@dataclass(frozen=True, eq=False, repr=False)
class Metric(Step):
    """Columns mapped by a metric that is learnt from the targets of training rows, so that kernels compare rows in it.

    Distances and inner products of kernels after this step are those of ``L x``, see
    `kernelweave.mkl.metric.learn_metric`: columns on which targets do not depend hardly count. Estimators learn L
    when they are fitted, again in every fold, from the rows of that fold alone. It is a local solution.

    Parameters
    ----------
    by : {"ard", "rfm"}, default="ard"
        The evidence of a Gaussian process with a rate for each column, or a recursive feature machine: ridge regression
        in turn with the mean outer product of its gradients.
    form : {"diagonal", "full"}, default="diagonal"
        A factor for each column, or, with "rfm", combinations of columns.
    matrix : array-like of shape (rank, n_columns), optional
        L, with categories as indicator columns. None: learnt when an estimator is fitted.
    relevance : array-like of shape (n_columns,), optional
        The share of every column in the trace of L'L, in standardised columns.

    Notes
    -----
    Of more than 300 distinct rows, 300 are taken by digests of their cells, which depend neither on order nor on
    repetitions. Missing cells must be filled before.

    Examples
    --------
    >>> from kernelweave.kernels import RBF
    >>> k = RBF(gamma=1.0).prepared(Metric(matrix=[[2.0, 0.0]], relevance=[1.0, 0.0]))
    >>> k([[0.0, 5.0]], [[0.5, 7.0]]).round(3)
    array([[0.368]])
    """

    by: Annotated[str, OneOf(*METRICS)] = "ard"
    form: Annotated[str, OneOf(*FORMS)] = "diagonal"
    matrix: FittedPart = None
    relevance: FittedPart = None

    name: ClassVar[str] = "metric"
    word: ClassVar[str] = "in a learnt metric,"
    learnt: ClassVar[tuple[str, ...]] = ("matrix", "relevance")
    from_targets: ClassVar[bool] = True
    most_rows: ClassVar[int] = 300

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        if (self.by, self.form) == ("ard", "full"):
            raise InputError(
                "A full metric is learnt by 'rfm', got by='ard'. Use by='rfm', or form='diagonal'."
            )
        self._freeze("matrix", "rows of one number for each column", 2)
        width = None if self.matrix is None else self.matrix.shape[1]
        self._freeze("relevance", "one number for each column", 1, width=width)
        if (self.matrix is None) != (self.relevance is None):
            raise InputError(
                "`matrix` and `relevance` of Metric must be given together. Give both, or neither."
            )

    def fitted_to(self, table: Table, targets: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        values = table.take()
        if is_sparse(values):
            raise InputError(
                "A metric is learnt on dense columns, got sparse rows. Pass X.toarray(), or take another learner."
            )
        if has_missing(values):
            raise InputError("A metric needs all cells, got missing ones. Fill them with missing='impute'.")
        found = learn_metric(values, targets, sample_weight, by=self.by, form=self.form)
        return replace(self, matrix=found.matrix, relevance=found.relevance)

    def _fit(self, table: Table, sample_weight: FloatArray | None) -> Self:
        raise InputError(
            "A metric is learnt from targets, which a kernel alone does not have. Pass the kernel to an estimator, "
            "such as MKLRegressor(kernels=[...]), or give matrix= and relevance=."
        )

    def apply(self, table: Table) -> Table:
        self._check_columns(self.matrix.shape[1], table.n_expanded_columns)
        return Table.of_checked(table.take() @ self.matrix.T, None)
