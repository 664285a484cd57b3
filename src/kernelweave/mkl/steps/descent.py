"""The projected gradient with Armijo's rule, for criteria of margin and radius.

Where the criterion is convex in the weights (RKL, the method of Do et al. and the margin, on sums of kernels), the
solution has the global bound that Newton's steps have, whatever its status; elsewhere that of the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kernelweave._types import Array
from kernelweave.mkl.criteria.radius import Evaluation, RadiusMargin, Stationarity
from kernelweave.mkl.families import WeightedSum, coinciding
from kernelweave.mkl.loop import Limits, Look, Loop, Moves, SessionOf, Step
from kernelweave.mkl.steps.rkl import RadiusProblem
from kernelweave.results import Certificate, RadiusSolution, Solution, Status

#: Armijo: required share of the decrease predicted by the gradient, and factor of shorter steps.
SUFFICIENT = 1e-3
SHORTER = 0.4
#: Parameters below this share of their mean are scaled like this share.
LEAST = 1e-2
#: Tolerance of machines and balls during the descent, as a share of the requested one.
INNER = 1e-3
#: Number of steps over which the descent must lower the value by this share of the tolerance each; else it ends.
PATIENCE, UNSEEN = 4, 1e-3


@dataclass
class DescentSession(SessionOf[Evaluation]):
    """A criterion of margin and radius during the descent.

    Attributes
    ----------
    criterion : RadiusMargin
    start : array of shape (n_parameters,)
    project : callable
    stationarity : callable
        The measure for `project`.
    tol : float
        Stationarity at which to stop; machines and balls are solved to a thousandth of it.
    """

    criterion: RadiusMargin
    start: Array
    project: Callable[[Array], Array]
    stationarity: Stationarity
    tol: float

    def look(self, at: Evaluation, *, counts: bool = True) -> Look[Evaluation]:
        """The result of an iteration."""
        left = self.stationarity(at)
        status = Status.CONVERGED if left <= self.tol else None
        if status and self.criterion.convex and self._solution(at, status).status is not status:
            # the gap does not allow to stop yet
            status = None
        more = {"n_machines": self.criterion.n_machines}
        n_active = int(np.count_nonzero(at.t))
        return Look(at, at.value, left, n_active, status, counts=counts, left=left, more=more)

    def result(self, at: Evaluation, status: Status, loop: Loop[Evaluation]) -> RadiusSolution:
        """The last point, with the bound of its distance from all others if the criterion is convex."""
        found = self._solution(at, status)
        return replace(
            found,
            n_iter=loop.n_iter,
            n_machines=self.criterion.n_machines,
            trace=loop.arrays(),
        )

    def _solution(self, at: Evaluation, status: Status) -> RadiusSolution:
        criterion, family, found = self.criterion, self.criterion.family, at.machine
        ends = {Status.MAX_ITER: Status.UNFINISHED, Status.STALLED: Status.NOT_STATIONARY}
        if criterion.convex:
            ends = {Status.NOT_STATIONARY: Status.STALLED}
        left, ended = self.stationarity(at), ends.get(status, status)
        solution = RadiusSolution(
            weights=at.t,
            dual_coef=at.dual_coef,
            intercept=found.intercept,
            certificate=replace(found.certificate, status=ended, stationarity=left),
            n_iter=0,
            value=at.value,
            radius2=float("nan") if at.ball is None else at.ball.radius2,
        )
        if not criterion.convex:
            return solution
        assert isinstance(family, WeightedSum)
        if criterion.kind == "rkl":
            certificate = RadiusProblem(family, criterion.machine).certify(solution)
            primal, own, rounding = certificate.primal, certificate.own_gap, certificate.rounding
        else:
            # the gradient is half of the quadratic forms, with those of the radii for Do et al.
            q = -2.0 * at.gradient
            error = family.quadratic_form_errors(at.dual_coef, q)
            gain = max(0.0, float(at.t.sum()) * float(q.max()) - float(at.t @ q))
            away = float((q + error).max() - q.max()) + float(at.t @ error)
            primal, own = found.primal, found.own_gap + 0.5 * gain
            rounding = found.rounding + 0.5 * away
        whole = Certificate.of("joint", primal, own, rounding, ended, tol=self.tol, stationarity=left)
        return replace(solution, certificate=whole)


@dataclass
class ProjectedGradient(Step[DescentSession, Evaluation]):
    """Accepted steps of the projected gradient.

    Attributes
    ----------
    spectral : bool
        Try steps of Barzilai and Borwein's length first; otherwise twice the last accepted one.
    scaled : bool
        Multiply the gradient by the parameters, and small ones by a share of the mean: widths differ by orders of
        magnitude. For projections that treat every parameter separately.
    """

    spectral: bool = True
    scaled: bool = False

    def moves(self, session: DescentSession, loop: Loop[Evaluation]) -> Moves[Evaluation]:
        """The start, and the end of every line search."""
        loop.limits = Limits(
            idle=PATIENCE, moved=UNSEEN * session.tol, names=("objective", "stationarity", "n_active")
        )
        criterion, project = session.criterion, session.project
        inner = max(INNER * session.tol, 1e-12)
        here = criterion.at(project(session.start), inner)
        if not here.usable:
            raise coinciding(criterion.family.n_samples)
        yield session.look(here, counts=False)
        # parameters have the units of their kernels, so there is no smallest length
        least = 0.0 if self.scaled else 1e-3
        lengths = self._metric(here.t)
        slope = float(np.abs(lengths * here.gradient).max())
        size = max(float(np.abs(here.t).max()), least) / max(slope, 1e-300)
        while True:
            step = size
            lengths = self._metric(here.t)
            while True:
                t = project(here.t - step * lengths * here.gradient)
                promised = float(here.gradient @ (here.t - t))
                if promised <= 1e-15 * abs(here.value) or not np.abs(t - here.t).max() > 0:
                    return Status.NOT_STATIONARY
                there = criterion.at(t, inner)
                if there.usable and here.value - there.value >= SUFFICIENT * promised:
                    break
                step *= SHORTER
            moved, turned = there.t - here.t, there.gradient - here.gradient
            curvature = float(moved @ turned)
            spectral = self.spectral and curvature > 0
            size = float(moved @ (moved / lengths)) / curvature if spectral else 2.0 * step
            here = there
            yield session.look(here)

    def _metric(self, t: Array) -> Array:
        return t + LEAST * float(t.mean()) if self.scaled else np.ones_like(t)

    def result(self, session: DescentSession, loop: Loop[Evaluation], status: Status) -> Solution:
        """The last point, which has the smallest value."""
        assert loop.here is not None
        return session.result(loop.here.point, status, loop)
