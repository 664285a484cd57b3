"""Scores of values of C on folds, with kernels and kernel weights that stay as they are.

Folds that fit kernels anew and learn weights anew at every C cost more than all else in a fit. Here kernels are those
of all rows, weights are learnt once, roughly, and every fold only solves machines on parts of one matrix. Test rows of
a fold so have a share in widths and weights, few numbers for many rows, but none in coefficients. That is for choosing
C inside a fit; what estimates errors on new rows must leave rows out before the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelweave._loops import core
from kernelweave.fitting.folds import Fold, FoldScores
from kernelweave.fitting.task import Report, Setup, Task, silent
from kernelweave.gram import Gram
from kernelweave.machines.loss import Loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.solve import solve_problem
from kernelweave.mkl.weight_sets import LpBall

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: C at which weights are learnt, and the relative gap to which.
WEIGHTS_COST, WEIGHTS_TOL = 1.0, 1e-2
#: Violation of the conditions of an optimum at which machines on folds end, in units of the labels, and their steps at
#: most, as a multiple of the rows.
FOLD_EPS, MOST_STEPS = 3e-3, 200
#: Bytes of the matrices that are kept for all folds; beyond, they are summed again for each.
KEPT_BYTES = 2**28


def score_costs(
    task: Task,
    setups: Sequence[Setup],
    loss: Loss,
    ball: LpBall,
    rows: Rows,
    folds: Sequence[Fold],
    costs: Array,
    score: Callable[[Array, Rows], float],
    *,
    report: Report = silent,
) -> tuple[FoldScores, list[Array]]:
    """Score every C on every fold of some rows of a classification.

    Parameters
    ----------
    task : Task
    setups : sequence of Setup
        The problems on all rows of the task, one output each.
    loss : Loss
        A loss of classification whose dual is a quadratic program.
    ball : LpBall
        Set of the weights.
    rows : array of int
        The rows that take part.
    folds : sequence of (training rows, test rows)
        Positions among `rows`.
    costs : array of shape (n_costs,)
        Rising.
    score : callable
        ``score(decision values (n_test, n_outputs), test rows)`` -> float; larger is better.
    report : callable

    Returns
    -------
    scores : FoldScores
        In the order of `costs`.
    weights : list of arrays of shape (n_kernels,)
        Those of each problem.
    """
    whole = len(rows) == task.source.n_samples
    # problems may share a stack
    parts = {id(s.gram): s.gram if whole else s.gram.restrict(rows) for s in setups}
    looks = [
        _Look(
            parts[id(setup.gram)],
            setup.normalizer.scale,
            column[rows],
            _at(task.weights_of(k), rows),
            loss,
            ball,
        )
        for k, (setup, target) in enumerate(zip(setups, task.targets, strict=True))
        for column in np.ascontiguousarray(target.T)
    ]
    keep = len(looks) * 8 * len(rows) ** 2 <= KEPT_BYTES
    done: list[Array] = []
    interrupted = False
    try:
        for k, (train, test) in enumerate(folds):
            values = np.stack([look.walk(train, test, costs, keep=keep) for look in looks], axis=2)
            done.append(np.array([score(f, test) for f in values]))
            steps = [f"fold {k + 1} of {len(folds)}: C {C:.3g}" for _ in looks for C in costs]
            if any([report(step) for step in steps]):
                interrupted = len(done) < len(folds)
                break
    except KeyboardInterrupt:
        if not done:
            raise
        interrupted = True
    return FoldScores(np.array(done), interrupted, []), [look.weights for look in looks]


def _at(weights: Array | None, rows: Rows) -> Array | None:
    return None if weights is None else weights[rows]


class _Look:
    """One output on the rows that take part, with its weights."""

    def __init__(
        self, gram: Gram, scale: Array, y: Array, sample_weight: Array | None, loss: Loss, ball: LpBall
    ) -> None:
        self.y, self.sample_weight = y, sample_weight
        machine = self.machine = Machine(y, WEIGHTS_COST, loss, sample_weight)
        self.problem = KernelProblem(gram, machine, scale, ball)
        self.weights = ball.start(gram.n_kernels)
        if not machine.one_class:
            self.weights = solve_problem(self.problem, "dual-newton", tol=WEIGHTS_TOL).weights
        self._matrix: Array | None = None

    def walk(self, train: Rows, test: Rows, costs: Array, *, keep: bool) -> Array:
        """Values of the test rows at every C, shape (n_costs, n_test)."""
        K = self.problem.combine(self.weights) if self._matrix is None else self._matrix
        self._matrix = K if keep else None
        y = self.y[train]
        if (y == y[0]).all():
            return np.full((len(costs), len(test)), y[0])
        weight = _at(self.sample_weight, train)
        inner, cross = K[np.ix_(train, train)], K[np.ix_(test, train)]
        values, loss = np.empty((len(costs), len(test))), self.machine.loss
        b, g, before = np.zeros(len(y)), -y, np.zeros(len(y))
        for k, C in enumerate(costs):
            own = Machine(y, float(C), loss, weight)
            low, high = loss.bounds(y, own.costs)
            # the gradient stays that of the coefficients before, but for the ridge
            g += (own.ridge - before) * b
            before = own.ridge
            core.box_smo(inner, before, low, high, 0.0, b, g, FOLD_EPS, MOST_STEPS * len(y), True)
            values[k] = cross @ b + loss.intercept(y, own.costs, g + y - before * b)
            if not before.any() and not (np.abs(b) >= own.costs)[own.costs > 0].any():
                # no coefficient is at its bound: a larger C changes nothing
                values[k + 1 :] = values[k]
                break
        return values
