"""Proximal Newton for a machine on features: the losses by their quadratic model, the norms as they are.

A model is minimised on working blocks, with a line search on the objective itself. When these are solved to a share
of the gap over all blocks, one pass over the features gives that gap, and blocks that could gain join them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kernelweave._allowance import used_up
from kernelweave._types import Array, Index
from kernelweave.machines.rounding import sum_error
from kernelweave.machines.smooth import Augmented, Expansion, smooth_loss
from kernelweave.mkl.features.columns import WorkingColumns
from kernelweave.mkl.features.norms import KNOWN, NEAR, SumOfNorms, norm_of
from kernelweave.mkl.features.problem import FeatureProblem, Values
from kernelweave.mkl.features.weighted_rows import WeightedRows
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.weight_sets import WeightSet
from kernelweave.results import REACHED, Solution, Status, WarmStart, relative_gap

#: Newton steps, by default.
MOST = 500
#: Working blocks are solved to this share of the gap over all blocks, and at first to `ROUGH`.
INSIDE, SHARE, ROUGH = 0.7, 0.1, 0.03
#: Tolerance for smaller C on the way to a large one.
ON_THE_WAY = 0.1
#: Gaps that are larger than the tolerance by this factor are not bounded to the last digit.
FAR = 2.0
#: A model is minimised to this share of the gap, or to this one of the gap that is wanted.
MODEL_SHARE, LAST_SHARE = 0.1, 0.5
#: Weights of rows that have changed by less stay as they are in the second derivative; none for losses of squares.
COARSE = 0.1
#: Working columns, as a share of the rows, from which a model is minimised on rows.
BESIDE_ROWS = 0.02
#: Tolerances from which their columns are held in single precision, and the range of costs and targets there.
SINGLE_ROWS, MODERATE = 3e-5, 1e15
#: Most numbers of weighted rows.
MOST_NUMBERS = 2**25
#: The gap falls to this share in a step, or weighted rows are made afresh.
FAST = 0.3
#: Share of the level of blocks with coefficients from which others take part in such a model.
TAKEN = 0.9
#: Columns that may join at once: so many, or this multiple of those with coefficients.
LEAST, MORE = 100, 2.0
#: Along a path working blocks are solved to this gap at once; blocks join from this share of the gradients of others.
AT_ONCE, AHEAD = 9e-5, 0.98
#: The shortest step, and the required share of the expected decrease.
SHORTEST, SUFFICIENT = 1e-6, 1e-4
#: Steps without a smaller gap, and steps at a time where kernels could be used instead.
PATIENCE, LONGEST = 40, 150
#: Rows above which kernels are not used, however many columns there are.
MOST_ROWS = 5000
#: The radius of augmented losses grows by this factor unless their gap falls by the other.
GROWTH, FALL = 3.0, 0.3


#: Solves a problem on kernels: ``on_kernels(problem, tol, warm)``.
OnKernels = Callable[[KernelProblem, float, WarmStart], Solution]


def knows(weight_set: WeightSet) -> bool:
    """Whether the set of weights is one of this solver's."""
    return isinstance(weight_set, KNOWN)


@dataclass(eq=False)
class Measure:
    """The value at working blocks, its distance from a bound, and its parts at the coefficients themselves."""

    primal: float
    gap: float
    of_loss: float
    of_norms: float


class Solved(NamedTuple):
    """A solution on a path: the sum of the norms and its multiplier, coefficients, and their gradient over C."""

    level: float
    multiplier: float
    w: Array
    slopes: Array


