"""The NumPy twins of the compiled sums over the rows of a box program."""

from __future__ import annotations

import bisect
import math

import numpy as np

from kernelweave._loops.packed import add_rows
from kernelweave._types import Array

EPS = float(np.finfo(np.float64).eps)
#: Larger bounds stand for none, and sums that differ by the second number, as a share of their terms, are equal.
_UNBOUNDED, _SAME = 1e299, 1e-13


def _best(e: Array, most: Array, ridge: Array, tie: bool = False) -> Array:
    """The best coefficient of a side."""
    steps = np.divide(
        np.maximum(e, 0.0), ridge, out=np.where((e >= 0) if tie else (e > 0), most, 0.0), where=ridge > 0
    )
    return np.minimum(steps, most)


def _reach(ridge: Array, most: Array) -> Array:
    """Where the best coefficient of a side is at its bound."""
    return ridge * np.where(most < _UNBOUNDED, most, np.inf)


def box_values(
    linear: Array,
    ridge: Array,
    lo: Array,
    hi: Array,
    kink: float,
    b: Array,
    product: Array,
    t: float,
    find: bool,
) -> tuple[float, float, float]:
    """Objective, gap and intercept of coefficients, at an intercept t or the best one."""
    t = box_intercept(linear, ridge, lo, hi, kink, product) if find else t
    rest = -linear - (product + t)
    primal, gap = 0.5 * float(b @ product), 0.0
    for e, most, a in ((rest, hi, np.maximum(b, 0.0)), (-rest, -lo, np.maximum(-b, 0.0))):
        e = e - kink
        top = _best(e, most, ridge)
        beyond = np.maximum(e - _reach(ridge, most), 0.0)
        primal += float(top @ (e - 0.5 * ridge * top))
        gap += float((a * np.maximum(-e, 0.0) + (most - a) * beyond + 0.5 * ridge * np.square(top - a)).sum())
    return primal, gap, t


def box_intercept(linear: Array, ridge: Array, lo: Array, hi: Array, kink: float, product: Array) -> float:
    """Where the best coefficients sum to zero: the middle of the places."""
    rest = -linear - product
    high, low = _reach(ridge, hi), _reach(ridge, -lo)
    up, down = (rest - kink)[hi > 0], (rest + kink)[lo < 0]
    points = np.sort(np.concatenate([up, down, up - high[hi > 0], down + low[lo < 0]]))
    points = points[np.isfinite(points)]
    if not len(points):
        return 0.0

    def at(t: float, right: bool) -> tuple[float, float]:
        up = _best((rest - kink) - t, hi, ridge, not right)
        down = _best(t - (rest + kink), -lo, ridge, right)
        return float(up.sum() - down.sum()), _SAME * float(up.sum() + down.sum())

    def root(start: float, stop: float) -> float:
        high, low = at(start, True)[0], at(stop, False)[0]
        return start + (stop - start) * min(max(high / (high - low), 0.0), 1.0) if high > low else stop

    def side(t: float, right: bool) -> int:
        total, same = at(t, right)
        return int(total < -same) - int(total > same)

    first = bisect.bisect_left(points, 0, key=lambda p: side(p, True))
    after = bisect.bisect_left(points, 1, key=lambda p: side(p, False))
    begin = points[min(first, len(points) - 1)]
    if 0 < first < len(points) and side(begin, False) >= 0:
        begin = root(points[first - 1], begin)
    end = points[max(after - 1, 0)]
    if 0 < after < len(points) and side(end, True) <= 0:
        end = root(end, points[after])
    t = 0.5 * float(begin + end)
    ways = (rest - kink - t, high), (t - rest - kink, low)
    inside = [(ridge > 0) & (e > 0) & (e < reach) for e, reach in ways]
    slope = sum(float((1.0 / ridge[own]).sum()) for own in inside)
    return t + at(t, True)[0] / slope if slope > 0.0 else t


