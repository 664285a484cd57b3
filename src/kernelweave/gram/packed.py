"""Stacks stored as packed upper triangles."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kernelweave._loops import core, packed_length, packed_rows
from kernelweave._threads import threads_for
from kernelweave._types import Array, Index
from kernelweave.gram.base import Gram


class PackedGram(Gram):
    """Full-rank kernels, one packed upper triangle each.

    Parameters
    ----------
    packed : array of shape (n_kernels, n_samples * (n_samples + 1) // 2)
        Upper triangles row after row, C-contiguous float64. Not copied.
    n_samples : int
    """

    def __init__(self, packed: Array, n_samples: int) -> None:
        self.packed = np.ascontiguousarray(packed, dtype=np.float64)
        self.n_kernels, self.n_samples = len(packed), n_samples

    def diagonal(self, kernels: Index | None = None) -> Array:
        places = packed_rows(self.n_samples)[:-1]
        return self.packed[:, places] if kernels is None else self.packed[kernels[:, None], places]

    def quadratic_forms(self, C: Array, kernels: Index | None = None) -> Array:
        index = self.every if kernels is None else kernels
        out = np.empty(len(index))
        core.quadratic_forms(self.packed, index, np.ascontiguousarray(C), out, threads_for(self.n_samples))
        return out

    def matvecs(self, C: Array, kernels: Index | None = None) -> Array:
        index = self.every if kernels is None else kernels
        out = np.empty((len(index), *C.shape))
        core.matvecs(self.packed, index, np.ascontiguousarray(C), out, threads_for(self.n_samples))
        return out

    def inner(self, H: Array) -> Array:
        out = np.empty(self.n_kernels)
        core.inner(self.packed, self.every, np.ascontiguousarray(H), out, threads_for(self.n_samples))
        return out

    def add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        index = np.flatnonzero(weights)
        # zeros, because entries below the diagonal are not written but added
        target = out if empty else np.zeros_like(out)
        core.combine(self.packed, index, weights[index], target, threads_for(self.n_samples))
        if not empty:
            out += target

    def panel(self, rows: slice, kernels: Index | None = None) -> Array:
        first, n_rows = rows.start, rows.stop - rows.start
        count = self.n_kernels if kernels is None else len(kernels)
        out = np.empty((count, n_rows, self.n_samples - first))
        start = packed_rows(self.n_samples)
        for k in range(n_rows):
            own = slice(start[first + k], start[first + k + 1])
            out[:, k, k:] = self.packed[:, own] if kernels is None else self.packed[kernels, own]
            out[:, k + 1 :, k] = out[:, k, k + 1 : n_rows]
        return out

    def take(self, kernels: Index) -> PackedGram:
        return PackedGram(self.packed[kernels], self.n_samples)

    def restrict(self, rows: Index) -> PackedGram:
        out = np.empty((self.n_kernels, packed_length(len(rows))))
        core.choose_rows(
            self.packed,
            np.ascontiguousarray(rows, dtype=np.int64),
            self.n_samples,
            out,
            threads_for(len(rows)),
        )
        return PackedGram(out, len(rows))

    def rescale(self, row_scale: Array, *, overwrite: bool = False) -> PackedGram:
        packed = self.packed if overwrite else self.packed.copy()
        if (row_scale == row_scale[:, :1]).all():
            # one factor for each kernel, such as 0 for those that are left out
            packed *= np.square(row_scale[:, :1])
            return PackedGram(packed, self.n_samples)
        start = packed_rows(self.n_samples)
        for i in range(self.n_samples):
            row = packed[:, start[i] : start[i + 1]]
            row *= row_scale[:, i, None]
            row *= row_scale[:, i:]
        return PackedGram(packed, self.n_samples)

    def center(self, probability: Array, *, overwrite: bool = False) -> PackedGram:
        means = self.matvecs(probability[None])[:, 0]
        packed = self.packed if overwrite else self.packed.copy()
        core.shift_rows(packed, means, means @ probability, threads_for(self.n_samples))
        return PackedGram(packed, self.n_samples)

    def square_norm(self, kernel: int, sample_weight: Array | None = None) -> float:
        if sample_weight is not None:
            return super().square_norm(kernel, sample_weight)
        own = self.packed[kernel]
        diagonal = own[packed_rows(self.n_samples)[:-1]]
        return 2.0 * float(own @ own) - float(diagonal @ diagonal)

    @cached_property
    def norm_bound(self) -> Array:
        # Frobenius norm; the trace is smaller only for nearly rank-one kernels
        squares = 2.0 * np.einsum("ml,ml->m", self.packed, self.packed)
        diagonal = self.diagonal()
        squares -= np.einsum("mi,mi->m", diagonal, diagonal)
        return np.minimum(np.sqrt(np.maximum(squares, 0.0)), diagonal.sum(axis=1))

    @property
    def nbytes(self) -> int:
        return self.packed.nbytes

    def describe(self) -> str:
        return f"{self.n_kernels} packed triangles, {self.nbytes / 2**20:.1f} MiB"
