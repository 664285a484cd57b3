"""Judge a certificate without kernelweave: ``python judge.py fit.kwcert data.npz``.

``fit.kwcert`` is written by `Solution.export_certificate`. ``data.npz`` holds what the fit was given: ``y``, and either
``kernels`` (n_rows, n_rows, n_kernels), or ``features`` (n_rows, n_columns) and ``groups`` (the first column of each
kernel, then the number of columns). The judge compares their hashes with the file, and computes an upper bound of the
objective at the weights and coefficients of the fit and a lower bound of the objective at all others: in exact rational
numbers up to 100 rows, above in extended precision with a bound of every rounding error. It confirms the certificate
if the objective is the reported one, and the bounds are no further apart than the reported gap. It takes for
granted that the kernels are symmetric and positive semidefinite.

This file needs NumPy and nothing else. It may be copied, read and changed.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Mapping
from fractions import Fraction as Q
from pathlib import Path
from typing import Any

import numpy as np

LONG = np.longdouble
Row = list[Q]
#: Rows up to which products are exact.
EXACT_ROWS = 100
#: More than any objective.
HUGE = Q(2) ** 4000
#: Formats of files, criteria and losses that are judged.
FORMATS, CRITERIA = ("kernelweave certificate 1",), ("machine", "alignment", "margins")
LOSSES = (
    *("hinge", "squared-hinge", "epsilon-insensitive", "squared", "huber", "quantile"),
    *("poisson", "logistic", "cox"),
)
#: Sets of weights that are judged, and above which number and up to which one their parameter lies.
SETS = {
    "Simplex": None,
    "CappedSimplex": (0.0, 1.0),
    "LpBall": (1.0, math.inf),
    "ElasticNet": (0.0, math.nextafter(1.0, 0.0)),
}


# ---- numbers ------------------------------------------------------------------------------------------


def exact(values: Any) -> Row:
    """Floats as fractions."""
    return [Q(float(v)) for v in values]


def to_fraction(x: Any) -> Q:
    """A number in extended precision as a fraction."""
    return Q(*x.as_integer_ratio())


def to_long(q: Q) -> Any:
    """A fraction in extended precision, to one unit in the last place."""
    scale = max(abs(q.numerator).bit_length() - q.denominator.bit_length(), -16000)
    q = q / Q(2) ** scale
    return np.ldexp(LONG(float(q)) + LONG(float(q - Q(float(q)))), scale)


EPS = to_fraction(np.finfo(LONG).eps)


def to_float(q: Q) -> float:
    """A fraction as a float, which may be infinite."""
    return float(q) if abs(q) < Q(10) ** 308 else math.inf


def root_below(q: Q) -> Q:
    """A number at most ``sqrt(q)``, to 30 digits."""
    if q <= 0:
        return Q(0)
    shift = 2 * ((220 + q.denominator.bit_length() - q.numerator.bit_length()) // 2)
    scaled = q * Q(2) ** shift
    return Q(math.isqrt(scaled.numerator // scaled.denominator)) / Q(2) ** (shift // 2)


def dot(a: Row, b: Row) -> Q:
    """Sum of products."""
    return sum((x * y for x, y in zip(a, b, strict=True) if x), Q(0))


def as_ints(a: np.ndarray) -> tuple[np.ndarray, int]:
    """Integers and an exponent: ``a = integers * 2**exponent``, exactly."""
    mantissa, exponent = np.frexp(a)
    least = int(exponent[mantissa != 0].min(initial=2000))
    shift = np.where(mantissa != 0, exponent - least, 0).astype(object)
    return (mantissa * 2.0**53).astype(np.int64).astype(object) << shift, least - 53


class Kernels:
    """Kernels as matrices or features."""

    def __init__(self, data: Mapping[str, np.ndarray]) -> None:
        if "kernels" in data:
            stack = np.atleast_3d(np.asarray(data["kernels"], dtype=np.float64))
            self.parts: list[tuple[np.ndarray, ...]] = [(K,) for K in np.moveaxis(stack, 2, 0)]
            self.diagonals = [exact(np.diag(K)) for K in np.moveaxis(stack, 2, 0)]
        else:
            Z = np.split(np.asarray(data["features"], dtype=np.float64), data["groups"][1:-1], axis=1)
            self.parts = [(own, own.T) for own in Z]
            self.diagonals = [[dot(exact(row), exact(row)) for row in own] for own in Z]
        self.n = len(self.parts[0][0])
        self.ints = [[as_ints(a) for a in part] for part in self.parts] if self.n <= EXACT_ROWS else None

    def times(self, m: int, v: Row, factors: slice = slice(None)) -> tuple[Row, Row]:
        """``K_m v``, or the product of some of its factors with v, and bounds of the errors of its entries."""
        if self.ints is None:
            out = np.array([to_long(q) for q in v])
            size, terms = np.abs(out), 4
            for a in reversed(self.parts[m][factors]):
                out, size, terms = a.astype(LONG) @ out, np.abs(a).astype(LONG) @ size, terms + a.shape[1]
            return [to_fraction(x) for x in out], [2 * terms * EPS * to_fraction(x) for x in size]
        unit = math.lcm(*(q.denominator for q in v))
        whole, power = np.array([q.numerator * (unit // q.denominator) for q in v], dtype=object), 0
        for integers, exponent in reversed(self.ints[m][factors]):
            whole, power = integers.dot(whole), power + exponent
        return [Q(int(x), unit) * Q(2) ** power for x in whole], [Q(0)] * len(whole)

    def quadratic_forms_above(self, v: Row) -> Row:
        """Upper bounds of ``v'K_m v`` for every kernel."""
        found = []
        for m, factors in enumerate(self.parts):
            # squared lengths of Z'v err by less than v'(ZZ'v)
            f, e = self.times(m, v, slice(len(factors) - 1, None))
            if len(factors) > 1:
                found.append(sum(((abs(x) + r) ** 2 for x, r in zip(f, e, strict=True)), Q(0)))
            else:
                found.append(max(dot(v, f) + dot([abs(x) for x in v], e), Q(0)))
        return found

    def centred(self, m: int, w: np.ndarray) -> tuple[np.ndarray, Q, Q]:
        """``K_m`` less its weighted means of rows and columns: an array, its unit, and a bound of errors of entries."""
        if self.ints is not None:
            (first, power), *more = self.ints[m]
            for integers, exponent in more:
                first, power = first.dot(integers), power + exponent
            own, _ = as_ints(w)
            total, rows = own.sum(), first.dot(own)
            out = total * total * first - total * (rows[:, None] + rows) + own.dot(rows)
            return out, Q(2) ** power / int(total) ** 2, Q(0)
        first, *rest = (a.astype(LONG) for a in self.parts[m])
        K, terms = (first @ rest[0], first.shape[1]) if rest else (first, 0)
        # sums along rows are pairwise
        rows, total = (K * w).sum(1) / w.sum(), w.sum()
        out = K - (rows[:, None] + rows) + (rows * w).sum() / total
        largest = np.abs(K).max() if not rest else (np.abs(first) @ np.abs(rest[0])).max()
        return out, Q(1), (400 + 2 * terms) * EPS * to_fraction(largest)

    def combine(self, weights: Row, v: Row) -> tuple[Row, Row, Q]:
        """``f = K(weights) v``, bounds of the errors of its entries, and an upper bound of ``v'f``."""
        used = [(w, *self.times(m, v)) for m, w in enumerate(weights) if w]
        f = [sum((w * own[i] for w, own, _ in used), Q(0)) for i in range(self.n)]
        e = [sum((w * own[i] for w, _, own in used), Q(0)) for i in range(self.n)]
        return f, e, max(dot(v, f) + dot([abs(x) for x in v], e), Q(0))

    def predict(self, weights: Row, coef: Row) -> tuple[Row, Row, Q]:
        """``f = Z coef``, bounds of the errors of its entries, and ``sum_m |coef_m|^2 / weights_m``."""
        f, e, form, start = [Q(0)] * self.n, [Q(0)] * self.n, Q(0), 0
        for m, part in enumerate(self.parts):
            own, start = coef[start : start + part[0].shape[1]], start + part[0].shape[1]
            if any(own):
                form += dot(own, own) / weights[m] if weights[m] else HUGE
                value, error = self.times(m, own, slice(1))
                f, e = (
                    [a + b for a, b in zip(f, value, strict=True)],
                    [a + b for a, b in zip(e, error, strict=True)],
                )
        return f, e, form


