"""Precomputed kernels in files: what is read, what is refused, and runs of the command line with them.

Modules: `runs/formats/kernel_matrices`, `runs/further_views`.
"""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC

import kernelweave as kw

pytest.importorskip("cyclopts")

from kernelweave_app.cli.app import run
from kernelweave_app.runs.formats.kernel_matrices import check_gram, read_grams
from kernelweave_app.runs.further_views import GRAMS

#: What runs draw is looked at in other files.
pytestmark = pytest.mark.usefixtures("undrawn")

N, NEW = 45, 15
IDS = np.array([f"s{k:02d}" for k in range(N + NEW)])


def kernel(X, Z, width=4.0):
    return np.exp(-((X[:, None] - Z) ** 2).sum(axis=-1) / width)


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N + NEW, 4)), rng.normal(size=(N + NEW, 3))


@pytest.fixture
def folder(tmp_path, parts):
    A, B = parts
    y = np.where(A[:, 0] + B[:, 0] > 0, "ill", "well")
    table = pd.DataFrame({"id": IDS, "y": y})
    table[:N].to_csv(tmp_path / "t.csv", index=False)
    table[:N].drop(columns="id").to_csv(tmp_path / "plain.csv", index=False)
    table[N:].to_csv(tmp_path / "new.csv", index=False)
    old, new = slice(0, N), slice(N, None)
    first, second = kernel(A[old], A[old]), kernel(B[old], B[old])
    mixed = np.random.default_rng(1).permutation(N)
    at = np.ix_(mixed, mixed)
    np.savez(tmp_path / "g.npz", first=first[at], second=second[at], names=IDS[:N][mixed])
    np.save(tmp_path / "first.npy", first)
    np.save(tmp_path / "second.npy", second)
    new1, new2 = kernel(A[new], A[old]), kernel(B[new], B[old])
    columns = np.random.default_rng(2).permutation(N)
    turned = slice(None, None, -1)
    np.savez(
        tmp_path / "gnew.npz",
        first=new1[turned][:, columns],
        second=new2[turned][:, columns],
        names=IDS[N:][turned],
        columns=IDS[:N][columns],
    )
    np.save(tmp_path / "first-new.npy", new1)
    np.save(tmp_path / "second-new.npy", new2)
    return tmp_path


def fit(folder, *arguments):
    own = [
        "--method",
        "uniform",
        "--cs",
        "1,10",
        "--cv",
        "2",
        "--target",
        "y",
        "--budget",
        "0",
        "--overwrite",
    ]
    return run(["fit", *map(str, arguments), *own, "--out", str(folder / "run")])


def test_rows_and_columns_are_matched_by_name(folder, parts, monkeypatch):
    monkeypatch.chdir(folder)
    assert fit(folder, "t.csv", "--gram", "g.npz", "--test-size", 0) == 0
    model = kw.load(folder / "run" / "model.skops")
    assert list(model.kernel_names_) == ["first: Precomputed", "second: Precomputed"]
    assert run(["predict", "run", "new.csv", "--gram", "gnew.npz", "--out", "p.csv"]) == 0
    # an independent machine on the sum of the same kernels, in the order of the tables
    A, B = parts
    y = pd.read_csv("t.csv")["y"]
    weight = model.weights_[0]
    np.testing.assert_allclose(model.weights_, weight)
    # centred in feature space, with mean diagonal one: constants of rows cancel in a machine with an intercept
    centre = np.eye(N) - 1.0 / N
    parts = [(kernel(P[:N], P[:N]), kernel(P[N:], P[:N])) for P in (A, B)]
    scales = [np.trace(centre @ old @ centre) / N for old, _ in parts]
    old, new = (sum(part[j] / scale for part, scale in zip(parts, scales, strict=True)) for j in (0, 1))
    other = SVC(C=model.C_, kernel="precomputed", tol=1e-8).fit(weight * old, y)
    given = pd.read_csv("p.csv")
    np.testing.assert_allclose(given["decision"], other.decision_function(weight * new), atol=1e-3)
    assert (given["prediction"] == other.predict(weight * new)).all()
    assert run(["evaluate", "run", "new.csv", "--target", "y", "--gram", "gnew.npz"]) == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("file", ["g.npz", "stack.npz"])
