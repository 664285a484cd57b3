"""Tables of columns: what kernels look at.

A :class:`Table` is a float64 matrix in which every column is either numeric or categorical (integer codes). A
:class:`TableEncoder` makes one from an array, a list, or a pandas, polars or other data frame, and remembers
the columns and categories it saw. Columns are selected by name, index, slice or mask, always through
:meth:`Table.resolve`.
"""

from __future__ import annotations

import difflib
import numbers
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, Reals, as_names
from kernelweave._parameters import Each, Text, Whole, check_fields, listed

__all__ = ["ColumnMask", "ColumnSlice", "Table", "TableEncoder", "as_table", "as_tables", "freeze_columns"]


@dataclass(frozen=True)
class ColumnSlice:
    """A slice of columns as a hashable value; a name as `stop` is included, an integer `stop` is not."""

    start: int | str | None
    stop: int | str | None
    step: int | None = None


@dataclass(frozen=True)
class ColumnMask:
    """A boolean column mask as a hashable value: one entry per column of the table."""

    values: tuple[bool, ...]


Selection = ColumnSlice | ColumnMask | tuple[int | str, ...] | None


def freeze_columns(columns: Any) -> Selection:
    """Return a column selection as a hashable value.

    Parameters
    ----------
    columns : None, int, str, slice, boolean mask, or sequence of int and str
        None selects all columns.

    Returns
    -------
    None, tuple of int and str, ColumnSlice, or ColumnMask
        Equal selections written the same way give equal values.

    Raises
    ------
    InputError
        If the selection is empty or holds anything else, such as floats.

    Examples
    --------
    >>> freeze_columns(["age", 2]), freeze_columns(slice("age", "bmi"))
    (('age', 2), ColumnSlice(start='age', stop='bmi', step=None))
    """
    if columns is None or isinstance(columns, (ColumnSlice, ColumnMask)):
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


def _wrong_column(item: Any) -> str:
    return (
        f"Columns are selected by names, integers, a slice or a boolean mask, got {item!r} "
        f"({type(item).__name__}). Pass for example ['age', 'bmi'], [0, 3] or slice(0, 4)."
    )


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix of numeric and categorical columns.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        Kept as float64 and not copied if it already is. A categorical column holds codes ``0 .. levels - 1``,
        or -1 for a category that was not known when the codes were made.
    names : sequence of str or None, default=None
        One unique name per column.
    levels : sequence of int or None, default=None
        Per column 0 if it is numeric, otherwise the number of known categories. None: all columns numeric.

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
    levels: Annotated[tuple[int, ...], Each(Whole(0), empty=True) | None] = None  # type: ignore[assignment]

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
                f"Column names must be unique, got {_listing(repeated)} more than once. Rename them."
            )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "levels", levels)

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
        return sum(level or 1 for level in self.levels)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names, or ``x0, x1, ...`` where there are none."""
        return self.names if self.names is not None else tuple(f"x{j}" for j in range(self.n_columns))

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names or ())}

    @cached_property
    def _all_numeric(self) -> bool:
        return not any(self.levels)

    def resolve(self, columns: Any) -> NDArray[np.intp]:
        """Return the positions of the selected columns.

        Parameters
        ----------
        columns : None, int, str, slice, boolean mask, or sequence of int and str
            None: all. Negative integers count from the end. A slice of names includes its end, a slice of
            integers does not. A mask has one entry per column.

        Returns
        -------
        array of shape (n_selected,)
            In the order asked for, ``0 <= position < n_columns``.

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
                    f"A column can be selected once, got {_listing(twice)} twice. Drop the repeats."
                )
        if not len(found):
            raise InputError(
                f"The selection {columns!r} holds none of the {self.n_columns} columns. Widen it."
            )
        return found

    def _index(self, item: int | str) -> int:
        if isinstance(item, str):
            if item in self._position:
                return self._position[item]
            if self.names is None:
                raise InputError(
                    f"Column {item!r} was asked for by name, but these columns have no names. Use integers "
                    f"from 0 to {self.n_columns - 1}, or pass a data frame."
                )
            close = difflib.get_close_matches(item, self.names, n=3)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise InputError(f"Unknown column {item!r}.{hint} Known: {_listing(self.names, limit=50)}.")
        if not -self.n_columns <= item < self.n_columns:
            raise InputError(
                f"Column {item} is out of range: the table has {self.n_columns} columns, numbered from 0. "
                f"Use integers from {-self.n_columns} to {self.n_columns - 1}."
            )
        return item % self.n_columns

    def select(self, columns: Any) -> Table:
        """Return the table of the selected columns (itself when `columns` is None)."""
        if columns is None:
            return self
        found = self.resolve(columns)
        names = None if self.names is None else tuple(self.names[j] for j in found)
        return Table(self.values[:, found], names, tuple(self.levels[j] for j in found))

    def take(self, columns: Any = None, expand: bool = True) -> NDArray[np.float64]:
        """Return the selected columns as one array, possibly a view: do not modify it.

        Parameters
        ----------
        columns : see `resolve`
        expand : bool, default=True
            Replace each categorical column by its 0/1 indicator columns, one per known category, all zero for
            an unknown one. False: keep the codes.

        Returns
        -------
        array of shape (n_rows, k), float64
        """
        table = self.select(columns)
        if not expand or table._all_numeric:
            return table.values
        blocks = []
        for column, level in zip(table.values.T, table.levels, strict=True):
            blocks.append(column[:, None] == np.arange(level) if level else column[:, None])
        return np.concatenate(blocks, axis=1, dtype=np.float64)

    def rows(self, index: Any) -> Table:
        """Return the table of some rows: a slice, integers, or a boolean mask of shape (n_rows,)."""
        return Table(self.values[index], self.names, self.levels)


