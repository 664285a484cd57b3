"""A primal-dual interior-point method for margin multiple kernel learning.

With the coefficients of the machine as ``b = sum_k sign_k a_k``, ``0 <= a_k <= U``, and the level tau of the forms
q_m(b) = s_m b'K_m b, the dual of the joint problem over the (capped) simplex is

    min  1/2 (tau + cap sum_m zeta_m) - dual_term(b)     s.t.  q_m(b) <= tau + zeta_m,  zeta >= 0,  sum(b) = 0 ,

and the multipliers of the first constraint are d_m / 2: the kernel weights. Where these are functions of shares,
``d_m = phi(s_m)``, the shares are the variables, and the constraint is ``phi'(s_m) q_m(b) <= tau + zeta_m``. Newton on
the perturbed conditions of optimality does not mind where the optimal value of the machine has kinks in the weights, as
it has wherever fewer rows are free than kernels are active, and takes 15 to 40 steps nearly always. Every step costs a
combination of all kernels, two products with each (three after a short step), and n^3 / 3. Weights come out positive:
those without a share are then cut off.

References
----------
G. Lanckriet et al., Learning the kernel matrix with semidefinite programming, JMLR 5 (2004), for the dual as a
quadratically constrained program. S. Mehrotra, On the implementation of a primal-dual interior point method, SIAM
Journal on Optimization 2 (1992), for predictor, corrector and the choice of mu.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from kernelweave.machines.loss import Sides
from kernelweave.mkl.loop import Look, Loop, Moves
from kernelweave.mkl.problem import Index, MarginStep, Point, Problem, Session
from kernelweave.mkl.weight_sets import ShareSet
from kernelweave.results import Solution, Status, relative_gap

Array = NDArray[np.float64]

#: A step ends at this share of the way to the nearest bound.
TO_BOUND = 0.99
#: mu of the corrector, as shares of the present one.
SMALLEST_MU, LARGEST_MU = 1e-6, 0.5
#: The point is taken when its gap is this share of the tolerance: cutting weights off costs a little.
OWN_SHARE = 0.01
#: Steps shorter than this lead nowhere; after those shorter than the other a centring step is tried.
SHORTEST, SHORT = 1e-6, 0.1
#: The smallest pair of constraint and multiplier as a share of the mean, and the most cuts of a step for its sake.
BALANCE, MOST_CUTS = 1e-3, 30
#: Tolerance at which a machine takes coefficients of the interior as they are.
LOOSE = 1e-2
#: A gap that leaves nothing to do.
FINE = 1e-12
#: Steps after which it gives up on a part: 15 to 40 are normal.
MOST_STEPS = 100
#: Share of the box that both sides of the tube take at the start.
OFFSET = 0.1
#: What is added to the diagonal of a system that rounding made indefinite, as shares of its largest entry.
JITTERS = (0.0, 1e-14, 1e-12, 1e-10)
#: More kernels than these are taken in parts, the first of half as many.
PART = 1000
#: Kernels that curve the dual by less than this share of the most curving one are left out of the second derivative.
NO_CURVATURE = 1e-14


@dataclass
class _State:
    """Variables and multipliers; all but `tau` and `intercept` are positive, and d are shares."""

    a: Array
    tau: float
    zeta: Array
    d: Array
    u: Array
    low: Array
    high: Array
    intercept: float

    def moved(self, by: _State, length: float) -> _State:
        return _State(*(getattr(self, f.name) + length * getattr(by, f.name) for f in fields(_State)))


def has_interior(problem: Problem) -> bool:
    """Whether the set of weights is more than a point, and the dual of the machine a quadratic program."""
    weight_set = problem.weight_set
    fits = isinstance(weight_set, ShareSet) and weight_set.has_interior(problem.n_kernels)
    return fits and problem.machine.loss.quadratic


def _set_of(problem: Problem) -> ShareSet:
    assert isinstance(problem.weight_set, ShareSet)
    return problem.weight_set


class _System:
    """The linear system at a point, factorised once for predictor and corrector."""

    def __init__(self, sides: Sides, at: _State, K: Array, V: Array, q: Array, weight_set: ShareSet) -> None:
        self.sides, self.at, self.V, self.q, self.weight_set = sides, at, V, q, weight_set
        self.cap = cap = weight_set.largest
        self.first, self.second = weight_set.slopes(at.d)
        self.W = W = self.first[:, None] * V
        # what a larger share takes from the slack of its own kernel
        self.bend = -at.d * self.second * q
        self.room = sides.upper - at.a
        self.slack = at.tau + at.zeta - self.first * q
        self.theta = sides.ridge + at.low / at.a + np.where(np.isfinite(self.room), at.high / self.room, 0.0)
        self.w = at.d / (self.slack + self.bend)
        if cap < 1.0:
            self.x = at.u / at.zeta
            self.own = self.x / (self.w + self.x)  # how much of a change of the slack tau has to make
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
        self, mu: float, affine: _State | None = None, curve: Array | None = None, turn: Array | None = None
    ) -> tuple[_State, Array]:
        """Newton's step to the point of the central path where products are `mu`, and its change of b.

        `affine` is the predictor, whose products Mehrotra's corrector takes off; `curve` holds q_m of its change of b,
        and `turn` the change of K(d) times that of b.
        """
        at, sides, W, w = self.at, self.sides, self.W, self.w
        low_affine = high_affine = slack_affine = cap_affine = np.zeros(())
        if affine is not None:
            assert curve is not None
            low_affine, high_affine = affine.a * affine.low, -affine.a * affine.high
            along = 2.0 * (self.V @ np.sum(sides.sign * affine.a, axis=0))
            drop = affine.tau + affine.zeta - self.first * along - affine.d * self.second * self.q
            bent = self.first * curve + affine.d * self.second * along
            slack_affine, cap_affine = affine.d * drop - at.d * bent, affine.u * affine.zeta
        low = (mu - low_affine) / at.a
        with np.errstate(invalid="ignore"):
            high = np.where(np.isfinite(self.room), (mu - high_affine) / self.room, 0.0)
        c = (2.0 * mu - slack_affine + at.d * self.bend) / (self.slack + self.bend)
        if self.cap < 1.0:
            rest = self.cap - c - (2.0 * mu - cap_affine) / at.zeta
            c = c + w * rest / (w + self.x)
        else:
            rest = np.zeros(len(c))
        short = 1.0 - float(c.sum())
        # what the conditions leave here: differences of like numbers, so that the step keeps its digits near the end
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
        return _State(da, dtau, dzeta, dd, du, dlow, dhigh, dnu), db

    def _sides_of(self, db: Array, residual: Array, common: Array) -> Array:
        """How the sides share a change of b: the stiffer one by its equation, the other takes the rest."""
        sign = self.sides.sign
        if len(sign) == 1:
            return sign * db
        df = common - self.diagonal * db
        da = (residual - sign * df) / self.theta
        stiff = self.theta[0] >= self.theta[1]
        da[1] = np.where(stiff, sign[1] * (db - sign[0] * da[0]), da[1])
        da[0] = np.where(stiff, da[0], sign[0] * (db - sign[1] * da[1]))
        return da

    def complementarity(self, at: _State, slack: Array) -> Array:
        """Products of constraints and multipliers: zero at the solution, equal on the central path."""
        found = [(at.a * at.low).ravel(), 0.5 * at.d * slack]
        if np.isfinite(self.sides.upper).all():
            found.append(((self.sides.upper - at.a) * at.high).ravel())
        if self.cap < 1.0:
            found.append(0.5 * at.u * at.zeta)
        return np.concatenate(found)

    def slack_after(self, by: _State, db: Array, curve: Array, length: float) -> Array:
        """The slack of the forms after a step of that length."""
        # a difference of slopes, not of slacks: near the end these are small differences of large numbers
        first, _ = self.weight_set.slopes(self.at.d + length * by.d)
        drop = by.tau + by.zeta - 2.0 * first * (self.V @ db)
        return self.slack + length * drop - length**2 * first * curve - (first - self.first) * self.q

    def longest(self, by: _State, db: Array, curve: Array) -> float:
        """Length of the step that stays inside."""
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

    def turn(self, affine: _State, change: Array) -> Array:
        """What the predictor's change of the weights does to the products, beyond the first order."""
        return (self.first * affine.d) @ change + (0.5 * self.second * np.square(affine.d)) @ self.V


