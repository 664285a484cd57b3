"""Linear systems of one kernel with a ridge.

Modules: `machines/ridge`.
"""

import numpy as np
import pytest

from kernelweave.machines.ridge import (
    DenseSystem,
    LowRankSystem,
    NearSystem,
    NotPositiveDefinite,
    Workspace,
    invert_lower,
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
