"""Features in blocks: the same answers as kernels give, certified, in every form and through every option.

Modules: `gram/features`, `mkl/features/block_descent`, `mkl/features/problem`, `mkl/features/ridge_paths`,
`mkl/regularization`.
"""

import itertools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import kernelweave as kw
from journeys import in_few_iterations, record_solved
from kernelweave._checks import InputError
from kernelweave.gram.features import as_groups
from kernelweave.mkl.features import block_descent as path_module
from kernelweave.mkl.features.problem import make_feature_problem
from kernelweave.mkl.path import make_alphas
from kernelweave.mkl.ridge_problem import make_problem
from oracles import rls2_by_conic


def make(n=40, widths=(3, 1, 5, 2, 1, 4), seed=0, n_outputs=None):
    """Correlated features in blocks, and targets of two blocks."""
    rng = np.random.default_rng(seed)
    p = sum(widths)
    Z = rng.normal(size=(n, p)) @ (np.eye(p) + 0.3 * rng.normal(size=(p, p)))
    groups = np.r_[0, np.cumsum(widths)]
    T = 1 if n_outputs is None else n_outputs
    w = np.zeros((p, T))
    w[groups[0] : groups[1]], w[groups[2] : groups[3]] = 1.0, -0.5
    w *= rng.normal(size=w.shape) + 1.0
    y = Z @ w + 0.5 * rng.normal(size=(n, T))
    return Z, groups, y[:, 0] if n_outputs is None else y


def gram_of(Z, groups):
    blocks = [Z[:, a:b] for a, b in itertools.pairwise(groups)]
    return np.stack([B @ B.T for B in blocks], axis=-1)


def gap_of(Z, groups, y, result, *, scale=1.0, sample_weight=1.0):
    """The gap of a solution by its definition, from coefficients and dual coefficients."""
    w, c = (np.reshape(a, (len(a), -1)) for a in (result.feature_coef, result.dual_coef))
    Y, alpha = y.reshape(len(y), -1), result.alpha
    weights, s = np.broadcast_to(sample_weight, len(y)), np.broadcast_to(scale, len(groups) - 1)
    kept = weights > 0
    norms = np.sqrt(np.add.reduceat(np.square(w).sum(axis=1), groups[:-1]) / s)
    primal = 0.5 * np.sum(weights[:, None] * np.square(Y - Z @ w)) + 0.5 * alpha * norms.sum() ** 2
    q = s * np.add.reduceat(np.square(Z.T @ c).sum(axis=1), groups[:-1])
    noise = np.sum(np.square(c[kept]) / weights[kept, None])
    return primal, primal - (alpha * np.vdot(Y, c) - 0.5 * alpha**2 * noise - 0.5 * alpha * q.max())


FORMS = {
    "rows": lambda Z: np.ascontiguousarray(Z),
    "columns": lambda Z: np.asfortranarray(Z),
    "strided": lambda Z: np.repeat(Z, 2, axis=1)[:, ::2],
    "reversed": lambda Z: np.ascontiguousarray(Z[::-1, ::-1])[::-1, ::-1],
    "csr": lambda Z: sparse.csr_matrix(Z),
    "coo": lambda Z: sparse.coo_array(Z),
}


@pytest.mark.parametrize("many_rows", [False, True], ids=["rows", "products"])
@pytest.mark.parametrize("n", [12, 60])
@pytest.mark.parametrize("alpha", [1e4, 10.0, 0.3, 1e-3])
def test_the_value_is_that_of_the_kernels(monkeypatch, many_rows, n, alpha):
    monkeypatch.setattr(path_module, "MANY_ROWS", 1 if many_rows else 10**9)
    Z, groups, y = make(n)
    result = kw.solve_rls2(kw.FeatureStack(Z, groups), y, alpha, tol=1e-9)
    dense = kw.solve_rls2(gram_of(Z, groups), y, alpha, tol=1e-9)
    assert result.status is kw.solvers.Status.CONVERGED
    assert result.rel_gap <= 1e-9
    assert abs(result.primal - dense.primal) <= result.gap + dense.gap
    assert_allclose(result.weights.sum(), 1.0, rtol=1e-12)
    primal, gap = gap_of(Z, groups, y, result)
    assert_allclose(primal, result.primal, rtol=1e-12)
    assert -1e-14 * primal <= gap <= result.gap
    # both say the same of all rows, as far as the gap tells
    size = np.sqrt(2 * result.gap + 2 * dense.gap)
    fitted = gram_of(Z, groups) @ dense.weights @ dense.dual_coef
    assert np.linalg.norm(Z @ result.feature_coef - fitted) <= 2 * size


@pytest.mark.parametrize(("alpha", "most"), [(10.0, 31), (0.01, 16)])
@pytest.mark.parametrize("n", [40, 100])
def test_ordinary_problems_take_few_sweeps(n, alpha, most):
    """No more than the most on three seeds, and a third as many again."""
    Z, groups, y = make(n)
    found = kw.solve_rls2(kw.FeatureStack(Z, groups), y, alpha, tol=1e-8)
    assert found.status is kw.solvers.Status.CONVERGED
    assert found.n_iter <= 4 * most // 3


@pytest.mark.parametrize("alpha", [30.0, 1.0, 0.01])
def test_the_value_is_the_conic_optimum(alpha):
    Z, groups, y = make(25)
    scale = np.random.default_rng(5).uniform(0.2, 3.0, size=len(groups) - 1)
    weights = np.random.default_rng(6).uniform(0.5, 2.0, size=25)
    result = kw.solve_rls2(kw.FeatureStack(Z, groups), y, alpha, tol=1e-9, scale=scale, sample_weight=weights)
    value = rls2_by_conic(gram_of(Z, groups), y, alpha, scale=scale, sample_weight=weights)
    # the conic value bounds the optimum from below; it is short of it by up to 3.3e-8 here
    assert value <= result.primal * (1 + 1e-12)
    assert result.dual <= value * (1 + 1e-7)
    primal, gap = gap_of(Z, groups, y, result, scale=scale, sample_weight=weights)
    assert_allclose(primal, result.primal, rtol=1e-12)
    assert gap <= result.gap


