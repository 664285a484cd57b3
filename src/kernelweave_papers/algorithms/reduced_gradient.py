"""The reduced gradient of SimpleMKL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave.mkl.kernel_problem import FINEST, MarginStep, Point, Session, inner_tol
from kernelweave.mkl.loop import Limits, Look, Loop, Moves
from kernelweave.mkl.weight_sets import Simplex
from kernelweave.results import Status, relative_gap

Array = NDArray[np.float64]

#: The line search ends at this share of the first derivative, or after this many machines.
FLAT_ENOUGH, TRIALS = 0.3, 12
#: Share of the gap for the tolerance of machines, because derivatives need more accuracy than the gap.
SEARCH_SHARE = 0.03
#: Line searches without a smaller gap after which rounding decides; on kernels of usual scales there were up to 52.
UNBEATEN = 120
#: Weights below this are set to zero, as in the SimpleMKL toolbox.
NEGLIGIBLE = 1e-8


@dataclass(frozen=True)
class _Trial(Point):
    """Weights with the machine solved at them and the quadratic forms of its coefficients.

    Attributes
    ----------
    q : array of shape (n_kernels,)
    """

    q: Array

    def slope(self, D: Array) -> float:
        """The derivative of J along a direction."""
        return -0.5 * float(D @ self.q)

    def above(self, other: _Trial) -> bool:
        """Whether J is certainly larger here than at another point."""
        here, level = self.machine, other.machine.primal
        return here.primal - here.own_gap > level + 1e-14 * abs(level)


@dataclass
class _Search:
    """Warm-started machines, solved as accurately as the search needs."""

    session: Session
    b: Array | None
    inner: float

    def __call__(self, weights: Array) -> _Trial:
        at = self.session.solve(weights, self.inner, self.b)
        self.b = at.machine.dual_coef
        return _Trial(weights, at.machine, self.session.problem.quad(self.b))


class ReducedGradient(MarginStep):
    """Descend along the largest feasible steps, then search between the last two.

    Directions and steps are those of the paper. Its line search compares values (golden section); here it uses the
    sign of the derivative, which follows from the coefficients of a machine, and ends at a share of the first
    derivative. Machines are solved to the square of the remaining gap instead of to a fixed tolerance.
    """

    fits = Simplex

    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        """Points at the ends of line searches."""
        loop.limits = Limits(unbeaten=UNBEATEN)
        problem = session.problem
        weights = session.start()
        # negligible weights would end every step at once
        weights = np.where(weights < NEGLIGIBLE, 0.0, weights)
        weights /= weights.sum()
        look = _Search(session, session.warm.dual_coef, 0.1 * session.tol)
        at = look(weights)
        finest = 1.0
        while True:
            primal = at.machine.primal
            outer = 0.5 * max(0.0, float(at.q.max()) - float(at.weights @ at.q))
            own = at.machine.own_gap + outer
            arrived = Status.CONVERGED if own <= problem.allowed_gap(at, session.tol) else None
            yield Look(at, primal, own, at.n_active, arrived)
            if at.machine.own_gap > outer:
                # the remaining gap is that of the machine
                finest = min(finest, max(0.1 * relative_gap(primal, at.machine.own_gap), FINEST))
            look.inner = min(inner_tol(SEARCH_SHARE * relative_gap(primal, outer), session.tol), finest)
            moved = _step(at, look)
            while moved is None and look.inner > FINEST:
                # near the optimum the objective is flat, and a line search is limited by the accuracy of the machines
                finest = look.inner = max(1e-3 * look.inner, FINEST)
                at = look(at.weights)
                moved = _step(at, look)
            if moved is None:
                return Status.STALLED
            at = moved


def _step(at: _Trial, look: _Search) -> _Trial | None:
    gradient = -0.5 * at.q
    size = float(np.linalg.norm(gradient))
    if size == 0.0:
        # coefficients of zero: no kernel contributes
        return None
    gradient = gradient / size
    base = int(np.argmax(at.weights))
    reduced = gradient - gradient[base]
    D = np.where((at.weights > 0) | (reduced < 0), -reduced, 0.0)
    D[base] = 0.0
    D[base] = -float(D.sum())
    point = at
    there: _Trial | None = None
    length = 0.0
    while (falling := D < 0).any():
        ratio = np.full(len(D), np.inf)
        ratio[falling] = -point.weights[falling] / D[falling]
        blocking = int(np.argmin(ratio))
        length = float(ratio[blocking])
        ahead = np.maximum(point.weights + length * D, 0.0)
        ahead[blocking] = 0.0
        there = look(ahead / ahead.sum())
        if there.machine.primal >= point.machine.primal:
            break
        point, there = there, None
        # the blocked weight stays at zero, and the direction is made to sum to zero again
        D[blocking] = 0.0
        base = int(np.argmax(point.weights))
        D[base] = 0.0
        D[base] = -float(D.sum())
    if there is not None:
        point = _between(point, there, D, length, look) or point
    if point is at:
        return None
    weights = np.where(point.weights < NEGLIGIBLE, 0.0, point.weights)
    return point if np.array_equal(weights, point.weights) else look(weights / weights.sum())


def _between(start: _Trial, end: _Trial, D: Array, length: float, look: _Search) -> _Trial | None:
    """The line search, by the sign of the derivative; None if no point between the two is lower.

    J is convex: while its derivative is negative, it is lower than at the start, even if values differ by less than
    the gaps of the machines.
    """
    first = left = start.slope(D)
    right = end.slope(D)
    if not first < 0.0:
        return None
    if right <= 0.0 and not end.above(start):
        return end
    low, high = 0.0, length
    best = None
    for trial in range(TRIALS):
        # regula falsi alternating with the middle, or closer to the start until a lower value is found
        step = low + (high - low) * left / (left - right) if right > 0.0 else 0.5 * (low + high)
        if trial % 3 == 2:
            step = 0.5 * (low + high) if low > 0.0 else 0.1 * high
        d = np.maximum(start.weights + step * D, 0.0)
        there = look(d / d.sum())
        slope, above = there.slope(D), there.above(start)
        if abs(slope) <= FLAT_ENOUGH * abs(first) and not above:
            return there
        if slope < 0.0 and not above:
            low, left, best = step, slope, there
        else:
            high, right = step, slope
    return best
