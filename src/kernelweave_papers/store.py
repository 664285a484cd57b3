"""Finished cells in one SQLite file: written at once, so that a killed run loses only unfinished cells."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError
from kernelweave_papers.base import Cell, Result, cell_key

FILE = "results.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cell (key TEXT PRIMARY KEY, result TEXT NOT NULL, seconds REAL, finished REAL);
CREATE TABLE IF NOT EXISTS failure (key TEXT PRIMARY KEY, reason TEXT NOT NULL, log TEXT NOT NULL);
"""


class Store:
    """Results of one run.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=30.0)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(_TABLES)
        except sqlite3.Error as error:
            raise InputError(
                f"{self.path} cannot be used as a store of results: {error}. Choose another --out."
            ) from None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def settle(self, settings: dict[str, Any]) -> None:
        """Store the settings of a new run, or compare them with those of the run that goes on."""
        old = self.settings()
        if old is not None and self.n_done():
            changed = [k for k in {*old, *settings} if old.get(k) != settings.get(k) and k not in GROWING]
            if changed:
                told = "; ".join(f"{k}: {old.get(k)} there, {settings.get(k)} here" for k in sorted(changed))
                raise InputError(
                    f"The run in {self.path.parent} was made with other settings ({told}). "
                    "Pass the same, or choose another --out."
                )
        self._write("INSERT OR REPLACE INTO meta VALUES ('settings', ?)", json.dumps(settings))

    def settings(self) -> dict[str, Any] | None:
        """Settings of the run, None for a new one."""
        row = self._db.execute("SELECT value FROM meta WHERE name = 'settings'").fetchone()
        return None if row is None else json.loads(row[0])

    def n_done(self) -> int:
        """Number of finished cells."""
        return int(self._db.execute("SELECT count(*) FROM cell").fetchone()[0])

    def done(self) -> set[str]:
        """Keys of the finished cells."""
        return {row[0] for row in self._db.execute("SELECT key FROM cell")}

    def add(self, cell: Cell, result: Result, seconds: float) -> None:
        """Store the result of one cell."""
        key = cell_key(cell)
        self._write(
            "INSERT OR REPLACE INTO cell VALUES (?, ?, ?, ?)", key, json.dumps(result), seconds, time.time()
        )
        self._write("DELETE FROM failure WHERE key = ?", key)

    def fail(self, cell: Cell, reason: str, log: str) -> None:
        """Store why a cell has no result."""
        self._write("INSERT OR REPLACE INTO failure VALUES (?, ?, ?)", cell_key(cell), reason, log)

    def failures(self) -> list[tuple[Cell, str]]:
        """Cells without a result, and why."""
        rows = self._db.execute("SELECT key, reason FROM failure ORDER BY key")
        return [(json.loads(key), reason) for key, reason in rows]

    def rows(self, cells: Iterable[Cell]) -> list[tuple[Cell, Result]]:
        """Results of those of the given cells that are finished, in the given order."""
        found = dict(self._db.execute("SELECT key, result FROM cell"))
        keyed = [(cell, cell_key(cell)) for cell in cells]
        return [(cell, json.loads(found[key])) for cell, key in keyed if key in found]

    def seconds(self, cells: Iterable[Cell]) -> list[tuple[Cell, float]]:
        """Processor time of those of the given cells that are finished."""
        found = dict(self._db.execute("SELECT key, seconds FROM cell"))
        keyed = [(cell, cell_key(cell)) for cell in cells]
        return [(cell, found[key] or 0.0) for cell, key in keyed if key in found]

    def _write(self, statement: str, *values: Any) -> None:
        try:
            self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise OSError(
                None,
                f"{error}. What was finished is kept, and the same command goes on with the rest",
                str(self.path),
            ) from None


#: Settings that only determine the number of cells, so that a run can be extended.
GROWING = frozenset({"datasets", "splits", "ratios", "methods", "protocols", "draws"})
