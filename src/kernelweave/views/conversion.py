"""What kernels are called with, as tables."""

from __future__ import annotations

from kernelweave._checks import InputError
from kernelweave._sparse import as_csr, is_sparse
from kernelweave._types import TableLike
from kernelweave.views.columns import plain_array
from kernelweave.views.container import holds_views
from kernelweave.views.encoder import TableEncoder
from kernelweave.views.sparse import SparseTable, as_sparse
from kernelweave.views.table import Table
from kernelweave.views.views_encoder import ViewsEncoder


def as_table(X: TableLike, *, missing: bool = False) -> Table:
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
