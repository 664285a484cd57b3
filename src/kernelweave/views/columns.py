"""Given tables as they are read column by column: numbers, categories, texts, dates and other objects."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, is_missing
from kernelweave._errors import capital
from kernelweave._types import DataFrame, TableLike
from kernelweave.views.dates import at_zone, read_dates
from kernelweave.views.selection import column_name, listing
from kernelweave.views.tables import Cells, is_frame

__all__ = ["HINT", "Column", "check_missing", "read_columns"]

#: Advice for missing cells.
HINT = "; estimators do it, in every fold anew, with missing='impute', or skip such cells with missing='skip'"


@dataclass(eq=False)
class Column:
    """One given column: values (n_rows,), numeric or object; whether it is categorical, or has other objects."""

    values: NDArray[Any]
    categorical: bool = False
    #: Whether the frame says that it is categorical.
    declared: bool = False
    #: Whether cells are sets, lists, graphs or the like, which only kernels that are put on them can read.
    objects: bool = False
    #: Of dates, which are days since 1970, their time zone, "" without one; None for other columns.
    zone: str | None = None

    @property
    def holds_objects(self) -> bool:
        """Whether all cells are missing or neither text nor numbers, and the column was not declared otherwise."""
        return self._holds(_is_thing)

    @property
    def holds_text(self) -> bool:
        """Whether all cells are text or missing, and the column was not declared to be one of categories."""
        return self._holds(lambda value: isinstance(value, str | bytes))

    def _holds(self, kind: Callable[[object], bool]) -> bool:
        return self.values.dtype.kind == "O" and not self.declared and _are_all(kind, self.values)

    def cells(self) -> Cells:
        """Its texts, the empty one where it is missing, or its other objects as they are."""
        if not self.holds_text:
            return Cells(self.values)
        return Cells(["" if is_missing(value) else value for value in self.values])

    def lost(self) -> NDArray[np.bool_]:
        """Where cells are missing."""
        return np.fromiter(map(is_missing, self.values), dtype=bool, count=len(self.values))

    def categories(self) -> list[str | float]:
        """Its categories, sorted, numbers before texts."""
        found = {_category(v) for v in self.values if not is_missing(v)}
        return sorted(found, key=lambda one: (isinstance(one, str), one))

    def codes(self, categories: Sequence[str | float]) -> list[float]:
        """Positions among categories: -1 of others, NaN of missing cells."""
        code = {category: float(i) for i, category in enumerate(categories)}
        return [np.nan if is_missing(v) else _code(v, code) for v in self.values]

    def days(self, what: str, zone: str) -> NDArray[np.float64]:
        """Its dates as days since 1970 on the calendar of a time zone; raises for cells that are not dates."""
        if self.zone is None:
            known = np.flatnonzero(~self.lost())
            if len(known):
                first = self.values[known[:1]].tolist()[0]
                raise InputError(
                    f"{capital(what)} held dates when fitted, got {first!r:.40} in row {known[0]}. Pass "
                    "dates, for example pandas.to_datetime(column)."
                )
            return np.full(len(self.values), np.nan)
        if bool(self.zone) != bool(zone) and not self.lost().all():
            was = f"was in the time zone {zone}" if zone else "had no time zone"
            now = f"in the time zone {self.zone}" if self.zone else "without a time zone"
            written = "offsets, such as 2024-01-31 12:00+00:00" if zone else "dates without offsets"
            raise InputError(
                f"{capital(what)} {was} when fitted, got dates {now}. In Python use "
                f"column.dt.tz_localize({zone or None!r}); in a file write {written}."
            )
        return at_zone(self.values, zone)

    def floats(self, what: str) -> NDArray[np.float64]:
        """Its numbers, NaN of missing cells; raises for cells that are not numbers."""
        if self.zone is not None:
            raise InputError(
                f"{capital(what)} was numeric when fitted, got dates. Pass numbers, or fit again with dates."
            )
        if self.values.dtype.kind != "O":
            return self.values.astype(np.float64)
        result = np.empty(len(self.values))
        for i, value in enumerate(self.values):
            try:
                result[i] = np.nan if is_missing(value) else float(value)
            except (TypeError, ValueError):
                raise InputError(
                    f"{capital(what)} was numeric when fitted, got {value!r} in row {i}. Pass "
                    "numbers, or fit again with this column as categories."
                ) from None
        return result


def _code(value: Any, code: Mapping[str | float, float]) -> float:
    """The position of a category, also where numbers and truth values were written otherwise when it was seen."""
    found = code.get(_category(value))
    if found is None and isinstance(value, numbers.Real | Decimal | np.bool_):
        # 1 is "1", and 1.0 of a column that lacked cells too; 0 and 1 are truth values
        number = float(value)
        whole = number.is_integer()
        ways = (
            number,
            str(int(number)) if whole else str(number),
            str(bool(number)) if number in (0, 1) else "",
        )
        found = next((code[way] for way in ways if way in code), None)
    elif found is None and isinstance(value, str | bytes):
        with suppress(ValueError):
            found = code.get(float(value))
    return -1.0 if found is None else found


def _category(value: object) -> str | float:
    """A category as text or number, so that fitted state is plain."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return float(value) if isinstance(value, numbers.Number) else str(value)  # type: ignore[arg-type]


