"""Several tables of the same rows as one object that can be indexed by rows."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError, as_floats, check_known
from kernelweave._parameters import ReadableSignature, checked, shown
from kernelweave._sparse import is_sparse
from kernelweave._types import AnnData, DataFrame, Features, FrameIndex, MuData, RowIndex, TableLike, Values
from kernelweave.views.selection import listing
from kernelweave.views.tables import is_frame, is_missing

__all__ = [
    "PrecomputedView",
    "Views",
    "by_rows",
    "holds_views",
    "is_annotated",
    "is_annotated_views",
    "matrix_of",
    "precomputed",
    "take_rows",
]

Rows = NDArray[np.intp]
T = TypeVar("T")


class PrecomputedView:
    """Kernel values as a view; made by :func:`precomputed`.

    Attributes
    ----------
    matrix : array of shape (n_rows, n_columns)
        The given matrix, not copied.
    rows : array of int
        Rows of `matrix` in this view.
    """

    def __init__(self, matrix: NDArray[np.float64], rows: Rows) -> None:
        self.matrix, self.rows = matrix, rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of the view, columns of the matrix."""
        return len(self.rows), self.matrix.shape[1]

    @property
    def is_square(self) -> bool:
        """Whether rows and columns of the matrix are the same samples, judged by their numbers."""
        return self.matrix.shape[0] == self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: RowIndex) -> PrecomputedView:
        return PrecomputedView(self.matrix, self.rows[rows])

    def __repr__(self) -> str:
        return f"precomputed(K), {len(self)} of {self.matrix.shape[0]} rows"


@checked
def precomputed(K: ArrayLike) -> PrecomputedView:
    """A kernel matrix as a view, in addition to views of columns.

    Parameters
    ----------
    K : array-like of shape (n_rows, n_rows) or (n_rows, n_train)
        For `fit` square and symmetric: rows and columns are the rows of the other views. Rows of a square view
        keep their values with all others, so that parts of one view can be passed to `fit` and to `predict`. For new
        rows, a matrix with a column for each row of `fit`, in their order; a square one is the matrix of
        `fit` only if the rows of `fit` have exactly the same values in it.

    Returns
    -------
    PrecomputedView

    Raises
    ------
    InputError
        For anything but a matrix of numbers with at least one row and one column.

    Examples
    --------
    >>> import kernelweave as kw
    >>> A = np.random.default_rng(0).normal(size=(40, 5))
    >>> data = kw.Views({"table": A, "similarity": kw.precomputed(np.exp(-abs(A[:, :1] - A[:, 0])))})
    >>> model = kw.MKLRegressor(alpha=1.0).fit(data[:30], A[:30, 0])
    >>> model.predict(data[30:]).shape
    (10,)
    """
    matrix = as_floats(K, "K")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(
            f"`K` must be a matrix of kernel values with at least one row and one column, got shape {matrix.shape}. "
            "Make a view of each kernel of a stack."
        )
    return PrecomputedView(matrix, np.arange(len(matrix)))


