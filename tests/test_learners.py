"""Margin learners behind the estimators: certificates, paths, compositions.

Modules: `learners`, `learners/base`, `learners/margin`, `learners/solving`.
"""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC, SVR

import kernelweave as kw
from kernelweave import InputError, learners
from kernelweave.kernels import RBF, Linear, Polynomial
from kernelweave.learners import LEARNERS, alignment
from kernelweave.learners.solving import Output
from kernelweave.machines.losses import Cox

MARGIN = [name for name, learner in LEARNERS.items() if learner.regularization_parameter == "C"]
REGRESSION = [name for name in MARGIN if LEARNERS[name].regression]
#: Learners with weights in several layers.
LAYERS = {name: (2,) for name in ("mlmkl", "dmkl", "deep-uniform")}
#: Learners whose gap certifies the weights too.
CONVEX = ["simple", "silp", "lp", "elastic-net", "soft-margin", "rkl", "do"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", LEARNERS)
def test_learners_that_leave_kernels_out_say_so(name, rng):
    """Of six columns two matter; these learners may give a weight of 0, but give every one here a weight."""
    X = rng.normal(size=(40, 6))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=40) > 0, 1, -1)
    settings = {"max_iter": 5} if name in ("mlmkl", "dmkl", "2lmkl", "gaussian", "parametric") else {}
    learner = LEARNERS[name](**settings | ({"family": "rational-quadratic"} if name == "parametric" else {}))
    model = kw.MKLClassifier([Linear().on([j]) for j in range(6)], learner).fit(X, y)
    left_out = bool((model.weights_ == 0).any())
    assert left_out == learner.sparse or name in ("elastic-net", "kl-c", *LAYERS)
    assert learner.sparse or not left_out


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "regression"),
    # for DMKL repeated rows span each other
    [(name, task) for name, kind in LEARNERS.items() for task in {False, kind.regression} if name != "dmkl"],
)
def test_weights_of_rows_and_scales_of_kernels_reach_every_part(name, regression, rng):
    """A weight is a repetition, and a factor of a kernel is none, in the weights of kernels and in the machine."""
    kind = LEARNERS[name]
    settings = {"tol": 1e-7 if name == "silp" else 1e-9} if "tol" in kind().get_params() else {}
    if name in ("mlmkl", "parametric", "gaussian"):
        settings = {"max_iter": 2}
    X, counts = rng.normal(size=(24, 3)), rng.integers(1, 4, 24)
    t = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=24)
    y, rows = (t if regression else t > 0), np.repeat(np.arange(24), counts)
    kernels = [Linear().on([0]), RBF(gamma=0.5), RBF(gamma=1.0).on([1])]
    estimator = (kw.MKLRegressor if regression else kw.MKLClassifier)(
        kernels, kind(**settings, **{kind.regularization_parameter: 1.0})
    )
    predict = "predict" if regression else "decision_function"
    plain = getattr(estimator.fit(X, y), predict)(X)
    weighted = estimator.fit(X, y, sample_weight=counts)
    weights, f = weighted.weights_, getattr(weighted, predict)(X)
    estimator.set_params(kernels=[a * kernel for a, kernel in zip((100.0, 0.01, 7.0), kernels, strict=True)])
    repeated = estimator.fit(X[rows], y[rows])
    # measured 5e-5 of parametric kernels on four seeds; without a weight 1e-2
    np.testing.assert_allclose(weights, repeated.weights_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(f, getattr(repeated, predict)(X), rtol=1e-4, atol=1e-4)
    assert np.abs(f - plain).max() > 1e-2


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return train_test_split(X[:, :8], y, random_state=0, stratify=y)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X[:, :6], y, random_state=0, stratify=y)


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MARGIN)
def test_two_classes(name, cancer):
    train, test, y, truth = cancer
    # the ball of every kernel on its own takes long for the default bank
    bank = [Linear().on([j]) for j in range(8)] if name == "do" else None
    model = kw.MKLClassifier(bank, name, standardize=True).fit(train, y)
    assert model.score(test, truth) > 0.88
    assert pytest.approx(1.0) == model.C_
    assert model.weights_.shape == (*LAYERS.get(name, ()), model.n_kernels_)
    parts = model.kernel_contributions(test)
    np.testing.assert_allclose(parts.sum(axis=1) + model.intercept_, model.decision_function(test), atol=1e-8)
    if name in CONVEX:
        assert model.rel_gap_ <= max(10 * LEARNERS[name]().tol, 1e-6)


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MARGIN)
def test_three_classes(name, wine):
    train, test, y, truth = wine
    model = kw.MKLClassifier(learner=name).fit(train, y)
    assert model.weights_.shape == (3, *LAYERS.get(name, ()), model.n_kernels_)
    assert model.intercept_.shape == (3,)
    assert model.score(test, truth) > 0.85


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", REGRESSION)
def test_regression(name, rng):
    X = rng.normal(size=(60, 3))
    y = np.sin(2 * X[:, 0]) + 0.05 * rng.normal(size=60)
    learner = LEARNERS[name](C=10.0, epsilon=0.05)
    bank = [k.on([j]) for j in range(3) for k in (Linear(), RBF(gamma=1.0))]
    model = kw.MKLRegressor(bank, learner).fit(X, y)
    assert model.score(X, y) > 0.7
    several = kw.MKLRegressor(bank, learner).fit(X, np.column_stack([y, -y]))
    assert several.predict(X).shape == (60, 2)
    np.testing.assert_allclose(several.predict(X)[:, 0], model.predict(X), atol=1e-3)
    with pytest.raises(InputError, match="Gaussian process"):
        model.predict(X, return_std=True)


