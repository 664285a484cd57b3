"""Kernels that take numbers from training rows: against the same numbers taken by hand.

Modules: `kernels/stationary`, `kernels/steps`, `kernels/training_rows`, `kernels/pairs`, `kernels/composed`,
`kernels/learnt`, `kernels/base`, `kernels/parsing`.
"""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

import kernelweave as kw
from kernelweave import persistence
from kernelweave._checks import InputError
from kernelweave._sparse import to_dense
from kernelweave.fitting.source import TableSource
from kernelweave.kernels import (
    RBF,
    Categorical,
    Constant,
    Custom,
    Impute,
    Laplacian,
    Linear,
    Log1p,
    NormalizeRows,
    Polynomial,
    Prepared,
    Standardize,
    TrainingRows,
    parse,
)
from kernelweave.kernels import training_rows as rows_module
from kernelweave.kernels.pairs import weighted_median
from kernelweave.kernels.steps import column_statistics
from kernelweave.persistence.states import from_state, to_state
from kernelweave.views import Table, as_table


@pytest.fixture
def X(rng):
    return rng.gamma(2.0, 3.0, size=(31, 7)) - 1.0


def standardised(A, weights=None):
    mean = np.average(A, axis=0, weights=weights)
    return (A - mean) / np.sqrt(np.average((A - mean) ** 2, axis=0, weights=weights))


def lengths_one(A):
    return A / np.linalg.norm(A, axis=1, keepdims=True)


def logs(A):
    return np.sign(A) * np.log1p(np.abs(A))


PREPARED = {
    (): lambda A: A,
    ("standardize",): standardised,
    ("normalize-rows",): lengths_one,
    ("log1p",): logs,
    ("log1p", "standardize"): lambda A: standardised(logs(A)),
    ("standardize", "normalize-rows"): lambda A: lengths_one(standardised(A)),
}
RULES = {
    "median": lambda A, metric: 1.0 / np.median(pdist(A, metric)),
    "scale": lambda A, metric: 1.0 / (A.shape[1] * (A.var() if metric == "sqeuclidean" else A.std())),
}


# --- what is taken ---


@pytest.mark.parametrize("steps", PREPARED, ids=str)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("kernel", "metric"), [(RBF, "sqeuclidean"), (Laplacian, "cityblock")])
def test_gamma_by_hand(kernel, metric, rule, steps, X):
    A = PREPARED[steps](X)
    expected = RULES[rule](A, metric)
    k = kernel(gamma=(rule, 4.0)).prepared(*steps)
    fitted = k.fitted(X)
    inner = fitted.kernel if steps else fitted
    assert inner.gamma == pytest.approx(4.0 * expected, rel=1e-12)
    np.testing.assert_allclose(fitted(X), kernel(gamma=4.0 * expected)(A), rtol=1e-10)
    # a kernel that is called before it is fitted is fitted on the training side
    np.testing.assert_array_equal(k(X), fitted(X))
    np.testing.assert_array_equal(k(X[:3], X), fitted(X[:3], X))
    np.testing.assert_array_equal(k.diag(X), fitted.diag(X))


