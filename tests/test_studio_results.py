"""What the studio shows about models, made in this process: no server, no pages."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes, load_wine

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

from kernelweave.inspection import regularization_path
from kernelweave_app.runs.fitting import fit_model, make_model
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import prepare, split
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.writing import score_held
from kernelweave_app.studio.comparing import paired_tests
from kernelweave_app.studio.methods import scorers
from kernelweave_app.studio.results import describe_curve, describe_model, describe_path
from kernelweave_app.studio.schema import Curve, PathPoint


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


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["mlmkl", "2lmkl", "dmkl", "deep-uniform", "gaussian"])
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
    assert held.p_value == pytest.approx(stats.binomtest(only[0], sum(only)).pvalue)
    one, two = (np.array(result.curve.folds)[:, result.curve.chosen] for result in results)
    error = np.sqrt((1 / 3 + 1 / 2) * np.var(one - two, ddof=1))
    assert folds.difference == pytest.approx(np.mean(one - two))
    assert folds.p_value == pytest.approx(2 * stats.t.sf(abs(np.mean(one - two)) / error, 2))