def test_one_kernel_is_the_support_vector_machine(cancer, rng):
    train, _, y, _ = cancer
    z = (train - train.mean(axis=0)) / train.std(axis=0)
    for name in ("simple", "lp", "elastic-net", "soft-margin", "uniform", "best"):
        model = kw.MKLClassifier([RBF(gamma=0.2)], LEARNERS[name](C=3.0), normalize=None).fit(z, y)
        svc = SVC(C=3.0, gamma=0.2, tol=1e-10).fit(z, y)
        np.testing.assert_allclose(model.decision_function(z), svc.decision_function(z), atol=1e-4)
    x = rng.normal(size=(50, 2))
    target = x[:, 0] ** 2
    model = kw.MKLRegressor([RBF(gamma=0.5)], learners.SimpleMKL(C=3.0, epsilon=0.05), normalize=None).fit(
        x, target
    )
    svr = SVR(C=3.0, gamma=0.5, epsilon=0.05, tol=1e-10).fit(x, target)
    np.testing.assert_allclose(model.predict(x), svr.predict(x), atol=1e-4)


def test_the_same_problem_has_the_same_optimum(cancer):
    train, _, y, _ = cancer
    bank = [RBF(gamma=g) for g in (0.01, 0.1, 1.0)] + [Linear().on([j]) for j in range(8)]
    fits = [
        learners.SimpleMKL(C=5.0),
        learners.SimpleMKL(C=5.0, solver="cutting-plane", tol=1e-6),
        learners.SILP(C=5.0),
        learners.SoftMarginMKL(theta=1.0, C=5.0),
        learners.LpMKL(p=1, C=5.0),
        learners.ElasticNetMKL(mix=1, C=5.0),
    ]
    values = [kw.MKLClassifier(bank, f, standardize=True).fit(train, y).objective_ for f in fits]
    np.testing.assert_allclose(values, values[0], rtol=3e-6)


def test_an_elastic_net_without_the_1_norm_is_the_sum_of_kernels(cancer):
    train, test, y, _ = cancer
    net = kw.MKLClassifier(learner=learners.ElasticNetMKL(mix=0, C=2.0, solver="newton")).fit(train, y)
    np.testing.assert_array_equal(net.weights_, 1.0)
    near = kw.MKLClassifier(learner=learners.ElasticNetMKL(mix=1e-6, C=2.0)).fit(train, y)
    np.testing.assert_allclose(near.decision_function(test), net.decision_function(test), atol=1e-3)


