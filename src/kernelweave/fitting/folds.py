"""Folds of the rows of a task, scores of paths on them, and the choice of a regularisation parameter by these.

One generator, `walk_folds`, goes through folds, in this process or in several; whatever needs models of other rows
reads from it: scores, and decision values out of fold.

*Search.* A score along a path falls where the model is too stiff, and again where it follows the noise, or stays as it
is. On the first fold every second candidate is looked at, roughly and from the stiff end, until the score has turned.
All folds are then asked about the candidates around the best one only, and begin with its weights; more are added as
long as the best of them is the last on a side.

With a ridge of its own the function of a stiff candidate is not stiff, and the score of one fold may have several
maxima of about the same height. Every second candidate is then looked at on all folds, roughly, and at last the
neighbours of the best ones. If there are many rows, the search takes some of them from each fold; all rows of as
many folds as test enough of them are then asked about the best candidate and a few ridges near its own, and about
smaller alphas as long as the score rises: more rows allow for less regularisation.

Other kernels on the same folds, such as those in a learnt metric, begin at the best candidate of the first ones.

*Held kernels.* Folds that fit kernels anew and learn weights anew at every C cost more than all else in a fit.
`score_costs` takes kernels of all rows, learns weights once, roughly, and every fold only solves machines on parts of
one matrix. Test rows of a fold so have a share in widths and weights, few numbers for many rows, but none in
coefficients. That is for choosing C inside a fit; what estimates errors on new rows must leave rows out before the fit.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import joblib
import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, count_dimensions
from kernelweave._loops import core
from kernelweave._parameters import Whole, check_value, shown
from kernelweave._threads import blas_threads_for
from kernelweave._types import Labels, Splits
from kernelweave.fitting.prediction import Expansions, FeatureForm, KnownRows, NewRows
from kernelweave.fitting.task import (
    NormalizedProblem,
    Report,
    Task,
    named,
    path_task,
    problems_of,
    silent,
    was_interrupted,
)
from kernelweave.gram import FeatureGram, Gram
from kernelweave.learners import Learner
from kernelweave.learners.folds import by_value, deal
from kernelweave.machines.loss import Loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.layers import TrainedLayers
from kernelweave.mkl.solve import solve_problem
from kernelweave.mkl.weight_sets import LpBall
from kernelweave.results import Path, Solution

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Training and test rows.
Fold = tuple[Rows, Rows]
#: ``score(decision values (n_test, n_outputs), test rows)``; larger is better. See `MeanScore` for many at once.
Score = Callable[[Array, Rows], float]
#: For each problem the weights with which its path may begin.
Starts = Sequence[Array] | None
#: The training rows of a fold, the problems on them, and its test rows.
Part = tuple[Task, list[NormalizedProblem], NewRows[Any]]

#: Decision values that are scored at once.
AT_ONCE = 500_000
#: Relative gap of the solutions that are only scored.
SCORING_TOL = 1e-5

#: Every how many candidates one is looked at on the first fold, and the relative gap of these solutions.
STRIDE, ROUGH_TOL = 2, 1e-3
#: Twice as many as `PATIENCE` come first; the score has turned when so many are no better than an earlier one.
PATIENCE = 3
#: Most distinct rows of a search with a ridge of its own, and how many test rows, in as many folds as have them, are
#: then asked about its best one, with all training rows and weights to this relative gap.
LOOK_ROWS, HELD_TOL = 800, 3e-2
#: What counts as no better on the first fold, and as equal later: shares of the spread of the first look's scores.
ROUGHLY, EQUAL = 2e-3, 1e-4
#: Share of the spread of the scores within which candidates are so good that those beside them may be the best, by how
#: many places those are away.
CLOSE = {STRIDE: 0.01, 1: 0.002}
#: Share of the error by which the next smaller alpha must be better on all rows than one that some of them chose.
GAIN = 0.01
#: Relative difference of scores that are equal up to rounding, so that no processor decides.
TIE = 1e-8
#: Candidates on either side of the best one that all folds are asked about, and how many are added on a side at first;
#: each time twice as many.
AROUND, FURTHER = 1, 2
#: C at which weights are learnt, and the relative gap to which.
WEIGHTS_COST, WEIGHTS_TOL = 1.0, 1e-2
#: Violation of the conditions of an optimum at which machines on folds end, in units of the labels, and their steps at
#: most, as a multiple of the rows; `HELD_EPS` at the chosen C.
FOLD_EPS, HELD_EPS, MOST_STEPS = 3e-3, 1e-9, 200
#: Bytes of the matrices that are kept for all folds; beyond, they are summed again for each. Also of decision values.
#: Bytes of kernels of the test rows of all folds, which else are computed again for each candidate.
KEPT_BYTES, KEPT_TESTS = 2**28, 2**26


def content_folds(
    content: Rows, y: Array, n_splits: int, *, classes: Array | None, groups: Rows | None = None
) -> list[Fold]:
    """Folds that depend only on the values of the rows, not on their order or number of repetitions, see `deal`.

    Distinct rows are sorted by content and assigned in turn; equal rows share a fold. With `classes` they are sorted by
    these first, so that every fold has its share of each. None if all rows are equal. Training rows have the order of
    their content.
    """
    tests = deal(content, y, n_splits, classes=classes, groups=groups)
    if len(tests) < 2:
        return []
    # solutions that end early depend on the order of the rows
    order = by_value(content, y)
    held = np.zeros((len(tests), len(order)), dtype=bool)
    for own, test in zip(held, tests, strict=True):
        own[test] = True
    return [(order[~own[order]], test) for own, test in zip(held, tests, strict=True)]


def classes_of(task: Task, learner: Learner, labels: Array) -> Array | None:
    """What folds of a task are stratified by, given labels or numbers of its rows; None for numbers of most losses."""
    return labels if task.classification else learner.fold_classes(labels)


def read_groups(groups: Any, n_rows: int) -> Rows | None:
    """Numbers of the groups of rows, whatever their names are; None without groups."""
    if groups is None:
        return None
    flat = count_dimensions(groups) == 1
    if not flat or len(groups) != n_rows:
        got = f"{len(groups)} labels" if flat else shown(groups)
        raise InputError(f"`groups` must hold the group of each of the {n_rows} rows, got {got}.")
    labels = list(groups) if isinstance(groups, list | tuple) else np.asarray(groups).tolist()
    # pandas' NA says NA of comparisons
    missing = [k for k, label in enumerate(labels) if label is None or str(label == label) != "True"]
    if missing:
        raise InputError(
            f"`groups` must hold the group of every row, got {len(missing)} missing, the first in row {missing[0]}. "
            "Drop these rows first, or give each a group of its own."
        )
    try:
        numbers = {label: k for k, label in enumerate(dict.fromkeys(labels))}
    except TypeError as error:
        raise InputError(f"`groups` must hold texts or numbers: {error}.") from error
    return np.array([numbers[label] for label in labels], dtype=np.intp)


def split_rows(
    cv: Splits, y: Labels, *, classes: Labels | None = None, kept: Rows | None = None, **params: Any
) -> list[Fold]:
    """Folds over all rows by a splitter or an iterable of (train, test), or over the kept rows by a number.

    Parameters
    ----------
    cv : int, splitter or iterable
    y : array of shape (n_rows,) or (n_rows, n_outputs)
    classes : array of shape (n_rows,) or (n_rows, n_labels), optional
        By what a number of folds stratifies, see `classes_of`; several labels are not shared out.
    kept : array of int, optional
        The rows that a number of folds divides; default all.
    **params
        Metadata for the splitter, such as ``groups``, which a number of folds keeps together.
    """
    from sklearn.model_selection import GroupKFold, check_cv

    n_rows, groups = len(y), params.get("groups")
    every = np.arange(n_rows)
    if isinstance(cv, numbers.Number | str | bytes):
        cv = check_value(Whole(2), "cv", cv)
        every = every if kept is None else kept
        n_rows, y = len(every), (y if classes is None else classes)[every]
        if groups is not None:
            cv, params["groups"] = GroupKFold(cv), np.asarray(groups)[every]
    try:
        folds = check_cv(cv, y, classifier=classes is not None).split(np.zeros((n_rows, 1)), y, **params)
        pairs = [tuple(np.asarray(rows) for rows in fold) for fold in folds]
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, TypeError) and "unexpected keyword" in str(error):
            raise  # an error of the call, not of the rows
        raise InputError(f"`cv` cannot split these {n_rows} rows (n_samples={n_rows}): {error}") from error
    found = []
    for pair in pairs:
        if len(pair) != 2 or any(
            rows.ndim != 1 or (rows.dtype.kind not in "iub" and rows.size) for rows in pair
        ):
            raise InputError("`cv` must give pairs of training and test rows, as arrays of row numbers.")
        try:
            train, test = (every[rows if rows.dtype.kind == "b" else rows.astype(np.intp)] for rows in pair)
        except IndexError as error:
            raise InputError(f"`cv` must give rows of X, of which there are {n_rows}: {error}.") from error
        found.append((train, test))
    return found


@dataclass(frozen=True, eq=False)
class MeanScore:
    """A weighted mean over rows of what each of them is worth by itself, for any number of points of a path at once.

    Attributes
    ----------
    each : callable
        ``each(decision values (..., n_test, n_outputs), test rows)``, shape (..., n_test).
    weights : array of shape (n_rows,) or None
    """

    each: Callable[[Array, Rows], NDArray[Any]]
    weights: Array | None

    def __call__(self, values: Array, rows: Rows, shift: Array | float = 0.0) -> Any:
        """The mean, of values to which something may be added."""
        weights = None if self.weights is None else self.weights[rows]
        return np.average(self.each(values + shift, rows), axis=-1, weights=weights)


def scores_of(score: Score, values: Array, rows: Rows) -> Array:
    """The scores of decision values of shape (..., n_test, n_outputs)."""
    if isinstance(score, MeanScore):
        return np.asarray(score(values, rows))
    found = [score(own, rows) for own in values.reshape(-1, *values.shape[-2:])]
    return np.array(found).reshape(values.shape[:-2])


@dataclass(frozen=True, eq=False)
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
    some: Rows | None = None,
    part: Part | None = None,
) -> FoldPath:
    """Solve all or some of the problems along a path on a fold's training rows, and decide on its test rows."""
    own, problems, rows = _part_of(task, train, test, some) if part is None else part
    paths = path_task(own, problems, learner, alphas, tol=tol, report=report, label=label, starts=starts)
    done = min(map(len, paths))
    grid = learner.relax_grid(alphas)
    found = _first_points(problems, paths, done, 1 if grid is None else grid.shape[1])
    values = rows.decisions(found)
    shared = learner.begins and all(path.weights.ndim == 2 for path in paths)
    weights = tuple(path.weights[:done] for path in paths) if shared else None
    return FoldPath(values, weights, was_interrupted(paths))


