"""Sparse tables in files: what is read, what is refused, and runs of the command line with them.

Modules: `runs/formats/sparse`, `runs/further_views`.
"""

from __future__ import annotations

import gzip
import io
import pickle
import re
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.io
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import kernelweave as kw

pytest.importorskip("cyclopts")

from kernelweave import InputError
from kernelweave_app.cli.app import run
from kernelweave_app.runs.formats import FileLimits, read_table
from kernelweave_app.runs.formats.sparse import Sparse, read_sparse
from kernelweave_app.runs.further_views import name_views

N = 60


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    return sparse.random_array((N, 200), density=0.06, rng=rng, format="csr")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, words):
    root = tmp_path_factory.mktemp("sparse")
    rng = np.random.default_rng(1)
    y = np.where(words[:, :30].sum(axis=1) > 0.8, "yes", "no")
    table = pd.DataFrame({"age": rng.normal(size=N), "dose": rng.normal(size=N), "y": y})
    table.to_csv(root / "table.csv", index=False)
    sparse.save_npz(root / "words.npz", words)
    sparse.save_npz(root / "columns.npz", words.tocsc())
    scipy.io.mmwrite(root / "words.mtx", words)
    (root / "words.mtx.gz").write_bytes(gzip.compress((root / "words.mtx").read_bytes()))
    dump_svmlight_file(words, (y == "yes").astype(int), str(root / "words.svmlight"))
    return root


@pytest.mark.parametrize("name", ["words.npz", "columns.npz", "words.mtx", "words.mtx.gz", "words.svmlight"])
def test_all_formats_hold_the_same(folder, words, name):
    assert Sparse().holds(folder / name)
    rows, target = read_sparse(folder / name)
    assert rows.format == "csr"
    np.testing.assert_allclose((rows - words).toarray(), 0.0, atol=1e-12)
    assert (target is not None) == name.endswith("svmlight")
    table = read_table(folder / name)
    assert list(table.columns)[-1] == "x199"
    np.testing.assert_allclose(table[[f"x{j}" for j in range(200)]].to_numpy(), words.toarray(), atol=1e-12)


def test_an_upload_is_text_and_not_too_large(folder, tmp_path):
    """Of what somebody else sends, only files of text are read, to the last chunk."""
    Sparse().check(folder / "words.mtx", "words.mtx", FileLimits())
    with pytest.raises(InputError, match="larger than may be read"):
        Sparse().check(folder / "words.mtx", "words.mtx", FileLimits(columns=199))
    late = tmp_path / "late.mtx"
    late.write_bytes((folder / "words.mtx").read_bytes() + b"% note\n" * 300_000 + b"\x00")
    with pytest.raises(InputError, match=r"late\.mtx is not text"):
        Sparse().check(late, "late.mtx", FileLimits())


@pytest.mark.parametrize("first", [0, 1])
def test_svmlight_files_count_columns_from_zero_or_one(first, tmp_path):
    file = tmp_path / "rows.svmlight"
    file.write_text(f"1 {first}:2 {first + 2}:4\n-1 {first + 1}:1\n")
    rows, target = read_sparse(file)
    np.testing.assert_array_equal(rows.toarray(), [[2.0, 0.0, 4.0], [0.0, 1.0, 0.0]])
    np.testing.assert_array_equal(target, [1.0, -1.0])


def test_an_npz_file_of_arrays_is_a_table(tmp_path):
    np.savez(tmp_path / "t.npz", a=np.arange(3.0), data=np.arange(3.0))
    assert not Sparse().holds(tmp_path / "t.npz")
    assert list(read_table(tmp_path / "t.npz").columns) == ["a", "data"]


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('executed')",)


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def csr(**changes):
    parts = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 3]),
        "data": np.array([1.0, 2.0]),
        "indices": np.array([0, 2]),
        "indptr": np.array([0, 1, 2]),
    }
    return npz(**{**parts, **changes})


