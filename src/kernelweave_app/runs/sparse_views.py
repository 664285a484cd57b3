"""Sparse views beside a table of columns, for a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave.views import PrecomputedView, Views
from kernelweave.views.groups import names_in
from kernelweave_app.runs.formats import format_of, read_rows
from kernelweave_app.runs.joining import Joined

#: The name of the columns of the table beside sparse files.
TABLE = "table"


def name_views(asked: str | list[str]) -> dict[str, str]:
    """Files by the names of views, from texts such as "words=words.npz"."""
    found: dict[str, str] = {}
    for one in names_in(asked) if isinstance(asked, str) else asked:
        name, separator, path = (part.strip() for part in one.partition("="))
        if not separator or not name or not path:
            raise InputError(f"Setting `view` must be like 'words=words.npz', got {one!r:.100}.")
        if name in found or name == TABLE:
            raise InputError(f"Setting `view` has the name {name!r} twice, or it is taken. Choose another.")
        found[name] = path
    return found


def read_views(
    asked: str | list[str], n_rows: int, table: str, read: Callable[[str], Any] = read_rows
) -> dict[str, Any]:
    """Sparse views by name, each with as many rows as the table."""
    found = {name: read(path) for name, path in name_views(asked).items()}
    for name, rows in found.items():
        if rows.shape[0] != n_rows:
            raise InputError(
                f"View {name!r} has {rows.shape[0]} rows, but {table} has {n_rows}. Rows belong together by position: "
                "write the same ones, in the same order."
            )
    return found


def sparse_reading(files: Mapping[str, str]) -> list[str]:
    """Lines of a script that read sparse views into a dict of that name."""
    if not files:
        return []
    calls = {name: format_of(path).rows_call(path) for name, path in files.items()}
    return [
        *(["import anndata"] if any(call.startswith("anndata") for call in calls.values()) else []),
        "from scipy import io, sparse",
        "from sklearn.datasets import load_svmlight_file",
        "",
        "sparse_views = {",
        *(f"    {name!r}: sparse.csr_array({call})," for name, call in calls.items()),
        "}",
    ]


def with_views(
    data: Joined,
    asked: str | list[str],
    table: str,
    *,
    joined: bool,
    read: Callable[[str], Any] = read_rows,
) -> Joined:
    """Tables with sparse views from files.

    Parameters
    ----------
    data : Joined
    asked : str or list of str
        The setting `view`.
    table : str
        What messages call the table.
    joined : bool
        Whether rows of several tables were matched, so that sparse rows have no position.
    read : callable
        Reads the rows of a file.
    """
    if not asked:
        return data
    if joined:
        raise InputError(
            "Setting `view`: rows of sparse files belong to those of one table, by position, and `join` matches rows "
            "of several. Leave one of them out."
        )
    found = read_views(asked, len(data.table), table, read)
    files = {name: str(Path(path).resolve()) for name, path in name_views(asked).items()}
    if same := sorted(found.keys() & data.sparse.keys()):
        raise InputError(f"Setting `view` has the name {same[0]!r} twice. Choose another.")
    return replace(data, sparse={**data.sparse, **found}, files={**data.files, **files})


def is_further(table: Any) -> bool:
    """Whether a view is no frame: sparse rows, or a precomputed kernel."""
    return isinstance(table, PrecomputedView) or hasattr(table, "tocsr")


class Tables(Views):
    """A table and sparse views or kernels of the same rows, with what a frame has for those who look at its parts."""

    index: Any
    columns: list[str]

    def __init__(self, frame: DataFrame, groups: Mapping[str, list[str]], further: Mapping[str, Any]) -> None:
        parts = {name: frame[columns] for name, columns in groups.items()}
        if not groups and frame.shape[1]:
            parts = {TABLE: frame}
        if same := sorted(parts.keys() & further.keys()):
            raise InputError(f"There are two views {same[0]!r}. Choose another name for the one of a file.")
        super().__init__({**parts, **further})
        self.frame, self.groups = frame, dict(groups)
        self.index, self.columns = frame.index, list(frame.columns)

    @property
    def iloc(self) -> _Rows:
        """Some rows, by position."""
        return _Rows(self)


class _Rows:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def __getitem__(self, rows: Any) -> Tables:
        whole = self.tables
        further = {name: table[rows] for name, table in whole.views.items() if is_further(table)}
        return Tables(whole.frame.iloc[rows], whole.groups, further)
