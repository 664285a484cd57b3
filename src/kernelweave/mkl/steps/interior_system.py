"""The linear system of an interior point: directions and step lengths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from kernelweave._types import Array
from kernelweave.machines.loss import Sides
from kernelweave.mkl.weight_sets import ShareSet

#: Share of the way to the nearest bound at which a step ends.
TO_BOUND = 0.99

#: Most reductions of a step that is too long, or with unbalanced pairs.
MOST_CUTS = 30

#: Jitter for systems that are indefinite by rounding, as shares of the largest entry.
JITTERS = (0.0, 1e-14, 1e-12, 1e-10)

#: Kernels whose curvature is below this share of the largest are left out of the second derivative.
NO_CURVATURE = 1e-14


class State(NamedTuple):
    """Variables and multipliers; all but `tau` and `intercept` are positive, and d are shares."""

    a: Array
    tau: float
    zeta: Array
    d: Array
    u: Array
    low: Array
    high: Array
    intercept: float

    def moved(self, by: State, length: float) -> State:
        """The state after a step of that length."""
        pairs: Iterable[tuple[Any, Any]] = zip(self, by, strict=True)
        return State._make(value + length * change for value, change in pairs)


class System:
    """The linear system at a point, factorised once for predictor and corrector."""

    def __init__(self, sides: Sides, at: State, K: Array, V: Array, q: Array, weight_set: ShareSet) -> None:
        self.sides, self.at, self.V, self.q, self.weight_set = sides, at, V, q, weight_set
        self.cap = cap = weight_set.largest
        self.first, self.second = weight_set.slopes(at.d)
        self.W = W = self.first[:, None] * V
        # decrease of the slack of a kernel with its own share
        self.share_curvature = -at.d * self.second * q
        self.room = sides.upper - at.a
        self.slack = at.tau + at.zeta - self.first * q
        self.theta = sides.ridge + at.low / at.a + np.where(np.isfinite(self.room), at.high / self.room, 0.0)
        self.w = at.d / (self.slack + self.share_curvature)
        if cap < 1.0:
            self.x = at.u / at.zeta
            self.own = self.x / (self.w + self.x)  # share of a change of the slack that is due to tau
        else:
            self.x, self.own = np.full(len(q), np.inf), np.ones(len(q))
        self.weight = self.w * self.own
        self.total = float(self.weight.sum())
        self.mean = (self.weight / self.total) @ W
        self.diagonal = 1.0 / np.sum(1.0 / self.theta, axis=0)
        system = K
        around = W - self.mean
        curving = self.weight * np.einsum("mi,mi->m", around, around)
        used = curving > NO_CURVATURE * curving.max(initial=0.0)
        if used.any():
            B = around[used] * np.sqrt(2.0 * self.weight[used])[:, None]
            # row-major: the lower triangle of the transpose is the upper one here
            system = blas.dsyrk(1.0, B.T, beta=1.0, c=system.T, lower=1, overwrite_c=1).T
        system.flat[:: len(system) + 1] += self.diagonal
        top = float(system.diagonal().max())
        for jitter in JITTERS:
            system.flat[:: len(system) + 1] += jitter * top
            factor, info = lapack.dpotrf(system.T, lower=1, clean=0)
            if info == 0:
                break
        self.ok = info == 0 and np.isfinite(top)
        self.factor = factor
        self.one = self._solve(np.ones(len(system)))

    def _solve(self, right: Array) -> Array:
        return lapack.dpotrs(self.factor, right, lower=1)[0]

    def direction(
        self, mu: float, affine: State | None = None, curve: Array | None = None, turn: Array | None = None
    ) -> tuple[State, Array]:
        """Newton's step to the point of the central path where products are `mu`, and its change of b.

        `affine` is the predictor, whose products Mehrotra's corrector subtracts; `curve` has q_m of its change of b,
        and `turn` the change of K(d) times that of b.
        """
        at, sides, W, w = self.at, self.sides, self.W, self.w
        low_affine = high_affine = slack_affine = cap_affine = np.zeros(())
        if affine is not None:
            assert curve is not None
            low_affine, high_affine = affine.a * affine.low, -affine.a * affine.high
            along = 2.0 * (self.V @ np.sum(sides.sign * affine.a, axis=0))
            drop = affine.tau + affine.zeta - self.first * along - affine.d * self.second * self.q
            curved = self.first * curve + affine.d * self.second * along
            slack_affine, cap_affine = affine.d * drop - at.d * curved, affine.u * affine.zeta
        low = (mu - low_affine) / at.a
        with np.errstate(invalid="ignore"):
            high = np.where(np.isfinite(self.room), (mu - high_affine) / self.room, 0.0)
        c = (2.0 * mu - slack_affine + at.d * self.share_curvature) / (self.slack + self.share_curvature)
        if self.cap < 1.0:
            rest = self.cap - c - (2.0 * mu - cap_affine) / at.zeta
            c = c + w * rest / (w + self.x)
        else:
            rest = np.zeros(len(c))
        short = 1.0 - float(c.sum())
        # residuals as differences of similar numbers, so that the step is accurate near the end
        f = self.weight_set.of_shares(at.d) @ self.V + at.intercept
        residual = sides.gain - sides.ridge * at.a - sides.sign * f + low - high
        common = self.diagonal * np.sum(sides.sign * residual / self.theta, axis=0)
        right = common - (c - at.d) @ W - short * self.mean
        if turn is not None:
            right = right - turn
        free = self._solve(right)
        b = np.sum(sides.sign * at.a, axis=0)
        dnu = float(free.sum() + b.sum()) / float(self.one.sum())
        db = free - dnu * self.one
        along = W @ db
        dtau = (2.0 * float(self.weight @ along) - short) / self.total
        lead = dtau - 2.0 * along
        if self.cap < 1.0:
            dzeta = -(rest + w * lead) / (w + self.x)
            du = (2.0 * mu - cap_affine) / at.zeta - self.x * dzeta - at.u
        else:
            dzeta, du = np.zeros(len(c)), np.zeros(len(c))
        dd = c - at.d - self.weight * lead
        da = self._sides_of(db, residual, common)
        dlow = low - at.low / at.a * da - at.low
        with np.errstate(invalid="ignore"):
            dhigh = np.where(np.isfinite(self.room), high + at.high / self.room * da - at.high, 0.0)
        return State(da, dtau, dzeta, dd, du, dlow, dhigh, dnu), db

    def _sides_of(self, db: Array, residual: Array, common: Array) -> Array:
        """A change of b divided between the sides: the stiffer one by its equation, the other by the difference."""
        sign = self.sides.sign
        if len(sign) == 1:
            return sign * db
        df = common - self.diagonal * db
        da = (residual - sign * df) / self.theta
        stiff = self.theta[0] >= self.theta[1]
        da[1] = np.where(stiff, sign[1] * (db - sign[0] * da[0]), da[1])
        da[0] = np.where(stiff, da[0], sign[0] * (db - sign[1] * da[1]))
        return da

    def complementarity(self, at: State, slack: Array) -> Array:
        """Products of constraints and multipliers: zero at the solution, equal on the central path."""
        found = [(at.a * at.low).ravel(), 0.5 * at.d * slack]
        if np.isfinite(self.sides.upper).all():
            found.append(((self.sides.upper - at.a) * at.high).ravel())
        if self.cap < 1.0:
            found.append(0.5 * at.u * at.zeta)
        return np.concatenate(found)

    def slack_after(self, by: State, db: Array, curve: Array, length: float) -> Array:
        """The slack of the quadratic forms after a step of that length."""
        # a difference of slopes, not of slacks: near the end these are small differences of large numbers
        first, _ = self.weight_set.slopes(self.at.d + length * by.d)
        drop = by.tau + by.zeta - 2.0 * first * (self.V @ db)
        return self.slack + length * drop - length**2 * first * curve - (first - self.first) * self.q

    def longest(self, by: State, db: Array, curve: Array) -> float:
        """Length of the step inside the bounds."""
        at = self.at
        length = 1.0
        pairs = [(at.a, by.a), (at.low, by.low), (at.d, by.d), (self.room, -by.a), (at.high, by.high)]
        if self.cap < 1.0:
            pairs += [(at.zeta, by.zeta), (at.u, by.u)]
        for value, change in pairs:
            falls = (change < 0) & np.isfinite(value)
            if falls.any():
                length = min(length, TO_BOUND * float((-value[falls] / change[falls]).min()))
        left = TO_BOUND * self.slack
        if self.second.any():
            for _ in range(MOST_CUTS):
                if np.all(self.slack_after(by, db, curve, length) >= self.slack - left):
                    break
                length *= 0.8
            return length
        # slack + t drop - t^2 curve >= (1 - TO_BOUND) slack
        drop = by.tau + by.zeta - 2.0 * (self.V @ db)
        root = np.sqrt(np.maximum(np.square(drop) + 4.0 * curve * left, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(root > drop, 2.0 * left / (root - drop), np.inf)
        return min(length, float(ends.min()))

    def turn(self, affine: State, change: Array) -> Array:
        """Second-order change of the products by the predictor's change of the weights."""
        return (self.first * affine.d) @ change + (0.5 * self.second * np.square(affine.d)) @ self.V
