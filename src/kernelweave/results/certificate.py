"""How a solver ended, and a bound on the distance of a solution from the optimum."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kernelweave._errors import capital
from kernelweave._forms import ShortRepr

EPS = float(np.finfo(np.float64).eps)


class Remedy(NamedTuple):
    """What users can do, and the parameter of learners that it takes, if any."""

    text: str
    parameter: str | None = None


def _sentences(what: str, remedies: Sequence[Remedy]) -> str:
    if not remedies:
        return what
    *first, last = (one.text for one in remedies)
    listed = f"{', '.join(first)}{',' * (len(first) > 1)} or {last}" if first else last
    return f"{what} {capital(listed)}."


class Status(enum.Enum):
    """How a solver ended. The value is a sentence for users: what happened, and what they can do."""

    what: str
    remedies: tuple[Remedy, ...]

    def __new__(cls, what: str, *remedies: Remedy) -> Status:
        """A member with its sentences."""
        one = object.__new__(cls)
        one.what, one.remedies, one._value_ = what, remedies, _sentences(what, remedies)
        return one

    CONVERGED = "The relative duality gap is at or below tol."
    RESIDUAL_RULE = (
        "The relative residual is at or below delta (the paper's rule); the gap says how good that is."
    )
    MAX_ITER = (
        "max_iter was reached before the gap fell to tol.",
        Remedy("raise max_iter", "max_iter"),
        Remedy("raise tol"),
        Remedy("scale the kernels (for example to mean diagonal 1)"),
    )
    MAX_TIME = (
        "max_time was reached before the solver's own stopping rule.",
        Remedy("raise max_time", "max_time"),
        Remedy("raise tol"),
    )
    UNFINISHED = (
        "max_iter was reached while the criterion still changed by more than tol.",
        Remedy("raise max_iter", "max_iter"),
        Remedy("raise tol"),
        Remedy("change the step", "step"),
        Remedy("change the solver", "solver"),
    )
    EMPTIED = (
        "The next step would have left a layer without weights, and was not taken.",
        Remedy("lower eta", "eta"),
        Remedy("take step='backtracking'", "step"),
    )
    NOT_STATIONARY = (
        "The criterion falls no further, although its gradient predicts more: rounding errors, or the criterion "
        "has a kink.",
        Remedy("raise tol"),
        Remedy("normalise the kernels"),
    )
    STALLED = (
        "No step makes further progress: there is hardly any regularisation relative to the kernels, or they differ by "
        "many orders of magnitude, or the solver's steps cannot reach so small a tol.",
        Remedy("raise tol"),
        Remedy("raise alpha", "alpha"),
        Remedy("lower C", "C"),
        Remedy("normalise the kernels"),
        Remedy("use the default solver", "solver"),
    )
    TRUNCATED = (
        "The solution is exact for the kernels as stored, but the error of their truncated factors keeps the gap "
        "above tol.",
        Remedy("lower rank_tol"),
        Remedy("raise tol"),
    )
    ROUNDING = (
        "Rounding errors may exceed tol, and no step can reduce the gap further: 16 digits are not enough "
        "for this problem.",
        Remedy("raise tol"),
        Remedy("raise alpha", "alpha"),
        Remedy("lower C", "C"),
        Remedy("normalise the kernels"),
    )
    INTERRUPTED = "Interrupted; what was finished is returned."
    REFUTED = "The numbers do not have the certificate that was reported with them: they, or the data, have changed."

    def advice(self, parameters: Collection[str]) -> str:
        """The sentence for users who have these parameters: without remedies that name others."""
        own = [one for one in self.remedies if one.parameter is None or one.parameter in parameters]
        named = "max_iter" if "max_iter" in parameters else "The limit of iterations"
        return _sentences(self.what.replace("max_iter", named), own)

    def __repr__(self) -> str:
        return f"Status.{self.name}"

    @property
    def ok(self) -> bool:
        """Whether the solver's own stopping rule was met."""
        return self in (Status.CONVERGED, Status.RESIDUAL_RULE)

    @property
    def is_of_descent(self) -> bool:
        """Whether it refers to the descent of a criterion, for which the duality gap of the machine gives no bound."""
        return self in (Status.UNFINISHED, Status.EMPTIED, Status.NOT_STATIONARY)


#: Statuses that say nothing any more once the gap is small enough.
REPLACED = (Status.CONVERGED, Status.STALLED, Status.MAX_ITER, Status.MAX_TIME, Status.ROUNDING)


#: The status of what has to end by a limit that is `used_up`; None while it may go on.
REACHED = {None: None, "seconds": Status.MAX_TIME, "work": Status.STALLED}


def relative_gap(primal: float, gap: float) -> float:
    """``gap / |primal|``; 0 when both are zero.

    Parameters
    ----------
    primal : float
        The value of the objective at a solution.
    gap : float
        Its largest possible distance from the optimum, in the same unit.

    Returns
    -------
    float
        Infinity for a gap above a value of zero.
    """
    if gap == 0:
        return 0.0
    return gap / abs(primal) if primal != 0 else float("inf")


