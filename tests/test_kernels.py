"""Kernels as values: their matrices by formulas, algebra, text and refusals.

Modules: `kernels`, `kernels/base`, `kernels/categorical`, `kernels/composed`, `kernels/dot`, `kernels/given`,
`kernels/learnt`, `kernels/parsing`, `kernels/pairs`, `kernels/stationary`, `functions`.
"""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.gaussian_process import kernels as processes
from sklearn.metrics.pairwise import laplacian_kernel, manhattan_distances, polynomial_kernel, rbf_kernel

from kernelweave._checks import InputError
from kernelweave.kernels import (
    RBF,
    ArcCosine,
    Categorical,
    Constant,
    Custom,
    Laplacian,
    Linear,
    Matern,
    On,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    Scaled,
    Sum,
    pairwise_statistic,
    parse,
)
from kernelweave.persistence.states import from_state, to_state
from kernelweave.views import Table

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 6))
Z = rng.normal(size=(7, 6))
MIXED = Table(
    np.column_stack([rng.normal(size=(30, 2)), rng.integers(0, 3, 30), rng.integers(0, 4, 30)]),
    names=("age", "bmi", "site", "group"),
    levels=(0, 0, 3, 4),
)


def cosine(A, B):
    return np.cos(A[:, :1] - B[:, :1].T)


LEAVES = [
    Linear(),
    Polynomial(),
    Polynomial(degree=1, coef0=0.0),
    Polynomial(degree=7, coef0=0.5, gamma=0.1),
    RBF(),
    RBF(gamma=0.05),
    Laplacian(gamma=0.3),
    Matern(gamma=0.3, nu=0.5),
    Matern(gamma=0.3),
    Matern(gamma=0.3, nu=2.5),
    RationalQuadratic(gamma=0.3, power=0.7),
    Periodic(gamma=0.3, period=1.7),
    ArcCosine(0),
    ArcCosine(1),
    ArcCosine(2),
    ArcCosine(1, layers=3),
    ArcCosine((0, 2, 1)),
    Categorical(),
    Constant(2.5),
]
COMPOSITES = [
    Linear() + RBF(0.1),
    Linear() + Polynomial(2) + 1.0,
    2.0 * (RBF(0.1) + RBF(0.2)),
    RBF(0.1) * Linear(),
    Polynomial(2) * Linear() * 3.0,
    ArcCosine(1) + Linear(),
    RBF(0.3).on([0, 1]),
    (Linear() + RBF(0.3)).on(slice(0, 2), name="first"),
    0.5 * Laplacian().on([1]) + Linear().on([0, 2]) * RBF(0.1),
    Linear().on([True, False, False, True]).base,
    Polynomial(2).on([-1]),
]
KERNELS = LEAVES + COMPOSITES
BUILT_IN = pytest.mark.parametrize("k", KERNELS, ids=repr)


# --- values ---


@BUILT_IN
@pytest.mark.parametrize("data", [X[:, :4], MIXED], ids=["numeric", "mixed"])
def test_gram_is_symmetric_psd_and_agrees_with_parts(k, data):
    table = data if isinstance(data, Table) else Table(data)
    K = k(table)
    assert K.dtype == np.float64
    assert K.shape == (table.n_rows, table.n_rows)
    assert (K == K.T).all()
    values = np.linalg.eigvalsh(K)
    assert values[0] >= -1e-12 * values[-1]
    scale = np.abs(K).max()
    # the arc cosine turns 1e-16 in the cosine of a row with itself into 1e-8, and a root 1e-16 in a squared distance
    loose = 1e-7 if "ArcCosine" in repr(k) or "nu=0.5" in repr(k) else 1e-12
    np.testing.assert_allclose(k.diag(table), K.diagonal(), rtol=1e-12, atol=1e-12 * scale)
    np.testing.assert_allclose(k(table, table.rows(slice(3, 9))), K[:, 3:9], rtol=loose, atol=loose * scale)
    np.testing.assert_allclose(k(table.rows([4]), table), K[[4]], rtol=loose, atol=loose * scale)


