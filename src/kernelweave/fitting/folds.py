"""Folds of the rows of a task, and scores of paths on them."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from kernelweave._checks import InputError, count_dimensions
from kernelweave._parameters import Whole, check_value, shown
from kernelweave._types import Labels, Splits
from kernelweave.fitting.base import Q, Source
from kernelweave.fitting.prediction import Expansions, FeatureForm, decisions
from kernelweave.fitting.task import Report, Setup, Task, path_task, set_up, silent, was_interrupted
from kernelweave.gram import FeatureGram
from kernelweave.learners import Learner
from kernelweave.learners.folds import deal
from kernelweave.mkl.layers import TrainedLayers
from kernelweave.results import Path, Solution

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Training and test rows.
Fold = tuple[Rows, Rows]

#: Relative gap of the solutions that are only scored.
SCORING_TOL = 1e-5


def content_folds(source: Source[Q], y: Array, n_splits: int, *, stratify: bool = True) -> list[Fold]:
    """Folds that depend only on the values of the rows, not on their order or number of repetitions.

    Distinct rows are sorted by content and assigned in turn; equal rows share a fold. With `stratify` (classes)
    they are sorted by target first, so that every fold has its share of each class. Not for regression, because
    folds with the same spread of y as the training rows favour models that fit noise.
    """
    tests = deal(source.content(), y, n_splits, stratify=stratify)
    if len(tests) < 2:
        return []
    return [(np.setdiff1d(np.arange(len(y)), test), test) for test in tests]


def split_rows(cv: Splits, y: Labels, *, classifier: bool, **params: Any) -> list[Fold]:
    """Folds over all rows by a number, a splitter or an iterable of (train, test).

    Parameters
    ----------
    cv : int, splitter or iterable
    y : array of shape (n_rows,) or (n_rows, n_outputs)
    classifier : bool
        Whether a number of folds stratifies.
    **params
        Metadata for the splitter, such as ``groups``.
    """
    n_rows = len(y)
    groups: Any = params.get("groups")
    if groups is not None and (count_dimensions(groups) != 1 or len(groups) != n_rows):
        raise InputError(
            f"`groups` must hold the group of every row, shape ({n_rows},), got {shown(groups)}."
        )
    if isinstance(cv, numbers.Number | str | bytes):
        cv = check_value(Whole(2), "cv", cv)
    try:
        folds = list(check_cv(cv, y, classifier=classifier).split(np.zeros((n_rows, 1)), y, **params))
        pairs = [tuple(np.asarray(rows) for rows in fold) for fold in folds]
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, TypeError) and "unexpected keyword" in str(error):
            raise  # an error of the call, not of the rows
        raise InputError(f"`cv` cannot split these {n_rows} rows (n_samples={n_rows}): {error}") from error
    for pair in pairs:
        if len(pair) != 2 or any(
            rows.ndim != 1 or (rows.dtype.kind not in "iub" and rows.size) for rows in pair
        ):
            raise InputError("`cv` must give pairs of training and test rows, as arrays of row numbers.")
        for rows in pair:
            numbered = np.arange(len(rows)) if rows.dtype.kind == "b" else rows
            outside = numbered[(numbered < -n_rows) | (numbered >= n_rows)]
            if len(outside):
                raise InputError(
                    f"`cv` must give rows of X, of which there are {n_rows}, got row {outside[0]}."
                )
    every = np.arange(n_rows)
    return [(every[train], every[test]) for train, test in ((_as_index(a), _as_index(b)) for a, b in pairs)]


def _as_index(rows: NDArray[np.generic]) -> NDArray[np.generic]:
    return rows if rows.dtype.kind == "b" else rows.astype(np.intp)


@dataclass(frozen=True)
class FoldPath:
    """A path on the training rows of a fold.

    Attributes
    ----------
    values : array of shape (n_done, n_test, n_outputs)
        Decision values of the test rows. Where the learner has further regularisation parameters to choose from at
        every point of the path, they follow each other.
    weights : tuple of arrays of shape (n_done, n_kernels), or None
        For each problem, of learners whose paths can begin with weights.
    interrupted : bool
        Whether to stop.
    """

    values: Array
    weights: tuple[Array, ...] | None
    interrupted: bool


#: For each problem the weights with which its path may begin.
Starts = Sequence[Array] | None


def walk_fold(
    task: Task,
    learner: Learner,
    train: Rows,
    test: Rows,
    alphas: Array,
    tol: float,
    report: Report,
    label: str = "fold",
    starts: Starts = None,
) -> FoldPath:
    """Solve along a path on a fold's training rows, and decide on its test rows."""
    part = task.take(train)
    setups = set_up(part)
    paths = path_task(part, setups, learner, alphas, tol=tol, report=report, label=label, starts=starts)
    done = min(len(path) for path in paths)
    grid = learner.relax_grid(alphas)
    each = 1 if grid is None else grid.shape[1]
    problems = []
    for setup, path in zip(setups, paths, strict=True):
        n_outputs = len(setup.intercept)
        w = path.weights[:done] if path.weights.ndim == 3 else path.weights[:done, None, :]
        w = np.repeat(w, each, axis=0)
        problems.append(
            Expansions(
                np.broadcast_to(w, (len(w), n_outputs, w.shape[2])) * setup.normalizer.scale,
                path.dual_coef[:done].reshape(len(w), part.source.n_samples, n_outputs),
                setup.intercept + np.repeat(path.intercept[:done], each, axis=0),
                cast(list[tuple[TrainedLayers | None, ...]], path.upper_layers[:done]),
                _features_of(setup, path, done, n_outputs),
            )
        )
    values = decisions(part.source, task.source.queries(test), setups[0].normalizer, problems)
    shared = learner.begins and all(path.weights.ndim == 2 for path in paths)
    weights = tuple(path.weights[:done] for path in paths) if shared else None
    return FoldPath(values, weights, was_interrupted(paths))


