"""Sparse tables: the same numbers as of dense ones, without a dense table anywhere.

Modules: `_sparse`, `views/encoding`, `views/tables`.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import cross_val_score

import kernelweave as kw
from kernelweave import _sparse, persistence
from kernelweave._checks import InputError
from kernelweave.fitting.source import TableSource
from kernelweave.kernels import (
    RBF,
    ArcCosine,
    Categorical,
    Constant,
    Custom,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    pairwise_statistic,
    statistic_panels,
)
from kernelweave.views import SparseTable, Table, TableEncoder

N, P = 41, 30


@pytest.fixture
def X(rng):
    """Rows with negative numbers, a row and a column of zeros, and two equal rows."""
    dense = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.2)
    dense[5] = 0.0
    dense[:, 7] = 0.0
    dense[9] = dense[8]
    return dense


@pytest.fixture
def y(X):
    return np.where(X[:, 0] + X[:, 1] - X[:, 2] > 0.0, "a", "b")


KERNELS = [
    Linear(),
    Polynomial(2),
    Polynomial(3).on([4]),
    RBF(0.3),
    RBF("median"),
    RBF("scale"),
    Laplacian(("median", 0.5)),
    Laplacian("scale"),
    Matern("median"),
    RationalQuadratic(0.3),
    ArcCosine(1),
    Constant(2.0),
    Linear() + 2.0 * RBF(0.1),
    Linear().on([3]) * Linear().on([4]),
    Linear().on([3]) + Linear().on(slice(5, 9)),
    Linear().prepared("normalize-rows"),
    RBF("median").prepared("log1p", "normalize-rows").on(slice(0, 20), name="text"),
    Linear().prepared("log1p").on([0, 9, 2]),
    Custom(lambda A, B: (A @ B.T).toarray() if sparse.issparse(A) else A @ B.T),
]
every_kernel = pytest.mark.parametrize("k", KERNELS, ids=lambda k: k.label)


@pytest.fixture
def never_dense(monkeypatch):
    """No array of many rows and all columns is made of sparse rows."""
    toarray = sparse.csr_array.toarray

    def guarded(self, *args, **kwargs):
        assert self.shape[1] != P or self.shape[0] <= 1, "the table was made dense"
        return toarray(self, *args, **kwargs)

    monkeypatch.setattr(sparse.csr_array, "toarray", guarded)


@every_kernel
def test_kernels_agree_with_dense_rows(k, X, never_dense):
    S = sparse.csr_array(X)
    fitted = k.fitted(X)
    close = {"rtol": 1e-10, "atol": 1e-7 if isinstance(k.base, ArcCosine) else 1e-10}
    np.testing.assert_allclose(k(S), k(X), **close)
    np.testing.assert_array_equal(k(S), k(S).T)
    np.testing.assert_allclose(k.fitted(S)(S[:7], S), fitted(X[:7], X), **close)
    # sparse and dense rows can be compared
    np.testing.assert_allclose(fitted(X[:7], S), fitted(X[:7], X), **close)
    np.testing.assert_allclose(fitted(S[:7], X), fitted(X[:7], X), **close)
    np.testing.assert_allclose(k.diag(S), k.diag(X), **close)
    phi = k.features(S)
    assert (phi is None) == (k.features(X) is None)
    if phi is not None:
        np.testing.assert_allclose(_sparse.to_dense(phi @ phi.T), k(X), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["dot", "sqdist", "l1"])
@pytest.mark.parametrize("entries", [1, 200, 10**6])
def test_panels_are_the_upper_triangle(kind, entries, X):
    whole = pairwise_statistic(kind, X)
    np.testing.assert_allclose(pairwise_statistic(kind, sparse.csr_array(X)), whole, rtol=1e-12, atol=1e-12)
    seen = 0
    for rows, S in statistic_panels(kind, sparse.csr_array(X), entries):
        assert rows.start == seen
        np.testing.assert_allclose(S, whole[rows, rows.start :], rtol=1e-12, atol=1e-12)
        seen = rows.stop
    assert seen == N


@pytest.mark.parametrize("max_memory", [1e9, 1.0])
def test_sources_agree_with_those_of_dense_tables(max_memory, X, monkeypatch):
    monkeypatch.setattr("kernelweave.fitting.source.SMALL_CHANGE", 0)
    kernels = [k for k in KERNELS if k.base != ArcCosine(1)] + [Linear().on([j]) for j in range(P)]
    dense, thin = (
        TableSource(kernels, table, max_memory=max_memory)
        for table in (Table(X), SparseTable(sparse.csr_array(X)))
    )
    weights = np.arange(1.0, len(kernels) + 1)
    np.testing.assert_allclose(
        thin.gram().combine(weights), dense.gram().combine(weights), rtol=1e-9, atol=1e-9
    )
    new = X[::3] + 0.0
    for (where, m, K), (_, _, expected) in zip(
        thin.cross(SparseTable(sparse.csr_array(new)), np.arange(len(kernels))),
        dense.cross(Table(new), np.arange(len(kernels))),
        strict=True,
    ):
        assert K.shape == (where.stop - where.start, N), m
        np.testing.assert_allclose(K, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(thin.content(), dense.content())
    np.testing.assert_array_equal(
        thin.take(np.arange(0, N, 2)).content(), dense.take(np.arange(0, N, 2)).content()
    )


FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]
BANK = [
    Linear().prepared("normalize-rows"),
    RBF("median").prepared("normalize-rows"),
    Polynomial(2).prepared("log1p").on(slice(0, 20)),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_models_of_sparse_and_dense_rows_are_the_same(form, container, X, y):
    S = container(X).asformat(form)
    before = S.toarray()
    thin = kw.MKLClassifier(BANK, "simple", C=10.0).fit(S, y)
    dense = kw.MKLClassifier(BANK, "simple", C=10.0).fit(X, y)
    np.testing.assert_allclose(thin.decision_function(S), dense.decision_function(X), rtol=1e-6, atol=1e-6)
    # whichever way new rows come
    np.testing.assert_allclose(thin.decision_function(X), thin.decision_function(S), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(dense.decision_function(S), dense.decision_function(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(S.toarray(), before)


def test_folds_and_weights_and_the_regularisation_parameter_are_the_same(X, y, rng):
    S, weights = sparse.csc_array(X), rng.integers(0, 3, N)
    target = X[:, 0] - X[:, 3] + 0.1 * rng.normal(size=N)
    found = [kw.MKLRegressor(BANK).fit(rows, target, sample_weight=weights) for rows in (S, X)]
    assert found[0].alpha_ == pytest.approx(found[1].alpha_)
    np.testing.assert_allclose(found[0].predict(S), found[1].predict(X), rtol=1e-5, atol=1e-6)
    inner = kw.MKLClassifierCV(BANK, "simple", Cs=[1.0, 10.0], cv=2)
    scores = [cross_val_score(inner, rows, y, cv=3) for rows in (S, X)]
    np.testing.assert_allclose(*scores)


def test_linear_models_of_sparse_rows_have_coefficients(X, y, never_dense):
    S = sparse.csr_array(X)
    for normalize in ("mean-diagonal", "center"):
        model = kw.MKLClassifier([Linear(), Linear().on(slice(0, 9))], "simple", normalize=normalize).fit(
            S, y
        )
        np.testing.assert_allclose(
            S @ model.coef_[0] + model.linear_intercept_, model.decision_function(S), rtol=1e-8, atol=1e-8
        )


@pytest.mark.parametrize("missing", ["error", "impute"])
@pytest.mark.parametrize("views", [False, True])
def test_a_plain_fit_goes_by_content_whatever_the_form(X, y, missing, views):
    """Few columns, or few zeros, of which those of sparse rows are no words."""
    S = sparse.csr_array(X)
    if missing == "impute":
        S.data[5] = np.nan
    dense = S.toarray()
    forms = [dense, S, pd.DataFrame(dense, columns=[f"c{j}" for j in range(dense.shape[1])])]
    forms = [{"one": form, "two": form} for form in forms] if views else forms
    models = [kw.MKLClassifier(missing=missing).fit(form, y) for form in forms]
    assert "standardised Linear" in models[1].kernel_names_[0]
    expected = models[0].decision_function(forms[0])
    for model in models[1:]:
        for form in (forms[0], forms[1]) if model is models[1] else (forms[2],):
            np.testing.assert_allclose(model.decision_function(form), expected, atol=1e-9)  # 0


def test_a_plain_fit_does_not_standardise_words(y, rng):
    words = sparse.csr_array(rng.poisson(0.05, size=(len(y), 200)).astype(float))
    model = kw.MKLClassifier(learner="simple").fit(words, y)
    assert model.model_.source.standardize is False
    assert all("row-normalised" in name for name in model.kernel_names_)


def test_sparse_columns_cannot_be_standardised(X, y):
    with pytest.raises(InputError, match=r"Sparse columns cannot be standardised.*normalize-rows"):
        kw.MKLClassifier(BANK, "simple", standardize=True).fit(sparse.csr_array(X), y)
    with pytest.raises(InputError, match="Sparse columns cannot be standardised"):
        Linear().prepared("standardize")(sparse.csr_array(X))


def test_files_stay_sparse(X, y, tmp_path):
    model = kw.MKLClassifier(BANK, "simple").fit(sparse.csr_array(X), y)
    persistence.save(model, tmp_path / "m")
    again = persistence.load(tmp_path / "m")
    assert isinstance(again.model_.source.raw, SparseTable)
    np.testing.assert_array_equal(
        again.decision_function(sparse.csr_array(X)), model.decision_function(sparse.csr_array(X))
    )
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_duplicate_and_stored_zero_entries_count_as_what_they_are(X):
    S = sparse.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    np.testing.assert_array_equal(SparseTable(S).take().toarray(), [[0.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    assert SparseTable(S).data.tolist() == [3.0]
    # what was given stays as it is
    given = sparse.csr_array(([1.0, 2.0, 0.0], [1, 1, 0], [0, 2, 3]), shape=(2, 3))
    np.testing.assert_array_equal(SparseTable(given).take().toarray(), S.toarray())
    assert (given.data.tolist(), given.indices.tolist()) == ([1.0, 2.0, 0.0], [1, 1, 0])
    assert given.indptr.tolist() == [0, 2, 3]


def test_ranks_of_rows_are_those_of_dense_rows(rng):
    A = rng.integers(-1, 2, size=(60, 300)) * (rng.random((60, 300)) < 0.01)
    A[10:20, :290] = A[0, :290]
    A[30] = A[31]
    np.testing.assert_array_equal(_sparse.row_ranks(sparse.csr_array(A * 1.0)), _sparse.row_ranks(A * 1.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: Categorical()(sparse.csr_array(X)), "sparse columns must be dense"),
        (lambda X: Linear()(sparse.csr_array(X * np.nan)), r"NaN \(missing values\)"),
        (lambda X: Linear()(sparse.csr_array(np.where(X > 1, np.inf, X))), "infinity"),
        (lambda X: Linear()(sparse.csr_array(X + 1j)), "Complex data not supported"),
        (lambda X: Linear()(sparse.csr_array((0, 3))), "0 sample"),
        (lambda X: Linear()(sparse.csr_array((3, 0))), "0 feature"),
        (lambda X: Linear()(sparse.coo_array(X[0])), "Expected 2D"),
        (lambda X: Linear()(sparse.csr_array(X), X[:, :4]), "same columns"),
        (lambda X: Linear()(sparse.csr_array(X * 1e120)), "overflows"),
        (lambda X: RBF(1.0).on([P])(sparse.csr_array(X)), f"Column {P} is out of range"),
        (lambda X: Linear().on(["a"])(sparse.csr_array(X)), "no names"),
        (lambda X: SparseTable(X), "made of a SciPy sparse array"),
        (
            lambda X: kw.MKLRegressor(BANK).fit(sparse.csr_array(X * 1e120), X[:, 0]),
            "`X` must not exceed",
        ),
        (
            lambda X: (
                kw.MKLRegressor(BANK, alpha=1.0)
                .fit(sparse.csr_array(X), X[:, 0])
                .predict(sparse.csr_array(X[:, 1:]))
            ),
            "X has 29 features, but MKLRegressor is expecting 30",
        ),
        (lambda X: TableEncoder().fit(sparse.csr_array(X)).transform(X[:, 1:]), "X has 29 features"),
        (
            lambda X: (
                TableEncoder().fit(pd.DataFrame({"a": ["u", "v"]})).transform(sparse.csr_array(X[:, :2]))
            ),
            "X has 2 features",
        ),
    ],
)
def test_errors(make, message, X):
    with pytest.raises(InputError, match=message):
        make(X)


def test_two_views_of_text_at_once(data_dir):
    with np.load(data_dir / "bbcsport.npz") as content:
        blocks, y = [content["view_seg1"], content["view_seg2"]], content["y"]
    X = sparse.hstack([sparse.csr_array(block, dtype=np.float64) for block in blocks], format="csr")
    views = {"first": slice(0, blocks[0].shape[1]), "second": slice(blocks[0].shape[1], X.shape[1])}
    shapes = [Linear(), *(RBF(("median", factor)) for factor in (0.25, 1.0, 4.0))]
    bank = kw.banks.views(views, [k.prepared("normalize-rows") for k in shapes])
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[::2], order[1::2]
    model = kw.MKLClassifier(bank, "simple", C=10.0, normalize="center").fit(X[train], y[train])
    # 0.963 to 0.989 on five halves
    assert model.score(X[test], y[test]) > 0.955
    # single columns of one view: linear kernels need no matrix of all rows
    few = kw.banks.linear_features(40)
    assert "40 linear features" in kw.MKLClassifier(few, "simple").fit(X[train][:, :40], y[train]).gram_


def test_functions_of_dense_and_sparse_arrays_agree(rng):
    """Norms, distances, scaled and unit rows, ranks, entries and columns side by side, by NumPy's formulas."""
    from kernelweave import _sparse

    A = np.where(rng.random((9, 5)) < 0.5, rng.normal(size=(9, 5)).round(1), 0.0)
    A[3], A[6] = 0.0, A[1]
    B, factors = A[::2] + np.eye(5), rng.normal(size=9)
    S = sparse.csr_array(A)
    for one in (A, S):
        np.testing.assert_allclose(_sparse.sq_norms(one), np.square(A).sum(axis=1))
        np.testing.assert_allclose(_sparse.to_dense(_sparse.scale_rows(one, factors)), A * factors[:, None])
        lengths = np.sqrt(np.square(A).sum(axis=1))
        np.testing.assert_allclose(
            _sparse.to_dense(_sparse.unit_rows(one)), A / np.where(lengths > 0, lengths, 1.0)[:, None]
        )
        ranks = np.unique(A, axis=0, return_inverse=True)[1].reshape(-1)
        np.testing.assert_array_equal(_sparse.row_ranks(one), ranks)
        np.testing.assert_allclose(np.sort(np.ravel(_sparse.entries(one)))[-4:], np.sort(A.ravel())[-4:])
        joined = _sparse.join_columns([one, A])
        np.testing.assert_allclose(_sparse.to_dense(joined), np.hstack([A, A]))
        assert _sparse.is_sparse(joined) == _sparse.is_sparse(one)
        np.testing.assert_allclose(
            _sparse.l1_distances(one, B), np.abs(A[:, None] - B).sum(axis=2), atol=1e-12
        )
    assert (S.toarray() == A).all()
    wide = sparse.random_array((40, 300), density=0.01, rng=0, format="csr")
    np.testing.assert_array_equal(
        _sparse.row_ranks(wide), np.unique(wide.toarray(), axis=0, return_inverse=True)[1].reshape(-1)
    )
    stored = sparse.csr_array(
        (np.array([1.0, 0.0, 2.0, 3.0]), np.array([1, 0, 2, 2]), np.array([0, 2, 4])), shape=(2, 3)
    )
    made = _sparse.as_csr(stored)
    np.testing.assert_array_equal(made.toarray(), [[0.0, 1.0, 0.0], [0.0, 0.0, 5.0]])
    assert (made.nnz, stored.nnz) == (2, 4)
    assert made.has_canonical_format
    assert _sparse.as_csr(sparse.coo_array(np.eye(2, dtype=np.int8))).dtype == np.float64
    nan = sparse.csr_array(np.array([[np.nan, 1.0]]))
    assert np.isnan(_sparse.as_csr(nan, missing=True).data).sum() == 1
    for wrong, said in (
        (nan, r"contains NaN \(missing values\) in 1 cells"),
        (sparse.csr_array([[np.inf, np.inf]]), "contains infinity in 2 cells"),
        (sparse.csr_array([[1j]]), "holds complex numbers"),
        (sparse.csr_array((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\)"),
        (sparse.csr_array((3, 0)), r"0 feature\(s\)"),
        (sparse.coo_array(np.ones(3)), r"sparse array of shape \(3,\)"),
    ):
        with pytest.raises(kw.InputError, match=said):
            _sparse.as_csr(wrong)
    with pytest.raises(kw.InputError, match="contains infinity in 1 cells"):
        _sparse.as_csr(sparse.csr_array([[np.inf, np.nan]]), missing=True)