def test_soft_margin_at_its_smallest_cap_is_the_average(cancer):
    train, test, y, _ = cancer
    average = kw.MKLClassifier(learner=learners.Uniform(C=2.0)).fit(train, y)
    soft = kw.MKLClassifier(learner=learners.SoftMarginMKL(theta=1e-9, C=2.0)).fit(train, y)
    np.testing.assert_allclose(soft.weights_, average.weights_, rtol=1e-6)
    np.testing.assert_allclose(soft.decision_function(test), average.decision_function(test), atol=1e-6)


def test_best_kernel_finds_the_planted_one(rng):
    X = rng.normal(size=(90, 4))
    y = X[:, 2] ** 2 > 0.6
    bank = [RBF(gamma=1.0).on([j]) for j in range(4)]
    model = kw.MKLClassifier(bank, learners.BestKernel(C=5.0)).fit(X, y)
    assert model.weights_.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("name", ["solve_alignf", "solve_easy_mkl"])
def test_unfinished_weights_before_the_machine_are_told(name, cancer, monkeypatch):
    train, _, y, _ = cancer
    solve = getattr(alignment, name)
    monkeypatch.setattr(alignment, name, lambda *args, **options: solve(*args, **options, max_iter=1))
    model = kw.MKLClassifier(learner="alignf" if name == "solve_alignf" else "easy")
    # these learners have no max_iter, and no solver to choose
    with pytest.warns(
        ConvergenceWarning, match=r"limit of iterations was reached .* tol\. Raise tol or scale"
    ):
        model.fit(train, y)
    assert model.status_ == "max_iter"


def test_align_learners_use_the_weights_of_the_solvers(cancer):
    train, _, y, _ = cancer
    bank = [RBF(gamma=g) for g in (0.01, 0.1, 1.0)] + [Linear().on([j]) for j in range(4)]
    stack = np.stack([k(train) for k in bank], axis=-1)
    scale = 1.0 / np.einsum("iim->m", stack) * len(y)
    signs = np.where(y == 1, 1.0, -1.0)
    for learner, expected in (
        (learners.Align(), kw.solvers.solve_align(stack, signs, scale=scale)),
        (learners.AlignF(), kw.solvers.solve_alignf(stack, signs, scale=scale)),
        (learners.EasyMKL(lam=0.3), kw.solvers.solve_easy_mkl(stack, signs, 0.3, scale=scale)),
    ):
        model = kw.MKLClassifier(bank, learner).fit(train, y)
        np.testing.assert_allclose(model.weights_, expected.weights, atol=1e-6, err_msg=repr(learner))


def test_paths_choose_C(cancer):
    train, test, y, truth = cancer
    model = kw.MKLClassifierCV(learner="simple", Cs=[0.01, 0.1, 1.0, 10.0], cv=3).fit(train, y)
    np.testing.assert_array_equal(model.Cs_, 1.0 / model.alphas_)
    # the C that was asked for and scored best, not only the inverse of some alpha
    Cs = 1.0 / model.cv_results_["alpha"]
    np.testing.assert_allclose(np.sort(Cs), [0.01, 0.1, 1.0, 10.0], rtol=1e-12)
    assert pytest.approx(Cs[int(np.argmax(model.cv_results_["mean_test_score"]))], rel=1e-12) == model.C_
    assert len(model.cv_results_["mean_test_score"]) == 4
    assert model.score(test, truth) > 0.88
    from kernelweave.inspection import regularization_path

    path = regularization_path(model)
    assert path.weights.shape == (4, model.n_kernels_)
    at_fixed = kw.MKLClassifier(learner=learners.SimpleMKL(C=model.C_)).fit(train, y)
    assert at_fixed.objective_ == pytest.approx(model.objective_, rel=1e-6)


