"""The studio's API without a browser: tables, kernels, settings, a whole run and what it leaves.

Modules: `studio/api`, `studio/service`, `studio/schema`, `studio/catalogue`, `studio/previews`,
`studio/jobs`.
"""

import base64
import io
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.io
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")

import kernelweave as kw
from kernelweave import datasets
from kernelweave_app.runs.spec import Spec
from kernelweave_app.studio import catalogue, schema
from kernelweave_app.studio.previews import _coloured, thumbnail
from studio_server import Served, run_script, two_tables

WINE = {"tables": ["set-wine"]}
SPEC = {"target": "target", "alphas": "8", "cv": 3}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("studio"))
    yield served
    served.close()


@pytest.fixture(scope="module")
def done(served):
    """A finished run."""
    spec = {
        **SPEC,
        "views": {"body": ["alcohol", "ash", "hue"], "rest": ["proline", "flavanoids"]},
        "nested": 3,
    }
    spec["kernels"] = {"rest": "linear; rbf(gamma=0.5)"}
    run = served.wait(served.run(data=WINE, spec=spec, name="wine by views"))
    assert run["state"] == "done", run["reason"]
    return run


def get(served, path, **params):
    answer = served.client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(served, path, body, status=200):
    answer = served.client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def view_of(table):
    """The view of an uploaded table; a name that another upload has taken has got a number."""
    return table["name"].partition(".")[0]


# ---- tables ---------------------------------------------------------------------------------------------------------


def test_tables_are_listed_described_and_previewed(served):
    tables = {table["id"]: table for table in get(served, "/api/tables")}
    assert {"set-wine", "set-breast-cancer", "set-iris"} <= set(tables)
    table = get(served, "/api/tables/set-wine")
    assert (table["n_rows"], table["n_columns"], table["n_missing"]) == (178, 14, 0)
    columns = get(served, "/api/tables/set-wine/columns", search="A", number=2)
    assert columns["total"] == 10
    assert [c["name"] for c in columns["columns"]] == ["alcohol", "malic_acid"]
    assert columns["columns"][0]["low"] == pytest.approx(11.03)
    rows = get(served, "/api/tables/set-wine/rows", start=176, number=20, n_columns=3)
    assert rows["total"] == 178
    assert len(rows["rows"]) == 2
    assert len(rows["columns"]) == 3


@pytest.mark.parametrize(
    "suffix", ["csv", "tsv", "csv.gz", "parquet", "npz", "mtx", "svmlight", "sparse.npz"]
)
def test_all_kinds_of_tables_can_be_uploaded(served, suffix):
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": ["x", "y", None], "when": [True, False, True]})
    stream = io.BytesIO()
    if suffix == "parquet":
        frame.to_parquet(stream, index=False)
    elif suffix == "npz":
        np.savez(stream, a=np.arange(3.0), m=np.eye(3)[:, :2])
    elif suffix in ("mtx", "svmlight", "sparse.npz"):
        rows = sparse.csr_matrix([[0.0, 2.0], [1.5, 0.0], [0.0, 3.0]])
        if suffix == "mtx":
            scipy.io.mmwrite(stream, rows)
        elif suffix == "svmlight":
            dump_svmlight_file(rows, [0, 1, 1], stream)
        else:
            sparse.save_npz(stream, rows)
    else:
        compression = "gzip" if suffix.endswith("gz") else None
        frame.to_csv(stream, index=False, sep="\t" if suffix == "tsv" else ",", compression=compression)
    answer = served.upload(f"small.{suffix}", stream.getvalue())
    assert answer.status_code == 201, answer.text
    table = answer.json()
    about = get(served, f"/api/tables/{table['id']}")
    assert about["n_rows"] == 3
    columns = {c["name"]: c for c in get(served, f"/api/tables/{table['id']}/columns")["columns"]}
    if suffix == "npz":
        assert list(columns) == ["a", "m.0", "m.1"]
    elif suffix in ("mtx", "svmlight", "sparse.npz"):
        assert list(columns) == [*(["target"] if suffix == "svmlight" else []), "x0", "x1"]
    else:
        assert columns["a"]["n_missing"] == columns["b"]["n_missing"] == 1
        assert [columns[name]["kind"] for name in ("a", "b", "when")] == ["whole number", "text", "yes/no"]
    assert served.client.delete(f"/api/tables/{table['id']}").status_code == 204
    assert served.client.get(f"/api/tables/{table['id']}").status_code == 404


def test_a_second_upload_of_a_name_does_not_replace_the_first(served):
    first = served.upload("twice.csv", b"a,b\n1,2\n").json()
    second = served.upload("twice.csv", b"a,b\n3,4\n").json()
    assert (first["name"], second["name"]) == ("twice.csv", "twice-2.csv")
    assert get(served, f"/api/tables/{first['id']}/rows")["rows"] == [["1", "2"]]


