"""Processes that compute for the studio: runs in a queue, evidence about them, and short ones that are waited for.

Each is the worker with a task. `start` begins one that goes on without the server and writes its progress where the
server reads it; `wait_for` begins one whose answer is waited for.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import psutil
from pydantic import Field

from kernelweave._errors import InputError
from kernelweave._types import Tree
from kernelweave.inspection.registry import MOST_REPEATED, possible, repeated, sentences_of, tables_of
from kernelweave_app.runs.evidence import read_evidence
from kernelweave_app.runs.folders import csv_text, write_text
from kernelweave_app.runs.spec import Spec
from kernelweave_app.studio.schema import (
    Artifact,
    Evidence,
    EvidenceProgress,
    Expected,
    Kind,
    RunId,
)
from kernelweave_app.studio.store import (
    ACTIVE,
    FINAL,
    KEPT,
    MODEL,
    SAVING,
    DiskFull,
    Places,
    Store,
    changed,
    room,
    seconds_left,
)

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
PROCESSORS = os.cpu_count() or 1
WORKER = (sys.executable, "-P", "-m", "kernelweave_app.studio.worker")
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
#: Figures by the findings that they need, and all figures, by the names of files.
OF_EVIDENCE = {
    "stability": "stability",
    "learning curve": "learning-curve",
    "calibration": "calibration",
    "permutation": "permutation",
    "risk groups": "risk-groups",
    "survival calibration": "survival-calibration",
    "survival error": "survival-error",
}
FIGURES = (
    *(
        "weights",
        "relevance",
        "contributions",
        "path",
        "choice",
        "roc",
        "precision",
        "confusion",
        "held-out",
        "residuals",
    ),
    *OF_EVIDENCE.values(),
)
PRINTED = "printed"
#: Seconds that a drawing may take, and after which measuring is given up.
PATIENCE = 120.0
MOST_SECONDS = 90.0


# ---- any process ------------------------------------------------------------------------------------


def _environment(threads: int) -> dict[str, str]:
    """Variables of a process with so many threads of linear algebra, where the user has not set them.

    Without the server's token, which such processes do not need; figures open no window.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KERNELWEAVE_STUDIO_")}
    return {**dict.fromkeys(THREAD_VARIABLES, str(max(1, threads))), **kept, "MPLBACKEND": "Agg"}