# ---- losses ---------------------------------------------------------------------------------------------


def log_bounds(a: Q) -> tuple[Q, Q]:
    """Bounds of the logarithm of a number above 0."""
    value = to_fraction(np.log(to_long(a)))
    error = 4 * EPS * (abs(value) + 1)
    return value - error, value + error


def a_log_a(a: Q) -> tuple[Q, Q]:
    """Bounds of ``a log(a)`` for a number that is not negative."""
    low, high = log_bounds(a) if a else (Q(0), Q(0))
    return a * low, a * high


def exp_above(f: Q) -> Q:
    """An upper bound of the exponential."""
    if abs(f) > 10000:
        return HUGE if f > 0 else Q(1, 2**10000)
    return to_fraction(np.exp(to_long(f))) * (1 + (abs(f) + 16) * EPS)


def loss_above(p: Mapping[str, Any], y: Q, low: Q, high: Q) -> Q:
    """An upper bound of the loss of a row whose value lies between two numbers."""
    if p["loss"] == "squared":
        return max((y - low) ** 2, (y - high) ** 2) / 2
    if p["loss"] == "epsilon-insensitive":
        return max(abs(y - low), abs(y - high), Q(p["epsilon"])) - Q(p["epsilon"])
    if p["loss"] == "huber":
        size = max(abs(y - low), abs(y - high))
        near = min(size, Q(p["delta"]))
        return near * (size - near / 2)
    if p["loss"] == "quantile":
        return max(Q(p["q"]) * (y - low), (Q(p["q"]) - 1) * (y - high))
    if p["loss"] == "poisson":
        return max(exp_above(f) - y * f for f in (low, high)) + a_log_a(y)[1] - y
    margin = min(y * low, y * high)
    if p["loss"] == "logistic":
        if abs(margin) > 10000:
            return max(-margin, Q(0)) + Q(1, 2**10000)
        x = to_long(margin)
        value = to_fraction(np.maximum(-x, LONG(0)) + np.log1p(np.exp(-np.abs(x))))
        return value * (1 + (abs(margin) + 16) * EPS)
    slack = max(1 - margin, Q(0))
    return slack * slack / 2 if p["loss"] == "squared-hinge" else slack


