"""The database of the studio: one SQLite file to which server and runs write at the same time (WAL)."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError
from kernelweave.studio.disk import room
from kernelweave.studio.places import FIRST

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
    run TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, spread REAL, PRIMARY KEY (run, name));
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
}
_INDICES = """
DROP INDEX IF EXISTS run_asked;
CREATE UNIQUE INDEX IF NOT EXISTS run_asked_in ON run (project, asked) WHERE asked IS NOT NULL;
CREATE INDEX IF NOT EXISTS run_of_project ON run (project, created);
"""
#: Tables with rows of runs.
_OF_RUNS = ("event", "point", "metric", "artifact", "mark")
#: Characters of the name of a run.
LONGEST_NAME = 200

#: Final states of a run.
FINAL = ("done", "cancelled", "failed")
#: Reason for a run with files and without pages.
KEPT = "Stopped before its pages were complete; its model and what else was finished can be downloaded."
#: States of a run that has a process, or is about to have one.
ACTIVE = ("starting", "running")


#: A point of a path: stage, output, alpha, relative gap, kernels with a weight, weights as JSON.
Point = tuple[str, str, float, float | None, int, str]


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
    """The studio's database; safe to use from several threads and processes.

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
                self._add_columns(db)
                db.executescript(_INDICES)
                self._add_first(db)
        except sqlite3.Error as error:
            raise InputError(
                f"{path} cannot be used as the studio's database: {error}. Choose another --data-dir."
            ) from None

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

    @staticmethod
    def _add_columns(db: sqlite3.Connection) -> None:
        for table, columns in _LATER.items():
            known = {row["name"] for row in db.execute(f"PRAGMA table_info({table})")}
            for name, kind in columns.items():
                if name not in known:
                    db.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")

    def _add_first(self, db: sqlite3.Connection) -> None:
        """The first project, with the draft and the runs of versions that had no projects."""
        begun = db.execute("SELECT coalesce(min(created), ?) FROM run", (time.time(),)).fetchone()[0]
        name = self.path.absolute().parent.parent.name
        name = name if name.strip() and name.isprintable() else "First project"
        db.execute(
            "INSERT INTO project SELECT ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM project)",
            (FIRST, name[:80], begun, begun),
        )

    def inside(self, project: str | None) -> Store:
        """The same database, of which only the runs and drafts of a project are seen; None for all.

        Parameters
        ----------
        project : str or None

        Returns
        -------
        Store
        """
        other = copy(self)
        other.project = project
        return other

    def close(self) -> None:
        """Close this thread's connection."""
        db = getattr(self._local, "db", None)
        if db is not None:
            db.close()
            self._local.db = None

    def _change(self, statement: str, *values: Any) -> int:
        with self._db() as db:
            return db.execute(statement, values).rowcount

    def _rows(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        with self._db() as db:
            return db.execute(statement, values).fetchall()

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
        with self._change_all() as db:
            project = self.project or FIRST
            if db.execute("SELECT 1 FROM project WHERE id = ?", (project,)).fetchone() is None:
                raise _no_project(project)
            if asked:
                found = db.execute(
                    "SELECT id FROM run WHERE asked = ? AND project = ?", (asked, project)
                ).fetchone()
                if found is not None:
                    return str(found["id"])
            taken = {row["name"] for row in db.execute("SELECT name FROM run WHERE project = ?", (project,))}
            db.execute(
                "INSERT INTO run (id, name, state, request, created, asked, project) "
                "VALUES (?, ?, 'queued', ?, ?, ?, ?)",
                (
                    run_id,
                    free_name(name, taken),
                    json.dumps(request),
                    time.time(),
                    asked or None,
                    project,
                ),
            )
        return run_id

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
        values = [*states]
        if self.project is not None:
            wanted.append("project = ?")
            values.append(self.project)
        where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
        return self._rows(f"SELECT * FROM run {where} ORDER BY created, id", *values)

    def move(self, run_id: str, old: Iterable[str], new: str, **values: Any) -> bool:
        """Change the state of a run if it is one of the old ones; returns whether it was."""
        old = tuple(old)
        columns = {"state": new, **values}
        names = ", ".join(f"{name} = ?" for name in columns)
        marks = ",".join("?" * len(old))
        statement = f"UPDATE run SET {names} WHERE id = ? AND state IN ({marks})"
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

    def rename(self, run_id: str, name: str) -> None:
        """Give a run another name."""
        self._change("UPDATE run SET name = ? WHERE id = ?", name, run_id)

    def delete_run(self, run_id: str) -> None:
        """Delete a run."""
        with self._change_all() as db:
            for table in _OF_RUNS:
                db.execute(f"DELETE FROM {table} WHERE run = ?", (run_id,))
            db.execute("DELETE FROM run WHERE id = ?", (run_id,))

    # ---- what runs leave --------------------------------------------------------------------------

    def add_event(self, run_id: str, text: str) -> None:
        """Record an event."""
        self._change("INSERT INTO event (run, time, text) VALUES (?, ?, ?)", run_id, time.time(), text)

    def events(self, run_id: str) -> list[sqlite3.Row]:
        """Events, oldest first."""
        return self._rows("SELECT number, time, text FROM event WHERE run = ? ORDER BY number", run_id)

    def add_points(self, run_id: str, points: Iterable[Point]) -> None:
        """Add points of a path."""
        with self._change_all() as db:
            db.executemany(
                "INSERT INTO point (run, stage, output, alpha, rel_gap, n_active, weights) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(run_id, *point) for point in points],
            )

    def points(self, run_id: str, after: int = 0, most: int = 2000) -> list[sqlite3.Row]:
        """Points of a path after a given number."""
        return self._rows(
            "SELECT * FROM point WHERE run = ? AND number > ? ORDER BY number LIMIT ?", run_id, after, most
        )

    def add_metric(self, run_id: str, name: str, value: float, spread: float | None = None) -> None:
        """Store a score."""
        self._change("INSERT OR REPLACE INTO metric VALUES (?, ?, ?, ?)", run_id, name, value, spread)

    def metrics(self, run_id: str) -> list[sqlite3.Row]:
        """Scores of a run in the order in which they were stored."""
        return self._rows("SELECT name, value, spread FROM metric WHERE run = ? ORDER BY rowid", run_id)

    def all_metrics(self) -> dict[str, list[sqlite3.Row]]:
        """Scores of all runs by run, in one question."""
        found: dict[str, list[sqlite3.Row]] = {}
        for row in self._rows("SELECT run, name, value, spread FROM metric ORDER BY rowid"):
            found.setdefault(row["run"], []).append(row)
        return found

    def set_mark(self, run_id: str, pinned: bool, note: str, tags: list[str]) -> None:
        """Store what somebody wrote about a run."""
        self._change(
            "INSERT OR REPLACE INTO mark VALUES (?, ?, ?, ?)", run_id, int(pinned), note, json.dumps(tags)
        )

    def marks(self) -> dict[str, sqlite3.Row]:
        """What somebody wrote about runs, by run."""
        return {row["run"]: row for row in self._rows("SELECT run, pinned, note, tags FROM mark")}

    def add_artifact(self, run_id: str, name: str, kind: str, size: int) -> None:
        """Record a file that a run made."""
        self._change("INSERT OR REPLACE INTO artifact VALUES (?, ?, ?, ?)", run_id, name, kind, size)

    def artifacts(self, run_id: str) -> list[sqlite3.Row]:
        """Files that a run made."""
        return self._rows("SELECT name, kind, size FROM artifact WHERE run = ? ORDER BY rowid", run_id)

    # ---- access and drafts ------------------------------------------------------------------------

    def add_secret(self, table: str, digest: str) -> None:
        """Store the hash of a token or a session."""
        assert table in ("token", "session")
        self._change(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", digest, time.time())

    def take_token(self, digest: str, age: float) -> bool:
        """Consume a token that has not expired."""
        return (
            self._change("DELETE FROM token WHERE hash = ? AND created > ?", digest, time.time() - age) == 1
        )

    def has_token(self, digest: str, age: float) -> bool:
        """Whether there is a token that has not expired; it stays."""
        return bool(
            self._rows("SELECT 1 FROM token WHERE hash = ? AND created > ?", digest, time.time() - age)
        )

    def session_begun(self, digest: str) -> float | None:
        """When a session began, None where there is no such session."""
        found = self._rows("SELECT created FROM session WHERE hash = ?", digest)
        return float(found[0]["created"]) if found else None

    def _key(self, name: str) -> str:
        """A draft of a project has its id before its name, apart from that of versions without projects."""
        return (
            name
            if self.project is None or (self.project, name) == (FIRST, DRAFT)
            else f"{self.project}/{name}"
        )

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
            raise _no_project(project)

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

    def has_project(self, project: str) -> bool:
        """Whether there is such a project."""
        return bool(self._rows("SELECT 1 FROM project WHERE id = ?", project))

    def usual_project(self) -> str:
        """The project that is meant where none is named: the oldest."""
        return str(self._rows("SELECT id FROM project ORDER BY created, rowid LIMIT 1")[0]["id"])

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
                raise _no_project(project)

    def delete_project(self, project: str) -> list[str]:
        """Delete a project with its drafts and runs, none of which may be going; returns the ids of its runs."""
        with self._change_all() as db:
            if db.execute("SELECT 1 FROM project WHERE id = ?", (project,)).fetchone() is None:
                raise _no_project(project)
            if db.execute("SELECT count(*) FROM project").fetchone()[0] == 1:
                raise InputError(
                    "This is the only project. Make another one first, or delete its tables and runs."
                )
            runs = db.execute("SELECT id, state FROM run WHERE project = ?", (project,)).fetchall()
            going = sum(row["state"] not in FINAL for row in runs)
            if going:
                raise InputError(
                    f"{going} of its runs {'has' if going == 1 else 'have'} not ended. Stop them first."
                )
            for table in _OF_RUNS:
                db.execute(
                    f"DELETE FROM {table} WHERE run IN (SELECT id FROM run WHERE project = ?)", (project,)
                )
            db.execute("DELETE FROM run WHERE project = ?", (project,))
            db.execute(
                "DELETE FROM draft WHERE name = ? OR substr(name, 1, ?) = ?",
                (
                    DRAFT if project == FIRST else "",
                    len(project) + 1,
                    f"{project}/",
                ),
            )
            db.execute("DELETE FROM project WHERE id = ?", (project,))
        return [str(row["id"]) for row in runs]


def _no_project(project: object) -> InputError:
    return InputError(f"There is no project {project!r:.60}. It may have been deleted.")
