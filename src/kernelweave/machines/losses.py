"""Losses as values, without data: what solvers ask of a machine, each answered in one place.

With signed coefficients b, costs C_i >= 0 and f = K b + intercept the machine of a loss is

    min  1/2 ||w||^2 + sum_i C_i loss(y_i, f_i)   =   max_b  dual term(b) - 1/2 b'K b     s.t.  sum(b) = 0 ,

where the dual term is minus the sum of the conjugates of ``C_i loss(y_i, .)`` at ``-b_i``. At fixed intercept the gap
between the two is a sum of one nonnegative number for each row, which is how it is computed: the difference of the two
values would lose the digits that a tight tolerance asks for.

A new loss is a subclass with its formulas, and a name in `LOSSES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, expit

from kernelweave._checks import InputError, check_kernel_matrix, check_vector
from kernelweave._parameters import Nonnegative, check_fields
from kernelweave._threads import blas_threads_for
from kernelweave.machines.box import UNBOUNDED, BoxProblem, check_start, kernel_product, project
from kernelweave.machines.least_squares import Bordered, solve_least_squares
from kernelweave.machines.logistic import Weighted, best_intercept, solve_logistic
from kernelweave.machines.rounding import EPS, of_machine
from kernelweave.machines.smo import Values, solve_box
from kernelweave.results import Certificate, MachineSolution, Status, relative_gap

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Sides:
    """The dual of a machine as an interior point takes it: one variable for a row of a class, two for a tube.

    Attributes
    ----------
    sign, gain : arrays of shape (n_sides, n_rows)
        ``b = sum(sign * a)``, ``0 <= a <= upper``; the dual term is ``sum(gain * a) - 1/2 sum(ridge * a^2)``.
    upper, ridge : arrays of shape (n_rows,)
        Infinite bounds go with a ridge.
    start : array of shape (n_sides, n_rows)
        Coefficients whose b sums to zero, up to their size.
    """

    sign: Array
    gain: Array
    upper: Array
    ridge: Array
    start: Array

    def loss(self, f: Array) -> float:
        """The sum of losses at f."""
        excess = np.maximum(self.gain - self.sign * f, 0.0)
        if np.isfinite(self.upper).all():
            return float((self.upper * excess).sum())
        return float((0.5 * np.square(excess) / self.ridge).sum())


@dataclass(frozen=True)
class Loss(ABC):
    """What every loss answers. Arrays have one entry for each row: targets y, costs C_i, coefficients b, values f."""

    name: ClassVar[str]
    #: Whether targets are the labels -1 and 1.
    classifies: ClassVar[bool] = False
    #: Whether `sides` gives the dual as a quadratic program.
    quadratic: ClassVar[bool] = False

    @property
    def tube(self) -> float:
        """Half width of a tube without loss."""
        return 0.0

    @abstractmethod
    def check(self, y: ArrayLike, costs: Array) -> Array:
        """The targets as an array; raises `InputError` for those that cannot be used."""

    @abstractmethod
    def losses(self, y: Array, f: Array) -> Array:
        """The loss of every row."""

    @abstractmethod
    def slope(self, y: Array, costs: Array, f: Array) -> Array:
        """``C_i`` times the derivative of the loss by f; at a kink the steeper side."""

    @abstractmethod
    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        """The best one for ``f = product + intercept``; the middle where it is not unique."""

    @abstractmethod
    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        """Sum of loss, conjugate and ``b f``, summed from nonnegative terms."""

    @abstractmethod
    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        """The dual objective without the kernel's part."""

    @abstractmethod
    def pull(self, y: Array, costs: Array, b: Array) -> Array:
        """Derivative of the dual term."""

    @abstractmethod
    def room(self, y: Array, costs: Array) -> tuple[Array, Array]:
        """Smallest and largest coefficients that the dual allows."""

    def ridge(self, costs: Array) -> Array:
        """What the loss adds to the diagonal of the kernel, whatever the coefficients."""
        return np.zeros(len(costs))

    def free(self, costs: Array, b: Array) -> Index:
        """Rows whose coefficient moves when the kernel changes a little: neither zero nor at a bound."""
        return np.flatnonzero((b != 0) & (np.abs(b) < costs))

    def curvature(self, K: Array, y: Array, costs: Array, b: Array, V: Array) -> Array:
        """Second derivative of J in kernel weights; see `Machine.curvature`."""
        where = self.free(costs, b)
        if len(where) < 2:
            return np.zeros((len(V), len(V)))
        block = K[np.ix_(where, where)]
        block.flat[:: len(where) + 1] += self.ridge(costs)[where]
        if not float(block.diagonal().mean()) > 0.0:
            # a kernel of zeros, which no multiple of the identity would make positive
            return np.zeros((len(V), len(V)))
        return Bordered(block).forms(V[:, where])

    def sides(self, y: Array, costs: Array) -> Sides | None:
        """The dual for an interior point; None where it is no quadratic program."""
        return None

    @abstractmethod
    def solve(
        self,
        K: Array,
        y: ArrayLike,
        costs: Array,
        *,
        tol: float,
        warm_start: ArrayLike | None = None,
        noise: float = 0.0,
        max_iter: int | None = None,
    ) -> MachineSolution:
        """Solve on one kernel that is known to be symmetric and finite.

        Parameters
        ----------
        K : array of shape (n_samples, n_samples)
        y : array of shape (n_samples,)
        costs : array of shape (n_samples,)
            C_i >= 0; rows with 0 take no part.
        tol : float
            Relative gap.
        warm_start : array of shape (n_samples,), optional
            `dual_coef` of a similar problem.
        noise : float, default=0.0
            Rounding errors of the entries of K, as a share of ``sqrt(K_ii K_jj)``.
        max_iter : int, optional
        """

    def values(
        self, y: Array, costs: Array, b: Array, product: Array, intercept: float | None = None
    ) -> Values:
        """Primal value and gap of coefficients with ``product = K b``, at the best intercept or a given one."""
        if intercept is None:
            intercept = self.intercept(y, costs, product)
        f = product + intercept
        primal = 0.5 * float(b @ product) + float(costs @ self.losses(y, f))
        return Values(primal, self.gap(y, costs, b, f), intercept)

    def rounding(self, y: Array, costs: Array, b: Array, product: Array, at: Values, error: Array) -> float:
        """Bound of the rounding errors of these values, given that of the product."""
        f = product + at.intercept
        # sums with a product of zero are exact
        error = error + EPS * (np.where(product != 0.0, np.abs(f), 0.0) + np.abs(y - f))
        return of_machine(
            b, f, error, low=self.slope(y, costs, f - error), high=self.slope(y, costs, f + error),
            pull=self.pull(y, costs, b), loss=at.primal, gap=at.gap, bend=float(np.abs(b) @ np.abs(product)),
        )  # fmt: skip


