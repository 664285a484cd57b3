"""Chunks of arrays, of files mapped to memory, of frames, and of iterators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from kernelweave._checks import InputError, as_floats
from kernelweave._devices import hosted, is_foreign, take_rows
from kernelweave._parameters import shown
from kernelweave._sparse import is_sparse
from kernelweave.rows.chunk import Chunk, Layout, Source

#: Parts of an array that are read at the same time.
PIECES = 16


class ArrayRows(Source):
    """Rows of an array, also of one on disk, of which a chunk at a time is read.

    Parameters
    ----------
    Z : array or sparse matrix of shape (n_samples, n_features)
    y, sample_weight : array or None
        One row each for every row of Z.
    size : int
        Rows of a chunk.
    start : int
        Number of the first row in the array that this is a part of.
    """

    def __init__(self, Z: Any, y: Any, sample_weight: Any, size: int, start: int = 0) -> None:
        if is_sparse(Z):
            from scipy import sparse

            Z = sparse.csr_array(Z)
        if not is_sparse(Z) and np.ndim(Z) != 2:
            raise InputError(f"`rows` must have shape (n_samples, n_features), got {np.shape(Z)}.")
        self.Z, self.size, self.start = Z, size, start
        self.total = int(Z.shape[0])
        self.y, self.sample_weight = self._beside("y", y), self._beside("sample_weight", sample_weight)

    def _beside(self, name: str, values: Any) -> Any:
        """Targets or weights, one row for each row of Z."""
        if values is None:
            return None
        array = as_floats(values, name)
        if array.ndim == 0 or len(array) != self.total:
            raise InputError(f"`{name}` must have one row per row, {self.total}, got shape {array.shape}.")
        return array

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All rows but the first that are taken."""
        assert self.total is not None
        for first in range(max(0, taken.get("", 0) - self.start), self.total, self.size):
            rows = slice(first, min(first + self.size, self.total))
            y = None if self.y is None else self.y[rows]
            weight = None if self.sample_weight is None else self.sample_weight[rows]
            yield Chunk(take_rows(self.Z, rows), y, weight, "", self.start + first)

    def pieces(self) -> list[Source]:
        """A source for each part of the rows."""
        assert self.total is not None
        step = max(self.size, -(-self.total // PIECES))
        return [
            ArrayRows(
                take_rows(self.Z, slice(first, first + step)),
                None if self.y is None else self.y[first : first + step],
                None if self.sample_weight is None else self.sample_weight[first : first + step],
                self.size,
                first,
            )
            for first in range(0, self.total, step)
        ]


class FrameRows(Source):
    """Rows of a data frame in memory.

    Parameters
    ----------
    frame : DataFrame
    layout : Layout
    size : int
        Rows of a chunk.
    """

    def __init__(self, frame: Any, layout: Layout, size: int) -> None:
        self.frame, self.layout, self.size = frame, layout, size
        self.total, self.columns = len(frame), layout.columns

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All rows but the first that are taken."""
        for first in range(taken.get("", 0), len(self.frame), self.size):
            yield chunk_of_frame(self.frame[first : first + self.size], self.layout, "", first)


def chunk_of_frame(frame: Any, layout: Layout, source: str, first: int) -> Chunk:
    """The rows of a frame as a chunk."""
    missing = [name for name in layout.needed if name not in frame.columns]
    if missing:
        where = f"{source} has" if source else "The table has"
        raise InputError(
            f"{where} no column {missing[0]!r}, which others have. Leave it out, or name `columns`."
        )
    return layout.split(lambda name: frame[name].to_numpy(), len(frame), source, first)


class IteratedRows(Source):
    """Chunks of an iterator of ``(Z, y)`` or ``(Z, y, sample_weight)``.

    Parameters
    ----------
    parts : iterable
    targets : bool
        Whether chunks must have targets.
    """

    def __init__(self, parts: Iterable[Any], *, targets: bool) -> None:
        self.parts, self.targets = parts, targets

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All rows but the first that are taken; these are still read."""
        first, skip = 0, taken.get("", 0)
        for part in self.parts:
            chunk = self._chunk(part, first)
            first += len(chunk)
            if first <= skip:
                continue
            yield chunk.but_first(max(0, skip - chunk.first))

    def _chunk(self, part: Any, first: int) -> Chunk:
        if not self.targets and not isinstance(part, tuple):
            part = (part, None)
        if not isinstance(part, tuple | list) or len(part) not in (2, 3):
            raise InputError(
                f"Chunks of `rows` must be pairs (Z, y) or triples (Z, y, sample_weight), got {shown(part)} for row "
                f"{first}. Yield tuples."
            )
        Z, y, weight = (*part, None)[:3]
        Z = Z if is_sparse(Z) or is_foreign(Z) else np.asarray(Z)
        if Z.ndim != 2:
            raise InputError(
                f"Chunks of `rows` must have shape (n_samples, n_features), got {Z.shape} for row {first}."
            )
        return Chunk(
            Z,
            None if y is None else np.asarray(hosted(y)),
            None if weight is None else np.asarray(hosted(weight)),
            "",
            first,
        )