@pytest.mark.parametrize("n_columns", [1, 6])
@pytest.mark.parametrize("length", [0.5, 2.0])
def test_kernels_of_gaussian_processes(n_columns, length):
    A, B, gamma = X[:, :n_columns], Z[:, :n_columns], 1.0 / (2.0 * length**2)
    pairs = [(Matern(gamma, nu), processes.Matern(length, nu=nu)) for nu in (0.5, 1.5, 2.5)]
    pairs.append((RationalQuadratic(gamma, 0.7), processes.RationalQuadratic(length, 0.7)))
    if n_columns == 1:
        # with several columns that of scikit-learn is no kernel
        pairs.append((Periodic(gamma, 1.3), processes.ExpSineSquared(length, 1.3)))
    for own, other in pairs:
        np.testing.assert_allclose(own(A, B), other(A, B), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "k", [Matern(0.7, 0.5), Matern(0.7, 1.5), Matern(0.7, 2.5), RationalQuadratic(0.7, 0.4)], ids=repr
)
def test_derivatives_by_the_squared_distance(k):
    S, h = np.array([0.1, 0.5, 2.0, 9.0]), 1e-6
    slope = (k.formula(np, S + h, None, None) - k.formula(np, S - h, None, None)) / (2.0 * h)
    # central differences are right to about h^2 and 1e-16 / h
    np.testing.assert_allclose(k.gradient(np, S, k.formula(np, S, None, None)), slope, rtol=1e-8)
    assert k.layer() is k


def test_matern_and_rational_quadratic_approach_a_gaussian():
    np.testing.assert_allclose(RationalQuadratic(0.2, 1e8)(X), RBF(0.2)(X), atol=1e-6)
    errors = [abs(Matern(0.2, nu)(X) - RBF(0.2)(X)).max() for nu in (0.5, 1.5, 2.5)]
    assert errors[0] > errors[1] > errors[2]
    with pytest.raises(InputError, match=r"`nu` of Matern must be 0\.5, 1\.5 or 2\.5, got 1"):
        Matern(nu=1)


def test_against_scikit_learn():
    np.testing.assert_allclose(RBF(0.3)(X, Z), rbf_kernel(X, Z, gamma=0.3), rtol=1e-12)
    np.testing.assert_allclose(Laplacian(0.3)(X, Z), laplacian_kernel(X, Z, gamma=0.3), rtol=1e-12)
    for q in range(1, 11):
        expected = polynomial_kernel(X, Z, degree=q, gamma=0.2, coef0=0.7)
        np.testing.assert_allclose(Polynomial(q, 0.7, 0.2)(X, Z), expected, rtol=1e-11)
    np.testing.assert_allclose(Linear()(X, Z), X @ Z.T, rtol=1e-13)


def test_rbf_diagonal_is_exactly_one_and_values_at_most_one():
    far = X + 1e6
    for gamma in (1e-3, 1.0, 1e3):
        K = RBF(gamma)(far)
        assert (K.diagonal() == 1.0).all()
        assert K.max() <= 1.0
    # centring keeps distances of points that are far from the origin
    np.testing.assert_allclose(RBF(0.1)(far), RBF(0.1)(X), rtol=1e-8)


def test_categorical():
    table = Table([[0, 1], [0, 2], [1, 2], [-1, -1]], levels=(2, 3))
    K = Categorical()(table)
    np.testing.assert_array_equal(K, [[1, 0.5, 0, 0], [0.5, 1, 0.5, 0], [0, 0.5, 1, 0], [0, 0, 0, 1]])
    assert (Categorical().diag(table) == 1).all()
    assert Categorical()(table, table)[3, 3] == 0  # an unknown category equals nothing
    np.testing.assert_array_equal(Categorical()([[1.5, 2.0], [1.5, 3.0]]), [[1, 0.5], [0.5, 1]])


def test_numeric_kernels_see_indicators():
    np.testing.assert_array_equal(Linear().on(["site"])(MIXED), Categorical().on(["site"])(MIXED))
    np.testing.assert_allclose(RBF(0.5)(MIXED), rbf_kernel(MIXED.take(), gamma=0.5), rtol=1e-12)


# --- arc-cosine ---


@pytest.mark.parametrize("n", [0, 1, 2])
def test_arc_cosine_against_monte_carlo(n):
    # k_n(x, z) = 2 E[step(w.x) step(w.z) (w.x)^n (w.z)^n]; 1e6 samples, within 5 standard errors
    A = X[:4, :3]
    w = np.random.default_rng(1).normal(size=(1_000_000, 3)) @ A.T
    h = (w > 0) * w**n if n else (w > 0).astype(float)
    K = ArcCosine(n)(A)
    for i in range(4):
        for j in range(4):
            sample = 2 * h[:, i] * h[:, j]
            error = 5 * sample.std() / 1000 + 1e-15
            assert abs(sample.mean() - K[i, j]) <= error


