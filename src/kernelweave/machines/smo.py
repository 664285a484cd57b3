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

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kernelweave._allowance import spend, used_up
from kernelweave._checks import NotPSDError
from kernelweave._loops import core
from kernelweave.machines.box import BoxProblem, derivatives, rescale, resolution, snap
from kernelweave.machines.polish import polish
from kernelweave.results import Certificate, Status, limit_reached

Array = NDArray[np.float64]

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
#: Rounds without progress after which rounding errors are assumed to limit the gap.
PATIENCE = 4


@dataclass(frozen=True)
class Values:
    """Values of a machine at coefficients.

    Attributes
    ----------
    primal, gap : float
        The dual value is ``primal - gap``. The gap is summed from one nonnegative term for each sample: the
        difference of the two values would lose the digits that a small tolerance needs.
    intercept : float
    """

    primal: float
    gap: float
    intercept: float


class Certify(Protocol):
    """Certificates of a machine for its coefficients."""

    def __call__(self, b: Array, product: Array, factor: float) -> Values:
        """The values of b, with ``product = K b``, of the problem whose C is multiplied by the factor."""

    def rounding(self, b: Array, product: Array, at: Values, error: Array) -> float:
        """Bound of the rounding errors of a certificate, given that of the product."""


@dataclass(frozen=True)
class Outcome:
    """Coefficients, ``K b``, intercept, certificate, and SMO steps plus Newton systems."""

    b: Array
    product: Array
    intercept: float
    certificate: Certificate
    n_iter: int


def solve_box(
    problem: BoxProblem, certify: Certify, *, tol: float, max_iter: int | None, start: Array
) -> Outcome:
    """Solve until ``gap <= tol * |primal|``.

    Parameters
    ----------
    problem : BoxProblem
    certify : callable
    tol : float
        Relative gap.
    max_iter : int or None
        Largest number of SMO steps; None: ``10^6 + 100 n``.
    start : array of shape (n,)
        Feasible.

    Raises
    ------
    NotPSDError
        Negative curvature was found.
    """
    n = len(start)
    limit = 1_000_000 + 100 * n if max_iter is None else max_iter
    run = _Run(problem, certify, tol, limit, 1.0, start)
    # a warm start gets more rounds, because the next method discards it
    first = FIRST_ROUNDS + 3 if start.any() else FIRST_ROUNDS
    if not run.rounds(first) and problem.total == 0.0 and run.steps < limit:
        _continue(run)
    run.rounds(None)
    found = _finish(run, tol)
    left = tol * abs(found.certificate.primal) - found.certificate.rounding
    if found.certificate.status is Status.ROUNDING and left > 0.0:
        # another try, if rounding leaves a part of the tolerance
        run.tol, run.idle = 0.5 * left / abs(found.certificate.primal), 0
        run.rounds(None)
        found = _finish(run, tol)
    return found


def _finish(run: _Run, tol: float) -> Outcome:
    """Certify the best coefficients, with the rounding errors of the certificate."""
    problem, b = run.problem, snap(run.problem, run.best_b)

    def certified(*, long: bool) -> tuple[Array, Values, float]:
        product, error = problem.product(b, long=long)
        final = run.certify(b, product, 1.0)
        return product, final, run.certify.rounding(b, product, final, error)

    product, final, rounding = certified(long=False)
    if float(b @ product) < -NEGATIVE * float(np.diag(problem.K) @ np.square(b)):
        raise NotPSDError(_indefinite())
    allowed = tol * abs(final.primal)
    own = final.gap
    # extended precision is of no use for a sum of kernels in double precision
    if own + rounding > allowed and rounding > SMALL_SHARE * own and problem.entry_error == 0.0:
        longer = certified(long=True)
        if longer[1].gap + longer[2] < own + rounding:
            product, final, rounding = longer
    # the limit of steps does not matter if the gap is small enough
    ended = limit_reached() or Status.STALLED
    if run.steps >= run.limit and final.gap > allowed:
        ended = Status.MAX_ITER
    certificate = Certificate.of("machine", final.primal, final.gap, rounding, ended, tol=tol)
    return Outcome(b, product, final.intercept, certificate, run.steps + run.systems)


