"""Runs are separate processes: they continue without page and server, stop on request, and report why they failed.

Modules: `studio/jobs`.
"""

import json
import os
import shutil
import signal
import sqlite3
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")
pytest.importorskip("nicegui")

import httpx
import numpy as np
import psutil

import kernelweave as kw
from kernelweave.inspection.registry import Finding, Interval, at, look_up
from kernelweave_app.studio import jobs
from kernelweave_app.studio.jobs import Queue, is_alive
from kernelweave_app.studio.schema import RunRequest
from kernelweave_app.studio.security import TOKEN_VARIABLE
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import Places, Store, describe_run
from studio_server import Command, Served, needs_core, run_here, slow_request, until

pytestmark = needs_core

QUICK = {
    "data": {"tables": ["set-wine"]},
    "spec": {"target": "target", "alphas": "3", "cv": 2, "kernels": "linear"},
}


@pytest.fixture
def served(tmp_path):
    served = Served(tmp_path / "studio")
    yield served
    for run in served.studio.runs():
        row = served.studio.store.run(run.id)
        if is_alive(row["pid"], row["pid_started"]):
            os.kill(row["pid"], signal.SIGKILL)
    served.close()


def going(client, run_id):
    """Return the run once it has made some steps."""

    def ask():
        run = client.get(f"/api/runs/{run_id}").json()
        assert run["state"] in ("queued", "starting", "running"), run["reason"]
        return run if run["done"] > 5 else None

    return until(ask, 60)


def process_of(served, run_id):
    return psutil.Process(served.studio.store.run(run_id)["pid"])


@pytest.mark.full
def test_a_run_is_a_detached_process_with_limited_threads(served, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "a token of the server alone")
    run = served.run(**slow_request())
    going(served.client, run)
    process = process_of(served, run)
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    environment = process.environ()
    assert int(environment["OMP_NUM_THREADS"]) >= 1
    assert not [name for name in environment if name.startswith("KERNELWEAVE_STUDIO_")]
    served.client.post(f"/api/runs/{run}/cancel")
    assert served.wait(run)["state"] == "cancelled"


def test_runs_at_the_same_time_share_the_processors(monkeypatch, tmp_path):
    given, ends = [], []

    def start(*_, threads, **__):
        given.append(threads)
        raise OSError("no processes left")

    monkeypatch.setattr(jobs, "PROCESSORS", 8)
    monkeypatch.setattr(jobs, "start", start)
    store = SimpleNamespace(move=lambda *_, **__: True, finish=lambda *end: ends.append(end))
    places = SimpleNamespace(root=tmp_path, run=lambda _: tmp_path)
    Queue(store, places, at_once=4)._launch("a")
    assert given == [2]
    assert ends == [("a", "failed", "No process could be started: no processes left.")]


@pytest.mark.nightly
def test_runs_wait_for_their_turn(served):
    first, second, third = served.run(**slow_request()), served.run(**QUICK), served.run(**QUICK)
    going(served.client, first)
    assert served.client.get(f"/api/runs/{second}").json()["state"] == "queued"
    # one that waits is gone at once
    assert served.client.post(f"/api/runs/{second}/cancel").json()["state"] == "cancelled"
    assert served.client.post(f"/api/runs/{second}/cancel").status_code == 422
    assert served.client.delete(f"/api/runs/{first}").status_code == 422
    served.client.post(f"/api/runs/{first}/cancel")
    assert served.wait(third)["state"] == "done"


@pytest.mark.nightly
def test_cancelling_keeps_what_is_done(served):
    """After one of the folds is complete there is a model; the path as far as it came is there in any case."""
    request = slow_request()
    run = served.run(**request)

    def second_fold():
        points = served.client.get(f"/api/runs/{run}/path").json()["points"]
        return any(p["stage"].startswith("fold 2") for p in points)

    until(second_fold, 60)
    begin = time.monotonic()
    assert served.client.post(f"/api/runs/{run}/cancel").json()["cancelling"]
    found = served.wait(run)
    print(f"cancelled in {time.monotonic() - begin:.1f} s")
    assert found["state"] == "cancelled"
    assert "kept" in found["reason"]
    results = served.client.get(f"/api/runs/{run}/results").json()
    assert any("interrupted" in text for text in results["remarks"])
    model = kw.load(served.studio.artifact(run, "model.skops"))
    assert len(model.cv_results_["mean_test_score"]) == 60
    names = {f["name"] for f in served.client.get(f"/api/runs/{run}/files").json()}
    assert {"model.skops", "report.html", "script.py"} <= names


@pytest.mark.full
def test_cancelling_before_anything_is_done(served):
    request = slow_request()
    request["spec"]["alphas"] = "1000"
    run = served.run(**request)
    going(served.client, run)
    served.client.post(f"/api/runs/{run}/cancel")
    found = served.wait(run)
    assert found["state"] == "cancelled"
    assert "nothing could be kept" in found["reason"]
    assert served.client.get(f"/api/runs/{run}/path").json()["points"]
    assert served.client.get(f"/api/runs/{run}/results").status_code == 422


