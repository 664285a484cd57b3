"""Layers of kernels: derivatives against differences, twins, positive definiteness, kernels of new rows.

Modules: `inspection/layers`, `mkl/layers`, `kernels/base`, `kernels/dot`, `kernels/composed`.
"""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest

import kernelweave as kw
from kernelweave import InputError, kernels
from kernelweave._loops import HAS_EXTENSION, core, numpy_core, packed_length
from kernelweave.functions import Exponential
from kernelweave.gram import CompositeGram, FactorGram, PackedGram, TileGram, gram_from_stack
from kernelweave.kernels import RBF, ArcCosine, Elementwise, Linear, Polynomial
from kernelweave.mkl import layers as module
from kernelweave.mkl.deep import DeepKernel
from kernelweave.mkl.layers import Layers, TrainedLayers
from oracles import wrong_defaults


@dataclass(frozen=True)
class Exponent(kernels.Kernel, described=False):
    """A Matern kernel with nu = 1/2: its derivative by the squared distance is infinite at 0."""

    length: float = 1.0
    statistic = "sqdist"

    def formula(self, xp, S, left, right):
        return xp.exp(-xp.sqrt(S) / self.length)

    def gradient(self, xp, S, value):
        return -value / (2.0 * self.length * xp.sqrt(S))


@dataclass(frozen=True)
class Lengths(kernels.Kernel, described=False):
    """A kernel of the norms of rows, without a derivative by them."""

    statistic = "sqdist"
    needs_norms = True

    def formula(self, xp, S, left, right):
        return xp.exp(-S) * xp.sqrt(left * right)

    def gradient(self, xp, S, value):
        return -value


FUNCTIONS = {
    "linear": Linear(),
    "rbf": RBF(0.7),
    "poly1": Polynomial(1, 0.5),
    "poly2": Polynomial(2, 1.0),
    "poly3": Polynomial(3, 0.5),
    "poly5": Polynomial(5, 0.2),
    "poly2 gamma": Polynomial(2, 1.0, gamma=0.5),
    "arc0": ArcCosine(0),
    "arc1": ArcCosine(1),
    "arc2": ArcCosine(2),
    "exp": Exponential(),
    "cosh": Elementwise(np.cosh, np.sinh),
    "infinite slope": Exponent(1.5),
}
PAPER = (Linear(), RBF(1.0), Polynomial(2, 1.0), Polynomial(3, 1.0))


def base_stack(rng, n=30, d=3):
    X = rng.normal(size=(n, d))
    D = X @ X.T
    square = np.square(X[:, None] - X[None]).sum(axis=2)
    stack = np.stack([D, np.exp(-square), (D + 1.0) ** 2 / 10.0], axis=-1)
    return X, stack


def random_weights(rng, functions, n_kernels, size):
    return [
        size * rng.uniform(0.3, 1.0, n_kernels),
        *(size * rng.uniform(0.3, 1.0, len(f)) for f in functions),
    ]


def value_and_gradient(stack, layers, weights, A):
    """<A, K> of the last layer, and its derivatives by all weights."""
    kernel = DeepKernel(gram_from_stack(stack), np.ones(stack.shape[2]), layers)
    value = float((A * kernel.forward(weights)).sum())
    return value, np.concatenate(kernel.backward(A.copy()))


def differences(stack, layers, weights, A, step=1e-5):
    out = []
    for layer, w in enumerate(weights):
        for k in range(len(w)):
            ends = []
            for sign in (1.0, -1.0):
                moved = [v.copy() for v in weights]
                moved[layer][k] += sign * step
                ends.append(value_and_gradient(stack, layers, moved, A)[0])
            out.append((ends[0] - ends[1]) / (2.0 * step))
    return np.array(out)


def symmetric(rng, n):
    A = rng.normal(size=(n, n))
    return A + A.T


@pytest.fixture(params=["compiled", "arrays"])
def route(request, monkeypatch):
    """Both implementations, where there are two."""
    if request.param == "compiled" and not HAS_EXTENSION:
        pytest.skip("the compiled core is not there")
    monkeypatch.setattr(module, "HAS_EXTENSION", request.param == "compiled")
    return request.param


