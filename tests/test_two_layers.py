"""P1's reading of a sum of kernels as a machine with two layers: definitions, norms, Problem 2, and Theorem 1.

Modules: `inspection/layers`.
"""

import numpy as np
import pytest
from scipy.optimize import minimize

import kernelweave as kw
from kernelweave.inspection import two_layers
from kernelweave.kernels import RBF, Linear
from kernelweave.learners import RLS2, LpMKL, SimpleMKL

KERNELS = [RBF(gamma=0.3), Linear().on([0]), Linear().on([1]), RBF(gamma=2.0).on([2])]


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(30, 3))
    return X, X[:, 0] + np.sin(2 * X[:, 2]) + 0.1 * rng.normal(size=30)


def test_layers_are_their_definitions(rng, rows):
    X, y = rows
    new = rng.normal(size=(7, 3))
    model = kw.MKLRegressor(KERNELS, RLS2(alpha=0.05), normalize="trace").fit(X, y)
    found = two_layers(model, new)
    scale = 1 / np.array([np.trace(k(X)) for k in KERNELS])
    np.testing.assert_allclose(found.scale, scale, rtol=1e-12)
    np.testing.assert_allclose(found.beta, np.sqrt(model.weights_ / scale), rtol=1e-12)
    c = model.dual_coef_
    for m, kernel in enumerate(KERNELS):
        expected = scale[m] * found.beta[m] * (kernel(new, X) @ c)
        np.testing.assert_allclose(found.first[:, m], expected, rtol=1e-9, atol=1e-12)
    z = rng.normal(size=(5, 4))
    np.testing.assert_allclose(found.second(z), z @ np.diag(scale) @ found.beta, rtol=1e-12)
    np.testing.assert_allclose(found.second(found.first) + model.intercept_, model.predict(new), rtol=1e-9)
    K = sum(d * s * k(X) for d, s, k in zip(model.weights_, scale, KERNELS, strict=True))
    assert found.first_norm2 == pytest.approx(c @ K @ c, rel=1e-10)
    assert found.second_norm2 == pytest.approx(found.beta @ np.diag(scale) @ found.beta, rel=1e-12)
    assert found.second_norm2 == pytest.approx(1.0, rel=1e-12)


def test_problem_2_has_the_value_of_problem_3(rows):
    """And its minimum is there: other layers inside the ball of the second do no better."""
    X, y = rows
    alpha, n, m = 0.05, len(X), len(KERNELS)
    model = kw.MKLRegressor(KERNELS, RLS2(alpha=alpha, tol=1e-10), normalize=None, fit_intercept=False)
    model.fit(X, y)
    grams = np.stack([k(X) for k in KERNELS])

    def problem_2(flat):
        A, beta = flat[: n * m].reshape(m, n), flat[n * m :]
        beta = beta / max(1.0, np.linalg.norm(beta))
        f1 = np.einsum("mij,mj->mi", grams, A)
        return 0.5 * np.sum(np.square(y - beta @ f1)) + 0.5 * alpha * np.sum(A * f1)

    found = two_layers(model, X)
    A = found.beta[:, None] * model.dual_coef_
    here = problem_2(np.r_[A.ravel(), found.beta])
    assert here == pytest.approx(model.objective_, rel=1e-9)
    residual = y - found.second(found.first)
    assert here == pytest.approx(0.5 * residual @ residual + 0.5 * alpha * found.first_norm2, rel=1e-9)
    rng = np.random.default_rng(0)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(20):
            other = np.r_[
                (A * (1 + size * rng.normal(size=A.shape))).ravel(),
                found.beta + size * rng.normal(size=m),
            ]
            assert problem_2(other) >= here * (1 - 1e-9)


def test_the_map_estimate_of_section_4_1(rows):
    """Linear kernels of single columns, f1_i(x) = a_i x_i with a_i from N(0, 1): RLS2 minimises -log density."""
    X, y = rows
    sigma2, scale = 0.3, np.array([0.5, 2.0, 1.0])
    d = kw.solve_rls2(np.stack([np.outer(x, x) for x in X.T], axis=-1), y, sigma2, scale=scale, tol=1e-12)

    def minus_log(first, beta):
        f = X @ (first * scale * beta)
        return 0.5 / sigma2 * np.sum(np.square(y - f)) + 0.5 * first @ first

    beta = np.sqrt(d.weights / scale)
    first = scale * beta * (X.T @ d.dual_coef)
    best = minus_log(first, beta)
    assert sigma2 * best == pytest.approx(d.primal, rel=1e-9)
    rng = np.random.default_rng(1)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(30):
            other = beta + size * rng.normal(size=3)
            other /= max(1.0, np.sqrt(other @ (scale * other)))
            assert minus_log(first + size * rng.normal(size=3), other) >= best * (1 - 1e-10)


