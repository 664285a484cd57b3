"""Comparisons, permutations, fits without a source and stability: by other formulas, and in simulations.

Modules: `inspection/paired`, `inspection/permutation`, `inspection/refitting`, `inspection/sources`,
`inspection/stability`.
"""

import inspect
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn import model_selection
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, log_loss, r2_score

import kernelweave as kw
from kernelweave import InputError, inspection
from kernelweave.inspection import paired, sources, stability
from kernelweave.inspection.held import HeldOut
from kernelweave.inspection.permutation import permutation_p_value
from kernelweave.inspection.refitting import plainly, splitter_of
from kernelweave.inspection.registry import REGISTRY, Basis, Interval, Rows, collect, compute
from kernelweave.inspection.stability import permitted
from oracles import wrong_defaults
from recording import brief


@pytest.fixture(scope="module")
def patients():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:120, [0, 1, 10, 20]], np.where(y[:120] == 1, "well", "ill")


# ---- paired tests ----------------------------------------------------------------------------------


def test_paired_tests_of_groups_find_as_many_differences_as_they_say(rng, monkeypatch):
    monkeypatch.setattr(paired, "N_SIGNS", 499)
    groups, false = np.repeat(np.arange(20), 5), []
    for _ in range(200):
        # two models, each of which knows one of two terms: the other is shared by the rows of a group
        one, two = (rng.normal(size=20)[groups] + 0.8 * rng.normal(size=100) for _ in range(2))
        y = one + two
        numbers = inspection.compare_numbers(y, one, two, groups=groups)
        named = [values > 0 for values in (y, one, two)]
        false.append(
            [numbers.p_value < 0.05, inspection.compare_classes(*named, groups=groups).p_value < 0.05]
        )
        assert numbers.difference == pytest.approx(inspection.compare_numbers(y, one, two).difference)
        assert (numbers.n, numbers.test) == (100, "paired permutation test of groups")
    # measured: .05 and .03; of numbers without groups .21
    assert (np.mean(false, axis=0) < 0.1).all()
    with pytest.raises(InputError, match="`groups` must have an entry"):
        inspection.compare_numbers(y, one, two, groups=[1, 2])


def test_sources_are_exchanged_between_groups(rng):
    false, groups = [], np.repeat(np.arange(40), 5)
    train, test = slice(0, 100), slice(100, 200)
    for seed in range(60):
        X = np.column_stack([rng.normal(size=200), rng.normal(size=40)[groups]])
        y = X[:, 0] + rng.normal(size=40)[groups] + 0.5 * rng.normal(size=200)
        model = kw.MKLRegressor(kw.banks.linear_features(2), "rls2", alpha=0.1).fit(X[train], y[train])
        found = inspection.source_test(
            model, X[test], y[test], groups=groups[test], n_permutations=99, random_state=seed
        )
        p = dict(zip(found.names, found.p_values, strict=True))
        assert p["x0"] < 0.05
        false.append(p.get("x1", 1.0) < 0.05)
    # measured: .03 in 150 tables; between rows .21
    assert np.mean(false) < 0.12


def test_mcnemar_counts_rows_on_which_models_differ(rng):
    y = rng.integers(2, size=60)
    one = np.where(rng.random(60) < 0.9, y, 1 - y)
    two = np.where(rng.random(60) < 0.7, y, 1 - y)
    found = inspection.compare_classes(y, one, two)
    b, c = int(((one == y) & (two != y)).sum()), int(((one != y) & (two == y)).sum())
    assert list(found.counts.values()) == [b, c]
    by_hand = min(1.0, 2 * stats.binom.cdf(min(b, c), b + c, 0.5))
    assert found.p_value == pytest.approx(by_hand)
    assert found.low < found.difference == pytest.approx((b - c) / 60)
    # Fay and Lumbard: products of draws by the levels of Clopper and Pearson; measured: 0.0005
    t, d = (
        rng.beta(b, c + 1, 400_000),
        rng.beta([[b + c], [b + c + 1]], [[60 - b - c + 1], [60 - b - c]], (2, 400_000)),
    )
    low = np.quantile(np.where(t > 0.5, (2 * t - 1) * d[0], (2 * t - 1) * d[1]), 0.025)
    assert found.low == pytest.approx(low, abs=0.003)
    back = inspection.compare_classes(y, two, one)
    assert (back.difference, back.p_value) == (-found.difference, found.p_value)
    assert (back.low, back.high) == (-found.high, -found.low)
    # models that never differ: the largest fraction of rows on which they may
    same = inspection.compare_classes(y, one, one)
    assert same.p_value == 1.0
    assert (same.low, same.high) == pytest.approx(np.array([-1, 1]) * (1 - 0.025 ** (1 / 60)), rel=1e-3)


def test_mcnemar_and_its_interval_agree():
    """At 16 rows, of which 5 differ in one direction, an interval by another method would be above 0."""
    decided = set()
    for n, first, second in [
        (16, 5, 0),
        (16, 6, 0),
        (16, 16, 0),
        (40, 9, 2),
        (40, 10, 2),
        (40, 2, 10),
        (9, 0, 0),
    ]:
        y, one, two = np.ones(n), np.ones(n), np.ones(n)
        two[:first], one[first : first + second] = 0, 0
        found = inspection.compare_classes(y, one, two)
        assert (found.p_value < 0.05) == (found.low > 0 or found.high < 0), (n, first, second)
        assert found.low <= found.difference <= found.high
        decided.add(found.p_value < 0.05)
    assert decided == {True, False}


def test_classes_of_groups_are_compared_as_numbers_of_rows_that_are_right(rng, monkeypatch):
    """At any level; other seeds make other p-values, and the same one the same."""
    monkeypatch.setattr(paired, "N_SIGNS", 199)
    y, one, two = rng.integers(2, size=(3, 90))
    groups = np.arange(90) // 3
    right = [(guess == y).astype(float) for guess in (one, two)]
    widths = []
    for level in (0.5, 0.95):
        found = inspection.compare_classes(y, one, two, groups=groups, level=level)
        wanted = inspection.compare_numbers(np.zeros(90), *right, groups=groups, level=level)
        for name in ("difference", "low", "high", "p_value", "n", "test"):
            assert getattr(found, name) == getattr(wanted, name)
        widths.append(found.high - found.low)
    assert widths[0] < 0.5 * widths[1]
    p = [inspection.compare_numbers(y, *right, random_state=seed).p_value for seed in (0, 0, *range(1, 6))]
    assert p[0] == p[1]
    assert len(set(p)) > 1


def test_signs_of_few_rows_are_all_tried():
    y = np.zeros(6)
    found = inspection.compare_numbers(y, y + 0.1, np.array([1.0, 2, 1, 2, 1, 2]))
    # of 64 changes of signs only two are as far from zero
    assert found.p_value == pytest.approx(2 / 64)
    assert inspection.compare_numbers(y, y, y).p_value == 1.0


def test_the_interval_of_a_difference_covers_it_with_few_rows(monkeypatch, rng):
    """Two models with errors of variance 1 and 1.69; quantiles of a bootstrap covered 84 % of 1,000 samples of 10."""
    monkeypatch.setattr(paired, "N_SIGNS", 1)
    hits = 0
    for _ in range(400):
        first, second = rng.normal(size=(2, 10)) * [[1.0], [1.3]]
        found = inspection.compare_numbers(np.zeros(10), first, second)
        hits += found.low <= 1.0 - 1.69 <= found.high
    # 96 % of 1,000 samples in a simulation
    assert 0.92 < hits / 400 < 0.99
    # with many rows that of the mean
    first, second = rng.normal(size=(2, 5000))
    found = inspection.compare_numbers(np.zeros(5000), first, second)
    usual = stats.ttest_1samp(np.square(first) - np.square(second), 0.0).confidence_interval()
    np.testing.assert_allclose([found.low, found.high], usual, atol=0.02 * (usual.high - usual.low))


