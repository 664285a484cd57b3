"""The steps of the command `evidence`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave.inspection.registry import compute, possible, repeated
from kernelweave_app.cli.console import Steps, make_console, print_findings
from kernelweave_app.cli.runs import load_model, read_data
from kernelweave_app.reports import draw_pictures
from kernelweave_app.reports.figures import draw_findings
from kernelweave_app.reports.printing import read_width, write_figures, write_tables
from kernelweave_app.runs.evidence import basis_of, gather, read_evidence, total_of, write_evidence
from kernelweave_app.runs.folders import csv_text, writing
from kernelweave_app.runs.lineage import read_lineage
from kernelweave_app.runs.preparing import prepare, split
from kernelweave_app.runs.spec import Spec, check_spec, read_spec
from kernelweave_app.runs.writing import FIGURES, TABLES, score_held, write_report


def run_evidence(
    run: str,
    table: str,
    *,
    what: list[str] | None,
    counts: dict[str, int],
    fixed: bool,
    jobs: int,
    width: str,
) -> int:
    """The `evidence` command."""
    console = make_console()
    folder, size = Path(run), read_width(width)
    spec = spec_of(folder)
    kinds = read_kinds(what)
    model = load_model(run)
    data, paths = read_data(table, spec)
    prepared = prepare(data, spec)
    rows = split(prepared, spec)
    held = score_held(model, prepared, rows[1])
    # numbers of the model itself are computed again, what took time is kept
    found = {**read_evidence(folder), **gather(model, prepared, held, train=rows[0])}
    n_training = int(found["rows"].values["training"].value)
    if n_training != _training(prepared, rows[0]):
        raise InputError(
            f"The model in {run} was learnt from {n_training} rows, and {table} gives "
            f"{_training(prepared, rows[0])}. Name the table of the run."
        )
    interrupted = False
    for kind in kinds or possible(found):
        steps = Steps(repeated()[kind].title.lower(), counts.get(kind) or None)

        def report(text: str, steps: Steps = steps) -> bool:
            # a division or a size takes several fits
            steps.total = total_of(text) or steps.total
            return steps.advance(text)

        try:
            basis = basis_of(
                model,
                spec,
                prepared,
                rows,
                held,
                count=counts.get(kind, 0),
                refit=not fixed,
                jobs=jobs,
                report=report,
            )
            found[kind] = compute(kind, basis)
        except KeyboardInterrupt:
            interrupted = True
            break
        finally:
            steps.close()
        write_evidence(folder, found)
        interrupted = bool(found[kind].details.get("interrupted"))
        if interrupted:
            break
    if interrupted:
        console.print("Interrupted; what is done is kept.")
    with writing():
        origin = read_lineage(folder)
        write_report(folder, model, spec, data, prepared, paths, rows, held, found=found, origin=origin)
        for name in (FIGURES, TABLES):
            (folder / name).mkdir(exist_ok=True)
        X = prepared.X.iloc[rows[0]]
        figures = write_figures(
            lambda: [*draw_pictures(model, held, X), *draw_findings(found)], folder / FIGURES, size
        )
        tables = write_tables(found, folder / TABLES, csv_text)
    print_findings(found)
    console.print(
        f"Wrote {run}: evidence.json, report.html, {len(figures)} figures of {size:g} mm in {FIGURES}, "
        f"{len(tables)} tables in {TABLES}"
    )
    return 130 if interrupted else 0


def _training(prepared: Any, train: Any) -> int:
    """Training rows with a positive weight."""
    return len(train) if prepared.weights is None else int(np.count_nonzero(prepared.weights[train] > 0))


def spec_of(folder: Path) -> Spec:
    """The settings of a run."""
    path = folder / "spec.toml"
    if not path.is_file():
        raise InputError(f"There is no run at {folder}: it lacks spec.toml. Pass the folder of a run.")
    return check_spec(read_spec(path))


def read_kinds(what: list[str] | None) -> list[str]:
    """Kinds of evidence by their names, a hyphen for a space."""
    known = {kind.replace(" ", "-"): kind for kind in repeated()}
    for name in what or ():
        if name not in known:
            raise InputError(f"--what must be of {', '.join(known)}, got {name!r:.40}.")
    return [known[name] for name in what or ()]
