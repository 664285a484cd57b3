"""Fitting on a source: normalise, solve, predict, and score paths over folds.

A *task* holds one or several problems over the same rows and kernels: one for a regression or a binary
classification, one per class for one-vs-rest. All of them share the strength of regularisation.
"""

from __future__ import annotations

import hashlib
import numbers
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from kernelweave._checks import InputError, count_dimensions
from kernelweave._parameters import Whole, check_value, shown
from kernelweave._threads import blas_threads_for
from kernelweave.fitting.source import Source, StackSource, TableSource
from kernelweave.gram import Gram, identities_and_constants
from kernelweave.learners import Learner
from kernelweave.learners import resolve as resolve_learner
from kernelweave.learners.folds import deal
from kernelweave.mkl.layers import TrainedLayers
from kernelweave.mkl.path import Path, make_alphas
from kernelweave.mkl.rls2 import make_problem
from kernelweave.normalizers import FittedNormalizer, Normalizer
from kernelweave.normalizers import resolve as resolve_normalizer
from kernelweave.results import Solution, Status

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Called after every finished step with a short text, often a `Step`; a true value asks to stop.
Report = Callable[[str], bool]

#: Layers above the sum of kernels, one entry for every output; empty where there are none.
Uppers = Sequence[TrainedLayers | None]


class Step(str):
    """A finished step of a path in words, and what was found there, for those who draw while it runs.

    Attributes
    ----------
    label : str
        Which path: of a fold, or of all rows.
    problem : int
        Which of the problems that share the path.
    alpha : float
    weights : array
        Kernel weights in the units of the normalised kernels.
    rel_gap : float
    """

    label: str
    problem: int
    alpha: float
    weights: Array
    rel_gap: float

    @classmethod
    def of(cls, label: str, problem: int, n_problems: int, result: Any) -> Step:
        """Describe the solution at one strength."""
        which = f"{label}, problem {problem + 1} of {n_problems}" if n_problems > 1 else label
        step = cls(f"{which}: alpha {result.alpha:.3g}")
        step.label, step.problem, step.alpha = label, problem, float(result.alpha)
        step.weights, step.rel_gap = result.weights, float(result.rel_gap)
        return step


#: Training and test rows.
Fold = tuple[Rows, Rows]

#: Relative gap of the solutions that are only scored.
SCORING_TOL = 1e-5


def _silent(_: str) -> bool:
    return False


@dataclass(frozen=True)
class Task:
    """What is to be learnt.

    Attributes
    ----------
    source : Source
    targets : tuple of arrays (n_samples, n_outputs)
        One array per problem.
    sample_weight : array of shape (n_samples,) or None
    normalizer : Normalizer
    extra : queries or None
        Further inputs of a transductive normaliser.
    fit_intercept : bool
        Fix the intercept beforehand, at the weighted mean of each target; otherwise 0.
    classification : bool
        Targets are -1 and 1.
    """

    source: Source
    targets: tuple[Array, ...]
    sample_weight: Array | None
    normalizer: Normalizer
    extra: Any
    fit_intercept: bool
    classification: bool = False

    def take(self, rows: Rows) -> Task:
        """The task on some of its rows."""
        return replace(
            self,
            source=self.source.take(rows),
            targets=tuple(target[rows] for target in self.targets),
            sample_weight=None if self.sample_weight is None else self.sample_weight[rows],
        )

    @property
    def n_outputs(self) -> int:
        """Number of outputs over all problems."""
        return sum(target.shape[1] for target in self.targets)


def learner_of(estimator: Any) -> Learner:
    """The learner that an estimator was fitted with; of models saved by 0.1, the one that its parameters name."""
    learner: Learner = estimator._training.get("learner") or resolve_learner(estimator.learner)
    return learner


def ridge_strength(estimator: Any) -> float:
    """The strength at which coefficients were computed: that of the weights, unless relaxed."""
    return float(getattr(estimator, "relax_", estimator.alpha_))