@pytest.mark.full
def test_a_run_that_does_not_listen_is_made_to_stop(served):
    run = served.run(**slow_request())
    going(served.client, run)
    process = process_of(served, run)
    served.studio.queue.grace = 0.5
    process.suspend()  # hears neither the flag nor SIGTERM
    served.client.post(f"/api/runs/{run}/cancel")
    found = served.wait(run, 30)
    assert found["state"] == "cancelled"
    assert not is_alive(process.pid, served.studio.store.run(run)["pid_started"])


@pytest.mark.full
def test_a_crash_says_why(served):
    run = served.run(**slow_request())
    going(served.client, run)
    process_of(served, run).send_signal(signal.SIGSEGV)
    found = served.wait(run)
    assert found["state"] == "failed"
    assert "ended without a result" in found["reason"]
    assert "Segmentation fault" in served.client.get(f"/api/runs/{run}/log").json()["text"]


@pytest.mark.nightly
def test_an_error_says_why_with_its_log(served, monkeypatch, tmp_path):
    frame = "a,b,c\n" + "\n".join(f"{k % 7},{k % 5},{'x' if k % 2 else 'y'}" for k in range(30))
    table = served.upload("t.csv", frame.encode()).json()
    run = served.run(data={"tables": [table["id"]]}, spec={"target": "c", "alphas": "2", "cv": 2})
    served.wait(run)
    served.studio.catalogue.entry(table["id"]).path().write_text("a,b\n1,2\n")
    # the table changed between the check and the run
    row = served.studio.store.run(run)
    again = served.studio.queue.add("again", json.loads(row["request"]))
    found = served.wait(again)
    assert found["state"] == "failed"
    assert "There is no column 'c'" in found["reason"]
    assert "There is no column 'c'" in served.client.get(f"/api/runs/{again}/log").json()["text"]


def test_orphans_are_found_by_number_and_time(tmp_path):
    places = Places(tmp_path)
    store = Store(places.database)
    queue = Queue(store, places)
    own = psutil.Process()
    # a process of that number lives, but it is another one; one that was started and never said so; one that lives
    born = own.create_time()
    cases = {"reused": (own.pid, born - 1000), "gone": (2**22 + 1, 1.0), "alive": (own.pid, born)}
    for k, (name, (pid, started)) in enumerate(cases.items()):
        run_id = f"20260101-00000{k}-abcdef"
        places.run(run_id).mkdir()
        store.add_run(run_id, name, {})
        assert store.move(run_id, ("queued",), "running", pid=pid, pid_started=started, started=time.time())
    store.add_run("20260101-000009-abcdef", "lost", {})
    store.move("20260101-000009-abcdef", ("queued",), "starting", started=time.time() - 1000)
    queue.look()
    states = {row["name"]: (row["state"], row["reason"]) for row in store.runs()}
    assert states["alive"] == ("running", "")
    assert states["reused"][0] == states["gone"][0] == states["lost"][0] == "failed"
    assert "ended without a result" in states["gone"][1]
    store.close()


