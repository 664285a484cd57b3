"""Kernels as functions: one formula for tables, layers and families, against the formulas of the papers.

Modules: `functions`, `mkl/families`.
"""

import numpy as np
import pytest

from kernelweave import kernels
from kernelweave.functions import Exponential, squared_distances
from kernelweave.gram import as_gram
from kernelweave.kernels import RBF, ArcCosine, Elementwise, Linear, Polynomial
from kernelweave.mkl.families import GaussianOfSum, Gaussians


def arc_cosine(degree):
    """Eqs (3)-(6) of Cho and Saul, with the angle."""

    def value(K, left, right):
        t = np.arccos(np.clip(K / np.sqrt(left * right), -1.0, 1.0))
        J = {
            0: np.pi - t,
            1: np.sin(t) + (np.pi - t) * np.cos(t),
            2: 3.0 * np.sin(t) * np.cos(t) + (np.pi - t) * (1.0 + 2.0 * np.cos(t) ** 2),
        }[degree]
        return (left * right) ** (degree / 2) * J / np.pi

    return value


#: Function, its formula, and the kernel on tables that is made of it.
FORMULAS = {
    "linear": (Linear(), lambda K, left, right: K, kernels.Linear()),
    **{
        f"degree {q}": (
            Polynomial(q, 0.5, 0.3),
            lambda K, left, right, q=q: (0.3 * K + 0.5) ** q,
            kernels.Polynomial(degree=q, coef0=0.5, gamma=0.3),
        )
        for q in (1, 2, 3, 4, 7, 10)
    },
    "gaussian": (
        RBF(0.3),
        lambda K, left, right: np.exp(-0.3 * (left + right - 2.0 * K)),
        kernels.RBF(gamma=0.3),
    ),
    **{
        f"arc {q}": (ArcCosine(q), arc_cosine(q), kernels.ArcCosine(degree=q)) for q in (0, 1, 2)
    },
    "exponential": (Exponential(), lambda K, left, right: np.exp(K), None),
    "cosh": (
        Elementwise(np.cosh, np.sinh),
        lambda K, left, right: np.cosh(K),
        kernels.Elementwise(np.cosh, np.sinh),
    ),
}  # fmt: skip


@pytest.fixture(params=FORMULAS)
def case(request):
    return FORMULAS[request.param]


@pytest.fixture
def products(rng):
    """Inner products of two sets of rows, none parallel, and their squared norms."""
    X, Z = rng.normal(size=(9, 3)), rng.normal(size=(7, 3))
    return X, Z, X @ Z.T, np.square(X).sum(axis=1)[:, None], np.square(Z).sum(axis=1)[None, :]


def test_values_are_those_of_the_formula_and_of_the_table(case, products):
    """The largest error measured on twenty seeds is 5e-16 of the largest value."""
    function, formula, kernel = case
    X, Z, K, left, right = products
    expected = formula(K, left, right)
    size = np.abs(expected).max()
    np.testing.assert_allclose(
        function.layer_value(np, K, left, right), expected, rtol=1e-13, atol=1e-14 * size
    )
    diagonal = function.own_value(np, left[:, 0])
    np.testing.assert_allclose(diagonal, formula(left, left, left)[:, 0], rtol=1e-13)
    if kernel is not None:
        np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-13, atol=1e-14 * size)
        np.testing.assert_allclose(kernel.diag(X), diagonal, rtol=1e-13)
        assert kernel.layer() == function


def test_derivatives_are_those_of_the_formula(case, products):
    """Central differences; the largest error measured on twenty seeds is 2e-7 of the largest derivative."""
    function, formula, _ = case
    _, _, K, left, right = products
    h = 1e-6
    by_product, by_left = function.layer_partials(
        np, K, left, right, function.layer_value(np, K, left, right)
    )
    numeric = (formula(K + h, left, right) - formula(K - h, left, right)) / (2.0 * h)
    np.testing.assert_allclose(by_product, numeric, rtol=1e-6, atol=2e-6 * np.abs(numeric).max())
    numeric = (formula(K, left + h, right) - formula(K, left - h, right)) / (2.0 * h)
    by_left = np.zeros_like(K) if by_left is None else by_left
    np.testing.assert_allclose(by_left, numeric, rtol=1e-6, atol=2e-6 * np.abs(by_product).max())
    numeric = (function.own_value(np, left + h) - function.own_value(np, left - h)) / (2.0 * h)
    np.testing.assert_allclose(function.own_slope(np, left), numeric, rtol=1e-6, atol=1e-8)