def box(p: Mapping[str, Any], y: Q, cost: Q) -> tuple[Q, Q]:
    """Bounds of the dual coefficient of a row."""
    most = HUGE if cost and p["loss"] in ("squared", "squared-hinge", "poisson") else cost
    if p["loss"] == "poisson":
        return -most, y * cost
    if p["loss"] == "quantile":
        return (Q(p["q"]) - 1) * cost, Q(p["q"]) * cost
    if p["loss"] == "huber":
        most = Q(p["delta"]) * cost
    if p["loss"] in ("squared", "epsilon-insensitive", "huber"):
        return -most, most
    return (Q(0), most) if y > 0 else (-most, Q(0))


def entropy_below(a: Q) -> Q:
    """A lower bound of ``-(a log a + (1 - a) log(1 - a))``."""
    small = to_long(min(a, 1 - a))
    if small <= 0:
        return Q(0)
    return to_fraction(-(small * np.log(small) + to_long(max(a, 1 - a)) * np.log1p(-small))) * (1 - 32 * EPS)


def feasible(p: Mapping[str, Any], b: Row, y: Row, costs: Row) -> Row:
    """Dual coefficients in their box, and with sum zero if there is an intercept."""
    if p["loss"] == "cox":
        return cox_feasible(p, b, y, costs)
    limits = [box(p, v, c) for v, c in zip(y, costs, strict=True)]
    b = [min(max(v, low), high) for v, (low, high) in zip(b, limits, strict=True)]
    excess = sum(b, Q(0)) if p["intercept"] else Q(0)
    # steps towards zero stay in the box, and cost least where the bounds are far
    for i in sorted(
        range(len(b)), key=lambda i: -min(abs(b[i]), limits[i][1] - b[i] if b[i] > 0 else b[i] - limits[i][0])
    ):
        step = min(max(excess, Q(0)), max(b[i], Q(0))) + max(min(excess, Q(0)), min(b[i], Q(0)))
        b[i], excess = b[i] - step, excess - step
    return b


# ---- Cox's partial likelihood -----------------------------------------------------------------------------


def by_time(p: Mapping[str, Any], y: Row, costs: Row) -> list[list[tuple[list[int], list[int]]]]:
    """Of every stratum and time, in order, the rows with a cost that have an event, and the others."""
    found: dict[int, dict[Q, tuple[list[int], list[int]]]] = {}
    for i, (v, cost) in enumerate(zip(y, costs, strict=True)):
        if cost:
            times = found.setdefault(math.floor(abs(v)) if p["stratified"] else 0, {})
            times.setdefault(abs(v), ([], []))[v < 0].append(i)
    return [[times[t] for t in sorted(times)] for _, times in sorted(found.items())]


def unit(y: Row, costs: Row) -> Q:
    """What rows at risk are counted in: the smallest cost of an event."""
    return min((cost for v, cost in zip(y, costs, strict=True) if v > 0 and cost), default=Q(1))


def terms(p: Mapping[str, Any], events: list[int], costs: Row) -> list[tuple[Q, Q]]:
    """Weights of the logarithms at a time, and weights in them of the events there."""
    total, m = sum((costs[i] for i in events), Q(0)), len(events)
    if p["ties"] == "efron":
        return [(total / m, 1 - Q(place, m)) for place in range(m)]
    return [(total, Q(1))] if m else []


def cox_above(p: Mapping[str, Any], y: Row, costs: Row, low: Row, high: Row) -> Q:
    """An upper bound of the loss of rows whose values lie between two numbers."""
    one, top = unit(y, costs), max(f for f, cost in zip(high, costs, strict=True) if cost)
    total = sum((cost * (top - f) for v, cost, f in zip(y, costs, low, strict=True) if v > 0), Q(0))
    for times in by_time(p, y, costs):
        at_risk = Q(0)
        for events, others in reversed(times):
            own, rest = (
                sum((costs[i] * exp_above(high[i] - top) for i in rows), Q(0)) for rows in (events, others)
            )
            at_risk += rest
            total += sum(
                (w * log_bounds((at_risk + s * own) / one)[1] for w, s in terms(p, events, costs)), Q(0)
            )
            at_risk += own
    return total


