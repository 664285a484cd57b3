"""From arrays and data frames to tables, with the columns and categories that were seen first."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from kernelweave._checks import InputError
from kernelweave._sparse import as_csr, is_sparse
from kernelweave._types import Features
from kernelweave.views.cells import Cells
from kernelweave.views.columns import (
    Column,
    category_key,
    category_order,
    check_missing,
    is_missing,
    plain_array,
    plain_frame,
    read_columns,
    to_floats,
)
from kernelweave.views.messages import bullets, column_name
from kernelweave.views.sparse import SparseTable, as_sparse
from kernelweave.views.table import TEXT, Table


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
        array = plain_array(X)
        plain = not self.texts_ and not any(self.categories_)
        if array is not None and array.shape[1] == self.n_columns_ and plain:
            dense = Table.of_checked(array.astype(np.float64), own_names, (0,) * self.n_columns_)
            return as_sparse(dense) if self.sparse_ else dense
        frame = plain_frame(X, missing=self.missing) if plain else None
        if frame is not None and frame[0] == self.names_:
            dense = Table(frame[1], own_names)
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
