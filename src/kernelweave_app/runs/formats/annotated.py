"""Annotated matrices in files, AnnData's h5ad: observations by variables, layers, columns beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave_app.runs.formats import FileLimits, Format, csr, one_error, same_name, there
from kernelweave_app.runs.joining import Joined

if TYPE_CHECKING:
    import h5py

SUFFIX = ".h5ad"
#: The column with the names of the observations.
NAMES = "obs_names"
#: Numbers of all matrices of a file.
MOST_NUMBERS = 500_000_000
#: Cells of matrices that become columns of a table.
MOST_CELLS = 20_000_000
#: Groups and data sets of a file.
MOST_PARTS = 20_000


class Annotated(Format):
    """Observations by variables: the columns beside them are a table, dense matrices and sparse ones are views."""

    name = "h5ad"
    suffixes = (SUFFIX,)
    start = b"\x89HDF\r\n\x1a\n"

    def table(self, path: Path) -> DataFrame:
        """All columns."""
        return read_annotated(path).table

    def read(self, path: Path, *, dense: bool = True) -> Joined:
        """The table with its parts as views."""
        return read_annotated(path)

    def rows(self, path: str) -> Any:
        """One matrix."""
        return read_part(path)

    def rows_call(self, path: str) -> str:
        """The same by anndata."""
        file, _, part = path.partition("#")
        group, _, key = part.partition("/")
        return f"anndata.read_h5ad({file!r}).{f'{group}[{key!r}]' if key else 'X'}"

    def check(self, path: Path, name: str, limits: FileLimits) -> None:
        """Raise for what is no annotated matrix, for links, and for too many numbers."""
        check_annotated(path, name, limits.cells, limits.columns)

    def lines(self, variable: str, path: str, data: Joined) -> list[str]:
        """Columns of obs, X and obsm side by side, as they were read; a sparse X is a view."""
        parts = [
            f"cells.{part if part == 'X' else f'obsm[{part!r}]'}" for part in data.parts if part != "obs"
        ]
        matrices = [f"pd.DataFrame(np.asarray({part}))" for part in parts]
        return [
            "import anndata",
            "",
            f"cells = anndata.read_h5ad({path!r})",
            "names = pd.DataFrame({'obs_names': cells.obs_names.astype(str)})",
            f"parts = [{', '.join(['names', 'cells.obs.reset_index(drop=True)', *matrices])}]",
            f"{variable} = pd.concat(parts, axis=1).set_axis({list(map(str, data.table.columns))!r}, axis=1)",
        ]


def _libraries() -> tuple[Any, Any]:
    try:
        import h5py
        from anndata.io import read_elem
    except ImportError:
        raise InputError("Files of AnnData need anndata: pip install 'kernelweave[anndata]'.") from None
    return h5py, read_elem


@contextmanager
def _opened(path: Path, shown: str = "") -> Iterator[h5py.File]:
    """The file; every failure is an `InputError` of one line."""
    h5py, _ = _libraries()
    with one_error(shown or path, "AnnData"), h5py.File(there(path), "r") as file:
        yield file


def check_annotated(path: Path, shown: str, cells: int = MOST_NUMBERS, columns: int = 10**6) -> None:
    """Raise for what is no annotated matrix, for more numbers than are read, and for parts outside of the file.

    Parameters
    ----------
    path : Path
    shown : str
        What messages call it.
    cells, columns : int
        Most numbers of a matrix, and columns of `obs` and variables.
    """
    h5py, _ = _libraries()
    with _opened(path, shown) as file:
        _check_parts(h5py, file, shown, [0])
        if not {"obs", "var"} <= set(file):
            raise InputError(
                f"{shown} holds no annotated matrix: parts obs and var are needed, got {list(file)[:5]}."
            )
        for name in _matrices(file):
            part = file[name]
            # of a sparse one those that it stores
            stored = part["data"] if hasattr(part, "keys") and "data" in part else part
            size = int(getattr(stored, "size", 0) or 0)
            if size > min(cells, MOST_NUMBERS):
                raise InputError(
                    f"{shown}: {name} has {size:.3g} numbers, and at most {min(cells, MOST_NUMBERS):.3g} are read."
                )
        n_rows, n_columns = (_length(file, part) for part in ("obs", "var"))
        if n_columns > columns or n_rows * len(file["obs"]) > cells:
            raise InputError(
                f"{shown} has {n_columns} variables, and {n_rows} observations with {len(file['obs'])} columns; at "
                f"most {columns} variables and {cells} cells of obs are read. Leave some out."
            )


def _check_parts(h5py: Any, group: Any, shown: str, count: list[int]) -> None:
    for name in group:
        count[0] += 1
        if count[0] > MOST_PARTS:
            raise InputError(
                f"{shown} has more than {MOST_PARTS} parts, which are not looked through. Leave some out, such as uns."
            )
        link = group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            raise InputError(
                f"{shown}: {name!r} is a link to another part or file, which is never followed. Leave it out, or copy "
                "what it links to."
            )
        part = group[name]
        if isinstance(part, h5py.Group):
            _check_parts(h5py, part, shown, count)
        elif isinstance(part, h5py.Dataset):
            if part.is_virtual or part.external:
                raise InputError(
                    f"{shown}: {name!r} is stored in another file, which is never read. Copy it into this one."
                )
            if part.size and part.size > MOST_NUMBERS:
                raise InputError(
                    f"{shown}: {name!r} has {part.size:.3g} numbers, and at most {MOST_NUMBERS:.3g} are read."
                )


def _matrices(file: Any) -> list[str]:
    """Parts that are matrices of the observations."""
    found = ["X"] if "X" in file else []
    for group in ("layers", "obsm"):
        found += [f"{group}/{name}" for name in file.get(group, ())]
    return found


def _length(file: Any, name: str) -> int:
    part = file[name]
    if not hasattr(part, "keys"):
        return int(part.shape[0])
    index = part.attrs.get("_index", "_index")
    return int(part[index].shape[0])


def read_annotated(path: str | Path) -> Joined:
    """Read an annotated matrix as a table and views.

    Parameters
    ----------
    path : path
        Nothing in the file is executed, and `uns`, `raw` and pairs of observations are not read.

    Returns
    -------
    Joined
        The names of the observations, the columns of `obs`, a dense `X` and the matrices of `obsm` as a table, with a
        view for each of these parts; sparse ones are views of their own.
    """
    import pandas as pd

    source = Path(path)
    check_annotated(source, str(source))
    _, read = _libraries()
    sparse: dict[str, Any] = {}
    parts: dict[str, DataFrame] = {}
    with _opened(source) as file:
        obs = read(file["obs"])
        names = [str(name) for name in obs.index]
        parts["obs"] = obs.reset_index(drop=True)
        parts["obs"].columns = [str(c) for c in obs.columns]
        for name in _matrices(file):
            if name.startswith("layers/"):
                continue
            view = name.removeprefix("obsm/")
            values = read(file[name])
            if values.shape[0] != len(names):
                raise InputError(
                    f"{source}: {name} has {values.shape[0]} rows for {len(names)} observations."
                )
            if hasattr(values, "tocsr"):
                sparse[view] = csr(values, f"{source}: {name}")
                continue
            if np.size(values) > MOST_CELLS:
                raise InputError(
                    f"{source}: {name} has {np.size(values):.3g} cells, too many for a table of columns. Store it as a "
                    "sparse matrix, or leave out variables."
                )
            columns = [f"{view}.{k}" for k in range(np.shape(values)[1])]
            if name == "X":
                columns = [str(v) for v in read(file["var"]).index]
            frame = values if isinstance(values, pd.DataFrame) else pd.DataFrame(np.asarray(values))
            parts[view] = frame.reset_index(drop=True).set_axis(columns, axis=1)
    # columns that several parts have get the name of their part
    taken = Counter(name for part in parts.values() for name in part.columns) + Counter([NAMES])
    parts = {
        view: part.rename(columns={c: f"{view}.{c}" for c in part.columns if taken[c] > 1})
        for view, part in parts.items()
    }
    table = pd.concat([pd.DataFrame({NAMES: names}), *parts.values()], axis=1)
    if table.columns.duplicated().any():
        raise same_name(source, list(table.columns))
    views = {view: list(part.columns) for view, part in parts.items() if part.shape[1]}
    files = {view: f"{source.resolve()}#{'X' if view == 'X' else f'obsm/{view}'}" for view in sparse}
    several = views if len(views) + len(sparse) > 1 else {}
    return Joined(table, several, sparse=sparse, files=files, names=NAMES, parts=tuple(views))


def read_part(path: str | Path) -> Any:
    """One matrix of an annotated file as sparse rows: "cells.h5ad" is `X`, "cells.h5ad#layers/counts" a layer.

    Parameters
    ----------
    path : path

    Returns
    -------
    CSR array
    """
    from scipy import sparse

    file_name, _, part = str(path).partition("#")
    source, part = Path(file_name), part or "X"
    check_annotated(source, str(source))
    _, read = _libraries()
    with _opened(source) as file:
        known = _matrices(file)
        if part not in known:
            raise InputError(f"{source} has no part {part!r}. It has {', '.join(known) or 'no matrix'}.")
        values = read(file[part])
    return csr(
        values if hasattr(values, "tocsr") else sparse.csr_array(np.asarray(values)), f"{source}: {part}"
    )