class Views:
    """Named tables of the same rows, as one object for `fit`, cross-validation, grid searches and pipelines.

    Parameters
    ----------
    views : dict of str to table, list of tables, or MuData
        Tables are arrays of two dimensions, pandas, polars and other data frames, SciPy's sparse matrices, AnnData, and
        :func:`precomputed` kernels. Views of a list are called "view0", "view1" and so on.

    rows : {"same", "all"}, default="same"
        Of frames that are joined by index: all of them have the same rows, or rows that some have are kept, and lack
        the views of the others; see the parameter `missing_views` of the estimators. Rows then follow each other as in
        the first view, and after them those that it lacks, in the order of the further ones.

    Attributes
    ----------
    views : dict of str to table
        As they were given, rows in one order; all cells of a row that lacks a view are missing there.
    names : tuple of str
    shape : tuple of int
        Rows, and columns of all views; a precomputed view has none.

    Raises
    ------
    InputError
        If views are not tables, or their rows differ: in number, or by index.

    Notes
    -----
    If all views are pandas frames or AnnData, whose index are their names of rows, rows are joined by index where the
    index of one is that of another in a different order: all get the order of the first. Rows that are missing in a
    view are an error, unless ``rows="all"``. Otherwise rows belong together by position, and the indices of the frames
    among them must be equal; the default index 0, 1, ... is ignored there.

    Indexing by rows (integers, a mask, a slice) gives views of these rows; by a name, the table of a view.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> import kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> data = kw.Views({"rna": rng.normal(size=(40, 8)), "clinical": rng.normal(size=(40, 2))})
    >>> data
    Views of 40 rows: 'rna' (8 columns), 'clinical' (2 columns)
    >>> data[:10].shape, data["rna"].shape
    ((10, 10), (40, 8))
    >>> len(cross_val_score(kw.MKLRegressor(alpha=1.0), data, data["rna"][:, 0], cv=3))
    3
    """

    __signature__ = ReadableSignature()

    views: dict[str, Any]

    def __init__(self, views: Features, rows: str = "same") -> None:
        check_known(rows, ("same", "all"), "rows")
        if isinstance(views, Views):
            # some rows of views that are already joined
            self.views = dict(views.views)
            return
        order: FrameIndex | None = None
        if is_annotated_views(views):
            order, views = views.obs_names, views.mod
        elif isinstance(views, (list, tuple)):
            views = {f"view{k}": table for k, table in enumerate(views)}
        if not isinstance(views, Mapping) or not len(views):
            raise InputError(
                f"X of several views is a dict from names to tables, or a list of tables, with at least one; got "
                f"{shown(views)}. Pass for example {{'rna': A, 'clinical': frame}}."
            )
        for name in views:
            if not isinstance(name, str) or not name:
                raise InputError(
                    f"Views are named by texts, got {shown(name)}. Rename it, for example 'rna'."
                )
        found = {str(name): _as_view(table, name) for name, table in views.items()}
        indices = {
            str(name): index for name, table in views.items() if (index := _index_of(table)) is not None
        }
        self.views = _align(found, indices, rows, order)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the views."""
        return tuple(self.views)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and columns of all views."""
        tables = self.views.values()
        columns = sum(table.shape[1] for table in tables if not isinstance(table, PrecomputedView))
        return int(next(iter(tables)).shape[0]), int(columns)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: str | RowIndex | int | tuple[object, ...]) -> TableLike | Views:
        if isinstance(key, str):
            return self.views[check_known(key, self.names, "view")]
        if isinstance(key, tuple):  # scikit-learn indexes arrays by X[rows, ...]
            every = len(key) == 2 and isinstance(key[1], slice) and key[1] == slice(None)
            if not every and not (len(key) == 2 and key[1] is Ellipsis):
                raise InputError("Views are indexed by rows, or by the name of a view. Select columns there.")
            return self[cast(RowIndex, key[0])]
        rows = np.arange(len(self))[_row_index(key)]
        picked = object.__new__(Views)
        picked.views = {name: take_rows(table, np.atleast_1d(rows)) for name, table in self.views.items()}
        return picked

    def __array__(self, *args: object, **kwargs: object) -> NDArray[np.generic]:
        raise InputError(
            "Views are several tables, and this needs one array. Pass one of them, such as data['rna'], or pass "
            "the views to an estimator of kernelweave."
        )

    def __repr__(self) -> str:
        tables = []
        for name, table in self.views.items():
            kind = "sparse " if is_sparse(table) else ""
            columns = table.shape[1]
            what = f"{columns} {kind}column{'s' if columns != 1 else ''}"
            tables.append(f"{name!r} ({'precomputed' if isinstance(table, PrecomputedView) else what})")
        return f"Views of {len(self)} rows: {', '.join(tables)}"


def holds_views(X: object) -> bool:
    """Whether something is a table of several views.

    Parameters
    ----------
    X : object
        Anything. `Views`, a dict and a list of tables of two dimensions are several views.

    Returns
    -------
    bool
    """
    if isinstance(X, (list, tuple)):
        return bool(X) and all(isinstance(t, PrecomputedView) or _is_table(t) for t in X)
    # a sparse matrix of keys is a dict too
    return (isinstance(X, (Views, Mapping)) or is_annotated_views(X)) and not is_sparse(X)


def _is_table(table: object) -> bool:
    known = isinstance(table, np.ndarray) or is_sparse(table) or is_frame(table) or is_annotated(table)
    return known and getattr(table, "ndim", 2) == 2


