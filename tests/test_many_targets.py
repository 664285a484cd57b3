"""Weights and alpha of each of many targets: fits on folds as the oracle, limits, invariances.

Modules: `mkl/many_targets`, `estimators/own_targets`, `estimators/regressor`.
"""

from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold

import kernelweave as kw
from journeys import defaults_of
from kernelweave._checks import InputError
from kernelweave.estimators import own_targets
from kernelweave.fitting.rowless import RowlessSource
from kernelweave.gram import as_gram
from kernelweave.learners import RLS2
from kernelweave.mkl import many_targets
from kernelweave.mkl.many_targets import EACH, ROUNDS, bytes_needed, most_looks, solve_many
from kernelweave.mkl.regularization import compute_criteria
from kernelweave.mkl.ridge_problem import make_problem
from kernelweave.results import Status

N, T = 90, 4
RNG = np.random.default_rng(3)
FEATURES = RNG.normal(size=(3, N, 40)) / 40**0.5
STACK = np.moveaxis(FEATURES @ FEATURES.transpose(0, 2, 1), 0, -1)
COEF = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
Y = 3.0 * np.einsum("tm,mij,mtj->it", COEF, FEATURES, RNG.normal(size=(3, T, 40))) + RNG.normal(size=(N, T))
WEIGHT = RNG.integers(1, 4, size=N).astype(float)
TESTS = np.array_split(np.random.default_rng(1).permutation(N), 4)


def solved(y=Y, weight=WEIGHT, tests=TESTS, stack=STACK, **options):
    mean = np.average(y, axis=0, weights=weight)
    return solve_many(as_gram(stack), y - mean, tests, scale=np.ones(3), sample_weight=weight, **options)


def ridge(t, train, solution):
    """The ridge regression of a target on some rows, by the normal equations: coefficients and intercept."""
    d, alpha = solution.weights[t], solution.alpha
    K = STACK @ d
    b = np.average(Y[train, t], weights=WEIGHT[train])
    c = np.linalg.solve(K[np.ix_(train, train)] + alpha * np.diag(1.0 / WEIGHT[train]), Y[train, t] - b)
    return K, c, b


def test_residuals_are_those_of_fits_without_the_fold():
    found = solved()
    for t in range(T):
        for test in TESTS:
            train = np.setdiff1d(np.arange(N), test)
            K, c, b = ridge(t, train, found.solution)
            # measured 2e-13
            own = Y[test, t] - b - K[np.ix_(test, train)] @ c
            np.testing.assert_allclose(found.residuals[test, t], own, atol=1e-10)
        K, c, _ = ridge(t, np.arange(N), found.solution)
        np.testing.assert_allclose(found.solution.dual_coef[:, t], c, atol=1e-10 * np.abs(c).max())
        size = WEIGHT @ np.square(Y[:, t] - np.average(Y[:, t], weights=WEIGHT))
        error = WEIGHT @ np.square(found.residuals[:, t]) / size
        assert found.errors[t] == pytest.approx(error, rel=1e-10)


def test_targets_find_their_kernels():
    found = solved()
    d = found.solution.weights / found.solution.weights.sum(axis=1, keepdims=True)
    assert d[0, 0] > 0.8
    assert d[1, 1] > 0.8
    assert d[2, 2] < 0.3
    # by the common alpha a target's own follows
    np.testing.assert_allclose(
        found.solution.weights.sum(axis=1), found.solution.alpha / found.solution.alphas
    )
    assert found.own.mean() < found.shared.mean()
    # noise is not predicted: no better than the mean
    assert found.own[3] > 0.9
    assert found.n_looks <= most_looks(3) == 1 + ROUNDS * EACH


