"""What the studio stores: folders and files below the data folder, and records in one SQLite file (WAL).

Tables of the first project are in the data folder itself, those of further projects in ``studio/projects``, in a folder
for each, called by its id. Server and runs write to the database at the same time.
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import secrets
import shutil
import sqlite3
import threading
import time
import zipfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from kernelweave._errors import InputError
from kernelweave_app.runs.evidence import EVIDENCE
from kernelweave_app.runs.folders import undone_by
from kernelweave_app.runs.formats import upload_suffixes
from kernelweave_app.studio.schema import (
    Artifact,
    Beside,
    Event,
    Marks,
    Metric,
    PathPoint,
    Record,
    Run,
    RunRequest,
    Summary,
)

#: What SQLite and the file system say when nothing more can be written.
_OF_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_FSYNC")
_OF_SYSTEM = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(InputError):
    """Nothing more can be written to the data folder."""


def is_full(error: BaseException) -> bool:
    """Whether an error says that there is no room on the disk."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorname", "") in _OF_SQLITE or "disk is full" in str(error)
    return isinstance(error, OSError) and error.errno in _OF_SYSTEM


def describe_full(folder: Path) -> str:
    """What is wrong, and what to do about it."""
    return f"The disk is full: nothing can be written to {folder}. Free some space, then try again."


Seen = TypeVar("Seen")


def changed(one: Seen, **parts: object) -> Seen:
    """A copy of an object with other parts, which shares all that stays, such as what it remembers."""
    other = copy(one)
    vars(other).update(parts)
    return other


@contextmanager
def room(folder: Path) -> Iterator[None]:
    """Turn errors of a full disk into `DiskFull`.

    Parameters
    ----------
    folder : Path
        Where something is written.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if is_full(error):
            raise DiskFull(describe_full(folder)) from error
        raise


LONGEST_FILE_NAME = 120
#: The project that a folder has from the beginning: the tables in the folder itself, and what older versions stored.
FIRST = "first"
#: File with the model of a run.
MODEL = "model.skops"
#: Files of a run by their names: kind, title, and what is to be known; those without a title are listed nowhere.
FILES = {
    MODEL: ("model", "Model", "Load it with kernelweave.load(…); nothing in it is executed."),
    "report.html": ("report", "Report", "One page with all figures, to be read or printed anywhere."),
    "predictions.csv": ("predictions", "Predictions", "Of the held-out rows, beside the truth."),
    "spec.toml": (
        "settings",
        "Settings",
        "For the command line: kernelweave fit TABLE --spec spec.toml --out FOLDER.",
    ),
    "script.py": (
        "script",
        "Python script",
        "Shown below. It reads the tables of this computer, and the one in the folder its own.",
    ),
    "grams.json": (
        "settings",
        "Names of rows",
        "Of the precomputed kernels; kernelweave predict reads it beside the model.",
    ),
    "tables.json": (
        "settings",
        "Tables",
        "Which columns came from which; kernelweave predict reads it beside the model.",
    ),
    EVIDENCE: ("results", "", ""),
    "lineage.json": ("settings", "", ""),
}
#: File in a run's folder whose time says since when the run, asked to stop, has been writing what it has.
SAVING = "saving"


class Places:
    """Folders and files of one studio.

    Parameters
    ----------
    root : Path
        The data folder; made if it does not exist.

    Attributes
    ----------
    files : Path
        The folder with the tables of a project, see `inside`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()
        self.state = self.root / "studio"
        self.database = self.state / "studio.sqlite"
        self.lock = self.state / "server.lock"
        self.runs = self.state / "runs"
        self.sets = self.state / "sets"
        self.uploads = self.state / "uploads"
        self.pages = self.state / "pages"
        self.projects = self.state / "projects"
        self.files = self.root
        try:
            parts = (self.runs, self.sets, self.uploads, self.pages, self.projects)
            for folder in (self.root, self.state, *parts):
                folder.mkdir(parents=True, exist_ok=True)
            # models and tables may be confidential
            self.state.chmod(0o700)
        except OSError as error:
            raise InputError(
                f"The data folder {self.root} cannot be used: {error.strerror or error}. Choose another --data-dir."
            ) from None

    def sweep(self) -> None:
        """Delete what a server that was killed has left of uploads and exports; no other one may be running."""
        for path in self.uploads.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()

    def run(self, run_id: str) -> Path:
        """Folder of a run; its name is checked although the studio made it."""
        if not re.fullmatch(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}", run_id):
            raise InputError(f"There is no run {run_id!r:.60}.")
        return self.runs / run_id

    def inside(self, project: str) -> Places:
        """The same places with the tables of a project."""
        return changed(self, files=self.root if project == FIRST else self.project(project))

    def project(self, project: str) -> Path:
        """Folder of the tables of a project other than the first; its name is checked although the studio made it."""
        if not re.fullmatch(r"[0-9a-f]{12}", project):
            raise InputError(f"There is no project {project!r:.60}.")
        return self.projects / project

    def tables(self) -> list[Path]:
        """Table files of the project: regular files, no links out of its folder."""
        if not self.files.is_dir():  # deleted by another window
            return []
        return sorted(
            path
            for path in self.files.iterdir()
            if path.name.lower().endswith(upload_suffixes())
            and not path.name.startswith(".")
            and path.is_file()
            and path.resolve().parent == self.files
        )