@pytest.mark.parametrize("steps", [steps for steps in PREPARED if steps], ids=str)
def test_prepared_kernels_by_hand(steps, X):
    A = PREPARED[steps](X)
    for k in (
        Linear(),
        Polynomial(2),
        Linear() + RBF(0.1),
        RBF(0.1) * Laplacian(0.2),
        Custom(lambda P, Q: P @ Q.T),
    ):
        prepared = k.prepared(*steps).fitted(X)
        np.testing.assert_allclose(prepared(X), k(A), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(prepared.diag(X), k.diag(A), rtol=1e-9, atol=1e-9)
    linear = Linear().prepared(*steps).fitted(X)
    np.testing.assert_allclose(linear.features(X), A, rtol=1e-12, atol=1e-14)


def test_the_preparation_of_new_rows_is_that_of_the_training_rows(X):
    train, new = X[:20], X[20:]
    k = Linear().prepared("standardize").fitted(train)
    mean, scale = train.mean(axis=0), train.std(axis=0)
    np.testing.assert_allclose(k(new, train), (new - mean) / scale @ ((train - mean) / scale).T, rtol=1e-12)


def test_a_constant_column_and_categories_stay_as_they_are():
    frame = pd.DataFrame({"a": [1.0, 3.0], "b": [5.0, 5.0], "c": ["x", "y"]})
    k = Linear().prepared("standardize")
    np.testing.assert_allclose(k(frame), [[1 + 25 + 1, -1 + 25], [-1 + 25, 1 + 25 + 1]])
    np.testing.assert_allclose(Linear().prepared("log1p").on(["b", "c"]).diag(frame), np.log(6.0) ** 2 + 1)
    # rows are divided with the indicators of their categories
    np.testing.assert_allclose(Linear().prepared("normalize-rows").diag(frame), 1.0)
    assert Categorical().prepared("standardize").on(["c"])(frame).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_rows_without_length_and_of_huge_or_tiny_numbers():
    k = Linear().prepared("normalize-rows")
    rows = np.array([[0.0, 0.0], [3e200, 4e200], [3e-200, 4e-200]])
    np.testing.assert_allclose(k.features(rows), [[0, 0], [0.6, 0.8], [0.6, 0.8]], rtol=1e-15)
    # subnormal numbers, of which 1 / x overflows; they have 13 bits here
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(k.features([[3e-320, 4e-320]]), [[0.6, 0.8]], rtol=1e-4)
        np.testing.assert_allclose(k.features([[0.0, 5e-324]]), [[0.0, 1.0]], rtol=1e-15)


# --- the median ---


def test_equal_rows_are_no_pair():
    # most pairs are pairs of copies
    A = np.repeat([[0.0] * 6, [1.0] * 6, [3.0] * 6], [20, 2, 1], axis=0) + 0.1
    distances = pdist(A, "sqeuclidean")
    expected = np.median(distances[distances > 1e-9])
    assert RBF("median").fitted(A).gamma == pytest.approx(1 / expected, rel=1e-12)


@pytest.mark.parametrize("rule", ["median", "scale"])
@pytest.mark.parametrize("A", [np.full((5, 6), 0.1), np.zeros((4, 2)), np.array([[2.0]])])
def test_equal_rows_have_the_unit_one(A, rule):
    assert RBF((rule, 3.0)).fitted(A).gamma == pytest.approx(3.0 / (A.shape[1] if rule == "scale" else 1.0))


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=8),
    st.lists(st.integers(1, 4), min_size=8, max_size=8),
    st.floats(1e-3, 1e3),
)
@settings(deadline=None)
def test_a_weighted_median_is_that_of_repeated_values(values, weights, factor):
    values, weights = np.array(values, float), np.array(weights[: len(values)], float)
    expected = np.median(np.repeat(values, weights.astype(int)))
    assert weighted_median(values, weights) == expected
    assert weighted_median(values, factor * weights) == expected


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", [RBF("scale"), RBF("median"), Laplacian("median")], ids=repr)
def test_widths_of_weighted_rows_are_those_of_repeated_ones(kernel, form, X, rng):
    """Heavy rows are large, so that neither means nor squares are those of equal weights."""
    A, weights = form(np.where(X > 4.0, X, 0.0)), np.where(X.max(axis=1) > 12.0, 4, 1)
    assert 4 < (weights > 1).sum() < 27
    more = form(np.repeat(np.where(X > 4.0, X, 0.0), weights, axis=0))
    by_weight, repeated = kernel.fitted(A, weights.astype(float)), kernel.fitted(more)
    assert by_weight.gamma == pytest.approx(repeated.gamma, rel=1e-12)
    np.testing.assert_allclose(by_weight(A[:4], A), repeated(A[:4], A), rtol=1e-10)
    assert kernel.fitted(A).gamma != pytest.approx(repeated.gamma, rel=1e-3)


