"""Support vector machines on one kernel: independent optima, invariances, hard cases, refusals.

Modules: `machines/svm`, `machines/machine`, `_checks`.
"""

import dataclasses
import warnings
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import kernelweave as kw
from kernelweave.machines import smo, svm
from kernelweave.machines.losses import EpsilonInsensitive, Hinge, Logistic, SquaredHinge
from kernelweave.machines.machine import Machine, OnKernel
from oracles import exact_values, svc_by_conic, svm_value, svr_by_conic


def make_data(n, rng, *, linear=False, share=0.5):
    """A kernel, labels of which a share is +1, and targets."""
    X = rng.normal(size=(n, 5))
    score = X[:, 0] + np.square(X[:, 1]) + 0.7 * rng.normal(size=n)
    y = np.where(score > np.quantile(score, 1 - share), 1.0, -1.0)
    squares = np.square(X[:, None] - X).sum(axis=2)
    K = X @ X.T if linear else np.exp(-0.15 * squares)
    return K, y, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


def hinge(y, f):
    return np.maximum(0.0, 1.0 - y * f)


def squared_hinge(y, f):
    return 0.5 * np.square(hinge(y, f))


def tube(epsilon):
    return lambda y, f: np.maximum(0.0, np.abs(y - f) - epsilon)


def solve(kind, K, y, t, C, **options):
    if kind == "svr":
        return kw.solve_svr(K, t, C, 0.1, **options)
    return {"svc": kw.solve_svc, "l2svc": kw.solvers.solve_l2svc}[kind](K, y, C, **options)


MACHINES = ("svc", "l2svc", "svr")
KINKS = (0.0, -0.1, 0.1)
LOSSES = {"svc": hinge, "l2svc": squared_hinge, "svr": tube(0.1)}


def check(result, K, y, costs, loss, tol):
    """What every result promises, recomputed without the solver."""
    assert result.status is kw.solvers.Status.CONVERGED
    assert result.rel_gap <= tol
    assert result.gap >= 0
    assert result.primal == pytest.approx(result.dual + result.gap, rel=1e-13)
    f = K @ result.dual_coef + result.intercept
    primal = 0.5 * result.dual_coef @ K @ result.dual_coef + costs @ loss(y, f)
    assert result.primal == pytest.approx(primal, rel=1e-9, abs=1e-12)
    assert result.primal <= svm_value(K, y, result.dual_coef, costs, loss, KINKS) * (1 + 1e-9) + 1e-12
    assert result.infeasibility <= 1e-14 * max(1.0, np.abs(result.dual_coef).sum())
    np.testing.assert_array_equal(result.support, np.flatnonzero(result.dual_coef))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), EpsilonInsensitive(0.1), Logistic()], ids=str)
def test_coefficients_outside_of_their_bounds_have_no_gap(loss, fit_intercept):
    """Up to a share of 1e-12 of their sizes, on either side, and in their sum if there is an intercept."""
    K, y, weight = np.eye(4), np.array([1.0, 1.0, -1.0, -1.0]), np.array([1.0, 2.0, 2.0, 1.0])
    machine = Machine(y, 0.5, loss, weight, fit_intercept=fit_intercept)
    inside = y * np.array([0.5, 0.25, 0.25, 0.5])
    assert np.isfinite(machine.certify(K, inside, 0.0).gap)
    assert np.isfinite(machine.certify(K, inside * (1.0 + 1e-13), 0.0).gap)
    ends = {"hinge": (0.0, 0.5), "squared-hinge": (0.0, np.inf), "epsilon-insensitive": (-0.5, 0.5)}
    low, high = ends.get(loss.name, (0.0, 0.5))
    for k, sign in ((0, 1.0), (3, -1.0)):
        for end, beyond in ((low, -1e-9), (high, 1e-9)):
            if np.isfinite(end):
                b = inside.copy()
                b[k] = sign * (end + beyond)
                if fit_intercept:
                    b[1 if sign > 0 else 2] -= b.sum()
                assert not machine.feasible(b, 1e-12)
                assert machine.certify(K, b, 0.0).gap == np.inf
    uneven = inside + np.array([0.0, 1e-9, 0.0, 0.0])
    assert np.isfinite(machine.certify(K, uneven, 0.0).gap) == (not fit_intercept)
    assert np.isfinite(machine.certify(K, inside, 0.1).gap) == fit_intercept


