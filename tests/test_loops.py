"""Every compiled function against its NumPy twin, and both against plain formulas.

Modules: `_loops`, `_loops/packed`, `_loops/blocks`, `_loops/logistic`, `_loops/box`.
"""

import itertools
import math
import os
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from threadpoolctl import threadpool_info, threadpool_limits

from kernelweave import _loops
from kernelweave._loops import numpy_core, packed_length, unpack
from kernelweave.machines import losses
from kernelweave.machines.box import Values
from kernelweave.machines.machine import Machine

CORES = [pytest.param(numpy_core, id="numpy")]
if _loops.HAS_EXTENSION:
    CORES.append(pytest.param(_loops.core, id="compiled"))


def random_psd(rng, n, rank=None):
    Z = rng.normal(size=(n, n if rank is None else rank))
    return Z @ Z.T


def packed_of(stack):
    i, j = np.triu_indices(stack.shape[0])
    return np.ascontiguousarray(stack[i, j].T)


@pytest.fixture
def stack(rng):
    return np.stack([random_psd(rng, 23) for _ in range(7)], axis=-1)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("n_vectors", [1, 3])
def test_quadratic_forms_and_products(core, stack, rng, n_vectors):
    packed, idx = packed_of(stack), np.array([5, 0, 2])
    C = rng.normal(size=(n_vectors, 23))
    quadratic_forms, products = np.empty(3), np.empty((3, n_vectors, 23))
    core.quadratic_forms(packed, idx, C, quadratic_forms)
    core.matvecs(packed, idx, C, products)
    np.testing.assert_allclose(quadratic_forms, np.einsum("ti,ijm,tj->m", C, stack, C)[idx], rtol=1e-12)
    np.testing.assert_allclose(products, np.einsum("ijm,tj->mti", stack, C)[idx], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("core", CORES)
def test_all_quadratic_forms(core, stack, rng):
    C, quadratic_forms = rng.normal(size=(1, 23)), np.empty(7)
    core.quadratic_forms(packed_of(stack), np.arange(7), C, quadratic_forms)
    np.testing.assert_allclose(quadratic_forms, np.einsum("ti,ijm,tj->m", C, stack, C), rtol=1e-12)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("idx", [[], [3], [0, 1, 2, 3, 4, 5, 6]])
def test_combine_fills_the_upper_triangle(core, stack, rng, idx):
    idx = np.array(idx, dtype=np.int64)
    w, out = rng.uniform(size=len(idx)), np.full((23, 23), np.nan)
    core.combine(packed_of(stack), idx, w, out)
    i, j = np.triu_indices(23)
    np.testing.assert_allclose(out[i, j], (stack[:, :, idx] @ w)[i, j], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("threads", [1, 3])
def test_triangles_of_some_rows(core, stack, rng, threads):
    rows = rng.permutation(23)[:17]
    out = np.empty((7, packed_length(17)))
    core.choose_rows(packed_of(stack), rows, 23, out, threads)
    np.testing.assert_array_equal(out, packed_of(stack[np.ix_(rows, rows)]))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("threads", [1, 3])
def test_shifted_triangles(core, stack, rng, threads):
    means, totals, packed = rng.normal(size=(7, 23)), rng.normal(size=7), packed_of(stack)
    core.shift_rows(packed, means, totals, threads)
    wanted = stack + totals - means.T[:, None, :] - means.T[None, :, :]
    np.testing.assert_allclose(packed, packed_of(wanted), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("n_columns", [0, 1, 3, 4, 9])
@pytest.mark.parametrize("threads", [1, 3])
def test_sums_of_absolute_differences(core, rng, n_columns, threads):
    # more columns of B than a piece, and rows and columns that do not fill tiles
    A, B, out = (
        rng.normal(size=(21, n_columns)),
        rng.normal(size=(n_columns, 1100)),
        np.full((21, 1100), np.nan),
    )
    core.differences(A, B, out, threads)
    np.testing.assert_allclose(out, np.abs(A[:, :, None] - B).sum(axis=1), rtol=1e-14)


def laid_out(stack, layout):
    if layout == "kernels first":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(stack, -1, 0)), 0, -1)
    if layout == "reversed":
        return np.ascontiguousarray(stack[::-1, ::-1])[::-1, ::-1]
    return np.asarray(stack, order=layout)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("layout", ["C", "F", "kernels first", "reversed"])
@pytest.mark.parametrize(
    ("n", "count", "threads"), [(23, 7, 1), (23, 7, 3), (9, 70, 1), (5, 1, 1), (24, 4, 2)]
)
def test_pack_reads_any_strides(core, rng, layout, n, count, threads):
    stack = np.stack([random_psd(rng, n) for _ in range(count)], axis=-1)
    packed = np.empty((count, packed_length(n)))
    asym, size, bad = np.empty((3, count))
    core.pack(laid_out(stack, layout), packed, asym, size, bad, threads)
    np.testing.assert_array_equal(packed, packed_of(stack))
    assert not asym.any()
    assert not bad.any()
    np.testing.assert_array_equal(size, np.abs(stack).max(axis=(0, 1)))
    np.testing.assert_array_equal(unpack(packed[-1], n), stack[:, :, -1])


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("layout", ["C", "kernels first", "reversed"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_pack_sees_what_is_not_finite_or_not_symmetric(core, stack, layout, value):
    packed = np.empty((7, packed_length(23)))
    asym, size, bad = np.empty((3, 7))
    # on the diagonal, in a square of eight rows and columns, and beside such squares; kernels in fours, and others
    for kernel, (row, column) in itertools.product(
        (1, 5), [(4, 9), (9, 4), (17, 22), (22, 17), (3, 8), (8, 3)]
    ):
        crooked = stack.copy()
        crooked[row, column, kernel] += 0.5
        core.pack(laid_out(crooked, layout), packed, asym, size, bad)
        assert np.flatnonzero(asym).tolist() == [kernel]
        assert asym[kernel] == pytest.approx(0.5)
        np.testing.assert_allclose(packed, packed_of((crooked + crooked.transpose(1, 0, 2)) / 2), rtol=1e-15)
    for kernel, place in itertools.product((1, 5), [(4, 9), (9, 4), (3, 3), (17, 22), (22, 17)]):
        large = stack.copy()
        large[(*place, kernel)] = -1e3
        core.pack(laid_out(large, layout), packed, asym, size, bad)
        assert size[kernel] == 1e3
    # the build assumes finite math; the check must see NaN all the same, in either triangle
    for kernel, place in itertools.product((1, 6), [(3, 8), (8, 3), (5, 5), (17, 22), (22, 17)]):
        broken = stack.copy()
        broken[(*place, kernel)] = value
        core.pack(laid_out(broken, layout), packed, asym, size, bad)
        assert np.flatnonzero(bad).tolist() == [kernel]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("n", [1, 7, 8, 9, 23, 40])
def test_whether_a_shifted_triangle_is_definite(core, rng, n):
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    for least in (1.0, 0.0, -0.9e-8, -1.1e-8, -1.0):
        K = (Q * np.r_[rng.uniform(0.1, 1.0, n - 1), least]) @ Q.T
        for order in (np.arange(n), np.arange(n)[::-1]):
            own = packed_of(K[np.ix_(order, order)][:, :, None])[0]
            assert core.definite(own, n, 1e-8, 0.05) == (least > -1e-8)
    # what is below rounding of the level is zero
    small = packed_of(1e-20 * np.eye(n)[:, :, None])[0]
    assert core.definite(small, n, 0.0, 0.0)
    assert not core.definite(small, n, 0.0, 1.0)


@pytest.mark.parametrize("core", CORES)
def test_factors_that_overflow_are_not_definite(core):
    # the factor has an infinite entry, and a zero beside it: their product is no number
    K = np.diag([1e-320, 1.0, 1.0])
    K[0, 2] = K[2, 0] = 1e200
    assert not core.definite(packed_of(K[:, :, None])[0], 3, 0.0, 0.0)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("rank", [0, 1, 4])
def test_pivoted_cholesky_finds_the_rank(core, rng, rank):
    K = random_psd(rng, 30, rank) if rank else np.zeros((30, 30))
    Z = np.full((10, 30), np.nan)
    found, residual = core.pivoted_cholesky(packed_of(K[:, :, None])[0], 0.0, Z)
    assert found == rank
    assert residual == 0.0
    np.testing.assert_allclose(Z[:rank].T @ Z[:rank], K, atol=1e-13 * max(1.0, K.trace()))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("size", [1e9, 1e-9])
def test_pivoted_cholesky_is_as_exact_for_every_row(core, rng, size):
    """A row 1e9 times the others, or 1e-9: what is left out is small beside each row's own diagonal."""
    X = rng.normal(size=(60, 3))
    X[7] *= size
    X[:7] *= 10.0 ** rng.uniform(-6, 6, (7, 1))
    K = X @ X.T
    Z = np.empty((10, 60))
    found, residual = core.pivoted_cholesky(packed_of(K[:, :, None])[0], 0.0, Z)
    assert (found, residual) == (3, 0.0)
    roots = np.sqrt(K.diagonal())
    # measured: 1.2e-15
    assert (np.abs(Z[:3].T @ Z[:3] - K) / np.outer(roots, roots)).max() <= 1e-13


@pytest.mark.parametrize("core", CORES)
def test_pivoted_cholesky_certifies_the_residual(core, rng):
    x = rng.normal(size=40)
    K = np.exp(-np.square(x[:, None] - x))
    Z = np.empty((40, 40))
    found, residual = core.pivoted_cholesky(packed_of(K[:, :, None])[0], 1e-3 * K.trace(), Z)
    rest = K - Z[:found].T @ Z[:found]
    assert 0 < residual <= 1e-3 * K.trace()
    assert residual == pytest.approx(np.trace(rest), rel=1e-9)
    # what is left out is PSD, so that bounds by its trace hold
    assert np.linalg.eigvalsh(rest)[0] >= -1e-12
    assert core.pivoted_cholesky(packed_of(np.eye(40)[:, :, None])[0], 0.0, np.empty((8, 40)))[0] == -1


@pytest.mark.parametrize("core", CORES)
def test_factor_products(core, rng):
    Zt, offsets = rng.normal(size=(6, 17)), np.array([0, 2, 2, 6])
    C = rng.normal(size=(2, 17))
    out = np.empty((2, 2, 17))
    core.factor_matvecs(Zt, offsets, np.array([2, 1]), C @ Zt.T, out)
    np.testing.assert_allclose(out[0], C @ Zt[2:].T @ Zt[2:], rtol=1e-12, atol=1e-12)
    assert not out[1].any()


def simplex_kkt(H, g, x):
    """Largest violation of optimality of ``min g'x + x'Hx/2`` over the simplex, relative to the gradient."""
    gradient = g + H @ x
    return (gradient @ x - gradient.min()) / np.abs(gradient).max()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("size", [1, 2, 9, 40])
@pytest.mark.parametrize("seed", range(5))
def test_simplex_qp_is_optimal(core, size, seed):
    rng = np.random.default_rng(seed)
    H, g = random_psd(rng, size, max(1, size // 2)) + 1e-6 * np.eye(size), rng.normal(size=size)
    for start in (np.eye(size)[0], np.full(size, 1.0 / size)):
        x = start.copy()
        steps = core.simplex_qp(H, g, x, 1e-13, 1000)
        assert steps >= 0
        assert x.min() >= 0
        assert x.sum() == pytest.approx(1.0, abs=1e-10)
        assert simplex_kkt(H, g, x) <= 1e-8


@pytest.mark.parametrize("core", CORES)
def test_simplex_qp_copes_with_duplicates(core, rng):
    H = random_psd(rng, 8)
    twice = np.block([[H, H], [H, H]]) + 1e-10 * np.eye(16)
    g = np.tile(rng.normal(size=8), 2)
    x = np.full(16, 1 / 16)
    core.simplex_qp(twice, g, x, 1e-13, 2000)
    assert simplex_kkt(twice, g, x) <= 1e-7


@pytest.mark.parametrize("core", CORES)
def test_simplex_qp_keeps_its_sum_beside_a_hessian_of_rounding(core, rng):
    # the gradient is 1e17 times the curvature: the sum of 1 was lost in their ratio
    A = rng.normal(size=(5, 4))
    g = rng.normal(size=4)
    for factor in (1e-17, 1e-23, 1e-60):
        x = np.array([0.0, 0.5, 0.5, 0.0])
        core.simplex_qp(factor * A.T @ A, g, x, 1e-13, 500)
        # measured: one unit in the last place
        np.testing.assert_allclose(x, np.arange(4) == np.argmin(g), rtol=0, atol=1e-15)


@pytest.mark.parametrize("core", CORES)
def test_simplex_qp_survives_a_hessian_that_is_indefinite_to_rounding(core, rng):
    v = rng.normal(size=9)
    H = np.outer(v, v) - 1e-15 * np.eye(9)
    x = np.full(9, 1 / 9)
    core.simplex_qp(H, rng.normal(size=9), x, 1e-13, 500)
    assert np.isfinite(x).all()
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("seed", range(4))
def test_smo_solves_problem_7(core, seed):
    rng = np.random.default_rng(seed)
    V, u = rng.normal(size=(30, 12)), rng.normal(size=30)
    G, b = V.T @ V, V.T @ u
    d = np.full(12, 1 / 12)
    core.simplex_smo(G, b, d, 1e-10, 100_000, 100_000)
    other = np.full(12, 1 / 12)
    numpy_core.simplex_qp(G, -b, other, 1e-13, 1000)
    np.testing.assert_allclose(d, other, atol=1e-8)


def test_the_switch_turns_the_extension_off():
    import subprocess
    import sys

    environment = {**os.environ, "KERNELWEAVE_DISABLE_EXT": "1"}
    code = "from kernelweave import _loops; print(_loops.HAS_EXTENSION, _loops.core is _loops.numpy_core)"
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert out.stdout.split() == ["False", "True"]


# ---- threads -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="only the compiled core has threads")
@pytest.mark.parametrize("n", [1, 15, 16, 17, 131, 301])
def test_results_do_not_depend_on_the_number_of_threads(n, rng):
    packed, idx = rng.normal(size=(6, packed_length(n))), np.arange(6)
    C, weights, symmetric = rng.normal(size=(2, n)), rng.normal(size=6), rng.normal(size=(n, n))
    kappa, roots, grown = 1 + rng.random(n), 1 + rng.random((4, n)), rng.normal(size=(n, n))
    layer = np.array([0, 2, 1, 3]), np.array([[0.0, 0], [0.5, 0], [2, 1], [1, 0]]), rng.random(4)
    found = []
    for threads in (1, 2, 3, 4, 9):
        quadratic_forms, products, sums = np.empty(6), np.empty((6, 2, n)), np.empty(6)
        combined, mirrored, H = np.zeros((n, n)), symmetric.copy(), symmetric.copy()
        _loops.core.quadratic_forms(packed, idx, C, quadratic_forms, threads)
        _loops.core.matvecs(packed, idx, C, products, threads)
        _loops.core.combine(packed, idx, weights, combined, threads)
        _loops.core.inner(packed, idx, symmetric, sums, threads)
        _loops.core.mirror(mirrored, threads)
        above, grad, along, across = np.zeros((n, n)), np.empty(4), np.empty((4, n)), np.empty(n)
        _loops.core.layer_forward(grown, kappa, *layer, roots, above, threads)
        _loops.core.layer_backward(grown, kappa, *layer, roots, H, grad, along, across, threads)
        found.append([quadratic_forms, products, combined, sums, mirrored, above, H, grad, along, across])
    np.testing.assert_array_equal(mirrored, np.triu(symmetric) + np.triu(symmetric, 1).T)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_threads_of_python_share_a_limit_that_the_last_one_removes(monkeypatch):
    """With a stand-in for BLAS, whose number of threads other tests in the process may hold."""
    from kernelweave import _threads

    class Libraries:
        threads = 2

        @contextmanager
        def limit(self, *, limits):
            before, self.threads = self.threads, limits
            yield
            self.threads = before

    there = Libraries()
    monkeypatch.setattr(_threads, "_controller", lambda: there)
    monkeypatch.setattr(_threads, "_shared", _threads._Shared())
    first, second = _threads.one_blas_thread_each(), _threads.one_blas_thread_each()
    first.__enter__()
    assert there.threads == 1
    second.__enter__()
    assert there.threads == 1
    first.__exit__(None, None, None)
    assert there.threads == 1
    second.__exit__(None, None, None)
    assert there.threads == 2


def test_blas_threads_are_given_back_inside_own_limits_but_not_beyond_those_of_the_user():
    from kernelweave import _threads

    with threadpool_limits(2, "blas"), _threads.one_blas_thread_each():
        assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {1}
    outside = _threads._now()
    with _threads.one_blas_thread():
        assert _threads._now() == 1
        with _threads.blas_threads_for(_threads.SMALL):
            assert _threads._now() == outside
            with _threads.blas_threads_for(_threads.SMALL - 1):
                assert _threads._now() == 1
            assert _threads._now() == outside
        assert _threads._now() == 1
    assert _threads._now() == outside
    with _threads._controller().limit(limits=1), _threads.blas_threads_for(10_000):
        assert _threads._now() == 1


def blocks_problem(rng, n_outputs, n=30, widths=(3, 1, 4, 2, 1, 5)):
    """Blocks with orthogonal columns as rows, and targets."""
    blocks = [np.linalg.qr(rng.normal(size=(n, w)))[0] * rng.uniform(0.5, 2.0, size=w) for w in widths]
    Zt = np.ascontiguousarray(np.hstack(blocks).T)
    Y = rng.normal(size=(n_outputs, 4)) @ Zt[:4] + 0.3 * rng.normal(size=(n_outputs, n))
    return Zt, np.r_[0, np.cumsum(widths)], np.square(Zt).sum(axis=1), Y


def descended(core, on_products, Zt, offsets, h, Y, alpha, chosen, most):
    W, norms = np.zeros((len(Y), len(Zt))), np.zeros(len(offsets) - 1)
    if on_products:
        C, Q = Zt @ Zt.T, Y @ Zt.T
        G = Q.copy()
        total = float(np.vdot(Y, Y))
        found = core.blocks_on_products(C, offsets, chosen, h, Q, total, W, norms, G, alpha, 1e-12, most)
        np.testing.assert_allclose(G, Q - W @ C, atol=1e-11) if len(chosen) == len(norms) else None
    else:
        R = Y.copy()
        found = core.blocks_on_rows(Zt, offsets, chosen, h, Y, W, norms, R, alpha, 1e-12, most)
        np.testing.assert_allclose(R, Y - W @ Zt, atol=1e-11)
        again = np.empty_like(R)
        core.blocks_residual(Zt, offsets, np.flatnonzero(norms), Y, W, again)
        np.testing.assert_allclose(again, R, atol=1e-11)
    blocks = [W[:, a:b] for a, b in itertools.pairwise(offsets)]
    np.testing.assert_allclose(norms, [np.linalg.norm(block) for block in blocks], atol=1e-12)
    return found, W


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("on_products", [False, True], ids=["rows", "products"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("alpha", [1e-3, 0.5, 1e3])
def test_blocks_descend_to_the_minimum(core, rng, on_products, n_outputs, alpha):
    Zt, offsets, h, Y = blocks_problem(rng, n_outputs)
    (_, left), W = descended(core, on_products, Zt, offsets, h, Y, alpha, np.arange(6), 5000)
    assert left <= 1e-12
    gradient = (Y - W @ Zt) @ Zt.T
    norms = np.array([np.linalg.norm(W[:, a:b]) for a, b in itertools.pairwise(offsets)])
    level = alpha * norms.sum()
    for m, (a, b) in enumerate(itertools.pairwise(offsets)):
        if norms[m] > 0:
            np.testing.assert_allclose(gradient[:, a:b], level * W[:, a:b] / norms[m], atol=1e-5 * level)
        else:
            assert np.linalg.norm(gradient[:, a:b]) <= level * (1 + 1e-6)


@pytest.mark.sampled(5)
@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="no compiled core")
@pytest.mark.parametrize("on_products", [False, True], ids=["rows", "products"])
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("most", [0, 1, 2, 7, 25])
@pytest.mark.parametrize("chosen", [[], [2], [0, 2, 3], [5, 1, 0, 4, 3, 2]])
def test_blocks_are_swept_as_the_twin_does(rng, on_products, n_outputs, most, chosen):
    Zt, offsets, h, Y = blocks_problem(rng, n_outputs)
    chosen = np.array(chosen, dtype=np.int64)
    results = [
        descended(core, on_products, Zt, offsets, h, Y, 0.2, chosen, most)
        for core in (numpy_core, _loops.core)
    ]
    (twin, W), (compiled, V) = results
    assert twin[0] == compiled[0]
    np.testing.assert_allclose(compiled[1], twin[1], rtol=1e-6, atol=1e-13)
    np.testing.assert_allclose(V, W, atol=1e-11)


@pytest.mark.sampled(4)
@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="no compiled core")
@pytest.mark.parametrize("on_products", [False, True], ids=["rows", "products"])
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("most", [1, 4, 30])
def test_blocks_in_single_precision_are_those_of_the_twin(rng, on_products, n_outputs, most):
    Zt, offsets, _, Y = blocks_problem(rng, n_outputs)
    Zt = Zt.astype(np.float32)
    h, C = np.square(Zt.astype(np.float64)).sum(axis=1), Zt @ Zt.T
    Q, chosen, results = Y @ Zt.T, np.array([0, 2, 5, 3]), []
    for core in (numpy_core, _loops.core):
        W, norms, R, G = np.zeros((n_outputs, len(Zt))), np.zeros(6), Y.copy(), Q.copy()
        if on_products:
            total = float(np.vdot(Y, Y))
            found = core.blocks_on_products(C, offsets, chosen, h, Q, total, W, norms, G, 0.2, -1.0, most)
        else:
            found = core.blocks_on_rows(Zt, offsets, chosen, h, Y, W, norms, R, 0.2, -1.0, most)
        again = np.empty_like(Y)
        core.blocks_residual(Zt, offsets, chosen, Y, W, again)
        # the residual of the coefficients has no drift of single precision
        np.testing.assert_allclose(again, Y - W @ Zt.astype(np.float64), atol=1e-13)
        results.append((*found, W, norms, R, G))
    # errors of single precision: of numbers of size 10, 1e-6
    for twin, compiled in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, twin, atol=2e-5)


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="no compiled core")
@pytest.mark.parametrize("n", [30, 700])
def test_weighted_rows_in_single_precision_are_those_of_the_twin(rng, n):
    widths = np.array([3, 1, 4, 2, 5])
    offsets, chosen = np.r_[0, np.cumsum(widths)], np.array([0, 1, 3, 4])
    X, weight = rng.normal(size=(offsets[-1], n)).astype(np.float32), rng.uniform(0.1, 1.0, n)
    y = X[:4].sum(axis=0) + rng.normal(size=n)
    results = []
    for core in (numpy_core, _loops.core):
        C, sums = np.zeros((len(X), 5)), np.zeros(len(X))
        core.blocks_weighted_products(X, offsets, chosen, weight, C, sums)
        h, turns, means = np.zeros(len(X)), np.zeros((len(X), 5)), np.zeros(len(X))
        for m in chosen:
            own = slice(offsets[m], offsets[m + 1])
            # one basis for both: signs of eigenvectors are arbitrary
            A = X[own].astype(np.float64)
            h[own], turns[own, : widths[m]] = np.linalg.eigh(A * weight @ A.T)
        W, norms, f, u = np.zeros((1, len(X))), np.zeros(len(widths)), np.zeros(n), weight * y
        found = core.blocks_on_weighted_rows(
            X, offsets, chosen, h, turns, means, weight, 1.0 / weight, W, norms, f, u, 0.7, -1.0, 12
        )
        results.append((*found, C / n, sums / n, W, norms, f, u))
    for twin, compiled in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, twin, atol=2e-5)


@pytest.mark.parametrize("core", CORES)
def test_blocks_of_zeros_stay_zero(core, rng):
    Zt, offsets, h, Y = blocks_problem(rng, 1)
    for scale, target in ((0.0, Y), (1.0, 0.0 * Y)):
        (sweeps, _), W = descended(core, False, scale * Zt, offsets, scale * h, target, 1.0, np.arange(6), 10)
        assert not W.any()
        assert sweeps == 0


@pytest.mark.sampled(5)
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_vectors", [1, 3, 4, 9])
@pytest.mark.parametrize("n_columns", [1, 4, 7, 600])
def test_columns_with_several_vectors(core, rng, dtype, n_vectors, n_columns):
    Zt = rng.normal(size=(n_columns, 1100)).astype(dtype)
    R, index = rng.normal(size=(n_vectors, 1100)), rng.permutation(n_columns)[: 1 + n_columns // 2]
    out = np.full((n_vectors, n_columns), np.nan)
    core.column_products(Zt, R, out)
    np.testing.assert_allclose(out, R @ Zt.astype(np.float64).T, atol=1e-10)
    coef, sums = rng.normal(size=(n_vectors, len(index))), np.full((n_vectors, 1100), np.nan)
    core.column_sums(Zt, index, coef, sums)
    np.testing.assert_allclose(sums, coef @ Zt[index].astype(np.float64), atol=1e-10)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_vectors", [1, 4, 6])
@pytest.mark.parametrize("n", [5, 256, 700])
def test_forms_of_gaussian_kernels(core, rng, dtype, n_vectors, n):
    Xt = rng.uniform(-2.0, 3.0, size=(3, n)).astype(dtype)
    columns, gammas = np.array([0, 2, 2, 1]), np.array([0.5, 0.5, 4.0, 1e-3])
    periods, counts = np.array([13.0, 13.0, 8.0, 200.0]), np.array([16, 16, 32, 12])
    R, out = rng.normal(size=(n_vectors, n)), np.full((n_vectors, 4), np.nan)
    core.gaussian_quadratic_forms(Xt, columns, np.full(4, 0.5), periods, counts, gammas, R, out)
    X = Xt.astype(np.float64)
    K = [np.exp(-g * np.square(X[j][:, None] - X[j])) for j, g in zip(columns, gammas, strict=True)]
    want = np.array([[r @ one @ r for one in K] for r in R])
    # entries are right to 6e-12
    bound = 6e-12 * np.square(np.abs(R).sum(axis=1))[:, None]
    assert (np.abs(out - want) <= bound).all()


@pytest.mark.parametrize("core", CORES)
def test_numbers_of_waves_are_not_negative(core):
    ones, X, forms = np.ones(1), np.ones((1, 3)), np.ones((1, 1))
    for wrong in (-1, 1_000_000):
        with pytest.raises(ValueError, match="counts"):
            core.gaussian_quadratic_forms(
                X, np.array([0]), ones, ones, np.array([wrong]), ones, X.copy(), forms
            )


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("n_rows", "n"), [(1, 1), (5, 513), (40, 1100)])
def test_products_with_decays(core, n_rows, n, rng):
    D, C = rng.exponential(size=(n_rows, n)), rng.normal(size=(3, n))
    D[0, 0] = 0.0
    out = np.full((n_rows, 3), np.nan)
    core.decay_product(D, 0.7, C, out, 2)
    np.testing.assert_allclose(out, np.exp(-0.7 * D) @ C.T, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="only the compiled functions read by pointers")
@pytest.mark.parametrize(
    "shapes", [((4, 6), (2, 5), (4, 2)), ((4, 6), (2, 6), (4, 3)), ((4, 6), (2, 6), (3, 2))]
)
def test_products_with_decays_of_other_sizes_are_refused(shapes):
    with pytest.raises(ValueError, match="must have"):
        _loops.core.decay_product(np.zeros(shapes[0]), 1.0, np.zeros(shapes[1]), np.zeros(shapes[2]))


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_intercept_of_logistic_losses_is_the_root_of_their_slope(core, share, rng):
    """Classes of other sizes and rows of other costs, also of none."""
    n = 40
    y = np.where(np.arange(n) < share * n, 1.0, -1.0)
    costs, f = rng.integers(0, 4, size=n) * 0.7, 3.0 * rng.normal(size=n)
    found = core.logistic_intercept(y, costs, f)
    root = brentq(lambda t: np.sum(costs * y * expit(-y * (f + t))), -50.0, 50.0, xtol=1e-13)
    assert found == pytest.approx(root, abs=1e-10)


@pytest.mark.parametrize("core", CORES)
def test_sums_of_the_logistic_loss(core, rng):
    """The gap is the loss with the dual term and the product, also at probabilities next to 0 and 1."""
    n = 50
    y, costs = rng.choice([-1.0, 1.0], n), rng.integers(0, 4, size=n) * 0.7
    for spread in (1e-6, 1.0, 300.0):
        f = spread * rng.normal(size=n)
        loss = core.logistic_value(y, costs, f)
        assert loss == pytest.approx(float(costs @ np.logaddexp(0.0, -y * f)), rel=1e-14)
        assert core.logistic_gap(y, costs, costs * y * expit(-y * f), f) <= 1e-14 * costs.sum()
        b = costs * y * rng.uniform(0.1, 0.9, n)
        a = (y * b)[costs > 0] / costs[costs > 0]
        entropy = -float(costs[costs > 0] @ (a * np.log(a) + (1 - a) * np.log(1 - a)))
        gap = core.logistic_gap(y, costs, b, f)
        assert gap == pytest.approx(loss - entropy + float(b @ f), rel=1e-12)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_expansions_of_the_logistic_loss(core, fit_intercept, rng):
    """Intercept, value and both derivatives are those of the single functions, from any start."""
    n, flattest = 60, 1e-3
    y, costs = rng.choice([-1.0, 1.0], n), rng.integers(0, 4, size=n) * 0.7
    for spread, start in ((0.1, 0.0), (3.0, -2.0), (3.0, 1e3), (300.0, 0.5)):
        product, b, h = spread * rng.normal(size=n), np.full(n, np.nan), np.full(n, np.nan)
        t, value = core.logistic_expansion(y, costs, product, fit_intercept, flattest, start, b, h)
        assert t == pytest.approx(
            core.logistic_intercept(y, costs, product) if fit_intercept else 0.0, abs=1e-12
        )
        p = expit(-y * (product + t))
        assert value == pytest.approx(core.logistic_value(y, costs, product + t), rel=1e-14)
        np.testing.assert_allclose(b, costs * y * p, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(h, costs * p * np.maximum(1.0 - p, flattest), rtol=1e-12, atol=1e-300)
        assert not fit_intercept or abs(math.fsum(b)) <= 4e-16 * np.abs(b).sum()
        if core is numpy_core:
            # what balances them makes them smaller: no share of a cost exceeds 1
            assert (np.abs(b) <= costs * p).all()


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="only the compiled functions read by pointers")
@pytest.mark.parametrize("short", range(4))
def test_expansions_of_other_sizes_are_refused(short):
    arrays = [np.ones(4 - (place == short)) for place in range(4)]
    with pytest.raises(ValueError, match="must have"):
        _loops.core.logistic_expansion(np.ones(4), *arrays[:2], True, 1e-3, 0.0, *arrays[2:])


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 1001])
def test_sums_lose_nothing(core, n, rng):
    """Sums of terms of any size, also where the large ones cancel."""
    x = rng.normal(size=n) * 10.0 ** rng.integers(-12, 12, size=n)
    assert core.compensated_sum(x) == pytest.approx(math.fsum(x), rel=1e-15)
    both = rng.permutation(np.r_[x, 3.0, -x])
    assert core.compensated_sum(both) == pytest.approx(3.0, rel=1e-15)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("centred", [True, False])
