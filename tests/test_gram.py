"""One suite over every Gram representation: they must answer alike.

Modules: `gram`, `gram/base`, `gram/building`, `gram/composite`, `gram/factors`, `gram/packed`, `gram/repair`,
`gram/stack`, `gram/tiles`.
"""

import numpy as np
import pytest

import kernelweave as kw
from kernelweave.gram import (
    CompositeGram,
    FactorGram,
    Gram,
    PackedGram,
    TileGram,
    as_gram,
    building,
    concatenate,
    gram_from_stack,
    repair_gram,
)
from kernelweave.gram.base import pieces
from kernelweave.gram.stack import kind_of
from problems import compress, rbf_stack

N = 31


@pytest.fixture(scope="module")
def stack():
    X = np.random.default_rng(0).normal(size=(N, 3))
    return np.concatenate([rbf_stack(X, [0.5]), X[:, None, :] * X[None, :, :]], axis=2)


def packed(stack):
    return gram_from_stack(stack, reduce=False)


def factors(stack):
    rows, sizes = [], []
    for m in range(stack.shape[2]):
        values, vectors = np.linalg.eigh(stack[:, :, m])
        keep = values > 1e-13 * values[-1]
        rows.append((vectors[:, keep] * np.sqrt(values[keep])).T)
        sizes.append(keep.sum())
    return FactorGram(np.concatenate(rows), np.r_[0, np.cumsum(sizes)])


def tiles(stack):
    return TileGram(lambda m, r, c: stack[r, c, m].copy(), np.einsum("iim->mi", stack).copy(), tile_rows=8)


def composite(stack):
    odd, even = np.arange(1, stack.shape[2], 2), np.arange(0, stack.shape[2], 2)
    return CompositeGram([packed(stack).take(odd), factors(stack).take(even)], [odd, even])


def reduced(stack):
    with pytest.MonkeyPatch.context() as patch:
        # small factors beside triangles would become triangles
        patch.setattr(building, "FEW", 0)
        return gram_from_stack(stack)


FORMS = [packed, factors, tiles, composite, reduced]


@pytest.fixture(params=FORMS, ids=lambda form: form.__name__)
def gram(request, stack):
    return request.param(stack)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n_vectors", [1, 2])
@pytest.mark.parametrize("chosen", [None, [], [0], [5, 1, 2]])
def test_forms_and_products(gram, stack, rng, n_vectors, chosen, monkeypatch):
    if n_vectors == 2:
        monkeypatch.setattr("kernelweave.gram.factors.PIECE", 3 * N)
    C = rng.normal(size=(n_vectors, N))
    idx = None if chosen is None else np.array(chosen, dtype=np.intp)
    every = slice(None) if chosen is None else idx
    close(gram.quadratic_forms(C, idx), np.einsum("ti,ijm,tj->m", C, stack, C)[every])
    close(gram.matvecs(C, idx), np.einsum("ijm,tj->mti", stack, C)[every])


@pytest.mark.parametrize("rows", [[4], [0, 1, 2, 9, 30], [30, 7, 8, 7, 0, 15]])
def test_restriction_to_samples(gram, stack, rng, rows):
    small = stack[np.ix_(rows, rows)]
    C = rng.normal(size=(2, len(rows)))
    held = gram.restrict(np.array(rows))
    assert (held.n_samples, held.n_kernels) == (len(rows), stack.shape[2])
    close(held.quadratic_forms(C), np.einsum("ti,ijm,tj->m", C, small, C))
    close(held.diagonal(), np.einsum("iim->mi", small))


def test_what_is_made_of_tiles_has_their_size_and_order(stack, rng):
    """More rows than those of a tile, in any order: blocks of the new matrices are not those of the old ones."""
    gram, rows = tiles(stack), rng.permutation(N)[:21]
    held = gram.restrict(rows)
    close(held.combine(np.arange(7.0)), stack[np.ix_(rows, rows)] @ np.arange(7.0))
    close(held.panel(slice(5, 9)), np.moveaxis(stack[np.ix_(rows, rows)], 2, 0)[:, 5:9, 5:])
    for made in (
        held,
        gram.take(np.array([2, 1])),
        gram.rescale(np.ones((7, N))),
        gram.center(np.full(N, 1 / N)),
    ):
        assert made.describe() == f"{made.n_kernels} kernels recomputed in tiles of 8 rows"