FORMULAS = {
    Hinge(): hinge,
    SquaredHinge(): squared_hinge,
    EpsilonInsensitive(0.2): tube(0.2),
    Logistic(): lambda y, f: np.logaddexp(0.0, -y * f),
}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", FORMULAS, ids=str)
def test_values_of_a_machine_by_their_formulas(loss, fit_intercept, rng):
    """At any coefficients and intercept: with weights of rows, for some of the rows, and with what is not feasible."""
    X, y, weight = rng.normal(size=(6, 3)), np.tile([1.0, -1.0], 3), rng.uniform(0.5, 2.0, 6)
    K, b = X @ X.T, 0.3 * y * weight * rng.uniform(0.2, 0.8, 6)
    b -= b.mean()
    whole = Machine(y, 0.7, loss, weight, 9, fit_intercept)
    for rows in (np.arange(6), np.array([4, 1, 0])):
        machine = whole.restricted(rows)
        assert (machine.C, machine.loss, machine.max_iter, machine.fit_intercept) == (
            0.7,
            loss,
            9,
            fit_intercept,
        )
        costs, own, part = 0.7 * weight[rows], b[rows], K[np.ix_(rows, rows)]
        np.testing.assert_allclose(machine.costs, costs, rtol=1e-15)
        product = part @ own
        conjugate = {
            "hinge": own @ y[rows], "squared-hinge": own @ y[rows] - 0.5 * np.square(own) @ (1.0 / costs),
            "epsilon-insensitive": own @ y[rows] - 0.2 * np.abs(own).sum(),
        }.get(loss.name)  # fmt: skip
        if conjugate is not None:
            assert machine.dual_term(own) == pytest.approx(conjugate, rel=1e-12)
        total = own.sum()
        for t in (0.0, 0.4):
            at = machine.values(own, product, t)
            f = product + t
            assert at.primal == pytest.approx(
                0.5 * own @ product + costs @ FORMULAS[loss](y[rows], f), rel=1e-12
            )
            assert at.intercept == t
            if abs(total) < 1e-12 or t == 0.0:
                dual = machine.dual_term(own) - 0.5 * own @ product
                assert at.gap == pytest.approx(at.primal - dual, rel=1e-9)
        # the best intercept, where there is one
        best = machine.values(own, product)
        kinks = (y[rows] - product)[:, None] + np.array([-0.2, 0.0, 0.2])
        tries = np.r_[0.0, np.linspace(-12.0, 12.0, 24001), kinks.ravel()]
        values = 0.5 * own @ product + FORMULAS[loss](y[rows], product + tries[:, None]) @ costs
        assert best.primal == pytest.approx(min(values) if fit_intercept else values[0], rel=1e-5)
        assert fit_intercept or best.intercept == 0.0
        assert machine.infeasibility(own) >= (abs(total) - 1e-14 if fit_intercept else 0.0)
        stated = machine.statement(np.array([2.0]))
        assert (stated.loss, stated.C, stated.intercept) == (loss.name, 0.7, fit_intercept)
        np.testing.assert_allclose(stated.sample_weight, weight[rows])
        assert stated.scale.tolist() == [2.0]
    some = np.array([True, False, True, True, False, True, True, True])
    np.testing.assert_array_equal(whole.statement(np.ones(1), some).sample_weight[~some], 0.0)
    np.testing.assert_array_equal(whole.statement(np.ones(1), some).sample_weight[some], weight)
    without = Machine(y, 0.7, loss).restricted(np.array([3, 1]))
    assert (without.sample_weight, without.costs.tolist()) == (None, [0.7, 0.7])


@pytest.mark.parametrize("weight", [None, np.array([2.0, 0.5, 1.5])])
def test_rows_of_one_class_have_their_label_or_what_one_row_more_leaves(weight):
    n = 3 if weight is None else 4.0
    for sign in (1.0, -1.0):
        y = np.full(3, sign)
        assert Machine(y, 0.1, Logistic(), weight).constant == pytest.approx(
            sign * np.log(2.0 * n + 1.0), rel=1e-9
        )
        assert Machine(y, 0.1, Hinge(), weight).constant == sign
        assert Machine(y, 0.1, Hinge(), weight).one_class
    assert not Machine(np.array([1.0, 1.0, -1.0]), 0.1, Hinge()).one_class
    assert not Machine(np.ones(3), 0.1, EpsilonInsensitive(0.1)).one_class


def test_regression_has_a_tube_of_a_tenth(rng):
    K, _, t = make_data(30, rng)
    np.testing.assert_array_equal(kw.solve_svr(K, t, 1.0).dual_coef, kw.solve_svr(K, t, 1.0, 0.1).dual_coef)


@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("linear", [False, True])
def test_values_of_the_cone_solver(C, linear, rng):
    K, y, t = make_data(60, rng, linear=linear)
    costs = C * rng.integers(1, 4, size=60)
    weights = costs / C
    svc = kw.solve_svc(K, y, C, sample_weight=weights, tol=1e-10)
    l2svc = kw.solvers.solve_l2svc(K, y, C, sample_weight=weights, tol=1e-10)
    svr = kw.solve_svr(K, t, C, 0.1, sample_weight=weights, tol=1e-10)
    check(svc, K, y, costs, hinge, 1e-10)
    check(l2svc, K, y, costs, squared_hinge, 1e-10)
    check(svr, K, t, costs, tube(0.1), 1e-10)
    assert svc.primal == pytest.approx(svc_by_conic(K, y, costs), rel=1e-7)
    assert l2svc.primal == pytest.approx(svc_by_conic(K, y, costs, squared=True), rel=1e-7)
    assert svr.primal == pytest.approx(svr_by_conic(K, t, costs, 0.1), rel=1e-7)


