"""Several targets on the command line: labels of 0 and 1, and numbers; run folders, scripts, reports, errors.

Modules: `estimators/targets`.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.model_selection import GroupKFold, train_test_split

pytest.importorskip("cyclopts")
pytest.importorskip("jinja2")

import kernelweave as kw
from kernelweave._drawing import score_text
from kernelweave.inspection.held import HeldOut
from kernelweave_app.cli import main
from kernelweave_app.reports import make_report
from kernelweave_app.runs.columns import names_of_target, read_labels, target_of_model
from kernelweave_app.runs.evidence import read_evidence
from kernelweave_app.runs.fitting import check_scoring, fit_model, make_model
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import prepare
from kernelweave_app.runs.reading import read_run
from kernelweave_app.runs.spec import Spec, read_spec
from kernelweave_app.runs.writing import score_held, write_run

#: What runs draw is looked at in other files.
pytestmark = pytest.mark.usefixtures("undrawn")

KERNELS = ["--kernels", "linear; rbf(gamma=0.1)"]
SIMPLE = ["--method", "simple", *KERNELS, "--cs", "0.1,1,10", "--cv", "3"]
FEATURES = [f"x{k}" for k in range(5)]
LABELS = ["a", "b,c", "d"]


def make_table():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 5))
    Y = (np.column_stack([X[:, 0], X[:, 1] * X[:, 2], X[:, 3]]) + 0.5 * rng.normal(size=(90, 3)) > 0).astype(
        int
    )
    frame = pd.DataFrame(X, columns=FEATURES)
    return frame.assign(
        **{"a": Y[:, 0], "b,c": np.where(Y[:, 1], "yes", " No"), "d": Y[:, 2].astype(bool)},
        u=X[:, 0] + np.sin(X[:, 1]),
        v=0.01 * X[:, 2] - 1,
        weight=np.linspace(0.5, 2.0, 90),
        clinic=np.arange(90) // 3,
        patient=[f"p{k}" for k in range(90)],
    )


def labels_of(frame):
    """0 and 1 by hand."""
    return np.column_stack([frame["a"], frame["b,c"] == "yes", frame["d"]]).astype(int)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    make_table().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory, no_drawing):
    """A run with everything that labels can have."""
    out = tmp_path_factory.mktemp("runs") / "labels"
    more = ["--drop", "u,v", "--weights", "weight", "--group", "clinic", "--key", "patient", "--balanced"]
    more += ["--probabilities", "platt", "--nested", "2", "--scoring", "f1_macro"]
    with no_drawing():
        assert main(["fit", str(table), "--target", "a,b,c,d", *SIMPLE, *more, "--out", str(out)]) == 0
    return out


def small_run(frame, spec, folder):
    """A run without a report."""
    path = folder / "small.csv"
    frame.to_csv(path, index=False)
    run = read_run({"small": str(path)}, spec)
    model = fit_model(make_model(spec, run.prepared, run.test), run.prepared, run.train, None)
    write_run(folder, run, model, score_held(model, run.prepared, run.test))
    return folder


def run_script(out):
    space: dict = {}
    exec(compile((out / "script.py").read_text(), "script.py", "exec"), space)
    return space


def test_a_run_of_labels_is_that_of_python(run, table):
    frame = pd.read_csv(table)
    model = kw.load(run / "model.skops")
    assert model.label_names_.tolist() == LABELS
    held = pd.read_csv(run / "predictions.csv")
    test = held["row"].to_numpy()
    train = np.setdiff1d(np.arange(90), test)
    kernels = [kw.kernels.parse("linear"), kw.kernels.parse("rbf(gamma=0.1)")]
    y = labels_of(frame)
    again = kw.MKLClassifierCV(
        kernels,
        "simple",
        Cs=[0.1, 1, 10],
        cv=GroupKFold(3),
        class_weight="balanced",
        standardize=True,
        scoring="f1_macro",
    )
    weight, clinic = frame["weight"].to_numpy(), frame["clinic"].to_numpy()
    again.fit(frame[FEATURES].iloc[train], y[train], weight[train], groups=clinic[train])
    again.calibrate("platt", cv=3, groups=clinic[train])
    X = frame[FEATURES].iloc[test]
    for what, values in {
        "prediction": again.predict(X),
        "decision": again.decision_function(X),
        "probability": again.predict_proba(X),
        "truth": y[test],
    }.items():
        found = held[[f"{what} {name}" for name in LABELS]].to_numpy()
        np.testing.assert_allclose(found, values, atol=1e-9)
    assert held["patient"].tolist() == frame["patient"].iloc[test].tolist()
    assert not set(clinic[test]) & set(clinic[train])


def test_the_script_makes_the_same_model(run, capsys):
    model = kw.load(run / "model.skops")
    space = run_script(run)
    again, X = space["model"], space["X"]
    assert again.label_names_.tolist() == LABELS
    np.testing.assert_allclose(again.weights_, model.weights_, atol=1e-10)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-9)
    held = pd.read_csv(run / "predictions.csv")
    right = [held[f"prediction {name}"] == held[f"truth {name}"] for name in LABELS]
    assert (
        f"held-out score {score_text('accuracy', np.all(right, axis=0).mean(), len(held))}"
        in capsys.readouterr().out
    )


def test_scores_and_report(run, table, tmp_path, capsys):
    """`evaluate` on rows beside those of the table, labels in another order, beside scikit-learn."""
    out, beside = tmp_path / "scored.csv", tmp_path / "beside.csv"
    frame = pd.read_csv(table)
    frame[FEATURES] += 1e-9
    frame.to_csv(beside, index=False)
    assert main(["evaluate", str(run), str(beside), "--target", "d, b,c,a", "--out", str(out)]) == 0
    said = dict(re.findall(r"^(.+): ([-\d.]+)$", capsys.readouterr().out, flags=re.M))
    model, X, y = kw.load(run / "model.skops"), frame[FEATURES], labels_of(frame)
    guess, share = model.predict(X), model.predict_proba(X)
    expected = {
        "Hamming accuracy": 1 - metrics.hamming_loss(y, guess),
        "subset accuracy": metrics.accuracy_score(y, guess),
        "F1 (macro)": metrics.f1_score(y, guess, average="macro"),
        "ROC AUC (mean)": metrics.roc_auc_score(y, model.decision_function(X), average="macro"),
        "log loss": np.mean([metrics.log_loss(y[:, k], share[:, k]) for k in range(3)]),
        "Brier score": np.mean([metrics.brier_score_loss(y[:, k], share[:, k]) for k in range(3)]),
    }
    # a mean of losses has digits of its own, as it is not a fraction
    loss = expected.pop("log loss")
    assert float(said.pop("log loss")) == pytest.approx(loss, abs=0.005)
    assert said == {name: f"{value:.2f}" for name, value in expected.items()}
    written = pd.read_csv(out)
    np.testing.assert_array_equal(written[[f"truth {name}" for name in LABELS]], y)
    report = (run / "report.html").read_text()
    for words in (
        "Held-out rows by label",
        "several labels",
        "Nested cross-validation",
        "missed",
        "operating",
    ):
        assert words in report
    assert "(a)" in report
    assert "against the rest" not in report
    held = pd.read_csv(run / "predictions.csv")
    (own,) = read_evidence(run)["targets"].tables
    for k, name in enumerate(LABELS):
        row = dict(zip(own.heads, own.shown()[k], strict=True))
        truth, guess = held[f"truth {name}"], held[f"prediction {name}"]
        counts = metrics.confusion_matrix(truth, guess, labels=[0, 1]).ravel().tolist()
        assert [int(row[what]) for what in ("right no", "wrong yes", "missed", "right yes")] == counts
        assert row["F1"] == f"{metrics.f1_score(truth, guess):.2f}"
        assert f'<td class="number">{row["ROC AUC"]}</td>' in report


def test_predictions_of_new_rows(run, table, tmp_path, capsys):
    out = tmp_path / "new.csv"
    assert main(["predict", str(run), str(table), "--out", str(out)]) == 0
    found = pd.read_csv(out)
    assert [name.split(" ")[0] for name in found.columns] == [
        "patient",
        "row",
        *["prediction"] * 3,
        *["decision"] * 3,
        *["probability"] * 3,
    ]
    model = kw.load(run / "model.skops")
    np.testing.assert_array_equal(
        found.filter(like="prediction"), model.predict(pd.read_csv(table)[FEATURES])
    )


def test_paths_of_every_label(table, tmp_path, capsys):
    out = tmp_path / "path"
    more = ["--drop", "u,v,weight,clinic,patient", "--class-weights", "b,c=4"]
    assert main(["path", str(table), "--target", "a,b,c,d", *SIMPLE[:-2], *more, "--out", str(out)]) == 0
    found = pd.read_csv(out / "path.csv")
    assert found["label"].tolist() == ["a"] * 3 + ["b,c"] * 3 + ["d"] * 3
    assert {p.name for p in out.glob("*.svg")} == {"path-a.svg", "path-b_c.svg", "path-d.svg"}
    frame = pd.read_csv(table)
    for k, name in enumerate(LABELS):
        alone = kw.MKLClassifier(
            [kw.kernels.parse("linear"), kw.kernels.parse("rbf(gamma=0.1)")],
            "simple",
            C=1.0,
            standardize=True,
            # kernels count rows alike for all labels
            class_weight=[{1: 4.0}, {}] if name == "b,c" else None,
        )
        y = labels_of(frame)[:, [k, k]] if name == "b,c" else labels_of(frame)[:, k]
        weights = np.atleast_2d(alone.fit(frame[FEATURES], y).weights_)[0]
        own = found.iloc[3 * k + 1][["Linear on all", "RBF(gamma=0.1) on all"]].astype(float).fillna(0.0)
        np.testing.assert_allclose(own, weights, atol=1e-6)


def test_a_plain_fit_of_labels_and_missing_cells(tmp_path):
    """Rows without a label are left out; folds and the division of rows are not by classes."""
    frame = make_table()[[*FEATURES, "a", "d"]].astype({"d": object})
    frame.loc[3, "d"] = None
    frame.loc[8, "x1"] = np.nan
    out = small_run(frame, Spec(target="a,d", missing="drop"), tmp_path)
    left = frame.drop([3, 8])
    train, test = train_test_split(np.arange(88), test_size=0.2, random_state=0)
    y = left[["a", "d"]].astype(int).to_numpy()
    train, test = np.sort(train), np.sort(test)
    model = kw.MKLClassifier().fit(left[FEATURES].iloc[train], y[train])
    held = pd.read_csv(out / "predictions.csv")
    assert held["row"].tolist() == left.index[test].tolist()
    np.testing.assert_allclose(
        held.filter(like="decision"), model.decision_function(left[FEATURES].iloc[test]), atol=1e-9
    )
    again = run_script(out)
    np.testing.assert_allclose(again["model"].weights_, model.weights_, atol=1e-10)


@pytest.mark.parametrize("method", ["rls2", "simple"])
def test_several_numbers(method, tmp_path, capsys):
    frame = make_table()[[*FEATURES, "u", "v"]]
    path = {"alphas": "0.01,0.1,1"} if method == "rls2" else {"Cs": "1,10"}
    spec = Spec(target="u,v", method=method, kernels="linear; rbf(gamma=0.1)", cv=3, **path)
    out = small_run(frame, spec, tmp_path)
    model = kw.load(out / "model.skops")
    assert model.output_names_.tolist() == ["u", "v"]
    held = pd.read_csv(out / "predictions.csv")
    rows = frame.loc[held["row"]]
    np.testing.assert_allclose(
        held[["prediction u", "prediction v"]], model.predict(rows[FEATURES]), rtol=1e-12
    )
    np.testing.assert_allclose(held[["truth u", "truth v"]], rows[["u", "v"]], rtol=1e-15)
    space = run_script(out)
    np.testing.assert_allclose(space["model"].predict(space["X"]), model.predict(space["X"]), rtol=1e-9)
    r2 = metrics.r2_score(held[["truth u", "truth v"]], held[["prediction u", "prediction v"]])
    assert f"held-out score {score_text('R^2', r2, len(held))}" in capsys.readouterr().out
    sizes = kw.inspection.contribution_sizes(model, frame[FEATURES])
    assert sizes.outputs == ("u", "v")
    shared = method == "rls2" and not hasattr(model, "target_alphas_")
    assert kw.inspection.kernel_weights(model).outputs == (("",) if shared else ("u", "v"))
    if method == "simple":
        return
    new = tmp_path / "new.csv"
    assert main(["predict", str(out), str(out / "small.csv"), "--std", "--out", str(new)]) == 0
    mean, std = model.predict(frame[FEATURES], return_std=True)
    np.testing.assert_allclose(pd.read_csv(new)[["std u", "std v"]], std, rtol=1e-9)
    np.testing.assert_allclose(pd.read_csv(new)[["prediction u", "prediction v"]], mean, rtol=1e-9)
    shown = held[["row", "prediction u", "prediction v"]]
    truth = held[["truth u", "truth v"]].to_numpy()
    rows = HeldOut.of_columns(model, shown, truth)
    report = make_report(model, title="t", data=[], settings={}, held=rows, X=frame[FEATURES])
    assert "Held-out rows by target" in report
    assert f'<td class="number">{metrics.r2_score(truth[:, 1], held["prediction v"]):.2f}</td>' in report


def test_names_of_outputs():
    frame = make_table()
    y = frame[["u", "v"]]
    model = kw.MKLRegressor([kw.kernels.Linear()], alpha=1.0)
    assert model.fit(frame[FEATURES], y).output_names_.tolist() == ["u", "v"]
    assert model.fit(frame[FEATURES], y.to_numpy()).output_names_.tolist() == ["output 0", "output 1"]
    assert not hasattr(model.fit(frame[FEATURES], frame["u"]), "output_names_")


def test_targets_in_a_file(tmp_path):
    (tmp_path / "spec.toml").write_text('target = ["a", "b,c"]')
    assert read_spec(tmp_path / "spec.toml")["target"] == "a,b,c"
    (tmp_path / "spec.toml").write_text("target = [1]")
    with pytest.raises(kw.InputError, match="Setting `target`"):
        read_spec(tmp_path / "spec.toml")


@pytest.mark.parametrize(
    ("text", "columns", "names"),
    [
        ("a", ["a"], ["a"]),
        ("a,b", ["a", "b"], ["a", "b"]),
        (" a , b ", ["a", "b"], ["a", "b"]),
        ("a,b", ["a", "b", "a,b"], ["a,b"]),
        ("c,a,b", ["a", "b", "a,b", "c"], ["c", "a,b"]),
        ("a, b,c", ["a", "b,c"], ["a", "b,c"]),
        ("a,x", ["a"], ["a", "x"]),
        ("", ["a"], []),
    ],
)
def test_names_may_hold_commas(text, columns, names):
    assert names_of_target(text, columns) == names


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([0, 1, 1], [0, 1, 1]),
        ([0.0, 1.0], [0, 1]),
        ([True, False], [1, 0]),
        (["YES", "no "], [1, 0]),
        (["true", "False"], [1, 0]),
        (pd.array([1, 0], dtype="Int64"), [1, 0]),
        (pd.Categorical(["no", "yes"]), [0, 1]),
    ],
)
def test_labels_are_read(cells, expected):
    assert read_labels(pd.Series(cells, name="a")).tolist() == expected


ERRORS = {
    "a value that is no label": ({"target": "a,e"}, "column 'e' holds 2 in row 1"),
    "text that is no label": ({"target": "a,t"}, "column 't' holds 'maybe' in row 2"),
    "a label beside numbers": ({"target": "a,u"}, "column 'u' holds .* --task regression"),
    "labels of one value": ({"target": "a,same"}, "Column 'same' says the same of every row, 1"),
    "a missing label": ({"target": "a,gap"}, "Column 'gap' has 1 missing values"),
    "an unknown column": ({"target": "a,dd"}, "There is no column 'dd' for the target. Did you mean 'd'"),
    "a column twice": ({"target": "a,d,a"}, "the column 'a' twice"),
    "no target": ({"target": " "}, "Which column is the target"),
    "numbers as classes": ({"target": "u,v", "task": "classification"}, "column 'u' holds"),
    "text as numbers": ({"target": "u,t", "task": "regression"}, "Column 't' holds text"),
    "numbers that are balanced": ({"target": "u,v", "balanced": True}, "`balanced` is for classes"),
    "an unknown label": ({"target": "a,d", "class_weights": "e=2"}, "Unknown label 'e'"),
    "a score of one label": (
        {"target": "a,d", "scoring": "balanced_accuracy", "method": "simple"},
        "balanced_accuracy' does not work for several labels .* accuracy or f1_macro",
    ),
    "a score of folds": (
        {"target": "a,rare", "scoring": "roc_auc", "method": "simple", "cv": 4},
        "for fold ., whose rows say the same of 1 of 2 labels",
    ),
}


def try_fit(frame, spec):
    """The checks before a fit."""
    prepared = prepare(Joined(frame), spec)
    every = np.arange(len(frame))
    check_scoring(make_model(spec, prepared, every[:0]), prepared, every)


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_targets(case):
    given, words = ERRORS[case]
    frame = make_table().assign(e=np.arange(90) + 1, same=1, gap=[np.nan, *[0, 1] * 44, 0])
    frame = frame.assign(t=["yes", "no", "maybe"] * 30, rare=np.arange(90) < 1)
    spec = Spec(**given, views={"x": ["x?"]})
    with pytest.raises(kw.InputError, match=words):
        try_fit(frame, spec)


def test_errors_are_one_line(table, tmp_path, capsys):
    assert main(["fit", str(table), "--target", "a,u", "--out", str(tmp_path / "r")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "column 'u' holds" in said


def test_wrong_truth():
    frame = make_table()
    with pytest.raises(kw.InputError, match="The model has the targets 'a', 'd', got 'a', 'u'"):
        target_of_model(frame, "a,u", ["a", "d"], "classification")
    with pytest.raises(kw.InputError, match="got 'a'"):
        target_of_model(frame, "a", ["a", "d"], "classification")
    y, stands_for = target_of_model(frame, "b,c,d", ["here", "there"], "classification")
    assert stands_for == {"here": "b,c", "there": "d"}
    np.testing.assert_array_equal(y, labels_of(frame)[:, 1:])