class _Run:
    """SMO and Newton alternately on one problem, until the gap is small, the steps are used up, or nothing changes."""

    def __init__(
        self, problem: BoxProblem, certify: Certify, tol: float, limit: int, factor: float, start: Array
    ) -> None:
        self.problem, self.certify, self.tol, self.limit, self.factor = problem, certify, tol, limit, factor
        self.steps = self.systems = self.idle = 0
        self.count = int(np.count_nonzero(start) > 1)  # a given start counts as a round
        self.work = 0.0
        self.budget = max(5 * len(start), 1000)
        self.best_b, self.best = start, Values(np.inf, np.inf, 0.0)
        self.move_to(start)

    def move_to(self, start: Array) -> None:
        """Continue from other feasible coefficients, or the best multiple of them."""
        self.b, self.g = start.copy(), self.problem.gradient(start)
        if start.any():
            self.b, self.g = rescale(self.problem, self.b, self.g)
        up, down = derivatives(self.problem, self.b, self.g)
        self.eps = max(1e-2 * float(down.max() - up.min()), 1e-300)
        self.value = self.objective()
        self.keep(self.judge())

    def objective(self) -> float:
        """The objective of the box problem."""
        half = 0.5 * float(self.b @ (self.g + self.problem.linear))
        return half + self.problem.kink * float(np.abs(self.b).sum())

    def judge(self) -> Values:
        """The values of the current point."""
        product = self.g - self.problem.linear - self.problem.ridge * self.b
        return self.certify(self.b, product, self.factor)

    def good(self, c: Values) -> bool:
        """Whether a point meets the tolerance."""
        return c.gap <= self.tol * abs(c.primal)

    def keep(self, here: Values) -> None:
        """Store the current point if it has the smallest gap."""
        if here.gap < self.best.gap:
            self.best_b, self.best = self.b.copy(), here

    def rounds(self, most: int | None) -> bool:
        """Run at most that many rounds; returns whether the tolerance is met."""
        count = 0
        while not self.good(self.best) and self.steps < self.limit and self.idle < PATIENCE:
            if most is not None and count == most:
                break
            count += 1
            self.one()
            spend(1.0)
            if used_up():
                break
        return self.good(self.best)

    def one(self) -> None:
        """One round: SMO, then Newton."""
        before = self.best.gap
        self.count += 1
        self.eps = max(self.eps, resolution(self.problem, self.b))
        done, reached = _run(
            self.problem, self.b, self.g, self.eps, min(self.budget, self.limit - self.steps)
        )
        self.steps += done
        self.work += float(done * len(self.b))
        here = self.judge()
        if self.good(here):
            # the gradient was updated step by step; the certificate recomputes it
            self.g = self.problem.gradient(self.b)
            here = self.judge()
        # the free set after a first coarse round is rarely the final one
        near = not reached or (self.count > 1 and here.gap <= 1e-2 * abs(here.primal))
        if near and not self.good(here) and self.steps < self.limit:
            found = polish(self.problem, self.b, self.g, self.work)
            self.systems += found.systems
            if found.negative:
                raise NotPSDError(_indefinite())
            if found.systems:
                self.work = 0.0
                old = self.b, self.g
                self.b, self.g = found.b.copy(), found.g.copy()
                there = self.judge()
                if there.gap < here.gap:
                    here = there
                else:
                    self.b, self.g = old
        self.keep(here)
        value = self.objective()
        falling = value < self.value - 1e-9 * abs(self.value)
        self.idle = 0 if falling or self.best.gap <= 0.9 * before else self.idle + 1
        self.value = value
        if reached:
            share = self.tol * abs(self.best.primal) / self.best.gap if self.best.gap > 0 else 1.0
            self.eps *= min(max(0.3 * share, 1e-2), 0.3)
        else:
            self.budget *= 2


def _continue(run: _Run) -> None:
    """Raise C to its value in steps, each solved from the previous one, and continue with `run`.

    With little regularisation relative to the kernel SMO is slow, and the active set method starts too far away. But
    the solution for C / `RAISE`, multiplied, has nearly the free set of the solution for C.
    """
    factor = 1.0
    b = None
    while factor > SMALLEST and not used_up():
        # the first C is the one with which rows leave their bounds
        factor /= RAISE**2
        stage = _Run(run.problem.scaled(factor), run.certify, STAGE_TOL, run.limit, factor, 0.0 * run.b)
        found = stage.rounds(STAGE_ROUNDS)
        run.steps += stage.steps
        run.systems += stage.systems
        if found:
            b = stage.best_b
            break
    if b is None:
        return
    while factor < 1.0 and not used_up():
        factor = min(1.0, factor * RAISE)
        if factor == 1.0:
            break
        scaled = run.problem.scaled(factor)
        stage = _Run(
            scaled, run.certify, STAGE_TOL, run.limit, factor, np.clip(b, scaled.lower, scaled.upper)
        )
        stage.rounds(STAGE_ROUNDS)
        run.steps += stage.steps
        run.systems += stage.systems
        b = stage.best_b
    if b is not None:
        run.move_to(b)


def _run(problem: BoxProblem, b: Array, g: Array, eps: float, budget: int) -> tuple[int, bool]:
    """SMO in chunks; b and g are changed. Returns the steps, and whether the violation fell to eps."""
    total = 0
    size = max(int(CHUNK / len(b)), 100)
    while True:
        chunk = min(size, budget - total)
        steps, violation, curvature = core.box_smo(
            problem.K, problem.ridge, problem.lower, problem.upper, problem.kink, b, g, eps, chunk, True
        )
        total += steps
        if curvature < -NEGATIVE:
            raise NotPSDError(_indefinite())
        if violation <= eps or steps < chunk or total >= budget or used_up():
            return total, violation <= eps


def _indefinite() -> str:
    return (
        "`K` must be positive semidefinite, got a matrix with a direction of negative curvature. Use another "
        "kernel, repair the matrices with kernelweave.repair_gram, or pass on_indefinite='clip' (drop negative "
        "eigenvalues) or 'shift' (add a multiple of the identity) to solvers of a single kernel."
    )