def test_descent_with_weights_of_the_rows_is_that_on_weighted_columns(core, centred, rng):
    n, widths = 30, np.array([3, 1, 4, 2, 5])
    offsets, chosen = np.r_[0, np.cumsum(widths)], np.array([0, 1, 3, 4])
    X, weight = rng.normal(size=(offsets[-1], n)), rng.uniform(0.1, 1.0, n)
    X[2] += 0.5 * X[0]
    C, sums = np.zeros((len(X), 5)), np.zeros(len(X))
    core.blocks_weighted_products(X, offsets, chosen, weight, C, sums)
    h, turns, means = np.zeros(len(X)), np.zeros((len(X), 5)), np.zeros(len(X))
    for m in chosen:
        own = slice(offsets[m], offsets[m + 1])
        np.testing.assert_allclose(
            np.tril(C[own, : widths[m]]), np.tril(X[own] * weight @ X[own].T), atol=1e-12
        )
        np.testing.assert_allclose(sums[own], X[own] @ weight, atol=1e-12)
        means[own] = centred * sums[own] / weight.sum()
        away = X[own] - means[own, None]
        h[own], turns[own, : widths[m]] = np.linalg.eigh(away * weight @ away.T)
    y = rng.normal(size=n)
    y -= centred * (weight @ y) / weight.sum()
    W, norms, f, u = np.zeros((1, len(X))), np.zeros(len(widths)), np.zeros(n), weight * y
    _, left = core.blocks_on_weighted_rows(
        X, offsets, chosen, h, turns, means, weight, 1.0 / weight, W, norms, f, u, 0.7, 1e-12, 1000
    )
    assert left <= 1e-12
    fit = W[0] @ (X - means[:, None])
    np.testing.assert_allclose(f, fit, atol=1e-11)
    np.testing.assert_allclose(u, weight * (y - fit), atol=1e-11)
    np.testing.assert_allclose(
        norms, [np.linalg.norm(W[0, a:b]) for a, b in itertools.pairwise(offsets)], atol=1e-12
    )
    # optimal: gradients of blocks with coefficients point along these, and no other is longer
    level = 0.7 * norms.sum()
    for m in chosen:
        own = slice(offsets[m], offsets[m + 1])
        G = (X[own] - means[own, None]) @ u
        if norms[m] > 0:
            np.testing.assert_allclose(G, level * W[0, own] / norms[m], atol=1e-4 * level)
        else:
            assert np.linalg.norm(G) <= level * (1 + 1e-4)