@pytest.mark.parametrize("many_rows", [False, True], ids=["rows", "products"])
def test_the_conditions_of_the_group_lasso_hold(monkeypatch, many_rows):
    monkeypatch.setattr(path_module, "MANY_ROWS", 1 if many_rows else 10**9)
    Z, groups, y = make(50)
    result = kw.solve_rls2(kw.FeatureStack(Z, groups), y, 2.0, tol=1e-13, max_iter=100_000)
    w, gradient = result.feature_coef, Z.T @ (y - Z @ result.feature_coef)
    norms = np.sqrt(np.add.reduceat(w * w, groups[:-1]))
    level = 2.0 * norms.sum()
    for m, norm in enumerate(norms):
        own = slice(groups[m], groups[m + 1])
        if norm > 0:
            assert_allclose(gradient[own], level * w[own] / norm, atol=1e-5 * level)
        else:
            assert np.linalg.norm(gradient[own]) <= level * (1 + 1e-6)
    assert 0 < np.count_nonzero(norms) < len(norms)
    assert_allclose(result.weights, norms / norms.sum(), rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("many_rows", [False, True], ids=["rows", "products"])
def test_every_form_gives_the_same(monkeypatch, form, many_rows):
    monkeypatch.setattr(path_module, "MANY_ROWS", 1 if many_rows else 10**9)
    Z, groups, y = make(30)
    Z = np.where(np.abs(Z) > 0.8, Z, 0.0)
    weights = np.linspace(0.5, 2.0, 30)
    want = kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1.0, sample_weight=weights)
    got = kw.solve_rls2(kw.FeatureStack(FORMS[form](Z), groups), y, 1.0, sample_weight=weights)
    assert_allclose(got.feature_coef, want.feature_coef, rtol=1e-9, atol=1e-12)
    assert_allclose(got.weights, want.weights, rtol=1e-9, atol=1e-12)
    assert_allclose(got.dual_coef, want.dual_coef, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("piece", [7, 2**20])
def test_single_precision_and_files_lose_no_digits(tmp_path, monkeypatch, order, piece):
    monkeypatch.setattr("kernelweave.gram.features.PIECE", piece)
    Z, groups, y = make(30)
    single = np.asarray(Z, dtype=np.float32, order=order)
    held = np.memmap(tmp_path / "Z", dtype=np.float32, mode="w+", shape=single.shape, order=order)
    held[:] = single
    want = kw.solve_rls2(kw.FeatureStack(single.astype(np.float64), groups), y, 1.0)
    for given in (single, held, single[::1, ::1]):
        got = kw.solve_rls2(kw.FeatureStack(given, groups), y, 1.0)
        assert got.feature_coef.dtype == np.float64
        assert_allclose(got.feature_coef, want.feature_coef, rtol=1e-9, atol=1e-12)
        assert abs(got.primal - want.primal) <= got.gap + want.gap


def test_whole_numbers_and_lists_are_converted():
    Z = np.random.default_rng(0).integers(0, 5, size=(20, 4))
    y = Z @ [1.0, 0.0, -1.0, 0.0]
    a = kw.solve_rls2(kw.FeatureStack(Z), y, 1.0)
    b = kw.solve_rls2(kw.FeatureStack(Z.tolist()), y, 1.0)
    assert_allclose(a.feature_coef, b.feature_coef)
    assert a.weights.shape == (4,)


# ---- options --------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("relax", [None, 0.1])
@pytest.mark.parametrize("solver", ["newton", "alternating"])
@pytest.mark.parametrize("many_rows", [False, True], ids=["rows", "products"])
def test_several_outputs_and_rows_of_weight_zero(monkeypatch, shared, relax, solver, many_rows):
    monkeypatch.setattr(path_module, "MANY_ROWS", 1 if many_rows else 10**9)
    Z, groups, Y = make(35, n_outputs=3)
    weights = np.where(np.arange(35) % 5 == 0, 0.0, 1.0 + np.arange(35) / 20)
    scale = np.linspace(0.5, 2.0, len(groups) - 1)
    options = {
        "sample_weight": weights,
        "scale": scale,
        "shared_weights": shared,
        "relax": relax,
        "solver": solver,
        "tol": 1e-10,
        "delta": 1e-9,
    }
    got = kw.solve_rls2(kw.FeatureStack(Z, groups), Y, 3.0, **options)
    want = kw.solve_rls2(gram_of(Z, groups), Y, 3.0, **options)
    assert abs(got.primal - want.primal) <= got.gap + want.gap
    assert got.feature_coef.shape == (Z.shape[1], 3)
    assert got.dual_coef.shape == Y.shape
    assert got.weights.shape == want.weights.shape
    assert not got.dual_coef[weights == 0].any()
    assert_allclose(got.weights, want.weights, atol=2e-4)
    K = np.moveaxis(gram_of(Z, groups) * scale, -1, 0)
    d = np.broadcast_to(want.weights, (3, len(scale)))
    fitted = np.stack([np.tensordot(d[t], K, 1) @ want.dual_coef[:, t] for t in range(3)], axis=1)
    assert_allclose(Z @ got.feature_coef, fitted, atol=2e-3 * np.abs(fitted).max())
    if relax is not None:
        assert_allclose(got.ridge_primal, want.ridge_primal, rtol=1e-3)
        assert got.relax == 0.1


def test_one_column_of_targets_has_coefficients_in_a_column():
    Z, groups, y = make()
    column = kw.solve_rls2(kw.FeatureStack(Z, groups), y[:, None], 1.0)
    row = kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1.0)
    assert column.feature_coef.shape == (Z.shape[1], 1)
    assert column.dual_coef.shape == (40, 1)
    assert_allclose(column.feature_coef[:, 0], row.feature_coef)