def _part_of(
    task: Task, train: Rows, test: Rows, some: Rows | None = None, rows: type[NewRows[Any]] = NewRows
) -> Part:
    part = task.take(train)
    problems = problems_of(part, some)
    return part, problems, rows(part.source, task.source.queries(test), problems[0].normalizer)


def _first_points(
    problems: Sequence[NormalizedProblem], paths: Sequence[Path[Solution]], done: int, each: int
) -> Expansions:
    """The first points of the paths of all problems, with `each` solutions at every point, outputs side by side."""
    weights, coefs, intercepts, features = [], [], [], []
    layers: list[list[TrainedLayers | None]] = [[] for _ in range(done)]
    for problem, path in zip(problems, paths, strict=True):
        gram, n_outputs = problem.gram, len(problem.intercept)
        w = np.repeat(path.weights[:done].reshape(done, -1, gram.n_kernels), each, axis=0)
        weights.append(np.broadcast_to(w, (len(w), n_outputs, w.shape[2])) * problem.normalizer.scale)
        coefs.append(path.dual_coef[:done].reshape(len(w), gram.n_samples, n_outputs))
        intercepts.append(problem.intercept + np.repeat(path.intercept[:done], each, axis=0))
        for own, upper in zip(layers, path.upper_layers[:done], strict=True):
            # a problem without a machine has none
            own += cast(Sequence[TrainedLayers | None], upper) or [None] * n_outputs
        if isinstance(gram, FeatureGram) and path.feature_coef.size:
            features.append(path.feature_coef[:done].reshape(len(w), len(gram.rows), n_outputs))
    form, gram = None, problems[0].gram
    if len(features) == len(problems) and isinstance(gram, FeatureGram):
        coef = np.concatenate(features, axis=2).transpose(1, 0, 2).reshape(len(gram.rows), -1)
        form = FeatureForm(coef, gram.offsets, problems[0].means)
    return Expansions(
        np.concatenate(weights, axis=1),
        np.concatenate(coefs, axis=2),
        np.concatenate(intercepts, axis=1),
        layers if any(map(any, layers)) else [],
        form,
    )


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


