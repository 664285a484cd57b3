"""The loop of all iterative solvers of kernel weights: steps change the weights, and the loop does all else.

A step is a generator: it yields one iteration at a time, and its local variables are its state. The loop writes the
trace, stores the best point, counts iterations without progress, calls the callback, and sets the status.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._allowance import LEFT, limited, used_up
from kernelweave.results import REACHED, Solution, Status, relative_gap

P = TypeVar("P")
#: Called after every iteration with (iteration, objective, measure of the remaining error); a true value stops.
Callback = Callable[[int, float, float], object]
#: Statuses after which no other step continues.
ENDED = (Status.CONVERGED, Status.ROUNDING, Status.INTERRUPTED)
#: Rounds and systems of all machines of one solution, and more of them for each row and kernel.
WORK, WORK_EACH = 4000.0, 20.0


def most_work(n_samples: int, n_kernels: int) -> float:
    """The limit of work of a solution, which only problems reach whose machines are limited by rounding."""
    return WORK + WORK_EACH * (n_samples + n_kernels)


@dataclass(slots=True, eq=False)
class Look(Generic[P]):
    """The result of one iteration.

    Attributes
    ----------
    point : object
        The result if this is the last iteration.
    objective, gap : float
        The gap may be any measure of the remaining error, in units of the objective; the point with the smallest is
        the best.
    n_active : int
        Kernels with a weight.
    status : Status or None
        Set by a step that has converged or can make no progress.
    last : bool
        The step ends by itself, so the callback is not called.
    counts : bool
        False for the starting point of a step: it is in the trace, but does not count as an iteration.
    anew : bool
        Gaps of earlier iterations are not comparable with this one, which becomes the best.
    left : float or None
        The remaining error for the trace and the callback; None for the gap as a share of the objective.
    more : mapping
        Further entries of the trace.
    """

    point: P
    objective: float
    gap: float
    n_active: int = 0
    status: Status | None = None
    last: bool = False
    counts: bool = True
    anew: bool = False
    left: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


#: Yields a `Look` for every iteration, or None for a rejected one, and returns the final status.
Moves = Generator[Look[P] | None, None, Status]


@dataclass(frozen=True, eq=False)
class Limits:
    """Stopping rules of a step, and its definition of progress.

    Attributes
    ----------
    most : float
        Iterations.
    idle : float
        Iterations without progress.
    unbeaten : float
        Iterations since the best point.
    slow : float
        Iterations that must make the gap ten times smaller; else the step is stopped.
    smaller, lower : float
        Progress is a gap below this multiple of the best one, or an objective that is lower than all before by more
        than this share.
    moved : float or None
        Instead, an objective that differs from the last one by more than this share.
    names : tuple of str
        Names in the trace of the objective, the remaining error, and the number of kernels with a weight; "" omits one.
    repeats : bool
        Whether the trace repeats its last row for a rejected iteration.
    keeps : bool
        Whether Ctrl-C ends the step with its present result.
    """

    most: float = math.inf
    idle: float = math.inf
    unbeaten: float = math.inf
    slow: float = math.inf
    smaller: float = 0.9
    lower: float = 1e-10
    moved: float | None = None
    names: tuple[str, str, str] = ("objective", "rel_gap", "n_active")
    repeats: bool = True
    keeps: bool = False


NO_LIMITS = Limits()


@dataclass(eq=False)
class Loop(Generic[P]):
    """Iterations: their trace, the best point, and when to stop.

    Attributes
    ----------
    max_iter : int
        Limit of all steps together.
    callback : callable or None
    best, here : Look or None
        The best and the last one of the present step.
    idle : int
        Iterations without progress.
    trace : dict of str to list
    limits : Limits
        Those of the present step.
    """

    max_iter: int
    callback: Callback | None = None
    best: Look[P] | None = None
    here: Look[P] | None = None
    idle: int = 0
    n_iter: int = 0
    trace: dict[str, list[Any]] = field(default_factory=dict)
    limits: Limits = NO_LIMITS

    def run(self, moves: Moves[P], limits: Limits = NO_LIMITS) -> Status:
        """Run one step, which may set its own limits, and return its status."""
        callback, trace, before = self.callback, self.trace, self.n_iter
        self.limits = limits
        best: Look[P] | None = None
        self.best = self.here = None
        self.idle = beaten = 0
        lowest = smallest = math.inf
        floor: list[float] = []  # the smallest remaining error, after every iteration
        while self.n_iter < min(self.max_iter, before + self.limits.most):
            try:
                look = next(moves)
            except StopIteration as end:
                return end.value
            limits = self.limits
            if look is None:
                self.n_iter += 1
                floor.append(smallest)
                if limits.repeats:
                    for values in trace.values():
                        values.append(values[-1])
                if (limited := REACHED[used_up()]) is not None:
                    return limited
                continue
            if look.counts:
                self.n_iter += 1
            value, gap = look.objective, look.gap
            left = look.left
            if left is None:
                left = gap / abs(value) if value else relative_gap(value, gap)
            entries = zip(limits.names, (value, left, float(look.n_active)), strict=True)
            for name, entry in (*entries, *look.more.items()):
                # entries without a name are not stored
                if name:
                    trace.setdefault(name, []).append(entry)
            if best is None or look.anew:
                progress = True
            elif limits.moved is None:
                progress = gap < limits.smaller * best.gap or value < lowest - limits.lower * abs(lowest)
            else:
                progress = self.here is None or abs(self.here.objective - value) > limits.moved * abs(value)
            self.idle = 0 if progress else self.idle + 1
            if best is None or look.anew or gap < best.gap:
                self.best = best = look
                beaten = self.n_iter
            self.here = look
            if value < lowest:
                lowest = value
            if left < smallest:
                smallest = left
            floor.append(smallest)
            if look.status is not None:
                return look.status
            if callback is not None and look.counts and not look.last and callback(self.n_iter, value, left):
                return Status.INTERRUPTED
            if (limited := REACHED[used_up()]) is not None:
                return limited
            late = len(floor) > limits.slow and smallest > 0.1 * floor[-1 - int(limits.slow)]
            if late or self.idle > limits.idle or self.n_iter - beaten >= limits.unbeaten:
                return Status.STALLED
        return Status.MAX_ITER

    def amend(self, left: float) -> None:
        """Replace the last iteration's remaining error, if a step has a better value."""
        self.trace["rel_gap"][-1] = left

    def told(self, found: Solution, status: Status, n_machines: int) -> Solution:
        """An earlier solution with the status and the iterations until now."""
        return replace(found.ended(status), n_iter=self.n_iter, n_machines=n_machines, trace=self.arrays())

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """The trace as arrays, for a solution."""
        return dict(zip(self.trace, map(np.asarray, self.trace.values()), strict=True))


