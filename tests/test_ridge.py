"""Linear systems of one kernel with a ridge.

Modules: `machines/ridge`.
"""

import numpy as np
import pytest

from kernelweave.machines.ridge import DenseSystem, LowRankSystem


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
