"""What solvers return: a `Solution` with its `Certificate`, or a `Path` of them along strengths of regularisation.

All are frozen values. A few methods know more than weights, coefficients and a certificate, and return a subclass.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AlignmentSolution",
    "Ball",
    "Certificate",
    "MachineSolution",
    "Path",
    "RadiusSolution",
    "RelaxedSolution",
    "Solution",
    "Status",
    "Verifier",
    "relative_gap",
]

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)


class Status(enum.Enum):
    """How a solver ended. The value is the sentence for the user."""

    CONVERGED = "The relative duality gap is at or below tol."
    RESIDUAL_RULE = (
        "The relative residual is at or below delta (the paper's rule); the gap says how good that is."
    )
    MAX_ITER = (
        "max_iter was reached before the gap fell to tol. Raise max_iter, raise tol, or scale the kernels "
        "(for example to mean diagonal 1)."
    )
    UNFINISHED = (
        "max_iter was reached while the criterion still moved by more than tol. Raise max_iter or tol, or change "
        "the step."
    )
    EMPTIED = (
        "The next step would have left a layer without weights, and was not taken. Lower eta, or take "
        "step='backtracking'."
    )
    NOT_STATIONARY = (
        "The criterion falls no further, though its gradient promises more than tol: rounding errors, or the criterion "
        "has a kink. Raise tol, or normalise the kernels."
    )
    STALLED = (
        "No step brings progress any more: there is next to no regularisation beside the kernels, or they differ by "
        "many orders of magnitude, or the solver's steps cannot reach so small a tol. Raise tol, raise alpha (lower "
        "C), normalise the kernels, or take the default solver."
    )
    TRUNCATED = (
        "The solution is exact for the kernels as held, but what their truncated factors leave out keeps the gap "
        "above tol. Lower rank_tol, or raise tol."
    )
    ROUNDING = (
        "Rounding errors may be larger than tol allows, though the solver can do no more: numbers of 16 digits tell no "
        "more about this problem. Raise tol, raise alpha (lower C), or normalise the kernels."
    )
    INTERRUPTED = "Interrupted; what was finished is returned."
    REFUTED = "The numbers do not have the certificate that was reported with them: they, or the data, have changed."

    def __repr__(self) -> str:
        return f"Status.{self.name}"

    @property
    def ok(self) -> bool:
        """Whether the solver's own stopping rule was met."""
        return self in (Status.CONVERGED, Status.RESIDUAL_RULE)

    @property
    def is_of_descent(self) -> bool:
        """Whether it speaks of a criterion that descends, of which the duality gap of the machine says nothing."""
        return self in (Status.UNFINISHED, Status.EMPTIED, Status.NOT_STATIONARY)


def relative_gap(primal: float, gap: float) -> float:
    """``gap / |primal|``; 0 when both are zero."""
    if gap == 0:
        return 0.0
    return gap / abs(primal) if primal != 0 else float("inf")


