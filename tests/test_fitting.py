"""Rooms of `kernelweave.fitting`: problems, folds, predictions and probabilities, against dense formulas by hand.

Weights of rows are unequal throughout, so that a sum that forgets them is another number.

Modules: `fitting`, `fitting/calibration`, `fitting/folds`, `fitting/linear`, `fitting/missing`, `fitting/model`,
`fitting/out_of_fold`, `fitting/prediction`, `fitting/rowless`, `fitting/source`, `fitting/task`.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.svm import SVC

import kernelweave as kw
from kernelweave._checks import memory_budget
from kernelweave.fitting.calibration import Calibration, calibrate, log_probabilities
from kernelweave.fitting.folds import (
    FoldPath,
    FoldScores,
    Search,
    _beside,
    _thinned,
    choose,
    content_folds,
    first_good,
    held_decisions,
    negative_squared_error,
    score_costs,
    score_folds,
    split_rows,
    walk_folds,
)
from kernelweave.fitting.linear import linear_layout
from kernelweave.fitting.missing import missing_cells
from kernelweave.fitting.model import Model, fractions_of, view_in
from kernelweave.fitting.out_of_fold import OutOfFold, best_offsets
from kernelweave.fitting.partial import PartialSource
from kernelweave.fitting.prediction import FeatureForm, NewRows, Products
from kernelweave.fitting.rowless import RowlessSource, needs_rows, without_rows
from kernelweave.fitting.source import TableSource
from kernelweave.fitting.stacks import BankSource
from kernelweave.fitting.task import (
    SolvedProblem,
    Task,
    path_task,
    problems_of,
    shared_alphas,
    was_interrupted,
)
from kernelweave.kernels import RBF, ArcCosine, Constant, Impute, Laplacian, Linear, Polynomial
from kernelweave.learners import RLS2, Uniform
from kernelweave.machines.losses import Hinge, SquaredHinge
from kernelweave.mkl.weight_sets import LpBall
from kernelweave.normalizers import resolve
from kernelweave.views import BlockTable, Table, as_table

KERNELS = (Linear().on([0, 1]), RBF(gamma=0.3))


def make_task(rng, n=24, *, outputs=1, normalize="center", kernels=KERNELS, classes=False, **more):
    X = rng.normal(size=(n, 3))
    Y = X[:, :outputs] + 0.5 * rng.normal(size=(n, outputs))
    Y = np.where(Y > 0.2, 1.0, -1.0) if classes else Y
    weight = rng.uniform(0.3, 3.0, n)
    source = TableSource(list(kernels), Table(X), max_memory=1e9)
    targets = tuple(Y.T[:, :, None]) if classes else (Y,)
    options = {"fit_intercept": not classes, "classification": classes, **more}
    return Task(source, targets, weight, resolve(normalize), None, **options), X, Y, weight


def stack_of(X, Z):
    return np.stack([X[:, :2] @ Z[:, :2].T, RBF(gamma=0.3)(X, Z)], axis=2)


def centred(X, weight, new):
    """Both kernels after centring with weights and division by their weighted mean diagonal."""
    p = weight / weight.sum()
    own, cross = stack_of(X, X), stack_of(new, X)
    row, column = np.einsum("ijm,j->im", own, p), np.einsum("ijm,j->im", cross, p)
    total = p @ row
    K = own - row[:, None] - row[None] + total
    scale = 1.0 / np.einsum("iim,i->m", K, p)
    return K * scale, (cross - column[:, None] - row[None] + total) * scale, scale


# ---- tasks and problems -----------------------------------------------------------------------------


def test_weights_of_labels_and_classes(rng):
    task, _, Y, weight = make_task(rng, outputs=2, classes=True, multilabel=True)
    factors = np.array([[1.0, 5.0], [0.5, 2.0]])
    task = Task(**{**vars(task), "class_weight": factors})
    wanted = np.column_stack([factors[k][(Y[:, k] > 0).astype(int)] * weight for k in range(2)])
    for k in range(2):
        np.testing.assert_allclose(task.weights_of(k), wanted[:, k], rtol=1e-14)
    np.testing.assert_allclose(task.loss_weight, wanted, rtol=1e-14)
    np.testing.assert_array_equal(task.codes, Y > 0)
    rows = np.array([5, 2, 9])
    np.testing.assert_allclose(task.take(rows).weights_of(1), wanted[rows, 1], rtol=1e-14)
    bare = Task(**{**vars(task), "sample_weight": None})
    np.testing.assert_allclose(bare.loss_weight * weight[:, None], wanted, rtol=1e-14)
    np.testing.assert_allclose(bare.weights_of(1) * weight, wanted[:, 1], rtol=1e-14)
    plain = Task(**{**vars(task), "multilabel": False})
    assert plain.weights_of(0) is plain.loss_weight is weight
    np.testing.assert_array_equal(plain.codes, np.argmax(Y, axis=1))
    assert plain.n_outputs == 2


def test_problems_are_centred_and_scaled_with_weights(rng):
    task, X, Y, weight = make_task(rng, outputs=2)
    [problem] = problems_of(task)
    K, _, scale = centred(X, weight, X)
    np.testing.assert_allclose(problem.scale, scale, rtol=1e-10)
    mean = weight @ Y / weight.sum()
    np.testing.assert_allclose(problem.intercept, mean, rtol=1e-12)
    np.testing.assert_allclose(problem.y, Y - mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        problem.gram.combine(np.array([0.3, 2.0]) * scale), K @ [0.3, 2.0], rtol=1e-9, atol=1e-11
    )
    # without an intercept targets stay as they are
    [free] = problems_of(Task(**{**vars(task), "fit_intercept": False}))
    assert not free.intercept.any()
    np.testing.assert_array_equal(free.y, Y)
    alphas = shared_alphas(task, [problem], 7, RLS2())
    other = Task(**{**vars(task), "targets": (Y[:, :1] * 30.0, Y)})
    both = problems_of(other)
    each = [shared_alphas(other, [one], 7, RLS2()) for one in both]
    joint = shared_alphas(other, both, 7, RLS2())
    assert joint[0] == pytest.approx(max(own[0] for own in each), rel=1e-12)
    assert joint[-1] == pytest.approx(min(own[-1] for own in each), rel=1e-12)
    np.testing.assert_allclose(np.diff(np.log(alphas)), np.log(alphas[1] / alphas[0]), rtol=1e-9)
    assert alphas[0] > alphas[-1]


def test_paths_of_all_problems_end_where_the_first_was_stopped(rng):
    task, *_ = make_task(rng, outputs=3, classes=True)
    problems, alphas, told = problems_of(task), np.array([10.0, 1.0, 0.1, 0.01]), []

    def report(step):
        told.append(step)
        return len(told) == 2

    whole = path_task(task, problems, RLS2(), alphas)
    paths = path_task(task, problems, RLS2(), alphas, report=report)
    assert [len(path) for path in paths] == [2, 2, 2]
    assert was_interrupted(paths)
    assert not was_interrupted(whole)
    for path, other in zip(paths, whole, strict=True):
        np.testing.assert_allclose(path.dual_coef, other.dual_coef[:2], rtol=1e-6, atol=1e-9)


def test_memory_limits_as_texts():
    assert [memory_budget(text) for text in ("2GB", "3 MiB", "1.5k", "1T", "700", 12)] == [
        2.0**31, 3.0 * 2**20, 1536.0, 2.0**40, 700.0, 12.0,
    ]  # fmt: skip
    for wrong in ("GB", "0", -1, "x", "1e-400M"):
        with pytest.raises(kw.InputError):
            memory_budget(wrong)


def test_missing_cells_are_counted_in_rows_that_have_the_view():
    nan = np.nan
    X = np.array([[1.0, nan, 2.0], [nan, nan, 3.0], [nan, 5.0, nan], [0.0, 1.0, 2.0]])
    views = {"one": np.array([0, 1]), "two": np.array([2])}
    # row 1 lacks the view `one`, and row 2 the view `two`
    assert missing_cells(Table(X), views) == {"column 0": (1, 3), "column 1": (1, 3)}
    assert missing_cells(Table(X), {}) == {"column 0": (2, 4), "column 1": (2, 4), "column 2": (1, 4)}
    assert missing_cells(Table(np.nan_to_num(X)), views) == {}
    blocks = BlockTable({"one": as_table(X[:, :2], missing=True), "two": as_table(X[:, 2:], missing=True)})
    nowhere = dict.fromkeys(("one", "two"))
    assert missing_cells(blocks, nowhere) == {"one: column 0": (1, 3), "one: column 1": (1, 3)}
    # without views every row counts
    assert missing_cells(blocks, {}) == {
        "one: column 0": (2, 4),
        "one: column 1": (2, 4),
        "two: column 0": (1, 4),
    }


# ---- folds ------------------------------------------------------------------------------------------


def test_scores_of_folds_are_those_of_dense_ridge_regression(rng):
    """One kernel with two outputs: everything is taken from training rows, and test rows count by their weights."""
    task, X, Y, weight = make_task(rng, outputs=2, kernels=KERNELS[1:])
    folds = [(np.arange(8, 24), np.arange(8)), (np.arange(16), np.arange(16, 24))]
    alphas = np.array([3.0, 0.2])
    found = score_folds(task, RLS2(tol=1e-10), folds, alphas, negative_squared_error(task.targets, weight))
    for k, (train, test) in enumerate(folds):
        K, cross, _ = centred(X[train], weight[train], X[test])
        mean = weight[train] @ Y[train] / weight[train].sum()
        for a, alpha in enumerate(alphas):
            c = np.linalg.solve(K[:, :, 1] + alpha * np.diag(1.0 / weight[train]), Y[train] - mean)
            f = cross[:, :, 1] @ c + mean
            np.testing.assert_allclose(found.values[k][a], f, rtol=1e-8, atol=1e-9)
            error = weight[test] @ np.square(f - Y[test]).mean(axis=1) / weight[test].sum()
            assert found.scores[k, a] == pytest.approx(-error, rel=1e-8)
    # the same as two problems, one after another
    apart = replace(task, targets=(Y[:, :1], Y[:, 1:]))
    for k, path in enumerate(walk_folds(apart, RLS2(tol=1e-10), folds, alphas)):
        np.testing.assert_allclose(path.values, found.values[k], rtol=1e-8, atol=1e-9)
    stops = iter([False, False, True, True])
    paths = list(walk_folds(task, RLS2(), folds, alphas, report=lambda said: next(stops)))
    assert [path.interrupted for path in paths] == [False, True]
    per_output = np.column_stack([weight, np.arange(24.0)])
    score = negative_squared_error(task.targets, per_output)
    f, rows = np.zeros((4, 2)), np.array([1, 2, 5, 7])
    own = [per_output[rows, k] @ np.square(Y[rows, k]) / per_output[rows, k].sum() for k in range(2)]
    assert score(f, rows) == pytest.approx(-np.mean(own), rel=1e-12)


@pytest.mark.parametrize("normalize", ["center", "cosine", "none"])
@pytest.mark.parametrize("room", [2**20, 0])
def test_folds_that_are_asked_again_keep_the_kernels_of_their_test_rows(rng, monkeypatch, normalize, room):
    """Values are those of new rows, by products with raw kernels; where memory is short nothing is kept."""
    from kernelweave.fitting import folds as search

    monkeypatch.setattr(search, "KEPT_TESTS", room)
    task, *_ = make_task(rng, 40, outputs=2, normalize=normalize, kernels=(*KERNELS, Laplacian(gamma=0.2)))
    folds = content_folds(task.content, np.concatenate(task.targets, axis=1), 4, classes=None)
    learner, alphas = RLS2(alpha="auto", relax="auto"), np.array([3.0, 0.5, 0.1])
    known = [path.values for path in walk_folds(task, learner, folds, alphas)]
    calls, cross = [], TableSource.cross
    monkeypatch.setattr(TableSource, "cross", lambda *given: calls.append(1) or cross(*given))
    parts = {}
    for _ in range(2):
        again = [path.values for path in walk_folds(task, learner, folds, alphas, parts=parts)]
        for one, other in zip(again, known, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    # once for each fold
    assert len(calls) == (len(folds) if room else 0)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
def test_machines_on_folds_are_those_of_scikit_learn(loss, rng):
    """Two outputs, rows that take no part, and weights of kernels that are given."""
    task, X, Y, weight = make_task(rng, n=30, outputs=2, normalize=None, classes=True)
    problems = problems_of(task)
    rows = np.setdiff1d(np.arange(30), [0, 4, 11])
    folds = [(np.arange(9, 27), np.arange(9)), (np.arange(18), np.arange(18, 27))]
    given, cost = [np.array([0.4, 0.8]), np.array([1.0, 0.1])], 0.7
    values = held_decisions(task, problems, given, loss, LpBall(2.0), rows, folds, cost)
    scores = score_costs(
        task, problems, loss, LpBall(2.0), rows, folds, np.array([cost, 2.0]), lambda f, test: f.sum()
    )
    stack = stack_of(X, X)
    for k in range(2):
        for train, test in folds:
            fit, new, own = rows[train], rows[test], weight[rows[train]]
            for d, got in ((given[k], values[new, k]), (scores.weights[0][k][0], None)):
                if got is None:
                    fold = 0 if test[0] == 0 else 1
                    got = scores.values[fold][0][:, k]
                K = stack @ d
                if isinstance(loss, Hinge):
                    machine = SVC(kernel="precomputed", C=cost, tol=1e-10)
                    machine.fit(K[np.ix_(fit, fit)], Y[fit, k], sample_weight=own)
                    expected = machine.decision_function(K[np.ix_(new, fit)])
                else:
                    expected = squared_hinge(K, Y[:, k], fit, new, cost * own)
                # folds that are only scored are solved to 3e-3
                np.testing.assert_allclose(got, expected, atol=1e-5 if d is given[k] else 3e-2)
    assert np.isnan(values[[0, 4, 11]]).all()


def squared_hinge(K, y, fit, new, costs):
    """Decision values of the machine with the costs of rows times half the squared hinge, by BFGS on its objective."""
    own = K[np.ix_(fit, fit)]

    def objective(v):
        f = own @ v[:-1] + v[-1]
        lack = np.maximum(1.0 - y[fit] * f, 0.0)
        slope = -costs * lack * y[fit]
        value = 0.5 * v[:-1] @ own @ v[:-1] + 0.5 * costs @ lack**2
        return value, np.r_[own @ (v[:-1] + slope), slope.sum()]

    v = minimize(
        objective, np.zeros(len(fit) + 1), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
    ).x
    return K[np.ix_(new, fit)] @ v[:-1] + v[-1]


def test_paths_of_some_problems_stand_side_by_side():
    left = FoldPath(np.arange(12.0).reshape(3, 2, 2), (np.eye(3), np.ones((3, 2))), False)
    right = FoldPath(-np.arange(4.0).reshape(2, 2, 1), (np.zeros((2, 1)),), True)
    both = _beside([left, right])
    assert both.values[1].tolist() == [[4.0, 5.0, -2.0], [6.0, 7.0, -3.0]]
    assert [own.shape for own in both.weights] == [(2, 3), (2, 2), (2, 1)]
    assert both.interrupted
    assert _beside([replace(left, weights=None)]).weights is None


def test_choosing_among_scores():
    mean, error = np.array([0.5, 0.74, 0.9, 0.9, 0.1]), np.array([9.0, 9.0, 0.16, 9.0, 9.0])
    assert choose(mean, error, "min") == 2
    assert choose(mean, error, "1se") == 1
    assert choose(mean, np.full(5, 0.159), "1se") == 2
    # the same accuracies on other folds: the largest alpha among equals, where rounding says the second
    equal = np.array([[0.7, 0.8, 0.9], [0.9, 0.8, 0.7], [0.1, 0.2, 0.3]]).mean(axis=1)
    assert equal[0] < equal[1]
    assert choose(equal, np.zeros(3), "min") == choose(equal, np.zeros(3), "1se") == 0
    # within a tenth of the spread of 0.8
    assert [first_good(mean, slack) for slack in (0.0, 0.19, 0.21)] == [2, 2, 1]
    left = FoldScores(
        np.array([4, 5]), np.array([[1.0, 2.0], [3.0, 8.0]]), [(np.eye(2),), (3 * np.eye(2),)], False
    )
    right = FoldScores(np.array([6]), np.array([[4.0]]), [(np.array([[0.0, 7.0]]),)], True)
    assert left.mean.tolist() == [2.0, 5.0]
    for both in (left.beside(right), right.beside(left)):
        assert both.positions.tolist() == [4, 5, 6]
        assert both.scores.tolist() == [[1.0, 2.0, 4.0]]
        assert both.weights[0][0].tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 7.0]]
        assert both.interrupted
    assert left.mean_weights(1)[0].tolist() == [0.0, 2.0]
    assert [own[0].tolist() for own in left.starts(-1)] == [[0.0, 1.0], [0.0, 3.0]]
    relaxed = FoldScores(
        np.arange(2), np.array([[[1.0, 5.0], [2.0, 0.0]], [[3.0, 0.0], [4.0, 0.0]]]), [], False
    )
    assert relaxed.mean.tolist() == [2.5, 3.0]


def test_a_look_takes_every_so_many_distinct_rows():
    content = np.repeat(np.arange(1601), 2)
    rows = np.arange(len(content))
    [(train, test)], share = _thinned(content, [(rows[:3000], rows[3000:])])
    assert share == pytest.approx(1 / 3)
    assert content[train].tolist() == np.repeat(np.arange(0, 1500, 3), 2).tolist()
    assert content[test].tolist() == np.repeat(np.arange(1500, 1601, 3), 2).tolist()
    whole, share = _thinned(np.arange(800), [(np.arange(799), np.array([799]))])
    assert share == 1.0
    assert len(whole[0][0]) == 799


def test_equal_rows_share_a_fold(rng):
    X = np.repeat(rng.normal(size=(6, 2)), 2, axis=0)
    source = TableSource([Linear()], Table(X), max_memory=1e9)
    folds = content_folds(source.content(), np.zeros((12, 1)), 3, classes=np.zeros(12))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(12))
        assert np.unique(test // 2, return_counts=True)[1].tolist() == [2, 2]
    assert len(folds) == 3
    assert (
        content_folds(source.take(np.array([0, 1])).content(), np.zeros((2, 1)), 3, classes=np.zeros(2)) == []
    )


def test_folds_by_numbers_masks_and_groups():
    y = np.repeat(["u", "v"], 6)
    for train, test in split_rows(3, y, classes=y):
        assert np.unique(y[test], return_counts=True)[1].tolist() == [2, 2]
        assert sorted([*train, *test]) == list(range(12))
    assert split_rows(3, y)[0][1].tolist() == [0, 1, 2, 3]
    mask = np.arange(12) < 5
    [(train, test)] = split_rows([(mask, ~mask)], y, classes=y)
    assert (train.tolist(), test.tolist()) == (list(range(5)), list(range(5, 12)))
    assert split_rows([([-1, 0], [1])], y, classes=y)[0][0].tolist() == [11, 0]
    for wrong in ([([0, 12], [1])], [([0], [[1]])], [([0.5], [1])], [([0], [1], [2])], 1, 13):
        with pytest.raises(kw.InputError, match="cv"):
            split_rows(wrong, y, classes=y)
    kept = np.arange(1, 12)
    for _, test in split_rows(3, y, classes=y, kept=kept, groups=np.arange(12) // 2):
        assert {*test, *(test ^ 1)} - {0} == set(test)


# ---- models -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("approximate", [False, True])
def test_two_outputs_with_weights_by_dense_formulas(approximate, rng):
    """Decisions, contributions and standard deviations, on kernels and on features that are these kernels."""
    X, new = rng.normal(size=(20, 2)), rng.normal(size=(5, 2))
    Y = np.column_stack([X[:, 0], X[:, 1] - X[:, 0]]) + 0.3 * rng.normal(size=(20, 2))
    weight, alpha = rng.uniform(0.3, 3.0, 20), 0.7
    kernels = [Linear().on([0]), Linear().on([1])]
    model = kw.MKLRegressor(
        kernels, RLS2(alpha=alpha, tol=1e-11, shared_weights=False), normalize="center",
        approximation="nystroem" if approximate else None,
    ).fit(X, Y, sample_weight=weight)  # fmt: skip
    assert (model.model_.features is not None) == approximate
    p = weight / weight.sum()
    centre, y = p @ X, Y - p @ Y
    Z, N = X - centre, new - centre
    scale = 1.0 / (p @ Z**2)
    found = model.predict(new, return_std=True)
    parts = model.kernel_contributions(new)
    for k in range(2):
        d = model.weights_[k] * scale
        K, cross = (Z * d) @ Z.T, (N * d) @ Z.T
        A = K + alpha * np.diag(1.0 / weight)
        c = np.linalg.solve(A, y[:, k])
        for m in range(2):
            np.testing.assert_allclose(
                parts[:, m, k], np.outer(N[:, m], Z[:, m]) * d[m] @ c, rtol=1e-6, atol=1e-8
            )
        np.testing.assert_allclose(found[0][:, k], cross @ c + p @ Y[:, k], rtol=1e-6, atol=1e-8)
        variance = ((N * d) * N).sum(axis=1) - np.einsum("ri,ir->r", cross, np.linalg.solve(A, cross.T))
        np.testing.assert_allclose(
            found[1][:, k], np.sqrt(variance * model.prior_scale_[k]), rtol=1e-6, atol=1e-8
        )
    shares = model.weights_ / model.weights_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.model_.weight_shares, shares.mean(axis=0), rtol=1e-12)


def test_weights_of_layers_are_padded_and_equal_without_a_machine(rng):
    X = rng.normal(size=(12, 2))
    one = kw.MKLRegressor([RBF(), Linear()], RLS2(alpha=1.0)).fit(X, X[:, 0]).model_
    column = kw.MKLRegressor([RBF(), Linear()], RLS2(alpha=1.0)).fit(X, X[:, :1]).model_
    both = kw.MKLRegressor([RBF(), Linear()], RLS2(alpha=1.0, shared_weights=False)).fit(X, X).model_
    assert (one.flat, column.flat, both.flat) == (True, False, False)
    upper = SimpleNamespace(weights=(np.array([0.2, 0.3, 0.5]),))
    deep = replace(both, weights=np.array([[0.6, 0.4], [0.1, 0.9]]), layers=(upper, None), layered=True)
    nan = np.nan
    expected = [[[0.6, 0.4, nan], [0.2, 0.3, 0.5]], [[0.5, 0.5, nan], [1 / 3, 1 / 3, 1 / 3]]]
    np.testing.assert_allclose(deep.table_of_weights(), expected, rtol=1e-14)
    np.testing.assert_array_equal(deep.weights_of(0)[1], upper.weights[0])


@pytest.mark.parametrize("learner", ["uniform", "deep-uniform"])
def test_contributions_add_up_to_decision_values(learner, rng):
    X, new = rng.normal(size=(20, 3)), rng.normal(size=(4, 3))
    y = np.array(["a", "b", "c", "a"])[np.arange(20) % 4]
    model = kw.MKLClassifier([Linear(), RBF(0.5)], learner, C=1.0, normalize="cosine").fit(X, y)
    parts = model.kernel_contributions(new)
    assert parts.shape == (4, len(model.layer_kernel_names_[-1]), 3)
    np.testing.assert_allclose(parts.sum(axis=1) + model.intercept_, model.decision_function(new), atol=1e-12)


def test_linear_kernels_as_coefficients_of_columns(rng):
    """Sums, factors, columns and standardised columns, of which two share a column."""
    X, new = rng.normal(1.0, 2.0, size=(15, 4)), rng.normal(size=(4, 4))
    kernels = [
        3.0 * Linear().on([0, 2]) + Linear().on([2, 3]),
        Linear().prepared("standardize").on([1, 2]),
        0.5 * Linear(),
    ]
    table = Table(X)
    source = TableSource(kernels, table, max_memory=1e9)
    w, c, p = np.array([0.7, 1.3, 0.2]), rng.normal(size=15), rng.dirichlet(np.ones(15))
    cross = np.zeros((4, 15, 3))
    for where, m, K in source.cross(source.accepted(Table(new)), np.arange(3)):
        cross[where, :, m] = K
    layout = source.linear_layout()
    coef, shift = layout.coefficients(w, c, X, None)
    np.testing.assert_allclose(new @ coef + shift, cross @ w @ c, rtol=1e-10, atol=1e-11)
    # centred with weights: the difference to the mean over rows, on both sides
    own = source.gram().combine(w)
    flat = cross @ w
    centred_values = flat - (flat @ p)[:, None] - own @ p + p @ own @ p
    coef, shift = layout.coefficients(w, c, X, p)
    np.testing.assert_allclose(new @ coef + shift, centred_values @ c, rtol=1e-9, atol=1e-10)
    assert linear_layout([Linear()], [None], table).columns.tolist() == [0, 1, 2, 3]


# ---- probabilities and intervals --------------------------------------------------------------------


@pytest.mark.parametrize("method", ["temperature", "platt", "isotonic"])
@pytest.mark.parametrize("kinds", [2, 3])
def test_curves_count_a_row_of_weight_two_twice(method, kinds, rng):
    values = rng.normal(size=(40, 1 if kinds == 2 else 3))
    codes = rng.integers(0, kinds, 40)
    values += 0.8 * (2.0 * codes[:, None] - 1.0 if kinds == 2 else np.eye(3)[codes])
    weights = rng.integers(0, 4, 40)
    values[3] = np.nan  # no fold had it
    rows = np.repeat(np.arange(40), weights)
    once = calibrate(values, codes, weights.astype(float), method)
    twice = calibrate(values[rows], codes[rows], None, method)
    new = rng.normal(size=(9, values.shape[1]))
    # measured: up to 4e-4 where the slope of probabilities has three digits
    np.testing.assert_allclose(once(new), twice(new), atol=1e-3 if method == "temperature" else 1e-6)
    np.testing.assert_allclose(np.exp(once.logarithms(new)), once(new), rtol=1e-12)
    np.testing.assert_allclose(once(new).sum(axis=1), 1.0, rtol=1e-12)
    if method == "platt":
        kept = np.isfinite(values[:, 0])
        f, w = values[kept], weights[kept].astype(float)
        expected = np.column_stack(
            [platt(f[:, j], codes[kept] == (1 if kinds == 2 else j), w, new[:, j]) for j in range(f.shape[1])]
        )
        expected = (
            np.column_stack([1 - expected, expected])
            if kinds == 2
            else expected / expected.sum(axis=1, keepdims=True)
        )
        np.testing.assert_allclose(once(new), expected, atol=1e-5)
    if method == "temperature":
        slope = float(once.curves[0][0])
        kept = np.isfinite(values[:, 0])
        both = np.column_stack([np.zeros(40), values]) if kinds == 2 else values
        total = weights[kept].sum()
        target = (np.eye(kinds)[codes[kept]] * total + 1 / kinds) / (total + 1)

        def loss(s):
            return -weights[kept] @ (target * log_softmax(s * both[kept], axis=1)).sum(axis=1)

        assert loss(slope) <= min(loss(0.99 * slope), loss(1.01 * slope))


def platt(f, right, weights, new):
    """Platt's sigmoid with his targets, by minimising its log loss."""
    n1, n0 = weights[right].sum(), weights[~right].sum()
    t = np.where(right, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))

    def loss(v):
        z = v[0] * f + v[1]
        p = expit(z)
        return weights @ (np.logaddexp(0, z) - t * z), np.array([weights * (p - t) @ f, weights @ (p - t)])

    a, b = minimize(loss, [0.0, 0.0], jac=True, method="BFGS", options={"gtol": 1e-9}).x
    return expit(a * new + b)


