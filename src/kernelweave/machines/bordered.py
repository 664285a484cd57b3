"""Linear systems of machines: a matrix with a border of ones, for coefficients that sum to a number."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from kernelweave._checks import NotPSDError
from kernelweave._threads import blas_threads_for
from kernelweave._types import Array
from kernelweave.machines.box import INDEFINITE
from kernelweave.machines.rounding import EPS

#: Number of attempts with jitter on the diagonal, ten times as much each time, before a matrix counts as indefinite.
JITTERS = 3


class Bordered:
    """Solutions of ``[A 1; 1' 0] [x; t] = [g; s]`` for a positive semidefinite A.

    If A is singular, a multiple of the identity is added.

    Parameters
    ----------
    A : array of shape (n, n)
    jitter : float
        Smallest multiple of the identity, as a share of the mean diagonal; increased until the factorisation succeeds.
    fit_intercept : bool
        False leaves out the border.
    """

    def __init__(self, A: Array, jitter: float = 1e-10, *, fit_intercept: bool = True) -> None:
        added = jitter * max(float(np.abs(A.diagonal()).mean()), 1e-100)
        while not self._factorise(A.copy(), added):
            added = max(100.0 * added, 1e-100)
            if not np.isfinite(added):
                raise FloatingPointError("no multiple of the identity makes the matrix positive definite")
        self._border(np.ones(len(A)), fit_intercept)

    def _factorise(self, A: Array, added: float) -> bool:
        """Factorise A with a multiple of the identity, in the place of A; returns whether it is positive definite."""
        A.flat[:: len(A) + 1] += added
        with blas_threads_for(len(A)):
            self._factor, info = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
        return bool(info == 0)

    def _border(self, root: Array, fit_intercept: bool) -> None:
        """The border, scaled like rows and columns of the factor."""
        self._root = root
        self._ones = self._inverse(root)
        # without an intercept the sum is free: its multiplier is zero
        self._total = float(root @ self._ones) if fit_intercept else np.inf

    def _inverse(self, g: Array) -> Array:
        return lapack.dpotrs(self._factor, g, lower=1)[0]

    def solve(self, g: Array, s: float = 0.0) -> tuple[Array, float]:
        """Return x and t for one right-hand side."""
        return self.solve_scaled(self._root * g, s)

    def solve_scaled(self, scaled: Array, s: float = 0.0) -> tuple[Array, float]:
        """The same for the right-hand side ``scaled / root``."""
        x = self._inverse(scaled)
        t = (float(self._root @ x) - s) / self._total
        return self._root * (x - t * self._ones), t

    def quadratic_forms(self, U: Array) -> Array:
        """``U P U'`` for U of shape (k, n), P the inverse without its last row and column; one triangular solution."""
        right = np.column_stack([(U * self._root).T, self._root])
        with blas_threads_for(len(right)):
            half = lapack.dtrtrs(self._factor, right, lower=1)[0]
            inner = half.T @ half
        cross = inner[:-1, -1]
        if np.isinf(self._total):
            return inner[:-1, :-1]
        return inner[:-1, :-1] - np.outer(cross, cross) / inner[-1, -1]

    def inverse(self) -> Array:
        """The inverse of the bordered matrix without its last row and column."""
        inverse = self._inverse(np.eye(len(self._ones)))
        return inverse - np.outer(self._ones, self._ones) / self._total


class Root(Protocol):
    """A factor U of a second derivative ``H = U U'``, by its products."""

    def transposed(self, Z: Array) -> Array:
        """``U'Z``."""

    def times(self, z: Array) -> Array:
        """``U z``."""


class Coupled:
    """``(K + H^-1)^-1`` for second derivatives ``H = U U'`` of rows together: ``U (I + U'K U)^-1 U'``.

    H may be singular: coefficients are in its range.
    """

    def __init__(self, K: Array, root: Root) -> None:
        self.root = root
        inner = np.ascontiguousarray(root.transposed(root.transposed(K).T))
        inner.flat[:: len(inner) + 1] += 1.0
        with blas_threads_for(len(inner)):
            self._factor, info = lapack.dpotrf(inner.T, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise NotPSDError(INDEFINITE)

    def solve(self, g: Array) -> Array:
        """The product with a vector."""
        return self.root.times(lapack.dpotrs(self._factor, self.root.transposed(g), lower=1)[0])

    def quadratic_forms(self, U: Array) -> Array:
        """``U P U'`` for U of shape (k, n), P the inverse."""
        with blas_threads_for(U.shape[1]):
            half = lapack.dtrtrs(self._factor, self.root.transposed(U.T), lower=1)[0]
            return np.asarray(half.T @ half)


class Weighted(Bordered):
    """``(K + W^-1)^-1`` on coefficients that sum to zero, or without an intercept on all, for weights W > 0.

    Rows and columns are scaled by the roots of W, so that small weights lose no digits.
    """

    def __init__(self, K: Array, W: Array, *, fit_intercept: bool = True) -> None:
        root = np.sqrt(W)
        # relative to entries much larger than 1 the identity is below rounding
        rounding = len(K) * EPS * max(float((K.diagonal() * W).max()), 0.0)
        for added in (0.0, *(rounding * 10.0**k for k in range(JITTERS))):
            scaled = K * root[:, None]
            scaled *= root
            if self._factorise(scaled, 1.0 + added):
                break
        else:
            raise NotPSDError(INDEFINITE)
        self._border(root, fit_intercept)
