"""Sparse tables in files: SciPy's npz, Matrix Market and svmlight."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import DataFrame

#: Suffixes of files that are always sparse; for npz files the content decides.
MATRIX_MARKET = (".mtx", ".mm")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
#: Packed text, by suffix.
PACKED = (".gz", ".bz2")
#: Entries of a file that are read, each of a value and a column.
MOST_ENTRIES = 500_000_000
#: Bytes of an entry.
ENTRY = 16
#: Cells of a sparse file that becomes a table of columns.
MOST_CELLS = 20_000_000
#: The name of the labels of svmlight files.
TARGET = "target"


@dataclass(frozen=True)
class SparseFile:
    """A sparse table.

    Attributes
    ----------
    rows : CSR array of shape (n_rows, n_columns)
    target : array of shape (n_rows,), or None
        The labels of svmlight files.
    """

    rows: Any
    target: Any = None


def is_sparse_file(path: str | Path) -> bool:
    """Whether a file is read as a sparse table."""
    source = Path(path)
    suffixes = [suffix.lower() for suffix in source.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes = suffixes[:-1]
    if not suffixes:
        return False
    if suffixes[-1] in (*MATRIX_MARKET, *SVMLIGHT):
        return True
    if suffixes[-1] != ".npz" or not source.is_file():
        return False
    try:
        with zipfile.ZipFile(source) as archive:
            return {"format.npy", "data.npy", "shape.npy"} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def read_sparse(path: str | Path, name: str = "") -> SparseFile:
    """Read a sparse table; every failure is an `InputError` of one line.

    Parameters
    ----------
    path : path
        SciPy's .npz (`scipy.sparse.save_npz`), .mtx (Matrix Market) or .svmlight, the last two also packed by gzip.
        Nothing in the file is executed.
    name : str
        Final name of the file, if it has another one now; the suffix gives the format.

    Returns
    -------
    SparseFile
    """
    source = Path(path)
    if not source.is_file():
        raise InputError(f"There is no file {source}.")
    called = Path(name) if name else source
    if not is_sparse_file(source) and not (name and is_sparse_file(called)):
        raise InputError(
            f"{source} is not a sparse table. Save one with scipy.sparse.save_npz (.npz), scipy.io.mmwrite (.mtx) or "
            "sklearn.datasets.dump_svmlight_file (.svmlight)."
        )
    suffixes = {suffix.lower() for suffix in called.suffixes}
    try:
        if ".npz" in suffixes:
            found = SparseFile(_read_npz(source))
        elif suffixes & set(SVMLIGHT):
            found = _read_svmlight(source)
        else:
            found = SparseFile(_read_market(source))
    except InputError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        EOFError,
        KeyError,
        MemoryError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        raise InputError(f"{source} cannot be read as a sparse table: {_one_line(error)}.") from error
    except zipfile.BadZipFile as error:
        raise InputError(f"{source} is damaged: {_one_line(error)}.") from error
    return SparseFile(_checked(source, found.rows), found.target)


def _one_line(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return said[0].rstrip(".") if said else type(error).__name__


def _checked(source: Path, rows: Any) -> Any:
    """Compressed rows of finite real numbers, at least one row and one column."""
    from kernelweave._sparse import as_csr

    if not hasattr(rows, "tocsr"):
        raise InputError(f"{source} holds a dense matrix. Save it as a table, CSV or Parquet.")
    try:
        return as_csr(rows)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _refuse_size(source: Path, entries: float) -> None:
    if entries > MOST_ENTRIES:
        raise InputError(
            f"{source} has {entries:.3g} entries, and at most {MOST_ENTRIES:.3g} are read. Leave out rare columns."
        )


def _read_npz(source: Path) -> Any:
    from scipy import sparse

    with zipfile.ZipFile(source) as archive:
        # sizes are those of the unpacked arrays: a small file may state large ones
        _refuse_size(source, sum(member.file_size for member in archive.infolist()) / ENTRY)
    with np.load(source, allow_pickle=False) as arrays:
        kinds = {name: arrays[name].dtype.kind for name in ("data", "shape")}
    if kinds["data"] not in "biuf" or kinds["shape"] not in "iu":
        raise InputError(f"{source} must hold real numbers, got {kinds['data']!r}. Convert them.")
    found = sparse.load_npz(source)
    if found.format == "csr":
        _check_structure(source, found)
    return found


def _check_structure(source: Path, found: Any) -> None:
    """Raise for columns out of range, which SciPy does not check."""
    try:
        found.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"{source} is damaged: {_one_line(error)}.") from error


def _read_market(source: Path) -> Any:
    from scipy import io

    _, _, entries, form, field, _ = io.mminfo(source)
    if form == "array":
        raise InputError(f"{source} holds a dense matrix. Save it as a table, CSV or Parquet.")
    _refuse_size(source, float(entries))
    # an entry takes a line of at least four bytes, and nothing is packed better than this
    room = source.stat().st_size / 4 * (1100 if source.suffix.lower() in PACKED else 1)
    if entries > room:
        raise InputError(f"{source} is cut off: it states {entries} entries.")
    if field == "complex":
        raise InputError(f"{source} holds complex numbers. Pass real and imaginary parts.")
    return io.mmread(source)


def _read_svmlight(source: Path) -> SparseFile:
    from sklearn.datasets import load_svmlight_file

    _refuse_size(source, source.stat().st_size / 4)
    rows, target = load_svmlight_file(str(source), zero_based="auto")
    return SparseFile(rows, target)


def labels_of_file(source: str | Path) -> DataFrame:
    """A table of as many rows, with the labels of an svmlight file as the column "target"."""
    import pandas as pd

    found = read_sparse(source)
    table = pd.DataFrame(index=range(found.rows.shape[0]))
    return table if found.target is None else table.assign(**{TARGET: found.target})


def sparse_columns(source: str | Path) -> DataFrame:
    """A sparse file as a table of columns x0, x1, and so on, where it is small; labels are the column "target"."""
    import pandas as pd

    found = read_sparse(source)
    n_rows, n_columns = found.rows.shape
    if n_rows * n_columns > MOST_CELLS:
        raise InputError(
            f"{source} has {n_rows} x {n_columns} cells, too many for a table of columns. Pass it as a sparse "
            f"view: kernelweave fit table.csv --view words={Path(source).name}, or kw.Views in Python."
        )
    table = pd.DataFrame(found.rows.toarray(), columns=[f"x{j}" for j in range(n_columns)])
    if found.target is not None:
        table.insert(0, TARGET, found.target)
    return table
