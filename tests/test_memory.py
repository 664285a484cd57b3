"""Memory beyond the stack of kernels: what systems and criteria take, by the allocator's own count.

Modules: `_checks`.
"""

import tracemalloc

import numpy as np

from kernelweave.gram import FactorGram
from kernelweave.machines.ridge import DenseSystem, ridge_system


def traced(call):
    """What a call returns, and the most memory that it took at a time."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


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
