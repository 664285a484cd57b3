"""The API where much comes at once, where numbers are none, where the disk is full, and where tables are many.

Modules: `studio/store`, `studio/server`, `studio/checking`.
"""

import errno
import json
import os
import sqlite3
import sys
import threading
import time
from types import SimpleNamespace

import httpx
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")

from kernelweave._errors import InputError
from kernelweave_app.runs.fitting import parse_values
from kernelweave_app.runs.formats import read_file, read_table
from kernelweave_app.runs.formats.text import look_at_text
from kernelweave_app.studio import catalogue, security
from kernelweave_app.studio.catalogue import Catalogue
from kernelweave_app.studio.checking import Limits
from kernelweave_app.studio.store import DiskFull, Places, Store
from studio_server import Served

WINE = {"tables": ["set-wine"]}
SPEC = {"target": "target", "alphas": "2", "cv": 2, "kernels": "linear"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("studio"))
    served.studio.queue.at_once = 0  # runs are put into the queue and not begun
    yield served
    served.close()


def at_once(number, ask):
    """Ask from as many threads; return what they got."""
    found = []
    threads = [threading.Thread(target=lambda k=k: found.append(ask(k))) for k in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


# ---- starts ---------------------------------------------------------------------------------------------------------


def start(served, **headers):
    with httpx.Client(base_url=served.inside, cookies=served.client.cookies, timeout=60) as client:
        answer = client.post("/api/runs", json={"data": WINE, "spec": SPEC}, headers=headers)
        assert answer.status_code == 201, answer.text
        return answer.json()


@pytest.mark.full
def test_fifty_starts_at_once_have_fifty_names(served, monkeypatch):
    # checking takes most of the time, and is not what is tried here
    monkeypatch.setattr(served.studio, "check", lambda *_: SimpleNamespace(task="classification"))
    runs = at_once(50, lambda _: start(served))
    assert len({run["id"] for run in runs}) == 50
    assert len({run["name"] for run in runs}) == 50


def test_a_start_that_is_asked_for_twice_is_one_run(served):
    before = len(served.studio.runs())
    runs = at_once(4, lambda _: start(served, **{"Idempotency-Key": "a form of a page"}))
    assert len({run["id"] for run in runs}) == 1
    assert len(served.studio.runs()) == before + 1
    assert len(list(served.studio.places.runs.iterdir())) == before + 1
    other = start(served, **{"Idempotency-Key": "another form"})
    assert other["id"] != runs[0]["id"]


# ---- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("name", ["tol", "test_size", "seed", "max_iter"])
def test_numbers_that_json_does_not_have_are_refused(served, name, value):
    for inner in (f'"{name}": {value}', f'"learner_params": {{"{name}": {value}}}'):
        body = f'{{"data": {json.dumps(WINE)}, "spec": {{"target": "target", {inner}}}}}'
        for path in ("/api/check", "/api/runs"):
            answer = served.client.post(path, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == 422, answer.text
            # parameters of learners have a place of their own
            flat = name in ("tol", "max_iter") and "learner_params" not in inner
            assert ("Extra inputs" if flat else "finite") in answer.text or "learner_params" in answer.text
            assert answer.json()["detail"]


@pytest.mark.parametrize("name", ["alphas", "Cs"])
@pytest.mark.parametrize("text", ["1e400", "1e400,1", "1:1e400:3", "1e400:1:3"])
def test_regularisation_parameters_are_finite(served, name, text):
    with pytest.raises(InputError, match=f"`{name}` must hold finite numbers, got '{text}'"):
        parse_values(name, text)
    method = "rls2" if name == "alphas" else "simple"
    body = {"data": WINE, "spec": {**SPEC, "method": method, name: text}}
    assert served.client.post("/api/check", json=body).status_code == 422


# ---- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("encoding", "mark"), [("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")])
@pytest.mark.parametrize(
    ("name", "separator"), [("cells.tsv", "\t"), ("cells.csv", ";"), ("cells.csv.gz", ",")]
)
def test_text_in_utf_16_is_read(served, tmp_path, encoding, mark, name, separator):
    import gzip

    lines = ["größe,λ,klasse", *(f"{k}.5,{k * k},{'ä' if k % 2 else 'b'}" for k in range(12))]
    text = "\r\n".join(lines).replace(",", separator)
    content = mark + text.encode(encoding)
    content = gzip.compress(content) if name.endswith(".gz") else content
    answer = served.upload(name, content)
    assert answer.status_code == 201, answer.text
    about = served.client.get(f"/api/tables/{answer.json()['id']}").json()
    assert (about["n_rows"], about["n_columns"], about["n_numeric"]) == (12, 3, 2)
    # the command line reads it too, and scripts are told how
    (tmp_path / name).write_bytes(content)
    table = read_table(tmp_path / name)
    assert list(table.columns) == ["größe", "λ", "klasse"]
    assert table["größe"].tolist() == [k + 0.5 for k in range(12)]
    options, _, _ = look_at_text(tmp_path / name)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / name, **options), table)


