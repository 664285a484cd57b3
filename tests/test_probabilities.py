"""Probabilities of the logistic loss: scikit-learn's at one linear kernel, for every learner, and in every place.

Modules: `estimators/classifier`, `fitting/prediction`.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

import kernelweave as kw
from kernelweave.kernels import Linear
from kernelweave.learners import LEARNERS
from kernelweave_app.cli import main

#: What runs draw is looked at in other files.
pytestmark = pytest.mark.usefixtures("undrawn")

LINEAR = {"normalize": None, "standardize": False}


def split(load, step=2):
    X, y = load(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    names = np.array(["a", "b", "c"])[y]
    return X[::step], names[::step], X[1::step], names[1::step]


def uniform(C=1.0, **options):
    return kw.MKLClassifier(
        [Linear()], kw.learners.Uniform(C=C, loss="logistic", tol=1e-12), **LINEAR, **options
    )


@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 3.0, "b": 1.0}])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_linear_kernel_is_logistic_regression(class_weight, weighted, rng):
    X, y, new, _ = split(load_breast_cancer)
    weight = rng.integers(0, 4, len(y)).astype(float) if weighted else None
    ours = uniform(class_weight=class_weight).fit(X, y, sample_weight=weight)
    theirs = LogisticRegression(class_weight=class_weight, tol=1e-12, solver="newton-cholesky", max_iter=1000)
    theirs.fit(X, y, sample_weight=weight)
    # measured 1e-7
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-5)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_several_classes_are_one_against_the_rest_divided_by_their_sum():
    X, y, new, _ = split(load_wine)
    ours = uniform().fit(X, y)
    theirs = OneVsRestClassifier(LogisticRegression(tol=1e-12, solver="newton-cholesky")).fit(X, y)
    found = ours.predict_proba(new)
    np.testing.assert_allclose(found, theirs.predict_proba(new), atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(ours.classes_[found.argmax(axis=1)], ours.predict(new))
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(new)), found, rtol=1e-14)


def test_logarithms_hold_where_probabilities_are_zero():
    X = np.array([[-1.0], [-0.9], [0.9], [1.0]])
    model = uniform(C=100.0).fit(X, ["a", "a", "b", "b"])
    far = np.array([[1e4], [-1e4]])
    f = model.decision_function(far)
    assert (np.abs(f) > 1000).all()
    logs = model.predict_log_proba(far)
    np.testing.assert_allclose(logs, [[-f[0], 0.0], [0.0, f[1]]], rtol=1e-12, atol=1e-300)
    three = uniform(C=100.0).fit(np.array([[-1.0], [0.0], [1.0]]), ["a", "b", "c"])
    assert np.isfinite(three.predict_log_proba(np.array([[1e6], [-1e6]]))).all()
    np.testing.assert_allclose(three.predict_proba(np.array([[1e6], [-1e6]])).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", [name for name, cls in LEARNERS.items() if "loss" in cls().get_params()])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_learner_with_the_logistic_loss_has_them(name, rng):
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=40) > 0, "yes", "no")
    learner = LEARNERS[name](loss="logistic")
    if "max_iter" in learner.get_params() and learner.layer_names():
        learner.set_params(max_iter=3)
    model = kw.MKLClassifier(kw.banks.rkl(), learner).fit(X, y)
    assert model.rel_gap_ <= 1e-5
    found = model.predict_proba(X)
    np.testing.assert_allclose(found[:, 1], 1 / (1 + np.exp(-model.decision_function(X))), rtol=1e-12)
    # the derivative by the intercept is zero: the mean probability is the share of the class
    assert found[:, 1].mean() == pytest.approx((y == "yes").mean(), abs=1e-3)
    with pytest.raises(kw.InputError, match=" is for classification"):
        kw.MKLRegressor(kw.banks.rkl(), learner).fit(X, X[:, 0])


def test_losses_that_do_not_fit_are_refused(rng):
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    with pytest.raises(kw.InputError, match="quadratic program"):
        kw.MKLClassifier(learner=kw.learners.SimpleMKL(loss="logistic", solver="interior-point")).fit(X, y)
    with pytest.raises(kw.InputError, match="has the squared hinge, got `loss` 'logistic'"):
        kw.MKLClassifier(learner=kw.learners.ARDGaussian(loss="logistic", kind="kl-c")).fit(X, y)
    with pytest.raises(kw.InputError, match="`loss` must be 'auto', 'hinge'"):
        kw.MKLClassifier(learner=kw.learners.SimpleMKL(loss="log")).fit(X, y)


def test_scikit_learn_scores_and_searches_by_log_loss():
    X, y, new, truth = split(load_wine)
    learner = kw.learners.SimpleMKL(loss="logistic")
    model = kw.MKLClassifierCV(
        kw.banks.rkl(), learner, Cs=[0.01, 1.0, 100.0], cv=3, scoring="neg_log_loss"
    ).fit(X, y)
    direct = GridSearchCV(
        kw.MKLClassifier(kw.banks.rkl(), learner),
        {"learner__C": [100.0, 1.0, 0.01]},
        cv=3,
        scoring="neg_log_loss",
    ).fit(X, y)
    ours = model.cv_results_["mean_test_score"][np.argsort(model.Cs_)]
    theirs = direct.cv_results_["mean_test_score"][::-1]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert direct.best_params_["learner__C"] == pytest.approx(1 / model.alpha_)
    assert log_loss(truth, model.predict_proba(new)) < 0.3
    assert cross_val_predict(model, X, y, cv=3, method="predict_log_proba").shape == (len(y), 3)
    # a loss without probabilities has those of a temperature
    hinge = kw.MKLClassifierCV(kw.banks.rkl(), "simple", Cs=[0.1, 10.0], cv=3, scoring="neg_log_loss").fit(
        X, y
    )
    assert -0.5 < hinge.best_score_ < -0.05


@pytest.mark.full
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_they_are_as_good_as_a_calibrated_machine(load):
    """Scores on rows that were held out, beside a sigmoid on folds of a machine with the hinge; both with their best C.

    Measured log losses: 0.116 and 0.107 (breast cancer), 0.057 and 0.071 (wine).
    """
    X, y, new, truth = split(load)
    Cs = [1.0, 10.0, 100.0]
    own = kw.MKLClassifierCV(
        kw.banks.rkl(), kw.learners.SimpleMKL(loss="logistic"), Cs=Cs, cv=3, scoring="neg_log_loss"
    ).fit(X, y)
    C = kw.MKLClassifierCV(kw.banks.rkl(), "simple", Cs=Cs, cv=3).fit(X, y).alpha_ ** -1
    hinge = kw.MKLClassifier(kw.banks.rkl(), kw.learners.SimpleMKL(C=C))
    sigmoid = CalibratedClassifierCV(hinge, method="sigmoid", cv=5, ensemble=False).fit(X, y)
    right = (truth[:, None] == own.classes_).astype(float)
    found = [model.predict_proba(new) for model in (own, sigmoid)]
    logs = [log_loss(truth, p) for p in found]
    squares = [np.square(p - right).sum(axis=1).mean() for p in found]
    assert logs[0] <= 1.2 * logs[1]
    assert squares[0] <= 1.2 * squares[1]
    if len(own.classes_) == 2:
        assert squares[0] == pytest.approx(2 * brier_score_loss(truth == "b", found[0][:, 1]))


def test_a_calibration_takes_their_place():
    X, y, new, _ = split(load_wine)
    model = kw.MKLClassifier(kw.banks.rkl(), kw.learners.SimpleMKL(loss="logistic")).fit(X, y)
    before = model.predict_proba(new)
    after = model.calibrate(cv=3).predict_proba(new)
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(np.exp(model.predict_log_proba(new)), after, rtol=1e-12)
    np.testing.assert_array_equal(model.fit(X, y).predict_proba(new), before)


def test_files_and_the_command_line(tmp_path, capsys):
    X, y, new, _ = split(load_wine)
    model = kw.MKLClassifier(kw.banks.rkl(), kw.learners.LpMKL(loss="logistic")).fit(X, y)
    again = kw.load(kw.save(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    assert again.model_.learner.loss == "logistic"
    table, run = tmp_path / "wine.csv", tmp_path / "run"
    pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])]).assign(target=y).to_csv(table, index=False)
    fit = [
        "fit",
        str(table),
        "--target",
        "target",
        "--method",
        "simple",
        "--loss",
        "logistic",
        "--cs",
        "3",
        "--cv",
        "3",
    ]
    assert main([*fit, "--scoring", "neg_log_loss", "--out", str(run)]) == 0
    assert "log loss" in capsys.readouterr().out
    found = pd.read_csv(run / "predictions.csv")
    np.testing.assert_allclose(found[[f"probability {c}" for c in "abc"]].sum(axis=1), 1.0, atol=1e-9)
    assert main(["predict", str(run), str(table), "--out", str(tmp_path / "new.csv")]) == 0
    rows = pd.read_csv(table).drop(columns="target")
    written = pd.read_csv(tmp_path / "new.csv")[[f"probability {c}" for c in "abc"]]
    np.testing.assert_allclose(written, kw.load(run / "model.skops").predict_proba(rows), atol=1e-9)
    names = {}
    exec(compile((run / "script.py").read_text(), "script.py", "exec"), names)
    assert names["learner"].loss == "logistic"
