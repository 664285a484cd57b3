"""What solvers return: frozen values with a certificate."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
class RLS2Result:
    """A solution of RLS2 (Problem 5) with its certificate.

    Attributes
    ----------
    weights : array of shape (n_kernels,) or (n_outputs, n_kernels)
        Kernel weights d on the simplex. Two-dimensional when every output has its own.
    dual_coef : array of shape (n_samples,) or (n_samples, n_outputs)
        Coefficients c: ``f = K(d) @ dual_coef``.
    primal : float
        ``1/2 ||y - K(d) c||^2 + alpha/2 c' K(d) c`` (squares weighted by `sample_weight`), summed over outputs.
    dual : float
        Lower bound of the optimal value.
    gap : float
        ``primal - dual`` >= 0, in units of the objective; an upper bound of the suboptimality, `rounding` included.
    rel_gap : float
        ``gap / primal``.
    status : Status
    n_iter : int
        Factorisations (Newton) or rounds (alternating).
    alpha : float
        The regularisation strength that was used.
    rounding : float
        The part of `gap` that bounds rounding errors, to first order.
    history : mapping of str to array
        ``objective`` and ``rel_gap`` after every iteration (over the kernels looked at so far), ``n_active``.
    """

    weights: Array
    dual_coef: Array
    primal: float
    dual: float
    gap: float
    rel_gap: float
    status: Status
    n_iter: int
    alpha: float
    rounding: float = 0.0
    history: Mapping[str, Array] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class PathResult:
    """RLS2 solutions along a descending sequence of regularisation strengths.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        Descending.
    weights : array of shape (n_alphas, n_kernels) or (n_alphas, n_outputs, n_kernels)
    dual_coef : array of shape (n_alphas, n_samples) or (n_alphas, n_samples, n_outputs)
    primal, dual, gap, rel_gap, rounding : arrays of shape (n_alphas,)
        Certificates; see `RLS2Result`.
    status : tuple of Status
    n_iter : array of int, shape (n_alphas,)
    measure : callable
        Computes `df` and `criteria` when they are first asked for; it keeps the Gram matrices alive.
    """

    alphas: Array
    weights: Array
    dual_coef: Array
    primal: Array
    dual: Array
    gap: Array
    rel_gap: Array
    status: tuple[Status, ...]
    n_iter: NDArray[np.int64]
    rounding: Array
    measure: Callable[[bool], Mapping[str, Array]] = field(repr=False, compare=False)

    @cached_property
    def df(self) -> Array:
        """Degrees of freedom at fixed weights, shape (n_alphas,).

        Equation (15), and its kernel form ``tr(K(d) (K(d) + alpha I)^-1)``. Computed on first use: about two
        factorisations per alpha.
        """
        return self.measure(False)["df"]

    @cached_property
    def criteria(self) -> Mapping[str, Array]:
        """Selection criteria, arrays of shape (n_alphas,).

        ``gcv``, ``aic``, ``bic``, ``cp`` (smaller is better; Mallows' Cp takes the noise from the weakest strength of
        the path), ``rss``, ``evidence`` (log marginal likelihood), ``noise_variance``,
        ``df`` and ``df_total`` (which counts the learnt weights). Computed on first use.
        """
        return self.measure(True)

    def __len__(self) -> int:
        return len(self.alphas)

    @property
    def n_active(self) -> NDArray[np.int64]:
        """Number of kernels with a nonzero weight at each alpha (in any output)."""
        used = self.weights > 0
        return (used if used.ndim == 2 else np.any(used, axis=1)).sum(axis=1)

    def at(self, index: int) -> RLS2Result:
        """The solution at one position of the path."""
        return RLS2Result(
            weights=self.weights[index],
            dual_coef=self.dual_coef[index],
            primal=float(self.primal[index]),
            dual=float(self.dual[index]),
            gap=float(self.gap[index]),
            rel_gap=float(self.rel_gap[index]),
            status=self.status[index],
            n_iter=int(self.n_iter[index]),
            alpha=float(self.alphas[index]),
            rounding=float(self.rounding[index]),
        )


@dataclass(frozen=True)
class SVMResult:
    """A support vector machine on one kernel, with its certificate.

    Attributes
    ----------
    dual_coef : array of shape (n_samples,)
        Signed coefficients b: ``f = K @ dual_coef + intercept``. For classification b is y times the multipliers.
    intercept : float
        Optimal for these coefficients, hence the one with the smallest gap; the middle where it is not unique.
    primal, dual : float
        Upper and lower bound of the optimal value, both at this point.
    gap : float
        ``primal - dual`` >= 0, in units of the objective; an upper bound of the suboptimality, `rounding` included. It
        presumes that K is positive semidefinite.
    rel_gap : float
        ``gap / primal``.
    status : Status
    n_iter : int
        SMO steps plus Newton systems.
    support : array of int, shape (n_support,)
        Rows with a nonzero coefficient.
    infeasibility : float
        Largest violation of a constraint of the dual problem: the box, and ``sum(dual_coef) = 0``.
    rounding : float
        The part of `gap` that bounds rounding errors, to first order.
    """

    dual_coef: Array
    intercept: float
    primal: float
    dual: float
    gap: float
    rel_gap: float
    status: Status
    n_iter: int
    support: NDArray[np.int64] = field(repr=False)
    infeasibility: float
    rounding: float = 0.0

    @property
    def own_gap(self) -> float:
        """The gap without the rounding errors: what more steps could make smaller."""
        return self.gap - self.rounding


@dataclass(frozen=True)
class MEBResult:
    """The minimum enclosing ball of the rows in the feature space of one kernel, with its certificate.

    Attributes
    ----------
    dual_coef : array of shape (n_samples,)
        Coefficients of the centre, nonnegative with sum 1: ``center = sum_i dual_coef[i] phi(x_i)``.
    radius2 : float
        Squared radius r^2, the dual value ``b'diag(K) - b'Kb``. It converges twice as fast as `primal`, and its
        derivative in K at fixed b is exact.
    center_norm2 : float
        ``b'Kb``: a point lies at the squared distance ``k(x, x) - 2 k(x, X) @ dual_coef + center_norm2``.
    primal : float
        Squared radius of the ball about this centre that holds every row.
    dual : float
        Lower bound of the optimal value: `radius2` less `rounding`.
    gap : float
        ``primal - dual`` >= 0, `rounding` included.
    rel_gap : float
        ``gap / primal``.
    status : Status
    n_iter : int
        SMO steps plus Newton systems.
    support : array of int, shape (n_support,)
        Rows with a nonzero coefficient; at the solution they lie on the sphere.
    infeasibility : float
        Largest violation of a constraint of the dual problem.
    rounding : float
        The part of `gap` that bounds rounding errors, to first order.
    """

    dual_coef: Array
    radius2: float
    center_norm2: float
    primal: float
    dual: float
    gap: float
    rel_gap: float
    status: Status
    n_iter: int
    support: NDArray[np.int64] = field(repr=False)
    infeasibility: float
    rounding: float = 0.0

    @property
    def own_gap(self) -> float:
        """The gap without the rounding errors: what more steps could make smaller."""
        return self.gap - self.rounding


@dataclass(frozen=True)
class MKLResult:
    """Kernel weights learnt with a margin machine, with their certificate.

    Attributes
    ----------
    weights : array of shape (n_kernels,)
    dual_coef : array of shape (n_samples,)
        Signed coefficients b: ``f = K(weights) @ dual_coef + intercept``.
    intercept : float
    primal, dual : float
        Upper and lower bound of the optimal value; where the criterion is not convex in the weights, of the machine
        at these weights.
    gap : float
        ``primal - dual`` >= 0, `rounding` included.
    rel_gap : float
        ``gap / primal``.
    status : Status
    n_iter : int
        Outer iterations.
    n_machines : int
        Machines that were solved on the way.
    rounding : float
        The part of `gap` that bounds rounding errors, to first order.
    history : mapping of str to array
        ``objective``, ``rel_gap`` (without rounding errors) and ``n_active`` after every iteration.
    """

    weights: Array
    dual_coef: Array
    intercept: float
    primal: float
    dual: float
    gap: float
    rel_gap: float
    status: Status
    n_iter: int
    n_machines: int
    rounding: float = 0.0
    history: Mapping[str, Array] = field(default_factory=dict, repr=False, compare=False)

    @property
    def own_gap(self) -> float:
        """The gap without the rounding errors: what more iterations could make smaller."""
        return self.gap - self.rounding


@dataclass(frozen=True)
class RadiusResult(MKLResult):
    """A kernel learnt by margin and radius: a local solution.

    Its ``gap`` certifies the machine at these weights, not the weights; `stationarity` says how nearly they are
    stationary.

    Attributes
    ----------
    value : float
        The criterion.
    radius2 : float
        Squared radius of the minimum enclosing ball of the learnt kernel; NaN where the criterion uses none.
    stationarity : float
        What the linear model of the criterion still promises over the simplex, as a share of `value`.
    history : mapping of str to array
        After every accepted step: ``objective``, ``rel_gap`` or ``stationarity``, ``n_active`` (kernels with a weight)
        and ``n_machines`` (solved until then).
    """

    value: float = float("nan")
    radius2: float = float("nan")
    stationarity: float = float("nan")


@dataclass(frozen=True)
class AlignResult:
    """Weights proportional to each kernel's own alignment.

    Attributes
    ----------
    weights : array of shape (n_kernels,)
        Nonnegative with sum 1.
    alignments : array of shape (n_kernels,)
        Centred alignment of each kernel with the targets, from 0 to 1; 0 for constant kernels.
    """

    weights: Array
    alignments: Array


@dataclass(frozen=True)
class AlignFResult:
    """Weights that maximise the alignment of the combination, with their certificate.

    Attributes
    ----------
    weights : array of shape (n_kernels,)
        Nonnegative with sum 1.
    alignments : array of shape (n_kernels,)
        Centred alignment of each kernel with the targets; 0 for constant kernels.
    alignment : float
        Alignment of ``sum_m weights[m] s_m K_m``. No combination has more than ``alignment + gap``.
    gap : float
        >= 0. It is the length of the positive part of the gradient of the quadratic program, for kernels and targets
        scaled to length 1: its KKT residual.
    rel_gap : float
        ``gap / alignment``.
    status : Status
    n_iter : int
        Linear systems of the active-set method.
    """

    weights: Array
    alignments: Array
    alignment: float
    gap: float
    rel_gap: float
    status: Status
    n_iter: int


@dataclass(frozen=True)
class EasyMKLResult:
    """Weights from the margin distribution of the summed kernel, with the certificate of its quadratic program.

    Attributes
    ----------
    weights : array of shape (n_kernels,)
        Nonnegative with sum 1.
    dual_coef : array of shape (n_samples,)
        ``y * gamma``: positive on one class with sum 1, negative on the other with sum -1.
    primal : float
        ``(1 - lam) gamma' Y K Y gamma + lam sum_i gamma_i^2 / sample_weight_i`` at this gamma.
    dual : float
        Lower bound of the optimal value.
    gap : float
        ``primal - dual`` >= 0, `rounding` included.
    rel_gap : float
        ``gap / primal``.
    status : Status
    n_iter : int
        SMO steps plus Newton systems.
    rounding : float
        The part of `gap` that bounds rounding errors, to first order.
    """

    weights: Array
    dual_coef: Array
    primal: float
    dual: float
    gap: float
    rel_gap: float
    status: Status
    n_iter: int
    rounding: float = 0.0
