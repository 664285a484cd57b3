"""The table files of a project: what is in them, which version they are, and since when."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from pathlib import Path

from kernelweave._errors import InputError
from kernelweave_app.studio.catalogue import file_id, uses_of
from kernelweave_app.studio.disk import DiskFull
from kernelweave_app.studio.schema.projects import TableFile
from kernelweave_app.studio.service import Studio

#: Name of what is kept about a file, before its id.
KEPT = "file"


def describe_files(studio: Studio) -> list[TableFile]:
    """Describe the table files of a project; one that has not changed since is not read again.

    Parameters
    ----------
    studio : Studio
        Inside the project.

    Returns
    -------
    list of TableFile
    """
    used: dict[str, int] = {}
    for row in studio.store.runs():
        for path in set(json.loads(row["request"]).get("paths", {}).values()):
            used[path] = used.get(path, 0) + 1
    found = []
    for path in studio.places.tables():
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            found.append(_describe(studio, path, used.get(str(path), 0)))
    return found


def _describe(studio: Studio, path: Path, n_runs: int) -> TableFile:
    about = path.stat()
    key, version = f"{KEPT} {file_id(path.name)}", [about.st_mtime_ns, about.st_size]
    kept = studio.store.draft(key)
    if kept is None or kept["version"] != version:
        kept = {"version": version, **_look(studio, path)}
        with contextlib.suppress(DiskFull):  # looked at again next time
            studio.store.set_draft(key, kept)
    return TableFile(
        id=file_id(path.name),
        name=path.name,
        size=about.st_size,
        n_rows=kept["n_rows"],
        n_columns=kept["n_columns"],
        checksum=kept["checksum"],
        since=about.st_mtime,
        n_runs=n_runs,
        problem=kept["problem"],
    )


def _look(studio: Studio, path: Path) -> dict[str, object]:
    n_rows = n_columns = None
    problem = ""
    try:
        if uses_of(path)[0] == "table":
            n_rows, n_columns = studio.catalogue.read_file(path, path.name).shape
    except InputError as error:
        problem = str(error)
    return {
        "checksum": checksum(path),
        "n_rows": n_rows,
        "n_columns": n_columns,
        "problem": problem,
    }


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_file(studio: Studio, old_id: str, new_id: str) -> str:
    """Delete a table file of a project in favour of another one, which takes its name if it has it with a number.

    Parameters
    ----------
    studio : Studio
        Inside the project.
    old_id, new_id : str

    Returns
    -------
    str
        The id of the other one from now on.
    """
    if old_id == new_id:
        return new_id
    old, new = studio.catalogue.entry(old_id), studio.catalogue.entry(new_id)
    if {old.ref.source, new.ref.source} != {"data folder"}:
        raise InputError("Only files of the project can be replaced, and only by files of the project.")
    before, after = old.path(), new.path()
    stem, dot, rest = before.name.partition(".")
    try:
        if re.fullmatch(rf"{re.escape(stem)}-[0-9]+{re.escape(dot + rest)}", after.name):
            after.replace(before)
            return old_id
        before.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{before.name} cannot be replaced: {error.strerror}. Is it open elsewhere?"
        ) from None
    return new_id
