"""A primal-dual interior-point method for margin multiple kernel learning.

With the coefficients of the machine as ``b = sum_k sign_k a_k``, ``0 <= a_k <= U``, and the level tau of the quadratic
forms q_m(b) = s_m b'K_m b, the dual of the joint problem over the (capped) simplex is

    min  1/2 (tau + cap sum_m zeta_m) - dual_term(b)     s.t.  q_m(b) <= tau + zeta_m,  zeta >= 0,  sum(b) = 0 ,

and the multipliers of the first constraint are d_m / 2: the kernel weights. If these are functions of shares,
``d_m = phi(s_m)``, the shares are the variables, and the constraint is ``phi'(s_m) q_m(b) <= tau + zeta_m``. Newton on
the perturbed optimality conditions is not affected by kinks of the machine's optimal value in the weights, which occur
if fewer rows are free than kernels are active, and usually takes 15 to 40 steps. Every step costs a
combination of all kernels, two products with each (three after a short step), and n^3 / 3. All weights are positive
at the end; those without a share in the solution are then set to zero.

References
----------
G. Lanckriet et al., Learning the kernel matrix with semidefinite programming, JMLR 5 (2004), for the dual as a
quadratically constrained program. S. Mehrotra, On the implementation of a primal-dual interior point method, SIAM
Journal on Optimization 2 (1992), for predictor, corrector and the choice of mu.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave._types import Array, Index
from kernelweave.mkl.kernel_problem import MarginStep, Point, Session
from kernelweave.mkl.loop import Look, Loop, Moves
from kernelweave.mkl.steps.interior_system import MOST_CUTS, State, System
from kernelweave.mkl.weight_sets import ShareSet
from kernelweave.results import Solution, Status, relative_gap

#: mu of the corrector, as shares of the present one.
SMALLEST_MU, LARGEST_MU = 1e-6, 0.5
#: The point is accepted at this share of the tolerance, because setting weights to zero costs a little.
OWN_SHARE = 0.01
#: Steps shorter than the first end the iteration; after those shorter than the second a centring step is tried.
SHORTEST, SHORT = 1e-6, 0.1
#: The smallest pair of constraint and multiplier as a share of the mean.
BALANCE = 1e-3
#: A relative gap at which all is done.
FINE = 1e-12
#: Most steps on a part; 15 to 40 are normal.
MOST_STEPS = 100
#: Larger numbers of kernels are solved in parts, the first of half as many.
PART = 1000
#: Tolerance at which coefficients of the interior are kept for the machine.
LOOSE = 1e-2
#: Share of the box for both sides of the tube at the start.
OFFSET = 0.1


@dataclass(eq=False)
class InteriorPoint(MarginStep):
    """Predictor-corrector steps from the middle of the box, on a growing part of the kernels if they are many.

    A part starts with the kernels of the largest quadratic forms, and grows by those that exceed the level of its
    solution. The weights of a warm start are not used.
    """

    fits = ShareSet
    _best: Solution | None = None
    _part: _Part | None = None

    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        """Points inside the set; those at the ends of parts have weights of zero."""
        problem, tol = session.problem, session.tol
        weight_set = problem.weight_set
        assert isinstance(weight_set, ShareSet)
        m = problem.n_kernels
        equal = weight_set.start(m)
        interior = problem.has_interior
        # also checks the labels and weights of rows
        first = session.solve(equal, LOOSE if interior else tol, session.warm.dual_coef)
        self._best = best = session.result(first, Status.STALLED, loop)
        if not interior or _own(best) <= min(tol, FINE) or not first.machine.dual_coef.any():
            yield Look(first, best.primal, best.own_gap, m, last=True)
            return best.status
        # the last gap over all kernels, which bounds that of all parts
        known = _own(best) if m > PART else 0.0
        few = m if m <= PART else max(PART // 2, int(2.0 / weight_set.largest))
        chosen = np.argsort(-problem.quad(first.machine.dual_coef), kind="stable")[:few]
        part_tol = tol if m <= PART else max(tol, LOOSE)
        while True:
            self._part = part = _Part(session, np.sort(chosen), part_tol, loop.n_iter)
            for look in part.moves(first):
                look.gap = max(look.gap, known * abs(look.objective))
                yield look
            point, reached = self._finish(session, loop)
            known = _own(self._best)
            if _reached(self._best):
                return self._best.status
            quadratic_forms = problem.quad(point.machine.dual_coef)
            own = quadratic_forms[part.kernels]
            shares = weight_set.shares(weight_set.best(own))
            level = float((weight_set.slopes(shares)[0] * own)[shares > 0].min())
            above = weight_set.slopes(np.zeros(m))[0] * quadratic_forms > level
            above[part.kernels] = False
            if not above.any() and (part_tol <= tol or not reached):
                return Status.STALLED
            more = np.flatnonzero(above)
            more = more[np.argsort(-quadratic_forms[more], kind="stable")[: max(PART // 2, len(chosen))]]
            chosen = np.r_[chosen, more]
            part_tol = max(tol, 0.01 * part_tol)

    def _finish(self, session: Session, loop: Loop[Point]) -> tuple[Point, bool]:
        """End the present part, with the gap over all kernels."""
        assert self._part is not None
        assert self._best is not None
        part, self._part = self._part, None
        point, reached = part.end()
        found = session.result(point, Status.STALLED, loop)
        if loop.n_iter > part.before:
            # the trace has the gap over the kernels of the part
            loop.amend(_own(found))
        if _own(found) < _own(self._best):
            self._best = found
        return point, reached

    def result(self, session: Session, loop: Loop[Point], status: Status) -> Solution:
        """The best solution of a part."""
        if self._part is not None:
            self._finish(session, loop)
        assert self._best is not None
        if _reached(self._best) and status is not Status.INTERRUPTED:
            status = self._best.status
        return loop.told(self._best, status, session.n_machines)


def _own(result: Solution) -> float:
    return relative_gap(result.primal, result.own_gap)


def _reached(result: Solution) -> bool:
    return result.status in (Status.CONVERGED, Status.ROUNDING)


class _Part:
    """Some kernels of a stack on the rows with a positive cost: steps to a relative gap, and the best of them.

    `before` counts the iterations before it.
    """

    def __init__(self, session: Session, kernels: Index, tol: float, before: int) -> None:
        self.session, self.problem = session, session.problem
        self.kernels, self.tol, self.before = kernels, tol, before
        machine, weight_set = self.problem.machine, self.problem.weight_set
        assert isinstance(weight_set, ShareSet)
        self.weight_set = weight_set
        self.rows = np.flatnonzero(machine.costs > 0)
        sides = machine.loss.sides(machine.y[self.rows], machine.costs[self.rows])
        if sides is None:
            raise TypeError(f"the dual of {machine.loss} is not a quadratic program")
        self.sides = sides
        self._best: tuple[float, State, Array] | None = None

    def _spread(self, values: Array) -> Array:
        """Coefficients of all rows: zeros for those without a cost."""
        out = np.zeros(self.problem.gram.n_samples)
        out[self.rows] = values
        return out

    def _scatter(self, weights: Array) -> Array:
        """Weights of all kernels: zeros for the others."""
        out = np.zeros(self.problem.n_kernels)
        out[self.kernels] = weights
        return out

    def _products(self, values: Array) -> Array:
        """``s_m K_m b``, shape (n_kernels, n_rows)."""
        V = self.problem.products(self._spread(values), self.kernels)
        return V if len(self.rows) == V.shape[1] else V[:, self.rows]

    def _support(self, q: Array, b: Array) -> float:
        """Support function at bounds of the quadratic forms, given those of the factors."""
        residual = self.problem.residual
        return self.weight_set.support(q if residual is None else q + residual[self.kernels] * float(b @ b))

    def _first(self) -> tuple[State, Array]:
        """The best multiple of simple coefficients, equal weights, and multipliers as large as the gap there."""
        m, weight_set, sides = len(self.kernels), self.weight_set, self.sides
        cap = weight_set.largest
        a = sides.start
        b = np.sum(sides.sign * a, axis=0)
        V = self._products(b)
        top = float((V @ b).max())
        dual_term = float((sides.gain * a).sum())
        bounded = bool(np.isfinite(sides.upper).all())
        most = 0.5 / max(float((a / sides.upper).max()), np.finfo(float).tiny) if bounded else np.inf
        curvature = top + float((sides.ridge * np.square(a)).sum())
        size = min(dual_term / curvature if curvature > 0.0 and dual_term > 0.0 else most, most)
        a, b, V = size * a, size * b, size * V
        if len(a) > 1:
            # adding to both sides leaves b unchanged and moves to the middle of the box
            a = a + OFFSET * (sides.upper - a).min(axis=0)
        q = V @ b
        d = np.full(m, 1.0 / m)
        first, weights = weight_set.slopes(d)[0], weight_set.of_shares(d)
        # as large as the support function: a smaller level would be too small for the other constraints
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
        return State(a, tau, zeta, d, u, low, high, 0.0), V

    def _along(self, step: System, by: State, db: Array) -> tuple[State, Array, Array, Array, float]:
        """A direction, its change of b with products and quadratic forms, and its length inside the bounds."""
        change = self._products(db)
        curve = change @ db
        return by, db, change, curve, step.longest(by, db, curve)

    def moves(self, start: Point) -> Iterator[Look[Point]]:
        """Steps, until the gap is closed or nothing changes; they have the first point of all kernels as theirs."""
        machine, weight_set, sides = self.problem.machine, self.weight_set, self.sides
        at, V = self._first()
        for _ in range(MOST_STEPS):
            b = np.sum(sides.sign * at.a, axis=0)
            q = V @ b
            weights = weight_set.of_shares(at.d / float(at.d.sum()))
            primal = 0.5 * float(weights @ q) + sides.loss(weights @ V + at.intercept)
            gap = primal - (machine.dual_term(self._spread(b)) - 0.5 * self._support(q, b))
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
            yield Look(start, primal, gap, int(np.count_nonzero(active)), last=enough)
            if enough:
                return
            K = self.session.combine(self._scatter(weight_set.of_shares(at.d)))
            K = K.copy() if len(self.rows) == len(K) else K[np.ix_(self.rows, self.rows)]
            step = System(sides, at, K, V, q, weight_set)
            if not step.ok:
                return
            products = step.complementarity(at, step.slack)
            mean, balance = float(products.mean()), float(products.min() / products.mean())
            affine, db, change, curve, length = self._along(step, *step.direction(0.0))
            there = at.moved(affine, length)
            left = float(step.complementarity(there, step.slack_after(affine, db, curve, length)).mean())
            mu = mean * float(np.clip((left / mean) ** 3, SMALLEST_MU, LARGEST_MU))
            corrected = step.direction(mu, affine, curve, step.turn(affine, change))
            by, db, change, curve, length = self._along(step, *corrected)
            if length < SHORT:
                centring = self._along(step, *step.direction(mean))
                if centring[-1] > length:
                    by, db, change, curve, length = centring
            # pairs must stay balanced: a bound that is reached early blocks all later steps
            for _ in range(MOST_CUTS):
                products = step.complementarity(at.moved(by, length), step.slack_after(by, db, curve, length))
                if products.min() >= min(BALANCE, 0.9 * balance) * products.mean():
                    break
                length *= 0.8
            moved = at.moved(by, length)
            V = V + length * change
            b = np.sum(sides.sign * moved.a, axis=0)
            first, _ = weight_set.slopes(moved.d)
            # near the end rounding may move a point outside
            if not (length > SHORTEST and np.all(moved.tau + moved.zeta > first * (V @ b))):
                return
            at = moved

    def end(self) -> tuple[Point, bool]:
        """Weights and coefficients without entries that are only positive in the interior; whether their gap is small.

        If no such point has a gap within the tolerance, it is the one with the smallest gap.
        """
        assert self._best is not None
        _, at, q = self._best
        weight_set, sides, tol = self.weight_set, self.sides, self.tol
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
        snapped, inside = (self._spread(np.sum(sides.sign * values, axis=0)) for values in (a, at.a))
        best: tuple[float, Point] | None = None
        whole = weight_set.project(weight_set.of_shares(at.d / at.d.sum()))
        kept = _normalised(sparse, capped, cap)
        for weights in (whole,) if kept is None else (weight_set.of_shares(kept), whole):
            # coefficients of the interior are accurate enough, and others may be worse by rounding
            for b, own in ((snapped, 0.1 * tol), (snapped, LOOSE), (inside, LOOSE)):
                point = self.session.solve(self._scatter(weights), own, b)
                gap = self._rel_gap(point)
                if best is None or gap < best[0]:
                    best = (gap, point)
                if gap <= tol:
                    return point, True
        assert best is not None
        return best[1], False

    def _rel_gap(self, at: Point) -> float:
        """The relative gap if these were all kernels."""
        machine = at.machine
        q = self.problem.quad(machine.dual_coef, self.kernels)
        level = float(at.weights[self.kernels] @ q) - self.problem.left_out(at.weights, machine.dual_coef)
        outer = 0.5 * max(0.0, self.weight_set.support(q) - level)
        return relative_gap(machine.primal, machine.own_gap + outer)


def _normalised(weights: Array, capped: NDArray[np.bool_], cap: float) -> Array | None:
    """Shares that sum to 1 by a common factor of those below the cap; None if that is impossible."""
    below = float(weights[~capped].sum())
    left = 1.0 - cap * np.count_nonzero(capped)
    if not left * below > 0.0:
        return None
    out = np.where(capped, cap, weights * (left / below))
    return out if out.max() <= cap else None
