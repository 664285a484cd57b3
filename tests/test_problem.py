"""One problem, one answer: `Problem`, `solve` and `certify` on every operator, loss and set of weights.

Modules: `mkl/problem`, `mkl/solve`, `mkl/certify`, `mkl/published`, `mkl/kernel_problem`,
`mkl/features/problem`.
"""

import itertools
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest

import kernelweave as kw
from journeys import NEAR, record_solved
from kernelweave._checks import InputError
from kernelweave.gram import FactorGram, as_gram, gram_from_stack
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import balanced
from kernelweave.mkl import published
from kernelweave.mkl.certify import feasible, of_null, outside, term_error
from kernelweave.mkl.kernel_problem import KernelProblem, OnStack
from kernelweave.mkl.problem import make_ridge_form
from kernelweave.mkl.solve import METHODS, _features_of, check_simplex, check_warm, confirmed, steps_of
from kernelweave.results import WarmStart
from known_sets import KNOWN
from oracles import mkl_primal_by_conic
from problems import compress

SETS = {known.name: known for known in KNOWN}
LOSSES = ("squared", "hinge", "squared-hinge", "logistic", "epsilon-insensitive")
FOUR = ("simplex", "p 2", "cap 0.37", "mix 0.5")
GROUPS, C = [0, 4, 8, 12], 2.0


@pytest.fixture
def rows(rng):
    """Features, kernels of them, targets, labels, weights."""
    Z = rng.normal(size=(50, 12))
    gram = np.stack([Z[:, a:b] @ Z[:, a:b].T for a, b in itertools.pairwise(GROUPS)], axis=-1)
    t = Z[:, 0] - Z[:, 9] + 0.3 * rng.normal(size=50)
    weight = rng.uniform(0.3, 2.0, 50)
    weight[7] = 0.0
    return Z, gram, t, np.sign(t), weight


def operators(Z, gram, y, weight, known, loss):
    """Kernels in every form that fits the loss and the set, with the arguments that go with it."""
    whole = {"y": y, "sample_weight": weight}
    yield "stack", gram, whole
    yield "features", kw.FeatureStack(Z, GROUPS), whole
    if known.name in ("simplex", "mix 0.5"):
        yield "rows", kw.RowFeatures(Z, y, sample_weight=weight, groups=GROUPS), {}
    if loss == "squared" and known.name == "simplex":
        blocks = [Z[:, a:b] for a, b in itertools.pairwise(GROUPS)]
        yield "stream", kw.KernelStream(blocks), whole
        yield "statistics", kw.rows.block_statistics(Z, y, groups=GROUPS, sample_weight=weight), {}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FOUR)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_operator_has_the_same_optimum(loss, name, rows):
    Z, gram, t, labels, weight = rows
    known = SETS[name]
    classes = loss not in ("squared", "epsilon-insensitive")
    y = labels if classes else t
    best = mkl_primal_by_conic(gram, y, C * weight, known.limits, loss, intercept=loss != "squared")
    for kind, kernels, given in operators(Z, gram, y, weight, known, loss):
        problem = kw.Problem(kernels, loss=loss, weights=known.weight_set, C=C, **given)
        found = kw.solve(problem, tol=1e-7)
        assert found.status is kw.solvers.Status.CONVERGED, kind
        assert found.gap <= 1e-7 * found.primal
        # measured 2e-8, which is what the cone solver reaches
        slack = 3e-7 * best
        assert found.dual - slack <= best <= found.primal + slack, kind
        # from the numbers alone, and altered numbers are found
        assert found.verify(problem).status is kw.solvers.Status.CONVERGED
        other = replace(found, weights=np.roll(found.weights, 1))
        assert other.verify(problem).status is kw.solvers.Status.REFUTED
        other = replace(found, dual_coef=1.01 * found.dual_coef, feature_coef=1.01 * found.feature_coef)
        assert other.verify(problem).status is kw.solvers.Status.REFUTED


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_intercept_is_a_choice(loss, fit_intercept, rows):
    Z, gram, t, _, weight = rows
    y = (t + 3.0) if loss in ("squared", "epsilon-insensitive") else np.where(t > 0.5, 1.0, -1.0)
    known = SETS["simplex"]
    best = mkl_primal_by_conic(gram, y, C * weight, known.limits, loss, intercept=fit_intercept)
    for kind, kernels, given in operators(Z, gram, y, weight, known, loss):
        if kind == "stream" and fit_intercept:
            continue
        problem = kw.Problem(kernels, loss=loss, C=C, fit_intercept=fit_intercept, **given)
        found = kw.solve(problem, tol=1e-7)
        assert found.status is kw.solvers.Status.CONVERGED, kind
        assert abs(found.primal - best) <= 3e-7 * best, kind
        if not fit_intercept:
            assert not np.any(found.intercept)
            moved = replace(found, intercept=0.1)
            assert kind in ("stack", "statistics", "stream", "features") or (
                moved.verify(problem).status is kw.solvers.Status.REFUTED
            )


