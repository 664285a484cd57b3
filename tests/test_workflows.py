"""The page of workflows: every block runs as it stands, and none is longer than six lines."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kernelweave as kw

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "user_guide" / "workflows.md").read_text()
BLOCKS = re.findall(r"^## (.*?)$.*?^```python\n(.*?)^```$", PAGE, re.S | re.M)
SETUP = re.search(r"^```python\n(.*?)^```$", PAGE, re.S | re.M)[1]
WANTED = {
    "AnnData",
    "Nested cross-validation",
    "Groups",
    "A permutation test",
    "Stability of weights",
    "A model outside of Python",
}


class Annotated:
    """What is read of an AnnData, where the package is missing."""

    def __init__(self, X, obs):
        self.X, self.obs = X, obs
        self.obs_names, self.var_names = obs.index, pd.RangeIndex(X.shape[1]).astype(str)


@pytest.fixture(params=["the package", "a stand-in"])
def anndata(request, monkeypatch):
    if request.param == "the package":
        pytest.importorskip("anndata")
    else:
        monkeypatch.setitem(sys.modules, "anndata", types.SimpleNamespace(AnnData=Annotated))


def test_all_workflows_are_there_and_short():
    assert {title for title, _ in BLOCKS} == WANTED
    for title, block in BLOCKS:
        lines = [
            line for line in block.splitlines() if line.strip() and not line.startswith(("import", "from"))
        ]
        assert len(lines) <= 6, title


@pytest.fixture
def scope():
    found: dict = {}
    exec(SETUP, found)
    return found


def test_they_run_one_after_the_other(scope, anndata, capsys):
    pytest.importorskip("onnxruntime")
    for _, block in BLOCKS:
        exec(block, scope)
    assert len(capsys.readouterr().out.splitlines()) > 8


def run(scope, title):
    blocks = dict(BLOCKS)
    exec(blocks["Nested cross-validation"], scope)
    exec(blocks[title], scope)
    return scope


def test_a_permutation_test_is_that_of_scores_by_hand(scope):
    found = run(scope, "A permutation test")
    assert found["p_value"] == (np.sum(found["permuted"] >= found["score"]) + 1) / 21


def test_groups_are_not_split(scope):
    found = run(scope, "Groups")
    model, groups = found["model"], found["hospital"]
    assert len(model.cv_results_["split0_test_score"]) == 2
    for train, test in model.cv.split(groups, groups=groups):
        assert set(groups[train]).isdisjoint(groups[test])


@pytest.mark.full
def test_the_permutation_test_of_the_library_gives_the_same(scope):
    found = run(scope, "A permutation test")
    own = kw.inspection.permutation_test(found["svm"], found["data"], found["y"], cv=3, n_permutations=20)
    assert own.p_value == found["p_value"]


def test_shares_of_views_are_those_of_the_model(scope):
    run(scope, "A permutation test")
    exec(dict(BLOCKS)["Stability of weights"], scope)
    found = scope["found"]
    assert dict(zip(found.views, found.view_weights, strict=True)) == pytest.approx(
        kw.inspection.view_weights(scope["svm"])
    )
    assert set(found.views) == {"rna", "clinical", "words"}
    assert len(found.samples) == 20


def test_annotated_matrices_equal_their_frames(scope, anndata):
    exec(dict(BLOCKS)["AnnData"], scope)
    adata, y = scope["adata"], scope["y"]
    kernels = [kw.kernels.Linear()]
    ours = kw.MKLClassifier(kernels, learner="simple").fit(adata, y)
    theirs = kw.MKLClassifier(kernels, learner="simple").fit(adata.X, y)
    np.testing.assert_array_equal(ours.decision_function(adata), theirs.decision_function(adata.X))