def test_curves_that_are_zero_for_all_classes_say_nothing():
    never = np.array([[0.0, 1.0], [0.0, 0.0]])
    rises = np.array([[0.0, 1.0], [0.0, 0.8]])
    found = Calibration("isotonic", (never, rises, never))(np.array([[0.5, 0.0, 0.5], [0.5, 0.5, 0.5]]))
    np.testing.assert_allclose(found, [[1 / 3, 1 / 3, 1 / 3], [0.0, 1.0, 0.0]], rtol=1e-14)
    labels = Calibration("isotonic", (never, rises), multilabel=True)(np.array([[0.5, 0.5]]))
    np.testing.assert_allclose(labels, [[0.0, 0.4]], rtol=1e-14)


def test_rows_that_no_fold_had_are_left_out(rng):
    task, _, Y, weight = make_task(rng, n=6, outputs=2)
    values = rng.normal(size=(6, 2))
    values[1, 0] = values[4] = np.nan
    held = OutOfFold.of(task, RLS2(), values)
    rows = [0, 2, 3, 5]
    for found, wanted in ((held.values, values), (held.truth, Y), (held.weights, weight)):
        np.testing.assert_array_equal(found, wanted[rows])
    assert OutOfFold.of(task, RLS2(), np.full((6, 2), np.nan)) is None
    apart = replace(task, targets=(Y[:, :1], Y[:, 1:]))
    np.testing.assert_array_equal(OutOfFold.of(apart, RLS2(), values).truth, Y[rows])
    classes, *_ = make_task(rng, n=6, outputs=3, classes=True)
    np.testing.assert_array_equal(OutOfFold.of(classes, RLS2(), values).truth, classes.codes[rows])


