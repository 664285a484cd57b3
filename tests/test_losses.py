"""The formulas of every loss: conjugates, their slopes and gaps as sums, and that a wrong formula is found.

Modules: `machines/loss`, `machines/losses`, `machines/smooth`, `machines/reweighted`, `machines/box`, `machines/smo`.
"""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import kernelweave as kw
from kernelweave._allowance import allowed
from kernelweave.machines import loss as loss_module
from kernelweave.machines.box import UNBOUNDED, kernel_product
from kernelweave.machines.loss import BoxLoss, Loss
from kernelweave.machines.losses import LOSSES, Quantile, as_loss
from kernelweave.machines.machine import Machine
from kernelweave.machines.smooth import Augmented, Smooth, crossing, limits_of, smooth_loss, unit_of
from oracles import central_difference
from problems import targets_for

#: Those that are sums over rows; the others are in test_survival.
ROWWISE = [name for name, kind in LOSSES.items() if kind.rowwise]
EVERY = pytest.mark.parametrize("name", ROWWISE)
SMOOTH = [name for name in ROWWISE if LOSSES[name].smooth]


#: Defaults of each loss, and whether it is of labels, fits an intercept, gives scores, is smooth, and is a sum of rows.
KNOWN = {
    "hinge": ({}, True, True, False, False, True),
    "squared-hinge": ({}, True, True, False, True, True),
    "epsilon-insensitive": ({"epsilon": 0.1}, False, True, False, False, True),
    "squared": ({}, False, False, False, True, True),
    "huber": ({"delta": 1.0}, False, True, False, False, True),
    "quantile": ({"q": 0.5}, False, True, True, False, True),
    "poisson": ({}, False, True, True, True, True),
    "logistic": ({}, True, True, False, True, True),
    "cox": ({"stratified": False, "ties": "breslow"}, False, True, True, True, False),
}


@pytest.mark.parametrize("name", KNOWN)
def test_losses_have_the_defaults_and_the_kind_that_users_know(name):
    kind = LOSSES[name]
    defaults = {one.name: one.default for one in fields(kind)} if is_dataclass(kind) else {}
    own = kind.classifies, kind.fits_intercept, kind.scores, kind.smooth, kind.rowwise
    assert (defaults, *own) == KNOWN[name]
    assert vars(kind()) == defaults
    assert as_loss(name) == kind()


def test_the_page_of_losses_and_the_command_line_name_them_all():
    pytest.importorskip("cyclopts")
    from kernelweave_app.cli.rows import margins

    own = {name for name, kind in LOSSES.items() if kind.__module__.startswith("kernelweave.")}
    assert {name for name in own if f'"{name}"' not in kw.losses.__doc__} == set()
    words = margins.__doc__.partition("    loss\n")[2].partition("    cs\n")[0].replace(",", " ").split()
    assert {name for name in own if LOSSES[name].rowwise} <= {*words}


def problem(name, rng, n=40, C=3.0):
    """A kernel, a machine with weights of rows, and its solution."""
    X = rng.normal(size=(n, 3))
    t = X[:, 0] + 0.5 * rng.normal(size=n)
    loss = as_loss(name)
    y = np.where(t > 0, 1.0, -1.0) if loss.classifies else targets_for(name, t)
    K = X @ X.T + np.exp(-np.square(X[:, None] - X[None]).sum(-1))
    return K, Machine(y, C, loss, rng.uniform(0.2, 2.0, n))


def feasible(machine, rng):
    """Coefficients that the dual allows, of sum zero, some of them zero."""
    y, costs = machine.y, machine.costs
    b = costs * rng.uniform(0.05, 0.9, len(y))
    b = b * y if machine.loss.classifies else b * np.where(rng.random(len(y)) < 0.5, 1.0, -1.0)
    low, high = machine.loss.bounds(y, costs)
    b = np.where(b > 0, b * np.minimum(high / costs, 1.0), b * np.minimum(-low / costs, 1.0))
    b[:3] = 0.0
    above, below = b[b > 0].sum(), -b[b < 0].sum()
    return np.where(b > 0, b * min(1.0, below / above), b * min(1.0, above / below))


def conjugate(loss, y, b):
    """``max_f -b f - loss(y, f)`` of one row with weight 1, by trying: with the sign that the dual term has."""

    def value(f):
        return float(b * f + loss.value(np.array([y]), np.array([f]))[0])

    # a scan for the valley, which is convex, then a search inside of it
    grid = np.linspace(-60.0, 60.0, 4001)
    k = int(np.argmin([value(f) for f in grid]))
    bounds = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    return min(
        minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 1e-12}).fun, value(grid[k])
    )


@EVERY
def test_what_is_declared_of_losses_holds(name):
    loss, f = as_loss(name), np.linspace(-3.0, 3.0, 12_001)
    values = loss.value(np.ones_like(f), f)
    jumps = np.abs(np.diff(values, 2)) / (f[1] - f[0])
    assert loss.piecewise_linear == (np.count_nonzero(jumps > 1e-9) <= 4)
    assert loss.squares == np.allclose(values, 0.5 * np.square(1.0 - f))
    # Huber's has a derivative, and is not for Newton as it is
    assert loss.smooth == (jumps.max() < 0.05 and name != "huber")