def test_tables_are_joined_and_missing_rows_shown(served, tmp_path):
    first, second, both = two_tables(tmp_path)
    tables = [served.upload(path.name, path.read_bytes()).json() for path in (first, second)]
    ids = [table["id"] for table in tables]
    found = post(served, "/api/join", {"tables": ids, "key": "patient"})
    assert found["problem"] == ""
    assert found["n_rows"] == both
    assert found["keys"] == ["patient"]
    counts = {name: len(columns) for name, columns in found["views"].items()}
    assert counts == {view_of(tables[0]): 11, view_of(tables[1]): 10}
    assert [side["n_missing"] for side in found["sides"]] == [225 - both, 230 - both]
    assert found["sides"][0]["examples"]
    assert "key" in post(served, "/api/join", {"tables": ids})["problem"]
    wrong = post(served, "/api/join", {"tables": [ids[0], "set-wine"], "key": "patient"})
    assert "no column 'patient'" in wrong["problem"]


def test_the_task_is_detected(served):
    assert post(served, "/api/target", {"data": WINE, "target": "target"})["task"] == "classification"
    found = post(served, "/api/target", {"data": {"tables": ["set-diabetes"]}, "target": "target"})
    assert found["task"] == "regression"
    assert found["low"] == 25.0
    many = post(served, "/api/target", {"data": WINE, "target": "alcohol", "task": "classification"})
    assert "126 classes for 178 rows" in many["problem"]
    answer = served.client.post("/api/target", json={"data": WINE, "target": "colour"})
    assert answer.status_code == 422
    assert "There is no column 'colour'" in answer.json()["detail"]


# ---- kernels and settings -------------------------------------------------------------------------------------------


def test_views_come_from_files_of_both_kinds(served):
    toml = '[views]\nacids = ["*acid*"]\nrest = ["hue", "proline"]\n'
    found = post(served, "/api/views", {"data": WINE, "text": toml, "format": "toml"})
    assert found["views"] == {"acids": ["malic_acid"], "rest": ["hue", "proline"]}
    gmt = "acids\tof a paper\tmalic_acid\tcitric_acid\nnone\t\tgene1\n"
    found = post(served, "/api/views", {"data": WINE, "text": gmt, "format": "gmt"})
    assert found == {"views": {"acids": ["malic_acid"]}, "n_unknown": 2}
    answer = served.client.post("/api/views", json={"data": WINE, "text": "x = [", "format": "toml"})
    assert answer.status_code == 422


def test_pictures_of_kernels_have_the_colours_of_cividis():
    import matplotlib

    shares = np.linspace(0.0, 1.0, 256)
    wanted = 255 * matplotlib.colormaps["cividis"](shares)[:, :3]
    # eleven colours stand for 256: at most 10.2 of 255 away, measured
    assert np.abs(_coloured(shares) - wanted).max() < 11


def test_kernels_are_previewed_as_they_will_be(served):
    spec = {
        **SPEC,
        "views": {"all": ["alcohol", "hue"]},
        "kernels": "linear; rbf(gamma=1); constant(value=2)",
    }
    found = post(served, "/api/kernels", {"data": WINE, "spec": spec, "most": 2})
    assert found["n_kernels"] == 3
    assert found["n_rows"] == found["n_sampled"] == 142
    triangle = 8 * 142 * 143 / 2
    assert triangle <= found["memory"] <= triangle + 8 * 142 * 4
    first, second, last = found["kernels"]
    assert first["alignment"] >= second["alignment"] > last["alignment"] == 0.0
    assert first["thumbnail"].startswith("data:image/png;base64,")
    assert last["thumbnail"] == ""
    # against the definition
    frame = served.studio.catalogue.read("set-wine")
    from kernelweave_app.runs.joining import Joined
    from kernelweave_app.runs.preparing import prepare, split

    checked = Spec(**spec)
    prepared = prepare(Joined(frame, {}, {}, {}), checked)
    train, _ = split(prepared, checked)
    X = prepared.X.to_numpy()[train]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    K = kw.kernels.Linear()(X)
    H = np.eye(len(K)) - 1 / len(K)
    Y = (prepared.y[train][:, None] == np.unique(prepared.y)).astype(float)
    T = H @ Y @ Y.T @ H
    linear = next(k for k in found["kernels"] if "Linear" in k["name"])
    expected = np.sum(H @ K @ H * T) / np.linalg.norm(H @ K @ H) / np.linalg.norm(T)
    assert linear["alignment"] == pytest.approx(expected, rel=1e-10)


def test_kernels_that_take_numbers_from_rows_are_previewed_by_their_rules(served):
    spec = {"target": "target", "kernels": "rbf(gamma=('median', 4)).prepared('standardize'); linear"}
    found = post(served, "/api/kernels", {"data": WINE, "spec": spec, "most": 2})
    assert {k["name"] for k in found["kernels"]} == {
        "standardised RBF(gamma=4 * median) on all",
        "Linear on all",
    }


def test_kernels_of_texts_are_previewed_and_checked(served):
    rng = np.random.default_rng(0)
    notes = [" ".join(rng.choice(["pain", "fever", "cough", "rest", "calm", "walk"], 6)) for _ in range(60)]
    frame = pd.DataFrame({"age": rng.normal(size=60), "note": notes})
    frame["ill"] = ["yes" if "fever" in note else "no" for note in notes]
    table = served.upload("notes.csv", frame.to_csv(index=False).encode()).json()
    data = {"tables": [table["id"]]}
    spec = {**SPEC, "target": "ill", "method": "simple", "Cs": "1,10"}
    found = post(
        served, "/api/kernels", {"data": data, "spec": {**spec, "kernels": "linear; tokens.on('note')"}}
    )
    assert [kernel["name"] for kernel in found["kernels"]] == ["Tokens(n=1) on note", "Linear on all"]
    assert found["kernels"][0]["alignment"] > found["kernels"][1]["alignment"]
    usual = post(served, "/api/kernels", {"data": data, "spec": spec})
    assert {"CharNGrams(n=2-4) on note", "Tokens(n=1) on note"} <= {k["name"] for k in usual["kernels"]}
    answer = served.client.post(
        "/api/check", json={"data": data, "spec": {**spec, "kernels": "charngrams(n=3).on('age')"}}
    )
    assert answer.status_code == 422, answer.text
    assert "reads text, but column 'age' holds numbers" in answer.text


