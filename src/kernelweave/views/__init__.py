"""Tables of columns: what kernels look at.

A :class:`Table` is a float64 matrix in which every column is either numeric or categorical (integer codes); a
:class:`SparseTable` holds compressed rows of numeric columns. A :class:`TableEncoder` makes one from an array, a list,
a SciPy sparse matrix, or a pandas, polars or other data frame, and remembers the columns and categories it saw. Columns
are selected by name, index, slice or mask, always through :meth:`Table.resolve`.
"""

from __future__ import annotations

from kernelweave.views.encoder import TableEncoder, as_table, as_tables
from kernelweave.views.selection import ColumnMask, ColumnSlice, freeze_columns
from kernelweave.views.sparse import SparseTable
from kernelweave.views.table import Table

__all__ = [
    "ColumnMask",
    "ColumnSlice",
    "SparseTable",
    "Table",
    "TableEncoder",
    "as_table",
    "as_tables",
    "freeze_columns",
]
