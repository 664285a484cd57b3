"""Kernels that are made when needed: the same answers as stacks give, certified over all kernels.

Modules: `gram/streams`, `mkl/features/stream_descent`, `mkl/features/ridge_paths`, `mkl/features/block_descent`.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import kernelweave as kw
from journeys import in_few_iterations, verdicts
from kernelweave._checks import InputError, NotPSDError
from kernelweave.gram import streams as streams_module
from kernelweave.gram.streams import series
from kernelweave.mkl.features import stream_descent

GAMMAS = [0.3, 2.0]


def table(n=50, n_columns=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns))
    y = np.sin(2 * X[:, 3]) + X[:, 17] ** 2 + 0.3 * rng.normal(size=n)
    return X, y - y.mean()


def gaussian_gram(X, gammas=GAMMAS):
    square = np.square(X[:, None, :] - X[None, :, :])
    return np.exp(-square[..., None] * np.asarray(gammas)).reshape(len(X), len(X), -1)


def feature_blocks(n=40, count=30, seed=0):
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(n, 1 + m % 4)) * (1 + m % 3) for m in range(count)]
    y = blocks[2][:, 0] - blocks[11][:, 1] + 0.3 * rng.normal(size=n)
    return blocks, y, np.stack([B @ B.T for B in blocks], axis=-1)


def gap_of(gram, y, result, *, scale=1.0, sample_weight=1.0):
    """Objective and gap of weights and dual coefficients by their definition."""
    K = gram * scale
    c = result.dual_coef
    forms = np.einsum("i,ijm,j->m", c, K, c)
    f = K @ result.weights @ c
    r = y - f - result.alpha * c / sample_weight
    primal = 0.5 * np.sum(sample_weight * (y - f) ** 2) + 0.5 * result.alpha * result.weights @ forms
    gap = 0.5 * np.sum(sample_weight * r**2) + 0.5 * result.alpha * (forms.max() - result.weights @ forms)
    return primal, gap


def check(gram, y, result, tol, **options):
    primal, gap = gap_of(gram, y, result, **options)
    assert_allclose(result.primal, primal, rtol=1e-9)
    assert gap <= result.gap * (1 + 1e-9) + 1e-13 * primal
    assert result.rel_gap <= tol
    assert result.status is kw.solvers.Status.CONVERGED
    assert not result.feature_coef.size


# ---- Gaussian kernels as series -------------------------------------------------------------------


@pytest.mark.parametrize("span", [0.0, 1e-3, 1.0, 7.0, 200.0])
@pytest.mark.parametrize("gamma", [1e-3, 0.5, 30.0])
def test_a_series_is_the_kernel_to_its_error(span, gamma):
    rng = np.random.default_rng(0)
    x = np.r_[0.0, span, span * rng.uniform(size=40)][:, None] + 5.0
    stream = kw.KernelStream.gaussians(x, gamma)
    F = next(stream.factors(np.array([0])))
    assert len(F) == stream.widths[0]
    error = np.abs(F.T @ F - np.exp(-gamma * (x - x.T) ** 2)).max()
    assert error <= stream.errors[0] <= 2e-10
    if len(F) < 100:
        assert stream.errors[0] <= 1e-12 + 1e-13


@pytest.mark.parametrize("wanted", [1e-2, 1e-6])
def test_the_bound_of_the_error_is_not_far_from_the_error(monkeypatch, wanted):
    monkeypatch.setattr(streams_module, "ERROR", wanted)
    x = np.linspace(-3.0, 3.0, 200)[:, None]
    stream = kw.KernelStream.gaussians(x, 1.0)
    F = next(stream.factors(np.array([0])))
    error = np.abs(F.T @ F - np.exp(-((x - x.T) ** 2))).max()
    assert 0.01 * wanted < error <= stream.errors[0] <= wanted


def test_columns_of_two_values_need_few_waves():
    counts = series(np.array([1.0, 7.0]), np.array([0.5, 0.5]))[1]
    assert counts[0] < counts[1] < 20


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("piece", [60, 2**20])
def test_forms_of_every_form_of_a_table(monkeypatch, tmp_path, order, dtype, piece):
    monkeypatch.setattr("kernelweave.gram.streams.PIECE", piece)
    X = np.asarray(table()[0], dtype=dtype, order=order)
    held = np.memmap(tmp_path / "X", dtype=dtype, mode="w+", shape=X.shape, order=order)
    held[:] = X
    C = np.random.default_rng(1).normal(size=(5, 50))
    want = np.einsum("vi,ijm,vj->vm", C, gaussian_gram(X.astype(np.float64)), C)
    for given in (X, held):
        stream = kw.KernelStream.gaussians(given, GAMMAS)
        assert_allclose(stream.looks(C)[0], want, atol=1e-9)
        some = np.array([0, 1, 5, 40, 77])
        forms, traces = stream.looks(C, some, np.full(50, 2.0))
        assert_allclose(forms, want[:, some], atol=1e-9)
        assert_allclose(traces, 100.0)


# ---- paths and solutions --------------------------------------------------------------------------


def streams_of_gaussians():
    X, y = table()
    gram = gaussian_gram(X)
    n_kernels = gram.shape[2]
    return {
        "gaussians": (kw.KernelStream.gaussians(X, GAMMAS), gram, y),
        "matrices": (kw.KernelStream(lambda m: gram[..., m], n_kernels, kind="matrices"), gram, y),
        "sequence": (kw.KernelStream(list(np.moveaxis(gram, -1, 0)), kind="matrices"), gram, y),
    }


def streams_of_features():
    blocks, y, gram = feature_blocks()
    return {
        "features": (kw.KernelStream(lambda m: blocks[m], 30), gram, y),
        "sparse": (kw.KernelStream(lambda m: sparse.csr_array(blocks[m]), 30), gram, y),
    }


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
@pytest.mark.parametrize("kind", [*streams_of_gaussians(), *streams_of_features()])
def test_a_path_is_that_of_the_stack(kind, tol):
    stream, gram, y = {**streams_of_gaussians(), **streams_of_features()}[kind]
    alphas = np.geomspace(20.0, 0.05, 9)
    path = kw.rls2_path(stream, y, alphas, tol=tol)
    dense = kw.rls2_path(gram, y, alphas, tol=tol)
    assert (np.abs(path.primal - dense.primal) <= path.gap + dense.gap).all()
    for one in path.solutions:
        check(gram, y, one, tol)
        assert one.verify(kw.problems.rls2_problem(gram, y)).status is kw.solvers.Status.CONVERGED
    assert_allclose(path.df, dense.df, rtol=0.05 if tol > 1e-4 else 1e-3)


def test_single_precision_is_computed_in_double():
    blocks, y, _ = feature_blocks()
    single = [B.astype(np.float32) for B in blocks]
    gram = np.stack([B.astype(np.float64) @ B.T.astype(np.float64) for B in single], axis=-1)
    check(gram, y, kw.solve_rls2(kw.KernelStream(single), y, 2.0, tol=1e-9), 1e-9)
    matrices = gram.astype(np.float32)
    stream = kw.KernelStream(lambda m: matrices[..., m], 30, kind="matrices")
    check(matrices.astype(np.float64), y, kw.solve_rls2(stream, y, 2.0, tol=1e-5), 1e-5)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("relax", [None, 0.1])
def test_several_outputs_weights_of_rows_and_factors(shared, relax):
    X, y = table()
    Y = np.c_[y, np.cos(X[:, 5]) - np.cos(X[:, 5]).mean()]
    weights = np.where(np.arange(50) % 5 == 0, 0.0, 1.0 + np.arange(50) / 20)
    scale = np.linspace(0.5, 2.0, 80)
    options = {
        "sample_weight": weights,
        "scale": scale,
        "shared_weights": shared,
        "relax": relax,
        "tol": 1e-9,
    }
    stream = kw.KernelStream.gaussians(X, GAMMAS)
    got = kw.solve_rls2(stream, Y, 1.0, **options)
    want = kw.solve_rls2(gaussian_gram(X), Y, 1.0, **options)
    assert abs(got.primal - want.primal) <= got.gap + want.gap
    assert got.weights.shape == want.weights.shape
    assert not got.dual_coef[weights == 0].any()
    assert_allclose(got.weights, want.weights, atol=1e-3)
    assert_allclose(got.dual_coef, want.dual_coef, atol=1e-3 * np.abs(want.dual_coef).max())
    if relax is None:
        problem = kw.problems.rls2_problem(stream, Y, sample_weight=weights, scale=scale)
        assert got.verify(problem).status is kw.solvers.Status.CONVERGED
        moved = replace(got, weights=0.9 * got.weights + 0.1 / 80)
        assert moved.verify(problem).status is kw.solvers.Status.REFUTED
        assert (
            replace(got, dual_coef=1.01 * got.dual_coef).verify(problem).status is kw.solvers.Status.REFUTED
        )
    else:
        assert_allclose(got.ridge_primal, want.ridge_primal, rtol=1e-3)


def test_a_path_with_a_ridge_of_its_own():
    X, y = table()
    alphas = [5.0, 0.5]
    got = kw.rls2_path(kw.KernelStream.gaussians(X, GAMMAS), y, alphas, tol=1e-9, relax=[0.1, 1.0])
    want = kw.rls2_path(gaussian_gram(X), y, alphas, tol=1e-9, relax=[0.1, 1.0])
    assert_allclose(got.dual_coef, want.dual_coef, atol=1e-3 * np.abs(want.dual_coef).max())


def test_rough_series_are_paid_for_in_the_gap(monkeypatch):
    X, y = table()
    monkeypatch.setattr(streams_module, "ERROR", 1e-4)
    stream = kw.KernelStream.gaussians(X, GAMMAS)
    result = kw.solve_rls2(stream, y, 0.5, tol=1e-6)
    primal, gap = gap_of(gaussian_gram(X), y, result)
    assert result.status is kw.solvers.Status.ROUNDING
    assert gap <= result.gap
    assert abs(primal - result.primal) <= result.gap
    # the kernels of the series are solved to 1e-6
    assert result.own_gap > 0
    assert 1e-6 < result.rel_gap < 1e-1


def test_factors_of_kernels_are_those_of_the_stack(rng):
    """Of features, of matrices, a kernel of zeros and one of low rank among them, and of some rows."""
    blocks, _, gram = feature_blocks()
    blocks[3], gram[:, :, 3] = np.zeros((40, 1)), 0.0
    rows, some = np.array([7, 0, 31, 12]), np.array([3, 5, 0])
    for stream in (
        kw.KernelStream(blocks),
        kw.KernelStream([B @ B.T for B in blocks], kind="matrices"),
    ):
        for own, kept in ((stream, np.arange(40)), (stream.restrict(rows), rows)):
            found = [F.T @ F for F in own.factors(some)]
            for K, m in zip(found, some, strict=True):
                assert_allclose(K, gram[np.ix_(kept, kept)][:, :, m], atol=1e-10)


def test_units_do_not_matter():
    blocks, y, _ = feature_blocks()
    reference = kw.solve_rls2(kw.KernelStream(blocks), y, 2.0, tol=1e-10)
    for size in (1e-30, 1e30):
        a = kw.solve_rls2(kw.KernelStream(lambda m, s=size: blocks[m] * s, 30), y, 2.0 * size**2, tol=1e-10)
        assert_allclose(a.primal, reference.primal, rtol=1e-9)
        assert_allclose(a.weights, reference.weights, atol=1e-4)
        b = kw.solve_rls2(kw.KernelStream(blocks), y * size, 2.0, tol=1e-10)
        assert_allclose(b.primal, reference.primal * size**2, rtol=1e-9)


@pytest.mark.parametrize("kind", ["infinite alpha", "targets of zero", "kernels of zero"])
def test_nothing_to_learn(kind):
    X, y = table()
    stream = kw.KernelStream.gaussians(X, GAMMAS)
    if kind == "kernels of zero":
        stream = kw.KernelStream(lambda m: np.zeros((50, 2)), 7)
    result = kw.solve_rls2(
        stream, 0 * y if kind == "targets of zero" else y, np.inf if "alpha" in kind else 1.0
    )
    assert result.status is kw.solvers.Status.CONVERGED
    assert result.weights.sum() == 1.0
    if kind == "kernels of zero":
        assert_allclose(result.dual_coef, y)
        assert result.primal == pytest.approx(0.5 * y @ y)
    else:
        assert not result.dual_coef.any()


@pytest.mark.parametrize("shape", [(6, 20), (30, 8)])
def test_working_blocks_leave_out_the_smallest_directions(shape, rng):
    """As many as have squares that sum to at most the cut, and never all."""
    rows = rng.normal(size=shape) * np.geomspace(1.0, 1e-2, shape[1])
    squares = np.sort(np.square(np.linalg.svd(rows, compute_uv=False)))
    for k in (0, 1, 3):
        cut = squares[:k].sum() * (1.0 + 1e-9)
        found = stream_descent._turned(rows, cut)
        assert found.flags.c_contiguous
        assert_allclose(found @ found.T, np.diag(squares[k:]), atol=1e-10 * squares[-1])
        left = rows.T @ rows - found.T @ found
        assert_allclose(np.linalg.eigvalsh(left)[-1], squares[k - 1] if k else 0.0, atol=1e-10 * squares[-1])
    assert len(stream_descent._turned(rows, 2.0 * squares.sum())) == 1
    assert stream_descent._turned(0.0 * rows, 0.0).tolist() == [[0.0] * shape[1]]
    # a share of the smallest alpha, in units of the solver
    units = SimpleNamespace(in_units=lambda alpha: 2.0 * alpha)
    descent = SimpleNamespace(tol=1e-3, problem=units, work=SimpleNamespace(cut=0.0))
    stream_descent.StreamDescent.prepare(descent, [np.inf, 3.0, 0.5, 7.0])
    assert_allclose(descent.work.cut, stream_descent.LEFT_OUT * 1e-3 * 2.0 * 0.5, rtol=1e-12)


def test_dual_coefficients_of_working_blocks_and_their_gap(rng):
    """``a c`` of a ridge on the weighted kernels, and the gap that is defined at the top of the module."""
    rows, Y, a = rng.normal(size=(5, 20)), rng.normal(size=(1, 20)), 0.3
    offsets, norms = np.array([0, 2, 5]), np.array([1.0, 3.0])
    K = np.stack([rows[:2].T @ rows[:2], rows[2:].T @ rows[2:]])

    def forms(P):
        return np.add.reduceat(np.square(P).sum(axis=0), offsets[:-1])

    work = SimpleNamespace(rows=rows, offsets=offsets, norms=norms, R=Y, quadratic_forms=forms)
    descent = SimpleNamespace(work=work, problem=SimpleNamespace(Y=Y))
    theta, left = stream_descent.StreamDescent._dual(descent, a)
    total = 0.25 * K[0] + 0.75 * K[1]
    c = np.linalg.solve(total + a * np.eye(20), Y[0])
    assert_allclose(theta[0], a * c, rtol=1e-10)
    primal = 0.5 * np.square(Y[0] - total @ c).sum() + 0.5 * a * c @ total @ c
    gap = 0.5 * a * (max(c @ K[0] @ c, c @ K[1] @ c) - c @ total @ c)
    assert left == pytest.approx(gap / primal, rel=1e-9)
    work.norms = np.zeros(2)
    assert stream_descent.StreamDescent._dual(descent, a) == (Y, 0.0)


@pytest.mark.parametrize(
    ("y", "low", "high"),
    [
        ([2.0, 1.0], 1.0, 1.03),
        ([1.0, 4.0], 1 / 3, 0.345),
        ([2.0, 0.0], 1.0, 1.0),
        ([1.0 + 1e-12, 1.0], 1e3, 1e3),
    ],
)
def test_the_smallest_alpha_of_one_kernel_by_hand(y, low, high):
    """Of two orthogonal columns the larger target y is left with ``y alpha / (1 + alpha)``, at least the smaller one.

    Where one is left at all alphas, or never, the answer is the unit, or the end of the range.
    """
    Y = np.array([y])
    problem = SimpleNamespace(
        Y=Y,
        forms_of_targets=lambda: np.square(Y[0]),
        blocks=lambda kernels: iter(np.eye(2)[kernels][:, None]),
        in_units=lambda alpha: alpha,
        forms=lambda residuals: np.array([np.square(one[0]) for one in residuals]),
    )
    assert low <= stream_descent.single_block_alpha_of_stream(problem, 1.0) * (1 + 1e-12)
    assert stream_descent.single_block_alpha_of_stream(problem, 1.0) <= high * (1 + 1e-12)


def test_a_range_begins_where_one_kernel_is_left():
    X, y = table()
    path = kw.rls2_path(kw.KernelStream.gaussians(X, GAMMAS), y, n_alphas=5, tol=1e-4)
    dense = kw.rls2_path(gaussian_gram(X), y, n_alphas=5, tol=1e-4)
    assert_allclose(path.alphas, dense.alphas, rtol=0.06)
    assert np.count_nonzero(path.weights[0]) == 1


# ---- passes ---------------------------------------------------------------------------------------


def test_passes_are_few_and_progress_is_told():
    X, y = table()
    seen = []
    stream = kw.KernelStream.gaussians(X, GAMMAS, progress=lambda *told: seen.append(told))
    kw.rls2_path(stream, y, np.geomspace(20.0, 0.5, 30), tol=1e-3)
    # all alphas together take fewer passes than they are
    assert stream.passes < 15
    assert seen[0] == (80, 80)
    assert all(0 < done <= total <= 80 for done, total in seen)


def test_only_kernels_with_weights_are_kept():
    blocks, y, _ = feature_blocks(count=200)
    alive, most = [0], [0]

    class Block(np.ndarray):
        def __del__(self):
            alive[0] -= 1

    def make(m):
        alive[0] += 1
        most[0] = max(most[0], alive[0])
        return blocks[m].copy().view(Block)

    kw.rls2_path(kw.KernelStream(make, 200), y, np.geomspace(20.0, 1.0, 5), tol=1e-3)
    assert most[0] <= 10


class Interrupted:
    """Kernels that are made `calls` times before Ctrl-C."""

    def __init__(self, blocks, calls):
        self.blocks, self.left = blocks, calls

    def __call__(self, m):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.blocks[m]


def test_an_interrupted_path_keeps_what_is_done():
    blocks, y, _ = feature_blocks()
    alphas = np.geomspace(20.0, 0.5, 12)
    whole = kw.rls2_path(kw.KernelStream(blocks), y, alphas, tol=1e-6)
    path = kw.rls2_path(kw.KernelStream(Interrupted(blocks, 150), 30), y, alphas, tol=1e-6)
    assert 0 < len(path) < 12
    assert path.solutions[-1].status is kw.solvers.Status.INTERRUPTED
    for one, other in zip(path.solutions, whole.solutions, strict=False):
        assert_allclose(one.primal, other.primal, rtol=2e-6)
    with pytest.raises(KeyboardInterrupt):
        kw.rls2_path(kw.KernelStream(Interrupted(blocks, 40), 30), y, alphas, tol=1e-6)


def test_an_interrupted_solver_returns_the_best_so_far():
    blocks, y, gram = feature_blocks()
    result = kw.solve_rls2(kw.KernelStream(Interrupted(blocks, 120), 30), y, 0.5, tol=1e-9)
    assert result.status is kw.solvers.Status.INTERRUPTED
    primal, gap = gap_of(gram, y, result)
    assert_allclose(result.primal, primal, rtol=1e-10)
    assert gap <= result.gap * (1 + 1e-9)
    assert result.rel_gap > 1e-9
    with pytest.raises(KeyboardInterrupt):
        kw.solve_rls2(kw.KernelStream(Interrupted(blocks, 20), 30), y, 0.5)


# ---- bad input ------------------------------------------------------------------------------------


def test_arguments_that_make_no_stream():
    X = np.eye(4)
    for give, words in (
        (lambda: kw.KernelStream(lambda m: X), "n_kernels"),
        (lambda: kw.KernelStream(3.0, 4), "function"),
        (lambda: kw.KernelStream([X, X], 3), "length"),
        (lambda: kw.KernelStream([]), "length"),
        (lambda: kw.KernelStream(lambda m: X, 2, kind="gram"), "kind"),
        (lambda: kw.KernelStream(lambda m: X[:3], 2, kind="matrices"), "matrices"),
        (lambda: kw.KernelStream(lambda m: "text", 2), "real numbers"),
        (lambda: kw.KernelStream.gaussians(X, gamma=-1.0), "gamma"),
        (lambda: kw.KernelStream.gaussians(X, gamma=[]), "gamma"),
        (lambda: kw.KernelStream.gaussians(X[0]), "shape"),
        (lambda: kw.KernelStream.gaussians(X[:0]), "at least one of each"),
        (lambda: kw.KernelStream.gaussians(X[:, :0]), "at least one of each"),
        (lambda: kw.KernelStream.gaussians(np.where(X > 0, np.nan, X)), "finite"),
        (lambda: kw.KernelStream.gaussians(X * 1e7), "Standardise"),
        (lambda: kw.KernelStream.gaussians(X, progress=3), "progress"),
        (lambda: kw.solve_svm_mkl(kw.KernelStream([X]), [1, -1, 1, -1], 1.0), "rls2_path"),
        (
            lambda: kw.solve_rls2(kw.KernelStream([X]), np.arange(4.0), 1.0, solver="alternating"),
            "newton",
        ),
        (lambda: kw.solve_rls2(kw.KernelStream([X]), np.arange(5.0), 1.0), "n_samples=4"),
    ):
        with pytest.raises(InputError, match=words):
            give()


def test_kernels_that_are_wrong_are_named():
    rng = np.random.default_rng(0)
    blocks, y, _ = feature_blocks()
    for wrong, words in (
        (np.full((40, 2), np.nan), "kernel 7"),
        (rng.normal(size=(39, 2)), "kernel 7"),
        (np.full((40, 1), 1e152), "traces"),
    ):
        given = [wrong if m == 7 else B for m, B in enumerate(blocks)]
        with pytest.raises(InputError, match=words):
            kw.solve_rls2(kw.KernelStream(given), y, 1.0)
    matrices = [B @ B.T for B in blocks]
    indefinite = [*matrices[:3], np.diag(np.sign(y)), *matrices[4:]]
    with pytest.raises(NotPSDError, match="Kernel 3"):
        kw.solve_rls2(kw.KernelStream(indefinite, kind="matrices"), np.where(y < 0, y, 0.0), 1.0)
    skew = rng.normal(size=(40, 40))
    bad = [*matrices[:2], 100 * np.eye(40) + skew - skew.T]
    with pytest.raises(InputError, match=r"Kernel 2 .* symmetric"):
        kw.solve_rls2(kw.KernelStream(bad, kind="matrices"), y, 1.0)


def test_a_stream_says_what_it_is():
    assert repr(kw.KernelStream.gaussians(np.eye(3), [1.0, 2.0])) == "KernelStream(3 samples, 6 kernels)"


# ---- all that a stream gives -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["features", "sparse", "matrices", "gaussians"])
def test_a_stream_gives_what_its_kernels_give(kind, monkeypatch):
    """Quadratic forms, traces, factors and products of all or some kernels, on all rows or some, and how far it is."""
    monkeypatch.setattr(streams_module, "TOGETHER", 4)
    monkeypatch.setattr(streams_module, "PIECE", 70)
    rng = np.random.default_rng(0)
    blocks, _, gram = feature_blocks(n=20)
    blocks, gram = blocks[:10], gram[:, :, :10]
    told = []

    def progress(done, count):
        told.append((done, count))

    if kind == "gaussians":
        X = table(20)[0][:, :5]
        gram = gaussian_gram(X)
        stream = kw.KernelStream.gaussians(X, GAMMAS, progress=progress)
    elif kind == "matrices":
        stream = kw.KernelStream(list(np.moveaxis(gram, -1, 0)), kind="matrices", progress=progress)
    else:
        given = [sparse.csr_array(B) for B in blocks] if kind == "sparse" else blocks
        stream = kw.KernelStream(given.__getitem__, 10, progress=progress)
    assert (stream.n_samples, stream.n_kernels, stream.passes) == (20, 10, 0.0)
    assert stream.matrices == (kind == "matrices")
    assert stream.errors.max() <= 2e-12
    C, weights, some = rng.normal(size=(3, 20)), rng.uniform(0.5, 2.0, 20), np.array([1, 2, 7])
    close = {"rtol": 1e-9, "atol": 1e-9}
    rows = np.array([4, 0, 11, 19, 7])
    part = stream.restrict(rows), gram[np.ix_(rows, rows)], C[:, rows], weights[rows]
    for own, K, V, w in ((stream, gram, C, weights), part):
        assert own.n_samples == len(K)
        told.clear()
        wanted = np.einsum("vi,ijm,vj->vm", V, K, V)
        forms, traces = own.looks(V, weights=w)
        assert_allclose(forms, wanted, **close)
        assert_allclose(traces, np.einsum("iim,i->m", K, w), **close)
        assert own.passes == pytest.approx(1.0)
        assert told[-1] == (10, 10)
        done = [one for one, _ in told]
        assert done == sorted(set(done))
        assert len(done) == {"matrices": 10, "gaussians": len(done)}.get(kind, 3)
        forms, traces = own.looks(V, some)
        assert_allclose(forms, wanted[:, some], **close)
        assert not traces.any() or kind == "gaussians"
        assert own.passes == pytest.approx(1.3)
        assert told[-1] == (3, 3)
        for m, F, P in zip(some, own.factors(some), own.products(V, some), strict=True):
            assert_allclose(F.T @ F, K[:, :, m], **close)
            assert_allclose(P, V @ K[:, :, m], **close)
            assert F.flags.c_contiguous
            assert len(F) <= own.widths[m]
    again = stream.restrict(rows).restrict(np.array([3, 1]))
    last = [19, 0]
    wanted = np.einsum("vi,ijm,vj->vm", C[:, last], gram[np.ix_(last, last)], C[:, last])
    assert_allclose(again.looks(C[:, last])[0], wanted, **close)
    assert stream.passes == pytest.approx(1.3)
    if kind in ("features", "sparse"):
        assert stream.widths.tolist() == [B.shape[1] for B in blocks]
    if kind == "matrices":
        assert stream.restrict(rows).widths.tolist() == [5] * 10


def test_series_are_what_they_were(recorded):
    """Periods, numbers of waves and errors; the last span is too wide."""
    spans, gammas = np.array([0.0, 0.5, 3.0, 20.0, 300.0]), np.array([1.0, 0.2, 4.0, 0.01, 2.0])
    recorded("series", series(spans, gammas))
    with pytest.raises(InputError) as error:
        series(np.array([1.0, 1e5]), np.array([1.0, 1.0]))
    recorded("too many", str(error.value))


def test_what_makes_no_kernel_is_told(recorded):
    """The words for every mistake."""
    rng = np.random.default_rng(0)
    X, said = np.eye(4), []
    clip = np.diag([1.0, 1.0, 1.0, -1e-3])
    skew = X + 1e-3 * np.triu(np.ones((4, 4)), 1)
    for make in (
        lambda: kw.KernelStream(lambda m: X),
        lambda: kw.KernelStream([X, X], 3),
        lambda: kw.KernelStream(3.0, 4),
        lambda: kw.KernelStream([X[:3]], kind="matrices"),
        lambda: kw.KernelStream([X.astype(complex)]),
        lambda: kw.KernelStream([X[:, :0]]),
        lambda: kw.KernelStream([X, X[:3]]).looks(X),
        lambda: kw.KernelStream([X, X * np.nan]).looks(X),
        lambda: kw.KernelStream([X, 1e130 * X]).looks(X, weights=np.ones(4)),
        lambda: kw.KernelStream([X, clip], kind="matrices").looks(X),
        lambda: list(kw.KernelStream([X, skew], kind="matrices").factors(np.array([1]))),
        lambda: kw.KernelStream.gaussians(X[:0]),
        lambda: kw.KernelStream.gaussians(X * np.inf),
    ):
        with pytest.raises((InputError, NotPSDError)) as error, np.errstate(all="ignore"):
            make()
        said.append(str(error.value))
    recorded("messages", said)
    # what is negative by rounding is zero
    near = np.diag([1.0, 1.0, 1.0, -1e-9])
    assert kw.KernelStream([near], kind="matrices").looks(np.array([[0.0, 0.0, 0.0, 1.0]]))[0] == 0.0
    zero = list(kw.KernelStream([0.0 * X], kind="matrices").factors(np.array([0])))
    assert [F.tolist() for F in zero] == [[[0.0] * 4]]
    Z = rng.normal(size=(6, 2))
    [F] = kw.KernelStream([Z @ Z.T], kind="matrices").factors(np.array([0]))
    assert F.shape == (2, 6)


# ---- the way of the solver ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*streams_of_gaussians(), *streams_of_features()])
def test_the_way_along_a_path(kind, recorded):
    stream, gram, y = (streams_of_gaussians() | streams_of_features())[kind]
    n = len(y)
    known = {
        "sample_weight": np.where(np.arange(n) % 7 == 3, 0.0, 0.5 + np.arange(n) / n),
        "scale": np.linspace(0.4, 2.0, gram.shape[2])[::-1],
    }
    seen = []

    def see(place, one):
        seen.append((place, one.primal))

    Y = np.column_stack([y, np.abs(y)])
    path = kw.rls2_path(stream, Y, n_alphas=6, tol=1e-7, callback=see, **known)
    assert seen == list(enumerate(path.primal.tolist()))
    in_few_iterations(path, 600)
    recorded("alphas", path.alphas, rtol=1e-3)
    recorded("objectives", path.primal, rtol=1e-5)
    recorded("df", [path.df[1:4]], rtol=1e-2)
    told = []
    one = kw.solve_rls2(stream, y, 0.1, callback=lambda *now: told.append(now), max_iter=30, **known)
    assert told[-1][0] <= one.n_iter <= 31
    problem = kw.problems.rls2_problem(stream, y, **known)
    checked = problem.certify(one)
    assert checked.primal == pytest.approx(one.primal, rel=1e-9)
    assert set(verdicts(kw.problems.rls2_problem(stream, Y, **known), path)) == {"CONVERGED"}
