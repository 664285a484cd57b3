"""SMO: the compiled loop against its NumPy twin, and both against the conditions of optimality.

Modules: `_loops/smo`, `_loops/box`, `machines/smo`, `machines/box`, `machines/polish`.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import kernelweave as kw
from kernelweave import _loops
from kernelweave._allowance import allowed
from kernelweave._checks import NotPSDError
from kernelweave._loops import numpy_core
from kernelweave._loops.box import balanced
from kernelweave.machines import box, machine, smo
from kernelweave.machines import polish as newton
from kernelweave.machines.box import UNBOUNDED, Box, BoxProblem, derivatives, kernel_product, resolution
from kernelweave.machines.losses import EpsilonInsensitive, Hinge, Huber, Squared, SquaredHinge
from kernelweave.machines.machine import Machine
from kernelweave.machines.polish import polish
from kernelweave.machines.rounding import LONG_EPS
from kernelweave.machines.smo import PATIENCE, Run
from test_svm import make_data

CORES = [pytest.param(numpy_core, id="numpy")]
if _loops.HAS_EXTENSION:
    CORES.append(pytest.param(_loops.core, id="compiled"))
KINDS = ("svc", "l2svc", "svr", "meb", "weighted")


def make_box(kind, n, rng, C=3.0):
    """A box problem of every shape that the machines use, and a feasible start."""
    X = rng.normal(size=(n, 4))
    K = np.exp(-0.3 * np.square(X[:, None] - X).sum(axis=2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = [1.0, -1.0]
    ridge, start = np.zeros(n), np.zeros(n)
    costs = C * rng.integers(0, 3, size=n) if kind == "weighted" else np.full(n, C)
    lower, upper = np.minimum(0, y * costs), np.maximum(0, y * costs)
    if kind == "l2svc":
        ridge += 1 / C
        lower, upper = np.minimum(0, y * UNBOUNDED), np.maximum(0, y * UNBOUNDED)
    if kind == "svr":
        return BoxProblem(K, Box(-X[:, 0], ridge, -costs, costs, 0.1)), start
    if kind == "meb":
        start[0] = 1.0
        K = X @ X.T
        return BoxProblem(K, Box(-0.5 * np.diag(K), ridge, start * 0, start * 0 + 1), total=1.0), start
    return BoxProblem(K, Box(-y, ridge, lower, upper)), start


@pytest.mark.parametrize("kind", ["svc", "l2svc", "svr", "weighted"])
def test_a_scaled_problem_is_that_of_another_C(kind):
    one, other = (make_box(kind, 30, np.random.default_rng(0), C)[0] for C in (2.0, 5.0))
    scaled = one.scaled(2.5)
    np.testing.assert_array_equal(scaled.K, other.K)
    for found, wanted in zip(scaled.box, other.box, strict=True):
        np.testing.assert_allclose(*np.clip([found, wanted], -UNBOUNDED, UNBOUNDED), rtol=1e-14)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_end_the_rounds(wrong):
    problem, start = make_box("svc", 30, np.random.default_rng(0))
    problem.K[:] = wrong
    with allowed(seconds=5.0):
        rounds = Run(problem, 1e-6, 10**6, start, 0)
        assert not rounds.rounds()
    assert rounds.idle == PATIENCE


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="needs the compiled core")
@pytest.mark.parametrize("tol", [1e-3, 1e-12])
@pytest.mark.parametrize("most", [0, 1, 2, 6])
@pytest.mark.parametrize("n", [3, 60, 400])
@pytest.mark.parametrize("kind", ["svc", "l2svc", "svr", "weighted"])
def test_compiled_rounds_are_those_of_the_run(kind, n, most, tol, monkeypatch):
    # of 400 rows more are free than the compiled Newton steps take
    problem, start = make_box(kind, n, np.random.default_rng(0), 100.0)
    one = Run(problem, tol, 500 * n, start, most)
    assert one.turns <= most
    warm = one.best.b
    runs = one, Run(problem, tol, 500 * n, warm, most)
    monkeypatch.setattr(smo, "HAS_EXTENSION", False)
    for run, begin in zip(runs, (start, warm), strict=True):
        other = Run(problem, tol, 500 * n, begin, most)
        assert run.rounds(6 - run.turns) == other.rounds(6)
        for name, value in vars(other).items():
            for one, two in zip(
                *(x if name == "best" else [x] for x in (getattr(run, name), value)), strict=True
            ):
                if isinstance(two, (float, np.ndarray)):
                    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12, err_msg=name)
                elif name != "problem":
                    assert one == two, name


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="needs the compiled core")
@pytest.mark.parametrize(
    ("tried", "known"), [((0, False), None), ((0, True), (0, True)), ((3, False), (3, False))]
)
def test_newton_is_tried_where_compiled_rounds_did_not(tried, known, monkeypatch):
    """Numbers that are not finite end them before a try: an indefinite kernel then ended without a word."""
    compiled = smo.core.box_rounds

    def ended(*given):
        _, (reached, *_), *rest = compiled(*given)
        return smo.UNPOLISHED, (reached, *tried), *rest

    monkeypatch.setattr(smo.core, "box_rounds", ended)
    problem, start = make_box("svc", 30, np.random.default_rng(0))
    assert Run(problem, 1e-8, 1000, start, 1).pending[1] == known


def test_a_limit_of_seconds_is_asked_after_every_round(monkeypatch):
    problem, start = make_box("svc", 60, np.random.default_rng(0), 100.0)
    asked = []
    monkeypatch.setattr(smo, "used_up", lambda: asked.append(1))
    with allowed(seconds=60.0):
        found, _ = Run(problem, 1e-10, None, start).solution()
    assert found.certificate.status is kw.solvers.Status.CONVERGED
    assert asked


def gradient(problem, b):
    return problem.box.linear + problem.box.ridge * b + problem.K @ b


def infeasibility(problem, b):
    box = max(float((problem.box.lower - b).max()), float((b - problem.box.upper).max()), 0.0)
    return max(box, abs(math.fsum(b.tolist()) - problem.total))


def run(core, problem, start, eps, most=10**6, shrink=True):
    b, g = start.copy(), gradient(problem, start)
    report = core.box_smo(problem.K, *problem.box[1:], b, g, eps, most, shrink)
    return b, g, report


@pytest.mark.sampled(3)
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 30, 150])
def test_smo_ends_where_no_pair_can_be_improved(core, kind, n, rng):
    problem, start = make_box(kind, n, rng)
    b, g, (steps, violation, curvature) = run(core, problem, start, 1e-9)
    assert violation <= 1e-9
    assert steps < 10**6
    assert curvature >= -1e-12
    # what it says is what an independent look finds
    gradient = problem.K @ b + problem.box.ridge * b + problem.box.linear
    np.testing.assert_allclose(g, gradient, atol=1e-11)
    up, down = derivatives(problem, b, gradient)
    assert max(down.max() - up.min(), 0.0) == pytest.approx(violation, abs=1e-11)
    assert infeasibility(problem, b) <= 1e-12


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="needs the compiled core")
@pytest.mark.parametrize("kind", KINDS)
def test_twins_take_the_same_steps(kind, rng):
    problem, start = make_box(kind, 90, rng)
    for most in (1, 5, 20):
        b, g, report = run(_loops.core, problem, start, 1e-4, most, shrink=False)
        b2, g2, report2 = run(numpy_core, problem, start, 1e-4, most)
        assert report[0] == report2[0]
        assert report[1] == pytest.approx(report2[1], rel=1e-6, abs=1e-12)
        np.testing.assert_allclose(b, b2, atol=1e-9)
        np.testing.assert_allclose(g, g2, atol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", ["svc", "svr", "weighted", "meb"])
@pytest.mark.parametrize("C", [0.05, 30.0])
def test_shrinking_changes_nothing_but_the_way(core, kind, C, rng):
    problem, start = make_box(kind, 400, rng, C)
    b, g, report = run(core, problem, start, 1e-8, shrink=True)
    b2, _, report2 = run(core, problem, start, 1e-8, shrink=False)
    assert max(report[1], report2[1]) <= 1e-8

    def value(b):
        return 0.5 * b @ problem.K @ b + problem.box.linear @ b + problem.box.kink * np.abs(b).sum()

    assert value(b) == pytest.approx(value(b2), rel=1e-9)
    np.testing.assert_allclose(g, problem.K @ b + problem.box.linear, atol=1e-10)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_is_kept_and_every_point_is_feasible(core, kind, rng):
    problem, start = make_box(kind, 200, rng)
    for most in (0, 1, 7, 230):
        b, g, (steps, violation, _) = run(core, problem, start, 1e-12, most)
        assert steps <= most
        assert violation > 1e-5 or most == 230
        assert infeasibility(problem, b) <= 1e-12
        np.testing.assert_allclose(g, gradient(problem, b), atol=1e-11)


@pytest.mark.parametrize("core", CORES)
def test_a_step_ends_where_a_coefficient_changes_its_sign(core, rng):
    """The objective is smooth up to there; a step that went on would be too long."""
    problem, _ = make_box("svr", 60, rng)
    before = rng.permutation(np.repeat([2.5, -2.5], 30)) * np.repeat(rng.uniform(0.1, 1.0, 30), 2)
    before -= before.mean()

    def value(b):
        return 0.5 * b @ problem.K @ b + problem.box.linear @ b + problem.box.kink * np.abs(b).sum()

    turned = 0
    for _ in range(60):
        b = run(core, problem, before, 1e-9, 1, shrink=False)[0]
        assert (b * before >= 0.0).all()
        assert value(b) < value(before)
        turned += np.count_nonzero((b == 0.0) & (before != 0.0))
        before = b
    assert turned > 10


@pytest.mark.parametrize("core", CORES)
def test_negative_curvature_is_reported(core, rng):
    problem, start = make_box("svc", 20, rng)
    bad = replace(problem, K=np.full((20, 20), 3.0) - 2 * np.eye(20))
    _, _, (steps, _, curvature) = run(core, bad, start, 1e-6, 1000)
    assert steps <= 1000
    # 1 + 1 - 2 * 3, as a share of the diagonal entries
    assert curvature == pytest.approx(-2.0)


@pytest.mark.parametrize("core", CORES)
def test_inspect_sees_what_is_not_finite_or_not_symmetric(core, rng):
    for n in (1, 17, 300):
        K = rng.normal(size=(n, n))
        K = K + K.T
        worst, big, bad = core.inspect(K)
        assert (worst, bad) == (0.0, 0)
        assert big == np.abs(K).max()
        for value in (np.nan, np.inf, -np.inf):
            broken = K.copy()
            broken[n // 2, n - 1] = value
            assert core.inspect(broken)[2] > 0
            broken = K.copy()
            broken[n - 1, 0] = value
            assert core.inspect(broken)[2] > 0
    K[280, 3] += 0.5
    assert core.inspect(K)[0] == pytest.approx(0.5)
    # entries in the corners of panels, whose neighbours say nothing
    for i, j in itertools.product((0, 255, 256, 299), repeat=2):
        K = np.eye(300)
        K[i, j] = K[j, i] = 7.0
        assert core.inspect(K) == (0.0, 7.0, 0)
        K[i, j] = np.nan
        assert core.inspect(K)[2] > 0
        K[i, j] = -7.0
        assert core.inspect(K)[:2] == (0.0 if i == j else 14.0, 7.0)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_add_rows(core, share, rng):
    K = rng.normal(size=(33, 33))
    K, w, g = K + K.T, rng.normal(size=33) * (rng.uniform(size=33) < share), rng.normal(size=33)
    expected = g + K @ w
    core.add_rows(K, w, g)
    np.testing.assert_allclose(g, expected, atol=1e-12)


@pytest.mark.parametrize("core", CORES)
def test_a_block_of_a_matrix(core, rng):
    K, rows, columns = rng.normal(size=(9, 7)), np.array([8, 0, 3]), np.array([6, 2])
    out = np.full((3, 2), np.nan)
    core.block(K, rows, columns, out)
    np.testing.assert_array_equal(out, K[rows][:, columns])


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_long_product(core, share, rng):
    K = rng.normal(size=(133, 133)) * 10.0 ** rng.uniform(-8, 8, size=133)
    K, w, out = K + K.T, rng.normal(size=133) * (rng.uniform(size=133) < share), np.full(133, np.nan)
    core.long_product(K, w, out)
    expected = [math.fsum(row) for row in K * w]  # the products are rounded here, and nothing else
    error = LONG_EPS * 133 + np.finfo(float).eps
    np.testing.assert_array_less(np.abs(out - expected), error * (np.abs(K) @ np.abs(w)) + 1e-300)


@pytest.mark.parametrize("kind", KINDS)
def test_newton_ends_at_the_solution_to_rounding(kind, rng):
    problem, start = make_box(kind, 120, rng)
    b, g, (_, violation, _) = run(_loops.core, problem, start, 1e-3)
    found = polish(problem, b, g, 1e9)
    assert found.solved
    # measured on six seeds: 1 or 2, and for the squared hinge from farther away 2 or 3
    assert found.systems <= 4
    # from there rows leave their bounds in both directions; measured on six seeds: up to 35 systems
    far = polish(problem, *run(_loops.core, problem, start, 1e-1)[:2], 1e9)
    assert far.solved
    if kind == "l2svc":
        assert far.systems <= 6
    assert violation > 1e-5
    up, down = derivatives(problem, found.b, gradient(problem, found.b))
    assert down.max() - up.min() <= 1e-12
    assert infeasibility(problem, found.b) <= 1e-12


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="needs the compiled core")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [3, 120])
def test_compiled_systems_are_those_of_LAPACK(kind, rank, rng, monkeypatch):
    problem, start = make_box(kind, 120, rng)
    Z = rng.normal(size=(120, rank))
    problem = replace(
        problem, K=Z @ Z.T, box=problem.box._replace(ridge=problem.box.ridge + 0.5 * (kind == "weighted"))
    )
    for eps, work in ((1e-1, 1e9), (1e-3, 1e9), (1e-3, 2e4), (1e-3, 10.0)):
        at = run(_loops.core, problem, start, eps)[:2]
        found = polish(problem, *at, work)
        with monkeypatch.context() as patch:
            patch.setattr(newton, "HAS_EXTENSION", False)
            wanted = polish(problem, *at, work)
        assert found.solved == wanted.solved
        # rounding errors decide the steps in blocks that are singular
        if rank == 120:
            assert found.systems == wanted.systems
        np.testing.assert_allclose(problem.K @ found.b, problem.K @ wanted.b, atol=1e-7)
        # too many rows are left to LAPACK
        most = work / newton.SYSTEM_COST
        few = _loops.core.box_newton(
            *problem.box, problem.K, problem.total, *map(np.copy, at), most, most, 20, 1
        )
        assert few[0] == 0
        assert few[2] == (wanted.systems > 0)


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="needs the compiled core")
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), EpsilonInsensitive(0.1), Squared(), Huber(0.5)])
@pytest.mark.parametrize("rank", [4, 60])
def test_the_compiled_curvature_is_that_of_LAPACK(loss, rank, rng, monkeypatch):
    X, V = rng.normal(size=(60, rank)), rng.normal(size=(3, 60))
    y = np.sign(X[:, 0]) if loss.classifies else X[:, 0]
    for fit_intercept in (True, False):
        own = Machine(y, 2.0, loss, fit_intercept=fit_intercept)
        K = X @ X.T + 1e-3 * np.eye(60)
        b = own.solve(K, tol=1e-6).dual_coef
        for at in (b, np.zeros(60)):
            found = own.curvature(K, at, V)
            with monkeypatch.context() as patch:
                patch.setattr(machine, "HAS_EXTENSION", False)
                np.testing.assert_allclose(found, own.curvature(K, at, V), rtol=1e-6, atol=1e-9)
        assert found.shape == (3, 3)
        assert own.curvature(0.0 * K, b, V).any() == (loss.ridged and own.free(b).size > fit_intercept)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [3, 40])
def test_newton_from_afar_is_feasible_and_never_worse(kind, steps, rng):
    problem, start = make_box(kind, 120, rng)
    b, g, _ = run(_loops.core, problem, start, 1e-9, steps)

    def value(b):
        quadratic = b @ problem.K @ b + problem.box.ridge @ np.square(b)
        return 0.5 * quadratic + problem.box.linear @ b + problem.box.kink * np.abs(b).sum()

    # a budget for a few systems: the first points are too far away to be solved
    before = b.copy(), g.copy()
    found = polish(problem, b, g, 1e4)
    # SMO goes on from there if Newton was no better
    np.testing.assert_array_equal((b, g), before)
    assert found.systems or steps < 40
    assert infeasibility(problem, found.b) <= 1e-12
    assert value(found.b) <= value(b) + 1e-12 * abs(value(b))


def test_rounding_is_settled_in_the_coefficient_with_the_most_room(rng):
    problem, _ = make_box("svc", 6, rng)
    problem = replace(problem, box=problem.box._replace(lower=np.full(6, -3.0), upper=np.full(6, 3.0)))
    b = np.array([3.0 - 1e-12, 1.0, -3.0 + 1e-12, 0.5, -1.5, 1e-9])
    wanted = b.copy()
    wanted[3] -= b.sum()
    # the last one has more room and is not free
    newton._settle(problem, b, np.arange(5))
    np.testing.assert_array_equal(b, wanted)
    assert abs(math.fsum(b)) <= 1e-15
    newton._settle(problem, b, np.arange(0))
    np.testing.assert_array_equal(b, wanted)


@pytest.mark.parametrize("kind", ["svc", "l2svc", "svr"])
def test_systems_are_counted_and_paid(kind, monkeypatch):
    """The first method may cost twice the work, the second once; nothing that was given is changed."""
    problem, start = make_box(kind, 80, np.random.default_rng(0))
    at, costs, parts = run(numpy_core, problem, start, 1e-9, 30)[:2], [], []
    before = [own.copy() for own in (*problem.box[:4], *at)]
    step, descend = newton._step, newton._descend

    def stepped(problem, free, *rest):
        costs.append(newton.SYSTEM_COST * len(free) ** 3)
        return step(problem, free, *rest)

    def descended(*given):
        parts.append(len(costs))
        return descend(*given)

    monkeypatch.setattr(newton, "HAS_EXTENSION", False)
    monkeypatch.setattr(newton, "_step", stepped)
    monkeypatch.setattr(newton, "_descend", descended)
    shares = []
    n_free = np.count_nonzero(newton._free(problem, at[0]))
    for work in newton.SYSTEM_COST * n_free**3 * np.array([0.9, 1.1, 2.5, 7.0, 30.0]):
        costs.clear(), parts.clear()
        found = polish(problem, *at, work)
        assert found.systems == len(costs)
        first, rest = np.split(costs, parts or [len(costs)])
        assert first.sum() <= 2.0 * work
        assert rest.sum() <= work
        assert len(first) <= newton.MOST_SYSTEMS
        shares.append(first.sum() / work)
        assert infeasibility(problem, found.b) <= 1e-12
    assert shares[0] == 0.0
    assert max(shares) > 1.0
    for own, was in zip((*problem.box[:4], *at), before, strict=True):
        np.testing.assert_array_equal(own, was)


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="takes minutes without the compiled core")
@pytest.mark.parametrize("kind", ["svc", "svr"])
def test_high_costs_are_reached_from_below(kind, rng):
    """Ten times as many steps are needed without; measured on four seeds: up to 23,295 and 21,882."""
    K, y, t = make_data(150, rng, linear=True)
    found = kw.solve_svc(K, y, 1e5, tol=1e-8) if kind == "svc" else kw.solve_svr(K, t, 1e5, tol=1e-8)
    assert found.status is kw.solvers.Status.CONVERGED
    assert found.n_iter <= 45_000
    options = {"tol": 1e-8, "max_iter": 2000}
    short = kw.solve_svc(K, y, 1e5, **options) if kind == "svc" else kw.solve_svr(K, t, 1e5, 0.1, **options)
    assert short.status is kw.solvers.Status.MAX_ITER
    # and the systems, which are no steps
    assert 2000 <= short.n_iter <= 2100


def test_newton_reports_a_negative_free_block(rng):
    problem, _ = make_box("svc", 10, rng)
    b = 0.5 * np.where(np.arange(10) % 2, 1.0, -1.0)
    box = problem.box._replace(lower=b * 0 - 9, upper=b * 0 + 9)
    wide = BoxProblem(np.ascontiguousarray(problem.K - 3 * np.eye(10)), box)
    with pytest.raises(NotPSDError):
        polish(wide, b, gradient(wide, b), 1e9)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", ["svc", "l2svc", "svr", "weighted"])
def test_any_start_becomes_feasible(core, kind, rng, monkeypatch):
    monkeypatch.setattr(box, "core", core)
    problem, _ = make_box(kind, 40, rng)
    for size in (1e-3, 1.0, 1e6):
        start = size * rng.normal(size=40)
        at = problem.look(start, before=True)
        assert at.infeasibility <= 1e-12
        assert at.infeasibility == pytest.approx(infeasibility(problem, at.b), abs=1e-13)
        # a multiple of what only clips and balances
        only = balanced(problem.box.lower, problem.box.upper, start)
        assert infeasibility(problem, only) <= 1e-12 * max(1.0, np.abs(only).max())
        free = (at.b > problem.box.lower) & (at.b < problem.box.upper) & (only != 0)
        np.testing.assert_allclose(at.b[free], only[free] * (at.b[free] / only[free])[:1], rtol=1e-12)
    np.testing.assert_array_equal(problem.look(np.zeros(40), before=True).b, 0.0)
    if kind == "svc":
        # only one sign is left after clipping: nothing to balance it with
        np.testing.assert_array_equal(problem.look(problem.box.linear, before=True).b, 0.0)
    feasible = balanced(
        problem.box.lower, problem.box.upper, rng.uniform(size=40) * np.sign(-problem.box.linear)
    )
    for size in (1.0, 1e-200):
        found = balanced(problem.box.lower, problem.box.upper, size * feasible)
        np.testing.assert_allclose(found, size * feasible, rtol=1e-13)
    far = problem.look(feasible + 1.0)
    assert far.infeasibility == pytest.approx(infeasibility(problem, far.b), rel=1e-12)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_look_snaps_and_computes_anew(core, kind, rng, monkeypatch):
    monkeypatch.setattr(box, "core", core)
    problem = replace(make_box(kind, 40, rng, C=2.0)[0], entry_error=3e-15)
    wanted = balanced(
        problem.box.lower, problem.box.upper, -problem.box.linear * rng.choice([0.0, 1.0, 9.0], size=40)
    )
    wanted = np.clip(wanted, problem.box.lower, problem.box.upper)
    bound = (wanted == problem.box.lower) | (wanted == problem.box.upper)
    near = np.where(bound, wanted * (1.0 + 1e-15) - 1e-16 * wanted.max() * (wanted == 0.0), wanted)
    b, product, error, g, found, value, outside, rounding, *values = problem.look(near)
    np.testing.assert_array_equal(b, wanted)
    own_product, within = kernel_product(problem.K, wanted, problem.entry_error)
    np.testing.assert_allclose(product, own_product, atol=1e-13)
    np.testing.assert_allclose(error, within, rtol=1e-12)
    np.testing.assert_allclose(g, gradient(problem, wanted), atol=1e-12)
    assert found == pytest.approx(resolution(problem, wanted), rel=1e-12, abs=0.0)
    quadratic = wanted @ problem.K @ wanted + problem.box.ridge @ np.square(wanted)
    own = 0.5 * quadratic + problem.box.linear @ wanted + problem.box.kink * np.abs(wanted).sum()
    assert value == pytest.approx(own, abs=1e-12)
    assert outside == pytest.approx(infeasibility(problem, wanted), abs=1e-13)
    at = problem.values(wanted, own_product)
    assert values == pytest.approx(at, rel=1e-10, abs=1e-12)
    assert rounding == pytest.approx(problem.rounding(wanted, own_product, at, within), rel=1e-6, abs=0.0)


@pytest.mark.parametrize("core", CORES)
def test_the_best_multiple_is_taken(core, rng, monkeypatch):
    monkeypatch.setattr(box, "core", core)
    problem, _ = make_box("svc", 40, rng, C=100.0)
    start = balanced(problem.box.lower, problem.box.upper, -1e-3 * problem.box.linear * rng.uniform(size=40))
    b, _, _, g, *_ = problem.look(start, before=True)
    factor = b[np.argmax(np.abs(b))] / start[np.argmax(np.abs(b))]
    assert factor > 2
    np.testing.assert_allclose(g, gradient(problem, b), atol=1e-12)
    # stationary along the ray, or at the end of the box
    assert abs(b @ g) <= 1e-10 or np.isclose(np.abs(b).max(), 100.0)


def test_a_kernel_may_be_as_asymmetric_as_its_numbers_are_rounded(rng):
    """A share of 1e-8 of the largest entry of double precision, and 32 roundings of single precision."""
    X = rng.normal(size=(20, 3))
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    upper = np.triu(np.ones_like(K), 1)
    for size, dtype, fits in (
        (1e-6, np.float32, True),
        (1e-5, np.float32, False),
        (5e-9, float, True),
        (5e-8, float, False),
    ):
        given = (7.0 * (K + size * upper)).astype(dtype)
        if fits:
            found = box.as_kernel(given, "raise")
            np.testing.assert_array_equal(found, 0.5 * (given.astype(float) + given.T.astype(float)))
            assert found.dtype == float
            assert found.flags.c_contiguous
        else:
            with pytest.raises(kw.InputError, match=r"must be symmetric, got max .* with entries up to 7"):
                box.as_kernel(given, "raise")
    # symmetric numbers are not copied, and without the check nothing is changed
    whole = np.ascontiguousarray(0.5 * (K + K.T))
    assert box.as_kernel(whole, "raise") is whole
    assert box.as_kernel(K + upper, "raise", check=False)[0, 1] == K[0, 1] + 1.0


def test_what_solvers_know_of_a_machine_is_what_users_get():
    made = box.Trained(np.ones(3), 0.5, 2.0, 0.125, 1e-9, kw.solvers.Status.MAX_ITER, 1e-3, 7, 0.25)
    found = made.solution
    assert (found.intercept, found.primal, found.n_iter, found.infeasibility) == (0.5, 2.0, 7, 0.25)
    assert found.gap == pytest.approx(0.125, rel=1e-6)
    assert found.status is made.status is kw.solvers.Status.MAX_ITER
    assert found.weights.tolist() == [1.0]
    np.testing.assert_array_equal(found.dual_coef, 1.0)
    for wrong, words in (
        (np.ones((3, 1)), r"shape \(3,\), got shape \(3, 1\)"),
        (np.ones(2), r"shape \(3,\), got shape \(2,\)"),
        ([0.0, np.nan, 1.0], "NaN"),
    ):
        with pytest.raises(kw.InputError, match=words):
            box.check_start(wrong, 3)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Huber(0.5)])
def test_a_cost_may_be_a_whole_number(loss, rng):
    X = rng.normal(size=(20, 3))
    y = np.sign(X[:, 0]) if loss.classifies else X[:, 0]
    found, wanted = (Machine(y, C, loss).solve(X @ X.T, tol=1e-8) for C in (2, 2.0))
    np.testing.assert_array_equal(found.dual_coef, wanted.dual_coef)
