"""The questions that every Gram representation answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Gram(ABC):
    """A stack of ``n_kernels`` symmetric PSD matrices of shape (n_samples, n_samples).

    Vectors come as rows: `C` has shape (n_vectors, n_samples); `quadratic_forms` and `matvec` take a single vector
    (n_samples,) too. Kernels are chosen by an integer index
    `kernels` (None: all). Nothing here knows what the kernels are or where the data came from.
    """

    n_samples: int
    n_kernels: int

    @abstractmethod
    def diagonal(self) -> Array:
        """Diagonals, shape (n_kernels, n_samples)."""

    @abstractmethod
    def quadratic_forms(self, C: Array, kernels: Index | None = None) -> Array:
        """``sum_t C[t]' K_m C[t]`` for the chosen kernels, shape (len(kernels),)."""

    @abstractmethod
    def matvecs(self, C: Array, kernels: Index | None = None) -> Array:
        """``K_m C[t]`` for the chosen kernels, shape (len(kernels), n_vectors, n_samples)."""

    @abstractmethod
    def inner(self, H: Array) -> Array:
        """``sum_ij H_ij K_m,ij`` for every kernel and a symmetric H, of which only the upper triangle is read."""

    @abstractmethod
    def add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        """Add ``sum_m weights[m] K_m`` to the upper triangle of `out` (n, n).

        With `empty` the previous content of `out` counts as zero. Below the diagonal `out` is unspecified.
        """

    @abstractmethod
    def take(self, kernels: Index) -> Gram:
        """The stack restricted to some kernels."""

    @abstractmethod
    def restrict(self, rows: Index) -> Gram:
        """The stack on some of its samples (a copy), in the order of `rows`."""

    @abstractmethod
    def rescale(self, row_scale: Array) -> Gram:
        """A new stack with ``K_m <- D_m K_m D_m``; `row_scale` (n_kernels, n_samples) holds the diagonals of D."""

    @abstractmethod
    def center(self, probability: Array) -> Gram:
        """A new stack with ``K_m <- (I - 1 p') K_m (I - p 1')`` for the probability vector p (n_samples,)."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held by the representation."""

    @abstractmethod
    def describe(self) -> str:
        """One line for reports: which form, how many kernels, how much memory."""

    # ---- defaults ---------------------------------------------------------------------------------

    @property
    def ranks(self) -> Index:
        """Rank of the stored factor of each kernel, -1 where there is none."""
        return np.full(self.n_kernels, -1, dtype=np.int64)

    def factor(self, weights: Array) -> Array | None:
        """Rows Z (rank, n_samples) with ``Z' Z = sum_m weights[m] K_m``, or None if not held as factors."""
        return None

    @cached_property
    def residual_trace(self) -> Array:
        """Upper bound of trace(K_m - held K_m) for each kernel; zero for exact forms."""
        return np.zeros(self.n_kernels)

    @cached_property
    def norm_bound(self) -> Array:
        """Upper bound of the largest eigenvalue of each kernel, shape (n_kernels,)."""
        return self.trace()

    def panel(self, rows: slice, kernels: Index | None = None) -> Array:
        """Some rows of the chosen kernels, from the first of these rows on: ``K_m[rows, rows.start:]``.

        Shape (len(kernels), n_rows, n_samples - rows.start), C-contiguous and the caller's to change. Together the
        panels of all rows hold every upper triangle once. `rows` has a start and a stop.
        """
        unit = np.zeros((rows.stop - rows.start, self.n_samples))
        unit[:, rows] = np.eye(len(unit))
        return np.ascontiguousarray(self.matvecs(unit, kernels)[:, :, rows.start :])

    def trace(self) -> Array:
        """Traces, shape (n_kernels,)."""
        return self.diagonal().sum(axis=1)

    def combine(self, weights: Array, out: Array | None = None) -> Array:
        """``sum_m weights[m] K_m`` as a dense symmetric matrix (n, n)."""
        out = self.combine_upper(weights, out)
        lower = np.tril_indices(self.n_samples, -1)
        out[lower] = out.T[lower]
        return out

    def combine_upper(self, weights: Array, out: Array | None = None) -> Array:
        """The upper triangle of ``sum_m weights[m] K_m``; below the diagonal is unspecified."""
        if out is None:
            out = np.empty((self.n_samples, self.n_samples))
        self.add_combination(weights, out, empty=True)
        return out

    def matvec(self, weights: Array, C: Array) -> Array:
        """``sum_m weights[m] K_m C[t]``, shape (n_vectors, n_samples)."""
        if C.ndim == 1:
            return self.matvec(weights, C[None])[0]
        active = np.flatnonzero(weights)
        out = np.zeros_like(C)
        for chunk in np.array_split(active, max(1, len(active) // 64)):
            out += np.tensordot(weights[chunk], self.matvecs(C, chunk), 1)
        return out


def as_index(kernels: Index | None, n_kernels: int) -> Index:
    """Return kernel indices as int64, all of them for None."""
    if kernels is None:
        return np.arange(n_kernels, dtype=np.int64)
    return np.ascontiguousarray(kernels, dtype=np.int64)
