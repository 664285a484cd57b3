"""Deep kernels: criteria and their exact derivatives, the descent, and the learners.

Modules: `learners/deep`, `mkl/deep`, `mkl/criteria/deep`, `mkl/steps/descent`, `machines/bordered`, `mkl/layers`.
"""

import itertools
import warnings
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning

import kernelweave as kw
from journeys import NEAR, defaults_of
from kernelweave import InputError
from kernelweave._loops import HAS_EXTENSION
from kernelweave.gram import gram_from_stack
from kernelweave.kernels import RBF, Linear, Polynomial
from kernelweave.learners import DMKL, MLMKL, DeepUniform, LpMKL, TwoLayerMKL
from kernelweave.machines.bordered import Bordered
from kernelweave.machines.losses import LOSSES, Logistic, Squared, as_loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.criteria.deep import DualValue, OutOfFold, SpanBound, Spans, TrainingError
from kernelweave.mkl.deep import DeepKernel, DeepSession, Descent, Validation, solve_deep
from kernelweave.mkl.layers import DeepSolution, Layers
from kernelweave.mkl.loop import Loop
from kernelweave.mkl.steps.descent import ProjectedGradient
from problems import targets_for

PAPER = (Linear(), RBF(1.0), Polynomial(2, 1.0), Polynomial(3, 1.0))


def cosine(K):
    root = np.sqrt(K.diagonal())
    return K / np.outer(root, root)


def paper_stack(X):
    D = X @ X.T
    square = np.square(X).sum(axis=1)
    rbf = np.exp(-(square[:, None] + square - 2.0 * D))
    return np.stack([cosine(D), rbf, cosine((D + 1.0) ** 2), cosine((D + 1.0) ** 3)], axis=-1)


def make_rows(rng, n=45):
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def deep(stack, n_layers, normalized=True):
    layers = Layers((PAPER,) * (n_layers - 1), normalized)
    return DeepKernel(gram_from_stack(stack), np.ones(stack.shape[2]), layers)


def search(kernel, criterion):
    n = len(kernel.sizes)
    return DeepSession(kernel, None, criterion, lambda w: w, [], [True] * n, [0.0] * n)


def slopes(kernel, criterion, weights, step=1e-5):
    run, out = search(kernel, criterion), []
    for layer, w in enumerate(weights):
        for k in range(len(w)):
            ends = []
            for sign in (1.0, -1.0):
                moved = [v.copy() for v in weights]
                moved[layer][k] += sign * step
                ends.append(run.at(moved).value)
            out.append((ends[0] - ends[1]) / (2.0 * step))
    return np.array(out)


# ---- descents ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("spectral", [False, True])
def test_every_step_of_the_projected_gradient_gains_a_share_of_what_it_promises(spectral, scaled):
    """On a function that bends more and more, where the first steps are far too long."""

    def at(t, tol):
        gradient = np.array([40.0, 1.0]) * np.sinh(np.array([40.0, 1.0]) * (t - [0.3, 2.0]))
        value = float(np.cosh(np.array([40.0, 1.0]) * (t - [0.3, 2.0])).sum()) - 3.0
        return SimpleNamespace(t=t, value=value, gradient=gradient, usable=value < 1e6)

    criterion = SimpleNamespace(at=at)
    session = SimpleNamespace(
        criterion=criterion,
        project=lambda t: np.maximum(t, 0.0),
        start=np.array([0.5, 0.5]),
        tol=1e-6,
        look=lambda here, counts=True: here,
    )
    step = ProjectedGradient(spectral=spectral, scaled=scaled)
    looks = list(itertools.islice(step.moves(session, Loop(60)), 60))
    for here, there in itertools.pairwise(looks):
        promised = here.gradient @ (here.t - there.t)
        assert here.value - there.value >= 1e-3 * promised > 0.0
    assert len(looks) > 5
    # without curvature in the step lengths it is slower
    np.testing.assert_allclose(looks[-1].t, [0.3, 2.0], atol=1e-5 if spectral else 0.5)


# ---- criteria ----------------------------------------------------------------------------------------


#: Criteria, and the losses for which they are defined.
CRITERIA = [
    ("span", "hinge"),
    *itertools.product(("out-of-fold", "dual"), [name for name, kind in LOSSES.items() if kind.rowwise]),
    *(("logistic", loss) for loss in LOSSES if as_loss(loss).classifies),
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("name", "loss", "C"), [(*case, C) for C in (0.3, 10.0) for case in CRITERIA])
def test_derivatives_of_criteria(name, loss, C, rng):
    """Through three layers, with the machine's own response, weighted rows; measured: at most 2e-8."""
    X, y = make_rows(rng)
    if loss == "epsilon-insensitive":
        y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=len(X))
    n = len(y)
    machine = Machine(targets_for(loss, y), C, as_loss(loss), rng.uniform(0.5, 2.0, n))
    rows, folds = np.arange(n), [np.arange(k, n, 3) for k in range(3)]
    measure = Logistic() if name == "logistic" else Squared()
    # coefficients are as near as the root of the gap; machines that do not end in a linear system need a finer one and
    # longer steps, whose differences are within 2e-5 of the largest
    linear = LOSSES[loss].piecewise_linear or LOSSES[loss].squares
    tol, step, near = (1e-13, 1e-5, 1e-6) if linear else (1e-16, 1e-3, 4e-5)
    criterion = {
        "out-of-fold": lambda: OutOfFold(machine, folds, rows, measure, tol),
        "logistic": lambda: OutOfFold(machine, folds, rows, measure, tol),
        "dual": lambda: DualValue(machine, rows, tol),
        "span": lambda: SpanBound(machine, rows, tol),
    }[name]()
    kernel = deep(paper_stack(X), 3)
    weights = [rng.uniform(0.1, 0.4, k) for k in kernel.sizes]
    gradient = np.concatenate(search(kernel, criterion).at(weights).gradient)
    expected = slopes(kernel, criterion, weights, step)
    np.testing.assert_allclose(gradient, expected, rtol=near, atol=near * np.abs(expected).max())


