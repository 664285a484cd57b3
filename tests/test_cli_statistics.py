"""`kernelweave statistics`, and `kernelweave path` on its files and on tables.

Modules: `cli/paths`, `cli/rows`.
"""

import os
import re
import signal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("cyclopts")

import kernelweave as kw
from kernelweave.rows import sources
from kernelweave_app.cli import main
from test_features import make


@pytest.fixture
def rows(tmp_path):
    """A folder of four tables, and views."""
    Z, _, y = make(80)
    frame = pd.DataFrame(Z, columns=[f"x{j}" for j in range(16)]).assign(y=y + 3.0, w=1.0)
    (tmp_path / "rows").mkdir()
    for k in range(4):
        frame[20 * k : 20 * k + 20].to_csv(tmp_path / "rows" / f"{k}.csv", index=False)
    (tmp_path / "views.toml").write_text('[views]\nfirst = ["x0", "x1", "x2"]\nrest = ["x3", "x?", "x1?"]\n')
    return tmp_path


def test_sums_of_jobs_are_those_of_one_pass(rows, capsys):
    views = ["--target", "y", "--groups", str(rows / "views.toml"), "--folds", "3"]
    assert main(["statistics", str(rows / "rows"), *views, "--out", str(rows / "all.npz")]) == 0
    text = capsys.readouterr().out
    assert text.index("Found 4 tables") < text.index("Wrote")
    assert "80 rows, 19 features in 2 blocks, 3 folds" in text
    for k in range(4):
        part = str(rows / "parts" / f"{k}.npz")
        (rows / "parts").mkdir(exist_ok=True)
        assert main(["statistics", str(rows / "rows" / f"{k}.csv"), *views, "--out", part]) == 0
    assert main(["statistics", str(rows / "parts"), "--merge", "--out", str(rows / "merged.npz")]) == 0
    whole, merged = (kw.rows.FoldStatistics.load(rows / f"{name}.npz") for name in ("all", "merged"))
    for a, b in zip(whole.parts, merged.parts, strict=True):
        assert a.n_rows == b.n_rows
        assert_allclose(a.products(centered=True), b.products(centered=True), rtol=1e-9, atol=1e-9)

    out = rows / "path"
    assert main(["path", str(rows / "all.npz"), "--alphas", "8", "--rule", "1se", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "Cross-validated: mean squared error" in said
    table = pd.read_csv(out / "path.csv")
    scale = 1.0 / whole.total.mean_diagonals(centered=True)
    found = kw.rows.rls2_path_cv(whole, n_alphas=8, scale=scale, tol=1e-6, rule="1se")
    assert_allclose(table["alpha"], found.alphas)
    assert_allclose(table["mse"], found.mean_mse)
    assert_allclose(table[["first", "rest"]], found.path.weights, atol=1e-12)
    says_its_solution(said, table, found.best_index, ["first", "rest"])
    coef = pd.read_csv(out / "coefficients.csv")
    assert_allclose(coef["alpha"], found.alphas)
    assert_allclose(coef["intercept"], found.path.intercept[:, 0])
    assert_allclose(coef[[f"first: x{j}" for j in range(3)]], found.path.feature_coef[:, :3], atol=1e-12)
    assert (out / "path.svg").exists()


def test_without_folds_and_names(rows, capsys):
    one = str(rows / "all.npz")
    more = ["--target", "y", "--target", "w", "--columns", "x0", "--columns", "x1", "--columns", "x2"]
    assert (
        main(["statistics", str(rows / "rows"), *more, "--groups", "0,2,3", "--jobs", "1", "--out", one]) == 0
    )
    args = [
        "path",
        one,
        "--alphas",
        "1,0.1",
        "--normalize",
        "none",
        "--no-intercept",
        "--out",
        str(rows / "p"),
    ]
    assert main(args) == 0
    coef = pd.read_csv(rows / "p" / "coefficients.csv")
    assert coef["output"].tolist() == [0, 1, 0, 1]
    assert not coef["intercept"].any()
    table, said = pd.read_csv(rows / "p" / "path.csv"), capsys.readouterr().out
    # several targets, of which one does not vary
    assert "80 rows, 3 features in 2 blocks" in said
    says_its_solution(said, table, 1, ["block 0", "block 1"])


def says_its_solution(said, table, at, names):
    """The solution that is printed: its parameter, and the weights that it has, the largest first."""
    row = table.iloc[at]
    assert f"alpha {row['alpha']:.4g}; objective" in said
    weights = sorted(((row[name], name) for name in names if name in table and row[name] > 0), reverse=True)
    assert re.findall(r"([\d.]+) %\s+(\w[\w ]*?)\s*\n", said) == [
        (f"{100 * w:.1f}", name) for w, name in weights
    ]


@pytest.mark.parametrize("several", [False, True])
def test_the_path_of_a_table_is_that_of_fits(several, rows, capsys):
    """At every alpha the weights, their number and the degrees of freedom of a fit with weights of rows."""
    frame = pd.concat(pd.read_csv(rows / "rows" / f"{k}.csv") for k in range(2)).iloc[:, [0, 1, 2, -2]]
    frame = frame.assign(z=frame["y"] ** 2, w=np.linspace(0.5, 2.0, len(frame)))
    frame.to_csv(rows / "t.csv", index=False)
    given = ["--target", "y,z" if several else "y", "--weights", "w", "--kernels", "linear; rbf(gamma=0.1)"]
    given += ["--drop", "z"] * (not several)
    args = ["path", str(rows / "t.csv"), *given, "--alphas", "0.1,1,10", "--out", str(rows / "p")]
    assert main(args) == 0
    table = pd.read_csv(rows / "p" / "path.csv")
    said = capsys.readouterr().out
    assert_allclose(table["alpha"], [10.0, 1.0, 0.1])
    assert f"alpha from 10 to 0.1: up to {table['n_kernels'].max()} kernels." in said
    bank = kw.kernels.parse("linear"), kw.kernels.parse("rbf(gamma=0.1)")
    for _, row in table.iterrows():
        model = kw.MKLRegressor(
            list(bank), "rls2", alpha=row["alpha"], normalize="mean-diagonal", standardize=True
        )
        model.fit(
            frame[["x0", "x1", "x2"]], frame[["y", "z"]] if several else frame["y"], sample_weight=frame["w"]
        )
        weights = model.weights_ / model.weights_.sum()
        assert_allclose([row.get(name, 0.0) for name in model.kernel_names_], weights, atol=1e-4)
        assert row["n_kernels"] == np.count_nonzero(weights)
    found = kw.inspection.regularization_path(model, alphas=[0.1, 1.0, 10.0])
    assert_allclose(table["df"], found.df, rtol=1e-4)


def test_paths_of_sums_are_those_of_a_table_with_centred_kernels(rows):
    table, views = str(rows / "rows" / "0.csv"), str(rows / "views.toml")
    made = [
        "statistics",
        table,
        "--target",
        "y",
        "--drop",
        "w",
        "--groups",
        views,
        "--out",
        str(rows / "s.npz"),
    ]
    assert main(made) == 0
    common = ["--normalize", "center", "--alphas", "0.1,1,10"]
    assert main(["path", str(rows / "s.npz"), *common, "--out", str(rows / "sums")]) == 0
    given = ["--target", "y", "--drop", "w", "--views", views, "--kernels", "linear", "--no-standardize"]
    assert main(["path", table, *given, *common, "--out", str(rows / "rows_path")]) == 0
    sums, whole = (pd.read_csv(rows / name / "path.csv") for name in ("sums", "rows_path"))
    assert_allclose(sums[["first", "rest"]], whole[["first: Linear", "rest: Linear"]], atol=1e-6)
    assert_allclose(sums["df"], whole["df"], rtol=1e-6)


def test_ctrl_c_writes_what_is_in(rows, capsys, monkeypatch):
    monkeypatch.setattr(sources, "MOST", 16 * 11)
    monkeypatch.setattr(sources, "LEAST", 1)
    add, calls = kw.BlockStatistics.add, []

    def interrupted(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return add(self, *args, **kwargs)

    monkeypatch.setattr(kw.BlockStatistics, "add", interrupted)
    args = ["statistics", str(rows / "rows"), "--target", "y", "--out", str(rows / "all.npz")]
    assert main(args) == 130
    assert "--resume continues" in capsys.readouterr().out
    part = kw.BlockStatistics.load(rows / "all.npz").n_rows
    assert 0 < part < 80
    assert main(args) == 2
    assert main([*args, "--resume"]) == 0
    assert kw.BlockStatistics.load(rows / "all.npz").n_rows == 80


def test_refusals_are_one_line(rows, capsys):
    table, out = str(rows / "rows"), str(rows / "all.npz")
    assert main(["statistics", table, "--target", "y", "--out", out]) == 0
    np.savez(rows / "other.npz", a=np.ones(3))
    capsys.readouterr()
    for args, words in [
        (["statistics", table, "--out", str(rows / "b.npz")], "--target must name"),
        (["statistics", table, "--target", "y", "--out", "b.csv"], "--out must be a file .npz"),
        (["statistics", table, "--target", "y", "--out", out], "exists"),
        (["statistics", "--target", "y", "--out", str(rows / "b.npz")], "Name a folder"),
        (["statistics", table, "--target", "q", "--out", str(rows / "b.npz")], "Unknown column in --target"),
        (["statistics", table, "--merge", "--out", str(rows / "b.npz")], "No file in"),
        (["statistics", str(rows / "other.npz"), "--merge", "--out", str(rows / "b.npz")], "no statistics"),
        (["path", out, "--learner", "simple", "--out", str(rows / "p")], "must be rls2"),
        (["path", out, "--normalize", "cosine", "--out", str(rows / "p")], "--normalize must be"),
        (["path", out, "--kernels", "rls2", "--out", str(rows / "p")], "--kernels does not apply"),
        (["path", out, "--solver", "alternating", "--out", str(rows / "p")], "--solver does not apply"),
    ]:
        assert main(args) == 2, args
        text = capsys.readouterr().err
        assert words in text, text
        assert text.count("\n") == 1


def test_formats_that_are_not_read_in_chunks_are_named(rows, capsys):
    args = ["--target", "y", "--out", str(rows / "all.npz")]
    (rows / "rows" / ".hidden").mkdir()
    np.savez(rows / "rows" / ".hidden" / "array.npz", y=np.ones(3))
    assert main(["statistics", str(rows / "rows"), *args]) == 0
    assert "Files of the format npz" not in capsys.readouterr().out
    np.savez(rows / "rows" / "array.npz", y=np.ones(3), a=np.ones(3))
    assert main(["statistics", str(rows / "rows"), *args, "--overwrite"]) == 0
    assert "Files of the format npz in" in capsys.readouterr().out
    for command in ("statistics", "margins"):
        assert main([command, str(rows / "rows" / "array.npz"), *args, "--overwrite"]) == 2
        assert "array.npz has the format npz, which is not read in chunks" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["columns", "views", "chosen"])
def test_columns_are_left_out_of_sums(how, rows, capsys):
    """The sums, and with views the blocks, are those of tables that lack the columns."""
    given = ["--target", "y", "--weight", "w", "--folds", "0"]
    if how == "views":
        given += ["--groups", str(rows / "views.toml")]
    if how == "chosen":
        given += ["--columns", "x2", "--columns", "x5", "--columns", "x4"]
    assert (
        main(["statistics", str(rows / "rows"), *given, "--drop", "x5,x11", "--out", str(rows / "a.npz")])
        == 0
    )
    for k in range(4):
        file = rows / "rows" / f"{k}.csv"
        pd.read_csv(file).drop(columns=["x5", "x11"]).to_csv(file, index=False)
    if how == "chosen":
        given = [*given[:6], "--columns", "x2", "--columns", "x4"]
    assert main(["statistics", str(rows / "rows"), *given, "--out", str(rows / "b.npz")]) == 0
    found, wanted = (kw.rows.BlockStatistics.load(rows / f"{name}.npz") for name in "ab")
    assert found.groups.tolist() == wanted.groups.tolist()
    assert found.groups[-1] == {"columns": 14, "views": 17, "chosen": 2}[how]
    assert_allclose(found.products(centered=True), wanted.products(centered=True), rtol=1e-12, atol=1e-12)
    capsys.readouterr()
    assert (
        main(["statistics", str(rows / "rows"), *given, "--drop", "x99", "--out", str(rows / "c.npz")]) == 2
    )
    said = capsys.readouterr().err
    assert "--drop" in said
    assert "x99" in said
    assert not (rows / "c.npz").exists()


def test_every_option_of_sums_reaches_the_library(rows, monkeypatch):
    from kernelweave.rows import collecting

    seen, plain = [], collecting.block_statistics
    monkeypatch.setattr(
        collecting,
        "block_statistics",
        lambda tables, **how: seen.append((tables, how)) or plain(tables, **how),
    )
    out, table = str(rows / "a.npz"), str(rows / "rows")
    files = [str(rows / "rows" / f"{k}.csv") for k in range(2)]
    assert main(["statistics", table, "--target", "y", "--out", out]) == 0
    given = ["--target", "y", "x0", "--folds", "2", "--fold-by", "file", "--seed", "7", "--max-memory", "1GB"]
    more = ["--weight", "w", "--columns", "x1", "x2", "--groups", "0,1,2", "--overwrite", "--out", out]
    assert main(["statistics", *files, *given, *more]) == 0
    assert main(["statistics", *files, *given, *more, "--resume"]) == 0
    (first, usual), (several, own), (_, again) = seen
    assert (first, several) == (table, files)
    for how in (usual, own):
        assert callable(how.pop("progress"))
    assert usual == {
        "target": "y", "folds": None, "fold_by": "row", "seed": 0, "into": None, "groups": None,
        "columns": None, "weight": None, "max_memory": None, "n_jobs": 1,
    }  # fmt: skip
    assert own == {
        "target": ["y", "x0"], "folds": 2, "fold_by": "file", "seed": 7, "into": None, "groups": [0, 1, 2],
        "columns": ["x1", "x2"], "weight": "w", "max_memory": "1GB", "n_jobs": 1,
    }  # fmt: skip
    assert again["into"].total.n_rows == 40
