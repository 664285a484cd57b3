"""Least squares on a stack of kernels, the problem of all solvers of RLS2; see `kernelweave.mkl.rls2`."""

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
)
from kernelweave._threads import blas_threads_for
from kernelweave.gram import Gram, as_gram
from kernelweave.machines.ridge import RidgeSystem, Workspace, ridge_system
from kernelweave.mkl.certify import OUTSIDE, outside
from kernelweave.mkl.ridge_rounding import rounding_bound
from kernelweave.results import Certificate, RelaxedSolution, Solution, Statement, Status

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class RidgeProblem:
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

    @property
    def n_eff(self) -> float:
        """Sum of the sample weights, the number of rows for selection criteria."""
        return float((1.0 / self.inverse_weights).sum()) if self.weight_sum is None else self.weight_sum

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.gram.n_kernels

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

    def for_all_rows(self, result: Solution) -> Solution:
        """A result with coefficients for all given rows: zeros for those of weight 0."""
        if self.rows is None:
            return result
        coef = np.zeros((len(self.rows), result.dual_coef.shape[1]))
        coef[self.rows] = result.dual_coef
        return replace(result, dual_coef=coef)

    def too_small(self, alpha: float) -> InputError:
        """The error for an alpha below the rounding errors of the kernels."""
        return InputError(
            f"`alpha`={alpha:.3g} is too small for these kernels (trace up to {float(self.traces.max()):.3g}): "
            "K + alpha I is not positive definite in floating point. Raise alpha, or normalise the kernels."
        )

    def system(self, weights: Array, alpha: float, work: Workspace | None = None) -> RidgeSystem:
        """Factorise ``K(weights) + alpha N``."""
        return ridge_system(self.gram, weights * self.scale, alpha, self.inverse_weights, work)

    def quad(self, C: Array, kernels: Index | None = None) -> Array:
        """Upper bounds of ``sum_t s_m c_t' K_m c_t``, exact if the representation is."""
        scale = self.scale if kernels is None else self.scale[kernels]
        residual = self.gram.residual_trace if kernels is None else self.gram.residual_trace[kernels]
        quadratic_forms = self.gram.quadratic_forms(C, kernels)
        if residual.any():
            quadratic_forms = quadratic_forms + residual * float(np.vdot(C, C))
        return scale * quadratic_forms

    def products(self, C: Array, kernels: Index) -> Array:
        """``s_m K_m c_t``, shape (len(kernels), n_outputs, n_samples)."""
        V = self.gram.matvecs(C, kernels)
        V *= self.scale[kernels, None, None]
        return V

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers, at the regularisation parameter of a solution."""
        return ridge_statement(1.0 / self.inverse_weights, self.rows, self.scale, solution.alpha)

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of weights and coefficients, independent of the reported one."""
        return _certify(self, solution)

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


def _certify(problem: RidgeProblem, solution: Solution) -> Certificate:
    """RLS2: the gap of weights on the simplex and coefficients, summed over outputs with separate weights."""
    if isinstance(solution, RelaxedSolution):
        raise InputError(
            "The certificate of a relaxed solution belongs to the replaced coefficients: verify the solution "
            "without `relax`."
        )
    C = np.asarray(solution.dual_coef).reshape(len(solution.dual_coef), -1)
    if problem.rows is not None:
        C = C[problem.rows]
    rows = np.ascontiguousarray(C.T)
    if solution.weights.ndim == 1:
        return _ridge(problem, solution.alpha, solution.weights, rows)
    parts = zip(problem.parts(), solution.weights, rows, strict=True)
    return Certificate.total([_ridge(part, solution.alpha, w, c[None]) for part, w, c in parts])


def _ridge(problem: RidgeProblem, alpha: float, weights: Array, C: Array) -> Certificate:
    if not (weights >= 0).all() or abs(math.fsum(weights) - 1.0) > OUTSIDE:
        return outside("joint")
    if math.isinf(alpha):
        value = problem.null_value()
        left = math.inf if C.any() else 0.0
        return Certificate.of("joint", value, left, 16.0 * np.finfo(float).eps * value, Status.CONVERGED)
    with blas_threads_for(problem.gram.n_samples):
        active = np.flatnonzero(weights)
        V = problem.products(C, active)
        fitted = np.tensordot(weights[active], V, 1)
        quadratic_forms = problem.quad(C)
    r = problem.targets - fitted - alpha * problem.inverse_weights * C
    level = float(np.vdot(fitted, C))
    residual = 0.5 * float(np.sum(np.square(r) / problem.inverse_weights))
    primal = (
        0.5 * float(np.sum(np.square(problem.targets - fitted) / problem.inverse_weights))
        + 0.5 * alpha * level
    )
    gap = max(0.0, residual + 0.5 * alpha * (float(quadratic_forms.max()) - level))
    rounding = rounding_bound(problem, alpha, weights, C, quadratic_forms, primal=primal, residual=residual)
    return Certificate.of("joint", primal, gap, rounding, Status.CONVERGED)


def ridge_statement(weights: Array, rows: NDArray[np.bool_] | None, scale: Array, alpha: float) -> Statement:
    """RLS2 in numbers, of all given rows."""
    given = weights
    if rows is not None:
        given = np.zeros(len(rows))
        given[rows] = weights
    return Statement("squared", 1.0, given, scale, alpha, intercept=False)
