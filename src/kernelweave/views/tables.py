"""Tables: numeric and categorical columns, texts, sparse rows, kernel values, and several views side by side."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import Floats, InputError, as_names, check_known, is_missing
from kernelweave._docstrings import InheritedTexts
from kernelweave._errors import meant
from kernelweave._parameters import Each, InstanceOf, ReadableSignature, Text, Whole, check_fields
from kernelweave._sparse import as_csr, is_sparse, join_columns, to_dense
from kernelweave._types import RowIndex, Series, Values, csr_array
from kernelweave.views.dates import DateForm
from kernelweave.views.selection import (
    ColumnMask,
    ColumnSlice,
    ColumnsLike,
    ViewColumns,
    freeze_columns,
    listing,
)

__all__ = [
    "DATE",
    "TEXT",
    "BlockTable",
    "Cells",
    "GramTable",
    "SparseTable",
    "Table",
    "as_sparse",
    "as_texts",
    "is_frame",
    "is_missing",
    "kernel_row_content",
]

#: Texts with this median number of characters, or of `WORDS` words, are not categories if most of them differ.
LONG_TEXT = 20
WORDS = 3
#: Share of distinct texts for that.
MOSTLY_DISTINCT = 0.5

Rows = NDArray[np.intp]
Array = NDArray[np.float64]
Made = TypeVar("Made")


def is_frame(X: object) -> bool:
    """Whether it is a data frame or a table of Arrow."""
    return hasattr(X, "iloc") or hasattr(X, "get_columns") or hasattr(X, "column_names")


class Words(str):
    """A text that is read, however short, and not the name of a category."""

    __slots__ = ()


def as_texts(column: Series | Sequence[object]) -> Series | NDArray[np.object_]:
    """A column whose cells are texts to read: a plain fit has kernels of texts for it, however short they are.

    Parameters
    ----------
    column : Series, or sequence of texts or numbers
        Whole numbers are written without a decimal point.

    Returns
    -------
    Series of objects, or array of objects of shape (n_rows,)
        Missing cells stay missing.

    Examples
    --------
    >>> as_texts(["C1CC1", 17, 2.0]).tolist()
    ['C1CC1', '17', '2']
    """
    found = np.empty(len(column), dtype=object)
    for i, value in enumerate(column):
        found[i] = value if is_missing(value) else Words(_written(value))
    if hasattr(column, "iloc"):
        series: Any = column
        return type(series)(found, index=series.index, name=series.name, dtype=object)
    return found


def _written(value: object) -> str:
    """A cell as text, the same for 17 and 17.0."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(int(value)) if isinstance(value, float | np.floating) and value == int(value) else str(value)


class Cells:
    """One column of texts or other objects, or some of its rows.

    Rows of a column share results for the whole column, such as counts of words; see `counted`.

    Parameters
    ----------
    values : sequence of objects
        One for each row.
    """

    def __init__(self, values: Sequence[object] | NDArray[np.generic]) -> None:
        self._column = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            self._column[i] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        self._rows: Rows | slice = slice(None)
        self._known: dict[Hashable, Any] = {}

    @property
    def values(self) -> NDArray[np.object_]:
        """The objects, shape (n_rows,)."""
        return self._column[self._rows]

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, index: RowIndex) -> Cells:
        """The column of some rows.

        Parameters
        ----------
        index : array of int, array of bool or slice
            The rows.
        """
        some = object.__new__(Cells)
        some._column, some._known = self._column, self._known
        some._rows = self.positions[index]
        return some

    def counted(
        self, key: Hashable, count: Callable[[NDArray[np.object_]], tuple[csr_array, list[str]]]
    ) -> tuple[csr_array, list[str]]:
        """The result of `count` for the whole column, with its first part for these rows only.

        Parameters
        ----------
        key : hashable
            Identifies the result.
        count : callable
            Given all objects, returns an array with one row for each, and another result.
        """
        found, others = self.of_column(key, count)
        return found[self._rows], others

    def of_column(self, key: Hashable, make: Callable[[NDArray[np.object_]], Made]) -> Made:
        """What `make` returns for the whole column, once for all of its rows.

        Parameters
        ----------
        key : hashable
            Identifies the result.
        make : callable
            Given all objects of the column, returns the result.
        """
        if key not in self._known:
            self._known[key] = make(self._column)
        return self._known[key]

    @property
    def positions(self) -> Rows:
        """These rows in the whole column."""
        return np.arange(self.n_column)[self._rows]

    @property
    def n_column(self) -> int:
        """Number of rows of the whole column."""
        return len(self._column)

    def shares(self, other: Cells) -> bool:
        """Whether both are rows of one column.

        Parameters
        ----------
        other : Cells
            The rows to compare with.
        """
        return self._column is other._column

    def are(self, kind: type | tuple[type, ...]) -> bool:
        """Whether all objects are of a type.

        Parameters
        ----------
        kind : type or tuple of types
            The type, or several that are allowed.
        """
        return all(isinstance(value, kind) for value in self.values)

    @property
    def is_long_text(self) -> bool:
        """Whether these are texts to read: long ones that mostly differ from row to row, or such of `as_texts`."""
        texts = self.values
        if any(isinstance(text, Words) for text in texts):
            return True
        if not self.are(str) or len(set(texts)) < max(3, MOSTLY_DISTINCT * len(texts)):
            return False
        long = np.median([len(text) for text in texts]) >= LONG_TEXT
        return bool(long or np.median([len(text.split()) for text in texts]) >= WORDS)

    def digests(self) -> Array:
        """A number for every object, equal for equal texts."""
        return np.array([_digest(value) for value in self.values])

    def __reduce__(self) -> tuple[object, ...]:
        # counts are not copied but computed again
        return Cells, (self.values,)


