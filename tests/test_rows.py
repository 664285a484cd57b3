"""Rows from arrays, files and iterators: the same sums, folds and predictions, whatever the chunks.

Modules: `rows/chunks`, `rows/collecting`, `rows/files`, `rows/folds`, `rows/predicting`, `rows/progress`,
`rows/sampling`, `rows/sources`, `rows/validation`.
"""

import io
import os
import signal
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import RidgeCV

import kernelweave as kw
from kernelweave import InputError, KernelWarning
from kernelweave.machines.losses import Hinge
from kernelweave.machines.machine import Machine
from kernelweave.rows import progress, sources, validation
from kernelweave.rows.files import columns_of, find_files
from kernelweave.rows.folds import folds_of_rows, hashes_of_rows
from kernelweave.rows.sampling import SEED, Sampling, sample_size
from kernelweave.rows.sources import Request, open_rows
from kernelweave.rows.validation import _scores_of, scores
from test_features import make

NAMES = [f"x{j}" for j in range(16)]


@pytest.fixture
def data():
    Z, groups, y = make(60)
    return Z + 1.0, groups, y - 2.0, np.linspace(0.5, 2.0, 60)


@pytest.fixture
def frame(data):
    Z, _, y, w = data
    return pd.DataFrame(Z, columns=NAMES).assign(y=y, w=w, z=-y)


def write(frame, folder, kind, parts=4):
    """A folder of files with some rows each, one of them in a subfolder."""
    (folder / "more").mkdir(parents=True)
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        place = folder / "more" if k == parts - 1 else folder
        part = frame.iloc[rows]
        if kind == "parquet":
            part.to_parquet(place / f"part-{k}.parquet", row_group_size=7)
        else:
            part.to_csv(place / f"part-{k}.{kind}", index=False, sep="\t" if "tsv" in kind else ",")
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.csv.crc").write_text("x")
    return folder


def products(found):
    return found.products(centered=False)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(sources, "MOST", 16 * 11)
    monkeypatch.setattr(sources, "LEAST", 1)


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv.gz"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_files_are_the_rows_in_memory(data, frame, tmp_path, kind, n_jobs):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    Z, groups, y, w = data
    folder = write(frame, tmp_path / "t", kind)
    options = {"target": "y", "weight": "w", "columns": NAMES, "groups": groups}
    import joblib

    with joblib.parallel_config(backend="threading"):
        found = kw.rows.block_statistics(folder, **options, n_jobs=n_jobs)
    wanted = kw.BlockStatistics(groups).add(Z, y, w)
    assert_allclose(products(found), products(wanted), rtol=1e-12)
    assert found.columns == tuple(NAMES)
    assert found.taken == {**{f"part-{k}.{kind}": 15 for k in range(3)}, f"more/part-3.{kind}": 15}
    files = sorted(folder.glob("part*"))
    some = kw.rows.block_statistics([*files, folder / "more" / f"part-3.{kind}"], **options)
    assert_allclose(products(some), products(found), rtol=1e-12)
    again = kw.rows.block_statistics(folder, **options, into=found.copy())
    assert again.n_rows == 60
    one = kw.rows.block_statistics(files[0], **options)
    assert one.n_rows == 15


def test_names_of_blocks_choose_columns(data, frame, tmp_path):
    Z, _, y, _ = data
    named = kw.rows.block_statistics(frame, target="y", groups={"a": ["x1*"], "b": ["x3", "x0"]})
    order = [1, 10, 11, 12, 13, 14, 15, 3, 0]
    wanted = kw.BlockStatistics([0, 7, 9]).add(Z[:, order], y)
    assert_allclose(products(named), products(wanted), rtol=1e-12)
    assert (named.names, named.columns[-1], named.groups.tolist()) == (("a", "b"), "x0", [0, 7, 9])
    (tmp_path / "views.toml").write_text("[views]\na = ['x1*']\nb = ['x3', 'x0']\n")
    again = kw.rows.block_statistics(frame, target="y", groups=str(tmp_path / "views.toml"))
    assert again.names == named.names
    result = kw.solve_rls2(named, alpha=1.0, fit_intercept=True)
    f = kw.rows.predict_rows(result, frame, groups={"a": ["x1*"], "b": ["x3", "x0"]})
    assert_allclose(f, Z[:, order] @ result.feature_coef + result.intercept)
    several = kw.rows.block_statistics(frame, target=["y", "z"], columns=["x0", "x1"])
    assert (several.n_outputs, several.single, several.n_kernels) == (2, False, 2)
    default = kw.rows.block_statistics(frame[["x3", "y", "x1"]], target="y")
    assert default.columns == ("x3", "x1")


