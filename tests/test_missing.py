"""Missing cells and missing views: what kernels, estimators and files do about them.

Modules: `estimators/sources`, `fitting/missing`, `fitting/partial`, `inspection/missing`, `kernels/pairs`,
`kernels/steps`, `views/encoding`, `fitting/source`, `kernels/categorical`, `views/container`.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.impute import KNNImputer
from sklearn.model_selection import GroupKFold, cross_val_score

import kernelweave as kw
from kernelweave.estimators.sources import takes_missing
from kernelweave.fitting.missing import views_of
from kernelweave.fitting.partial import RIDGES, PartialSource, mean_of_known, regress_rows
from kernelweave.fitting.source import correct
from kernelweave.inspection.registry import Basis, collect
from kernelweave.kernels import RBF, Categorical, Constant, Impute, Laplacian, Linear, Polynomial, Skip
from kernelweave.persistence.states import from_state, to_state
from kernelweave.views import BlockTable, ViewColumns, as_table

RNG = np.random.default_rng(7)
X = RNG.normal(size=(40, 5)) * [1.0, 2.0, 0.5, 3.0, 1.0] + [0.0, 1.0, 0.0, -1.0, 5.0]
HOLES = np.where(RNG.random(X.shape) < 0.3, np.nan, X)
Y = X[:, 0] + 0.3 * X[:, 1] ** 2
BANK = [Linear().prepared("standardize"), RBF(gamma="median").prepared("standardize")]
WAYS = ("impute", "impute-median", "impute-nearest", "skip")


def two_views(seed=3, n=60):
    """Two views of the same three numbers, and a class."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    views = {v: z @ rng.normal(size=(3, p)) + 0.3 * rng.normal(size=(n, p)) for v, p in (("a", 6), ("b", 4))}
    return views, (z[:, 0] + z[:, 1] > 0).astype(int)


def with_holes(views, seed=5, share=0.3):
    """Views removed from rows, never both."""
    rng = np.random.default_rng(seed)
    n = len(views["a"])
    which = rng.choice(3, size=n, p=[1.0 - share, share / 2, share / 2])
    return {v: np.where((which == k)[:, None], np.nan, views[v]) for k, v in ((1, "a"), (2, "b"))}


# ---- kernels --------------------------------------------------------------------------------------


def by_hand(kind, x, z, means, variances, differences):
    """A statistic over shared columns, column by column."""
    unit = {"sqdist": variances, "dot": variances + means**2, "l1": differences}[kind]
    shared = [j for j in range(len(x)) if not np.isnan(x[j]) and not np.isnan(z[j])]
    total = 0.0
    for j in shared:
        total += {"sqdist": (x[j] - z[j]) ** 2, "dot": x[j] * z[j], "l1": abs(x[j] - z[j])}[kind]
    if not shared:
        return {"sqdist": 2 * variances.sum(), "dot": (means**2).sum(), "l1": differences.sum()}[kind]
    return total * unit.sum() / sum(unit[j] for j in shared)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (RBF(gamma=0.1), "sqdist"),
        (Linear(), "dot"),
        (Polynomial(degree=2), "dot"),
        (Laplacian(gamma=0.2), "l1"),
    ],
)
def test_skipped_cells_equal_loops_over_shared_columns(kernel, kind, form):
    rows = np.where(RNG.random((12, 5)) < 0.4, np.nan, RNG.normal(size=(12, 5)))
    rows[0] = [np.nan, np.nan, np.nan, np.nan, 1.0]
    rows[1] = [0.5, np.nan, np.nan, np.nan, np.nan]
    rows[2] = np.nan
    stored = form(rows) if form is np.asarray else sparse.csr_array(np.where(np.isnan(rows), np.nan, rows))
    k = kernel.prepared("skip").fitted(HOLES)
    step = k.steps[0]
    means = np.nanmean(HOLES, axis=0)
    variances = np.nanvar(HOLES, axis=0)
    np.testing.assert_allclose(step.mean, means)
    np.testing.assert_allclose(step.variance, variances)
    for j, column in enumerate(HOLES.T):
        known = column[~np.isnan(column)]
        np.testing.assert_allclose(step.difference[j], np.abs(known[:, None] - known).mean())
    S = np.array([[by_hand(kind, x, z, means, variances, step.difference) for z in rows] for x in rows])
    if kind == "dot":
        # a row without any cell has the mean square of rows
        S[2, 2] = S[2, 2] if not np.isnan(rows[2]).all() else (variances + means**2).sum()
    else:
        np.fill_diagonal(S, 0.0)
    np.testing.assert_allclose(k(stored), kernel.from_statistic(S.copy()), atol=1e-10)
    np.testing.assert_allclose(k(stored[:2], stored), k(stored)[:2], atol=1e-10)
    np.testing.assert_allclose(k.diag(stored), np.diag(k(stored)), atol=1e-10)


def test_categories_agree_in_shared_columns():
    frame = pd.DataFrame({"a": ["x", "y", None, "x"], "b": ["u", "u", "v", None]})
    K = Categorical().prepared("skip")(frame)
    np.testing.assert_allclose(K, [[1, 0.5, 0, 1], [0.5, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]])


@pytest.mark.parametrize(
    "base", [RBF(gamma="median"), Laplacian(gamma="scale"), Linear(), RBF(gamma="scale")]
)
def test_complete_rows_are_as_without_skipping(base):
    np.testing.assert_allclose(
        base.prepared("standardize", "skip")(X), base.prepared("standardize")(X), atol=1e-12
    )


