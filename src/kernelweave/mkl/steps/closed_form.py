"""The closed form: alternate the machine and the best weights for its norms ``|w_m|^2 = d_m^2 q_m``."""

from __future__ import annotations

import math

import numpy as np

from kernelweave.mkl.kernel_problem import LOOSEST, MarginStep, Point, Session, inner_tol
from kernelweave.mkl.loop import Limits, Look, Loop, Moves
from kernelweave.mkl.weight_sets import AlternatingSet, ShareSet
from kernelweave.results import Status, relative_gap

#: Rounds of the alternation within which the gap must become ten times smaller over a set of shares; else
#: Newton continues, as weights may decrease by a factor close to 1 in each round.
SLOW_ROUNDS = 50
#: Share of equal weights in a warm start: without them it may take more machines than a cold start.
EQUAL_SHARE = 0.3


class ClosedForm(MarginStep):
    """The alternation, which converges linearly.

    If weights may vanish, it is slow for kernels that are nearly active; over a set of shares Newton continues then.
    """

    fits = AlternatingSet

    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        """One machine in each round."""
        loop.limits = Limits(
            slow=SLOW_ROUNDS if isinstance(session.problem.weight_set, ShareSet) else math.inf
        )
        problem = session.problem
        weight_set = problem.weight_set
        assert isinstance(weight_set, AlternatingSet)
        weights = session.start()
        b = session.warm.dual_coef
        inner = LOOSEST
        first = True
        while True:
            at = session.solve(weights, inner, b)
            machine = at.machine
            b = machine.dual_coef
            q = problem.quad(b)
            outer = 0.5 * max(0.0, weight_set.support(q) - float(weights @ q))
            gap = machine.own_gap + outer
            arrived = Status.CONVERGED if gap <= problem.allowed_gap(at, session.tol) else None
            yield Look(at, machine.primal, gap, at.n_active, arrived)
            inner = inner_tol(outer / abs(machine.primal), session.tol)
            if machine.own_gap > outer:
                # the remaining gap is that of the machine, and if it cannot improve, further rounds do not help
                if machine.status in (Status.STALLED, Status.ROUNDING):
                    return machine.status
                inner = min(inner, 0.1 * relative_gap(machine.primal, machine.own_gap))
            if first and session.warm.weights is not None and (weight_set.sparse or not weights.all()):
                # a weight of zero, from a warm start, would always stay zero, and a tiny one nearly so
                weights = (1.0 - EQUAL_SHARE) * weights + EQUAL_SHARE * weight_set.start(problem.n_kernels)
            first = False
            weights = weight_set.fixed_point(weights * np.sqrt(np.maximum(q, 0.0)))
