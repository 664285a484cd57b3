"""Sets of kernel weights: projections are nearest points, support functions are maxima.

Modules: `mkl/weight_sets`.
"""

import dataclasses
import inspect
import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import kernelweave as kw
from kernelweave.mkl.weight_sets import (
    AlternatingSet,
    CappedSimplex,
    ElasticNet,
    LpBall,
    Orthant,
    Region,
    ShareSet,
    Simplex,
    Sphere,
    WeightSet,
    as_weight_set,
)
from known_sets import KNOWN, every_projection, every_set
from oracles import conic_value

vectors = arrays(np.float64, st.integers(5, 9), elements=st.floats(-3, 3))
nonnegative = arrays(np.float64, st.integers(5, 9), elements=st.floats(0, 1e3))


def assert_inside(known, d, tol=1e-12):
    """Membership from the definition, without `project`."""
    assert (d >= 0).all()
    assert known.outside(d) <= tol


def assert_support(known, q, rng, number=500):
    """The support function is the maximum over the set: no sample exceeds it, and a point of the set attains it."""
    top = known.weight_set.support(q)
    values = []
    for _ in range(number):
        d = known.sample(rng, len(q))
        assert_inside(known, d)
        assert known.weight_set.violation(d) <= 1e-12
        values.append(d @ q)
    assert max(values) <= top * (1 + 1e-14)
    best = known.weight_set.best(q)
    assert_inside(known, best)
    assert best @ q == pytest.approx(top, rel=1e-12, abs=1e-300)
    # and the cone solver, which knows the constraints alone; measured: 3e-10
    assert support_by_conic(known, q) == pytest.approx(top, rel=1e-7)
    return max(values)


def support_by_conic(known, q):
    import cvxpy as cp

    d = cp.Variable(len(q))
    return conic_value(cp.Problem(cp.Maximize(q @ d), known.limits(d)))


def project_by_conic(known, v):
    import cvxpy as cp

    d = cp.Variable(len(v))
    conic_value(cp.Problem(cp.Minimize(cp.sum_squares(d - v)), known.limits(d)))
    return d.value


@pytest.mark.sampled(3)
@every_projection
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_projections_of_the_cone_solver(known, spread, rng):
    v = spread * rng.normal(size=11)
    # measured: 5e-5, the root of what the cone solver reaches; the variational inequality below is the sharper test
    np.testing.assert_allclose(known.weight_set.project(v), project_by_conic(known, v), atol=2e-4)


@pytest.mark.slow
@every_set
@given(v=vectors)
def test_projections_lie_in_the_set_and_stay(known, v):
    d = known.weight_set.project(v)
    assert_inside(known, d)
    np.testing.assert_allclose(known.weight_set.project(d), d, atol=1e-14)
    assert known.weight_set.violation(d) <= 1e-14


@pytest.mark.parametrize("known", [known for known in KNOWN if "p " not in known.name], ids=str)
@pytest.mark.parametrize(("n", "active"), [(15, 4), (200, 40), (3000, 500)])
def test_projections_leave_no_rounding_errors(known, n, active, rng):
    # a weight of 1e-16 in place of zero would enter the working set of Newton, and would block every line search
    for _ in range(20):
        d = np.zeros(n)
        d[rng.permutation(n)[:active]] = 0.5 / active + 0.5 * rng.dirichlet(np.ones(active))
        d /= d.sum()
        if known.outside(d) <= 1e-12:
            projected = known.weight_set.project(d)
            np.testing.assert_array_equal(projected > 0, d > 0)
            np.testing.assert_allclose(projected, d, atol=1e-14)
            assert_inside(known, projected)


@every_projection
@given(v=vectors)
def test_projections_satisfy_the_variational_inequality(known, v):
    # <v - P(v), d - P(v)> <= 0 for every d of the set; the left side is largest at a maximiser of <v - P(v), d>
    d = known.weight_set.project(v)
    assert known.support(v - d) - (v - d) @ d <= 1e-13


@pytest.mark.slow
@every_projection
@given(v=vectors, data=st.data())
def test_projections_do_not_increase_distances(known, v, data):
    w = data.draw(arrays(np.float64, len(v), elements=st.floats(-3, 3)))
    apart = np.linalg.norm(known.weight_set.project(v) - known.weight_set.project(w))
    assert apart <= np.linalg.norm(v - w) + 1e-13