def cox_feasible(p: Mapping[str, Any], b: Row, y: Row, costs: Row) -> Row:
    """Dual coefficients ``a - c`` near given ones: no c is below 0, and no sum of the c so far above that of the a."""
    a = [cost if v > 0 else Q(0) for v, cost in zip(y, costs, strict=True)]
    out = [Q(0)] * len(b)
    for times in by_time(p, y, costs):
        # events of a time come before its other rows
        steps = [rows for both in times for rows in both if rows]
        begun = next((k for k, rows in enumerate(steps) if a[rows[0]]), len(steps))
        c = {i: max(a[i] - b[i], Q(0)) for rows in steps[begun:] for i in rows}
        total, pool = sum(c.values(), Q(0)), Q(0)
        scale = sum((a[i] for i in c), Q(0)) / total if total else Q(0)
        for rows in steps[begun:]:
            pool += sum((a[i] for i in rows), Q(0))
            own = sum((c[i] for i in rows), Q(0))
            taken = pool if rows is steps[-1] else min(own * scale, pool)
            for i in rows:
                out[i] = a[i] - (c[i] * (taken / own) if own else taken / len(rows))
            pool -= taken
    return out


def cox_conjugate_above(p: Mapping[str, Any], b: Row, y: Row, costs: Row) -> Q:
    """An upper bound of ``sup_f -b f - loss(f)`` at feasible coefficients.

    Each term hands its weight to rows at risk, so that every row has its c: any division gives a bound, and that with
    the smallest sum of entropies the supremum. Without ties it is known; with them shares of events are rounded.
    """
    one, total = unit(y, costs), Q(0)
    for times in by_time(p, y, costs):
        v = Q(0)
        for events, others in times:
            own, rest = (sum((costs[i] * (y[i] > 0) - b[i] for i in rows), Q(0)) for rows in (events, others))
            for i in (*events, *others):
                c = costs[i] * (y[i] > 0) - b[i]
                total += a_log_a(c)[1] - c * log_bounds(costs[i] / one)[0]
            logarithms = terms(p, events, costs)
            deaths = sum((w for w, _ in logarithms), Q(0))
            if len(logarithms) < 2:
                total += a_log_a(v)[1] - a_log_a(v + deaths)[0]
            else:
                total += division_above(logarithms, v, own, v + deaths - own)
            v += deaths - own - rest
    return total


def division_above(logarithms: list[tuple[Q, Q]], v: Q, own: Q, rest: Q) -> Q:
    """What a time with ties adds: v and the weights of its terms go to events and the rest, in two given sums."""
    w, s = (np.array([to_long(x) for x in column]) for column in zip(*logarithms, strict=True))
    before, share = to_long(v), LONG(own > 0)
    if own and rest:
        low = np.log(to_long(own)) - np.log(to_long(rest))
        high = low + np.log(LONG(len(s)))
        for _ in range(90):
            z = (low + high) / 2
            share = 1 / (1 + np.exp(-z))
            each = w / (1 - (1 - s) * share)
            wanted = np.log(to_long(own) / to_long(rest)) + np.log(before + each.sum())
            low, high = (z, high) if z + np.log(before + (s * each).sum()) < wanted else (low, z)
    whole = [v, *(x for x, _ in logarithms)]
    parts = [before * share, *(w * s * share / (1 - (1 - s) * share))]
    to_events = [min(max(Q(float(x)), Q(0)), most) for x, most in zip(parts, whole, strict=True)]
    excess = sum(to_events, Q(0)) - own
    if excess > 0:
        to_events = [x * (own / (own + excess)) for x in to_events]
    elif excess < 0:
        to_events = [
            most - (most - x) * (rest / (rest - excess)) for x, most in zip(to_events, whole, strict=True)
        ]
    total = -a_log_a(own)[0] - a_log_a(rest)[0]
    for x, most in zip(to_events, whole, strict=True):
        total += a_log_a(x)[1] + a_log_a(most - x)[1]
    for x, (weight, share_there) in zip(to_events[1:], logarithms, strict=True):
        total -= a_log_a(weight)[0] + x * log_bounds(share_there)[0]
    return total


# ---- sets of weights --------------------------------------------------------------------------------------


def power_norm(values: Row, p: Any) -> Q:
    """An upper bound of the p-norm of numbers that are not negative."""
    top = max(values)
    if top == 0 or np.isinf(p):
        return top
    total = np.sum(np.array([to_long(x / top) for x in values]) ** LONG(p)) ** (1 / LONG(p))
    return top * to_fraction(total) * (1 + (64 + 4 * len(values)) * EPS)


