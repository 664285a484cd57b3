"""Columns that are read as something else than they look like: numbers that are codes, texts that are numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from kernelweave._errors import InputError, check_known
from kernelweave._types import DataFrame, Series
from kernelweave.runs.tables import need_column
from kernelweave.views.groups import names_in

#: Types of columns by name.
TYPES: tuple[Literal["number"], Literal["category"]] = ("number", "category")


def read_types(asked: str | Mapping[str, str]) -> dict[str, str]:
    """Types of columns by name, from a text such as "site=category,dose=number".

    Examples
    --------
    >>> read_types("site=category, dose=number")
    {'site': 'category', 'dose': 'number'}
    """
    if not isinstance(asked, str):
        return dict(asked)
    found = {}
    for part in names_in(asked):
        name, separator, kind = (text.strip() for text in part.rpartition("="))
        if not separator or not name:
            raise InputError(f"Setting `types` must be like 'site=category,dose=number', got {part!r:.60}.")
        found[name] = check_known(kind, TYPES, "type")
    return found


def with_types(table: DataFrame, asked: str | Mapping[str, str]) -> DataFrame:
    """A table with some columns as numbers or categories.

    Parameters
    ----------
    table : DataFrame
        It is not changed.
    asked : str or mapping of str to str
        The setting `types`.

    Returns
    -------
    DataFrame

    Raises
    ------
    InputError
        For unknown columns and types, and columns without any number that are to be numbers.
    """
    changed = {
        name: _as(need_column(table, name, "`types`"), kind) for name, kind in read_types(asked).items()
    }
    return table.assign(**changed) if changed else table


def _as(column: Series, kind: str) -> Series:
    import pandas as pd

    if kind == "category":
        return column.astype("category")
    found = pd.to_numeric(column, errors="coerce")
    if not found.notna().any():
        raise InputError(
            f"Column {column.name!r} holds no number, such as {column.iloc[0]!r:.40}. Leave its type as it is."
        )
    return found


def type_lines(asked: str | Mapping[str, str]) -> list[str]:
    """Lines of a script that give columns of a table these types."""
    lines = []
    for name, kind in read_types(asked).items():
        made = (
            f"table[{name!r}].astype('category')"
            if kind == "category"
            else f"pd.to_numeric(table[{name!r}], errors='coerce')"
        )
        lines.append(f"table[{name!r}] = {made}")
    return lines
