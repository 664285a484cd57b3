"""Parameters of the learner that estimators take themselves, and those that are reached through its name.

Modules: `kernels/composed`.
"""

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
        ridge.predict(X), kw.MKLRegressor(BANK, kw.learners.RLS2(alpha=0.1)).fit(X, y).predict(X)
    )
    assert ridge.alpha_ == 0.1
    auto = kw.MKLRegressor(BANK, kw.learners.RLS2(alpha=0.1, n_alphas=3), alpha="auto").fit(X, y)
    assert len(auto.alphas_) == 3


def test_it_stands_in_place_of_the_learners_own_and_leaves_the_object_alone(X, labels):
    learner = kw.learners.SimpleMKL(C=2.0, tol=1e-3)
    model = kw.MKLClassifier(BANK, learner, C=5.0).fit(X, labels)
    assert learner.C == 2.0
    assert (model.model_.learner.C, model.model_.learner.tol) == (5.0, 1e-3)
    assert kw.MKLClassifier(BANK, learner).fit(X, labels).C_ == 2.0


def test_learners_without_it_say_what_they_have(X, labels):
    with pytest.raises(InputError, match=r"`C` .*RLS2 has alpha\. Give alpha=, or .* learner='simple'"):
        kw.MKLClassifier(BANK, "rls2", C=10.0).fit(X, labels)
    for wrong in (0.0, -1.0, "best", True, float("nan")):
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


def test_parameters_of_a_loss_are_set_through_its_learner():
    """A loss is a value: the learner has another one, and the old one stays as it was."""
    loss = kw.losses.Huber(0.5)
    model = kw.MKLRegressor(learner=kw.learners.LpMKL(loss=loss))
    assert model.set_params(learner__loss__delta=2.0).learner.loss == kw.losses.Huber(2.0)
    assert loss.delta == 0.5
    for name, said in (
        ("loss__q", "`loss__q` is a parameter of `loss`, and Huber.* has delta. Set `loss` itself"),
        ("solver__q", "`solver__q` is a parameter of `solver`, and 'auto' has none. Set `solver` itself"),
        ("loss__delta", "`delta` must be a finite number > 0"),
    ):
        with pytest.raises(kw.InputError, match=said):
            model.set_params(**{f"learner__{name}": -1.0})
    with pytest.raises(kw.InputError, match="`loss__delta` is a parameter of `loss`, and 'huber' has none"):
        kw.learners.LpMKL(loss="huber").set_params(loss__delta=1.0)
    assert model.learner.loss == kw.losses.Huber(2.0)


PLAIN = {
    "classifier": kw.MKLClassifier,
    "regressor": kw.MKLRegressor,
    "classifier cv": kw.MKLClassifierCV,
    "regressor cv": kw.MKLRegressorCV,
    "own kernels": lambda: kw.MKLClassifier(BANK),
    "named": lambda: kw.MKLRegressor(BANK, "simple"),
    "object": lambda: kw.MKLClassifier(BANK, kw.learners.SimpleMKL()),
    "C": lambda: kw.MKLClassifier(C=10.0),
}
WRONG = [
    {"learner__nonsense": 1},
    {"gamma": 2.0, "nonsense": 1},
    {"learner__tol": 1e-3, "learner__nonsense": 1},
    {"learner__tol": 1e-3, "gamma": 2.0, "nonsense": 1},
    {"learner": "lp", "learner__p": 3.0, "nonsense": 1},
    {"learner": "simpel", "gamma": 2.0, "learner__C": 1.0},
    {"learner": "simple", "gamma": 2.0, "learner__alpha": 1.0},
    {"learner__tol__deeper": 1},
    {"fit_intercept": False, "gamma__deeper": 1},
]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_a_call_with_a_wrong_name_sets_nothing(make, wrong):
    estimator = make()
    before, learner = vars(estimator).copy(), repr(estimator.learner)
    with pytest.raises((ValueError, AttributeError)):
        estimator.set_params(**wrong)
    assert vars(estimator) == before
    assert repr(estimator.learner) == learner


def test_a_learner_of_the_call_stays_as_it_was():
    given = kw.learners.SimpleMKL(C=1.0)
    with pytest.raises(ValueError, match="nonsense"):
        kw.MKLClassifier().set_params(learner=given, learner__C=2.0, learner__nonsense=1)
    assert given.C == 1.0
    # which is changed in place, as scikit-learn does
    assert kw.MKLClassifier().set_params(learner=given, learner__C=2.0).learner is given
    assert given.C == 2.0


