"""Kernels with user-defined parameters, for criteria of margin and radius."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError

Array = NDArray[np.float64]

#: Step of differences, as a share of the parameter: near the cube root of the precision, which balances the errors.
STEP = 1e-5
#: Parameters below this share of the mean start use the step of this share.
LEAST = 1e-2


class KernelFamily:
    """A kernel matrix K(t) given as a function of parameters t >= 0, for `solve_radius`.

    Parameters
    ----------
    value : callable
        ``value(t)`` returns K(t) on the training rows, shape (n_samples, n_samples): symmetric, positive semidefinite
        and continuously differentiable for t >= 0.
    start : array-like of shape (n_parameters,)
        Where the descent starts, nonnegative and not all zero: typical sizes of the parameters. 0 is a lower
        bound; a parameter of either sign must be shifted, or written as a difference of two.
    derivative : callable, optional
        ``derivative(t)`` returns the matrices ``dK / dt_m``: an array of shape (n_parameters, n_samples, n_samples) or
        a sequence of matrices. Without it they are central differences of `value`, with a step of 1e-5 of the
        parameter: two more matrices for every parameter and step, and about ten digits instead of fifteen.

    Notes
    -----
    Holds the derivatives at one t: n_parameters n_samples^2 numbers. `solve_radius` gives parameters and coefficients;
    the values of f at other rows are ``k(rows, training rows; weights) @ dual_coef + intercept``.

    Examples
    --------
    A polynomial kernel of a weighted sum, as in "Learning non-linear combinations of kernels" (Cortes et al. 2009):

    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> y = np.sign(X[:, 0] * X[:, 1])
    >>> columns = X.T[:, :, None] * X.T[:, None, :]
    >>> family = kw.KernelFamily(
    ...     lambda t: np.tensordot(t, columns, 1) ** 2,
    ...     start=np.ones(3),
    ...     derivative=lambda t: 2 * np.tensordot(t, columns, 1) * columns,
    ... )
    >>> found = kw.solve_rkl(family, y, C=10.0)
    >>> int(np.argmin(found.weights)), found.stationarity <= 1e-4
    (2, True)
    """

    def __init__(
        self,
        value: Callable[[Array], ArrayLike],
        start: ArrayLike,
        derivative: Callable[[Array], ArrayLike | Sequence[ArrayLike]] | None = None,
    ) -> None:
        for name, function in (("value", value), ("derivative", derivative)):
            if not callable(function) and not (name == "derivative" and function is None):
                raise InputError(f"`{name}` must be a function of the parameters, got {function!r}.")
        first = np.array(start, dtype=np.float64)
        if (
            first.ndim != 1
            or not len(first)
            or not (np.isfinite(first) & (first >= 0)).all()
            or not first.any()
        ):
            raise InputError(
                f"`start` must hold one nonnegative number for each parameter, not all zero, got {start!r}."
            )
        self.value, self.derivative = value, derivative
        self.n_parameters = len(first)
        self._start = first
        self._steps_from = LEAST * float(first.mean())
        K = self._check(value(first.copy()), first)
        asymmetry, size = float(np.abs(K - K.T).max()), float(np.abs(K).max())
        if asymmetry > 1e-8 * size:
            raise InputError(
                f"`value` must return symmetric matrices, got max |K - K'| = {asymmetry:.3g} with entries up to "
                f"{size:.3g}."
            )
        self.n_samples = len(K)
        self._at: Array | None = None
        self._slopes = np.empty((0, 0, 0))

    def start(self, sample_weight: Array | None = None) -> Array:
        """Start of the descent."""
        return self._start.copy()

    def kernel(self, t: Array) -> Array:
        """K(t)."""
        K = self._check(self.value(t.copy()), t)
        return 0.5 * (K + K.T)

    def _check(self, K: ArrayLike, t: Array) -> Array:
        matrix = np.asarray(K, dtype=np.float64)
        n = getattr(self, "n_samples", len(matrix) if matrix.ndim else 0)
        if matrix.shape != (n, n) or not n:
            raise InputError(
                f"`value` must return a matrix of shape (n_samples, n_samples), got {matrix.shape}."
            )
        if not np.isfinite(matrix).all():
            raise InputError(f"`value` gave NaN or infinity at the parameters {t.tolist()!s:.200}.")
        return matrix

    def slopes(self, t: Array) -> Array:
        """``dK / dt_m``, shape (n_parameters, n_samples, n_samples)."""
        if self._at is None or not np.array_equal(self._at, t):
            self._slopes = self._differences(t) if self.derivative is None else self._given(t)
            self._at = t.copy()
        return self._slopes

    def _given(self, t: Array) -> Array:
        assert self.derivative is not None
        out = np.asarray(self.derivative(t.copy()), dtype=np.float64)
        wanted = (self.n_parameters, self.n_samples, self.n_samples)
        if out.shape != wanted:
            raise InputError(
                f"`derivative` must return one matrix for each parameter, shape {wanted}, got {out.shape}."
            )
        if not np.isfinite(out).all():
            raise InputError(f"`derivative` gave NaN or infinity at the parameters {t.tolist()!s:.200}.")
        return out

    def _differences(self, t: Array) -> Array:
        out = np.empty((self.n_parameters, self.n_samples, self.n_samples))
        for m, unit in enumerate(np.eye(self.n_parameters)):
            h = STEP * max(float(t[m]), self._steps_from)
            if t[m] >= h:
                # the function may return the same array each time
                out[m] = self.kernel(t + h * unit)
                out[m] -= self.kernel(t - h * unit)
            else:
                out[m] = 4.0 * self.kernel(t + h * unit)
                out[m] -= self.kernel(t + 2.0 * h * unit)
                out[m] -= 3.0 * self.kernel(t)
            out[m] /= 2.0 * h
        return out

    def quadratic_forms(self, t: Array, b: Array) -> Array:
        """``b' (dK / dt_m) b`` for every parameter."""
        return np.einsum("pij,i,j->p", self.slopes(t), b, b, optimize=True)

    def diagonals(self, t: Array, weights: Array) -> Array:
        """``sum_i weights_i (dK / dt_m)_ii`` for every parameter."""
        return np.einsum("pii,i->p", self.slopes(t), weights)
