"""Chunks of Parquet and text tables, one file or folders of them, which are never read whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError, needed
from kernelweave.rows.chunks import Chunk, Layout, Source, beyond, chunk_of_frame

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv", ".tab", ".txt")
PACKED = (".gz", ".bz2", ".xz", ".zst")
#: Rows from which types of the columns of a text table are taken.
LOOKED_AT = 1000


class FileRows(Source):
    """Rows of files.

    Parameters
    ----------
    files : mapping of str to Path
        Names of files, as statistics remember them, and where they are.
    layout : Layout
    size : int
        Rows of a chunk.
    """

    def __init__(self, files: Mapping[str, Path], layout: Layout, size: int) -> None:
        self.files, self.layout, self.size = dict(files), layout, size
        self.total = _count(self.files.values())

    def pieces(self) -> list[Source]:
        """A source for each file."""
        return [FileRows({name: path}, self.layout, self.size) for name, path in self.files.items()]

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All rows but the first of each file that are taken."""
        for name, path in self.files.items():
            read = _parquet_chunks if is_parquet(path) else _text_chunks
            yield from beyond(read(name, path, self.layout, self.size), taken.get(name, 0))


def is_parquet(path: Path) -> bool:
    """Whether a file is read as Parquet, by its name."""
    return path.suffix.lower() in PARQUET


def find_files(source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> dict[str, Path]:
    """Tables at a path, in a folder and its subfolders, or in a list, with names relative to the folder."""
    if isinstance(source, str | os.PathLike):
        if not os.fspath(source):
            raise InputError("`rows` must name a file or folder, got an empty text.")
        place = Path(source)
        if not place.exists():
            raise InputError(f"There is no file or folder {place}.")
        if place.is_file():
            return {place.name: place}
        tables = {name: path for name, path in files_under(place).items() if _is_table(path)}
        if not tables:
            raise InputError(
                f"{place} holds no tables. They are files {', '.join((*PARQUET, *TEXT))}, also packed."
            )
        return tables
    paths = [Path(path) for path in source]
    for path in paths:
        if not path.is_file():
            raise InputError(f"There is no file {path}.")
    names = [path.name for path in paths]
    if len(set(names)) == len(names):
        return dict(zip(names, paths, strict=True))
    return {path.as_posix(): path for path in paths}


def files_under(place: Path) -> dict[str, Path]:
    """Files in a folder and its subfolders with names relative to it; hidden ones are left out."""
    return {
        path.relative_to(place).as_posix(): path
        for path in sorted(place.rglob("*"))
        if path.is_file() and not any(part[:1] in "._" for part in path.relative_to(place).parts)
    }


def _is_table(path: Path) -> bool:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in (*PARQUET, *TEXT)


def columns_of(path: Path) -> list[str]:
    """Names of the columns of a table."""
    if is_parquet(path):
        with _opened_parquet(path) as file:
            return list(file.schema_arrow.names)
    return [str(name) for name in _read_text(path, nrows=0).columns]


def _count(paths: Iterable[Path]) -> int | None:
    """Rows of Parquet files, which say it at their end; None with text tables."""
    total = 0
    for path in paths:
        if not is_parquet(path):
            return None
        with _opened_parquet(path) as file:
            total += int(file.metadata.num_rows)
    return total


# ---- Parquet --------------------------------------------------------------------------------------


def _opened_parquet(path: Path) -> Any:
    needed("pyarrow", "Parquet files", "parquet")
    import pyarrow.parquet as pq

    with _read_as(path, "Parquet"):
        return pq.ParquetFile(path, page_checksum_verification=True)


def _parquet_chunks(name: str, path: Path, layout: Layout, size: int) -> Iterator[Chunk]:
    first = 0
    with _opened_parquet(path) as file:
        _need(name, file.schema_arrow.names, layout.needed)
        with _read_as(path, "Parquet"):
            for batch in file.iter_batches(batch_size=size, columns=layout.needed):
                yield layout.split(partial(_column, batch), batch.num_rows, name, first)
                first += batch.num_rows


def _column(batch: Any, name: str) -> NDArray[Any]:
    return np.asarray(batch.column(name).to_numpy(zero_copy_only=False))


# ---- text -----------------------------------------------------------------------------------------


def _text_chunks(name: str, path: Path, layout: Layout, size: int) -> Iterator[Chunk]:
    first = 0
    _need(name, columns_of(path), layout.needed)
    pieces = _read_text(path, chunksize=size, usecols=layout.needed)
    with pieces:
        while True:
            with _read_as(path, "a table"):
                frame = next(pieces, None)
            if frame is None:
                return
            yield chunk_of_frame(frame, layout, name, first)
            first += len(frame)


def _read_text(path: Path, **options: Any) -> Any:
    pd = needed("pandas", "Text tables", "cli")
    with _read_as(path, "a table"):
        return pd.read_csv(path, sep=_separator(path), **options)


def _separator(path: Path) -> str:
    """The separator that is most frequent in the first line."""
    import pandas as pd

    # tables do not contain this character, so that a line is one field
    head = pd.read_csv(path, sep="\x01", header=None, nrows=1, dtype=str, na_filter=False, quoting=3)
    line = str(head.iloc[0, 0]) if len(head) else ""
    return max((",", ";", "\t", "|"), key=lambda mark: (line.count(mark), mark == ","))


# ---- both -----------------------------------------------------------------------------------------


def _need(name: str, known: Sequence[str], needed: Sequence[str]) -> None:
    missing = [column for column in needed if column not in known]
    if missing:
        raise InputError(
            f"{name} has no column {missing[0]!r}, which the first file has. Leave the file out."
        )


@contextmanager
def _read_as(path: Path, what: str) -> Iterator[None]:
    """Say of a damaged file what it was read as."""
    try:
        yield
    except InputError:
        raise
    except (OSError, EOFError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} cannot be read as {what}: {reason.rstrip('.')}.") from error