@pytest.mark.parametrize("cosine", [True, False], ids=["cosine", "raw"])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_derivatives_equal_differences(depth, cosine, route, rng):
    """The largest relative error measured here is 2e-9, of the differences."""
    _, stack = base_stack(rng)
    functions = (PAPER,) * (depth - 1)
    weights = random_weights(rng, functions, 3, 0.4 if cosine else 0.15)
    A = symmetric(rng, 30)
    layers = Layers(functions, cosine)
    _, gradient = value_and_gradient(stack, layers, weights, A)
    expected = differences(stack, layers, weights, A)
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-8 * np.abs(gradient).max())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cosine", [True, False], ids=["cosine", "raw"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_every_function(name, cosine, route, rng):
    _, stack = base_stack(rng)
    functions = ((FUNCTIONS[name],), (FUNCTIONS[name], Linear()))
    # raw values of high degree would leave the differences no digits
    weights = random_weights(rng, functions, 3, 0.2 if cosine else 0.05)
    A = symmetric(rng, 30)
    layers = Layers(functions, cosine)
    _, gradient = value_and_gradient(stack, layers, weights, A)
    expected = differences(stack, layers, weights, A)
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-8 * np.abs(gradient).max())


@pytest.mark.skipif(not HAS_EXTENSION, reason="the compiled core is not there")
@pytest.mark.parametrize("n", [1, 2, 3, 30, 600])
@pytest.mark.parametrize("cosine", [True, False], ids=["cosine", "raw"])
def test_compiled_layers_equal_arrays(n, cosine, rng, monkeypatch):
    """600 rows need two segments; measured differences are at most 4e-15."""
    _, stack = base_stack(rng, n)
    functions = (tuple(f for f in FUNCTIONS.values() if f.layer_code is not None),) * 2
    weights = random_weights(rng, functions, 3, 0.1)
    weights[1][2] = 0.0  # a function without weight has a derivative too
    A = symmetric(rng, n)
    found = {}
    for compiled in (True, False):
        monkeypatch.setattr(module, "HAS_EXTENSION", compiled)
        kernel = DeepKernel(gram_from_stack(stack), np.ones(3), Layers(functions, cosine))
        found[compiled] = kernel.forward(weights).copy(), np.concatenate(kernel.backward(A.copy()))
    for ours, theirs in zip(found[True], found[False], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13 * np.abs(theirs).max())


@pytest.mark.skipif(not HAS_EXTENSION, reason="the compiled core is not there")
def test_compiled_exponential(rng):
    """Against NumPy over the whole range; zero where the result would be below 3e-308."""
    n = 80
    kappa = np.zeros(n)
    K = np.zeros((n, n))
    upper = np.triu_indices(n, 1)
    K[upper] = np.linspace(-745.0, 700.0, len(upper[0]))
    out = np.empty_like(K)
    core.layer_forward(
        K, kappa, np.array([4]), np.zeros((1, 2)), np.ones(1), np.ones((1, n)), out
    )  # the code of Exponential
    expected = np.where(K[upper] < -708.0, 0.0, np.exp(K[upper]))
    np.testing.assert_allclose(out[upper], expected, rtol=5e-16)


def test_weights_without_a_function_still_have_a_derivative(route, rng):
    _, stack = base_stack(rng)
    functions = (PAPER,)
    weights = [np.full(3, 0.3), np.array([0.5, 0.0, 0.0, 0.2])]
    A = symmetric(rng, 30)
    _, gradient = value_and_gradient(stack, Layers(functions), weights, A)
    step = 1e-6
    for k in (1, 2):
        moved = [w.copy() for w in weights]
        moved[1][k] += step
        slope = (value_and_gradient(stack, Layers(functions), moved, A)[0] - value_and_gradient(
            stack, Layers(functions), weights, A
        )[0]) / step  # fmt: skip
        assert gradient[3 + k] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("cosine", [True, False], ids=["cosine", "raw"])