def _digest(value: object) -> float:
    # a whole number of 48 bits is exact as a float
    return float(int.from_bytes(hashlib.sha256(_written_out(value)).digest()[:6], "big"))


def _written_out(value: Any) -> bytes:
    """What a cell holds, where its `repr` would leave numbers out or name a place in memory."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return repr((value.dtype.str, value.shape)).encode() + value.tobytes()
    if is_sparse(value):
        rows: Any = value.tocsr().sorted_indices()
        parts: tuple[Any, ...] = (rows.shape, rows.indptr, rows.indices, rows.data)
        return b"".join(map(_written_out, parts))
    if isinstance(value, set | frozenset):
        return repr(sorted(map(repr, value))).encode("utf-8", "replace")
    if isinstance(value, list | tuple):
        parts = tuple(map(_written_out, value))
        return repr([len(part) for part in parts]).encode() + b"".join(parts)
    text = value if isinstance(value, str) else repr(value)
    if f"at {id(value):#x}" not in text:
        return text.encode("utf-8", "replace")
    try:
        return pickle.dumps(value)
    except (TypeError, AttributeError, pickle.PicklingError):
        return text.encode("utf-8", "replace")


#: The number of levels of columns for kernels of texts and other objects only.
TEXT = -1
#: That of columns of dates.
DATE = -2
#: What a table is made of; the rest follows.
_PARTS = ("values", "names", "levels", "cells", "dates", "_marks")


@dataclass(frozen=True, eq=False)
class Table(InheritedTexts):
    """A matrix of numeric and categorical columns, and columns of texts and dates.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        Stored as float64, without a copy if it is float64. A categorical column holds codes ``0 .. levels - 1``,
        or -1 for an unknown category. NaN is a missing cell.
    names : sequence of str or None, default=None
        One unique name per column.
    levels : sequence of int or None, default=None
        Per column 0 if it is numeric, otherwise the number of known categories; -1 of texts and other objects, whose
        values are digests; -2 of dates, whose values are days since 1970. None: all columns numeric.
    cells : sequence of Cells or None, default=None
        Per column the given cells, for kernels that read them; None for numbers.
    dates : sequence of DateForm or None, default=None
        Per column what kernels read of dates; None for other columns.

    Examples
    --------
    >>> table = Table([[0.5, 0], [1.5, 1], [2.5, -1]], names=("age", "group"), levels=(0, 2))
    >>> table.select(["group", "age"]).take()
    array([[1. , 0. , 0.5],
           [0. , 1. , 1.5],
           [0. , 0. , 2.5]])
    """

    __signature__ = ReadableSignature()

    values: Annotated[
        Array,
        Floats((2,), finite=False, largest=np.inf, remedy="Reshape it to (n_rows, n_columns)."),
    ]
    names: Annotated[tuple[str, ...] | None, Each(Text() | Whole(), empty=True) | None] = None
    levels: Annotated[tuple[int, ...], Each(Whole(DATE), empty=True) | None] = None  # type: ignore[assignment]
    cells: Annotated[
        tuple[Cells | None, ...] | None, Each(InstanceOf((Cells,), "cells") | None, empty=True) | None
    ] = None
    dates: Annotated[
        tuple[DateForm | None, ...] | None,
        Each(InstanceOf((DateForm,), "a form of dates") | None, empty=True) | None,
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
            object.__setattr__(self, "cells", _some(self.cells))
        if self.dates is not None:
            object.__setattr__(self, "dates", _some(self.dates))

    #: Where cells were imputed (n_rows, n_columns), and which columns have an indicator of that (n_columns,).
    _marks = None

    def _with(self, **parts: Any) -> Self:
        """A table of the same kind with other parts, which are not checked again."""
        made = object.__new__(type(self))
        vars(made).update({key: vars(self)[key] for key in _PARTS if key in vars(self)} | parts)
        return made

    @classmethod
    def of_checked(
        cls,
        values: Values,
        names: tuple[str, ...] | None,
        levels: tuple[int, ...] | None = None,
        cells: Sequence[Cells | None] | None = None,
        dates: tuple[DateForm | None, ...] | None = None,
    ) -> Self:
        """A table of what was checked already, or of nodes of a graph in place of numbers.

        Parameters
        ----------
        values : array or sparse matrix of shape (n_rows, n_columns)
            Numbers, codes of categories, digests and days, or nodes of a graph.
        names : tuple of str, or None
            Names of the columns.
        levels : tuple of int, optional
            Number of categories of each column, or its kind; by default all columns are numeric.
        cells : tuple of Cells or None, optional
            The given cells of each column that kernels read.
        dates : tuple of DateForm or None, optional
            What kernels read of each column of dates.
        """
        made, own = object.__new__(cls), (0,) * values.shape[1] if levels is None else levels
        kept = _some(cells) if cells else None
        vars(made).update(values=values, names=names, levels=own, cells=kept, dates=dates)
        return made

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
        """Number of columns of `take`."""
        return sum(map(self.width, range(self.n_columns))) + len(self._elapsed) + int(self.marked.sum())

    @property
    def owners(self) -> NDArray[np.intp]:
        """The column behind each column of `take`; of an elapsed time, the second of the two."""
        widths = [self.width(j) for j in range(self.n_columns)]
        ends = [k for _, k, _, _ in self._elapsed]
        return np.r_[np.repeat(np.arange(self.n_columns), widths), ends, np.flatnonzero(self.marked)].astype(
            np.intp
        )

    def width(self, j: int) -> int:
        """Number of columns of `take` for a column, without indicators of missing cells.

        Parameters
        ----------
        j : int
            Position of the column.
        """
        level = self.levels[j]
        form = self.dates[j] if level == DATE and self.dates is not None else None
        return (1 if form is None else form.width) if level in (0, DATE) else max(level, 0)

    @property
    def _elapsed(self) -> list[tuple[int, int, float, float]]:
        """Pairs of columns of dates whose elapsed time is read, with its mean and standard deviation."""
        forms = {form.place: j for j, form in enumerate(self.dates or ()) if form is not None}
        return [
            (forms[place], k, mean, scale)
            for k, form in enumerate(self.dates or ())
            for place, mean, scale in (() if form is None else form.since)
            if place in forms
        ]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names, or ``x0, x1, ...`` if there are none."""
        return self.names if self.names is not None else tuple(f"x{j}" for j in range(self.n_columns))

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names or ())}

    @property
    def _all_text(self) -> bool:
        return bool(self.levels) and all(level == TEXT for level in self.levels)

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
            hint = meant(item, self.names, n=3)
            raise InputError(f"Unknown column {item!r}.{hint} Known: {listing(self.names, limit=50)}.")
        if not -self.n_columns <= item < self.n_columns:
            raise InputError(
                f"Column {item} is out of range: the table has {self.n_columns} columns, numbered from 0. "
                f"Use integers from {-self.n_columns} to {self.n_columns - 1}."
            )
        return item % self.n_columns

    def select(self, columns: ColumnsLike) -> Table:
        """Return the table of the selected columns.

        Parameters
        ----------
        columns : None, int, str, slice, boolean mask, or sequence of int and str
            The columns; None for the table itself.
        """
        if columns is None:
            return self
        found = self.resolve(columns)
        parts: dict[str, Any] = {
            "values": self._columns(found),
            "levels": tuple(self.levels[j] for j in found),
        }
        if self.names is not None:
            parts["names"] = tuple(self.names[j] for j in found)
        if self.cells is not None:
            cells = tuple(self.cells[j] for j in found)
            parts["cells"] = _some(cells)
        if self.dates is not None:
            parts["dates"] = _some([self.dates[j] for j in found])
        if self._marks is not None:
            marks, marked = self._marks
            parts["_marks"] = marks[:, found], marked[found]
        return self._with(**parts)

    def take(self) -> Values:
        """Return all columns as numbers, possibly a view: do not modify it.

        Returns
        -------
        array of shape (n_rows, n_expanded_columns), float64; sparse of sparse rows
            A categorical column has 0/1 indicator columns, one per known category, all zero for an unknown one. A
            column of dates has its trend and season, and elapsed times between columns of dates come after all others.
            Texts are left out.

        Raises
        ------
        InputError
            If all columns are texts or other objects.
        """
        if self._marks is not None and self.marked.any():
            marks, marked = self._marks
            return np.concat([self._with(_marks=None).take(), marks[:, marked]], axis=1, dtype=np.float64)
        if not any(self.levels):
            return self.values
        if self._all_text:
            raise InputError(
                f"This kernel reads numbers, got texts or objects in {listing(self.column_names, limit=5)}. "
                "Use kernels.CharNGrams, kernels.Tokens or kernels.Pairwise there, or put the kernel on other columns."
            )
        blocks = []
        for j, level in enumerate(self.levels):
            if level == TEXT:
                continue
            column = self.values[:, j : j + 1]
            if (form := self.dates[j] if self.dates is not None else None) is not None:
                column = form.features(column)
            # indicators, NaN where the cell is missing
            blocks.append((column == np.arange(level)) + 0.0 * column if level not in (0, DATE) else column)
        for j, k, mean, scale in self._elapsed:
            blocks.append((self.values[:, k : k + 1] - self.values[:, j : j + 1] - mean) / scale)
        return np.concat(blocks, axis=1)

    @property
    def marked(self) -> NDArray[np.bool_]:
        """Columns with an indicator of missing cells."""
        return np.zeros(self.n_columns, dtype=bool) if self._marks is None else self._marks[1]

    @property
    def marks(self) -> NDArray[np.bool_]:
        """Where cells were imputed, shape (n_rows, n_columns)."""
        return np.zeros((self.n_rows, self.n_columns), dtype=bool) if self._marks is None else self._marks[0]

    def with_marks(self, values: Values, marks: NDArray[np.bool_], marked: NDArray[np.bool_]) -> Table:
        """The table of imputed cells, with indicators of 0 and 1 for those of some columns.

        Kernels use the indicators of their columns, after these; columns are numbered as without them.

        Parameters
        ----------
        values : array of shape (n_rows, n_columns)
            The table with imputed cells.
        marks : array of bool, shape (n_rows, n_columns)
            True for missing cells.
        marked : array of bool, shape (n_columns,)
            Columns with an indicator.

        Examples
        --------
        >>> table = Table([[1.0, 2.0]]).with_marks(np.array([[1.0, 2.0]]), np.eye(1, 2) > 0, np.array([True, False]))
        >>> table.take(), table.select([1]).take(), table.n_expanded_columns
        (array([[1., 2., 1.]]), array([[2.]]), 3)
        """
        return self._with(values=values, _marks=(marks, marked))

    def per_row(self, value: float) -> Array:
        """A number for each row, the same for all.

        Parameters
        ----------
        value : float
            The number.
        """
        if isinstance(self.n_rows, int):
            return np.full(self.n_rows, value)
        return np.full_like(self.values[:, 0], value)  # of nodes of a graph

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
        """Return the table of some rows.

        Parameters
        ----------
        index : array of int, array of bool or slice
            The rows.
        """
        parts: dict[str, Any] = {"values": self.values[index]}
        if self.cells is not None:
            parts["cells"] = tuple(None if one is None else one.rows(index) for one in self.cells)
        if self._marks is not None:
            parts["_marks"] = self._marks[0][index], self._marks[1]
        return self._with(**parts)

    def dense_columns(self, found: NDArray[np.intp]) -> Array:
        """Some numeric columns as a plain array, shape (n_rows, n_selected).

        Parameters
        ----------
        found : array of int
            Positions of the columns.
        """
        return to_dense(self.values[:, found])

    def scaled(self, shift: Array, scale: Array) -> Table:
        """The table of (x - shift) / scale.

        Parameters
        ----------
        shift, scale : array of shape (n_columns,)
            A number of each for every column.
        """
        return self.with_values((self.values - shift) / scale)

    def regrouped(self, values: Array, levels: Sequence[int], left_out: Collection[int]) -> Table:
        """The table with other codes of categories, and numbers of levels; some columns are left out.

        Parameters
        ----------
        values : array of shape (n_rows, n_columns)
            The new codes; numeric columns as they were.
        levels : sequence of int
            Number of categories of each column, or its kind.
        left_out : collection of int
            Positions of columns whose cells are dropped.
        """
        cells = _some(None if j in left_out else own for j, own in enumerate(self.cells or ()))
        return self._with(values=values, levels=tuple(levels), cells=cells)

    def with_dates(self, dates: tuple[DateForm | None, ...] | None) -> Table:
        """The table whose columns of dates are read by these forms.

        Parameters
        ----------
        dates : sequence of DateForm or None, or None
            The form of each column; None for columns that are no dates.
        """
        return self._with(dates=dates)

    def with_values(self, values: Array) -> Table:
        """The same rows and columns with other numbers.

        Parameters
        ----------
        values : array of shape (n_rows, n_columns)
            The numbers.
        """
        return self._with(values=values)

    def declared(self, texts: Collection[int], *, forget: bool = True) -> Table:
        """The table in which some columns are texts or objects, for kernels that read cells.

        Parameters
        ----------
        texts : collection of int
            Positions of these columns.
        forget : bool, default=True
            Whether the cells of other columns are dropped. False where more columns may be declared later.
        """
        if self.cells is None:
            return self
        values, levels = self.values.copy(), list(self.levels)
        for j in texts:
            own = self.cells[j]
            if levels[j] != TEXT and own is not None:
                values[:, j], levels[j] = np.where(np.isnan(values[:, j]), np.nan, own.digests()), TEXT
        kept = _some(None if forget and j not in texts else own for j, own in enumerate(self.cells))
        return self._with(values=values, levels=tuple(levels), cells=kept)

    def like(self, values: Array) -> Table:
        """A table of other rows with the same columns.

        Parameters
        ----------
        values : array of shape (n_rows, n_columns)
            Numbers of the other rows.
        """
        return Table.of_checked(values, self.names, self.levels, dates=self.dates)

    def arrays(self) -> list[Array]:
        """All stored numbers: all cells, or the stored ones of sparse rows."""
        return [self.values]

    def content(self) -> Values:
        """Numbers (n_rows, any), possibly sparse, that are equal only for equal rows."""
        return without_nan(self.values)

    def _columns(self, found: NDArray[np.intp]) -> Values:
        return self.values[:, found]


