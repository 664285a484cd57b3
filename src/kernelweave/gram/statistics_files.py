"""Files of statistics: npz archives of plain arrays, written whole and checked when they are read."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError

#: First entry of every file, and the version of what follows.
FORMAT = "kernelweave statistics"
VERSION = 1


def write_arrays(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, Any]) -> Path:
    """Write arrays to a file beside the final one, and rename it, so that no half of a file has that name."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(partial, "wb") as file:
            np.savez(file, format=FORMAT, version=VERSION, kind=kind, allow_pickle=False, **arrays)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def pack_lower(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows of a lower triangle, one after another."""
    size = len(S)
    packed = np.empty(size * (size + 1) // 2)
    for i in range(size):
        packed[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2] = S[i, : i + 1]
    return packed


def unpack_lower(packed: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """The reverse of `pack_lower`."""
    for i in range(len(out)):
        out[i, : i + 1] = packed[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2]


def kind_of(path: str | os.PathLike[str]) -> str:
    """What a file of statistics holds; an empty text for other files."""
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            if "format" in file.files and str(file["format"]) == FORMAT:
                return str(file["kind"])
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        pass
    return ""


def read_arrays(path: str | os.PathLike[str], kind: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file of statistics of one kind; damaged and other files are an `InputError`."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"There is no file of statistics {source}.")
    try:
        # opened here, because NumPy leaves damaged archives open
        with open(source, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{source} cannot be read as statistics: {str(error).splitlines()[0].rstrip('.')}. Write it again, or "
            "leave it out."
        ) from error
    if str(found.get("format", "")) != FORMAT:
        raise InputError(f"{source} holds no statistics of kernelweave. Files come from their method `save`.")
    if int(found["version"]) > VERSION:
        raise InputError(
            f"{source} has version {int(found['version'])} of the format; this kernelweave reads up to {VERSION}. "
            "Install a later one."
        )
    if str(found["kind"]) != kind:
        raise InputError(
            f"{source} holds {found['kind']}, not {kind}. Read it with "
            f"kw.{_CLASSES.get(str(found['kind']), '...')}.load."
        )
    return found


#: Classes that read a kind of file.
_CLASSES = {"statistics of blocks": "BlockStatistics", "statistics of folds": "FoldStatistics"}


def files_in(folder: str | os.PathLike[str], pattern: str) -> list[Path]:
    """Files of statistics in a folder, by name; hidden ones, which are being written, are left out."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"There is no folder {place}.")
    found = sorted(path for path in place.glob(pattern) if path.is_file() and not path.name.startswith("."))
    if not found:
        raise InputError(f"No file in {place} matches {pattern!r}.")
    return found
