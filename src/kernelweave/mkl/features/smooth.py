"""Losses as Newton's method on features needs them: with a first derivative everywhere.

The squared hinge and the logistic loss are such. The hinge and the tube are not, and are approached by the augmented
Lagrangian of their duals: at coefficients a_i of the rows and a radius r, the cost of a row is

    max_b  -conjugate(-b) - b f - (b - a)^2 / (2 r C_i) ,

whose maximiser b is feasible in the dual. With ``a = b`` again and again the solution becomes that of the loss itself;
a few radii are enough.

References
----------
R. T. Rockafellar, Augmented Lagrangians and applications of the proximal point algorithm in convex programming,
Mathematics of Operations Research 1 (1976).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from kernelweave.machines.logistic_loss import Logistic
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import EpsilonInsensitive, Hinge, SquaredHinge

Array = NDArray[np.float64]

#: Curvature of the logistic loss where it is linear, as a share of its slope: with less, steps would have no length.
FLATTEST = 1e-3
#: Steps to the best intercept.
MOST_STEPS = 200


class Smooth(ABC):
    """Costs of the rows with a derivative, as functions of the decision values f."""

    #: Whether coefficients are the derivative of the loss itself.
    exact: bool = True

    @abstractmethod
    def value(self, f: Array) -> float:
        """The sum of the costs."""

    @abstractmethod
    def coefficients(self, f: Array) -> Array:
        """Minus the derivatives, which are feasible coefficients of the rows but for their sum."""

    @abstractmethod
    def curvature(self, f: Array) -> Array:
        """Second derivatives, or somewhat more."""

    @abstractmethod
    def intercept(self, product: Array) -> float:
        """The best intercept for ``f = product + intercept``."""


@dataclass
class Exact(Smooth):
    """The squared hinge, or the logistic loss."""

    loss: Loss
    y: Array
    costs: Array

    def value(self, f: Array) -> float:
        """The sum of the costs."""
        return float(self.costs @ self.loss.losses(self.y, f))

    def coefficients(self, f: Array) -> Array:
        """Minus the derivatives."""
        return -self.loss.slope(self.y, self.costs, f)

    def curvature(self, f: Array) -> Array:
        """Second derivatives, or somewhat more."""
        if isinstance(self.loss, Logistic):
            p = expit(-self.y * f)
            return self.costs * p * np.maximum(1.0 - p, FLATTEST)
        return np.where(self.y * f < 1.0, self.costs, 0.0)

    def intercept(self, product: Array) -> float:
        """The best intercept for ``f = product + intercept``."""
        return self.loss.intercept(self.y, self.costs, product)


@dataclass
class Augmented(Smooth):
    """The hinge or the tube with the augmented Lagrangian of its dual.

    Attributes
    ----------
    loss : Loss
    y, costs : arrays of shape (n_rows,)
    centre : array of shape (n_rows,)
        The coefficients a.
    radius : float
    """

    loss: Loss
    y: Array
    costs: Array
    centre: Array
    radius: float
    exact: bool = False

    @property
    def _pull(self) -> Array:
        return self.radius * self.costs

    def coefficients(self, f: Array) -> Array:
        """Minus the derivatives."""
        pull = self._pull
        aim = self.centre + pull * (self.y - f)
        if isinstance(self.loss, EpsilonInsensitive):
            aim = np.sign(aim) * np.maximum(np.abs(aim) - pull * self.loss.epsilon, 0.0)
        low, high = self.loss.bounds(self.y, self.costs)
        return np.clip(aim, low, high)

    def value(self, f: Array) -> float:
        """The sum of the costs."""
        b, pull = self.coefficients(f), self._pull
        away = 0.5 * np.square(b - self.centre) / pull
        tube = self.loss.tube * float(np.abs(b).sum())
        return float(b @ (self.y - f)) - tube - float(away.sum())

    def curvature(self, f: Array) -> Array:
        """Second derivatives, or somewhat more."""
        b = self.coefficients(f)
        return np.where((b != 0.0) & (np.abs(b) < self.costs), self._pull, 0.0)

    def intercept(self, product: Array) -> float:
        """The root of the sum of the coefficients, which falls with the intercept, is linear in pieces."""
        rest = self.y - product
        reach = 1.0 / self.radius + self.loss.tube
        low, high = float(rest.min()) - reach, float(rest.max()) + reach
        t = min(max(self.loss.intercept(self.y, self.costs, product), low), high)
        for _ in range(MOST_STEPS):
            b = self.coefficients(product + t)
            total = float(b.sum())
            if total == 0.0:
                return t
            if total > 0.0:
                low = t
            else:
                high = t
            slope = float(np.where((b != 0.0) & (np.abs(b) < self.costs), self._pull, 0.0).sum())
            after = t + total / slope if slope > 0.0 else high
            if not low < after < high:
                after = 0.5 * (low + high)
            if abs(after - t) <= 4e-16 * max(abs(t), 1e-3):
                return after
            t = after
        return t


def smooth_loss(loss: Loss, y: Array, costs: Array) -> Smooth:
    """A loss with a derivative, or the augmented one at coefficients of zero."""
    if isinstance(loss, SquaredHinge | Logistic):
        return Exact(loss, y, costs)
    assert isinstance(loss, Hinge | EpsilonInsensitive)
    return Augmented(loss, y, costs, np.zeros(len(y)), 1.0)