@pytest.mark.parametrize("form", ["array", "float32", "memmap", "sparse", "iterator", "parallel"])
def test_every_source_gives_the_same_sums_and_folds(data, tmp_path, form):
    Z, groups, y, w = data
    Z = Z.astype(np.float32).astype(float)
    wanted = kw.rows.FoldStatistics(3, groups).add(Z, y, w)
    options = {"groups": groups, "folds": 3, "y": y, "sample_weight": w}
    rows = Z
    if form == "float32":
        rows = Z.astype(np.float32)
    elif form == "memmap":
        rows = np.memmap(tmp_path / "Z", dtype=np.float32, mode="w+", shape=Z.shape)
        rows[:] = Z
    elif form == "sparse":
        rows = sparse.coo_array(Z)
    elif form == "iterator":
        rows = ((Z[k : k + 13], y[k : k + 13], w[k : k + 13]) for k in range(0, 60, 13))
        del options["y"], options["sample_weight"]
    elif form == "parallel":
        import joblib

        with joblib.parallel_config(backend="threading"):
            found = kw.rows.block_statistics(rows, **options, n_jobs=2)
    if form != "parallel":
        found = kw.rows.block_statistics(rows, **options)
    for a, b in zip(found.parts, wanted.parts, strict=True):
        assert a.n_rows == b.n_rows
        assert_allclose(products(a), products(b), rtol=1e-12)
    assert found.taken == {"": 60}
    assert_allclose(products(found.total), products(kw.BlockStatistics(groups).add(Z, y, w)), rtol=1e-12)


@pytest.mark.parametrize("form", ["array", "frame", "iterator", "features", "files"])
def test_chunks_are_the_rows_that_are_left_in_their_order(data, frame, tmp_path, form):
    """With targets, weights and numbers of rows; pieces that are read at the same time are all rows once."""
    Z, _, y, w = data
    given, request = Z, Request(y, w)
    if form == "iterator":
        given, request = [(Z[k : k + 13], y[k : k + 13], w[k : k + 13]) for k in range(0, 60, 13)], Request()
    if form in ("frame", "files"):
        given, request = frame, Request(target="y", weight="w", columns=NAMES)
    if form == "files":
        given = [tmp_path / name for name in ("b.csv", "a.txt.gz")]
        for path, rows in zip(given, (slice(0, 33), slice(33, 60)), strict=True):
            frame.iloc[rows].to_csv(path, index=False, sep=";")
    if form == "features":
        request, Z = replace(request, features=np.square), np.square(Z)
    source, _ = open_rows(given, request)
    names = {"b.csv": slice(0, 33), "a.txt.gz": slice(33, 60)} if form == "files" else {"": slice(0, 60)}
    assert source.total == (None if form in ("iterator", "files") else 60)
    for taken in (0, 1, 10, 11, 13, 27, 60):
        chunks = list(source.chunks(dict.fromkeys(names, taken)))
        for name, rows in names.items():
            own, left = (
                [chunk for chunk in chunks if chunk.source == name],
                slice(rows.start + taken, rows.stop),
            )
            assert [chunk.first for chunk in own] == [taken + sum(map(len, own[:k])) for k in range(len(own))]
            assert all(0 < len(chunk) <= (13 if form == "iterator" else 11) for chunk in own)
            if own:
                assert_allclose(np.concatenate([chunk.Z for chunk in own]), Z[left], rtol=1e-15)
                assert_allclose(np.concatenate([chunk.y for chunk in own]), y[left], rtol=1e-15)
                assert_allclose(np.concatenate([chunk.sample_weight for chunk in own]), w[left], rtol=1e-15)
            else:
                assert len(Z[left]) == 0
    parts = [chunk for piece in source.pieces() for chunk in piece.chunks({})]
    assert_allclose(np.concatenate([chunk.Z for chunk in parts]), Z, rtol=1e-15)
    assert len(source.pieces()) == {"array": 6, "features": 6, "files": 2}.get(form, 1)


