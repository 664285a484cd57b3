"""A studio for tests: in a thread of this process, or as the command that users start."""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import psutil
import pytest
from sklearn.datasets import load_breast_cancer

from conftest import undrawn_figures

ROOT = Path(__file__).resolve().parents[1]

#: The studio starts processes that would run without the compiled core too, but takes minutes for it.
needs_core = pytest.mark.skipif(
    bool(os.environ.get("KERNELWEAVE_DISABLE_EXT")), reason="the studio is tested with the compiled core"
)


class Served:
    """A studio without pages, served by a thread."""

    def __init__(self, folder, limits=None, token="", grace=20.0):
        import uvicorn

        from kernelweave_app.studio.security import Access, base_of
        from kernelweave_app.studio.server import make_app
        from kernelweave_app.studio.service import Studio

        self.studio = Studio(Path(folder), limits, grace=grace)
        self.access = Access(self.studio.store, self.studio.places.root, token)
        self.app = make_app(self.studio, self.access, pages=False)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(self.app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True
        )
        self.thread.start()
        until(lambda: self.server.started)
        self.inside = self.address + base_of(self.access.secret)
        self.client = self.enter()

    def enter(self, project=""):
        """A client with a session of its own, in a project."""
        client = httpx.Client(base_url=self.inside + (f"/p/{project}" if project else ""), timeout=60)
        answer = client.get(f"{self.address}/login", params={"token": self.access.mint()})
        assert answer.status_code == 200
        return client

    def close(self):
        self.client.close()
        self.server.should_exit = True
        self.thread.join(timeout=10)
        self.listener.close()
        self.studio.store.close()

    def upload(self, name, content):
        return self.client.post("/api/tables", params={"name": name}, content=content)

    def run(self, **request):
        answer = self.client.post("/api/runs", json=request)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def wait(self, run_id, seconds=180):
        return until(lambda: ended(self.client, run_id), seconds)

    def made(self, client=None, project="", *, figures=False, **request):
        """Execute a run in this process while the queue rests, for tests of what a run leaves; returns the run."""
        from kernelweave_app.studio.schema import RunRequest

        self.studio.queue.stop()
        try:
            run_id = run_here(self.studio.inside(project), RunRequest(**request), figures=figures)
        finally:
            self.studio.queue.start()
        return ended(client or self.client, run_id)


def ended(client, run_id):
    """Return the run if it has ended."""
    run = client.get(f"/api/runs/{run_id}").json()
    return run if run["state"] in ("done", "failed", "cancelled") else None


def until(question, seconds=30.0):
    """Ask again until the answer is not empty."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < end, f"nothing after {seconds} s"
        time.sleep(0.05)


class Command:
    """``kernelweave studio`` as users start it."""

    def __init__(self, folder, *arguments, port=0, env=None):
        self.folder = Path(folder)
        environment = {**os.environ, "MPLBACKEND": "Agg", **(env or {})}
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        command = [sys.executable, "-m", "kernelweave_app.cli", "studio", "--no-browser"]
        command += ["--data-dir", str(folder), "--port", str(port), *arguments]
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if "Open http" in line:
                self.login = line.split("Open ")[1].strip()
                self.address = self.login.partition("/login")[0]
                break
        else:
            raise AssertionError("\n".join(self.lines))
        # nobody reads on, and a full pipe would stop the server
        self.drain = threading.Thread(target=self._read, daemon=True)
        self.drain.start()
        until(self._answers)

    def _read(self):
        with contextlib.suppress(ValueError):
            self.lines += [line.rstrip() for line in self.process.stdout]

    def _answers(self):
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.address}/login").status_code == 401

    @property
    def inside(self):
        """The address of all that needs a session."""
        with sqlite3.connect(self.folder / "studio" / "studio.sqlite") as db:
            (secret,) = db.execute("SELECT value FROM draft WHERE name = 'address'").fetchone()
        return f"{self.address}/s/{json.loads(secret)}"

    def client(self):
        client = httpx.Client(base_url=self.inside, timeout=60)
        assert client.get(self.login).status_code == 200
        return client

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=10)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process.stdout.close()


def run_here(studio, request, *, figures=False):
    """Execute a run in this process, without a queue; returns its id.

    Figures are most of the time of a small run: they are drawn where something looks at them.
    """
    import matplotlib.pyplot as plt

    from kernelweave_app.studio.worker import Job, Stopping

    class Plain(Job):
        def _pictures(self, *_):
            return []

    made = studio.add_run(request)
    # a server that looks after this folder sees that the process lives, or was quicker
    own = psutil.Process()
    here = {"pid": own.pid, "pid_started": own.create_time(), "started": time.time()}
    if not studio.store.move(made.id, ("queued",), "running", **here):
        until(lambda: studio.store.run(made.id)["state"] in ("done", "failed", "cancelled"), 180)
        return made.id
    job = (Job if figures else Plain)(
        studio.places, studio.store, made.id, Stopping(studio.places.run(made.id))
    )
    with contextlib.nullcontext() if figures else undrawn_figures():
        job.do()
    plt.close("all")  # a process of its own would have ended
    # nor may anybody end this one, once the run has ended
    state = studio.store.run(made.id)["state"]
    studio.store.move(made.id, (state,), state, pid=None, pid_started=None)
    return made.id


def evidence_here(studio, run_id, kind, count=2):
    """Compute evidence of a run in this process; models stay for permutations."""
    from kernelweave_app.studio import jobs, worker

    folder = studio.places.run(run_id)
    (folder / jobs.FOLDER).mkdir(exist_ok=True)
    jobs.write_status(
        folder, kind, state="starting", done=0, total=count, count=count, refit=False, created=time.time()
    )
    # the worker answers SIGTERM, which this process must not
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert worker.compute_evidence(str(studio.places.root), run_id, kind) == 0
    finally:
        signal.signal(signal.SIGTERM, before)


def slow_request(seconds_each=1.0):
    """A run of many steps that takes a while on any machine."""
    spec = {"target": "target", "alphas": "60", "cv": 10, "repeats": 20, "kernels": "rls2", "test_size": 0.2}
    return {"data": {"tables": ["set-breast-cancer"]}, "spec": spec, "name": "slow"}


def two_tables(folder):
    """Breast cancer as two files with a key, in another order, some rows in one of them alone."""
    frame = load_breast_cancer(as_frame=True).frame.iloc[:240]
    frame["target"] = np.where(frame["target"] == 1, "benign", "malignant")
    frame.insert(0, "patient", [f"p{k:03d}" for k in range(len(frame))])
    means = [c for c in frame if c.startswith("mean")]
    worst = [c for c in frame if c.startswith("worst")]
    first = frame[["patient", *means, "target"]].iloc[:230]
    second = frame[["patient", *worst]].sample(frac=1.0, random_state=0).iloc[:225]
    first.to_csv(folder / "means.csv", index=False)
    second.to_csv(folder / "worst.tsv", index=False, sep="\t")
    both = len(set(first["patient"]) & set(second["patient"]))
    return folder / "means.csv", folder / "worst.tsv", both


def run_script(path, folder):
    """Execute a downloaded script elsewhere; return its model and table."""
    space = {}
    text = Path(path).read_text()
    here = os.getcwd()
    os.chdir(folder)
    try:
        exec(compile(text, str(path), "exec"), space)
    finally:
        os.chdir(here)
    return space


def read_json(path):
    return json.loads(Path(path).read_text())


def frame_of(answer):
    return pd.DataFrame(answer["rows"], columns=answer["columns"])