def test_arc_cosine_closed_forms():
    sq = (X**2).sum(axis=1)
    for degree, expected in [
        (0, np.ones(40)),
        (1, sq),
        (2, 3 * sq**2),
        ((2, 2), 27 * sq**4),
        ((1, 1, 1), sq),
        ((2, 0), np.ones(40)),
        ((1, 2), 3 * sq**2),
    ]:
        k = ArcCosine(degree)
        np.testing.assert_allclose(k.diag(X), expected, rtol=1e-13)
        np.testing.assert_array_equal(k(X).diagonal(), k.diag(X))
    right = np.array([[2.0, 0.0], [0.0, 3.0]])  # orthogonal: J = pi/2, 1, pi/2
    np.testing.assert_allclose(ArcCosine(0)(right)[0, 1], 0.5)
    np.testing.assert_allclose(ArcCosine(1)(right)[0, 1], 6 / math.pi)
    np.testing.assert_allclose(ArcCosine(2)(right)[0, 1], 36 / 2)
    opposite = np.array([[1.0, 1.0], [-2.0, -2.0]])
    for n in (0, 1, 2):  # J vanishes at pi, where the angle carries an error of 1e-8
        np.testing.assert_allclose(ArcCosine(n)(opposite)[0, 1], 0.0, atol=1e-7)


def test_arc_cosine_layers_compose():
    first = ArcCosine(1)
    K = first(X)
    sq = first.diag(X)
    np.testing.assert_allclose(
        ArcCosine((1, 2)).from_statistic(X @ X.T, (X**2).sum(1)[:, None], (X**2).sum(1)),
        ArcCosine(2).from_statistic(K, sq[:, None], sq),
        rtol=1e-6,
    )


@pytest.mark.parametrize("degree", [0, 1, 2, (1, 0), (0, 1), (2, 0, 1)])
def test_arc_cosine_with_a_row_of_zeros(degree):
    A = np.vstack([np.zeros(6), X[:5]])
    with np.errstate(all="raise", under="ignore"):
        K = ArcCosine(degree)(A)
    assert np.isfinite(K).all()
    assert np.linalg.eigvalsh(K)[0] >= -1e-12 * K.max()
    np.testing.assert_array_equal(K.diagonal(), ArcCosine(degree).diag(A))
    if degree == 0:
        assert (K[0] == 0.5).all()
    elif isinstance(degree, int):
        assert (K[0] == 0).all()


def test_arc_cosine_degrees_are_canonical():
    assert ArcCosine((1, 1)) == ArcCosine(1, layers=2)
    assert ArcCosine([0, 1]) == ArcCosine((0, 1)) == ArcCosine((0, 1), layers=2)
    assert ArcCosine((0, 1)).layers == 2


# --- pairwise statistics ---