def test_of_many_kernels_some_are_looked_at(served, monkeypatch):
    from kernelweave_app.studio import previews

    spec = {**SPEC, "kernels": "rls2"}
    every = post(served, "/api/kernels", {"data": WINE, "spec": spec, "most": 3})
    assert every["n_looked"] == every["n_kernels"] == len(every["kernels"]) == 13 * 14
    monkeypatch.setattr(previews, "MOST_KERNELS", 14)
    some = post(served, "/api/kernels", {"data": WINE, "spec": spec, "most": 3})
    assert (some["n_looked"], some["n_kernels"], len(some["kernels"])) == (14, 13 * 14, 14)
    # not the first ones alone, and the best of those that were seen have a picture
    assert len({k["name"].rpartition(" on ")[2] for k in some["kernels"]}) > 6
    assert [bool(k["thumbnail"]) for k in some["kernels"]] == [True] * 3 + [False] * 11
    alignments = {k["name"]: k["alignment"] for k in every["kernels"]}
    assert all(alignments[k["name"]] == pytest.approx(k["alignment"]) for k in some["kernels"])
    assert some["memory"] == pytest.approx(every["memory"], rel=0.2)


def test_every_kernel_that_is_declared_can_be_chosen_for_a_view():
    from kernelweave.kernels import parse
    from kernelweave.kernels.parsing import text_names
    from kernelweave_app.studio.pages.kernels import kernel_choices

    chosen = [parse(part) for text in kernel_choices() if text != "default" for part in text.split(";")]
    known = {kind for name, kind in text_names().items() if name not in ("constant", "precomputed")}
    assert {type(kernel) for kernel in chosen} == known


@pytest.mark.parametrize("number", [13, 100, 3000])
def test_what_the_bank_by_column_is_said_to_hold(number):
    pytest.importorskip("nicegui")
    from kernelweave_app.studio.pages.kernels import banks_for

    bank = kw.banks.per_column(np.zeros((3, number)))
    shapes = {type(kernel.kernel).__name__ for kernel in bank if isinstance(kernel, kw.kernels.On)}
    said = banks_for(number)["per_column"]
    assert said.startswith("By column: linear, quadratic, cubic and Gaussian, on all columns")
    assert said.endswith("and on each") == (shapes == {"Linear", "Polynomial", "RBF"})
    assert said.endswith("and linear on each") == (shapes == {"Linear"})
    assert said.endswith("none on each") == (not shapes)


def test_methods_and_settings_follow_learners_and_the_spec(served):
    methods = {m["name"]: m for m in get(served, "/api/methods")}
    assert set(methods) == set(kw.learners.LEARNERS)
    for name, learner in kw.learners.LEARNERS.items():
        method = methods[name]
        if not learner.__module__.startswith("kernelweave"):
            continue  # one of another test
        assert method["summary"], name
        assert {p["name"] for p in method["parameters"]} == set(learner().get_params()), name
        assert all(p["about"] for p in method["parameters"]), name
        assert method["settings"] == [field["name"] for field in method["fields"]] == list(learner.settings())
    of = {name: set(method["settings"]) for name, method in methods.items()}
    assert {"n_layers", "layer_kernels", "criterion_folds", "device"} <= of["mlmkl"]
    assert not {"n_layers", "layer_kernels"} & (of["rls2"] | of["simple"] | of["best"])
    assert [name for name in of if "criterion_folds" in of[name]] == ["best", "mlmkl"]
    settings = {s["name"]: s for s in get(served, "/api/settings")}
    deep = ("layer_kernels", "criterion_folds")
    assert {settings[name]["group"] for name in deep} == {"Learner"}
    general = [name for name in Spec.model_fields if name != "learner_params"]
    assert list(settings) == general + sorted(set().union(*of.values()), key=list(settings).index)
    undocumented = [name for name, s in settings.items() if not s["help"]]
    assert undocumented == []
    # explanations say more than their names, in words without markup
    texts = [s["help"] for s in settings.values()]
    assert min(len(text.split()) for text in texts) > 1
    for m in methods.values():
        texts += [m["summary"], m["objective"], m["reference"], *(p["about"] for p in m["parameters"])]
    assert [text for text in texts if "``" in text or ":math:" in text] == []
    assert settings["task"]["choices"] == ["auto", "regression", "classification"]
    assert (settings["cv"]["least"], settings["cv"]["most"]) == (2, 1000)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"target": "hue", "method": "rkl", "balanced": True}, "`balanced` is for classes"),
        ({"method": "no-such"}, "Unknown method"),
        ({"scoring": "no-such"}, "Unknown scoring"),
        ({"scoring": "roc_auc"}, "does not work for classification with 3 classes"),
        ({"target": "hue", "scoring": "accuracy"}, "does not work for regression"),
        ({"weights": "hue", "jobs": 0}, "`jobs`"),
        ({"method": "mlmkl", "learner_params": {"device": "quantum"}}, "`device`"),
        ({"normalize": "no-such"}, "normal"),
        ({"kernels": "rbf(gama=1)"}, "gamma"),
        ({"alphas": "0:1:3:4"}, "alphas"),
        ({"group": "hue", "repeats": 3}, "Repeated folds"),
        ({"holdout": "alcohol"}, "does not say which rows are held out"),
        ({"holdout": "alcohol", "holdout_values": "none of them"}, "holds out no rows"),
        ({"views": "/etc/passwd"}, "or the name of a file"),
        ({"join": "/etc/passwd"}, "name all tables in `data`"),
        ({"views": {"v": ["nothing"]}}, "no column matches"),
    ],
)
def test_runs_that_cannot_work_are_refused_before_they_start(served, spec, said):
    for path in ("/api/check", "/api/runs"):
        answer = served.client.post(path, json={"data": WINE, "spec": {**SPEC, **spec}})
        assert answer.status_code == 422
        assert said in str(answer.json()["detail"])


