"""Projects: made, renamed, copied, deleted, written to one file and read from it; and the table files in them.

The file of a project is a zip archive of its tables, its draft, and its runs with their files. Nothing in it is a
pickle. What comes in is checked before anything is stored: names, sizes while they are unpacked, and contents by their
types. It gets ids and folders of its own, so that nothing is overwritten.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import sqlite3
import stat
import time
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from kernelweave._errors import InputError
from kernelweave_app.runs.folders import undone_by
from kernelweave_app.runs.formats import check_file
from kernelweave_app.runs.lineage import checksum
from kernelweave_app.studio.catalogue import file_id, uses_of
from kernelweave_app.studio.checking import Limits, check_content
from kernelweave_app.studio.schema import (
    Beside,
    Project,
    ProjectId,
    ProjectName,
    RunRequest,
    StoredProject,
    StoredRun,
    TableFile,
)
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import (
    DRAFT,
    FINAL,
    FIRST,
    Places,
    no_project,
    packing,
    received,
    room,
    safe_name,
)
from kernelweave_app.studio.worker import KERNELS

#: Characters of the name of a project.
LONGEST = 80


def check_name(name: str) -> str:
    """The name of a project as it is stored: one line of visible characters; no file has it.

    Parameters
    ----------
    name : str

    Returns
    -------
    str

    Raises
    ------
    InputError
        For names that are empty, too long, of dots and slashes alone, or with characters that are invisible, such as
        marks that turn the direction of text.
    """
    name = unicodedata.normalize("NFC", name).strip()
    if not name or len(name) > LONGEST or len(name.encode("utf-8", "surrogatepass")) > 4 * LONGEST:
        raise InputError(f"The name of a project has 1 to {LONGEST} characters, got {name!r:.40}.")
    if not name.isprintable() or not name.strip("./\\ "):
        raise InputError(
            f"The name of a project has visible characters, and more than dots and slashes; got {name!r:.60}."
        )
    return name


class Projects:
    """All projects of a studio.

    Parameters
    ----------
    studio : Studio
    """

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.store = studio.store.inside(None)

    def all(self) -> list[Project]:
        """Projects, oldest first."""
        return [self._describe(row) for row in self.store.projects()]

    def one(self, project_id: ProjectId) -> Project:
        """One project; an unknown one is an error."""
        for row in self.store.projects():
            if row["id"] == project_id:
                return self._describe(row)
        raise no_project(project_id)

    def called(self, name: str) -> Project:
        """The project of a name; an unknown one is an error that lists the names."""
        found = self.all()
        for project in found:
            if name in (project.name, project.id):
                return project
        names = ", ".join(repr(project.name) for project in found[:20])
        raise InputError(f"There is no project {name!r:.100}. Projects are {names}.")

    def _describe(self, row: sqlite3.Row) -> Project:
        places = self.studio.places.inside(row["id"])
        sizes = [path.stat().st_size for path in places.tables()]
        return Project(
            id=row["id"],
            name=row["name"],
            created=row["created"],
            n_tables=len(sizes),
            n_runs=row["n_runs"],
            size=sum(sizes),
            folder=str(places.files),
        )

    # ---- changes ----------------------------------------------------------------------------------

    def make(self, name: ProjectName) -> Project:
        """Make an empty project; a number is added to a name that another one has."""
        name = check_name(name)
        project = secrets.token_hex(6)
        with room(self.studio.places.root):
            folder = self.studio.places.project(project)
            folder.mkdir(mode=0o700)
            with undone_by(folder.rmdir):
                self.store.add_project(project, name, LONGEST)
        return self.one(project)

    def rename(self, project_id: ProjectId, name: ProjectName) -> Project:
        """Give a project another name, which no other one has."""
        self.store.rename_project(project_id, check_name(name))
        return self.one(project_id)

    def duplicate(self, project_id: ProjectId, name: ProjectName = "", *, runs: bool = True) -> Project:
        """Copy a project: its tables, its draft, and, if wanted, the runs that have ended."""
        old = self.one(project_id)
        new = self.make(name or old.name)
        with undone_by(lambda: self.delete(new.id)), room(self.studio.places.root):
            self._copy(old, new, runs)
        return self.one(new.id)

    def _copy(self, old: Project, new: Project, runs: bool) -> None:
        places = self.studio.places
        for path in places.inside(old.id).tables():
            shutil.copy2(path, Path(new.folder) / path.name)
        draft = self.store.inside(old.id).draft(DRAFT)
        if draft is not None:
            self.store.inside(new.id).set_draft(DRAFT, draft)
        for row in self.store.inside(old.id).runs(FINAL) if runs else ():
            stored, files = dump_run(self.studio.inside(old.id), row["id"])
            load_run(self.studio.inside(new.id), stored, files, old.folder)

    def delete(self, project_id: ProjectId) -> None:
        """Delete a project with its draft, its runs and its tables; those of the data folder itself stay.

        Its runs must have ended, and one project remains.
        """
        places = self.studio.places
        folder = None if project_id == FIRST else places.project(project_id)
        runs = self.store.delete_project(project_id)
        for run in runs:
            shutil.rmtree(places.run(run), ignore_errors=True)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                raise InputError(
                    f"The project is deleted, but files in {folder} could not be: are they open elsewhere?"
                )


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
    beside = {name: request.pop(name) for name in Beside.model_fields if name in request}
    stored = StoredRun(
        record=Beside(**beside),
        paths=paths,
        request=RunRequest.model_validate(request),
        rows=rows,
        more={name: row.pop(name) for name in list(row) if name not in StoredRun.model_fields},
        **row,
    )
    folder = studio.places.run(run_id)
    plain = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    files = {path.relative_to(folder).as_posix(): path for path in plain}
    return stored, {name: path for name, path in files.items() if OF_RUN.fullmatch(f"runs/{run_id}/{name}")}


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
    artifacts = [row for row in stored.rows.get("artifact", ()) if row["name"] in files]
    request = {**stored.record.model_dump(exclude_unset=True), **stored.request.model_dump(), "paths": paths}
    run_id, folder = studio.queue.place()
    with undone_by(lambda: shutil.rmtree(folder, ignore_errors=True)):
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
        studio.store.load_run(run_id, row, {**stored.rows, "artifact": artifacts})
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


INDEX = "project.json"
#: Bytes of the index, and files in an archive.
LARGEST_INDEX = 256 * 2**20
MOST_FILES = 50_000
#: Files that are compressed already.
_PACKED = (".gz", ".parquet", ".pq", ".npz", ".skops", ".pdf", ".png")


# ---- out ------------------------------------------------------------------------------------------------------------


def pack(studio: Studio, project: str) -> Path:
    """Write a project to a file among the uploads, which whoever asked for it deletes.

    Parameters
    ----------
    studio : Studio
    project : str

    Returns
    -------
    Path
    """
    about = Projects(studio).one(project)
    here = studio.inside(project)
    runs: list[StoredRun] = []
    checksums: dict[str, str] = {}

    with packing(studio.places) as archive:

        def write(path: Path, name: str) -> None:
            packed = path.name.lower().endswith(_PACKED)
            archive.write(path, name, zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED)
            checksums[name] = checksum(path)

        for table in here.places.tables():
            write(table, f"tables/{table.name}")
        for row in here.store.runs(FINAL):
            stored, files = dump_run(here, row["id"])
            runs.append(stored)
            for name, file in files.items():
                write(file, f"runs/{stored.id}/{name}")
        index = StoredProject(
            format="kernelweave project",
            version=1,
            name=about.name,
            folder=about.folder,
            draft=here.draft(),
            runs=runs,
            checksums=checksums,
        )
        archive.writestr(INDEX, index.model_dump_json())
    return Path(str(archive.filename))


# ---- in -------------------------------------------------------------------------------------------------------------


async def receive_project(studio: Studio, stream: AsyncIterator[bytes]) -> Project:
    """Receive the file of a project as a stream of bytes, check it, and store it as a new project.

    Parameters
    ----------
    studio : Studio
    stream : iterator of bytes

    Returns
    -------
    Project
    """
    async with received(stream, studio.places, "The file", studio.limits.project) as part:
        return await run_in_threadpool(unpack, studio, part)


def unpack(studio: Studio, path: Path) -> Project:
    """Store the file of a project as a new project; nothing is stored unless all of it is as it should be.

    Parameters
    ----------
    studio : Studio
    path : Path

    Returns
    -------
    Project
    """
    folder = studio.places.uploads / f"{secrets.token_hex(8)}.d"
    with room(studio.places.root):
        folder.mkdir(mode=0o700)
        try:
            try:
                index, tables, files = _unpack_all(path, folder, studio.limits)
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
                raise InputError(f"The file of a project cannot be unpacked: {error!s:.200}.") from None
            return _store(studio, index, tables, files)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


Files = dict[str, dict[str, Path]]


def _unpack_all(path: Path, folder: Path, limits: Limits) -> tuple[StoredProject, dict[str, Path], Files]:
    """Unpack what may be in an archive, counted; the names there are not those on disk."""
    tables: dict[str, Path] = {}
    files: Files = {}
    # what a directory says of sizes may be wrong, so the unpacked bytes are counted
    whole, counted = replace(limits, unpacked=limits.project), 0
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        names = [member.filename for member in members]
        if len(members) > MOST_FILES or len({name.casefold() for name in names}) < len(names):
            raise InputError(
                f"The file of a project holds too many files (at most {MOST_FILES}), or one twice."
            )
        if INDEX not in names:
            raise InputError(f"This is not the file of a project: it has no {INDEX}.")
        for number, member in enumerate(members):
            _check_member(member)
            target = folder / str(number)
            with archive.open(member) as source, target.open("xb") as out:
                for chunk in whole.unpack(source, "The file of a project", counted):
                    counted += out.write(chunk)
            _sort_in(member.filename, target, tables, files)
            if member.filename.startswith("tables/") and target.stat().st_size > limits.upload:
                raise InputError(f"{member.filename:.80} is larger than the limit of {limits.upload} bytes.")
    if (folder / str(names.index(INDEX))).stat().st_size > LARGEST_INDEX:
        raise InputError(f"{INDEX} is larger than {LARGEST_INDEX} bytes.")
    try:
        index = StoredProject.model_validate_json((folder / str(names.index(INDEX))).read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:4])
        raise InputError(f"{INDEX} is not that of a project: {where}: {first['msg']:.200}.") from None
    except RecursionError:
        raise InputError(f"{INDEX} is not that of a project: it is nested too deeply.") from None
    for name, wanted in index.checksums.items():
        place = folder / str(names.index(name)) if name in names else None
        if place is None or checksum(place) != wanted:
            raise InputError(
                f"{name:.80} is not as it was exported, so that the results of this project may not be its own. "
                "Export the project again."
            )
    for name, file in tables.items():
        check_file(file, name, limits)
    for parts in files.values():
        for name, file in parts.items():
            check_content(file, name, limits)
        if KERNELS in parts:
            _check_kernels(parts[KERNELS])
    unknown = set(files) - {run.id for run in index.runs}
    if unknown or len({run.id for run in index.runs}) < len(index.runs):
        raise InputError(f"{INDEX} does not fit its files: runs are missing there, or twice.")
    return index, tables, files


def _check_kernels(path: Path) -> None:
    names = json.loads(path.read_bytes())
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{KERNELS} of a run does not hold the names of kernels.")


def _check_member(member: zipfile.ZipInfo) -> None:
    kind = member.external_attr >> 16
    if member.flag_bits & 1 or (stat.S_IFMT(kind) not in (0, stat.S_IFREG)) or member.is_dir():
        raise InputError(f"The file of a project holds {member.filename!r:.80}, which is no plain file.")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"{member.filename!r:.80} is compressed in a way that is not known here.")


def _sort_in(name: str, path: Path, tables: dict[str, Path], files: Files) -> None:
    found = OF_RUN.fullmatch(name)
    if found is not None:
        files.setdefault(found["run"], {})[found["name"]] = path
    elif name.startswith("tables/"):
        tables[safe_name(name.removeprefix("tables/"))] = path
    elif name != INDEX:
        raise InputError(f"The file of a project holds {name!r:.80}, which does not belong there.")


def _store(studio: Studio, index: StoredProject, tables: dict[str, Path], files: Files) -> Project:
    projects = Projects(studio)
    try:
        name = check_name(index.name)
    except InputError:
        name = "Imported project"
    project = projects.make(name)
    with undone_by(lambda: projects.delete(project.id)):
        here = studio.inside(project.id)
        for table, path in tables.items():
            path.chmod(0o600)
            path.rename(here.places.files / table)
        for run in index.runs:
            load_run(here, run, files.get(run.id, {}), index.folder)
        here.set_draft(index.draft)
    return projects.one(project.id)


def describe_files(studio: Studio) -> list[TableFile]:
    """Describe the table files of a project; one that has not changed is read once.

    Parameters
    ----------
    studio : Studio
        Inside the project.

    Returns
    -------
    list of TableFile
    """
    requests = [json.loads(row["request"]) for row in studio.store.runs()]
    used = Counter(path for one in requests for path in set(one.get("paths", {}).values()))
    found = []
    for path in studio.places.tables():
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            found.append(_describe(studio, path, used[str(path)]))
    return found


def _describe(studio: Studio, path: Path, n_runs: int) -> TableFile:
    def look() -> dict[str, Any]:
        found: dict[str, Any] = {"checksum": checksum(path), "n_rows": None, "n_columns": None}
        try:
            if uses_of(path)[0] == "table":
                found["n_rows"], found["n_columns"] = studio.catalogue.read_file(path, path.name).shape
        except InputError as error:
            found["problem"] = str(error)
        return found

    about, known = path.stat(), studio.catalogue.of_file(path, "file", look)
    named = {"id": file_id(path.name), "name": path.name, "size": about.st_size, "since": about.st_mtime}
    return TableFile.model_validate({**named, "n_runs": n_runs, **known})


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
