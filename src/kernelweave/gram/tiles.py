"""Stacks that are recomputed block by block, if storing them would exceed the memory budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kernelweave._types import Array, Index
from kernelweave.gram.base import Gram, pieces

#: ``block(m, row_slice, column_slice)`` returns that block of kernel m.
Block = Callable[[int, slice, slice], Array]


class TileGram(Gram):
    """Kernels given by a function for blocks; every method recomputes its blocks.

    Parameters
    ----------
    block : callable
        ``block(m, rows, columns)`` -> array, for slices `rows` and `columns` of the training samples.
    diagonals : array of shape (n_kernels, n_samples)
    tile_rows : int
        Rows per block: a block takes ``8 * tile_rows * n_samples`` bytes.

    Notes
    -----
    Each method costs one evaluation of the kernels concerned, O(n_samples**2) kernel values each, and
    O(tile_rows * n_samples) memory.
    """

    def __init__(self, block: Block, diagonals: Array, tile_rows: int = 512) -> None:
        self.block = block
        self._diagonals = diagonals
        self.n_kernels, self.n_samples = diagonals.shape
        self.tile_rows = int(tile_rows)

    def _tiles(self) -> Iterator[tuple[slice, slice]]:
        """Row blocks with the columns from the block's first row on."""
        for rows in pieces(self.n_samples, self.tile_rows):
            yield rows, slice(rows.start, self.n_samples)

    def diagonal(self, kernels: Index | None = None) -> Array:
        return self._diagonals[self.every if kernels is None else kernels]

    def matvecs(self, C: Array, kernels: Index | None = None) -> Array:
        idx = self.every if kernels is None else kernels
        out = np.zeros((len(idx), *C.shape))
        for rows, columns in self._tiles():
            width = rows.stop - rows.start
            for k, m in enumerate(idx):
                tile = self.block(int(m), rows, columns)
                out[k][:, rows] += C[:, columns] @ tile.T
                out[k][:, rows.stop :] += C[:, rows] @ tile[:, width:]
        return out

    def quadratic_forms(self, C: Array, kernels: Index | None = None) -> Array:
        idx = self.every if kernels is None else kernels
        out = np.zeros(len(idx))
        for rows, columns in self._tiles():
            width = rows.stop - rows.start
            # twice the part right of the square, once the square itself
            right = C[:, columns].copy()
            right[:, width:] *= 2.0
            for k, m in enumerate(idx):
                out[k] += float(np.sum((C[:, rows] @ self.block(int(m), rows, columns)) * right))
        return out

    def inner(self, H: Array) -> Array:
        out = np.zeros(self.n_kernels)
        for rows, columns in self._tiles():
            width = rows.stop - rows.start
            part = 2.0 * H[rows, columns]
            square = np.triu(part[:, :width])
            square.flat[:: width + 1] *= 0.5
            part[:, :width] = square
            for m in range(self.n_kernels):
                out[m] += float(np.vdot(part, self.block(m, rows, columns)))
        return out

    def add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        for rows, columns in self._tiles():
            if empty:
                out[rows, columns] = 0.0
            for m in np.flatnonzero(weights):
                out[rows, columns] += weights[m] * self.block(int(m), rows, columns)

    def panel(self, rows: slice, kernels: Index | None = None) -> Array:
        idx = self.every if kernels is None else kernels
        out = np.empty((len(idx), rows.stop - rows.start, self.n_samples - rows.start))
        for k, m in enumerate(idx):
            out[k] = self.block(int(m), rows, slice(rows.start, self.n_samples))
        return out

    def take(self, kernels: Index) -> TileGram:
        block = self.block
        return TileGram(
            lambda m, r, c: block(int(kernels[m]), r, c), self._diagonals[kernels], self.tile_rows
        )

    def restrict(self, rows: Index) -> TileGram:
        block = self.block

        def chosen(m: int, left: slice, right: slice) -> Array:
            # blocks are given for slices: the smallest ones that contain the entries
            a, b = rows[left], rows[right]
            tile = block(m, slice(int(a.min()), int(a.max()) + 1), slice(int(b.min()), int(b.max()) + 1))
            return tile[np.ix_(a - a.min(), b - b.min())]

        return TileGram(chosen, self._diagonals[:, rows], self.tile_rows)

    def rescale(self, row_scale: Array, *, overwrite: bool = False) -> TileGram:
        block = self.block

        def changed(m: int, rows: slice, columns: slice) -> Array:
            return row_scale[m, rows, None] * block(m, rows, columns) * row_scale[m, columns]

        return TileGram(changed, self._diagonals * np.square(row_scale), self.tile_rows)

    def center(self, probability: Array, *, overwrite: bool = False) -> TileGram:
        block = self.block
        means = self.matvecs(probability[None])[:, 0]
        total = means @ probability

        def changed(m: int, rows: slice, columns: slice) -> Array:
            return block(m, rows, columns) + total[m] - means[m, rows, None] - means[m, columns]

        return TileGram(changed, self._diagonals + total[:, None] - 2.0 * means, self.tile_rows)

    @property
    def nbytes(self) -> int:
        return self._diagonals.nbytes

    def describe(self) -> str:
        return f"{self.n_kernels} kernels recomputed in tiles of {self.tile_rows} rows"