def test_a_weight_equals_a_repetition():
    Z, groups, y = make(20)
    counts = np.arange(20) % 3
    again = np.repeat(np.arange(20), counts)
    a = kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1.0, sample_weight=counts, tol=1e-12)
    b = kw.solve_rls2(kw.FeatureStack(Z[again], groups), y[again], 1.0, tol=1e-12)
    assert_allclose(a.primal, b.primal, rtol=1e-11)
    assert_allclose(a.feature_coef, b.feature_coef, atol=1e-5)


def test_infinite_alpha_and_targets_of_zero_predict_nothing():
    Z, groups, y = make()
    for target, alpha in ((y, np.inf), (0 * y, 1.0)):
        got = kw.solve_rls2(kw.FeatureStack(Z, groups), target, alpha)
        want = kw.solve_rls2(gram_of(Z, groups), target, alpha)
        assert not got.feature_coef.any()
        assert not got.dual_coef.any()
        assert_allclose(got.weights, want.weights)
        assert got.status is kw.solvers.Status.CONVERGED
        assert got.primal == pytest.approx(want.primal)


def test_features_of_zero_predict_nothing():
    result = kw.solve_rls2(kw.FeatureStack(np.zeros((10, 4)), [0, 2, 4]), np.ones(10), 1.0)
    assert not result.feature_coef.any()
    assert result.status is kw.solvers.Status.CONVERGED
    assert result.primal == pytest.approx(5.0)
    assert result.weights.sum() == 1.0


def test_a_callback_sees_progress_and_can_stop():
    Z, groups, y = make()
    seen = []
    result = kw.solve_rls2(
        kw.FeatureStack(Z, groups), y, 1e-3, tol=1e-12, callback=lambda *a: seen.append(a) or True
    )
    assert result.status is kw.solvers.Status.INTERRUPTED
    assert len(seen) == 1
    assert result.n_iter == seen[0][0]
    assert result.rel_gap < 1


def test_too_few_sweeps_are_told():
    Z, groups, y = make()
    result = kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1e-2, tol=1e-12, max_iter=2)
    assert result.status is kw.solvers.Status.MAX_ITER
    assert gap_of(Z, groups, y, result)[1] <= result.gap


@pytest.mark.parametrize("shared", [True, False])
def test_a_solution_is_verified_and_changes_are_found(shared):
    Z, groups, Y = make(n_outputs=2)
    weights = np.where(np.arange(40) % 7 == 0, 0.0, 1.5)
    stack, options = kw.FeatureStack(Z, groups), {"sample_weight": weights, "scale": np.full(6, 0.3)}
    problem = kw.problems.rls2_problem(stack, Y, **options)
    result = kw.solve_rls2(stack, Y, 1.0, shared_weights=shared, **options)
    assert result.verify(problem).status is kw.solvers.Status.CONVERGED
    from dataclasses import replace

    for name in ("feature_coef", "dual_coef"):
        changed = replace(result, **{name: 1.01 * getattr(result, name)})
        assert changed.verify(problem).status is kw.solvers.Status.REFUTED
    moved = 0.9 * result.weights + 0.1 / 6
    assert replace(result, weights=moved).verify(problem).status is kw.solvers.Status.REFUTED
    infinite = kw.solve_rls2(stack, Y, np.inf, **options)
    assert infinite.verify(problem).status is kw.solvers.Status.CONVERGED
    with pytest.raises(InputError, match="features"):
        kw.solve_rls2(stack.gram(), Y, 1.0).verify(problem)
    with pytest.raises(InputError, match="relax"):
        kw.solve_rls2(stack, Y, 1.0, relax=1.0).verify(problem)


def test_other_solvers_take_features_as_kernels():
    Z, groups, y = make()
    labels = np.sign(y)
    a = kw.solve_svm_mkl(kw.FeatureStack(Z, groups), labels, 1.0)
    b = kw.solve_svm_mkl(gram_of(Z, groups), labels, 1.0)
    assert_allclose(a.primal, b.primal, rtol=2e-4)
    assert a.status is kw.solvers.Status.CONVERGED


# ---- invariances ----------------------------------------------------------------------------------


@pytest.fixture
def solved():
    Z, groups, y = make(45)
    return Z, groups, y, kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1.0, tol=1e-11)


def same(result, reference):
    assert abs(result.primal - reference.primal) <= result.gap + reference.gap


def test_a_rotation_within_blocks_changes_nothing(solved, rng):
    Z, groups, y, reference = solved
    turned, back = Z.copy(), []
    for a, b in itertools.pairwise(groups):
        turn = np.linalg.qr(rng.normal(size=(b - a, b - a)))[0]
        turned[:, a:b] = Z[:, a:b] @ turn
        back.append(turn)
    result = kw.solve_rls2(kw.FeatureStack(turned, groups), y, 1.0, tol=1e-11)
    same(result, reference)
    for turn, a, b in zip(back, groups[:-1], groups[1:], strict=True):
        assert_allclose(turn @ result.feature_coef[a:b], reference.feature_coef[a:b], atol=1e-4)


def test_the_order_of_blocks_does_not_matter(solved):
    Z, groups, y, reference = solved
    order = [3, 0, 5, 1, 4, 2]
    columns = np.concatenate([np.arange(groups[m], groups[m + 1]) for m in order])
    starts = np.r_[0, np.cumsum(np.diff(groups)[order])]
    result = kw.solve_rls2(kw.FeatureStack(Z[:, columns], starts), y, 1.0, tol=1e-11)
    same(result, reference)
    assert_allclose(result.weights, reference.weights[order], atol=1e-4)
    assert_allclose(result.feature_coef, reference.feature_coef[columns], atol=1e-4)


def test_a_block_twice_shares_its_weight(solved):
    Z, groups, y, reference = solved
    twice = kw.FeatureStack(np.c_[Z, Z[:, :3]], np.r_[groups, groups[-1] + 3])
    result = kw.solve_rls2(twice, y, 1.0, tol=1e-11)
    same(result, reference)
    assert_allclose(result.weights[0] + result.weights[-1], reference.weights[0], atol=1e-4)