@dataclass(frozen=True)
class Certificate:
    """How far a solution is from the optimum, at most.

    Attributes
    ----------
    kind : str
        What is bounded: ``"joint"`` (weights and machine together), ``"cuts"`` (the same, with a lower bound that
        several coefficients found, not those of the solution alone), ``"machine"`` (the machine at these weights),
        ``"ball"``, ``"alignment"`` or ``"margins"`` (weights that come before the machine).
    primal, dual : float
        Bounds of the optimal value: the value of this solution, and one that no solution passes.
    gap : float
        Their distance >= 0, in units of the objective; an upper bound of the suboptimality, `rounding` included.
    rounding : float
        The part of `gap` that bounds rounding errors, to first order.
    stationarity : float or None
        Where the criterion is not convex: what its linear model still promises, as a share of the value.
    status : Status
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
        """The gap without the rounding errors: what more steps could make smaller."""
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
        """A certificate from the gap that a solver left and the rounding errors beside it.

        Parameters
        ----------
        kind : str
        primal, own, rounding : float
        status : Status
            How the solver says that it ended.
        tol : float, optional
            The relative gap that was asked for: the whole gap, with its rounding errors, has the last word about
            whether it was reached. None leaves the status as it is.
        stationarity : float, optional
        """
        gap = own + rounding
        if tol is not None:
            goal = tol * abs(primal)
            if status in (Status.CONVERGED, Status.STALLED, Status.ROUNDING) and own <= goal:
                status = Status.CONVERGED if gap <= goal else Status.ROUNDING
            elif status is Status.CONVERGED:
                # the last look at all kernels has the last word
                status = Status.ROUNDING if own - rounding <= goal else Status.STALLED
            elif status is Status.STALLED and own <= rounding:
                status = Status.ROUNDING
        return cls(kind, primal, primal - gap, gap, rounding, stationarity, status)

    @classmethod
    def total(cls, parts: Sequence[Certificate]) -> Certificate:
        """The certificate of the sum of several objectives.

        Its kind is that of the part of which least is bounded, its status the first one that is not well.
        """
        kinds = {part.kind for part in parts}
        kind = next((one for one in ("machine", "cuts") if one in kinds), parts[0].kind)
        primal, gap = sum(part.primal for part in parts), sum(part.gap for part in parts)
        worst = next((part.status for part in parts if not part.status.ok), parts[0].status)
        return cls(kind, primal, primal - gap, gap, sum(part.rounding for part in parts), status=worst)

    def checked_by(self, found: Certificate) -> Certificate:
        """What was found when the certificate was computed again, with the status that follows from it."""
        slack = self.rounding + found.rounding + 16.0 * EPS * abs(self.primal)
        holds = abs(found.primal - self.primal) <= slack and math.isfinite(found.gap)
        if self.kind != "cuts":
            # rounding errors that grew speak against the numbers as the gap does
            holds = holds and found.gap <= self.gap + 2.0 * self.rounding + 16.0 * EPS * abs(self.primal)
        return replace(
            found,
            kind=self.kind,
            stationarity=self.stationarity,
            status=self.status if holds else Status.REFUTED,
        )


class Verifier(Protocol):
    """A problem that can compute the certificate of any weights and coefficients."""

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of the numbers of a solution, whatever was reported with them."""


S = TypeVar("S", bound="Solution")


