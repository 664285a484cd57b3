"""From arrays, data frames and views to tables, with the columns and categories that were seen first."""

from __future__ import annotations

import difflib
import hashlib
import numbers
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, check_finite, check_gram_stack
from kernelweave._parameters import Flag, checked
from kernelweave._sparse import as_csr, is_sparse
from kernelweave._types import Features, TableLike
from kernelweave.views.container import PrecomputedView, Views, holds_views, precomputed
from kernelweave.views.selection import bullets, column_name, listing
from kernelweave.views.tables import (
    TEXT,
    BlockTable,
    Cells,
    GramTable,
    SparseTable,
    Table,
    as_sparse,
    is_frame,
    is_missing,
)

__all__ = ["HINT", "GramEncoder", "TableEncoder", "ViewsEncoder", "as_table", "as_tables", "plain_frame"]

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
    missing : bool, default=False
        Keep missing cells (None, NaN, null, NA), as NaN. False: they are an error.

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
    #: Whether the rows of `fit` were sparse.
    sparse_: bool = False
    #: Positions of columns of texts and other objects, which are no categories.
    texts_: tuple[int, ...] = ()
    #: Whether `texts_` is final; until then tables keep the cells of every column that kernels of texts may read.
    declared_: bool = False

    #: Here, too, for encoders that were pickled before it was a parameter.
    missing: bool = False

    def __init__(self, owner: str = "model", reorder: bool = True, missing: bool = False) -> None:
        self.owner = owner
        self.reorder = reorder
        self.missing = missing

    def fit(self, X: Features) -> TableEncoder:
        """Learn the columns and categories of `X` and return self.

        SciPy's sparse matrices and arrays of all formats are numeric columns; tables of them stay sparse.

        Raises
        ------
        InputError
            For missing or infinite values (column and count are named), dates, complex numbers, and shapes
            that are not (n_rows, n_columns) with at least one row and one column.
        TypeError
            For cells that are neither numbers nor strings.
        """
        self.sparse_ = is_sparse(X)
        self.texts_, self.declared_ = (), False
        array = as_csr(X, missing=self.missing) if self.sparse_ else plain_array(X)
        if array is not None:
            self.n_columns_ = array.shape[1]
            self.names_ = None
            self.categories_ = [[] for _ in range(self.n_columns_)]
            return self
        if (frame := plain_frame(X, missing=self.missing)) is not None:
            self.names_ = frame[0]
            self.n_columns_ = len(self.names_)
            self.categories_ = [[] for _ in self.names_]
            return self
        names, columns = _read(X)
        check_missing(columns, names, allowed=self.missing)
        self.n_columns_ = len(columns)
        self.names_ = names
        self.texts_ = tuple(j for j, column in enumerate(columns) if column.objects)
        self.categories_ = [_categories(c) if c.categorical and not c.objects else [] for c in columns]
        return self

    def declare(self, table: Table, texts: Collection[int]) -> Table:
        """Let some columns be texts or objects, from now on and in the table that `transform` made.

        Parameters
        ----------
        table : Table
        texts : collection of int
            Positions of columns that are no categories: only kernels that read cells see them.
        """
        self.texts_, self.declared_ = tuple(sorted(texts)), True
        for j in self.texts_:
            self.categories_[j] = []
        return table.declared(self.texts_)

    def transform(self, X: Features) -> Table:
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
        if is_sparse(X):
            X = as_csr(X, missing=self.missing)
            if self.sparse_ and X.shape[1] == self.n_columns_:
                return SparseTable(X, own_names)
            if X.shape[1] == self.n_columns_:
                # sparse rows for a model of a dense table
                X = X.toarray()
            else:
                raise self._wrong_number(X.shape[1])
        numbers = None
        if not self.texts_ and not any(self.categories_):
            array, frame = plain_array(X), plain_frame(X, missing=self.missing)
            if array is not None and array.shape[1] == self.n_columns_:
                numbers = array.astype(np.float64)
            elif frame is not None and frame[0] == self.names_:
                numbers = frame[1]
        if numbers is not None:
            dense = Table.of_checked(numbers, own_names, (0,) * self.n_columns_)
            return as_sparse(dense) if self.sparse_ else dense
        names, columns = _read(X)
        if names is not None and self.names_ is not None:
            columns = self._match(names, columns, self.names_)
        elif len(columns) != self.n_columns_:
            raise self._wrong_number(len(columns))
        check_missing(columns, self.names_, allowed=self.missing)
        values = np.empty((len(columns[0].values), self.n_columns_))
        kept: list[Cells | None] = [None] * self.n_columns_
        for j, (column, categories) in enumerate(zip(columns, self.categories_, strict=True)):
            may_be_read = column.objects or (not self.declared_ and column.holds_text)
            if j in self.texts_ or may_be_read:
                kept[j] = Cells(_without_missing(column))
            if j in self.texts_:
                lost = np.fromiter(map(is_missing, column.values), dtype=bool, count=len(column.values))
                values[:, j] = np.where(lost, np.nan, Cells(_without_missing(column)).digests())
            elif categories:
                code = {category: float(i) for i, category in enumerate(categories)}
                values[:, j] = [
                    np.nan if is_missing(value) else code.get(category_key(value), -1.0)
                    for value in column.values
                ]
            else:
                values[:, j] = to_floats(column.values, column_name(j, self.names_))
        check_missing([Column(column) for column in values.T], self.names_, allowed=self.missing)
        if self.sparse_:
            return as_sparse(Table(values, own_names))
        levels = tuple(TEXT if j in self.texts_ else len(c) for j, c in enumerate(self.categories_))
        return Table(values, own_names, levels, tuple(kept))

    def empty(self, n_rows: int) -> Table:
        """A table of rows in which every cell is missing."""
        own_names = None if self.names_ is None else tuple(self.names_)
        if self.sparse_:
            from scipy import sparse

            first = (np.full(n_rows, np.nan), (np.arange(n_rows), np.zeros(n_rows, dtype=np.intp)))
            return SparseTable(sparse.csr_array(first, shape=(n_rows, self.n_columns_)), own_names)
        levels = tuple(TEXT if j in self.texts_ else len(c) for j, c in enumerate(self.categories_))
        kept = tuple(Cells([""] * n_rows) if j in self.texts_ else None for j in range(self.n_columns_))
        return Table(np.full((n_rows, self.n_columns_), np.nan), own_names, levels, kept)

    def _wrong_number(self, number: int) -> InputError:
        return InputError(
            f"X has {number} features, but {self.owner} is expecting {self.n_columns_} features as input. Pass the "
            "columns used in fit."
        )

    def _match(self, names: list[str], columns: list[Column], fitted: list[str]) -> list[Column]:
        """Return `columns` in the order of `fit`, or say which names are missing or new."""
        if names == fitted:
            return columns
        unseen = sorted(set(names) - set(fitted))
        missing = sorted(set(fitted) - set(names))
        message = "The feature names should match those that were passed during fit.\n"
        if unseen:
            message += "Feature names unseen at fit time:\n" + bullets(unseen)
        if missing:
            message += "Feature names seen at fit time, yet now missing:\n" + bullets(missing)
        if not unseen and not missing and not self.reorder:
            message += "Feature names must be in the same order as they were in fit.\n"
        if unseen or missing or not self.reorder:
            raise InputError(message)
        by_name = dict(zip(names, columns, strict=True))
        return [by_name[name] for name in fitted]


