"""Kernel logistic regression by Newton's method on decision values (iteratively reweighted least squares).

At decision values f the step solves, with p_i the probability of the other label and ``W_i = C_i p_i (1 - p_i)``,

    (K + W^-1) b + t 1 = f + W^-1 (y C p) ,     1'b = 0 ,

scaled by the roots of W, so that rows with probabilities near 1 lose no digits. Any decision values with the best
intercept give feasible coefficients ``b_i = y_i C_i p_i``, hence a bound from below.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from kernelweave._allowance import spend, used_up
from kernelweave._loops import core
from kernelweave._types import Array
from kernelweave.machines.bordered import Weighted
from kernelweave.machines.box import Values, WithData

#: Most systems of one solution.
MOST_STEPS = 200
#: Required share of the decrease predicted by the derivative, and the shortest step.
SUFFICIENT, SHORTEST = 1e-4, 1e-12
#: Curvature of a loss that is linear to rounding, as a share of its cost: with less, steps would have no length.
FLATTEST = 1e-30
#: Steps without a smaller gap after which rounding is assumed to limit it.
PATIENCE = 3


def best_intercept(y: Array, costs: Array, product: Array) -> float:
    """Minimiser t of ``sum_i C_i log(1 + exp(-y_i (product_i + t)))``."""
    return float(core.logistic_intercept(y, costs, product))


def solve_logistic(machine: WithData, K: Array, b: Array, tol: float) -> tuple[Array, int, bool]:
    """Iterate until the gap of the best coefficients is at most tol, or no longer falls.

    Parameters
    ----------
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

    def balanced(b: Array) -> Array:
        # the remaining sum is subtracted from the heavier side; an exact sum would cost as much as a step
        total = float(b.sum())
        if total == 0.0:
            return b
        side = np.maximum(b, 0.0) if total > 0 else np.maximum(-b, 0.0)
        return b - side * (total / float(side.sum()))

    best, at = np.zeros(len(y)), Values(np.inf, np.inf, 0.0)
    product = K @ b
    f = product + best_intercept(y, costs, product)
    form = float(b @ product)
    level = 0.5 * form + float(costs @ np.logaddexp(0.0, -y * f))
    constant = np.full(len(y), best_intercept(y, costs, np.zeros(len(y))))
    least = float(costs @ np.logaddexp(0.0, -y * constant))
    limit = MOST_STEPS if machine.max_iter is None else machine.max_iter
    n = idle = 0
    while True:
        if not level <= least and b.any():
            # a start that is worse than zero, also by the rounding errors of a step
            b, product, f, form, level = np.zeros(len(y)), np.zeros(len(y)), constant, 0.0, least
        before = at.gap
        p = expit(-y * f)
        inside = (y * b > 0.0) & (y * b < costs)
        # coefficients computed from f, and those of the step where feasible: the first are better once steps are short
        # relative to the kernel, the second before
        for own in (balanced(y * costs * p), balanced(np.where(inside, b, y * costs * p))):
            here = machine.values(own, K @ own)
            if here.gap < at.gap:
                best, at = own, here
        # an accurate start is still improved once, so that coefficients respond to changes of the kernel
        if (at.gap <= tol * abs(at.primal) and n > 0) or n >= limit or idle >= PATIENCE or used_up():
            return best, n, n >= limit
        n += 1
        spend(2.0)
        W = costs * np.maximum(p * (1.0 - p), FLATTEST)
        root = np.sqrt(W)
        aim, _ = Weighted(K, W).solve_scaled(root * f + y * costs * p / root)
        if not np.isfinite(aim).all():
            return best, n, False
        moved = K @ aim
        new = moved + best_intercept(y, costs, moved)
        # along the segment from b to aim the penalty is quadratic, and the losses are convex
        quadratic_forms = form, float(b @ moved), float(aim @ moved)
        slope = quadratic_forms[1] - form - float((costs * y * p) @ (new - f))
        step = 1.0
        while True:
            trial = f + step * (new - f)
            half = 0.5 * (
                (1 - step) ** 2 * form
                + 2 * step * (1 - step) * quadratic_forms[1]
                + step**2 * quadratic_forms[2]
            )
            value = half + float(costs @ np.logaddexp(0.0, -y * trial))
            if value <= level + SUFFICIENT * step * slope + 1e-15 * abs(level) or step < SHORTEST:
                break
            step *= 0.5
        idle = 0 if value < level * (1.0 - 1e-12) or at.gap < 0.5 * before else idle + 1
        b, product = b + step * (aim - b), product + step * (moved - product)
        form, f, level = float(b @ product), trial, value
        if step < 1.0:
            # the slope above is valid at the best intercept, and a mean of two best ones need not be the best
            f = product + best_intercept(y, costs, product)
            level = 0.5 * form + float(costs @ np.logaddexp(0.0, -y * f))