def test_columns_of_zero_change_nothing(solved):
    Z, groups, y, reference = solved
    more = np.c_[np.zeros((45, 2)), Z[:, :3], np.zeros(45), Z[:, 3:]]
    starts = np.r_[0, 2, groups[1:] + 3]
    result = kw.solve_rls2(kw.FeatureStack(more, starts), y, 1.0, tol=1e-11)
    same(result, reference)
    assert result.weights[0] == 0
    assert not result.feature_coef[[0, 1, 5]].any()


@pytest.mark.parametrize("size", [1e-40, 1e-3, 1e40])
def test_units_do_not_matter(solved, size):
    Z, groups, y, reference = solved
    a = kw.solve_rls2(kw.FeatureStack(Z * size, groups), y, size**2, tol=1e-11)
    assert_allclose(a.feature_coef * size, reference.feature_coef, atol=1e-4)
    assert_allclose(a.primal, reference.primal, rtol=1e-10)
    b = kw.solve_rls2(kw.FeatureStack(Z, groups), y * size, 1.0, tol=1e-11)
    # measured: 0.01
    assert_allclose((a.rounding, b.rounding / size**2), reference.rounding, rtol=0.1)
    assert_allclose(b.feature_coef / size, reference.feature_coef, atol=1e-4)
    c = kw.solve_rls2(kw.FeatureStack(Z, groups), y, size, scale=np.full(6, size), tol=1e-11)
    assert_allclose(c.feature_coef, reference.feature_coef, atol=1e-4)


def test_columns_one_by_one_are_the_lasso():
    Z, _, y = make(30)
    result = kw.solve_rls2(kw.FeatureStack(Z), y, 0.5, tol=1e-12, max_iter=100_000)
    w = result.feature_coef
    gradient, level = Z.T @ (y - Z @ w), 0.5 * np.abs(w).sum()
    assert_allclose(gradient[w != 0], level * np.sign(w[w != 0]), rtol=1e-4)
    assert np.abs(gradient).max() <= level * (1 + 1e-6)


def test_a_block_wider_than_the_rows():
    Z, groups, y = make(8, widths=(20, 3, 11, 8))
    result = kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1.0, tol=1e-9)
    dense = kw.solve_rls2(gram_of(Z, groups), y, 1.0, tol=1e-9)
    assert abs(result.primal - dense.primal) <= result.gap + dense.gap
    primal, gap = gap_of(Z, groups, y, result)
    assert_allclose(primal, result.primal, rtol=1e-12)
    assert gap <= result.gap <= 1e-9 * primal


