"""Scores of known predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from kernelweave import learners
from kernelweave._checks import InputError
from kernelweave.estimators.targets import Classes, labels_of
from kernelweave.fitting.calibration import Calibration, log_probabilities
from kernelweave.fitting.folds import Score

Array = NDArray[np.float64]


#: Beginnings of the names of scores that compare decision values of different rows.
RANKINGS = ("roc_auc", "average_precision")


def is_pooled(scoring: str | Callable[..., float] | None) -> bool:
    """Whether there is one score of the test rows of all folds together, in place of a mean over folds.

    Pairs of rows are compared within folds, and a function may have its own idea of rows.
    """
    return not callable(scoring) and not str(scoring).startswith(RANKINGS)


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
    scoring: str | Callable[..., float] | None,
    targets: NDArray[Any],
    classes: Classes | None = None,
    learner: learners.Learner | None = None,
    sample_weight: Array | None = None,
    curve: Callable[[], Calibration | None] | None = None,
) -> Score:
    """A score of decision values on some rows.

    Parameters
    ----------
    scoring : str, callable or None
        None is R^2, or the accuracy.
    targets : array of shape (n_rows,), (n_rows, n_targets) or (n_rows, n_labels)
        Numbers; positions of classes; or labels of 0 and 1.
    classes : array or list of arrays, optional
        All classes, or those of each of several labels; None for regression.
    learner : Learner, optional
        Its loss determines whether there are probabilities.
    sample_weight : array of shape (n_rows,), optional
        Used if the scorer accepts weights.
    curve : callable, optional
        Returns the curve from decision values to probabilities, or None for those of the loss; called by scores that
        need it.
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

    def accuracy(values: Array, rows: NDArray[np.intp]) -> float:
        weight = None if sample_weight is None else sample_weight[rows]
        return float(np.average(labels_of(values, cast(Classes, named)) == truth[rows], weights=weight))

    if scoring is None and classes is not None and not several:
        # that of scikit-learn checks its arguments for longer than a small machine takes
        return accuracy

    def known(values: Array) -> Known:
        flat = values[:, 0] if (targets.ndim == 1 if classes is None else values.shape[1] == 1) else values
        if classes is None:
            return Known({"predict": lambda: flat})
        answers: dict[str, Callable[[], Any]] = {
            "predict": lambda: labels_of(values, cast(Classes, named)),
            "decision_function": lambda: flat,
        }
        if probable:
            answers["predict_proba"] = lambda: probabilities(values)
        return Known(answers, named)

    def probabilities(values: Array) -> Array:
        if curve is not None and (own := curve()) is not None:
            return own(values)
        by_loss = log_probabilities(cast(learners.Learner, learner), values, multilabel=several)
        return np.exp(cast(Array, by_loss))

    scorer = check_scoring(known(np.zeros((1, 1))), scoring)
    weighted = sample_weight is not None and _takes_weights(scorer)

    def score(values: Array, rows: NDArray[np.intp]) -> float:
        one, X = known(values), np.zeros((len(rows), 1))
        try:
            given = {"sample_weight": cast(Array, sample_weight)[rows]} if weighted else {}
            return float(scorer(one, X, truth[rows], **given))
        except AttributeError as error:
            if classes is None or probable or "predict_proba" not in str(error):
                raise
            raise InputError(
                f"The loss of {type(learner).__name__} has no probabilities. `scoring` must be a score of predictions "
                f"or decision values, got {scoring!r}. Use one such as 'balanced_accuracy', or loss='logistic'."
            ) from error

    return score


def _takes_weights(scorer: Callable[..., float]) -> bool:
    """Whether a scorer has an argument for weights; of those of scikit-learn, whether its metric has."""
    named = signature(getattr(scorer, "_score_func", scorer)).parameters
    return "sample_weight" in named or any(one.kind is one.VAR_KEYWORD for one in named.values())


def try_score(
    scoring: Any,
    y: NDArray[Any],
    classes: Classes | None = None,
    learner: str | learners.Learner = "rls2",
) -> float:
    """Score artificial predictions, to check before a fit that the score is defined.

    Parameters
    ----------
    scoring : str or callable
    y : array of shape (n_rows,) or (n_rows, n_targets)
        Targets or classes of some rows.
    classes : array or list of arrays, optional
        All classes, or those of each of several labels; None for regression.
    learner : str or Learner, default="rls2"
        Its loss determines whether there are probabilities.

    Returns
    -------
    float
        The score, which only shows that it is defined; otherwise scorers raise `ValueError`, or return NaN.
    """
    rows = np.arange(len(y))
    if classes is None:
        return fold_score(scoring, y)(np.asarray(y, dtype=np.float64).reshape(len(y), -1), rows)
    several = isinstance(classes, list)
    values = np.random.default_rng(0).normal(
        size=(len(y), 1 if len(classes) == 2 and not several else len(classes))
    )
    targets = y if several else np.searchsorted(np.asarray(classes), y)
    return fold_score(scoring, targets, classes, learners.resolve(learner))(values, rows)