@pytest.mark.parametrize("kernels", [None, [kw.kernels.Linear(), kw.kernels.RBF(gamma="median")]])
def test_units_of_targets_do_not_matter(kernels):
    """A target in units of which there are 1,000 to one, beside others that depend on other columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    f = np.column_stack([X[:, 0] + X[:, 1], X[:, 4] + X[:, 5], X[:, 2] + X[:, 6]])
    Y = f / f.std(axis=0) + rng.normal(size=f.shape) * [0.4, 0.8, 1.5]
    scores = []
    for units in (np.ones(3), np.array([1.0, 1000.0, 1.0])):
        model = kw.MKLRegressor(kernels, views={"u": [0, 1, 2, 3], "v": [4, 5, 6, 7]})
        model.fit(X[:100], Y[:100] * units)
        scores.append(model.score(X[100:], Y[100:] * units))
    # measured: by units .57 and .24 where all columns of the others were left out, and shared weights preferred
    assert scores[1] > scores[0] - 0.05


@pytest.mark.parametrize("weight", [None, np.tile([1.0, 3.0], 30)])
def test_scores_of_folds_and_their_error(weight):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    # the last target is constant, and has no R^2
    Y = np.column_stack([X[:, :2] + rng.normal(size=(60, 2)), np.ones(60)])
    kernels = [kw.kernels.Linear().on([k]) for k in range(2)]
    tests = [test for _, test in KFold(5).split(X)]
    model = kw.MKLRegressorCV(kernels, "rls2", targets="own", cv=KFold(5)).fit(X, Y, sample_weight=weight)
    results, values = model.cv_results_, model.model_.out_of_fold.values

    def r2(rows):
        own = None if weight is None else weight[rows]
        return r2_score(Y[rows, :2], values[rows, :2], sample_weight=own)

    splits = [results[f"split{k}_test_score"][0] for k in range(5)]
    np.testing.assert_allclose(splits, [r2(rows) for rows in tests])
    assert results["test_score"] == pytest.approx([r2(np.arange(60))])
    assert results["mean_test_score"] == pytest.approx([np.mean(splits)])
    without = [r2(np.setdiff1d(np.arange(60), rows)) for rows in tests]
    assert results["std_error_test_score"] == pytest.approx([np.sqrt(4.0) * np.std(without)])
    said = kw.inspection.findings(model)["folds"].sentence
    assert said.startswith("R^2, mean over targets over 5 folds of the training rows is 0.")


def test_paths_are_those_of_each_target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = np.column_stack([X[:, 0], 50.0 * X[:, 1]]) + rng.normal(size=(60, 2)) * [0.3, 40.0]
    kernels = [kw.kernels.Linear().on([k]) for k in range(3)]
    model = kw.MKLRegressor(kernels, "rls2", targets="own").fit(X, Y)
    for t in range(2):
        alone = kw.MKLRegressor(kernels, "rls2", alpha=model.target_alphas_[t]).fit(X, Y[:, t])
        alphas = model.target_alphas_[t] * np.array([10.0, 1.0, 0.1])
        found = kw.inspection.regularization_path(model, alphas=alphas, output=t)
        path = kw.inspection.regularization_path(alone, alphas=alphas)
        assert found.chosen == 1
        for name in ("weights", "df", "coef"):
            np.testing.assert_allclose(getattr(found, name), getattr(path, name), rtol=1e-6, atol=1e-9)
        for name, values in path.criteria.items():
            np.testing.assert_allclose(found.criteria[name], values, rtol=1e-6)
        np.testing.assert_allclose(found.weights[1], alone.weights_, atol=1e-6)


def test_constant_targets_have_no_part_in_the_fractions_of_sources():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = np.column_stack([X[:, 0] + 0.3 * rng.normal(size=60), np.full(60, 3.0)])
    kernels = [kw.kernels.Linear().on([k]) for k in range(4)]
    model = kw.MKLRegressor(kernels, "rls2", targets="own").fit(X, Y)
    found = kw.inspection.view_weights(model)
    fractions = model.weights_[0] / model.weights_[0].sum()
    assert [found[f"x{k}"] for k in range(4)] == pytest.approx(fractions)
    # measured: .125 for each of the other columns, which have nothing
    assert found["x0"] > 0.9
    kernels = kw.inspection.findings(model)["kernels"]
    assert {f"Linear on {name}": share for name, share in found.items() if share} == pytest.approx(
        {name: one.value for name, one in kernels.values.items()}
    )
    assert kernels.details["with a weight"] == np.count_nonzero(model.weights_[0])


def test_kernels_are_in_the_order_of_their_fractions_whatever_the_scale_of_a_target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 6))
    noise = rng.normal(size=(2, 100)) * [[0.01], [4.0]]
    Y = np.column_stack([X[:, 0] + 0.6 * X[:, 1], X[:, 4] + 0.3 * X[:, 5]]) + noise.T
    model = kw.MKLRegressor(kw.banks.linear_features(6), targets="own").fit(X, Y)
    # weights of the first target are larger by this factor
    assert model.target_alphas_[1] / model.target_alphas_[0] > 10.0
    means = kw.inspection.kernel_weights(model).fractions.mean(axis=1)
    assert (np.diff(means) <= 0.0).all()
    shares = [one.value for one in kw.inspection.findings(model)["kernels"].values.values()]
    np.testing.assert_allclose(shares, means, rtol=1e-12)


def test_files_without_rows_keep_the_fractions_of_all_targets(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = np.column_stack([X[:, :2] @ [1.0, 0.6], X[:, 2] + 0.1 * rng.normal(size=60), np.full(60, 3.0)])
    model = kw.MKLRegressor(kw.banks.linear_features(4), targets="own").fit(X, Y)
    kw.save(model, tmp_path / "model.skops")
    again = kw.load(tmp_path / "model.skops")
    assert isinstance(again.model_.source, RowlessSource)
    found = kw.inspection.view_weights(model)
    # the first target alone has none there
    assert found["x2"] > 0.1
    assert kw.inspection.view_weights(again) == found
    kw.save(again, tmp_path / "again.skops")
    assert kw.inspection.view_weights(kw.load(tmp_path / "again.skops")) == found
    # earlier files do not say which targets are constant
    again.model_ = replace(again.model_, constant=None)
    assert kw.inspection.view_weights(again)["x2"] == pytest.approx((2.0 * found["x2"] + 0.25) / 3.0)


def test_the_certificate_holds():
    found = solved().solution
    assert found.status is Status.CONVERGED
    primal, dual = 0.0, 0.0
    for t in range(T):
        y = Y[:, t] - np.average(Y[:, t], weights=WEIGHT)
        K, c = STACK @ found.weights[t], found.dual_coef[:, t]
        primal += 0.5 * WEIGHT @ np.square(y - K @ c) + 0.5 * found.alpha * c @ K @ c
        # the dual function of ridge regression, at any c
        dual += found.alpha * (y @ c - 0.5 * c @ K @ c - 0.5 * found.alpha * (c / WEIGHT) @ c)
    assert found.primal == pytest.approx(primal, rel=1e-10)
    assert found.dual <= dual <= primal * (1 + 1e-10)
    assert found.rel_gap < 1e-10


def test_the_gap_is_that_of_coefficients_off_the_optimum(monkeypatch):
    certificate = many_targets._Search._certificate

    def off(self, *given):
        self.coef = 1.1 * self.coef
        return certificate(self, *given)

    monkeypatch.setattr(many_targets._Search, "_certificate", off)
    found = solved().solution
    gap = 0.0
    for t in range(T):
        y = Y[:, t] - np.average(Y[:, t], weights=WEIGHT)
        c = found.dual_coef[:, t]
        gap += 0.5 * WEIGHT @ np.square(y - STACK @ found.weights[t] @ c - found.alpha * c / WEIGHT)
    # measured 3e-13
    assert found.gap == pytest.approx(gap, rel=1e-6)


def test_weights_of_rows_are_repetitions():
    twice = np.repeat(np.arange(N), WEIGHT.astype(int))
    tests = [np.flatnonzero(np.isin(twice, test)) for test in TESTS]
    # the automatic grid counts rows
    alphas = np.geomspace(100.0, 0.01, 9)
    one = solved(alphas=alphas)
    two = solved(Y[twice], np.ones(len(twice)), tests, STACK[np.ix_(twice, twice)], alphas=alphas)
    np.testing.assert_allclose(one.own, two.own, rtol=1e-7)
    np.testing.assert_allclose(one.shared, two.shared, rtol=1e-7)


def test_orders_of_rows_targets_and_kernels_do_not_matter():
    order, columns = np.random.default_rng(5).permutation(N), [2, 0, 3, 1]
    place = np.argsort(order)
    one = solved()
    two = solved(Y[order], WEIGHT[order], [place[test] for test in TESTS], STACK[np.ix_(order, order)])
    np.testing.assert_allclose(one.errors, two.errors, rtol=1e-8)
    three = solved(Y[:, columns])
    np.testing.assert_allclose(one.errors[columns], three.errors, rtol=1e-8)


def test_one_kernel_is_ridge_with_an_alpha_for_each_target():
    alphas = np.geomspace(100.0, 0.01, 9)
    mean = np.average(Y, axis=0)
    found = solve_many(as_gram(STACK[:, :, :1]), Y - mean, TESTS, scale=np.ones(1), alphas=alphas)
    assert found.n_looks == 1
    for t in range(T):
        errors = []
        for alpha in alphas:
            total = 0.0
            for test in TESTS:
                train = np.setdiff1d(np.arange(N), test)
                b, K = Y[train, t].mean(), STACK[:, :, 0]
                c = np.linalg.solve(K[np.ix_(train, train)] + alpha * np.eye(len(train)), Y[train, t] - b)
                total += np.square(Y[test, t] - b - K[np.ix_(test, train)] @ c).sum()
            errors.append(total)
        assert found.solution.alphas[t] == alphas[np.argmin(errors)]


def test_a_stop_keeps_what_was_found():
    found = solved(report=lambda text: text.startswith("weights 3"))
    assert (found.n_looks, found.interrupted) == (3, True)
    assert found.solution.status is Status.INTERRUPTED
    with pytest.raises(InputError, match="all infinite"):
        solved(alphas=[np.inf])
    with pytest.raises(InputError, match="two of them"):
        solved(tests=TESTS[:1])


@pytest.fixture(scope="module")
def tables():
    X = {f"v{m}": FEATURES[m] for m in range(3)}
    return X, {name: rows[:5] for name, rows in X.items()}


def test_auto_takes_what_out_of_fold_errors_prefer(tables):
    X, new = tables
    kernels = [kw.kernels.Linear()]
    model = kw.MKLRegressor(kernels, "rls2").fit(X, Y)
    assert "each of the 4 has its own weights" in model.explain_defaults()
    assert model.weights_.shape == (T, 3)
    np.testing.assert_allclose(model.weights_.sum(axis=1), model.alpha_ / model.target_alphas_)
    ends = model.predict_interval(new)
    assert ends.shape == (5, T, 2)
    # outputs that predict the same thing share everything
    same = np.column_stack([Y[:, 0]] * 3)
    shared = kw.MKLRegressor(kernels, "rls2").fit(X, same)
    assert shared.weights_.shape == (3,)
    assert not hasattr(shared, "target_alphas_")
    as_before = kw.MKLRegressor(kernels, "rls2", targets="shared").fit(X, same)
    np.testing.assert_array_equal(shared.dual_coef_, as_before.dual_coef_)
    # the Gaussian-process reading is that of each problem
    problem = kw.MKLRegressor(kernels, RLS2(alpha=1.0)).fit(X, Y).model_
    assert problem.n_outputs == T
    gram = model.normalizers_[0].prepare(model.model_.source.gram())
    evidence = 0.0
    for t in range(T):
        ridge_problem, _ = make_problem(gram, Y[:, t] - Y[:, t].mean(), None, model.normalizers_[0].scale)
        own = compute_criteria(
            ridge_problem, model.alpha_, model.weights_[t], model.dual_coef_[:, t][None], total=False
        )
        assert model.noise_variance_[t] == pytest.approx(own.noise_variance, rel=1e-8)
        evidence += own.evidence
    assert model.log_marginal_likelihood_ == pytest.approx(evidence, rel=1e-8)
    mean, std = model.predict(new, return_std=True)
    assert mean.shape == std.shape == (5, T)


def test_sharing_that_costs_is_told(tables):
    X, _ = tables
    with pytest.warns(UserWarning, match="this costs: out-of-fold"):
        kw.MKLRegressor([kw.kernels.Linear()], "rls2", targets="shared").fit(X, Y)


def test_own_is_refused_where_it_cannot_be(tables, monkeypatch):
    X, _ = tables
    kernels = [kw.kernels.Linear()]
    with pytest.raises(InputError, match="for learner='rls2'"):
        kw.MKLRegressor(kernels, "alignf", targets="own").fit(X, Y)
    monkeypatch.setattr(own_targets, "bytes_needed", lambda *_: 2.0**60)
    with pytest.raises(InputError, match="GiB, and max_memory"):
        kw.MKLRegressor(kernels, "rls2", targets="own").fit(X, Y)
    model = kw.MKLRegressor(kernels, "rls2").fit(X, Y)
    assert model.weights_.shape == (3,)
    assert "because matrices of 90 rows and 4 targets take" in model.explain_defaults()


def test_memory_is_linear_in_targets():
    assert bytes_needed(3000, 10_000) < 1.6e9
    assert bytes_needed(3000, 20_000) - bytes_needed(3000, 10_000) == 8 * 4 * 3000 * 10_000
    assert bytes_needed(2000, 0) - bytes_needed(1000, 0) == 8 * 6 * (2000**2 - 1000**2)


def test_memory_that_is_asked_for_is_enough_and_not_twice_what_is_used(monkeypatch, rng):
    monkeypatch.setattr(many_targets, "BATCH_BYTES", 2**18)
    for n, n_targets in ((200, 5), (100, 150)):
        Z, y = rng.normal(size=(2, n, n)), rng.normal(size=(n, n_targets))
        stack, tests = as_gram(np.moveaxis(Z @ Z.transpose(0, 2, 1), 0, -1)), np.array_split(np.arange(n), 4)
        tracemalloc.start()
        try:
            solve_many(stack, y, tests, scale=np.ones(2), alphas=np.array([1.0]), rounds=0)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # measured 0.60 and 0.88
        assert 0.5 * bytes_needed(n, n_targets) < peak < bytes_needed(n, n_targets)


def test_weights_that_are_worse_for_a_target_change_nothing_that_it_proposes():
    y = Y - np.average(Y, axis=0, weights=WEIGHT)
    search = many_targets._Search(as_gram(STACK), y, TESTS, np.ones(3), WEIGHT, None, True)
    search.look(np.full(3, 1 / 3))
    before = dict(search.proposed)
    # the third kernel predicts none of the first three targets
    search.look(np.array([0.0, 0.0, 1.0]))
    assert [search.proposed[key] is before[key] for key in (-1, 0, 1, 2)] == [True] * 4
    assert (search.at[:3] == 0).all()
    # and better ones make new ones
    search.look(np.array([0.5, 0.5, 0.0]))
    assert [search.proposed[key] is before[key] for key in (-1, 2)] == [False] * 2


def test_cross_validated_estimators_choose_on_their_folds(tables):
    from sklearn.model_selection import ShuffleSplit

    X, _ = tables
    kernels = [kw.kernels.Linear()]
    own = kw.MKLRegressorCV(kernels, cv=3, alphas=[10.0, 1.0, 0.1], targets="own").fit(X, Y)
    assert set(own.target_alphas_) <= {10.0, 1.0, 0.1}
    split = kw.MKLRegressorCV(kernels, cv=ShuffleSplit(4, test_size=0.5, random_state=0), n_alphas=3).fit(
        X, Y
    )
    assert "do not divide the rows" in split.explain_defaults()


def test_what_own_targets_do_not_go_with(tables):
    """Folds of one matrix have no share in a learnt metric; scores and rules choose one regularisation parameter."""
    X, _ = tables
    metric = kw.MKLRegressor(learner="metric").fit(X, Y)
    assert "a metric is learnt from the targets" in metric.explain_defaults()
    assert not hasattr(metric, "target_alphas_")
    for options, message in (
        ({"learner": "metric"}, "a metric is learnt"),
        ({"scoring": "neg_mean_absolute_error"}, "not one of squared errors"),
        ({"learner": RLS2(relax=0.5)}, "relax=0.5"),
        ({"learner": RLS2(solver="alternating")}, "solver='alternating'"),
    ):
        with pytest.raises(kw.InputError, match=message):
            kw.MKLRegressor(targets="own", **options).fit(X, Y)
    with pytest.raises(kw.InputError, match="'1se'"):
        kw.MKLRegressorCV(targets="own", rule="1se", cv=3).fit(X, Y)
    with pytest.raises(kw.InputError, match="contradict"):
        kw.MKLRegressor(targets="shared", learner=RLS2(shared_weights=False)).fit(X, Y)
    # a constant target has no share in the score
    constant = np.column_stack([Y, np.ones(len(Y))])
    own = kw.MKLRegressor([kw.kernels.Linear()], "rls2", targets="own")
    scores = [own.fit(X, targets).best_score_ for targets in (Y, constant)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)


def test_at_a_given_alpha_own_targets_are_problems_of_their_own(tables):
    X, new = tables
    kernels = [kw.kernels.Linear()]
    own = kw.MKLRegressor(kernels, RLS2(alpha=3.0), targets="own").fit(X, Y)
    one = kw.MKLRegressor(kernels, RLS2(alpha=3.0)).fit(X, Y[:, 1])
    np.testing.assert_allclose(own.predict(new)[:, 1], one.predict(new), rtol=1e-9)


def test_models_are_saved(tables, tmp_path):
    X, new = tables
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kw.MKLRegressor([kw.kernels.Linear()], "rls2", targets="own").fit(X, Y)
    kw.save(model, tmp_path / "own.skops")
    np.testing.assert_allclose(kw.load(tmp_path / "own.skops").predict(new), model.predict(new), rtol=1e-12)


def test_who_chooses_for_targets_and_who_may_not():
    """Each part of the condition alone; what is refused, in words."""
    from types import SimpleNamespace

    task = SimpleNamespace(classification=False, targets=(np.zeros((4, 2)),), n_outputs=2)
    free = RLS2()
    assert own_targets.chooses_for_targets(task, free)
    assert own_targets.chooses_for_targets(task, RLS2(relax="auto"))
    other = {"classification": True, "targets": (1, 2), "n_outputs": 1}
    for name, value in other.items():
        assert not own_targets.chooses_for_targets(SimpleNamespace(**{**vars(task), name: value}), free), name
    for options in ({"alpha": 1.0}, {"relax": 0.5}, {"solver": "alternating"}, {"shared_weights": False}):
        assert not own_targets.chooses_for_targets(task, RLS2(**options)), options
    assert not own_targets.chooses_for_targets(task, kw.learners.SimpleMKL())
    for learner in (
        free,
        RLS2(relax="auto"),
        RLS2(alpha=1.0, relax=0.5),
        RLS2(alpha=1.0, solver="alternating"),
    ):
        own_targets.refuse_own(learner)
    for options in ({"relax": 0.5}, {"solver": "alternating"}):
        with pytest.raises(
            InputError, match=r"relax=None or relax='auto' and solver='newton', got relax=.*and solver="
        ):
            own_targets.refuse_own(RLS2(**options))
    with pytest.raises(InputError, match="is for learner='rls2', got SimpleMKL"):
        own_targets.refuse_own(kw.learners.SimpleMKL())


def small():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(36, 3))
    return X, np.column_stack([X[:, 0] + 0.3 * rng.normal(size=36), 2.0 * X[:, 1] + rng.normal(size=36)])


LINEAR = [kw.kernels.Linear().on([k]) for k in range(3)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cv": [(np.arange(18), np.arange(18, 36))]}, "there are fewer than two folds"),
        (
            {"cv": [(np.arange(9, 36), np.arange(12)), (np.arange(18), np.arange(11, 36))]},
            "the folds do not divide the rows, with all others as training rows",
        ),
        (
            {"cv": [(np.arange(20, 36), np.arange(12)), (np.arange(12), np.arange(12, 36))]},
            "the folds do not divide the rows",
        ),
        ({"scoring": "neg_mean_absolute_error"}, "the score that chooses is not one of squared errors"),
        ({"rule": "1se"}, "the rule is '1se', which is for one regularisation parameter"),
        (
            {"approximation": kw.kernels.Nystroem(5), "kernels": [kw.kernels.RBF(0.1)]},
            "kernels are approximated by features",
        ),
        (
            {"learner": "metric"},
            "a metric is learnt from the targets, and folds of one matrix would have seen their test rows",
        ),
        (
            {"max_memory": 60_000.0},
            r"matrices of 36 rows and 2 targets take \S+ GiB, and max_memory is 5.59e-05 GiB",
        ),
    ],
)
def test_targets_have_nothing_of_their_own_where_it_cannot_be_compared(options, reason):
    """What is asked for is refused; what is left to the fit is said to be shared, and why."""
    X, Y = small()
    given = {"kernels": LINEAR, "learner": "rls2", "cv": 3, "alphas": [1.0, 0.1], **options}
    with pytest.raises(InputError, match=f"`targets='own'` cannot be used: {reason}.*Use targets='shared'"):
        kw.MKLRegressorCV(**given, targets="own").fit(X, Y)
    model = kw.MKLRegressorCV(**given).fit(X, Y)
    assert model.defaults_["targets"].startswith("they share weights and alpha, because ")
    assert not hasattr(model, "target_alphas_")
    assert "because" not in kw.MKLRegressorCV(**given, targets="shared").fit(X, Y).defaults_["targets"]


@pytest.mark.parametrize("score", ["r2", "neg_mean_squared_error", "neg_root_mean_squared_error"])
def test_scores_of_squares_choose_for_targets(score):
    X, Y = small()
    model = kw.MKLRegressorCV(LINEAR, "rls2", cv=3, scoring=score, targets="own").fit(X, Y)
    assert len(model.target_alphas_) == 2


def test_what_is_compared_for_targets_has_all_of_the_fit(monkeypatch):
    """Weights, alphas, folds, tolerance and rounds reach the comparison; and who wins follows from its errors."""
    X, Y = small()
    weight = 1.0 + np.arange(36) % 2
    seen = []

    def spied(*arguments, **options):
        seen.append((arguments, options))
        return solve_many(*arguments, **options)

    monkeypatch.setattr(own_targets, "solve_many", spied)

    def fit(**options):
        cls = kw.MKLRegressorCV if "alphas" in options else kw.MKLRegressor
        return cls(**{"kernels": LINEAR, "learner": RLS2(tol=1e-7), **options}).fit(X, Y, weight)

    fit(alphas=[1.0, 0.1], cv=4, targets="own")
    (gram, y, tests), given = seen.pop()
    np.testing.assert_allclose(y, Y - np.average(Y, axis=0, weights=weight))
    np.testing.assert_array_equal(given["sample_weight"], weight)
    np.testing.assert_array_equal(np.sort(np.concatenate(tests)), np.arange(36))
    assert (len(tests), gram.n_kernels, given["tol"], given["rounds"], given["fit_intercept"]) == (
        4,
        3,
        1e-6,
        ROUNDS,
        True,
    )
    np.testing.assert_array_equal(given["alphas"], [1.0, 0.1])
    fit(learner=RLS2(tol=1e-5), targets="shared", fit_intercept=False)
    given = seen.pop()[1]
    assert (given["tol"], given["rounds"], given["fit_intercept"], given["alphas"]) == (1e-5, 1, False, None)
    monkeypatch.setattr(own_targets, "CHECK_ROWS", 35)
    fit(targets="own")
    assert seen.pop()[1]["rounds"] == 1
    monkeypatch.setattr(own_targets, "MANY", 2)
    fit(targets="own")
    assert seen.pop()[1]["rounds"] == ROUNDS
    # of too many rows what stated sharing costs is not looked up
    shared = fit(targets="shared")
    assert not seen
    assert shared.defaults_["targets"] == "they share weights and alpha."
    monkeypatch.setattr(own_targets, "CHECK_ROWS", 36)

    def outcome(own, shared_, asked, interrupted=False):
        def made(*arguments, **options):
            found = solve_many(*arguments, **options)
            return replace(found, own=np.array(own), shared=np.array(shared_), interrupted=interrupted)

        monkeypatch.setattr(own_targets, "solve_many", made)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = fit(targets=asked)
        return (
            hasattr(model, "target_alphas_"),
            model.defaults_["targets"],
            [str(one.message) for one in caught],
        )

    own, said, warned = outcome([0.2, 0.4], [0.3, 0.5], "auto")
    assert own
    assert said.startswith("each of the 2 has its own weights and alpha (")
    assert (
        "out-of-fold R^2 0.7 with their own, 0.6 shared, on average, each fold at what the others chose."
        in said
    )
    assert " by squared errors on 5 folds, kernels there are those of all rows: " in said
    assert not warned
    assert outcome([0.3, 0.5], [0.3, 0.5], "auto")[:2] == (
        False,
        "they share weights and alpha: out-of-fold R^2 0.6 with their own, 0.6 shared, on average.",
    )
    assert outcome([0.4, 0.5], [0.3, 0.5], "own")[0]
    _, said, warned = outcome([0.25, 0.5], [0.3, 0.5], "shared")
    assert warned == [
        "The 2 targets share weights and alpha, as targets='shared' says, and this costs: out-of-fold R^2 0.625 with "
        "their own, 0.6 shared, on average over targets. Use targets='auto' or 'own'."
    ]
    assert not outcome([0.28, 0.5], [0.3, 0.5], "shared")[2]
    own, _, warned = outcome([0.4, 0.5], [0.3, 0.5], "auto", interrupted=True)
    assert own
    assert any("weights of targets were chosen among" in one for one in warned)


def test_the_choice_of_targets_is_told_with_all_numbers(recorded):
    X, Y = small()
    kernels = [kw.kernels.Linear().on([k]) for k in range(3)]
    Y = np.column_stack([Y, np.ones(36)])
    for name, y in {"two and a constant": Y, "constant": np.ones((36, 2))}.items():
        model = kw.MKLRegressorCV(kernels, RLS2(tol=1e-10), targets="own", cv=KFold(3)).fit(
            X, y, 1.0 + np.arange(36) % 2
        )
        found = {
            "alphas": model.target_alphas_,
            "alpha": model.alpha_,
            "weights": model.weights_,
            "said": model.defaults_,
        }
        found |= {
            "results": model.cv_results_,
            "best": model.best_score_,
            "held": model.model_.out_of_fold.values,
        }
        found |= {
            "noise": model.noise_variance_,
            "evidence": model.log_marginal_likelihood_,
            "std": model.predict(X[:4], return_std=True)[1],
        }
        recorded(name, found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("case", ["one by one", "all", "own alphas", "no rounds"])
def test_the_way_of_the_search(case, monkeypatch, recorded):
    if case == "one by one":
        monkeypatch.setattr(many_targets, "BATCH_BYTES", 8)
        monkeypatch.setattr(many_targets, "FEWEST", 2)
        monkeypatch.setattr(many_targets, "PROPOSING", 6)
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(4, 30, 6)) / 6**0.5
    stack = np.moveaxis(Z @ Z.transpose(0, 2, 1), 0, -1)
    coef = np.array(
        [
            [1.0, 0.0, 0.5, 0.0],
            [0.0, 1.0, 0.0, 0.0],
            [0.3, 0.3, 0.3, 0.3],
            [0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.2, 1.0],
        ]
    )
    y = 2.0 * np.einsum("tm,mij,mtj->it", coef, Z, rng.normal(size=(4, 5, 6))) + 0.7 * rng.normal(
        size=(30, 5)
    )
    y *= [1.0, 3.0, 0.2, 1.0, 10.0]
    weight = 0.5 + np.arange(30) / 30
    tests = [
        np.array([0, 3, 7, 11, 28]),
        np.arange(12, 20),
        np.array([1, 2, 20, 21, 22]),
        np.array([4, 5, 29]),
    ]
    told = []
    found = solve_many(
        as_gram(stack),
        y - np.average(y, axis=0, weights=weight),
        tests,
        scale=np.array([1.0, 0.5, 2.0, 1.5]),
        sample_weight=weight,
        alphas=np.array([0.03, 10.0, 1.0, np.inf]) if case == "own alphas" else None,
        fit_intercept=case != "all",
        rounds=0 if case == "no rounds" else 2,
        report=lambda text: told.append(text) or len(told) == 12,
    )
    recorded("errors", [found.errors, found.own, found.shared, found.n_looks, found.interrupted], rtol=1e-5)
    solution = found.solution
    recorded(
        "solution",
        [solution.primal, solution.alphas, solution.log_dets, solution.weights],
        rtol=1e-4,
        atol=1e-6,
    )
    recorded(
        "sizes",
        [np.linalg.norm(solution.dual_coef, axis=0), np.nansum(found.residuals**2, axis=0)],
        rtol=1e-4,
    )
    assert told[-1].startswith(f"weights {len(told)} of at most ")
    assert solution.gap + solution.rounding <= 1e-8 * solution.primal
    recorded("defaults", defaults_of(solve_many, most_looks))