def test_fills_are_those_of_scikit_learn():
    from sklearn.impute import KNNImputer, SimpleImputer

    def filled(step, rows):
        return (
            Linear().prepared(step).fitted(HOLES).steps[0].apply(kw.views.as_table(rows, missing=True)).take()
        )

    for name, strategy in (("impute", "mean"), ("impute-median", "median")):
        expected = SimpleImputer(strategy=strategy).fit(HOLES).transform(HOLES)
        np.testing.assert_allclose(filled(name, HOLES)[:, :5], expected)
    marks = filled("impute-median", HOLES)[:, 5:]
    np.testing.assert_array_equal(marks, np.isnan(HOLES)[:, np.isnan(HOLES).any(axis=0)])
    scale = np.nanstd(HOLES, axis=0)
    expected = KNNImputer(n_neighbors=5).fit(HOLES / scale).transform(HOLES / scale) * scale
    np.testing.assert_allclose(filled("impute-nearest", HOLES), expected)


@pytest.mark.parametrize("step", ["impute", "impute-median", "skip"])
def test_a_weight_equals_a_repetition(step):
    weights = RNG.integers(1, 4, size=len(HOLES)).astype(float)
    often = np.repeat(HOLES, weights.astype(int), axis=0)
    k = RBF(gamma="median").prepared("standardize", step)
    np.testing.assert_allclose(k.fitted(HOLES, weights)(HOLES), k.fitted(often)(HOLES), atol=1e-10)


@pytest.mark.parametrize("step", ["impute", "impute-median", "impute-nearest"])
def test_the_most_frequent_category_fills_by_weight(step):
    """The first has more rows, the last more weight; and numbers beside it as if rows were repeated."""
    categories = np.array(["a"] * 16 + ["b"] * 10 + [None] * 4, dtype=object)
    frame = pd.DataFrame({"size": HOLES[:30, 0], "kind": categories, "far": HOLES[:30, 1]})
    weights = np.r_[np.full(16, 1), np.full(14, 2)]
    table, often = (
        kw.views.as_table(one, missing=True) for one in (frame, frame.loc[np.repeat(np.arange(30), weights)])
    )
    for own, code in ((None, 0.0), (weights.astype(float), 1.0)):
        fitted = Linear().prepared(step).fitted(table, own)
        filled = fitted.steps[0].apply(table).values
        assert (filled[26:, 1] == code).all()
        assert (filled[:26, 1] == np.repeat([0.0, 1.0], [16, 10])).all()
    if step != "impute-nearest":
        again = Linear().prepared(step).fitted(often).steps[0].apply(table).values
        np.testing.assert_allclose(filled, again)


@pytest.mark.parametrize(
    "step", ["impute", "impute-median", "impute-nearest", "skip", Impute("nearest", n_neighbors=2)]
)
def test_steps_are_values(step):
    k = RBF(gamma="median").prepared("standardize", step)
    fitted = k.fitted(HOLES)
    assert not k.is_fitted
    assert fitted.is_fitted
    assert fitted != k
    for one in (k, fitted):
        assert from_state(to_state(one)) == one
        assert hash(from_state(to_state(one))) == hash(one)
    assert kw.kernels.parse(repr(k)) == k
    assert clone(kw.MKLRegressor([k])).kernels[0] == k


def test_what_skips_comes_last():
    k = RBF(gamma="median").prepared("skip").prepared("standardize")
    assert [step.name for step in k.steps] == ["standardize", "skip"]
    assert isinstance(k.steps[1], Skip)


# ---- cells: estimators ----------------------------------------------------------------------------


@pytest.mark.parametrize("missing", WAYS)
def test_complete_rows_give_the_same_model(missing):
    plain = kw.MKLRegressor(BANK, alpha=0.1).fit(X, Y)
    model = kw.MKLRegressor(BANK, alpha=0.1, missing=missing).fit(X, Y)
    np.testing.assert_allclose(model.weights_, plain.weights_, atol=1e-6)
    np.testing.assert_allclose(model.predict(X[:7] + 0.1), plain.predict(X[:7] + 0.1), atol=1e-6)
    assert model.missing_ == {"n_rows": 40, "cells": {}, "views": {}}


@pytest.mark.parametrize("missing", WAYS)
@pytest.mark.parametrize("kernels", [None, BANK, [Linear().on([0]), RBF(gamma=0.1).on([1, 2])]])
def test_files_predict_the_same(missing, kernels, tmp_path):
    model = kw.MKLRegressor(kernels, alpha=0.1, missing=missing).fit(HOLES, Y)
    kw.save(model, tmp_path / "model.skops")
    again = kw.load(tmp_path / "model.skops")
    np.testing.assert_allclose(again.predict(HOLES), model.predict(HOLES), atol=1e-8)
    np.testing.assert_allclose(
        model.kernel_contributions(HOLES).sum(axis=1) + model.intercept_, model.predict(HOLES), atol=1e-8
    )
    assert again.missing_ == model.missing_
    assert sum(model.missing_["cells"].values()) == np.isnan(HOLES).sum()
    assert "missing cells among 40 training rows" in kw.inspection.missing(model)[0]


@pytest.mark.parametrize("missing", WAYS)
def test_folds_learn_from_training_rows_alone(missing):
    """A changed test row changes its own prediction at most."""
    train, test = np.arange(30), np.arange(30, 40)
    other = HOLES.copy()
    other[test[1:]] = 100.0
    found = []
    for rows in (HOLES, other):
        model = kw.MKLRegressorCV(BANK, alphas=[0.1], cv=[(train, test)], missing=missing, scoring="r2")
        source = model.fit(rows, Y).model_.source.take(train)
        K = next(K for _, m, K in source.cross(model.model_.source.queries(test[:1]), np.array([1])))
        found.append((source.kernels, K))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_linear_models_of_filled_columns_have_coefficients():
    model = kw.MKLRegressor([Linear().prepared("standardize")], alpha=0.1, missing="impute").fit(HOLES, Y)
    filled = np.where(np.isnan(HOLES), np.nanmean(HOLES, axis=0), HOLES)
    np.testing.assert_allclose(filled @ model.coef_ + model.linear_intercept_, model.predict(HOLES))
    marked = kw.MKLRegressor([Linear()], alpha=0.1, missing="impute-median").fit(HOLES, Y)
    assert not hasattr(marked, "coef_")


