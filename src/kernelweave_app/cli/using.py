"""Commands on fitted models: `predict`, `evaluate`, `export`. Imports happen inside, so that ``--help`` is quick."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from kernelweave._errors import InputError
from kernelweave_app import runs
from kernelweave_app.cli.arguments import ALONE, NewTables, NoSeed
from kernelweave_app.cli.console import print_table, report, say, scores_of
from kernelweave_app.cli.early import check_model
from kernelweave_app.runs.folders import csv_text, write_text, writing

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL
    from kernelweave_app.runs.reading import NewRows


def _read(model: str, table: str, beside: NewTables) -> tuple[BaseMKL, NewRows]:
    """A model and the rows of a table as it takes them."""
    check_model(model, [table])
    fitted = runs.reading.load_model(model)
    rows = runs.reading.read_new(
        fitted, Path(model), table, beside.join, beside.key, beside.view or [], beside.gram or []
    )
    for old, new in rows.stands_for.items():
        say(f"{new} is used for {old} of the run.")
    return fitted, rows


def predict(
    model: str,
    table: str,
    /,
    *,
    out: str,
    beside: Annotated[NewTables, Parameter(name="*")] = ALONE,
    std: bool = False,
    coverage: float | None = None,
    seed: NoSeed = 0,
) -> None:
    """Predict the rows of a table, or of several, with a fitted model.

    Example: kernelweave predict run new.csv --out predictions.csv

    Parameters
    ----------
    model
        Folder of a run, or a .skops file.
    table
        A table file (CSV, TSV, also .gz, Parquet or another known format), with the columns of the model.
    out
        CSV file to write.
    std
        Also write posterior standard deviations of the function (regression).
    coverage
        How often intervals hold the target, above 0 and below 1 (regression): columns low and high. Default 0.9 where
        folds chose a parameter of the model.
    """
    fitted, rows = _read(model, table, beside)
    classifier = hasattr(fitted, "classes_")
    if std and classifier:
        raise InputError("--std is for regression; this model is a classifier.")
    if coverage is not None and classifier:
        raise InputError("--coverage is for regression; this model is a classifier.")
    say(
        f"Found {table}: {runs.columns.describe(rows.table)}; a {'classifier' if classifier else 'regression model'}."
    )
    frame = runs.predictions.predictions(fitted, rows.X, std=std, coverage=coverage, keys=rows.keys)
    with writing():
        write_text(Path(out), csv_text(frame))
    report(files=[out])
    say(f"Wrote {len(frame)} predictions to {out}")


def evaluate(
    model: str,
    table: str,
    /,
    *,
    target: str,
    out: str = "",
    beside: Annotated[NewTables, Parameter(name="*")] = ALONE,
    seed: NoSeed = 0,
) -> None:
    """Score a fitted model on a table with known targets; rows of the fit are scored by themselves, and said to be.

    Example: kernelweave evaluate run new.csv --target outcome

    Parameters
    ----------
    model
        Folder of a run, or a .skops file.
    table
        A table file: CSV, TSV (also .gz), Parquet or another known format.
    target
        Column with the truth; for a model of several targets their names with commas between them, in any order, or as
        many other columns in the order of the model.
    out
        CSV file for the predictions beside the truth.
    """
    fitted, rows = _read(model, table, beside)
    from kernelweave.inspection.arguments import target_names

    task = "classification" if hasattr(fitted, "classes_") else "regression"
    names = target_names(fitted)
    say(f"Found {table}: {runs.columns.describe(rows.table)}.")
    if names:
        y, stands_for = runs.columns.target_of_model(rows.table, target, names, task)
        for name, column in stands_for.items():
            say(f"Column {column} is the truth of {name}.")
    else:
        y = runs.columns.check_target(runs.columns.need_column(rows.table, target, "the target"), task)
        strangers = sorted(set(map(str, y)) - set(map(str, fitted.classes_))) if task != "regression" else []
        if strangers:
            known = ", ".join(map(repr, fitted.classes_))
            raise InputError(
                f"Column {target!r} has labels that the model does not know: {strangers[:5]}. It knows {known}."
            )
    found = runs.predictions.predictions(fitted, rows.X, keys=rows.keys)
    apart = runs.evidence.scores_apart(fitted, Path(model), table, rows.X, found, y)
    report(
        task=task,
        scores=scores_of({}, apart.others),
        scores_in_fit=scores_of({}, apart.fitted) if apart.n_fitted else None,
        files=[out] if out else [],
    )
    if apart.n_fitted:
        say(apart.sentence)
        heads, *lines = apart.table()
        print_table(heads, lines)
    else:
        for name, text in apart.texts.items():
            say(f"{name}: {text}")
    if out:
        with writing():
            write_text(Path(out), csv_text(runs.predictions.with_truth(found, y, names)))
        say(f"Wrote {out}")


def export(model: str, /, *, out: str, single: bool = False, seed: NoSeed = 0) -> None:
    """Write a fitted model as an ONNX graph, for predictions without Python.

    Example: kernelweave export run --out model.onnx

    Parameters
    ----------
    model
        Folder of a run, or a .skops file.
    out
        ONNX file to write.
    single
        Read numbers in single precision; the graph computes in double precision all the same.
    """
    check_model(model)
    from kernelweave.persistence.onnx_file import to_onnx

    fitted = runs.reading.load_model(model)
    with writing():
        file = to_onnx(fitted, out, dtype="float32" if single else "float64")
    report(files=[out])
    say(f"Found a {type(fitted).__name__} of {fitted.n_kernels_} kernels.")
    say(f"Wrote {file.stat().st_size / 1e6:.2f} MB to {out}")
