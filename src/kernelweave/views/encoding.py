"""From arrays, data frames and views to tables, with the columns and categories that were seen first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError, check_finite, check_gram_stack
from kernelweave._errors import meant
from kernelweave._forms import numbered
from kernelweave._parameters import Flag, checked
from kernelweave._sparse import as_csr, is_sparse, to_dense
from kernelweave._types import Features, TableLike, Values
from kernelweave.views.columns import Column, check_missing, read_columns
from kernelweave.views.container import PrecomputedView, Views, holds_views, precomputed
from kernelweave.views.dates import DateForm, at_zone, date_forms
from kernelweave.views.levels import Levels
from kernelweave.views.selection import bullets, column_name, listing
from kernelweave.views.tables import DATE, TEXT, BlockTable, Cells, GramTable, SparseTable, Table, as_sparse

__all__ = ["GramEncoder", "TableEncoder", "ViewsEncoder", "as_table", "as_tables"]


@dataclass(eq=False)
class GivenTable:
    """A table as it is given: names of columns if they have any, and a matrix of numbers, or column by column."""

    names: list[str] | None
    n_columns: int
    values: Values | None = None
    by_column: Sequence[Column] = ()

    @property
    def columns(self) -> Sequence[Column]:
        """One by one."""
        if self.values is None:
            return self.by_column
        values = self.values.toarray() if is_sparse(self.values) else self.values
        return [Column(column) for column in values.T]


def read_table(X: TableLike, *, missing: bool) -> GivenTable:
    """Read a table, of which no memory is shared but that of sparse rows; raises if it is not a table."""
    if isinstance(X, Table):
        raise InputError("A Table is encoded already. Pass the original array or data frame.")
    if is_sparse(X):
        return GivenTable(None, X.shape[-1], as_csr(X, missing=missing))
    if (array := plain_array(X)) is not None:
        return GivenTable(None, array.shape[1], array.astype(np.float64))
    if (frame := plain_frame(X, missing=missing)) is not None:
        return GivenTable(frame[0], len(frame[0]), frame[1])
    names, columns = read_columns(X, missing=missing)
    return GivenTable(names, len(columns), by_column=columns)


def plain_array(X: object) -> NDArray[np.generic] | None:
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


class TableEncoder:
    """Turn arrays and data frames into tables, the same way for training and new rows.

    Numeric arrays stay as they are. In arrays of objects or strings a column is numeric if every value
    converts to a number, and categorical otherwise. In data frames boolean, string, categorical and object
    columns are categorical (object columns that hold numbers only are numeric); all others are numeric. Columns of
    dates are days since 1970, of which kernels read trend and season; durations are numbers of days. The
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
    #: Positions of columns that are left out, such as identifiers, whatever they hold.
    left_out_: tuple[int, ...] = ()
    #: What kernels read of columns of dates; each form has its position.
    dates_: tuple[DateForm, ...] = ()
    #: Whether `texts_` is final; until then tables keep the cells of every column that kernels of texts may read.
    declared_: bool = True

    #: Here, too, for encoders from before these were parameters.
    owner: str = "model"
    reorder: bool = True
    missing: bool = False

    def __init__(self, owner: str = "model", reorder: bool = True, missing: bool = False) -> None:
        self.owner = owner
        self.reorder = reorder
        self.missing = missing

    def fit(self, X: TableLike) -> TableEncoder:
        """Learn the columns and categories of `X` and return self.

        SciPy's sparse matrices and arrays of all formats are numeric columns; tables of them stay sparse.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_rows, n_columns)
            The training rows.

        Raises
        ------
        InputError
            For missing or infinite values (column and count are named), complex numbers, and shapes
            that are not (n_rows, n_columns) with at least one row and one column.
        TypeError
            For cells that are neither numbers nor strings nor dates.
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: TableLike) -> Table:
        """Learn the columns and categories of `X`, and return it as a table; see `fit`.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_rows, n_columns)
            The training rows.
        """
        given = read_table(X, missing=self.missing)
        self.sparse_, self.declared_ = is_sparse(X), False
        self.names_, self.n_columns_ = given.names, given.n_columns
        if not given.by_column:
            self.texts_, self.dates_, self.categories_ = (), (), [[] for _ in range(self.n_columns_)]
            return self._of_numbers(given.values, None)
        self.texts_ = tuple(j for j, column in enumerate(given.by_column) if column.objects)
        zones = {j: column.zone for j, column in enumerate(given.by_column) if column.zone is not None}
        days = {j: at_zone(given.by_column[j].values, zone) for j, zone in zones.items()}
        self.dates_ = tuple(date_forms(days, zones).values())
        self.categories_ = [
            column.categories() if column.categorical and not column.objects else []
            for column in given.by_column
        ]
        return self._table(given)

    def declare(self, table: Table, texts: Collection[int]) -> Table:
        """Let some columns be texts or objects, from now on and in the table that `transform` made.

        Parameters
        ----------
        table : Table
            What `transform` returned.
        texts : collection of int
            Positions of columns that are no categories: only kernels that read cells see them.
        """
        self.texts_, self.declared_ = tuple(sorted(texts)), True
        for j in self.texts_:
            self.categories_[j] = []
        return table.declared(self.texts_)

    def group(self, table: Table, levels: Mapping[str, Levels]) -> Table:
        """Leave out identifiers, from now on and in the table of `fit_transform`.

        Parameters
        ----------
        table : Table
            What `fit_transform` returned.
        levels : dict of str to Levels
            Of the only view, which columns are identifiers, among others.
        """
        [own] = levels.values()
        if not own.identifiers:
            return table
        self.left_out_ = tuple(sorted(own.identifiers))
        values, counts = table.values.copy(), list(table.levels)
        for j in self.left_out_:
            values[:, j], counts[j], self.categories_[j] = 0.0, TEXT, []
        return table.regrouped(values, counts, self.left_out_)

    def date(self, table: Table, rows: NDArray[np.intp], sample_weight: NDArray[np.float64] | None) -> Table:
        """Choose the forms of dates from some of the training rows, from now on and in the table of `fit_transform`.

        Parameters
        ----------
        table : Table
            What `fit_transform` returned.
        rows : array of int
            Positions of the rows that decide.
        sample_weight : array of shape (len(rows),), or None
            Their weights; None for equal ones.
        """
        if not self.dates_:
            return table
        days, zones = table.values[rows], {form.place: form.zone for form in self.dates_}
        self.dates_ = tuple(date_forms({j: days[:, j] for j in zones}, zones, sample_weight).values())
        return table.with_dates(self._forms())

    def _forms(self) -> tuple[DateForm | None, ...] | None:
        """The form of each column; None where no column has one."""
        found = {form.place: form for form in self.dates_}
        return tuple(map(found.get, range(self.n_columns_))) if found else None

    def transform(self, X: TableLike) -> Table:
        """Return `X` as a table with the columns and categories of `fit`; unknown categories get the code -1.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_rows, n_columns)
            New rows.

        Raises
        ------
        InputError
            What `fit` refuses; also a wrong number of columns, missing or unseen column names, a numeric
            column that holds a string (column and first such value are named), and dates with a time zone
            where those of `fit` had none, or the other way round. Other time zones are converted.
        """
        if not hasattr(self, "categories_"):
            raise InputError("This TableEncoder has not been fitted. Call fit first.")
        given = read_table(X, missing=self.missing)
        same = given.names == self.names_ and given.n_columns == self.n_columns_
        return self._table(given, None if same else self._order(given))

    def _table(self, given: GivenTable, order: list[int] | None = None) -> Table:
        levels = self._levels()
        if given.values is not None and levels is None:
            return self._of_numbers(
                given.values if order is None else np.take(given.values, order, axis=1), None
            )
        columns = given.columns if order is None else [given.columns[j] for j in order]
        values, forms = np.empty((len(columns[0].values), self.n_columns_)), self._forms()
        kept: list[Cells | None] = [None] * self.n_columns_
        for j, (column, categories) in enumerate(zip(columns, self.categories_, strict=True)):
            if j in self.left_out_:
                values[:, j] = 0.0
                continue
            if (
                j in self.texts_
                or column.objects
                or (not self.declared_ and (column.holds_text or column.holds_objects))
            ):
                kept[j] = column.cells()
            own = kept[j]
            if j in self.texts_ and own is not None:
                values[:, j] = np.where(column.lost(), np.nan, own.digests())
            elif (form := None if forms is None else forms[j]) is not None:
                values[:, j] = column.days(column_name(j, self.names_), form.zone)
            elif categories:
                values[:, j] = column.codes(categories)
            else:
                values[:, j] = column.floats(column_name(j, self.names_))
        check_missing(values.T, self.names_, allowed=self.missing)
        return self._of_numbers(values, levels, kept)

    def _of_numbers(
        self, values: Values, levels: tuple[int, ...] | None, cells: Sequence[Cells | None] = ()
    ) -> Table:
        names = None if self.names_ is None else tuple(self.names_)
        if self.sparse_:
            rows = values if is_sparse(values) else as_csr(values, missing=True)
            return SparseTable.of_checked(rows, names)
        return Table.of_checked(
            to_dense(values), names, levels, cells, None if levels is None else self._forms()
        )

    def _levels(self) -> tuple[int, ...] | None:
        """The number of categories of each column, or its kind; None where all are numbers."""
        if not (self.texts_ or self.dates_ or self.left_out_ or any(self.categories_)):
            return None
        dated = {form.place for form in self.dates_}
        return tuple(
            TEXT if j in self.texts_ or j in self.left_out_ else DATE if j in dated else len(c)
            for j, c in enumerate(self.categories_)
        )

    def empty(self, n_rows: int) -> Table:
        """A table of rows in which every cell is missing.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        """
        if self.sparse_:
            from scipy import sparse

            # one cell marks them all
            first = (np.full(n_rows, np.nan), (np.arange(n_rows), np.zeros(n_rows, dtype=np.intp)))
            return self._of_numbers(sparse.csr_array(first, shape=(n_rows, self.n_columns_)), None)
        kept = [Cells([""] * n_rows) if j in self.texts_ else None for j in range(self.n_columns_)]
        return self._of_numbers(np.full((n_rows, self.n_columns_), np.nan), self._levels(), kept)

    def _order(self, given: GivenTable) -> list[int] | None:
        """Positions of the columns of `fit`, None for all in their order; raises for missing and for new columns."""
        names, fitted = given.names, self.names_
        if names is None or fitted is None:
            if given.n_columns != self.n_columns_:
                raise InputError(
                    f"X has {given.n_columns} features, but {self.owner} is expecting {self.n_columns_} features as "
                    "input. Pass the columns used in fit."
                )
            return None
        unseen, missing = sorted(set(names) - set(fitted)), sorted(set(fitted) - set(names))
        message = "The feature names should match those that were passed during fit.\n"
        if unseen:
            message += "Feature names unseen at fit time:\n" + bullets(unseen)
        if missing:
            message += "Feature names seen at fit time, yet now missing:\n" + bullets(missing)
        if not unseen and not missing and not self.reorder:
            message += "Feature names must be in the same order as they were in fit.\n"
        if unseen or missing or not self.reorder:
            raise InputError(message)
        place = {name: j for j, name in enumerate(names)}
        return [place[name] for name in fitted]


class GramEncoder:
    """Turn precomputed views into tables of kernel values with the training rows.

    Parameters
    ----------
    missing : bool, default=False
        Whether rows may lack the view: all values of such a row are missing.

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

    def fit_transform(self, view: PrecomputedView) -> GramTable:
        """Store the training rows, and return them as a table.

        Parameters
        ----------
        view : PrecomputedView
            Kernel values of the training rows with each other.
        """
        if not view.is_square:
            raise InputError(
                f"A precomputed view must be square for training, got shape {view.matrix.shape}. Pass "
                "K(X_train, X_train)."
            )
        _refuse_empty(view)
        self.columns_, self.n_columns_ = view.rows, view.matrix.shape[1]
        self.digest_ = self._digest(view.matrix)
        K = view.matrix[np.ix_(view.rows, view.rows)]
        there = self.there_ = np.asarray(~np.isnan(K).all(axis=1) | (not self.missing))
        inner = K[np.ix_(there, there)]
        if inner.size:
            check_gram_stack(inner)
        check_finite(inner, "K")
        if inner.size and (apart := float(np.abs(inner - inner.T).max())) > 1e-8 * float(np.abs(inner).max()):
            raise InputError(
                f"A precomputed kernel must be symmetric, got max |K - K'| = {apart:.3g}. Use (K + K.T) / 2, or "
                "kw.solvers.repair_gram."
            )
        return GramTable(K, np.arange(len(K)), np.diag(K).copy())

    def _digest(self, matrix: NDArray[np.float64]) -> str:
        """Of the training rows in a square matrix."""
        block = matrix[np.ix_(self.columns_, self.columns_)] + 0.0  # a negative zero is a zero
        return hashlib.sha256(block.tobytes()).hexdigest()

    def _is_known(self, view: PrecomputedView) -> bool:
        """Whether these are rows of the matrix of `fit`: its training rows have the same values there."""
        same_shape = view.is_square and view.matrix.shape[1] == self.n_columns_
        return same_shape and self.digest_ is not None and self._digest(view.matrix) == self.digest_

    def transform(self, view: PrecomputedView | ArrayLike) -> GramTable:
        """New rows as a table.

        Parameters
        ----------
        view : PrecomputedView, or array of shape (n_rows, n_training)
            Kernel values of new rows with the training rows, or rows of the square view that `fit_transform` was given.
        """
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
        """A table of rows without any kernel value.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        """
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
        """Learn views, their columns and categories; return self.

        Parameters
        ----------
        X : table, dict, list or Views
            The training rows: one table, or several views of them.
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Features) -> BlockTable:
        """Fit the encoder, and return the training rows as a table.

        Parameters
        ----------
        X : table, dict, list or Views
            The training rows: one table, or several views of them.
        """
        views = Views(X, rows="all" if self.missing else "same").views
        self.encoders_ = {
            name: GramEncoder(self.missing)
            if isinstance(view, PrecomputedView)
            else TableEncoder(self.owner, missing=self.missing)
            for name, view in views.items()
        }
        return BlockTable(
            {name: _of_view(name, one.fit_transform, views[name]) for name, one in self.encoders_.items()}
        )

    def declare(self, table: BlockTable, texts: Collection[int]) -> BlockTable:
        """Let some columns be texts or objects, from now on and in the table that `transform` made.

        Parameters
        ----------
        table : BlockTable
            What `transform` returned.
        texts : collection of int
            Positions in the common numbering of columns that are no categories: only kernels that read cells see them.
        """
        return self._each(table, lambda view, encoder, block: encoder.declare(block, table.own(view, texts)))

    def group(self, table: BlockTable, levels: Mapping[str, Levels]) -> BlockTable:
        """Leave out identifiers, from now on and in the table of `fit_transform`.

        Parameters
        ----------
        table : BlockTable
            What `fit_transform` returned.
        levels : dict of str to Levels
            For some views, which of their columns are identifiers, among others.
        """
        return self._each(table, lambda view, encoder, block: encoder.group(block, {view: levels[view]}))

    def _each(self, table: Table, change: Callable[[str, TableEncoder, Table], Table]) -> BlockTable:
        """Views with columns changed by their encoders."""
        assert isinstance(table, BlockTable)
        found = dict(table.blocks)
        for view, encoder in self.encoders_.items():
            if isinstance(encoder, TableEncoder):
                found[view] = change(view, encoder, found[view])
        return BlockTable(found)

    def date(
        self, table: Table, rows: NDArray[np.intp], sample_weight: NDArray[np.float64] | None
    ) -> BlockTable:
        """Choose the forms of dates from some of the training rows, from now on and in the table of `fit_transform`.

        Parameters
        ----------
        table : BlockTable
            What `fit_transform` returned.
        rows : array of int
            Positions of the rows that decide.
        sample_weight : array of shape (len(rows),), or None
            Their weights; None for equal ones.
        """
        return self._each(table, lambda _, encoder, block: encoder.date(block, rows, sample_weight))

    def transform(self, X: Features) -> BlockTable:
        """Return `X` as a table with the views and columns of `fit`, whatever their order.

        Parameters
        ----------
        X : table, dict, list or Views
            New rows, with the views of the training rows.

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
        lacking = set()
        if self.missing and isinstance(X, Mapping):
            lacking = {view for view, table in X.items() if table is None}
            X = {view: table for view, table in X.items() if view not in lacking}
        views = Views(X, rows="all" if self.missing else "same").views
        known = list(self.encoders_)
        missing = [view for view in known if view not in views and view not in lacking]
        unknown = [view for view in views if view not in self.encoders_]
        if missing or unknown:
            absent = ", or None for a view that these rows lack" if self.missing and missing else ""
            hint = meant(unknown[0], known) if unknown else ""
            said = [f"lacks {listing(missing)}"] if missing else []
            said += [f"has the unknown {listing(unknown)}"] if unknown else []
            raise InputError(
                f"X must have the views of fit, {listing(known)}, but {' and '.join(said)}.{hint} Pass all of them "
                f"and no others{absent}."
            )
        n_rows = int(next(iter(views.values())).shape[0])
        blocks = {
            name: e.empty(n_rows) if name in lacking else _of_view(name, e.transform, views[name])
            for name, e in self.encoders_.items()
        }
        return BlockTable(blocks)


