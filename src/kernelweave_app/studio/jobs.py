"""Processes that compute for the studio: runs in a queue, evidence about them, and short ones that are waited for."""

from __future__ import annotations

import contextlib
import json
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
from kernelweave._types import Tree
from kernelweave.inspection.registry import MOST_REPEATED, possible, repeated, sentences_of, tables_of
from kernelweave_app.reports.printing import LEAST
from kernelweave_app.reports.printing import MOST as WIDEST
from kernelweave_app.runs.evidence import read_evidence
from kernelweave_app.runs.folders import csv_text, write_text
from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.schema import CitedNumber, Evidence, EvidenceProgress, Expected, Sentence
from kernelweave_app.studio.store import ACTIVE, FINAL, KEPT, MODEL, SAVING, DiskFull, Places, Store, room

if TYPE_CHECKING:
    import sqlite3


THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def environment(threads: int) -> dict[str, str]:
    """Environment variables for a process.

    Parameters
    ----------
    threads : int
        Threads of linear algebra, where the user has not set them.

    Returns
    -------
    dict of str to str
        Without the server's token, which such processes do not need; figures open no window.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KERNELWEAVE_STUDIO_")}
    return {**dict.fromkeys(THREAD_VARIABLES, str(max(1, threads))), **kept, "MPLBACKEND": "Agg"}


#: Figures by the names of files.
FIGURES = (
    *("weights", "contributions", "path", "choice", "roc", "precision", "confusion", "held-out", "residuals"),
    *("stability", "learning-curve", "calibration", "permutation"),
)
FORMATS = ("pdf", "svg")
#: Seconds that a drawing may take.
PATIENCE = 120.0
PRINTED = "printed"


#: Seconds after which measuring is given up.
MOST_SECONDS = 90.0


def print_figure(folder: Path, name: str, width: float, kind: str) -> Path:
    """Draw a figure of a run in a width in millimetres, in another process; returns its file."""
    if name not in FIGURES or kind not in FORMATS:
        raise InputError(f"A figure must be one of {', '.join(FIGURES)}, as pdf or svg, got {name!r:.40}.")
    if not LEAST <= width <= WIDEST:
        raise InputError(f"The width must be from {LEAST:g} to {WIDEST:g} millimetres, got {width:g}.")
    command = [sys.executable, "-P", "-m", "kernelweave_app.studio.worker", "print"]
    try:
        found = subprocess.run(
            [*command, str(folder), name, f"{width:g}", kind],
            env=environment(1),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            "The figure took too long to draw. Try again when fewer runs are under way."
        ) from None
    if found.returncode:
        said = found.stderr.strip().splitlines()
        raise InputError(f"This figure could not be drawn: {said[-1] if said else 'no reason given'}.")
    return folder / PRINTED / f"{name}-{width:g}mm.{kind}"


def measure(spec: FitSpec, paths: Mapping[str, str], at_once: int = 1) -> Expected:
    """Estimate time and memory of a run.

    Parameters
    ----------
    spec : FitSpec
    paths : mapping of str to str
    at_once : int, default=1
        Runs at the same time, which share the processors.

    Raises
    ------
    InputError
        If the run itself would refuse these settings, or nothing was measured in time.
    """
    command = [sys.executable, "-P", "-m", "kernelweave_app.studio.worker", "measure"]
    asked = json.dumps({"spec": spec.model_dump(), "paths": dict(paths)})
    try:
        done = subprocess.run(
            command,
            input=asked,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            env=environment((os.cpu_count() or 1) // at_once),
        )
        found = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise InputError(
            f"A fit on few of these rows takes more than {MOST_SECONDS:.0f} s already: expect hours. Choose fewer "
            "kernels or columns, or another learner."
        ) from None
    except (ValueError, IndexError, OSError) as error:
        raise InputError(f"The time could not be measured: {error}.") from None
    if "problem" in found:
        raise InputError(found["problem"])
    return Expected(**found)


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
        command = [
            sys.executable,
            "-P",
            "-m",
            "kernelweave_app.studio.worker",
            "run",
            str(self.places.root),
            run_id,
        ]
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


#: Folder of a run with a file of progress for each kind.
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
    write_text(status_file(folder, kind), json.dumps({**read_status(folder, kind), **values}))


def read_status(folder: Path, kind: str) -> Tree:
    """What is known about a process; empty if there was none."""
    try:
        found = json.loads(status_file(folder, kind).read_text("utf8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class EvidenceJobs:
    """Starts, watches and stops the computation of evidence.

    Parameters
    ----------
    places : Places
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self._children: list[subprocess.Popen[bytes]] = []
        #: Of two that ask for the same at once, the second finds what the first has begun.
        self._starting = threading.Lock()

    def start(self, run_id: str, kind: str, count: int, *, refit: bool) -> Tree:
        """Begin to compute a kind of evidence, unless that is under way; the answer is as of `status`."""
        folder = self.places.run(run_id)
        found = read_evidence(folder)
        if not found:
            raise InputError(
                "This run was written by an older version: it has no evidence to add to. Run it again."
            )
        if kind not in possible(found):
            raise InputError(
                f"Evidence of this run must be of {', '.join(possible(found))}, got {kind!r:.40}."
            )
        if not 0 <= count <= MOST_REPEATED:
            raise InputError(f"The number must be from 1 to {MOST_REPEATED}, got {count}.")
        with self._starting:
            if self.status(run_id).get(kind, {}).get("state") not in GOING:
                self._begin(folder, kind, count, refit=refit)
        return self.status(run_id)

    def _begin(self, folder: Path, kind: str, count: int, *, refit: bool) -> None:
        with room(self.places.root):
            (folder / FOLDER).mkdir(exist_ok=True)
            stop_file(folder, kind).unlink(missing_ok=True)
            status_file(folder, kind).unlink(missing_ok=True)
            count = count or repeated()[kind].usual
            write_status(
                folder,
                kind,
                state="starting",
                done=0,
                total=count,
                count=count,
                refit=refit,
                created=time.time(),
            )
        command = [sys.executable, "-P", "-m", "kernelweave_app.studio.worker", "evidence"]
        self._children = [child for child in self._children if child.poll() is None]
        with (folder / FOLDER / "log.txt").open("ab") as output:
            child = subprocess.Popen(
                [*command, str(self.places.root), folder.name, kind],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment((os.cpu_count() or 1) - 1),
                start_new_session=True,
            )
        self._children.append(child)

    def status(self, run_id: str) -> Tree:
        """Progress by kind: state, done, total, seconds_left, reason."""
        folder = self.places.run(run_id)
        for child in self._children:
            child.poll()
        found: Tree = {}
        for kind in repeated():
            one = read_status(folder, kind)
            if not one:
                continue
            if one.get("state") in GOING and not self._lives(one):
                # it may have ended between two looks
                one = read_status(folder, kind)
                if one.get("state") in GOING:
                    one |= {"state": "failed", "reason": "The process ended without a result."}
            one["stopping"] = stop_file(folder, kind).exists() and one["state"] in GOING
            done, total, begun = one.get("done", 0), one.get("total", 0), one.get("begun")
            if one["state"] == "running" and done and begun:
                one["seconds_left"] = (time.time() - begun) / done * max(0, total - done)
            found[kind] = one
        return found

    def stop(self, run_id: str, kind: str) -> Tree:
        """Ask a process to stop after its present step; what is done is kept."""
        folder = self.places.run(run_id)
        if kind not in repeated() or read_status(folder, kind).get("state") not in GOING:
            raise InputError("Nothing of this kind is being computed.")
        stop_file(folder, kind).touch()
        return self.status(run_id)

    def _lives(self, one: Tree) -> bool:
        if "pid" not in one:
            return time.time() - float(one.get("created", 0)) < LOST
        return is_alive(one["pid"], one["pid_started"])