def test_a_plain_fit_takes_fewer_groups_than_folds(served):
    rows = "".join(f"{k % 7},{k * k % 11},{'abc'[k % 3]}\n" for k in range(30))
    table = served.upload("few-groups.csv", f"x,y,g\n{rows}".encode()).json()["id"]
    asked = {"data": {"tables": [table]}, "spec": {"target": "y", "group": "g", "task": "regression"}}
    answer = served.client.post("/api/check", json=asked)
    assert answer.status_code == 200, answer.text
    asked["spec"]["alphas"] = "1,10"
    assert "cannot be divided into 5 folds" in served.client.post("/api/check", json=asked).json()["detail"]


def test_a_draft_is_kept(served):
    draft = {"data": WINE, "spec": {**Spec(**SPEC).model_dump()}, "name": "mine"}
    assert served.client.put("/api/draft", json=draft).json() == {
        **draft,
        "data": {**WINE, "key": "", "by_order": False, "kernels": [], "sparse": []},
    }
    assert get(served, "/api/draft")["spec"]["alphas"] == "8"


# ---- a run ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_leaves_scores_and_a_path(served, done):
    # what is of rows that the model had not seen comes first, and what chose is called that
    named = {m["name"]: m for m in done["metrics"]}
    assert next(iter(named)) == "accuracy, held out"
    assert named["accuracy, the score that chose alpha or C, not an estimate for new rows"]["low"] is None
    for name in ("accuracy, held out", "accuracy, nested"):
        assert 0 < named[name]["low"] <= named[name]["value"] <= named[name]["high"]
    # digits follow from the rows behind a score
    assert [named[f"accuracy, {where}"]["n"] for where in ("held out", "nested")] == [36, 142]
    assert done["summary"]["n_held"] == 36
    assert done["done"] == done["total"]
    points = get(served, f"/api/runs/{done['id']}/path")
    assert len(points["kernels"]) == 10
    stages = {p["stage"] for p in points["points"]}
    assert {"fold 1 of 3", "all rows", "path"} <= stages
    last = points["points"][-1]
    assert get(served, f"/api/runs/{done['id']}/path", after=last["number"])["points"] == []
    assert sum(last["weights"].values()) == pytest.approx(1.0, abs=1e-4)


def test_files_of_a_run_are_downloads_or_are_shown(served, done):
    kinds = {
        "report.html": "text/html",
        "figures/weights.svg": "image/svg+xml",
        "figures/weights.pdf": "application/pdf",
    }
    kinds |= {"model.skops": "application/octet-stream", "predictions.csv": "text/csv", "spec.toml": None}
    for name, kind in kinds.items():
        path = f"/api/runs/{done['id']}/files/{name}"
        answers = {how: served.client.get(f"{path}{how}") for how in ("", "?show=false", "?show=true")}
        for how, answer in answers.items():
            said = answer.headers["content-disposition"]
            assert said.partition(";")[0] == ("inline" if how == "?show=true" else "attachment")
            assert f'filename="{name.rpartition("/")[2]}"' in said
            assert kind is None or answer.headers["content-type"].partition(";")[0] == kind
            assert "sandbox" in answer.headers["content-security-policy"]
            assert answer.content == answers[""].content


