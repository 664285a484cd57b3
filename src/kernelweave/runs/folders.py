"""Writing results: under a temporary name first, so that a killed run leaves nothing half-written."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError


@contextmanager
def writing() -> Iterator[None]:
    """Turn errors of the file system into one clear line."""
    try:
        yield
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        if error.errno == errno.ENOSPC:
            raise InputError(
                f"The disk is full; nothing was written to{where}. Free some space and run again."
            ) from error
        raise InputError(f"Cannot write{where}: {error.strerror or error}.") from error


def make_folder(path: str, *, overwrite: bool, holds: str) -> Path:
    """Make an output folder; one that holds a result is only reused with `overwrite`."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; --out needs a folder.")
    if (folder / holds).exists() and not overwrite:
        raise InputError(f"{folder} already holds {holds}. Name another folder, or pass --overwrite.")
    with writing():
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
        os.close(handle)
        os.unlink(name)
    return folder


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf8", newline="") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def csv_text(frame: Any) -> str:
    """A data frame as CSV in which no cell is a formula to a spreadsheet: an apostrophe goes before it."""
    import pandas as pd

    safe = frame.copy()
    safe.columns = [harmless(c) for c in frame.columns]
    for j, name in enumerate(frame.columns):
        if not pd.api.types.is_numeric_dtype(frame[name]):
            safe.isetitem(j, frame[name].map(harmless))
    return safe.to_csv(index=False)


def harmless(cell: Any) -> Any:
    """A cell that a spreadsheet takes for text, unless it is a number."""
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
