"""Columns by name: selections as hashable values, and lists of names in messages."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import InputError
from kernelweave._parameters import listed

__all__ = [
    "ColumnMask",
    "ColumnSlice",
    "ColumnsLike",
    "Selection",
    "ViewColumns",
    "bullets",
    "column_name",
    "freeze_columns",
    "listing",
]


@dataclass(frozen=True, repr=False)
class ColumnSlice:
    """A slice of columns as a hashable value.

    Parameters
    ----------
    start : int, str or None
        Position or name of the first column; None: the first of the table.
    stop : int, str or None
        Where it ends: a name is included, a position is not. None: with the last column.
    step : int, optional
        Every how many columns one is taken; all by default.
    """

    start: int | str | None
    stop: int | str | None
    step: int | None = None

    def __repr__(self) -> str:
        return f"slice({self.start!r}, {self.stop!r}, {self.step!r})"


@dataclass(frozen=True, repr=False)
class ColumnMask:
    """A boolean column mask as a hashable value.

    Parameters
    ----------
    values : tuple of bool
        One for each column of the table: whether it is taken.
    """

    values: tuple[bool, ...]

    def __repr__(self) -> str:
        return repr(list(self.values))


@dataclass(frozen=True)
class ViewColumns:
    """Columns of a view, by its name.

    Parameters
    ----------
    view : str
        The name of the view.
    columns : ColumnSlice, ColumnMask, tuple of int or str, optional
        Which of the columns of the view, by names or positions within it; all by default.
    """

    view: str
    columns: ColumnSlice | ColumnMask | tuple[int | str, ...] | None = None


Selection = ColumnSlice | ColumnMask | ViewColumns | tuple[int | str, ...] | None
#: Admissible selections of columns.
ColumnsLike = str | int | slice | Sequence[str | int] | ArrayLike | Selection


def freeze_columns(columns: ColumnsLike) -> Selection:
    """Return a column selection as a hashable value.

    Parameters
    ----------
    columns : None, int, str, slice, boolean mask, or sequence of int and str
        None selects all columns.

    Returns
    -------
    None, tuple of int and str, ColumnSlice, ColumnMask, or ViewColumns
        Equal selections written the same way give equal values.

    Raises
    ------
    InputError
        If the selection is empty or has other entries, such as floats.

    Examples
    --------
    >>> freeze_columns(["age", 2]), freeze_columns(slice("age", "bmi"))
    (('age', 2), slice('age', 'bmi', None))
    """
    if columns is None or isinstance(columns, (ColumnSlice, ColumnMask, ViewColumns)):
        return columns
    if isinstance(columns, slice):
        step = None if columns.step is None else _column(columns.step)
        if isinstance(step, str):
            raise InputError(
                f"The step of a column slice must be an integer, got {step!r}. Use slice('a', 'c')."
            )
        start, stop = (None if end is None else _column(end) for end in (columns.start, columns.stop))
        return ColumnSlice(start, stop, step)
    if isinstance(columns, (str, numbers.Integral, np.integer)):
        return (_column(columns),)
    items = listed(columns)
    if items is None:
        raise InputError(_wrong_column(columns))
    if not items:
        raise InputError(
            "A column selection must hold at least one column, got none. Leave it out to use all columns."
        )
    if all(isinstance(item, (bool, np.bool_)) for item in items):
        return ColumnMask(tuple(map(bool, items)))
    return tuple(map(_column, items))


def _column(item: Any) -> int | str:
    if isinstance(item, str):
        return str(item)
    if isinstance(item, (bool, np.bool_)):
        raise InputError(_wrong_column(item))
    try:
        return operator.index(item)
    except TypeError:
        raise InputError(_wrong_column(item)) from None


def _wrong_column(item: object) -> str:
    return (
        f"Columns are selected by names, integers, a slice or a boolean mask, got {item!r} "
        f"({type(item).__name__}). Pass for example ['age', 'bmi'], [0, 3] or slice(0, 4)."
    )


def column_name(j: int, names: Sequence[str] | None) -> str:
    """A column by its name, or by its position if it has none."""
    return f"column {j}" if names is None else f"column {names[j]!r}"


def listing(names: Sequence[str], limit: int = 20) -> str:
    """Names in one line, the first few of many."""
    text = ", ".join(map(repr, names[:limit]))
    return text + (f", ... ({len(names)} in all)" if len(names) > limit else "")


def bullets(names: Sequence[str]) -> str:
    """Names on separate lines, at most five."""
    lines = [f"- {name}\n" for name in names[:5]]
    return "".join(lines) + ("- ...\n" if len(names) > 5 else "")