@pytest.mark.parametrize("known", KNOWN[:4], ids=str)
@given(v=vectors, shift=st.floats(-1e3, 1e3))
def test_a_common_shift_changes_no_projection_onto_a_simplex(known, v, shift):
    project = known.weight_set.project
    np.testing.assert_allclose(project(v + shift), project(v), atol=1e-11)


@every_set
@given(q=nonnegative)
def test_the_support_function_is_attained(known, q):
    best = known.weight_set.best(q)
    assert_inside(known, best)
    assert best @ q == pytest.approx(known.weight_set.support(q), rel=1e-12, abs=1e-300)
    assert best @ q == pytest.approx(known.support(q), rel=1e-12, abs=1e-300)


@pytest.mark.slow
@every_set
def test_the_support_function_is_the_maximum_over_the_set(known, rng):
    # the samples come near, so that the bound means something
    q = rng.exponential(size=8) ** 3
    assert assert_support(known, q, rng) >= 0.5 * known.weight_set.support(q)


class Halved(Simplex):
    """A wrong weight set: its certificate promises twice too much."""

    def support(self, q):
        return 0.5 * super().support(q)


def test_half_a_support_function_is_found(rng):
    wrong = dataclasses.replace(KNOWN[0], weight_set=Halved())
    with pytest.raises(AssertionError):
        assert_support(wrong, rng.exponential(size=8), rng)


def test_every_weight_set_has_a_row():
    """Convex ones that the package defines: a set without a row would be tested by nothing."""
    here = {type(known.weight_set) for known in KNOWN}
    todo = WeightSet.__subclasses__()
    for kind in todo:
        todo.extend(kind.__subclasses__())
        # an example of a docstring may have defined others
        here_for_good = getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind
        if kind.__module__.startswith("kernelweave") and here_for_good and not inspect.isabstract(kind):
            assert kind in here, f"{kind.__name__} needs a row in tests/known_sets.py"


@every_set
@given(q=nonnegative, a=st.floats(0, 1e6))
def test_support_functions_are_homogeneous_and_permute(known, q, a):
    support = known.weight_set.support
    assert support(a * q) == pytest.approx(a * support(q), rel=1e-11, abs=1e-250)
    assert support(q[::-1]) == pytest.approx(support(q), rel=1e-12, abs=1e-300)


def test_support_functions_in_closed_form():
    q = np.array([3.0, 4.0, 0.0, 1.0, 2.0])
    assert Simplex().support(q) == 4.0
    assert CappedSimplex(0.5).support(q) == pytest.approx(3.5)
    assert CappedSimplex(0.4).support(q) == pytest.approx(0.4 * 4 + 0.4 * 3 + 0.2 * 2)
    assert CappedSimplex(0.2).support(q) == pytest.approx(q.mean())
    assert CappedSimplex(1.0).support(q) == 4.0
    assert LpBall(2.0).support(q) == pytest.approx(math.sqrt(30))
    assert LpBall(4.0).support(q) == pytest.approx(np.sum(q ** (4 / 3)) ** 0.75)
    assert LpBall(math.inf).support(q) == pytest.approx(10.0)
    assert LpBall(1 + 1e-9).support(q) == pytest.approx(4.0)


def test_sets_are_nested():
    # from the average over the capped simplices to the simplex, and on to larger balls
    q = np.array([0.1, 2.0, 1.0, 0.5, 1.7])
    chain = [CappedSimplex(cap) for cap in (0.2, 0.25, 0.4, 0.9, 1.0)] + [Simplex()]
    chain += [LpBall(p) for p in (1.1, 4 / 3, 2.0, 4.0, 1e6, math.inf)]
    values = [weight_set.support(q) for weight_set in chain]
    assert all(a <= b * (1 + 1e-15) for a, b in itertools.pairwise(values))
    assert values[0] == pytest.approx(q.mean())
    assert values[4] == values[5]
    assert values[-1] == pytest.approx(q.sum())


@every_set
@pytest.mark.parametrize("n_kernels", [5, 12])
def test_the_start_is_even(known, n_kernels):
    d = known.weight_set.start(n_kernels)
    assert_inside(known, d)
    np.testing.assert_allclose(d, d[0], rtol=1e-12)
    # the largest equal weights there are
    assert known.outside(1.001 * d) > 1e-4


@every_set
def test_nothing_to_choose_from(known):
    assert known.weight_set.support(np.zeros(6)) == 0.0
    assert_inside(known, known.weight_set.best(np.zeros(6)))
    assert_inside(known, known.weight_set.project(np.zeros(6)))
    if isinstance(known.weight_set, AlternatingSet):
        even = known.weight_set.start(6)
        np.testing.assert_allclose(known.weight_set.fixed_point(np.zeros(6)), even, rtol=1e-14)


