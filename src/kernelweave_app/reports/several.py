"""Held-out rows of models with several targets: a table of scores for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kernelweave._types import DataFrame, Labels

#: What is counted of held-out rows: (true, predicted).
COUNTS = {
    "right yes": (1, 1),
    "missed": (1, 0),
    "wrong yes": (0, 1),
    "right no": (0, 0),
}


@dataclass(frozen=True)
class ByTarget:
    """A table with a row for each target.

    Attributes
    ----------
    what : str
        What the rows are.
    heads : list of str
        Names of the columns after the first.
    rows : list of (name, list of str)
    """

    what: str
    heads: list[str]
    rows: list[tuple[str, list[str]]]


def by_target(
    truth: Labels, predictions: DataFrame, names: Sequence[str], *, classification: bool
) -> ByTarget:
    """Scores of held-out rows for each target.

    Parameters
    ----------
    truth : array of shape (n_rows, n_targets)
    predictions : DataFrame
        With columns "prediction a", for labels "decision a" and perhaps "probability a".
    names : sequence of str
    classification : bool
        Whether targets are labels.
    """
    heads: list[str] = []
    rows: list[tuple[str, list[str]]] = []
    for name, own in zip(names, np.asarray(truth).T, strict=True):
        parts = {
            what: predictions.get(f"{what} {name}") for what in ("prediction", "decision", "probability")
        }
        found = {key: None if column is None else column.to_numpy() for key, column in parts.items()}
        scores = _of_label(own, found) if classification else _of_numbers(own, found["prediction"])
        heads = list(scores)
        rows.append((str(name), [_said(value) for value in scores.values()]))
    return ByTarget("label" if classification else "target", heads, rows)


def _said(value: float | int) -> str:
    return str(value) if isinstance(value, int) else "–" if np.isnan(value) else f"{value:.4f}"


def _of_label(truth: Labels, found: dict[str, NDArray[np.float64] | None]) -> dict[str, float | int]:
    from sklearn import metrics

    guess, values, share = found["prediction"], found["decision"], found["probability"]
    both = len(set(truth.tolist())) == 2
    scores: dict[str, float | int] = {
        "share of rows": float(np.mean(truth == 1)),
        "accuracy": float(metrics.accuracy_score(truth, guess)),
        "precision": float(metrics.precision_score(truth, guess, zero_division=np.nan)),
        "recall": float(metrics.recall_score(truth, guess, zero_division=np.nan)),
        "F1": float(metrics.f1_score(truth, guess, zero_division=0)),
        "ROC AUC": float(metrics.roc_auc_score(truth, values)) if both else float("nan"),
    }
    if share is not None:
        scores["log loss"] = float(metrics.log_loss(truth, share, labels=[0, 1]))
    return scores | {
        what: int(((truth == real) & (guess == said)).sum()) for what, (real, said) in COUNTS.items()
    }


def _of_numbers(truth: Labels, guess: NDArray[np.float64] | None) -> dict[str, float | int]:
    from sklearn import metrics

    return {
        "R^2": float(metrics.r2_score(truth, guess)) if len(truth) > 1 else float("nan"),
        "RMSE": float(metrics.root_mean_squared_error(truth, guess)),
        "MAE": float(metrics.mean_absolute_error(truth, guess)),
    }
