"""Rows that were not fitted: what a model predicts for them, and their scores with what each row has in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from kernelweave._errors import InputError
from kernelweave._forms import ShortRepr, numbered
from kernelweave._parameters import Number, check_value
from kernelweave._types import Array, DataFrame, Features, Labels
from kernelweave.estimators.classifier import knows_probabilities
from kernelweave.fitting.folds import divided
from kernelweave.fitting.source import TableSource
from kernelweave.inspection.arguments import class_names, target_names


@dataclass(frozen=True)
class RowScore:
    """A score of rows.

    Attributes
    ----------
    value : float
    influence : array of shape (n_rows,)
        The derivative of the score by the weight of each row, times the number of rows.
    kind : {"loss", "gain", "fraction", "difference"}
        From 0 up, from 1 down, between, or without ends.
    pairs : tuple of (int, int, int), optional
        Of an area: how many rows have each class, and how many pairs of them are compared.
    """

    value: float
    influence: Array
    kind: Literal["loss", "gain", "fraction", "difference"]
    pairs: tuple[int, int, int] | None = None

    def less(self, other: RowScore) -> RowScore:
        """The difference to the score of other predictions of the same rows."""
        return RowScore(self.value - other.value, self.influence - other.influence, "difference")

    def of_groups(self, groups: Labels | None) -> Self:
        """The same with the influences of groups of rows, which are independent where rows are not."""
        return replace(self, influence=group_means(self.influence, groups))


def groups_of_rows(groups: ArrayLike | None, n_rows: int) -> Labels | None:
    """Given groups as an array, with an entry for each row; None without groups."""
    if groups is None:
        return None
    own = np.asarray(groups)
    if own.shape != (n_rows,):
        raise InputError(f"`groups` must have an entry for each of the {n_rows} rows, got shape {own.shape}.")
    return own


def group_means(values: Array, groups: Labels | None) -> Array:
    """Values of rows as those of groups, with the same mean: sums over rows by the mean number of rows."""
    if groups is None:
        return values
    sums = np.bincount(np.unique(groups, return_inverse=True)[1], values)
    return np.asarray(sums * (len(sums) / len(values)))


#: What scores of rows that a model was fitted on are.
IN_FIT = "Scores of rows that were in the fit say how well the model fits, not how well it predicts."
#: Cells of training rows that are compared at most, and the fraction of these rows that have to differ from each other.
MOST_CELLS = 10_000_000
DISTINCT = 0.9


def rows_in_fit(model: Any, X: Features) -> NDArray[np.bool_] | None:
    """Which rows equal a training row in all columns; None where the model has no rows that can be told apart.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> model = kw.MKLRegressor(alpha=1.0).fit(X[:10], X[:10, 0])
    >>> int(rows_in_fit(model, X).sum())
    10
    """
    source = model.model_.source
    if not isinstance(source, TableSource) or not 0 < source.raw.n_rows * source.raw.n_columns <= MOST_CELLS:
        return None
    columns = np.arange(source.raw.n_columns)
    known = {row.tobytes() for row in source.raw.dense_columns(columns)}
    if len(known) < DISTINCT * source.raw.n_rows:
        return None
    new = model.model_.encode(X).dense_columns(columns)
    return np.array([row.tobytes() in known for row in new], dtype=bool)


def predicted_columns(
    model: Any, X: Features, *, std: bool = False, coverage: float | None = None
) -> dict[str, Labels]:
    """Predictions as columns by their names, such as "prediction", "decision" and "probability ill".

    With `coverage` those of numbers have intervals, "low" and "high".
    """
    if hasattr(model, "classes_"):
        parts = {"prediction": model.predict(X)}
        if hasattr(model, "decision_function"):
            parts["decision"] = model.decision_function(X)
        if knows_probabilities(model):
            parts["probability"] = model.predict_proba(X)
    elif std:
        parts = dict(zip(("prediction", "std"), model.predict(X, return_std=True), strict=True))
    else:
        parts = {"prediction": model.predict(X)}
    if coverage is not None and not hasattr(model, "classes_"):
        check_value(Number(above=0.0, below=1.0), "coverage", coverage)
        parts["low"], parts["high"] = model.model_.ends(parts["prediction"], coverage)
    given = target_names(model) or class_names(model)
    columns: dict[str, Labels] = {}
    for what, values in parts.items():
        values = np.asarray(values)
        names = given or outputs_named(values)
        if not names or values.ndim == 1:
            # one target, given as a column
            columns[what] = values.reshape(len(values))
        else:
            columns |= {f"{what} {name}": own for name, own in zip(names, values.T, strict=True)}
    return columns


def class_texts(values: ArrayLike, classes: ArrayLike) -> NDArray[np.str_]:
    """Classes of rows as texts: those of `classes` that they equal, such as 1 for 1.0, where there are some."""
    own, given = np.asarray(classes), np.asarray(values)
    known = dict(zip(own.tolist(), map(str, own), strict=True))
    parts = zip(given.tolist(), given.astype(str).tolist(), strict=True)
    return np.array([known.get(one, text) for one, text in parts], dtype=str)


def outputs_named(values: Any) -> tuple[str, ...]:
    """Names of several columns that have none."""
    several = np.ndim(values) == 2 and np.shape(values)[1] > 1
    return tuple(f"output {k}" for k in range(np.shape(values)[1])) if several else ()


@dataclass(frozen=True)
class HeldOut(ShortRepr):
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
    rows, folds : array of int, shape (n_rows,), optional
        Positions of the rows among others, and which of several models has predicted each of them.
    seen : array of shape (n_rows,), optional
        Mean squared error of numbers in the training rows of the model that predicted each row.
    groups : array of shape (n_rows,), optional
        Groups of rows that depend on each other, such as those of a patient; rows of different ones are independent.
    """

    truth: NDArray[Any]
    prediction: NDArray[Any]
    classes: list[str] | None = None
    decision: Array | None = None
    probability: Array | None = None
    targets: tuple[str, ...] = ()
    table: DataFrame = None
    rows: NDArray[np.intp] | None = None
    folds: NDArray[np.intp] | None = None
    seen: Array | None = None
    groups: Labels | None = None

    @classmethod
    def of(cls, model: Any, X: Features, y: Any) -> Self:
        """The predictions of a model for rows."""
        if hasattr(model, "predict_cumulative_hazard"):
            raise InputError(
                "Risks of censored times have no errors that could be averaged here. Use kw.inspection.concordance and "
                "brier_scores, or cross_val_score of scikit-learn, which takes the concordance."
            )
        return cls.of_columns(model, predicted_columns(model, X), y)

    @classmethod
    def of_fold(cls, model: Any, new: tuple[Features, Any], seen: tuple[Features, Any]) -> Self:
        """The same for the model of a fold, of which `seen` are the training rows with their targets."""
        held = cls.of(model, *new)
        if held.squared_errors is None:
            return held
        known = cls.of(model, *seen).squared_errors
        assert known is not None
        return replace(held, seen=np.full(len(held), known.mean()))

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def squared_errors(self) -> Array | None:
        """Of numbers, or of probabilities of classes, shape (n_rows,); None without them, and for several targets."""
        if self.several:
            return None
        if self.classes is None:
            return np.square(self.truth - self.prediction)
        if self.probability is None:
            return None
        return np.square(self.probability - (self.truth[:, None] == np.array(self.classes))).sum(axis=1)

    @classmethod
    def of_columns(cls, model: Any, columns: Mapping[str, Any], y: Any) -> Self:
        """From `predicted_columns`, or a frame with such columns."""
        targets = target_names(model) or (() if hasattr(model, "classes_") else outputs_named(y))
        classes = None if targets or not hasattr(model, "classes_") else list(class_names(model))

        def part(what: str) -> NDArray[Any] | None:
            if what in columns:
                return np.asarray(columns[what])
            own = [f"{what} {name}" for name in targets or classes or ()]
            return (
                np.column_stack([columns[name] for name in own]) if own and set(own) <= set(columns) else None
            )

        kind = float if classes is None and not targets else None
        y = np.asarray(y)[:, 0] if not targets and np.ndim(y) == 2 and np.shape(y)[1] == 1 else y
        truth, guess = (np.asarray(one, dtype=kind) for one in (y, part("prediction")))
        if classes is not None:
            # several labels of another package have lists of classes
            truth, guess = (
                class_texts(one, model.classes_) if one.ndim == 1 else one.astype(str)
                for one in (truth, guess)
            )
        table = None if isinstance(columns, dict) else columns
        return cls(truth, guess, classes, part("decision"), part("probability"), targets, table)

    @property
    def in_groups(self) -> str:
        """How many groups the rows have, in words after a number of rows; empty without groups."""
        return "" if self.groups is None else f" of {numbered(len(np.unique(self.groups)), 'group')}"

    @property
    def several(self) -> bool:
        """Whether rows have several targets or labels."""
        return np.ndim(self.truth) != 1

    @cached_property
    def row_scores(self) -> dict[str, RowScore]:
        """Scores of one target."""
        if self.classes is None:
            return number_scores(self.truth, self.prediction)
        return class_scores(
            self.truth, self.prediction, self.classes, self.decision, self.probability, self.folds
        )

    @cached_property
    def scores(self) -> dict[str, float]:
        """Scores by their names; of several targets and labels the means."""
        if not self.several:
            found = {name: one.value for name, one in self.row_scores.items()}
            # rows of a single class have no curve
            return {name: value for name, value in found.items() if name != "ROC AUC" or value == value}
        each = self.by_target()
        columns = {name: np.array([one[name] for one in each]) for name in each[0]}
        if self.decision is None:
            return {name: float(values.mean()) for name, values in columns.items()}
        found = {
            "Hamming accuracy": float(columns["accuracy"].mean()),
            "subset accuracy": float((self.truth == self.prediction).all(axis=1).mean()),
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
            scores = (number_scores(self.truth[:, k], self.prediction[:, k]) for k in places)
            return [{name: one.value for name, one in own.items()} for own in scores]
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
        "ROC AUC": _area(truth, values).value,
    }
    if probability is not None:
        own = np.where(truth, probability, 1.0 - probability)
        found["log loss"] = float(-np.log(np.clip(own, np.finfo(float).eps, 1.0)).mean())
    return {**found, **counts}


