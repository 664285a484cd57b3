"""Margin learners on a stack of kernels of all rows: decision values on some rows, and the choice of C by others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelweave.gram import Gram
from kernelweave.learners.base import TrainingSet
from kernelweave.learners.solving import MarginLearner, MarginSolution

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Folds = Sequence[tuple[Rows, Rows]]
#: From the kernels of the training rows to their factors.
Scale = Callable[[Gram], Array]


def make_folds(y: Array | NDArray[np.int64], n_folds: int, seed: int) -> list[tuple[Rows, Rows]]:
    """Stratified folds."""
    from sklearn.model_selection import StratifiedKFold

    return list(StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(np.zeros((len(y), 1)), y))


def accuracy(f: Array, y: Array) -> float:
    """Percent of the signs that are right."""
    return float(100 * np.mean((f > 0) == (y > 0)))


def decision_values(
    learner: MarginLearner,
    gram: Gram,
    y: Array,
    train: Rows,
    test: Rows,
    Cs: Sequence[float],
    scale: Scale,
) -> tuple[Array, list[MarginSolution]]:
    """Decision values on test rows for every C, and the solutions."""
    own = gram.restrict(train)
    factors = scale(own)
    path = learner.path(TrainingSet(own, y[train][:, None], factors, classification=True), 1.0 / np.array(Cs))
    out = np.empty((len(Cs), len(test)))
    full = np.zeros(len(y))
    for f, found in zip(out, path.solutions, strict=True):
        full[train] = found.dual_coef[:, 0]
        f[:] = gram.matvec(found.weights * factors, full)[test] + found.intercept[0]
    return out, list(path.solutions)


def choose(
    learners: Sequence[MarginLearner],
    gram: Gram,
    y: Array,
    train: Rows,
    folds: Folds,
    Cs: Sequence[float],
    scale: Scale,
) -> tuple[int, int]:
    """Positions of the learner and of the C that are right most often in the folds, the first of equals."""
    right = np.zeros((len(learners), len(Cs)), dtype=np.int64)
    for fit, held in folds:
        for row, learner in zip(right, learners, strict=True):
            f, _ = decision_values(learner, gram, y, train[fit], train[held], Cs, scale)
            row += ((f > 0) == (y[train[held]] > 0)).sum(axis=1)
    which, at = np.unravel_index(int(np.argmax(right)), right.shape)
    return int(which), int(at)
