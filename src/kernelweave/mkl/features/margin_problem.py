"""A machine on blocks of features for the solver, and its certificate.

With ``K_m = Z_m Z_m'`` the problem of kernel weights on the simplex is, for coefficients w and an intercept,

    min  sum_i C_i loss(y_i, f_i) + 1/2 (sum_m ||w_m|| / sqrt(s_m))^2 ,      f = Z w + intercept .

The kernel weights are the shares of the terms of the sum. For other sets of weights the square becomes
``min_d sum_m ||w_m||^2 / (d_m s_m)``, and for the dual any coefficients b in their box with sum zero are feasible:

    D(b) = dual term(b) - 1/2 max_d sum_m d_m q_m ,      q_m = s_m ||Z_m'b||^2 .

The gap is a sum of two terms that are not negative: that of the losses at f and b, and that of the norms,
``1/2 (square + max_d <d, q>) - sum_m w_m'Z_m'b``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from kernelweave._checks import InputError, as_floats, check_positive, check_row_weights, check_scale
from kernelweave.gram.chunked import ChunkedFeatures
from kernelweave.gram.features import FeatureStack
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import as_loss
from kernelweave.machines.machine import OUTSIDE as OUTSIDE_OF_BOX
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import EPS, sum_error
from kernelweave.mkl.certify import OUTSIDE, outside
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.weight_sets import WeightSet, as_weight_set
from kernelweave.results import Certificate, Solution, Statement, Status

#: Multiples of coefficients are taken where they gain more than this share of the gap.
WORTH = 0.02
#: What depends on all rows and the factors of the kernels, and not on the machine.
UNITS = ("traces", "unit", "factors", "sizes")

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Values:
    """The value of coefficients and its distance from a bound, in the solver's units.

    Attributes
    ----------
    primal, gap : float
    rounding : float
        Bound of the rounding errors in both.
    """

    primal: float
    gap: float
    rounding: float


@dataclass(frozen=True)
class MarginFeatureProblem:
    """A machine on blocks of features, and the set of the weights of their kernels.

    Internally the largest kernel has a trace of order one: features are divided by `unit`, and objectives and costs are
    multiplied by its square.

    Attributes
    ----------
    stack : FeatureStack or ChunkedFeatures
    machine : Machine
        On the rows of positive weight only.
    scale : array of shape (n_kernels,)
        s_m, all > 0.
    weight_set : WeightSet
    rows : array of bool, shape (n_given,), or None
        The given rows that are included; None for all. Rows of weight 0 are excluded.
    """

    stack: FeatureStack | ChunkedFeatures
    machine: Machine
    scale: Array
    weight_set: WeightSet
    rows: NDArray[np.bool_] | None = None

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.stack.n_kernels

    @property
    def in_memory(self) -> bool:
        """Whether the rows are held: a pass over them costs little."""
        return isinstance(self.stack, FeatureStack)

    @property
    def vouches(self) -> bool:
        """Whether certificates of its solutions are its own: another would take a pass over rows on a disk."""
        return not self.in_memory

    @property
    def n_given(self) -> int:
        """Number of given rows."""
        return self.stack.n_samples if self.rows is None else len(self.rows)

    # ---- units ------------------------------------------------------------------------------------

    @cached_property
    def traces(self) -> Array:
        """Traces of the kernels with their factors, shape (n_kernels,)."""
        return self.scale * np.add.reduceat(self.stack.square_sums, self.stack.groups[:-1])

    @cached_property
    def unit(self) -> float:
        """Size of the features, a power of two."""
        largest = float(self.traces.max())
        return math.ldexp(1.0, math.frexp(math.sqrt(largest))[1]) if largest > 0 else 1.0

    @cached_property
    def factors(self) -> Array:
        """Factors of the columns, shape (n_features,)."""
        return np.repeat(np.sqrt(self.scale) / self.unit, self.stack.widths)

    @cached_property
    def sizes(self) -> Array:
        """Norms of the columns in the solver's units, shape (n_features,)."""
        return np.sqrt(self.stack.square_sums) * self.factors

    @cached_property
    def costs(self) -> Array:
        """C_i in the solver's units."""
        return self.machine.costs * self.unit * self.unit

    # ---- passes over the features -----------------------------------------------------------------

    def gradient(self, b: Array) -> Array:
        """``Z'b`` in the solver's units, shape (n_features,)."""
        return self.stack.products(np.ascontiguousarray(b)[None])[0] * self.factors

    def fitted(self, w: Array) -> Array:
        """``Z w`` for coefficients in the solver's units."""
        index = np.flatnonzero(w)
        return self.stack.combine(index, (w * self.factors)[None, index])[0]

    def norms(self, w: Array) -> Array:
        """Norms of the blocks of an array over features."""
        top = float(np.abs(w).max(initial=0.0))
        if top == 0.0:
            return np.zeros(self.n_kernels)
        return top * np.sqrt(np.add.reduceat(np.square(w / top), self.stack.groups[:-1]))

    # ---- certificates -----------------------------------------------------------------------------

    def values(self, weights: Array, w: Array, intercept: float, f: Array, b: Array, G: Array) -> Values:
        """The value of coefficients, and its distance from the bound by b, in the solver's units.

        Parameters
        ----------
        weights : array of shape (n_kernels,)
        w, G : arrays of shape (n_features,)
            Coefficients, and ``Z'b``.
        intercept : float
        f, b : arrays of shape (n_samples,)
            Decision values and coefficients of rows.
        """
        loss, y, costs, n = self.machine.loss, self.machine.y, self.costs, len(f)
        norms, reach = self.norms(w), self.norms(G)
        used = norms > 0
        if (weights[used] <= 0).any():
            return Values(math.inf, math.inf, 0.0)
        square = float((np.square(norms[used]) / weights[used]).sum())
        q = np.square(reach)
        support = self.weight_set.support(q)
        losses = float(costs @ loss.value(y, f))
        primal = losses + 0.5 * square
        gap = loss.gap(y, costs, b, f) + max(0.0, 0.5 * (square + support) - float(w @ G))

        # f is off by at most `wrong` in Euclidean norm
        terms = int(np.count_nonzero(w)) + 1
        wrong = sum_error(terms) * (float(np.abs(w) @ self.sizes) + math.sqrt(n) * abs(intercept))
        wrong += EPS * math.sqrt(n) * float(np.abs(y).max())
        steepest = np.maximum(
            np.abs(costs * loss.slope(y, f - wrong)), np.abs(costs * loss.slope(y, f + wrong))
        )
        rounding = float(np.linalg.norm(steepest)) * wrong + sum_error(n) * losses + 8.0 * EPS * square
        # the dual term, and coefficients whose sum is not quite zero
        slope = loss.dual_slope(y, costs, b)
        share, side = self.machine.imbalance(b)
        rounding += loss.gap_error(y, costs, b, f) + sum_error(n) * float(
            np.abs(b) @ (np.abs(slope) + np.abs(y))
        )
        rounding += share * float(side @ np.abs(slope - f))
        blocks = np.sqrt(self.traces) / self.unit
        away = (sum_error(n) + share) * blocks * float(np.linalg.norm(b))
        more = self.weight_set.support(np.square(reach + away)) - support
        rounding += 0.5 * more + float(norms @ away)
        # on a device without float64 every sum errs by more
        return Values(primal, gap, rounding * (self.stack.precision / EPS))

    def multiple(self, b: Array, support: float, gap: float) -> float:
        """The multiple of coefficients with the best bound; 1 if others gain only a small share of the gap."""
        loss, y, costs = self.machine.loss, self.machine.y, self.costs
        low, high = loss.bounds(y, costs)
        with np.errstate(divide="ignore", invalid="ignore"):
            most = float(np.where(b > 0, high / b, np.where(b < 0, low / b, np.inf)).min())

        def slope(t: float) -> float:
            return float(b @ loss.dual_slope(y, costs, t * b)) - t * support

        if not b.any() or not most > 0.0:
            return 1.0
        one = slope(min(1.0, most))
        if most >= 1.0 and one * one <= 2.0 * support * WORTH * gap:
            return 1.0
        if loss.quadratic:
            half = slope(0.5)
            found = 0.5 + 0.5 * half / (half - one) if half > one else most
            if not np.isfinite(found):
                return min(1.0, most)
            return float(np.clip(found, 0.0, most))
        if one > 0.0:
            lower, upper = min(1.0, most), min(most, 2.0)
            if slope(upper) > 0.0:
                lower, upper = upper, most
            if slope(upper) > 0.0:
                return upper
        else:
            lower, upper = (0.5, 1.0) if slope(0.5) > 0.0 else (0.0, 0.5)
        if not slope(lower) > 0.0:
            return lower
        return float(brentq(slope, lower, upper, xtol=1e-4, rtol=1e-4))

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers."""
        return self.weight_set.in_statement(self.machine.statement(self.scale, self.rows))

    def certify(self, solution: Solution) -> Certificate:
        """The certificate computed only from features' coefficients, intercept, weights and dual coefficients."""
        return _certify(self, solution)

    # ---- conversions ------------------------------------------------------------------------------

    def solution(
        self,
        weights: Array,
        w: Array,
        intercept: float,
        b: Array,
        *,
        status: Status,
        tol: float,
        n_iter: int,
        trace: dict[str, Array],
        values: Values | None = None,
    ) -> Solution:
        """Coefficients in the solver's units as a solution, with its certificate."""
        if values is None:
            values = self.values(weights, w, intercept, self.fitted(w) + intercept, b, self.gradient(b))
        square = self.unit * self.unit
        return Solution(
            weights=weights,
            dual_coef=self.for_all_rows(b / square),
            intercept=intercept,
            certificate=Certificate.of(
                "joint",
                values.primal / square,
                values.gap / square,
                values.rounding / square,
                status,
                tol=tol,
            ),
            n_iter=n_iter,
            trace=trace,
            feature_coef=w * self.factors,
        )

    def for_all_rows(self, b: Array) -> Array:
        """Coefficients of all given rows: zeros for those of weight 0."""
        if self.rows is None:
            return b
        out = np.zeros(len(self.rows))
        out[self.rows] = b
        return out

    def at(self, C: float) -> MarginFeatureProblem:
        """The same problem with another C."""
        return self.with_parts(machine=replace(self.machine, C=C))

    def with_parts(self, **parts: Any) -> MarginFeatureProblem:
        """The problem with other attributes, in the units of this one."""
        other = replace(self, **parts)
        for name in UNITS:
            other.__dict__[name] = getattr(self, name)
        return other

    def on_kernels(self) -> KernelProblem:
        """The same problem on factors of the kernels."""
        return KernelProblem(self.stack.gram(), self.machine, self.scale, self.weight_set)

    def with_features(self, found: Solution, tol: float) -> Solution:
        """A solution on kernels as one on features, certified by these."""
        b = found.dual_coef * self.unit * self.unit
        per_column = np.repeat(found.weights, self.stack.widths)
        G = self.gradient(b)
        solution = self.solution(
            found.weights,
            per_column * G,
            float(found.intercept),
            b,
            status=found.status,
            tol=tol,
            n_iter=found.n_iter,
            trace=dict(found.trace),
        )
        return replace(solution, n_machines=found.n_machines)


