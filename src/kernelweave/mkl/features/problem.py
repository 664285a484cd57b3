"""Least squares on blocks of features for the solver, and its certificate.

With ``K_m = Z_m Z_m'`` Problem 5 of RLS2 is, for coefficients w and sample weights with diagonal matrix ``N^-1``,

    min_w  1/2 (y - Z w)' N^-1 (y - Z w) + alpha/2 (sum_m ||w_m|| / sqrt(s_m))^2 ,

the group lasso with the multiplier ``alpha sum_m ||w_m|| / sqrt(s_m)``. The kernel weights are the shares of the terms
of that sum, and any c is feasible in the dual,

    D(c) = alpha y'c - alpha^2/2 c'N c - alpha/2 max_m s_m ||Z_m' c||^2 .

The best multiple of ``c = N^-1 (y - Z w) / alpha`` has ``D = 1/2 (y'c)^2 / (c'N c + max_m s_m ||Z_m'c||^2 / alpha)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError, check_row_weights, check_scale, check_targets
from kernelweave.gram.features import FeatureStack
from kernelweave.mkl.certify import OUTSIDE, outside
from kernelweave.mkl.ridge_problem import RidgeProblem, ridge_statement
from kernelweave.mkl.ridge_rounding import SAFETY
from kernelweave.results import Certificate, RelaxedSolution, Solution, Statement, Status

Array = NDArray[np.float64]
Index = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Bounds:
    """Both bounds of the optimal value at one point, in the solver's units.

    Attributes
    ----------
    primal : float
    gap : float
        To the bound of the best multiple of the residual.
    multiple : float
        That multiple.
    rounding : float
        Bound of the rounding errors in both.
    """

    primal: float
    gap: float
    multiple: float
    rounding: float


@dataclass(frozen=True)
class Candidate:
    """The numbers of a solution that its certificate is computed from, in the units of the problem.

    Attributes
    ----------
    alpha : float
    weights : array of shape (n_kernels,)
    W : array of shape (n_outputs, n_features)
        Coefficients of the features; without columns for a stream, which has none.
    C : array of shape (n_outputs, n_samples)
        Dual coefficients.
    quadratic_forms : array of shape (n_kernels,), optional
        ``looks`` of all blocks at C, if a pass has just computed them; a certificate makes that pass otherwise.
    """

    alpha: float
    weights: Array
    W: Array
    C: Array
    quadratic_forms: Array | None = None


@dataclass(frozen=True)
class FeatureProblem:
    """The data of RLS2 on features.

    Internally, targets have length one, the largest block is of order one and rows are multiplied by the roots of their
    weights, so that squares neither overflow nor underflow: see `Y`, `unit` and `in_units`.

    Attributes
    ----------
    stack : FeatureStack
    targets : array of shape (n_outputs, n_samples)
        Outputs as rows; all outputs share the weights.
    sample_weight : array of shape (n_samples,) or None
        All > 0.
    scale : array of shape (n_kernels,)
        s_m, all > 0.
    rows : array of bool, shape (n_given,), or None
        The given rows that are included; None for all. Rows of weight 0 are excluded.
    """

    stack: FeatureStack
    targets: Array
    sample_weight: Array | None
    scale: Array
    rows: NDArray[np.bool_] | None = None

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.stack.n_kernels

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.targets)

    # ---- units ------------------------------------------------------------------------------------

    @cached_property
    def root(self) -> Array | None:
        """Roots of the sample weights, or None for ones."""
        return None if self.sample_weight is None else np.sqrt(self.sample_weight)

    @cached_property
    def _square_sums(self) -> Array:
        """``s_m sum_i w_i ||Z_m[i]||^2``, the traces of the kernels with their factors."""
        stack = self.stack
        given = stack.square_sums
        if self.sample_weight is not None:
            given = stack.weighted_square_sums(self.sample_weight)
        return self.scale * np.add.reduceat(given, stack.groups[:-1])

    @property
    def traces(self) -> Array:
        """Traces of the weighted kernels with their factors, shape (n_kernels,)."""
        return self._square_sums

    @cached_property
    def unit(self) -> float:
        """Size of the features, a power of two."""
        largest = float(self._square_sums.max())
        return _power_of_two(math.sqrt(largest)) if largest > 0 else 1.0

    @cached_property
    def length(self) -> float:
        """Size of the targets, a power of two."""
        largest = float(np.abs(self._whitened).max())
        if largest == 0:
            return 1.0
        return _power_of_two(largest * float(np.linalg.norm(self._whitened / largest)))

    @property
    def _whitened(self) -> Array:
        return self.targets if self.root is None else self.targets * self.root

    @cached_property
    def Y(self) -> Array:
        """Targets in the solver's units, shape (n_outputs, n_samples)."""
        return np.ascontiguousarray(self._whitened / self.length)

    @cached_property
    def sizes(self) -> Array:
        """Frobenius norms of the blocks in the solver's units, shape (n_kernels,)."""
        return np.sqrt(self._square_sums) / self.unit

    @cached_property
    def factors(self) -> Array:
        """Factors of the columns of every block, shape (n_kernels,)."""
        return np.sqrt(self.scale) / self.unit

    def in_units(self, alpha: float) -> float:
        """The regularisation parameter in the solver's units."""
        return alpha / self.unit / self.unit

    @cached_property
    def product_error(self) -> float:
        """Bound of the rounding error of a product of a block with a vector, as a fraction of their sizes."""
        terms = self.Y.shape[1] + float(self.stack.widths.max()) + 8.0
        return 0.5 * self.stack.precision * SAFETY * math.sqrt(terms)

    # ---- passes over the features -----------------------------------------------------------------

    def gradient(self, R: Array) -> Array:
        """``Z'R`` for rows of R in the solver's units, without the factors of the blocks."""
        return self.stack.products(R if self.root is None else R * self.root)

    def gradient_of_targets(self) -> Array:
        """``Z'Y`` in the solver's units, but for the factors of the blocks, shape (n_outputs, n_features)."""
        return self._gradient_of_targets

    @cached_property
    def _gradient_of_targets(self) -> Array:
        return self.gradient(self.Y)

    def quadratic_forms(self, G: Array) -> Array:
        """Squared norms of the blocks of gradients (n_points, n_outputs, n_features), shape (n_points, n_kernels)."""
        squares = np.square(G).sum(axis=1)
        return np.add.reduceat(squares, self.stack.groups[:-1], axis=1) * np.square(self.factors)

    def looks(self, residuals: list[Array]) -> Array:
        """Squared norms of all blocks of the gradients at some residuals, shape (n_points, n_kernels)."""
        G = self.gradient(np.concatenate(residuals))
        return self.quadratic_forms(G.reshape(len(residuals), self.n_outputs, -1))

    def looks_of_targets(self) -> Array:
        """The same of the targets, shape (n_kernels,)."""
        return self.quadratic_forms(self.gradient_of_targets()[None])[0]

    def residuals(self, index: Index, coef: Array) -> Array:
        """``Y - Z w`` for coefficients (n_points, n_outputs, len(index)) of some columns, of the same shape in rows."""
        fitted = self.stack.combine(index, coef.reshape(len(coef) * self.n_outputs, len(index)))
        if self.root is not None:
            fitted *= self.root
        return self.Y - fitted.reshape(len(coef), self.n_outputs, -1)

    def columns(self, kernels: Index) -> Array:
        """Columns of some blocks in the solver's units, as rows."""
        out = self.stack.columns(self.stack.owned(kernels))
        if self.root is not None:
            out *= self.root
        out *= np.repeat(self.factors[kernels], self.stack.widths[kernels])[:, None]
        return out

    # ---- certificates -----------------------------------------------------------------------------

    def bounds(
        self,
        a: float,
        R: Array,
        level: float,
        theta: Array,
        quadratic_forms: Array,
        length: float,
        *,
        best: bool = True,
    ) -> Bounds:
        """Both bounds, in the solver's units.

        Parameters
        ----------
        a : float
        R : array of shape (n_outputs, n_samples)
            The residual.
        level : float
            ``sum_m ||w_m||``.
        theta : array of shape (n_outputs, n_samples)
            A dual point, for example the residual.
        quadratic_forms : array of shape (n_kernels,)
            Squared norms of the blocks of ``Z' theta``.
        length : float
            ``sum_m ||w_m|| ||Z_m||``, for the rounding errors of the residual.
        best : bool
            Whether to use the best multiple of `theta`, or `theta`.
        """
        square, inner = float(np.vdot(theta, theta)), float(np.vdot(self.Y, theta))
        errors, size = float(np.vdot(R, R)), math.sqrt(square)
        highest = float(quadratic_forms.max()) / a
        primal = 0.5 * errors + 0.5 * a * level * level
        below = square + highest
        multiple = 1.0
        if best:
            multiple = inner / below if below > 0 and inner > 0 else 0.0
        dual = multiple * (inner - 0.5 * multiple * below)
        unit = self.product_error
        # errors of R, whose parts are the products with the coefficients and the targets
        wrong = unit * (length + float(np.linalg.norm(self.Y)))
        reach = float(np.square(np.sqrt(quadratic_forms) + unit * self.sizes * size).max()) / a
        lost = multiple * unit * float(np.linalg.norm(self.Y)) * size
        lost += 0.5 * multiple * multiple * (unit * square + reach - highest)
        rounding = math.sqrt(errors) * wrong + 0.5 * wrong * wrong + 4.0 * unit * primal + lost
        return Bounds(primal, max(0.0, primal - dual), multiple, rounding)

    def certify(self, solution: Solution) -> Certificate:
        """The certificate computed only from features' coefficients, weights and dual coefficients."""
        if isinstance(solution, RelaxedSolution):
            raise InputError(
                "The certificate of a relaxed solution belongs to the replaced coefficients: verify the solution "
                "without `relax`."
            )
        W = self._coefficients_of(solution)
        C = np.asarray(solution.dual_coef).reshape(len(solution.dual_coef), -1)
        C = np.ascontiguousarray((C if self.rows is None else C[self.rows]).T)
        if solution.weights.ndim == 1:
            return self.certificates([Candidate(solution.alpha, solution.weights, W, C)])[0]
        return Certificate.total(
            [
                part.certificates([Candidate(solution.alpha, d, w[None], c[None])])[0]
                for part, d, w, c in zip(self.parts(), solution.weights, W, C, strict=True)
            ]
        )

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers, at the regularisation parameter of a solution."""
        weights = np.ones(self.targets.shape[1]) if self.sample_weight is None else self.sample_weight
        return ridge_statement(weights, self.rows, self.scale, solution.alpha)

    def _coefficients_of(self, solution: Solution) -> Array:
        """Coefficients of the features, shape (n_outputs, n_features)."""
        features = np.asarray(solution.feature_coef)
        if features.shape[:1] != (self.stack.n_features,):
            raise InputError(
                f"The solution must have coefficients of {self.stack.n_features} features, got shape {features.shape}. "
                "Verify a solution of kernels with the problem of the kernels."
            )
        return np.ascontiguousarray(features.reshape(len(features), -1).T)

    def certificates(self, candidates: list[Candidate]) -> list[Certificate]:
        """Certificates of several solutions, from one pass over all blocks and one over those with coefficients."""
        found = [self._without_pass(one) for one in candidates]
        open_ = [one for one, known in zip(candidates, found, strict=True) if known is None]
        bounds = iter(self._bounds_of(open_) if open_ else [])
        return [self._certificate(next(bounds)) if known is None else known for known in found]

    def _without_pass(self, candidate: Candidate) -> Certificate | None:
        """The certificate of weights outside of the simplex, and that of f = 0 for infinite alpha."""
        weights = candidate.weights
        if not (weights >= 0).all() or abs(math.fsum(weights) - 1.0) > OUTSIDE:
            return outside("joint")
        if not math.isinf(candidate.alpha):
            return None
        value = self.null_value()
        left = math.inf if candidate.C.any() or candidate.W.any() else 0.0
        return Certificate.of("joint", value, left, 16.0 * EPS * value, Status.CONVERGED)

    def _certificate(self, bounds: Bounds) -> Certificate:
        value = self.length * self.length
        return Certificate.of(
            "joint", bounds.primal * value, bounds.gap * value, bounds.rounding * value, Status.CONVERGED
        )

    def _duals_of(self, candidates: list[Candidate]) -> list[Array]:
        """Dual points of coefficients, which need not be residuals, in the solver's units."""
        root = 1.0 if self.root is None else self.root
        return [one.C / root * (one.alpha / self.length) for one in candidates]

    def _quadratic_forms_of(self, candidates: list[Candidate], duals: list[Array]) -> list[Array]:
        """Squared norms of all blocks of the gradients, by one pass for those that are not known."""
        unknown = [k for k, one in enumerate(candidates) if one.quadratic_forms is None]
        fresh: Iterator[Array] = iter(self.looks([duals[k] for k in unknown]) if unknown else [])
        return [next(fresh) if one.quadratic_forms is None else one.quadratic_forms for one in candidates]

    def _bounds_of(self, candidates: list[Candidate]) -> list[Bounds]:
        stack = self.stack
        on = np.any([one.W.any(axis=0) for one in candidates], axis=0)
        kernels = np.flatnonzero(np.logical_or.reduceat(on, stack.groups[:-1]))
        index, widths = stack.owned(kernels), stack.widths[kernels]
        coef = np.array([one.W[:, index] for one in candidates]) / self.length
        residuals = self.residuals(index, coef)
        duals = self._duals_of(candidates)
        quadratic_forms = self._quadratic_forms_of(candidates, duals)
        out = []
        for one, own, R, theta, q in zip(candidates, coef, residuals, duals, quadratic_forms, strict=True):
            squares = np.square(own / np.repeat(self.factors[kernels], widths)).sum(axis=0)
            norms = np.zeros(len(kernels))
            if len(kernels):
                norms = np.sqrt(np.add.reduceat(squares, np.cumsum(widths) - widths))
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = np.where(norms > 0, np.square(norms) / one.weights[kernels], 0.0)
            level, length = math.sqrt(float(terms.sum())), float(norms @ self.sizes[kernels])
            out.append(self.bounds(self.in_units(one.alpha), R, level, theta, q, length, best=False))
        return out

    # ---- conversions ------------------------------------------------------------------------------

    def parts(self) -> list[FeatureProblem]:
        """One problem for each output."""
        return [replace(self, targets=row[None]) for row in self.targets]

    def null_value(self) -> float:
        """The objective of f = 0."""
        return 0.5 * float(np.vdot(self._whitened, self._whitened))

    def for_all_rows(self, result: Solution) -> Solution:
        """A result with coefficients for all given rows: zeros for those of weight 0."""
        if self.rows is None:
            return result
        coef = np.zeros((len(self.rows), result.dual_coef.shape[1]))
        coef[self.rows] = result.dual_coef
        return replace(result, dual_coef=coef)

    def on_kernels(self, kernels: Index | None = None) -> RidgeProblem:
        """The same problem on factors of some kernels."""
        chosen = np.arange(self.n_kernels) if kernels is None else kernels
        inverse = np.ones(self.targets.shape[1]) if self.sample_weight is None else 1.0 / self.sample_weight
        return RidgeProblem(self.stack.gram(kernels), self.targets, inverse, self.scale[chosen], self.rows)

    def features_of(self, weights: Array, C: Array) -> Array:
        """``w_m = d_m s_m Z_m'c``, shape (n_outputs, n_features), for dual coefficients (n_outputs, n_samples)."""
        active = np.flatnonzero(weights)
        index = self.stack.owned(active)
        out = np.zeros((len(C), self.stack.n_features))
        share = np.repeat((weights * self.scale)[active], self.stack.widths[active])
        out[:, index] = (C @ self.stack.columns(index).T) * share
        return out

    def with_features(self, result: Solution) -> Solution:
        """A solution on kernels, dual_coef (n_samples, n_outputs), with the coefficients of the features."""
        rows = np.ascontiguousarray(result.dual_coef.T)
        return replace(result, feature_coef=self.features_of(result.weights, rows).T)


