"""Everything that the studio keeps and its processes do: records, folders, queues, workers, projects and their files.

Modules: `studio/store`, `studio/jobs`, `studio/worker`, `studio/projects`, `studio/catalogue`, `studio/service`,
`studio/checking`, `studio/portable`, `studio/mlflow_export`, `studio/api`.
"""

import asyncio
import errno
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import time
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from told import a_table, answer

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

import psutil

import kernelweave as kw
from kernelweave.fitting.task import PathStep
from kernelweave.inspection.registry import Finding
from kernelweave_app.runs.evidence import write_evidence
from kernelweave_app.runs.lineage import Lineage, Source
from kernelweave_app.runs.spec import Spec
from kernelweave_app.studio import (
    api,
    catalogue,
    checking,
    jobs,
    mlflow_export,
    projects,
    service,
    store,
    worker,
)
from kernelweave_app.studio.catalogue import Catalogue, file_id
from kernelweave_app.studio.checking import Limits
from kernelweave_app.studio.jobs import EvidenceDesk, Queue
from kernelweave_app.studio.portable import pack_run
from kernelweave_app.studio.projects import Projects
from kernelweave_app.studio.schema import Artifact, Data, Draft, Event, Marks, Metric, PathPoint, RunRequest
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import DiskFull, Places, Store