def test_errors_of_quadratic_forms_count_a_sum_that_is_not_zero(rows):
    """Rounding alone is below 1e-13 of the sizes; subtracting the sum moves forms by no more than is said."""
    _, gram, _, labels, _ = rows
    scale = np.array([0.5, 2.0, 1.0])
    machine = Machine(labels, 1.0, kw.losses.Hinge(), None, fit_intercept=True)
    problem = KernelProblem(as_gram(gram), machine, scale, kw.weight_sets.Simplex())
    plain = replace(problem, machine=replace(machine, fit_intercept=False))
    b = np.random.default_rng(0).normal(size=50)
    b -= b.mean()
    size = scale * np.square(np.sqrt(np.einsum("iim->mi", gram)) @ np.abs(b))
    for apart in (0.0, 1e-9, 1e-5, 1e-2):
        some = b + apart * np.abs(b)
        q, even = (scale * np.einsum("i,ijm,j->m", c, gram, c) for c in (some, balanced(some)))
        errors = problem.quad_error(some, q)
        assert (errors >= np.abs(q - even) * (1.0 - 1e-6)).all()
        assert (errors <= 1e-13 * size + 2.0 * apart * size).all()
        assert (plain.quad_error(some, q) <= 1e-13 * size).all()


def test_the_certificate_of_a_function_of_zero_has_no_unit():
    for value in (1e-9, 1.0, 1e9):
        found = of_null(value, np.zeros(3), np.zeros(2))
        assert (found.primal, found.own_gap) == (value, 0.0)
        assert 0.0 < found.rounding <= 1e-14 * value
        assert of_null(value, np.zeros(3), np.ones(2)).gap == np.inf


def test_coefficients_of_features_follow_from_weights_and_coefficients_of_rows(rows):
    Z, _, _, labels, weight = rows
    for loss in ("hinge", "logistic"):
        problem = kw.Problem(kw.FeatureStack(Z, GROUPS), labels, loss, "simplex", 0.1, weight)
        found = kw.solve(problem, tol=1e-10)
        form = problem.form
        start = _features_of(form, WarmStart(found.weights, found.dual_coef)) * form.factors
        # measured 4e-6, of coefficients that are known to the root of the gap
        np.testing.assert_allclose(start, found.feature_coef, atol=1e-4 * np.abs(found.feature_coef).max())


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_factors_are_those_of_kernels_and_weights_are_repetitions(loss, rows):
    """In every form of the kernels, and in what certifies: `scale` as kernels multiplied, weights as rows repeated."""
    Z, gram, t, labels, _ = rows
    y, factors, count = t if loss == "squared" else labels, np.array([0.5, 3.0, 1.5]), np.arange(50) % 3
    again, wide = np.repeat(np.arange(50), count), np.repeat(np.sqrt(factors), 4)
    known = SETS["simplex"]
    given = operators(Z, gram, y, count.astype(float), known, loss)
    scaled = operators((Z * wide)[again], (gram * factors)[np.ix_(again, again)], y[again], None, known, loss)
    for (what, kernels, more), (_, others, of_others) in zip(given, scaled, strict=True):
        one = kw.Problem(kernels, loss=loss, weights="simplex", C=C, scale=factors, **more)
        two = kw.Problem(others, loss=loss, weights="simplex", C=C, **of_others)
        found, wanted = kw.solve(one, tol=1e-8), kw.solve(two, tol=1e-8)
        assert found.primal == pytest.approx(wanted.primal, rel=3e-8), what
        np.testing.assert_allclose(found.weights, wanted.weights, atol=1e-3, err_msg=what)
        assert one.certify(found).rel_gap <= 1.1e-8
        for other in ({"scale": None}, {"C": 2.0 * C}):
            certified = replace(one, **other).certify(found)
            assert not certified.rel_gap <= 1e-3, what
    if loss == "squared":
        for kernels in (gram, kw.FeatureStack(Z, GROUPS)):
            with pytest.raises(InputError, match="must be False for kernels"):
                make_ridge_form(kernels, t, fit_intercept=True)
            # without an intercept by default
            form, single = make_ridge_form(kernels, np.c_[t, labels])
            assert (form.targets.shape, single) == ((2, 50), False)