@pytest.mark.parametrize("size", [1e15, 1e20, 1e300])
def test_projections_of_huge_vectors(size):
    v = size * np.array([1.0, 0.5, -1.0])
    np.testing.assert_array_equal(Simplex().project(v), [1, 0, 0])
    np.testing.assert_allclose(CappedSimplex(0.4).project(v), [0.4, 0.4, 0.2], atol=1e-12)
    assert np.linalg.norm(LpBall(3.0).project(v), 3) == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(LpBall(2.0).project(v), np.array([2, 1, 0]) / math.sqrt(5), rtol=1e-14)


def test_inside_a_ball_nothing_moves():
    for p in (1.5, 2.0, math.inf):
        np.testing.assert_array_equal(LpBall(p).project(np.array([0.3, 0.0, 0.1])), [0.3, 0.0, 0.1])


def test_the_distance_from_the_set_is_reported():
    assert Simplex().violation(np.array([0.6, 0.6])) == pytest.approx(0.1)
    assert Simplex().violation(np.array([1.2, -0.2])) == pytest.approx(0.2)
    assert CappedSimplex(0.6).violation(np.array([0.7, 0.3])) == pytest.approx(0.1)
    assert LpBall(2.0).violation(np.array([2.0, 0.0])) == pytest.approx(1.0)


def test_regions_that_are_not_convex_or_not_bounded_have_no_certificate():
    for region in (Sphere(), Orthant()):
        assert isinstance(region, Region)
        assert not isinstance(region, WeightSet)
        with pytest.raises(kw.InputError, match=r"a convex and bounded set of weights such as .*, got"):
            as_weight_set(region, 3)
    np.testing.assert_allclose(Sphere().project(np.array([3.0, -1.0, 4.0])), [0.6, 0, 0.8])
    np.testing.assert_array_equal(Sphere().project(np.array([-3.0, -1.0])), [0, 1])
    np.testing.assert_array_equal(Orthant().project(np.array([3.0, -1.0])), [3, 0])
    np.testing.assert_array_equal(Orthant().project(np.array([-3.0, -1.0])), [0.5, 0.5])


def test_names_and_objects():
    assert as_weight_set("simplex", 3) == Simplex()
    chosen = LpBall(3)
    assert as_weight_set(chosen, 3) is chosen
    assert CappedSimplex(0.5) == CappedSimplex(0.5) != CappedSimplex(0.6)
    with pytest.raises(AttributeError):
        chosen.p = 2.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("ball", r"`weights` must be 'simplex' or a convex and bounded set.*got 'ball'"),
        (2.0, r"such as weight_sets.LpBall\(2\), got 2.0"),
        (Simplex, "convex and bounded set of weights such as"),
        (CappedSimplex(0.1), r"between 1 / n_kernels = 0.25 and 1, got 0.1"),
        (CappedSimplex(1.01), "<= 1, got 1.01"),
        (CappedSimplex(float("nan")), "`cap` must be a number > 0 and <= 1, got nan"),
        (CappedSimplex("wide"), "`cap` must be a number > 0 and <= 1, got 'wide'"),
        (LpBall(1.0), r"`p` must be a number > 1.*, got 1.0.*simplex"),
        (LpBall(0.5), "> 1.*, got 0.5"),
        (LpBall(-2), "`p` must be a number > 1"),
        (LpBall(float("nan")), "`p` must be a number > 1"),
        (LpBall("two"), "`p` must be a number > 1.*, got 'two'"),
    ],
    ids=lambda value: str(value)[:18] if not isinstance(value, type) else value.__name__,
)
def test_refusals(value, message):
    with pytest.raises(kw.InputError, match=message):
        as_weight_set(value, 4)


@dataclasses.dataclass(frozen=True)
class Floored(AlternatingSet):
    """Sum 1, none below `floor`."""

    floor: float = 0.1

    def _above(self, n):
        return 1.0 - n * self.floor

    def project(self, v):
        return self.floor + self._above(len(v)) * Simplex().project((v - self.floor) / self._above(len(v)))

    def best(self, q):
        return self.floor + self._above(len(q)) * Simplex().best(q)

    def fixed_point(self, norms):
        low, high = 1e-12, 1e12
        for _ in range(200):
            middle = (low * high) ** 0.5
            above = np.maximum(norms / middle, self.floor).sum() > 1.0
            low, high = (middle, high) if above else (low, middle)
        weights = np.maximum(norms / high, self.floor)
        return weights / weights.sum()


