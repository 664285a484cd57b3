"""Losses as Newton's method needs them, with a first derivative everywhere, and a machine that is solved with them.

Smooth losses are taken as they are. Others are approached by the augmented Lagrangian of their duals: at coefficients
a_i of the rows and a radius r, the cost of a row is

    max_b  dual term(b) - b f - (b - a)^2 / (2 r C_i) ,

whose maximiser b is feasible in the dual. With ``a = b`` again and again the solution becomes that of the loss itself;
a few radii are enough.

References
----------
R. T. Rockafellar, Augmented Lagrangians and applications of the proximal point algorithm in convex programming,
Mathematics of Operations Research 1 (1976).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from kernelweave._allowance import LEFT, used_up
from kernelweave._types import Array
from kernelweave.machines.bordered import Weighted
from kernelweave.machines.box import Values, WithData
from kernelweave.machines.rounding import EPS, balanced

#: `kernelweave.machines.loss` has this class, and uses this module.
Loss: TypeAlias = Any

#: Steps to the best intercept, and to where a function of a row is zero.
MOST_STEPS, MOST_SPLITS = 200, 20
#: Eight halves each: as many as there are between the largest and the smallest number.
MOST_HALVES = 300
#: Sum of coefficients that counts as zero, as a share of the sum of their sizes.
BALANCED = 1e-14
#: Most systems of a machine, and moves of the centre without a smaller gap after which rounding is assumed to limit it.
MOST_SYSTEMS, PATIENCE = 500, 8
#: The first radius, per unit of decision values and of the kernel.
RADIUS = 10.0
#: The radius grows by this factor unless the losses' part of the gap falls by the other.
GROWTH, FALL = 3.0, 0.3
#: The required share of the decrease that the derivative predicts, and the shortest step.
SUFFICIENT, SHORTEST = 1e-4, 1e-8
#: Where limits of slopes are looked for: pairs of distances at which they must be the same.
FAR = ((1e100, 1e200), (1e6, 1e7), (300.0, 600.0))


class Expansion:
    """Costs of the rows and their derivatives at a product, with the best intercept.

    Attributes
    ----------
    product, f : arrays of shape (n_rows,)
        ``f = product + intercept``.
    intercept, value : float
    b, h : arrays of shape (n_rows,)
        Minus the derivatives, which are feasible coefficients, and the second ones, or somewhat more.
    """

    def __init__(self, smooth: Smooth, product: Array, start: float) -> None:
        self._smooth, self.product = smooth, product
        loss, own = smooth.loss, smooth.fit_intercept
        known = loss._expansion(smooth.y, smooth.costs, product, start, own) if smooth.exact else None
        if known is not None:
            self.intercept, self.value, self.b, self.h = known
        else:
            self.intercept = smooth.intercept(product, start)
            self.value = smooth.value(self.f)

    @cached_property
    def f(self) -> Array:
        return self.product + self.intercept

    @cached_property
    def b(self) -> Array:
        b = self._smooth.coefficients(self.f)
        return balanced(b) if self._smooth.fit_intercept else b

    @cached_property
    def h(self) -> Array:
        return self._smooth.curvature(self.f)


@dataclass(eq=False)
class Smooth:
    """Costs of the rows with a derivative, as functions of the decision values f: a loss that has one.

    Attributes
    ----------
    loss : Loss
    y, costs : arrays of shape (n_rows,)
    fit_intercept : bool
    """

    loss: Loss
    y: Array
    costs: Array
    fit_intercept: bool = True
    #: Whether coefficients are the derivative of the loss itself.
    exact: ClassVar[bool] = True

    def value(self, f: Array) -> float:
        """The sum of the costs."""
        return float(self.loss.total(self.y, self.costs, f))

    def coefficients(self, f: Array) -> Array:
        """Minus the derivatives, which are feasible coefficients of the rows but for their sum."""
        return -self.loss.gradient(self.y, self.costs, f)

    def curvature(self, f: Array) -> Array:
        """Second derivatives, or somewhat more."""
        return self.loss.curvature(self.y, self.costs, f)

    def intercept(self, product: Array, start: float) -> float:
        """The best intercept for ``f = product + intercept``."""
        return self.loss.intercept(self.y, self.costs, product) if self.fit_intercept else 0.0


@dataclass(eq=False)
class Augmented(Smooth):
    """Any loss with the augmented Lagrangian of its dual.

    Attributes
    ----------
    centre : array of shape (n_rows,)
        The coefficients a.
    radius : float
    """

    centre: Array = field(kw_only=True)
    radius: float = field(kw_only=True)
    exact: ClassVar[bool] = False
    _last: tuple[Array, Array, float, Array] | None = field(default=None, repr=False)
    #: Where the losses themselves had these coefficients: at kinks they stay.
    _near: Array | None = field(default=None, repr=False)

    @property
    def _pull(self) -> Array:
        return self.radius * self.costs

    def coefficients(self, f: Array) -> Array:
        """Minus the derivatives."""
        # value and curvature ask at the same f
        last = self._last
        if last is None or last[0] is not f or last[1] is not self.centre or last[2] != self.radius:
            b = self._on_used(self.loss.proximal, f, self._near)
            with np.errstate(invalid="ignore", divide="ignore"):
                self._near = f + (b - self.centre) / self._pull
            self._last = last = f, self.centre, self.radius, b
        return last[3]

    def value(self, f: Array) -> float:
        """The sum of the costs."""
        b = self.coefficients(f)
        return self.dual(b) - float(b @ f)

    def dual(self, b: Array) -> float:
        """The dual term of coefficients, less their distance from the centre."""
        away = 0.5 * np.square(b - self.centre) / self._pull
        return self.loss.dual_term(self.y, self.costs, b) - float(away.sum())

    def curvature(self, f: Array) -> Array:
        """Second derivatives, or somewhat more."""
        return self._on_used(self.loss.proximal_slope, f, self.coefficients(f))

    def _on_used(self, formula: Callable[..., Array], f: Array, more: Array | None) -> Array:
        """A formula on the rows with a cost, and zero on those that are left out."""
        given = self.y, self.costs, self.centre, self._pull, f, more
        used = self.costs > 0.0
        if used.all():
            return formula(*given)
        out = np.zeros(len(f))
        out[used] = formula(*(None if one is None else one[used] for one in given))
        return out

    def intercept(self, product: Array, start: float) -> float:
        """Where the sum of the coefficients, which falls with the intercept, is zero: Newton inside of a bracket."""
        if not self.fit_intercept:
            return 0.0
        rest = self.y - product
        reach = 1.0 / self.radius + self.loss.tube
        low, high = float(rest.min()) - reach, float(rest.max()) + reach
        t = min(max(start, low), high)
        low, high = -np.inf, np.inf
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
                if np.isfinite(high - low):
                    after = 0.5 * (low + high)
                else:
                    after = t + np.copysign(2.0 * max(abs(t), reach, float(np.ptp(rest))), total)
            if after == t:
                break
            t = after
        return t


def smooth_loss(loss: Loss, y: Array, costs: Array, *, fit_intercept: bool = True) -> Smooth:
    """A loss with a derivative, or the augmented one at coefficients of zero."""
    if loss.smooth:
        return Smooth(loss, y, costs, fit_intercept)
    radius = 1.0 / unit_of(loss, y, costs)
    return Augmented(loss, y, costs, fit_intercept, centre=np.zeros(len(y)), radius=radius)


def unit_of(loss: Loss, y: Array, costs: Array) -> float:
    """A size of decision values: the tube has the unit of the targets."""
    spread = (
        1.0 if loss.classifies or loss.linked else float(np.average(np.abs(y - np.median(y)), weights=costs))
    )
    return spread if spread > 0 else 1.0


def limits_of(slope: Callable[[Array, Array], Array], y: Array) -> tuple[Array, Array]:
    """Minus the slopes of a loss at infinity and at minus infinity: bounds of the coefficients of rows with cost 1."""
    found = []
    with np.errstate(all="ignore"):
        for sign in (1.0, -1.0):
            for near, far in FAR:
                at, beyond = slope(y, np.full(len(y), sign * near)), slope(y, np.full(len(y), sign * far))
                if not np.isnan(at + beyond).any():
                    break
            same = np.abs(at - beyond) <= 1e-9 * np.abs(at)
            found.append(np.where(same & np.isfinite(at), -at, -sign * np.inf))
    return found[0], found[1]


def crossing(
    function: Callable[[Array], Array], low: Array, high: Array, size: Array | float = 0.0
) -> tuple[Array, Array]:
    """Neighbouring numbers between which increasing functions, one for each entry, pass zero; or twice where they are.

    False positions with halved weights, which are exact where a function is linear, and then halves.

    Parameters
    ----------
    function : callable
        From arrays of shape (n,) to arrays of shape (n,).
    low, high : arrays of shape (n,)
        A guess, which is widened until the functions have both signs.
    size : array of shape (n,) or float
        Of the numbers in the functions, to whose digits they are known.
    """

    def distance(low: Array, high: Array) -> Array:
        return 2.0 * EPS * np.maximum(np.maximum(np.abs(low), np.abs(high)), size) + np.finfo(float).tiny

    with np.errstate(all="ignore"):
        below, above = function(low), function(high)
        width = high - low + np.finfo(float).tiny
        for _ in range(MOST_STEPS):
            down, up = below > 0.0, above < 0.0
            if not (down.any() or up.any()):
                break
            width = 2.0 * width
            high, above = np.where(down, low, high), np.where(down, below, above)
            low, below = np.where(up, high, low), np.where(up, above, below)
            low, high = np.where(down, low - width, low), np.where(up, high + width, high)
            below, above = function(low), function(high)
        # how often the same end has moved: then the next place is farther from it
        last, again = np.zeros(len(low)), np.zeros(len(low))
        for _ in range(MOST_SPLITS):
            least = distance(low, high)
            if (high - low <= 2.0 * least).all():
                break
            half = 0.5 * low + 0.5 * high
            middle = low - below * ((high - low) / (above - below))
            middle = np.where(np.isfinite(middle), middle, half)
            away = least * 8.0**again
            middle = np.clip(middle, np.minimum(low + away, half), np.maximum(high - away, half))
            value = function(middle)
            left, right = value <= 0.0, value >= 0.0
            again, last = np.where(np.sign(value) == last, again + 1.0, 0.0), np.sign(value)
            # an end that stays a second time counts half
            half_of = np.where(again > 0.0, 0.5, 1.0)
            below, above = np.where(left, value, half_of * below), np.where(right, value, half_of * above)
            low, high = np.where(left, middle, low), np.where(right, middle, high)
        else:
            # what is left are kinks, which only halves find; a function that overflows is above zero there
            for _ in range(MOST_HALVES):
                for _ in range(8):
                    middle = 0.5 * low + 0.5 * high
                    value = function(middle)
                    low, high = np.where(value <= 0.0, middle, low), np.where(value < 0.0, high, middle)
                if (high - low <= 2.0 * distance(low, high)).all():
                    break
    return low, high


def solve_augmented(
    loss: Loss, machine: WithData, K: Array, start: Array, tol: float
) -> tuple[Array, int, bool]:
    """A machine on one kernel by Newton on augmented losses, whose centres move to their coefficients.

    With h the second derivatives of the augmented losses at decision values f, and b their coefficients, a step solves

        (K + h^-1) c + t 1 = f + h^-1 b ,     1'c = 0

    on the rows with h > 0, and leaves the coefficients of the others at b.

    Parameters
    ----------
    loss : Loss
    machine : WithData
        With positive costs only.
    K : array of shape (n, n)
    start : array of shape (n,)
    tol : float

    Returns
    -------
    dual_coef : array of shape (n,)
    n_iter : int
        Systems.
    all_used : bool
        Whether it stopped at the limit of the machine.
    """
    y, costs, fit_intercept = machine.y, machine.costs, machine.fit_intercept
    settle = balanced if fit_intercept else np.asarray
    low, high = loss.bounds(y, costs)
    c = settle(np.clip(start, low, high))
    # at first about as steep as the kernel: most rows are between their kinks
    size = float(np.average(K.diagonal(), weights=costs)) * float(costs.mean())
    radius = min(RADIUS / size if size > 0.0 else np.inf, RADIUS / unit_of(loss, y, costs))
    smooth = Augmented(loss, y, costs, fit_intercept, centre=c, radius=radius)
    limit = MOST_SYSTEMS if machine.max_iter is None else machine.max_iter
    product = K @ c
    t = smooth.intercept(product, 0.0)
    best, at = np.zeros(len(y)), Values(np.inf, np.inf, 0.0)
    fall, n, idle = np.inf, 0, 0
    while True:
        f = product + t
        b = settle(smooth.coefficients(f))
        along = K @ b
        before = at.gap
        inside = settle(np.clip(c, low, high))
        # those of the step are better at kinks, where decision values are theirs to the last digit
        for one, of_one in ((b, along), (inside, product if (inside == c).all() else K @ inside)):
            here = machine.values(one, of_one, t)
            if here.gap < at.gap:
                best, at = one, here
        # a start is improved once, so that coefficients respond to changes of the kernel
        if (at.gap <= tol * abs(at.primal) and n > 0) or n >= limit or idle >= PATIENCE or used_up():
            return best, n, n >= limit
        of_loss = loss.gap(y, costs, b, f)
        value = 0.5 * float(c @ product) + smooth.value(f)
        if value - smooth.dual(b) + 0.5 * float(b @ along) <= of_loss:
            idle = 0 if at.gap < 0.9 * before else idle + 1
            smooth.centre = b
            if of_loss > max(FALL * fall, EPS * len(y) * abs(at.primal)):
                smooth.radius *= GROWTH
            fall = of_loss
        n += 1
        LEFT.get().work -= 2.0
        b, h = smooth.coefficients(f), smooth.curvature(f)
        rows = np.flatnonzero(h > 0.0)
        aim, shift = b.copy(), 0.0
        if len(rows):
            rest = b.copy()
            rest[rows] = 0.0
            right = f[rows] + b[rows] / h[rows] - K[rows] @ rest
            system = Weighted(K[np.ix_(rows, rows)], h[rows], fit_intercept=fit_intercept)
            found, level = system.solve(right, -float(rest.sum()))
            if np.isfinite(found).all():
                aim[rows], shift = found, level - t
        moved = K @ aim
        if not len(rows) and fit_intercept:
            shift = smooth.intercept(moved, t) - t
        value = 0.5 * float(c @ product) + smooth.value(f)
        expected = float((aim - c) @ (product - K @ b)) - shift * float(b.sum())
        length = 1.0
        while True:
            trial, near, t_near = (
                c + length * (aim - c),
                product + length * (moved - product),
                t + length * shift,
            )
            after = 0.5 * float(trial @ near) + smooth.value(near + t_near)
            if after <= value + SUFFICIENT * length * min(expected, 0.0) + 1e-14 * abs(value):
                c, product, t = trial, near, t_near
                break
            length *= 0.5
            if length < SHORTEST:
                # a radius too large for the digits of a step
                smooth.radius /= GROWTH
                fall = np.inf
                t = smooth.intercept(product, t)
                break