class TableEncoder:
    """Turn arrays and data frames into tables, the same way for training and new rows.

    Numeric arrays stay as they are. In arrays of objects or strings a column is numeric if every value
    converts to a number, and categorical otherwise. In data frames boolean, string, categorical and object
    columns are categorical (object columns that hold numbers only are numeric); all others are numeric. The
    categories are the values seen in `fit`, sorted, numbers before strings.

    Parameters
    ----------
    owner : str, default="model"
        What error messages call the object that was fitted.
    reorder : bool, default=True
        Accept a data frame whose columns are those of `fit` in another order, and put them in order. False:
        raise, with scikit-learn's wording.

    Attributes
    ----------
    n_columns_ : int
    names_ : list of str, or None
        Column names; None for arrays, and for frames whose column labels are not strings.
    categories_ : list of lists of str and float
        Per column the sorted categories; an empty list for a numeric column. Booleans are kept as the strings
        ``"False"`` and ``"True"``.

    Examples
    --------
    >>> encoder = TableEncoder().fit([["red", 1.5], ["blue", 2.5]])
    >>> encoder.categories_
    [['blue', 'red'], []]
    >>> encoder.transform([["blue", 0.5], ["green", 0.0]]).values
    array([[ 0. ,  0.5],
           [-1. ,  0. ]])
    """

    n_columns_: int
    names_: list[str] | None
    categories_: list[list[str | float]]

    def __init__(self, owner: str = "model", reorder: bool = True) -> None:
        self.owner = owner
        self.reorder = reorder

    def fit(self, X: Any) -> TableEncoder:
        """Learn the columns and categories of `X` and return self.

        Raises
        ------
        InputError
            For missing or infinite values (column and count are named), dates, complex numbers, and shapes
            that are not (n_rows, n_columns) with at least one row and one column.
        TypeError
            For sparse input, and for cells that are neither numbers nor strings.
        """
        array = _plain(X)
        if array is not None:
            self.n_columns_ = array.shape[1]
            self.names_ = None
            self.categories_ = [[] for _ in range(self.n_columns_)]
            return self
        names, columns = _read(X)
        _check_missing(columns, names)
        self.n_columns_ = len(columns)
        self.names_ = names
        self.categories_ = [
            sorted(set(map(_key, c.values)), key=_order) if c.categorical else [] for c in columns
        ]
        return self

    def transform(self, X: Any) -> Table:
        """Return `X` as a table with the columns and categories of `fit`; unknown categories get the code -1.

        Raises
        ------
        InputError
            As `fit`; also for a wrong number of columns, for missing or unseen column names, and for a
            numeric column that holds a string (column and first such value are named).
        """
        if not hasattr(self, "categories_"):
            raise InputError("This TableEncoder has not been fitted. Call fit first.")
        own_names = None if self.names_ is None else tuple(self.names_)
        array = _plain(X)
        if array is not None and array.shape[1] == self.n_columns_ and not any(self.categories_):
            return Table(array.astype(np.float64), own_names)
        names, columns = _read(X)
        if names is not None and self.names_ is not None:
            columns = self._match(names, columns, self.names_)
        elif len(columns) != self.n_columns_:
            raise InputError(
                f"X has {len(columns)} features, but {self.owner} is expecting {self.n_columns_} features as "
                "input. Pass the columns used in fit."
            )
        _check_missing(columns, self.names_)
        values = np.empty((len(columns[0].values), self.n_columns_))
        for j, (column, categories) in enumerate(zip(columns, self.categories_, strict=True)):
            if categories:
                code = {category: float(i) for i, category in enumerate(categories)}
                values[:, j] = [code.get(_key(value), -1.0) for value in column.values]
            else:
                values[:, j] = _as_floats(column.values, _say(j, self.names_))
        _check_missing([_Column(column) for column in values.T], self.names_)
        return Table(values, own_names, tuple(map(len, self.categories_)))

    def _match(self, names: list[str], columns: list[_Column], fitted: list[str]) -> list[_Column]:
        """Return `columns` in the order of `fit`, or say which names are missing or new."""
        if names == fitted:
            return columns
        unseen = sorted(set(names) - set(fitted))
        missing = sorted(set(fitted) - set(names))
        message = "The feature names should match those that were passed during fit.\n"
        if unseen:
            message += "Feature names unseen at fit time:\n" + _bullets(unseen)
        if missing:
            message += "Feature names seen at fit time, yet now missing:\n" + _bullets(missing)
        if not unseen and not missing and not self.reorder:
            message += "Feature names must be in the same order as they were in fit.\n"
        if unseen or missing or not self.reorder:
            raise InputError(message)
        by_name = dict(zip(names, columns, strict=True))
        return [by_name[name] for name in fitted]