def _of_view(name: str, make: Callable[..., Table], view: TableLike) -> Table:
    """Make a table of a view, with its name in errors."""
    try:
        return make(view)
    except (InputError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else InputError
        raise kind(f"View {name!r}: {error}") from None


@checked
def as_table(X: TableLike, *, missing: Annotated[bool, Flag()] = False) -> Table:
    """Return `X` as a table: a table as it is, an array as numeric columns, a frame with its own categories.

    Parameters
    ----------
    X : array-like, frame, sparse matrix, views or Table
        The rows. Several views become one `BlockTable`.
    missing : bool, default=False
        Whether missing cells are kept as NaN; otherwise they are an error.

    Returns
    -------
    Table

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

    Parameters
    ----------
    X : array-like, frame, sparse matrix, views or Table
        Rows in any form.
    Z : the same, optional
        Further rows with the columns of `X`.
    missing : bool, default=False
        Whether missing cells are kept as NaN; otherwise they are an error.

    Returns
    -------
    left : Table
        That of `X`.
    right : Table or None
        That of `Z`.

    Raises
    ------
    InputError
        If the two do not have the same columns, and as :meth:`TableEncoder.transform`.
    """
    encoder: TableEncoder | None = None
    right: Table | None = None
    if isinstance(X, Table):
        left = X
    elif holds_views(X):
        # rows of precomputed views are compared with training rows, on the right
        views = ViewsEncoder("Z", missing)
        right = None if Z is None else views.fit_transform(Z)
        left = views.fit_transform(X) if Z is None else views.transform(X)
    elif is_sparse(X):
        left = SparseTable.of_checked(as_csr(X, missing=missing), None)
    elif (array := plain_array(X)) is not None:
        left = Table.of_checked(np.asarray(array, dtype=np.float64), None)
    else:
        encoder = TableEncoder("X", missing=missing)
        left = encoder.fit_transform(X)
    if right is None and Z is not None:
        right = (
            Z if isinstance(Z, Table) else encoder.transform(Z) if encoder else as_table(Z, missing=missing)
        )
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
    return numbered(table.n_columns, "column") + (f" (categorical with {levels} levels)" if levels else "")