def test_values_leave_the_products_as_they_are(case, products):
    function, _, _ = case
    _, _, K, left, right = products
    before = K.copy()
    function.layer_value(np, K, left, right)
    np.testing.assert_array_equal(K, before)


def test_values_go_where_they_are_told_to_and_nowhere_else(rng):
    """In blocks of rows, whose left norms go with them: packed triangles, matrices and single rows."""
    X = rng.normal(size=(300, 2))
    squares = np.square(X).sum(axis=1)
    for kernel in (
        kernels.RBF(0.3),
        kernels.ArcCosine(1),
        kernels.Polynomial(2) + kernels.Linear(),
        kernels.Linear(),
    ):
        S = kernels.pairwise_statistic(kernel.statistic, X)
        upper = np.triu_indices(300)
        cases = (
            (S, squares[:, None], squares),
            (S[upper], squares[upper[0]], squares[upper[1]]),
            (S[:1], squares[:1, None], squares),
        )
        for some, left, right in cases:
            before = some.copy()
            expected = kernel.from_statistic(some, left, right)
            elsewhere = np.full_like(some, np.nan)
            assert kernel.from_statistic(some, left, right, out=elsewhere) is elsewhere
            np.testing.assert_array_equal(elsewhere, expected)
            np.testing.assert_array_equal(some, before)
            assert expected is not some
            own = some.copy()
            assert kernel.from_statistic(own, left, right, out=own) is own
            np.testing.assert_array_equal(own, expected)


def test_every_gaussian_is_the_same_kernel(rng):
    """On a table, as a layer, of distances and of kernels that measure them; the largest error measured is 4e-16."""
    X = rng.normal(size=(12, 3))
    gamma = 0.4
    expected = np.exp(-gamma * np.square(X[:, None] - X[None]).sum(axis=2))
    K, squares = X @ X.T, np.square(X).sum(axis=1)
    t = np.array([gamma])
    found = {
        "table": kernels.RBF(gamma=gamma)(X),
        "layer": RBF(gamma).layer_value(np, K, squares[:, None], squares[None]),
        "distances": Gaussians.of_columns(X, each=False).kernel(t),
        "kernels": GaussianOfSum(as_gram(K[:, :, None]), np.ones(1)).kernel(t),
    }
    for name, values in found.items():
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-14, err_msg=name)
    b = rng.normal(size=12)
    slope = -b @ (expected * np.square(X[:, None] - X[None]).sum(axis=2)) @ b
    for family in (Gaussians.of_columns(X, each=False), GaussianOfSum(as_gram(K[:, :, None]), np.ones(1))):
        np.testing.assert_allclose(family.quadratic_forms(t, b), slope, rtol=1e-12)


def test_squared_distances_are_symmetric_and_not_negative(rng):
    X = 1e8 + rng.normal(size=(20, 2))
    K = X @ X.T
    K = np.triu(K) + np.triu(K, 1).T
    squares = K.diagonal()
    D = squared_distances(np, K, squares[:, None], squares[None])
    assert D.min() == 0.0
    np.testing.assert_array_equal(D, D.T)
    again = squared_distances(np, K, squares[:, None], squares[None], out=K)
    assert again is K
    np.testing.assert_array_equal(K, D)


@pytest.mark.parametrize("degrees", [(2, 0), (2, 1, 0), (1, 2, 0)])
def test_a_row_and_its_copy_are_parallel_in_every_layer(degrees, rng):
    """The diagonal has the last bit of values between copies, or the next angle would be 1e-8 instead of 0."""
    K = np.square(rng.normal(size=500))
    left = right = K
    for degree in degrees:
        function = ArcCosine(degree)
        K = function.layer_value(np, K, left, right)
        left = right = function.own_value(np, left)
        np.testing.assert_array_equal(K, left)
    np.testing.assert_array_equal(K, 1.0)