@dataclass(frozen=True)
class Solution:
    """Weights of kernels and the machine on their sum, with a certificate.

    Attributes
    ----------
    weights : array of shape (n_kernels,) or (n_outputs, n_kernels)
        Kernel weights d. Two-dimensional when every output has its own.
    dual_coef : array of shape (n_samples,) or (n_samples, n_outputs)
        Coefficients, signed: ``f = K(weights) @ dual_coef + intercept``. Empty where weights come before the machine.
    intercept : float or array of shape (n_outputs,)
    certificate : Certificate
        Of weights and machine together where the problem is convex in the weights; otherwise of the machine at these
        weights.
    n_iter : int
        Outer iterations: factorisations, steps of the weights, rounds.
    trace : mapping of str to array
        ``objective``, ``rel_gap`` (without rounding errors) and ``n_active`` after every iteration, and what else the
        solver has to tell.
    alpha : float
        The strength of regularisation that was used; 1 / C for machines with a C along a path, NaN without one.
    n_machines : int
        Machines that were solved on the way.
    """

    weights: Array
    dual_coef: Array
    intercept: float | Array
    certificate: Certificate
    n_iter: int
    trace: Mapping[str, Array] = field(default_factory=dict, repr=False, compare=False)
    alpha: float = math.nan
    n_machines: int = 0

    @property
    def primal(self) -> float:
        """Upper bound of the optimal value: the value of this solution."""
        return self.certificate.primal

    @property
    def dual(self) -> float:
        """Lower bound of the optimal value."""
        return self.certificate.dual

    @property
    def gap(self) -> float:
        """``primal - dual`` >= 0, rounding errors included."""
        return self.certificate.gap

    @property
    def rel_gap(self) -> float:
        """``gap / |primal|``."""
        return self.certificate.rel_gap

    @property
    def own_gap(self) -> float:
        """The gap without the rounding errors."""
        return self.certificate.own_gap

    @property
    def rounding(self) -> float:
        """The part of `gap` that bounds rounding errors, to first order."""
        return self.certificate.rounding

    @property
    def status(self) -> Status:
        """How the solver ended."""
        return self.certificate.status

    @property
    def stationarity(self) -> float | Array | None:
        """How nearly the weights are stationary, where the criterion is not convex; else None."""
        return self.certificate.stationarity

    @property
    def history(self) -> Mapping[str, Array]:
        """The name of `trace` in 0.1."""
        return self.trace

    def verify(self, problem: Verifier) -> Certificate:
        """Compute the certificate again from the numbers of this solution.

        Parameters
        ----------
        problem : object with a method ``certify(solution)``
            The problem that was solved, for example a `kernelweave.machines.machine.OnKernel`.

        Returns
        -------
        Certificate
            Its status is that of the solution if primal value and gap are those that were reported, up to their
            rounding errors, and ``REFUTED`` otherwise. Of kind ``"cuts"`` only the primal value must agree.
        """
        return self.certificate.checked_by(problem.certify(self))

    def ended(self: S, status: Status) -> S:
        """The same with another status."""
        return replace(self, certificate=replace(self.certificate, status=status))

    def extended(self, kind: type[S], **more: object) -> S:
        """The same as one of the subclasses, which know more."""
        return kind(**{f.name: getattr(self, f.name) for f in fields(Solution)} | more)


@dataclass(frozen=True)
class MachineSolution(Solution):
    """A machine on one kernel.

    Its ``weights`` are the single 1, ``n_iter`` counts SMO steps plus Newton systems. The gap presumes that the kernel
    is positive semidefinite. The intercept is the best one for the coefficients; the middle where it is not unique.

    Attributes
    ----------
    support : array of int, shape (n_support,)
        Rows with a nonzero coefficient.
    infeasibility : float
        Largest violation of a constraint of the dual problem: the box, and the sum of the coefficients.
    """

    intercept: float
    support: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    infeasibility: float = 0.0

    @classmethod
    def of(
        cls, b: Array, intercept: float, certificate: Certificate, *, n_iter: int, infeasibility: float
    ) -> MachineSolution:
        """The solution of these coefficients: the single weight is 1, and what is not zero is the support."""
        return cls(
            np.ones(1),
            b,
            intercept,
            certificate,
            n_iter,
            support=np.flatnonzero(b),
            infeasibility=infeasibility,
        )


@dataclass(frozen=True)
class Ball(MachineSolution):
    """The minimum enclosing ball of the rows in the feature space of one kernel.

    `dual_coef` are the coefficients of the centre, nonnegative with sum 1: ``center = sum_i dual_coef[i] phi(x_i)``.
    `primal` is the squared radius of the ball about this centre that holds every row.

    Attributes
    ----------
    radius2 : float
        Squared radius r^2, the dual value ``b'diag(K) - b'Kb``. It converges twice as fast as `primal`, and its
        derivative in K at fixed b is exact.
    center_norm2 : float
        ``b'Kb``: a point lies at the squared distance ``k(x, x) - 2 k(x, X) @ dual_coef + center_norm2``.
    """

    radius2: float = math.nan
    center_norm2: float = math.nan