def make_margin_feature_problem(
    stack: FeatureStack | ChunkedFeatures,
    y: ArrayLike,
    C: float,
    weight_set: str | WeightSet,
    *,
    loss: str | Loss = "hinge",
    epsilon: float = 0.1,
    sample_weight: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    fit_intercept: bool = True,
) -> MarginFeatureProblem:
    """Check arrays and put a machine on the rows of positive weight."""
    targets = as_floats(y, "y")
    if targets.shape != (stack.n_samples,):
        raise InputError(
            f"`y` must have one entry per row of `Z`, shape ({stack.n_samples},), got {targets.shape}."
        )
    factors = check_scale(scale, stack.n_kernels)
    kind, cost = as_loss(loss, epsilon), check_positive(C, "C")
    weights = check_row_weights(sample_weight, stack.n_samples)
    targets = kind.check(targets, cost * weights)
    rows = None
    if not weights.all():
        rows = weights > 0
        stack, targets, weights = stack.restrict(np.flatnonzero(rows)), targets[rows], weights[rows]
    machine = Machine(targets, cost, kind, weights, fit_intercept=fit_intercept)
    return MarginFeatureProblem(stack, machine, factors, as_weight_set(weight_set, stack.n_kernels), rows)


def _certify(problem: MarginFeatureProblem, solution: Solution) -> Certificate:
    features = np.asarray(solution.feature_coef)
    if features.shape != (problem.stack.n_features,):
        raise InputError(
            f"The solution must have coefficients of {problem.stack.n_features} features, got shape {features.shape}. "
            "Verify a solution of kernels with the problem of the kernels."
        )
    weights = solution.weights
    away = float(np.abs(problem.weight_set.project(weights) - weights).max())
    if not away <= OUTSIDE * float(np.abs(weights).max()):
        return outside("joint")
    square = problem.unit * problem.unit
    b = np.asarray(solution.dual_coef, dtype=np.float64)
    b = (b if problem.rows is None else b[problem.rows]) * square
    feasible = problem.machine.feasible(b / square, OUTSIDE_OF_BOX)
    w = features / problem.factors
    intercept = float(solution.intercept)
    found = problem.values(weights, w, intercept, problem.fitted(w) + intercept, b, problem.gradient(b))
    feasible = feasible and (problem.machine.fit_intercept or intercept == 0.0)
    gap = found.gap if feasible else math.inf
    return Certificate.of(
        "joint", found.primal / square, gap / square, found.rounding / square, Status.CONVERGED
    )