def _without_missing(column: Column) -> object:
    """Texts of a column, the empty one where it is missing; other objects as they are."""
    if not any(map(is_missing, column.values)) or not column.holds_text:
        return column.values
    return ["" if is_missing(value) else value for value in column.values]


def _categories(column: Column) -> list[str | float]:
    """Categories of a column, sorted."""
    return sorted({category_key(v) for v in column.values if not is_missing(v)}, key=category_order)


def _read(X: Features) -> tuple[list[str] | None, list[Column]]:
    if isinstance(X, Table):
        raise InputError("A Table is encoded already. Pass the original array or data frame.")
    return read_columns(X)


class GramEncoder:
    """Turn precomputed views into tables of kernel values with the training rows.

    Attributes
    ----------
    columns_ : array of int, shape (n_train,)
        Columns of the training rows in the matrix of `fit`.
    n_columns_ : int
        Columns of that matrix.
    digest_ : str or None
        Of the kernel values of the training rows with each other, which identifies their matrix. None: of a
        file without it.
    there_ : array of bool, shape (n_train,), or None
        Training rows with the view.
    """

    columns_: NDArray[np.intp]
    n_columns_: int
    digest_: str | None = None
    #: Training rows with the view; None: all.
    there_: NDArray[np.bool_] | None = None
    #: Whether rows may lack all values.
    missing: bool = False

    def __init__(self, missing: bool = False) -> None:
        self.missing = missing

    def fit(self, view: PrecomputedView) -> GramEncoder:
        """Store the training rows."""
        if not view.is_square:
            raise InputError(
                f"A precomputed view must be square for training, got shape {view.matrix.shape}. Pass "
                "K(X_train, X_train)."
            )
        _refuse_empty(view)
        self.columns_, self.n_columns_ = view.rows, view.matrix.shape[1]
        self.digest_ = self._digest(view.matrix)
        return self

    def _digest(self, matrix: NDArray[np.float64]) -> str:
        """Of the training rows in a square matrix."""
        block = matrix[np.ix_(self.columns_, self.columns_)] + 0.0  # a negative zero is a zero
        return hashlib.sha256(block.tobytes()).hexdigest()

    def _is_known(self, view: PrecomputedView) -> bool:
        """Whether these are rows of the matrix of `fit`: its training rows have the same values there."""
        same_shape = view.is_square and view.matrix.shape[1] == self.n_columns_
        return same_shape and self.digest_ is not None and self._digest(view.matrix) == self.digest_

    def training(self, view: PrecomputedView) -> GramTable:
        """The training rows as a table."""
        K = view.matrix[np.ix_(view.rows, view.rows)]
        there = np.asarray(~np.isnan(K).all(axis=1) | (not self.missing))
        self.there_ = there
        inner = K[np.ix_(there, there)]
        if inner.size:
            check_gram_stack(inner)
        check_finite(inner, "K")
        if inner.size and (apart := float(np.abs(inner - inner.T).max())) > 1e-8 * float(np.abs(inner).max()):
            raise InputError(
                f"A precomputed kernel must be symmetric, got max |K - K'| = {apart:.3g}. Use (K + K.T) / 2, or "
                "kw.repair_gram."
            )
        return GramTable(K, np.arange(len(K)), np.diag(K).copy())

    def transform(self, view: Any) -> GramTable:
        """New rows as a table."""
        if not isinstance(view, PrecomputedView):
            view = precomputed(view)
        _refuse_empty(view)
        n_columns, n_train = view.matrix.shape[1], len(self.columns_)
        # the shape does not distinguish the matrix of fit from values of as many new rows with the training rows
        known = self._is_known(view)
        whole = known or n_columns == self.n_columns_ != n_train
        if not whole and n_columns != n_train:
            raise InputError(
                f"A precomputed view of new rows must have a column for each of the {n_train} training rows, got "
                f"{n_columns}. Pass K(X_new, X_train), or rows of the square view that fit was given rows of."
            )
        K = view.matrix[np.ix_(view.rows, self.columns_)] if whole else view.matrix[view.rows]
        there = np.asarray(~np.isnan(K).all(axis=1) | (not self.missing))
        # values with training rows without the view are missing too
        check_finite(K[there] if self.there_ is None else K[np.ix_(there, self.there_)], "K")
        diagonal = view.matrix[view.rows, view.rows] if known else np.full(len(K), np.nan)
        return GramTable(np.asarray(K, dtype=np.float64), np.full(len(K), -1), diagonal)

    def empty(self, n_rows: int) -> GramTable:
        """A table of rows without any kernel value."""
        K = np.full((n_rows, len(self.columns_)), np.nan)
        return GramTable(K, np.full(n_rows, -1), np.full(n_rows, np.nan))


