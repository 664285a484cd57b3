"""The machine with the squared loss: one linear system, with an intercept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from kernelweave._threads import blas_threads_for

Array = NDArray[np.float64]


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
        n = len(A)
        added = jitter * max(float(np.abs(A.diagonal()).mean()), 1e-100)
        with blas_threads_for(n):
            while True:
                shifted = A.copy()
                shifted.flat[:: n + 1] += added
                factor, info = lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)
                if info == 0:
                    break
                added = max(100.0 * added, 1e-100)
                if not np.isfinite(added):
                    raise FloatingPointError("no multiple of the identity makes the matrix positive definite")
            self._factor = factor
            self._ones = self._plain(np.ones(n))
        self._total = float(self._ones.sum()) if fit_intercept else np.inf

    def _plain(self, g: Array) -> Array:
        return lapack.dpotrs(self._factor, g, lower=1)[0]

    def solve(self, g: Array, s: float = 0.0) -> tuple[Array, float]:
        """Return x and t for one right-hand side."""
        x = self._plain(g)
        t = (float(x.sum()) - s) / self._total
        return x - t * self._ones, t

    def quadratic_forms(self, U: Array) -> Array:
        """``U P U'`` for U of shape (k, n), with P from `inverse`, at the cost of one triangular solution."""
        right = np.column_stack([U.T, np.ones(len(self._ones))])
        with blas_threads_for(len(right)):
            half = lapack.dtrtrs(self._factor, right, lower=1)[0]
            inner = half.T @ half
        cross = inner[:-1, -1]
        if np.isinf(self._total):
            return inner[:-1, :-1]
        return inner[:-1, :-1] - np.outer(cross, cross) / inner[-1, -1]

    def inverse(self) -> Array:
        """The inverse of the bordered matrix without its last row and column."""
        n = len(self._ones)
        inverse = self._plain(np.eye(n))
        return inverse - np.outer(self._ones, self._ones) / self._total


def solve_least_squares(
    K: Array, y: Array, costs: Array, *, fit_intercept: bool = True
) -> tuple[Array, float]:
    """Minimise ``1/2 ||w||^2 + 1/2 sum_i C_i (y_i - f_i)^2`` over f = <w, phi(x)> + intercept.

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric positive semidefinite.
    y : array of shape (n_samples,)
    costs : array of shape (n_samples,)
        C_i >= 0; rows with 0 are ignored.
    fit_intercept : bool, default=True

    Returns
    -------
    dual_coef : array of shape (n_samples,)
    intercept : float
    """
    used = np.flatnonzero(costs > 0)
    block = K[np.ix_(used, used)]
    block.flat[:: len(used) + 1] += 1.0 / costs[used]
    system = Bordered(block, jitter=0.0, fit_intercept=fit_intercept)
    x, intercept = system.solve(y[used])
    rest = y[used] - block @ x - intercept
    dx, dt = system.solve(rest)  # one step of refinement
    x, intercept = x + dx, intercept + dt
    b = np.zeros(len(y))
    b[used] = x - x.sum() / len(x) if fit_intercept else x
    return b, float(intercept)
