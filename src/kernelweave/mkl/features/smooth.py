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

import math
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


#: Sum of coefficients that counts as zero, as a share of the sum of their sizes.
BALANCED = 1e-14


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
    def intercept(self, product: Array, start: float) -> float:
        """The best intercept for ``f = product + intercept``."""

    def _root(self, product: Array, start: float, low: float, high: float) -> float:
        """Where the sum of the coefficients, which falls with the intercept, is zero: Newton inside of a bracket."""
        t = min(max(start, low), high)
        for _ in range(MOST_STEPS):
            f = product + t
            b = self.coefficients(f)
            total = float(b.sum())
            if abs(total) <= BALANCED * float(np.abs(b).sum()):
                break
            if total > 0.0:
                low = t
            else:
                high = t
            slope = float(self.curvature(f).sum())
            after = t + total / slope if slope > 0.0 else np.nan
            if not low < after < high:
                after = 0.5 * (low + high)
            if after == t:
                break
            t = after
        return t


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

    def intercept(self, product: Array, start: float) -> float:
        """The best intercept for ``f = product + intercept``."""
        if not isinstance(self.loss, Logistic):
            return self.loss.intercept(self.y, self.costs, product)
        # at these ends the slope of one class is smaller than that of the other
        positive = self.y > 0
        odds = math.log(float(self.costs[positive].sum())) - math.log(float(self.costs[~positive].sum()))
        return self._root(product, start, odds - float(product.max()), odds - float(product.min()))


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

    def __post_init__(self) -> None:
        self._low, self._high = self.loss.bounds(self.y, self.costs)

    @property
    def _pull(self) -> Array:
        return self.radius * self.costs

    def coefficients(self, f: Array) -> Array:
        """Minus the derivatives."""
        pull = self._pull
        aim = self.centre + pull * (self.y - f)
        if isinstance(self.loss, EpsilonInsensitive):
            aim = np.sign(aim) * np.maximum(np.abs(aim) - pull * self.loss.epsilon, 0.0)
        return np.clip(aim, self._low, self._high)

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

    def intercept(self, product: Array, start: float) -> float:
        """The best intercept for ``f = product + intercept``."""
        rest = self.y - product
        reach = 1.0 / self.radius + self.loss.tube
        return self._root(product, start, float(rest.min()) - reach, float(rest.max()) + reach)


def has_derivative(loss: Loss) -> bool:
    """Whether Newton's method takes the loss as it is."""
    return isinstance(loss, SquaredHinge | Logistic)


def smooth_loss(loss: Loss, y: Array, costs: Array) -> Smooth:
    """A loss with a derivative, or the augmented one at coefficients of zero."""
    if has_derivative(loss):
        return Exact(loss, y, costs)
    assert isinstance(loss, Hinge | EpsilonInsensitive)
    return Augmented(loss, y, costs, np.zeros(len(y)), 1.0 / unit_of(loss, y, costs))


def unit_of(loss: Loss, y: Array, costs: Array) -> float:
    """A size of decision values: the tube has the unit of the targets."""
    spread = 1.0 if loss.classifies else float(np.average(np.abs(y - np.median(y)), weights=costs))
    return spread if spread > 0 else 1.0