def test_class_and_sample_weights_are_costs(cancer):
    train, _, y, _ = cancer
    weights = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    repeated = np.repeat(np.arange(len(y)), weights.astype(int))
    one = kw.MKLClassifier(learner="simple").fit(train, y, sample_weight=weights)
    two = kw.MKLClassifier(learner="simple").fit(train[repeated], y[repeated])
    np.testing.assert_allclose(one.decision_function(train), two.decision_function(train), atol=1e-4)


def test_balanced_classes_weigh_the_same_in_all(rng):
    """Balanced weights make the total of both classes equal, with the weights of rows counted in."""
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0.8, 1, 0)
    weights = np.where(y == 1, 1.0, 3.0) * rng.integers(1, 4, size=60)
    balanced = kw.MKLClassifier([Linear()], "simple", class_weight="balanced").fit(X, y, weights)
    total = np.array([weights[y == k].sum() for k in (0, 1)])
    by_hand = weights * (weights.sum() / (2.0 * total))[y]
    expected = kw.MKLClassifier([Linear()], "simple").fit(X, y, by_hand)
    np.testing.assert_allclose(balanced.decision_function(X), expected.decision_function(X), atol=1e-6)
    for other in (weights, weights * (60 / (2.0 * np.bincount(y)))[y]):
        # neither plain weights nor those of classes counted by rows alone
        plain = kw.MKLClassifier([Linear()], "simple").fit(X, y, other)
        assert np.abs(balanced.decision_function(X) - plain.decision_function(X)).max() > 1e-2


def test_probabilities_by_calibration(cancer):
    train, test, y, truth = cancer
    for method in ("sigmoid", "isotonic"):
        model = CalibratedClassifierCV(kw.MKLClassifier(learner="simple"), method=method, cv=3).fit(train, y)
        p = model.predict_proba(test)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert np.mean(np.square(p[:, 1] - truth)) < 0.1