@pytest.mark.parametrize("p", [1, 3, 4, 5, 20])
@pytest.mark.parametrize("n", [1, 5, 700])
def test_pairwise_statistics(p, n):
    A = rng.normal(size=(n, p))
    B = rng.normal(size=(13, p))
    sq = ((A[:, None] - B) ** 2).sum(-1)
    np.testing.assert_allclose(pairwise_statistic("sqdist", A, B), sq, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(pairwise_statistic("l1", A, B), manhattan_distances(A, B), rtol=1e-12)
    np.testing.assert_allclose(pairwise_statistic("dot", A, B), A @ B.T, rtol=1e-12, atol=1e-13)
    for kind in ("sqdist", "l1", "dot"):
        S = pairwise_statistic(kind, A)
        assert (S == S.T).all()
        np.testing.assert_allclose(S, pairwise_statistic(kind, A, A.copy()), rtol=1e-10, atol=1e-10)
        if kind != "dot":
            assert (S.diagonal() == 0).all()
            assert S.min() >= 0


def test_few_columns_do_not_cancel():
    A = np.array([[1e8, 0.0], [1e8 + 1, 0.0]])
    assert pairwise_statistic("sqdist", A)[0, 1] == 1.0


@pytest.mark.parametrize("kind", ["sqdist", "l1", "dot"])
def test_statistic_of_no_rows(kind):
    assert pairwise_statistic(kind, np.zeros((0, 6)), X).shape == (0, 40)
    assert pairwise_statistic(kind, X, np.zeros((0, 6))).shape == (40, 0)


def test_statistic_errors():
    with pytest.raises(InputError, match=r"Unknown pairwise statistic 'cosine'.*'sqdist', 'dot', 'l1'"):
        pairwise_statistic("cosine", X)
    with pytest.raises(InputError, match=r"equally many columns, got \(40, 6\) and \(40, 5\)"):
        pairwise_statistic("dot", X, X[:, :5])
    with pytest.raises(InputError, match="2D arrays"):
        pairwise_statistic("dot", X[0])


WITH_STATISTIC = [k.base for k in KERNELS if k.base.statistic is not None]


@pytest.mark.parametrize("k", WITH_STATISTIC, ids=repr)
def test_statistic_route_equals_direct_call(k):
    S = pairwise_statistic(k.statistic, k._compared(Table(X)))
    sq = (X**2).sum(axis=1)
    if k.statistic == "dot":
        sq = S.diagonal().copy()
    K = k(X)
    scale = np.abs(K).max()
    before = S.copy()
    np.testing.assert_allclose(
        k.from_statistic(S, sq[:, None], sq[None, :]), K, rtol=1e-13, atol=1e-14 * scale
    )
    np.testing.assert_array_equal(S, before)
    upper = np.triu_indices(len(X))
    packed = S[upper]
    left, right = sq[upper[0]], sq[upper[1]]
    expected = K[upper]
    np.testing.assert_allclose(
        k.from_statistic(packed, left, right), expected, rtol=1e-13, atol=1e-14 * scale
    )
    out = np.empty_like(packed)
    assert k.from_statistic(packed, left, right, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-14 * scale)
    assert k.from_statistic(packed, left, right, out=packed) is packed
    np.testing.assert_array_equal(packed, out)


def test_which_kernels_have_a_statistic():
    assert [k.statistic for k in (Linear(), Polynomial(), RBF(), Laplacian(), ArcCosine())] == [
        "dot",
        "dot",
        "sqdist",
        "l1",
        "dot",
    ]
    assert ArcCosine().needs_norms
    assert (ArcCosine() + Linear()).needs_norms
    assert not (2.0 * Polynomial()).needs_norms
    assert (RBF(1) + 2.0 * RBF(2) + 1.0).statistic == "sqdist"
    assert (2.0 * RBF(1).on([0])).base.statistic == "sqdist"
    assert Constant().statistic is None
    for k in (Categorical(), RBF() + Linear(), RBF().on([0]), RBF().on([0]) + RBF(), Custom(cosine)):
        assert k.statistic is None
        with pytest.raises(InputError, match="not a function of one pairwise statistic"):
            k.from_statistic(np.zeros(3))
    with pytest.raises(InputError, match="needs the squared norms"):
        ArcCosine().from_statistic(np.zeros(3))


@given(
    hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(-3, 3)),
    st.integers(1, 12),
)
def test_integer_powers(x, q):
    np.testing.assert_allclose(Polynomial(q, 0.0).from_statistic(x), x**q, rtol=1e-13, atol=1e-300)


# --- features ---


@pytest.mark.parametrize(
    ("k", "columns", "rank"),
    [
        (Linear(), None, 9),
        (Linear(), ["age"], 1),
        (Polynomial(5, 0.5, 0.3), ["bmi"], 6),
        (Polynomial(4, 0.0, 0.3), ["bmi"], 1),
        (Polynomial(1), ["age"], 2),
        (Categorical(), ["site", "group"], 7),
        (Constant(3.0), None, 1),
        (2.5 * Linear(), ["age", "site"], 4),
        (Linear() + Polynomial(2) + 0.5, ["age"], 5),
        (Linear() * Linear(), ["age", "site"], 16),
        (Polynomial(3) * 2.0 * Linear(), ["age"], 4),
    ],
)
def test_features(k, columns, rank):
    k = k.on(columns)
    phi = k.features(MIXED)
    K = k(MIXED)
    assert phi.shape == (MIXED.n_rows, rank)
    np.testing.assert_allclose(phi @ phi.T, K, rtol=1e-12, atol=1e-12 * np.abs(K).max())
    new = MIXED.rows([3, 1])
    np.testing.assert_allclose(
        k.features(new) @ phi.T, k(new, MIXED), rtol=1e-12, atol=1e-12 * np.abs(K).max()
    )


@pytest.mark.parametrize(
    "k",
    [
        Polynomial(2),
        Polynomial(16).on(["age"]),
        Polynomial(2).on(["site"]),
        RBF(),
        RBF().on(["age"]),
        Laplacian(),
        ArcCosine(),
        Categorical(),
        Categorical().on(["age", "site"]),
        Linear() * Linear(),
        Linear() + RBF(),
        2.0 * RBF(),
        Custom(cosine),
    ],
    ids=lambda k: k.label,  # the repr of a function holds its address
)
def test_no_features(k):
    assert k.features(MIXED) is None


