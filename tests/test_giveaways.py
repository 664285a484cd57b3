"""Columns that give the target away: found in any words or units, and not where values are measurements.

Modules: `runs/doubts`.
"""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("cyclopts")

from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from kernelweave_app.cli.app import run
from kernelweave_app.runs import doubts
from kernelweave_app.runs.doubts import SHOWN, _listed, find_giveaways
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import prepare
from kernelweave_app.runs.recommending import recommend
from kernelweave_app.runs.spec import Spec

N = 60


def found(frame, **settings):
    return find_giveaways(prepare(Joined(frame, {}, {}, {}), Spec(target="y", **settings)))


@pytest.fixture
def classes(rng):
    y = rng.choice(["ill", "well"], N)
    code = np.where(y == "ill", rng.choice(["C50", "C61"], N), "Z00")
    x = rng.normal(size=N)
    return pd.DataFrame({"x": x, "code": code, "number": np.where(y == "ill", 4, 7), "y": y})


def test_copies_of_classes_are_found(classes, rng):
    assert list(found(classes)) == ["code", "number"]
    # one row of another class is enough for a measurement
    one = classes.copy()
    one.loc[3, "code"] = "Z00" if one.loc[3, "y"] == "ill" else "C50"
    assert list(found(one)) == ["number"]
    # also far down in the table, and with missing cells
    many = pd.concat([classes] * 20, ignore_index=True).assign(x=rng.normal(size=20 * N))
    many.loc[1100, "number"] = 4 + 7 - many.loc[1100, "number"]
    assert list(found(many)) == ["code"]
    # in a table that is sorted by class the first rows have one class
    copy = many.assign(copy=np.where(many["y"] == "ill", 1, 2)).sort_values("y", ignore_index=True)
    assert list(found(copy)) == ["code", "copy"]
    gaps = classes.copy()
    gaps.loc[:9, "code"] = None
    assert list(found(gaps, missing="impute")) == ["code", "number"]


def test_measurements_give_nothing_away(classes, rng):
    y = classes["y"] == "ill"
    frame = pd.DataFrame(
        {
            # values of their own tell every class of rows that are known, and nothing of others
            "own": np.arange(N) * 0.7,
            "names": [f"p{k}" for k in range(N)],
            # perfectly separated, as good measurements can be
            "separated": np.where(y, 10.0, 0.0) + rng.normal(size=N),
            "constant": 1.0,
            "one class only": np.where(y, "a", None),
            # nor do values of which few rows are known
            "mostly missing": [f"{one} {k % 4}" if k < 16 else None for k, one in enumerate(y)],
            "y": classes["y"],
        }
    )
    assert found(frame, missing="impute") == {}
    assert found(classes.head(19)) == {}
    for load in (load_breast_cancer, load_iris, load_wine, load_diabetes):
        data = load(as_frame=True)
        assert found(data.data.assign(y=data.target)) == {}


def test_few_columns_are_named_and_others_counted():
    for n in (SHOWN, SHOWN + 2):
        said = _listed({f"c{k}": "why" for k in range(n)})
        assert said.count(": why") == SHOWN
        assert said.endswith("; and 2 more") == (n > SHOWN)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_one_column_and_several_are_told_in_words_of_their_own(n, monkeypatch):
    names = {f"c{k}": "why" for k in range(n)}
    monkeypatch.setattr(doubts, "find_giveaways", lambda table: names | {"id": "why"})
    told = doubts.doubts_of_table(SimpleNamespace(row_names_read=names, row_names=("id",)))
    assert list(told) == (["row names", "giveaways"] if n else [])
    for name, start in (("row names", "look"), ("giveaways", "tell")):
        if n:
            [sentence] = told[name].sentences
            assert sentence.text.startswith(f"A column {start}s " if n == 1 else f"2 columns {start} ")
            assert f"eave {'it' if n == 1 else 'them'} out (`drop`)" in sentence.text
            assert "(c0: why" in sentence.text.replace("'", "")
            [cited] = sentence.numbers
            assert cited.value == n


def test_other_units_of_a_number_are_found(rng):
    y = rng.normal(70.0, 10.0, 700)
    frame = pd.DataFrame(
        {"pounds": y / 0.45359237, "less": 3.0 - y, "near": y + 0.01 * rng.normal(size=700), "y": y}
    )
    assert list(found(frame)) == ["pounds", "less"]
    # rows that do not differ in the target begin the table
    flat = pd.concat([frame.assign(y=1.0, pounds=1.0 / 0.45359237, less=2.0)[:600], frame], ignore_index=True)
    assert list(found(flat)) == ["pounds", "less"]
    # the first rows alone do not decide
    frame.loc[650, "pounds"] += 1.0
    assert list(found(frame)) == ["less"]
    frame.loc[3, "less"] = np.nan
    assert found(frame, missing="impute") == {}


def test_they_are_told_and_not_left_out(classes, tmp_path, capsys):
    advised = recommend(Joined(classes, {}, {}, {}), Spec(target="y"))
    assert "drop" not in [one.setting for one in advised.advice]
    said = "2 columns tell the target of every row ('code': each of its values has rows of one class only"
    assert advised.warnings[0].startswith(said)
    path, out = tmp_path / "table.csv", tmp_path / "run"
    classes.to_csv(path, index=False)
    assert run(["fit", str(path), "--target", "y", "--alphas", "3", "--cv", "2", "--out", str(out)]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    assert json.loads((out / "evidence.json").read_text())["giveaways"]["sentences"][0]["text"].startswith(
        said
    )