def rebuild_task(estimator: Any) -> Task:
    """The task that a fitted estimator was trained on."""
    kept = estimator._training
    if "normalizer" not in kept:
        # a model saved by 0.1
        kept = {
            "normalizer": resolve_normalizer(estimator.normalize),
            "fit_intercept": bool(estimator.fit_intercept) and not learner_of(estimator).own_intercept,
        } | kept
    return Task(
        source=estimator._source,
        targets=tuple(kept["targets"]),
        sample_weight=kept["sample_weight"],
        normalizer=kept["normalizer"],
        extra=kept["extra"],
        fit_intercept=kept["fit_intercept"],
        classification=is_classifier(estimator),
    )


@dataclass(frozen=True)
class Setup:
    """A problem ready for a solver.

    Attributes
    ----------
    gram : Gram
    normalizer : FittedNormalizer
    y, intercept : arrays
    identities, constants : arrays of int
        Kernels that say nothing, before normalisation: see `identities_and_constants`.
    """

    gram: Gram
    normalizer: FittedNormalizer
    y: Array
    intercept: Array
    identities: Rows
    constants: Rows


@dataclass(frozen=True)
class Solved:
    """A problem with its solution."""

    setup: Setup
    result: Any

    @property
    def intercept(self) -> Array:
        """What is fixed beforehand plus what was learnt, shape (n_outputs,)."""
        return self.setup.intercept + getattr(self.result, "intercept", 0.0)

    def effective(self) -> Array:
        """Weights times normaliser factors, shape (n_outputs, n_kernels)."""
        weights = np.atleast_2d(self.result.weights) * self.setup.normalizer.scale
        if self.setup.normalizer.constant is not None:
            weights = np.where(self.setup.normalizer.constant, 0.0, weights)
        return np.broadcast_to(weights, (len(self.setup.intercept), weights.shape[1]))


def set_up(task: Task) -> list[Setup]:
    """Build the training stack once and normalise it for every problem."""
    raw = task.source.gram()
    looks = identities_and_constants(raw)
    extra: dict[str, Any] = {}
    if task.extra is not None:
        extra["extra_diagonal"] = task.source.extra_diagonal(task.extra)
        extra["extra_means"] = partial(_means_of, task.source, task.extra)
    setups: list[Setup] = []
    shared: tuple[FittedNormalizer, Gram] | None = None
    for target in task.targets:
        if shared is None or task.normalizer.per_target:
            label = target[:, 0] if target.shape[1] == 1 else None
            fitted = task.normalizer.fit(raw, target=label, sample_weight=task.sample_weight, **extra)
            if not (fitted.scale > 0).all():
                m = int(np.argmin(fitted.scale > 0))
                raise InputError(
                    f"Kernel {task.source.names[m]!r} overflows on these rows. Rescale the columns, for example with "
                    "standardize=True."
                )
            # where each problem has a normaliser of its own, the raw kernels are needed again
            shared = fitted, fitted.prepare(raw, overwrite=not task.normalizer.per_target)
        if task.fit_intercept:
            intercept = np.average(target, axis=0, weights=task.sample_weight)
        else:
            intercept = np.zeros(target.shape[1])
        setups.append(Setup(shared[1], shared[0], target - intercept, intercept, *looks))
    return setups


def _means_of(source: Source, queries: Any, weights: Array) -> Array:
    """``K_m(queries, training) @ weights`` of the raw kernels, shape (n_kernels, n_queries)."""
    out = np.empty((source.n_kernels, source.query_length(queries)))
    raw = FittedNormalizer(np.ones(source.n_kernels))
    for where, m, times in kernel_actions(source, queries, raw, np.arange(source.n_kernels)):
        out[m, where] = times(weights[:, None])[:, 0]
    return out


def shared_alphas(task: Task, setups: Sequence[Setup], n_alphas: int, learner: Learner) -> Array:
    """A descending grid that covers the automatic range of every problem, or the learner's own."""
    own = learner.default_alphas(n_alphas)
    if own is not None:
        return own
    grids = []
    for setup in setups:
        problem, _ = make_problem(setup.gram, setup.y, task.sample_weight, setup.normalizer.scale)
        with blas_threads_for(problem.gram.n_samples):
            grids.append(make_alphas(problem, max(n_alphas, 2)))
    return np.geomspace(max(g[0] for g in grids), min(g[-1] for g in grids), n_alphas)


