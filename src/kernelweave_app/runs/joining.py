"""Several tables as one: rows matched by a key, each table a view."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from kernelweave._errors import InputError
from kernelweave._forms import names_in, numbered
from kernelweave._types import DataFrame
from kernelweave_app.runs.columns import need_column
from kernelweave_app.runs.folders import read_kept

#: File of a run with the layout of its joined tables.
LAYOUT = "tables.json"


@dataclass(frozen=True)
class Joined:
    """Tables side by side.

    Attributes
    ----------
    table : DataFrame
        The rows that every table has, in the order of the first, or all rows; the key is its first column.
    views : dict of str to list of str
        Columns of each table.
    renamed : dict of str to dict
        Old and new names of columns that occur in more than one table.
    missing : dict of str to list
        Keys of other tables that this one does not have.
    sparse : dict of str to CSR array
        Further views of the same rows.
    files : dict of str to str
        Where they were read from.
    kinds : dict of str to dtype
        Types of the columns before rows were added that lack them.
    by_order : bool
        Whether rows were matched by their order instead of a key.
    grams : dict of str to GramView
        Precomputed kernels as further views.
    names : str
        Column with names of rows, which is no feature; empty for none.
    parts : tuple of str
        Parts of a file that are columns of the table.
    """

    table: Any
    views: dict[str, list[str]] = field(default_factory=dict)
    renamed: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, list[Any]] = field(default_factory=dict)
    sparse: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, Any] = field(default_factory=dict)
    by_order: bool = False
    grams: dict[str, Any] = field(default_factory=dict)
    names: str = ""
    parts: tuple[str, ...] = ()

    @property
    def further(self) -> dict[str, Any]:
        """Views of the rows beside the table: sparse ones, and precomputed kernels."""
        return {**self.sparse, **{name: one.view for name, one in self.grams.items()}}

    def table_of(self, column: str) -> str | None:
        """The table with a column, if there are several."""
        return next((name for name, columns in self.views.items() if column in columns), None)


def name_tables(paths: list[str]) -> dict[str, str]:
    """Names for table files: the file names without suffixes, numbered if they are not unique."""
    out: dict[str, str] = {}
    for path in paths:
        stem = Path(path).name.split(".")[0] or "table"
        name, number = stem, 2
        while name in out:
            name, number = f"{stem}-{number}", number + 1
        out[name] = path
    return out


def files_in(asked: str | list[str]) -> list[str]:
    """Files in a list, or in a text with commas between them, unless the text itself is the name of a file."""
    return [asked] if isinstance(asked, str) and Path(asked).is_file() else names_in(asked)


def join_tables(tables: Mapping[str, DataFrame], key: str, rows: str = "shared") -> Joined:
    """Match the rows of several tables.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        By view name.
    key : str
        A column of every table, without missing or repeated values.
    rows : {"shared", "all", "order"}, default="shared"
        Keep the rows that every table has, or all; then cells of tables that lack a row are missing. Or rows of the
        same number belong together, and there is no key.

    Returns
    -------
    Joined
    """
    import pandas as pd

    by_order = rows == "order"
    if by_order:
        key = ""
        sizes = {name: len(table) for name, table in tables.items()}
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{name!r} has {size}" for name, size in sizes.items())
            raise InputError(
                f"Rows can be matched by their order only in tables of equally many: {told}. Name a key."
            )
    elif not key:
        raise InputError("Which column names the rows of the tables? Give its name as `key`.")
    keys = {
        name: need_column(table, key, f"the key of table {name!r}") for name, table in tables.items() if key
    }
    for name, values in keys.items():
        if values.isna().any():
            raise InputError(
                f"Table {name!r}: the key {key!r} is missing in {numbered(int(values.isna().sum()), 'row')}."
            )
        if values.duplicated().any():
            again = values[values.duplicated()].iloc[0]
            raise InputError(
                f"Table {name!r}: the key {key!r} must name one row each, but {again!r} occurs again."
            )
    renamed = rename_shared(tables, key)
    parts = {name: table.rename(columns=renamed[name]) for name, table in tables.items()}
    parts = {
        name: part.set_index(key) if key else part.reset_index(drop=True) for name, part in parts.items()
    }
    if not set.intersection(*({*part.index} for part in parts.values())):
        raise InputError(
            f"The tables have no value of {key!r} in common. Is it the same kind of key in each of them?"
        )
    table = pd.concat(list(parts.values()), axis=1, join="outer" if rows == "all" else "inner")
    table = table.rename_axis(key).reset_index() if key else table
    if table.columns.duplicated().any():
        raise InputError("The tables have columns of the same name. Rename them.")
    views = {name: list(part.columns) for name, part in parts.items()}
    if by_order:
        return Joined(table, views, renamed, by_order=True)
    every = dict.fromkeys(k for part in parts.values() for k in part.index)
    here = {name: set(part.index) for name, part in parts.items()}
    missing = {name: [k for k in every if k not in some] for name, some in here.items()}
    kinds = {str(c): kind for part in parts.values() for c, kind in part.dtypes.items()}
    return Joined(table, views, renamed, missing, kinds=kinds if rows == "all" else {})


def rename_shared(tables: Mapping[str, DataFrame], key: str) -> dict[str, dict[str, str]]:
    """New names of columns that several tables have: with the name of the table as a prefix."""
    counts = Counter(c for table in tables.values() for c in table.columns if c != key)
    return {
        name: {c: f"{name}.{c}" for c in table.columns if counts[c] > 1} for name, table in tables.items()
    }


# ---- new tables for a fitted model ----------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """How tables were joined to learn from.

    Attributes
    ----------
    key : str
    tables : dict of str to dict
        For each table its columns: their names there, and those after joining.
    rows : {"shared", "all", "order"}
        See `join_tables`.
    """

    key: str
    tables: dict[str, dict[str, str]]
    rows: str = "shared"


def layout_text(data: Joined, key: str, name: str) -> str:
    """The layout of tables as JSON; `name` is the file of a single one."""
    views = data.views or {Path(name).name.split(".")[0]: [c for c in data.table.columns if c != key]}
    tables = {}
    for table, columns in views.items():
        plain = {new: old for old, new in data.renamed.get(table, {}).items()}
        tables[table] = {plain.get(c, c): c for c in columns}
    rows = "order" if data.by_order else "all" if data.kinds else "shared"
    return json.dumps({"key": key, "tables": tables, "rows": rows})


def read_layout(folder: Path) -> Layout | None:
    """The layout in the folder of a run; None if its rows have no key."""
    return read_kept(folder / LAYOUT, TypeAdapter(Layout).validate_json, None)


def join_new(
    tables: Mapping[str, DataFrame], layout: Layout | None, needed: list[str], key: str
) -> tuple[Joined, dict[str, str]]:
    """Join new tables as those that a model was learnt from.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        By name, in their order.
    layout : Layout or None
        Of the run.
    needed : list of str
        Columns of the model.
    key : str
        Default the key of the run.

    Returns
    -------
    joined : Joined
    stands_for : dict of str to str
        For each table of the run the new one that replaces it; empty if there was nothing to match.
    """
    several = layout is not None and len(layout.tables) > 1
    [first, *others] = tables.values()
    if not others and (not several or set(needed) <= set(first.columns)):
        return Joined(first), {}
    if layout is None or not several:
        return join_tables(tables, key), {}
    key = "" if layout.rows == "order" else key or layout.key
    for name, table in tables.items() if key else ():
        need_column(table, key, f"the key of table {name!r}")
    stands_for = match_tables(tables, layout, needed)
    parts = {}
    for old, new in stands_for.items():
        names = {c: to for c, to in layout.tables[old].items() if c in tables[new].columns and c != key}
        parts[old] = tables[new][[*([key] if key else []), *names]].rename(columns=names)
    return join_tables(parts, key, layout.rows), stands_for


def match_tables(tables: Mapping[str, DataFrame], layout: Layout, needed: list[str]) -> dict[str, str]:
    """Which new table replaces which of a run: by their names, else by their order, else by their columns.

    Parameters
    ----------
    tables : mapping of str to DataFrame
    layout : Layout
    needed : list of str
        Columns of the model.

    Returns
    -------
    dict of str to str
    """
    olds, news = list(layout.tables), list(tables)
    if len(olds) != len(news):
        raise InputError(
            f"The model was learnt from {len(olds)} tables ({', '.join(olds)}), but {len(news)} "
            f"({', '.join(news)}) {'was' if len(news) == 1 else 'were'} given. Give one for each, in this order."
        )
    wanted = set(needed)
    lacks = {
        (old, new): [c for c, to in columns.items() if to in wanted and c not in tables[new].columns]
        for old, columns in layout.tables.items()
        for new in news
    }
    usual = pair_names(olds, news)
    if not any(lacks[pair] for pair in usual.items()):
        return usual
    found = _by_columns(olds, news, lacks)
    if found is not None:
        return found
    old, new = next(pair for pair in usual.items() if lacks[pair])
    raise InputError(
        f"Table {new!r}, used for {old!r} of the run, has no column {lacks[old, new][0]!r} "
        f"({len(lacks[old, new])} are missing). Give the tables in the order {', '.join(olds)}, or rename their files."
    )


def pair_names(olds: list[str], news: list[str]) -> dict[str, str]:
    """Which of as many new names replaces which: by the words in them, such as rna and rna_new, else by their order."""
    if set(olds) == set(news):
        return {old: old for old in olds}
    words = {name: set(re.split(r"[\W_]+", name.casefold())) for name in (*olds, *news)}
    found = [[new for new in news if words[old] <= words[new]] for old in olds]
    if all(len(some) == 1 for some in found) and len({new for [new] in found}) == len(olds):
        news = [new for [new] in found]
    return dict(zip(olds, news, strict=True))


def _by_columns(
    olds: list[str], news: list[str], lacks: Mapping[tuple[str, str], list[str]]
) -> dict[str, str] | None:
    """The only assignment in which each table has the required columns, if there is exactly one."""
    left = {old: {new for new in news if not lacks[old, new]} for old in olds}
    pairs: dict[str, str] = {}
    # if there is only one assignment, some table always has exactly one choice
    while left:
        old = next((old for old, some in left.items() if len(some) == 1), None)
        if old is None:
            return None
        [new] = left.pop(old)
        pairs[old] = new
        left = {other: some - {new} for other, some in left.items()}
    return {old: pairs[old] for old in olds}
