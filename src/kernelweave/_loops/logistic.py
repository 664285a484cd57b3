"""The NumPy twins of the compiled loops of the logistic loss, see `logistic.hpp`."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, log_expit, xlogy

from kernelweave._types import Array

_EPS = float(np.finfo(np.float64).eps)
_FAR, _MOST = 50.0, 100


def _residuals(z: Array, log_c: Array) -> tuple[float, float]:
    """Logarithm of the sum of the residuals of one class, and its slope; z are the margins."""
    logs = log_c + log_expit(-z)
    top = float(logs.max())
    shares = np.exp(logs - top)
    total = float(shares.sum())
    return top + float(np.log(total)), float(shares @ -np.expm1(log_expit(-z))) / total


def logistic_intercept(y: Array, costs: Array, product: Array) -> float:
    used = costs > 0
    up, down = used & (y > 0), used & (y <= 0)
    if not (up.any() and down.any()):
        return 0.0
    f, g = product[up], product[down]
    log_f, log_g = np.log(costs[up]), np.log(costs[down])
    knots = np.sort(-product[used])
    odds = float(np.log(costs[up].sum()) - np.log(costs[down].sum()))
    low, high = odds + float(knots[0]), odds + float(knots[-1])
    t = min(max(0.0, low), high)
    for k in range(_MOST):
        above, above_slope = _residuals(f + t, log_f)
        below, below_slope = _residuals(-(g + t), log_g)
        difference, slope = below - above, below_slope + above_slope
        if abs(difference) <= _EPS:
            return t
        if difference > 0.0:
            high = t
        else:
            low = t
        new = t - difference / slope if slope > 1e-200 else low
        if not low < new < high:
            between = knots[(knots > low) & (knots < high)]
            if len(between):
                new = float(between[len(between) // 2])
            elif high - low > 4.0 * _FAR and k % 2 == 0:
                new = low + _FAR if difference > 0.0 else high - _FAR
            if not low < new < high:
                new = low + 0.5 * (high - low)
        if abs(new - t) <= 2.0 * _EPS * max(abs(t), 1e-3):
            return new
        t = new
    return t


def logistic_expansion(
    y: Array,
    costs: Array,
    product: Array,
    fit_intercept: bool,
    flattest: float,
    start: float,
    b: Array,
    h: Array,
) -> tuple[float, float]:
    """The best intercept and the loss; b receives minus its derivatives, with sum zero, and h the second ones."""
    t = logistic_intercept(y, costs, product) if fit_intercept else 0.0
    f = product + t
    p = expit(-y * f)
    b[:] = costs * y * p
    h[:] = costs * p * np.maximum(1.0 - p, flattest)
    missing = compensated_sum(b) if fit_intercept else 0.0
    heavy = b * missing > 0.0
    if heavy.any():
        b[heavy] *= 1.0 - missing / b[heavy].sum()
    return t, logistic_value(y, costs, f)


def compensated_sum(x: Array) -> float:
    """A sum whose rounding errors are added up, too."""
    return math.fsum(x.tolist())


def logistic_value(y: Array, costs: Array, f: Array) -> float:
    """The loss of all rows."""
    return float(costs @ np.logaddexp(0.0, -y * f))


def logistic_gap(y: Array, costs: Array, b: Array, f: Array) -> float:
    """The divergence of coefficients, as shares of the costs, from the probabilities of the other label."""
    a = np.clip(np.divide(y * b, costs, out=np.zeros_like(b), where=costs > 0), 0.0, 1.0)
    p = expit(-y * f)
    # the linear terms of both logarithms cancel, and the rest has no sign
    own = beyond_linear(a, p - a, log_expit(-y * f))
    return float(costs @ (own + beyond_linear(1.0 - a, a - p, log_expit(y * f))))


def beyond_linear(a: Array, d: Array, log_p: Array) -> Array:
    """``a (x - log(1 + x))`` for ``x = d / a``; the logarithm of ``a + d``, a probability, is given too."""
    # far from a, the probability may be 0 or x infinite, but the logarithms are not
    far = np.abs(d) > 0.5 * a
    x = np.divide(d, a, out=np.zeros_like(a), where=~far & (a > 0))
    small = np.abs(x) < 1e-4
    y = np.where(small, x, 0.0)
    series = np.square(y) * (0.5 - y * (1.0 / 3.0 - y * (0.25 - 0.2 * y)))
    near = a * np.where(small, series, x - np.log1p(x))
    return np.where(far, d - a * log_p + xlogy(a, a), near)
