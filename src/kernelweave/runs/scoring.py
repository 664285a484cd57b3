"""Predictions of a fitted model for rows of a table, and scores where the target is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import DataFrame, Labels, Series
from kernelweave.runs.tables import check_cells, need_column

if TYPE_CHECKING:
    from kernelweave.estimators.base import BaseMKL


def scores(model: BaseMKL, X: DataFrame, y: Labels, task: str) -> dict[str, float]:
    """Scores on rows with a known target."""
    from sklearn import metrics

    predicted = model.predict(X)
    if task == "regression":
        return {
            "R^2": float(metrics.r2_score(y, predicted)) if len(y) > 1 else float("nan"),
            "RMSE": float(metrics.root_mean_squared_error(y, predicted)),
            "MAE": float(metrics.mean_absolute_error(y, predicted)),
        }
    out = {
        "accuracy": float(metrics.accuracy_score(y, predicted)),
        "balanced accuracy": float(metrics.balanced_accuracy_score(y, predicted)),
        "F1 (macro)": float(metrics.f1_score(y, predicted, average="macro", zero_division=0)),
    }
    if len(model.classes_) == 2 and len(set(y)) == 2:
        out["ROC AUC"] = float(metrics.roc_auc_score(y, model.decision_function(X)))
    if hasattr(model, "predict_proba"):
        share = model.predict_proba(X)
        out["log loss"] = float(metrics.log_loss(y, share, labels=model.classes_))
        right = np.asarray(y)[:, None] == model.classes_
        out["Brier score"] = float(np.square(share - right).sum(axis=1).mean()) / (
            2 if len(model.classes_) == 2 else 1
        )
    return out


def predictions(
    model: BaseMKL, X: DataFrame, task: str, *, std: bool = False, keys: Series = None
) -> DataFrame:
    """A table of predictions, decision values and standard deviations; `keys`, a series, names the rows."""
    import pandas as pd

    table = pd.DataFrame({"row": X.index})
    if keys is not None:
        taken = keys.name in ("row", "prediction", "std", "decision", "truth")
        taken = taken or str(keys.name).startswith("decision ")
        table[f"key {keys.name}" if taken else keys.name] = keys.to_numpy()
    if task == "regression":
        if std:
            mean, deviation = model.predict(X, return_std=True)
            table["prediction"], table["std"] = mean, deviation
        else:
            table["prediction"] = model.predict(X)
        return table
    table["prediction"] = model.predict(X)
    values = model.decision_function(X)
    if values.ndim == 1:
        table["decision"] = values
    else:
        for name, column in zip(model.classes_, values.T, strict=True):
            table[f"decision {name}"] = column
    if hasattr(model, "predict_proba"):
        for name, column in zip(model.classes_, model.predict_proba(X).T, strict=True):
            table[f"probability {name}"] = column
    return table


def features_of(model: BaseMKL, table: DataFrame) -> DataFrame:
    """The columns that a model was fitted on, in their order."""
    names = [str(n) for n in getattr(model, "feature_names_in_", [])]
    if not names:
        raise InputError("This model was not fitted on a table with column names; predict with it in Python.")
    missing = [n for n in names if n not in table.columns]
    if missing:
        need_column(table, missing[0], f"the model, which lacks {len(missing)} of its {len(names)} columns")
    check_cells(table, names)
    return table[names]
