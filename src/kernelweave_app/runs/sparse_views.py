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
from kernelweave_app.runs.annotated_files import is_annotated_file, read_part
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.sparse_files import SVMLIGHT, TARGET, SparseFile, read_sparse

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
    asked: str | list[str], n_rows: int, table: str, read: Callable[[str], SparseFile] = read_sparse
) -> dict[str, Any]:
    """Sparse views by name, each with as many rows as the table."""
    found = {
        name: read_part(path) if is_annotated_file(path) else read(path).rows
        for name, path in name_views(asked).items()
    }
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
    lines = [
        *(["import anndata"] if any(map(is_annotated_file, files.values())) else []),
        "from scipy import io, sparse",
        "from sklearn.datasets import load_svmlight_file",
        "",
        "sparse_views = {",
    ]
    for name, path in files.items():
        if is_annotated_file(path):
            file, _, part = path.partition("#")
            group, _, key = part.partition("/")
            call = f"anndata.read_h5ad({file!r}).{f'{group}[{key!r}]' if key else 'X'}"
        else:
            call = sparse_call(path)
        lines.append(f"    {name!r}: sparse.csr_array({call}),")
    return [*lines, "}"]


def sparse_call(path: str) -> str:
    """The call that reads the rows of a sparse file in a script."""
    suffixes = {suffix.lower() for suffix in Path(path).suffixes}
    if ".npz" in suffixes:
        return f"sparse.load_npz({path!r})"
    return f"load_svmlight_file({path!r})[0]" if suffixes & set(SVMLIGHT) else f"io.mmread({path!r})"


def read_labelled(path: str, name: str) -> Joined:
    """An svmlight file as a table of labels, and its rows as a sparse view."""
    import pandas as pd

    found = read_sparse(path)
    if found.target is None:
        raise InputError(
            f"{path} has rows but no target. Pass the table with the target first, and this file as --view "
            f"{name}={path}."
        )
    return Joined(pd.DataFrame({TARGET: found.target}), {}, {}, {}, {}, {name: found.rows}, {name: path})


def with_views(
    data: Joined,
    asked: str | list[str],
    table: str,
    *,
    joined: bool,
    read: Callable[[str], SparseFile] = read_sparse,
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
        Reads a file.
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
