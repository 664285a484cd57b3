"""What statistics of rows share: they are added, and written to npz archives of plain arrays, which are checked."""

from __future__ import annotations

import os
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kernelweave._docstrings import InheritedTexts
from kernelweave._errors import InputError
from kernelweave._types import Labels, Tree

#: First entry of every file, and the version of what follows.
FORMAT = "kernelweave statistics"
VERSION = 1


class AddedRows(InheritedTexts, ABC):
    """Statistics of rows, which are summed with others and kept in files.

    Attributes
    ----------
    taken : dict of str to int
        Rows that were taken from each source.
    """

    #: What a file of them says that it holds.
    KIND: ClassVar[str]
    taken: dict[str, int]

    @abstractmethod
    def copy(self) -> Self:
        """Another one with the same numbers."""

    @abstractmethod
    def merge(self, other: Any) -> Self:
        """Add the rows of other statistics; returns itself.

        Parameters
        ----------
        other : statistics of the same kind
            They are left as they are. Blocks, outputs and folds must be those of this object.
        """

    @abstractmethod
    def state(self) -> Tree:
        """All numbers as plain arrays."""

    @classmethod
    @abstractmethod
    def of_state(cls, arrays: Mapping[str, Labels], where: object) -> Self:
        """Statistics from the arrays of `state`; raises `InputError` for arrays that do not fit together.

        Parameters
        ----------
        arrays : dict of str to array
            The arrays by name.
        where : str or path
            Where they were read, for messages.
        """

    def __add__(self, other: object) -> Self:
        return self.copy().merge(other) if isinstance(other, type(self)) else NotImplemented

    def __radd__(self, other: object) -> Self:
        # sum(parts) begins with 0
        return self.copy() if isinstance(other, int) and other == 0 else NotImplemented

    def _count(self, taken: Mapping[str, int]) -> None:
        """Account for rows that were taken from sources."""
        for key, count in taken.items():
            self.taken[key] = self.taken.get(key, 0) + count

    def _state_of_taken(self) -> dict[str, Any]:
        return {
            "sources": np.array(list(self.taken), dtype=np.str_),
            "taken": np.array(list(self.taken.values()), dtype=np.int64),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to an npz file of plain arrays, without pickles; the file appears when it is complete.

        Parameters
        ----------
        path : str or path
            The file; one that exists is replaced.
        """
        write_arrays(path, self.KIND, self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        InputError
            No such file, a damaged one, one of something else, a later version of the format.
        """
        return cls.of_state(read_arrays(path, cls.KIND), path)

    @classmethod
    def from_files(cls, folder: str | os.PathLike[str], pattern: str = "*.npz") -> Self:
        """Merge the files of a folder, such as those of the jobs of an array, in the order of their names.

        Parameters
        ----------
        folder : str or path
            The folder.
        pattern : str, default="*.npz"
            Which of its files are read; * and ? match any text.
        """
        return cls.merged(cls.load(path) for path in files_in(folder, pattern))

    @classmethod
    def merged(cls, parts: Iterable[Self]) -> Self:
        """The sum of some statistics; the first is changed.

        Parameters
        ----------
        parts : iterable of statistics of the same kind
            At least one.
        """
        every = iter(parts)
        out = next(every)
        for part in every:
            out.merge(part)
        return out


def taken_of(arrays: Mapping[str, Labels]) -> dict[str, int]:
    """Rows that were taken from each source, as they are in a file."""
    return {str(k): int(v) for k, v in zip(arrays["sources"], arrays["taken"], strict=True)}


def unreadable(where: object, error: Exception) -> InputError:
    """What is said of arrays that do not fit together."""
    return InputError(f"{where} cannot be read as statistics: {error}. Write it again, or leave it out.")


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