@pytest.mark.parametrize("C", [1e-3, 1e-1, 1.0, 10.0, 1e3, 1e5])
def test_values_of_scikit_learn(C, rng):
    from sklearn.svm import SVC, SVR

    K, y, t = make_data(150, rng)
    for kind, machine, target in (("svc", SVC(), y), ("svr", SVR(epsilon=0.1), t)):
        machine.set_params(kernel="precomputed", C=C, tol=1e-10, max_iter=2_000_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(K, target)
        coef = np.zeros(150)
        coef[machine.support_] = machine.dual_coef_[0]
        # LIBSVM keeps kernels in single precision: of first order in the primal value, of second order in the dual
        theirs = target @ coef - 0.5 * coef @ K @ coef - (0.1 * np.abs(coef).sum() if kind == "svr" else 0.0)
        ours = solve(kind, K, y, t, C, tol=1e-8)
        check(ours, K, target, np.full(150, C), LOSSES[kind], 1e-8)
        assert ours.dual == pytest.approx(theirs, rel=1e-6)
        assert ours.primal <= svm_value(K, target, coef, np.full(150, C), LOSSES[kind], KINKS) * (1 + 1e-8)
        if C >= 1:
            values = machine.decision_function(K) if kind == "svc" else machine.predict(K)
            np.testing.assert_allclose(K @ ours.dual_coef + ours.intercept, values, atol=2e-3)


@pytest.mark.parametrize("case", ["duplicates", "rank one", "constant", "one-hot", "opposite labels"])
@pytest.mark.parametrize("kind", ["svc", "svr"])
def test_never_worse_than_libsvm_on_degenerate_kernels(case, kind, rng):
    from sklearn.svm import SVC, SVR

    K, y, t = make_data(60, rng)
    rows, group = np.arange(60) % 30, rng.integers(0, 6, size=60)
    K = {
        "rank one": np.outer(t, t),
        "constant": np.full((60, 60), 2.0),
        "one-hot": (group[:, None] == group).astype(float),
    }.get(case, K[np.ix_(rows, rows)])
    if case == "opposite labels":
        y[30:], t[30:] = -y[:30], -t[:30]
    target, machine = (y, SVC()) if kind == "svc" else (t, SVR(epsilon=0.1))
    for C in 10.0 ** np.arange(-3, 7):
        ours = solve(kind, K, y, t, C, tol=1e-6)
        machine.set_params(kernel="precomputed", C=C, tol=1e-6, max_iter=20_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(K, target)
        coef = np.zeros(60)
        coef[machine.support_] = machine.dual_coef_[0]
        f = K @ coef + machine.intercept_[0]
        theirs = 0.5 * coef @ K @ coef + C * LOSSES[kind](target, f).sum()
        assert ours.status is kw.solvers.Status.CONVERGED
        assert ours.primal <= theirs * (1 + 1e-6)


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4])
def test_tight_tolerances_are_met(kind, linear, C, rng):
    K, y, t = make_data(120, rng, linear=linear)
    # at the largest C the value itself is known to 1e-10 only: C times the rounding errors of f
    tol = 1e-12 if C <= 1 else 1e-9
    result = solve(kind, K, y, t, C, tol=tol)
    check(result, K, t if kind == "svr" else y, np.full(120, C), LOSSES[kind], tol)


@pytest.mark.parametrize("kind", MACHINES)
def test_a_weight_is_a_repetition_and_zero_is_removal(kind, rng):
    K, y, t = make_data(60, rng)
    weights = rng.integers(0, 4, size=60)
    rows = np.repeat(np.arange(60), weights)
    again = solve(kind, K[np.ix_(rows, rows)], y[rows], t[rows], 2.0, tol=1e-11)
    result = solve(kind, K, y, t, 2.0, sample_weight=weights, tol=1e-11)
    assert result.primal == pytest.approx(again.primal, rel=1e-10)
    assert not result.dual_coef[weights == 0].any()
    f = K @ result.dual_coef + result.intercept
    np.testing.assert_allclose(f, K[:, rows] @ again.dual_coef + again.intercept, atol=1e-5)
    kept = np.flatnonzero(weights)
    without = solve(
        kind, K[np.ix_(kept, kept)], y[kept], t[kept], 2.0, sample_weight=weights[kept], tol=1e-11
    )
    np.testing.assert_allclose(result.dual_coef[kept], without.dual_coef, atol=1e-6)
    assert result.intercept == pytest.approx(without.intercept, abs=1e-7)