def _some(parts: Iterable[Any]) -> tuple[Any, ...] | None:
    """Parts of columns as a tuple; None where no column has any."""
    found = tuple(parts)
    return found if any(one is not None for one in found) else None


def without_nan(values: Array) -> Array:
    """An array with an unused number for missing cells, so that these are equal."""
    missing = np.isnan(values)
    return np.where(missing, -np.finfo(np.float64).max, values) if missing.any() else values


@dataclass(frozen=True, eq=False)
class SparseTable(Table):
    """A matrix of numeric columns that are mostly 0, stored as compressed rows.

    Kernels read it through `take` as a SciPy array, and never make it dense.

    Parameters
    ----------
    values : SciPy sparse matrix or array of shape (n_rows, n_columns)
        The cells; those that are not stored are 0.
    names : sequence of str or None, default=None
        Names of the columns, if they have any.
    levels, cells, dates : None, default=None
        All columns are numeric.

    Examples
    --------
    >>> from scipy import sparse
    >>> table = SparseTable(sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]))
    >>> table.n_columns, table.select([1]).take().toarray().tolist()
    (2, [[2.0], [0.0]])
    """

    values: csr_array
    names: tuple[str, ...] | None = None
    levels: tuple[int, ...] | None = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not is_sparse(self.values):
            raise InputError("SparseTable is made of a SciPy sparse array, got something else. Use Table.")
        values = as_csr(self.values, missing=True)
        names = None if self.names is None else as_names(self.names, values.shape[1], "column")
        levels = self.levels if self.levels is not None else (0,) * values.shape[1]
        for key, value in (("values", values), ("names", names), ("levels", levels)):
            object.__setattr__(self, key, value)

    @property
    def data(self) -> Array:
        """Entries other than 0, row by row."""
        return self.values.data

    @property
    def indices(self) -> NDArray[np.int32]:
        """Their columns."""
        return self.values.indices

    @property
    def indptr(self) -> NDArray[np.int32]:
        """Positions at which rows begin, shape (n_rows + 1,)."""
        return self.values.indptr

    def arrays(self) -> list[Array]:
        """The stored entries."""
        return [self.values.data]

    def content(self) -> Values:
        """See `Table.content`."""
        if not np.isnan(self.values.data).any():
            return self.values
        found = self.values.copy()
        found.data = without_nan(found.data)
        return found

    def missing(self) -> NDArray[np.intp]:
        """See `Table.missing`: of cells that are stored as NaN."""
        return np.bincount(self.indices[np.isnan(self.data)], minlength=self.n_columns)

    def empty_rows(self) -> NDArray[np.bool_]:
        """Rows with only NaN stored."""
        lost = np.isnan(self.data)
        stored = np.diff(self.indptr)
        rows = np.repeat(np.arange(self.n_rows), stored)
        return (stored > 0) & (np.bincount(rows[lost], minlength=self.n_rows) == stored)

    def _columns(self, found: NDArray[np.intp]) -> Values:
        if (np.diff(found) == 1).all():
            return self.values[:, int(found[0]) : int(found[-1]) + 1]
        return self.values[:, found]


