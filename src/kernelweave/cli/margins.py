"""The command `margins`: machines on rows of tables that are read in chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from kernelweave._errors import InputError

Names = Annotated[list[str] | None, Parameter(consume_multiple=True)]
#: C times the number of rows, by default: the smallest and the largest.
RANGE = (0.1, 1000.0)


def margins(
    *rows: str,
    out: str,
    target: str = "",
    loss: str = "hinge",
    cs: Annotated[list[float] | None, Parameter(consume_multiple=True)] = None,
    points: int = 10,
    groups: str = "",
    columns: Names = None,
    weight: str = "",
    folds: int = 5,
    fold_by: str = "row",
    scoring: str = "auto",
    rule: str = "min",
    normalize: str = "mean-diagonal",
    epsilon: float = 0.1,
    tol: float = 1e-3,
    overwrite: bool = False,
    max_memory: str = "auto",
    jobs: int = 1,
    seed: int = 0,
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
    groups
        Blocks of features: a TOML file with a table [views] of names and columns, a GMT file, or the starts of the
        blocks and the end, such as 0,10,25. Default: every column is a block.
    columns
        Columns that are features. Default: all others.
    weight
        Column of sample weights.
    folds
        Folds for cross-validation; 0 for none.
    fold_by
        row or file: what goes to a fold together.
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
    jobs
        Tables at the same time; -1 for one per core.
    seed
        Other numbers make other folds.
    """
    if not rows:
        raise InputError("Name a folder of tables, or tables.")
    if not target:
        raise InputError("--target must name the column to predict.")
    if normalize not in ("mean-diagonal", "none"):
        raise InputError(f"--normalize must be mean-diagonal or none, got {normalize}.")
    if points < 1 or folds < 0 or folds == 1:
        raise InputError(
            f"--points must be at least 1, and --folds 0 or at least 2, got {points} and {folds}."
        )
    given: Any = rows[0] if len(rows) == 1 else list(rows)
    return _run(
        given,
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


def _run(
    given: Any,
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
    import numpy as np

    from kernelweave.cli.console import make_console
    from kernelweave.cli.statistics import Rows, as_block_ends
    from kernelweave.mkl.margin_path import svm_mkl_path
    from kernelweave.rows.files import find_files
    from kernelweave.rows.margin_validation import CrossValidatedMargins, svm_mkl_path_cv
    from kernelweave.rows.row_features import RowFeatures
    from kernelweave.runs.folders import whole_folder

    console = make_console()
    console.print(f"Found {len(find_files(given))} tables.")
    names = ("path.csv", "path.svg", "coefficients.csv")
    with whole_folder(str(out), overwrite=overwrite, files=names) as folder:
        steps = Rows()
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
            if validation["folds"]:
                validated = svm_mkl_path_cv(rows, Cs, **machine, **validation)
                solved = validated.path
            else:
                solved = svm_mkl_path(rows, None, Cs, **machine)
        finally:
            steps.close()
        _write(folder, rows, solved, validated)
        chosen = len(solved) - 1 if validated is None else validated.best_index
        _say(console, rows, solved, validated, chosen)
    console.print(f"Wrote {out}: {', '.join(names)}")
    from kernelweave.results import Status

    return 130 if any(status is Status.INTERRUPTED for status in solved.status) else 0


def _names(rows: Any) -> list[str]:
    """Names of the blocks: their own, those of their columns, or numbers."""
    if rows.names:
        return list(rows.names)
    if rows.columns and rows.n_kernels == rows.n_features:
        return list(rows.columns)
    return [f"block {m}" for m in range(rows.n_kernels)]


def _write(folder: Path, rows: Any, solved: Any, validated: Any) -> None:
    import numpy as np
    import pandas as pd

    from kernelweave.plots import RegularizationPathDisplay
    from kernelweave.reports import close, svg
    from kernelweave.runs.folders import csv_text, write_text, writing

    names = _names(rows)
    head: dict[str, Any] = {"C": 1.0 / solved.alphas, "n_kernels": solved.n_active, "rel_gap": solved.rel_gap}
    if validated is not None:
        head |= {"loss": validated.mean_loss, "accuracy": validated.mean_accuracy, "auc": validated.mean_auc}
    weights = pd.DataFrame(solved.weights, columns=names)
    table = pd.concat([pd.DataFrame(head), weights.loc[:, (weights > 0).any()]], axis=1)
    columns = list(rows.columns or (f"x{j}" for j in range(rows.n_features)))
    if len(set(columns)) < len(columns):
        # columns of several blocks
        blocks = np.repeat(names, rows.widths)
        columns = [f"{block}: {column}" for block, column in zip(blocks, columns, strict=True)]
    coefficients = pd.DataFrame(solved.feature_coef, columns=columns)
    coefficients.insert(0, "intercept", solved.intercept[:, 0])
    coefficients.insert(0, "C", 1.0 / solved.alphas)
    chosen = None if validated is None else validated.best_index
    display = RegularizationPathDisplay(
        solved.alphas, solved.df, solved.weights, names, chosen, "kernel weight", "C"
    ).plot()
    with writing():
        write_text(folder / "path.csv", csv_text(table))
        write_text(folder / "coefficients.csv", csv_text(coefficients))
        write_text(folder / "path.svg", svg(display.figure_))
    close(display.figure_)


def _say(console: Any, rows: Any, solved: Any, validated: Any, chosen: int) -> None:
    import numpy as np

    from kernelweave.cli.console import print_table

    one, names = solved.at(chosen), _names(rows)
    order = np.argsort(-one.weights)
    print_table(
        ("weight", "kernel"), [(float(one.weights[m]), names[m]) for m in order[:12] if one.weights[m] > 0]
    )
    if validated is not None:
        labels = np.isfinite(validated.mean_accuracy[chosen])
        right = (
            f", {validated.mean_accuracy[chosen]:.4f} of the labels right, AUC {validated.mean_auc[chosen]:.4f}"
            if labels
            else ""
        )
        console.print(f"Cross-validated: mean loss {validated.mean_loss[chosen]:.4g}{right}.")
    console.print(
        f"C {1.0 / one.alpha:.4g}; objective {one.primal:.6g}, at most {one.rel_gap:.1e} of it above the optimum "
        f"({one.status.name.lower()})."
    )