@pytest.mark.parametrize("kind", MACHINES)
def test_permutation_and_scale(kind, rng):
    K, y, t = make_data(70, rng)
    result = solve(kind, K, y, t, 3.0, tol=1e-11)
    order = rng.permutation(70)
    moved = solve(kind, K[np.ix_(order, order)], y[order], t[order], 3.0, tol=1e-11)
    np.testing.assert_allclose(moved.dual_coef, result.dual_coef[order], atol=1e-6)
    assert moved.primal == pytest.approx(result.primal, rel=1e-10)
    for a in (1e-6, 37.0, 1e8):
        scaled = solve(kind, a * K, y, t, 3.0 / a, tol=1e-11)
        assert scaled.primal * a == pytest.approx(result.primal, rel=1e-10)
        np.testing.assert_allclose(a * scaled.dual_coef, result.dual_coef, atol=1e-6)
    flipped = solve(kind, K, -y, -t, 3.0, tol=1e-11)
    np.testing.assert_allclose(flipped.dual_coef, -result.dual_coef, atol=1e-6)
    assert flipped.intercept == pytest.approx(-result.intercept, abs=1e-7)


def test_a_constant_added_to_the_kernel_changes_nothing(rng):
    # 1'b = 0: the intercept takes it up
    K, y, t = make_data(70, rng)
    for kind in MACHINES:
        plain = solve(kind, K, y, t, 3.0, tol=1e-11)
        shifted = solve(kind, K + 5.0, y, t, 3.0, tol=1e-11)
        assert shifted.primal == pytest.approx(plain.primal, rel=1e-9)


@pytest.mark.parametrize("kind", MACHINES)
def test_a_warm_start_gives_the_same_answer_sooner(kind, rng):
    K, y, t = make_data(300, rng)
    Cs = np.geomspace(1e-1, 1e3, 9)
    warm, total, cold_total = None, 0, 0
    for C in Cs:
        cold = solve(kind, K, y, t, C, tol=1e-8)
        result = solve(kind, K, y, t, C, tol=1e-8, start=warm)
        assert result.status is kw.solvers.Status.CONVERGED
        assert result.primal == pytest.approx(cold.primal, rel=1e-7)
        warm = result.dual_coef
        total, cold_total = total + result.n_iter, cold_total + cold.n_iter
    assert total < cold_total
    again = solve(kind, K, y, t, Cs[-1], tol=1e-8, start=warm)
    assert again.n_iter <= 0.05 * cold.n_iter
    lower = solve(kind, K, y, t, 0.5, tol=1e-8, start=warm)
    assert lower.primal == pytest.approx(solve(kind, K, y, t, 0.5, tol=1e-8).primal, rel=1e-7)


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("size", [0.0, 1e-12, 1.0, 1e12])
def test_any_array_may_be_a_warm_start(kind, size, rng):
    K, y, t = make_data(50, rng)
    result = solve(kind, K, y, t, 1.0, tol=1e-9, start=size * rng.normal(size=50))
    assert result.status is kw.solvers.Status.CONVERGED
    assert result.primal == pytest.approx(solve(kind, K, y, t, 1.0, tol=1e-9).primal, rel=1e-8)


# ---- hard cases ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e5])
def test_duplicated_rows(kind, C, rng):
    K, y, t = make_data(25, rng)
    rows = np.tile(np.arange(25), 3)
    # some rows come with both labels
    labels = np.concatenate([y, y, -y])
    twice = solve(kind, K[np.ix_(rows, rows)], labels, np.tile(t, 3), C, tol=1e-9)
    target, loss = (np.tile(t, 3) if kind == "svr" else labels), LOSSES[kind]
    check(twice, K[np.ix_(rows, rows)], target, np.full(75, C), loss, 1e-9)


def test_a_constant_kernel_leaves_the_intercept():
    K = np.full((7, 7), 2.0)
    y = np.array([1, 1, 1, 1, 1, -1, -1.0])
    svc = kw.solve_svc(K, y, 0.5)
    assert svc.status is kw.solvers.Status.CONVERGED
    # all rows get the sign of the majority: two are lost, with slack 2
    assert svc.primal == pytest.approx(0.5 * 2 * 2)
    assert svc.intercept == pytest.approx(1.0)
    svr = kw.solve_svr(K, np.arange(7.0), 1.0, 0.0)
    assert svr.intercept == pytest.approx(3.0)
    assert svr.primal == pytest.approx(12.0)
    l2svc = kw.solvers.solve_l2svc(K, y, 1.0)
    # least squares: the mean of the labels
    assert l2svc.intercept == pytest.approx(3 / 7)
    zero = kw.solve_svc(0.0 * K, y, 0.5)
    assert zero.primal == pytest.approx(2.0)


