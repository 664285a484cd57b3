"""The ridge machine: linear systems with ``Q = K(d) + alpha * N`` for one combined kernel.

N is diagonal, the inverse of the sample weights. Two implementations: a Cholesky factor of Q (n, n),
or, when the active kernels are held as factors of low total rank, the Woodbury identity in that rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

if TYPE_CHECKING:
    from kernelweave.gram import Gram

Array = NDArray[np.float64]

#: Smallest alpha, as a share of trace(K), at which the Woodbury identity keeps enough digits.
LOW_RANK_FLOOR = 1e-9


class DenseSystem:
    """Cholesky factor of Q; costs n^3 / 3.

    Parameters
    ----------
    upper : array of shape (n, n)
        Upper triangle of K(d), C-ordered; overwritten.
    alpha : float
    inverse_weights : array of shape (n,)
        Diagonal of N.
    """

    def __init__(self, upper: Array, alpha: float, inverse_weights: Array) -> None:
        self.alpha, self.inverse_weights = alpha, inverse_weights
        upper.reshape(-1)[:: len(upper) + 1] += alpha * inverse_weights
        # the upper triangle in C order is the lower one of the Fortran-ordered transpose
        self._factor, info = lapack.dpotrf(upper.T, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefinite("alpha is below the rounding error of the kernels")

    def solve(self, B: Array) -> Array:
        """``Q^-1 B`` for B of shape (n, k)."""
        return lapack.dpotrs(self._factor, B, lower=1)[0]

    def inner(self, V: Array) -> Array:
        """``V' Q^-1 V`` for V of shape (n, k)."""
        half = blas.dtrsm(1.0, self._factor, V, lower=1)
        return half.T @ half

    def log_det(self) -> float:
        """``log det Q``."""
        return 2.0 * float(np.log(np.diag(self._factor)).sum())

    def inverse_diagonal(self) -> Array:
        """Diagonal of ``Q^-1``; costs n^3 / 3."""
        inverse, _ = lapack.dtrtri(self._factor, lower=1)
        # entries above the diagonal are not part of the factor
        return np.square(np.tril(inverse)).sum(axis=0)


class NotPositiveDefinite(ArithmeticError):
    """The Cholesky factorisation failed: alpha is below the rounding error of the kernels."""


class LowRankSystem:
    """Q through the factor ``Z`` (rank, n) of K(d) = Z'Z; costs n rank^2.

    With whitened rows ``A = Z N^-1/2`` and ``S = alpha I + A A'`` (rank, rank):
    ``Q^-1 = N^-1/2 (I - A' S^-1 A) N^-1/2 / alpha``.
    """

    def __init__(self, factor: Array, alpha: float, inverse_weights: Array) -> None:
        self.alpha, self.inverse_weights = alpha, inverse_weights
        self._root = np.sqrt(1.0 / inverse_weights)
        self._A = factor * self._root
        S = self._A @ self._A.T
        S.flat[:: len(S) + 1] += alpha
        self._S, info = lapack.dpotrf(S, lower=1)
        if info != 0:
            raise NotPositiveDefinite("alpha is below the rounding error of the kernels")

    def solve(self, B: Array) -> Array:
        """``Q^-1 B`` for B of shape (n, k)."""
        W = B * self._root[:, None]
        inside = lapack.dpotrs(self._S, self._A @ W, lower=1)[0]
        return (W - self._A.T @ inside) * (self._root / self.alpha)[:, None]

    def inner(self, V: Array) -> Array:
        """``V' Q^-1 V`` for V of shape (n, k)."""
        W = V * self._root[:, None]
        half = blas.dtrsm(1.0, self._S, self._A @ W, lower=1)
        return (W.T @ W - half.T @ half) / self.alpha

    def log_det(self) -> float:
        """``log det Q``."""
        n, rank = len(self.inverse_weights), len(self._S)
        logs = 2.0 * float(np.log(np.diag(self._S)).sum())
        return logs + (n - rank) * float(np.log(self.alpha)) + float(np.log(self.inverse_weights).sum())

    def inverse_diagonal(self) -> Array:
        """Diagonal of ``Q^-1``."""
        half = blas.dtrsm(1.0, self._S, self._A, lower=1)
        return np.square(self._root) * (1.0 - np.square(half).sum(axis=0)) / self.alpha


RidgeSystem = DenseSystem | LowRankSystem


class Workspace:
    """One (n, n) matrix, allocated for the first dense factor and used again."""

    def __init__(self) -> None:
        self._square: Array | None = None

    def square(self, n: int) -> Array:
        """A matrix (n, n) with arbitrary content."""
        if self._square is None or len(self._square) != n:
            self._square = np.empty((n, n))
        return self._square


def ridge_system(
    gram: Gram, weights: Array, alpha: float, inverse_weights: Array, work: Workspace | None = None
) -> RidgeSystem:
    """Factorise ``Q = sum_m weights[m] K_m + alpha N`` in the cheaper of the two ways.

    Parameters
    ----------
    gram : Gram
        Only `factor` and `combine_upper` are used.
    weights : array of shape (n_kernels,)
    alpha : float
    inverse_weights : array of shape (n_samples,)
    work : Workspace, optional
        Saves allocations; a system made with it is overwritten by the next.
    """
    n = gram.n_samples
    ranks = gram.ranks[np.flatnonzero(weights)]
    total = int(ranks.sum())
    # flops: n r^2 + r^3/3 against n^3/3 and n^2 r to form the matrix. The identity loses trace/alpha in digits,
    # so the dense factor is used if alpha is tiny, and if there are no rows
    if (ranks >= 0).all() and 0 < 2 * total < n:
        rows = gram.factor(weights)
        if rows is not None and alpha * inverse_weights.min() > LOW_RANK_FLOOR * float(
            np.einsum("rn,rn->", rows, rows)
        ):
            return LowRankSystem(rows, alpha, inverse_weights)
    upper = gram.combine_upper(weights, None if work is None else work.square(n))
    return DenseSystem(upper, alpha, inverse_weights)
