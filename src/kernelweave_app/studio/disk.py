"""A disk without room: one clear error, wherever it shows first."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelweave._errors import InputError

#: What SQLite and the file system say when nothing more can be written.
_OF_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_FSYNC")
_OF_SYSTEM = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(InputError):
    """Nothing more can be written to the data folder."""


def is_full(error: BaseException) -> bool:
    """Whether an error says that there is no room on the disk."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorname", "") in _OF_SQLITE or "disk is full" in str(error)
    return isinstance(error, OSError) and error.errno in _OF_SYSTEM


def describe_full(folder: Path) -> str:
    """What is wrong, and what to do about it."""
    return f"The disk is full: nothing can be written to {folder}. Free some space, then try again."


@contextmanager
def room(folder: Path) -> Iterator[None]:
    """Turn errors of a full disk into `DiskFull`.

    Parameters
    ----------
    folder : Path
        Where something is written.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if is_full(error):
            raise DiskFull(describe_full(folder)) from error
        raise