BOX_LOSSES = [
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.EpsilonInsensitive(0.2),
    losses.Huber(0.5),
    losses.Quantile(0.3),
    losses.Squared(),
]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("loss", BOX_LOSSES, ids=lambda loss: loss.name)
def test_sums_over_a_box_are_those_of_its_loss(core, loss, rng):
    """Objective, gap, best intercept and rounding errors, with ties and rows without a cost."""
    for trial in range(60):
        n = int(rng.integers(2, 40))
        y = rng.choice([-1.0, 1.0], n) if loss.classifies else rng.normal(size=n)
        y[:2] = 1.0, -1.0
        costs = rng.choice([0.0, 1.0, 2.5], n)
        costs[:2] = 1.0
        costs *= 10.0 ** rng.choice([-12.0, -2.0, 0.0, 2.0])
        product = rng.normal(size=n) * 10.0 ** rng.integers(-2, 2)
        product = np.round(product, 1) if trial % 3 == 0 else product
        low, high = loss.bounds(y, costs)
        b = np.where(rng.random(n) < 0.5, np.clip(low, -3.0, 3.0), np.clip(high, -3.0, 3.0)) * rng.random(n)
        box = loss.box(y, costs)

        t = core.box_intercept(*box, product)
        ends = [y - product + sign * reach for sign in (-1, 1) for reach in (0.0, 0.2, 0.5)]
        points = np.sort(np.concatenate([[t], *(end[costs > 0] for end in ends)]))
        totals = np.array([loss.total(y, costs, product + point) for point in points])
        best = points[totals <= totals.min() + 1e-12 * np.abs(totals).max()]
        assert loss.total(y, costs, product + t) <= totals.min() + 1e-12 * np.abs(totals).max()
        if loss.piecewise_linear:
            assert t == pytest.approx(0.5 * (best[0] + best[-1]), abs=1e-12)

        f = product + 0.3
        primal, gap, intercept = core.box_values(*box, b, product, 0.3, False)
        used = costs > 0
        terms = costs[used] * (loss.value(y[used], f[used]) + loss.conjugate(y[used], b[used] / costs[used]))
        assert primal == pytest.approx(0.5 * b @ product + loss.total(y, costs, f), rel=1e-12)
        assert gap == pytest.approx(terms.sum() + b @ f, rel=1e-10, abs=1e-10 * np.abs(terms).sum())
        assert intercept == 0.3
        assert core.box_values(*box, b, product, 0.0, True)[2] == pytest.approx(t, abs=1e-13)

        error = 1e-3 * rng.random(n)
        for fit_intercept in (True, False):
            found = core.box_rounding(*box, b, product, 0.3, error, primal + gap, fit_intercept)
            # that of any loss, from its slopes
            machine = Machine(y, 1.0, loss, costs, fit_intercept=fit_intercept)
            own = machine, b, product, Values(primal, gap, 0.3), error
            assert found == pytest.approx(losses.Loss.rounding(loss, *own), rel=1e-12)


