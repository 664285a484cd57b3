"""How sure scores are and what to distrust: intervals against scikit-learn on the same samples, and their coverage.

Modules: `inspection/held`, `inspection/scores`.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import metrics

import kernelweave as kw
from kernelweave._errors import KernelWarning
from kernelweave.inspection.held import HeldOut, class_scores
from kernelweave.inspection.registry import REGISTRY, Basis, collect
from kernelweave.inspection.scores import _at_an_end, _classes, held_gain, held_intervals, score_texts
from recording import brief


def intervals(held, seed=0):
    """The ends of the intervals of the scores of held-out rows."""
    found = held_intervals(held, seed=seed)
    return {name: (one.low, one.high) for name, one in found.items() if np.isfinite(one.low)}


def scores_with_ends(held, seed=0):
    """The same without those of single classes."""
    return {name: ends for name, ends in intervals(held, seed).items() if " of " not in name}


def held_classes(rng, n_classes, n_rows=60):
    classes = [f"c{k}" for k in range(n_classes)]
    truth = np.array(classes)[rng.integers(n_classes, size=n_rows)]
    guess = np.where(rng.random(n_rows) < 0.7, truth, np.array(classes)[rng.integers(n_classes, size=n_rows)])
    # with ties
    decision = (rng.normal(size=n_rows) + (guess == "c1")).round(1) if n_classes == 2 else None
    return HeldOut(truth, guess, classes, decision, rng.dirichlet(np.ones(n_classes), n_rows))


def held_numbers(rng, n_rows=60, shift=0.0):
    truth = rng.normal(size=n_rows) + shift
    return HeldOut(truth, truth + 0.5 * rng.normal(size=n_rows))


def by_scikit_learn(held, rows):
    """Scores of some of the rows."""
    truth, guess = held.truth[rows], held.prediction[rows]
    if held.classes is None:
        return {
            "R^2": metrics.r2_score(truth, guess),
            "RMSE": metrics.root_mean_squared_error(truth, guess),
            "MAE": metrics.mean_absolute_error(truth, guess),
        }
    share = held.probability[rows]
    by_class = [metrics.brier_score_loss(truth == name, share[:, k]) for k, name in enumerate(held.classes)]
    found = {
        "accuracy": metrics.accuracy_score(truth, guess),
        "balanced accuracy": metrics.balanced_accuracy_score(truth, guess),
        "F1 (macro)": metrics.f1_score(truth, guess, average="macro"),
        "log loss": metrics.log_loss(truth, share, labels=held.classes),
        "Brier score": by_class[0] if len(by_class) == 2 else sum(by_class),
    }
    if held.decision is not None:
        found["ROC AUC"] = metrics.roc_auc_score(truth, held.decision[rows])
    return found


@pytest.mark.parametrize("kind", [2, 3, 5, "numbers", "numbers far from 0"])
def test_scores_and_influences_are_those_of_scikit_learn(rng, kind):
    """A row among many copies of all changes the score by its influence."""
    held = (
        held_classes(rng, kind) if isinstance(kind, int) else held_numbers(rng, shift=1e6 * ("far" in kind))
    )
    assert held.scores == pytest.approx(by_scikit_learn(held, np.arange(60)), abs=1e-9)
    assert set(held.row_scores) == set(held.scores)
    copies = 300
    for row in range(0, 60, 17):
        moved = by_scikit_learn(held, np.r_[np.repeat(np.arange(60), copies), row])
        for name, one in held.row_scores.items():
            found = (moved[name] - held.scores[name]) * (60 * copies + 1)
            # second order: 6e-3 was seen
            assert found == pytest.approx(one.influence[row], abs=2e-2), name


def test_scores_of_labels_and_of_several_numbers_are_those_of_scikit_learn(rng):
    truth = (rng.random((50, 3)) < 0.4).astype(int)
    truth[:, 2] = 0  # no row has this label: it has no curve
    guess = np.where(rng.random((50, 3)) < 0.8, truth, 1 - truth)
    decision, share = rng.normal(size=(50, 3)) + truth, rng.uniform(size=(50, 3))
    held = HeldOut(truth, guess, None, decision, share, ("a", "b", "c"))
    options = {"average": None, "zero_division": np.nan}
    each = {
        "accuracy": (truth == guess).mean(axis=0),
        "precision": metrics.precision_score(truth, guess, **options),
        "recall": metrics.recall_score(truth, guess, **options),
        "F1": metrics.f1_score(truth, guess, average=None, zero_division=0),
        "ROC AUC": [*(metrics.roc_auc_score(truth[:, k], decision[:, k]) for k in range(2)), np.nan],
        "log loss": [metrics.log_loss(truth[:, k], share[:, k], labels=[0, 1]) for k in range(3)],
        "missed": ((truth == 1) & (guess == 0)).sum(axis=0),
    }
    for name, expected in each.items():
        found = [one[name] for one in held.by_target()]
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=name)
    assert held.scores == pytest.approx(
        {
            "Hamming accuracy": (truth == guess).mean(),
            "subset accuracy": metrics.accuracy_score(truth, guess),
            "F1 (macro)": metrics.f1_score(truth, guess, average="macro", zero_division=0),
            "ROC AUC (mean)": np.mean(each["ROC AUC"][:2]),
            "log loss": np.mean(each["log loss"]),
            "Brier score": np.square(share - truth).mean(),
        },
        rel=1e-12,
    )
    y = rng.normal(size=(50, 2))
    near = y + rng.normal(size=(50, 2))
    found = HeldOut(y, near, targets=("u", "v")).scores
    assert found["R^2"] == pytest.approx(metrics.r2_score(y, near), rel=1e-12)
    assert found["RMSE"] == pytest.approx(metrics.root_mean_squared_error(y, near), rel=1e-12)
    assert found["MAE"] == pytest.approx(metrics.mean_absolute_error(y, near), rel=1e-12)


def test_rows_of_one_class_have_no_curve():
    held = HeldOut(np.array(["a", "a"]), np.array(["a", "b"]), ["a", "b"], np.array([-1.0, 1.0]))
    assert held.scores == {"accuracy": 0.5, "balanced accuracy": 0.5, "F1 (macro)": pytest.approx(1 / 3)}


def test_intervals_hold_the_score_and_are_the_same_again(rng):
    for held in (held_classes(rng, 2), held_classes(rng, 4), held_numbers(rng)):
        found = scores_with_ends(held)
        assert set(found) == set(held.scores)
        for name, (low, high) in found.items():
            assert low < held.scores[name] < high, name
        assert scores_with_ends(held) == found
        again = scores_with_ends(held, seed=1)
        # means of recalls alone have random numbers
        assert {name for name in found if again[name] != found[name]} == set(found) & {"balanced accuracy"}


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """Accuracy of a machine that is right on 80 % of new rows, 200 times 100 held-out rows."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        truth = np.array(["a", "b"])[rng.integers(2, size=100)]
        guess = np.where(rng.random(100) < 0.8, truth, np.where(truth == "a", "b", "a"))
        low, high = intervals(HeldOut(truth, guess, ["a", "b"]))["accuracy"]
        covered += low <= 0.8 <= high
    assert 0.90 <= covered / 200 <= 0.99  # 0.95 is said; the standard error of 200 is 0.015