@dataclass(frozen=True, eq=False)
class FoldScores:
    """Scores of candidates on folds.

    Attributes
    ----------
    positions : array of int, shape (n_scored,)
        Of the scored candidates, rising.
    scores : array of shape (n_folds done, n_scored) or (n_folds done, n_scored, n_relax)
        The latter if the learner has further regularisation parameters to choose from.
    weights : list, for every fold done a tuple of arrays of shape (n_scored, n_kernels), one for each problem
        Empty for learners whose paths cannot begin with weights.
    interrupted : bool
        Ctrl-C or a callback ended it early; only complete folds are returned.
    stopped : bool
        One of them asked to, at the last step at the latest.
    values : list of arrays of shape (n_scored, [n_relax,] n_test, n_outputs)
        Decision values of the test rows of every fold done; empty where they would take more than `KEPT_BYTES`.
    relax : array of shape (n_scored, n_relax), or None
        Further regularisation parameters.
    parts : dict of int to Part
        Folds of the search that these scores begin, see `walk_folds`.
    """

    positions: Rows
    scores: Array
    weights: list[tuple[Array, ...]]
    interrupted: bool
    values: list[Array] = field(default_factory=list)
    stopped: bool = False
    relax: Array | None = None
    parts: dict[int, Part] = field(default_factory=dict, repr=False)

    @property
    def mean(self) -> Array:
        """Mean scores over the folds, at the best ridge parameter of each candidate."""
        mean = self.scores.mean(axis=0)
        return mean if mean.ndim == 1 else mean.max(axis=1)

    def best_relax(self, at: int) -> float:
        """The best ridge parameter of one of the candidates."""
        assert self.relax is not None
        return float(self.relax[at, first_good(self.scores.mean(axis=0)[at])])

    def starts(self, at: int) -> list[list[Array]]:
        """Weights at one of the candidates, for each fold and problem."""
        return [[weights[at] for weights in problems] for problems in self.weights]

    def mean_weights(self, at: int) -> list[Array]:
        """Means over the folds at one of the candidates, for each problem."""
        return [
            np.mean([weights[at] for weights in folds], axis=0) for folds in zip(*self.weights, strict=True)
        ]

    def beside(self, other: FoldScores) -> FoldScores:
        """Together with other candidates."""
        n_folds = min(len(self.scores), len(other.scores))
        positions = np.r_[self.positions, other.positions]
        order = np.argsort(positions)

        def joined(left: Array, right: Array) -> Array:
            return np.concatenate([left, right])[order]

        return FoldScores(
            positions[order],
            np.concatenate([self.scores[:n_folds], other.scores[:n_folds]], axis=1)[:, order],
            [
                tuple(joined(*pair) for pair in zip(*problems, strict=True))
                for problems in zip(self.weights[:n_folds], other.weights[:n_folds], strict=True)
            ],
            self.interrupted or other.interrupted,
            [joined(*pair) for pair in zip(self.values[:n_folds], other.values[:n_folds], strict=False)],
            self.stopped or other.stopped,
            None if self.relax is None or other.relax is None else joined(self.relax, other.relax),
        )