def support_above(p: Mapping[str, Any], q: Row) -> Q:
    """An upper bound of ``max <d, q>`` over the set of weights."""
    kind, value = p["set"], p["set_value"]
    if kind == "Simplex" or max(q) <= 0:
        return max(q)
    if kind == "CappedSimplex":
        cap, full = Q(value), min(int(1 / Q(value)), len(q))
        q = [*sorted(q, reverse=True), Q(0)]
        return cap * sum(q[:full], Q(0)) + (1 - full * cap) * q[full]
    if kind == "LpBall":
        return power_norm(q, 1 / (1 - 1 / LONG(value)) if value < math.inf else 1)
    # elastic net: Lagrange's bound, which holds for every multiplier u > 0
    mix, top, best = Q(value), max(q), HUGE
    roots = sorted((math.sqrt(x / top) for x in q), reverse=True)
    least = root_below(top)
    for k in range(1, len(q) + 1):
        u = least * Q(sum(roots[:k]) / (1 / value - 1 + k))
        terms = (x - 2 * root_below(x) * u + u * u for x in q if x > u * u)
        best = min(best, u * u / mix + sum(terms, Q(0)) / (1 - mix))
    return best


def outside(p: Mapping[str, Any], d: Row) -> Q:
    """A number that takes weights into the set, or below its border, if they are divided by it; at least 1."""
    kind, value = p["set"], p["set_value"]
    if kind == "LpBall":
        return max(Q(1), power_norm(d, value))
    if kind == "ElasticNet":
        mix = Q(value)
        shares = [mix * x / (1 - (1 - mix) * x) if (1 - mix) * x < 1 else HUGE for x in d]
        return max(Q(1), sum(shares, Q(0)))
    return max(Q(1), sum(d, Q(0)), max(d) / Q(value) if kind == "CappedSimplex" else Q(1))


# ---- an upper bound of the objective, and a lower bound of the smallest one ---------------------------------


def bounds(p: Mapping[str, Any], fit: Mapping[str, Any], kernels: Kernels, Y: list[Row]) -> tuple[Q, Q]:
    """A machine on a weighted sum of kernels; RKL, if the fit has a ball, divides the sum by its squared radius."""
    s, C, rho = exact(p["scale"]), [exact(c) for c in fit["dual_coef"]], Q(p["regularization"])
    d = [a * b for a, b in zip(exact(fit["weights"]), s, strict=True)]
    costs = [Q(p["C"]) * w for w in exact(p["sample_weight"])]
    if min(d) < 0 or not any(d):
        return HUGE, Q(0)
    centre = simplex(fit["ball"]) if fit["ball"] else []
    size = radius_above(kernels, centre, d) if centre else rho * outside(p, exact(fit["weights"]))
    upper = Q(0)
    features = fit["feature_coef"] or [None] * len(Y)
    for y, c, w, t in zip(Y, C, features, exact(fit["intercept"]), strict=True):
        f, e, form = kernels.combine(d, c) if w is None else kernels.predict(d, exact(w))
        upper += size * form / 2
        low, high = ([a + t + sign * r for a, r in zip(f, e, strict=True)] for sign in (-1, 1))
        if p["loss"] == "cox":
            upper += cox_above(p, y, costs, low, high)
        else:
            upper += dot(costs, [loss_above(p, *row) for row in zip(y, low, high, strict=True)])
    factor = Q(fit["radius2"]) if centre else rho
    points = [([[factor * v for v in c] for c in C], centre)]
    if fit["proof"]:
        rows = [exact(row) for row in fit["proof"][: len(Y)]]
        points.append((rows, simplex(fit["proof"][-1]) if centre else []))
    lower = Q(0)
    for B, ball in points:
        B = [feasible(p, b, y, costs) for b, y in zip(B, Y, strict=True)]
        quadratic_forms = [
            sum(q, Q(0)) * w
            for q, w in zip(zip(*map(kernels.quadratic_forms_above, B), strict=True), s, strict=True)
        ]
        tops = (
            [support_above(p, quadratic_forms) / rho]
            if not centre
            else tops_of_radius(kernels, ball, s, quadratic_forms)
        )
        lower = max([lower, *(dual_below(p, B, Y, costs, top) for top in tops)])
    return upper, lower


def dual_below(p: Mapping[str, Any], B: list[Row], Y: list[Row], costs: Row, quadratic: Q) -> Q:
    """A lower bound of the dual objective at feasible coefficients, or at the best multiple of them."""
    if p["loss"] == "cox":
        return (
            -sum((cox_conjugate_above(p, b, y, costs) for b, y in zip(B, Y, strict=True)), Q(0))
            - quadratic / 2
        )
    entries = [
        (v, y, c) for b, row in zip(B, Y, strict=True) for v, y, c in zip(b, row, costs, strict=True) if v
    ]
    if p["loss"] == "logistic":
        return sum((c * entropy_below(y * v / c) for v, y, c in entries), Q(0)) - quadratic / 2
    if p["loss"] == "poisson":
        means = [(y - v / c, y, c) for v, y, c in entries]
        return sum((c * (m - y + a_log_a(y)[0] - a_log_a(m)[1]) for m, y, c in means), Q(0)) - quadratic / 2
    linear = sum((y * v - Q(p["epsilon"]) * abs(v) for v, y, _ in entries), Q(0))
    if p["loss"] in ("squared", "squared-hinge", "huber"):
        quadratic += sum((v * v / c for v, _, c in entries), Q(0))
    room = [box(p, y, c)[v > 0] / v for v, y, c in entries]
    t = max(min([linear / quadratic if quadratic > 0 else Q(1), *room]), Q(0))
    return t * linear - t * t * quadratic / 2


