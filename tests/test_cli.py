"""The command line: every command on real input, every bad input with its one line.

Modules: `cli`, `cli/app`, `cli/arguments`, `cli/console`, `cli/learning`, `cli/options`, `cli/papers`, `cli/using`.
"""

import datetime
import errno
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.datasets import load_diabetes, load_wine

pytest.importorskip("cyclopts")
pytest.importorskip("jinja2")

import kernelweave as kw
from kernelweave import inspection
from kernelweave_app.cli import main
from kernelweave_app.runs.fitting import fits_plainly
from kernelweave_app.runs.formats import read_table
from kernelweave_app.runs.spec import Spec, read_spec
from kernelweave_papers import EXPERIMENTS

#: Of the many runs here few are looked at: those with the mark `drawn`.
pytestmark = pytest.mark.usefixtures("undrawn")

FAST = ["--alphas", "6", "--cv", "3"]


@pytest.fixture
def wine(tmp_path):
    frame = load_wine(as_frame=True).frame.sample(90, random_state=0)
    frame["target"] = frame["target"].map({0: "barolo", 1: "grignolino", 2: "barbera"})
    frame["cellar"] = np.where(np.arange(len(frame)) % 3 == 0, "north", "south")
    path = tmp_path / "wine.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def diabetes(tmp_path):
    frame = load_diabetes(as_frame=True).frame.iloc[:120].copy()
    frame["weight"] = np.linspace(0.5, 2.0, len(frame))
    frame["clinic"] = np.arange(len(frame)) // 6
    path = tmp_path / "diabetes.tsv.gz"
    frame.to_csv(path, sep="\t", index=False)
    return path


def test_an_option_given_several_times_is_a_list():
    """All of them count, and a comma is part of a name; of one text commas are between names."""
    from kernelweave_app.cli.options import final_spec, fit_options

    given = fit_options()(drop=["a, b", "c"], join=["x.csv,y.csv"])
    spec = final_spec(given, None)
    assert spec.drop == ["a, b", "c"]
    assert spec.join == "x.csv,y.csv"


