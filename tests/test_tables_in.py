"""Several tables of the same rows: dicts and lists of views, groups of columns, precomputed kernels.

Modules: `views/container`, `views/groups`, `views/tables`, `kernels/given`, `estimators/sources`,
`estimators/reading`, `kernels/composed`, `kernels/steps`, `kernels/training_rows`, `views/encoding`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline

import kernelweave as kw
from kernelweave.kernels import RBF, Categorical, Linear, Polynomial
from kernelweave.persistence.states import from_state, to_state
from kernelweave.views import ViewColumns, ViewsEncoder
from recording import outcome, told

N = 60


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(3)
    A, B = rng.normal(size=(N, 5)), rng.gamma(1.0, size=(N, 4)) * (rng.random((N, 4)) < 0.4)
    y = np.where(A[:, 0] + B[:, 0] - 0.5 + 0.4 * rng.normal(size=N) > 0, "yes", "no")
    return A, B, y


def svm(kernels=None, **params):
    return kw.MKLClassifier(kernels, learner="simple", C=1.0, **params)


def same(a, b, tol=1e-12):
    np.testing.assert_allclose(a, b, rtol=0, atol=tol)


BANK = [Linear(), RBF(gamma="median"), Polynomial(degree=2).on([0, 1])]


def joined_bank():
    first = [
        Linear().on(slice(0, 5), "a"),
        RBF(gamma="median").on(slice(0, 5), "a"),
        Polynomial(degree=2).on([0, 1]),
    ]
    second = [
        Linear().on(slice(5, 9), "b"),
        RBF(gamma="median").on(slice(5, 9), "b"),
        Polynomial(degree=2).on([5, 6]),
    ]
    return first + second


@pytest.mark.parametrize("standardize", [False, True])
def test_views_equal_the_same_kernels_on_columns_of_the_joined_table(tables, standardize):
    A, B, y = tables
    joined = np.hstack([A, B])
    ours = svm(BANK, standardize=standardize).fit({"a": A[:40], "b": B[:40]}, y[:40])
    theirs = svm(joined_bank(), standardize=standardize).fit(joined[:40], y[:40])
    same(ours.weights_, theirs.weights_)
    new = {"b": B[40:], "a": A[40:]}  # another order
    same(ours.decision_function(new), theirs.decision_function(joined[40:]))
    same(ours.kernel_contributions(new), theirs.kernel_contributions(joined[40:]))
    assert ours.kernel_names_[0] == "a: Linear"
    assert ours.kernel_names_[5] == "b: Polynomial(degree=2) on x0, x1"
    shares = kw.inspection.view_weights(ours)
    assert set(shares) == {"a", "b"}
    assert shares["a"] == pytest.approx(ours.weights_[:3].sum() / ours.weights_.sum(), abs=1e-12)


def test_plain_fit_takes_the_default_bank_of_every_view(tables):
    A, B, y = tables
    ours = kw.MKLClassifier(alpha=0.1).fit({"a": A, "b": B}, y)
    bank = [*kw.banks.default(A), *kw.banks.default(B)]
    assert len(ours.kernels_) == len(bank)
    rules = kw.banks.default({"a": A, "b": B})
    assert [kernel.fitted({"a": A, "b": B}) for kernel in rules] == ours.kernels_
    # None in a dict is the same for one view
    given = {"a": kw.banks.default(A), "b": None}
    theirs = kw.MKLClassifier(given, alpha=0.1, normalize="center").fit({"a": A, "b": B}, y)
    assert theirs.kernels_ == ours.kernels_
    same(ours.decision_function({"a": A, "b": B}), theirs.decision_function({"a": A, "b": B}), 1e-6)


def test_linear_models_of_views_have_coefficients(tables):
    A, B, _ = tables
    model = kw.MKLRegressor([Linear()], alpha=0.5, standardize=True).fit({"a": A, "b": B}, A[:, 0] + B[:, 1])
    same(
        np.hstack([A, B]) @ model.coef_ + model.linear_intercept_,
        model.predict({"a": A, "b": B}),
    )
    slow = model.kernel_contributions({"a": A, "b": B}).sum(axis=1) + model.intercept_
    same(slow, model.predict({"a": A, "b": B}), 1e-10)


def test_sparse_views_equal_dense_ones(tables):
    A, B, y = tables
    bank = {"a": [Linear()], "b": [Linear(), RBF(gamma="median").prepared("normalize-rows")]}
    dense = svm(bank).fit({"a": A, "b": B}, y)
    thin = svm(bank).fit({"a": A, "b": sparse.coo_matrix(B)}, y)
    same(
        thin.decision_function({"a": A, "b": sparse.csc_matrix(B)}), dense.decision_function({"a": A, "b": B})
    )
    linear = svm([Linear()]).fit({"a": A, "b": sparse.csr_array(B)}, y)
    same(linear.coef_, svm([Linear()]).fit({"a": A, "b": B}, y).coef_, 1e-10)


@pytest.fixture(scope="module")
def with_gram(tables):
    A, B, _ = tables
    K = RBF(gamma=0.3)(A)
    return kw.Views({"b": B, "k": kw.precomputed(K)}), kw.Views({"b": B, "k": A}), K


BY_VIEW = {"b": [Linear()]}
WITH_RBF = {"b": [Linear()], "k": [RBF(gamma=0.3)]}


@pytest.mark.parametrize("normalize", ["mean-diagonal", "center", "cosine"])
def test_precomputed_views_equal_the_kernel_they_came_from(tables, with_gram, normalize):
    y = tables[2]
    gram, plain, K = with_gram
    order = np.random.default_rng(0).permutation(N)
    train, test = order[:40], order[40:]
    ours = svm(BY_VIEW, normalize=normalize).fit(gram[train], y[train])
    theirs = svm(WITH_RBF, normalize=normalize).fit(plain[train], y[train])
    same(ours.weights_, theirs.weights_)
    same(ours.decision_function(gram[test]), theirs.decision_function(plain[test]))
    if normalize != "cosine":
        # the same as a matrix of new rows and training rows, or as an array
        cross = K[np.ix_(test, train)]
        for view in (kw.precomputed(cross), cross):
            same(
                ours.decision_function({"b": gram["b"][test], "k": view}),
                theirs.decision_function(plain[test]),
            )
    # as many new rows as training rows: a square matrix that is a cross-Gram
    half, other = order[:30], order[30:]
    ours = svm(BY_VIEW, normalize="center").fit(gram[half], y[half])
    new = {"b": gram["b"][other], "k": kw.precomputed(K[np.ix_(other, half)])}
    same(ours.decision_function(new), ours.decision_function(gram[other]))


def test_rows_of_a_precomputed_view_keep_their_own_diagonal(tables):
    A, _, y = tables
    gram, plain = kw.Views({"k": kw.precomputed(A @ A.T)}), kw.Views({"k": A})
    train, test = np.arange(40), np.arange(59, 39, -1)
    ours = svm(normalize="cosine").fit(gram[train], y[train])
    theirs = svm([Linear()], normalize="cosine").fit(plain[train], y[train])
    same(ours.decision_function(gram[test]), theirs.decision_function(plain[test]))


def test_a_square_matrix_of_new_rows_is_not_the_one_of_fit(tables, with_gram, tmp_path):
    y = tables[2][:30]
    K = with_gram[2]
    cosine = kw.MKLClassifier(alpha=0.1, normalize="cosine").fit({"k": kw.precomputed(K[:30, :30])}, y)
    for n in (29, 30):  # k(x, x) is not on the diagonal of values with the training rows
        with pytest.raises(kw.InputError, match=r"k\(x, x\)"):
            cosine.decision_function({"k": kw.precomputed(K[30 : 30 + n, :30])})
    order = np.random.default_rng(1).permutation(30)
    data = kw.Views({"k": kw.precomputed(K[:30, :30])})
    model = kw.MKLClassifier(alpha=0.1).fit(data[order], y[order])
    kw.save(model, tmp_path / "model.kw")
    for one in (model, kw.load(tmp_path / "model.kw")):
        cross = K[30:60, :30][:, order]
        parts = [one.decision_function({"k": kw.precomputed(part)}) for part in (cross[:15], cross[15:])]
        same(one.decision_function({"k": kw.precomputed(cross)}), np.concatenate(parts))
        # the matrix of fit is known again
        known = one.decision_function({"k": kw.precomputed(K[:30, :30])})
        same(known, one.decision_function(data))
        same(known[:20], one.decision_function({"k": K[:20, :30][:, order]}))


def test_scikit_learn_cross_validates_views(tables, with_gram):
    y = tables[2]
    gram, plain, _ = with_gram
    cv = KFold(3, shuffle=True, random_state=0)
    same(cross_val_score(svm(BY_VIEW), gram, y, cv=cv), cross_val_score(svm(WITH_RBF), plain, y, cv=cv))
    found = cross_val_predict(svm(BY_VIEW), gram, y, cv=cv, method="decision_function")
    by_hand = np.empty(N)
    for train, test in cv.split(y):
        by_hand[test] = clone(svm(BY_VIEW)).fit(gram[train], y[train]).decision_function(gram[test])
    same(found, by_hand)
    search = GridSearchCV(make_pipeline("passthrough", svm(BY_VIEW)), {"mklclassifier__C": [0.1, 1.0]}, cv=cv)
    search.fit(gram, y)
    ours = kw.MKLClassifierCV(BY_VIEW, learner="simple", Cs=[0.1, 1.0], cv=cv).fit(gram, y)
    same(ours.cv_results_["mean_test_score"][::1], search.cv_results_["mean_test_score"])
    same(
        search.decision_function(gram),
        clone(svm(BY_VIEW))
        .set_params(**{"C": search.best_params_["mklclassifier__C"]})
        .fit(gram, y)
        .decision_function(gram),
    )


def test_alpha_auto_and_weights_of_rows(tables, with_gram):
    A, _, _ = tables
    gram, plain, _ = with_gram
    weight = np.ones(N)
    weight[:10] = 0.0
    ours = kw.MKLRegressor(BY_VIEW, alpha=0.2).fit(gram, A[:, 1], sample_weight=weight)
    theirs = kw.MKLRegressor(WITH_RBF, alpha=0.2).fit(plain, A[:, 1], sample_weight=weight)
    assert ours.n_features_in_ == 4
    for a, b in zip(ours.predict(gram, return_std=True), theirs.predict(plain, return_std=True), strict=True):
        same(a, b, 1e-10)
    # the order of rows does not count for the folds of an automatic alpha
    order = np.random.default_rng(1).permutation(N)
    chosen = [kw.MKLRegressor(BY_VIEW).fit(gram[rows], A[rows, 1]).alpha_ for rows in (np.arange(N), order)]
    assert chosen[0] == pytest.approx(chosen[1], rel=1e-9)


def test_model_files_hold_views(tables, with_gram, tmp_path):
    y = tables[2]
    gram, _, _ = with_gram
    words = sparse.csr_array(np.random.default_rng(0).poisson(0.05, size=(len(y), 200)).astype(float))
    data = kw.Views({**gram.views, "t": words, "f": pd.DataFrame({"c": list("abc") * 20})})
    model = kw.MKLClassifier(alpha=0.1).fit(data[:45], y[:45])
    kw.save(model, tmp_path / "m.kw")
    again = kw.load(tmp_path / "m.kw")
    np.testing.assert_array_equal(again.decision_function(data[45:]), model.decision_function(data[45:]))
    assert kw.inspection.view_weights(again) == kw.inspection.view_weights(model)
    assert again.kernels_ == model.kernels_
    for kernel in model.kernels_:
        assert from_state(to_state(kernel)) == kernel
    # kernels of a fitted model know their views
    bound = kw.MKLClassifier(model.kernels_, alpha=0.1).fit(data[:45], y[:45])
    assert bound.kernels_ == model.kernels_


def test_frames_are_joined_by_index(tables):
    A, B, _ = tables
    rows = [f"r{i}" for i in range(N)]
    a, b = pd.DataFrame(A, index=rows), pd.DataFrame(B, index=rows)
    mixed = b.sample(frac=1.0, random_state=0)
    data = kw.Views({"a": a, "b": mixed})
    np.testing.assert_array_equal(data["b"].to_numpy(), B)
    with pytest.raises(kw.InputError, match=r"View 'b' lacks 2 of view 'a': 'r3', 'r5'"):
        kw.Views({"a": a, "b": mixed.drop(["r3", "r5"])})
    with pytest.raises(kw.InputError, match="share theirs"):
        kw.Views({"a": a, "b": pd.concat([b[:-1], b[:1]])})
    with pytest.raises(kw.InputError, match="no index"):
        kw.Views({"a": a, "b": mixed, "c": A})
    np.testing.assert_array_equal(kw.Views({"a": A, "b": mixed})["b"], mixed)
    with pytest.raises(kw.InputError, match="'a' and 'b' have different rows"):  # one row further
        kw.Views({"a": a, "b": b.set_axis([f"r{i + 1}" for i in range(N)]), "c": A})
    # the default index says nothing, also where rows are picked
    counted = kw.Views({"a": pd.DataFrame(A), "b": b, "c": A})
    np.testing.assert_array_equal(kw.Views(counted[[5, 3]])["b"], B[[5, 3]])
    with pytest.raises(kw.InputError, match="another order"):
        kw.Views({"a": pd.DataFrame(A), "b": pd.DataFrame(B).iloc[::-1], "c": A})


def test_predictions_have_the_order_of_the_view_that_was_first_in_fit(tables):
    A, B, y = tables
    a, mixed = pd.DataFrame(A), pd.DataFrame(B).sample(frac=1.0, random_state=0)
    model = svm([Linear()]).fit({"a": a, "b": mixed}, y)
    same(
        model.decision_function({"b": mixed, "a": a}),
        svm([Linear()]).fit({"a": A, "b": B}, y).decision_function({"a": A, "b": B}),
    )


def test_every_kind_of_table_can_be_indexed(tables):
    A, B, _ = tables
    kinds = {
        "array": A,
        "pandas": pd.DataFrame(A, columns=list("abcde")),
        "polars": pl.DataFrame({c: A[:, k] for k, c in enumerate("abcde")}),
        "sparse": sparse.coo_array(B),
        "list": A.tolist(),
        "gram": kw.precomputed(A @ A.T),
    }
    data = kw.Views(kinds)
    assert (data.names, len(data), data.shape) == (tuple(kinds), N, (N, 24))
    assert "'sparse' (4 sparse columns)" in repr(data)
    assert "'gram' (precomputed)" in repr(data)
    mask = np.arange(N) % 3 == 0
    for rows in (np.flatnonzero(mask), mask, slice(0, N, 3), list(range(0, N, 3))):
        part = data[rows]
        assert len(part) == N // 3
        for name in ("array", "pandas", "polars", "list"):
            np.testing.assert_array_equal(np.asarray(part[name]), A[mask])
        np.testing.assert_array_equal(part["sparse"].toarray(), B[mask])
        assert part["gram"].shape == (N // 3, N)
    assert (len(data[3]), len(kw.Views(data))) == (1, N)
    with pytest.raises(kw.InputError, match="Did you mean"):
        data["panda"]
    with pytest.raises(kw.InputError, match="several tables"):
        np.asarray(data)
    for rows in (np.zeros((2, 2), dtype=int), np.array([0.5, 1.0]), (slice(0, 2), np.array([0, 1]))):
        with pytest.raises(kw.InputError, match=r"by integers, a mask or a slice|by rows"):
            data[rows]


def test_lists_of_tables_are_views(tables):
    A, B, y = tables
    model = svm([Linear()]).fit([A, B], y)
    assert model.kernel_names_.tolist() == ["view0: Linear", "view1: Linear"]
    same(
        model.decision_function([A, B]),
        svm([Linear()]).fit({"x": A, "z": B}, y).decision_function({"x": A, "z": B}),
    )


def test_lists_of_rows_are_one_table(tables):
    A, _, y = tables
    theirs = svm([Linear()]).fit(A, y).decision_function(A)
    for rows in (A.tolist(), list(A), [pd.Series(row) for row in A]):
        same(svm([Linear()]).fit(rows, y).decision_function(rows), theirs)


def test_tables_of_arrow_are_views(tables):
    pa = pytest.importorskip("pyarrow")
    A, B, y = tables
    data = kw.Views({"a": pa.table({f"c{k}": A[:, k] for k in range(5)}), "b": B})
    order = np.random.default_rng(5).permutation(N)
    ours, theirs = (
        svm([Linear()]).fit(data[order], y[order]),
        svm([Linear()]).fit({"a": A[order], "b": B[order]}, y[order]),
    )
    same(ours.decision_function(data), theirs.decision_function({"a": A, "b": B}))


def test_groups_of_columns_of_one_frame(tables, tmp_path):
    A, B, y = tables
    frame = pd.DataFrame(
        np.hstack([A, B]), columns=[*(f"g_{k}" for k in range(5)), "age", "bmi", "sys", "dia"]
    )
    groups = {"rna": "g_*", "clinical": ["age", "b?i"], "pressure": ["sys", "dia", "age"]}
    model = svm([Linear(), RBF(gamma="median")], views=groups).fit(frame, y)
    bank = [
        k.on(c, n)
        for n, c in (
            ("rna", list(frame.columns[:5])),
            ("clinical", ["age", "bmi"]),
            ("pressure", ["sys", "dia", "age"]),
        )
        for k in (Linear(), RBF(gamma="median"))
    ]
    theirs = svm(bank).fit(frame, y)
    assert model.kernels_ == theirs.kernels_
    same(model.decision_function(frame), theirs.decision_function(frame))
    assert set(kw.inspection.view_weights(model)) == set(groups)
    # defaults, also on single columns of a view
    plain = kw.MKLClassifier(alpha=0.1, views=groups).fit(frame, y)
    assert "pressure: standardised Linear" in plain.kernel_names_
    assert {k.view for k in plain.kernels_} == set(groups)
    kw.save(plain, tmp_path / "m.kw")
    same(kw.load(tmp_path / "m.kw").decision_function(frame), plain.decision_function(frame))
    # slices of an array, kernels by view
    by_view = svm({"x": [Linear()], "z": [RBF(gamma=1.0)]}, views={"x": slice(0, 5), "z": [5, 6]}).fit(
        frame.to_numpy(), y
    )
    assert by_view.kernel_names_.tolist() == ["x: Linear", "z: RBF(gamma=1)"]
    # gene sets name genes that were not measured
    (tmp_path / "sets.gmt").write_text("up\tnone\tg_0\tg_2\tg_99\ndown\tnone\tg_2\tg_4\nother\tnone\tq\n")
    sets = svm([Linear()], views=str(tmp_path / "sets.gmt")).fit(frame, y)
    assert sets.kernels_[0].columns == ("g_0", "g_2")
    assert sets.kernel_names_.tolist() == ["up: Linear", "down: Linear"]


def test_kernels_on_columns_of_a_group_carry_the_names_of_the_table(tables):
    A, B, y = tables
    frame = pd.DataFrame(np.hstack([A, B]), columns=list("abcdefghi"))
    kernels = {"u": [Linear().on(["b"])], "v": [RBF(gamma=1.0).on([1])]}
    model = svm(kernels, views={"u": ["a", "b"], "v": ["e", "g"]}).fit(frame, y)
    assert model.kernel_names_.tolist() == ["u: Linear on b", "v: RBF(gamma=1) on g"]
    plain = svm(kernels | {"u": [Linear().on([1])]}, views={"u": [0, 1], "v": [4, 6]}).fit(
        frame.to_numpy(), y
    )
    assert plain.kernel_names_.tolist() == ["u: Linear on x1", "v: RBF(gamma=1) on x6"]
    theirs = svm([Linear().on(["b"]), RBF(gamma=1.0).on(["g"])]).fit(frame, y)
    same(model.decision_function(frame), theirs.decision_function(frame))
    same(plain.decision_function(frame.to_numpy()), theirs.decision_function(frame))


BAD_GROUPS = {
    "glob": ({"rna": "gg_*"}, "no column matches 'gg_\\*'"),
    "near": ({"rna": ["g_0", "ag"]}, "Did you mean 'age'"),
    "range": ({"rna": [0, 77]}, "View 'rna': Column 77 is out of range"),
    "empty": ({}, "must be a dict"),
    "number": (3, "must be a dict"),
    "file": ("no_such.gmt", "no views file"),
    "name": ({1: "g_*"}, "named by texts"),
}


@pytest.mark.parametrize("case", BAD_GROUPS)
def test_wrong_groups_are_named(case):
    frame = pd.DataFrame(np.eye(4), columns=["g_0", "g_1", "age", "bmi"])
    groups, message = BAD_GROUPS[case]
    with pytest.raises(kw.InputError, match=message):
        kw.MKLRegressor([Linear()], alpha=1.0, views=groups).fit(frame, np.arange(4.0))


E = np.eye(4)
BAD_VIEWS = {
    "no views": ({}, "at least one"),
    "lengths": ({"a": E, "b": E[:3]}, "equally many rows, got 'a' 4, 'b' 3"),
    "one dimension": (
        {"a": E, "b": np.ones(4)},
        "View 'b' must be a table.*an array of shape \\(4,\\).*reshape",
    ),
    "ragged": ({"a": [[1.0], [1.0, 2.0]]}, "View 'a' must .*different lengths"),
    "NaN": ({"a": E, "b": E * np.nan}, "View 'b' is missing in all 4 training rows"),
    "not square": ({"a": kw.precomputed(E[:, :3])}, "View 'a': A precomputed view must be square"),
    "asymmetric": ({"a": kw.precomputed(E + np.eye(4, k=1))}, "symmetric"),
    "negative": ({"a": kw.precomputed(E - 0.9)}, "View 'a'|semidefinite"),
    "names": ({0: E}, "named by texts"),
}


@pytest.mark.parametrize("case", BAD_VIEWS)
def test_wrong_views_are_named(case):
    views, message = BAD_VIEWS[case]
    with pytest.raises((kw.InputError, kw.NotPSDError), match=message):
        kw.MKLRegressor(alpha=1.0).fit(views, np.arange(4.0))


def test_new_rows_must_have_the_views_of_fit():
    y = np.arange(4.0)
    model = kw.MKLRegressor([Linear()], alpha=1.0).fit({"rna": E + 1.0, "k": kw.precomputed(E + 1.0)}, y)
    for new, message in (
        ({"rna": E}, "lacks 'k'"),
        ({"rnas": E, "k": E}, "lacks 'rna' and has the unknown 'rnas'. Did you mean 'rna'"),
        ({"rna": E[:, :3], "k": E}, "View 'rna': X has 3 features"),
        ({"rna": E, "k": E[:, :3]}, "View 'k': .*column for each of the 4 training rows"),
        (E, "fitted on the views 'rna', 'k', got one table"),
    ):
        with pytest.raises(kw.InputError, match=message):
            model.predict(new)
    gram = kw.Views({"k": kw.precomputed(E + 1.0)})
    with pytest.raises(kw.InputError, match="View 'k': Found array with 0 sample"):
        kw.MKLRegressor(alpha=1.0).fit(gram, y).predict(gram[[]])
    one = kw.MKLRegressor([Linear()], alpha=1.0).fit(E + 1.0, y)
    with pytest.raises(kw.InputError, match="fitted on one table"):
        one.predict({"rna": E})


def test_wrong_kernels_of_views_are_named():
    y, views = np.arange(4.0), {"rna": E + 1.0, "age": E + 1.0, "k": kw.precomputed(E)}
    for kernels, message in (
        ({"rna": [Linear()]}, "none for 'age'"),
        ({"rna": [Linear()], "ages": None, "age": None}, "ages"),
        ({"rna": "linear", "age": None}, "kernels\\['rna'\\]"),
        ({"rna": [Linear()], "age": [Linear()], "k": [Linear()]}, "no columns"),
        ({"rna": [kw.kernels.Precomputed()], "age": None}, "kw.precomputed"),
        ([Linear().on(["nothing"])], "View 'rna': .*no names"),
        ("precomputed", "pass each matrix as a view"),
        ([kw.kernels.Precomputed()], "none for the columns of 'rna', 'age'"),
    ):
        with pytest.raises(kw.InputError, match=message):
            kw.MKLRegressor(kernels, alpha=1.0).fit(views, y)
    with pytest.raises(kw.InputError, match="need views"):
        kw.MKLRegressor({"rna": [Linear()]}, alpha=1.0).fit(E, y)
    with pytest.raises(kw.InputError, match="several views already"):
        kw.MKLRegressor(views={"rna": slice(0, 2)}, alpha=1.0).fit(views, y)
    with pytest.raises(kw.InputError, match="no view has columns: 'k' are precomputed"):
        kw.MKLRegressor([Linear()], alpha=1.0).fit({"k": views["k"]}, y)
    with pytest.raises(kw.InputError, match="all views have columns"):
        kw.MKLRegressor([Linear(), 2.0 * kw.kernels.Precomputed()], alpha=1.0).fit({"rna": E + 1.0}, y)


def test_precomputed_kernels_of_a_list_go_to_precomputed_views():
    views = {"rna": E + 1.0, "k": kw.precomputed(E + 1.0)}
    model = kw.MKLRegressor([RBF(), 3.0 * kw.kernels.Precomputed(), Linear()], alpha=1.0)
    assert [kernel.view for kernel in model.fit(views, np.arange(4.0)).kernels_] == ["rna", "rna", "k"]
    assert model.kernel_names_.tolist()[2].startswith("k: 3 * ")


@pytest.mark.parametrize("kernels", ["precomputed", kw.KernelBank(np.stack([E, E + 1.0], axis=-1))])
def test_groups_of_columns_need_columns(kernels):
    X = E if isinstance(kernels, str) else np.arange(4)[:, None]
    with pytest.raises(kw.InputError, match="`views` groups columns of X"):
        kw.MKLRegressor(kernels, alpha=1.0, views={"a": [0]}).fit(X, np.arange(4.0))


def test_kernels_of_views_can_be_called(tables, with_gram):
    gram, _, K = with_gram
    model = svm(BY_VIEW).fit(gram[:40], tables[2][:40])
    linear, precomputed = model.kernels_
    same(linear(gram), gram["b"] @ gram["b"].T)
    same(precomputed(gram[40:], gram[:40]), K[40:, :40], 0)
    same(precomputed.diag(gram[40:]), np.diag(K)[40:], 0)
    rule = RBF(gamma="median").on(kw.views.ViewColumns("b", (0, 1)))
    assert rule.fitted(gram).base == RBF(gamma="median").fitted(gram["b"][:, :2])


def test_kernels_of_views_are_the_same_in_little_memory(tables, with_gram):
    gram, y = with_gram[0], tables[2]
    data = kw.Views({**gram.views, "t": sparse.csr_matrix(gram["b"])})
    full, little = (svm([RBF(gamma="median")], max_memory=m).fit(data, y) for m in ("auto", 1))
    assert "tiles" in little.gram_
    same(full.decision_function(data), little.decision_function(data), 1e-10)


def test_deep_kernels_calibration_and_transduction_take_views(tables, with_gram):
    gram, plain, _ = with_gram
    y = tables[2]
    for params in ({"learner": "dmkl"}, {"normalize": "extra"}):
        both = []
        for data, bank in ((gram, BY_VIEW), (plain, WITH_RBF)):
            extra = {"normalize": kw.normalizers.Center(extra=data[40:])} if "normalize" in params else params
            model = kw.MKLClassifier(bank, **{"learner": "simple", **extra}).fit(data[:40], y[:40])
            both.append(model.decision_function(data[40:]))
        same(*both, 1e-9)
    proba = [
        svm(b).fit(d[:40], y[:40]).calibrate().predict_proba(d[40:])
        for d, b in ((gram, BY_VIEW), (plain, WITH_RBF))
    ]
    assert proba[0].shape == (20, 2)
    assert np.isfinite(proba).all()


class Annotated:
    """As an AnnData."""

    def __init__(self, X, obs, var):
        self.X, self.obs_names, self.var_names = X, pd.Index(obs), pd.Index(var)
        self.shape = X.shape


class Several:
    """As a MuData."""

    def __init__(self, mod, obs):
        self.mod, self.obs_names = mod, pd.Index(obs)


def test_kernels_without_a_view_see_the_columns_of_all():
    rng = np.random.default_rng(4)
    A, B = rng.normal(size=(1200, 3)), sparse.random_array((1200, 6), density=0.3, rng=rng, format="csr")
    X = {"a": A, "s": B}
    both = np.hstack([A, B.toarray()])
    # more rows than the median is taken of
    same(RBF(gamma="median").fitted(X).gamma, RBF(gamma="median").fitted(sparse.csr_array(both)).gamma)
    few = {name: table[:9] for name, table in X.items()}
    same(Linear().prepared("log1p")(few), Linear().prepared("log1p")(both[:9]))
    dense = {"a": A[:9], "b": both[:9, 3:]}
    same(Linear().prepared("standardize")(dense), Linear().prepared("standardize")(both[:9]))
    same(Categorical()(dense), Categorical()(both[:9]))
    with pytest.raises(kw.InputError, match="sparse columns must be dense"):
        Categorical()(few)
    with pytest.raises(kw.InputError, match="Sparse columns cannot be standardised"):
        Linear().prepared("standardize")(few)
    gram = {"a": A[:9], "k": kw.precomputed(np.eye(9))}
    for kernel in (Categorical(), Linear().prepared("log1p"), Linear().prepared("standardize"), RBF()):
        with pytest.raises(kw.InputError, match="precomputed view has no columns"):
            kernel(gram)


def test_both_sides_of_a_kernel_are_read_once(tables, monkeypatch):
    A, B, _ = tables
    read, plain = [], ViewsEncoder.fit_transform
    monkeypatch.setattr(ViewsEncoder, "fit_transform", lambda self, X: read.append(X) or plain(self, X))
    K = Linear()({"a": A[:5], "b": B[:5]}, {"b": B, "a": A})
    same(K, np.hstack([A, B])[:5] @ np.hstack([A, B]).T)
    assert len(read) == 1


def test_annotated_matrices_are_tables(tables):
    A, B, y = tables
    rows = [f"cell{k}" for k in range(N)]
    order = np.random.default_rng(2).permutation(N)
    a = Annotated(A, rows, [f"g{k}" for k in range(5)])
    b = Annotated(sparse.csr_matrix(B)[order], [rows[k] for k in order], [f"p{k}" for k in range(4)])
    several = Several({"rna": a, "protein": b}, rows)
    model = svm([Linear()]).fit(several, y)
    theirs = svm([Linear()]).fit({"rna": A, "protein": B}, y)
    same(model.decision_function(several), theirs.decision_function({"rna": A, "protein": B}))
    np.testing.assert_array_equal(kw.Views(several)["protein"].toarray(), B)
    one = svm([Linear()], views={"first": ["g0", "g1"]}).fit(a, y)
    same(one.decision_function(a), svm([Linear().on([0, 1])]).fit(A, y).decision_function(A))
    twice = Annotated(A, [*rows[1:], rows[1]], [f"g{k}" for k in range(5)])
    with pytest.raises(kw.InputError, match=r"in view 'rna' .*'cell1' is there more.*obs_names_make_unique"):
        svm([Linear()]).fit(Several({"rna": twice}, rows), y)
    with pytest.raises(kw.InputError, match="View 'protein' lacks 1: 'cell99'"):
        svm([Linear()]).fit(Several({"protein": b}, [*rows[1:], "cell99"]), y)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_rows_of_annotated_matrices_in_a_dict_are_joined_by_their_names(tables, form):
    A, B, _ = tables
    rows, order = [f"cell{k}" for k in range(N)], np.random.default_rng(2).permutation(N)
    names = [f"p{k}" for k in range(4)]
    b = Annotated(form(B[order]), [rows[k] for k in order], names)
    for first in (pd.DataFrame(A, index=rows), Annotated(form(A), rows, [f"g{k}" for k in range(5)])):
        found = kw.Views({"rna": first, "protein": b})["protein"]
        np.testing.assert_array_equal(found.toarray() if sparse.issparse(found) else found, B)
        fewer = {"rna": first, "protein": Annotated(form(B[1:]), rows[1:], names)}
        with pytest.raises(kw.InputError, match="View 'protein' lacks 1 of view 'rna': 'cell0'"):
            kw.Views(fewer)
        whole = kw.Views(fewer, rows="all")["protein"]
        values = whole.toarray() if sparse.issparse(whole) else np.asarray(whole)
        # a row that lacks a view has at least one missing cell there, and sparse rows no more
        assert np.isnan(values[0, 0])
        np.testing.assert_array_equal(values[1:], B[1:])
    # beside an array rows belong together by position
    found = kw.Views({"rna": A, "protein": b})["protein"]
    np.testing.assert_array_equal(found.toarray() if sparse.issparse(found) else found, B[order])
    with pytest.raises(kw.InputError, match="different rows, or another order"):
        kw.Views({"array": A, "rna": Annotated(form(A), rows, [f"g{k}" for k in range(5)]), "protein": b})


def test_reports_and_pictures_are_by_view(with_gram, tables):
    from kernelweave_app.reports import make_report

    gram, y = with_gram[0], tables[2]
    model = kw.MKLClassifierCV([Linear()], learner="simple", Cs=[0.1, 1.0], cv=3).fit(gram, y)
    page = make_report(model, title="Views", data=[], settings={}, X=gram)
    for word in ("b: Linear", "k: Precomputed"):
        assert word in page, word
    assert kw.plots.KernelContributionsDisplay.from_estimator(model, gram).ax_ is not None


def gathered(kernels, X, y=None, **options):
    """Of a fit the names of its kernels, what columns they read, and what was said; or its error."""
    rows = len(next(iter(X.values()))) if isinstance(X, dict) else len(X)
    y = np.arange(float(rows)) if y is None else y

    def fit():
        model = kw.MKLRegressor(kernels, learner=kw.learners.RLS2(alpha=1.0), **options).fit(X, y)
        return [
            *map(str, model.kernel_names_),
            *map(repr, model.kernels_),
            told(model.defaults_),
            told(model.missing_),
        ]

    return told(outcome(fit))


def test_kernels_of_views_and_groups_as_they_are_put(recorded, tmp_path):
    """Every way to name kernels, with every way to name columns: kernels that follow, or what is wrong."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(8, 4)), columns=["g_0", "g_1", "age", "bmi"])
    frame["sex"] = list("mfmfmmff")
    texts = [f"word{k % 3} of a text {k}" for k in range(8)]
    gram = kw.precomputed(np.eye(8) + 1.0)
    views = {"rna": frame[["g_0", "g_1"]], "clinic": frame[["age", "bmi"]]}
    linear, rbf, given = Linear(), RBF(gamma=0.5), kw.kernels.Precomputed()
    (tmp_path / "v.toml").write_text('[views]\nrna = ["g_*"]\nclinic = ["age"]\n')
    cases = {
        "one kernel": (linear, views, {}),
        "a list": ([linear, rbf], views, {}),
        "by view": ({"rna": [linear], "clinic": rbf}, views, {}),
        "on columns": ([linear.on(ViewColumns("rna", ("g_1",))), rbf], views, {}),
        "bound alone": ([linear.on(ViewColumns("clinic", ("age",)))], views, {}),
        "a matrix": ([linear], {**views, "k": gram}, {}),
        "matrices": ([linear, 2.0 * given], {**views, "k": gram}, {}),
        "texts": ([linear, kw.kernels.Tokens()], {**views, "note": texts}, {}),
        "texts alone": ([kw.kernels.Tokens()], {**views, "note": texts}, {}),
        "no texts": ([linear, kw.kernels.Tokens()], views, {}),
        "groups": ([linear, rbf], frame, {"views": {"rna": "g_*", "clinic": ["age", "bmi"]}}),
        "groups of places": (
            [linear],
            frame.iloc[:, :4].to_numpy(),
            {"views": {"a": slice(0, 2), "b": [3, 2]}},
        ),
        "a group of all": ([linear], frame.iloc[:, :4].to_numpy(), {"views": {"a": None, "b": [0]}}),
        "a file": ([linear], frame, {"views": str(tmp_path / "v.toml")}),
        "in groups": (
            [linear.on(["age"]), rbf],
            frame,
            {"views": {"clinic": ["age", "bmi"], "all": ["age", "g_0"]}},
        ),
        "groups by view": (
            {"rna": [linear], "clinic": [linear, rbf]},
            frame,
            {"views": {"rna": "g_*", "clinic": ["age"]}},
        ),
        "groups of a bank": (
            kw.banks.views({"rna": ["g_0", "g_1"], "clinic": ["age"]}, kernels=[linear]),
            frame,
            {},
        ),
        "a width": ([linear, rbf, RBF(gamma=2.0)], views, {"gamma": 0.25}),
        "a width of one": ({"rna": [rbf], "clinic": [linear]}, views, {"gamma": "scale"}),
        "a width of defaults": ({"rna": None, "clinic": [rbf]}, views, {"gamma": 0.25}),
        "a plain width": (None, views, {"gamma": "median"}),
        "no graphs": ([linear, kw.kernels.WeisfeilerLehman()], views, {}),
        "no width": ([linear], views, {"gamma": 0.25}),
        "empty": ([], views, {}),
        "a text": ("rbf", frame, {}),
        "another text": (" Polynomial ", views, {}),
        "an unknown text": ("spline", frame, {}),
        "a number": (3, frame, {}),
        "no kernel": ([linear, 3], frame, {}),
        "no kernel of a view": ({"rna": [linear, "x"], "clinic": None}, views, {}),
        "an empty view": ({"rna": [], "clinic": [linear]}, views, {}),
        "an unknown view": ({"rn": [linear]}, views, {}),
        "a view without": ({"rna": [linear]}, views, {}),
        "no views": ({"rna": [linear]}, frame, {}),
        "views twice": ([linear], views, {"views": {"a": [0]}}),
        "both banks": (kw.banks.views({"rna": "g_*"}, kernels=None), frame, {"views": {"a": ["age"]}}),
        "names without names": ([linear], np.eye(4), {"views": {"a": "g_*"}}),
        "outside": ([linear], np.eye(4), {"views": {"a": [7]}}),
        "no name": ([linear], np.eye(4), {"views": {"": [0]}}),
        "no groups": ([linear], np.eye(4), {"views": {}}),
        "of matrices alone": ([linear], {"k": gram}, {}),
        "without matrices": ([given], views, {}),
        "of matrices": ([given], {**views, "k": gram}, {}),
        "matrix of a view": ({"rna": [given], "clinic": [linear]}, views, {}),
        "precomputed": ("precomputed", np.eye(4), {"views": {"a": [0]}}),
        "a bank": (kw.KernelBank(np.ones((4, 4, 1))), np.array([[0], [1], [2], [9]]), {}),
        "half an index": (kw.KernelBank(np.ones((4, 4, 1))), np.array([[0], [1], [2], [0.5]]), {}),
        "standardised": (
            [linear],
            {"a": frame[["age"]], "s": sparse.csr_array(np.eye(8))},
            {"standardize": True},
        ),
    }
    recorded(
        "kernels", {name: gathered(kernels, X, **options) for name, (kernels, X, options) in cases.items()}
    )


