"""Stacks stored as packed upper triangles."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kernelweave._checks import InputError
from kernelweave._loops import core, packed_length, packed_rows
from kernelweave._threads import threads_for
from kernelweave.gram.base import Array, Gram, Index, as_index


class PackedGram(Gram):
    """Full-rank kernels, one packed upper triangle each.

    Parameters
    ----------
    packed : array of shape (n_kernels, n_samples * (n_samples + 1) // 2)
        Upper triangles row after row, C-contiguous float64. Not copied.
    n_samples : int
    """

    def __init__(self, packed: Array, n_samples: int) -> None:
        if packed.ndim != 2 or packed.shape[1] != packed_length(n_samples):
            raise InputError(
                f"A packed triangle of {n_samples} rows needs {packed_length(n_samples)} entries, got an array of "
                f"shape {packed.shape}."
            )
        self.packed = np.ascontiguousarray(packed, dtype=np.float64)
        self.n_kernels = len(packed)
        self.n_samples = n_samples

    def diagonal(self) -> Array:
        return self.packed[:, packed_rows(self.n_samples)[:-1]]

    def _diagonal_of(self, kernels: Index) -> Array:
        return self.packed[kernels[:, None], packed_rows(self.n_samples)[:-1]]

    def _quadratic_forms(self, C: Array, kernels: Index | None) -> Array:
        idx = np.arange(self.n_kernels) if kernels is None else kernels
        out = np.empty(len(idx))
        core.quadratic_forms(self.packed, idx, C, out, threads_for(self.n_samples))
        return out

    def _matvecs(self, C: Array, kernels: Index | None) -> Array:
        idx = np.arange(self.n_kernels) if kernels is None else kernels
        out = np.empty((len(idx), *C.shape))
        core.matvecs(self.packed, idx, C, out, threads_for(self.n_samples))
        return out

    def _inner(self, H: Array) -> Array:
        out = np.empty(self.n_kernels)
        threads = threads_for(self.n_samples)
        core.inner(self.packed, np.arange(self.n_kernels), np.ascontiguousarray(H), out, threads)
        return out

    def _add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        idx = np.flatnonzero(weights)
        # zeros, because entries below the diagonal are not written but added
        target = out if empty else np.zeros_like(out)
        threads = threads_for(self.n_samples)
        core.combine(self.packed, idx, weights[idx], target, threads)
        if not empty:
            out += target

    def _panel(self, rows: slice, kernels: Index | None) -> Array:
        idx = as_index(kernels, self.n_kernels)
        first, n_rows = rows.start, rows.stop - rows.start
        out = np.empty((len(idx), n_rows, self.n_samples - first))
        start = packed_rows(self.n_samples)
        for k in range(n_rows):
            own = slice(start[first + k], start[first + k + 1])
            out[:, k, k:] = self.packed[:, own] if kernels is None else self.packed[idx, own]
            out[:, k + 1 :, k] = out[:, k, k + 1 : n_rows]
        return out

    def _take(self, kernels: Index) -> PackedGram:
        return PackedGram(self.packed[kernels], self.n_samples)

    def _restrict(self, rows: Index) -> PackedGram:
        out = np.empty((self.n_kernels, packed_length(len(rows))))
        core.choose_rows(self.packed, rows, self.n_samples, out, threads_for(len(rows)))
        return PackedGram(out, len(rows))

    def _rescale(self, row_scale: Array, overwrite: bool) -> PackedGram:
        packed = self.packed if overwrite else self.packed.copy()
        start = packed_rows(self.n_samples)
        for i in range(self.n_samples):
            row = packed[:, start[i] : start[i + 1]]
            row *= row_scale[:, i, None]
            row *= row_scale[:, i:]
        return PackedGram(packed, self.n_samples)

    def _center(self, probability: Array, overwrite: bool) -> PackedGram:
        means = self.matvecs(probability[None])[:, 0]
        total = means @ probability
        packed = self.packed if overwrite else self.packed.copy()
        core.shift_rows(packed, means, total, threads_for(self.n_samples))
        return PackedGram(packed, self.n_samples)

    def _square_norm(self, kernel: int, sample_weight: Array | None) -> float | None:
        if sample_weight is not None:
            return None
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