def as_table(X: Any) -> Table:
    """Return `X` as a table: a table as it is, an array as numeric columns, a frame with its own categories.

    Examples
    --------
    >>> as_table([[1, 2], [3, 4]]).levels
    (0, 0)
    """
    return as_tables(X)[0]


def as_tables(X: Any, Z: Any = None) -> tuple[Table, Table | None]:
    """Return `X` and `Z` as tables with the same columns; categories are those of `X`.

    Raises
    ------
    InputError
        If the two do not have the same columns, and as :meth:`TableEncoder.transform`.
    """
    if isinstance(X, Table):
        left, right = X, Z if Z is None or isinstance(Z, Table) else as_table(Z)
    elif (array := _plain(X)) is not None:
        left, right = Table(array), Z if Z is None or isinstance(Z, Table) else as_table(Z)
    else:
        encoder = TableEncoder("X").fit(X)
        left = encoder.transform(X)
        right = Z if Z is None or isinstance(Z, Table) else encoder.transform(Z)
    if right is not None and left.levels != right.levels:
        raise InputError(
            f"X and Z must have the same columns, got {_kinds(left)} and {_kinds(right)}. Encode both with "
            "one TableEncoder fitted on the training rows."
        )
    return left, right


def _kinds(table: Table) -> str:
    levels = [level for level in table.levels if level]
    return f"{table.n_columns} columns" + (f" (categorical with {levels} levels)" if levels else "")


# --- reading arrays and frames ---