def divisions_of(tests: Sequence[NDArray[np.intp]], held: Sequence[HeldOut]) -> list[HeldOut]:
    """Test rows of folds, with their positions among all rows, joined such that each has a row once at most.

    Where models of folds know different classes, decision values and probabilities are left out.
    """
    parts = [
        replace(own, table=None, rows=rows, folds=np.full(len(rows), k))
        for k, (rows, own) in enumerate(zip(tests, held, strict=True))
    ]
    return [_joined([parts[k] for k in folds]) for folds in divided(tests)]


def _joined(parts: list[HeldOut]) -> HeldOut:
    columns = beside(parts, ("truth", "prediction", "rows", "folds", "seen", "groups"))
    if all(part.classes == parts[0].classes for part in parts):
        return replace(parts[0], **columns, **beside(parts, ("decision", "probability")))
    every = {name for part in parts for name in part.classes or ()}
    return replace(parts[0], **columns, classes=sorted(every), decision=None, probability=None)


def beside(parts: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Columns of several parts of the rows, one after another; None where a part has none."""
    found = {name: [getattr(part, name) for part in parts] for name in names}
    return {
        name: None if any(one is None for one in own) else np.concatenate(own) for name, own in found.items()
    }


# ---- scores, and what every row has in them --------------------------------------------------------


def number_scores(truth: Array, guess: Array) -> dict[str, RowScore]:
    """Scores of numbers."""
    error = np.square(truth - guess)
    # squares of numbers far from 0 would lose the variance
    centred = np.square(truth - truth.mean())
    mse, variance, absolute = error.mean(), centred.mean(), np.sqrt(error)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio, root = mse / (variance if variance > 0 else np.nan), np.sqrt(mse)
        return {
            "R^2": RowScore(float(1.0 - ratio), (ratio * centred - error) / variance, "gain"),
            "RMSE": RowScore(float(root), (error - mse) / (2.0 * root), "loss"),
            "MAE": RowScore(float(absolute.mean()), absolute - absolute.mean(), "loss"),
        }


def class_scores(
    truth: Labels,
    guess: Labels,
    classes: Sequence[str],
    decision: Array | None = None,
    probability: Array | None = None,
    folds: NDArray[np.intp] | None = None,
) -> dict[str, RowScore]:
    """Scores of classes; the area under a curve compares rows with the same entry of `folds` only."""
    is_true = np.array([truth == name for name in classes], dtype=float).T
    is_guess = np.array([guess == name for name in classes], dtype=float).T
    both, either = is_true * is_guess, is_true + is_guess
    found = {
        "accuracy": _mean(np.asarray(truth == guess, dtype=float), "fraction"),
        "balanced accuracy": _mean_ratio(both, is_true),
        # as scikit-learn, over classes that are true or predicted
        "F1 (macro)": _mean_ratio(2.0 * both, either),
    }
    if decision is not None and decision.ndim == 1 and len(classes) == 2:
        found["ROC AUC"] = _area(truth == classes[1], decision, folds)
    if probability is not None:
        own = np.clip((probability * is_true).sum(axis=1), np.finfo(float).eps, 1.0)
        brier = np.square(probability - is_true).sum(axis=1) / (2 if len(classes) == 2 else 1)
        found |= {"log loss": _mean(-np.log(own), "loss"), "Brier score": _mean(brier, "loss")}
    return found


@cache
def losses_of_rows() -> frozenset[str]:
    """Names of the scores above of which the smallest value is the best."""
    y, names = np.array([0.0, 1.0]), ["no", "yes"]
    every = number_scores(y, 1.0 - y) | class_scores(np.array(names), np.array(names), names, y, np.eye(2))
    return frozenset(name for name, one in every.items() if one.kind == "loss")


def _mean(values: Array, kind: Literal["loss", "fraction"]) -> RowScore:
    return RowScore(float(values.mean()), values - values.mean(), kind)


def _mean_ratio(above: Array, below: Array) -> RowScore:
    """The mean over columns of ratios of sums, without columns that have nothing below."""
    known = below.any(axis=0)
    if not known.any():
        return RowScore(float("nan"), np.full(len(above), np.nan), "fraction")
    above, below = above[:, known], below[:, known]
    ratio = above.mean(axis=0) / below.mean(axis=0)
    influence = (above - ratio * below) / below.mean(axis=0)
    return RowScore(float(ratio.mean()), influence.mean(axis=1), "fraction")


def _area(positive: NDArray[np.bool_], values: Array, folds: NDArray[np.intp] | None = None) -> RowScore:
    """The area under the receiver operating characteristic: the fraction of pairs of rows in the right order."""
    won, others = np.zeros(len(values)), np.zeros(len(values))
    for fold in [np.ones(len(values), dtype=bool)] if folds is None else folds == np.unique(folds)[:, None]:
        yes, no = np.flatnonzero(fold & positive), np.flatnonzero(fold & ~positive)
        ranks = rankdata(values[np.r_[yes, no]])
        # of equal values each counts as half below the others
        won[yes] = ranks[: len(yes)] - rankdata(values[yes])
        won[no] = len(yes) - (ranks[len(yes) :] - rankdata(values[no]))
        others[yes], others[no] = len(no), len(yes)
    pairs = others[positive].sum()
    if not pairs:
        return RowScore(float("nan"), np.full(len(values), np.nan), "fraction")
    area = float(won[positive].sum() / pairs)
    n_yes = int(np.count_nonzero(positive))
    counts = (n_yes, len(values) - n_yes, int(pairs))
    return RowScore(area, len(values) * (won - area * others) / pairs, "fraction", counts)