def test_options_of_kernel_problems_reach_the_machine(rows):
    _, gram, t, labels, weight = rows
    factors = np.array([0.5, 3.0, 1.5])
    for fit_intercept in (True, False):
        loss = kw.losses.EpsilonInsensitive(0.3)
        problem = kw.Problem(
            gram, t, loss, kw.weight_sets.LpBall(2.0), 3.0, weight, factors, fit_intercept=fit_intercept
        ).form
        machine = problem.machine
        assert (machine.loss, machine.C, machine.fit_intercept) == (loss, 3.0, fit_intercept)
        np.testing.assert_allclose(machine.costs, 3.0 * weight)
        np.testing.assert_array_equal(problem.scale, factors)
        assert isinstance(problem.weight_set, kw.weight_sets.LpBall)
    default = kw.Problem(gram, labels, "hinge").form.machine
    assert (default.loss, default.fit_intercept) == (kw.losses.Hinge(), True)
    assert kw.Problem(gram, t, "epsilon-insensitive").form.machine.loss.epsilon == 0.1
    # rows that do not count may have any label
    labels = labels.copy()
    labels[weight == 0] = -labels[weight == 0]
    assert kw.Problem(gram, labels, "hinge", sample_weight=weight).form.machine.y.shape == (50,)


#: Steps of each method on each kind of sets; a method that a set does not have is refused.
TURNS = ["Newton", "InteriorPoint", "Newton"]
STEPS = {
    "simplex": {
        "auto": TURNS, "newton": ["Newton"], "interior-point": ["InteriorPoint"],
        "reduced-gradient": ["ReducedGradient"], "cutting-plane": ["CuttingPlane"],
    },
    "mix 0.5": {
        "auto": TURNS, "newton": ["Newton"], "interior-point": ["InteriorPoint"], "closed-form": ["ClosedForm", *TURNS],
    },
    "p 2": {"auto": ["ClosedForm"], "closed-form": ["ClosedForm"], "dual-newton": ["DualNewton", "ClosedForm"]},
}  # fmt: skip
SETS_OF_STEPS = {
    "simplex": "simplex",
    "mix 0.5": kw.weight_sets.ElasticNet(0.5),
    "p 2": kw.weight_sets.LpBall(2.0),
}


@pytest.mark.parametrize("name", STEPS)
def test_methods_are_sequences_of_steps(name, rows):
    _, gram, _, labels, _ = rows
    problem = kw.Problem(gram, labels, "hinge", SETS_OF_STEPS[name], C).form
    for method in (*METHODS, "none"):
        if method in STEPS[name]:
            found = steps_of(method, problem)
            assert [type(step).__name__ for step in found] == STEPS[name][method], method
        else:
            with pytest.raises(InputError, match="does not fit"):
                steps_of(method, problem)


