"""Sums over rows in place of rows: the same answers as features in memory, whatever the chunks, means and ranks.

Modules: `gram/statistics`, `gram/statistics_files`, `gram/row_checks`, `gram/chunked`, `mkl/features/summaries`,
`mkl/rls2`, `mkl/features/ridge_paths`, `mkl/features/block_descent`.
"""

import os
import signal
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import Ridge

import kernelweave as kw
from journeys import NEAR, in_few_iterations, record_solved, verdicts
from kernelweave import InputError
from kernelweave.gram import chunked, features, statistics, triangle
from kernelweave.gram.row_checks import check_rows, stays_sparse
from kernelweave.gram.statistics_files import write_arrays
from kernelweave.mkl.features import block_descent, summaries
from test_features import make

ALPHAS = [30.0, 3.0, 0.1]


def statistics_of(Z, groups, y, sample_weight=None, step=7):
    found = kw.BlockStatistics(groups)
    for first in range(0, len(y), step):
        part = slice(first, first + step)
        found.add(Z[part], y[part], None if sample_weight is None else sample_weight[part])
    return found


def exact(Z, y, weights=None):
    """Products of features and targets about their means, in extended precision."""
    A = np.c_[Z, y].astype(np.longdouble)
    w = np.ones(len(A), np.longdouble) if weights is None else weights.astype(np.longdouble)
    means = w @ A / w.sum()
    return np.einsum("i,ij,ik->jk", w, A - means, A - means), means


def same(a, b):
    """Two certified solutions of one problem."""
    assert_allclose(a.alphas, b.alphas, rtol=1e-12)
    assert (np.abs(a.primal - b.primal) <= a.gap + b.gap).all()
    assert (a.rel_gap <= 1e-9).all()
    assert (b.rel_gap <= 1e-9).all()
    assert_allclose(a.feature_coef, b.feature_coef, atol=1e-4)


@pytest.mark.parametrize("n", [9, 60])
@pytest.mark.parametrize("n_outputs", [None, 3])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_path_is_that_of_the_features(n, n_outputs, fit_intercept):
    # with 9 rows of 16 features the products have no full rank
    Z, groups, y = make(n, n_outputs=n_outputs)
    Z, y = Z + 2.0, y - 1.0
    weights = np.random.default_rng(3).uniform(0.5, 2.0, size=n)
    weights[2] = 0.0
    scale = np.linspace(0.5, 2.0, len(groups) - 1)
    means, level = np.zeros(Z.shape[1]), 0.0
    if fit_intercept:
        means, level = np.average(Z, axis=0, weights=weights), np.average(y, axis=0, weights=weights)
    found = kw.rls2_path(
        statistics_of(Z, groups, y, weights),
        alphas=ALPHAS,
        tol=1e-9,
        scale=scale,
        fit_intercept=fit_intercept,
    )
    stack = kw.FeatureStack(Z - means, groups)
    wanted = kw.rls2_path(stack, y - level, ALPHAS, tol=1e-9, scale=scale, sample_weight=weights)
    same(found, wanted)
    assert found.dual_coef.shape == (3, 0)
    assert_allclose(found.df, wanted.df, rtol=1e-6)
    for k, one in enumerate(found.solutions):
        intercept = level - means @ one.feature_coef
        assert np.shape(one.intercept) == np.shape(intercept)
        assert_allclose(one.intercept, intercept, atol=1e-12)
        single = kw.solve_rls2(
            statistics_of(Z, groups, y, weights),
            alpha=found.alphas[k],
            tol=1e-9,
            scale=scale,
            fit_intercept=fit_intercept,
        )
        assert abs(single.primal - one.primal) <= single.gap + one.gap


def test_criteria_count_all_rows():
    Z, groups, y = make(80)
    found = kw.rls2_path(statistics_of(Z, groups, y), n_alphas=5, tol=1e-10)
    wanted = kw.rls2_path(kw.FeatureStack(Z, groups), y, n_alphas=5, tol=1e-10)
    assert_allclose(found.alphas, wanted.alphas, rtol=1e-12)
    for name, values in wanted.criteria.items():
        # largest difference 3e-6
        assert_allclose(found.criteria[name], values, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    "options", [{"relax": 0.5}, {"relax": [0.5, 5.0]}, {"shared_weights": False}, {"solver": "alternating"}]
)
def test_options_are_those_of_features(options):
    Z, groups, y = make(50, n_outputs=2)
    y = y - y.mean(axis=0)
    Z = Z - Z.mean(axis=0)
    found = kw.rls2_path(
        statistics_of(Z, groups, y), alphas=[3.0, 1.0], tol=1e-11, fit_intercept=True, **options
    )
    wanted = kw.rls2_path(kw.FeatureStack(Z, groups), y, [3.0, 1.0], tol=1e-11, **options)
    assert_allclose(found.weights, wanted.weights, atol=1e-5)
    assert_allclose(found.feature_coef, wanted.feature_coef, atol=1e-5)
    one = found.at(1, 1) if np.ndim(options.get("relax")) else found.at(1)
    assert one.feature_coef.shape == (Z.shape[1], 2)
    assert np.shape(one.intercept) == (2,)
    assert_allclose(one.intercept, 0.0, atol=1e-12)
    if "relax" in options:
        assert_allclose(found.ridge_primal, wanted.ridge_primal, rtol=1e-9)


def test_certificates_can_be_verified_and_refuted():
    Z, groups, y = make(60)
    statistics = statistics_of(Z, groups, y)
    result = kw.solve_rls2(statistics, alpha=1.0, fit_intercept=True)
    problem = kw.problems.rls2_problem(statistics, fit_intercept=True)
    assert result.verify(problem).status is kw.solvers.Status.CONVERGED
    worse = replace(result, feature_coef=1.001 * result.feature_coef)
    assert worse.verify(problem).status is kw.solvers.Status.REFUTED
    other = kw.problems.rls2_problem(statistics_of(Z, groups, y + 0.01 * Z[:, 1]), fit_intercept=True)
    assert result.verify(other).status is kw.solvers.Status.REFUTED
    with pytest.raises(InputError, match="proof for 17 rows"):
        kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1.0).verify(problem)


