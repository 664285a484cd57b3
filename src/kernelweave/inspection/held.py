"""Rows that were not fitted: what a model predicts for them, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kernelweave._parameters import Number, check_value
from kernelweave._types import DataFrame, Features, Labels
from kernelweave.estimators.classifier import knows_probabilities
from kernelweave.inspection.arguments import class_names, target_names

Array = NDArray[np.float64]
#: A score as a function of weights of rows, (n_samples, n_rows).
Score = Callable[[Array], Array]


def predicted_columns(
    model: Any, X: Features, *, std: bool = False, coverage: float | None = None
) -> dict[str, Labels]:
    """Predictions as columns by their names, such as "prediction", "decision" and "probability ill".

    With `coverage` those of numbers have intervals, "low" and "high".
    """
    if hasattr(model, "classes_"):
        parts = {"prediction": model.predict(X), "decision": model.decision_function(X)}
        if knows_probabilities(model):
            parts["probability"] = model.predict_proba(X)
    elif std:
        parts = dict(zip(("prediction", "std"), model.predict(X, return_std=True), strict=True))
    else:
        parts = {"prediction": model.predict(X)}
    if coverage is not None and not hasattr(model, "classes_"):
        check_value(Number(above=0.0, below=1.0), "coverage", coverage)
        guess, half = parts["prediction"], model.model_.out_of_fold.half_widths(coverage)
        parts |= {"low": guess - half, "high": guess + half}
    names = target_names(model) or class_names(model)
    columns: dict[str, Labels] = {}
    for what, values in parts.items():
        values = np.asarray(values)
        if values.ndim == 1 or (not names and values.shape[1] == 1):
            # one target, given as a column
            columns[what] = values.reshape(len(values))
        else:
            columns |= {f"{what} {name}": own for name, own in zip(names, values.T, strict=True)}
    return columns


@dataclass(frozen=True)
class HeldOut:
    """Rows that were not fitted, with their predictions.

    Attributes
    ----------
    truth, prediction : array of shape (n_rows,)
        Classes as texts, or numbers; of several targets (n_rows, n_targets).
    classes : list of str
        None for numbers, and for several targets.
    decision : array of shape (n_rows,), optional
        Of two classes; of more (n_rows, n_classes), of labels (n_rows, n_targets).
    probability : array of shape (n_rows, n_classes), optional
        Of labels (n_rows, n_targets).
    targets : tuple of str
        Names of several targets.
    table : frame, optional
        That the predictions were read from, with names of the rows.
    """

    truth: NDArray[Any]
    prediction: NDArray[Any]
    classes: list[str] | None = None
    decision: Array | None = None
    probability: Array | None = None
    targets: tuple[str, ...] = ()
    table: DataFrame = None

    @classmethod
    def of(cls, model: Any, X: Features, y: Any) -> Self:
        """The predictions of a model for rows."""
        return cls.of_columns(model, predicted_columns(model, X), y)

    @classmethod
    def of_columns(cls, model: Any, columns: Mapping[str, Any], y: Any) -> Self:
        """From `predicted_columns`, or a frame with such columns."""
        targets = target_names(model)
        classes = None if targets or not hasattr(model, "classes_") else list(class_names(model))

        def part(what: str) -> NDArray[Any] | None:
            if what in columns:
                return np.asarray(columns[what])
            own = [f"{what} {name}" for name in targets or classes or ()]
            return (
                np.column_stack([columns[name] for name in own]) if own and set(own) <= set(columns) else None
            )

        kind = None if targets else float if classes is None else str
        y = np.asarray(y)[:, 0] if not targets and np.ndim(y) == 2 and np.shape(y)[1] == 1 else y
        truth, guess = (np.asarray(one, dtype=kind) for one in (y, part("prediction")))
        table = None if isinstance(columns, dict) else columns
        return cls(truth, guess, classes, part("decision"), part("probability"), targets, table)

    @property
    def several(self) -> bool:
        """Whether rows have several targets or labels."""
        return np.ndim(self.truth) != 1

    @property
    def functions(self) -> dict[str, Score]:
        """Scores of one target as functions of weights of rows."""
        if self.classes is None:
            return number_scores(self.truth, self.prediction)
        return class_scores(self.truth, self.prediction, self.classes, self.decision, self.probability)

    @cached_property
    def scores(self) -> dict[str, float]:
        """Scores by their names; of several targets and labels the means."""
        if not self.several:
            found = values_of(self.functions, len(self.truth))
            # rows of a single class have no curve
            return {name: value for name, value in found.items() if name != "ROC AUC" or value == value}
        each = self.by_target()
        columns = {name: np.array([one[name] for one in each]) for name in each[0]}
        if self.decision is None:
            return {name: float(values.mean()) for name, values in columns.items()}
        found = {
            "share of right labels": float(columns["accuracy"].mean()),
            "all labels right": float((self.truth == self.prediction).all(axis=1).mean()),
            "F1 (macro)": float(columns["F1"].mean()),
        }
        # labels that all rows have, or none, have no curve
        areas = columns["ROC AUC"][np.isfinite(columns["ROC AUC"])]
        found |= {"ROC AUC (mean)": float(areas.mean())} if len(areas) else {}
        if self.probability is not None:
            found["log loss"] = float(columns["log loss"].mean())
            found["Brier score"] = float(np.square(self.probability - self.truth).mean())
        return found

    def by_target(self) -> list[dict[str, float]]:
        """Scores of each of several targets, or of each label, with the number of rows of every kind."""
        places = range(self.truth.shape[1])
        if self.decision is None:
            n = len(self.truth)
            return [values_of(number_scores(self.truth[:, k], self.prediction[:, k]), n) for k in places]
        shares = self.probability
        return [
            _label_scores(
                self.truth[:, k] == 1,
                self.prediction[:, k] == 1,
                self.decision[:, k],
                None if shares is None else shares[:, k],
            )
            for k in places
        ]

    def rankings(self) -> dict[str, tuple[NDArray[np.bool_], Array]]:
        """For each class or label which rows have it, and their decision values; of two classes the second."""
        if self.decision is None:
            return {}
        values = self.decision.reshape(len(self.truth), -1).T
        names = self.targets or (self.classes or ())[-len(values) :]
        has = self.truth.T == 1 if self.targets else [self.truth == name for name in names]
        return dict(zip(names, zip(has, values, strict=True), strict=True))


#: What is counted of the rows of a label: (true, predicted).
COUNTS = {"right yes": (1, 1), "missed": (1, 0), "wrong yes": (0, 1), "right no": (0, 0)}


def _label_scores(
    truth: NDArray[np.bool_], guess: NDArray[np.bool_], values: Array, probability: Array | None
) -> dict[str, float]:
    counts = {name: int(((truth == a) & (guess == b)).sum()) for name, (a, b) in COUNTS.items()}
    right, missed, wrong, _ = counts.values()
    found = {
        "fraction of rows": float(truth.mean()),
        "accuracy": float((truth == guess).mean()),
        "precision": right / (right + wrong) if right + wrong else float("nan"),
        "recall": right / (right + missed) if right + missed else float("nan"),
        "F1": 2 * right / max(1, 2 * right + wrong + missed),
        "ROC AUC": float(_areas(np.ones((1, len(truth))), truth, values)[0]),
    }
    if probability is not None:
        own = np.where(truth, probability, 1.0 - probability)
        found["log loss"] = float(-np.log(np.clip(own, np.finfo(float).eps, 1.0)).mean())
    return {**found, **counts}


# ---- scores as functions of weights of rows --------------------------------------------------------


def values_of(scores: Mapping[str, Score], n_rows: int) -> dict[str, float]:
    """Scores of all rows, each counted once."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return {name: float(of(np.ones((1, n_rows)))[0]) for name, of in scores.items()}


