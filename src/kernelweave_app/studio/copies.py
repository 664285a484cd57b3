"""Runs as records that can be stored elsewhere: in another project, or in a file."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

from kernelweave_app.studio.places import Places, safe_name
from kernelweave_app.studio.records import OF_RECORDS
from kernelweave_app.studio.schema import RunRequest
from kernelweave_app.studio.schema.projects import StoredRun
from kernelweave_app.studio.service import Studio

#: Of a run's folder: at most two folders deep, plain names.
_PART = r"[A-Za-z0-9][A-Za-z0-9 _.,=+()-]{0,150}"
OF_RUN = re.compile(
    rf"runs/(?P<run>[0-9]{{8}}-[0-9]{{6}}-[0-9a-f]{{6}})/(?P<name>(?:{_PART}/){{0,2}}{_PART})"
)
#: Texts of runs that name the folder of the tables.
_NAMES_FOLDER = ("script.py", "spec.toml")


def dump_run(studio: Studio, run_id: str) -> tuple[StoredRun, dict[str, Path]]:
    """A run that has ended, and its files by their names in its folder.

    Parameters
    ----------
    studio : Studio
        Inside the project.
    run_id : str

    Returns
    -------
    stored : StoredRun
    files : dict of str to Path
    """
    row, rows = studio.store.dump_run(run_id)
    request = json.loads(row.pop("request"))
    paths = {name: _portable(studio.places, Path(path)) for name, path in request.pop("paths", {}).items()}
    record = {name: request.pop(name) for name in OF_RECORDS if name in request}
    stored = StoredRun(
        record=record,
        paths=paths,
        request=RunRequest.model_validate(request),
        rows=rows,
        more={name: row.pop(name) for name in list(row) if name not in StoredRun.model_fields},
        **row,
    )
    folder = studio.places.run(run_id)
    found = {
        path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()
    }
    return stored, {
        name: path
        for name, path in found.items()
        if not path.is_symlink() and OF_RUN.fullmatch(f"runs/{run_id}/{name}")
    }


def load_run(studio: Studio, stored: StoredRun, files: dict[str, Path], old_folder: str) -> str:
    """Store a run with copies of its files; returns its new id.

    Parameters
    ----------
    studio : Studio
        Inside the project.
    stored : StoredRun
    files : dict of str to Path
    old_folder : str
        Where its tables were, if its scripts name it.

    Returns
    -------
    str
    """
    places = studio.places
    paths = {name: str(_own(places, path)) for name, path in stored.paths.items()}
    # a file of a run is one that it has
    rows = {
        **stored.rows,
        "artifact": [row for row in stored.rows.get("artifact", ()) if row["name"] in files],
    }
    request = {**stored.record, **stored.request.model_dump(), "paths": paths}
    run_id, folder = studio.queue.place()
    try:
        for name, path in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if name in _NAMES_FOLDER and len(old_folder) > 3:
                text = path.read_text(encoding="utf8").replace(old_folder, str(places.files))
                (folder / name).write_text(text, encoding="utf8")
            else:
                shutil.copyfile(path, folder / name)
        plain = stored.model_dump(exclude={"id", "request", "paths", "record", "more", "rows"})
        row = {**stored.more, **plain, "request": json.dumps(request)}
        row["created"] = stored.created or time.time()
        studio.store.load_run(run_id, row, rows)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return run_id


def _portable(places: Places, path: Path) -> str:
    """A table file without the folder that it is in."""
    return f"sets/{path.name}" if path.parent == places.sets else f"tables/{path.name}"


def _own(places: Places, path: str) -> Path:
    """Where the table of a run is in this project, whether or not it is there."""
    kind, _, name = path.partition("/")
    if kind == "sets" and re.fullmatch(r"[a-z0-9_-]{1,60}\.csv", name):
        return places.sets / name
    return places.files / safe_name(name)
