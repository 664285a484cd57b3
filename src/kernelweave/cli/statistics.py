"""The command `statistics`, and the command `path` on its files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._errors import InputError, KernelWarning
from kernelweave.cli.console import Steps, make_console, print_table
from kernelweave.gram import BlockStatistics
from kernelweave.gram.statistics_files import files_in, kind_of
from kernelweave.results import Path as SolutionPath
from kernelweave.rows.collecting import block_statistics
from kernelweave.rows.files import find_files
from kernelweave.rows.folds import KIND as FOLDS
from kernelweave.rows.folds import FoldStatistics
from kernelweave.rows.validation import CrossValidatedPath, rls2_path_cv
from kernelweave.runs.fitting import parse_path
from kernelweave.runs.folders import csv_text, whole_folder, write_text, writing
from kernelweave.runs.spec import DEFAULT, FitSpec

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
    steps = Rows()
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


class Rows:
    """Progress in rows."""

    def __init__(self) -> None:
        self.steps: Steps | None = None

    def __call__(self, n_rows: int, total: int | None) -> None:
        """Show the number of rows so far."""
        if self.steps is None:
            self.steps = Steps("rows", total)
        self.steps.done = n_rows - 1
        self.steps.advance()

    def close(self) -> None:
        """Remove the bar."""
        if self.steps is not None:
            self.steps.close()


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
    found = read_statistics(paths[0])
    steps = Steps("files", len(paths))
    for path in paths[1:]:
        part = read_statistics(path)
        if type(part) is not type(found):
            raise InputError(f"Files must all have folds, or none: {paths[0]} and {path} differ.")
        _merge(found, part)
        steps.advance()
    steps.close()
    with writing():
        found.save(out)
    console.print(f"Wrote {out}: {describe(found)}")
    return 0


def _merge(found: Any, part: Any) -> None:
    """Add statistics of one kind."""
    found.merge(part)


# ---- paths ----------------------------------------------------------------------------------------


def run_statistics_path(path: str, spec: FitSpec, out: str, *, overwrite: bool) -> None:
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
    names = ("path.csv", "path.svg", "coefficients.csv")
    with whole_folder(out, overwrite=overwrite, files=names) as folder:
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
        _write(folder, total, solved, validated)
        chosen = len(solved) - 1 if validated is None else validated.best_index
        _say(console, total, solved, validated, chosen)
    console.print(f"Wrote {out}: {', '.join(names)}")


def _check_spec(spec: FitSpec) -> None:
    if spec.method not in (DEFAULT, "rls2"):
        raise InputError(
            f"--learner must be rls2 for statistics, which hold sums for the squared loss, got {spec.method}."
        )
    for name, field in FitSpec.model_fields.items():
        if name not in USED and getattr(spec, name) != field.get_default(call_default_factory=True):
            raise InputError(
                f"Setting `{name}` does not apply to statistics, which have no rows. Leave it out."
            )
    if strange := [name for name in spec.learner_params if name not in PARAMETERS]:
        raise InputError(f"Setting `{strange[0]}` does not apply to statistics. Leave it out.")
    if spec.normalize not in ("auto", "mean-diagonal", "none"):
        raise InputError(f"--normalize must be mean-diagonal or none for statistics, got {spec.normalize}.")


def _names(total: BlockStatistics) -> list[str]:
    """Names of the blocks: their own, those of their columns, or numbers."""
    if total.names:
        return list(total.names)
    if total.columns and total.n_kernels == total.n_features:
        return list(total.columns)
    return [f"block {m}" for m in range(total.n_kernels)]


def _write(
    folder: Path, total: BlockStatistics, solved: SolutionPath[Any], validated: CrossValidatedPath | None
) -> None:
    import pandas as pd

    from kernelweave.plots import RegularizationPathDisplay
    from kernelweave.reports import close, svg

    names = _names(total)
    head: dict[str, Any] = {"alpha": solved.alphas, "df": solved.df, "n_kernels": solved.n_active}
    head |= {"rel_gap": solved.rel_gap}
    if validated is not None:
        head |= {"mse": validated.mean_mse, "mse_se": validated.se_mse, "r2": validated.mean_r2}
    weights = pd.DataFrame(solved.weights, columns=names)
    table = pd.concat([pd.DataFrame(head), weights.loc[:, (weights > 0).any()]], axis=1)
    columns = list(total.columns or (f"x{j}" for j in range(total.n_features)))
    if len(set(columns)) < len(columns):
        # columns of several blocks
        blocks = np.repeat(names, np.diff(np.asarray(total.groups)))
        columns = [f"{block}: {column}" for block, column in zip(blocks, columns, strict=True)]
    chosen = None if validated is None else validated.best_index
    display = RegularizationPathDisplay(
        solved.alphas, solved.df, solved.weights, names, chosen, "kernel weight", "alpha"
    ).plot()
    with writing():
        write_text(folder / "path.csv", csv_text(table))
        write_text(folder / "coefficients.csv", csv_text(_coefficients(total, columns, solved)))
        write_text(folder / "path.svg", svg(display.figure_))
    close(display.figure_)


def _coefficients(total: BlockStatistics, columns: list[str], solved: SolutionPath[Any]) -> Any:
    """A row for each alpha and output: the intercept and the coefficients of the features."""
    import pandas as pd

    frames = []
    for one in solved.solutions:
        coef = one.feature_coef.reshape(len(columns), -1).T
        frame = pd.DataFrame(coef, columns=columns)
        frame.insert(0, "intercept", np.broadcast_to(np.reshape(one.intercept, -1), len(coef)))
        if not total.single:
            frame.insert(0, "output", range(len(coef)))
        frame.insert(0, "alpha", one.alpha)
        frames.append(frame)
    return pd.concat(frames)


def _say(
    console: Any,
    total: BlockStatistics,
    solved: SolutionPath[Any],
    validated: CrossValidatedPath | None,
    chosen: int,
) -> None:
    one = solved.at(chosen)
    names = _names(total)
    order = np.argsort(-one.weights)
    print_table(
        ("weight", "kernel"), [(float(one.weights[m]), names[m]) for m in order[:12] if one.weights[m] > 0]
    )
    if validated is not None:
        console.print(
            f"Cross-validated: mean squared error {validated.mean_mse[chosen]:.4g}, R2 {validated.mean_r2[chosen]:.4f}."
        )
    console.print(
        f"alpha {one.alpha:.4g}; objective {one.primal:.6g}, at most {one.rel_gap:.1e} of it above the optimum "
        f"({one.status.name.lower()})."
    )
