"""Machines on rows that are read in chunks: the same as in memory, whatever the chunks, sources and workers.

Modules: `rows/row_features`, `rows/validation`, `gram/chunked`, `mkl/features/row_machine`, `mkl/features/row_newton`,
`rows/chunks`, `rows/sampling`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

import kernelweave as kw
from journeys import in_few_iterations, record_solved
from kernelweave.gram.chunked import ChunkedFeatures, SampledRows
from kernelweave.mkl.features import newton
from kernelweave.rows import sampling, sources

GROUPS = [0, 3, 6, 9, 12]
LOSSES = ["logistic", "squared-hinge", "hinge", "epsilon-insensitive"]


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1500, 12)) + np.linspace(-1, 1, 12)
    f = Z[:, :4] @ rng.normal(size=4) + 0.8
    return Z, np.where(f + rng.normal(size=1500) > 0, 1.0, -1.0), f + 0.5 * rng.normal(size=1500)


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of a fifth of the rows, so that passes have something to do."""
    monkeypatch.setattr(sampling, "LEAST", 300)
    monkeypatch.setattr(sampling, "ROWS", 1)


def in_chunks(Z: np.ndarray, *more: np.ndarray, size: int = 400) -> list[tuple[np.ndarray, ...]]:
    return [tuple(one[first : first + size] for one in (Z, *more)) for first in range(0, len(Z), size)]


@pytest.mark.parametrize("loss", LOSSES)
def test_chunks_have_the_solution_of_rows_in_memory(
    data: tuple[np.ndarray, ...], small_sample: None, loss: str
) -> None:
    Z, labels, targets = data
    y = targets if loss == "epsilon-insensitive" else labels
    Cs = [1e-3, 1e-2, 1e-1]
    rows = kw.RowFeatures(in_chunks(Z, y), groups=GROUPS)
    assert len(rows.sample.positions) == 300
    path = kw.solvers.svm_mkl_path(rows, None, Cs, loss=loss, tol=1e-6)
    assert path.rel_gap.max() <= 1e-6
    assert path.n_iter.min() > 1
    held = kw.solvers.svm_mkl_path(kw.FeatureStack(Z, GROUPS), y, Cs, loss=loss, tol=1e-9)
    assert (path.primal - held.dual >= -1e-12).all()
    assert np.abs(path.primal / held.primal - 1.0).max() <= 1e-6
    for k, C in enumerate(Cs):
        one = path.at(k)
        for problem in (
            kw.problems.margin_problem(rows, None, C, loss=loss),
            kw.problems.margin_problem(kw.FeatureStack(Z, GROUPS), y, C, loss=loss),
        ):
            checked = one.verify(problem)
            assert checked.status is kw.solvers.Status.CONVERGED
            assert checked.rel_gap <= 1e-6


