"""What the studio takes: how large things may be, and whether a file is what its name says, and never a pickle."""

from __future__ import annotations

import codecs
import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from kernelweave._errors import InputError
from kernelweave_app.runs.formats import CHUNK, FileLimits, check_file
from kernelweave_app.runs.formats.arrays import check_arrays


@dataclass(frozen=True)
class Limits(FileLimits):
    """Limits of uploads and requests.

    Attributes
    ----------
    upload : int
        Bytes of a table, however it comes: uploaded, or in the file of a project.
    unpacked, cells, columns : int
        Of a table, see `FileLimits`.
    views : int
        Bytes of a file of views.
    body : int
        Bytes of any other request.
    """

    upload: int = 200_000_000
    views: int = 32_000_000
    body: int = 4 * 2**20

    @property
    def project(self) -> int:
        """Bytes of the file of a project, packed and unpacked: ten tables of the largest size."""
        return 10 * self.upload


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
        check_file(path, name, limits)
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
                    content = b"".join(limits.unpack(inner, f"{name!r:.80}"))
                _check_parts(io.BytesIO(content), name, limits, nested=True)
        check_arrays(archive, [m for m in members if m.filename.endswith(".npy")], name, limits)
