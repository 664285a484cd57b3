"""Predictions of a fitted model for rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import DataFrame, Labels, Series
from kernelweave.estimators import BaseMKL
from kernelweave.fitting.out_of_fold import fewest
from kernelweave.inspection.held import predicted_columns
from kernelweave.views import GramEncoder, TableEncoder, ViewsEncoder
from kernelweave_app.runs.columns import check_cells, need_column
from kernelweave_app.runs.further_views import Tables

#: How often intervals of predictions hold the target.
COVERAGE = 0.9
#: What columns of predictions begin with.
MADE = ("prediction", "low", "high", "std", "decision", "probability", "truth")


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
    model: BaseMKL, X: DataFrame, *, std: bool = False, coverage: float | None = None, keys: Series = None
) -> DataFrame:
    """A table of predictions, their intervals, decision values and standard deviations.

    Without `coverage` intervals are those of `COVERAGE`, where folds of the fit give them without further fits; `keys`,
    a series, names the rows.
    """
    import pandas as pd

    held = model.model_.held
    if coverage is None and held is not None and held.weights.sum() >= fewest(COVERAGE):
        coverage = COVERAGE

    table = pd.DataFrame({"row": X.index})
    if keys is not None:
        taken = keys.name == "row" or str(keys.name).split(" ")[0] in MADE
        table[f"key {keys.name}" if taken else keys.name] = keys.to_numpy()
    return table.assign(**predicted_columns(model, X, std=std, coverage=coverage))


def with_truth(table: DataFrame, truth: Labels, names: Sequence[str]) -> DataFrame:
    """Predictions beside the truth: a column, or one for each of several targets."""
    truth = np.asarray(truth)
    columns = {f"truth {name}": own for name, own in zip(names, truth.T, strict=True)} if names else {}
    return table.assign(**(columns or {"truth": truth}))


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