def test_representations_side_by_side_are_the_sum_of_their_parts(stack):
    gram = composite(stack)
    assert gram.nbytes == sum(part.nbytes for part in gram.parts) > max(part.nbytes for part in gram.parts)
    # ranks are whole numbers, -1 of triangles
    assert gram.ranks.dtype.kind == "i"
    assert gram.ranks[1::2].tolist() == [-1] * 3
    assert gram.describe() == "; ".join(part.describe() for part in gram.parts)


@pytest.mark.parametrize("which", [[], [2], [4, 5], [0, 1, 2, 3, 4, 5, 6]])
def test_combinations(gram, stack, rng, which):
    w = np.zeros(stack.shape[2])
    w[which] = rng.uniform(0.5, 2.0, len(which))
    C = rng.normal(size=(2, N))
    close(gram.combine(w), stack @ w)
    close(gram.matvec(w, C), C @ (stack @ w))
    work = np.full((N, N), np.nan)
    close(np.triu(gram.combine(w, work, upper=True)), np.triu(stack @ w))
    # single vectors are taken as they come
    close(gram.matvec(w, C[0]), (stack @ w) @ C[0])
    # adding to a matrix must not touch what lies below the diagonal with rubbish that could overflow
    full = np.full((N, N), 1.0)
    gram.add_combination(w, full, empty=False)
    close(np.triu(full), np.triu(1.0 + stack @ w))
    assert np.abs(full).max() <= 1.0 + np.abs(stack @ w).max() + 1e-9
    factor = gram.factor(w)
    if factor is not None:
        stored, scale = gram.scaled_factor(w)
        np.testing.assert_allclose(scale[:, None] * stored, factor, rtol=1e-15)
    if factor is not None and len(which):
        close(factor.T @ factor, stack @ w)


def test_diagonals_traces_and_bounds(gram, stack):
    close(gram.diagonal(), np.einsum("iim->mi", stack))
    close(gram.diagonal(np.array([5, 0, 3])), np.einsum("iim->mi", stack)[[5, 0, 3]])
    assert gram.diagonal(np.empty(0, dtype=np.intp)).shape == (0, N)
    close(gram.trace(), np.einsum("iim->m", stack))
    largest = np.array([np.linalg.eigvalsh(stack[:, :, m])[-1] for m in range(stack.shape[2])])
    assert (gram.norm_bound >= largest * (1 - 1e-12)).all()
    # no looser than the trace, which every PSD matrix allows
    assert (gram.norm_bound <= gram.trace() * (1 + 1e-12)).all()
    assert gram.nbytes > 0
    assert str(gram.n_kernels) in gram.describe() or isinstance(gram, CompositeGram)


@pytest.mark.parametrize("piece", [3 * N, 2**16])
def test_sums_over_rows_and_pairs(gram, stack, rng, piece, monkeypatch):
    monkeypatch.setattr("kernelweave.gram.base.PIECE", piece)
    w = rng.uniform(0.5, 2.0, N)
    H = rng.normal(size=(N, N))
    H += H.T
    close(gram.inner(H), np.einsum("ij,ijm->m", H, stack))
    close(gram.trace(w), np.einsum("i,iim->m", w, stack))
    for m in range(stack.shape[2]):
        squares = np.square(stack[:, :, m])
        close(gram.square_norm(m, w), w @ squares @ w)
        close(gram.square_norm(m), squares.sum())


def test_take_rescale_and_center(gram, stack, rng):
    idx = np.array([3, 0, 6])
    C = rng.normal(size=(1, N))
    close(gram.take(idx).matvecs(C), np.einsum("ijm,tj->mti", stack[:, :, idx], C))
    scale = rng.uniform(0.5, 2.0, size=(stack.shape[2], N))
    close(
        gram.rescale(scale).matvecs(C),
        np.einsum("ijm,tj->mti", stack * scale.T[:, None, :] * scale.T[None, :, :], C),
    )
    # one factor for all rows of a kernel, 0 for one that is left out
    factors = np.arange(stack.shape[2]) * 0.5
    whole = gram.rescale(np.repeat(factors[:, None], N, axis=1))
    close(whole.matvecs(C), np.einsum("ijm,tj->mti", stack * np.square(factors), C))
    p = rng.uniform(size=N)
    p /= p.sum()
    H = np.eye(N) - np.outer(np.ones(N), p)
    centred = np.einsum("ij,jkm,lk->ilm", H, stack, H)
    close(gram.center(p).matvecs(C), np.einsum("ijm,tj->mti", centred, C))
    close(gram.center(p).diagonal(), np.einsum("iim->mi", centred))