def test_tables_in_a_folder_are_told_by_the_ends_of_their_names(tmp_path):
    tables = ["a.csv", "b.v2.TSV", "c.csv.gz", "sub/d.2024.pq", "e.tab.zst", "f.parquet"]
    others = ["csv", "g.gz", "h.csv.bak", "i.json", ".j.csv", "_k/l.csv", "sub/.m/n.csv", "o.csv.gz.txt2"]
    for name in (*tables, *others):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x,y\n1,2\n")
    assert find_files(tmp_path) == {name: tmp_path / name for name in sorted(tables)}
    same = [tmp_path / "a.csv", tmp_path / "sub" / "a.csv"]
    same[1].write_text("x;z,\ty\n1;2\t;3\n")
    assert find_files(same) == {path.as_posix(): path for path in same}
    assert find_files(tmp_path / "h.csv.bak") == {"h.csv.bak": tmp_path / "h.csv.bak"}
    assert (columns_of(same[0]), columns_of(same[1])) == (["x", "y"], ["x;z", "\ty"])


def test_features_are_made_of_chunks(data):
    X, _, y, _ = data
    kernel = kw.kernels.approximate(kw.kernels.RBF(gamma=0.1), kw.kernels.RandomFeatures(8)).fitted(X)
    found = kw.rows.block_statistics(X, y, features=kernel.transform)
    Z = kernel.transform(X)
    assert_allclose(products(found), products(kw.BlockStatistics().add(Z, y)), rtol=1e-10)
    result = kw.solve_rls2(found, alpha=1.0)
    assert_allclose(
        kw.rows.predict_rows(result, X, features=kernel.transform),
        Z @ result.feature_coef,
        rtol=1e-10,
        atol=1e-12,
    )
    with pytest.raises(InputError, match="`features` must return"):
        kw.rows.block_statistics(X, y, features=lambda X: X[:3])


# ---- folds ----------------------------------------------------------------------------------------


def test_folds_follow_from_numbers_of_rows():
    whole = folds_of_rows(0, 10_000, 5, seed=3)
    assert (np.concatenate([folds_of_rows(k, 100, 5, seed=3) for k in range(0, 10_000, 100)]) == whole).all()
    # these do not change with versions: stored statistics of folds would not fit others
    assert folds_of_rows(0, 12, 5).tolist() == [0, 4, 1, 3, 3, 3, 0, 3, 3, 3, 3, 4]
    counts = np.bincount(whole)
    # chi-square with 4 degrees of freedom: above 23 with a probability of 1e-4
    assert np.square(counts - 2000).sum() / 2000 < 23
    for other in (folds_of_rows(0, 10_000, 5, seed=4), folds_of_rows(0, 10_000, 5, source="b", seed=3)):
        assert abs((other == whole).mean() - 0.2) < 0.02
    assert len(np.unique(folds_of_rows(0, 50, 5, source="a.csv", by="file"))) == 1


def test_rows_that_are_added_follow_those_before(data):
    Z, groups, y, w = data
    names, columns = [f"block {m}" for m in range(len(groups) - 1)], [f"c{j}" for j in range(Z.shape[1])]
    found = kw.rows.FoldStatistics(3, groups, names=names, columns=columns)
    for rows in (slice(0, 13), slice(13, 14), slice(14, 60)):
        found.add(Z[rows], y[rows], w[rows])
    for k, part in enumerate(found.parts):
        assert (list(part.names), list(part.columns)) == (names, columns)
        own = folds_of_rows(0, 60, 3) == k
        wanted = kw.BlockStatistics(groups).add(Z[own], y[own], w[own])
        assert_allclose(products(part), products(wanted), rtol=1e-12)


def test_folds_of_files(frame, tmp_path):
    folder = write(frame, tmp_path / "t", "csv", parts=12)
    found = kw.rows.block_statistics(folder, target="y", folds=2, fold_by="file", columns=NAMES)
    assert {part.n_rows % 5 for part in found.parts} == {0}
    assert found.total.n_rows == 60
    with pytest.raises(InputError, match="come from no file"):
        kw.rows.block_statistics(frame, target="y", folds=2, fold_by="file")