def test_corrected_t_test_by_hand_and_its_errors(rng):
    one, two = rng.normal(size=10), rng.normal(size=10) + 0.5
    found = inspection.compare_folds(one, two, 1 / 9)
    plain = stats.ttest_rel(one, two)
    t = plain.statistic * np.sqrt((1 / 10) / (1 / 10 + 1 / 9))
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(t), 9))
    assert found.p_value > plain.pvalue
    assert inspection.compare_folds(one, one, 1 / 9).p_value == 1.0
    # differences that are all the same say nothing about their spread
    same = inspection.compare_folds([0.9, 0.8, 0.7], [0.8, 0.7, 0.6], 1 / 2)
    assert same.difference == pytest.approx(0.1)
    assert same.p_value == 1.0
    assert np.isnan([same.low, same.high]).all()
    for n, m in ((10, 9), (1, 1)):
        with pytest.raises(InputError, match=f"got {n} and {m}"):
            inspection.compare_folds(one[:n], two[:m], 1 / 9)
    assert inspection.compare_folds(one[:2], two[:2], 1.0).n == 2


def test_the_corrected_test_finds_differences_as_rarely_as_it_says():
    """Two equally good models on 15 random halves of 60 rows, 150 times; the usual test finds many."""
    rng = np.random.default_rng(0)
    wrong = usual = 0
    for _ in range(150):
        X = rng.normal(size=(60, 2))
        y = X.sum(axis=1) + rng.normal(size=60)
        scores = np.zeros((2, 15))
        for k in range(15):
            order = rng.permutation(60)
            train, test = order[:30], order[30:]
            for m in range(2):
                slope = X[train, m] @ y[train] / (X[train, m] @ X[train, m])
                scores[m, k] = -np.mean((y[test] - slope * X[test, m]) ** 2)
        wrong += inspection.compare_folds(*scores, 1.0).p_value < 0.05
        usual += stats.ttest_rel(*scores).pvalue < 0.05
    assert wrong <= 0.09 * 150  # 0.05 is said; the standard error of 150 is 0.018
    assert usual > 0.3 * 150


def test_holm_is_that_of_its_definition():
    p = np.array([0.01, 0.02, 0.03, 0.5])
    np.testing.assert_allclose(inspection.adjust_p_values(p), [0.04, 0.06, 0.06, 0.5])
    with pytest.raises(InputError, match=r"from 0 to 1, got 1\.2"):
        inspection.adjust_p_values([0.1, 1.2])


# ---- permutations ----------------------------------------------------------------------------------


def test_permutations_are_those_of_scikit_learn(patients):
    X, y = patients
    model = LogisticRegression(C=0.01)
    found = inspection.permutation_test(model, X, y, n_permutations=12, cv=3, random_state=4)
    score, permuted, p_value = model_selection.permutation_test_score(
        model, X, y, n_permutations=12, cv=3, random_state=4
    )
    assert found.score == score
    np.testing.assert_array_equal(found.permuted, permuted)
    assert found.p_value == p_value


@pytest.mark.parametrize("sizes", [np.full(24, 5), 1 + np.arange(24) % 8])
def test_a_score_between_groups_is_not_chance(sizes):
    """A column that differs between groups predicts the means of these; within groups nothing is to be permuted."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(24), sizes)
    column = rng.normal(size=24)[groups]
    noise = rng.normal(size=(24, 2))[groups] * [0.3, 1.0] + 0.3 * rng.normal(size=(len(groups), 2))
    X = column[:, None] + 0.1 * rng.normal(size=(len(groups), 1))
    p = [
        inspection.permutation_test(Ridge(), X, y, groups=groups, n_permutations=39, cv=4).p_value
        for y in (column + noise[:, 0], noise[:, 1])
    ]
    # measured within groups: a median of 0.4 in 25 tables of five rows each
    assert p[0] <= 0.05 < p[1]


def test_fixed_models_are_tested_on_permuted_targets(patients):
    """Without a fit for every permutation, and as the hypergeometric distribution says for accuracy."""
    X, y = patients
    train, test = np.arange(0, 120, 2), np.arange(1, 120, 2)
    model = kw.MKLClassifier([kw.kernels.Linear()], kw.learners.SimpleMKL(C=1.0), standardize=True)
    found = inspection.permutation_test(model, X, y, n_permutations=400, cv=[(train, test)], refit=False)
    guess = model.fit(X.iloc[train], y[train]).predict(X.iloc[test])
    assert found.score == pytest.approx(np.mean(guess == y[test]))
    # rows that are right are hits of both classes: n11 is hypergeometric
    n, ill, said = len(test), int((y[test] == "ill").sum()), int((guess == "ill").sum())
    expected = stats.hypergeom(n, ill, said).mean()
    accuracy = (n - ill - said + 2 * expected) / n
    assert found.permuted.mean() == pytest.approx(accuracy, abs=4 * found.permuted.std() / 20)


@pytest.mark.full
def test_p_values_of_noise_are_uniform():
    """Under the hypothesis p <= 0.2 comes in a fifth of 100 data sets, and never 0."""
    rng = np.random.default_rng(1)
    p = []
    for _ in range(100):
        X, y = rng.normal(size=(24, 2)), rng.normal(size=24)
        found = inspection.permutation_test(
            Ridge(), X, y, n_permutations=9, cv=[(np.arange(12), np.arange(12, 24))]
        )
        p.append(found.p_value)
    assert min(p) == 1 / 10
    assert 0.09 <= np.mean(np.array(p) <= 0.2) <= 0.31  # the standard error is 0.04
    assert permutation_p_value(1.0, np.array([1.0, 0.5, 2.0])) == 3 / 4


def test_targets_of_groups_stay_together(rng):
    """Where all rows of a group have one target, groups exchange their targets; within groups nothing would change."""
    groups = np.repeat(np.arange(12), 5)
    y = np.where(groups % 2, 1.0, 0.0)
    X = y[:, None] + 0.1 * rng.normal(size=(60, 1))
    found = inspection.permutation_test(
        Ridge(), X, y, n_permutations=30, groups=groups, cv=model_selection.GroupKFold(3), scoring="r2"
    )
    assert found.score > 0.8
    assert found.permuted.min() < 0.5
    # targets of a test fold stay there: these are all the same
    fold = (np.flatnonzero((y == 0) | (groups < 6)), np.flatnonzero((y == 1) & (groups >= 6)))
    how = {"cv": [fold], "refit": False, "scoring": lambda model, X, y: -np.abs(model.predict(X) - y).mean()}
    found = inspection.permutation_test(Ridge(), X, y, n_permutations=5, groups=groups, **how)
    np.testing.assert_allclose(found.permuted, found.score)


def test_a_source_is_tested_by_exchanging_its_contributions(patients):
    """As if the decision values were computed again from permuted columns."""
    X, y = patients
    views = {"a": list(X.columns[:2]), "b": list(X.columns[2:])}
    model = kw.MKLClassifier([kw.kernels.Linear()], kw.learners.Uniform(C=1.0), views=views, standardize=True)
    train, test = np.arange(0, 120, 2), np.arange(1, 120, 2)
    model.fit(X.iloc[train], y[train])
    found = inspection.source_test(model, X.iloc[test], y[test], n_permutations=50)
    assert set(found.names) == {"a", "b"}
    assert found.score == pytest.approx(model.score(X.iloc[test], y[test]))
    rng = np.random.default_rng(np.random.default_rng(0).integers(2**32, size=2)[0])
    losses = []
    for _ in range(50):
        mixed = X.iloc[test].copy()
        mixed[views["a"]] = mixed[views["a"]].to_numpy()[rng.permutation(60)]
        losses.append(found.score - model.score(mixed, y[test]))
    assert found.loss[found.names.index("a")] == pytest.approx(np.mean(losses))
    assert (found.adjusted >= found.p_values).all()
    area = inspection.source_test(model, X.iloc[test], y[test], n_permutations=5, scoring="roc_auc")
    assert 0.5 < area.score <= 1.0
    # by the probabilities of `predict_proba`, whose curve is not that of the loss
    scores = []
    for _ in range(2):
        found = inspection.source_test(model, X.iloc[test], y[test], n_permutations=5, scoring="neg_log_loss")
        scores.append(found.score)
        assert found.score == pytest.approx(-log_loss(y[test], model.predict_proba(X.iloc[test])))
        model.calibrate("platt")
    assert scores[0] != scores[1]


def test_one_important_source_among_many_is_found():
    """Of 60 columns: with 999 exchanges of each no p-value below 0.06 can be had, however large the loss."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 60))
    y = 2 * X[:, 0] + rng.normal(size=160)
    model = kw.MKLRegressor(kw.banks.linear_features(60), alpha=1.0).fit(X[:80], y[:80])
    few = inspection.source_test(model, X[80:], y[80:], n_permutations=999)
    assert few.names[0] == "x0"
    assert few.reach == pytest.approx(len(few.names) / 1000)
    assert few.adjusted[0] == pytest.approx(few.reach)
    assert few.reach > 0.02
    found = inspection.source_test(model, X[80:], y[80:])
    assert found.n_permutations == (15999 if len(found.names) > 40 else 3999)
    assert found.adjusted[0] == pytest.approx(found.reach)
    assert found.reach <= 0.01
    # a source ends after the first 999 exchanges of which 20 are no worse, with the same p-value
    early = few.p_values > 20 / 1000
    assert early.sum() > 5
    order = [found.names.index(name) for name in np.array(few.names)[early]]
    np.testing.assert_array_equal(found.p_values[order], few.p_values[early])