def test_one_block_is_ridge_regression():
    # with a single kernel RLS2 is ridge regression
    Z, _, y = make(60)
    y = y + 5.0
    result = kw.solve_rls2(statistics_of(Z, [0, Z.shape[1]], y), alpha=2.5, tol=1e-13, fit_intercept=True)
    ridge = Ridge(alpha=2.5).fit(Z, y)
    assert_allclose(result.feature_coef, ridge.coef_, rtol=1e-6, atol=1e-8)
    assert_allclose(result.intercept, ridge.intercept_, rtol=1e-7)


# ---- arithmetic -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.0, 1e3, 1e6, 1e8])
def test_large_means_cost_no_digits(level):
    rng = np.random.default_rng(0)
    # exactly representable with their means, so that only the sums have errors
    Z = np.round(rng.normal(size=(500, 6)) * 2**20) / 2**20 + level
    y = np.round(rng.normal(size=500) * 2**20) / 2**20 - 3 * level
    weights = rng.integers(1, 4, size=500).astype(float)
    S, means = exact(Z, y, weights)
    parts = [statistics_of(Z[k::3], None, y[k::3], weights[k::3], step=31) for k in range(3)]
    found = parts[0] + (parts[1] + parts[2])
    size = np.sqrt(np.diag(S))
    # largest error 4e-16 at any level; with sums of squares it would be 1e-3 at a level of 1e6
    assert_allclose(
        found.products(centered=True) / np.outer(size, size), S / np.outer(size, size), atol=5e-15
    )
    assert_allclose(found.feature_means, means[:-1].astype(float), rtol=1e-15, atol=1e-16)
    assert_allclose(found.target_means, means[-1:].astype(float), rtol=1e-15, atol=1e-16)
    assert (found.n_rows, found.weight_sum) == (500, weights.sum())


def test_large_means_do_not_show_in_the_solution():
    Z, groups, y = make(80)
    far = kw.solve_rls2(statistics_of(Z + 1e6, groups, y - 1e6), alpha=1.0, tol=1e-9, fit_intercept=True)
    near = kw.solve_rls2(statistics_of(Z, groups, y), alpha=1.0, tol=1e-9, fit_intercept=True)
    # numbers of size 1e6 have digits up to 1e-10 themselves
    assert_allclose(far.primal, near.primal, rtol=1e-8)
    assert far.status is kw.solvers.Status.CONVERGED
    assert_allclose(far.feature_coef, near.feature_coef, atol=1e-6)


def test_plain_products():
    Z, groups, y = make(30, n_outputs=2)
    weights = np.linspace(0.5, 1.5, 30)
    found = statistics_of(Z, groups, y, weights)
    assert_allclose(found.ZtZ, (Z.T * weights) @ Z, rtol=1e-12, atol=1e-12)
    assert_allclose(found.Zty, (Z.T * weights) @ y, rtol=1e-12, atol=1e-12)
    assert_allclose(found.yty, (y.T * weights) @ y, rtol=1e-12, atol=1e-12)
    assert statistics_of(Z, groups, y[:, 0]).Zty.shape == (Z.shape[1],)
    assert repr(found) == "BlockStatistics(30 rows, 16 features in 6 blocks, 2 outputs)"


def test_weights_are_repetitions_and_zeros_leave_out():
    Z, groups, y = make(20)
    counts = np.arange(20) % 4
    once = statistics_of(Z, groups, y, counts.astype(float))
    again = statistics_of(np.repeat(Z, counts, axis=0), groups, np.repeat(y, counts))
    assert_allclose(once.products(centered=True), again.products(centered=True), rtol=1e-12, atol=1e-12)
    assert (once.n_rows, once.weight_sum, again.n_rows) == (15, 30.0, 30)


def test_merging_is_associative_and_subtraction_goes_to_the_last_fold():
    Z, groups, y = make(60)
    Z = Z + 100.0
    parts = [statistics_of(Z[k::5], groups, y[k::5]) for k in range(5)]
    whole = sum(parts)
    left = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + parts[4]
    assert_allclose(left.products(centered=True), whole.products(centered=True), rtol=1e-12, atol=1e-11)
    assert [part.n_rows for part in parts] == [12] * 5
    rest = whole.copy()
    for k in range(4):
        rest -= parts[k]
    last = parts[4].products(centered=True)
    # largest error 1.4e-12 of sizes up to 60
    assert_allclose(rest.products(centered=True), last, atol=1e-10)
    assert_allclose(rest.feature_means, parts[4].feature_means, rtol=1e-12)
    # what was subtracted stays in the bound of the rounding errors
    found = kw.solve_rls2(rest, alpha=1.0, fit_intercept=True)
    own = kw.solve_rls2(parts[4], alpha=1.0, fit_intercept=True)
    assert found.rounding > own.rounding
    assert abs(found.primal - own.primal) <= found.gap + own.gap
    nothing = rest - parts[4]
    assert (nothing.n_rows, nothing.weight_sum) == (0, 0.0)
    assert not nothing.products(centered=False).any()
    assert_allclose(
        (nothing + parts[1]).products(centered=True), parts[1].products(centered=True), rtol=1e-13
    )


@pytest.mark.parametrize("density", [0.03, 0.3])
def test_sparse_rows_are_dense_rows(density):
    rng = np.random.default_rng(0)
    Z = sparse.random_array((300, 40), density=density, rng=rng, format="coo")
    # one column that is never zero, with a large mean
    Z = sparse.hstack([Z, sparse.csr_array(np.full((300, 1), 1e4) + rng.normal(size=(300, 1)))]).tocsr()
    y, weights = rng.normal(size=300), rng.uniform(0.5, 2.0, size=300)
    groups = [0, 10, 30, 41]
    a = statistics_of(Z, groups, y, weights, step=150)
    b = statistics_of(Z.toarray(), groups, y, weights)
    # largest error 1.2e-12
    assert_allclose(a.products(centered=True), b.products(centered=True), rtol=1e-11, atol=1e-11)
    c = statistics_of(Z[:, :40], [0, 10, 30, 40], y, weights, step=150)
    assert_allclose(
        c.products(centered=True), b.products(centered=True)[np.r_[:40, 41]][:, np.r_[:40, 41]], atol=1e-11
    )