def test_features_of_unknown_categories_are_zero():
    table = Table([[-1.0], [1.0]], levels=(2,))
    np.testing.assert_array_equal(Categorical().features(table), [[0, 0], [0, 1]])


def test_is_linear():
    assert Linear().is_linear
    assert (2.0 * Linear()).is_linear
    assert (Linear().on([0]) + 2.0 * Linear().on([1, 2])).is_linear
    assert (2.0 * (Linear() + Linear())).on([0]).is_linear
    for k in (Polynomial(1), RBF(), Linear() + 1.0, Linear() * Linear(), Linear() + RBF(), RBF().on([0])):
        assert not k.is_linear


# --- algebra ---

small = st.sampled_from(
    [Linear(), Polynomial(2), RBF(0.2), Laplacian(0.1), Constant(0.5), RBF(0.3).on([0, 2])]
)
factors = st.floats(0.01, 100)


@settings(deadline=None)
@given(small, small, small, factors)
def test_algebra(a, b, c, s):
    A, B, C = a(X), b(X), c(X)

    def close(k, expected):
        np.testing.assert_allclose(k(X), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
        np.testing.assert_allclose(
            k.diag(X), expected.diagonal(), rtol=1e-12, atol=1e-12 * np.abs(expected).max()
        )

    close(a + b, A + B)
    close(a * b, A * B)
    close(s * a, s * A)
    close((a + b) * c, A * C + B * C)
    close(a * b + s * c, A * B + s * C)
    assert a + (b + c) == (a + b) + c == sum([a, b, c])
    assert a * (b * c) == (a * b) * c
    assert s * a == a * s
    assert 0 + a == a + 0 == a
    for k in (a + b, a * b, s * a, (a + b) * c):
        assert hash(k) == hash(pickle.loads(pickle.dumps(k)))
        assert pickle.loads(pickle.dumps(k)) == k
        assert from_state(to_state(k)) == k
        assert parse(repr(k)) == k


def test_numbers_on_either_side():
    assert 2 * Linear() == Linear() * 2.0 == np.float64(2.0) * Linear() == Linear() * np.int64(2)
    assert np.float32(2.0) * Linear() == 2.0 * Linear()
    assert Linear() + 1 == Sum((Linear(), Constant(1.0)))
    assert 1 + Linear() == Sum((Constant(1.0), Linear()))
    assert 2.0 * (3.0 * Linear()) == 6.0 * Linear()
    assert 2.0 * Constant(3.0) == Constant(6.0)
    assert 2.0 * RBF().on([0]) == (2.0 * RBF()).on([0])
    for operation in (
        lambda: Linear() + "x",
        lambda: Linear() * None,
        lambda: "x" + Linear(),
        lambda: X * Linear(),
    ):
        with pytest.raises(TypeError):
            operation()


@pytest.mark.parametrize("factor", [0, -1.0, float("nan"), float("inf"), True, 10**400])
def test_bad_factors(factor):
    with pytest.raises(InputError, match=r"`factor` of Scaled must be a finite number > 0, got"):
        factor * Linear()
    if factor != 0:
        with pytest.raises(InputError, match="`value` of Constant must be a finite number > 0, got"):
            Linear() + factor


# --- values as values ---


@BUILT_IN
def test_hash_eq_pickle_state_and_text(k):
    copy = pickle.loads(pickle.dumps(k))
    assert copy == k
    assert hash(copy) == hash(k)
    assert len({k, copy}) == 1
    assert from_state(to_state(k)) == k
    assert eval(repr(k)) == k
    assert parse(repr(k)) == k
    with pytest.raises(AttributeError):
        k.statistic = "dot"
    assert sum(k == other for other in KERNELS) == KERNELS.count(k)


def test_kinds_and_parameters_are_told_apart():
    assert RBF(1) == RBF(1.0)
    assert hash(RBF(1)) == hash(RBF(np.float64(1.0)))
    assert type(RBF(np.float32(2)).gamma) is float
    assert RBF(1.0) != Laplacian(1.0)
    assert not isinstance(Laplacian(), RBF)
    assert RBF().on([0]) != RBF().on(["0"])
    assert RBF().on([0]) == RBF().on(0) == RBF().on(np.array([0]))
    assert RBF().on([0]) != RBF()
    assert Linear() + RBF() != RBF() + Linear()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBF(0), r"`gamma` of RBF must be a finite number > 0, 'median' or .*, got 0\. Other values"),
        (lambda: RBF("a"), "`gamma` of RBF must be a finite number > 0, 'median' or 'scale', .*, got 'a'"),
        (lambda: RBF(math.nan), "got nan"),
        (lambda: Laplacian(-1), "`gamma` of Laplacian must be a finite number > 0, .*, got -1"),
        (
            lambda: Polynomial(0),
            "`degree` of Polynomial must be a whole number >= 1, got 0",
        ),
        (lambda: Polynomial(2.0), "whole number >= 1, got 2.0"),
        (lambda: Polynomial(True), "whole number >= 1, got True"),
        (lambda: Polynomial(2, -1), "`coef0` of Polynomial must be a finite number >= 0, got -1"),
        (lambda: Polynomial(2, gamma=0), "`gamma` of Polynomial must be a finite number > 0"),
        (lambda: ArcCosine(3), "`degree` of ArcCosine must be a whole number from 0 to 2, got 3"),
        (lambda: ArcCosine(1, 0), "`layers` of ArcCosine must be a whole number >= 1, got 0"),
        (lambda: ArcCosine((0, 1), 3), r"one entry per layer \(layers=3\), got \(0, 1\)"),
        (lambda: ArcCosine(()), "one entry per layer"),
        (lambda: Constant(0.0), "`value` of Constant must be a finite number > 0, got 0.0"),
        (lambda: Linear() + (-1.0), "`value` of Constant"),
        (lambda: Custom(3), "`function` of Custom must be callable, got 3"),
        (lambda: Custom(cosine, diag=3), "`diag` of Custom must be callable, got 3"),
        (lambda: Sum(()), "Sum must have a tuple of at least one term"),
        (lambda: Product((Linear(), 2.0)), "Product is made of kernels, got 2.0"),
        (lambda: Scaled("rbf", 2.0), "Scaled is made of kernels, got 'rbf'"),
        (lambda: On(None, [0]), "On is made of kernels, got None"),
        (
            lambda: RBF().on([0]).on([1]),
            r"once, got RBF\(gamma=1.0\)\.on\(\[0\]\), which is restricted already",
        ),
        (lambda: (Linear() + RBF().on([0])).on([1]), "restricted already"),
        (lambda: (2.0 * (Linear() * RBF().on([0]))).on([1]), "restricted already"),
        (lambda: RBF().on([]), "at least one column"),
        (lambda: RBF().on([0.5]), "names, integers, a slice or a boolean mask"),
        (lambda: RBF().on([0], name=3), "`name` of a view must be text or None, got 3"),
        (lambda: RBF()(X, X[:, :3]), "same columns, got 6 columns and 3 columns"),
        (lambda: RBF().on([9])(X), "Column 9 is out of range"),
        (lambda: RBF().on(["age"])(X), "'age' was selected by name"),
    ],
)
def test_errors(make, message):
    with pytest.raises(InputError, match=message):
        make()