@dataclass(frozen=True)
class _Bounds:
    """A loss with its data, as `solve_box` asks for it."""

    loss: Loss
    y: Array
    costs: Array

    def __call__(self, b: Array, product: Array, factor: float) -> Values:
        return self.loss.values(self.y, factor * self.costs, b, product)

    def rounding(self, b: Array, product: Array, at: Values, error: Array) -> float:
        return self.loss.rounding(self.y, self.costs, b, product, at, error)


@dataclass(frozen=True)
class BoxLoss(Loss):
    """A loss whose dual is a quadratic program with a box, and a kink at zero for a tube."""

    quadratic: ClassVar[bool] = True

    def solve(
        self,
        K: Array,
        y: ArrayLike,
        costs: Array,
        *,
        tol: float,
        warm_start: ArrayLike | None = None,
        noise: float = 0.0,
        max_iter: int | None = None,
    ) -> MachineSolution:
        K = check_kernel_matrix(K)
        target = self.check(y, costs)
        lower, upper = self.room(target, costs)
        problem = BoxProblem(K, self.ridge(costs), -target, lower, upper, kink=self.tube, noise=noise)
        start = None if warm_start is None else project(problem, check_start(warm_start, len(K)))
        with blas_threads_for(len(K)):
            found = solve_box(
                problem, _Bounds(self, target, costs), tol=tol, max_iter=max_iter,
                start=np.zeros(len(K)) if start is None else start,
            )  # fmt: skip
        return MachineSolution(
            weights=np.ones(1),
            dual_coef=found.b,
            intercept=found.intercept,
            certificate=found.certificate,
            n_iter=found.n_iter,
            support=np.flatnonzero(found.b),
            infeasibility=problem.infeasibility(found.b),
        )