def test_skipping_kernels_are_corrected_and_say_so():
    model = kw.MKLRegressor(BANK, alpha=0.1, missing="skip").fit(HOLES, Y)
    source = model.model_.source
    gram = source.gram()
    for m, kernel in enumerate(source.kernels):
        K = gram.combine(np.eye(2)[m])
        raw = kernel(source.table)
        values = np.linalg.eigvalsh(raw)
        assert values[0] < 0
        assert np.linalg.eigvalsh(K)[0] > -1e-10 * values[-1]
        residual = np.linalg.norm(values[values < 0]) / np.linalg.norm(values)
        assert model.missing_["residuals"][source.names[m]] == pytest.approx(residual)
        np.testing.assert_allclose(np.linalg.norm(raw - K) / np.linalg.norm(raw), residual)
        # training rows as new rows have the values of training
        asked = next(values for _, _, values in source.cross(source.raw, np.array([m])))
        np.testing.assert_allclose(asked, K, atol=1e-9)
        np.testing.assert_allclose(source.query_diagonal(source.raw, m), K.diagonal(), atol=1e-9)
    said = kw.inspection.missing(model)[1]
    worst, size = max(model.missing_["residuals"].items(), key=lambda pair: pair[1])
    assert "Negative eigenvalues of 2 kernels" in said
    assert said.endswith(f"at most {100 * size:.2f} % of a matrix (in the Frobenius norm; {worst}).")


def test_what_is_missing_most_is_named_first(rng):
    table = pd.DataFrame(rng.normal(size=(20, 3)), columns=list("abc"))
    for name, count in zip("abc", (2, 4, 1), strict=True):
        table.loc[: count - 1, name] = np.nan
    table.loc[[0, 5, 6], ["b", "c"]] = np.nan
    model = kw.MKLRegressor(
        {"one": [Linear()], "two": [Linear()]}, alpha=1.0, missing="impute", missing_views="renormalize"
    )
    model.fit(
        kw.Views({"one": table[["a"]].assign(d=1.0 * np.arange(20)), "two": table[["b", "c"]]}),
        np.arange(20.0),
    )
    cells, views, *_ = kw.inspection.missing(model, most=1)
    # cells of views that a row lacks are not counted
    assert cells.startswith("5 missing cells among 20 training rows, in two: b (3) and 1 more: ")
    assert views.startswith("Of 20 training rows some lack views, two (3): ")
    found = collect(Basis(model=model))["missing"]
    assert {name: one.value for name, one in found.values.items()} == {"one: a": 2, "two: b": 3, "two": 3}
    assert (found.n, [one.text for one in found.sentences]) == (20, kw.inspection.missing(model, most=20))


def test_correct_leaves_good_matrices_alone():
    K = RBF(gamma=0.3)(X)
    assert correct(K)[0] is K
    assert correct(K)[1] is None


@pytest.mark.parametrize("missing", WAYS)
def test_frames_with_categories(missing):
    frame = pd.DataFrame(
        {
            "age": pd.array([40, None, 55, 61, 33, 47] * 5, dtype="Int64"),
            "site": pd.Categorical(["A", None, "B", "A", "B", "A"] * 5),
            "smoker": [True, False, None, True, False, True] * 5,
        }
    )
    y = np.arange(30.0) % 6
    kernels = [Linear(), Categorical().on(["site", "smoker"]), RBF(gamma="median")]
    model = kw.MKLRegressor(kernels, alpha=0.1, missing=missing).fit(frame, y)
    assert model.missing_["cells"] == {"age": 5, "site": 5, "smoker": 5}
    assert np.isfinite(model.predict(frame)).all()
    polars = pytest.importorskip("polars")
    same = polars.DataFrame(frame.astype(object).where(frame.notna(), None).to_dict("list"))
    np.testing.assert_allclose(model.predict(same), model.predict(frame), atol=1e-9)


@pytest.mark.parametrize("missing", ["impute", "skip"])
def test_sparse_rows_may_store_nan(missing):
    counts = np.where(RNG.random((30, 8)) < 0.6, 0.0, RNG.poisson(3.0, size=(30, 8)).astype(float))
    holes = np.where((counts > 0) & (RNG.random(counts.shape) < 0.2), np.nan, counts)
    y = counts[:, 0]
    bank = [Linear(), RBF(gamma="median"), Laplacian(gamma="median")]
    dense = kw.MKLRegressor(bank, alpha=0.1, missing=missing).fit(holes, y)
    model = kw.MKLRegressor(bank, alpha=0.1, missing=missing).fit(sparse.csr_array(holes), y)
    np.testing.assert_allclose(model.predict(sparse.csr_array(holes)), dense.predict(holes), atol=1e-6)
    with pytest.raises(kw.InputError, match="sparse rows are filled with the mean"):
        kw.MKLRegressor(bank, alpha=0.1, missing="impute-nearest").fit(sparse.csr_array(holes), y)


def test_kernels_may_say_themselves_what_to_do():
    k = RBF(gamma="median").prepared("impute", "standardize")
    model = kw.MKLRegressor([k], alpha=0.1).fit(HOLES, Y)
    np.testing.assert_allclose(
        model.predict(HOLES),
        kw.MKLRegressor([RBF(gamma="median").prepared("standardize")], alpha=0.1, missing="impute")
        .fit(HOLES, Y)
        .predict(HOLES),
    )
    with pytest.raises(kw.InputError, match="column 0"):
        kw.MKLRegressor([k, Linear()], alpha=0.1).fit(HOLES, Y)


def test_grid_searches_choose_what_to_do():
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(
        kw.MKLRegressor(BANK, alpha=0.1), {"missing": [*WAYS, Impute("nearest", n_neighbors=3)]}, cv=3
    )
    assert np.isfinite(search.fit(HOLES, Y).cv_results_["mean_test_score"]).all()