@pytest.mark.parametrize("rows", [np.arange(40), np.arange(5, 45)], ids=["first", "last"])
def test_criteria_on_some_rows_do_not_see_the_others(rows, rng):
    X, y = make_rows(rng)
    stack = paper_stack(X)
    changed = y.copy()
    others = np.setdiff1d(np.arange(45), rows)
    changed[others] *= -1.0
    folds = [rows[k::3] for k in range(3)]
    for make in (
        lambda m: OutOfFold(m, folds, rows, Squared()),
        lambda m: TrainingError(m, rows, loss=Squared()),
        lambda m: DualValue(m, rows),
        lambda m: SpanBound(m, rows),
    ):
        points = []
        for labels in (y, changed):
            kernel = deep(stack, 2)
            points.append(search(kernel, make(Machine(labels, 3.0))).at(kernel.uniform()))
        assert points[0].value == points[1].value
        for a, b in zip(points[0].gradient, points[1].gradient, strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_derivative_of_the_training_error_is_that_at_fixed_coefficients(rng):
    X, y = make_rows(rng)
    K = paper_stack(X) @ np.full(4, 0.25)
    machine = Machine(y, 3.0, sample_weight=rng.uniform(0.5, 2.0, 45))
    value, H = TrainingError(machine, np.arange(45), 1e-12, loss=Squared()).at(K)
    found, share = machine.solve(K, tol=1e-12), machine.sample_weight / machine.sample_weight.sum()

    def error(K):
        return 0.5 * float(share @ np.square(K @ found.dual_coef + found.intercept - y))

    assert value == pytest.approx(error(K), rel=1e-6)
    D = rng.normal(size=K.shape)
    D += D.T
    slope = float(((np.triu(H) + np.triu(H, 1).T) * D).sum())
    assert slope == pytest.approx((error(K + 1e-5 * D) - error(K - 1e-5 * D)) / 2e-5, rel=1e-4)


def parts(machine, b):
    """0 for rows that are no support vectors, 1 at the bound, 2 in between."""
    out = (b != 0).astype(int)
    out[machine.free(b)] = 2
    return out


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("n", [30, 60])
def test_spans_against_leave_one_out(n, C, rng):
    """Exact where no other row changes its part.

    The estimated number of errors was off by at most 0.17 n for C >= 1 over ten seeds; at C = 0.1, where nearly every
    row is at its bound and each one tips the balance of the classes, by up to 0.5 n.
    """
    X, y = make_rows(rng, n)
    K = paper_stack(X) @ np.full(4, 0.25)
    machine = Machine(y, C)
    found = machine.solve(K, tol=1e-12)
    spans = Spans.of(machine, K, found.dual_coef, found.intercept, 1e-9)
    before = parts(machine, found.dual_coef)
    f = K @ found.dual_coef + found.intercept
    without, exact = np.empty(n), 0
    for p in range(n):
        rest = np.setdiff1d(np.arange(n), p)
        own = Machine(y[rest], C)
        other = own.solve(np.ascontiguousarray(K[np.ix_(rest, rest)]), tol=1e-12)
        without[p] = y[p] * (K[p, rest] @ other.dual_coef + other.intercept)
        if before[p] and (before[rest] == parts(own, other.dual_coef)).all() and (before[rest] == 2).any():
            exact += 1
            assert -spans.fall[p] == pytest.approx(without[p], abs=1e-5 * (1.0 + abs(f[p])))
    if C >= 1.0:
        assert abs((without < 0).sum() - (spans.fall > 0).sum()) <= 0.2 * n
    assert exact > 0 or C < 10.0


def test_span_bound_falls_with_what_it_estimates(rng):
    """On a kernel that separates and on one of noise."""
    X, y = make_rows(rng, 60)
    good = np.outer(y, y) + 0.1 * np.eye(60)
    noise = np.outer(X[:, 2], X[:, 2]) + 0.1 * np.eye(60)
    values = [SpanBound(Machine(y, 1.0), np.arange(60)).at(K)[0] for K in (good, noise)]
    assert values[0] < 0.02 < 0.3 < values[1]


def test_dual_value_is_the_objective_of_the_machine(rng):
    X, y = make_rows(rng)
    K = paper_stack(X) @ np.full(4, 0.25)
    value, H = DualValue(Machine(y, 2.0), np.arange(45), 1e-12).at(K)
    found = kw.solve_svc(K, y, 2.0, tol=1e-12)
    assert value == pytest.approx(found.primal, rel=1e-10)
    np.testing.assert_allclose(
        np.triu(H), np.triu(-0.5 * np.outer(found.dual_coef, found.dual_coef)), atol=1e-6
    )


def test_least_squares_machine(rng):
    """Against the bordered system, with weights, a row without weight, and a singular kernel."""
    X, y = make_rows(rng)
    costs = 2.0 * rng.uniform(0.0, 2.0, 45)
    costs[4] = 0.0
    for K in (paper_stack(X) @ np.full(4, 0.25), np.outer(X[:, 0], X[:, 0])):
        found = Machine(y, 1.0, Squared(), costs).solve(K, tol=1e-8)
        assert found.rel_gap < 1e-12
        assert found.dual_coef[4] == 0.0
        assert abs(found.dual_coef.sum()) < 1e-12 * np.abs(found.dual_coef).sum()
        rest = y - K @ found.dual_coef - found.intercept
        np.testing.assert_allclose(found.dual_coef, costs * rest, rtol=1e-8, atol=1e-9)
        objective = 0.5 * found.dual_coef @ K @ found.dual_coef + 0.5 * costs @ np.square(rest)
        assert found.primal == pytest.approx(objective, rel=1e-9)


def test_bordered_systems(rng):
    A = np.cov(rng.normal(size=(6, 40)))
    system = Bordered(A, 0.0)
    whole = np.block([[A, np.ones((6, 1))], [np.ones((1, 6)), np.zeros((1, 1))]])
    g = rng.normal(size=6)
    x, t = system.solve(g, 0.7)
    np.testing.assert_allclose(np.r_[x, t], np.linalg.solve(whole, np.r_[g, 0.7]), rtol=1e-10)
    np.testing.assert_allclose(system.inverse(), np.linalg.inv(whole)[:6, :6], rtol=1e-9, atol=1e-12)


# ---- the descent -------------------------------------------------------------------------------------


def fit(stack, y, n_layers, criterion, descent, C=10.0, **more):
    kernel = deep(stack, n_layers)
    return solve_deep(
        kernel, Machine(y, C), criterion, descent, lambda w: [np.maximum(v, 0.0) for v in w], **more
    )


@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize("name", ["out-of-fold", "span", "dual"])
def test_backtracking_never_raises_the_criterion(name, n_layers, rng):
    X, y = make_rows(rng)
    rows, folds = np.arange(45), [np.arange(k, 45, 3) for k in range(3)]
    machine = Machine(y, 10.0)
    criterion = {
        "out-of-fold": OutOfFold(machine, folds, rows, Squared()),
        "span": SpanBound(machine, rows),
        "dual": DualValue(machine, rows),
    }[name]
    result = fit(paper_stack(X), y, n_layers, criterion, Descent(tol=1e-3, max_iter=60))
    values = result.history["criterion"]
    assert (np.diff(values) < 0).all()
    assert values[-1] < values[0]
    assert result.value == values.min()
    assert result.history["weights"].shape == (len(values), 4 * n_layers)
    assert all((w >= 0).all() for w in result.layer_weights)
    # the weights of "dual" grow to 2e7 on some draws, where the machine is solved to 2.6e-7 of the objective
    assert result.gap - result.rounding < 1e-6 * result.primal


@pytest.mark.slow
def test_training_error_memorises_and_out_of_fold_error_does_not():
    """The demonstration of the paper's weakness: over these six runs the measured mean accuracies are 0.98 for equal
    weights, 0.84 for the training error and 0.98 out of fold."""
    X, y = load_breast_cancer(return_X_y=True)
    scores = {"uniform": [], "training": [], "out-of-fold": []}
    seeds = (0, 1) if HAS_EXTENSION else (1,)
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:284], order[284:]
        Z = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
        for n_layers in (1, 2, 3):
            for name, learner in (
                ("uniform", DeepUniform(n_layers=n_layers, C=10.0)),
                ("training", MLMKL(
                    n_layers=n_layers, C=10.0, criterion="training", step="fixed", eta=1.0, max_iter=12, tol=1e-9
                )),
                ("out-of-fold", MLMKL(n_layers=n_layers, C=10.0)),
            ):  # fmt: skip
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = kw.MKLClassifier(kw.banks.mlmkl(), learner, normalize="cosine").fit(
                        Z[train], y[train]
                    )
                scores[name].append(model.score(Z[test], y[test]))
                if name == "training":
                    assert model.history_[0]["criterion"][-1] < 1e-3
    mean = {name: np.mean(values) for name, values in scores.items()}
    assert mean["training"] < mean["uniform"] - 0.02
    assert mean["out-of-fold"] > mean["uniform"] - 0.005


