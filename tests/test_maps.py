"""Maps of rows to features close to kernels: pivots, random features, and bases of single columns.

Modules: `kernels/maps`, `kernels/additive`, `gram/random_pivots`, `kernels/base`, `kernels/learnt`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import kernelweave as kw
from kernelweave.gram.random_pivots import given_pivots, random_pivots, solve_lower
from kernelweave.kernels import (
    RBF,
    Approximate,
    ArcCosine,
    Bins,
    Cosines,
    Laplacian,
    Linear,
    Nystroem,
    Polynomial,
    RandomFeatures,
    approximate,
    exact_kernel,
    maps_of,
)
from kernelweave.persistence.states import from_state, to_state

N = 300


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(N, 4))


def block_of(K):
    return lambda some, columns: K[:, columns] if some is None else K[np.ix_(some, columns)]


# ---- pivots ---------------------------------------------------------------------------------------------------


def test_pivots_give_the_residual_of_projecting_on_them(X):
    K = RBF(gamma=0.2)(X)
    found = random_pivots(block_of(K), K.diagonal(), np.ones(N), 40, 0.0, np.random.default_rng(1))
    S = found.rows
    assert len(set(S.tolist())) == 40
    np.testing.assert_allclose(found.factor @ found.factor.T, K[np.ix_(S, S)], atol=1e-10)
    schur = K - K[:, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S])
    np.testing.assert_allclose(found.residual, schur.diagonal(), atol=1e-10)


def test_pivots_that_are_proposed_together_have_the_law_of_those_drawn_one_by_one(X, monkeypatch):
    # the mean residual over draws: proposals in blocks against single ones
    K = RBF(gamma=0.3)(X[:80])
    means = {}
    for size in (1, 32):
        monkeypatch.setattr("kernelweave.gram.random_pivots.BLOCK_LEAST", size)
        monkeypatch.setattr("kernelweave.gram.random_pivots.BLOCK_SHARE", 0.0)
        draws = [
            random_pivots(block_of(K), K.diagonal(), np.ones(80), 12, 0.0, np.random.default_rng(s)).residual
            for s in range(300)
        ]
        traces = np.array(draws).sum(axis=1)
        means[size] = traces.mean(), traces.std() / np.sqrt(300)
    (one, error), (many, other) = means[1], means[32]
    assert abs(one - many) < 4 * np.hypot(error, other)


def test_pivots_of_a_matrix_of_low_rank_are_as_many_as_its_rank(X):
    K = Linear()(X)
    found = random_pivots(block_of(K), K.diagonal(), np.ones(N), 50, 0.0, np.random.default_rng(0))
    assert len(found.rows) == 4
    assert found.residual.max() < 1e-8
    rows, factor = given_pivots(K)
    assert len(rows) == 4
    np.testing.assert_allclose(factor @ factor.T, K[np.ix_(rows, rows)], atol=1e-10)


def test_a_matrix_with_a_negative_eigenvalue_has_no_pivots():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(kw.InputError, match="positive semidefinite"):
        random_pivots(block_of(K), K.diagonal(), np.ones(2), 2, 0.0, np.random.default_rng(0))


def test_pivots_are_the_rows_that_they_were(X, recorded):
    """With numbers that are drawn alike: blocks of proposals, weights, what may be left out, and low rank."""
    found = {}
    for name, K, weights, most, tol in (
        ("smooth", RBF(gamma=0.05)(X[:60]), np.linspace(0.2, 2.0, 60), 25, 0.0),
        ("rough", RBF(gamma=2.0)(X[:60]), np.ones(60), 60, 0.0),
        ("enough", RBF(gamma=0.05)(X[:60]), np.ones(60), 25, 0.05),
        ("low rank", Linear()(X[:60]), np.ones(60), 25, 0.0),
        ("two", np.diag([4.0, 0.0, 1.0]), np.ones(3), 3, 0.0),
        ("none", np.zeros((3, 3)), np.ones(3), 2, 0.0),
    ):
        asked, block = [], block_of(K)

        def noted(rows, columns, asked=asked, block=block):
            asked.append([None if rows is None else len(rows), len(columns)])
            return block(rows, columns)

        one = random_pivots(noted, K.diagonal(), weights, most, tol, np.random.default_rng(2))
        assert (one.factor == np.tril(one.factor)).all()
        np.testing.assert_allclose(one.factor @ one.factor.T, K[np.ix_(one.rows, one.rows)], atol=1e-9)
        assert (one.residual[one.rows] == 0.0).all()
        rows, factor = given_pivots(K)
        found[name] = [one.rows, one.residual, asked, rows if name != "rough" else len(rows)]
        np.testing.assert_allclose(factor @ factor.T, K[np.ix_(rows, rows)], atol=1e-8)
    recorded("pivots", found, rtol=1e-5, atol=1e-7)
    B, L = np.arange(8.0).reshape(4, 2), np.array([[2.0, 0.0], [1.0, 4.0]])
    np.testing.assert_allclose(solve_lower(L, B), B @ np.linalg.inv(L).T)


# ---- Nystroem -------------------------------------------------------------------------------------------------


def test_weights_of_rows_are_shares_of_the_pivots_and_of_what_is_left():
    """Of an orthogonal matrix pivots are drawn by weight times diagonal; the search ends by weighted traces."""
    K, w = np.diag([4.0, 1.0, 2.0, 0.5]), np.array([1.0, 8.0, 1.0, 4.0])
    drawn = [
        random_pivots(block_of(K), K.diagonal(), w, 1, 0.0, np.random.default_rng(s)).rows[0]
        for s in range(600)
    ]
    # 4, 8, 2 and 2 of 16: six deviations of 600 draws are 0.12
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 600, [0.25, 0.5, 0.125, 0.125], atol=0.12)
    for tol in (0.1, 0.3, 0.6):
        found = random_pivots(block_of(K), K.diagonal(), w, 4, tol, np.random.default_rng(3))
        left = w * found.residual
        assert left.sum() <= tol * (w @ K.diagonal())
    # a block of proposals is taken whole, but no more pivots than were asked for
    for most in (1, 2, 3):
        assert (
            len(random_pivots(block_of(K), K.diagonal(), w, most, 0.0, np.random.default_rng(1)).rows) == most
        )
    heavy = np.array([1e9, 1.0, 1.0, 1.0])
    one = random_pivots(block_of(K), K.diagonal(), heavy, 4, 1e-6, np.random.default_rng(0))
    assert 0 in one.rows.tolist()


def test_nystroem_is_near_the_best_approximation_of_its_rank(X):
    K = RBF(gamma=0.1)(X)
    eigenvalues = np.linalg.eigvalsh(K)[::-1]
    k = approximate(RBF(gamma=0.1), Nystroem(60)).fitted(X)
    phi = k.transform(X)
    share = (np.trace(K) - np.square(phi).sum()) / np.trace(K)
    # exact on all training rows, and above the eigenvalues that no approximation of this rank keeps
    assert k.map.left_out.exact
    assert k.map.left_out.share == pytest.approx(share, abs=1e-12)
    tail = np.cumsum(eigenvalues[::-1])[::-1] / eigenvalues.sum()
    assert share >= tail[60]
    # theorem of randomly pivoted Cholesky: twice the tail after r in the mean, once r + r log(1 / tail_r) <= 60
    r = max(r for r in range(1, 60) if r + r * np.log(1.0 / tail[r]) <= 60)
    draws = [
        approximate(RBF(gamma=0.1), Nystroem(60, random_state=s)).fitted(X).map.left_out.share
        for s in range(5)
    ]
    assert np.mean(draws) <= 2.0 * tail[r]
    # what is left out is positive semidefinite
    assert np.linalg.eigvalsh(K - phi @ phi.T)[0] > -1e-10
    half = k.map.landmarks.values
    np.testing.assert_allclose(k(X, half), RBF(gamma=0.1)(X, half), atol=1e-9)


def test_pivoting_leaves_out_less_than_uniform_pivots_where_rows_are_uneven():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(scale=0.01, size=(470, 2)), rng.normal(scale=5.0, size=(30, 2))]
    left = {
        rule: np.mean(
            [
                approximate(RBF(gamma=1.0), Nystroem(25, rule, random_state=s)).fitted(X).map.left_out.share
                for s in range(5)
            ]
        )
        for rule in ("cholesky", "uniform")
    }
    assert left["cholesky"] < 0.2 * left["uniform"]


@pytest.mark.parametrize(
    "rule", [Nystroem(30), Nystroem(30, "uniform"), RandomFeatures(40), Bins(5), Cosines(4)]
)
def test_maps_do_not_depend_on_the_order_of_rows_and_count_weights_as_repetitions(X, rule):
    weight = np.random.default_rng(1).integers(1, 4, size=N)
    given = rule if isinstance(rule, kw.kernels.Kernel) else approximate(RBF(gamma=0.2), rule)
    order = np.random.default_rng(2).permutation(N)
    first = given.fitted(X, weight.astype(float))
    turned = given.fitted(X[order], weight[order].astype(float))
    repeated = given.fitted(np.repeat(X, weight, axis=0))
    assert first == turned
    assert hash(first) == hash(turned)
    np.testing.assert_array_equal(first.features(X[:9]), repeated.features(X[:9]))
    assert first != given


def test_residuals_measured_on_a_sample_are_near_the_whole_and_below_their_bound(X, monkeypatch):
    monkeypatch.setattr("kernelweave.kernels.maps.SEARCHED", 150)
    monkeypatch.setattr("kernelweave.kernels.maps.MEASURED", 100)
    k = approximate(RBF(gamma=0.1), Nystroem(30)).fitted(X)
    truth = 1.0 - np.square(k.transform(X)).sum() / N
    left = k.map.left_out
    assert not left.exact
    assert left.n_measured == 100
    assert abs(left.share - truth) < 0.5 * truth
    assert truth < left.bound


def test_given_pivots_are_the_rows_given(X):
    k = approximate(RBF(gamma=0.2), Nystroem(pivots=X[:20])).fitted(X)
    np.testing.assert_allclose(k(X[:20]), RBF(gamma=0.2)(X[:20]), atol=1e-9)
    assert k.transform(X).shape == (N, 20)
    with pytest.raises(kw.InputError, match="the 4 columns of the kernel, got 2"):
        approximate(RBF(gamma=0.2), Nystroem(pivots=X[:20, :2])).fitted(X)


def test_nystroem_takes_any_kernel_and_its_columns(X):
    kernels = [
        RBF(gamma="median").prepared("standardize").on([0, 2]),
        2.0 * Laplacian(gamma=0.3) + Linear(),
        Polynomial(3).on([1]),
        RBF(gamma=0.1).on([0, 1]) * ArcCosine(1).on([2, 3]),
    ]
    for kernel in kernels:
        k = approximate(kernel, Nystroem(N, tol=0.0)).fitted(X)
        np.testing.assert_allclose(k(X), kernel.fitted(X)(X), atol=1e-6)
        np.testing.assert_allclose(k.diag(X), np.square(k.transform(X)).sum(axis=1))
    assert approximate(kernels[0], Nystroem(5)).columns == (0, 2)


def test_sparse_rows_have_the_features_of_dense_ones(X):
    S = sparse.csr_array(np.where(X > 0.5, X, 0.0))
    for rule in (Nystroem(20), RandomFeatures(30, "orthogonal")):
        k = approximate(RBF(gamma=0.2), rule)
        np.testing.assert_allclose(
            k.fitted(S).transform(S), k.fitted(S.toarray()).transform(S.toarray()), atol=1e-8
        ) if rule.goes_inside else np.testing.assert_allclose(
            k.fitted(S).transform(S.toarray()), k.fitted(S).transform(S), atol=1e-8
        )


# ---- random features ------------------------------------------------------------------------------------------


@pytest.mark.sampled(7)
@pytest.mark.parametrize("sampling", ["plain", "orthogonal", "halton", "sobol"])
@pytest.mark.parametrize(
    "kernel", [RBF(gamma=0.2), Laplacian(gamma=0.3), ArcCosine(1), ArcCosine(0), ArcCosine((1, 0))]
)
def test_random_features_have_the_kernel_as_their_mean(X, kernel, sampling):
    rows, K = X[:25], kernel(X[:25])
    draws = np.array(
        [
            approximate(kernel, RandomFeatures(64, sampling, random_state=s)).fitted(rows)(rows)
            for s in range(60)
        ]
    )
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    # an iterated kernel is a nonlinear function of a mean, with a bias of the order of one over the features
    bias = 0.03 * np.abs(K).max() if kernel == ArcCosine((1, 0)) else 0.0
    assert (np.abs(draws.mean(axis=0) - K) <= 5.5 * error + bias + 1e-12).all()


def test_random_features_keep_the_diagonal_and_err_as_one_over_the_root_of_their_number(X):
    def error(n_features):
        k = approximate(RBF(gamma=0.2), RandomFeatures(n_features, "plain")).fitted(X)
        np.testing.assert_allclose(k.diag(X), 1.0)
        truth = np.sqrt(np.square(k(X) - RBF(gamma=0.2)(X)).mean())
        assert abs(k.map.left_out.share - truth) < 0.2 * truth < k.map.left_out.bound
        return truth

    assert 0.5 < error(3200) / error(200) * 4 < 2.0


def test_orthogonal_and_even_frequencies_err_less_than_independent_ones(X):
    def error(sampling):
        return np.mean(
            [
                approximate(RBF(gamma=0.1), RandomFeatures(200, sampling, random_state=s))
                .fitted(X)
                .map.left_out.share
                for s in range(5)
            ]
        )

    plain = error("plain")
    assert max(error(s) for s in ("orthogonal", "halton", "sobol", "auto")) < 0.8 * plain


def test_random_features_go_inside_sums_and_preparations(X):
    kernel = 2.0 * RBF(gamma="median").prepared("standardize").on([0, 1]) + Linear().on([2])
    k = approximate(kernel, RandomFeatures(100)).fitted(X)
    assert k.is_approximate
    assert k.features(X).shape == (N, 101)
    np.testing.assert_allclose(k.diag(X), 2.0 + X[:, 2] ** 2)
    with pytest.raises(kw.InputError, match=r"RBF, Laplacian and ArcCosine.*Use Nystroem"):
        approximate(Polynomial(3), RandomFeatures(100))


# ---- bases ----------------------------------------------------------------------------------------------------


def test_bins_hold_equally_many_rows_and_are_indicators(X):
    k = Bins(5).fitted(X)
    phi = k.features(X) * np.sqrt(4)
    assert phi.shape == (N, 20)
    assert set(np.unique(phi)) == {0.0, 1.0}
    assert (phi.sum(axis=0) == N / 5).all()
    agree = [np.searchsorted(e, c, side="right") for e, c in zip(k.edges, X.T, strict=True)]
    K = np.mean([a[:, None] == a for a in agree], axis=0)
    np.testing.assert_allclose(k(X), K, atol=1e-12)
    np.testing.assert_allclose(k.diag(X), 1.0)


def test_bins_hold_equal_weights():
    X = np.array([[0.0, 3.0], [1.0, 2.0], [2.0, 1.0], [3.0, 0.0]])
    # halves of the weight, as nearly as possible: below and above 2.5 and 0.5
    k = Bins(2).fitted(X, np.array([1.0, 1.0, 1.0, 5.0]))
    np.testing.assert_array_equal(k.edges, [[2.5], [0.5]])


def test_cosines_with_many_terms_are_the_kernel_of_the_first_derivative():
    u = np.linspace(0, 1, 9)[:, None]
    K = Cosines(20_000).fitted([[0.0], [1.0]])(u)

    def bernoulli(x):
        return x * x - x + 1.0 / 6.0

    # 2 sum cos(pi j u) cos(pi j v) / j^2 = pi^2 (B2((u + v) / 2) + B2(|u - v| / 2))
    truth = np.pi**2 * (bernoulli((u + u.T) / 2) + bernoulli(np.abs(u - u.T) / 2))
    np.testing.assert_allclose(K, truth, atol=2e-4)


def test_new_rows_outside_the_range_count_as_its_ends(X):
    k = Cosines(3).fitted(X[:, :1])
    low, high = X[:, 0].min(), X[:, 0].max()
    np.testing.assert_array_equal(k.features([[low - 5], [high + 5]]), k.features([[low], [high]]))
    constant = Cosines(3).fitted([[1.0], [1.0]])
    assert np.isfinite(constant.features([[1.0], [2.0]])).all()
    assert Bins(4).fitted([[1.0], [1.0]]).features([[1.0]]).sum() == 1.0


def test_additive_models_follow_single_columns(X):
    y = np.sin(2 * X[:, 0]) + (X[:, 1] > 0.3)
    bank = [k for j in range(4) for k in (Bins(8).on([j]), Cosines(8).on([j]))]
    model = kw.MKLRegressor(bank, alpha="auto").fit(X, y)
    assert model.score(X, y) > 0.85
    # the other two columns are noise
    assert model.weights_[:4].sum() > 0.9


# ---- files, descriptions, bad input ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    [
        approximate(RBF(gamma="median").prepared("standardize").on([0, 1]), Nystroem(12)),
        approximate(RBF(gamma=0.3), Nystroem(pivots=np.eye(4))),
        approximate(2.0 * Laplacian(gamma=0.3) + Linear(), RandomFeatures(12)),
        Bins(4).on([1]),
        Cosines(3, 2.0),
    ],
)
def test_kernels_of_features_return_from_files_and_descriptions(X, kernel):
    fitted = kernel.fitted(X)
    back = from_state(to_state(fitted))
    assert back == fitted
    np.testing.assert_array_equal(back(X[:5]), fitted(X[:5]))
    # a description is that of the rule
    again = from_state(to_state(kernel))
    assert again == kernel
    assert again.fitted(X) == fitted


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Nystroem(0), "n_features"),
        (lambda: Nystroem(5, "best"), "one of .*cholesky.*got 'best'"),
        (lambda: Nystroem(5, None), "got None"),
        (lambda: Nystroem(5, tol=1.0), "tol"),
        (lambda: RandomFeatures(1), "n_features"),
        (lambda: RandomFeatures(10, "best"), "sampling"),
        (lambda: Approximate(RBF(), "nystroem"), "map of features, got 'nystroem'"),
        (lambda: approximate("rbf", Nystroem(5)), "made of kernels"),
        (
            lambda: approximate(RBF(gamma=1.0).prepared("skip"), Nystroem(5)),
            r"Fill the cells .*prepared\('impute'\)",
        ),
        (lambda: approximate(RBF(gamma=1.0), Nystroem(5)).transform([[1.0]]), r"Call fitted\(X\) first"),
        (lambda: RBF(gamma=1.0).transform([[1.0]]), "no small feature map"),
        (lambda: Bins(1), "n_bins"),
        (lambda: Bins(3, edges=[1.0]), "row of 2 numbers for every column"),
        (lambda: Cosines(3, smoothness=0), "smoothness"),
        (
            lambda: Cosines(3, ranges=[[1, 2, 3]]),
            "`ranges` of Cosines must hold a row of 2 numbers for every column",
        ),
        (lambda: Bins(3, edges=[[1, 2, 3]]), "`edges` of Bins must hold a row of 2 numbers for every column"),
        (lambda: Cosines(3, ranges=[[0.0, 1.0]]).features([[1.0, 2.0]]), "fitted on 1 columns, got 2"),
    ],
)
def test_wrong_settings_say_what_is_expected(make, said):
    with pytest.raises(kw.InputError, match=said):
        make()


def test_categories_count_as_indicators_in_bases():
    frame = {"colour": ["red", "blue", "red"], "x": [0.0, 1.0, 2.0]}
    pandas = pytest.importorskip("pandas")
    k = Bins(2).fitted(pandas.DataFrame(frame))
    assert k.features(pandas.DataFrame(frame)).shape == (3, 6)


def test_frequencies_are_drawn_as_the_settings_say():
    rng = np.random.default_rng(1)
    few, many = rng.normal(size=(30, 3)), rng.normal(size=(30, 12))
    seen = {}
    for kernel, rows, auto in (
        (RBF(0.3), few, "sobol"),
        (RBF(0.3), many, "orthogonal"),
        (Laplacian(0.3), many, "sobol"),
        (ArcCosine(1), many, "sobol"),
    ):
        maps = {
            how: approximate(kernel, RandomFeatures(9, how)).fitted(rows).map.frequencies[0]
            for how in ("auto", "orthogonal", "sobol", "halton", "plain")
        }
        np.testing.assert_array_equal(maps["auto"], maps[auto])
        n = 9 if isinstance(kernel, ArcCosine) else 4
        assert {W.shape for W in maps.values()} == {(n, rows.shape[1])}
        same = {how for how in maps if np.array_equal(maps[how], maps["sobol"])}
        assert same == ({"sobol", "auto"} if auto == "sobol" else {"sobol"}) | (
            {"orthogonal"} if isinstance(kernel, Laplacian) else set()
        )
        other = (
            approximate(kernel, RandomFeatures(9, "sobol", random_state=1)).fitted(rows).map.frequencies[0]
        )
        assert not np.array_equal(other, maps["sobol"])
        # of twice the width directions are longer by its root, or twice as long
        wide = replace(kernel, gamma=1.2) if not isinstance(kernel, ArcCosine) else kernel
        found = approximate(wide, RandomFeatures(9, "sobol")).fitted(rows).map.frequencies[0]
        factor = {RBF: 2.0, Laplacian: 4.0}.get(type(kernel), 1.0)
        np.testing.assert_allclose(found, factor * maps["sobol"], rtol=1e-12)
        seen[type(kernel), len(rows.T)] = maps
    W = seen[RBF, 12]["orthogonal"]
    short = W / np.linalg.norm(W, axis=1, keepdims=True)
    np.testing.assert_allclose(short @ short.T, np.eye(4), atol=1e-12)
    layers = approximate(ArcCosine((1, 2)), RandomFeatures(8)).fitted(few).map.frequencies
    assert [one.shape for one in layers] == [(8, 3), (8, 8)]
    short = layers[1] / np.linalg.norm(layers[1], axis=1, keepdims=True)
    np.testing.assert_allclose(short @ short.T, np.eye(8), atol=1e-12)


def test_what_a_map_is_close_to_and_how_wide_it_is(X):
    rule = Nystroem(7)
    kernel = 2.0 * RBF(0.5).on([0]) + Polynomial(2).prepared("standardize") * RBF(0.2)
    made = approximate(kernel, rule).fitted(X)
    assert [one.width for one in maps_of(made)] == [7]
    assert maps_of(kernel) == []
    assert exact_kernel(approximate(RBF(0.5).on([1]), rule)) == RBF(0.5).on([1])
    assert exact_kernel(made)(X[:5]).tolist() == kernel.fitted(X)(X[:5]).tolist()
    assert rule.width == 7
    assert Nystroem(7, pivots=X[:3]).width == 3
    assert approximate(Linear(), Nystroem(50)).fitted(X).map.width == 4
    assert RandomFeatures(12).width == 12
    zero = approximate(Linear(), rule).fitted(np.zeros((5, 2)))
    assert zero.transform(np.ones((3, 2))).tolist() == [[0.0]] * 3
    assert (zero.map.left_out.share, zero.map.left_out.bound) == (0.0, 0.0)
    assert approximate(RBF(0.5), rule).label == "Nystroem RBF(gamma=0.5) on all"
    found = made.map.left_out
    assert found.exact
    assert found.n_measured == len(X)
    # the residual of the projection, by hand
    k = approximate(RBF(0.5), Nystroem(pivots=X[:20])).fitted(X)
    K, C = RBF(0.5)(X), RBF(0.5)(X, X[:20])
    left = np.trace(K - C @ np.linalg.solve(K[:20, :20], C.T)) / np.trace(K)
    assert k.map.left_out.share == pytest.approx(left, rel=1e-6)
    np.testing.assert_allclose(k(X), C @ np.linalg.solve(K[:20, :20], C.T), atol=1e-8)
    w = np.arange(len(X)) % 3.0
    weighted = approximate(RBF(0.5), Nystroem(pivots=X[:20])).fitted(X, w)
    own = np.diag(K - C @ np.linalg.solve(K[:20, :20], C.T))
    assert weighted.map.left_out.share == pytest.approx(w @ own / w.sum(), rel=1e-6)


def test_pivots_end_at_the_share_that_may_be_left_out(X):
    left = []
    for tol in (0.6, 0.3, 0.1):
        found = approximate(RBF(0.5), Nystroem(200, tol=tol)).fitted(X).map
        assert found.left_out.share <= tol
        left.append(found.width)
    assert left[0] < left[1] < left[2] < 200
    assert approximate(RBF(0.5), Nystroem(200, tol=0.0)).fitted(X).map.width == 200