@pytest.mark.parametrize("steps", PREPARED, ids=str)
def test_a_weight_is_a_repetition_and_zero_is_absence(steps, X, rng):
    weights = rng.integers(0, 4, len(X))
    more = np.repeat(X, weights, axis=0)
    for k in (RBF("median"), RBF("scale"), Laplacian("median"), Laplacian("scale")):
        by_weight = k.prepared(*steps).fitted(X, sample_weight=weights)
        repeated = k.prepared(*steps).fitted(more)
        np.testing.assert_allclose(by_weight(X[:5], X), repeated(X[:5], X), rtol=1e-10, atol=1e-12)


def test_the_order_of_rows_does_not_count(X, rng):
    order = rng.permutation(len(X))
    k = (RBF("median") + Laplacian(("scale", 0.5))).prepared("standardize")
    np.testing.assert_allclose(k.fitted(X[order])(X), k.fitted(X)(X), rtol=1e-12)


def test_a_sample_of_many_rows_depends_on_their_content_and_weights_only(monkeypatch, rng):
    monkeypatch.setattr(rows_module, "MEDIAN_ROWS", 200)
    A = rng.normal(size=(600, 3))
    weights = rng.integers(1, 4, 600).astype(float)
    found = TrainingRows(Table(A)).sample
    assert len(found[0]) == 200
    assert len(np.unique(found[0])) == 200
    exact = np.median(pdist(A, "sqeuclidean"))
    assert RBF("median").fitted(A).gamma == pytest.approx(1 / exact, rel=0.15)
    # one machine, one answer: whatever the order, and whether rows are repeated or weighted
    order = rng.permutation(600)
    assert RBF("median").fitted(A[order]).gamma == pytest.approx(RBF("median").fitted(A).gamma, rel=1e-12)
    repeated = np.repeat(A, weights.astype(int), axis=0)
    assert RBF("median").fitted(repeated).gamma == pytest.approx(
        RBF("median").fitted(A, weights).gamma, rel=1e-12
    )
    # a row of half of the weight is half of the sample
    heavy = np.r_[600.0, np.ones(600)]
    rows, counts = TrainingRows(Table(np.r_[np.full((1, 3), 3.0), A]), heavy).sample
    assert counts[rows == 0] == pytest.approx(100.0, abs=1.0)
    assert counts.sum() == 200.0
    # standardising does not change which rows they are, although it rounds
    k = RBF("median").prepared("standardize")
    assert k.fitted(A[order]).kernel.gamma == pytest.approx(k.fitted(A).kernel.gamma, rel=1e-12)
    # up to that many distinct rows all pairs count
    few = np.repeat(A[:200], 3, axis=0)
    assert RBF("median").fitted(few).gamma == pytest.approx(
        1 / np.median(pdist(A[:200], "sqeuclidean")), rel=1e-12
    )


# --- values ---


KERNELS = [
    RBF("median"),
    RBF(("median", 4.0)),
    RBF("scale"),
    Laplacian(("scale", 0.25)),
    Linear().prepared("standardize"),
    Linear().prepared("log1p", "standardize").on([0, 2], name="v"),
    2.0 * RBF("median").prepared("standardize"),
    (RBF("median") + Linear()).prepared("standardize"),
    RBF("median").prepared("standardize").on([1]) * Linear().on([0]) + 1.0,
]


@pytest.mark.parametrize("k", KERNELS, ids=repr)
@pytest.mark.parametrize("fit", [False, True], ids=["rule", "fitted"])
def test_values_are_written_and_read(k, fit, X):
    k = k.fitted(X) if fit else k
    assert k.is_fitted == fit
    assert from_state(to_state(k)) == k
    assert parse(repr(k)) == k
    assert pickle.loads(pickle.dumps(k)) == k
    assert hash(pickle.loads(pickle.dumps(k))) == hash(k)
    if fit:
        assert k.fitted(X + 1.0) is k