def make_feature_problem(
    stack: FeatureStack, y: ArrayLike, sample_weight: ArrayLike | None = None, scale: ArrayLike | None = None
) -> tuple[FeatureProblem, bool]:
    """Check arrays and build a problem on the rows of positive weight; also return whether y had one dimension."""
    kept, targets, weights, factors, rows, single = checked_parts(stack, y, sample_weight, scale)
    return FeatureProblem(kept, targets, weights, factors, rows), single


class Restrictable(Protocol):
    """Kernels on rows of which some can be left out."""

    n_samples: int
    n_kernels: int

    def restrict(self, rows: NDArray[np.intp]) -> Self:
        """The same on some rows."""


Kernels = TypeVar("Kernels", bound=Restrictable)


def checked_parts(
    stack: Kernels, y: ArrayLike, sample_weight: ArrayLike | None, scale: ArrayLike | None
) -> tuple[Kernels, Array, Array | None, Array, NDArray[np.bool_] | None, bool]:
    """What a problem consists of, on the rows of positive weight, checked.

    Returns
    -------
    stack
        On these rows.
    targets : array of shape (n_outputs, n_rows)
    weights : array of shape (n_rows,) or None
        None for ones.
    factors : array of shape (n_kernels,)
    rows : array of bool, shape (n_samples,), or None
        The rows that are included; None for all.
    single : bool
        Whether y had one dimension.
    """
    targets, single = check_targets(y, stack.n_samples)
    factors = check_scale(scale, stack.n_kernels)
    weights, rows = None, None
    if sample_weight is not None:
        weights = check_row_weights(sample_weight, stack.n_samples)
        if not weights.all():
            rows = weights > 0
            stack, targets, weights = stack.restrict(np.flatnonzero(rows)), targets[rows], weights[rows]
        if (weights == 1.0).all():
            weights = None
    return stack, np.ascontiguousarray(targets.T), weights, factors, rows, single


def _power_of_two(size: float) -> float:
    return math.ldexp(1.0, math.frexp(size)[1])