def test_validation_rows_choose_the_weights(rng):
    X, y = make_rows(rng, 90)
    stack = paper_stack(X)
    test = np.arange(0, 90, 4)
    train = np.setdiff1d(np.arange(90), test)
    machine = Machine(y, 10.0)
    result = fit(
        stack, y, 2, TrainingError(machine, train, loss=Squared()),
        Descent("fixed", 0.5, tol=1e-9, max_iter=20, n_iter_no_change=4),
        validation=Validation(machine, train, test, Squared()),
    )  # fmt: skip
    losses = result.history["validation"]
    best = int(np.argmin(losses))
    np.testing.assert_array_equal(np.concatenate(result.layer_weights), result.history["weights"][best])
    assert len(losses) - 1 - best <= 4
    assert (result.history["validation_error"] <= 1.0).all()


@pytest.mark.parametrize("where", ["train", "test"])
def test_validation_counts_a_weight_as_repetitions(rng, where):
    X, y = make_rows(rng, 40)
    # classes are known by a product of columns: on a linear kernel, one constant may be best whatever the weights
    K = cosine((X @ X.T + 1.0) ** 2)
    test = np.arange(0, 40, 4)
    train = np.setdiff1d(np.arange(40), test)
    times = np.ones(40, dtype=int)
    own = train if where == "train" else test
    times[own] = rng.integers(1, 6, size=len(own))
    order = np.repeat(np.arange(40), times)
    parts = [np.flatnonzero(np.isin(order, rows)) for rows in (train, test)]
    weighted = Validation(Machine(y, 5.0, sample_weight=times.astype(float)), train, test, Squared(), 1e-10)
    repeated = Validation(Machine(y[order], 5.0), *parts, Squared(), 1e-10)
    found, expected = weighted.loss(K), repeated.loss(K[np.ix_(order, order)])
    # both solved to a relative gap of 1e-10: coefficients agree to its root
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # measured without the weights: 1.1e-2 or more on twelve draws
    assert abs(expected[0] / Validation(Machine(y, 5.0), train, test, Squared()).loss(K)[0] - 1.0) > 1e-3


