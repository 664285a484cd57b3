"""How one of several regularisation parameters is chosen by scores on folds, and how that is said."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from kernelweave import learners, recipe
from kernelweave._checks import InputError, warn_user
from kernelweave._forms import numbered
from kernelweave.estimators.scoring import TaskScore
from kernelweave.fitting.folds import (
    Fold,
    FoldScores,
    Score,
    Search,
    can_search,
    choose,
    classes_of,
    content_folds,
    first_good,
    held_decisions,
    negative_squared_error,
    pooled_scores,
    repetitions,
    score_costs,
    score_folds,
)
from kernelweave.fitting.out_of_fold import OutOfFold
from kernelweave.fitting.task import (
    NormalizedProblem,
    Report,
    SolvedProblem,
    Task,
    named_values,
    path_task,
    shared_alphas,
    was_interrupted,
)
from kernelweave.learners import Learner
from kernelweave.learners.folds import by_value, deal
from kernelweave.mkl.weight_sets import LpBall

__all__ = [
    "N_FOLDS",
    "RULES",
    "Candidates",
    "Chosen",
    "by_content",
    "check_path_arguments",
    "not_an_estimate",
    "of_costs",
]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: The score of numbers by which alpha, or C, is chosen.
SQUARED = "negative squared error"
#: Folds that choose C.
N_FOLDS = 5
#: Which of the candidates is chosen by their scores.
RULES = ("min", "1se")


def not_an_estimate(parameter: str) -> str:
    """What the score at the chosen regularisation parameter is said to be, wherever it is shown."""
    return f"the score that chose {parameter}, not an estimate for new rows"


@dataclass(frozen=True, eq=False)
class Candidates:
    """Regularisation parameters, and what chooses among them; without scores there is one.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        Descending.
    n_folds, n_rows : int
        Folds, and the rows in them.
    name : str
        Of the score.
    scores : callable, optional
        The scores of all or some of them, given what is told of every step.
    rule : {"min", "1se"}
    path : bool
        Whether the chosen one is solved at the end of the path to it; otherwise alone.
    begins : bool
        Whether it begins with the mean of the weights on folds.
    decide : callable, optional
        Decision values of rows by models of the other folds, given solutions on all rows and the regularisation
        parameter; for scores in which kernels and weights stay as they are on all folds.
    tests : sequence of arrays of int
        The test rows of the folds, among all rows.
    score : TaskScore, optional
        The score that was asked for. One of the test rows of all folds together then chooses; else the mean over folds
        does, which is the same for losses of rows and folds of the same size.
    skips : bool
        Whether folds without a score, such as an area under a curve where a class has no rows, are left out of means.
    complements : bool
        Whether the training rows of every fold are all rows outside of it.
    search : Search, optional
        What looks at some of the candidates, and ends on all rows.
    """

    alphas: Array
    n_folds: int = 0
    n_rows: int = 0
    name: str = ""
    scores: Callable[..., FoldScores] | None = None
    rule: str = "min"
    path: bool = False
    begins: bool = False
    decide: Callable[[list[SolvedProblem], float], Array] | None = None
    tests: Sequence[Rows] = ()
    score: TaskScore | None = None
    skips: bool = False
    complements: bool = True
    search: Search | None = None

    @property
    def n_steps(self) -> int | None:
        """Solutions of one problem, at most: on every fold, and on all rows; None if they are unknown."""
        return len(self.alphas) * (self.n_folds + self.path) + (not self.path)

    def likelihoods(self, values: Sequence[Array]) -> Array | None:
        """What `TaskScore.second` says of every candidate; None without it, or without values of whole folds."""
        if self.score is None or self.score.second is None or not values or not self._are_whole(values):
            return None
        return pooled_scores(self.score.second, self.tests, values, errors=False)[0]

    def _are_whole(self, values: Sequence[Array]) -> bool:
        """Whether values are of all test rows; a search on fewer rows that was stopped has others."""
        return all(len(rows) == own.shape[-2] for rows, own in zip(self.tests, values, strict=False))

    def choose(
        self, task: Task, problems: list[NormalizedProblem], learner: Learner, report: Report
    ) -> Chosen:
        """Score the candidates, choose, and solve on all rows."""
        assert self.scores is not None  # a single candidate is no choice
        if self.n_folds < 2 and not self.path:
            # one distinct row: no validation, so use the strongest regularisation of the path
            if learner.relax_grid(self.alphas) is not None:
                learner = clone(learner).set_params(relax=None)
            return Chosen(*walk_down(task, problems, learner, self.alphas[:1], report))
        found = self.scores(report)
        if self.search is not None:
            found = self.search.finish(found, report)
        parameter = learner.regularization_parameter
        if found.interrupted:
            done, tried = len(found.scores), len(found.positions)
            on = f"on {done} of {self.n_folds} folds"
            # a search may end between candidates, with all folds
            among = f"from {tried} of {len(self.alphas)} values"
            say_interrupted(f"{parameter} was chosen {on if done < self.n_folds else among}")
        alphas, scores = self.alphas[found.positions], found.scores
        relax, values = found.relax, found.values
        defined = np.isfinite(scores).reshape(len(scores), -1).all(axis=1)
        counted = scores[defined] if self.skips and defined.any() else scores
        if self.score is None or not self.score.pooled or not self._are_whole(values):
            mean = counted.mean(axis=0)
            error = (
                counted.std(axis=0, ddof=1) * np.sqrt(repetitions(self.tests) / len(counted))
                if len(counted) > 1
                else np.zeros_like(mean)
            )
        else:
            mean, error = pooled_scores(self.score.of_fold, self.tests, values)
        if relax is not None:
            # the best ridge at every point of the path, the largest among equals
            points = np.arange(len(alphas))
            which = np.array([first_good(row) for row in mean])
            mean, error, relax = mean[points, which], error[points, which], relax[points, which]
            scores, counted = scores[:, points, which], counted[:, points, which]
            values = [own[points, which] for own in values]
        if np.isnan(mean).all():
            cause, other = "predictions that the score does not take", "neg_mean_squared_error"
            if task.classification:
                cause, other = "an area under a curve on a fold of one class", "balanced_accuracy"
            elif self.name.startswith("concordance"):
                cause, other = "a concordance of times that are all equal", "likelihood"
            raise InputError(
                f"The score ({self.name}) is NaN, for example of {cause}. Use "
                f"{'' if self.skips else 'fewer folds, or '}another `scoring` such as {other!r}."
            )
        best = choose(mean, error, self.rule)
        second = self.likelihoods(values)
        if second is not None:
            near = self._by_second | (mean >= mean[best] - np.nan_to_num(error[best]))
            known = near & np.isfinite(second) & np.isfinite(mean)
            best = int(np.argmax(np.where(known, second, -np.inf))) if known.any() else best
        results = {
            "alpha": alphas,
            **({} if relax is None else {"relax": relax}),
            "test_score": mean,
            "std_error_test_score": error,
            "mean_test_score": counted.mean(axis=0),
            "score_name": self.name,
            **({} if second is None else {"neg_log_loss": second}),
            **{f"split{k}_test_score": row for k, row in enumerate(scores)},
        }
        if relax is not None:
            learner = clone(learner).set_params(relax=float(relax[best]))
        said = self._said(results, best, task, parameter)
        starts = found.mean_weights(best) if self.begins else None
        walked = alphas[: best + 1] if self.path else alphas[best : best + 1]
        # after a stop the finished folds choose the model
        tell = _going_on(report) if found.interrupted else report
        alpha, solved = walk_down(task, problems, learner, walked, tell, starts)
        held = np.full((task.source.n_samples, task.n_outputs), np.nan)
        if found.interrupted:
            # such a search may have seen some rows of the folds only
            pass
        elif self.decide is not None:
            held = self.decide(solved, alpha)
        else:
            for rows, own in zip(self.tests, values, strict=False):
                held[rows] = own[best]
        interrupted = found.interrupted or alpha != alphas[best]
        return Chosen(alpha, solved, results, best, said, OutOfFold.of(task, learner, held), interrupted)

    @property
    def _by_second(self) -> bool:
        return self.score is not None and self.score.by_second

    def _said(self, results: Mapping[str, Any], best: int, task: Task, parameter: str) -> str:
        """How the regularisation parameter was chosen, in words."""
        values = named_values(parameter, results["alpha"])
        scores, name, n_all = results["test_score"], self.name, task.source.n_samples
        n_folds = sum(one.startswith("split") for one in results)
        first = "the first" if n_folds == 1 else f"the first {n_folds}"
        some = f"{n_folds} folds" if n_folds >= max(self.n_folds, 2) else f"{first} of {self.n_folds} folds"
        where = f"{some} of {self.n_rows} rows" + (f" of {n_all}" if self.n_rows < n_all else "")
        where += "" if task.groups is None else ", groups kept together"
        if len(values) == 1 < len(self.alphas):
            # fewer rows chose it
            score = f"{name} {scores[0]:.3g} by {where}, {not_an_estimate(parameter)}"
            return f"{parameter} = {values[0]:.3g}, chosen among {len(self.alphas)} values; {score}."
        which = [best] if len(values) > 8 else range(len(values))
        listed = ", ".join(f"{values[k]:.3g}: {scores[k]:.3g}" for k in which)
        among = f"{len(values)} values" if len(values) > 8 else "the values"
        good, more = f"the best of {among} by", ""
        if "neg_log_loss" in results:
            good = f"chosen from {among} by"
            among = "" if self._by_second else "of those within a standard error of the best "
            more = f"{among}it has the smallest log loss; "
        return (
            f"{parameter} = {values[best]:.3g}, {good} {where}, {name} {listed}; {more}"
            f"{'kernels and weights there are those of all rows; ' if self.decide is not None else ''}"
            f"this is {not_an_estimate(parameter)}."
        )


@dataclass(frozen=True, eq=False)
class Chosen:
    """A chosen regularisation parameter.

    Attributes
    ----------
    alpha : float
    solved : list of SolvedProblem
    results : dict or None
        Of the scored candidates, as ``cv_results_``; None if nothing could be scored.
    best : int
        Position of the chosen one among these.
    said : str
        How it was chosen, in words.
    held : OutOfFold or None
        What the folds said of the training rows at the chosen one.
    interrupted : bool
        Folds, or the path to the chosen one, are not complete.
    targets : str
        How weights and alpha belong to several targets, in words; empty for one.
    """

    alpha: float
    solved: list[SolvedProblem]
    results: dict[str, Any] | None = None
    best: int = 0
    said: str = ""
    held: OutOfFold | None = None
    interrupted: bool = False
    targets: str = ""


def walk_down(
    task: Task,
    problems: list[NormalizedProblem],
    learner: Learner,
    alphas: Array,
    report: Report,
    starts: list[Array] | None = None,
    steps: bool = False,
) -> tuple[float, list[SolvedProblem]]:
    """Solve on all rows along a path, and return its last point."""
    paths = path_task(
        task, problems, learner, alphas, report=report, label="all rows", starts=starts, steps=steps
    )
    last = min(map(len, paths)) - 1
    if was_interrupted(paths):
        parameter = learner.regularization_parameter
        reached, wanted = named_values(parameter, alphas[[last, -1]])
        chosen = f"the model is the one at {parameter}={reached:.3g}, the chosen one is {wanted:.3g}"
        say_interrupted("the weights are the best ones so far" if last + 1 == len(alphas) else chosen)
    found = [SolvedProblem(problem, path.at(last)) for problem, path in zip(problems, paths, strict=True)]
    return float(alphas[last]), found


def _going_on(report: Report) -> Report:
    def tell(text: str) -> bool:
        report(text)
        return False

    return tell


def say_interrupted(what: str) -> None:
    """Warn of what an interrupted fit kept."""
    warn_user(f"Fitting was interrupted: {what}.")


def by_content(
    task: Task,
    problems: list[NormalizedProblem],
    learner: Learner,
    labels: Array,
    asked: TaskScore | None = None,
) -> Candidates:
    """Candidates for alpha of the learner, by the squared error, or another score, on folds that rows determine."""
    given = learner.given_alphas()
    alphas = shared_alphas(task, problems, learner.n_alphas, learner) if given is None else given
    classes = classes_of(task, learner, labels)
    folds = content_folds(task.content, labels, learner.n_folds, classes=classes, groups=task.groups)
    score = negative_squared_error(task.targets, task.loss_weight)
    narrow = can_search(task, learner, alphas)
    if asked is not None:
        nothing = [np.zeros((len(test), task.n_outputs)) for _, test in folds]
        # where a fold has no score of its own, a search looks by the squared error
        if (
            not narrow
            or np.isfinite([asked.of_fold(f, t) for f, (_, t) in zip(nothing, folds, strict=True)]).all()
        ):
            score = asked.of_fold

    options: dict[str, Any] = {"keep": asked is not None and asked.pooled, "n_jobs": learner.n_jobs}
    search = Search(task, learner, folds, alphas, score, options)

    def scores(report: Report) -> FoldScores:
        return score_folds(task, learner, folds, alphas, score, report=report, **options)

    return Candidates(
        alphas,
        len(folds),
        task.source.n_samples,
        SQUARED if asked is None else asked.name,
        search.scores if narrow else scores,
        path=not narrow and len(folds) > 1,
        begins=narrow,
        tests=[test for _, test in folds],
        score=asked,
        skips=asked is not None,
        search=search if narrow else None,
    )


def of_costs(
    task: Task,
    problems: list[NormalizedProblem],
    learner: Learner,
    labels: Array,
    *,
    plain: bool,
    asked: TaskScore | None = None,
    n_jobs: int | None = None,
    costs: ArrayLike = recipe.COSTS,
    most_rows: float | None = None,
) -> Candidates:
    """Candidates for C, on folds of all rows or of some, by what rows hold, with the shares of the classes.

    With the kernels and the learner of the recipe, kernels and weights stay as they are on all folds: its solver is
    only for losses whose dual is a quadratic program, as that needs.
    """
    alphas = 1.0 / np.array(costs)
    n_rows, distinct = task.source.n_samples, int(task.content.max()) + 1

    kind, params = recipe.CLASSIFICATION
    of_recipe = isinstance(learner, learners.LEARNERS[kind]) and learner.solver == params["solver"]
    held = plain and task.classification and of_recipe and learner.p > 1

    classes = classes_of(task, learner, labels)

    def one_of(some: Rows, n_parts: int) -> tuple[Rows, list[Fold]]:
        if n_parts > 1:
            few = some[np.isin(some, deal(task.content, labels, n_parts, classes=classes)[0])]
            # all of them where these are of one group
            if task.groups is None or len(np.unique(task.groups[few])) > 1:
                some = few
        groups = None if task.groups is None else task.groups[some]
        own = None if classes is None else classes[some]
        return some, content_folds(task.content[some], labels[some], N_FOLDS, classes=own, groups=groups)

    every = np.arange(n_rows)
    # rough weights depend on the order of the rows
    order = by_value(task.content, labels) if held else every
    rows, folds = one_of(order, math.ceil(distinct / (most_rows or recipe.COST_ROWS)))
    name, score = cost_score(task, rows) if asked is None else (asked.name, of_some(asked.of_fold, rows))
    keep = asked is not None and asked.pooled

    def scores(report: Report) -> FoldScores:
        if held:
            loss, ball = learner.loss_for(True), LpBall(float(learner.p))
            parts = task, problems, loss, ball, rows, folds, 1.0 / alphas, score
            return score_costs(*parts, keep=keep, report=report)
        part = task if len(rows) == n_rows else task.take(rows)
        searcher = clone(learner)
        if getattr(searcher, "tol", recipe.COST_TOL) < recipe.COST_TOL:
            searcher.set_params(tol=recipe.COST_TOL)
        return score_folds(part, searcher, folds, alphas, score, keep=keep, n_jobs=n_jobs, report=report)

    tested = [rows[test] for _, test in folds]

    def decide(solved: list[SolvedProblem], alpha: float) -> Array:
        loss, ball = learner.loss_for(True), LpBall(float(learner.p))
        some, parts = one_of(every, -(-n_rows // recipe.HELD_ROWS))
        weights = [one.solution.weights for one in solved]
        return held_decisions(task, problems, weights, loss, ball, some, parts, 1.0 / alpha)

    return Candidates(
        alphas,
        len(folds),
        len(rows),
        name,
        scores,
        begins=held,
        decide=decide if held else None,
        tests=tested,
        score=asked,
        skips=asked is not None,
    )


def warn_of_rare(task: Task, names: Sequence[object], tests: Sequence[Rows], parameter: str) -> None:
    """Warn of classes, or labels, that some folds have no rows of, so that few rows stand for them in a score.

    Parameters
    ----------
    task : Task
    names : sequence
        Of the classes or labels.
    tests : sequence of arrays of int
        Test rows of the folds.
    parameter : str
        What the folds choose.
    """
    codes = task.codes if task.multilabel else np.eye(len(names), dtype=np.intp)[task.codes]
    seen = np.sum([codes[test].any(axis=0) for test in tests], axis=0)
    rare = [k for k in np.flatnonzero(seen < len(tests)).tolist() if codes[:, k].any()]
    if not rare:
        return
    kind = "label" if task.multilabel else "class"
    said = [f"{names[k]!r} ({numbered(int(codes[:, k].sum()), 'row')}, in {seen[k]})" for k in rare]
    more = f" and {len(rare) - 5} more" if len(rare) > 5 else ""
    which = (
        f"{kind} {said[0]}"
        if len(rare) == 1
        else f"{kind}{'s' if task.multilabel else 'es'} {', '.join(said[:5])}{more}"
    )
    warn_user(
        f"Not all of the {len(tests)} folds that choose {parameter} have rows of the {which}, so that few rows stand "
        f"for {'it' if len(rare) == 1 else 'them'} in the score. Collect more rows, join such {kind}"
        f"{'s' if task.multilabel else 'es'} with others or leave them out, or state {parameter} yourself."
    )


def of_some(score: Score, rows: Rows) -> Score:
    """A score of positions among some rows."""
    return lambda values, test: score(values, rows[test])


def cost_score(task: Task, rows: Rows) -> tuple[str, Score]:
    """What C is chosen by on folds of some rows: the share of rows in their class, or minus the squared error."""
    weights = None if task.loss_weight is None else task.loss_weight[rows]
    if not task.classification:
        targets = [target[rows] for target in task.targets]
        return SQUARED, negative_squared_error(targets, weights)
    codes = task.codes[rows]

    def score(values: Array, test: Rows) -> float:
        own = None if weights is None else weights[test]
        if task.multilabel:
            right = (values > 0) == codes[test]
            if own is not None and own.ndim == 2:
                return float(np.average(right, axis=0, weights=own).mean())
            return float(np.average(right.mean(axis=1), weights=own))
        found = values[:, 0] > 0 if values.shape[1] == 1 else np.argmax(values, axis=1)
        return float(np.average(found.astype(np.intp) == codes[test], weights=own))

    return "Hamming accuracy" if task.multilabel else "accuracy", score


def check_path_arguments(learner: Learner, alphas: ArrayLike | None, Cs: ArrayLike | None) -> None:
    """Raise for `Cs` of a learner with alpha, and warn for `alphas` of one with a C."""
    name = type(learner).__name__
    if learner.regularization_parameter == "alpha" and Cs is not None:
        raise InputError(f"`Cs` are for learners with a C, and {name} has an alpha. Use alphas=.")
    if learner.regularization_parameter != "C" or alphas is None:
        return
    if Cs is not None:
        raise InputError("`Cs` and `alphas` are alternatives. Give `Cs` alone.")
    alphas = np.atleast_1d(alphas)
    given, meant = (", ".join(f"{v:.4g}" for v in values) for values in (alphas, 1.0 / alphas))
    warn_user(
        f"alphas=[{given}] means C = 1 / alpha for {name}, which has a C, and will be refused in version 0.3. "
        f"Write Cs=[{meant}].",
        FutureWarning,
    )
