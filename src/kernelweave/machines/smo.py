"""Box problems solved to a certified gap.

Two methods alternate. SMO determines the free coefficients; Newton steps on the free set
(`kernelweave.machines.polish`) give accuracy. SMO alone needs a number of steps that grows with the condition of the
free block, Newton alone needs to know the free set.

References
----------
R.-E. Fan, P.-H. Chen, C.-J. Lin, Working set selection using second order information for training support vector
machines, Journal of Machine Learning Research 6 (2005), 1889-1918: the choice of pairs ("WSS 2") and shrinking.
"""

from __future__ import annotations

import math
from operator import attrgetter

import numpy as np

from kernelweave._allowance import LEFT, used_up
from kernelweave._checks import NotPSDError
from kernelweave._loops import HAS_EXTENSION, core
from kernelweave._types import Array
from kernelweave.machines.box import (
    INDEFINITE,
    BoxProblem,
    Point,
    Trained,
    Values,
    kernel_product,
)
from kernelweave.machines.polish import polish
from kernelweave.results import REACHED, Status

#: Curvatures below minus this share of the diagonal exceed rounding errors, even of float32 kernels.
NEGATIVE = 1e-6
#: Entries of K read in one call of the compiled loop; Ctrl-C is handled between calls, within about a second.
CHUNK = 4e8
#: Rounds before C is approached from below, and rounds for each value of C on the way.
FIRST_ROUNDS, STAGE_ROUNDS = 3, 2
#: Factor between intermediate values of C, the smallest share of C to begin with, and the gap at these values.
RAISE, SMALLEST, STAGE_TOL = 3.0, 1e-12, 1e-4
#: Rounding errors below this share of the gap are not computed again.
SMALL_SHARE = 0.1
#: How compiled rounds may end: within the tolerance, at a pair of negative curvature, or before steps with LAPACK.
MET, INDEFINITE_PAIR, UNPOLISHED = 1, 2, 3
#: Rounds without progress after which rounding errors are assumed to limit the gap.
PATIENCE = 4