def test_starting_weights_are_on_the_simplex():
    given = np.array([0.25, 0.7500001])
    np.testing.assert_allclose(check_simplex(given, 2), given / given.sum(), rtol=1e-15)
    for wrong, words in (
        ([0.5, 0.6], "sum to 1"),
        ([-0.5, 1.5], "nonneg"),
        ([1.0], "shape"),
        ([[0.5, 0.5]], "shape"),
    ):
        with pytest.raises(InputError, match=words):
            check_simplex(wrong, 2)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_limits_and_starts_reach_every_form(loss, rows):
    """A limit of k ends after k iterations; a solution is a start from which nothing is left to do."""
    Z, gram, t, labels, weight = rows
    y = t if loss == "squared" else labels
    for what, kernels, more in operators(Z, gram, y, weight, SETS["simplex"], loss):
        problem = kw.Problem(kernels, loss=loss, weights="simplex", C=20.0, **more)
        whole = kw.solve(problem, tol=1e-9)
        short = kw.solve(problem, tol=1e-9, max_iter=1)
        # descents on features and streams count the search that follows them
        assert short.n_iter <= 2, what
        assert short.status is kw.solvers.Status.MAX_ITER or whole.n_iter == 1, what
        assert problem.certify(short).gap >= (short.primal - whole.primal) * (1 - 1e-9)
        again = kw.solve(problem, tol=1e-6, start=whole)
        assert again.n_iter <= whole.n_iter, what
        told = []
        stopped = kw.solve(problem, tol=1e-9, callback=lambda *one, told=told: told.append(one) or True)
        assert len(told) == 1, what
        assert stopped.status is kw.solvers.Status.INTERRUPTED or whole.n_iter == 1, what


