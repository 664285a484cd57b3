"""RLS2 with a nonlinear second layer: the linear case, derivatives, the descent, and models of it.

Modules: `mkl/second_layer`, `learners/second_layer`, `inspection/layers`.
"""

import numpy as np
import pytest
from scipy.optimize import minimize

import kernelweave as kw
from journeys import defaults_of
from kernelweave.gram import as_gram
from kernelweave.kernels import RBF, Linear, Polynomial
from kernelweave.learners import RLS2, NonlinearRLS2
from kernelweave.machines.losses import Squared, SquaredHinge
from kernelweave.machines.machine import Machine
from kernelweave.mkl.second_layer import SecondLayer, solve_second_layer
from kernelweave.results import Certificate, Solution

KERNELS = [RBF(gamma=1.0).on([j]) for j in range(4)]
SECOND = {"rbf": RBF(gamma=0.5), "polynomial": Polynomial(degree=2), "linear": Linear()}
second_layers = pytest.mark.parametrize("second", list(SECOND))


def make_rows(rng, n=40):
    """A product of two columns, which no sum of functions of single columns has."""
    X = rng.uniform(-2, 2, size=(n, 4))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n)


def stack_of(X):
    return np.stack([k(X) for k in KERNELS], axis=-1)


def start_at(weights, c):
    return Solution(weights, c, 0.0, Certificate("joint", 1.0, 1.0, 0.0), 1)


def solve(stack, y, C, second, start, **options):
    machine = Machine(y, C, Squared(), fit_intercept=False)
    scale = options.pop("scale", np.ones(stack.shape[-1]))
    return solve_second_layer(as_gram(stack), scale, machine, SECOND[second], start, **options)


def decisions(stack, found):
    F = np.einsum("ijm,jm->im", stack, found.upper.first.coef)
    return found.upper.cross(*found.upper.first.inner(F)) @ found.dual_coef


def test_a_linear_second_layer_is_rls2_from_any_start(rng):
    """The optimum of `solve_rls2`, from random weights and coefficients: the linear case has no bad local solution."""
    X, _ = make_rows(rng)
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=len(X))
    stack, alpha, scale = stack_of(X), 0.2, np.array([0.5, 2.0, 1.0, 3.0])
    rls2 = kw.solve_rls2(stack, y, alpha, scale=scale, tol=1e-10)
    f = (stack @ (rls2.weights * scale)) @ rls2.dual_coef
    start = start_at(rng.dirichlet(np.ones(4)), rng.normal(size=len(y)))
    found = solve(stack, y, 1 / alpha, "linear", start, tol=1e-12, max_iter=2000, scale=scale)
    assert found.value == pytest.approx(rls2.primal / alpha, rel=1e-6)
    np.testing.assert_allclose(decisions(stack, found), f, atol=1e-3 * np.abs(f).max())
    np.testing.assert_allclose(found.weights, rls2.weights, atol=5e-3)
    # and from its own start at once; the radius only rescales (Lemma 1)
    for radius in (1.0, 3.0):
        own = solve(stack, y, 1 / (alpha * radius**2), "linear", rls2, radius=radius, scale=scale)
        assert own.trace["criterion"][0] == pytest.approx(rls2.primal / (alpha * radius**2), rel=1e-8)
        assert own.n_iter <= 3
        np.testing.assert_allclose(decisions(stack, own), f, atol=1e-6 * np.abs(f).max())
        np.testing.assert_allclose(own.weights, rls2.weights, atol=1e-6)
        assert own.stationarity < 1e-6


@second_layers
@pytest.mark.parametrize("loss", [Squared(), SquaredHinge()])
def test_the_gradient_is_that_of_the_optimal_value(second, loss, rng):
    """Against central differences, along functions with random coefficients.

    Measured: 1e-4 apart for the squared hinge, whose machine is solved to 1e-8 of a value 10,000 times the difference.
    """
    X, y = make_rows(rng, 25)
    y = np.sign(y) if loss.classifies else y
    scale = np.array([0.5, 2.0, 1.0, 3.0])
    session = SecondLayer(as_gram(stack_of(X)), scale, Machine(y, 3.0, loss), SECOND[second], 2.0)
    coef, way = 0.1 * rng.normal(size=(2, 4, len(y)))
    values, through = session.products(coef), session.products(way)
    slope = float(np.sum(session.at(coef, values).slope * through))
    h = 1e-3
    up, down = (session.at(coef + t * way, values + t * through).value for t in (h, -h))
    assert slope == pytest.approx((up - down) / (2 * h), rel=1e-3)


