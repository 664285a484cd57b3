"""The interface of all Gram representations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError
from kernelweave._devices import Kind
from kernelweave._loops import core
from kernelweave._threads import threads_for

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_FLOAT = np.dtype(np.float64)


class Gram(ABC):
    """A stack of ``n_kernels`` symmetric PSD matrices of shape (n_samples, n_samples).

    Vectors come as rows: `C` has shape (n_vectors, n_samples); `quadratic_forms` and `matvec` also accept a single
    vector (n_samples,). Kernels are chosen by an integer index `kernels` (None: all). Representations do not depend on
    the kind of kernels or data.

    The public methods check their arguments, for all representations alike, and raise `InputError`. Representations
    implement the methods of the same names with an underscore, whose arguments have the right shape: C-contiguous
    float64 arrays, and indices in range.
    """

    n_samples: int
    n_kernels: int
    #: Where arrays of results belong; None for NumPy.
    kind: Kind | None = None

    # ---- interface --------------------------------------------------------------------------------

    @abstractmethod
    def diagonal(self) -> Array:
        """Diagonals, shape (n_kernels, n_samples)."""

    def quadratic_forms(self, C: Array, kernels: Index | None = None) -> Array:
        """``sum_t C[t]' K_m C[t]`` for the chosen kernels, shape (len(kernels),)."""
        rows = C[None] if isinstance(C, np.ndarray) and C.ndim == 1 else C
        return self._quadratic_forms(self._vectors(rows), self._chosen(kernels))

    def matvecs(self, C: Array, kernels: Index | None = None) -> Array:
        """``K_m C[t]`` for the chosen kernels, shape (len(kernels), n_vectors, n_samples)."""
        return self._matvecs(self._vectors(C), self._chosen(kernels))

    def inner(self, H: Array) -> Array:
        """``sum_ij H_ij K_m,ij`` for every kernel and a symmetric H, of which only the upper triangle is read."""
        return self._inner(as_floats(H, "H", (self.n_samples, self.n_samples)))

    def add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        """Add ``sum_m weights[m] K_m`` to the upper triangle of `out` (n, n).

        With `empty` the previous content of `out` counts as zero. Below the diagonal `out` is unspecified.
        """
        self._add_combination(self._weights(weights), self._target(out), empty=empty)

    def panel(self, rows: slice, kernels: Index | None = None) -> Array:
        """Some rows of the chosen kernels, from the first of these rows on: ``K_m[rows, rows.start:]``.

        Shape (len(kernels), n_rows, n_samples - rows.start), C-contiguous and free for the caller to
        change. Together the panels of all rows contain every upper triangle once. `rows` has a start and a stop.
        """
        return self._panel(self._slice(rows), self._chosen(kernels))

    def factor(self, weights: Array) -> Array | None:
        """Rows Z (rank, n_samples) with ``Z' Z = sum_m weights[m] K_m``, or None without stored factors."""
        return self._factor(self._weights(weights))

    def scaled_factor(self, weights: Array) -> tuple[Array, Array] | None:
        """Rows and factors whose products are those of `factor`: the stored rows, where they lie together."""
        return self._scaled_factor(self._weights(weights))

    def combine(self, weights: Array, out: Array | None = None) -> Array:
        """``sum_m weights[m] K_m`` as a dense symmetric matrix (n, n)."""
        out = self.combine_upper(weights, out)
        core.mirror(out, threads_for(self.n_samples))
        return out

    def combine_upper(self, weights: Array, out: Array | None = None) -> Array:
        """The upper triangle of ``sum_m weights[m] K_m``; below the diagonal is unspecified."""
        if out is None:
            out = np.empty((self.n_samples, self.n_samples))
        self._add_combination(self._weights(weights), self._target(out), empty=True)
        return out

    def matvec(self, weights: Array, C: Array) -> Array:
        """``sum_m weights[m] K_m C[t]``, shape (n_vectors, n_samples)."""
        if isinstance(C, np.ndarray) and C.ndim == 1:
            return self.matvec(weights, C[None])[0]
        weights, C = self._weights(weights), self._vectors(C)
        active = np.flatnonzero(weights)
        out = np.zeros_like(C)
        for chunk in np.array_split(active, max(1, len(active) // 64)):
            out += np.tensordot(weights[chunk], self._matvecs(C, chunk), 1)
        return out

    # ---- other stacks -----------------------------------------------------------------------------

    def take(self, kernels: Index) -> Gram:
        """The stack restricted to some kernels, at least one."""
        return self._take(_some(as_index(kernels, self.n_kernels), "kernels"))

    def restrict(self, rows: Index) -> Gram:
        """The stack on some of its samples (a copy), in the order of `rows`."""
        return self._restrict(_some(as_index(rows, self.n_samples, "rows"), "rows"))

    def rescale(self, row_scale: Array, *, overwrite: bool = False) -> Gram:
        """A stack with ``K_m <- D_m K_m D_m``; `row_scale` (n_kernels, n_samples) holds the diagonals of D.

        With `overwrite` the new stack reuses the memory of this one, which must not be used afterwards.
        """
        shape = (self.n_kernels, self.n_samples)
        return self._rescale(as_floats(row_scale, "row_scale", shape), overwrite)

    def center(self, probability: Array, *, overwrite: bool = False) -> Gram:
        """A stack with ``K_m <- (I - 1 p') K_m (I - p 1')`` for the probability vector p (n_samples,).

        With `overwrite` as in `rescale`.
        """
        return self._center(as_floats(probability, "probability", (self.n_samples,)), overwrite)

    # ---- figures ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory of the representation in bytes."""

    @abstractmethod
    def describe(self) -> str:
        """One line for reports: representation, number of kernels and memory."""

    @property
    def ranks(self) -> Index:
        """Rank of the stored factor of each kernel, -1 where there is none."""
        return np.full(self.n_kernels, -1, dtype=np.int64)

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

    def diagonal_of(self, kernels: Index) -> Array:
        """Diagonals of some kernels, shape (len(kernels), n_samples)."""
        return self._diagonal_of(as_index(kernels, self.n_kernels))

    def trace(self, sample_weight: Array | None = None) -> Array:
        """Traces, shape (n_kernels,): sums over the diagonals, weighted if `sample_weight` is given."""
        if sample_weight is not None:
            sample_weight = as_floats(sample_weight, "sample_weight", (self.n_samples,))
        return self._trace(sample_weight)

    def square_norm(self, kernel: int, sample_weight: Array | None = None) -> float | None:
        """Squared Frobenius norm of a kernel, with weights of rows ``sum_ij w_i w_j K_ij^2``.

        None if it is not available in one pass over the stored entries.
        """
        return self._square_norm(
            int(as_index(np.array([kernel]), self.n_kernels, "kernel")[0]), sample_weight
        )

    # ---- what representations implement -----------------------------------------------------------

    def _square_norm(self, kernel: int, sample_weight: Array | None) -> float | None:
        return None

    @abstractmethod
    def _quadratic_forms(self, C: Array, kernels: Index | None) -> Array: ...

    @abstractmethod
    def _matvecs(self, C: Array, kernels: Index | None) -> Array: ...

    @abstractmethod
    def _inner(self, H: Array) -> Array: ...

    @abstractmethod
    def _add_combination(self, weights: Array, out: Array, *, empty: bool) -> None: ...

    @abstractmethod
    def _take(self, kernels: Index) -> Gram: ...

    @abstractmethod
    def _restrict(self, rows: Index) -> Gram: ...

    @abstractmethod
    def _rescale(self, row_scale: Array, overwrite: bool) -> Gram: ...

    @abstractmethod
    def _center(self, probability: Array, overwrite: bool) -> Gram: ...

    def _trace(self, sample_weight: Array | None) -> Array:
        diagonal = self.diagonal()
        return diagonal.sum(axis=1) if sample_weight is None else diagonal @ sample_weight

    def _factor(self, weights: Array) -> Array | None:
        return None

    def _scaled_factor(self, weights: Array) -> tuple[Array, Array] | None:
        rows = self._factor(weights)
        return None if rows is None else (rows, np.ones(len(rows)))

    def _diagonal_of(self, kernels: Index) -> Array:
        return self.diagonal()[kernels]

    def _panel(self, rows: slice, kernels: Index | None) -> Array:
        unit = np.zeros((rows.stop - rows.start, self.n_samples))
        unit[:, rows] = np.eye(len(unit))
        return np.ascontiguousarray(self._matvecs(unit, kernels)[:, :, rows.start :])

    # ---- checks -----------------------------------------------------------------------------------

    def _chosen(self, kernels: Index | None) -> Index | None:
        return None if kernels is None else as_index(kernels, self.n_kernels)

    def _vectors(self, C: Array) -> Array:
        if (
            type(C) is np.ndarray
            and C.ndim == 2
            and C.shape[1] == self.n_samples
            and C.dtype == _FLOAT
            and C.flags.c_contiguous
        ):
            return C
        return np.ascontiguousarray(as_floats(C, "C", (-1, self.n_samples)))

    def _weights(self, weights: Array) -> Array:
        return np.ascontiguousarray(as_floats(weights, "weights", (self.n_kernels,)))

    def _target(self, out: Array) -> Array:
        shape = (self.n_samples, self.n_samples)
        if (
            isinstance(out, np.ndarray)
            and out.shape == shape
            and out.dtype == _FLOAT
            and out.flags.c_contiguous
            and out.flags.writeable
        ):
            return out
        got = type(out).__name__
        if isinstance(out, np.ndarray):
            kind = "C-contiguous" if out.flags.c_contiguous else "not C-contiguous"
            got = f"{out.dtype} of shape {out.shape}, {kind}{'' if out.flags.writeable else ', read-only'}"
        raise InputError(
            f"`out` must be a writeable C-contiguous float64 array of shape {shape}, got {got}. Pass None for a new "
            "one."
        )

    def _slice(self, rows: slice) -> slice:
        if (
            isinstance(rows, slice)
            and rows.step in (None, 1)
            and isinstance(rows.start, (int, np.integer))
            and isinstance(rows.stop, (int, np.integer))
            and 0 <= rows.start < rows.stop <= self.n_samples
        ):
            return slice(int(rows.start), int(rows.stop))
        raise InputError(
            f"`rows` must be a slice with a start and a stop, 0 <= start < stop <= {self.n_samples}, got {rows!r:.80}."
        )


def as_floats(values: ArrayLike, name: str, shape: tuple[int, ...]) -> Array:
    """Return a float64 array of some shape, in which -1 stands for any length."""
    if type(values) is np.ndarray and values.dtype == _FLOAT and values.shape == shape:
        return values
    try:
        array = None if np.iscomplexobj(values) else np.asarray(values, dtype=_FLOAT)
    except (TypeError, ValueError):
        array = None
    if array is None:
        raise InputError(f"`{name}` must be real numbers, got {values!r:.50}.")
    if array.ndim != len(shape) or any(n not in (-1, m) for n, m in zip(shape, array.shape, strict=True)):
        wanted = ", ".join("any" if n < 0 else str(n) for n in shape) + ("," if len(shape) == 1 else "")
        raise InputError(f"`{name}` must have shape ({wanted}), got {array.shape}.")
    return array


def as_index(kernels: Index | None, n_kernels: int, name: str = "kernels") -> Index:
    """Return an index as int64 after checking its range, all of them for None."""
    if kernels is None:
        return np.arange(n_kernels, dtype=np.int64)
    index = np.asarray(kernels)
    if index.ndim != 1 or (index.dtype.kind not in "iu" and index.size):
        raise InputError(
            f"`{name}` must be a one-dimensional array of integers, got {index.dtype} of shape {index.shape}."
        )
    index = np.ascontiguousarray(index, dtype=np.int64)
    if not core.inside(index, n_kernels):
        raise InputError(
            f"`{name}` must lie from 0 to {n_kernels - 1}, got numbers from {index.min()} to {index.max()}."
        )
    return index


def _some(index: Index, name: str) -> Index:
    if len(index):
        return index
    raise InputError(f"`{name}` must hold at least one number, got none.")
