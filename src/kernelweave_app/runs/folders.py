"""Writing results: first to a hidden folder, so that a failed or killed run leaves no partial results."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from kernelweave._errors import InputError
from kernelweave._types import DataFrame

Kept = TypeVar("Kept")


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


@contextmanager
def undone_by(undo: Callable[[], object]) -> Iterator[None]:
    """Undo what was done before, after any exception in what is done inside."""
    try:
        yield
    except BaseException:
        undo()
        raise


@contextmanager
def whole_folder(path: str, *, overwrite: bool, files: Sequence[str]) -> Iterator[Path]:
    """A folder for results, which is moved to its place when all of them are written.

    Parameters
    ----------
    path : str
        The place. Whether it is writable is checked at once, before anything is computed.
    overwrite : bool
        Whether it may contain an earlier result.
    files : sequence of str
        Names, or patterns, of all files that a result may have, the one that makes it a result first. In a folder that
        exists they replace those of an earlier result; other files stay.

    Yields
    ------
    Path
        A hidden folder; after an exception it is deleted, and `path` is unchanged.

    Notes
    -----
    A folder that does not exist appears by one renaming. One that exists may be mounted, shared or somebody's working
    directory, so it stays and the files move into it one after another: the first of `files` leaves before and comes
    after all others, so that at any time there is one whole result or none.
    """
    folder = Path(os.path.realpath(path))
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{path} is a file; --out needs a folder.")
    check_free(folder, overwrite, files[0])
    new = [parent for parent in folder.parents if not parent.exists()]
    name = f".{folder.name}.{uuid.uuid4().hex}.part"
    part = folder / name if folder.exists() else folder.with_name(name)
    try:
        with writing():
            folder.parent.mkdir(parents=True, exist_ok=True)
            part.mkdir()
        yield part
        with writing():
            if not _appears(part, folder):
                check_free(folder, overwrite, files[0])
                _move_in(part, folder, files)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        for parent in new:
            try:
                parent.rmdir()
            except OSError:
                break  # not created, or others have put something there
        raise


def model_file(name: str) -> Path:
    """The model file of a run folder, or the file itself."""
    source = Path(name)
    if source.is_dir():
        source = source / "model.skops"
    if not source.exists():
        raise InputError(f"There is no model at {name}. Pass the folder of a run, or a .skops file.")
    return source


def check_free(folder: Path, overwrite: bool, first: str) -> None:
    """Raise for a folder that holds an earlier result which may not be replaced."""
    if (folder / first).exists() and not overwrite:
        raise InputError(f"{folder} already holds {first}. Name another folder, or pass --overwrite.")


def _appears(part: Path, folder: Path) -> bool:
    """Rename a folder to its place, unless something else is there by now."""
    if not folder.exists():
        try:
            os.rename(part, folder)
        except OSError:
            if not folder.is_dir():
                raise
        else:
            return True
    return False


def _move_in(part: Path, folder: Path, files: Sequence[str]) -> None:
    """Move files into a folder, in place of those of an earlier result, which an exception restores."""
    olds = sorted(
        {old for pattern in files for old in folder.glob(pattern)}, key=lambda p: p.name != files[0]
    )
    news = sorted(part.iterdir(), key=lambda p: p.name == files[0])
    aside = part / "earlier"
    aside.mkdir()
    moves = [*((old, aside / old.name) for old in olds), *((new, folder / new.name) for new in news)]
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            os.rename(source, target)
            done.append((source, target))
    except BaseException:
        for source, target in reversed(done):
            os.rename(target, source)
        raise
    shutil.rmtree(part, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    with undone_by(partial(Path(name).unlink, missing_ok=True)):
        with os.fdopen(handle, "w", encoding="utf8", newline="") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)


def read_kept(path: Path, read: Callable[[str], Kept], otherwise: Kept) -> Kept:
    """What a run wrote into a text file; something else where it wrote none."""
    if not path.is_file():
        return otherwise
    try:
        return read(path.read_text(encoding="utf8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read: {error}. Copy it from the run again.") from None


def csv_text(frame: DataFrame) -> str:
    """A data frame as CSV. Cells that a spreadsheet would read as formulas get an apostrophe."""
    import pandas as pd

    safe = frame.copy()
    safe.columns = [harmless(c) for c in frame.columns]
    for j, name in enumerate(frame.columns):
        if not pd.api.types.is_numeric_dtype(frame[name]):
            safe.isetitem(j, frame[name].map(harmless))
    return safe.to_csv(index=False)


def harmless(cell: object) -> object:
    """A cell that a spreadsheet reads as text, unless it is a number."""
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
