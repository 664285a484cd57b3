"""Commands on fitted models: `predict`, `evaluate`, `export`. Imports happen inside, so that ``--help`` is quick."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave_app import runs
from kernelweave_app.cli.arguments import ALONE, Names, NewTables, NoSeed
from kernelweave_app.cli.console import print_table, report, say, scores_of
from kernelweave_app.cli.early import check_csv, check_model
from kernelweave_app.runs.folders import csv_text, write_text, writing

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL
    from kernelweave_app.runs.reading import NewRows
    from kernelweave_app.runs.spec import Spec


def _read(model: str, table: str, beside: NewTables, target: str = "") -> tuple[BaseMKL, NewRows]:
    """A model and the rows of a table as it takes them, with a column of the truth."""
    check_model(model, [table])
    fitted = runs.reading.load_model(model)
    rows = runs.reading.read_new(
        fitted, Path(model), table, beside.join, beside.key, beside.view or [], beside.gram or [], target
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
    times: Names = None,
    strata: str = "",
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
    times
        Times, separated by blanks or commas, until which the probability of no event is written (survival): columns
        such as "survival at 365" beside the risk. Default: quarters of the times of events of the fit.
    strata
        Column of the strata, of a survival model with some; default that of the run.
    """
    check_csv(out)
    fitted, rows = _read(model, table, beside)
    kind = _kind_of(fitted)
    for option, given, whose in (
        ("--std", std, "regression model"),
        ("--coverage", coverage is not None, "regression model"),
        ("--times", times is not None, "survival model"),
        ("--strata", bool(strata), "survival model"),
    ):
        if given and kind != whose:
            raise InputError(f"{option} is for a {whose}; this model is a {kind}.")
    say(f"Found {table}: {runs.columns.describe(rows.table)}; a {kind}.")
    own = None
    if kind == "survival model" and (len(fitted.strata_) or strata):
        own = runs.reading.strata_of_rows(rows.table, strata or _spec_of(Path(model)).strata)
    frame = runs.predictions.predictions(
        fitted, rows.X, std=std, coverage=coverage, keys=rows.keys, times=_numbers(times), strata=own
    )
    with writing():
        write_text(Path(out), csv_text(frame))
    report(files=[out])
    if own is not None and (new := sorted({*own} - {*fitted.strata_})):
        lacking = numbered(sum(one in new for one in own), "row")
        say(
            f"{lacking} of strata that are not in the fit ({', '.join(new[:5])}): a risk and no survival, which needs "
            "a baseline."
        )
    say(f"Wrote {len(frame)} predictions to {out}")


def _kind_of(model: BaseMKL) -> str:
    """What a model is, in words."""
    from kernelweave.inspection.held_times import is_survival

    if is_survival(model):
        return "survival model"
    return "classifier" if hasattr(model, "classes_") else "regression model"


def _numbers(times: list[str] | None) -> list[float] | None:
    """Times of an option, separated by blanks or commas."""
    if times is None:
        return None
    parts = [part for text in times for part in text.split(",") if part.strip()]
    try:
        found = sorted({float(part) for part in parts})
    except ValueError:
        found = []
    if not found or not all(0.0 <= time < float("inf") for time in found):
        raise InputError(f"--times must be numbers, 0 or more, got {', '.join(parts) or 'none'}.")
    return found


def evaluate(
    model: str,
    table: str,
    /,
    *,
    target: str = "",
    time: str = "",
    event: str = "",
    strata: str = "",
    out: str = "",
    beside: Annotated[NewTables, Parameter(name="*")] = ALONE,
    seed: NoSeed = 0,
) -> None:
    """Score a fitted model on a table with known targets; rows of the fit are scored separately.

    Example: kernelweave evaluate run new.csv

    Parameters
    ----------
    model
        Folder of a run, or a .skops file.
    table
        A table file: CSV, TSV (also .gz), Parquet or another known format.
    target
        Column with the truth; default that of the run. For a model of several targets their names with commas between
        them, in any order, or as many other columns in the order of the model.
    time
        Column of the times, of a survival model; default that of the run.
    event
        Column of the events, of a survival model, such as died or status=2; default that of the run.
    strata
        Column of the strata, of a survival model with some; default that of the run.
    out
        CSV file for the predictions beside the truth.
    """
    check_csv(out)
    of = _spec_of(Path(model))
    fitted, rows = _read(model, table, beside, target or of.target)
    from kernelweave_app.runs.spec import Spec

    kind = _kind_of(fitted)
    task = {"classifier": "classification", "survival model": "survival"}.get(kind, "regression")
    if task == "survival":
        if target:
            raise InputError("--target is for other models; of a survival model name --time and --event.")
        spec = Spec(time=time or of.time, event=event or of.event, strata=strata or of.strata)
        if len(fitted.strata_):
            runs.reading.strata_of_rows(rows.table, spec.strata)
    elif time or event or strata:
        raise InputError(
            f"--time, --event and --strata are for a survival model; this model is a {kind}. Name the --target."
        )
    else:
        spec = Spec(target=target or of.target)
        if not spec.target:
            raise InputError("--target must name the column with the truth.")
    say(f"Found {table}: {runs.columns.describe(rows.table)}.")
    y, names, stands_for = runs.reading.read_truth(fitted, rows.table, spec)
    own = runs.survival.strata_of(y) if task == "survival" else None
    if task == "survival":
        say(f"{runs.survival.said(y).capitalize()}.")
    for name, column in stands_for.items():
        say(f"Column {column} is the truth of {name}.")
    found = runs.predictions.predictions(fitted, rows.X, keys=rows.keys, strata=own)
    groups = runs.evidence.groups_of(of, rows.table)
    apart = runs.evidence.scores_apart(fitted, Path(model), table, rows.X, found, y, groups)
    report(
        task=task,
        scores=scores_of(apart.intervals, apart.others),
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


def _spec_of(model: Path) -> Spec:
    """Settings of the run of a model; those of no run where there is none."""
    from kernelweave_app.runs.spec import Spec

    folder = model if model.is_dir() else model.parent
    return runs.writing.spec_of(folder) if (folder / "spec.toml").is_file() else Spec()


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
    say(f"Found a {type(fitted).__name__} of {numbered(fitted.n_kernels_, 'kernel')}.")
    say(f"Wrote {file.stat().st_size / 1e6:.2f} MB to {out}")
