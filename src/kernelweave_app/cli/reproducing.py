"""The commands ``reproduce`` and ``datasets``."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError
from kernelweave._types import Console
from kernelweave_app.cli.console import Steps, make_console, print_table
from kernelweave_app.runs.folders import write_text, writing

#: Rows of a table that are printed.
SHOWN_ROWS = 60
#: Printed fields of a data set.
SAID = (
    "name",
    "title",
    "task",
    "n_samples",
    "n_features",
    "papers",
    "source",
    "licence",
    "how",
    "note",
    "url",
)


def run_reproduce(name: str, out: str, *, jobs: int, resume: bool, given: dict[str, object]) -> int:
    """Run an experiment of a paper, and write its tables and figures; return the exit status."""
    import kernelweave_papers as experiments
    from kernelweave_papers.runner import environment, open_cells, run_cells
    from kernelweave_papers.store import Store

    console = make_console()
    experiment = experiments.get(name)
    n_jobs = _n_jobs(jobs)
    options = experiment.defaults.with_values(**given)
    folder = Path(out or f"kernelweave-{name}")
    with writing():
        folder.mkdir(parents=True, exist_ok=True)
    console.print(f"{experiment.title}. Settings: {_shown(options)}.")
    for line in experiment.prepare(options):
        console.print(f"Found {line}.")
    with Store(folder) as store:
        store.settle(options.as_dict(), resume=resume)
        cells = experiment.cells(options)
        waiting = len(open_cells(experiment, options, store))
        done = len(cells) - waiting
        console.print(
            f"{len(cells)} cells"
            + (f", {done} of them finished before." if done else ".")
            + f" Jobs: {n_jobs}."
        )
        steps = Steps(name, waiting)
        try:
            outcome = run_cells(experiment, options, store, n_jobs=n_jobs, report=steps.advance)
        finally:
            steps.close()
        rows = store.rows(cells)
        failures = store.failures()
        minutes = store.seconds(cells) / 60.0
    console.print(
        f"{outcome.n_done} of {outcome.n_cells} cells are finished; {outcome.seconds:.1f} s for {outcome.n_new}."
    )
    if rows:
        with writing():
            _write(console, experiment, options, rows, folder)
            write_text(
                folder / "run.json",
                json.dumps(
                    {"experiment": name, "settings": options.as_dict(), "minutes": round(minutes, 1)}
                    | environment(),
                    indent=1,
                )
                + "\n",
            )
    for cell, reason in failures[:5]:
        console.print(f"No result for {json.dumps(cell)}: {reason}", markup=False)
    if len(failures) > 5:
        console.print(
            f"... and {len(failures) - 5} more; the file {folder / 'results.sqlite'} holds all reasons."
        )
    if outcome.interrupted:
        console.print("Interrupted; what is finished is kept. Continue with the same command and --resume.")
    console.print(f"Wrote {folder}.")
    return 130 if outcome.interrupted else 1 if outcome.n_failed else 0


def _n_jobs(jobs: int) -> int:
    if jobs == 0 or jobs < -1:
        raise InputError(f"--jobs must be a number of processes, or -1 for all cores, got {jobs}.")
    return (
        jobs
        if jobs > 0
        else len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )


def _shown(options: Any) -> str:
    def text(value: object) -> str:
        return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)

    return "; ".join(f"{f.name} {text(getattr(options, f.name))}" for f in dataclasses.fields(options))


def _write(console: Console, experiment: Any, options: Any, rows: Any, folder: Path) -> None:
    """Tables as CSV (and Parquet where pyarrow is installed), figures as SVG."""
    import io

    tables = experiment.tables(rows, options)
    for kind in ("tables", "figures"):
        (folder / kind).mkdir(exist_ok=True)
    for name, frame in tables.items():
        write_text(folder / "tables" / f"{name}.csv", frame.to_csv(index=False, float_format="%.6g"))
        try:
            import pyarrow  # noqa: F401  optional
        except ImportError:
            continue
        frame.to_parquet(folder / "tables" / f"{name}.parquet", index=False)
    for name, figure in experiment.figures(tables):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg")
        write_text(folder / "figures" / f"{name}.svg", buffer.getvalue())
    first = next(iter(tables.values()))
    shown = first[[column for column in experiment.shown or first.columns if column in first]]
    print_table(list(map(str, shown.columns)), shown.head(SHOWN_ROWS).itertuples(index=False))
    if len(first) > SHOWN_ROWS:
        console.print(f"... and {len(first) - SHOWN_ROWS} more rows.")


def run_datasets(names: list[str], *, download: bool, as_json: bool) -> None:
    """List data sets, describe some, or download them."""
    from kernelweave import datasets

    console = make_console()
    chosen = names or list(datasets.names())
    infos = [datasets.info(name) for name in chosen]
    if download:
        for name in chosen:
            console.print(f"{datasets.load(name, progress=True)!r}")
    places = {name: _place(name) for name in chosen}
    if as_json:
        keep = [f.name for f in dataclasses.fields(infos[0]) if f.name in SAID]
        values = [{key: getattr(row, key) for key in keep} | {"here": places[row.name]} for row in infos]
        print(json.dumps(values, indent=1))
        return
    if not names:

        def here(row: Any) -> str:
            return places[row.name] or "no"

        print_table(
            ("name", "rows", "columns", "task", "papers", "here", "licence", "source"),
            [
                (r.name, r.n_samples, r.n_features, r.task, " ".join(r.papers), here(r), r.licence, r.source)
                for r in infos
            ],
        )
        console.print(
            "To get one: kernelweave datasets NAME says how; --download fetches those with an address."
        )
        return
    for row in infos:
        console.print(f"{row.name}: {row.title}. {row.n_samples} rows, {row.n_features} columns, {row.task}.")
        for key in ("source", "licence", "how", "note", "url"):
            if getattr(row, key):
                console.print(f"  {key}: {getattr(row, key)}")
        console.print(f"  papers: {', '.join(row.papers) or 'none'}; here: {places[row.name] or 'no'}")


def _place(name: str) -> str:
    from kernelweave import datasets
    from kernelweave.datasets.finding import find_local

    if name == "14cancer":
        return "yes" if datasets.is_here(name) else ""
    return find_local(datasets.info(name))[0]
