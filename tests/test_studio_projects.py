"""Projects of the studio: each has its tables, its draft and its runs, and none sees those of another.

Modules: `studio/projects`, `studio/schema`, `studio/checking`, `studio/store`, `studio/service`,
`studio/server`, `studio/api`.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import sqlite3
import threading
import time
import zipfile

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")

from kernelweave._errors import InputError
from kernelweave_app.studio.projects import Projects
from kernelweave_app.studio.schema import Event
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import Store
from studio_server import Served, ended, needs_core, until

pytestmark = needs_core

WINE = {"tables": ["set-wine"]}
SPEC = {"target": "target", "alphas": "2", "cv": 2, "kernels": "linear"}

#: The database as the version before projects made it, with a run and a draft.
BEFORE = """
CREATE TABLE run (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, request TEXT NOT NULL, created REAL NOT NULL,
    started REAL, finished REAL, pid INTEGER, pid_started REAL, cancelled REAL, done INTEGER NOT NULL DEFAULT 0,
    total INTEGER, step TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', summary TEXT, asked TEXT);
CREATE TABLE event (
    number INTEGER PRIMARY KEY, run TEXT NOT NULL, time REAL NOT NULL, text TEXT NOT NULL);
CREATE TABLE point (
    number INTEGER PRIMARY KEY, run TEXT NOT NULL, stage TEXT NOT NULL, alpha REAL NOT NULL, rel_gap REAL,
    n_active INTEGER NOT NULL, weights TEXT NOT NULL, output TEXT NOT NULL DEFAULT '');
CREATE TABLE metric (
    run TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, spread REAL, PRIMARY KEY (run, name));
CREATE TABLE artifact (
    run TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (run, name));
CREATE TABLE token (hash TEXT PRIMARY KEY, created REAL NOT NULL);
CREATE TABLE session (hash TEXT PRIMARY KEY, created REAL NOT NULL);
CREATE TABLE draft (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE INDEX event_of_run ON event (run, number);
CREATE INDEX point_of_run ON point (run, number);
CREATE UNIQUE INDEX run_asked ON run (asked) WHERE asked IS NOT NULL;
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("studio"))
    yield served
    served.close()


# ---- folders of before ----------------------------------------------------------------------------------------------


def test_a_folder_without_projects_opens_unchanged(tmp_path):
    folder = tmp_path / "tables"
    run = "20260101-010203-abcdef"
    (folder / "studio" / "runs" / run).mkdir(parents=True)
    (folder / "studio" / "runs" / run / "spec.toml").write_text("target = 'y'\n")
    (folder / "mine.csv").write_text("x,y\n1,2\n3,4\n")
    request = {"name": "", "data": WINE, "spec": SPEC, "paths": {}, "method": "rls2"}
    with sqlite3.connect(folder / "studio" / "studio.sqlite") as db:
        db.executescript(BEFORE)
        db.execute(
            "INSERT INTO run (id, name, state, request, created, asked) VALUES (?, 'old', 'done', ?, 5.0, 'k')",
            (run, json.dumps(request)),
        )
        db.execute("INSERT INTO metric VALUES (?, 'accuracy', 0.9, NULL)", (run,))
        db.execute("INSERT INTO artifact VALUES (?, 'spec.toml', 'settings', 13)", (run,))
        draft = {"data": WINE, "spec": {"target": "target"}, "name": "half done"}
        db.execute("INSERT INTO draft VALUES ('current', ?)", (json.dumps(draft),))
        db.execute("INSERT INTO draft VALUES ('appearance', '\"dark\"')")
    for _ in range(2):  # opened again, it stays as it is
        studio = Studio(folder)
        (project,) = studio.store.projects()
        assert (project["name"], project["created"], project["n_runs"]) == ("tables", 5.0, 1)
        here = studio.inside("")
        assert "mine.csv" in {ref.name for ref in here.tables()}
        assert here.draft().name == "half done"
        assert here.draft().spec.target == "target"
        (found,) = here.runs()
        assert (found.name, found.metrics[0].value) == ("old", 0.9)
        assert here.artifact(run, "spec.toml").read_text() == "target = 'y'\n"
        assert studio.store.inside(None).draft("appearance") == "dark"
        # asked for in the same words, it is still that run
        assert here.store.add_run("20270101-010203-abcdef", "x", {}, "k") == run
        studio.store.close()


# ---- apart from each other ------------------------------------------------------------------------------------------


def test_drafts_and_runs_of_projects_do_not_mix(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    store.add_project("0123456789ab", "second", 80)
    one, two = store.inside("first"), store.inside("0123456789ab")
    one.set_draft("current", {"name": "one"})
    assert two.draft("current") is None
    two.set_draft("current", {"name": "two"})
    assert one.draft("current") == {"name": "one"}
    one.add_run("a", "same name", {}, "word")
    assert two.add_run("b", "same name", {}, "word") == "b"
    assert [row["name"] for row in store.runs()] == ["same name"] * 2
    assert [row["id"] for row in one.runs()] == ["a"]
    assert [row["id"] for row in two.runs(("queued",))] == ["b"]
    with pytest.raises(InputError, match="There is no run"):
        one.run("b")
    assert store.run("b")["project"] == "0123456789ab"
    with pytest.raises(InputError, match="1 of its runs has not ended"):
        store.delete_project("0123456789ab")
    store.finish("b", "failed")
    store.add_event("b", "gone")
    assert store.delete_project("0123456789ab") == ["b"]
    assert store.read(Event, "b") == []
    for change in (lambda: two.set_draft("current", {}), lambda: two.add_run("c", "x", {})):
        with pytest.raises(InputError, match="There is no project"):
            change()
    assert one.draft("current") == {"name": "one"}
    with pytest.raises(InputError, match="the only project"):
        store.delete_project("first")
    store.close()


def test_a_thousand_starts_have_a_thousand_names_and_folders(tmp_path):
    studio = Studio(tmp_path)
    found = []

    def start():
        found.extend(studio.queue.add("quick", {}, "", "first") for _ in range(125))
        studio.store.close()

    threads = [threading.Thread(target=start) for _ in range(8)]
    begin = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"1000 starts: {time.process_time() - begin:.1f} s of processor time")
    assert len(set(found)) == 1000
    assert len({row["name"] for row in studio.store.runs()}) == 1000
    assert all(studio.places.run(run).is_dir() for run in found)
    studio.store.close()


# ---- over the API ---------------------------------------------------------------------------------------------------


def make(served, name, status=201):
    answer = served.client.post("/api/projects", json={"name": name})
    assert answer.status_code == status, answer.text
    return answer.json()


def put(client, name, text="x,y\n1,2\n3,4\n", **more):
    answer = client.post("/api/tables", params={"name": name, **more}, content=text.encode())
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def worked(served):
    """A project with two tables, a draft and a finished run of one of them."""
    project = make(served, "Tumours & <b>wine</b>")
    client = served.enter(project["id"])
    rows = "".join(f"{k},{(7 * k) % 11},{k % 2 == 0}\n" for k in range(40))
    table = put(client, "numbers.csv", "a,b,even\n" + rows)
    put(client, "other.csv")
    data = {"tables": [table["id"]]}
    client.put(
        "/api/draft", json={"data": data, "spec": {"target": "even"}, "name": "next"}
    ).raise_for_status()
    run = served.made(client, project["id"], data=data, spec={**SPEC, "target": "even"}, name="mine")
    assert run["state"] == "done", run["reason"]
    yield {"project": project, "client": client, "run": run, "table": table}
    client.close()


@pytest.mark.full
def test_a_project_sees_its_own_tables_draft_and_runs_only(served, worked):
    client, run = worked["client"], worked["run"]
    assert {"numbers.csv", "other.csv"} <= {t["name"] for t in client.get("/api/tables").json()}
    assert client.get("/api/about").json()["data_folder"] == worked["project"]["folder"]
    assert "numbers.csv" not in {t["name"] for t in served.client.get("/api/tables").json()}
    assert served.client.get("/api/runs").json() == []
    assert served.client.get("/api/draft").json()["name"] == ""
    for verb, path in (
        *(("GET", f"/api/runs/{run['id']}{part}") for part in ("", "/results", "/log", "/path", "/files")),
        ("GET", f"/api/runs/{run['id']}/files/spec.toml"),
        ("POST", f"/api/runs/{run['id']}/cancel"),
        ("DELETE", f"/api/runs/{run['id']}"),
        ("GET", f"/api/tables/{worked['table']['id']}"),
        ("DELETE", f"/api/tables/{worked['table']['id']}"),
        ("GET", f"/api/compare?run_id={run['id']}"),
    ):
        assert served.client.request(verb, path).status_code == 404, (verb, path)
    found = next(p for p in served.client.get("/api/projects").json() if p["id"] == worked["project"]["id"])
    assert (found["n_tables"], found["n_runs"]) == (2, 1)


def test_tables_are_listed_with_their_version_and_since_when(served, worked):
    client = worked["client"]
    begin = time.time()
    old = put(client, "version.csv", "x,y\n1,2\n3,4\n")
    found = {file["name"]: file for file in client.get("/api/files").json()}
    assert {name: (f["n_rows"], f["n_columns"], f["n_runs"]) for name, f in found.items()} == {
        "numbers.csv": (40, 3, 1),
        "other.csv": (2, 2, 0),
        "version.csv": (2, 2, 0),
    }
    first = found["version.csv"]
    assert first["checksum"] == hashlib.sha256(b"x,y\n1,2\n3,4\n").hexdigest()
    assert first["checksum"] == found["other.csv"]["checksum"]
    assert first["since"] >= begin - 1
    # one that replaces it keeps the id, so that drafts still find it; the content is another version
    new = put(client, "version.csv", "x,y\n5,6\n", replaces=old["id"])
    assert (new["id"], new["name"]) == (old["id"], "version.csv")
    found = {file["name"]: file for file in client.get("/api/files").json()}
    assert found["version.csv"]["n_rows"] == 1
    assert found["version.csv"]["checksum"] != first["checksum"]
    # another name: the old file goes, and only then
    third = put(client, "third.csv", replaces=new["id"])
    assert "version.csv" not in {t["name"] for t in client.get("/api/tables").json()}
    answer = client.post("/api/tables", params={"name": "x.csv", "replaces": "file-0"}, content=b"a\n1\n")
    assert answer.status_code == 404
    answer = client.post("/api/tables", params={"name": "x.csv", "replaces": third["id"]}, content=b"\x00")
    assert answer.status_code == 422
    assert "third.csv" in {t["name"] for t in client.get("/api/tables").json()}
    assert client.delete(f"/api/tables/{third['id']}").status_code == 204


def same(one, two):
    """Whether two projects hold the same, apart from ids, names and folders."""
    assert one.get("/api/draft").json() == two.get("/api/draft").json()
    files = [
        [
            {k: f[k] for k in ("id", "name", "checksum", "n_rows", "n_runs")}
            for f in c.get("/api/files").json()
        ]
        for c in (one, two)
    ]
    assert files[0] == files[1]
    runs = [c.get("/api/runs").json() for c in (one, two)]
    assert [{**run, "id": ""} for run in runs[0]] == [{**run, "id": ""} for run in runs[1]]
    for a, b in zip(*runs, strict=True):
        assert a["id"] != b["id"]
        for part in ("results", "path", "log", "files"):
            answers = [c.get(f"/api/runs/{run['id']}/{part}").json() for c, run in ((one, a), (two, b))]
            if part == "path":
                for answer in answers:
                    for point in answer["points"]:
                        del point["number"]
            if part == "log":
                for answer in answers:
                    for event in answer["events"]:
                        event.pop("time")
            if part == "files":  # texts that name the folder differ in length
                answers = [{f["name"] for f in answer} for answer in answers]
            assert answers[0] == answers[1], part


def test_a_duplicate_and_what_comes_back_from_a_file_are_the_same(served, worked, tmp_path):
    client, project = worked["client"], worked["project"]
    answer = served.client.get(f"/api/projects/{project['id']}/file")
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    until(lambda: not list(served.studio.places.uploads.iterdir()))  # the file goes once it is sent
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        names = archive.namelist()
        assert {"project.json", "tables/numbers.csv", "tables/other.csv"} <= set(names)
        assert not [name for name in names if name.endswith((".pkl", ".joblib"))]
        assert any(name.endswith("/model.skops") for name in names)
    imported = served.client.post("/api/projects/import", content=answer.content)
    assert imported.status_code == 201, imported.text
    copied = served.client.post(f"/api/projects/{project['id']}/copy", json={})
    assert copied.status_code == 201, copied.text
    for other, number in ((imported.json(), 2), (copied.json(), 3)):
        assert other["name"] == f"Tumours & <b>wine</b> {number}"
        assert other["folder"] != project["folder"]
        with contextlib.closing(served.enter(other["id"])) as there:
            same(client, there)
            (run,) = there.get("/api/runs").json()
            # scripts and commands name the tables of their own project
            for name in ("script.py", "spec.toml"):
                assert project["folder"] not in there.get(f"/api/runs/{run['id']}/files/{name}").text
            data = {"data": {"tables": [worked["table"]["id"]]}}
            assert there.post(f"/api/runs/{run['id']}/predict", json=data).json()["n_rows"] == 40
            # what is done there stays there
            put(there, "more.csv")
            assert there.delete(f"/api/runs/{run['id']}").status_code == 204
        assert served.client.delete(f"/api/projects/{other['id']}").status_code == 204
        assert not os.path.exists(other["folder"])
    bare = served.client.post(
        f"/api/projects/{project['id']}/copy", json={"name": "bare", "runs": False}
    ).json()
    assert (bare["name"], bare["n_tables"], bare["n_runs"]) == ("bare", 2, 0)
    served.client.delete(f"/api/projects/{bare['id']}").raise_for_status()
    assert len(client.get("/api/runs").json()) == 1
    assert client.get(f"/api/runs/{worked['run']['id']}/files/model.skops").status_code == 200


NAMES = [
    "",
    "   ",
    "..",
    " . ",
    "../..",
    "x" * 81,
    "\u202eevil",
    "a\u200bb",
    "a\nb",
    "a\x00b",
    "\ud800",
    "\u2028",
]


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_of_projects_are_refused(served, worked, name):
    before = served.client.get("/api/projects").json()
    body = json.dumps({"name": name}).encode()
    json_type = {"Content-Type": "application/json"}
    project = worked["project"]["id"]
    for verb, path in (("POST", "/api/projects"), ("PATCH", f"/api/projects/{project}")):
        answer = served.client.request(verb, path, content=body, headers=json_type)
        assert answer.status_code == 422, answer.text
        assert len(answer.text) < 500
    if name:  # without a name, a copy gets that of the project with a number
        answer = served.client.post(f"/api/projects/{project}/copy", content=body, headers=json_type)
        assert answer.status_code in (422, 201)
        if answer.status_code == 201:
            served.client.delete(f"/api/projects/{answer.json()['id']}")
    assert [p["name"] for p in served.client.get("/api/projects").json()] == [p["name"] for p in before]


def test_names_of_projects_are_kept_as_text_and_are_no_folders(served):
    names = [
        "<script>alert(1)</script>",
        "Größe 日本",
        "a:b*c?/..",
        "..\\b",
        "CON",
        "'; DROP TABLE run; --",
        "%2e%2e",
    ]
    made = [make(served, name) for name in names]
    assert [project["name"] for project in made] == names
    for project in made:
        assert os.path.basename(project["folder"]) == project["id"]
    again = make(served, names[1])
    assert again["name"] == f"{names[1]} 2"
    answer = served.client.patch(f"/api/projects/{again['id']}", json={"name": names[1]})
    assert answer.status_code == 422
    assert "Another project is called" in answer.json()["detail"]
    for project in (*made, again):
        assert served.client.delete(f"/api/projects/{project['id']}").status_code == 204
        assert served.client.get(f"/api/projects/{project['id']}").status_code == 404
        assert served.client.get(f"/p/{project['id']}/api/runs").status_code == 404
    for project in ("nothing", "0" * 12, "%2e%2e"):
        assert served.client.get(f"/p/{project}/api/runs").status_code in (404, 422)


def test_the_tables_of_the_data_folder_stay(tmp_path):
    studio = Studio(tmp_path)
    (tmp_path / "mine.csv").write_text("a\n1\n")
    projects = Projects(studio)
    with pytest.raises(InputError, match="only project"):
        projects.delete("first")
    second = projects.make("second")
    studio.inside("first").store.set_draft("current", {"name": "x"})
    projects.delete("first")
    assert (tmp_path / "mine.csv").exists()
    assert [project.name for project in projects.all()] == ["second"]
    assert studio.inside("").store.project == second.id
    # opened again, it has not come back
    assert [row["name"] for row in Store(studio.places.database).projects()] == ["second"]
    studio.store.close()


# ---- files of projects that are not what they seem ------------------------------------------------------------------


def packed(members, index=None, **changes):
    """The file of a project; `index` is its first file, or what stands in its place."""
    about = {"format": "kernelweave project", "version": 1, "name": "x", **changes}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        if index != "":
            archive.writestr("project.json", json.dumps(about) if index is None else index)
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


RUN = "20260101-010203-abcdef"
STORED = {
    "id": RUN,
    "name": "a",
    "state": "done",
    "created": 1.0,
    "request": {"name": "", "data": WINE, "spec": SPEC},
    "paths": {"wine": "sets/wine.csv"},
}


def linked():
    entry = zipfile.ZipInfo("tables/link.csv")
    entry.external_attr = 0o120777 << 16
    return packed([(entry, "/etc/passwd")])


def of_run(name, content, **more):
    return lambda: packed([(f"runs/{RUN}/{name}", content)], runs=[{**STORED, **more}])


def model(name, content):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, content)
    return stream.getvalue()


