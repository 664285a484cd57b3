"""How sure scores are and what to distrust: intervals against scikit-learn on the same samples, and their coverage."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

import kernelweave as kw
from kernelweave._errors import KernelWarning
from kernelweave.inspection.registry import Basis, HeldOut, collect
from kernelweave.inspection.scores import _at_an_end, _classes, class_scores, held_intervals, number_scores
from kernelweave_app.reports import Held
from kernelweave_app.runs.scoring import scores


class Fixed:
    """A classifier that says what it is told."""

    def __init__(self, classes, predictions):
        self.classes_, self.table = np.array(classes), predictions

    def predict(self, X):
        return self.table["prediction"].to_numpy()

    def decision_function(self, X):
        return self.table["decision"].to_numpy()


def intervals(model, held, seed=0):
    """The ends of the intervals of the scores of held-out rows."""
    found = held_intervals(held.rows(model), seed=seed)
    return {name: (one.low, one.high) for name, one in found.items() if np.isfinite(one.low)}


def scores_with_ends(model, held, seed=0):
    """The same without those of single classes."""
    return {name: ends for name, ends in intervals(model, held, seed).items() if " of " not in name}


def held_classes(rng, n_classes, n_rows=60):
    classes = [f"c{k}" for k in range(n_classes)]
    truth = np.array(classes)[rng.integers(n_classes, size=n_rows)]
    guess = np.where(rng.random(n_rows) < 0.7, truth, np.array(classes)[rng.integers(n_classes, size=n_rows)])
    table = pd.DataFrame({"prediction": guess})
    if n_classes == 2:
        # with ties
        table["decision"] = (rng.normal(size=n_rows) + (guess == "c1")).round(1)
    model = Fixed(classes, table)
    return model, Held(scores(model, None, truth, "classification"), truth, table)


def held_numbers(rng, n_rows=60, shift=0.0):
    truth = rng.normal(size=n_rows) + shift
    table = pd.DataFrame({"prediction": truth + 0.5 * rng.normal(size=n_rows)})
    model = SimpleNamespace(predict=lambda X: table["prediction"].to_numpy())
    return model, Held(scores(model, None, truth, "regression"), truth, table)


@pytest.mark.parametrize("kind", [2, 3, 5, "numbers", "numbers far from 0"])
def test_scores_of_samples_are_those_of_scikit_learn(rng, kind):
    """Weights that count how often a row was drawn give the scores of the drawn rows."""
    if isinstance(kind, int):
        model, held = held_classes(rng, kind)
        of = class_scores(
            held.truth,
            held.predictions["prediction"].to_numpy(),
            list(model.classes_),
            held.predictions["decision"].to_numpy() if kind == 2 else None,
        )
        task = "classification"
    else:
        model, held = held_numbers(rng, shift=1e6 if "far" in kind else 0.0)
        of = number_scores(held.truth, held.predictions["prediction"].to_numpy())
        task = "regression"
    assert set(of) == set(held.scores)
    counts = rng.multinomial(60, np.full(60, 1 / 60), size=5).astype(float)
    for row in counts:
        drawn = np.repeat(np.arange(60), row.astype(int))
        table = held.predictions.iloc[drawn]
        again = SimpleNamespace(
            predict=lambda X, t=table: t["prediction"].to_numpy(),
            decision_function=lambda X, t=table: t["decision"].to_numpy(),
        )
        if task == "classification":
            again.classes_ = model.classes_
            assert len(set(held.truth[drawn])) == len(model.classes_)
        expected = scores(again, None, held.truth[drawn], task)
        for name, function in of.items():
            # 1e-9 of the sums of squares, which cancel for rows far from 0: 3e-11 was seen
            assert function(row[None])[0] == pytest.approx(expected[name], abs=1e-9), name


def test_intervals_hold_the_score_and_are_the_same_again(rng):
    for model, held in (held_classes(rng, 2), held_classes(rng, 4), held_numbers(rng)):
        found = scores_with_ends(model, held)
        assert set(found) == set(held.scores)
        for name, (low, high) in found.items():
            assert low < held.scores[name] < high, name
        assert scores_with_ends(model, held) == found
        again = scores_with_ends(model, held, seed=1)
        # those of shares of rows have no random numbers
        assert {name for name in found if again[name] == found[name]} == set(found) & {"accuracy"}


def test_intervals_cover_the_truth_about_as_often_as_they_say(monkeypatch):
    """Accuracy of a machine that is right on 80 % of new rows, 200 times 100 held-out rows."""
    monkeypatch.setattr("kernelweave.inspection.scores.SAMPLES", 100)
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        truth = np.array(["a", "b"])[rng.integers(2, size=100)]
        guess = np.where(rng.random(100) < 0.8, truth, np.where(truth == "a", "b", "a"))
        table = pd.DataFrame({"prediction": guess})
        held = Held({"accuracy": float(metrics.accuracy_score(truth, guess))}, truth, table)
        low, high = intervals(Fixed(["a", "b"], table), held)["accuracy"]
        covered += low <= 0.8 <= high
    assert 0.90 <= covered / 200 <= 0.99  # 0.95 is said; the standard error of 200 is 0.015


def test_few_rows_have_no_intervals(rng):
    table = pd.DataFrame({"prediction": ["a"]})
    assert intervals(Fixed(["a", "b"], table), Held({"accuracy": 1.0}, np.array(["a"]), table)) == {}
    # scores that samples of rows do not have
    table = pd.DataFrame({"prediction": [1.0, 2.0, 3.0], "x": 0.0})
    same = Held({"R^2": np.nan, "MAE": 1.0}, np.array([2.0, 2.0, 2.0]), table)
    assert set(intervals(SimpleNamespace(), same)) == {"MAE", "RMSE"}
    several = Held({"R^2": 0.5}, rng.normal(size=(30, 2)), pd.DataFrame({"prediction a": np.zeros(30)}))
    assert intervals(SimpleNamespace(), several) == {}
    assert _classes(Basis(held=HeldOut(several.truth, several.truth, ["0", "1"]))) is None


def chosen(alphas, best, **more):
    results = {"alpha": np.array(alphas)}
    return SimpleNamespace(
        cv_results_=results, best_index_=best, uninformative_kernels_=[], fitted_=True, **more
    )


def at_an_end(alphas, best, **more):
    found = _at_an_end(Basis(model=chosen(alphas, best, **more)))
    return [] if found is None else [one.text for one in found.sentences]


def test_a_parameter_at_an_end_is_doubted():
    (said,) = at_an_end([10.0, 1.0, 0.1], 2)
    assert said.startswith("The chosen alpha = 0.1 is the smallest of the 3 values tried: a smaller one")
    (said,) = at_an_end([10.0, 1.0, 0.1], 0)
    assert "alpha = 10 is the largest" in said
    (said,) = at_an_end([10.0, 1.0, 0.1], 2, C_=10.0)
    assert "C = 10 is the largest of the 3 values tried: a larger one" in said
    assert at_an_end([10.0, 1.0, 0.1], 1) == []
    assert at_an_end([1.0], 0) == []
    assert _at_an_end(Basis(model=SimpleNamespace())) is None


def test_doubts_of_a_model_stand_in_its_report(rng):
    """A choice at the end, classes with few rows, and a kernel that is the identity."""
    from kernelweave_app.reports import make_report

    X = rng.normal(size=(60, 40))
    y = np.repeat(["a", "b", "c"], 20)
    bank = [kw.kernels.RBF(50.0), kw.kernels.Linear()]
    with pytest.warns(KernelWarning, match="identity"):
        model = kw.MKLClassifierCV(bank, alphas=[1e-3, 1e-4], cv=3).fit(X, y)
    truth = np.repeat(["a", "b", "c"], [30, 9, 1])
    table = pd.DataFrame({"prediction": np.repeat(["a", "b"], [25, 15])})
    held = Held({"accuracy": 0.8}, truth, table)

    def doubts(held=None):
        found = collect(Basis(model=model, held=None if held is None else held.rows(model)))
        return [one.text for each in found.values() for one in each.sentences if one.topic == "distrust"]

    found = doubts(held)
    assert sum("of the 2 values tried" in said for said in found) == 1
    assert sum("2 classes have fewer than 10 held-out rows (b: 9, c: 1)" in said for said in found) == 1
    assert sum("1 kernel is the identity on the training rows" in said for said in found) == 1
    report = make_report(model, title="t", data=[], settings={}, held=held, pictures=[])
    assert "What to distrust" in report
    for said in found:
        assert said.replace("'", "&#39;") in report
    low, high = intervals(model, held)["accuracy"]
    assert f"95 % interval {low:.3f} to {high:.3f}" in report
    alone = [said for said in doubts() if "were held out" not in said]
    assert alone == [said for said in found if "held-out" not in said and "not shown" not in said]


def test_areas_and_brier_scores_are_those_of_scikit_learn(rng):
    """With decision values that rows share, which count as half, and of two classes and three."""
    truth = np.repeat(["ill", "well"], 30)
    decision = rng.integers(0, 4, 60) + (truth == "well")
    of = class_scores(truth, np.where(decision > 2, "well", "ill"), ["ill", "well"], decision.astype(float))
    expected = metrics.roc_auc_score(truth == "well", decision)
    assert of["ROC AUC"](np.ones((1, 60)))[0] == pytest.approx(expected, abs=1e-12)
    for n_classes in (2, 3):
        names = np.array(["a", "b", "c"][:n_classes])
        y = names[np.arange(60) % n_classes]
        share = rng.dirichlet(np.ones(n_classes), 60)
        model = SimpleNamespace(
            predict=lambda X, n=names, s=share: n[s.argmax(axis=1)],
            predict_proba=lambda X, s=share: s,
            decision_function=lambda X, s=share: s[:, 1],
            classes_=names,
        )
        by_hand = np.square(share - (y[:, None] == names)).sum(axis=1).mean()
        if n_classes == 2:
            # as brier_score_loss has it: of one class
            by_hand = metrics.brier_score_loss(y == "b", share[:, 1])
        assert scores(model, None, y, "classification")["Brier score"] == pytest.approx(by_hand, rel=1e-12)
