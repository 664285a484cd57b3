"""Rows of Dask arrays and frames: statistics of their parts, merged pairwise where the parts are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._parameters import shown
from kernelweave._threads import one_blas_thread_each
from kernelweave.rows.arrays import chunk_of_frame
from kernelweave.rows.chunk import Chunk, Layout
from kernelweave.rows.folds import Statistics, add_chunk
from kernelweave.rows.parallel import RETRIES
from kernelweave.rows.sources import Blocks, Request, Transform, features_of

#: Statistics that are merged at a time.
TOGETHER = 4


@dataclass(frozen=True)
class Part:
    """A block of a Dask array, or a partition of a frame, that is not computed yet.

    Attributes
    ----------
    table : delayed array or frame
    y, sample_weight : delayed array or None
    layout : Layout or None
        Of frames.
    source : str
    first : int
    """

    table: Any
    y: Any = None
    sample_weight: Any = None
    layout: Layout | None = None
    source: str = ""
    first: int = 0


def is_dask(rows: object) -> bool:
    """Whether something is a collection of Dask."""
    return hasattr(rows, "__dask_graph__") and hasattr(rows, "to_delayed")


def dask_parts(rows: Any, request: Request) -> tuple[list[Part], Blocks]:
    """The parts of a Dask array or frame, and the blocks of its features."""
    if hasattr(rows, "columns"):
        layout, blocks = request.layout([str(name) for name in rows.columns])
        delayed = rows[layout.needed].to_delayed()
        # numbers of rows are not known before they are computed: folds hash the partition and the number in it
        return [Part(part, layout=layout, source=f"partition {k}") for k, part in enumerate(delayed)], blocks
    if rows.ndim != 2:
        raise InputError(f"`rows` must have shape (n_samples, n_features), got {rows.ndim} dimensions.")
    blocks = request.blocks()
    if request.targets and request.y is None:
        raise InputError("`y` must hold the targets of the rows of an array, got None.")
    table = rows.rechunk({1: -1})
    sizes = table.chunks[0]
    columns = {"y": request.y, "sample_weight": request.sample_weight}
    found = {name: _blocks_like(name, values, sizes) for name, values in columns.items()}
    known = not np.isnan(sizes).any()
    firsts = np.r_[0, np.cumsum(sizes)[:-1]].astype(int) if known else np.zeros(len(sizes), dtype=int)
    return [
        Part(part, y, weight, source="" if known else f"partition {k}", first=int(firsts[k]))
        for k, (part, y, weight) in enumerate(
            zip(table.to_delayed().ravel(), found["y"], found["sample_weight"], strict=True)
        )
    ], blocks


def _blocks_like(name: str, values: Any, sizes: Sequence[float]) -> Sequence[Any]:
    """Delayed blocks of targets or weights beside those of the features."""
    if values is None:
        return [None] * len(sizes)
    import dask.array as da

    array = da.asarray(values)
    if np.isnan(sizes).any():
        if array.numblocks[0] != len(sizes):
            raise InputError(
                f"`{name}` must have as many blocks as the rows, {len(sizes)}, whose sizes are not known, got "
                f"{array.numblocks[0]}. Call compute_chunk_sizes() first."
            )
    elif array.shape[0] != sum(sizes):
        raise InputError(
            f"`{name}` must have one row per row, {int(sum(sizes))}, got {shown(array.shape[0])}."
        )
    else:
        array = array.rechunk({0: tuple(sizes)})
    if array.ndim == 2:
        array = array.rechunk({1: -1})
    return list(array.to_delayed().ravel())


def chunk_of_part(table: Any, y: Any, weight: Any, layout: Layout | None, source: str, first: int) -> Chunk:
    """The rows of a part that was computed."""
    if layout is None:
        return Chunk(table, y, weight, source, first)
    return chunk_of_frame(table, layout, source, first)


def statistics_of_dask(parts: Sequence[Part], empty: Statistics, features: Transform | None) -> Any:
    """Statistics of all parts; those of a lost worker are computed again."""
    import dask

    first = dask.delayed(empty, traverse=False)
    start = dask.delayed(_of_part, pure=False)
    merge = dask.delayed(_merged, pure=False)
    level = [
        start(part.table, part.y, part.sample_weight, part.layout, part.source, part.first, first, features)
        for part in parts
    ]
    while len(level) > 1:
        level = [merge(level[k : k + TOGETHER]) for k in range(0, len(level), TOGETHER)]
    return computed(level[0])


def computed(value: Any) -> Any:
    """A delayed value, by the client in use, with retries, or by the scheduler of this process."""
    try:
        from distributed import get_client

        client = get_client()
    except (ImportError, ValueError):
        return value.compute()
    return client.compute(value, retries=RETRIES).result()


def _of_part(
    table: Any,
    y: Any,
    weight: Any,
    layout: Layout | None,
    source: str,
    first: int,
    empty: Statistics,
    features: Transform | None,
) -> Statistics:
    chunk = chunk_of_part(table, y, weight, layout, source, first)
    found = empty.copy()
    with one_blas_thread_each():
        if features is not None:
            chunk = Chunk(features_of(features, chunk.Z), chunk.y, chunk.sample_weight, source, first)
        add_chunk(found, chunk)
    return found


def _merged(parts: Sequence[Any]) -> Any:
    # the results of other tasks may be needed again, and are not changed
    found = parts[0].copy()
    for part in parts[1:]:
        found.merge(part)
    return found