@second_layers
def test_the_objective_never_rises_and_begins_at_the_linear_solution(second, rng):
    X, y = make_rows(rng)
    stack, radius = stack_of(X), 2.0
    rls2 = kw.solve_rls2(stack, y, 0.1)
    found = solve(stack, y, 10.0, second, rls2, radius=radius)
    trace = found.trace["criterion"]
    assert (np.diff(trace) <= 0).all()
    # the two layers of the linear solution, by hand
    c, d = rls2.dual_coef, rls2.weights
    F = np.sqrt(d) * np.einsum("ijm,j->im", stack, c) * radius / np.sqrt(c @ (stack @ d) @ c)
    K = SECOND[second](F)
    b = np.linalg.solve(K + 0.1 * np.eye(len(y)), y)
    value = 0.5 * b @ K @ b + 5.0 * np.sum((y - K @ b) ** 2)
    assert trace[0] == pytest.approx(value, rel=1e-7)
    first = found.upper.first
    assert np.sum(first.coef * first.values) <= radius**2 * (1 + 1e-9)
    np.testing.assert_allclose(first.values, np.einsum("ijm,jm->im", stack, first.coef), atol=1e-10)
    np.testing.assert_allclose(found.weights.sum(), 1.0)
    if second != "linear":
        assert trace[-1] < 0.95 * trace[0]


def test_the_end_is_a_stationary_point_of_problem_1(rng):
    """Both layers at once, by BFGS on all their coefficients from the end of the descent: nothing is left to gain."""
    X, y = make_rows(rng, 12)
    stack, C = stack_of(X)[:, :, :2], 5.0
    found = solve(stack, y, C, "rbf", kw.solve_rls2(stack, y, 0.1), tol=1e-11, max_iter=3000)
    assert found.stationarity < 1e-4
    n = len(y)

    def problem_1(flat):
        A, b = flat[: 2 * n].reshape(2, n), flat[2 * n :]
        F = np.einsum("ijm,mj->im", stack, A)
        # on the edge of the ball
        F = F / np.sqrt(np.sum(A * F.T))
        K = SECOND["rbf"](F)
        return 0.5 * b @ K @ b + 0.5 * C * np.sum((y - K @ b) ** 2)

    here = np.r_[found.upper.first.coef.T.ravel(), found.dual_coef]
    assert problem_1(here) == pytest.approx(found.value, rel=1e-7)
    further = minimize(problem_1, here, method="BFGS", options={"maxiter": 30})
    assert further.fun >= found.value * (1 - 1e-4)
    moved = here + 0.1 * np.abs(here).mean() * rng.normal(size=len(here))
    assert problem_1(moved) > 1.01 * found.value


def test_widths_are_in_units_of_the_radius_and_a_small_radius_is_linear(rng):
    X, y = make_rows(rng)
    y = y + X[:, 0]
    stack, rls2 = stack_of(X), None
    rls2 = kw.solve_rls2(stack, y, 0.1, tol=1e-10)
    machine = Machine(y, 10.0, Squared(), fit_intercept=False)
    wide = [
        solve_second_layer(as_gram(stack), np.ones(4), machine, RBF(gamma=g), rls2, radius=r).value
        for g, r in ((0.5, 2.0), (2.0, 1.0))
    ]
    assert wide[0] == pytest.approx(wide[1], rel=1e-6)
    tiny = 1e-3
    model = kw.MKLRegressor(KERNELS, NonlinearRLS2(C=10.0 / tiny**2, radius=tiny), normalize=None).fit(X, y)
    plain = kw.MKLRegressor(KERNELS, NonlinearRLS2(C=10.0, second="linear"), normalize=None).fit(X, y)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-3)


def test_a_product_of_columns_is_learnt(rng):
    """By a second layer on functions of single columns, whose weighted sums cannot have it."""
    X, y = make_rows(rng, 200)
    new, truth = make_rows(rng, 500)
    assert kw.MKLRegressor(KERNELS, RLS2(alpha=0.1)).fit(X, y).score(new, truth) < 0.1
    for second in ("rbf", "polynomial"):
        model = kw.MKLRegressor(KERNELS, NonlinearRLS2(C=10.0, second=second)).fit(X, y)
        assert model.score(new, truth) > 0.9
        assert model.weights_[:2].sum() > 0.95
    labels = np.where(y > 0, "up", "down")
    model = kw.MKLClassifier(KERNELS, NonlinearRLS2(C=10.0)).fit(X, labels)
    assert model.score(new, np.where(truth > 0, "up", "down")) > 0.8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("normalize", ["mean-diagonal", "center", "cosine"])
