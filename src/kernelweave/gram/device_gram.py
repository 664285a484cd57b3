"""Kernel matrices on another device, such as a GPU: passes over all kernels are made there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelweave._devices import Kind
from kernelweave._types import AnyArray, Array, Index
from kernelweave.gram.base import Gram, pieces

#: Numbers of a stack that are read at a time.
PIECE = 2**26
#: Share of the kernels above which a pass reads all, and weighs those that were not asked for with zero.
MOST = 0.5


class DeviceGram(Gram):
    """Full matrices of any library with the array API, on their device; sums are taken in float64 there.

    Parameters
    ----------
    stack : array of shape (n_samples, n_samples, n_kernels)
        Symmetric to the last digit, float32 or float64. Not copied.
    """

    kind: Kind

    def __init__(self, stack: AnyArray) -> None:
        kind = Kind.of(stack)
        assert kind is not None
        self.stack, self.kind = stack, kind
        self.xp = kind.xp
        self.n_samples, _, self.n_kernels = map(int, stack.shape)

    def diagonal(self, kernels: Index | None = None) -> Array:
        found = self._here(self.xp.linalg.diagonal(self.xp.permute_dims(self.stack, (2, 0, 1))))
        return found if kernels is None else found[kernels]

    def quadratic_forms(self, C: Array, kernels: Index | None = None) -> Array:
        n_kernels = self.n_kernels if kernels is None else len(kernels)
        out = np.zeros(n_kernels)
        vectors = self.kind.give(C)
        for rows, piece in self._parts(kernels):
            found = self._times(vectors[:, rows], piece) * vectors[:, :, None]
            out += self._here(self.xp.sum(found, axis=(0, 1)))
        return out

    def matvecs(self, C: Array, kernels: Index | None = None) -> Array:
        vectors, out = self.kind.give(C), None
        for rows, piece in self._parts(kernels):
            found = self._times(vectors[:, rows], piece)
            out = found if out is None else out + found
        return np.ascontiguousarray(np.moveaxis(self._here(out), -1, 0))

    def inner(self, H: Array) -> Array:
        upper = np.triu(H)
        whole = self.kind.give(upper + np.triu(upper, 1).T)
        out = np.zeros(self.n_kernels)
        for rows, piece in self._parts(None):
            own = self.xp.reshape(whole[rows, :], (1, -1))
            out += self._here(own @ self.xp.reshape(piece, (-1, self.n_kernels)))[0]
        return out

    def add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        active = np.flatnonzero(weights)
        chosen = active if len(active) < MOST * self.n_kernels else None
        own = self.kind.give(weights if chosen is None else weights[chosen])
        for rows, piece in self._parts(chosen):
            found = self._here(piece @ own)
            if empty:
                out[rows] = found
            else:
                out[rows] += found
        if empty and not len(active):
            out[:] = 0.0

    def take(self, kernels: Index) -> DeviceGram:
        return DeviceGram(self.xp.take(self.stack, self._places(kernels), axis=2))

    def restrict(self, rows: Index) -> DeviceGram:
        places = self._places(rows)
        return DeviceGram(self.xp.take(self.xp.take(self.stack, places, axis=0), places, axis=1))

    def rescale(self, row_scale: Array, *, overwrite: bool = False) -> DeviceGram:
        factors = self.kind.give(row_scale.T)
        # products of factors first, which are symmetric to the last digit
        return DeviceGram(self._wide(self.stack) * (factors[:, None, :] * factors[None, :, :]))

    def center(self, probability: Array, *, overwrite: bool = False) -> DeviceGram:
        means = self.matvecs(probability[None])[:, 0]
        rows, total = self.kind.give(means.T), self.kind.give(means @ probability)
        return DeviceGram(self._wide(self.stack) - (rows[:, None, :] + rows[None, :, :]) + total)

    @property
    def nbytes(self) -> int:
        size = 4 if self.stack.dtype == self.xp.float32 else 8
        return self.n_samples * self.n_samples * self.n_kernels * size

    def describe(self) -> str:
        return f"{self.n_kernels} matrices on {self.kind.device}, {self.nbytes / 2**20:.1f} MiB"

    # ---- pieces -----------------------------------------------------------------------------------

    def _parts(self, kernels: Index | None) -> Iterator[tuple[slice, AnyArray]]:
        """Some rows at a time of the chosen kernels, in float64: (n_rows, n_samples, n_chosen)."""
        n_kernels = self.n_kernels if kernels is None else len(kernels)
        places = None if kernels is None else self._places(kernels)
        for rows in pieces(self.n_samples, PIECE // (self.n_samples * max(1, n_kernels))):
            piece = self.stack[rows, :, :]
            yield rows, self._wide(piece if places is None else self.xp.take(piece, places, axis=2))

    def _times(self, vectors: AnyArray, piece: AnyArray) -> AnyArray:
        """``sum_i vectors[:, i] piece[i]``, shape (n_vectors, n_samples, n_chosen)."""
        found = vectors @ self.xp.reshape(piece, (piece.shape[0], -1))
        return self.xp.reshape(found, (vectors.shape[0], *piece.shape[1:]))

    def _places(self, index: Index) -> AnyArray:
        return self.kind.give(np.asarray(index, dtype=np.int64))

    def _wide(self, values: AnyArray) -> AnyArray:
        return self.xp.astype(values, self.xp.float64, copy=False)

    def _here(self, values: AnyArray) -> Array:
        return self.kind.take(values)