@dataclass
class _Part:
    """Some kernels of a stack on the rows that take part, which are those with a positive cost."""

    session: Session
    rows: Index
    kernels: Index

    def __post_init__(self) -> None:
        self.problem = self.session.problem

    @property
    def weight_set(self) -> ShareSet:
        return _set_of(self.problem)

    @cached_property
    def sides(self) -> Sides:
        machine = self.problem.machine
        found = machine.loss.sides(machine.y[self.rows], machine.costs[self.rows])
        if found is None:
            raise TypeError(f"the dual of {machine.loss} is no quadratic program")
        return found

    @property
    def _all_rows(self) -> bool:
        return len(self.rows) == self.problem.gram.n_samples

    def spread(self, values: Array) -> Array:
        """Coefficients of all rows: zeros for those that take no part."""
        out = np.zeros(self.problem.gram.n_samples)
        out[self.rows] = values
        return out

    def scatter(self, weights: Array) -> Array:
        """Weights of all kernels: zeros for the others."""
        out = np.zeros(self.problem.n_kernels)
        out[self.kernels] = weights
        return out

    def products(self, values: Array) -> Array:
        """``s_m K_m b``, shape (n_kernels, n_rows)."""
        V = self.problem.products(self.spread(values), self.kernels)
        return V if self._all_rows else V[:, self.rows]

    def kernel(self, weights: Array) -> Array:
        """K(d), as a copy."""
        K = self.session.combine(self.scatter(weights))
        return K.copy() if self._all_rows else K[np.ix_(self.rows, self.rows)]

    def support(self, q: Array, b: Array) -> float:
        """Support function at bounds of the forms, given those of the factors."""
        residual = self.problem.gram.residual_trace[self.kernels]
        if residual.any():
            q = q + self.problem.scale[self.kernels] * residual * float(b @ b)
        return self.weight_set.support(q)

    def rel_gap(self, at: Point) -> float:
        """The relative gap if these were all kernels."""
        q = self.problem.quad(at.machine.dual_coef, self.kernels)
        level = float(at.weights[self.kernels] @ q) - self.problem.left_out(at.weights, at.machine.dual_coef)
        outer = self.weight_set.support(q) - level
        return relative_gap(at.machine.primal, at.machine.own_gap + 0.5 * max(0.0, outer))