@pytest.mark.slow
@EVERY
def test_the_dual_term_is_that_of_the_conjugate(name, rng):
    """Minus the conjugates of ``C_i loss`` at ``-b_i``, row by row; measured: 1e-13."""
    loss = as_loss(name)
    y = np.array([-1.0, 1.0]) if loss.classifies else targets_for(name, rng.normal(size=2))
    for target in y:
        sign = target if loss.classifies else 1.0
        for share in (0.01, 0.3, 0.7, 0.99):
            costs = np.array([2.5])
            low, high = loss.bounds(np.array([target]), costs)
            b = np.minimum(costs, high) * share if sign > 0 else np.maximum(-costs, low) * share
            own = loss.dual_term(np.array([target]), costs, b)
            assert own == pytest.approx(2.5 * conjugate(loss, target, float(b[0]) / 2.5), abs=1e-7)


@EVERY
def test_conjugates_are_continuous_up_to_their_bounds_and_infinite_beyond(name):
    loss, one = as_loss(name), np.ones(1)
    y = np.array([1.0])
    for end in loss.bounds(y, one):
        if 0.0 < abs(end[0]) < UNBOUNDED:
            at, far, near = (
                float(loss.conjugate(y, share * end)[0]) for share in (1.0, 1.0 - 1e-4, 1.0 - 1e-12)
            )
            # a jump is the same from any distance; a root there, of infinite slope, is not
            assert abs(at - near) <= 0.1 * abs(at - far) + 1e-9
            assert loss.conjugate(y, 1.001 * end)[0] == np.inf


def assert_sums(machine, K, b):
    """The gap is primal less dual; the sum of b is zero but for rounding: measured 1e-14."""
    for intercept in (None, 0.3):
        at = machine.values(b, K @ b, intercept)
        dual = machine.dual_term(b) - 0.5 * b @ K @ b
        assert at.gap == pytest.approx(at.primal - dual, abs=1e-11 * max(at.primal, abs(dual)))
        assert at.gap >= 0.0
        # values of box losses follow from the box, and not from these formulas
        own = machine.y, machine.costs
        f = K @ b + at.intercept
        assert at.primal == pytest.approx(0.5 * b @ K @ b + machine.loss.total(*own, f), rel=1e-12)
        assert at.gap == pytest.approx(machine.loss.gap(*own, b, f), rel=1e-9, abs=1e-12 * at.primal)


@EVERY
def test_the_gap_is_primal_less_dual(name, rng):
    K, machine = problem(name, rng)
    for b in (feasible(machine, rng), machine.solve(K, tol=1e-10).dual_coef):
        assert_sums(machine, K, b)


@EVERY
def test_slopes_are_those_of_differences(name, rng):
    _, machine = problem(name, rng)
    y, costs, loss = machine.y, machine.costs, machine.loss
    b, step = feasible(machine, rng), 1e-6
    rows = np.flatnonzero(b)
    slope = loss.dual_slope(y, costs, b)
    f = rng.normal(size=len(y))
    for i in rows:
        e = step * (np.arange(len(y)) == i)
        ahead, behind = loss.dual_term(y, costs, b + e), loss.dual_term(y, costs, b - e)
        assert slope[i] == pytest.approx((ahead - behind) / (2 * step), abs=1e-6)
    change = costs * (loss.value(y, f + step) - loss.value(y, f - step)) / (2 * step)
    np.testing.assert_allclose(costs * loss.slope(y, f), change, atol=1e-6)


@EVERY
def test_proximal_steps_are_maxima_and_have_their_slopes(name, rng):
    """Of ``dual term - b f - (b - centre)^2 / (2 pull)``, by trying other coefficients; slopes by differences."""
    _, machine = problem(name, rng)
    y, costs, loss = machine.y, machine.costs, machine.loss
    centre, pull = feasible(machine, rng), rng.uniform(0.3, 2.0, len(y)) * costs
    f = 1.5 * rng.normal(size=len(y))
    b = loss.proximal(y, costs, centre, pull, f)
    low, high = loss.bounds(y, costs)
    assert ((b >= low - 1e-14) & (b <= high + 1e-14)).all()

    def value(i, b_i):
        row = slice(i, i + 1)
        term = loss.dual_term(y[row], costs[row], np.array([b_i]))
        return term - b_i * f[i] - (b_i - centre[i]) ** 2 / (2.0 * pull[i])

    for i in range(len(y)):
        for step in (1e-3, -1e-3):
            assert value(i, np.clip(b[i] + step, low[i], high[i])) <= value(i, b[i]) + 1e-13
    step = 1e-5
    up, down = (loss.proximal(y, costs, centre, pull, f + sign * step) for sign in (1.0, -1.0))
    # away from kinks, between which some rows lie with box losses
    smooth = np.abs(up - 2.0 * b + down) < 1e-7
    assert smooth.sum() > 30
    slope = loss.proximal_slope(y, costs, centre, pull, f, b)
    np.testing.assert_allclose(slope[smooth], (down - up)[smooth] / (2.0 * step), rtol=1e-4, atol=1e-7)
    assert (np.abs(slope) > 1e-3).any()


