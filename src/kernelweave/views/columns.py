"""Columns of arrays and data frames, one by one: their names, whether they are numeric, what is missing."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._types import TableLike
from kernelweave.views.messages import column_name, listing

#: Advice for missing cells.
HINT = "; estimators do it, in every fold anew, with missing='impute', or skip such cells with missing='skip'"


@dataclass
class Column:
    """One given column: values (n_rows,), numeric or object; whether it is categorical, or has other objects."""

    values: NDArray[Any]
    categorical: bool = False
    #: Whether the frame says that it is categorical.
    declared: bool = False
    #: Whether cells are sets, lists or the like, which only custom kernels can read.
    objects: bool = False

    @property
    def holds_text(self) -> bool:
        """Whether all cells are text or missing, and the column was not declared to be one of categories."""
        if self.values.dtype.kind != "O" or self.declared:
            return False
        known = [v for v in self.values if not is_missing(v)]
        return bool(known) and all(isinstance(v, str | bytes) for v in known)


def plain_array(X: object) -> NDArray[Any] | None:
    """Return `X` if it is a finite numeric matrix that need not be read column by column, else None."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype.kind not in "fiub" or 0 in X.shape:
        return None
    return X if X.dtype.kind != "f" or np.isfinite(X).all() else None


def plain_frame(X: Any, *, missing: bool) -> tuple[list[str], NDArray[np.float64]] | None:
    """Names and numbers of a data frame that need not be read column by column, else None.

    These are frames of NumPy's real numbers alone, under names that are strings and differ; finite ones, or missing if
    that is allowed.
    """
    if not hasattr(X, "iloc") or not hasattr(X, "columns") or not all(X.shape):
        return None
    if not all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in X.dtypes):
        return None
    names = list(X.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return None
    # rows one after another, and no memory shared with the frame
    values = np.array(X.to_numpy(dtype=np.float64), order="C")
    fine = not np.isinf(values).any() if missing else np.isfinite(values).all()
    return (list(map(str, names)), values) if fine else None


def read_columns(X: Any) -> tuple[list[str] | None, list[Column]]:
    """The names of the columns, if they have any, and the columns; raises if it is not a table."""
    if hasattr(X, "collect") and hasattr(type(X), "columns"):  # on the type: polars warns when asked
        raise InputError("Lazy frames cannot be used directly. Call .collect() first.")
    names, columns = _read_frame(X) if is_frame(X) else (None, _read_array(X))
    shape = (len(columns[0].values) if columns else len(X), len(columns))
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise InputError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required. Pass at "
                "least one."
            )
    return names, columns


def is_frame(X: object) -> bool:
    """Whether it is a data frame or a table of Arrow."""
    return hasattr(X, "iloc") or hasattr(X, "get_columns") or hasattr(X, "column_names")


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
    if array.dtype.kind != "O":
        return [Column(column) for column in array.T]
    columns = []
    for j, column in enumerate(array.T):
        objects = all(map(_is_object, column))
        columns.append(Column(column, objects or not _converts(column, column_name(j, None)), False, objects))
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
    for j, (values, declared) in enumerate(series):
        what = column_name(j, names)
        _check_kind(values, what)
        text = values.dtype.kind in "US"
        values = values.astype(object) if text else values
        numbers_only = values.dtype.kind == "O" and not (declared or text) and all(map(_is_number, values))
        objects = values.dtype.kind == "O" and not declared and all(map(_is_object, values))
        categorical = declared or values.dtype.kind == "b" or (values.dtype.kind == "O" and not numbers_only)
        columns.append(Column(values, categorical, declared, objects))
    return names, columns


def _frame_columns(X: Any) -> tuple[list[Any], Iterator[tuple[NDArray[Any], bool]]]:
    """Return column labels, and per column its values and whether its type is declared categorical."""
    if hasattr(X, "iloc"):  # pandas and similar frames
        X = X.to_frame() if not hasattr(X, "columns") else X
        # not by position, which takes a tenth of a millisecond for each column
        return list(X.columns), ((s.to_numpy(), str(s.dtype) == "category") for _, s in X.items())
    if hasattr(X, "get_columns"):  # polars
        series = X.get_columns()
        return list(X.columns), (
            (s.to_numpy(), str(s.dtype).startswith(("Categorical", "Enum"))) for s in series
        )
    import narwhals

    frame = narwhals.from_native(X, eager_only=True)
    kinds = (narwhals.Categorical, narwhals.Enum)
    return frame.columns, ((s.to_numpy(), s.dtype in kinds) for s in frame.iter_columns())


def _check_kind(values: NDArray[np.generic], what: str) -> None:
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


def is_missing(value: object) -> bool:
    """Whether a cell is None, NaN, or pandas' missing value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and value != value


def _is_number(value: object) -> bool:
    is_bool = isinstance(value, (bool, np.bool_))
    return is_missing(value) or (isinstance(value, numbers.Number) and not is_bool)


def _is_object(value: object) -> bool:
    """Whether a cell is a container: a set, a list, an array."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


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


def to_floats(values: NDArray[np.generic], what: str) -> NDArray[np.float64]:
    """Values as floats, missing ones as NaN; raises for values that are not numbers."""
    if values.dtype.kind != "O":
        return values.astype(np.float64)
    result = np.empty(len(values))
    for i, value in enumerate(values):
        if is_missing(value):
            result[i] = np.nan
            continue
        try:
            result[i] = float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{what[0].upper()}{what[1:]} was numeric when fitted, got {value!r} in row {i}. Pass "
                "numbers, or fit again with this column as categories."
            ) from None
    return result


def check_missing(columns: Sequence[Column], names: list[str] | None, *, allowed: bool = False) -> None:
    """Raise if values are infinite, or missing if that is not `allowed`, with columns and counts."""
    n_nan, n_inf = {}, {}
    for j, column in enumerate(columns):
        values, kind = column.values, column.values.dtype.kind
        if kind == "f":
            finite = np.isfinite(values)
            if not finite.all():
                n_nan[j] = int(np.isnan(values).sum())
                n_inf[j] = len(values) - int(finite.sum()) - n_nan[j]
        elif kind == "O":
            n_nan[j] = sum(map(is_missing, values))
            n_inf[j] = sum(isinstance(v, (float, np.floating)) and abs(v) == np.inf for v in values)
    for counts, word in ((n_inf, "infinity"),) if allowed else ((n_nan, "NaN"), (n_inf, "infinity")):
        bad = [
            f"{column_name(j, names)} ({count} of {len(columns[j].values)} rows)"
            for j, count in counts.items()
            if count
        ]
        if bad:
            what = "NaN (missing values)" if word == "NaN" else word
            more = f" and {len(bad) - 5} more columns" if len(bad) > 5 else ""
            raise InputError(
                f"X must be complete and finite, but contains {what} in {', '.join(bad[:5])}{more}. "
                f"Impute the values or drop these rows{HINT if word == 'NaN' else ''}."
            )


def category_key(value: object) -> str | float:
    """Return a category as str or float, so that fitted state is plain."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, numbers.Number):
        return float(value)  # type: ignore[arg-type]
    return str(value)


def category_order(key: str | float) -> tuple[bool, str | float]:
    """Sort key of categories: numbers before strings."""
    return isinstance(key, str), key