class Few(AlternatingSet):
    """The simplex without shares: weights may vanish, and there is no Newton."""

    sparse = True

    def project(self, v):
        return Simplex().project(v)

    def best(self, q):
        return Simplex().best(q)

    def fixed_point(self, norms):
        return norms / norms.sum()


class Fractions(ShareSet):
    """The simplex by `best` and `project`; weights of shares are half of them, outside of it."""

    def best(self, q):
        return Simplex().best(q)

    def project(self, v):
        return Simplex().project(v)


def test_a_set_knows_whether_it_has_formulas_for_shares():
    assert not any(kind.bent for kind in (ShareSet, Simplex, CappedSimplex, Fractions))
    assert ElasticNet.bent
    for name in ("of_shares", "shares", "slopes"):
        assert type("Own", (Fractions,), {name: getattr(ElasticNet, name)}).bent


def _own(base=Floored, **methods):
    """A set of another module with other methods."""
    return type("Own", (base,), methods)()


WRONG = {
    "equal weights are best": (
        _own(best=lambda self, q: np.full(len(q), 1 / len(q))),
        r"support\(q\), the largest <weights, q> over the set, is .*Mend `best` or `support`",
    ),
    "support too low": (_own(support=lambda self, q: 0.9 * Floored().support(q)), "Mend `best` or `support`"),
    "support too high": (
        _own(support=lambda self, q: 1.1 * Floored().support(q)),
        "Mend `support` or `best`",
    ),
    "leaves the set": (
        _own(fixed_point=lambda self, norms: norms / norms.sum()),
        r"`fixed_point\(norms\)` is not in the set",
    ),
    "not the best of its norms": (
        _own(fixed_point=lambda self, norms: np.full(len(norms), 1 / len(norms))),
        "`fixed_point` of Own must return the least",
    ),
    "projections move again": (
        _own(project=lambda self, v: np.abs(v) / 2),
        "is not in the set, as `project`",
    ),
    "no numbers": (_own(best=lambda self, q: q / 0.0), "must return 4 weights >= 0, got"),
    "empty without a check": (Floored(0.5), r"If the set is empty.*`check\(n_kernels\)`"),
    "shares leave the set": (
        _own(Fractions, of_shares=lambda self, s: s / 2),
        r"`start\(n_kernels\)` is not in the set",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_formulas_that_disagree_are_refused(name):
    wrong, message = WRONG[name]
    with pytest.raises(kw.InputError, match=message):
        as_weight_set(wrong, 4)


def test_sets_of_ones_own_that_agree_are_taken(rng):
    for n in (1, 2, 9):
        for right in (Floored(), Fractions(), _own(CappedSimplex, __init__=lambda self: None, cap=1.0)):
            assert as_weight_set(right, n) is right
    for known in KNOWN:
        for n in (5, 8, 300):
            known.weight_set.check_formulas(n)


@pytest.mark.parametrize("features", [False, True])
def test_a_set_that_errs_only_at_the_data_gets_no_certificate(features, rng):
    """Its `best` is wrong where one of the q is far below the others, as in none of those that are compared."""

    def best(self, q):
        return Floored().best(q if q.min() > 1e-6 * q.max() else q[::-1])

    Z = rng.normal(size=(40, 4))
    Z[:, 3] *= 1e-5
    kernels = kw.FeatureStack(Z, range(5)) if features else Z[:, None, :] * Z[None, :, :]
    right = kw.Problem(kernels, np.sign(Z[:, 0]), loss="hinge", weights=Floored())
    wrong = dataclasses.replace(right, weights=_own(best=best))
    found = kw.solve(right)
    for certified in (lambda: kw.solve(wrong), lambda: wrong.certify(found), lambda: found.verify(wrong)):
        with pytest.raises(kw.InputError, match="The formulas of Own disagree: support"):
            certified()


def test_a_set_with_a_floor_reaches_the_optimum(rng):
    import cvxpy as cp

    Z = rng.normal(size=(30, 4))
    y = np.sign(Z[:, 0] + 0.5 * Z[:, 1])
    found = kw.solve(
        kw.Problem(Z[:, None, :] * Z[None, :, :], y, loss="hinge", weights=Floored(0.1)), tol=1e-8
    )
    assert found.status is kw.solvers.Status.CONVERGED
    d, w, t = cp.Variable(4), cp.Variable(4), cp.Variable()
    norms = sum(cp.quad_over_lin(w[m], d[m]) for m in range(4))
    losses = cp.sum(cp.pos(1 - cp.multiply(y, Z @ w + t)))
    best = conic_value(cp.Problem(cp.Minimize(0.5 * norms + losses), [d >= 0.1, cp.sum(d) == 1]))
    # the cone solver's digits
    assert found.primal == pytest.approx(best, rel=2e-7)


def test_a_cap_of_the_average_is_no_rounding_error_too_small():
    for n in range(1, 60):
        cap = CappedSimplex(1 / n)
        cap.check(n)
        np.testing.assert_allclose(cap.start(n), 1 / n, rtol=1e-12)
        np.testing.assert_allclose(cap.best(np.arange(n, dtype=float)), 1 / n, rtol=1e-12)
        # a single point, which the interior point cannot begin in
        assert cap.has_interior(n) == (n == 1)
        assert CappedSimplex(min(1.0, 1.01 / n)).has_interior(n)


def test_the_closed_form_goes_on_where_weights_vanish_slowly_and_there_is_no_newton():
    """The gap becomes ten times smaller in more than 50 rounds; the rounds are those of `max_iter`."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    K = np.exp(-np.square(X[:, None] - X[None]))
    y = np.sign(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=60))
    problem = kw.Problem(K, y, loss="hinge", C=1.0, weights=Few())
    found = kw.solve(problem)
    assert found.status is kw.solvers.Status.CONVERGED
    assert found.n_iter > 200
    wanted = kw.solve(kw.Problem(K, y, loss="hinge", C=1.0))
    assert found.primal == pytest.approx(wanted.primal, rel=2e-6)
    short = kw.solve(problem, max_iter=150)
    assert (short.status, short.n_iter) == (kw.solvers.Status.MAX_ITER, 150)


def test_a_set_needs_a_projection_and_a_maximiser():
    with pytest.raises(TypeError):
        WeightSet()


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_minima_that_steps_ask_for_are_below_all_samples(known, rng):
    for n in (2, 7):
        try:
            known.weight_set.check(n)
        except kw.InputError:
            continue
        samples = [known.weight_set.start(n), *(known.sample(rng, n) for _ in range(20))]
        if isinstance(known.weight_set, AlternatingSet):
            norms = rng.uniform(0.1, 2.0, n)
            found = known.weight_set.fixed_point(norms)
            assert known.outside(found) < 1e-12
            for d in samples:
                with np.errstate(divide="ignore"):
                    assert np.sum(norms**2 / found) <= np.sum(norms**2 / d) * (1 + 1e-12)
            # and no direction into the set descends
            descent = np.square(norms / found)
            assert known.support(descent) <= descent @ found * (1 + 1e-10)
        if isinstance(known.weight_set, ShareSet):
            F, linear = rng.normal(size=(n, n)), rng.normal(size=n)
            H = F @ F.T + np.eye(n)
            start = np.full(n, 1 / n)
            found = known.weight_set.newton(H, linear, start, 1.0)
            assert (start == 1 / n).all()
            assert known.outside(known.weight_set.of_shares(found)) < 1e-10
            for d in samples:
                s = known.weight_set.shares(d)
                s /= s.sum()
                # measured: 1e-13
                assert 0.5 * found @ H @ found + linear @ found <= 0.5 * s @ H @ s + linear @ s + 1e-10


@pytest.mark.parametrize(
    "known", [known for known in KNOWN if isinstance(known.weight_set, ShareSet)], ids=str
)
def test_weights_are_increasing_concave_functions_of_shares(known, rng):
    weight_set = known.weight_set
    for n in (5, 9):
        d = known.sample(rng, n)
        s = weight_set.shares(d)
        assert (s >= 0).all()
        assert s.sum() <= 1 + 1e-12
        np.testing.assert_allclose(weight_set.of_shares(s), d, rtol=1e-12, atol=1e-15)
        s /= s.sum()
        assert_inside(known, weight_set.of_shares(s))
        first, second = weight_set.slopes(s)
        assert (first > 0).all()
        assert (second <= 0).all()
        step = 1e-5 * (s + 1e-2)
        up, down = (weight_set.of_shares(s + sign * step) for sign in (1, -1))
        # measured: 2e-8, by the third derivative
        np.testing.assert_allclose((up - down) / (2 * step), first, rtol=1e-6)
        one, other = (weight_set.slopes(s + sign * step)[0] for sign in (1, -1))
        np.testing.assert_allclose((one - other) / (2 * step), second, rtol=1e-6, atol=1e-9)
        assert (weight_set.of_shares(np.zeros(n)) == 0).all()


# ---- recorded -------------------------------------------------------------------------------------

#: Sets at parameters that no default has.
RECORDED = {
    "simplex": Simplex(),
    "capped": CappedSimplex(0.3),
    "capped at an even share": CappedSimplex(0.25),
    "ball": LpBall(1.7),
    "sum": LpBall(math.inf),
    "net": kw.weight_sets.ElasticNet(0.3),
    "net near the simplex": kw.weight_sets.ElasticNet(0.95),
    "sphere": Sphere(),
    "orthant": Orthant(),
    "parameters": kw.weight_sets.Parameters(0.1, np.array([0.5, 1.0, 2.0, 0.2, 9.0, 1.0])),
}
VECTORS = (
    np.array([0.9, -0.4, 0.31, 0.3, 2.0, 0.05]),
    np.array([0.02, 0.01, 0.03, 0.0, 0.05, 0.04]),
    np.array([5.0, 4.99, -7.0, 4.0, 1e-3, 5.0]),
    np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    np.array([-1.0, -3.0, -0.5, -2.0, -1.5, -9.0]),
    np.zeros(6),
)


@pytest.mark.parametrize("name", RECORDED)
def test_formulas_of_a_set(name, recorded):
    weight_set = RECORDED[name]
    found = {"start": weight_set.start(6)}
    for k, v in enumerate(VECTORS):
        found[f"project {k}"] = weight_set.project(v)
        if found[f"project {k}"].any():
            found[f"scaled {k}"] = weight_set.scaled(v)
        q = np.abs(v)
        if isinstance(weight_set, WeightSet):
            best = weight_set.best(q)
            found[f"best {k}"], found[f"support {k}"] = best, weight_set.support(q)
            found[f"violation {k}"] = weight_set.violation(v)
            inside = weight_set.start(6)
            found[f"gain {k}"] = weight_set.gain(inside, q), weight_set.gain(best, q, 0.1 * q)
        if isinstance(weight_set, AlternatingSet):
            found[f"fixed point {k}"] = weight_set.fixed_point(q)
    if isinstance(weight_set, ShareSet):
        shares = np.array([0.1, 0.0, 0.2, 0.05, 0.25, 0.4])
        found["shares"] = weight_set.shares(weight_set.of_shares(shares)), weight_set.slopes(shares)
        found["limits"] = (
            weight_set.largest,
            weight_set.fewest,
            [weight_set.has_interior(n) for n in (1, 2, 4, 5)],
        )
        A = np.cos(np.arange(36.0)).reshape(6, 6)
        model = A @ A.T + np.eye(6), np.array([-0.1, 0.4, -3.0, 0.2, -2.9, 0.5])
        start = weight_set.shares(weight_set.start(6))
        found["newton"] = weight_set.newton(*model, start, 1.0)
    recorded("formulas", found, rtol=1e-6, atol=1e-9)


def test_statements_of_sets(recorded):
    problem = kw.problems.machine_problem(np.eye(2), [-1, 1], 2.0)
    stated = problem.statement(kw.solve_svc(np.eye(2), [-1, 1], 2.0))
    sets = [one for one in RECORDED.values() if isinstance(one, WeightSet)]
    recorded(
        "stated", [[one.in_statement(stated).weight_set, one.in_statement(stated).set_value] for one in sets]
    )
    # a gain may be negative by rounding alone
    even = np.full(4, 0.25)
    with pytest.raises(kw.InputError) as refused:
        CappedSimplex(0.3).gain(even + [0.2 * (k == 0) for k in range(4)], np.array([1.0, 0.5, 0.2, 0.1]))
    recorded("refused", str(refused.value))


def test_a_share_set_of_ones_own_has_the_formulas_of_the_simplex(recorded):
    class Own(ShareSet):
        def best(self, q):
            return Simplex().best(q)

        def project(self, v):
            return Simplex().project(v)

    own, shares = Own(), np.array([0.1, 0.6, 0.3])
    own.check(3)
    recorded("formulas", [own.largest, own.fewest, own.start(4), own.of_shares(shares), own.shares(shares)])
    recorded(
        "more",
        [own.slopes(shares), own.support(shares), own.violation(2 * shares), own.sparse, LpBall(2.0).sparse],
    )
    further = own._further(np.array([[3.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
    assert {name: np.shape(points) for name, points in further.items()} == {"of_shares(shares)": (2, 3)}
    assert as_weight_set(Own(), 3).sparse