def test_a_setting_of_the_automatic_learner_changes_nothing_else(X, labels):
    plain = kw.MKLClassifier().fit(X, labels)
    # the value that it has anyway
    same = kw.MKLClassifier().set_params(learner__tol=plain.model_.learner.tol)
    assert (same.C, type(same.learner)) == ("auto", type(plain.model_.learner))
    same.fit(X, labels)
    np.testing.assert_array_equal(same.decision_function(X), plain.decision_function(X))
    np.testing.assert_array_equal(same.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    y = np.sin(X[:, 0])
    numbers = kw.MKLRegressor().fit(X, y)
    again = kw.MKLRegressor().set_params(learner__tol=numbers.model_.learner.tol)
    for one in (again, clone(again)):
        np.testing.assert_array_equal(one.fit(X, y).predict(X), numbers.predict(X))
        # also whether a metric is tried, which a learner that is stated rules out
        assert "Metric:" in one.explain_defaults()
    stated = kw.MKLRegressor(learner=again.learner.__class__(**again.learner.get_params())).fit(X, y)
    assert "Metric:" not in stated.explain_defaults()
    # a C that is asked for is no longer chosen, whatever else the call has
    assert kw.MKLClassifier().set_params(learner__C=3.0, learner__tol=1e-3).fit(X, labels).C_ == 3.0
    search = GridSearchCV(kw.MKLClassifier(), {"learner__C": [1e-4, 1.0]}, cv=2).fit(X, labels)
    assert search.best_params_["learner__C"] == search.best_estimator_.C_
    # other parameters of the same call count before the learner is resolved
    assert kw.MKLClassifier().set_params(kernels=BANK, learner__alpha=2.0).learner.alpha == 2.0


def test_what_has_no_effect_is_refused():
    message = r"`learner__C` would have no effect, because C=10.0 .* Set C itself, or C=None in the same call"
    for learner in (None, "simple", kw.learners.SimpleMKL()):
        estimator = kw.MKLClassifier(learner=learner, C=10.0)
        with pytest.raises(InputError, match=message):
            estimator.set_params(learner__C=3.0)
        assert estimator.set_params(learner__C=3.0, C=None).learner.C == 3.0
    with pytest.raises(InputError, match=r"MKLClassifierCV chooses C .* Set Cs=.* or use MKLClassifier\."):
        kw.MKLClassifierCV().set_params(learner__C=3.0)
    with pytest.raises(
        InputError, match=r"MKLRegressorCV chooses alpha .* Set alphas=.* or use MKLRegressor\."
    ):
        kw.MKLRegressorCV(BANK, "rls2").set_params(learner__alpha=3.0)
    with pytest.raises(InputError, match=r"so it is RLS2 here\. Set one .*or name a learner .*'simple'"):
        kw.MKLRegressor().set_params(learner__C=3.0)
    with pytest.raises(InputError, match=r"`gamma__deeper` is a parameter of `gamma`, and None has none"):
        kw.MKLClassifier().set_params(gamma__deeper=1)
    # what get_params says can be set again
    for estimator in (
        kw.MKLClassifier(BANK, kw.learners.SimpleMKL(), C=10.0),
        kw.MKLClassifierCV(BANK, kw.learners.SimpleMKL()),
    ):
        assert repr(clone(estimator).set_params(**estimator.get_params())) == repr(estimator)


def test_files_keep_it(X, labels, tmp_path):
    model = kw.MKLClassifier(BANK, "simple", C=3.0).fit(X, labels)
    persistence.save(model, tmp_path / "m")
    again = persistence.load(tmp_path / "m")
    assert (again.C, again.alpha, again.C_) == (3.0, None, model.C_)


# ---- gamma ----------------------------------------------------------------------------------------


def test_gamma_replaces_that_of_a_list(X, labels):
    bank = [
        kw.kernels.Linear(),
        2.0 * kw.kernels.RBF(3.0).on([0, 1]),
        kw.kernels.Laplacian().prepared("log1p"),
    ]
    given = [
        kw.kernels.Linear(),
        2.0 * kw.kernels.RBF(0.2).on([0, 1]),
        kw.kernels.Laplacian(0.2).prepared("log1p"),
    ]
    ours = kw.MKLClassifier(bank, "simple", gamma=0.2).fit(X, labels)
    assert ours.kernels_ == kw.MKLClassifier(given, "simple").fit(X, labels).kernels_
    # what becomes equal is one
    several = kw.MKLClassifier(kw.banks.rkl(), "simple", gamma="median").fit(X, labels)
    widths = [kernel for kernel in several.kernels_ if isinstance(kernel, kw.kernels.RBF)]
    assert widths == [kw.kernels.RBF("median").fitted(X)]
    assert len(several.kernels_) == 11
    multiple = kw.MKLClassifier([kw.kernels.RBF()], "simple", gamma=("median", 4.0)).fit(X, labels)
    assert multiple.kernels_ == [kw.kernels.RBF(("median", 4.0)).fitted(X)]


@pytest.mark.parametrize("gamma", [0.5, "scale", ("median", 2.0)])
def test_gamma_is_the_unit_of_the_default_bank(X, labels, gamma):
    model = kw.MKLClassifier(learner="simple", gamma=gamma).fit(X, labels)
    Z = X if model.model_.source.statistics is None else (X - X.mean(0)) / X.std(0)
    rule, factor = gamma if isinstance(gamma, tuple) else (gamma, 1.0)
    expected = {
        kw.kernels.RBF(gamma=k * gamma if isinstance(gamma, float) else (rule, factor * k)).fitted(Z).gamma
        for k in (0.25, 1.0, 4.0)
    }
    bases = [kernel for kernel in model.kernels_ if isinstance(kernel, kw.kernels.RBF)]
    if bases:  # without preparations of their own
        assert sorted(kernel.gamma for kernel in bases) == pytest.approx(sorted(expected))
    plain = kw.MKLClassifier(learner="simple").fit(X, labels)
    others = [k for k in model.kernels_ if isinstance(k, (kw.kernels.Linear, kw.kernels.Polynomial))]
    assert others == [k for k in plain.kernels_ if isinstance(k, (kw.kernels.Linear, kw.kernels.Polynomial))]


def test_gamma_can_be_searched_cloned_and_saved(X, labels, tmp_path):
    named = make_pipeline(StandardScaler(), kw.MKLClassifier(BANK, "simple", C=1.0))
    grid = {"mklclassifier__gamma": [0.01, "median", ("scale", 2.0)], "mklclassifier__C": [1.0]}
    search = GridSearchCV(named, grid, cv=2).fit(X, labels)
    assert search.best_estimator_[-1].gamma == search.best_params_["mklclassifier__gamma"]
    model = kw.MKLClassifierCV(BANK, "simple", gamma="scale", Cs=[1.0], cv=2).fit(X, labels)
    assert clone(model).gamma == "scale"
    kw.save(model, tmp_path / "m")
    again = kw.load(tmp_path / "m")
    assert (again.gamma, again.kernels_) == ("scale", model.kernels_)
    views = {"a": X[:, :2], "b": X[:, 2:]}
    bank = {"a": BANK, "b": None}
    by_view = kw.MKLClassifier(bank, "simple", gamma=0.3).fit(views, labels)
    assert [k.base.gamma for k in by_view.kernels_ if isinstance(k.base, kw.kernels.RBF)][:1] == [0.3]


def test_gamma_without_a_kernel_for_it(X, labels):
    with pytest.raises(InputError, match=r"`gamma` is for Gaussian and Laplacian kernels.*has none"):
        kw.MKLClassifier([kw.kernels.Linear()], gamma=1.0).fit(X, labels)
    K = kw.kernels.Linear()(X)[:, :, None]
    with pytest.raises(InputError, match=r"`gamma` is for .*precomputed"):
        kw.MKLClassifier("precomputed", gamma=1.0).fit(K, labels)
    for wrong in (0.0, -1.0, "wide", ("median", 0.0), True):
        with pytest.raises(InputError, match="`gamma` must be"):
            kw.MKLClassifier(BANK, gamma=wrong).fit(X, labels)


def test_gamma_on_the_command_line():
    pytest.importorskip("pydantic")
    from kernelweave_app.runs.fitting import parse_gamma

    texts = {"": None, "0.5": 0.5, "median": "median", "4*scale": ("scale", 4.0), " 1 * median ": "median"}
    for text, value in texts.items():
        assert parse_gamma(text) == value
    for text in ("wide", "x*median", "-1", "2*wide"):
        with pytest.raises(InputError, match="gamma"):
            parse_gamma(text)