def test_what_is_no_utf_16_is_refused_by_its_name(served, tmp_path):
    text = "a,b\n1,2\n3,4\n"
    bare = served.upload("bare.csv", text.encode("utf-16-le"))
    assert bare.status_code == 422
    assert "UTF-16 without a mark" in bare.json()["detail"]
    for content, said in (
        (b"\xff\xfe" + text.encode("utf-16-le") + b"\n", "UTF-16"),  # half a character
        (b"\xff\xfe" + "a,b\n1,\x01\n".encode("utf-16-le"), "control characters"),
        (b"\xff\xfe" + "a,b\n1,\x00\n".encode("utf-16-le"), "control characters"),
    ):
        answer = served.upload("broken.csv", content)
        assert answer.status_code == 422
        assert said in answer.json()["detail"]
    (tmp_path / "zero.csv").write_bytes(b"\xff\xfe" + "a,b\n1,2\n3,\x00\n".encode("utf-16-le"))
    with pytest.raises(InputError, match="damaged: there is a zero among its characters"):
        read_table(tmp_path / "zero.csv")
    wide = served.upload("wide.csv", b"\xff\xfe" + ("a," * 100_001 + "b\n1\n").encode("utf-16-le"))
    assert "larger than may be read" in wide.json()["detail"]


def test_more_than_six_tables_stay_in_memory(tmp_path, monkeypatch):
    for k in range(12):
        pd.DataFrame({"a": np.arange(100.0), "b": ["text of some length"] * 100}).to_csv(
            tmp_path / f"t{k:02d}.csv", index=False
        )
    reads = []
    monkeypatch.setattr(
        catalogue, "read_file", lambda path, **how: reads.append(path.name) or read_file(path, **how)
    )
    tables = Catalogue(Places(tmp_path), Limits())
    paths = sorted(tmp_path.glob("*.csv"))
    for _ in range(3):
        for path in paths:
            tables.read_file(path, path.name)
    assert sorted(reads) == [path.name for path in paths]  # each once
    # a changed file is read anew, and its former content goes
    pd.DataFrame({"a": [1.0, 2.0]}).to_csv(paths[0], index=False)
    assert len(tables.read_file(paths[0], paths[0].name)) == 2
    assert len(tables._kept) == 12
    # the budget is of bytes, of what cells of text hold too, and the oldest leave first
    size = next(iter(tables._kept.values()))[1]
    assert size > 100 * (8 + len("text of some length"))
    monkeypatch.setattr(catalogue, "KEPT_BYTES", 3 * size)
    pd.DataFrame({"a": np.arange(100.0), "b": ["text of some length"] * 100}).to_csv(paths[0], index=False)
    tables.read_file(paths[0], paths[0].name)
    assert [path.name for path, *_ in tables._kept] == ["t10.csv", "t11.csv", "t00.csv"]


# ---- a full disk ----------------------------------------------------------------------------------------------------


@pytest.fixture
def full(served, monkeypatch):
    """From here on nothing can be written."""

    def refuse(*_, **__):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise error

    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    class Connection(sqlite3.Connection):
        """A connection that reads, and has no room to write."""

        def execute(self, statement, *values):
            reads = statement.startswith(("SELECT", "PRAGMA"))
            return super().execute(statement, *values) if reads else refuse()

        executemany = executescript = refuse

    connect = sqlite3.connect
    # connections of other threads are opened anew
    monkeypatch.setattr(served.studio.store, "_local", threading.local())
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Connection))
    monkeypatch.setattr("pathlib.Path.mkdir", no_room)
    return served


def test_a_full_disk_is_told_as_such(full, capsys):
    for verb, path, body in (
        ("POST", "/api/runs", {"data": WINE, "spec": SPEC}),
        ("PUT", "/api/draft", {"name": "x"}),
    ):
        answer = full.client.request(verb, path, json=body)
        assert answer.status_code == 507, answer.text
        assert "The disk is full" in answer.json()["detail"]
        assert str(full.studio.places.root) in answer.json()["detail"]
        assert "Free some space" in answer.json()["detail"]
    assert full.client.get("/api/runs").status_code == 200
    full.studio.queue._wake.set()
    time.sleep(0.3)
    assert "Traceback" not in capsys.readouterr().err


def test_an_upload_to_a_full_disk_is_told_as_such(served, monkeypatch):
    import pathlib

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    plain = pathlib.Path.open
    monkeypatch.setattr(
        pathlib.Path,
        "open",
        lambda self, mode="r", *a, **k: (
            Full(plain(self, mode, *a, **k)) if self.suffix == ".part" else plain(self, mode, *a, **k)
        ),
    )
    answer = served.upload("t.csv", b"a,b\n1,2\n")
    assert answer.status_code == 507
    assert "The disk is full" in answer.json()["detail"]
    assert not list(served.studio.places.uploads.iterdir())


