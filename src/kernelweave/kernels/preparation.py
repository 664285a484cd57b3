"""Preparations of columns, with statistics of training rows."""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, as_floats, check_known
from kernelweave._parameters import ReadableSignature, listed, shown
from kernelweave._sparse import is_sparse, scale_rows, sq_norms, to_dense
from kernelweave._types import FittedPart
from kernelweave.views import BlockTable, GramTable, SparseTable, Table

__all__ = ["Log1p", "NormalizeRows", "Standardize", "Step"]

FloatArray = NDArray[np.float64]
Kind = TypeVar("Kind", bound="type[Step]")

#: Steps by their names, as used in arguments and descriptions.
STEPS: dict[str, type[Step]] = {}


#: Short names of steps with settings: the name of the step, and these.
SHORT: dict[str, tuple[str, dict[str, Any]]] = {
    "impute-median": ("impute", {"rule": "median", "indicator": True}),
    "impute-nearest": ("impute", {"rule": "nearest"}),
}


def step(cls: Kind) -> Kind:
    """Register a step by its name."""
    STEPS[cls.name] = cls
    return cls


class Step(ABC):
    """One step of a preparation: a frozen value, like kernels."""

    __signature__ = ReadableSignature()

    name: ClassVar[str]
    #: Its word in labels of kernels.
    word: ClassVar[str]
    #: Whether rows may have missing cells, which the step fills or kernels skip.
    takes_missing: ClassVar[bool] = False
    #: Whether kernels skip missing cells after it; then it is the last step.
    skips: ClassVar[bool] = False

    @property
    def is_fitted(self) -> bool:
        """Whether all numbers of the step are known."""
        return True

    def fitted(self, table: Table, sample_weight: FloatArray | None = None) -> Step:
        """The step with numbers from training rows; unchanged if it has them or needs none."""
        return self

    @abstractmethod
    def apply(self, table: Table) -> Table:
        """The prepared table."""

    def to_value(self) -> Any:
        """The step as a plain value: its name, or a dict with its numbers."""
        return self.name


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

    def __post_init__(self) -> None:
        if self.mean is None and self.scale is None:
            return
        for key in ("mean", "scale"):
            given = getattr(self, key)
            values = None if listed(given) is None else np.array(as_floats(given, key))
            fits = values is not None and values.ndim == 1 and bool(np.isfinite(values).all())
            if values is None or not fits or (key == "scale" and not (values > 0).all()):
                raise InputError(
                    f"`{key}` of Standardize must hold one number for each column, scales above 0, got {shown(given)}. "
                    "Leave both out to compute them from training rows."
                )
            values.flags.writeable = False
            object.__setattr__(self, key, values)
        if len(self.mean) != len(self.scale):
            raise InputError(
                f"`mean` and `scale` of Standardize must be equally long, got {len(self.mean)} and {len(self.scale)}. "
                "Give one number of each for every column."
            )

    @property
    def is_fitted(self) -> bool:
        """Whether mean and scale are known."""
        return self.mean is not None

    def fitted(self, table: Table, sample_weight: FloatArray | None = None) -> Step:
        return self if self.is_fitted else Standardize(*column_statistics(table, sample_weight))

    def apply(self, table: Table) -> Table:
        if len(self.mean) != table.n_columns:
            raise InputError(
                f"Standardize was fitted on {len(self.mean)} columns, got {table.n_columns}. Pass the columns of the "
                "training rows."
            )
        _refuse_sparse(table)
        return table.with_values((table.values - self.mean) / self.scale)

    def affine(self) -> tuple[FloatArray, FloatArray]:
        return self.mean, self.scale

    def to_value(self) -> Any:
        if not self.is_fitted:
            return self.name
        return {"step": self.name, "mean": self.mean.tolist(), "scale": self.scale.tolist()}

    @cached_property
    def _key(self) -> tuple[bytes, bytes] | None:
        return None if self.mean is None else (self.mean.tobytes(), self.scale.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Standardize) and self._key == other._key

    @cached_property
    def _hash(self) -> int:
        return hash((Standardize, self._key))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if not self.is_fitted:
            return "Standardize()"
        return f"Standardize(mean={_few.repr(self.mean.tolist())}, scale={_few.repr(self.scale.tolist())})"


#: Numbers of up to this many columns are written in full, and can be read back.
_few = reprlib.Repr()
_few.maxlist, _few.maxother = 20, 40


@step
@dataclass(frozen=True)
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
        largest = np.asarray(to_dense(abs(known).max(axis=1))).reshape(-1)
        largest = 1.0 / np.where(largest > 0, np.maximum(largest, np.finfo(np.float64).tiny), 1.0)
        length = np.sqrt(sq_norms(scale_rows(known, largest)) / there)
        values = scale_rows(scale_rows(values, largest), 1.0 / np.where(length > 0, length, 1.0))
        return SparseTable(values, names) if is_sparse(values) else Table(values, names)


@step
@dataclass(frozen=True)
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
            values = np.where(np.asarray(table.levels) > 0, table.values, values)
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


def apply_steps(steps: Iterable[Step], table: Table) -> Table:
    """The table after all steps, in their order."""
    for one in steps:
        table = one.apply(table.joined())
    return table


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


def _known(values: Any) -> tuple[Any, FloatArray]:
    """Rows with 0 in place of missing cells, and for each row the share of known cells."""
    stored = values.data if is_sparse(values) else values
    missing = np.isnan(stored)
    n, p = values.shape
    if not missing.any():
        return values, np.ones(n)
    if is_sparse(values):
        known = values.copy()
        known.data = np.where(missing, 0.0, stored)
        rows = np.repeat(np.arange(n), np.diff(values.indptr))
        lost = np.bincount(rows[missing], minlength=n)
    else:
        known, lost = np.where(missing, 0.0, values), missing.sum(axis=1)
    return known, np.maximum(p - lost, 1) / p
