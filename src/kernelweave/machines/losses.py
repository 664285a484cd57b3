"""The losses, as values without data: hinge, squared hinge, tube, squares, logistic.

A new loss is a subclass of `kernelweave.machines.loss.Loss` with its formulas, and a name in `LOSSES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import check_vector
from kernelweave._parameters import Nonnegative, check_fields
from kernelweave.machines.box import UNBOUNDED, kernel_product
from kernelweave.machines.least_squares import solve_least_squares
from kernelweave.machines.logistic_loss import Logistic
from kernelweave.machines.loss import Asked, BoxLoss, Index, Loss, Sides, check_labels
from kernelweave.results import Certificate, MachineSolution, Status, relative_gap

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Hinge(BoxLoss):
    """``max(0, 1 - y f)``."""

    name: ClassVar[str] = "hinge"
    classifies: ClassVar[bool] = True
    piecewise_linear: ClassVar[bool] = True

    def check(self, y: ArrayLike, costs: Array) -> Array:
        return check_labels(y, costs)

    def losses(self, y: Array, f: Array) -> Array:
        return np.maximum(1.0 - y * f, 0.0)

    def slope(self, y: Array, costs: Array, f: Array) -> Array:
        return np.where(y * f <= 1.0, -y * costs, 0.0)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        """Minimiser t of ``sum_i C_i max(0, y_i (rest_i - t))``, the middle when it is not unique."""
        used = costs > 0
        return _quantile((y - product)[used], costs[used], float(costs[y > 0].sum()))

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        margin = 1.0 - y * f
        multipliers = y * b
        return float((costs - multipliers) @ np.maximum(margin, 0.0) + multipliers @ np.maximum(-margin, 0.0))

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        return float(y @ b)

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        return y

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        return np.minimum(0.0, y * costs), np.maximum(0.0, y * costs)

    def sides(self, y: Array, costs: Array) -> Sides:
        return Sides(y[None], np.ones((1, len(y))), costs, np.zeros(len(y)), _balanced(y, costs))


@dataclass(frozen=True)
class SquaredHinge(BoxLoss):
    """``max(0, 1 - y f)^2 / 2``: the classifier without slack on the kernel with ``1 / C_i`` on its diagonal."""

    name: ClassVar[str] = "squared-hinge"
    classifies: ClassVar[bool] = True

    def check(self, y: ArrayLike, costs: Array) -> Array:
        return check_labels(y, costs)

    def losses(self, y: Array, f: Array) -> Array:
        return 0.5 * np.square(np.maximum(1.0 - y * f, 0.0))

    def slope(self, y: Array, costs: Array, f: Array) -> Array:
        return -y * costs * np.maximum(1.0 - y * f, 0.0)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        """Minimiser t of ``sum_i C_i max(0, y_i (rest_i - t))^2``."""
        rest = y - product
        order = np.argsort(rest)
        points, weights, positive = rest[order], costs[order], y[order] > 0
        # t lies before the first point at which the derivative is nonnegative; there, positive samples from this point
        # on and negative ones before it have a loss
        above, below = np.where(positive, weights, 0.0), np.where(positive, 0.0, weights)
        mass = above.sum() - np.cumsum(above) + np.cumsum(below)
        moment = above @ points - np.cumsum(above * points) + np.cumsum(below * points)
        rising = np.flatnonzero(mass * points >= moment)
        first = int(rising[0]) if len(rising) else len(points)
        active = np.where(np.arange(len(points)) >= first, above, below)
        total = float(active.sum())
        return float(active @ points) / total if total > 0 else float(points[min(first, len(points) - 1)])

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        margin = 1.0 - y * f
        multipliers = y * b
        rest = np.maximum(margin, 0.0) - self.ridge(costs) * multipliers
        return float(0.5 * costs @ np.square(rest) + multipliers @ np.maximum(-margin, 0.0))

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        return float(y @ b) - 0.5 * float(self.ridge(costs) @ np.square(b))

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        return y - self.ridge(costs) * b

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        most = np.where(costs > 0, UNBOUNDED, 0.0)
        return np.minimum(0.0, y * most), np.maximum(0.0, y * most)

    def ridge(self, costs: Array) -> Array:
        return _inverse(costs)

    def free(self, costs: Array, b: Array) -> Index:
        return np.flatnonzero(b)

    def sides(self, y: Array, costs: Array) -> Sides:
        unbounded = np.full(len(y), np.inf)
        return Sides(y[None], np.ones((1, len(y))), unbounded, 1.0 / costs, _balanced(y, costs))


@dataclass(frozen=True)
class EpsilonInsensitive(BoxLoss):
    """``max(0, abs(y - f) - epsilon)``.

    Attributes
    ----------
    epsilon : float
        Half width of the tube, in units of y.
    """

    name: ClassVar[str] = "epsilon-insensitive"
    piecewise_linear: ClassVar[bool] = True

    epsilon: Nonnegative = 0.1

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def tube(self) -> float:
        return self.epsilon

    def check(self, y: ArrayLike, costs: Array) -> Array:
        return check_vector(y, "y", len(costs))

    def losses(self, y: Array, f: Array) -> Array:
        return np.maximum(np.abs(y - f) - self.epsilon, 0.0)

    def slope(self, y: Array, costs: Array, f: Array) -> Array:
        rest = f - y
        return np.where(np.abs(rest) >= self.epsilon, costs * np.sign(rest), 0.0)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        rest = y - product
        return _quantile(
            np.concatenate([rest - self.epsilon, rest + self.epsilon]), np.tile(costs, 2), float(costs.sum())
        )

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        rest = y - f
        loss = np.maximum(np.abs(rest) - self.epsilon, 0.0)
        size = np.abs(b)
        # the second bracket is nonnegative but for rounding
        return float((costs - size) @ loss + size @ np.maximum(loss + self.epsilon - np.sign(b) * rest, 0.0))

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        return float(y @ b) - self.epsilon * float(np.abs(b).sum())

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        return y - self.epsilon * np.sign(b)

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        return -costs, costs

    def sides(self, y: Array, costs: Array) -> Sides:
        ones = np.ones(len(y))
        sign = np.stack([ones, -ones])
        centred = y - np.average(y, weights=costs)
        away = costs * centred / max(float(np.abs(centred).max()), np.finfo(float).tiny)
        start = np.stack([np.maximum(away, 0.0), np.maximum(-away, 0.0)])
        return Sides(sign, sign * y - self.epsilon, costs, np.zeros(len(y)), start)


@dataclass(frozen=True)
class Squared(Loss):
    """``(y - f)^2 / 2``: one linear system."""

    name: ClassVar[str] = "squared"

    def check(self, y: ArrayLike, costs: Array) -> Array:
        return check_vector(y, "y", len(costs))

    def losses(self, y: Array, f: Array) -> Array:
        return 0.5 * np.square(y - f)

    def slope(self, y: Array, costs: Array, f: Array) -> Array:
        return costs * (f - y)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        return float(costs @ (y - product)) / float(costs.sum())

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        return 0.5 * float(costs @ np.square(y - f - self.ridge(costs) * b))

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        return float(y @ b) - 0.5 * float(self.ridge(costs) @ np.square(b))

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        return y - self.ridge(costs) * b

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        most = np.where(costs > 0, np.inf, 0.0)
        return -most, most

    def ridge(self, costs: Array) -> Array:
        return _inverse(costs)

    def free(self, costs: Array, b: Array) -> Index:
        return np.flatnonzero(costs > 0)

    def _solve(self, asked: Asked) -> MachineSolution:
        y, costs = asked.y, asked.costs
        b, intercept = solve_least_squares(asked.K, y, costs)
        product, error = kernel_product(asked.K, b, asked.entry_error)
        at = self.values(y, costs, b, product, intercept)
        # a linear system has no tolerance: it is solved, or singular
        solved = at.primal == 0.0 or relative_gap(at.primal, at.gap) < 1e-6
        status = Status.CONVERGED if solved else Status.STALLED
        rounding = self.rounding(y, costs, b, product, at, error)
        return MachineSolution.of(
            b,
            intercept,
            Certificate.of("machine", at.primal, at.gap, rounding, status),
            n_iter=1,
            infeasibility=abs(float(b.sum())),
        )


#: Losses by name.
LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Hinge, SquaredHinge, EpsilonInsensitive, Squared, Logistic)
}


def as_loss(name: str, epsilon: float = 0.1) -> Loss:
    """A loss by its name; `epsilon` is for those that have a tube."""
    kind = LOSSES[name]
    return kind(epsilon) if issubclass(kind, EpsilonInsensitive) else kind()


def _inverse(costs: Array) -> Array:
    return np.divide(1.0, costs, out=np.zeros_like(costs), where=costs > 0)


def _balanced(y: Array, costs: Array) -> Array:
    """Multipliers in proportion to the costs, of the same sum on both classes."""
    return np.where(y > 0, costs / costs[y > 0].sum(), costs / costs[y < 0].sum())[None]


def _quantile(points: Array, weights: Array, level: float) -> float:
    """Where the sum of the weights of smaller points passes `level`; the middle when that is an interval."""
    order = np.argsort(points)
    total = np.cumsum(weights[order])
    # sums that differ by rounding are equal: the function is flat between such points
    slack = 1e-13 * total[-1]
    first = int(np.searchsorted(total, level - slack))
    last = int(np.searchsorted(total, level + slack, side="right"))
    ends = points[order[[min(first, len(order) - 1), min(last, len(order) - 1)]]]
    return 0.5 * float(ends[0] + ends[1])