def test_intervals_are_quantiles_of_weighted_errors():
    """Errors 1, 2, 3, 4 with weights 3, 1, 2, 4, and a new row of weight 1 that may be anywhere: 11 in all."""
    values = np.zeros((4, 2))
    truth = np.array([[-3.0, 1.0], [1.0, 0.0], [4.0, 0.0], [-2.0, 0.0]])
    held = OutOfFold(values, truth, np.array([2.0, 3.0, 4.0, 1.0]))
    # reached by 1: 3 of 11, by 2: 4, by 3: 6, by 4: 10; in the other column only row 0 has an error
    for coverage, first, second in (
        (3 / 11, 1.0, 0.0),
        (0.3, 2.0, 0.0),
        (6 / 11, 3.0, 0.0),
        (0.6, 4.0, 0.0),
        (0.8, 4.0, 1.0),
    ):
        np.testing.assert_array_equal(held.half_widths(coverage), [first, second])
        np.testing.assert_array_equal(held.unlinked.half_widths(coverage), [first, second])
    np.testing.assert_array_equal(held.half_widths(10 / 11), [4.0, 1.0])
    with pytest.raises(kw.InputError, match="at least 19 training rows, got 10"):
        held.half_widths(0.95)
    codes = OutOfFold(
        np.array([[0.5], [2.0], [-1.0], [0.0]]), np.array([1, 1, 0, 0]), np.array([1.0, 3.0, 2.0, 2.0])
    )
    low = codes.lowest_shares(0.5, 2.0)
    # class 1 has the costs log(1 + e^-4) with weight 3 and log(1 + e^-1) with weight 1: the first reaches half of 5;
    # class 0 has log(1 + e^-2) and log 2 with weight 2 each: the second does
    np.testing.assert_allclose(low, [-np.log(2.0), -np.log1p(np.exp(-4.0))], rtol=1e-12)
    assert np.isneginf(codes.lowest_shares(0.95, 2.0)).all()