@dataclass(frozen=True)
class RadiusSolution(Solution):
    """A kernel learnt by margin and radius.

    With Newton steps the gap certifies weights and machine together; otherwise it is that of the machine at these
    weights, and `stationarity` says how nearly the weights are stationary.

    Attributes
    ----------
    value : float
        The criterion.
    radius2 : float
        Squared radius of the minimum enclosing ball of the learnt kernel; NaN where the criterion uses none.
    """

    value: float = math.nan
    radius2: float = math.nan

    @property
    def stationarity(self) -> float:
        """What the linear model of the criterion still promises over the simplex, as a share of `value`."""
        found = self.certificate.stationarity
        return math.nan if found is None else found


@dataclass(frozen=True)
class AlignmentSolution(Solution):
    """Weights from the alignment of kernels with the targets, nonnegative with sum 1.

    `primal` is the alignment of the combination ``sum_m weights[m] s_m K_m``, and no combination has more than `dual`.
    For weights proportional to each kernel's own alignment both are NaN, as is the gap: they optimise nothing.

    Attributes
    ----------
    alignments : array of shape (n_kernels,)
        Centred alignment of each kernel with the targets, from 0 to 1; 0 for constant kernels.
    """

    alignments: Array = field(default_factory=lambda: np.empty(0))

    @property
    def alignment(self) -> float:
        """Alignment of the combination."""
        return self.certificate.primal


@dataclass(frozen=True)
class RelaxedSolution(Solution):
    """RLS2 with weights of one strength and the coefficients of others.

    `weights` and the certificate speak of RLS2 at `alpha`, where the weights come from. `dual_coef` is that of ridge
    regression at the strengths `relax`; with several it has their axis first, and the fields below are arrays.

    Attributes
    ----------
    relax : float or array of shape (n_relax,)
        Strength of the ridge.
    ridge_primal : float or array of shape (n_relax,)
        ``1/2 ||y - K(d) c||^2 + relax/2 c'K(d)c`` at these weights, summed over outputs.
    ridge_gap : float or array of shape (n_relax,)
        An upper bound of how far `ridge_primal` is above its smallest value at these weights, rounding included.
    """

    relax: float | Array = math.nan
    ridge_primal: float | Array = math.nan
    ridge_gap: float | Array = math.nan

    @property
    def ridge_rel_gap(self) -> float:
        """``ridge_gap / ridge_primal``, of a single strength."""
        return relative_gap(float(self.ridge_primal), float(self.ridge_gap))

    def at(self, which: int) -> RelaxedSolution:
        """The solution at one of several strengths of the ridge."""
        names = ("dual_coef", "relax", "ridge_primal", "ridge_gap")
        relax, primal, gap = (np.asarray(getattr(self, name))[which] for name in names[1:])
        return replace(
            self,
            dual_coef=self.dual_coef[which],
            relax=float(relax),
            ridge_primal=float(primal),
            ridge_gap=float(gap),
        )


S_co = TypeVar("S_co", bound=Solution, covariant=True)
#: Computes ``df`` (False) or all selection criteria (True) along a path.
Measure = Callable[[bool], Mapping[str, Array]]


