"""What users pass as rows, as a source of chunks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import memory_budget
from kernelweave._devices import is_foreign
from kernelweave._errors import InputError
from kernelweave._parameters import shown
from kernelweave._sparse import is_sparse
from kernelweave.rows.chunks import (
    ArrayRows,
    FrameRows,
    IteratedRows,
    Layout,
    Source,
    Transform,
    Transformed,
    chunk_of_array,
    make_layout,
)
from kernelweave.rows.dask_rows import DaskRows, is_dask
from kernelweave.rows.files import FileRows, columns_of, find_files
from kernelweave.views.groups import expand_views, read_views

#: Most numbers of a chunk, and least rows, where memory allows.
MOST, LEAST = 2**22, 64
#: Arguments that stand beside arrays.
BESIDE = ("y", "sample_weight")
#: Copies of a chunk at the same time: as read, as features, as deviations from means.
COPIES = 4


@dataclass(frozen=True)
class Blocks:
    """Blocks of features: their ends, and their names where groups are a table of names."""

    ends: ArrayLike | None
    names: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Request:
    """Arguments that say what rows are: those of `block_statistics`.

    Attributes
    ----------
    y, sample_weight : array or None
        For arrays.
    target, weight, columns : str, or sequence of str, or None
        For tables.
    groups : ends of blocks, or mapping of names to columns, or path of a file with such a table, or None
    features : callable or None
    max_memory : int, str or None
    targets : bool
        Whether targets are needed.
    """

    y: Any = None
    sample_weight: Any = None
    target: str | Sequence[str] | None = None
    weight: str | None = None
    columns: Sequence[str] | None = None
    groups: Any = None
    features: Transform | None = None
    max_memory: float | str | None = None
    targets: bool = True

    @property
    def named(self) -> bool:
        """Whether groups are a table of names."""
        return isinstance(self.groups, Mapping | str | os.PathLike)

    def layout(self, known: Sequence[str]) -> tuple[Layout, Blocks]:
        """Which columns of a table are read, and which blocks they make."""
        if self.targets and self.target is None:
            raise InputError("`target` must name the column of the targets, got None. Tables have names.")
        self.need_none(BESIDE, "for a table", "Name the columns with `target` and `weight`.")
        target = self.target if self.targets else None
        if not self.named:
            layout = make_layout(known, target=target, weight=self.weight, columns=self.columns)
            return layout, Blocks(self.groups, None, None if self.features else layout.columns)
        if self.columns is not None or self.features is not None:
            raise InputError(
                "`groups` must be a list of ends together with `columns` or `features`, got names of columns. Leave "
                "`columns` out, or give the ends of the blocks."
            )
        views = read_views(os.fspath(self.groups) if isinstance(self.groups, os.PathLike) else self.groups)
        targets = [self.target] if isinstance(self.target, str) else list(self.target or ())
        own = [name for name in known if name not in targets and name != self.weight]
        found = expand_views(views, own)
        columns = [name for block in found.values() for name in block]
        layout = make_layout(known, target=target, weight=self.weight, columns=columns)
        ends = np.r_[0, np.cumsum([len(block) for block in found.values()])]
        return layout, Blocks(ends, tuple(found), tuple(columns))

    def blocks(self) -> Blocks:
        """Blocks of rows without names."""
        if self.named:
            raise InputError(
                "`groups` must be a list of ends for arrays, got names of columns. Arrays have none."
            )
        instead = "Pass `y` and `sample_weight`, or tables with names."
        self.need_none(("target", "weight", "columns"), "for arrays and iterators", instead)
        return Blocks(self.groups)

    def need_none(self, names: Sequence[str], where: str, instead: str) -> None:
        """Raise where one of these arguments is given."""
        for name in names:
            if (given := getattr(self, name)) is not None:
                raise InputError(f"`{name}` must be None {where}, got {shown(given)}. {instead}")

    def need_targets(self) -> None:
        """Raise for rows of an array without their targets."""
        if self.targets and self.y is None:
            raise InputError("`y` must hold the targets of the rows of an array, got None.")

    def rows_of_chunk(self, n_columns: int) -> int:
        """Rows that are read at a time, within the memory."""
        most = MOST // max(1, n_columns)
        if self.max_memory is not None:
            bytes_of_row = 8 * COPIES * max(1, n_columns)
            most = int(min(most, memory_budget(self.max_memory) // bytes_of_row))
        return max(LEAST, most)


def open_rows(given: Any, request: Request) -> tuple[Source, Blocks]:
    """The source for rows as users give them, and the blocks of its features.

    Parameters
    ----------
    given : array, sparse matrix, frame, path, list of paths, iterable of chunks, Dask array or Dask frame
    request : Request
    """
    if is_dask(given) and hasattr(given, "columns"):
        layout, blocks = request.layout([str(name) for name in given.columns])
        source: Source = DaskRows(given, layout=layout)
    elif is_dask(given):
        blocks = request.blocks()
        request.need_targets()
        source = DaskRows(given, request.y, request.sample_weight)
    elif isinstance(given, str | os.PathLike) or _are_paths(given):
        files = find_files(given)
        layout, blocks = request.layout(columns_of(next(iter(files.values()))))
        source = FileRows(files, layout, request.rows_of_chunk(len(layout.needed)))
    elif hasattr(given, "columns") and hasattr(given, "dtypes"):
        layout, blocks = request.layout([str(name) for name in given.columns])
        source = FrameRows(given, layout, request.rows_of_chunk(len(layout.needed)))
    elif is_sparse(given) or isinstance(given, np.ndarray) or is_foreign(given):
        blocks = request.blocks()
        request.need_targets()
        size = request.rows_of_chunk(int(given.shape[-1]) if given.ndim else 1)
        source = ArrayRows(chunk_of_array(given, request.y, request.sample_weight), size)
    elif isinstance(given, Iterable) and not isinstance(given, Mapping | bytes | type):
        blocks = request.blocks()
        request.need_none(BESIDE, "for an iterator", "Yield (Z, y) or (Z, y, sample_weight).")
        source = IteratedRows(given, targets=request.targets)
    else:
        raise InputError(
            "`rows` must be an array, a frame, a path of tables, or an iterator of chunks (Z, y), got "
            f"{shown(given)}."
        )
    return (source if request.features is None else Transformed(source, request.features)), blocks


def _are_paths(given: Any) -> bool:
    kinds = str | os.PathLike
    return isinstance(given, list | tuple) and len(given) > 0 and all(isinstance(one, kinds) for one in given)