def pickled():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in ("format", "shape", "data"):
            archive.writestr(f"{name}.npy", pickle.dumps(Evil()))
    return stream.getvalue()


HEAD = b"%%MatrixMarket matrix coordinate real general\n"
BAD = {
    "objects": ("x.npz", csr(data=np.array([Evil(), 1.0], dtype=object)), "cannot be read as a sparse table"),
    "a pickle": ("x.npz", pickled(), "cannot be read as a sparse table"),
    "texts": ("x.npz", csr(data=np.array(["a", "b"])), "must hold real numbers"),
    "complex numbers": ("x.npz", csr(data=np.array([1j, 2.0])), "must hold real numbers"),
    "a shape of fractions": ("x.npz", csr(shape=np.array([2.0, 3.0])), "must hold real numbers"),
    "columns outside": ("x.npz", csr(indices=np.array([0, 7])), "is damaged"),
    "negative columns": ("x.npz", csr(indices=np.array([0, -1])), "is damaged"),
    "missing values": ("x.npz", csr(data=np.array([1.0, np.nan])), r"NaN \(missing values\) in 1 cells"),
    "no rows": ("x.npz", csr(shape=np.array([0, 3]), indptr=np.array([0]), data=np.zeros(0), indices=np.zeros(0, int)),
        "0 sample"),
    "half a file": ("x.npz", csr()[:300], "not a sparse table"),
    "another format": ("x.npz", csr(format=np.array(b"evil")), "cannot be read as a sparse table"),
    "no matrix": ("x.mtx", b"a,b\n1,2\n", "cannot be read as a sparse table"),
    "promises": ("x.mtx", HEAD + b"9 9 100000000\n1 1 1.0\n", "states 100000000 entries"),
    "more promises": ("x.mtx", HEAD + b"9 9 100000000000\n1 1 1.0\n", "at most 5e.08 are read"),
    "too few entries": ("x.mtx", HEAD + b"9 9 3\n1 1 1.0\n", "cannot be read"),
    "rows outside": ("x.mtx", HEAD + b"2 2 1\n5 1 1.0\n", "cannot be read"),
    "complex": ("x.mtx", HEAD.replace(b"real", b"complex") + b"2 2 1\n1 1 1.0 2.0\n", "complex numbers"),
    "dense": ("x.mtx", b"%%MatrixMarket matrix array real general\n2 1\n1.0\n2.0\n", "holds a dense matrix"),
    "no numbers": ("x.svmlight", b"1 a:b\n", "cannot be read as a sparse table"),
    "a table": ("x.csv", b"a,b\n1,2\n", r"is not a sparse table\. Save one with scipy\.sparse\.save_npz"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_damaged_files_are_refused_in_one_line(tmp_path, case):
    name, content, said = BAD[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(kw.InputError, match=said) as error:
        read_sparse(tmp_path / name)
    assert "\n" not in str(error.value)


def test_files_that_are_not_there_or_too_large(tmp_path):
    with pytest.raises(kw.InputError, match="There is no file"):
        read_sparse(tmp_path / "x.npz")
    sparse.save_npz(tmp_path / "wide.npz", sparse.csr_array((30_000, 30_000)))
    with pytest.raises(kw.InputError, match=r"too many for a table of columns.*--view words=wide\.npz"):
        Sparse().table(tmp_path / "wide.npz")


def command(capsys, *argv):
    status = run([str(part) for part in argv])
    printed = capsys.readouterr()
    return status, printed.out + printed.err


FAST = ("--method", "simple", "--cs", "1,10", "--cv", "3")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernels", ["default", "linear; rbf(gamma='median')"])
@pytest.mark.usefixtures("undrawn")
def test_a_run_with_a_sparse_view(folder, words, tmp_path, capsys, kernels, monkeypatch):
    monkeypatch.chdir(folder)
    status, said = command(
        capsys, "fit", "table.csv", "--target", "y", "--view", "words=words.npz", "--kernels", kernels,
        *FAST, "--out", tmp_path / "run",
    )  # fmt: skip
    assert status == 0, said
    assert "View words: 200 sparse columns" in said
    model = kw.load(tmp_path / "run" / "model.skops")
    assert type(model.model_.source.raw.blocks["words"]).__name__ == "SparseTable"
    # the same model in Python
    table = pd.read_csv("table.csv")
    views = kw.Views({"table": table[["age", "dose"]], "words": words})
    expected = model.decision_function(views)
    assert (table["y"].to_numpy() == model.predict(views)).mean() > 0.7
    for file in ("words.npz", "words.mtx.gz"):
        status, said = command(
            capsys, "predict", tmp_path / "run", "table.csv", "--view", f"words={file}", "--out", tmp_path / "p.csv"
        )  # fmt: skip
        assert status == 0, said
        np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["decision"], expected, atol=1e-9)
    status, said = command(
        capsys, "evaluate", tmp_path / "run", "table.csv", "--target", "y", "--view", "words=words.mtx"
    )
    assert status == 0, said
    # the script makes the model again
    scope: dict = {}
    exec(compile((tmp_path / "run" / "script.py").read_text(), "script.py", "exec"), scope)
    capsys.readouterr()
    np.testing.assert_allclose(scope["model"].decision_function(views), expected, atol=1e-9)
    assert "words: " in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.full
@pytest.mark.usefixtures("undrawn")
def test_groups_of_columns_beside_a_sparse_view(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    (tmp_path / "views.toml").write_text('[views]\na = ["age"]\nd = ["dose"]\n')
    (tmp_path / "spec.toml").write_text('[kernels]\nwords = "linear"\na = "rbf(0.5)"\n')
    status, said = command(
        capsys, "fit", "table.csv", "--target", "y", "--view", "words=words.npz", "--views", tmp_path / "views.toml",
        "--spec", tmp_path / "spec.toml", *FAST, "--out", tmp_path / "run",
    )  # fmt: skip
    assert status == 0, said
    names = kw.load(tmp_path / "run" / "model.skops").kernel_names_
    assert names[0] == "a: standardised RBF(gamma=0.5)"
    assert names[-1] == "words: Linear"
    assert any(name.startswith("d: ") for name in names)
    status, said = command(
        capsys,
        "predict",
        tmp_path / "run",
        "table.csv",
        "--view",
        "words=words.npz",
        "--out",
        tmp_path / "p.csv",
    )
    assert status == 0, said


@pytest.mark.usefixtures("undrawn")
def test_an_svmlight_file_alone(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    status, said = command(
        capsys,
        "fit",
        "words.svmlight",
        "--target",
        "target",
        *FAST,
        "--nested",
        "2",
        "--out",
        tmp_path / "run",
    )
    assert status == 0, said
    status, said = command(capsys, "predict", tmp_path / "run", "words.svmlight", "--out", tmp_path / "p.csv")
    assert status == 0, said
    status, said = command(capsys, "evaluate", tmp_path / "run", "words.svmlight", "--target", "target")
    assert status == 0, said
    assert "accuracy" in said
    exec(compile((tmp_path / "run" / "script.py").read_text(), "script.py", "exec"), {})
    capsys.readouterr()
    status, said = command(
        capsys, "path", "words.svmlight", "--target", "target", *FAST[:4], "--out", tmp_path / "path"
    )
    assert status == 0, said


@pytest.mark.full
@pytest.mark.usefixtures("undrawn")
def test_rows_with_missing_values_leave_the_sparse_rows_with_them(folder, words, tmp_path, capsys):
    table = pd.read_csv(folder / "table.csv")
    table.loc[[3, 10], "age"] = np.nan
    table.to_csv(tmp_path / "holes.csv", index=False)
    status, said = command(
        capsys, "fit", tmp_path / "holes.csv", "--target", "y", "--view", f"words={folder / 'words.npz'}",
        "--missing", "drop", "--test-size", "0", *FAST, "--out", tmp_path / "run",
    )  # fmt: skip
    assert status == 0, said
    rows = kw.load(tmp_path / "run" / "model.skops").model_.source.raw.blocks["words"].values
    kept = np.setdiff1d(np.arange(N), [3, 10])
    np.testing.assert_array_equal(rows.toarray(), words[kept].toarray())


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["fit", "table.csv", "--target", "y", "--view", "words.npz"], "must be like 'words=words.npz'"),
        (["fit", "table.csv", "--target", "y", "--view", "w=none.npz"], "There is no file none.npz"),
        (["fit", "table.csv", "--target", "y", "--view", "w=table.csv"], "is not a sparse table"),
        (["fit", "table.csv", "--target", "y", "--view", "w=short.npz"], "has 59 rows, but table.csv has 60"),
        (["fit", "table.csv", "--target", "y", "--view", "table=words.npz"], "Choose another"),
        (["fit", "words.npz", "--target", "y"], "has rows but no target"),
        (["fit", "words.svmlight", "--target", "y"], "no column 'y' for the target"),
        (
            ["fit", "table.csv", "--target", "y", "--view", "w=words.npz", "--kernels", "rls2"],
            "The bank 'rls2' is for one table of columns",
        ),
        (
            [
                "fit",
                "table.csv",
                "--target",
                "y",
                "--view",
                "w=words.npz",
                "--join",
                "table.csv",
                "--key",
                "age",
            ],
            "by position, and --join matches",
        ),
        (["predict", "run", "table.csv"], r"sparse views words, got none\. Pass --view words=FILE"),
        (["predict", "run", "table.csv", "--view", "text=words.npz"], "sparse views words, got text"),
        (["predict", "run", "table.csv", "--view", "words=short.npz"], "has 59 rows, but table.csv has 60"),
        (["predict", "plain", "table.csv", "--view", "words=words.npz"], "no views of its own, got words"),
    ],
)
def test_what_does_not_belong_together(ready, capsys, monkeypatch, argv, expected):
    monkeypatch.chdir(ready)
    status, said = command(capsys, *argv, "--out", ready / "new")
    assert status == 2, said
    assert re.search(expected, said), said


@pytest.fixture(scope="module")
def ready(folder, words):
    sparse.save_npz(folder / "short.npz", words[:59])
    base = [
        "fit",
        str(folder / "table.csv"),
        "--target",
        "y",
        "--method",
        "simple",
        "--cs",
        "1,2",
        "--cv",
        "2",
    ]
    base += ["--kernels", "linear", "--budget", "0"]
    assert run([*base, "--view", f"words={folder / 'words.npz'}", "--out", str(folder / "run")]) == 0
    assert run([*base, "--out", str(folder / "plain")]) == 0
    return folder


def test_names_of_views():
    assert name_views("a=x.npz, b=y.mtx") == {"a": "x.npz", "b": "y.mtx"}
    assert name_views(["a=x=1.npz"]) == {"a": "x=1.npz"}


def test_as_many_entries_as_the_limit_are_read_and_one_more_is_refused(words, tmp_path, monkeypatch):
    scipy.io.mmwrite(tmp_path / "w.mtx", words)
    sparse.save_npz(tmp_path / "w.npz", words)
    dump_svmlight_file(words.tocsr(), np.zeros(N), str(tmp_path / "w.svm"))
    limit = "kernelweave_app.runs.formats.sparse.MOST_ENTRIES"
    monkeypatch.setattr(limit, words.nnz)
    np.testing.assert_allclose(read_sparse(tmp_path / "w.mtx")[0].toarray(), words.toarray())
    for name, most in (("w.mtx", words.nnz - 1), ("w.npz", 10), ("w.svm", 10)):
        monkeypatch.setattr(limit, most)
        with pytest.raises(InputError, match=r"entries, and at most .* are read"):
            read_sparse(tmp_path / name)
