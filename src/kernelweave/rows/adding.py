"""Statistics of all rows or of folds, and chunks that are added to them."""

from __future__ import annotations

from kernelweave.gram import BlockStatistics
from kernelweave.rows.chunk import Chunk, in_chunk
from kernelweave.rows.folds import FoldStatistics

Statistics = BlockStatistics | FoldStatistics


def add_chunk(found: Statistics, chunk: Chunk) -> None:
    """Add a chunk; messages name its file and rows."""
    taken = (chunk.source, len(chunk))
    with in_chunk(chunk):
        if isinstance(found, FoldStatistics):
            found.add(chunk.Z, chunk.y, chunk.sample_weight, taken=taken, first=chunk.first)
        else:
            found.add(chunk.Z, chunk.y, chunk.sample_weight, taken=taken)


def empty_like(found: Statistics) -> Statistics:
    """Statistics of the same blocks without rows."""
    if isinstance(found, FoldStatistics):
        one = found.parts[0]
        return FoldStatistics(
            found.n_folds,
            one.given_groups,
            names=one.names,
            columns=one.columns,
            by=found.by,
            seed=found.seed,
            device=one.device,
        )
    return BlockStatistics(found.given_groups, names=found.names, columns=found.columns, device=found.device)
