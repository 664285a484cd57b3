"""Kernel learning with a limit on the number of kernels, against the best of all subsets.

Modules: `learners/cardinality`, `mkl/cardinality`, `mkl/branch_and_bound`, `mkl/simplex_ridge`, `mkl/problems`.
"""

import math
from itertools import combinations

import numpy as np
import pytest

import kernelweave as kw
from journeys import defaults_of, verdicts
from kernelweave.learners import CardinalityMKL
from kernelweave.mkl import cardinality
from kernelweave.mkl.branch_and_bound import Search, Subsets
from kernelweave.mkl.cardinality import CardinalityProblem, Kernels, solve_cardinality
from kernelweave.mkl.simplex_ridge import spread
from kernelweave.results import Status, WarmStart
from oracles import simplex_dual_by_conic

LOSSES = ("hinge", "squared-hinge", "epsilon-insensitive", "logistic")


def bank(rng, n=30, n_kernels=7, loss="hinge"):
    """Gaussians of one or two columns, and targets of which no single column tells everything."""
    X = rng.normal(size=(n, 4))
    distances = np.square(X[:, None] - X[None])
    picks = [rng.choice(4, size=1 + m % 2, replace=False) for m in range(n_kernels)]
    gram = np.stack(
        [np.exp(-(10.0 ** rng.uniform(-1, 0.5)) * distances[:, :, c].sum(-1)) for c in picks], axis=-1
    )
    t = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    return gram, (t if loss == "epsilon-insensitive" else np.where(t > np.median(t), 1.0, -1.0))


def best_of_all(gram, y, C, k, loss, ridge):
    """The smallest value of all subsets of k kernels, by a cone program each."""
    subsets, costs = combinations(range(gram.shape[2]), k), np.full(len(y), C)
    return min(simplex_dual_by_conic(gram[:, :, list(S)], y, costs, loss, ridge=ridge) for S in subsets)


def value_of(gram, y, C, found, ridge=0.0, loss="hinge"):
    """The objective at the numbers of a solution."""
    f = gram @ found.weights @ found.dual_coef
    margin = 1 - y * (f + found.intercept)
    losses = {
        "hinge": np.maximum(margin, 0),
        "squared-hinge": 0.5 * np.maximum(margin, 0) ** 2,
        "epsilon-insensitive": np.maximum(np.abs(y - f - found.intercept) - 0.1, 0),
        "logistic": np.logaddexp(0, margin - 1),
    }[loss]
    return 0.5 * found.dual_coef @ f + C * losses.sum() + ridge * found.weights @ found.weights


# ---- the optimum --------------------------------------------------------------------------------------------------