@pytest.mark.parametrize("core", CORES)
def test_the_intercept_of_a_flat_sum_is_the_middle(core):
    """Where no row has a loss, and of the quantile between two rows."""
    for loss, y, product, middle in (
        (losses.Hinge(), [1.0, -1.0], [3.0, -5.0], 1.0),
        (losses.SquaredHinge(), [1.0, -1.0], [3.0, -5.0], 1.0),
        (losses.EpsilonInsensitive(1.0), [0.0, 1.0], [0.0, 0.0], 0.5),
        (losses.Huber(1.0), [0.0, 10.0], [0.0, 0.0], 5.0),
        (losses.Quantile(0.5), [0.0, 4.0], [0.0, 0.0], 2.0),
    ):
        y, product = np.array(y), np.array(product)
        found = core.box_intercept(*loss.box(y, np.ones(2)), product)
        assert found == pytest.approx(middle, abs=1e-14), loss
    # without a cost there is nothing to balance
    assert core.box_intercept(*losses.Hinge().box(np.ones(2), np.zeros(2)), np.ones(2)) == 0.0


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("n", [1, 2, 5, 37])
def test_lanczos_vectors_span_a_solution(core, rng, n):
    S = random_psd(rng, n) / n
    b = rng.normal(size=n)
    b /= np.linalg.norm(b)
    V, diagonal, beside = np.zeros((n, n)), np.empty(n), np.empty(n)
    V[0] = b
    # below the diagonal nothing is read
    m = core.lanczos(np.triu(S) + np.tril(np.full((n, n), np.nan), -1), 0.3, 1e-11, V, diagonal, beside)
    assert 0 < m <= n
    V, T = V[:m], np.diag(diagonal[:m]) + np.diag(beside[: m - 1], 1) + np.diag(beside[: m - 1], -1)
    np.testing.assert_allclose(V @ V.T, np.eye(m), atol=1e-12)
    np.testing.assert_allclose(V @ S @ V.T, T, atol=1e-12)
    x = np.linalg.solve(T + 0.3 * np.eye(m), np.eye(m)[0]) @ V
    assert np.linalg.norm(S @ x + 0.3 * x - b) <= 2e-11


