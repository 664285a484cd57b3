"""A loss on blocks of features for the solvers, and its certificate.

With ``K_m = Z_m Z_m'`` the problem of kernel weights on the simplex is, for coefficients w and decision values f,

    min  sum_i C_i loss(y_i, f_i) + 1/2 (sum_m ||w_m|| / sqrt(s_m))^2 ,      f = Z w + intercept .

The kernel weights are the shares of the terms of the sum. For other sets of weights the square becomes
``min_d sum_m ||w_m||^2 / (d_m s_m)``, and for the dual any coefficients b of the rows in their box are feasible, with
sum zero where there is an intercept:

    D(b) = dual term(b) - 1/2 max_d sum_m d_m q_m ,      q_m = s_m ||Z_m'b||^2 .

The gap is a sum of two terms that are not negative: that of the losses at f and b, and that of the norms,
``1/2 (square + max_d <d, q>) - b'Z w``. Neither asks how the kernels are held: a certificate needs the decision values,
the square and the quadratic forms, which features in memory or in chunks, and streams of kernels, each compute in their
way.

RLS2 is the squared loss on the simplex, without an intercept and for one or several outputs, which share the weights.
Its objective is multiplied by ``alpha = 1 / C``, so that it is ``1/2 ||y - f||^2 + alpha/2 (...)^2``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from kernelweave._checks import (
    InputError,
    as_floats,
    check_positive,
    check_row_weights,
    check_scale,
    check_targets,
    of_given_rows,
)
from kernelweave._types import Array, Index
from kernelweave.gram.chunked import ChunkedFeatures
from kernelweave.gram.factors import FactorGram
from kernelweave.gram.features import FeatureStack
from kernelweave.gram.statistics import BlockStatistics
from kernelweave.gram.streams import KernelStream
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import Squared
from kernelweave.machines.machine import OUTSIDE as OUTSIDE_OF_BOX
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import EPS, imbalance, sum_error
from kernelweave.mkl.certify import OUTSIDE, included, of_null, outside, refuse_relaxed
from kernelweave.mkl.features.summaries import Summary, summarised
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.ridge_problem import SAFETY, RidgeProblem, ridge_statement
from kernelweave.mkl.weight_sets import WeightSet, as_weight_set
from kernelweave.results import Certificate, Solution, Statement, Status

#: Multiples of coefficients are taken where they gain more than this share of the gap.
WORTH = 0.02
#: Numbers of a problem that change with C.
OF_C = ("machine", "costs", "_losses")
#: Those that a problem on other rows takes over.
UNITS = ("traces", "unit", "kernel_factors", "factors", "kernel_sizes", "sizes")


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class Candidate:
    """The numbers of a solution that its certificate is computed from, in the units of the problem.

    Attributes
    ----------
    C : float
    weights : array of shape (n_kernels,)
    W : array of shape (n_outputs, n_features)
        Coefficients of the features; without columns for a stream, which has none.
    b : array of shape (n_outputs, n_samples)
        Dual coefficients.
    intercept : float
    quadratic_forms : array of shape (n_kernels,), optional
        Those at b in the solver's units, if a pass has just computed them; a certificate makes that pass otherwise.
    """

    C: float
    weights: Array
    W: Array
    b: Array
    intercept: float = 0.0
    quadratic_forms: Array | None = None


@dataclass(frozen=True, eq=False)
class FeatureProblem:
    """A loss on rows with explicit features in blocks, or on kernels that are made when needed.

    Internally the largest kernel has a trace of order one: features are divided by `unit`, and costs are multiplied by
    its square. With the squared loss targets have length one, too, and rows are multiplied by the roots of their
    weights, so that squares neither overflow nor underflow.

    Attributes
    ----------
    stack : FeatureStack, ChunkedFeatures or KernelStream
        On the rows of positive weight.
    targets : array of shape (n_outputs, n_samples)
        Outputs as rows; all outputs share the weights. One output with losses other than the squared one.
    loss : Loss
    weight_set : WeightSet
    C : float
        Weight of the loss; NaN for RLS2 without a regularisation parameter, which its solutions have.
    sample_weight : array of shape (n_samples,) or None
        All > 0; None for ones.
    scale : array of shape (n_kernels,)
        s_m, all > 0.
    rows : array of bool, shape (n_given,), or None
        The given rows that are included; None for all. Rows of weight 0 are excluded.
    least_squares : bool
        Whether this is RLS2, whose objective is multiplied by ``1 / C``, and which has no intercept.
    fit_intercept : bool
    summary : Summary or None
        The rows that these rows stand for.
    """

    stack: Any
    targets: Array
    loss: Loss
    weight_set: WeightSet
    C: float
    sample_weight: Array | None
    scale: Array
    rows: NDArray[np.bool_] | None = None
    least_squares: bool = False
    fit_intercept: bool = True
    summary: Summary | None = field(default=None, repr=False)

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return int(self.stack.n_kernels)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.targets)

    @cached_property
    def machine(self) -> Machine:
        """The loss with its data."""
        return Machine(
            self.targets[0], self.C, self.loss, self.sample_weight, fit_intercept=self.fit_intercept
        )

    @property
    def in_memory(self) -> bool:
        """Whether the rows are held: a pass over them costs little."""
        return isinstance(self.stack, FeatureStack)

    @property
    def certifies_itself(self) -> bool:
        """Whether certificates of its solutions are its own: another would take a pass over files or kernels."""
        return not self.in_memory

    @property
    def n_given(self) -> int:
        """Number of given rows."""
        return int(self.stack.n_samples) if self.rows is None else len(self.rows)

    # ---- units ------------------------------------------------------------------------------------

    @cached_property
    def root(self) -> Array | None:
        """Roots of the sample weights, by which rows are multiplied; None for ones and for other losses."""
        return None if self.sample_weight is None or not self.least_squares else np.sqrt(self.sample_weight)

    @cached_property
    def _first(self) -> tuple[Array, Array]:
        """Forms of the targets and traces of a stream, by its first pass."""
        weights = np.ones(self.Y.shape[1]) if self.sample_weight is None else self.sample_weight
        quadratic_forms, traces = self.stack.looks(self._given_rows(self.Y), weights=weights)
        return quadratic_forms.sum(axis=0), traces

    @cached_property
    def traces(self) -> Array:
        """Traces of the kernels with their factors, of weighted rows for the squared loss, shape (n_kernels,)."""
        if isinstance(self.stack, KernelStream):
            return self.scale * self._first[1]
        given = self.stack.square_sums
        if self.root is not None:
            given = self.stack.weighted_square_sums(self.sample_weight)
        return self.scale * np.add.reduceat(given, self.stack.groups[:-1])

    @cached_property
    def unit(self) -> float:
        """Size of the features, a power of two."""
        largest = float(self.traces.max())
        return _power_of_two(math.sqrt(largest)) if largest > 0 else 1.0

    @cached_property
    def length(self) -> float:
        """Size of the targets, a power of two; 1 for losses that are not homogeneous."""
        largest = float(np.abs(self._whitened).max()) if self.least_squares else 0.0
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
    def kernel_sizes(self) -> Array:
        """Frobenius norms of the blocks in the solver's units, shape (n_kernels,)."""
        return np.sqrt(self.traces) / self.unit

    @cached_property
    def sizes(self) -> Array:
        """Norms of the columns in the solver's units, shape (n_features,)."""
        return np.sqrt(self.stack.square_sums) * self.factors

    @cached_property
    def kernel_factors(self) -> Array:
        """Factors of the columns of every block, shape (n_kernels,)."""
        return np.sqrt(self.scale) / self.unit

    @cached_property
    def factors(self) -> Array:
        """Factors of the columns, shape (n_features,)."""
        return np.repeat(self.kernel_factors, self.stack.widths)

    @cached_property
    def costs(self) -> Array:
        """C_i in the solver's units."""
        if self.least_squares:
            return np.full(self.targets.shape[1], self.C * self.unit * self.unit)
        return self.machine.costs * self.unit * self.unit

    @cached_property
    def _losses(self) -> tuple[Array, Array]:
        """Targets and costs of all outputs, one after another."""
        return self.Y.ravel(), np.tile(self.costs, self.n_outputs) if self.n_outputs > 1 else self.costs

    @cached_property
    def _largest(self) -> float:
        return float(np.abs(self.Y).max(initial=0.0))

    @property
    def objective_unit(self) -> float:
        """What values in the solver's units are multiplied by."""
        if self.least_squares:
            return self.length * self.length / float(self.costs[0])
        return 1.0 / self.unit / self.unit

    def in_units(self, alpha: float) -> float:
        """The regularisation parameter in the solver's units."""
        return alpha / self.unit / self.unit

    @cached_property
    def product_error(self) -> float:
        """Bound of the rounding error of a product of a block with a vector, as a fraction of their sizes."""
        terms = self.Y.shape[1] + float(self.stack.widths.max()) + 8.0
        return 0.5 * float(self.stack.precision) * SAFETY * math.sqrt(terms)

    # ---- passes over the features -----------------------------------------------------------------

    def _given_rows(self, R: Array) -> Array:
        """Rows of vectors in the solver's units as they are multiplied with given features."""
        return R if self.root is None else R * self.root

    def gradient(self, R: Array) -> Array:
        """``Z'R`` in the solver's units, for a vector, or for vectors as rows."""
        rows = np.ascontiguousarray(self._given_rows(R)).reshape(-1, R.shape[-1])
        found = self.stack.products(rows) * self.factors
        return np.asarray(found[0] if R.ndim == 1 else found)

    @cached_property
    def gradient_of_targets(self) -> Array:
        """``Z'Y`` in the solver's units, shape (n_outputs, n_features)."""
        return self.gradient(self.Y)

    def quadratic_forms(self, G: Array) -> Array:
        """Squared norms of the blocks of gradients (n_points, n_outputs, n_features), shape (n_points, n_kernels)."""
        return np.asarray(np.add.reduceat(np.square(G).sum(axis=1), self.stack.groups[:-1], axis=1))

    def forms(self, residuals: list[Array]) -> Array:
        """Squared norms of all blocks of the gradients at some residuals, shape (n_points, n_kernels): a pass.

        For a stream upper bounds, exact up to the errors of the kernels.
        """
        rows = np.concatenate(residuals)
        if not isinstance(self.stack, KernelStream):
            return self.quadratic_forms(self.gradient(rows).reshape(len(residuals), self.n_outputs, -1))
        found, _ = self.stack.looks(self._given_rows(rows))
        return self._raised(found.reshape(len(residuals), self.n_outputs, -1).sum(axis=1), residuals)

    def forms_of_targets(self) -> Array:
        """The same of the targets, shape (n_kernels,)."""
        if isinstance(self.stack, KernelStream):
            return self._raised(self._first[0][None], [self.Y])[0]
        return self.quadratic_forms(self.gradient_of_targets[None])[0]

    def fitted(self, w: Array) -> Array:
        """``Z w`` for coefficients in the solver's units."""
        index = np.flatnonzero(w)
        return self.combine(index, w[None, index])[0]

    def combine(self, index: Index, coef: Array) -> Array:
        """``Z w`` for coefficients (n_vectors, len(index)) of some columns, shape (n_vectors, n_samples)."""
        found = self.stack.combine(index, coef * self.factors[index])
        return np.asarray(found if self.root is None else found * self.root)

    def columns(self, kernels: Index) -> Array:
        """Columns of some blocks in the solver's units, as rows."""
        out = self.stack.columns(self.stack.owned(kernels))
        if self.root is not None:
            out *= self.root
        out *= np.repeat(self.kernel_factors[kernels], self.stack.widths[kernels])[:, None]
        return np.asarray(out)

    def norms(self, w: Array) -> Array:
        """Norms of the blocks of an array (n_features,) or (n_outputs, n_features)."""
        top = float(np.abs(w).max(initial=0.0))
        if top == 0.0:
            return np.zeros(self.n_kernels)
        squares = np.square(w / top)
        squares = squares if w.ndim == 1 else squares.sum(axis=0)
        return top * np.sqrt(np.add.reduceat(squares, self.stack.groups[:-1]))

    # ---- kernels of a stream ----------------------------------------------------------------------

    def _raised(self, quadratic_forms: Array, vectors: list[Array]) -> Array:
        """Forms (n_points, n_kernels) of given kernels as upper bounds in the solver's units."""
        spread = np.array([self._spread(R) for R in vectors])
        squares = np.array([float(np.vdot(R, R)) for R in vectors])
        found = (quadratic_forms + np.multiply.outer(spread, self.stack.errors)) * np.square(
            self.kernel_factors
        )
        return found + np.multiply.outer(squares, self._lost)

    @property
    def _lost(self) -> Array:
        """Rounding errors of quadratic forms of a vector of length 1, if kernels are matrices; shape (n_kernels,)."""
        return self.product_error * np.square(self.kernel_sizes) * float(self.stack.matrices)

    def _spread(self, R: Array) -> float:
        """Sum of squares of the sums of sizes of the coefficients: an error of every entry counts as often."""
        return float(np.square(np.abs(self._given_rows(R)).sum(axis=1)).sum())

    def blocks(self, kernels: Index) -> Iterator[Array]:
        """Factors of some kernels in the solver's units, as rows, one after another."""
        for kernel, rows in zip(kernels, self.stack.factors(kernels), strict=True):
            if self.root is not None:
                rows *= self.root
            rows *= self.kernel_factors[kernel]
            yield rows

    def apply(self, weights: list[Array], vectors: list[Array]) -> list[Array]:
        """``K(d) v`` for some weights and vectors (n_outputs, n_samples), by a pass over kernels with weights."""
        rows = self._given_rows(np.concatenate(vectors))
        shares = np.array(weights) * np.square(self.kernel_factors)
        used = np.flatnonzero(shares.any(axis=0))
        out = np.zeros((len(vectors), *vectors[0].shape))
        for kernel, product in zip(used, self.stack.products(rows, used), strict=True):
            parts = product.reshape(out.shape)
            for v in np.flatnonzero(shares[:, kernel]):
                out[v] += shares[v, kernel] * parts[v]
        return list(self._given_rows(out))

    # ---- certificates -----------------------------------------------------------------------------

    def values(
        self, square: float, product: Array, intercept: float, b: Array, q: Array, size: float, terms: int,
        moved: float = 0.0,
    ) -> Values:  # fmt: skip
        """The value of coefficients, and its distance from the bound by b, in the solver's units.

        Parameters
        ----------
        square : float
            ``sum_m ||w_m||^2 / d_m``.
        product, b : arrays of shape (n_outputs, n_samples) or (n_samples,)
            ``Z w``, and coefficients of the rows.
        intercept : float
        q : array of shape (n_kernels,)
            Squared norms of the blocks of ``Z'b``.
        size : float
            A sum of the sizes of the terms of `product`, such as ``sum_m ||w_m|| ||Z_m||``.
        terms : int
            The number of these.
        moved : float
            Bound of the length of other errors of the product.
        """
        loss, (y, costs) = self.loss, self._losses
        product, b = product.ravel(), b.ravel()
        f, n = product + intercept, len(b)
        if not math.isfinite(square):
            return Values(math.inf, math.inf, 0.0)
        support = self.weight_set.support(q)
        # f is off by at most `wrong` in Euclidean norm
        wrong = moved + sum_error(terms) * (size + math.sqrt(n) * abs(intercept))
        wrong += EPS * math.sqrt(n) * self._largest
        length, share = float(np.linalg.norm(b)), 0.0
        if self.least_squares:
            # the formulas of the squared loss at one cost for all rows: paths ask for little else
            cost, rest, pull = float(costs[0]), y - f, b / float(costs[0])
            losses, own = 0.5 * cost * float(rest @ rest), rest - pull
            gap, slope = 0.5 * cost * float(own @ own), y - pull
            steepest = cost * (float(np.linalg.norm(rest)) + wrong)
            sizes = float(np.linalg.norm(product) + np.linalg.norm(slope) + np.linalg.norm(y)) * length
        else:
            losses, gap = loss.total(y, costs, f), loss.gap(y, costs, b, f)
            slope = loss.dual_slope(y, costs, b)
            slopes = np.abs(loss.gradient_within(y, costs, f, wrong))
            steepest = float(np.linalg.norm(slopes.max(axis=0)))
            # a loss with a link bounds what its targets add
            level = 0.0 if loss.linked else np.abs(y)
            sizes = float(np.abs(b) @ (np.abs(product) + np.abs(slope) + level))
        primal = losses + 0.5 * square
        gap += max(0.0, 0.5 * (square + support) - float(product @ b))
        rounding = (steepest + length) * wrong + sum_error(n) * (losses + sizes) + 8.0 * EPS * square
        rounding += loss.gap_error(y, costs, b, f)
        if self.fit_intercept:
            # coefficients whose sum is not quite zero
            share, side = imbalance(b)
            rounding += share * float(side @ np.abs(slope - f))
        away = (sum_error(n) + share) * self.kernel_sizes * length
        rounding += 0.5 * (self.weight_set.support(np.square(np.sqrt(q) + away)) - support)
        # on a device without float64 every sum errs by more
        rounding *= self.stack.precision / EPS
        if self.summary is not None:
            reach = self.summary.stretch * (size + float(np.linalg.norm(y)))
            rounding += self.summary.error * reach * reach * float(costs[0])
            primal += float(self.summary.constants.sum()) / self.objective_unit
        return Values(primal, gap, rounding)

    def values_of(
        self, weights: Array, w: Array, intercept: float, product: Array, b: Array, q: Array
    ) -> Values:
        """The values of coefficients w of all features in the solver's units, with their products with the features."""
        norms = self.norms(w)
        used = norms > 0
        square = math.inf
        if (weights[used] > 0).all():
            square = float((np.square(norms[used]) / weights[used]).sum())
        size = (
            float(np.linalg.norm(np.abs(w) @ self.sizes))
            if self.root is None
            else float(norms @ self.kernel_sizes)
        )
        return self.values(square, product, intercept, b, q, size, int(np.count_nonzero(w)) + 1)

    def bracket(
        self, weights: Array, w: Array, intercept: float, product: Array, b: Array, q: Array, *, enough: float
    ) -> tuple[Values, Array]:
        """The values of coefficients, and those of the rows: a multiple of b where `enough` is not reached by b."""
        values = self.values_of(weights, w, intercept, product, b, q)
        if values.gap <= enough:
            return values, b
        multiple = self.multiple(b, self.weight_set.support(q), values.gap)
        if multiple == 1.0:
            return values, b
        other = self.values_of(weights, w, intercept, product, multiple * b, multiple**2 * q)
        return (other, multiple * b) if other.gap < values.gap else (values, b)

    def multiple(self, b: Array, support: float, gap: float, *, worth: float = WORTH) -> float:
        """The multiple of coefficients with the best bound; 1 if others gain only a small share of the gap."""
        loss, (y, costs), b = self.loss, self._losses, b.ravel()
        if self.least_squares:
            # the slope is linear
            along, curvature = float(b @ y), float(b @ b) / float(costs[0]) + support
            slight = (along - curvature) ** 2 <= 2.0 * support * worth * gap
            return 1.0 if slight or not curvature > 0.0 else max(0.0, along / curvature)
        low, high = loss.bounds(y, costs)
        with np.errstate(divide="ignore", invalid="ignore"):
            most = float(np.where(b > 0, high / b, np.where(b < 0, low / b, np.inf)).min())

        @cache  # the bracket's ends are asked for again
        def slope(t: float) -> float:
            return float(b @ loss.dual_slope(y, costs, t * b)) - t * support

        if not b.any() or not most > 0.0:
            return 1.0
        one = slope(min(1.0, most))
        if most >= 1.0 and one * one <= 2.0 * support * worth * gap:
            return 1.0
        if loss.quadratic or loss.squares:
            half = slope(0.5)
            found = 0.5 + 0.5 * half / (half - one) if half > one else most
            if not np.isfinite(found):
                return min(1.0, most)
            return float(np.clip(found, 0.0, most))
        # two steps of the secant, which are enough where b is nearly the best itself
        other = min(1.0, most) - 0.05 if one < 0.0 or most <= 1.0 else min(1.05, most)
        bend = (slope(other) - one) / (other - min(1.0, most))
        if bend < 0.0:
            near = float(np.clip(other - slope(other) / bend, 0.0, most))
            if 0.0 < near < most and near != other:
                bend = (slope(near) - slope(other)) / (near - other)
                found = near - slope(near) / bend if bend < 0.0 else near
                if 0.0 < found < most and abs(slope(near) * (found - near)) <= worth * gap:
                    return found
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

    def certify(self, solution: Solution) -> Certificate:
        """The certificate computed only from features' coefficients, intercept, weights and dual coefficients."""
        refuse_relaxed(solution)
        W, b = self._coefficients_of(solution), self._rows_of(solution)
        C = 1.0 / solution.alpha if self.least_squares else self.C
        if solution.weights.ndim == 2:
            return Certificate.total(
                [
                    one._certificate_of(Candidate(C, d, w[None], c[None]))
                    for one, d, w, c in zip(self.parts(), solution.weights, W, b, strict=True)
                ]
            )
        # a summary has its intercept in the means
        t = 0.0 if self.summary is not None else float(solution.intercept)
        return self._certificate_of(Candidate(C, solution.weights, W, b, t))

    def _certificate_of(self, candidate: Candidate) -> Certificate:
        """The certificate of any weights and coefficients, also of those outside, and of f = 0 for infinite alpha."""
        weights = candidate.weights
        away = float(np.abs(self.weight_set.project(weights) - weights).max())
        if not away <= OUTSIDE * float(np.abs(weights).max()):
            return outside("joint")
        if candidate.C > 0.0:
            return self.certificates([candidate])[0]
        return of_null(self.null_value(), candidate.b, candidate.W)

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers, at the regularisation parameter of a solution."""
        if not self.least_squares:
            return self.weight_set.in_statement(self.machine.statement(self.scale, self.rows))
        weights = np.ones(self.targets.shape[1]) if self.sample_weight is None else self.sample_weight
        return ridge_statement(weights, self.rows, self.scale, solution.alpha)

    def _coefficients_of(self, solution: Solution) -> Array:
        """Coefficients of the features, shape (n_outputs, n_features); no columns for a stream."""
        if isinstance(self.stack, KernelStream):
            return np.empty((self.n_outputs, 0))
        features = np.asarray(solution.feature_coef)
        if features.shape[:1] != (self.stack.n_features,):
            raise InputError(
                f"The solution must have coefficients of {self.stack.n_features} features, got shape {features.shape}. "
                "Verify a solution of kernels with the problem of the kernels."
            )
        return np.ascontiguousarray(features.reshape(len(features), -1).T)

    def _rows_of(self, solution: Solution) -> Array:
        """Dual coefficients of the included rows, shape (n_outputs, n_samples); those of a summary are the proof."""
        if self.summary is not None:
            proof = np.asarray(solution.proof)
            if proof.ndim != 2 or proof.shape[1] != self.stack.n_samples:
                raise InputError(
                    f"The solution must have a proof for {self.stack.n_samples} rows, got shape {proof.shape}. Verify "
                    "a solution of statistics with the problem of the same statistics."
                )
            return np.ascontiguousarray(proof)
        return included(solution, self.rows)

    def certificates(self, candidates: list[Candidate]) -> list[Certificate]:
        """Certificates of several solutions, from one pass over all blocks and one over those with coefficients."""
        stream = isinstance(self.stack, KernelStream)
        root = 1.0 if self.root is None else self.root
        duals = [one.b / root * (self.unit * self.unit / self.length) for one in candidates]
        unknown = [b for one, b in zip(candidates, duals, strict=True) if one.quadratic_forms is None]
        fresh: Iterator[Array] = iter(self.forms(unknown) if unknown else [])
        if stream:
            W = [one.W for one in candidates]
            products = self.apply([one.weights for one in candidates], duals)
        else:
            W = [one.W / self.factors / self.length for one in candidates]
            on = np.flatnonzero(np.any([w.any(axis=0) for w in W], axis=0))
            whole = self.combine(on, np.concatenate([w[:, on] for w in W]))
            products = list(whole.reshape(len(W), self.n_outputs, -1))
        found = []
        for one, w, product, b in zip(candidates, W, products, duals, strict=True):
            problem = self.at(one.C)
            q = next(fresh) if one.quadratic_forms is None else one.quadratic_forms
            self.weight_set.gain(one.weights, q)  # refuses a set that contradicts itself
            if stream:
                values = problem.values_of_weights(one.weights, product, b, q)
            else:
                values = problem.values_of(one.weights, w, one.intercept, product, b, q)
            feasible = problem._feasible(b) and (self.fit_intercept or one.intercept == 0.0)
            found.append(problem.certificate(values, feasible=feasible))
        return found

    def values_of_weights(self, weights: Array, product: Array, b: Array, q: Array) -> Values:
        """The values of weights and coefficients of rows on a stream, whose ``K(d) b`` is the product."""
        used = np.flatnonzero(weights)
        d = weights[used]
        # kernels whose entries are known to an error only, and products with matrices
        entries = float(d @ (self.stack.errors * np.square(self.kernel_factors))[used])
        lost = float(d @ self._lost[used])
        root = math.sqrt(self.Y.shape[1]) if self.root is None else float(np.linalg.norm(self.root))
        moved = entries * root * math.sqrt(self._spread(b)) + lost * float(np.linalg.norm(b))
        size = float((d * np.sqrt(q[used])) @ self.kernel_sizes[used])
        terms = self.Y.shape[1] + int(self.stack.widths.max())
        return self.values(max(0.0, float(np.vdot(product, b))), product, 0.0, b, q, size, terms, moved)

    def _feasible(self, b: Array) -> bool:
        if self.least_squares:
            return bool(np.isfinite(b).all())
        return self.machine.feasible(b.ravel() / (self.unit * self.unit), OUTSIDE_OF_BOX)

    def certificate(
        self,
        values: Values,
        status: Status = Status.CONVERGED,
        *,
        tol: float | None = None,
        feasible: bool = True,
    ) -> Certificate:
        """Values in the solver's units as a certificate."""
        unit = self.objective_unit
        gap = values.gap * unit if feasible else math.inf
        return Certificate.of("joint", values.primal * unit, gap, values.rounding * unit, status, tol=tol)

    def null_value(self) -> float:
        """The objective of f = 0, for the squared loss."""
        value = 0.5 * float(np.vdot(self._whitened, self._whitened))
        return value if self.summary is None else value + float(self.summary.constants.sum())

    # ---- solutions --------------------------------------------------------------------------------

    def trace(self, rows: list[tuple[float, float, int]]) -> dict[str, Array]:
        """Objectives in the solver's units, relative gaps and numbers of active kernels as columns."""
        columns = np.array(rows, dtype=np.float64).T
        names = ("objective", "rel_gap", "n_active")
        unit = self.length * self.length if self.least_squares else 1.0 / self.unit**2
        return dict(zip(names, (columns[0] * unit, *columns[1:]), strict=True))

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
        values: Values,
    ) -> Solution:
        """Coefficients of one output in the solver's units as a solution, with its certificate."""
        return Solution(
            weights=weights,
            dual_coef=of_given_rows(b / (self.unit * self.unit), self.rows),
            intercept=intercept,
            certificate=self.certificate(values, status, tol=tol, feasible=self._feasible(b)),
            n_iter=n_iter,
            trace=trace,
            feature_coef=w * self.factors,
        )

    def features_of(self, weights: Array, C: Array) -> Array:
        """``w_m = d_m s_m Z_m'c``, shape (n_outputs, n_features), for dual coefficients (n_outputs, n_samples)."""
        active = np.flatnonzero(weights)
        index = self.stack.owned(active)
        out = np.zeros((len(C), self.stack.n_features))
        share = np.repeat((weights * self.scale)[active], self.stack.widths[active])
        out[:, index] = (C @ self.stack.columns(index).T) * share
        return out

    def with_features(self, found: Solution, tol: float) -> Solution:
        """A solution of a machine on kernels with the coefficients of the features, and certified by these."""
        b, t = found.dual_coef * self.unit * self.unit, float(found.intercept)
        G = self.gradient(b)
        w = np.repeat(found.weights, self.stack.widths) * G
        values = self.values_of(found.weights, w, t, self.fitted(w), b, np.square(self.norms(G)))
        solution = self.solution(
            found.weights, w, t, b,
            status=found.status, tol=tol, n_iter=found.n_iter, trace=dict(found.trace), values=values,
        )  # fmt: skip
        return replace(solution, n_machines=found.n_machines)

    # ---- other problems ---------------------------------------------------------------------------

    def at(self, C: float) -> FeatureProblem:
        """The same problem with another C."""
        if C == self.C:
            return self
        # a path asks for every point several times, and `replace` takes as long as a certificate
        other = copy.copy(self)
        for name in OF_C:
            other.__dict__.pop(name, None)
        other.__dict__["C"] = C
        return other

    def with_parts(self, **parts: Any) -> FeatureProblem:
        """The problem with other attributes, in the units of this one."""
        other = replace(self, **parts)
        other.__dict__.update({name: getattr(self, name) for name in UNITS})
        return other

    def parts(self) -> list[FeatureProblem]:
        """One problem for each output."""
        out = []
        for k, row in enumerate(self.targets):
            summary = self.summary
            own = None if summary is None else replace(summary, constants=summary.constants[k : k + 1])
            out.append(replace(self, targets=row[None], summary=own))
        return out

    def on_kernels(self, kernels: Index | None = None) -> Any:
        """The same problem on factors of some kernels: a `RidgeProblem` for the squared loss, or a `KernelProblem`."""
        chosen = np.arange(self.n_kernels) if kernels is None else kernels
        if isinstance(self.stack, KernelStream):
            if kernels is None:
                raise InputError(
                    'A `KernelStream` needs solver="newton": other solvers hold all kernels. Take a smaller stack for '
                    "them."
                )
            factors = list(self.stack.factors(kernels))
            gram = FactorGram(
                np.concatenate(factors) if factors else np.empty((0, self.targets.shape[1])),
                np.r_[0, np.cumsum([len(rows) for rows in factors])],
            )
        else:
            gram = self.stack.gram(kernels)
        if not self.least_squares:
            return KernelProblem(gram, self.machine, self.scale[chosen], self.weight_set)
        inverse = np.ones(self.targets.shape[1]) if self.sample_weight is None else 1.0 / self.sample_weight
        found = RidgeProblem(gram, self.targets, inverse, self.scale[chosen], self.rows)
        return found if self.summary is None else replace(found, weight_sum=self.summary.weight_sum)


