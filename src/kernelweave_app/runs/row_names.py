"""Columns of a table that look like names of its rows."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from kernelweave._types import DataFrame, Series
from kernelweave.views import Cells
from kernelweave.views.levels import FEWEST_ROWS, MOSTLY, identifier, is_called
from kernelweave_app.runs.columns import date_format


def find_row_names(table: DataFrame) -> dict[str, str]:
    """Columns of a table that look like names of its rows, and why."""
    # a cheap look at many: numbers that neither count the rows nor are called like names are left out
    numbers = table.select_dtypes("number")
    low, high = numbers.min().to_numpy(dtype=float), numbers.max().to_numpy(dtype=float)
    count = ((low == 0.0) | (low == 1.0)) & (high <= low + len(table) - 1) & (high >= MOSTLY * len(table) - 1)
    plain = {name for name in numbers.columns[~count] if not is_called(str(name))}
    found = {name: why_names(table[name], str(name)) for name in table.columns if name not in plain}
    return {name: why for name, why in found.items() if why}


def why_names(column: Series, name: str) -> str:
    """Why a column looks like names of its rows: an identifier, other texts that all differ, or a count of the rows.

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
    '20 distinct values in 20 rows'
    >>> why_names(pd.Series(range(1, 21)), "row")
    'whole numbers that count the rows'
    >>> why_names(pd.Series([3.0, 1.0, 2.0] * 20), "PatientID")
    ''
    """
    import pandas as pd

    known, kinds = column.dropna(), pd.api.types
    if column.dtype == object and not Cells(known.tolist()).are(str):
        return ""
    n, n_distinct = len(known), int(known.nunique())
    if n < max(FEWEST_ROWS, MOSTLY * len(column)) or n_distinct < MOSTLY * n:
        return ""
    if kinds.is_bool_dtype(column) or kinds.is_datetime64_any_dtype(column) or date_format(column):
        return ""
    if not kinds.is_numeric_dtype(column):
        texts = Cells(known.tolist())
        return "" if texts.is_long_text else f"{n_distinct} distinct values in {len(column)} rows"
    values = known.to_numpy(dtype=np.float64)
    first = values.min()
    if (values % 1 != 0).any():
        return ""
    if first in (0.0, 1.0) and values.max() == first + n - 1 and n_distinct == n:
        return "whole numbers that count the rows"
    return identifier(values, name, len(column))


def column_of_names(table: DataFrame, others: Collection[str]) -> str:
    """The column that names the rows in tables of predictions; empty for none.

    Parameters
    ----------
    table : DataFrame
    others : collection of str
        Columns that are something else, such as the target.

    Returns
    -------
    str
        The first that is called like names of rows, else the first of texts that all differ.

    Examples
    --------
    >>> import pandas as pd
    >>> texts = [f"p{k}" for k in range(20)]
    >>> column_of_names(pd.DataFrame({"a": range(20), "who": texts, "patient_id": texts, "y": texts}), ["y"])
    'patient_id'
    """
    from pandas.api.types import is_numeric_dtype

    found = [str(name) for name in find_row_names(table[[name for name in table if name not in others]])]
    called = [name for name in found if is_called(name)]
    return next(iter([*called, *(name for name in found if not is_numeric_dtype(table[name]))]), "")


def left_out(column: Series, name: str) -> str:
    """Why the default kernels leave out a column: it is an identifier; empty where they read it."""
    import pandas as pd

    known = column.dropna()
    if not len(known) or pd.api.types.is_bool_dtype(column) or str(column.dtype) == "category":
        return ""
    if pd.api.types.is_numeric_dtype(column):
        return identifier(known.to_numpy(dtype=np.float64), name, len(column))
    texts = Cells(known.tolist())
    return identifier(known.tolist(), name, len(column)) if texts.are(str) and not texts.is_long_text else ""
