"""Commands on rows of tables of any number and size; what they need is imported inside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kernelweave_app.cli.arguments import (
    Blocks,
    FeatureNames,
    FoldBy,
    Folds,
    FoldSeed,
    Names,
    TablesAtOnce,
    WeightColumn,
)


def statistics(
    *rows: str,
    out: str,
    target: Names = None,
    groups: Blocks = "",
    columns: FeatureNames = None,
    weight: WeightColumn = "",
    folds: Folds = 0,
    fold_by: FoldBy = "row",
    merge: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    max_memory: str = "auto",
    jobs: TablesAtOnce = 1,
    seed: FoldSeed = 0,
) -> int:
    """Sums over the rows of tables of any number and size, from which the command path follows without the rows.

    Jobs of an array write a file each, from their own tables, and --merge adds the files. Ctrl-C writes what is in, and
    --resume continues.

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
    max_memory
        For sums and rows at a time, such as 2GB.
    """
    from kernelweave_app.cli.statistics import run_merge, run_statistics

    if merge:
        return run_merge(list(rows), out, overwrite=overwrite)
    return run_statistics(
        list(rows),
        out,
        target=target,
        groups=groups,
        columns=columns,
        weight=weight,
        folds=folds,
        fold_by=fold_by,
        seed=seed,
        resume=resume,
        overwrite=overwrite,
        max_memory=max_memory,
        jobs=jobs,
    )


def margins(
    *rows: str,
    out: str,
    target: str = "",
    loss: str = "hinge",
    cs: Annotated[list[float] | None, Parameter(consume_multiple=True)] = None,
    points: int = 10,
    groups: Blocks = "",
    columns: FeatureNames = None,
    weight: WeightColumn = "",
    folds: Folds = 5,
    fold_by: FoldBy = "row",
    scoring: str = "auto",
    rule: str = "min",
    normalize: str = "mean-diagonal",
    epsilon: float = 0.1,
    tol: float = 1e-3,
    overwrite: bool = False,
    max_memory: str = "auto",
    jobs: TablesAtOnce = 1,
    seed: FoldSeed = 0,
) -> int:
    """Machines with kernel weights on tables of any number and size, whose rows are read in chunks.

    A path of C for labels -1 and 1, or 0 and 1, or numbers, chosen by folds; all C and folds in the same passes over
    the tables. Ctrl-C writes the best that was found. For the squared loss see statistics and path.

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
        hinge, squared-hinge, logistic, or epsilon-insensitive for numbers.
    cs
        Weights of the sum of losses. Default: from 0.1 to 1000 over the number of rows.
    points
        How many by default.
    scoring
        accuracy, auc, or loss; auto is accuracy for labels.
    rule
        min, or 1se for the smallest C within a standard error.
    normalize
        mean-diagonal or none: whether kernels are divided by their mean diagonals.
    epsilon
        Half width of the tube of epsilon-insensitive.
    tol
        Relative gap of every solution.
    overwrite
        Replace the results of an earlier run.
    max_memory
        For a sample, and numbers of rows, such as 2GB.
    """
    from kernelweave_app.cli.margins import run_margins

    return run_margins(
        list(rows),
        Path(out),
        reading={
            "target": target,
            "columns": columns,
            "weight": weight or None,
            "max_memory": None if max_memory == "auto" else max_memory,
            "n_jobs": jobs,
        },
        groups=groups,
        cs=cs,
        points=points,
        normalize=normalize,
        validation={"folds": folds, "fold_by": fold_by, "scoring": scoring, "rule": rule, "seed": seed},
        machine={"loss": loss, "epsilon": epsilon, "tol": tol},
        overwrite=overwrite,
    )