@dataclass
class InteriorPoint(MarginStep):
    """Predictor-corrector steps from the middle of the box, on a growing part of the kernels where they are many.

    A part starts with the kernels of the largest forms, and grows by those whose forms exceed the level of its
    solution. The weights of a warm start are not used.
    """

    fits = ShareSet
    _best: Solution | None = None
    _trying: _Trying | None = None

    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        """Points inside the set; those of the ends of parts are without what only the interior gave them."""
        problem, tol = session.problem, session.tol
        weight_set = _set_of(problem)
        m = problem.n_kernels
        equal = weight_set.start(m)
        interior = has_interior(problem)
        # also looks at the labels and weights of rows
        first = session.solve(equal, LOOSE if interior else tol, session.warm.dual_coef)
        self._best = best = session.result(first, Status.STALLED, loop)
        if not interior or _own(best) <= min(tol, FINE) or not first.machine.dual_coef.any():
            yield Look(first, best.primal, best.own_gap, m, last=True)
            return best.status
        # the last gap over all kernels: no part can claim less
        known = _own(best) if m > PART else 0.0
        rows = np.flatnonzero(problem.machine.costs > 0)
        few = m if m <= PART else max(PART // 2, int(2.0 / weight_set.largest))
        chosen = np.argsort(-problem.quad(first.machine.dual_coef), kind="stable")[:few]
        goal = tol if m <= PART else max(tol, LOOSE)
        while True:
            part = _Part(session, rows, np.sort(chosen))
            self._trying = trying = _Trying(part, goal, first, loop.n_iter)
            for look in trying.moves():
                look.gap = max(look.gap, known * abs(look.objective))
                yield look
            point, reached = self._finish(session, loop)
            known = _own(self._best)
            if _reached(self._best):
                return self._best.status
            forms = problem.quad(point.machine.dual_coef)
            own = forms[part.kernels]
            shares = weight_set.shares(weight_set.best(own))
            level = float((weight_set.slopes(shares)[0] * own)[shares > 0].min())
            above = weight_set.slopes(np.zeros(m))[0] * forms > level
            above[part.kernels] = False
            if not above.any() and (goal <= tol or not reached):
                return Status.STALLED
            more = np.flatnonzero(above)
            more = more[np.argsort(-forms[more], kind="stable")[: max(PART // 2, len(chosen))]]
            chosen = np.r_[chosen, more]
            goal = max(tol, 0.01 * goal)

    def _finish(self, session: Session, loop: Loop[Point]) -> tuple[Point, bool]:
        """End the part that is being solved, and tell the gap over all kernels."""
        assert self._trying is not None
        assert self._best is not None
        trying, self._trying = self._trying, None
        point, reached = trying.end()
        found = session.result(point, Status.STALLED, loop)
        if loop.n_iter > trying.before:
            # what was written there is the gap over the kernels of the part
            loop.amend(_own(found))
        if _own(found) < _own(self._best):
            self._best = found
        return point, reached

    def result(self, session: Session, loop: Loop[Point], status: Status) -> Solution:
        """The best end of a part."""
        if self._trying is not None:
            self._finish(session, loop)
        assert self._best is not None
        if _reached(self._best) and status is not Status.INTERRUPTED:
            status = self._best.status
        return loop.told(self._best, status, session.n_machines)


def _own(result: Solution) -> float:
    return relative_gap(result.primal, result.own_gap)


def _reached(result: Solution) -> bool:
    return result.status in (Status.CONVERGED, Status.ROUNDING)


@dataclass
class _Trying:
    """Steps on one part to a relative gap, and the best of them; `before` counts the iterations before it."""

    part: _Part
    tol: float
    start: Point
    before: int
    _best: tuple[float, _State, Array] | None = None

    def moves(self) -> Iterator[Look[Point]]:
        """Steps, until nothing is left or nothing moves."""
        part, machine = self.part, self.part.problem.machine
        weight_set = part.weight_set
        sides = self.part.sides
        at, V = _first(part, sides)
        for _ in range(MOST_STEPS):
            b = np.sum(sides.sign * at.a, axis=0)
            q = V @ b
            weights = weight_set.of_shares(at.d / float(at.d.sum()))
            primal = 0.5 * float(weights @ q) + sides.loss(weights @ V + at.intercept)
            gap = primal - (machine.dual_term(part.spread(b)) - 0.5 * part.support(q, b))
            if self._best is None:
                self._best = (math.inf, at, q)
            if not np.isfinite(gap):
                return
            gap = max(0.0, gap)
            # of two variables whose product vanishes, the smaller one (each in its own units) is zero at the solution
            level = max(abs(at.tau), np.finfo(float).tiny)
            slack = at.tau + at.zeta - weight_set.slopes(at.d)[0] * q
            active = at.d > np.minimum(slack / level, 0.9 * at.d.max())
            if gap < self._best[0]:
                self._best = (gap, at, q)
            enough = gap <= OWN_SHARE * self.tol * abs(primal)
            yield Look(self.start, primal, gap, int(np.count_nonzero(active)), last=enough)
            if enough:
                return
            step = _System(sides, at, part.kernel(weight_set.of_shares(at.d)), V, q, weight_set)
            if not step.ok:
                return
            products = step.complementarity(at, step.slack)
            mean, balance = float(products.mean()), float(products.min() / products.mean())
            affine, db = step.direction(0.0)
            change = part.products(db)
            curve = change @ db
            length = step.longest(affine, db, curve)
            there = at.moved(affine, length)
            left = float(step.complementarity(there, step.slack_after(affine, db, curve, length)).mean())
            mu = mean * float(np.clip((left / mean) ** 3, SMALLEST_MU, LARGEST_MU))
            by, db = step.direction(mu, affine, curve, step.turn(affine, change))
            change = part.products(db)
            curve = change @ db
            length = step.longest(by, db, curve)
            if length < SHORT:
                centring, centring_db = step.direction(mean)
                centring_change = part.products(centring_db)
                centring_curve = centring_change @ centring_db
                longer = step.longest(centring, centring_db, centring_curve)
                if longer > length:
                    by, db, change, curve, length = (
                        centring,
                        centring_db,
                        centring_change,
                        centring_curve,
                        longer,
                    )
            # no pair may run ahead of the others: a bound that is met early blocks all steps that follow
            for _ in range(MOST_CUTS):
                products = step.complementarity(at.moved(by, length), step.slack_after(by, db, curve, length))
                if products.min() >= min(BALANCE, 0.9 * balance) * products.mean():
                    break
                length *= 0.8
            moved = at.moved(by, length)
            V = V + length * change
            b = np.sum(sides.sign * moved.a, axis=0)
            first, _ = weight_set.slopes(moved.d)
            # near the end rounding may put a point outside that is inside
            if not (length > SHORTEST and np.all(moved.tau + moved.zeta > first * (V @ b))):
                return
            at = moved

    def end(self) -> tuple[Point, bool]:
        """The best point without what only the interior gave it, and whether its gap is within the tolerance."""
        assert self._best is not None
        return _cut(self.part, self._best[1], self._best[2], self.part.sides, self.tol)


def _first(part: _Part, sides: Sides) -> tuple[_State, Array]:
    """The best multiple of simple coefficients, equal weights, and multipliers as large as the gap there."""
    m, weight_set = len(part.kernels), part.weight_set
    cap = weight_set.largest
    a = sides.start
    b = np.sum(sides.sign * a, axis=0)
    V = part.products(b)
    top = float((V @ b).max())
    dual_term = float((sides.gain * a).sum())
    bounded = bool(np.isfinite(sides.upper).all())
    most = 0.5 / max(float((a / sides.upper).max()), np.finfo(float).tiny) if bounded else np.inf
    curvature = top + float((sides.ridge * np.square(a)).sum())
    size = min(dual_term / curvature if curvature > 0.0 and dual_term > 0.0 else most, most)
    a, b, V = size * a, size * b, size * V
    if len(a) > 1:
        # both sides may grow together: that leaves b as it is, and is the middle of the box
        a = a + OFFSET * (sides.upper - a.max(axis=0))
    q = V @ b
    d = np.full(m, 1.0 / m)
    first, weights = weight_set.slopes(d)[0], weight_set.of_shares(d)
    # as large as the support function: a smaller level would run ahead of the other constraints
    level = max(float((first * q).max()), weight_set.support(q))
    tau = 2.0 * level if level > 0.0 else max(dual_term * size, 1e-300)
    f = weights @ V
    dual_term = float((sides.gain * a).sum() - 0.5 * (sides.ridge * np.square(a)).sum())
    # phi is concave: its tangents bound the support function
    gap = 0.5 * float((first * d) @ q) + sides.loss(f) - (dual_term - 0.5 * tau)
    mean = gap / (2 * a.size + m)
    low = mean / a
    room = sides.upper - a
    high = np.where(np.isfinite(room), mean / np.where(np.isfinite(room), room, 1.0), 0.0)
    zeta = u = np.zeros(m)
    if cap < 1.0:
        u = cap - d
        zeta = np.minimum(2.0 * mean / u, tau)
    return _State(a, tau, zeta, d, u, low, high, 0.0), V


def _cut(part: _Part, at: _State, q: Array, sides: Sides, tol: float) -> tuple[Point, bool]:
    """Weights and coefficients without what only the interior gave them, and whether their gap is within `tol`.

    Without that, the ones with the smallest gap.
    """
    weight_set = part.weight_set
    cap = weight_set.largest
    level = max(abs(at.tau), np.finfo(float).tiny)
    slack = at.tau + at.zeta - weight_set.slopes(at.d)[0] * q
    sparse = np.where(at.d > slack / level, at.d, 0.0)
    capped = (at.u < at.zeta / level) & (sparse > 0) if cap < 1.0 else np.zeros(len(q), dtype=bool)
    a = np.where(at.a / at.a.max() < at.low / max(float(at.low.max()), 1e-300), 0.0, at.a)
    room = sides.upper - at.a
    if np.isfinite(room).all():
        near = room / sides.upper.max() < at.high / max(float(at.high.max()), 1e-300)
        a = np.where(near, sides.upper, a)
    snapped, inside = (part.spread(np.sum(sides.sign * values, axis=0)) for values in (a, at.a))
    best: tuple[float, Point] | None = None
    whole = weight_set.project(weight_set.of_shares(at.d / at.d.sum()))
    kept = _normalised(sparse, capped, cap)
    for weights in (whole,) if kept is None else (weight_set.of_shares(kept), whole):
        # coefficients of the interior already fit, whatever rounding does to others: they are taken as they are
        for b, own in ((snapped, 0.1 * tol), (snapped, LOOSE), (inside, LOOSE)):
            point = part.session.solve(part.scatter(weights), own, b)
            gap = part.rel_gap(point)
            if best is None or gap < best[0]:
                best = (gap, point)
            if gap <= tol:
                return point, True
    assert best is not None
    return best[1], False


def _normalised(weights: Array, capped: NDArray[np.bool_], cap: float) -> Array | None:
    """Shares that sum to 1 by a common factor of those below the cap; None where that is impossible."""
    below = float(weights[~capped].sum())
    left = 1.0 - cap * np.count_nonzero(capped)
    if not left * below > 0.0:
        return None
    out = np.where(capped, cap, weights * (left / below))
    return out if out.max() <= cap else None