def test_fold_statistics_merge_and_are_saved(data, tmp_path):
    Z, groups, y, w = data
    parts = [kw.rows.FoldStatistics(3, groups, seed=1).add(Z[k::2], y[k::2], w[k::2]) for k in range(2)]
    for k, part in enumerate(parts):
        part.save(tmp_path / f"{k}.npz")
    merged = kw.rows.FoldStatistics.from_files(tmp_path)
    for a, b in zip(merged.parts, sum(parts).parts, strict=True):
        assert (products(a) == products(b)).all()
    assert (merged.seed, merged.by, merged.n_folds, merged.taken) == (1, "row", 3, {"": 60})
    # a sum leaves its parts as they were
    assert [part.total.n_rows for part in parts] == [30, 30]
    with pytest.raises(InputError, match=r"FoldStatistics\.load"):
        kw.BlockStatistics.load(tmp_path / "0.npz")
    for other in (
        kw.rows.FoldStatistics(4),
        kw.rows.FoldStatistics(3, seed=2),
        kw.rows.FoldStatistics(3, seed=1, by="file"),
    ):
        with pytest.raises(InputError, match="same"):
            merged.merge(other)
    with pytest.raises(InputError, match="takes other"):
        merged.merge(merged)
    with pytest.raises(TypeError):
        merged + 1


@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_cross_validation_is_that_of_the_rows(n_outputs, fit_intercept):
    Z, groups, y = make(60, n_outputs=n_outputs)
    y = y + 3.0
    w = np.linspace(0.5, 2.0, 60)
    folds = kw.rows.block_statistics(Z, y, groups=groups, sample_weight=w, folds=4)
    scale = np.linspace(0.5, 1.5, 6)
    found = kw.rows.rls2_path_cv(folds, n_alphas=6, tol=1e-9, scale=scale, fit_intercept=fit_intercept)
    where = folds_of_rows(0, 60, 4)
    for k in range(4):
        out, own = where != k, where == k
        zbar = np.average(Z[out], axis=0, weights=w[out]) if fit_intercept else np.zeros(16)
        ybar = np.average(y[out], axis=0, weights=w[out]) if fit_intercept else 0.0
        path = kw.rls2_path(
            kw.FeatureStack(Z[out] - zbar, groups),
            y[out] - ybar,
            found.alphas,
            tol=1e-9,
            scale=scale,
            sample_weight=w[out],
        )
        for j, coef in enumerate(path.feature_coef):
            f = (Z[own] - zbar) @ coef + ybar
            mse = np.average(np.square(y[own] - f), axis=0, weights=w[own])
            variance = np.average(
                np.square(y[own] - np.average(y[own], axis=0, weights=w[own])), axis=0, weights=w[own]
            )
            # solutions of a relative gap of 1e-9 differ by 1e-5
            assert_allclose(found.mse[k, j], mse, rtol=1e-3)
            assert_allclose(found.r2[k, j], 1 - mse / variance, atol=1e-3)
    assert found.mse.shape == ((4, 6) if n_outputs is None else (4, 6, 2))
    # the mean is over rows, so that folds count by the weights of theirs; the error is of the mean, from four values
    of_folds = found.mse.reshape(4, 6, -1).mean(axis=2)
    shares = np.array([w[where == k].sum() for k in range(4)]) / w.sum()
    assert_allclose(found.mean_mse, shares @ of_folds, rtol=1e-12)
    spread = np.square(of_folds - of_folds.mean(axis=0)).sum(axis=0) / 3
    assert_allclose(found.se_mse, np.sqrt(spread / 4), rtol=1e-12)
    assert found.best is found.path.at(found.best_index)
    assert found.mean_mse[found.best_index] == found.mean_mse.min()
    one = kw.rows.rls2_path_cv(folds, n_alphas=6, scale=scale, fit_intercept=fit_intercept, rule="1se")
    assert one.alpha >= found.alpha
    assert one.mean_mse[one.best_index] <= found.mean_mse.min() + one.se_mse.max()
    parts = kw.rows.rls2_path_cv(folds.parts, n_alphas=6, tol=1e-9, scale=scale, fit_intercept=fit_intercept)
    assert_allclose(parts.mse, found.mse, rtol=1e-9)


