"""Learning tasks on a source: targets, normalised problems, and their solutions at one alpha or along a path.

A *task* has one or several problems over the same rows and kernels: one for a regression or a binary
classification, one per class for one-vs-rest. All of them share the regularisation parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._threads import blas_threads_for
from kernelweave.fitting.prediction import Products
from kernelweave.fitting.source import Q, Source
from kernelweave.gram import FeatureGram, Gram, identities_and_constants, spread_and_alignment
from kernelweave.gram.uninformative import BEYOND_CHANCE, SPREAD
from kernelweave.learners.base import Learner, TrainingSet
from kernelweave.mkl.path import Path, make_alphas
from kernelweave.mkl.ridge_problem import make_problem
from kernelweave.normalizers import FittedNormalizer, Normalizer
from kernelweave.results import Solution, Status

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Called after every finished step with a short text, often a `PathStep`; a true value stops.
Report = Callable[[str], bool]


def named_values(parameter: str, alphas: Array) -> Array:
    """Values of alpha, or of C = 1 / alpha, as the learner names its regularisation parameter."""
    return 1.0 / alphas if parameter == "C" else alphas


def named(learner: Learner, alpha: float) -> str:
    """The regularisation parameter of a step, as text."""
    parameter = learner.regularization_parameter
    return f"{parameter} {1.0 / alpha if parameter == 'C' else alpha:.3g}"


class PathStep(str):
    """A finished step of a path as text, with its solution, for drawing during the fit.

    Attributes
    ----------
    label : str
        Name of the path: of a fold, or of all rows.
    problem : int
        Position among the problems that share the path.
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
    def of(cls, label: str, problem: int, n_problems: int, learner: Learner, result: Solution) -> PathStep:
        """Describe the solution at one regularisation parameter."""
        which = f"{label}, problem {problem + 1} of {n_problems}" if n_problems > 1 else label
        step = cls(f"{which}: {named(learner, result.alpha)}")
        step.label, step.problem, step.alpha = label, problem, float(result.alpha)
        step.weights, step.rel_gap = result.weights, float(result.certificate.rel_gap)
        return step


def silent(_: str) -> bool:
    """Report nothing."""
    return False


