"""The command `fit`: whole runs, and scripts that make the same model.

Modules: `cli/learning`.
"""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

pytest.importorskip("cyclopts")
pytest.importorskip("jinja2")

import kernelweave as kw
from kernelweave_app.cli import main
from kernelweave_app.runs.evidence import read_evidence
from kernelweave_app.runs.fitting import fits_plainly
from kernelweave_app.runs.formats import read_table
from kernelweave_app.runs.spec import Spec, read_spec

#: Of the many runs here few are looked at: those with the mark `drawn`.
pytestmark = pytest.mark.usefixtures("undrawn")

FAST = ["--alphas", "6", "--cv", "3"]


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
    told = f"objective {model.objective_:.6g}, within {model.rel_gap_:.1e} (relative) of the optimum"
    assert told in " ".join(text.split())
    assert (held["prediction"].to_numpy() == model.predict(rows[model.feature_names_in_])).all()
    assert (out / "report.html").read_text("utf8").count("<path") > 100  # figures are drawn


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
    said = capsys.readouterr().out
    # sources, here columns, in place of kernels
    assert [line.split()[0] for line in said.split("Sources\n")[1].splitlines()[1:2]] == ["x3"]
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


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(8)
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


@pytest.mark.full
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
    assert "Left out 1 row with missing values." in text
    assert "View body: 5 columns." in text
    assert "In nested cross-validation, which repeats the whole fit in 3 folds without the rows" in text
    assert "Nested cross-validation" in (out / "report.html").read_text()


@pytest.mark.full
def test_cells_that_look_like_formulas_are_text_to_a_spreadsheet(wine, tmp_path):
    frame = pd.read_csv(wine)
    frame["target"] = frame["target"].map({"barolo": "=1+1", "grignolino": "@x", "barbera": "-3"})
    frame.to_csv(wine, index=False)
    assert main(["fit", str(wine), "--target", "target", "--out", str(tmp_path / "run"), *FAST]) == 0
    held = pd.read_csv(tmp_path / "run" / "predictions.csv", dtype=str)
    assert set(held["truth"]) == {"'=1+1", "'@x", "-3"}
    assert not any(name.startswith(("=", "@")) for name in held.columns)


@pytest.mark.sampled(4)
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


