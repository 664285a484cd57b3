"""The losses, as values without data.

For labels -1 and 1: "hinge", "squared-hinge" and "logistic"; for numbers: "squared", "epsilon-insensitive", "huber" for
targets with outliers, "quantile" (the median) and "poisson" for counts; for censored times: "cox". A name stands for
the class with the defaults of its parameters, as "huber" for ``Huber()``.

A loss of your own is a subclass of `Loss` with its three formulas, passed as an object wherever a loss is asked for,
or by its name if it has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, expit, log_expit, logsumexp, wrightomega, xlog1py, xlogy

from kernelweave._errors import InputError
from kernelweave._loops import core
from kernelweave._loops.logistic import beyond_linear
from kernelweave._parameters import InstanceOf, Nonnegative, OneOf, Positive, Share, check_fields, check_value
from kernelweave._types import Array, Index
from kernelweave.machines.bordered import Bordered, Weighted
from kernelweave.machines.box import UNBOUNDED, Trained, WithData, kernel_product
from kernelweave.machines.loss import LOSSES, BoxLoss, Loss
from kernelweave.machines.reweighted import solve_reweighted
from kernelweave.machines.rounding import EPS
from kernelweave.results import Status, relative_gap

__all__ = [
    "Cox",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Poisson",
    "Quantile",
    "Squared",
    "SquaredHinge",
    "as_loss",
]

#: Curvature of losses where they are linear, as a share of their slope: with less, steps would have no length.
FLATTEST = 1e-3
#: The same in systems of rows and columns, which lose no digits by it.
NO_CURVATURE = 1e-30
TINY = float(np.finfo(float).tiny)
#: Decision values whose exponential is finite with room for sums.
MOST_LOG = 600.0


@dataclass(frozen=True)
class Hinge(BoxLoss):
    """``max(0, 1 - y f)``."""

    name: ClassVar[str] = "hinge"
    classifies: ClassVar[bool] = True
    piecewise_linear: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return np.maximum(1.0 - y * f, 0.0)

    def slope(self, y: Array, f: Array) -> Array:
        return np.where(y * f <= 1.0, -y, 0.0)

    def conjugate(self, y: Array, b: Array) -> Array:
        return np.where((y * b >= 0.0) & (y * b <= 1.0), -y * b, np.inf)

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        return np.minimum(0.0, y * costs), np.maximum(0.0, y * costs)


@dataclass(frozen=True)
class SquaredHinge(BoxLoss):
    """``max(0, 1 - y f)^2 / 2``: the classifier without slack on the kernel with ``1 / C_i`` on its diagonal."""

    name: ClassVar[str] = "squared-hinge"
    classifies: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    ridged: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return 0.5 * np.square(np.maximum(1.0 - y * f, 0.0))

    def slope(self, y: Array, f: Array) -> Array:
        return -y * np.maximum(1.0 - y * f, 0.0)

    def second_derivative(self, y: Array, f: Array) -> Array:
        return np.where(y * f < 1.0, 1.0, 0.0)

    def conjugate(self, y: Array, b: Array) -> Array:
        return np.where(y * b >= 0.0, 0.5 * np.square(b) - y * b, np.inf)

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        most = np.where(costs > 0, UNBOUNDED, 0.0)
        return np.minimum(0.0, y * most), np.maximum(0.0, y * most)


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
    def tube(self) -> float:  # type: ignore[override]
        return self.epsilon

    def value(self, y: Array, f: Array) -> Array:
        return np.maximum(np.abs(y - f) - self.epsilon, 0.0)

    def slope(self, y: Array, f: Array) -> Array:
        rest = f - y
        return np.where(np.abs(rest) >= self.epsilon, np.sign(rest), 0.0)

    def conjugate(self, y: Array, b: Array) -> Array:
        return np.where(np.abs(b) <= 1.0, self.epsilon * np.abs(b) - y * b, np.inf)

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        return -costs, costs


@dataclass(frozen=True)
class Squared(BoxLoss):
    """``(y - f)^2 / 2``: one linear system. Problems with it have no intercept, unless they ask for one."""

    name: ClassVar[str] = "squared"
    fits_intercept: ClassVar[bool] = False
    squares: ClassVar[bool] = True
    #: An interior point would need two variables for a row, whose dual is a linear system.
    quadratic: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    ridged: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        return 0.5 * np.square(y - f)

    def slope(self, y: Array, f: Array) -> Array:
        return f - y

    def second_derivative(self, y: Array, f: Array) -> Array:
        return np.ones(len(f))

    def conjugate(self, y: Array, b: Array) -> Array:
        return 0.5 * np.square(b) - y * b

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        most = np.where(costs > 0, UNBOUNDED, 0.0)
        return -most, most

    def solve(
        self, machine: WithData, K: Array, tol: float, start: Array | None, entry_error: float
    ) -> Trained:
        y, costs, own = machine.y, machine.costs, machine.fit_intercept
        used = np.flatnonzero(costs > 0)
        block = K[used[:, None], used]
        block.flat[:: len(used) + 1] += 1.0 / costs[used]
        system = Bordered(block, jitter=0.0, fit_intercept=own)
        x, intercept = system.solve(y[used])
        dx, dt = system.solve(y[used] - block @ x - intercept)  # one step of refinement
        x, intercept = x + dx, float(intercept + dt)
        b = np.zeros(len(y))
        b[used] = x - x.sum() / len(x) if own else x
        product, error = kernel_product(K, b, entry_error)
        at = machine.values(b, product, intercept)
        # a linear system has no tolerance: it is solved, or singular
        solved = at.primal == 0.0 or relative_gap(at.primal, at.gap) < 1e-6
        status = Status.CONVERGED if solved else Status.STALLED
        rounding = machine.rounding(b, product, at, error)
        found = b, intercept, at.primal, at.gap, rounding, status, None, 1
        return Trained(*found, machine.infeasibility(b))


@dataclass(frozen=True)
class Huber(BoxLoss):
    """``(y - f)^2 / 2`` up to a distance of delta, and linear beyond: outliers pull with a bounded force.

    Attributes
    ----------
    delta : float
        Distance from which the loss is linear, in units of y.

    References
    ----------
    P. J. Huber, Robust estimation of a location parameter, Annals of Mathematical Statistics 35 (1964).
    """

    name: ClassVar[str] = "huber"
    # it has a derivative everywhere, but outlying rows have no curvature, and Newton's method stalls on rows in chunks
    smooth: ClassVar[bool] = False
    ridged: ClassVar[bool] = True

    delta: Positive = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def value(self, y: Array, f: Array) -> Array:
        size = np.abs(y - f)
        near = np.minimum(size, self.delta)
        return near * (size - 0.5 * near)

    def slope(self, y: Array, f: Array) -> Array:
        return np.clip(f - y, -self.delta, self.delta)

    def second_derivative(self, y: Array, f: Array) -> Array:
        return np.where(np.abs(y - f) <= self.delta, 1.0, 0.0)

    def conjugate(self, y: Array, b: Array) -> Array:
        return np.where(np.abs(b) <= self.delta, 0.5 * np.square(b) - y * b, np.inf)

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        return -self.delta * costs, self.delta * costs


@dataclass(frozen=True)
class Quantile(BoxLoss):
    """``max(q (y - f), (q - 1) (y - f))``, the pinball loss: f is the conditional quantile of the target.

    Attributes
    ----------
    q : float
        Share of the targets below f, between 0 and 1.

    References
    ----------
    R. Koenker and G. Bassett, Regression quantiles, Econometrica 46 (1978).
    """

    name: ClassVar[str] = "quantile"
    piecewise_linear: ClassVar[bool] = True
    scores: ClassVar[bool] = True

    q: Share = 0.5

    def __post_init__(self) -> None:
        check_fields(self)

    def value(self, y: Array, f: Array) -> Array:
        rest = y - f
        return np.maximum(self.q * rest, (self.q - 1.0) * rest)

    def slope(self, y: Array, f: Array) -> Array:
        below = (f < y) | ((f == y) & (self.q >= 0.5))
        return np.where(below, -self.q, 1.0 - self.q)

    def conjugate(self, y: Array, b: Array) -> Array:
        return np.where((b <= self.q) & (b >= self.q - 1.0), -y * b, np.inf)

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        return (self.q - 1.0) * costs, self.q * costs


@dataclass(frozen=True)
class Poisson(Loss):
    """``exp(f) - y f + y log(y) - y``: half the deviance of counts of a Poisson distribution, of mean ``exp(f)``.

    Targets are counts, or rates: counts divided by exposures, with the exposures as weights of the rows. With
    ``m = y - b / C`` the dual term is ``sum_i C_i (m - m log(m) - y + y log(y))``, and the gap ``sum_i C_i`` times
    the divergence ``m log(m) - m f - m + exp(f)`` of the mean from m.

    References
    ----------
    P. McCullagh and J. A. Nelder, Generalized linear models, 2nd edition (1989), section 2.3 and chapter 6.
    """

    name: ClassVar[str] = "poisson"
    smooth: ClassVar[bool] = True
    judged: ClassVar[bool] = True
    linked: ClassVar[bool] = True

    def check(self, y: ArrayLike, costs: Array) -> Array:
        targets = super().check(y, costs)
        if (targets < 0.0).any():
            raise InputError(
                f"`y` must hold counts or rates, which are at least 0, for {self!r}; got {float(targets.min()):.4g}."
            )
        if not targets[costs > 0].any():
            raise InputError(
                f"All targets are 0, so that the best mean is 0 and its logarithm infinite. {self!r} needs rows with "
                "counts. If other rows have some, these are the training rows of a fold, and too few rows have counts, "
                "or too few groups of rows: give C, or fewer folds."
            )
        return targets

    def fold_classes(self, y: Array) -> Array:
        return np.where(y > 0.0, 1.0, 0.0)

    def prediction(self, f: Array) -> Array:
        return np.exp(np.minimum(f, MOST_LOG))

    def value(self, y: Array, f: Array) -> Array:
        return beyond_linear(y, self.prediction(f) - y, f)

    def slope(self, y: Array, f: Array) -> Array:
        return self.prediction(f) - y

    def second_derivative(self, y: Array, f: Array) -> Array:
        return np.maximum(self.prediction(f), FLATTEST * y)

    def conjugate(self, y: Array, b: Array) -> Array:
        rest = np.maximum(y - b, 0.0)
        # beyond a linear part without rounding errors
        log_y = np.log(np.where(y > 0.0, y, 1.0))
        curved = np.where(y > 0.0, beyond_linear(rest, y - rest, log_y), xlogy(rest, rest) - rest)
        return np.where(b <= y, curved - b * log_y, np.inf)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        """The mean of the predictions is that of the targets."""
        return float(np.log(costs @ y) - logsumexp(product, b=costs))

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        rest = self._rest(y, costs, b)
        return float(costs @ beyond_linear(rest, self.prediction(f) - rest, f))

    def gap_error(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        mean, rest = self.prediction(f), self._rest(y, costs, b)
        # the rest is a difference, and its logarithm the slope of the gap
        off = 2.0 * EPS * (y + rest)
        steep = np.abs(np.log(np.maximum(rest, np.maximum(off, TINY))) - f) + np.where(
            rest > 4.0 * off, 0.5, 2.0
        )
        terms = _size_beyond(y, mean - y, f) + _size_beyond(rest, mean - rest, f)
        return float(costs @ (off * steep + 4.0 * EPS * terms))

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        return -float(costs @ self.conjugate(y, y - self._rest(y, costs, b)))

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        return np.log(np.maximum(self._rest(y, costs, b), TINY))

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        return np.where(costs > 0, -UNBOUNDED, 0.0), costs * y

    def _stiffness(self, y: Array, costs: Array, b: Array) -> Array:
        return costs * self._rest(y, costs, b)

    def proximal(
        self, y: Array, costs: Array, centre: Array, pull: Array, f: Array, near: Array | None = None
    ) -> Array:
        """The root of ``exp(g) + radius g = y + radius middle`` by Wright's omega function."""
        radius, middle = pull / costs, f - centre / pull
        return costs * (y - radius * wrightomega(y / radius + middle - np.log(radius)))

    def proximal_slope(self, y: Array, costs: Array, centre: Array, pull: Array, f: Array, b: Array) -> Array:
        second = costs * self._rest(y, costs, b)
        return pull * second / (second + pull)

    def stiffness(self, y: Array, f: Array) -> Array:
        """Second derivatives of the losses, raised above zero: weights of the rows in a step of Newton's method.

        Parameters
        ----------
        y, f : array of shape (n_samples,)
            Targets and decision values.
        """
        return np.maximum(self.second_derivative(y, f), NO_CURVATURE)

    def _iterate(self, machine: WithData, K: Array, start: Array, tol: float) -> tuple[Array, int, bool]:
        return solve_reweighted(self, machine, K, start, tol)

    @staticmethod
    def _rest(y: Array, costs: Array, b: Array) -> Array:
        """The means at which coefficients are optimal."""
        return np.maximum(y - np.divide(b, costs, out=np.zeros_like(b), where=costs > 0), 0.0)


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(-y f))``: probabilities are those of f itself.

    With ``a_i = y_i b_i / C_i`` the dual term is the entropy ``-sum_i C_i (a log a + (1 - a) log(1 - a))``, and the gap
    ``sum_i C_i`` times the divergence of a_i from the probability of the other label.
    """

    name: ClassVar[str] = "logistic"
    classifies: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    judged: ClassVar[bool] = True
    cancels: ClassVar[bool] = False

    def value(self, y: Array, f: Array) -> Array:
        return np.logaddexp(0.0, -y * f)

    def total(self, y: Array, costs: Array, f: Array) -> float:
        return float(core.logistic_value(y, costs, f))

    def log_probability(self, f: Array) -> Array:
        return log_expit(f)

    def slope(self, y: Array, f: Array) -> Array:
        return -y * expit(-y * f)

    def second_derivative(self, y: Array, f: Array) -> Array:
        p = expit(-y * f)
        return p * np.maximum(1.0 - p, FLATTEST)

    def stiffness(self, y: Array, f: Array) -> Array:
        """Second derivatives of the losses, raised above zero: weights of the rows in a step of Newton's method.

        Parameters
        ----------
        y, f : array of shape (n_samples,)
            Targets and decision values.
        """
        p = expit(-y * f)
        return np.maximum(p * (1.0 - p), NO_CURVATURE)

    def conjugate(self, y: Array, b: Array) -> Array:
        a = np.clip(y * b, 0.0, 1.0)
        return np.where(a == y * b, xlog1py(1.0 - a, -a) - entr(a), np.inf)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        return float(core.logistic_intercept(y, costs, product))

    def _expansion(
        self, y: Array, costs: Array, product: Array, start: float, fit_intercept: bool
    ) -> tuple[float, float, Array, Array]:
        b, h = np.empty_like(product), np.empty_like(product)
        t, value = core.logistic_expansion(y, costs, product, fit_intercept, FLATTEST, start, b, h)
        return t, value, b, h

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        return float(core.logistic_gap(y, costs, b, f))

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        a = self._labelled(y, costs, b)
        # 1 - a is exact in the logarithm, also where a is small
        return float(costs @ (entr(a) - xlog1py(1.0 - a, -a)))

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        a = self._labelled(y, costs, b, TINY, 1.0 - 0.5 * EPS)
        return y * (np.log1p(-a) - np.log(a))

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        return np.minimum(0.0, y * costs), np.maximum(0.0, y * costs)

    def _stiffness(self, y: Array, costs: Array, b: Array) -> Array:
        a = self._labelled(y, costs, b)
        return costs * a * (1.0 - a)

    def system(
        self, K: Array, y: Array, costs: Array, b: Array, rows: Index, *, fit_intercept: bool = True
    ) -> Bordered:
        block = K if len(rows) == len(K) else K[rows[:, None], rows]
        return Weighted(block, self._stiffness(y, costs, b)[rows], fit_intercept=fit_intercept)

    def _iterate(self, machine: WithData, K: Array, start: Array, tol: float) -> tuple[Array, int, bool]:
        return solve_reweighted(self, machine, K, start, tol)

    @staticmethod
    def _labelled(y: Array, costs: Array, b: Array, least: float = 0.0, most: float = 1.0) -> Array:
        """The multipliers as shares of the costs, between 0 and 1."""
        a = np.divide(y * b, costs, out=np.zeros_like(b), where=costs > 0)
        np.maximum(a, least, out=a)
        return np.minimum(a, most, out=a)


# names are listed in the order in which classes are defined, and the hinge comes first
from kernelweave.machines.cox import Cox  # noqa: E402

#: What functions take as `loss`.
LOSS = OneOf(known=LOSSES) | InstanceOf((Loss,), "a Loss")
GivenLoss: TypeAlias = Annotated[str | Loss, LOSS]


def as_loss(loss: str | Loss, epsilon: float = 0.1) -> Loss:
    """A loss by its name, or as it is.

    Parameters
    ----------
    loss : str or Loss
        What functions take as `loss`: a name gives the loss with the defaults of its parameters.
    epsilon : float, default=0.1
        Half the width of the tube of the ε-insensitive loss, in the unit of the targets, if `loss` is its name.

    Returns
    -------
    Loss
    """
    if isinstance(loss, Loss):
        return loss
    kind = LOSSES[check_value(LOSS, "loss", loss)]
    try:
        return kind(epsilon) if issubclass(kind, EpsilonInsensitive) else kind()
    except TypeError as error:
        raise InputError(
            f"The loss {loss!r} must have defaults for its parameters to be used by its name: {error}. Pass an "
            f"object, {kind.__name__}(...)."
        ) from error


def _size_beyond(a: Array, d: Array, log_p: Array) -> Array:
    """Sizes of the terms in `beyond_linear`."""
    size = np.abs(d)
    return np.where(size > 0.5 * a, size + a * np.abs(log_p) + np.abs(xlogy(a, a)), size)