# ---- checked arguments ----------------------------------------------------------------------------


def make_feature_problem(
    rows: FeatureStack | KernelStream | ChunkedFeatures | BlockStatistics,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    *,
    loss: Loss | None = None,
    weights: str | WeightSet = "simplex",
    C: float = math.nan,
    fit_intercept: bool = False,
) -> tuple[FeatureProblem, bool]:
    """A loss on features, however these are held, from checked arguments; RLS2 without a loss.

    Also return whether targets had one dimension.
    """
    stack: Any = rows
    targets: Any = y
    summary: Summary | None = None
    single = True
    if isinstance(rows, ChunkedFeatures | BlockStatistics):
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise InputError(
                    f"`{name}` must be None for {type(rows).__name__}, which have it, got values. Pass it where they "
                    "are made."
                )
    if isinstance(rows, BlockStatistics):
        single = rows.single
        stack, targets, summary = summarised(rows, centered=fit_intercept)
        fit_intercept = False
    elif isinstance(rows, ChunkedFeatures):
        if loss is not None and not loss.rowwise:
            raise InputError(
                f"{loss!r} is no sum over rows, so that rows cannot be read in chunks. Pass a FeatureStack of all rows."
            )
        targets, sample_weight = rows.y, rows.sample_weight
    factors = check_scale(scale, stack.n_kernels)
    own = check_row_weights(sample_weight, stack.n_samples)
    if loss is None:
        Y, one = check_targets(targets, stack.n_samples)
        single = single and (one or summary is not None)
    else:
        Y = as_floats(targets, "y")
        if Y.shape != (stack.n_samples,):
            raise InputError(
                f"`y` must have one entry per row of `Z`, shape ({stack.n_samples},), got {Y.shape}."
            )
        Y = loss.check(Y, check_positive(C, "C") * own)[:, None]
    problem = FeatureProblem(
        stack,
        np.ascontiguousarray(Y.T),
        Squared() if loss is None else loss,
        as_weight_set(weights, stack.n_kernels),
        float(C),
        own,
        factors,
        least_squares=loss is None,
        fit_intercept=fit_intercept,
        summary=summary,
    )
    return on_positive_rows(problem), single


def on_positive_rows(problem: FeatureProblem) -> FeatureProblem:
    """The problem without the rows of weight 0, and without weights where all others are one."""
    weight = problem.sample_weight
    if weight is None:
        return problem
    if not weight.all():
        kept = weight > 0.0
        rows = np.flatnonzero(kept)
        weight = weight[rows]
        targets = np.ascontiguousarray(problem.targets[:, rows])
        problem = replace(problem, stack=problem.stack.restrict(rows), targets=targets, rows=kept)
    return replace(problem, sample_weight=None if (weight == 1.0).all() else weight)


def _power_of_two(size: float) -> float:
    return math.ldexp(1.0, math.frexp(size)[1])