def test_the_script_makes_the_same_model(file, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with np.load("g.npz") as of:
        np.savez("stack.npz", K=np.stack([of["first"], of["second"]]), names=of["names"])
    assert fit(folder, "t.csv", "--gram", file) == 0
    scope = {}
    exec(compile((folder / "run" / "script.py").read_text(), "script.py", "exec"), scope)
    model = kw.load(folder / "run" / "model.skops")
    np.testing.assert_allclose(scope["model"].weights_, model.weights_, atol=1e-9)
    held = pd.read_csv(folder / "run" / "predictions.csv")
    given = scope["model"].decision_function(scope["X"][scope["test"]])
    np.testing.assert_allclose(given, held["decision"], atol=1e-8)
    grams = json.loads((folder / "run" / GRAMS).read_text())["grams"]
    assert [one["column"] for one in grams.values()] == ["id", "id"]


@pytest.mark.full
def test_by_position_and_held_out_rows(folder, monkeypatch):
    # rows of an npy file have no names; of new rows a column for each row of the fit's matrix will do
    monkeypatch.chdir(folder)
    grams = ["--gram", "first=first.npy,second=second.npy"]
    assert fit(folder, "plain.csv", *grams) == 0
    new = ["--gram", "first=first-new.npy", "--gram", "second=second-new.npy"]
    assert run(["predict", "run", "new.csv", *new, "--out", "p.csv"]) == 0
    assert fit(folder, "t.csv", "--gram", "g.npz") == 0
    assert run(["predict", "run", "new.csv", "--gram", "gnew.npz", "--out", "q.csv"]) == 0
    # the same rows are held out, and the order of a file does not matter
    p, q = pd.read_csv("p.csv"), pd.read_csv("q.csv")
    np.testing.assert_allclose(p["decision"], q["decision"], rtol=1e-6, atol=1e-8)


def test_kernels_beside_columns(folder, monkeypatch):
    monkeypatch.chdir(folder)
    table = pd.read_csv("t.csv").assign(age=np.arange(N) % 7)
    table.to_csv("wide.csv", index=False)
    assert (
        fit(folder, "wide.csv", "--key", "id", "--gram", "first=first.npy", "--kernels", "linear; rbf") == 0
    )
    names = list(kw.load(folder / "run" / "model.skops").kernel_names_)
    assert names[-1] == "first: Precomputed"
    assert len(names) == 3
    assert all(name.startswith("table: ") for name in names[:2])


K = np.eye(3) + 0.5
FALSE = {
    "no square": (K[:2], r"must be square for training, got shape \(2, 3\)"),
    "distances": (1.5 - K, "like a distance matrix"),
    "not symmetric": (K + np.triu(np.ones((3, 3)), 1) * 0.1, "must be symmetric, got max .* = 0.1"),
    "indefinite": (np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]]), "eigenvalues from -0.273 to 2.27"),
    "negative": (-K, "not positive semidefinite"),
    "a missing value": (np.where(np.eye(3, k=1) > 0, np.nan, K), "got 2 NaN and 0 infinity"),
    "infinity": (np.where(np.eye(3) > 0, np.inf, K), "kernel 0 holds NaN or infinity"),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_what_is_no_kernel_is_said(name):
    from kernelweave._errors import InputError

    matrix, says = FALSE[name]
    with pytest.raises(InputError, match=says):
        check_gram(matrix, "Kernel 'a'")


def test_kernels_pass():
    check_gram(K, "a")
    lacking = K.copy()
    lacking[1] = lacking[:, 1] = np.nan
    check_gram(lacking, "a")
    # more rows than have their eigenvalues computed
    X = np.random.default_rng(0).normal(size=(1100, 3))
    check_gram(X @ X.T, "a")


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