@pytest.mark.sampled(5)
@pytest.mark.parametrize("many_rows", [False, True], ids=["rows", "products"])
@pytest.mark.parametrize("alpha", [1e-9, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("kind", ["tall", "wide", "equal columns", "one huge block"])
def test_extremes_are_solved_or_named(monkeypatch, many_rows, alpha, kind):
    monkeypatch.setattr(path_module, "MANY_ROWS", 1 if many_rows else 10**9)
    Z, groups, y = make(15 if kind == "wide" else 80)
    if kind == "equal columns":
        Z[:, 3:9] = Z[:, 3:4]
    if kind == "one huge block":
        Z[:, :3] *= 1e6
    result = kw.solve_rls2(kw.FeatureStack(Z, groups), y, alpha, tol=1e-6)
    primal, gap = gap_of(Z, groups, y, result)
    assert_allclose(primal, result.primal, rtol=1e-6)
    assert gap <= result.gap * (1 + 1e-9) + 1e-14 * primal
    possible = [kw.solvers.Status.CONVERGED, kw.solvers.Status.ROUNDING]
    if kind == "one huge block" and alpha < 1:
        # 1e-18 of the trace: kernels refuse it as lost in their rounding errors
        possible.append(kw.solvers.Status.STALLED)
    if kind == "wide" and alpha == 1e-9 and many_rows:
        # products of columns lose half of the digits: with the BLAS kernels of Nehalem the gap stays at 7.6e-6
        possible.append(kw.solvers.Status.STALLED)
        assert result.rel_gap < 1e-4
    assert result.status in possible, result.rel_gap


# ---- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("many_rows", [False, True], ids=["rows", "products"])
@pytest.mark.parametrize("n", [20, 70])
def test_a_path_is_that_of_the_kernels(monkeypatch, many_rows, n):
    monkeypatch.setattr(path_module, "MANY_ROWS", 1 if many_rows else 10**9)
    Z, groups, y = make(n, widths=(2, 3, 1, 4) * 6)
    stack = kw.FeatureStack(Z, groups)
    dense = kw.rls2_path(gram_of(Z, groups), y, n_alphas=12, tol=1e-7)
    path = kw.rls2_path(stack, y, n_alphas=12, tol=1e-7)
    assert_allclose(path.alphas, dense.alphas, rtol=1e-9)
    assert set(path.status) == {kw.solvers.Status.CONVERGED}
    assert (np.abs(path.primal - dense.primal) <= path.gap + dense.gap).all()
    assert path.feature_coef.shape == (12, Z.shape[1])
    assert path.dual_coef.shape == (12, n)
    for one in path.solutions:
        primal, gap = gap_of(Z, groups, y, one)
        assert_allclose(primal, one.primal, rtol=1e-11)
        assert gap <= one.gap <= 1e-7 * primal * (1 + 1e-12)
    assert_allclose(path.df[:6], dense.df[:6], rtol=1e-2)
    assert_allclose(path.criteria["gcv"][:6], dense.criteria["gcv"][:6], rtol=1e-2)


def test_the_automatic_range_is_that_of_the_kernels():
    Z, groups, Y = make(30, n_outputs=2)
    weights = np.linspace(0.0, 2.0, 30)
    scale = np.linspace(0.5, 2.0, 6)
    features = make_feature_problem(kw.FeatureStack(Z, groups), Y, weights, scale)[0]
    kernels = make_problem(gram_of(Z, groups), Y, weights, scale)[0]
    assert_allclose(make_alphas(features, 5), make_alphas(kernels, 5), rtol=1e-9)
    # a block alone, and nothing to fit
    for y in (Y[:, 0], 0 * Y[:, 0]):
        alone = make_feature_problem(kw.FeatureStack(Z, [0, 16]), y)[0]
        assert_allclose(make_alphas(alone, 3), make_alphas(make_problem(Z @ Z.T, y)[0], 3), rtol=1e-9)


def test_a_path_counts_every_block(monkeypatch):
    Z, groups, y = make(25, widths=(2,) * 40)
    stack = kw.FeatureStack(Z, groups)
    alphas = np.geomspace(100, 0.1, 9)
    one_by_one = kw.rls2_path(stack, y, alphas, tol=1e-8)
    monkeypatch.setattr(path_module, "TOGETHER", 1)
    alone = kw.rls2_path(stack, y, alphas, tol=1e-8)
    # too few blocks at first: what is missing is found when all are looked at
    monkeypatch.setattr(path_module.FeatureDescent, "_expected", lambda self, a: np.array([0]))
    found = kw.rls2_path(stack, y, alphas, tol=1e-8)
    for path in (one_by_one, alone, found):
        assert set(path.status) == {kw.solvers.Status.CONVERGED}
        assert (np.abs(path.primal - alone.primal) <= path.gap + alone.gap).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("relax", [None, 0.5, [0.1, 1.0]])
@pytest.mark.parametrize("solver", ["newton", "alternating"])
def test_paths_of_several_outputs(shared, relax, solver):
    Z, groups, Y = make(25, n_outputs=2)
    weights = np.r_[0.0, np.ones(24)]
    options = {
        "sample_weight": weights,
        "shared_weights": shared,
        "relax": relax,
        "solver": solver,
        "tol": 1e-9,
        "delta": 1e-7,
    }
    path = kw.rls2_path(kw.FeatureStack(Z, groups), Y, [np.inf, 10.0, 1.0], **options)
    dense = kw.rls2_path(gram_of(Z, groups), Y, [np.inf, 10.0, 1.0], **options)
    assert (np.abs(path.primal - dense.primal) <= path.gap + dense.gap).all()
    assert path.dual_coef.shape == dense.dual_coef.shape
    assert path.feature_coef.shape == (*dense.dual_coef.shape[:-2], Z.shape[1], 2)
    assert_allclose(path.df, dense.df, rtol=5e-3, atol=1e-12)
    if np.ndim(relax):
        assert path.at(1, 1).feature_coef.shape == (Z.shape[1], 2)
        assert_allclose(path.at(1, 1).feature_coef, path.feature_coef[1, 1])


def test_a_path_can_be_stopped():
    Z, groups, y = make()
    for Y in (y, np.c_[y, y]):
        path = kw.rls2_path(
            kw.FeatureStack(Z, groups), Y, shared_weights=False, callback=lambda index, _: index == 2
        )
        assert len(path) == 3
        assert path.status[-1] is kw.solvers.Status.INTERRUPTED

    def by_hand(index, _):
        if index == 1:
            raise KeyboardInterrupt

    path = kw.rls2_path(kw.FeatureStack(Z, groups), y, callback=by_hand)
    assert len(path) == 2
    assert path.status[-1] is kw.solvers.Status.INTERRUPTED


# ---- refusals -------------------------------------------------------------------------------------

BAD = [
    (np.zeros(4), None, "shape"),
    (np.zeros((0, 4)), None, "shape"),
    (np.zeros((4, 0)), None, "shape"),
    (np.zeros((2, 2, 2)), None, "shape"),
    ([["a", "b"]], None, "real numbers"),
    (np.ones((3, 2)) * 1j, None, "real numbers"),
    (np.array([[1.0, np.nan]]), None, "1 NaN"),
    (np.array([[1.0, np.inf]], dtype=np.float32), None, "1 infinity"),
    (sparse.csr_array(np.array([[1.0, np.nan]])), None, "1 NaN"),
    (sparse.csr_array((3, 0)), None, "shape"),
    (sparse.csr_array(np.ones((3, 2)) * 1j), None, "real numbers"),
    (np.full((3, 2), 1e120), None, "norms"),
    (np.full((3, 2), 1e200), None, "overflow"),
    (np.ones((3, 4)), [0, 2], "rise from 0"),
    (np.ones((3, 4)), [1, 4], "rise from 0"),
    (np.ones((3, 4)), [0, 2, 2, 4], "rise from 0"),
    (np.ones((3, 4)), [0, 3, 2, 4], "rise from 0"),
    (np.ones((3, 4)), [0, 1.5, 4], "whole numbers"),
    (np.ones((3, 4)), [4], "whole numbers"),
    (np.ones((3, 4)), 4, "whole numbers"),
    (np.ones((3, 4)), [[0, 4]], "whole numbers"),
    (np.ones((3, 4)), ["a", "b"], "real numbers"),
    (np.ones((3, 4)), [0, np.nan, 4], "whole numbers"),
]


@pytest.mark.parametrize(("Z", "groups", "message"), BAD)
def test_features_that_cannot_be_used(Z, groups, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=message):
            kw.FeatureStack(Z, groups)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(39)}, "40"),
        ({"y": np.full(40, np.nan)}, "NaN"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": -1.0}, "alpha"),
        ({"tol": 0.0}, "tol"),
        ({"scale": np.zeros(6)}, "scale"),
        ({"scale": np.ones(5)}, "scale"),
        ({"sample_weight": np.zeros(40)}, "sample_weight"),
        ({"sample_weight": np.ones(3)}, "sample_weight"),
        ({"start": np.ones(6)}, "`start`"),
        ({"solver": "simplex"}, "solver"),
        ({"relax": 0.0}, "relax"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_arguments_that_cannot_be_used(change, message):
    Z, groups, y = make()
    options = {"y": y, "alpha": 1.0, **change}
    with pytest.raises(InputError, match=message):
        kw.solve_rls2(kw.FeatureStack(Z, groups), **options)


def test_a_start_changes_nothing():
    Z, groups, y = make()
    start = np.r_[0.0, 0.5, 0.0, 0.0, 0.5, 0.0]
    a = kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1.0, start=start, tol=1e-9)
    b = kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1.0, tol=1e-9)
    same(a, b)


