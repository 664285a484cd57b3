"""Files that appear whole, or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelweave._checks import InputError


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