def test_linear_features_are_never_expanded():
    X = np.random.default_rng(1).normal(size=(20, 5000))
    gram = FactorGram.from_columns(X)
    # the design matrix and nothing else: the triangles would take 84 times as much
    assert gram.nbytes == X.nbytes
    assert gram.ranks.tolist() == [1] * 5000
    assert gram.n_kernels == 5000
    c = np.random.default_rng(2).normal(size=(1, 20))
    close(gram.quadratic_forms(c), np.square(c @ X)[0])


def test_ranks_that_happen_to_sum_to_the_number_of_kernels(rng):
    # three kernels and three rows, but not one row each
    X = rng.normal(size=(N, 3))
    gram = FactorGram(X.T, np.array([0, 0, 2, 3]))
    dense = np.stack([np.zeros((N, N)), X[:, :2] @ X[:, :2].T, np.outer(X[:, 2], X[:, 2])], axis=2)
    c, w = rng.normal(size=N), np.array([0.5, 2.0, 3.0])
    np.testing.assert_allclose(gram.quadratic_forms(c[None]), c @ np.moveaxis(dense, 2, 0) @ c, atol=1e-10)
    np.testing.assert_allclose(gram.matvecs(c[None])[:, 0], np.moveaxis(dense, 2, 0) @ c, atol=1e-10)
    np.testing.assert_allclose(
        np.triu(gram.combine(w, np.empty((N, N)), upper=True)), np.triu(dense @ w), atol=1e-10
    )
    np.testing.assert_allclose(gram.take(np.array([1])).trace(), np.trace(dense[:, :, 1]))


def test_reduction_is_exact_and_only_where_it_pays(stack, monkeypatch):
    # a few small kernels beside triangles are triangles, too
    few = gram_from_stack(stack)
    assert (few.ranks == -1).all()
    monkeypatch.setattr(building, "FEW", 0)
    gram = gram_from_stack(stack)
    # a kernel of low rank between others keeps its place
    order, weights = np.array([4, 0, 5, 1, 6, 2, 3]), np.arange(1.0, 8.0)
    expected = stack[:, :, order] @ weights
    for limit in (0, 2**12):
        monkeypatch.setattr(building, "FEW", limit)
        mixed = gram_from_stack(stack[:, :, order])
        np.testing.assert_allclose(mixed.combine(weights), expected, rtol=1e-10, atol=1e-12)
    monkeypatch.setattr(building, "FEW", 0)
    assert (gram.ranks[4:] == 1).all()
    assert gram.ranks[0] == -1
    assert not gram.residual_trace.any()
    rough = compress(packed(stack), tol=1e-2, max_rank=25)
    assert 0 < rough.residual_trace.max() <= 1e-2 * N
    c = np.random.default_rng(3).normal(size=(1, N))
    short = packed(stack).quadratic_forms(c) - rough.quadratic_forms(c)
    # the missing part is PSD and bounded by its trace
    assert (short >= -1e-10).all()
    assert (short <= rough.residual_trace * (c @ c.T).item() + 1e-10).all()


def test_concatenate_merges_factors(stack):
    parts = [factors(stack).take(np.arange(2)), factors(stack).take(np.arange(2, 7))]
    joined = concatenate(parts)
    assert isinstance(joined, FactorGram)
    close(joined.diagonal(), np.einsum("iim->mi", stack))
    mixed = concatenate([parts[0], packed(stack).take(np.arange(2, 7))])
    close(mixed.diagonal(), np.einsum("iim->mi", stack))