@dataclass
class _Column:
    """One column as it came: values (n_rows,), numeric or object; whether it is categorical."""

    values: NDArray[Any]
    categorical: bool = False


def _plain(X: Any) -> NDArray[Any] | None:
    """Return `X` if it is a finite numeric matrix that needs no reading column by column, else None."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype.kind not in "fiub" or 0 in X.shape:
        return None
    return X if X.dtype.kind != "f" or np.isfinite(X).all() else None


def _read(X: Any) -> tuple[list[str] | None, list[_Column]]:
    if isinstance(X, Table):
        raise InputError("A Table is encoded already. Pass the original array or data frame.")
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError(
            "A sparse matrix was passed, but dense data is required. Use X.toarray() to convert it."
        )
    if hasattr(X, "collect") and hasattr(type(X), "columns"):  # on the type: polars warns when asked
        raise InputError("Lazy frames cannot be used directly. Call .collect() first.")
    names, columns = _read_frame(X) if _is_frame(X) else (None, _read_array(X))
    shape = (len(columns[0].values) if columns else len(X), len(columns))
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise InputError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required. Pass at "
                "least one."
            )
    return names, columns


def _is_frame(X: Any) -> bool:
    return hasattr(X, "iloc") or hasattr(X, "get_columns") or hasattr(X, "column_names")


def _read_array(X: Any) -> list[_Column]:
    try:
        array = np.asarray(X)
    except ValueError:
        raise InputError(
            "X must be rectangular, got rows of different lengths. Pad or drop the short rows."
        ) from None
    if array.ndim != 2:
        hint = ""
        if array.ndim == 1:
            hint = " using X.reshape(-1, 1) if it is one column, or X.reshape(1, -1) if it is one row"
        raise InputError(
            f"Expected 2D array, got {array.ndim}D array of shape {array.shape}. Reshape your data{hint}."
        )
    if array.dtype.kind in "US":  # numbers among strings in a list: look at them one by one
        array = np.asarray(X, dtype=object)
    _check_kind(array, "X")
    if array.dtype.kind != "O":
        return [_Column(column) for column in array.T]
    return [_Column(column, not _converts(column, _say(j, None))) for j, column in enumerate(array.T)]


def _read_frame(X: Any) -> tuple[list[str] | None, list[_Column]]:
    labels, series = _frame_columns(X)
    strings = [isinstance(label, str) for label in labels]
    if any(strings) and not all(strings):
        kinds = sorted({type(label).__name__ for label in labels})
        raise TypeError(
            f"Feature names are only supported if all input features have string names, got {kinds}. "
            "Use X.columns = X.columns.astype(str)."
        )
    names = [str(label) for label in labels] if any(strings) else None
    if names is not None and len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise InputError(
            f"Column names must be unique, got {_listing(repeated)} more than once. Rename them."
        )
    columns = []
    for j, (values, declared) in enumerate(series):
        what = _say(j, names)
        _check_kind(values, what)
        if values.dtype.kind in "US":
            values, declared = values.astype(object), True
        numbers_only = values.dtype.kind == "O" and not declared and all(map(_is_number, values))
        categorical = declared or values.dtype.kind == "b" or (values.dtype.kind == "O" and not numbers_only)
        columns.append(_Column(values, categorical))
    return names, columns


def _frame_columns(X: Any) -> tuple[list[Any], Iterator[tuple[NDArray[Any], bool]]]:
    """Return column labels, and per column its values and whether its type is declared categorical."""
    if hasattr(X, "iloc"):  # pandas and what looks like it
        X = X.to_frame() if not hasattr(X, "columns") else X
        series = [X.iloc[:, j] for j in range(X.shape[1])]
        return list(X.columns), ((s.to_numpy(), str(s.dtype) == "category") for s in series)
    if hasattr(X, "get_columns"):  # polars
        series = X.get_columns()
        return list(X.columns), (
            (s.to_numpy(), str(s.dtype).startswith(("Categorical", "Enum"))) for s in series
        )
    import narwhals

    frame = narwhals.from_native(X, eager_only=True)
    kinds = (narwhals.Categorical, narwhals.Enum)
    return frame.columns, ((s.to_numpy(), s.dtype in kinds) for s in frame.iter_columns())


def _check_kind(values: NDArray[Any], what: str) -> None:
    kind = values.dtype.kind
    if kind == "c" or (kind == "O" and any(isinstance(value, complex) for value in values.flat)):
        raise InputError(
            f"Complex data not supported: {what} holds complex numbers. Pass real and imaginary parts."
        )
    if kind in "Mm":
        raise InputError(
            f"{what[0].upper()}{what[1:]} holds dates or durations, which are neither numbers nor "
            "categories. Convert them, for example to days since a reference date."
        )
    if kind == "V":
        raise InputError(f"{what[0].upper()}{what[1:]} has the type {values.dtype}. Pass a plain 2D array.")


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and value != value


def _is_number(value: Any) -> bool:
    is_bool = isinstance(value, (bool, np.bool_))
    return _is_missing(value) or (isinstance(value, numbers.Number) and not is_bool)


def _converts(values: NDArray[Any], what: str) -> bool:
    """Return whether all present values convert to float; raise TypeError for what cannot be a cell."""
    all_convert = True
    for value in values:
        if _is_missing(value):
            continue
        if not isinstance(value, (str, bytes, numbers.Number, np.bool_)):
            raise TypeError(
                f"Every cell argument must be a string or a number, got {value!r} ({type(value).__name__}) "
                f"in {what}. Flatten it into columns."
            )
        try:
            float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            all_convert = False
    return all_convert


def _as_floats(values: NDArray[Any], what: str) -> NDArray[np.float64]:
    if values.dtype.kind != "O":
        return values.astype(np.float64)
    result = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            result[i] = float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{what[0].upper()}{what[1:]} was numeric when fitted, got {value!r} in row {i}. Pass "
                "numbers, or fit again with this column as categories."
            ) from None
    return result


def _check_missing(columns: Sequence[_Column], names: list[str] | None) -> None:
    """Raise if values are missing or infinite, naming columns and counts."""
    n_nan, n_inf = {}, {}
    for j, column in enumerate(columns):
        values, kind = column.values, column.values.dtype.kind
        if kind == "f":
            finite = np.isfinite(values)
            if not finite.all():
                n_nan[j] = int(np.isnan(values).sum())
                n_inf[j] = len(values) - int(finite.sum()) - n_nan[j]
        elif kind == "O":
            n_nan[j] = sum(map(_is_missing, values))
            n_inf[j] = sum(isinstance(v, (float, np.floating)) and abs(v) == np.inf for v in values)
    for counts, word in ((n_nan, "NaN"), (n_inf, "infinity")):
        bad = [
            f"{_say(j, names)} ({count} of {len(columns[j].values)} rows)"
            for j, count in counts.items()
            if count
        ]
        if bad:
            what = "NaN (missing values)" if word == "NaN" else word
            more = f" and {len(bad) - 5} more columns" if len(bad) > 5 else ""
            raise InputError(
                f"X must be complete and finite, but contains {what} in {', '.join(bad[:5])}{more}. "
                "Impute the values or drop these rows."
            )


def _key(value: Any) -> str | float:
    """Return a category as str or float, so that fitted state is plain."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, numbers.Number):
        return float(value)  # type: ignore[arg-type]
    return str(value)


def _order(key: str | float) -> tuple[bool, str | float]:
    return isinstance(key, str), key


def _say(j: int, names: Sequence[str] | None) -> str:
    return f"column {j}" if names is None else f"column {names[j]!r}"


def _listing(names: Sequence[str], limit: int = 20) -> str:
    text = ", ".join(map(repr, names[:limit]))
    return text + (f", ... ({len(names)} in all)" if len(names) > limit else "")


def _bullets(names: Sequence[str]) -> str:
    lines = [f"- {name}\n" for name in names[:5]]
    return "".join(lines) + ("- ...\n" if len(names) > 5 else "")