def test_starts_are_copied_with_all_they_hold():
    """Features' coefficients in the solver's units, the intercept, weights and coefficients of the rows."""
    b, d, w = np.array([1.0, -2.0, 1.0]), np.array([0.25, 0.75]), np.array([0.5, 2.0, 1.0, 3.0])
    given = WarmStart(d, b, w, 0.5)
    found = check_warm(given, 2, 3)
    for one, other in zip((found.weights, found.dual_coef, found.feature_coef), (d, b, w), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (found.intercept, check_warm(WarmStart(d, b, w, np.array([0.5])), 2, 3).intercept) == (0.5, 0.0)
    assert vars(check_warm(None, 2, 3)) == vars(WarmStart())
    assert check_warm(WarmStart(), 2, 3).weights is None
    for wrong in (WarmStart(d[:1]), WarmStart(None, b[:2]), WarmStart(np.array([np.nan, 1.0])), "weights"):
        with pytest.raises(InputError, match="start"):
            check_warm(wrong, 2, 3)
    Z, factors = np.random.default_rng(0).normal(size=(6, 4)), np.array([4.0, 0.25])
    weight = np.array([1.0, 0.0, 2.0, 1.0, 1.0, 1.0])
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    stack = kw.FeatureStack(Z, [0, 2, 4])
    # decision values of the coefficients that a solver starts from are those of what was given
    for more in ({}, {"sample_weight": weight}):
        form = kw.Problem(stack, y, "hinge", scale=factors, **more).form
        kept = np.arange(6) if not more else np.flatnonzero(weight)
        own = _features_of(form, WarmStart(None, None, w))
        np.testing.assert_allclose(own * form.factors, w, rtol=1e-14)
        c = np.array([1.0, -1.0, 2.0, 0.5, -0.5, 1.0])
        own = _features_of(form, WarmStart(d, c))
        wide = np.repeat(factors * d, 2)
        np.testing.assert_allclose(own * form.factors, wide * (Z[kept].T @ c[kept]), rtol=1e-12)
        assert _features_of(form, WarmStart(d)) is None
        assert _features_of(form, WarmStart(None, c)) is None


def test_feasible_are_coefficients_that_all_are():
    machine = Machine(np.array([1.0, -1.0]), 2.0, kw.losses.Hinge())
    inside, beyond = np.array([1.0, -1.0]), np.array([3.0, -3.0])
    for rows, wanted in (([inside], True), ([inside, beyond], False), ([beyond, inside], False), ([], True)):
        assert feasible(machine, np.array(rows).reshape(-1, 2)) == wanted
    # weights of a proof or of a solution that are outside have no bounds
    found = outside("cuts")
    assert (found.kind, found.primal, found.gap, found.status) == (
        "cuts",
        np.inf,
        np.inf,
        kw.solvers.Status.REFUTED,
    )


def test_thin_calls_have_the_same_numbers(rows):
    Z, gram, t, labels, weight = rows
    for kernels in (gram, kw.FeatureStack(Z, GROUPS)):
        one = kw.solve_rls2(kernels, t, 0.25, sample_weight=weight)
        two = kw.solve(kw.Problem(kernels, t, C=4.0, sample_weight=weight))
        np.testing.assert_allclose(two.weights, one.weights)
        np.testing.assert_allclose(two.dual_coef, one.dual_coef)
        assert two.primal == pytest.approx(4.0 * one.primal, rel=1e-12)
        assert two.alpha == one.alpha
        for loss in ("hinge", "logistic"):
            one = kw.solve_svm_mkl(kernels, labels, C, "simplex", loss=loss, tol=1e-6)
            two = kw.solve(kw.Problem(kernels, labels, loss, "simplex", C), tol=1e-6)
            np.testing.assert_array_equal(two.weights, one.weights)
            assert two.primal == one.primal


def test_several_outputs_share_their_weights(rows):
    _, gram, t, labels, _ = rows
    Y = np.column_stack([t, labels])
    one, two = kw.solve_rls2(gram, Y, 0.5), kw.solve(kw.Problem(gram, Y, C=2.0))
    np.testing.assert_allclose(two.dual_coef, one.dual_coef)
    assert two.verify(kw.Problem(gram, Y, C=2.0)).status is kw.solvers.Status.CONVERGED


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_features_at_another_cost_are_those_of_a_problem_stated_with_it(loss, rows):
    Z, _, t, labels, weight = rows
    stated = kw.Problem(
        kw.FeatureStack(Z, GROUPS), t if loss == "squared" else labels, loss, sample_weight=weight
    )
    form, fresh = stated.form.at(1.0), replace(stated).form.at(7.0)
    # `machine` is compared by its parts, and `_first` is of streams
    kept = [name for name, one in vars(type(form)).items() if isinstance(one, cached_property)]
    named = sorted({*kept} - {"machine", "_first"})
    assert form.machine.C == 1.0
    # what is computed here must not be taken over where it depends on the cost
    named = [name for name in named if getattr(form, name) is not None]
    other = form.at(7.0)
    assert "costs" in named
    for name in named:
        np.testing.assert_allclose(getattr(other, name), getattr(fresh, name), rtol=1e-13, err_msg=name)
    assert other.machine.C == fresh.machine.C == 7.0


def test_a_start_and_a_limit(rows):
    _, gram, _, labels, _ = rows
    problem = kw.Problem(gram, labels, kw.losses.Hinge(), C=10.0)
    whole = kw.solve(problem, tol=1e-8)
    again = kw.solve(problem, tol=1e-6, start=whole)
    assert again.n_iter <= whole.n_iter
    seen = []
    stopped = kw.solve(problem, tol=1e-12, callback=lambda *told: seen.append(told) or True)
    assert stopped.status is kw.solvers.Status.INTERRUPTED
    assert len(seen) == 1
    assert kw.solve(problem, tol=1e-12, max_time=1e-9).status is kw.solvers.Status.MAX_TIME


def test_callbacks_of_least_squares_are_told_the_objective_of_the_problem(rows):
    _, gram, t, _, _ = rows
    seen = []
    found = kw.solve(
        kw.Problem(gram, t, C=100.0), tol=1e-10, callback=lambda *told: seen.append(told[1]) and False
    )
    assert seen[-1] == pytest.approx(found.primal, rel=1e-9)
    assert found.trace["objective"][-1] == pytest.approx(found.primal, rel=1e-9)


def test_a_solver_that_says_too_much_is_not_believed(rows):
    """A status is CONVERGED only if the problem says so."""
    Z, _, _, labels, _ = rows
    problem = kw.Problem(kw.FeatureStack(Z, GROUPS), labels, kw.losses.Hinge(), C=10.0)
    found = kw.solve(problem, tol=1e-6)
    wrong = replace(found, weights=np.roll(found.weights, 1))
    told = confirmed(problem, wrong, 1e-6)
    assert told.status is not kw.solvers.Status.CONVERGED
    assert told.gap > 1e-6 * told.primal
    assert confirmed(problem, found, 1e-6) is found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"C": 0.0}, "`C`"),
        ({"loss": "cubic"}, "a Loss"),
        ({"weights": "cube"}, "`weights` must be 'simplex'"),
        ({"loss": "hinge"}, "-1 and"),
        ({"y": None}, "`y`"),
    ],
)
def test_what_does_not_go_together_is_said(given, words, rows):
    _, gram, t, _, _ = rows
    with pytest.raises(InputError, match=words):
        kw.solve(kw.Problem(gram, **({"y": t} | given)))


