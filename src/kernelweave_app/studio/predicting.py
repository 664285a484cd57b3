"""Predictions of a finished run for the rows of further tables."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave._types import DataFrame
from kernelweave.fitting.partial import PartialSource
from kernelweave.inspection.arguments import target_names
from kernelweave_app.runs.evidence import ScoresApart, groups_of, scores_apart
from kernelweave_app.runs.folders import csv_text, write_text
from kernelweave_app.runs.further_views import Tables
from kernelweave_app.runs.predictions import (
    COVERAGE,
    columns_of,
    grams_of,
    predictions,
    sparse_views_of,
    with_truth,
)
from kernelweave_app.runs.preparing import missing_cells
from kernelweave_app.runs.reading import read_truth, strata_of_rows
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.survival import outcome_columns
from kernelweave_app.studio.catalogue import Catalogue
from kernelweave_app.studio.schema import Data, Predicted

#: Rows of predictions that are sent back at once.
FEW_ROWS = 200


def predict_table(
    model_file: Path,
    spec: Spec,
    folder: Path,
    catalogue: Catalogue,
    data: Data,
    training: DataFrame | None = None,
    times: Sequence[float] | None = None,
) -> tuple[Predicted, Path]:
    """Predict the rows of a table with the model of a run, and write the predictions into the folder of the run.

    Parameters
    ----------
    model_file : Path
    spec : Spec
    folder : Path
        Of the run.
    catalogue : Catalogue
    data : Data
        The new rows.
    training : DataFrame, optional
        The training rows, with which the new ones are compared.
    times : sequence of float, optional
        At which survival is predicted.

    Returns
    -------
    predicted : Predicted
    path : Path
        The file with all predictions.
    """
    from kernelweave.persistence import load
    from kernelweave_app.studio.results import plain

    model = load(model_file)
    data = assign(model, catalogue, data, data.key)
    found = catalogue.new_rows(model, folder, data, spec.target)
    table, X, keys = found.table, found.X, found.keys
    if times is not None and not spec.survival:
        raise InputError("Setting `times` is for survival, and this run predicts no times. Leave it out.")
    missing = _without_prediction(model, X, spec)
    if missing.any() and spec.missing != "drop":
        raise InputError(
            f"{int(missing.sum())} of {len(X)} rows have missing values, and this model was not set to leave them "
            "out. Fill them in, or remove these rows."
        )
    if missing.all():
        raise InputError("Every row has a missing value among the columns that the model needs.")
    known = X.iloc[np.flatnonzero(~missing)]
    strata = None
    if spec.survival and spec.strata:
        strata = strata_of_rows(table, spec.strata)[~missing]
    frame = predictions(
        model, known, keys=None if keys is None else keys[~missing], times=times, strata=strata
    )
    made = frame
    if (sets := _sets(model, known)) is not None:
        frame = frame.assign(**{"likely classes": sets})
    frame = frame.set_index("row").reindex(table.index).rename_axis("row").reset_index()
    if keys is not None:
        frame.isetitem(1, keys.to_numpy())
        frame = frame[[frame.columns[1], "row", *frame.columns[2:]]]
    apart = ScoresApart(len(frame), 0, {}, {}, {})
    outcome = outcome_columns(spec, list(table.columns))
    if {*outcome} <= {*table.columns} and not table[outcome].isna().any(axis=None):
        # columns of these names may hold something else
        with contextlib.suppress(InputError):
            y, names, _ = read_truth(model, table, spec)
            first = str(catalogue.entry(data.files[0]).path())
            groups = groups_of(spec, table[~missing])
            apart = scores_apart(model, model_file, first, known, made, y[~missing], groups)
            frame = with_truth(frame, y, names)
    stem = "-".join(catalogue.names(data))
    name = f"predictions-{''.join(c if c.isalnum() or c in '-_' else '_' for c in stem)[:60]}.csv"
    path = folder / name
    frame = beside_inputs(frame, table, columns_of(model))
    notes = flags(X, training, spec, missing)
    frame = frame.assign(mind=notes)
    write_text(path, csv_text(frame))
    answer = Predicted(
        artifact=name,
        n_rows=len(frame),
        columns=[str(c) for c in frame.columns],
        rows=[[plain(v) for v in row] for row in frame.head(FEW_ROWS).itertuples(index=False, name=None)],
        scores=apart.others,
        apart=apart if apart.n_fitted else None,
        stands_for=found.stands_for,
        n_missing=int(missing.sum()),
        n_flagged=sum(map(bool, notes)),
        compared=training is not None,
        targets=list(target_names(model)),
    )
    return answer, path


#: Columns of inputs that are shown beside predictions.
MOST_INPUTS = 30
#: New rows are far from all training rows where the nearest of these is further away than the nearest other one is of
#: all but this fraction of training rows; training rows that are compared, and columns from which on nothing is.
FAR, MOST_TRAINING, MOST_COLUMNS = 0.01, 2000, 5000


def beside_inputs(frame: DataFrame, table: DataFrame, names: list[str]) -> DataFrame:
    """Predictions with the first columns that they were made from."""
    shown = [name for name in names if name in table.columns][:MOST_INPUTS]
    taken = {f"input {name}" if name in frame.columns else name: table[name].to_numpy() for name in shown}
    return frame.assign(**taken)


def flags(X: Any, training: DataFrame | None, spec: Spec, missing: NDArray[np.bool_]) -> list[str]:
    """What to mind of each new row: cells that were filled, categories that are new, and no training row near it."""
    X = X.frame if isinstance(X, Tables) else X
    found: list[list[str]] = [[] for _ in range(len(X))]
    cells = X.isna().to_numpy().sum(axis=1)
    word = "skipped" if spec.missing == "skip" else "filled"
    for row, count in enumerate(cells):
        if count:
            found[row].append(
                "no prediction: a cell is missing"
                if missing[row]
                else f"{numbered(int(count), 'cell')} {word}"
            )
    if training is not None and X.shape[1]:
        training = training[list(X.columns)]
        # dates are new in nearly every new row
        texts = list(X.select_dtypes(exclude=["number", "datetime", "datetimetz", "timedelta"]).columns)
        for name in texts:
            known = set(training[name].dropna().astype(str))
            # texts to read and identifiers differ in every row
            if len(known) > len(training) / 2:
                continue
            for row in map(int, np.flatnonzero(X[name].notna() & ~X[name].astype(str).isin(known))):
                found[row].append(f"{name} is new: {X[name].iloc[row]!s:.40}")
        for row in map(int, np.flatnonzero(_far(X, training))):
            found[row].append("far from all training rows")
    return ["; ".join(one) for one in found]


def _far(X: DataFrame, training: DataFrame) -> NDArray[np.bool_]:
    """New rows whose numbers are far from those of every training row, in standard deviations of these."""
    from scipy.spatial import KDTree

    names = list(training.select_dtypes(["number", "bool"]).columns)
    if not names or len(training) < 3 or len(names) > MOST_COLUMNS:
        return np.zeros(len(X), dtype=bool)
    old, new = (part[names].to_numpy(dtype=float, na_value=np.nan) for part in (training, X))
    step = -(-len(old) // MOST_TRAINING)
    old = old[::step]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns without a number
        mean, spread = np.nanmean(old, axis=0), np.nanstd(old, axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    old, new = (np.nan_to_num((part - mean) / scale, nan=0.0, posinf=1e6, neginf=-1e6) for part in (old, new))
    # rows that are equal would make any other row unusual
    old = np.unique(old, axis=0)
    if len(old) < 3:
        return np.zeros(len(X), dtype=bool)
    tree = KDTree(old)
    usual = np.quantile(tree.query(old, k=2)[0][:, 1], 1.0 - FAR)
    return np.asarray(tree.query(new)[0] > max(2.0 * usual, 1e-9))


def _sets(model: Any, X: Any) -> list[str] | None:
    """The classes that hold the true one for most rows; None for a model that cannot say."""
    try:
        inside = model.predict_set(X, coverage=COVERAGE)
    except (InputError, AttributeError):
        return None
    names = np.asarray(model.classes_).astype(str)
    return [" or ".join(names[row]) or "none" for row in np.asarray(inside, dtype=bool)]


def assign(model: Any, catalogue: Catalogue, data: Data, key: str) -> Data:
    """Files of new rows, each used as what the model needs and its content is.

    Parameters
    ----------
    model : fitted estimator
    catalogue : Catalogue
    data : Data
        What each file is used as does not matter.
    key : str
        Column that names the rows of several files.
    """
    kernels, sparse = grams_of(model), sparse_views_of(model)
    widths = {n for one in kernels.values() for n in (one.n_columns_, len(one.columns_))}
    parts: dict[str, list[str]] = {"tables": [], "kernels": [], "sparse": []}
    for file in dict.fromkeys(data.files):
        uses = catalogue.entry(file).ref.uses
        if kernels and "kernels" in uses and catalogue.width(file) in widths:
            parts["kernels"].append(file)
        elif sparse and "sparse" in uses:
            parts["sparse"].append(file)
        elif "table" in uses:
            parts["tables"].append(file)
        else:
            name = catalogue.entry(file).ref.name
            n = (
                f"a column for each of the {max(widths)} training rows"
                if widths
                else "no precomputed kernels"
            )
            raise InputError(f"{name} does not fit this model, which needs {n}. Choose another file.")
    several = len(parts["tables"]) > 1 or bool(parts["kernels"])
    return Data.model_validate({**parts, "key": key if several else ""})


def _without_prediction(model: Any, X: Any, spec: Spec) -> NDArray[np.bool_]:
    """Rows with missing cells that the model has no answer to."""
    if isinstance(X, Tables):
        X = X.frame
        if not X.shape[1]:
            return np.zeros(len(X), dtype=bool)
    views: dict[str, list[str]] = {}
    source = model.model_.source
    if isinstance(source, PartialSource):
        names = [str(c) for c in X.columns]
        views = {view: [names[j] for j in places or ()] for view, places in source.views.items()}
    cells = missing_cells(X, list(X.columns), views, spec)
    lost = cells.any(axis=1).to_numpy() if spec.missing in ("error", "drop") else np.zeros(len(X), dtype=bool)
    return np.asarray(lost | (len(views) > 1) & X.isna().all(axis=1).to_numpy())
