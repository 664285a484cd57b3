"""The command `margins`: machines on rows of tables that are read in chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave.mkl.path import svm_mkl_path
from kernelweave.results import Status
from kernelweave.rows.files import find_files
from kernelweave.rows.margin_validation import CrossValidatedMargins, svm_mkl_path_cv
from kernelweave.rows.row_features import RowFeatures
from kernelweave_app.cli.block_paths import FILES, say_solution, write_path
from kernelweave_app.cli.console import RowProgress, make_console
from kernelweave_app.cli.statistics import as_block_ends
from kernelweave_app.runs.folders import whole_folder

#: C times the number of rows, by default: the smallest and the largest.
RANGE = (0.1, 1000.0)


def run_margins(
    tables: list[str],
    out: Path,
    *,
    reading: dict[str, Any],
    groups: str,
    cs: list[float] | None,
    points: int,
    normalize: str,
    validation: dict[str, Any],
    machine: dict[str, Any],
    overwrite: bool,
) -> int:
    """The `margins` command."""
    folds = validation["folds"]
    if not tables:
        raise InputError("Name a folder of tables, or tables.")
    if not reading["target"]:
        raise InputError("--target must name the column to predict.")
    if normalize not in ("mean-diagonal", "none"):
        raise InputError(f"--normalize must be mean-diagonal or none, got {normalize}.")
    if points < 1 or folds < 0 or folds == 1:
        raise InputError(
            f"--points must be at least 1, and --folds 0 or at least 2, got {points} and {folds}."
        )
    given: Any = tables[0] if len(tables) == 1 else tables
    console = make_console()
    console.print(f"Found {len(find_files(given))} tables.")
    with whole_folder(str(out), overwrite=overwrite, files=FILES) as folder:
        steps = RowProgress()
        try:
            rows = RowFeatures(given, groups=as_block_ends(groups), progress=steps, **reading)
            steps.close()
            console.print(
                f"Read {rows.n_samples:,} rows, {rows.n_features} features in {rows.n_kernels} blocks."
            )
            if machine["loss"] != "epsilon-insensitive":
                rows.as_labels()
            Cs = cs or list(np.geomspace(*RANGE, points) / rows.sample_weight.sum())
            if normalize != "none":
                machine["scale"] = rows.scales()
            validated: CrossValidatedMargins | None = None
            if folds:
                validated = svm_mkl_path_cv(rows, Cs, **machine, **validation)
                solved = validated.path
            else:
                solved = svm_mkl_path(rows, None, Cs, **machine)
        finally:
            steps.close()
        head: dict[str, Any] = {"n_kernels": solved.n_active, "rel_gap": solved.rel_gap}
        if validated is not None:
            head |= {
                "loss": validated.mean_loss,
                "accuracy": validated.mean_accuracy,
                "auc": validated.mean_auc,
            }
        chosen = None if validated is None else validated.best_index
        write_path(folder, rows, solved, "C", head, chosen)
        one = solved.at(len(solved) - 1 if chosen is None else chosen)
        say_solution(console, rows, one, "C", "" if validated is None else _said(validated))
    console.print(f"Wrote {out}: {', '.join(FILES)}")
    return 130 if any(status is Status.INTERRUPTED for status in solved.status) else 0


def _said(found: CrossValidatedMargins) -> str:
    """Scores at the chosen C; numbers have a loss only."""
    at = found.best_index
    loss, right, area = found.mean_loss[at], found.mean_accuracy[at], found.mean_auc[at]
    labels = f", {right:.4f} of the labels right, AUC {area:.4f}" if np.isfinite(right) else ""
    return f"mean loss {loss:.4g}{labels}"