def safe_name(name: str) -> str:
    """Check the name of an uploaded table: one name, without folders or invisible characters."""
    if not name or len(name.encode()) > LONGEST_FILE_NAME:
        raise InputError(f"A file name of 1 to {LONGEST_FILE_NAME} bytes is needed, got {name!r:.40}.")
    if re.search(r'[/\\:*?"<>|\x00-\x1f\x7f]', name) or name.startswith(".") or not name.isprintable():
        raise InputError(
            f"The file name {name!r:.60} contains characters that are not allowed in names of tables."
        )
    if not name.lower().endswith(upload_suffixes()):
        raise InputError(
            f"The file name must end in one of {', '.join(upload_suffixes())}, got {name!r:.60}."
        )
    return name


@asynccontextmanager
async def received(stream: AsyncIterator[bytes], places: Places, name: str, most: int) -> AsyncIterator[Path]:
    """A stream of bytes as a file among the uploads, which is deleted in the end.

    Parameters
    ----------
    stream : iterator of bytes
    places : Places
    name : str
        What it is called in errors.
    most : int
        Bytes.
    """
    part, count = places.uploads / f"{secrets.token_hex(8)}.part", 0
    try:
        with room(places.root):
            with part.open("wb") as file:
                async for chunk in stream:
                    count += len(chunk)
                    if count > most:
                        raise InputError(f"{name} is larger than the limit of {most} bytes.")
                    await run_in_threadpool(file.write, chunk)
            if not count:
                raise InputError(f"{name} is empty.")
            yield part
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def packing(places: Places) -> Iterator[zipfile.ZipFile]:
    """A zip file among the uploads, to be written; whoever asked for it deletes it, and one that fails is not left."""
    path = places.uploads / f"{secrets.token_hex(8)}.zip"
    with (
        undone_by(partial(path.unlink, missing_ok=True)),
        room(places.root),
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive,
    ):
        yield archive


def free_path(folder: Path, name: str) -> Path:
    """An unused path in the folder, with a number if necessary: an empty file, so that nobody else takes it."""
    path, number = folder / name, 2
    stem, dot, rest = name.partition(".")
    while True:
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            path, number = folder / f"{stem}-{number}{dot}{rest}", number + 1
        else:
            return path


#: The draft of a project: table, target and settings that are being edited.
DRAFT = "current"