@EVERY
def test_the_intercept_is_the_best_one(name, rng):
    K, machine = problem(name, rng)
    y, costs, loss = machine.y, machine.costs, machine.loss
    product = K @ feasible(machine, rng)

    def value(t):
        return float(costs @ loss.value(y, product + t))

    best = minimize_scalar(value, bounds=(-30.0, 30.0), method="bounded", options={"xatol": 1e-10}).fun
    assert value(loss.intercept(y, costs, product)) <= best * (1 + 1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_free_rows_answer_as_the_system_says(name, rng):
    """How coefficients move with the kernel: the derivative of b along a change of K, against differences."""
    K, machine = problem(name, rng)
    A = rng.normal(size=(len(K), 2))
    change, step = A @ A.T, 1e-4
    b = machine.solve(K, tol=1e-15).dual_coef
    rows = machine.free(b)
    system = machine.loss.system(K, machine.y, machine.costs, b, rows)
    moved = np.zeros(len(b))
    moved[rows], _ = system.solve(-(change @ b)[rows])
    ends = [machine.solve(K + sign * step * change, tol=1e-15).dual_coef for sign in (1, -1)]
    # coefficients are known to the root of the gap; measured 2e-4
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), moved, atol=2e-3 * np.abs(moved).max())


# ---- probabilities that leave the range of numbers -------------------------------------------------------------------


def test_rows_that_are_sure_count_with_their_logarithm():
    """A probability of exp(-1e4) is zero in floating point, and its share of the gap 1e4 times the coefficient."""
    loss = as_loss("logistic")
    y, costs = np.array([1.0, -1.0]), np.ones(2)
    for size in (1e-300, 1e-10, 0.3, 1.0 - 1e-12):
        b = np.array([size, -size])
        for f in (np.array([1e4, -1e4]), np.array([-1e4, 1e4]), np.array([3.0, -2.0])):
            gap = loss.gap(y, costs, b, f)
            direct = loss.value(y, f).sum() - loss.dual_term(y, costs, b) + b @ f
            # the direct sum loses what the terms have in common
            assert gap == pytest.approx(direct, rel=1e-9, abs=1e-11)


# ---- what wrong formulas do ------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("formula", ["dual_term", "gap", "total"])
def test_half_a_sum_is_found(name, formula, rng):
    K, machine = problem(name, rng)
    half = changed(machine.loss, formula, lambda right, *args: 0.5 * right(*args))
    with pytest.raises(AssertionError):
        assert_sums(replace(machine, loss=half), K, feasible(machine, rng))


def changed(loss, formula, change):
    """A loss with another value of a formula."""
    kind = type(loss)
    right = getattr(kind, formula)
    more = {formula: lambda self, *args: change(lambda *new: right(self, *new), *args)}
    return type(f"Other{kind.__name__}", (kind,), more)(**vars(loss))


@EVERY
def test_named_losses_pass_the_check_of_formulas_and_wrong_ones_do_not(name, rng):
    """Young's inequality, which losses of a user's own have to pass in every fit: a sign, a factor, a constant."""
    _, machine = problem(name, rng)
    y, loss = machine.y, machine.loss
    loss._check_formulas(y)
    wrong = {
        "value": [lambda right, y, f: 0.5 * right(y, f), lambda right, y, f: right(y, f) + 0.01],
        "slope": [lambda right, y, f: -right(y, f), lambda right, y, f: 2.0 * right(y, f)],
        "conjugate": [lambda right, y, b: right(y, -b), lambda right, y, b: right(y, b) - 0.01],
    }
    for formula, changes in wrong.items():
        for change in changes:
            with pytest.raises(kw.InputError, match=r"The formulas of Other.* disagree"):
                changed(loss, formula, change)._check_formulas(y)


def test_klr_at_one_kernel_is_mkl_over_a_point(rng):
    K, machine = problem("logistic", rng)
    one = kw.solvers.solve_klr(K, machine.y, 3.0, tol=1e-10)
    two = kw.solve_svm_mkl(K[:, :, None], machine.y, 3.0, loss="logistic", tol=1e-10)
    assert two.primal == pytest.approx(one.primal, rel=1e-10)


@pytest.mark.parametrize("name", [n for n in ROWWISE if n != "logistic"])
def test_rows_of_weight_zero_do_not_move_the_intercept(name, rng):
    loss = as_loss(name)
    for _ in range(20):
        n = 15
        t = rng.normal(size=n)
        y = np.where(t > 0, 1.0, -1.0) if loss.classifies else targets_for(name, t)
        if loss.classifies and abs(y.sum()) == n:
            continue
        costs, product = rng.uniform(0.2, 2.0, n), rng.normal(size=n)
        strangers = rng.normal(size=6) * 100
        more = np.sign(strangers) if loss.classifies else targets_for(name, strangers)
        alone = loss.intercept(y, costs, product)
        together = loss.intercept(np.r_[y, more], np.r_[costs, np.zeros(6)], np.r_[product, strangers])
        assert together == pytest.approx(alone, rel=1e-12, abs=1e-12)


def test_the_dual_term_of_the_logistic_loss_is_exact_for_small_shares():
    """Costs of 1e12 times the coefficients: the term of 1 - a is as large as a, and not its rounding error."""
    loss, costs = as_loss("logistic"), np.geomspace(1.0, 1e16, 60)
    b = 1e-3 * np.linspace(0.1, 1.0, 60)
    a = b.astype(np.longdouble) / costs.astype(np.longdouble)
    expected = -(costs * (a * np.log(a) + (1 - a) * np.log1p(-a))).sum()
    assert loss.dual_term(np.ones(60), costs, b) == pytest.approx(float(expected), rel=1e-14)


