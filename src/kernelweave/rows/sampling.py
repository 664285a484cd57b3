"""A sample of rows that are read in chunks, the same whatever the chunks are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._sparse import is_sparse
from kernelweave._types import Array
from kernelweave.gram.chunked import SampledRows
from kernelweave.rows.folds import hashes_of_rows

#: Rows for each feature, least rows, and most numbers.
ROWS, LEAST, MOST = 100, 10_000, 2**25
#: Another seed than folds have by default.
SEED = 20_101


def sample_size(n_features: int, budget: float) -> int:
    """Rows to sample."""
    most = int(min(MOST, 0.25 * budget / 8))
    return max(64, min(max(LEAST, ROWS * n_features), most // max(1, n_features)))


class Sampling:
    """Rows of the smallest hashes, half of them of positive targets and half of others.

    Parameters
    ----------
    size : int
        Rows; half of it if all targets have one sign.
    """

    def __init__(self, size: int) -> None:
        self.half = max(1, size // 2)
        self._parts: list[list[tuple[NDArray[np.uint64], NDArray[np.int64], Any]]] = [[], []]
        self._counts, self._held = [0, 0], [0, 0]
        self._limits = [np.iinfo(np.uint64).max] * 2

    def add(self, Z: Any, y: Array, weight: Array, position: int, *, source: str, first: int) -> None:
        """Consider the rows of a chunk, of which `position` is the first one's number among all."""
        hashes = hashes_of_rows(first, len(y), source=source, seed=SEED)
        for side, own in enumerate(((y > 0) & (weight > 0), (y <= 0) & (weight > 0))):
            self._counts[side] += int(own.sum())
            rows = np.flatnonzero(own & (hashes <= self._limits[side]))
            if not len(rows):
                continue
            self._parts[side].append((hashes[rows], position + rows, Z[rows]))
            self._held[side] += len(rows)
            if self._held[side] > 2 * self.half:
                self._prune(side)

    def _prune(self, side: int) -> None:
        if not self._parts[side]:
            return
        hashes, positions, Z = self._joined(side)
        if len(hashes) > self.half:
            kept = np.argpartition(hashes, self.half - 1)[: self.half]
            hashes, positions, Z = hashes[kept], positions[kept], Z[kept]
            self._limits[side] = hashes.max()
        self._parts[side], self._held[side] = [(hashes, positions, Z)], len(hashes)

    def _joined(self, side: int) -> tuple[NDArray[np.uint64], NDArray[np.int64], Any]:
        hashes, positions, blocks = zip(*self._parts[side], strict=True)
        return np.concatenate(hashes), np.concatenate(positions), _stacked(blocks)

    def merge(self, other: Sampling, shift: int) -> None:
        """Consider the rows of another sampling, whose numbers begin at `shift`."""
        for side in (0, 1):
            self._counts[side] += other._counts[side]
            for hashes, positions, Z in other._parts[side]:
                self._parts[side].append((hashes, positions + shift, Z))
                self._held[side] += len(hashes)
            if self._held[side] > 2 * self.half:
                self._prune(side)

    def result(self) -> SampledRows:
        """The sample, in the order of the rows."""
        positions, blocks, shares = [], [], []
        for side in (0, 1):
            self._prune(side)
            if self._parts[side]:
                _, own, Z = self._parts[side][0]
                positions.append(own)
                blocks.append(Z)
                shares.append(np.full(len(own), self._counts[side] / len(own)))
        every = np.concatenate(positions)
        order = np.argsort(every)
        return SampledRows(_stacked(blocks)[order], every[order], np.concatenate(shares)[order])


def _stacked(blocks: Any) -> Any:
    if is_sparse(blocks[0]):
        from scipy import sparse

        return sparse.csr_array(sparse.vstack(blocks))
    return np.concatenate(blocks)
