"""The table of imputed rows, with indicators of missing cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._types import RowIndex, Values
from kernelweave.views.selection import ColumnsLike
from kernelweave.views.table import Table


class MarkedTable(Table):
    """A table with indicator columns of 0 and 1 for missing cells of some of its columns.

    Kernels use the indicators of their columns, after these; columns are numbered as without them.

    Parameters
    ----------
    values, names, levels, cells
        See `Table`.
    marks : array of bool, shape (n_rows, n_columns)
        True for missing cells.
    marked : array of bool, shape (n_columns,)
        Columns with an indicator.

    Examples
    --------
    >>> table = MarkedTable(np.array([[1.0, 2.0]]), None, (0, 0), np.array([[True, False]]), np.array([True, False]))
    >>> table.take(), table.take([1]), table.n_expanded_columns
    (array([[1., 2., 1.]]), array([[2.]]), 3)
    """

    marks: NDArray[np.bool_]
    _marked: NDArray[np.bool_]

    def __init__(
        self,
        values: Any,
        names: Any,
        levels: Any,
        marks: NDArray[np.bool_],
        marked: NDArray[np.bool_],
        cells: Any = None,
    ) -> None:
        super().__init__(values, names, levels, cells)
        object.__setattr__(self, "marks", marks)
        object.__setattr__(self, "_marked", marked)

    @property
    def marked(self) -> NDArray[np.bool_]:
        """See `Table.marked`."""
        return self._marked

    @property
    def n_expanded_columns(self) -> int:
        """See `Table.n_expanded_columns`."""
        return super().n_expanded_columns + int(self.marked.sum())

    def select(self, columns: ColumnsLike) -> Table:
        """See `Table.select`."""
        if columns is None:
            return self
        found = self.resolve(columns)
        plain = super().select(columns)
        return self._marking(plain, self.marks[:, found], self.marked[found])

    def take(self, columns: ColumnsLike = None, expand: bool = True) -> Values:
        """See `Table.take`."""
        if columns is not None:
            return self.select(columns).take(None, expand)
        own = super().take(None, expand)
        if not expand or not self.marked.any():
            return own
        return np.concatenate([own, self.marks[:, self.marked]], axis=1, dtype=np.float64)

    def rows(self, index: RowIndex) -> Table:
        """See `Table.rows`."""
        return self._marking(super().rows(index), self.marks[index], self.marked)

    def with_values(self, values: Any) -> Table:
        """See `Table.with_values`."""
        return self._marking(super().with_values(values), self.marks, self.marked)

    @staticmethod
    def _marking(table: Table, marks: NDArray[np.bool_], marked: NDArray[np.bool_]) -> Table:
        return MarkedTable(table.values, table.names, table.levels, marks, marked, table.cells)