# ---- views ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["complete", "renormalize"])
@pytest.mark.parametrize("learner", ["simple", "rls2", "lp", "easy", "uniform"])
def test_views_may_be_missing_anywhere(how, learner, tmp_path):
    views, y = two_views()
    holes = with_holes(views)
    model = kw.MKLClassifier(BANK, learner, missing_views=how).fit(holes, y)
    assert model.score(holes, y) > 0.8
    assert model.missing_["views"] == {v: int(np.isnan(holes[v]).all(axis=1).sum()) for v in "ab"}
    for asked in (holes, views, {"a": views["a"], "b": None}):
        values = model.decision_function(asked)
        parts = model.kernel_contributions(asked)
        np.testing.assert_allclose(parts.sum(axis=1) + model.intercept_, values, atol=1e-8)
    kw.save(model, tmp_path / "model.skops")
    again = kw.load(tmp_path / "model.skops")
    np.testing.assert_allclose(again.decision_function(holes), model.decision_function(holes), atol=1e-8)
    model.calibrate(cv=3)
    assert model.predict_proba({"a": None, "b": views["b"]}).shape == (60, 2)


@pytest.mark.parametrize("how", ["complete", "renormalize"])
def test_training_rows_as_new_rows_have_the_values_of_training(how):
    views, y = two_views()
    source = kw.MKLClassifier(BANK, "simple", missing_views=how).fit(with_holes(views), y).model_.source
    gram = source.gram()
    for _, m, K in source.cross(source.raw, np.arange(4)):
        full = gram.combine(np.eye(4)[m])
        assert np.linalg.eigvalsh(full)[0] > -1e-9 * np.trace(full)
        np.testing.assert_allclose(K, full, atol=1e-8)
        np.testing.assert_allclose(source.query_diagonal(source.raw, m), full.diagonal(), atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_filled_values_are_means_of_the_views_that_are_there(weighted, rng):
    """Of all their kernels, each less its mean and divided by its spread, with the weights of rows."""
    views, y = two_views()
    holes, kinds = with_holes(views), (RBF(gamma=0.1), Linear(), RBF(gamma=1.0))
    weight = rng.uniform(0.2, 3.0, len(y)) if weighted else np.ones(len(y))
    model = kw.MKLClassifier(list(kinds), "simple", missing_views="renormalize")
    source = model.fit(holes, y, sample_weight=weight if weighted else None).model_.source
    there = {v: ~np.isnan(holes[v]).all(axis=1) for v in "ab"}
    K = {(v, kind): kind(np.nan_to_num(holes[v])) for v in "ab" for kind in kinds}
    level, spread = {}, {}
    for (v, kind), own in K.items():
        p = weight * there[v] / (weight @ there[v])
        level[v, kind] = p @ own @ p
        spread[v, kind] = p @ own.diagonal() - level[v, kind]
    units = {v: np.mean([(K[v, k] - level[v, k]) / spread[v, k] for k in kinds], axis=0) for v in "ab"}
    raw = dict(enumerate(K for _, K in source._cross_of(source.raw, set(range(6)))))
    keys = [(kernel.view, kind) for kernel in source.kernels for kind in kinds if kernel.kernel == kind]
    assert sorted(map(str, keys)) == sorted(map(str, K))
    for i in range(0, 60, 7):
        for j in range(0, 60, 5):
            known = [v for v in "ab" if there[v][i] and there[v][j]]
            mean = np.mean([units[v][i, j] for v in known]) if known else 0.0
            for m, key in enumerate(keys):
                expected = K[key][i, j] if key[0] in known else level[key] + spread[key] * mean
                assert raw[m][i, j] == pytest.approx(expected)


def test_completed_rows_are_ridge_regressions_of_kernel_rows():
    views, _ = two_views(n=30)
    M, K = Linear()(views["a"]), Linear()(views["b"])
    inverse, explained = regress_rows(M, K)
    unit = np.trace(M) / 30
    errors = []
    for share in RIDGES:
        error = 0.0
        for i in range(30):
            rest = np.delete(np.arange(30), i)
            # the row that is left out, predicted by the others: its weights by rows that do not know it
            inner = M[np.ix_(rest, rest)] + share * unit * np.eye(29)
            predicted = M[i, rest] @ np.linalg.solve(inner, K[rest])
            error += np.square(np.delete(K[i] - predicted, i)).sum()
        errors.append(error)
    best = RIDGES[int(np.argmin(errors))]
    apart = np.square(K).sum() - np.square(np.diag(K)).sum()
    assert explained == pytest.approx(1 - min(errors) / apart)
    np.testing.assert_allclose(inverse, np.linalg.inv(M + best * unit * np.eye(30)))


@pytest.mark.parametrize("how", ["complete", "renormalize"])
def test_complete_views_give_the_same_model(how):
    views, y = two_views()
    plain = kw.MKLClassifier(BANK, "simple", C=10.0, missing_views="error").fit(views, y)
    model = kw.MKLClassifier(BANK, "simple", C=10.0, missing_views=how).fit(views, y)
    np.testing.assert_array_equal(model.weights_, plain.weights_)
    np.testing.assert_array_equal(model.decision_function(views), plain.decision_function(views))


@pytest.mark.parametrize("how", ["complete", "renormalize"])
def test_folds_whose_rows_have_all_views_have_the_kernels_of_these_rows(how):
    """Kernels of one kind on different views had the values of the first view."""
    views, y = two_views()
    holes = {**views, "b": np.where(np.arange(60)[:, None] == 7, np.nan, views["b"])}
    rest = np.delete(np.arange(60), 7)
    kernels = [RBF(gamma=0.1)]
    part = kw.MKLClassifier(kernels, "simple", missing_views=how).fit(holes, y).model_.source.take(rest)
    alone = kw.MKLClassifier(kernels, "simple").fit({v: X[rest] for v, X in views.items()}, y[rest])
    for weights in np.eye(part.n_kernels):
        np.testing.assert_array_equal(
            part.gram().combine(weights), alone.model_.source.gram().combine(weights)
        )


def test_a_view_that_no_row_has_is_refused():
    views, y = two_views()
    lost = views | {"b": np.full_like(views["b"], np.nan)}
    with pytest.raises(kw.InputError, match=r"View 'b' is missing in all 60 training rows\. Leave it out"):
        kw.MKLClassifier(BANK, "simple").fit(lost, y)
    with pytest.raises(kw.InputError, match="View 'b' is missing in all training rows: it is None"):
        kw.MKLClassifier(BANK, "simple").fit({"a": views["a"], "b": None}, y)


def test_a_view_that_no_row_of_a_fold_has_is_refused_with_what_helps():
    views, y = two_views()
    one = views | {"b": np.where(np.arange(60)[:, None] == 7, views["b"], np.nan)}
    said = r"View 'b' is missing in all 48 training rows of a fold, as few rows have it\. .* set alpha or C"
    with pytest.raises(kw.InputError, match=said):
        kw.MKLRegressor(BANK, "rls2").fit(one, y)
    # with alpha there are no folds
    assert kw.MKLRegressor(BANK, "rls2", alpha=1.0).fit(one, y).status_ == "converged"


@pytest.mark.parametrize("how", ["complete", "renormalize"])
def test_a_view_that_new_rows_lack_is_predicted_by_the_others(how):
    """With a copy of the other view it is as if the view were there."""
    views, y = two_views(n=80)
    same = {"a": views["a"], "b": views["a"].copy()}
    model = kw.MKLClassifier([RBF(gamma="median")], "uniform", missing_views=how).fit(same, y)
    values = model.decision_function({"a": views["a"], "b": None})
    assert np.corrcoef(values, model.decision_function(same))[0, 1] > 0.99


def test_values_of_new_rows_with_themselves_are_completed_together(monkeypatch):
    """Every kernel computed those of all kernels again."""
    views, y = two_views()
    model = kw.MKLClassifier([RBF(gamma=g) for g in (0.01, 0.1, 1.0)], "lp", normalize="cosine")
    model.fit(with_holes(views), y)
    calls, known = [], PartialSource._known
    monkeypatch.setattr(PartialSource, "_known", lambda *asked: calls.append(1) or known(*asked))
    model.predict(with_holes(views))
    assert len(calls) == 2


def test_frames_are_joined_by_index():
    views, y = two_views()
    names = [f"r{i}" for i in range(60)]
    a = pd.DataFrame(views["a"], index=names)
    b = pd.DataFrame(views["b"], index=names).iloc[::-1].iloc[:45]
    target = pd.Series(y, index=names)
    model = kw.MKLClassifier(BANK, "simple").fit({"a": a, "b": b}, y)
    assert model.missing_["views"] == {"b": 15}
    # by position, with NaN in the place of what is not there
    holes = {"a": views["a"], "b": np.where(np.arange(60)[:, None] < 15, np.nan, views["b"])}
    np.testing.assert_allclose(
        model.decision_function({"a": a, "b": b}),
        kw.MKLClassifier(BANK, "simple").fit(holes, y).decision_function(holes),
    )
    turned = kw.MKLClassifier(BANK, "simple").fit({"b": b, "a": a}, target)
    assert turned.missing_["views"] == {"b": 15}
    assert turned.score({"b": b, "a": a}, target.loc[[*b.index, *names[:15]]]) > 0.9
    with pytest.raises(kw.InputError, match="first view has 45 of 60 rows"):
        kw.MKLClassifier(BANK, "simple").fit({"b": b, "a": a}, y)
    # weights and groups are those of the same rows
    weights, groups = pd.Series(np.arange(60) + 1.0, index=names), pd.Series(np.arange(60) % 4, index=names)
    paths = kw.MKLClassifierCV(BANK, "simple", Cs=[0.1, 1.0], cv=GroupKFold(4))
    one = clone(paths).fit({"a": a, "b": b}, target, sample_weight=weights, groups=groups)
    other = clone(paths).fit({"b": b, "a": a}, target, sample_weight=weights, groups=groups)
    np.testing.assert_allclose(other.weights_, one.weights_[[2, 3, 0, 1]], rtol=1e-5)
    np.testing.assert_allclose(other.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"])
    with pytest.raises(kw.InputError, match="values of `sample_weight` are unknown"):
        kw.MKLClassifier(BANK, "simple").fit({"b": b, "a": a}, target, sample_weight=weights.to_numpy())
    with pytest.raises(kw.InputError, match="no row in common"):
        kw.MKLClassifier(BANK, "simple").fit({"a": a, "b": b.rename(index=lambda name: f"x{name}")}, y)
    with pytest.raises(kw.InputError, match="View 'b' lacks 15"):
        kw.MKLClassifier(BANK, "simple", missing_views="error").fit({"a": a, "b": b}, y)
    data = kw.Views({"a": a, "b": b}, rows="all")
    assert np.isfinite(cross_val_score(kw.MKLClassifier(BANK, "simple"), data, y, cv=3)).all()


def test_groups_of_columns_are_views():
    views, y = two_views()
    holes = with_holes(views)
    frame = pd.DataFrame(np.hstack([holes["a"], holes["b"]]), columns=[*(f"a{j}" for j in range(6)), *"wxyz"])
    groups = {"a": "a*", "b": list("wxyz")}
    several = kw.MKLClassifier(BANK, "simple").fit(holes, y)
    for model in (
        kw.MKLClassifier(BANK, "simple", views=groups),
        kw.MKLClassifier(
            kw.banks.views({"a": frame.columns[:6].tolist(), "b": list("wxyz")}, kernels=BANK), "simple"
        ),
    ):
        model.fit(frame, y)
        assert model.missing_ == several.missing_
        np.testing.assert_allclose(
            model.decision_function(frame), several.decision_function(holes), atol=1e-6
        )


def test_precomputed_and_sparse_views_may_be_missing():
    views, y = two_views()
    K = RBF(gamma=0.1)(views["a"])
    lost = np.arange(60) % 5 == 0
    K[lost] = np.nan
    K[:, lost] = np.nan
    words = sparse.csr_array(np.abs(views["b"]) * (np.abs(views["b"]) > 0.5))
    rows = words.tolil()
    for i in np.flatnonzero(np.arange(60) % 5 == 1):
        rows[i] = 0.0
        rows[i, 0] = np.nan
    data = kw.Views({"a": kw.precomputed(K), "b": rows.tocsr()})
    for how in ("complete", "renormalize"):
        model = kw.MKLClassifier([Linear()], "simple", missing_views=how).fit(data[:50], y[:50])
        assert model.missing_["views"] == {"a": 10, "b": 10}
        assert model.score(data[50:], y[50:]) > 0.5
        assert model.predict({"a": None, "b": words[:3]}).shape == (3,)


def test_cells_of_views_that_are_there_follow_the_rule_of_cells():
    views, y = two_views()
    holes = with_holes(views)
    row = int(np.flatnonzero(~np.isnan(holes["a"][:, 0]))[0])
    holes["a"][row, 2] = np.nan
    with pytest.raises(kw.InputError, match=r"in a: column 2 \(1 of 60 rows\).*missing='impute'"):
        kw.MKLClassifier(BANK, "simple").fit(holes, y)
    for missing in WAYS:
        model = kw.MKLClassifier(BANK, "simple", missing=missing).fit(holes, y)
        assert model.missing_["cells"] == {"a: column 2": 1}
        assert np.isfinite(model.decision_function(holes)).all()


def test_groups_of_rows_and_paths_with_missing_views():
    views, y = two_views()
    holes = kw.Views(with_holes(views))
    model = kw.MKLClassifierCV(BANK, "simple", Cs=[0.1, 1.0, 10.0], cv=3).fit(holes, y)
    assert model.best_score_ > 0.8
    deep = kw.MKLClassifier(BANK, kw.learners.TwoLayerMKL(C=1.0)).fit(holes, y)
    assert np.isfinite(deep.decision_function(holes)).all()
    std = kw.MKLRegressor(BANK, alpha=1.0).fit(holes, y.astype(float)).predict(holes, return_std=True)[1]
    assert (std >= 0).all()


# ---- wrong input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda: kw.MKLRegressor(missing="mean").fit(X, Y),
            "`missing` must be.*'error', 'impute'.*got 'mean'",
        ),
        (lambda: kw.MKLRegressor(missing=3).fit(X, Y), "`missing` must be"),
        (lambda: kw.MKLRegressor(missing_views="drop").fit(X, Y), "missing_views.*'renormalize', 'complete'"),
        (
            lambda: kw.MKLRegressor().fit(
                pd.DataFrame(HOLES, columns=["2019", "2020", "2021", "2022", "2023"]), Y
            ),
            r"in column '20\d\d' \(\d+ of 40 rows\)",
        ),
        (lambda: kw.MKLRegressor().fit(HOLES, Y), r"in column \d \(\d+ of 40 rows\).*missing='impute'"),
        (
            lambda: kw.MKLRegressor(missing="impute").fit(np.c_[X, np.full(40, np.nan)], Y),
            "known cells, but in 'column 5' all of the 40",
        ),
        (lambda: kw.MKLRegressor(BANK, alpha=1.0).fit(X, Y).predict(HOLES), "of 40 rows"),
        (lambda: Impute("mode"), "rule.*Impute"),
        (lambda: Impute(n_neighbors=0), "n_neighbors.*Impute"),
        (lambda: Impute(fill=[[1.0]]), "`fill` of Impute must hold one entry for each column"),
        (lambda: Impute("nearest", fill=[1.0]), "`fill` and `donors` of Impute.*together, got no donors"),
        (
            lambda: Impute(indicator=True, fill=[1.0]),
            "`fill` and `marked` of Impute.*together, got no marked",
        ),
        (lambda: Impute("nearest", fill=[1.0], donors=[[1.0, 2.0]]), "`donors` of Impute must hold"),
        (lambda: Skip(mean=[0.0]), "`mean` and .* of Skip must be equally long, got lengths 1, None, None"),
        (lambda: Linear().prepared(Impute(fill=[1.0]))(X), "fitted on 1 columns, got 5"),
        (lambda: kw.Views({"a": X}, rows="some"), "rows"),
        (
            lambda: kw.MKLClassifier(BANK, "simple", missing="skip", max_memory=1e4).fit(
                np.tile(HOLES, (40, 1)), [0, 1] * 800
            ),
            "held as whole matrices",
        ),
    ],
)
def test_errors(run, message):
    with pytest.raises(kw.InputError, match=message):
        run()