def test_lines_about_progress_say_how_long_it_takes(monkeypatch, capsys):
    from kernelweave_app.cli import console

    now = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with console.Steps("path", 30) as steps:
        for later in (4.0, 1.5, 1.0, 4.0, 200.0):
            now[0] += later
            steps.advance()
        steps.show(30, 30)
    # lines are more than five seconds apart: 2 steps in 5.5 s, and 5 in 210.5 s; the last one is not worth a line
    assert capsys.readouterr().out.splitlines() == [
        "path: 2 of 30 steps, about 77 s left", "path: 5 of 30 steps, about 18 min left",
    ]  # fmt: skip
    console.print_table(("name", "value"), [("[b]", 0.123456), ("c", 12)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["[b]", "0.1235"],
        ["c", "12"],
    ]


def test_names_of_pictures_and_ends_of_blocks():
    from kernelweave_app.cli.arguments import block_ends
    from kernelweave_app.cli.paths import _pictures

    assert _pictures([None]) == ["path.svg"]
    assert _pictures(["a b", "a/b", "c"]) == ["path-a_b-1.svg", "path-a_b-2.svg", "path-c.svg"]
    assert [block_ends(text) for text in ("3, 7,9", "views.toml", "")] == [[3, 7, 9], "views.toml", None]


@pytest.mark.drawn
def test_fit_writes_a_whole_run(wine, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["fit", str(wine), "--target", "target", "--out", str(out), *FAST]) == 0
    text = capsys.readouterr().out
    assert text.index("Found") < text.index("Task: classification") < text.index("Wrote")
    names = {
        "model.skops",
        "report.html",
        "predictions.csv",
        "spec.toml",
        "script.py",
        "lineage.json",
        "evidence.json",
    }
    assert {p.name for p in out.iterdir()} == names
    model = kw.load(out / "model.skops")
    assert model.rel_gap_ <= 1e-8
    held = pd.read_csv(out / "predictions.csv")
    assert len(held) == 18
    rows = pd.read_csv(wine).loc[held["row"]]
    assert (held["truth"].to_numpy() == rows["target"].to_numpy()).all()
    assert "Fitting on 72 rows, 18 held out." in text
    right = held["truth"] == held["prediction"]
    ends = binomtest(int(right.sum()), len(held)).proportion_ci(method="wilson")
    said = f"Held-out: accuracy {right.mean():.2f} (95 % interval {ends.low:.2f} to {ends.high:.2f}), "
    assert said in " ".join(text.split())
    told = f"objective {model.objective_:.6g}, at most {model.rel_gap_:.1e} of it above the optimum"
    assert told in " ".join(text.split())
    assert (held["prediction"].to_numpy() == model.predict(rows[model.feature_names_in_])).all()
    assert (out / "report.html").read_text("utf8").count("<path") > 100  # figures are drawn


@pytest.fixture
def two_tables(diabetes, tmp_path):
    """Halves of the columns, in another order, with rows and a cell that only one of them has."""
    frame = pd.read_csv(diabetes, sep="\t").assign(patient=[f"p{k:03d}" for k in range(120)])
    frame["held"] = np.where(np.arange(120) % 5 == 0, "Test", "train")
    body = frame[["patient", "age", "sex", "bmi", "bp", "weight"]].sample(frac=1, random_state=0)
    body.iloc[3, 3] = np.nan
    body.iloc[:110].to_csv(tmp_path / "body.csv", index=False)
    serum = frame[["s1", "s2", "s3", "weight", "patient", "held", "target"]]
    serum.iloc[8:].to_parquet(tmp_path / "serum.parquet", index=False)
    return tmp_path / "body.csv", tmp_path / "serum.parquet"


def test_kernels_that_are_fitted_on_rows(wine, tmp_path, capsys):
    out = tmp_path / "run"
    asked = "rbf(gamma='median').prepared('standardize'); laplacian(gamma=scale).on(['ash', 'hue'])"
    given = ["--target", "target", "--kernels", asked, "--out", str(out)]
    assert main(["fit", str(wine), *given, *FAST]) == 0
    model = kw.load(out / "model.skops")
    rules = [kw.kernels.parse(text.strip()) for text in asked.split(";")]
    assert model.kernels_ == [rule.fitted(model.model_.source.table) for rule in rules]
    assert model.kernel_names_[0] in (out / "report.html").read_text()
    assert "prepared" in (out / "script.py").read_text()
    assert main(["fit", str(wine), "--target", "target", "--kernels", "rbf(gamma='mean')", "--out", "x"]) != 0
    assert "'median' or 'scale'" in capsys.readouterr().err


def test_kernels_of_banks_carry_the_names_of_their_columns(tmp_path, capsys):
    """Also where a name looks like the position of another column."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["x1", "x2", "x3"])
    frame["y"] = frame["x3"] + 0.01 * rng.normal(size=60)
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "run"
    more = ["--target", "y", "--kernels", "linear_features", "--out", str(out)]
    assert main(["fit", str(tmp_path / "t.csv"), *more, *FAST]) == 0
    model = kw.load(out / "model.skops")
    assert list(model.kernel_names_) == ["Linear on x1", "Linear on x2", "Linear on x3"]
    assert kw.inspection.kernel_weights(model).names[0] == "Linear on x3"
    assert "Linear on x3" in capsys.readouterr().out
    assert "Linear on x3" in (out / "report.html").read_text()


@pytest.fixture
def prostate(tmp_path):
    """97 rows of which a column `train` marks 67, by T and F."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(97, 3)), columns=["lcavol", "lweight", "age"])
    frame["lpsa"] = frame["lcavol"] + 0.1 * rng.normal(size=97)
    frame["train"] = np.where(rng.permutation(97) < 67, "T", "F")
    path = tmp_path / "prostate.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("swapped", [False, True])
def test_a_column_called_train_names_the_rows_to_train_on(prostate, swapped, tmp_path, capsys):
    """Or, where its other value is listed, the other ones: fit, files, script and a fit with these settings agree."""
    out, again = tmp_path / "run", tmp_path / "again"
    fit = ["fit", str(prostate), "--target", "lpsa", "--kernels", "linear", "--alphas", "2", "--cv", "2"]
    more = ["--holdout-values", "T"] if swapped else []
    assert main([*fit, "--holdout", "train", *more, "--out", str(out)]) == 0
    said = "67 rows held out, 30 to train on" if swapped else "30 rows held out, 67 to train on"
    assert said in capsys.readouterr().out
    rows = pd.read_csv(out / "predictions.csv")["row"]
    table = pd.read_csv(prostate)
    assert set(table.loc[rows, "train"]) == ({"T"} if swapped else {"F"})
    assert main(["fit", str(prostate), "--spec", str(out / "spec.toml"), "--out", str(again)]) == 0
    assert said in capsys.readouterr().out
    pd.testing.assert_series_equal(pd.read_csv(again / "predictions.csv")["row"], rows)
    space: dict = {}
    exec(compile((out / "script.py").read_text(), "script.py", "exec"), space)
    np.testing.assert_array_equal(space["test"], rows)


def test_values_of_held_out_rows_are_those_of_their_column(tmp_path):
    from kernelweave_app.cli.options import final_spec, fit_options

    file = tmp_path / "spec.toml"
    file.write_text('target = "y"\nholdout = "part"\nholdout_values = ["a", "b"]\n')
    assert final_spec(fit_options()(holdout="train"), file).holdout_values == ""
    assert final_spec(fit_options()(holdout="part"), file).holdout_values == ["a", "b"]
    assert final_spec(fit_options()(holdout="train", holdout_values=["F"]), file).holdout_values == "F"


CASES = [
    "classes",
    "views",
    "banks",
    "random splits",
    "gene sets",
    "arrays",
    "decimal commas",
    "separators at the end",
    "transductive",
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES)
def test_the_script_makes_the_same_model(case, wine, diabetes, tmp_path):
    out = tmp_path / "run"
    (tmp_path / "sets.gmt").write_text("BODY\tsome text\tage\tnot here\tbp\nSERUM\t\ts1\ts2\nNONE\t\tx\n")
    frame = pd.read_csv(diabetes, sep="\t")
    np.savez(tmp_path / "a.npz", body=frame[["age", "bp"]], s=frame[["s1", "s2"]], target=frame["target"])
    (tmp_path / "views.toml").write_text('[views]\nbody = ["age", "sex", "b*"]\nserum = ["s?"]\n')
    frame.to_csv(tmp_path / "commas.csv", index=False, sep=";", decimal=",")
    header, *rows = frame.to_csv(index=False).splitlines()
    (tmp_path / "ends.csv").write_text("\n".join([header, *(f"{row}," for row in rows)]))
    arguments = {
        "classes": [str(wine), "--balanced", "--rule", "1se", "--normalize", "trace"],
        "views": [
            str(diabetes),
            "--views",
            str(tmp_path / "views.toml"),
            "--drop",
            "weight,clinic",
            "--no-intercept",
        ],
        "banks": [str(diabetes), "--kernels", "linear-features", "--test-size", "0", "--alphas", "0.1:100:5"],
        "random splits": [str(wine), "--splits", "random", "--repeats", "2", "--no-stratify"],
        "gene sets": [str(diabetes), "--views", str(tmp_path / "sets.gmt"), "--repeats", "2"],
        "arrays": [str(tmp_path / "a.npz"), "--kernels", "linear"],
        "decimal commas": [str(tmp_path / "commas.csv"), "--kernels", "linear"],
        "separators at the end": [str(tmp_path / "ends.csv"), "--kernels", "linear"],
        "transductive": [str(wine), "--normalize", "center", "--transductive"],
    }[case]
    table, rest = arguments[0], arguments[1:]
    fast = FAST[2:] if "--alphas" in rest else FAST
    assert main(["fit", table, "--target", "target", "--out", str(out), *fast, *rest]) == 0
    model = kw.load(out / "model.skops")
    space: dict = {}
    exec(compile((out / "script.py").read_text(), "script.py", "exec"), space)
    again = space["model"]
    np.testing.assert_allclose(again.normalizers_[0].scale, model.normalizers_[0].scale, rtol=1e-12)
    np.testing.assert_allclose(again.weights_, model.weights_, atol=1e-10)
    X = space["X"]
    given, new = model.predict(X), again.predict(X)
    if given.dtype.kind == "f":
        np.testing.assert_allclose(new, given, rtol=1e-10)
    else:
        assert (new == given).all()


def test_tables_are_joined_by_a_key(two_tables, tmp_path, capsys):
    body, serum = map(str, two_tables)
    out = tmp_path / "run"
    fit = ["fit", body, "--join", serum, "--target", "target", "--out", str(out), *FAST]
    assert main(fit) == 2
    assert "key" in capsys.readouterr().err
    assert main([*fit, "--key", "age"]) == 2
    assert "There is no column 'age' for the key" in capsys.readouterr().err
    assert main([*fit, "--key", "patient", "--drop", "held", "--missing", "drop", "--nested", "3"]) == 0
    text = capsys.readouterr().out
    # 120 patients, of which one table has 110 and the other 112; one of the rows left has no blood pressure
    assert "Table body does not have 10 rows" in text or "Table body does not have 9 rows" in text
    assert "Table serum does not have" in text
    assert "Left out 1 rows with missing values." in text
    assert "View body: 5 columns." in text
    assert "In nested cross-validation, which repeats the whole fit in 3 folds without the rows" in text
    assert "Nested cross-validation" in (out / "report.html").read_text()


def test_new_tables_are_joined_as_those_of_the_run(two_tables, tmp_path, capsys):
    body, serum = two_tables
    run, out = tmp_path / "run", tmp_path / "p.csv"
    fit = [
        "fit",
        str(body),
        "--join",
        str(serum),
        "--key",
        "patient",
        "--target",
        "target",
        "--out",
        str(run),
    ]
    assert main([*fit, "--drop", "held", "--missing", "drop", *FAST]) == 0
    held = pd.read_csv(run / "predictions.csv")
    assert list(held) == ["row", "patient", "prediction", "low", "high", "truth"]
    whole = pd.merge(pd.read_csv(body), pd.read_parquet(serum), on="patient", suffixes=(".body", ".serum"))
    whole = whole.set_index("patient").rename(
        columns={"weight.body": "body.weight", "weight.serum": "serum.weight"}
    )
    np.testing.assert_allclose(whole["target"][held["patient"]], held["truth"])
    # both have the column weight; other names, another order, and one more column in common
    whole = whole.dropna()
    first = pd.read_csv(body).dropna().sample(frac=1, random_state=1)
    second = pd.read_parquet(serum).drop(columns=["target", "held"])
    first.assign(note=1).to_csv(tmp_path / "body-2.csv", index=False)
    second.assign(note=2, age=3).to_csv(tmp_path / "serum-2.csv", index=False)
    second.drop(columns="weight").to_csv(tmp_path / "less.csv", index=False)
    first.to_csv(tmp_path / "x1.csv", index=False)
    second.to_csv(tmp_path / "x2.csv", index=False)
    model = kw.load(run / "model.skops")
    for one, two in (("body-2", "serum-2"), ("serum-2", "body-2"), ("x1", "x2"), ("x2", "x1")):
        new = [str(tmp_path / f"{name}.csv") for name in (one, two)]
        capsys.readouterr()
        assert main(["predict", str(run), new[0], "--join", new[1], "--out", str(out)]) == 0
        assert "is used for serum of the run" in capsys.readouterr().out
        found = pd.read_csv(out).set_index("patient")
        expected = model.predict(whole.loc[found.index, list(model.feature_names_in_)])
        np.testing.assert_allclose(found["prediction"], expected, rtol=1e-10)
    assert main(["evaluate", str(run), str(body), "--join", str(serum), "--target", "target"]) == 2
    assert "missing" in capsys.readouterr().err
    new = [str(tmp_path / "body-2.csv"), "--out", str(out)]
    assert main(["predict", str(run), *new, "--join", str(tmp_path / "less.csv")]) == 2
    assert "used for 'serum' of the run, has no column 'weight'" in capsys.readouterr().err
    assert main(["predict", str(run), *new]) == 2
    assert "learnt from 2 tables (body, serum), but 1 (body-2) was given" in capsys.readouterr().err
    assert main(["predict", str(run), *new, "--join", str(tmp_path / "x2.csv"), "--key", "id"]) == 2
    assert "There is no column 'id' for the key" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.drawn
def test_cells_that_look_like_formulas_are_text_to_a_spreadsheet(wine, tmp_path):
    frame = pd.read_csv(wine)
    frame["target"] = frame["target"].map({"barolo": "=1+1", "grignolino": "@x", "barbera": "-3"})
    frame.to_csv(wine, index=False)
    assert main(["fit", str(wine), "--target", "target", "--out", str(tmp_path / "run"), *FAST]) == 0
    held = pd.read_csv(tmp_path / "run" / "predictions.csv", dtype=str)
    assert set(held["truth"]) == {"'=1+1", "'@x", "-3"}
    assert not any(name.startswith(("=", "@")) for name in held.columns)


def test_predict_evaluate_and_spec(diabetes, tmp_path, capsys):
    run, again = tmp_path / "run", tmp_path / "again"
    fit = ["fit", str(diabetes), "--target", "target", "--drop", "weight,clinic", "--out", str(run), *FAST]
    assert main(fit) == 0
    assert main(["predict", str(run), str(diabetes), "--out", str(tmp_path / "p.csv"), "--std"]) == 0
    frame = pd.read_csv(tmp_path / "p.csv")
    table = pd.read_csv(diabetes, sep="\t")
    mean, std = kw.load(run / "model.skops").predict(table.iloc[:, :10], return_std=True)
    np.testing.assert_allclose(frame["prediction"], mean, rtol=1e-12)
    np.testing.assert_allclose(frame["std"], std, rtol=1e-12)
    assert main(["evaluate", str(run / "model.skops"), str(diabetes), "--target", "target"]) == 0
    assert "R^2" in capsys.readouterr().out
    # a spec makes the same run again, and options given beside it come first
    assert (
        main(["fit", str(diabetes), "--spec", str(run / "spec.toml"), "--out", str(again), "--rule", "1se"])
        == 0
    )
    assert 'rule = "1se"' in (again / "spec.toml").read_text()
    assert kw.load(again / "model.skops").alpha_ >= kw.load(run / "model.skops").alpha_


@pytest.mark.drawn
def test_path_writes_a_table_and_pictures(wine, diabetes, tmp_path):
    out = tmp_path / "path"
    drop = ["--drop", "weight,clinic"]
    assert main(["path", str(diabetes), "--target", "target", "--out", str(out), "--alphas", "7", *drop]) == 0
    table = pd.read_csv(out / "path.csv")
    assert len(table) == 7
    assert (np.diff(table["alpha"]) < 0).all()
    head = ["alpha", "df", "df_total", "n_kernels", "gcv", "aic", "bic", "cp"]
    assert list(table.columns[:8]) == head
    np.testing.assert_allclose(table.iloc[:, 8:].sum(axis=1), 1.0)
    np.testing.assert_array_equal(table["n_kernels"], (table.iloc[:, 8:] > 0).sum(axis=1))
    # the definition, with the noise of the weakest regularisation
    free = table["df_total"]
    rss = table["gcv"] * (120 - free) ** 2 / 120
    noise = rss.iloc[-1] / (120 - free.iloc[-1])
    np.testing.assert_allclose(table["cp"], rss / noise - 120 + 2 * free, rtol=1e-9)
    assert (free >= table["df"] - 1e-9).all()
    assert (free > table["df"] + 0.1).any()
    assert (out / "path.svg").read_text().count("<svg") == 1
    assert (
        main(["path", str(wine), "--target", "target", "--out", str(tmp_path / "classes"), "--alphas", "4"])
        == 0
    )
    assert len(list((tmp_path / "classes").glob("path-*.svg"))) == 3


def test_ctrl_c_during_a_path_keeps_and_says_what_is_done(diabetes, tmp_path, capsys, monkeypatch):
    from kernelweave.mkl import solve as solver

    plain, calls = solver.newton_result, []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 8:  # the first sets up at infinity
            raise KeyboardInterrupt
        return plain(*arguments, **options)

    monkeypatch.setattr(solver, "newton_result", interrupted)
    arguments = ["path", str(diabetes), "--target", "target", "--out", str(tmp_path / "p"), "--alphas", "20"]
    assert main(arguments) == 0
    assert "Interrupted: 6 of 20 regularisation parameters are done and written." in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "p" / "path.csv")) == 6