@pytest.mark.full
def test_results_agree_with_the_model_file(served, done):
    results = get(served, f"/api/runs/{done['id']}/results")
    model = kw.load(served.studio.artifact(done["id"], "model.skops"))
    frame = served.studio.catalogue.read("set-wine")
    weights = dict(zip(results["weights"]["names"], results["weights"]["values"], strict=True))
    for m, name in enumerate(model.kernel_names_):
        expected = model.weights_[:, m]
        np.testing.assert_allclose(weights.get(name, np.zeros(3)), expected, atol=1e-12)
    assert results["certificate"]["rel_gap"] == model.rel_gap_
    curve = results["curve"]
    assert curve["mean"][curve["chosen"]] == model.best_score_
    assert [path["output"] for path in results["paths"]] == list(model.classes_)
    chosen = results["paths"][0]
    values = dict(zip(chosen["names"], chosen["weights"][chosen["chosen"]], strict=True))
    for m, name in enumerate(model.kernel_names_):
        assert values.get(name, 0.0) == pytest.approx(model.weights_[0, m], abs=1e-5)
    held = results["held"]
    assert np.sum(held["confusion"]) == 36
    columns = held["columns"]
    for row in held["rows"][:5]:
        here = dict(zip(columns, row, strict=True))
        X = frame.loc[[here["row"]], list(model.feature_names_in_)]
        assert model.predict(X)[0] == here["prediction"]
        assert frame.loc[here["row"], "target"] == here["truth"]
    parts = results["contributions"]
    decision = [c for c in columns if c.startswith("decision")]
    for k, name in enumerate(decision):
        total = np.sum(parts["values"][k], axis=1) + parts["intercepts"][k]
        given = [row[columns.index(name)] for row in held["rows"]]
        np.testing.assert_allclose(total, given[: len(total)], atol=1e-4)
    assert [r["output"] for r in held["receivers"]] == list(model.classes_)


@pytest.mark.slow
def test_results_of_deep_models_have_their_layers(served):
    layers = {"n_layers": 2, "layer_kernels": "linear; rbf(gamma=1)", "max_iter": 3}
    spec = {"target": "target", "method": "mlmkl", "Cs": "1", "cv": 2, "learner_params": layers}
    spec |= {"kernels": "linear; rbf(gamma=0.5)"}
    run = served.made(data=WINE, spec=spec)
    assert run["state"] == "done", run["reason"]
    results = get(served, f"/api/runs/{run['id']}/results")
    model = kw.load(served.studio.artifact(run["id"], "model.skops"))
    layers = results["weights"]["layers"]
    assert [len(layer["names"]) for layer in layers] == [len(model.kernel_names_), 2]
    for layer, weights in zip(layers, kw.inspection.layer_weights(model).weights, strict=True):
        assert layer["outputs"] == list(model.classes_)
        np.testing.assert_allclose(layer["values"], weights / weights.sum(axis=0))


def test_a_parametric_kernel_by_the_fields_of_the_form(served):
    """The form has a field for everything, and the report says what was learnt."""
    method = next(m for m in get(served, "/api/methods") if m["name"] == "parametric")
    fields = {field["name"]: field for field in method["fields"]}
    assert fields["family"]["choices"] == ["polynomial", "rational-quadratic"]
    assert fields["degree"]["kind"] == "whole number"
    assert {fields[name]["kind"] for name in ("start", "lower", "upper")} == {"number"}
    params = {"family": "polynomial", "degree": 3, "start": 1.0, "upper": 5.0, "max_iter": 3}
    spec = {"target": "target", "method": "parametric", "Cs": "1", "cv": 2, "learner_params": params}
    run = served.made(data=WINE, spec=spec | {"kernels": "linear"})
    assert run["state"] == "done", run["reason"]
    model = kw.load(served.studio.artifact(run["id"], "model.skops"))
    assert model.get_params()["learner__degree"] == 3
    assert [list(own) for own in model.kernel_parameters_] == [[*model.kernel_names_, "coef0"]] * 3
    evidence = json.loads(served.studio.artifact(run["id"], "evidence.json").read_text())
    values, first = evidence["parameters"]["values"], model.classes_[0]
    assert values[f"{first}: coef0"]["value"] == pytest.approx(model.kernel_parameters_[0]["coef0"])
    assert "polynomial" in json.dumps(get(served, f"/api/runs/{run['id']}/results"))


def test_results_of_another_version_are_no_server_error(served, done):
    path = served.studio.places.run(done["id"]) / "results.json"
    kept = path.read_bytes()
    more = json.loads(kept)
    more["weights"]["layer_names"] = []
    try:
        path.write_text('{"of": "the future"}')
        answer = served.client.get(f"/api/runs/{done['id']}/results")
        path.write_text(json.dumps(more))
        known = get(served, f"/api/runs/{done['id']}/results")
    finally:
        path.write_bytes(kept)
    assert answer.status_code == 422
    assert "another version" in answer.text
    # what is known is shown, whatever else there is
    assert known == json.loads(kept)


@pytest.mark.nightly
def test_files_are_complete_and_the_script_makes_the_same_model(served, done, tmp_path):
    files = {f["name"]: f for f in get(served, f"/api/runs/{done['id']}/files")}
    named = {"model.skops", "report.html", "predictions.csv", "spec.toml", "script.py"}
    figures = {
        f"figures/{n}.{s}"
        for n in ("weights", "choice", "path", "contributions", "held-out")
        for s in ("svg", "pdf")
    }
    assert named | figures <= set(files)
    for name in (*named, *figures):
        answer = served.client.get(f"/api/runs/{done['id']}/files/{name}")
        assert answer.status_code == 200
        assert len(answer.content) == files[name]["size"]
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in answer.headers["content-security-policy"]
        (tmp_path / name.replace("/", "-")).write_bytes(answer.content)
    assert (tmp_path / "figures-path.pdf").read_bytes().startswith(b"%PDF")
    model = kw.load(tmp_path / "model.skops")
    space = run_script(tmp_path / "script.py", tmp_path)
    again = space["model"]
    np.testing.assert_allclose(again.weights_, model.weights_, atol=1e-10)
    assert (again.predict(space["X"]) == model.predict(space["X"])).all()
    # the settings make the same run on the command line
    from kernelweave_app.cli import main

    table = str(served.studio.places.sets / "wine.csv")
    assert main(["fit", table, "--spec", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "again")]) == 0
    np.testing.assert_allclose(
        kw.load(tmp_path / "again" / "model.skops").weights_, model.weights_, atol=1e-10
    )


