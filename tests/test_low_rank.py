"""Kernels of low rank are found, whatever their spectrum, and the others are given up early.

Modules: `gram/low_rank`, `gram/building`, `gram/stack`, `_loops/packed`, `fitting/source`, `kernels/pairs`.
"""

import numpy as np
import pytest

import kernelweave as kw
from kernelweave import _loops
from kernelweave._loops import numpy_core, packed_length
from kernelweave.fitting.source import TableSource
from kernelweave.fitting.stacks import KernelBank, StackSource
from kernelweave.gram import FactorGram, gram_from_stack
from kernelweave.gram.building import highest_rank
from kernelweave.gram.low_rank import follows, hopeless, hopeless_triangle, rows_to_see
from kernelweave.kernels import RBF, ArcCosine, Laplacian, Linear, Polynomial
from kernelweave.views import Table, as_table

CORES = [pytest.param(numpy_core, id="numpy")]
if _loops.HAS_EXTENSION:
    CORES.append(pytest.param(_loops.core, id="compiled"))


def packed_of(K):
    return np.ascontiguousarray(K[np.triu_indices(len(K))])


def distances(X, squared):
    apart = X[:, :, None] - X[:, None, :]
    return (np.square(apart) if squared else np.abs(apart)).sum(axis=0)


# ---- loops -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("threads", [1, 3])
def test_exponentials_of_distances_fill_rows_of_triangles(core, rng, threads):
    n, gammas = 53, np.array([0.3, 2.0, 40.0])
    D = distances(rng.normal(size=(4, n)), True)
    packed = np.full((3, packed_length(n)), np.nan)
    for first, stop in ((0, 20), (20, 21), (21, 53)):
        part = D[first:stop, first:].copy()
        # what is below the diagonal is not read
        part[np.tril_indices(stop - first, -1)] = np.nan
        core.decays(np.ascontiguousarray(part), first, gammas, packed, threads)
    for gamma, triangle in zip(gammas, packed, strict=True):
        # measured: two units in the last place
        np.testing.assert_allclose(triangle, packed_of(np.exp(-gamma * D)), rtol=1e-15, atol=1e-300)
    assert (packed[:, 0] == 1.0).all()


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("squared", [True, False])
def test_factors_of_decays_need_no_matrix(core, rng, squared):
    n, gamma = 80, 1e-4
    X = np.round(rng.normal(size=(2 if squared else 1, n)), 1)
    Z = np.empty((n, n))
    rank, residual = core.pivoted_decay(X, gamma, squared, 0.0, Z)
    K = np.exp(-gamma * distances(X, squared))
    assert 0 < rank < n
    assert residual == 0.0
    # measured: 4e-15
    np.testing.assert_allclose(Z[:rank].T @ Z[:rank], K, atol=1e-13)
    again = np.empty((n, n))
    assert core.pivoted_cholesky(packed_of(K), 0.0, again)[0] == pytest.approx(rank, abs=3)
    assert core.pivoted_decay(X, 50.0, squared, 0.0, np.empty((5, n)))[0] == -1
    rough, left = core.pivoted_decay(X, gamma, squared, 1e-3 * n, Z)
    assert rough < rank
    assert 0 < left <= 1e-3 * n


# ---- giving up --------------------------------------------------------------------------------------


def flat(rng, n, rank):
    X = rng.normal(size=(n, rank))
    return X @ X.T


def lonely(rng, n, rank):
    """Rows that resemble no other, first, and a large group of equal ones."""
    K = np.ones((n, n))
    K[: rank - 1] = K[:, : rank - 1] = 0.0
    K[range(rank - 1), range(rank - 1)] = 1.0
    return K


def scales(rng, n, rank):
    K = flat(rng, n, rank)
    size = 10.0 ** rng.uniform(-9, 9, n)
    return K * size[:, None] * size


def groups(rng, n, rank):
    member = rng.integers(0, rank, n)
    return (member[:, None] == member).astype(float)


def decaying(rng, n, rank):
    X = rng.normal(size=(n, rank)) * 0.8 ** np.arange(rank)
    return X @ X.T


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", [flat, lonely, scales, groups, decaying])
@pytest.mark.parametrize("n", [60, 240, 600])
@pytest.mark.parametrize("share", [0.2, 0.7, 1.0])
def test_no_kernel_of_low_rank_is_given_up(make, n, share, rng):
    cap = highest_rank(n)
    rank = max(1, int(share * cap))
    if make is decaying and rank > 40:
        pytest.skip("its last directions are less than rounding, which is of full rank")
    K = make(rng, n, rank)
    seen = rows_to_see(n, cap)
    assert not hopeless(K[np.ix_(seen, seen)], cap, 0.0)
    assert not hopeless_triangle(packed_of(K), n, cap, 0.0)
    gram = gram_from_stack(K[:, :, None])
    if share == 1.0:
        # rounding may ask for a pivot too many
        return
    assert isinstance(gram, FactorGram)
    # pivots on rounding may come on top
    assert gram.ranks[0] <= rank + 3
    size = np.sqrt(K.diagonal())
    error = np.abs(gram.combine(np.ones(1)) - K) / np.maximum(np.outer(size, size), 1e-300)
    # measured: 4e-14
    assert error[np.outer(size, size) > 0].max() <= 1e-12


