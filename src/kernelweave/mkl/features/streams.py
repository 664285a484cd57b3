"""RLS2 on a stream of kernels: working blocks are factors of some kernels, and passes evaluate all.

Solutions are weights d and dual coefficients c. With the quadratic forms q of all kernels, of one pass, their gap is

    1/2 |y - K(d) c - alpha c|^2 + alpha/2 (max_m q_m - c'K(d) c) .

The factors of the working blocks may leave out directions: their sum of squares is so small that the gap hardly
changes, and passes take the kernels as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._allowance import used_up
from kernelweave._checks import InputError
from kernelweave.gram.factors import FactorGram
from kernelweave.gram.features import FeatureStack
from kernelweave.gram.streams import KernelStream
from kernelweave.machines.ridge import NotPositiveDefinite, ridge_system
from kernelweave.mkl.features.path import Evaluated, FeatureDescent, Point
from kernelweave.mkl.features.problem import EPS, Bounds, Candidate, FeatureProblem, checked_parts
from kernelweave.mkl.features.working import Working
from kernelweave.mkl.ridge_problem import RidgeProblem
from kernelweave.results import Certificate, Solution, Status

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Squares of the directions that working blocks leave out, as a share of tol times the smallest alpha.
LEFT_OUT = 0.05
#: Kernels in the working set for points that are evaluated together: this multiple of the active ones, and so many
#: more.
MORE, LEAST = 3, 60
#: Refinements of a point on the working blocks before all kernels are evaluated.
REFINEMENTS = 6
#: Alphas that are tried in one pass for the beginning of an automatic path, and their range in units of the trace.
TRIED, LOWEST, HIGHEST = 24, 1e-3, 1e3


@dataclass(frozen=True)
class StreamProblem(FeatureProblem):
    """The data of RLS2 on a stream; `stack` answers for a `KernelStream`, whose features are never all there."""

    #: Certificates of its solutions are its own: another would take a pass over all kernels.
    vouches: ClassVar[bool] = True

    @property
    def stream(self) -> KernelStream:
        """The kernels."""
        return cast(KernelStream, self.stack)

    @cached_property
    def _first(self) -> tuple[Array, Array]:
        """Forms of the targets and traces, by the first pass."""
        weights = np.ones(self.Y.shape[1]) if self.sample_weight is None else self.sample_weight
        quadratic_forms, traces = self.stream.looks(self._rows_of([self.Y]), weights=weights)
        return quadratic_forms.sum(axis=0), traces

    @cached_property
    def _square_sums(self) -> Array:
        return self.scale * self._first[1]

    def looks_of_targets(self) -> Array:
        """Upper bounds of the forms of the targets, from the first pass, shape (n_kernels,)."""
        quadratic_forms = self._first[0] + self.stream.errors * self._spread(self.Y)
        return quadratic_forms * np.square(self.factors) + self._lost * float(np.vdot(self.Y, self.Y))

    @cached_property
    def _lost(self) -> Array:
        """Rounding errors of quadratic forms of a vector of length 1, if kernels are matrices; shape (n_kernels,)."""
        return self.product_error * np.square(self.sizes) * float(self.stream.matrices)

    def looks(self, residuals: list[Array]) -> Array:
        """Upper bounds of the forms of all kernels in one pass, shape (n_points, n_kernels)."""
        quadratic_forms, _ = self.stream.looks(self._rows_of(residuals))
        quadratic_forms = quadratic_forms.reshape(len(residuals), self.n_outputs, -1).sum(axis=1)
        spread = np.array([self._spread(R) for R in residuals])
        quadratic_forms += np.multiply.outer(spread, self.stream.errors)
        squares = np.array([float(np.vdot(R, R)) for R in residuals])
        return quadratic_forms * np.square(self.factors) + np.multiply.outer(squares, self._lost)

    def _rows_of(self, residuals: list[Array]) -> Array:
        rows = np.concatenate(residuals)
        return rows if self.root is None else rows * self.root

    def _spread(self, R: Array) -> float:
        """Sum of squares of the sums of sizes of the coefficients: an error of every entry counts as often."""
        rows = R if self.root is None else R * self.root
        return float(np.square(np.abs(rows).sum(axis=1)).sum())

    def blocks(self, kernels: Index) -> Iterator[Array]:
        """Factors of some kernels in the solver's units, as rows, one after another."""
        for kernel, rows in zip(kernels, self.stream.factors(kernels), strict=True):
            if self.root is not None:
                rows *= self.root
            rows *= self.factors[kernel]
            yield rows

    def fitted(
        self, values: list[float], thetas: list[Array], weights: list[tuple[Index, Array]]
    ) -> list[Array]:
        """``K(d) theta / a`` for some a, dual points and weights, given as kernels and shares."""
        rows = self._rows_of(thetas)
        out = [np.zeros_like(theta) for theta in thetas]
        used = np.unique(np.concatenate([own for own, _ in weights]))
        shares = np.zeros((len(thetas), len(used)))
        for row, (own, d) in zip(shares, weights, strict=True):
            row[np.searchsorted(used, own)] = d
        shares *= np.square(self.factors[used])
        for k, product in enumerate(self.stream.products(rows, used)):
            parts = product.reshape(len(thetas), self.n_outputs, -1)
            for v in np.flatnonzero(shares[:, k]):
                out[v] += shares[v, k] * parts[v]
        root = 1.0 if self.root is None else self.root
        return [f * root / a for f, a in zip(out, values, strict=True)]

    def stated(
        self, a: float, theta: Array, fitted: Array, quadratic_forms: Array, kernels: Index, d: Array
    ) -> Bounds:
        """Both bounds at weights and ``c = theta / a``.

        Parameters
        ----------
        a : float
        theta, fitted : arrays of shape (n_outputs, n_samples)
            The dual point and ``K(d) c``.
        quadratic_forms : array of shape (n_kernels,)
            Upper bounds of ``theta' K_m theta``, exact up to the errors of the kernels where they are largest.
        kernels, d : arrays
            Kernels with weights, and these.
        """
        level = math.sqrt(max(0.0, float(np.vdot(theta, fitted))) / a)
        length = float((d * np.sqrt(quadratic_forms[kernels])) @ self.sizes[kernels]) / a
        R = self.Y - fitted
        found = self.bounds(a, R, level, theta, quadratic_forms, length, best=False)
        # kernels whose entries are known to an error only, and products with matrices
        entries = float(d @ (self.stream.errors * np.square(self.factors))[kernels])
        product = float(d @ self._lost[kernels])
        if entries == product == 0.0:
            return found
        square = float(np.vdot(theta, theta))
        spread = (entries * self._spread(theta) + product * square) / a
        root = math.sqrt(self.Y.shape[1]) if self.root is None else float(np.linalg.norm(self.root))
        moved = (entries * root * math.sqrt(self._spread(theta)) + product * math.sqrt(square)) / a
        lost = spread + float(np.linalg.norm(R)) * moved + 0.5 * moved * moved
        return replace(found, rounding=found.rounding + lost)

    def _coefficients_of(self, solution: Solution) -> Array:
        """None: solutions of a stream are weights and dual coefficients."""
        return np.empty((self.n_outputs, 0))

    def _bounds_of(self, candidates: list[Candidate]) -> list[Bounds]:
        values = [self.in_units(one.alpha) for one in candidates]
        duals = self._duals_of(candidates)
        chosen = [np.flatnonzero(one.weights) for one in candidates]
        weights = [(own, one.weights[own]) for own, one in zip(chosen, candidates, strict=True)]
        fitted, quadratic_forms = (
            self.fitted(values, duals, weights),
            self._quadratic_forms_of(candidates, duals),
        )
        return [
            self.stated(a, dual, f, q, *own)
            for a, dual, f, q, own in zip(values, duals, fitted, quadratic_forms, weights, strict=True)
        ]

    def on_kernels(self, kernels: Index | None = None) -> RidgeProblem:
        """The same problem on factors of some kernels; there is none on all."""
        if kernels is None:
            raise InputError(
                'A `KernelStream` needs solver="newton": other solvers hold all kernels. Take a smaller stack for them.'
            )
        factors = list(self.stream.factors(kernels))
        gram = FactorGram(
            np.concatenate(factors) if factors else np.empty((0, self.targets.shape[1])),
            np.r_[0, np.cumsum([len(rows) for rows in factors])],
        )
        inverse = np.ones(self.targets.shape[1]) if self.sample_weight is None else 1.0 / self.sample_weight
        return RidgeProblem(gram, self.targets, inverse, self.scale[kernels], self.rows)

    def with_features(self, result: Solution) -> Solution:
        """The solution as it is: there are no coefficients of features."""
        return result

    def single_block_alpha(self, top: float) -> float:
        """The smallest alpha at which a single kernel is optimal, to the spacing of those that a pass tries."""
        first = self.looks_of_targets()
        start = int(np.argmax(first))
        rows = next(self.blocks(np.array([start])))
        vectors, singular, _ = np.linalg.svd(rows.T, full_matrices=False)
        inside, values = self.Y @ vectors, np.square(singular)

        def single(alphas: Array) -> NDArray[np.bool_]:
            residuals = [
                self.Y - (inside * (values / (values + self.in_units(alpha)))) @ vectors.T for alpha in alphas
            ]
            quadratic_forms = self.looks(residuals)
            return np.asarray(quadratic_forms.max(axis=1) <= quadratic_forms[:, start] * (1 + 1e-8))

        low, high = LOWEST * top, HIGHEST * top
        for _ in range(2):
            tried = np.geomspace(high, low, TRIED)
            good = single(tried)
            if not good[0]:
                return high
            if good.all():
                return top if low == LOWEST * top else low
            last = int(np.argmin(good))
            high, low = float(tried[last - 1]), float(tried[last])
        return high