def test_adaptive_steps_fall(rng):
    X, y = make_rows(rng)
    criterion = OutOfFold(Machine(y, 10.0), [np.arange(k, 45, 3) for k in range(3)], np.arange(45), Squared())
    result = fit(paper_stack(X), y, 2, criterion, Descent("adam", eta=0.02, max_iter=12))
    # measured: to 0.905 of the first value or less on six draws
    assert result.value < 0.95 * result.history["criterion"][0]


def test_an_interruption_keeps_the_best_weights(rng):
    X, y = make_rows(rng)

    class Stops(OutOfFold):
        calls = 0

        def at(self, K, gradient=True):
            Stops.calls += 1
            if Stops.calls == 5:
                raise KeyboardInterrupt
            return super().at(K, gradient)

    criterion = Stops(Machine(y, 10.0), [np.arange(k, 45, 3) for k in range(3)], np.arange(45), Squared())
    result = fit(paper_stack(X), y, 2, criterion, Descent())
    assert result.status is kw.solvers.Status.INTERRUPTED
    assert 2 <= len(result.history["criterion"]) <= 4
    assert result.value == result.history["criterion"].min()


def test_one_fold_without_a_class(rng):
    """A machine without one of the classes says that class; it has no derivative."""
    X, y = make_rows(rng, 20)
    y[:] = 1.0
    y[:4] = -1.0
    folds = [np.arange(4), np.arange(4, 20)]
    value, H = OutOfFold(Machine(y, 1.0), folds, np.arange(20), Squared()).at(
        paper_stack(X) @ np.full(4, 0.25)
    )
    assert value == pytest.approx((4 * 2.0 + 16 * 2.0) / 20)
    assert not np.triu(H).any()


# ---- learners ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[::4], y[::4], X[1::4], y[1::4]