def _as_view(table: TableLike, name: str) -> TableLike:
    """A table of two dimensions that has a shape."""
    if is_annotated(table):
        table = matrix_of(table)
    if hasattr(table, "collect") and hasattr(type(table), "columns"):
        raise InputError(f"View {name!r} is a lazy frame. Call .collect() first.")
    if hasattr(table, "to_frame") and not hasattr(table, "columns"):
        table = table.to_frame()
    if isinstance(table, PrecomputedView) or is_frame(table) or is_sparse(table):
        return table.tocsr() if is_sparse(table) and hasattr(table, "tocsr") else table
    if isinstance(table, list | tuple) and _are_objects(table) and not any(map(_is_row, table)):
        return one_column(table)
    try:
        array = np.asarray(table)
    except ValueError:
        raise InputError(
            f"View {name!r} must be a table of rows and columns, got rows of different lengths. Pad or drop the short "
            "rows."
        ) from None
    if array.ndim == 1 and array.dtype.kind in "OUS" and _are_objects(array):
        # texts, sets and other objects: one column
        return array.astype(object).reshape(-1, 1)
    if array.ndim != 2:
        hint = "Pass a two-dimensional array, a data frame or a sparse matrix; a dict of views holds no further dicts."
        if array.ndim == 1:
            hint = "Reshape one column with x.reshape(-1, 1)."
        elif array.ndim > 2:
            hint = (
                "Reshape it to (n_rows, n_columns), or pass kernel matrices one by one, as kw.precomputed(K)."
            )
        got = f"an array of shape {array.shape}" if array.ndim else shown(table)
        raise InputError(f"View {name!r} must be a table of rows and columns, got {got}. {hint}")
    if array.dtype.kind in "US" and not isinstance(table, np.ndarray):
        # numbers among texts in a list
        array = np.asarray(table, dtype=object)
    return array


def one_column(values: Sequence[object]) -> Any:
    """Objects as an array of one column, shape (n_rows, 1)."""
    column = np.empty((len(values), 1), dtype=object)
    for i, value in enumerate(values):
        column[i, 0] = value
    return column


def _is_row(value: object) -> bool:
    """Whether it could be a row of a table: cells side by side, or an array."""
    if isinstance(value, list | tuple):
        return not any(isinstance(cell, Iterable) and not isinstance(cell, str | bytes) for cell in value)
    return isinstance(value, np.ndarray)


def _are_objects(values: Any) -> bool:
    """Whether these are texts or other objects, some of them perhaps missing, and no numbers."""
    there = [value for value in values if not is_missing(value)]
    return bool(there) and not any(isinstance(value, numbers.Number) for value in there)


def _index_of(table: object) -> FrameIndex | None:
    """Names of the rows: the index of a pandas frame, those of an annotated matrix, sparse or not."""
    if is_annotated(table):
        return table.obs_names
    return getattr(table, "index", None) if hasattr(table, "iloc") else None


def _align(
    views: dict[str, Any], indices: Mapping[str, FrameIndex], rows: str, order: FrameIndex | None
) -> dict[str, Any]:
    """Rows in one order, or an error that describes the difference."""
    if order is not None or (len(indices) == len(views) and len(views) > 1):
        views = _joined(views, indices, rows, order)
    elif len(indices) > 1:
        _check_indices(indices)
    lengths = {name: int(table.shape[0]) for name, table in views.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} {n}" for name, n in lengths.items())
        raise InputError(f"All views must have equally many rows, got {listed}. Pass the same rows of each.")
    return views


def _joined(
    views: dict[str, Any], indices: Mapping[str, FrameIndex], rows: str, order: FrameIndex | None
) -> dict[str, Any]:
    """Tables whose rows are matched by their names, in a given order or in that of the first."""
    first = next(iter(views))
    index = indices[first] if order is None else order
    for name, own in indices.items():
        if own.equals(index):
            continue
        for which, one in ((first, indices[first]), (name, own)):
            if not one.is_unique:
                repeated = listing([str(label) for label in one[one.duplicated()].unique()], limit=5)
                raise InputError(
                    f"Rows of views are joined by index, but in view {which!r} some rows share theirs. Make it unique: "
                    f"{repeated} is there more than once (obs_names_make_unique() of AnnData). Or pass arrays "
                    "(frame.to_numpy()) to join by position."
                )
        if rows == "all" and order is None:
            if not len(index.intersection(own)):
                raise InputError(
                    f"View {name!r} has no row in common with the views before it: no index of its {len(own)} rows is "
                    "theirs. Give the frames the same names of rows, or pass arrays to join by position."
                )
            index = index.append(own.difference(index, sort=False))
            continue
        for there, here, lacking in (
            (name, f" of view {first!r}" if order is None else "", index.difference(own)),
            (first, f" of view {name!r}", own.difference(index)),
        ):
            if len(lacking):
                raise InputError(
                    f"All views must have the same rows. View {there!r} lacks {len(lacking)}{here}: "
                    f"{listing([str(label) for label in lacking], limit=5)}. Keep the rows that all views have, "
                    "for example frame.loc[common], or say rows='all'."
                )
    return {
        name: table
        if indices[name].equals(index)
        else _rows_at(table, indices[name].get_indexer(index), index)
        for name, table in views.items()
    }


