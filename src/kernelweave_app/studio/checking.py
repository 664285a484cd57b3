"""What the studio takes: how large things may be, and whether a file is what its name says, and never a pickle."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from kernelweave._errors import InputError
from kernelweave._types import Series
from kernelweave_app.runs.annotated_files import check_annotated
from kernelweave_app.runs.sparse_files import MOST_CELLS, read_sparse
from kernelweave_app.runs.tables import SEPARATORS, text_encoding


@dataclass(frozen=True)
class Limits:
    """Limits of uploads and requests.

    Attributes
    ----------
    upload : int
        Bytes of a table that is uploaded.
    unpacked : int
        Bytes of a table after decompression.
    cells : int
        Rows times columns of a table.
    columns : int
        Columns of a table.
    views : int
        Bytes of a file of views.
    project, project_unpacked : int
        Bytes of the file of a project, and of what is in it.
    body : int
        Bytes of any other request.
    """

    upload: int = 200_000_000
    unpacked: int = 2**30
    cells: int = 100_000_000
    columns: int = 100_000
    views: int = 32_000_000
    project: int = 2_000_000_000
    project_unpacked: int = 2**33
    body: int = 4 * 2**20


CHUNK = 2**20
MOST_ARRAYS = 1000
LONGEST_HEADER = 10_000
#: Bytes that do not occur in text tables, and soon occur in pickles, archives and programs.
BINARY = frozenset(range(32)) - {9, 10, 13, 12}
_CONTROL = re.compile(f"[{re.escape(''.join(map(chr, sorted(BINARY))))}]")


def check_table_file(path: Path, name: str, limits: Limits) -> str:
    """Return what a file is: "csv", "tsv", "parquet", "npz", "npy", "h5ad", "mtx" or "svmlight".

    Parameters
    ----------
    path : Path
        The file; it need not have its final name.
    name : str
        The name, whose suffix gives the type.
    limits : Limits

    Returns
    -------
    str

    Raises
    ------
    InputError
        If the content is something else, or larger than it may be.
    """
    promised = promised_kind(name)
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"PAR1"):
        found = "parquet"
    elif start.startswith(b"PK"):
        found = "npz"
    elif start.startswith(b"\x93NUMPY"):
        found = "npy"
    elif start == b"\x89HDF\r\n\x1a\n":
        found = "h5ad"
    else:
        found = "text"
    if promised in ("mtx", "svmlight") and found == "text" and not start.startswith(b"\x1f\x8b"):
        _check_sparse(path, name, limits)
        return promised
    if promised in ("csv", "tsv") and found == "text":
        _check_text(path, name, start.startswith(b"\x1f\x8b"), promised, limits)
        return promised
    if promised != found:
        raise InputError(f"{name} is not what its name says: the content is not a {promised} table.")
    if found == "parquet":
        _check_parquet(path, name, limits)
    elif found == "npy":
        with path.open("rb") as file:
            _check_array(file, path.stat().st_size, name, limits)
    elif found == "h5ad":
        check_annotated(path, name, limits.cells, limits.columns)
    else:
        _check_arrays(path, name, limits)
    return promised


def promised_kind(name: str) -> str:
    """The type that a file name stands for."""
    lower = name.lower().removesuffix(".gz")
    if lower.endswith((".parquet", ".pq")):
        return "parquet"
    if lower.endswith(".npz"):
        return "npz"
    for kind in ("mtx", "svmlight", "npy", "h5ad"):
        if lower.endswith(f".{kind}"):
            return kind
    return "tsv" if lower.endswith((".tsv", ".tab")) else "csv"


# ---- text -----------------------------------------------------------------------------------------


class SupportsRead(Protocol):
    """A file of bytes, compressed or not."""

    def read(self, size: int, /) -> bytes:
        """So many bytes at most."""
        ...


def _chunks(file: SupportsRead) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _check_text(path: Path, name: str, packed: bool, kind: str, limits: Limits) -> None:
    if packed != name.lower().endswith(".gz"):
        raise InputError(f"{name} is not what its name says: it is {'' if packed else 'not '}compressed.")
    decoder: codecs.IncrementalDecoder | None = None
    size = lines = columns = 0
    head = ""
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            for chunk in _chunks(file):
                size += len(chunk)
                if size > limits.unpacked:
                    raise InputError(f"{name} holds more than {limits.unpacked} bytes after decompression.")
                if decoder is None:
                    encoding = text_encoding(chunk)
                    if encoding == "utf-8" and _is_bare_utf16(chunk):
                        raise InputError(
                            f"{name} seems to be text in UTF-16 without a mark at its beginning. Save it as UTF-8."
                        )
                    decoder = codecs.getincrementaldecoder(encoding)()
                text = decoder.decode(chunk)
                if _CONTROL.search(text):
                    raise InputError(f"{name} is not text: a {kind} table has no control characters.")
                if not columns:
                    head += text
                    if "\n" in head or "\r" in head or len(head) > 64 * CHUNK:
                        start = re.split(r"[\r\n]", head, maxsplit=1)[0]
                        columns = max(start.count(mark) for mark in SEPARATORS) + 1
                lines += text.count("\n") + text.count("\r")
                if columns > limits.columns or lines * columns > limits.cells:
                    raise _too_many(name, limits)
        if decoder is not None:
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise InputError(
            f"{name} must be text in UTF-8, or in UTF-16 with its mark at the beginning. Save it as UTF-8."
        ) from None
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{name} cannot be unpacked: {error}.") from None


def _is_bare_utf16(start: bytes) -> bool:
    """Whether every other byte is zero, as in Latin letters in UTF-16."""
    part = start[:64]
    return len(part) >= 4 and (not any(part[::2]) or not any(part[1::2]))


def _check_sparse(path: Path, name: str, limits: Limits) -> None:
    """Text without control characters, and a table that is not too large when it has columns."""
    with path.open("rb") as file:
        for chunk in _chunks(file):
            if not BINARY.isdisjoint(chunk):
                raise InputError(f"{name} is not text: a sparse table has no control characters.")
    try:
        n_rows, n_columns = read_sparse(path, name).rows.shape
    except InputError as error:
        raise InputError(str(error).replace(str(path), name)) from None
    if n_columns > limits.columns or n_rows * n_columns > min(limits.cells, MOST_CELLS):
        raise _too_many(name, limits)


def _too_many(name: str, limits: Limits) -> InputError:
    return InputError(
        f"{name} is larger than the studio takes: at most {limits.columns} columns and {limits.cells} cells."
    )


# ---- Parquet --------------------------------------------------------------------------------------


def _check_parquet(path: Path, name: str, limits: Limits) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'kernelweave[parquet]'.") from None
    try:
        texts = []
        with pq.ParquetFile(path) as file:
            about, schema = file.metadata, file.schema_arrow
            declared = sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))
            if declared > limits.unpacked:
                raise InputError(f"{name} holds more than {limits.unpacked} bytes after decompression.")
            if len(schema) > limits.columns or about.num_rows * len(schema) > limits.cells:
                raise _too_many(name, limits)
            for field in schema:
                kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
                if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                    texts.append(field.name)
                elif pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                    raise InputError(f"{name}: column {field.name!r} holds {kind}, neither numbers nor text.")
        # one long text may stand for millions of cells: as a dictionary it is counted without being copied
        counted = 0
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            for batch in file.iter_batches(batch_size=65536, columns=texts) if texts else ():
                for column in batch.columns:
                    counted += _expanded(column)
                if counted > limits.unpacked:
                    raise InputError(f"{name} holds more than {limits.unpacked} bytes after decompression.")
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name} cannot be read as Parquet: {str(error).splitlines()[0]:.200}.") from None


def _expanded(column: Series) -> int:
    """Bytes of a column of text if each cell were written out."""
    import pyarrow.compute as pc

    if not hasattr(column, "dictionary"):
        return int(column.nbytes)
    lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
    return int(pc.sum(lengths).as_py() or 0)


# ---- arrays ---------------------------------------------------------------------------------------


def _check_arrays(path: Path, name: str, limits: Limits) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MOST_ARRAYS or sum(m.file_size for m in members) > limits.unpacked:
                raise InputError(
                    f"{name} holds too much: {MOST_ARRAYS} arrays, {limits.unpacked} bytes at most."
                )
            for member in members:
                if not member.filename.endswith(".npy") or "/" in member.filename or member.flag_bits & 1:
                    raise InputError(
                        f"{name} is not a file of NumPy arrays: it holds {member.filename!r:.60}."
                    )
            check_arrays(archive, members, name, limits)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise InputError(f"{name} cannot be unpacked: {error!s:.200}.") from None


def check_arrays(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], name: str, limits: Limits) -> None:
    """Refuse arrays of an archive that hold objects, or more than may be unpacked."""
    counted = 0
    for member in members:
        with archive.open(member) as file:
            what = f"{name}: array {member.filename.removesuffix('.npy')!r:.60}"
            _check_array(file, member.file_size, what, limits)
            # sizes in the directory may be wrong, so the unpacked bytes are counted
            for chunk in _chunks(file):
                counted += len(chunk)
                if counted > limits.unpacked:
                    raise InputError(f"{name} holds more than {limits.unpacked} bytes.")


def _check_array(file: IO[bytes], size: int, what: str, limits: Limits) -> None:
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file, max_header_size=LONGEST_HEADER)
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
    if cells > limits.cells or columns > limits.columns or cells * dtype.itemsize > limits.unpacked:
        raise _too_many(what, limits)
    if cells * dtype.itemsize > size:
        raise InputError(f"{what} is cut off.")


#: Suffixes of text, which has no control characters but these.
TEXTS = (".csv", ".html", ".json", ".md", ".py", ".svg", ".tex", ".toml", ".txt")
_CONTROL_BYTES = frozenset(range(32)) - {9, 10, 12, 13, 27}
#: How files of other types begin.
STARTS = {".pdf": b"%PDF-", ".png": b"\x89PNG\r\n\x1a\n"}
#: In a model file: states as JSON, and arrays without objects.
_OF_MODELS = (".json", ".npy")
FOREIGN = "foreign.skops"
MOST_PARTS = 200_000


def check_content(path: Path, name: str, limits: Limits) -> None:
    """Refuse a file of a run that is not what its name says.

    Parameters
    ----------
    path : Path
        The file; it need not have its final name.
    name : str
        Its name in the folder of the run, whose suffix gives the type.
    limits : Limits

    Raises
    ------
    InputError
        If the content is something else, or a pickle.
    """
    suffix = PurePosixPath(name).suffix.lower()
    if suffix == ".skops":
        _check_model(path, name, limits)
    elif suffix in (".npz", ".parquet"):
        check_table_file(path, name, limits)
    elif suffix in STARTS:
        with path.open("rb") as file:
            if not file.read(16).startswith(STARTS[suffix]):
                raise _other(name)
    elif suffix in TEXTS:
        _check_run_text(path, name, suffix)
    else:
        raise InputError(f"Files such as {name!r:.80} do not belong to a run.")


def _other(name: str) -> InputError:
    return InputError(f"{name!r:.80} is not what its name says.")


def _check_run_text(path: Path, name: str, suffix: str) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                if not _CONTROL_BYTES.isdisjoint(chunk):
                    raise _other(name)
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
        if suffix == ".json":
            json.loads(path.read_bytes())
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise _other(name) from None


def _check_model(path: Path, name: str, limits: Limits) -> None:
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise _other(name)
        file.seek(0)
        try:
            _check_parts(file, name, limits, nested=False)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError):
            raise _other(name) from None


def _check_parts(file: IO[bytes], name: str, limits: Limits, *, nested: bool) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MOST_PARTS or sum(m.file_size for m in members) > limits.unpacked:
            raise InputError(f"{name!r:.80} holds too much.")
        for member in members:
            part = PurePosixPath(member.filename)
            # what is not of this package is in an archive of its own, whose types are checked when it is loaded
            own = part.suffix in _OF_MODELS or (not nested and member.filename == FOREIGN)
            if not own or part.is_absolute() or ".." in part.parts or member.flag_bits & 1:
                raise InputError(f"{name!r:.80} holds {member.filename!r:.60}, which is no part of a model.")
            if member.filename == FOREIGN:
                with archive.open(member) as inner:
                    content = inner.read(limits.unpacked + 1)
                if len(content) > limits.unpacked:
                    raise InputError(f"{name!r:.80} holds too much.")
                _check_parts(io.BytesIO(content), name, limits, nested=True)
        check_arrays(archive, [m for m in members if m.filename.endswith(".npy")], name, limits)