def test_one_against_one_and_grid_search(wine):
    train, test, y, truth = wine
    pairs = OneVsOneClassifier(kw.MKLClassifier(learner="simple")).fit(train, y)
    assert pairs.score(test, truth) > 0.85
    model = kw.MKLClassifier(learner=learners.RKL())
    search = GridSearchCV(model, {"learner__C": [0.1, 10.0]}, cv=2).fit(train, y)
    assert set(search.best_params_) == {"learner__C"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_are_saved_and_loaded(cancer, tmp_path):
    train, test, y, _ = cancer
    for name in MARGIN:
        if name in ("silp", "do", "best"):
            continue
        learner = LEARNERS[name]()
        if "max_iter" in learner.get_params():
            learner.set_params(max_iter=20, tol=1e-2)
        model = kw.MKLClassifier(learner=learner).fit(train, y)
        other = kw.load(kw.save(model, tmp_path / f"{name}.skops"))
        np.testing.assert_array_equal(other.decision_function(test), model.decision_function(test))


@pytest.mark.parametrize(("learner", "message"), [
    (learners.SimpleMKL(C=0), "C"),
    (learners.SimpleMKL(solver="fast"), "`solver` must be 'auto'"),
    (learners.SimpleMKL(tol=0), "tol"),
    (learners.SimpleMKL(max_iter=0), "max_iter"),
    (learners.LpMKL(p=0.5), "`p` must be a finite number >= 1"),
    (learners.SoftMarginMKL(theta=1.5), "`theta` must be"),
    (learners.BestKernel(n_folds=1), "n_folds"),
    (learners.EasyMKL(lam=0.0), "`lam` must be a number > 0 and <= 1"),
    (learners.EasyMKL(lam=1.5), "`lam` must be a number > 0 and <= 1"),
    (learners.RKL(norm=3), "`norm` must be 1, 2 or None"),
    (learners.ChapelleRadius(norm=None), "`norm` must be 1 or 2"),
    (learners.ChapelleRadius(variant="x"), "`variant` must be"),
    (learners.DoRadius(solver="x"), "`solver` must be"),
], ids=lambda value: type(value).__name__ if not isinstance(value, str) else "")  # fmt: skip
def test_bad_parameters(learner, message, rng):
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    with pytest.raises(InputError, match=message):
        kw.MKLClassifier(learner=learner).fit(X, y)


def test_refusals(rng):
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    with pytest.raises(InputError, match=r"learns it\. Use True"):
        kw.MKLClassifier(learner="simple", fit_intercept=False).fit(X, y)
    with pytest.raises(InputError, match="for classification"):
        kw.MKLRegressor(learner="kl-c").fit(X, X[:, 0])
    with pytest.raises(InputError, match="Did you mean 'simple'"):
        kw.MKLClassifier(learner="simpel").fit(X, y)
    with pytest.raises(InputError, match="`Cs` must be a non-empty list of finite numbers > 0"):
        kw.MKLClassifierCV(learner="simple", Cs=[np.inf, 1.0]).fit(X, y)


@pytest.mark.parametrize("cls", [kw.MKLClassifierCV, kw.MKLRegressorCV])
def test_regularisation_parameters_have_the_name_that_the_learner_gives_them(rng, cls):
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    bank = [Linear(), RBF(gamma=0.3)]
    with pytest.raises(
        InputError, match=r"`Cs` are for learners with a C, and RLS2 has an alpha\. Use alphas="
    ):
        cls(bank, "rls2", Cs=[1.0], cv=2).fit(X, y)
    with pytest.raises(InputError, match="`Cs` and `alphas` are alternatives"):
        cls(bank, "uniform", Cs=[1.0], alphas=[1.0], cv=2).fit(X, y)
    model = cls(bank, "uniform", Cs=[1.0, 10.0], cv=2).fit(X, y)
    with pytest.warns(
        FutureWarning, match=r"alphas=\[1, 0\.1\] means C = 1 / alpha .* Write Cs=\[1, 10\]"
    ) as said:
        before = cls(bank, "uniform", alphas=[1.0, 0.1], cv=2).fit(X, y)
    assert said[0].filename == __file__
    np.testing.assert_array_equal(before.dual_coef_, model.dual_coef_)
    np.testing.assert_array_equal(before.cv_results_["alpha"], model.cv_results_["alpha"])
    # a learner of the other kind leaves nothing behind
    assert not hasattr(model.set_params(learner="rls2", Cs=None, n_alphas=2).fit(X, y), "Cs_")


def test_every_row_has_a_name_and_a_docstring():
    for name, cls in LEARNERS.items():
        assert learners.resolve(name).get_params() == cls().get_params()
        assert cls.__doc__
        assert "Parameters" in cls.__doc__
        assert getattr(learners, cls.__name__) is cls
        # alpha and C have options of their own
        named = {one.name for one in cls.settings().values()}
        assert named
        assert named <= set(cls().get_params()) - {"alpha", "C"}
    with pytest.raises(AttributeError, match="no attribute 'NoLearner'"):
        getattr(learners, "NoLearner")  # noqa: B009


@pytest.mark.parametrize("name", ["best", "mlmkl"])
def test_folds_of_equal_rows(name):
    """Nothing to round to nine digits, and no warning about it."""
    X, y = np.ones((20, 3)), np.arange(20) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = kw.MKLClassifier(learner=name).fit(X, y)
    assert len(set(model.decision_function(X))) == 1


# ---- folds inside a fit ----------------------------------------------------------------------------


def permuted_and_repeated(rng, n):
    order = rng.permutation(n)
    return order, np.concatenate([order, order[: n // 3]])


@pytest.mark.parametrize(
    ("learner", "normalize"),
    [(learners.BestKernel(), "mean-diagonal"), (learners.MLMKL(C=2.0, tol=1e-2), "cosine")],
    ids=["best", "mlmkl"],
)
@pytest.mark.parametrize("form", ["table", "bank"])
def test_learners_that_validate_do_not_see_the_order_of_rows(rng, learner, normalize, form):
    X = rng.normal(size=(45, 3))
    # noise, so that folds decide; every kernel has the same diagonal everywhere
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=45) > 0, 1, -1)
    gammas = (0.05, 0.3, 1.5)
    if form == "table":
        kernels, rows = [RBF(gamma) for gamma in gammas], X
    else:
        stack = np.stack([RBF(gamma)(X) for gamma in gammas], axis=2)
        kernels, rows = kw.KernelBank(stack), np.arange(45)[:, None]
    found = []
    for order in (np.arange(45), rng.permutation(45), rng.permutation(45)):
        model = kw.MKLClassifier(kernels, learner, normalize=normalize).fit(rows[order], y[order])
        found.append(model.decision_function(rows))
    # measured: at most 6e-9, by machines that stop at their tolerance
    np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=1e-6 * np.abs(found[0]).max())


def test_weights_of_rows_count_where_learners_validate(rng):
    """A weight is a repetition of the row: the choice of the best kernel, its folds and losses included."""
    chosen = []
    for seed in range(6):
        own = np.random.default_rng(seed)
        X = own.normal(size=(30, 2))
        y = np.where(np.where(own.random(30) < 0.5, X[:, 0], X[:, 0] * X[:, 1]) > 0, 1, -1)
        times = own.integers(1, 8, size=30)
        rows = np.repeat(np.arange(30), times)
        kernels = [Linear(), Polynomial(degree=2, coef0=0.0), RBF(5.0)]
        best = learners.BestKernel(C=1.0)
        plain, weighted, repeated = (
            kw.MKLClassifier(kernels, best).fit(X[index], y[index], sample_weight=weight)
            for index, weight in ((np.arange(30), None), (np.arange(30), times), (rows, None))
        )
        np.testing.assert_array_equal(weighted.weights_, repeated.weights_)
        chosen.append((plain.weights_ != weighted.weights_).any())
    assert any(chosen), "weights that never matter would not be missed"


def test_losses_of_single_kernels_weigh_rows(rng):
    from kernelweave.gram import as_gram
    from kernelweave.learners.base import TrainingSet
    from kernelweave.learners.on_features import Start
    from kernelweave.learners.solving import Output

    X = rng.normal(size=(30, 2))
    y = np.where(rng.random(30) < 0.5, 1.0, -1.0)
    times = rng.integers(1, 6, size=30)
    rows = np.repeat(np.arange(30), times)
    stack = np.stack([kernel(X) for kernel in (Linear(), RBF(0.5))], axis=2)

    def losses(index, weight):
        gram, learner = as_gram(stack[np.ix_(index, index)]), learners.BestKernel()
        training = TrainingSet(gram, y[index, None], np.ones(2), weight, True, content=index)
        problem = replace(learner.problem(gram, y[index]), sample_weight=weight).form
        return learner._losses_of_kernels(Output(problem, 1e-6, training, Start()))

    np.testing.assert_allclose(losses(np.arange(30), times.astype(float)), losses(rows, None), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_target_of_two_values_is_a_target(rng, monkeypatch):
    """Regression on the values -1 and 1 is no classification: neither its folds nor its errors."""
    from kernelweave.learners import solving

    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=40) > 0, 1.0, -1.0)
    seen = []
    plain = solving.deal
    monkeypatch.setattr(
        solving,
        "deal",
        lambda *a, classes, **k: seen.append(classes is not None) or plain(*a, classes=classes, **k),
    )
    for estimator, asked in ((kw.MKLRegressor, False), (kw.MKLClassifier, True)):
        seen.clear()
        estimator(learner="best").fit(X, y)
        learner = learners.MLMKL(max_iter=2, validation_fraction=0.25)
        error = estimator(learner=learner).fit(X, y).history_[0]["validation_error"]
        assert set(seen) == {asked}
        # shares of ten rows are error rates, roots of mean squares are not
        assert np.allclose(10 * error, np.round(10 * error), atol=1e-9) is asked
    with pytest.raises(kw.InputError, match="criterion='logistic' is for classification"):
        kw.MKLRegressor(learner=learners.MLMKL(criterion="logistic")).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", sorted(set(learners.LEARNERS) - {"rls2", "metric"}))