def test_sums_over_rows_that_are_kept(data: tuple[np.ndarray, ...]) -> None:
    Z, y, targets = data[0][:50], data[1][:50], data[2][:50]
    rows = kw.RowFeatures(in_chunks(Z, y, np.abs(targets) + 0.1, size=7), groups=GROUPS)
    some = np.array([0, 3, 4, 6, 7, 20, 34, 35, 49])
    rng = np.random.default_rng(0)
    for own, kept in ((rows, np.arange(50)), (rows.restrict(some), some)):
        R, index, coef = rng.normal(size=(2, len(kept))), np.array([7, 0, 3]), rng.normal(size=(2, 3))
        np.testing.assert_allclose(own.products(R), R @ Z[kept], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(own.combine(index, coef), coef @ Z[kept][:, index].T, rtol=1e-12)
        np.testing.assert_array_equal(own.y, y[kept])
        np.testing.assert_array_equal(own.sample_weight, (np.abs(targets) + 0.1)[kept])
        # the sample is of rows that are kept, by their numbers among these
        np.testing.assert_array_equal(own.sample.Z, Z[kept][own.sample.positions])


def test_passes_are_counted_and_limited(data: tuple[np.ndarray, ...], small_sample: None) -> None:
    Z, y, _ = data
    rows = kw.RowFeatures(in_chunks(Z, y), groups=GROUPS)
    for most in (1, 2):
        found = kw.solve_svm_mkl(rows, None, 0.05, loss="logistic", tol=1e-14, max_iter=most)
        assert (found.n_iter, found.status) == (most, kw.solvers.Status.MAX_ITER)


def test_gap_belongs_to_the_primal_objective(data: tuple[np.ndarray, ...], small_sample: None) -> None:
    Z, y, _ = data
    C = 0.02
    one = kw.solve_svm_mkl(kw.RowFeatures(in_chunks(Z, y), groups=GROUPS), None, C, loss="hinge", tol=1e-5)
    f = Z @ one.feature_coef + one.intercept
    norms = np.sqrt(np.add.reduceat(np.square(one.feature_coef), GROUPS[:-1]))
    primal = C * np.maximum(1.0 - y * f, 0.0).sum() + 0.5 * norms.sum() ** 2
    b = one.dual_coef
    assert abs(b.sum()) < 1e-12
    assert (y * b >= 0).all()
    assert (np.abs(b) <= C * (1 + 1e-12)).all()
    reach = np.add.reduceat(np.square(Z.T @ b), GROUPS[:-1]).max()
    assert one.primal == pytest.approx(primal, rel=1e-12)
    assert primal - (y @ b - 0.5 * reach) <= one.gap * (1 + 1e-6)


def test_weights_of_rows_and_elastic_net(data: tuple[np.ndarray, ...], small_sample: None) -> None:
    Z, y, _ = data
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, len(y)).astype(float)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    net = kw.weight_sets.ElasticNet(0.6)
    rows = kw.RowFeatures(in_chunks(Z, y, weight), groups=GROUPS)
    one = kw.solve_svm_mkl(rows, None, 0.01, net, loss="logistic", tol=1e-7)
    stack = kw.FeatureStack(Z[repeated], GROUPS)
    held = kw.solve_svm_mkl(stack, y[repeated], 0.01, net, loss="logistic", tol=1e-9)
    assert one.primal == pytest.approx(held.primal, rel=1e-7)
    assert one.dual_coef.shape == (len(y),)
    assert not one.dual_coef[weight == 0].any()
    problem = kw.problems.margin_problem(rows, None, 0.01, net, loss="logistic")
    assert one.verify(problem).status is kw.solvers.Status.CONVERGED


@pytest.mark.full
def test_sources_and_workers_agree(data: tuple[np.ndarray, ...], small_sample: None, tmp_path: Path) -> None:
    import dask.array as da
    import pandas as pd
    from scipy import sparse

    Z, y, _ = data
    names = [f"x{j}" for j in range(12)]
    for k, (part, labels) in enumerate(in_chunks(Z, y, size=600)):
        pd.DataFrame(part, columns=names).assign(label=labels).to_parquet(tmp_path / f"{k}.parquet")
    mapped = np.lib.format.open_memmap(tmp_path / "Z.npy", mode="w+", shape=Z.shape)
    mapped[:] = Z

    def parts() -> Iterator[tuple[np.ndarray, ...]]:
        yield from in_chunks(Z, y, size=111)

    table = {"target": "label", "groups": {f"g{m}": names[3 * m : 3 * m + 3] for m in range(4)}}
    sources = {
        "memory map": kw.RowFeatures(mapped, y, groups=GROUPS, max_memory="200KB"),
        "function": kw.RowFeatures(parts, groups=GROUPS),
        "sparse": kw.RowFeatures(sparse.csr_array(Z), y, groups=GROUPS),
        "files": kw.RowFeatures(tmp_path, **table),
        "two at a time": kw.RowFeatures(tmp_path, n_jobs=2, **table),
        "dask": kw.RowFeatures(da.from_array(Z, chunks=(500, 12)), y, groups=GROUPS),
    }
    wanted = None
    for name, rows in sources.items():
        held = rows.sample.Z.toarray() if sparse.issparse(rows.sample.Z) else rows.sample.Z
        np.testing.assert_array_equal(held, Z[rows.sample.positions], err_msg=name)
        one = kw.solve_svm_mkl(rows, None, 0.05, loss="logistic", tol=1e-9)
        wanted = one if wanted is None else wanted
        assert one.primal == pytest.approx(wanted.primal, rel=2e-9), name
        # points of files are sampled by the names of these, and others by numbers
        # measured: 2e-8
        assert np.allclose(one.feature_coef, wanted.feature_coef, atol=1e-6), name
    assert sources["files"].names == ("g0", "g1", "g2", "g3")
    f = kw.rows.predict_rows(one, tmp_path / "0.parquet", columns=names)
    assert np.allclose(f, Z[:600] @ one.feature_coef + one.intercept)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_cross_validation_is_that_of_fits_without_each_fold(
    data: tuple[np.ndarray, ...], small_sample: None, loss: str
) -> None:
    Z, y, _ = data
    rows = kw.RowFeatures(Z, y, groups=GROUPS)
    Cs = [1e-3, 1e-1]
    found = kw.rows.svm_mkl_path_cv(rows, Cs, loss=loss, folds=3, tol=1e-6)
    numbers = rows.folds(3)
    assert np.array_equal(numbers, kw.RowFeatures(in_chunks(Z, y, size=77), groups=GROUPS).folds(3))
    for k in range(3):
        own = numbers == k
        held = kw.solvers.svm_mkl_path(kw.FeatureStack(Z[~own], GROUPS), y[~own], Cs, loss=loss, tol=1e-8)
        f = Z[own] @ found.fold_coef[k].T + found.fold_intercept[k]
        # measured: 1.5e-3, of gaps of 1e-6
        assert np.allclose(f, Z[own] @ held.feature_coef.T + held.intercept[:, 0], atol=5e-3)
        assert np.allclose(found.accuracy[k], ((y[own] > 0) == (f > 0).T).mean(axis=1))
        assert np.allclose(found.auc[k], [roc_auc_score(y[own], one) for one in f.T], rtol=1e-12)
    assert found.best_index == int(np.argmax(found.mean_accuracy))
    assert np.array_equal(found.Cs, Cs)
    assert found.path.rel_gap.max() <= 1e-6


