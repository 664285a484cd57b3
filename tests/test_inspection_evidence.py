"""Intervals, paired tests, permutations, stability and curves: against other formulas, and in simulations."""

import inspect
import json
import os
import signal
from functools import cache
from importlib.util import find_spec

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, sparse, stats
from sklearn import metrics, model_selection
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.svm import SVC

import kernelweave as kw
from kernelweave import InputError, inspection
from kernelweave.inspection import paired
from kernelweave.inspection.curves import more_rows
from kernelweave.inspection.held import HeldOut, divisions_of
from kernelweave.inspection.permutation import permutation_p_value
from kernelweave.inspection.registry import Basis, Rows, collect, compute
from kernelweave.inspection.scores import held_gain, held_intervals
from kernelweave.inspection.stability import permitted


@pytest.fixture(scope="module")
def patients():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:120, [0, 1, 10, 20]], np.where(y[:120] == 1, "well", "ill")


# ---- intervals -------------------------------------------------------------------------------------


def test_wilson_interval_solves_its_equation():
    """Its ends are the shares from which the observed one is 1.96 standard errors away."""
    z = stats.norm.ppf(0.975)
    for hits, n in ((3, 10), (0, 7), (20, 20), (450, 500)):
        found = inspection.share_interval(hits, n)
        for end in (found.low, found.high):
            assert (hits / n - end) ** 2 == pytest.approx(z**2 * end * (1 - end) / n, abs=1e-12)
    assert np.isnan(inspection.share_interval(0, 0).low)
    with pytest.raises(InputError, match="at most `n`, 3, got 4"):
        inspection.share_interval(4, 3)


def test_intervals_of_scores_cover_the_truth():
    """Balanced accuracy and recall of a classifier that is right on 90 % of "a" and 60 % of "b", 300 times 60 rows."""
    rng = np.random.default_rng(0)
    covered = {"balanced accuracy": 0, "recall of a": 0}
    for _ in range(300):
        y = np.repeat(["a", "b"], [40, 20])
        right = rng.random(60) < np.where(y == "a", 0.9, 0.6)
        guess = np.where(right, y, np.where(y == "a", "b", "a"))
        found = inspection.score_intervals(y, guess)
        covered["balanced accuracy"] += (
            found["balanced accuracy"].low <= 0.75 <= found["balanced accuracy"].high
        )
        covered["recall of a"] += found["recall of a"].low <= 0.9 <= found["recall of a"].high
    for count in covered.values():
        assert 0.91 <= count / 300 <= 0.985  # 0.95 is said; the standard error of 300 is 0.013


def test_perfect_scores_have_intervals_with_a_width():
    y = np.repeat(["a", "b"], 15)
    found = inspection.score_intervals(y, y, decision=np.repeat([-1.0, 1.0], 15))
    for name in ("accuracy", "balanced accuracy", "recall of a"):
        assert found[name].low < 0.95
        assert found[name].high == 1.0
    # all samples of rows have the same score: nothing is claimed
    assert np.isnan(found["ROC AUC"].low)
    assert np.isnan(found["F1 (macro)"].high)


@pytest.mark.parametrize("n", [30, 300])
@pytest.mark.parametrize(("errors", "variance"), [("normal", 1.0), ("laplace", 2.0)])
def test_intervals_of_errors_cover_the_truth(n, errors, variance):
    """500 samples of errors of two kinds, where half of the variance of the target is explained."""
    rng = np.random.default_rng(0)
    covered = dict.fromkeys(("RMSE", "MAE", "R^2"), 0)
    truth = {"RMSE": np.sqrt(variance), "MAE": np.sqrt(2 / np.pi) if errors == "normal" else 1.0, "R^2": 0.5}
    for _ in range(500):
        guess = np.sqrt(variance) * rng.normal(size=n)
        found = inspection.score_intervals(guess + getattr(rng, errors)(size=n), guess)
        for name, value in truth.items():
            covered[name] += found[name].low <= value <= found[name].high
    for count in covered.values():
        # 0.95 is said, 0.937 to 0.977 are found with many samples; the standard error of 500 is 0.01
        assert 0.91 <= count / 500 <= 0.99


def test_out_of_fold_scores_are_those_of_scikit_learn(patients):
    """Its `cross_val_predict` with a metric; with repeated folds the mean over repetitions."""
    X, y = patients
    once = model_selection.StratifiedKFold(4, shuffle=True, random_state=1)
    model = kw.MKLClassifier([kw.kernels.Linear()], kw.learners.SimpleMKL(C=1.0), standardize=True)
    found = inspection.out_of_fold_scores(model, X, y, cv=once)
    guess = model_selection.cross_val_predict(model, X, y, cv=once)
    assert found["accuracy"].value == pytest.approx(np.mean(guess == y), abs=1e-12)
    assert found["F1 (macro)"].value == pytest.approx(metrics.f1_score(y, guess, average="macro"), abs=1e-12)
    expected = inspection.share_interval(int((guess == y).sum()), len(y))
    # folds are not more alike than rows: the interval is that of rows
    assert (found["accuracy"].low, found["accuracy"].high) == pytest.approx((expected.low, expected.high))
    number = X["mean radius"].to_numpy() + X["mean texture"].to_numpy()
    folds = model_selection.RepeatedKFold(n_splits=5, n_repeats=3, random_state=0)
    parts = list(folds.split(X))
    by_repetition = []
    for k in range(3):
        guess = model_selection.cross_val_predict(
            Ridge(), X[["mean radius"]], number, cv=parts[5 * k : 5 * k + 5]
        )
        by_repetition.append(metrics.r2_score(number, guess))
    one = inspection.out_of_fold_scores(Ridge(), X[["mean radius"]], number, cv=folds)["R^2"]
    assert (one.value, one.n) == (pytest.approx(np.mean(by_repetition), abs=1e-12), len(X))
    # rows are the sample: repetitions make no interval much narrower
    alone = inspection.out_of_fold_scores(Ridge(), X[["mean radius"]], number, cv=parts[:5])["R^2"]
    assert one.high - one.low == pytest.approx(alone.high - alone.low, rel=0.1)