_TABLES = """
CREATE TABLE IF NOT EXISTS run (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, request TEXT NOT NULL, created REAL NOT NULL,
    started REAL, finished REAL, pid INTEGER, pid_started REAL, cancelled REAL, done INTEGER NOT NULL DEFAULT 0,
    total INTEGER, step TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', summary TEXT, asked TEXT);
CREATE TABLE IF NOT EXISTS event (
    number INTEGER PRIMARY KEY, run TEXT NOT NULL, time REAL NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS point (
    number INTEGER PRIMARY KEY, run TEXT NOT NULL, stage TEXT NOT NULL, alpha REAL NOT NULL, rel_gap REAL,
    n_active INTEGER NOT NULL, weights TEXT NOT NULL, output TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS metric (
    run TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, low REAL, high REAL, n INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, name));
CREATE TABLE IF NOT EXISTS artifact (
    run TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (run, name));
CREATE TABLE IF NOT EXISTS token (hash TEXT PRIMARY KEY, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS session (hash TEXT PRIMARY KEY, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS draft (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS project (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, created REAL NOT NULL, opened REAL NOT NULL);
CREATE TABLE IF NOT EXISTS mark (
    run TEXT PRIMARY KEY, pinned INTEGER NOT NULL, note TEXT NOT NULL, tags TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS event_of_run ON event (run, number);
CREATE INDEX IF NOT EXISTS point_of_run ON point (run, number);
"""
#: Columns that files of older versions lack, by table.
_LATER = {
    "run": {"asked": "TEXT", "project": f"TEXT NOT NULL DEFAULT '{FIRST}'"},
    "point": {"output": "TEXT NOT NULL DEFAULT ''"},
    "metric": {"low": "REAL", "high": "REAL", "n": "INTEGER NOT NULL DEFAULT 0"},
}
_INDICES = """
DROP INDEX IF EXISTS run_asked;
CREATE UNIQUE INDEX IF NOT EXISTS run_asked_in ON run (project, asked) WHERE asked IS NOT NULL;
CREATE INDEX IF NOT EXISTS run_of_project ON run (project, created);
"""


#: Columns of a run that are about its process, or its place here.
_OF_PROCESS = ("pid", "pid_started", "asked", "project", "cancelled")
#: Tables with records about runs, and columns of them that hold JSON.
_OF_RUNS: dict[type[Record], str] = {
    Event: "event",
    PathPoint: "point",
    Metric: "metric",
    Artifact: "artifact",
    Marks: "mark",
}
_AS_JSON = ("weights", "tags")
Kind = TypeVar("Kind", bound=Record)
#: Characters of the name of a run.
LONGEST_NAME = 200

#: Final states of a run.
FINAL = ("done", "cancelled", "failed")
#: Reason for a run with files and without pages.
KEPT = "Stopped before its pages were complete; its model and what else was finished can be downloaded."
#: States of a run that has a process, or is about to have one.
ACTIVE = ("starting", "running")


def free_name(name: str, taken: set[str], longest: int = LONGEST_NAME) -> str:
    """A name that is not taken; a number is added if necessary.

    Examples
    --------
    >>> free_name("wine", {"wine", "wine 2"})
    'wine 3'
    """
    found, number = name[:longest], 2
    while found in taken:
        found, number = f"{name[: longest - 10]} {number}", number + 1
    return found


