"""The interface of all Gram representations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from kernelweave._devices import Kind
from kernelweave._errors import InputError
from kernelweave._loops import core
from kernelweave._threads import threads_for
from kernelweave._types import Array, Index

#: Numbers of a panel of rows.
PIECE = 2**16


def pieces(count: int, step: int) -> Iterator[slice]:
    """Parts of so many positions, `step` at a time, and at least one."""
    for first in range(0, count, step := max(1, step)):
        yield slice(first, min(first + step, count))


class Gram(ABC):
    """A stack of ``n_kernels`` symmetric PSD matrices of shape (n_samples, n_samples).

    Vectors come as rows: `C` has shape (n_vectors, n_samples). Kernels are chosen by an integer index `kernels` (None:
    all). Representations do not depend on the kind of kernels or data. Arguments are not checked, but for the number of
    weights: what calls these methods has checked arrays and indices.
    """

    n_samples: int
    n_kernels: int
    #: Where arrays of results belong; None for NumPy.
    kind: Kind | None = None

    # ---- what every representation knows -----------------------------------------------------------

    @abstractmethod
    def diagonal(self, kernels: Index | None = None) -> Array:
        """Diagonals of the chosen kernels, shape (len(kernels), n_samples).

        Parameters
        ----------
        kernels : array of int, optional
            Indices of the chosen kernels; all by default.
        """

    @abstractmethod
    def quadratic_forms(self, C: Array, kernels: Index | None = None) -> Array:
        """``sum_t C[t]' K_m C[t]`` for the chosen kernels, shape (len(kernels),).

        Parameters
        ----------
        C : array of shape (n_vectors, n_samples)
            Vectors, one in each row.
        kernels : array of int, optional
            Indices of the chosen kernels; all by default.
        """

    @abstractmethod
    def matvecs(self, C: Array, kernels: Index | None = None) -> Array:
        """``K_m C[t]`` for the chosen kernels, shape (len(kernels), n_vectors, n_samples).

        Parameters
        ----------
        C : array of shape (n_vectors, n_samples)
            Vectors, one in each row.
        kernels : array of int, optional
            Indices of the chosen kernels; all by default.
        """

    @abstractmethod
    def inner(self, H: Array) -> Array:
        """``sum_ij H_ij K_m,ij`` for every kernel and a symmetric H, of which only the upper triangle is read.

        Parameters
        ----------
        H : array of shape (n_samples, n_samples)
            A symmetric matrix.
        """

    @abstractmethod
    def add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        """Add ``sum_m weights[m] K_m`` to the upper triangle of `out` (n, n), C-contiguous.

        With `empty` the previous content of `out` counts as zero. Below the diagonal `out` is unspecified.

        Parameters
        ----------
        weights : array of shape (n_kernels,)
            Weights of the kernels.
        out : array of shape (n_samples, n_samples)
            Array to add to, C-contiguous.
        empty : bool
            Whether `out` has no content yet.
        """

    @abstractmethod
    def take(self, kernels: Index) -> Gram:
        """The stack restricted to some kernels, at least one.

        Parameters
        ----------
        kernels : array of int
            Indices of the chosen kernels, at least one.
        """

    @abstractmethod
    def restrict(self, rows: Index) -> Gram:
        """The stack on some of its samples (a copy), in the order of `rows`.

        Parameters
        ----------
        rows : array of int
            Indices of the samples.
        """

    @abstractmethod
    def rescale(self, row_scale: Array, *, overwrite: bool = False) -> Gram:
        """A stack with ``K_m <- D_m K_m D_m``; `row_scale` (n_kernels, n_samples) holds the diagonals of D.

        With `overwrite` the new stack reuses the memory of this one, which must not be used afterwards.

        Parameters
        ----------
        row_scale : array of shape (n_kernels, n_samples)
            Factors of the rows and columns of each kernel.
        overwrite : bool
            Whether the new stack may reuse the memory of this one.
        """

    @abstractmethod
    def center(self, probability: Array, *, overwrite: bool = False) -> Gram:
        """A stack with ``K_m <- (I - 1 p') K_m (I - p 1')`` for the probability vector p (n_samples,).

        With `overwrite` as in `rescale`.

        Parameters
        ----------
        probability : array of shape (n_samples,)
            Weights of the samples in the mean, which sum to 1.
        overwrite : bool
            Whether the new stack may reuse the memory of this one.
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory of the representation in bytes."""

    @abstractmethod
    def describe(self) -> str:
        """One line for reports: representation, number of kernels and memory."""

    # ---- what follows, or is known to some ---------------------------------------------------------

    def combine(self, weights: Array, out: Array | None = None, *, upper: bool = False) -> Array:
        """``sum_m weights[m] K_m`` as a dense symmetric matrix (n, n).

        Parameters
        ----------
        weights : array of shape (n_kernels,)
            Weights of the kernels.
        out : array of shape (n_samples, n_samples), optional
            Array for the result; a new one by default.
        upper : bool
            Whether the upper triangle is enough: below the diagonal is unspecified then.
        """
        if np.shape(weights) != (self.n_kernels,):
            raise InputError(
                f"`weights` must have one entry per kernel, shape ({self.n_kernels},), got {np.shape(weights)}."
            )
        if out is None:
            out = np.empty((self.n_samples, self.n_samples))
        self.add_combination(weights, out, empty=True)
        if not upper:
            core.mirror(out, threads_for(self.n_samples))
        return out

    def matvec(self, weights: Array, C: Array) -> Array:
        """``sum_m weights[m] K_m C[t]``, of the shape of C: (n_vectors, n_samples) or (n_samples,).

        Parameters
        ----------
        weights : array of shape (n_kernels,)
            Weights of the kernels.
        C : array of shape (n_vectors, n_samples) or (n_samples,)
            Vectors, one in each row, or one vector.
        """
        active = np.flatnonzero(weights)
        rows = np.atleast_2d(C)
        out = np.zeros(rows.shape)
        for chunk in np.array_split(active, max(1, len(active) // 64)):
            out += np.tensordot(weights[chunk], self.matvecs(rows, chunk), 1)
        return out.reshape(C.shape)

    def panel(self, rows: slice, kernels: Index | None = None) -> Array:
        """Some rows of the chosen kernels, from the first of these rows on: ``K_m[rows, rows.start:]``.

        Shape (len(kernels), n_rows, n_samples - rows.start), C-contiguous and free for the caller to
        change. Together the panels of all rows contain every upper triangle once. `rows` has a start and a stop.

        Parameters
        ----------
        rows : slice
            Range of the samples, with a start and a stop.
        kernels : array of int, optional
            Indices of the chosen kernels; all by default.
        """
        unit = np.zeros((rows.stop - rows.start, self.n_samples))
        unit[:, rows] = np.eye(len(unit))
        return np.ascontiguousarray(self.matvecs(unit, kernels)[:, :, rows.start :])

    def factor(self, weights: Array) -> Array | None:
        """Rows Z (rank, n_samples) with ``Z' Z = sum_m weights[m] K_m``, or None without stored factors.

        Parameters
        ----------
        weights : array of shape (n_kernels,)
            Weights of the kernels.
        """
        found = self.scaled_factor(weights)
        return None if found is None else found[0] * found[1][:, None]

    def scaled_factor(self, weights: Array) -> tuple[Array, Array] | None:
        """Rows and factors whose products are those of `factor`: the stored rows, where they lie together.

        Parameters
        ----------
        weights : array of shape (n_kernels,)
            Weights of the kernels.
        """
        return None

    def trace(self, sample_weight: Array | None = None) -> Array:
        """Traces, shape (n_kernels,): sums over the diagonals, weighted if `sample_weight` is given.

        Parameters
        ----------
        sample_weight : array of shape (n_samples,), optional
            Weights of the samples; equal ones by default.
        """
        diagonal = self.diagonal()
        return diagonal.sum(axis=1) if sample_weight is None else diagonal @ sample_weight

    def square_norm(self, kernel: int, sample_weight: Array | None = None) -> float:
        """Squared Frobenius norm of a kernel, with weights of rows ``sum_ij w_i w_j K_ij^2``.

        Parameters
        ----------
        kernel : int
            Index of the kernel.
        sample_weight : array of shape (n_samples,), optional
            Weights of the samples; equal ones by default.
        """
        n, total = self.n_samples, 0.0
        weights = np.ones(n) if sample_weight is None else sample_weight
        for part in pieces(n, PIECE // n):
            panel = np.square(self.panel(part, np.array([kernel]))[0])
            width, rows, beyond = len(panel), weights[part], weights[part.stop :]
            total += float(rows @ panel[:, :width] @ rows) + 2.0 * float(rows @ panel[:, width:] @ beyond)
        return total

    @cached_property
    def ranks(self) -> Index:
        """Rank of the stored factor of each kernel, -1 where there is none."""
        return np.full(self.n_kernels, -1, dtype=np.int64)

    @cached_property
    def terms(self) -> Index:
        """Terms of the sum that an entry of each kernel is."""
        return np.maximum(self.ranks, 1)

    @cached_property
    def residual_trace(self) -> Array:
        """Upper bound of trace(K_m - stored K_m) for each kernel; zero for exact representations."""
        return np.zeros(self.n_kernels)

    @cached_property
    def rounding_trace(self) -> Array:
        """Bound of the same difference for factors that equal their kernel up to rounding; zero for all others."""
        return np.zeros(self.n_kernels)

    @cached_property
    def norm_bound(self) -> Array:
        """Upper bound of the largest eigenvalue of each kernel, shape (n_kernels,)."""
        return self.trace()

    @cached_property
    def every(self) -> Index:
        """The numbers of all kernels."""
        return np.arange(self.n_kernels)