def test_sources_that_all_end_early_could_have_been_found():
    """60 columns, none of which matters: after 999 exchanges each has a result, of up to 15,999."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(160, 60)), rng.normal(size=160)
    model = kw.MKLRegressor(kw.banks.linear_features(60), "uniform", C=1.0).fit(X[:80], y[:80])
    found = inspection.source_test(model, X[80:], y[80:])
    assert found.p_values.min() > 20 / 1000
    assert found.n_permutations == 15999
    assert found.reach == 60 / 16000
    said = inspection.findings(model, X[80:], y[80:], names=["sources"])["sources"].sentence
    # more exchanges would not help
    assert "(p = 1, corrected for 60 sources); 80 rows cannot tell" in said


# ---- fits without a source -------------------------------------------------------------------------


def test_a_source_is_left_out_of_fits_by_hand(patients):
    """Both models of every fold are those of estimators with the columns of one view alone."""
    X, y = patients
    views = {"a": list(X.columns[:2]), "b": list(X.columns[2:])}
    model = kw.MKLClassifierCV(
        [kw.kernels.Linear(), kw.kernels.RBF(gamma="median")],
        "simple",
        n_alphas=3,
        cv=2,
        views=views,
        standardize=True,
    ).fit(X, y)
    splitter = model_selection.StratifiedShuffleSplit(4, test_size=0.25, random_state=1)
    found = inspection.source_refit_test(model, X, y, cv=splitter, n_jobs=1)
    scores = []
    for train, test in splitter.split(X, y):
        fits = []
        for left in (views, {"b": views["b"]}, {"a": views["a"]}):
            one = kw.MKLClassifierCV(
                [kw.kernels.Linear(), kw.kernels.RBF(gamma="median")], "simple", n_alphas=3, cv=2, views=left,
                standardize=True,
            ).fit(X.iloc[train], y[train])  # fmt: skip
            fits.append(one.score(X.iloc[test], y[test]))
        scores.append(fits)
    scores = np.array(scores)
    order = [0, *(1 + ["a", "b"].index(name) for name in found.names)]
    np.testing.assert_allclose(found.scores, scores[:, order])
    first = inspection.compare_folds(found.scores[:, 0], found.scores[:, 1], 1 / 3)
    assert (found.loss[0], found.low[0], found.high[0]) == (first.difference, first.low, first.high)
    assert found.loss[0] >= found.loss[1]
    np.testing.assert_allclose(found.adjusted, inspection.adjust_p_values(found.p_values))
    np.testing.assert_allclose(found.score - found.without, found.loss, atol=1e-15)


def test_plain_fits_and_matrices_are_fitted_without_a_source_too(rng):
    """One source has all the information; a plain fit keeps its learner and scale, and the choice of C."""
    X = {"told": rng.normal(size=(60, 2)), "noise": rng.normal(size=(60, 2))}
    y = np.where(X["told"].sum(axis=1) > 0, "yes", "no")
    model = kw.MKLClassifier().fit(kw.Views(X), y)
    splitter = model_selection.StratifiedShuffleSplit(6, test_size=0.3, random_state=0)
    found = inspection.source_refit_test(model, kw.Views(X), y, cv=splitter)
    assert found.names == ("told",)  # the other one has no weight
    assert found.score > 0.85
    assert found.without[0] < 0.7
    assert found.low[0] > 0.0
    assert found.adjusted[0] < 0.05
    bank = kw.KernelBank(np.stack([x @ x.T for x in X.values()], axis=2), names=["told", "noise"])
    rows = np.arange(60)[:, None]
    with_bank = kw.MKLClassifier(bank, "rls2", alpha=0.01).fit(rows, y)
    again = inspection.source_refit_test(with_bank, rows, y, cv=3, choose_again=False, sources=["noise"])
    assert again.names == ("noise",)
    alone = kw.MKLClassifier(kw.KernelBank(bank.stack[..., :1]), "rls2", alpha=0.01)
    np.testing.assert_allclose(again.without, model_selection.cross_val_score(alone, rows, y, cv=3).mean())


def test_fits_without_a_source_refuse_what_they_cannot_do(patients):
    X, y = patients
    model = kw.MKLClassifier([kw.kernels.Linear()], kw.learners.SimpleMKL(C=1.0)).fit(X, y)
    with pytest.raises(InputError, match="all kernels are of one source, 'all'"):
        inspection.source_refit_test(model, X, y)
    model = kw.MKLClassifier(kw.banks.linear_features(4), kw.learners.SimpleMKL(C=1.0)).fit(X.to_numpy(), y)
    with pytest.raises(InputError, match="source"):
        inspection.source_refit_test(model, X.to_numpy(), y, sources=["x9"])
    with pytest.raises(InputError, match="two divisions of the rows or more, `cv` gives 1"):
        inspection.source_refit_test(model, X.to_numpy(), y, cv=[(np.arange(60), np.arange(60, 120))])
    K = X.to_numpy() @ X.to_numpy().T
    stacked = kw.MKLClassifier("precomputed", kw.learners.SimpleMKL(C=1.0)).fit(
        np.stack([K, K * K], axis=2), y
    )
    with pytest.raises(InputError, match="no kernel of it can be left out"):
        inspection.source_refit_test(stacked, np.stack([K, K * K], axis=2), y)


def test_divisions_that_are_done_are_kept(patients):
    """Three fits belong to a division: a stop after eight keeps two divisions, one after five has no interval."""
    X, y = patients
    views = {"a": list(X.columns[:2]), "b": list(X.columns[2:])}
    model = kw.MKLClassifier([kw.kernels.Linear()], kw.learners.SimpleMKL(C=1.0), views=views).fit(X, y)
    found = inspection.source_refit_test(
        model, X, y, sources=["a", "b"], report=lambda text: text == "fit 8 of 15"
    )
    assert found.interrupted
    assert found.scores.shape == (2, 3)
    with pytest.raises(KeyboardInterrupt, match="two divisions"):
        inspection.source_refit_test(
            model, X, y, sources=["a", "b"], report=lambda text: text == "fit 5 of 15"
        )


# ---- stability -------------------------------------------------------------------------------------


def test_stability_of_halves_is_that_of_fits_by_hand(patients):
    X, y = patients
    model = kw.MKLClassifierCV(kw.banks.linear_features(4), "rls2", n_alphas=4, cv=2, standardize=True).fit(
        X, y
    )
    found = inspection.weight_stability(model, X, y, n_samples=6, random_state=3)
    assert found.samples.shape == (6, 4, 1)
    rng = np.random.default_rng(3)
    for k in range(6):
        if k % 2 == 0:
            parts = [rng.permutation(np.flatnonzero(y == name)) for name in ("ill", "well")]
        rows = np.sort(np.concatenate([part[k % 2 :: 2] for part in parts]))
        by_hand = kw.MKLClassifier(
            kw.banks.linear_features(4),
            kw.learners.RLS2(alpha=model.alpha_ * len(rows) / 120),
            standardize=True,
        ).fit(X.iloc[rows], y[rows])
        np.testing.assert_allclose(found.samples[k, :, 0], by_hand.weights_, atol=1e-9)
    np.testing.assert_allclose(found.low, np.quantile(found.samples, 0.025, axis=0))
    assert set(found.views) == set(inspection.view_weights(model))
    wide = inspection.weight_stability(model, X, y, n_samples=4, sampling="bootstrap", choose_again=True)
    assert len(wide.samples) == 4
    assert (wide.largest, wide.selected, bool(np.isnan(wide.view_frequency).all())) == (0, (), True)


@pytest.mark.parametrize("sampling", ["halves", "bootstrap"])
@pytest.mark.parametrize("grouped", [False, True])
def test_samples_hold_every_class_and_whole_groups(sampling, grouped, rng):
    """Both halves together are all rows; a class of one row is in both."""
    y = np.array([0] * 9 + [1] * 6 + [2])
    groups = np.repeat(np.arange(8), 2) if grouped else None
    drawn = list(stability._samples(Rows(np.zeros((16, 1)), y, groups=groups), 6, sampling, True, 0))
    again = stability._samples(Rows(np.zeros((16, 1)), y, groups=groups), 6, sampling, True, 0)
    assert all((one == other).all() for one, other in zip(drawn, again, strict=True))
    assert len(drawn) == 6
    for rows in drawn:
        counts = np.bincount(rows, minlength=16)
        if grouped:
            assert (counts[::2] == counts[1::2]).all()
            assert len(rows) == (16 if sampling == "bootstrap" else 8)
        elif sampling == "bootstrap":
            assert np.bincount(y[rows]).tolist() == [9, 6, 1]
        else:
            assert np.bincount(y[rows])[1:].tolist() == [3, 1]
            assert counts.max() == 1
    for one, other in zip(drawn[::2], drawn[1::2], strict=True):
        if sampling == "halves":
            assert sorted({*one, *other}) == list(range(16))
            assert len(one) + len(other) == (16 if grouped else 17)
    assert len({tuple(rows) for rows in drawn}) == 6


def test_halves_count_rows_by_their_weights():
    """Two groups, of which one weighs nine times as much: the penalty follows the weight of the rows that are drawn."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=60)
    groups, weight = np.repeat([0, 1], 30), np.repeat([9.0, 1.0], 30)
    bank = kw.banks.linear_features(2)
    model = kw.MKLRegressor(bank, kw.learners.RLS2(alpha=3.0)).fit(X, y, sample_weight=weight)
    found = inspection.weight_stability(
        model, X, y, n_samples=6, groups=groups, params={"sample_weight": weight}
    )
    by_hand = [
        kw.MKLRegressor(bank, kw.learners.RLS2(alpha=3.0 * share))
        .fit(X[groups == k], y[groups == k], sample_weight=weight[groups == k])
        .weights_
        for k, share in enumerate((0.9, 0.1))
    ]
    assert np.abs(by_hand[0] - by_hand[1]).max() > 1e-3
    for sample in found.samples[..., 0]:
        assert min(np.abs(sample - one).max() for one in by_hand) <= 1e-9


