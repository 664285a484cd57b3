"""Smooth losses by Newton's method on decision values (iteratively reweighted least squares).

At decision values f the step solves, with ``b(f)`` minus the derivatives of the losses, W their second derivatives and
an intercept t, if there is one,

    (K + W^-1) b + t 1 = f + W^-1 b(f) ,     1'b = 0 ,

scaled by the roots of W, so that rows whose loss is almost linear lose no digits; a loss that is no sum over rows has
a step of its own. Any decision values with the best intercept give feasible coefficients ``b(f)``, hence a bound from
below.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from kernelweave._allowance import LEFT, used_up
from kernelweave._types import Array
from kernelweave.machines.bordered import Weighted
from kernelweave.machines.box import Values, WithData

#: `kernelweave.machines.loss` has this class, and uses this module.
Loss: TypeAlias = Any

#: Most systems of one solution.
MOST_STEPS = 200
#: Required share of the decrease predicted by the derivative, and the shortest step.
SUFFICIENT, SHORTEST = 1e-4, 1e-12
#: Steps without a smaller gap after which rounding is assumed to limit it.
PATIENCE = 3


def solve_reweighted(
    loss: Loss, machine: WithData, K: Array, b: Array, tol: float
) -> tuple[Array, int, bool]:
    """Iterate until the gap of the best coefficients is at most tol, or no longer falls.

    Parameters
    ----------
    loss : Loss
        With `stiffness`, its second derivatives, or if it is no sum over rows with `newton_aim`.
    machine : WithData
        With positive costs only.
    K : array of shape (n, n)
    b : array of shape (n,)
        Coefficients to start from.
    tol : float

    Returns
    -------
    dual_coef : array of shape (n,)
    n_iter : int
    used_up : bool
        Whether it stopped at the limit of the machine.
    """
    y, costs = machine.y, machine.costs
    low, high = loss.bounds(y, costs)

    def balanced(b: Array) -> Array:
        if not machine.fit_intercept:
            return b
        # the remaining sum is subtracted from the heavier side; an exact sum would cost as much as a step
        total = float(b.sum())
        if total == 0.0:
            return b
        side = np.maximum(b, 0.0) if total > 0 else np.maximum(-b, 0.0)
        return b - side * (total / float(side.sum()))

    def best_intercept(product: Array) -> float:
        return loss.intercept(y, costs, product) if machine.fit_intercept else 0.0

    def candidates(own: Array, b: Array) -> tuple[Array, ...]:
        """Coefficients computed from f, and those of the step where feasible.

        The first are better once steps are short relative to the kernel, the second before. Bounds of single rows do
        not say which are feasible together.
        """
        if not loss.rowwise:
            return (own,)
        return balanced(own), balanced(np.where((b > low) & (b < high), b, own))

    def newton_aim(f: Array, own: Array) -> Array:
        if not loss.rowwise:
            return loss.newton_aim(K, y, costs, f, own)
        W = costs * loss.stiffness(y, f)
        root = np.sqrt(W)
        return Weighted(K, W, fit_intercept=machine.fit_intercept).solve_scaled(root * f + own / root)[0]

    best, at = np.zeros(len(y)), Values(np.inf, np.inf, 0.0)
    product = K @ b
    f = product + best_intercept(product)
    form = float(b @ product)
    level = 0.5 * form + loss.total(y, costs, f)
    constant = np.full(len(y), best_intercept(np.zeros(len(y))))
    least = loss.total(y, costs, constant)
    limit = MOST_STEPS if machine.max_iter is None else machine.max_iter
    n = idle = 0
    while True:
        if not level <= least and b.any():
            # a start that is worse than zero, also by the rounding errors of a step
            b, product, f, form, level = np.zeros(len(y)), np.zeros(len(y)), constant, 0.0, least
        before = at.gap
        own = -loss.gradient(y, costs, f)
        for one in candidates(own, b):
            here = machine.values(one, K @ one)
            if here.gap < at.gap:
                best, at = one, here
        # an accurate start is still improved once, so that coefficients respond to changes of the kernel
        if (at.gap <= tol * abs(at.primal) and n > 0) or n >= limit or idle >= PATIENCE or used_up():
            return best, n, n >= limit
        n += 1
        LEFT.get().work -= 2.0
        aim = newton_aim(f, own)
        if not np.isfinite(aim).all():
            return best, n, False
        moved = K @ aim
        new = moved + best_intercept(moved)
        # along the segment from b to aim the penalty is quadratic, and the losses are convex
        quadratic_forms = form, float(b @ moved), float(aim @ moved)
        slope = quadratic_forms[1] - form - float(own @ (new - f))
        step = 1.0
        while True:
            trial = f + step * (new - f)
            half = 0.5 * (
                (1 - step) ** 2 * form
                + 2 * step * (1 - step) * quadratic_forms[1]
                + step**2 * quadratic_forms[2]
            )
            value = half + loss.total(y, costs, trial)
            if value <= level + SUFFICIENT * step * slope + 1e-15 * abs(level) or step < SHORTEST:
                break
            step *= 0.5
        idle = 0 if value < level * (1.0 - 1e-12) or at.gap < 0.5 * before else idle + 1
        b, product = b + step * (aim - b), product + step * (moved - product)
        form, f, level = float(b @ product), trial, value
        if step < 1.0:
            # the slope above is valid at the best intercept, and a mean of two best ones need not be the best
            f = product + best_intercept(product)
            level = 0.5 * form + loss.total(y, costs, f)
