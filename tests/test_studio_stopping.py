"""A run that is asked to stop: whatever it has fitted is kept, and it has the time to write it.

Modules: `studio/worker`, `studio/jobs`.
"""

import json
import os
import signal
import sqlite3
import time

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

import kernelweave as kw
from kernelweave import InputError
from kernelweave.fitting.task import PathStep
from kernelweave_app.runs.evidence import read_evidence
from kernelweave_app.studio import jobs, worker
from kernelweave_app.studio.jobs import Queue
from kernelweave_app.studio.schema import Artifact, Metric, PathPoint
from kernelweave_app.studio.store import KEPT, MODEL, SAVING, DiskFull, Places, Store
from kernelweave_app.studio.worker import Job, Progress, Stopping
from studio_server import needs_core

pytestmark = needs_core

RUN = "20260101-000000-abcdef"
SPEC = {"target": "target", "alphas": "2", "cv": 2, "kernels": "linear", "learner_params": {}}


class Bench:
    """A store with one run of a small table, which is executed in this process."""

    def __init__(self, folder, **spec):
        from sklearn.datasets import load_iris

        frame = load_iris(as_frame=True).frame
        frame["target"] = "kind " + frame["target"].astype(str)
        frame.to_csv(folder / "iris.csv", index=False)
        self.places = Places(folder)
        self.folder = self.places.run(RUN)
        self.folder.mkdir()
        self.store = Store(self.places.database)
        spec = {**SPEC, **spec}
        request = {"data": {"tables": ["x"]}, "spec": spec, "paths": {"iris": str(folder / "iris.csv")}}
        self.store.add_run(RUN, "iris", request)
        assert self.store.move(RUN, ("queued",), "running", pid=os.getpid(), pid_started=0.0)
        self.stopping = Stopping(self.folder)

    def job(self):
        return Job(self.places, self.store, RUN, self.stopping)


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(**spec):
        made.append(Bench(tmp_path, **spec))
        return made[-1]

    yield make
    for bench in made:
        bench.store.close()


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_the_model_is_written_before_probabilities_and_scores(bench, monkeypatch):
    """An interruption of what comes after the fit cannot lose it."""
    here = bench(method="simple", alphas="30", Cs="2", probabilities="platt")
    monkeypatch.setattr("kernelweave_app.runs.fitting.calibrate_model", interrupt)
    with pytest.raises(KeyboardInterrupt):
        here.job().do()
    assert kw.load(here.folder / MODEL).weights_.shape == (3, 1)
    assert [file.name for file in here.store.read(Artifact, RUN)] == [MODEL]


def test_the_model_is_written_before_any_figure(bench, monkeypatch):
    here = bench()
    monkeypatch.setattr("kernelweave_app.reports.draw_pictures", interrupt)
    with pytest.raises(KeyboardInterrupt):
        here.job().do()
    names = [file.name for file in here.store.read(Artifact, RUN)]
    assert names[0] == MODEL
    assert {"script.py", "spec.toml"} <= set(names)
    assert not list(here.folder.glob("figures/*"))


def test_a_signal_while_the_model_is_written_waits(bench, monkeypatch):
    from kernelweave import persistence

    here = bench()
    save = persistence.save

    def slow(model, path, **options):
        assert (here.folder / SAVING).exists()  # the supervisor knows
        here.stopping(signal.SIGTERM)
        return save(model, path, **options)

    monkeypatch.setattr(persistence, "save", slow)
    with pytest.raises(KeyboardInterrupt):
        here.job().do()
    assert [file.name for file in here.store.read(Artifact, RUN)] == [MODEL]
    # at any other time it interrupts at once
    with pytest.raises(KeyboardInterrupt):
        here.stopping(signal.SIGTERM)


def test_the_supervisor_waits_for_a_run_that_writes(tmp_path, monkeypatch):
    """SIGTERM once, SIGKILL after it; neither while the model is being written."""
    places = Places(tmp_path)
    store = Store(places.database)
    queue = Queue(store, places, grace=0.0)
    folder = places.run(RUN)
    folder.mkdir()
    store.add_run(RUN, "x", {})
    store.move(RUN, ("queued",), "running", pid=os.getpid(), pid_started=1.0)
    store.cancel(RUN)
    sent, clock = [], [time.time() + 1.0]
    monkeypatch.setattr(jobs, "is_alive", lambda *_: True)
    monkeypatch.setattr(jobs.os, "kill", lambda pid, number: sent.append(number))
    monkeypatch.setattr(jobs.time, "time", lambda: clock[0])
    (folder / SAVING).touch()
    queue.look()
    assert sent == []
    clock[0] += jobs.GRACE_TO_SAVE
    queue.look()
    queue.look()
    assert sent == [signal.SIGTERM]
    # it heard, and has the time to write once more
    os.utime(folder / SAVING, (clock[0], clock[0]))
    clock[0] += jobs.GRACE_AFTER_TERM + 1
    queue.look()
    assert sent == [signal.SIGTERM]
    clock[0] += jobs.GRACE_TO_SAVE
    queue.look()
    assert sent == [signal.SIGTERM, signal.SIGKILL]
    # killed before it could say so, its model is found
    (folder / MODEL).write_bytes(b"model")
    monkeypatch.setattr(jobs, "is_alive", lambda *_: False)
    queue.look()
    row = store.run(RUN)
    assert (row["state"], row["reason"]) == ("cancelled", KEPT)
    assert [file.name for file in store.read(Artifact, RUN)] == [MODEL]
    store.close()