def solve_task(
    task: Task, setups: Sequence[Setup], learner: Learner, alpha: float, report: Report | None = None
) -> list[Solved]:
    """Solve every problem at one strength; learners that take many steps report each."""
    more: dict[str, Any] = {"report": report} if learner.iterates else {}
    if learner.validates:
        more["content"] = content_of(task.source)
    return [
        Solved(
            setup,
            learner.solve(
                setup.gram,
                setup.y,
                alpha,
                scale=setup.normalizer.scale,
                sample_weight=task.sample_weight,
                classification=task.classification,
                **more,
            ),
        )
        for setup in setups
    ]


def path_task(
    task: Task,
    setups: Sequence[Setup],
    learner: Learner,
    alphas: Array,
    *,
    tol: float | None = None,
    report: Report = _silent,
    label: str = "path",
) -> list[Path]:
    """Solve every problem along a path; after an interruption the problems to come go only as far."""
    paths: list[Path] = []
    more = {"content": content_of(task.source)} if learner.validates else {}
    for k, setup in enumerate(setups):
        reached = min((len(path) for path in paths), default=len(alphas))

        def tell(index: int, result: Solution, k: int = k, reached: int = reached) -> bool:
            # who has asked to stop is not asked again while the other problems catch up
            return bool(report(Step.of(label, k, len(setups), result))) and reached == len(alphas)

        paths.append(
            learner.path(
                setup.gram,
                setup.y,
                alphas[:reached],
                n_alphas=reached,
                scale=setup.normalizer.scale,
                sample_weight=task.sample_weight,
                tol=tol,
                callback=tell,
                classification=task.classification,
                **more,
            )
        )
    return paths


def was_interrupted(paths: Sequence[Path]) -> bool:
    """Whether Ctrl-C or a callback ended a path."""
    return any(path.status[-1] is Status.INTERRUPTED for path in paths)


def decisions(
    source: Source,
    queries: Any,
    fitted: FittedNormalizer,
    intercepts: Sequence[Array],
    weights: Sequence[Array],
    coefficients: Sequence[Array],
    uppers: Sequence[Sequence[Uppers]] | None = None,
) -> Array:
    """Decision values of several solutions at once.

    Parameters
    ----------
    source : Source
    queries : queries of that source
    fitted : FittedNormalizer
        Of any of the problems: all of them change the kernels alike, only their factors may differ.
    intercepts : sequence of arrays (n_outputs,) or (n_solutions, n_outputs)
        One array per problem.
    weights : sequence of arrays (n_solutions, n_outputs, n_kernels)
        Effective weights (times normaliser factors), one array per problem.
    coefficients : sequence of arrays (n_solutions, n_samples, n_outputs)
    uppers : sequence of sequences, optional
        For every problem and solution, the layers above the sum of kernels of every output; empty for none.

    Returns
    -------
    array of shape (n_solutions, n_queries, n_outputs over all problems)
    """
    n_queries = source.query_length(queries)
    n_solutions = len(weights[0])
    active = np.flatnonzero(np.any([(w != 0).any(axis=(0, 1)) for w in weights], axis=0))
    blocks = [
        np.repeat(np.broadcast_to(b, (n_solutions, np.shape(b)[-1]))[:, None], n_queries, axis=1)
        for b in intercepts
    ]
    with blas_threads_for(min(n_queries, source.n_samples)):
        if uppers is not None and any(any(of) for problem in uppers for of in problem):
            for block, w, c, layers in zip(blocks, weights, coefficients, uppers, strict=True):
                _add_deep(source, queries, fitted, block, w, c, layers)
            return np.concatenate(blocks, axis=2)
        for where, m, times in kernel_actions(source, queries, fitted, active):
            for block, w, c in zip(blocks, weights, coefficients, strict=True):
                used = np.flatnonzero(w[:, :, m].any(axis=1))
                if len(used):
                    scaled = c[used] * w[used, None, :, m]  # (used, n_samples, n_outputs)
                    flat = times(scaled.transpose(1, 0, 2).reshape(source.n_samples, -1))
                    block[used, where] += flat.reshape(len(flat), len(used), -1).transpose(1, 0, 2)
    return np.concatenate(blocks, axis=2)


