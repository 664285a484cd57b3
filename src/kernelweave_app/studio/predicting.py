"""Predictions of a finished run for the rows of further tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError
from kernelweave.fitting.partial import PartialSource
from kernelweave_app.runs.columns import check_target
from kernelweave_app.runs.evidence import ScoresApart, scores_apart
from kernelweave_app.runs.folders import csv_text, write_text
from kernelweave_app.runs.further_views import Tables
from kernelweave_app.runs.predictions import predictions
from kernelweave_app.runs.preparing import missing_cells
from kernelweave_app.runs.spec import Spec
from kernelweave_app.studio.catalogue import Catalogue
from kernelweave_app.studio.schema import Data, Predicted

#: Rows of predictions that are sent back at once.
FEW_ROWS = 200


def predict_table(
    model_file: Path, spec: Spec, folder: Path, catalogue: Catalogue, data: Data
) -> tuple[Predicted, Path]:
    """Predict the rows of a table with the model of a run, and write the predictions into the folder of the run.

    Returns
    -------
    predicted : Predicted
    path : Path
        The file with all predictions.
    """
    from kernelweave.persistence import load
    from kernelweave_app.studio.results import plain

    model = load(model_file)
    found = catalogue.new_rows(model, folder, data)
    table, X, keys = found.table, found.X, found.keys
    classifier = hasattr(model, "classes_")
    task = "classification" if classifier else "regression"
    missing = _without_prediction(model, X, spec)
    if missing.any() and spec.missing != "drop":
        raise InputError(
            f"{int(missing.sum())} of {len(X)} rows have missing values, and this model was not set to leave them "
            "out. Fill them in, or remove these rows."
        )
    if missing.all():
        raise InputError("Every row has a missing value among the columns that the model needs.")
    known = X.iloc[np.flatnonzero(~missing)]
    frame = predictions(model, known, keys=None if keys is None else keys[~missing])
    made = frame
    frame = frame.set_index("row").reindex(table.index).rename_axis("row").reset_index()
    if keys is not None:
        frame.isetitem(1, keys.to_numpy())
    apart = ScoresApart(len(frame), 0, {}, {}, {})
    if spec.target in table.columns and not table[spec.target].isna().any():
        try:
            y = check_target(table[spec.target], task)
            if not classifier or set(map(str, y)) <= set(map(str, model.classes_)):
                [first, *_] = catalogue.paths(data).values()
                apart = scores_apart(model, model_file, first, known, made, y[~missing])
                frame = frame.assign(truth=y)
        except InputError:
            pass  # a column of that name which is not such a target
    stem = "-".join(catalogue.paths(data))
    name = f"predictions-{''.join(c if c.isalnum() or c in '-_' else '_' for c in stem)[:60]}.csv"
    path = folder / name
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
    )
    return answer, path


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
