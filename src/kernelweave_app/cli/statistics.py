"""The command `statistics`, and the command `path` on its files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._errors import InputError, KernelWarning
from kernelweave.gram import BlockStatistics
from kernelweave.gram.statistics_files import files_in, kind_of
from kernelweave.results import Path as SolutionPath
from kernelweave.rows.collecting import block_statistics
from kernelweave.rows.files import find_files
from kernelweave.rows.folds import KIND as FOLDS
from kernelweave.rows.folds import FoldStatistics
from kernelweave.rows.validation import rls2_path_cv
from kernelweave_app.cli.block_paths import FILES, say_solution, write_path
from kernelweave_app.cli.console import RowProgress, Steps, make_console
from kernelweave_app.runs.fitting import parse_path
from kernelweave_app.runs.folders import whole_folder, writing
from kernelweave_app.runs.spec import DEFAULT, Spec

Statistics = BlockStatistics | FoldStatistics

#: Settings of a path that statistics can have.
USED = (
    "method",
    "alphas",
    "rule",
    "normalize",
    "intercept",
    "seed",
    "jobs",
    "learner_params",
    "target",
    "task",
)
#: Parameters of RLS2 that statistics can have.
PARAMETERS = ("tol", "max_iter")


def is_statistics(path: str) -> bool:
    """Whether a file was written by the command `statistics`, or by the method `save`."""
    return Path(path).suffix == ".npz" and bool(kind_of(path))


def read_statistics(path: str | Path) -> Statistics:
    """Statistics of all rows or of folds."""
    return FoldStatistics.load(path) if kind_of(path) == FOLDS else BlockStatistics.load(path)


def describe(found: Statistics) -> str:
    """Numbers of rows, features, blocks and folds in words."""
    one = found.total if isinstance(found, FoldStatistics) else found
    folds = f", {found.n_folds} folds" if isinstance(found, FoldStatistics) else ""
    return f"{one.n_rows:,} rows, {one.n_features} features in {one.n_kernels} blocks{folds}"


def _check_out(out: str, *, allowed: bool) -> None:
    if not out.endswith(".npz"):
        raise InputError(f"--out must be a file .npz, got {out}.")
    if Path(out).exists() and not allowed:
        raise InputError(f"{out} exists. Add --overwrite to replace it, or --resume to continue.")


def as_block_ends(groups: str) -> Any:
    """Ends of blocks in a text, or the path of a file."""
    if not groups:
        return None
    parts = groups.split(",")
    if all(part.strip().isdigit() for part in parts):
        return [int(part) for part in parts]
    return groups


def run_statistics(
    rows: list[str],
    out: str,
    *,
    target: list[str] | None,
    groups: str,
    columns: list[str] | None,
    weight: str,
    folds: int,
    fold_by: str,
    seed: int,
    resume: bool,
    overwrite: bool,
    max_memory: str,
    jobs: int,
) -> int:
    """The `statistics` command."""
    console = make_console()
    if not rows:
        raise InputError("Name a folder of tables, or tables.")
    if not target:
        raise InputError("--target must name the column to predict.")
    _check_out(out, allowed=resume or overwrite)
    given: Any = rows[0] if len(rows) == 1 else rows
    files = find_files(given)
    console.print(f"Found {len(files)} tables.")
    into = read_statistics(out) if resume and Path(out).exists() else None
    if into is not None:
        console.print(f"Found {out}: {describe(into)}.")
    steps = RowProgress()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", KernelWarning)
        try:
            found = block_statistics(
                given,
                groups=as_block_ends(groups),
                target=target[0] if len(target) == 1 else target,
                weight=weight or None,
                columns=columns,
                folds=folds or None,
                fold_by=fold_by,
                seed=seed,
                into=into,
                max_memory=None if max_memory == "auto" else max_memory,
                n_jobs=jobs,
                progress=steps,
            )
        finally:
            steps.close()
    with writing():
        found.save(out)
    interrupted = any("Interrupted" in str(one.message) for one in caught)
    if interrupted:
        console.print("Interrupted; the same command with --resume continues.")
    console.print(f"Wrote {out}: {describe(found)}")
    return 130 if interrupted else 0


def run_merge(rows: list[str], out: str, *, overwrite: bool) -> int:
    """The `statistics` command with --merge."""
    console = make_console()
    _check_out(out, allowed=overwrite)
    if not rows:
        raise InputError("Name a folder of files of this command, or files.")
    paths = [path for row in rows for path in (files_in(row, "*.npz") if Path(row).is_dir() else [Path(row)])]
    paths = [path for path in paths if path.resolve() != Path(out).resolve()]
    if not paths:
        raise InputError(f"There are no files to merge in {rows[0]}.")
    console.print(f"Found {len(paths)} files.")
    found: Any = read_statistics(paths[0])
    steps = Steps("files", len(paths))
    for path in paths[1:]:
        part: Any = read_statistics(path)
        if type(part) is not type(found):
            raise InputError(f"Files must all have folds, or none: {paths[0]} and {path} differ.")
        found.merge(part)
        steps.advance()
    steps.close()
    with writing():
        found.save(out)
    console.print(f"Wrote {out}: {describe(found)}")
    return 0


# ---- paths ----------------------------------------------------------------------------------------


def run_statistics_path(path: str, spec: Spec, out: str, *, overwrite: bool) -> None:
    """The `path` command on statistics."""
    console = make_console()
    found = read_statistics(path)
    total = found.total if isinstance(found, FoldStatistics) else found
    console.print(f"Found {path}: {describe(found)}.")
    _check_spec(spec)
    values, n_alphas = parse_path(spec.model_copy(update={"method": "rls2"}))
    options: dict[str, Any] = {
        "n_alphas": n_alphas,
        "tol": 1e-6,
        "fit_intercept": spec.intercept,
        **spec.learner_params,
    }
    if spec.normalize != "none":
        diagonals = total.mean_diagonals(centered=spec.intercept)
        options["scale"] = 1.0 / np.where(diagonals > 0, diagonals, 1.0)
    with whole_folder(out, overwrite=overwrite, files=FILES) as folder:
        steps = Steps("path", n_alphas)
        options["callback"] = lambda index, result: steps.advance()
        validated = None
        try:
            if isinstance(found, FoldStatistics):
                validated = rls2_path_cv(found, values["alphas"], rule=spec.rule, n_jobs=spec.jobs, **options)
                solved: SolutionPath[Any] = validated.path
            else:
                from kernelweave.mkl.path import rls2_path

                solved = rls2_path(found, None, values["alphas"], **options)
        finally:
            steps.close()
        head: dict[str, Any] = {"df": solved.df, "n_kernels": solved.n_active, "rel_gap": solved.rel_gap}
        chosen, said = None, ""
        if validated is not None:
            chosen = validated.best_index
            head |= {"mse": validated.mean_mse, "mse_se": validated.se_mse, "r2": validated.mean_r2}
            said = f"mean squared error {validated.mean_mse[chosen]:.4g}, R2 {validated.mean_r2[chosen]:.4f}"
        write_path(folder, total, solved, "alpha", head, chosen)
        one = solved.at(len(solved) - 1 if chosen is None else chosen)
        say_solution(console, total, one, "alpha", said)
    console.print(f"Wrote {out}: {', '.join(FILES)}")


def _check_spec(spec: Spec) -> None:
    if spec.method not in (DEFAULT, "rls2"):
        raise InputError(
            f"--learner must be rls2 for statistics, which hold sums for the squared loss, got {spec.method}."
        )
    for name in Spec.model_fields:
        if name not in USED and spec.differs(name):
            raise InputError(
                f"Setting `{name}` does not apply to statistics, which have no rows. Leave it out."
            )
    if strange := [name for name in spec.learner_params if name not in PARAMETERS]:
        raise InputError(f"Setting `{strange[0]}` does not apply to statistics. Leave it out.")
    if spec.normalize not in ("auto", "mean-diagonal", "none"):
        raise InputError(f"--normalize must be mean-diagonal or none for statistics, got {spec.normalize}.")