@pytest.mark.parametrize("n", [60, 240, 600])
def test_gaussians_of_many_rows_are_given_up(n, rng):
    X = rng.normal(size=(n, 10))
    cap = highest_rank(n)
    for gamma in (0.05, 0.3, 2.0):
        K = RBF(gamma=gamma)(X)
        seen = rows_to_see(n, cap)
        assert hopeless(K[np.ix_(seen, seen)], cap, 0.0)
        assert hopeless_triangle(packed_of(K), n, cap, 0.0)


def test_what_may_be_left_out_counts(rng):
    """Full rank, most of it in a few directions: there is a factor with a tolerance, and none without."""
    n = 240
    K = flat(rng, n, 4) + 1e-6 * np.eye(n)
    cap = highest_rank(n)
    assert hopeless_triangle(packed_of(K), n, cap, 0.0)
    assert not hopeless_triangle(packed_of(K), n, cap, 1e-3 * K.trace())


def test_a_matrix_that_follows_from_a_factor_is_told_from_one_that_does_not(rng):
    Z = rng.normal(size=(5, 90))
    K = Z.T @ Z
    assert follows(packed_of(K), Z, 1e-8)
    u = rng.normal(size=90)
    u /= np.linalg.norm(u)
    assert not follows(packed_of(K - 1e-7 * np.outer(u, u)), Z, 1e-8)
    # five times too long along its direction, and too short in every row
    u = np.full(90, 90**-0.5)
    assert not follows(packed_of(K - 5e-6 * np.outer(u, u)), Z, 1e-2)
    # the diagonal alone tells nothing
    K[3, 7] += 1e-6
    K[7, 3] += 1e-6
    assert not follows(packed_of(K), Z, 1e-8)


@pytest.mark.parametrize("n", [40, 300])
def test_indefinite_matrices_with_a_diagonal_of_low_rank_are_refused(n, rng):
    """Pivots on a diagonal that is used up would end early; entries beside it are looked at all the same."""
    Z = rng.normal(size=(2, n))
    K = Z.T @ Z
    K[0, 1] = K[1, 0] = 0.0
    with pytest.raises(kw.NotPSDError, match="Kernel 1"):
        gram_from_stack(np.stack([np.eye(n), K], axis=-1))


# ---- sources ----------------------------------------------------------------------------------------

BANK = [
    RBF(gamma=1e-3),
    RBF(gamma=0.5).on([0]),
    RBF(gamma=3.0),
    Laplacian(gamma=1e-7).on([1]),
    Laplacian(gamma=0.3),
    RBF(gamma=("median", 0.25)).prepared("standardize").on([1, 2]),
    Polynomial(degree=2).on([0, 1]),
    Polynomial(degree=2),
    ArcCosine(degree=1),
    2.0 * RBF(gamma=0.1).on([2]),
    *[Polynomial(degree=3).on([j]) for j in range(6)],
    *[RBF(gamma=0.02).on([j]) for j in range(6)],
    Linear().on([3]),
]


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n", [150, 500, 720])
def test_factors_without_matrices_are_the_kernels(n, sparse, rng):
    from scipy.sparse import csr_array

    X = rng.normal(size=(n, 6)) * (rng.uniform(size=(n, 6)) < 0.7)
    bank = [k for k in BANK if not (sparse and k.base.preparation)]
    table = as_table(csr_array(X) if sparse else X)
    source = TableSource(bank, table, max_memory=1e9)
    gram = source.gram()
    for m, kernel in enumerate(source.kernels):
        K = kernel(table)
        size = np.sqrt(K.diagonal())
        error = np.abs(gram.combine(np.eye(len(bank))[m]) - K)
        # measured over 40 seeds: 5e-12, where the last pivots are rounding
        assert (error / np.maximum(np.outer(size, size), 1e-300)).max() <= 1e-10, kernel
    ranks = dict(zip(source.names, gram.ranks, strict=True))
    assert ranks["RBF(gamma=0.5) on x0"] > 0 or n == 150
    assert ranks["Polynomial(degree=2) on x0, x1"] == (
        6 if n >= 500 else ranks["Polynomial(degree=2) on x0, x1"]
    )
    assert ranks["RBF(gamma=3) on all"] == -1


def test_features_of_many_columns_are_those_of_each(rng):
    X = rng.normal(size=(120, 200))
    bank = [Polynomial(degree=1 + j % 3).on([j]) for j in range(200)]
    gram = TableSource(bank, Table(X), max_memory=1e9).gram()
    assert isinstance(gram, FactorGram)
    np.testing.assert_array_equal(gram.ranks, [2 + j % 3 for j in range(200)])
    expected = np.concatenate([kernel.features(X).T for kernel in bank])
    np.testing.assert_array_equal(gram.rows, expected)


def test_parts_of_what_is_semidefinite_are_not_checked_again(rng, monkeypatch):
    X = rng.normal(size=(60, 70))
    stack = np.stack([X @ X.T, np.exp(X[:, :60] / 9) @ np.exp(X[:, :60] / 9).T], axis=-1)
    checked = []
    from kernelweave.gram import stack as module

    real = module.check_semidefinite
    monkeypatch.setattr(module, "check_semidefinite", lambda *given: checked.append(1) or real(*given))
    source = StackSource(stack)
    early = source.take(np.arange(40))
    source.gram()
    assert len(checked) == 2
    source.take(np.arange(30)).take(np.arange(20)).gram()
    assert len(checked) == 2
    # one that was taken before is checked itself
    early.gram()
    assert len(checked) == 4
    bank = kw.KernelBank(stack)
    assert isinstance(bank, KernelBank)
    kw.MKLRegressorCV(bank, cv=3, n_alphas=3).fit(np.arange(60)[:, None], X[:, 0])
    assert len(checked) == 6