@pytest.mark.parametrize("name", ["hinge", "squared-hinge", "squared", "logistic"])
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_labels_that_are_all_the_same_have_the_best_finite_value(name, label, rng):
    """The label where it has no loss; else the best one for one row more, half of each label, found by a search."""
    loss, weights = as_loss(name), rng.uniform(0.5, 3.0, 9)
    found = Machine(np.full(9, label), 7.0, loss, weights).constant

    def total(f):
        own, other = loss.value(np.array([label, -label]), np.array([f, f]))
        return (weights.sum() + 0.5) * own + 0.5 * other

    expected = minimize_scalar(total, bounds=(-20, 20), method="bounded").x if name == "logistic" else label
    # the search ends 1e-5 apart
    assert found == pytest.approx(expected, abs=1e-4)
    repeated = Machine(np.full(5, label), 1.0, loss).constant
    assert Machine(np.full(1, label), 1.0, loss, np.full(1, 5.0)).constant == repeated


@EVERY
def test_sides_are_the_dual_of_the_loss(name, rng):
    """What the interior point solves has the losses, the coefficients and the dual term of the loss."""
    _, machine = problem(name, rng)
    y, costs, loss = machine.y, machine.costs, machine.loss
    sides = loss.sides(y, costs)
    assert (sides is not None) == loss.quadratic
    if sides is None:
        return
    for size in (0.3, 3.0):
        f = size * rng.normal(size=len(y))
        assert sides.loss(f) == pytest.approx(float(costs @ loss.value(y, f)), rel=1e-12)
    low, high = loss.bounds(y, costs)
    ends = sides.sign * np.minimum(np.broadcast_to(sides.upper, sides.sign.shape), UNBOUNDED)
    np.testing.assert_allclose(np.minimum(ends, 0.0).sum(axis=0), low)
    np.testing.assert_allclose(np.maximum(ends, 0.0).sum(axis=0), high)
    b = feasible(machine, rng)
    a = np.maximum(sides.sign * b, 0.0)
    dual = np.sum(sides.gain * a) - 0.5 * np.sum(sides.ridge * np.square(a))
    assert dual == pytest.approx(loss.dual_term(y, costs, b), rel=1e-12)
    start = (sides.sign * sides.start).sum(axis=0)
    assert abs(start.sum()) <= 1e-12 * np.abs(start).sum()


def test_of_many_rows_the_intercept_is_the_middle_of_a_flat_piece(rng):
    """A sum of 10 000 slopes is not zero by rounding; the best intercepts are all between two residuals."""
    y = np.sort(rng.normal(size=10_000))
    y[3_000:] += 1.0
    costs, product = np.ones(len(y)), np.zeros(len(y))
    order = rng.permutation(len(y))
    found = Loss.intercept(Quantile(0.3), y[order], costs, product)
    assert found == pytest.approx(0.5 * (y[2_999] + y[3_000]), rel=1e-12)
    # a slope that is small, but not by rounding, leads to one end
    costs[:3_000] += 1e-10
    found = Loss.intercept(Quantile(0.3), y[order], costs[order], product)
    assert found == pytest.approx(y[2_999], rel=1e-12)


@EVERY
def test_the_intercept_balances_coefficients_of_any_size(name, rng):
    """Of the smoothed dual, from far away too, where its curvature is zero."""
    _, machine = problem(name, rng)
    product = 3.0 * rng.standard_cauchy(len(machine.y))
    for scale in (1e-10, 1.0):
        costs = scale * machine.costs
        centre = scale * np.minimum(np.maximum(rng.normal(size=len(costs)), -0.1), 0.1)
        smooth = Augmented(machine.loss, machine.y, costs, centre=centre, radius=1.0)
        for start in (0.0, -40.0, 300.0):
            b = smooth.coefficients(product + smooth.intercept(product, start))
            assert abs(b.sum()) <= 1e-12 * np.abs(b).sum()


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_only_gaps_near_rounding_have_a_longer_product(name, rng, monkeypatch):
    K, machine = problem(name, rng)
    calls = []

    def product(*given, long=False):
        calls.append(long)
        return kernel_product(*given, long=long)

    monkeypatch.setattr(loss_module, "kernel_product", product)
    usual = machine.solve(K, tol=1e-9)
    least = usual.certificate.rounding / usual.primal
    assert machine.solve(K, tol=20.0 * least).status is kw.solvers.Status.CONVERGED
    assert calls == [False, False]
    # the gap of the usual product has this share of rounding errors, and cannot be smaller
    assert machine.solve(K, tol=0.6 * least).status is kw.solvers.Status.CONVERGED
    assert calls == [False, False, False, True]
    # longer sums make entries no better
    machine.solve(K, tol=0.6 * least, entry_error=1e-15)
    assert calls == [False, False, False, True, False]


