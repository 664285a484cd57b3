"""Annotated matrices in files: what is read, what is refused, and a run of the command line.

Modules: `runs/formats/annotated`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

pytest.importorskip("cyclopts")
import kernelweave as kw
from kernelweave._errors import InputError
from kernelweave_app.cli.app import run
from kernelweave_app.runs.formats import read_table
from kernelweave_app.runs.formats.annotated import check_annotated, read_annotated, read_part

anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")

N = 40

# AnnData asks pandas for an option that pandas 3 gives up
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")


def names(letter, n):
    """Names as objects: texts of pandas 3 are not written by default."""
    return pd.Index([f"{letter}{k}" for k in range(n)], dtype=object)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("cells")
    rng = np.random.default_rng(0)
    counts = rng.poisson(1.0, size=(N, 12)).astype(float)
    obs = pd.DataFrame(
        {"type": pd.Categorical(np.where(counts[:, 0] > 0, "T", "B").tolist()), "age": rng.normal(size=N)},
        index=names("c", N),
    )
    cells = anndata.AnnData(sparse.csr_matrix(counts), obs, pd.DataFrame(index=names("g", 12)))
    cells.obsm["X_pca"] = rng.normal(size=(N, 3))
    cells.layers["counts"] = sparse.csr_matrix(2 * counts)
    cells.uns["notes"] = {"a": 1}
    cells.write_h5ad(root / "cells.h5ad")
    cells.X = counts
    cells.write_h5ad(root / "dense.h5ad")
    return root


def test_parts_of_a_file(folder):
    cells = anndata.read_h5ad(folder / "cells.h5ad")
    found = read_annotated(folder / "cells.h5ad")
    assert found.views == {"obs": ["type", "age"], "X_pca": ["X_pca.0", "X_pca.1", "X_pca.2"]}
    np.testing.assert_array_equal(found.sparse["X"].toarray(), cells.X.toarray())
    np.testing.assert_array_equal(found.table[found.views["X_pca"]], cells.obsm["X_pca"])
    assert found.table["obs_names"].tolist() == cells.obs_names.tolist()
    dense = read_table(folder / "dense.h5ad")
    np.testing.assert_array_equal(dense[[f"g{j}" for j in range(12)]], cells.X.toarray())
    layer = read_part(f"{folder / 'cells.h5ad'}#layers/counts")
    np.testing.assert_array_equal(layer.toarray(), 2 * cells.X.toarray())
    with pytest.raises(InputError, match=r"has no part 'layers/x'\. It has X, layers/counts, obsm/X_pca"):
        read_part(f"{folder / 'cells.h5ad'}#layers/x")


@pytest.mark.parametrize("name", ["cells.h5ad", "dense.h5ad"])
def test_a_run_and_its_script(folder, tmp_path, monkeypatch, name):
    monkeypatch.chdir(folder)
    out = str(tmp_path / "run")
    own = ["--target", "type", "--method", "uniform", "--cs", "1,10", "--cv", "2", "--types", "age=category"]
    assert run(["fit", name, *own, "--out", out]) == 0
    model = kw.load(f"{out}/model.skops")
    assert {label.partition(":")[0] for label in model.kernel_names_} == {"obs", "X_pca", "X"}
    scope = {}
    exec(compile((tmp_path / "run" / "script.py").read_text(), "script.py", "exec"), scope)
    np.testing.assert_allclose(scope["model"].weights_, model.weights_, atol=1e-9)
    assert run(["predict", out, name, "--out", f"{out}/new.csv"]) == 0
    new = pd.read_csv(f"{out}/new.csv")
    X = scope["X"]
    np.testing.assert_allclose(new["decision"], scope["model"].decision_function(X), atol=1e-8)


def test_what_lies_outside_of_a_file_is_never_read(folder, tmp_path):
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(80))

    def made(change):
        path = tmp_path / "bad.h5ad"
        path.write_bytes((folder / "dense.h5ad").read_bytes())
        with h5py.File(path, "a") as file:
            change(file)
        return path

    def replaced(file, **options):
        del file["X"]
        file.create_dataset("X", **options)

    bad = {
        "is a link": lambda file: file.__setitem__("raw2", h5py.ExternalLink("other.h5", "/X")),
        "link to another part": lambda file: file.__setitem__("raw2", h5py.SoftLink("/X")),
        "stored in another file": lambda file: replaced(
            file, shape=(10,), dtype="f8", external=[(str(secret), 0, 80)]
        ),
        "numbers, and at most": lambda file: replaced(
            file, shape=(10**6, 10**6), dtype="f8", chunks=(100, 100)
        ),
        "obs and var are needed": lambda file: file.__delitem__("var"),
    }
    for says, change in bad.items():
        with pytest.raises(InputError, match=says):
            check_annotated(made(change), "bad.h5ad")
    (tmp_path / "half.h5ad").write_bytes((folder / "dense.h5ad").read_bytes()[:900])
    with pytest.raises(InputError, match="cannot be read as AnnData"):
        check_annotated(tmp_path / "half.h5ad", "half.h5ad")