ALL = [
    MLMKL(n_layers=1), MLMKL(n_layers=2), MLMKL(n_layers=3, criterion="logistic"), MLMKL(weight_set="simplex"),
    MLMKL(loss="squared"), MLMKL(normalize_layers=False, kernels=[kw.kernels.RBF(gamma=1.0)]),
    MLMKL(n_layers=2, validation_fraction=0.2),
    MLMKL(n_layers=3, kernels=[[kw.kernels.ArcCosine(degree=1)], [kw.kernels.ArcCosine(degree=0)]]),
    DMKL(n_layers=2), TwoLayerMKL(), TwoLayerMKL(normalize_layers=False), DeepUniform(n_layers=2),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("learner", ALL, ids=repr)
def test_learners_predict_with_what_they_learnt(learner, cancer):
    """Decision values equal the kernel of the last layer on all rows at once, and sums of contributions."""
    X, y, new, truth = cancer
    model = kw.MKLClassifier(kw.banks.mlmkl(), learner, normalize="cosine").fit(X, y)
    assert model.score(new, truth) > 0.9
    assert model.rel_gap_ < 1e-6
    decisions = model.decision_function(new)
    parts = model.kernel_contributions(new)
    np.testing.assert_allclose(parts.sum(axis=1) + model.intercept_, decisions, rtol=1e-9, atol=1e-9)
    both = np.concatenate([X, new])
    stack = np.stack([cosine(kernel(both)) for kernel in kw.banks.mlmkl()], axis=-1)
    stack /= np.einsum("iim->m", stack)[None, None] / len(both)
    layers = learner.layers()
    weights = [model.model_.effective[0]]
    if model.model_.layers:
        weights += list(model.model_.layers[0].weights)
    whole = DeepKernel(gram_from_stack(stack), np.ones(4), layers).forward(weights)
    expected = whole[len(X) :, : len(X)] @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(decisions, expected, rtol=1e-7, atol=1e-8)


def test_shapes_of_weights(cancer):
    X, y, *_ = cancer
    model = kw.MKLClassifier(kw.banks.mlmkl(), MLMKL(n_layers=3, max_iter=2), normalize="cosine")
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        assert model.fit(X, y).weights_.shape == (3, 4)
    with pytest.warns(ConvergenceWarning):
        three = model.fit(X[:60], np.arange(60) % 3)
    assert three.weights_.shape == (3, 3, 4)
    uneven = kw.MKLClassifier(
        kw.banks.linear_features(30),
        DeepUniform(n_layers=2, kernels=[kw.kernels.RBF(gamma=1.0)]),
        normalize="cosine",
    ).fit(X, y)
    assert uneven.weights_.shape == (2, 30)
    assert np.isnan(uneven.weights_[1, 1:]).all()
    assert kw.MKLClassifier(kw.banks.mlmkl(), "2lmkl", normalize="cosine").fit(X, y).weights_.shape == (4,)


def test_one_layer_with_equal_weights_is_the_average_kernel(cancer):
    X, y, new, _ = cancer
    ours = kw.MKLClassifier(kw.banks.mlmkl(), DeepUniform(n_layers=1, C=2.0), normalize="cosine").fit(X, y)
    average = kw.MKLClassifier(kw.banks.mlmkl(), kw.learners.Uniform(C=2.0), normalize="cosine").fit(X, y)
    np.testing.assert_allclose(
        ours.decision_function(new), average.decision_function(new), rtol=1e-5, atol=1e-6
    )


def test_layers_of_linear_kernels_change_nothing(cancer):
    """Cosine normalised linear layers on unit diagonals are the kernel below."""
    X, y, new, _ = cancer
    flat = kw.MKLClassifier(kw.banks.mlmkl(), DeepUniform(n_layers=1, C=2.0), normalize="cosine").fit(X, y)
    linear = DeepUniform(n_layers=4, C=2.0, kernels=[kw.kernels.Linear()])
    tall = kw.MKLClassifier(kw.banks.mlmkl(), linear, normalize="cosine").fit(X, y)
    np.testing.assert_allclose(tall.decision_function(new), flat.decision_function(new), rtol=1e-5, atol=1e-6)


def test_two_layer_dual_is_below_what_equal_weights_give(cancer):
    X, y, *_ = cancer
    model = kw.MKLClassifier(kw.banks.mlmkl(), TwoLayerMKL(C=1.0), normalize="cosine").fit(X, y)
    values = model.history_[0]["criterion"]
    assert values[-1] < values[0]
    assert values[-1] == pytest.approx(model.objective_ + model.weights_.sum(), rel=1e-6)


@pytest.mark.parametrize("loss", ["auto", "squared"])
@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_regression(loss, n_layers):
    X, y = load_diabetes(return_X_y=True)
    y = (y - y.mean()) / y.std()
    train, test = np.arange(0, 200), np.arange(200, 442)
    learner = MLMKL(n_layers=n_layers, C=1.0, loss=loss)
    model = kw.MKLRegressor(kw.banks.mlmkl(), learner, normalize="cosine", standardize=True).fit(
        X[train], y[train]
    )
    assert model.score(X[test], y[test]) > 0.35
    history = model.history_[0]["criterion"]
    assert history[-1] < history[0]


def test_paths_and_folds(cancer):
    X, y, new, truth = cancer
    model = kw.MKLClassifierCV(kw.banks.mlmkl(), "mlmkl", n_alphas=4, cv=3, normalize="cosine").fit(X, y)
    assert model.score(new, truth) > 0.93
    assert len(model.cv_results_["mean_test_score"]) == 4
    single = kw.MKLClassifier(kw.banks.mlmkl(), MLMKL(C=model.C_), normalize="cosine").fit(X, y)
    assert single.score(new, truth) > 0.93


def test_no_overflow_on_unnormalised_cubes():
    """166 columns, three raw layers with cubes: a fit without NaN, or an error that says what to do."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 166))
    y = X[:, 0] > 0
    for n_layers in (2, 3, 4, 6):
        learner = MLMKL(n_layers=n_layers, C=10.0, normalize_layers=False, max_iter=3)
        model = kw.MKLClassifier(kw.banks.mlmkl(), learner, normalize=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if n_layers > 3:
                with pytest.raises(InputError, match="Use cosine normalisation"):
                    model.fit(X, y)
                continue
            model.fit(X, y)
        assert np.isfinite(model.decision_function(X)).all()
        assert np.isfinite(model.weights_).all()


@pytest.mark.parametrize("seed", range(5))
def test_gaussians_of_large_values_stay_below_one(seed):
    """Kernels around 1e17 hold squared distances that round to less than nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 166))
    learner = kw.learners.DeepUniform(n_layers=3, normalize_layers=False)
    model = kw.MKLClassifier(kw.banks.mlmkl(), learner, normalize=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, X[:, 0] > 0)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("step", ["fixed", "adam"])
@pytest.mark.parametrize("learner", [MLMKL(n_layers=2), DMKL(n_layers=2)])
def test_a_step_that_empties_a_layer_is_told(learner, step):
    # steps of this size empty a layer of DMKL with each of the seeds 0 to 11, and one of MLMKL with 0, 4, 7 and 8
    X = np.random.default_rng(8).normal(size=(40, 3))
    learner = clone(learner).set_params(step=step, eta=1e6)
    with pytest.warns(ConvergenceWarning, match="left a layer without weights"):
        model = kw.MKLClassifier(kw.banks.mlmkl(), learner, normalize="cosine").fit(X, X[:, 0] > 0)
    assert model.status_ == "emptied"
    assert model.weights_.any(axis=1).all()


