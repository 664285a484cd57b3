"""Views from files of their own beside a table, sparse rows and precomputed kernels: for a fit and for new rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError
from kernelweave._forms import names_in
from kernelweave._types import DataFrame
from kernelweave.views import PrecomputedView, Views, precomputed
from kernelweave.views.encoding import GramEncoder
from kernelweave_app.runs.columns import need_column
from kernelweave_app.runs.folders import read_kept
from kernelweave_app.runs.formats import format_of, read_rows
from kernelweave_app.runs.formats.kernel_matrices import GramFile, name_of, read_grams
from kernelweave_app.runs.joining import Joined, pair_names

#: The name of the columns of the table beside these views.
TABLE = "table"
#: File of a run with the names of the rows of its kernel matrices.
GRAMS = "grams.json"


@dataclass(frozen=True)
class Readers:
    """What reads the files: sparse rows, and kernel matrices."""

    rows: Callable[[str], Any] = read_rows
    grams: Callable[[str], GramFile] = read_grams


READERS = Readers()


@dataclass(frozen=True)
class GramView:
    """A kernel matrix as a view of the rows of a table.

    Attributes
    ----------
    view : PrecomputedView
        Its rows are those of the table.
    path : str
    array : str
        The name of the matrix in the file.
    file : GramFile
    column : str
        The column of the table with these names; empty where rows belong together by position.
    """

    view: PrecomputedView
    path: str
    array: str
    file: GramFile
    column: str


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
        self.frame, self.groups, self.further = frame, dict(groups), dict(further)
        self.index, self.columns = frame.index, list(frame.columns)

    @property
    def iloc(self) -> _Rows:
        """Some rows, by position."""
        return _Rows(self)


@dataclass(frozen=True)
class _Rows:
    tables: Tables

    def __getitem__(self, rows: Any) -> Tables:
        whole = self.tables
        further = {name: table[rows] for name, table in whole.further.items()}
        return Tables(whole.frame.iloc[rows], whole.groups, further)


# ---- for a fit ----------------------------------------------------------------------------------------


def with_further(
    data: Joined,
    view: str | Sequence[str],
    gram: str | Sequence[str],
    key: str,
    table: str,
    *,
    joined: bool,
    readers: Readers = READERS,
) -> Joined:
    """Tables with sparse views and kernels from files.

    Parameters
    ----------
    data : Joined
    view, gram : str or list of str
        The settings of these names.
    key : str
        Column that names the rows of kernels; else a column with all names of a file is searched for.
    table : str
        What messages call the table.
    joined : bool
        Whether rows of several tables were matched, so that rows of a file without names have no position.
    readers : Readers
    """
    if view:
        if joined:
            raise InputError(
                "Setting `view`: rows of sparse files belong to those of one table, by position, and `join` matches "
                "rows of several. Leave one of them out."
            )
        found = read_views(view, len(data.table), table, readers)
        if same := sorted(found.keys() & data.sparse.keys()):
            raise InputError(f"Setting `view` has the name {same[0]!r} twice. Choose another.")
        files = {name: str(Path(path).resolve()) for name, path in name_views(view).items()}
        data = replace(data, sparse={**data.sparse, **found}, files={**data.files, **files})
    if not gram:
        return data
    grams: dict[str, GramView] = {}
    for name, (path, array, file) in named_grams(gram, readers).items():
        if name in data.sparse or name in data.views:
            raise InputError(
                f"There are two views {name!r}. Name the kernel, such as --gram kernel={Path(path).name}."
            )
        what = f"Kernel {name!r} of {Path(path).name}"
        file.check(array, what)
        column, rows = match_rows(data.table, file, what, key, joined=joined)
        grams[name] = GramView(precomputed(file.matrices[array])[rows], path, array, file, column)
    return replace(data, grams=grams)


def name_views(asked: str | Sequence[str]) -> dict[str, str]:
    """Files by the names of views, from texts such as "words=words.npz"."""
    found: dict[str, str] = {}
    for one in names_in(asked):
        name, separator, path = (part.strip() for part in one.partition("="))
        if not separator or not name or not path:
            raise InputError(f"Setting `view` must be like 'words=words.npz', got {one!r:.100}.")
        if name in found or name == TABLE:
            raise InputError(f"Setting `view` has the name {name!r} twice, or it is taken. Choose another.")
        found[name] = path
    return found


def read_views(
    asked: str | Sequence[str], n_rows: int, table: str, readers: Readers = READERS
) -> dict[str, Any]:
    """Sparse views by name, each with as many rows as the table."""
    found = {name: readers.rows(path) for name, path in name_views(asked).items()}
    for name, rows in found.items():
        if rows.shape[0] != n_rows:
            raise InputError(
                f"View {name!r} has {rows.shape[0]} rows, but {table} has {n_rows}. Rows belong together by position: "
                "write the same ones, in the same order."
            )
    return found


def named_grams(
    asked: str | Sequence[str], readers: Readers = READERS
) -> dict[str, tuple[str, str, GramFile]]:
    """Files of kernels from texts such as "similarity=K.npy" or "grams.npz".

    Parameters
    ----------
    asked : str or list of str
    readers : Readers

    Returns
    -------
    dict of str to (path, array, GramFile)
        By the name of the view: that of the text, or of the array where a file has several, or else of the file.
    """
    found: dict[str, tuple[str, str, GramFile]] = {}
    for one in names_in(asked):
        name, separator, path = (part.strip() for part in one.partition("="))
        if not separator or "/" in name or Path(one).exists():
            name, path = "", one.strip()
        if not path:
            raise InputError(
                f"Setting `gram` must be like 'grams.npz' or 'similarity=K.npy', got {one!r:.100}."
            )
        file = readers.grams(path)
        stem = name or Path(path).name.split(".")[0] or "kernel"
        several = len(file.matrices) > 1
        for array in file.matrices:
            view = (f"{name}.{array}" if name else array) if several else stem
            if view in found and several and not name:
                view = f"{stem}.{array}"
            if view in found:
                raise InputError(
                    f"Setting `gram` has the name {view!r} twice. Give another, such as --gram other={path}."
                )
            found[view] = (str(Path(path).resolve()), array, file)
    return found


def match_rows(
    table: DataFrame, file: GramFile, what: str, key: str, *, joined: bool = False
) -> tuple[str, NDArray[np.intp]]:
    """Which row of a kernel belongs to each row of a table.

    Returns
    -------
    column : str
        The column with the names; empty where rows belong together by position.
    rows : array of int
    """
    n_rows, _ = file.shape
    if file.rows is None:
        if joined:
            raise InputError(
                f"{what} has no names of rows, and rows of several tables were matched by {key!r}. Save the file with "
                "an array names."
            )
        if len(table) != n_rows:
            raise InputError(
                f"{what} has {n_rows} rows, but the table has {len(table)}. Without names of rows they belong together "
                "by position: save the file with an array names, or write the same rows in the same order."
            )
        return "", np.arange(n_rows)
    place = {name: k for k, name in enumerate(file.rows)}
    column = key
    for other in () if key else table.columns:
        cells = table[other]
        # all cells are names of rows, each of them once
        if name_of(cells.iloc[0]) in place and cells.is_unique and all(name_of(c) in place for c in cells):
            column = str(other)
            break
    if not column:
        few = ", ".join(map(repr, file.rows[:3]))
        raise InputError(
            f"{what} names its rows ({few}, ...), but no column of the table holds these names. Give the column as "
            "--key, or leave the names out of the file if rows belong together by position."
        )
    names = [name_of(value) for value in need_column(table, column, "the key")]
    lacking = [name for name in names if name not in place]
    if lacking:
        raise InputError(
            f"{what} lacks {len(lacking)} of the {len(names)} rows of the table by their {column!r}, such as "
            f"{', '.join(map(repr, lacking[:3]))}. Leave these rows out, or compute their kernel values."
        )
    return column, np.array([place[name] for name in names], dtype=np.intp)


# ---- for new rows -------------------------------------------------------------------------------------


def grams_text(data: Joined) -> str:
    """Names of the rows of kernels, as JSON, by which the columns of new files are found."""
    views = {name: {"names": one.file.rows, "column": one.column} for name, one in data.grams.items()}
    return json.dumps({"grams": views})


def _names_of_rows(text: str) -> dict[str, tuple[str, ...]]:
    """Names of the rows of the kernels of a run, from its file, for those that have some."""
    views = json.loads(text)["grams"]
    return {str(view): tuple(map(str, one["names"])) for view, one in views.items() if one["names"]}


def new_grams(
    encoders: Mapping[str, GramEncoder],
    asked: str | Sequence[str],
    table: DataFrame,
    folder: Path,
    key: str,
    readers: Readers = READERS,
) -> tuple[dict[str, PrecomputedView], dict[str, str]]:
    """Kernel values of new rows with training rows, by view.

    Parameters
    ----------
    encoders : mapping of str to GramEncoder
        Of the views of a model that are kernels.
    asked : str or list of str
        Files, as the setting `gram`.
    table : DataFrame
        The new rows.
    folder : Path
        Of the run.
    key : str
        Column that names the new rows.
    readers : Readers

    Returns
    -------
    views : dict of str to PrecomputedView
    stands_for : dict of str to str
        For each kernel of the run the new one that replaces it, where names differ.
    """
    given = named_grams(asked, readers) if asked else {}
    if len(given) != len(encoders):
        raise InputError(
            f"The model has the precomputed kernels {', '.join(encoders) or 'none'}, got {', '.join(given) or 'none'}. "
            f"Pass {' '.join(f'--gram {view}=FILE' for view in encoders) or 'no --gram'}."
        )
    names: dict[str, tuple[str, ...]] = read_kept(folder / GRAMS, _names_of_rows, {})
    stands_for = pair_names(list(encoders), list(given))
    out = {}
    for view, new in stands_for.items():
        (path, array, file), encoder = given[new], encoders[view]
        what, K = f"Kernel {view!r} of {Path(path).name}", file.matrices[array]
        _, rows = match_rows(table, file, what, key)
        if file.columns is not None and view in names:
            place = {name: k for k, name in enumerate(file.columns)}
            wanted = [names[view][k] for k in encoder.columns_]
            lacking = [name for name in wanted if name not in place]
            if lacking:
                raise InputError(
                    f"{what} lacks the columns of {len(lacking)} of {len(wanted)} training rows, such as "
                    f"{', '.join(map(repr, lacking[:3]))}."
                )
            K = K[:, [place[name] for name in wanted]]
        elif K.shape[1] not in (encoder.n_columns_, len(encoder.columns_)):
            raise InputError(
                f"{what} must have a column for each of the {len(encoder.columns_)} training rows, or of the "
                f"{encoder.n_columns_} rows of the matrix of the fit, in their order, got {K.shape[1]} columns."
            )
        out[view] = precomputed(K)[rows]
    return out, {old: new for old, new in stands_for.items() if old != new}


# ---- scripts ------------------------------------------------------------------------------------------


def further_lines(data: Joined) -> tuple[list[str], list[str]]:
    """Lines of a script that read sparse views into a dict `sparse_views`, and kernels into a dict `grams`."""
    calls = {name: format_of(path).rows_call(path) for name, path in data.files.items()}
    views = [
        *(["import anndata"] if any(call.startswith("anndata") for call in calls.values()) else []),
        "from scipy import io, sparse",
        "from sklearn.datasets import load_svmlight_file",
        "",
        "sparse_views = {",
        *(f"    {name!r}: sparse.csr_array({call})," for name, call in calls.items()),
        "}",
    ]
    grams = ["", *(_AS_NAME if any(one.column for one in data.grams.values()) else ()), "grams = {}"]
    for view, one in data.grams.items():
        array, place = one.file.places[one.array]
        K = f"np.load({one.path!r}){f'[{array!r}]' if array else ''}{'' if place is None else f'[{place}]'}"
        rows = ""
        if one.column:
            grams += [
                f"names = np.load({one.path!r})[{one.file.names!r}].tolist()",
                "place = {as_name(name): k for k, name in enumerate(names)}",
            ]
            rows = f"[np.array([place[as_name(name)] for name in table[{one.column!r}].tolist()])]"
        grams.append(f"grams[{view!r}] = kw.precomputed({K}){rows}")
    return views if calls else [], grams if data.grams else []


_AS_NAME = (
    "def as_name(value):",
    "    if isinstance(value, bytes):",
    "        return value.decode()",
    "    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)",
    "",
    "",
)
