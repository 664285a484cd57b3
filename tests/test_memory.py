"""Memory beyond the stack of kernels: what systems and criteria take, by the allocator's own count."""

import tracemalloc

import numpy as np
import pytest

from kernelweave.gram import FactorGram
from kernelweave.machines.ridge import DenseSystem, LowRankSystem, ridge_system


def traced(call):
    """What a call returns, and the most memory that it took at a time."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


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


def test_the_diagonal_of_an_inverse_takes_no_second_matrix():
    n = 2000
    system = DenseSystem(np.eye(n), 1.0, np.ones(n))
    # copies would be 32 MB each, and were three
    out, peak = traced(system.inverse_diagonal)
    np.testing.assert_allclose(out, 0.5)
    assert peak < 20e6


def test_systems_of_factors_do_not_copy_them():
    rows = np.random.default_rng(0).normal(size=(100, 60_000))
    gram = FactorGram(rows, np.array([0, 40, 100]))
    noise = np.ones(60_000)

    def run():
        system = ridge_system(gram, np.array([0.4, 0.6]), 1.0, noise)
        return system.inverse_diagonal(), system.solve(np.ones((60_000, 1)))

    (diagonal, solved), peak = traced(run)
    assert diagonal.shape == (60_000,)
    assert np.isfinite(solved).all()
    # 48 MB are stored; pieces are 8 MB
    assert peak < 36e6