def test_two_cannot_take_one_run(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    other = Store(tmp_path / "s.sqlite")
    store.add_run("20260101-000000-abcdef", "x", {})
    taken = [s.move("20260101-000000-abcdef", ("queued",), "starting") for s in (store, other)]
    assert taken == [True, False]
    with sqlite3.connect(tmp_path / "s.sqlite") as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    db.close()
    store.close()
    other.close()


@pytest.mark.full
def test_runs_outlive_the_server(tmp_path):
    """Kill -9 in mid-run: the run goes on, the next server finds it, and its result is that of an undisturbed run."""
    first = Command(tmp_path / "studio")
    request = slow_request()
    request["spec"] |= {"repeats": 3, "cv": 5, "alphas": "30", "kernels": "rkl"}
    try:
        client = first.client()
        run = client.post("/api/runs", json=request).json()["id"]
        going(client, run)
        first.kill()
        with pytest.raises(httpx.TransportError):
            client.get("/api/about")
        before = Store(Places(tmp_path / "studio").database)
        done = before.run(run)["done"]
        until(lambda: before.run(run)["done"] > done, 30)  # without any server
        before.close()
        second = Command(tmp_path / "studio", port=int(first.address.rpartition(":")[2]))
        try:
            # the session of before still counts
            found = until(lambda: (r := client.get(f"/api/runs/{run}").json())["state"] == "done" and r, 120)
            assert found["done"] == found["total"]
            model = kw.load(Places(tmp_path / "studio").run(run) / "model.skops")
            client.close()
        finally:
            second.close()
    finally:
        first.close()
    other = Studio(tmp_path / "other").inside("")
    again = run_here(other, RunRequest(**request))
    np.testing.assert_array_equal(model.weights_, kw.load(other.artifact(again, "model.skops")).weights_)
    other.store.close()


@pytest.mark.nightly
def test_a_second_command_opens_the_first_studio(tmp_path, capsys):
    import subprocess
    import sys

    first = Command(tmp_path)
    try:
        command = [
            sys.executable,
            "-m",
            "kernelweave_app.cli",
            "studio",
            "--no-browser",
            "--data-dir",
            str(tmp_path),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0
        login = done.stdout.split("Open ")[1].split()[0]
        assert login.startswith(first.address)
        with httpx.Client(base_url=first.inside) as client:
            assert client.get(login).status_code == 200
            assert client.get("/api/about").status_code == 200
    finally:
        first.close()
    assert any("its runs go on" in line for line in first.lines)


@pytest.mark.full
def test_runs_learn_probabilities(served):
    spec = {"target": "target", "kernels": "linear", "alphas": "3", "cv": 3, "probabilities": "platt"}
    done = served.made(
        data={"tables": ["set-wine"]}, spec={**spec, "method": "simple", "class_weights": "class_1=2"}
    )
    assert done["state"] == "done"
    run_id = done["id"]
    model = kw.load(Places(served.studio.places.root).run(run_id) / "model.skops")
    assert model.calibration_.method == "platt"
    found = {
        metric["name"]: metric["value"]
        for metric in served.client.get(f"/api/runs/{run_id}").json()["metrics"]
    }
    assert 0 < found["log loss, held out"] < 0.7


def test_work_that_was_asked_for_lives_for_a_minute_and_then_with_its_process():
    me = psutil.Process()
    lives = jobs.EvidenceDesk._lives
    assert lives({"created": time.time() - 0.5 * jobs.LOST})
    assert not lives({"created": time.time() - 2.0 * jobs.LOST})
    assert not lives({})
    assert lives({"created": 0.0, "pid": me.pid, "pid_started": me.create_time()})
    assert not lives({"created": time.time(), "pid": me.pid, "pid_started": me.create_time() - 100.0})


@pytest.fixture
def running(tmp_path):
    """A run that began 50 minutes ago and has made 3 of 9 steps."""
    places, run_id = Places(tmp_path), "20260101-000000-abcdef"
    store = Store(places.database)
    places.run(run_id).mkdir()
    store.add_run(run_id, "a run", QUICK)
    store.move(run_id, ("queued",), "running", started=time.time() - 3000.0)
    store.progress(run_id, 3, 9, "step")
    yield store, places, run_id
    store.close()


def test_the_seconds_that_are_left_are_those_of_the_steps_so_far(running, monkeypatch):
    store, places, run_id = running
    desk = jobs.EvidenceDesk(store, places)
    monkeypatch.setattr(desk, "_lives", lambda one: True)
    kind, begun = next(iter(jobs.repeated())), time.time() - 3000.0
    (places.run(run_id) / jobs.FOLDER).mkdir()
    for done, total, left in ((3, 9, 6000.0), (6, 9, 1500.0), (9, 9, 0.0), (10, 9, 0.0), (0, 9, None)):
        store.progress(run_id, done, total, "step")
        status = {"state": "running", "begun": begun, "done": done, "total": total}
        jobs.write_status(places.run(run_id), kind, **status)
        for found in (
            describe_run(store.run(run_id), [], []).seconds_left,
            desk.status(run_id)[kind].get("seconds_left"),
        ):
            assert found == (None if left is None else pytest.approx(left, rel=0.05))


def test_numbers_of_sentences_lead_to_those_of_the_evidence(running, monkeypatch):
    store, places, run_id = running
    store.finish(run_id, "done")
    made = {
        name: Finding({"a": Interval(value)}, "", name=name).says("which", "It is {v:.2f}.", v=at("a"))
        for name, value in (("first", 0.25), ("second", 0.5))
    }
    monkeypatch.setattr(jobs, "read_evidence", lambda folder: made)
    found = jobs.EvidenceDesk(store, places).read(run_id)
    cited = [number for sentence in found.statements for number in sentence.numbers]
    assert [one.shown for one in cited] == ["0.25", "0.50"]
    assert (
        [look_up(found.numbers, one.source) for one in cited] == [one.value for one in cited] == [0.25, 0.5]
    )


@pytest.mark.parametrize("gone", [False, True], ids=["its folder", "a folder that is gone"])
def test_a_run_that_is_refused_leaves_nothing(tmp_path, gone):
    places = Places(tmp_path)

    def refuse(run_id, *_):
        if gone:
            shutil.rmtree(places.run(run_id))
        raise kw.InputError("no")

    with pytest.raises(kw.InputError, match="no"):
        Queue(SimpleNamespace(inside=lambda _: SimpleNamespace(add_run=refuse)), places).add("a", {})
    assert not list(places.runs.iterdir())
