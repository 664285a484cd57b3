"""The queue: one detached process for each run, supervised by the server that is running."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from kernelweave._errors import InputError
from kernelweave_app.studio.disk import DiskFull, room
from kernelweave_app.studio.places import MODEL, SAVING, Places
from kernelweave_app.studio.processes import environment
from kernelweave_app.studio.store import ACTIVE, FINAL, KEPT, Store

if TYPE_CHECKING:
    import sqlite3

#: Seconds between two checks of the processes.
EVERY = 0.2
#: Seconds that a run has to stop by itself, and then after SIGTERM.
GRACE = 20.0
GRACE_AFTER_TERM = 5.0
#: Seconds that a run gets, once it has heard that it should stop, to fit and write what it has.
GRACE_TO_SAVE = 180.0
#: Seconds after which a run that was started and has not reported is started again.
LOST = 60.0
LOG = "log.txt"
#: Clocks of the kernel and of Python differ by less.
CLOCK = 1.0


class Queue:
    """Starts runs in order, records how they end, and stops them on request.

    Parameters
    ----------
    store : Store
    places : Places
    at_once : int, default=1
        Runs at the same time.
    grace : float, default=20.0
        Seconds that a run gets to stop by itself.
    """

    def __init__(self, store: Store, places: Places, at_once: int = 1, grace: float = GRACE) -> None:
        self.store, self.places, self.at_once, self.grace = store, places, at_once, grace
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        #: When SIGTERM was sent, by run: a second one would interrupt what the first one began.
        self._termed: dict[str, float] = {}
        self._wake = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- for the server ---------------------------------------------------------------------------

    def start(self) -> None:
        """Supervise the runs in a thread, including those of an earlier server."""
        self._over.clear()
        self._thread = threading.Thread(target=self._watch, name="studio-queue", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop supervising; the runs continue."""
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _watch(self) -> None:
        said = ""
        while not self._over.is_set():
            try:
                self.look()
                said = ""
            except Exception as error:  # the queue must outlive a full disk or a locked file
                words = str(error) if isinstance(error, InputError) else f"the queue had an error: {error!r}"
                if words != said:  # once, not five times a second
                    print(f"kernelweave studio: {words}", file=sys.stderr, flush=True)
                said = words
            self._wake.wait(EVERY)
            self._wake.clear()
        self.store.close()

    # ---- runs -------------------------------------------------------------------------------------

    def add(
        self, name: str, request: Mapping[str, object], asked: str = "", project: str | None = None
    ) -> str:
        """Put a run into the queue and return its id, or that of the run that was asked for in the same words."""
        run_id, folder = self.place()
        try:
            found = self.store.inside(project).add_run(run_id, name, request, asked)
        except InputError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if found != run_id:
            folder.rmdir()
            return found
        self.store.add_event(run_id, "Waiting in the queue.")
        self._wake.set()
        return run_id

    def place(self) -> tuple[str, Path]:
        """The id of a new run, and its folder: many runs begin within a second."""
        while True:
            run_id = f"{datetime.now():%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"
            folder = self.places.run(run_id)
            with contextlib.suppress(FileExistsError), room(self.places.root):
                folder.mkdir(mode=0o700)
                return run_id, folder

    def cancel(self, run_id: str) -> None:
        """Stop a run: at once if it is queued, else after its current step."""
        if self.store.run(run_id)["state"] in FINAL:
            raise InputError("This run has ended already.")
        self.store.cancel(run_id)
        self.store.add_event(run_id, "Asked to stop.")
        self.store.move(
            run_id, ("queued",), "cancelled", finished=time.time(), reason="Stopped before it began."
        )
        self._wake.set()

    def delete(self, run_id: str) -> None:
        """Delete a run that has ended, with its files."""
        if self.store.run(run_id)["state"] not in FINAL:
            raise InputError("This run has not ended. Stop it first.")
        folder = self.places.run(run_id)
        try:
            self.store.delete_run(run_id)
        except DiskFull:
            # its files make the room that the database needs to forget it
            shutil.rmtree(folder, ignore_errors=True)
            self.store.delete_run(run_id)
        shutil.rmtree(folder, ignore_errors=True)

    # ---- one check --------------------------------------------------------------------------------

    def look(self) -> None:
        """Record which runs have ended, stop those that should stop, start those that may start."""
        for run_id, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[run_id]
        active = 0
        for row in self.store.runs(ACTIVE):
            active += self._attend(row)
        for row in self.store.runs(("queued",))[: max(0, self.at_once - active)]:
            self._launch(row["id"])

    def _attend(self, row: sqlite3.Row) -> bool:
        """Whether a run that should be alive is; if not, note why."""
        run_id = row["id"]
        if run_id in self._children or is_alive(row["pid"], row["pid_started"]):
            if row["cancelled"] is not None:
                self._press(row)
            return True
        if row["state"] == "starting":
            child_left = row["pid"] is not None
            if not child_left and time.time() - (row["started"] or 0) < LOST:
                return True
        if self.store.run(run_id)["state"] in FINAL:
            return False
        self._termed.pop(run_id, None)
        if row["cancelled"] is not None:
            self._list_model(run_id)
            kept = self.store.artifacts(run_id)
            self.store.finish(run_id, "cancelled", KEPT if kept else "Stopped; nothing could be kept.")
        else:
            self.store.finish(run_id, "failed", _last_words(self.places.run(run_id) / LOG))
        return False

    def _press(self, row: sqlite3.Row) -> None:
        """Send SIGTERM to a run that does not stop by itself, once, then SIGKILL; later if it writes its model."""
        run_id, now = row["id"], time.time()
        saving = self._saving_since(run_id)
        wait = now - row["cancelled"] < self.grace
        if saving is not None:
            wait |= now - saving < GRACE_TO_SAVE
        if wait or row["pid"] is None:
            return
        first = run_id not in self._termed
        if not first and now - self._termed[run_id] < GRACE_AFTER_TERM:
            return
        self._termed[run_id] = now
        try:
            os.kill(row["pid"], signal.SIGTERM if first else signal.SIGKILL)
        except ProcessLookupError:
            return

    def _saving_since(self, run_id: str) -> float | None:
        """Since when a run has been writing what it has, None if it is not."""
        try:
            return (self.places.run(run_id) / SAVING).stat().st_mtime
        except OSError:
            return None

    def _list_model(self, run_id: str) -> None:
        """Record the model of a run that ended between writing and recording it."""
        model = self.places.run(run_id) / MODEL
        if model.exists():
            self.store.add_artifact(run_id, MODEL, "model", model.stat().st_size)

    def _launch(self, run_id: str) -> None:
        if not self.store.move(run_id, ("queued",), "starting", started=time.time()):
            return
        log = self.places.run(run_id) / LOG
        command = [sys.executable, "-P", "-m", "kernelweave_app.studio.worker", str(self.places.root), run_id]
        try:
            with log.open("ab") as output:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=log.parent,
                    env=environment((os.cpu_count() or 1) // self.at_once),
                    start_new_session=True,
                )
        except OSError as error:
            self.store.finish(run_id, "failed", f"No process could be started: {error}.")
            return
        self._children[run_id] = child
        try:
            started = psutil.Process(child.pid).create_time()
        except psutil.NoSuchProcess:
            started = time.time()
        self.store.move(run_id, ("starting",), "starting", pid=child.pid, pid_started=started)


def is_alive(pid: int | None, started: float | None) -> bool:
    """Whether a process is still the one that was started, since process ids are used again."""
    if pid is None or started is None:
        return False
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < CLOCK and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _last_words(log: Path) -> str:
    """Why a process ended without reporting."""
    lines = [line for line in read_log(log).splitlines() if line.strip()]
    said = f" Its last output: {lines[-1]:.300}" if lines else ""
    return (
        f"The process ended without a result: killed, out of memory, or the machine was switched off.{said}"
    )


def read_log(log: Path, most: int = 100_000) -> str:
    """The end of a log."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - most))
            return file.read().decode("utf8", "replace")
    except OSError:
        return ""