@EVERY
def test_rounding_has_the_unit_of_the_objective(name, rng):
    """Kernels times s and C over s are the same problem over s, also for bounds of its rounding; s rounds nothing."""
    X = rng.normal(size=(40, 3))
    y = np.sign(X[:, 0]) if LOSSES[name].classifies else targets_for(name, X[:, 0])
    stacks = X[:, None, :] * X[None, :, :], kw.FeatureStack(X)
    s = 2.0**20
    for gram, larger in zip(stacks, (s * stacks[0], kw.FeatureStack(2.0**10 * X)), strict=True):
        one = kw.solve_svm_mkl(gram, y, 1.0, loss=name, tol=1e-6)
        other = kw.solve_svm_mkl(larger, y, 1.0 / s, loss=name, tol=1e-6)
        assert other.primal * s == pytest.approx(one.primal, rel=1e-5)
        assert other.rounding * s == pytest.approx(one.rounding, rel=0.1)
        own = one.verify(kw.problems.margin_problem(gram, y, 1.0, loss=name))
        theirs = other.verify(kw.problems.margin_problem(larger, y, 1.0 / s, loss=name))
        assert theirs.rounding * s == pytest.approx(own.rounding, rel=0.1)


# ---- all that a loss says ----------------------------------------------------------------------------


def bare(loss):
    """The loss by its three formulas, with all that follows from them."""
    body = {
        formula: (lambda self, *given, formula=formula: getattr(loss, formula)(*given))
        for formula in ("value", "slope", "conjugate")
    }
    own = {"classifies": loss.classifies, "fits_intercept": loss.fits_intercept, "linked": loss.linked}
    return type("Bare", (Loss,), body | own)()