def test_layers_of_a_model_and_its_file(normalize, rng, tmp_path):
    X, y = make_rows(rng, 60)
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5])]
    new = rng.uniform(-2, 2, size=(9, 4))
    model = kw.MKLClassifier([*KERNELS, Linear()], NonlinearRLS2(C=10.0, max_iter=5), normalize=normalize)
    values = model.fit(X, labels).decision_function(new)
    loaded = kw.load(kw.save(model, tmp_path / "model.kw"))
    np.testing.assert_array_equal(loaded.decision_function(new), values)
    for k, name in enumerate(model.classes_):
        layers = kw.inspection.two_layers(model, new, output=name)
        assert layers.first.shape == (9, 5)
        assert (layers.names == model.kernel_names_).all()
        np.testing.assert_array_equal(layers.weights, model.weights_[k])
        np.testing.assert_allclose(
            layers.second(layers.first) + model.intercept_[k], values[:, k], atol=1e-10
        )
        assert layers.first_norm2 == pytest.approx(1.0, rel=1e-6)
        assert layers.second_norm2 > 0
        np.testing.assert_allclose(
            kw.inspection.two_layers(model, X, output=name).first, layers.upper.first.values, atol=1e-9
        )
    assert model.weights_.shape == (3, 5)
    np.testing.assert_allclose(
        model.kernel_contributions(new).sum(axis=1) + model.intercept_, values, atol=1e-10
    )
    grams = kw.inspection.layer_grams(model, output="b").kernels
    assert [K.shape for K in grams] == [(60, 60), (60, 60)]
    np.testing.assert_allclose(np.diag(grams[1]), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"second": "gauss"}, "second"), ({"radius": 0.0}, "radius"), ({"degree": 0}, "degree")],
)
def test_settings_are_checked(options, message, rng):
    X, y = make_rows(rng, 20)
    with pytest.raises(kw.InputError, match=message):
        kw.MKLRegressor(KERNELS, NonlinearRLS2(**options)).fit(X, y)


@second_layers
def test_units_of_the_targets_change_coefficients_only(second, rng):
    """The objective is a square in the targets, and its slopes may be as small as that."""
    X, y = make_rows(rng, n=25)
    stack = stack_of(X)
    found, small = (
        solve(stack, unit * y, 5.0, second, start_at(np.ones(4) / 4, unit * y), tol=1e-3, max_iter=4)
        for unit in (1.0, 2.0**-12)
    )
    assert small.n_iter == found.n_iter > 1
    np.testing.assert_allclose(small.weights, found.weights, rtol=1e-6)
    np.testing.assert_allclose(small.dual_coef, 2.0**-12 * found.dual_coef, rtol=1e-6, atol=1e-12)


@second_layers
@pytest.mark.parametrize("loss", ["squares", "squared hinge"])
def test_the_way_of_the_descent(loss, second, recorded):
    X, y = make_rows(np.random.default_rng(0), n=24)
    scale, told = np.array([0.5, 2.0, 1.0, 3.0]), []
    y = y if loss == "squares" else np.where(y > np.median(y), 1.0, -1.0)
    weights = np.where(np.arange(24) % 7 == 3, 0.4, 0.5 + np.arange(24) / 24)
    machine = Machine(y, 3.0, Squared() if loss == "squares" else SquaredHinge(), weights)
    start = start_at(np.array([0.6, 0.0, 0.4, 0.0]), 0.1 * y)
    found = solve_second_layer(
        as_gram(stack_of(X)), scale, machine, SECOND[second], start,
        radius=1.5, tol=1e-3, max_iter=7, callback=lambda *now: told.append(now),
    )  # fmt: skip
    values = found.trace["criterion"]
    # where it begins is the same everywhere, where a descent ends is not
    recorded("start", [values[0], len(values) > 1 and values[1]], rtol=1e-4)
    assert (np.diff(values) < 0).all()
    assert found.value == values[-1] == pytest.approx(found.primal)
    assert [now[1] for now in told] == values[1 : len(told) + 1].tolist()
    norms2 = np.einsum("im,im->m", found.upper.first.coef / scale, found.upper.first.values)
    assert norms2.sum() <= 1.5**2 * (1 + 1e-9)
    np.testing.assert_allclose(found.weights, norms2 / norms2.sum())
    recorded("defaults", defaults_of(solve_second_layer))