def test_rows_without_weight_are_in_no_fold(data: tuple[np.ndarray, ...], small_sample: None) -> None:
    Z, y, _ = data
    weight = np.arange(len(y)) % 3 * 1.0
    rows = kw.RowFeatures(Z, y, sample_weight=weight, groups=GROUPS)
    Cs = [1e-3, 1e-1]
    found = kw.rows.svm_mkl_path_cv(rows, Cs, loss="logistic", folds=3, tol=1e-7)
    numbers = rows.folds(3)
    for k in range(3):
        own, others = numbers == k, (numbers != k) & (weight > 0)
        held = kw.solvers.svm_mkl_path(
            kw.FeatureStack(Z[others], GROUPS),
            y[others],
            Cs,
            loss="logistic",
            sample_weight=weight[others],
            tol=1e-9,
        )
        # measured: 9e-5, of gaps of 1e-7
        np.testing.assert_allclose(found.fold_coef[k], held.feature_coef, atol=5e-4)
        f = Z[own] @ found.fold_coef[k].T + found.fold_intercept[k]
        right = np.average((y[own] > 0) == (f > 0).T, axis=1, weights=weight[own])
        np.testing.assert_allclose(found.accuracy[k], right, rtol=1e-12)
    assert found.path.dual_coef.shape == (2, len(y))
    assert not found.path.dual_coef[:, weight == 0].any()


def test_a_fold_of_one_class_has_no_area(data: tuple[np.ndarray, ...], small_sample: None) -> None:
    Z, y, _ = data
    numbers = kw.RowFeatures(Z, y, groups=GROUPS).folds(3)
    labels = np.where(numbers == 2, -1.0, y)
    rows = kw.RowFeatures(Z, labels, groups=GROUPS)
    found = kw.rows.svm_mkl_path_cv(rows, [1e-2], loss="logistic", folds=3)
    assert np.isnan(found.auc[:, 0]).tolist() == [False, False, True]
    assert np.isfinite(found.accuracy).all()
    with pytest.raises(kw.InputError, match="both classes for scoring='auc', got 1 folds with one"):
        kw.rows.svm_mkl_path_cv(rows, [1e-2], loss="logistic", folds=3, scoring="auc")


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_start_takes_the_place_of_the_sample(
    data: tuple[np.ndarray, ...], small_sample: None, loss: str
) -> None:
    Z, y, _ = data
    weight = np.arange(len(y)) % 3 * 1.0
    rows = kw.RowFeatures(in_chunks(Z, y, weight), groups=GROUPS)
    cold = kw.solve_svm_mkl(rows, None, 0.02, loss=loss, tol=1e-7)
    assert cold.n_iter > 2
    again = kw.solve_svm_mkl(rows, None, 0.02, loss=loss, tol=1e-6, start=cold)
    assert again.n_iter == 1
    # weights and coefficients of rows, from which those of features follow
    parts = kw.results.WarmStart(cold.weights, cold.dual_coef)
    near = kw.solve_svm_mkl(rows, None, 0.02, loss=loss, tol=1e-6, start=parts)
    assert near.rel_gap <= 1e-6
    far = kw.solve_svm_mkl(rows, None, 0.5, loss=loss, tol=1e-6, start=cold)
    want = kw.solve_svm_mkl(rows, None, 0.5, loss=loss, tol=1e-6)
    assert abs(far.primal - want.primal) <= far.gap + want.gap
    with pytest.raises(kw.InputError, match="for 4 kernels"):
        kw.solve_svm_mkl(rows, None, 0.02, loss=loss, start=kw.results.WarmStart(np.ones(3)))


