"""Columns that name their rows: told from measurements, left out by recommendations, and doubted in results.

Modules: `runs/row_names`, `views/encoding`, `views/tables`, `views/groups`.
"""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("cyclopts")

from kernelweave.views import as_texts
from kernelweave_app.cli.app import run
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import prepare
from kernelweave_app.runs.recommending import recommend
from kernelweave_app.runs.row_names import column_of_names, find_row_names, left_out, why_names
from kernelweave_app.runs.spec import Spec

#: What runs draw is looked at in other files.
pytestmark = pytest.mark.usefixtures("undrawn")

N = 40
WORDS = ["pain", "fever", "cough", "rest", "calm", "sleep", "night", "walk"]


@pytest.fixture
def table(rng):
    X = rng.normal(size=(N, 2))
    return pd.DataFrame(
        {
            "patient": [f"p{k:02d}" for k in range(N)],
            "visit": np.arange(1, N + 1),
            "SampleID": rng.permutation(np.arange(5000, 5000 + N)),
            "a": X[:, 0],
            "b": X[:, 1],
            "y": np.where(X[:, 0] > 0, "ill", "well"),
        }
    )


def test_names_are_told_from_measurements(table, rng):
    assert list(find_row_names(table)) == ["patient", "visit", "SampleID"]
    notes = [" ".join(rng.choice(WORDS, 6)) for _ in range(N)]
    rests = {
        "decimals": rng.normal(size=N),
        "counts that return": rng.poisson(3.0, N),
        "different whole numbers": rng.permutation(np.arange(100, 100 + N)),
        "years": np.arange(1980, 1980 + N),
        "paid": rng.permutation(np.arange(200, 200 + N)),  # ends like a name
        "age no": rng.integers(20, 30, N),
        "sex": list("mf") * (N // 2),
        "yes": [True, False] * (N // 2),
        "day": pd.date_range("2020-01-01", periods=N),
        "day as text": pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d"),
        "notes": notes,
        "short texts": as_texts(pd.Series([f"C{k}" for k in range(N)])),
        "mostly missing": [f"p{k}" for k in range(N // 2)] + [None] * (N // 2),
        "pairs": [f"p{k // 2}" for k in range(N)],
    }
    frame = pd.DataFrame(rests)
    assert find_row_names(frame) == {}
    # what the cheap look leaves out is no name for the careful one either
    assert [name for name in frame if why_names(frame[name], name)] == []
    # in few rows values differ by chance
    assert find_row_names(table.head(9)) == {}


def test_the_cheap_look_loses_none(rng):
    counted = {f"c{k}": rng.permutation(N) + k for k in range(3)}
    with_gaps = np.arange(N, dtype=float)
    with_gaps[[3, 30]] = np.nan
    frame = pd.DataFrame({**counted, "gaps": with_gaps, "No": rng.permutation(N) + 7})
    careful = {name: why for name in frame if (why := why_names(frame[name], name))}
    assert find_row_names(frame) == careful
    assert list(careful) == ["c0", "c1", "No"]
    # values that return: of a tenth of the rows
    for again, is_name in ((4, True), (5, False)):
        texts = pd.Series([f"p{max(k, again)}" for k in range(N)])
        assert bool(why_names(texts, "column")) == is_name
    # rows without a number: a tenth of them is as many as may be
    for first, lost in ((0, 3), (0, 4), (1, 4), (1, 5)):
        counts = np.r_[rng.permutation(N - lost) + float(first), np.full(lost, np.nan)]
        frame = pd.DataFrame({"column": counts})
        assert bool(find_row_names(frame)) == bool(why_names(frame["column"], "column")) == (lost < 5)


def test_what_the_default_kernels_leave_out(table):
    """The identifiers among them: what else looks like names of the rows is told, and stays."""
    assert {name for name in table if left_out(table[name], name)} == {"patient", "SampleID"}
    names = pd.Series([a + b for a in "abcde" for b in "fghijklm"])
    assert why_names(names, "surname")
    assert left_out(names, "surname") == left_out(names.astype("category"), "id") == ""
    assert left_out(as_texts(table["patient"]), "patient") == ""


def test_recommendations_leave_them_out(table):
    found = recommend(Joined(table, {}, {}, {}), Spec(target="y", drop=["b"]))
    assert found.spec.drop == ["b", "patient", "visit", "SampleID"]
    [advice] = [one for one in found.advice if one.setting == "drop"]
    assert "patient: 40 distinct values in 40 rows" in advice.why
    # nothing is left out of views, whose columns the user named, nor if nothing would be left
    views = {"one": ["patient", "a"], "two": ["b"]}
    for spec, data in (
        (Spec(target="y", views=views), table),
        (Spec(target="y"), table[["patient", "visit", "y"]]),
    ):
        assert "drop" not in [one.setting for one in recommend(Joined(data, {}, {}, {}), spec).advice]


def test_views_from_names_leave_them_out():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        rng.normal(size=(N, 6)), columns=[f"{view}_{k}" for view in ("gene", "lipid") for k in range(3)]
    )
    frame.insert(0, "patient", [f"P{k:03d}" for k in range(N)])
    data = Joined(frame.assign(y=rng.normal(size=N)), {}, {}, {})
    made = prepare(data, Spec(target="y", views="auto"))
    assert list(made.views) == ["gene", "lipid"]
    assert (
        f"Column 'patient' is left out: it looks like a row identifier ({N} distinct values in {N} rows)."
        in (made.facts(data))
    )
    # where there is nothing else they stay
    data = replace(data, table=data.table[["patient", "y"]])
    assert list(prepare(data, Spec(target="y", views="auto")).X) == ["patient"]


def test_runs_that_learn_from_them_say_so(table, tmp_path, capsys):
    path, out = tmp_path / "table.csv", tmp_path / "run"
    table.drop(columns=["SampleID"]).to_csv(path, index=False)
    command = ["fit", str(path), "--target", "y", "--alphas", "3", "--cv", "2"]
    assert run([*command, "--out", str(out)]) == 0
    said = (
        "A column looks like names of the rows, which say nothing about new rows ('visit': whole numbers that"
    )
    # once: before the fit, and not again with the findings
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(said) == 1
    # what the fit leaves out itself is no doubt
    assert "'patient' is left out: it looks like a row identifier" not in printed
    assert (
        "&#39;patient&#39; is left out: it looks like a row identifier" in (out / "report.html").read_text()
    )
    doubts = json.loads((out / "evidence.json").read_text())["row names"]["sentences"]
    assert doubts[0]["text"].startswith(said)
    assert said.split(" (")[0] in (out / "report.html").read_text()
    assert run([*command, "--drop", "visit", "--out", str(tmp_path / "other")]) == 0
    assert "names of the rows" not in capsys.readouterr().out
    assert "names of the rows" not in (tmp_path / "other" / "evidence.json").read_text()


def test_kernels_of_your_own_read_them_all(table):
    data = Joined(table, {}, {}, {})
    assert list(prepare(data, Spec(target="y")).row_names_read) == ["visit"]
    assert list(prepare(data, Spec(target="y", kernels="linear")).row_names_read) == [
        "patient",
        "visit",
        "SampleID",
    ]
    # a plain fit keeps identifiers where there is nothing else
    alone = Joined(table[["patient", "y"]], {}, {}, {})
    assert list(prepare(alone, Spec(target="y")).row_names_read) == ["patient"]


def test_names_of_rows_are_the_first_column_of_predictions(table, tmp_path, monkeypatch, capsys):
    """Without a word about them: of held-out rows and of new ones, few as they may be."""
    assert column_of_names(table, ["y"]) == "SampleID"
    assert column_of_names(table[["visit", "patient", "a"]], []) == "patient"
    assert column_of_names(table[["patient", "a"]], ["patient"]) == ""
    assert column_of_names(pd.DataFrame({"x": range(N)}), []) == ""
    monkeypatch.chdir(tmp_path)
    table.to_csv("t.csv", index=False)
    assert (
        run(["fit", "t.csv", "--target", "y", "--out", "run", "--alphas", "3", "--cv", "2", "--budget", "0"])
        == 0
    )
    held = pd.read_csv("run/predictions.csv")
    assert list(held.columns[:3]) == ["SampleID", "row", "prediction"]
    assert (held["SampleID"].to_numpy() == table["SampleID"].to_numpy()[held["row"]]).all()
    table.drop(columns="y").iloc[[7, 3]].to_csv("new.csv", index=False)
    assert run(["predict", "run", "new.csv", "--out", "p.csv"]) == 0
    found = pd.read_csv("p.csv")
    assert found.columns[0] == "SampleID"
    assert found["SampleID"].tolist() == table["SampleID"].iloc[[7, 3]].tolist()
