"""Folds that follow from the values of rows, and what is computed on them.

Modules: `fitting/folds`, `learners/folds`.
"""

from dataclasses import replace
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

import kernelweave as kw
from kernelweave.fitting import folds as folds_module
from kernelweave.fitting.folds import (
    FoldPath,
    FoldScores,
    Search,
    _scored,
    can_search,
    classes_of,
    content_folds,
    divided,
    first_good,
    held_decisions,
    negative_loss,
    negative_squared_error,
    pooled_scores,
    read_groups,
    repetitions,
    score_costs,
    split_rows,
    takes_some,
    walk_fold,
    walk_folds,
)
from kernelweave.fitting.model import Model
from kernelweave.fitting.prediction import KnownRows, NewRows
from kernelweave.fitting.source import TableSource
from kernelweave.fitting.task import SolvedProblem, Task, path_task, problems_of, silent
from kernelweave.learners.folds import by_value, deal
from kernelweave.machines.losses import as_loss
from kernelweave.machines.machine import Machine
from kernelweave.normalizers import resolve
from kernelweave.views import Table


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


# ---- paths and scores of folds ------------------------------------------------------------------------


def small_task(normalize="center", explicit=False, outputs=1, classes=False, n=24, **more):
    """Rows with weights and groups, and targets that their columns tell in part."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    Y = X[:, :outputs] + 0.5 * rng.normal(size=(n, outputs))
    targets = tuple(np.where(Y > 0.1, 1.0, -1.0).T[:, :, None]) if classes else (Y,)
    weight = rng.uniform(0.3, 3.0, n)
    kernels = [kw.kernels.Polynomial(degree=2).on([0]), kw.kernels.Linear().on([1, 2])]
    if not explicit:
        kernels.append(kw.kernels.RBF(gamma=0.3))
    source = TableSource(kernels, Table(X), max_memory=1e9, explicit=explicit, sample_weight=weight)
    options = {"fit_intercept": not classes, "classification": classes, "groups": np.arange(n) // 2, **more}
    return Task(source, targets, weight, resolve(normalize), None, **options)


FOLDS = [(np.arange(6, 24), np.arange(6)), (np.r_[:10, 17:24], np.arange(10, 17))]


@pytest.mark.parametrize(
    ("learner", "options"),
    [
        (kw.learners.RLS2(), {"outputs": 2}),
        (kw.learners.RLS2(shared_weights=False), {"outputs": 2, "normalize": "cosine"}),
        (kw.learners.RLS2(relax="auto"), {"outputs": 2}),
        (kw.learners.SimpleMKL(), {"outputs": 3, "classes": True}),
        (kw.learners.SimpleMKL(), {"outputs": 3, "classes": True, "explicit": True}),
        (kw.learners.LpMKL(loss="huber"), {"explicit": True, "normalize": None}),
        (kw.learners.LpMKL(loss="huber"), {"explicit": True}),
        (kw.learners.SimpleMKL(), {"outputs": 3, "classes": True, "normalize": "within-class"}),
        (kw.learners.TwoLayerMKL(), {"outputs": 2, "classes": True}),
    ],
    ids=["shared", "own", "relaxed", "machines", "features", "huber", "centred", "of each", "layers"],
)
def test_values_of_test_rows_are_those_of_models_of_the_training_rows(learner, options):
    """At every point of a path, output by output, whatever a solution is made of; and of some of the problems."""
    task, alphas = small_task(**options), np.array([2.0, 0.3])
    train, test = FOLDS[1]
    path = walk_fold(task, learner, train, test, alphas, 1e-6, silent)
    part = task.take(train)
    problems = problems_of(part)
    paths = path_task(part, problems, learner, alphas, tol=1e-6)
    grid = learner.relax_grid(alphas)
    each = 1 if grid is None else grid.shape[1]
    assert path.values.shape == (2 * each, len(test), task.n_outputs)
    assert not path.interrupted
    for k in range(2):
        for r in range(each):
            solutions = [own.at(k, r) for own in paths]
            solved = [SolvedProblem(*pair) for pair in zip(problems, solutions, strict=True)]
            model = Model.of(part, learner, alphas[k], solved, None)
            expected = model.decision(task.source.queries(test))
            np.testing.assert_allclose(path.values[k * each + r], expected, rtol=1e-8, atol=1e-9)
    last = len(task.targets) - 1
    some = walk_fold(task, learner, train, test, alphas, 1e-6, silent, some=np.array([last]))
    width = some.values.shape[2]
    np.testing.assert_allclose(some.values, path.values[:, :, -width:], rtol=1e-6, atol=1e-7)
    if path.weights is None:
        assert not learner.begins or task.n_outputs > 1
    else:
        assert len(path.weights) == len(task.targets)
        np.testing.assert_allclose(some.weights[0], path.weights[last], rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(path.weights[last], paths[last].weights)


class Noted:
    """A learner that notes what it is asked."""

    def __init__(self, learner, **others):
        self.learner, self.asked, self.others = learner, [], others

    def __getattr__(self, name):
        return self.others.get(name, getattr(self.learner, name))

    def path(self, own, alphas, tol, callback):
        start = None if own.start is None else own.start.tolist()
        more = None if own.content is None else [own.content.tolist(), own.groups.tolist()]
        self.asked.append([len(own.y), alphas.tolist(), tol, start, more, callback is not None])
        return self.learner.path(own, alphas, tol=tol, callback=callback)


def test_folds_are_asked_with_their_starts_and_tell_their_steps(recorded):
    """One after another, or several at a time, which share the problems; and as long as nobody stops them."""
    task = small_task(outputs=2)
    task = replace(task, targets=tuple(np.moveaxis(task.targets[0], 1, 0)[:, :, None]))
    alphas = np.array([2.0, 0.3])
    numbers = [[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], [[0.3, 0.3, 0.4], [1.0, 0.0, 0.0]]
    starts = [list(map(np.array, own)) for own in numbers]
    for name, n_jobs, learner in (
        ("alone", None, kw.learners.RLS2()),
        ("one job", 1, kw.learners.RLS2()),
        ("two jobs", 2, kw.learners.RLS2()),
        ("more jobs than folds", 3, kw.learners.SimpleMKL(loss="squared")),
    ):
        noted, told = Noted(learner, validates=n_jobs == 1), []

        def report(text, told=told):
            told.append(text)
            return len(told) == 5

        how = {"n_jobs": n_jobs, "tol": 1e-4, "starts": starts, "report": report}
        with joblib.parallel_config("threading"):
            paths = list(walk_folds(task, noted, FOLDS, alphas, **how))
        recorded(
            name,
            [told, sorted(noted.asked, key=str), [[path.interrupted, *path.values.shape] for path in paths]],
        )
        # defaults
        noted = Noted(learner)
        list(walk_folds(task, noted, FOLDS[:1], alphas))
        assert [one[2:] for one in noted.asked] == [[1e-5, None, None, False]] * 2


def test_parts_of_folds_are_kept_while_they_are_small(monkeypatch):
    task, learner = small_task(), kw.learners.RLS2()
    sizes = [sum(p.gram.nbytes for p in problems_of(task.take(train))) for train, _ in FOLDS]
    assert sizes[0] > sizes[1]
    for room, wanted in ((2 * sizes[1] - 1, []), (2 * sizes[1], [1]), (2 * sizes[0], [0, 1])):
        monkeypatch.setattr(folds_module, "KEPT_BYTES", room)
        parts = {}
        first = [path.values for path in walk_folds(task, learner, FOLDS, np.ones(1), parts=parts)]
        assert sorted(parts) == wanted
        for k, (own, problems, rows) in parts.items():
            assert own.source.n_samples == problems[0].gram.n_samples == len(FOLDS[k][0])
            assert isinstance(rows, KnownRows)
        # what is there is taken
        for k in parts:
            parts[k] = (
                parts[k][0],
                [replace(p, intercept=p.intercept + 7.0) for p in parts[k][1]],
                parts[k][2],
            )
        again = [path.values for path in walk_folds(task, learner, FOLDS, np.ones(1), parts=parts)]
        for k in range(2):
            np.testing.assert_allclose(again[k] - first[k], 7.0 * (k in wanted), atol=1e-9)
    # kernel values of test rows, of 18 or 17 training rows and three kernels in two folds
    for room, kind in ((8 * 2 * 3 * 18 * 6, KnownRows), (8 * 2 * 3 * 18 * 6 - 1, NewRows)):
        monkeypatch.setattr(folds_module, "KEPT_TESTS", room)
        parts = {}
        list(walk_folds(task, learner, FOLDS, np.ones(1), parts=parts))
        assert type(parts[0][2]) is kind


def test_paths_of_folds_are_scored_until_one_stops(monkeypatch):
    tests = [(None, np.arange(3)), (None, np.arange(3, 5)), (None, np.arange(5, 9))]
    closed = []

    def walk(short=None, stop=None, interrupt=None, weights=True):
        try:
            for k, (_, test) in enumerate(tests):
                if k == interrupt:
                    raise KeyboardInterrupt
                points = 3 if k == short else 4
                values = 100.0 * k + np.arange(points * len(test), dtype=float).reshape(points, len(test), 1)
                own = tuple(np.full((4, 2), 10.0 * k + p) for p in range(2)) if weights else None
                yield FoldPath(values, own, k == stop)
        finally:
            closed.append(k)

    def score(f, test):
        return float(f.sum() + 1000 * test[0])

    found = _scored(tests, walk(), score, (2, 2))
    each = [
        [float((100.0 * k + np.arange(a * n, a * n + n)).sum() + 1000 * t[0]) for a in range(4)]
        for k, (_, t) in enumerate(tests)
        for n in [len(t)]
    ]
    assert found.scores.tolist() == np.reshape(each, (3, 2, 2)).tolist()
    assert found.positions.tolist() == [0, 1]
    assert [[w[0, 0] for w in own] for own in found.weights] == [[0.0, 1.0], [10.0, 11.0], [20.0, 21.0]]
    assert [v.shape for v in found.values] == [(2, 2, 3, 1), (2, 2, 2, 1), (2, 2, 4, 1)]
    assert found.values[2][1, 0, :, 0].tolist() == [208.0, 209.0, 210.0, 211.0]
    assert (found.interrupted, found.stopped, found.relax) == (False, False, None)
    assert _scored(tests, walk(weights=False), score, (4,)).weights == []
    # what was complete before a stop, an interruption or a shorter path counts
    for how, n_done, stopped in (({"stop": 1}, 2, True), ({"interrupt": 2}, 2, True), ({"stop": 2}, 3, True)):
        found = _scored(tests, walk(**how), score, (4,))
        assert (len(found.scores), len(found.values), len(found.weights)) == (n_done,) * 3
        assert (found.interrupted, found.stopped) == (n_done < 3, stopped)
        assert closed[-1] == min(2, n_done - (how.get("stop") == 1))
    found = _scored(tests, walk(short=1, stop=1), score, (4,))
    assert (len(found.scores), found.interrupted) == (1, True)
    for how in ({"interrupt": 0}, {"short": 0, "stop": 0}):
        with pytest.raises(KeyboardInterrupt, match="before one fold was complete"):
            _scored(tests, walk(**how), score, (4,))
    # decision values of all folds, if all are as large as the largest
    monkeypatch.setattr(folds_module, "KEPT_BYTES", 3 * 8 * 16)
    assert len(_scored(tests, walk(), score, (4,)).values) == 3
    monkeypatch.setattr(folds_module, "KEPT_BYTES", 3 * 8 * 16 - 1)
    assert _scored(tests, walk(), score, (4,)).values == []
    assert len(_scored(tests, walk(), score, (4,), keep=True).values) == 3


def test_candidates_stand_beside_others_with_all_that_is_known_of_them():
    def some(positions, relax, stopped, interrupted=False, n_folds=2):
        at = np.array(positions)
        scores = np.stack([10.0 * k + at[:, None] + [0.0, 0.5] for k in range(n_folds)])
        weights = [(at[:, None] + 100.0 * k, -at[:, None] - 100.0 * k) for k in range(n_folds)]
        values = [(at + 0.25 * k)[:, None, None, None] * np.ones((1, 2, 3, 1)) for k in range(n_folds)]
        grid = at[:, None] * [[1.0, 2.0]] if relax else None
        return FoldScores(at, scores, weights, interrupted, values, stopped, grid)

    both = some([1, 5], True, False).beside(some([3], True, True, n_folds=1))
    assert both.positions.tolist() == [1, 3, 5]
    assert both.scores.tolist() == [[[1.0, 1.5], [3.0, 3.5], [5.0, 5.5]]]
    assert [w.ravel().tolist() for w in both.weights[0]] == [[1.0, 3.0, 5.0], [-1.0, -3.0, -5.0]]
    assert len(both.weights) == len(both.values) == 1
    assert both.values[0][:, 0, 0, 0].tolist() == [1.0, 3.0, 5.0]
    assert both.relax.tolist() == [[1.0, 2.0], [3.0, 6.0], [5.0, 10.0]]
    assert (both.stopped, both.interrupted) == (True, False)
    assert both.best_relax(1) == 6.0
    assert both.mean.tolist() == [1.5, 3.5, 5.5]
    few = some([3], True, True, n_folds=1).beside(some([1, 5], True, False))
    assert [few.scores.tolist(), len(few.weights), len(few.values)] == [both.scores.tolist(), 1, 1]
    other = some([4], False, False).beside(some([2], False, False, True))
    assert (other.relax, other.stopped, other.interrupted) == (None, False, True)
    assert [len(other.scores), len(other.values), len(other.weights)] == [2, 2, 2]
    assert other.values[1][:, 1, 2, 0].tolist() == [2.25, 4.25]
    assert [[w.tolist() for w in own] for own in other.starts(0)] == [[[2.0], [-2.0]], [[102.0], [-102.0]]]
    assert [w.tolist() for w in other.mean_weights(1)] == [[54.0], [-54.0]]
    # of equal ridges the first
    assert first_good(np.array([np.nan, np.nan])) == 0
    assert first_good(np.array([np.nan, 1.0, 2.0])) == 2
    tied = replace(both, scores=np.array([[[1.0, 1.0 + 1e-12], [0.0, 1.0], [2.0, 1.0]]]))
    assert [tied.best_relax(k) for k in range(3)] == [1.0, 6.0, 5.0]


def test_pooled_scores_leave_out_each_fold_of_each_division(rng, monkeypatch):
    """By the definition, also where a score is not defined without a fold."""
    tests = [
        np.arange(4),
        np.arange(4, 6),
        np.arange(6, 10),
        np.array([1, 3, 5]),
        np.array([0, 2, 4, 9]),
        np.array([6, 7, 8]),
    ]
    y, weight = rng.normal(size=10), rng.uniform(0.5, 2.0, 10)
    values = [rng.normal(size=(2, len(rows), 1)) for rows in tests]

    def score(f, rows):
        if 4 not in rows:
            return np.nan
        return -float(np.average((f[:, 0] - y[rows]) ** 2, weights=weight[rows]))

    assert divided(tests) == [[0, 1, 2], [3, 4, 5]]
    assert divided([np.arange(3), np.arange(2, 5), np.arange(3, 4), np.arange(9, 10)]) == [[0, 2, 3], [1]]
    scores, errors = pooled_scores(score, tests, values)
    for a in range(2):

        def pooled(folds, a=a):
            return score(
                np.concatenate([values[k][a] for k in folds]), np.concatenate([tests[k] for k in folds])
            )

        total = [pooled([0, 1, 2]), pooled([3, 4, 5])]
        assert scores[a] == pytest.approx(np.mean(total), rel=1e-12)
        variance = 0.0
        for own, whole in zip(([0, 1, 2], [3, 4, 5]), total, strict=True):
            without = np.array([whole - pooled([k for k in own if k != left]) for left in own])
            known = without[np.isfinite(without)] / 2
            assert len(known) == 2
            variance += 2 * known.var()
        assert errors[a] == pytest.approx(np.sqrt(2 * variance), rel=1e-12)
    # a path of which only some points are scored at once
    for most in (25, 1):
        monkeypatch.setattr("kernelweave.fitting.folds.AT_ONCE", most)
        long = pooled_scores(score, tests, [np.stack([own, own[::-1]], axis=1) for own in values])
        np.testing.assert_array_equal(long[0], np.stack([scores, scores[::-1]], axis=1))
        np.testing.assert_array_equal(long[1], np.stack([errors, errors[::-1]], axis=1))
    bare = pooled_scores(score, tests, values, errors=False)
    np.testing.assert_array_equal(bare[0], scores)
    assert bare[1].tolist() == [0.0, 0.0]
    # fewer folds done than there are, one fold, and none defined
    part = pooled_scores(score, tests, values[:3])
    np.testing.assert_allclose(
        part[0], [score(np.concatenate([v[a] for v in values[:3]]), np.arange(10)) for a in range(2)]
    )
    one = pooled_scores(score, tests[1:2], values[1:2])
    assert one[1].tolist() == [0.0, 0.0]
    assert np.isnan(pooled_scores(lambda f, rows: np.nan, tests[:3], values[:3])[1]).all()
    assert [
        repetitions(tests),
        repetitions(tests[:3]),
        repetitions([]),
        repetitions([np.array([1, 1, 1, 2])]),
    ] == [2.0, 1.0, 1.0, 2.0]


def test_losses_of_rows_and_outputs_are_averaged_by_weight(rng):
    Y, weight, rows = rng.normal(size=(9, 2)), rng.uniform(0.5, 2.0, 9), np.array([7, 1, 3])
    f, targets = rng.normal(size=(3, 2)), (Y[:, :1], Y[:, 1:])
    loss = as_loss("huber")
    each = loss.value(Y[rows].ravel(), f.ravel()).reshape(3, 2).mean(axis=1)
    assert negative_loss(loss, targets, weight)(f, rows) == pytest.approx(
        -np.average(each, weights=weight[rows])
    )
    assert negative_loss(loss, targets, None)(f, rows) == pytest.approx(-each.mean())
    assert negative_squared_error(targets, None)(f, rows) == pytest.approx(-np.square(f - Y[rows]).mean())


def test_folds_by_content_keep_its_order_and_groups(rng):
    content, y = rng.integers(0, 15, 40), rng.integers(0, 2, 40).astype(float)
    groups = content // 3
    for classes, own in ((y, None), (None, None), (y, groups), (None, groups)):
        folds = content_folds(content, y, 4, classes=classes, groups=own)
        tests = deal(content, y, 4, classes=classes, groups=own)
        assert len(folds) == len(tests) == 4
        for (train, test), wanted in zip(folds, tests, strict=True):
            assert test.tolist() == wanted.tolist()
            order = by_value(content, y)
            assert train.tolist() == [k for k in order if k not in set(wanted)]
    task = small_task(classes=True)
    labels = np.arange(3.0)
    learner = SimpleNamespace(fold_classes=lambda y: y + 1.0)
    assert classes_of(task, learner, labels) is labels
    assert classes_of(replace(task, classification=False), learner, labels).tolist() == [1.0, 2.0, 3.0]


def test_groups_may_have_any_names_but_none_missing(recorded):
    found = [
        None if own is None else own.tolist()
        for own in (
            read_groups(None, 3),
            read_groups(["b", "a", "b"], 3),
            read_groups(("x", 2, "x"), 3),
            read_groups(np.array([7.5, 3.0, 7.5]), 3),
            read_groups(pd.Series(["v", "u", "v"], index=[5, 1, 2]), 3),
        )
    ]
    assert found == [None, [0, 1, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert read_groups(["b"], 1).dtype == np.intp
    said = []
    for wrong in (
        ["a", "b"],
        np.ones((3, 1)),
        ["a", None, np.nan],
        pd.Series([pd.NA, "a", "b"]),
        [["a"], ["b"], ["a"]],
        5,
        [{}, {}, {}],
    ):
        with pytest.raises(kw.InputError) as error:
            read_groups(wrong, 3)
        said.append(str(error.value).partition(": ")[0])
    recorded("messages", said)


def test_what_cannot_split_rows_is_told(recorded):
    y, said = np.arange(6.0), []
    for wrong, more in (
        (1, {}),
        (7, {}),
        ("3", {"classes": y > 2}),
        (np.bool_(True), {}),
        ([([0, 6], [1])], {}),
        ([([0], [[1]])], {}),
        ([([0.5], [1])], {}),
        ([([0], [1], [2])], {}),
        ([3], {}),
        (3, {"groups": [1, 1, 1, 1, 2, 2]}),
        (3, {"kept": np.array([4, 1])}),
    ):
        try:
            said.append([[part.tolist() for part in fold] for fold in split_rows(wrong, y, **more)])
        except kw.InputError as error:
            # what follows a colon are words of other libraries
            said.append(str(error).partition(": ")[0])
    recorded("answers", said)
    with pytest.raises(TypeError, match="unexpected keyword"):
        split_rows(3, y, color="red")
    # classes, kept rows and groups together
    kept, classes = np.array([5, 0, 2, 3, 4]), np.array([0, 9, 1, 0, 1, 1])
    own = split_rows(2, y, classes=classes, kept=kept)
    assert [sorted(classes[test]) for _, test in own] == [[0, 1, 1], [0, 1]]
    assert sorted(np.concatenate([test for _, test in own])) == [0, 2, 3, 4, 5]
    assert split_rows(2, y, kept=kept)[0][1].tolist() == [5, 0, 2]
    assert split_rows([(np.array([], dtype=float), np.array([1]))], y)[0][0].tolist() == []


# ---- the search ---------------------------------------------------------------------------------------


CURVES = {
    "peak": lambda k, fold: -((k - 11.0 - fold) ** 2) / 100,
    "stiff is best": lambda k, fold: -k / 10.0,
    "loose is best": lambda k, fold: k / 10.0,
    "all are equal": lambda k, fold: np.full(len(k), 0.5),
    "later on other folds": lambda k, fold: -((k - (6.0 if fold == 0 else 16.0)) ** 2) / 100,
    "earlier on other folds": lambda k, fold: -((k - (18.0 if fold == 0 else 2.0)) ** 2) / 100,
    "some are unknown": lambda k, fold: np.where((k == 6) | (k > 14), np.nan, -np.abs(k - 9.0)),
    "two maxima": lambda k, fold: np.cos(k * 0.7) + 0.001 * k,
    "a plateau": lambda k, fold: np.minimum(k, 8.0) + 1e-9 * k,
}


class Scripted:
    """Scores of candidates that are given, and what a search asks of them."""

    def __init__(self, curve, relaxed, stop_at=None, raise_at=None):
        self.curve, self.relaxed, self.stop_at, self.raise_at = curve, relaxed, stop_at, raise_at
        self.asked, self.learnt = [], []
        self.alphas = 2.0 ** -np.arange(24.0)
        self.task = SimpleNamespace(
            content=np.arange(60) // 2,
            source=SimpleNamespace(learn_as=lambda *rows: self.learnt.append([len(one) for one in rows])),
        )
        self.folds = [(np.setdiff1d(np.arange(60), test), test) for test in np.split(np.arange(60), [14, 34])]

    def learner(self, near="first"):
        def grid(alphas):
            return alphas[:, None] * [[0.1, 1.0, 10.0]] if self.relaxed else None

        return SimpleNamespace(
            near=near, relax_grid=grid, relaxed_near=lambda share, few: self.learner([share, few])
        )

    def score(self, task, learner, folds, alphas, score, *, tol, starts, parts, report, **options):
        call = len(self.asked)
        # the alphas are powers of two, times a share of the rows
        share = 1.0 if np.frexp(alphas[0])[0] == 0.5 else 1.0 / 3.0
        k = np.rint(-np.log2(alphas / share))
        begin = (
            None if starts is None else [None if own is None else [w.tolist() for w in own] for own in starts]
        )
        self.asked.append(
            [k.astype(int).tolist(), share, tol, [[len(rows) for rows in fold] for fold in folds], begin,
             len(parts), learner.near, options, score, report]
        )  # fmt: skip
        parts[call] = "part"
        if call == self.raise_at:
            raise KeyboardInterrupt
        scores = np.array([self.curve(k, fold) for fold in range(len(folds))])
        grid = learner.relax_grid(alphas)
        if grid is not None:
            scores = scores[:, :, None] + np.array([-0.3, 0.0, -0.1])
        weights = [(k[:, None] + 100.0 * fold,) for fold in range(len(folds))]
        return FoldScores(np.arange(len(k)), scores, weights, False, [], call == self.stop_at, grid)

    def search(self, monkeypatch):
        monkeypatch.setattr(folds_module, "score_folds", self.score)
        return Search(self.task, self.learner(), self.folds, self.alphas, "score", {"keep": True})


def told(found):
    weights = [[w.ravel().tolist() for w in own] for own in found.weights]
    relax = None if found.relax is None else found.relax[:2].tolist()
    return [found.positions.tolist(), found.interrupted, found.stopped, weights[:2], relax, found.parts]


@pytest.mark.parametrize("relaxed", [False, True])
def test_a_search_asks_for_the_candidates_near_the_best(relaxed, recorded, monkeypatch):
    """With scores that are given: what is asked, of which rows, to which tolerance and from which weights."""
    monkeypatch.setattr(folds_module, "LOOK_ROWS", 12)
    for name in CURVES:
        script = Scripted(CURVES[name], relaxed)
        search = script.search(monkeypatch)
        begun = search.begin("report")
        found = search.scores("report", begun)
        n_asked = len(script.asked)
        finished = search.finish(found, "report")
        assert all(one[-3:] == [{"keep": True}, "score", "report"] for one in script.asked)
        recorded(f"{name}: asked", [one[:-3] for one in script.asked])
        recorded(f"{name}: found", [told(begun), told(found), told(finished), n_asked, script.learnt])
        best = found.positions[first_good(found.mean)]
        mean = np.mean([CURVES[name](np.arange(24.0), fold) for fold in range(3)], axis=0)
        if name not in ("two maxima", "some are unknown", "a plateau"):
            assert best == first_good(mean)
        # without a word, and from what is known of other kernels
        script.asked.clear()
        alone = search.scores()
        assert told(alone) == told(found)
        script.asked.clear()
        again = search.begin("report", near=found)
        recorded(f"{name}: near", [[one[:-3] for one in script.asked], told(again)])


@pytest.mark.parametrize("how", ["stop_at", "raise_at"])
@pytest.mark.parametrize("relaxed", [False, True])
def test_a_search_ends_where_it_is_stopped(how, relaxed, recorded, monkeypatch):
    """After every question: what was found until then, and nothing more is asked."""
    monkeypatch.setattr(folds_module, "LOOK_ROWS", 12)
    found = []
    for name in ("later on other folds", "earlier on other folds", "loose is best"):
        for at in range(12):
            script = Scripted(CURVES[name], relaxed, **{how: at})
            search = script.search(monkeypatch)
            try:
                result = search.finish(search.scores())
            except KeyboardInterrupt:
                found.append([name, at, len(script.asked), "nothing"])
                continue
            found.append([name, at, len(script.asked), *told(result)[:3]])
    recorded("ends", found)


def test_few_rows_are_looked_at_as_they_are(monkeypatch):
    """Those of all folds; then nothing is left to be asked."""
    script = Scripted(CURVES["peak"], True)
    search = script.search(monkeypatch)
    found = search.scores()
    assert {one[1] for one in script.asked} == {1.0}
    assert {tuple(map(tuple, one[3])) for one in script.asked} == {tuple((60 - n, n) for n in (14, 20, 26))}
    n_asked = len(script.asked)
    assert search.finish(found) is found
    assert len(script.asked) == n_asked
    assert takes_some(np.arange(801))
    assert takes_some(np.array([800, 3]))
    assert not takes_some(np.arange(800))


@pytest.mark.parametrize("n_alphas", [12, 13])
def test_only_many_candidates_of_one_weight_for_each_problem_are_searched(n_alphas):
    alphas, one, two = np.ones(n_alphas), small_task(), small_task(outputs=2)
    learner, separate = kw.learners.RLS2(), kw.learners.RLS2(shared_weights=False)
    many = n_alphas > 12
    assert can_search(one, learner, alphas) == can_search(two, learner, alphas) == many
    assert can_search(one, separate, alphas) == many
    assert not can_search(two, separate, alphas)
    assert not can_search(one, kw.learners.Uniform(), alphas)


# ---- held kernels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_costs_are_scored_with_held_kernels(loss, recorded, monkeypatch):
    """Two labels on some of the rows, with weights; where matrices are too large to keep the same comes out."""
    task = small_task(outputs=2, classes=True, n=30, normalize="cosine")
    problems, rows = problems_of(task), np.r_[0:13, 14:30]
    folds = [(np.r_[8:29], np.r_[0:8]), (np.r_[0:8, 16:29], np.r_[8:16]), (np.r_[0:16], np.r_[16:29])]
    costs, told = np.array([0.01, 0.3, 5.0, 400.0]), []

    def score(f, test):
        return float(np.mean(np.concatenate(task.targets, axis=1)[rows[test]] * f))

    def report(text):
        told.append(text)
        return len(told) in (3, 17)

    ball = kw.weight_sets.LpBall(1.5)
    given = task, problems, as_loss(loss), ball, rows, folds, costs, score
    whole = score_costs(*given)
    Y, stack = np.concatenate(task.targets, axis=1), problems[0].gram.restrict(rows)
    for k in range(2):
        own, scale = whole.weights[0][k], problems[k].normalizer.scale
        np.testing.assert_array_equal(own, np.repeat(own[:1], 4, axis=0))
        how = {"loss": loss, "sample_weight": task.sample_weight[rows]}
        best = kw.solve_svm_mkl(stack, Y[rows, k], 1.0, ball, scale=scale, tol=1e-6, **how)
        K = stack.combine(own[0] * scale)
        machine = Machine(Y[rows, k], 1.0, as_loss(loss), task.sample_weight[rows]).solve(K, tol=1e-8)
        # the weights are learnt to 1e-2 of the objective at C = 1
        assert best.dual <= machine.primal <= 1.015 * best.primal
        for (train, test), values in zip(folds, whole.values, strict=True):
            for C, found in zip(costs, values[:, :, k], strict=True):
                machine = Machine(Y[rows[train], k], C, as_loss(loss), task.sample_weight[rows[train]])
                exact = machine.solve(np.ascontiguousarray(K[np.ix_(train, train)]), tol=1e-10)
                f = K[np.ix_(test, train)] @ exact.dual_coef + exact.intercept
                # machines on folds are solved to 3e-3
                np.testing.assert_allclose(found, f, atol=0.03 * max(1.0, np.abs(f).max()))
    for (_, test), values, own in zip(folds, whole.values, whole.scores, strict=True):
        assert own.tolist() == [score(f, test) for f in values]
    assert (whole.positions.tolist(), whole.interrupted, whole.stopped) == ([0, 1, 2, 3], False, False)
    part = score_costs(*given, report=report)
    assert (part.interrupted, part.stopped) == (True, True)
    assert len(part.scores) == 1
    recorded("told", told)
    monkeypatch.setattr(folds_module, "KEPT_BYTES", 0)
    again = score_costs(*given)
    np.testing.assert_allclose(again.scores, whole.scores, rtol=1e-9)
    assert again.values == []
    assert [v.shape for v in score_costs(*given, keep=True).values] == [(4, 8, 2), (4, 8, 2), (4, 13, 2)]
    # a matrix of each label
    asked, walk = [], folds_module._HeldKernels.walk

    def noted(*given, keep, **more):
        asked.append(keep)
        return walk(*given, keep=keep, **more)

    monkeypatch.setattr(folds_module._HeldKernels, "walk", noted)
    for room, kept in ((2 * 8 * 29**2, True), (2 * 8 * 29**2 - 1, False)):
        monkeypatch.setattr(folds_module, "KEPT_BYTES", room)
        asked.clear()
        score_costs(*given)
        assert set(asked) == {kept}
    weights = [whole.weights[0][k][0] for k in range(2)]
    held = held_decisions(task, problems, weights, as_loss(loss), ball, rows, folds, 5.0)
    assert np.isnan(held[13]).all()
    for (_, test), own in zip(folds, whole.values, strict=True):
        np.testing.assert_allclose(held[rows[test]], own[2], atol=0.1)
