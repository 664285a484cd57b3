"""The interface of losses: all that solvers need of a machine.

With signed coefficients b, costs C_i >= 0 and f = K b + intercept the machine of a loss is

    min  1/2 ||w||^2 + sum_i C_i loss(y_i, f_i)   =   max_b  dual term(b) - 1/2 b'K b     s.t.  sum(b) = 0 ,

where the dual term is minus the sum of the conjugates of ``C_i loss(y_i, .)`` at ``-b_i``. At fixed intercept the gap
between the two is a sum of one nonnegative number for each row, which is how it is computed: the difference of the two
values would lose the digits that a small tolerance needs.

A loss needs three formulas, `value`, `slope` and `conjugate`; everything else follows from them, and is overridden
where a formula of its own is faster or has more digits. Losses are values without data, see
`kernelweave.machines.losses`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._allowance import used_up
from kernelweave._checks import InputError, check_vector
from kernelweave._docstrings import InheritedTexts
from kernelweave._loops import core
from kernelweave._parameters import ReadableSignature
from kernelweave._threads import blas_threads_for
from kernelweave._types import Array, Index
from kernelweave.machines.bordered import Bordered, Coupled, Root, Weighted
from kernelweave.machines.box import UNBOUNDED, Box, BoxProblem, Trained, Values, WithData, kernel_product
from kernelweave.machines.rounding import EPS, imbalance, sum_error
from kernelweave.machines.smo import Run
from kernelweave.machines.smooth import crossing, limits_of, solve_augmented
from kernelweave.results import REACHED, Status

#: Step of numerical derivatives, as a share of the size of the numbers.
DIFFERENCE = 6e-6
#: Distance from bounds, as a share of the room between them, at which slopes of dual terms are taken.
INSIDE = 1e-12
#: Largest second derivative of a loss on free rows, per unit of the kernel.
STIFFEST = 1e10


@dataclass(frozen=True, eq=False)
class Sides:
    """The dual of a machine for an interior point: one variable for a row of a class, two for a tube.

    Attributes
    ----------
    sign, gain : arrays of shape (n_sides, n_rows)
        ``b = sum(sign * a)``, ``0 <= a <= upper``; the dual term is ``sum(gain * a) - 1/2 sum(ridge * a^2)``.
    upper : array of shape (n_rows,) or (n_sides, n_rows)
        Infinite bounds go with a ridge.
    ridge : array of shape (n_rows,)
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
        if not self.ridge.any():
            return float((self.upper * excess).sum())
        a = np.minimum(excess / self.ridge, self.upper)
        return float((a * (excess - 0.5 * self.ridge * a)).sum())


#: Rows on which the formulas of a loss of a user's own are compared, decision values there in units of the spread of
#: the targets, and the disagreement that is allowed, as a share of what is added.
CHECKED_ROWS, CHECKED_STEPS, FORMULA_ERROR = 20, (-3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0), 1e-6
#: What counts as zero there.
SMALLEST = 1e-200


#: Losses by the names that `loss=` takes: every class that sets its `name`, as soon as it is defined.
LOSSES: dict[str, type[Loss]] = {}