class Store:
    """The studio's database: one SQLite file, for several threads and processes.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    project : str or None
        The project whose runs and drafts are seen, None for all; see `inside`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.project: str | None = None
        self._local = threading.local()
        try:
            with self._db() as db:
                db.executescript(_TABLES)
                for table, columns in _LATER.items():
                    known = _columns(db, table)
                    for name, kind in columns.items():
                        if name not in known:
                            db.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
                db.executescript(_INDICES)
                self._add_first(db)
        except sqlite3.Error as error:
            raise InputError(
                f"{path} cannot be used as the studio's database: {error}. Choose another --data-dir."
            ) from None

    def inside(self, project: str | None) -> Store:
        """The same database, of which only the runs and drafts of a project are seen; None for all."""
        return changed(self, project=project)

    # ---- connections ------------------------------------------------------------------------------

    @contextmanager
    def _db(self) -> Iterator[sqlite3.Connection]:
        db = getattr(self._local, "db", None)
        if db is None:
            db = sqlite3.connect(self.path, isolation_level=None, timeout=30.0)
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode=WAL")
            # in WAL mode a crash of the computer may lose the last writes, never the file
            db.execute("PRAGMA synchronous=NORMAL")
            self._local.db = db
        with room(self.path.parent):
            yield db

    @contextmanager
    def _change_all(self) -> Iterator[sqlite3.Connection]:
        """Several changes, all of them or none; an error must not leave the file locked for others."""
        with self._db() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # SQLite has ended it where the disk is full
                    db.execute("ROLLBACK")
                raise

    def _change(self, statement: str, *values: Any) -> int:
        with self._db() as db:
            return db.execute(statement, values).rowcount

    def _rows(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        with self._db() as db:
            return db.execute(statement, values).fetchall()

    def _add_first(self, db: sqlite3.Connection) -> None:
        """The first project, with the draft and the runs of versions that had no projects."""
        begun = db.execute("SELECT coalesce(min(created), ?) FROM run", (time.time(),)).fetchone()[0]
        name = self.path.absolute().parent.parent.name
        name = name if name.strip() and name.isprintable() else "First project"
        db.execute(
            "INSERT INTO project SELECT ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM project)",
            (FIRST, name[:80], begun, begun),
        )

    def close(self) -> None:
        """Close this thread's connection."""
        db = getattr(self._local, "db", None)
        if db is not None:
            db.close()
            self._local.db = None

    # ---- runs -------------------------------------------------------------------------------------

    def add_run(self, run_id: str, name: str, request: Mapping[str, object], asked: str = "") -> str:
        """Put a run into the queue; returns its id, or that of the run that was asked for in the same words before.

        Parameters
        ----------
        run_id : str
        name : str
            A number is added if another run has it.
        request : mapping
        asked : str, default=""
            A word of the one who asks, the same when asking again for the same run; empty for none.

        Returns
        -------
        str
        """
        project = self.project or FIRST
        with self._change_all() as db:
            if db.execute("SELECT 1 FROM project WHERE id = ?", (project,)).fetchone() is None:
                raise no_project(project)
            same = "SELECT id FROM run WHERE asked = ? AND project = ?"
            if asked and (found := db.execute(same, (asked, project)).fetchone()) is not None:
                return str(found["id"])
            own = {
                "id": run_id,
                "name": self._free_name(db, name),
                "project": project,
                "asked": asked or None,
            }
            begun = {"state": "queued", "request": json.dumps(request), "created": time.time()}
            _insert(db, "run", {**own, **begun})
        return run_id

    def _free_name(self, db: sqlite3.Connection, name: str) -> str:
        """A name that no other run of the project has."""
        taken = db.execute("SELECT name FROM run WHERE project = ?", (self.project or FIRST,))
        return free_name(name, {row["name"] for row in taken})

    def run(self, run_id: str) -> sqlite3.Row:
        """One run; an unknown one is an error."""
        found = self._rows("SELECT * FROM run WHERE id = ?", run_id)
        if not found or self.project not in (None, found[0]["project"]):
            raise InputError(f"There is no run {run_id!r:.60}.")
        return found[0]

    def runs(self, states: Iterable[str] = ()) -> list[sqlite3.Row]:
        """Runs in some states, or all, oldest first."""
        states = tuple(states)
        wanted = [f"state IN ({','.join('?' * len(states))})"] if states else []
        wanted += ["project = ?"] if self.project is not None else []
        values = [*states, *([self.project] if self.project is not None else [])]
        where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
        return self._rows(f"SELECT * FROM run {where} ORDER BY created, id", *values)

    def move(self, run_id: str, old: Iterable[str], new: str, **values: Any) -> bool:
        """Change the state of a run if it is one of the old ones; returns whether it was."""
        old = tuple(old)
        columns = {"state": new, **values}
        names = ", ".join(f"{name} = ?" for name in columns)
        statement = f"UPDATE run SET {names} WHERE id = ? AND state IN ({','.join('?' * len(old))})"
        return self._change(statement, *columns.values(), run_id, *old) == 1

    def finish(self, run_id: str, state: str, reason: str = "", summary: Any = None) -> bool:
        """End a run that has not ended yet."""
        values: dict[str, Any] = {"finished": time.time(), "reason": reason}
        if summary is not None:
            values["summary"] = json.dumps(summary)
        return self.move(run_id, ("queued", *ACTIVE), state, **values)

    def progress(self, run_id: str, done: int, total: int | None, step: str) -> bool:
        """Record the progress of a run; returns whether it was asked to stop."""
        self._change("UPDATE run SET done = ?, total = ?, step = ? WHERE id = ?", done, total, step, run_id)
        return self.is_cancelled(run_id)

    def cancel(self, run_id: str) -> None:
        """Ask a run to stop."""
        self._change("UPDATE run SET cancelled = coalesce(cancelled, ?) WHERE id = ?", time.time(), run_id)

    def is_cancelled(self, run_id: str) -> bool:
        """Whether a run has been asked to stop, or is gone."""
        found = self._rows("SELECT cancelled FROM run WHERE id = ?", run_id)
        return not found or found[0]["cancelled"] is not None

    def delete_run(self, run_id: str) -> None:
        """Delete a run."""
        with self._change_all() as db:
            _delete_runs(db, "id = ?", run_id)

    # ---- what is recorded about runs --------------------------------------------------------------

    def write(self, run_id: str, *records: Record) -> None:
        """Store records about a run; one that may be there once takes the place of the one before."""
        rows = [(_OF_RUNS[type(record)], {"run": run_id, **_as_row(record)}) for record in records]
        with self._change_all() as db:
            for table, row in rows:
                _insert(db, table, row)

    def read(self, kind: type[Kind], run_id: str, after: int = 0, most: int = -1) -> list[Kind]:
        """Records about a run in the order in which they were stored: those after a number, so many at most."""
        statement = (
            f"SELECT rowid, * FROM {_OF_RUNS[kind]} WHERE run = ? AND rowid > ? ORDER BY rowid LIMIT ?"
        )
        return [_as_record(kind, row) for row in self._rows(statement, run_id, after, most)]

    def read_all(self, kind: type[Kind]) -> dict[str, list[Kind]]:
        """Records about all runs by run, in one question."""
        found: dict[str, list[Kind]] = {}
        for row in self._rows(f"SELECT rowid, * FROM {_OF_RUNS[kind]} ORDER BY rowid"):
            found.setdefault(row["run"], []).append(_as_record(kind, row))
        return found

    def add_event(self, run_id: str, text: str) -> None:
        """Record what happens now."""
        self.write(run_id, Event(time=time.time(), text=text))

    def dump_run(self, run_id: str) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
        """All that is stored about a run, apart from its process: its row, and rows of other tables."""
        row = {name: value for name, value in dict(self.run(run_id)).items() if name not in _OF_PROCESS}
        rows = {
            table: [
                {name: value for name, value in dict(found).items() if name not in ("run", "number")}
                for found in self._rows(f"SELECT * FROM {table} WHERE run = ? ORDER BY rowid", run_id)
            ]
            for table in _OF_RUNS.values()
        }
        return row, rows

    def load_run(self, run_id: str, row: Mapping[str, Any], rows: Mapping[str, list[dict[str, Any]]]) -> None:
        """Store a run as `dump_run` returned it, under another id, in this project."""
        try:
            with self._change_all() as db:
                own = {"id": run_id, "project": self.project or FIRST}
                kept = {name: value for name, value in row.items() if name not in _OF_PROCESS}
                _insert(db, "run", {**kept, **own, "name": self._free_name(db, str(row["name"]))})
                for table in _OF_RUNS.values():
                    for found in rows.get(table, ()):
                        _insert(db, table, {**found, "run": run_id}, replace=False)
        except (sqlite3.IntegrityError, sqlite3.InterfaceError, OverflowError) as error:
            raise InputError(f"A run of the project cannot be stored: {error}.") from None

    # ---- access and drafts ------------------------------------------------------------------------

    def add_secret(self, table: str, digest: str) -> None:
        """Store the hash of a token or a session."""
        assert table in ("token", "session")
        self._change(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", digest, time.time())

    def take_token(self, digest: str, age: float) -> bool:
        """Consume a token that has not expired."""
        oldest = time.time() - age
        return self._change("DELETE FROM token WHERE hash = ? AND created > ?", digest, oldest) == 1

    def has_token(self, digest: str, age: float) -> bool:
        """Whether there is a token that has not expired; it stays."""
        oldest = time.time() - age
        return bool(self._rows("SELECT 1 FROM token WHERE hash = ? AND created > ?", digest, oldest))

    def session_begun(self, digest: str) -> float | None:
        """When a session began, None where there is no such session."""
        found = self._rows("SELECT created FROM session WHERE hash = ?", digest)
        return float(found[0]["created"]) if found else None

    def _key(self, name: str) -> str:
        """A draft of a project has its id before its name, apart from that of versions without projects."""
        plain = self.project is None or (self.project, name) == (FIRST, DRAFT)
        return name if plain else f"{self.project}/{name}"

    def draft(self, name: str) -> Any:
        """A draft of this project, None if there is none."""
        found = self._rows("SELECT value FROM draft WHERE name = ?", self._key(name))
        return json.loads(found[0]["value"]) if found else None

    def set_draft(self, name: str, value: Any) -> None:
        """Store a draft of this project, which must not have been deleted."""
        project = self.project
        done = self._change(
            "INSERT OR REPLACE INTO draft SELECT ?, ? WHERE ? IS NULL OR EXISTS (SELECT 1 FROM project WHERE id = ?)",
            *(self._key(name), json.dumps(value), project, project),
        )
        if not done:
            raise no_project(project)

    def settle(self, name: str, value: Any) -> Any:
        """A value that is stored the first time, and the same ever after."""
        self._change("INSERT OR IGNORE INTO draft VALUES (?, ?)", self._key(name), json.dumps(value))
        return self.draft(name)

    # ---- projects ---------------------------------------------------------------------------------

    def projects(self) -> list[sqlite3.Row]:
        """All projects with their number of runs, oldest first."""
        return self._rows(
            "SELECT project.*, count(run.id) AS n_runs FROM project LEFT JOIN run ON run.project = project.id "
            "GROUP BY project.id ORDER BY project.created, project.rowid"
        )

    def project_ids(self) -> list[str]:
        """Ids of all projects, oldest first."""
        return [str(row["id"]) for row in self._rows("SELECT id FROM project ORDER BY created, rowid")]

    def last_project(self) -> str:
        """The project that was opened last."""
        return str(self._rows("SELECT id FROM project ORDER BY opened DESC, rowid LIMIT 1")[0]["id"])

    def open_project(self, project: str) -> None:
        """Note that a project was opened, if another one was before."""
        if self.last_project() != project:
            self._change("UPDATE project SET opened = ? WHERE id = ?", time.time(), project)

    def add_project(self, project: str, name: str, longest: int) -> str:
        """Add a project; returns its name, which has a number if another one has it already."""
        with self._change_all() as db:
            name = free_name(name, {row["name"] for row in db.execute("SELECT name FROM project")}, longest)
            now = time.time()
            db.execute("INSERT INTO project VALUES (?, ?, ?, ?)", (project, name, now, now))
        return name

    def rename_project(self, project: str, name: str) -> None:
        """Give a project a name that no other one has."""
        with self._change_all() as db:
            if db.execute("SELECT 1 FROM project WHERE name = ? AND id != ?", (name, project)).fetchone():
                raise InputError(f"Another project is called {name!r:.100}. Choose another name.")
            if not db.execute("UPDATE project SET name = ? WHERE id = ?", (name, project)).rowcount:
                raise no_project(project)

    def delete_project(self, project: str) -> list[str]:
        """Delete a project with its drafts and runs, none of which may be going; returns the ids of its runs."""
        with self._change_all() as db:
            known = {row["id"] for row in db.execute("SELECT id FROM project")}
            if project not in known:
                raise no_project(project)
            if len(known) == 1:
                raise InputError(
                    "This is the only project. Make another one first, or delete its tables and runs."
                )
            runs = db.execute("SELECT id, state FROM run WHERE project = ?", (project,)).fetchall()
            if going := sum(row["state"] not in FINAL for row in runs):
                have = "has" if going == 1 else "have"
                raise InputError(f"{going} of its runs {have} not ended. Stop them first.")
            _delete_runs(db, "project = ?", project)
            own, start = DRAFT if project == FIRST else "", f"{project}/"
            db.execute("DELETE FROM draft WHERE name = ? OR substr(name, 1, ?) = ?", (own, len(start), start))
            db.execute("DELETE FROM project WHERE id = ?", (project,))
        return [str(row["id"]) for row in runs]


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row["name"] for row in db.execute(f"PRAGMA table_info({table})")}


