"""Scores that choose: of known predictions, and the classes that a score asks for.

A score by name is one of the test rows of all folds together, see `is_pooled`. Scores of probabilities take those of
the loss, or of the temperature that fits the rows they are asked about, as `predict_proba` does. Scores of predictions
other than the accuracy also choose how a plain fit decides: the class of the largest ``p / share ** level``, see
`DecidedScore`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit
from sklearn.base import BaseEstimator

from kernelweave import learners
from kernelweave._checks import InputError, check_known
from kernelweave.estimators.targets import Classes, labels_of
from kernelweave.fitting.calibration import Calibration, calibrate, log_probabilities
from kernelweave.fitting.folds import MeanScore, Rows, Score, negative_loss
from kernelweave.fitting.out_of_fold import OutOfFold, best_offsets
from kernelweave.fitting.task import Task

Array = NDArray[np.float64]

#: A scorer of scikit-learn by its name or itself, or a function of an estimator, rows and truth; None for the usual.
Scoring = str | Callable[..., float] | None
#: The curve from decision values of some rows to probabilities, or None for those of the loss.
Curve = Callable[[Array, Rows], Calibration | None]

#: Beginnings of the names of scores that compare decision values of different rows.
RANKINGS = ("roc_auc", "average_precision")
#: Levels that folds choose from, and those of scores for which theory says which is best.
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
KNOWN_LEVELS = {"accuracy": (0.0,), "balanced_accuracy": (1.0,), "recall_macro": (1.0,)}


def metric_of(scoring: Scoring) -> str:
    """The name of a score: its own, or that of the metric of a scorer; empty for other functions."""
    if isinstance(scoring, str):
        return scoring
    return str(getattr(getattr(scoring, "_score_func", None), "__name__", ""))


def is_pooled(scoring: Scoring) -> bool:
    """Whether there is one score of the test rows of all folds together, in place of a mean over folds.

    Pairs of rows are compared within folds, and a function may have its own idea of rows.
    """
    return scoring is None or (metric_of(scoring) != "" and not metric_of(scoring).startswith(RANKINGS))


def levels_of(scoring: Scoring) -> tuple[float, ...]:
    """Levels of decisions that a score chooses from, the first among equals: more than 0 for scores of predictions."""
    from sklearn.metrics import get_scorer

    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
    if scorer is None or getattr(scorer, "_response_method", None) != "predict":
        return (0.0,)
    return KNOWN_LEVELS.get(metric_of(scoring).removesuffix("_score"), LEVELS)


class Known(BaseEstimator):
    """Known answers in place of a fitted estimator, for scorers.

    Parameters
    ----------
    answers : dict of str to callable
        Functions without arguments, by the names of the methods that answer so for any rows.
    classes : array or list of arrays, optional
        As `classes_` of a classifier; None for regression.
    """

    def __init__(self, answers: Mapping[str, Callable[[], Any]], classes: Classes | None = None) -> None:
        self.answers = answers
        self.classes = classes
        if classes is not None:
            self.classes_ = classes
        for name, answer in answers.items():
            setattr(self, name, _method(name, answer))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor" if self.classes is None else "classifier"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: object, y: object) -> Known:
        """No fit is needed, but scorers check for the method."""
        return self

    def score(self, X: object, y: Any, sample_weight: Array | None = None) -> float:
        """R^2, or the accuracy."""
        from sklearn.metrics import accuracy_score, r2_score

        metric = r2_score if self.classes is None else accuracy_score
        return float(metric(y, self.answers["predict"](), sample_weight=sample_weight))


def _method(name: str, answer: Callable[[], Any]) -> Callable[[object], Any]:
    """A method that answers the same for all rows; scorers look methods up by their names."""

    def method(X: object) -> Any:
        return answer()

    method.__name__ = name
    return method


def fold_score(
    scoring: Scoring,
    targets: NDArray[Any],
    classes: Classes | None = None,
    learner: learners.Learner | None = None,
    sample_weight: Array | None = None,
    curve: Curve | None = None,
) -> Callable[..., float]:
    """A score of decision values on some rows, ``score(values, rows, shift=0.0)``.

    The third argument is added to the values before they are decisions; probabilities are those of the values.

    Parameters
    ----------
    scoring : str, callable or None
        None is R^2, or the accuracy.
    targets : array of shape (n_rows,), (n_rows, n_targets) or (n_rows, n_labels)
        Numbers; positions of classes; or labels of 0 and 1.
    classes : array or list of arrays, optional
        All classes, or those of each of several labels; None for regression.
    learner : Learner, optional
        Its loss determines whether there are probabilities, and what the predictions of numbers are.
    sample_weight : array of shape (n_rows,), optional
        Used if the scorer accepts weights.
    curve : callable, optional
        Returns the curve from decision values of some rows to probabilities, or None for those of the loss; called by
        scores that need it.
    """
    from sklearn.metrics import check_scoring

    named, truth = classes, targets
    if classes is not None and not isinstance(classes, list):
        # scorers of two classes use the label 1 as the positive class
        if isinstance(scoring, str) and len(classes) == 2 and 1 not in classes.tolist():
            named = np.arange(2)
        truth = np.asarray(named)[targets]

    several = isinstance(classes, list)
    probable = curve is not None or (learner is not None and learner.has_probabilities)

    def balanced(values: Array, rows: Rows, shift: Array | float = 0.0) -> float:
        weight = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
        right = labels_of(values + shift, cast(Classes, named)) == truth[rows]
        there, found = (np.bincount(targets[rows], own) for own in (weight, weight * right))
        return float((found[there > 0] / there[there > 0]).mean())

    if classes is not None and not several and scoring in (None, "balanced_accuracy"):
        # those of scikit-learn check their arguments for longer than a small machine takes
        accuracy = MeanScore(
            lambda values, rows: labels_of(values, cast(Classes, named)) == truth[rows], sample_weight
        )
        return balanced if scoring else accuracy

    def known(values: Array, rows: Rows, shift: Array | float) -> Known:
        decided = values + shift
        flat = decided[:, 0] if (targets.ndim == 1 if classes is None else values.shape[1] == 1) else decided
        if classes is None:
            return Known({"predict": lambda: flat if learner is None else learner.prediction(flat)})
        answers: dict[str, Callable[[], Any]] = {
            "predict": lambda: labels_of(decided, cast(Classes, named)),
            "decision_function": lambda: flat,
        }
        if probable:
            answers["predict_proba"] = lambda: probabilities(values, rows)
        return Known(answers, named)

    def probabilities(values: Array, rows: Rows) -> Array:
        if curve is not None and (own := curve(values, rows)) is not None:
            return own(values)
        by_loss = log_probabilities(cast(learners.Learner, learner), values, multilabel=several)
        return np.exp(cast(Array, by_loss))

    scorer = check_scoring(known(np.zeros((1, 1)), np.zeros(1, dtype=np.intp), 0.0), scoring)
    weighted = sample_weight is not None and _takes_weights(scorer)

    def score(values: Array, rows: Rows, shift: Array | float = 0.0) -> float:
        one, X = known(values, rows, shift), np.zeros((len(rows), 1))
        given = {"sample_weight": cast(Array, sample_weight)[rows]} if weighted else {}
        return float(scorer(one, X, truth[rows], **given))

    return score


def _takes_weights(scorer: Callable[..., float]) -> bool:
    """Whether a scorer has an argument for weights; of those of scikit-learn, whether its metric has."""
    named = signature(getattr(scorer, "_score_func", scorer)).parameters
    return "sample_weight" in named or any(one.kind is one.VAR_KEYWORD for one in named.values())


def if_defined(score: Score) -> Score:
    """NaN, without warnings, for rows that have no score of their own."""

    def one(values: Array, rows: Rows) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return score(values, rows)
            except ValueError:
                return float("nan")

    return one


@dataclass(frozen=True, eq=False)
class DecidedScore:
    """The score of rows at the best of some levels: the class of the largest ``p / share ** level`` is predicted.

    Probabilities p are those of the temperature of the rows themselves, and of offsets, see `best_offsets`; of several
    labels each is decided alone, without offsets. The level 0 decides by probabilities, 1 as if all classes were
    equally frequent, which is best for the balanced accuracy.

    Attributes
    ----------
    score : callable
        Of decision values, rows, and what is added to the values, see `fold_score`.
    curve : callable
        The temperature of some rows.
    of_loss : bool
        Whether values are log odds by the loss itself, of two classes or of labels, so that the temperature is 1.
    moves : bool
        Whether values have offsets: of classes, whose probabilities are not those of a loss.
    codes : array of shape (n_rows,) or (n_rows, n_labels)
    weights : array of shape (n_rows,) or (n_rows, n_labels), or None
    log_odds : array of shape (n_outputs,)
        Logarithms of the shares of classes; of two classes, and of labels, of the odds.
    levels : tuple of float
        The first among equals is taken.

    References
    ----------
    C. Elkan, The foundations of cost-sensitive learning, IJCAI 2001.
    """

    score: Callable[..., float]
    curve: Callable[[Array, Rows], Calibration]
    of_loss: bool
    moves: bool
    codes: Rows
    weights: Array | None
    log_odds: Array
    levels: tuple[float, ...]

    def __call__(self, values: Array, rows: Rows) -> float:
        """The best score."""
        return self.decided(values, rows)[0]

    def offsets(self, values: Array, rows: Rows) -> Array:
        """What is added to decision values before they have a temperature."""
        if not self.moves:
            return np.zeros(values.shape[1])
        weights = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        return best_offsets(values, self.codes[rows], weights)

    def likelihood(self, values: Array, rows: Rows) -> float:
        """Minus the log loss, weighted, of the probabilities."""
        values = values + self.offsets(values, rows)
        logs = self.curve(values, rows).logarithms(values)
        codes, weights = self.codes[rows], None if self.weights is None else self.weights[rows]
        if logs.shape == codes.shape:
            # several labels
            slopes = np.concatenate(self.curve(values, rows).curves)
            if weights is not None:
                weights = np.broadcast_to(weights.reshape(len(codes), -1), codes.shape)
            return float(np.average(np.where(codes == 1, logs, log_expit(-values * slopes)), weights=weights))
        return float(np.average(np.take_along_axis(logs, codes[:, None], axis=1)[:, 0], weights=weights))

    def decided(self, values: Array, rows: Rows) -> tuple[float, float, Array, Array]:
        """The best score, its level, what is added to decision values for it, and the offsets."""
        offsets = self.offsets(values, rows)
        values = values + offsets
        slopes = np.ones(values.shape[1]) if self.of_loss else np.concatenate(self.curve(values, rows).curves)
        # values that say nothing decide as they are: divided by shares they would make all rows rare, or none
        levels = (0.0,) if self.moves and not offsets.any() else self.levels
        found: list[tuple[float, float, Array]] = []
        with warnings.catch_warnings():
            # levels that never predict a class have their score too
            warnings.simplefilter("ignore")
            for level in levels:
                shift = -level * self.log_odds / slopes
                found.append((self.score(values, rows, shift), level, shift))
        return *max(found, key=lambda one: one[0] if one[0] == one[0] else -np.inf), offsets


@dataclass(frozen=True, eq=False)
class TaskScore:
    """The score that chooses a regularisation parameter of a task.

    Attributes
    ----------
    name : str
        As it is shown.
    score : callable
        Of decision values of any rows.
    of_fold : callable
        The same, NaN for rows that have no such score, if it is one of scikit-learn.
    pooled : bool
        Whether there is one score of the test rows of all folds together.
    second : callable, optional
        What chooses among candidates within a standard error of the best: minus the log loss. Scores of decisions count
        few rows of rare classes, and many candidates are about as good.
    by_second : bool
        Whether it chooses among all candidates: of a score whose best decision follows from probabilities, the best
        probabilities are taken, which all rows tell of.
    """

    name: str
    score: Score
    of_fold: Score
    pooled: bool
    second: Score | None = None
    by_second: bool = False


def task_score(
    scoring: Scoring,
    task: Task,
    classes: Classes | None,
    learner: learners.Learner,
    *,
    default: str = "score",
    decides: bool = False,
) -> TaskScore:
    """The score of a parameter `scoring`, for the rows of a task.

    Parameters
    ----------
    scoring : str, callable or None
    task : Task
    classes : array, list of arrays, or None
    learner : Learner
    default : str
        What the score is called without a name.
    decides : bool
        Whether predictions are those of the best level, see `DecidedScore`.
    """
    loss = learner.scoring_loss if scoring is None and classes is None else None
    if loss is not None:
        own = negative_loss(loss, task.targets, task.sample_weight)
        return TaskScore(f"negative {loss.name} loss, mean over folds", own, own, False, None, False)
    name = scoring if isinstance(scoring, str) else "score" if scoring else default
    pooled = is_pooled(scoring)

    score: Score
    second: Score | None = None
    by_second = False
    if classes is None:
        numbers = np.concatenate(task.targets, axis=1)
        truth = numbers[:, 0] if task.flat else numbers
        score = fold_score(scoring, truth, learner=learner, sample_weight=task.sample_weight)
    else:
        weights = task.sample_weight, task.loss_weight
        score = _class_score(scoring, task, classes, learner, task.codes, *weights, decides=decides)
        if isinstance(score, DecidedScore):
            second, by_second = score.likelihood, len(score.levels) == 1
    # the accuracy is defined for any rows
    known = (pooled or metric_of(scoring) != "") and (
        scoring is not None or classes is None or task.multilabel
    )
    of_fold = if_defined(score) if known else score
    return TaskScore(
        name if pooled else f"{name}, mean over folds", score, of_fold, pooled, second, by_second
    )


def _class_score(
    scoring: Scoring,
    task: Task,
    classes: Classes,
    learner: learners.Learner,
    codes: Rows,
    sample_weight: Array | None,
    loss_weight: Array | None,
    *,
    decides: bool,
) -> Score:
    """The score of rows with these classes and weights; of the best decision if the score has one."""

    def curve(values: Array, rows: Rows) -> Calibration:
        weights = None if loss_weight is None else loss_weight[rows]
        return calibrate(values, codes[rows], weights, "temperature", multilabel=task.multilabel)

    own = None if learner.has_probabilities else curve
    score = fold_score(scoring, codes, classes, learner, sample_weight, own)
    levels = levels_of(scoring) if decides else (0.0,)
    if levels == (0.0,):
        return score
    # one against the rest, probabilities of the loss have no common scale
    of_loss = learner.has_probabilities and (task.multilabel or task.n_outputs == 1)
    moves = not (task.multilabel or learner.has_probabilities)
    return DecidedScore(score, curve, of_loss, moves, codes, loss_weight, log_odds(task), levels)


def decision_of(
    scoring: Scoring, task: Task, classes: Classes, learner: learners.Learner, held: OutOfFold
) -> tuple[float, Array, Array | None]:
    """The level of the decision that a score asks for, what it adds to decision values, and offsets if these have some.

    Only for scores with levels above 0, see `levels_of`.
    """
    codes = held.truth.astype(np.intp)
    weights = task.times_factors(held.weights, codes)
    rows = held.weights if task.multilabel else weights
    given = (None, None) if task.loss_weight is None else (rows, weights)
    score = _class_score(scoring, task, classes, learner, codes, *given, decides=True)
    assert isinstance(score, DecidedScore)  # the score has levels
    _, level, shift, offsets = score.decided(held.values, np.arange(len(codes)))
    return level, shift, offsets if score.moves else None


def said_of_level(level: float) -> str:
    """How classes are decided, in words."""
    if not level:
        return "the most probable class, which the score prefers to others on the folds"
    power = "" if level == 1.0 else f" to the power {level:g}"
    return (
        f"the class whose probability divided by its frequency in the training rows{power} is largest; probabilities "
        "stay as they are"
    )


def said_of_costs(loss: float, other: float) -> str:
    """Which machines were taken, by log losses on folds of those in which rows, and classes, count alike."""
    taken = (
        "all classes count alike in the machines" if other < loss else "all rows count alike in the machines"
    )
    if f"{loss:.3g}" == f"{other:.3g}":
        return f"{taken}; the log loss on the folds is {loss:.3g} either way."
    return (
        f"{taken}; the log loss on the folds is {other:.3g} where classes do, and {loss:.3g} where rows do."
    )


def log_odds(task: Task) -> Array:
    """Logarithms of the weighted shares of classes, (n_classes,), or of the odds of the second, or of each label."""
    weights = np.ones(len(task.codes)) if task.loss_weight is None else task.loss_weight
    if task.multilabel:
        # one row more, of both kinds, keeps a label that all rows have finite
        each = weights.reshape(len(weights), -1)
        there, total = (each * task.codes).sum(axis=0), each.sum(axis=0)
        return np.asarray(np.log((there + 0.5) / (total - there + 0.5)))
    totals = np.bincount(task.codes, weights)
    return np.log(totals[1:] / totals[:1]) if len(totals) == 2 else np.log(totals / totals.sum())


def reason_against(scoring: Scoring, y: NDArray[Any], classes: Classes | None = None) -> str | None:
    """Why a score is not defined for some rows; None if it is. Artificial predictions are scored.

    Parameters
    ----------
    scoring : str or callable
    y : array of shape (n_rows,) or (n_rows, n_targets)
        Targets or classes of some rows.
    classes : array or list of arrays, optional
        All classes, or those of each of several labels; None for regression.
    """
    if classes is not None and _is_of_numbers(scoring):
        # classes that are numbers would be subtracted
        return "it is a score of numbers"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return None if np.isfinite(_try_score(scoring, y, classes)) else "it is not defined there"
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        # the message names the class of the stand-in for the model
        said = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
        return re.sub(r"\bKnown\b", "the model", said)


def _is_of_numbers(scoring: Scoring) -> bool:
    """Whether a score is a metric of regressions."""
    from sklearn.metrics import get_scorer, r2_score

    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
    return getattr(getattr(scorer, "_score_func", None), "__module__", "") == r2_score.__module__


def _try_score(scoring: Scoring, y: NDArray[Any], classes: Classes | None) -> float:
    rows = np.arange(len(y))
    if classes is None:
        # deviances are of means above 0
        guess = np.where(y == 0, 1, y).astype(np.float64)
        return fold_score(scoring, y)(guess.reshape(len(y), -1), rows)
    several = isinstance(classes, list)
    n_outputs = 1 if len(classes) == 2 and not several else len(classes)
    values = np.random.default_rng(0).normal(size=(len(y), n_outputs))
    targets = y if several else np.searchsorted(np.asarray(classes), y)
    curve = Calibration("temperature", (np.ones(1),) * (n_outputs if several else 1), several)
    return fold_score(scoring, targets, classes, curve=lambda values, rows: curve)(values, rows)


def check_score(scoring: str, y: NDArray[Any], classes: Classes | None) -> None:
    """Raise for a name that no score has, or one that is not defined for the targets; say which are."""
    from sklearn.metrics import get_scorer, get_scorer_names

    check_known(scoring, get_scorer_names(), "scoring")
    reason = reason_against(scoring, y, classes)
    if reason is None:
        return
    # scores of clusterings are defined for all labels
    names = [n for n in get_scorer_names() if ".cluster" not in get_scorer(n)._score_func.__module__]
    fits = [name for name in names if reason_against(name, y, classes) is None]
    what = (
        "numbers"
        if classes is None
        else f"{len(classes)} {'labels' if isinstance(classes, list) else 'classes'}"
    )
    raise InputError(
        f"`scoring` must be a score of {what}, got {scoring!r}: {reason:.200}. Known: {', '.join(map(repr, fits))}."
    )
