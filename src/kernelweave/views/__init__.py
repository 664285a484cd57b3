"""Tables of columns, the arguments of kernels.

A :class:`Table` is a float64 matrix in which every column is either numeric or categorical (integer codes); a
:class:`SparseTable` has compressed rows of numeric columns. A :class:`TableEncoder` makes one from an array, a list,
a SciPy sparse matrix, or a pandas, polars or other data frame, and stores the columns and categories of `fit`. Columns
are selected by name, index, slice or mask, always through :meth:`Table.resolve`.

:class:`Views` are several such tables of the same rows. A :class:`ViewsEncoder` makes a :class:`BlockTable` of them,
with one block for each view; precomputed views become a :class:`GramTable`.
"""

from __future__ import annotations

from kernelweave.views.container import (
    PrecomputedView,
    Views,
    by_rows,
    holds_views,
    precomputed,
    take_rows,
)
from kernelweave.views.encoding import GramEncoder, TableEncoder, ViewsEncoder, as_table, as_tables
from kernelweave.views.selection import ColumnMask, ColumnSlice, ViewColumns, freeze_columns
from kernelweave.views.tables import BlockTable, Cells, GramTable, SparseTable, Table, as_texts

__all__ = [
    "BlockTable",
    "Cells",
    "ColumnMask",
    "ColumnSlice",
    "GramEncoder",
    "GramTable",
    "PrecomputedView",
    "SparseTable",
    "Table",
    "TableEncoder",
    "ViewColumns",
    "Views",
    "ViewsEncoder",
    "as_table",
    "as_tables",
    "as_texts",
    "by_rows",
    "freeze_columns",
    "holds_views",
    "precomputed",
    "take_rows",
]