def test_a_perfect_score_out_of_fold_has_an_interval():
    X = np.repeat([[-1.0], [1.0]], 19, axis=0)[:37] + np.linspace(0, 0.1, 37)[:, None]
    y = np.where(X[:, 0] > 0, "b", "a")
    model = kw.MKLClassifier([kw.kernels.Linear()], kw.learners.SimpleMKL(C=1.0))
    found = inspection.out_of_fold_scores(model, X, y)["accuracy"]
    assert (found.value, round(found.low, 3), found.high) == (1.0, 0.906, 1.0)


# ---- paired tests ----------------------------------------------------------------------------------


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
    assert inspection.compare_classes(y, one, one).p_value == 1.0
    # Agresti and Min: half a row more in each of the four cells
    z, centre = stats.norm.ppf(0.975), (b - c) / 62
    half = z * np.sqrt((b + c + 1) / 62 - centre**2) / np.sqrt(62)
    assert (found.low, found.high) == pytest.approx((centre - half, centre + half))
    back = inspection.compare_classes(y, two, one)
    assert (back.difference, back.p_value) == (-found.difference, found.p_value)


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
    with pytest.raises(InputError, match="got 10 and 9"):
        inspection.compare_folds(one, two[:9], 1 / 9)


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


@pytest.mark.parametrize("groups", [None, np.arange(120) % 7])
def test_permutations_are_those_of_scikit_learn(patients, groups):
    X, y = patients
    model = LogisticRegression(C=0.01)
    cv = 3 if groups is None else model_selection.GroupKFold(3)
    found = inspection.permutation_test(model, X, y, n_permutations=12, cv=cv, groups=groups, seed=4)
    score, permuted, p_value = model_selection.permutation_test_score(
        model, X, y, n_permutations=12, cv=cv, groups=groups, random_state=4
    )
    assert found.score == score
    np.testing.assert_array_equal(found.permuted, permuted)
    assert found.p_value == p_value


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
    found = inspection.weight_stability(model, X, y, n_samples=6, seed=3)
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
            model, X, y, n_samples=2, seed=5, params={"sample_weight": weight}
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
    assert said(lp, y, count=2).startswith("This method gives every kernel a weight and selects none")
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


# ---- curves ----------------------------------------------------------------------------------------


def test_learning_curves_are_those_of_scikit_learn(patients):
    X, y = patients
    sizes = [0.3, 0.6, 1.0]
    found = inspection.learning_curve(Ridge(), X, (y == "ill") * 1.0, sizes=sizes, cv=4, seed=2)
    at, _, scores = model_selection.learning_curve(
        Ridge(), X, (y == "ill") * 1.0, train_sizes=sizes, cv=4, shuffle=True, random_state=2
    )
    np.testing.assert_array_equal(found.sizes, at)
    np.testing.assert_allclose(found.scores, scores, atol=1e-12)
    out = inspection.out_of_fold_scores(Ridge(), X, (y == "ill") * 1.0, cv=4)["R^2"]
    assert (found.score[-1], found.low[-1], found.high[-1]) == pytest.approx((out.value, out.low, out.high))
    assert found.gain.value == pytest.approx(found.score[-1] - found.score[-2])
    assert found.gain.low < found.gain.value < found.gain.high
    other = inspection.learning_curve(Ridge(), X, (y == "ill") * 1.0, sizes=sizes, cv=4, scoring="r2")
    assert other.gain.value == pytest.approx(other.score[-1] - other.score[-2])
    assert np.isnan(other.gain.low)
    with joblib.parallel_config(backend="threading"):
        beside = inspection.learning_curve(
            Ridge(), X, (y == "ill") * 1.0, sizes=sizes, cv=4, seed=2, n_jobs=2
        )
    np.testing.assert_array_equal(found.scores, beside.scores)
    with pytest.raises(InputError, match="at most the training rows of a fold, 90, got 91"):
        inspection.learning_curve(Ridge(), X, (y == "ill") * 1.0, sizes=[91], cv=4)


def test_sizes_that_cannot_be_fitted_are_nan_and_settings_that_cannot_are_an_error(patients):
    X, y = patients
    model = kw.MKLClassifierCV([kw.kernels.Linear()], "simple", Cs=[1.0], cv=3, standardize=True)
    found = inspection.learning_curve(model, X, y, sizes=[3, 60], cv=2)
    assert np.isnan(found.scores[0]).all()
    assert np.isfinite(found.scores[1]).all()
    assert np.isnan([found.low[0], found.gain.value, found.gain.low]).all()
    with pytest.raises(InputError, match="simpel"):
        inspection.learning_curve(kw.MKLClassifier(learner="simpel"), X, y, cv=2)