def test_asking_again_puts_nothing_off(tmp_path, monkeypatch):
    """The time that a run has to stop begins when it is first asked to."""
    places = Places(tmp_path)
    store = Store(places.database)
    store.add_run(RUN, "x", {})
    store.move(RUN, ("queued",), "running", pid=os.getpid(), pid_started=1.0)
    sent, clock = [], [time.time()]
    monkeypatch.setattr(jobs, "is_alive", lambda *_: True)
    monkeypatch.setattr(jobs.os, "kill", lambda pid, number: sent.append(number))
    monkeypatch.setattr(time, "time", lambda: clock[0])
    queue = Queue(store, places, grace=10.0)
    for _ in range(3):
        assert sent == []
        store.cancel(RUN)
        queue.look()
        clock[0] += 6.0
    assert sent == [signal.SIGTERM]
    store.close()


def test_a_run_tells_all_that_it_does(bench, undrawn, monkeypatch):
    """Steps, scores, files and results of a whole run; then evidence about it, a figure of that, and its time."""
    from kernelweave_app.reports import close

    here = bench(test_size=0.3, nested=2)
    here.job().do()
    row = here.store.run(RUN)
    # two alphas on two folds and on all rows, of three classes: once, in each outer fold, and their paths
    assert (row["state"], row["reason"], row["done"], row["total"]) == ("done", "", 60, 60)
    points = here.store.read(PathPoint, RUN)
    stages = ("fold 1 of 2", "fold 2 of 2", "all rows", "path")
    classes = ["kind 0", "kind 1", "kind 2"]
    alphas = [points[0].alpha, points[1].alpha]
    assert alphas[0] > alphas[1]
    assert [(one.stage, one.output, one.alpha) for one in points] == [
        (stage, name, alpha) for stage in stages for name in classes for alpha in alphas
    ]
    scores = {one.name: one for one in here.store.read(Metric, RUN)}
    assert [scores[f"accuracy, {where}"].n for where in ("held out", "nested")] == [45, 105]
    assert all(one.low < one.value < one.high for one in scores.values() if one.low is not None)
    [chosen] = [one for one in scores.values() if one.low is None]
    assert (chosen.name.startswith("accuracy, the score that chose"), chosen.n) == (True, 105)
    files = {file.name: file for file in here.store.read(Artifact, RUN)}
    there = {str(path.relative_to(here.folder)) for path in here.folder.rglob("*") if path.is_file()}
    assert there - files.keys() == {"results.json", "kernels.json"}
    assert files.keys() <= there
    assert all(file.size == (here.folder / name).stat().st_size for name, file in files.items())
    summary, model = json.loads(row["summary"]), kw.load(here.folder / MODEL)
    assert (summary["n_training"], summary["n_held"], summary["n_kernels"]) == (105, 45, 1)
    assert summary["rel_gap"] == model.rel_gap_
    assert 0.0 < summary["fit_seconds"] < summary["seconds"]
    told = [event["text"] for event in here.store.dump_run(RUN)[1]["event"]]
    assert told[1:] == [
        "105 rows to learn from, 45 held out.",
        "1 kernel.",
        "The model is written.",
        "Finished.",
    ]
    for name, drawn in (("path", "path"), ("contributions", "contributions"), ("confusion", "held-out")):
        picture = worker.draw_figure(here.folder, name)
        assert picture.name == drawn
        close(picture.figure)
    with pytest.raises(InputError, match="this run has no figure residuals"):
        worker.draw_figure(here.folder, "residuals")

    monkeypatch.setattr(worker.signal, "signal", lambda *_: None)
    status = jobs.status_file(here.folder, "stability")
    status.parent.mkdir(exist_ok=True)
    jobs.write_status(here.folder, "stability", created=time.time(), count=3)
    assert worker.compute_evidence(str(here.places.root), RUN, "stability") == 0
    found = jobs.read_status(status)
    assert (found["state"], found["reason"], found["done"], found["total"]) == ("done", "", 3, 3)
    assert read_evidence(here.folder)["stability"].n == 3
    made = worker.print_figure(str(here.folder), "stability", 84.0, "svg")
    assert (here.folder / jobs.PRINTED / made["file"]).read_text("utf8") == "<svg></svg>"
    table = str(here.places.root / "iris.csv")
    time_of = worker.measure({**SPEC, "alphas": "2"}, {"iris": table})
    assert time_of["low"] <= time_of["seconds"] <= time_of["high"]
    assert time_of["memory"] > 8 * 150**2