def _add_deep(
    source: Source,
    queries: Any,
    fitted: FittedNormalizer,
    block: Array,
    w: Array,
    c: Array,
    uppers: Sequence[Uppers],
) -> None:
    """Add the decision values of deep kernels to `block` (n_solutions, n_queries, n_outputs)."""
    for s, layers in enumerate(uppers):
        for output, own in enumerate(layers):
            coefficient = c[s, :, output]
            if own is None:
                # an output without any machine
                continue
            for where, K, kappa in summed_kernels(source, queries, fitted, w[s, output]):
                block[s, where, output] += own.cross(K, kappa) @ coefficient


def summed_kernels(
    source: Source, queries: Any, fitted: FittedNormalizer, weights: Array
) -> Iterator[tuple[slice, Array, Array]]:
    """Yield (query rows, sum of kernels with the training rows, its values k(x, x)) in chunks.

    Parameters
    ----------
    source : Source
    queries : queries of that source
    fitted : FittedNormalizer
    weights : array of shape (n_kernels,)
        Effective weights.
    """
    active = np.flatnonzero(weights)
    if not len(active):
        n_queries = source.query_length(queries)
        yield slice(0, n_queries), np.zeros((n_queries, source.n_samples)), np.zeros(n_queries)
        return
    raw = {int(m): source.query_diagonal(queries, int(m)) for m in active}
    current: tuple[slice, Array, Array] | None = None
    for where, m, K in source.cross(queries, active):
        if current is None or where != current[0]:
            if current is not None:
                yield current
            rows = where.stop - where.start
            current = where, np.zeros((rows, source.n_samples)), np.zeros(rows)
        current[1][...] += weights[m] * normalized_cross(source, queries, fitted, where, m, K)
        current[2][...] += weights[m] * fitted.cross_diagonal(m, K, raw[m][where])
    if current is not None:
        yield current


def kernel_actions(
    source: Source, queries: Any, fitted: FittedNormalizer, kernels: Rows
) -> Iterator[tuple[slice, int, Callable[[Array], Array]]]:
    """Yield (query rows, m, function), where ``function(C)`` is ``K_m(queries, training) @ C`` after normalisation.

    Kernels with a feature map of low rank go through it, O(n_queries + n_samples) instead of their product.
    """
    direct = []
    for m in kernels:
        maps = None if fitted.changes_kernels else source.feature_maps(int(m), queries)
        if maps is None:
            direct.append(m)
        else:
            yield slice(0, source.query_length(queries)), int(m), partial(_through_features, *maps)
    for where, m, K in source.cross(queries, np.array(direct, dtype=np.intp)):
        yield where, m, normalized_cross(source, queries, fitted, where, m, K).__matmul__


def _through_features(new: Array, training: Array, C: Array) -> Array:
    return new @ (training.T @ C)


def normalized_cross(
    source: Source, queries: Any, fitted: FittedNormalizer, where: slice, m: int, K: Array
) -> Array:
    """A chunk of a cross-Gram after cosine normalisation and centring."""
    return fitted.cross(m, K, lambda: source.query_diagonal(queries, m)[where])


# ---- folds ----------------------------------------------------------------------------------------


def content_folds(source: Source, y: Array, n_splits: int, *, stratify: bool = True) -> list[Fold]:
    """Folds that depend only on what the rows hold, not on their order or number of repetitions.

    Distinct rows are sorted by content and dealt out in turn; equal rows share a fold. With `stratify` (classes)
    they are sorted by target first, so that every fold gets its share of each class. For regression that would
    do harm: folds with the same spread of y as the training rows flatter models of noise.
    """
    tests = deal(content_of(source), y, n_splits, stratify=stratify)
    if len(tests) < 2:
        return []
    return [(np.setdiff1d(np.arange(len(y)), test), test) for test in tests]


