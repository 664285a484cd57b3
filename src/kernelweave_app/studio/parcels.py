"""A project as one file: a zip archive of its tables, its draft, and its runs with their files.

Nothing in it is a pickle. What comes in is checked before anything is stored: names, sizes while they are unpacked, and
contents by their types. It gets ids and folders of its own, so that nothing is overwritten.
"""

from __future__ import annotations

import json
import secrets
import shutil
import stat
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from kernelweave._errors import InputError
from kernelweave_app.studio.checking import check_table_file
from kernelweave_app.studio.contents import check_content
from kernelweave_app.studio.copies import OF_RUN, dump_run, load_run
from kernelweave_app.studio.database import DRAFT
from kernelweave_app.studio.disk import room
from kernelweave_app.studio.limits import Limits
from kernelweave_app.studio.places import safe_name
from kernelweave_app.studio.projects import Projects, check_name
from kernelweave_app.studio.schema import Draft
from kernelweave_app.studio.schema.projects import Project, StoredProject, StoredRun
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import FINAL
from kernelweave_app.studio.worker import KERNELS

INDEX = "project.json"
CHUNK = 2**20
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
    path = studio.places.uploads / f"{secrets.token_hex(8)}.zip"
    runs: list[StoredRun] = []
    try:
        with room(studio.places.root), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for table in here.places.tables():
                _write(archive, table, f"tables/{table.name}")
            for row in here.store.runs(FINAL):
                stored, files = dump_run(here, row["id"])
                runs.append(stored)
                for name, file in files.items():
                    _write(archive, file, f"runs/{stored.id}/{name}")
            index = StoredProject(
                format="kernelweave project",
                version=1,
                name=about.name,
                folder=about.folder,
                draft=here.draft(),
                runs=runs,
            )
            archive.writestr(INDEX, index.model_dump_json())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _write(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    packed = path.name.lower().endswith(_PACKED)
    archive.write(path, name, zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED)


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
    from starlette.concurrency import run_in_threadpool

    part = studio.places.uploads / f"{secrets.token_hex(8)}.part"
    count = 0
    try:
        with room(studio.places.root):
            with part.open("wb") as file:
                async for chunk in stream:
                    count += len(chunk)
                    if count > studio.limits.project:
                        raise InputError(
                            f"The file is larger than the limit of {studio.limits.project} bytes."
                        )
                    await run_in_threadpool(file.write, chunk)
            return await run_in_threadpool(unpack, studio, part)
    finally:
        part.unlink(missing_ok=True)


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
            with _told_as_input():
                index, tables, files = _unpack_all(path, folder, studio.limits)
            return _store(studio, index, tables, files)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _told_as_input() -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"The file of a project cannot be unpacked: {error!s:.200}.") from None


Files = dict[str, dict[str, Path]]


def _unpack_all(path: Path, folder: Path, limits: Limits) -> tuple[StoredProject, dict[str, Path], Files]:
    """Unpack what may be in an archive, counted; the names there are not those on disk."""
    tables: dict[str, Path] = {}
    files: Files = {}
    left = limits.project_unpacked
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
            left = _unpack_one(archive, member, target, left)
            _sort_in(member.filename, target, tables, files)
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
    for name, file in tables.items():
        check_table_file(file, name, limits)
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


def _unpack_one(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, left: int) -> int:
    """Unpack one file, counted; what a directory says of sizes may be wrong. Returns the bytes that are left."""
    with archive.open(member) as source, target.open("xb") as file:
        while chunk := source.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                raise InputError("The file of a project holds more than may be unpacked.")
            file.write(chunk)
    return left


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
    try:
        here = studio.inside(project.id)
        for table, path in tables.items():
            path.rename(here.places.files / table)
        for run in index.runs:
            load_run(here, run, files.get(run.id, {}), index.folder)
        here.store.set_draft(DRAFT, Draft.model_validate(index.draft).model_dump(mode="json"))
    except BaseException:
        projects.delete(project.id)
        raise
    return projects.one(project.id)