RUNS = [f"20240131-00000{k}-abcdef" for k in range(9)]
REQUEST = {
    "data": {"tables": ["set-wine"]},
    "spec": {"target": "y", "method": "lp"},
    "paths": {"t": "/x/t.csv"},
}


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is moved."""
    now = [1_700_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


@pytest.fixture
def studio(tmp_path):
    found = Studio(tmp_path / "data")
    yield found
    found.store.close()


def rows(db, table):
    """The rows of a table of a database; the gap of a point is told by another name, as it is no measured one."""
    return [told_of(row) for row in db._rows(f"SELECT * FROM {table}")]


def told_of(row):
    return {"of the gap" if name == "rel_gap" else name: value for name, value in dict(row).items()}


# ---- the database -----------------------------------------------------------------------------------


def test_records_of_runs_in_full(tmp_path, clock, recorded):
    """What every change leaves in the database, with the times at which it was made."""
    answers = {}
    clock[0] = 1000.0
    (tmp_path / "my data").mkdir()
    db = Store(tmp_path / "my data" / "studio.sqlite")
    assert [(row["id"], row["created"], row["n_runs"]) for row in db.projects()] == [("first", 1000.0, 0)]
    first = db.inside("first")
    clock[0] += 1
    assert first.add_run(RUNS[0], "wine", REQUEST, "key") == RUNS[0]
    clock[0] += 1
    assert first.add_run(RUNS[1], "wine", REQUEST, "key") == RUNS[0]
    assert first.add_run(RUNS[1], "wine", REQUEST) == RUNS[1]
    assert db.add_project("a" * 12, "Other", 80) == "Other"
    assert db.add_project("b" * 12, "Other", 80) == "Other 2"
    other = db.inside("a" * 12)
    assert other.add_run(RUNS[2], "wine", REQUEST, "key") == RUNS[2]
    assert [run["name"] for run in db.runs()] == ["wine", "wine 2", "wine"]
    clock[0] += 10
    assert db.move(RUNS[0], ("queued",), "running", started=clock[0], pid=7)
    assert not db.move(RUNS[0], ("queued", "starting"), "done")
    assert db.progress(RUNS[0], 3, 12, "fold 1") is False
    db.write(
        RUNS[0],
        PathPoint(stage="path", alpha=2.0, rel_gap=None, n_active=1, weights={3: 0.5}),
        Event(time=1.0, text="a"),
    )
    db.write(RUNS[0], Metric(name="r2", value=0.5, low=0.1, n=7), Metric(name="r2", value=0.75, n=8))
    db.write(RUNS[0], Artifact(name="m", kind="model", size=3), Marks(pinned=True, note="n", tags=["u", "v"]))
    db.add_event(RUNS[0], "b")
    clock[0] += 5
    db.cancel(RUNS[0])
    clock[0] += 5
    db.cancel(RUNS[0])
    assert db.progress(RUNS[0], 4, 12, "fold 2") is True
    assert (db.is_cancelled(RUNS[1]), db.is_cancelled("gone")) == (False, True)
    assert db.finish(RUNS[0], "cancelled", "why", {"a": 1})
    assert not db.finish(RUNS[0], "done")
    assert db.finish(RUNS[2], "failed")
    answers["runs"] = [dict(row) for row in db.runs()]
    answers["found"] = [
        [row["id"] for row in one.runs(states)]
        for one, states in (
            (db, ("queued",)),
            (first, ()),
            (other, ("failed", "done")),
            (other, ("queued",)),
        )
    ]
    for table in ("point", "metric", "artifact", "mark", "event"):
        answers[table] = rows(db, table)
    assert db.read(Event, RUNS[0])[0] == Event(time=1.0, text="a")
    assert [one.text for one in db.read(Event, RUNS[0], after=1)] == ["b"]
    assert [one.text for one in db.read(Event, RUNS[0], most=1)] == ["a"]
    [point] = db.read(PathPoint, RUNS[0])
    assert (point.number, point.weights, point.rel_gap) == (1, {3: 0.5}, None)
    assert db.read_all(Marks) == {RUNS[0]: [Marks(pinned=True, note="n", tags=["u", "v"])]}
    assert [one.value for one in db.read_all(Metric)[RUNS[0]]] == [0.75]
    row, beside = first.dump_run(RUNS[0])
    answers["dumped"] = [row, {name: [*map(told_of, some)] for name, some in beside.items()}]
    other.load_run(RUNS[3], row, beside)
    assert other.run(RUNS[3])["name"] == "wine 2"
    assert other.read(PathPoint, RUNS[3])[0].weights == {3: 0.5}
    assert (other.run(RUNS[3])["pid"], other.run(RUNS[3])["cancelled"], other.run(RUNS[3])["asked"]) == (
        None,
        None,
        None,
    )
    wrong = answer(other.load_run, RUNS[3], row, beside)
    assert wrong.startswith("error: A run of the project cannot be stored: UNIQUE")
    twice = answer(other.load_run, RUNS[5], row, {**beside, "mark": beside["mark"] * 2})
    assert twice.startswith("error: A run of the project cannot be stored: UNIQUE")
    assert answer(other.run, RUNS[5]) == f"error: There is no run '{RUNS[5]}'."
    told = [answer(one.run, run) for one, run in ((other, RUNS[0]), (first, "x" * 70))]
    assert told == [f"error: There is no run '{RUNS[0]}'.", f"error: There is no run '{'x' * 59}."]
    with pytest.raises(
        kw.InputError, match=r"There is no project 'cccccccccccc'\. It may have been deleted\."
    ):
        db.inside("c" * 12).add_run(RUNS[4], "x", {})
    described = store.describe_run(db.run(RUNS[0]), db.read(Metric, RUNS[0]), db.read(Marks, RUNS[0]))
    answers["described"] = described.model_dump(exclude={"request"})
    db.delete_run(RUNS[0])
    assert [rows(db, table) for table in ("artifact", "mark")] == [
        [{"run": RUNS[3], "name": "m", "kind": "model", "size": 3}],
        [{"run": RUNS[3], "pinned": 1, "note": "n", "tags": '["u", "v"]'}],
    ]
    db.close()
    again = Store(tmp_path / "my data" / "studio.sqlite")
    assert again.project_ids() == ["first", "a" * 12, "b" * 12]
    again.close()
    recorded("answers", answers)


def test_drafts_projects_and_secrets(tmp_path, clock):
    (tmp_path / "Data here" / "studio").mkdir(parents=True)
    db = Store(tmp_path / "Data here" / "studio" / "studio.sqlite")
    [one] = db.projects()
    assert one["name"] == "Data here"
    first = db.inside("first")
    clock[0] += 1
    db.add_project("a" * 12, "Other", 80)
    other = db.inside("a" * 12)
    assert db.add_project("d" * 12, "x" * 90, 80) == "x" * 80
    assert db.add_project("e" * 12, "x" * 90, 80) == "x" * 70 + " 2"
    for place, value in ((first, 1), (other, 2)):
        assert place.draft("current") is None
        place.set_draft("current", value)
        place.set_draft("more", [value])
    assert (first.draft("current"), other.draft("current"), first.draft("more"), db.draft("current")) == (
        1,
        2,
        [1],
        1,
    )
    assert {row["name"] for row in rows(db, "draft")} == {
        "current",
        "first/more",
        f"{'a' * 12}/current",
        f"{'a' * 12}/more",
    }
    with pytest.raises(kw.InputError, match="There is no project"):
        db.inside("f" * 12).set_draft("current", 1)
    assert (db.settle("id", 5), db.settle("id", 6)) == (5, 5)
    assert db.last_project() == "a" * 12
    clock[0] += 1
    db.open_project("first")
    assert db.last_project() == "first"
    db.rename_project("first", "Mine")
    db.rename_project("first", "Mine")
    with pytest.raises(kw.InputError, match=r"Another project is called 'Mine'\. Choose another name\."):
        db.rename_project("a" * 12, "Mine")
    with pytest.raises(kw.InputError, match="There is no project"):
        db.rename_project("f" * 12, "New")
    for k in (0, 1):
        other.add_run(RUNS[k], "r", {})
    assert answer(db.delete_project, "a" * 12) == "error: 2 of its runs have not ended. Stop them first."
    other.finish(RUNS[0], "done")
    assert answer(db.delete_project, "a" * 12) == "error: 1 of its runs has not ended. Stop them first."
    other.finish(RUNS[1], "done")
    other.add_event(RUNS[1], "x")
    first.add_run(RUNS[2], "r", {})
    assert db.delete_project("a" * 12) == RUNS[:2]
    assert [row["id"] for row in db.runs()] == [RUNS[2]]
    assert rows(db, "event") == []
    assert {row["name"] for row in rows(db, "draft")} == {"current", "first/more", "id"}
    assert answer(db.delete_project, "a" * 12).startswith("error: There is no project 'aaaaaaaaaaaa'. It may")
    first.finish(RUNS[2], "done")
    db.delete_project("first")
    assert {row["name"] for row in rows(db, "draft")} == {"id"}
    db.delete_project("d" * 12)
    assert (
        answer(db.delete_project, "e" * 12)
        == "error: This is the only project. Make another one first, or delete its tables and runs."
    )
    # tokens are used once, while they are young
    now = clock[0]
    for kind in ("token", "session"):
        db.add_secret(kind, "a")
    clock[0] = now + 10
    assert (db.has_token("a", 10.5), db.has_token("a", 10.0), db.has_token("b", 99)) == (True, False, False)
    assert (db.take_token("a", 10.0), db.take_token("a", 10.5), db.take_token("a", 10.5)) == (
        False,
        True,
        False,
    )
    assert (db.session_begun("a"), db.session_begun("b")) == (now, None)
    db.close()


def test_names_places_and_full_disks(tmp_path, clock, recorded):
    answers = {}
    names = ["wine", "wine 2"]
    assert [store.free_name(name, {*names}) for name in ("wine", "new")] == ["wine 3", "new"]
    assert store.free_name("x" * 30, {"x" * 20}, 20) == "x" * 10 + " 2"
    wrong = [
        "",
        "x" * 117 + ".csv",
        "a/b.csv",
        ".csv",
        "a.txt",
        "a\u202e.csv",
        "a?.csv",
        "a\n.csv",
        "ä" * 59 + ".csv",
    ]
    answers["names"] = [
        answer(store.safe_name, name) for name in [*wrong, "x" * 116 + ".csv", "ä.CSV", "a b.parquet"]
    ]
    assert store.free_path(tmp_path, "a.csv.gz").name == "a.csv.gz"
    assert store.free_path(tmp_path, "a.csv.gz").name == "a-2.csv.gz"
    assert store.free_path(tmp_path, "a.csv.gz").name == "a-3.csv.gz"
    places = Places(tmp_path / "data")
    assert oct(places.state.stat().st_mode & 0o777) == "0o700"
    folders = ("runs", "sets", "uploads", "pages", "projects")
    assert all(getattr(places, name) == places.root / "studio" / name for name in folders)
    assert places.database == places.root / "studio" / "studio.sqlite"
    assert places.run(RUNS[0]) == places.runs / RUNS[0]
    for bad in ("../x", "20240131-000000-abcdeg", f"{RUNS[0]}x"):
        assert answer(places.run, bad) == f"error: There is no run {bad!r}."
    assert places.project("a" * 12) == places.projects / ("a" * 12)
    assert answer(places.project, "a" * 11) == "error: There is no project 'aaaaaaaaaaa'."
    inside = places.inside("a" * 12)
    assert (inside.files, places.inside("first").files, inside.root) == (
        places.projects / ("a" * 12),
        places.root,
        places.root,
    )
    assert inside.tables() == []
    for name in ("b.csv", "a.CSV", ".c.csv", "d.txt", "studio.sqlite"):
        (places.root / name).write_text("x")
    (places.root / "link.csv").symlink_to(tmp_path / "a.csv.gz")
    (places.root / "own.csv").symlink_to(places.root / "b.csv")
    (places.root / "folder.csv").mkdir()
    assert [path.name for path in places.tables()] == ["a.CSV", "b.csv", "own.csv"]
    (places.uploads / "x.part").write_text("x")
    (places.uploads / "folder").mkdir()
    (places.uploads / "folder" / "y").write_text("y")
    (places.uploads / "link").symlink_to(tmp_path)
    places.sweep()
    assert (list(places.uploads.iterdir()), tmp_path.is_dir()) == ([], True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(
        kw.InputError, match=r"The data folder .*file cannot be used: .+\. Choose another --data-dir\."
    ):
        Places(tmp_path / "file")
    (tmp_path / "bad.sqlite").write_text("no database" * 100)
    with pytest.raises(
        kw.InputError, match=r"bad\.sqlite cannot be used as the studio's database: .+\. Choose"
    ):
        Store(tmp_path / "bad.sqlite")
    full = [
        OSError(errno.ENOSPC, "x"),
        OSError(errno.EDQUOT, "x"),
        sqlite3.OperationalError("database or disk is full"),
    ]
    other = [OSError(errno.EACCES, "x"), sqlite3.OperationalError("locked"), ValueError("disk is full")]
    assert [store.is_full(error) for error in [*full, *other]] == [True] * 3 + [False] * 3
    with (
        pytest.raises(
            DiskFull,
            match=r"^The disk is full: nothing can be written to /d\. Free some space, then try again\.$",
        ),
        store.room(Path("/d")),
    ):
        raise full[0]
    with pytest.raises(OSError, match="x") as caught, store.room(Path("/d")):
        raise other[0]
    assert caught.value is other[0]
    assert [store.seconds_left(clock[0] - 6.0, 3, n) for n in (9, 3, 2)] == [12.0, 0.0, 0.0]
    with store.packing(places) as archive:
        archive.writestr("a", "b")
    assert [path.suffix for path in places.uploads.iterdir()] == [".zip"]
    with pytest.raises(ValueError, match="no"), store.packing(places):
        raise ValueError("no")
    assert len(list(places.uploads.iterdir())) == 1

    async def take(chunks, most):
        async def stream():
            for chunk in chunks:
                yield chunk

        async with store.received(stream(), places, "t.csv", most) as part:
            assert part.parent == places.uploads
            return part.read_bytes()

    assert asyncio.run(take([b"ab", b"c"], 3)) == b"abc"
    told = []
    for chunks, most in (([b"ab", b"c"], 2), ([], 9)):
        with pytest.raises(kw.InputError) as caught:
            asyncio.run(take(chunks, most))
        told.append(str(caught.value))
    assert told == ["t.csv is larger than the limit of 2 bytes.", "t.csv is empty."]
    assert len(list(places.uploads.iterdir())) == 1
    recorded("answers", answers)


def test_a_run_is_described_as_it_goes(tmp_path, clock):
    db = Store(tmp_path / "studio.sqlite")
    db.add_run(RUNS[0], "a", {**REQUEST, "method": "rls2", "files": {"gram": ["k"]}})
    db.move(RUNS[0], ("queued",), "running", started=clock[0], pid=3)
    db.progress(RUNS[0], 2, 10, "x")
    clock[0] += 4
    one = store.describe_run(db.run(RUNS[0]), [], [])
    assert (one.seconds_left, one.method, one.cancelling, one.marks, one.metrics) == (
        16.0,
        "rls2",
        False,
        Marks(),
        [],
    )
    assert (one.request.spec.method, one.done, one.total, one.step, one.summary) == ("lp", 2, 10, "x", None)
    db.cancel(RUNS[0])
    assert store.describe_run(db.run(RUNS[0]), [], []).cancelling
    db.finish(RUNS[0], "cancelled", "", {"other": 1})
    one = store.describe_run(db.run(RUNS[0]), [], [])
    assert (one.cancelling, one.seconds_left, one.summary, one.finished) == (False, None, None, clock[0])
    db.add_run(RUNS[1], "b", REQUEST)
    assert store.describe_run(db.run(RUNS[1]), [], []).method == "lp"
    db.close()


# ---- processes --------------------------------------------------------------------------------------


class Child:
    """A process that is only asked whether it goes."""

    def __init__(self, pid=4242):
        self.pid, self.ended, self.polled = pid, None, 0

    def poll(self):
        self.polled += 1
        return self.ended


@pytest.fixture
def supervised(tmp_path, monkeypatch, clock):
    """A queue whose processes are only told of."""
    places = Places(tmp_path)
    db = Store(places.database)
    seen = SimpleNamespace(started=[], sent=[], alive=set(), children=[])

    def start(task, *given, log, threads):
        seen.started.append([task, *map(str, given), log, threads])
        seen.children.append(Child(5000 + len(seen.children)))
        return seen.children[-1]

    monkeypatch.setattr(jobs, "start", start)
    monkeypatch.setattr(jobs, "is_alive", lambda pid, began: pid in seen.alive)
    monkeypatch.setattr(jobs.os, "kill", lambda pid, number: seen.sent.append((pid, number)))
    monkeypatch.setattr(jobs.psutil, "Process", lambda pid: SimpleNamespace(create_time=lambda: pid + 0.5))
    monkeypatch.setattr(jobs, "PROCESSORS", 8)
    seen.queue, seen.store, seen.places = Queue(db, places, at_once=2, grace=10.0), db, places
    yield seen
    db.close()


def test_a_queue_starts_runs_in_order_and_notes_how_they_end(supervised, clock):
    queue, db, places = supervised.queue, supervised.store, supervised.places
    ids = []
    for name in "abcd":
        clock[0] += 1
        ids.append(queue.add(name, REQUEST, f"key {name}"))
    assert queue.add("a", REQUEST, "key a") == ids[0]
    assert len(list(places.runs.iterdir())) == 4
    assert oct(places.run(ids[0]).stat().st_mode & 0o777) == "0o700"
    assert [one.text for one in db.read(Event, ids[0])] == ["Waiting in the queue."]
    begun = clock[0] = clock[0] + 5
    queue.look()
    states = [row["state"] for row in db.runs()]
    assert states == ["starting", "starting", "queued", "queued"]
    assert supervised.started == [
        ["run", str(places.root), one, places.run(one) / jobs.LOG, 4] for one in ids[:2]
    ]
    row = db.run(ids[1])
    assert (row["pid"], row["pid_started"], row["started"]) == (5001, 5001.5, begun)
    queue.look()
    assert len(supervised.started) == 2
    # one ends without a word, and its last output is the reason
    db.move(ids[0], ("starting",), "running")
    (places.run(ids[0]) / jobs.LOG).write_text("first\nKilled by hand\n\n")
    supervised.children[0].ended = 1
    queue.look()
    row = db.run(ids[0])
    assert (row["state"], row["reason"]) == (
        "failed",
        "The process ended without a result: killed, out of memory, or the machine was switched off. Its last output: "
        "Killed by hand",
    )
    assert [one[2] for one in supervised.started] == ids[:3]
    # those of an earlier server are known by their number
    other = Queue(db, places, at_once=2, grace=10.0)
    supervised.alive = {5001}
    other.look()
    assert db.run(ids[1])["state"] == "starting"
    # that of the third is gone without a log
    row = db.run(ids[2])
    assert (row["state"], row["reason"].endswith("switched off.")) == ("failed", True)
    assert db.run(ids[3])["state"] == "starting"
    # a run that ends by itself is not noted again
    db.finish(ids[1], "done", "by itself")
    supervised.alive = set()
    other.look()
    assert db.run(ids[1])["reason"] == "by itself"
    with pytest.raises(kw.InputError, match=r"^This run has ended already\.$"):
        queue.cancel(ids[1])
    with pytest.raises(kw.InputError, match=r"^This run has not ended\. Stop it first\.$"):
        Queue(db, places).delete(queue.add("e", REQUEST))
    queue.delete(ids[1])
    assert not places.run(ids[1]).exists()
    assert answer(db.run, ids[1]).startswith("error: There is no run")


def test_a_run_that_was_asked_to_stop(supervised, clock):
    queue, db, places = supervised.queue, supervised.store, supervised.places
    waiting = queue.add("w", REQUEST)
    queue.cancel(waiting)
    row = db.run(waiting)
    assert (row["state"], row["reason"], row["finished"]) == (
        "cancelled",
        "Stopped before it began.",
        clock[0],
    )
    assert [one.text for one in db.read(Event, waiting)] == ["Waiting in the queue.", "Asked to stop."]
    run = queue.add("a", REQUEST)
    queue.look()
    asked = clock[0]
    queue.cancel(run)
    pid = db.run(run)["pid"]
    sent = supervised.sent
    for later, expected in (
        (9.9, []),
        (10.0, [15]),
        (14.9, [15]),
        (15.0, [15, 9]),
        (19.0, [15, 9]),
        (20.1, [15, 9, 9]),
    ):
        clock[0] = asked + later
        queue.look()
        assert sent == [(pid, number) for number in expected], later
    # while it writes what it has, it is left alone
    mark = places.run(run) / store.SAVING
    mark.touch()
    os.utime(mark, (asked + 20, asked + 20))
    for later, count in ((199.0, 3), (200.0, 4)):
        clock[0] = asked + later
        queue.look()
        assert len(sent) == count, later
    supervised.children[0].ended = -9
    queue.look()
    assert (db.run(run)["state"], db.run(run)["reason"]) == ("cancelled", "Stopped; nothing could be kept.")
    assert db.read(Artifact, run) == []
    # one whose model is there keeps it
    other = queue.add("b", REQUEST)
    queue.look()
    queue.cancel(other)
    (places.run(other) / store.MODEL).write_text("model")
    supervised.children[1].ended = 0
    queue.look()
    assert (db.run(other)["state"], db.run(other)["reason"]) == ("cancelled", store.KEPT)
    assert db.read(Artifact, other) == [Artifact(name=store.MODEL, kind="model", size=5)]


def test_a_run_whose_start_is_lost_is_noted(supervised, clock):
    queue, db = supervised.queue, supervised.store
    run = queue.add("a", REQUEST)
    db.move(run, ("queued",), "starting", started=clock[0])
    for later, state in ((jobs.LOST - 0.1, "starting"), (jobs.LOST, "failed")):
        db_time = db.run(run)["started"]
        clock[0] = db_time + later
        queue.look()
        assert db.run(run)["state"] == state


def test_a_process_is_started_by_itself_and_without_secrets(tmp_path, monkeypatch):
    seen = {}

    def opened(command, **given):
        seen.update(given, command=command)
        given["stdout"].write(b"more\n")
        return "child"

    monkeypatch.setenv("KERNELWEAVE_STUDIO_TOKEN", "secret")
    for name in jobs.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(jobs.subprocess, "Popen", opened)
    log = tmp_path / "log.txt"
    log.write_text("first\n")
    assert jobs.start("run", tmp_path, 7, log=log, threads=2) == "child"
    assert log.read_text() == "first\nmore\n"
    assert seen["command"] == [*jobs.WORKER, "run", str(tmp_path), "7"]
    assert jobs.WORKER[1:] == ("-P", "-m", "kernelweave_app.studio.worker")
    assert (seen["stdin"], seen["stderr"], seen["cwd"], seen["start_new_session"]) == (
        subprocess.DEVNULL, subprocess.STDOUT, tmp_path, True,
    )  # fmt: skip
    env = seen["env"]
    assert (env["OMP_NUM_THREADS"], env["OPENBLAS_NUM_THREADS"], env["MPLBACKEND"]) == ("3", "2", "Agg")
    assert "KERNELWEAVE_STUDIO_TOKEN" not in env
    assert jobs._environment(0)["MKL_NUM_THREADS"] == "1"


def test_an_answer_of_a_process_is_its_last_line(monkeypatch):
    seen = {}

    def ran(out):
        def run(command, **given):
            seen.update(given, command=command)
            if isinstance(out, Exception):
                raise out
            return SimpleNamespace(stdout=out)

        monkeypatch.setattr(jobs.subprocess, "run", run)
        return answer(jobs.wait_for, "measure", {"a": 1}, 3, 7.5, "Too late.", "It failed")

    assert ran('warning\n{"b": 2}\n') == {"b": 2}
    assert seen["command"] == [*jobs.WORKER, "measure"]
    assert (seen["input"], seen["timeout"], seen["text"], seen["capture_output"]) == (
        '{"a": 1}',
        7.5,
        True,
        True,
    )
    assert seen["env"]["OPENBLAS_NUM_THREADS"] in ("3", os.environ.get("OPENBLAS_NUM_THREADS"))
    assert ran('{"problem": "wrong"}') == "error: wrong"
    assert ran(subprocess.TimeoutExpired("x", 1)) == "error: Too late."
    assert ran("") == "error: It failed: list index out of range."
    assert ran("no json").startswith("error: It failed: Expecting value")
    assert ran(OSError("gone")) == "error: It failed: gone."
    expected = {"seconds": 2.0, "low": 1.0, "high": 3.0, "memory": 7, "sure": "Sure."}
    given = []
    monkeypatch.setattr(jobs, "wait_for", lambda *args: given.append(args) or expected)
    monkeypatch.setattr(jobs, "PROCESSORS", 8)
    spec = Spec(target="y")
    assert jobs.measure(spec, {"t": "t.csv"}, 2).model_dump() == expected
    [(task, asked, threads, patience, late, failed)] = given
    assert (task, threads, patience, failed) == (
        "measure",
        4,
        jobs.MOST_SECONDS,
        "The time could not be measured",
    )
    assert asked == {"spec": spec.model_dump(), "paths": {"t": "t.csv"}}
    assert late.startswith("A fit on few of these rows takes more than 90 s already: expect hours.")


def test_logs_and_processes_are_looked_at(tmp_path, monkeypatch):
    log = tmp_path / "log.txt"
    assert jobs.read_log(log) == ""
    log.write_bytes(b"0123456789\xff")
    assert jobs.read_log(log) == "0123456789\ufffd"
    assert jobs.read_log(log, 3) == "89\ufffd"
    log.write_text("x" * 400 + "\n \n")
    assert jobs._last_words(log).endswith(f"Its last output: {'x' * 300}")
    own = psutil.Process(os.getpid()).create_time()
    assert jobs.own_start() == own
    assert [jobs.is_alive(os.getpid(), began) for began in (own, own + 0.9, own - 1.1, own + 1.1, None)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert not jobs.is_alive(None, own)

    class Dead:
        def __init__(self, pid):
            if pid == 1:
                raise psutil.NoSuchProcess(pid)

        def create_time(self):
            return 5.0

        def status(self):
            return psutil.STATUS_ZOMBIE

    monkeypatch.setattr(jobs.psutil, "Process", Dead)
    assert [jobs.is_alive(pid, 5.0) for pid in (1, 2)] == [False, False]


def test_a_queue_watches_until_it_is_stopped(supervised, capsys):
    queue, looks = supervised.queue, []

    def look():
        looks.append(1)
        if len(looks) < 3:
            raise kw.InputError("it is full")
        if len(looks) < 5:
            raise ValueError("odd")
        if len(looks) == 6:
            queue._over.set()

    queue.look = look
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "EVERY", 0.001)
        queue.start()
        queue._thread.join(timeout=5)
    assert len(looks) == 6
    assert (
        capsys.readouterr().err
        == "kernelweave studio: it is full\nkernelweave studio: the queue had an error: ValueError('odd')\n"
    )
    queue.stop()
    assert (queue._over.is_set(), queue._wake.is_set(), queue._thread.daemon, queue._thread.name) == (
        True,
        True,
        True,
        "studio-queue",
    )


@pytest.fixture
def proven(supervised):
    """A run that has ended, with two findings."""
    supervised.store.add_run(RUNS[0], "a", REQUEST)
    supervised.store.finish(RUNS[0], "done")
    folder = supervised.places.run(RUNS[0])
    folder.mkdir()
    supervised.folder, supervised.desk = folder, EvidenceDesk(supervised.store, supervised.places)
    write_evidence(folder, {"weights": Finding(meaning="W.", n=3), "stability": Finding(meaning="S.", n=3)})
    return supervised


def test_evidence_is_begun_told_and_stopped(proven, clock, monkeypatch):
    desk, folder = proven.desk, proven.folder
    monkeypatch.setattr(jobs, "possible", lambda found: ["stability", "permutation"])
    usual = jobs.repeated()["stability"].usual
    begun = desk.start(RUNS[0], "stability", refit=False, max_false=0.5)
    assert (begun.kinds, begun.figures) == (["stability", "permutation"], ["stability"])
    assert begun.numbers.keys() == {"weights", "stability"}
    status = json.loads((folder / "evidence" / "stability.json").read_text())
    assert status == {
        "count": usual, "refit": False, "max_false": 0.5, "state": "starting", "done": 0, "total": usual,
        "created": clock[0],
    }  # fmt: skip
    log = folder / "evidence" / "log.txt"
    assert proven.started == [["evidence", str(proven.places.root), RUNS[0], "stability", log, 7]]
    desk.start(RUNS[0], "stability")
    assert len(proven.started) == 1
    desk.start(RUNS[0], "permutation", 7)
    assert json.loads((folder / "evidence" / "permutation.json").read_text())["count"] == 7
    proven.alive = {77}
    clock[0] += 5
    jobs.write_status(
        folder, "stability", pid=77, pid_started=1.0, state="running", begun=clock[0], done=2, total=8
    )
    clock[0] += 6
    found = desk.read(RUNS[0]).progress
    assert list(found) == [kind for kind in jobs.repeated() if kind in found]
    assert found["stability"].model_dump() == {
        "state": "running", "done": 2, "total": 8, "seconds_left": 18.0, "stopping": False, "reason": "",
    }  # fmt: skip
    assert desk.stop(RUNS[0], "stability").progress["stability"].stopping
    assert (folder / "evidence" / "stability.stop").exists()
    proven.alive = set()
    ended = desk.status(RUNS[0])["stability"]
    assert (ended["state"], ended["reason"], ended["stopping"]) == (
        "failed",
        "The process ended without a result.",
        False,
    )
    # what was asked for and has no process yet lives for a minute
    for later, state in ((jobs.LOST - 11.1, "starting"), (jobs.LOST - 10.9, "failed")):
        clock[0] = status["created"] + 11 + later
        assert desk.status(RUNS[0])["permutation"]["state"] == state
    assert answer(desk.stop, RUNS[0], "learning curve") == "error: Nothing of this kind is being computed."
    jobs.write_status(folder, "permutation", state="done")
    assert answer(desk.stop, RUNS[0], "permutation") == "error: Nothing of this kind is being computed."
    # begun again, what was asked of the last one is forgotten
    jobs.write_status(folder, "permutation", pid=3, reason="x")
    jobs.stop_file(folder, "permutation").touch()
    desk.start(RUNS[0], "permutation")
    again = json.loads((folder / "evidence" / "permutation.json").read_text())
    assert "reason" not in again
    assert not jobs.stop_file(folder, "permutation").exists()
    assert answer(desk.start, RUNS[0], "baselines").startswith(
        "error: Evidence of this run must be of stability, permutation, got 'baselines'"
    )
    assert (
        answer(desk.start, RUNS[0], "stability", 10**9)
        == f"error: The number must be from 1 to {jobs.MOST_REPEATED}, got 1000000000."
    )
    (folder / "evidence.json").unlink()
    assert answer(desk.start, RUNS[0], "stability") == (
        "error: This run was written by an older version: it has no evidence to add to. Run it again."
    )
    assert desk.read(RUNS[0]).kinds == []
    proven.store.add_run(RUNS[1], "b", REQUEST)
    assert answer(desk.read, RUNS[1]) == "error: This run has no results yet."
    assert jobs.read_status(folder / "gone.json") == {}
    (folder / "list.json").write_text("[1]")
    assert jobs.read_status(folder / "list.json") == {}
    others = proven.places.run(RUNS[2])
    (others / "evidence").mkdir(parents=True)
    for k, (pid, state, created) in enumerate(
        (
            (11, "running", 5),
            (12, "done", 5),
            (13, "waiting", 9),
            (os.getpid(), "running", 1),
            (15, "starting", 9.5),
        )
    ):
        told = {"pid": pid, "pid_started": 1.0, "state": state, "created": created}
        (others / "evidence" / f"k{k}.json").write_text(json.dumps(told))
    (others / "evidence" / "k9.json").write_text('{"state": "running", "created": 1}')
    proven.alive = {11, 12, 13, 15, os.getpid()}
    assert sorted(jobs.other_pids(proven.places, 9.5)) == [11, 13]
    proven.alive = {13}
    assert jobs.other_pids(proven.places, 9.5) == [13]


def test_figures_and_tables_of_evidence_are_files(proven, monkeypatch):
    desk, folder, given = proven.desk, proven.folder, []
    monkeypatch.setattr(jobs, "wait_for", lambda *args: given.append(args) or {"file": "weights-85mm.pdf"})
    assert desk.figure(RUNS[0], "weights", 85.0, "pdf") == folder / "printed" / "weights-85mm.pdf"
    [(task, asked, threads, patience, late, failed)] = given
    assert (task, threads, patience) == ("print", 1, jobs.PATIENCE)
    assert asked == {"folder": str(folder), "name": "weights", "width": 85.0, "kind": "pdf"}
    assert late.startswith("The figure took too long to draw.")
    assert failed == "This figure could not be drawn"
    wrong = answer(desk.figure, RUNS[0], "weight", 85.0, "pdf")
    assert wrong.startswith(
        "error: A figure must be one of weights, relevance, contributions, path, choice, roc, precision,"
    )
    table = SimpleNamespace(name="t", frame=lambda: pd.DataFrame({"a": ["=1"]}), latex=lambda: "tex")
    monkeypatch.setattr(jobs, "tables_of", lambda found: [table])
    assert (desk.table(RUNS[0], "t", "csv"), desk.table(RUNS[0], "t", "tex")) == ("a\n'=1\n", "tex")
    assert answer(desk.table, RUNS[0], "u", "csv") == f"error: Run {RUNS[0]} has no file 'u'."


# ---- the worker -------------------------------------------------------------------------------------


class Noted:
    """A store that notes what it is told."""

    def __init__(self, cancelled=False, full=False):
        self.told, self.cancelled, self.full = [], cancelled, full

    def write(self, run, *records):
        if self.full:
            raise DiskFull("full")
        self.told.append(("write", run, records))

    def progress(self, run, done, total, step):
        if self.full:
            raise DiskFull("full")
        self.told.append((done, total, step))
        return self.cancelled

    def is_cancelled(self, run):
        return self.cancelled


def a_step(problem, weights, alpha=2.0):
    step = PathStep("fold 1 of 2")
    step.label, step.problem, step.alpha, step.weights, step.rel_gap = (
        "fold 1 of 2",
        problem,
        alpha,
        weights,
        1e-9,
    )
    return step


def test_progress_in_full(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    noted, heard = Noted(), []
    progress = worker.Progress(noted, "run", 3, ["u", "v"], lambda: heard.append(1))
    assert progress.report(a_step(1, [[0.0, 3.0, 1.0]])) is False
    [(what, run, [point]), last] = noted.told
    assert (what, run, last) == ("write", "run", (1, 3, "fold 1 of 2"))
    assert point.model_dump() == {
        "number": 0, "stage": "fold 1 of 2", "output": "v", "alpha": 2.0, "rel_gap": 1e-9, "n_active": 2,
        "weights": {1: 0.75, 2: 0.25},
    }  # fmt: skip
    # until some time has passed nothing is written
    noted.told.clear()
    for _ in range(3):
        progress.report("step")
    assert (noted.told, progress.done, progress.total) == ([], 4, 4)
    now[0] += worker.EVERY + 0.001
    progress.stage, progress.draws = "nested", False
    progress.report(a_step(0, [1.0]))
    assert noted.told == [(5, 5, "nested: fold 1 of 2")]
    progress.draws = True
    progress.report(a_step(5, [1.0]))
    noted.full = True
    progress.flush("x")
    assert len(progress._points) == 1
    noted.full, noted.cancelled = False, True
    noted.told.clear()
    assert heard == []
    progress.flush("y")
    assert (heard, progress.stopped, progress._points) == ([1], True, [])
    assert noted.told[0][2][0].output == "problem 6"
    noted.cancelled = False
    progress.flush("z")
    assert (progress.stopped, heard) == (True, [1])
    progress.total = 40
    progress.end("writing")
    assert noted.told[-1] == (40, 40, "writing")
    progress.total = None
    progress.end("late")
    assert noted.told[-1] == (40, None, "late")
    assert progress.on_fit_task_end(None, SimpleNamespace(parent=None, task_name="a")) is False
    assert progress.done == 40
    assert progress.on_fit_task_end(None, SimpleNamespace(parent=1, task_name="a")) is True
    assert progress.done == 41
    progress.teardown(None, None)
    assert noted.told[-1][2] == ""
    many = worker.Progress(noted, "run", None)
    found = many._point(a_step(0, np.arange(1.0, 41.0)))
    assert (found.n_active, list(found.weights)) == (40, list(range(39, 9, -1)))
    assert found.weights[39] == pytest.approx(40 / 820, abs=1e-6)
    assert many._point(a_step(0, [[1.0, 3.0], [1.0, 1.0]])).weights == {1: 0.625, 0: 0.375}
    import copy

    assert copy.deepcopy(many) is many


def test_a_signal_stops_but_not_what_is_written(tmp_path):
    stopping = worker.Stopping(tmp_path)
    saving = tmp_path / store.SAVING
    with stopping.hold():
        assert saving.exists()
    assert not saving.exists()

    def interrupted():
        with stopping.hold():
            stopping(signal.SIGTERM)
            assert (stopping.late, stopping.heard) == (True, True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert saving.exists()
    assert (stopping.late, stopping.held) == (False, False)
    with pytest.raises(KeyboardInterrupt):
        stopping()
    gone = worker.Stopping(tmp_path / "gone")
    gone.saves()
    assert gone.heard


@pytest.mark.parametrize(
    ("error", "code", "state", "reason"),
    [
        (None, 0, "running", ""),
        (KeyboardInterrupt(), 0, "cancelled", "Stopped before a model was complete; nothing could be kept."),
        (kw.InputError("It is wrong."), 1, "failed", "It is wrong."),
        (MemoryError(), 1, "failed", "Out of memory. Use fewer rows or kernels, or a smaller max_memory."),
        (ValueError(), 1, "failed", "ValueError: no reason given"),
        (ValueError("odd"), 1, "failed", "ValueError: odd"),
    ],
)
def test_how_a_run_ends_is_its_exit_code(error, code, state, reason, tmp_path, monkeypatch, capsys):
    places = Places(tmp_path)
    db = Store(places.database)
    db.add_run(RUNS[0], "a", REQUEST)
    places.run(RUNS[0]).mkdir()
    made, handlers = [], []

    class Job:
        def __init__(self, *given):
            made.append(given)

        def do(self):
            if error is not None:
                raise error

    monkeypatch.setattr(worker, "Job", Job)
    monkeypatch.setattr(worker.faulthandler, "enable", lambda: None)
    monkeypatch.setattr(worker.signal, "signal", lambda *given: handlers.append(given))
    assert worker.execute_run(str(tmp_path), RUNS[0]) == 1
    assert capsys.readouterr().out == f"Run {RUNS[0]} is not in the queue.\n"
    assert (made, db.run(RUNS[0])["state"]) == ([], "queued")
    db.move(RUNS[0], ("queued",), "starting")
    assert worker.execute_run(str(tmp_path), RUNS[0]) == code
    row = db.run(RUNS[0])
    assert (row["state"], row["reason"], row["pid"]) == (state, reason, os.getpid())
    assert row["pid_started"] == psutil.Process().create_time()
    assert [one.text for one in db.read(Event, RUNS[0])] == [f"Started as process {os.getpid()}."]
    [(_, _, run, stopping)] = made
    assert run == RUNS[0]
    assert handlers == [(signal.SIGTERM, stopping)]
    assert stopping.folder == places.run(RUNS[0])
    db.close()


def test_a_stopped_run_keeps_what_it_recorded(tmp_path, monkeypatch, capsys):
    places = Places(tmp_path)
    db = Store(places.database)
    db.add_run(RUNS[0], "a", REQUEST)
    db.move(RUNS[0], ("queued",), "starting")
    places.run(RUNS[0]).mkdir()

    class Job:
        def __init__(self, places, store, run, stopping):
            self.store = store

        def do(self):
            self.store.write(RUNS[0], Artifact(name="m", kind="model", size=1))
            raise KeyboardInterrupt

    monkeypatch.setattr(worker, "Job", Job)
    monkeypatch.setattr(worker.faulthandler, "enable", lambda: None)
    monkeypatch.setattr(worker.signal, "signal", lambda *given: None)
    assert worker.execute_run(str(tmp_path), RUNS[0]) == 0
    assert (db.run(RUNS[0])["state"], db.run(RUNS[0])["reason"]) == ("cancelled", store.KEPT)
    full = OSError(errno.ENOSPC, "No space")
    assert worker._why(full, places) == store.describe_full(places.root)

    def refuse(*given):
        raise DiskFull("nothing can be written")

    worker._finish(SimpleNamespace(finish=refuse), RUNS[0], "failed", "why")
    assert capsys.readouterr().out.endswith("nothing can be written\n")
    db.close()


def test_steps_of_a_run_are_counted():
    plain = Spec(method="rls2", alphas="6", cv=4)
    assert worker.count_steps(plain, 3, "classification") == 3 * 6 * 5 + 6 * 3
    assert (
        worker.count_steps(plain.model_copy(update={"nested": 2}), 12, "classification")
        == 12 * 6 * 5 * 3 + 6 * 10
    )
    assert worker.count_steps(plain, 1, "regression") == 6 * 5 + 6
    assert worker.count_steps(Spec(time="t", event="e", Cs="0.5", cv=3), 1, "survival") == 1 * 1 * 7 + 1


@pytest.mark.parametrize(
    ("ends", "code", "state", "reason"),
    [
        ("done", 0, "done", ""),
        ("heard", 0, "done", "Stopped; what was done is kept."),
        ("stopped", 0, "cancelled", "Stopped before anything was done."),
        ("interrupt", 0, "cancelled", "Stopped before anything was done."),
        ("error", 1, "failed", "It is wrong."),
        ("deleted", 1, None, None),
    ],
)
def test_how_evidence_ends(ends, code, state, reason, tmp_path, monkeypatch):
    places = Places(tmp_path)
    folder = places.run(RUNS[0])
    (folder / "evidence").mkdir(parents=True)
    jobs.write_status(folder, "stability", created=5.0, state="starting")
    others = [[9], []]
    slept, handlers = [], []
    monkeypatch.setattr(worker, "other_pids", lambda places, since: others.pop(0) if since == 5.0 else [])
    monkeypatch.setattr(worker.time, "sleep", slept.append)
    monkeypatch.setattr(worker.signal, "signal", lambda *given: handlers.append(given))

    def do(job):
        now = job.asked()
        assert (now["state"], now["pid"]) == ("running", os.getpid())
        assert now["begun"] > 0
        if ends == "heard":
            job.heard = True
        elif ends == "interrupt":
            raise KeyboardInterrupt
        elif ends == "deleted":
            import shutil

            shutil.rmtree(folder)
            raise OSError("gone")
        elif ends == "error":
            raise kw.InputError("It is wrong.")

    monkeypatch.setattr(worker.Proving, "do", do)
    if ends == "stopped":
        jobs.stop_file(folder, "stability").touch()
    assert worker.compute_evidence(str(tmp_path), RUNS[0], "stability") == code
    assert handlers == [(signal.SIGTERM, signal.default_int_handler)]
    assert slept == ([] if ends == "stopped" else [worker.EVERY_PROOF])
    if state is None:
        assert not folder.exists()
        return
    found = jobs.read_status(jobs.status_file(folder, "stability"))
    assert (found["state"], found["reason"], found["pid"]) == (state, reason, os.getpid())
    assert not jobs.stop_file(folder, "stability").exists()


def test_evidence_tells_its_steps_and_hears_a_stop(tmp_path, monkeypatch):
    places = Places(tmp_path)
    folder = places.run(RUNS[0])
    (folder / "evidence").mkdir(parents=True)
    now = [50.0]
    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    job = worker.Proving(places, RUNS[0], "learning curve")
    assert job.report("fit 1 of 40") is False
    assert job.asked() == {"done": 1, "text": "fit 1 of 40", "total": 40}
    assert (folder / "evidence" / "learning-curve.json").exists()
    job.report("fit 2 of 40")
    assert job.asked()["done"] == 1
    now[0] += worker.EVERY_PROOF + 0.01
    job.report("another")
    assert job.asked() == {"done": 3, "text": "another", "total": 40}
    jobs.stop_file(folder, "learning curve").touch()
    assert job.report("x") is True
    jobs.stop_file(folder, "learning curve").unlink()
    assert job.stopped() is True
    other = worker.Proving(places, RUNS[1], "stability")
    assert other.stopped() is True


def test_a_task_is_done_or_answered(monkeypatch, capsys):
    monkeypatch.setattr(worker, "load_extensions", lambda: None)
    monkeypatch.setitem(worker.TASKS, "run", lambda *given: len(given) + 5)
    assert worker.main("run", "a", "b") == 7

    def refused(**given):
        raise (kw.InputError if given["which"] else OSError)("no")

    for given, task, wanted in (
        ({"a": 2}, lambda a: {"b": a}, {"b": 2}),
        ({"which": 1}, refused, {"problem": "no"}),
        ({"which": 0}, refused, {"problem": "no"}),
    ):
        monkeypatch.setitem(worker.ANSWERS, "measure", task)
        monkeypatch.setattr(worker.sys, "stdin", io.StringIO(json.dumps(given)))
        assert worker.main("measure") == 0
        assert json.loads(capsys.readouterr().out) == wanted


class Told(SimpleNamespace):
    """A model, a table and what else a run passes on."""

    def __bool__(self):
        return True


@pytest.mark.parametrize(
    ("given", "stop", "outer", "paths"),
    [
        ({}, False, 0, 1),
        ({"nested": 2}, False, 1, 1),
        ({"target": "", "time": "t", "event": "e"}, False, 1, 1),
        ({"nested": 2, "probabilities": "platt"}, True, 0, 0),
        ({"nested": 2}, "later", 1, 1),
        ({"probabilities": "platt"}, False, 0, 1),
    ],
)
def test_the_steps_of_a_run_get_what_belongs_to_them(given, stop, outer, paths, tmp_path, monkeypatch):
    """Every step is another function, which is told of here with its arguments."""
    import kernelweave.persistence
    from kernelweave_app.runs import columns, evidence, fitting, nested, writing
    from kernelweave_app.studio import results

    places = Places(tmp_path)
    db = Store(places.database)
    db.add_run(RUNS[0], "my run", REQUEST)
    db.move(RUNS[0], ("queued",), "running")
    places.run(RUNS[0]).mkdir()
    spec, seen = Spec(**{"target": "y", "method": "rls2", "alphas": "2", "cv": 2, **given}), {}
    train, test = np.array([0, 1, 2, 4]), np.array([3, 5])
    y = np.array(["u", "v", "w", "u", "v", "w"])
    X = pd.DataFrame({"a": np.arange(6.0)})
    prepared = Told(task="classification", reason="why", division=None, X=X, y=y, names=())
    prepared.task = "survival" if spec.survival else "classification"
    run = a_whole_run(spec, prepared, train, test)
    model = Told(n_kernels_=3, rel_gap_=1e-9, status_="converged", kernels=None)
    monkeypatch.setattr(worker, "read_asked", lambda *asked: run)
    monkeypatch.setattr(columns, "describe", lambda table: "a table")
    monkeypatch.setattr(fitting, "make_model", lambda *asked: seen.update(make=asked) or model)

    def fit(*asked):
        seen["fit"] = asked
        asked[3].stopped = stop is True

    def note(name, answered):
        return lambda *asked, **more: seen.setdefault(name, []).append((asked, more)) or answered

    monkeypatch.setattr(fitting, "fit_model", fit)
    monkeypatch.setattr(fitting, "calibrate_model", note("calibrate", None))

    def outer_folds(*asked):
        asked[3].stopped = stop == "later"
        return note("nested", [])(*asked)

    monkeypatch.setattr(nested, "nested_predictions", outer_folds)
    monkeypatch.setattr(writing, "score_held", note("held", "held"))
    monkeypatch.setattr(writing, "write_run", note("run", None))
    monkeypatch.setattr(writing, "write_report", note("report", None))
    monkeypatch.setattr(evidence, "gather", note("gather", "evidence"))
    told = Told(
        method="rls2", weights=Told(names=["a", "b"]), certificate=Told(regularization="alpha = 2"),
        model_dump_json=lambda: '{"told": 1}',
    )  # fmt: skip
    monkeypatch.setattr(results, "describe_model", note("results", told))
    monkeypatch.setattr(
        kernelweave.persistence,
        "save",
        lambda model, path, training_rows: path.write_text(str(training_rows)),
    )
    for name in ("_note_kernels", "_keep_scores", "_keep", "_list_files"):
        monkeypatch.setattr(worker.Job, name, note(name, None))
    monkeypatch.setattr(worker.Job, "_paths", note("paths", ["path"]))
    monkeypatch.setattr(worker.Job, "_pictures", note("pictures", ["picture"]))
    monkeypatch.setattr(worker.Job, "_portable", staticmethod(lambda spec, paths: "portable"))
    worker.Job(places, db, RUNS[0], worker.Stopping(places.run(RUNS[0]))).do()
    assert seen["make"] == (spec, prepared, test)
    fitted, table, rows_in, progress = seen["fit"]
    assert (fitted, table, rows_in is train) == (model, prepared, True)
    assert progress.outputs == ((), ("u", "v", "w"))[not spec.survival]
    assert progress.draws == (not outer)
    assert len(seen.get("paths", ())) == paths
    assert len(seen.get("nested", ())) == outer
    if outer:
        [((own, what, rows_of, steps, report), _)] = seen["nested"]
        assert (own, what, rows_of is train, steps) == (spec, prepared, True, progress)
        assert report("x") is bool(stop)
        assert [asked[1:] for asked, _ in seen["_keep"]] == [
            ([[]][:0], "out of fold" if spec.survival else "nested")
        ]
    assert len(seen.get("calibrate", ())) == (spec.probabilities != "none" and not stop)
    assert seen["held"] == [((model, prepared, test), {})]
    [((folder, portable, *rest), _)] = seen["run"]
    assert (folder, portable.spec, rest) == (places.run(RUNS[0]), "portable", [model, "held"])
    [((*gathered,), _)] = seen["gather"]
    assert gathered == [model, spec, prepared, (train, test), "held", []]
    [((_, _, *rest), more)] = seen["report"]
    assert (rest, more) == ([model, "held", "evidence"], {"title": "my run", "pictures": ["picture"]})
    [((*described,), _)] = seen["results"]
    remark = ["Stopped before probabilities were learnt."] if stop is True else []
    assert described == [model, spec, prepared, (train, test), "held", ["path"] * paths, remark]
    assert (places.run(RUNS[0]) / "results.json").read_text() == '{"told": 1}'
    assert (places.run(RUNS[0]) / "model.skops").read_text() == "True"
    row = db.run(RUNS[0])
    reason = "Stopped on request; what was finished is kept." if stop else ""
    assert (row["state"], row["reason"]) == ("cancelled" if stop else "done", reason)
    summary = json.loads(row["summary"])
    assert summary.pop("seconds") >= summary.pop("fit_seconds") >= 0
    assert summary == {
        "task": prepared.task, "method": "rls2", "n_kernels": 3, "n_active": 2, "regularization": "alpha = 2",
        "rel_gap": 1e-9, "status": "converged", "n_training": 4, "n_held": 2,
    }  # fmt: skip
    texts = [one.text for one in db.read(Event, RUNS[0])]
    assert texts[:2] == [f"Read a table. {prepared.task}: why.", "4 rows to learn from, 2 held out."]
    assert texts.count("The model is written.") == 1 + (spec.probabilities != "none" and not stop)
    assert (texts[-1] == "Finished.") == (not stop)
    db.close()


def a_whole_run(spec, prepared, train, test):
    from kernelweave_app.runs.reading import Run

    return Run(spec, {"t": "/x/t.csv"}, Told(table="table"), prepared, train, test, Told())


def test_a_run_tells_what_it_does_also_on_a_full_disk(tmp_path, capsys):
    def full(*given):
        raise DiskFull("full")

    job = worker.Job(Places(tmp_path), SimpleNamespace(add_event=full), RUNS[0], None)
    job._tell("It goes on.")
    assert capsys.readouterr().out == "It goes on.\n"
    told = []
    job.store.add_event = lambda *given: told.append(given)
    job._remark([SimpleNamespace(message=text) for text in ("a", "b", "a")])
    assert (job.remarks, told) == (["a", "b"], [(RUNS[0], "a"), (RUNS[0], "b")])


def test_settings_for_a_command_line_name_further_tables(tmp_path):
    from scipy import sparse

    table, words = tmp_path / "t.csv", tmp_path / "w.npz"
    table.write_text("a,b\n1,2\n")
    sparse.save_npz(words, sparse.csr_array(np.eye(3)))
    for paths, join, dense in (
        ([table], [], False),
        ([words], [], True),
        ([words, table], [str(table)], False),
        ([table, words], [str(words)], False),
    ):
        found = worker.Job._portable(Spec(target="y", dense=True), {path.name: str(path) for path in paths})
        assert (found.join, found.dense, found.target) == (join, dense, "y")


def test_classes_with_a_problem_of_their_own():
    outputs = worker.Job._outputs
    y = np.array(["b", "a", "b", "c"])
    assert outputs(Told(task="classification", y=y), np.arange(4)) == ["a", "b", "c"]
    assert outputs(Told(task="classification", y=y), np.arange(3)) == []
    assert outputs(Told(task="regression", y=np.arange(4.0)), np.arange(4)) == []


def test_paths_of_a_run_are_kept_until_one_is_broken_off(tmp_path, monkeypatch):
    """Of classes the first ones have a path each; the report has the first of them."""
    import kernelweave.inspection

    job, asked, seen = worker.Job(Places(tmp_path), Noted(), RUNS[0], None), [], []
    job.folder.mkdir()
    progress = SimpleNamespace(stopped=False, report="report", stage="all rows", output="")
    ends = {}

    def path(model, *, output, report):
        asked.append((output, progress.stage, progress.output, report))
        if output in ends:
            raise ends[output]
        progress.stopped = output == "k4"
        return f"path {output}"

    monkeypatch.setattr(kernelweave.inspection, "regularization_path", path)
    monkeypatch.setattr("kernelweave_app.studio.results.is_deep", lambda model: False)
    number = SimpleNamespace(weights_=np.ones(3))
    assert job._paths(number, progress) == ["path None"]
    classes = SimpleNamespace(weights_=np.ones((12, 3)), classes_=np.array([f"c{k:02d}" for k in range(12)]))
    assert job._paths(classes, progress) == [f"path c{k:02d}" for k in range(worker.MOST_PATHS)]
    assert asked[:2] == [(None, "", "", "report"), ("c00", "class c00", "c00", "report")]
    assert (progress.stage, progress.output) == ("", "")
    for end, left in ((KeyboardInterrupt(), []), (ValueError("odd"), ["There is no path: odd"])):
        ends["c02"] = end
        assert (job._paths(classes, progress), job.remarks) == (["path c00", "path c01"], left)
    classes.classes_ = np.array(["k3", "k4", "k5"])
    assert job._paths(classes, progress) == ["path k3", "path k4"]
    monkeypatch.setattr(
        "kernelweave_app.reports.draw_pictures", lambda *given, **more: seen.append((given, more)) or []
    )
    for found in (["path k3", "path k4"], []):
        job._pictures("model", "held", "X", found)
    assert seen == [
        (("model", "held", "X", "path k3"), {"with_path": True}), (("model", "held", "X", None), {"with_path": False}),
    ]  # fmt: skip
    # the time to write begins anew for a run that was asked to stop in either way
    for heard, cancelled, renewed in ((False, False, 0), (True, False, 1), (False, True, 1)):
        saves = []
        job.stopping = SimpleNamespace(heard=heard, saves=lambda saves=saves: saves.append(1))
        job.store.cancelled = cancelled
        job._renew()
        assert len(saves) == renewed


def test_evidence_is_added_to_what_is_there(tmp_path, monkeypatch):
    import kernelweave.persistence
    from kernelweave_app.runs import lineage, writing

    places = Places(tmp_path)
    db = Store(places.database)
    db.add_run(RUNS[0], "a", REQUEST)
    folder = places.run(RUNS[0])
    (folder / "evidence").mkdir(parents=True)
    write_evidence(folder, {"weights": Finding(meaning="W.", n=3)})
    jobs.write_status(folder, "stability", count=7, refit=False, max_false=0.5, created=1.0)
    seen = []
    run = Told(spec="spec", prepared="prepared", train="train", test="test")
    monkeypatch.setattr(lineage, "read_lineage", lambda where: ("origin", where))
    monkeypatch.setattr(worker, "read_asked", lambda db, run_id, origin: seen.append((run_id, origin)) or run)
    monkeypatch.setattr(kernelweave.persistence, "load", lambda path: ("model", path))
    monkeypatch.setattr(writing, "score_held", lambda *asked: ("held", asked))
    monkeypatch.setattr(worker, "basis_of", lambda *asked, **more: seen.append((asked, more)) or "basis")
    monkeypatch.setattr(
        worker, "compute", lambda kind, basis: seen.append((kind, basis)) or Finding(meaning="S.", n=4)
    )
    job = worker.Proving(places, RUNS[0], "stability")
    job.done = 9
    job.do()
    model = ("model", folder / "model.skops")
    assert seen[0] == (RUNS[0], ("origin", folder))
    held = ("held", (model, "prepared", "test"))
    assert seen[1] == (
        (model, "spec", "prepared", ("train", "test"), held),
        {"report": job.report, "count": 7, "refit": False, "max_false": 0.5},
    )
    assert seen[2] == ("stability", "basis")
    found = json.loads((folder / "evidence.json").read_text())
    assert {name: one["meaning"] for name, one in found.items()} == {"weights": "W.", "stability": "S."}
    [artifact] = db.read(Artifact, RUNS[0])
    assert artifact == Artifact(
        name="evidence.json", kind="results", size=(folder / "evidence.json").stat().st_size
    )
    assert job.asked()["done"] == 9
    db.close()


def test_figures_are_drawn_from_results(tmp_path, monkeypatch):
    from kernelweave import plots
    from kernelweave.persistence import load  # noqa: F401
    from kernelweave_app.reports import figures

    seen = []

    class Display:
        def __init__(self, *given):
            seen.append(given)

        def plot(self):
            return SimpleNamespace(figure_="figure")

    monkeypatch.setattr(plots, "KernelContributionsDisplay", Display)
    monkeypatch.setattr(plots, "RegularizationPathDisplay", Display)
    monkeypatch.setattr(figures, "draw_findings", lambda found, name: [])
    layer = {"names": [], "outputs": [], "values": []}
    parts = {
        "rows": ["r", "s"], "kernels": ["a", "none", "b"], "outputs": ["u", "v"], "intercepts": [0.0, 0.0],
        "held": True,
        "values": [[[1.0, 2.0, 0.0], [3.0, 2.0, 9.0]], [[0.0, 2.0, 1.0], [1.0, 2.0, 1.0]]],
    }  # fmt: skip
    path = {
        "output": "", "alphas": [4.0, 2.0], "parameter": "C", "df": [1.0, None], "n_active": [1, 2], "names": ["a"],
        "weights": [[0.5], [0.25]], "chosen": 1,
    }  # fmt: skip
    told = {
        "task": "regression", "target": "y", "method": "rls2", "estimator": "E", "weights": {**layer, "views": {}},
        "curve": None, "paths": [path], "contributions": parts, "held": None, "convergence": [], "remarks": [],
        "certificate": {
            "objective": 1.0, "gap": 0.0, "rel_gap": 0.0, "status": "", "n_iter": 1, "held_as": "",
            "regularization": "", "citation": "",
        },
    }  # fmt: skip
    (tmp_path / "results.json").write_text(json.dumps(told))
    picture = worker.draw_figure(tmp_path, "contributions")
    assert (picture.name, picture.figure) == ("contributions", "figure")
    names, sizes, outputs = seen[0]
    # the spread over the rows, of the kernels that have one, the largest first
    assert (names, list(outputs)) == (["b", "a"], ["u", "v"])
    np.testing.assert_allclose(sizes, [[4.5, 0.0], [1.0, 0.5]])
    told["contributions"] |= {"outputs": [""], "values": parts["values"][:1]}
    (tmp_path / "results.json").write_text(json.dumps(told))
    worker.draw_figure(tmp_path, "contributions")
    np.testing.assert_allclose(seen[1][1], [4.5, 1.0])
    assert seen[1][2] == ("",)
    worker.draw_figure(tmp_path, "path")
    alphas, df, weights, names, chosen, label, parameter = seen[2]
    assert (alphas.tolist(), df[0], np.isnan(df[1]), weights.tolist()) == (
        [4.0, 2.0],
        1.0,
        True,
        [[0.5], [0.25]],
    )
    assert (names, chosen, label, parameter) == (["a"], 1, "kernel weight (fraction)", "C")
    monkeypatch.setattr("kernelweave.persistence.load", lambda path: ("model", path))
    drawn = []
    monkeypatch.setattr(
        "kernelweave_app.reports.draw_pictures", lambda *asked, **more: drawn.append((asked, more)) or []
    )
    with pytest.raises(
        kw.InputError, match=r"^This figure could not be drawn: this run has no figure confusion\.$"
    ):
        worker.draw_figure(tmp_path, "confusion")
    assert drawn == [((("model", tmp_path / "model.skops"), None), {"with_path": False, "only": "confusion"})]
    told |= {"task": "classification", "held": {"scores": {}, "columns": [], "rows": []}}
    (tmp_path / "results.json").write_text(json.dumps(told))
    monkeypatch.setattr(worker, "_read_held", lambda folder, model, task: (folder, task))
    with pytest.raises(kw.InputError):
        worker.draw_figure(tmp_path, "confusion")
    (_, held), more = drawn[1]
    assert (held, more["only"]) == ((tmp_path, "classification"), "held-out")
    monkeypatch.setattr(figures, "draw_findings", lambda found, name: [f"finding {name}"])
    assert worker.draw_figure(tmp_path, "stability") == "finding stability"
    from kernelweave_app.reports import printing

    def write(draw, out, width, kinds):
        assert (draw(), width, kinds) == (["finding stability"], 85.0, ("pdf",))
        (out / "x.pdf").write_text("drawn")
        return ["x.pdf"]

    monkeypatch.setattr(printing, "write_figures", write)
    assert worker.print_figure(str(tmp_path), "stability", 85.0, "pdf") == {"file": "stability-85mm.pdf"}
    assert (tmp_path / "printed" / "stability-85mm.pdf").read_text() == "drawn"


def test_held_out_rows_are_read_as_they_were_written(tmp_path, monkeypatch):
    from kernelweave.inspection.held import HeldOut

    seen = []
    monkeypatch.setattr(HeldOut, "of_columns", classmethod(lambda kind, *given: seen.append(given)))
    (tmp_path / "predictions.csv").write_text("row,truth,prediction\n3,1,NA\n5,NA,2\n")
    monkeypatch.setattr(worker, "target_names", lambda model: ())
    worker._read_held(tmp_path, "model", "classification")
    assert (seen[0][0], seen[0][1]["prediction"].tolist(), seen[0][2].tolist()) == (
        "model",
        ["NA", "2"],
        ["1", "NA"],
    )
    worker._read_held(tmp_path, "model", "regression")
    np.testing.assert_array_equal(seen[1][2], [1.0, np.nan])
    (tmp_path / "predictions.csv").write_text("row,truth b,truth a\n3,1,0\n5,0,0\n")
    monkeypatch.setattr(worker, "target_names", lambda model: ("a", "b"))
    worker._read_held(tmp_path, "model", "classification")
    assert seen[2][2].tolist() == [[0, 1], [0, 0]]


def test_scores_of_a_run_are_kept_with_their_intervals(tmp_path, monkeypatch):
    noted = Noted()
    job = worker.Job(Places(tmp_path), noted, RUNS[0], None)
    one = SimpleNamespace(cells=(0.5, 0.25, None), n=7)
    lost = SimpleNamespace(cells=(None, None, None), n=7)
    monkeypatch.setattr(worker, "intervals_of", lambda *held: {"r2": one, "recall of a": one, "auc": lost})
    model = SimpleNamespace(
        cv_results_={"score_name": "accuracy", "test_score": np.array([0.5, 0.75])}, best_index_=0,
        model_=SimpleNamespace(task=SimpleNamespace(source=SimpleNamespace(n_samples=31))),
    )  # fmt: skip
    job._keep_scores(model, SimpleNamespace(scores={"r2": 0.5, "auc": 1.0}))
    assert [record for _, _, (record,) in noted.told] == [
        Metric(name="r2, held out", value=0.5, low=0.25, high=None, n=7),
        Metric(name=f"accuracy, {worker.not_an_estimate('alpha or C')}", value=0.5, n=31),
    ]
    noted.told.clear()
    monkeypatch.setattr(worker, "intervals_of", lambda *held: {})
    job._keep_scores(SimpleNamespace(), None)
    assert noted.told == []


# ---- tables -----------------------------------------------------------------------------------------


def test_tables_stay_in_memory_until_they_change(tmp_path, monkeypatch):
    places = Places(tmp_path)
    tables = Catalogue(places, Limits())
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text(f"{name},y\n" + "1,2\n" * 50)
    first, second, third = (file_id(f"{name}.csv") for name in "abc")
    one = tables.read(first)
    assert list(one) == ["a", "y"]
    assert tables.read(first) is one
    size = catalogue.memory_of(one)
    assert size == 50 * 16
    monkeypatch.setattr(catalogue, "KEPT_BYTES", 2 * size)
    tables.read(second)
    assert tables.read(first) is one
    tables.read(third)
    # the second was not asked for the longest
    assert [key[0].name for key in tables._kept] == ["a.csv", "c.csv"]
    monkeypatch.setattr(catalogue, "KEPT_BYTES", 1)
    tables.read(second)
    assert [key[0].name for key in tables._kept] == ["b.csv"]
    (tmp_path / "b.csv").write_text("b,y\n1,2\n3,4\n")
    assert len(tables.read(second)) == 2
    assert len(tables._kept) == 1
    seen = []
    data = Data(tables=[first], key="k")
    for given in (data, data, Data(tables=[first]), data):
        tables.answer(given, "q", lambda: seen.append(1) or len(seen))
    assert len(seen) == 2
    assert tables.of_file(tmp_path / "a.csv", "q", lambda: "x") == "x"
    assert tables.of_file(tmp_path / "a.csv", "q", lambda: "z") == "x"
    monkeypatch.setattr(catalogue, "MOST_ANSWERS", 2)
    tables.answer(data, "r", lambda: 1)
    assert len(tables._answers) == 2
    assert (
        answer(tables.entry, "file-0")
        == "error: There is no table 'file-0'. It may have been removed from the data folder."
    )
    ref = tables.entry(first).ref
    assert (ref.name, ref.source, ref.size, ref.uses, ref.about) == (
        "a.csv",
        "data folder",
        204,
        ["table"],
        "",
    )
    tables.notes[tmp_path / "a.csv"] = "note"
    assert tables.entry(first).ref.about == "note"
    wine = tables.entry("set-wine")
    assert (wine.ref.source, wine.ref.size, wine.ref.target, wine.ref.about) == (
        "built-in",
        None,
        "target",
        catalogue.SHIPPED["wine"][1],
    )
    assert wine.path() == places.sets / "wine.csv"
    assert tables.entry("set-wine").ref.size == wine.path().stat().st_size
    checked = []
    monkeypatch.setattr(
        catalogue, "check_file", lambda path, name, limits: checked.append((path, name, limits))
    )
    assert tables.read("set-wine").shape == (178, 14)
    assert checked == []
    tables._kept.clear()
    tables.read(first)
    assert checked == [(tmp_path / "a.csv", "a.csv", tables.limits)]
    monkeypatch.undo()
    assert tables.entries()["set-iris"].ref.about == catalogue.SHIPPED["iris"][1]
    inside = tables.inside(places.inside("a" * 12))
    assert (inside._kept is tables._kept, inside.places.files.name) == (True, "a" * 12)
    tables.limits = Limits(cells=104)
    assert list(tables.tables(Data(tables=[first, second]))) == ["a", "b"]
    tables.limits = Limits(cells=103)
    assert (
        answer(tables.tables, Data(tables=[first, second]))
        == "error: Together the tables have more than 103 cells."
    )
    assert answer(tables.tables, Data(tables=[], sparse=[first])).startswith(
        "error: Choose the table with the target:"
    )
    mixed = pd.DataFrame(
        {"n": np.arange(3), "f": np.arange(3.0), "t": pd.Series(["u", "vv", None], dtype=object)}
    )
    assert catalogue.memory_of(mixed) == 3 * 16 + mixed[["t"]].memory_usage(index=False, deep=True).sum()
    limited = Data(tables=[first, first], sparse=[second, second], kernels=[third])
    assert tables.further(limited) == {"view": [f"b={tmp_path / 'b.csv'}"], "gram": [str(tmp_path / "c.csv")]}
    assert tables.names(Data(tables=[first, second])) == ["a", "b"]
    assert tables.names(Data(tables=[], kernels=[third])) == ["c"]
    assert tables.width(first) == 0
    np.save(tmp_path / "K.npy", np.ones((3, 4)))
    assert tables.width(file_id("K.npy")) == 4


def test_uploads_are_checked_and_named(tmp_path, recorded):
    answers = {}
    places = Places(tmp_path)

    async def send(name, content, limits):
        async def stream():
            yield content

        return await catalogue.receive_table(name, stream(), places, limits)

    def sent(name, content, limits=None):
        return answer(asyncio.run, send(name, content, limits or Limits()))

    first = sent("t.csv", b"a,b\n1,2\n")
    assert first.model_dump() == {
        "id": file_id("t.csv"), "name": "t.csv", "source": "data folder", "size": 8, "uses": ["table"], "about": "",
        "target": "",
    }  # fmt: skip
    assert sent("t.csv", b"a,b\n3,4\n").name == "t-2.csv"
    assert oct((tmp_path / "t-2.csv").stat().st_mode & 0o777) == "0o600"
    western = sent("w.csv", "nöte,größe;x\n1,2;3\n".encode("latin-1"))
    answers["western"] = western.about
    assert (tmp_path / "w.csv").read_text("utf8").startswith("nöte,größe")
    late = sent(
        "l.csv",
        ("a,b\nx,the first words of a long cell end in th\xe9 and go on for long\n").encode("latin-1"),
    )
    answers["late"] = late.about
    odd = sent("o.tsv", b"a\tb\n\x81\xe4\t2\n")
    answers["latin"] = odd.about
    told = [
        sent("x.csv", b"a,b\n1,2,3\n4\n"),
        sent("../x.csv", b"a"),
        sent("x.npy", b"abc"),
        sent("x.csv", b"a\x00\xff,b\n1,2\n"),
    ]
    told += [
        sent("big.csv", b"a,b\n1,2\n", Limits(upload=7)),
        sent("wide.csv", b"a,b\n1,2\n", Limits(columns=1)),
    ]
    answers["refused"] = [text if isinstance(text, str) else text.name for text in told]
    assert list(places.uploads.iterdir()) == []
    gone = places.inside("a" * 12)
    part = places.uploads / "p.part"
    part.write_bytes(b"a,b\n1,2\n")
    assert (
        answer(catalogue.take_in, part, "t.csv", gone, Limits())
        == "error: There is no project for this table any more. It may have been deleted."
    )
    assert list(places.uploads.iterdir()) == []
    recorded("answers", answers)


# ---- projects ---------------------------------------------------------------------------------------


def ended(studio, run_id, made, project="first", **more):
    """Record a run that has ended, with files."""
    db = studio.store.inside(project)
    db.add_run(run_id, "my run", {**REQUEST, **more})
    folder = studio.places.run(run_id)
    folder.mkdir(exist_ok=True)
    for name, text in made.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        db.write(run_id, Artifact(name=name, kind="x", size=len(text)))
    db.finish(run_id, "done", "", None)
    return folder


def test_projects_are_made_named_copied_and_deleted(studio, recorded):
    answers = {}
    all_projects = Projects(studio)
    names = [
        "",
        " ",
        "x" * 81,
        "x" * 80,
        "ü" * 80,
        "\U0001f600" * 80,
        "\U0001f600" * 81,
        "a\nb",
        "a\u202eb",
        "../",
        " a  b ",
        "e\u0301",
    ]
    answers["names"] = [ascii(answer(projects.check_name, name))[:70] for name in names]
    one = all_projects.make("Mine")
    assert (one.name, one.n_tables, one.n_runs, one.size) == ("Mine", 0, 0, 0)
    assert Path(one.folder) == studio.places.project(one.id)
    assert oct(Path(one.folder).stat().st_mode & 0o777) == "0o700"
    assert all_projects.make("Mine").name == "Mine 2"
    assert all_projects.rename(one.id, "New name").name == "New name"
    assert [project.name for project in all_projects.all()][1:] == ["New name", "Mine 2"]
    assert all_projects.called("New name").id == all_projects.called(one.id).id == one.id
    assert answer(all_projects.called, "gone").startswith(
        "error: There is no project 'gone'. Projects are 'data', 'New name', 'Mine 2'."
    )
    assert (
        answer(all_projects.one, "f" * 12)
        == "error: There is no project 'ffffffffffff'. It may have been deleted."
    )
    table = Path(one.folder) / "t.csv"
    table.write_text("a,b\n1,2\n")
    inside = studio.inside(one.id)
    inside.set_draft(Draft(name="draft"))
    script = f"read('{one.folder}/t.csv')"
    folder = ended(
        studio,
        RUNS[0],
        {"script.py": script, "report.html": script, "figures/a.svg": "x"},
        one.id,
        paths={"t": str(table)},
    )
    (folder / "..hidden").write_text("x")
    (folder / "link.txt").symlink_to(table)
    inside.store.write(RUNS[0], Marks(pinned=True, tags=["u"]), Metric(name="r2", value=0.5))
    inside.store.write(RUNS[0], Artifact(name="gone.csv", kind="x", size=1))
    inside.store.add_run(RUNS[1], "waits", REQUEST)
    copy = all_projects.duplicate(one.id, "Copy")
    assert (copy.name, copy.n_tables, copy.n_runs, copy.size) == ("Copy", 1, 1, 8)
    there = studio.inside(copy.id)
    assert there.draft().name == "draft"
    [run] = there.runs()
    assert (run.name, run.state, run.marks.tags, [m.value for m in run.metrics]) == (
        "my run",
        "done",
        ["u"],
        [0.5],
    )
    assert json.loads(there.store.run(run.id)["request"])["paths"] == {"t": f"{copy.folder}/t.csv"}
    new = studio.places.run(run.id)
    assert {str(path.relative_to(new)) for path in new.rglob("*") if path.is_file()} == {
        "script.py",
        "report.html",
        "figures/a.svg",
    }
    assert (new / "script.py").read_text() == f"read('{copy.folder}/t.csv')"
    assert (new / "report.html").read_text() == script
    assert {one.name for one in there.artifacts(run.id)} == {"script.py", "report.html", "figures/a.svg"}
    bare = all_projects.duplicate(one.id, runs=False)
    assert (bare.name, bare.n_runs, bare.n_tables) == ("New name 2", 0, 1)
    assert answer(all_projects.delete, one.id) == "error: 1 of its runs has not ended. Stop them first."
    studio.store.finish(RUNS[1], "done")
    all_projects.delete(one.id)
    assert not folder.exists()
    assert not Path(one.folder).exists()
    files = projects.describe_files(there)
    assert len(files) == 1
    told = files[0].model_dump()
    assert told.pop("since") == pytest.approx((Path(copy.folder) / "t.csv").stat().st_mtime)
    assert told.pop("checksum") == projects.checksum(Path(copy.folder) / "t.csv")
    answers["file"] = told
    (Path(copy.folder) / "bad.csv").write_bytes(b"a\x00b")
    np.save(Path(copy.folder) / "K.npy", np.eye(2))
    answers["files"] = [
        [f.name, f.n_rows, f.n_columns, f.n_runs, bool(f.problem)] for f in projects.describe_files(there)
    ]
    recorded("answers", answers)


def test_a_project_comes_back_from_its_file(studio, recorded):
    answers = {}
    all_projects = Projects(studio)
    one = all_projects.make("Mine")
    (Path(one.folder) / "t.csv").write_text("a,b\n1,2\n")
    inside = studio.inside(one.id)
    inside.set_draft(Draft(name="draft"))
    ended(
        studio,
        RUNS[0],
        {"script.py": "x", "kernels.json": '["Linear"]'},
        one.id,
        paths={"t": f"{one.folder}/t.csv", "wine": str(studio.places.sets / "wine.csv")},
        method="rls2",
    )
    packed = projects.pack(studio, one.id)
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
        index = json.loads(archive.read("project.json"))
        kinds = {info.filename: info.compress_type for info in archive.infolist()}
    assert sorted(names) == sorted(
        ["tables/t.csv", f"runs/{RUNS[0]}/kernels.json", f"runs/{RUNS[0]}/script.py", "project.json"]
    )
    assert set(kinds.values()) == {zipfile.ZIP_DEFLATED}
    assert (index["format"], index["version"], index["name"], index["folder"]) == (
        "kernelweave project",
        1,
        "Mine",
        one.folder,
    )
    assert index["runs"][0]["paths"] == {"t": "tables/t.csv", "wine": "sets/wine.csv"}
    assert index["runs"][0]["record"]["method"] == "rls2"
    assert index["checksums"]["tables/t.csv"] == projects.checksum(Path(one.folder) / "t.csv")
    again = projects.unpack(studio, packed)
    assert (again.name, again.n_tables, again.n_runs) == ("Mine 2", 1, 1)
    back = studio.inside(again.id)
    assert (back.draft().name, back.runs()[0].method) == ("draft", "rls2")
    request = json.loads(back.store.run(back.runs()[0].id)["request"])
    assert request["paths"] == {"t": f"{again.folder}/t.csv", "wine": str(studio.places.sets / "wine.csv")}
    assert oct((Path(again.folder) / "t.csv").stat().st_mode & 0o777) == "0o600"
    packed.unlink()

    def changed(limits=None, **members):
        path = studio.places.uploads / "x.zip"
        whole = {
            "tables/t.csv": "a,b\n1,2\n",
            "project.json": json.dumps({"format": "kernelweave project", "version": 1, "name": "N"}),
        }
        whole |= {name.replace("__", "/"): text for name, text in members.items()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in whole.items():
                if text is not None:
                    archive.writestr(name, text)
        own = service.changed(studio, limits=limits) if limits else studio
        found = answer(projects.unpack, own, path)
        path.unlink()
        assert list(studio.places.uploads.iterdir()) == []
        return found if isinstance(found, str) else found.name

    index = {"format": "kernelweave project", "version": 1, "name": "N"}
    cases = {
        "fine": {},
        "odd name": {"project.json": json.dumps({**index, "name": "\u202e"})},
        "no index": {"project.json": None},
        "twice": {"TABLES/T.csv": "a"},
        "stranger": {"more.txt": "x"},
        "bad name": {"tables/.x.csv": "x"},
        "version": {"project.json": json.dumps({**index, "version": 2})},
        "nested": {"project.json": json.dumps({**index, "runs": [{"id": "x"}]})},
        "checksum": {"project.json": json.dumps({**index, "checksums": {"tables/t.csv": "0"}})},
        "lost": {"project.json": json.dumps({**index, "checksums": {"tables/u.csv": "0"}})},
        "lost run": {f"runs/{RUNS[0]}/script.py": "x"},
        "bad text": {f"runs/{RUNS[0]}/script.py": "\x00"},
        "other kind": {f"runs/{RUNS[0]}/a.exe": "x"},
        "bad kernels": {f"runs/{RUNS[0]}/kernels.json": "[3]"},
        "folder": {"tables/": ""},
        "bad table": {"tables/u.npy": "x"},
    }
    for name, members in cases.items():
        # what pydantic says is its own
        answers[name] = re.sub(r"(of a project: [\w.]+): .*", r"\1", changed(**members))
    answers["too large"] = changed(Limits(upload=7))
    answers["too much"] = changed(Limits(upload=10), **{f"tables/{k}.csv": "a,b\n1,2\n" for k in range(9)})
    path = studio.places.uploads / "x.zip"
    path.write_text("no archive")
    answers["no archive"] = answer(projects.unpack, studio, path)
    path.unlink()
    recorded("answers", answers)


def test_a_project_may_be_as_large_as_ten_tables(studio, monkeypatch):
    monkeypatch.setattr(projects, "unpack", lambda studio, path: (studio, path.read_bytes()))
    small = service.changed(studio, limits=Limits(upload=5))

    async def send(count):
        async def stream():
            yield b"x" * count

        return await projects.receive_project(small, stream())

    assert asyncio.run(send(50)) == (small, b"x" * 50)
    with pytest.raises(kw.InputError, match=r"^The file is larger than the limit of 50 bytes\.$"):
        asyncio.run(send(51))


def test_files_of_a_project_are_replaced(studio):
    root = studio.places.root
    for name in ("t.csv", "t-2.csv", "u.csv", "t-x.csv"):
        (root / name).write_text(f"{name}\n1\n")
    ids = {name: file_id(name) for name in ("t.csv", "t-2.csv", "u.csv", "t-x.csv")}
    assert projects.replace_file(studio, ids["t.csv"], ids["t.csv"]) == ids["t.csv"]
    assert projects.replace_file(studio, ids["t.csv"], ids["t-2.csv"]) == ids["t.csv"]
    assert (root / "t.csv").read_text().startswith("t-2.csv")
    assert not (root / "t-2.csv").exists()
    assert projects.replace_file(studio, ids["t.csv"], ids["t-x.csv"]) == ids["t-x.csv"]
    assert not (root / "t.csv").exists()
    with pytest.raises(kw.InputError, match="Only files of the project can be replaced"):
        projects.replace_file(studio, "set-wine", ids["u.csv"])
    with pytest.raises(kw.InputError, match=r"^Built-in sets cannot be removed\.$"):
        studio.remove_table("set-wine")
    studio.remove_table(ids["u.csv"])
    assert not (root / "u.csv").exists()


# ---- runs by the service ----------------------------------------------------------------------------


def test_runs_are_queued_listed_marked_and_read(studio, monkeypatch):
    frame = a_table().round(4)
    frame.to_csv(studio.places.root / "one.csv", index=False)
    data = Data(tables=[file_id("one.csv")])
    spec = Spec(target="y", drop="z,class,p,q,count,days,died,w,g")
    run = studio.add_run(RunRequest(data=data, spec=spec), "again")
    assert (run.name, run.state, run.method) == ("one: y by rls2", "queued", "rls2")
    assert studio.add_run(RunRequest(data=data, spec=spec), "again").id == run.id
    named = studio.add_run(RunRequest(name=" mine ", data=data, spec=spec))
    assert named.name == "mine"
    record = json.loads(studio.store.run(run.id)["request"])
    assert record["paths"] == {"one": str(studio.places.root / "one.csv")}
    assert (record["files"], record["method"], record["spec"]) == (
        {"view": [], "gram": []},
        "rls2",
        spec.model_dump(),
    )
    assert [one.name for one in studio.runs()] == ["mine", "one: y by rls2"]
    marked = studio.mark(run.id, Marks(note="n"))
    assert marked.marks.note == "n"
    assert studio.change_marks(run.id, pinned=True).marks.model_dump() == {
        "pinned": True,
        "note": "n",
        "tags": [],
    }
    assert studio.cancel(named.id).state == "cancelled"
    first = studio.runs()[0]
    assert studio.runs()[0] is first
    studio.store.write(named.id, Metric(name="r2", value=0.5))
    assert [m.value for m in studio.runs()[0].metrics] == [0.5]
    folder = studio.places.run(run.id)
    assert answer(studio.results, run.id) == "error: This run has no results yet."
    (folder / "log.txt").write_text("output")
    log = studio.log(run.id)
    assert ([event.text for event in log.events], log.text) == (["Waiting in the queue."], "output")
    assert studio.points(run.id).model_dump() == {"kernels": [], "points": [], "parameter": "alpha"}
    (folder / "kernels.json").write_text('["Linear"]')
    studio.store.write(
        run.id, *(PathPoint(stage="s", alpha=a, rel_gap=0.0, n_active=1, weights={}) for a in (3.0, 2.0))
    )
    assert studio.points(run.id).kernels == ["Linear"]
    assert [point.alpha for point in studio.points(run.id, 1).points] == [2.0]
    assert answer(studio.artifact, run.id, "spec.toml") == f"error: Run {run.id} has no file 'spec.toml'."
    studio.store.write(run.id, Artifact(name="spec.toml", kind="settings", size=1))
    assert studio.artifact(run.id, "spec.toml") == folder / "spec.toml"
    assert (
        studio.command(run.id)
        == f"kernelweave fit {studio.places.root / 'one.csv'} --spec {folder / 'spec.toml'} --out again"
    )
    assert studio.lineage(run.id) is None
    studio.store.finish(run.id, "done")
    (folder / "results.json").write_text("{}")
    assert answer(studio.results, run.id).startswith(
        "error: The results of this run were written by another version of kernelweave."
    )
    compared = studio.compare([run.id, named.id, run.id])
    assert [one.id for one in compared.runs] == [run.id, named.id]
    assert compared.curves == [None, None]
    studio.delete(named.id)
    assert [one.id for one in studio.runs()] == [run.id]
    assert not studio.places.run(named.id).exists()
    assert (
        answer(studio.export_to_mlflow, run.id)
        == "error: This studio has no MLflow folder. Start it with --mlflow FOLDER."
    )
    assert studio.draft() == Draft()
    assert studio.change_draft(lambda draft: draft.model_copy(update={"name": "d"})).name == "d"
    assert studio.draft().name == "d"
    studio.store.set_draft("current", {"nothing": 1})
    assert studio.draft() == Draft()
    given = []
    monkeypatch.setattr(service, "measure", lambda *args: given.append(args) or "expected")
    assert studio.estimate(data, spec) == "expected"
    [(asked, paths, at_once)] = given
    assert (paths, at_once, asked.view, asked.gram) == (
        {"one": str(studio.places.root / "one.csv")},
        1,
        [],
        [],
    )
    with pytest.raises(kw.InputError, match="There is no project"):
        studio.inside("f" * 12)
    assert studio.inside("").store.project == "first"
    # of one table the key is a setting, of several it belongs to them
    keyed, one, two = Spec(key="s"), data.tables[0], [data.tables[0], "set-wine"]
    for given, wanted in (
        (Data(tables=[one], key="k"), ("s", "shared")),
        (Data(tables=two, key="k"), ("k", "shared")),
        (Data(tables=[one], kernels=["file-k"], key="k"), ("k", "shared")),
        (Data(tables=two, key="k", by_order=True), ("", "order")),
        (Data(tables=[one], by_order=True), ("s", "shared")),
    ):
        found = studio.confined(given, keyed)
        assert (found.key, found.rows) == wanted


def test_predictions_get_the_training_rows_of_an_unchanged_run(studio, monkeypatch):
    a_table().round(4).to_csv(studio.places.root / "one.csv", index=False)
    data = Data(tables=[file_id("one.csv")])
    spec = Spec(target="y", drop="z,class,p,q,count,days,died,w,g", test_size=0.5)
    run = studio.add_run(RunRequest(data=data, spec=spec))
    folder = studio.places.run(run.id)
    (folder / "model.skops").write_text("m")
    studio.store.write(run.id, Artifact(name="model.skops", kind="model", size=1))
    assert studio._training_rows(run.id, spec) is None
    table = studio.places.root / "one.csv"
    Lineage([Source("one", str(table), projects.checksum(table), 1)], {}, 0, "c").write(folder)
    seen = []

    def predict(*given):
        seen.append(given)
        path = folder / "predictions-x.csv"
        path.write_text("abc")
        return "predicted", path

    monkeypatch.setattr(service, "predict_table", predict)
    assert studio.predict(run.id, data, [1.0]) == "predicted"
    [(model, own, where, tables, given, training, times)] = seen
    assert (model, where, tables, given, times) == (
        folder / "model.skops",
        folder,
        studio.catalogue,
        data,
        [1.0],
    )
    assert own == spec
    assert (list(training), len(training)) == (["a", "b", "site"], 15)
    assert Artifact(name="predictions-x.csv", kind="predictions", size=3) in studio.artifacts(run.id)
    table.write_text(table.read_text() + "\n")
    assert studio._training_rows(run.id, spec) is None


def test_the_folder_of_a_run_names_its_own_tables(studio):
    root = studio.places.root
    (root / "t.csv").write_text("t")
    (root / "more").mkdir()
    (root / "more" / "t.csv").write_text("other")
    (root / "more" / "t.csv.gz").write_text("packed")
    (root / "t.csv.gz").write_text("longer")
    outside = root.parent / "k.npz"
    outside.write_text("outside")
    (root / "w.npz").write_text("w")
    folder = studio.places.run(RUNS[0])
    text = f"read('{root}/t.csv'); read('{root}/more/t.csv'); read('{root}/t.csv.gz'); save('{folder}/x')"
    paths = dict(
        zip(
            "tumw", (f"{root}/{n}" for n in ("t.csv", "more/t.csv", "more/t.csv.gz", "t.csv.gz")), strict=True
        )
    )
    files = {"gram": [str(outside)], "view": [f"words={root / 'w.npz'}#X"]}
    ended(
        studio,
        RUNS[0],
        {"script.py": text, "note.bin": text},
        paths=paths,
        files=files,
    )
    assert (
        answer(pack_run, studio, RUNS[0])
        == "error: This run has no model, so that a folder of it would not run elsewhere."
    )
    (folder / "model.skops").write_text("m")
    studio.store.write(RUNS[0], Artifact(name="model.skops", kind="model", size=1))
    with zipfile.ZipFile(pack_run(studio, RUNS[0])) as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    assert found.pop("README.txt").startswith("my run\n\n    python script.py")
    assert found == {
        "data/t.csv": "t",
        "data/2-t.csv": "other",
        "data/t.csv.gz": "packed",
        "data/2-t.csv.gz": "longer",
        "data/w.npz": "w",
        "script.py": "read('data/t.csv'); read('data/2-t.csv'); read('data/2-t.csv.gz'); save('x')",
        "note.bin": text,
        "model.skops": "m",
    }


def test_scores_settings_and_tags_go_to_mlflow(tmp_path, recorded):
    answers = {}
    spec = Spec(target="y", method="lp", learner_params={"p": 1.5}, types={"a": "number"}, drop=[], views={})
    from kernelweave_app.studio.schema import Run

    summary = dict.fromkeys(("n_kernels", "n_training", "n_held"), 3) | {"task": "regression", "method": "lp"}
    summary |= {
        "n_active": 2,
        "regularization": "C = 1",
        "rel_gap": 1e-7,
        "status": "converged",
        "seconds": 1.5,
    }
    run = Run(
        id=RUNS[0], name="a", state="done", created=1.0, started=2.0, finished=3.0, cancelling=False, done=1, total=1,
        step="", reason="", request=RunRequest(data=Data(tables=["set-wine"]), spec=spec), summary=summary, method="lp",
        metrics=[Metric(name="R^2, held out", value=0.5, low=0.25)], marks=Marks(note="n", tags=["u"]),
    )  # fmt: skip
    answers["scores"] = mlflow_export._scores(run)
    answers["scores of a failed one"] = mlflow_export._scores(run.model_copy(update={"summary": None}))
    answers["settings"] = mlflow_export._params(run)
    lineage = Lineage([Source("t", "/x/t.csv", "ab", 3)], {"numpy": "2"}, 0, "kernelweave fit")
    answers["tags"] = [mlflow_export._tags(run, lineage), mlflow_export._tags(run, None)]
    assert mlflow_export._key("R^2, a/b (x)") == "R 2 a/b x"
    assert len(mlflow_export._key("x" * 300)) == 250
    recorded("answers", answers)


# ---- what is taken ----------------------------------------------------------------------------------


def test_files_of_runs_are_what_their_names_say(tmp_path, recorded):
    answers = {}

    def model(**members):
        path = tmp_path / "m"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name.replace("__", "/"), content)
        return path.read_bytes()

    inner = io.BytesIO()
    np.save(inner, np.arange(3.0))
    array = inner.getvalue()
    cases = {
        "a.txt": b"text \xc3\xa4\n",
        "b.txt": b"\x00",
        "c.txt": b"\xff",
        "d.json": b"{}",
        "e.json": b"{",
        "f.html": b"{",
        "g.pdf": b"%PDF-1.7",
        "h.pdf": b"x%PDF-",
        "i.png": b"\x89PNG\r\n\x1a\n...",
        "j.exe": b"x",
        "k.skops": model(**{"schema.json": "{}", "a.npy": array}),
        "l.skops": b"PK",
        "m.skops": model(**{"schema.json": "{}", "a.pkl": "x"}),
        "n.skops": model(**{"../schema.json": "{}"}),
        "o.skops": model(**{"/schema.json": "{}"}),
        "p.skops": model(**{"foreign.skops": model(**{"schema.json": "{}"})}),
        "q.skops": model(**{"foreign.skops": model(**{"foreign.skops": "x"})}),
        "r.skops": model(**{"foreign.skops": "x"}),
        "s.skops": model(**{"schema.json": "x" * 2000}),
        "t.toml": b"a\x1b[0m\x0c",
        "u.svg": b"\x08",
        "v.npz": b"x",
    }
    limits = Limits(unpacked=1000)
    for name, content in cases.items():
        path = tmp_path / "file"
        path.write_bytes(content)
        answers[name] = answer(checking.check_content, path, name, limits)
    assert Limits(upload=7).project == 70
    assert (Limits().upload, Limits().views, Limits().body) == (200_000_000, 32_000_000, 4 * 2**20)
    recorded("answers", answers)


def test_types_of_the_api_in_words(recorded):
    answers = {}
    schemas = [
        {"$ref": "#/components/schemas/Run"},
        {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "string"}]},
        {"enum": ["a", "b"], "type": "string"},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "array"},
        {"type": "object", "additionalProperties": {"type": "number"}},
        {"type": "object"},
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        {"type": "number", "minimum": 0},
        {},
    ]
    answers["types"] = [api._kind(schema) for schema in schemas]
    assert api._spelt({"a\ud800": [float("nan"), 1.5, "x\ud800", float("inf")]}) == {
        "a?": ["nan", 1.5, "x?", "inf"]
    }
    recorded("answers", answers)


def test_a_run_is_written_to_a_file_store(tmp_path, monkeypatch):
    """All calls of a client of MLflow, which is not needed for that."""
    import sys
    from types import ModuleType

    from kernelweave_app.studio.schema import Run

    seen, known = [], []

    class Refusal(Exception):
        pass

    class Client:
        def __init__(self, tracking_uri):
            seen.append(tracking_uri)

        def get_experiment_by_name(self, name):
            return SimpleNamespace(experiment_id=f"known {name}") if known else None

        def create_experiment(self, name):
            if refused:
                raise Refusal("a\n  b")
            return f"new {name}"

        def search_runs(self, experiments, filter_string):
            seen.append((experiments, filter_string))
            return [SimpleNamespace(info=SimpleNamespace(run_id="old"))] if known else []

        def create_run(self, experiment, start_time, run_name):
            seen.append((experiment, start_time, run_name))
            return SimpleNamespace(info=SimpleNamespace(run_id="made"))

        def log_batch(self, run, metrics, params, tags):
            seen.append((run, metrics, dict(params), dict(tags)))

        def __getattr__(self, name):
            return lambda *given, **more: seen.append((name, *given, *more.values()))

    refused = []
    modules = {
        "mlflow.entities": {"Metric": lambda *m: m, "Param": lambda *p: p, "RunTag": lambda *t: t},
        "mlflow.exceptions": {"MlflowException": Refusal},
        "mlflow.tracking": {"MlflowClient": Client},
    }
    for name, members in {"mlflow": {}, **modules}.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "x")
    spec = Spec(target="y" * 600)
    run = Run(
        id=RUNS[0], name="n" * 600, state="cancelled", created=1.0, started=None, finished=3.5, cancelling=False,
        done=1, total=1, step="", reason="", request=RunRequest(data=Data(tables=["set-wine"]), spec=spec),
        metrics=[Metric(name="R^2", value=0.5, low=None)], summary=None, method="lp", marks=Marks(note="m" * 2000),
    )  # fmt: skip
    folder, where = tmp_path / "store", tmp_path / "run"
    files = [where / "a.txt", where / "figures" / "b.svg"]
    assert mlflow_export.export_run(folder, run, where, files, None) == "made"
    uri, search, made, batch, first, second, deleted_or_end = seen
    assert (uri, search) == (
        folder.resolve().as_uri(),
        (["new kernelweave"], f"tags.`kernelweave.run` = '{RUNS[0]}'"),
    )
    assert made == ("new kernelweave", 1000, "n" * 500)
    assert batch[:2] == ("made", [("R 2", 0.5, 3500, 0)])
    assert (batch[2]["target"], batch[2]["method"]) == ("y" * 500, "lp")
    assert batch[3] == {"kernelweave.run": RUNS[0], "mlflow.note.content": "m" * 2000}
    assert first == ("log_artifact", "made", str(files[0]), None)
    assert second == ("log_artifact", "made", str(files[1]), "figures")
    assert deleted_or_end == ("set_terminated", "made", "KILLED", 3500)
    known.append(1)
    seen.clear()
    mlflow_export.export_run(
        folder, run.model_copy(update={"started": 2.0, "state": "done"}), where, [], None
    )
    assert seen[1][0] == ["known kernelweave"]
    assert (seen[2], seen[3][1], seen[-1][2]) == (("delete_run", "old"), 2000, "FINISHED")
    going = run.model_copy(update={"state": "running"})
    assert (
        answer(mlflow_export.export_run, folder, going, where, [], None) == "error: This run has not ended."
    )
    known.clear()
    refused.append(1)
    assert (
        answer(mlflow_export.export_run, folder, run, where, [], None) == "error: MLflow refuses the run: a b"
    )
    (tmp_path / "file").write_text("x")
    blocked = answer(mlflow_export.export_run, tmp_path / "file", run, where, [], None)
    assert re.fullmatch(r"error: MLflow's folder .*file cannot be written: .+\.", blocked)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    lacking = answer(mlflow_export.export_run, folder, run, where, [], None)
    assert lacking.startswith("error: The export needs MLflow: pip install mlflow-skinny (")


def test_the_api_answers_and_refuses(studio, monkeypatch):
    """Without a server: status, text and headers of answers, errors and files."""

    async def here_and_now(call, *given, **more):
        return call(*given)

    monkeypatch.setattr("anyio.to_thread.run_sync", here_and_now)
    httpx = pytest.importorskip("httpx")

    (studio.places.root / "t.csv").write_text("a,b\n" + "1,2\n3,4\n" * 3)
    app = httpx.ASGITransport(api.make_api(studio), raise_app_exceptions=False)

    def ask(verb, path, **given):
        async def asked():
            async with httpx.AsyncClient(transport=app, base_url="http://studio") as here:
                return await here.request(verb, path, **given)

        return asyncio.run(asked())

    client = SimpleNamespace(
        **{verb: partial(ask, verb.upper()) for verb in ("get", "put", "post", "patch", "delete")}
    )
    table = file_id("t.csv")
    assert client.get(f"/api/tables/{table}").json()["n_rows"] == 6
    assert client.get("/api/tables/file-0").status_code == 404
    assert client.get("/api/tables/X").status_code == 422
    assert client.get(f"/api/tables/{table}/columns", params={"number": 1}).json()["total"] == 2
    assert client.get(f"/api/tables/{table}/rows", params={"number": 501}).status_code == 422
    refused = client.post("/api/target", json={"data": {"tables": [table]}, "target": "b", "task": "nothing"})
    assert refused.status_code == 422
    assert (
        client.post("/api/target", json={"data": {"tables": [table]}, "target": "b"}).json()["task"]
        == "classification"
    )
    assert client.post("/api/check", content="{").status_code == 422
    made = client.post("/api/projects", json={"name": "New"})
    assert made.status_code == 201
    project = made.json()["id"]
    copied = client.post(f"/api/projects/{project}/copy", json={"runs": False})
    assert (copied.status_code, copied.json()["name"]) == (201, "New 2")
    assert client.patch(f"/api/projects/{project}", json={"name": "Other"}).json()["name"] == "Other"
    sent = client.get(f"/api/projects/{project}/file")
    assert sent.headers["content-type"] == "application/zip"
    assert 'filename="Other.kernelweave.zip"' in sent.headers["content-disposition"]
    assert list(studio.places.uploads.iterdir()) == []
    back = client.post("/api/projects/import", content=sent.content)
    assert (back.status_code, back.json()["name"]) == (201, "Other 2")
    gone = client.delete(f"/api/projects/{project}")
    assert (gone.status_code, gone.content) == (204, b"")
    folder = ended(studio, RUNS[0], {"report.html": "<p>", "predictions.csv": "a\n", "model.skops": "m"})
    shown = client.get(f"/api/runs/{RUNS[0]}/files/report.html", params={"show": True})
    assert (shown.headers["content-type"], shown.text) == ("text/html; charset=utf-8", "<p>")
    assert shown.headers["content-disposition"].startswith("inline")
    assert shown.headers["content-security-policy"] == api.DATA_POLICY
    assert (
        client.get(f"/api/runs/{RUNS[0]}/files/report.html")
        .headers["content-disposition"]
        .startswith("attachment")
    )
    assert client.get(f"/api/runs/{RUNS[0]}/files/none").status_code == 404
    whole = client.get(f"/api/runs/{RUNS[0]}/folder")
    assert whole.headers["content-disposition"] == f'attachment; filename="{RUNS[0]}.zip"'
    marks = client.put(f"/api/runs/{RUNS[0]}/marks", json={"note": "n"})
    assert marks.json()["marks"]["note"] == "n"
    found = SimpleNamespace(name="t", frame=lambda: pd.DataFrame({"a": [1]}), latex=lambda: "tex")
    monkeypatch.setattr(jobs, "tables_of", lambda evidence: [found])
    csv = client.get(f"/api/runs/{RUNS[0]}/tables/t")
    assert (csv.text, csv.headers["content-type"], csv.headers["content-disposition"]) == (
        "a\n1\n",
        "text/csv; charset=utf-8",
        'attachment; filename="t.csv"',
    )
    tex = client.get(f"/api/runs/{RUNS[0]}/tables/t", params={"kind": "tex"})
    assert (tex.text, tex.headers["content-type"]) == ("tex", "text/plain; charset=utf-8")
    printed = []

    def draw(self, *given):
        printed.append(given)
        return folder / "predictions.csv"

    monkeypatch.setattr(EvidenceDesk, "figure", draw)
    assert (
        client.get(f"/api/runs/{RUNS[0]}/printed/weights", params={"kind": "svg", "width": 120}).status_code
        == 200
    )
    client.get(f"/api/runs/{RUNS[0]}/printed/weights")
    assert printed == [(RUNS[0], "weights", 120.0, "svg"), (RUNS[0], "weights", 85.0, "pdf")]
    assert client.get(f"/api/runs/{RUNS[0]}/printed/weights", params={"width": 39}).status_code == 422
    up = client.post("/api/tables", params={"name": "t.csv", "replaces": table}, content=b"a,b\n5,6\n")
    assert (up.status_code, up.json()["id"], up.json()["name"]) == (201, table, "t.csv")
    assert (studio.places.root / "t.csv").read_text() == "a,b\n5,6\n"
    plain = client.post("/api/tables", params={"name": "t.csv"}, content=b"a,b\n7,8\n")
    assert plain.json()["name"] == "t-2.csv"

    def failing(error):
        def fail(self):
            raise error

        monkeypatch.setattr(Store, "projects", fail)
        return client.get("/api/projects")

    assert failing(DiskFull("full")).status_code == 507
    full = failing(OSError(errno.ENOSPC, "x"))
    assert (full.status_code, full.json()["detail"]) == (507, store.describe_full(studio.places.root))
    assert failing(OSError(errno.EACCES, "x")).status_code == 500
    assert failing(RecursionError()).status_code == failing(OverflowError()).status_code == 422
    assert failing(OverflowError()).json() == {"detail": "A number or a text is larger than can be handled."}
    assert failing(kw.InputError("There is no project x")).status_code == 404
    assert failing(kw.InputError("It is wrong")).status_code == 422
    assert [one["name"] for one in client.get("/api/methods").json()] == list(kw.learners.LEARNERS)
    assert {"target", "cv", "p"} <= {one["name"] for one in client.get("/api/settings").json()}
    checked = client.post("/api/check", json={"data": {"tables": ["set-wine"]}, "spec": {"target": "target"}})
    assert (checked.status_code, checked.json()["task"], checked.json()["n_held"]) == (
        200,
        "classification",
        36,
    )
    strange = client.post(
        "/api/check", content=b'{"data": {"tables": ["set-wine"]}, "spec": {"test_size": NaN}}'
    )
    assert strange.status_code == 422
    assert api._spelt(float("nan")) in strange.text.lower() or "test_size" in strange.text
    assert client.get("/api/nothing").status_code == 404
    page = client.get("/api/docs").text
    assert "/api/runs/{run_id}/predict" in page
    assert len(re.findall("<h2", page)) >= 5
