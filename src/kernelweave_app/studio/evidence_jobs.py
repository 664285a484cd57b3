"""Evidence about finished runs: a detached process for each kind, which writes its progress into the run's folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from kernelweave._errors import InputError
from kernelweave._types import Tree
from kernelweave.inspection.findings import MOST_REPEATED, possible, repeated
from kernelweave_app.runs.evidence import read_evidence
from kernelweave_app.runs.folders import write_text
from kernelweave_app.studio.disk import room
from kernelweave_app.studio.jobs import is_alive
from kernelweave_app.studio.places import Places
from kernelweave_app.studio.processes import environment

#: Folder of a run with a file of progress for each kind.
FOLDER = "evidence"
ACTIVE = ("starting", "waiting", "running")
#: Seconds in which a process has to report.
LOST = 60.0


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
            if self.status(run_id).get(kind, {}).get("state") not in ACTIVE:
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
        command = [sys.executable, "-P", "-m", "kernelweave_app.studio.evidence_worker"]
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
            if one.get("state") in ACTIVE and not self._lives(one):
                # it may have ended between two looks
                one = read_status(folder, kind)
                if one.get("state") in ACTIVE:
                    one |= {"state": "failed", "reason": "The process ended without a result."}
            one["stopping"] = stop_file(folder, kind).exists() and one["state"] in ACTIVE
            done, total, begun = one.get("done", 0), one.get("total", 0), one.get("begun")
            if one["state"] == "running" and done and begun:
                one["seconds_left"] = (time.time() - begun) / done * max(0, total - done)
            found[kind] = one
        return found

    def stop(self, run_id: str, kind: str) -> Tree:
        """Ask a process to stop after its present step; what is done is kept."""
        folder = self.places.run(run_id)
        if kind not in repeated() or read_status(folder, kind).get("state") not in ACTIVE:
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
        if earlier and one.get("state") in ACTIVE and is_alive(one["pid"], one["pid_started"]):
            found.append(int(one["pid"]))
    return found


def own_start() -> float:
    """When this process began, by which others know it."""
    return psutil.Process(os.getpid()).create_time()