# ---- products with coefficients -------------------------------------------------------------------------------

#: With features, of distances, of angles, without a statistic, and of prepared columns.
KINDS = (
    Linear().on([0, 2]),
    Polynomial(degree=2).prepared("standardize"),
    RBF(gamma=0.3).prepared("standardize"),
    Laplacian(gamma=0.2).prepared("standardize"),
    3.0 * RBF(gamma=0.1),
    ArcCosine(degree=1),
    RBF(gamma=0.4).on([0]) * RBF(gamma=0.2).on([1]),
)


def by_hand(rule, K, cross, own, p):
    """Values of new rows after normalisation, without factors."""
    if rule == "cosine":
        return cross / np.sqrt(np.diag(K)) / np.sqrt(own)[:, None]
    if rule == "center":
        return cross - (cross @ p)[:, None] - K @ p + p @ K @ p
    return cross


@pytest.mark.parametrize("rule", [None, "center", "cosine"])
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"source.PIECE_BYTES": 8 * 30 * 32},
        {"source.CHUNK_BYTES": 8 * 30 * 32},
        {"prediction.FEATURES": 60},
    ],
)
def test_products_are_those_of_normalised_matrices(rule, limits, rng, monkeypatch):
    """In one chunk, in several, and with coefficients that are not kept."""
    for name, limit in limits.items():
        monkeypatch.setattr(f"kernelweave.fitting.{name}", limit)
    task, X, _, weight = make_task(rng, 30, kernels=KINDS, normalize=rule)
    fitted, new = problems_of(task)[0].normalizer, rng.normal(size=(70, 3))
    coefs = {m: rng.normal(size=(30, 2)) for m in range(len(KINDS))}
    for m in (2, 4):
        coefs[m][::2] = 0.0  # rows that are left out
        coefs[m] -= (coefs[m] != 0) * coefs[m].sum(axis=0) / 15  # and no sum that brings them back
    found = {m: np.full((70, 2), np.nan) for m in coefs}
    products = Products(task.source, fitted, np.arange(len(KINDS)), coefs.__getitem__)
    for _ in range(2):
        for where, m, part in products.of(Table(new)):
            found[m][where] = part
    for m, kernel in enumerate(task.source.kernels):
        K, cross = kernel(X), kernel(new, X)
        expected = by_hand(rule, K, cross, kernel.diag(new), weight / weight.sum()) @ coefs[m]
        np.testing.assert_allclose(found[m], expected, rtol=1e-9, atol=1e-11, err_msg=kernel.label)


def test_products_of_centred_features_lose_no_digits_to_a_large_mean(rng):
    """Errors up to 6e-12 of the largest were measured; through inner products of rows as they are, 4e-8."""
    task, X, _, _ = make_task(rng, 60, kernels=(Linear(),), normalize="center")
    far = replace(task, source=TableSource([Linear()], Table(X + 1e4), max_memory=1e9))
    C, new = rng.normal(size=(60, 1)), rng.normal(size=(5, 3))
    near, apart = (
        next(Products(t.source, problems_of(t)[0].normalizer, np.array([0]), lambda m: C).of(Table(rows)))[2]
        for t, rows in ((task, new), (far, new + 1e4))
    )
    np.testing.assert_allclose(apart, near, rtol=0, atol=1e-10 * np.abs(near).max())


def test_copies_of_a_model_leave_out_what_follows_from_the_rest(rng):
    X = rng.normal(size=(300, 3))
    model = kw.MKLRegressor([RBF(gamma=0.3), Linear()], "rls2", alpha=1.0).fit(X, X[:, 0])
    size, before = len(pickle.dumps(model)), model.predict(X)
    # coefficients alone take 2,400 bytes, and rows 7,200
    assert abs(len(pickle.dumps(model)) - size) < 1000
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), before)


@pytest.mark.parametrize("relax", [None, "auto"])
def test_an_interrupted_search_returns_the_folds_that_are_complete(rng, relax):
    """Whatever is being scored when Ctrl-C comes."""
    task, _, _, weight = make_task(rng, n=30)
    learner, alphas = RLS2(relax=relax), np.geomspace(30.0, 1e-4, 20)
    folds = [(np.setdiff1d(np.arange(30), test), test) for test in np.arange(30).reshape(3, 10)]
    plain = negative_squared_error(task.targets, weight)

    def search(at):
        calls = []

        def score(f, test):
            calls.append(len(test))
            if len(calls) == at:
                raise KeyboardInterrupt
            return plain(f, test)

        both = Search(task, learner, folds, alphas, score)
        begun = both.begin()
        return begun, both.scores(begun=begun), len(calls)

    begun, whole, n_calls = search(0)
    assert not begun.interrupted
    assert not whole.interrupted
    n_ridges = 1 if relax is None else begun.relax.shape[1]
    for at in range(1, n_calls + 1, 1 if relax is None else 17):
        try:
            _, found, _ = search(at)
        except KeyboardInterrupt:
            # no fold was complete
            assert at <= 10 * n_ridges
            continue
        assert found.interrupted
        assert np.isfinite(found.scores).all()
        assert (np.diff(found.positions) > 0).all()
        assert 1 <= len(found.scores) <= 3
        # nothing is scored twice, and all that was complete is there
        assert found.scores.size <= at - 1
        for own, values in zip(found.scores, found.values, strict=False):
            assert own.shape == values.shape[: own.ndim]