def test_a_learner_is_a_row(name):
    """A learner with a C says its problem, or its rule for weights; solving and paths stand once, and are typed."""
    from kernelweave.gram import as_gram
    from kernelweave.learners.base import Learner
    from kernelweave.learners.solving import CostLearner

    cls = learners.LEARNERS[name]
    own = {known for parent in cls.__mro__ if parent not in CostLearner.__mro__ for known in vars(parent)}
    assert own.isdisjoint({"solve", "path"})
    problem = cls(C=3.0).problem(as_gram(np.eye(4)[:, :, None]), np.array([1.0, -1.0, 1.0, -1.0]))
    # its default is the loss of RLS2
    assert problem.loss.classifies or name == "rls2-nonlinear"
    assert problem.form.machine.C == problem.C == 3.0
    for function in (Learner.solve, Learner.path, CostLearner.problem, CostLearner.path):
        assert "Any" not in str(function.__annotations__)


def test_least_squares_states_its_problem_too(rng):
    """The solution of the learner is that of the problem that it states, with the objective divided by alpha."""
    from kernelweave.gram import as_gram
    from kernelweave.learners.base import TrainingSet

    X = rng.normal(size=(30, 4))
    gram, y, learner = as_gram(X[:, None, :] * X[None, :, :]), X[:, 0] - X[:, 2], learners.RLS2(alpha=0.5)
    problem = learner.problem(gram, y)
    found = learner.solve(TrainingSet(gram, y[:, None], np.ones(4)), 0.5)
    assert problem.C == 2.0
    assert problem.loss == kw.losses.Squared()
    np.testing.assert_allclose(found.primal / 0.5, kw.solve(problem, tol=1e-10).primal, rtol=1e-8)
    assert found.verify(problem.form).status is kw.solvers.Status.CONVERGED