def box_rounding(
    linear: Array,
    ridge: Array,
    lo: Array,
    hi: Array,
    kink: float,
    b: Array,
    product: Array,
    t: float,
    error: Array,
    sums: float,
    fit_intercept: bool,
) -> float:
    """A bound of the rounding errors of both bounds of a machine, given those of the product."""
    f = product + t
    rest = -linear - f
    error = error + EPS * (np.where(product != 0.0, np.abs(f), 0.0) + np.abs(rest))
    tops = [_best(e - kink, hi, ridge) - _best(-e - kink, -lo, ridge) for e in (rest - error, rest + error)]
    residual = np.max(np.abs(b - tops), axis=0)
    missing = math.fsum(b.tolist())
    side = np.where((b > 0) == (missing > 0.0), np.abs(b), 0.0)
    away = np.abs(rest - kink * np.sign(b) - ridge * b) if fit_intercept else np.zeros(len(b))
    total = float(error @ (residual + 0.5 * np.abs(b)))
    total += EPS * (2.0 + math.sqrt(len(b))) * (sums + float(np.abs(b) @ np.abs(product)))
    return total + (abs(missing) / float(side.sum()) * float(side @ away) if side.any() else 0.0)


def _snapped(lo: Array, hi: Array, b: Array) -> Array:
    """Coefficients, with those set to zero or to a bound that differ from it only by rounding."""
    b = np.where(np.abs(b) <= EPS * float(np.abs(b).max()), 0.0, b)
    b = np.where(np.abs(b - hi) <= 16.0 * EPS * np.abs(hi), hi, b)
    return np.where(np.abs(b - lo) <= 16.0 * EPS * np.abs(lo), lo, b)


def balanced(lo: Array, hi: Array, b: Array) -> Array:
    """Coefficients in the box that sum to zero, near others with the same zeros; all zero if one sign is missing."""
    b = np.clip(b, lo, hi)
    above, below = float(b[b > 0].sum()), -float(b[b < 0].sum())
    least = min(above, below)
    return b * (least / np.where(b > 0, above, below)) if least > 0.0 else np.zeros_like(b)


def _multiplied(linear: Array, ridge: Array, lo: Array, hi: Array, kink: float, K: Array, b: Array) -> Array:
    """The best multiple of coefficients that sum to zero; a solution for another C is often proportional to it."""
    curvature = float(b @ (b @ K + ridge * b))
    slope = float(linear @ b) + kink * float(np.abs(b).sum())
    if curvature <= 0.0 or slope >= 0.0:
        return b
    used = b != 0
    with np.errstate(over="ignore"):
        room = np.where(b > 0, hi, lo)[used] / b[used]
    return np.clip(min(-slope / curvature, float(room.min())) * b, lo, hi)


def box_look(
    linear: Array,
    ridge: Array,
    lo: Array,
    hi: Array,
    kink: float,
    K: Array,
    total: float,
    entry_error: float,
    before: bool,
    b: Array,
    product: Array,
    error: Array,
    g: Array,
) -> tuple[float, float, float, float, float, float, float]:
    """Snapped coefficients, before a solution also feasible ones and their best multiple; product, errors and gradient.

    Returns the rounding error of a derivative, the value of the program, its infeasibility, and what `box_rounding` and
    `box_values` do.
    """
    begins = before and total == 0.0
    at = _multiplied(linear, ridge, lo, hi, kink, K, balanced(lo, hi, b)) if begins else b
    b[:] = _snapped(lo, hi, at)
    product[:] = 0.0
    add_rows(K, b, product)
    g[:] = linear + ridge * b + product
    diagonal = np.diag(K)
    # abs(K_ij) <= sqrt(K_ii K_jj), also for the terms of a sum of kernels; a product with abs(K) would be sharper
    # only by a small factor
    root = np.sqrt(np.maximum(diagonal, 0.0))
    error[:] = root * (float(root @ np.abs(b)) * (EPS * (2.0 + math.sqrt(np.count_nonzero(b))) + entry_error))
    largest, level, size = (
        float(np.abs(diagonal + ridge).max()),
        float(np.abs(linear).max()),
        float(np.abs(b).sum()),
    )
    value = 0.5 * float(b @ (g + linear)) + kink * size
    primal, gap, t = box_values(linear, ridge, lo, hi, kink, b, product, 0.0, True)
    rounding = box_rounding(linear, ridge, lo, hi, kink, b, product, t, error, primal + gap, True)
    outside = max(float(np.maximum(lo - b, b - hi).max()), 0.0, abs(math.fsum(b.tolist()) - total))
    return 8.0 * EPS * (largest * size + level), value, outside, rounding, primal, gap, t