@pytest.mark.parametrize("core", CORES)
def test_the_upper_triangle_is_mirrored(core, rng):
    for n in (1, 2, 37, 130, 300):
        K = rng.normal(size=(n, n))
        found = K.copy()
        core.mirror(found, 2)
        np.testing.assert_array_equal(found, np.triu(K) + np.triu(K, 1).T)


@pytest.mark.parametrize("core", CORES)
def test_lanczos_ends_at_the_first_residual_that_is_small_enough(core, rng):
    """Of the solution in the span so far, which is known from the last of its coefficients."""
    S, ended = random_psd(rng, 30) / 30, []
    for tol in (0.3, 1e-2, 1e-4, 1e-7):
        V, diagonal, beside = np.zeros((30, 30)), np.empty(30), np.empty(30)
        V[0, 3] = 1.0
        m = core.lanczos(S, 0.05, tol, V, diagonal, beside)
        T = np.diag(diagonal[:m]) + np.diag(beside[: m - 1], 1) + np.diag(beside[: m - 1], -1)
        left = []
        for k in range(1, m + 1):
            x = np.linalg.solve(T[:k, :k] + 0.05 * np.eye(k), np.eye(k)[0]) @ V[:k]
            left.append(np.linalg.norm(S @ x + 0.05 * x - V[0]))
        assert left[-1] <= tol * (1 + 1e-8) + 1e-12
        assert all(one > tol * (1 - 1e-8) for one in left[:-1])
        ended.append(m)
    assert ended == sorted(ended)
    assert 1 < ended[1] < ended[-1] <= 30