class SessionOf(ABC, Generic[P]):
    """A problem during its solution: counts, the start, and how to make the result.

    Attributes
    ----------
    n_machines : int
        Number of machines solved, if they are counted.
    """

    n_machines: int = 0

    @abstractmethod
    def result(self, at: P, status: Status, loop: Loop[P]) -> Solution:
        """The solution at a point."""

    def begin_at(self, found: Solution) -> None:
        """Set the start of the next step, for sessions of several steps."""


S_contra = TypeVar("S_contra", bound=SessionOf[Any], contravariant=True)


class Step(ABC, Generic[S_contra, P]):
    """A method of changing weights, with limits after which the loop switches to the next one."""

    @abstractmethod
    def moves(self, session: S_contra, loop: Loop[P]) -> Moves[P]:
        """Iterations, beginning with the start; first of all it may set the `limits` of the loop."""

    def result(self, session: S_contra, loop: Loop[P], status: Status) -> Solution:
        """The solution at the best point."""
        assert loop.best is not None
        return session.result(loop.best.point, status, loop)


S = TypeVar("S", bound=SessionOf[Any])


def minimise(
    session: S,
    steps: Iterable[Step[S, Any]],
    *,
    max_iter: int,
    callback: Callback | None = None,
    work: float | None = None,
) -> Solution:
    """Minimise over kernel weights, and certify the solution.

    Parameters
    ----------
    session : SessionOf
        The problem, the tolerance, and the start.
    steps : iterable of Step
        Each continues from the best point of those before, until one has converged.
    max_iter : int
        Limit of all steps together.
    callback : callable, optional
    work : float, optional
        Most rounds and systems of all machines together.
    """
    loop: Loop[Any] = Loop(max_iter, callback)
    found: Solution | None = None
    token = limited(None, work)
    try:
        for step in steps:
            if found is not None:
                session.begin_at(found)
            try:
                status = loop.run(step.moves(session, loop))
            except KeyboardInterrupt:
                if not loop.limits.keeps or loop.best is None:
                    raise
                status = Status.INTERRUPTED
            after = step.result(session, loop, status)
            # the result with the smaller gap is kept, with the status of the last step
            if found is not None and after.gap > found.gap:
                after = loop.told(found, after.status, session.n_machines)
            found, status = after, after.certificate.status
            if status in ENDED or loop.n_iter >= max_iter or used_up():
                break
    finally:
        LEFT.reset(token)
    assert found is not None
    gave_up = status is Status.MAX_ITER and loop.n_iter < max_iter
    return found.ended(Status.STALLED) if gave_up else found
