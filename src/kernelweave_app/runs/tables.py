"""Columns of tables: found by name, their cells, and what kind of target they are."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Iterable
from typing import Any

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave._types import DataFrame, Labels, Series

#: Distinct whole numbers that are taken for classes.
CLASSES_AT_MOST = 10


def columns_of_objects(table: DataFrame, names: Iterable[str]) -> list[str]:
    """Columns of Python objects, such as text."""
    # asking each column for its type takes long where there are many
    found = {name for name, kind in zip(table.columns, table.dtypes, strict=True) if str(kind) == "object"}
    return [name for name in names if name in found]


def check_cells(table: DataFrame, names: list[str]) -> None:
    """Raise if cells of some columns are neither numbers nor text, such as the lists of a Parquet file."""
    for name in columns_of_objects(table, names):
        if not hold_only(table[name], str | numbers.Real):
            kinds = sorted({type(cell).__name__ for cell in table[name]})
            raise InputError(
                f"Cells must be numbers or text, but column {name!r} holds {', '.join(kinds[:3])}. Leave it out, or "
                "convert it to columns of numbers or text."
            )


def hold_only(column: Series, kinds: Any) -> bool:
    """Whether all cells that are not missing are of some kinds."""
    import pandas as pd

    known = (cell for cell in column if not (pd.api.types.is_scalar(cell) and pd.isna(cell)))
    return all(isinstance(cell, kinds) for cell in known)


def need_column(table: DataFrame, name: str, what: str) -> Series:
    """Return a column by name; unknown names get the closest ones."""
    if name in table.columns:
        return table[name]
    close = difflib.get_close_matches(name, list(table.columns), n=3)
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    listing = ", ".join(map(repr, list(table.columns)[:12])) + (", ..." if table.shape[1] > 12 else "")
    raise InputError(f"There is no column {name!r} for {what}.{hint} Columns: {listing}.")


def detect_task(target: Series, task: str) -> tuple[str, str]:
    """Return the task and the reason for it."""
    import pandas as pd

    if target.dtype.kind in "mMc":
        raise InputError(
            f"Column {target.name!r} holds {target.dtype}, but a target must be numbers or classes. Convert it, for "
            "example to days since a reference date."
        )
    if task != "auto":
        return task, "as asked"
    distinct = target.nunique()
    if not pd.api.types.is_numeric_dtype(target) or pd.api.types.is_bool_dtype(target):
        return "classification", f"the target is not numeric ({distinct} classes)"
    whole = (target.dropna() % 1 == 0).all()
    if whole and distinct <= CLASSES_AT_MOST:
        return "classification", f"the target has {distinct} distinct whole numbers"
    return "regression", f"the target is numeric with {distinct} distinct values"


def check_target(target: Series, task: str) -> Labels:
    """Return the target as an array after checking for missing values."""
    import numpy as np
    import pandas as pd

    missing = int(target.isna().sum())
    if missing:
        raise InputError(
            f"Column {target.name!r} has {missing} missing values (NaN); a target must be known. Drop these rows."
        )
    if task == "regression":
        if not pd.api.types.is_numeric_dtype(target):
            raise InputError(f"Column {target.name!r} holds text, but regression needs numbers.")
        values = target.to_numpy(dtype=float)
        if np.ptp(values) == 0:
            raise InputError(
                f"Column {target.name!r} is constant ({values[0]:g}): there is nothing to learn."
            )
        return values
    return target.to_numpy(dtype=object if not pd.api.types.is_numeric_dtype(target) else None)


def describe(table: DataFrame) -> str:
    """One line about rows, columns and types."""
    import pandas as pd

    numeric = sum(
        pd.api.types.is_numeric_dtype(table[c]) and not pd.api.types.is_bool_dtype(table[c]) for c in table
    )
    others = table.shape[1] - numeric
    rows, columns = numbered(table.shape[0], "row"), numbered(table.shape[1], "column")
    return f"{rows}, {columns} ({numeric} numeric, {others} categorical)"