def test_a_stack_tells_what_it_is():
    stack = kw.FeatureStack(np.ones((3, 4), dtype=np.float32), [0, 1, 4])
    assert repr(stack) == "FeatureStack(3 samples, 4 features in 2 blocks, float32)"
    assert "sparse" in repr(kw.FeatureStack(sparse.eye(3)))
    assert stack.n_kernels == 2
    assert stack.widths.tolist() == [1, 3]


# ---- shortcuts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("piece", [11, 2**20])
def test_products_in_single_precision(monkeypatch, form, piece):
    monkeypatch.setattr("kernelweave.gram.features.PIECE", piece)
    Z, groups, _ = make(60)
    stack = kw.FeatureStack(FORMS[form](Z), groups)
    left, right = np.array([0, 3, 5, 15]), np.array([2, 1])
    root = np.linspace(0.5, 2.0, 60)
    A, B = root[:, None] * Z[:, left], root[:, None] * Z[:, right]
    size = np.outer(np.linalg.norm(A, axis=0), np.linalg.norm(A, axis=0))
    assert (np.abs(stack.cross(left, left, root, single=True) - A.T @ A) <= 1e-6 * size).all()
    assert_allclose(stack.cross(left, left, root), A.T @ A, rtol=1e-12)
    assert_allclose(stack.cross(left, right, root), A.T @ B, atol=1e-12)
    assert_allclose(stack.cross(left, right, root, single=True), A.T @ B, atol=1e-4)


@pytest.mark.parametrize("apart", [1.0, 1e-4])
def test_products_are_taken_again_where_single_precision_is_not_enough(monkeypatch, apart):
    monkeypatch.setattr(path_module, "MANY_ROWS", 1)
    sharpened = []
    sharpen = path_module.WorkingBlocks.sharpen
    monkeypatch.setattr(
        path_module.WorkingBlocks, "sharpen", lambda self: sharpened.append(1) or sharpen(self)
    )
    Z, groups, _ = make(80)
    # the targets are what nearly equal columns differ in
    Z[:, 3:9] = Z[:, 3:4] + apart * Z[:, 3:9]
    y = (Z[:, 4] - Z[:, 5]) / apart
    for tol in (1e-3, 1e-5):
        result = kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1e-4 * apart**2, tol=tol)
        assert result.status is kw.solvers.Status.CONVERGED
        primal, gap = gap_of(Z, groups, y, result)
        assert_allclose(primal, result.primal, rtol=1e-6)
        assert gap <= tol * primal
    assert bool(sharpened) == (apart < 1)


def test_points_after_a_refined_one_stay(monkeypatch):
    # sweeps end at gaps near the tolerance, so that some points miss it
    monkeypatch.setattr(path_module, "INSIDE", 3.0)
    went_on, inner = [], path_module.FeatureDescent._go_on_from

    def recorded(self, points):
        inner(self, points)
        went_on.append([point.a for point in points])
        assert [a for a, _, _ in self.last] == [point.a for point in points[-2:]]
        assert_allclose(self.work.norms[: len(points[-1].norms)], points[-1].norms)

    monkeypatch.setattr(path_module.FeatureDescent, "_go_on_from", recorded)
    Z, groups, y = make(60, widths=(3, 1, 4, 2) * 5)
    alphas = np.geomspace(1e2, 1e-1, 30)
    path = kw.rls2_path(kw.FeatureStack(Z, groups), y, alphas, tol=1e-4)
    assert went_on
    for alpha, one in zip(path.alphas, path.solutions, strict=True):
        assert one.status is kw.solvers.Status.CONVERGED
        assert one.alpha == alpha
        assert gap_of(Z, groups, y, one)[1] <= 1e-4 * one.primal


def test_rows_in_single_precision_are_sharpened():
    rng = np.random.default_rng(0)
    groups = np.array([0, 3, 4, 40, 42])
    stack = kw.FeatureStack(rng.normal(size=(20, 42)), groups)
    problem, _ = make_feature_problem(stack, rng.normal(size=20))
    blocks = [path_module.WorkingBlocks(problem, False, single=single) for single in (True, False)]
    for work in blocks:
        work.add(np.array([2, 0]))
        work.add(np.array([1, 3]))
    coarse, fine = blocks
    assert coarse.rows.dtype == np.float32
    assert_allclose(coarse.rows, fine.rows, atol=1e-6)
    coarse.sharpen()
    assert_allclose(coarse.rows, fine.rows, atol=1e-13)
    assert_allclose(coarse.h, fine.h, atol=1e-13)


# ---- arrays of other libraries --------------------------------------------------------------------


def strict(Z, device):
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not there")
    return xp.asarray(np.ascontiguousarray(Z), device=xp.Device(device))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("device", ["CPU_DEVICE", "device1"])