@dataclass(frozen=True)
class Path(Generic[S_co]):
    """Solutions along strengths of regularisation, and their numbers as arrays.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        Strengths, in the order in which they were solved: descending for RLS2.
    solutions : tuple of Solution
        After an interruption the last one has the status ``INTERRUPTED``.
    measure : callable or None
        Computes `df` and `criteria` when they are first asked for; it keeps the Gram matrices alive.
    """

    alphas: Array
    solutions: tuple[S_co, ...] = field(repr=False)
    measure: Measure | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls, solutions: Iterable[S_co], *, interrupted: bool = False, measure: Measure | None = None
    ) -> Path[S_co]:
        """The path of these solutions; `interrupted` tells that more were asked for."""
        found = list(solutions)
        if interrupted:
            found[-1] = found[-1].ended(Status.INTERRUPTED)
        return cls(np.array([one.alpha for one in found]), tuple(found), measure)

    def __len__(self) -> int:
        return len(self.solutions)

    def at(self, index: int, which: int | None = None) -> S_co:
        """The solution at one position of the path, and of the strengths of the ridge where there are several."""
        found = self.solutions[index]
        if isinstance(found, RelaxedSolution) and np.ndim(found.relax) == 1:
            return found.at(0 if which is None else which)  # type: ignore[return-value]
        return found

    def _stack(self, name: str) -> Array:
        return np.array([getattr(one, name) for one in self.solutions])

    @cached_property
    def weights(self) -> Array:
        """Weights, shape (n_alphas, n_kernels) or (n_alphas, n_outputs, n_kernels)."""
        return self._stack("weights")

    @cached_property
    def dual_coef(self) -> Array:
        """Coefficients, shape (n_alphas, [n_relax,] n_samples, [n_outputs])."""
        return self._stack("dual_coef")

    @cached_property
    def intercept(self) -> Array:
        """Intercepts, shape (n_alphas, n_outputs), or (n_alphas, 1) where all outputs share one."""
        return self._stack("intercept").reshape(len(self), -1)

    @property
    def uppers(self) -> list[tuple[object, ...]]:
        """Layers above the sum of kernels, for every strength and output; empty tuples where there are none."""
        return [getattr(one, "uppers", ()) for one in self.solutions]

    @property
    def primal(self) -> Array:
        """Values of the solutions, shape (n_alphas,)."""
        return self._stack("primal")

    @property
    def dual(self) -> Array:
        """Lower bounds of the optimal values, shape (n_alphas,)."""
        return self._stack("dual")

    @property
    def gap(self) -> Array:
        """Gaps, shape (n_alphas,)."""
        return self._stack("gap")

    @property
    def rel_gap(self) -> Array:
        """Relative gaps, shape (n_alphas,)."""
        return self._stack("rel_gap")

    @property
    def rounding(self) -> Array:
        """Bounds of rounding errors, shape (n_alphas,)."""
        return self._stack("rounding")

    @property
    def status(self) -> tuple[Status, ...]:
        """How each ended."""
        return tuple(one.status for one in self.solutions)

    @property
    def n_iter(self) -> NDArray[np.int64]:
        """Iterations, shape (n_alphas,)."""
        return np.array([one.n_iter for one in self.solutions])

    @property
    def n_active(self) -> NDArray[np.int64]:
        """Number of kernels with a nonzero weight at each strength (in any output)."""
        used = self.weights > 0
        return (used if used.ndim == 2 else np.any(used, axis=1)).sum(axis=1)

    @property
    def relax(self) -> Array:
        """Strengths of the ridge, shape (n_alphas,) or (n_alphas, n_relax)."""
        return self._stack("relax")

    @property
    def ridge_primal(self) -> Array:
        """See `RelaxedSolution`; an array like `relax`."""
        return self._stack("ridge_primal")

    @property
    def ridge_gap(self) -> Array:
        """See `RelaxedSolution`; an array like `relax`."""
        return self._stack("ridge_gap")

    @cached_property
    def df(self) -> Array:
        """Degrees of freedom at fixed weights, shape (n_alphas,) or that of `relax`; NaN for margins.

        Equation (15) of RLS2, and its kernel form ``tr(K(d) (K(d) + alpha I)^-1)``. Computed on first use: about two
        factorisations per alpha.
        """
        return np.full(len(self), np.nan) if self.measure is None else self.measure(False)["df"]

    @cached_property
    def criteria(self) -> Mapping[str, Array]:
        """Selection criteria, arrays like `df`; for margins there are none.

        ``gcv``, ``aic``, ``bic``, ``cp`` (smaller is better; Mallows' Cp takes the noise from the weakest strength of
        the path), ``rss``, ``evidence`` (log marginal likelihood), ``noise_variance``, ``df`` and ``df_total`` (which
        counts the learnt weights). Of the ridge where the path is relaxed; ``df_total`` and ``cp`` are NaN there, since
        what the weights add is not known. Computed on first use.
        """
        return {} if self.measure is None else self.measure(True)