def test_bounds_of_what_factors_leave_out_follow_the_matrices(stack, rng):
    """``K_m = Z_m' Z_m + E_m`` with E_m semidefinite: whatever is made of the stack bounds what is made of E."""
    n_kernels, whole = stack.shape[2], factors(stack)
    V = (
        rng.normal(size=(n_kernels, 2, N))
        * np.array([0.0, 1.0, 2.0, 0.5, 3.0, 0.25, 4.0])[:n_kernels, None, None]
    )
    E = np.einsum("mri,mrj->mij", V, V)
    traces = np.einsum("mii->m", E)
    gram = FactorGram(whole.rows, whole.offsets, traces, 2.0 * traces[::-1])
    p, D, some = rng.dirichlet(np.full(N, 0.1)), rng.uniform(0.1, 3.0, (n_kernels, N)), np.array([4, 0, 2])
    H = np.eye(N) - p
    made = {
        "taken": (gram.take(some), E[some], gram.rounding_trace[some]),
        "rescaled": (
            gram.rescale(D),
            E * D[:, :, None] * D[:, None],
            np.square(D).max(axis=1) * 2.0 * traces[::-1],
        ),
        "centred": (gram.center(p), H.T @ E @ H, (1.0 + N * (p @ p)) * 2.0 * traces[::-1]),
        "some rows": (gram.restrict(np.arange(5, 9)), E[:, 5:9, 5:9], 2.0 * traces[::-1]),
        "joined": (
            concatenate([gram.take(some), packed(stack).take(np.array([1])), gram.take(some[:1])]),
            np.concatenate([E[some], 0.0 * E[:1], E[some[:1]]]),
            np.r_[gram.rounding_trace[some], 0.0, gram.rounding_trace[some[:1]]],
        ),
    }
    for what, (found, left, rounding) in made.items():
        trace = np.einsum("mii->m", left)
        assert (found.residual_trace >= trace * (1.0 - 1e-12)).all(), what
        # and not by more than the largest factor of a row, or the norm of what centres
        assert (found.residual_trace[trace == 0.0] == 0.0).all(), what
        close(found.rounding_trace, rounding)
        stored = np.stack([found.combine(unit) for unit in np.eye(found.n_kernels)])
        largest = np.linalg.eigvalsh(stored + left)[:, -1]
        assert (found.norm_bound >= largest * (1.0 - 1e-12)).all(), what
        # a norm is that of what is stored
        for m in range(found.n_kernels):
            close(found.square_norm(m), np.square(stored[m]).sum())
            close(found.square_norm(m, np.arange(len(left[0])) + 0.5), np.sum(
                np.square(stored[m]) * np.outer(np.arange(len(left[0])) + 0.5, np.arange(len(left[0])) + 0.5)
            ))  # fmt: skip
    np.testing.assert_allclose(gram.rescale(np.full((n_kernels, N), 2.0)).residual_trace, 4.0 * traces)
    np.testing.assert_allclose(gram.center(p).residual_trace, (1.0 + N * (p @ p)) * traces)


def test_a_factor_of_several_representations_is_that_of_all_or_none(stack, rng):
    n_kernels = stack.shape[2]
    w = rng.uniform(0.5, 2.0, n_kernels)
    mixed = composite(stack)
    assert mixed.factor(w) is None
    odd = np.arange(n_kernels) % 2 == 1
    close(
        mixed.factor(np.where(odd, 0.0, w)).T @ mixed.factor(np.where(odd, 0.0, w)),
        stack @ np.where(odd, 0.0, w),
    )
    assert packed(stack).factor(w) is None


def test_overwriting_takes_no_second_copy(stack, rng):
    """Of triangles and factors, alone and side by side: the new stack lies in the memory of the old."""
    p = rng.dirichlet(np.ones(N))
    D = rng.uniform(0.5, 2.0, (stack.shape[2], N))

    def memory(gram):
        parts = gram.parts if isinstance(gram, CompositeGram) else [gram]
        return [part.packed if isinstance(part, PackedGram) else part.rows for part in parts]

    for form in (packed, factors, composite):
        for change in (lambda gram, **how: gram.center(p, **how), lambda gram, **how: gram.rescale(D, **how)):
            for overwrite in (False, True):
                gram = form(stack)
                before = memory(gram)
                after = memory(change(gram, overwrite=overwrite))
                assert [np.shares_memory(a, b) for a, b in zip(before, after, strict=True)] == [
                    overwrite
                ] * len(after)


@pytest.mark.parametrize("wrong", [3, 70])
def test_kernels_beyond_the_first_that_are_packed_are_named_and_have_their_own_precision(wrong, rng):
    X = rng.normal(size=(12, 12))
    many = np.repeat((X @ X.T)[:, :, None], 72, axis=2)
    spoilt = {
        "not positive semidefinite|eigenvalue": -3.0 * np.eye(12),
        "symmetric": np.triu(np.ones((12, 12)), 1),
        "has an entry of size": 1e3 * (np.eye(12, k=7) + np.eye(12, k=-7)) * (np.arange(12) % 7 > 0),
    }
    for words, change in spoilt.items():
        many[:, :, wrong] += change
        with pytest.raises(kw.InputError, match=f"Kernel {wrong} .*({words})"):
            gram_from_stack(many)
        many[:, :, wrong] -= change
    many[0, 1, wrong] = np.nan
    with pytest.raises(kw.InputError, match=f"kernel {wrong} holds NaN"):
        gram_from_stack(many)
    many[0, 1, wrong] = X[0] @ X[1]
    assert gram_from_stack(many).n_kernels == 72
    # numbers that were rounded to single precision are allowed its errors, and the others are not
    rounded = many.copy()
    rounded[:, :, wrong] = (many[:, :, wrong] * (1.0 + 1e-7 * np.triu(rng.normal(size=(12, 12)), 1))).astype(
        np.float32
    )
    found = gram_from_stack(rounded)
    close(found.combine(np.eye(72)[wrong]), 0.5 * (rounded[:, :, wrong] + rounded[:, :, wrong].T))
    # of these a share of 4e-6 of the largest eigenvalue may be negative, too
    low = X[:, :3] @ X[:, :3].T
    rounded[:, :, wrong] = (low - 1e-6 * np.linalg.eigvalsh(low)[-1] * np.eye(12)).astype(np.float32)
    assert gram_from_stack(rounded).n_kernels == 72
    rounded[0, 1, 5] *= 1.0 + 1e-6
    with pytest.raises(kw.InputError, match="Kernel 5 must be symmetric"):
        gram_from_stack(rounded)