@pytest.mark.sampled(10)
@pytest.mark.parametrize("ridge", [0.0, 3.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_subset_is_better(loss, ridge, rng):
    gram, y = bank(rng, n_kernels=6, loss=loss)
    for k, C in ((2, 3.0), (3, 0.3)):
        best = best_of_all(gram, y, C, k, loss, ridge)
        found = kw.solvers.solve_cardinality_mkl(gram, y, C, k, ridge=ridge, loss=loss)
        assert found.status is Status.CONVERGED
        assert found.rel_gap <= 1e-6
        assert np.count_nonzero(found.weights) <= k
        assert found.weights.min() >= 0
        assert math.fsum(found.weights) == pytest.approx(1, abs=1e-12)
        # measured for the cone solver: within 4e-8
        assert found.dual <= best * (1 + 1e-7)
        assert best * (1 - 1e-7) <= found.primal <= best * (1 + 1.1e-6)
        assert found.primal == pytest.approx(value_of(gram, y, C, found, ridge, loss), rel=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_of_given_kernels_the_gap_says_how_it_ended(loss, rng):
    gram, y = bank(rng, n_kernels=5, loss=loss)
    best = simplex_dual_by_conic(gram, y, np.full(len(y), 2.0), loss, ridge=3.0)
    problem = CardinalityProblem(kw.Problem(gram, y, loss, "simplex", 2.0).form, 5, 3.0)
    for tol, status in ((1e-2, Status.CONVERGED), (1e-7, Status.CONVERGED), (1e-15, Status.ROUNDING)):
        found = cardinality.solve_convex(problem, np.arange(5), tol)
        assert found.status is status
        assert (found.rel_gap <= tol) == (status is Status.CONVERGED)
        assert found.dual - 1e-7 * best <= best <= found.primal + 1e-7 * best
        assert found.primal == pytest.approx(value_of(gram, y, 2.0, found, 3.0, loss), rel=1e-9)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(10))
def test_searches_that_branch_end_with_the_best_subset(seed):
    """Columns that matter about equally, so that the tree has several levels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 8))
    gram, y = X[:, None, :] * X[None, :, :], np.sign(X[:, :6] @ rng.uniform(0.8, 1.2, 6))
    problem = CardinalityProblem(kw.Problem(gram, y, "hinge", "simplex", 5.0).form, 4)
    found = solve_cardinality(problem, tol=1e-6)
    every = [cardinality.solve_convex(problem, np.array(S), 1e-8).primal for S in combinations(range(8), 4)]
    assert found.status is Status.CONVERGED
    assert found.n_nodes > 2
    assert found.primal == pytest.approx(min(every), rel=1e-6)
    assert found.dual <= min(every) * (1 + 1e-12)
    assert len(found.proof) < len(every)


def test_no_limit_is_simple_mkl_and_one_kernel_the_best_alone(rng):
    gram, y = bank(rng)
    simple = kw.solve_svm_mkl(gram, y, 2.0, tol=1e-9)
    for k in (7, 100):
        found = kw.solvers.solve_cardinality_mkl(gram, y, 2.0, k, tol=1e-8)
        assert found.primal == pytest.approx(simple.primal, rel=1e-8)
        assert found.rel_gap <= 1e-8
    alone = [kw.solve_svc(gram[:, :, m], y, C=2.0, tol=1e-10).primal for m in range(7)]
    found = kw.solvers.solve_cardinality_mkl(gram, y, 2.0, 1)
    assert np.flatnonzero(found.weights).tolist() == [int(np.argmin(alone))]
    assert found.primal == pytest.approx(min(alone), rel=1e-8)


def test_a_large_ridge_makes_weights_equal(rng):
    gram, y = bank(rng)
    found = kw.solvers.solve_cardinality_mkl(gram, y, 1.0, 3, ridge=1e5)
    np.testing.assert_allclose(found.weights[found.weights > 0], 1 / 3, atol=1e-3)
    assert found.status is Status.CONVERGED


# ---- what must change nothing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_order_copies_zeros_and_weights_of_rows(ridge, rng):
    gram, y = bank(rng)
    found = kw.solvers.solve_cardinality_mkl(gram, y, 2.0, 2, ridge=ridge)
    rows, kernels = rng.permutation(len(y)), rng.permutation(7)
    moved = kw.solvers.solve_cardinality_mkl(
        gram[np.ix_(rows, rows)][:, :, kernels], y[rows], 2.0, 2, ridge=ridge
    )
    assert moved.primal == pytest.approx(found.primal, rel=2e-6)
    np.testing.assert_allclose(moved.weights, found.weights[kernels], atol=1e-3)
    zeros = np.concatenate([gram, np.zeros((len(y), len(y), 2))], axis=2)
    more = kw.solvers.solve_cardinality_mkl(zeros, y, 2.0, 2, ridge=ridge)
    assert more.primal == pytest.approx(found.primal, rel=2e-6)
    if ridge == 0.0:
        copies = kw.solvers.solve_cardinality_mkl(np.concatenate([gram, gram], axis=2), y, 2.0, 2)
        assert copies.primal == pytest.approx(found.primal, rel=2e-6)
        assert copies.status is Status.CONVERGED
    count = rng.integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), count)
    repeated = kw.solvers.solve_cardinality_mkl(gram[np.ix_(rows, rows)], y[rows], 2.0, 2, ridge=ridge)
    weighted = kw.solvers.solve_cardinality_mkl(gram, y, 2.0, 2, ridge=ridge, sample_weight=count)
    assert weighted.primal == pytest.approx(repeated.primal, rel=2e-6)


def test_kernels_of_zeros_alone(rng):
    _, y = bank(rng)
    found = kw.solvers.solve_cardinality_mkl(np.zeros((30, 30, 3)), y, 1.0, 2)
    assert found.primal == pytest.approx(30.0)
    assert found.status is Status.CONVERGED


# ---- bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ridge", [0.0, 2.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_of_the_pool_lie_below_every_subset(loss, ridge, rng):
    """Coefficients of some subsets bound all others, and agree with their own."""
    gram, y = bank(rng, n_kernels=6, loss=loss)
    problem = CardinalityProblem(kw.Problem(gram, y, loss, "simplex", 2.0).form, 3, ridge)
    kernels = Kernels(problem, 1e-6)
    for S in ([0], [1, 4], [2, 3, 5], [0, 1, 2, 3, 4, 5]):
        own = kernels.compute(np.array(S))
        agree = kernels.bound(np.array(S), np.empty(0, np.int64), 0)
        assert own.dual * (1 - 1e-9) <= agree <= own.primal
    every = {
        S: cardinality.solve_convex(problem, np.array(S), 1e-8).primal
        for size in (1, 2, 3)
        for S in combinations(range(6), size)
    }
    for S, value in every.items():
        assert kernels.bound(np.array(S), np.empty(0, np.int64), 0) <= value
    inside, free = np.array([2]), np.array([0, 3, 5])
    for room in (1, 2):
        allowed = [{2, *R} for r in range(room + 1) for R in combinations((0, 3, 5), r)]
        least = min(every[tuple(sorted(S))] for S in allowed)
        assert kernels.bound(inside, free, room) <= least
    single = kernels.bounds_with(inside, free)
    for j, bound in zip(free, single, strict=True):
        assert bound == kernels.bound(np.array([2, j]), np.empty(0, np.int64), 0)


@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_what_is_needed_is_in_every_better_subset(ridge, rng):
    gram, y = bank(rng)
    problem = CardinalityProblem(kw.Problem(gram, y, "hinge", "simplex", 2.0).form, 3, ridge)
    kernels = Kernels(problem, 1e-6)
    found = kernels.compute(np.array([0, 1, 2]))
    kernels.compute(np.array([3]))
    kernels.target = found.primal
    needed = kernels.needed(np.empty(0, np.int64), np.arange(7), 3)
    assert needed is not None
    assert len(needed) < 7
    for S in combinations(range(7), 3):
        if cardinality.solve_convex(problem, np.array(S), 1e-8).primal < found.primal * (1 - 1e-6):
            assert set(S) & set(needed.tolist())


def test_the_smallest_value_of_forms_and_squared_weights(rng):
    """In closed form, against a fine grid of two weights and against the projection onto the simplex."""
    q = -np.sort(rng.uniform(0, 4, (50, 4)))
    q = q - q[:, :1]
    q[:, 0] = 0.0
    from kernelweave.mkl.weight_sets import Simplex

    for ridge in (1e-3, 0.1, 10.0):
        for row, value in zip(q, spread(q, ridge), strict=True):
            d = Simplex().project(row / (4 * ridge))
            # measured: 3e-16 of the larger term
            assert value == pytest.approx(ridge * d @ d - 0.5 * d @ row, rel=1e-12)


# ---- limits ---------------------------------------------------------------------------------------------------------


def hard(seed=0, n_kernels=20):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, n_kernels))
    return X[:, None, :] * X[None, :, :], np.sign(X[:, :8].sum(axis=1) + 0.3 * rng.normal(size=40))


@pytest.mark.nightly
def test_a_search_that_is_cut_short_states_its_gap():
    gram, y = hard()
    best = kw.solvers.solve_cardinality_mkl(gram, y, 10.0, 3)
    assert best.status is Status.CONVERGED
    gaps = []
    for nodes in (1, 5, 15):
        short = kw.solvers.solve_cardinality_mkl(gram, y, 10.0, 3, max_iter=nodes)
        assert short.n_nodes == nodes
        assert short.status is Status.MAX_ITER
        assert short.rel_gap > 1e-6
        assert short.dual <= best.primal * (1 + 1e-12)
        assert short.primal >= best.dual
        gaps.append(short.gap)
    assert gaps == sorted(gaps, reverse=True)
    late = kw.solvers.solve_cardinality_mkl(gram, y, 10.0, 3, max_time=1e-9)
    assert late.status is Status.MAX_TIME
    assert late.dual <= best.primal <= late.primal * (1 + 1e-6)


def interrupt(monkeypatch, after, solve=cardinality.solve_convex):
    """Ctrl-C within one of the convex problems."""
    calls = iter(range(1, 10**9))

    def interrupted(*given, **more):
        if next(calls) == after:
            raise KeyboardInterrupt
        return solve(*given, **more)

    monkeypatch.setattr(cardinality, "solve_convex", interrupted)


@pytest.mark.nightly
def test_ctrl_c_and_callbacks_keep_the_best_so_far(monkeypatch):
    gram, y = hard()
    best = kw.solvers.solve_cardinality_mkl(gram, y, 10.0, 3)
    seen = []
    stopped = kw.solvers.solve_cardinality_mkl(
        gram, y, 10.0, 3, callback=lambda *told: seen.append(told) or len(seen) == 3
    )
    assert stopped.status is Status.INTERRUPTED
    assert [node for node, _, _ in seen] == [1, 2, 3]
    assert seen[-1][2] >= stopped.rel_gap * (1 - 1e-9) > 1e-6
    np.testing.assert_array_equal(stopped.trace["objective"], [value for _, value, _ in seen])
    for after in (3, 8, 20):
        interrupt(monkeypatch, after)
        kept = kw.solvers.solve_cardinality_mkl(gram, y, 10.0, 3)
        assert kept.status is Status.INTERRUPTED
        assert kept.dual <= best.primal * (1 + 1e-12)
        assert kept.primal >= best.dual
    interrupt(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        kw.solvers.solve_cardinality_mkl(gram, y, 10.0, 3)


def test_a_path_ends_where_it_is_interrupted(rng, monkeypatch):
    gram, y = bank(rng)
    from kernelweave.gram import as_gram
    from kernelweave.learners.base import TrainingSet

    info = TrainingSet(as_gram(gram), y[:, None], np.ones(7), classification=True)
    whole = CardinalityMKL(k=2).path(info, np.array([10.0, 1.0, 0.1]))
    assert len(whole) == 3
    assert all(status is Status.CONVERGED for status in whole.status)
    interrupt(monkeypatch, 4)
    part = CardinalityMKL(k=2).path(info, np.array([10.0, 1.0, 0.1]))
    assert len(part) < 3
    assert part.status[-1] is Status.INTERRUPTED


@pytest.mark.nightly
def test_a_wrong_start_costs_time_alone(rng):
    gram, y = hard()
    cold = kw.solvers.solve_cardinality_mkl(gram, y, 1.0, 3)
    other = kw.solvers.solve_cardinality_mkl(gram[:, :, ::-1], -y, 100.0, 2)
    warm = kw.solvers.solve_cardinality_mkl(gram, y, 1.0, 3, start=other)
    assert warm.primal == pytest.approx(cold.primal, rel=1e-6)
    assert warm.status is Status.CONVERGED
    assert (
        warm.verify(CardinalityProblem(kw.Problem(gram, y, "hinge", "simplex", 1.0).form, 3)).status
        is Status.CONVERGED
    )


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_a_subset_begins_with_its_own_part_of_what_is_near(ridge, rng):
    """From its own solution, and from one of all kernels, a subset needs fewer machines than from nothing."""
    gram, y = bank(rng)
    problem = kw.problems.cardinality_problem(gram, y, 5.0, 3, ridge=ridge)
    members = np.array([3, 5, 6])
    cold = cardinality.solve_convex(problem, members, 1e-7)
    again = cardinality.solve_convex(problem, members, 1e-7, cold)
    assert again.primal == pytest.approx(cold.primal, rel=1e-7)
    assert again.n_machines <= 2 < cold.n_machines


# ---- the proof ------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_the_proof_can_be_checked_and_refuses_what_is_wrong(ridge):
    from dataclasses import replace

    gram, y = hard(n_kernels=12)
    problem = CardinalityProblem(kw.Problem(gram, y, "hinge", "simplex", 3.0).form, 3, ridge)
    found = solve_cardinality(problem, tol=1e-6)
    short = solve_cardinality(problem, tol=1e-6, max_iter=3)
    for solution in (found, short):
        again = solution.verify(problem)
        assert again.status is solution.status
        assert again.dual == pytest.approx(solution.dual, rel=1e-9)
    # a bound that is too good, one that is missing, coefficients outside, weights of too many kernels
    c = found.certificate
    better = replace(found, certificate=replace(short.certificate, gap=c.gap, dual=short.primal - c.gap))
    assert replace(better, proof=short.proof).verify(problem).status is Status.REFUTED
    assert replace(found, proof=found.proof[:2]).verify(problem).status is Status.REFUTED
    assert replace(found, proof=3.0 * found.proof).verify(problem).status is Status.REFUTED
    assert replace(found, proof=found.proof[:0]).verify(problem).status is Status.REFUTED
    assert found.verify(replace(problem, k=2)).status is Status.REFUTED
    assert replace(found, weights=2 * found.weights).verify(problem).status is Status.REFUTED


# ---- the search alone -----------------------------------------------------------------------------------------------


class Numbers(Subsets):
    """Subsets whose value is a number that was drawn for each, made to fall with every member; no bounds are shared."""

    def __init__(self, rng, n, most):
        self.n_members, self.most = n, most
        self.values = {}
        for size in range(1, n + 1):
            for S in combinations(range(n), size):
                above = [self.values[tuple(sorted(set(S) - {m}))] for m in S] if size > 1 else [10.0]
                self.values[S] = min(above) * (1 - 0.3 * rng.uniform())
        self.known = {}

    @property
    def incumbent(self):
        return min((v for S, v in self.known.items() if len(S) <= self.most), default=np.inf)

    @property
    def target(self):
        return self.incumbent

    def bound(self, inside, free, room):
        """What holds all of them has no larger value."""
        own, every = set(inside.tolist()), {*inside.tolist(), *free.tolist()}
        if not room and tuple(sorted(own)) in self.known:
            return self.known[tuple(sorted(own))]
        return max([v for S, v in self.known.items() if every <= set(S)], default=-np.inf)

    def bounds_with(self, inside, free):
        return np.array([self.bound(np.append(inside, j), free[:0], 0) for j in free])

    def needed(self, inside, free, room):
        return None

    def compute(self, members, near=None):
        S = tuple(sorted(members.tolist()))
        if S:
            self.known[S] = self.values[S]


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_the_search_finds_the_smallest_of_any_numbers(most, rng):
    for _ in range(10):
        numbers = Numbers(rng, 6, most)
        search = Search(numbers)
        assert search.run(10**6, lambda: False)
        least = min(v for S, v in numbers.values.items() if len(S) <= most)
        assert numbers.incumbent == least
        assert search.bound <= least
        assert search.bound == pytest.approx(least)


def test_least_squares_on_at_most_two_kernels(rng):
    """With an intercept, as machines have; the best pair by trying all."""
    X = rng.normal(size=(30, 4))
    gram, y = X[:, None, :] * X[None, :, :], X[:, 0] - X[:, 2] + 0.1 * rng.normal(size=30) + 3.0
    found = kw.solvers.solve_cardinality_mkl(gram, y, 2.0, 2, loss="squared", tol=1e-8)
    pairs = combinations(range(4), 2)
    values = [
        kw.solve_svm_mkl(gram[:, :, list(pair)], y, 2.0, loss="squared", tol=1e-8).primal for pair in pairs
    ]
    assert found.primal == pytest.approx(min(values), rel=2e-8)
    problem = kw.problems.cardinality_problem(gram, y, 2.0, 2, loss="squared")
    assert found.verify(problem).status is kw.solvers.Status.CONVERGED


# ---- learner and command line ---------------------------------------------------------------------------------------


def test_classes_regression_and_cross_validation(rng):
    X = rng.normal(size=(60, 5))
    kernels = [kw.kernels.RBF(gamma=0.3).on([j]) for j in range(5)]
    labels = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1], [-0.5, 0.5])
    model = kw.MKLClassifier(kernels=kernels, learner=CardinalityMKL(C=50.0, k=2)).fit(X, labels)
    assert model.weights_.shape == (3, 5)
    assert (np.count_nonzero(model.weights_, axis=1) <= 2).all()
    assert (
        model.score(X, labels) > 0.8
    )  # measured on six draws: 0.87 to 0.95, where the largest class has 0.37 to 0.42
    t = np.sin(2 * X[:, 0]) + X[:, 1]
    tuned = kw.MKLRegressorCV(kernels=kernels, learner=CardinalityMKL(k=2), Cs=[1.0, 10.0], cv=2).fit(X, t)
    assert set(np.flatnonzero(tuned.weights_)) == {0, 1}
    assert tuned.score(X, t) > 0.9


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"k": 1.5}, {"k": None}, {"ridge": -1.0}, {"max_time": 0.0}, {"max_iter": 0}]
)
def test_wrong_settings(wrong, rng):
    gram, y = bank(rng)
    with pytest.raises(kw.InputError, match=next(iter(wrong))):
        kw.solvers.solve_cardinality_mkl(gram, y, 1.0, **{"k": 2, **wrong})
    with pytest.raises(kw.InputError, match=next(iter(wrong))):
        CardinalityMKL(**wrong).check()


#: Most kernels, ridge, loss, options.
JOURNEYS = {
    "two": (2, 0.0, "squared-hinge", {}),
    "three": (3, 0.0, "squared-hinge", {}),
    "with a ridge": (3, 0.5, "squared-hinge", {}),
    "one": (1, 0.0, "hinge", {}),
    "squares": (2, 0.1, "squared", {}),
}


@pytest.mark.parametrize("name", JOURNEYS)
def test_the_way_of_the_search(name, recorded):
    k, ridge, loss, _ = JOURNEYS[name]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 9)) @ (np.eye(9) + 0.3 * rng.normal(size=(9, 9)))
    y = X[:, 0] - X[:, 3] + 0.7 * X[:, 5] + 0.5 * rng.normal(size=30)
    y = y if loss == "squared" else np.sign(y)
    given = {
        "ridge": ridge,
        "loss": loss,
        "sample_weight": np.where(np.arange(30) % 7 == 3, 0.0, 0.5 + np.arange(30) / 30),
        "scale": np.linspace(0.5, 1.5, 9)[::-1],
    }
    gram, told = X[:, None, :] * X[None, :, :], []
    found = kw.solvers.solve_cardinality_mkl(gram, y, 0.5, k, callback=lambda *now: told.append(now), **given)
    assert [now[0] for now in told] == list(range(1, len(told) + 1))
    assert all(now[1] >= found.primal * (1 - 1e-6) for now in told)
    assert found.n_nodes <= 20
    start = WarmStart(np.roll(found.weights, 1), 0.5 * found.dual_coef)
    again = kw.solvers.solve_cardinality_mkl(gram, y, 0.7, k, start=start, **given)
    for name, one in (("cold", found), ("warm", again)):
        assert one.status is Status.CONVERGED
        recorded(name, [one.primal, np.flatnonzero(one.weights)], rtol=1e-5)
    assert verdicts(kw.problems.cardinality_problem(gram, y, 0.5, k, **given), found) == ["CONVERGED"]
    recorded("defaults", defaults_of(kw.solvers.solve_cardinality_mkl, kw.problems.cardinality_problem))
