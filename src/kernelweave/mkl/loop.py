"""The loop of every iterative solver of kernel weights: steps move, and everything else is done here.

A step is a generator: what it yields is one iteration, and what it keeps in its local variables is its state. The
loop writes the trace, remembers the best point, counts iterations without progress, asks the callback, and says how it
ended.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np

from kernelweave.mkl.problem import Point, Problem, Session, WarmStart
from kernelweave.results import Solution, Status, relative_gap

P = TypeVar("P")
#: Called after every iteration with (iteration, objective, measure of what is left); a true value stops.
Callback = Callable[[int, float, float], object]


@dataclass(frozen=True)
class Look(Generic[P]):
    """What one iteration has found.

    Attributes
    ----------
    point : object
        What would be returned if this were the last one.
    objective, gap : float
        The gap may be any measure of what is left, in units of the objective.
    n_active : int
        Kernels with a weight.
    status : Status or None
        A step that has arrived, or can do no more, says so here.
    last : bool
        The step will end by itself: nobody is asked whether to go on.
    """

    point: P
    objective: float
    gap: float
    n_active: int
    status: Status | None = None
    last: bool = False

    @property
    def rel_gap(self) -> float:
        """The gap as a share of the objective."""
        return relative_gap(self.objective, self.gap)


#: Yields a look for every iteration, or None for one that was rejected, and returns the status in which it ends.
Moves = Generator[Look[P] | None, None, Status]


@dataclass
class Loop(Generic[P]):
    """Iterations: their trace, the best point, and when to stop.

    Attributes
    ----------
    max_iter : int
        Of all steps together.
    callback : callable or None
    best : Look or None
        Of the present step.
    idle : int
        Iterations without a lower objective or a smaller gap.
    trace : dict of str to list
    """

    max_iter: int
    callback: Callback | None = None
    best: Look[P] | None = None
    idle: int = 0
    n_iter: int = 0
    trace: dict[str, list[float]] = field(
        default_factory=lambda: {"objective": [], "rel_gap": [], "n_active": []}
    )

    def run(
        self, moves: Moves[P], *, most: float = math.inf, patience: float = math.inf, slow: float = math.inf
    ) -> Status:
        """Run one step, and say how it ended.

        Parameters
        ----------
        moves : generator
        most : float
            Its iterations.
        patience : float
            Iterations without progress after which it is stopped.
        slow : float
            It is stopped when so many iterations have not made the gap ten times smaller.
        """
        first, limit = self.n_iter, min(self.max_iter, self.n_iter + most)
        self.best, self.idle = None, 0
        while self.n_iter < limit:
            try:
                look = next(moves)
            except StopIteration as end:
                return end.value
            self.n_iter += 1
            if look is None:
                for values in self.trace.values():
                    values.append(values[-1])
                continue
            self._write(look, first)
            if look.status is not None:
                return look.status
            told = None if look.last else self.callback
            if told is not None and told(self.n_iter, look.objective, look.rel_gap):
                return Status.INTERRUPTED
            gaps = self.trace["rel_gap"][first:]
            if self.idle > patience or (len(gaps) > slow and min(gaps) > 0.1 * min(gaps[: -int(slow)])):
                return Status.STALLED
        return Status.MAX_ITER

    def _write(self, look: Look[P], first: int) -> None:
        for key, value in (
            ("objective", look.objective), ("rel_gap", look.rel_gap), ("n_active", float(look.n_active)),
        ):  # fmt: skip
            self.trace[key].append(value)
        values = self.trace["objective"][first:]
        smaller = self.best is None or look.gap < 0.9 * self.best.gap
        self.idle = 0 if smaller or len(values) < 2 or fell(values) else self.idle + 1
        if self.best is None or look.gap < self.best.gap:
            self.best = look


def fell(values: list[float]) -> bool:
    """Whether the last objective is a new lowest, beyond rounding."""
    before = min(values[:-1])
    return values[-1] < before - 1e-10 * abs(before)


@dataclass
class Step(ABC):
    """How weights move; when it has to give way to the next is said here, and decided by the loop.

    Attributes
    ----------
    most : float
        Its iterations.
    """

    most: float = math.inf
    #: The class of the sets of weights that it fits.
    fits: ClassVar[type]
    #: Iterations without progress after which it is stopped.
    patience = math.inf

    def slow(self, session: Session) -> float:
        """It gives way when so many iterations have not made the gap ten times smaller."""
        return math.inf

    @abstractmethod
    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        """The first look at a problem, and one after every move."""

    def result(self, session: Session, loop: Loop[Point], status: Status) -> Solution:
        """The best point with the last look at all kernels."""
        assert loop.best is not None
        return session.result(loop.best.point, status, loop.n_iter, loop.trace)


def minimise(
    problem: Problem,
    steps: Sequence[Step],
    *,
    tol: float,
    max_iter: int,
    warm: WarmStart | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimise the optimal value of a machine over its set of weights, and certify the solution.

    Parameters
    ----------
    problem : Problem
    steps : sequence of Step
        Each goes on from the best of those before, until one has arrived.
    tol : float
    max_iter : int
        Of all steps together.
    warm : WarmStart, optional
        Where to begin; not modified.
    callback : callable, optional
    """
    session = Session(problem, tol, WarmStart() if warm is None else replace(warm))
    loop: Loop[Point] = Loop(max_iter, callback)
    found: Solution | None = None
    for step in steps:
        slow = step.slow(session)
        status = loop.run(step.moves(session, loop), most=step.most, patience=step.patience, slow=slow)
        after = step.result(session, loop, status)
        # the smaller gap stays, and the last step says how it ended
        kept = after if found is None or after.gap <= found.gap else found
        found = kept.ended(after.status)
        session.warm = WarmStart(found.weights, found.dual_coef)
        arrived = found.status in (Status.CONVERGED, Status.ROUNDING, Status.INTERRUPTED)
        if arrived or loop.n_iter >= max_iter:
            break
    assert found is not None
    status = Status.STALLED if found.status is Status.MAX_ITER and loop.n_iter < max_iter else found.status
    trace = {key: np.asarray(values) for key, values in loop.trace.items()}
    return replace(found.ended(status), n_iter=loop.n_iter, n_machines=session.n_machines, trace=trace)
