"""Several tables as one: rows matched by a key, each table a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError
from kernelweave.runs.tables import is_text, look_at_text, need_column, read_table


@dataclass(frozen=True)
class Joined:
    """Tables side by side.

    Attributes
    ----------
    table : DataFrame
        The rows that every table has, in the order of the first; the key is its first column.
    views : dict of str to list of str
        Columns of each table.
    renamed : dict of str to dict
        Old and new names of columns that occur in more than one table.
    missing : dict of str to list
        Keys that some table has, and this one has not.
    reading : dict of str to dict
        What `pandas.read_csv` was told about each text table.
    """

    table: Any
    views: dict[str, list[str]]
    renamed: dict[str, dict[str, str]]
    missing: dict[str, list[Any]]
    reading: dict[str, dict[str, Any]] = field(default_factory=dict)


def name_tables(paths: list[str]) -> dict[str, str]:
    """Names for table files: what stands before the suffixes, numbered where that is not enough."""
    out: dict[str, str] = {}
    for path in paths:
        stem = Path(path).name.split(".")[0] or "table"
        name, number = stem, 2
        while name in out:
            name, number = f"{stem}-{number}", number + 1
        out[name] = path
    return out


def read_tables(paths: Mapping[str, str | Path], key: str) -> Joined:
    """Read one table, or several and join them.

    Parameters
    ----------
    paths : mapping of str to path
    key : str
        Only needed for several tables.

    Returns
    -------
    Joined
    """
    tables = {name: read_table(path) for name, path in paths.items()}
    data = join_tables(tables, key) if len(tables) > 1 else alone(tables)
    return replace(data, reading={name: look_at_text(Path(p))[0] for name, p in paths.items() if is_text(p)})


def alone(tables: Mapping[str, Any]) -> Joined:
    """One table, which needs no joining."""
    return Joined(next(iter(tables.values())), {}, {}, {})


def join_tables(tables: Mapping[str, Any], key: str) -> Joined:
    """Match the rows of several tables.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        By view name.
    key : str
        A column of every table, without missing or repeated values.

    Returns
    -------
    Joined
    """
    import pandas as pd

    if not key:
        raise InputError("Which column names the rows of the tables? Give the key, such as --key patient.")
    keys = {name: need_column(table, key, f"the key of table {name!r}") for name, table in tables.items()}
    for name, values in keys.items():
        if values.isna().any():
            raise InputError(
                f"Table {name!r}: the key {key!r} is missing in {int(values.isna().sum())} rows."
            )
        if values.duplicated().any():
            again = values[values.duplicated()].iloc[0]
            raise InputError(
                f"Table {name!r}: the key {key!r} must name one row each, but {again!r} occurs again."
            )
    renamed = rename_shared(tables, key)
    parts = {name: table.rename(columns=renamed[name]).set_index(key) for name, table in tables.items()}
    table = pd.concat(list(parts.values()), axis=1, join="inner").reset_index()
    if table.empty:
        raise InputError(
            f"The tables have no value of {key!r} in common. Is it the same kind of name in each of them?"
        )
    if table.columns.duplicated().any():
        raise InputError("The tables have columns of the same name. Rename them.")
    every = dict.fromkeys(k for part in parts.values() for k in part.index)
    missing = {}
    for name, part in parts.items():
        here = set(part.index)
        missing[name] = [k for k in every if k not in here]
    views = {name: list(part.columns) for name, part in parts.items()}
    return Joined(table, views, renamed, missing)


def rename_shared(tables: Mapping[str, Any], key: str) -> dict[str, dict[str, str]]:
    """New names of columns that several tables have: with the name of the table before them."""
    counts = Counter(c for table in tables.values() for c in table.columns if c != key)
    return {
        name: {c: f"{name}.{c}" for c in table.columns if counts[c] > 1} for name, table in tables.items()
    }