def tops_of_radius(kernels: Kernels, ball: Row, s: Row, quadratic_forms: Row) -> Row:
    """Largest quotients of quadratic forms and of lower bounds of squared radii: bounds of two mixed centres."""
    around = [
        [
            dot(v, own) - form
            for own, form in zip(kernels.diagonals, kernels.quadratic_forms_above(v), strict=True)
        ]
        for v in (ball, [Q(1, kernels.n)] * kernels.n)
    ]
    tops = []
    for share in [Q(0), *(Q(1, 10**k) for k in range(14))]:
        rooms = [
            w * (max(a, Q(0)) * (1 - share) + max(b, Q(0)) * share)
            for w, a, b in zip(s, *around, strict=True)
        ]
        if all(room > 0 for room, form in zip(rooms, quadratic_forms, strict=True) if form > 0):
            tops.append(
                max(
                    form / room if form > 0 else Q(0)
                    for room, form in zip(rooms, quadratic_forms, strict=True)
                )
            )
    return tops


def simplex(values: Any) -> Row:
    """Nonnegative numbers with sum one, near the given ones."""
    v = [max(x, Q(0)) for x in exact(values)]
    total = sum(v, Q(0))
    v = [Q(int(x / total * 2**80), 2**80) for x in v]
    v[v.index(max(v))] += 1 - sum(v, Q(0))
    return v


def radius_above(kernels: Kernels, beta: Row, d: Row) -> Q:
    """An upper bound of the squared radius of the smallest ball in the space of ``sum_m d_m K_m``, by its centre."""
    own = [dot(d, list(column)) for column in zip(*kernels.diagonals, strict=True)]
    f, e, form = kernels.combine(d, beta)
    return max(a - 2 * (b - c) for a, b, c in zip(own, f, e, strict=True)) + form


# ---- kernels weighted by the targets: AlignF and EasyMKL ------------------------------------------------------


def weighted_products(
    kernels: Kernels, w: np.ndarray, t: Row
) -> tuple[list[list[tuple[Q, Q]]], list[tuple[Q, Q]]]:
    """Bounds of the Frobenius products of centred kernels with one another, and with the square of centred targets."""
    own = [kernels.centred(m, w) for m in range(len(kernels.parts))]
    exactly = kernels.ints is not None
    weight = as_ints(w) if exactly else (w.astype(LONG), 0)
    target = np.array(t, dtype=object) if exactly else np.array([to_long(q) for q in t])
    both = np.multiply.outer(weight[0], weight[0]), Q(4) ** weight[1]
    square = np.multiply.outer(target, target)

    def product(a: tuple[np.ndarray, Q, Q], b: tuple[np.ndarray, Q, Q]) -> tuple[Q, Q]:
        value = (a[0] * b[0] * both[0]).sum()
        if exactly:
            value = Q(value) * a[1] * b[1] * both[1]
            return value, value
        sizes = [to_fraction((np.abs(x) * both[0]).sum()) for x in (a[0], b[0], a[0] * b[0])]
        total = to_fraction(both[0].sum())
        error = a[2] * sizes[1] + b[2] * sizes[0] + a[2] * b[2] * total + 400 * EPS * sizes[2]
        return to_fraction(value) - error, to_fraction(value) + error

    table = [[product(a, b) for b in own[: k + 1]] for k, a in enumerate(own)]
    return table, [product(a, (square, Q(1), 8 * EPS * max(x * x for x in t))) for a in own]


def alignment_bounds(p: Mapping[str, Any], fit: Mapping[str, Any], kernels: Kernels, y: Row) -> tuple[Q, Q]:
    """The alignment of a sum of kernels with the targets, and a bound of the largest one, both with a minus."""
    w = np.array(p["sample_weight"])
    d = [a * b for a, b in zip(exact(fit["weights"]), exact(p["scale"]), strict=True)]
    mean = dot(exact(w), y) / sum(exact(w), Q(0))
    t = [v - mean for v in y]
    length2 = dot(exact(w), [v * v for v in t])
    table, a = weighted_products(kernels, w, t)
    every = range(len(d))
    # <K_m, K(d)>, from below and from above
    P = [[sum((d[k] * table[max(k, m)][min(k, m)][i] for k in every), Q(0)) for i in (0, 1)] for m in every]
    curvature = [sum((d[m] * P[m][i] for m in every), Q(0)) for i in (0, 1)]
    along = sum((d[m] * a[m][0] for m in every), Q(0)) / length2
    if min(d) < 0 or along <= 0 or curvature[0] <= 0:
        return Q(0), Q(-1)
    longest = curvature[1] / root_below(curvature[1])
    # for any factor; this one is best
    factor, reach = along / curvature[1], Q(0)
    for m in every:
        rise = max(a[m][1] / length2 - factor * P[m][0], Q(0))
        norm2 = table[m][m][0]
        if rise > 0:
            reach += rise * rise / norm2 if norm2 > 0 else Q(1)
    return -along / longest, -min(factor * longest + (reach / root_below(reach) if reach else 0), Q(1))