def _insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any], *, replace: bool = True) -> None:
    """Store the part of a row that a table has columns for."""
    known = _columns(db, table) - {"number"}
    row = {name: value for name, value in row.items() if name in known}
    places = ", ".join("?" * len(row))
    verb = "INSERT OR REPLACE" if replace and table != "run" else "INSERT"
    db.execute(f"{verb} INTO {table} ({', '.join(row)}) VALUES ({places})", list(row.values()))


def _delete_runs(db: sqlite3.Connection, where: str, value: str) -> None:
    for table in _OF_RUNS.values():
        db.execute(f"DELETE FROM {table} WHERE run IN (SELECT id FROM run WHERE {where})", (value,))
    db.execute(f"DELETE FROM run WHERE {where}", (value,))


def _as_row(record: Record) -> dict[str, Any]:
    """A record as columns: what is no single value as JSON."""
    found = record.model_dump()
    return {name: json.dumps(value) if name in _AS_JSON else value for name, value in found.items()}


def _as_record(kind: type[Kind], row: sqlite3.Row) -> Kind:
    values = {name: row[name] for name in kind.model_fields if name in row.keys()}  # noqa: SIM118
    return kind.model_validate(
        {name: json.loads(value) if name in _AS_JSON else value for name, value in values.items()}
    )


