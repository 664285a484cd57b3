"""Rows of Dask arrays and frames, whose parts are computed and worked on where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._parameters import shown
from kernelweave.rows.chunks import Chunk, Layout, Source, chunk_of_frame
from kernelweave.rows.parallel import RETRIES, completed

#: Results that are merged at a time.
TOGETHER = 4


def is_dask(rows: object) -> bool:
    """Whether something is a collection of Dask."""
    return hasattr(rows, "__dask_graph__") and hasattr(rows, "to_delayed")


@dataclass(frozen=True)
class DaskPart(Source):
    """A block of a Dask array, or a partition of a frame: delayed here, and computed where Dask hands it to a function.

    Attributes
    ----------
    table : array or frame
    y, sample_weight : array or None
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

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """The computed rows as one chunk."""
        if self.layout is None:
            yield Chunk(self.table, self.y, self.sample_weight, self.source, self.first)
        else:
            yield chunk_of_frame(self.table, self.layout, self.source, self.first)


class DaskRows(Source):
    """A Dask array with targets and weights, or a Dask frame with a layout.

    Parameters
    ----------
    rows : Dask array or frame
    y, sample_weight : array or None
    layout : Layout, optional
    """

    def __init__(
        self, rows: Any, y: Any = None, sample_weight: Any = None, layout: Layout | None = None
    ) -> None:
        if layout is not None:
            # numbers of rows are not known before they are computed: folds hash the partition and the number in it
            delayed = rows[layout.needed].to_delayed()
            self.parts = [
                DaskPart(part, layout=layout, source=f"partition {k}") for k, part in enumerate(delayed)
            ]
            return
        if rows.ndim != 2:
            raise InputError(f"`rows` must have shape (n_samples, n_features), got {rows.ndim} dimensions.")
        table = rows.rechunk({1: -1})
        sizes = table.chunks[0]
        known = not np.isnan(sizes).any()
        firsts = np.r_[0, np.cumsum(sizes)[:-1]].astype(int) if known else np.zeros(len(sizes), dtype=int)
        self.parts = [
            DaskPart(part, own, weight, source="" if known else f"partition {k}", first=int(firsts[k]))
            for k, (part, own, weight) in enumerate(
                zip(
                    table.to_delayed().ravel(),
                    _blocks_like("y", y, sizes),
                    _blocks_like("sample_weight", sample_weight, sizes),
                    strict=True,
                )
            )
        ]

    def pieces(self) -> list[Source]:
        """All parts."""
        return list(self.parts)

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """The parts one after another, each computed when it is read."""
        import dask

        for part in self.parts:
            (computed,) = dask.compute(part)
            yield from computed.chunks(taken)


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


def on_workers(
    function: Callable[..., Any],
    pieces: Iterable[Source],
    arguments: Iterable[tuple[Any, ...]],
    merge: Callable[[Sequence[Any]], Any] | None = None,
) -> list[Any]:
    """Results of a function of parts, or the one result that they are merged to; those of a lost worker are redone.

    They are computed by the client in use, or by the scheduler of this process.
    """
    import dask

    start, merged = dask.delayed(function, pure=False), dask.delayed(merge, pure=False)
    level = [
        start(piece, *(dask.delayed(one, traverse=False) for one in own))
        for piece, own in zip(pieces, arguments, strict=True)
    ]
    while merge is not None and len(level) > 1:
        level = [merged(level[k : k + TOGETHER]) for k in range(0, len(level), TOGETHER)]
    whole = dask.delayed(list)(level)
    try:
        from distributed import get_client

        client = get_client()
    except (ImportError, ValueError):
        return list(whole.compute())

    def submit() -> Any:
        return client.compute(whole, retries=RETRIES)

    return list(completed(client, submit(), submit))
