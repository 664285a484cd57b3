"""Precomputed kernel matrices in files: NumPy's npy and npz, with names of rows and columns."""

from __future__ import annotations

import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, check_psd
from kernelweave._threads import blas_threads_for
from kernelweave._types import DataFrame
from kernelweave.views import GramEncoder, precomputed
from kernelweave_app.runs.formats import FileLimits, Format, Use, one_error, there
from kernelweave_app.runs.formats.arrays import COLUMN_NAMES, ROW_NAMES, check_array
from kernelweave_app.runs.joining import Joined

Array = NDArray[np.float64]

#: Values of all matrices of a file.
MOST_VALUES = 500_000_000
#: Kernels of a file.
MOST_KERNELS = 1000
#: Share of the largest eigenvalue that the smallest may lie below zero.
NEGATIVE = 1e-6
#: Rows whose eigenvalues are computed; those of more rows are below the smallest of some of them.
MOST_ROWS = 1000


@dataclass(frozen=True)
class GramFile:
    """Kernel matrices of the same rows.

    Attributes
    ----------
    matrices : dict of str to array of shape (n_rows, n_columns)
        By the name of their array; empty for the only one of an npy file.
    rows, columns : tuple of str, or None
        Names; columns are the training rows.
    places : dict of str to (array, place)
        Where each matrix is: the name of its array, empty in an npy file, and its place in a stack, None without one.
    names : str
        The array with the names of rows; empty for none.
    """

    matrices: dict[str, Array]
    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    places: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    names: str = ""
    _fine: set[str] = field(default_factory=set)

    def check(self, name: str, what: str) -> None:
        """Raise if a matrix is no kernel, see `check_gram`; it is looked at once."""
        if name not in self._fine:
            check_gram(self.matrices[name], what)
            self._fine.add(name)

    @property
    def shape(self) -> tuple[int, int]:
        """Of every matrix."""
        n_rows, n_columns = next(iter(self.matrices.values())).shape
        return n_rows, n_columns


class KernelMatrices(Format):
    """A kernel matrix, or a stack of them, which is no table; npz files of several are read by `read_grams` too."""

    name = "npy"
    suffixes = (".npy",)
    start = b"\x93NUMPY"

    def uses(self, path: Path) -> tuple[Use, ...]:
        """Kernels only."""
        return ("kernels",)

    def table(self, path: Path) -> DataFrame:
        """Refused."""
        raise InputError(f"{path} holds kernel matrices, not a table. Pass it as --gram {path.name}.")

    def check(self, path: Path, name: str, limits: FileLimits) -> None:
        """Raise for objects, and for a large or incomplete array."""
        with path.open("rb") as file:
            check_array(file, path.stat().st_size, name, limits)

    def lines(self, variable: str, path: str, data: Joined) -> list[str]:
        """Nothing: it is no table."""
        return []