def test_sums_and_streams_are_for_least_squares(rows):
    Z, _, t, labels, _ = rows
    with pytest.raises(InputError, match="Squared"):
        kw.Problem(kw.rows.block_statistics(Z, t, groups=GROUPS), loss="hinge")
    with pytest.raises(InputError, match="KernelStream"):
        kw.Problem(kw.KernelStream([Z[:, :4], Z[:, 4:]]), labels, "hinge")
    with pytest.raises(InputError, match="does not fit"):
        kw.solve(kw.Problem(kw.FeatureStack(Z, GROUPS), t), solver="interior-point")


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_messages_name_no_other_argument(loss):
    """Kernels are `kernels` here and `gram` elsewhere."""
    gram, y = np.ones((6, 6, 2)) + np.eye(6)[:, :, None], np.array([-1.0, 1.0] * 3)
    nan = gram.copy()
    for place in ((2, 2, 1), (2, 3, 1)):
        nan[place] = np.nan
        with pytest.raises(InputError, match=r"^Kernels must be finite, and kernel 1 holds NaN"):
            kw.Problem(nan, y, loss=loss)
        nan = gram.copy()
    with pytest.raises(InputError, match=r"^Kernels must have shape"):
        kw.Problem(gram[:4], y, loss=loss)
    with pytest.raises(InputError, match=r"got kernels of shape \(6, 6, 0\)"):
        kw.Problem(gram[:, :, :0], y, loss=loss)


def test_messages_name_the_solver():
    gram, y = np.ones((6, 6, 2)) + np.eye(6)[:, :, None], np.array([-1.0, 1.0] * 3)
    for loss, solver, said in (
        ("hinge", "closed-form", "does not fit"),
        ("logistic", "interior-point", "needs a loss whose dual"),
    ):
        with pytest.raises(InputError, match=f"^`solver`='{solver}' {said}"):
            kw.solve(kw.Problem(gram, y, loss=loss), solver=solver)
    with pytest.raises(InputError, match=r"^`solver` must be 'auto' for RowFeatures"):
        kw.solve(kw.Problem(kw.RowFeatures(gram[:, :, 0], y=y), loss="hinge"), solver="newton")