def test_few_rows_have_no_intervals(rng):
    assert intervals(HeldOut(np.array(["a"]), np.array(["a"]), ["a", "b"])) == {}
    # scores that samples of rows do not have
    same = HeldOut(np.array([2.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert set(intervals(same)) == {"MAE", "RMSE"}
    several = rng.normal(size=(30, 2))
    assert intervals(HeldOut(several, several)) == {}
    assert _classes(Basis(held=HeldOut(several, several, ["0", "1"]))) is None


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
    assert said.startswith(
        "Were all useful values of alpha tried? Inconclusive: the chosen one, 0.1, is the smallest of 3"
    )
    (said,) = at_an_end([10.0, 1.0, 0.1], 0)
    assert "values of alpha tried? Inconclusive: the chosen one, 10, is the largest of 3" in said
    (said,) = at_an_end([10.0, 1.0, 0.1], 2, C_=10.0)
    assert (
        "values of C tried? Inconclusive: the chosen one, 10, is the largest of 3, and a larger one" in said
    )
    assert at_an_end([10.0, 1.0, 0.1], 1) == []
    # a search ended before the end of its range, which is no reason for a wider one
    assert at_an_end([10.0, 1.0, 0.1], 2, _candidates=np.array([10.0, 1.0, 0.1, 0.01])) == []
    assert len(at_an_end([1.0, 0.1], 1, _candidates=np.array([10.0, 1.0, 0.1]))) == 1
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
    held = HeldOut(truth, np.repeat(["a", "b"], [25, 15]), ["a", "b", "c"])

    def doubts(held=None):
        found = collect(Basis(model=model, held=held))
        return [one.text for each in found.values() for one in each.sentences if one.topic == "distrust"]

    found = doubts(held)
    assert sum("values of alpha tried? Inconclusive: " in said for said in found) == 1
    assert sum("2 classes have fewer than 10 held-out rows (b: 9, c: 1)" in said for said in found) == 1
    assert sum("1 kernel is the identity on the training rows" in said for said in found) == 1
    report = make_report(model, title="t", data=[], settings={}, held=held, pictures=[])
    assert "What to distrust" in report
    for said in found:
        assert said.replace("'", "&#39;") in report
    low, high = intervals(held)["accuracy"]
    assert f"95 % interval {low:.2f} to {high:.2f}" in report
    alone = [said for said in doubts() if "were held out" not in said]
    assert alone == [said for said in found if "held-out" not in said and "not shown" not in said]


def test_areas_and_brier_scores_are_those_of_scikit_learn(rng):
    """With decision values that rows share, which count as half, and of two classes and three."""
    truth = np.repeat(["ill", "well"], 30)
    decision = rng.integers(0, 4, 60) + (truth == "well")
    guess = np.where(decision > 2, "well", "ill")
    of = class_scores(truth, guess, ["ill", "well"], decision.astype(float))
    assert of["ROC AUC"].value == pytest.approx(metrics.roc_auc_score(truth == "well", decision), abs=1e-12)
    # of several models the pairs of rows that the same one has predicted
    fold = rng.integers(0, 3, 60)
    of = class_scores(truth, guess, ["ill", "well"], decision + 100.0 * fold, folds=fold)
    parts = [(truth[fold == k] == "well", decision[fold == k]) for k in range(3)]
    expected = np.average(
        [metrics.roc_auc_score(*part) for part in parts], weights=[y.sum() * (~y).sum() for y, _ in parts]
    )
    assert of["ROC AUC"].value == pytest.approx(expected, abs=1e-12)
    for n_classes in (2, 3):
        names = np.array(["a", "b", "c"][:n_classes])
        y = names[np.arange(60) % n_classes]
        share = rng.dirichlet(np.ones(n_classes), 60)
        by_hand = np.square(share - (y[:, None] == names)).sum(axis=1).mean()
        if n_classes == 2:
            # as brier_score_loss has it: of one class
            by_hand = metrics.brier_score_loss(y == "b", share[:, 1])
        held = HeldOut(y, names[share.argmax(axis=1)], list(names), None, share)
        assert held.scores["Brier score"] == pytest.approx(by_hand, rel=1e-12)


def predicted(kind):
    """Rows with their predictions, of every kind: unequal classes, ties, groups, folds and divisions of the rows."""
    rng = np.random.default_rng(0)
    if kind == "numbers":
        one = held_numbers(rng, 40, 3.0)
        return [replace(one, groups=np.arange(40) // 3)]
    if kind == "numbers of folds":
        one, n = held_numbers(rng, 44), np.arange(44)
        first = replace(one, rows=n[::-1], folds=n % 4, seen=np.full(44, 0.15))
        return [first, replace(held_numbers(rng, 44), rows=n, folds=n // 11, seen=np.full(44, 0.2))]
    if kind == "few":
        names = [f"c{k}" for k in range(14)]
        return [HeldOut(np.array(names * 2), np.array(names + names[::-1]), names)]
    if kind == "labels":
        truth = (rng.random((30, 3)) < [0.3, 0.5, 0.8]).astype(int)
        guess = np.where(rng.random((30, 3)) < 0.7, truth, 1 - truth)
        return [HeldOut(truth, guess, None, rng.normal(size=(30, 3)), rng.random((30, 3)), ("a", "b", "c"))]
    if kind == "targets":
        truth = rng.normal(size=(30, 2))
        return [HeldOut(truth, truth + 0.3 * rng.normal(size=(30, 2)), targets=("first", "second"))]
    n_classes, n = (2 if "two" in kind else 3), np.arange(60)
    one = held_classes(rng, n_classes)
    if "groups" in kind:
        return [replace(one, groups=n // 4, folds=n // 20, rows=n + 100)]
    if "folds" in kind:
        other = replace(
            held_classes(rng, n_classes, 50), folds=n[:50] % 2, rows=n[10:], seen=np.full(50, 0.3)
        )
        return [replace(one, folds=n % 3, rows=n, seen=np.full(60, 0.2)), other]
    return [one]


KINDS = ["two classes", "two classes, groups", "two classes, folds", "three classes", "three classes, folds"]
KINDS += ["numbers", "numbers of folds", "few", "labels", "targets"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_known_and_said_of_held_out_rows(kind, recorded):
    held = predicted(kind)
    one = held[0]
    names = ("scores", "several", "squared_errors", "in_groups")
    found = {name: getattr(one, name) for name in names} | {"length": len(one)}
    found["intervals"] = held_intervals(*held, level=0.9, seed=3)
    found["texts"] = score_texts(one)
    if one.several:
        found["targets"] = one.by_target()
    else:
        found["rows"] = {name: vars(score) for name, score in one.row_scores.items()}
        moved = replace(one, prediction=one.prediction[::-1])
        found["gain"] = held_gain([moved], [one], 0.8)
    found["rankings"] = one.rankings()
    recorded("scores", found)
    model = SimpleNamespace(cv_results_=None)
    basis = Basis(model=model, held=one, nested=held if one.folds is not None else None)
    made = {
        name: REGISTRY[name].compute(basis)
        for name in ("held out", "classes", "targets", "nested", "reported")
    }
    made["calibration"] = REGISTRY["calibration"].compute(basis)
    recorded("findings", {name: brief(one.to_json()) for name, one in made.items() if one is not None})


def test_what_is_said_of_the_rows_of_a_model(recorded):
    """Few rows in the fit, or held out; weights of rows; nothing held out; rows of the fit."""

    def said(n=60, weight=None, basis=None, **more):
        source = SimpleNamespace(n_samples=n)
        task = SimpleNamespace(source=source, row_weight=weight)
        model = SimpleNamespace(model_=SimpleNamespace(task=task), **more)
        return REGISTRY["rows"].compute(Basis(model=model, **(basis or {}))).to_json()

    weights, two, numbers = np.array([0.5, 2.25, 1.0]), predicted("two classes")[0], predicted("numbers")[0]

    def part(held, n):
        names = ("truth", "prediction", "decision", "probability")
        return replace(
            held,
            groups=None,
            **{name: None if getattr(held, name) is None else getattr(held, name)[:n] for name in names},
        )

    recorded("nothing held out", said())
    recorded("few", said(49, predict_cumulative_hazard=None))
    recorded("weights", said(50, weights, {"held": numbers}))
    recorded("equal weights", said(50, np.full(3, 2.0), {"held": numbers}, classes_=[0, 1]))
    recorded("weights alone", said(50, weights))
    recorded("weights and folds", said(50, weights, {"nested": [two]}))
    recorded("times", said(50, weights, {"nested_times": [0.0], "held_times": [0.0] * 7}))
    recorded("29 rows", said(50, None, {"held": part(two, 29)}, classes_=[0, 1]))
    recorded("30 rows", said(50, None, {"held": part(two, 30)}, classes_=[0, 1]))
    recorded("29 numbers", said(50, None, {"held": part(numbers, 29)}))
    recorded("few of a class", said(50, None, {"held": part(two, 12)}, classes_=[0, 1]))
