"""The files of a run: model, report, predictions, settings, script."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave.estimators import BaseMKL
from kernelweave.inspection.held import HeldOut
from kernelweave.inspection.held_times import HeldTimes
from kernelweave.inspection.registry import Found
from kernelweave_app.reports import Picture
from kernelweave_app.runs.columns import describe
from kernelweave_app.runs.fitting import OF_PATHS, chosen, fits_plainly, path_setting, stopped_at
from kernelweave_app.runs.folders import csv_text, write_text, writing
from kernelweave_app.runs.further_views import GRAMS, grams_text
from kernelweave_app.runs.joining import LAYOUT, layout_text
from kernelweave_app.runs.lineage import LINEAGE
from kernelweave_app.runs.predictions import predictions, with_truth
from kernelweave_app.runs.preparing import Prepared, Rows
from kernelweave_app.runs.reading import Run
from kernelweave_app.runs.scripts import script
from kernelweave_app.runs.spec import SURVIVAL, Spec, applies, check_spec, own_fields, read_spec
from kernelweave_app.runs.survival import TRUTH, strata_of

#: Folders of the command `evidence`, in a run.
FIGURES, TABLES = "evidence-figures", "evidence-tables"
#: Files of `write_run` and `write_report`, the model first; predictions only if rows are held out, tables only if a
#: column names the rows, grams only with precomputed kernels. What `evidence` adds belongs to a run as well.
FILES = (
    *("model.skops", "report.html", "predictions.csv", "spec.toml", "script.py"),
    *("evidence.json", LAYOUT, GRAMS, LINEAGE, FIGURES, TABLES),
)
#: Settings whose default means that nothing is done.
SILENT = {
    *("balanced", "dense", "transductive", "nested", "rank_tol"),
    *("n_features", "repeats", "probabilities", "drop"),
}


def score_held(model: BaseMKL, prepared: Prepared, test: Rows) -> HeldOut | HeldTimes | None:
    """The held-out rows with their predictions; None without held-out rows."""
    if not len(test):
        return None
    if prepared.task == SURVIVAL:
        part, train = prepared.some(test), np.setdiff1d(np.arange(len(prepared.y)), test)
        times = HeldTimes.of(model, part.X, part.y, prepared.y[train])
        table = predictions(model, part.X, keys=part.keys, strata=strata_of(part.y))
        return replace(times, table=with_truth(table, part.y, TRUTH[: part.y.shape[1]]), groups=part.groups)
    part = prepared.some(test)
    table = predictions(model, part.X, keys=part.keys)
    held = HeldOut.of_columns(model, with_truth(table, part.y, part.names), part.y)
    return replace(held, groups=part.groups)


def write_run(folder: Path, run: Run, model: BaseMKL, held: HeldOut | HeldTimes | None) -> None:
    """Write the files of a run, the model first, except the report (see `write_report`).

    Parameters
    ----------
    folder : Path
    run : Run
    model : fitted estimator
    held : HeldOut, HeldTimes or None
        Of `score_held`.
    """
    import tomli_w

    from kernelweave.persistence import save

    spec, data = run.spec, run.data
    with writing():
        # evidence solves paths again on the rows of the run
        save(model, folder / "model.skops", training_rows=True)
        run.origin.write(folder)
        named = "" if run.prepared.keys is None else str(run.prepared.keys.name)
        if data.by_order or (named and named != data.names):
            write_text(folder / LAYOUT, layout_text(data, named, run.file))
        if data.grams:
            write_text(folder / GRAMS, grams_text(data))
        if held is not None:
            write_text(folder / "predictions.csv", csv_text(held.table))
        write_text(folder / "spec.toml", tomli_w.dumps({"table": run.file, **spec.model_dump()}))
        alpha = stopped_at(model)
        if alpha is not None and hasattr(model, "relax_"):
            # the script of a stopped fit does not choose again
            run = replace(run, spec=spec.with_params(relax=float(model.relax_)))
        write_text(folder / "script.py", script(run, alpha))


def write_report(
    folder: Path,
    run: Run,
    model: BaseMKL,
    held: HeldOut | HeldTimes | None,
    found: Found,
    *,
    title: str = "",
    pictures: list[Picture] | None = None,
) -> None:
    """Write the report of a run, and the findings that it shows.

    Parameters
    ----------
    folder : Path
    run : Run
    model : fitted estimator
    held : HeldOut, HeldTimes or None
        Of `score_held`.
    found : dict of str to Finding
        Of `kernelweave_app.runs.evidence.gather`, and what was computed later.
    title : str
        Of the report; default the first file and the target.
    pictures : list of Picture, optional
        If they have been drawn already.
    """
    from kernelweave_app.reports import make_report
    from kernelweave_app.runs.evidence import write_evidence

    data, prepared = run.data, run.prepared
    divided = f"{numbered(len(run.train), 'training row')}, {len(run.test)} held out"
    about = [describe(data.table), divided, *(fact.rstrip(".") for fact in prepared.facts(data))]
    write_evidence(folder, found)
    with writing():
        report = make_report(
            model,
            title=title or f"{run.file}: {run.spec.predicted}",
            data=about,
            settings={"Table": run.file, **used_settings(run.spec, prepared)},
            held=held,
            X=prepared.X.iloc[run.train],
            pictures=pictures,
            found=found,
            lineage=run.origin,
        )
        write_text(folder / "report.html", report)


def spec_of(folder: Path) -> Spec:
    """The settings of a run."""
    path = folder / "spec.toml"
    if not path.is_file():
        raise InputError(f"There is no run at {folder}: it lacks spec.toml. Pass the folder of a run.")
    return check_spec(read_spec(path))


def used_settings(spec: Spec, prepared: Prepared) -> dict[str, str]:
    """Settings that had an effect, by their labels, for reports.

    Parameters
    ----------
    spec : Spec
        As it was asked for.
    prepared : Prepared

    Returns
    -------
    dict of str to str
    """
    now = chosen(spec, prepared.task)
    unused = {"Cs" if path_setting(now.method) == "alphas" else "alphas"}
    if fits_plainly(spec):
        # those of survival predict its rows
        unused |= {*OF_PATHS} - ({"cv"} if spec.survival else set())
    if not prepared.n_missing and not prepared.n_dropped:
        unused |= {"missing", "missing_views"}
    elif len(prepared.views) < 2:
        unused.add("missing_views")
    unused |= {name for name in SILENT if not now.differs(name)}
    found = {}
    for name, field in own_fields().items():
        value = getattr(now, name)
        if name not in unused and value not in ("", [], {}) and applies(field, spec, prepared.task):
            found[field.label] = in_words(value)
    return found


def in_words(value: object) -> str:
    """The value of a setting in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {in_words(part)}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