def test_a_model_predicts_new_tables(served, done):
    frame = served.studio.catalogue.read("set-wine").iloc[::3].drop(columns=["target"])
    table = served.upload("new wines.csv", frame.to_csv(index=False).encode()).json()
    path = f"/api/runs/{done['id']}/predict"
    found = post(served, path, {"data": {"tables": [table["id"]]}})
    assert found["n_rows"] == len(frame)
    assert found["scores"] == {}
    assert found["apart"] is None
    model = kw.load(served.studio.artifact(done["id"], "model.skops"))
    expected = model.predict(frame[list(model.feature_names_in_)])
    assert [row[found["columns"].index("prediction")] for row in found["rows"]] == list(expected)
    file = served.client.get(f"/api/runs/{done['id']}/files/{found['artifact']}")
    assert len(pd.read_csv(io.BytesIO(file.content))) == len(frame)
    assert post(served, path, {"data": WINE})["scores"]["accuracy"] > 0.9
    answer = served.client.post(path, json={"data": {"tables": ["set-iris"]}})
    assert answer.status_code == 422
    assert "lacks" in answer.json()["detail"]


def test_a_model_of_joined_tables_predicts_others(served, rng):
    frame = pd.DataFrame(rng.normal(size=(40, 4)), columns=["age", "u", "age2", "v"])
    frame["y"] = np.where(frame["age"] - frame["age2"] > 0, "a", "b")
    frame.insert(0, "who", [f"p{k:02d}" for k in range(40)])

    def upload(name, columns):
        table = frame[["who", *columns]].rename(columns={"age2": "age"})
        return served.upload(name, table.to_csv(index=False)).json()["id"]

    old = [upload("ca.csv", ["age", "u", "y"]), upload("cb.csv", ["age2", "v"])]
    ended = served.made(data={"tables": old, "key": "who"}, spec={**SPEC, "target": "y"})
    assert ended["state"] == "done", ended["reason"]
    run = ended["id"]
    held = get(served, f"/api/runs/{run}/results")["held"]
    truth = dict(zip(frame["who"], frame["y"], strict=True))
    assert {"row", "who", "truth", "prediction"} <= set(held["columns"])
    rows = [dict(zip(held["columns"], row, strict=True)) for row in held["rows"]]
    assert all(truth[row["who"]] == row["truth"] for row in rows)
    first = post(served, f"/api/runs/{run}/predict", {"data": {"tables": old, "key": "who"}})
    assert first["stands_for"] == {"ca": "ca", "cb": "cb"}
    new = [upload("new_cb.csv", ["age2", "v"]), upload("new_ca.csv", ["age", "u"])]
    found = post(served, f"/api/runs/{run}/predict", {"data": {"tables": new, "key": "who"}})
    assert found["stands_for"] == {"ca": "new_ca", "cb": "new_cb"}
    assert found["columns"][:3] == ["who", "row", "prediction"]
    assert [row[:3] for row in found["rows"]] == [row[:3] for row in first["rows"]]
    assert "tables.json" in {file["name"] for file in get(served, f"/api/runs/{run}/files")}
    one = served.client.post(f"/api/runs/{run}/predict", json={"data": {"tables": new[:1]}})
    assert one.status_code == 422
    assert "learnt from 2 tables (ca, cb)" in one.json()["detail"]


def test_runs_are_compared(served, done, tmp_path):
    first, second, _ = two_tables(tmp_path)
    tables = [served.upload(path.name, path.read_bytes()).json() for path in (first, second)]
    ids = [table["id"] for table in tables]
    spec = {
        "target": "target",
        "alphas": "5",
        "cv": 3,
        "method": "simple",
        "kernels": "linear; rbf(gamma=0.1)",
    }
    other = served.made(data={"tables": ids, "key": "patient"}, spec=spec)
    assert other["state"] == "done", other["reason"]
    found = get(served, "/api/compare", run_id=[done["id"], other["id"]])
    assert "accuracy, held out" in found["metrics"]
    settings = {d["setting"]: d["values"] for d in found["differences"]}
    assert settings["method"] == ["rls2", "simple"]
    assert "seed" not in settings
    assert len(found["weights"]) == len(found["kernels"])
    assert found["curves"][0]["score"] == "accuracy"
    results = get(served, f"/api/runs/{other['id']}/results")
    assert set(results["weights"]["views"]) == {view_of(table) for table in tables}
    space = run_script(served.studio.artifact(other["id"], "script.py"), tmp_path)
    model = kw.load(served.studio.artifact(other["id"], "model.skops"))
    np.testing.assert_allclose(space["model"].weights_, model.weights_, atol=1e-10)
    np.testing.assert_allclose(
        space["model"].decision_function(space["X"]), model.decision_function(space["X"]), atol=1e-8
    )