def as_sparse(table: Table) -> SparseTable:
    """A table of numeric columns in sparse form."""
    if isinstance(table, SparseTable):
        return table
    return SparseTable.of_checked(as_csr(table.values, missing=True), table.names)


#: Rounds in which rows with the same values are distinguished by the rows with which they share them.
ROUNDS = 3


def kernel_row_content(stack: Array) -> Array:
    """Numbers (n, 2) that agree exactly for rows whose kernel values all agree.

    Their order depends neither on the order of the rows nor on repetitions: it is that of digests of the set of values
    in a row, and if those are equal, of the pairs of a value and the digest of its row, over distinct
    rows. Rows with the same pairs keep their order.

    Parameters
    ----------
    stack : array of shape (n, n, n_kernels)
        If its columns are other rows, only values distinguish them.
    """
    n = len(stack)
    values = np.ascontiguousarray(stack) + 0.0  # no negative zero, whose bytes differ
    rows = [hashlib.sha256(row.tobytes()).digest() for row in values]
    first = {digest: i for i, digest in reversed(list(enumerate(rows)))}
    place = np.array([first[digest] for digest in rows], dtype=np.int64)
    numbers = np.array([_number_of(np.unique(row[:, m]) for m in range(row.shape[1])) for row in values])
    square = values.shape[1] == n
    distinct = np.unique(place)
    for _ in range(ROUNDS if square else 0):
        tied = _tied(numbers, place)
        if not tied.any():
            break
        finer, others = numbers.copy(), numbers[distinct]
        for i in distinct[tied[distinct]]:
            own = values[i, distinct]
            pairs = (np.c_[others, own[:, m]][np.lexsort((own[:, m], others))] for m in range(own.shape[1]))
            finer[place == i] = _number_of([numbers[i : i + 1], *pairs])
        numbers = finer
    return np.c_[numbers, np.where(_tied(numbers, place), place, 0)]


