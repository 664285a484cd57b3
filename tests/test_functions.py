"""Kernels as functions: one formula for tables, layers and families, against the formulas of the papers.

Modules: `functions`, `mkl/families`, `kernels/dot`, `kernels/stationary`.
"""

import numpy as np
import pytest

from kernelweave import kernels
from kernelweave.functions import Exponential, squared_distances
from kernelweave.gram import as_gram
from kernelweave.kernels import RBF, ArcCosine, Elementwise, Linear, Polynomial
from kernelweave.mkl.families import GaussianOfSum, Gaussians, KernelFamily, WeightedSum


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


FAMILIES = ("sum", "distances", "kernels", "differences", "derivative")


def family_and_formula(kind, rng):
    """A family of three parameters on nine rows, and K(t) by its formula."""
    X = rng.normal(size=(9, 3)) * [1.0, 0.5, 2.0]
    stack, D = X[:, None] * X[None], np.square(X[:, None] - X[None])
    scale = np.array([0.5, 2.0, 1.3])
    if kind == "sum":
        ridged = stack + 0.1 * np.square(X).max(axis=0) * np.eye(9)[:, :, None]
        return WeightedSum(as_gram(stack), scale, 0.1), lambda t: ridged @ (t * scale)
    if kind == "distances":
        return Gaussians(np.moveaxis(D, 2, 0)), lambda t: np.exp(-D @ t)
    if kind == "kernels":
        return GaussianOfSum(as_gram(stack), scale), lambda t: np.exp(-D @ (t * scale))
    slopes = None if kind == "differences" else lambda t: np.moveaxis(-D * np.exp(-D @ t)[:, :, None], 2, 0)
    return KernelFamily(lambda t: np.exp(-D @ t), np.ones(3), slopes), lambda t: np.exp(-D @ t)


@pytest.mark.parametrize("kind", FAMILIES)
def test_families_have_the_derivatives_of_their_kernels(kind, rng):
    family, formula = family_and_formula(kind, rng)
    b, weights, h = rng.normal(size=9), rng.uniform(0.5, 2.0, 9), 1e-5
    for t in (np.array([0.3, 0.1, 0.2]), np.array([0.05, 0.0, 0.4])):
        np.testing.assert_allclose(family.kernel(t), formula(t), rtol=1e-12, atol=1e-13)
        slopes = [(formula(t + h * unit) - formula(t - h * unit)) / (2.0 * h) for unit in np.eye(3)]
        for point in (t, t + 0.1, t):  # what is kept from one point is not that of another
            family.quadratic_forms(point, b)
        # measured: 2e-9 of the largest, by differences on either side
        forms = np.array([b @ slope @ b for slope in slopes])
        np.testing.assert_allclose(family.quadratic_forms(t, b), forms, atol=1e-7 * np.abs(forms).max())
        diagonals = [weights @ slope.diagonal() for slope in slopes]
        np.testing.assert_allclose(family.diagonals(t, weights), diagonals, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("kind", ["distances", "kernels"])
def test_gaussians_start_where_every_parameter_has_its_share_of_a_mean_exponent_of_one(kind, rng):
    family, formula = family_and_formula(kind, rng)
    weight = rng.uniform(0.5, 2.0, 9)
    share = weight / weight.sum()
    for given, shares in ((weight, share), (None, np.full(9, 1.0 / 9.0))):
        start = family.start(given)
        parts = [-shares @ np.log(formula(start * unit)) @ shares for unit in np.eye(3)]
        np.testing.assert_allclose(parts, 1.0 / 3.0, rtol=1e-12)


def test_parts_of_a_weighted_sum(rng):
    """Products and diagonals of single kernels, ridge and scale included, and without a kernel of factor 0."""
    family, formula = family_and_formula("sum", rng)
    b, some = rng.normal(size=9), np.array([2, 0])
    matrices = np.array([formula(unit) for unit in np.eye(3)])
    np.testing.assert_allclose(family.products(b, some), matrices[some] @ b, rtol=1e-12)
    np.testing.assert_allclose(family.diagonal(some), matrices[some].diagonal(axis1=1, axis2=2), rtol=1e-12)
    np.testing.assert_array_equal(family.start(), 1.0 / 3.0)
    factors = np.array([2.0, 0.0, 3.0])
    t = np.array([0.3, 0.1, 0.2])
    np.testing.assert_allclose(family.rescaled(factors).kernel(t), formula(t * factors), rtol=1e-12)
    np.testing.assert_allclose(family.kernel(t), formula(t), rtol=1e-12)
    # no ridge is added that was not asked for
    plain = WeightedSum(family.gram, family.scale)
    np.testing.assert_allclose(plain.kernel(t), family.gram.combine(t * family.scale), rtol=1e-12, atol=1e-14)
    # coefficients whose sum is 0 have errors of rounding alone, and each unit of the sum twice its norm
    even = b - b.mean()
    q = family.quadratic_forms(t, even)
    precise = even.astype(np.longdouble)
    exact = np.einsum("i,mij,j->m", precise, matrices, precise)
    errors = family.quadratic_form_errors(even, q)
    assert (np.abs(q - exact) <= errors).all()
    assert (errors < 1e-13 * np.square(np.sqrt(matrices.diagonal(axis1=1, axis2=2)) @ np.abs(even))).all()


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
