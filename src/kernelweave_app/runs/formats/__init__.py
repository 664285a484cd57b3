"""Formats of table files, one file each: what a file holds, whether it may be read, and how a script reads it.

A new format is a module of this package with a subclass of `Format`. It then works wherever a table can be
named: fit, predict, evaluate and path on the command line, several tables as views, scripts, and uploads to the studio.
"""

from __future__ import annotations

import importlib
import numbers
import pkgutil
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any, Literal

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave_app.runs.columns import columns_of_objects, hold_only
from kernelweave_app.runs.joining import Joined

Use = Literal["table", "kernels", "sparse"]

#: Bytes that are read at once.
CHUNK = 2**20


@dataclass(frozen=True)
class FileLimits:
    """How large a file may be that somebody else has made.

    Attributes
    ----------
    unpacked : int
        Bytes after decompression.
    cells : int
        Rows times columns.
    columns : int
        Columns.
    """

    unpacked: int = 2**30
    cells: int = 100_000_000
    columns: int = 100_000

    def check(self, name: str, rows: int, columns: int) -> None:
        """Raise for a table that is too large."""
        if columns > self.columns or rows * columns > self.cells:
            raise InputError(
                f"{name} is larger than may be read: at most {self.columns} columns and {self.cells} cells."
            )

    def unpack(self, file: IO[bytes] | BufferedIOBase, name: str, counted: int = 0) -> Iterator[bytes]:
        """The bytes of a file, some at once, as long as there are not too many with those counted before."""
        while chunk := file.read(CHUNK):
            counted += len(chunk)
            self.check_bytes(name, counted)
            yield chunk

    def check_bytes(self, name: str, size: int) -> None:
        """Raise for more bytes than may be unpacked."""
        if size > self.unpacked:
            raise InputError(f"{name} holds more than {self.unpacked} bytes after decompression.")


class Format(ABC):
    """A format of table files.

    Attributes
    ----------
    name : str
        What messages call it.
    suffixes : tuple of str
        Endings of its files, in lower case.
    start : bytes
        First bytes of its files; empty for text.
    uploads : tuple of str
        Endings of files that the studio takes; by default all of them.
    in_chunks : bool
        Whether `kernelweave.rows.files` reads its files in chunks, for rows beyond memory.
    """

    name: str
    suffixes: tuple[str, ...]
    start: bytes = b""
    uploads: tuple[str, ...] = ()
    in_chunks: bool = False

    def named(self, name: str) -> bool:
        """Whether a file has such a name."""
        return name.lower().endswith(self.suffixes)

    def holds(self, path: Path) -> bool:
        """Whether a file is of this format, by its name or, where several formats share it, its content."""
        return self.named(path.name)

    def uses(self, path: Path) -> tuple[Use, ...]:
        """What a file can be to a run, the usual first."""
        return ("table",)

    @abstractmethod
    def table(self, path: Path) -> DataFrame:
        """The file as a table; exceptions of damaged files become errors of one line."""

    def read(self, path: Path, *, dense: bool = True) -> Joined:
        """The file as a table with the views in it; sparse rows become columns where `dense`."""
        return Joined(checked(path, self))

    def with_texts(self, names: Collection[str]) -> Format:
        """The format that reads some columns as texts, whatever their cells look like; itself where files say types."""
        return self

    def check(self, path: Path, name: str, limits: FileLimits) -> None:
        """Raise for a file that is too large, or not what its name says; the first bytes have been looked at."""
        limits.check(name, *checked(path, self, name).shape)

    def kind(self, name: str) -> str:
        """What messages call a file of this name."""
        return self.name

    def rows(self, path: str) -> Any:
        """The sparse rows of a file, or of the part of it that a number sign and its name tell."""
        raise no_rows(path)

    def rows_call(self, path: str) -> str:
        """The same in a script."""
        raise no_rows(path)

    @abstractmethod
    def lines(self, variable: str, path: str, data: Joined) -> list[str]:
        """Lines of a script that read the file.

        Parameters
        ----------
        variable : str
            The name of the table in the script, which has imported pandas as ``pd``.
        path : str
            Without quotation marks; write ``{path!r}``.
        data : Joined
            What was read.
        """


@cache
def formats() -> tuple[Format, ...]:
    """One object of each format in the modules of this package; that of text, which takes all other files, last."""
    found = []
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        own = [one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__]
        found += [one() for one in own if isinstance(one, type) and issubclass(one, Format)]
    return tuple(sorted(found, key=lambda one: (one.name == "csv", one.name)))


def format_of(path: str | Path) -> Format:
    """The format of a file; after a number sign follows a part of it."""
    source = Path(str(path).partition("#")[0])
    return next((one for one in formats() if one.holds(source)), formats()[-1])