@pytest.mark.parametrize("classes", [False, True])
def test_intervals_of_gains_hold_them_as_often_as_they_say(classes):
    """Predictions of known errors for 100 rows: R^2 rises from 0.5 to 0.6, or accuracy from 0.8 to 0.9."""
    rng, n, held, widths = np.random.default_rng(0), 100, [], []
    for k in range(1000):
        if classes:
            truth, place = np.repeat("a", n), rng.random(n)
            # right before and after; of the others a part gets right, and a part wrong
            parts = [np.where(right, "a", "b") for right in (place < 0.8, (place > 0.05) & (place < 0.95))]
        else:
            truth, error = rng.normal(size=n), rng.normal(size=(2, n))
            parts = [
                truth + np.sqrt(0.5) * error[0],
                truth + np.sqrt(0.4) * (0.8 * error[0] + 0.6 * error[1]),
            ]
        before, after = ([HeldOut(truth, part, ["a", "b"] if classes else None)] for part in parts)
        found = held_gain(before, after, 0.95)
        held.append(found.low <= 0.1 <= found.high)
        if k < 50:
            ends = [held_intervals(*one)["accuracy" if classes else "R^2"] for one in (before, after)]
            widths.append((found.high - found.low) / np.hypot(*[one.high - one.low for one in ends]))
    assert 0.93 <= np.mean(held) <= 0.97  # three standard errors
    # the same rows: narrower than that of two samples
    assert np.mean(widths) < 0.95


