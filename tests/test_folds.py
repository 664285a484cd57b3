"""Folds that follow from the values of rows, and what is computed on them.

Modules: `fitting/folds`, `learners/folds`.
"""

import joblib
import numpy as np
import pytest
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

import kernelweave as kw
from kernelweave.fitting.folds import pooled_scores, walk_folds
from kernelweave.learners.folds import deal


@pytest.mark.parametrize("stratify", [True, False])
def test_two_outputs_are_dealt_by_both(stratify):
    """By the first output, the second and the content, or by the content first."""
    content = np.array([0, 0, 1, 1, 2, 2])
    y = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    order = [[1, 4, 5, 3], [2, 0]] if stratify else [[1, 2, 4, 5], [0, 3]]
    folds = deal(content, y, 2, classes=y if stratify else None)
    assert [set(fold.tolist()) for fold in folds] == [set(rows) for rows in order]


@pytest.mark.parametrize("stratify", [True, False])
def test_dealt_folds_share_out_rows(rng, stratify):
    content, y = rng.integers(0, 12, size=40), np.where(rng.random(40) > 0.5, 1.0, -1.0)
    folds = deal(content, y, 4, classes=y if stratify else None)
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(40))
    for key in zip(content, y, strict=True):
        equal = np.flatnonzero((content == key[0]) & (y == key[1]))
        assert sum(len(np.intersect1d(equal, fold)) > 0 for fold in folds) == 1
    # class by class, or value by value, all folds have as many distinct rows
    first = y if stratify else content
    for value in np.unique(first):
        some = [fold[first[fold] <= value] for fold in folds]
        assert np.ptp([len({*zip(content[rows], y[rows], strict=True)}) for rows in some]) <= 1
    order = rng.permutation(40)
    again = deal(content[order], y[order], 4, classes=y[order] if stratify else None)
    assert [set(order[fold]) for fold in again] == [set(fold) for fold in folds]
    assert len(deal(np.zeros(5, dtype=int), np.ones(5), 3, classes=np.ones(5) if stratify else None)) == 1


def test_processes_that_share_the_classes_of_a_fold_leave_the_same_kernels_out(rng):
    """Each left out what says nothing about its own classes."""
    views = {name: rng.normal(size=(60, 3)) for name in "abc"}
    y = np.argmax([X[:, 0] for X in views.values()], axis=0)
    model = kw.MKLClassifier(learner="simple", C=1.0).fit(views, y)
    assert model.model_.task.screen
    rows, alphas = np.arange(60), np.array([1.0])
    folds = [(rows[rows % 2 != k], rows[rows % 2 == k]) for k in range(2)]
    alone = walk_folds(model.model_.task, model.model_.learner, folds, alphas)
    with joblib.parallel_config("threading"):
        shared = list(walk_folds(model.model_.task, model.model_.learner, folds, alphas, n_jobs=6))
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_allclose(other.values, one.values, rtol=1e-9, atol=1e-9)


def test_of_a_division_of_one_fold_the_divisions_give_the_error(rng):
    """No fold can be left out there: the divisions are the sample, however many folds they have."""
    tests, y = [np.arange(5), np.arange(5, 10), np.arange(10)], rng.normal(size=10)
    values = [rng.normal(size=(len(rows), 1)) for rows in tests]
    score, error = pooled_scores(lambda f, rows: float(f[:, 0] @ y[rows]), tests, values)
    each = np.array([np.concatenate(values[:2])[:, 0] @ y, values[2][:, 0] @ y])
    np.testing.assert_allclose(score, each.mean(), rtol=1e-12)
    # of two means of the same rows the spread is that of either of them
    np.testing.assert_allclose(error, abs(each[0] - each[1]) / 2**0.5, rtol=1e-12)