HOSTILE = {
    "no archive": lambda: b"PK nothing",
    "nothing": lambda: b"",
    "no index": lambda: packed([("tables/a.csv", "a\n1\n")], index=""),
    "an index of another kind": lambda: packed([], index='{"format": "x"}'),
    "a deep index": lambda: packed([], index="[" * 100_000),
    "another version": lambda: packed([], version=2),
    "a path upwards": lambda: packed([("tables/../../evil.csv", "a\n1\n")]),
    "an absolute path": lambda: packed([("/tmp/evil.csv", "a\n1\n")]),
    "a path upwards in a run": of_run("../../evil.txt", "x"),
    "a file beside them": lambda: packed([("studio.sqlite", "x")]),
    "a folder": lambda: packed([("tables/", "")]),
    "a link": linked,
    "a file twice": lambda: packed([("tables/a.csv", "a\n1\n"), ("tables/A.csv", "a\n1\n")]),
    "a pickle as a table": lambda: packed([("tables/a.csv", b"\x80\x04\x95." + bytes(20))]),
    "a table of another type": lambda: packed([("tables/a.npz", "a,b\n1,2\n")]),
    "a program": of_run("evil.so", b"\x7fELF"),
    "a pickle as a model": of_run("model.skops", b"\x80\x04\x95."),
    "a pickle in a model": of_run("model.skops", model("evil.pkl", b"\x80\x04.")),
    "objects in a model": of_run("model.skops", model("a.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '|O'")),
    "a pickle as text": of_run("log.txt", b"\x80\x04\x95."),
    "names of kernels that are none": of_run("kernels.json", "[1, 2]"),
    "a run that is not listed": lambda: packed([(f"runs/{RUN}/log.txt", "x")]),
    "a run that goes on": lambda: packed([], runs=[{**STORED, "state": "running"}]),
    "a run of a wrong id": lambda: packed([], runs=[{**STORED, "id": "../x"}]),
    "rows that no page can show": lambda: packed([], runs=[{**STORED, "rows": {"event": [{"time": "x"}]}}]),
    "weights that are no JSON": lambda: packed(
        [],
        runs=[
            {
                **STORED,
                "rows": {
                    "point": [{"stage": "a", "alpha": 1.0, "n_active": 1, "rel_gap": 0.1, "weights": "{"}]
                },
            }
        ],
    ),
    "points without weights": lambda: packed([], runs=[{**STORED, "rows": {"point": [{"stage": "a"}]}}]),
    "tags that are no texts": lambda: packed([], runs=[{**STORED, "rows": {"mark": [{"tags": "[1]"}]}}]),
    "a record of something else": lambda: packed([], runs=[{**STORED, "record": {"other": 1}}]),
    "a table with a path": lambda: packed([], runs=[{**STORED, "paths": {"a": "tables/../../x.csv"}}]),
    "a bomb": lambda: packed([("tables/a.csv", b"a\n" + b"1\n" * 6_000_000)]),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", HOSTILE)
def test_files_of_projects_that_are_not_what_they_seem_are_refused(served, case, monkeypatch):
    from kernelweave_app.studio.checking import Limits

    monkeypatch.setattr(served.studio, "limits", Limits(upload=1_000_000))
    root = served.studio.places.root
    before = sorted(p for p in root.parent.rglob("*") if "sqlite" not in p.name)
    names = served.client.get("/api/projects").json()
    answer = served.client.post("/api/projects/import", content=HOSTILE[case]())
    assert answer.status_code == 422, answer.text
    assert len(answer.text) < 1000
    assert sorted(p for p in root.parent.rglob("*") if "sqlite" not in p.name) == before
    assert served.client.get("/api/projects").json() == names


def test_what_is_imported_lists_only_files_that_it_has(served):
    rows = {
        "artifact": [{"name": name, "kind": "x", "size": 1} for name in ("../../studio.sqlite", "log.txt")]
    }
    more = {"state": "done", "pid": 1, "project": "first", "name": "b"}
    stored = {**STORED, "rows": rows, "more": more}
    content = packed([(f"runs/{RUN}/log.txt", "said")], runs=[stored], name="..")
    project = served.client.post("/api/projects/import", content=content).json()
    assert project["name"] == "Imported project"
    with contextlib.closing(served.enter(project["id"])) as client:
        (run,) = client.get("/api/runs").json()
        assert run["name"] == "a"
        assert [f["name"] for f in client.get(f"/api/runs/{run['id']}/files").json()] == ["log.txt"]
        assert client.get(f"/api/runs/{run['id']}/files/..%2f..%2fstudio.sqlite").status_code == 404
    served.client.delete(f"/api/projects/{project['id']}").raise_for_status()


def test_a_full_disk_and_locked_files_leave_nothing_behind(served, worked, monkeypatch):
    from kernelweave_app.studio import projects

    before = {p["id"] for p in served.client.get("/api/projects").json()}

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(projects.shutil, "copy2", full)
        answer = served.client.post(f"/api/projects/{worked['project']['id']}/copy", json={})
    assert answer.status_code == 507
    assert {p["id"] for p in served.client.get("/api/projects").json()} == before
    folders = {path.name for path in served.studio.places.projects.iterdir()}
    assert folders <= before

    def locked(self, **_):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", locked)
        answer = worked["client"].delete(f"/api/tables/{worked['table']['id']}")
    assert answer.status_code == 422
    assert "Is it open elsewhere?" in answer.json()["detail"]
    assert worked["client"].get(f"/api/tables/{worked['table']['id']}").status_code == 200


@pytest.mark.full
def test_tables_are_joined_by_their_order(served):
    project = make(served, "in order")
    with contextlib.closing(served.enter(project["id"])) as client:
        rows = range(30)
        one = put(client, "one.csv", "a,y\n" + "".join(f"{(3 * k) % 7},{k % 2 == 0}\n" for k in rows))
        two = put(client, "two.csv", "a,b\n" + "".join(f"{k},{(5 * k) % 11}\n" for k in rows))
        short = put(client, "short.csv", "c\n1\n")
        data = {"tables": [one["id"], two["id"]], "by_order": True}
        found = client.post("/api/join", json=data).json()
        assert (found["n_rows"], found["problem"]) == (30, "")
        assert found["views"] == {"one": ["one.a", "y"], "two": ["two.a", "b"]}
        wrong = client.post("/api/join", json={**data, "tables": [one["id"], short["id"]]}).json()
        assert "equally many" in wrong["problem"]
        answer = client.post("/api/runs", json={"data": data, "spec": {**SPEC, "target": "y"}})
        assert answer.status_code == 201, answer.text
        run = until(lambda: ended(client, answer.json()["id"]), 180)
        assert run["state"] == "done", run["reason"]
        path = f"/api/runs/{run['id']}"
        predicted = client.post(f"{path}/predict", json={"data": data}).json()
        assert predicted["n_rows"] == 30
        script = client.get(f"{path}/files/script.py").text
        assert "pd.concat(tables, axis=1)\n" in script
        compile(script, "script.py", "exec")
    served.client.delete(f"/api/projects/{project['id']}").raise_for_status()


def test_the_command_lists_projects(tmp_path, capsys):
    from kernelweave_app.studio.server import list_projects

    with pytest.raises(InputError, match="no projects yet"):
        list_projects(tmp_path)
    studio = Studio(tmp_path)
    (tmp_path / "a.csv").write_text("a\n1\n")
    projects = Projects(studio)
    second = projects.make("second")
    assert projects.called("second").id == second.id
    with pytest.raises(InputError, match=r"Projects are .*'second'"):
        projects.called("third")
    list_projects(tmp_path)
    assert capsys.readouterr().out == f"second  (0 tables, 0 runs)\n{tmp_path.name}  (1 table, 0 runs)\n"
    studio.store.close()


@pytest.mark.parametrize("names", [["a", 1], "a", {"a": 1}])
def test_names_of_kernels_of_an_imported_run_are_texts(names, tmp_path):
    from kernelweave_app.studio.projects import _check_kernels

    path = tmp_path / "kernels.json"
    path.write_text(json.dumps(names))
    with pytest.raises(InputError, match="names of kernels"):
        _check_kernels(path)
    path.write_text(json.dumps(["a", "b"]))
    _check_kernels(path)
