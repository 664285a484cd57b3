"""The commands `predict` and `evaluate` on new tables.

Modules: `cli/using`, `runs/evidence`.
"""

import json

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("jinja2")

import kernelweave as kw
from kernelweave import inspection
from kernelweave_app.cli import main

#: Of the many runs here few are looked at: those with the mark `drawn`.
pytestmark = pytest.mark.usefixtures("undrawn")

FAST = ["--alphas", "6", "--cv", "3"]


@pytest.mark.full
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
    assert list(held) == ["patient", "row", "prediction", "low", "high", "truth"]
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
    capsys.readouterr()
    assert main(["evaluate", str(run / "model.skops"), str(diabetes), "--target", "target"]) == 0
    named = capsys.readouterr().out
    assert "R^2" in named
    # the target of the run, unless there is only a model file
    assert main(["evaluate", str(run), str(diabetes)]) == 0
    assert capsys.readouterr().out == named
    (tmp_path / "alone.skops").write_bytes((run / "model.skops").read_bytes())
    assert main(["evaluate", str(tmp_path / "alone.skops"), str(diabetes)]) == 2
    assert "--target must name" in capsys.readouterr().err
    # a spec makes the same run again, and options given beside it come first
    assert (
        main(["fit", str(diabetes), "--spec", str(run / "spec.toml"), "--out", str(again), "--rule", "1se"])
        == 0
    )
    assert 'rule = "1se"' in (again / "spec.toml").read_text()
    assert kw.load(again / "model.skops").alpha_ >= kw.load(run / "model.skops").alpha_


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
    assert main([*fit, "--overwrite", "--method", "uniform", "--kernels", "linear"]) == 0
    frame.to_csv(tmp_path / "again.csv", index=False)
    capsys.readouterr()
    assert main(["evaluate", str(run), str(tmp_path / "again.csv"), "--target", "target"]) == 0
    # the run has held out a fifth of them
    assert "96 of these 120 rows were in the fit" in " ".join(capsys.readouterr().out.split())


def test_a_row_alone_is_predicted_as_among_others(tmp_path):
    """Types of the columns of a text table are told from its cells, and those of one row may look like others."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "stage": ["1", "2", "4a"] * 20,
            "code": (["007", "1e5", "x9", "2"] * 15),
            "sure": ["true", "false", "maybe", "maybe"] * 15,
            "since": ["2024-01-31", "unknown", "2024-02-01"] * 20,
            "seen": [True, False] * 30,
            "y": rng.normal(size=60).round(3),
        }
    )
    path, run, new, out = (tmp_path / name for name in ("t.csv", "run", "new.csv", "p.csv"))
    frame.to_csv(path, index=False)
    given = ["--kernels", "linear; rbf(gamma=0.5)", "--alphas", "0.1,", "--budget", "0", "--test-size", "0"]
    assert main(["fit", str(path), "--target", "y", *given, "--out", str(run)]) == 0
    expected = kw.load(run / "model.skops").predict(frame.drop(columns="y"))
    assert len(set(expected[:12].round(6))) == 12
    for k in range(12):
        frame.iloc[[k]].drop(columns="y").to_csv(new, index=False)
        assert main(["predict", str(run), str(new), "--out", str(out)]) == 0
        assert pd.read_csv(out)["prediction"][0] == pytest.approx(expected[k], rel=1e-9)


def test_labels_that_look_like_numbers_in_fewer_rows_are_known(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60).round(3), "y": ["01", "02", "x"] * 20})
    frame["a"] += frame["y"].map({"01": 0.0, "02": 3.0, "x": -3.0})
    path, run, new = tmp_path / "t.csv", tmp_path / "run", tmp_path / "new.csv"
    frame.to_csv(path, index=False)
    given = ["--kernels", "linear", "--method", "lp", "--cs", "1,", "--budget", "0", "--test-size", "0"]
    assert main(["fit", str(path), "--target", "y", *given, "--out", str(run)]) == 0
    few = frame[frame["y"] != "x"].assign(a=lambda rows: rows["a"] + 0.001)
    few.to_csv(new, index=False)
    capsys.readouterr()
    assert main(["evaluate", str(run), str(new), "--json"]) == 0
    right = kw.load(run / "model.skops").predict(few[["a"]]) == few["y"]
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["accuracy"]["value"] == pytest.approx(right.mean())


def test_every_option_of_predict_and_evaluate_reaches_the_library(diabetes, tmp_path, monkeypatch, capsys):
    from kernelweave_app import runs

    class Seen(Exception):
        pass

    found, fitted = [], kw.MKLRegressor([kw.kernels.Linear()], "uniform")
    frame = pd.read_csv(diabetes, sep="\t")
    fitted.fit(frame[["age", "bmi"]], frame["target"])
    kw.save(fitted, tmp_path / "model.skops")
    model, table, out = str(tmp_path / "model.skops"), str(diabetes), str(tmp_path / "p.csv")

    def call(*given, **how):
        found.append((given, how))
        raise Seen

    monkeypatch.setattr(runs.predictions, "predictions", call)
    for more, std, coverage in (([], False, None), (["--std", "--coverage", "0.8"], True, 0.8)):
        with pytest.raises(Seen):
            main(["predict", model, table, "--out", out, *more])
        (_, X), how = found.pop()
        assert list(X.columns) == ["age", "bmi"]
        assert how == {"std": std, "coverage": coverage, "keys": None, "times": None, "strata": None}
    with pytest.raises(Seen):
        main(["evaluate", model, table, "--target", "target", "--key", "clinic"])
    keys = found.pop()[1]["keys"]
    assert keys.tolist() == frame["clinic"].tolist()
    capsys.readouterr()
    for more, said in (
        (["--times", "3"], "--times is for a survival model; this model is a regression model"),
        (["--strata", "sex"], "--strata is for a survival model"),
    ):
        assert main(["predict", model, table, "--out", out, *more]) == 2
        assert said in capsys.readouterr().err
    for more in (["--time", "age"], ["--event", "sex"], ["--strata", "sex"]):
        assert main(["evaluate", model, table, "--target", "target", *more]) == 2
        assert "are for a survival model" in capsys.readouterr().err
    # files beside the table
    monkeypatch.setattr(runs.reading, "read_new", call)
    beside = ["--join", "b.csv", "--key", "clinic", "--view", "w=w.npz", "--gram", "g=g.npy"]
    for command in (["predict", model, table, "--out", out], ["evaluate", model, table, "--target", "bp"]):
        with pytest.raises(Seen):
            main([*command, *beside])
        (_, folder, *given), _ = found.pop()
        truth = "bp" if command[0] == "evaluate" else ""
        assert [str(folder), *given] == [model, table, "b.csv", "clinic", ["w=w.npz"], ["g=g.npy"], truth]
    from kernelweave.persistence import onnx_file

    monkeypatch.setattr(onnx_file, "to_onnx", call)
    for more, kind in (([], "float64"), (["--single"], "float32")):
        with pytest.raises(Seen):
            main(["export", model, "--out", str(tmp_path / "m.onnx"), *more])
        assert found.pop()[1] == {"dtype": kind}