def test_a_login_works_on_a_full_disk_at_once(served, request):
    """Whoever deletes runs to make room must be able to enter; the token still opens one session."""
    token = served.access.mint()
    request.getfixturevalue("full")
    begin = time.monotonic()
    with httpx.Client(base_url=served.inside) as client:
        assert client.get(f"{served.address}/login", params={"token": token}).status_code == 200
        assert client.get("/api/about").status_code == 200
        assert httpx.get(f"{served.address}/login", params={"token": token}).status_code == 401
        assert httpx.get(f"{served.address}/login", params={"token": "wrong"}).status_code == 401
    assert time.monotonic() - begin < 5.0


def test_a_run_can_be_deleted_to_make_room(served, monkeypatch):
    run = start(served)["id"]
    served.client.post(f"/api/runs/{run}/cancel")
    folder = served.studio.places.run(run)
    delete = served.studio.store.delete_run

    def needs_room(run_id):
        if folder.exists():
            raise DiskFull("The disk is full.")
        delete(run_id)

    monkeypatch.setattr(served.studio.store, "delete_run", needs_room)
    assert served.client.delete(f"/api/runs/{run}").status_code == 204
    assert served.client.get(f"/api/runs/{run}").status_code == 404


def test_a_second_command_on_a_full_disk_says_so(tmp_path):
    """It needs a token of its own, which cannot be written."""
    from kernelweave_app.studio.server import _open_running

    def mint():
        raise DiskFull("The disk is full.")

    (tmp_path / "server.lock").write_text('{"address": "http://127.0.0.1:1"}')
    with pytest.raises(DiskFull, match="The disk is full"):
        _open_running(tmp_path / "server.lock", SimpleNamespace(mint=mint), False)


def test_what_a_killed_server_left_of_uploads_is_deleted_by_the_next_one(tmp_path, monkeypatch):
    """Once it is the only one; a second command, which only opens the first, deletes nothing."""
    from kernelweave_app.studio import server

    uploads = Places(tmp_path).uploads
    elsewhere = tmp_path / "table.csv"
    elsewhere.write_text("a,y\n1,2\n")

    def leave():
        (uploads / "abc.part").write_bytes(b"half of a table")
        (uploads / "abc.d").mkdir()
        (uploads / "abc.d" / "0").write_bytes(b"half of a project")
        (uploads / "link").symlink_to(elsewhere)

    def stop(*_):
        raise InputError("This is enough.")

    monkeypatch.setattr(server, "_listen", stop)
    monkeypatch.setattr(server, "_open_running", stop)
    leave()
    with server._only_server(Places(tmp_path).lock), pytest.raises(InputError, match="enough"):
        server.serve(tmp_path, browser=False)
    assert len(list(uploads.iterdir())) == 3
    with pytest.raises(InputError, match="enough"):
        server.serve(tmp_path, browser=False)
    assert not list(uploads.iterdir())
    assert elsewhere.exists()


# ---- sessions -------------------------------------------------------------------------------------------------------


def test_sessions_are_short_and_end_for_digests_that_are_known(tmp_path, monkeypatch):
    """One that was seen elsewhere is soon worth nothing."""
    assert security.SESSION_AGE <= 24 * 3600
    access = security.Access(Store(tmp_path / "s.sqlite"), tmp_path)
    session = access.redeem(access.mint())
    asked = SimpleNamespace(cookies={access.cookie: session}, headers={})
    now = time.time()
    assert all(at_once(20, lambda _: access.allows(asked, True)))
    monkeypatch.setattr(time, "time", lambda: now + security.SESSION_AGE + 60)
    assert not any(at_once(20, lambda _: access.allows(asked, True)))
    access.store.close()


def test_the_cookie_ends_with_its_session(served):
    with httpx.Client(base_url=served.address) as client:
        answer = client.get("/login", params={"token": served.access.mint()})
    assert f"max-age={int(security.SESSION_AGE)}" in answer.headers["set-cookie"].lower()


# ---- memory ---------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="asks the GNU C library")
def test_the_server_asks_the_system_to_take_memory_back(monkeypatch):
    import ctypes

    from kernelweave_app.studio.server import give_back_memory

    asked = []

    class Library:
        @staticmethod
        def mallopt(what, value):
            asked.append((what, value))

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    # set first, so that it is as before after the test
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL")
    give_back_memory()
    # numbers of malloc.h: threshold of trimming, of pages of their own, most arenas
    assert sorted(asked) == [(-8, 2), (-3, 2**20), (-1, 2**20)]
    assert os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "system"
    # what a user has chosen stays
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    give_back_memory()
    assert os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "mimalloc"
    # another C library lacks the function
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    give_back_memory()


def test_seconds_left_are_in_proportion_to_the_steps(monkeypatch):
    from kernelweave_app.studio import store

    monkeypatch.setattr(store.time, "time", lambda: 1060.0)
    assert store.seconds_left(1000.0, 3, 12) == 180.0
    assert store.seconds_left(1000.0, 12, 12) == store.seconds_left(1000.0, 13, 12) == 0.0