def test_cross_validation_of_one_block_is_that_of_ridge():
    Z, _, y = make(60)
    alphas = [0.1, 1.0, 10.0, 100.0]
    w = np.linspace(0.5, 2.0, 60)
    # one row in each fold
    folds = [kw.BlockStatistics([0, 16]).add(Z[k : k + 1], y[k : k + 1], w[k : k + 1]) for k in range(60)]
    found = kw.rows.rls2_path_cv(folds, alphas, tol=1e-9)
    ridge = RidgeCV(alphas, store_cv_results=True).fit(Z, y, sample_weight=w)
    # scikit-learn multiplies squared errors by the weights
    # solutions of a relative gap of 1e-9 differ by 1e-5
    assert_allclose(found.mse[:, ::-1] * w[:, None], ridge.cv_results_, rtol=1e-3, atol=1e-6)
    assert np.isnan(found.r2).all()
    # folds of one row have no R^2 of their own, all rows together have
    variance = np.average(np.square(y - np.average(y, weights=w)), weights=w)
    assert_allclose(found.pooled_r2, 1 - found.mean_mse / variance, rtol=1e-9)


def test_errors_of_large_means_keep_their_digits():
    Z, groups, y = make(60)
    near = kw.rows.rls2_path_cv(kw.rows.block_statistics(Z, y, groups=groups, folds=3), [1.0, 0.1], tol=1e-9)
    far = kw.rows.rls2_path_cv(
        kw.rows.block_statistics(Z + 1e6, y - 1e6, groups=groups, folds=3), [1.0, 0.1], tol=1e-9
    )
    # largest error 2e-5 of solutions, 1e-6 of the numbers themselves
    assert_allclose(far.mse, near.mse, rtol=1e-4)


def test_scores_of_a_perfect_fit_are_zero():
    Z = np.random.default_rng(0).normal(size=(50, 3))
    mse, r2 = scores(
        kw.BlockStatistics().add(Z, Z @ [1.0, 2.0, 3.0] + 4.0), np.array([[1.0, 2.0, 3.0]]), np.array([4.0])
    )
    assert_allclose(mse, 0.0, atol=1e-13)
    assert_allclose(r2, 1.0)


# ---- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_predictions_in_chunks(n_outputs, tmp_path):
    Z, groups, y = make(60, n_outputs=n_outputs)
    path = kw.rls2_path(kw.rows.block_statistics(Z, y, groups=groups), n_alphas=3, fit_intercept=True)
    wanted = np.stack([Z @ one.feature_coef + one.intercept for one in path.solutions], axis=1)
    assert_allclose(kw.rows.predict_rows(path, Z), wanted)
    assert_allclose(kw.rows.predict_rows(path.at(1), (Z[k : k + 7] for k in range(0, 60, 7))), wanted[:, 1])
    pd.DataFrame(Z, columns=NAMES).to_csv(tmp_path / "t.csv", index=False)
    assert_allclose(kw.rows.predict_rows(path.at(1), tmp_path / "t.csv", progress=False), wanted[:, 1])
    assert kw.rows.predict_rows(path, Z[:0]).shape == (0, *wanted.shape[1:])
    with pytest.raises(InputError, match="16 columns"):
        kw.rows.predict_rows(path, Z[:, :3])
    with pytest.raises(InputError, match="feature_coef"):
        kw.rows.predict_rows(kw.solve_rls2(np.eye(3)[..., None], [1.0, 2.0, 3.0], 1.0), Z)


# ---- interruptions, progress and memory -----------------------------------------------------------