def content_of(source: Source) -> Rows:
    """Place of every row among the distinct ones; equal rows share it, whatever their order and number."""
    _, rank = np.unique(_content(source), axis=0, return_inverse=True)
    return rank.reshape(-1)


def split_rows(cv: Any, y: NDArray[Any], *, classifier: bool, **params: Any) -> list[Fold]:
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


def _as_index(rows: NDArray[Any]) -> NDArray[Any]:
    return rows if rows.dtype.kind == "b" else rows.astype(np.intp)


def _content(source: Source) -> Array:
    if isinstance(source, TableSource):
        return source.raw.values
    if isinstance(source, StackSource):
        # rows of a kernel matrix: the set of their values does not change when samples are repeated
        digests = [
            hashlib.sha256(b"".join(np.unique(row[:, m]).tobytes() for m in range(row.shape[1]))).digest()[:6]
            for row in source.stack
        ]
        return np.array([[float(int.from_bytes(d, "big"))] for d in digests])
    return np.asarray(source.queries(np.arange(source.n_samples)), dtype=np.float64).reshape(-1, 1)


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

    Where the learner has further strengths to choose from at every point, they follow each other.
    """
    part = task.take(train)
    setups = set_up(part)
    paths = path_task(part, setups, learner, alphas, tol=tol, report=report, label=label)
    done = min(len(path) for path in paths)
    grid = learner.relax_grid(alphas)
    each = 1 if grid is None else grid.shape[1]
    weights, coefficients = [], []
    for setup, path in zip(setups, paths, strict=True):
        n_outputs = len(setup.intercept)
        w = path.weights[:done] if path.weights.ndim == 3 else path.weights[:done, None, :]
        w = np.repeat(w, each, axis=0)
        weights.append(np.broadcast_to(w, (len(w), n_outputs, w.shape[2])) * setup.normalizer.scale)
        coefficients.append(path.dual_coef[:done].reshape(len(w), part.source.n_samples, n_outputs))
    values = decisions(
        part.source,
        task.source.queries(test),
        setups[0].normalizer,
        [
            s.intercept + np.repeat(_learnt(path)[:done], each, axis=0)
            for s, path in zip(setups, paths, strict=True)
        ],
        weights,
        coefficients,
        [getattr(path, "uppers", [()] * len(path))[:done] for path in paths],
    )
    return values, was_interrupted(paths)


def _learnt(path: Any) -> Array:
    """Intercepts that were learnt, (n_alphas, n_outputs), or zeros."""
    return getattr(path, "intercept", np.zeros((len(path), 1)))


def score_folds(
    task: Task,
    learner: Learner,
    folds: Sequence[Fold],
    alphas: Array,
    score: Callable[[Array, Rows], float],
    *,
    n_jobs: int | None = None,
    tol: float = SCORING_TOL,
    report: Report = _silent,
) -> tuple[Array, bool]:
    """Score every strength on every fold.

    Parameters
    ----------
    score : callable
        ``score(decision values (n_test, n_outputs), test rows)`` -> float; larger is better.
    n_jobs : int, optional
        Folds run in parallel through joblib.

    Returns
    -------
    scores : array of shape (n_folds done, n_alphas) or (n_folds done, n_alphas, n_relax)
        The latter where the learner has further strengths to choose from.
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
        joblib.delayed(fold_decisions)(task, learner, train, test, alphas, tol, _silent)
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
    """Index of the chosen strength on a descending path.

    ``"min"`` takes the best mean score (the largest strength among equals), ``"1se"`` the largest strength within
    one standard error of it.
    """
    best = int(np.argmax(mean))
    if rule == "min":
        return best
    return int(np.argmax(mean >= mean[best] - error[best]))