def test_rows_without_any_view_are_refused():
    views, y = two_views()
    lost = {v: np.where(np.arange(60)[:, None] == 7, np.nan, A) for v, A in views.items()}
    with pytest.raises(kw.InputError, match=r"1 of 60 rows lack all of 'a', 'b', the first is row 7"):
        kw.MKLClassifier(BANK, "simple").fit(lost, y)
    model = kw.MKLClassifier(BANK, "simple").fit(views, y)
    with pytest.raises(kw.InputError, match="row 7"):
        model.predict(lost)
    with pytest.raises(kw.InputError, match="or None for a view that these rows lack"):
        model.predict({"a": views["a"]})


def test_the_rounding_of_zero_eigenvalues_decides_nothing_about_new_rows(rng):
    """A matrix of two negative eigenvalues, three positive ones and zeros, which are noise of either sign."""
    V = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    K = (V * np.r_[-0.5, -0.2, np.zeros(7), 1.0, 2.0, 3.0]) @ V.T
    new, found = rng.normal(size=(4, 12)), []
    for _ in range(5):
        noise = 1e-15 * rng.normal(size=K.shape)
        fixed, correction = correct(0.5 * (K + K.T) + noise + noise.T)
        np.testing.assert_allclose(fixed, (V * np.r_[np.zeros(9), 1.0, 2.0, 3.0]) @ V.T, atol=1e-12)
        assert (correction.values < 0).sum() == 2
        np.testing.assert_allclose(correction.residual, np.sqrt(0.29 / 14.29), rtol=1e-12)
        found.append((correction.project(new), correction.beyond(new)))
    for projected, beyond in found:
        np.testing.assert_allclose(projected, new @ V[:, 9:] @ V[:, 9:].T, atol=1e-12)
        np.testing.assert_allclose(beyond, np.square(new @ V[:, :2]) @ [2.0, 5.0], rtol=1e-12)


