"""Linear systems of one kernel with a ridge.

Modules: `machines/ridge`.
"""

import numpy as np
import pytest

from kernelweave.gram import FactorGram, PackedGram
from kernelweave.machines import ridge as module
from kernelweave.machines.ridge import (
    DenseSystem,
    LowRankSystem,
    NearSystem,
    NotPositiveDefinite,
    Workspace,
    invert_lower,
    ridge_system,
)


@pytest.mark.parametrize("n", [5, 60, 300])
def test_systems_in_pieces_are_those_of_the_whole_matrix(n, monkeypatch):
    monkeypatch.setattr("kernelweave.machines.ridge.PIECE", 700)
    rng = np.random.default_rng(n)
    Z, noise = rng.normal(size=(4, n)), rng.uniform(0.5, 2.0, size=n)
    scale = rng.uniform(0.5, 2.0, size=4)
    K = (scale[:, None] * Z).T @ (scale[:, None] * Z)
    wanted = np.linalg.inv(K + 0.3 * np.diag(noise))
    B = rng.normal(size=(n, 3))
    for system in (DenseSystem(K.copy(), 0.3, noise), LowRankSystem(Z, scale, 0.3, noise)):
        # measured: 2.5e-12 with 300 rows, of the inverse too
        np.testing.assert_allclose(system.solve(np.asfortranarray(B)), wanted @ B, rtol=0, atol=1e-11)
        np.testing.assert_allclose(system.inner(np.asfortranarray(B)), B.T @ wanted @ B, rtol=0, atol=1e-10)
        assert system.log_det() == pytest.approx(-np.linalg.slogdet(wanted)[1], rel=1e-10)
        np.testing.assert_allclose(system.inverse_diagonal(), np.diag(wanted), rtol=1e-10)