@pytest.mark.parametrize("many_rows", [False, True], ids=["rows", "products"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("piece", [37, 2**24])
def test_features_on_another_device_give_the_same(monkeypatch, device, many_rows, dtype, piece):
    monkeypatch.setattr(path_module, "MANY_ROWS", 1 if many_rows else 10**9)
    monkeypatch.setattr("kernelweave.gram.features.PIECE_THERE", piece)
    Z, groups, Y = make(40, widths=(2, 3, 1, 4) * 5, n_outputs=2)
    Z = Z.astype(dtype)
    weights = np.where(np.arange(40) % 7 == 0, 0.0, np.linspace(0.5, 2.0, 40))
    options = {"sample_weight": weights, "n_alphas": 7, "relax": 1.0}
    given = strict(Z, device)
    there = kw.FeatureStack(given, groups)
    assert ("device1" in repr(there)) == (device == "device1")
    for tol in (1e-4, 1e-8):
        want = kw.rls2_path(kw.FeatureStack(Z, groups), Y, tol=tol, **options)
        found = kw.rls2_path(there, Y, tol=tol, **options)
        assert found.feature_coef.device == given.device
        assert found.weights.dtype == found.dual_coef.dtype
        got = found.on_host()
        assert_allclose(got.alphas, want.alphas, rtol=1e-9)
        assert (np.abs(got.primal - want.primal) <= got.gap + want.gap).all()
        assert_allclose(got.feature_coef, want.feature_coef, atol=1e-2 if tol > 1e-6 else 1e-4)


def test_margin_losses_on_another_device():
    Z, groups, y = make()
    labels = np.sign(y)
    for loss in ("squared-hinge", "logistic"):
        a = kw.solve_svm_mkl(kw.FeatureStack(strict(Z, "device1"), groups), labels, 1.0, loss=loss)
        b = kw.solve_svm_mkl(kw.FeatureStack(Z, groups), labels, 1.0, loss=loss)
        assert_allclose(a.primal, b.primal, rtol=2e-4)
        assert a.status is kw.solvers.Status.CONVERGED


def test_numbers_on_another_device_are_checked():
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not there")
    Z = np.arange(12.0).reshape(4, 3)
    whole = xp.asarray(Z.astype(np.int64), device=xp.Device("device1"))
    assert_allclose(kw.FeatureStack(whole).columns(np.array([2, 0])), Z.T[[2, 0]])
    for wrong, words in (
        (Z[0], "shape"),
        (np.where(Z > 3, np.nan, Z), "NaN"),
        (Z * 1e200, "overflow|norms"),
        (Z + 1j, "real numbers"),
    ):
        with pytest.raises(InputError, match=words):
            kw.FeatureStack(strict(wrong, "device1"))


@pytest.mark.parametrize("elsewhere", [False, True])
def test_torch_tensors(monkeypatch, elsewhere):
    torch = pytest.importorskip("torch", reason="torch is not there")
    if elsewhere:
        # passes as on a GPU, on the processor
        monkeypatch.setattr("kernelweave.gram.features.on_host", lambda Z: False)
    Z, groups, y = make()
    for dtype, many_rows in itertools.product((torch.float32, torch.float64), (1, 10**9)):
        monkeypatch.setattr(path_module, "MANY_ROWS", many_rows)
        tensor = torch.from_numpy(Z).to(dtype)
        stack = kw.FeatureStack(tensor, groups)
        assert ("on cpu" in repr(stack)) == elsewhere
        want = kw.solve_rls2(kw.FeatureStack(tensor.numpy(), groups), y, 1.0, sample_weight=np.arange(40.0))
        got = kw.solve_rls2(stack, y, 1.0, sample_weight=np.arange(40.0))
        assert got.feature_coef.dtype == got.weights.dtype == torch.float64
        assert_allclose(got.feature_coef, want.feature_coef, atol=1e-6)
        # tensors in, with a graph, and out
        graph = tensor.clone().requires_grad_()
        other = kw.solve_rls2(kw.FeatureStack(graph, groups), torch.from_numpy(y), 1.0, tol=1e-8)
        problem = kw.problems.rls2_problem(kw.FeatureStack(graph, groups), torch.from_numpy(y))
        assert other.verify(problem).status is kw.solvers.Status.CONVERGED
        path = kw.rls2_path(stack, torch.from_numpy(y), torch.tensor([1.0, 0.1]))
        assert isinstance(path.feature_coef, torch.Tensor)
        assert path.n_active.shape == (2,)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 50.0])