def test_single_precision_is_summed_in_double():
    Z, groups, y = make(50)
    single = Z.astype(np.float32)
    a, b = statistics_of(single, groups, y), statistics_of(single.astype(np.float64), groups, y)
    assert (a.products(centered=True) == b.products(centered=True)).all()


def test_the_sums_of_a_rounding_bound_hold():
    # a nearly collinear pair: solving on rows and from products may differ by what the certificate says
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 8))
    Z[:, 7] = Z[:, 6] + 1e-6 * rng.normal(size=200)
    y = Z @ rng.normal(size=8) + 1e5 * (Z[:, 7] - Z[:, 6])
    groups = [0, 4, 8]
    for alpha in (1.0, 1e-6, 1e-9):
        a = kw.solve_rls2(statistics_of(Z, groups, y), alpha=alpha)
        b = kw.solve_rls2(kw.FeatureStack(Z, groups), y, alpha)
        assert abs(a.primal - b.primal) <= a.gap + b.gap
        assert a.rounding > b.rounding


# ---- files ----------------------------------------------------------------------------------------


def test_files_hold_every_number(tmp_path):
    Z, groups, y = make(40, n_outputs=2)
    names = [f"block {k}" for k in range(len(groups) - 1)]
    parts = []
    for k in range(4):
        part = kw.BlockStatistics(groups, names=names, columns=[f"x{j}" for j in range(Z.shape[1])])
        part.add(Z[k::4], y[k::4], taken=(f"part-{k}.csv", 10))
        part.save(tmp_path / f"part-{k}.npz")
        parts.append(part)
    again = kw.BlockStatistics.load(tmp_path / "part-2.npz")
    assert (again.products(centered=True) == parts[2].products(centered=True)).all()
    assert (again.reach(centered=False) == parts[2].reach(centered=False)).all()
    assert (again.names, again.columns, again.taken) == (tuple(names), parts[2].columns, {"part-2.csv": 10})
    assert (again.n_rows, again.weight_sum, again.single, again.n_outputs) == (10, 10.0, False, 2)
    merged = kw.BlockStatistics.from_files(tmp_path)
    assert (merged.products(centered=True) == sum(parts).products(centered=True)).all()
    assert merged.taken == {f"part-{k}.csv": 10 for k in range(4)}
    kw.BlockStatistics().save(tmp_path / "none.npz")
    assert kw.BlockStatistics.load(tmp_path / "none.npz").n_rows == 0
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".npz"] == []


