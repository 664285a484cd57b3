"""What statistics of rows share: they are added, and written to npz archives of plain arrays, which are checked."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kernelweave._docstrings import InheritedTexts
from kernelweave._errors import InputError
from kernelweave._types import Labels, Tree

#: First entry of every file, and the version of what follows.
FORMAT = "kernelweave statistics"
VERSION = 1
#: Bytes that are checked at a time.
PIECE = 2**24


@dataclass(frozen=True)
class InFile:
    """Numbers that stay in a file: slices are memory maps, which end with what was read through them.

    Attributes
    ----------
    path : Path
        The file.
    offset, count : int
        The byte where they begin, and how many there are.
    stamp : tuple of int
        Number, bytes and time of the file, for whether it is still the same.
    """

    path: Path
    offset: int
    count: int
    stamp: tuple[int, int, int]

    def __getitem__(self, part: slice) -> NDArray[np.float64]:
        try:
            same = _stamp_of(self.path) == self.stamp
        except OSError:
            same = False
        if not same:
            raise InputError(
                f"{self.path} was changed or removed after its statistics were loaded. Load them again, or without "
                "`mmap_mode`."
            )
        first, last, _ = part.indices(self.count)
        if last <= first:
            return np.empty(0)
        return np.memmap(self.path, np.float64, "r", self.offset + 8 * first, (last - first,))

    @property
    def shape(self) -> tuple[int]:
        """Number of numbers."""
        return (self.count,)


def _stamp_of(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


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

    @abstractmethod
    def hold(self) -> None:
        """Read products of columns that stay in a file, and hold them in memory."""

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap_mode: str | None = None) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.
        mmap_mode : {"r"}, optional
            With "r", as in NumPy, products of columns stay in the file, which must stay as it is, and are read some
            columns at a time. Default: they are held in memory.

        Raises
        ------
        InputError
            No such file, a damaged one, one of something else, a later version of the format; with `mmap_mode` a
            compressed one.
        """
        if mmap_mode not in (None, "r"):
            raise InputError(f'`mmap_mode` must be None or "r", got {mmap_mode!r}.')
        out = cls.of_state(read_arrays(path, cls.KIND, mapped=mmap_mode is not None), path)
        if mmap_mode is None:
            out.hold()
        return out

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
        # the first becomes the sum
        return cls.merged(
            cls.load(path, mmap_mode="r" if k else None) for k, path in enumerate(files_in(folder, pattern))
        )

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
    said = str(error).rstrip(".")
    return InputError(f"{where} cannot be read as statistics: {said}. Write it again, or leave it out.")


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


def read_arrays(path: str | os.PathLike[str], kind: str, *, mapped: bool = False) -> dict[str, Any]:
    """The arrays of a file of statistics of one kind; damaged and other files are an `InputError`.

    Products of columns stay in the file where they are not compressed; `mapped` refuses those that are.
    """
    source = Path(path)
    if not source.is_file():
        raise InputError(f"There is no file of statistics {source}.")
    try:
        # opened here, because NumPy leaves damaged archives open
        with open(source, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            found = {name: _array_of(file, name, source, opened) for name in file.files}
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
    if mapped and any(_are_products(name) and not isinstance(found[name], InFile) for name in found):
        raise InputError(f"{source} is compressed, so that it cannot be mapped. Load it without `mmap_mode`.")
    return found


def _are_products(name: str) -> bool:
    """Whether an entry has the products of columns, of all rows or of a fold."""
    return name.rpartition(".")[2] == "products"


def _array_of(file: Any, name: str, path: Path, opened: BinaryIO) -> Any:
    """An array of an archive; products of columns as their place in the file, once their check sum was compared."""
    if not _are_products(name):
        return file[name]
    member = file.zip.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED:
        return file[name]
    with file.zip.open(member) as numbers:
        while numbers.read(PIECE):
            pass
    # the local header has lengths of a name and of what follows it, then come the header of NumPy and the numbers
    opened.seek(member.header_offset + 26)
    opened.seek(member.header_offset + 30 + sum(struct.unpack("<HH", opened.read(4))))
    np.lib.format.read_magic(opened)
    shape, _, kind = np.lib.format.read_array_header_1_0(opened)
    if len(shape) != 1 or kind != np.float64:
        return file[name]
    return InFile(path.resolve(), opened.tell(), shape[0], _stamp_of(path))


#: Classes that read a kind of file.
_CLASSES = {"statistics of blocks": "BlockStatistics", "statistics of folds": "rows.FoldStatistics"}


def files_in(folder: str | os.PathLike[str], pattern: str) -> list[Path]:
    """Files of statistics in a folder, by name; hidden ones, which are being written, are left out."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"There is no folder {place}.")
    found = sorted(path for path in place.glob(pattern) if path.is_file() and not path.name.startswith("."))
    if not found:
        raise InputError(f"No file in {place} matches {pattern!r}.")
    return found
