"""What the studio shows about models, made in this process: no server, no pages.

Modules: `studio/results`, `studio/comparing`, `studio/predicting`, `studio/methods`.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes, load_wine
from sklearn.metrics import r2_score

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

import kernelweave as kw
from kernelweave.inspection import regularization_path
from kernelweave.inspection.held import HeldOut
from kernelweave_app.runs.fitting import fit_model, make_model
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import Prepared, prepare, split
from kernelweave_app.runs.settings import learner_fields
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.writing import score_held
from kernelweave_app.studio import results
from kernelweave_app.studio.comparing import paired_tests
from kernelweave_app.studio.methods import losses_for, scorers
from kernelweave_app.studio.results import describe_curve, describe_held, describe_model, describe_path, plain
from kernelweave_app.studio.schema import Curve, Data, PathPoint


def wine(n_rows=90, seed=0):
    """Some rows of wine, with classes as text."""
    frame = load_wine(as_frame=True).frame
    frame["target"] = "class_" + frame["target"].astype(str)
    return frame.sample(n_rows, random_state=seed).reset_index(drop=True)


def described(table, **settings):
    """Fit as a run does; return model and results."""
    spec = Spec(**{"target": "target", "alphas": "1", "cv": 2, **settings})
    prepared = prepare(Joined(table, {}, {}, {}), spec)
    rows = split(prepared, spec)
    model = fit_model(make_model(spec, prepared, rows[1]), prepared, rows[0], None)
    held = score_held(model, prepared, rows[1])
    return model, describe_model(model, spec, prepared, rows, held, [], [])


@pytest.mark.sampled(12)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["mlmkl", "2lmkl", "dmkl", "deep-uniform", "gaussian", "parametric"])
@pytest.mark.parametrize("kernels", ["linear; rbf(gamma=0.1)", "default"])
def test_contributions_of_deep_models_are_those_of_the_last_layer(method, kernels):
    """There may be more or fewer kernels in the last layer than in the first."""
    model, results = described(
        wine(), method=method, kernels=kernels, learner_params={"max_iter": 2}, normalize="cosine"
    )
    found = results.contributions
    known = set(model.layer_kernel_names_[-1])
    assert set(found.kernels) - {"all other kernels"} <= known
    assert not set(found.kernels) & set(model.kernel_names_) - known
    assert_they_add_up(model, results)


def assert_they_add_up(model, results):
    """Contributions and the intercept are the decision values."""
    found = results.contributions
    for k, name in enumerate(model.classes_):
        total = np.sum(found.values[k], axis=1) + found.intercepts[k]
        given = [row[results.held.columns.index(f"decision {name}")] for row in results.held.rows]
        np.testing.assert_allclose(total, given[: len(total)], atol=1e-4)


def test_contributions_of_many_kernels_end_with_the_sum_of_the_others():
    model, results = described(wine(), method="uniform", kernels="linear-features")
    assert results.contributions.kernels[-1] == "all other kernels"
    assert_they_add_up(model, results)


@pytest.mark.parametrize(("method", "parameter"), [("rls2", "alpha"), ("simple", "C")])
def test_learners_are_shown_in_their_own_parameter(method, parameter):
    pytest.importorskip("nicegui")
    from kernelweave_app.studio.pages.charts import curve_chart, live_chart, path_chart

    given = {"alphas": "10,1,0.2"} if parameter == "alpha" else {"Cs": "0.1,1,5"}
    values = [10.0, 1.0, 0.2] if parameter == "alpha" else [0.1, 1.0, 5.0]
    model, _ = described(wine(60), method=method, kernels="linear; rbf(gamma=0.1)", **given)
    X, y = np.asarray(wine(60).drop(columns="target")), np.asarray(wine(60)["target"])
    path = regularization_path(model.fit(X, y))
    curve, shown = describe_curve(model, "min"), describe_path(path)
    assert (curve.parameter, shown.parameter) == (parameter, parameter)
    # 0.2 and 1 / (1 / 5) are not the same to the last bit
    np.testing.assert_allclose(curve.parameter_values, values, rtol=1e-15)
    np.testing.assert_allclose(shown.parameter_values, values, rtol=1e-15)
    points = [
        PathPoint(number=k, stage="", alpha=a, rel_gap=0, n_active=1, weights={0: 1.0})
        for k, a in enumerate(path.alphas)
    ]
    charts = [
        curve_chart([("mean", curve)], score="accuracy"),
        path_chart(shown.parameter_values, shown.names, shown.weights, by=parameter, cursor=1, chosen=0),
        live_chart(["a"], points, path.alphas, parameter),
    ]
    for chart in charts:
        assert chart["xAxis"]["name"] == f"{parameter}: strong to weak"
        assert chart["xAxis"]["inverse"] == (parameter == "alpha")
        x = [point[0] for point in chart["series"][-1]["data"]]
        np.testing.assert_allclose(x, values, rtol=1e-15)


def test_curves_of_both_kinds_share_an_axis_of_alpha():
    pytest.importorskip("nicegui")
    from kernelweave_app.studio.pages.charts import curve_chart

    one = dict(alphas=[10.0, 0.5], mean=[0.7, 0.8], error=[0.1, 0.1], folds=[], chosen=1, best=1, rule="min")
    curves = [(name, Curve(**one, score="accuracy", parameter=name)) for name in ("alpha", "C")]
    chart = curve_chart(curves, score="accuracy")
    assert chart["xAxis"]["name"] == "alpha, or 1 / C: strong to weak"
    assert [s["data"] for s in chart["series"] if s["name"] in ("alpha", "C")] == 2 * [
        [[10.0, 0.7], [0.5, 0.8]]
    ]


def test_regression_has_residuals():
    table = load_diabetes(as_frame=True).frame
    _, results = described(table, alphas="5", cv=3, kernels="linear-features")
    held = results.held
    assert held.confusion == held.receivers == []
    assert {"truth", "prediction"} <= set(held.columns)
    assert held.scores["R^2"] > 0.2


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_score_on_offer_works(n_classes):
    table = wine(60)
    if n_classes == 2:
        table = table[table["target"] != "class_2"]
    assert ("roc_auc" in scorers("classification", n_classes)) == (n_classes == 2)
    for target, names in (
        ("target", scorers("classification", n_classes)),
        ("hue", scorers("regression", 0)),
    ):
        for name in names:
            drop = ["target"] if target == "hue" else []
            model, _ = described(table, target=target, scoring=name, kernels="linear", drop=drop)
            assert np.isfinite(model.best_score_), name


def test_losses_on_offer_are_those_that_the_task_takes(rng):
    """Of numbers and of classes every loss on offer is fitted; those of the other task are not offered."""
    names = learner_fields("lp")["loss"].choices
    numbers, classes = (losses_for(task, names) for task in ("regression", "classification"))
    assert {*names} - {*numbers} == {"hinge", "squared-hinge", "logistic", "cox"}
    assert {*names} - {*classes} == {"poisson", "cox"}
    X = rng.normal(size=(40, 2))
    counts = rng.poisson(np.exp(0.3 * X[:, 0])).astype(float)
    for offered, kind, y in ((numbers, kw.MKLRegressor, counts), (classes, kw.MKLClassifier, X[:, 0] > 0)):
        for name in offered:
            learner = kw.learners.LpMKL(C=1.0, loss=name)
            assert kind(kw.banks.linear_features(2), learner).fit(X, y).rel_gap_ < 1e-3, name
    for name in {*names} - {*numbers} - {"cox"}:
        with pytest.raises(kw.InputError, match=f"^`loss` of LpMKL is '{name}', which is for classification"):
            kw.MKLRegressor(kw.banks.linear_features(2), kw.learners.LpMKL(loss=name)).fit(X, counts)


def test_runs_of_one_name_can_be_told_apart():
    pytest.importorskip("nicegui")
    from kernelweave_app.studio.pages.runs import dated, titles
    from kernelweave_app.studio.schema import Run

    def run(number, name):
        blank = dict.fromkeys(("started", "finished", "total", "seconds_left", "summary"))
        request = {"data": {"tables": ["set-wine"]}, "spec": {}}
        more = {"state": "done", "cancelling": False, "done": 0, "step": "", "reason": "", "metrics": []}
        about = {"id": f"20260102-03040{number}-abcdef", "name": name, "created": 86400.0 * number}
        return Run.model_validate({**blank, **more, **about, "request": request})

    runs = [run(4, "a"), run(3, "b"), run(2, "a"), run(1, "a 2")]
    assert list(titles(runs).values()) == ["a 3", "b", "a", "a 2"]
    assert len(set(dated(runs).values())) == 4
    assert all(title.count(":") == 1 for title in dated(runs).values())


def test_long_tables_of_held_out_rows_say_that_they_are_cut(monkeypatch):
    from kernelweave_app.studio import results

    monkeypatch.setattr(results, "MOST_PREDICTIONS", 10)
    _, found = described(wine(), kernels="linear", test_size=0.3)
    assert (len(found.held.rows), found.held.n_rows) == (10, 27)
    assert np.sum(found.held.confusion) == 27


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, {"held-out", "roc", "precision"}),
        ({"target": "hue", "drop": ["target"]}, {"held-out", "residuals"}),
        ({"method": "simple"}, {"held-out", "roc", "precision"}),
    ],
)
def test_what_is_drawn_on_pages_can_be_taken_along(settings, names):
    pytest.importorskip("matplotlib").use("Agg")
    from kernelweave_app.reports import close, draw_pictures

    spec = Spec(
        **{"target": "target", "alphas": "2", "cv": 2, "kernels": "linear; rbf(gamma=0.1)", **settings}
    )
    prepared = prepare(Joined(wine(), {}, {}, {}), spec)
    train, test = split(prepared, spec)
    model = fit_model(make_model(spec, prepared, test), prepared, train, None)
    pictures = draw_pictures(model, score_held(model, prepared, test), with_path=False)
    try:
        assert {picture.name for picture in pictures} == {"weights", "choice", "convergence", *names}
        assert all("<svg" in picture.svg for picture in pictures)
    finally:
        for picture in pictures:
            close(picture.figure)


def test_runs_are_compared_on_the_same_held_out_rows_and_folds():
    runs, results = [], []
    for name, kernels in (("20261126-170000-00000a", "linear"), ("20261126-170000-00000b", "rbf(gamma=3)")):
        how = {"target": "target", "kernels": kernels, "alphas": "10,1", "cv": 3}
        results.append(described(wine(), **how)[1])
        runs.append(SimpleNamespace(id=name, request=SimpleNamespace(data="wine", spec=Spec(**how))))
    held, folds = paired_tests(runs, results)
    places = [[one.held.columns.index(name) for name in ("truth", "prediction")] for one in results]
    first, second = (
        np.array([row[truth] == row[guess] for row in one.held.rows])
        for one, (truth, guess) in zip(results, places, strict=True)
    )
    only = int((first & ~second).sum()), int((second & ~first).sum())
    # runs without results, or of another task, have no partner
    other = results[0].model_copy(update={"task": "regression"})
    assert paired_tests([*runs, runs[0], runs[1]], [*results, None, other]) == [held, folds]
    # digits are those of the rows, not of the folds
    assert (held.rows, folds.rows) == (results[0].held.n_rows, results[0].curve.n_rows)
    assert held.p_value == pytest.approx(stats.binomtest(only[0], sum(only)).pvalue)
    # rows of a group change signs together
    for one in results:
        one.held.groups = [str(k // 3) for k in range(len(one.held.rows))]
    again = paired_tests(runs, results)[0]
    assert again.test == "paired permutation test of groups"
    assert again.difference == pytest.approx(held.difference)
    one, two = (np.array(result.curve.folds)[:, result.curve.chosen] for result in results)
    error = np.sqrt((1 / 3 + 1 / 2) * np.var(one - two, ddof=1))
    assert folds.difference == pytest.approx(np.mean(one - two))
    assert folds.p_value == pytest.approx(2 * stats.t.sf(abs(np.mean(one - two)) / error, 2))


def test_held_out_rows_by_hand():
    """Counts, curves, and cells that JSON can hold."""
    truth, guess = np.array(["u", "v", "v", "v"]), np.array(["u", "u", "v", "v"])
    table = pd.DataFrame(
        {"row": [7, 8, 9, 10], "prediction": guess, "low": [0.1, np.nan, np.inf, 1 / 3], "truth": truth}
    )
    held = HeldOut(truth, guess, ["u", "v"], decision=np.array([-1.0, 0.5, 2.0, -0.5]), table=table)
    shown = describe_held(held)
    assert shown.columns == ["row", "truth", "prediction", "low"]
    assert shown.rows == [
        [7, "u", "u", 0.1],
        [8, "v", "u", None],
        [9, "v", "v", None],
        [10, "v", "v", 0.33333333],
    ]
    assert (shown.n_rows, shown.classes, shown.confusion) == (4, ["u", "v"], [[1, 0], [1, 2]])
    [curve] = shown.receivers
    # all three pairs of a row of v and that of u are in order
    assert (curve.output, curve.auc, curve.average_precision) == ("v", 1.0, 1.0)
    assert (max(curve.fpr), max(curve.tpr)) == (1.0, 1.0)
    assert [plain(v) for v in (np.int64(3), np.float32(0.5), True, np.bool_(False), None, "x", -np.inf)] == [
        3, 0.5, "True", "False", "None", "x", None,
    ]  # fmt: skip
    assert results._thin(3).tolist() == [0, 1, 2]
    long = results._thin(1001)
    assert (len(long), long[0], long[-1]) == (results.MOST_POINTS, 0, 1000)


def test_the_rest_of_the_contributions_and_paths(monkeypatch):
    """Two of three kernels are shown, by the spread of their contributions; a path has those of the largest weights."""
    monkeypatch.setattr(results, "MOST_PARTS", 2)
    monkeypatch.setattr(results, "MOST_LINES", 2)
    parts = np.array([[3.0, 0.0, 1.0], [-3.0, 0.5, 2.0], [0.0, 0.5, 5.0]])
    names = [np.array(["a", "b", "c"])]
    model = SimpleNamespace(kernel_contributions=lambda X: parts, layer_kernel_names_=names, intercept_=0.5)
    X = pd.DataFrame({"x": range(9)}, index=range(10, 19))
    prepared = Prepared(X, np.zeros(9), "regression", "", None, None, None, {}, 0)
    found = results.describe_contributions(model, prepared, np.array([4, 0, 2]), held=True)
    assert (found.rows, found.kernels) == (["14", "10", "12"], ["a", "c", "all other kernels"])
    assert found.values == [parts[:, [0, 2, 1]].tolist()]
    assert (found.intercepts, found.held) == ([0.5], True)
    parts[:, 1] = 0.0
    assert results.describe_contributions(model, prepared, np.array([4, 0, 2]), held=True).kernels == [
        "a",
        "c",
    ]
    parts[:] = 0.0
    assert results.describe_contributions(model, prepared, np.array([4]), held=False) is None
    weights = np.array([[0.0, 0.1, 0.0], [0.2, 0.1, 0.3], [0.9, 0.0, 0.3]])
    path = SimpleNamespace(
        fractions=weights,
        output="",
        alphas=np.array([3.0, 2.0, 1.0]),
        df=[1.0, np.nan, 2.0],
        names=list("abc"),
        chosen=1,
        Cs=None,
    )
    shown = describe_path(path)
    assert (shown.names, shown.n_active, shown.df) == (["a", "c"], [1, 3, 2], [1.0, None, 2.0])
    assert shown.weights == weights[:, [0, 2]].tolist()
    assert results.output_names(SimpleNamespace(classes_=["u", "v"]), 1) == ["v"]
    assert results.output_names(SimpleNamespace(classes_=["u", "v", "w"]), 3) == ["u", "v", "w"]
    assert results.output_names(SimpleNamespace(classes_=["u", "v", "w"]), 1) == [""]
    assert results.output_names(SimpleNamespace(), 2) == ["output 1", "output 2"]


def test_runs_side_by_side_have_the_largest_weights_first(monkeypatch):
    from kernelweave_app.studio import comparing

    monkeypatch.setattr(comparing, "MOST_COMPARED", 3)
    weights = [
        SimpleNamespace(names=["a", "b"], values=[[0.2, 0.4], [0.5, 0.9]]),
        SimpleNamespace(names=["b", "c", "d"], values=[[0.1], [0.8], [0.05]]),
    ]
    assert comparing._mean_weights(SimpleNamespace(weights=weights[0])) == pytest.approx({"a": 0.3, "b": 0.7})
    seen = {}
    monkeypatch.setattr(comparing, "Comparison", lambda **told: seen.update(told))
    monkeypatch.setattr(comparing, "_differences", lambda runs, tables: [])
    monkeypatch.setattr(comparing, "paired_tests", lambda runs, results: [])
    both = [SimpleNamespace(weights=one, curve=k) for k, one in enumerate(weights)]
    runs = [
        SimpleNamespace(metrics=[SimpleNamespace(name=name) for name in own])
        for own in (["r", "s"], ["s", "t"], [])
    ]
    comparing.compare_runs(runs, [*both, None], {})
    assert seen["kernels"] == ["c", "b", "a"]
    np.testing.assert_allclose(
        seen["weights"], [[0.0, 0.8, 0.0], [0.7, 0.1, 0.0], [0.3, 0.0, 0.0]], rtol=1e-12
    )
    assert seen["metrics"] == ["r", "s", "t"]
    assert seen["curves"] == [0, 1, None]
    assert [comparing._short(v) for v in ({"u": ["a", "b"], "v": 1}, True, ["x", 2], "y" * 121)] == [
        "u: a, b; v: 1", "yes", "x, 2", "y" * 119 + "…",
    ]  # fmt: skip


def test_differences_of_runs_are_those_of_their_settings():
    """Parameters of learners with what they are by default, and the learner that a plain fit took."""
    from kernelweave_app.studio.comparing import _differences

    def run(tables, task=None, **values):
        request = SimpleNamespace(data=SimpleNamespace(tables=tables), spec=Spec(target="y", **values))
        return SimpleNamespace(request=request, summary=task and SimpleNamespace(task=task))

    runs = [
        run(["1"], method="lp", cv=3, balanced=True),
        run(["1", "2"], method="lp", balanced=True, learner_params={"p": 3.0}),
        run(["1"], "classification", balanced=True, cv=3),
    ]
    found = {one.setting: one.values for one in _differences(runs, {"1": "a"})}
    usual = str(kw.learners.LpMKL().p)
    wanted = {"tables": ["a", "a, 2", "a"], "cv": ["3", "5", "3"], "p": [usual, "3.0", "2.0"]}
    assert found | wanted == found
    assert not {"method", "balanced", "target"} & found.keys()
    assert _differences(runs[:1] * 2, {}) == []


def test_pairs_of_runs_need_the_same_rows_and_folds(monkeypatch):
    from kernelweave_app.studio import comparing

    def run(folds, cv=3, data="d", **more):
        spec = SimpleNamespace(**{**dict.fromkeys(comparing.OF_FOLDS, 0), "cv": cv, "repeats": 1, **more})
        curve = SimpleNamespace(folds=[[9.0, value] for value in folds], chosen=1, score="R^2", n_rows=90)
        return SimpleNamespace(request=SimpleNamespace(spec=spec, data=data)), SimpleNamespace(
            curve=curve, task="regression"
        )

    seen = []
    monkeypatch.setattr(comparing, "compare_folds", lambda *told: seen.append(told) or "test")
    base = run([0.1, 0.2, 0.3])
    assert comparing._folds(*base, *run([0.2, 0.3, 0.5])) == ("R^2 over folds", "test", 90)
    np.testing.assert_array_equal(seen[0][0], [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(seen[0][1], [0.2, 0.3, 0.5])
    # a third of the rows against the other two
    assert seen[0][2] == 0.5
    for other in ([0.1, 0.2], [0.1, 0.2, None]):
        assert comparing._folds(*base, *run(other)) is None
    for more in ({"cv": 4}, {"data": "e"}, {"seed": 1}, {"missing": "drop"}):
        assert comparing._folds(*base, *run([0.2, 0.3, 0.5], **more)) is None
    one = run([0.1])
    assert comparing._folds(*one, *one) is None


@pytest.mark.parametrize("classes", [False, True])
def test_predictions_of_new_rows_stand_at_their_rows(classes, rng, tmp_path):
    """Rows with missing cells have none, and the others are scored where the table has the target."""
    from kernelweave_app.studio.predicting import predict_table

    frame = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
    frame["y"] = np.where(frame["a"] > 0, "u", "v") if classes else frame["a"] + 0.1 * frame["b"]
    kind = kw.MKLClassifier if classes else kw.MKLRegressor
    model = kind([kw.kernels.Linear()], kw.learners.RLS2(alpha=0.1)).fit(frame[["a", "b"]], frame["y"])
    kw.save(model, tmp_path / "m.skops")
    new = frame.iloc[5:12].copy()
    new.loc[7, "a"] = np.nan
    rows = SimpleNamespace(table=new, X=new[["a", "b"]], keys=None, stands_for={})
    data = Data(tables=["set-x"])
    catalogue = SimpleNamespace(
        new_rows=lambda *given: rows,
        paths=lambda data: {"t 1": "x.csv"},
        names=lambda data: ["t 1"],
        entry=lambda file: SimpleNamespace(
            ref=SimpleNamespace(uses=["table"], name="x.csv"), path=lambda: Path("x.csv")
        ),
    )
    spec = Spec(target="y", missing="drop")
    found, path = predict_table(tmp_path / "m.skops", spec, tmp_path, catalogue, data)
    assert (found.artifact, found.n_rows, found.n_missing) == ("predictions-t_1.csv", 7, 1)
    table = pd.read_csv(path, dtype={"prediction": object}).set_index("row")
    assert table.index.tolist() == list(range(5, 12))
    known = [5, 6, 8, 9, 10, 11]
    guess = model.predict(new.loc[known, ["a", "b"]])
    assert pd.isna(table["prediction"][7])
    if classes:
        assert table["prediction"][known].tolist() == guess.tolist()
        assert found.scores["accuracy"] == pytest.approx((guess == new["y"][known]).mean())
    else:
        np.testing.assert_allclose(table["prediction"][known].astype(float), guess, rtol=1e-9)
        assert found.scores["R^2"] == pytest.approx(r2_score(new["y"][known], guess))
    assert table["truth"].tolist() == new["y"].tolist() or not classes
    with pytest.raises(kw.InputError, match="1 of 7 rows have missing values"):
        predict_table(tmp_path / "m.skops", Spec(target="y"), tmp_path, catalogue, data)
    # a target that is not there, or of other classes, is not scored
    rows.table = new.drop(columns="y") if not classes else new.assign(y="w")
    assert predict_table(tmp_path / "m.skops", spec, tmp_path, catalogue, data)[0].scores == {}


@pytest.mark.parametrize(
    ("files", "kernels", "sparse", "parts", "keyed"),
    [
        ("a", {}, [], {"tables": "a"}, False),
        ("aa", {}, [], {"tables": "a"}, False),
        ("ab", {}, [], {"tables": "ab"}, True),
        ("ak", {"k": 7}, [], {"tables": "a", "kernels": "k"}, True),
        ("k", {"k": 7}, [], {"kernels": "k"}, True),
        ("as", {}, ["s"], {"tables": "a", "sparse": "s"}, False),
        ("sba", {}, ["s"], {"tables": "ba", "sparse": "s"}, True),
        # a matrix of another width is read as a table, and one of a model without kernels, too
        ("w", {"k": 7}, [], {"tables": "w"}, False),
        ("k", {}, [], {"tables": "k"}, False),
    ],
)
def test_new_files_are_used_as_the_model_needs_them(files, kernels, sparse, parts, keyed, monkeypatch):
    """The key names rows where there are several tables, or kernels, whose rows it orders."""
    from kernelweave_app.studio import predicting

    grams = {name: SimpleNamespace(n_columns_=n, columns_=range(n)) for name, n in kernels.items()}
    monkeypatch.setattr(predicting, "grams_of", lambda _: grams)
    monkeypatch.setattr(predicting, "sparse_views_of", lambda _: sparse)
    uses = {"k": ["kernels", "table"], "w": ["kernels", "table"], "s": ["sparse"]}
    catalogue = SimpleNamespace(
        entry=lambda file: SimpleNamespace(
            ref=SimpleNamespace(uses=uses.get(file[-1], ["table"]), name=file)
        ),
        width=lambda file: 7 if file.endswith("k") else 4,
    )
    data = Data(tables=[f"set-{file}" for file in files])
    found = predicting.assign(None, catalogue, data, "who")
    asked = {
        kind: [f"set-{file}" for file in parts.get(kind, "")] for kind in ("tables", "kernels", "sparse")
    }
    assert {kind: getattr(found, kind) for kind in asked} == asked
    assert found.key == ("who" if keyed else "")
    uses[files[-1]] = []
    needed = "a column for each of the 7 training rows" if kernels else "no precomputed kernels"
    with pytest.raises(kw.InputError, match=f"does not fit this model, which needs {needed}"):
        predicting.assign(None, catalogue, data, "")


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_rows_of_a_group_count_together_in_both_tasks(task):
    """Of twelve rows in four groups, and without groups."""
    from kernelweave_app.studio.comparing import _held

    truth = [f"{k % 2}" if task == "classification" else float(k) for k in range(12)]
    guesses = [
        [value if k % 3 else truth[k - 1] for k, value in enumerate(truth)],
        [value if k % 4 else truth[k - 1] for k, value in enumerate(truth)],
    ]
    for groups, words in (([str(k // 3) for k in range(12)], "of groups"), (None, "")):
        one, two = (
            SimpleNamespace(
                task=task,
                held=SimpleNamespace(
                    columns=["row", "truth", "prediction"],
                    rows=[[k, t, p] for k, (t, p) in enumerate(zip(truth, guess, strict=True))],
                    groups=groups,
                    n_rows=12,
                ),
            )
            for guess in guesses
        )
        run = SimpleNamespace(request=SimpleNamespace(data="rows", spec=Spec()))
        _, found, n = _held(run, one, run, two)
        assert (n, found.test.endswith("of groups")) == (12, bool(words))


def test_what_is_said_of_every_learner_is_what_it_declares():
    from kernelweave.learners import LEARNERS
    from kernelweave_app.runs.settings import learner_fields
    from kernelweave_app.studio.methods import methods

    found = methods()
    assert [one.name for one in found] == list(LEARNERS)
    for one, learner in zip(found, LEARNERS.values(), strict=True):
        fields = learner_fields(one.name)
        assert one.title == learner.__name__
        assert one.reference == learner.reference()
        assert (one.regularization_parameter, one.regression) == (
            learner.regularization_parameter,
            learner.regression,
        )
        assert one.settings == [field.name for field in fields.values()]
        assert one.fields == list(fields.values())
        own = learner()
        assert {part.name: part.default for part in one.parameters}.items() <= {
            name: repr(value) for name, value in own.get_params().items()
        }.items()
        assert one.summary
        assert not one.summary.endswith(".")
        assert "``" not in one.objective
