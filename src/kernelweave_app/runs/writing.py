"""The files of a run: model, report, predictions, settings, script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kernelweave._forms import numbered
from kernelweave._types import Tree
from kernelweave.inspection.held import HeldOut
from kernelweave_app.runs.fitting import stopped_at
from kernelweave_app.runs.folders import csv_text, write_text, writing
from kernelweave_app.runs.gram_views import GRAMS, grams_text
from kernelweave_app.runs.joining import LAYOUT, Joined, layout_text
from kernelweave_app.runs.lineage import LINEAGE, Lineage, trace
from kernelweave_app.runs.preparing import Prepared
from kernelweave_app.runs.scoring import predictions, with_truth
from kernelweave_app.runs.scripts import script
from kernelweave_app.runs.sparse_views import Tables
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.tables import describe
from kernelweave_app.runs.used import used_settings

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL
    from kernelweave.inspection.registry import Found
    from kernelweave_app.reports import Picture
    from kernelweave_app.runs.preparing import Rows

#: Folders of the command `evidence`, in a run.
FIGURES, TABLES = "evidence-figures", "evidence-tables"
#: Files of `write_run` and `write_report`, the model first; predictions only if rows are held out, tables only if a
#: key names the rows, grams only with precomputed kernels. What `evidence` adds belongs to a run as well.
FILES = (
    *("model.skops", "report.html", "predictions.csv", "spec.toml", "script.py"),
    *("evidence.json", LAYOUT, GRAMS, LINEAGE, FIGURES, TABLES),
)


def score_held(model: BaseMKL, prepared: Prepared, test: Rows) -> HeldOut | None:
    """The held-out rows with their predictions; None without held-out rows."""
    if not len(test):
        return None
    y, keys = prepared.y[test], None if prepared.keys is None else prepared.keys.iloc[test]
    table = predictions(model, prepared.X.iloc[test], keys=keys)
    return HeldOut.of_columns(model, with_truth(table, y, prepared.names), y)


def write_run(
    folder: Path,
    model: BaseMKL,
    spec: Spec,
    data: Joined,
    prepared: Prepared,
    paths: Mapping[str, str],
    held: HeldOut | None,
    origin: Lineage | None = None,
) -> None:
    """Write the files of a run, the model first, except the report (see `write_report`).

    Parameters
    ----------
    folder : Path
    model : fitted estimator
    spec : Spec
    data : Joined
        The tables that were read.
    prepared : Prepared
        The prepared data.
    paths : mapping of str to str
        The table files by name.
    held : HeldOut or None
        Of `score_held`.
    origin : Lineage, optional
        Of `trace`, made when the tables were read.
    """
    import tomli_w

    from kernelweave.persistence import save

    origin = origin or trace(paths, spec)
    with writing():
        # evidence solves paths again on the rows of the run
        save(model, folder / "model.skops", training_rows=True)
        origin.write(folder)
        if spec.key or data.by_order:
            write_text(folder / LAYOUT, layout_text(data, spec.key, _first(paths)))
        if data.grams:
            write_text(folder / GRAMS, grams_text(data))
        if held is not None:
            write_text(folder / "predictions.csv", csv_text(held.table))
        write_text(folder / "spec.toml", tomli_w.dumps(_settings(spec, paths)))
        alpha = stopped_at(model, spec)
        if alpha is not None and hasattr(model, "relax_"):
            # the script of a stopped fit does not choose again
            spec = spec.with_params(relax=float(model.relax_))
        write_text(folder / "script.py", script(spec, data, prepared, paths, alpha, origin.lines()))


def write_report(
    folder: Path,
    model: BaseMKL,
    spec: Spec,
    data: Joined,
    prepared: Prepared,
    paths: Mapping[str, str],
    rows: tuple[Rows, Rows],
    held: HeldOut | None,
    nested: str = "",
    title: str = "",
    pictures: list[Picture] | None = None,
    found: Found | None = None,
    origin: Lineage | None = None,
) -> None:
    """Write the report of a run, and the findings that it shows.

    Parameters
    ----------
    folder, model, spec, data, prepared, paths
        As for `write_run`.
    rows : pair of arrays
        Training and held-out rows.
    held : HeldOut or None
        Of `score_held`.
    nested : str
        One line about outer folds.
    title : str
        Of the report; default the first file and the target.
    pictures : list of Picture, optional
        If they have been drawn already.
    found : dict of str to Finding, optional
        Of `kernelweave_app.runs.evidence.gather`, the default, and what was computed later.
    origin : Lineage, optional
        Of `trace`.
    """
    from kernelweave_app.reports import make_report
    from kernelweave_app.runs.evidence import gather, write_evidence

    train, test = rows
    about = [
        describe(data.table),
        f"{numbered(len(train), 'training row')}, {len(test)} held out",
        f"task: {prepared.said}",
    ]
    if prepared.n_dropped:
        about.append(f"{numbered(prepared.n_dropped, 'row')} left out because of missing values")
    about += [
        f"{numbered(len(lost), 'row')} of other tables {'is' if len(lost) == 1 else 'are'} not in {name}"
        for name, lost in data.missing.items()
        if lost
    ]
    about += [nested] if nested else []
    found = gather(model, prepared, held) if found is None else found
    write_evidence(folder, found)
    with writing():
        report = make_report(
            model,
            title=title or f"{_first(paths)}: {spec.target}",
            data=about,
            settings={
                "Table": _first(paths),
                **used_settings(spec, prepared, n_missing=_n_missing(prepared)),
            },
            held=held,
            X=prepared.X.iloc[train],
            pictures=pictures,
            found=found,
            lineage=origin or trace(paths, spec),
        )
        write_text(folder / "report.html", report)


def _n_missing(prepared: Prepared) -> int:
    return 0 if isinstance(prepared.X, Tables) else int(prepared.X.isna().to_numpy().sum())


def _first(paths: Mapping[str, str]) -> str:
    return Path(next(iter(paths.values()))).name


def _settings(spec: Spec, paths: Mapping[str, str]) -> Tree:
    return {"table": _first(paths), **spec.model_dump()}