def test_fitted_values_differ_from_their_rules(X):
    k = Linear().prepared("standardize")
    assert k != k.fitted(X) != k.fitted(X[:20])
    assert k.fitted(X) == k.fitted(X.copy())
    assert RBF(("median", 1)) == RBF("median") == parse("rbf(gamma=median)") == parse("gaussian('median')")
    assert RBF(["median", 4]) == RBF(("median", 4.0))
    assert Linear().prepared(None) == Linear()


def test_numbers_of_many_columns_are_not_written_in_full(rng):
    k = Linear().prepared("standardize").fitted(rng.normal(size=(3, 300)))
    assert len(repr(k)) < 2000
    with pytest.raises(InputError, match="`mean` of Standardize must hold one number for each column"):
        parse(repr(k))
    assert from_state(to_state(k)) == k


def test_where_steps_go(X):
    k = RBF(0.5)
    assert k.on([0]).prepared("log1p") == k.prepared("log1p").on([0])
    assert (2.0 * k).prepared("log1p") == 2.0 * k.prepared("log1p")
    assert k.prepared("log1p").prepared("standardize") == k.prepared("log1p", "standardize")
    two = (k.on([0]) + Linear().on([1]) + 1.0).prepared("log1p")
    assert two == k.prepared("log1p").on([0]) + Linear().prepared("log1p").on([1]) + 1.0
    assert Constant(2.0).prepared("standardize") == Constant(2.0)
    assert (k.prepared("log1p") * Linear()).prepared("standardize") == k.prepared(
        "log1p", "standardize"
    ) * Linear().prepared("standardize")


@pytest.mark.parametrize(
    ("k", "label"),
    [
        (RBF("median"), "RBF(gamma=median) on all"),
        (RBF(("median", 0.25)), "RBF(gamma=0.25 * median) on all"),
        (Laplacian("scale").on([0]), "Laplacian(gamma=scale) on x0"),
        (Linear().prepared("standardize"), "standardised Linear on all"),
        (2.0 * Linear().prepared("normalize-rows"), "2 * row-normalised Linear on all"),
        (
            RBF("median").prepared("log1p", "standardize").on(["a"], name="rna"),
            "rna: log1p, standardised RBF(gamma=median)",
        ),
        ((Linear() + RBF(1)).prepared("log1p"), "log1p (Linear + RBF(gamma=1)) on all"),
        (RBF("median").fitted([[0.0], [3.0], [7.0]]), "RBF(gamma=0.0625) on all"),
    ],
)
def test_labels(k, label):
    assert k.label == label


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RBF("medain"),
            "must be .*'median' or 'scale', or a multiple such as .*Did you mean 'median'",
        ),
        (lambda: RBF(("median", 0)), r"must be .*, got \('median', 0\)"),
        (lambda: RBF(("median", 1, 2)), "must be .*'scale'"),
        (lambda: RBF(("median",)), r"got \('median',\). Give a rule and its factor.$"),
        (lambda: Laplacian((2.0, "median")), "must be .*'scale'"),
        (
            lambda: Linear().prepared("standardise"),
            "Unknown preparation 'standardise'.*Did you mean 'standardize'",
        ),
        (lambda: Linear().prepared("zscore"), "Known: 'standardize', 'normalize-rows', 'log1p'"),
        (lambda: Linear().prepared(3), "'standardize', 'normalize-rows', 'log1p', 'impute'.* or None, got 3"),
        (lambda: Linear().prepared("log1p", "log1p"), "every step once, got 'log1p' twice"),
        (lambda: Linear().prepared({"step": "log1p", "mean": 1}), "no such numbers"),
        (lambda: Prepared(Linear(), ()), "at least one step"),
        (lambda: Prepared(Linear().on([0]), ("log1p",)), "Call `prepared` on it"),
        (lambda: Standardize([0.0], [0.0]), "scales above 0"),
        (lambda: Standardize([0.0, 1.0], [1.0]), "equally long"),
        (lambda: Standardize([0.0], None), "`scale` of Standardize"),
        (lambda: Linear().prepared(Standardize([0.0], [1.0]))([[1.0, 2.0]]), "fitted on 1 columns, got 2"),
        (lambda: RBF("median").from_statistic(np.ones(2)), r"Call fitted\(X\) first"),
        (lambda: RBF("median").layer(), "no rows to take parameters from"),
        (lambda: RBF("median").fitted([[0.0], [1e-60]]), "unusable as a scale"),
        (lambda: RBF("median").fitted([[0.0] * 9, [1e150] * 9]), "overflows"),
        (lambda: RBF("median").fitted([[0.0], [1.0]], [0.0, 0.0]), "at least one row"),
        (lambda: RBF("median").fitted([[0.0], [1.0]], [1.0]), "sample_weight"),
    ],
)
def test_errors(make, message):
    with pytest.raises(InputError, match=message):
        make()


