"""What the studio says before a run starts, the story of a finished run, its predictions, and what is taken elsewhere.

Modules: `studio/consequences`, `studio/templates`, `studio/portable`, `studio/predicting`, `studio/pages/story`,
`studio/pages/naming`.
"""

import asyncio
import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("nicegui")
pytest.importorskip("psutil")

import kernelweave as kw
from kernelweave import datasets
from kernelweave._errors import InputError
from kernelweave.inspection.scores import FEWEST_ROWS
from kernelweave.persistence import load
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.recommending import UNEQUAL
from kernelweave_app.runs.spec import Spec, in_words_of
from kernelweave_app.studio.catalogue import PROSTATE
from kernelweave_app.studio.checking import Limits
from kernelweave_app.studio.consequences import consequences
from kernelweave_app.studio.pages.story import announced, next_kind, sources_of, verdict
from kernelweave_app.studio.pages.understand import plainly
from kernelweave_app.studio.portable import pack_run
from kernelweave_app.studio.projects import Projects, pack, unpack
from kernelweave_app.studio.schema import Data, Marked, RunRequest, Target, Times
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.templates import EXAMPLE, PAPERS
from studio_server import needs_core, run_here

N = 97


@pytest.fixture
def studio(tmp_path):
    found = Studio(tmp_path / "data")
    found.queue.stop()
    return found


def upload(studio, name, content):
    """Upload a file; returns what the studio says of it."""

    async def stream():
        yield content if isinstance(content, bytes) else content.to_csv(index=False).encode()

    return asyncio.run(studio.upload(name, stream()))


def ids(studio):
    return {ref.name: ref.id for ref in studio.tables()}


def table(**more):
    rng = np.random.default_rng(0)
    made = pd.DataFrame(rng.normal(size=(N, 6)).round(6), columns=list("abcdef"))
    made["y"] = np.where(made["a"] > 0.2, "ill", "well")
    return made.assign(**more)


def told(studio, frame, **settings):
    """Consequences of one table."""
    ref = upload(studio, "t.csv", frame)
    return studio.consequences(Data(tables=[ref.id]), Spec(target="y", **settings))