def _refuse_empty(view: PrecomputedView) -> None:
    if not len(view):
        raise InputError(
            f"Found array with 0 sample(s) (shape={view.shape}) while a minimum of 1 is required. Pass at least one."
        )


class ViewsEncoder:
    """Turn views into tables of blocks, the same way for training and new rows.

    Parameters
    ----------
    owner : str, default="model"
        Name of the fitted object in error messages.
    missing : bool, default=False
        Keep missing cells, as NaN; all cells of rows without a view are missing. False: they are an error.

    Attributes
    ----------
    encoders_ : dict of str to TableEncoder or GramEncoder
        By view, in the order of `fit`.

    Examples
    --------
    >>> encoder = ViewsEncoder().fit({"a": [[1.0, 2.0]], "b": [["red"]]})
    >>> encoder.transform({"b": [["blue"]], "a": [[0.0, 0.0]]}).values
    array([[ 0.,  0., -1.]])
    """

    encoders_: dict[str, TableEncoder | GramEncoder]

    #: Also for encoders that were pickled before it was a parameter.
    missing: bool = False

    def __init__(self, owner: str = "model", missing: bool = False) -> None:
        self.owner = owner
        self.missing = missing

    def fit(self, X: Features) -> ViewsEncoder:
        """Learn views, their columns and categories; return self."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Features) -> BlockTable:
        """Fit the encoder, and return the training rows as a table."""
        views = Views(X, rows="all" if self.missing else "same").views
        self.encoders_ = {}
        blocks: dict[str, Table] = {}
        for name, view in views.items():
            encoder = self._encoder_of(view)
            self.encoders_[name] = encoder
            blocks[name] = _of_view(name, _training, encoder, view)
        return BlockTable(blocks)

    def declare(self, table: BlockTable, texts: Collection[int]) -> BlockTable:
        """See `TableEncoder.declare`; positions are those of all columns."""
        for view, encoder in self.encoders_.items():
            if isinstance(encoder, TableEncoder):
                encoder.declare(table.blocks[view], table.own(view, texts))
        return table.declared(texts)

    def transform(self, X: Features) -> BlockTable:
        """Return `X` as a table with the views and columns of `fit`, whatever their order.

        Raises
        ------
        InputError
            For missing and unknown views (the known ones are listed), and for columns as `TableEncoder`, with the name
            of the view.
        """
        if not holds_views(X):
            raise InputError(
                f"{self.owner} was fitted on the views {listing(list(self.encoders_))}, got one "
                "table. Pass a dict with the same views."
            )
        if isinstance(X, Mapping):
            # frames are sorted like the rows of the first view, as in fit
            X = {view: X[view] for view in self.encoders_ if view in X} | dict(X)
        if self.missing and isinstance(X, Mapping):
            lacking = {view for view, table in X.items() if table is None}
            X = {view: table for view, table in X.items() if view not in lacking}
        else:
            lacking = set()
        views = Views(X, rows="all" if self.missing else "same").views
        known, given = list(self.encoders_), list(views)
        missing, unknown = [v for v in known if v not in views], [v for v in given if v not in self.encoders_]
        missing = [view for view in missing if view not in lacking]
        if missing or unknown:
            close = difflib.get_close_matches(unknown[0], known, n=1) if unknown else []
            hint = f" Did you mean {close[0]!r}?" if close else ""
            said = [f"lacks {listing(missing)}"] if missing else []
            said += [f"has the unknown {listing(unknown)}"] if unknown else []
            raise InputError(
                f"X must have the views of fit, {listing(known)}, but {' and '.join(said)}.{hint} Pass all of them "
                f"and no others{_LACK if self.missing and missing else ''}."
            )
        n_rows = int(next(iter(views.values())).shape[0])
        blocks = {
            name: e.empty(n_rows) if name in lacking else _of_view(name, e.transform, views[name])
            for name, e in self.encoders_.items()
        }
        return BlockTable(blocks)

    def _encoder_of(self, view: Any) -> TableEncoder | GramEncoder:
        if isinstance(view, PrecomputedView):
            return GramEncoder(self.missing)
        return TableEncoder(self.owner, missing=self.missing)


#: Advice for a view without rows.
_LACK = ", or None for a view that these rows lack"


def _training(encoder: TableEncoder | GramEncoder, view: Any) -> Table:
    """Fit the encoder of a view, and return the training rows as a table."""
    if isinstance(encoder, GramEncoder):
        return encoder.fit(view).training(view)
    return encoder.fit(view).transform(view)


def _of_view(name: str, make: Callable[..., Table], *args: Any) -> Table:
    """Make a table of a view, with its name in errors."""
    try:
        return make(*args)
    except InputError as error:
        raise InputError(f"View {name!r}: {error}") from None
    except TypeError as error:
        raise TypeError(f"View {name!r}: {error}") from None


@checked
def as_table(X: TableLike, *, missing: Annotated[bool, Flag()] = False) -> Table:
    """Return `X` as a table: a table as it is, an array as numeric columns, a frame with its own categories.

    Several views become one `BlockTable`. With `missing`, missing cells are kept as NaN; otherwise they are an error.

    Examples
    --------
    >>> as_table([[1, 2], [3, 4]]).levels
    (0, 0)
    """
    return as_tables(X, missing=missing)[0]


def as_tables(
    X: TableLike, Z: TableLike | None = None, *, missing: bool = False
) -> tuple[Table, Table | None]:
    """Return `X` and `Z` as tables with the same columns; categories are those of `X`, in several views those of `Z`.

    Raises
    ------
    InputError
        If the two do not have the same columns, and as :meth:`TableEncoder.transform`.
    """
    if isinstance(X, Table):
        left, right = X, Z if Z is None or isinstance(Z, Table) else as_table(Z, missing=missing)
    elif holds_views(X):
        # rows of precomputed views are compared with training rows, on the right
        encoder = ViewsEncoder("Z", missing)
        right = None if Z is None else encoder.fit_transform(Z)
        left = encoder.fit_transform(X) if Z is None else encoder.transform(X)
    elif is_sparse(X):
        left, right = (
            SparseTable(as_csr(X, missing=missing)),
            Z if Z is None or isinstance(Z, Table) else as_table(Z, missing=missing),
        )
    elif is_sparse(Z):
        left, right = as_table(X, missing=missing), SparseTable(as_csr(Z, missing=missing))
    elif (array := plain_array(X)) is not None:
        left, right = Table(array), Z if Z is None or isinstance(Z, Table) else as_table(Z, missing=missing)
    else:
        columns = TableEncoder("X", missing=missing).fit(X)
        left = columns.transform(X)
        right = Z if Z is None or isinstance(Z, Table) else columns.transform(Z)
    if right is not None and left.levels != right.levels:
        raise InputError(
            f"X and Z must have the same columns, got {_kinds(left)} and {_kinds(right)}. Encode both with "
            "one TableEncoder fitted on the training rows."
        )
    if right is not None and isinstance(left, SparseTable) != isinstance(right, SparseTable):
        left, right = as_sparse(left), as_sparse(right)
    return left, right


def _kinds(table: Table) -> str:
    levels = [level for level in table.levels if level]
    return f"{table.n_columns} columns" + (f" (categorical with {levels} levels)" if levels else "")