class Loss(InheritedTexts, ABC):
    """Base class of losses. Arrays have one entry for each row: targets y, costs C_i, coefficients b, values f.

    A loss of your own has three methods, convex in f, for arrays of rows with cost 1. It then works on all kernels and
    features, with all sets of weights and in all solvers, and its solutions are certified.

    The infimum of every row must be finite, so that 0 lies between the bounds of its coefficient. Parameters are the
    fields of a frozen dataclass, which checks them in ``__post_init__``. Attributes that a class may set: `classifies`,
    whether targets are the labels -1 and 1; `fits_intercept`, whether a problem has an intercept unless it says
    otherwise; `name`. With a name, the loss is one of the names that ``loss=`` takes, then with the defaults of its
    fields, and models with it can be saved.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, kernelweave as kw
    >>> @dataclass(frozen=True)
    ... class Expectile(kw.losses.Loss):
    ...     tau: float = 0.5
    ...     def __post_init__(self):
    ...         if not 0 < self.tau < 1:
    ...             raise kw.InputError(f"`tau` must be between 0 and 1, got {self.tau}.")
    ...     def weight(self, sign):
    ...         return np.where(sign > 0, self.tau, 1 - self.tau)
    ...     def value(self, y, f):
    ...         return 0.5 * self.weight(y - f) * (y - f) ** 2
    ...     def slope(self, y, f):
    ...         return self.weight(y - f) * (f - y)
    ...     def conjugate(self, y, b):
    ...         return 0.5 * b**2 / self.weight(b) - y * b
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> gram, y = X[:, None, :] * X[None, :, :], X[:, 0] - X[:, 2]
    >>> kw.solve(kw.Problem(gram, y, loss=Expectile(0.9), C=1.0)).status
    Status.CONVERGED
    """

    __signature__ = ReadableSignature()

    name: ClassVar[str]
    #: Whether targets are the labels -1 and 1.
    classifies: ClassVar[bool] = False
    #: Whether a problem has an intercept unless it says otherwise.
    fits_intercept: ClassVar[bool] = True
    #: Whether `sides` gives the dual as a quadratic program.
    quadratic: ClassVar[bool] = False
    #: Whether the loss is piecewise linear: coefficients have bounds and no curvature, so that duals are quick.
    piecewise_linear: ClassVar[bool] = False
    #: Whether the loss has a derivative everywhere and `second_derivative` is given: Newton then takes it as it is.
    smooth: ClassVar[bool] = False
    #: Whether it is half the squared error: on the simplex RLS2, which has solvers of its own.
    squares: ClassVar[bool] = False
    #: Whether it is a sum over rows. One that is not has its own `total`, `gradient`, `gradient_within`, `curvature`,
    #: `root` (a factor of the second derivative), `dual_term`, `dual_slope`, `gap`, `infeasibility`, `free`, `system`.
    rowwise: ClassVar[bool] = True
    #: Whether folds choose by the loss itself: of predictions for which no squared error is meant.
    scores: ClassVar[bool] = False
    #: Whether decision values are a function of the mean of the targets, and have no unit: see `prediction`.
    linked: ClassVar[bool] = False
    #: Whether exported certificates can state it.
    judged: ClassVar[bool] = False
    #: Half width of a tube without loss.
    tube: float = 0.0
    #: Whether `gap` is a difference of larger numbers, whose rounding counts.
    cancels: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        # the squared error of decision values means nothing then
        cls.scores = cls.scores or cls.linked
        if "name" not in vars(cls):
            cls.name = cls.__name__
            return
        known = LOSSES.get(cls.name)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise InputError(f"There is a loss {cls.name!r} already, {known.__name__}. Take another `name`.")
        LOSSES[cls.name] = cls

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *sorted(vars(self))))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
        )

    # ---- the three formulas -----------------------------------------------------------------------

    @abstractmethod
    def value(self, y: Array, f: Array) -> Array:
        """The loss of every row.

        Parameters
        ----------
        y, f : arrays of shape (n_samples,)
            Targets and decision values.
        """

    @abstractmethod
    def slope(self, y: Array, f: Array) -> Array:
        """Its derivative by f; at a kink the steeper side.

        Parameters
        ----------
        y, f : arrays of shape (n_samples,)
            Targets and decision values.
        """

    @abstractmethod
    def conjugate(self, y: Array, b: Array) -> Array:
        """``sup_f -b f - loss(y, f)`` for every row: the conjugate at ``-b``; infinity outside of the bounds.

        Parameters
        ----------
        y, b : arrays of shape (n_samples,)
            Targets and coefficients.
        """

    # ---- all rows together ------------------------------------------------------------------------

    def total(self, y: Array, costs: Array, f: Array) -> float:
        """The loss of all rows.

        Parameters
        ----------
        y, costs, f : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and decision values.
        """
        return float(costs @ self.value(y, f))

    def gradient(self, y: Array, costs: Array, f: Array) -> Array:
        """Its derivatives by f.

        Parameters
        ----------
        y, costs, f : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and decision values.
        """
        return costs * self.slope(y, f)

    def gradient_within(self, y: Array, costs: Array, f: Array, error: Array | float) -> tuple[Array, Array]:
        """Bounds of the derivatives at decision values that are off by at most an error.

        Parameters
        ----------
        y, costs, f : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and decision values.
        error : float or array of shape (n_samples,)
            Largest error of the decision values.
        """
        return self.gradient(y, costs, f - error), self.gradient(y, costs, f + error)

    def curvature(self, y: Array, costs: Array, f: Array) -> Array:
        """Second derivatives, or somewhat more: a diagonal.

        Parameters
        ----------
        y, costs, f : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and decision values.
        """
        return costs * self.second_derivative(y, f)

    def root(self, y: Array, costs: Array, f: Array) -> Root | None:
        """A factor of the second derivative that is no diagonal; None where it is one.

        Parameters
        ----------
        y, costs, f : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and decision values.
        """
        return None

    def _expansion(
        self, y: Array, costs: Array, product: Array, start: float, fit_intercept: bool
    ) -> tuple[float, float, Array, Array] | None:
        """Intercept, value, coefficients and second derivatives of `Expansion`, where a loss has them all at once."""
        return None

    # ---- targets ----------------------------------------------------------------------------------

    def check(self, y: ArrayLike, costs: Array) -> Array:
        """The targets as an array; raises `InputError` if they cannot be used, or if formulas disagree.

        Parameters
        ----------
        y, costs : arrays of shape (n_samples,)
            Targets and costs of the rows (C times the sample weights).
        """
        targets = check_labels(y, costs) if self.classifies else check_vector(y, "y", len(costs))
        if not type(self).__module__.startswith("kernelweave."):
            self._check_formulas(targets)
        return targets

    def _check_formulas(self, y: Array) -> None:
        """Raise where ``value + conjugate + b f`` is below 0 on a row or, at the slope, not 0 (Young's inequality)."""
        y = y[:: max(1, len(y) // CHECKED_ROWS)]
        size = float(np.ptp(y)) or 1.0
        places = [(0.0 if self.classifies else y) + step * size for step in CHECKED_STEPS]
        found: list[tuple[Array, Array, Array, Array]] = []
        with np.errstate(all="ignore"):
            for f in places:
                f = np.broadcast_to(f, y.shape)
                value, b = np.asarray(self.value(y, f)), -np.asarray(self.slope(y, f))
                if value.shape != y.shape or b.shape != y.shape:
                    raise InputError(
                        f"`value` and `slope` of {self!r} must return an array with an entry for each row, {y.shape}, "
                        f"got {value.shape} and {b.shape}."
                    )
                # at the bound of b itself the conjugate may be infinite by rounding
                conjugates = [self.conjugate(y, b * inside) for inside in (1.0, 1.0 - 1e-9)]
                found.append((f, value, b, np.minimum(*conjugates)))
            for place, (f, value, _, _) in enumerate(found):
                for slope, (_, _, b, conjugate) in enumerate(found):
                    left = value + conjugate + b * f
                    error = FORMULA_ERROR * (np.abs(value) + np.abs(conjugate) + np.abs(b * f)) + SMALLEST
                    wrong = left < -error
                    if place == slope:
                        wrong |= (left > error) | np.isposinf(left)
                    wrong &= np.isfinite(value) & np.isfinite(b) & ~np.isnan(left)
                    if wrong.any():
                        row = int(np.flatnonzero(wrong)[0])
                        raise InputError(
                            f"The formulas of {self!r} disagree: at y = {y[row]:.4g}, f = {f[row]:.4g} and "
                            f"b = {b[row]:.4g}, value + conjugate + b f is {left[row]:.3g}, where it must be "
                            f"{'0, as b is minus the slope' if place == slope else 'at least 0'}. Check signs: the "
                            "conjugate is sup_f -b f - loss(y, f)."
                        )

    def fold_classes(self, y: Array) -> Array | None:
        """Classes of rows of which the training rows of every fold need some; None where they need none.

        Parameters
        ----------
        y : array of shape (n_samples,)
            Targets.
        """
        return None

    def prediction(self, f: Array) -> Array:
        """Predictions of numbers from decision values: these themselves, unless a link is between them.

        Parameters
        ----------
        f : array of shape (n_samples,)
            Decision values.
        """
        return f

    def log_probability(self, f: Array) -> Array | None:
        """Logarithm of the probability of the label 1 at f, that of -1 at -f; None for a loss without probabilities.

        Parameters
        ----------
        f : array of shape (n_samples,)
            Decision values.
        """
        return None

    # ---- the dual ---------------------------------------------------------------------------------

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        """Bounds of the coefficients in the dual.

        Parameters
        ----------
        y, costs : arrays of shape (n_samples,)
            Targets and costs of the rows (C times the sample weights).
        """
        low, high = limits_of(self.slope, y)
        with np.errstate(invalid="ignore"):
            return np.where(costs > 0, costs * low, 0.0), np.where(costs > 0, costs * high, 0.0)

    def box(self, y: Array, costs: Array) -> Box:
        """The dual in numbers, of a loss that follows from these: linear term, ridge, bounds of coefficients, and kink.

        Parameters
        ----------
        y, costs : arrays of shape (n_samples,)
            Targets and costs of the rows (C times the sample weights).
        """
        return Box(-y, self.ridge(costs), *self.bounds(y, costs), self.tube)

    def values(self, machine: WithData, b: Array, product: Array, intercept: float | None) -> Values:
        """Primal value and gap of coefficients, at a given intercept or the best one.

        Parameters
        ----------
        machine : Machine
            The loss with its data.
        b, product : arrays of shape (n_samples,)
            Coefficients, and ``K b``.
        intercept : float or None
            The intercept; None for the best one.
        """
        y, costs = machine.y, machine.costs
        if intercept is None:
            intercept = self.intercept(y, costs, product)
        f = product + intercept
        primal = 0.5 * float(b @ product) + self.total(y, costs, f)
        return Values(primal, self.gap(y, costs, b, f), intercept)

    def rounding(self, machine: WithData, b: Array, product: Array, at: Values, error: Array) -> float:
        """Bound of the rounding errors of values.

        Parameters
        ----------
        machine : Machine
            The loss with its data.
        b, product : arrays of shape (n_samples,)
            Coefficients, and ``K b``.
        at : Values
            The values.
        error : array of shape (n_samples,)
            Bound of the rounding errors of the product.
        """
        y, costs, f = machine.y, machine.costs, product + at.intercept
        # sums with a product of zero are exact; a loss with a link bounds what its targets add
        error = error + EPS * np.where(product != 0.0, np.abs(f), 0.0)
        if not self.linked:
            error = error + EPS * np.abs(y - f)
        low, high = self.gradient_within(y, costs, f, error)
        # the derivative of the gap by f_i is ``b_i + C_i loss'(f_i)``, that of the dual value half of b_i, and a convex
        # loss is no steeper between both ends
        residual = np.maximum(np.abs(b + low), np.abs(b + high))
        sums = at.primal + at.gap + float(np.abs(b) @ np.abs(product))
        total = float(error @ (residual + 0.5 * np.abs(b))) + sum_error(len(b)) * sums
        if machine.fit_intercept:
            share, side = imbalance(b)
            total += share * float(side @ np.abs(self.dual_slope(y, costs, b) - f))
        return total + self.gap_error(y, costs, b, f)

    def infeasibility(self, y: Array, costs: Array, b: Array) -> float:
        """The largest violation of a constraint of the dual by coefficients, but for their sum.

        Parameters
        ----------
        y, costs, b : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and coefficients.
        """
        low, high = self.bounds(y, costs)
        return float(np.maximum(low - b, b - high).max(initial=0.0))

    def _shares(self, y: Array, costs: Array, b: Array) -> Array:
        """Coefficients as shares of the costs, within their bounds."""
        share = np.divide(b, costs, out=np.zeros_like(b), where=costs > 0)
        return np.clip(share, *limits_of(self.slope, y))

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        """The dual objective without the kernel's part.

        Parameters
        ----------
        y, costs, b : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and coefficients.
        """
        used = costs > 0
        y, costs, b = y[used], costs[used], b[used]
        return -float(costs @ self.conjugate(y, self._shares(y, costs, b)))

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        """Derivative of the dual term: the value f at which ``C_i slope`` is ``-b_i``.

        Parameters
        ----------
        y, costs, b : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and coefficients.
        """
        out = y.copy()
        used = np.flatnonzero(costs > 0)
        own = y[used]
        out[used] = self._value_at(own, self._inside(own, self._shares(own, costs[used], b[used])))
        return out

    def _inside(self, y: Array, share: Array) -> Array:
        """Shares moved from finite bounds by rounding, where the loss of some is not steep at any finite value."""
        low, high = limits_of(self.slope, y)
        with np.errstate(invalid="ignore"):
            low, high = (np.where(np.isfinite(end), end, 0.0) for end in (low, high))
            room = INSIDE * np.maximum(high - low, np.abs(share))
        inner = np.where(share <= low, share + room, np.where(share >= high, share - room, share))
        return np.where(low < high, inner, share)

    def _value_at(self, y: Array, share: Array) -> Array:
        low, high = crossing(lambda f: self.slope(y, f) + share, y - 1.0, y + 1.0, np.abs(y))
        return 0.5 * (low + high)

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        """Sum of loss, conjugate and ``b f``, summed from nonnegative terms.

        Parameters
        ----------
        y, costs, b, f : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights), coefficients and decision values.
        """
        return float(np.maximum(np.add.reduce(self._gap_parts(y, costs, b, f)), 0.0).sum())

    def gap_error(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        """Bound of the rounding errors of `gap` beyond those of a sum of its terms.

        Parameters
        ----------
        y, costs, b, f : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights), coefficients and decision values.
        """
        if not self.cancels:
            return 0.0
        return 8.0 * EPS * float(np.abs(self._gap_parts(y, costs, b, f)).sum())

    def _gap_parts(self, y: Array, costs: Array, b: Array, f: Array) -> tuple[Array, Array, Array]:
        used = costs > 0
        y, costs, b, f = y[used], costs[used], b[used], f[used]
        share = self._shares(y, costs, b)
        return costs * self.value(y, f), costs * self.conjugate(y, share), costs * share * f

    def ridge(self, costs: Array) -> Array:
        """Ridge that the loss adds to the diagonal of the kernel, for all coefficients.

        Parameters
        ----------
        costs : array of shape (n_samples,)
            Costs of the rows (C times the sample weights).
        """
        return np.zeros(len(costs))

    def sides(self, y: Array, costs: Array) -> Sides | None:
        """The dual for an interior point; None if it is not a quadratic program.

        Parameters
        ----------
        y, costs : arrays of shape (n_samples,)
            Targets and costs of the rows (C times the sample weights).
        """
        return None

    # ---- the primal -------------------------------------------------------------------------------

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        """The best intercept for ``f = product + intercept``; the middle if it is not unique.

        Parameters
        ----------
        y, costs, product : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and decision values without the intercept.
        """
        used = costs > 0
        y, costs, product = y[used], costs[used], product[used]
        rest = y - product
        ends = np.array([rest.min() - 1.0]), np.array([rest.max() + 1.0])

        def total(t: Array) -> tuple[float, float]:
            terms = costs * self.slope(y, product + t[0])
            return float(terms.sum()), 1e-13 * float(np.abs(terms).sum())

        # sums that differ by rounding are equal
        size = float(np.abs(product).max()) + float(np.abs(y).max())
        first = crossing(lambda t: np.array([sum(total(t))]), *ends, size)[1]
        last = crossing(lambda t: np.array([np.subtract(*total(t))]), *ends, size)[0]
        return 0.5 * float(first[0] + last[0])

    def second_derivative(self, y: Array, f: Array) -> Array:
        """Second derivative by f, or somewhat more; by differences, of which a kink makes a large number.

        Parameters
        ----------
        y, f : arrays of shape (n_samples,)
            Targets and decision values.
        """
        step = DIFFERENCE * np.maximum(np.maximum(np.abs(f), np.abs(y)), float(np.abs(y).mean()))
        step = np.maximum(step, np.finfo(float).tiny)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.maximum((self.slope(y, f + step) - self.slope(y, f - step)) / (2.0 * step), 0.0)

    def proximal(
        self, y: Array, costs: Array, centre: Array, pull: Array, f: Array, near: Array | None = None
    ) -> Array:
        """``argmax_b dual term - b f - (b - centre)^2 / (2 pull)``, feasible, for positive costs and pull.

        `near` are values at which the loss may have these coefficients; at kinks they are often the same again.

        Parameters
        ----------
        y, costs, centre, pull, f : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights), centre of the quadratic term, its width and
            decision values.
        near : array of shape (n_samples,), optional
            Decision values at which the loss may have these coefficients.
        """
        radius, middle = pull / costs, f - centre / pull

        def function(g: Array) -> Array:
            return self.slope(y, g) + radius * (g - middle)

        with np.errstate(over="ignore", invalid="ignore"):
            other = middle - self.slope(y, middle) / radius
            other = np.where(np.isfinite(other), other, middle - np.sign(other))
            low, high, size = np.minimum(middle, other), np.maximum(middle, other), np.abs(f) + np.abs(middle)
            if near is not None and near.shape == f.shape:
                width = 4.0 * EPS * (size + np.abs(near))
                below, above = near - width, near + width
                inside = (function(below) <= 0.0) & (function(above) >= 0.0)
                low, high = np.where(inside, below, low), np.where(inside, above, high)
        low, high = crossing(function, low, high, size)
        aim = pull * (0.5 * (low + high) - middle)
        # with the digits of the slope where there is one
        return np.clip(aim, -costs * self.slope(y, high), -costs * self.slope(y, low))

    def proximal_slope(self, y: Array, costs: Array, centre: Array, pull: Array, f: Array, b: Array) -> Array:
        """Minus the derivative of `proximal` by f, where its value is b.

        Parameters
        ----------
        y, costs, centre, pull, f, b : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights), centre of the quadratic term, its width, decision
            values and coefficients.
        """
        second = costs * self.second_derivative(y, f + (b - centre) / pull)
        return np.where(np.isfinite(second), pull * second / (second + pull), pull)

    # ---- changes of the solution ------------------------------------------------------------------

    def free(self, y: Array, costs: Array, b: Array) -> Index:
        """Free rows, whose coefficient changes with the kernel.

        Parameters
        ----------
        y, costs, b : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and coefficients.
        """
        return np.flatnonzero(self._stiffness(y, costs, b) > 0.0)

    def _stiffness(self, y: Array, costs: Array, b: Array) -> Array:
        """Second derivatives of the losses where the coefficients are optimal; large at kinks, 0 at bounds."""
        out = np.zeros(len(b))
        used = np.flatnonzero(costs > 0)
        own, cost = y[used], costs[used]
        share = self._shares(own, cost, b[used])
        low, high = limits_of(self.slope, own)
        with np.errstate(invalid="ignore"):
            room = np.minimum(share - low, high - share)
        step = np.minimum(
            DIFFERENCE * np.maximum(np.abs(share), float(np.abs(share).max(initial=0.0))), 0.5 * room
        )
        inside = step > 0.0
        own, step, share = own[inside], step[inside], share[inside]
        change = self._value_at(own, share - step) - self._value_at(own, share + step)
        least = EPS * (np.abs(own) + float(np.abs(own).mean()) if len(own) else 1.0)
        out[used[inside]] = cost[inside] * 2.0 * step / np.maximum(change, least)
        return out

    def system(
        self, K: Array, y: Array, costs: Array, b: Array, rows: Index, *, fit_intercept: bool = True
    ) -> Bordered | Coupled | None:
        """The linear system of the change of free coefficients with the kernel; None if there is none.

        Parameters
        ----------
        K : array of shape (n_samples, n_samples)
            Kernel matrix of the training rows.
        y, costs, b : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and coefficients.
        rows : array of int, shape (n_free,)
            Positions of the rows whose coefficient changes with the kernel, from `free`.
        fit_intercept : bool
            Whether the sum of the coefficients stays as it is.
        """
        block = K if len(rows) == len(K) else K[rows[:, None], rows]
        stiffness = self._stiffness(y, costs, b)[rows]
        size = float(block.diagonal().mean())
        if size > 0.0:
            # beyond this the rows lie at kinks, and the kernel alone decides
            stiffness = np.minimum(stiffness, STIFFEST / size)
        return Weighted(block, stiffness, fit_intercept=fit_intercept)

    # ---- a machine --------------------------------------------------------------------------------

    def solve(
        self, machine: WithData, K: Array, tol: float, start: Array | None, entry_error: float
    ) -> Trained:
        """Solve a machine of this loss on one kernel; everything was checked, see `Machine.solve`.

        Parameters
        ----------
        machine : Machine
            The loss with its data.
        K : array of shape (n_samples, n_samples)
            Kernel matrix of the training rows.
        tol : float
            Relative gap at which to stop.
        start : array of shape (n_samples,), or None
            Coefficients to start from.
        entry_error : float
            Error of the entries of K, as a fraction of ``sqrt(K_ii K_jj)``.

        Returns
        -------
        Trained
            Coefficients and intercept, with the bounds of which a certificate consists.
        """
        costs = machine.costs
        used = np.flatnonzero(costs > 0)
        part, on_used = K, machine
        if len(used) < len(K):
            part = np.ascontiguousarray(K[np.ix_(used, used)])
            on_used = machine.restricted(used)
        begin = np.zeros(len(used)) if start is None else start[used]
        with blas_threads_for(len(used)):
            found, n_iter, all_steps = self._iterate(on_used, part, begin, tol)
        b = np.zeros(len(K))
        b[used] = found
        for long in (False, True):
            product, error = kernel_product(K, b, entry_error, long=long)
            at = machine.values(b, product)
            rounding = machine.rounding(b, product, at, error)
            # extended precision is of no use for a sum of kernels in double precision
            if at.gap + rounding <= tol * abs(at.primal) or entry_error > 0.0:
                break
        ended = REACHED[used_up()] or Status.STALLED
        if all_steps and at.gap > tol * abs(at.primal):
            ended = Status.MAX_ITER
        gap = at.gap if np.isfinite(at.primal) else np.inf
        own = b, at.intercept, at.primal, gap, rounding, ended, tol, n_iter
        return Trained(*own, machine.infeasibility(b))

    def _iterate(self, machine: WithData, K: Array, start: Array, tol: float) -> tuple[Array, int, bool]:
        """Coefficients of rows that all have a cost, the number of systems, and whether all were used up."""
        return solve_augmented(self, machine, K, start, tol)


class BoxLoss(Loss):
    """A loss whose dual is a quadratic program with a box, and a kink at zero for a tube.

    It follows from these: gap and intercept need no formulas of their own.
    """

    quadratic: ClassVar[bool] = True
    judged: ClassVar[bool] = True
    cancels: ClassVar[bool] = False
    #: Whether the loss is a square where it is positive, and adds ``1 / C_i`` to the diagonal of the kernel.
    ridged: ClassVar[bool] = False

    def ridge(self, costs: Array) -> Array:
        if not self.ridged:
            return np.zeros(len(costs))
        return np.divide(1.0, costs, out=np.zeros_like(costs), where=costs > 0)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        return float(core.box_intercept(*self.box(y, costs), product))

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        return float(core.box_values(*self.box(y, costs), b, f, 0.0, False)[1])

    def values(self, machine: WithData, b: Array, product: Array, intercept: float | None) -> Values:
        return Values(*core.box_values(*machine.box, b, product, intercept or 0.0, intercept is None))

    def rounding(self, machine: WithData, b: Array, product: Array, at: Values, error: Array) -> float:
        own = b, product, at.intercept, error, at.primal + at.gap, machine.fit_intercept
        return float(core.box_rounding(*machine.box, *own))

    def sides(self, y: Array, costs: Array) -> Sides | None:
        if not self.quadratic:
            return None
        _, ridge, low, high, tube = self.box(y, costs)
        upper = np.stack([high, -low])
        upper[upper >= UNBOUNDED] = np.inf
        if self.classifies:
            # multipliers in proportion to the costs, of the same sum on both classes
            start = np.where(y > 0, costs / costs[y > 0].sum(), costs / costs[y < 0].sum())
            return Sides(y[None], np.ones((1, len(y))), upper.max(axis=0), ridge, start[None])
        sign = np.stack([np.ones(len(y)), -np.ones(len(y))])
        centred = y - np.average(y, weights=costs)
        away = costs * centred / max(float(np.abs(centred).max()), np.finfo(float).tiny)
        # the start has the variable of each row that moves towards its target
        return Sides(sign, sign * y - tube, upper, ridge, np.maximum(sign * away, 0.0))

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        own = self.tube * float(np.abs(b).sum()) + 0.5 * float(self.ridge(costs) @ np.square(b))
        return float(y @ b) - own

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        return y - self.tube * np.sign(b) - self.ridge(costs) * b

    def _within(self, y: Array, costs: Array, b: Array) -> NDArray[np.bool_]:
        """Whether coefficients are neither at a bound nor at the kink of a tube."""
        low, high = self.bounds(y, costs)
        return (b > low) & (b < high) & ((b != 0.0) | (self.tube == 0.0))

    def free(self, y: Array, costs: Array, b: Array) -> Index:
        """Free rows: neither at a bound nor at the kink of a tube.

        Parameters
        ----------
        y, costs, b : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights) and coefficients.
        """
        return np.flatnonzero(self._within(y, costs, b))

    def system(
        self, K: Array, y: Array, costs: Array, b: Array, rows: Index, *, fit_intercept: bool = True
    ) -> Bordered | None:
        block = K[rows[:, None], rows]
        block.flat[:: len(rows) + 1] += self.ridge(costs)[rows]
        # a kernel of zeros has no scale for a multiple of the identity
        return Bordered(block, fit_intercept=fit_intercept) if float(block.diagonal().mean()) > 0.0 else None

    def proximal(
        self, y: Array, costs: Array, centre: Array, pull: Array, f: Array, near: Array | None = None
    ) -> Array:
        """A step of the box program in each coordinate.

        Parameters
        ----------
        y, costs, centre, pull, f : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights), centre of the quadratic term, its width and
            decision values.
        near : array of shape (n_samples,), optional
            Decision values at which the loss may have these coefficients.
        """
        aim = centre + pull * (y - f)
        aim = np.sign(aim) * np.maximum(np.abs(aim) - pull * self.tube, 0.0)
        return np.clip(aim / (1.0 + pull * self.ridge(costs)), *self.bounds(y, costs))

    def proximal_slope(self, y: Array, costs: Array, centre: Array, pull: Array, f: Array, b: Array) -> Array:
        """The step's length where it ends inside of the box.

        Parameters
        ----------
        y, costs, centre, pull, f, b : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights), centre of the quadratic term, its width, decision
            values and coefficients.
        """
        return np.where(self._within(y, costs, b), pull / (1.0 + pull * self.ridge(costs)), 0.0)

    def solve(
        self, machine: WithData, K: Array, tol: float, start: Array | None, entry_error: float
    ) -> Trained:
        if not machine.fit_intercept:
            return super().solve(machine, K, tol, start, entry_error)
        problem = BoxProblem(K, machine.box, entry_error=entry_error)
        begin = np.zeros(len(K)) if start is None else start
        return Run(problem, tol, machine.max_iter, begin).solution()[0]


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