def _tied(numbers: Array, place: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows that share their number with a row of other values."""
    _, group = np.unique(numbers, return_inverse=True)
    pairs = np.unique(np.c_[group, place], axis=0)
    return np.bincount(pairs[:, 0])[group] > 1


def _number_of(parts: Iterable[Array]) -> float:
    data = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return float(int.from_bytes(hashlib.sha256(data).digest()[:6], "big"))


class GramTable(Table):
    """Rows of a kernel matrix: a view without columns.

    Parameters
    ----------
    matrix : array of shape (n_rows, n_training)
        Kernel values of these rows and of the training rows.
    index : array of int, shape (n_rows,)
        Which column of `matrix` belongs to each of these rows; -1 for rows that are not training rows.
    diagonal : array of shape (n_rows,)
        k(x, x) of the rows, NaN where it is not known.
    """

    matrix: Array
    index: NDArray[np.intp]
    diagonal: Array

    def __init__(self, matrix: Array, index: NDArray[np.intp], diagonal: Array) -> None:
        columns = {
            "values": np.empty((len(matrix), 0)),
            "names": None,
            "levels": (),
            "cells": None,
            "dates": None,
        }
        vars(self).update(columns, matrix=matrix, index=index, diagonal=diagonal)

    def rows(self, index: RowIndex) -> GramTable:
        """The table of some rows."""
        return GramTable(self.matrix[index], self.index[index], self.diagonal[index])

    def select(self, columns: ColumnsLike) -> Table:
        """The table itself; raises for a selection of columns."""
        return self if columns is None else self.joined()

    def joined(self) -> Table:
        """Raise: there are no columns to prepare or to read."""
        raise InputError(
            "A precomputed view has no columns, only kernel values. Put kernels.Precomputed() on it, or a "
            "multiple of it."
        )

    def take(self) -> Array:
        """Raise: there are no columns."""
        return self.joined().values

    def arrays(self) -> list[Array]:
        """Kernel values."""
        return [self.matrix]

    def content(self) -> Array:
        """Numbers that are equal for rows with the same kernel values."""
        return kernel_row_content(without_nan(self.matrix)[:, :, None])

    def empty_rows(self) -> NDArray[np.bool_]:
        """Rows without any kernel value."""
        return np.asarray(np.isnan(self.matrix).all(axis=1))


class BlockTable(Table):
    """Views side by side: rows are aligned, and every view keeps its kind of table.

    Kernels name the view and its columns by :class:`ViewColumns`. Columns of all views have one numbering, in which
    precomputed views have none.

    Parameters
    ----------
    blocks : dict of str to Table
        At least one, of equally many rows.

    Examples
    --------
    >>> table = BlockTable({"a": Table([[1.0, 2.0]]), "b": Table([[3.0]])})
    >>> table.resolve(ViewColumns("b")).tolist(), table.select(ViewColumns("a", (1,))).values.tolist()
    ([2], [[2.0]])
    """

    blocks: dict[str, Table]

    def __init__(self, blocks: Mapping[str, Table]) -> None:
        vars(self)["blocks"] = dict(blocks)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return next(iter(self.blocks.values())).n_rows

    @cached_property
    def n_columns(self) -> int:
        """Number of columns of all views."""
        return sum(block.n_columns for block in self.blocks.values())

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Of all columns."""
        return tuple(level for block in self.blocks.values() for level in block.levels)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, with their view."""
        return tuple(
            f"{view}: {name}"
            for view, block in self.blocks.items()
            if block.n_columns
            for name in block.column_names
        )

    @cached_property
    def cells(self) -> tuple[Cells | None, ...] | None:
        """Of all columns; None where no view has any."""
        return _some(
            one for block in self.blocks.values() for one in (block.cells or (None,) * block.n_columns)
        )

    @cached_property
    def dates(self) -> tuple[DateForm | None, ...] | None:
        """Of all columns; None where no view has any. Elapsed times are those inside of a view."""
        return _some(
            one
            if one is None
            else replace(
                one,
                place=one.place + place.start,
                since=tuple((other + place.start, mean, scale) for other, mean, scale in one.since),
            )
            for block, place in zip(self.blocks.values(), self.places.values(), strict=True)
            for one in (block.dates or (None,) * block.n_columns)
        )

    @cached_property
    def marked(self) -> NDArray[np.bool_]:
        """Of all columns, see `Table.marked`."""
        return np.concatenate([block.marked for block in self.blocks.values()])

    def missing(self) -> NDArray[np.intp]:
        """Of all columns, see `Table.missing`."""
        return np.concatenate([block.missing() for block in self.blocks.values()])

    def empty_rows(self) -> NDArray[np.bool_]:
        """Rows without any view."""
        return np.all([block.empty_rows() for block in self.blocks.values()], axis=0)

    @cached_property
    def places(self) -> dict[str, slice]:
        """Positions of the columns of every view."""
        widths = [block.n_columns for block in self.blocks.values()]
        ends = np.cumsum(widths).tolist()
        places = (slice(end - width, end) for end, width in zip(ends, widths, strict=True))
        return dict(zip(self.blocks, places, strict=True))

    @cached_property
    def values(self) -> Values:
        """All columns side by side, sparse if a view is."""
        parts = [block.values for block in self.blocks.values() if block.n_columns]
        return join_columns(parts) if parts else np.empty((self.n_rows, 0))

    def block(self, view: str) -> Table:
        """The table of a view.

        Parameters
        ----------
        view : str
            Name of the view.
        """
        return self.blocks[check_known(view, list(self.blocks), "view")]

    def resolve(self, columns: ColumnsLike) -> NDArray[np.intp]:
        """Return the positions of the selected columns in the common numbering."""
        selection = freeze_columns(columns)
        if not isinstance(selection, ViewColumns):
            return super().resolve(selection)
        block = self.block(selection.view)
        try:
            found = block.resolve(selection.columns)
        except InputError as error:
            raise InputError(f"View {selection.view!r}: {error}") from None
        return self.places[selection.view].start + found

    def select(self, columns: ColumnsLike) -> Table:
        """The table of some columns: of one view, a table of its kind."""
        if columns is None:
            return self
        selection = freeze_columns(columns)
        if isinstance(selection, ViewColumns):
            return self.block(selection.view).select(selection.columns)
        found = self.resolve(selection)
        return self._columns_of_all().select(found)

    def joined(self) -> Table:
        """One table of all columns, sparse if a view is; raises for precomputed views, which have none."""
        for view, block in self.blocks.items():
            if isinstance(block, GramTable):
                raise InputError(
                    f"A precomputed view has no columns, and {view!r} is one. Put the kernel on a view that has: "
                    "kernel.on(kernelweave.views.ViewColumns('rna')), for estimators {'rna': [kernel]}."
                )
        return self._columns_of_all()

    def _columns_of_all(self) -> Table:
        if any(isinstance(block, SparseTable) for block in self.blocks.values()):
            return SparseTable(self.values, self.names)
        plain = Table.of_checked(self.values, self.names, self.levels, self.cells, self.dates)
        if not self.marked.any():
            return plain
        every = np.concatenate([block.marks for block in self.blocks.values()], axis=1)
        return plain.with_marks(self.values, every, self.marked)

    def declared(self, texts: Collection[int], *, forget: bool = True) -> BlockTable:
        """The table in which some columns are texts or objects, for kernels that read cells.

        Parameters
        ----------
        texts : collection of int
            Positions of these columns in the common numbering.
        forget : bool, default=True
            Whether the cells of other columns are dropped. False where more columns may be declared later.
        """
        return BlockTable(
            {v: block.declared(self.own(v, texts), forget=forget) for v, block in self.blocks.items()}
        )

    def own(self, view: str, columns: Collection[int]) -> list[int]:
        """Positions in a view of those of some columns that belong to it.

        Parameters
        ----------
        view : str
            Name of the view.
        columns : collection of int
            Positions in the common numbering.
        """
        place = self.places[view]
        return [j - place.start for j in columns if place.start <= j < place.stop]

    def take(self) -> Values:
        """See `Table.take`; sparse if a view is."""
        read = [block for block in self.blocks.values() if not block._all_text]
        return join_columns([block.take() for block in read or self.blocks.values()])

    def rows(self, index: RowIndex) -> BlockTable:
        """The table of some rows."""
        table = BlockTable({view: block.rows(index) for view, block in self.blocks.items()})
        # the properties of the columns do not change
        keys = ("names", "levels", "places", "n_columns")
        vars(table).update({key: vars(self)[key] for key in keys if key in vars(self)})
        return table

    def dense_columns(self, found: NDArray[np.intp]) -> Array:
        """Some numeric columns, by their positions, as a plain array."""
        out = np.empty((self.n_rows, len(found)))
        for view, place in self.places.items():
            own = (found >= place.start) & (found < place.stop)
            if own.any():
                out[:, own] = self.blocks[view].dense_columns(found[own] - place.start)
        return out

    def scaled(self, shift: Array, scale: Array) -> BlockTable:
        """Shift and scale the columns of dense views; sparse and precomputed ones are not changed."""
        found = dict(self.blocks)
        for view, place in self.places.items():
            if not isinstance(found[view], SparseTable | GramTable):
                found[view] = found[view].scaled(shift[place], scale[place])
        return BlockTable(found)

    def like(self, values: Array) -> Table:
        """Other rows with the same columns."""
        return BlockTable(
            {view: self.blocks[view].like(values[:, place]) for view, place in self.places.items()}
        )

    def arrays(self) -> list[Array]:
        """Those of all views."""
        return [array for block in self.blocks.values() for array in block.arrays()]

    def content(self) -> Values:
        """That of all views."""
        return join_columns([block.content() for block in self.blocks.values()])