# --- columns ---


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame):
    names = ["a", "b", "c", "d", "e", "f"]
    F, G = frame(dict(zip(names, X.T, strict=True))), frame(dict(zip(names, Z.T, strict=True)))
    for columns, positions in [
        (["b", "f"], [1, 5]),
        (slice("b", "d"), [1, 2, 3]),
        (slice(0, 2), [0, 1]),
        ("c", [2]),
        ([-1, "a"], [5, 0]),
        ([True] + 5 * [False], [0]),
    ]:
        k = RBF(0.4).on(columns)
        np.testing.assert_array_equal(k(F, G), RBF(0.4)(X[:, positions], Z[:, positions]))
        np.testing.assert_array_equal(k(F), RBF(0.4)(X[:, positions]))
        np.testing.assert_array_equal(k.diag(F), np.ones(40))
        np.testing.assert_array_equal(Linear().on(columns).features(F), X[:, positions])
    with pytest.raises(InputError, match=r"Unknown column 'ax'. Did you mean 'a'"):
        RBF().on("ax")(F)


def test_categories_of_frames_come_from_the_left():
    left = pd.DataFrame({"site": ["x", "y", "x"]})
    right = pd.DataFrame({"site": ["y", "new"]})
    np.testing.assert_array_equal(Categorical()(left, right), [[0, 0], [1, 0], [0, 0]])
    np.testing.assert_array_equal(Linear()(left, right), [[0, 0], [1, 0], [0, 0]])


