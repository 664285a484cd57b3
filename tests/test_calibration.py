"""Probabilities: the same as scikit-learn's calibration on the same folds, without a model seeing its own judges.

Modules: `fitting/calibration`, `estimators/classifier`.
"""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, StratifiedKFold

import kernelweave as kw
from kernelweave import InputError
from kernelweave.fitting.calibration import calibrate

CV = StratifiedKFold(4, shuffle=True, random_state=0)


def model(**options):
    return kw.MKLClassifier(kw.banks.rkl(), kw.learners.SimpleMKL(C=0.1), **options)


@pytest.fixture(scope="module", params=["two classes", "three classes"])
def tables(request):
    X, y = (load_breast_cancer if request.param == "two classes" else load_wine)(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[::2], np.array(["a", "b", "c"])[y[::2]], X[1::2], np.array(["a", "b", "c"])[y[1::2]]


@pytest.mark.parametrize(("method", "name"), [("platt", "sigmoid"), ("isotonic", "isotonic")])
def test_as_scikit_learn_does(tables, method, name):
    X, y, new, truth = tables
    ours = model().fit(X, y)
    before = ours.predict(new)
    found = ours.calibrate(method, cv=CV).predict_proba(new)
    theirs = CalibratedClassifierCV(model(), method=name, cv=CV, ensemble=False).fit(X, y)
    # measured: 3e-8, where their sigmoid stops
    np.testing.assert_allclose(found, theirs.predict_proba(new), atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(ours.predict(new), before)
    shares = np.tile((y[:, None] == ours.classes_).mean(axis=0), (len(new), 1))
    if method == "platt":
        assert log_loss(truth, found) < 0.4 * log_loss(truth, shares)


def test_weights_count_like_repetitions(tables, rng):
    X, y, new, _ = tables
    X, y = X[:60], y[:60]
    counts = rng.integers(1, 4, len(y))
    row = np.repeat(np.arange(len(y)), counts)
    codes = np.unique(y, return_inverse=True)[1]
    folds = list(CV.split(X, y))
    many = [(np.flatnonzero(np.isin(row, a)), np.flatnonzero(np.isin(row, b))) for a, b in folds]
    learner = kw.learners.SimpleMKL(C=0.1, tol=1e-10)
    one = kw.MKLClassifier(kw.banks.rkl(), learner).fit(X, y, sample_weight=counts).calibrate(cv=folds)
    two = kw.MKLClassifier(kw.banks.rkl(), learner).fit(X[row], y[row]).calibrate(cv=many)
    np.testing.assert_allclose(one.predict_proba(new), two.predict_proba(new), atol=1e-4)
    f = rng.normal(size=(len(y), 1))
    for method in ("temperature", "platt", "isotonic"):
        a = calibrate(f, codes > 0, counts.astype(float), method)
        b = calibrate(f[row], codes[row] > 0, None, method)
        np.testing.assert_allclose(a(f), b(f), atol=1e-6)


def test_class_weights_do_not_change_what_is_probable():
    """One in ten rows is positive, and the columns say nothing: the probability stays one in ten."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 10 == 0
    balanced = model(class_weight="balanced").fit(X, y).calibrate("platt")
    assert balanced.predict_proba(X)[:, 1].mean() == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("method", ["temperature", "platt", "isotonic"])
def test_curves_are_those_of_fits_on_the_other_folds(method, rng):
    """Rows count by their weights; times the factor of their class where the order of classes is that of `predict`."""
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 4 == 0
    X[:, 0] += y
    weight, factor = rng.uniform(0.3, 3.0, 60), np.where(y, 4.0, 1.0)
    options = {"class_weight": {False: 1.0, True: 4.0}, "normalize": "mean-diagonal"}
    kernels, learner = (
        [kw.kernels.Linear(), kw.kernels.RBF(gamma=0.2)],
        kw.learners.SimpleMKL(C=0.5, tol=1e-9),
    )
    found = (
        kw.MKLClassifier(kernels, learner, **options).fit(X, y, sample_weight=weight).calibrate(method, cv=CV)
    )
    held = np.zeros(60)
    for train, test in CV.split(X, y):
        own = kw.MKLClassifier(kernels, learner, **options).fit(
            X[train], y[train], sample_weight=weight[train]
        )
        held[test] = own.decision_function(X[test])
    f = found.decision_function(X)
    counted = weight * factor if method == "temperature" else weight
    if method == "isotonic":
        other = IsotonicRegression(out_of_bounds="clip").fit(held, y, sample_weight=counted)
        expected = other.predict(f)
    else:
        up, down = counted[y].sum(), counted[~y].sum()
        target = np.where(y, (up + 1.0) / (up + 2.0), 1.0 / (down + 2.0))
        if method == "temperature":
            target = ((up + down) * y + 0.5) / (up + down + 1.0)

        def loss(line):
            values = np.polyval(np.r_[line, np.zeros(2 - len(line))], held)
            return counted @ (np.logaddexp(0.0, values) - target * values)

        line = minimize(loss, np.zeros(1 if method == "temperature" else 2), tol=1e-12).x
        expected = expit(np.polyval(np.r_[line, np.zeros(2 - len(line))], f))
    # temperatures have three digits
    np.testing.assert_allclose(
        found.predict_proba(X)[:, 1], expected, atol=5e-3 if method == "temperature" else 1e-5
    )


def test_precomputed_kernels_and_files(tables, tmp_path):
    X, y, new, _ = tables
    bank = kw.banks.rkl()
    train, cross = (np.stack([k(A, X) for k in bank], axis=2) for A in (X, new))
    direct = model(standardize=False).fit(X, y).calibrate(cv=CV)
    stacks = kw.MKLClassifier("precomputed", kw.learners.SimpleMKL(C=0.1)).fit(train, y).calibrate(cv=CV)
    np.testing.assert_allclose(stacks.predict_proba(cross), direct.predict_proba(new), atol=1e-6)
    again = kw.load(kw.save(direct, tmp_path / "model.skops", training_rows=True))
    np.testing.assert_array_equal(again.predict_proba(new), direct.predict_proba(new))
    # sums over features in place of training rows
    again = kw.load(kw.save(direct, tmp_path / "model.skops"))
    np.testing.assert_allclose(again.predict_proba(new), direct.predict_proba(new), rtol=1e-12, atol=1e-12)


def test_refusals(tables):
    X, y, new, _ = tables
    fitted = model().fit(X, y)
    with pytest.raises(InputError, match=r"`method` must be .*got 'sigmoid'"):
        fitted.calibrate("sigmoid")
    with pytest.raises(InputError, match=r"`cv` must be .* >= 2, got 1"):
        fitted.calibrate(cv=1)
    groups = np.arange(len(y)) // 2
    assert fitted.calibrate(cv=GroupKFold(3), groups=groups).predict_proba(new).shape == (
        len(new),
        len(fitted.classes_),
    )
    assert not hasattr(fitted.fit(X, y), "calibration_")  # a new fit forgets


def test_rows_that_no_class_wants():
    values = np.array([[-1.0, -1.0, -1.0], [1.0, -1.0, -1.0]])
    codes = np.array([0, 1, 2, 0, 1, 2])
    f = np.where(np.eye(3)[codes] > 0, 1.0, -1.0)
    np.testing.assert_array_equal(
        calibrate(f, codes, None, "isotonic")(values), [[1 / 3] * 3, [1.0, 0.0, 0.0]]
    )


def test_the_order_of_rows_with_several_labels_does_not_matter(rng):
    """Their folds were blocks of rows, in sorted tables of one class each."""
    X = rng.normal(size=(60, 3))
    Y = (X[:, :2] + 0.5 * rng.normal(size=(60, 2)) > 0).astype(int)
    order = np.lexsort(Y.T)
    found = [
        model().fit(X[rows], Y[rows]).calibrate("platt").predict_proba(X) for rows in (np.arange(60), order)
    ]
    # measured: 3e-11
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


def test_temperatures_of_labels_have_the_class_weights_of_each(rng):
    """One label twice, with and without weights, against two classes; by `predict_proba` alone and by `calibrate`."""
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] + 1.5 * rng.normal(size=80) > 0.8).astype(int)
    row_weight, given = rng.integers(1, 4, 80), [{0: 1.0, 1: 9.0}, {}]

    def fitted(target, class_weight):
        kernels = [kw.kernels.RBF(gamma=0.1), kw.kernels.RBF(gamma=1.0)]
        one = kw.MKLClassifier(kernels, "simple", C=1.0, normalize="none", class_weight=class_weight)
        return one.fit(X, target, sample_weight=row_weight)

    labels = fitted(np.column_stack([y, y]), given)
    alone = [fitted(y, own or None) for own in given]
    assert abs(alone[0].model_.calibration.curves[0] / alone[1].model_.calibration.curves[0] - 1) > 0.1
    for calibrated in (False, True):
        for one in (labels, *alone) if calibrated else ():
            one.calibrate(cv=CV.split(X, y))
        found = labels.predict_proba(X)
        expected = np.column_stack([one.predict_proba(X)[:, 1] for one in alone])
        # measured: 2e-15; slopes have three digits
        np.testing.assert_allclose(found, expected, atol=1e-6)