def test_damaged_and_other_files_are_refused(tmp_path):
    Z, groups, y = make(40)
    path = tmp_path / "part.npz"
    statistics_of(Z, groups, y).save(path)
    whole = path.read_bytes()
    for place in (len(whole) // 2, len(whole) - 30):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(bytes(damaged))
        with pytest.raises(InputError, match=r"part.npz"):
            kw.BlockStatistics.load(path)
    for part in (b"", whole[:100], whole[: len(whole) // 2], b"text"):
        path.write_bytes(part)
        with pytest.raises(InputError, match="cannot be read as statistics"):
            kw.BlockStatistics.load(path)
    np.savez(path, a=np.ones(3))
    with pytest.raises(InputError, match="holds no statistics"):
        kw.BlockStatistics.load(path)
    arrays = statistics_of(Z, groups, y).state() | {
        "format": "kernelweave statistics",
        "kind": "statistics of blocks",
    }
    for change, words in [
        ({"version": 9}, "version 9"),
        ({"version": 1, "kind": "statistics of folds"}, "holds statistics of folds"),
        ({"version": 1, "means": np.ones(3)}, "do not fit together"),
        ({"version": 1, "products": np.full_like(arrays["products"], np.nan)}, "do not fit together"),
        ({"version": 1, "products": -arrays["products"]}, "negative"),
        ({"version": 1, "counts": np.array([1, 2])}, "cannot be read"),
        ({"version": 1, "groups": np.array([0, 5, 2])}, "groups"),
    ]:
        np.savez(path, **{**arrays, **change})
        with pytest.raises(InputError, match=words):
            kw.BlockStatistics.load(path)
    with pytest.raises(InputError, match="no file of statistics"):
        kw.BlockStatistics.load(tmp_path / "other.npz")
    with pytest.raises(InputError, match="There is no folder"):
        kw.BlockStatistics.from_files(tmp_path / "other")
    with pytest.raises(InputError, match="No file"):
        kw.BlockStatistics.from_files(tmp_path, "*.part")


# ---- wrong arguments ------------------------------------------------------------------------------


def test_wrong_chunks_are_refused_and_leave_nothing_behind():
    Z, groups, y = make(30)
    found = statistics_of(Z, groups, y)
    before = found.state()
    bad = Z.copy()
    bad[3, 2] = np.nan
    for rows, targets, weights, words in [
        (bad, y, None, "1 NaN"),
        (sparse.csr_array(bad), y, None, "1 NaN"),
        (Z * 1e300, y, None, "overflows"),
        (Z[:, :3], y, None, "16 columns"),
        (Z, y[:5], None, "one row per"),
        (Z, np.c_[y, y], None, "1 columns"),
        (Z, np.where(y > 0, y, np.inf), None, "`y` must be finite"),
        (Z, y, -np.ones(30), "nonnegative"),
        (Z, y, np.ones(3), "sample_weight"),
        (Z[0], y, None, "shape"),
        ([["a"]], [1.0], None, "real numbers"),
        (Z[:0], [1.0], None, "0, got 1 rows"),
    ]:
        with pytest.raises(InputError, match=words):
            found.add(rows, targets, weights)
    for name, value in found.state().items():
        assert (value == before[name]).all(), name
    # no rows, and rows that do not count
    found.add(Z[:0], y[:0]).add(Z, y, np.zeros(30))
    assert found.n_rows == 30
    late = kw.BlockStatistics().add(Z[:0], [], None).add(Z, np.c_[y, y])
    assert (late.n_outputs, late.n_kernels) == (2, Z.shape[1])


def test_wrong_sums_are_refused():
    Z, groups, y = make(30)
    found = statistics_of(Z, groups, y)
    others = {
        "blocks": statistics_of(Z, [0, 16], y),
        "outputs": statistics_of(Z, groups, np.c_[y, y]),
        "names": kw.BlockStatistics(groups, names=list("abcdef")).add(Z, y),
        "columns": kw.BlockStatistics(groups, columns=list("abcdefghijklmnop")).add(Z, y),
    }
    for what, other in others.items():
        assert found.names is None
        left = found
        if what in ("names", "columns"):
            left = kw.BlockStatistics(groups, **{what: [c * 2 for c in getattr(other, what)]}).add(Z, y)
        for join in (left.copy().merge, left.copy().subtract):
            with pytest.raises(InputError, match=what):
                join(other)
    with pytest.raises(InputError, match="not a part"):
        statistics_of(Z[:10], groups, y[:10]).subtract(found)
    with pytest.raises(InputError, match="not a part"):
        found.copy().subtract(statistics_of(10 * Z[:20], groups, y[:20]))
    with pytest.raises(InputError, match="themselves"):
        found.merge(found)
    with pytest.raises(InputError, match="takes BlockStatistics"):
        found.merge(3)
    with pytest.raises(TypeError):
        found + 3
    with pytest.raises(InputError, match="names"):
        kw.BlockStatistics(groups, names=["a"])
    with pytest.raises(InputError, match="list of texts"):
        kw.BlockStatistics(groups, names="abcdef")
    with pytest.raises(InputError, match="groups"):
        kw.BlockStatistics([0, 5, 3])


def test_solvers_say_what_statistics_do_not_have():
    Z, groups, y = make(30)
    found = statistics_of(Z, groups, y)
    for solve in (kw.solve_rls2, kw.rls2_path):
        with pytest.raises(InputError, match="`y` must be None"):
            solve(found, y, 1.0)
        with pytest.raises(InputError, match="`sample_weight` must be None"):
            solve(found, None, 1.0, sample_weight=np.ones(30))
        with pytest.raises(InputError, match="at least one row"):
            solve(kw.BlockStatistics(groups), None, 1.0)
        with pytest.raises(InputError, match="`y` must be an array"):
            solve(kw.FeatureStack(Z, groups), None, 1.0)
        with pytest.raises(InputError, match="`fit_intercept` must be False"):
            solve(kw.FeatureStack(Z, groups), y, 1.0, fit_intercept=True)
    with pytest.raises(InputError, match="`alpha` must be"):
        kw.solve_rls2(found)
    with pytest.raises(InputError, match="are for Squared"):
        kw.solve_svm_mkl(found, np.sign(y), 1.0)


def test_callbacks_see_intercepts():
    Z, groups, y = make(30, n_outputs=2)
    seen = []
    found = statistics_of(Z + 5.0, groups, y)
    for shared in (True, False):
        kw.rls2_path(
            found,
            alphas=ALPHAS,
            fit_intercept=True,
            shared_weights=shared,
            callback=lambda k, r: seen.append(r.intercept),
        )
    assert [np.shape(one) for one in seen] == [(2,)] * 6


def test_rows_of_a_chunk_are_in_or_not_after_ctrl_c():
    Z, groups, y = make(30)
    found = statistics_of(Z, groups, y)

    class Interrupting(np.ndarray):
        """Rows whose reading is interrupted."""

        def __getitem__(self, index):
            os.kill(os.getpid(), signal.SIGINT)
            return np.asarray(self)[index]

    with pytest.raises(KeyboardInterrupt):
        found.add(Z.view(Interrupting), y)
    twice = statistics_of(Z, groups, y) + statistics_of(Z, groups, y)
    assert found.n_rows == 60
    assert_allclose(found.products(centered=True), twice.products(centered=True), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("deficient", [False, True])
@pytest.mark.parametrize("groups", [[0, 5, 6, 14, 24], list(range(25))])
@pytest.mark.parametrize("shared", [None, True, False])
def test_paths_of_sums_are_the_same_on_products_and_in_place(rng, monkeypatch, groups, deficient, shared):
    Z = rng.normal(size=(80, 24)) @ rng.normal(size=(24, 24))
    if deficient:
        Z[:, 3:7] = Z[:, 20:] @ rng.normal(size=(4, 4))
    y = Z[:, :3].sum(axis=1) + rng.normal(size=80)
    y = y if shared is None else np.c_[y, Z[:, 9] + rng.normal(size=80)]
    sums = kw.rows.block_statistics(Z, y, groups=groups)
    options = {"scale": np.linspace(0.5, 2.0, len(groups) - 1), "shared_weights": shared is not False}
    monkeypatch.setattr(block_descent, "MANY_ROWS", 1)
    found = []
    for most, width in [(24, 1024), (23, 1024), (23, 5)]:
        monkeypatch.setattr(block_descent, "MOST_PRODUCTS", most)
        monkeypatch.setattr(summaries, "WIDTH", width)
        found.append(kw.rls2_path(sums, n_alphas=6, tol=1e-11, **options))
    for other in found[1:]:
        assert_allclose(other.primal, found[0].primal, rtol=1e-9)
        assert (other.gap <= 1e-9 * other.primal).all()
        assert_allclose(other.feature_coef, found[0].feature_coef, atol=1e-6)


def test_a_gap_below_zero_is_none(monkeypatch):
    """Gradients that grow after their blocks have moved give one; a path ended there, 8e-3 above the optimum."""
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(80, 24)) @ rng.normal(size=(24, 24))
    Z[:, 3:7] = Z[:, 20:] @ rng.normal(size=(4, 4))
    y = np.c_[Z[:, :3].sum(axis=1) + rng.normal(size=80), Z[:, 9]]
    y[:, 1] += rng.normal(size=80)
    monkeypatch.setattr(block_descent, "MANY_ROWS", 1)
    monkeypatch.setattr(block_descent, "MOST_PRODUCTS", 23)
    sums = kw.rows.block_statistics(Z, y, groups=[0, 5, 6, 14, 24])
    path = kw.rls2_path(sums, n_alphas=6, tol=1e-11, scale=np.linspace(0.5, 2.0, 4))
    assert (path.gap <= 2e-11 * path.primal).all()
    assert kw.solvers.Status.STALLED not in path.status


def test_a_problem_of_sums_is_the_same_after_its_blocks_were_turned(monkeypatch):
    Z, groups, y = make(60)
    problem = kw.Problem(statistics_of(Z, groups, y), C=2.0)
    stack = problem.form.stack
    index, R = np.array([5, 2, 9, 0]), np.random.default_rng(0).normal(size=(3, stack.n_samples))
    before = [stack.columns(index), stack.products(R), stack.combine(index, R[:, :4])]
    kept = stack.Z.copy()
    monkeypatch.setattr(block_descent, "MOST_PRODUCTS", 0)
    one = kw.solve(problem, tol=1e-9)
    assert not np.allclose(stack.Z, kept)
    for was, now in zip(
        before, [stack.columns(index), stack.products(R), stack.combine(index, R[:, :4])], strict=True
    ):
        assert_allclose(now, was, atol=1e-12)
    again = kw.solve(problem, tol=1e-9)  # blocks are not turned twice
    assert abs(one.primal - again.primal) <= one.gap + again.gap
    assert one.verify(kw.Problem(statistics_of(Z, groups, y), C=2.0)).gap <= 1e-8 * one.primal
    assert one.verify(problem).gap <= 1e-8 * one.primal


@pytest.mark.parametrize("deficient", [False, True])
@pytest.mark.parametrize("width", [25, 5])
def test_a_path_of_sums_in_a_file_holds_one_matrix(tmp_path, monkeypatch, width, deficient):
    """Its factor, with all blocks at work; 4 bytes for each pair of columns stay in the file."""
    p = 600
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400 if deficient else 900, p))
    groups = np.arange(0, p + 1, width)
    statistics_of(Z, groups, Z @ rng.normal(size=p) + rng.normal(size=len(Z)), step=300).save(
        tmp_path / "a.npz"
    )
    for module, name, value in [
        (block_descent, "MOST_PRODUCTS", 0),
        (block_descent, "LARGEST_SYSTEM", 20),
        (summaries, "WIDTH", 30),
        (triangle, "WIDTH", 30),
        (statistics, "PIECE", 30 * p),
        (features, "PIECE", 30 * p),
    ]:
        monkeypatch.setattr(module, name, value)
    kw.rls2_path(statistics_of(Z[:30, :10], [0, 5, 10], Z[:30, 0]), n_alphas=2)  # imports
    tracemalloc.start()
    sums = kw.BlockStatistics.load(tmp_path / "a.npz", mmap_mode="r")
    path = kw.rls2_path(sums, alphas=[1000.0, 30.0, 1.0, 0.1], tol=1e-2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.rel_gap.max() <= 1e-2
    assert np.count_nonzero(path.weights[-1]) >= 0.9 * (len(groups) - 1)
    # a copy of the factor, or all sums, would be more
    assert peak <= 1.45 * 8 * p * p, f"{peak / (8 * p * p):.2f}"


def test_a_warning_says_what_a_factor_takes(monkeypatch):
    Z, groups, y = make(30)
    sums = statistics_of(Z, groups, y)
    monkeypatch.setattr(summaries, "machine_memory", lambda: 1000.0)
    with pytest.warns(kw.KernelWarning, match="A factor of 17 columns takes"):
        kw.rls2_path(sums, n_alphas=2)


def test_sums_can_stay_in_their_files(tmp_path, monkeypatch):
    monkeypatch.setattr(triangle, "WIDTH", 5)
    Z, groups, y = make(60)
    folds = kw.rows.block_statistics(Z, y, groups=groups, folds=3)
    folds.save(tmp_path / "folds.npz")
    mapped = kw.rows.FoldStatistics.load(tmp_path / "folds.npz", mmap_mode="r")
    assert [part._scatter.nbytes for part in mapped.parts] == [0, 0, 0]
    wanted, found = (kw.rows.rls2_path_cv(one, n_alphas=4, tol=1e-9) for one in (folds, mapped))
    assert_allclose(found.mse, wanted.mse, rtol=1e-12)
    assert [part._scatter.nbytes for part in mapped.parts] == [0, 0, 0]
    assert (mapped.parts[1].ZtZ == folds.parts[1].ZtZ).all()
    mapped.save(tmp_path / "again.npz")
    again = kw.rows.FoldStatistics.load(tmp_path / "again.npz")
    # what is added is added in memory
    mapped.parts[0].add(Z, y)
    assert mapped.parts[0]._scatter.nbytes > 0
    assert_allclose(mapped.parts[0].ZtZ, (again.parts[0] + folds.total).ZtZ, rtol=1e-12)
    folds.save(tmp_path / "folds.npz")
    with pytest.raises(InputError, match="was changed or removed"):
        kw.rls2_path(mapped.parts[1], n_alphas=2)
    (tmp_path / "folds.npz").unlink()
    with pytest.raises(InputError, match="was changed or removed"):
        kw.rls2_path(mapped.parts[1], n_alphas=2)
    state = folds.parts[0].state() | {
        "format": "kernelweave statistics",
        "version": 1,
        "kind": "statistics of blocks",
    }
    np.savez_compressed(tmp_path / "small.npz", **state)
    assert (kw.BlockStatistics.load(tmp_path / "small.npz").ZtZ == folds.parts[0].ZtZ).all()
    with pytest.raises(InputError, match="is compressed"):
        kw.BlockStatistics.load(tmp_path / "small.npz", mmap_mode="r")
    with pytest.raises(InputError, match="`mmap_mode` must be"):
        kw.BlockStatistics.load(tmp_path / "again.npz", mmap_mode="w+")


def test_a_factor_of_sums_has_the_error_that_it_states():
    """With many targets: columns are left out up to their own number of roundings, and no more."""
    p, outputs = 8, 60
    G = np.diag([*[1.0] * (p - 1), 6e-15])
    whole = np.zeros((p + outputs, p + outputs), order="F")
    whole[:p, :p] = G
    Z, _, error = summaries._factor(lambda: whole.copy(order="F"), p)
    assert np.abs(Z.T @ Z - G).max() <= error < 6e-15


# ---- chunks that are refused ------------------------------------------------------------------------


def test_rows_of_a_chunk_are_checked_like_whole_tables(rng):
    Z, y, w = rng.normal(size=(5, 3)), rng.normal(size=5), rng.uniform(0.5, 2.0, 5)
    for form in (np.array, sparse.csr_array):
        rows, targets, weights, single = check_rows(form(Z), y, w, None, 3, 1)
        assert_allclose(rows.toarray() if sparse.issparse(rows) else rows, Z)
        assert (targets.shape, single) == ((5, 1), True)
        assert_allclose(targets[:, 0], y)
        assert_allclose(weights, w)
        assert check_rows(form(Z), y, None, None, 0, 0)[2] is None
        assert not check_rows(form(Z), np.c_[y, y], 0.0 * w, None, 0, 2)[2].any()
        assert not check_rows(form(Z), np.c_[y], w, None, 0, 0)[3]
        empty = check_rows(form(Z[:0]), y[:0], w[:0], None, 3, 2)
        assert (empty[1].shape, empty[2], empty[3]) == ((0, 2), None, True)
        assert not check_rows(form(Z[:0]), np.empty((0, 2)), None, None, 3, 2)[3]
        wrong = {"`sample_weight`": (Z, y, w[:4]), "`y`": (Z[:0], y, None), "2 columns": (Z, y, w, 3, 2)}
        wrong |= {"4 columns": (Z, y, w, 4, 0), "`sample_weight` must": (Z, y, np.zeros(4)), "nonneg|negative|least": (
            Z, y, -w
        )}  # fmt: skip
        for value in (np.nan, np.inf, -np.inf, 1e200, -1e200):
            spoilt = Z.copy()
            spoilt[2, 1] = value
            wrong[f"`Z`.*|{value}"] = (spoilt, y, w)
        for words, (table, target, given, *numbers) in wrong.items():
            with pytest.raises(InputError, match=words):
                check_rows(form(table), target, given, None, *(numbers or (0, 0)))


def test_few_numbers_in_every_column_stay_sparse():
    """A tenth of the table, and half of a column."""
    for inside, column, wanted in ((100, 10, True), (101, 10, False), (60, 50, True), (60, 51, False)):
        Z = sparse.lil_array((100, 10))
        Z[:column, 0] = 1.0
        rest = inside - column
        for k in range(rest):
            Z[k % 20, 1 + k // 20] = 1.0
        Z = sparse.csr_array(Z)
        assert Z.nnz == inside
        assert stays_sparse(Z) == wanted


def everything(found, V):
    """All numbers of statistics."""
    both = [[kind(centered=centered) for centered in (True, False)] for kind in (
        found.products, found.upper_products, found.squares, found.reach, found.mean_diagonals
    )]  # fmt: skip
    return [
        *both, found.times(V), found.ZtZ, found.Zty, found.yty, found.feature_means, found.target_means,
        found.weight_sum, [found.n_rows, found.n_features, found.n_outputs, found.n_kernels], repr(found), found.taken,
    ]  # fmt: skip


@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("width", [4, 2048])
def test_all_numbers_are_those_of_the_rows(n_outputs, width, monkeypatch, tmp_path):
    """After chunks of every kind were added, merged, copied, subtracted and read again, with weights and means."""
    monkeypatch.setattr(triangle, "WIDTH", width)
    monkeypatch.setattr(statistics, "PIECE", 30)
    monkeypatch.setattr(statistics, "ROWS", 3)
    rng = np.random.default_rng(0)
    Z, groups, y = make(n=50, n_outputs=n_outputs, seed=4)
    Z = Z + np.linspace(-20.0, 30.0, Z.shape[1])
    Z[20:40] *= rng.random((20, Z.shape[1])) < 0.08
    weight = rng.uniform(0.3, 3.0, 50)
    weight[[3, 30, 45]] = 0.0
    V = rng.normal(size=(Z.shape[1] + (n_outputs or 1), 2))
    names, columns = [f"b{k}" for k in range(6)], [f"c{k}" for k in range(Z.shape[1])]
    found = kw.BlockStatistics(groups, names=names, columns=columns)
    assert (found.n_kernels, found.n_features, found.n_outputs, found.n_rows) == (6, Z.shape[1], 0, 0)
    found.add(Z[:12], y[:12], weight[:12], taken=("a", 12))
    found.add(Z[12:20], y[12:20], np.ones(8), taken=("b", 8))
    weight[12:20] = 1.0
    found.add(Z[:0], y[:0])
    other = found.empty()
    assert (other.names, other.columns, other.n_kernels, other.n_rows) == (tuple(names), tuple(columns), 6, 0)
    other.add(sparse.csr_array(Z[20:40]), y[20:40], weight[20:40], taken=("a", 5))
    other.add(Z[40:].astype(np.float32), y[40:], weight[40:])
    Z[40:] = Z[40:].astype(np.float32)
    reach = found.reach(centered=False) + other.reach(centered=False)
    both = found.copy().merge(other)
    assert found.taken == {"a": 12, "b": 8}
    assert both.taken == {"a": 17, "b": 8}
    more = found + other
    path = tmp_path / "sums.npz"
    both.save(path)
    again, mapped = kw.BlockStatistics.load(path), kw.BlockStatistics.load(path, mmap_mode="r")

    def check(own, rows):
        w, A = weight[rows], np.c_[Z[rows], y[rows]]
        means = w @ A / w.sum()
        p = Z.shape[1]
        inner, about = (A * w[:, None]).T @ A, ((A - means) * w[:, None]).T @ (A - means)
        size = np.abs(inner).max()
        for centered, S in ((True, about), (False, inner)):
            assert_allclose(own.products(centered=centered), S, atol=1e-12 * size)
            assert_allclose(np.triu(own.upper_products(centered=centered)), np.triu(S), atol=1e-12 * size)
            assert_allclose(own.squares(centered=centered), np.diag(S), atol=1e-12 * size)
            diagonals = np.add.reduceat(np.diag(S)[:p], groups[:-1]) / w.sum()
            assert_allclose(own.mean_diagonals(centered=centered), diagonals, rtol=1e-10)
            # sums of squares of what was added; means are moved at most once more
            assert (own.reach(centered=centered) >= np.diag(S) * (1 - 1e-12)).all()
        assert_allclose(own.times(V), about @ V, atol=1e-11 * size)
        assert_allclose(own.ZtZ, inner[:p, :p], atol=1e-12 * size)
        assert_allclose(own.Zty, inner[:p, p] if n_outputs is None else inner[:p, p:], atol=1e-12 * size)
        assert_allclose(own.yty, inner[p:, p:], atol=1e-12 * size)
        assert_allclose(own.feature_means, means[:p], rtol=1e-12)
        assert_allclose(own.target_means, means[p:], rtol=1e-11, atol=1e-14)
        assert own.weight_sum == pytest.approx(w.sum(), rel=1e-14)
        assert (own.n_rows, own.n_outputs, own.single) == (
            np.count_nonzero(w),
            n_outputs or 1,
            n_outputs is None,
        )

    every = np.arange(50)
    for own in (both, more, again, mapped):
        check(own, every)
        assert (
            repr(own)
            == f"BlockStatistics(47 rows, {Z.shape[1]} features in 6 blocks, {n_outputs or 1} outputs)"
        )
        assert_allclose(own.reach(centered=False), reach, rtol=1e-12)
        assert own.taken == {"a": 17, "b": 8}
        assert (own.names, own.columns) == (tuple(names), tuple(columns))
    before = everything(both, V)
    # of any size, also where less is left than 1
    small = statistics_of(1e-3 * Z, groups, 1e-3 * y) - statistics_of(1e-3 * Z[:45], groups, 1e-3 * y[:45])
    left = 1e-3 * (np.c_[Z, y][45:] - np.c_[Z, y][45:].mean(axis=0))
    assert_allclose(small.squares(centered=True), np.square(left).sum(axis=0), rtol=1e-6)
    check(found, every[:20])
    left = both - found
    check(left, every[20:])
    assert left.taken == {"a": 5, "b": 0}
    for centered in (True, False):
        both_reach, own_reach = both.reach(centered=centered), found.reach(centered=centered)
        assert_allclose(left.reach(centered=centered), both_reach + own_reach, rtol=1e-12)
    # what was subtracted from stays as it is, and nothing is left of all
    for one, two in zip(before, everything(both, V), strict=True):
        assert str(one) == str(two)
    none = both - both.copy()
    assert (none.n_rows, none.weight_sum, none.n_outputs) == (0, 0.0, n_outputs or 1)
    assert not none.products(centered=True).any()
    check(none.add(Z[:12], y[:12], weight[:12]), every[:12])
    assert both.subtract(both.empty()) is both
    assert found.merge(other.empty()).n_rows == 19


def test_what_statistics_refuse_is_told(recorded, tmp_path):
    Z, groups, y = make(n=12)
    found = kw.BlockStatistics(groups, names=list("abcdef")).add(Z, y)
    path = tmp_path / "sums.npz"
    found.save(path)
    of_folds = tmp_path / "folds.npz"
    write_arrays(of_folds, kw.rows.FoldStatistics.KIND, {})
    state = found.state()
    said = []

    def of(**changes):
        return lambda: kw.BlockStatistics.of_state({**state, **changes}, "file")

    damaged = state["products"].copy()
    damaged[0] = -1.0
    for ask in (
        lambda: kw.BlockStatistics([0, 2, 2]),
        lambda: kw.BlockStatistics([1, 2]),
        lambda: kw.BlockStatistics([0.5, 2]),
        lambda: kw.BlockStatistics(groups, names=["a"]),
        lambda: kw.BlockStatistics(groups, columns=["a"]),
        lambda: found.copy().add(Z[:, :3], y),
        lambda: found.copy().add(Z, np.c_[y, y]),
        lambda: found.copy().add(Z, y[:3]),
        lambda: found.copy().add(Z[:0], y[:3]),
        lambda: found.copy().add(Z, y, np.ones(3)),
        lambda: found.copy().add(Z, y, -np.ones(12)),
        lambda: found.copy().add(Z * [np.nan] + 0.0, y),
        lambda: found.copy().add(1e200 * Z, y),
        lambda: found.merge(found),
        lambda: found.merge(3),
        lambda: found.merge(kw.BlockStatistics([0, 3, 16])),
        lambda: found.merge(kw.BlockStatistics(groups, names=list("abcdeg"))),
        lambda: found.merge(kw.BlockStatistics(groups).add(Z, np.c_[y, y])),
        lambda: found.copy().subtract(kw.BlockStatistics(groups).add(np.r_[Z, Z], np.r_[y, y])),
        lambda: found.copy().subtract(kw.BlockStatistics(groups).add(9.0 * Z[:5], y[:5])),
        lambda: kw.BlockStatistics.load(tmp_path / "none.npz"),
        lambda: kw.BlockStatistics.load(path, mmap_mode="w"),
        lambda: kw.rows.FoldStatistics.load(path),
        lambda: kw.BlockStatistics.load(of_folds),
        lambda: kw.BlockStatistics.from_files(tmp_path / "nowhere"),
        lambda: kw.BlockStatistics.from_files(tmp_path, "x*"),
        of(counts=np.array([16, 1, -1, 1])),
        of(means=np.zeros((2, 3))),
        of(reach=np.full((2, 17), np.nan)),
        of(weight_sum=np.array(-1.0)),
        of(weight_sum=np.array(0.0)),
        of(products=damaged),
        of(products=damaged[:5]),
        of(names=np.array(["a"])),
    ):
        with pytest.raises(InputError) as error:
            ask()
        said.append(str(error.value).replace(str(tmp_path), "FOLDER"))
    recorded("messages", said)
    assert found.__sub__(0) is NotImplemented
    assert sum([found, kw.BlockStatistics(groups)]).n_rows == 12


@pytest.mark.parametrize("place", ["products", "in place"])
@pytest.mark.parametrize("data", ["many rows", "few rows", "outputs"])
def test_the_way_along_a_path(data, place, monkeypatch, recorded):
    monkeypatch.setattr(block_descent, "MOST_PRODUCTS", 1 if place == "in place" else 6000)
    Z, groups, y = make(9 if data == "few rows" else 70, n_outputs=2 if data == "outputs" else None)
    Z, n = Z + np.linspace(0.0, 3.0, Z.shape[1]), len(Z)
    weights = np.where(np.arange(n) % 6 == 2, 0.0, 0.5 + np.arange(n) / n)
    found = statistics_of(Z, groups, y + 2.0, weights)
    given = {"scale": np.linspace(2.0, 0.5, len(groups) - 1), "fit_intercept": data != "outputs"}
    path = kw.rls2_path(found, None, np.geomspace(20.0, 0.5, 4), tol=1e-8, **given)
    record_solved(recorded, "path", path, "feature_coef", "intercept")
    in_few_iterations(path, 500)
    assert set(verdicts(kw.problems.rls2_problem(found, **given), path)) == {"CONVERGED"}
    relaxed = kw.rls2_path(found, None, [3.0, 0.5], relax=[0.1, 1.0], tol=1e-8, **given)
    recorded("relaxed", [relaxed.ridge_primal, np.linalg.norm(relaxed.feature_coef, axis=-1)], rtol=1e-3)
    recorded("alphas", kw.rls2_path(found, None, n_alphas=3, **given).alphas, rtol=1e-3)
    if place == "products":
        criteria = {"df": path.df, **path.criteria}
        recorded("criteria", {name: values for name, values in criteria.items() if name != "cp"}, rtol=1e-2)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("kind", ["plain", "dependent", "more columns than rows", "explained"])
def test_rows_that_stand_for_others(kind, centered, monkeypatch, recorded):
    monkeypatch.setattr(summaries, "WIDTH", 3)
    Z, groups, Y = make(9 if kind == "more columns than rows" else 30, n_outputs=2)
    Z = Z + np.linspace(0.0, 3.0, Z.shape[1])
    if kind == "dependent":
        Z[:, 4], Z[:, 9], Z[:, 12] = Z[:, 0] - 2.0 * Z[:, 2], Z[:, 8], 0.0
    if kind == "explained":
        Y = np.column_stack([Z[:, 0] - Z[:, 5], Z[:, 3] + 1e-3 * Y[:, 0]])
    found = statistics_of(Z, groups, Y, 0.5 + np.arange(len(Z)) / len(Z))
    rows, targets, summary = summaries.summarised(found, centered=centered)
    A = np.c_[Z, Y] - (
        np.average(np.c_[Z, Y], axis=0, weights=0.5 + np.arange(len(Z)) / len(Z)) if centered else 0.0
    )
    products = A.T @ ((0.5 + np.arange(len(Z)) / len(Z))[:, None] * A)
    own = np.c_[rows.rows.T, targets]
    assert_allclose((own.T @ own)[:16], products[:16], atol=1e-7 * np.abs(products).max())
    recorded("rows", [rows.rows.shape, np.square(own).sum(axis=0)], **NEAR)
    recorded(
        "summary", [summary.feature_means, summary.target_means, summary.weight_sum, summary.stretch], **NEAR
    )
    assert 1e-17 < summary.error < 1e-12
    squares = np.square(own[:, 16:]).sum(axis=0) + 2.0 * summary.constants
    assert_allclose(squares, np.diag(products)[16:], rtol=1e-9)
    before = rows.columns(np.arange(16)).copy()
    for kernel, factor in ((2, 3.0), (0, 0.5), (1, 2.0), (2, 1.5)):
        norms = rows.turn(kernel, factor)
        part = slice(groups[kernel], groups[kernel + 1])
        assert_allclose(rows.rows[part] @ rows.rows[part].T, np.diag(norms), atol=1e-9 * norms.max())
        assert_allclose(norms.sum(), factor**2 * np.square(before[part]).sum())
    some = np.array([1, 3, 6, 8, 15])
    assert_allclose(rows.columns(some), before[some], atol=1e-9)
    R, coef = np.cos(np.arange(2.0 * before.shape[1])).reshape(2, -1), np.arange(10.0).reshape(2, 5) - 4.0
    assert_allclose(rows.products(R), R @ before.T, atol=1e-9)
    assert_allclose(rows.combine(some, coef), coef @ before[some], atol=1e-9)


def test_work_on_kept_rows_of_a_chunk_leaves_zeros_for_the_others():
    Z, keep, shift = np.arange(10.0).reshape(5, 2), np.array([0.0, 1.0, 0.0, 1.0, 1.0]), np.arange(5.0)

    def work(rows, beside):
        return [rows[:, 0] + beside[0], -rows[:, 1]], (rows.sum(axis=0),)

    (first, second), (total,) = chunked._masked(work, Z, [keep, shift])
    assert_allclose(first, keep * (Z[:, 0] + shift))
    assert_allclose(second, -keep * Z[:, 1])
    assert_allclose(total, keep @ Z)