def test_typical_targets_are_means_and_most_frequent_classes_by_weight(rng):
    weight = np.r_[np.full(14, 1.0), np.full(10, 3.0)]

    def typical(targets, **kinds):
        task, *_ = make_task(rng)
        return replace(task, targets=targets, **{"sample_weight": weight, **kinds}).typical

    Y = rng.normal(size=(24, 2))
    np.testing.assert_allclose(typical((Y,))[0], [weight @ Y / weight.sum()], rtol=1e-12)
    # the first classes have more rows, and the last one more weight
    codes = np.repeat([0, 1, 2], [7, 7, 10])
    one_each = tuple(np.where(codes == k, 1.0, -1.0)[:, None] for k in range(3))
    assert np.ravel(typical(one_each, classification=True)).tolist() == [-1.0, -1.0, 1.0]
    # which factors of classes do not change
    factors = np.array([50.0, 1.0, 1.0])
    own = {"class_weight": factors, "sample_weight": weight * factors[codes]}
    assert np.ravel(typical(one_each, classification=True, **own)).tolist() == [-1.0, -1.0, 1.0]
    halves = tuple(np.where(rows, 1.0, -1.0)[:, None] for rows in (np.arange(24) < 14, np.arange(24) >= 14))
    found = typical(halves, classification=True, multilabel=True)
    assert np.ravel(found).tolist() == [-1.0, 1.0]


def test_kernels_are_left_out_only_where_a_task_asks_for_it(rng):
    """One of a column that says nothing of the target."""
    task, *_ = make_task(rng, kernels=(Linear().on([0]), Linear().on([2])))
    for one, wanted in ((task, []), (replace(task, screen=True), [1])):
        [problem] = problems_of(one)
        assert np.concatenate([*problem.uninformative.values()]).tolist() == wanted


# ---- small parts, alone -----------------------------------------------------------------------------


def test_probabilities_of_a_loss_by_hand(rng):
    f = rng.normal(size=(6, 3))
    learner = SimpleNamespace(log_probability=lambda f: np.log(expit(2.0 * f)))
    own = expit(2.0 * f)
    for values, multilabel, wanted in (
        (f, False, own / own.sum(axis=1, keepdims=True)),
        (f, True, own),
        (f[:, :1], True, own[:, :1]),
        (f[:, :1], False, np.column_stack([1.0 - own[:, 0], own[:, 0]])),
    ):
        found = log_probabilities(learner, values, multilabel=multilabel)
        np.testing.assert_allclose(np.exp(found), wanted, rtol=1e-12)
    assert log_probabilities(SimpleNamespace(log_probability=lambda f: None), f) is None


@pytest.mark.parametrize("kinds", [2, 3])
def test_offsets_have_the_smallest_log_loss(kinds, rng):
    """Beside a slope, with a row more of all classes in equal parts, whose weights are those of the others."""
    n = 200
    codes = rng.choice(kinds, size=n, p=np.array([0.7, 0.2, 0.1])[:kinds] / sum([0.7, 0.2, 0.1][:kinds]))
    weight = rng.uniform(0.3, 3.0, n)
    each = 3.0 * rng.normal(size=(n, kinds)) + 4.0 * np.eye(kinds)[codes] + [1.0, -2.0, 0.5][:kinds]
    values = each if kinds > 2 else each[:, 1:] - each[:, :1]
    f = values if kinds > 2 else np.column_stack([np.zeros(n), values])
    share = (np.eye(kinds)[codes] * weight.sum() + 1.0 / kinds) / (weight.sum() + 1.0)
    best = minimize(
        lambda v: -weight @ (share * log_softmax(v[0] * f + np.r_[0.0, v[1:]], axis=1)).sum(axis=1),
        np.r_[0.3, np.zeros(kinds - 1)],
        method="BFGS",
        options={"gtol": 1e-7},
    ).x
    wanted = np.r_[0.0, best[1:]] / best[0]
    wanted = wanted - wanted.mean() if kinds > 2 else wanted[1:]
    found = best_offsets(values, codes, weight)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    # units of the values are those of the offsets; no values, and values that tell nothing apart, have none
    np.testing.assert_allclose(best_offsets(50.0 * values, codes, weight), 50.0 * found, rtol=1e-5)
    for nothing in (0.0 * values, 1e-9 * values + 1.0, -values):
        assert best_offsets(nothing, codes, weight).tolist() == [0.0] * values.shape[1]


def test_ends_of_intervals():
    """Two models: between the lower prediction less the half width, and the upper more it."""
    asked = []

    def half_widths(coverage, other):
        asked.append((coverage, other))
        return np.array([0.5, -3.0])

    learner = SimpleNamespace(prediction=lambda f: np.maximum(f, 0.25))
    model = SimpleNamespace(out_of_fold=SimpleNamespace(half_widths=half_widths), learner=learner)
    low, high = Model.ends(model, np.array([[2.0, 4.0], [0.5, 1.0]]), 0.8)
    assert low.tolist() == [[1.5, 4.0], [0.25, 1.0]]
    assert high.tolist() == [[2.5, 4.0], [1.0, 1.0]]
    upper = SimpleNamespace(out_of_fold="theirs")
    low, high = Model.ends(model, np.array([[2.0, 4.0]]), 0.7, (upper, np.array([[1.0, 12.0]])))
    assert (low.tolist(), high.tolist()) == ([[0.5, 7.0]], [[2.5, 9.0]])
    assert asked == [(0.8, None), (0.7, "theirs")]
    # never less than nothing: the point between both
    low, high = Model.ends(model, np.array([[2.0, 4.0]]), 0.7, (upper, np.array([[2.0, 5.0]])))
    assert (low.tolist(), high.tolist()) == ([[1.5, 4.5]], [[2.5, 4.5]])


@pytest.mark.parametrize("normalize", ["center", "cosine", None])
def test_sparse_rows_are_predicted_as_dense_ones(normalize, rng):
    """Features of kernels with few columns, beside a kernel that compares rows."""
    X = rng.normal(size=(40, 4)) + 1.0
    X[rng.uniform(size=X.shape) < 0.4] = 0.0
    X[:, 0] += 1.0
    y = X @ [1.0, -1.0, 0.5, 0.0]
    kernels, learner = (
        [Linear().on([0, 1]), Linear().on([0, 2, 3]), RBF(gamma=0.3)],
        Uniform(C=3.0, loss="squared", tol=1e-10),
    )
    dense = kw.MKLRegressor(kernels, learner, normalize=normalize).fit(X[:30], y[:30])
    thin = kw.MKLRegressor(kernels, learner, normalize=normalize).fit(sparse.csr_array(X[:30]), y[:30])
    np.testing.assert_allclose(thin.weights_, dense.weights_, rtol=1e-6, atol=1e-8)
    assert np.all(dense.weights_ > 0)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), dense.predict(X), rtol=1e-6)
    # what the kernels add is the prediction, up to the intercept, which is that of no kernel
    parts = dense.kernel_contributions(X)
    rest = dense.predict(X) - parts.sum(axis=1)
    np.testing.assert_allclose(rest, rest[0], rtol=1e-8)
    np.testing.assert_allclose(thin.kernel_contributions(sparse.csr_array(X)), parts, rtol=1e-5, atol=1e-7)