def _features_of(setup: Setup, path: Path[Solution], done: int, n_outputs: int) -> FeatureForm | None:
    """Coefficients of features of the first points of a path, for each point and output, if it was solved on these."""
    coef = path.feature_coef[:done]
    if not isinstance(setup.gram, FeatureGram) or not coef.size:
        return None
    n_features = int(setup.gram.offsets[-1])
    flat = coef.reshape(-1, n_features, n_outputs).transpose(1, 0, 2).reshape(n_features, -1)
    return FeatureForm(flat, setup.gram.offsets, setup.means)


def _beside(paths: list[FoldPath]) -> FoldPath:
    """The path of all problems of a fold, from those of some of them."""
    done = min(len(path.values) for path in paths)
    weights: list[Array] = []
    for path in paths:
        weights.extend(own[:done] for own in path.weights or ())
    return FoldPath(
        np.concatenate([path.values[:done] for path in paths], axis=2),
        None if paths[0].weights is None else tuple(weights),
        any(path.interrupted for path in paths),
    )


class FoldScores(NamedTuple):
    """Scores of a path on folds.

    Attributes
    ----------
    scores : array of shape (n_folds done, n_alphas) or (n_folds done, n_alphas, n_relax)
        The latter if the learner has further regularisation parameters to choose from.
    interrupted : bool
        Ctrl-C or a callback ended it early; only complete folds are returned.
    weights : list, for every fold done a tuple of arrays of shape (n_alphas, n_kernels), one for each problem
        Empty for learners whose paths cannot begin with weights.
    """

    scores: Array
    interrupted: bool
    weights: list[tuple[Array, ...]]