def no_project(project: object) -> InputError:
    """The error for a project that there is not."""
    return InputError(f"There is no project {project!r:.60}. It may have been deleted.")


def seconds_left(begun: float, done: int, total: int) -> float:
    """Seconds until all steps are done, at the pace so far."""
    return (time.time() - begun) / done * max(0, total - done)


def describe_run(row: sqlite3.Row, metrics: Sequence[Metric], marks: Sequence[Marks]) -> Run:
    """A run, from its row, its scores and what somebody wrote about it."""
    values = {name: row[name] for name in Run.model_fields if name in row.keys()}  # noqa: SIM118
    request = json.loads(row["request"])
    beside = {name: request.pop(name, None) for name in ("paths", *Beside.model_fields)}
    if row["state"] == "running" and row["done"] and row["total"] and row["started"]:
        values["seconds_left"] = seconds_left(row["started"], row["done"], row["total"])
    return Run(
        **values
        | {
            "cancelling": row["cancelled"] is not None and row["state"] not in FINAL,
            "request": RunRequest.model_validate(request),
            "metrics": list(metrics),
            "summary": _read_summary(row["summary"]),
            "marks": marks[0] if marks else Marks(),
            "method": beside["method"] or request["spec"].get("method", ""),
        }
    )


def _read_summary(text: str | None) -> Summary | None:
    """A summary, or None if another version of this package wrote it."""
    try:
        return Summary.model_validate_json(text, extra="ignore") if text else None
    except ValidationError:
        return None