def test_a_builder_knows_what_its_factors_leave_out(rng, monkeypatch):
    """The residual of a pivoted factor is its trace, that of rounding a share of its size; defined ones have none."""
    monkeypatch.setattr(building, "FEW", 0)
    n = 30
    Z = 3.0 * rng.normal(size=(2, n))
    tail = rng.normal(size=(n, n))
    matrices = [Z.T @ Z, Z.T @ Z + 1e-4 * tail @ tail.T]
    for tol, ranks in ((0.0, [2, -1]), (1e-2, [2, 2])):
        builder = building.Builder(n, 2)
        room = builder.triangles(2)
        for own, matrix in zip(room, matrices, strict=True):
            own[:] = matrix[np.triu_indices(n)]
        builder.keep_triangles([1, 0], tol=tol, max_rank=5)
        builder.add(2, Z.copy())
        gram = builder.finish()
        order = [1, 0, 2]
        np.testing.assert_array_equal(gram.ranks[order], [*ranks, 2])
        for k, matrix in zip(order, [*matrices, Z.T @ Z], strict=True):
            left = matrix - gram.combine(np.eye(3)[k])
            assert gram.residual_trace[k] == pytest.approx(max(np.trace(left), 0.0), abs=1e-9)
            assert np.trace(left) <= tol * np.trace(matrix) + 1e-9
        share = building.ROUNDING * np.square(Z).sum()
        np.testing.assert_allclose(gram.rounding_trace[1], share, rtol=1e-3)
        assert gram.rounding_trace[2] == 0.0


def test_a_representation_passes_through(stack):
    gram = packed(stack)
    assert as_gram(gram) is gram
    assert isinstance(as_gram(stack[:, :, 0]), PackedGram)


@pytest.mark.parametrize("rows", [slice(0, 7), slice(5, 6), slice(20, N), slice(0, N)], ids=str)
def test_panels(rows, gram, stack):
    expected = np.moveaxis(stack, -1, 0)[:, rows, rows.start :]
    some = np.array([4, 0, stack.shape[2] - 1])
    # the default asks for products with unit vectors
    for panel in (gram.panel, lambda rows, some=None: Gram.panel(gram, rows, some)):
        values = panel(rows)
        assert values.flags.c_contiguous
        assert values.flags.writeable
        np.testing.assert_allclose(values, expected, atol=1e-12 * np.abs(expected).max())
        np.testing.assert_allclose(panel(rows, some), values[some], atol=1e-13 * np.abs(expected).max())
        values[:] = np.nan
    assert np.isfinite(gram.combine(np.ones(gram.n_kernels))).all()