def _rows_at(table: Any, at: Rows, index: FrameIndex) -> Any:
    """Rows of a table by position; those at -1 lack all cells."""
    lost = at < 0
    if not lost.any():
        return take_rows(table, at)
    if hasattr(table, "iloc"):
        return table.reindex(index)
    if is_sparse(table):
        from scipy import sparse

        kept = sparse.diags_array((~lost).astype(np.float64)) @ table[np.maximum(at, 0)]
        rows = np.flatnonzero(lost)
        marks = (np.full(len(rows), np.nan), (rows, np.zeros(len(rows), dtype=np.intp)))
        return (kept + sparse.csr_array(marks, shape=kept.shape)).tocsr()
    out = np.full((len(at), table.shape[1]), np.nan)
    out[~lost] = table[at[~lost]]
    return out


def _check_indices(indices: Mapping[str, FrameIndex]) -> None:
    """Raise for different indices if rows are joined by position; default indices are ignored."""
    (one, index), *rest = sorted(indices.items(), key=lambda item: _only_counts(item[1]))
    for name, own in rest:
        if own.equals(index) or (_only_counts(own) and set(own) != set(index)):
            continue
        raise InputError(
            f"Views {one!r} and {name!r} have different rows, or another order, by index, and other views have no "
            "index to join by. Bring the frames into the order of the arrays, frame.loc[order], or pass them as arrays "
            "too (frame.to_numpy()) if rows belong together by position."
        )


def _only_counts(index: FrameIndex) -> bool:
    """Whether an index is the one that a frame has by default: 0, 1, 2 and so on."""
    return hasattr(index, "step") and (index.start, index.step) == (0, 1) and index.name is None


def _row_index(key: Any) -> Any:
    if key is None or isinstance(key, float):
        raise InputError(f"Rows are selected by integers, a mask or a slice, got {shown(key)}. Pass those.")
    if isinstance(key, slice) or np.ndim(key) == 0:
        return key
    array = np.asarray(key)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iub"):
        raise InputError(
            f"Rows are selected by integers, a mask or a slice, got an array of shape {array.shape} and type "
            f"{array.dtype}. Pass one integer for each row, or a mask of shape (n_rows,)."
        )
    return array.astype(np.intp) if array.size == 0 else array


def by_rows(X: Features, rows: str = "same") -> Features | Views:
    """What estimators take as X, as something of which `take_rows` takes rows.

    Parameters
    ----------
    X : array-like, frame, sparse matrix, or views
        Rows in any form that `fit` takes.
    rows : str, default="same"
        How the rows of several views belong together, as in `Views`.

    Returns
    -------
    Views for several views, compressed rows for sparse matrices, and everything else as it is.
    """
    if holds_views(X):
        return X if isinstance(X, Views) else Views(X, rows)
    if is_sparse(X):
        return cast(Features, X.tocsr())
    return list(X) if isinstance(X, tuple) else X


def take_rows(table: T, rows: Rows) -> T:
    """Some rows of a table, of views, or of a list.

    Parameters
    ----------
    table : array, frame, sparse matrix, Views or list
        What `by_rows` returned.
    rows : array of int
        Positions of the rows, in the order in which they are returned.

    Returns
    -------
    The same kind of object with these rows.
    """
    return cast(T, _taken(table, rows))


def _taken(table: Any, rows: Rows) -> Any:
    if isinstance(table, list):
        return [table[i] for i in rows]
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if hasattr(table, "column_names") and hasattr(table, "take"):  # a table of Arrow
        return table.take(rows)
    return table[rows]


def is_annotated(X: object) -> TypeGuard[AnnData]:
    """Whether something is like an AnnData: a matrix `X` with names of rows and columns."""
    return all(hasattr(X, name) for name in ("X", "obs_names", "var_names"))


def is_annotated_views(X: object) -> TypeGuard[MuData]:
    """Whether something is like a MuData: several of these in a dict `mod`."""
    return isinstance(getattr(X, "mod", None), Mapping) and hasattr(X, "obs_names")


def matrix_of(X: AnnData) -> Values | DataFrame:
    """The matrix of an AnnData, sparse or as a frame with its names; raises for one without."""
    values = X.X
    if values is None:
        raise InputError(
            "This annotated matrix has no X. Set it to the required layer: data.X = data.layers[...]."
        )
    if is_sparse(values):
        return values
    import pandas as pd

    return pd.DataFrame(np.asarray(values), index=X.obs_names, columns=[str(name) for name in X.var_names])
