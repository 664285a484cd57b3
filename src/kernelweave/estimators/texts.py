"""Columns of texts or other objects for kernels and the default bank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kernelweave._checks import KernelWarning, warn_user
from kernelweave.kernels import Constant, Custom, Kernel, Precomputed
from kernelweave.kernels.composed import cells_read, parts_of
from kernelweave.views import BlockTable, Cells, Table
from kernelweave.views.tables import TEXT


def column_importances(kernels: Sequence[Kernel], weights: Any, table: Table) -> Any:
    """Weights of kernels divided equally among their columns, shape (n_columns,)."""
    found = np.zeros(table.n_columns)
    numbers = np.flatnonzero(np.asarray(table.levels) != TEXT)
    for kernel, weight in zip(kernels, weights, strict=True):
        seen: set[int] = set()
        for part, columns, _ in parts_of(kernel):
            if isinstance(part, (Constant, Precomputed)):
                continue
            reads = isinstance(part, Custom) or cells_read(part) is not None
            seen.update(
                numbers.tolist() if columns is None and not reads else table.resolve(columns).tolist()
            )
        if seen and weight:
            found[sorted(seen)] += weight / len(seen)
    return found


def columns_read(kernels: Iterable[Kernel], table: Table) -> set[int]:
    """Positions of the columns whose cells are read by kernels on them.

    Custom kernels read cells only if all their columns have cells that are not numbers.
    """
    cells = table.cells or ()
    found: set[int] = set()
    for kernel in kernels:
        for leaf, columns, _ in parts_of(kernel):
            if not (isinstance(leaf, Custom) or cells_read(leaf)):
                continue
            own = [j for j in table.resolve(columns).tolist() if cells and cells[j] is not None]
            if cells_read(leaf) or len(own) == len(table.resolve(columns)):
                found.update(own)
    return found


def long_texts(table: Table, asked: Any) -> set[int]:
    """Positions of columns of long texts that the default bank reads; `asked` is the parameter `kernels`."""
    if asked is None:
        chosen = list(range(table.n_columns))
    elif isinstance(asked, Mapping) and isinstance(table, BlockTable):
        chosen = [
            table.places[view].start + j
            for view, block in table.blocks.items()
            if asked.get(view) is None
            for j in range(block.n_columns)
        ]
    else:
        return set()
    cells = table.cells or ()
    return {j for j in chosen if cells and isinstance(own := cells[j], Cells) and own.is_long_text}


def check_objects(table: Table, read: set[int], kernels: Sequence[Kernel]) -> None:
    """Raise for columns of sets and the like that no kernel reads; warn if long texts are used as categories."""
    for j, own in enumerate(table.cells or ()):
        if own is None or j in read:
            continue
        name = repr(table.column_names[j])
        where = f"kernels.{{}}.on({name})"
        if isinstance(table, BlockTable):
            view = next(v for v, block in table.blocks.items() if table.own(v, [j]) and block.n_columns)
            name = f"{table.blocks[view].column_names[table.own(view, [j])[0]]!r} of view {view!r}"
            where = f"{{}} on the view, kernels={{{{{view!r}: [...], ...}}}}"
        if not own.are(str) and table.levels[j] != TEXT:
            # of a frame: each object is the name of a category
            continue
        if not own.are(str):
            value = next(value for value in own.values if not isinstance(value, str))
            raise TypeError(
                f"Every cell argument must be a string or a number, got {value!r:.60} ({type(value).__name__}) in "
                f"column {name}. Put a kernel on it that reads objects, {where.format('Pairwise(function)')}, or "
                "make columns of it."
            )
        if own.is_long_text and any(j in table.resolve(at) for k in kernels for _, at, _ in parts_of(k)):
            warn_user(
                f"Column {name} holds long texts, nearly all distinct, and is encoded as categories. Put kernels on it "
                f"that read text, {where.format('CharNGrams()')} or {where.format('Tokens()')}, or leave it out.",
                KernelWarning,
            )
