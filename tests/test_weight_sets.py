"""Sets of kernel weights: projections are nearest points, support functions are maxima."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import kernelweave as kw
from kernelweave.solvers.weight_sets import (
    CappedSimplex,
    LpBall,
    Orthant,
    Simplex,
    Sphere,
    WeightSet,
    as_weight_set,
)

SETS = [
    pytest.param(Simplex(), id="simplex"),
    pytest.param(CappedSimplex(0.2), id="cap 0.2"),
    pytest.param(CappedSimplex(0.37), id="cap 0.37"),
    pytest.param(CappedSimplex(1.0), id="cap 1"),
    pytest.param(LpBall(4 / 3), id="p 4/3"),
    pytest.param(LpBall(2.0), id="p 2"),
    pytest.param(LpBall(4.0), id="p 4"),
    pytest.param(LpBall(50.0), id="p 50"),
    pytest.param(LpBall(math.inf), id="p inf"),
]
#: Those whose `project` is the Euclidean projection.
NEAREST = [*SETS[:4], SETS[5]]

vectors = arrays(np.float64, st.integers(5, 9), elements=st.floats(-3, 3))
nonnegative = arrays(np.float64, st.integers(5, 9), elements=st.floats(0, 1e3))


def assert_inside(weight_set, d, tol=1e-12):
    """Membership from the definition, without `project`."""
    assert (d >= 0).all()
    if isinstance(weight_set, LpBall):
        assert np.linalg.norm(d, weight_set.p) <= 1 + tol
        return
    assert d.sum() == pytest.approx(1, abs=tol)
    if isinstance(weight_set, CappedSimplex):
        assert d.max() <= weight_set.cap + tol


def random_points(weight_set, n, rng, number):
    """Points of the set, vertices and faces among them."""
    for k in range(number):
        d = rng.dirichlet(np.full(n, 10.0 ** rng.uniform(-1.5, 1)))
        if isinstance(weight_set, LpBall):
            yield d / np.linalg.norm(d, weight_set.p) * (1 if k % 2 else rng.uniform())
            continue
        if isinstance(weight_set, CappedSimplex):
            # towards the average until the cap holds
            over = d.max() - 1 / n
            share = min(1.0, (weight_set.cap - 1 / n) / over) if over > 0 else 1.0
            d = share * d + (1 - share) / n
        yield d


def project_by_conic(weight_set, v):
    import cvxpy as cp

    d = cp.Variable(len(v), nonneg=True)
    limits = [cp.norm(d, 2) <= 1] if isinstance(weight_set, LpBall) else [cp.sum(d) == 1]
    if isinstance(weight_set, CappedSimplex):
        limits.append(d <= weight_set.cap)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(d - v)), limits)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # the tolerances are beyond what the cone solver promises
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return d.value


@pytest.mark.parametrize("weight_set", NEAREST)
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_projections_of_the_cone_solver(weight_set, spread, rng):
    v = spread * rng.normal(size=11)
    # measured: 5e-5, the root of what the cone solver reaches; the variational inequality below is the sharper test
    np.testing.assert_allclose(weight_set.project(v), project_by_conic(weight_set, v), atol=2e-4)


@pytest.mark.parametrize("weight_set", SETS)
@given(v=vectors)
def test_projections_lie_in_the_set_and_stay(weight_set, v):
    d = weight_set.project(v)
    assert_inside(weight_set, d)
    np.testing.assert_allclose(weight_set.project(d), d, atol=1e-14)
    assert weight_set.violation(d) <= 1e-14


@pytest.mark.parametrize("weight_set", [Simplex(), CappedSimplex(0.37), CappedSimplex(1.0)], ids=str)
@pytest.mark.parametrize(("n", "active"), [(15, 4), (200, 40), (3000, 500)])
def test_projections_leave_no_dust(weight_set, n, active, rng):
    # a weight of 1e-16 in place of zero would be watched by Newton, and would block every line search
    for _ in range(20):
        d = np.zeros(n)
        d[rng.permutation(n)[:active]] = 0.5 / active + 0.5 * rng.dirichlet(np.ones(active))
        d /= d.sum()
        if isinstance(weight_set, Simplex) or d.max() <= weight_set.cap:
            np.testing.assert_array_equal(weight_set.project(d) > 0, d > 0)
            np.testing.assert_allclose(weight_set.project(d), d, atol=1e-14)
            assert_inside(weight_set, weight_set.project(d))


@pytest.mark.parametrize("weight_set", NEAREST)
@given(v=vectors)
def test_projections_satisfy_the_variational_inequality(weight_set, v):
    # <v - P(v), d - P(v)> <= 0 for every d of the set; the left side is largest at a maximiser of <v - P(v), d>
    d = weight_set.project(v)
    slope = v - d
    if isinstance(weight_set, LpBall):
        largest = np.linalg.norm(np.maximum(slope, 0.0))
    else:
        cap = getattr(weight_set, "cap", 1.0)
        largest, rest = 0.0, 1.0
        for value in np.sort(slope)[::-1]:
            largest += min(cap, rest) * value
            rest = max(0.0, rest - cap)
    assert largest - slope @ d <= 1e-13


@pytest.mark.parametrize("weight_set", NEAREST)
@given(v=vectors, data=st.data())
def test_projections_do_not_increase_distances(weight_set, v, data):
    w = data.draw(arrays(np.float64, len(v), elements=st.floats(-3, 3)))
    apart = np.linalg.norm(weight_set.project(v) - weight_set.project(w))
    assert apart <= np.linalg.norm(v - w) + 1e-13


@pytest.mark.parametrize("weight_set", SETS[:4])
@given(v=vectors, shift=st.floats(-1e3, 1e3))
def test_a_common_shift_changes_no_projection_onto_a_simplex(weight_set, v, shift):
    np.testing.assert_allclose(weight_set.project(v + shift), weight_set.project(v), atol=1e-11)


@pytest.mark.parametrize("weight_set", SETS)
@given(q=nonnegative)
def test_the_support_function_is_attained(weight_set, q):
    best = weight_set.best(q)
    assert_inside(weight_set, best)
    assert best @ q == pytest.approx(weight_set.support(q), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("weight_set", SETS)
def test_no_point_of_the_set_exceeds_the_support_function(weight_set, rng):
    q = rng.exponential(size=8) ** 3
    top = weight_set.support(q)
    values = []
    for d in random_points(weight_set, 8, rng, 500):
        assert_inside(weight_set, d)
        assert weight_set.violation(d) <= 1e-12
        values.append(d @ q)
    assert max(values) <= top * (1 + 1e-14)
    assert max(values) >= 0.5 * top  # the points come near, so that the bound above means something


@pytest.mark.parametrize("weight_set", SETS)
@given(q=nonnegative, a=st.floats(0, 1e6))
def test_support_functions_are_homogeneous_and_permute(weight_set, q, a):
    top = weight_set.support(q)
    assert weight_set.support(a * q) == pytest.approx(a * top, rel=1e-11, abs=1e-250)
    assert weight_set.support(q[::-1]) == pytest.approx(top, rel=1e-12, abs=1e-300)


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


@pytest.mark.parametrize("weight_set", SETS)
@pytest.mark.parametrize("n_kernels", [5, 12])
def test_the_start_is_even(weight_set, n_kernels):
    d = weight_set.start(n_kernels)
    assert_inside(weight_set, d)
    np.testing.assert_allclose(d, d[0], rtol=1e-12)
    if isinstance(weight_set, LpBall):
        assert np.linalg.norm(d, weight_set.p) == pytest.approx(1)


@pytest.mark.parametrize("weight_set", SETS)
def test_nothing_to_choose_from(weight_set):
    assert weight_set.support(np.zeros(6)) == 0.0
    assert_inside(weight_set, weight_set.best(np.zeros(6)))
    assert_inside(weight_set, weight_set.project(np.zeros(6)))


@pytest.mark.parametrize("size", [1e15, 1e20, 1e300])
def test_projections_of_huge_vectors(size):
    v = size * np.array([1.0, 0.5, -1.0])
    np.testing.assert_array_equal(Simplex().project(v), [1, 0, 0])
    np.testing.assert_allclose(CappedSimplex(0.4).project(v), [0.4, 0.4, 0.2], atol=1e-12)
    assert_inside(LpBall(3.0), LpBall(3.0).project(v))
    np.testing.assert_allclose(LpBall(2.0).project(v), np.array([2, 1, 0]) / math.sqrt(5), rtol=1e-14)


def test_inside_a_ball_nothing_moves():
    for p in (1.5, 2.0, math.inf):
        np.testing.assert_array_equal(LpBall(p).project(np.array([0.3, 0.0, 0.1])), [0.3, 0.0, 0.1])


def test_the_distance_from_the_set_is_reported():
    assert Simplex().violation(np.array([0.6, 0.6])) == pytest.approx(0.1)
    assert Simplex().violation(np.array([1.2, -0.2])) == pytest.approx(0.2)
    assert CappedSimplex(0.6).violation(np.array([0.7, 0.3])) == pytest.approx(0.1)
    assert LpBall(2.0).violation(np.array([2.0, 0.0])) == pytest.approx(1.0)


def test_sets_that_are_not_convex_say_so():
    assert not Sphere.convex
    assert not Orthant.convex
    assert all(kind.convex for kind in (Simplex, CappedSimplex, LpBall))
    np.testing.assert_allclose(Sphere().project(np.array([3.0, -1.0, 4.0])), [0.6, 0, 0.8])
    np.testing.assert_array_equal(Sphere().project(np.array([-3.0, -1.0])), [0, 1])
    assert Sphere().support(np.array([3.0, 0.0, 4.0])) == pytest.approx(5)
    np.testing.assert_array_equal(Orthant().project(np.array([3.0, -1.0])), [3, 0])
    np.testing.assert_array_equal(Orthant().project(np.array([-3.0, -1.0])), [0.5, 0.5])
    with pytest.raises(NotImplementedError):
        Orthant().best(np.ones(2))


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
        ("ball", r"Unknown weight_set 'ball'.*simplex"),
        (2.0, r"'simplex' or a weight set such as LpBall\(2\), got 2.0"),
        (Simplex, "weight set such as"),
        (CappedSimplex(0.1), r"between 1 / n_kernels = 0.25 and 1, got 0.1"),
        (CappedSimplex(1.01), r"between .* and 1, got 1.01"),
        (CappedSimplex(float("nan")), "`cap` must be a finite number > 0, got nan"),
        (CappedSimplex("wide"), "`cap` must be a finite number > 0, got 'wide'"),
        (LpBall(1.0), r"`p` must be above 1, got 1.0.*simplex"),
        (LpBall(0.5), "above 1, got 0.5"),
        (LpBall(-2), "`p` must be > 0"),
        (LpBall(float("nan")), "`p` must be > 0"),
        (LpBall("two"), "`p` must be a positive number, got 'two'"),
    ],
    ids=lambda value: str(value)[:18] if not isinstance(value, type) else value.__name__,
)
def test_refusals(value, message):
    with pytest.raises(kw.InputError, match=message):
        as_weight_set(value, 4)


def test_a_cap_of_the_average_is_no_rounding_error_too_small():
    for n in range(1, 60):
        cap = CappedSimplex(1 / n)
        cap.check(n)
        np.testing.assert_allclose(cap.start(n), 1 / n, rtol=1e-12)
        np.testing.assert_allclose(cap.best(np.arange(n, dtype=float)), 1 / n, rtol=1e-12)


def test_a_set_needs_a_projection_and_a_maximiser():
    with pytest.raises(TypeError):
        WeightSet()