def test_parts_of_a_task_go_with_its_rows(rng):
    task, _, Y, weight = make_task(rng, classes=True)
    more = {"costs": np.array([0.5, 4.0]), "groups": np.arange(24) // 3, "evidence": rng.normal(size=(24, 2))}
    task = replace(task, **more)
    wanted = np.where(Y[:, 0] > 0, 4.0, 0.5) * weight
    np.testing.assert_allclose(task.weights_of(0), wanted, rtol=1e-14)
    bare = replace(task, sample_weight=None)
    np.testing.assert_allclose(bare.weights_of(0) * weight, wanted, rtol=1e-14)
    rows = np.array([7, 1, 20, 7])
    some = task.take(rows)
    for name in ("groups", "evidence", "sample_weight"):
        np.testing.assert_array_equal(getattr(some, name), getattr(task, name)[rows])
    np.testing.assert_array_equal(some.targets[0], task.targets[0][rows])
    np.testing.assert_array_equal(some.source.table.values, task.source.table.values[rows])
    np.testing.assert_allclose(some.weights_of(0), wanted[rows], rtol=1e-14)
    assert bare.take(rows).sample_weight is None


def test_folds_of_one_class_are_predicted_as_it(rng):
    task, _, Y, _ = make_task(rng, normalize=None, classes=True)
    rows = np.argsort(Y[:, 0], kind="stable")
    less = int((Y < 0).sum())
    folds = [(rows[:less], rows[less:]), (rows[less:], rows[:less])]
    found = score_costs(
        task, problems_of(task), SquaredHinge(), LpBall(2.0), np.arange(24), folds, np.array([1.0, 3.0]),
        lambda f, test: float(f.mean()),
    )  # fmt: skip
    assert found.scores.tolist() == [[-1.0, -1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("spread", "beyond", "left"),
    [
        # one good kernel speaks for its column, and the other column is beyond chance in none
        ([0.1, 0.2, 0.3, 0.4], [9.0, -1.0, 1.9, 0.0], [2, 3]),
        ([0.1, 0.2, 0.3, 0.4], [9.0, -1.0, 0.0, 2.0], []),
        # the best column stays where none is beyond chance
        ([0.1, 0.2, 0.3, 0.4], [0.0, -1.0, 1.0, 0.5], [0, 1]),
        # an identity goes whatever it is aligned with, and a constant kernel stays
        ([0.95, 0.2, 0.3, 0.0], [9.0, 1.0, 3.0, 9.0], [0, 1]),
        ([0.94, 0.2, 0.3, 0.0], [9.0, 1.0, 1.0, 9.0], [2]),
        ([0.1, 0.2, 1.0, 1.0], [0.5, 0.2, 9.0, 9.0], [2, 3]),
    ],
)
def test_columns_without_information_are_left_out(spread, beyond, left, rng, monkeypatch):
    asked = []

    def measured(gram, targets, weight):
        asked.append((targets, weight))
        return np.array(spread), np.array(beyond)

    monkeypatch.setattr("kernelweave.fitting.task.spread_and_alignment", measured)
    kernels = [kernel.on([k]) for k in range(2) for kernel in (Linear(), RBF(gamma=0.3))]
    task, _, Y, weight = make_task(rng, outputs=2, kernels=kernels, screen=True)
    # units of the targets do not count
    [problem] = problems_of(replace(task, targets=(Y * [1.0, 1000.0] + 7.0,)))
    assert sorted(np.concatenate([*problem.uninformative.values()]).tolist()) == left
    (targets, own) = asked.pop()
    assert own is weight
    np.testing.assert_allclose(weight @ targets, 0.0, atol=1e-9)
    np.testing.assert_allclose(weight @ targets**2 / weight.sum(), 1.0, rtol=1e-12)
    # those of one target, and other evidence, are looked at as they are
    problems_of(replace(task, targets=(Y[:, :1],)))
    np.testing.assert_array_equal(asked.pop()[0], Y[:, :1])
    problems_of(replace(task, evidence=Y[:, 1:] + 3.0))
    np.testing.assert_array_equal(asked.pop()[0], Y[:, 1:] + 3.0)


# ---- whole answers ----------------------------------------------------------------------------------

MIXED = (
    Linear().on([0, 2]),
    Polynomial(degree=2).prepared("standardize"),
    RBF(gamma=0.3).prepared("standardize"),
    Laplacian(gamma=0.2),
    RBF(gamma=0.4).on([0]) * RBF(gamma=0.2).on([1]),
)


def made_task(kernels=MIXED, n=22, normalize="center", kind="numbers", explicit=False, **more):
    """A task with weights of rows: two numbers, three classes, or two labels with factors of classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    Y = X @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(n, 3))
    weight = rng.uniform(0.3, 3.0, n)
    if kind == "numbers":
        targets = (Y[:, :2],)
    elif kind == "classes":
        targets = tuple(np.where(np.eye(3)[np.argmax(Y, axis=1)] > 0, 1.0, -1.0).T[:, :, None])
    else:
        targets = tuple(np.where(Y[:, :2] > 0.3, 1.0, -1.0).T[:, :, None])
        more = {"multilabel": True, "class_weight": np.array([[1.0, 5.0], [0.5, 2.0]]), **more}
    more = {"fit_intercept": kind == "numbers", "classification": kind != "numbers", "flat": False, **more}
    options = {"standardize": explicit == "linear", "explicit": explicit is True, "sample_weight": weight}
    source = TableSource(list(kernels), Table(X), max_memory=1e9, **options)
    return Task(source, targets, weight, resolve(normalize), None, **more)


def made_model(task, learner=None, **more):
    """A model with numbers of nobody's fit: the second kernel has no weight in the first output."""
    rng = np.random.default_rng(1)
    problems = problems_of(task)
    n, m, k = task.source.n_samples, task.source.n_kernels, task.n_outputs
    weights = rng.uniform(0.2, 1.0, size=(k, m))
    weights[0, 1] = weights[:, -1] = 0.0
    own = {
        "weights": weights, "dual_coef": rng.normal(size=(n, k)), "intercept": rng.normal(size=k),
        "owner": np.repeat(np.arange(len(problems)), [len(p.intercept) for p in problems]),
    }  # fmt: skip
    normalizers = tuple(p.normalizer for p in problems)
    return Model(task, learner or RLS2(alpha=0.5, tol=1e-12), 0.5, 0.5, normalizers, **{**own, **more})


def features_of(task, seed=2):
    """Coefficients of the features of all kernels, but for one without any."""
    rng = np.random.default_rng(seed)
    gram = task.source.gram()
    coef = rng.normal(size=(len(gram.rows), task.n_outputs))
    coef[gram.offsets[1] : gram.offsets[2]] = 0.0
    return FeatureForm(coef, gram.offsets, problems_of(task)[0].means)


def answers(model, new):
    """All that a model says of new rows and of itself, but for what needs fits."""
    stds = [model.posterior_std(new, np.linspace(0.5, 2.0, model.n_outputs))] if model.layers == () else []
    linear = None if model.linear is None else [model.linear.coef, model.linear.intercept]
    return {
        "decision": model.decision(new),
        "contributions": model.contributions(new),
        "std": stds,
        "effective": model.effective,
        "shares": model.weight_shares,
        "sources": model.sources,
        "constant": model.constant_outputs,
        "table": model.table_of_weights(),
        "weights": [model.weights_of(k) for k in range(model.n_outputs)],
        "linear": linear,
        "rows": needs_rows(model),
    }


PLAIN = (Linear().on([0]), Linear().prepared("standardize").on([1, 2]), 0.5 * Linear())
EXPLICIT = (Linear().on([0]), Polynomial(degree=2).on([1]), Linear().on([1, 2]), Polynomial(degree=2).on([0]))


CASES = [
    (MIXED, {}),
    (MIXED, {"normalize": "cosine", "kind": "classes"}),
    (MIXED, {"normalize": "within-class", "kind": "classes"}),
    (MIXED, {"normalize": "norm", "kind": "labels"}),
    (PLAIN, {"explicit": "linear"}),
    (PLAIN, {"explicit": "linear", "normalize": "trace", "kind": "labels"}),
    (EXPLICIT, {"explicit": True}),
    (EXPLICIT, {"explicit": True, "normalize": "cosine", "kind": "classes"}),
    (EXPLICIT[:3], {"normalize": "none"}),
    (EXPLICIT[:3], {"normalize": "cosine", "kind": "labels"}),
]


def test_a_model_says_what_it_said(recorded, monkeypatch):
    """Of new rows, at once and a few at a time, and without its training rows."""
    for number, (kernels, options) in enumerate(CASES):
        task = made_task(kernels, **options)
        explicit = options.get("explicit") is True
        model = made_model(task, features=features_of(task) if explicit else None)
        new = Table(np.random.default_rng(3).normal(size=(9, 3)))
        said = answers(model, new)
        recorded(f"answers {number}", said)
        if not explicit:
            np.testing.assert_allclose(
                said["contributions"].sum(axis=1) + model.intercept, said["decision"], atol=1e-9
            )
        lean = None if said["rows"] else without_rows(model)
        if lean is not None:
            assert lean.source.n_samples == 22
            assert [len(lean.dual_coef), len(lean.source.table.values), lean.task.sample_weight] == [
                0,
                0,
                None,
            ]
            np.testing.assert_allclose(lean.decision(new), said["decision"], rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(lean.contributions(new), said["contributions"], rtol=1e-9, atol=1e-10)
            for name in ("effective", "weight_shares", "constant_outputs"):
                np.testing.assert_array_equal(getattr(lean, name), getattr(model, name))
            for one, other in zip(lean.task.targets, task.typical, strict=True):
                np.testing.assert_array_equal(one, other)
            again = without_rows(lean)
            np.testing.assert_allclose(again.decision(new), said["decision"], rtol=1e-9, atol=1e-10)
            assert again.source is lean.source
        for limit in (
            {"source.CHUNK_BYTES": 8 * 22 * 4, "source.PIECE_BYTES": 8 * 22},
            {"prediction.FEATURES": 20},
        ):
            with monkeypatch.context() as patch:
                for name, value in limit.items():
                    patch.setattr(f"kernelweave.fitting.{name}", value)
                for one in (model, lean or model):
                    other = replace(one)  # nothing is known before
                    np.testing.assert_allclose(other.decision(new), said["decision"], rtol=1e-9, atol=1e-10)
                    np.testing.assert_allclose(
                        other.contributions(new), said["contributions"], rtol=1e-9, atol=1e-10
                    )
                if not model.layers:
                    other = replace(model)
                    std = other.posterior_std(new, np.linspace(0.5, 2.0, model.n_outputs))
                    np.testing.assert_allclose(std, said["std"][0], rtol=1e-8, atol=1e-9)


def test_infinite_ridges_and_constant_targets():
    new = Table(np.random.default_rng(3).normal(size=(4, 3)))
    task = made_task()
    model = made_model(task)
    assert not replace(model, ridge=np.inf).posterior_std(new, np.ones(2)).any()
    explicit = made_task(EXPLICIT, explicit=True)
    infinite = replace(made_model(explicit, features=features_of(explicit)), ridge=np.inf)
    assert not infinite.posterior_std(new, np.ones(2)).any()
    fixed = replace(task, targets=(np.column_stack([task.targets[0][:, 0], np.full(22, 3.0)]),))
    one = made_model(fixed)
    assert one.constant_outputs.tolist() == [False, True]
    np.testing.assert_allclose(one.weight_shares, one.weights[0] / one.weights[0].sum())
    every = replace(one, constant=np.array([True, True]))
    np.testing.assert_allclose(every.weight_shares, one.weights[0] / one.weights[0].sum())
    # weights of nothing
    none = replace(one, weights=np.zeros((2, 5)))
    assert none.weight_shares.tolist() == [0.0] * 5
    assert replace(none, weights=np.zeros(5)).weight_shares.tolist() == [0.0] * 5
    np.testing.assert_array_equal(none.decision(new), np.repeat(none.intercept[None], 4, axis=0))
    assert fractions_of(np.array([[1.0, 3.0], [0.0, 0.0]]), axis=1).tolist() == [[0.25, 0.75], [0.0, 0.0]]
    # the shift belongs to decisions, and not to probabilities
    assert model.undecided(np.ones((1, 2))).tolist() == [[1.0, 1.0]]
    assert replace(model, shift=np.array([0.5, 2.0])).undecided(np.ones((1, 2))).tolist() == [[0.5, -1.0]]


@pytest.mark.parametrize("rule", ["center", "cosine", None])
def test_sums_of_kernels_of_new_rows(rule, monkeypatch):
    """With the training rows and with themselves, in chunks; and none of kernels without a weight."""
    task = made_task(normalize=rule)
    source, new = task.source, Table(np.random.default_rng(3).normal(size=(11, 3)))
    X = source.table.values
    rows = NewRows(source, new, problems_of(task)[0].normalizer)
    weights = np.array([0.5, 0.0, 2.0, 0.3, 1.5])
    wanted, diagonal, p = 0.0, 0.0, task.sample_weight / task.sample_weight.sum()
    for weight, kernel in zip(weights, source.kernels, strict=True):
        K, cross, own = kernel(X), kernel(new.values, X), kernel.diag(new.values)
        wanted = wanted + weight * by_hand(rule, K, cross, own, p)
        inner = (
            own - 2.0 * cross @ p + p @ K @ p
            if rule == "center"
            else np.ones(11)
            if rule == "cosine"
            else own
        )
        diagonal = diagonal + weight * inner
    for step in (11, 3):
        monkeypatch.setattr("kernelweave.fitting.source.CHUNK_BYTES", 8 * 22 * step)
        found = list(rows.summed(weights))
        assert [(where.start, where.stop) for where, *_ in found] == [
            (k, min(k + step, 11)) for k in range(0, 11, step)
        ]
        np.testing.assert_allclose(np.concatenate([K for _, K, _ in found]), wanted, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(
            np.concatenate([own for *_, own in found]), diagonal, rtol=1e-9, atol=1e-10
        )
    [(where, K, own)] = rows.summed(0.0 * weights)
    assert (where, K.shape, own.shape) == (slice(0, 11), (11, 22), (11,))
    assert not K.any()
    assert not own.any()


def test_models_of_rows_that_are_gone_refuse_what_needs_them(recorded):
    lean = without_rows(made_model(made_task(PLAIN)))
    said = []
    for ask in (
        lambda: lean.source.gram(),
        lambda: lean.source.take(np.arange(2)),
        lambda: lean.source.cross(lean.source.raw, np.arange(2)),
        lambda: lean.source.distinguish(),
    ):
        with pytest.raises(kw.InputError) as error:
            ask()
        said.append(str(error.value))
    assert lean.source.correction(0) is None
    recorded("refused", said)
    # what needs its rows
    layered = SimpleNamespace(functions=((ArcCosine(degree=1),),))
    reasons = [
        needs_rows(made_model(made_task(MIXED))),
        needs_rows(made_model(made_task(PLAIN), layers=(layered, None))),
        needs_rows(SimpleNamespace(source=SimpleNamespace())),
        needs_rows(made_model(made_task((*PLAIN, RBF(gamma=1.0))))),
        needs_rows(made_model(made_task((RBF(gamma=1.0), *PLAIN)))),
    ]
    recorded("reasons", reasons)
    views = {"one": (0,), "two": (1, 2)}
    partial = PartialSource(
        [Linear().on([0], name="one"), Linear().on([1, 2], name="two")], lean.task.source.table.like(np.ones((3, 3))),
        views=views, how="complete", max_memory=1e9,
    )  # fmt: skip
    gone = RowlessSource.of(partial)
    assert (gone.views, gone.n_samples) == (views, 3)
    rows = np.ones((2, 3))
    assert gone.accepted(as_table(rows, missing=True)).n_rows == 2
    rows[1, 1:] = np.nan
    with pytest.raises(kw.InputError, match="A row that lacks a view needs the training rows"):
        gone.accepted(as_table(rows, missing=True))


def test_matrices_have_views_by_their_names():
    bank = kw.KernelBank(np.ones((3, 3, 3)), names=["genes: Linear", "Linear on age", "genes: RBF"])
    model = SimpleNamespace(source=BankSource(bank, np.arange(3)))
    assert Model.views.fget(model) == ["genes", "age", "genes"]
    assert BankSource(bank, np.arange(2)).read_queries([[2], [1]], 1).tolist() == [2, 1]


def test_equal_rows_have_no_folds():
    task = made_task(PLAIN, n=8)
    same = TableSource(task.source.kernels, Table(np.ones((8, 3))), max_memory=1e9)
    with pytest.raises(kw.InputError, match="need training rows that differ; all of these are equal"):
        OutOfFold.refitted(replace(task, source=same, targets=(np.ones((8, 2)),)), RLS2(alpha=1.0), 1.0)


def test_features_of_constant_kernels_add_nothing():
    """Kernels that centring leaves nothing of, among those with features."""
    task = made_task((Linear().on([0]), Constant(2.0), Linear().on([1, 2])), explicit=True)
    model = made_model(task, features=features_of(task), weights=np.ones((2, 3)))
    assert model.normalizers[0].constant.tolist() == [False, True, False]
    new = Table(np.random.default_rng(3).normal(size=(4, 3)))
    parts = model.contributions(new)
    assert not parts[:, 1].any()
    np.testing.assert_allclose(parts.sum(axis=1) + model.intercept, model.decision(new), rtol=1e-10)
    assert not model.effective[:, 1].any()
    [(where, phi)] = NewRows(task.source, new, model.normalizers[0]).features(model.features)
    assert (where, phi.shape) == (slice(0, 4), (4, 4))
    assert not phi[:, 1].any()
    means = task.sample_weight @ task.source.table.values / task.sample_weight.sum()
    np.testing.assert_allclose(phi[:, [0, 2, 3]], new.values - means)


def test_views_are_read_from_labels():
    for label, view in (
        ("genes: RBF(gamma=0.1)", "genes"),
        ("Linear on age", "age"),
        ("RBF(gamma=2) on size, weight", "size, weight"),
        ("a: b: Linear", "a: b"),
        ("genes: 2 * Linear + RBF(gamma=1)", "genes"),
        ("f(x: y): more", "f(x: y): more"),
        ("Linear on a + RBF on b", "a + RBF on b"),
        ("2 * Linear on age", "age"),
        ("kernel 3", "kernel 3"),
    ):
        assert view_in(label) == view


@pytest.mark.parametrize("kind", ["numbers", "classes", "labels"])
def test_what_folds_say_of_a_model_is_what_they_said(kind, recorded):
    """Values out of fold, curves of probabilities, intervals and sets."""
    more = {} if kind != "classes" else {"class_weight": np.array([2.0, 0.5, 1.0])}
    task = made_task(PLAIN, n=30, kind=kind, **more)
    model = made_model(task)
    held = model.out_of_fold
    # fits of tolerance 1e-12
    recorded("held", [held.values, held.truth, held.weights], rtol=1e-4)
    recorded("unlinked", [held.unlinked.values, held.unlinked.truth, held.unlinked.weights], rtol=1e-4)
    assert replace(model, held=held).out_of_fold is held
    if kind == "numbers":
        recorded("ends", [model.ends(np.array([[1.0, -2.0]]), c) for c in (0.5, 0.8)], rtol=1e-4)
    else:
        curves = model.calibration
        recorded("curves", [curves.method, curves.multilabel, curves.curves], rtol=1e-2)
        new = np.linspace(-2.0, 2.0, 4)[:, None] * np.linspace(0.5, 1.0, task.n_outputs)
        np.testing.assert_allclose(np.log(curves(new)), curves.logarithms(new), atol=1e-12)
    if kind == "classes":
        recorded("sets", held.lowest_shares(0.6, 1.3), rtol=1e-4)
    lean = without_rows(model)
    np.testing.assert_array_equal(lean.out_of_fold.values, held.unlinked.values)


def test_solutions_of_all_problems_are_one_model():
    """Shifts, offsets, ridges and layers of each."""
    task = made_task(PLAIN, kind="classes")
    problems = problems_of(task)
    n = task.source.n_samples

    def solution(k, **more):
        return SimpleNamespace(
            weights=np.full(3, k + 1.0),
            dual_coef=np.full(n, 10.0 * k),
            intercept=np.array([0.25 * k]),
            **more,
        )

    solved = [SolvedProblem(p, solution(k)) for k, p in enumerate(problems)]
    shift, offset = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])
    held = OutOfFold(np.ones((2, 3)), np.arange(2), np.ones(2))
    own = Model.of(task, RLS2(), 0.7, solved, None, held, shift, offset)
    assert (own.alpha, own.ridge, own.layers, own.layered, own.features, own.held) == (
        0.7,
        0.7,
        (),
        False,
        None,
        held,
    )
    assert own.intercept.tolist() == [11.0, 22.25, 33.5]
    assert own.weights.tolist() == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    assert own.dual_coef[0].tolist() == [0.0, 10.0, 20.0]
    assert own.owner.tolist() == [0, 1, 2]
    assert (own.shift is shift, own.offset is offset) == (True, True)
    assert own.normalizers == tuple(p.normalizer for p in problems)
    upper = SimpleNamespace(weights=(np.ones(1),))
    first = [SolvedProblem(problems[0], solution(0, relax=0.1, upper_layers=(upper,), layer_weights=1))]
    both = Model.of(task, RLS2(), 0.7, [*first, *solved[1:]], None)
    assert (both.ridge, both.layers, both.layered) == (0.1, (upper, None, None), True)
    assert both.intercept.tolist() == [0.0, 0.25, 0.5]
    assert Model.of(task, RLS2(), 0.7, solved[:1], None).weights.tolist() == [1.0] * 3


def test_features_of_solutions_are_their_own_or_follow_from_dual_ones(rng):
    task = made_task(EXPLICIT, explicit=True, kind="classes")
    problems, new = problems_of(task), Table(np.random.default_rng(3).normal(size=(5, 3)))
    gram = problems[0].gram
    n = task.source.n_samples
    dual = rng.normal(size=(3, n))
    weights = rng.uniform(0.5, 1.0, (3, 4))

    def solved(own):
        found = []
        for k, p in enumerate(problems):
            coef = own[:, k] if own is not None else np.zeros(0)
            more = {
                "weights": weights[k],
                "dual_coef": dual[k],
                "intercept": np.zeros(1),
                "feature_coef": coef,
            }
            found.append(SolvedProblem(p, SimpleNamespace(**more)))
        return found

    own = rng.normal(size=(len(gram.rows), 3))
    given = Model.of(task, RLS2(), 1.0, solved(own), None)
    np.testing.assert_array_equal(given.features.coef, own)
    np.testing.assert_array_equal(given.features.offsets, gram.offsets)
    np.testing.assert_array_equal(given.features.means, problems[0].means)
    follows = Model.of(task, RLS2(), 1.0, solved(None), None)
    wanted = replace(follows, features=None).decision(new)
    np.testing.assert_allclose(follows.decision(new), wanted, rtol=1e-9, atol=1e-10)
    layered = solved(None)
    layered[1].solution.upper_layers = (SimpleNamespace(weights=()),)
    assert Model.of(task, RLS2(), 1.0, layered, None).features is None


def test_further_inputs_and_kernels_that_overflow(recorded):
    """Those of a transductive rule count with weight 1 each; an infinite kernel is named."""
    task = made_task((Linear(), RBF(gamma=0.2)), n=12, normalize="trace")
    extra = np.random.default_rng(1).normal(size=(5, 3))
    [plain] = problems_of(task)
    [found] = problems_of(
        replace(task, normalizer=type(task.normalizer)(extra).without_extra(), extra=Table(extra))
    )
    for m, kernel in enumerate(task.source.kernels):
        total = task.sample_weight @ kernel.diag(task.source.table.values)
        own = (total + kernel.diag(extra).sum()) / total
        assert plain.scale[m] / found.scale[m] == pytest.approx(own, rel=1e-9)
    huge = TableSource(
        [Linear(), Polynomial(degree=3)], Table(1e60 * task.source.table.values), max_memory=1e9
    )
    with np.errstate(all="ignore"), pytest.raises(kw.InputError) as error:
        problems_of(replace(task, source=huge))
    recorded("message", str(error.value))
    Y = task.targets[0]
    [some] = problems_of(replace(task, targets=(Y[:, :1], Y[:, 1:])), np.array([1]))
    np.testing.assert_allclose(some.intercept, np.average(Y[:, 1:], axis=0, weights=task.sample_weight))


def test_models_of_categories_are_no_function_of_columns():
    """Codes of categories, and columns with a mark for what is missing, are no numbers."""
    task = made_task((Linear().on([0, 1]), Linear().on([1])))
    values = np.column_stack([task.source.table.values[:, :2], np.arange(22) % 3])
    model = made_model(task)
    assert model.linear is not None
    for table in (Table(values, None, (0, 0, 3)), Table(values, None, (3, 0, 0))):
        source = TableSource(task.source.kernels, table, max_memory=1e9)
        assert replace(model, task=replace(task, source=source)).linear is None
    layered = replace(model, layers=(SimpleNamespace(), None))
    assert layered.linear is None
    assert replace(model, linear_form="known").linear == "known"
    rows = np.where(np.arange(3) == 1, np.nan, values[:4])
    marked = Linear().prepared(Impute(indicator=True)).fitted(as_table(rows, missing=True)).steps[0]
    table = marked.apply(as_table(rows, missing=True))
    assert table.marked.any()
    source = TableSource([Linear(), Linear()], table, max_memory=1e9)
    assert replace(model, task=replace(task, source=source)).linear is None


def test_out_of_fold_values_of_numbers_are_predictions():
    """Of a loss with a link their means, of classes decision values; weights are those of rows without factors."""
    values = np.linspace(-1.0, 1.0, 44).reshape(22, 2)
    learner = Uniform(loss="poisson")
    numbers = made_task(PLAIN)
    np.testing.assert_allclose(OutOfFold.of(numbers, learner, values).values, np.exp(values))
    np.testing.assert_array_equal(OutOfFold.of(numbers, RLS2(), values).values, values)
    np.testing.assert_array_equal(
        OutOfFold.of(made_task(PLAIN, kind="labels"), learner, values).values, values
    )
    classes = made_task(PLAIN, kind="classes", class_weight=np.array([2.0, 0.5, 1.0]))
    held = OutOfFold.of(classes, RLS2(), np.ones((22, 3)))
    np.testing.assert_allclose(held.weights * classes.class_weight[classes.codes], classes.sample_weight)
    assert OutOfFold.of(replace(numbers, sample_weight=None), RLS2(), values).weights.tolist() == [1.0] * 22


def test_parts_of_sources_have_what_kernels_learn_from_targets():
    """Once for the same rows, and again for others; with the targets and weights of these rows."""
    table, rng = made_task().source.raw, np.random.default_rng(1)
    targets, weight = rng.normal(size=(22, 2)), rng.uniform(0.5, 2.0, 22)
    learnt = []

    @dataclass(frozen=True)
    class OfTargets(Linear):
        level: float | None = None

        @property
        def is_fitted(self):
            return self.level is not None

        def _fit(self, rows):
            learnt.append([rows.table.n_rows, None if rows.targets is None else rows.targets.shape])
            return replace(self, level=float(np.sum(rows.targets)))

    source = TableSource(
        [OfTargets(), Linear()], table, max_memory=1e9, sample_weight=weight, targets=targets
    )
    assert source.kernels[0].level == pytest.approx(targets.sum())
    rows, part = np.array([3, 1, 7, 9]), np.array([1, 9])
    some = source.take(rows)
    assert some.kernels[0].level == pytest.approx(targets[rows].sum())
    np.testing.assert_array_equal(some.targets, targets[rows])
    np.testing.assert_array_equal(some.sample_weight, weight[rows])
    assert (some.names, some.given_kernels) == (source.names, [OfTargets(), Linear()])
    again = source.take(rows)
    assert again.kernels == some.kernels
    assert (again.given_kernels, learnt) == (some.given_kernels, [[22, (22, 2)], [4, (4, 2)]])
    # parts of parts are of their own rows
    assert again.take(np.array([2])).kernels[0].level == pytest.approx(targets[7].sum())
    source.learn_as(rows, part)
    assert source.take(rows).kernels[0].level == pytest.approx(targets[part].sum())
    more = {"max_memory": 3e8, "rank_tol": 1e-3, "standardize": True, "imputer": Impute(), "explicit": True}
    for own in (
        TableSource([Linear()], table, **more),
        TableSource([Linear()], table, targets=targets, **more),
    ):
        for part in (own.take(np.arange(5)), own.with_kernels([Linear(), Linear().on([1])])):
            assert {name: getattr(part, name) for name in more} == more
    others = source.with_kernels([OfTargets()])
    assert others.kernels[0].level == pytest.approx(targets.sum())
    np.testing.assert_array_equal(others.sample_weight, weight)
    bare = TableSource([Linear()], table, max_memory=1e9)
    bare.learn_as(rows, part)
    assert bare.take(rows).targets is None
    assert bare.given_kernels is bare.kernels


def test_steps_of_paths_say_what_they_are(recorded):
    task = made_task(PLAIN, kind="classes")
    told = []
    paths = path_task(
        task, problems_of(task)[:2], Uniform(loss="squared"), np.array([10.0, 0.3]), report=told.append
    )
    assert [len(path) for path in paths] == [2, 2]
    recorded("told", [[str(one), one.label, one.problem, one.alpha, one.weights] for one in told])
    one = made_task(PLAIN)
    told.clear()
    path_task(one, problems_of(one), RLS2(), np.array([0.3]), report=told.append, label="rows", steps=True)
    assert told == ["rows: alpha 0.3"]
    assert type(told[0]) is str
