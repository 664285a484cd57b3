"""A machine on rows that are read in chunks: what a pass over them computes, and what happens between two passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernelweave._allowance import used_up
from kernelweave._sparse import is_sparse
from kernelweave._types import Array, Index
from kernelweave.gram.base import pieces
from kernelweave.gram.chunked import Vectors, times, times_transposed
from kernelweave.machines.loss import Loss
from kernelweave.machines.rounding import imbalance
from kernelweave.machines.smooth import Augmented, Smooth, unit_of
from kernelweave.mkl.features.columns import WorkingColumns
from kernelweave.mkl.features.norms import norm_of
from kernelweave.mkl.features.problem import FeatureProblem, Values
from kernelweave.results import REACHED, Solution, Status, relative_gap

#: A model is minimised to this share of the gap, or of its part that the step is for.
MODEL_SHARE = 0.02
#: Gaps up to this multiple of the tolerance are computed with their rounding errors.
NEARLY = 2.0
#: A gap that falls by less in a pass asks for second derivatives over all rows.
SLOW = 0.25
#: Passes without a smaller gap.
PATIENCE = 20
#: Radius of augmented losses at first, per unit of decision values; growth unless their gap falls by the other factor.
RADIUS, GROWTH, FALL = 10.0, 3.0, 0.5
#: A gap that is so many times the smallest one shrinks the radius again, and asks for a smaller part of the norms
#: before the next centre: by this factor.
WORSE, NEARER = 5.0, 0.2
#: Shares of a step that are tried where the whole one leads up, and those that say that the radius is too large.
SHORTER, SHORT = (0.5, 0.25, 0.1, 0.03, 0.01, 0.003, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5), 0.03
#: Numbers of rows whose products are taken together.
TOGETHER = 2**18


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Values and derivatives of machines at points: ``f = Z coef + intercept``.

    Beside the rows stand their targets, weights and folds, and the centres of augmented losses. Of every machine the
    numbers of rows are ``Z coef``; added up are ``Z'b`` for the coefficients b of rows, ``Z' max(b, 0)``, and for
    augmented losses ``Z'b`` once these have moved on to b as their centre; then the second derivatives, of augmented
    losses also once they have moved.

    Attributes
    ----------
    loss : Loss
    coef : array of shape (n_machines, n_features)
    intercept, C : arrays of shape (n_machines,)
    fold : array of int, shape (n_machines,)
        The fold whose rows are left out, -1 for none.
    radius, later : arrays of shape (n_machines,)
        Of augmented losses, and after their centre has moved.
    curved : tuple of int
        Machines for which second derivatives are wanted, between the columns `index`, which are multiplied by `factors`
        and from which `centre` is subtracted.
    """

    loss: Loss
    coef: Array
    intercept: Array
    C: Array
    fold: Index
    radius: Array
    later: Array
    curved: tuple[int, ...]
    index: Index
    factors: Array
    centre: Array

    def __call__(self, Z: Any, beside: Vectors) -> tuple[Sequence[Array], tuple[Array, ...]]:
        """Results of a chunk."""
        (y, weight, folds), centres = beside[:3], beside[3:]
        exact = self.loss.smooth
        product = times_transposed(self.coef, Z)
        b, later = np.empty_like(product), np.empty_like(product if not exact else product[:0])
        hessians: list[Array] = []
        for k, own in enumerate(product):
            f = own + self.intercept[k]
            costs = self.C[k] * weight
            if self.fold[k] >= 0:
                costs[folds == self.fold[k]] = 0.0
            both: list[Smooth]
            if exact:
                both = [Smooth(self.loss, y, costs)]
                b[k] = both[0].coefficients(f)
            else:
                first = Augmented(self.loss, y, costs, centre=centres[k], radius=float(self.radius[k]))
                b[k] = first.coefficients(f)
                moved = Augmented(self.loss, y, costs, centre=b[k], radius=float(self.later[k]))
                later[k] = moved.coefficients(f)
                both = [first, moved]
            if k in self.curved:
                for smooth in both:
                    hessians += self._second_derivative(Z, smooth.curvature(f))
        above = self._above(Z, y, b)
        return list(product), (times(b, Z), above, times(later, Z), *hessians)

    def _above(self, Z: Any, y: Array, b: Array) -> Array:
        """``Z' max(b, 0)``."""
        own = np.flatnonzero((b > 0.0).any(axis=0))
        above = np.maximum(b, 0.0)
        # for most losses of classes these are half of the rows
        return times(above[:, own], Z[own]) if 4 * len(own) < 3 * len(y) else times(above, Z)

    def _second_derivative(self, Z: Any, h: Array) -> tuple[Array, Array, Array]:
        """``X diag(h) X'`` for columns as rows of X, ``X h`` and the sum of h."""
        used = np.flatnonzero(h)
        size = len(self.index)
        out, sums = np.zeros((size, size)), np.zeros(size)
        for part in pieces(len(used), TOGETHER // max(1, size)):
            some = used[part]
            X = Z[some][:, self.index]
            X = (X.toarray() if is_sparse(X) else X) * self.factors - self.centre
            root = np.sqrt(h[some])
            X *= root[:, None]
            out += X.T @ X
            sums += root @ X
        return out, sums, np.array([h.sum()])


class Sums(NamedTuple):
    """What a pass found for one machine.

    Attributes
    ----------
    product : array of shape (n_all_rows,)
    G, above, later : arrays of shape (n_features,)
    hessian : tuple of arrays
        Second derivatives, of an augmented loss also once it has moved; or none.
    """

    product: Array
    G: Array
    above: Array
    later: Array
    hessian: tuple[Array, ...]


@dataclass(eq=False)
class Point:
    """A point that was evaluated."""

    w: Array
    t: float
    product: Array
    value: float


@dataclass(eq=False)
class Best:
    """The point with the smallest gap so far."""

    w: Array
    t: float
    b: Array
    weights: Array
    values: Values
    product: Array


class RowMachine:
    """One machine during its solution.

    Attributes
    ----------
    problem : FeatureProblem
        With the machine on its training rows.
    rows : array of int or slice
        These rows among all.
    fold : int
        The fold that is left out, or -1.
    w : array of shape (n_features,)
        The point of the next pass, in the solver's units.
    t : float
    """

    def __init__(self, problem: FeatureProblem, rows: Index | slice, fold: int, w: Array, t: float) -> None:
        self.problem, self.rows, self.fold, self.w, self.t = problem, rows, fold, w, t
        loss = problem.machine.loss
        self.norm = norm_of(problem.weight_set)
        self.y, self.costs = problem.machine.y, problem.costs
        own = problem.machine.fit_intercept
        self.smooth: Smooth = Smooth(loss, self.y, self.costs, own)
        self.later = 0.0
        if not loss.smooth:
            start = 0.5 * self.y * self.costs if loss.classifies else np.zeros(len(self.y))
            radius = RADIUS / unit_of(loss, self.y, self.costs)
            self.smooth, self.later = (
                Augmented(loss, self.y, self.costs, own, centre=start, radius=radius),
                radius,
            )
        self.at: Point | None = None
        self.best: Best | None = None
        self.status: Status | None = None
        # whether second derivatives over all rows are wanted: few rows are near the kinks
        self.exact = not self.smooth.exact
        self.least, self.idle, self.fall = math.inf, 0, math.inf
        # the last gap, and the smallest since one was much larger
        self.gap = self.recent = math.inf
        # the norms' part of the gap at which the centre moves, as a share of that of the losses
        self.inner = 1.0
        self.trace: list[tuple[float, float, int]] = []
        self._G = self._b = self._f = np.empty(0)
        self._hessian: tuple[Array, ...] = ()
        self._aim = self._of_norms = self._of_loss = 0.0
        self._kept: tuple[Array, float, Array, Array, Array] | None = None

    # ---- after a pass -----------------------------------------------------------------------------

    def penalty(self, w: Array) -> float:
        """The norms' part of the objective."""
        return self.norm.value(self.problem.norms(w))

    def _value(self, w: Array, t: float, product: Array) -> float:
        return self.smooth.value(product + t) + self.penalty(w)

    def take(self, found: Sums, tol: float) -> bool:
        """Take what a pass found; returns whether its point is the start of a step."""
        product = np.ascontiguousarray(found.product[self.rows])
        value = self._value(self.w, self.t, product)
        if self.at is not None:
            before = self._value(self.at.w, self.at.t, self.at.product)
            if not value <= before + 1e-13 * abs(before):
                self._shorten(self.at, product, before)
                return False
        self.at = Point(self.w, self.t, product, value)
        # of losses that are augmented, decision values have their coefficients with them
        self._f = product + self.t
        b = self.smooth.coefficients(self._f)
        self._certify(b, found, tol)
        if self.status is not None:
            return False
        self._G, self._b, self._hessian = found.G, b, found.hessian[:3]
        if isinstance(self.smooth, Augmented):
            self._move(self.smooth, b, found)
        return True

    def _shorten(self, at: Point, product: Array, before: float) -> None:
        """The best of some shorter steps, by the products at both ends."""
        best, least = 0.0, before
        for share in SHORTER:
            w, t = at.w + share * (self.w - at.w), at.t + share * (self.t - at.t)
            value = self._value(w, t, at.product + share * (product - at.product))
            if value < least:
                best, least = share, value
            elif best:
                # convex: shorter ones are worse
                break
        self.exact = True
        self.idle += 1
        if isinstance(self.smooth, Augmented):
            if best <= SHORT:
                # few rows are between the kinks, and the model of the others is wrong at once
                self.smooth.radius /= GROWTH
            self.later = min(self.later, self.smooth.radius / GROWTH)
        if best == 0.0 and self.idle > PATIENCE:
            self.status = Status.STALLED
        self.w, self.t = at.w + best * (self.w - at.w), at.t + best * (self.t - at.t)

    def _certify(self, b: Array, found: Sums, tol: float) -> None:
        assert self.at is not None
        problem, loss, w = self.problem, self.problem.machine.loss, self.at.w
        share, side = imbalance(b if problem.machine.fit_intercept else np.zeros_like(b))
        heavier = found.above if float(b.sum()) > 0.0 else found.G - found.above
        b = b - np.sign(b) * side * share
        G = (found.G - share * heavier) * problem.factors
        reach = problem.norms(G)
        support, penalty = problem.weight_set.support(np.square(reach)), self.penalty(w)
        fixed = self.smooth.exact or not problem.machine.fit_intercept
        t = self.at.t if fixed else loss.intercept(self.y, self.costs, self.at.product)
        f = self.at.product + t
        losses = float(self.costs @ loss.value(self.y, f))
        gap = losses + penalty - loss.dual_term(self.y, self.costs, b) + 0.5 * support
        primal = losses + penalty
        self._of_norms = max(0.0, penalty + 0.5 * support - float(w @ G))
        self._of_loss = gap - self._of_norms
        near = gap <= NEARLY * tol * abs(primal)
        if near or self.best is None:
            values = self._bracket(w, t, b, G, found.product, tol * abs(primal))
            gap = values.gap
            if values.gap + values.rounding <= tol * abs(values.primal):
                self.status = Status.CONVERGED
        elif gap < self.least:
            self._kept = (w, t, b, G, found.product)
        self.trace.append((primal, relative_gap(primal, gap), int(np.count_nonzero(problem.norms(w)))))
        self.exact = self.exact or gap > SLOW * self.least
        self.idle = 0 if gap < 0.9 * self.recent else self.idle + 1
        self.recent = min(self.recent, gap)
        if self.idle > PATIENCE and self.status is None:
            self.status = Status.STALLED
        self.least = min(self.least, gap)
        self.gap = gap
        # a centre stays until the norms' part is small
        inner = max(gap, tol * abs(primal)) if self.smooth.exact else self._of_norms
        self._aim = max(MODEL_SHARE * inner, 1e-15 * abs(primal))

    def _bracket(self, w: Array, t: float, b: Array, G: Array, product: Array, enough: float) -> Values:
        """The values of a point with their rounding errors; it becomes the best one if its gap is the smallest."""
        reach = self.problem.norms(G)
        weights = self.norm.weights(self.problem.norms(w), reach)
        own = np.ascontiguousarray(product[self.rows])
        values, b = self.problem.bracket(weights, w, t, own, b, np.square(reach), enough=enough)
        if self.best is None or values.gap < self.best.values.gap:
            self.best = Best(w, t, b, weights, values, product)
        return values

    def _move(self, smooth: Augmented, b: Array, found: Sums) -> None:
        """Take the coefficients as centre of the augmented loss once the norms' part of the gap is small beside it."""
        if self._of_norms > self.inner * self._of_loss:
            return
        self._hessian = found.hessian[3:]
        worse = self.gap > WORSE * self.recent
        smooth.centre, smooth.radius = b, self.later
        self._G, self._b = found.later, smooth.coefficients(self._f)
        self._aim = MODEL_SHARE * self._of_loss
        if worse:
            # a smaller radius has more rows between the kinks, and longer steps; far from its solution a centre is
            # no better than the one before
            self.later = smooth.radius / GROWTH
            self.inner *= NEARER
            self.recent, self.idle = self.gap, 0
        elif self._of_loss > FALL * self.fall:
            self.later = GROWTH * smooth.radius
        self.fall = self._of_loss

    # ---- a step -----------------------------------------------------------------------------------

    def wanted(self, chosen: WorkingColumns, most: float) -> Index:
        """Blocks that could gain at the point of the last pass, those that gain most first."""
        assert self.at is not None
        norms, reach = self.problem.norms(self.at.w), self.problem.norms(self._G * self.problem.factors)
        return self.norm.entering(norms, reach, chosen.inside, self.problem.stack.widths, most)

    def step(self, chosen: WorkingColumns, positions: Index, shares: Array) -> None:
        """A Newton step on the chosen columns, with second derivatives of all rows if the pass gave them.

        Parameters
        ----------
        chosen : WorkingColumns
            Columns of the sampled rows.
        positions, shares
            Numbers of these rows, and for how many each stands; 0 for rows left out.
        """
        assert self.at is not None
        problem, at = self.problem, self.at
        if self._hessian and len(self._hessian[1]) == chosen.n_columns:
            C, x, sums = self._hessian
            total = float(sums[0])
            C, mean = chosen.reduced(C, x, total, self.norm.ridge)
        else:
            inside = np.flatnonzero(shares)
            place = positions[inside]
            place = place if isinstance(self.rows, slice) else np.searchsorted(self.rows, place)
            h = np.zeros(len(positions))
            h[inside] = self.smooth.curvature(self._f)[place] * shares[inside]
            C, mean, total = chosen.second_derivative(h, 0.0, self.norm.ridge)
        index, centre = chosen.index, chosen.centre[chosen.index]
        w, s = at.w[index], float(self._b.sum())
        reduced = (self._G * problem.factors)[index] - (centre + mean) * s
        q = C @ w + reduced - self.norm.ridge * w
        moved = self.norm.minimise(C, q, chosen.offsets, w, self._aim, 4.0 * at.value) - w
        self.w = at.w.copy()
        self.w[index] += moved
        if not problem.machine.fit_intercept:
            self.t = 0.0
        elif total > 0.0:
            self.t = at.t - float((centre + mean) @ moved) + s / total
        else:
            self.t = self.smooth.intercept(at.product, at.t)

    # ---- the end ----------------------------------------------------------------------------------

    def solution(self, tol: float, interrupted: bool) -> Solution:
        """The best point as a solution."""
        if self._kept is not None and self.status is not Status.CONVERGED:
            # the last point that had the smallest gap, with rounding errors
            self._bracket(*self._kept, enough=math.inf)
        assert self.best is not None
        best, problem = self.best, self.problem
        status = self.status or (Status.INTERRUPTED if interrupted else REACHED[used_up()] or Status.MAX_ITER)
        return problem.solution(
            best.weights, best.w, best.t, best.b,
            status=status, tol=tol, n_iter=len(self.trace), trace=problem.trace(self.trace), values=best.values,
        )  # fmt: skip
