"""Several labels of a row: one problem for each, with scikit-learn's conventions.

Modules: `estimators/targets`, `fitting/model`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import accuracy_score, f1_score, hamming_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.utils import compute_class_weight, estimator_checks

import kernelweave as kw
from kernelweave.kernels import RBF, Linear

BANK = [Linear(), RBF(gamma="median")]
L = 3


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(n_samples=90, n_classes=L, n_labels=2, random_state=0)
    return (X - X.mean(0)) / X.std(0), Y


def svm(**params):
    return kw.MKLClassifier(BANK, learner="simple", C=1.0, **params)


@pytest.mark.parametrize("learner", [{"learner": "simple", "C": 1.0}, {"alpha": 0.5}, {"learner": "mlmkl"}])
def test_every_label_is_a_problem_of_its_own(data, learner):
    X, Y = data
    model = kw.MKLClassifier(BANK, **learner).fit(X[:60], Y[:60])
    assert model.predict(X[60:]).shape == model.decision_function(X[60:]).shape == (30, L)
    for k in range(L):
        alone = kw.MKLClassifier(BANK, **learner).fit(X[:60], Y[:60, k])
        np.testing.assert_allclose(model.weights_[k], alone.weights_, atol=1e-12)
        np.testing.assert_allclose(
            model.decision_function(X[60:])[:, k], alone.decision_function(X[60:]), atol=1e-9
        )
        np.testing.assert_array_equal(model.predict(X[60:])[:, k], alone.predict(X[60:]))
    assert [c.tolist() for c in model.classes_] == [[0, 1]] * L
    assert model.label_names_.tolist() == ["label 0", "label 1", "label 2"]


def test_scores_are_those_of_scikit_learn(data):
    X, Y = data
    model = svm().fit(X[:60], Y[:60])
    predicted = model.predict(X[60:])
    assert model.score(X[60:], Y[60:]) == (predicted == Y[60:]).all(axis=1).mean()
    assert hamming_loss(Y[60:], predicted) < 0.35
    cv = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(svm(), X, Y, cv=cv, scoring="f1_macro")
    found = cross_val_predict(svm(), X, Y, cv=cv)
    by_hand = [f1_score(Y[test], found[test], average="macro") for _, test in cv.split(X)]
    np.testing.assert_allclose(scores, by_hand)


@pytest.mark.slow
@pytest.mark.parametrize("scoring", [None, "f1_micro", "roc_auc"])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_the_choice_of_c_equals_that_of_a_grid_search(data, scoring, n_labels):
    X, Y = data[0], data[1][:, :n_labels]
    cv = KFold(3, shuffle=True, random_state=0)
    learner = kw.learners.SimpleMKL()
    ours = kw.MKLClassifierCV(BANK, learner, Cs=[0.1, 1.0, 10.0], cv=cv, scoring=scoring).fit(X, Y)
    theirs = GridSearchCV(
        kw.MKLClassifier(BANK, learner), {"C": [10.0, 1.0, 0.1]}, cv=cv, scoring=scoring
    ).fit(X, Y)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"][::-1], theirs.cv_results_["mean_test_score"], atol=1e-3
    )
    assert theirs.best_params_["C"] == ours.C_
    assert ours.predict(X).shape == (90, n_labels)


def test_probabilities_of_labels_have_no_sum(data):
    X, Y = data
    logistic = kw.MKLClassifier(BANK, kw.learners.SimpleMKL(C=1.0, loss="logistic")).fit(X[:60], Y[:60])
    p = logistic.predict_proba(X[60:])
    np.testing.assert_allclose(p, 1.0 / (1.0 + np.exp(-logistic.decision_function(X[60:]))), rtol=1e-12)
    np.testing.assert_allclose(np.exp(logistic.predict_log_proba(X[60:])), p, rtol=1e-12)
    assert roc_auc_score(Y[60:], p) > 0.7
    model = svm().fit(X[:60], Y[:60])
    for method in ("platt", "isotonic"):
        curves = model.calibrate(method, cv=3).predict_proba(X[60:])
        assert curves.shape == (30, L)
        assert np.ptp(curves.sum(axis=1)) > 0.1
    folds = list(KFold(3).split(X[:60]))
    several = svm().fit(X[:60], Y[:60]).calibrate("platt", cv=folds).predict_proba(X[60:])
    for k in range(L):
        alone = svm().fit(X[:60], Y[:60, k]).calibrate("platt", cv=folds).predict_proba(X[60:])[:, 1]
        np.testing.assert_allclose(several[:, k], alone, atol=1e-6)


def test_frames_name_the_labels(data, tmp_path):
    X, Y = data
    expected = svm().fit(X, Y).decision_function(X)
    names = ["beach", "city", "people"]
    for y in (pd.DataFrame(Y, columns=names), pl.DataFrame(Y, schema=names)):
        model = svm().fit(X, y)
        assert model.label_names_.tolist() == names
        np.testing.assert_array_equal(model.decision_function(X), expected)
    assert model.score(X, Y) == accuracy_score(Y, model.predict(X))
    np.testing.assert_array_equal(svm().fit(X, sparse.csr_matrix(Y)).decision_function(X), expected)
    np.testing.assert_array_equal(svm().fit(X, Y.tolist()).decision_function(X), expected)
    yes = svm().fit(X, Y.astype(bool))
    np.testing.assert_array_equal(yes.decision_function(X), expected)
    assert yes.predict(X).dtype == bool
    kw.save(model.calibrate(cv=3), tmp_path / "m")
    again = kw.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.label_names_.tolist() == names
    assert kw.inspection.kernel_weights(model).outputs == tuple(names)
    assert kw.inspection.regularization_path(model, Cs=[1.0], output="city").weights.shape == (1, 2)
    kw.plots.KernelWeightsDisplay.from_estimator(model)
    from kernelweave_app.reports import make_report

    assert "city" in make_report(model, title="Labels", data=[], settings={}, X=X)


def test_weights_of_rows_and_folds_by_content(data):
    X, Y = data
    weight = np.arange(90) % 3
    once = kw.MKLClassifier(BANK).fit(X, Y, sample_weight=weight)
    twice = kw.MKLClassifier(BANK).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
    assert once.alpha_ == pytest.approx(twice.alpha_, rel=1e-9)
    np.testing.assert_allclose(once.decision_function(X), twice.decision_function(X), atol=1e-4)


def test_labels_that_say_nothing(data):
    X, Y = data
    Y = np.column_stack([Y, np.zeros(90, int), np.ones(90, int)])
    with pytest.warns(UserWarning, match="Labels 'label 3', 'label 4': all rows of the fit say the same"):
        model = svm().fit(X, Y)
    np.testing.assert_array_equal(model.predict(X)[:, 3:], Y[:, 3:])


@pytest.mark.parametrize("kernels", [kw.banks.linear_features(2), [kw.kernels.RBF(gamma=0.5)]])
def test_a_label_of_no_row_has_a_small_probability_with_the_logistic_loss(data, kernels):
    """Half a row of each label more: on features as on kernels, with weights as with repetitions."""
    X, Y = data
    Y = np.column_stack([Y[:, 0], np.zeros(90, int), np.ones(90, int)])
    weights = np.arange(90) % 3 + 1.0
    model = kw.MKLClassifier(kernels, kw.learners.SimpleMKL(C=1.0, loss="logistic"))
    for given, total in ((None, 90.0), (weights, weights.sum())):
        with pytest.warns(UserWarning, match="all rows of the fit say the same"):
            model.fit(X[:, :2], Y, sample_weight=given)
        none = 0.5 / (total + 1.0)
        expected = np.tile([none, 1.0 - none], (90, 1))
        np.testing.assert_allclose(model.predict_proba(X[:, :2])[:, 1:], expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([{"a"}, {"a", "b"}] * 45, r"sets of labels, such as \{'a'\}.*MultiLabelBinarizer"),
        ([["a"], ["a", "b"]] * 45, "MultiLabelBinarizer"),
        ([("a", "b"), ("c", "d")] * 45, "MultiLabelBinarizer"),
        ([[1], [1, 2]] * 45, "MultiLabelBinarizer"),
        (pd.Series([["a"], ["a", "b"]] * 45), "MultiLabelBinarizer"),
        (np.arange(180).reshape(90, 2), "0 and 1 in each of them.*got 2 in 'label 0'"),
        (np.full((90, 2), np.nan), "0 and 1 in each of them.*got nan"),
        (pd.DataFrame({"p": ["yes", "no"] * 45, "q": [0, 1] * 45}), "got 'yes' in 'p'"),
        (np.zeros((80, 2)), r"inconsistent numbers of samples: \[90, 80\]"),
        (np.zeros((90, 2, 2)), "one label for every row"),
    ],
)
def test_wrong_targets(data, y, words):
    with pytest.raises(kw.InputError, match=words):
        svm().fit(data[0], y)


FIXED = [Linear(), RBF(gamma=0.1)]


@pytest.mark.parametrize(
    "params",
    [
        {"learner": "simple", "C": 1.0, "normalize": None},
        {"alpha": 0.5, "normalize": "within-class"},
        {"learner": kw.learners.SimpleMKL(C=1.0, loss="logistic"), "normalize": None},
    ],
    ids=["simple", "rls2", "logistic"],
)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_class_weights_are_those_of_every_label_by_itself(data, params, weighted):
    X, Y = data
    weight = np.arange(90) % 3 + 0.5 if weighted else None
    given = [{0: 1.0, 1: 5.0}, {}, {1: 0.2}]
    for asked in (given, "balanced"):
        each = given if asked is given else ["balanced"] * L
        params = {"standardize": False, "fit_intercept": True, **params}
        model = kw.MKLClassifier(FIXED, class_weight=asked, **params).fit(X, Y, sample_weight=weight)
        for k in range(L):
            alone = kw.MKLClassifier(FIXED, class_weight=each[k], **params).fit(
                X, Y[:, k], sample_weight=weight
            )
            np.testing.assert_allclose(model.weights_[k], alone.weights_, atol=1e-12)
            np.testing.assert_allclose(
                model.decision_function(X)[:, k], alone.decision_function(X), atol=1e-9
            )


def test_balanced_labels_are_those_of_scikit_learn(data):
    X, Y = data
    rare = np.column_stack([np.arange(90) % 9 == 0, Y[:, 0]]).astype(int)
    by_hand = [dict(enumerate(compute_class_weight("balanced", classes=np.arange(2), y=y))) for y in rare.T]
    found = svm(class_weight="balanced").fit(X, rare)
    assert found.decision_function(X)[:, 0].max() > 0 > svm().fit(X, rare).decision_function(X)[:, 0].max()
    np.testing.assert_array_equal(
        found.decision_function(X), svm(class_weight=by_hand).fit(X, rare).decision_function(X)
    )
    task = found.model_.task
    np.testing.assert_allclose(
        task.loss_weight, np.array([[w[v] for v in y] for y, w in zip(rare.T, by_hand, strict=True)]).T
    )
    np.testing.assert_array_equal(task.weights_of(1), task.loss_weight[:, 1])
    with pytest.warns(UserWarning, match="all rows of the fit say the same"):
        svm(class_weight="balanced").fit(X, np.column_stack([Y, np.ones(90)]))


@pytest.mark.parametrize("params", [{}, {"alpha": "auto"}], ids=["C", "alpha"])
def test_a_choice_weighs_labels_by_their_classes(data, params):
    """Two equal labels make the choice of one."""
    X, Y = data
    params = {
        "kernels": FIXED,
        "normalize": None,
        "standardize": False,
        **(params or {"learner": "lp", "C": "auto"}),
    }
    twice = kw.MKLClassifier(class_weight=[{1: 4.0}] * 2, **params).fit(X, Y[:, [0, 0]])
    alone = kw.MKLClassifier(class_weight={1: 4.0}, **params).fit(X, Y[:, 0])
    np.testing.assert_allclose(
        twice.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"], atol=1e-9
    )
    plain = kw.MKLClassifier(**params).fit(X, Y[:, [0, 0]])
    # other candidates may have been looked at
    best = [one.cv_results_["mean_test_score"].max() for one in (plain, alone)]
    assert abs(best[0] - best[1]) > 1e-3
    np.testing.assert_allclose(twice.decision_function(X)[:, 1], alone.decision_function(X), atol=1e-6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({0: 1, 1: 5}, r"list of dicts for several labels.*got \{0: 1, 1: 5\}"),
        ("even", "'balanced', None or a list of dicts.*got 'even'"),
        ([{1: 2}] * 2, "a dict for each of the 3 labels, got 2"),
        ([{1: 2}, {"yes": 3}, {}], "of label 'label 1' must be for 0.*got 'yes'"),
        ([{1: -2}] * 3, "finite numbers > 0"),
        (["balanced"] * 3, "list of dicts"),
    ],
)
def test_wrong_weights_of_classes(data, given, words):
    with pytest.raises(kw.InputError, match=words):
        svm(class_weight=given).fit(*data)


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "check", [name for name in dir(estimator_checks) if name.startswith("check_classifiers_multilabel")]
)
@pytest.mark.parametrize(
    "estimator",
    [
        kw.MKLClassifier(BANK, learner="simple"),
        kw.MKLClassifierCV(BANK, learner="simple", Cs=[1.0], cv=2),
        kw.MKLClassifier(BANK, kw.learners.SimpleMKL(loss="logistic")),
    ],
    ids=["plain", "cv", "logistic"],
)
def test_checks_of_scikit_learn(check, estimator):
    function = getattr(estimator_checks, check)
    try:
        function("MKLClassifier", estimator)
    except estimator_checks.SkipTest as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(
    "normalize", [None, kw.normalizers.WithinClass(ddof=1)], ids=["none", "of each label"]
)
def test_weights_of_classes_are_those_of_each_label(normalize, rng):
    """They count in the loss of their label, and in its normaliser where every label has one of its own.

    With ddof=1 the variance within a class depends on the sum of its weights.
    """
    X = rng.normal(size=(60, 3))
    Y = np.c_[X[:, 0] > 0.5, X[:, 1] > -0.5].astype(int)
    bank = kw.banks.linear_features(3)
    # the squared loss: hinge solutions can stay where they are when kernels are rescaled
    plain = kw.MKLClassifier(bank, alpha=5.0, normalize=normalize, standardize=False)
    weights = [{1: 5.0}, {0: 3.0}]
    several = clone(plain).set_params(class_weight=weights).fit(X, Y).decision_function(X)
    for k, own in enumerate(weights):
        alone = clone(plain).set_params(class_weight=own).fit(X, Y[:, k]).decision_function(X)
        # measured over thirty draws: 3e-15, and 0.53 below
        np.testing.assert_allclose(several[:, k], alone, atol=1e-10)
        assert np.abs(alone - plain.fit(X, Y[:, k]).decision_function(X)).max() > 0.05


def test_a_normaliser_of_all_labels_does_not_see_weights_of_classes(rng):
    X = rng.normal(size=(60, 3))
    Y = np.c_[X[:, 0] > 0.5, X[:, 1] > -0.5].astype(int)
    plain = kw.MKLClassifier(BANK, "simple", C=1.0, normalize="mean-diagonal").fit(X, Y)
    weighted = clone(plain).set_params(class_weight="balanced").fit(X, Y)
    for one, other in zip(plain.model_.normalizers, weighted.model_.normalizers, strict=True):
        np.testing.assert_array_equal(one.scale, other.scale)


def test_deep_kernels_of_a_label_that_all_rows_share_have_no_layers(data):
    """The other labels keep their own layers, at their own places."""
    X, Y = data
    Y = np.column_stack([np.zeros(len(Y), dtype=int), Y[:, :2]])
    with pytest.warns(UserWarning, match="all rows of the fit say the same"):
        model = kw.MKLClassifier(BANK, "mlmkl").fit(X[:60], Y[:60])
    values = model.decision_function(X[60:])
    np.testing.assert_array_equal(values[:, 0], -1.0)
    for k in (1, 2):
        alone = kw.MKLClassifier(BANK, "mlmkl").fit(X[:60], Y[:60, k])
        np.testing.assert_allclose(values[:, k], alone.decision_function(X[60:]), atol=1e-9)
    np.testing.assert_array_equal(model.weights_[0], [[0.5, 0.5, np.nan, np.nan], [0.25] * 4])
    assert not model.kernel_contributions(X[60:])[:, :, 0].any()


def test_labels_that_all_rows_share_have_no_part_in_fractions():
    """They have no machine; of four columns each had an eighth of the weight by them."""
    X = np.random.default_rng(0).normal(size=(60, 4))
    Y = np.column_stack([X[:, 0] > 0, np.ones(60)]).astype(int)
    with pytest.warns(UserWarning, match="all rows of the fit say the same"):
        model = kw.MKLClassifier(kw.banks.linear_features(4), "simple", C=1.0).fit(X, Y)
    found = kw.inspection.view_weights(model)
    assert [found[f"x{k}"] for k in range(4)] == pytest.approx(model.weights_[0])
    assert kw.inspection.findings(model)["kernels"].details["with a weight"] == np.count_nonzero(
        model.weights_[0]
    )


def test_layers_where_a_label_has_no_machine():
    X = np.random.default_rng(0).normal(size=(40, 3))
    Y = np.column_stack([X[:, 0] > 0, np.ones(40), X[:, 1] > 0]).astype(int)
    learner = kw.learners.MLMKL(C=5.0, tol=1e-2)
    with pytest.warns(UserWarning, match="all rows of the fit say the same"):
        model = kw.MKLClassifier(kw.banks.mlmkl(), learner, normalize="cosine").fit(X, Y)
    found = kw.inspection.layer_weights(model)
    for layer, weights in enumerate(found.weights):
        np.testing.assert_array_equal(weights.T, model.weights_[:, layer])
    said = kw.inspection.findings(model)["layers"].values
    means = found.fractions[1][:, [0, 2]].mean(axis=1)
    assert [one.value for one in said.values()] == pytest.approx(means)
    assert [len(K) for K in kw.inspection.layer_grams(model, output=1).kernels] == [40]