@pytest.mark.full
def test_points_of_a_path_name_their_class(bench):
    """Also those of the last paths, which are solved one class after another, and all of the first problem."""
    here = bench()
    here.job().do()
    assert here.store.run(RUN)["state"] == "done", here.store.run(RUN)["reason"]
    classes = ["kind 0", "kind 1", "kind 2"]
    found = {}
    for row in here.store.read(PathPoint, RUN):
        found.setdefault(row.stage, {}).setdefault(row.output, []).append(row.alpha)
    assert "path" in found
    for stage, outputs in found.items():
        assert list(outputs) == classes, stage
        for alphas in outputs.values():
            assert alphas == sorted(alphas, reverse=True)  # one line, from strong to weak
            assert len(set(alphas)) == len(alphas)


def test_a_full_disk_stops_no_fit(bench, monkeypatch):
    here = bench()

    def full(*_):
        raise DiskFull("The disk is full.")

    progress = Progress(here.store, RUN, 3, ["a", "b", "c"])
    step = PathStep("step")
    step.label, step.problem, step.alpha, step.weights, step.rel_gap = "fold 1", 2, 1.0, [0.5, 0.0], 0.0
    with monkeypatch.context() as patch:
        patch.setattr(here.store, "write", full)
        progress._last = 0.0
        assert not progress.report(step)
    progress.flush("")
    (row,) = here.store.read(PathPoint, RUN)
    assert (row.stage, row.output, row.weights) == ("fold 1", "c", {0: 1.0})


@pytest.mark.parametrize(
    ("of_all", "outputs", "problem", "expected"),
    [
        ("", (), 0, ""),
        ("", (), 1, "problem 2"),
        ("", ("a", "b"), 1, "b"),
        ("", ("a", "b"), 2, "problem 3"),
        ("c", ("a", "b"), 1, "c"),
        ("c", (), 1, "c"),
    ],
)
def test_a_step_has_the_name_of_its_problem(of_all, outputs, problem, expected):
    step = PathStep("step")
    step.label, step.problem, step.alpha, step.weights, step.rel_gap = "path", problem, 1.0, [1.0], 0.0
    progress = Progress(None, RUN, 3, outputs)
    progress.output = of_all
    assert progress._point(step).output == expected


def test_figures_of_evidence_need_nothing_else(tmp_path):
    from kernelweave.inspection.registry import Finding
    from kernelweave_app.reports import close
    from kernelweave_app.runs.evidence import write_evidence
    from kernelweave_app.studio.worker import draw_figure

    weights = [[0.2], [0.8]]
    details = {
        "names": ["a", "b"],
        "outputs": ["weight"],
        "weights": weights,
        "low": weights,
        "high": weights,
    }
    write_evidence(tmp_path, {"stability": Finding(n=10, details=details)})
    picture = draw_figure(tmp_path, "stability")
    assert [bar.get_width() for bar in picture.figure.axes[0].patches] == [0.8, 0.2]
    close(picture.figure)
    with pytest.raises(FileNotFoundError):
        draw_figure(tmp_path, "calibration")


def test_a_failed_change_leaves_the_database_free(tmp_path):
    """Otherwise every other writer, such as a login, would wait for half a minute."""
    store, other = Store(tmp_path / "s.sqlite"), Store(tmp_path / "s.sqlite")
    pages = store._rows("PRAGMA page_count")[0][0]
    store._rows(f"PRAGMA max_page_count = {pages}")  # as a disk without room
    points = [PathPoint(stage="x" * 5000, alpha=1.0, rel_gap=None, n_active=1, weights={})] * 20
    with pytest.raises(DiskFull, match=r"disk is full.*Free some space"):
        store.write(RUN, *points)
    other._rows("PRAGMA busy_timeout = 100")
    other.add_secret("session", "digest")
    with pytest.raises(sqlite3.OperationalError):
        store._rows("SELECT nothing")  # other errors are told as they are
    store.close()
    other.close()


def test_databases_of_older_versions_get_their_columns(tmp_path):
    with sqlite3.connect(tmp_path / "s.sqlite") as db:
        db.execute(
            "CREATE TABLE run (id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, request TEXT NOT NULL, "
            "created REAL NOT NULL, started REAL, finished REAL, pid INTEGER, pid_started REAL, cancelled REAL, "
            "done INTEGER NOT NULL DEFAULT 0, total INTEGER, step TEXT NOT NULL DEFAULT '', "
            "reason TEXT NOT NULL DEFAULT '', summary TEXT)"
        )
        db.execute(
            "CREATE TABLE point (number INTEGER PRIMARY KEY, run TEXT NOT NULL, stage TEXT NOT NULL, "
            "alpha REAL NOT NULL, rel_gap REAL, n_active INTEGER NOT NULL, weights TEXT NOT NULL)"
        )
        db.execute("INSERT INTO run (id, name, state, request, created) VALUES ('old', 'x', 'done', '{}', 1)")
        db.execute("INSERT INTO point (run, stage, alpha, n_active, weights) VALUES ('old', 's', 1, 1, '{}')")
    db.close()
    store = Store(tmp_path / "s.sqlite")
    assert store.read(PathPoint, "old")[0].output == ""
    assert store.add_run(RUN, "x", {}, "asked") == RUN
    assert store.add_run("another", "x", {}, "asked") == RUN
    assert [row["name"] for row in store.runs()] == ["x", "x 2"]
    store.close()