BAD = {
    "objects": ("x.npy", lambda: npy(np.array([[{}]], dtype=object), allow_pickle=True), "holds Python objects"),
    "objects in npz": ("x.npz", lambda: npz(K=np.array([[{}]], dtype=object)), "holds Python objects"),
    "text": ("x.npz", lambda: npz(K=np.array([["a"]])), "holds <U1; kernel matrices are real numbers"),
    "a vector": ("x.npz", lambda: npz(K=K, y=np.zeros(3)), r"array 'y' has shape \(3,\)"),
    "two sizes": ("x.npz", lambda: npz(K=K, L=K[:2, :2]), "belong to the same rows"),
    "few names": ("x.npz", lambda: npz(K=K, names=np.array(["a", "b"])), "2 names for 3 rows"),
    "names twice": ("x.npz", lambda: npz(K=K, names=np.array(["a", "b", "a"])), "'a' occurs again"),
    "no matrix": ("x.npz", lambda: npz(names=np.array(["a"])), "holds no matrix"),
    "half": ("x.npz", lambda: npz(K=K)[:200], "is damaged"),
    "half an npy": ("x.npy", lambda: npy(K)[:150], "cannot be read as kernel matrices"),
    "a table": ("x.npy", lambda: b"a,b\n1,2\n", "neither an npy nor an npz file"),
    "nothing": ("x.npy", lambda: b"", "neither an npy nor an npz file"),
    "a bomb": ("x.npz", lambda: npz(K=np.zeros((1000, 1000))), r"holds more than 9e\+05 values"),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BAD)
def test_bad_files_end_with_one_line(tmp_path, capsys, monkeypatch, name):
    monkeypatch.setattr("kernelweave_app.runs.formats.kernel_matrices.MOST_VALUES", 900_000)
    file, content, says = BAD[name]
    (tmp_path / file).write_bytes(content())
    pd.DataFrame({"y": [1.0, 2.0, 4.0]}).to_csv(tmp_path / "t.csv", index=False)
    status = run(["fit", str(tmp_path / "t.csv"), "--target", "y", "--gram", str(tmp_path / file), "--out",
                  str(tmp_path / "run")])  # fmt: skip
    said = capsys.readouterr().err
    assert status == 2
    assert said.count("\n") == 1
    assert re.search(says, said), said


WRONG = {
    "another number of rows": (["plain.csv", "--gram", "small.npy"], "has 3 rows, but the table has 45"),
    "names nowhere": (["plain.csv", "--gram", "g.npz"], "no column of the table holds these names"),
    "other names": (
        ["t.csv", "--key", "y", "--gram", "g.npz"],
        "lacks 45 of the 45 rows of the table by their 'y'",
    ),
    "twice": (["t.csv", "--gram", "a=first.npy,a=second.npy"], "has the name 'a' twice"),
    "a kernel for it": (["t.csv", "--gram", "g.npz", "--spec", "own.toml"], "is a precomputed kernel"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_uses_are_said(folder, monkeypatch, capsys, name):
    monkeypatch.chdir(folder)
    np.save("small.npy", K)
    (folder / "own.toml").write_text('[kernels]\nfirst = "rbf"\n')
    arguments, says = WRONG[name]
    assert fit(folder, *arguments) == 2
    assert says in capsys.readouterr().err


def test_new_rows_need_the_columns_of_training_rows(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert fit(folder, "t.csv", "--gram", "first=first.npy") == 0
    np.save("narrow.npy", np.load("first-new.npy")[:, :10])
    for arguments, says in (
        ([], "Pass --gram first=FILE"),
        (
            ["--gram", "narrow.npy"],
            "or of the 45 rows of the matrix of the fit, in their order, got 10 columns",
        ),
        (["--gram", "gnew.npz"], "The model has the precomputed kernels first, got first, second"),
    ):
        capsys.readouterr()
        assert run(["predict", "run", "new.csv", *arguments, "--out", "p.csv"]) == 2
        assert says in capsys.readouterr().err


def test_stacks_and_names_of_numbers(tmp_path):
    np.savez(tmp_path / "g.npz", K=np.stack([K, 2 * K]), ids=np.array([3.0, 1.0, 2.0]))
    found = read_grams(tmp_path / "g.npz")
    assert list(found.matrices) == ["K0", "K1"]
    assert found.rows == found.columns == ("3", "1", "2")
    np.testing.assert_array_equal(found.matrices["K1"], 2 * K)