def test_scales_are_means_with_the_weights_of_the_rows(data: tuple[np.ndarray, ...]) -> None:
    from scipy import sparse

    Z, y, _ = data
    weight = np.random.default_rng(2).integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    want = kw.RowFeatures(Z[repeated], y[repeated], groups=GROUPS).scales()
    diagonals = kw.rows.block_statistics(Z[repeated], y[repeated], groups=GROUPS).mean_diagonals(
        centered=False
    )
    np.testing.assert_allclose(want * diagonals, 1.0, rtol=1e-12)
    for rows in (Z, sparse.csr_array(Z)):
        found = kw.RowFeatures(rows, y, sample_weight=weight, groups=GROUPS).scales()
        np.testing.assert_allclose(found, want, rtol=1e-12)


def test_rows_on_another_device_are_fetched(data: tuple[np.ndarray, ...]) -> None:
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not there")
    Z, y, _ = data
    there, labels = (xp.asarray(one, device=xp.Device("device1")) for one in (Z, y))
    want = kw.solve_svm_mkl(kw.RowFeatures(Z, y, groups=GROUPS), None, 0.02)
    for rows in (
        kw.RowFeatures(there, labels, groups=GROUPS),
        kw.RowFeatures([(there[:700, :], labels[:700]), (there[700:, :], labels[700:])], groups=GROUPS),
    ):
        found = kw.solve_svm_mkl(rows, None, 0.02)
        assert isinstance(found.feature_coef, np.ndarray)
        assert found.primal == pytest.approx(want.primal, rel=1e-12)


