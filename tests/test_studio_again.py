"""Runs of every kind of data again: by the command and by the script that the studio gives for them."""

import shlex
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import io, sparse
from sklearn.datasets import dump_svmlight_file

pytest.importorskip("fastapi")
pytest.importorskip("cyclopts")
pytest.importorskip("psutil")

import kernelweave as kw
from kernelweave_app.cli import main
from kernelweave_app.studio.catalogue import file_id
from kernelweave_app.studio.schema import Data, RunRequest
from kernelweave_app.studio.service import Studio
from studio_server import run_here, run_script

N = 48
#: Settings of quick fits.
QUICK = {
    "target": "y",
    "kernels": "linear",
    "method": "rls2",
    "alphas": "0.01,0.1,1",
    "cv": 2,
    "test_size": 0.25,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A studio whose data folder has a file of every kind, of the same rows."""
    folder = tmp_path_factory.mktemp("again, and again")
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(N, 5)).round(4)
    y = (rows[:, 0] - rows[:, 3] + 0.3 * rng.normal(size=N)).round(4)
    who = np.array([f"p{k:02d}" for k in range(N)])
    first = pd.DataFrame({"who": who, "a": rows[:, 0], "b": rows[:, 1], "y": y})
    second = pd.DataFrame({"who": who, "a": rows[:, 3], "c": rows[:, 4]})
    first["site"] = rng.integers(3, size=N)
    first["dose"] = np.where(rng.random(N) < 0.1, "none", rng.integers(9, size=N).astype(str))
    first["code"] = rng.integers(1000, 9999, size=N)
    first["part"] = np.where(np.arange(N) % 4 == 0, "test", "train")
    first["w"] = rng.integers(1, 4, size=N)
    first["group"] = np.arange(N) // 3
    first["class"] = np.where(y > 0, "high", "low")
    first.to_csv(folder / "first, with a comma.csv", index=False)
    first[["who", "a", "b", "y"]].to_csv(folder / "plain.csv", index=False)
    mixed = second.sample(frac=1.0, random_state=0)
    mixed.iloc[:40].to_csv(folder / "some.tsv", sep="\t", index=False)
    mixed.to_csv(folder / "second.tsv", sep="\t", index=False)
    second[["a", "c"]].to_csv(folder / "order.csv", index=False)
    near = rows[:, 3:]
    order = rng.permutation(N)
    np.savez(folder / "named.npz", K=(near @ near.T)[np.ix_(order, order)], names=who[order])
    np.save(folder / "placed.npy", near @ near.T)
    counts = sparse.csr_array(np.where(rng.random((N, 7)) < 0.4, rng.integers(1, 5, size=(N, 7)), 0) * 1.0)
    sparse.save_npz(folder / "counts.npz", counts)
    sparse.save_npz(folder / "whole.npz", sparse.csr_array(rows))
    io.mmwrite(folder / "words.mtx", counts)
    dump_svmlight_file(rows, np.where(y > 0, 1, 0), str(folder / "labelled.svmlight"), zero_based=True)
    studio = Studio(folder)
    yield studio
    studio.store.close()


#: Without the further fits of several sources, which change no model.
BRIEFLY = ("--budget", "0")
FIRST = "first, with a comma.csv"
ROLES = {"drop": ["who", "dose", "code", "part", "w", "group", "class", "site"]}


def but(*kept):
    """Roles of the first table, with some columns as features."""
    return {"drop": [name for name in ROLES["drop"] if name not in kept]}


KINDS = {
    "one table": ({"tables": [FIRST]}, ROLES),
    "two tables": ({"tables": [FIRST, "second.tsv"], "key": "who"}, {**ROLES, "target": "y"}),
    "rows that one table lacks": (
        {"tables": ["plain.csv", "some.tsv"], "key": "who"},
        {"rows": "all", "missing_views": "renormalize"},
    ),
    "by order": ({"tables": [FIRST, "order.csv"], "by_order": True}, ROLES),
    "a kernel with names": ({"tables": [FIRST], "kernels": ["named.npz"], "key": "who"}, but()),
    "a kernel by position": ({"tables": ["plain.csv"], "kernels": ["placed.npy"]}, {"drop": ["who"]}),
    "sparse views": (
        {"tables": ["plain.csv"], "sparse": ["counts.npz", "words.mtx"]},
        {"drop": ["who"], "standardize": False},
    ),
    "types": (
        {"tables": [FIRST]},
        {**but("site", "dose"), "types": "site=category,dose=number", "missing": "impute"},
    ),
    "texts": ({"tables": [FIRST]}, {**but("code"), "types": {"code": "text"}, "kernels": "default"}),
    "roles": (
        {"tables": [FIRST]},
        {
            "holdout": "part",
            "weights": "w",
            "group": "group",
            "drop": ["who", "dose", "code", "class", "site"],
        },
    ),
    "classes by a plain fit": (
        {"tables": [FIRST]},
        {"target": "class", "drop": [*but("class")["drop"], "y"], "method": "default", "kernels": "default"},
    ),
    "views": (
        {"tables": [FIRST]},
        {**but("w"), "views": {"one": ["a", "w"], "two": ["b"]}, "kernels": {"two": "linear"}},
    ),
    "a sparse table": ({"tables": ["whole.npz"]}, {"target": "x4"}),
    "an svmlight table": ({"tables": ["labelled.svmlight"]}, {"target": "target"}),
    "a matrix of numbers": ({"tables": ["words.mtx"]}, {"target": "x0", "task": "regression"}),
}


def run(studio, data, spec):
    """Execute a run here and now; returns its id."""
    named = {
        key: [file_id(name) for name in value] if isinstance(value, list) else value
        for key, value in data.items()
    }
    return run_here(studio, RunRequest(data=Data(**named), spec={**QUICK, **spec}))


def told(frame):
    """What a file of predictions says of rows."""
    return frame[[name for name in frame if name.startswith(("prediction", "decision"))]]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_repeated_by_its_command_and_its_script(place, kind, tmp_path, monkeypatch):
    """Both make the model of the run: the same predictions of the rows that were held out."""
    monkeypatch.chdir(tmp_path)
    data, spec = KINDS[kind]
    run_id = run(place, data, spec)
    folder = place.places.run(run_id)
    theirs = pd.read_csv(folder / "predictions.csv")

    command = place.command(run_id)
    # every table is in it
    for name in data["tables"]:
        assert str(place.places.root / name) in command
    program, *arguments = shlex.split(command)
    assert program == "kernelweave"
    assert main([*arguments, *BRIEFLY]) == 0
    mine = pd.read_csv(tmp_path / "again" / "predictions.csv")
    pd.testing.assert_frame_equal(told(mine), told(theirs), atol=1e-7)

    space = run_script(folder / "script.py", tmp_path)
    model, X, test = space["model"], space["X"], space["test"]
    rows = X[test] if isinstance(X, kw.Views) else X.iloc[test]
    said = model.predict(rows)
    if theirs["prediction"].dtype.kind == "f":
        np.testing.assert_allclose(said, theirs["prediction"], atol=1e-7)
    else:
        assert said.astype(str).tolist() == theirs["prediction"].astype(str).tolist()

    # the command in the lineage is run from the folder of the run
    lineage = place.lineage(run_id)
    monkeypatch.chdir(folder)
    assert main([*shlex.split(lineage.command)[1:-1], str(tmp_path / "once more"), *BRIEFLY]) == 0
    pd.testing.assert_frame_equal(
        told(pd.read_csv(tmp_path / "once more" / "predictions.csv")), told(theirs), atol=1e-7
    )


@pytest.mark.parametrize("kind", ["types", "texts"])
def test_new_rows_are_read_by_the_types_of_the_run(place, kind, tmp_path):
    """Cells that are no numbers are missing, codes are texts: in the studio, and on the command line."""
    data, spec = KINDS[kind]
    run_id = run(place, data, spec)
    new = place.places.root / f"new {kind}.csv"
    pd.read_csv(place.places.root / FIRST, dtype=str).iloc[::2].drop(columns="y").to_csv(new, index=False)
    found = place.predict(run_id, Data(tables=[file_id(new.name)]))
    assert found.n_rows == N // 2
    assert found.n_missing == 0
    folder = place.places.run(run_id)
    model = kw.load(folder / "model.skops")
    frame = SimpleNamespace(**run_script(folder / "script.py", tmp_path)).X.iloc[::2]
    if kind == "texts":
        assert any("CharNGrams" in str(name) for name in model.kernel_names_)
    shown = [row[found.columns.index("prediction")] for row in found.rows]
    np.testing.assert_allclose(shown, model.predict(frame), atol=1e-7)
    out = tmp_path / "out.csv"
    assert main(["predict", str(folder), str(new), "--out", str(out)]) == 0
    np.testing.assert_allclose(pd.read_csv(out)["prediction"], shown, atol=1e-7)


def test_labels_that_look_like_numbers_in_fewer_rows_are_known(place, rng):
    y = np.array(["01", "02", "x"] * 20)
    frame = pd.DataFrame({"a": rng.normal(size=60) + 3.0 * (y == "02") - 3.0 * (y == "01"), "y": y})
    for name, rows in (("labels.csv", frame), ("fewer.csv", frame[y != "x"].assign(a=frame["a"] + 0.001))):
        rows.to_csv(place.places.root / name, index=False)
    found = place.predict(
        run(place, {"tables": ["labels.csv"]}, {"target": "y"}), Data(tables=[file_id("fewer.csv")])
    )
    assert found.scores["accuracy"] > 0.9