def test_every_layer_is_positive_semidefinite(cosine, route, rng):
    _, stack = base_stack(rng, 50)
    functions = (tuple(FUNCTIONS.values()),) * 3 if cosine else (PAPER,) * 3
    weights = random_weights(rng, functions, 3, 0.1)
    kernel = DeepKernel(gram_from_stack(stack), np.ones(3), Layers(functions, cosine))
    kernel.forward(weights)
    for K in kernel._tape.kernels:
        full = np.triu(K) + np.triu(K, 1).T
        values = np.linalg.eigvalsh(full)
        assert values[0] >= -1e-8 * values[-1]


def test_what_is_no_kernel_is_found_by_that_check(rng):
    """exp(-K) is not positive semidefinite: the check above can fail."""
    _, stack = base_stack(rng, 50)
    bad = Elementwise(lambda K: np.exp(-K), lambda K: -np.exp(-K))
    K = DeepKernel(gram_from_stack(stack), np.ones(3), Layers(((bad,),), False)).forward(
        [np.full(3, 0.3), np.ones(1)]
    )
    values = np.linalg.eigvalsh(K)
    assert values[0] < -1e-3 * values[-1]


@pytest.mark.parametrize("cosine", [True, False], ids=["cosine", "raw"])
def test_kernels_of_new_rows_are_blocks_of_the_whole(cosine, route, rng):
    _, stack = base_stack(rng, 40)
    functions = (tuple(FUNCTIONS.values()), PAPER)
    weights = random_weights(rng, functions, 3, 0.1)
    layers = Layers(functions, cosine)
    whole = DeepKernel(gram_from_stack(stack), np.ones(3), layers).forward(weights).copy()
    train, new = np.arange(25), np.arange(25, 40)
    kernel = DeepKernel(gram_from_stack(stack[np.ix_(train, train)]), np.ones(3), layers)
    kernel.forward(weights)
    trained = kernel.trained(weights)
    cross = stack[np.ix_(new, train)] @ weights[0]
    kappa = np.einsum("iim->im", stack)[new] @ weights[0]
    found = trained.cross(cross, kappa)
    np.testing.assert_allclose(found, whole[np.ix_(new, train)], rtol=1e-12, atol=1e-12 * np.abs(whole).max())
    total = np.zeros_like(found)
    for _, term in trained.last_terms(cross, kappa):
        total += term
    np.testing.assert_allclose(total, found, rtol=1e-13, atol=1e-13 * np.abs(whole).max())


def test_rows_of_zeros(route, rng):
    """A row without length has no cosine: its normalised kernel is zero, and derivatives stay finite."""
    X = rng.normal(size=(12, 2))
    X[3] = 0.0
    stack = (X @ X.T)[:, :, None]
    functions = ((Linear(), ArcCosine(1), ArcCosine(0), Polynomial(2, 1.0)),)
    weights = [np.ones(1), np.full(4, 0.25)]
    A = symmetric(rng, 12)
    value, gradient = value_and_gradient(stack, Layers(functions), weights, A)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    K = DeepKernel(gram_from_stack(stack), np.ones(1), Layers(((Linear(),),))).forward(
        [np.ones(1), np.ones(1)]
    )
    assert (K[3] == 0).all()
    assert K[0, 0] == 1.0


