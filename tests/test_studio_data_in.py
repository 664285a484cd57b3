"""The studio takes what scientists have: kernels, sparse tables, annotated matrices; and says what tables hold.

Modules: `studio/catalogue`, `studio/predicting`, `runs/formats/arrays`, `runs/formats`.
"""

import datetime
import io

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")

from studio_server import Served, needs_core

N, NEW = 40, 12


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("datain"))
    yield served
    served.close()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def csv(frame):
    return frame.to_csv(index=False).encode()


@pytest.fixture(scope="module")
def grams(served):
    """A table of targets and a file of two kernels in another order, and the same for new rows."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(N + NEW, 3)), rng.normal(size=(N + NEW, 2))
    ids = np.array([f"s{k}" for k in range(N + NEW)])
    table = pd.DataFrame({"id": ids, "y": np.where(A[:, 0] + B[:, 0] > 0, "ill", "well")})
    old, new = rng.permutation(N), N + rng.permutation(NEW)
    files = {
        "t.csv": csv(table[:N]),
        "new.csv": csv(table[N:]),
        "g.npz": npz(first=A[old] @ A[old].T, second=B[old] @ B[old].T, names=ids[old]),
        "gnew.npz": npz(first=A[new] @ A[:N].T, second=B[new] @ B[:N].T, names=ids[new], columns=ids[:N]),
        "bare.npy": npy(A[:N] @ A[:N].T),
        "distances.npz": npz(D=np.linalg.norm(A[:N, None] - A[:N], axis=2), names=ids[:N]),
    }
    return upload(served, files) | {"A": A, "B": B}


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def upload(served, files):
    found = {}
    for name, content in files.items():
        answer = served.upload(name, content)
        assert answer.status_code == 201, answer.text
        found[name] = answer.json()
    return found


SPEC = {"target": "y", "method": "uniform", "Cs": "1,10", "cv": 2}


@needs_core
def test_kernels_from_upload_to_prediction(served, grams):
    assert grams["g.npz"]["uses"] == ["kernels", "table"]
    assert grams["bare.npy"]["uses"] == ["kernels"]
    data = {"tables": [grams["t.csv"]["id"]], "kernels": [grams["g.npz"]["id"]], "key": "id"}
    joined = served.client.post("/api/join", json=data).json()
    assert [(one["name"], one["use"], one["by"]) for one in joined["further"]] == [
        ("first", "kernels", "id"),
        ("second", "kernels", "id"),
    ]
    checked = served.client.post("/api/check", json={"data": data, "spec": SPEC}).json()
    assert checked["n_training"] == 32
    previews = served.client.post("/api/kernels", json={"data": data, "spec": SPEC, "most": 2}).json()
    assert {kernel["name"] for kernel in previews["kernels"]} == {"first: Precomputed", "second: Precomputed"}
    found = served.client.post("/api/alignments", json={"data": data, "spec": SPEC}).json()
    # centred alignment of linear kernels is the RV coefficient of their columns
    A, B = (part[:N] - part[:N].mean(axis=0) for part in (grams["A"], grams["B"]))
    rv = np.square(A.T @ B).sum() / np.sqrt(np.square(A.T @ A).sum() * np.square(B.T @ B).sum())
    np.testing.assert_allclose(found["values"], [[1.0, rv], [rv, 1.0]], atol=1e-9)
    done = served.made(data=data, spec=SPEC)
    assert done["state"] == "done"
    run = done["id"]
    new = {"tables": [grams["new.csv"]["id"]], "kernels": [grams["gnew.npz"]["id"]], "key": "id"}
    answer = served.client.post(f"/api/runs/{run}/predict", json={"data": new}).json()
    assert answer["n_rows"] == NEW
    decision = [row[answer["columns"].index("decision")] for row in answer["rows"]]
    truth = grams["A"][N:, 0] + grams["B"][N:, 0]
    # rows were matched: "well", the second class, has the negative sums
    assert stats.spearmanr(decision, truth).statistic < -0.5


@needs_core
def test_wrong_kernels_are_said(served, grams):
    table = grams["t.csv"]["id"]
    for data, says in (
        ({"tables": [table], "kernels": [grams["distances.npz"]["id"]]}, "like a distance matrix"),
        (
            {"tables": [grams["new.csv"]["id"]], "kernels": [grams["bare.npy"]["id"]]},
            "has 40 rows, but the table",
        ),
        ({"tables": [], "kernels": [grams["g.npz"]["id"]]}, "Choose the table with the target"),
        (
            {"tables": [table], "kernels": [grams["gnew.npz"]["id"]]},
            "must be square for training, got shape (12, 40)",
        ),
    ):
        answer = served.client.post("/api/check", json={"data": data, "spec": SPEC})
        assert answer.status_code == 422
        assert says in answer.json()["detail"], answer.json()
    # paths of the server's own files are no settings
    for name in ("gram", "view"):
        spec = {**SPEC, name: "a=/etc/hostname"}
        answer = served.client.post("/api/check", json={"data": {"tables": [table]}, "spec": spec})
        assert answer.status_code == 422
        assert f"Setting `{name}`" in answer.json()["detail"]
    assert served.client.post("/api/join", json={"tables": []}).status_code == 422


@needs_core
def test_sparse_views_from_upload_to_prediction(served):
    rng = np.random.default_rng(1)
    words = sparse.random_array((N, 300), density=0.1, rng=rng, format="csr")
    stream = io.BytesIO()
    sparse.save_npz(stream, words)
    table = pd.DataFrame({"age": rng.normal(size=N), "y": np.where(words[:, :100].sum(axis=1) > 5, "a", "b")})
    files = upload(served, {"words.npz": stream.getvalue(), "people.csv": csv(table)})
    assert files["words.npz"]["uses"] == ["sparse", "table"]
    data = {"tables": [files["people.csv"]["id"]], "sparse": [files["words.npz"]["id"]]}
    done = served.made(data=data, spec=SPEC)
    assert done["state"] == "done"
    run = done["id"]
    answer = served.client.post(f"/api/runs/{run}/predict", json={"data": data})
    assert answer.json()["n_rows"] == N
    bare = served.client.post(f"/api/runs/{run}/predict", json={"data": {"tables": data["tables"]}})
    assert "The tables lack 1 sparse views of the model (words), and 0 further files" in bare.json()["detail"]


BAD = {
    "objects": ("x.npy", lambda: pickled(), "holds Python objects"),
    "cut off": ("x.npy", lambda: npy(np.eye(30))[:500], "is cut off"),
    "another name": ("x.npy", lambda: b"a,b\n1,2\n", "is not what its name says"),
    "a csv as h5ad": ("x.h5ad", lambda: b"a,b\n1,2\n", "is not what its name says"),
    "an npy as csv": ("x.csv", lambda: npy(np.eye(3)), "is not what its name says"),
    "a vector": ("x.npy", lambda: npy(np.ones(3)), "a kernel is a matrix"),
    "half h5ad": ("x.h5ad", lambda: b"\x89HDF\r\n\x1a\n" + bytes(100), "x.h5ad"),
}


def pickled():
    stream = io.BytesIO()
    np.save(stream, np.array([[{}]], dtype=object), allow_pickle=True)
    return stream.getvalue()


@pytest.mark.parametrize("name", BAD)
def test_uploads_are_checked_by_content(served, name):
    if name == "half h5ad":
        pytest.importorskip("anndata")
    file, content, says = BAD[name]
    answer = served.upload(file, content())
    assert answer.status_code == 422
    assert says in answer.json()["detail"], answer.json()


@pytest.mark.usefixtures("json_lines")
def test_cells_that_are_lists_are_refused_in_every_format(served):
    lists, numbers = b'{"a": [1, 2], "y": 1}\n{"a": [3], "y": 2}\n', b'{"a": 1, "y": 1}\n{"a": 3, "y": 2}\n'
    answer = served.upload("lists.jsonl", lists)
    assert answer.status_code == 422
    assert "column 'a' holds list" in answer.json()["detail"]
    answer = served.upload("half.jsonl", b"damaged")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("half.jsonl cannot be read as a table: unpack requires")
    (served.studio.places.files / "put.jsonl").write_bytes(lists)
    put = next(one["id"] for one in served.client.get("/api/tables").json() if one["name"] == "put.jsonl")
    answer = served.client.get(f"/api/tables/{put}/rows")
    assert answer.status_code == 422
    assert "column 'a' holds list" in answer.json()["detail"]
    read = served.client.get(f"/api/tables/{upload(served, {'n.jsonl': numbers})['n.jsonl']['id']}/rows")
    assert read.json()["rows"] == [["1", "1"], ["3", "2"]]


def test_dates_are_taken_and_can_be_left_out(served):
    pytest.importorskip("pyarrow")
    stream = io.BytesIO()
    days = [datetime.date(2020, 1, k + 1) for k in range(20)]
    pd.DataFrame({"day": days, "a": range(20), "y": range(20)}).to_parquet(stream)
    table = upload(served, {"d.parquet": stream.getvalue()})["d.parquet"]["id"]
    assert served.client.get(f"/api/tables/{table}/rows").json()["rows"][0] == ["2020-01-01", "0", "0"]


# ---- columns --------------------------------------------------------------------------------------------------------


def test_missing_cells_and_what_fills_them(served):
    frame = pd.DataFrame(
        {
            "a": [1.0, 2.0, np.nan, 4.0, 100.0, 6.0],
            "b": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            "c": ["x", None, "y", "x", "x", None],
            "y": [0.0, 1.0, 2.0, 3.0, 4.0, 5.5],
        }
    )
    table = upload(served, {"gaps.csv": csv(frame)})["gaps.csv"]["id"]
    question = {"data": {"tables": [table]}, "spec": {"target": "y"}}
    found = served.client.post("/api/missing", json=question).json()
    assert (found["n_cells"], found["n_columns"], found["n_incomplete"]) == (3, 2, 3)
    by_name = {gap["name"]: gap for gap in found["columns"]}
    assert by_name["a"]["mean"] == pytest.approx(22.6)
    assert by_name["a"]["median"] == 4.0
    assert by_name["c"]["frequent"] == "x"
    # the five nearest rows are all that have a number
    assert by_name["a"]["nearest"] == pytest.approx([22.6, 22.6])
    left_out = {**question, "spec": {"target": "y", "drop": ["a"]}}
    assert served.client.post("/api/missing", json=left_out).json()["n_columns"] == 1


@pytest.mark.nightly
def test_the_rows_that_a_column_holds_out_are_counted_and_can_be_swapped(served):
    """As they are chosen: the answer, the check of a run, and the run agree."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=97), "b": rng.normal(size=97)})
    frame["y"] = frame["a"] + 0.1 * rng.normal(size=97)
    frame["train"] = np.where(rng.permutation(97) < 67, "T", "F")
    frame["part"] = np.where(frame["train"] == "T", "a", "b")
    table = upload(served, {"prostate.csv": csv(frame)})["prostate.csv"]["id"]
    spec = {"target": "y", "holdout": "train", "drop": ["part"], "kernels": "linear", "alphas": "2", "cv": 2}
    data = {"tables": [table]}

    def asked(**changed):
        question = {"data": data, "spec": {**spec, **changed}}
        found = served.client.post("/api/held-out", json=question).json()
        if found["said"]:
            checked = served.client.post("/api/check", json=question).json()
            assert (checked["n_held"], checked["n_training"]) == (found["n_held"], found["n_training"])
        return found

    found = asked()
    assert found["said"] == "30 rows held out, 67 to train on (column 'train': held out = F; training = T)"
    assert (found["held"], found["swapped"], found["problem"]) == (["F"], ["T"], "")
    swapped = asked(holdout_values=found["swapped"])
    assert swapped["said"].startswith("67 rows held out, 30 to train on")
    # swapped once more it is as it was
    assert swapped["swapped"] == []
    run = served.wait(served.run(data=data, spec={**spec, "holdout_values": found["swapped"]}))
    assert run["state"] == "done", run["reason"]
    assert (run["summary"]["n_training"], run["summary"]["n_held"]) == (30, 67)
    assert run["request"]["spec"]["holdout_values"] == ["T"]
    events = served.client.get(f"/api/runs/{run['id']}/log").text
    assert "67 rows held out, 30 to train on" in events
    # values that say neither, until they are listed
    neither = asked(holdout="part", drop=["train"])
    assert "expected train and test" in neither["problem"]
    assert "got a (67 rows), b (30 rows)" in neither["problem"]
    assert neither["values"] == {"a": 67, "b": 30}
    assert asked(holdout="part", drop=["train"], holdout_values=["b"])["n_held"] == 30
    assert "holds out all rows" in asked(holdout_values=["T", "f"])["problem"]
    unknown = served.client.post("/api/held-out", json={"data": data, "spec": {**spec, "holdout": "no"}})
    assert unknown.status_code == 422


def test_rows_that_a_table_lacks_are_not_divided(served):
    """Of tables joined with all their rows those without the column of held-out rows are left out, as in a fit."""
    keys = [f"k{k}" for k in range(30)]
    one = pd.DataFrame({"who": keys, "a": np.arange(30.0), "b": np.arange(30) % 7})
    two = pd.DataFrame({"who": keys[:24], "y": np.arange(24.0) * 2, "is_train": np.arange(24) % 4 > 0})
    ids = [t["id"] for t in (upload(served, {"one.csv": csv(one), "two.csv": csv(two)})).values()]
    question = {
        "data": {"tables": ids, "key": "who"},
        "spec": {
            "target": "y",
            "holdout": "is_train",
            "rows": "all",
            "task": "regression",
            "kernels": "linear",
        },
    }
    found = served.client.post("/api/held-out", json=question).json()
    assert (found["n_held"], found["n_training"], found["problem"]) == (6, 18, "")
    checked = served.client.post("/api/check", json=question).json()
    assert (checked["n_held"], checked["n_training"]) == (6, 18)
