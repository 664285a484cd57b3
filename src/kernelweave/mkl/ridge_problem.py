"""Least squares on a stack of kernels, the problem of all solvers of RLS2; see `kernelweave.mkl.rls2`.

The gap of Problem 5 is a small difference of large numbers. The reported gap includes a bound of the rounding errors in
the objective and in the gap, to first order, for the kernels as stored. For a PSD kernel ``|K_ij| <= k_i k_j`` with
``k_i = sqrt(K_ii)``, so that diagonals are enough: with ``a = sum_i k_i |c_i|`` every partial sum of
``(K c)_i`` is at most ``k_i a``.

Rounding errors are treated as independent with mean zero: then they add up like the square root of their number, and
`SAFETY` times that is exceeded with a probability of about ``2 exp(-SAFETY^2 / 2)``. The deterministic bound (n where
this has sqrt(n), and sums where it has roots of sums of squares) is thousands of times larger at 1000 rows and would
reject paths whose solutions have ten correct digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import (
    InputError,
    check_row_weights,
    check_scale,
    check_targets,
    of_given_rows,
)
from kernelweave._threads import blas_threads_for
from kernelweave._types import Array, Index
from kernelweave.gram import Gram, as_gram
from kernelweave.machines.ridge import RidgeSystem, Workspace, ridge_system
from kernelweave.mkl.certify import OUTSIDE, included, of_null, outside, refuse_relaxed
from kernelweave.mkl.kernel_problem import OnStack
from kernelweave.results import Certificate, Solution, Statement, Status

#: Standard deviations allowed for a sum of rounding errors.
SAFETY = 4.0
#: Number of kernels whose diagonals are processed together.
CHUNK = 256


@dataclass(frozen=True, eq=False)
class RidgeProblem(OnStack):
    """The data of Problem 5 for the solvers.

    Attributes
    ----------
    gram : Gram
    targets : array of shape (n_outputs, n_samples)
        Outputs as rows; all outputs share the weights.
    inverse_weights : array of shape (n_samples,)
        Diagonal of N, the inverse of the sample weights.
    scale : array of shape (n_kernels,)
        s_m, all > 0.
    rows : array of bool, shape (n_given,), or None
        The given rows that are included; None for all. Rows of weight 0 are excluded.
    weight_sum : float or None
        Sum of the sample weights, if the rows stand for others; None for that of these rows.
    """

    gram: Gram
    targets: Array
    inverse_weights: Array
    scale: Array
    rows: NDArray[np.bool_] | None = None
    weight_sum: float | None = None
    #: Objectives are multiplied by alpha, the inverse of the weight of the loss.
    least_squares: ClassVar[bool] = True
    #: Its solvers take certificates from its own formulas.
    certifies_itself: ClassVar[bool] = True

    @property
    def n_eff(self) -> float:
        """Sum of the sample weights, the number of rows for selection criteria."""
        return float((1.0 / self.inverse_weights).sum()) if self.weight_sum is None else self.weight_sum

    @cached_property
    def traces(self) -> Array:
        """``s_m tr(K_m)``, shape (n_kernels,)."""
        return self.scale * self.gram.trace()

    def roots(self, kernels: Index) -> Array:
        """Square roots of the diagonals of ``s_m K_m``, shape (len(kernels), n_samples)."""
        diagonal = self.gram.diagonal(kernels)
        return np.sqrt(np.maximum(diagonal, 0.0) * self.scale[kernels, None])

    def parts(self) -> list[RidgeProblem]:
        """One problem for each output."""
        return [replace(self, targets=row[None]) for row in self.targets]

    def too_small(self, alpha: float) -> InputError:
        """The error for an alpha below the rounding errors of the kernels."""
        return InputError(
            f"`alpha`={alpha:.3g} is too small for these kernels (trace up to {float(self.traces.max()):.3g}): "
            "K + alpha I is not positive definite in floating point. Raise alpha, or normalise the kernels."
        )

    def system(self, weights: Array, alpha: float, work: Workspace | None = None) -> RidgeSystem:
        """Factorise ``K(weights) + alpha N``."""
        return ridge_system(self.gram, weights * self.scale, alpha, self.inverse_weights, work)

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers, at the regularisation parameter of a solution."""
        return ridge_statement(1.0 / self.inverse_weights, self.rows, self.scale, solution.alpha)

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of weights and coefficients, independent of the reported one.

        Summed over outputs with separate weights.
        """
        refuse_relaxed(solution)
        rows = included(solution, self.rows)
        if solution.weights.ndim == 1:
            return self._certificate(solution.alpha, solution.weights, rows)
        parts = zip(self.parts(), solution.weights, rows, strict=True)
        return Certificate.total([one._certificate(solution.alpha, w, c[None]) for one, w, c in parts])

    def _certificate(self, alpha: float, weights: Array, C: Array) -> Certificate:
        """That of weights on the simplex, which all outputs share."""
        if not (weights >= 0).all() or abs(math.fsum(weights) - 1.0) > OUTSIDE:
            return outside("joint")
        if math.isinf(alpha):
            return of_null(self.null_value(), C)
        with blas_threads_for(self.gram.n_samples):
            active = np.flatnonzero(weights)
            fitted = np.tensordot(weights[active], self.products(C, active), 1)
            quadratic_forms = self.quad(C)
        r = self.targets - fitted - alpha * self.inverse_weights * C
        level = float(np.vdot(fitted, C))
        residual = 0.5 * float(np.sum(np.square(r) / self.inverse_weights))
        loss = 0.5 * float(np.sum(np.square(self.targets - fitted) / self.inverse_weights))
        primal = loss + 0.5 * alpha * level
        gap = max(0.0, residual + 0.5 * alpha * (float(quadratic_forms.max()) - level))
        rounding = self.rounding_bound(alpha, weights, C, quadratic_forms, primal=primal, residual=residual)
        return Certificate.of("joint", primal, gap, rounding, Status.CONVERGED)

    def rounding_bound(
        self,
        alpha: float,
        weights: Array,
        C: Array,
        quadratic_forms: Array,
        *,
        primal: float,
        residual: float,
        enough: float = 0.0,
    ) -> float:
        """Bound of ``|computed - exact|`` of the objective plus that of the gap, in units of the objective.

        Parameters
        ----------
        alpha : float
        weights : array of shape (n_kernels,)
        C : array of shape (n_outputs, n_samples)
        quadratic_forms : array of shape (n_kernels,)
            Computed ``q_m``, or upper bounds of them.
        primal, residual : float
            The objective, and ``1/2 r' N^-1 r`` of equation (13).
        enough : float
            A bound from traces of the kernels alone is taken if it is at most this.

        Notes
        -----
        With errors e in ``f = K(d) c`` and e_m in ``s_m K_m c``, the objective changes by ``-(alpha/2 c + w r)' e``,
        and the gap by ``-(alpha/2 c + w r)' e + 1/2 e' N^-1 e + alpha/2 c' e_m`` for the kernel m with the largest
        quadratic form.
        """
        own = np.flatnonzero(weights)
        unit = np.finfo(np.float64).eps / 2 * SAFETY * math.sqrt(self.gram.n_samples + len(own) + 8)
        highest = float(quadratic_forms.max())

        def total(level: float, top: float, fitted: float) -> float:
            # rounding of the subtractions in r
            fitted += np.finfo(np.float64).eps * math.sqrt(8.0 * primal)
            return float(
                alpha * level
                + 0.5 * alpha * (top - highest)
                + 2.0 * math.sqrt(2.0 * residual) * fitted
                + fitted * fitted
                + 2.0 * unit * primal
            )

        # the trace bounds the diagonal
        lengths = np.sqrt(np.maximum(self.traces, 0.0))
        reach = lengths * float(np.linalg.norm(C))
        crude = unit * reach * (np.sqrt(np.maximum(quadratic_forms, 0.0)) + reach)
        along = unit * float(weights @ (reach * lengths)) / math.sqrt(float(self.inverse_weights.min()))
        if (bound := total(float(weights @ crude), float((quadratic_forms + crude).max()), along)) <= enough:
            return bound
        own_errors, rows = self._form_errors(own, C, quadratic_forms, unit)
        level = float(weights[own] @ own_errors)
        top = max(highest, float((quadratic_forms[own] + own_errors).max()))
        # precise bounds are computed only for kernels that could matter
        crude += quadratic_forms
        crude[own] = -np.inf
        others = np.flatnonzero(crude > top)
        for start in range(0, len(others), CHUNK):
            part = others[start : start + CHUNK]
            errors, _ = self._form_errors(part, C, quadratic_forms, unit)
            top = max(top, float((quadratic_forms[part] + errors).max()))
        fitted = unit * float(
            np.sqrt(np.sum(np.square((weights[own] * rows.T) @ self.roots(own)) / self.inverse_weights))
        )
        return total(level, top, fitted)

    def _form_errors(
        self, kernels: Index, C: Array, quadratic_forms: Array, unit: float
    ) -> tuple[Array, Array]:
        """Bounds of the errors in some quadratic forms, and their ``a``, shape (len(kernels), n_outputs)."""
        roots = self.roots(kernels)
        rows = roots @ np.abs(C).T
        spread = np.sqrt(np.square(roots) @ np.square(C).sum(axis=0))
        size = np.sqrt(np.maximum(quadratic_forms[kernels], 0.0)) + spread
        return unit * np.sqrt(np.square(rows).sum(axis=1)) * size, rows

    def null_value(self) -> float:
        """The objective of f = 0."""
        return 0.5 * float(np.sum(np.square(self.targets) / self.inverse_weights))


def make_problem(
    gram: Gram | ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    scale: ArrayLike | None = None,
) -> tuple[RidgeProblem, bool]:
    """Check arrays and build a `RidgeProblem` on the rows of positive weight; also, whether y had one dimension."""
    stack = as_gram(gram)
    targets, single = check_targets(y, stack.n_samples)
    weights = check_row_weights(sample_weight, stack.n_samples)
    factors = check_scale(scale, stack.n_kernels)
    rows = None
    if not weights.all():
        rows = weights > 0
        stack, targets, weights = stack.restrict(np.flatnonzero(rows)), targets[rows], weights[rows]
    return RidgeProblem(stack, np.ascontiguousarray(targets.T), 1.0 / weights, factors, rows), single


def first_kernel(problem: RidgeProblem) -> tuple[int, Array]:
    """Lemma 5: the kernel selected for alpha -> infinity, and ``A_m = s_m y' N^-1 K_m N^-1 y``."""
    scores = problem.quad(problem.targets / problem.inverse_weights)
    return int(np.argmax(scores)), scores


def infinite_alpha(problem: RidgeProblem) -> tuple[Array, Array]:
    """Weights and dual coefficients in the limit alpha -> infinity (f = 0)."""
    weights = np.zeros(problem.n_kernels)
    weights[first_kernel(problem)[0]] = 1.0
    return weights, np.zeros_like(problem.targets)


def null_result(problem: RidgeProblem, alpha: float, weights: Array, C: Array, tol: float) -> Solution:
    """The result for f = 0, exact up to the rounding of one sum."""
    value = problem.null_value()
    rounding = np.finfo(np.float64).eps * math.sqrt(problem.targets.size + 8) * value
    certificate = Certificate.of("joint", value, 0.0, rounding, Status.CONVERGED, tol=tol)
    return Solution(weights, C.T, 0.0, certificate, 1, alpha=alpha)


def ridge_statement(weights: Array, rows: NDArray[np.bool_] | None, scale: Array, alpha: float) -> Statement:
    """RLS2 in numbers, of all given rows."""
    return Statement("squared", 1.0, of_given_rows(weights, rows), scale, alpha, intercept=False)
