"""One kind of evidence, in a process: ``python -m kernelweave_app.studio.evidence_worker DATA_FOLDER RUN_ID KIND``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType

from kernelweave._errors import InputError
from kernelweave.inspection.findings import compute
from kernelweave_app.runs.evidence import EVIDENCE, basis_of, read_evidence, total_of, write_evidence
from kernelweave_app.studio.disk import describe_full, is_full
from kernelweave_app.studio.evidence_jobs import other_pids, own_start, read_status, stop_file, write_status
from kernelweave_app.studio.places import MODEL, Places
from kernelweave_app.studio.store import Store

#: Seconds between two writes of progress, and between two looks at others.
EVERY = 0.3


def main(root: str, run_id: str, kind: str) -> int:
    """Compute, and record how it ended."""
    places = Places(Path(root))
    folder = places.run(run_id)
    job = _Job(places, run_id, kind)
    signal.signal(signal.SIGTERM, job.interrupt)
    write_status(folder, kind, pid=os.getpid(), pid_started=own_start(), state="waiting")
    try:
        while other_pids(places, read_status(folder, kind)["created"]):
            if job.stopped():
                raise KeyboardInterrupt
            time.sleep(EVERY)
        write_status(folder, kind, state="running", begun=time.time())
        job.do()
        write_status(
            folder, kind, state="done", reason="Stopped; what was done is kept." if job.heard else ""
        )
    except KeyboardInterrupt:
        write_status(folder, kind, state="cancelled", reason="Stopped before anything was done.")
    except FileNotFoundError:
        if folder.exists():
            raise
        return 1  # the run was deleted
    except InputError as error:
        write_status(folder, kind, state="failed", reason=str(error))
        return 1
    except BaseException as error:
        traceback.print_exc()
        reason = describe_full(places.root) if is_full(error) else f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            write_status(folder, kind, state="failed", reason=reason)
        return 1
    finally:
        stop_file(folder, kind).unlink(missing_ok=True)
    return 0


class _Job:
    def __init__(self, places: Places, run_id: str, kind: str) -> None:
        self.places, self.run_id, self.kind = places, run_id, kind
        self.folder = places.run(run_id)
        self.done, self.heard, self.last = 0, False, 0.0

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Of SIGTERM."""
        raise KeyboardInterrupt

    def stopped(self) -> bool:
        """Whether the process was asked to stop, or the run is gone."""
        self.heard = self.heard or stop_file(self.folder, self.kind).exists() or not self.folder.exists()
        return self.heard

    def report(self, text: str) -> bool:
        """Record a finished step; returns whether to stop."""
        self.done += 1
        if time.monotonic() - self.last > EVERY:
            self.last = time.monotonic()
            total = total_of(text)
            more = {} if total is None else {"total": total}
            write_status(self.folder, self.kind, done=self.done, text=text, **more)
        return self.stopped()

    def do(self) -> None:
        """Read the run, compute, and add to its evidence."""
        from kernelweave.persistence import load
        from kernelweave_app.runs.further import read_all
        from kernelweave_app.runs.preparing import prepare, split
        from kernelweave_app.runs.spec import FitSpec
        from kernelweave_app.runs.writing import score_held

        store = Store(self.places.database)
        request = json.loads(store.run(self.run_id)["request"])
        spec = FitSpec(**{**request["spec"], **request.get("files", {})})
        status = read_status(self.folder, self.kind)
        prepared = prepare(read_all(request["paths"], spec), spec)
        rows = split(prepared, spec)
        model = load(self.folder / MODEL)
        held = score_held(model, prepared, rows[1])
        basis = basis_of(
            model,
            spec,
            prepared,
            rows,
            held,
            count=int(status["count"]),
            refit=bool(status["refit"]),
            report=self.report,
        )
        found = compute(self.kind, basis)
        # read again: another kind may have been added meanwhile
        write_evidence(self.folder, {**read_evidence(self.folder), self.kind: found})
        path = self.folder / EVIDENCE
        store.add_artifact(self.run_id, EVIDENCE, "results", path.stat().st_size)
        write_status(self.folder, self.kind, done=self.done)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