def name_of(value: Any) -> str:
    """The name of a row as text; whole numbers are written alike, whatever they are stored as.

    Examples
    --------
    >>> name_of("a1"), name_of(7), name_of(7.0), name_of(b"x")
    ('a1', '7', '7', 'x')
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float | np.floating) and value == np.floor(value):
        return str(int(value))
    return str(value)


def read_grams(path: str | Path) -> GramFile:
    """Read the kernel matrices of a file; every failure is an `InputError` of one line.

    Parameters
    ----------
    path : path
        An .npy file of a matrix, or of a stack of shape (n_kernels, n_rows, n_columns); or an .npz file of several. Of
        an npz file the arrays `names` (also `rows`, `samples`, `ids`, `index`) and `columns` (also `training`, `train`)
        name the rows and columns. Nothing in the file is executed.

    Returns
    -------
    GramFile
    """
    source = there(path)
    shown = str(source)
    with one_error(shown, "kernel matrices"):
        arrays = _read_arrays(source, shown)
    named, rows = _take_names(arrays, ROW_NAMES, shown)
    _, columns = _take_names(arrays, COLUMN_NAMES, shown)
    matrices: dict[str, Array] = {}
    places: dict[str, tuple[str, int | None]] = {}
    for name, values in arrays.items():
        what = f"{shown}, array {name!r}" if name else shown
        if values.dtype.kind not in "biuf":
            raise InputError(f"{what} holds {values.dtype}; kernel matrices are real numbers.")
        if values.ndim not in (2, 3) or 0 in values.shape:
            raise InputError(
                f"{what} has shape {values.shape}; a kernel is a matrix of rows by training rows. Names of rows are an "
                "array called names; leave other arrays out."
            )
        if values.ndim == 2:
            matrices[name], places[name] = np.asarray(values, dtype=np.float64), (name, None)
            continue
        for k, K in enumerate(values):
            part = f"{name or 'K'}{k}"
            matrices[part], places[part] = np.asarray(K, dtype=np.float64), (name, k)
    if not matrices:
        raise InputError(
            f"{shown} holds no matrix. Save the kernels by numpy.savez('grams.npz', first=K1, second=K2)."
        )
    if len(matrices) > MOST_KERNELS:
        raise InputError(f"{shown} holds {len(matrices)} kernels, and at most {MOST_KERNELS} are read.")
    shapes = {K.shape for K in matrices.values()}
    if len(shapes) > 1:
        few = ", ".join(f"{name!r} {K.shape}" for name, K in list(matrices.items())[:4])
        raise InputError(f"The kernels of one file belong to the same rows, but {shown} has {few}.")
    [(n_rows, n_columns)] = shapes
    for names, length, what in ((rows, n_rows, "rows"), (columns, n_columns, "columns")):
        if names is not None and len(names) != length:
            raise InputError(f"{shown} has {len(names)} names for {length} {what}.")
    if columns is None and n_rows == n_columns:
        columns = rows
    return GramFile(matrices, rows, columns, places, named)


def _read_arrays(source: Path, shown: str) -> dict[str, Any]:
    with source.open("rb") as file:
        start = file.read(6)
    if start == b"\x93NUMPY":
        return {"": np.load(source, mmap_mode="r", allow_pickle=False)}
    if not start.startswith(b"PK"):
        raise InputError(
            f"{shown} is neither an npy nor an npz file. Save kernel matrices by numpy.save or numpy.savez."
        )
    with zipfile.ZipFile(source) as archive:
        # sizes are those of the unpacked arrays: a small file may state large ones
        if sum(member.file_size for member in archive.infolist()) > 8 * MOST_VALUES:
            raise InputError(f"{shown} holds more than {MOST_VALUES:.3g} values.")
    with np.load(source, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _take_names(
    arrays: dict[str, Any], known: tuple[str, ...], shown: str
) -> tuple[str, tuple[str, ...] | None]:
    """Take the names of rows or columns out of the arrays of a file; also the name of their array."""
    found = [name for name in arrays if name.lower() in known and arrays[name].ndim == 1]
    if not found:
        return "", None
    if len(found) > 1:
        raise InputError(f"{shown} has several arrays of names: {', '.join(found)}. Leave one of them.")
    names = tuple(map(name_of, arrays.pop(found[0]).tolist()))
    if len(set(names)) < len(names):
        [(again, _)] = Counter(names).most_common(1)
        raise InputError(f"{shown}: names must differ, but {again!r} occurs again.")
    return found[0], names


# ---- checks ---------------------------------------------------------------------------------------


def check_gram(K: Array, what: str) -> None:
    """Raise if a matrix is no kernel of training rows; rows and columns without any value are rows without the view.

    Parameters
    ----------
    K : array
    what : str
        What messages call it.
    """
    try:
        # what a fit would refuse, and the eigenvalues, of many rows those of some of them, which lie between
        GramEncoder(missing=True).fit_transform(precomputed(K))
        known = np.flatnonzero(~np.isnan(K).all(axis=1))
        if not len(known):
            raise InputError("There is no number in it.")
        some = known[np.linspace(0, len(known) - 1, min(len(known), MOST_ROWS)).astype(int)]
        with blas_threads_for(len(some)):
            check_psd(K[np.ix_(some, some)], "A kernel", tol=NEGATIVE)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