def test_exported_certificates_are_judged(rows, tmp_path):
    import subprocess
    import sys

    from kernelweave import judge

    _, gram, t, labels, weight = rows
    for loss, y in (("squared", t), ("hinge", labels), ("logistic", labels)):
        problem = kw.Problem(gram, y, loss=loss, C=C, sample_weight=weight)
        found = kw.solve(problem, tol=1e-6)
        np.savez(tmp_path / "data.npz", kernels=gram, y=y)
        found.export_certificate(tmp_path / "fit.kwcert", problem, kernels=gram, y=y)
        done = subprocess.run(
            [sys.executable, judge.__file__, tmp_path / "fit.kwcert", tmp_path / "data.npz"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", [*published.MARGIN, *published.RIDGE])
def test_a_published_algorithm_that_is_not_installed_gets_one_clear_error(name, rng, monkeypatch):
    X = rng.normal(size=(20, 3))
    gram, y = X[:, None, :] * X[None, :, :], np.sign(X[:, 0])
    loss = "squared" if name in published.RIDGE else "hinge"
    problem = kw.Problem(gram, y, loss=loss, C=1.0)
    assert kw.solve(problem, solver=name, tol=1e-2, max_iter=5).n_iter >= 1
    published.published.cache_clear()
    monkeypatch.setattr(published, "entry_points", lambda **_: ())
    try:
        with pytest.raises(
            kw.InputError, match=f"'{name}' is a published algorithm that is not part of this"
        ):
            kw.solve(problem, solver=name)
    finally:
        published.published.cache_clear()


def test_forms_on_a_stack_are_bounds_where_factors_leave_something_out(rng):
    """Of kernels ``Z'Z + R`` with a diagonal R that the factors lack, for all kernels and some of them."""
    rows, left = rng.normal(size=(5, 9)), np.array([0.3, 0.0, 2.0])
    problem = OnStack()
    problem.gram = FactorGram(rows, np.array([0, 2, 3, 5]), left)
    problem.scale = np.array([0.5, 2.0, 3.0])
    c = rng.normal(size=(2, 9))
    kept = np.array([np.square(c @ rows[a:b].T).sum() for a, b in ((0, 2), (2, 3), (3, 5))])
    wanted = problem.scale * (kept + left * np.square(c).sum())
    np.testing.assert_allclose(problem.quad(c), wanted, rtol=1e-12)
    np.testing.assert_allclose(problem.quad(c, np.array([2, 0])), wanted[[2, 0]], rtol=1e-12)
    products = problem.products(c, np.array([2]))
    np.testing.assert_allclose(products, [3.0 * (c @ rows[3:].T) @ rows[3:]], rtol=1e-12)


# ---- recorded -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fixed():
    """Rows with weights, factors of kernels, and kernels in four forms."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(20, 7))
    groups = [0, 3, 4, 7]
    gram = np.stack([Z[:, a:b] @ Z[:, a:b].T for a, b in itertools.pairwise(groups)], axis=-1)
    y = Z[:, 0] - 2.0 * Z[:, 3] + 0.5 * rng.normal(size=20)
    weights = np.where(np.arange(20) % 7 == 3, 0.0, 0.5 + np.arange(20) / 20)
    forms = {"matrices": gram, "features": kw.FeatureStack(Z, groups)}
    return forms, y, {"sample_weight": weights, "scale": np.array([0.5, 2.0, 1.0])}


@pytest.mark.parametrize("loss", ["squared", "hinge", "squared-hinge", "logistic", "epsilon-insensitive"])
@pytest.mark.parametrize("form", ["matrices", "features"])
def test_solutions_and_what_problems_say_of_them(form, loss, fixed, recorded):
    forms, t, known = fixed
    y = t if loss in ("squared", "epsilon-insensitive") else np.sign(t)
    for name, weights in (("simplex", "simplex"), ("net", kw.weight_sets.ElasticNet(0.4))):
        problem = kw.Problem(forms[form], y, loss=loss, weights=weights, C=1.7, **known)
        found = kw.solve(problem, tol=1e-8)
        record_solved(recorded, name, found)
        inside = problem.weights.project(found.weights + 0.1 * np.eye(3)[0])
        moved = found.intercept + 0.1 * bool(found.intercept)
        changed = replace(found, weights=inside)
        shorter = replace(found, dual_coef=0.8 * found.dual_coef, intercept=moved)
        assert problem.certify(found).primal == pytest.approx(found.primal, rel=1e-9)
        said = [problem.certify(one) for one in (changed, shorter)]
        recorded(f"{name}, said of others", [[one.primal, one.own_gap] for one in said], rtol=1e-3)
        recorded(f"{name}, statement", vars(problem.statement(found)))
        start = kw.results.WarmStart(np.array([0.2, 0.5, 0.3]), 0.5 * found.dual_coef)
        again = kw.solve(problem, tol=1e-6, start=start, max_iter=2)
        assert again.n_iter <= 2
        assert found.primal * (1 - 1e-8) <= again.primal


def test_bounds_of_truncated_kernels(fixed, recorded):
    forms, t, known = fixed
    stack = compress(gram_from_stack(forms["matrices"] + 1e-3 * np.eye(20)[:, :, None]), tol=1e-3, max_rank=8)
    problem = kw.Problem(stack, np.sign(t), loss="hinge", C=1.7, **known).form
    b = problem.machine.y * problem.machine.costs * np.linspace(0.2, 0.8, 20)
    b[problem.machine.y > 0] *= -b[problem.machine.y < 0].sum() / b[problem.machine.y > 0].sum()
    weights, proof = np.array([0.3, 0.7, 0.0]), b[None]
    product, error = problem.product(weights, b)
    q = problem.quad(b)
    found = {
        "residual": problem.residual,
        "product": product,
        "forms": [q, problem.quad(b, np.array([2, 0])), problem.quad_of(b, problem.products(b))],
        "left out": problem.left_out(weights, b),
        "outer": problem.outer_gap(weights, b)[0],
        "bound": problem.bound(b)[0],
        "combined": problem.combine(weights),
    }
    solution = kw.results.Solution(weights, b, 0.2, kw.results.Certificate("joint", 9.0, 1.0, 0.0), 1)
    said = [problem.certify(one) for one in (solution, replace(solution, proof=proof))]
    found["said"] = [[one.kind, one.primal, one.gap, one.status.name] for one in said]
    recorded("numbers", found, **NEAR)
    away = [error, problem.quad_error(b, q), problem.outer_gap(weights, b)[1], problem.bound(b)[1]]
    recorded("errors", [1e12 * np.asarray(one) for one in away], rtol=0.1)
    # coefficients whose sum is not zero
    for intercept in (True, False):
        machine = replace(problem.machine, fit_intercept=intercept)
        wrong = replace(problem, machine=machine).quad_error(b + 0.01, q)
        recorded(f"errors {intercept}", wrong if intercept else 1e12 * wrong, **NEAR)
    recorded("of the dual term", [1e12 * term_error(problem.machine, b)], **NEAR)


def test_words_of_refusals(fixed, recorded):
    forms, t, _ = fixed
    y, said = np.sign(t), {}
    cases = {
        "solver": lambda: kw.solve(kw.Problem(forms["matrices"], t), solver="closed-form"),
        "solver of a set": lambda: kw.solve_svm_mkl(forms["matrices"], y, 1.0, solver="dual-newton"),
        "loss": lambda: kw.solve_svm_mkl(forms["matrices"], y, 1.0, loss="logistic", solver="interior-point"),
        "start": lambda: kw.solve(kw.Problem(forms["matrices"], t), start=np.ones(3)),
        "start's weights": lambda: kw.solve(
            kw.Problem(forms["matrices"], t), start=kw.results.WarmStart(np.ones(2))
        ),
        "start outside": lambda: kw.solve_rls2(forms["matrices"], t, 1.0, start=np.ones(3)),
        "start's shape": lambda: kw.solve_rls2(forms["matrices"], t, 1.0, start=np.ones(2)),
        "y": lambda: kw.Problem(forms["matrices"], y[:3], loss="hinge"),
        "y of features": lambda: kw.Problem(forms["features"], y[:3], loss="hinge"),
        "no y": lambda: kw.rls2_path(forms["matrices"]),
        "an intercept": lambda: kw.rls2_path(forms["matrices"], t, fit_intercept=True),
        "statistics": lambda: kw.Problem(
            kw.BlockStatistics([0, 1]).add(np.ones((3, 1)), y[:3]), loss="hinge"
        ),
    }
    for name, case in cases.items():
        with pytest.raises(kw.InputError) as refused:
            case()
        said[name] = str(refused.value)
    recorded("said", said)