MARKS = np.where(np.arange(N) < 67, "T", "F")
NUMBERS = [f"{k / 7:.3f}" for k in range(N - 1)]
#: What is wrong, a table with it, settings, and what is said before the start.
TRAPS = {
    "swapped": (
        lambda: table(train=MARKS),
        {"holdout": "train", "holdout_values": "T"},
        "held-out rows",
        "67 rows held out",
    ),
    "T and F": (
        lambda: table(train=MARKS),
        {"holdout": "train"},
        "held-out rows",
        "30 rows held out, 67 to train on",
    ),
    "marks in words as a feature": (
        lambda: table(part=np.where(MARKS == "T", "Train", "test")),
        {},
        "marks of rows",
        "'part' is used as a feature, but seems to mark held-out rows: 30 rows held out, 67 to train on",
    ),
    "marks by their name as a feature": (
        lambda: table(is_train=MARKS == "T"),
        {},
        "marks of rows",
        "held out = False",
    ),
    "marks that say nothing": (
        lambda: table(part=["x"] * 50 + ["z"] * 47),
        {"holdout": "part"},
        "held-out rows",
        "does not say which",
    ),
    "an identifier": (
        lambda: table(patient=[f"p{k:03d}" for k in range(N)]),
        {"kernels": "linear"},
        "identifier",
        "used as a feature",
    ),
    "a copy of the target": (
        lambda: table(code=np.where(table()["y"] == "ill", 1, 0)),
        {},
        "copy of the target",
        "'code'",
    ),
    "a rare class": (lambda: table(y=np.r_[["odd"], table()["y"][1:]]), {}, "rare class", "1 row"),
    "unequal classes": (lambda: table(y=["ill"] * 10 + ["well"] * 87), {}, "unequal classes", "87 rows"),
    "all missing": (lambda: table(gone=np.nan), {}, "empty column", "'gone'"),
    "constant": (lambda: table(same=3.0), {}, "constant column", "'same'"),
    "numbers as text": (lambda: table(dose=["n/d", *NUMBERS]), {}, "numbers as text", "'n/d'"),
    "dates of two readings": (
        lambda: table(day=[f"{1 + k % 12:02d}/{1 + k % 11:02d}/2024" for k in range(N)]),
        {},
        "ambiguous dates",
        "day and month",
    ),
    "repeated names": (
        lambda: table(patient=[f"p{k // 3}" for k in range(N)]),
        {},
        "repeated names",
        "one patient",
    ),
    "equal rows": (lambda: pd.concat([table().iloc[:70], table().iloc[:27]]), {}, "equal rows", "27 rows"),
    "no target": (
        lambda: table(y=np.r_[[None, None], table()["y"][2:]]),
        {},
        "target missing",
        "2 rows have no target, and runs fail",
    ),
    "missing cells": (lambda: table(a=np.r_[[np.nan], table()["a"][1:]]), {}, "missing cells", "runs fail"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", TRAPS)
def test_traps_are_told_before_the_start(studio, case):
    make, settings, topic, words = TRAPS[case]
    found = {one.topic: one for one in told(studio, make(), **settings)}
    assert topic in found, list(found)
    assert words in found[topic].text
    assert in_words_of("form", found[topic].text) == found[topic].text  # no flag, no Python
    if not found[topic].fix:
        return
    # one press mends it
    (ref,) = [ref for ref in studio.tables() if ref.name == "t.csv"]
    spec = Spec(**{"target": "y", **settings, **found[topic].settings})
    after = {one.topic: one for one in studio.consequences(Data(tables=[ref.id]), spec)}
    assert topic not in after or after[topic].text != found[topic].text


def test_a_column_is_told_once_and_classes_of_one_row_in_a_line(studio):
    days = [f"{1 + k % 12:02d}/{1 + k // 12:02d}/2024" for k in range(N)]
    assert [one.topic for one in told(studio, table(day=days, smoker=MARKS))] == ["ambiguous dates"]
    names = [f"name {k}" for k in range(N)]
    for y, few in (
        (np.r_[["odd"], table()["y"][1:]], "class 'odd' has one row"),
        (names, "97 classes, such as"),
    ):
        ref = upload(studio, "classes.csv", table(y=y))
        with pytest.raises(InputError, match=few) as refused:
            studio.check(Data(tables=[ref.id]), Spec(target="y"))
        assert len(str(refused.value)) < 250


@pytest.mark.parametrize(("n_held", "many"), [(10, False), (20, False), (21, True), (30, True)])
def test_held_out_rows_are_a_trap_where_they_are_more_than_the_others(n_held, many):
    marked = Marked(n_held=n_held, n_training=20, said=f"{n_held} rows", problem="", values={}, swapped=["T"])
    (found,) = consequences(Joined(pd.DataFrame()), {}, Spec(), None, marked)
    assert (found.kind, found.settings) == ("warn" if many else "", {"holdout_values": ["T"]})
    assert found.text.startswith(f"{n_held} rows.")
    assert ("are the two sides swapped?" in found.text) == many


def implied(told_of, **settings):
    """Texts by topic of what a target column implies."""
    found = consequences(Joined(pd.DataFrame()), {}, Spec(**settings), told_of, None)
    return {one.topic: one.text for one in found}


@pytest.mark.parametrize(
    ("classes", "settings", "topics"),
    [
        ({"a": 9, "b": 5}, {}, {}),
        (
            {"a": 9, "b": 4},
            {},
            {"rare class": "Class 'b' has 4 rows, fewer than the 5 folds: some folds have none"},
        ),
        (
            {"a": 2, "b": 1},
            {"cv": 2},
            {"rare class": "Class 'b' has 1 row, fewer than the 2 folds: nothing can be"},
        ),
        ({"a": int(UNEQUAL) * 7 - 1, "b": 7}, {}, {}),
        (
            {"a": int(UNEQUAL) * 7, "b": 7, "c": 8},
            {},
            {"unequal classes": f"The largest class has {int(UNEQUAL) * 7} rows, cl"},
        ),
        ({"a": int(UNEQUAL) * 7, "b": 7}, {"balanced": True}, {}),
        ({"a": int(UNEQUAL) * 7, "b": 7}, {"class_weights": "a=2"}, {}),
        ({"a": 1}, {}, {}),
        ({}, {}, {}),
    ],
)
def test_classes_are_few_or_unequal_from_a_number_on(classes, settings, topics):
    target = Target(task="classification", reason="", n_missing=0, classes=classes)
    found = implied(target, target="y", **settings)
    assert found.keys() == topics.keys()
    assert all(found[topic].startswith(words) for topic, words in topics.items())


@pytest.mark.parametrize(
    ("held", "topics"),
    [
        ({}, {}),
        ({"n_events": FEWEST_ROWS - 1}, {"few events": f"{FEWEST_ROWS - 1} events: the scores say little"}),
        ({"n_events": 5}, {"few events": "5 events: the scores"}),
        ({"n_events": 4}, {"few events": "4 events for 5 folds"}),
        ({"n_events": 1}, {"few events": "1 event for 5 folds"}),
        ({"n_censored": 0}, {"censoring": "Every row has its event"}),
        ({"n_values": 3}, {"event": "'status' has 3 values"}),
        ({"n_missing": 1}, {"target missing": "1 row has no time or event, and runs fail."}),
        ({"n_negative": 2}, {"time": "2 rows have a negative time in 'days', and runs fail."}),
        ({"n_zero": 1}, {"time": "1 row has a time of 0."}),
        ({"n_unread": 1}, {"time": "1 cell of 'days' is no number"}),
        (
            {"n_values": 7, "swapped": True},
            {"swapped columns": "'days' has two values and 'status' has 7 numbers"},
        ),
    ],
)
def test_faults_of_times_are_told_from_a_number_on(held, topics):
    well = {"event": "status", "events": ["dead"], "values": {}, "n_values": 2, "problem": ""}
    times = Times(**well | {"n_events": FEWEST_ROWS, "n_censored": 1} | held)
    found = implied(times, time="days", event="status=dead")
    assert found.keys() == topics.keys()
    assert all(found[topic].startswith(words) for topic, words in topics.items())


def test_a_table_without_traps_says_nothing(studio):
    assert told(studio, table()) == []


def test_traps_of_several_files(studio):
    first, frame = table(patient=[f"p{k}" for k in range(N)]), table()
    one = upload(studio, "one.csv", first).id
    two = upload(studio, "two.csv", first).id
    part = upload(studio, "part.csv", first.iloc[20:, 6:].assign(g=1.5 * frame["b"][20:])).id
    (same,) = [
        each
        for each in studio.consequences(Data(tables=[one, two], key="patient"), Spec(target="one.y"))
        if each.topic == "same file"
    ]
    assert same.leave_out == two
    found = studio.consequences(Data(tables=[one, part], key="patient"), Spec(target="one.y"))
    (lost,) = [each for each in found if each.topic == "lost rows"]
    assert "20 rows" in lost.text
    assert "77 rows remain" in lost.text
    assert lost.settings == {"rows": "all"}
    # an identifier beside kernels is no view
    np.save(studio.places.root / "K.npy", np.eye(N) + 0.5)
    upload(studio, "labels.csv", first[["patient", "y"]])
    data = Data(tables=[ids(studio)["labels.csv"]], kernels=[ids(studio)["K.npy"]])
    assert "identifier" in {each.topic for each in studio.consequences(data, Spec(target="y"))}


REFUSED = {
    "separators": (
        b"a,b,y\n1;2;3\n4;5;6\n",
        "separates the names of its columns by ',', and its rows by ';'",
    ),
    "decimals": (b"a;y\n1,5;2.5\n2,5;3.5\n", "decimal commas"),
    "names": (b"a,a\n1,2\n", "columns of the same name"),
    "a long cell": (b"a,y\n" + b"x" * 140_000 + b",1\n", "more than 131,072 characters"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_files_that_would_be_misread_are_refused(studio, case):
    content, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        upload(studio, "x.csv", content)


def test_western_european_text_is_read_and_told(studio):
    ref = upload(studio, "latin.csv", "name;y\nMüller;1\nÅse;2\n".encode("latin-1"))
    assert "'Müller'" in ref.about
    assert "Check its accents" in next(one.about for one in studio.tables() if one.id == ref.id)
    assert studio.catalogue.read(ref.id)["name"].tolist() == ["Müller", "Åse"]
    # only the user may read what came
    assert (studio.places.root / "latin.csv").stat().st_mode & 0o777 == 0o600


# ---- predictions ------------------------------------------------------------------------------------


@needs_core
def test_predictions_have_inputs_intervals_and_remarks(studio):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(70, 3)), columns=list("abc")).assign(site=["u", "v"] * 35)
    frame["y"] = frame["a"] + 0.3 * rng.normal(size=70)
    new = frame.iloc[60:].drop(columns="y").copy()
    new.iloc[0, 0], new.iloc[1, 3] = np.nan, "w"
    new.iloc[2, :3] = 40.0
    old = upload(studio, "old.csv", frame.iloc[:60]).id
    spec = Spec(target="y", missing="impute", test_size=0.0)
    run = run_here(studio, RunRequest(data=Data(tables=[old]), spec=spec))
    found = studio.predict(run, Data(tables=[upload(studio, "new.csv", new).id]))
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert [row["mind"] for row in rows[:3]] == [
        "1 cell filled",
        "site is new: w",
        "far from all training rows",
    ]
    assert found.n_flagged == sum(bool(row["mind"]) for row in rows)
    # the numbers are those of the library
    model = load(studio.places.run(run) / "model.skops")
    want = model.predict_interval(new[["a", "b", "c", "site"]], coverage=0.9)
    np.testing.assert_allclose([[row["low"], row["high"]] for row in rows], want, atol=1e-7)
    np.testing.assert_allclose([row["b"] for row in rows], new["b"], atol=1e-7)
    # tables that have changed are not compared with
    upload_again = frame.iloc[:59].to_csv(index=False)
    (studio.places.root / "old.csv").write_text(upload_again)
    assert not studio.predict(run, Data(tables=[ids(studio)["new.csv"]])).compared


@needs_core
def test_files_of_new_rows_are_told_by_their_contents(studio):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    K = X @ X.T
    np.save(studio.places.root / "K.npy", K[:40, :40])
    np.save(studio.places.root / "new.npy", K[40:, :40])
    np.save(studio.places.root / "narrow.npy", K[40:, :7])
    upload(studio, "labels.csv", pd.DataFrame({"mouse": [f"m{k}" for k in range(40)], "y": X[:40, 0]}))
    upload(studio, "newlabels.csv", pd.DataFrame({"mouse": [f"n{k}" for k in range(10)]}))
    known = ids(studio)
    data = Data(tables=[known["labels.csv"]], kernels=[known["K.npy"]])
    run = run_here(studio, RunRequest(data=data, spec=Spec(target="y", drop=["mouse"], test_size=0.0)))
    made = []
    for files in (["new.npy", "newlabels.csv"], ["newlabels.csv", "new.npy"], ["new.npy"]):
        found = studio.predict(run, Data(tables=[known[name] for name in files]))
        made.append([row[found.columns.index("prediction")] for row in found.rows])
    assert made[0] == made[1] == made[2]
    with pytest.raises(InputError, match="a column for each of the 40 training rows"):
        studio.predict(run, Data(tables=[known["narrow.npy"]]))
    with pytest.raises(InputError) as error:
        studio.predict(run, Data(tables=[known["newlabels.csv"]]))
    assert "--" not in in_words_of("form", str(error.value))


# ---- the story --------------------------------------------------------------------------------------


@needs_core
def test_numbers_of_the_story_are_those_of_the_library(studio):
    draft = EXAMPLE.draft
    assert [len(columns) for columns in draft.spec.views.values()] == [10, 10, 10]
    run_id = run_here(studio, RunRequest(**draft.model_dump()))
    run, found = studio.run(run_id), studio.evidence.read(run_id)
    model = load(studio.places.run(run_id) / "model.skops")
    rows, about = sources_of(found.numbers)
    assert {row.name: row.at for row in rows} == pytest.approx(kw.inspection.view_weights(model))
    assert {row.answer for row in rows} == {""}
    assert "does not say whether" in about
    _, _, prepared = studio.prepared(draft.data, draft.spec)
    predictions = pd.read_csv(studio.places.run(run_id) / "predictions.csv")
    assert len(predictions) == 171  # of 569, three in ten
    held = found.numbers["simplest"]["values"]["this model"]["value"]
    X = prepared.frame.loc[predictions["row"]]
    assert held == pytest.approx(model.score(X, predictions["truth"]))
    assert (
        verdict(found.numbers, "target")
        == "The model predicts the target better than the best simple rule does."
    )
    # the next computation, and what it takes
    assert next_kind(found) == "omission"
    assert announced(run, found, "omission", 10).startswith("40 fits, about ")
    assert announced(run, found, "permutation", 99).startswith("100 fits, about ")
    # kernels have names for people, and their labels are there
    results, formulas = plainly(studio.results(run_id))
    assert "worst, smooth, wide" in results.weights.names
    assert set(formulas.values()) >= set(studio.results(run_id).weights.names)


def test_sources_that_were_tested_have_words_and_intervals():
    values = {"rna": {"value": 0.05, "low": 0.02, "high": 0.08, "method": "", "n": 0}}
    columns = ["left out", "score", "loss", "low", "high", "p", "p, corrected", "verdict"]
    row = ["rna", 0.9, 0.05, 0.02, 0.08, 0.01, 0.02, "yes"]
    one = {
        "name": "omission", "title": "", "values": values, "sentences": [], "rows": 100,
        "details": {"name of score": "concordance"},
        "tables": [{"name": "o", "title": "", "heads": columns, "rows": [row]}],
    }  # fmt: skip
    rows, about = sources_of({"omission": one})
    assert [(row.name, row.low, row.high, row.answer) for row in rows] == [("rna", 0.02, 0.08, "yes")]
    assert "Loss of concordance" in about


def test_without_held_out_rows_the_story_begins_with_nested_folds():
    tree = {"values": {}, "title": "", "name": "nested", "tables": [], "rows": 80}
    said = {"topic": "score", "text": "In nested folds accuracy is 0.97.", "numbers": []}
    assert verdict({"nested": {**tree, "sentences": [said]}}, "target") == said["text"]
    assert verdict({}, "target").endswith("no rows were held out.")


@needs_core
@pytest.mark.skipif(not PAPERS[0].is_here, reason="needs the data set prostate")
def test_the_template_of_the_prostate_data_ends_in_the_printed_table(studio):
    from kernelweave_papers.printed import RLS2_TABLE1

    run_id = run_here(studio, RunRequest(**PAPERS[0].draft.model_dump()))
    results = studio.results(run_id)
    printed = {name: row["rls2"].text for name, row in RLS2_TABLE1.items()}
    for name, value in results.coefficients.items():
        assert f"{abs(value):.3f}" == printed[name].replace("–", "0.000"), name
    assert [f"{value:.3f}" for value in results.squared_error] == [
        printed["test error"],
        printed["std error"],
    ]
    assert studio.run(run_id).summary.n_training == 67


def test_templates_whose_data_are_missing_say_so(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "is_here", lambda name: False)
    assert EXAMPLE.is_here
    assert not any(one.is_here for one in PAPERS)
    assert f"set-{PROSTATE}" not in ids(Studio(tmp_path)).values()


# ---- elsewhere --------------------------------------------------------------------------------------


@needs_core
def test_the_folder_of_a_run_runs_elsewhere(studio, tmp_path):
    frame = table(y=table()["a"] + table()["b"])
    upload(studio, "t.csv", frame)
    data = Data(tables=[ids(studio)["t.csv"]])
    run = run_here(
        studio, RunRequest(data=data, spec=Spec(target="y", kernels="linear", alphas="5", test_size=0.2))
    )
    packed = pack_run(studio, run)
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "elsewhere")
    (studio.places.root / "t.csv").unlink()
    here = tmp_path / "elsewhere"
    for path in here.rglob("*"):
        if path.suffix in (".py", ".toml", ".json", ".html"):
            assert str(studio.places.root) not in path.read_text("utf8"), path
    said = subprocess.run(
        [sys.executable, "script.py"], cwd=here, capture_output=True, text=True, check=True
    ).stdout
    held = next(one for one in studio.run(run).metrics if one.name == "R^2, held out")
    assert float(said.split("held-out score ")[1]) == pytest.approx(held.value, abs=1e-2)


def test_imports_have_the_limits_of_uploads_and_are_checked(studio, tmp_path):
    upload(studio, "t.csv", table())
    made = Projects(studio).all()[0]
    packed = pack(studio, made.id)
    assert unpack(studio, packed).n_tables == 1
    altered = tmp_path / "altered.zip"
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(altered, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b"ill", b"iii") if name == "tables/t.csv" else content)
    with pytest.raises(InputError, match="is not as it was exported"):
        unpack(studio, altered)
    studio.limits = Limits(upload=1000)
    with pytest.raises(InputError, match=r"larger than the limit of 1000 bytes|more than 10000 bytes"):
        unpack(studio, packed)
    # files of versions that wrote no checksums are read
    studio.limits = Limits()
    with zipfile.ZipFile(packed) as old:
        index = json.loads(old.read("project.json"))
        del index["checksums"]
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as new:
            new.writestr("tables/t.csv", old.read("tables/t.csv"))
            new.writestr("project.json", json.dumps(index))
    (tmp_path / "older.zip").write_bytes(content.getvalue())
    assert unpack(studio, tmp_path / "older.zip").n_tables == 1
    (copy,) = [path for path in Studio(studio.places.root).places.projects.rglob("t.csv")][:1]
    assert copy.stat().st_mode & 0o777 == 0o600


