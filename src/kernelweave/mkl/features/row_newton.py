"""Machines on rows that are read in chunks: several C, and several folds, in the same passes.

A pass over the rows evaluates the losses and their derivatives at one point of every machine. Second derivatives come
from a sample of the rows, or are added up in the pass where that sample says too little. Between passes the numbers of
rows, one or two for each machine and row, are in memory, but no features; steps are shortened there. The points of the
first pass are the solutions on the sample, unless a start is given.

References
----------
F. Roosta-Khorasani, M. W. Mahoney, Sub-sampled Newton methods, Mathematical Programming 174 (2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kernelweave._allowance import used_up
from kernelweave._checks import InputError
from kernelweave._threads import one_blas_thread
from kernelweave._types import Array, Index
from kernelweave.gram.chunked import ChunkedFeatures
from kernelweave.machines.smooth import Augmented
from kernelweave.mkl.features.columns import WorkingColumns
from kernelweave.mkl.features.newton import LEAST, MarginDescent
from kernelweave.mkl.features.norms import SUMS
from kernelweave.mkl.features.problem import FeatureProblem
from kernelweave.mkl.features.row_machine import Evaluation, RowMachine, Sums
from kernelweave.mkl.weight_sets import WeightSet
from kernelweave.results import Solution, WarmStart

#: Passes, by default.
MOST = 100
#: Tolerance on the sample, where it has not all rows.
COARSE = 1e-3
#: Numbers of every row that are held for a machine, and those for all.
HELD, SHARED = 5, 12
#: Largest share of the memory for them.
SHARE = 0.5


class RowDescent:
    """Machines on the same rows during their solution.

    Parameters
    ----------
    problem : FeatureProblem
        On chunked features.
    Cs : array of shape (n_values,)
        Ascending.
    tol : float
    max_iter : int, optional
        Passes.
    callback : callable, optional
        ``callback(n_passes, objective, rel_gap)`` of the machine that is farthest from its tolerance; a true value ends
        the descent.
    folds : array of int, shape (n_samples,), optional
        Folds of the rows: machines without each of them are solved, too.
    start : WarmStart, optional
        Where to begin for every C, in the solver's units. Default: at the solutions on the sample.
    """

    def __init__(
        self,
        problem: FeatureProblem,
        Cs: Array,
        *,
        tol: float,
        max_iter: int | None = None,
        callback: Callable[[int, float, float], object] | None = None,
        folds: Index | None = None,
        start: WarmStart | None = None,
    ) -> None:
        assert isinstance(problem.stack, ChunkedFeatures)
        self.problem, self.stack, self.Cs, self.tol = problem, problem.stack, Cs, tol
        self.max_iter = MOST if max_iter is None else max_iter
        self.callback, self.folds, self.start = callback, folds, start
        self.n_passes, self.interrupted = 0, False
        weight = problem.machine.sample_weight
        self.weight = np.ones(self.stack.n_samples) if weight is None else weight

    # ---- the sample -------------------------------------------------------------------------------

    def _sampled(self) -> FeatureProblem:
        """The problem on the sampled rows, in the units of all."""
        sample, problem = self.stack.sample, self.problem
        return problem.with_parts(
            stack=self.stack.held(),
            targets=problem.targets[:, sample.positions],
            sample_weight=self.weight[sample.positions] * sample.shares,
            rows=None,
        )

    def _starts(self, sampled: FeatureProblem) -> list[WarmStart]:
        """For each C the solution on the sample; with coefficients of the rows if it has all of them."""
        if self.start is not None:
            return [self.start] * len(self.Cs)
        whole = len(self.stack.sample.positions) == self.stack.n_samples
        tol = 0.5 * self.tol if whole else max(self.tol, COARSE)
        descent = MarginDescent(sampled.at(float(self.Cs[0])), tol=tol)
        found = []
        for C in self.Cs:
            one = descent.solve(float(C))
            if descent.interrupted:
                # nothing is known of all rows
                raise KeyboardInterrupt
            b = one.dual_coef * self.problem.unit**2 if whole else None
            found.append(WarmStart(None, b, one.feature_coef / self.problem.factors, float(one.intercept)))
        return found

    # ---- machines ---------------------------------------------------------------------------------

    def machines(self) -> Iterator[list[RowMachine]]:
        """Solved machines, as many at a time as fit in memory: all of one fold, or of none, after each other."""
        with one_blas_thread():
            sampled = self._sampled()
            starts = self._starts(sampled)
        n_folds = 0 if self.folds is None else int(self.folds.max()) + 1
        wanted = [(k, fold) for fold in range(-1, n_folds) for k in range(len(self.Cs))]
        room = SHARE * self.stack.budget / (8.0 * self.stack.n_given) - SHARED
        most = int(max(1, min(room / HELD, len(wanted))))
        for first in range(0, len(wanted), most):
            group = [self._machine(k, fold, starts[k]) for k, fold in wanted[first : first + most]]
            with one_blas_thread():
                self._solve(group, sampled)
            yield group
            if self.interrupted:
                return

    def _machine(self, k: int, fold: int, start: WarmStart) -> RowMachine:
        problem, rows = self.problem.at(float(self.Cs[k])), slice(None)
        chosen: Index | slice = rows
        if fold >= 0:
            assert self.folds is not None
            chosen = np.flatnonzero(self.folds != fold)
            y = problem.machine.y[chosen]
            weight = self.weight[chosen]
            problem.machine.loss.check(y, weight)
            # its coefficients are of its own rows only
            problem = problem.with_parts(targets=y[None], sample_weight=weight, rows=None)
        assert start.feature_coef is not None
        found = RowMachine(problem, chosen, fold, start.feature_coef.copy(), start.intercept)
        if isinstance(found.smooth, Augmented) and start.dual_coef is not None:
            found.smooth.centre = np.clip(
                start.dual_coef[chosen], *problem.machine.loss.bounds(found.y, found.costs)
            )
        return found

    # ---- passes -----------------------------------------------------------------------------------

    def _solve(self, machines: Sequence[RowMachine], sampled: FeatureProblem) -> None:
        sample, stack = self.stack.sample, self.stack
        chosen = WorkingColumns(sampled)
        used = np.zeros(stack.n_kernels, dtype=bool)
        for machine in machines:
            used |= self.problem.norms(machine.w) > 0
        if used.any():
            chosen.add(np.flatnonzero(used))
        fold = None if self.folds is None else self.folds[sample.positions]
        active = list(machines)
        begun = False
        try:
            for _ in range(self.max_iter):
                found = self._pass(active, chosen)
                self.n_passes += 1
                begun = True
                moving = [m for m, sums in zip(active, found, strict=True) if m.take(sums, self.tol)]
                del found
                active = [m for m in active if m.status is None]
                if self._told(active or machines) or not active or used_up():
                    break
                for m in moving:
                    # products with new columns are of the next pass
                    chosen.add(m.wanted(chosen, max(LEAST, chosen.n_columns)))
                for m in moving:
                    own = sample.shares
                    if fold is not None and m.fold >= 0:
                        own = np.where(fold == m.fold, 0.0, own)
                    m.step(chosen, sample.positions, own)
        except KeyboardInterrupt:
            if not begun or any(m.best is None for m in machines):
                raise
            self.interrupted = True

    def _told(self, machines: Sequence[RowMachine]) -> bool:
        """Tell the callback; returns whether the descent ends."""
        if self.callback is None:
            return False
        primal, gap, _ = max((m.trace[-1] for m in machines if m.trace), key=lambda row: row[1])
        self.interrupted = bool(self.callback(self.n_passes, primal / self.problem.unit**2, gap))
        return self.interrupted

    def _pass(self, machines: Sequence[RowMachine], chosen: WorkingColumns) -> list[Sums]:
        """One pass over the rows, of which every machine has its part."""
        problem, loss = self.problem, self.problem.machine.loss
        curved = tuple(k for k, m in enumerate(machines) if m.exact and chosen.n_columns)
        index = chosen.index
        work = Evaluation(
            loss,
            np.array([m.w * problem.factors for m in machines]),
            np.array([m.t for m in machines]),
            np.array([m.problem.machine.C * problem.unit**2 for m in machines]),
            np.array([m.fold for m in machines]),
            np.array([getattr(m.smooth, "radius", 0.0) for m in machines]),
            np.array([m.later for m in machines]),
            curved,
            index,
            problem.factors[index],
            chosen.centre[index],
        )
        folds = np.zeros(self.stack.n_samples) if self.folds is None else self.folds.astype(np.float64)
        beside = [problem.machine.y, self.weight, folds, *(self._centre(m) for m in machines)]
        product, (G, above, later, *rest) = self.stack.over_rows(work, beside)
        each = 3 if loss.smooth else 6
        hessians = {k: tuple(rest[each * i : each * (i + 1)]) for i, k in enumerate(curved)}
        return [
            Sums(product[k], G[k], above[k], later[k] if len(later) else G[k], hessians.get(k, ()))
            for k in range(len(machines))
        ]

    def _centre(self, machine: RowMachine) -> Array:
        """The centre of an augmented loss on all rows; nothing of others."""
        if not isinstance(machine.smooth, Augmented):
            return self.weight
        if isinstance(machine.rows, slice):
            return machine.smooth.centre
        out = np.zeros(self.stack.n_samples)
        out[machine.rows] = machine.smooth.centre
        return out

    # ---- solutions --------------------------------------------------------------------------------


def solve_on_chunks(
    problem: FeatureProblem,
    Cs: Array,
    method: str,
    *,
    tol: float,
    max_iter: int | None = None,
    callback: Callable[[int, float, float], object] | None = None,
    start: WarmStart | None = None,
) -> list[Solution]:
    """Solutions for ascending C, all in the same passes; after an interruption those that have begun."""
    check_for_chunks(method, problem.weight_set)
    descent = RowDescent(problem, Cs, tol=tol, max_iter=max_iter, callback=callback, start=start)
    return [one.solution(tol, descent.interrupted) for group in descent.machines() for one in group]


def check_for_chunks(method: str, weight_set: WeightSet) -> None:
    """Raise for a method or a set of weights that needs all rows in memory."""
    if not isinstance(weight_set, SUMS):
        names = " or ".join(kind.__name__ for kind in SUMS)
        raise InputError(
            f"Weights of RowFeatures must be in a {names}, got {weight_set!r}. Other sets need all rows in memory: "
            "pass a FeatureStack."
        )
    if method != "auto":
        raise InputError(
            f"`solver` must be 'auto' for RowFeatures, got {method!r}. Others need all rows in memory: pass a "
            "FeatureStack."
        )