# --- in sources ---


def test_kernels_share_distances_and_preparations(X, monkeypatch):
    passes, steps, medians = [], [], []
    panels, median = rows_module.statistic_panels, TrainingRows._median

    def count_panels(kind, A, entries):
        passes.append(kind)
        return panels(kind, A, entries)

    monkeypatch.setattr("kernelweave.fitting.source.statistic_panels", count_panels)
    monkeypatch.setattr(
        TrainingRows, "_median", lambda self, kind: medians.append(kind) or median(self, kind)
    )
    fitted = Standardize.fitted
    monkeypatch.setattr(Standardize, "fitted", lambda self, *args: steps.append(1) or fitted(self, *args))
    widths = [RBF(("median", f)).prepared("standardize") for f in (0.25, 1, 4)]
    others = [Linear().prepared("standardize"), RBF("scale").prepared("standardize"), RBF(0.1), RBF("median")]
    TableSource([*widths, *others], Table(X), max_memory=1e9).gram()
    assert len(steps) == 1
    assert medians == ["sqdist", "sqdist"]
    assert sorted(passes) == ["dot", "sqdist", "sqdist"]


@pytest.mark.parametrize("max_memory", [1e9, 1.0])
def test_sources_agree_with_kernels(X, max_memory, monkeypatch):
    monkeypatch.setattr("kernelweave.fitting.source.SMALL_CHANGE", 0)
    kernels = [*KERNELS, Linear().prepared("standardize").on([3])]
    source = TableSource(kernels, Table(X), max_memory=max_memory)
    assert source.names == tuple(k.fitted(X).label for k in kernels)
    gram = source.gram()
    for m, k in enumerate(kernels):
        weights = np.zeros(len(kernels))
        weights[m] = 1.0
        np.testing.assert_allclose(gram.combine(weights), k(X), rtol=1e-10, atol=1e-10)
    new = np.arange(14.0).reshape(2, 7)
    for where, m, K in source.cross(Table(new), np.arange(len(kernels))):
        np.testing.assert_allclose(K, kernels[m].fitted(X)(new[where], X), rtol=1e-10, atol=1e-10)


