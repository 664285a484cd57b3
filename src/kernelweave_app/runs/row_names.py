"""Columns that name their rows, such as numbers of patients: they say nothing about new rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from kernelweave.views import Cells

if TYPE_CHECKING:
    from kernelweave._types import DataFrame, Series
    from kernelweave_app.runs.preparing import Prepared

#: Rows from which on names are told from measurements.
FEWEST_ROWS = 10
#: Share of the rows that have a value of their own.
MOSTLY = 0.9
#: What names are called: "id", "patient_id", "sample no", and "PatientID".
CALLED = re.compile(
    r"(?:^|[\W_])(?i:id|ids|idx|identifier|no|nr|number|accession|barcode)$|(?<=[a-z])(?:Id|ID|No|Nr)$"
)


def why_names(column: Series, name: str) -> str:
    """Why a column looks like names of its rows.

    Parameters
    ----------
    column : Series
    name : str

    Returns
    -------
    str
        Empty where it looks like a measurement: numbers with decimals, long texts, texts to read, values that return.

    Examples
    --------
    >>> import pandas as pd
    >>> why_names(pd.Series([f"p{k}" for k in range(20)]), "patient")
    'a text of its own in 20 of 20 rows'
    >>> why_names(pd.Series(range(1, 21)), "row")
    'whole numbers that count the rows'
    >>> why_names(pd.Series([3.0, 1.0, 2.0] * 20), "PatientID")
    ''
    """
    import pandas as pd

    known = column.dropna()
    n = len(known)
    if n < FEWEST_ROWS or n < MOSTLY * len(column):
        return ""
    kinds = pd.api.types
    if kinds.is_bool_dtype(column) or kinds.is_datetime64_any_dtype(column):
        return ""
    numeric = kinds.is_numeric_dtype(column)
    called = bool(CALLED.search(name))
    if numeric:
        values = known.to_numpy(dtype=np.float64)
        first = values.min()
        counts = first in (0.0, 1.0) and values.max() == first + n - 1
        if not (counts or called) or (values % 1 != 0).any():
            return ""
    n_distinct = known.nunique()
    if n_distinct < MOSTLY * n:
        return ""
    if numeric:
        if counts and n_distinct == n:
            return "whole numbers that count the rows"
        return f"whole numbers, another one in {n_distinct} of {len(column)} rows" if called else ""
    if Cells(known.tolist()).is_long_text:
        return ""
    return f"a text of its own in {n_distinct} of {len(column)} rows"


def find_row_names(table: DataFrame) -> dict[str, str]:
    """Columns of a table that look like names of its rows, and why."""
    found = {name: why_names(table[name], str(name)) for name in _worth_a_look(table)}
    return {name: why for name, why in found.items() if why}


def _worth_a_look(table: DataFrame) -> list[str]:
    """Columns but those of numbers that neither count the rows nor are called like names: a cheap look at many."""
    numbers = table.select_dtypes("number")
    low, high = numbers.min().to_numpy(dtype=float), numbers.max().to_numpy(dtype=float)
    count = ((low == 0.0) | (low == 1.0)) & (high <= low + len(table) - 1) & (high >= MOSTLY * len(table) - 1)
    plain = {
        name
        for name, counts in zip(numbers.columns, count, strict=True)
        if not (counts or CALLED.search(str(name)))
    }
    return [name for name in table.columns if name not in plain]


def row_names_in(prepared: Prepared) -> dict[str, str]:
    """Columns to learn from that look like names of the rows, and why."""
    return find_row_names(prepared.frame) if prepared.frame.shape[1] else {}