def _scored(
    folds: Sequence[Fold],
    paths: Generator[FoldPath, None, None],
    score: Score,
    shape: tuple[int, ...],
    keep: bool = False,
) -> FoldScores:
    """Score the paths of folds, one after another, until one asks to stop; `keep` keeps all decision values."""
    rows: list[Array] = []
    weights: list[tuple[Array, ...]] = []
    values: list[Array] = []
    stopped = False
    try:
        for (_, test), path in zip(folds, paths, strict=True):
            if len(path.values) == np.prod(shape):
                rows.append(scores_of(score, path.values, test).reshape(shape))
                if path.weights is not None:
                    weights.append(path.weights)
                if keep or len(folds) * path.values.nbytes <= KEPT_BYTES:
                    values.append(path.values.reshape(*shape, *path.values.shape[1:]))
            stopped = path.interrupted
            if stopped:
                break
    except KeyboardInterrupt:
        stopped = True
    finally:
        paths.close()
    if stopped and not rows:
        raise KeyboardInterrupt("interrupted before one fold was complete; nothing could be kept")
    kept = values if len(values) == len(rows) else []
    interrupted = len(rows) < len(folds)
    return FoldScores(np.arange(shape[0]), np.array(rows), weights, interrupted, kept, stopped)


def score_folds(
    task: Task,
    learner: Learner,
    folds: Sequence[Fold],
    alphas: Array,
    score: Score,
    *,
    keep: bool = False,
    **options: Any,
) -> FoldScores:
    """Score every regularisation parameter on every fold; the options are those of `walk_folds`."""
    grid = learner.relax_grid(alphas)
    paths = walk_folds(task, learner, folds, alphas, **options)
    found = _scored(folds, paths, score, alphas.shape if grid is None else grid.shape, keep)
    return replace(found, relax=grid)


def divided(tests: Sequence[Rows]) -> list[list[int]]:
    """Positions of folds by the divisions of the rows: in each of them a row is tested once at most."""
    divisions: list[list[int]] = []
    for k, test in enumerate(tests):
        free = (own for own in divisions if not any(np.isin(test, tests[j]).any() for j in own))
        own = next(free, None)
        if own is None:
            divisions.append([k])
        else:
            own.append(k)
    return divisions