def test_only_known_scripts_get_the_nonce():
    from kernelweave_app.studio.pages.frame import marked
    from kernelweave_app.studio.security import MARK, _Answer

    page = (marked("<script>ours</script>") + "<script>not ours</script>").encode()
    sent = []

    async def send(message):
        sent.append(message)

    async def answer():
        made = _Answer(send, "once")
        await made(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]}
        )
        await made({"type": "http.response.body", "body": page})

    asyncio.run(answer())
    assert sent[1]["body"] == b'<script nonce="once">ours</script><script>not ours</script>'
    assert MARK.encode() not in sent[1]["body"]


def test_texts_of_numbers_alone_and_few_equal_rows_are_no_traps():
    whole = table(dose=pd.Series(["2.5", *NUMBERS], dtype=object))
    few = pd.concat([table().iloc[:93], table().iloc[:4]], ignore_index=True)
    for frame in (whole, few):
        found = consequences(Joined(frame), {}, Spec(target="y"), None, None)
        assert not {"numbers as text", "equal rows"} & {one.topic for one in found}
    many = pd.concat([table().iloc[:91], table().iloc[:6]], ignore_index=True)
    found = consequences(Joined(many), {}, Spec(target="y"), None, None)
    assert "equal rows" in {one.topic for one in found}