def read_columns(X: TableLike, *, missing: bool) -> tuple[list[str] | None, list[Column]]:
    """The names of a table, None without any, and its columns; raises if it is not a table."""
    if hasattr(X, "collect") and hasattr(type(X), "columns"):  # on the type: polars warns when asked
        raise InputError("Lazy frames cannot be used directly. Call .collect() first.")
    names, columns = _read_frame(X) if is_frame(X) else (None, _read_array(X))
    shape = (len(columns[0].values) if columns else len(X), len(columns))  # type: ignore[arg-type]
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise InputError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required. Pass at "
                "least one."
            )
    check_missing([column.values for column in columns], names, allowed=missing)
    return names, columns


def _read_array(X: TableLike) -> list[Column]:
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
            if array.size and all(isinstance(value, str) for value in array.tolist()):
                hint = ": texts are a view, {'text': X}, or a column of a frame"
        raise InputError(
            f"Expected 2D array, got {array.ndim}D array of shape {array.shape}. Reshape your data{hint}."
        )
    if array.dtype.kind in "US":  # numbers among strings in a list: check them one by one
        array = np.asarray(X, dtype=object)
    _check_kind(array, "X")
    if array.dtype.kind not in "OMm":
        return [Column(column) for column in array.T]
    columns = []
    for j, column in enumerate(array.T):
        if (dated := _dated(column, column_name(j, None))) is not None:
            columns.append(dated)
            continue
        objects = _are_all(_is_thing, column)
        categorical = objects or not _converts(column, column_name(j, None))
        columns.append(Column(column, categorical, objects=objects))
    return columns


def _read_frame(X: TableLike) -> tuple[list[str] | None, list[Column]]:
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
        raise InputError(f"Column names must be unique, got {listing(repeated)} more than once. Rename them.")
    columns = []
    for j, (values, declared, zone) in enumerate(series):
        _check_kind(values, column_name(j, names))
        dated = None if declared else _dated(values, column_name(j, names), zone)
        if dated is not None:
            columns.append(dated)
            continue
        text = values.dtype.kind in "US"
        values = values.astype(object) if text else values
        cells = values.dtype.kind == "O" and not declared
        categorical = (
            declared or values.dtype.kind == "b" or (cells and (text or not all(map(_is_number, values))))
        )
        columns.append(Column(values, categorical, declared, cells and _are_all(_is_container, values)))
    return names, columns


def _dated(values: NDArray[Any], what: str, zone: str = "") -> Column | None:
    """A column of dates, or of durations, which are numbers of days; None of anything else."""
    found = read_dates(values, what, zone)
    return None if found is None else Column(found[0], zone=found[1])