def test_ctrl_c_keeps_what_is_in_and_it_can_be_continued(frame, tmp_path):
    folder = write(frame, tmp_path / "t", "csv")
    whole = kw.rows.block_statistics(folder, target="y", columns=NAMES, folds=3)
    seen = []

    def report(n_rows, total):
        seen.append(n_rows)
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(KernelWarning, match=r"Interrupted: \d+ rows of 2 files are in"):
        part = kw.rows.block_statistics(folder, target="y", columns=NAMES, folds=3, progress=report)
    assert sum(part.taken.values()) == seen[-1] < 60
    part.save(tmp_path / "part.npz")
    for n_jobs in (None, 2):
        part = kw.rows.FoldStatistics.load(tmp_path / "part.npz")
        with joblib.parallel_config(backend="threading"):
            kw.rows.block_statistics(folder, target="y", columns=NAMES, into=part, n_jobs=n_jobs)
        assert part.taken == whole.taken
        for a, b in zip(part.parts, whole.parts, strict=True):
            assert a.n_rows == b.n_rows
            assert_allclose(products(a), products(b), rtol=1e-12)

    def at_once(n_rows, total):
        raise KeyboardInterrupt

    def never():
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        kw.rows.block_statistics(never())
    with pytest.warns(KernelWarning, match="11 rows are in"):
        kw.rows.block_statistics(frame[NAMES].to_numpy(), frame["y"].to_numpy(), progress=at_once)


def test_an_iterator_continues_within_a_chunk(data):
    Z, groups, y, _ = data
    found = kw.rows.block_statistics(((Z[:20], y[:20]),), groups=groups)
    kw.rows.block_statistics(
        ((Z[k : k + 13], y[k : k + 13]) for k in range(0, 60, 13)), groups=groups, into=found
    )
    assert_allclose(products(found), products(kw.BlockStatistics(groups).add(Z, y)), rtol=1e-12)


def test_a_line_of_progress_comes_after_two_seconds_and_goes(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    now, said = [100.0], Terminal()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.sys, "stderr", said)
    with progress.reporting(None) as report:
        now[0] = 101.9
        report(1_000, 4_000)
    # nothing shown, nothing to remove
    assert said.getvalue() == ""
    now[0] = 100.0
    with progress.reporting(True) as report:
        for now[0], n_rows, total in ((104.0, 1_000, 4_000), (104.4, 1_500, 4_000), (105.0, 2_000, None)):
            report(n_rows, total)
    assert said.getvalue().replace("\x1b[K", "").split("\r") == [
        "", "1,000 of 4,000 rows, about 12 s left", "2,000 rows", "",
    ]  # fmt: skip


