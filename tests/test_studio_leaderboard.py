"""Runs as a leaderboard: what is found, in which order, how quickly; and what is written about runs.

Modules: `studio/mlflow_export`, `runs/lineage`, `studio/schema`.
"""

import time

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

from kernelweave._errors import InputError
from kernelweave.estimators.choosing import not_an_estimate
from kernelweave.inspection.held import class_scores, number_scores
from kernelweave.inspection.held_times import BRIER, CONCORDANCE, EQUAL, GAIN, WITHOUT, smallest_is_best
from kernelweave_app.runs.lineage import Lineage, Source
from kernelweave_app.studio.pages.naming import score_name
from kernelweave_app.studio.pages.runs import Wanted, scores_of, select
from kernelweave_app.studio.schema import EITHER, Artifact, Marks, Metric
from kernelweave_app.studio.service import Studio

SUMMARY = {
    "task": "classification", "method": "simple", "n_kernels": 9, "n_active": 2, "regularization": "C = 1",
    "rel_gap": 1e-7, "status": "optimal", "n_training": 142, "n_held": 36, "seconds": 3.0,
}  # fmt: skip
NAMES = {"set-wine": "wine", "set-iris": "iris"}
ACCURACY, RMSE = "accuracy, held out", "RMSE, held out"


def put(studio, number, *, name="", score=None, table="set-wine", method="simple", state="done", error=None):
    """A run in the database as if it had been there."""
    run = f"20260101-{number:06d}-abcdef"
    spec = {"target": "target", "method": method}
    request = {"name": name, "data": {"tables": [table]}, "spec": spec, "paths": {}, "method": method}
    studio.store.add_run(run, name or f"run {number}", request)
    studio.places.run(run).mkdir()
    studio.store.move(run, ("queued",), "running", started=1000.0 + number)
    for metric, value in ((ACCURACY, score), (RMSE, error)):
        if value is not None:
            studio.store.write(run, Metric(name=metric, value=value))
    studio.store.finish(run, state, "", SUMMARY if state == "done" else None)
    return run


@pytest.fixture
def studio(tmp_path):
    studio = Studio(tmp_path)
    yield studio
    studio.store.close()


def test_what_chose_is_called_as_in_the_report(studio):
    name = f"accuracy, {not_an_estimate(EITHER)}"
    for number, state in enumerate(("done", "done", "failed")):
        put(studio, number, state=state)
    studio.store._change(
        "UPDATE run SET summary = replace(summary, 'C = 1', 'alpha = 1') WHERE name = 'run 1'"
    )
    failed, by_alpha, by_cost = studio.runs()
    assert score_name(name, [by_cost]) == f"accuracy, {not_an_estimate('C')}"
    assert score_name(name, [by_alpha, failed]) == f"accuracy, {not_an_estimate('alpha')}"
    assert score_name(name, [by_cost, by_alpha]) == name == score_name(name, [failed])
    assert score_name(ACCURACY, [by_cost]) == ACCURACY


def test_runs_are_found_sorted_and_filtered(studio):
    for number, score in enumerate([0.7, 0.9, None, 0.8]):
        put(
            studio,
            number,
            score=score,
            state="done" if score else "failed",
            method=["lp", "simple"][number % 2],
        )
    put(studio, 4, name="Ångström <b>", error=2.0, table="set-iris")
    runs = studio.runs()

    def found(**wanted):
        return select(runs, Wanted(**wanted), NAMES)

    assert [run.id for run in runs] == [run.id for run in found()]  # newest first
    best = found(order="score", score=ACCURACY)
    assert [run.metrics[0].value for run in best[:3]] == [0.9, 0.8, 0.7]
    assert len(best) == 5  # those without the score are last
    worst = found(order="score", score=ACCURACY, backwards=False)
    assert [run.metrics[0].value for run in worst[:3]] == [0.7, 0.8, 0.9]
    assert {run.method for run in found(method="lp")} == {"lp"}
    assert [run.name for run in found(table="iris")] == ["Ångström <b>"]
    assert [run.name for run in found(text="ÅNGSTRÖM iris")] == ["Ångström <b>"]
    assert [run.state for run in found(state="failed")] == ["failed"]
    assert sorted(run.metrics[0].value for run in found(least=0.8, score=ACCURACY)) == [0.8, 0.9]
    # an error is good where it is small
    assert len(found(least=2.5, score=RMSE)) == 1
    assert found(least=1.5, score=RMSE) == []
    assert scores_of(runs)[0] == ACCURACY
    assert found(text="nothing like it") == []