def test_progress_is_told_in_the_units_of_the_solution(unit):
    Z, groups, y = make(60)
    seen = []
    found = kw.solve_rls2(
        kw.FeatureStack(Z, groups), unit * y, 0.1, tol=1e-10, callback=lambda *told: seen.append(told)
    )
    assert seen[-1][1] == pytest.approx(found.primal, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("piece", [2**20, 40])
def test_numbers_of_a_stack_are_those_of_its_columns(piece, dtype, monkeypatch):
    """Products, sums and parts of features in every form of memory, all at once and a few numbers at a time."""
    monkeypatch.setattr("kernelweave.gram.features.PIECE", piece)
    monkeypatch.setattr("kernelweave.gram.features.ROWS_AT_A_TIME", 7)
    for form in [*FORMS, "whole numbers"]:
        rng = np.random.default_rng(0)
        Z, groups, _ = make(n=23)
        Z = (np.round(4 * Z) if form == "whole numbers" else Z).astype(dtype)
        stack = kw.FeatureStack(Z.astype(int) if form == "whole numbers" else FORMS[form](Z), groups)
        Z, p = Z.astype(float), Z.shape[1]
        close = {"rtol": 1e-12, "atol": 1e-12}
        R, weight, index = rng.normal(size=(3, 23)), rng.uniform(0.2, 2.0, 23), np.array([3, 4, 5, 12, 0, 14])
        assert (stack.n_samples, stack.n_features, stack.n_kernels) == (23, p, 6)
        assert stack.widths.tolist() == np.diff(groups).tolist()
        assert_allclose(stack.square_sums, np.square(Z).sum(axis=0), **close)
        assert_allclose(stack.weighted_square_sums(weight), weight @ np.square(Z), **close)
        assert_allclose(stack.products(R), R @ Z, **close)
        assert_allclose(stack.columns(index), Z[:, index].T, **close)
        coef = rng.normal(size=(2, 6))
        assert_allclose(stack.combine(index, coef), coef @ Z[:, index].T, **close)
        if form not in ("csr", "coo"):
            assert_allclose(stack.piece(index, slice(4, 11)), Z[4:11, index].T, **close)
        other = np.array([1, 2, 3])
        for root in (None, np.sqrt(weight)):
            W = np.eye(23) if root is None else np.diag(weight)
            assert_allclose(stack.cross(index, other, root), Z[:, index].T @ W @ Z[:, other], **close)
            found = stack.cross(index, index, root)
            assert_allclose(found, Z[:, index].T @ W @ Z[:, index], **close)
            assert_allclose(found, found.T, rtol=1e-14 if form in ("csr", "coo") else 0.0, atol=1e-14)
            single = stack.cross(index, index, root, single=True)
            assert_allclose(single, found, rtol=1e-5, atol=1e-4)
            assert_allclose(
                stack.cross(index, other, root, single=True), Z[:, index].T @ W @ Z[:, other], atol=1e-4
            )
        changed = stack.columns(index)
        changed[:] = 0.0
        assert_allclose(stack.columns(index), Z[:, index].T, **close)
        some = stack.restrict(np.array([7, 2, 2]))
        assert_allclose(some.products(np.eye(3)), Z[[7, 2, 2]], **close)
        assert some.groups.tolist() == groups.tolist()
        assert stack.owned(np.array([2, 0])).tolist() == [4, 5, 6, 7, 8, 0, 1, 2]
        gram = stack.gram(np.array([2, 0]))
        assert gram.offsets.tolist() == [0, 5, 8]
        assert_allclose(
            gram.combine(np.array([1.0, 2.0])), Z[:, 4:9] @ Z[:, 4:9].T + 2 * Z[:, :3] @ Z[:, :3].T, **close
        )
        assert stack.gram().n_kernels == 6
        kind = (
            "sparse"
            if form in ("csr", "coo")
            else "float64"
            if form == "whole numbers"
            else np.dtype(dtype).name
        )
        assert repr(stack) == f"FeatureStack(23 samples, {p} features in 6 blocks, {kind})"
        assert stack.precision == np.finfo(float).eps


def test_features_as_factors_are_stacks_again():
    Z, groups, _ = make(n=9)
    gram = kw.gram.FeatureGram(np.ascontiguousarray(Z.T), groups)
    stack = gram.stack()
    assert np.shares_memory(stack.Z, gram.rows)
    assert_allclose(stack.Z, Z)
    some = gram.take(np.array([3, 1]))
    assert isinstance(some, kw.gram.FeatureGram)
    assert some.stack().groups.tolist() == [0, 2, 3]
    part = kw.gram.FeatureGram(gram.rows, groups[2:])
    assert_allclose(part.stack().Z, Z[:, groups[2] :])
    assert part.stack().groups.tolist() == (groups[2:] - groups[2]).tolist()
    assert gram.describe() == "6 kernels as 16 features, 0.0 MiB"


def test_starts_of_blocks_are_read():
    """As many columns as they say, where the number is not known."""
    for given, count, wanted in (
        (None, 3, [0, 1, 2, 3]),
        (None, 0, [0]),
        ([0, 2, 5], 0, [0, 2, 5]),
        ([0.0, 2.0], 2, [0, 2]),
        ((0, 4), 4, [0, 4]),
    ):
        found = as_groups(given, count)
        assert (found.tolist(), found.dtype) == (wanted, np.int64)
    for wrong, count in (
        ([0, 2, 5], 4),
        ([0, 2, 5], 6),
        ([0, 0, 2], 0),
        ([1, 2], 0),
        ([0], 0),
        ([[0, 1]], 0),
        ([0, np.nan], 0),
    ):
        with pytest.raises(InputError, match="`groups` must"):
            as_groups(wrong, count)


# ---- the way of the solver ------------------------------------------------------------------------


JOURNEYS = {
    "rows": ({}, {}, {}),
    "two outputs": ({"n_outputs": 2}, {}, {}),
    "outputs apart": ({"n_outputs": 2}, {"shared_weights": False}, {}),
    "products": ({"n_outputs": 2}, {}, {"MANY_ROWS": 1}),
    "products one by one": ({"widths": (1,) * 25}, {}, {"MANY_ROWS": 1, "TOGETHER": 1}),
    "few columns": ({"n": 90}, {}, {"ROWS_OF_FEW": 80}),
    "wide": ({"n": 9, "widths": (12, 1, 15, 2, 1, 9, 3)}, {}, {}),
    "to one small alpha": ({"widths": (2, 1, 3) * 12}, {"alphas": [0.02]}, {}),
    "few are expected": ({"widths": (2, 1, 3) * 8}, {}, {"MARGIN": 1.4, "INSIDE": 4.0}),
    "Newton after slow sweeps": ({}, {}, {"SWEEPS": 3, "PATIENCE": 1}),
    "Newton after slow sweeps on products": (
        {"n_outputs": 2},
        {},
        {"SWEEPS": 3, "PATIENCE": 1, "MANY_ROWS": 1},
    ),
    "Newton after many sweeps": ({}, {}, {"SWEEPS": 5, "POLISH_AFTER": 2}),
    "Newton on all rows": (
        {},
        {},
        {"SWEEPS": 2, "PATIENCE": 1, "POLISH_AFTER": 0, "MANY_ROWS": 1, "FEW_STEPS": 2},
    ),
    "coarse": ({"widths": (2, 1, 3) * 8}, {}, {"MARGIN": 1.2}),
}
#: Iterations of all solutions, and a third as many again.
MOST = {
    "rows": 297,
    "two outputs": 165,
    "outputs apart": 531,
    "products": 172,
    "products one by one": 255,
    "few columns": 300,
    "wide": 268,
    "to one small alpha": 24,
    "few are expected": 169,
    "Newton after slow sweeps": 203,
    "Newton after slow sweeps on products": 168,
    "Newton after many sweeps": 129,
    "Newton on all rows": 111,
    "coarse": 311,
}


@pytest.mark.parametrize("name", JOURNEYS)
def test_the_way_along_a_path(name, monkeypatch, recorded):
    data, options, constants = JOURNEYS[name]
    for constant, value in constants.items():
        monkeypatch.setattr(path_module, constant, value)
    Z, groups, y = make(**{"n": 50, **data})
    n = len(Z)
    weights = np.where(np.arange(n) % 6 == 0, 0.0, 0.5 + np.arange(n) / n)
    scale = np.linspace(0.4, 2.0, len(groups) - 1)[::-1]
    given = {"alphas": np.geomspace(60.0, 0.05, 7), "tol": 1e-8, **options}
    path = kw.rls2_path(kw.FeatureStack(Z, groups), y, sample_weight=weights, scale=scale, **given)
    in_few_iterations(path, MOST[name])
    record_solved(recorded, "path", path, "feature_coef")
