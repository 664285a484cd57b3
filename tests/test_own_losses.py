"""Losses that are written outside: three formulas, and they work on every operator, solver and set of weights.

Modules: `machines/smooth`, `machines/loss`.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import xlogy

import kernelweave as kw
from kernelweave._checks import InputError
from kernelweave.machines import loss as loss_module
from kernelweave.machines import losses
from kernelweave.machines.losses import EpsilonInsensitive, Hinge, Logistic, SquaredHinge, as_loss
from kernelweave.machines.machine import Machine
from kernelweave.machines.smooth import Augmented, Expansion, Smooth
from known_sets import KNOWN
from oracles import central_difference, conic_value, factor_of

SETS = {known.name: known for known in KNOWN}
FOUR = ("simplex", "p 2", "cap 0.37", "mix 0.5")
C, GROUPS = 2.0, [0, 3, 6, 9]


class Huber(kw.losses.Loss):
    """Squared up to a distance of delta, and linear beyond."""

    def __init__(self, delta):
        self.delta = delta

    def value(self, y, f):
        rest = np.abs(y - f)
        return np.where(rest <= self.delta, 0.5 * rest**2, self.delta * (rest - 0.5 * self.delta))

    def slope(self, y, f):
        return np.clip(f - y, -self.delta, self.delta)

    def conjugate(self, y, b):
        return np.where(np.abs(b) <= self.delta, 0.5 * b**2 - y * b, np.inf)


class Quantile(kw.losses.Loss):
    """Targets above count tau, those below 1 - tau."""

    def __init__(self, tau):
        self.tau = tau

    def value(self, y, f):
        return np.maximum(self.tau * (y - f), (self.tau - 1) * (y - f))

    def slope(self, y, f):
        return np.where(f >= y, 1 - self.tau, -self.tau)

    def conjugate(self, y, b):
        return np.where((b <= self.tau) & (b >= self.tau - 1), -y * b, np.inf)


class Counts(kw.losses.Loss):
    """Of a Poisson distribution: its slope has a limit on one side only, and its values have both signs."""

    def value(self, y, f):
        return np.exp(f) - y * f

    def slope(self, y, f):
        return np.exp(f) - y

    def conjugate(self, y, b):
        mean = np.maximum(y - b, 1e-300)
        return np.where(y >= b, mean * np.log(mean) - mean, np.inf)


def again(kind):
    """A loss of the library by its three formulas only."""
    names = ("value", "slope", "conjugate")
    body = {name: (lambda self, y, x, name=name: getattr(self.loss, name)(y, x)) for name in names}
    body |= {"classifies": kind.classifies, "__init__": lambda self: setattr(self, "loss", kind())}
    return type(f"Own{kind.__name__}", (kw.losses.Loss,), body)()


def data(rng, loss, n=40):
    """Features in three blocks, kernels of them, targets, and weights of rows with a zero."""
    Z = rng.normal(size=(n, 9))
    t = Z[:, 0] - Z[:, 4] + 0.3 * rng.standard_t(2, size=n)
    y = np.sign(t) if loss.classifies else np.floor(np.exp(0.5 * t)) if isinstance(loss, Counts) else t
    weight = rng.uniform(0.3, 2.0, n)
    weight[4] = 0.0
    gram = np.stack([Z[:, a:b] @ Z[:, a:b].T for a, b in itertools.pairwise(GROUPS)], axis=-1)
    return Z, gram, y, weight


def optimum(gram, y, costs, known, loss, intercept=True):
    """From the joint primal, by CVXPY."""
    import cvxpy as cp

    d, t = cp.Variable(gram.shape[2]), cp.Variable() if intercept else 0.0
    f, norms = t, 0.0
    for m in range(gram.shape[2]):
        F = factor_of(gram[:, :, m])
        w = cp.Variable(len(F))
        f, norms = f + F.T @ w, norms + cp.quad_over_lin(w, d[m])
    if isinstance(loss, Huber):
        terms = 0.5 * cp.huber(y - f, loss.delta)
    elif isinstance(loss, Quantile):
        terms = cp.maximum(loss.tau * (y - f), (loss.tau - 1) * (y - f))
    else:
        terms = cp.exp(f) - cp.multiply(y, f)
    return conic_value(cp.Problem(cp.Minimize(0.5 * norms + costs @ terms), known.limits(d)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", FOUR)
@pytest.mark.parametrize("loss", [Huber(0.3), Quantile(0.7), Counts()], ids=lambda loss: loss.name)
def test_own_losses_reach_the_optimum_on_kernels_and_features(loss, name, rng):
    Z, gram, y, weight = data(rng, loss)
    known = SETS[name]
    best = optimum(gram, y, C * weight, known, loss)
    for kernels in (gram, kw.FeatureStack(Z, GROUPS)):
        found = kw.solve_svm_mkl(kernels, y, C, known.weight_set, loss=loss, sample_weight=weight, tol=1e-7)
        assert found.status is kw.solvers.Status.CONVERGED
        # the cone solver's digits: measured 1e-8
        slack = 2e-7 * abs(best)
        assert found.dual - slack <= best <= found.primal + slack
        assert found.gap <= 1e-7 * abs(found.primal)
        problem = kw.Problem(kernels, y, loss, known.weight_set, C, weight)
        assert found.verify(problem).status is kw.solvers.Status.CONVERGED


@pytest.mark.parametrize("kind", [Hinge, SquaredHinge, Logistic, EpsilonInsensitive, kw.losses.Squared])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_three_formulas_say_all_that_a_loss_is(kind, fit_intercept, rng):
    own, given = again(kind), kind()
    _, gram, y, weight = data(rng, given)
    K, b = gram.sum(axis=2), None
    for cost in (0.05, 5.0):
        machine = Machine(y, cost, given, weight, fit_intercept=fit_intercept)
        other = Machine(y, cost, own, weight, fit_intercept=fit_intercept)
        one, two = machine.solve(K, tol=1e-8), other.solve(K, tol=1e-8, warm_start=b)
        b = two.dual_coef
        assert two.status is kw.solvers.Status.CONVERGED
        assert two.primal == pytest.approx(one.primal, rel=3e-8)
        again_ = other.certify(K, two.dual_coef, two.intercept)
        assert two.certificate.checked_by(again_).status is kw.solvers.Status.CONVERGED
        for low, high in zip(own.bounds(y, machine.costs), given.bounds(y, machine.costs), strict=True):
            inside = np.abs(high) < 1e200
            np.testing.assert_allclose(low[inside], high[inside], atol=1e-12)
            assert (np.abs(low[~inside]) > 1e200).all()
        assert own.dual_term(y, machine.costs, b) == pytest.approx(
            given.dual_term(y, machine.costs, b), rel=1e-9
        )
        f = K @ b + two.intercept
        assert own.gap(y, machine.costs, b, f) == pytest.approx(
            given.gap(y, machine.costs, b, f),
            abs=1e-12 * one.primal + 1e-9 * given.gap(y, machine.costs, b, f),
        )


@pytest.mark.parametrize(
    "loss", [Huber(0.3), Quantile(0.7), Counts(), again(Logistic)], ids=lambda loss: loss.name
)
def test_proximal_coefficients_are_the_best_ones(loss, rng):
    y = np.sign(rng.normal(size=12)) if loss.classifies else np.floor(3 * rng.random(12))
    costs, f = rng.uniform(0.3, 2.0, 12), rng.normal(size=12)
    low, high = (np.clip(end, -5.0, 5.0) for end in loss.bounds(y, costs))
    centre, pull = low + rng.random(12) * (high - low), 0.7 * costs

    def value(f):
        b = loss.proximal(y, costs, centre, pull, f)
        return loss.dual_term(y, costs, b) - b @ f - np.sum((b - centre) ** 2 / (2 * pull)), b

    best, b = value(f)
    assert ((b >= loss.bounds(y, costs)[0] - 1e-15) & (b <= loss.bounds(y, costs)[1] + 1e-15)).all()
    for step in (1e-3, -1e-3):
        moved = np.clip(b + step, *loss.bounds(y, costs))
        at = loss.dual_term(y, costs, moved) - moved @ f - np.sum((moved - centre) ** 2 / (2 * pull))
        assert at <= best + 1e-12
    np.testing.assert_allclose(central_difference(lambda f: value(f)[0], f, 1e-6), -b, atol=1e-7)


@pytest.mark.parametrize(("loss", "most"), [(Huber(0.3), 15), (Quantile(0.7), 32), (Counts(), 13)])
def test_few_systems(loss, most, rng):
    """The most of five seeds, and half as many again; at a hundredth of the kernel, or costs, no more."""
    _, gram, y, weight = data(rng, loss)
    for unit, cost in ((1.0, 2.0), (1.0, 0.02), (0.01, 2.0)):
        found = Machine(y, cost, loss, weight).solve(unit * gram.sum(axis=2), tol=1e-8)
        assert found.status is kw.solvers.Status.CONVERGED
        assert found.n_iter <= 1.5 * most


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", [Huber(0.3), Quantile(0.7)], ids=lambda loss: loss.name)
def test_early_stops_are_honest(loss, rng):
    Z, gram, y, weight = data(rng, loss)
    best = kw.solve_svm_mkl(gram, y, C, loss=loss, sample_weight=weight, tol=1e-9)
    for kernels in (gram, kw.FeatureStack(Z, GROUPS)):
        problem = kw.Problem(kernels, y, loss, "simplex", C, weight)
        for most in (1, 2, 4):
            found = kw.solve(problem, tol=1e-12, max_iter=most)
            assert found.status is not kw.solvers.Status.CONVERGED
            assert found.primal >= best.primal - best.gap
            assert found.dual <= best.primal
            # what it says is what anybody finds
            assert found.verify(problem).status is found.status


def test_losses_of_two_numbers_are_two_losses():
    assert Huber(0.3) == Huber(0.3) != Huber(0.4)
    assert repr(Quantile(0.7)) == "Quantile(tau=0.7)"
    assert Huber(1.0).name == "Huber"


def test_a_named_loss_is_one_of_the_names_and_its_name_is_its_own(monkeypatch):
    monkeypatch.setattr(loss_module, "LOSSES", {})  # found by names only in this test
    monkeypatch.setattr(losses, "LOSSES", loss_module.LOSSES)
    monkeypatch.setattr(losses.LOSS.rules[0], "known", loss_module.LOSSES)

    @dataclass(frozen=True)
    class Named(Huber):
        name = "robust"
        delta: float = 0.5

    assert as_loss("robust") == Named(0.5) != Named(0.6)
    with pytest.raises(InputError, match="Did you mean 'robust'"):
        as_loss("robst")
    with pytest.raises(InputError, match="There is a loss 'robust' already, Named"):
        type("Other", (Huber,), {"name": "robust"})

    class Bare(Huber):
        name = "bare"

    with pytest.raises(InputError, match=r"'bare' must have defaults.*'delta'.*Bare\(\.\.\.\)"):
        as_loss("bare")


def test_what_a_loss_cannot_do_it_says(rng, tmp_path):
    loss = Huber(0.3)
    _, gram, y, _ = data(rng, loss)
    problem = kw.Problem(gram, y, loss)
    found = kw.solve(problem)
    with pytest.raises(InputError, match="cannot be exported"):
        found.export_certificate(tmp_path / "x.kwcert", problem, kernels=gram, y=y)
    with pytest.raises(InputError, match="quadratic program"):
        kw.solve(problem, solver="interior-point")
    with pytest.raises(InputError, match="a Loss"):
        as_loss("hubert")
    with pytest.raises(InputError, match="a Loss"):
        kw.solve_svm_mkl(gram, y, 1.0, loss=Huber)


def test_folds_of_rows_in_chunks_leave_rows_out(rng):
    """Rows of a fold have no cost for the machine without it."""
    Z = rng.normal(size=(90, 9))
    y = Z[:, 0] - Z[:, 4] + 0.3 * rng.normal(size=90)
    rows = kw.RowFeatures(Z, y, groups=GROUPS)
    found = kw.rows.svm_mkl_path_cv(rows, [0.1, 1.0], loss=Huber(0.3), scoring="loss", folds=3, tol=1e-7)
    numbers = rows.folds(3)
    for k in range(3):
        train, test = numbers != k, numbers == k
        own = kw.solve_svm_mkl(kw.FeatureStack(Z[train], GROUPS), y[train], 1.0, loss=Huber(0.3), tol=1e-9)
        f = Z[test] @ own.feature_coef + own.intercept
        assert found.loss[k, -1] == pytest.approx(Huber(0.3).value(y[test], f).mean(), rel=1e-3)


# ---- formulas that disagree, and values that overflow ----------------------------------------------


class WrongSign(Huber):
    def conjugate(self, y, b):
        return np.where(np.abs(b) <= self.delta, 0.5 * b**2 + y * b, np.inf)


class TooSmall(Huber):
    def conjugate(self, y, b):
        return super().conjugate(y, b) - 0.3


class WrongSlope(Huber):
    def slope(self, y, f):
        return 2.0 * super().slope(y, f)


class OneNumber(Huber):
    def value(self, y, f):
        return super().value(y, f).sum()


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (WrongSign(0.5), "must be 0, as b is minus the slope|must be at least 0"),
        (TooSmall(0.5), r"value \+ conjugate \+ b f is -0\.3"),
        (WrongSlope(0.5), "formulas of WrongSlope"),
        (OneNumber(0.5), "an entry for each row"),
    ],
)
def test_formulas_that_disagree_are_refused(loss, said, features, rng):
    Z = rng.normal(size=(40, 6))
    kernels = kw.FeatureStack(Z, [0, 3, 6]) if features else Z.T[:2, :, None] * Z.T[:2, None, :]
    kernels = kernels if features else np.moveaxis(kernels, 0, -1)
    with pytest.raises(InputError, match=said):
        kw.solve(kw.Problem(kernels, Z[:, 0] - Z[:, 4], loss=loss, C=1.0))


@pytest.mark.parametrize("loss", [Huber(0.5), Quantile(0.3), Counts()], ids=lambda loss: type(loss).__name__)
def test_right_formulas_are_taken_for_targets_of_any_size(loss, rng):
    for y in (
        rng.poisson(3.0, 30).astype(float),
        1e6 * np.arange(30.0),
        np.full(30, 2.0),
        1e-9 * np.arange(30.0),
    ):
        loss.check(y, np.ones(30))


def test_counts_of_thousands_end(rng):
    """Decision values overflow on the way to the intercept."""
    X = rng.normal(size=(60, 2))
    y = 300.0 * rng.poisson(np.exp(0.5 * X[:, 0]))
    problem = kw.Problem(X[:, None, :] * X[None, :, :], y, loss=Counts(), C=2.0)
    found = kw.solve(problem, max_time=5.0)
    assert np.isfinite(found.primal) or found.status is kw.results.Status.STALLED
    assert found.gap >= 0.0


@pytest.fixture
def deviances():
    """A loss with a link, and one whose link has no graph, which are forgotten afterwards."""

    class Gamma(kw.losses.Loss):
        """Half the deviance of a gamma distribution with mean exp(f)."""

        name = "gamma-deviance"
        linked = True

        def prediction(self, f):
            return np.exp(f)

        def value(self, y, f):
            return y * np.exp(-f) + f - np.log(y) - 1.0

        def slope(self, y, f):
            return 1.0 - y * np.exp(-f)

        def conjugate(self, y, b):
            rest = np.maximum(1.0 + b, 0.0)
            curved = xlogy(rest, rest) - rest * np.log(y) - rest
            return np.where(b >= -1.0, curved + np.log(y) + 1.0, np.inf)

    class Strange(Gamma):
        name = "strange-deviance"

        def prediction(self, f):
            return np.exp(np.asarray(f, dtype=float))

    yield Gamma(), Strange()
    del losses.LOSSES["gamma-deviance"], losses.LOSSES["strange-deviance"]


def test_an_own_link_is_in_predictions_folds_files_and_graphs(deviances, rng, tmp_path):
    X = rng.normal(size=(90, 2))
    y = np.exp(0.6 * X[:, 0]) * rng.gamma(4.0, 0.25, 90)
    models = [
        kw.MKLRegressorCV([kw.kernels.Linear()], kw.learners.Uniform(loss=loss), Cs=[0.01, 1.0], cv=3).fit(
            X, y
        )
        for loss in deviances
    ]
    model = models[0]
    assert model.rel_gap_ <= 1e-3
    assert "gamma-deviance loss" in str(model.cv_results_["score_name"])
    f = model.kernel_contributions(X).sum(axis=1) + model.intercept_
    np.testing.assert_allclose(model.predict(X), np.exp(f), rtol=1e-12)
    assert model.score(X, y) > 0.3
    assert model.predict_interval(X).min() >= 0.0
    again = kw.load(kw.save(model, tmp_path / "model.skops"))
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)
    runtime = pytest.importorskip("onnxruntime")
    graph = runtime.InferenceSession(str(kw.to_onnx(model, tmp_path / "model.onnx")))
    np.testing.assert_allclose(graph.run(None, {"X": X})[0].ravel(), model.predict(X), rtol=1e-9)
    with pytest.raises(InputError, match=r"Strange.*no ONNX form"):
        kw.to_onnx(models[1], tmp_path / "other.onnx")


def test_no_infinite_objective_is_optimal():
    status = kw.results.Status
    for given, expected in (
        (status.CONVERGED, status.STALLED),
        (status.ROUNDING, status.STALLED),
        (status.MAX_TIME, status.MAX_TIME),
        (status.REFUTED, status.REFUTED),
    ):
        made = kw.results.Certificate.of("joint", np.inf, 0.0, 0.0, given, tol=1e-6)
        assert (made.status, made.gap) == (expected, np.inf)


def test_coefficients_are_looked_for_where_the_loss_had_the_last_ones():
    near = []

    class Noted(Huber):
        def proximal(self, y, costs, centre, pull, f, near_=None):
            near.append(near_)
            return super().proximal(y, costs, centre, pull, f, near_)

    y, f, costs = np.linspace(-1.0, 1.0, 5), np.linspace(0.3, -0.4, 5), np.linspace(0.5, 2.0, 5)
    smooth = Augmented(Noted(0.6), y, costs, centre=0.1 * y, radius=0.7)
    first = smooth.coefficients(f)
    smooth.coefficients(f + 0.01)
    assert near[0] is None
    np.testing.assert_allclose(-costs * smooth.loss.slope(y, near[1]), first, rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_stiffness_is_cut_off_in_units_of_the_kernel(unit, monkeypatch):
    y, costs, b = np.array([1.0, -1.0, 0.5]), np.ones(3), np.array([0.1, -0.2, 0.3])
    own = Huber(0.6)._stiffness(y, costs, b)
    monkeypatch.setattr(loss_module, "STIFFEST", 0.5 * unit * own.min())
    given = []
    monkeypatch.setattr(loss_module, "Weighted", lambda K, W, **_: given.append(W))
    Huber(0.6).system(unit * np.eye(3), y, costs, b, np.arange(3))
    np.testing.assert_allclose(given, [3 * [0.5 * own.min()]], rtol=1e-12)


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_point_has_the_values_of_its_formulas(augmented, fit_intercept, rng):
    y, product, costs = rng.normal(size=8) + 2.0, rng.normal(size=8), rng.uniform(0.5, 2.0, 8)
    more = {"centre": np.full(8, 0.05), "radius": 0.7} if augmented else {}
    smooth = (Augmented if augmented else Smooth)(Huber(0.6), y, costs, fit_intercept, **more)
    at = Expansion(smooth, product, 0.0)
    f = product + at.intercept
    assert (at.intercept > 0.1) if fit_intercept else (at.intercept == 0.0)
    np.testing.assert_allclose(at.f, f, rtol=1e-14)
    assert at.value == pytest.approx(smooth.value(f), rel=1e-12)
    np.testing.assert_allclose(at.b, smooth.coefficients(f), atol=1e-7)
    np.testing.assert_allclose(at.h, smooth.curvature(f), rtol=1e-9)