@pytest.mark.parametrize("core", CORES)
def test_lanczos_says_what_it_does_not_reach(core, rng):
    S = random_psd(rng, 40)
    V, diagonal, beside = np.zeros((5, 40)), np.empty(5), np.empty(5)
    V[0] = 1.0 / np.sqrt(40)
    assert core.lanczos(S, 1e-3, 1e-12, V, diagonal, beside) == -5
    # not positive definite
    assert core.lanczos(-S, 1e-3, 1e-12, V, diagonal, beside) == -1


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("n", "p"), [(1, 2), (2, 1), (23, 4), (23, 7), (530, 3)])
def test_covariance_and_the_slopes_of_its_evidence(core, rng, n, p):
    X, own, signal = rng.normal(size=(p, n)), rng.uniform(1.0, 2.0, n), 1.7
    packed, K = np.empty(packed_length(n)), np.full((n, n), -1.0)
    core.covariance(X, signal, own, packed, K)
    D = np.square(X[:, :, None] - X[:, None, :])
    exact = signal * np.exp(-D.sum(axis=0))
    np.testing.assert_allclose(unpack(packed, n), exact, rtol=1e-13)
    upper = np.triu_indices(n, 1)
    np.testing.assert_allclose(K[upper], exact[upper], rtol=1e-13)
    np.testing.assert_array_equal(K.diagonal(), own)
    assert (K[upper[::-1]] == -1.0).all()
    A, Q, sums = rng.normal(size=(2, n)), random_psd(rng, n) / n, np.empty(p + 1)
    # below the diagonal nothing is read
    core.evidence_slopes(X, packed, A, np.triu(Q) + np.tril(np.full((n, n), np.nan), -1), sums)
    m = (exact * (A.T @ A - 2 * Q))[upper]
    scale = np.abs(m).sum() + 1e-300
    np.testing.assert_allclose(sums[-1], m.sum(), atol=1e-13 * scale)
    np.testing.assert_allclose(sums[:-1], [d[upper] @ m for d in D], atol=1e-12 * scale)


def test_smo_looks_once_where_no_pair_is_left(monkeypatch):
    looks, look = [], np.argmin
    monkeypatch.setattr(np, "argmin", lambda *args: (looks.append(1), look(*args))[1])
    d = np.array([0.25, 0.75])
    assert numpy_core.simplex_smo(np.eye(2), d.copy(), d, 1e-10, 3, 3) == 0
    assert (len(looks), d.tolist()) == (1, [0.25, 0.75])
