"""Stacks stored as factors: low rank, or one column each (linear features)."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import blas

from kernelweave._loops import core
from kernelweave._types import Array, Index
from kernelweave.gram.base import Gram, pieces

#: Numbers processed at a time, if a temporary is needed.
PIECE = 2**17


def sums_of_groups(values: Array, sizes: Index) -> Array:
    """Sums of consecutive groups of rows; a group may be empty."""
    out = np.zeros((len(sizes), *values.shape[1:]))
    filled = sizes > 0
    out[filled] = np.add.reduceat(values, (np.cumsum(sizes) - sizes)[filled], axis=0)
    return out


def members(offsets: Index, chosen: Index) -> Index:
    """Positions inside of some groups, in their order; group m is ``offsets[m]:offsets[m + 1]``."""
    sizes = offsets[chosen + 1] - offsets[chosen]
    ends = np.cumsum(sizes)
    found = np.repeat(offsets[chosen] - ends + sizes, sizes)
    found += np.arange(len(found))
    return found


class FactorGram(Gram):
    """Kernels ``K_m = Z_m' Z_m`` with ``Z_m`` of shape (rank_m, n_samples), all stacked as rows.

    Parameters
    ----------
    rows : array of shape (sum of ranks, n_samples)
        Factor rows of all kernels, C-contiguous float64. Not copied: the transpose of a
        Fortran-ordered design matrix is the stack of one rank-one kernel per feature.
    offsets : array of int, shape (n_kernels + 1,)
        Kernel m owns ``rows[offsets[m]:offsets[m + 1]]``.
    residual_trace : array of shape (n_kernels,), optional
        Bound of trace(K_m - Z_m' Z_m) when the factors are truncated; the difference is PSD.
    rounding_trace : array of shape (n_kernels,), optional
        Bound of what remains of matrices that the factors equal up to rounding.
    """

    def __init__(
        self,
        rows: Array,
        offsets: Index,
        residual_trace: Array | None = None,
        rounding_trace: Array | None = None,
    ) -> None:
        self.rows = np.ascontiguousarray(rows, dtype=np.float64)
        self.offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        self.n_kernels = len(self.offsets) - 1
        self.n_samples = self.rows.shape[1]
        if residual_trace is not None:
            self.residual_trace = np.asarray(residual_trace, dtype=np.float64)
        if rounding_trace is not None:
            self.rounding_trace = np.asarray(rounding_trace, dtype=np.float64)

    @classmethod
    def from_columns(cls, X: Array) -> Self:
        """One rank-one kernel ``x_j x_j'`` for each column of X (n_samples, n_features)."""
        return cls(np.ascontiguousarray(X.T), np.arange(X.shape[1] + 1))

    @cached_property
    def ranks(self) -> Index:
        return np.diff(self.offsets)

    @cached_property
    def _one_row_each(self) -> bool:
        return bool((self.ranks == 1).all())

    def _owned(self, idx: Index) -> Index:
        """Row numbers owned by some kernels, in their order."""
        return idx if self._one_row_each else members(self.offsets, idx)

    def _sums(self, values: Array, idx: Index | None = None) -> Array:
        """Sum row values (rows, ...) within kernels."""
        if self._one_row_each:
            return values
        return sums_of_groups(values, self.ranks if idx is None else self.ranks[idx])

    def diagonal(self, kernels: Index | None = None) -> Array:
        kernels = self.every if kernels is None else kernels
        if self._one_row_each:
            out = self.rows[kernels]
            return np.square(out, out=out)
        out = np.empty((len(kernels), self.n_samples))
        for own, m in zip(out, kernels, strict=True):
            rows = self.rows[self.offsets[m] : self.offsets[m + 1]]
            np.einsum("rn,rn->n", rows, rows, out=own)
        return out

    def trace(self, sample_weight: Array | None = None) -> Array:
        if sample_weight is None:
            return self._sums(np.einsum("rn,rn->r", self.rows, self.rows))
        out = np.empty(len(self.rows))
        for part in pieces(len(out), PIECE // self.n_samples):
            out[part] = np.square(self.rows[part]) @ sample_weight
        return self._sums(out)

    def square_norm(self, kernel: int, sample_weight: Array | None = None) -> float:
        rows = self.rows[self.offsets[kernel] : self.offsets[kernel + 1]]
        if len(rows) > self.n_samples or self.residual_trace[kernel] > 0:
            return super().square_norm(kernel, sample_weight)
        inner = rows @ rows.T if sample_weight is None else (rows * sample_weight) @ rows.T
        return float(np.vdot(inner, inner))

    def _scores(self, C: Array, kernels: Index | None) -> Array:
        """Products of the factor rows of some kernels with vectors, shape (rows, n_vectors)."""
        if kernels is None:
            return self.rows @ C.T
        owned = self._owned(kernels)
        if 2 * len(owned) >= len(self.rows):
            # to choose rows is to copy them
            return (self.rows @ C.T)[owned]
        # a few rows at a time: all of them together would be a copy
        products = [self.rows[owned[part]] @ C.T for part in pieces(len(owned), PIECE // self.n_samples)]
        return np.concatenate(products) if products else np.empty((0, len(C)))

    def quadratic_forms(self, C: Array, kernels: Index | None = None) -> Array:
        scores = self._scores(C, kernels)
        scores = np.square(scores[:, 0]) if len(C) == 1 else np.square(scores).sum(axis=1)
        return self._sums(scores, kernels)

    def matvecs(self, C: Array, kernels: Index | None = None) -> Array:
        idx = self.every if kernels is None else kernels
        if kernels is None:
            scores = np.ascontiguousarray(self._scores(C, None).T)
        else:
            scores = np.zeros((len(C), len(self.rows)))
            scores[:, self._owned(idx)] = self._scores(C, kernels).T
        out = np.empty((len(idx), *C.shape))
        core.factor_matvecs(self.rows, self.offsets, idx, scores, out)
        return out

    def inner(self, H: Array) -> Array:
        # the upper triangle of a C-ordered matrix is the lower one of its Fortran-ordered transpose
        products = blas.dsymm(1.0, np.ascontiguousarray(H).T, self.rows.T, lower=1)
        return self._sums(np.einsum("nr,rn->r", products, self.rows))

    def scaled_factor(self, weights: Array) -> tuple[Array, Array]:
        each = weights if self._one_row_each else np.repeat(weights, self.ranks)
        owned = np.flatnonzero(each)
        scale = np.sqrt(each[owned])
        together = len(owned) > 0 and owned[-1] - owned[0] == len(owned) - 1
        return self.rows[owned[0] : owned[-1] + 1] if together else self.rows[owned], scale

    def add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        rows = self.factor(weights)
        assert rows is not None
        if not len(rows):
            if empty:
                out[:] = 0.0
            return
        # the upper triangle of a C-ordered matrix is the lower one of its Fortran-ordered transpose
        done = blas.dsyrk(1.0, rows.T, beta=0.0 if empty else 1.0, c=out.T, lower=1, overwrite_c=1)
        if not np.shares_memory(done, out):
            out[:] = done.T

    def panel(self, rows: slice, kernels: Index | None = None) -> Array:
        idx = self.every if kernels is None else kernels
        out = np.empty((len(idx), rows.stop - rows.start, self.n_samples - rows.start))
        for k, m in enumerate(idx):
            own = self.rows[self.offsets[m] : self.offsets[m + 1], rows.start :]
            np.matmul(own[:, : out.shape[1]].T, own, out=out[k])
        return out

    def take(self, kernels: Index) -> Self:
        offsets = np.r_[0, np.cumsum(self.ranks[kernels])]
        rows = self.rows[self._owned(kernels)]
        return type(self)(rows, offsets, self.residual_trace[kernels], self.rounding_trace[kernels])

    def restrict(self, rows: Index) -> Self:
        return type(self)(self.rows[:, rows], self.offsets, self.residual_trace, self.rounding_trace)

    def rescale(self, row_scale: Array, *, overwrite: bool = False) -> Self:
        owner = np.repeat(np.arange(self.n_kernels), self.ranks)
        largest = np.square(row_scale).max(axis=1)
        rows = self.rows if overwrite else self.rows.copy()
        # a few at a time: all scales of all rows would be a second copy
        for part in pieces(len(rows), PIECE // self.n_samples):
            rows[part] *= row_scale[owner[part]]
        return type(self)(rows, self.offsets, self.residual_trace * largest, self.rounding_trace * largest)

    def center(self, probability: Array, *, overwrite: bool = False) -> Self:
        centred = self.rows if overwrite else self.rows.copy()
        centred -= (centred @ probability)[:, None]
        # trace((I - 1p') E (I - p1')) <= ||I - 1p'||^2 trace(E) <= (1 + n |p|^2) trace(E) for PSD E
        factor = 1.0 + self.n_samples * float(probability @ probability)
        return type(self)(centred, self.offsets, self.residual_trace * factor, self.rounding_trace * factor)

    @cached_property
    def norm_bound(self) -> Array:
        return self.trace() + self.residual_trace

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def describe(self) -> str:
        ranks = self.ranks
        size = f"{self.nbytes / 2**20:.1f} MiB"
        if self._one_row_each:
            return f"{self.n_kernels} linear features, {size}"
        spread = f"rank {ranks.min()} to {ranks.max()}"
        bound = float(self.residual_trace.max(initial=0.0))
        exact = "exact" if bound == 0 else f"residual trace <= {bound:.1e}"
        return f"{self.n_kernels} factors of {spread}, {exact}, {size}"