def test_what_is_derived_leaves_the_matrices_and_the_arguments_as_they_are(gram, stack, rng):
    """Also what is written into results."""
    n_kernels = stack.shape[2]
    w, C, p = rng.uniform(0.5, 2.0, n_kernels), rng.normal(size=(2, N)), rng.dirichlet(np.ones(N))
    D, some, rows = rng.uniform(0.5, 2.0, (n_kernels, N)), np.array([5, 0, 2]), np.array([4, 0, 9])
    for array in (w, C, p, D, some, rows):
        array.flags.writeable = False
    level = np.einsum("i,ijm,j->m", p, stack, p)
    centred = stack - (p @ stack.swapaxes(0, 1))[:, None] - (p @ stack.swapaxes(0, 1))[None] + level
    derived = {
        "rescale": (lambda gram, **how: gram.rescale(D, **how), stack * D.T[:, None] * D.T[None]),
        "center": (lambda gram, **how: gram.center(p, **how), centred),
    }
    for change, wanted in derived.values():
        found = change(gram)
        close(found.combine(w), wanted @ w)
        close(gram.combine(w), stack @ w)
        # what was made may be overwritten
        close(found.rescale(D, overwrite=True).diagonal(), np.einsum("iim->mi", wanted) * D**2)
        close(gram.diagonal(), np.einsum("iim->mi", stack))
    close(gram.take(some).combine(w[:3]), stack[:, :, some] @ w[:3])
    close(gram.restrict(rows).combine(w), stack[np.ix_(rows, rows)] @ w)
    for _ in range(2):
        for result, wanted in (
            (gram.diagonal(), np.einsum("iim->mi", stack)),
            (gram.diagonal(some), np.einsum("iim->mi", stack)[some]),
            (gram.combine(w), stack @ w),
            (gram.matvec(w, C), C @ (stack @ w)),
            (gram.matvecs(C), np.einsum("ijm,tj->mti", stack, C)),
            (gram.quadratic_forms(C), np.einsum("ti,ijm,tj->m", C, stack, C)),
            (gram.trace(), np.einsum("iim->m", stack)),
            (gram.trace(p), np.einsum("i,iim->m", p, stack)),
        ):
            close(result, wanted)
            if result.flags.writeable:
                result[:] = np.nan


# ---- similarities that are no kernels -------------------------------------------------------------


@pytest.fixture
def similarities(rng):
    """A kernel, and symmetric similarities with negative eigenvalues."""
    X = rng.normal(size=(30, 2))
    distance = np.sqrt(np.square(X[:, None] - X[None]).sum(axis=-1))
    return np.stack([X @ X.T, (distance < 1.0).astype(float)], axis=2)


def test_repair(similarities):
    values, vectors = np.linalg.eigh(similarities[:, :, 1])
    assert values[0] < -0.5
    clipped = repair_gram(similarities)
    np.testing.assert_allclose(clipped[:, :, 0], similarities[:, :, 0], atol=1e-12)
    np.testing.assert_allclose(clipped[:, :, 1], (vectors * np.maximum(values, 0.0)) @ vectors.T, atol=1e-12)
    shifted = repair_gram(similarities[:, :, 1], "shift")
    assert np.linalg.eigvalsh(shifted)[0] == pytest.approx(0.0, abs=1e-12)
    off = ~np.eye(30, dtype=bool)
    np.testing.assert_array_equal(shifted[off], similarities[:, :, 1][off])
    gram_from_stack(clipped)
    with pytest.raises(kw.NotPSDError, match="repair_gram"):
        gram_from_stack(similarities)
    with pytest.raises(kw.InputError, match="must be symmetric"):
        repair_gram(np.array([[1.0, 0.5], [0.0, 1.0]]))
    # asymmetry is a share of the largest entry, in any unit, and what is no kernel yet is corrected as a whole
    for unit in (1e-12, 1.0, 1e12):
        wrong = unit * similarities[:, :, 0].copy()
        wrong[0, 1] += 2e-8 * np.abs(wrong).max()
        with pytest.raises(kw.InputError, match="Kernel 0 must be symmetric"):
            repair_gram(wrong)
        wrong[0, 1] = wrong[1, 0] + 0.5e-8 * np.abs(wrong).max()
        found = repair_gram(wrong)
        np.testing.assert_array_equal(found, found.T)
    before = similarities.copy()
    both = repair_gram(similarities, "shift")
    np.testing.assert_array_equal(both[:, :, 1], shifted)
    assert not np.shares_memory(both, similarities)
    np.testing.assert_array_equal(similarities, before)
    with pytest.raises(kw.InputError, match="`how` must be 'clip' or 'shift', got 'drop'"):
        repair_gram(similarities, "drop")


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(
    ("given", "share"), [(np.float64, 1e-8), (np.float32, 4e-6)], ids=["double", "single"]
)
def test_what_is_rounding_is_a_share_of_the_matrix(unit, given, share, rng):
    """In any unit: asymmetry and negative eigenvalues as large as the rounding of the numbers, and larger ones."""
    V, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    K = unit * (V * np.r_[0.0, np.linspace(0.5, 2.0, 19)]) @ V.T
    size, bend = np.abs(K).max(), np.triu(np.ones((20, 20)), 1)
    for times, refused in ((0.2, False), (5.0, True)):
        for wrong, error, words in (
            (K + times * share * size * bend * (np.arange(20) == 7), kw.InputError, "must be symmetric"),
            (
                K - times * share * 2.0 * unit * np.outer(V[:, 0], V[:, 0]),
                kw.NotPSDError,
                "positive semidefinite",
            ),
        ):
            stack = np.stack([K, wrong], axis=2).astype(given)
            if refused:
                with pytest.raises(error, match=f"Kernel 1 .*{words}"):
                    gram_from_stack(stack)
            else:
                gram_from_stack(stack)