def test_a_part_of_a_source_is_fitted_on_its_own_rows(X, rng):
    weight = rng.integers(1, 4, len(X)).astype(float)
    rows = np.arange(0, len(X), 2)
    whole = TableSource(KERNELS, Table(X), max_memory=1e9, sample_weight=weight)
    changed = X.copy()
    changed[1::2] *= 100.0
    for source in (whole, TableSource(KERNELS, Table(changed), max_memory=1e9, sample_weight=weight)):
        part = source.take(rows)
        assert part.kernels == [k.fitted(X[rows], weight[rows]) for k in KERNELS]
        assert part.take(np.arange(4)).kernels == [k.fitted(X[rows][:4], weight[rows][:4]) for k in KERNELS]
    assert whole.kernels == [k.fitted(X, weight) for k in KERNELS]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_steps_count_the_cells_that_are_there(form, rng):
    """Lengths, logarithms, fills and statistics of columns, with weights of rows and a row without any cell."""
    A = rng.normal(size=(15, 4)) * (rng.random((15, 4)) < 0.7)
    A[rng.random((15, 4)) < 0.25] = np.nan
    A[3], A[4] = np.nan, 0.0
    weight, there = rng.uniform(0.5, 2.0, 15), ~np.isnan(A)
    table, known = as_table(form(A), missing=True), np.where(there, A, 0.0)
    share = np.maximum(there.sum(axis=1), 1) / 4
    length = np.sqrt(np.square(known).sum(axis=1) / share)
    filled = np.where(there, A, weight @ known / (weight @ there))
    for step, wanted in (
        (NormalizeRows(), A / np.where(length > 0, length, 1.0)[:, None]),
        (Log1p(), np.sign(A) * np.log1p(np.abs(A))),
        (Impute().fitted(table, weight), filled),
    ):
        np.testing.assert_allclose(to_dense(step.apply(table).values), wanted, rtol=1e-12, atol=1e-14)
    if form is np.asarray:
        mean, std = column_statistics(table, weight)
        np.testing.assert_allclose(mean, weight @ known / (weight @ there), rtol=1e-12)
        square = weight @ np.where(there, np.square(A - mean), 0.0) / (weight @ there)
        np.testing.assert_allclose(std, np.sqrt(square), rtol=1e-12)
        median = Impute("median").fitted(table, np.round(weight)).fill
        often = np.repeat(A, np.round(weight).astype(int), axis=0)
        np.testing.assert_allclose(median, np.nanmedian(often, axis=0), rtol=1e-12)


def test_a_prepared_kernel_is_what_its_steps_make_of_it():
    steps = {"standardize": (False, False, True), "impute": (True, False, False), "skip": (True, True, False)}
    for count in (1, 2):
        for names in itertools.combinations(steps, count):
            kernel = Linear().prepared(*names)
            takes, skips, affine = zip(*(steps[name] for name in names), strict=True)
            found = kernel.takes_missing, kernel.is_corrected, kernel.is_linear
            assert found == (any(takes), any(skips), all(affine)), names
            assert not RBF(gamma=1.0).prepared(*names).is_linear


# --- in estimators ---

BANK = [
    Linear().prepared("standardize"),
    *(RBF(("median", f)).prepared("standardize") for f in (0.25, 1.0, 4.0)),
    Linear().prepared("normalize-rows"),
    Laplacian("median").on([0, 1]),
]


@pytest.fixture
def y(X):
    return np.sin(X[:, 0]) + 0.3 * X[:, 1]


def test_nearest_rows_are_those_in_numeric_columns_with_cells(rng):
    """A category, and a column without any cell, are filled as ever and say nothing about other columns."""
    X = rng.normal(size=(20, 3))
    X[rng.random((20, 3)) < 0.2] = np.nan
    more = np.column_stack([np.full(20, np.nan), rng.integers(0, 3, 20)])
    more[4, 1] = np.nan
    whole = Table(np.column_stack([X, more]), levels=(0, 0, 0, 0, 3))
    step = Impute("nearest", n_neighbors=3)
    found = step.fitted(whole).apply(whole).values
    np.testing.assert_allclose(found[:, :3], step.fitted(Table(X)).apply(Table(X)).values, rtol=1e-12)
    assert not found[:, 3].any()
    assert found[4, 4] == np.argmax(np.bincount(more[np.arange(20) != 4, 1].astype(int)))


def test_a_model_shows_the_numbers(X, y):
    learner = kw.learners.RLS2(alpha=0.1)
    model = kw.MKLRegressor(BANK, learner).fit(X, y)
    assert model.kernels_ == [k.fitted(X) for k in BANK]
    assert model.kernel_names_.tolist() == [k.fitted(X).label for k in BANK]
    # the same kernels with numbers from the start give the same model
    again = kw.MKLRegressor(model.kernels_, learner).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert clone(model).kernels is not BANK
    assert clone(model).kernels == BANK