def test_one_kernel_is_a_layer(rng):
    X = rng.normal(size=(40, 3))
    one = MLMKL(n_layers=3, kernels=[[kw.kernels.RBF(gamma=1.0)], kw.kernels.Linear()], max_iter=2)
    two = MLMKL(n_layers=3, kernels=[[kw.kernels.RBF(gamma=1.0)], [kw.kernels.Linear()]], max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        a, b = (
            kw.MKLClassifier(kw.banks.mlmkl(), m, normalize="cosine").fit(X, X[:, 0] > 0) for m in (one, two)
        )
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


def test_logistic_loss_is_for_classes(rng):
    X = rng.normal(size=(40, 3))
    with pytest.raises(InputError, match="criterion='logistic' is for classification"):
        kw.MKLRegressor(kw.banks.mlmkl(), MLMKL(criterion="logistic"), normalize="cosine").fit(X, X[:, 0])


@pytest.mark.parametrize(("learner", "message"), [
    (MLMKL(n_layers=0), "n_layers"), (MLMKL(n_layers=2.5), "n_layers"), (MLMKL(C=-1.0), "`C`"),
    (MLMKL(criterion="test"), "criterion"),
    (MLMKL(step="up"), "step"), (MLMKL(eta=0.0), "eta"), (MLMKL(eta=np.inf), "eta"), (MLMKL(n_folds=1), "n_folds"),
    (MLMKL(weight_set="ball"), "weight_set"), (MLMKL(validation_fraction=0.9), "validation_fraction"),
    (MLMKL(max_iter=0), "max_iter"), (MLMKL(kernels=[kw.kernels.Laplacian(gamma=1.0)]), "layer"),
    (MLMKL(kernels=[]), "kernels"), (MLMKL(kernels="rbf"), "kernels"), (MLMKL(kernels=[3]), "kernels"),
    (MLMKL(n_layers=3, kernels=[[kw.kernels.Linear()]]), "2 layers"),
    (MLMKL(loss="hubert"), "loss"),
    (MLMKL(device=3), "device"),
    (MLMKL(normalize_layers="cosine"), "normalize_layers"), (DMKL(smoothing=0.0), "smoothing"),
    (TwoLayerMKL(penalty=-1.0), "penalty"), (TwoLayerMKL(step="x"), "step"),
], ids=repr)  # fmt: skip
def test_parameters_that_cannot_be_used(learner, message, cancer):
    X, y, *_ = cancer
    with pytest.raises(InputError, match=message):
        kw.MKLClassifier(kw.banks.mlmkl(), learner).fit(X, y)


def test_the_last_layer_of_dmkl_has_a_sum_of_at_most_one():
    """On these rows the span bound asks for more: without the bound the sum ends at 1.03."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=40) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # after eight steps
        model = kw.MKLClassifier(learner=kw.learners.DMKL(n_layers=2, C=10.0, max_iter=8)).fit(X, y)
    assert kw.inspection.layer_weights(model).weights[-1].sum() == pytest.approx(1.0, abs=1e-12)


def test_dmkl_is_for_classes(cancer):
    X, *_ = cancer
    with pytest.raises(InputError, match="classification"):
        kw.MKLRegressor(learner="dmkl").fit(X, X[:, 0])


def test_weights_of_rows_are_repetitions(cancer):
    """Exact for a few steps; a long descent amplifies rounding, and repeated rows span each other in DMKL."""
    X, y, new, _ = cancer
    X, y = X[:40], y[:40]
    times = np.random.default_rng(0).integers(0, 4, 40)
    for learner in (MLMKL(n_layers=2, max_iter=3), TwoLayerMKL(max_iter=3), DeepUniform(n_layers=2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            weighted = kw.MKLClassifier(kw.banks.mlmkl(), learner).fit(X, y, sample_weight=times)
            repeated = kw.MKLClassifier(kw.banks.mlmkl(), learner).fit(
                np.repeat(X, times, axis=0), np.repeat(y, times)
            )
        np.testing.assert_allclose(
            weighted.decision_function(new), repeated.decision_function(new), rtol=1e-5, atol=1e-6
        )


def test_baselines_of_the_paper_are_rows_of_the_same_table(cancer):
    X, y, new, truth = cancer
    sksvm = kw.MKLClassifier([kw.kernels.RBF(gamma=1.0)], kw.learners.Uniform(C=10.0)).fit(X, y)
    l2 = kw.MKLClassifier(kw.banks.mlmkl(), LpMKL(p=2.0, C=10.0), normalize="cosine").fit(X, y)
    assert sksvm.score(new, truth) < 0.75  # nearly the identity in 30 dimensions: the majority class
    assert l2.score(new, truth) > 0.93


def test_steps_are_reported_and_a_stop_keeps_what_is_done(cancer):
    X, y, new, truth = cancer
    seen = []

    def report(text):
        seen.append(text)
        return len(seen) == 3

    class Listening(kw.MKLClassifier):
        def _reporter(self, n_steps, X, y):
            super()._reporter(n_steps, X, y)
            return report

    model = Listening(kw.banks.mlmkl(), MLMKL(n_layers=2), normalize="cosine")
    with pytest.warns(UserWarning, match="interrupted: the weights are the best ones so far"):
        model.fit(X, y)
    assert model.status_ == "interrupted"
    assert [text.split(":")[0] for text in seen[:3]] == ["step 1", "step 2", "step 3"]
    assert model.score(new, truth) > 0.9


def test_layers_of_rough_kernels_take_equal_rows(rng):
    X = rng.normal(size=(30, 2))
    X[5] = X[4]
    learner = kw.learners.MLMKL(kernels=[kw.kernels.Matern(0.5, 0.5), kw.kernels.RBF(0.5)], max_iter=5)
    with pytest.warns(ConvergenceWarning, match="5 iterations"):
        model = kw.MKLRegressor([kw.kernels.RBF(0.3), kw.kernels.Linear()], learner).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()


def test_a_warm_start_leaves_no_kernel_without_weight():
    """Every layer starts from the last weights, each at a thousandth of the largest at least."""
    upper = SimpleNamespace(weights=(np.array([0.0, 0.5]),))
    ends = DeepSolution(np.array([2.0, 0.0, 1.0]), np.zeros(2), 0.0, None, 1, upper=upper)
    first, second = MLMKL._start(SimpleNamespace(start=SimpleNamespace(found=ends)))
    np.testing.assert_array_equal(first, [2.0, 0.002, 1.0])
    np.testing.assert_array_equal(second, [0.0005, 0.5])
    assert MLMKL._start(SimpleNamespace(start=SimpleNamespace(found=None))) is None


def test_sets_of_weights_of_layers():
    module = import_module("kernelweave.learners.deep")
    given = [np.array([0.5, -0.2, 0.9]), np.array([0.8, 0.7])]
    wanted = {
        "onto_orthant": [[0.5, 0.0, 0.9], [0.8, 0.7]],
        "onto_simplices": [[0.3, 0.0, 0.7], [0.55, 0.45]],
        "last_at_most_one": [[0.5, 0.0, 0.9], [0.55, 0.45]],
    }
    for name, layers in wanted.items():
        for found, own in zip(getattr(module, name)(given), layers, strict=True):
            np.testing.assert_allclose(found, own, atol=1e-12)
    assert given[0].tolist() == [0.5, -0.2, 0.9]
    small = module.last_at_most_one([np.array([3.0]), np.array([0.3, -0.2])])
    assert [own.tolist() for own in small] == [[3.0], [0.3, 0.0]]
    np.testing.assert_allclose(module.onto_simplices([np.array([0.1, 0.1])])[0], [0.5, 0.5])


def test_every_option_of_a_descent_reaches_it(rng):
    """Each changes weights or the history; rows held out, and steps without a better loss, are those of the option."""
    X = rng.normal(size=(24, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    usual = {"C": 3.0, "max_iter": 4, "tol": 1e-9}

    def fitted(**options):
        model = kw.MKLClassifier(kw.banks.mlmkl(), MLMKL(**{**usual, **options}), normalize="cosine")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        [history] = model.history_
        return history

    plain = fitted()
    assert "validation" not in plain
    assert len(plain["criterion"]) <= 5
    for options in (
        {"C": 0.3}, {"max_iter": 2}, {"tol": 0.5}, {"step": "fixed"}, {"criterion": "training"}, {"n_folds": 5},
        {"weight_set": "simplex"}, {"n_layers": 3}, {"normalize_layers": False},
    ):  # fmt: skip
        found = fitted(**options)["weights"]
        assert found.shape != plain["weights"].shape or np.abs(found - plain["weights"]).max() > 1e-6, options
    fixed = [fitted(step="fixed", eta=eta)["weights"] for eta in (0.1, 0.2)]
    np.testing.assert_allclose(
        fixed[1][1] - fixed[1][0], 2.0 * (fixed[0][1] - fixed[0][0]), rtol=1e-6, atol=1e-9
    )
    held = fitted(validation_fraction=0.3, max_iter=12)
    assert len(held["validation"]) == len(held["criterion"])
    assert len(fitted(validation_fraction=0.3, n_iter_no_change=1, max_iter=12)["criterion"]) <= len(
        held["criterion"]
    )


# ---- recorded -------------------------------------------------------------------------------------

#: The criterion, the step, the number of layers, and options of the descent.
JOURNEYS = {
    "out of fold": ("out of fold", "backtracking", 2, {}),
    "out of fold, fixed": ("out of fold", "fixed", 2, {"eta": 0.05}),
    "out of fold, adam": ("out of fold", "adam", 3, {"eta": 0.02}),
    "training error": ("training error", "backtracking", 2, {"tol": 1e-2}),
    "dual value": ("dual value", "backtracking", 3, {}),
    "dual value, one layer": ("dual value", "backtracking", 1, {}),
    "span": ("span", "backtracking", 2, {}),
    "validation": ("dual value", "adam", 2, {"eta": 0.05, "n_iter_no_change": 2, "max_iter": 12}),
    "steps that are too long": ("dual value", "fixed", 2, {"eta": 1e3}),
}


@pytest.mark.parametrize("name", JOURNEYS)
def test_the_way_of_the_descent(name, recorded):
    kind, step, n_layers, options = JOURNEYS[name]
    X, y = make_rows(np.random.default_rng(0), n=24)
    weights = np.where(np.arange(24) % 7 == 3, 0.4, 0.5 + np.arange(24) / 24)
    loss = as_loss("hinge" if kind == "span" else "squared-hinge")
    machine, rows = Machine(y, 2.0, loss, weights), np.arange(24)
    folds = [np.arange(0, 8), np.arange(8, 15), np.arange(15, 24)]
    criterion = {
        "out of fold": lambda: OutOfFold(machine, folds[:2], rows, Logistic()),
        "training error": lambda: TrainingError(machine, rows[:20], loss=Logistic()),
        "dual value": lambda: DualValue(machine, rows[2:]),
        "span": lambda: SpanBound(machine, rows, smoothing=0.5),
    }[kind]()
    validation = None
    if name == "validation":
        validation = Validation(machine, rows[:16], rows[16:], Logistic())
    kernel, told = deep(paper_stack(X), n_layers, normalized=n_layers != 2), []
    kernel.scale = np.array([0.5, 1.0, 0.7, 0.3])
    found = solve_deep(
        kernel,
        machine,
        criterion,
        Descent(step, **{"max_iter": 5, **options}),
        lambda parts: [np.maximum(w, 0.0) for w in parts],
        penalty=[0.01 * (k + 1) for k in range(n_layers)],
        learnt=[k != 2 for k in range(n_layers)],
        validation=validation,
        callback=lambda *now: told.append(now),
    )
    values = found.trace["criterion"]
    assert [now[0] for now in told] == list(range(1, len(told) + 1))
    np.testing.assert_array_equal([now[1] for now in told], values[1 : len(told) + 1])
    # where it begins is the same everywhere, where a descent ends is not
    recorded("start", [values[0], found.trace["weights"][0]], rtol=1e-5)
    if step == "backtracking":
        assert (np.diff(values) < 0).all()
    assert len(values) == len(told) + 1 <= options.get("max_iter", 5) + 1
    assert all((w >= 0).all() for w in found.layer_weights)
    if n_layers == 3:
        assert found.layer_weights == () or np.ptp(found.layer_weights[2]) == 0.0
    for classification in (True, False):
        checked = Validation(machine, rows[:16], rows[16:], Logistic(), classification=classification)
        recorded(f"validation {classification}", checked.loss(kernel.forward(kernel.uniform())), rtol=1e-4)
    recorded("defaults", defaults_of(solve_deep, Descent, Validation, SpanBound))


@pytest.mark.parametrize("normalized", [True, False])
def test_kernels_of_layers_and_their_derivatives(normalized, recorded):
    X, _ = make_rows(np.random.default_rng(0), n=9)
    kernel = deep(paper_stack(X), 3, normalized)
    parts = [np.linspace(0.1, 0.7, k) for k in kernel.sizes]
    parts[1][2] = 0.0
    K = kernel.forward(parts).copy()
    H = np.cos(np.arange(81.0)).reshape(9, 9)
    recorded("kernel", K, **NEAR)
    recorded("derivatives", kernel.backward(H + H.T), **NEAR)
    above = kernel.trained(parts)
    new = (paper_stack(X) @ (parts[0] * kernel.scale))[:4]
    recorded("cross", above.cross(new, np.arange(1.0, 5.0)), **NEAR)
    recorded("terms", [[k, term] for k, term in above.last_terms(new, np.arange(1.0, 5.0))], **NEAR)


@pytest.mark.parametrize("kind", ["out of fold", "training error", "dual value", "span"])
@pytest.mark.parametrize("C", [0.1, 0.7, 3.0])
def test_derivatives_by_the_kernel(kind, C, recorded):
    """With rows at their bounds in both classes, and weights of rows; also against differences."""
    X, y = make_rows(np.random.default_rng(0), n=20)
    K = paper_stack(X).sum(axis=-1) / 4.0
    weights = np.where(np.arange(20) % 7 == 3, 0.4, 0.5 + np.arange(20) / 20)
    machine, rows = Machine(y, C, as_loss("hinge"), weights), np.arange(20)
    criterion = {
        "out of fold": lambda: OutOfFold(machine, [rows[:7], rows[9:15]], rows[:18], Logistic(), 1e-12),
        "training error": lambda: TrainingError(machine, rows[1:], 1e-12, loss=Logistic()),
        "dual value": lambda: DualValue(machine, rows[2:], 1e-12),
        "span": lambda: SpanBound(machine, rows[1:], 1e-12, smoothing=0.5),
    }[kind]()
    value, H = criterion.at(K.copy())
    H = np.triu(H) + np.triu(H, 1).T
    recorded("value and derivative", [value, H], **NEAR)
    assert criterion.at(K.copy(), gradient=False)[0] == pytest.approx(value, rel=1e-9)
    if kind != "training error":
        # that of fixed coefficients is no derivative
        U = np.cos(np.arange(60.0)).reshape(20, 3)
        along, h = U @ U.T, 1e-6
        slope = (criterion.at(K + h * along)[0] - criterion.at(K - h * along)[0]) / (2 * h)
        assert np.sum(H * along) == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_validation_rows_are_not_trained_on():
    machine = Machine(np.tile([-1.0, 1.0], 10), 1.0, as_loss("hinge"))
    held = np.array([0, 3, 4])
    output = SimpleNamespace(
        gram=SimpleNamespace(n_samples=20),
        machine=machine,
        training=SimpleNamespace(classification=True),
        folds=lambda n_folds: [held, np.setdiff1d(np.arange(20), held)],
    )
    found = MLMKL(validation_fraction=0.15)._validation(output)
    assert list(found.test) == list(held)
    assert list(found.train) == list(np.setdiff1d(np.arange(20), held))
