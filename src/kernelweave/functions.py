"""Kernels as functions of inner products or squared distances, with their derivatives, one formula for each kernel.

Kernels on tables (`kernelweave.kernels`), layers of deep kernels and Gaussians whose widths are learnt all evaluate the
objects of this module. Everything is written against the array API and works on NumPy arrays and on tensors; ``xp`` is
the namespace of the arrays. The compiled loops of layers have the same formulas, and these are their oracle.

A kernel that is a function of inner products can be evaluated in the feature space of another kernel K: ``x . z``
becomes ``K(x, z)``, and ``||x - z||^2`` becomes ``K(x, x) + K(z, z) - 2 K(x, z)``. So a function takes three arrays:
inner products, and the squared norms of the rows on the left and on the right, in shapes that broadcast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

__all__ = [
    "Angle",
    "Exponential",
    "Gaussian",
    "Identity",
    "KernelFunction",
    "Pointwise",
    "Power",
    "decay",
    "squared_distances",
]


class KernelFunction(ABC):
    """A kernel as a function phi(K, left, right) of inner products K and squared norms.

    On tables K, `left` and `right` are arrays of any shapes that broadcast to that of K; layers of kernels pass K of
    shape (n, m) and diagonals of shapes (n, 1) and (1, m).
    """

    #: Number of the compiled loop; None if there is none.
    code: ClassVar[int | None] = None

    def numbers(self) -> tuple[float, float]:
        """Parameters of the compiled loop."""
        return (0.0, 0.0)

    @abstractmethod
    def value(self, xp: ModuleType, K: Any, left: Any, right: Any, out: Any = None) -> Any:
        """Values phi(K, left, right).

        `out` is for NumPy arrays: the array for the values; it may be K itself. Without it K is not changed, and may be
        returned.
        """

    @abstractmethod
    def partials(self, xp: ModuleType, K: Any, left: Any, right: Any, value: Any) -> tuple[Any, Any]:
        """Derivatives by K and by `left`; None for a derivative that is zero. Entries on the diagonal are not used."""

    @abstractmethod
    def diagonal(self, xp: ModuleType, kappa: Any) -> Any:
        """``phi(kappa, kappa, kappa)``: the values of rows with themselves, from their squared norms."""

    @abstractmethod
    def slope(self, xp: ModuleType, kappa: Any) -> Any:
        """Derivative of `diagonal`."""


# ---- arithmetic in place for NumPy arrays -----------------------------------------------------


def _times(x: Any, factor: float, out: Any) -> Any:
    """A multiple in a new array, or in `out`."""
    return np.multiply(x, factor, out=out) if isinstance(x, np.ndarray) else x * factor


def _over(function: Any, x: Any) -> Any:
    """A function of a temporary array, in place."""
    return function(x, out=x) if isinstance(x, np.ndarray) else function(x)


def _clip(xp: ModuleType, x: Any, least: float | None, most: float | None) -> Any:
    """A temporary array, clipped in place."""
    return np.clip(x, least, most, out=x) if isinstance(x, np.ndarray) else xp.clip(x, least, most)


def _raised(x: Any, exponent: int) -> Any:
    """A power >= 1 of a temporary array, in place, by repeated squaring."""
    digits = bin(exponent)[3:]
    first = x + 0.0 if "1" in digits else x
    for digit in digits:
        x *= x
        if digit == "1":
            x *= first
    return x


def _sine(xp: ModuleType, cosine: Any) -> Any:
    """Sine of the angle between 0 and pi, from its cosine; as accurate as from the angle, and faster."""
    square = 1.0 - cosine
    square *= 1.0 + cosine
    return _over(xp.sqrt, square)


# ---- functions of inner products ------------------------------------------------------------------


@dataclass(frozen=True)
class Identity(KernelFunction):
    """The linear kernel: K itself."""

    code: ClassVar[int] = 0

    def value(self, xp, K, left, right, out=None):
        if out is None or out is K:
            return K
        out[...] = K
        return out

    def partials(self, xp, K, left, right, value):
        return xp.ones_like(K), None

    def diagonal(self, xp, kappa):
        return kappa

    def slope(self, xp, kappa):
        return xp.ones_like(kappa)


@dataclass(frozen=True)
class Power(KernelFunction):
    """The polynomial kernel ``(gamma K + coef0) ** degree``."""

    degree: int = 2
    coef0: float = 1.0
    gamma: float = 1.0

    @property
    def code(self) -> int | None:  # type: ignore[override]
        """The compiled loop has no gamma."""
        return 1 if self.gamma == 1.0 else None

    def numbers(self):
        return (float(self.degree), self.coef0)

    def _raised(self, xp: ModuleType, K: Any, degree: int, out: Any = None) -> Any:
        base = _times(K, self.gamma, out)
        base += self.coef0
        return _raised(base, degree)

    def value(self, xp, K, left, right, out=None):
        return self._raised(xp, K, self.degree, out)

    def partials(self, xp, K, left, right, value):
        factor = self.degree * self.gamma
        if self.degree == 1:
            return factor * xp.ones_like(K), None
        return factor * self._raised(xp, K, self.degree - 1), None

    def diagonal(self, xp, kappa):
        return self._raised(xp, kappa, self.degree)

    def slope(self, xp, kappa):
        return self.partials(xp, kappa, kappa, kappa, None)[0]


@dataclass(frozen=True)
class Angle(KernelFunction):
    """The arc-cosine kernel ``(left right)^(degree / 2) J_degree(theta) / pi`` of one layer; degree 0, 1 or 2.

    theta is the angle between the rows, and

        J_0 = pi - theta,   J_1 = sin theta + (pi - theta) cos theta,
        J_2 = 3 sin theta cos theta + (pi - theta)(1 + 2 cos^2 theta) .

    A row of length zero is treated as orthogonal to all others.
    """

    degree: int = 1
    code: ClassVar[int] = 3

    def numbers(self):
        return (float(self.degree), 0.0)

    def _parts(self, xp: ModuleType, K: Any, left: Any, right: Any) -> tuple[Any, Any, Any, Any]:
        """The cosine, the factor before J / pi, the norm, 1 where it vanishes, and where it does not."""
        square = left * right
        norm = xp.sqrt(square)
        lengths = 1.0 if self.degree == 0 else norm if self.degree == 1 else square
        long = norm > 0
        if not (isinstance(K, np.ndarray) and np.all(long)):
            norm = xp.where(long, norm, xp.ones_like(norm))
            K = xp.where(long, K, xp.zeros_like(K))
        return _clip(xp, K / norm, -1.0, 1.0), lengths, norm, long

    def value(self, xp, K, left, right, out=None):
        cosine, lengths, _, _ = self._parts(xp, K, left, right)
        # pi - theta
        value = _over(xp.acos, -cosine)
        if self.degree > 0:
            sine = _sine(xp, cosine)
            value *= cosine if self.degree == 1 else 1.0 + 2.0 * cosine * cosine
            value += sine if self.degree == 1 else 3.0 * sine * cosine
        value /= np.pi
        value *= lengths
        if out is None:
            return value
        out[...] = value
        return out

    def partials(self, xp, K, left, right, value):
        c, lengths, norm, long = self._parts(xp, K, left, right)
        sine = _sine(xp, c)
        if self.degree == 0:
            # parallel rows have no derivative; the angle does not change there when both are scaled
            slope = xp.where(
                sine > 0, 1.0 / xp.where(sine > 0, np.pi * sine, xp.ones_like(c)), xp.zeros_like(c)
            )
        elif self.degree == 1:
            slope = xp.acos(-c) / np.pi
        else:
            slope = 4.0 * (sine + xp.acos(-c) * c) / np.pi
        turn = lengths * slope
        stretch = 0.5 * self.degree * value - 0.5 * turn * c
        safe = xp.where(left > 0, left, xp.ones_like(left))
        none = xp.zeros_like(K)
        return xp.where(long, turn / norm, none), xp.where(long, stretch / safe, none)

    def diagonal(self, xp, kappa):
        if self.degree == 0:
            return xp.where(kappa > 0, xp.ones_like(kappa), 0.5 * xp.ones_like(kappa))
        # in the same order as off the diagonal, so that a row and its copy are exactly parallel in the next layer
        return kappa if self.degree == 1 else 3.0 * (kappa * kappa)

    def slope(self, xp, kappa):
        if self.degree == 0:
            return xp.zeros_like(kappa)
        return xp.ones_like(kappa) if self.degree == 1 else 6.0 * kappa


@dataclass(frozen=True)
class Exponential(KernelFunction):
    """``exp(K)``, the second layer of 2LMKL. Its cosine normalisation is `Gaussian` with gamma 1/2."""

    code: ClassVar[int] = 4

    def value(self, xp, K, left, right, out=None):
        return xp.exp(K) if out is None else np.exp(K, out=out)

    def partials(self, xp, K, left, right, value):
        return value, None

    def diagonal(self, xp, kappa):
        return xp.exp(kappa)

    def slope(self, xp, kappa):
        return xp.exp(kappa)


@dataclass(frozen=True)
class Pointwise(KernelFunction):
    """A function of the inner product alone, with its derivative.

    Attributes
    ----------
    function, derivative : callable
        Take and return arrays of one shape. A power series with nonnegative coefficients gives a kernel.
    """

    function: Callable[[Any], Any]
    derivative: Callable[[Any], Any]

    def value(self, xp, K, left, right, out=None):
        value = self.function(K)
        if out is None:
            return value
        out[...] = value
        return out

    def partials(self, xp, K, left, right, value):
        return self.derivative(K), None

    def diagonal(self, xp, kappa):
        return self.function(kappa)

    def slope(self, xp, kappa):
        return self.derivative(kappa)


# ---- functions of distances -----------------------------------------------------------------------


def squared_distances(xp: ModuleType, K: Any, left: Any, right: Any, out: Any = None) -> Any:
    """``left + right - 2 K``: the squared distances from inner products, never negative.

    Parameters
    ----------
    xp : array API namespace
    K : array
        Inner products.
    left, right : arrays that broadcast against K
        Squared norms of the rows on either side.
    out : array, optional
        NumPy only: the array for the distances; may be K itself.

    Returns
    -------
    array of the shape of K
        Exactly symmetric if K is. Negative values by rounding are set to zero.
    """
    D = left - K
    rest = np.subtract(right, K, out=out) if isinstance(K, np.ndarray) else right - K
    rest += D
    return _clip(xp, rest, 0.0, None)


def decay(xp: ModuleType, D: Any, gamma: float, out: Any = None) -> Any:
    """``exp(-gamma D)`` of distances D; its derivative by D is ``-gamma`` times the value.

    Parameters
    ----------
    xp : array API namespace
    D : array
    gamma : float
    out : array, optional
        NumPy only: the array for the values; may be D itself.
    """
    return _over(xp.exp, _times(D, -gamma, out))


@dataclass(frozen=True)
class Gaussian(KernelFunction):
    """The Gaussian kernel ``exp(-gamma D)`` of squared distances ``D = left + right - 2 K``."""

    gamma: float = 1.0
    code: ClassVar[int] = 2

    def numbers(self):
        return (self.gamma, 0.0)

    def of_distances(self, xp: ModuleType, D: Any, out: Any = None) -> Any:
        """Values at squared distances; see `decay`."""
        return decay(xp, D, self.gamma, out)

    def by_distances(self, value: Any) -> Any:
        """Derivative by the squared distances, from the values."""
        return -self.gamma * value

    def value(self, xp, K, left, right, out=None):
        D = squared_distances(xp, K, left, right, out)
        return self.of_distances(xp, D, D if isinstance(D, np.ndarray) else None)

    def partials(self, xp, K, left, right, value):
        by_distance = self.by_distances(value)
        return -2.0 * by_distance, by_distance

    def diagonal(self, xp, kappa):
        return xp.ones_like(kappa)

    def slope(self, xp, kappa):
        return xp.zeros_like(kappa)