def test_columns_and_base():
    k = (RBF() + Linear()).on(["a", 2], name="v")
    assert (k.columns, k.base, k.name) == (("a", 2), RBF() + Linear(), "v")
    assert (RBF().columns, RBF().base, RBF().name) == (None, RBF(), None)
    assert hash(RBF().on(slice(0, 3)).columns) == hash(RBF().on(slice(0, 3)).columns)
    np.testing.assert_array_equal(RBF().on(None, name="all")(X), RBF()(X))


@pytest.mark.parametrize(
    ("k", "label"),
    [
        (Linear(), "Linear on all"),
        (Polynomial(2), "Polynomial(degree=2) on all"),
        (Polynomial(2, 0.0, 0.5), "Polynomial(degree=2, coef0=0, gamma=0.5) on all"),
        (RBF(0.464158883), "RBF(gamma=0.4642) on all"),
        (RBF(0.5).on(["age", "bmi"]), "RBF(gamma=0.5) on age, bmi"),
        (RBF(0.5).on(["age"], name="clinical"), "clinical: RBF(gamma=0.5)"),
        (Linear().on(range(30)), "Linear on x0, x1, ... (30 columns)"),
        (Linear().on([0, 1, 2, -1]), "Linear on x0, x1, x2, column -1"),
        (Linear().on(slice(0, 10)), "Linear on columns 0:10"),
        (Linear().on(slice("a", None, 2)), "Linear on columns a::2"),
        (Linear().on([False, True, True]), "Linear on x1, x2"),
        (Laplacian(), "Laplacian(gamma=1) on all"),
        (ArcCosine(1, 2), "ArcCosine(degree=1, layers=2) on all"),
        (ArcCosine((1, 0)), "ArcCosine(degree=(1, 0)) on all"),
        (Constant(2), "Constant(2) on all"),
        (2 * RBF(0.5), "2 * RBF(gamma=0.5) on all"),
        (Linear() + RBF(0.5), "(Linear + RBF(gamma=0.5)) on all"),
        ((Linear() + RBF(0.5)).on(["a"], name="v"), "v: Linear + RBF(gamma=0.5)"),
        ((Linear() + RBF(0.5)) * Linear(), "((Linear + RBF(gamma=0.5)) * Linear) on all"),
        (Linear().on(["a"]) + RBF(0.5), "Linear on a + RBF(gamma=0.5) on all"),
        ((Linear().on(["a"]) + RBF(0.5)) * Linear(), "(Linear on a + RBF(gamma=0.5) on all) * Linear on all"),
        (2.0 * (Linear() + RBF(0.5).on(["a"])), "2 * (Linear on all + RBF(gamma=0.5) on a)"),
        (Custom(cosine), "cosine on all"),
        (Custom(cosine, name="c").on([0]), "c on x0"),
    ],
)
def test_labels(k, label):
    assert k.label == label


# --- custom ---


def test_custom():
    k = Custom(cosine)
    np.testing.assert_allclose(k(X, Z), np.cos(X[:, :1] - Z[:, 0]))
    K = k(X)
    assert (K == K.T).all()
    np.testing.assert_array_equal(k.diag(X), np.ones(40))
    np.testing.assert_array_equal(Custom(cosine, diag=lambda A: np.full(len(A), 1.0)).diag(X), np.ones(40))
    assert pickle.loads(pickle.dumps(k)) == k == Custom(cosine)
    assert k != Custom(cosine, name="other")
    assert k.on([2])(X)[0, 1] == pytest.approx(np.cos(X[0, 2] - X[1, 2]))
    assert repr(Custom(cosine, name="c")).startswith("Custom(<function cosine")
    assert "name='c'" in repr(Custom(cosine, name="c"))
    np.testing.assert_allclose(Custom(rbf_kernel)(X), RBF(1 / 6)(X))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: A[:, 0], r"must return shape \(X.shape\[0\], Z.shape\[0\]\) = \(40, 40\), got \(40,\)"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "must return finite values"),
        (lambda A, B: A[:, :1] + 2 * B[:, 0], "must be symmetric, got values that differ by"),
    ],
)
def test_custom_errors(function, message):
    with pytest.raises(InputError, match=message):
        Custom(function)(X)


def test_custom_diag_shape():
    with pytest.raises(InputError, match=r"must return shape \(X.shape\[0\],\) = \(40,\), got \(40, 6\)"):
        Custom(cosine, diag=lambda A: A).diag(X)