def other_pids(places: Places, since: float) -> list[int]:
    """Processes that compute evidence of any run and were asked for earlier."""
    found = []
    for path in places.runs.glob(f"*/{FOLDER}/*.json"):
        try:
            one = json.loads(path.read_text("utf8"))
        except (OSError, ValueError):
            continue
        earlier = one.get("created", 0) < since and one.get("pid") not in (None, os.getpid())
        if earlier and one.get("state") in GOING and is_alive(one["pid"], one["pid_started"]):
            found.append(int(one["pid"]))
    return found


def own_start() -> float:
    """When this process began, by which others know it."""
    return psutil.Process(os.getpid()).create_time()


#: Figures by the findings that they need.
OF_EVIDENCE = {
    "stability": "stability",
    "learning curve": "learning-curve",
    "calibration": "calibration",
    "permutation": "permutation",
}


class EvidenceDesk:
    """Reads, computes and prints evidence about the runs of a studio.

    Parameters
    ----------
    store : Store
    places : Places
    jobs : EvidenceJobs, optional
        Those of another project.
    """

    def __init__(self, store: Store, places: Places, jobs: EvidenceJobs | None = None) -> None:
        self.store, self.places = store, places
        self.jobs = jobs or EvidenceJobs(places)

    def read(self, run_id: str) -> Evidence:
        """Sentences, numbers, and what is being computed."""
        folder = self._folder(run_id)
        found = read_evidence(folder)
        return Evidence(
            numbers={name: one.to_json() for name, one in found.items()},
            statements=[
                Sentence(
                    topic=one.topic,
                    sentence=one.text,
                    numbers=[
                        CitedNumber(source=[name, *cited.source], value=cited.value, shown=cited.shown)
                        for cited in one.numbers
                    ],
                )
                for name, one in sentences_of(found)
            ],
            kinds=possible(found) if found else [],
            progress={
                kind: EvidenceProgress(**{k: v for k, v in one.items() if k in EvidenceProgress.model_fields})
                for kind, one in self.jobs.status(run_id).items()
            },
            figures=[name for key, name in OF_EVIDENCE.items() if key in found],
            tables=[table.name for table in tables_of(found)],
        )

    def start(self, run_id: str, kind: str, count: int, *, refit: bool) -> Evidence:
        """Begin to compute a kind of evidence."""
        self._folder(run_id)
        self.jobs.start(run_id, kind, count, refit=refit)
        return self.read(run_id)

    def stop(self, run_id: str, kind: str) -> Evidence:
        """Stop after the present step."""
        self._folder(run_id)
        self.jobs.stop(run_id, kind)
        return self.read(run_id)

    def figure(self, run_id: str, name: str, width: float, kind: str) -> Path:
        """A figure for papers."""
        folder = self._folder(run_id)
        with room(self.places.root):
            return print_figure(folder, name, width, kind)

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