def test_progress_is_reported_with_totals(frame, tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    folder = write(frame, tmp_path / "t", "parquet")
    seen = []
    kw.rows.block_statistics(folder, target="y", columns=NAMES, progress=lambda *given: seen.append(given))
    assert seen[-1] == (60, 60)
    monkeypatch.setattr("kernelweave.rows.progress.AFTER", -1.0)
    monkeypatch.setattr("kernelweave.rows.progress.EVERY", -1.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    kw.rows.block_statistics(folder, target="y", columns=NAMES)
    assert "60 of 60 rows" in capsys.readouterr().err
    kw.rows.block_statistics(folder, target="y", columns=NAMES, progress=False)
    assert capsys.readouterr().err == ""


def test_memory_limits_chunks_and_products(data, monkeypatch):
    Z, groups, y, _ = data
    monkeypatch.setattr(sources, "MOST", 10**9)
    seen = []
    kw.rows.block_statistics(
        Z, y, groups=groups, max_memory=8 * 4 * 16 * 10, progress=lambda n, _: seen.append(n)
    )
    assert seen == [10, 20, 30, 40, 50, 60]
    with pytest.raises(InputError, match="`max_memory` must be at least"):
        kw.rows.block_statistics(Z, y, groups=groups, max_memory=1000)


# ---- wrong input ----------------------------------------------------------------------------------


def test_wrong_tables_are_refused(frame, tmp_path):
    table = tmp_path / "t.csv"
    frame.to_csv(table, index=False)
    options = {"target": "y", "columns": NAMES}
    other = tmp_path / "u.csv"
    frame.drop(columns="x3").to_csv(other, index=False)
    broken = frame.copy()
    broken.loc[40, "x2"] = np.nan
    for given, more, words in [
        ([table, other], options, "u.csv has no column 'x3'"),
        (broken, options, r"1 NaN.*rows 40 to 49"),
        (frame.assign(t="a"), {"target": "y"}, "Column 't' must hold numbers"),
        (frame, {}, "`target` must name"),
        (frame, {"target": "why"}, "Unknown column in `target` 'why'"),
        (frame, {"target": "y", "columns": ["x3", "y"]}, "must not hold a target"),
        (frame, {"target": "y", "y": [1.0]}, "`y` must be None"),
        (frame, {"target": "y", "groups": {"a": ["q*"]}}, "no column matches"),
        (
            frame,
            {"target": "y", "groups": {"a": ["x*"]}, "columns": ["x1"]},
            "`groups` must be a list of ends",
        ),
        (tmp_path / "none", options, "no file or folder"),
        ([tmp_path / "none.csv"], options, "no file"),
        (np.eye(3), {}, "`y` must hold the targets"),
        (np.eye(3), {"y": [1.0, 2.0]}, "one row per row"),
        (np.eye(3), {"y": [1.0, 2.0, 3.0], "target": "y"}, "`target` must be None"),
        (np.eye(3), {"y": [1.0, 2.0, 3.0], "groups": {"a": ["b"]}}, "Arrays have none"),
        ([(np.eye(3), np.ones(3))], {"y": [1.0]}, "`y` must be None for an iterator"),
        ([np.eye(3)], {}, "pairs"),
        ([(np.ones(3), np.ones(3))], {}, "must have shape"),
        (3, {}, "`rows` must be"),
        (frame, {**options, "into": 3}, "`into` must be"),
        (frame, {**options, "into": kw.BlockStatistics(), "folds": 3}, "`into` must have 3 folds"),
        (frame, {**options, "progress": 3}, "`progress` must be"),
        (frame, {**options, "folds": 1}, "`folds` must be"),
    ]:
        with pytest.raises(InputError, match=words):
            kw.rows.block_statistics(given, **more)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no tables"):
        kw.rows.block_statistics(tmp_path / "empty", **options)
    (tmp_path / "b.csv").write_bytes(b"")
    with pytest.raises(InputError, match=r"b.csv cannot be read"):
        kw.rows.block_statistics(tmp_path / "b.csv", **options)
    pytest.importorskip("pyarrow")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and more")
    with pytest.raises(InputError, match=r"b.parquet cannot be read"):
        kw.rows.block_statistics(tmp_path / "b.parquet", **options)


def test_wrong_folds_are_refused(data):
    Z, groups, y, _ = data
    one = kw.BlockStatistics(groups).add(Z, y)
    for given, words in [
        (one, "at least two"),
        ([one], "at least two"),
        ([one, kw.BlockStatistics(groups)], "fold 1 has none"),
        (3, "at least two"),
    ]:
        with pytest.raises(InputError, match=words):
            kw.rows.rls2_path_cv(given)


def test_a_merged_sample_is_that_of_all_rows(rng):
    """Numbers of rows are those among all of them, not those in a part."""
    Z, y, w = rng.normal(size=(200, 3)), rng.normal(size=200), np.ones(200)
    whole, left, right = Sampling(40), Sampling(40), Sampling(40)
    whole.add(Z, y, w, 0, source="rows", first=0)
    left.add(Z[:120], y[:120], w[:120], 0, source="rows", first=0)
    right.add(Z[120:], y[120:], w[120:], 0, source="rows", first=120)
    left.merge(right, 120)
    one, two = whole.result(), left.result()
    for a, b in zip(vars(one).values(), vars(two).values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_weights_that_are_refused_leave_no_rows_in_any_fold(data):
    Z, groups, y, w = data
    for wrong in (np.where(np.arange(len(y)) == len(y) - 1, np.nan, w), np.zeros(len(y) - 1), -w):
        for found in (kw.rows.FoldStatistics(3, groups), kw.BlockStatistics(groups)):
            with pytest.raises(InputError, match="sample_weight"):
                found.add(Z, y, wrong)
            assert not found.taken
            assert getattr(found, "total_rows", 0) == getattr(found, "n_rows", 0) == 0


def test_scores_of_left_out_rows_count_them_by_their_weights():
    f, y = np.array([0.5, -1.5, 2.0, -0.5, 9.0]), np.array([1.0, -1.0, -1.0, 1.0, 1.0])
    weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    fitted = SimpleNamespace(best=SimpleNamespace(product=f - 0.25, t=0.25))
    found = _scores_of(fitted, Machine(y, 1.0, Hinge(), weight), np.arange(4))
    # losses 0.5, 0, 3, 1.5; rows 0 and 1 are right; of pairs of an upper and a lower row only those with row 1 are
    assert found == pytest.approx({"loss": (0.5 + 9.0 + 6.0) / 10.0, "accuracy": 0.3, "auc": 2.0 / 5.0})
    even = _scores_of(fitted, Machine(y, 1.0, Hinge()), np.arange(4))
    assert even == pytest.approx({"loss": 1.25, "accuracy": 0.5, "auc": 0.5})
    # rows of one class have no such pairs
    assert set(_scores_of(fitted, Machine(y, 1.0, Hinge(), weight), np.array([0, 3]))) == {"loss", "accuracy"}


def test_a_sample_has_the_smallest_hashes_of_either_sign(rng):
    """Rows of weight 0 are not in it, and every row stands for as many of its sign as were seen."""
    Z, y, w = (
        rng.normal(size=(200, 3)),
        rng.normal(0.5, 1.0, size=200),
        rng.integers(0, 3, size=200).astype(float),
    )
    sampling = Sampling(40)
    for first in range(0, 200, 33):
        rows = slice(first, min(first + 33, 200))
        sampling.add(Z[rows], y[rows], w[rows], first, source="rows", first=first)
    found, positions, shares = vars(sampling.result()).values()
    hashes = hashes_of_rows(0, 200, source="rows", seed=SEED)
    wanted = {}
    for own in (np.flatnonzero((y > 0) & (w > 0)), np.flatnonzero((y <= 0) & (w > 0))):
        wanted |= dict.fromkeys(own[np.argsort(hashes[own])[:20]].tolist(), len(own) / 20)
    assert positions.tolist() == sorted(wanted)
    np.testing.assert_array_equal(found, Z[positions])
    assert_allclose(shares, [wanted[k] for k in positions.tolist()], rtol=1e-14)
    assert [sample_size(*asked) for asked in ((3, 1e12), (400, 1e12), (10**6, 1e3))] == [10_000, 40_000, 64]


def test_one_solution_short_of_its_tolerance_is_one_too_many(rng, monkeypatch):
    Z, y, groups = rng.normal(size=(30, 3)), rng.normal(size=30), [0, 1, 2, 3]
    statistics = kw.BlockStatistics(groups).add(Z, y, rng.uniform(0.5, 2.0, 30))
    plain = validation.rls2_path
    alphas = np.array([1.0, 0.1])
    options = {"tol": 1e-8, "fit_intercept": True}
    assert validation._of_fold(statistics, statistics, alphas, options)[-1]

    def late(*given, **more):
        path = plain(*given, **more)
        first, second = path.solutions
        return replace(
            path,
            solutions=(
                first,
                replace(second, certificate=replace(second.certificate, status=kw.solvers.Status.MAX_ITER)),
            ),
        )

    monkeypatch.setattr(validation, "rls2_path", late)
    assert not validation._of_fold(statistics, statistics, alphas, options)[-1]


@pytest.mark.parametrize(("values", "numbers"), [
    ([Decimal("1.5"), Decimal(2)], [1.5, 2.0]), ([1, True], [1.0, 1.0]), ([2, 0.5], [2.0, 0.5]),
    (["1.5", "2"], None), ([1.5, "2"], None), ([b"1", 2], None), ([1, object()], None), ([1, [2]], None),
])  # fmt: skip
def test_objects_are_numbers_unless_one_of_them_is_a_text(values, numbers):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    rows = pd.DataFrame({"a": column, "b": [0.25, 0.75], "y": [1.0, 3.0]})

    def read():
        return kw.rows.block_statistics(rows, target="y", groups={"one": ["a"], "two": ["b"]})

    if numbers is None:
        with pytest.raises(kw.InputError, match=r"Column 'a'.* must hold numbers"):
            read()
    else:
        np.testing.assert_allclose(read().Zty[0], np.dot(numbers, [1.0, 3.0]))


def test_another_seed_makes_other_folds_of_statistics(rng):
    Z, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    for seed in (0, 3):
        found = kw.rows.block_statistics(Z, y, folds=3, seed=seed)
        numbers = folds_of_rows(0, 60, 3, seed=seed)
        assert [part.n_rows for part in found.parts] == [int((numbers == k).sum()) for k in range(3)]
        for k, part in enumerate(found.parts):
            assert_allclose(part.feature_means, Z[numbers == k].mean(axis=0), rtol=1e-9, atol=1e-12)