def test_a_gain_of_no_row_is_none_only_if_there_are_many():
    """Classes that are all predicted right, before and after."""

    def gain(n):
        held = [HeldOut(np.repeat(["a", "b"], n // 2), np.repeat(["a", "b"], n // 2), ["a", "b"])]
        return held_gain(held, held, 0.95)

    assert more_rows(gain(40)) == "inconclusive"
    assert more_rows(gain(400)) == "no"
    assert (gain(400).value, gain(400).n) == (0.0, 400)


@pytest.mark.parametrize("bins", ["quantile", "uniform"])
def test_calibration_is_that_of_scikit_learn(rng, bins):
    share = rng.random(200)
    truth = rng.random(200) < share**2
    found = inspection.calibration(truth, share, n_bins=5, bins=bins)
    observed, predicted = calibration_curve(truth, share, n_bins=5, strategy=bins)
    np.testing.assert_allclose(found.observed, observed)
    np.testing.assert_allclose(found.predicted, predicted)
    assert found.counts.sum() == 200
    assert found.brier == pytest.approx(brier_score_loss(truth, share))
    assert ((found.low <= observed) & (observed <= found.high)).all()


@pytest.mark.parametrize(
    ("is_class", "probability", "said"),
    [
        (["ill", "well"], [0.2, 0.7], "True or False for every row, got 'ill', 'well'"),
        ([1, 2], [0.2, 0.7], "True or False for every row, got 1, 2"),
        ([0.0, np.nan], [0.2, 0.7], "got 0.0, nan"),
        ([0, 1], [0.2, 1.7], "at most 1, got 1.7"),
        ([0, 1, 1], [0.2, 0.7], "same length, got 3 and 2"),
    ],
)
def test_calibration_needs_truth_values_and_probabilities(is_class, probability, said):
    with pytest.raises(InputError, match=said):
        inspection.calibration(is_class, probability)


# ---- sentences -------------------------------------------------------------------------------------


def numbers_in(shown):
    """A number as it is written in a sentence."""
    if " of " in shown:
        hits, n = shown.split(" of ")
        return float(hits) / float(n)
    return float(shown.removesuffix(" %")) / (100 if shown.endswith("%") else 1)


def last_digit(shown):
    """The value of one in the last digit of a number."""
    if " of " in shown:
        return 0.0
    digits, _, exponent = shown.removesuffix(" %").partition("e")
    places = len(digits.partition(".")[2]) + (2 if shown.endswith("%") else 0)
    return 10.0 ** (int(exponent or 0) - places)


@cache
def run_of(kind):
    """A model of a run with all findings that it can have."""
    pytest.importorskip("pydantic")
    pytest.importorskip("jinja2")
    from kernelweave.inspection.registry import compute, possible
    from kernelweave_app.runs.evidence import basis_of, gather
    from kernelweave_app.runs.fitting import fit_model, make_model
    from kernelweave_app.runs.joining import Joined
    from kernelweave_app.runs.preparing import prepare, split
    from kernelweave_app.runs.spec import Spec
    from kernelweave_app.runs.writing import score_held

    frame = load_breast_cancer(as_frame=True).frame.iloc[:140, [0, 1, 10, 20, 30]]
    frame = frame.rename(columns={frame.columns[1]: "odd {name} 50%"})
    if kind == "classes":
        frame["target"] = np.where(frame["target"] == 1, "well", "ill")
        more = {"method": "simple", "Cs": "0.1,1", "probabilities": "platt"}
    elif kind == "three classes":
        # weights of the p-norm do not sum to one, and a class has few rows
        size = np.argsort(np.argsort(frame[frame.columns[0]]))
        frame["target"] = np.where(size < 8, "small", np.where(size < 80, "middle", "large"))
        more = {"method": "lp", "Cs": "0.1,1"}
    elif kind == "targets":
        frame["other"] = frame[frame.columns[2]] + np.cos(np.arange(140))
        more = {"method": "simple", "Cs": "0.1,1", "task": "regression", "target": "target,other"}
    elif kind == "layers":
        frame["target"] = np.where(frame["target"] == 1, "well", "ill")
        more = {"method": "mlmkl", "Cs": "1", "kernels": "linear; rbf(gamma=0.1)", "normalize": "cosine"}
    else:
        frame["target"] = frame[frame.columns[0]] + frame[frame.columns[2]] + np.sin(np.arange(140))
        more = {"method": "rls2", "alphas": "1,0.1", "task": "regression"}
    spec = Spec(**{"target": "target", "kernels": "linear_features", "cv": 2, "test_size": 0.4, **more})
    prepared = prepare(Joined(frame, {}, {}, {}), spec)
    rows = split(prepared, spec)
    model = fit_model(make_model(spec, prepared, rows[1]), prepared, rows[0], None)
    held = score_held(model, prepared, rows[1])
    found = gather(model, spec, prepared, rows, held)
    counts = {"permutation": 3, "sources": 19, "stability": 4, "learning curve": 2}
    for name in possible(found):
        basis = basis_of(model, spec, prepared, rows, held, count=counts.get(name, 0), refit=False)
        found[name] = compute(name, basis)
    return model, held, found


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_every_number_in_a_sentence_is_that_of_the_file(tmp_path, kind):
    _, held, found = run_of(kind)
    from kernelweave.inspection.registry import QUESTIONS, look_up, repeated, sentences_of, tables_of
    from kernelweave_app.runs.evidence import read_evidence, write_evidence

    assert set(repeated()) <= set(found)
    write_evidence(tmp_path, found)
    again = read_evidence(tmp_path)
    kept = {name: one.to_json() for name, one in again.items()}
    assert kept == json.loads(json.dumps({name: one.to_json() for name, one in found.items()}))
    said = sentences_of(again)
    assert {one.topic for _, one in said} == set(QUESTIONS) - {"missing"}
    cited = [number for _, one in said for number in one.numbers]
    assert len(cited) > 25
    for name, one in said:
        assert one.text.endswith(".")
        for number in one.numbers:
            assert look_up(kept[name], number.source) == number.value
            if one.topic != "distrust":
                assert number.shown in one.text
            # half of the last digit, and the rounding of the division
            assert abs(numbers_in(number.shown) - number.value) <= 0.5001 * last_digit(number.shown) + 1e-12
    assert any("odd {name} 50%" in one.text for _, one in said)
    # scores of the file are those of the run, and are in the tables
    for name, value in held.scores.items():
        assert again["held out"].values[name].value == pytest.approx(value, abs=1e-9)
    tables = {table.name: table for table in tables_of(again)}
    assert {"scores", "baselines", "sources", "stability", "stability-sources", "learning-curve"} <= set(
        tables
    )
    main = "accuracy" if kind == "classes" else "R^2"
    (row,) = [row for row in tables["scores"].rows if row[0] == main]
    assert row[1] == again["held out"].values[main].value
    latex = tables["stability"].latex()
    assert r"odd \{name\} 50\%" in latex
    assert latex.count(r"\\") == len(tables["stability"].rows) + 1
    assert tables["stability"].frame().shape == (len(tables["stability"].rows), 4)


KINDS = ["classes", "numbers", "three classes", "targets", "layers"]


@pytest.mark.parametrize("kind", KINDS)
def test_shown_weights_sum_to_one(kind):
    """In the file, in tables and in the results of the studio, of every output and layer."""
    from kernelweave.inspection.registry import tables_of
    from kernelweave_app.studio.results import describe_path, describe_weights

    model, _, found = run_of(kind)
    raw = np.atleast_2d(model.model_.weights).sum(axis=1)
    assert np.all(np.abs(raw - 1) > 0.1) == (kind in ("three classes", "layers"))
    assert sum(one.value for one in found["views"].values.values()) == pytest.approx(1, abs=1e-12)
    shown = [table for table in tables_of(found) if table.title.startswith("Weight by")]
    # of one source there is no table
    assert len(shown) == 2
    for table in shown:
        for k in range(1, len(table.heads)):
            assert sum(row[k] for row in table.rows) == pytest.approx(1, abs=1e-12)
            texts = [numbers_in(row[k]) for row in table.shown()]
            # every text is rounded
            assert sum(texts) == pytest.approx(1, abs=0.0005 * len(texts) + 1e-12)
    studio = describe_weights(model)
    assert sum(studio.views.values()) == pytest.approx(1, abs=1e-12)
    assert len(studio.layers) == (2 if kind == "layers" else 0)
    for part in (studio, *studio.layers):
        np.testing.assert_allclose(np.sum(part.values, axis=0), 1, rtol=1e-12)
        assert len(part.outputs) == {"three classes": 3, "targets": 2}.get(kind, 1)
    for one in () if kind == "layers" else (inspection.regularization_path(model, n_alphas=3),):
        np.testing.assert_allclose(one.fractions.sum(axis=1), 1, rtol=1e-12)
        # of the path eight digits are kept
        np.testing.assert_allclose(np.sum(describe_path(one).weights, axis=1), 1, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_in_a_sentence_is_that_of_the_table_beside_it(kind):
    _, _, found = run_of(kind)
    compared = set()
    for name, one in found.items():
        shown = {}
        for table in one.tables:
            for row, texts in zip(table.rows, table.shown(), strict=True):
                for value, text in zip(row[1:], texts[1:], strict=True):
                    if isinstance(value, float):
                        shown.setdefault((str(row[0]), value), []).append(text)
        for cited in (number for sentence in one.sentences for number in sentence.numbers):
            label = "".join(map(str, cited.source[1:2])).removeprefix("layer 2: ")
            for text in shown.get((label, cited.value), ()):
                half = 0.5001 * max(last_digit(text), last_digit(cited.shown))
                assert abs(numbers_in(text) - numbers_in(cited.shown)) <= half, (name, text, cited)
                compared.add(name)
    known = {"views", "folds", "held out", "simplest", "baselines", "sources", "omission", "layers"}
    lacking = {
        "targets": {"held out", "simplest", "baselines", "sources"},
        "layers": {"views", "sources", "omission"},
    }
    assert compared >= (known - lacking.get(kind, set()) - ({"layers"} if kind != "layers" else set()))


@pytest.mark.parametrize("kind", KINDS)
def test_scores_have_the_digits_of_their_rows(kind):
    _, held, found = run_of(kind)
    n_held, counted = len(held.truth), 0
    for one in found.values():
        rows = max(one.rows, n_held if one.sampled == "held-out rows" else 0)
        if not rows:
            continue
        for number in (number for sentence in one.sentences for number in sentence.numbers):
            if number.shown.isdigit() or "p" in str(number.source[-1]) or "adjusted" in number.source:
                continue
            finest = 10.0 ** -np.ceil(np.log10(rows))
            digits = number.shown.replace(".", "").lstrip("-0").rstrip(" %")
            assert last_digit(number.shown) >= finest or len(digits) <= 2, (one.name, number)
            counted += 1
    assert counted > 5


def test_a_fraction_of_few_rows_is_a_count():
    """One of one, and in tables with the rows that each class has, or is predicted for."""
    from kernelweave.inspection.scores import _classes, _held_scores

    truth = np.array(["a"] * 7 + ["b"])
    held = HeldOut(truth, np.array(["a"] * 6 + ["b"] * 2), ["a", "b"])
    (table,) = _classes(inspection.Basis(held=held)).tables
    of = {row[0]: dict(zip(table.heads, row, strict=True)) for row in table.shown()}
    assert (of["a"]["recall"], of["b"]["recall"]) == ("6 of 7", "1 of 1")
    assert (of["a"]["precision"], of["b"]["precision"]) == ("6 of 6", "1 of 2")
    said = _held_scores(inspection.Basis(held=held)).sentence
    assert said.startswith("Of 8 held-out rows, which the model had not seen, 7 of 8 are predicted correctly")


def test_rows_of_the_fit_are_no_estimate(rng):
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    model = kw.MKLRegressor([kw.kernels.Linear()], "rls2", alpha=0.1).fit(X[:40], y[:40])
    with pytest.raises(
        InputError, match=r"all 40 were\. Scores of rows that were in the fit say how well the model fits"
    ):
        inspection.findings(model, X[:40], y[:40])
    found = inspection.findings(model, X[35:], y[35:])
    assert found["in fit"].sentence.startswith("5 of 25 held-out rows equal training rows in all columns.")
    assert "in fit" not in inspection.findings(model, X[40:], y[40:])


# ---- verdicts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_verdict_is_in_the_file_and_in_its_sentence(kind):
    _, _, found = run_of(kind)
    verdicts = [(one, verdict) for one in found.values() for verdict in one.to_json()["verdicts"]]
    assert {verdict["answer"] for _, verdict in verdicts} <= {"yes", "no", "inconclusive"}
    assert len(verdicts) >= (3 if kind in ("targets", "layers") else 10)
    for one, verdict in verdicts:
        assert f"{verdict['question']} {verdict['answer'].capitalize()}: " in one.sentence


def test_the_simplest_rule_counts_rows_by_their_weights(tmp_path, rng):
    """As if a row were there as often as its weight says, also in a file without rows; not by weights of classes."""
    X, new, kernels = rng.normal(size=(40, 2)), rng.normal(size=(20, 2)), kw.banks.linear_features(2)
    weights = np.where(X[:, 0] > 0.5, 5, 1)

    def rule(model, target):
        """The score of the rule, the second in the table."""
        return [one.value for one in inspection.findings(model, new, target)["simplest"].values.values()][1]

    model = kw.MKLRegressor(kernels, "rls2", alpha=1.0).fit(X, X[:, 0], sample_weight=weights)
    lean = kw.load(kw.save(model, tmp_path / "m.skops"))
    mean = np.repeat(X[:, 0], weights).mean()
    for one in (model, lean):
        assert rule(one, new[:, 0]) == pytest.approx(np.sqrt(np.square(new[:, 0] - mean).mean()), rel=1e-12)
    up = X[:, 0] > 0.5
    assert up.mean() < 0.5 < np.repeat(up, weights).mean()
    for class_weight in (None, "balanced"):
        model = kw.MKLClassifier(kernels, "rls2", alpha=1.0, class_weight=class_weight)
        model.fit(X, up, sample_weight=weights)
        lean = kw.load(kw.save(model, tmp_path / "m.skops"))
        for one in (model, lean):
            assert rule(one, new[:, 0] > 0.5) == (new[:, 0] > 0.5).mean() != 0.5


def test_what_is_not_significant_is_inconclusive_unless_the_interval_is_short(rng):
    """Predictions that are right in 60 % of the rows, against those of a model of the same accuracy, or of another."""
    from kernelweave.inspection.paired import _against

    def answer(n, right, other):
        truth = np.array(["a", "b"])[rng.integers(2, size=n)]
        flipped = np.where(truth == "a", "b", "a")
        held, guess = (np.where(hits, truth, flipped) for hits in (right, other))
        made = _against(HeldOut(truth, held, ["a", "b"]), {"another": guess}, "name", "title")
        return made.verdicts[0].answer

    for n, expected in ((20, "inconclusive"), (20_000, "no")):
        first = np.arange(n) < 0.6 * n
        # as many rows get worse as get better
        k = max(2, n // 200)
        moved = np.isin(np.arange(n), [*range(k), *range(n - k, n)])
        assert answer(n, first, np.where(moved, ~first, first)) == expected
    right = np.arange(60) < 36
    assert answer(60, right, np.arange(60) < 20) == "yes"
    assert answer(60, np.arange(60) < 20, right) == "no"


def test_without_an_interval_no_verdict_on_more_rows(monkeypatch):
    from kernelweave.inspection import curves
    from kernelweave.inspection.registry import Rows, compute

    def said(*gain):
        ends = np.array([0.5, 0.5 + gain[0]])
        parts = (np.array([20, 40]), np.zeros((2, 5)), ends, ends - 0.3, ends + 0.3)
        found = inspection.curves.LearningCurve(*parts, inspection.Interval(*gain), False)
        monkeypatch.setattr(curves, "learning_curve", lambda *a, **k: found)
        basis = inspection.Basis(estimator=kw.MKLRegressor(), training=Rows(None, [0] * 50))
        return [one.text for one in compute("learning curve", basis).sentences]

    text = (
        "with 20 training rows R^2 is 0.50, with 40 it is 0.70, a gain of 0.20 (95 % interval 0.10 to 0.30)."
    )
    assert said(0.2, 0.1, 0.3) == [f"Would more rows help? Yes: {text}"]
    (level,) = said(0.01, -0.1, 0.1)
    assert level.startswith("Would more rows help? Inconclusive: ")
    assert level.endswith("; 50 rows cannot tell.")
    (flat,) = said(0.001, -0.01, 0.015)
    assert flat.startswith("Would more rows help? No: ")
    assert flat.endswith("; a gain of 0.02 is unlikely.")
    assert said(0.2) == []


def test_sentences_without_an_interval_have_no_brackets():
    from kernelweave.inspection.registry import Finding, Interval, ends

    text = ("score", "The mean {name} is {v:.3f}{interval:.2f}.", {"name": "{R}"})
    one = Finding({"a {b}": Interval(0.9, 0.8, 0.95, n=5)}).says(*text, **ends("a {b}"))
    assert one.sentence == "The mean {R} is 0.900 (95 % interval 0.80 to 0.95)."
    folds = Finding({"a": Interval(0.9, 0.8, 0.95, "corrected t", 5)}).says(*text, **ends("a"))
    assert folds.sentence.endswith("(95 % interval 0.80 to 0.95, corrected for rows in common).")
    bare = Finding({"a": Interval(0.9)}).says(*text, **ends("a"))
    assert bare.sentence == "The mean {R} is 0.900."
    assert Finding({"a": Interval(np.nan)}).says(*text, **ends("a")).sentences == ()


def test_the_score_that_chose_is_said_to_be_that(patients):
    """Findings, `explain_defaults` and reports have the words next to the number; nested rows have an interval."""
    from kernelweave_app.reports import make_report

    X, y = patients
    words = "the score that chose C, not an estimate for new rows"
    model = kw.MKLClassifier().fit(X, y)
    assert f"this is {words}." in model.explain_defaults()
    rows = [np.arange(0, 120, 2), np.arange(1, 120, 2)]
    held = [
        HeldOut.of(kw.MKLClassifier().fit(X.iloc[b], y[b]), X.iloc[a], y[a]) for a, b in (rows, rows[::-1])
    ]
    found = collect(inspection.Basis(model=model, nested=divisions_of(rows, held)))
    (said,) = found["folds"].sentences
    assert said.text == f"accuracy over 5 folds of the training rows is {model.best_score_:.3f}: {words}."
    assert np.isnan(found["folds"].values["accuracy"].low)
    right = sum(int((one.truth == one.prediction).sum()) for one in held)
    expected = inspection.share_interval(right, 120)
    one = found["nested"].values["accuracy"]
    # rows of a fold share a model: the interval is at least that of independent rows
    assert one.value == pytest.approx(expected.value, abs=1e-12)
    assert one.low <= expected.low + 1e-12 < expected.high - 1e-12 <= one.high
    assert one.n == 120
    report = make_report(model, title="t", data=[], settings={}, pictures=[], found=found)
    assert f"accuracy, {words}" in report
    assert f"accuracy, nested; 95 % interval {one.low:.3f} to {one.high:.3f}" in report


def test_a_small_score_that_chose_is_not_zero_in_the_sentence(rng):
    X = rng.normal(size=(40, 2))
    model = kw.MKLRegressor().fit(X, 0.01 * X[:, 0] + 0.003 * rng.normal(size=40))
    (said,) = inspection.findings(model)["folds"].sentences
    (shown,) = (one for one in said.numbers if one.value == model.best_score_)
    assert float(shown.shown) == pytest.approx(model.best_score_, rel=0.05)


def test_divisions_without_a_score_are_left_out_of_its_mean(rng):
    """Where models of folds know different classes a division has no area: those of the others keep their rows."""

    def division(rows, known=True):
        truth = np.array(["a", "b"])[rng.permutation(np.arange(len(rows)) % 2)]
        decision = rng.normal(size=len(rows)) if known else None
        return HeldOut(truth, truth, ["a", "b"], decision, rows=rows, folds=np.zeros(len(rows), dtype=int))

    one, other = division(np.arange(30)), division(np.arange(5, 40))
    found = held_intervals(one, division(np.arange(20), known=False), other)
    assert found["ROC AUC"] == held_intervals(one, other)["ROC AUC"]


N = 48
COLUMNS = [kw.kernels.Linear().on([j]) for j in range(5)]


def _inputs():
    """By group: all that `fit` takes for the same rows and kernels, as (kernels, X), and targets."""
    rng = np.random.default_rng(3)
    A, B = rng.normal(size=(N, 3)), rng.normal(size=(N, 2)) * (rng.random((N, 2)) < 0.6)
    y = A[:, 0] + B[:, 0] + 0.3 * rng.normal(size=N)
    both, names = np.c_[A, B], [f"row {i}" for i in range(N)]
    frame = pd.DataFrame(both, columns=list("abcde"), index=names)
    a, b = frame[list("abc")], frame[list("de")]
    stack = both[:, None, :] * both[None, :, :]
    kernels = {"A": kw.precomputed(A @ A.T), "B": kw.precomputed(B @ B.T)}
    lacking = {"A": a, "B": b.iloc[: N - 8]}
    tables = {
        "array": both,
        "list of rows": both.tolist(),
        "tuple of rows": tuple(map(tuple, both.tolist())),
        "frame": frame,
        "sparse": sparse.csr_array(both),
        "sparse by coordinates": sparse.coo_array(both),
    }
    if find_spec("pyarrow"):
        tables["table of Arrow"] = pytest.importorskip("pyarrow").table(dict(frame))
    if find_spec("polars"):
        tables["frame of polars"] = pytest.importorskip("polars").DataFrame(dict(frame))
    views = {
        "Views": kw.Views({"A": A, "B": B}),
        "dict": {"A": A, "B": B},
        "dict of frames": {"A": a, "B": b},
        "dict of frames, joined by index": {"A": a, "B": b.iloc[rng.permutation(N)]},
        "dict with sparse": {"A": A, "B": sparse.coo_array(B)},
        "list of tables": [A, B],
    }
    banks = {
        "indices of a bank": (kw.KernelBank(stack), np.arange(N)[:, None]),
        "list of indices": (kw.KernelBank(stack), list(range(N))),
        "precomputed": ("precomputed", stack),
        "precomputed, nested lists": ("precomputed", stack.tolist()),
    }
    return {
        "tables": ({name: (COLUMNS, X) for name, X in tables.items()}, y),
        "views": ({name: ([kw.kernels.Linear()], X) for name, X in views.items()}, y),
        "kernels": (banks, y),
        "views of kernels": (
            {
                "Views": (None, kw.Views(kernels)),
                "dict": (None, kernels),
                "list": (None, [*kernels.values()]),
            },
            y,
        ),
        "rows without a view": (
            {
                "Views": ([kw.kernels.Linear()], kw.Views(lacking, rows="all")),
                "dict of frames": ([kw.kernels.Linear()], lacking),
            },
            y,
        ),
    }


def _all_numbers(found):
    """The numbers of all findings; memory and names differ between kinds of rows."""
    return [one.value for each in found.values() for one in each.values.values()]


FUNCTIONS = {
    "out_of_fold_scores": lambda m, X, y: np.array(
        [one.value for one in inspection.out_of_fold_scores(m, X, y, cv=2).values()]
    ),
    "learning_curve": lambda m, X, y: inspection.learning_curve(m, X, y, cv=2, sizes=[10, 24]).scores,
    "permutation_test": lambda m, X, y: inspection.permutation_test(m, X, y, n_permutations=2, cv=2).permuted,
    "permutation_test, one fit": lambda m, X, y: (
        inspection.permutation_test(m, X, y, n_permutations=2, cv=2, refit=False).permuted
    ),
    "source_test": lambda m, X, y: inspection.source_test(m, X, y, n_permutations=2).loss,
    "source_refit_test": lambda m, X, y: inspection.source_refit_test(m, X, y, cv=2).loss,
    "weight_stability": lambda m, X, y: inspection.weight_stability(m, X, y, n_samples=4).samples,
    "weight_stability, bootstrap": lambda m, X, y: (
        inspection.weight_stability(m, X, y, n_samples=4, sampling="bootstrap").samples
    ),
    "contribution_sizes": lambda m, X, y: inspection.contribution_sizes(m, X).weights,
    "two_layers": lambda m, X, y: inspection.two_layers(m, X).first,
    "findings": lambda m, X, y: _all_numbers(inspection.findings(m, training=(X, y), names=["stability"])),
}
#: What cannot be done, and what is said.
REFUSED = {
    ("source_refit_test", "precomputed"): "no kernel of it can be left out",
    ("source_refit_test", "precomputed, nested lists"): "no kernel of it can be left out",
}


def test_all_functions_of_rows_are_among_those():
    public = {name: getattr(inspection, name) for name in inspection.__all__}
    taking = {
        name
        for name, one in public.items()
        if inspect.isfunction(one) and "X" in inspect.signature(one).parameters
    }
    assert taking == {name.partition(",")[0] for name in FUNCTIONS}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("group", ["tables", "views", "kernels", "views of kernels", "rows without a view"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_inspection_takes_what_fit_took(group, name):
    """A dict of views was refused: `X` and `y` had as many rows as views, and as rows."""
    inputs, y = _inputs()[group]
    expected = None
    for which, (kernels, X) in inputs.items():
        model = kw.MKLRegressor(kernels, "rls2", alpha=1.0, standardize=False).fit(X, y)
        if words := REFUSED.get((name, which)):
            with pytest.raises(InputError, match=words):
                FUNCTIONS[name](model, X, y)
            continue
        found = np.asarray(FUNCTIONS[name](model, X, y), dtype=float)
        assert found.size
        assert np.isfinite(found).all()
        expected = found if expected is None else expected
        # they differ by 1.8e-15 at most, kernel values of a bank from the same as X
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12, err_msg=which)


def test_targets_of_joined_rows_are_found_by_their_index():
    """The first view lacks rows that another one has, so that rows get the order of the second."""
    rng = np.random.default_rng(0)
    names = pd.Index([f"row {i}" for i in range(N)])
    A = pd.DataFrame(rng.normal(size=(N, 2)), columns=list("ab"), index=names)
    B = pd.DataFrame(rng.normal(size=(N, 2)), columns=list("cd"), index=names)
    y = A["a"] + 0.1 * B["c"]
    last = {"A": A.iloc[10:], "B": B}
    joined = kw.Views(last, rows="all")
    in_order = y.loc[[*names[10:], *names[:10]]].to_numpy()
    model = kw.MKLRegressor([kw.kernels.Linear()], "rls2", alpha=0.1).fit(last, y)
    for function in (FUNCTIONS["learning_curve"], FUNCTIONS["weight_stability"], FUNCTIONS["source_test"]):
        np.testing.assert_allclose(function(model, last, y), function(model, joined, in_order), rtol=1e-12)
    with pytest.raises(InputError, match="Pass `y` as a pandas series with the index of all rows"):
        inspection.learning_curve(model, last, y.to_numpy())


def test_kernel_values_of_scikit_learn_are_taken_apart_in_both_directions(rng):
    X = rng.normal(size=(40, 3))
    y = X[:, 0] > 0
    found = inspection.learning_curve(SVC(kernel="precomputed"), X @ X.T, y, sizes=[1.0], cv=4)
    by_hand = model_selection.cross_val_score(SVC(kernel="linear"), X, y, cv=4)
    np.testing.assert_array_equal(found.scores[0], by_hand)


def test_brier_score_of_two_classes_is_that_of_scikit_learn(rng):
    """Of one probability, and of several classes the sum over them."""
    truth, share = rng.random(60) < 0.4, rng.uniform(size=60)
    both = np.c_[1.0 - share, share]
    found = inspection.score_intervals(
        truth.astype(int), (share > 0.5).astype(int), probability=both, classes=[0, 1]
    )
    assert found["Brier score"].value == pytest.approx(brier_score_loss(truth, share), rel=1e-12)
    three, each = rng.integers(0, 3, 60), rng.dirichlet(np.ones(3), 60)
    found = inspection.score_intervals(three, each.argmax(axis=1), probability=each, classes=[0, 1, 2])
    expected = np.square(each - np.eye(3)[three]).sum(axis=1).mean()
    assert found["Brier score"].value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("choose_again", [False, True])
def test_weight_stability_leaves_rows_of_weight_zero_out(choose_again, rng):
    """Rows of weight zero have wild targets: with their weights dropped, the weights of kernels would be others."""
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=80)
    w = np.ones(80)
    w[::2] = 0.0
    wild = np.where(w > 0, y, 50.0 * X[:, 2])
    bank = [kw.kernels.Linear().on([j]) for j in range(3)]
    model = kw.MKLRegressor(bank, "rls2", alpha=1.0).fit(X, wild, sample_weight=w)
    options = {"n_samples": 6, "choose_again": choose_again, "params": {"sample_weight": w}}
    first = inspection.weight_stability(model, X, wild, **options)
    second = inspection.weight_stability(model, X, y, **options)
    np.testing.assert_allclose(first.samples, second.samples, rtol=1e-8, atol=1e-10)
    without = inspection.weight_stability(model, X, wild, n_samples=6, choose_again=choose_again)
    assert np.abs(without.samples - first.samples).max() > 0.1


# ---- findings of one's own -------------------------------------------------------------------------


@pytest.fixture
def declared_here():
    from kernelweave.inspection.registry import REGISTRY

    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


@pytest.mark.usefixtures("declared_here")
def test_a_finding_that_fails_takes_nothing_with_it():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = kw.MKLRegressor(kw.banks.linear_features(2), alpha=0.1).fit(X, X[:, 0])

    @inspection.finding("spread of a test", title="Spread", needs=("model",))
    def spread(basis):
        raise ZeroDivisionError("no rows")

    with pytest.warns(UserWarning, match=r"'spread of a test' is left out.*ZeroDivisionError: no rows"):
        found = inspection.findings(model)
    assert "kernels" in found
    assert "spread of a test" not in found


@pytest.mark.usefixtures("declared_here")
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("mine", {"needs": ("modelx",)}, r"`needs` must name attributes .*model.*got 'modelx'"),
        ("mine", {"needs": "model"}, r"needs=\('model',\)"),
        ("views", {"needs": ("model",)}, "There is a finding 'views' already"),
    ],
)
def test_a_wrong_declaration_is_refused_where_it_stands(name, options, said):
    with pytest.raises(kw.InputError, match=said):
        inspection.finding(name, title="Mine", **options)(lambda basis: None)


@pytest.mark.usefixtures("declared_here")
def test_a_finding_gets_the_same_rows_in_a_run_as_in_python():
    from kernelweave_app.runs.evidence import gather
    from kernelweave_app.runs.fitting import fit_model, make_model
    from kernelweave_app.runs.joining import Joined
    from kernelweave_app.runs.preparing import prepare, split
    from kernelweave_app.runs.spec import Spec
    from kernelweave_app.runs.writing import score_held

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    frame["w"], frame["g"], frame["y"] = np.repeat([1, 2], 30), np.arange(60) // 3, frame["a"]
    spec = Spec(
        target="y", weights="w", group="g", kernels="linear_features", method="rls2", alphas="1", seed=5
    )
    prepared = prepare(Joined(frame, {}, {}, {}), spec)
    rows = split(prepared, spec)
    model = fit_model(make_model(spec, prepared, rows[1]), prepared, rows[0], None)
    seen = []

    @inspection.finding("rows of a test", title="Rows", needs=("training", "held_rows"))
    def rows_of(basis):
        seen.append(basis)

    gather(model, spec, prepared, rows, score_held(model, prepared, rows[1]))
    (basis,) = seen
    assert (len(basis.training.y), len(basis.held_rows.y), basis.seed) == (len(rows[0]), len(rows[1]), 5)
    np.testing.assert_array_equal(basis.training.params["sample_weight"], frame["w"].to_numpy()[rows[0]])
    np.testing.assert_array_equal(basis.training.groups, frame["g"].to_numpy()[rows[0]])


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "balanced_accuracy", None])
def test_permuted_test_rows_are_scored_by_the_name_of_a_score(scoring, patients):
    X, y = patients
    model = kw.MKLClassifier(kw.banks.linear_features(4), "rls2", alpha=1.0)
    found = inspection.permutation_test(model, X, y, n_permutations=3, refit=False, scoring=scoring)
    assert found.score > 0.5
    assert found.permuted.shape == (3,)
