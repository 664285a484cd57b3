"""The table of sparse rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, as_names
from kernelweave._sparse import as_csr, is_sparse
from kernelweave.views.table import Table, without_nan


@dataclass(frozen=True, eq=False)
class SparseTable(Table):
    """A matrix of numeric columns that are mostly 0, stored as compressed rows.

    Kernels read it through `take` as a SciPy array, and never make it dense.

    Parameters
    ----------
    values : SciPy sparse matrix or array of shape (n_rows, n_columns)
    names : sequence of str or None, default=None
    levels, cells : None, default=None
        All columns are numeric.

    Examples
    --------
    >>> from scipy import sparse
    >>> table = SparseTable(sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]))
    >>> table.n_columns, table.take([1]).toarray().tolist()
    (2, [[2.0], [0.0]])
    """

    values: Any
    names: Any = None
    levels: Any = None

    def __post_init__(self) -> None:
        if not is_sparse(self.values):
            raise InputError("SparseTable is made of a SciPy sparse array, got something else. Use Table.")
        values = as_csr(self.values, missing=True)
        names = None if self.names is None else as_names(self.names, values.shape[1], "column")
        levels = self.levels if self.levels is not None else (0,) * values.shape[1]
        for key, value in (("values", values), ("names", names), ("levels", levels)):
            object.__setattr__(self, key, value)

    @property
    def data(self) -> NDArray[np.float64]:
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

    def arrays(self) -> list[NDArray[np.float64]]:
        """The stored entries."""
        return [self.values.data]

    def content(self) -> Any:
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

    def _columns(self, found: NDArray[np.intp]) -> Any:
        if (np.diff(found) == 1).all():
            return self.values[:, int(found[0]) : int(found[-1]) + 1]
        return self.values[:, found]

    def _with(
        self, values: Any, names: tuple[str, ...] | None, levels: tuple[int, ...], cells: Any = None
    ) -> Table:
        # rows and columns of checked values, possibly none
        table = object.__new__(SparseTable)
        for key, value in (("values", values), ("names", names), ("levels", levels), ("cells", None)):
            object.__setattr__(table, key, value)
        return table


def as_sparse(table: Table) -> SparseTable:
    """A table of numeric columns in sparse form."""
    if isinstance(table, SparseTable):
        return table
    from scipy import sparse

    return SparseTable(sparse.csr_array(table.values), table.names)
