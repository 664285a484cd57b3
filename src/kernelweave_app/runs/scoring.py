"""Predictions of a fitted model for rows of a table, and scores where the target is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import DataFrame, Labels, Series
from kernelweave.inspection.arguments import target_names
from kernelweave.views import GramEncoder, TableEncoder, ViewsEncoder
from kernelweave_app.runs.columns import check_cells, need_column
from kernelweave_app.runs.further_views import Tables

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL

#: What columns of predictions begin with.
MADE = ("prediction", "std", "decision", "probability", "truth")


def scores(model: BaseMKL, X: DataFrame, y: Labels, task: str) -> dict[str, float]:
    """Scores on rows with a known target."""
    from sklearn import metrics

    predicted = model.predict(X)
    if task == "regression":
        # means over several targets
        return {
            "R^2": float(metrics.r2_score(y, predicted)) if len(y) > 1 else float("nan"),
            "RMSE": float(metrics.root_mean_squared_error(y, predicted)),
            "MAE": float(metrics.mean_absolute_error(y, predicted)),
        }
    if np.ndim(y) == 2:
        return _scores_of_labels(model, X, y)
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


def _scores_of_labels(model: BaseMKL, X: DataFrame, y: Labels) -> dict[str, float]:
    from sklearn import metrics

    predicted, values = model.predict(X), model.decision_function(X)
    right = predicted == y
    out = {
        "share of right labels": float(right.mean()),
        "all labels right": float(right.all(axis=1).mean()),
        "F1 (macro)": float(metrics.f1_score(y, predicted, average="macro", zero_division=0)),
    }
    # labels that all rows have, or none, have no curve
    areas = [
        metrics.roc_auc_score(truth, value)
        for truth, value in zip(y.T, values.T, strict=True)
        if len(set(truth.tolist())) == 2
    ]
    if areas:
        out["ROC AUC (mean)"] = float(np.mean(areas))
    if hasattr(model, "predict_proba"):
        share = model.predict_proba(X)
        losses = [
            metrics.log_loss(truth, one, labels=[0, 1]) for truth, one in zip(y.T, share.T, strict=True)
        ]
        out["log loss"] = float(np.mean(losses))
        out["Brier score"] = float(np.square(share - y).mean())
    return out


def columns_of(model: BaseMKL) -> list[str]:
    """Names of the columns of a table that a model needs."""
    encoder = model.model_.encoder
    if isinstance(encoder, ViewsEncoder):
        return [name for one in encoder.encoders_.values() for name in getattr(one, "names_", None) or ()]
    return [str(name) for name in getattr(model, "feature_names_in_", [])]


def sparse_views_of(model: BaseMKL) -> list[str]:
    """Names of the views of a model whose columns have no names."""
    encoder = model.model_.encoder
    if not isinstance(encoder, ViewsEncoder):
        return []
    return [
        view
        for view, one in encoder.encoders_.items()
        if isinstance(one, TableEncoder) and not getattr(one, "names_", None)
    ]


def grams_of(model: BaseMKL) -> dict[str, GramEncoder]:
    """The views of a model that are precomputed kernels."""
    encoder = model.model_.encoder
    views = encoder.encoders_ if isinstance(encoder, ViewsEncoder) else {}
    return {view: one for view, one in views.items() if isinstance(one, GramEncoder)}


def _tables_of(encoder: ViewsEncoder, table: DataFrame, further: Mapping[str, Any]) -> Tables:
    groups = {
        view: one.names_
        for view, one in encoder.encoders_.items()
        if isinstance(one, TableEncoder) and one.names_
    }
    needed = [view for view in encoder.encoders_ if view not in groups]
    lacking = [view for view in needed if view not in further]
    if lacking or len(needed) < len(further):
        raise InputError(
            f"The model has the {_called(encoder, needed)} {', '.join(needed)}, got {', '.join(further) or 'none'}. "
            f"Pass {' '.join(f'--{_option(encoder, view)} {view}=FILE' for view in needed)}."
        )
    names = list(dict.fromkeys(name for columns in groups.values() for name in columns))
    for name in names:
        need_column(table, name, "the model")
    check_cells(table, names)
    return Tables(table[names], groups, further)


def _called(encoder: ViewsEncoder, views: Sequence[str]) -> str:
    grams = [isinstance(encoder.encoders_[view], GramEncoder) for view in views]
    return "sparse views" if not any(grams) else "kernels" if all(grams) else "sparse views and kernels"


def _option(encoder: ViewsEncoder, view: str) -> str:
    return "gram" if isinstance(encoder.encoders_[view], GramEncoder) else "view"


def predictions(
    model: BaseMKL, X: DataFrame, task: str, *, std: bool = False, keys: Series = None
) -> DataFrame:
    """A table of predictions, decision values and standard deviations; `keys`, a series, names the rows."""
    import pandas as pd

    table = pd.DataFrame({"row": X.index})
    if keys is not None:
        taken = keys.name == "row" or str(keys.name).split(" ")[0] in MADE
        table[f"key {keys.name}" if taken else keys.name] = keys.to_numpy()
    if several := target_names(model):
        parts = {"prediction": model.predict(X)}
        if task != "regression":
            parts["decision"] = model.decision_function(X)
            if hasattr(model, "predict_proba"):
                parts["probability"] = model.predict_proba(X)
        elif std:
            parts["prediction"], parts["std"] = model.predict(X, return_std=True)
        for what, columns in parts.items():
            table = table.assign(**_by_name(what, columns, several))
        return table
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


def _by_name(what: str, columns: Labels, names: Sequence[str]) -> dict[str, Labels]:
    return {f"{what} {name}": column for name, column in zip(names, columns.T, strict=True)}


def with_truth(table: DataFrame, truth: Labels, names: Sequence[str]) -> DataFrame:
    """Predictions beside the truth: a column, or one for each of several targets."""
    return table.assign(**(_by_name("truth", truth, names) if names else {"truth": np.asarray(truth)}))


def features_of(model: BaseMKL, table: DataFrame, further: Mapping[str, Any] | None = None) -> Any:
    """The columns that a model was fitted on, in their order, and sparse views and kernels beside them."""
    encoder = model.model_.encoder
    if isinstance(encoder, ViewsEncoder):
        return _tables_of(encoder, table, further or {})
    if further:
        raise InputError(f"This model has no views of its own, got {', '.join(further)}. Leave them out.")
    names = [str(n) for n in getattr(model, "feature_names_in_", [])]
    if not names:
        raise InputError("This model was not fitted on a table with column names; predict with it in Python.")
    missing = [n for n in names if n not in table.columns]
    if missing:
        need_column(table, missing[0], f"the model, which lacks {len(missing)} of its {len(names)} columns")
    check_cells(table, names)
    return table[names]
