"""The table: numeric and categorical columns in one matrix."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, Reals, as_names
from kernelweave._parameters import Each, InstanceOf, Text, Whole, check_fields
from kernelweave._sparse import to_dense
from kernelweave._types import RowIndex, Values
from kernelweave.views.cells import Cells
from kernelweave.views.messages import listing
from kernelweave.views.selection import ColumnMask, ColumnSlice, ColumnsLike, ViewColumns, freeze_columns

#: The number of levels of columns for kernels of texts and other objects only.
TEXT = -1


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix of numeric and categorical columns, and columns of texts.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        Stored as float64, without a copy if it is float64. A categorical column holds codes ``0 .. levels - 1``,
        or -1 for an unknown category. NaN is a missing cell.
    names : sequence of str or None, default=None
        One unique name per column.
    levels : sequence of int or None, default=None
        Per column 0 if it is numeric, otherwise the number of known categories; -1 of texts and other objects, whose
        values are digests. None: all columns numeric.
    cells : sequence of Cells or None, default=None
        Per column the given cells, for kernels that read them; None for numbers.

    Examples
    --------
    >>> table = Table([[0.5, 0], [1.5, 1], [2.5, -1]], names=("age", "group"), levels=(0, 2))
    >>> table.take(["group", "age"], expand=True)
    array([[1. , 0. , 0.5],
           [0. , 1. , 1.5],
           [0. , 0. , 2.5]])
    """

    values: Annotated[NDArray[np.float64], Reals((2,), remedy="Reshape it to (n_rows, n_columns).")]
    names: Annotated[tuple[str, ...] | None, Each(Text() | Whole(), empty=True) | None] = None
    levels: Annotated[tuple[int, ...], Each(Whole(TEXT), empty=True) | None] = None  # type: ignore[assignment]
    cells: Annotated[
        tuple[Cells | None, ...] | None, Each(InstanceOf((Cells,), "cells") | None, empty=True) | None
    ] = None

    def __post_init__(self) -> None:
        check_fields(self)
        n_columns = self.values.shape[1]
        names = None if self.names is None else as_names(self.names, n_columns, "column")
        levels = (0,) * n_columns if self.levels is None else tuple(self.levels)
        for label, entries in (("names", names), ("levels", levels)):
            if entries is not None and len(entries) != n_columns:
                raise InputError(
                    f"`{label}` must have one entry per column ({n_columns}), got {len(entries)}. "
                    "Leave it out or complete it."
                )
        if names is not None and len(set(names)) < n_columns:
            repeated = sorted({name for name in names if names.count(name) > 1})
            raise InputError(
                f"Column names must be unique, got {listing(repeated)} more than once. Rename them."
            )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "levels", levels)
        if self.cells is not None:
            kept = tuple(self.cells)
            object.__setattr__(self, "cells", kept if any(one is not None for one in kept) else None)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.values.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns, a categorical one counted once."""
        return self.values.shape[1]

    @property
    def n_expanded_columns(self) -> int:
        """Number of columns of ``take(None, expand=True)``."""
        return sum(max(level, 0) if level else 1 for level in self.levels)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names, or ``x0, x1, ...`` if there are none."""
        return self.names if self.names is not None else tuple(f"x{j}" for j in range(self.n_columns))

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names or ())}

    @cached_property
    def _all_numeric(self) -> bool:
        return not any(self.levels)

    def resolve(self, columns: ColumnsLike) -> NDArray[np.intp]:
        """Return the positions of the selected columns.

        Parameters
        ----------
        columns : None, int, str, slice, boolean mask, or sequence of int and str
            None: all. Negative integers count from the end. A slice of names includes its end, a slice of
            integers does not. A mask has one entry per column.

        Returns
        -------
        array of shape (n_selected,)
            In the given order, ``0 <= position < n_columns``.

        Raises
        ------
        InputError
            For unknown names (the known ones are listed), indices out of range, a mask of the wrong length,
            and selections that are empty or name a column twice.

        Examples
        --------
        >>> Table([[1.0, 2.0, 3.0]], names=("a", "b", "c")).resolve(slice("b", "c")).tolist()
        [1, 2]
        """
        selection = freeze_columns(columns)
        if isinstance(selection, ViewColumns):
            # a view of one table is a selection of its columns
            selection = selection.columns
        if selection is None:
            return np.arange(self.n_columns)
        if isinstance(selection, ColumnMask):
            if len(selection.values) != self.n_columns:
                raise InputError(
                    f"A column mask must have one entry per column ({self.n_columns}), got "
                    f"{len(selection.values)}. Pass names or indices instead."
                )
            found = np.flatnonzero(selection.values)
        elif isinstance(selection, ColumnSlice):
            start, stop = selection.start, selection.stop
            start = self._index(start) if isinstance(start, str) else start
            stop = self._index(stop) + 1 if isinstance(stop, str) else stop
            found = np.arange(self.n_columns)[start : stop : selection.step]
        else:
            found = np.array([self._index(item) for item in selection], dtype=np.intp)
            if len(set(found.tolist())) < len(found):
                twice = sorted({self.column_names[j] for j in found if np.count_nonzero(found == j) > 1})
                raise InputError(
                    f"A column can be selected once, got {listing(twice)} twice. Drop the repeats."
                )
        if not len(found):
            raise InputError(f"The selection {columns!r} has none of the {self.n_columns} columns. Widen it.")
        return found

    def _index(self, item: int | str) -> int:
        if isinstance(item, str):
            if item in self._position:
                return self._position[item]
            if self.names is None:
                raise InputError(
                    f"Column {item!r} was selected by name, but these columns have no names. Use integers "
                    f"from 0 to {self.n_columns - 1}, or pass a data frame."
                )
            close = difflib.get_close_matches(item, self.names, n=3)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise InputError(f"Unknown column {item!r}.{hint} Known: {listing(self.names, limit=50)}.")
        if not -self.n_columns <= item < self.n_columns:
            raise InputError(
                f"Column {item} is out of range: the table has {self.n_columns} columns, numbered from 0. "
                f"Use integers from {-self.n_columns} to {self.n_columns - 1}."
            )
        return item % self.n_columns

    def select(self, columns: ColumnsLike) -> Table:
        """Return the table of the selected columns (itself when `columns` is None)."""
        if columns is None:
            return self
        found = self.resolve(columns)
        names = None if self.names is None else tuple(self.names[j] for j in found)
        cells = None if self.cells is None else tuple(self.cells[j] for j in found)
        return self._with(self._columns(found), names, tuple(self.levels[j] for j in found), cells)

    def take(self, columns: ColumnsLike = None, expand: bool = True) -> NDArray[np.float64]:
        """Return the selected columns as one array, possibly a view: do not modify it.

        Parameters
        ----------
        columns : see `resolve`
        expand : bool, default=True
            Replace each categorical column by its 0/1 indicator columns, one per known category, all zero for
            an unknown one, and leave texts out. False: keep the codes.

        Returns
        -------
        array of shape (n_rows, k), float64

        Raises
        ------
        InputError
            If all columns are texts or other objects.
        """
        table = self.select(columns)
        if not expand or table._all_numeric:
            return table.values
        if all(level == TEXT for level in table.levels):
            raise InputError(
                f"This kernel reads numbers, got texts or objects in {listing(table.column_names, limit=5)}. "
                "Use kernels.CharNGrams, kernels.Tokens or kernels.Custom there, or put the kernel on other columns."
            )
        blocks = []
        for column, level in zip(table.values.T, table.levels, strict=True):
            block: NDArray[np.generic] = column[:, None] == np.arange(level) if level else column[:, None]
            if level and np.isnan(column).any():
                block = np.where(np.isnan(column)[:, None], np.nan, block)
            blocks.append(block)
        return np.concatenate(blocks, axis=1, dtype=np.float64)

    @property
    def marked(self) -> NDArray[np.bool_]:
        """Columns with an indicator of missing cells."""
        return np.zeros(self.n_columns, dtype=bool)

    def missing(self) -> NDArray[np.intp]:
        """Numbers of missing cells of every column, shape (n_columns,)."""
        return np.isnan(self.values).sum(axis=0)

    def empty_rows(self) -> NDArray[np.bool_]:
        """Rows in which all cells are missing, shape (n_rows,)."""
        return np.asarray(np.isnan(self.values).all(axis=1))

    def joined(self) -> Table:
        """The table itself; of several views one table of the columns of all."""
        return self

    def rows(self, index: RowIndex) -> Table:
        """Return the table of some rows: a slice, integers, or a boolean mask of shape (n_rows,)."""
        cells = None
        if self.cells is not None:
            cells = tuple(None if one is None else one.rows(index) for one in self.cells)
        return self._with(self.values[index], self.names, self.levels, cells)

    def dense_columns(self, found: NDArray[np.intp]) -> NDArray[np.float64]:
        """Some numeric columns, by their positions, as a plain array."""
        return to_dense(self.values[:, found])

    def scaled(self, shift: NDArray[np.float64], scale: NDArray[np.float64]) -> Table:
        """The table of (x - shift) / scale, with one number of each for every column."""
        return self.with_values((self.values - shift) / scale)

    def with_values(self, values: NDArray[np.float64]) -> Table:
        """The same rows and columns with other numbers."""
        return Table(values, self.names, self.levels, self.cells)

    def declared(self, texts: Collection[int], *, forget: bool = True) -> Table:
        """The table in which some columns, by position, are texts or objects: for kernels that read cells.

        The cells of others are dropped, unless more columns may be declared.
        """
        if self.cells is None:
            return self
        values, levels = self.values.copy(), list(self.levels)
        for j in texts:
            own = self.cells[j]
            if levels[j] != TEXT and own is not None:
                values[:, j], levels[j] = np.where(np.isnan(values[:, j]), np.nan, own.digests()), TEXT
        kept = tuple(None if forget and j not in texts else own for j, own in enumerate(self.cells))
        return Table(values, self.names, tuple(levels), kept)

    def like(self, values: NDArray[np.float64]) -> Table:
        """A table of other rows with the same columns."""
        return Table(values, self.names, self.levels)

    def arrays(self) -> list[NDArray[np.float64]]:
        """All stored numbers: all cells, or the stored ones of sparse rows."""
        return [self.values]

    def content(self) -> Values:
        """Numbers (n_rows, any), possibly sparse, that are equal only for equal rows."""
        return without_nan(self.values)

    def _columns(self, found: NDArray[np.intp]) -> Values:
        return self.values[:, found]

    def _with(
        self,
        values: Values,
        names: tuple[str, ...] | None,
        levels: tuple[int, ...],
        cells: tuple[Cells | None, ...] | None = None,
    ) -> Table:
        return Table.of_checked(values, names, levels, cells)

    @staticmethod
    def of_checked(
        values: Values,
        names: tuple[str, ...] | None,
        levels: tuple[int, ...],
        cells: tuple[Cells | None, ...] | None = None,
    ) -> Table:
        """A table of numbers in rows and columns that were checked already, such as a part of another table."""
        made = object.__new__(Table)
        kept = None if cells is None or all(one is None for one in cells) else cells
        made.__dict__.update(values=values, names=names, levels=levels, cells=kept)
        return made


def without_nan(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """An array with an unused number for missing cells, so that these are equal."""
    missing = np.isnan(values)
    return np.where(missing, -np.finfo(np.float64).max, values) if missing.any() else values