@dataclass(frozen=True)
class Hinge(BoxLoss):
    """``max(0, 1 - y f)``."""

    name: ClassVar[str] = "hinge"
    classifies: ClassVar[bool] = True

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

    def pull(self, y: Array, costs: Array, b: Array) -> Array:
        return y

    def room(self, y: Array, costs: Array) -> tuple[Array, Array]:
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

    def pull(self, y: Array, costs: Array, b: Array) -> Array:
        return y - self.ridge(costs) * b

    def room(self, y: Array, costs: Array) -> tuple[Array, Array]:
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

    def pull(self, y: Array, costs: Array, b: Array) -> Array:
        return y - self.epsilon * np.sign(b)

    def room(self, y: Array, costs: Array) -> tuple[Array, Array]:
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

    def pull(self, y: Array, costs: Array, b: Array) -> Array:
        return y - self.ridge(costs) * b

    def room(self, y: Array, costs: Array) -> tuple[Array, Array]:
        most = np.where(costs > 0, np.inf, 0.0)
        return -most, most

    def ridge(self, costs: Array) -> Array:
        return _inverse(costs)

    def free(self, costs: Array, b: Array) -> Index:
        return np.flatnonzero(costs > 0)

    def solve(
        self,
        K: Array,
        y: ArrayLike,
        costs: Array,
        *,
        tol: float,
        warm_start: ArrayLike | None = None,
        noise: float = 0.0,
        max_iter: int | None = None,
    ) -> MachineSolution:
        target = self.check(y, costs)
        b, intercept = solve_least_squares(K, target, costs)
        product, error = kernel_product(K, b, noise)
        at = self.values(target, costs, b, product, intercept)
        # a linear system has no tolerance: it is solved, or it is singular
        solved = at.primal == 0.0 or relative_gap(at.primal, at.gap) < 1e-6
        status = Status.CONVERGED if solved else Status.STALLED
        rounding = self.rounding(target, costs, b, product, at, error)
        return MachineSolution(
            weights=np.ones(1),
            dual_coef=b,
            intercept=intercept,
            certificate=Certificate.of("machine", at.primal, at.gap, rounding, status),
            n_iter=1,
            support=np.flatnonzero(b),
            infeasibility=abs(float(b.sum())),
        )


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(-y f))``: probabilities are those of f itself.

    With ``a_i = y_i b_i / C_i`` the dual term is the entropy ``-sum_i C_i (a log a + (1 - a) log(1 - a))``, and the gap
    ``sum_i C_i`` times the divergence of a_i from the probability of the other label.
    """

    name: ClassVar[str] = "logistic"
    classifies: ClassVar[bool] = True

    def check(self, y: ArrayLike, costs: Array) -> Array:
        return check_labels(y, costs)

    def losses(self, y: Array, f: Array) -> Array:
        return np.logaddexp(0.0, -y * f)

    def slope(self, y: Array, costs: Array, f: Array) -> Array:
        return -y * costs * expit(-y * f)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        return best_intercept(y, costs, product)

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        a = self._shares(y, costs, b)
        p = expit(-y * f)
        # the linear terms of both logarithms cancel: what is left has no sign
        return float(costs @ (_beyond_linear(a, p - a, p) + _beyond_linear(1.0 - a, a - p, expit(y * f))))

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        a = self._shares(y, costs, b)
        return float(costs @ (entr(a) + entr(1.0 - a)))

    def pull(self, y: Array, costs: Array, b: Array) -> Array:
        a = np.clip(self._shares(y, costs, b), np.finfo(float).tiny, 1.0 - 0.5 * EPS)
        return y * (np.log1p(-a) - np.log(a))

    def room(self, y: Array, costs: Array) -> tuple[Array, Array]:
        return np.minimum(0.0, y * costs), np.maximum(0.0, y * costs)

    def curvature(self, K: Array, y: Array, costs: Array, b: Array, V: Array) -> Array:
        a = self._shares(y, costs, b)
        W = costs * a * (1.0 - a)
        where = np.flatnonzero(W > 0.0)
        if len(where) < 2:
            return np.zeros((len(V), len(V)))
        with blas_threads_for(len(where)):
            return Weighted(K[np.ix_(where, where)], W[where]).forms(V[:, where])

    def solve(
        self,
        K: Array,
        y: ArrayLike,
        costs: Array,
        *,
        tol: float,
        warm_start: ArrayLike | None = None,
        noise: float = 0.0,
        max_iter: int | None = None,
    ) -> MachineSolution:
        K = check_kernel_matrix(K)
        target = self.check(y, costs)
        used = np.flatnonzero(costs > 0)
        part = K if len(used) == len(K) else np.ascontiguousarray(K[np.ix_(used, used)])
        own, weight = target[used], costs[used]
        start = np.zeros(len(used)) if warm_start is None else check_start(warm_start, len(K))[used]
        with blas_threads_for(len(used)):
            found, _, n_iter, used_up = solve_logistic(
                part,
                own,
                weight,
                start,
                lambda b, product: self.values(own, weight, b, product),
                tol,
                max_iter,
            )
        b = np.zeros(len(K))
        b[used] = found
        product, error = kernel_product(K, b, noise)
        at = self.values(target, costs, b, product)
        rounding = self.rounding(target, costs, b, product, at, error)
        if at.gap + rounding > tol * abs(at.primal) and noise == 0.0:
            product, error = kernel_product(K, b, long=True)
            at = self.values(target, costs, b, product)
            rounding = self.rounding(target, costs, b, product, at, error)
        ended = Status.MAX_ITER if used_up and at.gap > tol * abs(at.primal) else Status.STALLED
        low, high = self.room(target, costs)
        return MachineSolution(
            weights=np.ones(1),
            dual_coef=b,
            intercept=at.intercept,
            certificate=Certificate.of("machine", at.primal, at.gap, rounding, ended, tol=tol),
            n_iter=n_iter,
            support=np.flatnonzero(b),
            infeasibility=max(float(np.maximum(low - b, b - high).max()), abs(float(b.sum())), 0.0),
        )

    @staticmethod
    def _shares(y: Array, costs: Array, b: Array) -> Array:
        """The multipliers as shares of the costs, between 0 and 1."""
        return np.clip(np.divide(y * b, costs, out=np.zeros_like(b), where=costs > 0), 0.0, 1.0)


def _beyond_linear(a: Array, d: Array, limit: Array) -> Array:
    """``a (x - log(1 + x))`` for ``x = d / a``, and `limit` where a is 0."""
    x = np.divide(d, a, out=np.zeros_like(a), where=a > 0)
    x = np.maximum(x, -1.0 + EPS)
    small = np.abs(x) < 1e-4
    y = np.where(small, x, 0.0)
    near = np.square(y) * (0.5 - y * (1.0 / 3.0 - y * (0.25 - 0.2 * y)))
    return np.where(a > 0, a * np.where(small, near, x - np.log1p(x)), limit)


#: Losses by name.
LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Hinge, SquaredHinge, EpsilonInsensitive, Squared, Logistic)
}


def as_loss(name: str, epsilon: float = 0.1) -> Loss:
    """A loss by its name; `epsilon` is for those that have a tube."""
    kind = LOSSES[name]
    return kind(epsilon) if issubclass(kind, EpsilonInsensitive) else kind()


def check_labels(y: ArrayLike, costs: Array) -> Array:
    """Labels -1 and 1, both present among the rows with a cost."""
    try:
        labels = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        labels = np.full(len(costs), np.nan)
    if labels.shape != costs.shape:
        raise InputError(f"`y` must have one label per row of K, shape {costs.shape}, got {labels.shape}.")
    if not (np.abs(labels) == 1.0).all():
        found = sorted({str(label) for label in np.asarray(y).tolist()})[:4]
        raise InputError(
            f"`y` must hold the labels -1 and +1, got {found}. Encode them, for example "
            "np.where(y == positive, 1, -1), or use MKLClassifier."
        )
    counted = labels[costs > 0]
    if not (counted > 0).any() or not (counted < 0).any():
        kind = "class" if costs.all() else "class among the rows with positive weight"
        raise InputError(f"`y` must hold both labels, -1 and +1, got a single {kind}. Pass rows of both.")
    return labels


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
