"""Models on features: the same as on kernels where features are exact, and approximate ones.

Modules: `estimators/sources`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import kernelweave as kw
from kernelweave.estimators import sources
from kernelweave.fitting.source import TableSource
from kernelweave.kernels import (
    RBF,
    Categorical,
    Linear,
    Nystroem,
    Polynomial,
    RandomFeatures,
    approximate,
    maps_of,
)
from kernelweave.learners import RLS2

N = 240


@pytest.fixture
def few(monkeypatch):
    """Features in place of kernels for few rows."""
    monkeypatch.setattr(sources, "MANY_ROWS", 100)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + 60, 12))
    y = X[:, 0] - X[:, 5] * X[:, 5] + 0.5 * X[:, 7] + 0.3 * rng.normal(size=len(X))
    return X, y


BANK = [
    *(Linear().on(range(4 * i, 4 * i + 4)) for i in range(3)),
    *(Polynomial(2).on([j]) for j in (0, 5)),
    2.0 * Linear().prepared("standardize").on([1, 2]),
]
GAUSSIANS = [RBF(gamma=0.02), RBF(gamma=("median", 1.0)), RBF(gamma=0.1).on([0, 5]), Linear()]


def on_kernels(monkeypatch, make):
    with monkeypatch.context() as context:
        context.setattr(sources, "MANY_ROWS", 10**9)
        return make()


# ---- exact features -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", ["mean-diagonal", "center", "cosine", "trace", None])
def test_models_on_features_are_those_on_kernels(data, few, monkeypatch, normalize):
    X, y = data
    weight = np.random.default_rng(1).integers(0, 3, size=N).astype(float)

    def make():
        return kw.MKLRegressor(BANK, RLS2(alpha=1.0, tol=1e-10), normalize=normalize).fit(
            X[:N], y[:N], weight
        )

    features, kernels = make(), on_kernels(monkeypatch, make)
    assert features.gram_.startswith("6 kernels as 20 features")
    assert not hasattr(kernels, "feature_coef_")
    assert features.objective_ == pytest.approx(kernels.objective_, rel=1e-9)
    np.testing.assert_allclose(features.weights_, kernels.weights_, atol=1e-5)
    Q = X[N:]
    np.testing.assert_allclose(features.predict(Q), kernels.predict(Q), atol=1e-5)
    np.testing.assert_allclose(features.kernel_contributions(Q), kernels.kernel_contributions(Q), atol=1e-4)
    np.testing.assert_allclose(
        features.predict(Q, return_std=True)[1], kernels.predict(Q, return_std=True)[1], rtol=1e-5
    )
    assert features.log_marginal_likelihood_ == pytest.approx(kernels.log_marginal_likelihood_, rel=1e-5)


def test_predictions_are_features_times_coefficients(data, few):
    X, y = data
    model = kw.MKLRegressor(BANK, alpha=0.5, normalize="center").fit(X[:N], y[:N])
    phi = np.concatenate([k.transform(X) for k in model.kernels_], axis=1)
    phi -= phi[:N].mean(axis=0)
    Q = X[N:]
    np.testing.assert_allclose(phi[N:] @ model.feature_coef_ + model.intercept_, model.predict(Q), atol=1e-9)
    parts = model.kernel_contributions(Q)
    np.testing.assert_allclose(parts.sum(axis=1) + model.intercept_, model.predict(Q), atol=1e-9)
    # coefficients of the weights and the dual coefficients are these, too, up to the gap
    K = np.einsum("m,mij->ij", model.model_.effective[0], [k(X) for k in model.kernels_])
    centring = np.eye(len(X)) - np.r_[np.full(N, 1.0 / N), np.zeros(60)]
    K = (centring @ K @ centring.T)[N:, :N]
    np.testing.assert_allclose(K @ model.dual_coef_ + model.intercept_, model.predict(Q), atol=1e-3)


def test_auto_alpha_relaxation_and_cross_validation_agree_with_kernels(data, few, monkeypatch):
    X, y = data

    def auto():
        return kw.MKLRegressor(BANK, RLS2(relax="auto", n_alphas=8)).fit(X[:N], y[:N])

    def cv():
        return kw.MKLRegressorCV(BANK, "rls2", n_alphas=8, cv=3).fit(X[:N], y[:N])

    for make in (auto, cv):
        features, kernels = make(), on_kernels(monkeypatch, make)
        assert hasattr(features, "feature_coef_")
        assert features.alpha_ == pytest.approx(kernels.alpha_)
        assert getattr(features, "relax_", 0.0) == pytest.approx(getattr(kernels, "relax_", 0.0))
        np.testing.assert_allclose(
            features.cv_results_["mean_test_score"], kernels.cv_results_["mean_test_score"], rtol=2e-3
        )
        np.testing.assert_allclose(features.predict(X[N:]), kernels.predict(X[N:]), atol=1e-3)


def test_classes_outputs_and_labels_have_coefficients_of_their_own(data, few, monkeypatch):
    X, y = data
    three = np.digitize(y, [-1.0, 0.5])

    def classes():
        return kw.MKLClassifier(BANK, RLS2(alpha=2.0)).fit(X[:N], three[:N])

    def outputs(shared=True):
        learner = RLS2(alpha=2.0, shared_weights=shared)
        return kw.MKLRegressor(BANK, learner).fit(X[:N], np.c_[y, X[:, 1] - y][:N])

    for make in (classes, outputs, lambda: outputs(False)):
        features, kernels = make(), on_kernels(monkeypatch, make)
        decide = "decision_function" if hasattr(features, "classes_") else "predict"
        assert features.feature_coef_.shape == (20, 3 if decide == "decision_function" else 2)
        np.testing.assert_allclose(
            getattr(features, decide)(X[N:]), getattr(kernels, decide)(X[N:]), atol=1e-4
        )
        np.testing.assert_allclose(features.weights_, kernels.weights_, atol=1e-4)


def test_constant_and_noise_kernels_have_no_part(data, few):
    X, y = data
    X = np.c_[X, np.ones(len(X))]
    model = kw.MKLRegressor([*BANK, Linear().on([12])], alpha=1.0, normalize="center").fit(X[:N], y[:N])
    assert model.weights_[-1] < 1e-12
    assert model.kernel_contributions(X[N:])[:, -1].max() == 0.0
    assert ("Linear on x12", "constant") in model.uninformative_kernels_


def test_categories_and_sparse_rows(data, few, monkeypatch):
    X, y = data
    frame = pd.DataFrame(
        {"a": np.where(X[:, 0] > 0, "high", "low"), "b": np.digitize(X[:, 5], [-1, 1]).astype(str)}
    )

    def categories():
        return kw.MKLRegressor([Categorical().on("a"), Categorical().on("b")], alpha=1.0).fit(
            frame[:N], y[:N]
        )

    rows = sparse.csr_array(np.where(X > 0.3, X, 0.0))

    def sparse_rows():
        return kw.MKLRegressor([Linear().on(range(6)), Linear()], alpha=1.0).fit(rows[:N], y[:N])

    for make, Q in ((categories, frame[N:]), (sparse_rows, rows[N:])):
        features, kernels = make(), on_kernels(monkeypatch, make)
        assert hasattr(features, "feature_coef_")
        np.testing.assert_allclose(features.predict(Q), kernels.predict(Q), atol=1e-5)


def test_kernels_are_kept_where_features_would_not_be_cheaper(data, few):
    X, y = data
    cases = {
        "few rows": (BANK, RLS2(alpha=1.0), 90),
        "a kernel without features": ([*BANK, RBF(gamma=0.1)], RLS2(alpha=1.0), N),
        "another solver": (BANK, RLS2(alpha=1.0, solver="alternating"), N),
        "more features than rows": ([Polynomial(1).on([j]) for j in range(12)] * 12, RLS2(alpha=1.0), N),
    }
    for name, (kernels, learner, n) in cases.items():
        model = kw.MKLRegressor(kernels, learner).fit(X[:n], y[:n])
        assert not hasattr(model, "feature_coef_"), name
        assert "features, " not in model.gram_, name


# ---- approximate features -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule", ["nystroem", "random-features", Nystroem(80, "uniform"), RandomFeatures(900)]
)
def test_approximate_models_are_close_to_exact_ones_and_say_so(data, rule):
    X, y = data
    exact = kw.MKLRegressor(GAUSSIANS, alpha=1.0, approximation=None).fit(X[:N], y[:N])
    model = kw.MKLRegressor(GAUSSIANS, alpha=1.0, approximation=rule).fit(X[:N], y[:N])
    name = "Nystroem" if rule == "nystroem" or isinstance(rule, Nystroem) else "random"
    assert f"{name} features" in model.gram_
    assert model.rel_gap_ < 1e-7
    spread = exact.predict(X[N:]).std()
    assert np.abs(model.predict(X[N:]) - exact.predict(X[N:])).max() < 0.25 * spread
    # the linear kernel has features of its own, which are exact
    assert not model.kernels_[3].is_approximate
    assert model.kernels_[0].is_approximate
    again = clone(model).fit(X[:N], y[:N])
    np.testing.assert_array_equal(again.predict(X[N:]), model.predict(X[N:]))


def test_with_all_pivots_the_model_is_the_exact_one(data):
    X, y = data
    exact = kw.MKLRegressor(GAUSSIANS, RLS2(alpha=1.0, tol=1e-9), approximation=None).fit(X[:N], y[:N])
    model = kw.MKLRegressor(GAUSSIANS, RLS2(alpha=1.0, tol=1e-9), approximation=Nystroem(N, tol=0.0)).fit(
        X[:N], y[:N]
    )
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-7)
    np.testing.assert_allclose(model.predict(X[N:]), exact.predict(X[N:]), atol=1e-3)


def test_folds_fit_their_own_maps_and_margin_learners_take_features(data):
    X, y = data
    cv = kw.MKLRegressorCV(GAUSSIANS, "rls2", approximation=Nystroem(30), n_alphas=6, cv=3).fit(X[:N], y[:N])
    assert cv.score(X[N:], y[N:]) > 0.3
    svm = kw.MKLClassifier(GAUSSIANS, "simple", C=1.0, approximation=Nystroem(60)).fit(X[:N], y[:N] > 0)
    phi = np.concatenate([k.transform(X[N:]) for k in svm.kernels_], axis=1)
    np.testing.assert_allclose(
        phi @ svm.feature_coef_ + svm.intercept_, svm.decision_function(X[N:]), atol=1e-9
    )
    assert svm.score(X[N:], y[N:] > 0) > 0.7


def test_order_of_rows_and_repetitions_do_not_matter(data):
    X, y = data
    weight = np.random.default_rng(3).integers(1, 3, size=N)
    order = np.random.default_rng(4).permutation(N)

    def fit(rows, w=None):
        model = kw.MKLRegressor(GAUSSIANS, alpha=1.0, approximation=Nystroem(40))
        return model.fit(X[rows], y[rows], w).predict(X[N:])

    given = fit(np.arange(N), weight.astype(float))
    np.testing.assert_allclose(fit(order, weight[order].astype(float)), given, atol=1e-6)
    np.testing.assert_allclose(fit(np.repeat(np.arange(N), weight)), given, atol=1e-6)


def test_models_on_features_return_from_files(data, tmp_path):
    X, y = data
    for rule in (Nystroem(20), RandomFeatures(30)):
        model = kw.MKLRegressor(GAUSSIANS, alpha=1.0, approximation=rule, normalize="center").fit(
            X[:N], y[:N]
        )
        kw.save(model, tmp_path / "model.kw")
        back = kw.load(tmp_path / "model.kw")
        np.testing.assert_array_equal(back.predict(X[N:]), model.predict(X[N:]))
        np.testing.assert_array_equal(back.kernel_contributions(X[N:]), model.kernel_contributions(X[N:]))
        assert back.gram_ == model.gram_
        assert back.kernels_ == model.kernels_
        np.testing.assert_array_equal(back.feature_coef_, model.feature_coef_)


def test_auto_is_exact_while_kernels_fit_and_says_when_they_do_not(data, monkeypatch):
    X, y = data
    plain = kw.MKLRegressor(GAUSSIANS, alpha=1.0).fit(X[:N], y[:N])
    assert "features" not in plain.gram_
    monkeypatch.setattr(sources, "TOO_MANY_TILES", 100)
    fits = kw.MKLRegressor(GAUSSIANS, alpha=1.0, max_memory="2MB").fit(X[:N], y[:N])
    np.testing.assert_array_equal(fits.predict(X[N:]), plain.predict(X[N:]))
    monkeypatch.setattr("kernelweave.fitting.source.SMALL_CHANGE", 0)
    small = kw.MKLRegressor(GAUSSIANS, alpha=1.0, max_memory="400KB").fit(X[:N], y[:N])
    assert "Nystroem features" in small.gram_
    assert "would take" in small.gram_
    assert "Approximation: " in small.explain_defaults()
    assert 8 * N * len(small.feature_coef_) <= 400 * 2**10
    never = kw.MKLRegressor(GAUSSIANS, alpha=1.0, max_memory="400KB", approximation=None).fit(X[:N], y[:N])
    assert "tiles" in never.gram_
    # margin problems on kernels need rows by rows anyway
    for learner, held in (("silp", "tiles"), ("simple", "Nystroem features"), ("lp", "Nystroem features")):
        svm = kw.MKLClassifier(GAUSSIANS, learner, C=1.0, max_memory="400KB").fit(X[:N], y[:N] > 0)
        assert held in svm.gram_
    # enough memory, but too many rows
    monkeypatch.setattr(sources, "TOO_MANY_ROWS", 200)
    many = kw.MKLClassifier(GAUSSIANS, "lp", C=1.0).fit(X[:N], y[:N] > 0)
    assert "Nystroem features" in many.gram_
    assert "with 240 rows, more than 200" in many.gram_


def test_views_that_all_rows_have_can_lack_in_new_ones(data):
    X, y = data
    views = {"left": X[:, :6], "right": X[:, 6:]}
    part = {name: values[:N] for name, values in views.items()}
    model = kw.MKLRegressor([RBF(gamma="median"), Linear()], alpha=1.0, approximation=Nystroem(30)).fit(
        part, y[:N]
    )
    assert "Nystroem" in model.gram_
    Q = {"left": views["left"][N:], "right": np.where(np.arange(60)[:, None] < 5, np.nan, views["right"][N:])}
    found = model.predict(Q)
    whole = model.predict({name: values[N:] for name, values in views.items()})
    np.testing.assert_allclose(found[5:], whole[5:], atol=1e-3)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda X, y: kw.MKLRegressor(GAUSSIANS, approximation="best").fit(X, y), "approximation"),
        (lambda X, y: kw.MKLRegressor(GAUSSIANS, approximation=3).fit(X, y), "approximation"),
        (
            lambda X, y: kw.MKLRegressor([Polynomial(3)], alpha=1.0, approximation="random-features").fit(
                X, y
            ),
            "Use Nystroem",
        ),
        (
            lambda X, y: kw.MKLRegressor("precomputed", alpha=1.0, approximation="nystroem").fit(X @ X.T, y),
            "precomputed kernels",
        ),
        (
            lambda X, y: kw.MKLRegressor(
                [RBF(gamma=1.0)], alpha=1.0, approximation="nystroem", missing="skip"
            ).fit(np.where(X > 2, np.nan, X), y),
            "skips missing cells",
        ),
        (
            lambda X, y: kw.MKLRegressor(
                [RBF(gamma=1.0)] * 40, alpha=1.0, approximation=Nystroem(240, tol=0.0), max_memory="1MB"
            ).fit(X, y),
            "GiB, got max_memory",
        ),
        (
            lambda X, y: kw.MKLRegressor(alpha=1.0, approximation="nystroem").fit(
                {"a": X[:, :3], "b": np.where(X[:, 3:4] > 1, np.nan, X[:, 3:4])}, y
            ),
            "views that rows lack",
        ),
    ],
)
def test_wrong_approximations_say_what_is_expected(data, make, said):
    X, y = data
    with pytest.raises(kw.InputError, match=said):
        make(X[:N], y[:N])


def test_approximate_kernels_in_a_list_need_no_parameter(data):
    X, y = data
    bank = [approximate(RBF(gamma=0.05), Nystroem(40)), Linear()]
    model = kw.MKLRegressor(bank, alpha=1.0).fit(X[:N], y[:N])
    assert "Nystroem features" in model.gram_
    np.testing.assert_allclose(
        model.predict(X[N:]),
        kw.MKLRegressor([RBF(gamma=0.05), Linear()], alpha=1.0, approximation=Nystroem(40))
        .fit(X[:N], y[:N])
        .predict(X[N:]),
        atol=1e-4,
    )


def test_approximate_kernels_say_what_they_leave_out(data):
    X, y = data[0][:N], data[1][:N]
    bank = [RBF(gamma=0.05), RBF(gamma=0.3).on([0, 1]), Linear()]
    for model in (
        kw.MKLClassifier(bank, "simple", C=1.0, approximation=Nystroem(20)).fit(X, y > 0),
        kw.MKLRegressor(bank, RLS2(alpha=1.0), approximation=RandomFeatures(40)).fit(X, y),
    ):
        said = model.approximation_
        assert set(said) == {"maps", "left_out", "left_out_bound"}
        assert set(said["left_out"]) == set(said["maps"]) == set(model.kernel_names_[:2])
        for name, kernel in zip(model.kernel_names_[:2], model.kernels_, strict=False):
            (rule,) = maps_of(kernel)
            assert said["left_out"][name] == rule.left_out.share
            assert said["left_out_bound"][name] == rule.left_out.bound
    assert not hasattr(kw.MKLRegressor(bank, alpha=1.0).fit(X, y), "approximation_")


def test_rows_are_too_many_only_for_kernels_without_features(data, monkeypatch):
    """In enough memory: features by themselves are kept, whatever their number of rows; Gaussians are replaced."""
    X, y = data
    monkeypatch.setattr(sources, "TOO_MANY_TILES", 100)
    monkeypatch.setattr(sources, "TOO_MANY_ROWS", 200)
    for kernels, replaced in ((BANK, False), (GAUSSIANS[:3], True)):
        model = kw.MKLClassifier(kernels, "lp", C=1.0).fit(X[:N], y[:N] > 0)
        assert ("Nystroem features" in model.gram_) == replaced
        assert ("more than 200" in model.gram_) == replaced


def test_maps_that_are_named_have_the_seed_of_the_estimator(rng):
    X = rng.normal(size=(60, 3))
    y = np.sin(X[:, 0]) + X[:, 1]

    def predicted(approximation, seed):
        model = kw.MKLRegressor(
            [RBF(gamma=0.3)], kw.learners.RLS2(alpha=0.1), approximation=approximation, random_state=seed
        )
        return model.fit(X, y).predict(X)

    first = predicted("random-features", 1)
    np.testing.assert_array_equal(first, predicted(RandomFeatures(random_state=1), None))
    np.testing.assert_array_equal(first, predicted("random-features", 1))
    assert np.abs(first - predicted("random-features", 2)).max() > 1e-3


# ---- the decision, of known numbers of rows and features ---------------------------------------------------------


class Given(TableSource):
    """A source of so many rows and features, with kernels that are never evaluated."""

    def __init__(self, n, widths, memory=1e9, kernels=None, whole=True):
        self.n, self.widths, self.max_memory, self.whole = n, widths, memory, whole
        self.kernels = kernels or [RBF(gamma=1.0)] * len(widths)
        self.explicit = False

    n_samples = property(lambda self: self.n)
    n_kernels = property(lambda self: len(self.widths))
    is_whole = property(lambda self: self.whole)
    given_kernels = property(lambda self: self.kernels)

    def feature_widths(self):
        return self.widths

    def with_kernels(self, kernels):
        return Given(self.n, self.widths, self.max_memory, kernels)


def chosen(source, asked="auto", learner=None, seed=None):
    found, why = sources.choose_form(source, asked, learner or RLS2(), seed)
    return [[repr(one) for one in found.kernels], bool(found.explicit), why]


def test_the_form_of_kernels_follows_from_rows_features_and_memory(recorded):
    """At the borders of each number: exact kernels, their own features, and maps in their place."""
    wide, none, lp = [4, 6], [None, 3], kw.learners.LpMKL()
    cases = {
        "few rows": Given(999, wide),
        "many rows": Given(1000, wide),
        "no features": Given(1000, none),
        "wide": Given(1000, [900, 300]),
        "memory for features": Given(1000, wide, 8.0 * 10 * 1000),
        "less memory": Given(1000, wide, 8.0 * 10 * 1000 - 1),
        "too many for tiles": Given(5001, none, 1e6),
        "not yet": Given(5000, none, 1e6),
        "enough memory": Given(5001, none, 1e12),
        "too many rows": Given(20_001, none, 1e12),
        "not too many": Given(20_000, none, 1e12),
        "too many of features": Given(20_001, wide, 1e12),
        "features beyond memory": Given(20_001, wide, 1e5),
        "corrected": Given(5001, none, 1e6, [kw.kernels.Custom(min, repair=True), Linear()]),
        "given": Given(5001, none, 1e6, [kw.kernels.Precomputed(), Linear()]),
    }
    for name, source in cases.items():
        for learner in (None, lp, RLS2(solver="alternating"), kw.learners.SILP()):
            source.explicit = False
            recorded(f"{name}, {'RLS2' if learner is None else learner!r}", chosen(source, learner=learner))
    for asked in ("nystroem", "random-features", Nystroem(7, tol=0.0), RandomFeatures(9), None):
        recorded(
            f"asked {asked!r}",
            [
                chosen(
                    Given(60, [None, 3, 8], kernels=[RBF(gamma=1.0), Linear(), Polynomial(2)]), asked, seed=5
                ),
                chosen(Given(60, [3, 2], kernels=[Linear(), Linear()]), asked),
            ],
        )
    recorded("a seed", chosen(Given(5001, none, 1e6), seed=3))
    for memory in (1e5, 1e7, 1e9):
        room = sources._room(memory, 100)
        # four matrices (p, p) beside p features of the rows
        assert (
            32.0 * room * room + 8.0 * 100 * room <= memory < 32.0 * (room + 1) ** 2 + 8.0 * 100 * (room + 1)
        )
    for asked, said in (("nystroem", "views that rows lack"), ("auto", "")):
        lacking = Given(60, none, whole=False)
        if said:
            with pytest.raises(
                kw.InputError, match=rf"got {said}\. Leave it out, or drop rows that lack a view\."
            ):
                sources.choose_form(lacking, asked, RLS2())
        else:
            assert sources.choose_form(lacking, asked, RLS2()) == (lacking, "")


def test_what_maps_leave_out_is_told_by_the_worst(recorded):
    from types import SimpleNamespace

    def one(kind, share, bound=0.5):
        made = kind(8)
        left = None if share is None else SimpleNamespace(share=share, bound=bound)
        object.__setattr__(made, "left_out", left)
        return made

    cases = {
        "nystroem": {"a": one(Nystroem, 0.01), "b": one(Nystroem, 0.25)},
        "random": {"a": one(RandomFeatures, 0.125)},
        "none": {"a": one(Nystroem, None)},
        "random without": {"a": one(RandomFeatures, None)},
        "both": {"a": one(RandomFeatures, 0.5), "b": one(Nystroem, None)},
    }
    recorded("described", {name: sources.described(maps) for name, maps in cases.items()})
    recorded(
        "approximation",
        {
            name: {key: value for key, value in sources.approximation_of(maps).items() if key != "maps"}
            for name, maps in cases.items()
        },
    )
