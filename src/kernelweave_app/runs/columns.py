"""Columns that are read as something else than they look like: numbers that are codes, texts that are numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from kernelweave._errors import InputError, check_known
from kernelweave._types import DataFrame, Series
from kernelweave.views import as_texts
from kernelweave.views.groups import names_in
from kernelweave_app.runs.tables import need_column

#: Types of columns by name.
TYPES: tuple[Literal["number"], Literal["category"], Literal["text"]] = ("number", "category", "text")


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
    """A table with some columns as numbers, categories or texts.

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


def with_types_of(table: DataFrame, asked: str | Mapping[str, str]) -> DataFrame:
    """New rows with the types that a run gave its columns, of those that are there."""
    known = {name: kind for name, kind in read_types(asked).items() if name in table.columns}
    return table.assign(**{name: _as(table[name], kind, new=True) for name, kind in known.items()})


def read_types_of(folder: Path) -> dict[str, str]:
    """The types that the run in a folder gave its columns; none where it left no settings."""
    path = folder / "spec.toml"
    if not path.is_file():
        return {}
    try:
        return read_types(tomllib.loads(path.read_text(encoding="utf8")).get("types", ""))
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{path} cannot be read: {error}. Copy it from the run again.") from None


def _as(column: Series, kind: str, *, new: bool = False) -> Series:
    import pandas as pd

    if kind == "category":
        return column.astype("category")
    if kind == "text":
        return as_texts(column)
    found = pd.to_numeric(column, errors="coerce")
    if not new and not found.notna().any():
        raise InputError(
            f"Column {column.name!r} holds no number, such as {column.iloc[0]!r:.40}. Leave its type as it is."
        )
    return found


def type_lines(asked: str | Mapping[str, str]) -> list[str]:
    """Lines of a script that give columns of a table these types."""
    made = {
        "category": "table[{name!r}].astype('category')",
        "text": "kw.views.as_texts(table[{name!r}])",
        "number": "pd.to_numeric(table[{name!r}], errors='coerce')",
    }
    return [f"table[{name!r}] = {made[kind].format(name=name)}" for name, kind in read_types(asked).items()]