def test_folds_see_their_training_rows_alone(X, y):
    folds = list(KFold(3).split(X))
    found = kw.MKLRegressorCV(BANK, cv=folds, alphas=[1.0]).fit(X, y)
    for k, (train, test) in enumerate(folds):
        model = kw.MKLRegressor(BANK, kw.learners.RLS2(alpha=1.0, tol=1e-10)).fit(X[train], y[train])
        score = found.cv_results_[f"split{k}_test_score"][0]
        assert score == pytest.approx(model.score(X[test], y[test]), abs=1e-5)
    # a test row that is far out changes the score of its own fold, and nothing in the others' models
    outside = X.copy()
    outside[folds[0][1]] *= 1e3
    models = [kw.MKLRegressor(BANK).fit(rows[folds[0][0]], y[folds[0][0]]) for rows in (X, outside)]
    assert models[0].kernels_ == models[1].kernels_


def test_weights_repeat_rows_and_zero_drops_them(X, y, rng):
    weights = rng.integers(0, 3, len(X))
    learner = kw.learners.RLS2(alpha=0.1, tol=1e-11)
    weighted = kw.MKLRegressor(BANK, learner).fit(X, y, sample_weight=weights)
    repeated = kw.MKLRegressor(BANK, learner).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("normalize", ["mean-diagonal", "center"])
@pytest.mark.parametrize("standardize", [False, True])
def test_linear_models_of_prepared_columns_have_coefficients(X, y, normalize, standardize):
    kernels = [
        Linear().prepared("standardize"),
        Linear().on([0, 1]) + 2.0 * Linear().prepared("standardize").on([1, 2]),
        Linear().prepared(Standardize(np.arange(3.0), [2.0] * 3)).on([4, 5, 6]),
    ]
    model = kw.MKLRegressor(kernels, normalize=normalize, standardize=standardize).fit(X, y)
    np.testing.assert_allclose(
        X @ model.coef_ + model.linear_intercept_, model.predict(X), rtol=1e-9, atol=1e-9
    )


def test_a_grid_search_over_gamma(X, y):
    grid = {"kernels": [[RBF(("median", f)).prepared("standardize")] for f in (0.01, 1.0)]}
    search = GridSearchCV(kw.MKLRegressor(learner=kw.learners.RLS2(alpha=0.1)), grid, cv=3).fit(X, y)
    assert search.best_estimator_.kernels_[0].is_fitted


def test_files_hold_rules_and_numbers(X, y, tmp_path):
    labels = np.where(y > np.median(y), "a", "b")
    model = kw.MKLClassifier(BANK, "simple").fit(X, labels)
    persistence.save(model, tmp_path / "model")
    again = persistence.load(tmp_path / "model")
    assert again.kernels_ == model.kernels_
    assert again.kernels == BANK
    np.testing.assert_array_equal(again.decision_function(X + 0.1), model.decision_function(X + 0.1))
    # folds of a model that was read take their own numbers, too
    np.testing.assert_array_equal(
        again.calibrate(cv=3).predict_proba(X), model.calibrate(cv=3).predict_proba(X)
    )