@pytest.mark.parametrize("name", MARGIN)
def test_costs_go_from_a_hundredth_to_a_thousand(name):
    """The strongest regularisation comes first."""
    np.testing.assert_allclose(1.0 / LEARNERS[name]().default_alphas(6), 10.0 ** np.arange(-2, 4), rtol=1e-12)


@pytest.mark.parametrize(
    ("names", "sparse"),
    [
        (("uniform", "align", "easy", "lp"), False),
        (("rls2", "simple", "silp", "alignf", "best", "rkl", "cardinality"), True),
    ],
)
def test_learners_say_whether_they_select(names, sparse):
    """Of six columns with two that count."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    stack, y = X[:, None, :] * X[None], np.where(X[:, 0] + 0.7 * X[:, 1] > 0, 1, -1)
    for name in names:
        model = kw.MKLClassifier(
            kernels="precomputed", learner=name, **({} if name == "rls2" else {"C": 1.0})
        ).fit(stack, y)
        assert model.model_.learner.sparse == sparse == bool((np.asarray(model.weights_) == 0).any()), name


def test_folds_inside_a_learner_keep_groups_together():
    groups = np.repeat(np.arange(6), 4)
    y = np.tile([-1.0, 1.0], 12)
    training = SimpleNamespace(content=None, classification=True, groups=groups)
    folds = Output.folds(SimpleNamespace(machine=SimpleNamespace(y=y), training=training), 3)
    assert len(folds) == 3
    assert sorted(np.concatenate(folds)) == list(range(24))
    assert all(np.isin(groups, groups[fold]).sum() == len(fold) for fold in folds)


def test_two_parameters_of_one_value_are_set_together():
    learner = learners.SimpleMKL(loss=Cox()).set_params(loss__stratified=True, loss__ties="efron")
    assert (learner.loss.stratified, learner.loss.ties) == (True, "efron")