def test_outputs_classes_and_other_learners(rng, rows):
    X, y = rows
    both = kw.MKLRegressor(KERNELS, RLS2(alpha=0.1)).fit(X, np.c_[y, y**2])
    for k in range(2):
        layers = two_layers(both, X, output=k)
        np.testing.assert_allclose(
            layers.second(layers.first) + both.intercept_[k], both.predict(X)[:, k], rtol=1e-9
        )
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5])]
    model = kw.MKLClassifier(KERNELS, RLS2(alpha=0.1), normalize="within-class").fit(X, labels)
    for k, name in enumerate(model.classes_):
        layers = two_layers(model, X, output=name)
        values = layers.second(layers.first) + model.intercept_[k]
        np.testing.assert_allclose(values, model.decision_function(X)[:, k], rtol=1e-9, atol=1e-12)
        assert layers.output == name
    for learner, length in ((SimpleMKL(C=1.0), 1.0), (LpMKL(p=2.0, C=1.0), None)):
        model = kw.MKLClassifier(KERNELS, learner).fit(X, y > 0)
        layers = two_layers(model, X)
        values = layers.second(layers.first) + model.intercept_
        np.testing.assert_allclose(values, model.decision_function(X), rtol=1e-9, atol=1e-12)
        assert length is None or layers.second_norm2 == pytest.approx(length, rel=1e-9)


def test_deep_kernels_are_refused_and_inputs_checked(rows):
    X, y = rows
    deep = kw.MKLClassifier(kw.banks.mlmkl(), "deep-uniform", normalize="cosine").fit(X, y > 0)
    with pytest.raises(kw.InputError, match="weighted sums of kernels"):
        two_layers(deep, X)
    layers = two_layers(kw.MKLRegressor(KERNELS, RLS2(alpha=0.1)).fit(X, y), X)
    with pytest.raises(kw.InputError, match="shape"):
        layers.second(np.zeros(4))
    with pytest.raises(kw.InputError, match="output"):
        two_layers(kw.MKLRegressor(KERNELS, RLS2(alpha=0.1)).fit(X, y), X, output=1)


def test_theorem_1_with_a_nonlinear_second_layer():
    """More features than rows, so that the span of the rows is a proper subspace, and a cubic second layer.

    f1(x) = w'x with the linear kernel, f2 on explicit features of (z z' + 1)^3 for numbers z. From a start outside the
    spans of Theorem 1, descent on Problem 1 ends inside them.
    """
    rng = np.random.default_rng(3)
    n, p = 6, 10
    X = rng.normal(size=(n, p))
    y = np.sin(X[:, 0]) + X[:, 1]
    root3 = np.sqrt(3.0)

    def features(z):
        return np.stack([np.ones_like(z), root3 * z, root3 * z**2, z**3], axis=-1)

    def slopes(z):
        return np.stack([np.zeros_like(z), np.full_like(z, root3), 2 * root3 * z, 3 * z**2], axis=-1)

    def problem_1(flat):
        w, v = flat[:p], flat[p:]
        z = X @ w
        residual = features(z) @ v - y
        value = 0.5 * residual @ residual + 0.1 * (w @ w) + 0.1 * (v @ v)
        through = X.T @ (residual * (slopes(z) @ v))
        return value, np.r_[through + 0.2 * w, features(z).T @ residual + 0.2 * v]

    start = rng.normal(size=p + 4)
    found = minimize(problem_1, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    w, v = found.x[:p], found.x[p:]
    assert np.abs(problem_1(found.x)[1]).max() < 1e-6
    a, b = np.linalg.lstsq(X.T, w)[0], np.linalg.lstsq(features(X @ w).T, v)[0]
    np.testing.assert_allclose(X.T @ a, w, atol=1e-5)
    np.testing.assert_allclose(features(X @ w).T @ b, v, atol=1e-5)
    assert np.abs(X.T @ np.linalg.lstsq(X.T, start[:p])[0] - start[:p]).max() > 0.1
    # and the machine as a whole is one with the learnt kernel
    new = rng.normal(size=(4, p))
    learnt = (np.outer(new @ w, X @ w) + 1) ** 3
    np.testing.assert_allclose(learnt @ b, features(new @ w) @ v, atol=1e-5)