@dataclass(frozen=True, repr=False)
class Certificate(ShortRepr):
    """Bounds on the distance of a solution from the optimum.

    Attributes
    ----------
    kind : str
        What is bounded: ``"joint"`` (weights and machine together), ``"cuts"`` (the same, with the lower bound of an
        average of earlier coefficients, which is the `proof` of the solution), ``"cardinality"`` (the
        same over all subsets of kernels that a limit allows), ``"machine"`` (the machine at these weights), ``"ball"``,
        ``"alignment"`` or ``"margins"`` (weights found before the machine).
    primal, dual : float
        Upper and lower bound of the optimal value: the value of this solution, and a dual value.
    gap : float
        Their distance >= 0, in units of the objective; an upper bound of the suboptimality, `rounding` included.
    rounding : float
        The part of `gap` that bounds rounding errors, to first order.
    stationarity : float or None
        If the criterion is not convex: the decrease predicted by its linear model, as a share of the value.
    status : Status
        Why the solver ended: ``CONVERGED`` if the gap is within its tolerance.
    """

    kind: str
    primal: float
    dual: float
    gap: float
    rounding: float = 0.0
    stationarity: float | None = None
    status: Status = Status.CONVERGED

    @property
    def rel_gap(self) -> float:
        """``gap / |primal|``."""
        return relative_gap(self.primal, self.gap)

    @property
    def own_gap(self) -> float:
        """The gap without the rounding errors: the part that more steps could reduce."""
        return self.gap - self.rounding

    @classmethod
    def of(
        cls,
        kind: str,
        primal: float,
        own: float,
        rounding: float,
        status: Status,
        *,
        tol: float | None = None,
        stationarity: float | None = None,
    ) -> Certificate:
        """A certificate from the gap of a solver and its rounding errors.

        Parameters
        ----------
        kind : str
            What is bounded, one of the words that the attribute `kind` has.
        primal : float
            Value of the solution.
        own : float
            The gap without rounding errors.
        rounding : float
            Bound of the rounding errors of the gap.
        status : Status
            Status reported by the solver.
        tol : float, optional
            The required relative gap: whether it was reached is decided by the whole gap, with its rounding
            errors. None leaves the status unchanged.
        stationarity : float, optional
            For a criterion that is not convex, the decrease predicted by its linear model, as a fraction of the value.
        """
        gap = own + rounding
        if not math.isfinite(primal):
            # no tolerance is a share of infinity
            reached = status in (Status.CONVERGED, Status.ROUNDING)
            status = Status.STALLED if reached else status
            return cls(kind, primal, -math.inf, math.inf, rounding, stationarity, status)
        if tol is not None:
            allowed = tol * abs(primal)
            if status in REPLACED and own <= allowed:
                status = Status.CONVERGED if gap <= allowed else Status.ROUNDING
            elif status is Status.CONVERGED:
                # the final gap over all kernels decides
                status = Status.ROUNDING if own - rounding <= allowed else Status.STALLED
            elif status is Status.STALLED and own <= rounding:
                status = Status.ROUNDING
        return cls(kind, primal, primal - gap, gap, rounding, stationarity, status)

    def times(self, factor: float) -> Certificate:
        """The certificate of an objective that is multiplied by a positive number.

        Parameters
        ----------
        factor : float
            The number.
        """
        names = ("primal", "dual", "gap", "rounding")
        return replace(self, **{name: factor * getattr(self, name) for name in names})

    @classmethod
    def total(cls, parts: Sequence[Certificate]) -> Certificate:
        """The certificate of the sum of several objectives.

        Its kind is that of the part with the weakest bound, its status the first one that is not a success.

        Parameters
        ----------
        parts : sequence of Certificate
            Certificates of the single objectives, at least one.
        """
        if len(parts) == 1:
            return parts[0] if parts[0].stationarity is None else replace(parts[0], stationarity=None)
        kinds = {part.kind for part in parts}
        kind = next((one for one in ("machine", "cuts") if one in kinds), parts[0].kind)
        primal, gap = sum(part.primal for part in parts), sum(part.gap for part in parts)
        worst = next((part.status for part in parts if not part.status.ok), parts[0].status)
        return cls(kind, primal, primal - gap, gap, sum(part.rounding for part in parts), status=worst)

    def checked_by(self, found: Certificate) -> Certificate:
        """The recomputed certificate, with the status that follows from the comparison.

        Parameters
        ----------
        found : Certificate
            The certificate that was computed again from the problem.
        """
        slack = self.rounding + found.rounding + 16.0 * EPS * abs(self.primal)
        holds = abs(found.primal - self.primal) <= slack and math.isfinite(found.gap)
        # larger rounding errors refute the numbers, like a larger gap
        holds = holds and found.gap <= self.gap + 2.0 * self.rounding + 16.0 * EPS * abs(self.primal)
        # no lower bound is above the value
        holds = holds and found.gap >= -slack
        return replace(
            found,
            kind=self.kind,
            stationarity=self.stationarity,
            status=self.status if holds else Status.REFUTED,
        )
