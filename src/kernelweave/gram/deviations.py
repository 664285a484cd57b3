"""Sums over some rows of products of deviations from their means, on the processor and on other devices."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from kernelweave._devices import Kind
from kernelweave._sparse import is_sparse

Array = NDArray[np.float64]


#: Least rows of a product.
ROWS = 256


@dataclass(frozen=True)
class Part:
    """Sums over rows whose products are in a matrix.

    Attributes
    ----------
    means, rests : arrays of shape (n_columns,)
        Weighted means, and what they lack.
    squares : array of shape (n_columns,)
        Sums of squares of what was multiplied.
    total : float
        Sum of the weights.
    n_rows : int
    """

    means: Array
    rests: Array
    squares: Array
    total: float
    n_rows: int


def row_parts(n_rows: int, n_columns: int, piece: int) -> list[slice]:
    """Parts of rows with about so many numbers."""
    step = max(ROWS, piece // max(1, n_columns))
    return [slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]


def add_rows(scatter: Array, Z: Any, Y: Array, weights: Array | None) -> Part:
    """Add products of some rows of ``[Z, Y]``, with deviations from their own means, to a lower triangle."""
    p = len(scatter) - Y.shape[1]
    B = np.empty((len(Y), len(scatter)))
    B[:, :p] = Z.toarray() if is_sparse(Z) else Z
    B[:, p:] = Y
    ones = np.ones(len(B)) if weights is None else weights
    total = float(ones.sum())
    means = ones @ B / total
    B -= means
    # of large means the first subtraction leaves a part, which is small now
    left = ones @ B / total
    B -= left
    if weights is not None:
        B *= np.sqrt(weights)[:, None]
    blas.dsyrk(1.0, B.T, beta=1.0, c=scatter, lower=1, overwrite_c=1)
    return Part(means, left, np.einsum("ij,ij->j", B, B), total, len(B))


def add_sparse_rows(scatter: Array, Z: Any, Y: Array, weights: Array | None) -> Part:
    """The same for sparse rows, at least one, which stay sparse."""
    from scipy import sparse

    ones = np.ones(len(Y)) if weights is None else weights
    total = float(ones.sum())
    Z = Z.astype(np.float64)
    p = Z.shape[1]
    means = np.r_[np.asarray(Z.T @ ones).reshape(-1), ones @ Y] / total
    D = (Y - means[p:]) * np.sqrt(ones)[:, None]
    white = sparse.csr_array(Z.multiply(np.sqrt(ones)[:, None]))
    own = np.empty((len(means), len(means)))
    own[:p, :p] = (white.T @ white).toarray()
    own[:p, :p] -= total * means[:p, None] * means[:p]
    own[p:, :p] = (white.T @ D).T
    own[p:, p:] = D.T @ D
    scatter += np.tril(own)
    squares = np.r_[np.asarray(white.multiply(white).sum(axis=0)).reshape(-1), np.diag(own)[p:]]
    return Part(means, np.zeros_like(means), squares, total, len(Y))


class DeviceSums:
    """Products of rows that lie on a device with float64, held there until they are asked for.

    Parameters
    ----------
    Z : array
        Rows of its library and device are taken.
    size : int
        Number of features and targets.
    """

    def __init__(self, Z: Any, size: int) -> None:
        kind = Kind.of(Z)
        assert kind is not None
        self.kind, self.xp = kind, kind.xp
        self._scatter = self.xp.zeros((size, size), dtype=self.xp.float64, device=kind.device)

    def fits(self, Z: Any) -> bool:
        """Whether rows are of the same library, and on the same device."""
        return Kind.of(Z) == self.kind

    def add_rows(self, Z: Any, Y: Array, weights: Array | None) -> Part:
        """Add products of some rows; `Y` and weights are NumPy arrays."""
        xp, kind = self.xp, self.kind
        B = xp.concat([xp.astype(Z, xp.float64), kind.give(Y)], axis=1)
        ones = kind.give(np.ones(len(Y)) if weights is None else weights)
        total = float(len(Y) if weights is None else weights.sum())
        means = ones @ B / total
        B = B - means
        left = ones @ B / total
        B = B - left
        if weights is not None:
            B = B * xp.sqrt(ones)[:, None]
        self._scatter = self._scatter + B.T @ B
        sums = kind.take(xp.stack([means, left, xp.sum(B * B, axis=0)]))
        return Part(sums[0], sums[1], sums[2], total, len(Y))

    def spread(self, share: float, between: Array) -> None:
        """Add ``share between between'``."""
        column = self.kind.give(between)
        self._scatter = self._scatter + share * (column[:, None] * column)

    def lower(self) -> Array:
        """The lower triangle of what was added."""
        return np.asfortranarray(np.tril(self.kind.take(self._scatter)))


class Products:
    """Products of deviations: those of rows on the processor, and of rows on a device until they are asked for."""

    _held: Array
    _reach: Array
    _there: DeviceSums | None

    @contextmanager
    def unchanged_by_errors(self) -> Iterator[None]:
        """Take back what was added on another device before an error, such as one of a full memory there.

        Rows on the processor are added in place, and are not taken back.
        """
        before = vars(self) | {"_reach": self._reach.copy(), "_there": copy.copy(self._there)}
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    @property
    def _scatter(self) -> Array:
        """Products of deviations, of which the lower triangle counts."""
        self._settle()
        return self._held

    @_scatter.setter
    def _scatter(self, values: Array) -> None:
        self._held, self._there = values, None

    def _settle(self) -> None:
        if self._there is not None:
            self._scatter = self._held + self._there.lower()

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return self.__dict__
