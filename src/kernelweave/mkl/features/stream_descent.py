"""RLS2 on a stream of kernels: working blocks are factors of some kernels, and passes evaluate all.

Solutions are weights d and dual coefficients c. With the quadratic forms q of all kernels, of one pass, their gap is

    1/2 |y - K(d) c - alpha c|^2 + alpha/2 (max_m q_m - c'K(d) c) .

The factors of the working blocks may leave out directions: their sum of squares is so small that the gap hardly
changes, and passes take the kernels as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernelweave._allowance import used_up
from kernelweave._types import Array, Index
from kernelweave.gram.factors import FactorGram
from kernelweave.machines.ridge import NotPositiveDefinite, ridge_system
from kernelweave.machines.rounding import EPS
from kernelweave.mkl.features.block_descent import Evaluated, FeatureDescent, Point, WorkingBlocks
from kernelweave.mkl.features.problem import FeatureProblem
from kernelweave.results import Solution, Status

#: Squares of the directions that working blocks leave out, as a share of tol times the smallest alpha.
LEFT_OUT = 0.05
#: Refinements of a point on the working blocks before all kernels are evaluated.
REFINEMENTS = 6
#: Alphas that are tried in one pass for the beginning of an automatic path, and their range in units of the trace.
TRIED, LOWEST, HIGHEST = 24, 1e-3, 1e3


def single_block_alpha_of_stream(problem: FeatureProblem, top: float) -> float:
    """The smallest alpha at which a single kernel is optimal, to the spacing of those that a pass tries."""
    first = problem.forms_of_targets()
    start = int(np.argmax(first))
    rows = next(problem.blocks(np.array([start])))
    vectors, singular, _ = np.linalg.svd(rows.T, full_matrices=False)
    inside, values = problem.Y @ vectors, np.square(singular)

    def single(alphas: Array) -> NDArray[np.bool_]:
        residuals = [
            problem.Y - (inside * (values / (values + problem.in_units(alpha)))) @ vectors.T
            for alpha in alphas
        ]
        quadratic_forms = problem.forms(residuals)
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


class StreamBlocks(WorkingBlocks):
    """Factors of some kernels, each without the directions that do not matter."""

    def __init__(self, problem: FeatureProblem) -> None:
        super().__init__(problem, on_products=False)
        #: Sum of the squares that a kernel may leave out, in the solver's units.
        self.cut = 0.0

    def _more_rows(self, kernels: Index) -> tuple[list[Array | None], Array, Index]:
        n, before = self.rows.shape[1], self.n_columns
        widths, at = np.zeros(len(kernels), dtype=np.int64), before
        for k, rows in enumerate(self.problem.blocks(kernels)):
            turned = _turned(rows, self.cut)
            widths[k] = len(turned)
            if at + len(turned) > len(self.rows):
                # the allocator moves pages: nothing is copied
                more = max(len(turned), (len(kernels) - k) * (at + len(turned) - before) // (k + 1))
                self.rows.resize((at + more, n), refcheck=False)
            self.rows[at : at + len(turned)] = turned
            at += len(turned)
        self.rows.resize((at, n), refcheck=False)
        fresh = self.rows[before:]
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

    problem: FeatureProblem
    work: StreamBlocks

    #: The last evaluated point: weights d, coefficients b, K(d) b and the forms at b, in the solver's units.
    evaluated: tuple[Array, Array, Array, Array] | None = None
    room = 60

    def _start(self) -> WorkingBlocks:
        return StreamBlocks(self.problem)

    def prepare(self, alphas: Sequence[float]) -> None:
        """Choose how much of each kernel the working blocks leave out."""
        finite = [alpha for alpha in alphas if math.isfinite(alpha)]
        if finite:
            self.work.cut = LEFT_OUT * self.tol * self.problem.in_units(min(finite))

    def _size(self, kernels: Index) -> int:
        return len(kernels)

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
        forms = problem.forms(thetas)
        weights = []
        for point, q in zip(points, forms, strict=True):
            own = self._weights_of(point, np.empty(0))
            if not own.any():
                own[int(np.argmax(q))] = 1.0
            weights.append(own)
        duals = [theta / point.a for point, theta in zip(points, thetas, strict=True)]
        products = problem.apply(weights, duals)
        out = []
        for point, theta, b, product, q, d in zip(
            points, thetas, duals, products, forms, weights, strict=True
        ):
            self.evaluated = (d, b, product, q / point.a / point.a)
            at = self._at(point.a)
            values = at.values_of_weights(d, product, b, self.evaluated[3])
            out.append(Evaluated(at, theta, q, values))
        return out

    # ---- solutions --------------------------------------------------------------------------------

    def _no_features(self) -> Array:
        return np.empty((0, self.problem.n_outputs))

    def _feature_coef(self, points: list[Point]) -> list[Array]:
        return [self._no_features() for _ in points]

    def _weights_of(self, point: Point, features: Array) -> Array:
        weights = np.zeros(self.problem.n_kernels)
        if point.level > 0:
            weights[self.work.kernels[: len(point.norms)]] = point.norms / point.level
        return weights

    def best_so_far(self, alpha: float) -> Solution | None:
        """The last evaluated weights and coefficients as a solution for an alpha, with their gap there."""
        if self.evaluated is None or math.isinf(alpha):
            return None
        problem = self.problem.at(1.0 / alpha)
        d, b, product, q = self.evaluated
        found = problem.values_of_weights(d, product, b, q)
        return self._solution(alpha, d, b, problem.certificate(found, Status.INTERRUPTED, tol=self.tol))
