"""Projects of the studio: each has its tables, its draft and its runs, and none sees those of another."""

import json
import sqlite3
import threading
import time

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")

from kernelweave._errors import InputError
from kernelweave.studio.service import Studio
from kernelweave.studio.store import Store
from studio_server import Served, needs_core

pytestmark = needs_core

WINE = {"tables": ["set-wine"]}
SPEC = {"target": "target", "alphas": "2", "cv": 2, "kernels": "linear"}

#: The database as the version before projects made it, with a run and a draft.
BEFORE = """
CREATE TABLE run (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, request TEXT NOT NULL, created REAL NOT NULL,
    started REAL, finished REAL, pid INTEGER, pid_started REAL, cancelled REAL, done INTEGER NOT NULL DEFAULT 0,
    total INTEGER, step TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', summary TEXT, asked TEXT);
CREATE TABLE event (
    number INTEGER PRIMARY KEY, run TEXT NOT NULL, time REAL NOT NULL, text TEXT NOT NULL);
CREATE TABLE point (
    number INTEGER PRIMARY KEY, run TEXT NOT NULL, stage TEXT NOT NULL, alpha REAL NOT NULL, rel_gap REAL,
    n_active INTEGER NOT NULL, weights TEXT NOT NULL, output TEXT NOT NULL DEFAULT '');
CREATE TABLE metric (
    run TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, spread REAL, PRIMARY KEY (run, name));
CREATE TABLE artifact (
    run TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (run, name));
CREATE TABLE token (hash TEXT PRIMARY KEY, created REAL NOT NULL);
CREATE TABLE session (hash TEXT PRIMARY KEY, created REAL NOT NULL);
CREATE TABLE draft (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE INDEX event_of_run ON event (run, number);
CREATE INDEX point_of_run ON point (run, number);
CREATE UNIQUE INDEX run_asked ON run (asked) WHERE asked IS NOT NULL;
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("studio"))
    yield served
    served.close()


# ---- folders of before ----------------------------------------------------------------------------------------------


def test_a_folder_without_projects_opens_unchanged(tmp_path):
    folder = tmp_path / "tables"
    run = "20260101-010203-abcdef"
    (folder / "studio" / "runs" / run).mkdir(parents=True)
    (folder / "studio" / "runs" / run / "spec.toml").write_text("target = 'y'\n")
    (folder / "mine.csv").write_text("x,y\n1,2\n3,4\n")
    request = {"name": "", "data": WINE, "spec": SPEC, "paths": {}, "method": "rls2"}
    with sqlite3.connect(folder / "studio" / "studio.sqlite") as db:
        db.executescript(BEFORE)
        db.execute(
            "INSERT INTO run (id, name, state, request, created, asked) VALUES (?, 'old', 'done', ?, 5.0, 'k')",
            (run, json.dumps(request)),
        )
        db.execute("INSERT INTO metric VALUES (?, 'accuracy', 0.9, NULL)", (run,))
        db.execute("INSERT INTO artifact VALUES (?, 'spec.toml', 'settings', 13)", (run,))
        draft = {"data": WINE, "spec": {"target": "target"}, "name": "half done"}
        db.execute("INSERT INTO draft VALUES ('current', ?)", (json.dumps(draft),))
        db.execute("INSERT INTO draft VALUES ('appearance', '\"dark\"')")
    for _ in range(2):  # opened again, it stays as it is
        studio = Studio(folder)
        (project,) = studio.store.projects()
        assert (project["name"], project["created"], project["n_runs"]) == ("tables", 5.0, 1)
        here = studio.inside("")
        assert "mine.csv" in {ref.name for ref in here.tables()}
        assert here.draft().name == "half done"
        assert here.draft().spec.target == "target"
        (found,) = here.runs()
        assert (found.name, found.metrics[0].value) == ("old", 0.9)
        assert here.artifact(run, "spec.toml").read_text() == "target = 'y'\n"
        assert studio.store.inside(None).draft("appearance") == "dark"
        # asked for in the same words, it is still that run
        assert here.store.add_run("20270101-010203-abcdef", "x", {}, "k") == run
        studio.store.close()


# ---- apart from each other ------------------------------------------------------------------------------------------


def test_drafts_and_runs_of_projects_do_not_mix(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    store.add_project("0123456789ab", "second", 80)
    one, two = store.inside("first"), store.inside("0123456789ab")
    one.set_draft("current", {"name": "one"})
    assert two.draft("current") is None
    two.set_draft("current", {"name": "two"})
    assert one.draft("current") == {"name": "one"}
    one.add_run("a", "same name", {}, "word")
    assert two.add_run("b", "same name", {}, "word") == "b"
    assert [row["name"] for row in store.runs()] == ["same name"] * 2
    assert [row["id"] for row in one.runs()] == ["a"]
    assert [row["id"] for row in two.runs(("queued",))] == ["b"]
    with pytest.raises(InputError, match="There is no run"):
        one.run("b")
    assert store.run("b")["project"] == "0123456789ab"
    with pytest.raises(InputError, match="1 of its runs has not ended"):
        store.delete_project("0123456789ab")
    store.finish("b", "failed")
    store.add_event("b", "gone")
    assert store.delete_project("0123456789ab") == ["b"]
    assert store.events("b") == []
    for change in (lambda: two.set_draft("current", {}), lambda: two.add_run("c", "x", {})):
        with pytest.raises(InputError, match="There is no project"):
            change()
    assert one.draft("current") == {"name": "one"}
    with pytest.raises(InputError, match="the only project"):
        store.delete_project("first")
    store.close()


def test_a_thousand_starts_have_a_thousand_names_and_folders(tmp_path):
    studio = Studio(tmp_path)
    found = []

    def start():
        found.extend(studio.queue.add("quick", {}, "", "first") for _ in range(125))
        studio.store.close()

    threads = [threading.Thread(target=start) for _ in range(8)]
    begin = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"1000 starts: {time.process_time() - begin:.1f} s of processor time")
    assert len(set(found)) == 1000
    assert len({row["name"] for row in studio.store.runs()}) == 1000
    assert all(studio.places.run(run).is_dir() for run in found)
    studio.store.close()
