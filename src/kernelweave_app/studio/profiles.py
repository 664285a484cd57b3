"""What a table holds: types, missing values, ranges."""

from __future__ import annotations

import numpy as np

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave._types import DataFrame, Series
from kernelweave_app.runs.division import counts_of, read_division, texts_of
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.tables import check_target, detect_task, need_column
from kernelweave_app.studio.schema import Marked, Rows, Side, Table, Target

#: Columns that are described at once.
MOST_COLUMNS = 500
#: Values of a column that marks held-out rows, in a list to choose from.
MOST_MARKS = 50
#: Characters of a cell.
LONGEST_CELL = 80


def describe_table(table: DataFrame, table_id: str, name: str) -> Table:
    """Size, types and missing values of a table."""
    missing = table.isna()
    return Table(
        id=table_id,
        name=name,
        n_rows=len(table),
        n_columns=table.shape[1],
        n_numeric=len(numeric_columns(table)),
        n_missing=int(missing.to_numpy().sum()),
        rows_missing=int(missing.any(axis=1).sum()),
        memory=memory_of(table),
    )


def memory_of(table: DataFrame) -> int:
    """Bytes of a table; columns of numbers are counted together, which is quick for many of them."""
    kinds = list(table.dtypes)
    plain = [isinstance(kind, np.dtype) and kind.kind != "O" for kind in kinds]
    others = [j for j in range(len(kinds)) if not plain[j]]
    numbers = sum(kinds[j].itemsize for j in range(len(kinds)) if plain[j])
    # cells that are Python objects count with what they hold
    return numbers * len(table) + int(table.iloc[:, others].memory_usage(index=False, deep=True).sum())


def numeric_columns(table: DataFrame) -> list[str]:
    """Columns of numbers; yes and no are not numbers."""
    import pandas as pd

    is_number, is_bool = pd.api.types.is_numeric_dtype, pd.api.types.is_bool_dtype
    return [c for c, kind in table.dtypes.items() if is_number(kind) and not is_bool(kind)]


def cell(value: object) -> str | None:
    """A cell as short text; None where it is missing."""
    import pandas as pd

    if pd.isna(value):
        return None
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"


def take_rows(table: DataFrame, start: int, number: int, names: list[str]) -> Rows:
    """Some rows of some columns as text."""
    part = table[names].iloc[start : start + number]
    return Rows(
        total=len(table),
        columns=names,
        rows=[[cell(value) for value in row] for row in part.itertuples(index=False, name=None)],
    )


def describe_sides(joined: Joined, tables: dict[str, DataFrame], ids: dict[str, str]) -> list[Side]:
    """For each of several tables, which rows of the others it lacks."""
    return [
        Side(
            id=ids[name],
            name=name,
            n_rows=len(table),
            n_missing=len(joined.missing.get(name, [])),
            examples=[str(k) for k in joined.missing.get(name, [])[:5]],
        )
        for name, table in tables.items()
    ]


def describe_target(table: DataFrame, name: str, task: str) -> Target:
    """The task that a target column implies, and what is wrong with it."""
    column = need_column(table, name, "the target")
    found, reason = detect_task(column, task)
    problem = ""
    try:
        check_target(column, found)
    except InputError as error:
        problem = str(error)
    classes: dict[str, int] = {}
    low = high = None
    if found == "classification":
        counts = column.value_counts()
        if len(counts) > min(200, max(10, len(column) // 2)):
            problem = (
                problem
                or f"{len(counts)} classes for {numbered(len(column), 'row')}: is this an identifier or a number?"
            )
        if len(counts) < 2:
            problem = problem or "There is only one class: nothing to learn."
        classes = {str(k): int(v) for k, v in counts.head(50).items()}
    elif not problem:
        low, high = float(column.min()), float(column.max())
    return Target(
        task=found,  # type: ignore[arg-type]
        reason=reason,
        n_missing=int(column.isna().sum()),
        classes=classes,
        low=low,
        high=high,
        problem=problem,
    )


def describe_division(column: Series, asked: str | list[str]) -> Marked:
    """The rows that a column holds out, or why they cannot be told."""
    counts = counts_of(texts_of(column))
    values = dict(list(counts.items())[:MOST_MARKS])
    try:
        _, found = read_division(column, asked)
    except InputError as error:
        return Marked(n_held=0, n_training=0, said="", problem=str(error), values=values, held=[], swapped=[])
    swapped = list(found.training)
    if asked:
        try:
            usual = read_division(column)[1]
        except InputError:
            pass
        else:
            swapped = [] if usual.held == found.training else swapped
    return Marked(
        n_held=found.n_held,
        n_training=found.n_training,
        said="" if found.problem else found.said,
        problem=found.problem,
        values=values,
        held=list(found.held)[:MOST_MARKS],
        swapped=swapped,
    )