def test_missing_cells_as_they_are_treated(recorded):
    """Every value of `missing`, with cells, columns, categories and views that lack them: what is done, or refused."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(9, 3)), columns=["u", "v", "w"])
    frame.loc[[1, 4], "v"] = np.nan
    frame["kind"] = ["a", "b", None, "a", "b", "a", "b", "a", "b"]
    numbers, linear, rbf = frame[["u", "v", "w"]], Linear(), RBF(gamma=0.5)
    empty = numbers.assign(w=np.nan)
    views = {"one": numbers[["u", "w"]], "two": numbers[["v"]]}
    filled = linear.prepared("impute")
    cases = {
        "error": ([linear], numbers, {}),
        **{
            rule: ([linear, rbf], numbers, {"missing": rule})
            for rule in ("impute", "impute-median", "impute-nearest", "skip")
        },
        "own": ([linear], numbers, {"missing": kw.kernels.Impute("nearest", n_neighbors=2, indicator=False)}),
        "marks": ([linear], numbers, {"missing": kw.kernels.Impute("mean", indicator=True)}),
        "steps": ([filled, rbf.prepared("skip")], numbers, {}),
        "one step": (filled, numbers, {}),
        "steps of some": ([filled, linear], numbers, {}),
        "steps by view": ({"one": [filled], "two": filled}, views, {"missing_views": "error"}),
        "categories": ([linear, kw.kernels.Categorical().on("kind")], frame, {"missing": "impute"}),
        "a column": ([linear], empty, {"missing": "impute"}),
        "views": ([linear], views, {}),
        "renormalised": ([linear], views, {"missing_views": "renormalize"}),
        "views as cells": ([linear], views, {"missing_views": "error"}),
        "views as cells, filled": ([linear], views, {"missing_views": "error", "missing": "impute"}),
        "a group": ([linear], numbers, {"views": {"one": ["u", "w"], "two": ["v"]}}),
        "texts": ([kw.kernels.Tokens().on("kind")], frame, {"missing": "skip"}),
        "wrong": ([linear], numbers, {"missing": "drop"}),
        "wrong views": ([linear], views, {"missing_views": "drop"}),
        "an absent view": ([linear], {"one": numbers[["u"]], "two": None}, {}),
        "plain": (None, frame, {"missing": "impute-median"}),
    }
    recorded(
        "missing", {name: gathered(kernels, X, **options) for name, (kernels, X, options) in cases.items()}
    )


def test_rows_of_frames_are_put_in_one_order(recorded):
    """Of a view that lacks rows; values without an index, or without all rows, are refused."""
    from kernelweave.estimators.sources import in_order

    first, second = (
        pd.DataFrame({"u": [1.0, 2.0]}, index=list("ab")),
        pd.DataFrame({"v": [1.0, 2.0, 3.0]}, index=list("cba")),
    )
    y = pd.Series([10.0, 20.0, 30.0], index=list("abc"))
    both = {"one": first, "two": second}
    found = in_order(both, {"y": y, "w": None, "c": 2.0}, "complete")
    assert found["y"].tolist() == [10.0, 20.0, 30.0]
    assert list(found) == ["y", "w", "c"]
    assert (found["w"], found["c"]) == (None, 2.0)
    turned = in_order({"two": second, "one": first}, {"y": y}, "complete")
    assert turned["y"] is y
    other = in_order({"one": first.iloc[::-1], "two": second}, {"y": y}, "complete")
    assert other["y"].tolist() == [20.0, 10.0, 30.0]
    assert in_order(both, {"y": y}, "error")["y"] is y
    assert in_order(first, {"y": y}, "complete")["y"] is y
    assert in_order({}, {"y": y}, "complete")["y"] is y
    assert in_order({"one": first, "two": np.eye(3)}, {"y": y}, "complete")["y"] is y
    twice = pd.DataFrame({"v": [1.0, 2.0, 3.0]}, index=list("caa"))
    assert in_order({"one": first, "two": twice}, {"y": y}, "complete")["y"] is y
    apart = pd.DataFrame({"v": [1.0]}, index=["z"])
    assert in_order({"one": first, "two": apart}, {"y": y}, "complete")["y"] is y
    wrong = {"array": y.to_numpy(), "short": y.iloc[:2], "twice": pd.Series(np.ones(4), index=list("abca"))}
    recorded(
        "refused", {name: outcome(in_order, both, {"y": one}, "complete") for name, one in wrong.items()}
    )