def test_pinned_runs_come_first_and_tags_are_found(studio):
    first, second = put(studio, 1), put(studio, 2)
    assert not studio.runs()[0].marks.pinned
    studio.mark(first, Marks(pinned=True, tags=["keep", "paper"], note="figure 2"))
    runs = studio.runs()  # what has changed is read again
    assert [run.id for run in select(runs, Wanted(), NAMES)] == [first, second]
    assert [run.id for run in select(runs, Wanted(tag="paper"), NAMES)] == [first]
    assert [run.id for run in select(runs, Wanted(text="figure"), NAMES)] == [first]
    studio.delete(first)
    assert [run.id for run in studio.runs()] == [second]
    assert studio.store.read_all(Marks) == {}
    with pytest.raises(InputError, match="There is no run"):
        studio.mark(first, Marks())


def test_what_is_written_about_a_run_is_cleaned_and_limited(studio):
    run = put(studio, 1)
    hostile = "<img src=x onerror=alert(1)>"
    told = studio.mark(run, Marks(tags=[hostile, "a\u202eb", " a  b ", "", "ab"], note="1\n2\x00"))
    # marks of direction and control characters go, markup stays text, equal tags are one
    assert told.marks.tags == [hostile, "ab", "a b"]
    assert told.marks.note == "1\n2"
    for wrong in (
        {"tags": ["x" * 41]},
        {"tags": [str(k) for k in range(11)]},
        {"note": "x" * 2001},
        {"tags": "a"},
        {"tags": [1]},
    ):
        with pytest.raises(ValueError, match="validation error"):
            Marks.model_validate(wrong)


def test_two_hundred_runs_are_listed_quickly(studio):
    for number in range(200):
        put(studio, number, score=number / 200)
    begin = time.process_time()
    runs = studio.runs()
    first = time.process_time() - begin
    begin = time.process_time()
    again = studio.runs()
    second = time.process_time() - begin
    shown = select(again, Wanted(order="score", score=ACCURACY), NAMES)
    print(f"200 runs: {1000 * first:.0f} ms the first time, {1000 * second:.0f} ms after that")
    assert len(runs) == 200
    assert shown[0].metrics[0].value == pytest.approx(199 / 200)
    assert first < 0.5
    assert again[0] is runs[0]  # what has ended is read once


def test_the_export_needs_a_folder_and_mlflow_and_writes_everything(studio, tmp_path):
    run = put(studio, 1, score=0.75, name="<b>wine</b>")
    studio.mark(run, Marks(tags=["paper"], note="a note"))
    (studio.places.run(run) / "script.py").write_text("print(1)")
    studio.store.write(run, Artifact(name="script.py", kind="script", size=8))
    told = Lineage([Source("wine", "wine.csv", "abc", 3)], {"numpy": "2"}, 0, "kernelweave fit")
    told.write(studio.places.run(run))
    with pytest.raises(InputError, match="--mlflow"):
        studio.export_to_mlflow(run)
    pytest.importorskip("mlflow", reason="needs mlflow-skinny")
    from mlflow.tracking import MlflowClient

    studio.mlflow_folder = tmp_path / "store"
    studio.export_to_mlflow(run)
    made = studio.export_to_mlflow(run)  # the second one replaces the first
    client = MlflowClient(tracking_uri=studio.mlflow_folder.as_uri())
    found = client.get_run(made)
    assert len(client.search_runs([found.info.experiment_id])) == 1
    assert found.data.metrics["accuracy held out"] == 0.75
    assert found.data.params["method"] == "simple"
    assert found.data.tags["tag 1"] == "paper"
    assert found.data.tags["mlflow.note.content"] == "a note"
    assert found.data.tags["sha256 1"] == "abc wine"
    assert [file.path for file in client.list_artifacts(made)] == ["script.py"]
    assert found.info.status == "FINISHED"


def test_the_smallest_value_is_best_of_errors_and_losses_alone():
    """Of all scores that models have, by what the scores say themselves."""
    y, names = np.array([0.0, 1.0, 1.0]), ["no", "yes"]
    truth = np.array(names)[y.astype(int)]
    scores = number_scores(y, y[::-1]) | class_scores(truth, truth[::-1], names, y, np.eye(2)[y.astype(int)])
    losses = {name for name, one in scores.items() if one.kind == "loss"}
    assert {"RMSE", "MAE", "log loss", "Brier score"} <= losses < {*scores}
    for name in (
        *scores,
        CONCORDANCE,
        EQUAL,
        GAIN,
        BRIER,
        WITHOUT,
        "subset accuracy",
        "negative squared error",
    ):
        small = name in losses or name in (BRIER, WITHOUT)
        assert [smallest_is_best(f"{name}{where}") for where in ("", ", held out", ", folds")] == [small] * 3


def test_runs_of_survival_are_sorted_and_filtered_by_their_error(studio):
    name = f"{BRIER}, held out"
    for number, error in enumerate([0.21, 0.12, 0.18]):
        studio.store.write(put(studio, number), Metric(name=name, value=error))
    kept = select(studio.runs(), Wanted(order="score", score=name, least=0.18, backwards=False), NAMES)
    assert [run.metrics[0].value for run in kept] == [0.12, 0.18]
