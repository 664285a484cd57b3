"""Kernels that a function or an iterator returns one by one: features or matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.linalg import lapack

from kernelweave._checks import InputError, NotPSDError
from kernelweave._sparse import is_sparse
from kernelweave.gram.base import Array, Index

#: A quadratic form below zero by more than this share of the largest possible one refutes that a matrix is a kernel.
NEGATIVE = 1e-6


class MadeKernels:
    """Features or matrices that a function returns for the number of a kernel."""

    def __init__(
        self, make: Callable[..., Any], n_kernels: int, matrices: bool, rows: Index | None = None
    ) -> None:
        self.make, self.n_kernels, self.matrices, self.rows = make, n_kernels, matrices, rows
        self.n_samples = 0
        self.n_samples = int(next(self.items(np.zeros(1, dtype=np.int64))).shape[0])
        self._widths = np.full(n_kernels, self.n_samples if matrices else 1, dtype=np.int64)

    @property
    def widths(self) -> Index:
        return self._widths

    @property
    def errors(self) -> Array:
        return np.zeros(self.n_kernels)

    # ---- items ------------------------------------------------------------------------------------

    def items(self, kernels: Index) -> Iterator[Any]:
        """Some kernels, checked, on the chosen rows."""
        for kernel in kernels:
            yield self.checked(self.make(int(kernel)), int(kernel))

    def checked(self, given: Any, kernel: int) -> Any:
        """An array of the right shape, or sparse features."""
        array = given if is_sparse(given) and not self.matrices else np.asarray(given)
        if array.ndim == 1 and not self.matrices:
            array = array[:, None]
        wanted = "(n_samples, n_samples)" if self.matrices else "(n_samples, width)"
        if array.ndim != 2 or array.dtype.kind not in "fiub" or 0 in array.shape:
            raise InputError(
                f"`kernel` must return arrays of real numbers of shape {wanted}, got {array.dtype} of shape "
                f"{array.shape} for kernel {kernel}."
            )
        if self.matrices and array.shape[0] != array.shape[1]:
            raise InputError(
                f"`kernel` must return matrices of shape {wanted}, got {array.shape} for kernel {kernel}. Say "
                'kind="features" if it returns features.'
            )
        if self.rows is not None:
            array = array[self.rows][:, self.rows] if self.matrices else array[self.rows]
        if self.n_samples and array.shape[0] != self.n_samples:
            raise InputError(
                f"All kernels must have the same number of samples, {self.n_samples}, got {array.shape[0]} for kernel "
                f"{kernel}."
            )
        return array

    # ---- one kernel -------------------------------------------------------------------------------

    def look(self, item: Any, C: Array, weights: Array | None) -> tuple[Array, float]:
        """Quadratic forms of one kernel, and its weighted trace."""
        if self.matrices:
            K = np.asarray(item, dtype=np.float64)
            quadratic_forms = np.einsum("vn,vn->v", C @ K, C)
            trace = 0.0 if weights is None else float(np.diagonal(K) @ weights)
            return quadratic_forms, trace
        if is_sparse(item):
            scores = np.asarray(item.T @ C.T)
            trace = 0.0 if weights is None else float(np.asarray(item.multiply(item).T @ weights).sum())
            return np.square(scores).sum(axis=0), trace
        Z = np.asarray(item, dtype=np.float64)
        scores = C @ Z
        trace = 0.0 if weights is None else float(np.einsum("ij,ij,i->", Z, Z, weights))
        return np.einsum("vw,vw->v", scores, scores), trace

    def times(self, item: Any, C: Array) -> Array:
        """``C K`` of one kernel."""
        if self.matrices:
            return C @ np.asarray(item, dtype=np.float64)
        if is_sparse(item):
            return np.asarray((item @ (item.T @ C.T)).T)
        Z = np.asarray(item, dtype=np.float64)
        return (C @ Z) @ Z.T

    def rows_of(self, item: Any, kernel: int) -> Array:
        """The factor of one kernel."""
        if self.matrices:
            return _factor_of_matrix(np.asarray(item, dtype=np.float64), kernel)
        if is_sparse(item):
            item = item.toarray()
        return np.array(item.T, dtype=np.float64, order="C")

    # ---- the interface of sources -----------------------------------------------------------------

    def looks(self, C: Array, kernels: Index, weights: Array | None) -> Iterator[tuple[slice, Array, Array]]:
        sizes = np.square(C).sum(axis=1)
        # pieces for progress, of about a second at most for features
        step = 1 if self.matrices else 256
        items = self.items(kernels)
        for first in range(0, len(kernels), step):
            own = kernels[first : first + step]
            quadratic_forms, traces = np.empty((len(C), len(own))), np.empty(len(own))
            for k, kernel in enumerate(own):
                item = next(items)
                quadratic_forms[:, k], traces[k] = self.look(item, C, weights)
                if not self.matrices:
                    self._widths[kernel] = item.shape[1]
                elif quadratic_forms[:, k].min() < 0.0:
                    self._clip(quadratic_forms[:, k], item, sizes, int(kernel))
            yield slice(first, first + len(own)), quadratic_forms, traces

    def _clip(self, quadratic_forms: Array, item: Any, sizes: Array, kernel: int) -> None:
        trace = float(np.trace(np.asarray(item, dtype=np.float64)))
        if (quadratic_forms < -NEGATIVE * abs(trace) * sizes).any():
            raise NotPSDError(
                f"Kernel {kernel} is not positive semidefinite: a quadratic form is {quadratic_forms.min():.3g}. Use "
                "`kernelweave.repair_gram`, or another kernel."
            )
        np.maximum(quadratic_forms, 0.0, out=quadratic_forms)

    def factors(self, kernels: Index) -> Iterator[Array]:
        for kernel, item in zip(kernels, self.items(kernels), strict=True):
            yield self.rows_of(item, int(kernel))

    def products(self, C: Array, kernels: Index) -> Iterator[Array]:
        for item in self.items(kernels):
            yield self.times(item, C)

    def restrict(self, rows: Index) -> MadeKernels:
        own = rows if self.rows is None else self.rows[rows]
        return MadeKernels(self.make, self.n_kernels, self.matrices, own)


class IteratedKernels(MadeKernels):
    """The same from a function that returns an iterator."""

    def __init__(
        self,
        make: Callable[[], Iterator[Any]],
        n_kernels: int,
        matrices: bool,
        rows: Index | None = None,
    ) -> None:
        self.start = make
        super().__init__(make, n_kernels, matrices, rows)

    def _too_few(self, kernel: int) -> InputError:
        return InputError(
            f"The iterator must return `n_kernels`={self.n_kernels} kernels each time, and ended before kernel "
            f"{kernel}."
        )

    def items(self, kernels: Index) -> Iterator[Any]:
        """Some kernels, in any order, by one round of the iterator."""
        order = np.argsort(kernels, kind="stable")
        held: dict[int, Any] = {}
        given = enumerate(self.start())
        rising = bool((np.diff(order) == 1).all())
        for m in kernels[order]:
            item = next((item for k, item in given if k == m), None)
            if item is None:
                raise self._too_few(int(m))
            own = self.checked(item, int(m))
            if rising:
                yield own
            else:
                held[int(m)] = own
        if not rising:
            for m in kernels:
                yield held[int(m)]

    def restrict(self, rows: Index) -> IteratedKernels:
        own = rows if self.rows is None else self.rows[rows]
        return IteratedKernels(self.start, self.n_kernels, self.matrices, own)


def _factor_of_matrix(K: Array, kernel: int) -> Array:
    """Rows F of a Cholesky factor with pivots, so that ``K - F'F`` has entries of rounding errors only."""
    size = float(np.abs(K).max())
    if not np.isfinite(size) or np.abs(K - K.T).max() > 1e-6 * size:
        raise InputError(
            f"Kernel {kernel} must be a finite symmetric matrix. Average it with its transpose if it is nearly so."
        )
    trace = float(np.trace(K))
    if trace <= 0.0:
        return np.zeros((1, len(K)))
    factor, pivots, rank, _ = lapack.dpstrf(K, tol=1e-13 * trace / len(K), lower=0)
    rows = np.empty((rank, len(K)))
    rows[:, pivots - 1] = np.triu(factor)[:rank]
    return rows