@pytest.mark.nightly
def test_the_command_that_is_shown_works_as_it_is(served, done, tmp_path, monkeypatch):
    pytest.importorskip("cyclopts")
    import shlex

    from kernelweave_app.cli import main

    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(served.studio.command(done["id"]))
    assert program == "kernelweave"
    assert main(arguments) == 0
    model = kw.load(served.studio.artifact(done["id"], "model.skops"))
    np.testing.assert_allclose(
        kw.load(tmp_path / "again" / "model.skops").weights_, model.weights_, atol=1e-9
    )


@pytest.mark.parametrize("missing", ["drop", "error"])
def test_rows_with_missing_cells_have_no_prediction(served, missing):
    frame = served.studio.catalogue.read("set-wine").copy()
    text = frame.to_csv(index=False).encode()
    table = served.upload(f"whole-{missing}.csv", text).json()["id"]
    spec = {**SPEC, "alphas": "2", "kernels": "linear", "missing": missing}
    run = served.made(data={"tables": [table]}, spec=spec)
    frame.loc[[3, 7], "hue"] = np.nan
    gaps = served.upload(f"gaps-{missing}.csv", frame.to_csv(index=False).encode()).json()["id"]
    path = f"/api/runs/{run['id']}/predict"
    if missing == "error":
        assert (
            "2 of 178 rows have missing values"
            in post(served, path, {"data": {"tables": [gaps]}}, 422)["detail"]
        )
        return
    found = post(served, path, {"data": {"tables": [gaps]}})
    assert (found["n_rows"], found["n_missing"]) == (178, 2)
    whole = post(served, path, {"data": {"tables": [table]}})
    assert whole["n_missing"] == 0
    for k, (row, other) in enumerate(zip(found["rows"], whole["rows"], strict=True)):
        given, expected = (dict(zip(found["columns"], r, strict=True)) for r in (row, other))
        if k in (3, 7):
            assert given["prediction"] in (None, "nan")
            assert given["decision class_0"] is None
        else:
            assert given == expected
    file = served.client.get(f"/api/runs/{run['id']}/files/{found['artifact']}").content
    written = pd.read_csv(io.BytesIO(file))
    assert list(np.flatnonzero(written["prediction"].isna())) == [3, 7]
    known = written.dropna(subset="prediction")
    right = float((known["prediction"] == known["truth"]).mean())
    assert right > 0.9
    apart = found["apart"]
    assert found["scores"] == apart["others"]
    n, inside = apart["n_rows"], apart["n_fitted"]
    assert n == 176
    assert 0 < inside <= 142
    both = (n - inside) * apart["others"]["accuracy"] + inside * apart["fitted"]["accuracy"]
    assert both / n == pytest.approx(right, abs=1e-6)


def test_a_run_takes_the_learner_of_a_plain_fit(served):
    settings = {s["name"]: s for s in get(served, "/api/settings")}
    assert settings["method"]["default"] == "default"
    assert settings["method"]["choices"] == ["default", *kw.learners.LEARNERS]
    spec = {"target": "target", "test_size": 0.3}
    found = post(served, "/api/check", {"data": WINE, "spec": spec})
    assert found["splitter"] == "lp, as a plain fit chooses, with C by 5 folds"
    run = served.made(data=WINE, spec=spec)
    assert run["state"] == "done", run["reason"]
    assert run["name"].startswith("wine: target by lp")
    assert run["summary"]["method"] == "lp"
    assert run["request"]["spec"]["method"] == "default"
    assert get(served, f"/api/runs/{run['id']}/path")["parameter"] == "C"
    results = get(served, f"/api/runs/{run['id']}/results")
    assert (results["method"], results["estimator"]) == ("lp", "MKLClassifier")
    assert any(line.startswith("Learner: 'lp' with p = 2") for line in results["defaults"])


def test_runs_get_names_of_their_own(served, monkeypatch):
    monkeypatch.setattr(served.studio.queue, "at_once", 0)
    spec = {**SPEC, "alphas": "1.0", "cv": 2, "kernels": "linear", "test_size": 0.3}
    started = [post(served, "/api/runs", {"data": WINE, "spec": spec}, 201) for _ in range(3)]
    names = [run["name"] for run in started]
    assert names[0] == "wine: target by rls2"
    assert names[1:] == [f"{names[0]} {k}" for k in (2, 3)]
    long = [post(served, "/api/runs", {"data": WINE, "spec": spec, "name": "x" * 200}, 201) for _ in range(2)]
    assert len({run["name"] for run in long}) == 2
    assert all(len(run["name"]) <= 200 for run in long)
    # what was made here is gone before runs may start again
    for run in [*started, *long]:
        served.client.post(f"/api/runs/{run['id']}/cancel")
        served.wait(run["id"])
        assert served.client.delete(f"/api/runs/{run['id']}").status_code == 204
        assert served.client.get(f"/api/runs/{run['id']}").status_code == 404


# ---- documentation and speed ----------------------------------------------------------------------------------------


def test_the_api_explains_itself_without_other_machines(served):
    page = served.client.get("/api/docs").text
    assert "/api/runs/{run_id}/results" in page
    assert "http://" not in page.replace("http://127.0.0.1", "")
    assert "https://" not in page
    schema = get(served, "/api/openapi.json")
    for path, verbs in schema["paths"].items():
        for verb, route in verbs.items():
            assert route.get("description"), f"{verb} {path}"


