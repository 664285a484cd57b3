"""Parameters of the learner that estimators take themselves, and those that are reached through its name."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import persistence
from kernelweave._checks import InputError

BANK = [kw.kernels.Linear(), kw.kernels.RBF(0.1)]


@pytest.fixture
def X(rng):
    return rng.normal(size=(40, 3))


@pytest.fixture
def labels(X):
    return np.where(X[:, 0] * X[:, 1] + 0.1 * X[:, 2] > 0, "a", "b")


@pytest.mark.parametrize(
    "name", [name for name, cls in kw.learners.LEARNERS.items() if cls.regularization_parameter == "C"]
)
def test_every_learner_with_a_c_takes_it(name):
    learner = kw.MKLClassifier(BANK, name, C=7.0)._resolved_learner()
    assert learner.C == 7.0
    with pytest.raises(InputError, match=r"`alpha` is for learners that have it, and \w+ has C\. Give C="):
        kw.MKLClassifier(BANK, name, alpha=1.0).fit(np.eye(4), [0, 1, 0, 1])


def test_a_short_cut_is_the_parameter_of_the_learner(X, labels):
    by_name = kw.MKLClassifier(BANK, "simple", C=10.0).fit(X, labels)
    by_object = kw.MKLClassifier(BANK, kw.learners.SimpleMKL(C=10.0)).fit(X, labels)
    np.testing.assert_array_equal(by_name.decision_function(X), by_object.decision_function(X))
    assert by_name.C_ == 10.0
    y = X[:, 0] + 0.1
    ridge = kw.MKLRegressor(BANK, alpha=0.1).fit(X, y)
    np.testing.assert_array_equal(
        ridge.predict(X), kw.MKLRegressor(BANK, kw.learners.RLS2(0.1)).fit(X, y).predict(X)
    )
    assert ridge.alpha_ == 0.1
    auto = kw.MKLRegressor(BANK, kw.learners.RLS2(0.1, n_alphas=3), alpha="auto").fit(X, y)
    assert len(auto.alphas_) == 3


def test_it_stands_in_place_of_the_learners_own_and_leaves_the_object_alone(X, labels):
    learner = kw.learners.SimpleMKL(C=2.0, tol=1e-3)
    model = kw.MKLClassifier(BANK, learner, C=5.0).fit(X, labels)
    assert learner.C == 2.0
    assert (model.model_.learner.C, model.model_.learner.tol) == (5.0, 1e-3)
    assert kw.MKLClassifier(BANK, learner).fit(X, labels).C_ == 2.0


def test_learners_without_it_say_what_they_have(X, labels):
    with pytest.raises(InputError, match=r"`C` .*RLS2 has alpha\. Give alpha=, or .* learner='simple'"):
        kw.MKLClassifier(BANK, C=10.0).fit(X, labels)
    for wrong in (0.0, -1.0, "auto", True, float("nan")):
        with pytest.raises(InputError, match="`C` must be"):
            kw.MKLClassifier(BANK, "simple", C=wrong).fit(X, labels)
    with pytest.raises(InputError, match="`alpha` must be 'auto' or a number > 0"):
        kw.MKLRegressor(BANK, alpha=0.0).fit(X, X[:, 0])
    # estimators that choose the regularisation parameter have a grid of it
    with pytest.raises(TypeError, match="'C'"):
        kw.MKLClassifierCV(BANK, "simple", C=10.0)


def test_clones_and_grids(X, labels):
    estimator = kw.MKLClassifier(BANK, "simple", C=3.0)
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.get_params()["C"] == 3.0
    search = GridSearchCV(estimator, {"C": [0.1, 10.0]}, cv=2).fit(X, labels)
    assert search.best_params_["C"] == search.best_estimator_.C_


def test_parameters_of_a_learner_that_was_named(X, labels):
    estimator = kw.MKLClassifier(BANK, "simple")
    assert estimator.set_params(learner__C=4.0, learner__tol=1e-3) is estimator
    assert isinstance(estimator.learner, kw.learners.SimpleMKL)
    assert (estimator.learner.C, estimator.learner.tol) == (4.0, 1e-3)
    estimator.set_params(learner="lp", learner__p=2.0)
    assert isinstance(estimator.learner, kw.learners.LpMKL)
    assert kw.MKLClassifierCV(BANK, "simple").set_params(learner__tol=1e-3).learner.tol == 1e-3
    named = make_pipeline(StandardScaler(), kw.MKLClassifier(BANK, "simple"))
    search = GridSearchCV(named, {"mklclassifier__learner__C": [0.1, 10.0]}, cv=2).fit(X, labels)
    assert search.best_params_["mklclassifier__learner__C"] == search.best_estimator_[-1].C_
    assert named[-1].learner == "simple"
    with pytest.raises(ValueError, match="Invalid parameter 'alpha'"):
        kw.MKLClassifier(BANK, "simple").set_params(learner__alpha=1.0)
    with pytest.raises(InputError, match="Unknown learner 'simpel'"):
        kw.MKLClassifier(BANK).set_params(learner="simpel", learner__C=1.0)


def test_files_keep_it(X, labels, tmp_path):
    model = kw.MKLClassifier(BANK, "simple", C=3.0).fit(X, labels)
    persistence.save(model, tmp_path / "m")
    again = persistence.load(tmp_path / "m")
    assert (again.C, again.alpha, again.C_) == (3.0, None, model.C_)