def make_stream_problem(
    stream: KernelStream, y: ArrayLike, sample_weight: ArrayLike | None = None, scale: ArrayLike | None = None
) -> tuple[StreamProblem, bool]:
    """Check arrays and build a problem on the rows of positive weight; also return whether y had one dimension."""
    stream, targets, weights, factors, rows, single = checked_parts(stream, y, sample_weight, scale)
    stack = cast(FeatureStack, stream)
    return StreamProblem(stack, targets, weights, factors, rows), single


class StreamWorking(Working):
    """Factors of some kernels, each without the directions that do not matter."""

    def __init__(self, problem: StreamProblem) -> None:
        super().__init__(problem, on_products=False)
        #: Sum of the squares that a kernel may leave out, in the solver's units.
        self.cut = 0.0

    def _more_rows(self, kernels: Index) -> tuple[list[Array | None], Array, Index]:
        n, before = self._rows.shape[1], self.n_columns
        widths, at = np.zeros(len(kernels), dtype=np.int64), before
        for k, rows in enumerate(cast(StreamProblem, self.problem).blocks(kernels)):
            turned = _turned(rows, self.cut)
            widths[k] = len(turned)
            if at + len(turned) > len(self._rows):
                # the allocator moves pages: nothing is copied
                more = max(len(turned), (len(kernels) - k) * (at + len(turned) - before) // (k + 1))
                self._rows.resize((at + more, n), refcheck=False)
            self._rows[at : at + len(turned)] = turned
            at += len(turned)
        self._rows.resize((at, n), refcheck=False)
        fresh = self._rows[before:]
        return [None] * len(kernels), np.einsum("ij,ij->i", fresh, fresh), widths


def _turned(rows: Array, cut: float) -> Array:
    """Orthogonal rows with the same sum of outer products, without the smallest, whose squares sum to at most `cut`."""
    if len(rows) == 1:
        return rows
    n = rows.shape[1]
    wide = len(rows) > n
    values, vectors = np.linalg.eigh(rows.T @ rows if wide else rows @ rows.T)
    values = np.maximum(values, 0.0)
    kept = np.cumsum(values) > max(cut, EPS * len(values) * values[-1])
    # one direction stays, even of a kernel of zeros
    kept[-1] = True
    if wide:
        return np.ascontiguousarray((vectors[:, kept] * np.sqrt(values[kept])).T)
    return np.ascontiguousarray(vectors[:, kept].T @ rows)


class StreamDescent(FeatureDescent):
    """One problem on a stream during its solution for successive regularisation parameters."""

    problem: StreamProblem
    work: StreamWorking

    def __init__(
        self,
        problem: StreamProblem,
        *,
        tol: float,
        max_iter: int | None = None,
        callback: Callable[[int, float, float], object] | None = None,
    ) -> None:
        super().__init__(problem, tol=tol, max_iter=max_iter, callback=callback)
        #: The last evaluated point: its number of a, theta, K(d) c, forms and weights.
        self.evaluated: tuple[float, Array, Array, Array, Index, Array] | None = None

    def _start(self) -> Working:
        return StreamWorking(self.problem)

    def prepare(self, alphas: Sequence[float]) -> None:
        """Choose how much of each kernel the working blocks leave out."""
        finite = [alpha for alpha in alphas if math.isfinite(alpha)]
        if finite:
            self.work.cut = LEFT_OUT * self.tol * self.problem.in_units(min(finite))

    def _how_many(self, alphas: list[float]) -> int:
        most = MORE * int(np.count_nonzero(self.work.norms)) + LEAST
        for k in range(1, min(self.together, len(alphas))):
            if len(self._expected(self.problem.in_units(alphas[k]))) > most:
                return k
        return min(self.together, len(alphas))

    # ---- one point --------------------------------------------------------------------------------

    def _point(self, a: float, aim: float) -> Point:
        """Descend, and refine until dual coefficients that belong to the weights have a small gap."""
        self._extrapolate(a)
        inner, total = aim, 0
        records: list[tuple[float, float, int]] = []
        for _ in range(REFINEMENTS):
            n_iter, trace, _, stalled = self._descend(a, inner)
            total += n_iter
            records += trace
            theta, left = self._dual(a)
            if left <= aim or self.interrupted or stalled or total >= self.max_iter or used_up():
                break
            inner *= 0.3
        return self._taken(a, total, records, theta, stalled)

    def _dual(self, a: float) -> tuple[Array, float]:
        """``a c`` with ``(K(d) + a) c = Y`` for the weights of the working blocks, and its relative gap over these."""
        work, Y = self.work, self.problem.Y
        level = float(work.norms.sum())
        if not level > 0:
            return Y, 0.0
        d = work.norms / level
        try:
            system = ridge_system(FactorGram(work.rows, work.offsets), d, a, np.ones(Y.shape[1]))
        except NotPositiveDefinite:
            return work.R.copy(), 0.0
        theta = a * np.ascontiguousarray(system.solve(Y.T).T)
        quadratic_forms = work.quadratic_forms(theta @ work.rows.T)
        inside = float(d @ quadratic_forms)
        primal = 0.5 * float(np.vdot(theta, theta)) + 0.5 * inside / a
        return theta, 0.5 * (float(quadratic_forms.max()) - inside) / a / primal

    def _evaluate(self, points: list[Point]) -> list[Evaluated]:
        problem = self.problem
        thetas = [problem.Y if point.theta is None else point.theta for point in points]
        weights = [self._weights(point) for point in points]
        looks = problem.looks(thetas)
        fitted = problem.fitted([point.a for point in points], thetas, weights)
        out = []
        for point, theta, f, quadratic_forms, (kernels, d) in zip(
            points, thetas, fitted, looks, weights, strict=True
        ):
            if not len(kernels):
                kernels, d = np.array([int(np.argmax(quadratic_forms))]), np.ones(1)
            bounds = problem.stated(point.a, theta, f, quadratic_forms, kernels, d)
            out.append(Evaluated(theta, quadratic_forms, bounds))
            self.evaluated = (point.a, theta, f, quadratic_forms, kernels, d)
        return out

    def _weights(self, point: Point) -> tuple[Index, Array]:
        """Kernels with weights in rising order, and these."""
        kernels = self.work.kernels[: len(point.norms)]
        on = np.flatnonzero(point.norms > 0)
        own = on[np.argsort(kernels[on])]
        return kernels[own], point.norms[own] / point.level if point.level > 0 else np.empty(0)

    # ---- solutions --------------------------------------------------------------------------------

    def _feature_coef(self, point: Point | None) -> Array:
        return np.empty((0, self.problem.n_outputs))

    def _weights_of(self, point: Point, features: Array) -> Array:
        kernels, d = self._weights(point)
        weights = np.zeros(self.problem.n_kernels)
        weights[kernels] = d
        return weights

    def best_so_far(self, alpha: float) -> Solution | None:
        """The last evaluated weights and coefficients as a solution for an alpha, with their gap there."""
        if self.evaluated is None or math.isinf(alpha):
            return None
        problem = self.problem
        a, theta, fitted, quadratic_forms, kernels, d = self.evaluated
        own = problem.in_units(alpha)
        # the same coefficients: theta = a c
        share = own / a
        found = problem.stated(own, theta * share, fitted, quadratic_forms * share * share, kernels, d)
        value = problem.length * problem.length
        weights = np.zeros(problem.n_kernels)
        weights[kernels] = d
        C = theta * (share * problem.length / alpha)
        if problem.root is not None:
            C = C * problem.root
        return Solution(
            weights=weights,
            dual_coef=C.T,
            intercept=0.0,
            certificate=Certificate.of(
                "joint",
                found.primal * value,
                found.gap * value,
                found.rounding * value,
                Status.INTERRUPTED,
                tol=self.tol,
            ),
            n_iter=1,
            alpha=alpha,
            feature_coef=self._feature_coef(None),
        )