class MarginDescent:
    """A problem during its solution, for one C after another.

    Parameters
    ----------
    problem : FeatureProblem
    tol : float
    max_iter : int, optional
        Newton steps for one C.
    callback : callable, optional
        ``callback(n_iter, objective, rel_gap)``.
    on_kernels : callable, optional
        Solves the problem on kernels to a tolerance from a start; it is used where working columns outnumber rows.
    """

    def __init__(
        self,
        problem: FeatureProblem,
        *,
        tol: float,
        max_iter: int | None = None,
        callback: Callable[[int, float, float], object] | None = None,
        on_kernels: OnKernels | None = None,
    ) -> None:
        self.tol, self.callback, self.on_kernels = tol, callback, on_kernels
        self.max_iter = MOST if max_iter is None else max_iter
        self.norm = norm_of(problem.weight_set)
        self.chosen = WorkingColumns(problem, single=self._single(problem))
        self.rows = WeightedRows(self.chosen)
        self.w = np.empty(0)
        self._of = self.w, np.empty(0), 0.0  # coefficients, the norms of their blocks, and the penalty
        self.product = np.zeros(problem.stack.n_samples)
        self._t = 0.0
        self._stopped = False  # whether Ctrl-C was pressed on the way to the first C
        self.slow = self.hard = False  # whether kernels are used, and from the beginning
        self.n_before = 0  # steps on the way to the first C
        self.last: list[Solved] = []  # the last two
        self._set(problem)

    def _single(self, problem: FeatureProblem) -> bool:
        """Whether single precision is enough for the working columns."""
        loss, costs = problem.machine.loss, problem.costs[problem.costs > 0.0]
        sizes = np.r_[costs, 1.0 / costs, np.abs(problem.machine.y)]
        on_rows = (
            loss.smooth and loss.rowwise and isinstance(self.norm, SumOfNorms) and self.norm.ridge == 0.0
        )
        few = problem.stack.n_features < BESIDE_ROWS * problem.stack.n_samples
        return on_rows and not few and self.tol >= SINGLE_ROWS and bool((sizes < MODERATE).all())

    def _set(self, problem: FeatureProblem) -> None:
        before = getattr(self, "smooth", None)
        self.problem, self.y, self.costs = problem, problem.machine.y, problem.costs
        self.smooth = smooth_loss(
            problem.machine.loss, self.y, self.costs, fit_intercept=problem.machine.fit_intercept
        )
        if isinstance(self.smooth, Augmented) and isinstance(before, Augmented):
            # coefficients at their bounds stay there
            bounded = np.abs(before.centre) >= before.costs
            moved = np.where(bounded, before.centre * (self.costs / before.costs), before.centre)
            self.smooth.centre = np.clip(moved, *problem.machine.loss.bounds(self.y, self.costs))
        self.fall = np.inf
        self._few_sweeps = True  # whether models on rows were minimised by a few sweeps
        self._here: Expansion | None = None  # at the product
        self._G: tuple[Array, Array] | None = (
            None  # coefficients of the rows, and the gradient of all features
        )

    def begin_at(self, w: Array) -> None:
        """Start from coefficients of all features, in the solver's units."""
        if not np.isfinite(w).all():
            return
        self._grow(np.flatnonzero(self.problem.norms(w)))
        self.w = w[self.chosen.index].copy()
        self.product = self.chosen.combine(self.w)
        # a start that is worse than zero
        values = []
        for w, product in ((self.w, self.product), (0.0 * self.w, np.zeros_like(self.product))):
            values.append(self._value(w, Expansion(self.smooth, product, 0.0)))
        if not values[0] <= values[1]:
            self.w, self.product = 0.0 * self.w, np.zeros_like(self.product)

    # ---- a solution -------------------------------------------------------------------------------

    def on_the_way(self) -> None:
        """Solve for smaller C to a coarse tolerance, as a start."""
        C, traces = self.problem.machine.C, self.problem.traces
        first = len(self.y) / float(traces.max()) if traces.any() else C
        if not first < C or self.max_iter != MOST:
            return
        given, callback = self.tol, self.callback
        self.tol, self.callback = max(given, ON_THE_WAY), None
        steps = 0
        for smaller in np.geomspace(first, C, 1 + math.ceil(math.log10(C / first)))[:-1]:
            steps += self.solve(float(smaller)).n_iter
            if self.interrupted:
                self._stopped = True
                break
            if self.slow:
                # larger C are no easier
                self.hard = True
                break
        self.n_before = steps
        self.tol, self.callback = given, callback
        self._set(self.problem.at(C))

    def solve(self, C: float | None = None) -> Solution:
        """The solution for one C, from the last one."""
        if C is not None and C != self.problem.machine.C:
            self._set(self.problem.at(C))
            self._prune()
        problem, chosen = self.problem, self.chosen
        self._likely = np.zeros(problem.n_kernels, dtype=bool)
        self.n_iter, self.interrupted, self._stopped = 0, self._stopped, False
        self.trace: list[tuple[float, float, int]] = []
        aim, stalled, self.slow = ROUGH, False, self.hard
        foreseen = self._extrapolate()
        if foreseen is not None:
            aim = max(AT_ONCE, INSIDE * self.tol)
            self._grow(self._outside(foreseen, AHEAD))
            self._likely = foreseen >= NEAR * self.norm.level(self._norms(self.w))
        elif not self.w.any():
            b, intercept = self._coefficients()
            G = self._gradient(b)
            reach = problem.norms(G)
            at = self._measure(b, intercept, reach, 0.0, self.tol)
            aim = self._next(aim, relative_gap(at.primal, at.gap), 1)
            self._keep(np.zeros(len(G)), G, 0.0, float(reach.max()) / problem.machine.C)
            self._grow(self._outside(reach))
        while True:
            try:
                b, intercept, stalled = self._solve_chosen(aim)
            except KeyboardInterrupt:
                # the coefficients so far, which are certified like others
                self.interrupted, self.product = True, chosen.combine(self.w)
                self.rows.forget()
                b, intercept = self._coefficients()
            G = self._gradient(b)
            reach = problem.norms(G)
            at = self._measure(b, intercept, reach, float(self.w @ G[chosen.index]), self.tol)
            left = relative_gap(at.primal, at.gap)
            if left > FAR * self.tol and aim >= 1e-4 * self.tol and not self._ended():
                # far from a solution its bounds are not needed to the last digit
                grown = self._grow(self._outside(reach))
                if grown or not stalled:
                    self._tell(at.primal, left, last=True)
                    aim = self._next(aim, left, grown)
                    continue
            w = np.zeros(problem.stack.n_features)
            w[chosen.index] = self.w
            intercept -= chosen.shift(self.w)
            weights = self.norm.weights(problem.norms(w), reach)
            enough = INSIDE * self.tol * at.primal
            values, b = problem.bracket(
                weights, w, intercept, problem.fitted(w), b, np.square(reach), enough=enough
            )
            left = relative_gap(values.primal, values.gap)
            self._tell(values.primal, left, last=True)
            status = self._status(values)
            grown = 0 if status else self._grow(self._outside(reach))
            possible = aim >= 1e-4 * self.tol and values.gap > values.rounding and not stalled
            if status or not (grown or possible or self._sharpen()):
                break
            aim = self._next(aim, left, grown)
        n_before, self.n_before = self.n_before, 0
        level = float(problem.norms(w).sum())
        self._keep(w, G, level, level / problem.machine.C)
        return problem.solution(
            weights, w, intercept, b,
            status=status or Status.STALLED, tol=self.tol, n_iter=self.n_iter + n_before,
            trace=problem.trace(self.trace), values=values,
        )  # fmt: skip

    def _sharpen(self) -> bool:
        """Go on in double precision; returns whether there was less before."""
        found = self.chosen.sharpen()
        if found:
            self.product = self.chosen.combine(self.w)
            self.rows.forget()
            self._few_sweeps = True
        return found

    def _extrapolate(self) -> Array | None:
        """Go on along the line through the last two solutions, if the objective is lower there.

        Coefficients, the sum of norms and gradients over C are nearly linear in the multiplier of that sum: the sum
        over C. Returns the norms of the gradient there, or None without a move.
        """
        C = self.problem.machine.C
        if len(self.last) < 2 or not self.smooth.exact:
            return None
        first, last = self.last
        if not (last.multiplier < first.multiplier and first.level < last.level < C * last.multiplier):
            return None
        rise = (last.level - first.level) / (first.multiplier - last.multiplier)
        multiplier = (last.level + rise * last.multiplier) / (C + rise)
        ahead = (last.multiplier - multiplier) / (first.multiplier - last.multiplier)
        index = self.chosen.index
        w = last.w[index]
        w = np.where(w != 0.0, w + ahead * (w - first.w[index]), 0.0)
        there = Expansion(self.smooth, self.chosen.combine(w), self._t)
        if not self._value(w, there) < self._value(self.w, self._at()):
            return None
        self._go(w, there)
        return C * self.problem.norms((1.0 + ahead) * last.slopes - ahead * first.slopes)

    def _keep(self, w: Array, G: Array, level: float, multiplier: float) -> None:
        """Take a solution as the last one."""
        self.last = [*self.last[-1:], Solved(level, multiplier, w, G / self.problem.machine.C)]

    def _next(self, aim: float, left: float, grown: int) -> float:
        """The gap over the working blocks to reach next, from that over all blocks."""
        most = max(SHARE * left, INSIDE * self.tol)
        return min(most, ROUGH) if grown else min(0.3 * aim, most)

    def _status(self, values: Values) -> Status | None:
        """How the solution ends here; None if it goes on."""
        if values.gap + values.rounding <= self.tol * abs(values.primal):
            return Status.CONVERGED
        return self._ended()

    def _ended(self) -> Status | None:
        """How it ends before a solution; None if it goes on."""
        if self.interrupted:
            return Status.INTERRUPTED
        return Status.MAX_ITER if self.n_iter >= self.max_iter else REACHED[used_up()]

    def _solve_chosen(self, aim: float) -> tuple[Array, float, bool]:
        """Solve on the working blocks; returns coefficients of the rows, the intercept, and whether it stalled."""
        possible = self.on_kernels is not None and len(self.y) <= MOST_ROWS
        outnumbered = len(self.y) < self.chosen.n_columns and not self._on_rows()
        if not (possible and (self.slow or outnumbered)):
            stalled = self._descend(aim)
            if not (stalled and possible):
                return *self._coefficients(), stalled
            self.slow = True
        return self._solve_on_kernels(aim)

    def _solve_on_kernels(self, aim: float) -> tuple[Array, float, bool]:
        """The same through the dual, with the kernels of the working blocks."""
        problem, chosen = self.problem, self.chosen
        assert self.on_kernels is not None
        kernels, square = chosen.kernels, problem.unit * problem.unit
        part = KernelProblem(
            problem.stack.gram(kernels), problem.machine, problem.scale[kernels], problem.weight_set
        )
        b, _ = self._coefficients()
        norms = self._norms(self.w)
        warm = WarmStart(self.norm.weights(norms, norms), b / square) if norms.any() else WarmStart()
        found = self.on_kernels(part, aim, warm)
        self.n_iter += found.n_iter
        b = found.dual_coef * square
        self.w = np.repeat(found.weights, chosen.widths) * chosen.products(b)
        self.product = chosen.combine(self.w)
        left = found.rel_gap
        self._tell(found.primal * square, left)
        return b, float(found.intercept) + chosen.shift(self.w), not found.status.ok

    def _tell(self, primal: float, left: float, *, last: bool = False) -> None:
        active = int(np.count_nonzero(self._norms(self.w)))
        row = (primal, left, active)
        if last and self.trace:
            self.trace[-1] = row
            return
        self.trace.append(row)
        if self.callback is not None and self.n_iter:
            self.interrupted = bool(self.callback(self.n_iter, primal / self.problem.unit**2, left))

    # ---- blocks -----------------------------------------------------------------------------------

    def _outside(self, reach: Array, near: float = NEAR) -> Index:
        """Blocks that could gain, those that gain most first."""
        norms, widths = self._norms(self.w), self.problem.stack.widths
        active = self.chosen.kernels[norms > 0] if len(norms) else self.chosen.kernels
        most = max(LEAST, MORE * int(widths[active].sum()))
        return self.norm.entering(norms, reach, self.chosen.inside, widths, most, near)

    def _prune(self) -> None:
        """Forget blocks without coefficients, if they have most of the columns."""
        used = self._norms(self.w) > 0 if len(self.w) else np.zeros(0, dtype=bool)
        widths = self.chosen.widths
        if np.count_nonzero(used) < self.norm.fewest or 2 * int(widths[used].sum()) > self.chosen.n_columns:
            return
        kernels, columns = self.chosen.kernels[used], np.repeat(used, widths)
        index, w = self.chosen.index[columns], self.w[columns]
        self.chosen = WorkingColumns(self.problem, self.chosen.centre, single=self.chosen.single)
        self.chosen.add(kernels)
        # blocks are held in the order of their numbers
        self.w = w[np.argsort(index)]

    def _grow(self, kernels: Index) -> int:
        grown = self.chosen.add(kernels)
        self.fall = np.inf
        self.w = np.concatenate([self.w, np.zeros(self.chosen.n_columns - len(self.w))])
        return grown

    def _norms(self, w: Array) -> Array:
        """Norms of the blocks of coefficients."""
        return self._sizes(w)[1]

    def _penalty(self, w: Array) -> float:
        return self._sizes(w)[2]

    def _sizes(self, w: Array) -> tuple[Array, Array, float]:
        # those of the same coefficients are asked for again and again
        if w is not self._of[0]:
            norms = self._norms_of(w)
            self._of = w, norms, self.norm.value(norms)
        return self._of

    def _norms_of(self, v: Array) -> Array:
        return np.sqrt(np.add.reduceat(v * v, self.chosen.offsets[:-1])) if len(v) else np.zeros(0)

    # ---- values -----------------------------------------------------------------------------------

    def _at(self) -> Expansion:
        """The smooth loss at the present point."""
        if self._here is None or self._here.product is not self.product:
            self._here = Expansion(self.smooth, self.product, self._t)
            self._t = self._here.intercept
        return self._here

    def _go(self, w: Array, there: Expansion) -> None:
        self.w, self.product, self._t, self._here = w, there.product, there.intercept, there

    def _value(self, w: Array, there: Expansion) -> float:
        return there.value + self._penalty(w)

    def _coefficients(self) -> tuple[Array, float]:
        """Feasible coefficients of the rows at the present point, and the best intercept of the loss itself."""
        here, machine = self._at(), self.problem.machine
        if self.smooth.exact or not machine.fit_intercept:
            return here.b, here.intercept
        return here.b, machine.loss.intercept(self.y, self.costs, self.product)

    def _gradient(self, b: Array) -> Array:
        """The gradient of all features, which belongs to the working columns, too, until they move."""
        G = self.problem.gradient(b)
        self._G = b, G
        return G

    def _products(self, b: Array) -> Array:
        """The gradient of the working columns."""
        # of losses with kinks a tube at C = 10 stalled with gradients of columns that are not centred
        if self.smooth.exact and self._G is not None and self._G[0] is b:
            return self._G[1][self.chosen.index]
        return self.chosen.products(b)

    def _measure(self, b: Array, t: float, reach: Array, along: float, aim: float) -> Measure:
        """Both bounds over blocks with norms `reach` of the gradient, which times the coefficients is `along`."""
        loss, f = self.problem.machine.loss, self.product + t
        penalty = self._penalty(self.w)
        support = self.problem.weight_set.support(np.square(reach))
        primal = (self._at().value if self.smooth.exact else loss.total(self.y, self.costs, f)) + penalty
        of_norms = max(0.0, penalty + 0.5 * support - along)
        # minus the derivatives of a loss are best for it
        of_loss = 0.0 if self.smooth.exact else loss.gap(self.y, self.costs, b, f)
        gap = of_loss + of_norms
        # the coefficients of losses with a derivative have the best multiple themselves, near a solution
        if gap <= aim * abs(primal) or (self.smooth.exact and gap > FAR * aim * abs(primal)):
            return Measure(primal, gap, of_loss, of_norms)
        multiple = self.problem.multiple(b, support, gap)
        if multiple != 1.0:
            own = max(0.0, penalty + 0.5 * multiple**2 * support - multiple * along)
            gap = min(gap, loss.gap(self.y, self.costs, multiple * b, f) + own)
        return Measure(primal, gap, of_loss, of_norms)

    # ---- steps ------------------------------------------------------------------------------------

    def _on_rows(self) -> bool:
        """Whether models are minimised on weighted rows: where these are not many more than the working columns."""
        return (
            self._few_sweeps
            and self.smooth.exact
            and self.problem.machine.loss.rowwise
            and isinstance(self.norm, SumOfNorms)
            and self.norm.ridge == 0.0
            and self.chosen.held
            and BESIDE_ROWS * len(self.y) <= self.chosen.n_columns <= MOST_NUMBERS / len(self.y)
        )

    def _model_on_rows(self, h: Array, b: Array, G: Array, aim: float) -> Array:
        """Coefficients at which the model on weighted rows has a gap of `aim`.

        Blocks far from having coefficients, by their gradients G, stay without.
        """
        norms, reach = self._norms(self.w), self._norms_of(G)
        level = max(self.norm.level(norms), float(reach.max()))
        taken = np.flatnonzero((norms > 0) | (reach >= TAKEN * level) | self._likely[self.chosen.kernels])
        if self.rows.columns is not self.chosen:
            self.rows = WeightedRows(self.chosen)
        quadratic = self.problem.machine.loss.quadratic
        w, self._few_sweeps = self.rows.minimise(h, b, self.w, self.product, taken, aim, exact=quadratic)
        return w

    def _descend(self, aim: float) -> bool:
        """Newton steps until the gap over the working blocks is at most `aim`; returns whether they stalled."""
        smooth, chosen = self.smooth, self.chosen
        least, idle = np.inf, 0
        possible = self.on_kernels is not None and len(self.y) <= MOST_ROWS
        last = self.n_iter + LONGEST if possible else math.inf
        while True:
            b, t = self._coefficients()
            G = self._products(b)
            at = self._measure(b, t, self._norms_of(G), float(self.w @ G), aim)
            self._tell(at.primal, relative_gap(at.primal, at.gap))
            if (
                at.gap <= aim * abs(at.primal)
                or self.n_iter >= self.max_iter
                or self.interrupted
                or used_up()
            ):
                return False
            idle = 0 if at.gap < 0.9 * least else idle + 1
            if not (self.rows.fresh or at.gap < FAST * least):
                self.rows.forget()
            least = min(least, at.gap)
            if idle > PATIENCE or self.n_iter >= last:
                return True
            self.n_iter += 1
            inner = at.gap if smooth.exact else at.of_norms
            known: tuple[Array, Array] | None = (b, G)
            if isinstance(smooth, Augmented) and at.of_norms <= at.of_loss:
                smooth.centre, self._here = b, None
                if at.of_loss > FALL * self.fall:
                    smooth.radius *= GROWTH
                    chosen.scale(GROWTH)
                self.fall = at.of_loss
                inner, known = at.of_loss, None
            # the last step before the aim need not be finer than that
            enough = LAST_SHARE * min(aim * abs(at.primal), inner) if smooth.exact else 0.0
            if not self._step(max(MODEL_SHARE * inner, enough), at.primal, known):
                if not isinstance(smooth, Augmented):
                    return True
                # a radius too large for the digits of a step
                smooth.radius /= GROWTH
                chosen.scale(1.0 / GROWTH)
                self._here, self.fall = None, np.inf
            if possible and not self._few_sweeps and len(self.y) < chosen.n_columns:
                # kernels are better than products of so many columns
                return True

    def _step(self, aim: float, primal: float, known: tuple[Array, Array] | None) -> bool:
        """One Newton step; returns whether the objective fell. Coefficients of rows and their products may be known."""
        smooth, chosen = self.smooth, self.chosen
        here = self._at()
        if known is None:
            known = here.b, chosen.products(here.b)
        (b, G), h = known, here.h
        # rows without a second derivative have no part in a model on rows
        used = h > 0
        widest = int(chosen.widths.max())
        on_rows = self._on_rows() and widest <= np.count_nonzero(used) and not b[~used].any()
        aim = max(aim, 1e-15 * abs(primal))
        if on_rows:
            step = self._model_on_rows(h, b, G, aim) - self.w
        else:
            coarse = COARSE if smooth.exact and not self.problem.machine.loss.quadratic else 0.0
            root = self.problem.machine.loss.root(self.y, self.costs, here.f) if chosen.held else None
            if root is None:
                C, _, _ = chosen.second_derivative(h, coarse, self.norm.ridge)
            else:
                C = chosen.second_derivative_of(root, self.norm.ridge)
            extent = primal + float((np.square(b[used]) / h[used]).sum())
            q = C @ self.w + G - self.norm.ridge * self.w
            step = self.norm.minimise(C, q, chosen.offsets, self.w, aim, extent) - self.w
        along = chosen.combine(step)
        penalty, whole = self._penalty(self.w), self.w + step
        value, expected = here.value + penalty, self._penalty(whole) - penalty - float(G @ step)
        # near a solution the value is known to rounding before the gap is
        rounding = sum_error(len(b)) * abs(value) if smooth.exact else 0.0
        length = 1.0
        while length > SHORTEST:
            w = whole if length == 1.0 else self.w + length * step
            there = Expansion(smooth, self.product + length * along, self._t)
            after = self._value(w, there)
            if after <= value + SUFFICIENT * length * min(expected, 0.0) + rounding:
                break
            length *= 0.5
        else:
            after = np.inf
        if on_rows and not self.rows.fresh and not after <= value + rounding:
            self.rows.forget()
            return self._step(aim, primal, known)
        if not after < np.inf:
            return False
        self._go(w, there)
        return after < value + rounding