def test_spread_over_halves_is_that_over_samples():
    """The standard deviation over halves of 60 rows, against that over 60 new rows; a quantity known for 25 tables."""
    rng = np.random.default_rng(0)
    spreads, centres = [], []
    for _ in range(25):
        X = rng.normal(size=(60, 2))
        y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=60)
        model = kw.MKLRegressor(kw.banks.linear_features(2), kw.learners.RLS2(alpha=0.1)).fit(X, y)
        found = inspection.weight_stability(model, X, y, n_samples=8)
        centres.append(found.weights[0, 0])
        spreads.append(found.samples[:, 0, 0].var())
    # 1.20 was seen, 1.29 for 40 tables; with the factor of other shares, 1/3 or 2/3, it would be 0.85 or 1.7
    assert 0.9 < np.sqrt(np.mean(spreads)) / np.std(centres) < 1.5


def test_halves_have_the_balance_of_loss_and_penalty_of_all_rows():
    """With a strong penalty weights of halves lie around those of all rows."""
    rng, apart = np.random.default_rng(0), []
    for _ in range(30):
        X = rng.normal(size=(60, 2))
        y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=60)
        model = kw.MKLRegressor(kw.banks.linear_features(2), kw.learners.RLS2(alpha=10.0)).fit(X, y)
        found = inspection.weight_stability(model, X, y, n_samples=8)
        apart.append(found.samples[:, 0, 0].mean() - found.weights[0, 0])
    # 0.008 was seen, and 0.060 with the alpha of all rows
    assert abs(np.mean(apart)) < 0.03


def test_a_repetition_of_rows_leaves_C_to_the_share_of_weights(patients):
    """A machine with C on halves is that of 2 C, with weights that of the weights' share; of traces it is C itself."""
    X, y = patients
    weight = np.where(np.arange(120) < 60, 3.0, 1.0)
    for options, share in (({}, None), ({"normalize": "trace"}, 1.0)):
        model = kw.MKLClassifier(
            kw.banks.linear_features(4), kw.learners.SimpleMKL(C=2.0, tol=1e-10), standardize=True, **options
        ).fit(X, y, sample_weight=weight)
        found = inspection.weight_stability(
            model, X, y, n_samples=2, random_state=5, params={"sample_weight": weight}
        )
        draw = np.random.default_rng(5)
        parts = [draw.permutation(np.flatnonzero(y == name)) for name in ("ill", "well")]
        rows = np.sort(np.concatenate([part[::2] for part in parts]))
        C = 2.0 / (share or weight[rows].sum() / weight.sum())
        by_hand = kw.MKLClassifier(
            kw.banks.linear_features(4), kw.learners.SimpleMKL(C=C, tol=1e-10), standardize=True, **options
        ).fit(X.iloc[rows], y[rows], sample_weight=weight[rows])
        np.testing.assert_allclose(found.samples[0, :, 0], by_hand.weights_, atol=1e-6)