@pytest.mark.filterwarnings("ignore:Fitting was interrupted")
@pytest.mark.parametrize("method", ["rls2", "simple"])
@pytest.mark.parametrize("step", [9, 15])
def test_the_script_of_a_fit_that_was_stopped_makes_its_model(method, step, diabetes, tmp_path, monkeypatch):
    """Stopped among the folds, or on the way to the chosen regularisation parameter: nothing is chosen again."""
    from kernelweave.learners.solving import CostLearner
    from kernelweave.mkl import solve as solver

    owner, name = (solver, "newton_result") if method == "rls2" else (CostLearner, "learn")
    plain, calls = getattr(owner, name), []

    def interrupted(*arguments, **options):
        calls.append(0)
        if len(calls) == step:
            raise KeyboardInterrupt
        return plain(*arguments, **options)

    monkeypatch.setattr(owner, name, interrupted)
    out = tmp_path / "run"
    fit = ["fit", str(diabetes), "--target", "target", "--group", "clinic", "--method", method]
    # 2 folds of 6 regularisation parameters, then the path on all rows
    values = ["--alphas" if method == "rls2" else "--cs", "0.01:100:6"]
    more = [*values, "--cv", "2", "--kernels", "linear; rbf(gamma=0.1)", "--out", str(out)]
    assert main([*fit, *more]) == 0
    assert len(calls) >= step
    model = kw.load(out / "model.skops")
    text = (out / "script.py").read_text()
    assert "stopped early" in text.splitlines()[0]
    space: dict = {}
    exec(compile(text, "script.py", "exec"), space)
    again = space["model"]
    assert again.alpha_ == pytest.approx(model.alpha_, rel=1e-14)
    np.testing.assert_allclose(again.predict(space["X"]), model.predict(space["X"]), rtol=1e-5)