def fixed_rows(name, n=34):
    """Rows whose costs, targets and coefficients are the same always; two of them have no cost."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    loss = as_loss(name)
    t = X[:, 0] + 0.7 * rng.normal(size=n)
    y = np.where(t > 0, 1.0, -1.0) if loss.classifies else targets_for(name, t)
    weight = rng.uniform(0.2, 2.0, n)
    weight[[4, 9]] = 0.0
    machine = Machine(y, 1.7, loss, weight)
    b = feasible(replace(machine, sample_weight=np.where(weight > 0, weight, 1.0)), rng) * (weight > 0)
    b[5] = loss.bounds(y, machine.costs)[int(y[5] > 0)][5] if loss.name != "poisson" else 0.0
    b[5] = np.clip(b[5], -2.0, 2.0)
    K = X @ X.T + np.exp(-np.square(X[:, None] - X[None]).sum(-1))
    return K, machine, b, 1.3 * rng.normal(size=n), rng.uniform(0.3, 2.0, n)


def formulas(loss, machine, b, f, pull):
    """Everything that a loss says of rows, coefficients and decision values."""
    y, costs = machine.y, machine.costs
    used = costs > 0
    own = y[used], costs[used]
    centre, width = 0.5 * b[used], (pull * costs)[used]
    step = loss.proximal(*own, centre, width, f[used])
    low, high = (np.clip(end, -1e6, 1e6) for end in loss.bounds(y, costs))
    box = loss.box(y, costs)
    return {
        "bounds": [low, high],
        "box": [np.clip(part, -1e6, 1e6) for part in box],
        "value": [loss.value(y, f), loss.slope(y, f), loss.total(y, costs, f), loss.gradient(y, costs, f)],
        "within": loss.gradient_within(y, costs, f, pull),
        "dual": [loss.dual_term(y, costs, b), loss.conjugate(y[used], b[used] / costs[used])],
        "infeasibility": [loss.infeasibility(y, costs, one) for one in (b, -b, 5.0 * b + 1.0)],
        "intercept": loss.intercept(y, costs, f),
        "proximal": [step, loss.proximal(*own, centre, width, f[used], f[used] + 0.1)],
        "proximal slope": loss.proximal_slope(*own, centre, width, f[used], step),
        "free": loss.free(y, costs, b),
        "prediction": [loss.prediction(f), loss.log_probability(f), loss.fold_classes(y), loss.ridge(costs), loss.tube],
        "root": loss.root(y, costs, f),
        "sides": loss.sides(*own),
    }  # fmt: skip


def curved(loss, machine, b, f):
    """What differences give of losses without formulas."""
    y, costs = machine.y, machine.costs
    inside = (b != 0.0) & (np.arange(len(b)) != 5)
    return {
        "curvature": [loss.curvature(y, costs, f), loss.second_derivative(y, f)],
        "dual slope": loss.dual_slope(y, costs, b)[inside],
        # at kinks it is a number that is large by rounding
        "stiffness": np.minimum(getattr(loss, "_stiffness", loss.dual_slope)(y, costs, b)[inside], 1e6),
    }


@pytest.mark.parametrize("form", ["own", "bare"])
def test_a_loss_says_what_it_said(form, recorded):
    """By formulas of its own, and by what follows from the first three of them, which is the same."""
    for name in ROWWISE:
        K, machine, b, f, pull = fixed_rows(name)
        loss = machine.loss if form == "own" else bare(machine.loss)
        said = formulas(loss, machine, b, f, pull)
        recorded(f"{name}: formulas", said, rtol=1e-5)
        recorded(f"{name}: curvatures", curved(loss, machine, b, f), rtol=1e-3, atol=1e-5)
        machine = replace(machine, loss=loss)
        product, error = kernel_product(K, b, 1e-15)
        y, costs = machine.y, machine.costs
        for at in (None, 0.4):
            values = machine.values(b, product, at)
            g = product + values.intercept
            total = loss.total(y, costs, g)
            divergence = total - loss.dual_term(y, costs, b) + b @ g
            assert values.primal == pytest.approx(0.5 * b @ product + total, rel=1e-11)
            assert values.gap == pytest.approx(divergence, rel=1e-9)
            assert loss.gap(y, costs, b, g) == pytest.approx(divergence, rel=1e-9)
            assert at in (None, values.intercept)
            # by the formula of any loss, which has no more than the errors of its gap beyond
            given = b, product, values, error
            most = Loss.rounding(loss, machine, *given)
            assert machine.rounding(*given) == pytest.approx(most, rel=1e-6)
        parts = costs * loss.value(y, f), loss.dual_term(y, costs, b), b * f
        size = np.abs(parts[0]).sum() + np.abs(parts[2]).sum()
        off = loss.gap_error(y, costs, b, f) / np.finfo(float).eps
        if form == "bare":
            share = np.divide(b, costs, out=0.0 * b, where=costs > 0)
            size += np.abs(costs * loss.conjugate(y, share))[costs > 0].sum()
            assert off == pytest.approx(8.0 * size, rel=1e-9)
        else:
            assert (off > size) if name == "poisson" else (off == 0.0)
        if form == "bare":
            own = formulas(as_loss(name), machine, b, f, pull)
            for key in ("bounds", "value", "within", "dual", "intercept", "proximal"):
                one, other = (
                    np.hstack(list(map(np.ravel, np.r_[found[key]] if key == "intercept" else found[key])))
                    for found in (said, own)
                )
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7, err_msg=key)
            assert said["dual"][0] == pytest.approx(own["dual"][0], rel=1e-8)


@pytest.mark.parametrize("form", ["own", "bare"])
def test_early_stops_are_where_they_were(form, recorded):
    """Coefficients after a few steps, from zero and from afar, with an intercept and without."""
    for name in ROWWISE:
        K, machine, b, _, _ = fixed_rows(name)
        loss = machine.loss if form == "own" else bare(machine.loss)
        found = {}
        for fit_intercept, cost, start in ((True, 1.7, None), (True, 60.0, -4.0 * b), (False, 60.0, None)):
            if form == "bare" and cost > 2.0 and fit_intercept:
                continue
            best = Machine(machine.y, cost, machine.loss, machine.sample_weight, None, fit_intercept).solve(
                K, tol=1e-9
            )
            for most in (1, 2, 4) if form == "own" else (3,):
                own = Machine(machine.y, cost, loss, machine.sample_weight, most, fit_intercept)
                at = own.solve(K, tol=1e-9, warm_start=start)
                found[f"{fit_intercept} {cost} {most}"] = [at.dual_coef, at.intercept]
                assert best.primal - best.gap <= at.primal * (1 + 1e-12)
                assert at.primal - at.gap <= best.primal * (1 + 1e-12)
                assert at.infeasibility <= 1e-9 * np.abs(at.dual_coef).sum()
                assert at.certificate.kind == "machine"
            end = Machine(machine.y, cost, loss, machine.sample_weight, None, fit_intercept)
            end = end.solve(K, tol=1e-9, warm_start=start)
            assert end.status is kw.solvers.Status.CONVERGED
            assert end.primal == pytest.approx(best.primal, rel=3e-9)
        recorded(f"{name}: stops", found, rtol=1e-4, atol=1e-6)


def test_a_limit_of_seconds_is_the_status(monkeypatch):
    """And where nothing is left to try without one, that nothing is."""
    status = kw.solvers.Status
    for name in ("logistic", "huber", "poisson"):
        K, machine, *_ = fixed_rows(name)
        own = machine if name != "huber" else replace(machine, loss=bare(machine.loss))
        with allowed(seconds=0.0):
            assert own.solve(K, tol=1e-13).status is status.MAX_TIME
        assert replace(own, max_iter=1).solve(K, tol=1e-13).status is status.MAX_ITER
    for module, name in (("smo", "hinge"), ("reweighted", "logistic"), ("smooth", "huber")):
        K, machine, *_ = fixed_rows(name)
        own = machine if name != "huber" else replace(machine, loss=bare(machine.loss))
        with monkeypatch.context() as patch:
            # nothing is tried without progress
            patch.setattr(f"kernelweave.machines.{module}.PATIENCE", 0)
            patch.setattr("kernelweave.machines.smo.HAS_EXTENSION", False)
            assert own.solve(K, tol=1e-9).status is status.STALLED
            where = "smo" if module == "smo" else "loss"
            patch.setattr(f"kernelweave.machines.{where}.used_up", lambda: "seconds")
            assert own.solve(K, tol=1e-9).status is status.MAX_TIME


# ---- numbers between which functions pass zero -------------------------------------------------------


def test_functions_pass_zero_between_neighbours(recorded):
    """Kinks, jumps, flat pieces, far away, and where values overflow; and in how many steps."""
    asked = []

    def function(x):
        asked.append(len(x))
        with np.errstate(all="ignore"):
            return np.array([
                x[0] - 3.0,
                2.0 * (x[1] + 1e5),
                np.where(x[2] < 0.25, -1.0, 2.0),
                np.exp(x[3]) - 1e9,
                np.cbrt(x[4] - 1e-3),
                np.clip(x[5], -1.0, 0.0) + np.maximum(x[5] - 2.0, 0.0),
                np.expm1(x[6]) + x[6] - 1e-12,
                np.sinh(x[7] - 40.0),
                x[8] ** 3 - 7.0,
            ])  # fmt: skip

    starts = [
        (-np.ones(9), np.ones(9)),
        (np.full(9, 500.0), np.full(9, 501.0)),
        (np.zeros(9), np.full(9, 1e-9)),
    ]
    known = np.array([3.0, -1e5, 0.25, np.log(1e9), 1e-3, np.nan, 5e-13, 40.0, 7.0 ** (1 / 3)])
    for k, (low, high) in enumerate(starts):
        asked.clear()
        low, high = crossing(function, low.copy(), high.copy())
        assert (low <= high).all()
        there = ~np.isnan(known)
        np.testing.assert_allclose(low[there], known[there], rtol=1e-14, atol=1e-25)
        np.testing.assert_allclose(high[there], known[there], rtol=1e-14, atol=1e-25)
        # exponentials of other processors differ in the last digit
        recorded(f"steps {k}", len(asked), rtol=0.1)
        recorded(f"ends {k}", [low[5:6], high[5:6]])
    asked.clear()
    # digits that are not known are not looked for
    low, high = crossing(function, -np.ones(9), np.ones(9), 1e8 * np.ones(9))
    recorded("fewer steps", len(asked), rtol=0.1)
    recorded("of few digits", [low, high], rtol=1e-6)


def test_limits_of_slopes_at_infinity(recorded):
    y = np.array([1.0, -2.0, 0.5])
    slopes = {
        "bounded": lambda y, f: np.clip(f - y, -1.0, 2.0),
        "linear": lambda y, f: f - y,
        "exponential": lambda y, f: np.exp(f) - y,
        "logistic": lambda y, f: 1.0 / (1.0 + np.exp(-f)) - 0.25,
        "not far away": lambda y, f: np.where(np.abs(f) > 1e90, np.nan, np.sign(f) * 3.0),
        "near": lambda y, f: np.where(np.abs(f) > 1e4, np.nan, np.tanh(f) + y),
        "never": lambda y, f: np.full(3, np.nan),
    }
    recorded("limits", {name: limits_of(slope, y) for name, slope in slopes.items()})


def test_units_of_decision_values():
    y, costs = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 3.0, 0.0, 1.0])
    # away from the median of 3 by 2, 1 and 5
    assert unit_of(as_loss("huber"), y, costs) == pytest.approx((2.0 + 3.0 + 5.0) / 5.0)
    assert unit_of(as_loss("huber"), np.ones(4), costs) == 1.0
    assert unit_of(as_loss("poisson"), y, costs) == unit_of(as_loss("hinge"), np.sign(y - 3), costs) == 1.0
    assert type(smooth_loss(as_loss("logistic"), y, costs)) is Smooth
    own = smooth_loss(as_loss("huber"), y, costs, fit_intercept=False)
    assert (type(own), own.radius, own.centre.tolist(), own.fit_intercept) == (
        Augmented,
        0.5,
        [0.0] * 4,
        False,
    )
    assert smooth_loss(as_loss("huber"), y, costs).fit_intercept


@pytest.mark.parametrize("name", ["hinge", "huber", "poisson", "quantile", "epsilon-insensitive"])
def test_augmented_losses_ask_for_few_coefficients(name, recorded):
    """With rows without a cost: values, their derivatives, and steps to the intercept from near and far."""
    _, machine, b, f, _ = fixed_rows(name)
    asked = []

    class Counted(type(machine.loss)):
        def proximal(self, *given):
            asked.append(len(given[0]))
            return super().proximal(*given)

    loss = Counted(**vars(machine.loss))
    smooth = Augmented(loss, machine.y, machine.costs, centre=0.5 * b, radius=0.8)
    at = smooth.coefficients(f)
    assert at is smooth.coefficients(f)
    assert set(asked) == {32}
    assert not at[[4, 9]].any()
    used = machine.costs > 0
    away = 0.5 * np.square(at - 0.5 * b)[used] / (0.8 * machine.costs[used])
    with np.errstate(invalid="ignore", divide="ignore"):
        used_only = Augmented(loss, machine.y[used], machine.costs[used], centre=0.5 * b[used], radius=0.8)
    value = loss.dual_term(machine.y, machine.costs, at) - away.sum() - at @ f
    assert used_only.value(f[used]) == pytest.approx(value, rel=1e-10)
    slopes = central_difference(lambda g: used_only.value(g), f[used], 1e-6)
    np.testing.assert_allclose(slopes, -at[used], atol=1e-6)
    found = []
    for start in (0.0, 30.0, -1e4):
        asked.clear()
        t = smooth.intercept(f, start)
        assert abs(smooth.coefficients(f + t).sum()) <= 1e-12 * np.abs(at).sum()
        found.append(len(asked))
    recorded("found", [at, smooth.curvature(f), t], rtol=1e-5)
    recorded("steps", found, atol=1.0)
    assert replace(smooth, fit_intercept=False).intercept(f, 7.0) == 0.0


def test_what_classes_and_targets_cannot_be_is_told(recorded):
    said = []
    for name, y, costs in (
        ("hinge", [1, -1, 2], [1.0, 1.0, 1.0]),
        ("hinge", [1, -1], [1.0, 1.0, 1.0]),
        ("hinge", ["a", "b", "c"], [1.0, 1.0, 1.0]),
        ("hinge", [1, 1, 1], [1.0, 1.0, 1.0]),
        ("hinge", [1, 1, -1], [1.0, 1.0, 0.0]),
        ("hinge", [-1, -1, 1], [1.0, 1.0, 0.0]),
        ("poisson", [1.0, -2.0, 0.0], [1.0, 1.0, 1.0]),
        ("poisson", [0.0, 0.0, 3.0], [1.0, 1.0, 0.0]),
        ("huber", [0.0, np.nan, 3.0], [1.0, 1.0, 1.0]),
        ("huber", [0.0, 3.0], [1.0, 1.0, 1.0]),
    ):
        with pytest.raises(kw.InputError) as error:
            as_loss(name).check(np.array(y), np.array(costs))
        said.append(str(error.value))
    recorded("messages", said)
    assert as_loss("hinge").check([1, -1, 1], np.ones(3)).dtype == float
    assert as_loss("epsilon-insensitive", 0.7).epsilon == 0.7
    assert as_loss("huber", 0.7) == as_loss("huber")
    loss = as_loss("huber")
    assert as_loss(loss, 0.3) is loss
    assert (hash(loss) == hash(as_loss("huber")), loss == as_loss("hinge"), repr(loss)) == (
        True,
        False,
        "Huber(delta=1.0)",
    )


def test_flags_of_losses_are_what_they_were(recorded):
    """What solvers and estimators ask of a class."""
    names = ("classifies", "fits_intercept", "quadratic", "piecewise_linear", "smooth", "squares", "rowwise", "scores",
             "linked", "judged", "cancels")  # fmt: skip
    recorded(
        "flags", {kind.__name__: [getattr(kind, name) for name in names] for kind in (Loss, *LOSSES.values())}
    )
    recorded("ridged", {kind.__name__: kind.ridged for kind in LOSSES.values() if issubclass(kind, BoxLoss)})

    class Linked(Loss):
        linked = True
        value = slope = conjugate = None

    assert Linked.scores
    assert Linked.name == "Linked"


def test_a_step_that_is_no_number_ends_a_machine(monkeypatch):
    """With what it has, and not as one whose steps are used up."""

    class Broken:
        def __init__(self, K, W, fit_intercept):
            self.size = len(K)

        def solve_scaled(self, scaled):
            return np.full(self.size, np.nan), 0.0

    monkeypatch.setattr("kernelweave.machines.reweighted.Weighted", Broken)
    for name in ("logistic", "poisson"):
        K, machine, *_ = fixed_rows(name)
        found = machine.solve(K, tol=1e-9)
        assert (found.status, found.n_iter) == (kw.solvers.Status.STALLED, 1)
        assert np.isfinite(found.gap)


@pytest.mark.parametrize("name", ["hinge", "huber", "quantile"])
def test_the_best_intercept_is_looked_for_between_residuals(name, recorded):
    """Of three formulas: how often the slope is asked, from near and far."""
    _, machine, _, f, _ = fixed_rows(name)
    asked = []

    class Counted(type(bare(machine.loss))):
        def slope(self, y, f):
            asked.append(len(y))
            return super().slope(y, f)

    found = []
    for shift in (0.0, 40.0, -300.0):
        asked.clear()
        found.append([Counted().intercept(machine.y, machine.costs, f + shift) + shift, len(asked)])
    assert set(asked) == {32}
    recorded("found", found, rtol=1e-5)


def test_slopes_at_kinks_are_the_steeper_ones():
    y, away = np.ones(3), np.array([-1.0, 0.0, 1.0])
    for q, slope in ((0.3, 0.7), (0.5, -0.5), (0.7, -0.7)):
        assert Quantile(q).slope(y, y + away).tolist() == [-q, slope, 1.0 - q]
    assert as_loss("hinge").slope(y, np.array([0.5, 1.0, 1.5])).tolist() == [-1.0, -1.0, 0.0]
    assert as_loss("hinge").slope(-y, -np.array([0.5, 1.0, 1.5])).tolist() == [1.0, 1.0, 0.0]
    tube = as_loss("epsilon-insensitive", 0.25)
    assert tube.slope(y, y + 0.25 * away).tolist() == [-1.0, 0.0, 1.0]
    assert as_loss("huber").second_derivative(y, y + away * [1.0, 1.0, 1.5]).tolist() == [1.0, 1.0, 0.0]
    assert as_loss("squared-hinge").second_derivative(y, np.array([0.5, 1.0, 1.5])).tolist() == [
        1.0,
        0.0,
        0.0,
    ]


def test_errors_of_gaps_of_counts_by_hand():
    """Twice those of the mean at which coefficients are optimal, times the slope of the gap there, and of its terms."""
    eps, loss = np.finfo(float).eps, as_loss("poisson")
    y, costs, f = np.array([2.0, 0.0, 5.0]), np.array([1.0, 3.0, 0.5]), np.array([1.5, -1.0, 1.7])
    b = np.array([0.5, -0.6, 2.5])  # the mean of the last row is zero
    rest, mean = np.array([1.5, 0.2, 0.0]), np.exp(f)
    off = 2.0 * eps * (y + rest)
    steep = np.abs(np.log(np.maximum(rest, off)) - f) + np.array([0.5, 0.5, 2.0])
    terms = 0.0
    for a in (y, rest):
        size = np.abs(mean - a)
        logs = a * np.abs(f) + np.abs(a * np.log(np.where(a > 0, a, 1.0)))
        terms = terms + np.where(size > 0.5 * a, size + logs, size)
    wanted = costs @ (off * steep + 4.0 * eps * terms)
    assert loss.gap_error(y, costs, b, f) == pytest.approx(wanted, rel=1e-9, abs=0.0)
