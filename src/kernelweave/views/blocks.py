"""Tables of several views: one block of columns for each, of its own kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, check_known
from kernelweave._sparse import join_columns
from kernelweave.views.cells import Cells
from kernelweave.views.kernel_rows import kernel_row_content
from kernelweave.views.marked import MarkedTable
from kernelweave.views.selection import ViewColumns, freeze_columns
from kernelweave.views.sparse import SparseTable
from kernelweave.views.table import TEXT, Table, without_nan

__all__ = ["BlockTable", "GramTable"]

FloatArray = NDArray[np.float64]


def _set(table: Table, **values: Any) -> None:
    for key, value in values.items():
        object.__setattr__(table, key, value)


def _is_text(table: Table) -> bool:
    """Whether all columns are texts or other objects, which numeric kernels do not use."""
    return bool(table.levels) and all(level == TEXT for level in table.levels)


class GramTable(Table):
    """Rows of a kernel matrix: a view without columns.

    Parameters
    ----------
    matrix : array of shape (n_rows, n_training)
        Kernel values of these rows and of the training rows.
    index : array of int, shape (n_rows,)
        Which column of `matrix` belongs to each of these rows; -1 for rows that are not training rows.
    diagonal : array of shape (n_rows,)
        k(x, x) of the rows, NaN where it is not known.
    """

    matrix: FloatArray
    index: NDArray[np.intp]
    diagonal: FloatArray

    def __init__(self, matrix: FloatArray, index: NDArray[np.intp], diagonal: FloatArray) -> None:
        _set(self, matrix=matrix, index=index, diagonal=diagonal, names=None, levels=())

    @property
    def values(self) -> FloatArray:
        """Raise: there are no columns."""
        raise InputError(
            "A precomputed view has no columns, only kernel values. Put kernels.Precomputed() on it, or a "
            "multiple of it."
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.matrix)

    @property
    def n_columns(self) -> int:
        """None: 0."""
        return 0

    def rows(self, index: Any) -> GramTable:
        """The table of some rows."""
        return GramTable(self.matrix[index], self.index[index], self.diagonal[index])

    def select(self, columns: Any) -> Table:
        """The table itself; raises for a selection of columns."""
        if columns is not None:
            self.take()
        return self

    def take(self, columns: Any = None, expand: bool = True) -> FloatArray:
        """Raise: there are no columns."""
        return self.values

    def arrays(self) -> list[FloatArray]:
        """Kernel values."""
        return [self.matrix]

    def content(self) -> FloatArray:
        """Numbers that are equal for rows with the same kernel values."""
        return kernel_row_content(without_nan(self.matrix)[:, :, None])

    def missing(self) -> NDArray[np.intp]:
        """There are no columns."""
        return np.zeros(0, dtype=np.intp)

    def empty_rows(self) -> NDArray[np.bool_]:
        """Rows without any kernel value."""
        return np.asarray(np.isnan(self.matrix).all(axis=1))


class BlockTable(Table):
    """Views side by side: rows are aligned, and every view keeps its kind of table.

    Kernels name the view and its columns by :class:`ViewColumns`. Columns of all views have one numbering, in which
    precomputed views have none.

    Parameters
    ----------
    blocks : dict of str to Table
        At least one, of equally many rows.

    Examples
    --------
    >>> table = BlockTable({"a": Table([[1.0, 2.0]]), "b": Table([[3.0]])})
    >>> table.resolve(ViewColumns("b")).tolist(), table.select(ViewColumns("a", (1,))).values.tolist()
    ([2], [[2.0]])
    """

    blocks: dict[str, Table]

    def __init__(self, blocks: Mapping[str, Table]) -> None:
        _set(self, blocks=dict(blocks))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return next(iter(self.blocks.values())).n_rows

    @cached_property
    def n_columns(self) -> int:
        """Number of columns of all views."""
        return sum(block.n_columns for block in self.blocks.values())

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Of all columns."""
        return tuple(level for block in self.blocks.values() for level in block.levels)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, with their view."""
        return tuple(
            f"{view}: {name}"
            for view, block in self.blocks.items()
            if block.n_columns
            for name in block.column_names
        )

    @cached_property
    def cells(self) -> tuple[Cells | None, ...] | None:
        """Of all columns; None where no view has any."""
        found = tuple(
            one for block in self.blocks.values() for one in (block.cells or (None,) * block.n_columns)
        )
        return found if any(one is not None for one in found) else None

    @cached_property
    def marked(self) -> NDArray[np.bool_]:
        """Of all columns, see `Table.marked`."""
        return np.concatenate([block.marked for block in self.blocks.values()])

    def missing(self) -> NDArray[np.intp]:
        """Of all columns, see `Table.missing`."""
        return np.concatenate([block.missing() for block in self.blocks.values()])

    def empty_rows(self) -> NDArray[np.bool_]:
        """Rows without any view."""
        return np.all([block.empty_rows() for block in self.blocks.values()], axis=0)

    @cached_property
    def starts(self) -> dict[str, int]:
        """Position of the first column of every view."""
        ends = np.cumsum([block.n_columns for block in self.blocks.values()])
        return {
            view: int(end) - block.n_columns
            for (view, block), end in zip(self.blocks.items(), ends, strict=True)
        }

    @cached_property
    def values(self) -> Any:
        """All columns side by side, sparse if a view is."""
        parts = [block.values for block in self.blocks.values() if block.n_columns]
        return join_columns(parts) if parts else np.empty((self.n_rows, 0))

    def block(self, view: str) -> Table:
        """The table of a view."""
        return self.blocks[check_known(view, list(self.blocks), "view")]

    def resolve(self, columns: Any) -> NDArray[np.intp]:
        """Positions of columns in the common numbering; see `Table.resolve`."""
        selection = freeze_columns(columns)
        if not isinstance(selection, ViewColumns):
            return super().resolve(selection)
        block = self.block(selection.view)
        try:
            found = block.resolve(selection.columns)
        except InputError as error:
            raise InputError(f"View {selection.view!r}: {error}") from None
        return self.starts[selection.view] + found

    def select(self, columns: Any) -> Table:
        """The table of some columns: of one view, a table of its kind."""
        if columns is None:
            return self
        selection = freeze_columns(columns)
        if isinstance(selection, ViewColumns):
            return self.block(selection.view).select(selection.columns)
        found = self.resolve(selection)
        return self._columns_of_all().select(found)

    def joined(self) -> Table:
        """One table of all columns, sparse if a view is; raises for precomputed views, which have none."""
        for view, block in self.blocks.items():
            if isinstance(block, GramTable):
                raise InputError(
                    f"A precomputed view has no columns, and {view!r} is one. Put the kernel on a view that has: "
                    "kernel.on(kernelweave.views.ViewColumns('rna')), for estimators {'rna': [kernel]}."
                )
        return self._columns_of_all()

    def _columns_of_all(self) -> Table:
        if any(isinstance(block, SparseTable) for block in self.blocks.values()):
            return SparseTable(self.values, self.names)
        if self.marked.any():
            marks = [
                b.marks if isinstance(b, MarkedTable) else np.zeros((b.n_rows, b.n_columns), dtype=bool)
                for b in self.blocks.values()
            ]
            every = np.concatenate(marks, axis=1)
            return MarkedTable(self.values, self.names, self.levels, every, self.marked, self.cells)
        return Table(self.values, self.names, self.levels, self.cells)

    def declared(self, texts: Collection[int], *, forget: bool = True) -> BlockTable:
        """See `Table.declared`; positions are those of the common numbering."""
        return BlockTable(
            {v: block.declared(self.own(v, texts), forget=forget) for v, block in self.blocks.items()}
        )

    def own(self, view: str, columns: Collection[int]) -> list[int]:
        """Positions in a view of those of some columns that belong to it."""
        start, end = self.starts[view], self.starts[view] + self.blocks[view].n_columns
        return [j - start for j in columns if start <= j < end]

    def take(self, columns: Any = None, expand: bool = True) -> Any:
        """All columns, or some, as one array."""
        table = self.select(columns)
        if table is not self:
            return table.take(None, expand)
        blocks = [block for block in self.blocks.values() if not (expand and _is_text(block))]
        return join_columns([block.take(None, expand) for block in blocks or self.blocks.values()])

    def rows(self, index: Any) -> BlockTable:
        """The table of some rows."""
        table = BlockTable({view: block.rows(index) for view, block in self.blocks.items()})
        # the properties of the columns do not change
        keys: tuple[str, ...] = ("names", "levels", "starts", "n_columns")
        vars(table).update({key: vars(self)[key] for key in keys if key in vars(self)})
        return table

    def dense_columns(self, found: NDArray[np.intp]) -> FloatArray:
        """Some numeric columns, by their positions, as a plain array."""
        out = np.empty((self.n_rows, len(found)))
        for view, block in self.blocks.items():
            own = (found >= self.starts[view]) & (found < self.starts[view] + block.n_columns)
            if own.any():
                out[:, own] = block.dense_columns(found[own] - self.starts[view])
        return out

    def scaled(self, shift: FloatArray, scale: FloatArray) -> BlockTable:
        """Shift and scale the columns of dense views; sparse and precomputed ones are not changed."""
        found = {}
        for view, block in self.blocks.items():
            own = slice(self.starts[view], self.starts[view] + block.n_columns)
            plain = isinstance(block, (SparseTable, GramTable))
            found[view] = block if plain else block.scaled(shift[own], scale[own])
        return BlockTable(found)

    def like(self, values: FloatArray) -> Table:
        """Other rows with the same columns."""
        found = {}
        for view, block in self.blocks.items():
            own = slice(self.starts[view], self.starts[view] + block.n_columns)
            found[view] = Table(values[:, own], block.names, block.levels)
        return BlockTable(found)

    def arrays(self) -> list[FloatArray]:
        """Those of all views."""
        return [array for block in self.blocks.values() for array in block.arrays()]

    def content(self) -> Any:
        """That of all views."""
        return join_columns([block.content() for block in self.blocks.values()])