@pytest.mark.parametrize("kind", ["text", "sparse", "iterator"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_copy_of_the_features_is_read_in_later_passes(
    data: tuple[np.ndarray, ...], small_sample: None, tmp_path: Path, kind: str, n_jobs: int
) -> None:
    import pandas as pd
    from scipy import sparse

    Z, y, _ = data
    cache = tmp_path / "cache"
    cache.mkdir()
    options: dict[str, object] = {"groups": GROUPS, "n_jobs": n_jobs, "cache": cache}
    if kind == "text":
        tables = tmp_path / "tables"
        tables.mkdir()
        for k in range(2):
            part = slice(750 * k, 750 * (k + 1))
            pd.DataFrame(Z[part]).assign(y=y[part]).to_csv(tables / f"{k}.csv", index=False)
        rows = kw.RowFeatures(tables, target="y", max_memory="200KB", **options)
        for path in tables.iterdir():
            path.unlink()
    elif kind == "sparse":
        rows = kw.RowFeatures(sparse.csr_array(Z), y, max_memory="200KB", **options)
    else:
        rows = kw.RowFeatures(iter(in_chunks(Z, y)), **options)
    # more than one chunk
    assert len([path for path in cache.rglob("*") if path.is_file()]) > 1
    one = kw.solve_svm_mkl(rows, None, 0.05, loss="logistic", tol=1e-9)
    want = kw.solve_svm_mkl(kw.FeatureStack(Z, GROUPS), y, 0.05, loss="logistic", tol=1e-10)
    assert one.n_iter > 1
    assert abs(one.primal - want.primal) <= one.gap + want.gap
    # a part of the rows keeps the files
    part = rows.restrict(np.arange(10))
    del rows
    assert part.products(np.ones((1, 10))).shape == (1, 12)
    assert list(cache.iterdir())
    del part
    assert not list(cache.iterdir())


def test_a_pass_over_dask_rows_is_one_computation_of_all_parts(data: tuple[np.ndarray, ...]) -> None:
    import dask
    import dask.array as da
    from dask.local import get_sync

    calls = []

    def scheduler(*args: object, **settings: object) -> object:
        calls.append(args)
        return get_sync(*args, **settings)

    Z, y = data[0][:60], data[1][:60]
    with dask.config.set(scheduler=scheduler):
        rows = kw.RowFeatures(da.from_array(Z, chunks=(25, 12)), y, groups=GROUPS)
        assert len(calls) == 1
        R = np.linspace(-1.0, 1.0, 120).reshape(2, 60)
        np.testing.assert_allclose(rows.products(R), R @ Z, rtol=1e-12, atol=1e-12)
        assert len(calls) == 2
        kept = rows.restrict(np.arange(5, 60, 2))
        np.testing.assert_allclose(kept.products(R[:, 5::2]), R[:, 5::2] @ Z[5::2], rtol=1e-12, atol=1e-12)
        assert len(calls) == 3


def test_folders_of_copies_that_are_refused(data: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    import dask.array as da

    Z, y, _ = data
    with pytest.raises(kw.InputError, match="`cache` must be a folder that exists"):
        kw.RowFeatures(Z, y, groups=GROUPS, cache=tmp_path / "none")
    with pytest.raises(kw.InputError, match="`cache` must be None for Dask"):
        kw.RowFeatures(da.from_array(Z, chunks=(500, 12)), y, groups=GROUPS, cache=tmp_path)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seeds", [range(2), range(2, 6)], ids=["two", "four"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive"])
def test_steps_from_a_poor_sample_reach_the_solution(
    loss: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 rows say little: whole steps lead up, and centres of the augmented loss are far from the solution."""
    monkeypatch.setattr(sampling, "LEAST", 10)
    monkeypatch.setattr(sampling, "ROWS", 1)
    net, converged = kw.weight_sets.ElasticNet(0.5), 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(300, 9)) + 5.0 * rng.normal(size=9)
        y = (Z - Z.mean(axis=0)) @ rng.normal(size=9) + rng.normal(size=300)
        y = y if loss == "epsilon-insensitive" else np.where(y > 0, 1.0, -1.0)
        rows, stack = kw.RowFeatures(Z, y, groups=[0, 2, 5, 9]), kw.FeatureStack(Z, [0, 2, 5, 9])
        assert len(rows.sample.positions) == 64
        for C, weight_set in ((1e-3, "simplex"), (0.1, net), (100.0, net), (100.0, "simplex")):
            got = kw.solve_svm_mkl(rows, None, C, weight_set, loss=loss, tol=1e-7)
            want = kw.solve_svm_mkl(stack, y, C, weight_set, loss=loss, tol=1e-8)
            # measured: at most 1e-7, where it was 1
            assert got.rel_gap < 1e-3, (seed, C)
            assert abs(got.primal - want.primal) <= got.gap + want.gap
            converged += got.status is kw.solvers.Status.CONVERGED
    # measured: all
    assert converged >= 4 * len(seeds) - 1


def test_little_memory_takes_more_passes_and_gives_the_same(
    data: tuple[np.ndarray, ...], small_sample: None
) -> None:
    Z, y, _ = data
    few = kw.RowFeatures(Z, y, groups=GROUPS, max_memory=250_000)
    much = kw.RowFeatures(Z, y, groups=GROUPS, max_memory=np.inf)
    one, other = (kw.solvers.svm_mkl_path(rows, None, [1e-3, 1e-2], tol=1e-6) for rows in (few, much))
    assert np.abs(one.primal / other.primal - 1.0).max() <= 2e-6


class Stops:
    """Chunks whose reading is interrupted in a pass."""

    def __init__(self, chunks: list[tuple[np.ndarray, ...]], after: int) -> None:
        self.chunks, self.left = chunks, after

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return iter(self.chunks)


def test_an_interruption_keeps_the_best_point(data: tuple[np.ndarray, ...], small_sample: None) -> None:
    Z, y, _ = data
    path = kw.solvers.svm_mkl_path(
        kw.RowFeatures(Stops(in_chunks(Z, y), 3), groups=GROUPS),
        None,
        [1e-2, 1e-1],
        tol=1e-10,
        loss="logistic",
    )
    assert set(path.status) == {kw.solvers.Status.INTERRUPTED}
    assert (path.rel_gap < 0.2).all()
    for k, C in enumerate((1e-2, 1e-1)):
        problem = kw.problems.margin_problem(kw.FeatureStack(Z, GROUPS), y, C, loss="logistic")
        assert path.at(k).verify(problem).status is kw.solvers.Status.INTERRUPTED
    with pytest.raises(KeyboardInterrupt):
        kw.solvers.svm_mkl_path(kw.RowFeatures(Stops(in_chunks(Z, y), 1), groups=GROUPS), None, [1e-2])
    seen = []
    one = kw.solve_svm_mkl(
        kw.RowFeatures(Z, y, groups=GROUPS),
        None,
        0.1,
        tol=1e-9,
        callback=lambda *told: seen.append(told) or True,
    )
    assert one.status is kw.solvers.Status.INTERRUPTED
    assert len(seen) == 1
    assert seen[0][0] == 1


def test_an_interruption_on_the_sample_ends_it(
    data: tuple[np.ndarray, ...], small_sample: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Z, y, _ = data
    chunks = Stops(in_chunks(Z, y), 10)
    rows = kw.RowFeatures(chunks, groups=GROUPS)
    calls, real = [], newton.MarginDescent._step

    def step(self, *args):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(newton.MarginDescent, "_step", step)
    with pytest.raises(KeyboardInterrupt):
        kw.solvers.svm_mkl_path(rows, None, [1e-2, 1e-1], loss="logistic")
    # no pass after the one that made the object
    assert chunks.left == 9


def test_what_is_refused(data: tuple[np.ndarray, ...]) -> None:
    Z, y, targets = data
    with pytest.raises(kw.InputError, match="readable several times"):
        kw.RowFeatures(iter(in_chunks(Z, y)), groups=GROUPS)
    with pytest.raises(kw.InputError, match="at least one row"):
        kw.RowFeatures([], groups=GROUPS)
    rows = kw.RowFeatures(Z, y, groups=GROUPS)
    with pytest.raises(kw.InputError, match="`y` must be None for RowFeatures"):
        kw.solve_svm_mkl(rows, y, 1.0)
    with pytest.raises(kw.InputError, match="`y` must hold one target per row"):
        kw.solve_svm_mkl(kw.FeatureStack(Z, GROUPS), None, 1.0)
    with pytest.raises(kw.InputError, match="all rows in memory"):
        kw.solve_svm_mkl(rows, None, 1.0, kw.weight_sets.LpBall(2.0))
    with pytest.raises(kw.InputError, match="labels -1 and"):
        kw.solve_svm_mkl(kw.RowFeatures(Z, targets, groups=GROUPS), None, 1.0)
    with pytest.raises(kw.InputError, match="'loss' for targets"):
        kw.rows.svm_mkl_path_cv(rows, [1.0], loss="epsilon-insensitive", scoring="auc")

    class Changes:
        def __init__(self) -> None:
            self.size = len(y)

        def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
            self.size -= 10
            return iter([(Z[: self.size], y[: self.size])])

    with pytest.raises(kw.InputError, match="same rows in every pass, 1,490"):
        kw.solve_svm_mkl(kw.RowFeatures(Changes(), groups=GROUPS), None, 1.0)


def test_parts_progress_and_labels(data: tuple[np.ndarray, ...], small_sample: None, monkeypatch) -> None:
    Z, y, f = data
    monkeypatch.setattr(sources, "MOST", 12 * 128)
    told: list[tuple[int, int | None]] = []

    def progress(n_rows: int, total: int | None) -> None:
        told.append((n_rows, total))

    for n_jobs in (1, 2):
        told.clear()
        with joblib.parallel_config(backend="threading"):
            rows = kw.RowFeatures(Z, y, groups=GROUPS, progress=progress, n_jobs=n_jobs)
            first = [n for n, _ in told]
            assert first == sorted(set(first))
            assert (first[-1], {total for _, total in told}) == (1500, {1500})
            assert len(first) > 8
            told.clear()
            work = rows.over_all(
                lambda Z, beside: ([Z[:, 0] + beside[0]], [Z.sum(axis=0)]), [np.arange(1500.0)]
            )
        np.testing.assert_allclose(work[0][0], Z[:, 0] + np.arange(1500.0))
        np.testing.assert_allclose(work[1][0], Z.sum(axis=0))
        second = [n for n, _ in told]
        assert second == sorted(set(second))
        assert (second[-1], told[-1][1]) == (1500, 1500)
    assert repr(rows) == "RowFeatures(1500 rows, 12 features in 4 blocks)"
    np.testing.assert_allclose(rows.square_sums, np.square(Z).sum(axis=0))
    empty = (Z[:0], y[:0])
    chunks = [empty, *in_chunks(Z, 0.5 + 0.5 * y), empty]
    many = kw.RowFeatures(lambda: iter(chunks), groups=GROUPS)
    assert many.n_samples == 1500
    np.testing.assert_array_equal(many.y, 0.5 + 0.5 * y)
    many.as_labels()
    np.testing.assert_array_equal(many.y, y)
    numbers = kw.RowFeatures(Z, f)
    numbers.as_labels()
    np.testing.assert_array_equal(numbers.y, f)
    for change, said in (((Z[:5], y[:5]), "more"), (None, "1,200")):
        changed = in_chunks(Z, y)
        found = kw.RowFeatures(lambda changed=changed: iter(changed), groups=GROUPS)
        if change is None:
            changed.pop()
        else:
            changed.append(change)
        with pytest.raises(kw.InputError, match=f"the same rows in every pass, 1,500 .*got {said}"):
            found.over_all(lambda Z, beside: ([], [Z.sum(axis=0)]), [])
    with pytest.raises(kw.InputError, match=r"must have 12 columns.*In rows 9 to 17"):
        kw.RowFeatures([(Z[:9], y[:9]), (Z[:9, :3], y[:9])])


def test_scores_of_margins_are_means_over_folds(data: tuple[np.ndarray, ...]) -> None:
    Z, y, f = data
    w = np.arange(300) % 3 + 0.5
    for targets, loss in ((y[:300], "logistic"), (f[:300], "epsilon-insensitive")):
        rows = kw.RowFeatures(Z[:300], targets, groups=GROUPS, sample_weight=w)
        found = kw.rows.svm_mkl_path_cv(
            rows, [1e-1, 1e-3], loss=loss, folds=3, epsilon=0.3, rule="1se", seed=4
        )
        numbers = rows.folds(3, seed=4)
        share = np.array([w[numbers == k].sum() for k in range(3)])
        np.testing.assert_allclose(found.fold_weights, share)
        assert found.n_folds == 3
        np.testing.assert_allclose(found.Cs, [1e-3, 1e-1])
        value = np.empty((3, 2))
        for k in range(3):
            own = numbers == k
            decision = Z[:300][own] @ found.fold_coef[k].T + found.fold_intercept[k]
            if loss == "logistic":
                one = np.logaddexp(0, -targets[own, None] * decision)
            else:
                one = np.maximum(np.abs(targets[own, None] - decision) - 0.3, 0)
            value[k] = np.average(one, axis=0, weights=w[own])
        np.testing.assert_allclose(found.loss, value, rtol=1e-9)
        np.testing.assert_allclose(found.mean_loss, np.average(value, axis=0, weights=share), rtol=1e-9)
        scores = found.accuracy if loss == "logistic" else -found.loss
        np.testing.assert_array_equal(found.scores, scores)
        np.testing.assert_allclose(found.standard_error, scores.std(axis=0, ddof=1) / np.sqrt(3), rtol=1e-9)
        mean = np.average(scores, axis=0, weights=share)
        best = int(mean.argmax())
        near = [j for j in range(2) if mean[j] >= mean[best] - found.standard_error[best]]
        assert found.best_index == near[0]
        assert found.Cs[near[0]] == found.C
        assert found.best is found.path.solutions[near[0]]
        if loss == "logistic":
            np.testing.assert_allclose(
                found.mean_auc, np.average(found.auc, axis=0, weights=share), rtol=1e-9
            )
            np.testing.assert_allclose(
                found.mean_accuracy, np.average(found.accuracy, axis=0, weights=share), rtol=1e-9
            )


class Held(ChunkedFeatures):
    """Rows that are held, in chunks of so many."""

    def __init__(self, Z, y, weight, size, kind=np.asarray):
        self.Z, self.y, self.sample_weight, self.size, self.kind_of = Z, y, weight, size, kind
        self.groups, self.n_samples, self.n_given = np.array([0, 2, 5]), len(Z), len(Z)
        at = np.array([1, 4, 7, 8])
        self.sample = SampledRows(kind(Z[at]), at, np.array([2.0, 3.0, 1.0, 4.0]))

    def over_all(self, work, beside):
        vectors, sums = [], []
        for first in range(0, len(self.Z), self.size):
            part = slice(first, first + self.size)
            own, total = work(self.kind_of(self.Z[part]), [values[part] for values in beside])
            vectors.append(own)
            sums.append(total)
        return (
            [np.concatenate(own) for own in zip(*vectors, strict=True)],
            tuple(np.sum(own, axis=0) for own in zip(*sums, strict=True)),
        )


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("size", [3, 100])
def test_passes_over_chunks_are_those_over_rows(size, kind) -> None:
    """Of all rows and of some, whose chunks are read whole."""
    rng = np.random.default_rng(0)
    Z, y, weight = rng.normal(size=(10, 5)), rng.normal(size=10), rng.uniform(0.5, 2.0, 10)
    whole = Held(Z, y, weight, size, kind)
    R, index, coef = rng.normal(size=(2, 10)), np.array([4, 0]), rng.normal(size=(3, 2))
    assert (whole.n_features, whole.n_kernels, whole.widths.tolist()) == (5, 2, [2, 3])
    np.testing.assert_allclose(whole.products(R), R @ Z, atol=1e-12)
    np.testing.assert_allclose(whole.combine(index, coef), coef @ Z[:, index].T, atol=1e-12)
    rows = np.array([0, 1, 5, 7, 8])
    some = whole.restrict(rows)
    np.testing.assert_allclose(some.products(R[:, rows]), R[:, rows] @ Z[rows], atol=1e-12)
    np.testing.assert_allclose(some.combine(index, coef), coef @ Z[rows][:, index].T, atol=1e-12)
    assert (some.n_samples, some.n_given, some.kept.tolist()) == (5, 10, rows.tolist())
    np.testing.assert_array_equal(some.y, y[rows])
    np.testing.assert_array_equal(some.sample_weight, weight[rows])
    assert some.sample.positions.tolist() == [1, 3, 4]
    assert some.sample.shares.tolist() == [2.0, 1.0, 4.0]
    np.testing.assert_array_equal(some.held().products(np.eye(3)), Z[[1, 7, 8]])
    assert some.held().groups.tolist() == [0, 2, 5]
    assert whole.kept is None
    with pytest.raises(kw.InputError, match="cannot be left out once more"):
        some.restrict(np.array([0]))
    with pytest.raises(kw.InputError, match="need the 10 rows in memory"):
        whole.gram()


@pytest.mark.parametrize("case", ["logistic", "squared-hinge", "elastic net", "whole"])
def test_the_way_of_the_passes(data: tuple[np.ndarray, ...], case: str, monkeypatch, recorded) -> None:
    Z, y = data[0][:900], data[1][:900]
    if case != "whole":
        monkeypatch.setattr(sampling, "LEAST", 250)
        monkeypatch.setattr(sampling, "ROWS", 1)
    weight = np.where(np.arange(900) % 7 == 3, 0.0, 0.5 + np.arange(900) / 900)
    rows = kw.RowFeatures(in_chunks(Z, y, weight, size=350), groups=GROUPS)
    given = {
        "loss": case if case in LOSSES else "logistic",
        "tol": 1e-8,
        "weight_set": kw.weight_sets.ElasticNet(0.6) if case == "elastic net" else "simplex",
        "scale": np.array([2.0, 1.0, 0.5, 0.7]),
    }
    path = kw.solvers.svm_mkl_path(rows, None, [1e-3, 1e-2, 1e-1], **given)
    record_solved(recorded, "path", path, "feature_coef", "intercept")
    in_few_iterations(path, 30)
    told: list[tuple[float, ...]] = []
    one = kw.solve_svm_mkl(
        rows, None, 0.03, start=path.at(1), callback=lambda *now: told.append(now), **given
    )
    record_solved(recorded, "from a start", one)
    assert [now[0] for now in told] == list(range(1, one.n_iter + 1))
    assert told[-1][1] == pytest.approx(one.primal, rel=1e-7)


@pytest.mark.parametrize("loss", ["squared-hinge", "hinge"])
def test_rows_without_an_intercept(data: tuple[np.ndarray, ...], small_sample: None, loss: str) -> None:
    Z, y = data[0][:700], data[1][:700]
    rows, stack = kw.RowFeatures(in_chunks(Z, y), groups=GROUPS), kw.FeatureStack(Z, GROUPS)
    one, held = (
        kw.solve(kw.Problem(kernels, target, loss, C=0.02, fit_intercept=False), tol=1e-5)
        for kernels, target in ((rows, None), (stack, y))
    )
    assert one.intercept == held.intercept == 0.0
    assert one.status is held.status is kw.solvers.Status.CONVERGED
    assert one.dual <= held.primal
    assert held.dual <= one.primal
    # coefficients need not sum to zero
    assert abs(one.dual_coef.sum()) > 1e-3