def test_two_rows():
    K = np.array([[1.0, 0.0], [0.0, 1.0]])
    for C, size in ((10.0, 1.0), (0.25, 0.25)):
        result = kw.solve_svc(K, [1, -1], C)
        np.testing.assert_allclose(result.dual_coef, [size, -size])
        assert result.intercept == pytest.approx(0.0, abs=1e-12)
        assert result.rel_gap <= 1e-13  # measured: 3.5e-14, the bound of rounding errors
    one = kw.solve_svr([[1.0]], [3.0], 1.0, 0.1)
    assert (one.primal, one.intercept) == (0.0, pytest.approx(3.0))


def test_tiny_C_puts_every_row_of_the_smaller_class_at_its_bound(rng):
    K, y, _ = make_data(80, rng, share=0.2)
    result = kw.solve_svc(K, y, 1e-9)
    assert result.status is kw.solvers.Status.CONVERGED
    np.testing.assert_allclose(result.dual_coef[y > 0], 1e-9, rtol=1e-12)
    assert result.primal == pytest.approx(2e-9 * 16, rel=1e-6)


def test_one_free_vector():
    # three positives against two negatives: one of the rows must balance the sum
    x = np.array([1.0, 2.0, 3.0, -1.0, -2.5])
    weights = np.array([1.0, 1.0, 1.0, 1.0, 1.5])
    result = kw.solve_svc(np.outer(x, x), np.sign(x), 0.01, sample_weight=weights, tol=1e-12)
    costs = 0.01 * weights
    free = (np.abs(result.dual_coef) > 0) & (np.abs(result.dual_coef) < costs * (1 - 1e-9))
    assert free.sum() == 1
    assert result.rel_gap <= 1e-12


@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
def test_imbalance(C, rng):
    K, y, _ = make_data(200, rng, share=0.02)
    check(kw.solve_svc(K, y, C), K, y, np.full(200, C), hinge, 1e-6)


@pytest.mark.parametrize("kind", MACHINES)
def test_low_rank_and_little_regularisation(kind, rng):
    """A kernel of rank 1 to 5 that separates nothing: what SMO alone does not solve in millions of steps."""
    for width in (1, 5):
        X = rng.normal(size=(200, width))
        y = np.where(X[:, 0] + rng.normal(size=200) > 0, 1.0, -1.0)
        t = X[:, 0] + rng.standard_t(2, size=200)
        result = solve(kind, X @ X.T, y, t, 1e5)
        check(result, X @ X.T, t if kind == "svr" else y, np.full(200, 1e5), LOSSES[kind], 1e-6)


@pytest.mark.parametrize("kind", MACHINES)
def test_a_badly_scaled_kernel_ends_with_a_status(kind, rng):
    x = np.exp(rng.normal(scale=6.0, size=(60, 1)))
    K = np.square(1.0 + x @ x.T) ** 2
    assert K.max() / K.min() > 1e15
    result = solve(
        kind, K, np.where(rng.uniform(size=60) < 0.5, 1.0, -1.0), rng.normal(size=60), 1.0, max_iter=50_000
    )
    assert isinstance(result.status, kw.solvers.Status)
    assert result.status.ok == (result.rel_gap <= 1e-6)
    assert np.isfinite(result.dual_coef).all()
    assert np.isfinite([result.primal, result.dual, result.intercept]).all()


def test_float32_kernels_are_no_reason_to_refuse(rng):
    K, y, t = make_data(100, rng)
    for kind in MACHINES:
        assert solve(kind, K.astype(np.float32), y, t, 10.0).status is kw.solvers.Status.CONVERGED


# ---- statuses and certificates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MACHINES)
def test_the_gap_bounds_the_error_of_unfinished_solutions(kind, rng):
    K, y, t = make_data(200, rng)
    best = solve(kind, K, y, t, 10.0, tol=1e-11)
    gaps = []
    for steps in (1, 10, 50):
        short = solve(kind, K, y, t, 10.0, max_iter=steps, tol=1e-11)
        assert short.status is kw.solvers.Status.MAX_ITER
        assert short.dual <= best.primal * (1 + 1e-11)
        assert best.dual <= short.primal * (1 + 1e-11)
        gaps.append(short.gap)
    assert gaps[-1] < gaps[0]
    assert gaps[0] > 1e-3 * best.primal


def test_the_tolerance_is_honoured_and_not_wasted(rng):
    K, y, _ = make_data(300, rng)
    loose, tight = kw.solve_svc(K, y, 10.0, tol=1e-2), kw.solve_svc(K, y, 10.0, tol=1e-9)
    assert loose.rel_gap <= 1e-2
    assert tight.rel_gap <= 1e-9
    assert loose.n_iter < tight.n_iter