# ---- what the functions are ------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_arc_cosine_layers_are_the_kernel_of_several_layers(degree, rng):
    X = rng.normal(size=(20, 3))
    K = X @ X.T
    layers = Layers(((ArcCosine(degree),), (ArcCosine(1),), (ArcCosine(degree),)), False)
    top = layers.forward(K.copy(), K.diagonal().copy(), [np.ones(1)] * 3).top
    expected = kernels.ArcCosine(degree=(degree, 1, degree))(X)
    np.testing.assert_allclose(top, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_arc_cosine_against_monte_carlo(degree):
    """2 E[H(wx) H(wz) (wx)^n (wz)^n] over a million Gaussian w; within five standard errors."""
    rng = np.random.default_rng(degree)
    x, z = np.array([1.0, 0.4]), np.array([-0.3, 0.9])
    w = rng.normal(size=(1_000_000, 2))
    a, b = w @ x, w @ z
    draws = 2.0 * (a > 0) * (b > 0) * (a * b) ** degree
    f = ArcCosine(degree)
    exact = f.layer_value(np, np.array([[x @ z]]), np.array([[x @ x]]), np.array([[z @ z]]))[0, 0]
    assert abs(draws.mean() - exact) < 5.0 * draws.std() / 1000.0
    diagonal = 2.0 * (a > 0) * a ** (2 * degree)
    assert abs(diagonal.mean() - f.own_value(np, np.array([x @ x]))[0]) < 5.0 * diagonal.std() / 1000.0


def test_arc_cosine_closed_forms():
    """Right angles and parallel rows."""
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    for degree, right, parallel in ((0, 0.5, 1.0), (1, 1.0 / np.pi, 1.0), (2, 0.5, 3.0)):
        f = ArcCosine(degree)
        assert f.layer_value(np, zero, one, one)[0, 0] == pytest.approx(right, rel=1e-15)
        assert f.layer_value(np, one, one, one)[0, 0] == pytest.approx(parallel, rel=1e-15)
        assert f.own_value(np, np.array([2.0]))[0] == pytest.approx({0: 1.0, 1: 2.0, 2: 12.0}[degree])


def test_normalised_exponential_is_a_gaussian(rng):
    _, stack = base_stack(rng)
    weights = [np.full(3, 0.4), np.ones(1)]
    gram = gram_from_stack(stack)
    normalised = DeepKernel(gram, np.ones(3), Layers(((Exponential(),),), True)).forward(weights).copy()
    gaussian = DeepKernel(gram, np.ones(3), Layers(((RBF(0.5),),), False)).forward(weights)
    np.testing.assert_allclose(normalised, gaussian, rtol=1e-13)


@pytest.mark.parametrize("kernel", [
    kernels.Linear(), kernels.Polynomial(degree=2), kernels.Polynomial(degree=3, coef0=0.5, gamma=0.3),
    kernels.RBF(gamma=0.4), kernels.ArcCosine(degree=1), kernels.ArcCosine(degree=0), kernels.ArcCosine(degree=2),
    kernels.Elementwise(np.cosh, np.sinh),
], ids=repr)  # fmt: skip
def test_kernels_as_layers_on_inner_products(kernel, rng):
    """A layer on the linear kernel is the kernel itself."""
    X = rng.normal(size=(15, 3))
    K = X @ X.T
    layers = Layers(((kernel.layer(),),), False)
    top = layers.forward(K.copy(), K.diagonal().copy(), [np.ones(1)]).top
    np.testing.assert_allclose(top, kernel(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kernel", [
    kernels.Laplacian(gamma=1.0), kernels.Categorical(), kernels.RBF(gamma=1.0).on([0]),
    kernels.Linear() + kernels.RBF(gamma=1.0), kernels.ArcCosine(degree=1, layers=2),
], ids=repr)  # fmt: skip
def test_what_cannot_be_a_layer(kernel):
    with pytest.raises(InputError, match="layer"):
        kernel.layer()


def test_a_kernel_that_lacks_a_derivative_says_which(rng):
    class Plain(kernels.Kernel, described=False):
        statistic = "dot"

    with pytest.raises(InputError, match=r"Define `gradient\(self, xp, S, value\)` in the class"):
        dataclass(frozen=True)(Plain)().layer()
    with pytest.raises(InputError, match=r"Lengths cannot be a layer .*Define `layer_partials`"):
        Lengths().layer()


def test_equal_rows_where_a_derivative_is_infinite(rng):
    """They are refused, and 0 there is the derivative: differences are those of the other rows."""

    class Guarded(Exponent, described=False):
        def gradient(self, xp, S, value):
            return xp.where(S > 0, super().gradient(xp, xp.where(S > 0, S, 1.0), value), 0.0)

    # distances of whole numbers are exact
    X = rng.integers(-4, 5, size=(12, 3)).astype(np.float64)
    X[7] = X[2]
    stack = np.stack([X[:, [0]] * X[:, 0], X[:, 1:] @ X[:, 1:].T], axis=-1)
    weights, A = [np.array([0.5, 0.25]), np.array([0.4, 0.6])], symmetric(rng, 12)
    with pytest.raises(InputError, match=r"`gradient` of .*Exponent\(length=2.0\) must be finite"):
        value_and_gradient(stack, Layers(((Exponent(2.0), Linear()),)), weights, A)
    layers = Layers(((Guarded(2.0), Linear()),))
    found = value_and_gradient(stack, layers, weights, A)[1]
    np.testing.assert_allclose(
        found, differences(stack, layers, weights, A), rtol=1e-7, atol=1e-8 * np.abs(found).max()
    )
    steep = Elementwise(np.sqrt, lambda S: 0.5 / np.sqrt(S), name="root")
    with pytest.raises(InputError, match="`gradient` of"):
        value_and_gradient(
            np.diag([0.0, 1.0, 2.0])[:, :, None], Layers(((steep,),)), [np.ones(1)] * 2, np.eye(3)
        )


@pytest.mark.parametrize("learner", [kw.learners.MLMKL, kw.learners.DMKL])
def test_learners_learn_layers_with_an_infinite_slope(learner, rng):
    X = rng.normal(size=(40, 3))
    deep = learner(n_layers=2, kernels=[Exponent(), Linear()], C=1.0, tol=1e-2)
    model = kw.MKLClassifier([RBF(0.3), Linear()], deep).fit(X, X[:, 0] * X[:, 1] > 0)
    assert abs(model.weights_ - 0.5).max() > 1e-3
    assert np.isfinite(model.stationarity_).all()


def test_an_elementwise_kernel_must_fit_its_input():
    with pytest.raises(InputError, match="`function` of Elementwise must be a function"):
        kernels.Elementwise(3, np.sinh)
    with pytest.raises(InputError, match="shape"):
        kernels.Elementwise(lambda K: K.sum(), np.sinh)(np.ones((3, 2)))


# ---- numbers and arrays ------------------------------------------------------------------------------


def test_values_that_explode_are_refused(route, rng):
    """166 columns, cubes of cubes of cubes: the layer is named."""
    X = 30.0 * rng.normal(size=(20, 166))
    stack = ((X @ X.T + 1.0) ** 3)[:, :, None]
    functions = ((Polynomial(3, 1.0),),) * 6
    kernel = DeepKernel(gram_from_stack(stack), np.ones(1), Layers(functions, False))
    with pytest.raises(InputError, match=r"layer \d reaches .* Use cosine normalisation"):
        kernel.forward([np.ones(1)] * 7)
    top = DeepKernel(gram_from_stack(stack), np.ones(1), Layers(functions, True)).forward([np.ones(1)] * 7)
    np.testing.assert_allclose(top.diagonal(), 1.0)


def test_exponentials_that_overflow_are_refused(rng):
    stack = np.full((4, 4, 1), 800.0)
    kernel = DeepKernel(gram_from_stack(stack), np.ones(1), Layers(((Exponential(),),), False))
    with pytest.raises(InputError, match="layer 2 reaches"):
        kernel.forward([np.ones(1), np.ones(1)])


def check_against_numpy(convert, back):
    rng = np.random.default_rng(0)
    _, stack = base_stack(rng)
    functions = (tuple(f for f in FUNCTIONS.values() if not isinstance(f, Elementwise)), PAPER)
    weights = random_weights(rng, functions, 3, 0.1)
    A = symmetric(rng, 30)
    K = stack @ weights[0]
    for cosine in (True, False):
        layers = Layers(functions, cosine)
        ours = layers.forward(K.copy(), K.diagonal().copy(), weights[1:])
        theirs = layers.forward(convert(K), convert(K.diagonal().copy()), weights[1:])
        np.testing.assert_allclose(back(theirs.top), ours.top, rtol=1e-11)
        grads, H = layers.backward(ours, A.copy())
        others, there = layers.backward(theirs, convert(A))
        np.testing.assert_allclose(np.concatenate(others), np.concatenate(grads), rtol=1e-10, atol=1e-12)
        upper = np.triu_indices(30)
        np.testing.assert_allclose(
            back(there)[upper], H[upper], rtol=1e-9, atol=1e-11 * np.abs(H[upper]).max()
        )


def test_the_array_api_is_enough():
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not there")
    check_against_numpy(xp.asarray, lambda x: np.asarray(x))


def test_torch_tensors():
    torch = pytest.importorskip("torch", reason="torch is not there")
    check_against_numpy(lambda x: torch.from_numpy(np.ascontiguousarray(x)), lambda x: x.numpy())


def test_torch_device_gives_the_same_fit(rng):
    pytest.importorskip("torch", reason="torch is not there")
    _, stack = base_stack(rng)
    weights = random_weights(rng, (PAPER,), 3, 0.3)
    A = symmetric(rng, 30)
    here = DeepKernel(gram_from_stack(stack), np.ones(3), Layers((PAPER,)))
    there = DeepKernel(gram_from_stack(stack), np.ones(3), Layers((PAPER,)), device="cpu")
    np.testing.assert_allclose(there.forward(weights), here.forward(weights), rtol=1e-12)
    np.testing.assert_allclose(
        np.concatenate(there.backward(A.copy())), np.concatenate(here.backward(A.copy())), rtol=1e-9
    )


# ---- the stack ---------------------------------------------------------------------------------------


def test_inner_products_with_every_representation(rng):
    X, stack = base_stack(rng, 25)
    A = symmetric(rng, 25)
    expected = np.einsum("ij,ijm->m", A, stack)
    packed = np.stack([stack[:, :, m][np.triu_indices(25)] for m in range(3)])
    dense = PackedGram(packed, 25)
    upper = np.triu(A) + np.tril(np.full((25, 25), np.nan), -1)
    np.testing.assert_allclose(dense.inner(upper), expected, rtol=1e-12)
    tiles = TileGram(lambda m, r, c: stack[r, c, m], np.einsum("iim->mi", stack), tile_rows=7)
    np.testing.assert_allclose(tiles.inner(np.nan_to_num(upper)), expected, rtol=1e-12)
    factors = FactorGram(np.ascontiguousarray(X.T), np.array([0, 1, 3]))
    linear = np.stack([np.outer(X[:, 0], X[:, 0]), X[:, 1:] @ X[:, 1:].T], axis=-1)
    np.testing.assert_allclose(factors.inner(A), np.einsum("ij,ijm->m", A, linear), rtol=1e-12)
    both = CompositeGram([dense, factors], [np.array([0, 2, 4]), np.array([1, 3])])
    joined = np.empty(5)
    joined[[0, 2, 4]], joined[[1, 3]] = expected, factors.inner(A)
    np.testing.assert_allclose(both.inner(A), joined, rtol=1e-12)
    out = np.empty(3)
    numpy_core.inner(packed, np.arange(3), A, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    assert packed.shape[1] == packed_length(25)


def test_factors_read_the_upper_triangle_only(rng):
    X = rng.normal(size=(9, 2))
    A = symmetric(rng, 9)
    gram = FactorGram(np.ascontiguousarray(X.T), np.array([0, 2]))
    wrong = A + np.tril(np.full((9, 9), 1e6), -1)
    np.testing.assert_allclose(gram.inner(wrong), gram.inner(A), rtol=1e-12)


def test_trained_layers_say_what_they_need(rng):
    """The diagonals of the training rows enter the kernels of new rows."""
    _, stack = base_stack(rng)
    kernel = DeepKernel(gram_from_stack(stack), np.ones(3), Layers((PAPER,)))
    weights = kernel.uniform()
    kernel.forward(weights)
    trained = kernel.trained(weights)
    assert isinstance(trained, TrainedLayers)
    assert len(trained.diagonals) == 1
    np.testing.assert_allclose(trained.diagonals[0], np.einsum("iim->im", stack) @ weights[0])
    assert DeepKernel(gram_from_stack(stack), np.ones(3), Layers(())).trained([np.ones(3)]) is None


def test_defaults_are_those_that_are_documented():
    public = [getattr(kw.inspection, name) for name in kw.inspection.__all__]
    own = [f for f in public if f.__module__.rpartition(".")[2] in ("layers",) and inspect.isfunction(f)]
    assert own
    assert not wrong_defaults(own)
