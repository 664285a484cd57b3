"""Every bound includes the error of truncated factors."""

import numpy as np

from kernelweave.gram import FactorGram, gram_from_stack
from kernelweave.gram.composite import concatenate
from kernelweave.machines.machine import Machine
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.svm_mkl import solve_svm_mkl
from kernelweave.mkl.weight_sets import CappedSimplex, ElasticNet, LpBall, Simplex
from problems import compress, needs_long_double, rbf_stack, unit_trace


def test_centring_counts_how_far_it_moves_the_residual():
    """All that is left out lies in the row about which the kernel is centred: every other row gets a share of it."""
    n, left = 12, 0.25
    Z = np.random.default_rng(0).normal(size=(2, n))
    unit = np.eye(n)[4]
    held = FactorGram(Z, np.array([0, 2]), np.array([left]))
    H = np.eye(n) - np.outer(np.ones(n), unit)
    exact = H @ (Z.T @ Z + left * np.outer(unit, unit)) @ H.T
    centred = held.center(unit)
    c = 1.0 - unit
    upper = centred.quadratic_forms(c[None])[0] + centred.residual_trace[0] * (c @ c)
    assert upper >= c @ exact @ c
    # and no more than twice what is needed here
    assert centred.residual_trace[0] <= 2 * left * n


@needs_long_double
def test_the_rounding_of_a_reduction_goes_with_the_factors(rng):
    """Matrices of columns near 2,000 are stored as factors, which equal them up to rounding."""
    n = 40
    X = rng.normal(size=(n, 2)) + 2000.0
    stack = X[:, None, :] * X[None]
    reduced = gram_from_stack(stack)
    assert (reduced.ranks == 1).all()
    assert not reduced.residual_trace.any()
    row_scale = rng.uniform(0.5, 2.0, (2, n))
    p = rng.dirichlet(np.ones(n))
    H = np.eye(n) - np.outer(np.ones(n), p)
    changed = {
        "plain": (reduced, lambda K, m: K),
        "taken": (reduced.take(np.array([1, 0])), lambda K, m: K),
        "scaled": (reduced.rescale(row_scale), lambda K, m: row_scale[m][:, None] * K * row_scale[m]),
        "centred": (reduced.center(p), lambda K, m: H @ K @ H.T),
        "joined": (concatenate([reduced, FactorGram.from_columns(X)]), lambda K, m: K),
    }
    for name, (gram, change) in changed.items():
        bound = gram.rounding_trace
        for m in range(2):
            k = 1 - m if name == "taken" else m
            exact = change(stack[:, :, k].astype(np.longdouble), k)
            Z = gram.take(np.array([m])).rows.astype(np.longdouble)
            assert np.abs(np.trace(exact - Z.T @ Z)) <= bound[m], name
            # not above eight units by more than the change needs
            assert bound[m] <= 1e-14 * np.trace(stack[:, :, k]) * (n if name == "centred" else 4), name
    # columns that were given as columns are what they are
    assert not changed["joined"][0].rounding_trace[2:].any()


def test_margin_bounds_hold_for_the_kernels_that_were_given():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    stack = unit_trace(rbf_stack(X, [0.3, 2.0])) * 60
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=60) > 0, 1.0, -1.0)
    rough = compress(gram_from_stack(stack, reduce=False), tol=3e-2, max_rank=59)
    assert (rough.residual_trace > 0).all()
    scale = rng.uniform(0.5, 2.0, stack.shape[2])
    problem = KernelProblem(rough, Machine(y, 1.0), scale, Simplex())
    for b in rng.normal(size=(20, 60)):
        exact = scale * np.einsum("i,ijm,j->m", b, stack, b)
        assert (problem.quad(b) >= exact * (1 - 1e-12)).all()
        assert (problem.quad(b, np.array([2])) >= exact[2] * (1 - 1e-12)).all()
    for weight_set, methods in (
        (Simplex(), ("newton", "interior-point", "reduced-gradient", "cutting-plane")),
        (CappedSimplex(0.4), ("newton", "interior-point", "closed-form")),
        (LpBall(2), ("closed-form",)),
        (ElasticNet(0.5), ("newton", "interior-point", "closed-form")),
    ):
        best = solve_svm_mkl(stack, y, 1.0, weight_set, scale=scale, tol=1e-8)
        for method in methods:
            found = solve_svm_mkl(rough, y, 1.0, weight_set, scale=scale, solver=method, max_iter=40)
            assert found.dual <= best.primal
            # what is left out cannot be made up for, and nothing else is left
            assert not found.status.ok
            assert best.primal * (1 - 1e-8) <= found.primal <= best.primal * (1 + found.rel_gap)


def test_what_truncation_left_is_scaled_and_centred_with_the_factors(rng):
    """The trace of the rest times the largest squared factor of a row, and times 1 + n |p|^2 for weights p."""
    rows, offsets = rng.normal(size=(3, 6)), np.array([0, 2, 3])
    gram = FactorGram(rows, offsets, np.array([0.5, 2.0]), np.array([1e-3, 3e-3]))
    scale, p = rng.uniform(0.5, 3.0, size=(2, 6)), rng.dirichlet(np.ones(6))
    scaled, centred = gram.rescale(scale), gram.center(p)
    largest, factor = np.square(scale).max(axis=1), 1.0 + 6.0 * p @ p
    for found, times in ((scaled, largest), (centred, factor), (gram.restrict(np.arange(4)), 1.0)):
        np.testing.assert_allclose(found.residual_trace, gram.residual_trace * times, rtol=1e-14)
        np.testing.assert_allclose(found.rounding_trace, gram.rounding_trace * times, rtol=1e-14)
    np.testing.assert_allclose(scaled.rows, rows * scale[[0, 0, 1]], rtol=1e-14)
    np.testing.assert_allclose(centred.rows @ p, 0.0, atol=1e-14)
    assert gram.take(np.array([1])).residual_trace.tolist() == [2.0]
    # they bound the rest of a kernel that was cut
    E = np.diag(rng.uniform(0.0, 1.0, 6))
    assert np.trace(scale[0][:, None] * E * scale[0]) <= largest[0] * np.trace(E)
    H = np.eye(6) - p
    assert np.trace(H @ E @ H.T) <= factor * np.trace(E)