def test_steps_as_objects(X):
    assert Linear().prepared(Log1p(), NormalizeRows()) == Linear().prepared("log1p", "normalize-rows")
    given = Standardize(X.mean(axis=0), X.std(axis=0))
    np.testing.assert_allclose(
        Linear().prepared(given)(X), Linear().prepared("standardize")(X), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("kind", ["smooth", "whole", "heavy", "far", "equal", "twice"])
@pytest.mark.parametrize("n", [2, 7, 60])
def test_middle_differences_of_one_column_are_those_of_all_pairs(kind, n, rng):
    from kernelweave.kernels.training_rows import _middle_on_line

    x = {
        "smooth": rng.normal(size=n),
        "whole": rng.integers(0, 4, size=n) * 1.0,
        "heavy": rng.standard_cauchy(size=n) ** 3,
        "far": 1e6 + rng.normal(size=n),
        "equal": np.ones(n),
        "twice": np.repeat(rng.normal(size=n), 2),
    }[kind]
    pairs = np.abs(x[:, None] - x)[np.triu_indices(len(x), 1)]
    pairs = np.sort(pairs[pairs > 1e-14 * pairs.max()])
    middle = [pairs[(len(pairs) - 1) // 2], pairs[len(pairs) // 2]] if len(pairs) else [0.0, 0.0]
    np.testing.assert_array_equal(_middle_on_line(x, 1e-14), middle)


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("p", [1, 3])
def test_widths_are_medians_and_spreads_with_weights_and_missing_cells(n, p, rng):
    A = rng.normal(size=(n, p)) + 2.0
    w = np.array([1.0, 2.0, 0.0, 3.0, 1.0])[:n]
    again = np.repeat(A, w.astype(int), axis=0)
    for kernel, metric in ((RBF("median"), "sqeuclidean"), (Laplacian("median"), "cityblock")):
        assert kernel.fitted(A).gamma == pytest.approx(1 / np.median(pdist(A, metric)), rel=1e-10)
        apart = pdist(again, metric)
        assert kernel.fitted(A, w).gamma == pytest.approx(1 / np.median(apart[apart > 0]), rel=1e-10)
    assert RBF("scale").fitted(A, w).gamma == pytest.approx(1 / (p * again.var()), rel=1e-10)
    assert Laplacian(("scale", 3.0)).fitted(A, w).gamma == pytest.approx(3 / (p * again.std()), rel=1e-10)
    lost = A.copy()
    lost[0, 0] = np.nan
    lost[3, 1:] = np.nan
    for weights, known in ((None, lost), (w, np.repeat(lost, w.astype(int), axis=0))):
        for form in (np.asarray, sparse.csr_array):
            k = RBF("scale").prepared("skip").fitted(form(lost), weights)
            wanted = 1 / (p * np.nanvar(known))
            assert k.base.kernel.gamma == pytest.approx(wanted, rel=1e-9)
    rows = TrainingRows(as_table(A), w, targets=A[:, :1])
    np.testing.assert_array_equal(rows.targets, A[w > 0, :1])
    np.testing.assert_array_equal(rows.weight, w[w > 0])
    assert rows.on(None) is rows
    np.testing.assert_array_equal(rows.on([0]).targets, rows.targets)
    np.testing.assert_array_equal(rows.on([0]).weight, rows.weight)
    with pytest.raises(InputError, match="positive weight"):
        TrainingRows(as_table(A), np.zeros(n))


def test_rows_that_targets_are_learnt_on_are_distinct_and_have_their_weights(monkeypatch, rng):
    seen = []

    class Told(Standardize):
        from_targets, most_rows = True, 3

        def fitted_to(self, table, targets, sample_weight=None):
            seen.append((table.values, targets, sample_weight))
            return self

    A = np.repeat(rng.normal(size=(6, 2)), 2, axis=0)
    y, w = np.arange(12.0)[:, None], np.arange(1.0, 13.0)
    for own in (w, None):
        rows = TrainingRows(as_table(A), own, targets=y)
        some = rows.some(3)
        assert len(some) == 6
        assert len(np.unique(A[some], axis=0)) == 3
        rows.after((Told(),))
        values, targets, weights = seen.pop()
        np.testing.assert_array_equal(values, A[some])
        np.testing.assert_array_equal(targets, y[some])
        assert (weights is None) == (own is None)
        if own is not None:
            np.testing.assert_array_equal(weights, w[some])
        turned = np.arange(12)[::-1]
        other = TrainingRows(as_table(A[turned]), None, targets=y)
        assert {tuple(row) for row in A[turned][other.some(3)]} == {tuple(row) for row in A[some]}
    rows = TrainingRows(as_table(A), w)
    first, sums = rows.distinct
    np.testing.assert_array_equal(np.sort(sums), np.sort(w.reshape(6, 2).sum(axis=1)))
    thin, counted = TrainingRows(as_table(sparse.csr_array(A)), w).distinct
    assert {(*A[i], s) for i, s in zip(first, sums, strict=True)} == {
        (*A[i], s) for i, s in zip(thin, counted, strict=True)
    }
