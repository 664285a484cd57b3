"""The columns of the target: one, or several of labels or of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import DataFrame, Labels, Series
from kernelweave_app.runs.tables import check_target, detect_task, need_column

#: Values of columns of labels, as lower-case text.
YES, NO = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")
SAID = "0 and 1, no and yes, or false and true"


def names_of_target(target: str, columns: Sequence[str]) -> list[str]:
    """Columns named by a setting or an option, with commas between them; names may themselves hold commas.

    Parameters
    ----------
    target : str
    columns : sequence of str
        Of the table: of several readings the one with the longest known names counts.
    """
    if not target.strip() or target in columns:
        return [target] if target.strip() else []
    known, parts = set(columns), target.split(",")
    names: list[str] = []
    while parts:
        ends = (end for end in range(len(parts), 0, -1) if ",".join(parts[:end]).strip() in known)
        end = next(ends, 1)
        names.append(",".join(parts[:end]).strip())
        parts = parts[end:]
    names = [name for name in names if name]
    again = [name for k, name in enumerate(names) if name in names[:k]]
    if again:
        raise InputError(f"The target has the column {again[0]!r} twice. Name every column once.")
    return names


def need_target(table: DataFrame, target: str) -> list[str]:
    """The columns of the target, one or several, all of them in the table."""
    names = names_of_target(target, list(map(str, table.columns)))
    if not names:
        raise InputError(
            "Which column is the target? Name the column to predict as `target`, several of labels with commas "
            "between them."
        )
    for name in names:
        need_column(table, name, "the target")
    return names


def read_targets(table: DataFrame, names: list[str], task: str) -> tuple[Any, str, str]:
    """Several columns of labels, or of numbers.

    Parameters
    ----------
    table : DataFrame
    names : list of str
    task : {"auto", "regression", "classification"}
        "auto" is labels where any column holds such.

    Returns
    -------
    y : array of shape (n_rows, n_targets)
        0 and 1, or numbers.
    task : {"regression", "classification"}
    reason : str

    Raises
    ------
    InputError
        Missing cells, columns of classes that are no labels, and columns of one value.
    """
    kinds = {name: detect_task(table[name], task)[0] for name in names}
    if task == "regression" or (
        task == "auto"
        and set(kinds.values()) == {"regression"}
        and not any(is_label(table[name]) for name in names)
    ):
        reason = "as asked" if task != "auto" else f"the target is {len(names)} columns of numbers"
        return (
            np.column_stack([check_target(table[name], "regression") for name in names]),
            "regression",
            reason,
        )
    y = np.column_stack([read_labels(table[name]) for name in names])
    for name, column in zip(names, y.T, strict=True):
        if column.min() == column.max():
            raise InputError(
                f"Column {name!r} says the same of every row, {table[name].tolist()[0]!r}: there is nothing to learn. "
                "Leave it out of the target."
            )
    reason = "as asked" if task != "auto" else f"the target is {len(names)} columns of labels"
    return y, "classification", reason


def _as_text(column: Series) -> Series:
    return column.astype(str).str.strip().str.lower()


def is_label(column: Series) -> bool:
    """Whether all known cells say yes or no."""
    return bool(_as_text(column.dropna()).isin((*YES, *NO)).all())


def read_labels(column: Series) -> Labels:
    """A column of yes and no as 1 and 0."""
    check_target(column, "classification")
    text = _as_text(column)
    wrong = ~text.isin((*YES, *NO)).to_numpy()
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(
            f"Several targets are labels, columns of {SAID}, but column {column.name!r} holds "
            f"{column.tolist()[k]!r} in row {column.index[k]}. Make a column of it for every class, or choose one "
            "target; columns of numbers are learnt with --task regression."
        )
    return text.isin(YES).to_numpy().astype(np.int64)


def named(y: Any, names: Sequence[str]) -> Any:
    """A target as estimators take it: with the names of its columns if there are several."""
    if not names:
        return y
    import pandas as pd

    return pd.DataFrame(y, columns=list(names))


def target_lines(names: list[str], *, classification: bool) -> list[str]:
    """Lines of a script that make y of the columns of a table: an array of one, a frame of several."""
    if len(names) == 1:
        return [f"y = table[{names[0]!r}].to_numpy({'' if classification else 'dtype=float'})"]
    if not classification:
        return [f"y = table[{names!r}].astype(float)"]
    return [
        f"said = table[{names!r}].apply(lambda column: column.astype(str).str.strip().str.lower())",
        f"y = said.isin({YES!r}).astype(int)",
    ]


def target_of_model(
    table: DataFrame, target: str, names: Sequence[str], task: str
) -> tuple[Any, dict[str, str]]:
    """Columns with the truth for a model of several targets, in the model's order.

    Parameters
    ----------
    table : DataFrame
    target : str
        The names of the model's targets in any order, or other columns in the model's order.
    names : sequence of str
        Targets of the model.
    task : {"regression", "classification"}

    Returns
    -------
    y : array of shape (n_rows, n_targets)
    stands_for : dict of str to str
        For each target of the model the column, if names differ.
    """
    columns = need_target(table, target)
    if set(columns) == set(names):
        columns = list(names)
    elif len(columns) != len(names) or set(columns) & set(names):
        raise InputError(
            f"The model has the targets {', '.join(map(repr, names))}, got {', '.join(map(repr, columns))}. Name all "
            "of them, or as many other columns in this order."
        )
    read = read_labels if task == "classification" else _numbers
    y = np.column_stack([read(table[column]) for column in columns])
    return y, {} if columns == list(names) else dict(zip(names, columns, strict=True))


def _numbers(column: Series) -> Labels:
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column) or column.isna().any():
        check_target(column, "regression")
    return column.to_numpy(dtype=float)