def easy_bounds(p: Mapping[str, Any], fit: Mapping[str, Any], kernels: Kernels, y: Row) -> tuple[Q, Q]:
    """EasyMKL: an upper bound P with the squared hinge and C = 1 / lam gives 2 / P from below; for lam = 0 a margin."""
    lam, w, s = Q(p["set_value"]), exact(p["sample_weight"]), exact(p["scale"])
    b = [
        v * max(v * c, Q(0)) / abs(v) if a else Q(0)
        for v, c, a in zip(y, exact(fit["dual_coef"][0]), w, strict=True)
    ]
    sums = {sign: sum((v for v in b if v * sign > 0), Q(0)) for sign in (1, -1)}
    if not all(sums.values()):
        return HUGE, Q(0)
    b = [v / abs(sums[1 if v > 0 else -1]) for v in b]
    f, e, form = kernels.combine([(1 - lam) * x for x in s], b)
    objective = form + lam * sum((v * v / a for v, a in zip(b, w, strict=True) if v), Q(0))
    rows = [(own, *value) for own, *value in zip(w, y, f, e, strict=True) if own]
    if lam == 0:
        margin = min(v - r for _, c, v, r in rows if c > 0) - max(v + r for _, c, v, r in rows if c < 0)
        return objective, max(margin, Q(0)) ** 2 / objective if objective else Q(0)
    classes, costs = np.array([float(c) for _, c, _, _ in rows]), np.array([float(a) for a, *_ in rows])
    hinge, lower = {**p, "loss": "squared-hinge"}, Q(0)
    # of the length that is best at the optimum, and of the one that the solver ended with
    for factor in [2 / objective, *(sum(map(abs, exact(row)), Q(0)) / 2 for row in fit["proof"])]:
        values = np.array([to_float(factor * v) for _, _, v, _ in rows])
        low, high = -1 - np.abs(values).max(), 1 + np.abs(values).max()
        for _ in range(200):
            middle = (low + high) / 2
            slope = costs @ (classes * np.maximum(1 - classes * (values + middle), 0))
            low, high = (middle, high) if slope > 0 else (low, middle)
        t = Q(float(low))
        losses = [
            a / lam * loss_above(hinge, c, factor * (v - r) + t, factor * (v + r) + t) for a, c, v, r in rows
        ]
        lower = max(lower, 2 / (factor * factor * form / 2 + sum(losses, Q(0))))
    return objective, lower


def shares_differ(p: Mapping[str, Any], fit: Mapping[str, Any], kernels: Kernels) -> bool:
    """Whether EasyMKL's weights are other than the shares of kernels in the squared distance of the mixtures."""
    s = exact(p["scale"])
    lengths2 = kernels.quadratic_forms_above(exact(fit["dual_coef"][0]))
    shares = [a * b for a, b in zip(s, lengths2, strict=True)]
    total = sum(shares, Q(0))
    # small differences of large entries are known to their rounding errors only
    off = (
        total / 10**9
        + sum((a * max(own) for a, own in zip(s, kernels.diagonals, strict=True)), Q(0)) / 10**12
    )
    return any(abs(d * total - v) > off for d, v in zip(exact(fit["weights"]), shares, strict=True))


# ---- judgement --------------------------------------------------------------------------------------------


def digest(values: Any) -> str:
    """Hash of the shape of an array and of its numbers."""
    a = np.ascontiguousarray(values, dtype="<f8")
    return hashlib.sha256(repr(a.shape).encode() + a.tobytes()).hexdigest()


