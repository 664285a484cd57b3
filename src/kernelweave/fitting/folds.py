"""Folds of the rows of a task: who makes them, and how paths score on them."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Generator, Sequence
from typing import Any, cast

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from kernelweave._checks import InputError, count_dimensions
from kernelweave._parameters import Whole, check_value, shown
from kernelweave._types import Labels, Splits
from kernelweave.fitting.base import Q, Source
from kernelweave.fitting.prediction import Expansions, decisions
from kernelweave.fitting.task import Report, Task, path_task, set_up, silent, was_interrupted
from kernelweave.learners import Learner
from kernelweave.learners.folds import deal
from kernelweave.mkl.layers import TrainedLayers

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Training and test rows.
Fold = tuple[Rows, Rows]

#: Relative gap of the solutions that are only scored.
SCORING_TOL = 1e-5


def content_folds(source: Source[Q], y: Array, n_splits: int, *, stratify: bool = True) -> list[Fold]:
    """Folds that depend only on what the rows hold, not on their order or number of repetitions.

    Distinct rows are sorted by content and dealt out in turn; equal rows share a fold. With `stratify` (classes)
    they are sorted by target first, so that every fold gets its share of each class. For regression that would
    do harm: folds with the same spread of y as the training rows flatter models of noise.
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
            raise  # of the call, not of the rows
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


def fold_decisions(
    task: Task,
    learner: Learner,
    train: Rows,
    test: Rows,
    alphas: Array,
    tol: float,
    report: Report,
    label: str = "fold",
) -> tuple[Array, bool]:
    """Decision values on one fold's test rows (n_alphas done, n_test, n_outputs), and whether to stop.

    Where the learner has further regularisation parameters to choose from at every point, they follow each other.
    """
    part = task.take(train)
    setups = set_up(part)
    paths = path_task(part, setups, learner, alphas, tol=tol, report=report, label=label)
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
            )
        )
    values = decisions(part.source, task.source.queries(test), setups[0].normalizer, problems)
    return values, was_interrupted(paths)


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
) -> tuple[Array, bool]:
    """Score every regularisation parameter on every fold.

    Parameters
    ----------
    score : callable
        ``score(decision values (n_test, n_outputs), test rows)`` -> float; larger is better.
    n_jobs : int, optional
        Folds run in parallel through joblib.

    Returns
    -------
    scores : array of shape (n_folds done, n_alphas) or (n_folds done, n_alphas, n_relax)
        The latter where the learner has further regularisation parameters to choose from.
    interrupted : bool
        Ctrl-C or a callback ended it early; only complete folds are returned.
    """
    rows: list[Array] = []
    interrupted = False
    grid = learner.relax_grid(alphas)
    shape = alphas.shape if grid is None else grid.shape
    done = _run_folds(task, learner, folds, alphas, n_jobs, tol, report)
    try:
        for (_, test), (values, stopped) in zip(folds, done, strict=True):
            if len(values) == np.prod(shape):
                rows.append(np.array([score(f, test) for f in values]).reshape(shape))
            if stopped:
                interrupted = len(rows) < len(folds)
                break
    except KeyboardInterrupt:
        interrupted = True
    finally:
        done.close()
    if interrupted and not rows:
        raise KeyboardInterrupt("interrupted before one fold was complete; nothing could be kept")
    return np.array(rows), interrupted


def _run_folds(
    task: Task,
    learner: Learner,
    folds: Sequence[Fold],
    alphas: Array,
    n_jobs: int | None,
    tol: float,
    report: Report,
) -> Generator[tuple[Array, bool], None, None]:
    """Decision values fold by fold, and whether the last report asked to stop."""
    if n_jobs in (None, 1):
        for k, (train, test) in enumerate(folds):
            stopped = False

            def tell(text: str) -> bool:
                nonlocal stopped
                stopped = bool(report(text))
                return stopped

            label = f"fold {k + 1} of {len(folds)}"
            values, cut = fold_decisions(task, learner, train, test, alphas, tol, tell, label)
            yield values, cut or stopped
        return
    jobs = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        joblib.delayed(fold_decisions)(task, learner, train, test, alphas, tol, silent)
        for train, test in folds
    )
    try:
        for k, (values, cut) in enumerate(jobs):
            # other processes cannot report; their steps are counted when the fold is there
            steps = [f"fold {k + 1}: alpha {alpha:.3g}" for _ in task.targets for alpha in alphas]
            yield values, any([report(step) for step in steps]) or cut
    finally:
        with warnings.catch_warnings():
            # joblib remarks upon the folds that a stop leaves unfinished
            warnings.filterwarnings("ignore", message=".*have been cancelled", category=UserWarning)
            jobs.close()


def negative_squared_error(
    targets: Sequence[Array], sample_weight: Array | None
) -> Callable[[Array, Rows], float]:
    """A score for `score_folds`: minus the weighted mean squared error of the decision values."""
    y = np.concatenate(targets, axis=1)

    def score(values: Array, rows: Rows) -> float:
        weight = None if sample_weight is None else sample_weight[rows]
        return -float(np.average(np.square(values - y[rows]).mean(axis=1), weights=weight))

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