def _frame_columns(X: DataFrame | Any) -> tuple[list[object], Iterator[tuple[NDArray[Any], bool, str]]]:
    """Return column labels, and per column its values, whether it is declared categorical, and a time zone."""
    if hasattr(X, "iloc"):  # pandas and similar frames
        X = X.to_frame() if not hasattr(X, "columns") else X
        # not by position, which takes a tenth of a millisecond for each column
        return list(X.columns), (_of_pandas(s) for _, s in X.items())
    if hasattr(X, "get_columns"):  # polars
        kinds = ("Categorical", "Enum")
        return list(X.columns), (
            (s.to_numpy(), str(s.dtype).startswith(kinds), _zone_of(s)) for s in X.get_columns()
        )
    import narwhals

    frame = narwhals.from_native(X, eager_only=True)
    declared = (narwhals.Categorical, narwhals.Enum)
    return frame.columns, ((_given(s), s.dtype in declared, _zone_of(s)) for s in frame.iter_columns())


def _given(series: Any) -> NDArray[Any]:
    """Values of a column of narwhals, which makes the last category of missing cells of Arrow's dictionaries."""
    import narwhals

    return (
        np.array(series.to_list(), dtype=object)
        if series.dtype == narwhals.Categorical
        else series.to_numpy()
    )


def _zone_of(series: Any) -> str:
    """The time zone of a column of polars or narwhals, whose values are in UTC."""
    return getattr(series.dtype, "time_zone", None) or ""


def _of_pandas(series: Any) -> tuple[NDArray[Any], bool, str]:
    """Values of a column, dates with a time zone in UTC; whether it is categorical; and the time zone."""
    kind = series.dtype
    zone = getattr(kind, "tz", None) or getattr(getattr(kind, "pyarrow_dtype", None), "tz", None)
    values = series if zone is None else series.dt.tz_convert(None)
    return values.to_numpy(), str(kind) == "category", "" if zone is None else str(zone)


def _check_kind(values: NDArray[np.generic], what: str) -> None:
    kind = values.dtype.kind
    if kind == "c" or (kind == "O" and any(isinstance(value, complex) for value in values.flat)):
        raise InputError(
            f"Complex data not supported: {what} holds complex numbers. Pass real and imaginary parts."
        )
    if kind == "V":
        raise InputError(f"{capital(what)} has the type {values.dtype}. Pass a plain 2D array.")


def _is_number(value: object) -> bool:
    is_bool = isinstance(value, (bool, np.bool_))
    return is_missing(value) or (isinstance(value, numbers.Number) and not is_bool)


def _are_all(kind: Callable[[object], bool], values: Iterable[object]) -> bool:
    """Whether all known cells are of a kind, and there are some."""
    known = [value for value in values if not is_missing(value)]
    return bool(known) and all(map(kind, known))


def _is_thing(value: object) -> bool:
    """Whether a cell is neither text nor a number."""
    return not isinstance(value, str | bytes | numbers.Number | np.bool_)


def _is_container(value: object) -> bool:
    """Whether a cell is a set, a list, an array or a graph; others may be names of categories."""
    return _is_thing(value) and isinstance(value, Iterable)


def _converts(values: NDArray[np.generic], what: str) -> bool:
    """Return whether all known values convert to float; raise TypeError for invalid cells."""
    all_convert = True
    for value in values:
        if is_missing(value):
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


def check_missing(columns: Iterable[NDArray[np.generic]], names: list[str] | None, *, allowed: bool) -> None:
    """Raise if values are infinite, or missing if that is not `allowed`, with columns and counts."""
    n_nan, n_inf, n_rows = {}, {}, 0
    for j, values in enumerate(columns):
        n_rows = len(values)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            n_nan[j], n_inf[j] = int(np.isnan(values).sum()), int(np.isinf(values).sum())
        elif values.dtype.kind == "O":
            n_nan[j] = sum(map(is_missing, values))
            n_inf[j] = sum(isinstance(v, (float, np.floating)) and abs(v) == np.inf for v in values)
    for counts, what in ((n_nan, "NaN (missing values)"), (n_inf, "infinity")):
        bad = [f"{column_name(j, names)} ({n} of {n_rows} rows)" for j, n in counts.items() if n]
        if bad and not (allowed and counts is n_nan):
            more = f" and {len(bad) - 5} more columns" if len(bad) > 5 else ""
            raise InputError(
                f"X must be complete and finite, but contains {what} in {', '.join(bad[:5])}{more}. "
                f"Impute the values or drop these rows{HINT if counts is n_nan else ''}."
            )
