"""Features of chunks in binary files, which later passes read in place of what was slow to read."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._parameters import shown
from kernelweave._sparse import is_sparse
from kernelweave.rows.chunk import Chunk, Source


class OwnFolder:
    """A fresh folder in another, which is removed with this object.

    Parameters
    ----------
    cache : path
    """

    def __init__(self, cache: object) -> None:
        if not isinstance(cache, str | os.PathLike) or not os.path.isdir(cache):
            raise InputError(
                f"`cache` must be a folder that exists, got {shown(cache)}. Make it, or pass None."
            )
        self.path = Path(tempfile.mkdtemp(prefix="kernelweave-", dir=os.fspath(cache)))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class WrittenRows(Source):
    """Chunks whose features are in files.

    Parameters
    ----------
    place : Path
        Folder of the files, of which each holds a chunk.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.paths: list[Path] = []

    def write(self, Z: Any) -> None:
        """Add a chunk, dense or of sparse rows."""
        path = self.place / f"{len(self.paths)}.{'npz' if is_sparse(Z) else 'npy'}"
        try:
            if is_sparse(Z):
                from scipy import sparse

                sparse.save_npz(path, Z, compressed=False)
            else:
                np.save(path, Z)
        except OSError as error:
            raise InputError(
                f"`cache` must have room for the features, got an error after {len(self.paths)} chunks: "
                f"{error.strerror}. Name a folder on another disk."
            ) from error
        self.paths.append(path)

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All chunks, without targets."""
        for path in self.paths:
            if path.suffix == ".npy":
                yield Chunk(np.load(path, mmap_mode="r"), None)
                continue
            from scipy import sparse

            yield Chunk(sparse.load_npz(path), None)