@pytest.mark.full
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
    assert "groups kept together" in (out / "report.html").read_text()
    # 6 of 30 patients are held out, and intervals are those of so many
    assert "On 24 held-out rows of 6 groups" in " ".join(capsys.readouterr().out.split())
    found, held = read_evidence(out)["held out"], pd.read_csv(out / "predictions.csv")
    of_rows = kw.inspection.score_intervals(
        held["truth"], held["prediction"], groups=table["who"].iloc[held["row"]]
    )
    assert found.values["R^2"].low == pytest.approx(of_rows["R^2"].low)
    # copies in another table: the column of groups is found there
    assert main(["evaluate", str(out), str(tmp_path / "t.csv"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["scores"]["R^2"]
    assert [again["low"], again["high"]] == pytest.approx([of_rows["R^2"].low, of_rows["R^2"].high])
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


@pytest.mark.sampled(2)
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
    run = [*fit, "--method", "silp", "--theta", "0.3", "--out", str(tmp_path / "run")]
    assert main(run) == 2
    assert "--theta is for soft-margin, and silp does not have it." in capsys.readouterr().err
    # settings of a file may be those of several learners
    (tmp_path / "spec.toml").write_text('[learner_params]\ntheta = 0.3\nsolver = "newton"\n')
    run = [*fit, "--method", "silp", "--spec", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "run")]
    assert main(run) == 0
    assert "Not used by silp: solver, theta." in capsys.readouterr().out
    run = [*fit, "--method", "rkl", "--solver", "armijo", "--tol", "1e-3", "--out", str(tmp_path / "other")]
    assert main(run) == 0
    assert "Not used" not in capsys.readouterr().out
    assert "solver='armijo'" in (tmp_path / "other" / "script.py").read_text()


@pytest.mark.sampled(2)
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


@pytest.mark.full
@pytest.mark.sampled(4)
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


@pytest.mark.sampled(3)
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


@pytest.mark.nightly
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
    assert "12 rows with missing cells, most of them in 'r1' (12)" in capsys.readouterr().err
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


def test_a_parametric_kernel(wine, tmp_path, capsys):
    """Family, degree and bounds are options; the parameters are in the output, and the saved model has them."""
    run = tmp_path / "run"
    fit = [
        "fit",
        str(wine),
        "--target",
        "target",
        "--out",
        str(run),
        "--method",
        "parametric",
        "--kernels",
        "linear",
    ]
    fit += [
        "--family",
        "polynomial",
        "--degree",
        "2",
        "--upper",
        "10",
        "--max-iter",
        "3",
        "--cs",
        "1",
        "--cv",
        "2",
    ]
    assert main(fit) == 0
    assert "In the polynomial kernel" in " ".join(capsys.readouterr().out.split())
    model = kw.load(run / "model.skops")
    assert model.learner.upper == 10.0
    assert "coef0" in model.kernel_parameters_[0]
    assert "Parameters of the polynomial kernel" in (run / "report.html").read_text()
    assert main([*fit[:4], *fit[6:8], "--family", "cubic", "--out", str(tmp_path / "other")]) == 2
    assert "--family" in capsys.readouterr().err


class Seen(Exception):
    """The library was called."""


@pytest.fixture
def seen(monkeypatch):
    """Arguments of the function of a module that commands call, which then end."""
    found = []

    def watch(owner, name):
        def call(*given, **how):
            found.append((given, how))
            raise Seen

        monkeypatch.setattr(owner, name, call)
        return found

    return watch


def test_every_option_of_a_fit_reaches_the_run(wine, tmp_path, seen):
    from kernelweave_app.cli import learning

    found, command = seen(learning, "fit_table"), ["fit", str(wine), "--target", "target"]
    (tmp_path / "s.toml").write_text('target = "hue"\ncv = 4\n')
    more = ["--spec", str(tmp_path / "s.toml"), "--overwrite", "--budget", "7.5", "--seed", "3"]
    for options in ([], more):
        with pytest.raises(Seen):
            main([*command, *options, "--out", str(tmp_path / "run")])
    (usual, how), (given, own) = found
    assert usual == given[:1] + usual[1:]
    assert (usual[0], usual[2]) == (str(wine), str(tmp_path / "run"))
    assert (usual[1].target, usual[1].cv, usual[1].seed) == ("target", 5, 0)
    assert (given[1].target, given[1].cv, given[1].seed) == ("target", 4, 3)
    assert how == {"overwrite": False, "budget": learning.BUDGET}
    assert own == {"overwrite": True, "budget": 7.5}
    for budget in ("-1", "inf"):
        assert main([*command, "--out", str(tmp_path / "run"), "--budget", budget]) == 2


def test_the_demonstration_asks_for_its_settings(tmp_path, seen):
    from sklearn.datasets import load_breast_cancer

    from kernelweave_app.cli import learning

    found, bunch = seen(learning, "fit_table"), load_breast_cancer(as_frame=True)
    for more in ([], ["--seed", "3", "--cv", "4", "--alphas", "6"]):
        with pytest.raises(Seen):
            main(["demo", "--out", str(tmp_path / "d"), *more])
    for (table, spec, out), how in found:
        written = pd.read_csv(table)
        assert how == {"overwrite": True, "rivals": learning._rivals}
        assert out == str(tmp_path / "d")
        np.testing.assert_allclose(written[bunch.data.columns], bunch.data)
        assert (written["diagnosis"] == np.array(["malignant", "benign"])[bunch.target]).all()
        assert (spec.target, spec.method, spec.test_size) == ("diagnosis", "rls2", 0.3)
        assert {name: len(columns) for name, columns in spec.views.items()} == dict.fromkeys(
            ("mean", "error", "worst"), 10
        )
        widths = "; ".join(f"rbf(gamma={gamma})" for gamma in (0.003, 0.01, 0.03, 0.1, 0.3))
        assert spec.kernels == f"linear; poly(degree=2); {widths}"
    assert [(spec.seed, spec.cv, spec.alphas) for (_, spec, _), _ in found] == [(0, 5, "30"), (3, 4, "6")]


def test_time_is_shared_among_findings_and_its_end_is_said(monkeypatch, capsys):
    from kernelweave._errors import InputError
    from kernelweave_app.cli import learning

    now, asked = [100.0], {}
    monkeypatch.setattr(learning.time, "monotonic", lambda: now[0])

    def add(kind, report):
        # each may take an equal part of what is left
        ends = []
        while not report("fit 1 of 9"):
            now[0] += 1.0
            ends.append(now[0])
        asked[kind] = now[0]

    learning._add_until(120.0, ["omission", "stability"], add)
    assert asked == {"omission": 111.0, "stability": 121.0}
    assert "The time" not in capsys.readouterr().out
    learning._add_until(121.0, ["omission", "stability"], add)
    assert "not computed: omission, stability. Later: kernelweave evidence." in capsys.readouterr().out

    def late(kind, report):
        now[0] += 50.0
        raise KeyboardInterrupt

    learning._add_until(140.0, ["omission", "stability"], late)
    said = capsys.readouterr().out
    assert "The time was not enough for omission." in said
    assert "not computed: stability." in said

    def pressed(kind, report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learning._add_until(now[0] + 9.0, ["omission"], pressed)

    def refused(kind, report):
        raise InputError("Too few rows.")

    learning._add_until(now[0] + 9.0, ["omission", "stability"], refused)
    said = capsys.readouterr().out
    assert "Not computed: omission. Too few rows." in said
    assert "Not computed: stability. Too few rows." in said