def test_a_plain_fit_keeps_groups_together(tmp_path, capsys):
    """Folds, held-out rows, evidence and the script."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(30), 4)
    table = pd.DataFrame(
        rng.normal(size=(30, 3))[who] + 0.01 * rng.normal(size=(120, 3)), columns=list("abc")
    )
    table["y"] = table["a"] + rng.normal(size=30)[who]
    table["who"] = [f"patient {k}" for k in who]
    table.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "run"
    fit = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--group", "who", "--out", str(out)]
    assert main(fit) == 0
    assert "groups kept together" in capsys.readouterr().out
    how = ["--what", "learning-curve", "--what", "stability", "--sizes", "2", "--halves", "4"]
    assert main(["evidence", str(out), str(tmp_path / "t.csv"), *how]) == 0
    model = kw.load(out / "model.skops")
    space: dict = {}
    exec(compile((out / "script.py").read_text(), "script.py", "exec"), space)
    train, group = space["train"], table["who"].to_numpy()
    assert set(group[train]).isdisjoint(group[space["test"]])
    direct = kw.MKLRegressor().fit(
        table[list("abc")].iloc[train], table["y"].iloc[train], groups=group[train]
    )
    assert model.alpha_ == pytest.approx(direct.alpha_, rel=1e-9)
    for again in (model, space["model"]):
        own = again.predict_interval(table[list("abc")])
        np.testing.assert_allclose(own, direct.predict_interval(table[list("abc")]), rtol=1e-6)


@pytest.mark.full
@pytest.mark.drawn
def test_demo(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "d"), "--cv", "3", "--alphas", "8"]) == 0
    text = capsys.readouterr().out
    for line in (
        "better than the average kernel?",
        "better than the best single RBF (SVM)?",
        "than ridge?",
        "optimum",
    ):
        assert line in text
    assert (tmp_path / "d" / "report.html").exists()


def write(path, text):
    path.write_text(text)
    return str(path)


BAD = {
    "no such file": (lambda t, w: ["fit", str(t / "no.csv"), "--target", "y"], "There is no file"),
    "a folder": (lambda t, w: ["fit", str(t), "--target", "y"], "is a folder"),
    "not a table": (lambda t, w: ["fit", write(t / "x.parquet", "text"), "--target", "y"], "cannot be read"),
    "binary": (lambda t, w: ["fit", _binary(t / "x.csv"), "--target", "y"], "byte 0 is zero"),
    "a block of zeros": (lambda t, w: ["fit", _zeroed(t / "x.csv"), "--target", "y"], "byte 40 is zero"),
    "a block of zeros, packed": (
        lambda t, w: ["fit", _zeroed(t / "x.csv.gz"), "--target", "y"],
        "byte 40 is zero",
    ),
    "no archive": (
        lambda t, w: ["fit", write(t / "x.csv.xz", "a,y"), "--target", "y"],
        "cannot be read as a table",
    ),
    "lists in cells": (lambda t, w: _parquet(t, a=[[k, k] for k in range(20)]), "'a' holds ndarray"),
    "lists as a target": (lambda t, w: _parquet(t, y=[[k] for k in range(20)]), "'y' holds ndarray"),
    "bytes in cells": (lambda t, w: _parquet(t, a=[b"\xff"] * 20), "'a' holds bytes"),
    "dates and text in cells": (
        lambda t, w: _parquet(t, a=[datetime.time(1, 2)] * 20),
        "numbers, text or dates, but column 'a' holds time",
    ),
    "dates as a target": (lambda t, w: _parquet(t, y=pd.date_range("2020", periods=20)), "days since"),
    "a structure": (
        lambda t, w: ["fit", _structure(t / "x.npz"), "--target", "y"],
        "array 'a' holds [('f', '<f8')]",
    ),
    "huge targets": (
        lambda t, w: _parquet(t, y=np.linspace(0.0, 1.7e308, 20)),
        "column 'y' has numbers beyond",
    ),
    "huge features": (
        lambda t, w: _parquet(t, a=np.linspace(1e101, 2e101, 20)),
        "column 'a' has numbers beyond 1e+100",
    ),
    "empty": (lambda t, w: ["fit", write(t / "x.csv", "a,y\n"), "--target", "y"], "no rows"),
    "more fields than names": (
        lambda t, w: ["fit", write(t / "x.csv", "a,b,y\n1,2,x,9\n2,3,z,9\n"), "--target", "y"],
        "rows with 4 fields, but names for 3 columns",
    ),
    "more fields in some rows": (
        lambda t, w: ["fit", write(t / "x.csv", "a,b,y\n1,2,x,\n2,3,z,9\n"), "--target", "y"],
        "rows with 4 fields, but names for 3 columns",
    ),
    "columns of one name": (
        lambda t, w: ["fit", write(t / "x.csv", "a,a,y\n1,2,x\n2,3,z\n"), "--target", "y"],
        "columns of the same name: 'a'",
    ),
    "arrays of one name": (
        lambda t, w: ["fit", _arrays(t / "x.npz"), "--target", "y"],
        "columns of the same name: 'X.0'",
    ),
    "two kinds of decimals": (
        lambda t, w: ["fit", write(t / "x.csv", "a;b;y\n1,5;2.5;x\n2,5;3.5;z\n"), "--target", "y"],
        "decimal commas",
    ),
    "further rows for a rule without factors": (
        lambda t, w: ["fit", str(w), "--target", "target", "--transductive", "--normalize", "cosine"],
        "--transductive is for mean-diagonal, trace, norm, center",
    ),
    "further rows where none are held out": (
        lambda t, w: ["path", str(w), "--target", "target", "--out", str(t / "path"), "--transductive"],
        "needs held-out rows",
    ),
    "no target given": (lambda t, w: ["fit", str(w)], "the target"),
    "no such target": (lambda t, w: ["fit", str(w), "--target", "targte"], "Did you mean 'target'"),
    "missing targets": (
        lambda t, w: ["fit", write(t / "x.csv", "a,y\n1,2\n2,\n3,4\n"), "--target", "y"],
        "missing values",
    ),
    "constant target": (
        lambda t, w: [
            "fit",
            write(t / "x.csv", "a,y\n" + "1,5\n2,5\n" * 9),
            "--target",
            "y",
            "--task",
            "regression",
        ],
        "is constant",
    ),
    "one class": (
        lambda t, w: ["fit", write(t / "x.csv", "a,y\n" + "1,b\n2,b\n" * 9), "--target", "y"],
        "one class",
    ),
    "one row": (lambda t, w: ["fit", write(t / "x.csv", "a,y\n1,2\n"), "--target", "y"], ""),
    "infinity": (
        lambda t, w: ["fit", write(t / "x.csv", "a,y\n" + "inf,1\n2,2.5\n" * 9), "--target", "y"],
        "infinity",
    ),
    "missing cells": (
        lambda t, w: ["fit", write(t / "x.csv", "a,b,y\n" + "1,,1\n2,3,2.5\n" * 9), "--target", "y"],
        "NaN",
    ),
    "text in regression": (
        lambda t, w: ["fit", str(w), "--target", "cellar", "--task", "regression"],
        "holds text",
    ),
    "unknown method": (
        lambda t, w: ["fit", str(w), "--target", "target", "--method", "rls"],
        "Did you mean 'rls2'",
    ),
    "unknown bank": (
        lambda t, w: ["fit", str(w), "--target", "target", "--kernels", "rls3"],
        "Did you mean 'rls2'",
    ),
    "unknown kernel": (
        lambda t, w: ["fit", str(w), "--target", "target", "--kernels", "rbff(gamma=1)"],
        "rbff",
    ),
    "bad gamma": (lambda t, w: ["fit", str(w), "--target", "target", "--kernels", "rbf(gamma=-1)"], "gamma"),
    "unknown normaliser": (
        lambda t, w: ["fit", str(w), "--target", "target", "--normalize", "tracee"],
        "'trace'",
    ),
    "unknown scorer": (
        lambda t, w: ["fit", str(w), "--target", "target", "--scoring", "acuracy"],
        "'accuracy'",
    ),
    "a score for two classes": (
        lambda t, w: ["fit", str(w), "--target", "target", "--scoring", "roc_auc"],
        "'roc_auc' does not work for classification with 3 classes",
    ),
    "a score for numbers": (
        lambda t, w: ["fit", str(w), "--target", "hue", "--scoring", "f1"],
        "'f1' does not",
    ),
    "a score that a fold has no classes for": (
        lambda t, w: [
            *(
                "fit",
                write(t / "x.csv", "a,y\n" + "1,p\n2,q\n3,q\n" * 9),
                "--target",
                "y",
                "--test-size",
                "0",
            ),
            *("--scoring", "roc_auc", "--no-stratify", "--cv", "20"),
        ],
        "has 1 of 2 classes",
    ),
    "held-out rows by values that say neither": (
        lambda t, w: ["fit", str(w), "--target", "target", "--holdout", "cellar"],
        "expected train and test",
    ),
    "a column that holds out every row": (
        lambda t, w: [
            "fit",
            str(w),
            "--target",
            "target",
            "--holdout",
            "cellar",
            "--holdout-values=north,south",
        ],
        "holds out all rows: its values are south (60 rows), north (30 rows)",
    ),
    "infinity in a held-out row": (lambda t, w: _held(t, "inf"), "infinity"),
    "a missing cell in a held-out row": (lambda t, w: _held(t, ""), "NaN"),
    "infinite target": (
        lambda t, w: ["fit", write(t / "x.csv", "a,y\n" + "1,1.5\n2,inf\n3,4.5\n" * 9), "--target", "y"],
        "The target must be finite",
    ),
    "one class left to learn from": (lambda t, w: _held(t, "5", "1,u"), "are all of class 'u'"),
    "one group": (
        lambda t, w: [
            *("fit", write(t / "x.csv", "a,y,g\n" + "1,u,1\n2,v,1\n" * 9), "--target", "y"),
            *("--group", "g"),
        ],
        "No rows can be held out",
    ),
    "a class of one row": (
        lambda t, w: ["fit", write(t / "x.csv", "a,y\n" + "1,u\n2,v\n" * 9 + "3,w\n"), "--target", "y"],
        "No rows can be held out",
    ),
    "negative weights": (
        lambda t, w: _weighted(t, "-1"),
        "finite nonnegative numbers in a 1D array, got 9 numbers < 0",
    ),
    "missing weights": (lambda t, w: _weighted(t, ""), "got 9 NaN"),
    "infinite weights": (lambda t, w: _weighted(t, "inf"), "got 0 NaN and 9 infinity"),
    "weights of zero": (lambda t, w: _weighted(t, "0", "0"), "got only zeros"),
    "weights of one class": (lambda t, w: _weighted(t, "0"), "are all of class"),
    "no jobs": (lambda t, w: ["fit", str(w), "--target", "target", "--jobs", "0"], "--jobs"),
    "no such device": (
        lambda t, w: ["fit", str(w), "--target", "target", "--method", "deep-uniform", "--device", "quantum"],
        "--device",
    ),
    "unknown solver": (lambda t, w: ["fit", str(w), "--target", "target", "--solver", "newtn"], "'newton'"),
    "negative alpha": (lambda t, w: ["fit", str(w), "--target", "target", "--alphas", "-1.0,2"], "alphas"),
    "text alphas": (
        lambda t, w: ["fit", str(w), "--target", "target", "--alphas", "many"],
        "'low:high:number'",
    ),
    "bad rule": (lambda t, w: ["fit", str(w), "--target", "target", "--rule", "best"], "rule"),
    "bad share": (
        lambda t, w: ["fit", str(w), "--target", "target", "--test-size", "1.5"],
        "--test-size must be",
    ),
    "theta": (
        lambda t, w: ["fit", str(w), "--target", "target", "--theta", "7"],
        "--theta must be a number > 0 and <= 1, got 7.0.",
    ),
    "step of another learner": (
        lambda t, w: ["fit", str(w), "--target", "target", "--method", "rkl", "--step", "adam"],
        "--step must be 'auto', 'newton', 'spectral' or 'armijo', got 'adam'.",
    ),
    "class weights": (
        lambda t, w: ["fit", str(w), "--target", "target", "--class-weights", "0=x"],
        "--class-weights must be like 'ill=5, well=1' with weights > 0, got '0=x'",
    ),
    "class weights of another class": (
        lambda t, w: ["fit", str(w), "--target", "target", "--class-weights", "5=2"],
        "Unknown class '5'",
    ),
    "two kinds of class weights": (
        lambda t, w: ["fit", str(w), "--target", "target", "--class-weights", "0=2", "--balanced"],
        "exclude each other",
    ),
    "probabilities of numbers": (
        lambda t, w: ["fit", str(w), "--target", "ash", "--probabilities", "platt"],
        "--probabilities is for classes",
    ),
    "unknown option": (lambda t, w: ["fit", str(w), "--traget", "target"], "traget"),
    "unknown column to drop": (
        lambda t, w: ["fit", str(w), "--target", "target", "--drop", "colour"],
        "the columns to leave out",
    ),
    "no views file": (
        lambda t, w: ["fit", str(w), "--target", "target", "--views", str(t / "v.toml")],
        "no views file",
    ),
    "broken views": (
        lambda t, w: ["fit", str(w), "--target", "target", "--views", write(t / "v.toml", "[views")],
        "TOML",
    ),
    "empty views": (
        lambda t, w: ["fit", str(w), "--target", "target", "--views", write(t / "v.toml", "a = 1")],
        "[views]",
    ),
    "views without columns": (
        lambda t, w: [
            "fit",
            str(w),
            "--target",
            "target",
            "--views",
            write(t / "v.toml", '[views]\na = ["rna*"]'),
        ],
        "no column matches 'rna*'",
    ),
    "unknown setting": (
        lambda t, w: ["fit", str(w), "--spec", write(t / "s.toml", 'target = "target"\nfolds = 3')],
        "folds",
    ),
    "memory": (lambda t, w: ["fit", str(w), "--target", "target", "--max-memory", "lots"], "2GB"),
    "no model": (lambda t, w: ["predict", str(t / "run"), str(w), "--out", str(t / "p.csv")], "no model"),
    "not a model": (
        lambda t, w: ["predict", write(t / "m.skops", "x"), str(w), "--out", str(t / "p.csv")],
        "not a model",
    ),
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--method", "simple", "--alphas", "1,0.1"], "has a C, which is 1 / alpha. Write --cs 1,10."),
        (["--method", "simple", "--alphas", "0.1"], "Write --cs 10.0."),
        (["--method", "simple", "--alphas", "0.01:10:7"], "Write --cs 0.1:100:7."),
        (["--method", "simple", "--alphas", "12"], "Write --cs 12."),
        (
            ["--kernels", "linear", "--cs", "1,10"],
            "rls2 has an alpha. Write --alphas, such as --alphas 0.1,1,10.",
        ),
        (["--method", "simple", "--cs", "1,0"], "--cs must be"),
        (["--method", "simple", "--cs", "1,ten"], "--cs must be"),
    ],
)
def test_values_of_another_regularisation_parameter_are_refused(given, said, wine, tmp_path, capsys):
    assert main(["fit", str(wine), "--target", "target", *given, "--out", str(tmp_path / "run")]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_a_plain_fit_is_that_of_python(kind, wine, diabetes, tmp_path, capsys):
    """The same kernels, learner, regularisation and predictions, also from the script and from saved settings."""
    path = wine if kind == "classes" else diabetes
    table = read_table(str(path))
    X, y = table.drop(columns="target"), table["target"].to_numpy()
    out = tmp_path / "run"
    fit = ["fit", str(path), "--target", "target", "--test-size", "0"]
    assert main([*fit, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    model = kw.load(out / "model.skops")
    plain = (kw.MKLClassifier() if kind == "classes" else kw.MKLRegressor()).fit(X, y)
    assert type(model) is type(plain)
    assert list(model.kernel_names_) == list(plain.kernel_names_)
    now, wanted = model.model_.learner, plain.model_.learner
    assert type(now) is type(wanted)
    assert now.get_params() == wanted.get_params()
    assert model.alpha_ == plain.alpha_
    decide = "decision_function" if kind == "classes" else "predict"
    values = getattr(plain, decide)(X)
    np.testing.assert_array_equal(getattr(model, decide)(X), values)
    assert f"Learner: {'lp' if kind == 'classes' else 'rls2'}, as a plain fit chooses." in said
    text = (out / "script.py").read_text()
    assert "learner = None" in text
    assert "CV(" not in text
    space: dict = {}
    exec(compile(text, "script.py", "exec"), space)
    np.testing.assert_array_equal(getattr(space["model"], decide)(X), values)
    saved = read_spec(out / "spec.toml")
    assert saved["method"] == "default"
    assert fits_plainly(Spec(**saved))


def test_folds_of_ones_own_make_a_path_of_the_default_learner(wine, tmp_path):
    given = ["fit", str(wine), "--target", "target", "--cv", "3", "--cs", "1,10", "--p", "1.5"]
    assert main([*given, "--out", str(tmp_path / "run")]) == 0
    model = kw.load(tmp_path / "run" / "model.skops")
    assert type(model) is kw.MKLClassifierCV
    assert list(model.Cs_) == [1.0, 10.0]
    assert model.model_.learner.p == 1.5


def test_a_path_of_a_learner_with_a_C(wine, tmp_path, capsys):
    out = tmp_path / "path"
    given = ["--target", "target", "--kernels", "linear; rbf(gamma=0.1)", "--out", str(out)]
    assert main(["path", str(wine), *given, "--method", "uniform", "--cs", "4,1"]) == 0
    table = pd.read_csv(out / "path.csv")
    assert list(table.columns[:3]) == ["class", "C", "alpha"]
    np.testing.assert_allclose(table["C"], [1.0, 4.0] * 3)
    np.testing.assert_allclose(table["alpha"], 1.0 / table["C"])
    assert "C from 1 to 4" in capsys.readouterr().out


def test_settings_of_other_learners_are_named(wine, tmp_path, capsys):
    fit = [
        "fit",
        str(wine),
        "--target",
        "target",
        "--cs",
        "2",
        "--cv",
        "2",
        "--kernels",
        "linear; rbf(gamma=1)",
    ]
    run = [*fit, "--method", "silp", "--solver", "newton", "--theta", "0.3", "--out", str(tmp_path / "run")]
    assert main(run) == 0
    assert "Not used by silp: solver, theta." in capsys.readouterr().out
    run = [*fit, "--method", "rkl", "--step", "armijo", "--tol", "1e-3", "--out", str(tmp_path / "other")]
    assert main(run) == 0
    assert "Not used" not in capsys.readouterr().out
    assert "step='armijo'" in (tmp_path / "other" / "script.py").read_text()


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_probabilities(wine, tmp_path, capsys, method):
    run = tmp_path / "run"
    fit = [
        "fit",
        str(wine),
        "--target",
        "target",
        "--kernels",
        "linear; rbf(gamma=0.1)",
        "--cs",
        "3",
        "--cv",
        "3",
    ]
    weights = ["--class-weights", "barbera=2, grignolino=1.5"]
    assert main([*fit, "--probabilities", method, *weights, "--method", "simple", "--out", str(run)]) == 0
    out = capsys.readouterr().out
    assert "log loss" in out
    assert "Brier score" in out
    table = pd.read_csv(run / "predictions.csv")
    shares = table[[f"probability {c}" for c in ("barbera", "barolo", "grignolino")]].to_numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-9)
    assert (
        np.array(["barbera", "barolo", "grignolino"])[shares.argmax(axis=1)] == table["truth"]
    ).mean() > 0.9
    model = kw.load(run / "model.skops")
    assert model.class_weight == {"barbera": 2.0, "barolo": 1.0, "grignolino": 1.5}
    assert main(["predict", str(run), str(wine), "--out", str(tmp_path / "new.csv")]) == 0
    new = pd.read_csv(tmp_path / "new.csv")
    X = pd.read_csv(wine).drop(columns="target")
    np.testing.assert_allclose(new["probability barolo"], model.predict_proba(X)[:, 1], atol=1e-9)
    script = (run / "script.py").read_text()
    names = {}
    exec(compile(script, "script.py", "exec"), names)
    np.testing.assert_allclose(names["model"].predict_proba(X), model.predict_proba(X), atol=1e-9)


def _held(folder, cell, held="1,v"):
    """A table whose held-out rows have a cell of their own; others are of class u, and of v where those are not."""
    lines = "1,2,u,train\n2,1,v,train\n" * 9 if held == "1,v" else "1,2,u,train\n2,1,u,train\n" * 9
    rest = f"{cell},3,v,test\n1,4,v,test\n"
    path = write(folder / "x.csv", "a,b,y,held\n" + lines + rest)
    return ["fit", path, "--target", "y", "--holdout", "held", "--kernels", "linear"]


def _weighted(folder, one, other="2"):
    path = write(folder / "x.csv", "a,y,w\n" + f"1,u,{one}\n2,v,{other}\n" * 9)
    return ["fit", path, "--target", "y", "--weights", "w"]


def _binary(path):
    path.write_bytes(bytes(range(256)) * 4)
    return str(path)


def _zeroed(path):
    """A table of which a disk has lost a part."""
    text = bytearray(b"a,y\n" + b"1.25,2.5\n2.75,3.5\n" * 9)
    text[40:60] = bytes(20)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def _parquet(folder, **columns):
    frame = pd.DataFrame({"a": np.arange(20.0), "y": np.arange(20.0) ** 2})
    frame.assign(**columns).to_parquet(folder / "x.parquet", index=False)
    return ["fit", str(folder / "x.parquet"), "--target", "y"]


def _structure(path):
    np.savez(path, a=np.zeros(20, dtype=[("f", "f8")]), y=np.arange(20.0))
    return str(path)


def _arrays(path):
    np.savez(path, **{"X": np.eye(3), "X.0": np.ones(3), "y": np.arange(3)})
    return str(path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_line(case, wine, tmp_path, capsys):
    make, words = BAD[case]
    arguments = make(tmp_path, wine)
    if arguments[0] == "fit":
        arguments += ["--out", str(tmp_path / "run")]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("kernelweave: ")
    assert words in lines[0]
    assert "Traceback" not in captured.out + captured.err
    assert not (tmp_path / "run").exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.drawn
@pytest.mark.parametrize("kind", ["regression", "classes"])
@pytest.mark.parametrize("command", ["fit", "path"])
def test_a_constant_feature_makes_a_whole_run(command, kind, tmp_path):
    """All weights are arbitrary, no kernel contributes, and scores of folds may have no finite value."""
    y = np.random.default_rng(0).normal(size=30)
    frame = pd.DataFrame({"a": 1, "y": y if kind == "regression" else np.where(y > 0, "u", "v")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "run"
    arguments = ["--target", "y", "--out", str(out), "--cv", "2", "--alphas", "3"]
    assert main([command, str(tmp_path / "t.csv"), *arguments]) == 0
    names = {"model.skops", "report.html", "predictions.csv", "spec.toml", "script.py"}
    names |= {"lineage.json", "evidence.json"}
    assert {p.name for p in out.iterdir()} == (names if command == "fit" else {"path.csv", "path.svg"})


@pytest.mark.parametrize("labels", [("yes", "no"), (1, 2), (0, 1)])
def test_scores_of_two_classes_take_any_labels(labels, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    frame["y"] = np.where(frame["a"] + 0.5 * rng.normal(size=60) > 0, *labels)
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "run"
    fit = [
        "fit",
        str(tmp_path / "t.csv"),
        "--target",
        "y",
        "--scoring",
        "average_precision",
        "--out",
        str(out),
    ]
    assert main([*fit, *FAST, "--kernels", "linear"]) == 0
    model = kw.load(out / "model.skops")
    assert model.cv_results_["score_name"] == "average_precision, mean over folds"
    assert 0.7 < model.best_score_ <= 1.0


def test_columns_that_do_not_match_at_prediction(wine, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["fit", str(wine), "--target", "target", "--out", str(run), *FAST]) == 0
    other = pd.read_csv(wine).rename(columns={"hue": "hues"})
    other.to_csv(tmp_path / "other.csv", index=False)
    capsys.readouterr()
    assert main(["predict", str(run), str(tmp_path / "other.csv"), "--out", str(tmp_path / "p.csv")]) == 2
    assert "Did you mean 'hues'" in capsys.readouterr().err
    strange = pd.read_csv(wine).assign(target="merlot")
    strange.to_csv(tmp_path / "strange.csv", index=False)
    assert main(["evaluate", str(run), str(tmp_path / "strange.csv"), "--target", "target"]) == 2
    assert "merlot" in capsys.readouterr().err
    assert main(["predict", str(run), str(wine), "--out", str(tmp_path / "p.csv"), "--std"]) == 2


def test_an_earlier_run_is_not_overwritten_by_accident(wine, tmp_path, capsys):
    fit = ["fit", str(wine), "--target", "target", "--out", str(tmp_path / "run"), *FAST]
    assert main(fit) == 0
    before = (tmp_path / "run" / "model.skops").read_bytes()
    assert main(fit) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (tmp_path / "run" / "model.skops").read_bytes() == before
    assert main([*fit, "--overwrite"]) == 0
    assert not list((tmp_path / "run").glob("*.part"))


def test_a_folder_that_cannot_be_written(wine, tmp_path, capsys):
    assert main(["fit", str(wine), "--target", "target", "--out", str(wine)]) == 2
    assert "is a file" in capsys.readouterr().err
    # the superuser may write anywhere, so the kernel's own file system stands in for a read-only folder
    assert main(["fit", str(wine), "--target", "target", "--out", "/proc/kernelweave", *FAST]) == 2
    assert "Cannot write" in capsys.readouterr().err


FAILURES = {
    "full disk": OSError(errno.ENOSPC, "No space left on device", "x"),
    "Ctrl-C": KeyboardInterrupt(),
    "mistake": RuntimeError("a mistake"),
}


@pytest.mark.parametrize("step", ["save", "write_text", "make_report"])
@pytest.mark.parametrize("why", FAILURES)
def test_a_run_that_fails_leaves_nothing(step, why, tiny_run, tmp_path, monkeypatch, capsys):
    from kernelweave import persistence
    from kernelweave_app import reports
    from kernelweave_app.runs import writing

    def fail(*arguments, **more):
        raise FAILURES[why]

    owner = {"save": persistence, "write_text": writing, "make_report": reports}[step]
    monkeypatch.setattr(owner, step, fail)
    fit = [*TINY, str(tiny_run[0]), "--out", str(tmp_path / "new" / "run")]
    if why == "mistake":
        with pytest.raises(RuntimeError, match="a mistake"):
            main(fit)
    else:
        assert main(fit) == (2 if why == "full disk" else 130)
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


TINY = ["fit", "--target", "y", "--kernels", "linear", "--alphas", "1", "--cv", "2"]


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=20), "y": rng.normal(size=20)})
    frame.to_csv(folder / "t.csv", index=False)
    assert main([*TINY, str(folder / "t.csv"), "--out", str(folder / "run")]) == 0
    return folder / "t.csv", folder / "run"


def test_a_new_run_replaces_all_of_an_earlier_one_and_nothing_else(tiny_run, tmp_path, monkeypatch):
    table, earlier = tiny_run
    out = tmp_path / "run"
    shutil.copytree(earlier, out)
    (out / "notes.txt").write_text("mine")
    monkeypatch.chdir(out)
    fit = [*TINY, str(table), "--test-size", "0", "--out", "."]
    assert main(fit) == 2
    assert main([*fit, "--overwrite"]) == 0
    left = {
        "model.skops",
        "report.html",
        "spec.toml",
        "script.py",
        "lineage.json",
        "evidence.json",
        "notes.txt",
    }
    assert {p.name for p in Path.cwd().iterdir()} == left


@pytest.mark.full
def test_a_killed_run_leaves_no_folder(tiny_run, tmp_path):
    table, _ = tiny_run
    text = (
        "import os, signal, sys; from kernelweave_app import reports; from kernelweave_app.cli import main\n"
        "reports.make_report = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "main(sys.argv[1:])"
    )
    out = tmp_path / "run"
    command = [sys.executable, "-c", text, *TINY, str(table), "--out", str(out)]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == -signal.SIGKILL
    assert not out.exists()
    [hidden] = tmp_path.iterdir()
    assert hidden.name.startswith(".run.")
    assert (hidden / "model.skops").exists()


def test_help_names_every_experiment(capsys):
    main(["reproduce", "--help"])
    words = capsys.readouterr().out.replace(",", " ").replace(".", " ").split()
    assert [name for name in EXPERIMENTS if name not in words] == []


@pytest.mark.full
def test_help_is_quick_and_has_examples():
    environment = {**os.environ, "COLUMNS": "200"}
    out = subprocess.run(
        [sys.executable, "-m", "kernelweave_app.cli", "--help"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    for command in ("demo", "fit", "predict", "evaluate", "path"):
        assert command in out.stdout
        page = subprocess.run(
            [sys.executable, "-m", "kernelweave_app.cli", command, "--help"],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        assert "Example" in page.stdout
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, kernelweave_app.cli.app; from kernelweave_app.cli import options; options.fit_options(); "
            "print(sorted({m.split('.')[0] for m in sys.modules}))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for heavy in ("numpy", "scipy", "sklearn", "pandas", "matplotlib", "fastapi", "nicegui", "uvicorn"):
        assert f"'{heavy}'" not in loaded


@pytest.mark.parametrize("command", ["fit", "path"])
def test_the_rank_tolerance_reaches_the_model(command, tiny_run, tmp_path, monkeypatch):
    from kernelweave import estimators
    from kernelweave.estimators import cv

    seen = []
    owner, name = (estimators, "MKLRegressor") if command == "path" else (cv, "MKLRegressorCV")
    plain = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *a, **more: seen.append(more["rank_tol"]) or plain(*a, **more))
    more = ["--out", str(tmp_path / "run"), "--rank-tol", "0.25"]
    assert main([command, *TINY[1:], str(tiny_run[0]), *more]) == 0
    # made for the run, and once more where a script is printed from it
    assert set(seen) == {0.25}
    if command == "fit":
        assert "rank_tol=0.25" in (tmp_path / "run" / "script.py").read_text()


def test_features_in_place_of_kernels_reach_the_model_and_the_script(tiny_run, tmp_path, capsys):
    more = ["--out", str(tmp_path / "run"), "--approximation", "nystroem", "--n-features", "9", "--seed", "3"]
    rows = [*TINY[1:3], "--kernels", "rbf", *TINY[5:], str(tiny_run[0])]
    assert main(["fit", *rows, *more]) == 0
    assert "Nystroem features" in capsys.readouterr().out
    written = (tmp_path / "run" / "script.py").read_text()
    assert "approximation=kw.kernels.Nystroem(n_features=9, random_state=3)" in written
    assert (
        main(["fit", *TINY[1:], str(tiny_run[0]), "--out", str(tmp_path / "other"), "--n-features", "9"]) != 0
    )
    assert "--n-features is for" in capsys.readouterr().err


@pytest.mark.full
def test_rows_may_lack_cells_and_tables(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(80, 3))
    tables = {}
    for name, width in (("rna", 6), ("protein", 4)):
        values = z @ rng.normal(size=(3, width)) + 0.3 * rng.normal(size=(80, width))
        tables[name] = pd.DataFrame(values, columns=[f"{name[0]}{j}" for j in range(width)])
        tables[name].insert(0, "id", [f"p{i}" for i in range(80)])
    tables["rna"]["ill"] = (z[:, 0] > 0).astype(int)
    tables["rna"].loc[tables["rna"].index % 7 == 0, "r1"] = np.nan
    tables["protein"] = tables["protein"].iloc[20:]
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    fit = [
        "fit",
        str(tmp_path / "rna.csv"),
        "--target",
        "ill",
        "--join",
        str(tmp_path / "protein.csv"),
        "--key",
        "id",
    ]
    fit += ["--method", "simple", "--cs", "1,10", "--cv", "3", "--rows", "all"]
    assert main([*fit, "--out", str(tmp_path / "no")]) == 2
    assert "12 rows with missing values (NaN), most of them in 'r1' (12)" in capsys.readouterr().err
    for missing in ("impute", "impute-median", "impute-nearest", "skip", "drop"):
        out = tmp_path / missing
        assert main([*fit, "--missing", missing, "--out", str(out)]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "Table protein does not have 20 rows of other tables; their view is missing." in said
        assert "training rows some lack views, protein" in said
        assert ("Left out 12 rows" in said) == (missing == "drop")
        assert ("missing cells among" in said) == (missing != "drop")
        assert "some lack views, protein" in (out / "report.html").read_text(encoding="utf8")
        spec = tomllib.loads((out / "spec.toml").read_text(encoding="utf8"))
        assert (spec["missing"], spec["missing_views"], spec["rows"]) == (missing, "complete", "all")
        space = {"__name__": "script"}
        exec((out / "script.py").read_text(encoding="utf8"), space)
        assert space["model"].missing_ == kw.load(out / "model.skops").missing_
        np.testing.assert_allclose(space["model"].weights_, kw.load(out / "model.skops").weights_, atol=1e-8)
        capsys.readouterr()
    new = [
        "predict",
        str(tmp_path / "impute"),
        str(tmp_path / "rna.csv"),
        "--join",
        str(tmp_path / "protein.csv"),
    ]
    assert main([*new, "--out", str(tmp_path / "new.csv")]) == 0
    assert len(pd.read_csv(tmp_path / "new.csv")) == 80
    assert (
        main([*fit, "--missing-views", "renormalize", "--missing", "impute", "--out", str(tmp_path / "r")])
        == 0
    )
    assert "Negative eigenvalues" in capsys.readouterr().out
    assert main([*fit, "--missing-views", "error", "--out", str(tmp_path / "e")]) == 2


HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
from kernelweave_app.cli import main

table, model = sys.argv[2:]
commands = [["--help"], ["fit", table, "--target", "none"], ["predict", model, table, "--out", "p.csv"],
            ["evaluate", model, table, "--target", "y"], ["export", model, "--out", "x.onnx"]]
if sys.argv[1] in ("cyclopts", "starlette", "nicegui"):
    commands.append(["studio", "--no-browser"])
for command in commands:
    status = main(command)
    assert status in (0, 2)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("cyclopts", "cli"),
        ("pydantic", "cli"),
        ("pandas", "cli"),
        ("onnx", "onnx"),
        ("starlette", "studio"),
        ("nicegui", "studio"),
    ],
)
def test_a_missing_package_is_one_line_that_says_what_to_install(module, extra, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": np.where(X[:, 0] > 0, "yes", "no")})
    frame.to_csv(tmp_path / "table.csv", index=False)
    kw.save(kw.MKLClassifier(learner="uniform").fit(frame[["a", "b"]], frame["y"]), tmp_path / "m.skops")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HIDING, module, "table.csv", "m.skops"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if module in line]
    assert any(f"pip install 'kernelweave[{extra}]'" in line for line in told), done.stderr
    assert "Traceback" not in done.stderr
    assert all(line.startswith("kernelweave: ") for line in done.stderr.splitlines()), done.stderr


def test_scores_of_rows_in_the_fit_stand_apart(diabetes, tmp_path, capsys):
    """Of the table of a run, of its training rows alone, of some of them among others, and of new rows."""
    run = tmp_path / "run"
    assert main(["fit", str(diabetes), "--target", "target", *FAST, "--out", str(run)]) == 0
    frame = pd.read_csv(diabetes, sep="\t")
    model, out = kw.load(run / "model.skops"), pd.read_csv(run / "predictions.csv")["row"]
    inside, outside = frame.drop(out), frame.loc[out]
    moved = frame.assign(age=frame["age"] + 1e-6)
    said = "Scores of rows that were in the fit say how well the model fits, not how well it predicts."

    def evaluate(rows, place=run):
        rows.to_csv(tmp_path / "rows.csv", index=False)
        capsys.readouterr()
        assert main(["evaluate", str(place), str(tmp_path / "rows.csv"), "--target", "target"]) == 0
        return " ".join(capsys.readouterr().out.split())

    def r2(rows, digits):
        return f"{model.score(rows[list(model.feature_names_in_)], rows['target']):.{digits}f}"

    def ends_of(rows, digits):
        guess = model.predict(rows[list(model.feature_names_in_)])
        found = inspection.score_intervals(rows["target"], guess)["R^2"]
        return f"(95 % interval {found.low:.{digits}f} to {found.high:.{digits}f})"

    for place in (run, run / "model.skops"):
        found = evaluate(frame, place)
        assert f"96 of these 120 rows were in the fit. {said} score 24 other rows 96 rows in the fit" in found
        assert f"R^2 {r2(outside, 2)} {ends_of(outside, 2)} {r2(inside, 2)} RMSE" in found
    # no other row: the scores that the run has of rows that were not in the fit
    found = evaluate(inside)
    assert f"All 96 rows were in the fit. {said}" in found
    evidence = json.loads((run / "evidence.json").read_text("utf8"))
    known = [f"{evidence[name]['values']['R^2']['value']:.2f}" for name in ("held out", "folds")]
    assert f"R^2 {r2(inside, 2)} {' '.join(known)} RMSE" in found
    mixed = pd.concat([inside.iloc[:5], moved])
    assert "5 of these 125 rows were in the fit" in evaluate(mixed)
    found = evaluate(moved)
    assert "in the fit" not in found
    assert f"R^2: {r2(moved, 3)} {ends_of(moved, 3)}" in found


def test_rows_that_equal_each_other_are_known_by_their_file(diabetes, tmp_path, capsys):
    """Of four kinds of rows any new one equals a row of the fit: only the file says whether it was there."""
    frame = pd.read_csv(diabetes, sep="\t")[["bmi", "bp", "target"]].round(0)
    frame.loc[:, ["bmi", "bp"]] = (frame[["bmi", "bp"]] > frame[["bmi", "bp"]].median()).astype(int)
    frame.to_csv(tmp_path / "few.csv", index=False)
    run = tmp_path / "run"
    fit = ["fit", str(tmp_path / "few.csv"), "--target", "target", "--task", "regression", "--out", str(run)]
    assert main([*fit, "--test-size", "0", "--method", "uniform", "--kernels", "linear"]) == 0
    for change, known in ((0, True), (1, False)):
        frame.assign(target=frame["target"] + change).to_csv(tmp_path / "again.csv", index=False)
        capsys.readouterr()
        assert main(["evaluate", str(run), str(tmp_path / "again.csv"), "--target", "target"]) == 0
        assert ("All 120 rows were in the fit" in " ".join(capsys.readouterr().out.split())) == known