# --- text ---


@pytest.mark.parametrize(
    ("text", "k"),
    [
        ("linear", Linear()),
        ("Linear()", Linear()),
        ("rbf(gamma=0.5)", RBF(0.5)),
        ("RBF(.5)", RBF(0.5)),
        (" gaussian(1e-3) ", RBF(1e-3)),
        ("poly(degree=2)", Polynomial(2)),
        ("polynomial", Polynomial()),
        ("polynomial(3, 0, gamma=2)", Polynomial(3, 0.0, 2.0)),
        ("laplacian(gamma=2)", Laplacian(2.0)),
        ("arccosine(degree=(1, 0))", ArcCosine((1, 0))),
        ("arc_cosine(1, layers=2)", ArcCosine(1, 2)),
        ("categorical", Categorical()),
        ("constant(2)", Constant(2.0)),
        ("2.0 * rbf + linear", 2.0 * RBF() + Linear()),
        ("(linear + 1) * rbf", (Linear() + 1.0) * RBF()),
        ("rbf.on(['age', -1], name='v')", RBF().on(["age", -1], name="v")),
        ("rbf(2).on(columns='age')", RBF(2).on("age")),
        ("linear.on(slice('a', 'c'))", Linear().on(slice("a", "c"))),
        ("linear.on([True, False])", Linear().on([True, False])),
        ("linear.on(None, 'all')", Linear().on(None, "all")),
    ],
)
def test_parse(text, k):
    assert parse(text) == k


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rbg(gamma=1)", "Unknown kernel 'rbg'. Did you mean 'rbf'.*Known: .*'linear'.*'rbf'"),
        ("rbf(gama=1)", "Did you mean 'gamma'"),
        ("linear(gamma=1)", "Kernel 'linear' has no parameters, got 'gamma'"),
        ("rbf(1, 2)", "once each"),
        ("rbf(1, gamma=2)", "once each"),
        ("rbf(gamma=x)", "Cannot read the value 'x'"),
        ("rbf(gamma='a')", "`gamma` of RBF must be a finite number"),
        ("rbf(**{})", "Cannot read"),
        ("rbf(", "Cannot read the kernel"),
        ("", "text of 1 to 10000 characters"),
        (None, "text of 1 to 10000 characters"),
        ("x" * 10_001, "text of 1 to 10000 characters"),
        ("3", "is a number, not a kernel"),
        ("rbf - linear", "Cannot read 'rbf - linear'"),
        ("-1 * rbf", "Cannot read '-1'"),
        ("rbf ** 2", "Cannot read"),
        ("rbf.on()", "Cannot read"),
        ("rbf.on([0], columns=[1])", "Cannot read"),
        ("rbf.on(slice())", "Cannot read the value"),
        ("rbf.on(slice(1, 2, 3, 4))", "Cannot read the value"),
        ("rbf.off([0])", "Cannot read"),
        ("'rbf'", "Cannot read"),
        ("__import__('os').system('true')", "Unknown kernel '__import__'|Cannot read"),
        ("(lambda: rbf)()", "Cannot read"),
        ("rbf.__class__", "Cannot read"),
        ("linear\0", "Cannot read the kernel"),
        ("(" * 3000 + "linear" + ")" * 3000, "Cannot read the kernel"),
        ("+".join(["linear"] * 1400) + "+", "Cannot read the kernel"),
    ],
)
def test_parse_errors(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)


def test_values_of_a_statistic_are_the_callers_own():
    """Also where they are the statistic itself."""
    S = np.arange(6.0).reshape(2, 3)
    for kernel in (Linear(), 1.0 * Linear(), Linear() + Linear(), Polynomial(1, 0.0), RBF(0.5)):
        found = kernel.from_statistic(S)
        assert not np.shares_memory(found, S)
        found += 1.0
        np.testing.assert_array_equal(S, np.arange(6.0).reshape(2, 3))


def test_the_derivative_by_the_power_is_that_of_the_formula():
    S = np.array([0.0, 0.3, 2.0, 40.0])
    for gamma, power in ((0.5, 1.0), (2.0, 0.3)):
        low, high = (RationalQuadratic(gamma, power + step).from_statistic(S) for step in (-1e-6, 1e-6))
        found = RationalQuadratic(gamma, power).by_power(S)
        np.testing.assert_allclose(found, (high - low) / 2e-6, atol=1e-8)
