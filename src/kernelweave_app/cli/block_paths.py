"""Paths over blocks of features: their tables, their figure, and what is printed about the chosen solution."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave_app.cli.console import print_table
from kernelweave_app.runs.folders import csv_text, write_text, writing

if TYPE_CHECKING:
    from kernelweave._types import Console, DataFrame
    from kernelweave.gram import BlockStatistics
    from kernelweave.results import Path as SolutionPath
    from kernelweave.results import Solution
    from kernelweave.rows.row_features import RowFeatures

    Blocks = BlockStatistics | RowFeatures

#: Files of a path.
FILES = ("path.csv", "path.svg", "coefficients.csv")
#: Kernels that are printed.
MOST_KERNELS = 12


def block_names(blocks: Blocks) -> list[str]:
    """Names of the blocks: their own, those of their columns, or numbers."""
    if blocks.names:
        return list(blocks.names)
    if blocks.columns and blocks.n_kernels == blocks.n_features:
        return list(blocks.columns)
    return [f"block {m}" for m in range(blocks.n_kernels)]


def _column_names(blocks: Blocks) -> list[str]:
    """Names of the features, with their blocks where a column is in several."""
    columns = list(blocks.columns or (f"x{j}" for j in range(blocks.n_features)))
    if len(set(columns)) == len(columns):
        return columns
    owners = np.repeat(block_names(blocks), np.diff(np.asarray(blocks.groups)))
    return [f"{owner}: {column}" for owner, column in zip(owners, columns, strict=True)]


def value_of(alpha: float, parameter: str) -> float:
    """The regularisation parameter by its name: alpha, or C, its inverse."""
    return 1.0 / alpha if parameter == "C" else alpha


def write_path(
    folder: Path,
    blocks: Blocks,
    solved: SolutionPath[Any],
    parameter: str,
    found: Mapping[str, Any],
    chosen: int | None,
) -> None:
    """Write the tables and the figure of a path.

    Parameters
    ----------
    folder : Path
    blocks : BlockStatistics or RowFeatures
    solved : Path
    parameter : {"alpha", "C"}
    found : mapping of str to array
        Further columns of the path, with an entry for each solution.
    chosen : int or None
        Position of the chosen solution.
    """
    import pandas as pd

    from kernelweave.plots import RegularizationPathDisplay
    from kernelweave_app.reports import close, svg

    names = block_names(blocks)
    values = [value_of(alpha, parameter) for alpha in solved.alphas]
    weights = pd.DataFrame(solved.weights, columns=names)
    head = pd.DataFrame({parameter: values, **found})
    table = pd.concat([head, weights.loc[:, (weights > 0).any()]], axis=1)
    display = RegularizationPathDisplay(
        solved.alphas, solved.df, solved.weights, names, chosen, "kernel weight", parameter
    ).plot()
    with writing():
        write_text(folder / "path.csv", csv_text(table))
        write_text(
            folder / "coefficients.csv", csv_text(_coefficients(_column_names(blocks), solved, parameter))
        )
        write_text(folder / "path.svg", svg(display.figure_))
    close(display.figure_)


def _coefficients(columns: list[str], solved: SolutionPath[Any], parameter: str) -> DataFrame:
    """A row for each solution and output: the intercept and the coefficients of the features."""
    import pandas as pd

    frames = []
    for one in solved.solutions:
        single = one.feature_coef.ndim == 1
        coef = one.feature_coef.reshape(len(columns), -1).T
        frame = pd.DataFrame(coef, columns=columns)
        frame.insert(0, "intercept", np.broadcast_to(np.reshape(one.intercept, -1), len(coef)))
        if not single:
            frame.insert(0, "output", range(len(coef)))
        frame.insert(0, parameter, value_of(one.alpha, parameter))
        frames.append(frame)
    return pd.concat(frames)


def say_solution(console: Console, blocks: Blocks, one: Solution, parameter: str, validated: str) -> None:
    """Print the largest weights, the cross-validated scores, and the regularisation parameter with the gap."""
    names, order = block_names(blocks), np.argsort(-one.weights)[:MOST_KERNELS]
    print_table(
        ("weight", "kernel"), [(float(one.weights[m]), names[m]) for m in order if one.weights[m] > 0]
    )
    if validated:
        console.print(f"Cross-validated: {validated}.")
    value, status = value_of(one.alpha, parameter), one.status.name.lower()
    console.print(
        f"{parameter} {value:.4g}; objective {one.primal:.6g}, at most {one.rel_gap:.1e} of it above the optimum "
        f"({status})."
    )
