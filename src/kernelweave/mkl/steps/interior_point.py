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

from kernelweave.mkl.kernel_problem import KernelProblem, MarginStep, Point, Session
from kernelweave.mkl.loop import Look, Loop, Moves
from kernelweave.mkl.steps.interior_part import LOOSE, Part, first_point, set_of, without_interior
from kernelweave.mkl.steps.interior_system import MOST_CUTS, State, System
from kernelweave.mkl.weight_sets import ShareSet
from kernelweave.results import Solution, Status, relative_gap

Array = NDArray[np.float64]

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


def has_interior(problem: KernelProblem) -> bool:
    """Whether the set of weights is more than a point, and the dual of the machine a quadratic program."""
    weight_set = problem.weight_set
    fits = isinstance(weight_set, ShareSet) and weight_set.has_interior(problem.n_kernels)
    return fits and problem.machine.loss.quadratic and problem.machine.fit_intercept


@dataclass
class InteriorPoint(MarginStep):
    """Predictor-corrector steps from the middle of the box, on a growing part of the kernels if they are many.

    A part starts with the kernels of the largest quadratic forms, and grows by those that exceed the level of its
    solution. The weights of a warm start are not used.
    """

    fits = ShareSet
    _best: Solution | None = None
    _trying: _Trying | None = None

    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        """Points inside the set; those at the ends of parts have weights of zero."""
        problem, tol = session.problem, session.tol
        weight_set = set_of(problem)
        m = problem.n_kernels
        equal = weight_set.start(m)
        interior = has_interior(problem)
        # also checks the labels and weights of rows
        first = session.solve(equal, LOOSE if interior else tol, session.warm.dual_coef)
        self._best = best = session.result(first, Status.STALLED, loop)
        if not interior or _own(best) <= min(tol, FINE) or not first.machine.dual_coef.any():
            yield Look(first, best.primal, best.own_gap, m, last=True)
            return best.status
        # the last gap over all kernels, which bounds that of all parts
        known = _own(best) if m > PART else 0.0
        rows = np.flatnonzero(problem.machine.costs > 0)
        few = m if m <= PART else max(PART // 2, int(2.0 / weight_set.largest))
        chosen = np.argsort(-problem.quad(first.machine.dual_coef), kind="stable")[:few]
        part_tol = tol if m <= PART else max(tol, LOOSE)
        while True:
            part = Part(session, rows, np.sort(chosen))
            self._trying = trying = _Trying(part, part_tol, first, loop.n_iter)
            for look in trying.moves():
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
        assert self._trying is not None
        assert self._best is not None
        trying, self._trying = self._trying, None
        point, reached = trying.end()
        found = session.result(point, Status.STALLED, loop)
        if loop.n_iter > trying.before:
            # the trace has the gap over the kernels of the part
            loop.amend(_own(found))
        if _own(found) < _own(self._best):
            self._best = found
        return point, reached

    def result(self, session: Session, loop: Loop[Point], status: Status) -> Solution:
        """The best solution of a part."""
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

    part: Part
    tol: float
    start: Point
    before: int
    _best: tuple[float, State, Array] | None = None

    def moves(self) -> Iterator[Look[Point]]:
        """Steps, until the gap is closed or nothing changes."""
        part, machine = self.part, self.part.problem.machine
        weight_set = part.weight_set
        sides = self.part.sides
        at, V = first_point(part, sides)
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
            step = System(sides, at, part.kernel(weight_set.of_shares(at.d)), V, q, weight_set)
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
        """The best point with weights of zero, and whether its gap is within the tolerance."""
        assert self._best is not None
        return without_interior(self.part, self._best[1], self._best[2], self.part.sides, self.tol)
