"""Model files: a zip archive of a state, its arrays, and a digest of everything at the end."""

from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from kernelweave._checks import InputError

#: Prefix of the digest of a file, in the comment at the end of the archive.
SEAL = b"kernelweave sha256 "
SEAL_LENGTH = len(SEAL) + 64

STATE = "state.json"
FOREIGN = "foreign.skops"


def check_place(path: str | os.PathLike[str]) -> Path:
    """The place of a file to write; raises for a folder."""
    target = Path(path)
    if not target.name or target.is_dir():
        raise InputError(f"`path` must name a file, got the folder {str(target)!r}. Add a name to it.")
    return target


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A temporary name beside the place, whose file is moved there at the end; after an exception it is deleted."""
    # not by tempfile, whose files only the owner may read
    name = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        yield name
        os.replace(name, target)
    finally:
        name.unlink(missing_ok=True)


def write(path: Path, state: dict[str, Any], foreign: bytes | None) -> None:
    """Write a state, whose arrays become members of the archive, each of them once."""
    arrays: list[np.ndarray] = []
    places: dict[int, int] = {}

    def place(value: object) -> dict[str, Any]:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"{type(value).__name__} is not part of a state")
        if id(value) not in places:
            places[id(value)] = len(arrays)
            arrays.append(value)
        return {"kind": "array", "index": places[id(value)]}

    text = json.dumps(state, default=place)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(STATE, text)
        for index, array in enumerate(arrays):
            with archive.open(f"arrays/{index}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        if foreign is not None:
            archive.writestr(FOREIGN, foreign)
    seal(path)


def read(file: IO[bytes]) -> tuple[dict[str, Any], bytes | None]:
    """The state of an archive, and the bytes of parts of other packages."""
    with zipfile.ZipFile(file) as archive:
        arrays: dict[int, np.ndarray] = {}

        def put(found: dict[str, Any]) -> Any:
            if found.get("kind") != "array":
                return found
            index = int(found["index"])
            if index not in arrays:
                content = io.BytesIO(archive.read(f"arrays/{index}.npy"))
                arrays[index] = np.lib.format.read_array(content, allow_pickle=False)
            return arrays[index]

        if "schema.json" in archive.namelist():
            raise InputError(
                "This is not a model file written by kernelweave.save, or one of version 0.1, which is no longer read. "
                "Load it with version 0.2, and save it again."
            )
        state = json.loads(archive.read(STATE), object_hook=put)
        return state, archive.read(FOREIGN) if FOREIGN in archive.namelist() else None


def seal(path: Path) -> None:
    """Write the digest of a file to its end, where archives have their comment."""
    with path.open("r+b") as file:
        # archives state the length of their comment
        file.seek(-2, os.SEEK_END)
        file.write(SEAL_LENGTH.to_bytes(2, "little"))
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.write(SEAL + digest.encode())


def is_sealed(file: IO[bytes], source: Path) -> bool:
    """Whether a file ends with its digest; a wrong digest is an error."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - SEAL_LENGTH))
    end = file.read()
    if not end.startswith(SEAL):
        return False
    digest, left = hashlib.sha256(), size - SEAL_LENGTH
    file.seek(0)
    while left > 0 and (chunk := file.read(min(left, 2**20))):
        digest.update(chunk)
        left -= len(chunk)
    if end[len(SEAL) :] != digest.hexdigest().encode():
        raise InputError(
            f"{source} is damaged: its content does not match its digest. Copy it from its source again."
        )
    return True
