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
from kernelweave.inspection.held_times import is_survival, survival_columns
from kernelweave.views import GramEncoder, TableEncoder, ViewsEncoder
from kernelweave_app.runs.columns import check_cells, need_column, with_dates
from kernelweave_app.runs.further_views import Tables

#: How often intervals of predictions hold the target.
COVERAGE = 0.9
#: What columns of predictions begin with.
MADE = ("prediction", "low", "high", "std", "decision", "probability", "truth", "risk", "survival")


def _views_of(model: BaseMKL) -> dict[str, Any]:
    """The encoders of the views of a model; none for one table."""
    encoder = model.model_.encoder
    return dict(encoder.encoders_) if isinstance(encoder, ViewsEncoder) else {}


def _groups_of(model: BaseMKL) -> dict[str, list[str]]:
    """Columns of the views of a model whose columns have names."""
    views = _views_of(model).items()
    return {view: one.names_ for view, one in views if isinstance(one, TableEncoder) and one.names_}


def columns_of(model: BaseMKL) -> list[str]:
    """Names of the columns of a table that a model needs."""
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    return [name for columns in _groups_of(model).values() for name in columns] if _views_of(model) else names


def _tables_read(model: BaseMKL) -> list[Any]:
    """The encoders of the tables of a model whose columns have names."""
    encoder = model.model_.encoder
    tables = encoder.encoders_.values() if isinstance(encoder, ViewsEncoder) else [encoder]
    return [one for one in tables if isinstance(one, TableEncoder) and one.names_]


def dates_of(model: BaseMKL) -> set[str]:
    """Names of the columns of dates of a model."""
    return {one.names_[form.place] for one in _tables_read(model) for form in one.dates_}


def texts_of(model: BaseMKL, target: str = "") -> set[str]:
    """Names of the columns of a model that held texts, such as categories and labels; truth values are none."""
    labels = any(isinstance(label, str) for label in getattr(model, "classes_", ()))
    found = {target} if target and labels else set()
    for one in _tables_read(model):
        for j, categories in enumerate(one.categories_):
            words = {category for category in categories if isinstance(category, str)} - {"False", "True"}
            if words or j in one.texts_:
                found.add(one.names_[j])
    return found


def sparse_views_of(model: BaseMKL) -> list[str]:
    """Names of the views of a model whose columns have no names."""
    return [view for view in _views_of(model) if view not in {**_groups_of(model), **grams_of(model)}]


def grams_of(model: BaseMKL) -> dict[str, GramEncoder]:
    """The views of a model that are precomputed kernels."""
    return {view: one for view, one in _views_of(model).items() if isinstance(one, GramEncoder)}


def _tables_of(model: BaseMKL, table: DataFrame, further: Mapping[str, Any]) -> Tables:
    groups, sparse, grams = _groups_of(model), sparse_views_of(model), grams_of(model)
    needed = [view for view in _views_of(model) if view not in groups]
    if not further.keys() >= set(needed) or len(needed) < len(further):
        called = " and ".join(what for what, some in (("sparse views", sparse), ("kernels", grams)) if some)
        options = (f"--{'gram' if view in grams else 'view'} {view}=FILE" for view in needed)
        raise InputError(
            f"The model has the {called or 'sparse views'} {', '.join(needed)}, got {', '.join(further) or 'none'}. "
            f"Pass {' '.join(options)}."
        )
    names = list(dict.fromkeys(columns_of(model)))
    for name in names:
        need_column(table, name, "the model")
    # texts of few rows may all look like dates
    dates = dates_of(model)
    table = with_dates(table, dates, known=dates)
    check_cells(table, names)
    return Tables(table[names], groups, further)


def predictions(
    model: BaseMKL,
    X: DataFrame,
    *,
    std: bool = False,
    coverage: float | None = None,
    keys: Series = None,
    times: Sequence[float] | None = None,
    strata: Labels | None = None,
) -> DataFrame:
    """A table of predictions, their intervals, decision values and standard deviations.

    Without `coverage` intervals are those of `COVERAGE`, where folds of the fit give them without further fits; `keys`,
    a series that names the rows, is the first column. Of survival risks, and the probabilities of no
    event until some `times`, with the `strata` of the rows if the model has some.
    """
    import pandas as pd

    held = model.model_.held
    if coverage is None and held is not None and held.weights.sum() >= fewest(COVERAGE):
        coverage = COVERAGE

    table = pd.DataFrame({"row": X.index})
    if keys is not None:
        taken = keys.name == "row" or str(keys.name).split(" ")[0] in MADE
        table.insert(0, f"key {keys.name}" if taken else keys.name, keys.to_numpy())
    if is_survival(model):
        return table.assign(**survival_columns(model, X, times, strata))
    return table.assign(**predicted_columns(model, X, std=std, coverage=coverage))


def with_truth(table: DataFrame, truth: Labels, names: Sequence[str]) -> DataFrame:
    """Predictions beside the truth: a column, or one for each of several targets."""
    truth = np.asarray(truth)
    columns = {f"truth {name}": own for name, own in zip(names, truth.T, strict=True)} if names else {}
    return table.assign(**(columns or {"truth": truth}))


def features_of(model: BaseMKL, table: DataFrame, further: Mapping[str, Any] | None = None) -> Any:
    """The columns that a model was fitted on, in their order, and sparse views and kernels beside them."""
    if _views_of(model):
        return _tables_of(model, table, further or {})
    if further:
        raise InputError(f"This model has no views of its own, got {', '.join(further)}. Leave them out.")
    names = columns_of(model)
    if not names:
        raise InputError("This model was not fitted on a table with column names; predict with it in Python.")
    missing = [n for n in names if n not in table.columns]
    if missing:
        need_column(table, missing[0], f"the model, which lacks {len(missing)} of its {len(names)} columns")
    dates = dates_of(model)
    table = with_dates(table, dates, known=dates)
    check_cells(table, names)
    return table[names]