@pytest.mark.parametrize("n_neighbors", [1, 2, 7])
def test_as_many_nearest_rows_are_averaged_as_the_step_says(n_neighbors, rng):
    X, new = rng.normal(size=(20, 3)) * [1.0, 5.0, 0.1], rng.normal(size=(6, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    new[:, 1] = np.nan
    scale = np.nanstd(X, axis=0)
    wanted = KNNImputer(n_neighbors=n_neighbors).fit(X / scale).transform(new / scale) * scale
    step = Impute(rule="nearest", n_neighbors=n_neighbors).fitted(as_table(X, missing=True))
    found = step.apply(as_table(new, missing=True)).values
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_array_equal(found[:, [0, 2]], new[:, [0, 2]])


# ---- what a source of such rows says -----------------------------------------------------------------

ENDS = {"a": (0, 3), "b": (3, 5), "c": (5, 8), "d": (8, 9)}


def rows_without_views(n, seed, patterns, *, blocks=True):
    """Rows of four views, as tables or as groups of columns, that lack those of their patterns."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    values = z @ rng.normal(size=(3, 9)) + 0.4 * rng.normal(size=(n, 9))
    for k, lost in enumerate(patterns):
        for view in lost:
            values[k::17, slice(*ENDS[view])] = np.nan
    if not blocks:
        return as_table(values, missing=True)
    return BlockTable({view: as_table(values[:, slice(*ends)], missing=True) for view, ends in ENDS.items()})


#: Of 17 rows each: `c` and `d` meet in few of them, and some have one view only.
LOST = ("d", "ad", "", "bd", "cd", "c", "d", "dba", "c", "d", "cb", "acd", "c", "d", "c", "d", "cd")
ASKED = ("", "a", "bc", "abc", "dba", "bcd", "acd", "d", "c", "ab", "ad", "bd", "b", "cd", "ac", "", "dba")


def partial_source(how, *, n=51, lost=LOST, weighted=True, blocks=True, **options):
    """Kernels of every view, one of two views at once, and one that compares no rows."""
    columns = {v: ViewColumns(v) if blocks else list(range(*ends)) for v, ends in ENDS.items()}
    on = {v: (lambda k, v=v: k.on(columns[v]) if blocks else k.on(columns[v], name=v)) for v in ENDS}
    kernels = [
        on["a"](Linear()),
        on["b"](RBF(gamma=0.2)),
        on["a"](RBF(gamma="median")),
        on["c"](Polynomial(degree=2)),
        on["b"](Linear().prepared("standardize")),
        on["d"](RBF(gamma=0.5)),
        on["a"](RBF(gamma=0.3)) * on["b"](RBF(gamma=0.1)),
        on["c"](Laplacian(gamma=0.2)),
        on["b"](Constant(2.0)),
    ]
    table = rows_without_views(n, 0, lost, blocks=blocks)
    weight = np.random.default_rng(1).uniform(0.3, 3.0, n) if weighted else None
    options = {"max_memory": 1e9, "sample_weight": weight, **options}
    return PartialSource(kernels, table, views=views_of(kernels, table), how=how, **options)


def values_of(source, queries, kernels):
    found = {}
    for where, m, K in source.cross(queries, np.array(kernels)):
        found.setdefault(m, np.full((queries.n_rows, source.n_samples), np.nan))[where] = K
    return [[m, K] for m, K in sorted(found.items())]


@pytest.mark.parametrize("blocks", [True, False], ids=["tables", "columns"])
@pytest.mark.parametrize("how", ["complete", "renormalize"])
def test_a_source_of_rows_without_views_says_what_it_said(how, blocks, recorded, monkeypatch):
    """Matrices, new rows of all patterns, and what was corrected; with the weights of rows."""
    source = partial_source(how, blocks=blocks)
    new = rows_without_views(17, 3, ASKED, blocks=blocks)
    asked = source.accepted(new.rows(np.flatnonzero([len(lost) < 4 for lost in ASKED])))
    every = range(source.n_kernels)
    gram = source.gram()
    known = [gram.combine(row) for row in np.eye(source.n_kernels)]
    recorded("training", [known, source.names, gram.describe(), source.is_whole, source.lacks(source.raw)])
    recorded("asked", [values_of(source, asked, every), values_of(source, asked, [7, 2])])
    recorded("themselves", [[source.query_diagonal(asked, m) for m in every], source.lacks(asked)])
    changes = {name: [one.residual, one.values[one.values < 0]] for name, one in source.corrections().items()}
    recorded("corrections", changes)
    # a few rows at a time, and after a file, the same
    again = pickle.loads(pickle.dumps(source))
    monkeypatch.setattr("kernelweave.fitting.partial.CHUNK_BYTES", 2 * 51 * 13 * 5)
    assert len(list(source.cross(asked, np.array([0])))) == -(-asked.n_rows // 5)
    for one in (source, again):
        for (m, K), (k, other) in zip(
            values_of(source, asked, every), values_of(one, asked, every), strict=True
        ):
            assert m == k
            np.testing.assert_allclose(K, other, rtol=1e-9, atol=1e-10)
        for m in every:
            np.testing.assert_allclose(
                one.query_diagonal(asked, m), source.query_diagonal(asked, m), atol=1e-9
            )
    for m, name in enumerate(source.names):
        assert (name in changes) == (source.correction(m) is not None) == (how == "renormalize" and m != 8)
    learnt = source.learnt
    assert len(learnt) == len(source.parts) == 5
    assert [(part.views, part.kernels.tolist(), len(part.rows)) for part in source.parts] == [
        (("a",), [0, 2], 42), (("b",), [1, 4, 8], 42), (("c",), [3, 7], 27), (("d",), [5], 18), (("a", "b"), [6], 36),
    ]  # fmt: skip
    # rows alone, all of which have two views
    rows = np.array([2, 5, 8, 12, 14, 19, 22])
    some = source.take(rows)
    assert (some.how, list(some.views)) == (how, [*ENDS])
    np.testing.assert_array_equal(some.sample_weight, source.sample_weight[rows])
    recorded("taken", [[some.gram().combine(row) for row in np.eye(9)], some.names, some.lacks(asked)])


def test_corrections_of_filled_matrices_are_told():
    """They were left out: up to a quarter of a matrix."""
    views, y = two_views()
    model = kw.MKLClassifier(BANK, "simple", C=1.0, missing_views="renormalize").fit(with_holes(views), y)
    source = model.model_.source
    assert list(model.missing_["residuals"]) == list(source.names)
    assert model.missing_["residuals"] == {m: one.residual for m, one in source.corrections().items()}
    assert "Negative eigenvalues of 4 kernels were set to zero" in kw.inspection.missing(model)[-1]
    # of kernels that skip cells in a view, without a part in what is filled
    holes = with_holes(views)
    holes["a"][::4, 2] = np.nan
    skipped = kw.MKLClassifier(BANK, "simple", C=1.0, missing="skip").fit(holes, y)
    assert set(skipped.missing_["residuals"]) == {
        n for n in skipped.model_.source.names if n.startswith("a: ")
    }


@pytest.mark.parametrize("how", ["complete", "renormalize"])
def test_new_rows_may_lack_views_that_all_training_rows_have(how, recorded):
    source = partial_source(how, n=20, lost=(), weighted=False)
    assert source.is_whole
    assert not source.parts
    asked = rows_without_views(17, 3, ASKED).rows(np.arange(16))
    whole = asked.rows(np.array([0, 15]))
    assert source.lacks(asked)
    assert not source.lacks(whole)
    every = range(source.n_kernels)
    recorded("asked", [values_of(source, asked, every), [source.query_diagonal(asked, m) for m in every]])
    for (m, K), (_, other) in zip(
        values_of(source, whole, every), values_of(source, asked, every), strict=True
    ):
        np.testing.assert_allclose(K, source.kernels[m](whole, source.table), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(K, other[[0, 15]], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(source.query_diagonal(whole, m), source.kernels[m].diag(whole), rtol=1e-12)
    assert source.corrections() == {}
    assert all(source.correction(m) is None for m in every)


def test_what_such_rows_cannot_have_is_told(recorded):
    said = []
    for make in (
        lambda: partial_source("complete", lost=("abcd", "", "abcd")),
        lambda: partial_source("complete", lost=("d",) * 17),
        lambda: partial_source("complete", lost=("d",) * 17, like=partial_source("complete")),
        lambda: partial_source("complete", lost=("a", "b") * 8 + ("b",)),
        lambda: partial_source("complete", max_memory=2e5).gram(),
        lambda: partial_source("complete", max_memory=5e4).gram(),
        lambda: partial_source("complete").accepted(rows_without_views(17, 0, ("", "abcd", "abcd"))),
        lambda: partial_source("complete").accepted(one_cell(rows_without_views(17, 0, ASKED[:3]))),
    ):
        try:
            make()
        except kw.InputError as error:
            said.append(str(error))
        else:
            said.append(None)
    recorded("messages", said)


def one_cell(table):
    table.blocks["b"].values[4, 1] = np.nan
    return table


def test_means_are_those_of_the_views_that_both_rows_have():
    parts = [
        (np.array([0, 2]), np.array([1]), np.array([[3.0], [5.0]])),
        (np.array([2]), np.array([0, 1]), np.array([[7.0, 9.0]])),
    ]
    assert mean_of_known(parts, (3, 2)).tolist() == [[0.0, 3.0], [0.0, 0.0], [7.0, 7.0]]
    assert mean_of_known([], (1, 2)).tolist() == [[0.0, 0.0]]


def test_regressions_of_nothing_explain_nothing():
    """One row, kernels without values off the diagonal, and without any."""
    inverse, explained = regress_rows(np.array([[2.0]]), np.array([[3.0]]))
    assert explained == 0.0
    # the first ridge is as good as any
    np.testing.assert_allclose(inverse, [[1.0 / (2.0 + 2.0 * RIDGES[0])]])
    assert regress_rows(np.eye(3), np.eye(3))[1] == 0.0
    inverse, explained = regress_rows(np.zeros((3, 3)), np.ones((3, 3)))
    assert np.isfinite(inverse).all()
    assert explained == 0.0
    assert regress_rows(-np.eye(3), np.ones((3, 3)))[1] == 0.0
    K = np.random.default_rng(0).normal(size=(6, 3))
    assert regress_rows(K @ K.T, K @ K.T)[1] > 0.9


def test_a_bank_takes_missing_cells_if_all_its_kernels_do():
    takes, does_not = Constant(), Linear()
    assert takes_missing("error", [takes, takes])
    for bank in ([takes, does_not], {"a": takes, "b": [does_not]}, does_not, [], "linear"):
        assert not takes_missing("error", bank)
    assert takes_missing("mean", [does_not])
