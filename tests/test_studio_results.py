"""What the studio shows about models, made in this process: no server, no pages."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

from kernelweave.runs.fitting import fit_model, make_model
from kernelweave.runs.joining import Joined
from kernelweave.runs.preparing import prepare, split
from kernelweave.runs.spec import FitSpec
from kernelweave.runs.writing import score_held
from kernelweave.studio.methods import scorers
from kernelweave.studio.results import describe_model


def wine(n_rows=90, seed=0):
    """Some rows of wine, with classes as text."""
    frame = load_wine(as_frame=True).frame
    frame["target"] = "class_" + frame["target"].astype(str)
    return frame.sample(n_rows, random_state=seed).reset_index(drop=True)


def described(table, **settings):
    """Fit as a run does; return model and results."""
    spec = FitSpec(**{"target": "target", "alphas": "1", "cv": 2, **settings})
    prepared = prepare(Joined(table, {}, {}, {}), spec)
    rows = split(prepared, spec)
    model = fit_model(make_model(spec, prepared, rows[1]), prepared, rows[0], None)
    held = score_held(model, prepared, rows[1])
    return model, describe_model(model, spec, prepared, rows, held, [], [], [])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["mlmkl", "2lmkl", "dmkl", "deep-uniform", "gaussian"])
@pytest.mark.parametrize("kernels", ["linear; rbf(gamma=0.1)", "default"])
def test_contributions_of_deep_models_are_those_of_the_last_layer(method, kernels):
    """There may be more or fewer kernels in the last layer than in the first."""
    model, results = described(wine(), method=method, kernels=kernels, max_iter=2, normalize="cosine")
    found = results.contributions
    known = set(model.layer_kernel_names_[-1])
    assert set(found.kernels) - {"all other kernels"} <= known
    assert not set(found.kernels) & set(model.kernel_names_) - known
    for k, name in enumerate(model.classes_):
        total = np.sum(found.values[k], axis=1) + found.intercepts[k]
        given = [row[results.held.columns.index(f"decision {name}")] for row in results.held.rows]
        np.testing.assert_allclose(total, given[: len(total)], atol=1e-4)


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
    from kernelweave.studio.pages.understand import dated, titles
    from kernelweave.studio.schema import Run

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
    from kernelweave.studio import results

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
    from kernelweave.reports import close, draw_pictures

    spec = FitSpec(
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