@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "roc_auc"])
def test_repeated_folds_are_no_further_rows(scoring, rng):
    """The standard error was that of as many times more rows: ten repetitions had a third of one's error."""
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + rng.normal(size=60)
    cls, y = (kw.MKLRegressorCV, y) if scoring.startswith("neg") else (kw.MKLClassifierCV, y > 0)
    strengths = {"alphas": [1.0]} if scoring.startswith("neg") else {"Cs": [1.0]}
    learner = "rls2" if scoring.startswith("neg") else "simple"
    kind = RepeatedKFold if scoring.startswith("neg") else RepeatedStratifiedKFold
    cv = kind(n_splits=4, n_repeats=10, random_state=0)
    model = cls([kw.kernels.Linear()], learner, cv=cv, scoring=scoring, **strengths).fit(X, y)
    splits = np.array([model.cv_results_[f"split{k}_test_score"][0] for k in range(40)])
    spread = splits.std(ddof=1)
    if scoring.startswith("neg"):
        # within each repetition, as the score is that of its rows together
        spread = np.sqrt(splits.reshape(10, 4).var(axis=1, ddof=1).mean())
    assert model.cv_results_["std_error_test_score"] == pytest.approx([spread / 2], rel=1e-9)


@pytest.mark.parametrize("stratify", [True, False])
def test_groups_are_dealt_whole_and_by_what_their_rows_hold(rng, stratify):
    for _ in range(30):
        n = int(rng.integers(6, 60))
        content, y = rng.integers(0, rng.integers(2, 80), n), rng.integers(0, 3, n).astype(float)
        groups = rng.integers(0, rng.integers(2, 15), n)
        alone = deal(content, y, 4, classes=y if stratify else None)
        own = deal(content, y, 4, classes=y if stratify else None, groups=rng.permutation(n))
        assert [fold.tolist() for fold in own] == [fold.tolist() for fold in alone]
        folds = deal(content, y, 4, classes=y if stratify else None, groups=groups)
        np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(n))
        assert sum(len(np.unique(groups[fold])) for fold in folds) == len(np.unique(groups))
        # neither names nor order nor repetitions of rows matter
        names, rows = rng.permutation(100), rng.permutation(np.r_[np.arange(n), rng.integers(0, n, 20)])
        again = deal(
            content[rows], y[rows], 4, classes=y[rows] if stratify else None, groups=names[groups[rows]]
        )
        assert [set(rows[fold]) for fold in again] == [set(fold) for fold in folds]


def test_groups_share_out_classes_and_rows():
    """Forty patients of 1 to 8 rows: classes as evenly as rows; one of a rare class in every fold."""
    sizes = np.tile(np.arange(1, 9), 5)
    groups = np.repeat(np.arange(40), sizes)
    of_patient = np.where(np.arange(40) % 8 == 7, 2.0, np.arange(40) // 8 % 2)
    y, content = of_patient[groups], np.arange(len(groups))
    for fold in deal(content, y, 5, classes=y, groups=groups):
        assert len(np.unique(groups[(y == 2) & np.isin(content, fold)])) == 1
        for kind in (0.0, 1.0):
            assert abs((y[fold] == kind).sum() - (y == kind).sum() / 5) <= 2
    assert len(deal(content, y, 50, classes=None, groups=groups)) == 40


def test_few_counts_and_few_events_are_in_the_training_rows_of_every_fold(rng):
    """Two rows of sixty: folds by content alone have both in one fold, whose training rows then have none."""
    X = rng.normal(size=(60, 2))
    X[:, 0].sort()
    y = np.zeros(60)
    y[[3, 8]] = 2.0
    alone = deal(np.arange(60), y, 5, classes=None)
    assert any(set(fold) >= {3, 8} for fold in alone)
    learner = kw.learners.SimpleMKL(loss="poisson")
    model = kw.MKLRegressor([kw.kernels.Linear()], learner, C="auto").fit(X, y)
    assert model.status_ == "converged"
    with pytest.raises(kw.InputError, match="training rows of a fold"):
        kw.MKLRegressor([kw.kernels.Linear()], learner, C="auto").fit(X, np.where(np.arange(60) == 3, y, 0.0))
    # rows of one group share a fold, and then all rows with counts do
    groups = np.r_[np.zeros(10), np.arange(1, 51)]
    with pytest.raises(kw.InputError, match="too few groups"):
        kw.MKLRegressor([kw.kernels.Linear()], learner, C="auto").fit(X, y, groups=groups)
    times = np.column_stack([y > 0, rng.exponential(size=60)])
    assert kw.MKLSurvival([kw.kernels.Linear()]).fit(X, times).status_ == "converged"
    with pytest.raises(kw.InputError, match="training rows of a fold"):
        kw.MKLSurvival([kw.kernels.Linear()]).fit(X, times * [[k == 3, 1] for k in range(60)])