@pytest.mark.full
def test_a_large_table_is_previewed_quickly(served, rng):
    import time

    frame = pd.DataFrame(rng.normal(size=(50_000, 20)), columns=[f"x{j}" for j in range(20)])
    frame["target"] = np.where(frame["x0"] > 0, "yes", "no")
    table = served.upload("large.csv", frame.to_csv(index=False, float_format="%.6f").encode()).json()
    begin = time.monotonic()
    assert get(served, f"/api/tables/{table['id']}")["n_rows"] == 50_000
    assert len(get(served, f"/api/tables/{table['id']}/columns")["columns"]) == 21
    assert len(get(served, f"/api/tables/{table['id']}/rows")["rows"]) == 20
    seconds = time.monotonic() - begin
    print(f"50,000 rows previewed in {seconds:.2f} s")
    assert seconds < 10.0  # 2 s on a machine of its own; tests share theirs


@pytest.mark.slow
def test_runs_with_missing_cells_and_views_are_checked(served):
    rng = np.random.default_rng(0)
    names = [f"p{k}" for k in range(40)]
    left = pd.DataFrame({"key": names, "a": rng.normal(size=40), "b": rng.normal(size=40)})
    left["ill"] = np.where(left["a"] > 0, "yes", "no")
    left.loc[::4, "b"] = np.nan
    right = pd.DataFrame({"key": names[10:], "c": rng.normal(size=30)})
    sent = [("cells.csv", left), ("lacking.csv", right)]
    tables = [served.upload(name, frame.to_csv(index=False).encode()).json()["id"] for name, frame in sent]
    spec = {**SPEC, "target": "ill", "method": "simple", "Cs": "1,10", "kernels": "linear; rbf(gamma=0.1)"}
    alone = post(
        served, "/api/check", {"data": {"tables": tables[:1]}, "spec": {**spec, "missing": "impute"}}
    )
    assert (alone["n_training"] + alone["n_held"], alone["n_dropped"]) == (40, 0)
    both = {"data": {"tables": tables, "key": "key"}, "spec": {**spec, "rows": "all", "missing": "impute"}}
    found = post(served, "/api/check", both)
    assert (found["n_training"] + found["n_held"], found["n_dropped"]) == (40, 0)
    plain = {**both["spec"], "method": "default", "kernels": "default"}
    shown = post(served, "/api/kernels", {"data": both["data"], "spec": plain, "most": 2})
    assert shown["kernels"]
    run = served.made(data=both["data"], spec=plain)
    assert run["state"] == "done", run["reason"]
    assert run["summary"]["n_training"] + run["summary"]["n_held"] == 40


def test_several_labels_can_be_checked(served):
    binary = pd.DataFrame({"x": np.arange(8.0), "a": [0, 1] * 4, "b": ["no", "no", "yes", "yes"] * 2})
    table = served.upload("labels.csv", binary.to_csv(index=False).encode()).json()
    data = {"tables": [table["id"]]}
    found = post(served, "/api/check", {"data": data, "spec": {**SPEC, "target": "a,b"}})
    assert found["task"] == "classification"
    assert found["n_columns"] == 1
    told = post(served, "/api/target", {"data": data, "target": "a,b"})
    assert told["names"] == ["a", "b"]
    assert not told["problem"]
    wrong = post(served, "/api/target", {"data": data, "target": "a,x"})
    assert "'x'" in wrong["problem"]


def test_pictures_of_matrices_are_light_where_these_are_large():
    Image = pytest.importorskip("PIL.Image")

    def light(K):
        return np.asarray(
            Image.open(io.BytesIO(base64.b64decode(thumbnail(K).partition(",")[2]))).convert("L")
        )

    K = np.kron(np.eye(2), np.ones((3, 3)))
    assert light(K).shape == K.shape
    assert light(K)[K == 1].min() > light(K)[K == 0].max()
    # all values alike: one colour, and no division by zero
    even = light(np.full((5, 5), 2.0))
    assert even.min() == even.max()


def test_what_was_not_counted_is_none():
    records = [
        one for one in vars(schema).values() if isinstance(one, type) and issubclass(one, schema.Record)
    ]
    counts = {
        f"{one.__name__}.{name}": field.default
        for one in records
        for name, field in one.model_fields.items()
        if name.startswith("n_") and not field.is_required()
    }
    assert counts
    assert not any(counts.values()), counts


def test_built_in_sets_have_their_target_last(monkeypatch):
    given = SimpleNamespace(
        frame=lambda: pd.DataFrame({"a": [1.0, 2.0], "target": [3.0, 4.0]}), train=[True, False]
    )
    monkeypatch.setattr(datasets, "load", lambda *_, **how: asked.append(how) or given)
    for name, columns, marks in (
        ("iris", 5, None),
        ("diabetes", 11, None),
        ("a set of a paper", 2, None),
        (catalogue.PROSTATE, 3, ["T", "F"]),
    ):
        asked = []
        frame = catalogue.load_set(name)
        assert frame.shape[1] == columns
        assert list(frame.columns)[-2:] == ["lpsa", "train"] if marks else frame.columns[-1] == "target"
        assert marks is None or frame["train"].tolist() == marks
        # nothing is loaded from the network, and nothing that scikit-learn has
        assert [how["download"] for how in asked] == ([] if columns > 3 else [False])
    assert set(catalogue.load_set("iris")["target"]) == {"setosa", "versicolor", "virginica"}