@pytest.mark.parametrize("learner", ["rls2", "simple", "uniform", "align", "rkl", "deep-uniform"])
def test_functions_that_are_no_kernels_are_named(rng, learner):
    X = rng.normal(size=(60, 3))
    near = kw.kernels.Custom(
        lambda A, B: (np.square(A[:, None] - B[None]).sum(axis=-1) < 2.0).astype(float), name="near"
    )
    y = X[:, 0] > 0
    for bank in ([kw.kernels.RBF(gamma=0.1), near], [2.0 * near + kw.kernels.Linear()], [near.on([0, 1])]):
        with pytest.raises(kw.NotPSDError, match=r"Kernel .*near.* must be positive semidefinite"):
            kw.MKLClassifier(bank, learner).fit(X, y)
    good = kw.kernels.Custom(lambda A, B: A @ B.T, name="good")
    assert kw.MKLClassifier([good], "uniform").fit(X, y).score(X, y) > 0.9


def test_banks_are_repaired_as_a_whole(similarities):
    y = np.arange(30) % 2
    with pytest.raises(kw.NotPSDError):
        kw.MKLClassifier(kw.KernelBank(similarities), "simple").fit(np.arange(20)[:, None], y[:20])
    bank = kw.KernelBank(similarities, on_indefinite="clip")
    np.testing.assert_array_equal(bank.stack, repair_gram(similarities))
    model = kw.MKLClassifier(bank, "simple").fit(np.arange(20)[:, None], y[:20])
    assert model.predict(np.arange(20, 30)[:, None]).shape == (10,)
    with pytest.raises(kw.InputError, match="Unknown on_indefinite"):
        kw.KernelBank(similarities, on_indefinite="drop")


# ---- precision and scale ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("converted", [False, True])
def test_tolerances_are_those_of_the_numbers_that_came(rng, dtype, converted):
    X = rng.normal(size=(60, 20))
    K = (X @ X.T).astype(dtype)
    values = np.linalg.eigvalsh(K.astype(np.float64))
    # low rank in single precision: its rounding alone is beyond the limit for double precision; measured from 9e-9
    assert values[0] < -3e-9 * values[-1]
    crooked = K.copy()
    crooked[3, 7] = np.nextafter(crooked[3, 7], dtype(10.0))
    if converted and dtype is np.float16:
        return  # whole numbers are exact in half precision as well: only the dtype can tell
    for given in (K, crooked):
        if dtype is np.float32:
            kw.solve_svc(given.astype(np.float64) if converted else given, np.sign(X[:, 0]), 1.0)
        gram = gram_from_stack((given.astype(np.float64) if converted else given)[:, :, None])
        np.testing.assert_allclose(gram.combine(np.ones(1)), K, atol=float(np.finfo(dtype).eps) * 10)
    # errors beyond the rounding are found in any precision
    lower, apart = dtype(0.1 * values[-1]), dtype(0.2 * np.abs(K).max())
    for wrong in (K - lower * np.eye(60, dtype=dtype), K + apart * np.eye(60, k=3, dtype=dtype)):
        with pytest.raises(kw.InputError):
            gram_from_stack(wrong[:, :, None])


def test_double_precision_keeps_its_limit(rng):
    X = rng.normal(size=(60, 3))
    K = X @ X.T
    shifted = K - 1e-7 * np.linalg.norm(K, 2) * np.eye(60)
    with pytest.raises(kw.NotPSDError):
        gram_from_stack(shifted[:, :, None])
    # whole numbers are exact in single precision, and yet not rounded
    whole = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) * 2.0**20
    whole[0, 0] -= 1.0
    with pytest.raises(kw.NotPSDError):
        gram_from_stack(whole[:, :, None] + 0.1)