def score_folds(
    task: Task,
    learner: Learner,
    folds: Sequence[Fold],
    alphas: Array,
    score: Callable[[Array, Rows], float],
    *,
    n_jobs: int | None = None,
    tol: float = SCORING_TOL,
    report: Report = silent,
    starts: Sequence[Starts] | None = None,
) -> FoldScores:
    """Score every regularisation parameter on every fold.

    Parameters
    ----------
    score : callable
        ``score(decision values (n_test, n_outputs), test rows)`` -> float; larger is better.
    n_jobs : int, optional
        Folds run in parallel through joblib, which shares out the threads of BLAS; with more processes than folds also
        the problems of a fold.
    starts : sequence, optional
        For each fold the weights with which the path of each problem begins.
    """
    rows: list[Array] = []
    weights: list[tuple[Array, ...]] = []
    interrupted = False
    grid = learner.relax_grid(alphas)
    shape = alphas.shape if grid is None else grid.shape
    done = _run_folds(task, learner, folds, alphas, n_jobs, tol, report, starts)
    try:
        for (_, test), path in zip(folds, done, strict=True):
            if len(path.values) == np.prod(shape):
                rows.append(np.array([score(f, test) for f in path.values]).reshape(shape))
                if path.weights is not None:
                    weights.append(path.weights)
            if path.interrupted:
                interrupted = len(rows) < len(folds)
                break
    except KeyboardInterrupt:
        interrupted = True
    finally:
        done.close()
    if interrupted and not rows:
        raise KeyboardInterrupt("interrupted before one fold was complete; nothing could be kept")
    return FoldScores(np.array(rows), interrupted, weights)


def _run_folds(
    task: Task,
    learner: Learner,
    folds: Sequence[Fold],
    alphas: Array,
    n_jobs: int | None,
    tol: float,
    report: Report,
    starts: Sequence[Starts] | None,
) -> Generator[FoldPath, None, None]:
    """Fold by fold; interrupted where the last report asked to stop."""
    begin = [None] * len(folds) if starts is None else starts
    if n_jobs in (None, 1):
        for k, (train, test) in enumerate(folds):
            stopped = False

            def tell(text: str) -> bool:
                nonlocal stopped
                stopped = bool(report(text))
                return stopped

            label = f"fold {k + 1} of {len(folds)}"
            path = walk_fold(task, learner, train, test, alphas, tol, tell, label, begin[k])
            yield replace(path, interrupted=path.interrupted or stopped)
        return
    # with more processes than folds, each takes some of the problems
    n_parts = min(len(task.targets), -(-joblib.effective_n_jobs(n_jobs) // len(folds)))
    parts = np.array_split(np.arange(len(task.targets)), n_parts)
    jobs = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        joblib.delayed(walk_fold)(
            task.some(part),
            learner,
            train,
            test,
            alphas,
            tol,
            silent,
            starts=None if own is None else [own[p] for p in part],
        )
        for (train, test), own in zip(folds, begin, strict=True)
        for part in parts
    )
    try:
        for k in range(len(folds)):
            path = _beside([next(jobs) for _ in parts])
            # other processes cannot report; their steps are counted when the fold is finished
            steps = [f"fold {k + 1}: alpha {alpha:.3g}" for _ in task.targets for alpha in alphas]
            yield replace(path, interrupted=any([report(step) for step in steps]) or path.interrupted)
    finally:
        with warnings.catch_warnings():
            # joblib warns of the folds that are unfinished after a stop
            warnings.filterwarnings("ignore", message=".*have been cancelled", category=UserWarning)
            jobs.close()


def negative_squared_error(
    targets: Sequence[Array], sample_weight: Array | None
) -> Callable[[Array, Rows], float]:
    """A score for `score_folds`: minus the weighted mean squared error of the decision values.

    Weights are those of rows, (n_samples,), or of rows and outputs, (n_samples, n_outputs).
    """
    y = np.concatenate(targets, axis=1)

    def score(values: Array, rows: Rows) -> float:
        weight = None if sample_weight is None else sample_weight[rows]
        squares = np.square(values - y[rows])
        if weight is not None and weight.ndim == 2:
            return -float(np.average(squares, axis=0, weights=weight).mean())
        return -float(np.average(squares.mean(axis=1), weights=weight))

    return score


def choose(mean: Array, error: Array, rule: str) -> int:
    """Index of the chosen regularisation parameter on a descending path.

    ``"min"`` takes the best mean score (the largest regularisation parameter among equals), ``"1se"`` the largest
    regularisation parameter within one standard error of it.
    """
    best = int(np.argmax(mean))
    if rule == "min":
        return best
    return int(np.argmax(mean >= mean[best] - error[best]))