def largest_tail(n_pairs, mean, least):
    """The largest P(X >= least) of unimodal X on 0 to n_pairs with E X <= mean, by a linear program for each mode."""
    places, found = np.arange(n_pairs + 1), []
    for mode in places:
        rises = np.diff(np.eye(n_pairs + 1), axis=0)
        rises[:mode] *= -1.0
        upper = np.vstack([rises, places])
        limits = np.r_[np.zeros(n_pairs), mean]
        done = optimize.linprog(
            -(places >= least).astype(float), upper, limits, np.ones((1, n_pairs + 1)), [1.0], method="highs"
        )
        found.append(-done.fun if done.status == 0 else 0.0)
    return max(found)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("n_pairs", [1, 2, 7, 25])
@pytest.mark.parametrize("n_sources", [2, 10, 30, 101])
def test_the_bound_on_false_selections_is_the_largest_probability(n_pairs, n_sources):
    """Sources are counted in a half with probability q / p, so that both halves of a pair count them in its square."""
    for max_false in (0.05, 1.0, 3.0):
        number, bound = permitted(n_sources, n_pairs, max_false)
        needed = np.ceil(1.8 * n_pairs - 1e-9)
        each = largest_tail(n_pairs, n_pairs * max(number, 1) ** 2 / n_sources**2, needed - n_pairs)
        if number == 0:
            assert np.isnan(bound)
            assert n_sources * each > max_false
            continue
        assert bound == pytest.approx(n_sources * each, rel=1e-9)
        assert bound <= max_false * (1 + 1e-9)
        # one more would be too many, or too many for the theorem
        more = bound * (number + 1) ** 2 / number**2
        assert more > max_false or 3 * (number + 1) ** 2 > n_sources**2
    # as Meinshausen and Buehlmann's q^2 / ((2 threshold - 1) p) has it, which is larger
    assert number == 0 or bound <= number**2 / (2 * needed / (2 * n_pairs) - 1) / n_sources + 1e-12


def linear_model(X, y, **options):
    return kw.MKLRegressor(kw.banks.linear_features(X.shape[1]), "rls2", **options).fit(X, y)


@pytest.mark.full
def test_few_sources_of_noise_are_selected_and_all_that_predict():
    """In 12 tables of noise none was seen; all 10 columns have a weight in 80 % of the halves of every table."""
    rng, false = np.random.default_rng(0), []
    for _ in range(12):
        X = rng.normal(size=(80, 10))
        y = rng.normal(size=80)
        found = inspection.weight_stability(linear_model(X, y, alpha=0.3), X, y)
        assert found.largest == 4
        false.append(len(found.selected))
    assert np.mean(false) <= found.bound == pytest.approx(0.74, abs=0.005)
    X = rng.normal(size=(80, 30))
    y = X[:, :3].sum(axis=1) + rng.normal(size=80)
    model = linear_model(X, y, alpha=0.3)
    found = inspection.weight_stability(model, X, y)
    assert set(found.selected) == {"x0", "x1", "x2"}
    # q of each half at most, and with fewer false ones fewer of them
    assert found.view_frequency.sum() <= found.largest == 8
    assert inspection.weight_stability(model, X, y, max_false=0.1).largest == 2
    strict = inspection.weight_stability(model, X, y, max_false=0.01)
    assert (strict.largest, strict.selected, np.isnan(strict.bound)) == (0, (), True)


def test_what_is_said_of_a_selection_has_three_outcomes():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 10))
    y, noise = X[:, 0] + X[:, 1] + rng.normal(size=80), rng.normal(size=80)

    def said(model, y, **more):
        basis = Basis(model=model, training=Rows(X, y), **more)
        return " ".join(one.text for one in compute("stability", basis).sentences if one.topic == "sure")

    planted = said(linear_model(X, y, alpha=0.3), y)
    assert planted.startswith(
        "2 sources are selected, among the 4 largest sources in at least 90 % of 50 random halves of the rows: x"
    )
    assert "at most 0.74 sources that predict nothing are selected" in planted
    assert said(linear_model(X, noise, alpha=0.3), noise).startswith("No source is selected")
    half = said(linear_model(X, y, alpha=0.3), y, report=lambda text: True)
    assert "cannot be told" in half
    assert "false selections by 0.01." in said(linear_model(X, y, alpha=0.3), y, max_false=0.01)
    # weights that are never zero: nothing about how often
    lp = kw.MKLRegressor(kw.banks.linear_features(10), "lp", C=1.0).fit(X, y)
    assert said(lp, y, count=2).startswith(
        "This learner gives every kernel that it uses a weight. It does not select sources"
    )
    found = inspection.weight_stability(lp, X, y, n_samples=2)
    assert found.samples.min() > 0
    assert (found.largest, found.selected, bool(np.isnan(found.view_frequency).any())) == (0, (), True)
    # the weights of lp have no sum of one, what is shown of them has
    basis = Basis(model=lp, training=Rows(X, y), count=4)
    shown = {name: share for name, share, *_ in compute("stability", basis).tables[1].rows}
    own = {name: one.value for name, one in collect(basis)["kernels"].values.items()}
    assert lp.weights_.sum() > 1.01
    assert shown == pytest.approx(own, abs=1e-8)


