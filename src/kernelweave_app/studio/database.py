"""The file of the studio's database: its tables, what older versions lack, and connections to it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError
from kernelweave_app.studio.disk import room
from kernelweave_app.studio.places import FIRST

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


class Database:
    """One SQLite file, for several threads and processes.

    Parameters
    ----------
    path : Path
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