def near_ones(n=1000, seed=0):
    """Two kernels of smooth functions, and weights of rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    squares = np.square(X[:, None] - X).sum(axis=2)
    return (
        np.exp(-0.3 * squares),
        np.exp(-squares / 5.0),
        rng.uniform(0.5, 2.0, size=n),
        rng.normal(size=(n, 3)),
    )


def near_system(K, alpha, noise, work):
    square = work.square(len(K))
    square[:] = K
    return NearSystem(square, alpha, noise, work)


@pytest.mark.parametrize("unit", [1.0, 1e30, 1e-45])
def test_a_near_factor_solves_as_its_own(unit):
    first, second, noise, B = near_ones()
    work = Workspace()
    before = near_system(unit * (0.5 * first + 0.5 * second), 2.0 * unit, noise, work)
    assert work.owner is before._mark
    K = unit * (0.499 * first + 0.501 * second)
    near, own = near_system(K, 2.01 * unit, noise, work), DenseSystem(K.copy(), 2.01 * unit, noise)
    for some in (B, B[:, :1], B * [1.0, 0.0, 1e-60]):
        found, wanted = near.solve(np.asfortranarray(some)), own.solve(np.asfortranarray(some))
        left = some - (K + 2.01 * unit * np.diag(noise)) @ found
        # measured: 4.4e-12, of the solutions 1.2e-12
        assert (np.linalg.norm(left, axis=0) <= 2e-11 * np.linalg.norm(some, axis=0)).all()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())
    # by the factor of the matrix before
    assert work.owner is before._mark
    inner, whole = near.inner(np.asfortranarray(B)), own.inner(np.asfortranarray(B))
    # from below, and of second order: measured 2.4e-7, where the matrices differ by 2e-3
    assert np.linalg.eigvalsh(whole - inner).min() > 0
    np.testing.assert_allclose(inner, whole, rtol=0, atol=1e-6 * np.abs(whole).max())


def test_a_factor_of_its_own_follows_where_the_near_one_takes_long():
    first, second, noise, B = near_ones()
    work, B = Workspace(), np.asfortranarray(B)
    near_system(first, 30.0, noise, work)
    far = near_system(second, 0.1, noise, work)
    found, own = far.solve(B), DenseSystem(second.copy(), 0.1, noise)
    assert work.owner is far._mark
    # measured 4e-13 and 3e-9
    np.testing.assert_allclose(found, own.solve(B), rtol=0, atol=1e-11 * np.abs(found).max())
    whole = own.inner(B)
    np.testing.assert_allclose(far.inner(B), whole, rtol=0, atol=3e-8 * np.abs(whole).max())
    assert far.log_det() == own.log_det()
    np.testing.assert_array_equal(far.inverse_diagonal(), own.inverse_diagonal())
    # single precision is not enough
    hard = near_system(second, 1e-10, noise, work)
    np.testing.assert_array_equal(hard.solve(B), DenseSystem(second.copy(), 1e-10, noise).solve(B))
    np.testing.assert_array_equal(hard.inner(B), DenseSystem(second.copy(), 1e-10, noise).inner(B))
    # the next one has to begin anew
    assert near_system(first, 3.0, noise, work)._mark is work.owner


@pytest.mark.parametrize("first", [True, False])
def test_what_is_not_positive_definite_is_refused_as_before(first):
    K, _, noise, B = near_ones()
    work = Workspace()
    if not first:
        near_system(K, 1.0, noise, work)
    with pytest.raises(NotPositiveDefinite):
        near_system(K - np.eye(len(K)), 0.1, noise, work).solve(np.asfortranarray(B))


@pytest.mark.parametrize("n", [1, 2, 64, 65, 200])
def test_a_triangle_is_inverted_in_its_place(n):
    rng = np.random.default_rng(n)
    whole = np.asfortranarray(rng.normal(size=(n, n)) + n * np.eye(n))
    L = whole.copy(order="F")
    invert_lower(L)
    # measured 2e-15
    np.testing.assert_allclose(np.tril(L) @ np.tril(whole), np.eye(n), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(np.triu(L, 1), np.triu(whole, 1))


def test_the_cheapest_system_is_taken(monkeypatch):
    """Through factors of few rows, unless their digits are lost; of many rows with a factor that is near."""
    rng = np.random.default_rng(0)
    rows, noise = rng.normal(size=(9, 20)), rng.uniform(0.5, 2.0, 20)
    gram = FactorGram(rows, np.array([0, 3, 7, 9]))
    triangles = PackedGram(
        np.stack([(rows[k : k + 1].T @ rows[k : k + 1])[np.triu_indices(20)] for k in range(2)]), 20
    )

    def kind(weights, alpha=0.5, own=gram, work=None):
        found = ridge_system(own, np.array(weights), alpha, noise, work)
        K = own.combine(np.array(weights))
        wanted = np.linalg.inv(K + alpha * np.diag(noise))
        B = np.asfortranarray(rng.normal(size=(20, 2)))
        np.testing.assert_allclose(found.solve(B), wanted @ B, rtol=1e-5, atol=1e-7 / alpha)
        assert found.alpha == alpha
        return type(found)

    # 9 rows are less than half of 20, and 10 are not
    assert kind([0.5, 1.0, 2.0]) is LowRankSystem
    assert kind([0.0, 1.0, 2.0]) is LowRankSystem
    more = FactorGram(np.vstack([rows, rows[:1]]), np.array([0, 3, 7, 10]))
    assert kind([0.5, 1.0, 2.0], own=more) is DenseSystem
    assert kind([0.5, 1.0, 0.0], own=more) is LowRankSystem
    assert kind([0.0, 0.0, 0.0]) is DenseSystem
    assert kind([0.5, 2.0], own=triangles) is DenseSystem
    trace = np.square(rows[:3]).sum()
    least = 1e-9 * trace / noise.min()
    assert kind([1.0, 0.0, 0.0], 1.01 * least) is LowRankSystem
    assert type(ridge_system(gram, np.array([1.0, 0.0, 0.0]), 0.99 * least, noise)) is DenseSystem
    # with a workspace, whose matrix is used again
    work = Workspace()
    assert kind([0.5, 2.0], own=triangles, work=work) is DenseSystem
    square = work.square(20)
    assert work.square(20) is square
    assert work.square(19) is not square
    monkeypatch.setattr(module, "NEAR_ROWS", 20)
    assert kind([0.5, 2.0], own=triangles, work=work) is NearSystem
    assert kind([0.5, 2.0], own=triangles) is DenseSystem
    monkeypatch.setattr(module, "NEAR_ROWS", 21)
    assert kind([0.5, 2.0], own=triangles, work=work) is DenseSystem


def test_near_systems_of_few_rows_are_factorised_where_steps_are_few(monkeypatch):
    """How many iterations there may be, and what is left of a workspace by a matrix of another size."""
    rng = np.random.default_rng(0)
    Z, noise, B = (
        rng.normal(size=(30, 40)),
        rng.uniform(0.5, 2.0, 30),
        np.asfortranarray(rng.normal(size=(30, 2))),
    )
    K = Z @ Z.T
    monkeypatch.setattr(module, "PIECE", 70)
    for each, own in ((15, False), (30, True), (3, False)):
        monkeypatch.setattr(module, "ROWS_EACH", each)
        work = Workspace()
        first = near_system(K, 1.0, noise, work)
        assert work.owner is first._mark
        other = near_system(K + 0.3 * np.diag(noise), 1.0, noise, work)
        assert work.owner is first._mark
        wanted = np.linalg.solve(K + 1.3 * np.diag(noise), B)
        np.testing.assert_allclose(other.solve(B), wanted, rtol=1e-8, atol=1e-10)
        # one step is too few for another matrix
        assert (work.owner is not first._mark) == (each > 3)
        np.testing.assert_allclose(other.solve(B[:, :1]), wanted[:, :1], rtol=1e-8, atol=1e-10)
        assert other._whole == own
    factor = Workspace()
    factor.square(4)
    assert factor.factorise("a", np.diag([4.0, 1.0, 2.0, 8.0]))
    assert factor.owner == "a"
    np.testing.assert_allclose(
        factor.near(np.array([[4.0, 0.0], [3.0, 1.0], [2.0, 0.0], [8.0, 0.0]])),
        [[1.0, 0.0], [3.0, 1.0], [1.0, 0.0], [1.0, 0.0]],
        rtol=1e-6,
    )
    assert not factor.factorise("b", np.diag([4.0, -1.0, 2.0, 8.0]))
    assert factor.owner is None


def test_rows_that_are_no_factor_of_a_definite_matrix_are_refused():
    with pytest.raises(NotPositiveDefinite):
        LowRankSystem(np.ones((2, 5)), np.ones(2), -20.0, np.ones(5))
    with pytest.raises(NotPositiveDefinite):
        DenseSystem(np.eye(3), -2.0, np.ones(3))