def seal(content: Mapping[str, Any]) -> str:
    """Hash of everything else in a certificate."""
    kept = {key: value for key, value in content.items() if key != "seal"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


#: What a certificate has beside its seal, and parts of it.
KEYS = {
    "": ("format", "problem", "fit", "claim", "hashes"),
    "problem": (
        *("loss", "epsilon", "C", "sample_weight", "scale", "regularization", "set", "set_value"),
        *("intercept", "criterion"),
    ),
    "fit": ("weights", "dual_coef", "intercept", "proof", "feature_coef", "ball", "radius2"),
    "claim": ("primal", "gap", "rounding", "status"),
}


def lacking(content: Mapping[str, Any], data: Mapping[str, np.ndarray]) -> str:
    """What a certificate lacks, or nothing: a key, or the hash of an array that is read here."""
    read = ("y", "kernels") if "kernels" in data else ("y", "features", "groups")
    for part, names in {**KEYS, "hashes": read}.items():
        for name in names:
            if name not in (content[part] if part else content):
                where = f" in `{part}`" if part else ""
                return f"The certificate has no `{name}`{where}."
    return ""


def unknown(content: Mapping[str, Any]) -> str:
    """What is not known here, or nothing: a format, or the name of a criterion, a loss or a set of weights."""
    p = content["problem"]
    for name, value, known in (
        ("format", content["format"], FORMATS),
        ("criterion", p["criterion"], CRITERIA),
        # the alignment has no loss
        ("loss", p["loss"], ("",) if p["criterion"] == "alignment" else LOSSES),
        ("set", p["set"], tuple(SETS)),
    ):
        if value not in known:
            names = ", ".join(map(repr, known))
            return f"This judge knows no `{name}` {value!r}, only {names}. The judge of a newer version may."
    return ""


def wrong_parameter(p: Mapping[str, Any]) -> str:
    """What is wrong with the parameter of a set of weights or of a loss, or nothing."""
    limits, value = SETS[p["set"]], p["set_value"]
    if limits and not (isinstance(value, int | float) and limits[0] < value <= limits[1]):
        span = f"above {limits[0]} and at most {limits[1]}"
        return f"The set {p['set']} needs a number `set_value` {span}, not {value!r}."
    if p["criterion"] == "margins" and not (isinstance(value, int | float) and 0 <= value <= 1):
        return f"The margins need a number `set_value` from 0 to 1, not {value!r}."
    for loss, name, largest in (("huber", "delta", math.inf), ("quantile", "q", 1.0)):
        value = p.get(name)
        if p["loss"] == loss and not (isinstance(value, int | float) and 0 < value < largest):
            return f"The loss {loss} needs a number `{name}` between 0 and {largest:g}, not {value!r}."
    if p["loss"] == "cox" and (
        p.get("ties") not in ("breslow", "efron") or not isinstance(p.get("stratified"), bool)
    ):
        return "The loss cox needs `ties`, breslow or efron, and `stratified`, true or false."
    return ""


def judge(content: Mapping[str, Any], data: Mapping[str, np.ndarray]) -> tuple[str, Q, Q]:
    """What is wrong with a certificate, or nothing; and the bounds of the objective and of its smallest value."""
    if content.get("seal") != seal(content):
        return "The certificate was changed after it was written.", HUGE, Q(0)
    if wrong := lacking(content, data) or unknown(content) or wrong_parameter(content["problem"]):
        return wrong, HUGE, Q(0)
    for name, expected in content["hashes"].items():
        if name not in data or digest(data[name]) != expected:
            return f"`{name}` is not what the fit was given.", HUGE, Q(0)
    kernels = Kernels(data)
    Y = [exact(y) for y in np.asarray(data["y"], dtype=np.float64).reshape(kernels.n, -1).T]
    p, fit = content["problem"], content["fit"]
    claims = [content["claim"][name] for name in ("primal", "gap", "rounding")]
    if not all(map(math.isfinite, claims)):
        return "The claim is not finite: nothing is certified.", HUGE, Q(0)
    primal, gap, rounding = map(Q, claims)
    if p["loss"] == "poisson" and min(min(y) for y in Y) < 0:
        return "Counts must not be negative.", HUGE, Q(0)
    if p["loss"] == "cox" and not all(all(y) for y in Y):
        return "Times must not be zero.", HUGE, Q(0)
    if p["criterion"] == "alignment":
        upper, lower = alignment_bounds(p, fit, kernels, Y[0])
    elif p["criterion"] == "margins":
        upper, lower = easy_bounds(p, fit, kernels, Y[0])
        if shares_differ(p, fit, kernels):
            return "The weights are not the shares of the kernels.", upper, lower
    else:
        upper, lower = bounds(p, fit, kernels, Y)
    slack = 4 * Q(sys.float_info.epsilon) * abs(primal)
    # of a ratio with a radius, the reported value is an upper bound itself
    if upper > primal + rounding + slack or upper < primal - max(gap, slack):
        return f"The objective is {to_float(upper):.17g}, not {to_float(primal):.17g}.", upper, lower
    # to nine digits; radii in solvers are those of balls to eleven
    slack = rounding + (primal / 10**11 if content["fit"]["ball"] else 0)
    if upper - lower > gap * (1 + Q(1, 10**9)) or primal - gap > lower + slack:
        return (
            f"A gap of {to_float(gap):.6g} is not confirmed, only {to_float(upper - lower):.6g}.",
            upper,
            lower,
        )
    return "", upper, lower


def main() -> int:
    """Read a certificate and its data, and print the judgement."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    with np.load(sys.argv[2], allow_pickle=False) as data:
        wrong, upper, lower = judge(json.loads(Path(sys.argv[1]).read_text(encoding="utf8")), dict(data))
    print(f"objective at most {to_float(upper):.12g}, smallest at least {to_float(lower):.12g}")
    print(f"REFUSED. {wrong}" if wrong else "CONFIRMED.")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
