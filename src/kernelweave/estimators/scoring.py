"""Scores of known predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from kernelweave import learners
from kernelweave._types import Features
from kernelweave.estimators.targets import Classes, labels_of
from kernelweave.fitting.calibration import log_probabilities
from kernelweave.fitting.folds import Score

Array = NDArray[np.float64]


class Known(BaseEstimator):
    """Known predictions, with the interface of an estimator for scorers."""

    values: Any

    def __init__(self, values: Array | None = None, flat: bool = True) -> None:
        self.values = values
        self.flat = flat

    def fit(self, X: object, y: object) -> Known:
        """No fit is needed, but scorers check for the method."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True


class KnownTargets(RegressorMixin, Known):
    """Known predictions of a regression."""

    def predict(self, X: object) -> Array:
        """Known predictions."""
        return self.values[:, 0] if self.flat else self.values


class KnownClasses(ClassifierMixin, Known):
    """Known decision values of a classification."""

    classes: Any

    def __init__(
        self,
        values: Array | None = None,
        classes: Classes | None = None,
        learner: learners.Learner | None = None,
    ) -> None:
        super().__init__(values)
        self.classes = classes
        self.learner = learner

    @property
    def classes_(self) -> Classes:
        """Classes."""
        return self.classes

    def decision_function(self, X: object) -> Array:
        """Known decision values."""
        return self.values[:, 0] if self.values.shape[1] == 1 else self.values

    def predict(self, X: Features) -> NDArray[Any]:
        """Known classes."""
        return labels_of(self.values, self.classes)

    @available_if(lambda self: self.learner is not None and self.learner.has_probabilities)
    def predict_proba(self, X: object) -> Array:
        """Probabilities by the loss of the learner."""
        assert self.learner is not None
        found = log_probabilities(self.learner, self.values, multilabel=isinstance(self.classes, list))
        assert found is not None
        return np.exp(found)


def fold_score(
    scoring: str | Callable[..., float] | None,
    targets: NDArray[Any],
    classes: Classes | None = None,
    learner: learners.Learner | None = None,
    sample_weight: Array | None = None,
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
    """
    from sklearn.metrics import check_scoring

    named, truth = classes, targets
    if classes is not None and not isinstance(classes, list):
        # scorers of two classes use the label 1 as the positive class
        if isinstance(scoring, str) and len(classes) == 2 and 1 not in classes.tolist():
            named = np.arange(2)
        truth = np.asarray(named)[targets]

    def known(values: Array | None = None) -> Known:
        if classes is None:
            return KnownTargets(values, targets.ndim == 1)
        return KnownClasses(values, named, learner)

    def accuracy(values: Array, rows: NDArray[np.intp]) -> float:
        weight = None if sample_weight is None else sample_weight[rows]
        return float(np.average(labels_of(values, named) == truth[rows], weights=weight))

    if scoring is None and classes is not None and not isinstance(classes, list):
        # that of scikit-learn checks its arguments for longer than a small machine takes
        return accuracy
    scorer = check_scoring(known(), scoring)

    def score(values: Array, rows: NDArray[np.intp]) -> float:
        one, X = known(values), np.zeros((len(rows), 1))
        if sample_weight is not None:
            try:
                return float(scorer(one, X, truth[rows], sample_weight=sample_weight[rows]))
            except TypeError:
                pass  # a user's callable without weights
        return float(scorer(one, X, truth[rows]))

    return score


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