@pytest.mark.parametrize("factor", [1e300, 1e160, 1e-160, 1e-310, 5e-324])
def test_kernels_whose_squares_are_no_numbers_are_refused(rng, factor):
    X = rng.normal(size=(12, 3))
    y = X[:, 0]
    K = factor * np.exp(-np.square(X[:, None] - X[None]).sum(axis=-1))
    gram = np.stack([np.eye(12), K], axis=2)
    for solve in (
        lambda: kw.solve_rls2(gram, y, 1.0),
        lambda: kw.rls2_path(gram, y),
        lambda: kw.solve_svm_mkl(gram, np.sign(y), 1.0),
        lambda: kw.solve_rkl(gram, np.sign(y), 1.0),
        lambda: kw.solve_svc(K, np.sign(y), 1.0),
        lambda: kw.solve_meb(K),
        lambda: kw.MKLRegressor("precomputed").fit(gram, y),
    ):
        with pytest.raises(
            kw.InputError, match="must have its largest diagonal entry between 1e-150 and 1e\\+150"
        ):
            solve()
    # a zero kernel is no matter of scale
    assert as_gram(np.zeros((12, 12, 1))).trace() == 0.0


def test_nan_in_rows_that_are_only_predicted_is_an_error(rng):
    X = rng.normal(size=(30, 2))
    stack = X[:, None, :] * X[None, :, :]
    stack[25:, :, 1] = np.nan
    stack[:, 25:, 1] = np.nan
    model = kw.MKLClassifier(kw.KernelBank(stack, names=["a", "b"]), "uniform").fit(
        np.arange(20)[:, None], X[:20, 0] > 0
    )
    assert len(model.predict(np.arange(20, 25)[:, None])) == 5
    for ask in (model.predict, model.decision_function, model.kernel_contributions):
        with pytest.raises(kw.InputError, match=r"KernelBank must be finite.*'b'"):
            ask(np.arange(22, 27)[:, None])


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_weights_of_another_number_of_kernels_are_refused(form, stack):
    with pytest.raises(
        kw.InputError, match=r"`weights` must have one entry per kernel, shape \(7,\), got \(6,\)"
    ):
        form(stack).combine(np.ones(6))


@pytest.mark.parametrize("step", [-1, 0, 1, 3, 7, 8])
def test_pieces_have_the_size_that_was_asked_for(step):
    parts = [np.arange(7)[one] for one in pieces(7, step)]
    assert np.concatenate(parts).tolist() == list(range(7))
    assert [len(part) for part in parts[:-1]] == [max(1, step)] * (len(parts) - 1)
    assert len(parts) == -(-7 // max(1, step))
    assert list(pieces(0, step)) == []


def test_representations_say_what_they_are(stack, recorded):
    texts = [form(stack).describe() for form in FORMS]
    rows = np.arange(12.0).reshape(4, 3)
    texts.append(FactorGram(rows, np.array([0, 1, 4]), np.array([0.0, 1e-3])).describe())
    texts.append(FactorGram(rows, np.arange(5)).describe())
    recorded("texts", texts)
    assert packed(stack).nbytes == stack.shape[2] * 8 * N * (N + 1) // 2
    assert FactorGram(rows, np.arange(5)).nbytes == 96


def test_what_is_no_stack_is_told(recorded):
    """The words for every mistake, with the number of the kernel."""
    eye, said = np.eye(3), []
    lower = eye.copy()
    lower[0, 2] = 0.5
    distances = np.ones((3, 3)) - eye
    indefinite = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
    for wrong in (
        np.ones((2, 3)),
        np.ones((3, 3, 0)),
        np.stack([eye, lower], axis=2),
        np.stack([eye, eye * np.nan], axis=2),
        np.stack([eye, distances], axis=2),
        np.stack([eye, -eye], axis=2),
        np.stack([eye, indefinite], axis=2),
        np.stack([eye, indefinite], axis=2).astype(np.float32),
        kw.BlockStatistics([0, 2]),
        kw.KernelStream([eye]),
        "text",
    ):
        with pytest.raises((kw.InputError, kw.NotPSDError)) as error:
            as_gram(wrong)
        said.append([type(error.value).__name__, str(error.value)])
    for wrong in (np.ones((2, 3)), lower, np.full((3, 3), np.inf)):
        with pytest.raises(kw.InputError) as error:
            repair_gram(wrong)
        said.append([type(error.value).__name__, str(error.value)])
    recorded("messages", said)
    assert as_gram(eye).n_kernels == 1
    held = as_gram(kw.FeatureStack(np.arange(6.0).reshape(2, 3), [0, 1, 3]))
    assert isinstance(held, FactorGram)
    np.testing.assert_allclose(held.combine(np.array([2.0, 1.0])), [[5.0, 14.0], [14.0, 59.0]])
    assert gram_from_stack(indefinite[:, :, None], psd=False).n_kernels == 1
    assert kind_of(as_gram(eye)) is None
    assert kind_of(eye) is None