def test_of_equal_weights_all_or_none_are_counted():
    from kernelweave.inspection.stability import _largest

    weights = np.array([[0.4, 0.4, 0.2], [0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(_largest(weights, 1), [[0, 0, 0], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(_largest(weights, 2), [[1, 1, 0], [1, 1, 0], [1, 0, 0]])


def test_what_is_done_is_kept(patients):
    """A report that says stop, and Ctrl-C; without anything done the interrupt comes through."""
    X, y = patients
    model = kw.MKLClassifier(kw.banks.linear_features(4), kw.learners.RLS2(alpha=0.1), standardize=True).fit(
        X, y
    )
    said = []

    def stop(text):
        said.append(text)
        return len(said) == 3

    found = inspection.weight_stability(model, X, y, n_samples=9, report=stop)
    assert (len(found.samples), found.interrupted) == (3, True)
    assert said == [f"sample {k} of 9" for k in (1, 2, 3)]

    def press(text):
        if text.startswith("permutation 2"):
            os.kill(os.getpid(), signal.SIGINT)
        return False

    test = inspection.permutation_test(Ridge(), X, (y == "ill") * 1.0, n_permutations=50, cv=2, report=press)
    assert test.interrupted
    assert 2 <= len(test.permuted) <= 3
    curve = inspection.learning_curve(
        Ridge(), X, (y == "ill") * 1.0, cv=2, report=lambda text: "3 of" in text
    )
    assert curve.interrupted
    assert len(curve.sizes) == 1

    def at_once(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inspection.permutation_test(Ridge(), X, (y == "ill") * 1.0, scoring=at_once)


# ---- findings --------------------------------------------------------------------------------------


def test_findings_have_the_numbers_of_their_functions(patients, rng):
    """Of a model of the rows, and of one of permuted targets; every count, p-value and answer by hand."""
    X, y = patients
    train, test = np.arange(80), np.arange(80, 120)
    for target in (y, rng.permutation(y)):
        bank = [kw.kernels.Linear().on([k]) for k in range(4)]
        model = kw.MKLClassifier(bank, "simple", C=1.0, standardize=True).fit(X[:80], target[:80])
        every, seed = Rows(X, target), {"random_state": 3}
        basis = Basis(
            model=model, estimator=clone(model), training=Rows(X[:80], target[:80]), rows=every, refit=False,
            held=HeldOut.of(model, X[80:], target[80:]), held_rows=Rows(X[80:], target[80:]),
            folds=lambda: [(train, test)], **seed,
        )  # fmt: skip

        made = compute("permutation", replace(basis, count=19))
        own = inspection.permutation_test(
            clone(model), X, target, n_permutations=19, cv=[(train, test)], refit=False, **seed
        )
        larger = int((own.permuted >= own.score).sum())
        assert own.p_value == pytest.approx((larger + 1) / 20)
        assert (made.values["score"].value, made.values["p"].value) == (own.score, own.p_value)
        assert (made.n, made.details["as large"]) == (19, larger)
        assert made.verdicts[0].answer == ("yes" if own.p_value < 0.05 else "inconclusive")
        assert len(made.sentences) == 1 + (own.p_value >= 0.05)

        made = compute("stability", replace(basis, count=6))
        own = inspection.weight_stability(model, X[:80], target[:80], n_samples=6, **seed)
        for k, name in enumerate(own.views):
            one = made.values[str(name)]
            assert (one.value, one.low, one.high) == (own.view_weights[k], own.view_low[k], own.view_high[k])
            assert made.details["sources"][str(name)] == own.view_frequency[k]
        assert (made.n, made.details["selected"], made.details["bound"]) == (6, len(own.selected), own.bound)
        of_kernels = next(table for table in made.tables if table.name == "stability").rows
        weights = own.weights[:, 0]
        order = [k for k in np.argsort(-weights, kind="stable") if weights[k] > 0 or own.samples[:, k].any()]
        assert [row[0] for row in of_kernels] == [str(own.names[k]) for k in order]
        np.testing.assert_allclose([row[1] for row in of_kernels], weights[order], atol=1e-8)

        made = compute("sources", replace(basis, count=19))
        own = inspection.source_test(model, X[80:], target[80:], n_permutations=19, **seed)
        for k, name in enumerate(own.names):
            assert made.values[str(name)].value == own.loss[k]
            assert made.details["adjusted"][str(name)] == own.adjusted[k]
        assert (made.details["sources"], made.details["reach"]) == (len(own.names), own.reach)

        made = compute("omission", replace(basis, count=3))
        used = [name for name, share in inspection.view_weights(model).items() if share > 0]
        parts = model_selection.ShuffleSplit(3, test_size=0.2, random_state=3)
        own = inspection.source_refit_test(model, X, target, sources=used, cv=parts)
        for k, name in enumerate(own.names):
            one = made.values[str(name)]
            np.testing.assert_array_equal(
                [one.value, one.low, one.high], [own.loss[k], own.low[k], own.high[k]]
            )
            assert (
                made.details["without"][str(name)] == own.without[k] == pytest.approx(own.score - own.loss[k])
            )
        assert (made.n, made.details["tested"], made.details["score"]) == (3, len(used), own.score)


def test_answers_say_what_the_rows_can_tell(rng, monkeypatch):
    """That a gain in the score of the kind of target is unlikely, or that so many rows cannot tell."""
    monkeypatch.setattr(paired, "N_SIGNS", 499)

    def said(truth, guess, other, classes=None):
        made = paired._against(HeldOut(truth, guess, classes), {"another": other}, "name", "title")
        [answer] = made.verdicts
        return answer.answer, made.sentences[0].text.partition("; ")[2]

    y, noise = rng.normal(size=2000), rng.normal(size=(2, 2000))
    near = y + 0.5 * noise[0]
    assert said(y, near, near + 0.001 * noise[1]) == ("no", "a gain of 0.02 of R^2 is unlikely.")
    assert said(y, near, y + noise[1]) == ("yes", "")
    names = np.array(["a", "b"])
    truth = names[rng.integers(2, size=4000)]
    guess = np.where(rng.random(4000) < 0.8, truth, "a")
    other = guess.copy()
    other[:4] = np.where(other[:4] == "a", "b", "a")
    assert said(truth, guess, other, ["a", "b"]) == ("no", "a gain of 0.02 of accuracy is unlikely.")
    assert said(truth[:20], guess[:20], other[:20], ["a", "b"]) == ("inconclusive", "20 rows cannot tell.")


@pytest.mark.parametrize("ends", [(-0.05, 0.001), (-0.001, 0.05)])
@pytest.mark.parametrize("unit", [None, 1e-3, 1.0, 1e3])
def test_a_gain_is_unlikely_by_its_own_end_of_the_interval(ends, unit, monkeypatch):
    """A smaller error is a gain, in units of the variance of the targets; a larger accuracy is one, too."""
    low, high = np.array(ends) * (unit or 1.0) ** 2
    found = paired.PairedTest("a test", "why", (low + high) / 2, low, high, 0.2, 40, {})
    for name in ("compare_numbers", "compare_classes"):
        monkeypatch.setattr(paired, name, lambda *given, **more: found)
    y = np.tile([-1.0, 1.0], 20) * (unit or 1.0)
    names = np.where(y > 0, "b", "a")
    held = HeldOut(y, 0.9 * y) if unit else HeldOut(names, names, ["a", "b"])
    made = paired._against(held, {"other": held.prediction}, "name", "title")
    gain = -ends[0] if unit else ends[1]
    assert made.verdicts[0].answer == ("no" if gain < 0.02 else "inconclusive")


def test_scores_with_all_sources_are_those_of_predictions(rng):
    """Of counts, whose predictions are no decision values, and of classes that are decided for another score."""
    X = rng.normal(size=(80, 2))
    counts = rng.poisson(np.exp(1.0 + X[:, 0]))
    model = kw.MKLRegressor(kw.banks.linear_features(2), kw.learners.SimpleMKL(loss="poisson", C=1.0))
    found = inspection.source_test(model.fit(X, counts), X, counts, n_permutations=3)
    assert found.score == pytest.approx(r2_score(counts, model.predict(X)), rel=1e-9)
    # a corrected p-value is at most 1
    assert found.reach == len(found.names) / 4
    assert replace(found, names=tuple("abcde")).reach == 1.0
    rare = X[:, 0] + X[:, 1] + rng.normal(size=80) > 1.0
    chosen = kw.MKLClassifier(kw.banks.linear_features(2), "simple", C=1.0).fit(X, rare)
    # what the intercept holds for a decision stays in it
    chosen.model_ = replace(chosen.model_, shift=np.array([0.7]))
    found = inspection.source_test(chosen, X, rare, n_permutations=3, scoring="balanced_accuracy")
    assert found.score == pytest.approx(balanced_accuracy_score(rare, chosen.predict(X)), rel=1e-12)


@pytest.mark.parametrize(("hits", "exchanges"), [(19, 60), (20, 30)])
def test_a_source_ends_after_twenty_exchanges_that_score_as_well(hits, exchanges, monkeypatch, rng):
    X = rng.normal(size=(20, 1))
    model = kw.MKLRegressor(kw.banks.linear_features(1), alpha=1.0).fit(X, X[:, 0])
    scores = iter([1.0] * (1 + hits) + [0.5] * 60)
    monkeypatch.setattr(sources, "_stages", lambda n_sources: [30, 60])
    monkeypatch.setattr(sources, "_score_of", lambda *given: lambda values: next(scores))
    found = inspection.source_test(model, X, X[:, 0])
    assert found.p_values.tolist() == [(hits + 1) / (exchanges + 1)]
    assert found.loss.tolist() == pytest.approx([0.5 * (1 - hits / exchanges)])
    assert (found.n_permutations, len(list(scores))) == (60, 60 + hits - exchanges)


def test_what_happens_in_none_of_few_groups_may_happen_in_others(monkeypatch, rng):
    """A loss in none of n rows, or groups, may come in 3 / n of all: it is unlikely only if that is little."""
    X = rng.normal(size=(1000, 2))
    model = kw.MKLRegressor(kw.banks.linear_features(2), alpha=1.0).fit(X[:20], X[:20, 0])
    zero, p = np.zeros(2), np.ones(2)
    found = sources.SourceTest(("x0", "x1"), 0.9, zero, zero, zero + 0.01, p, p, False, 999)
    monkeypatch.setattr(sources, "source_test", lambda *given, **more: found)
    for groups, answer in (
        (None, "no"),
        (np.arange(1000) // 20, "inconclusive"),
        (np.arange(1000) // 2, "no"),
    ):
        made = compute("sources", Basis(model=model, held_rows=Rows(X, X[:, 0], {}, groups)))
        assert [one.answer for one in made.verdicts] == [answer] * 2


def test_one_answer_names_three_sources_and_the_p_value_of_one():
    def said(weights, **tested):
        values = {name: Interval(weight) for name, weight in weights.items()}
        given = {name: dict(zip(("needed", "p"), own, strict=True)) for name, own in tested.items()}
        return sources._sentence(values, given)

    a, b = "a matters: a model without it predicts worse (p = 0.003).", "b can be left out."
    assert said({"a": 1.0, "b": 0.0}) == "The only source with a weight is a."
    assert said({"a": 1.0, "b": 0.0}, a=("yes", 0.003)) == f"The only source with a weight is a. {a}"
    assert said({"all": 0.6, "b": 0.4}) == (
        "the whole table has the largest weight, 60.0 %. Whether a model needs it was not tested."
    )
    assert said({"a": 0.6, "b": 0.4}, a=("yes", 0.003), b=("no", 0.5)) == f"{a} {b}"
    # of a source without a weight nothing is said
    assert said({"a": 0.6, "b": 0.4, "c": 0.0}, b=("no", 0.5), c=("yes", 0.1)) == b
    both = said({"a": 0.6, "b": 0.4}, a=("yes", 0.003), b=("yes", 0.001))
    assert both == "a and b matter: a model without one of them predicts worse."
    many = said(dict.fromkeys("abcde", 0.2), **dict.fromkeys("abcde", ("inconclusive", 0.4)))
    assert many == "a, b, c and 2 more may matter or not: these rows cannot tell."


@pytest.mark.parametrize("kind", ["class", "label", "target"])
def test_kernel_weights_are_told_by_class_label_or_target(kind, rng):
    X = rng.normal(size=(40, 3))
    y = {"class": np.argmax(X, axis=1), "label": (X > 0).astype(int), "target": X}[kind]
    cls, learner = (kw.MKLRegressor, "rls2") if kind == "target" else (kw.MKLClassifier, "simple")
    model = cls(
        kw.banks.linear_features(3), learner, **({"targets": "own"} if kind == "target" else {"C": 1.0})
    )
    found = compute("stability", Basis(model=model.fit(X, y), training=Rows(X, y), count=2))
    assert found.tables[1].heads[:2] == ["kernel", kind]


@pytest.mark.parametrize("name", ["g{1}", "g{x:d}", "{interval:score}"])
def test_an_answer_about_sources_with_braces_in_their_names(name, rng):
    """The first two ended in an error, and the last one was left out of the sentence."""
    X = rng.normal(size=(40, 4))
    y = X[:, 0] + 0.2 * rng.normal(size=40)
    model = kw.MKLRegressor(views={name: [0, 1], "other": [2, 3]}).fit(X, y)
    found = kw.inspection.findings(model, training=(X, y), names=["omission"])
    assert f"{name} matters: a model without it" in kw.inspection.source_answer(found).sentence


def test_sources_of_rows_with_one_target_have_no_test(rng):
    X = rng.normal(size=(40, 2))
    model = kw.MKLRegressor(kw.banks.linear_features(2), alpha=0.1).fit(X, X[:, 0])
    with pytest.raises(InputError, match="all targets are equal"):
        kw.inspection.source_test(model, X, np.full(40, 2.0))
    found = kw.inspection.source_test(
        model, X, np.full(40, 2.0), scoring="neg_mean_squared_error", n_permutations=9
    )
    assert np.isfinite(found.loss).all()


def test_parts_of_rows_are_fitted_with_what_belongs_to_them(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    weight, groups, places = rng.uniform(0.2, 2.0, 20), np.arange(20) // 2, np.array([3, 9, 1, 12, 18, 5, 7])
    rest = np.setdiff1d(np.arange(20), places)
    model = kw.MKLRegressor(kw.banks.linear_features(2), kw.learners.RLS2(alpha=0.5))
    rows = Rows.read(model, X, y, {"sample_weight": weight, "absent": None}, groups)
    fitted = rows.fit(model, places)
    wanted = clone(model).fit(X[places], y[places], sample_weight=weight[places])
    np.testing.assert_allclose(fitted.predict(X), wanted.predict(X), rtol=1e-10)
    assert not hasattr(model, "model_")
    held = rows.held(fitted, (places, rest))
    assert (held.truth.tolist(), held.groups.tolist()) == (y[rest].tolist(), groups[rest].tolist())
    np.testing.assert_allclose(held.prediction, wanted.predict(X[rest]), rtol=1e-10)
    assert rows.score(fitted, (places, rest), None) == pytest.approx(wanted.score(X[rest], y[rest]))
    error = -np.square(wanted.predict(X[rest]) - y[rest]).mean()
    for found in (
        rows.score(fitted, (places, rest), "neg_mean_squared_error"),
        rows.fit_and_score(model, (places, rest), "neg_mean_squared_error"),
    ):
        assert found == pytest.approx(error)
    # folds of a choice inside keep groups together, and those of rows do
    chosen = rows.fit(kw.MKLRegressorCV(kw.banks.linear_features(2), alphas=[1.0, 0.1], cv=3), np.arange(20))
    by_hand = kw.MKLRegressorCV(kw.banks.linear_features(2), alphas=[1.0, 0.1], cv=3)
    by_hand.fit(X, y, groups=groups, sample_weight=weight)
    np.testing.assert_allclose(chosen.predict(X), by_hand.predict(X), rtol=1e-10)
    for train, test in rows.folds(splitter_of(model, rows, 4)):
        assert not set(groups[train]) & set(groups[test])
        assert sorted([*train, *test]) == list(range(20))
    K = X @ X.T
    pairs = Rows.read(kw.MKLRegressor("precomputed"), K, y)
    np.testing.assert_array_equal(pairs.take(places), K[np.ix_(places, places)])
    np.testing.assert_array_equal(pairs.take(rest, places), K[np.ix_(rest, places)])


def test_a_plain_estimator_has_what_the_choice_found(rng):
    X = rng.normal(size=(24, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=24)
    bank, learner = kw.banks.linear_features(2), kw.learners.RLS2(relax=0.4)
    chosen = kw.MKLRegressorCV(bank, learner, alphas=[3.0, 0.3], cv=3, normalize="trace").fit(X, y)
    plain = plainly(chosen)
    assert type(plain) is kw.MKLRegressor
    assert plain.normalize == "trace"
    assert (plain.learner.alpha, plain.learner.relax) == (chosen.alpha_, 0.4)
    np.testing.assert_allclose(plain.fit(X, y).predict(X), chosen.predict(X), rtol=1e-6)
    margin = kw.MKLClassifierCV(bank, kw.learners.LpMKL(p=1.5), Cs=[0.5, 4.0], cv=3).fit(X, y > 0)
    assert (plainly(margin).learner.C, plainly(margin).learner.p) == (margin.C_, 1.5)
    relaxed = kw.MKLRegressor(bank, kw.learners.RLS2(relax="auto")).fit(X, y)
    found = plainly(relaxed).learner
    assert (found.alpha, found.relax) == (relaxed.alpha_, relaxed.relax_)


# ---- whole findings --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told():
    """By kind of target: all findings of a model of three sources whose weights are known without a solver."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 5))
    signal = X[:, 0] + 0.6 * X[:, 2] + 0.5 * rng.normal(size=90)
    targets = {
        "numbers": 3.0 + 2.0 * signal,
        "classes": np.where(signal > 0.2, "yes", "no"),
        "three": np.array(["low", "middle", "high"])[np.digitize(signal, [-0.5, 0.7])],
    }
    bank = kw.banks.views({"a{b}": [0, 1], "second": [2, 3], "noise": [4]}, kernels=[kw.kernels.Linear()])
    made = {}
    for kind, y in targets.items():
        cls = kw.MKLRegressor if kind == "numbers" else kw.MKLClassifier
        learner = kw.learners.RLS2(alpha=1.0, tol=1e-10)
        model = cls(bank, learner, standardize=True).fit(X[:60], y[:60])
        groups = np.arange(90) // 3 if kind == "classes" else None
        parts = {
            "training": Rows(X[:60], y[:60], {"sample_weight": 1.0 + (np.arange(60) % 2)}),
            "rows": Rows(X, y, {}, groups),
            "held_rows": Rows(X[60:], y[60:], {}, None if groups is None else groups[60:]),
            "held": HeldOut.of(model, X[60:], y[60:]),
        }
        parts["held"] = replace(parts["held"], groups=parts["held_rows"].groups)
        guesses = {"another": lambda y=y: np.roll(y[60:], 1), "the first": lambda y=y: np.repeat(y[:1], 30)}
        made[kind] = Basis(
            model=model,
            estimator=clone(model),
            others=guesses,
            folds=lambda: 3,
            inner=lambda: 2,
            random_state=1,
            refit=kind == "numbers",
            divisions=lambda count: list(
                model_selection.ShuffleSplit(count, test_size=0.25, random_state=count).split(X)
            ),
            **parts,
        )
    return made


@pytest.mark.parametrize("kind", ["numbers", "classes", "three"])
def test_all_that_findings_of_sources_have(kind, told, recorded):
    basis = told[kind]
    counts = {
        "permutation": 7,
        "sources": 49,
        "omission": 3,
        "stability": 6,
        "learning curve": 3,
        "baselines": 0,
    }
    found = {name: compute(name, replace(basis, count=count)) for name, count in counts.items()}
    found |= {name: REGISTRY[name].compute(basis) for name in ("simplest", "views", "kernels", "rows")}
    answers = {
        "with all": inspection.source_answer(found),
        "without fits": inspection.source_answer({"views": found["views"], "stability": found["stability"]}),
        "weights alone": inspection.source_answer({"views": found["views"]}),
    }
    for name, one in {**found, **answers}.items():
        recorded(name, brief(one.to_json()))


def test_what_is_tested_of_rows_has_all_its_numbers(told, recorded):
    """Each function once with all its arguments but those of parallel fits."""
    for kind in ("numbers", "three"):
        basis = told[kind]
        model, rows = basis.model, basis.rows
        options = {"groups": np.arange(90) // 2, "random_state": 4}
        new = Rows(rows.X[60:], rows.y[60:])
        scoring = "neg_mean_absolute_error" if kind == "numbers" else "balanced_accuracy"
        one = inspection.source_test(
            model, new.X, new.y, n_permutations=30, groups=np.arange(30) // 2, random_state=4
        )
        recorded(f"{kind}, exchanged", {**vars(one), "reach": one.reach})
        one = inspection.source_test(model, new.X, new.y, n_permutations=20, scoring=scoring)
        recorded(f"{kind}, exchanged by another score", vars(one))
        params = {"sample_weight": 1.0 + np.arange(90) % 3}
        more = {"cv": 3, "params": params, "groups": options["groups"]}
        one = inspection.source_refit_test(
            model, rows.X, rows.y, sources=["noise", "second"], scoring=scoring, level=0.8, **more
        )
        recorded(f"{kind}, left out", vars(one))
        found = {
            refit: vars(
                inspection.permutation_test(
                    basis.estimator,
                    rows.X,
                    rows.y,
                    n_permutations=5,
                    refit=refit,
                    scoring=scoring,
                    random_state=4,
                    **more,
                )
            )
            for refit in (True, False)
        }
        recorded(f"{kind}, permuted", found)
        del more["cv"]
        for sampling in ("halves", "bootstrap"):
            one = inspection.weight_stability(
                model, rows.X, rows.y, n_samples=5, sampling=sampling, level=0.6, random_state=4, **more
            )
            recorded(f"{kind}, {sampling}", vars(one))


def test_pairs_of_predictions_are_compared_with_all_numbers(recorded):
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    first, second = y + 0.5 * rng.normal(size=40), y + 0.8 * rng.standard_t(3, size=40)
    groups = np.arange(40) // 3
    recorded("numbers", vars(inspection.compare_numbers(y, first, second, level=0.9, random_state=2)))
    recorded("of groups", vars(inspection.compare_numbers(y, first, second, groups=groups)))
    recorded("few", vars(inspection.compare_numbers(y[:5], first[:5], second[:5])))
    recorded("one", vars(inspection.compare_numbers(y[:1], first[:1], second[:1])))
    recorded("in one group", vars(inspection.compare_numbers(y, first, second, groups=np.zeros(40))))
    classes = [np.where(one > 0, "up", "down") for one in (y, first, second)]
    recorded("classes", vars(inspection.compare_classes(*classes, level=0.9)))
    recorded("classes of groups", vars(inspection.compare_classes(*classes, groups=groups)))
    recorded("equal", vars(inspection.compare_classes(classes[0], classes[1], classes[1])))
    recorded("all", vars(inspection.compare_classes(classes[0], classes[0], np.roll(["x"] * 40, 1))))
    recorded("folds", vars(inspection.compare_folds([0.9, 0.8, 0.7], [0.7, 0.75, 0.6], 0.5, level=0.8)))
    recorded("equal folds", vars(inspection.compare_folds([0.9, 0.8], [0.7, 0.6], 0.5)))
    recorded("Holm", inspection.adjust_p_values([0.2, 0.01, 0.01, 0.9, 0.03]))


def test_losses_of_censored_rows_without_sources(recorded):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.c_[rng.random(60) < 0.8, 0.5 + rng.exponential(np.exp(-X[:, 0])), np.arange(60) % 2].astype(float)
    model = kw.MKLSurvival([kw.kernels.Linear().on([k]) for k in range(3)], "simple", C=1.0).fit(
        X[:40], y[:40]
    )
    found = inspection.source_test(model, X[40:], y[40:], n_permutations=20, random_state=1)
    assert found.score == pytest.approx(model.score(X[40:], y[40:]))
    with pytest.raises(kw.InputError, match="tested by the concordance; leave out `scoring`"):
        inspection.source_test(model, X[40:], y[40:], scoring="r2")
    made = compute("sources", Basis(model=model, held_rows=Rows(X[40:], y[40:]), count=20, random_state=1))
    assert made.details["name of score"] == "concordance"
    assert made.details["score"] == found.score
    assert [one.value for one in made.values.values()] == found.loss.tolist()


def test_defaults_are_those_that_are_documented():
    public = [getattr(kw.inspection, name) for name in kw.inspection.__all__]
    own = [
        f
        for f in public
        if f.__module__.rpartition(".")[2] in ("paired", "permutation", "sources", "stability")
        and inspect.isfunction(f)
    ]
    assert own
    assert not wrong_defaults(own)