def start(task: str, *arguments: object, log: Path, threads: int) -> subprocess.Popen[bytes]:
    """Begin a task that goes on without the server, in the folder of its log."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [*WORKER, task, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=_environment(threads),
            start_new_session=True,
        )


def wait_for(task: str, given: object, threads: int, patience: float, late: str, failed: str) -> Any:
    """The answer of a task to what it is given; what to say about one that takes too long, or has no answer."""
    try:
        done = subprocess.run(
            [*WORKER, task],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=patience,
            env=_environment(threads),
        )
        found = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise InputError(late) from None
    except (ValueError, IndexError, OSError) as error:
        raise InputError(f"{failed}: {error}.") from None
    if "problem" in found:
        raise InputError(found["problem"])
    return found


def is_alive(pid: int | None, started: float | None) -> bool:
    """Whether a process is still the one that was started, since process ids are used again."""
    if pid is None or started is None:
        return False
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < CLOCK and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def own_start() -> float:
    """When this process began, by which others know it."""
    return psutil.Process(os.getpid()).create_time()


# ---- processes that are waited for ------------------------------------------------------------------


def measure(spec: Spec, paths: Mapping[str, str], at_once: int = 1) -> Expected:
    """Estimate time and memory of a run, of which so many share the processors."""
    late = (
        f"A fit on few of these rows takes more than {MOST_SECONDS:.0f} s already: expect hours. Choose fewer "
        "kernels or columns, or another learner."
    )
    asked = {"spec": spec.model_dump(), "paths": dict(paths)}
    failed = "The time could not be measured"
    return Expected(**wait_for("measure", asked, PROCESSORS // at_once, MOST_SECONDS, late, failed))


# ---- runs -------------------------------------------------------------------------------------------


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
            kept = self.store.read(Artifact, run_id)
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
            self.store.write(run_id, Artifact(name=MODEL, kind="model", size=model.stat().st_size))

    def _launch(self, run_id: str) -> None:
        if not self.store.move(run_id, ("queued",), "starting", started=time.time()):
            return
        folder = self.places.run(run_id)
        try:
            child = start(
                "run", self.places.root, run_id, log=folder / LOG, threads=PROCESSORS // self.at_once
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


# ---- evidence ---------------------------------------------------------------------------------------

#: Folder of a run with a file of progress for each kind of evidence.
FOLDER = "evidence"
GOING = ("starting", "waiting", "running")


def status_file(folder: Path, kind: str) -> Path:
    """Where the progress of a kind is written."""
    return folder / FOLDER / f"{kind.replace(' ', '-')}.json"


def stop_file(folder: Path, kind: str) -> Path:
    """The file whose presence asks a process to stop."""
    return status_file(folder, kind).with_suffix(".stop")


def write_status(folder: Path, kind: str, **values: object) -> None:
    """Change what is known about a process."""
    write_text(status_file(folder, kind), json.dumps({**read_status(status_file(folder, kind)), **values}))


def read_status(path: Path) -> Tree:
    """What is known about a process; empty if there was none."""
    try:
        found = json.loads(path.read_text("utf8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def other_pids(places: Places, since: float) -> list[int]:
    """Processes that compute evidence of any run and were asked for earlier."""
    every = [read_status(path) for path in places.runs.glob(f"*/{FOLDER}/*.json")]
    return [
        int(one["pid"])
        for one in every
        if one.get("created", since) < since
        and one.get("pid") not in (None, os.getpid())
        and one.get("state") in GOING
        and is_alive(one["pid"], one["pid_started"])
    ]


class EvidenceDesk:
    """Reads, computes and prints evidence about the runs of a studio: a process for each kind.

    Parameters
    ----------
    store : Store
    places : Places
    """

    def __init__(self, store: Store, places: Places) -> None:
        self.store, self.places = store, places
        self._children: list[subprocess.Popen[bytes]] = []
        #: Of two that ask for the same at once, the second finds what the first has begun.
        self._starting = threading.Lock()

    def inside(self, store: Store, places: Places) -> EvidenceDesk:
        """The same of one project."""
        return changed(self, store=store, places=places)

    def read(self, run_id: RunId) -> Evidence:
        """Sentences about a run with the numbers behind them, and what is being computed."""
        found = read_evidence(self._folder(run_id))
        return Evidence(
            numbers={name: one.to_json() for name, one in found.items()},
            statements=[
                replace(one, numbers=tuple(replace(n, source=(name, *n.source)) for n in one.numbers))
                for name, one in sentences_of(found)
            ],
            kinds=possible(found) if found else [],
            progress={
                kind: EvidenceProgress.model_validate(one, extra="ignore")
                for kind, one in self.status(run_id).items()
            },
            figures=[name for key, name in OF_EVIDENCE.items() if key in found],
            tables=[table.name for table in tables_of(found)],
        )

    def start(
        self,
        run_id: RunId,
        kind: Kind,
        count: Annotated[int, Field(ge=0, le=MOST_REPEATED)] = 0,
        *,
        refit: bool = True,
        max_false: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0,
    ) -> Evidence:
        """Begin to compute evidence: permutations, fits without a source, stability, a learning curve, baselines.

        `count` is how many permutations, divisions or halves of the rows, or sizes, 0 for the usual number. Without
        `refit` only the targets of held-out rows are permuted. `max_false` is how many sources that predict
        nothing may be selected, on average.
        """
        folder = self._folder(run_id)
        found = read_evidence(folder)
        if not found:
            raise InputError(
                "This run was written by an older version: it has no evidence to add to. Run it again."
            )
        kinds = possible(found)
        if kind not in kinds:
            raise InputError(f"Evidence of this run must be of {', '.join(kinds)}, got {kind!r:.40}.")
        if not 0 <= count <= MOST_REPEATED:
            raise InputError(f"The number must be from 1 to {MOST_REPEATED}, got {count}.")
        with self._starting:
            if self.status(run_id).get(kind, {}).get("state") not in GOING:
                usual = repeated()[kind].usual
                self._begin(folder, kind, count or usual, refit=refit, max_false=max_false)
        return self.read(run_id)

    def _begin(self, folder: Path, kind: str, count: int, **options: float) -> None:
        with room(self.places.root):
            (folder / FOLDER).mkdir(exist_ok=True)
            stop_file(folder, kind).unlink(missing_ok=True)
            status_file(folder, kind).unlink(missing_ok=True)
            begun: Tree = {"state": "starting", "done": 0, "total": count, "created": time.time()}
            write_status(folder, kind, count=count, **options, **begun)
        self._children[:] = [child for child in self._children if child.poll() is None]
        log = folder / FOLDER / "log.txt"
        self._children.append(
            start("evidence", self.places.root, folder.name, kind, log=log, threads=PROCESSORS - 1)
        )

    def status(self, run_id: str) -> Tree:
        """Progress by kind: state, done, total, seconds_left, reason."""
        folder = self.places.run(run_id)
        for child in self._children:
            child.poll()
        found: Tree = {}
        for kind in repeated():
            one = read_status(status_file(folder, kind))
            if not one:
                continue
            if one.get("state") in GOING and not self._lives(one):
                # it may have ended between two looks
                one = read_status(status_file(folder, kind))
                if one.get("state") in GOING:
                    one |= {"state": "failed", "reason": "The process ended without a result."}
            one["stopping"] = stop_file(folder, kind).exists() and one["state"] in GOING
            done, total, begun = one.get("done", 0), one.get("total", 0), one.get("begun")
            if one["state"] == "running" and done and begun:
                one["seconds_left"] = seconds_left(begun, done, total)
            found[kind] = one
        return found

    def stop(self, run_id: RunId, kind: Kind) -> Evidence:
        """Stop computing after the present step; what is done is kept."""
        folder = self._folder(run_id)
        if kind not in repeated() or read_status(status_file(folder, kind)).get("state") not in GOING:
            raise InputError("Nothing of this kind is being computed.")
        stop_file(folder, kind).touch()
        return self.read(run_id)

    @staticmethod
    def _lives(one: Tree) -> bool:
        if "pid" not in one:
            return time.time() - float(one.get("created", 0)) < LOST
        return is_alive(one["pid"], one["pid_started"])

    def figure(self, run_id: str, name: str, width: float, kind: str) -> Path:
        """A figure for papers, in a width in millimetres."""
        if name not in FIGURES:
            raise InputError(f"A figure must be one of {', '.join(FIGURES)}, got {name!r:.40}.")
        folder = self._folder(run_id)
        late = "The figure took too long to draw. Try again when fewer runs are under way."
        asked = {"folder": str(folder), "name": name, "width": width, "kind": kind}
        with room(self.places.root):
            found = wait_for("print", asked, 1, PATIENCE, late, "This figure could not be drawn")
        return folder / PRINTED / str(found["file"])

    def table(self, run_id: str, name: str, kind: str) -> str:
        """A table as CSV or LaTeX."""
        for table in tables_of(read_evidence(self._folder(run_id))):
            if table.name == name:
                return csv_text(table.frame()) if kind == "csv" else table.latex()
        raise InputError(f"Run {run_id} has no file {name!r:.60}.")

    def _folder(self, run_id: str) -> Path:
        row = self.store.run(run_id)
        if row["state"] not in FINAL:
            raise InputError("This run has no results yet.")
        return self.places.run(run_id)