def pooled_scores(
    score: Score, tests: Sequence[Rows], values: Sequence[Array], *, errors: bool = True
) -> tuple[Array, Array]:
    """Scores of the test rows of all folds together, and their standard errors by leaving out each fold in turn.

    Parameters
    ----------
    score : callable
    tests : sequence of arrays of int
        Test rows of the folds; of several divisions of the rows (`divided`) the mean score counts.
    values : sequence of arrays of shape (..., n_test, n_outputs)
        Decision values of the test rows of every fold.
    errors : bool
        Whether errors are computed; else they are zeros.

    Returns
    -------
    scores, errors : array of shape (...)
        For a mean over rows and folds of the same size the error is that of the mean over folds. Rows that are tested
        several times count once, see `repetitions`.

    References
    ----------
    B. Efron and C. Stein, The jackknife estimate of variance, Annals of Statistics 9 (1981).
    """
    shape, n_folds = values[0].shape[:-2], len(values)
    size, n_points = sum(own.size for own in values), math.prod(shape)
    if n_points > 1 and size > AT_ONCE:
        flat = [own.reshape(-1, *own.shape[-2:]) for own in values]
        step = max(1, n_points * AT_ONCE // size)
        blocks = [[own[k : k + step] for own in flat] for k in range(0, n_points, step)]
        parts = [pooled_scores(score, tests, block, errors=errors) for block in blocks]
        of_all, their_errors = (np.concatenate(one).reshape(shape) for one in zip(*parts, strict=True))
        return of_all, their_errors
    rows, fold = np.concatenate(tests[:n_folds]), np.repeat(np.arange(n_folds), [*map(len, tests[:n_folds])])
    divisions, whole = divided(tests[:n_folds]), np.concatenate(values, axis=-2)
    inside = [np.isin(fold, folds) for folds in divisions]

    def of(here: NDArray[np.bool_]) -> Array:
        return scores_of(score, whole[..., here, :], rows[here])

    own = np.array([of(here) for here in inside])
    scores = own.mean(axis=0)
    found = np.zeros(scores.shape)
    if errors and min(map(len, divisions)) > 1:
        variance = found
        for folds, here, total in zip(divisions, inside, own, strict=True):
            # how the mean over divisions changes without each fold of this one
            without = np.array([total - of(here & (fold != k)) for k in folds]) / len(own)
            # a score may be undefined without a fold that alone has rows of a class
            spread = np.ma.masked_invalid(without).var(axis=0)
            variance = variance + (len(folds) - 1) * np.ma.filled(spread, np.nan)
        found = np.sqrt(variance)
    elif errors and n_folds > 1:
        found = own.std(axis=0, ddof=1) / np.sqrt(len(own))
    return scores, found * np.sqrt(repetitions(tests[:n_folds]))


def repetitions(tests: Sequence[Rows]) -> float:
    """How often each row is tested, 1 at least: other divisions of the same rows are no further rows.

    A variance of a mean that takes all folds for independent is too small by this factor.
    """
    rows = np.concatenate(list(tests)) if len(tests) else np.zeros(0)
    return max(1.0, len(rows) / max(1, len(np.unique(rows))))


def walk_folds(
    task: Task,
    learner: Learner,
    folds: Sequence[Fold],
    alphas: Array,
    *,
    n_jobs: int | None = None,
    tol: float = SCORING_TOL,
    report: Report = silent,
    starts: Sequence[Starts] | None = None,
    parts: dict[int, Part] | None = None,
) -> Generator[FoldPath, None, None]:
    """Yield the path of every fold; interrupted where the last report asked to stop.

    Parameters
    ----------
    task : Task
    learner : Learner
    folds : sequence of (training rows, test rows)
    alphas : array of shape (n_alphas,)
        Descending.
    n_jobs : int, optional
        Folds run in parallel through joblib, which shares out the threads of BLAS; with more processes than folds also
        the problems of a fold.
    tol : float
    report : callable
    starts : sequence, optional
        For each fold the weights with which the path of each problem begins.
    parts : dict of int to Part, optional
        Of folds that are walked again, in this process; those that are missing are added while they are small.
    """
    begin = [None] * len(folds) if starts is None else starts
    if n_jobs in (None, 1):
        for k, (train, test) in enumerate(folds):
            stopped = False

            def tell(text: str) -> bool:
                nonlocal stopped
                stopped = bool(report(text))
                return stopped

            label = f"fold {k + 1} of {len(folds)}"
            part = None if parts is None else parts.get(k)
            if parts is not None and part is None:
                again = 8 * len(folds) * task.source.n_kernels * len(train) * len(test) <= KEPT_TESTS
                part = _part_of(task, train, test, rows=KnownRows if again else NewRows)
                if len(folds) * sum(problem.gram.nbytes for problem in part[1]) <= KEPT_BYTES:
                    parts[k] = part
            told = silent if report is silent else tell
            path = walk_fold(task, learner, train, test, alphas, tol, told, label, begin[k], part=part)
            yield replace(path, interrupted=path.interrupted or stopped)
        return
    # with more processes than folds, each takes some of the problems
    n_parts = min(len(task.targets), -(-joblib.effective_n_jobs(n_jobs) // len(folds)))
    shares = np.array_split(np.arange(len(task.targets)), n_parts)
    jobs = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        joblib.delayed(walk_fold)(
            task,
            learner,
            train,
            test,
            alphas,
            tol,
            silent,
            starts=None if own is None else [own[p] for p in some],
            some=some,
        )
        for (train, test), own in zip(folds, begin, strict=True)
        for some in shares
    )
    try:
        for k in range(len(folds)):
            path = _beside([next(jobs) for _ in shares])
            # other processes cannot report; their steps are counted when the fold is finished
            steps = [f"fold {k + 1}: {named(learner, alpha)}" for _ in task.targets for alpha in alphas]
            yield replace(path, interrupted=any([report(step) for step in steps]) or path.interrupted)
    finally:
        with warnings.catch_warnings():
            # joblib warns of the folds that are unfinished after a stop
            warnings.filterwarnings("ignore", message=".*have been cancelled", category=UserWarning)
            jobs.close()


def negative_squared_error(targets: Sequence[Array], sample_weight: Array | None) -> Score:
    """A score for `score_folds`: minus the weighted mean squared error of the decision values.

    Weights are those of rows, (n_samples,), or of rows and outputs, (n_samples, n_outputs).
    """
    y = np.concatenate(targets, axis=1)
    if sample_weight is None or sample_weight.ndim == 1:
        return MeanScore(lambda values, rows: -np.square(values - y[rows]).mean(axis=-1), sample_weight)

    def score(values: Array, rows: Rows) -> float:
        squares = np.square(values - y[rows])
        return -float(np.average(squares, axis=0, weights=sample_weight[rows]).mean())

    return score


def negative_loss(loss: Loss, targets: Sequence[Array], sample_weight: Array | None) -> Score:
    """A score for `score_folds`: minus the weighted mean of a loss."""
    y = np.concatenate(targets, axis=1)

    def score(values: Array, rows: Rows) -> float:
        weight = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
        totals = [loss.total(one, weight, f) for one, f in zip(y[rows].T, values.T, strict=True)]
        return -float(np.mean(totals)) / float(weight.sum())

    return score


def choose(mean: Array, error: Array, rule: str) -> int:
    """Index of the chosen regularisation parameter on a descending path.

    ``"min"`` takes the best score (the largest regularisation parameter among equals), ``"1se"`` the largest
    regularisation parameter within one standard error of it.
    """
    best = first_good(mean)
    if rule == "min":
        return best
    # NaN is no score
    return int(np.argmax(mean >= mean[best] - error[best] - TIE * abs(mean[best])))


def can_search(task: Task, learner: Learner, alphas: Array) -> bool:
    """Whether candidates are many, and the path of each problem can begin with weights."""
    one_each = getattr(learner, "shared_weights", True) or all(y.shape[1] == 1 for y in task.targets)
    return learner.begins and one_each and len(alphas) > 2 * STRIDE * PATIENCE


@dataclass(frozen=True, eq=False)
class Search:
    """Scores of some of many candidates on folds.

    Attributes
    ----------
    task : Task
    learner : Learner
        One that `can_search`.
    folds : sequence of (training rows, test rows)
    alphas : array of shape (n_alphas,)
        Descending.
    score : callable
        ``score(decision values (n_test, n_outputs), test rows)`` -> float; larger is better.
    options : dict
        `keep` of `score_folds`, and `n_jobs` of `walk_folds`.

    Notes
    -----
    A score with several maxima may have a better one elsewhere than near the best of the first fold. Candidates that
    differ by less than 1e-4 of the spread of the scores along the path of that fold count as equal.
    """

    task: Task
    learner: Learner
    folds: Sequence[Fold]
    alphas: Array
    score: Score
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def relaxed(self) -> bool:
        """Whether candidates have ridges of their own."""
        return self.learner.relax_grid(self.alphas) is not None

    def begin(self, report: Report = silent, near: FoldScores | None = None) -> FoldScores:
        """Score every second candidate, roughly; without ridges on the first fold only.

        With `near`, of other kernels on the same folds, this begins at their best candidate, without those from the
        stiff end.
        """
        relaxed = self.relaxed
        parts: dict[int, Part] = {}
        some, share = _thinned(self.task.content, self.folds) if relaxed else (self.folds[:1], 1.0)
        slack = 0.0 if relaxed else ROUGHLY
        look = partial(self._look, report, some, share, parts)
        if near is None:
            coarse = np.arange(0, len(self.alphas), STRIDE)
            found = look(coarse[: 2 * PATIENCE], None, ROUGH_TOL)
            # at most to the end of the grid
            while len(more := coarse[len(found.positions) : first_good(found.mean, slack) + 1 + PATIENCE]):
                if found.stopped:
                    return replace(found, interrupted=True)
                try:
                    found = found.beside(look(more, found.starts(-1), ROUGH_TOL))
                except KeyboardInterrupt:
                    return replace(found, interrupted=True)
        else:
            found = look(near.positions[[first_good(near.mean)]], None, ROUGH_TOL)
        if relaxed and not found.interrupted:
            found = _climb(look, found, STRIDE, len(self.alphas))
        return replace(found, parts=parts)

    def scores(self, report: Report = silent, begun: FoldScores | None = None) -> FoldScores:
        """Score those around the best one on every fold; with ridges of their own, on at most `LOOK_ROWS` rows.

        `begun` is what `begin` found, which is asked if this is left out. The result is for `finish`.
        """
        found = self.begin(report) if begun is None else begun
        if found.interrupted:
            return found
        n_alphas = len(self.alphas)
        if self.relaxed:
            folds, share = _thinned(self.task.content, self.folds)
            found = _climb(partial(self._look, report, folds, share, found.parts), found, 1, n_alphas)
            stopped = found.interrupted or (found.stopped and share < 1.0)
            # they take memory
            return replace(found, interrupted=stopped, parts={})
        if found.stopped:
            return replace(found, interrupted=True)
        look = partial(self._look, report, self.folds, 1.0, {})
        at = first_good(found.mean, ROUGHLY)
        starts = found.starts(max(0, at - 1)) * len(self.folds)
        better = EQUAL * _spread(found.mean)
        best = int(found.positions[at])
        low, high = max(0, best - AROUND), min(n_alphas, best + AROUND + 1)
        further = FURTHER
        try:
            found = look(np.arange(low, high), starts, SCORING_TOL)
            while True:
                mean = found.mean
                at, equal = first_good(mean), better + TIE * float(np.nanmax(np.abs(mean), initial=0.0))
                if at == 0 and low > 0 and mean[0] > mean[1] + equal:
                    some, side = np.arange(max(0, low - further), low), 0
                elif at == len(mean) - 1 and high < n_alphas and mean[-1] > mean[-2] + equal:
                    some, side = np.arange(high, min(n_alphas, high + further)), -1
                else:
                    break
                if found.stopped:
                    return replace(found, interrupted=True)
                found = found.beside(look(some, found.starts(side), SCORING_TOL))
                further *= 2
                low, high = int(found.positions[0]), int(found.positions[-1]) + 1
        except KeyboardInterrupt:
            return replace(found, interrupted=True)
        return found

    def finish(self, found: FoldScores, report: Report = silent) -> FoldScores:
        """The best candidate of a search on some of the rows, with ridges near its own, on all rows of enough folds.

        Smaller alphas follow, at a stride, as long as each is better by `GAIN`. Preparations that a fold has learnt
        from targets are those of its rows in the search, and its weights begin with theirs.
        """
        content = self.task.content
        if found.interrupted or found.relax is None or not takes_some(content):
            return found
        first, _ = _thinned(content, self.folds)
        at = first_good(found.mean)
        k, starts, ridge = int(found.positions[at]), found.starts(at), found.best_relax(at)
        tested = np.cumsum([len(np.unique(content[test])) for _, test in self.folds])
        asked = int(np.searchsorted(tested, min(LOOK_ROWS, tested[-1]))) + 1
        for (train, _), (part, _) in zip(self.folds[:asked], first, strict=False):
            self.task.source.learn_as(train, part)
        parts: dict[int, Part] = {}

        def look(k: int, ridge: float, starts: Sequence[Starts], few: bool = False) -> FoldScores:
            near = replace(self, learner=self.learner.relaxed_near(ridge / float(self.alphas[k]), few))
            return near._look(report, self.folds[:asked], 1.0, parts, np.array([k]), starts, HELD_TOL)

        best = found
        try:
            best = look(k, ridge, starts[:asked])
            while not best.interrupted and (k := k + STRIDE) < len(self.alphas):
                if best.stopped:
                    return replace(best, interrupted=True)
                further = look(k, best.best_relax(0), best.starts(0), few=True)
                if further.interrupted or not further.mean[0] > best.mean[0] + GAIN * abs(best.mean[0]):
                    return replace(best, interrupted=further.interrupted)
                best = further
        except KeyboardInterrupt:
            return replace(best, interrupted=True)
        return best

    def _look(
        self,
        report: Report,
        folds: Sequence[Fold],
        share: float,
        parts: dict[int, Part],
        positions: Rows,
        starts: Sequence[Starts] | None,
        tol: float,
    ) -> FoldScores:
        """Scores of some of the candidates, on folds with a share of the rows."""
        given = self.task, self.learner, folds, share * self.alphas[positions], self.score
        how = {"tol": tol, "starts": starts, "parts": parts, "report": report, **self.options}
        return replace(score_folds(*given, **how), positions=positions)


def _climb(look: Callable[..., FoldScores], found: FoldScores, step: int, n_alphas: int) -> FoldScores:
    """Look at candidates that many places beside the best ones, until these have both, or the best gains no more."""
    before = -np.inf
    while True:
        mean, at = found.mean, first_good(found.mean)
        top = float(mean[at])
        good = found.positions[mean >= top - CLOSE[step] * _spread(mean) - TIE * abs(top)]
        beside = np.r_[good - step, good + step]
        some = np.setdiff1d(beside[(beside >= 0) & (beside < n_alphas)], found.positions)
        if not len(some) or not top > before + EQUAL * _spread(mean) + TIE * abs(top):
            return found
        if found.stopped:
            return replace(found, interrupted=True)
        before = top
        try:
            found = found.beside(look(some, found.starts(at), ROUGH_TOL))
        except KeyboardInterrupt:
            # before one fold was complete at further candidates
            return replace(found, interrupted=True)


def _spread(scores: Array) -> float:
    """The range of the scores that are known."""
    known = scores[~np.isnan(scores)]
    return float(np.ptp(known)) if len(known) else 0.0


def first_good(scores: Array, slack: float = 0.0) -> int:
    """Position of the first score that is as good as the best up to rounding, and up to a share of their spread.

    Candidates without a score, NaN, are not the best.
    """
    known = scores[~np.isnan(scores)]
    if not len(known):
        return 0
    best = float(known.max())
    spread = slack * (best - float(known.min())) if slack else 0.0
    return int(np.argmax(scores >= best - spread - TIE * abs(best)))


def takes_some(content: Rows) -> bool:
    """Whether a search with ridges takes some of the rows only."""
    return int(content.max()) >= LOOK_ROWS


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


def score_costs(
    task: Task,
    problems: Sequence[NormalizedProblem],
    loss: Loss,
    ball: LpBall,
    rows: Rows,
    folds: Sequence[Fold],
    costs: Array,
    score: Score,
    *,
    keep: bool = False,
    report: Report = silent,
) -> FoldScores:
    """Score every C on every fold of some rows of a classification, with kernels and weights that stay as they are.

    Parameters
    ----------
    task : Task
    problems : sequence of NormalizedProblem
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
    keep : bool
        Keep all decision values.
    report : callable

    Returns
    -------
    FoldScores
        In the order of `costs`; the weights are those of every fold.
    """
    looks = _held_kernels(task, problems, loss, ball, rows)
    few = len(looks) * 8 * len(rows) ** 2 <= KEPT_BYTES
    held = [np.broadcast_to(look.weights, (len(costs), len(look.weights))) for look in looks]

    def walk() -> Generator[FoldPath, None, None]:
        for k, (train, test) in enumerate(folds):
            values = np.stack(
                [look.walk(train, test, costs, keep=few, eps=FOLD_EPS) for look in looks], axis=2
            )
            steps = [f"fold {k + 1} of {len(folds)}: C {C:.3g}" for _ in looks for C in costs]
            yield FoldPath(values, None, any([report(step) for step in steps]))

    return replace(_scored(folds, walk(), score, costs.shape, keep), weights=[tuple(held)])


def held_decisions(
    task: Task,
    problems: Sequence[NormalizedProblem],
    weights: Sequence[Array],
    loss: Loss,
    ball: LpBall,
    rows: Rows,
    folds: Sequence[Fold],
    C: float,
) -> Array:
    """Decision values of every row by machines on the other folds, with kernels and weights of all rows.

    The arguments are those of `score_costs`, and the weights of every problem; NaN for rows that take no part.
    """
    values = np.full((task.source.n_samples, task.n_outputs), np.nan)
    for k, look in enumerate(_held_kernels(task, problems, loss, ball, rows, weights)):
        for train, test in folds:
            values[rows[test], k] = look.walk(train, test, np.array([C]), keep=True, eps=HELD_EPS)[0]
    return values


def _held_kernels(
    task: Task,
    problems: Sequence[NormalizedProblem],
    loss: Loss,
    ball: LpBall,
    rows: Rows,
    weights: Sequence[Array] | None = None,
) -> list[_HeldKernels]:
    """Every output on some rows, with given weights, or such that are learnt roughly."""
    whole = np.array_equal(rows, np.arange(task.source.n_samples))
    # problems may share a stack
    parts = {id(s.gram): s.gram if whole else s.gram.restrict(rows) for s in problems}
    return [
        _HeldKernels(
            parts[id(problem.gram)],
            problem.normalizer.scale,
            column[rows],
            None if (weight := task.weights_of(k)) is None else weight[rows],
            loss,
            ball,
            None if weights is None else weights[k],
        )
        for k, (problem, target) in enumerate(zip(problems, task.targets, strict=True))
        for column in np.ascontiguousarray(target.T)
    ]


class _HeldKernels:
    """One output on the rows that take part, with its weights."""

    def __init__(
        self,
        gram: Gram,
        scale: Array,
        y: Array,
        sample_weight: Array | None,
        loss: Loss,
        ball: LpBall,
        weights: Array | None,
    ) -> None:
        self.y, self.sample_weight = y, sample_weight
        machine = self.machine = Machine(y, WEIGHTS_COST, loss, sample_weight)
        self.problem = KernelProblem(gram, machine, scale, ball)
        self.weights = ball.start(gram.n_kernels) if weights is None else weights
        if weights is None and not machine.one_class:
            with blas_threads_for(gram.n_samples):
                found = solve_problem(self.problem, "dual-newton", tol=WEIGHTS_TOL, certified=False)
            self.weights = found.weights
        self._matrix: Array | None = None

    def walk(self, train: Rows, test: Rows, costs: Array, *, keep: bool, eps: float) -> Array:
        """Values of the test rows at every C, shape (n_costs, n_test)."""
        K = self.problem.combine(self.weights) if self._matrix is None else self._matrix
        self._matrix = K if keep else None
        y = self.y[train]
        if (y == y[0]).all():
            return np.full((len(costs), len(test)), y[0])
        weight = None if self.sample_weight is None else self.sample_weight[train]
        inner, cross = (np.empty((len(rows), len(train))) for rows in (train, test))
        core.block(K, train, train, inner)
        core.block(K, test, train, cross)
        values, loss = np.empty((len(costs), len(test))), self.machine.loss
        b, g, before = np.zeros(len(y)), -y, np.zeros(len(y))
        unit = np.ones(len(y)) if weight is None else weight
        for k, C in enumerate(costs):
            linear, ridge, low, high, tube = box = loss.box(y, C * unit)
            # the gradient stays that of the coefficients before, but for the ridge
            g += (ridge - before) * b
            before = ridge
            core.box_smo(inner, ridge, low, high, tube, b, g, eps, MOST_STEPS * len(y), True)
            values[k] = cross @ b + core.box_intercept(*box, g - linear - ridge * b)
            bound = ((b >= high) & (b > 0.0)) | ((b <= low) & (b < 0.0))
            if not before.any() and not bound.any():
                # no coefficient is at its bound: a larger C changes nothing
                values[k + 1 :] = values[k]
                break
        return values