def test_rounding_is_reported_and_not_hidden(rng):
    K, _, t = make_data(100, rng)
    result = kw.solve_svr(K, t, 1e5, 0.01, tol=1e-15)
    assert result.status is kw.solvers.Status.STALLED
    # measured: 4e-8 of its own, and a bound of 2e-7 for the rounding errors of the certificate
    assert 1e-15 < result.rel_gap < 1e-6
    assert result.gap - result.rounding < 1e-7 * result.primal


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("size", [1.0, 1e10])
def test_the_gap_covers_rounding_errors(kind, size, rng):
    """Primal and dual in exact arithmetic: a rank-one kernel with large entries leaves few digits of the margins."""
    x = rng.normal(size=20)
    noise = rng.normal(size=20)
    y, t, C = np.where(x + noise > 0, 1.0, -1.0), x + noise, 1e3
    K = size * np.outer(x, x)
    for tol in (1e-3, 1e-8, 1e-12):
        result = solve(kind, K, y, t, C, tol=tol)
        primal, dual = exact_values(kind, K[:, :, None], [1.0], y, t, C, result.dual_coef, result.intercept)
        assert abs(primal - Fraction(result.primal)) <= result.rounding
        assert primal - dual <= result.gap
        assert Fraction(result.dual) <= primal
        assert (result.status is kw.solvers.Status.CONVERGED) == (result.rel_gap <= tol)
        own = (result.gap - result.rounding) / result.primal
        if result.status is kw.solvers.Status.ROUNDING:
            # without the rounding errors the gap is within tol, or no larger than they are
            assert own <= max(tol, result.rounding / result.primal)
            assert tol < result.rel_gap
    if size == 1.0:
        assert result.rounding <= 1e-9 * result.primal  # measured: 3e-11 to 2e-10


def test_results_are_frozen(rng):
    K, y, _ = make_data(20, rng)
    with pytest.raises(dataclasses.FrozenInstanceError):
        kw.solve_svc(K, y, 1.0).primal = 0.0