def upload_suffixes() -> tuple[str, ...]:
    """Endings of files that the studio takes, and that messages and help name."""
    return tuple(dict.fromkeys(end for one in reversed(formats()) for end in one.uploads or one.suffixes))


def read_table(path: str | Path) -> DataFrame:
    """Read a table as a pandas DataFrame; every failure is an `InputError` of one line."""
    source = there(path)
    return checked(source, format_of(source))


def read_file(path: str | Path, *, dense: bool = True, texts: Collection[str] = ()) -> Joined:
    """Read a file with all views in it, and some columns as texts; see `Format.read` and `Format.with_texts`."""
    source, form = there(path), format_of(path).with_texts(texts)
    with one_error(path, "a table"):
        return form.read(source, dense=dense)


def read_rows(path: str) -> Any:
    """Sparse rows of a file; see `Format.rows`."""
    there(path.partition("#")[0])
    form = format_of(path)
    with one_error(path, "sparse rows"):
        return form.rows(path)


def there(path: str | Path) -> Path:
    """The path of a file that exists."""
    source = Path(path)
    if not source.exists():
        raise InputError(f"There is no file {source}.")
    if source.is_dir():
        raise InputError(f"{source} is a folder; a table file is needed ({', '.join(upload_suffixes())}).")
    return source


def checked(source: Path, form: Format, name: object = None) -> DataFrame:
    """The table of a file, with rows, and with columns whose names differ and are text; `name` is for messages."""
    shown = name or source
    with one_error(shown, "a table"):
        table = form.table(source)
    if table.shape[0] == 0 or table.shape[1] == 0:
        raise InputError(f"{shown} holds no rows or no columns, got {table.shape[0]} x {table.shape[1]}.")
    table.columns = [str(c) for c in table.columns]
    if len(set(table.columns)) < len(table.columns):
        raise same_name(shown, list(table.columns))
    for each in columns_of_objects(table, table.columns):
        column = table[each]
        if hold_only(column, numbers.Real | Decimal) and not hold_only(column, bool):
            # numbers beyond 64 bits, and decimals
            table[each] = column.astype(float)
    return table


def no_rows(path: str) -> InputError:
    """The error for a file without sparse rows."""
    return InputError(
        f"{path} is not a sparse table. Save one with scipy.sparse.save_npz (.npz), scipy.io.mmwrite (.mtx) or "
        "sklearn.datasets.dump_svmlight_file (.svmlight)."
    )


def same_name(source: object, names: Sequence[str]) -> InputError:
    """The error for columns that share a name."""
    again = [name for name, count in Counter(names).items() if count > 1]
    few = ", ".join(map(repr, again[:5])) + (", ..." if len(again) > 5 else "")
    return InputError(f"{source} has columns of the same name: {few}. Rename them.")


@contextmanager
def one_error(name: object, what: str) -> Iterator[None]:
    """Every failure to read a file as `what` becomes an `InputError` of one line."""
    try:
        yield
    except (InputError, ModuleNotFoundError):
        raise
    except zipfile.BadZipFile as error:
        raise InputError(f"{name} is damaged: {one_line(error)}.") from error
    except Exception as error:  # a damaged file raises anything, also lack of memory
        raise InputError(f"{name} cannot be read as {what}: {one_line(error)}.") from error


def one_line(error: Exception) -> str:
    """The reason of an exception."""
    said = str(error).strip().splitlines()
    if said and ("allow_pickle" in said[0] or "Python objects" in said[0]):
        return "it holds Python objects, which are never read"
    return said[0].rstrip(".")[:200] if said else type(error).__name__


def csr(values: Any, what: str) -> Any:
    """Compressed rows of finite real numbers, at least one row and one column."""
    from kernelweave._sparse import as_csr

    try:
        return as_csr(values)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


# ---- files of others -------------------------------------------------------------------------------


def check_file(path: Path, name: str, limits: FileLimits) -> None:
    """Raise unless a file is what its name says, by its content, before it is read.

    Parameters
    ----------
    path : Path
        The file; it need not have its final name.
    name : str
        The name, whose ending gives the format.
    limits : FileLimits

    Raises
    ------
    InputError
        If the content is something else, or larger than it may be.
    """
    form = next((one for one in formats() if one.named(name)), formats()[-1])
    with path.open("rb") as file:
        start = file.read(8)
    starts = [one.start for one in formats() if one.start and start.startswith(one.start)]
    if (starts and not form.start) or (form.start and form.start not in starts):
        raise InputError(f"{name} is not what its name says: the content is not a {form.kind(name)} table.")
    with one_error(name, f"a {form.kind(name)} table"):
        form.check(path, name, limits)
