"""Choosing a regularisation parameter on folds without solving every problem at every candidate.

A score along a path falls where the model is too stiff, and again where it follows the noise, or stays as it is. On the
first fold every second candidate is looked at, roughly and from the stiff end, until the score has turned. All folds
are then asked about the candidates around the best one only, and begin with its weights; more are added as long as the
best of them is the last on a side.

With a ridge of its own the function of a stiff candidate is not stiff, and the score of one fold may have several
maxima of about the same height. The first look is then one at all folds. If there are many rows, it takes some of them
from each fold; the first fold alone climbs to the best candidate on all of its rows, and all folds are asked about this
one only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelweave.fitting.folds import SCORING_TOL, Fold, Starts, score_folds
from kernelweave.fitting.task import Report, Task, silent
from kernelweave.learners import Learner

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Score = Callable[[Array, Rows], float]

#: Every how many candidates one is looked at on the first fold, and the relative gap of these solutions.
STRIDE, ROUGH_TOL = 2, 1e-3
#: How many of them come first; the score has turned when `PATIENCE` of them are no better than an earlier one.
FIRST, PATIENCE = 6, 3
#: Most distinct rows of a first look at all folds.
LOOK_ROWS = 800
#: What counts as no better on the first fold, and as equal later: shares of the spread of the first look's scores.
ROUGHLY, EQUAL = 2e-3, 1e-4
#: Candidates on either side of the best one that all folds are asked about, and how many are added on a side at first;
#: each time twice as many.
AROUND, FURTHER = 1, 2


@dataclass(frozen=True)
class Searched:
    """Scores of some candidates.

    Attributes
    ----------
    positions : array of int, shape (n_scored,)
        Rising.
    scores : array of shape (n_folds done, n_scored) or (n_folds done, n_scored, n_relax)
    weights : list, for every fold done a tuple of arrays of shape (n_scored, n_kernels), one for each problem
    interrupted : bool
        Ctrl-C or a callback ended it early.
    """

    positions: NDArray[np.intp]
    scores: Array
    weights: list[tuple[Array, ...]]
    interrupted: bool

    @property
    def mean(self) -> Array:
        """Mean scores over the folds, at the best ridge parameter of each candidate."""
        mean = self.scores.mean(axis=0)
        return mean if mean.ndim == 1 else mean.max(axis=1)

    def starts(self, at: int) -> list[list[Array]]:
        """Weights at one of the candidates, for each fold and problem."""
        return [[weights[at] for weights in problems] for problems in self.weights]

    def mean_weights(self, at: int) -> list[Array]:
        """Means over the folds at one of the candidates, for each problem."""
        return [
            np.mean([weights[at] for weights in folds], axis=0) for folds in zip(*self.weights, strict=True)
        ]

    def beside(self, other: Searched) -> Searched:
        """Together with candidates that follow, or come before."""
        left, right = (self, other) if self.positions[0] < other.positions[0] else (other, self)
        n_folds = min(len(left.scores), len(right.scores))
        return Searched(
            np.r_[left.positions, right.positions],
            np.concatenate([left.scores[:n_folds], right.scores[:n_folds]], axis=1),
            [
                tuple(np.concatenate(pair) for pair in zip(*problems, strict=True))
                for problems in zip(left.weights[:n_folds], right.weights[:n_folds], strict=True)
            ],
            left.interrupted or right.interrupted,
        )


def can_search(task: Task, learner: Learner, alphas: Array) -> bool:
    """Whether candidates are many, and the path of each problem can begin with weights."""
    one_each = getattr(learner, "shared_weights", True) or all(y.shape[1] == 1 for y in task.targets)
    return learner.begins and one_each and len(alphas) > STRIDE * FIRST


def search_folds(
    task: Task,
    learner: Learner,
    folds: Sequence[Fold],
    alphas: Array,
    score: Score,
    *,
    n_jobs: int | None = None,
    report: Report = silent,
) -> Searched:
    """Score the candidates around the best one, or only that one, on every fold.

    Parameters
    ----------
    task : Task
    learner : Learner
        One that `can_search`.
    folds : sequence of (training rows, test rows)
    alphas : array of shape (n_alphas,)
        Descending.
    score : callable
        ``score(decision values (n_test, n_outputs), test rows)`` -> float; larger is better.
    n_jobs : int, optional
        Folds run in parallel through joblib.
    report : callable

    Notes
    -----
    A score with several maxima may have a better one elsewhere than near the best of the first fold. Candidates that
    differ by less than 1e-4 of the spread of the scores along the path of that fold count as equal.
    """

    def look(
        some: Sequence[Fold], positions: Rows, starts: Sequence[Starts] | None, tol: float, share: float = 1.0
    ) -> Searched:
        found = score_folds(
            task,
            learner,
            some,
            share * alphas[positions],
            score,
            n_jobs=n_jobs,
            tol=tol,
            report=report,
            starts=starts,
        )
        return Searched(positions, found.scores, found.weights, found.interrupted)

    relaxed = learner.relax_grid(alphas) is not None
    first, share = _thinned(task.content, folds) if relaxed else (folds[:1], 1.0)
    slack = 0.0 if relaxed else ROUGHLY
    coarse = np.arange(0, len(alphas), STRIDE)
    rough = look(first, coarse[:FIRST], None, ROUGH_TOL, share)
    while not rough.interrupted:
        done, wanted = len(rough.positions), min(len(coarse), first_good(rough.mean, slack) + 1 + PATIENCE)
        if wanted <= done:
            break
        rough = rough.beside(look(first, coarse[done:wanted], rough.starts(-1), ROUGH_TOL, share))
    if rough.interrupted:
        return rough
    at = first_good(rough.mean, slack)
    spread = float(np.ptp(rough.mean))
    best = int(rough.positions[at])
    low, high = max(0, best - AROUND), min(len(alphas), best + AROUND + 1)
    further = FURTHER
    # the first fold climbs alone from where fewer rows have led
    climbing = folds[:1] if share < 1.0 else folds
    starts = rough.starts(max(0, at - 1))
    if len(first) != len(climbing):
        starts = starts[:1] * len(climbing)
    found = rough
    try:
        found = look(climbing, np.arange(low, high), starts, SCORING_TOL)
        while not found.interrupted:
            mean = found.mean
            at, better = int(np.argmax(mean)), EQUAL * spread
            if at == 0 and low > 0 and mean[0] > mean[1] + better:
                some, near = np.arange(max(0, low - further), low), 0
            elif at == len(mean) - 1 and high < len(alphas) and mean[-1] > mean[-2] + better:
                some, near = np.arange(high, min(len(alphas), high + further)), -1
            else:
                break
            found = found.beside(look(climbing, some, found.starts(near), SCORING_TOL))
            further *= 2
            low, high = int(found.positions[0]), int(found.positions[-1]) + 1
        if share < 1.0 and not found.interrupted:
            at = int(np.argmax(found.mean))
            found = look(folds, found.positions[[at]], found.starts(at) * len(folds), SCORING_TOL)
    except KeyboardInterrupt:
        # before one fold was complete at further candidates
        return replace(rough if share == 1.0 else found, interrupted=True)
    return found


def first_good(scores: Array, slack: float) -> int:
    """Position of the first score that is about as good as the best, up to a share of their spread."""
    best = float(scores.max())
    return int(np.argmax(scores >= best - slack * (best - float(scores.min()))))


def _thinned(content: Rows, folds: Sequence[Fold]) -> tuple[list[Fold], float]:
    """Folds of about `LOOK_ROWS` distinct rows at most, equal rows together, and the share of the rows in them.

    The squared errors are a sum over rows, so that weights are about the same at a regularisation parameter in
    proportion to the number of rows.
    """
    every = -(-(int(content.max()) + 1) // LOOK_ROWS)

    def some(rows: Rows) -> Rows:
        _, rank = np.unique(content[rows], return_inverse=True)
        return rows[rank % every == 0]

    return [(some(train), some(test)) for train, test in folds], 1.0 / every
