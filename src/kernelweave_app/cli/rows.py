"""Commands on rows of tables of any number and size: `statistics` and `margins`, with imports inside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave_app import runs
from kernelweave_app.cli.arguments import READ_WHOLE, Columns, FoldBy, Folds, FoldSeed, Numbers, RowTables
from kernelweave_app.cli.console import Steps, say
from kernelweave_app.cli.paths import FILES, describe_statistics, read_statistics, write_block_path
from kernelweave_app.runs.folders import whole_folder, writing

#: C times the number of rows, by default: the smallest and the largest.
RANGE = (0.1, 1000.0)


def statistics(
    *rows: str,
    out: str,
    target: Columns = None,
    how: Annotated[RowTables, Parameter(name="*")] = READ_WHOLE,
    folds: Folds = 0,
    fold_by: FoldBy = "row",
    merge: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    seed: FoldSeed = 0,
) -> int:
    """Summarise tables that are too large for memory in one small file, which path uses in place of the rows.

    The file holds the sums over the rows that least squares needs. Jobs of a cluster write one file each, from their
    own tables, and --merge adds the files. Ctrl-C writes the rows that have been read, and --resume continues.

    Example: kernelweave statistics rows --target y --groups views.toml --folds 5 --out all.npz

    Parameters
    ----------
    rows
        Folder of tables (CSV, TSV, also packed, or Parquet), or tables; with --merge folder of files of this command,
        or such files.
    out
        File to write, .npz.
    target
        Columns to predict; numbers.
    merge
        Add files of this command.
    resume
        Continue with the file --out.
    overwrite
        Replace the file --out.
    """
    import warnings

    from kernelweave._errors import KernelWarning
    from kernelweave.rows.collecting import block_statistics

    if not out.endswith(".npz"):
        raise InputError(f"--out must be a file .npz, got {out}.")
    there = Path(out).exists()
    if there and not (overwrite or (resume and not merge)):
        raise InputError(f"{out} exists. Add --overwrite to replace it, or --resume to continue.")
    if merge:
        found = _merged(rows, Path(out))
        interrupted = False
    else:
        given = _find_tables(rows, target)
        into = read_statistics(out) if resume and there else None
        if into is not None:
            say(f"Found {out}: {describe_statistics(into)}.")
        with Steps("rows") as steps, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", KernelWarning)
            found = block_statistics(
                given,
                target=target[0] if target and len(target) == 1 else target,
                folds=folds or None,
                fold_by=fold_by,
                seed=seed,
                into=into,
                progress=steps.show,
                **how.arguments(given, target),
            )
        interrupted = any("Interrupted" in str(one.message) for one in caught)
    with writing():
        found.save(out)
    if interrupted:
        say("Interrupted; the same command with --resume continues.")
    say(f"Wrote {out}: {describe_statistics(found)}")
    return 130 if interrupted else 0


def _merged(rows: tuple[str, ...], out: Path) -> Any:
    """The sum of files of statistics."""
    from kernelweave.gram.statistics_files import files_in

    if not rows:
        raise InputError("Name a folder of files of this command, or files.")
    paths = [path for row in rows for path in (files_in(row, "*.npz") if Path(row).is_dir() else [Path(row)])]
    paths = [path for path in paths if path.resolve() != out.resolve()]
    if not paths:
        raise InputError(f"There are no files to merge in {rows[0]}.")
    say(f"Found {numbered(len(paths), 'file')}.")
    found: Any = read_statistics(paths[0])
    with Steps("files", len(paths)) as steps:
        for path in paths[1:]:
            part: Any = read_statistics(path)
            if type(part) is not type(found):
                raise InputError(f"Files must all have folds, or none: {paths[0]} and {path} differ.")
            found.merge(part)
            steps.advance()
    return found


def _find_tables(rows: tuple[str, ...], target: object) -> Any:
    """The tables of a command as the library takes them."""
    from kernelweave.rows.files import files_under, find_files

    if not rows:
        raise InputError("Name a folder of tables, or tables.")
    if not target:
        raise InputError("--target must name the column to predict.")
    given: Any = rows[0] if len(rows) == 1 else list(rows)
    whole = [one for one in runs.formats.formats() if not one.in_chunks]
    for path in (Path(row) for row in rows):
        inside = [file.name for file in files_under(path).values()] if path.is_dir() else []
        for one in whole:
            if any(map(one.named, inside)):
                say(f"Files of the format {one.name} in {path} are left out: it is not read in chunks.")
        if path.is_file() and (form := runs.formats.format_of(path)) in whole:
            raise InputError(
                f"{path} has the format {form.name}, which is not read in chunks. Write it as CSV or Parquet."
            )
    say(f"Found {len(find_files(given))} tables.")
    return given


def margins(
    *rows: str,
    out: str,
    target: str = "",
    loss: str = "hinge",
    cs: Numbers = None,
    points: int = 10,
    how: Annotated[RowTables, Parameter(name="*")] = READ_WHOLE,
    folds: Folds = 5,
    fold_by: FoldBy = "row",
    scoring: str = "auto",
    rule: str = "min",
    normalize: str = "mean-diagonal",
    epsilon: float = 0.1,
    tol: float = 1e-3,
    overwrite: bool = False,
    seed: FoldSeed = 0,
) -> int:
    """Fit a classifier or a regression with kernel weights to tables that are too large for memory.

    Rows are read in chunks, and columns are used as they are (linear kernels). Labels are -1 and 1, or 0 and 1. Several
    values of C are fitted, and cross-validation chooses one. Ctrl-C writes the best that was found. For least squares
    use statistics and path, which read the rows once.

    Example: kernelweave margins rows --target y --groups views.toml --loss logistic --out machines

    Parameters
    ----------
    rows
        Folder of tables (CSV, TSV, also packed, or Parquet), or tables.
    out
        Folder for the results: path.csv, coefficients.csv, path.svg.
    target
        Column to predict.
    loss
        hinge, squared-hinge, logistic, or for numbers epsilon-insensitive, squared, huber, quantile (the median) or
        poisson (counts); also a loss of an installed extension.
    cs
        Values of C, the weight of the sum of losses: larger ones fit the rows more closely. Default: from 0.1 to 1000,
        divided by the number of rows.
    points
        Number of values of C, if --cs does not list them.
    scoring
        accuracy, auc, or loss; auto is accuracy for labels.
    rule
        min, or 1se for the smallest C within a standard error.
    normalize
        mean-diagonal or none: whether kernels are divided by their mean diagonals.
    epsilon
        Half width of the tube of epsilon-insensitive.
    tol
        Accuracy of every solution: the objective exceeds the optimum by at most this fraction.
    overwrite
        Replace the results of an earlier run.
    """
    import numpy as np

    from kernelweave.machines.losses import as_loss
    from kernelweave.mkl.path import svm_mkl_path
    from kernelweave.results import Status
    from kernelweave.rows.row_features import RowFeatures
    from kernelweave.rows.validation import svm_mkl_path_cv

    if normalize not in ("mean-diagonal", "none"):
        raise InputError(f"--normalize must be mean-diagonal or none, got {normalize}.")
    if points < 1 or folds < 0 or folds == 1:
        raise InputError(
            f"--points must be at least 1, and --folds 0 or at least 2, got {points} and {folds}."
        )
    classifies, given = as_loss(loss, epsilon).classifies, _find_tables(rows, target)
    with whole_folder(out, overwrite=overwrite, files=FILES) as folder:
        with Steps("rows") as steps:
            features = RowFeatures(given, target=target, progress=steps.show, **how.arguments(given, target))
            steps.close()
            columns = numbered(features.n_features, "feature")
            blocks = numbered(features.n_kernels, "block")
            say(f"Read {features.n_samples:,} rows, {columns} in {blocks}.")
            if classifies:
                features.as_labels()
            Cs = cs or list(np.geomspace(*RANGE, points) / features.sample_weight.sum())
            machine: dict[str, Any] = {"loss": loss, "epsilon": epsilon, "tol": tol}
            machine |= {} if normalize == "none" else {"scale": features.scales()}
            best, scores = None, {}
            if folds:
                choice: dict[str, Any] = {"folds": folds, "fold_by": fold_by, "scoring": scoring}
                validated = svm_mkl_path_cv(features, Cs, **machine, **choice, rule=rule, seed=seed)
                solved, best = validated.path, validated.best_index
            else:
                solved = svm_mkl_path(features, None, Cs, **machine)
        head: dict[str, Any] = {"n_kernels": solved.n_active, "rel_gap": solved.rel_gap}
        if best is not None:
            means = validated.mean_loss, validated.mean_accuracy, validated.mean_auc
            head |= dict(zip(("loss", "accuracy", "auc"), means, strict=True))
            lost, right, area = (one[best] for one in means)
            # numbers have a loss only
            scores = {"mean loss": lost, "accuracy": right, "ROC AUC": area}
            scores = {name: value for name, value in scores.items() if np.isfinite(value)}
        write_block_path(folder, features, solved, "C", head, best, scores, features.n_samples)
    say(f"Wrote {out}: {', '.join(FILES)}")
    return 130 if any(status is Status.INTERRUPTED for status in solved.status) else 0
