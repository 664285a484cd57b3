"""The ridge machine: linear systems with ``Q = K(d) + alpha * N`` for one combined kernel.

N is diagonal, the inverse of the sample weights. Three implementations: a Cholesky factor of Q (n, n); of many rows,
conjugate gradients with a factor in single precision of Q, or of a matrix before it; or, when the active kernels are
held as factors of low total rank, the Woodbury identity in that rank.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from kernelweave._types import Array
from kernelweave.gram.base import Gram, pieces

#: Smallest alpha, as a share of trace(K), at which the Woodbury identity keeps enough digits.
LOW_RANK_FLOOR = 1e-9
#: Numbers that are computed at a time.
PIECE = 2**20
#: Rows up to which a triangle is inverted as a whole.
LEAST_ROWS = 64
#: Rows from which systems of a workspace are solved by conjugate gradients, the relative residual at which these end,
#: and for how many rows there may be one iteration: so many take half of the time of a factorisation.
NEAR_ROWS, NEAR_TOL, ROWS_EACH = 1000, 1e-11, 200


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
        self._factorise(upper)

    def _factorise(self, upper: Array) -> None:
        # the upper triangle in C order is the lower one of the Fortran-ordered transpose
        self._factor, info = lapack.dpotrf(upper.T, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefinite("alpha is below the rounding error of the kernels")

    def solve(self, B: Array) -> Array:
        """``Q^-1 B`` for B of shape (n, k)."""
        if B.shape[1] == 1:
            # a third of the time of dpotrs
            half = blas.dtrsv(self._factor, B[:, 0], lower=1)
            return blas.dtrsv(self._factor, half, lower=1, trans=1, overwrite_x=1)[:, None]
        return lapack.dpotrs(self._factor, B, lower=1)[0]

    def inner(self, V: Array) -> Array:
        """``V' Q^-1 V`` for V of shape (n, k)."""
        half = blas.dtrsm(1.0, self._factor, V, lower=1)
        return half.T @ half

    def log_det(self) -> float:
        """``log det Q``."""
        return 2.0 * float(np.log(np.diag(self._factor)).sum())

    def inverse_diagonal(self) -> Array:
        """Diagonal of ``Q^-1``; costs n^3 / 3 and no memory: it takes the place of the factor, for the last use."""
        inverse = self._factor
        del self._factor
        invert_lower(inverse)
        n = len(inverse)
        out = np.empty(n)
        for part in pieces(n, PIECE // n):
            own, below = inverse[part, part], inverse[part.stop :, part]
            # entries above the diagonal are not part of the factor
            out[part] = np.square(np.tril(own)).sum(axis=0) + np.einsum("ij,ij->j", below, below)
        return out


def invert_lower(L: Array) -> None:
    """Put the inverse of a lower triangle in its place, at hundreds of rows in half the time of LAPACK's."""
    half = len(L) // 2
    if len(L) <= LEAST_ROWS:
        L[:] = lapack.dtrtri(L, lower=1)[0]
        return
    A, B, C = L[:half, :half], L[half:, :half], L[half:, half:]
    invert_lower(A)
    invert_lower(C)
    B[:] = blas.dtrmm(-1.0, C, blas.dtrmm(1.0, A, B, side=1, lower=1), lower=1, overwrite_b=1)


class NotPositiveDefinite(ArithmeticError):
    """The Cholesky factorisation failed: alpha is below the rounding error of the kernels."""


class LowRankSystem:
    """Q through the factor ``Z`` (rank, n) of K(d) = Z'Z; costs n rank^2.

    With whitened rows ``A = Z N^-1/2`` and ``S = alpha I + A A'`` (rank, rank):
    ``Q^-1 = N^-1/2 (I - A' S^-1 A) N^-1/2 / alpha``.

    Parameters
    ----------
    rows : array of shape (rank, n)
        Read a piece at a time, and not copied.
    scale : array of shape (rank,)
        ``Z = diag(scale) rows``.
    alpha : float
    inverse_weights : array of shape (n,)
        Diagonal of N.
    """

    def __init__(self, rows: Array, scale: Array, alpha: float, inverse_weights: Array) -> None:
        self.alpha, self.inverse_weights = alpha, inverse_weights
        self._root = np.sqrt(1.0 / inverse_weights)
        self._rows, self._scale = rows, scale
        S = np.zeros((len(rows), len(rows)))
        for _, A in self._parts():
            S += A @ A.T
        S.flat[:: len(S) + 1] += alpha
        self._S, info = lapack.dpotrf(S.T, lower=1, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefinite("alpha is below the rounding error of the kernels")

    def _parts(self) -> Iterator[tuple[slice, Array]]:
        """Some columns of A at a time, at least as many as there are rows: their product costs more than to add it."""
        n = self._rows.shape[1]
        for part in pieces(n, max(PIECE // max(1, len(self._rows)), len(self._rows))):
            yield part, self._rows[:, part] * self._scale[:, None] * self._root[part]

    def _scores(self, W: Array) -> Array:
        """``A W`` for W of shape (n, k)."""
        return sum((A @ W[part] for part, A in self._parts()), np.zeros((len(self._rows), W.shape[1])))

    def solve(self, B: Array) -> Array:
        """``Q^-1 B`` for B of shape (n, k)."""
        W = B * self._root[:, None]
        inside = lapack.dpotrs(self._S, self._scores(W), lower=1)[0]
        for part, A in self._parts():
            W[part] -= A.T @ inside
        return W * (self._root / self.alpha)[:, None]

    def inner(self, V: Array) -> Array:
        """``V' Q^-1 V`` for V of shape (n, k)."""
        W = V * self._root[:, None]
        half = blas.dtrsm(1.0, self._S, self._scores(W), lower=1)
        return (W.T @ W - half.T @ half) / self.alpha

    def log_det(self) -> float:
        """``log det Q``."""
        n, rank = len(self.inverse_weights), len(self._S)
        logs = 2.0 * float(np.log(np.diag(self._S)).sum())
        return logs + (n - rank) * float(np.log(self.alpha)) + float(np.log(self.inverse_weights).sum())

    def inverse_diagonal(self) -> Array:
        """Diagonal of ``Q^-1``."""
        taken = np.empty(len(self._root))
        for part, A in self._parts():
            half = blas.dtrsm(1.0, self._S, A, lower=1)
            taken[part] = np.einsum("rn,rn->n", half, half)
        return np.square(self._root) * (1.0 - taken) / self.alpha


class Workspace:
    """One (n, n) matrix, allocated for the first dense factor and used again; and a factor in single precision."""

    def __init__(self) -> None:
        self._square: Array | None = None
        self._factor: NDArray[np.float32] | None = None
        self._unit = 1.0
        #: The mark of the system whose matrix is factorised.
        self.owner: object | None = None

    def square(self, n: int) -> Array:
        """A matrix (n, n) with arbitrary content."""
        if self._square is None or len(self._square) != n:
            self._square, self._factor, self.owner = np.empty((n, n)), None, None
        return self._square

    def factorise(self, owner: object, upper: Array) -> bool:
        """Factorise the matrix of a system in single precision; whether this was possible."""
        n = len(upper)
        # as Fortran would have it, the lower triangle
        factor = np.empty((n, n), dtype=np.float32) if self._factor is None else self._factor.T
        self.owner, self._unit = None, float(upper.reshape(-1)[:: n + 1].max())
        for part in pieces(n, PIECE // n):
            np.multiply(
                upper[part, part.start :],
                1.0 / self._unit,
                out=factor[part, part.start :],
                casting="same_kind",
            )
        self._factor, info = lapack.spotrf(factor.T, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            self.owner = owner
        return bool(info == 0)

    def near(self, B: Array) -> Array:
        """The inverse of the factorised matrix times B of shape (n, k)."""
        size = np.maximum(np.abs(B).max(axis=0), np.finfo(float).tiny)
        thin = np.asfortranarray(B / size, dtype=np.float32)
        if B.shape[1] == 1:
            half = blas.strsv(self._factor, thin[:, 0], lower=1, overwrite_x=1)
            thin = blas.strsv(self._factor, half, lower=1, trans=1, overwrite_x=1)[:, None]
        else:
            thin = lapack.spotrs(self._factor, thin, lower=1, overwrite_b=1)[0]
        return thin * (size / self._unit)


class NearSystem(DenseSystem):
    """Q of many rows: conjugate gradients with a factor in single precision, of Q or of a matrix before it.

    Where these would take longer than a factorisation, Q is factorised, in single precision first. The parameters are
    those of `DenseSystem`, and a workspace, which has the factor if there was a matrix before.
    """

    def __init__(self, upper: Array, alpha: float, inverse_weights: Array, work: Workspace) -> None:
        self._work, self._whole = work, False
        # without a reference to the system, which has one to the workspace
        self._mark = object()
        super().__init__(upper, alpha, inverse_weights)

    def _factorise(self, upper: Array) -> None:
        self._upper = upper
        if self._work.owner is None:
            self._anew()

    def _anew(self) -> None:
        if self._work.owner is self._mark or not self._work.factorise(self._mark, self._upper):
            self._in_double()

    def _in_double(self) -> None:
        if not self._whole:
            super()._factorise(self._upper)
            self._whole = True

    def _times(self, B: Array) -> Array:
        if B.shape[1] == 1:
            return blas.dsymv(1.0, self._upper.T, B[:, 0], lower=1)[:, None]
        return blas.dsymm(1.0, self._upper.T, B, lower=1)

    def _gradients(self, B: Array) -> Array | None:
        """``Q^-1 B``, or None if it takes too many iterations."""
        X, R, P, before = np.zeros_like(B), B.copy(), np.zeros_like(B), np.ones(B.shape[1])
        enough = NEAR_TOL * np.linalg.norm(B, axis=0)
        for _ in range(max(1, len(B) // ROWS_EACH)):
            Z = self._work.near(R)
            now = np.einsum("nk,nk->k", R, Z)
            P = Z + now / before * P
            across = self._times(P)
            curved = np.einsum("nk,nk->k", P, across)
            if not (curved >= 0).all():
                return None
            step = np.divide(now, curved, out=np.zeros_like(now), where=curved > 0)
            X, R, before = X + step * P, R - step * across, np.maximum(now, np.finfo(float).tiny)
            if (np.linalg.norm(R, axis=0) <= enough).all():
                return X
        return None

    def solve(self, B: Array) -> Array:
        """``Q^-1 B`` for B of shape (n, k)."""
        while not self._whole:
            found = self._gradients(B)
            if found is not None:
                return found
            self._anew()
        return super().solve(B)

    def inner(self, V: Array) -> Array:
        """``V' Q^-1 V`` for V of shape (n, k), from below.

        In the span of ``X = M^-1 V``, M being what is factorised: the error is of second order in ``M - Q``.
        """
        if self._whole:
            return super().inner(V)
        X = self._work.near(V)
        along = X.T @ V
        found: Array = along.T @ np.linalg.lstsq(X.T @ self._times(X), along, rcond=1e-12)[0]
        return 0.5 * (found + found.T)

    def log_det(self) -> float:
        """``log det Q``, of a factor in double precision."""
        self._in_double()
        return super().log_det()

    def inverse_diagonal(self) -> Array:
        """Diagonal of ``Q^-1``, of a factor in double precision."""
        self._in_double()
        return super().inverse_diagonal()


RidgeSystem = DenseSystem | LowRankSystem


def ridge_system(
    gram: Gram, weights: Array, alpha: float, inverse_weights: Array, work: Workspace | None = None
) -> RidgeSystem:
    """Factorise ``Q = sum_m weights[m] K_m + alpha N`` in the cheapest way.

    Parameters
    ----------
    gram : Gram
        Only `scaled_factor` and `combine` are used.
    weights : array of shape (n_kernels,)
    alpha : float
    inverse_weights : array of shape (n_samples,)
    work : Workspace, optional
        Saves allocations, and of many rows factorisations; a system made with it is overwritten by the next.
    """
    n = gram.n_samples
    ranks = gram.ranks[np.flatnonzero(weights)]
    total = int(ranks.sum())
    # flops: n r^2 + r^3/3 against n^3/3 and n^2 r to form the matrix. The identity loses trace/alpha in digits,
    # so the dense factor is used if alpha is tiny, and if there are no rows
    if (ranks >= 0).all() and 0 < 2 * total < n:
        found = gram.scaled_factor(weights)
        if found is not None:
            rows, scale = found
            trace = float(np.square(scale) @ np.einsum("rn,rn->r", rows, rows))
            if alpha * inverse_weights.min() > LOW_RANK_FLOOR * trace:
                return LowRankSystem(rows, scale, alpha, inverse_weights)
    upper = gram.combine(weights, None if work is None else work.square(n), upper=True)
    if work is not None and n >= NEAR_ROWS:
        return NearSystem(upper, alpha, inverse_weights, work)
    return DenseSystem(upper, alpha, inverse_weights)
