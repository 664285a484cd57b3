"""Sparse tables: SciPy's npz, Matrix Market and svmlight."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave_app.runs.formats import (
    CHUNK,
    FileLimits,
    Format,
    Use,
    csr,
    no_rows,
    one_error,
    one_line,
    there,
)
from kernelweave_app.runs.formats.arrays import is_sparse_archive
from kernelweave_app.runs.formats.text import BINARY
from kernelweave_app.runs.joining import Joined

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


class Sparse(Format):
    """Sparse rows: a view, with the labels of svmlight files as the table; or a table of columns."""

    name = "sparse"
    suffixes = tuple(end + packed for end in (*MATRIX_MARKET, *SVMLIGHT) for packed in ("", *PACKED))
    uploads = (".mtx", ".svmlight")

    def kind(self, name: str) -> str:
        """Which of them it is."""
        return Path(name).suffix.removeprefix(".")

    def holds(self, path: Path) -> bool:
        """By the name, or of npz files by the content."""
        return self.named(path.name) or (path.name.lower().endswith(".npz") and is_sparse_archive(path))

    def uses(self, path: Path) -> tuple[Use, ...]:
        """Files with labels are tables first."""
        return ("table", "sparse") if path.name.lower().endswith(SVMLIGHT) else ("sparse", "table")

    def table(self, path: Path) -> DataFrame:
        """Columns x0, x1, and so on, where there are few; labels are the column "target"."""
        import pandas as pd

        rows, target = read_sparse(path)
        n_rows, n_columns = rows.shape
        if n_rows * n_columns > MOST_CELLS:
            raise InputError(
                f"{path} has {n_rows} x {n_columns} cells, too many for a table of columns. Pass it as a sparse "
                f"view: kernelweave fit table.csv --view words={path.name}, or kw.Views in Python."
            )
        table = pd.DataFrame(rows.toarray(), columns=[f"x{j}" for j in range(n_columns)])
        if target is not None:
            table.insert(0, TARGET, target)
        return table

    def read(self, path: Path, *, dense: bool = True) -> Joined:
        """The rows as a view beside the labels, or as columns."""
        if dense:
            return super().read(path)
        import pandas as pd

        (rows, target), name = read_sparse(path), path.name.split(".")[0] or "table"
        table = pd.DataFrame({} if target is None else {TARGET: target}, index=range(rows.shape[0]))
        return Joined(table, sparse={name: rows}, files={name: str(path.resolve())})

    def rows(self, path: str) -> Any:
        """The rows."""
        return read_sparse(path)[0]

    def rows_call(self, path: str) -> str:
        """The call that reads them."""
        suffixes = {suffix.lower() for suffix in Path(path).suffixes}
        if ".npz" in suffixes:
            return f"sparse.load_npz({path!r})"
        return f"load_svmlight_file({path!r})[0]" if suffixes & set(SVMLIGHT) else f"io.mmread({path!r})"

    def check(self, path: Path, name: str, limits: FileLimits) -> None:
        """Raise for what is no text, and for more cells than a table of columns may have."""
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                if not BINARY.isdisjoint(chunk):
                    raise InputError(f"{name} is not text: a sparse table has no control characters.")
        try:
            n_rows, n_columns = read_sparse(path, name)[0].shape
        except InputError as error:
            raise InputError(str(error).replace(str(path), name)) from None
        replace(limits, cells=min(limits.cells, MOST_CELLS)).check(name, n_rows, n_columns)

    def lines(self, variable: str, path: str, data: Joined) -> list[str]:
        """Labels alone where the rows are a view, or all columns."""
        if path in data.files.values() and not data.views:
            # labels and rows come from the same file
            return [
                "from sklearn.datasets import load_svmlight_file",
                f"_, target = load_svmlight_file({path!r})",
                f'{variable} = pd.DataFrame({{"target": target}})',
            ]
        labelled = path.lower().endswith(SVMLIGHT)
        return [
            "from scipy import io, sparse",
            "from sklearn.datasets import load_svmlight_file",
            f"cells = {self.rows_call(path)}.toarray()",
            f"{variable} = pd.DataFrame(cells, columns=[f'x{{j}}' for j in range(cells.shape[1])])",
            *([f"{variable}.insert(0, {TARGET!r}, load_svmlight_file({path!r})[1])"] if labelled else []),
        ]


def read_sparse(path: str | Path, name: str = "") -> tuple[Any, Any]:
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
    rows : CSR array of shape (n_rows, n_columns)
    target : array of shape (n_rows,), or None
        The labels of svmlight files.
    """
    source = there(path)
    if not Sparse().holds(source) and not Sparse().named(name):
        raise no_rows(str(source))
    suffixes = {suffix.lower() for suffix in Path(name or source).suffixes}
    rows, target = None, None
    with one_error(source, "a sparse table"):
        if ".npz" in suffixes:
            rows = _read_npz(source)
        elif suffixes & set(SVMLIGHT):
            from sklearn.datasets import load_svmlight_file

            _refuse_size(source, source.stat().st_size / 4)
            rows, target = load_svmlight_file(str(source), zero_based="auto")
        else:
            rows = _read_market(source)
    if not hasattr(rows, "tocsr"):
        raise InputError(f"{source} holds a dense matrix. Save it as a table, CSV or Parquet.")
    return csr(rows, str(source)), target


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
        try:
            # columns out of range, which SciPy does not check
            found.check_format(full_check=True)
        except ValueError as error:
            raise InputError(f"{source} is damaged: {one_line(error)}.") from error
    return found


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