def test_inputs_are_not_changed_and_may_be_read_only(rng):
    K, y, t = make_data(40, rng)
    start = rng.normal(size=40)
    before = K.copy(), y.copy(), t.copy(), start.copy()
    for array in (K, y, t, start):
        array.flags.writeable = False
    for kind in MACHINES:
        first = solve(kind, K, y, t, 1.0, start=start)
        second = solve(kind, np.asfortranarray(K), y, t, 1.0, start=start)
        np.testing.assert_array_equal(first.dual_coef, second.dual_coef)
    for array, old in zip((K, y, t, start), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_an_interrupt_is_noticed_between_chunks(rng, monkeypatch):
    K, y, _ = make_data(150, rng)
    calls = []
    inner = smo.core.box_smo

    def counted(*args):
        if args[-2] == 0:
            # a look
            return inner(*args)
        calls.append(args[-2])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return inner(*args)

    monkeypatch.setattr(smo, "core", SimpleNamespace(box_smo=counted))
    monkeypatch.setattr(smo, "CHUNK", 1.0)
    monkeypatch.setattr(smo, "HAS_EXTENSION", False)
    with pytest.raises(KeyboardInterrupt):
        kw.solve_svc(K, y, 100.0)
    assert calls == [100, 100, 100]


# ---- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MACHINES)
def test_bad_kernels_are_refused(kind, rng):
    K, y, t = make_data(30, rng)
    for change, message in (
        (lambda K: K[:, :20], r"shape \(n_samples, n_samples\), got \(30, 20\)"),
        (lambda K: K[:0, :0], "shape"),
        (lambda K: K[:, :, None], "Combine the stack"),
        (lambda K: np.where(np.eye(30) > 0, np.nan, K), "30 NaN"),
        (lambda K: np.where(np.arange(30) == 3, np.inf, K), "infinity"),
        (lambda K: K + np.triu(np.ones((30, 30)), 1), "symmetric"),
        (lambda K: np.array([["a"] * 30] * 30), "real numbers"),
    ):
        with pytest.raises(kw.InputError, match=message):
            solve(kind, change(K), y, t, 1.0)
    nan_off_diagonal = K.copy()
    nan_off_diagonal[3, 7] = nan_off_diagonal[7, 3] = np.nan
    with pytest.raises(kw.InputError, match="2 NaN"):
        solve(kind, nan_off_diagonal, y, t, 1.0)
    with pytest.raises(kw.NotPSDError, match="distance matrix"):
        solve(kind, np.abs(np.subtract.outer(t, t)), y, t, 1.0)
    with pytest.raises(kw.NotPSDError, match="negative diagonal"):
        solve(kind, K - 2 * np.eye(30), y, t, 1.0)


@pytest.mark.parametrize("kind", MACHINES)
def test_bad_parameters_are_refused(kind, rng):
    K, y, t = make_data(30, rng)
    for C in (0.0, -1.0, np.nan, np.inf, "a", None):
        with pytest.raises(kw.InputError, match="`C` must be a finite number > 0"):
            solve(kind, K, y, t, C)
    for options, message in (
        ({"tol": 0.0}, "tol"),
        ({"tol": 2.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 2.5}, "max_iter"),
        ({"sample_weight": np.ones(29)}, "sample_weight"),
        ({"sample_weight": -np.ones(30)}, "nonnegative"),
        ({"sample_weight": np.full(30, np.nan)}, "sample_weight"),
        ({"sample_weight": np.zeros(30)}, "y|sample_weight"),
        ({"start": np.ones(29)}, "`start`"),
        ({"start": np.full(30, np.nan)}, "`start`"),
        ({"start": "previous"}, "`start`"),
        ({"on_indefinite": "ignore"}, "on_indefinite"),
    ):
        with pytest.raises(kw.InputError, match=message):
            solve(kind, K, y, t, 1.0, **options)


@pytest.mark.parametrize("machine", [kw.solve_svc, kw.solvers.solve_l2svc])
def test_bad_labels_are_refused(machine, rng):
    K, y, _ = make_data(30, rng)
    for labels in (
        np.where(y > 0, 1, 0),
        np.where(y > 0, "a", "b"),
        y * 2,
        np.where(y > 0, np.nan, -1),
        [None] * 30,
    ):
        with pytest.raises(kw.InputError, match="labels -1 and"):
            machine(K, labels, 1.0)
    with pytest.raises(kw.InputError, match="one label per row"):
        machine(K, y[:-1], 1.0)
    with pytest.raises(kw.InputError, match="single class"):
        machine(K, np.ones(30), 1.0)
    with pytest.raises(kw.InputError, match="positive weight"):
        machine(K, y, 1.0, sample_weight=(y > 0).astype(float))


def test_bad_targets_are_refused(rng):
    K, _, t = make_data(30, rng)
    for targets, message in ((t[:-1], "one entry per row"), (["a"] * 30, "got text"), (t * np.nan, "NaN")):
        with pytest.raises(kw.InputError, match=message):
            kw.solve_svr(K, targets, 1.0, 0.1)
    for epsilon in (-0.1, np.nan, np.inf, "a"):
        with pytest.raises(kw.InputError, match="epsilon"):
            kw.solve_svr(K, t, 1.0, epsilon)


@pytest.mark.parametrize("kind", ["svc", "svr"])
def test_indefinite_kernels_are_noticed_and_repaired_on_request(kind, rng):
    X = rng.normal(size=(60, 3))
    K = np.tanh(X @ X.T - 1.0) + 0.8 * np.eye(60) * (np.diag(np.tanh(X @ X.T - 1.0)) < 0)
    np.fill_diagonal(K, np.abs(np.diag(K)))
    y, t = np.where(X[:, 0] > 0, 1.0, -1.0), X[:, 0]
    lowest = np.linalg.eigvalsh(K)[0]
    assert lowest < -0.5
    with pytest.raises(kw.NotPSDError, match="on_indefinite='clip'"):
        solve(kind, K, y, t, 10.0)
    values, vectors = np.linalg.eigh(K)
    clipped = (vectors * np.maximum(values, 0)) @ vectors.T
    shifted = K - lowest * np.eye(60)
    for how, repaired in (("clip", clipped), ("shift", shifted)):
        result = solve(kind, K, y, t, 10.0, on_indefinite=how)
        assert result.status is kw.solvers.Status.CONVERGED
        expected = solve(kind, 0.5 * (repaired + repaired.T) + 1e-13 * np.eye(60), y, t, 10.0)
        assert result.primal == pytest.approx(expected.primal, rel=1e-5)


def test_check_can_be_skipped(rng):
    K, y, _ = make_data(40, rng)
    np.testing.assert_array_equal(
        kw.solve_svc(K, y, 1.0, check=False).dual_coef, kw.solve_svc(K, y, 1.0).dual_coef
    )


def test_warm_starts_leave_no_row_next_to_its_bound(rng):
    """A row inside its margin is at its bound exactly: rounding must not make it look free."""
    for _ in range(10):
        X = rng.normal(size=(80, 3))
        y = np.where(X[:, 0] + rng.normal(size=80) > 0, 1.0, -1.0)
        K = np.exp(-0.3 * np.square(X[:, None] - X).sum(axis=2))
        warm = None
        for size in (1.0, 0.5, 0.25, 0.125, 0.0625):
            found = kw.solve_svc(size * K, y, 1.0, tol=1e-8, start=warm)
            warm = found.dual_coef
            inside = y * (size * K @ warm + found.intercept) < 1.0 - 1e-6
            assert found.status.ok
            assert (np.abs(warm[inside]) == 1.0).all()
            assert abs(warm.sum()) < 1e-12


def test_a_machine_says_what_it_is(rng):
    """Costs, parts of the rows, and the numbers of its certificate."""
    y, weight = np.array([1.0, -1.0, 1.0, -1.0]), np.array([0.5, 2.0, 0.0, 1.0])
    own = Machine(y, 2, EpsilonInsensitive(0.3), weight, 7, False)
    assert own.costs.tolist() == [1.0, 4.0, 0.0, 2.0]
    assert Machine(y, 2).costs.tolist() == [2.0] * 4
    assert Machine(y, 2).costs.dtype == np.float64
    some = own.restricted(np.array([3, 0]))
    assert (some.y.tolist(), some.sample_weight.tolist(), some.max_iter) == ([-1.0, 1.0], [1.0, 0.5], 7)
    assert (some.fit_intercept, some.C, some.loss) == (False, 2, own.loss)
    assert Machine(y, 2).restricted(np.array([1])).sample_weight is None
    assert own.ridge.tolist() == [0.0] * 4
    assert [float(part) if np.ndim(part) == 0 else part.tolist() for part in own.box] == [
        [-1.0, 1.0, -1.0, 1.0], [0.0] * 4, [-1.0, -4.0, 0.0, -2.0], [1.0, 4.0, 0.0, 2.0], 0.3,
    ]  # fmt: skip
    assert not own.one_class
    assert not Machine(np.ones(3), 1.0, EpsilonInsensitive()).one_class
    assert Machine(np.ones(3), 1.0).one_class
    said = own.statement(np.array([2.0, 3.0]), np.array([True, False, True, True, True]))
    assert (said.loss, said.C, said.intercept, said.parameters) == (
        "epsilon-insensitive",
        2,
        False,
        {"epsilon": 0.3},
    )
    assert said.scale.tolist() == [2.0, 3.0]
    assert said.sample_weight.tolist() == [0.5, 0.0, 2.0, 0.0, 1.0]
    X = rng.normal(size=(4, 2))
    K, b = X @ X.T, np.array([0.5, -0.5, 0.0, 0.0])
    on = OnKernel(K, Machine(y, 2.0, Hinge(), weight))
    found = SimpleNamespace(dual_coef=b, intercept=0.25)
    assert on.certify(found) == on.machine.certify(K, b, 0.25)
    assert on.statement(found).scale.tolist() == [1.0]
    certificate = on.certify(found)
    at = on.machine.values(b, K @ b, 0.25)
    assert (certificate.kind, certificate.primal) == ("machine", pytest.approx(at.primal))
    assert certificate.own_gap == pytest.approx(at.gap)
    # without an intercept none is possible, and entries of sums of kernels are less exact
    free = replace(on.machine, fit_intercept=False)
    assert free.certify(K, b, 0.25).gap == np.inf
    assert free.certify(K, b, 0.0).gap < np.inf
    apart = np.array([0.6, -0.5, 0.0, 0.0])  # their sum is not zero
    assert free.certify(K, apart, 0.0).gap < np.inf
    assert on.machine.certify(K, apart, 0.0).gap == np.inf
    assert on.machine.certify(K, b, 0.25, 1e-6).rounding > 1e5 * certificate.rounding
    assert free.values(b, K @ b).intercept == 0.0


@pytest.mark.parametrize("name", ["solve_svc", "solve_l2svc", "solve_svr", "solve_klr"])
def test_options_of_functions_are_those_of_machines(name, monkeypatch):
    """Every one of them arrives, and none by default."""
    given, solve = [], getattr(kw.solvers, name)
    monkeypatch.setattr(svm, "as_kernel", lambda *args, **more: given.append([args, more]) or args[0])
    monkeypatch.setattr(svm, "_solve", lambda *args: given.append(args))
    K, y, weight, start = np.eye(3), np.array([1.0, -1.0, 1.0]), np.array([1.0, 0.5, 2.0]), np.zeros(3)
    loss = {"solve_svc": Hinge(), "solve_l2svc": SquaredHinge(), "solve_klr": Logistic()}.get(name)
    more = {"sample_weight": weight, "tol": 1e-3, "max_iter": 7, "start": start}
    solve(K, y, 2.5, on_indefinite="clip", check=False, **more)
    assert given[0][0][0] is K
    assert (given[0][0][1:], given[0][1]) == (("clip",), {"check": False})
    assert given[1][0] == (loss or EpsilonInsensitive(0.1))
    assert [given[1][k] is one for k, one in ((1, K), (2, y), (4, weight), (7, start))] == [True] * 4
    assert (given[1][3], given[1][5], given[1][6]) == (2.5, 1e-3, 7)
    given.clear()
    solve(K, y, 1.0)
    assert (given[0][0][1:], given[0][1]) == (("raise",), {"check": True})
    assert given[1][4:] == (None, 1e-6, None, None)
    if loss is None:
        solve(K, y, 1.0, 0.4)
        assert given[3][0] == EpsilonInsensitive(0.4)