def number_scores(truth: Array, guess: Array) -> dict[str, Score]:
    """Scores of numbers as functions of weights of rows, (n_samples, n_rows)."""
    n = len(truth)
    error = truth - guess
    # squares of numbers far from 0 would lose the variance
    centred = truth - truth.mean()

    def r2(w: Array) -> Array:
        total = w @ centred**2 - (w @ centred) ** 2 / n
        return 1.0 - (w @ error**2) / np.where(total > 0, total, np.nan)

    return {
        "R^2": r2,
        "RMSE": lambda w: np.sqrt(w @ error**2 / n),
        "MAE": lambda w: w @ np.abs(error) / n,
    }


def class_scores(
    truth: Labels,
    guess: Labels,
    classes: Sequence[str],
    decision: Array | None = None,
    probability: Array | None = None,
) -> dict[str, Score]:
    """Scores of classes as functions of weights of rows, (n_samples, n_rows)."""
    n = len(truth)
    is_true = np.array([truth == name for name in classes], dtype=float).T
    is_guess = np.array([guess == name for name in classes], dtype=float).T
    right = (truth == guess).astype(float)

    def recalls(w: Array) -> Array:
        known = w @ is_true
        return (w @ (is_true * is_guess)) / np.where(known > 0, known, np.nan)

    def f1(w: Array) -> Array:
        # as scikit-learn, over classes that are true or predicted
        both, either = w @ (is_true * is_guess), w @ is_true + w @ is_guess
        return _known_mean(2.0 * both / np.where(either > 0, either, np.nan))

    found: dict[str, Score] = {
        "accuracy": lambda w: w @ right / n,
        "balanced accuracy": lambda w: _known_mean(recalls(w)),
        "F1 (macro)": f1,
    }
    if decision is not None and decision.ndim == 1 and len(classes) == 2:
        values = decision
        found["ROC AUC"] = lambda w: _areas(w, truth == classes[1], values)
    if probability is not None:
        own = np.clip((probability * is_true).sum(axis=1), np.finfo(float).eps, 1.0)
        loss = -np.log(own)
        brier = np.square(probability - is_true).sum(axis=1) / (2 if len(classes) == 2 else 1)
        found["log loss"] = lambda w: w @ loss / n
        found["Brier score"] = lambda w: w @ brier / n
    return found


def _areas(w: Array, positive: NDArray[np.bool_], values: Array) -> Array:
    """Areas under the receiver operating characteristic with weights of rows, (n_samples,)."""
    order = np.argsort(values, kind="stable")
    w, positive, values = w[:, order], positive[order], values[order]
    # of equal values each counts as half below the others
    starts = np.flatnonzero(np.r_[True, np.diff(values) > 0])
    above = np.add.reduceat(w * positive, starts, axis=1)
    below = np.add.reduceat(w * ~positive, starts, axis=1)
    pairs = above.sum(axis=1) * below.sum(axis=1)
    won = (above * (np.cumsum(below, axis=1) - 0.5 * below)).sum(axis=1)
    return won / np.where(pairs > 0, pairs, np.nan)


def _known_mean(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each row without NaN; NaN for a row that has nothing else."""
    known = ~np.isnan(shares)
    number = known.sum(axis=1)
    total = np.where(known, shares, 0.0).sum(axis=1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