class Run:
    """SMO and Newton alternately on one problem, until the gap is small, the steps are used up, or nothing changes.

    The first rounds, `most` of them or less, are compiled where they are short.

    Parameters
    ----------
    problem : BoxProblem
        Its value and gap decide.
    tol : float
        Relative gap.
    max_iter : int or None
        Largest number of SMO steps; None: ``10^6 + 100 n``.
    start : array of shape (n,)
        Coefficients; feasible, unless they must sum to zero.
    most : int, optional
        Default: a few, but none where a limit of seconds is asked after every round.

    Raises
    ------
    NotPSDError
        Negative curvature was found.
    """

    #: A round that has no Newton steps yet: whether SMO reached `eps`, and what the compiled steps came to.
    pending: tuple[bool, tuple[int, bool] | None] | None = None
    met = False

    def __init__(
        self, problem: BoxProblem, tol: float, max_iter: int | None, start: Array, most: int | None = None
    ) -> None:
        self.problem, self.tol = problem, tol
        self.limit = limit = 1_000_000 + 100 * len(start) if max_iter is None else max_iter
        if most is None:
            most = FIRST_ROUNDS if LEFT.get().end == np.inf else 0
        # balls have values of their own
        if HAS_EXTENSION and problem.total == 0.0:
            rows = np.empty((6, len(start)))
            own = problem.entry_error, tol, limit, most, start, rows
            ended, (reached, *tried), spent, look, state = core.box_rounds(*problem.box, problem.K, *own)
            if ended == INDEFINITE_PAIR:
                raise NotPSDError(INDEFINITE)
            if ended == UNPOLISHED:
                # nothing was tried where numbers were not finite
                self.pending = reached, tuple(tried) if any(tried) else None
            (self.warm, self.several, self.turns, self.steps, self.systems, self.idle) = state[:6]
            self.budget, self.work, self.eps, self.resolution, self.value = state[6:]
            self.best, (self.b, self.g) = Point(*rows[:4], *look), rows[4:]
            self.met = ended == MET
            LEFT.get().work -= spent
            return
        self.turns = self.steps = self.systems = self.idle = 0
        self.work = 0.0
        self.budget = max(5 * len(start), 1000)
        self.best = self.move_to(start)
        self.warm = bool(self.b.any())
        self.several = bool(np.count_nonzero(self.b) > 1)  # counts as a round

    def move_to(self, start: Array) -> Point:
        """Continue from other coefficients, or the best multiple of them."""
        here = self.problem.look(start, before=True)
        self.b, self.g, self.eps = here.b.copy(), here.g.copy(), 0.0
        self.resolution, self.value = here.resolution, here.value
        return here

    def solution(self) -> tuple[Trained, Array]:
        """Solve until ``gap <= tol * |primal|``: the machine, and the product of its coefficients with the kernel."""
        problem, tol, again = self.problem, self.tol, False
        # a warm start gets more rounds, because the next method discards it
        if not (self.met or self.rounds(FIRST_ROUNDS + 3 * self.warm - self.turns)):
            if problem.total == 0.0 and self.steps < self.limit:
                _raise_costs(self)
            self.rounds()
        while True:
            best = self.best
            # no views of the rows of a run
            b, product = best.b.copy(), best.product.copy()
            at = Values(best.primal, best.gap, best.intercept)
            if float(b @ product) < -NEGATIVE * float(problem.K.diagonal() @ np.square(b)):
                raise NotPSDError(INDEFINITE)
            rounding, allowed = best.rounding, tol * abs(at.primal)
            # extended precision is of no use for a sum of kernels in double precision
            if at.gap + rounding > allowed and rounding > SMALL_SHARE * at.gap and problem.entry_error == 0.0:
                longer, error = kernel_product(problem.K, b, long=True)
                there = problem.values(b, longer)
                left = problem.rounding(b, longer, there, error)
                if there.gap + left < at.gap + rounding:
                    product, at, rounding, allowed = longer, there, left, tol * abs(there.primal)
            ended = Status.STALLED
            if at.gap > allowed:
                ended = Status.MAX_ITER if self.steps >= self.limit else REACHED[used_up()] or ended
            if again or not at.gap <= allowed < at.gap + rounding or not rounding < allowed:
                break
            # another try, if rounding leaves a part of the tolerance
            again, self.tol, self.idle = True, 0.5 * (allowed - rounding) / abs(at.primal), 0
            self.rounds()
        # no tolerance is a share of infinity
        gap = at.gap if math.isfinite(at.primal) else math.inf
        found = b, at.intercept, at.primal, gap, rounding, ended, tol, self.steps + self.systems
        return Trained(*found, best.infeasibility), product

    def rounds(self, most: float = np.inf) -> bool:
        """Run at most that many rounds of SMO and Newton; returns whether the tolerance is met."""
        problem, count, tried = self.problem, 0, None
        while self.pending or not self.best.gap <= self.tol * abs(self.best.primal):
            before = self.best.gap
            if self.pending:
                (reached, tried), self.pending = self.pending, None
            else:
                if (
                    count == most
                    or self.steps >= self.limit
                    or self.idle >= PATIENCE
                    or (count and used_up())
                ):
                    return False
                count += 1
                self.turns += 1
                reached, tried = self._smo(min(self.budget, self.limit - self.steps)), None
            here, systems = problem.look(self.b), 0
            # the free set after a first coarse round is rarely the final one
            near = not reached or (self.turns + self.several > 1 and here.gap <= 1e-2 * abs(here.primal))
            if near and not here.gap <= self.tol * abs(here.primal) and self.steps < self.limit:
                b, systems, _ = polish(problem, self.b, self.g, self.work, tried)
                if systems:
                    self.systems, self.work = self.systems + systems, 0.0
                    there = problem.look(b)
                    if there.gap < here.gap:
                        self.b, self.g, here = there.b.copy(), there.g.copy(), there
            LEFT.get().work -= 1.0 + systems
            # not a number at first if it is never one
            if here.gap < self.best.gap or not self.best.gap < np.inf:
                self.best = here
            falling = here.value < self.value - 1e-9 * abs(self.value)
            # strictly less, so that infinite gaps, and those of 0 beside values that are not numbers, are no progress
            self.idle = 0 if falling or self.best.gap < 0.9 * before else self.idle + 1
            self.resolution, self.value = here.resolution, here.value
            if reached:
                share = self.tol * abs(self.best.primal) / self.best.gap if self.best.gap > 0 else 1.0
                self.eps *= min(max(0.3 * share, 1e-2), 0.3)
            else:
                self.budget *= 2
        return True

    def _smo(self, budget: int) -> bool:
        """SMO in chunks; returns whether the violation fell to `eps`, of which a first value is found here."""
        problem, total = self.problem, 0
        size = max(int(CHUNK / len(self.b)), 100)
        own = problem.K, *problem.box[1:], self.b, self.g
        if self.eps == 0.0:
            self.eps = max(1e-2 * core.box_smo(*own, 1.0, 0, False)[1], 1e-300)
        self.eps = max(self.eps, self.resolution)
        while True:
            chunk = min(size, budget - total)
            steps, violation, curvature = core.box_smo(*own, self.eps, chunk, True)
            total += steps
            if curvature < -NEGATIVE:
                raise NotPSDError(INDEFINITE)
            if violation <= self.eps or steps < chunk or total >= budget or used_up():
                break
        self.steps += total
        self.work += float(total * len(self.b))
        return bool(violation <= self.eps)


def _raise_costs(run: Run) -> None:
    """Raise C to its value in steps, each solved from the previous one, and continue with `run`.

    With little regularisation relative to the kernel SMO is slow, and the active set method starts too far away. But
    the solution for C / `RAISE`, multiplied, has nearly the free set of the solution for C.
    """

    def stage(start: Array | None) -> tuple[Array, bool]:
        scaled = run.problem.scaled(factor)
        begin = np.zeros_like(run.b) if start is None else np.clip(start, scaled.box.lower, scaled.box.upper)
        own = Run(scaled, STAGE_TOL, run.limit, begin, STAGE_ROUNDS)
        good = own.rounds(STAGE_ROUNDS - own.turns)
        run.steps += own.steps
        run.systems += own.systems
        return own.best.b, good

    factor, found, b = 1.0, False, run.b
    while not found and factor > SMALLEST and not used_up():
        # the first C is the one with which rows leave their bounds
        factor /= RAISE**2
        b, found = stage(None)
    if not found:
        return
    while factor * RAISE < 1.0 and not used_up():
        factor *= RAISE
        b, _ = stage(b)
    run.best = min(run.move_to(b), run.best, key=attrgetter("gap"))
