"""NumPy's npz files of arrays as a table, and checks of arrays in files."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave_app.runs.formats import FileLimits, Format, Use, same_name
from kernelweave_app.runs.joining import Joined

MOST_ARRAYS = 1000
LONGEST_HEADER = 10_000
#: Names of arrays with the names of rows, and of columns.
ROW_NAMES = ("names", "rows", "samples", "ids", "index")
COLUMN_NAMES = ("columns", "training", "train")


def is_sparse_archive(path: Path) -> bool:
    """Whether an npz file is a sparse matrix of SciPy."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"format.npy", "data.npy", "shape.npy"} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


class Arrays(Format):
    """A column for a vector, ``name.0``, ``name.1``, ... for a matrix."""

    name = "npz"
    suffixes = (".npz",)
    start = b"PK"

    def holds(self, path: Path) -> bool:
        """An npz file that is no sparse matrix."""
        return self.named(path.name) and not is_sparse_archive(path)

    def uses(self, path: Path) -> tuple[Use, ...]:
        """Kernels where the shapes inside look like it."""
        return ("kernels", "table") if seem_kernels(path) else ("table", "kernels")

    def table(self, path: Path) -> DataFrame:
        """The columns."""
        import pandas as pd

        columns: dict[str, Any] = {}
        with np.load(path, allow_pickle=False) as arrays:
            for name in arrays.files:
                values = arrays[name]
                if values.dtype.kind not in "biufUSmMc":
                    raise InputError(
                        f"{path}: array {name!r} holds {values.dtype}, neither numbers nor text."
                    )
                if values.dtype.kind == "S":
                    values = values.astype(str)
                if values.ndim not in (1, 2):
                    raise InputError(
                        f"{path}: array {name!r} has {values.ndim} dimensions; a table is made of vectors and matrices."
                    )
                new = {f"{name}.{j}": column for j, column in enumerate(values.T)}
                new = {name: values} if values.ndim == 1 else new
                if not columns.keys().isdisjoint(new):
                    raise same_name(path, [*columns, *new])
                columns |= new
        if len({len(column) for column in columns.values()}) > 1:
            raise InputError(f"{path}: all arrays need one entry for each row, but their lengths differ.")
        return pd.DataFrame(columns)

    def check(self, path: Path, name: str, limits: FileLimits) -> None:
        """Raise for objects, for something else than arrays, and for arrays that unpack to too much."""
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
                limits.check_bytes(name, sum(member.file_size for member in members))
                if len(members) > MOST_ARRAYS:
                    raise InputError(f"{name} holds more than {MOST_ARRAYS} arrays.")
                for member in members:
                    if not member.filename.endswith(".npy") or "/" in member.filename or member.flag_bits & 1:
                        raise InputError(
                            f"{name} is not a file of NumPy arrays: it holds {member.filename!r:.60}."
                        )
                check_arrays(archive, members, name, limits)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise InputError(f"{name} cannot be unpacked: {error!s:.200}.") from None

    def lines(self, variable: str, path: str, data: Joined) -> list[str]:
        """The same, by NumPy."""
        return [
            "columns = {}",
            f"for name, values in np.load({path!r}).items():",
            "    values = values.astype(str) if values.dtype.kind == 'S' else values",
            "    several = {f'{name}.{j}': column for j, column in enumerate(values.T)}",
            "    columns |= {name: values} if values.ndim == 1 else several",
            f"{variable} = pd.DataFrame(columns)",
        ]


def check_arrays(
    archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], name: str, limits: FileLimits
) -> None:
    """Refuse arrays of an archive that hold objects, or more than may be unpacked."""
    counted = 0
    for member in members:
        with archive.open(member) as file:
            what = f"{name}: array {member.filename.removesuffix('.npy')!r:.60}"
            check_array(file, member.file_size, what, limits)
            # sizes in the directory may be wrong, so the unpacked bytes are counted
            counted += sum(map(len, limits.unpack(file, name, counted)))


def check_array(file: IO[bytes], size: int, what: str, limits: FileLimits) -> None:
    """Raise for an array of objects, a large one, or one that is cut off."""
    try:
        shape, dtype = _read_header(file)
    except (ValueError, OSError) as error:
        raise InputError(f"{what} cannot be read: {str(error).splitlines()[0]:.100}.") from None
    if dtype.hasobject:
        raise InputError(f"{what} holds Python objects, which are never read.")
    if dtype.kind not in "biufUS":
        raise InputError(f"{what} holds {dtype}, neither numbers nor text.")
    cells = 1
    for length in shape:
        cells *= int(length)
    columns = shape[1] if len(shape) == 2 else 1
    limits.check(what, -(-cells // max(columns, 1)), columns)
    limits.check_bytes(what, cells * dtype.itemsize)
    if cells * dtype.itemsize > size:
        raise InputError(f"{what} is cut off.")


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array in a file."""
    from numpy.lib import format as npy

    read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file, max_header_size=LONGEST_HEADER)
    return shape, dtype


def seem_kernels(path: Path) -> bool:
    """Whether an npz file seems to hold kernels rather than columns, by names and shapes alone.

    Kernels are square matrices of one size, or matrices with names of columns.
    """
    shapes = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                with archive.open(member) as file:
                    shapes[member.removesuffix(".npy").lower()], _ = _read_header(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        return False
    known = (*ROW_NAMES, *COLUMN_NAMES)
    matrices = {shape for name, shape in shapes.items() if name not in known}
    if len(matrices) != 1 or len(next(iter(matrices))) not in (2, 3):
        return False
    [shape] = matrices
    return shape[-1] == shape[-2] > 1 or any(name in shapes for name in COLUMN_NAMES)