@dataclass(frozen=True, eq=False)
class Task:
    """A learning task.

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
    flat : bool
        The target has one dimension, and so have predictions of one output.
    class_weight : array of shape (n_classes,) or (n_labels, 2), or None
        Factors of the classes that are included in `sample_weight`; with several labels those of rows without and with
        each label, which are not included.
    multilabel : bool
        For classification: every problem is a label, and rows may have several.
    groups : array of int, shape (n_samples,), or None
        Of rows that all folds keep together.
    costs : array of shape (n_classes,), or None
        Factors of the classes in the machines alone: shares and probabilities count rows without them.
    screen : bool
        Set kernels to zero in which rows hardly resemble each other, or of a view in which none aligns with the
        targets beyond chance; see `kernelweave.gram.uninformative.spread_and_alignment`. At least one stays.
    evidence : array of shape (n_samples, n_outputs), or None
        Numbers that take the place of the targets there.
    """

    source: Source[Any]
    targets: tuple[Array, ...]
    sample_weight: Array | None
    normalizer: Normalizer
    extra: Any
    fit_intercept: bool
    classification: bool = False
    flat: bool = True
    class_weight: Array | None = None
    multilabel: bool = False
    groups: Rows | None = None
    costs: Array | None = None
    screen: bool = False
    evidence: Array | None = None

    def take(self, rows: Rows) -> Task:
        """The task on some of its rows."""
        return replace(
            self,
            source=self.source.take(rows),
            targets=tuple(target[rows] for target in self.targets),
            sample_weight=None if self.sample_weight is None else self.sample_weight[rows],
            groups=None if self.groups is None else self.groups[rows],
            evidence=None if self.evidence is None else self.evidence[rows],
        )

    def weights_of(self, problem: int) -> Array | None:
        """Weights of the rows in one problem, (n_samples,)."""
        if self.costs is not None:
            own = self.costs[self.codes]
            return own if self.sample_weight is None else own * self.sample_weight
        if not self.multilabel or self.class_weight is None:
            return self.sample_weight
        factors = self.class_weight[problem][(self.targets[problem][:, 0] > 0).astype(np.intp)]
        return factors if self.sample_weight is None else factors * self.sample_weight

    @property
    def loss_weight(self) -> Array | None:
        """Weights of the rows in all problems, (n_samples,), or (n_samples, n_labels) if they differ."""
        if not self.multilabel or self.class_weight is None:
            return self.sample_weight
        return self.times_factors(
            np.ones(len(self.codes)) if self.sample_weight is None else self.sample_weight, self.codes
        )

    def times_factors(self, weights: Array, codes: Rows) -> Array:
        """Weights of rows times the factors of their classes, (n_rows,), or of their labels, (n_rows, n_labels)."""
        if self.class_weight is None:
            return weights
        if self.multilabel:
            return weights[:, None] * np.take_along_axis(self.class_weight.T, codes, axis=0)
        return weights * self.class_weight[codes]

    @property
    def row_weight(self) -> Array | None:
        """Weights of the rows without the factors of their classes, (n_samples,)."""
        if self.sample_weight is None or self.class_weight is None or self.multilabel:
            return self.sample_weight
        return self.sample_weight / self.class_weight[self.codes]

    @property
    def typical(self) -> tuple[Array, ...]:
        """Targets of one row, with which models are compared: the weighted mean, or the most frequent class."""
        means = tuple(np.average(target, axis=0, weights=self.row_weight)[None] for target in self.targets)
        if not self.classification:
            return means
        if self.multilabel:
            return tuple(np.where(mean > 0, 1.0, -1.0) for mean in means)
        most = np.bincount(self.codes, self.row_weight).argmax()
        return tuple(target[self.codes == most][:1] for target in self.targets)

    @property
    def n_outputs(self) -> int:
        """Number of outputs over all problems."""
        return sum(target.shape[1] for target in self.targets)

    @cached_property
    def content(self) -> Rows:
        """Position of each row among the distinct ones."""
        return self.source.content()

    @property
    def codes(self) -> Rows:
        """For classification: the position of the class of every row; for several labels 0 and 1, a column for each."""
        if self.multilabel:
            return (np.concatenate(self.targets, axis=1) > 0).astype(np.intp)
        if len(self.targets) == 1:
            return (self.targets[0][:, 0] > 0).astype(np.intp)
        return np.argmax(np.concatenate(self.targets, axis=1), axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class NormalizedProblem(TrainingSet):
    """A problem as learners get it, on kernels of one scale, with what predictions and reports need to know.

    Attributes
    ----------
    gram, scale, sample_weight, classification
        See `TrainingSet`.
    y : array of shape (n_samples, n_outputs)
        Targets less the intercept that is fixed beforehand.
    normalizer : FittedNormalizer
    intercept : array of shape (n_outputs,)
    uninformative : dict of str to arrays of int
        Kernels that say nothing about new rows. "identity" and "constant": before normalisation, see
        `identities_and_constants`; "spread" and "chance": left out as noise, because rows hardly resemble each other,
        or for no alignment beyond chance.
    means : array of shape (n_features,), or None
        Weighted means of explicit features, if these are centred.
    """

    normalizer: FittedNormalizer
    intercept: Array
    uninformative: Mapping[str, Rows]
    means: Array | None = None


@dataclass(frozen=True, eq=False)
class SolvedProblem:
    """A problem with its solution."""

    problem: NormalizedProblem
    solution: Solution


def problems_of(task: Task, some: Rows | None = None) -> list[NormalizedProblem]:
    """Build the training stack once and normalise it for every problem, or for some of them."""
    raw = task.source.gram()
    uninformative = dict(zip(("identity", "constant"), identities_and_constants(raw), strict=True))
    left_out = _screened(task, raw) if task.screen else {}
    extra: dict[str, Any] = {}
    if task.extra is not None:
        every = range(raw.n_kernels)
        extra["extra_diagonal"] = np.stack([task.source.query_diagonal(task.extra, m) for m in every])
        extra["extra_means"] = partial(_means_of, task.source, task.extra)
    problems: list[NormalizedProblem] = []
    shared: tuple[FittedNormalizer, Gram] | None = None
    means: Array | None = None
    for k in range(len(task.targets)) if some is None else map(int, some):
        target, weights = task.targets[k], task.weights_of(k)
        if shared is None or task.normalizer.per_target:
            label = target[:, 0] if target.shape[1] == 1 else None
            # a scale that problems share counts rows alike for all of them
            counted = weights if task.normalizer.per_target else task.sample_weight
            fitted = task.normalizer.fit(raw, target=label, sample_weight=counted, **extra)
            if not (fitted.scale > 0).all():
                m = int(np.argmin(fitted.scale > 0))
                raise InputError(
                    f"Kernel {task.source.names[m]!r} overflows on these rows. Rescale the columns, for example with "
                    "standardize=True."
                )
            for some in left_out.values():
                fitted = fitted.without(np.isin(np.arange(raw.n_kernels), some))
            if isinstance(raw, FeatureGram) and fitted.probability is not None:
                means = raw.rows @ fitted.probability
            # if each problem has its own normaliser, the raw kernels are needed again
            shared = fitted, fitted.prepare(raw, overwrite=not task.normalizer.per_target)
        mean = np.average(target, axis=0, weights=weights)
        intercept = mean if task.fit_intercept else np.zeros_like(mean)
        problems.append(
            NormalizedProblem(
                gram=shared[1],
                y=target - intercept,
                scale=shared[0].scale,
                sample_weight=weights,
                classification=task.classification,
                normalizer=shared[0],
                intercept=intercept,
                uninformative=uninformative | left_out,
                means=means,
            )
        )
    return problems


def _screened(task: Task, raw: Gram) -> dict[str, Rows]:
    """Kernels in which rows hardly resemble each other, and others of views without alignment beyond chance; never all.

    A view is judged by its best kernel: others may say in more detail what that one says.
    """
    targets = np.concatenate(task.targets, axis=1) if task.evidence is None else task.evidence
    if not task.classification and targets.shape[1] > 1:
        # units of a target say nothing about the others
        targets = targets - np.average(targets, axis=0, weights=task.row_weight)
        size = np.sqrt(np.average(np.square(targets), axis=0, weights=task.row_weight))
        targets = targets / np.where(size > 0, size, 1.0)
    spread, beyond = spread_and_alignment(raw, targets, task.sample_weight)
    even = spread >= SPREAD
    views = np.array([kernel.view for kernel in getattr(task.source, "kernels", ())] or task.source.names)
    judged = np.where(even | (spread == 0.0), -np.inf, beyond)
    kept = np.unique(views[judged >= BEYOND_CHANCE])
    if not len(kept):
        # the best is better than none, and an identity than nothing at all
        even &= bool(np.isfinite(judged).any())
        kept = views[[np.argmax(judged)]]
    chance = ~np.isin(views, kept) & ~even & (spread > 0.0)
    return {"spread": np.flatnonzero(even), "chance": np.flatnonzero(chance)}


def _means_of(source: Source[Q], queries: Q, weights: Array) -> Array:
    """``K_m(queries, training) @ weights`` of the raw kernels, shape (n_kernels, n_queries)."""
    out = np.empty((source.n_kernels, source.query_length(queries)))
    raw = FittedNormalizer(np.ones(source.n_kernels))
    products = Products(source, raw, np.arange(source.n_kernels), lambda m: weights[:, None])
    for where, m, product in products.of(queries):
        out[m, where] = product[:, 0]
    return out


def shared_alphas(
    task: Task, problems: Sequence[NormalizedProblem], n_alphas: int, learner: Learner
) -> Array:
    """A descending grid that covers the automatic range of every problem, or the learner's own."""
    own = learner.default_alphas(n_alphas)
    if own is not None:
        return own
    grids = []
    for problem in problems:
        ridge, _ = make_problem(problem.gram, problem.y, problem.sample_weight, problem.scale)
        with blas_threads_for(ridge.gram.n_samples):
            grids.append(make_alphas(ridge, max(n_alphas, 2)))
    return np.geomspace(max(g[0] for g in grids), min(g[-1] for g in grids), n_alphas)


def path_task(
    task: Task,
    problems: Sequence[NormalizedProblem],
    learner: Learner,
    alphas: Array,
    *,
    tol: float | None = None,
    report: Report = silent,
    label: str = "path",
    starts: Sequence[Array] | None = None,
    steps: bool = False,
) -> list[Path]:
    """Solve every problem along a path; after an interruption the remaining problems are solved only as far.

    `starts` are weights with which each may begin. With `steps`, learners that take many steps at one regularisation
    parameter report each of them.
    """
    paths: list[Path] = []
    content, groups = (task.content, task.groups) if learner.validates else (None, None)
    for k, problem in enumerate(problems):
        reached = min(map(len, paths), default=len(alphas))

        def tell(index: int, result: Solution, k: int = k, reached: int = reached) -> bool:
            # after a stop there are no callbacks while the other problems are solved as far
            step = PathStep.of(label, k, len(problems), learner, result)
            # a single step is no path to draw, but text
            return bool(report(str(step) if steps else step)) and reached == len(alphas)

        own = replace(
            problem,
            content=content,
            groups=groups,
            report=report if steps and report is not silent else None,
            start=None if starts is None else starts[k],
        )
        heard = None if report is silent else tell
        paths.append(learner.path(own, alphas[:reached], tol=tol, callback=heard))
    return paths


def was_interrupted(paths: Sequence[Path]) -> bool:
    """Whether Ctrl-C or a callback ended a path."""
    return any(path.solutions[-1].certificate.status is Status.INTERRUPTED for path in paths)
