"""The studio under attack: every request here must be refused, and must leave nothing behind.

Modules: `studio/security`, `studio/catalogue`.
"""

import gzip
import io
import json
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")

import httpx

from kernelweave._errors import InputError
from kernelweave_app.runs.settings import learner_settings
from kernelweave_app.runs.spec import Spec
from kernelweave_app.studio import security
from kernelweave_app.studio.checking import Limits
from kernelweave_app.studio.security import HEADERS, TOKEN_VARIABLE, base_of, check_host
from kernelweave_app.studio.store import safe_name
from studio_server import Served, needs_core

pytestmark = needs_core

LIMITS = Limits(upload=2 * 2**20, unpacked=8 * 2**20, cells=1_000_000, columns=2000, body=2**18)
TOKEN = "a token of this test alone"
WINE = {"tables": ["set-wine"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("studio"), LIMITS, token=TOKEN)
    yield served
    served.close()


@pytest.mark.parametrize(
    ("path", "inside", "before", "project", "seen"),
    [
        ("/", False, "", "", "/"),
        ("/use", False, "", "", "/use"),
        ("/p/abc/use", False, "/p/abc", "abc", "/use"),
        ("/p/abc", False, "/p/abc", "abc", "/"),
        ("/s/key/use", True, "/s/key", "", "/use"),
        ("/s/key/p/abc/use", True, "/s/key/p/abc", "abc", "/use"),
        ("/s/key", True, "/s/key", "", "/"),
        # another secret part is an address like any that does not exist
        ("/s/kex/p/abc/use", False, "", "", "/s/kex/p/abc/use"),
        ("/s/key2/use", False, "", "", "/s/key2/use"),
        ("/p/ABC/use", False, "", "", "/p/ABC/use"),
    ],
)
def test_addresses_are_divided_into_session_project_and_path(path, inside, before, project, seen):
    scope = {"path": path}
    assert security.enter(scope, "key") is inside
    assert scope["root_path"] == before
    assert security.project_of(scope) == project
    assert security.path_of(scope) == seen
    assert security.base_in(scope) == ("/s/key" if inside else "")
    assert security.address_of(scope, "xyz", "/data") == ("/s/key" if inside else "") + "/p/xyz/data"


def raw(served, text):
    """Send bytes as they are; return the answer's status and headers."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as line:
        line.sendall(text)
        answer = line.makefile("rb").read()
    head = answer.split(b"\r\n\r\n")[0].decode()
    return int(head.split()[1]), head.lower()


def handshake(served, host=None, origin=None, cookie=True, inside=None):
    inside = base_of(served.access.secret) if inside is None else inside
    host = host or f"127.0.0.1:{served.port}"
    path = f"{inside}/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    lines = [f"GET {path} HTTP/1.1\r\nHost: {host}"]
    lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    if origin:
        lines.append(f"Origin: {origin}")
    if cookie:
        session = served.client.cookies.get(served.access.cookie)
        lines.append(f"Cookie: {served.access.cookie}={session}")
    return raw(served, ("\r\n".join(lines) + "\r\n\r\n").encode())[0]


# ---- who may ask ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "[::2]",
        "a@127.0.0.1",
        "127.0.0.1:8080.evil.example",
        "localhost.evil",
        "localhost:80@evil.example",
    ],
)
def test_other_host_names_are_refused(served, host):
    answer = served.client.get("/api/about", headers={"Host": host})
    assert answer.status_code == 400
    assert "data_folder" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1234", "[::1]:8080"])
def test_names_of_this_machine_are_accepted(served, host):
    assert served.client.get("/api/about", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}"),
        *("http://127.0.0.1:{port}.evil.example", "http://127.0.0.1:{port}0", "http://127.0.0.1"),
        "http://x@127.0.0.1:{port}",
        *("http://127.0.0.1:8080.evil.example", "http://localhost.evil", "http://localhost.evil:{port}"),
        *(
            "http://127.0.0.1.evil.example:{port}",
            "http://127.0.0.1:{port}@evil.example",
            "http://evil.127.0.0.1:{port}",
        ),
    ],
)
def test_other_origins_are_refused(served, origin):
    origin = origin.format(port=served.port)
    before = served.client.get("/api/draft").json()
    answer = served.client.put("/api/draft", json={"name": "taken over"}, headers={"Origin": origin})
    assert answer.status_code == 403
    assert served.client.get("/api/about", headers={"Origin": origin}).status_code == 403
    assert served.client.get("/api/draft").json() == before


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_other_sites_are_refused(served, site):
    for method in ("GET", "PUT", "DELETE"):
        answer = served.client.request(method, "/api/draft", headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 403
    own = {"Sec-Fetch-Site": "same-origin", "Origin": served.address}
    assert served.client.put("/api/draft", json={}, headers=own).status_code == 200


def test_websockets_of_others_are_refused(served):
    own = f"http://127.0.0.1:{served.port}"
    assert handshake(served, origin="http://evil.example") == 403
    assert handshake(served, origin=own, cookie=False) == 403
    assert handshake(served, origin=None) == 403
    assert handshake(served, host="evil.example", origin="http://evil.example") == 403
    for prefix in (f"{own}.evil.example", "http://localhost.evil", f"{own}@evil.example", f"{own}0"):
        assert handshake(served, origin=prefix) == 403


def test_nothing_is_told_without_a_session(served):
    with httpx.Client(base_url=served.inside) as stranger:
        schema = served.client.get("/api/openapi.json").json()
        for path, verbs in schema["paths"].items():
            for verb in verbs:
                where = path.format(
                    table_id="set-wine", run_id="20260101-000000-000000", project_id="first", name="x"
                )
                assert stranger.request(verb, where).status_code == 401, (verb, path)
        for path in ("/", "/api/openapi.json", "/api/docs", "/_nicegui/x", "/nothing", "/login"):
            assert stranger.get(path).status_code == 401
        page = stranger.get("/", headers={"Accept": "text/html"})
        assert page.status_code == 401
        assert "<script" not in page.text
        for wrong in ("", "x", "x" * 200, "\x00", "é"):
            assert httpx.get(f"{served.address}/login", params={"token": wrong}).status_code == 401
            assert httpx.post(f"{served.address}/login", data={"token": wrong}).status_code == 401
        stranger.cookies.set(served.access.cookie, "x" * 43)
        assert stranger.get("/api/about").status_code == 401


def test_a_token_opens_one_session(served):
    token = served.access.mint()
    with httpx.Client(base_url=served.inside) as first, httpx.Client(base_url=served.inside) as second:
        answer = first.get(f"{served.address}/login", params={"token": token})
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert first.get("/api/about").status_code == 200
        assert second.get(f"{served.address}/login", params={"token": token}).status_code == 401
    # neither is kept in a form that could be used
    with served.studio.store._db() as db:
        content = "\n".join(db.iterdump())
    assert 'INSERT INTO "session"' in content
    assert token not in content
    assert served.client.cookies.get(served.access.cookie) not in content


def test_sessions_and_tokens_end(tmp_path, monkeypatch):
    """Also sessions that have been seen before, as long as the server lives."""
    from types import SimpleNamespace

    from kernelweave_app.studio import store

    access = security.Access(store.Store(tmp_path / "s.sqlite"), tmp_path)
    now = time.time()
    session = access.redeem(access.mint())
    late = access.mint()

    def allowed(seconds):
        monkeypatch.setattr(time, "time", lambda: now + seconds)
        return access.allows(SimpleNamespace(cookies={access.cookie: session}, headers={}), True)

    assert allowed(0)
    assert allowed(security.SESSION_AGE - 60)
    assert not allowed(security.SESSION_AGE + 60)
    assert access.redeem(late) is None
    access.store.close()


def test_the_cookie_alone_opens_nothing(served):
    """Browsers send cookies to every port: below a path that other services do not know, they do not get this one."""
    with httpx.Client() as browser:
        answer = browser.get(f"{served.address}/login", params={"token": served.access.mint()})
        cookie = answer.headers["set-cookie"]
        assert f"path={base_of(served.access.secret)}".lower() in cookie.lower()
        assert len(served.access.secret) >= 20
        session = browser.cookies.get(served.access.cookie)
        # what another service on this computer would be sent
        elsewhere = browser.build_request("GET", "http://127.0.0.1:1/anything")
        assert "cookie" not in elsewhere.headers
    stolen = {"Cookie": f"{served.access.cookie}={session}"}
    places = ("", "/p/first", "/s/" + "x" * 22, f"/s/{served.access.secret}x", f"//s/{served.access.secret}")
    for place in places:
        assert httpx.get(f"{served.address}{place}/api/about", headers=stolen).status_code == 401
        answer = httpx.get(f"{served.address}{place}/", headers={**stolen, "Accept": "text/html"})
        assert answer.status_code == 401
        assert served.access.secret not in answer.text
        assert handshake(served, origin=served.address, inside=place) == 403
    assert httpx.get(f"{served.inside}/api/about", headers=stolen).status_code == 200
    # that of an older version, which went to all addresses
    old = {"Cookie": f"{served.access.cookie.removesuffix('-s')}={session}"}
    assert httpx.get(f"{served.inside}/api/about", headers=old).status_code == 401


@pytest.mark.full
def test_a_session_that_ends_under_load_ends_everywhere(served, monkeypatch):
    """Requests without pause from several sides: from one moment on all are refused, and the websocket is closed."""

    client = served.enter()
    ends = time.time() + 1.5
    session = client.cookies.get(served.access.cookie)
    digest = security._digest(session)
    monkeypatch.setitem(served.access._known, digest, ends - security.SESSION_AGE)
    answers = []

    def ask():
        with httpx.Client(base_url=served.inside, cookies=client.cookies) as one:
            while time.time() < ends + 0.7:
                begun = time.time()
                answers.append((begun, time.time(), one.get("/api/about").status_code))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()
    assert {status for begun, _, status in answers if begun < ends - 0.5} == {200}
    late = [status for begun, _, status in answers if begun >= ends]
    assert len(late) > 3
    assert set(late) == {401}


def test_a_websocket_ends_with_its_session():
    import asyncio

    from kernelweave_app.studio.security import Talk

    async def talk(messages, lives):
        sent = []

        async def receive():
            if not messages:
                await asyncio.Event().wait()
            await asyncio.sleep(0.01)
            return messages.pop()

        async def send(message):
            sent.append(message)

        line = Talk(receive, send, time.time() + lives)
        received = []
        while not received or received[-1]["type"] != "websocket.disconnect":
            received.append(await line.receive())
            await line.send({"type": "websocket.send", "text": "x"})
        return received, sent

    # one that is silent, and one that never stops talking
    for messages in ([], [{"type": "websocket.receive", "text": "a"} for _ in range(1000)]):
        begin = time.monotonic()
        received, sent = asyncio.run(talk(list(messages), 0.3))
        assert 0.25 < time.monotonic() - begin < 5.0
        assert received[-1]["code"] == 1008
        assert sent[-1]["type"] == "websocket.close"
        assert len(received) == len(sent)
        assert (len(received) > 2) == bool(messages)


def test_joined_tables_are_counted_together(tmp_path):
    from kernelweave_app.studio.catalogue import Catalogue
    from kernelweave_app.studio.schema import Data
    from kernelweave_app.studio.store import Places

    rows = "".join(f"{k},{k}\n" for k in range(20))
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text(f"id,{name}\n{rows}")
    for cells, fits in ((80, True), (79, False)):
        catalogue = Catalogue(Places(tmp_path), Limits(cells=cells))
        ids = [key for key, entry in catalogue.entries().items() if entry.ref.name in ("one.csv", "two.csv")]
        if fits:
            assert len(catalogue.join(Data(tables=ids, key="id")).table) == 20
        else:
            with pytest.raises(InputError, match="Together the tables have more than 79 cells"):
                catalogue.join(Data(tables=ids, key="id"))


def test_programs_use_a_token_of_their_own(served):
    with httpx.Client(base_url=served.address) as program:
        assert program.get("/api/about", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        for wrong in (f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer", TOKEN):
            assert program.get("/api/about", headers={"Authorization": wrong}).status_code == 401


def test_every_answer_carries_the_headers(served):
    for path in ("/api/about", "/api/nothing", "/login", "/api/docs", "/api/tables/set-nothing"):
        answer = served.client.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        policy = answer.headers["content-security-policy"]
        assert policy.startswith(("default-src 'self'", "default-src 'none'"))
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy.split("style-src")[0]
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers or "uvicorn" in answer.headers["server"]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.1", "::", "example.org"])
def test_other_addresses_need_a_flag_and_a_token(host):
    with pytest.raises(InputError, match="--expose"):
        check_host(host, exposed=False, token="x" * 30)
    with pytest.raises(InputError, match=TOKEN_VARIABLE):
        check_host(host, exposed=True, token="")
    with pytest.raises(InputError, match="at least 20"):
        check_host(host, exposed=True, token="short")
    check_host(host, exposed=True, token="x" * 20)


@pytest.mark.full
@pytest.mark.slow
def test_the_command_refuses_other_addresses(tmp_path):
    command = [sys.executable, "-m", "kernelweave_app.cli", "studio", "--host", "0.0.0.0", "--no-browser"]
    done = subprocess.run([*command, "--data-dir", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--expose" in done.stderr
    assert not list(tmp_path.iterdir())


# ---- names and paths ------------------------------------------------------------------------------------------------

NAMES = [
    "../evil.csv",
    "..\\evil.csv",
    "/tmp/evil.csv",
    "a/b.csv",
    ".hidden.csv",
    "evil.csv\x00.png",
    "evil\n.csv",
    "C:evil.csv",
    "x" * 200 + ".csv",
    "evil.py",
    "evil.csv.exe",
    "model.skops",
    "evil.pkl",
    "",
    "\u202egpj.csv",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_elsewhere_are_refused(served, name):
    with pytest.raises(InputError):
        safe_name(name)
    before = sorted(served.studio.places.root.rglob("*"))
    answer = served.upload(name, b"a,b\n1,2\n")
    assert answer.status_code == 422
    after = sorted(served.studio.places.root.rglob("*"))
    assert [p for p in after if "sqlite" not in p.name] == [p for p in before if "sqlite" not in p.name]


@pytest.mark.parametrize(
    "path",
    [
        "/api/tables/..%2f..%2fetc%2fpasswd",
        "/api/tables/set-..%2fstudio.sqlite",
        "/api/tables/file-0000000000000000",
        "/api/runs/..%2f..",
        "/api/runs/20260101-000000-000000",
        "/api/runs/20260101-000000-000000/files/..%2f..%2fstudio.sqlite",
        "/api/runs/20260101-000000-000000/files/%2fetc%2fpasswd",
        "/api/runs/20260101-000000-000000/results",
    ],
)
def test_paths_that_lead_elsewhere_are_refused(served, path):
    status, _ = raw(
        served,
        f"GET {base_of(served.access.secret)}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Cookie: {served.access.cookie}={served.client.cookies.get(served.access.cookie)}\r\n\r\n".encode(),
    )
    assert status in (404, 422)


@pytest.mark.full
def test_files_of_a_run_are_those_it_made(served):
    spec = {"target": "target", "alphas": "2", "cv": 2, "kernels": "linear"}
    run = served.run(data=WINE, spec=spec)
    assert served.wait(run)["state"] == "done"
    folder = served.studio.places.run(run)
    (folder / "secret.txt").write_text("secret")
    for name in (
        "secret.txt",
        "log.txt",
        "../../studio.sqlite",
        "figures/../secret.txt",
        "figures/../model.skops",
    ):
        status, _ = raw(
            served,
            f"GET {base_of(served.access.secret)}/api/runs/{run}/files/{name} HTTP/1.1\r\n"
            "Host: localhost\r\nConnection: close\r\n"
            f"Cookie: {served.access.cookie}={served.client.cookies.get(served.access.cookie)}\r\n\r\n".encode(),
        )
        assert status == 404


def test_links_out_of_the_data_folder_are_not_followed(served, tmp_path):
    outside = tmp_path / "outside.csv"
    outside.write_text("secret,b\n1,2\n")
    link = served.studio.places.root / "link.csv"
    link.symlink_to(outside)
    try:
        assert "link.csv" not in {t["name"] for t in served.client.get("/api/tables").json()}
    finally:
        link.unlink()


def test_settings_name_no_files(served, tmp_path):
    views, genes, table = (tmp_path / name for name in ("views.toml", "sets.gmt", "other.csv"))
    # files that a command line would take
    views.write_text('[views]\nsome = ["alcohol"]\n')
    genes.write_text("SOME\t\talcohol\tash\n")
    table.write_text("x,y\n1,2\n")
    for setting, words in (
        ({"views": str(views)}, "give the views themselves"),
        ({"views": str(genes)}, "give the views themselves"),
        ({"join": str(table)}, "name all tables in `data`"),
        ({"views": "/etc/passwd"}, "give the views themselves"),
    ):
        for path in ("/api/kernels", "/api/check", "/api/runs"):
            body = {"data": WINE, "spec": {"target": "target", **setting}}
            answer = served.client.post(path, json=body)
            assert answer.status_code == 422
            assert words in answer.json()["detail"]


# ---- files that are not what they seem ------------------------------------------------------------------------------


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def zipped(members, compression=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def npy_header(shape, descr="<f8"):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def lying_zip():
    """An archive whose directory declares a small array where a large one comes out."""
    content = npy_header((2,)) + bytes(50 * 2**20)
    data = bytearray(zipped({"a.npy": content}))
    small = len(npy_header((2,))) + 16
    where = data.rindex(b"PK\x01\x02")
    data[where + 24 : where + 28] = struct.pack("<I", small)
    data[22:26] = struct.pack("<I", small)
    return bytes(data)


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/kernelweave-was-here",)


def long_text_parquet():
    stream = io.BytesIO()
    frame = pd.DataFrame({"a": pd.Categorical(["x" * 100_000] * 1000), "b": range(1000)})
    frame["a"] = frame["a"].astype(str)
    frame.to_parquet(stream, index=False)
    return stream.getvalue()


def wide_parquet():
    stream = io.BytesIO()
    pd.DataFrame(
        {"a": np.zeros(1_000_000, dtype=np.int8), "b": np.zeros(1_000_000, dtype=np.int8)}
    ).to_parquet(stream)
    return stream.getvalue()


HOSTILE = {
    "a zip bomb": ("x.npz", lambda: zipped({"a.npy": npy_header((10**7,)) + bytes(8 * 10**7)})),
    "many arrays": ("x.npz", lambda: zipped({f"a{k}.npy": npy_header((1,)) + bytes(8) for k in range(1001)})),
    "a lying directory": ("x.npz", lying_zip),
    "a shape beyond the content": ("x.npz", lambda: zipped({"a.npy": npy_header((10**5,)) + bytes(80)})),
    "a gigantic shape": ("x.npz", lambda: zipped({"a.npy": npy_header((10**30,)) + bytes(80)})),
    "a negative shape": ("x.npz", lambda: zipped({"a.npy": npy_header((-1, 5)) + bytes(80)})),
    "objects": ("x.npz", lambda: npz(a=np.array([{"a": 1}, None], dtype=object))),
    "objects in a structure": ("x.npz", lambda: npz(a=np.zeros(2, dtype=[("f", "O")]))),
    "a structure": ("x.npz", lambda: npz(a=np.zeros(2, dtype=[("f", "f8")]))),
    "a path in the archive": ("x.npz", lambda: zipped({"../a.npy": npy_header((1,)) + bytes(8)})),
    "a pickle in the archive": ("x.npz", lambda: zipped({"a.pkl": pickle.dumps(Evil())})),
    "a pickle": ("x.csv", lambda: pickle.dumps(Evil())),
    "a pickle as npz": ("x.npz", lambda: pickle.dumps(Evil())),
    "code in a header": ("x.npz", lambda: zipped({"a.npy": npy_header("__import__('os').system('true')")})),
    "an npz as csv": ("x.csv", lambda: npz(a=np.zeros(3))),
    "a matrix that promises too much": (
        "x.mtx",
        lambda: b"%%MatrixMarket matrix coordinate real general\n9 9 100000000\n1 1 1.0\n",
    ),
    "a matrix of too many cells": (
        "x.mtx",
        lambda: b"%%MatrixMarket matrix coordinate real general\n900000 900000 1\n1 1 1.0\n",
    ),
    "columns beyond all bounds": ("x.svmlight", lambda: b"1 1:1 2000000000:1\n"),
    "binary as svmlight": ("x.svmlight", lambda: b"1 1:1\x00\x01\n"),
    "a csv as npz": ("x.npz", lambda: b"a,b\n1,2\n"),
    "a csv as parquet": ("x.parquet", lambda: b"a,b\n1,2\n"),
    "half a parquet": ("x.parquet", lambda: b"PAR1" + bytes(100)),
    "a gzip bomb": ("x.csv.gz", lambda: gzip.compress(b"a,b\n" + b"1,2\n" * 4_000_000)),
    "a gzip that ends early": ("x.csv.gz", lambda: gzip.compress(b"a,b\n1,2\n" * 1000)[:-20]),
    "text that is not compressed": ("x.csv.gz", lambda: b"a,b\n1,2\n"),
    "no encoding of text": ("x.csv", lambda: b"a,b\n\xe4\x01,2\n"),
    "too many columns": ("x.csv", lambda: (",".join(f"c{k}" for k in range(3000)) + "\n1\n").encode()),
    "many short lines under a wide header": (
        "x.csv",
        lambda: (",".join("ab" * 900) + "\n" + "1\n" * 900).encode(),
    ),
    "too many cells": ("x.parquet", wide_parquet),
    "a text that is repeated": ("x.parquet", long_text_parquet),
    "no rows": ("x.csv", lambda: b"a,b\n"),
    "nothing": ("x.csv", lambda: b""),
    "too large": ("x.csv", lambda: b"a,b\n" + b"1,2\n" * 600_000),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", HOSTILE)
def test_files_that_are_not_what_they_seem_are_refused(served, case):
    name, make = HOSTILE[case]
    answer = served.upload(name, make())
    assert answer.status_code in (413, 422), f"{case}: {answer.status_code} {answer.text[:200]}"
    assert len(answer.text) < 1000
    assert not (served.studio.places.root / name).exists()
    assert not list(served.studio.places.uploads.iterdir())
    assert not os.path.exists("/tmp/kernelweave-was-here")


def test_files_that_users_drop_into_the_folder_are_checked_as_well(served):
    path = served.studio.places.root / "dropped.npz"
    path.write_bytes(npz(a=np.array([{}], dtype=object)))
    try:
        ref = next(t for t in served.client.get("/api/tables").json() if t["name"] == "dropped.npz")
        answer = served.client.get(f"/api/tables/{ref['id']}")
        assert answer.status_code == 422
        assert "never read" in answer.json()["detail"]
    finally:
        path.unlink()


def test_an_upload_is_counted_while_it_comes(tmp_path):
    """500 MB: refused at the limit whether or not the size is declared; memory and disk stay as they were."""
    import psutil

    served = Served(tmp_path / "studio", Limits(upload=20 * 2**20))
    process = psutil.Process()
    sent, most = [0], [0]
    line = b"1.5,2.5,3.5,4.5\n" * 2**16  # 1 MiB

    def size(path):
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0  # the studio has refused the upload and removed the file since the folder was listed

    def chunks():
        for _ in range(500):
            sent[0] += 1
            most[0] = max(most[0], sum(map(size, served.studio.places.uploads.iterdir())))
            yield line

    try:
        before = process.memory_info().rss
        peak = [before]
        over = threading.Event()

        def watch():
            while not over.wait(0.01):
                peak[0] = max(peak[0], process.memory_info().rss)

        watcher = threading.Thread(target=watch)
        watcher.start()
        begin = time.monotonic()
        try:
            answer = served.client.post("/api/tables", params={"name": "big.csv"}, content=chunks())
            assert answer.status_code == 413
        except httpx.TransportError:
            pass  # the studio hung up while more came
        seconds = time.monotonic() - begin
        over.set()
        watcher.join()
        status, _ = raw(
            served,
            f"POST {base_of(served.access.secret)}/api/tables?name=big.csv HTTP/1.1\r\n"
            f"Host: localhost\r\nContent-Length: {500 * 2**20}\r\n"
            f"Cookie: {served.access.cookie}={served.client.cookies.get(served.access.cookie)}\r\n"
            "Connection: close\r\n\r\n".encode(),
        )
        assert status == 413
        print(
            f"refused after {sent[0]} MiB in {seconds:.1f} s, {(peak[0] - before) / 2**20:.0f} MiB more memory"
        )
        assert most[0] <= 20 * 2**20
        assert (peak[0] - before) < 64 * 2**20
        assert not list(served.studio.places.uploads.iterdir())
        assert not (served.studio.places.root / "big.csv").exists()
    finally:
        served.close()


def test_files_of_views_may_be_larger_than_other_bodies(served):
    views = "/_nicegui/client/1a-2b/upload/7"
    # this studio has no pages that would take it
    assert served.client.post(views, content=b"x" * 8_000_000).status_code in (404, 405)
    assert served.client.post(views, content=b"x" * 33_000_000).status_code == 413
    assert served.client.post(f"{views}/more", content=b"x" * 8_000_000).status_code == 413


def test_other_bodies_are_small(served):
    answer = served.client.put("/api/draft", content=b'{"name": "' + b"x" * 300_000 + b'"}')
    assert answer.status_code == 413
    deep = served.client.post("/api/check", content=b"[" * 100_000)
    assert deep.status_code == 422


# ---- numbers and texts ----------------------------------------------------------------------------------------------

GIGANTIC = [10**30, -(10**30), 10**400, 1e308, -1e308]
#: Settings without a largest value.
UNBOUNDED = {"relax", "epsilon", "p", "ridge", "max_time", "eta", "penalty", "smoothing"}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", [*Spec.model_fields, *learner_settings()])
def test_gigantic_numbers_are_refused_for_every_setting(served, name):
    for value in GIGANTIC:
        body = {"data": WINE, "spec": {"target": "target", name: value}}
        large = name in UNBOUNDED and 0 < value < 10**400
        for path in ("/api/check", "/api/kernels", *(() if large else ("/api/runs",))):
            # without the type of content every body would be refused
            answer = served.client.post(
                path, content=json.dumps(body), headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 422 or (large and answer.status_code == 200), (name, value, path)


@pytest.mark.parametrize(
    "spec",
    [
        {"alphas": "9" * 30},
        {"alphas": "9" * 5000},
        {"alphas": "1:2:" + "9" * 30},
        {"alphas": "0.1," * 5000 + "1"},
        {"alphas": "-1,1"},
        {"alphas": "nan:1:3"},
        {"kernels": "poly(degree=" + "9" * 30 + ")"},
        {"kernels": "rbf(gamma=" + "9" * 400 + ")"},
        {"kernels": "rbf(gamma=1e999)"},
        {"kernels": "(" * 5000},
        {"kernels": "1 + " * 4000 + "linear"},
        {"kernels": "__import__('os').system('true')"},
        {"max_memory": "9" * 400},
        {"max_memory": "1e400GB"},
        {"cv": 1000},
        {"nested": 1},
        {"target": "x" * 30_000},
        {"views": {"v": ["*" * 20_001]}},
    ],
)
def test_gigantic_texts_are_refused(served, spec):
    body = {"data": WINE, "spec": {"target": "target", **spec}}
    answer = served.client.post("/api/runs", json=body)
    assert answer.status_code == 422, answer.text[:300]
    assert len(answer.text) < 60_000


def test_gigantic_numbers_are_refused_in_every_query(served):
    schema = served.client.get("/api/openapi.json").json()
    asked = 0
    for path, verbs in schema["paths"].items():
        for verb, route in verbs.items():
            for parameter in route.get("parameters", []):
                if parameter["in"] == "query" and parameter["schema"].get("type") == "integer":
                    asked += 1
                    where = path.format(
                        table_id="set-wine", run_id="20260101-000000-000000", project_id="first", name="x"
                    )
                    for value in (10**30, -1, "9" * 5000):
                        answer = served.client.request(verb, where, params={parameter["name"]: value})
                        assert answer.status_code == 422
    assert asked >= 6


# ---- what comes out -------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_formulas_and_tags_in_names_come_out_as_text(served):
    labels = ["=HYPERLINK(1)", "@SUM(1)", "+cmd", "-x"]
    rows = 80
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"<img src=x onerror=alert(1)>": rng.normal(size=rows), "=A1+1": rng.normal(size=rows)}
    )
    frame["class"] = [labels[k % 4] for k in range(rows)]
    table = served.upload("odd.csv", frame.to_csv(index=False).encode()).json()
    data = {"tables": [table["id"]]}
    spec = {"target": "class", "alphas": "3", "cv": 2, "kernels": "linear"}
    spec["views"] = {"<img src=x onerror=alert(2)>": list(frame.columns[:2])}
    done = served.made(data=data, spec=spec, figures=True)
    assert done["state"] == "done", done["reason"]
    run = done["id"]
    predicted = served.client.post(f"/api/runs/{run}/predict", json={"data": data}).json()
    for name in ("predictions.csv", predicted["artifact"]):
        text = served.client.get(f"/api/runs/{run}/files/{name}").text
        cells = pd.read_csv(io.StringIO(text), dtype=str)
        for cell in [*cells.columns, *cells.to_numpy().ravel()]:
            assert not str(cell).startswith(("=", "@", "+")), name
            assert str(cell) != "-x"
        assert "'=HYPERLINK(1)" in set(cells["prediction"]) | set(cells["truth"])
    report = served.client.get(f"/api/runs/{run}/files/report.html").text
    assert "<img src=x" not in report
    assert "&lt;img" in report
    script = served.client.get(f"/api/runs/{run}/files/script.py").text
    compile(script, "script.py", "exec")


def test_names_of_runs_are_text(served):
    spec = {"target": "target", "alphas": "2", "cv": 2, "kernels": "linear"}
    done = served.made(data=WINE, spec=spec, name="<script>alert(1)</script>")
    assert done["state"] == "done"
    report = served.client.get(f"/api/runs/{done['id']}/files/report.html").text
    assert "&lt;script" in report
    assert "<script" not in report


def test_logs_hold_no_secrets(served):
    secret = os.environ.get(TOKEN_VARIABLE)
    assert secret is None
    for path in served.studio.places.runs.rglob("log.txt"):
        assert TOKEN not in path.read_text()
