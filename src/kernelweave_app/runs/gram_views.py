"""Precomputed kernels beside a table, for a fit and for new rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave.views import PrecomputedView, precomputed
from kernelweave.views.groups import names_in
from kernelweave_app.runs.formats.kernel_matrices import GramFile, name_of, read_grams
from kernelweave_app.runs.joining import Joined, pair_names
from kernelweave_app.runs.tables import need_column

if TYPE_CHECKING:
    from kernelweave.views.encoding import GramEncoder
    from kernelweave_app.runs.preparing import Rows

#: File of a run with the names of the rows of its kernel matrices.
GRAMS = "grams.json"


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


def named_grams(
    asked: str | Sequence[str], read: Callable[[str], GramFile] = read_grams
) -> dict[str, tuple[str, str, GramFile]]:
    """Files of kernels from texts such as "similarity=K.npy" or "grams.npz".

    Parameters
    ----------
    asked : str or list of str
    read : callable
        Reads a file.

    Returns
    -------
    dict of str to (path, array, GramFile)
        By the name of the view: that of the text, or of the array where a file has several, or else of the file.
    """
    found: dict[str, tuple[str, str, GramFile]] = {}
    for one in names_in(asked) if isinstance(asked, str) else asked:
        name, separator, path = (part.strip() for part in one.partition("="))
        if not separator or "/" in name or Path(one).exists():
            name, path = "", one.strip()
        if not path:
            raise InputError(
                f"Setting `gram` must be like 'grams.npz' or 'similarity=K.npy', got {one!r:.100}."
            )
        file = read(path)
        stem = name or Path(path).name.split(".")[0] or "kernel"
        several = len(file.matrices) > 1
        for array in file.matrices:
            view = (f"{name}.{array}" if name else array) if several else stem
            if view in found and not name:
                view = f"{stem}.{array}" if several else view
            if view in found:
                raise InputError(
                    f"Setting `gram` has the name {view!r} twice. Give another, such as --gram other={path}."
                )
            found[view] = (str(Path(path).resolve()), array, file)
    return found


def with_grams(
    data: Joined,
    asked: str | Sequence[str],
    key: str,
    *,
    joined: bool,
    read: Callable[[str], GramFile] = read_grams,
) -> Joined:
    """Tables with kernels from files.

    Parameters
    ----------
    data : Joined
    asked : str or list of str
        The setting `gram`.
    key : str
        Column that names the rows; else a column with all names of a file is searched for.
    joined : bool
        Whether rows of several tables were matched, so that they have no position in a file.
    read : callable
        Reads a file.
    """
    if not asked:
        return data
    found: dict[str, GramView] = {}
    for view, (path, array, file) in named_grams(asked, read).items():
        if view in data.sparse or view in data.views:
            raise InputError(
                f"There are two views {view!r}. Name the kernel, such as --gram kernel={Path(path).name}."
            )
        K, what = file.matrices[array], f"Kernel {view!r} of {Path(path).name}"
        file.check(array, what)
        column, rows = match_rows(data.table, file, what, key, joined=joined)
        found[view] = GramView(precomputed(K)[rows], path, array, file, column)
    return replace(data, grams=found)


def match_rows(
    table: DataFrame, file: GramFile, what: str, key: str, *, joined: bool = False
) -> tuple[str, Rows]:
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
    column = key or _column_of_names(table, place)
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


def _column_of_names(table: DataFrame, names: Mapping[str, int]) -> str:
    """The first column whose cells are all names of rows, each of them once."""
    for column in table.columns:
        cells = table[column]
        if name_of(cells.iloc[0]) in names and cells.is_unique and all(name_of(c) in names for c in cells):
            return str(column)
    return ""


# ---- what is kept for new rows --------------------------------------------------------------------


def grams_text(data: Joined) -> str:
    """Names of the rows of kernels, as JSON, by which the columns of new files are found."""
    views = {name: {"names": one.file.rows, "column": one.column} for name, one in data.grams.items()}
    return json.dumps({"grams": views})


def read_names(folder: Path) -> dict[str, tuple[str, ...]]:
    """Names of the rows of the kernels of a run, for those that have some."""
    path = folder / GRAMS
    if not path.is_file():
        return {}
    try:
        views = json.loads(path.read_text(encoding="utf8"))["grams"]
        return {str(view): tuple(map(str, one["names"])) for view, one in views.items() if one["names"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read: {error}. Copy it from the run again.") from None


def new_grams(
    encoders: Mapping[str, GramEncoder],
    asked: str | Sequence[str],
    table: DataFrame,
    names: Mapping[str, tuple[str, ...]],
    key: str,
    read: Callable[[str], GramFile] = read_grams,
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
    names : mapping of str to tuple of str
        Of `read_names`.
    key : str
        Column that names the new rows.
    read : callable
        Reads a file.

    Returns
    -------
    views : dict of str to PrecomputedView
    stands_for : dict of str to str
        For each kernel of the run the new one that replaces it, where names differ.
    """
    given = named_grams(asked, read) if asked else {}
    if len(given) != len(encoders):
        raise InputError(
            f"The model has the precomputed kernels {', '.join(encoders) or 'none'}, got {', '.join(given) or 'none'}. "
            f"Pass {' '.join(f'--gram {view}=FILE' for view in encoders) or 'no --gram'}."
        )
    stands_for = pair_names(list(encoders), list(given))
    out = {}
    for view, new in stands_for.items():
        path, array, file = given[new]
        what = f"Kernel {view!r} of {Path(path).name}"
        _, rows = match_rows(table, file, what, key)
        K = file.matrices[array]
        encoder = encoders[view]
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


# ---- scripts --------------------------------------------------------------------------------------


def gram_reading(grams: Mapping[str, GramView]) -> list[str]:
    """Lines of a script that read kernels into a dict `grams`, in the order of the rows of `table`."""
    if not grams:
        return []
    lines = ["", *_AS_NAME, "grams = {}"] if any(one.column for one in grams.values()) else ["", "grams = {}"]
    for view, one in grams.items():
        array, place = one.file.places[one.array]
        K = (
            f"np.load({one.path!r})"
            + (f"[{array!r}]" if array else "")
            + ("" if place is None else f"[{place}]")
        )
        rows = ""
        if one.column:
            lines += [
                f"names = np.load({one.path!r})[{one.file.names!r}].tolist()",
                "place = {as_name(name): k for k, name in enumerate(names)}",
            ]
            rows = f"[np.array([place[as_name(name)] for name in table[{one.column!r}].tolist()])]"
        lines.append(f"grams[{view!r}] = kw.precomputed({K}){rows}")
    return lines


_AS_NAME = [
    "def as_name(value):",
    "    if isinstance(value, bytes):",
    "        return value.decode()",
    "    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)",
    "",
    "",
]
