"""What opens and closes the studio: addresses, tokens, sessions, checks of requests, and the server around them.

Modules: `studio/security`, `studio/server`.
"""

import asyncio
import contextlib
import json
import math
import os
import socket
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, Response

from kernelweave._errors import InputError
from kernelweave_app.studio import security, server
from kernelweave_app.studio.checking import Limits
from kernelweave_app.studio.security import Access, Guard, Talk, Wayfinding
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import DiskFull, Places, Store

TOKEN = "a token that is long enough"


@pytest.fixture
def clock(monkeypatch):
    now = [1_700_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


@pytest.fixture
def access(tmp_path, clock):
    found = Access(Store(Places(tmp_path).database), tmp_path, TOKEN)
    yield found
    found.store.close()


def a_scope(path="/", method="GET", kind="http", **headers):
    plain = {"host": "localhost:80", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return {
        "type": kind,
        "path": path,
        "method": method,
        "scheme": "ws" if kind == "websocket" else "http",
        "query_string": b"a=1",
        "headers": [(name.encode(), value.encode()) for name, value in plain.items() if value is not None],
    }


def asked(app, scope, body=b""):
    """Status, headers and body of the answer of an application; or the messages of a websocket."""
    sent, messages = [], [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    if scope["type"] == "websocket":
        return sent
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(part.get("body", b"") for part in sent[1:]).decode()


def test_an_address_is_divided(recorded):
    answers = {}
    paths = [
        "/",
        "",
        "/runs",
        "/s/abc",
        "/s/abc/",
        "/s/abc/p/first/runs",
        "/p/first",
        "/p/first/",
        "/s/other/p/first/x",
    ]
    paths += [
        "/s/abc/p/UPPER/x",
        "/s//x",
        "/p/first2x",
        "/s/abc/s/abc",
        "/prefix/s/abc",
        "/s/abc/p/" + "a" * 21,
    ]
    for path in paths:
        scope = {"path": path}
        inside = security.enter(scope, "abc")
        told = [
            inside,
            scope["path"],
            scope["root_path"],
            security.project_of(scope),
            security.base_in(scope),
        ]
        answers[path] = [*told, security.path_of(scope), security.address_of(scope, "q", "/x")]
    assert (security.project_of({}), security.base_in({}), security.base_of("x")) == ("", "", "/s/x")
    recorded("answers", answers)


def test_a_websocket_talks_until_its_session_ends(clock):
    sent = []

    async def send(message):
        sent.append(message)

    async def go():
        messages = asyncio.Queue()
        talk = Talk(messages.get, send, clock[0] + 10.0)
        await messages.put("first")
        assert await talk.receive() == "first"
        await messages.put("second")
        assert await talk.receive() == "second"
        await talk.send("out")
        waiting = asyncio.ensure_future(talk.receive())
        await asyncio.sleep(0)
        clock[0] += 10.0
        await messages.put("late")
        assert await waiting == {"type": "websocket.disconnect", "code": 1008}
        await asyncio.sleep(0)
        assert talk._next.cancelled() or talk._next.done()
        await talk.send("lost")
        other = Talk(messages.get, send, clock[0])
        assert (await other.receive())["type"] == "websocket.disconnect"
        await asyncio.sleep(0)
        assert other._next.cancelled()
        never = Talk(messages.get, send, math.inf)
        await messages.put("more")
        assert await never.receive() == "more"

    asyncio.run(go())
    over = {"type": "websocket.close", "code": 1008, "reason": "The session is over."}
    assert sent == ["out", over, over]


def test_tokens_and_sessions(access, clock, monkeypatch, tmp_path):
    token = access.mint()
    assert len(token) > 40
    session = access.redeem(token)
    assert session
    assert access.redeem(token) is None
    assert access.redeem("wrong") is None
    assert access.redeem(TOKEN)
    assert access.redeem(TOKEN) != access.redeem(TOKEN)
    late = access.mint()
    clock[0] += security.TOKEN_AGE
    assert access.redeem(late) is None
    again = access.mint()
    clock[0] += security.TOKEN_AGE - 1
    assert access.redeem(again)

    def coming(inside=True, **headers):
        return access.ends(HTTPConnection(a_scope(**headers)), inside)

    begun = clock[0] - 2 * security.TOKEN_AGE + 1
    cookie = f"{access.cookie}={session}"
    assert coming(cookie=cookie) == begun + security.SESSION_AGE
    assert (
        coming(False, cookie=cookie),
        coming(cookie=f"other={session}"),
        coming(cookie=f"{access.cookie}=x"),
    ) == (0, 0, 0)
    assert (
        coming(authorization=f"Bearer {TOKEN} ") == coming(False, authorization=f"bearer {TOKEN}") == math.inf
    )
    assert (coming(authorization=f"Basic {TOKEN}"), coming(authorization="Bearer x"), coming()) == (0, 0, 0)
    connection = HTTPConnection(a_scope(cookie=cookie))
    assert access.allows(connection, True)
    clock[0] = begun + security.SESSION_AGE
    assert not access.allows(connection, True)
    assert Access(access.store, tmp_path).secret == access.secret
    other = Access(access.store, tmp_path / "other")
    assert other.cookie != access.cookie
    assert other.cookie.startswith("kernelweave-")
    assert other.redeem("") is None
    answer = Response()
    access.set_cookie(answer, "value")
    said = answer.headers["set-cookie"]
    assert said.startswith(f"{access.cookie}=value;")
    for part in ("HttpOnly", "SameSite=strict", f"Path=/s/{access.secret}", f"Max-Age={12 * 3600}"):
        assert part in said
    # on a full disk tokens open once all the same, and sessions are remembered
    fresh = access.mint()
    monkeypatch.setattr(access.store, "take_token", full)
    monkeypatch.setattr(access.store, "add_secret", full)
    kept = access.redeem(fresh)
    assert kept
    assert access.redeem(fresh) is None
    assert access.redeem("unknown") is None
    assert coming(cookie=f"{access.cookie}={kept}") == clock[0] + security.SESSION_AGE


def full(*given):
    raise DiskFull("full")


def test_hosts_and_origins():
    check = security.check_host
    for host in ("localhost", "127.0.0.1", "::1", "[::1]", "127.9.9.9"):
        assert security.is_loopback(host)
        check(host, exposed=False, token="")
    for host in ("0.0.0.0", "example.org", "192.168.0.1", "localhost.org"):
        assert not security.is_loopback(host)
        with pytest.raises(InputError, match=r"would give other computers access over plain HTTP\. Use ssh"):
            check(host, exposed=False, token=TOKEN)
        with pytest.raises(
            InputError, match=r"needs a token of your own: set KERNELWEAVE_STUDIO_TOKEN to at least 20"
        ):
            check(host, exposed=True, token="")
        check(host, exposed=True, token="x" * 20)
    with pytest.raises(InputError, match=r"^KERNELWEAVE_STUDIO_TOKEN must hold at least 20 characters\.$"):
        check("localhost", exposed=False, token="x" * 19)
    names = ["localhost:80", "LOCALHOST", "[::1]:99", "a@b", "a:b", "a/b", "", "a:123456", "[::1"]
    assert [security._host_name(name) for name in names] == [
        "localhost",
        "localhost",
        "[::1]",
        "",
        "",
        "",
        "",
        "",
        "",
    ]
    same = security._same_origin
    assert same("http://localhost:80", "LOCALHOST:80", {"scheme": "http"})
    assert same("https://localhost", "localhost", {"scheme": "wss"})
    for origin, scheme in (
        ("https://localhost", "http"),
        ("http://localhost", "https"),
        ("http://localhost:81", "ws"),
        (None, "http"),
        ("http://[", "http"),
        ("null", "http"),
    ):
        assert not same(origin, "localhost", {"scheme": scheme})
    lengths = [
        {"content-length": "12"},
        {},
        {"content-length": "x"},
        {"content-length": "1" * 19},
        {"content-length": "-1"},
    ]
    assert [security._declared(one) for one in lengths] == [12, 0, 2**62, 2**62, 2**62]


def guarded(access, app=None, limits=None):
    async def plain(scope, receive, send):
        seen.append(scope)
        body = b""
        if scope["type"] == "http":
            body = (await receive()).get("body", b"")
        await JSONResponse({"size": len(body)})(scope, receive, send)

    seen = []
    guard = Guard(app or plain, access, security.LOOPBACK_NAMES, limits or Limits())
    guard.seen = seen
    return guard


def test_requests_are_allowed_or_refused(access):
    guard = guarded(access)
    base = f"/s/{access.secret}"
    session = {"cookie": f"{access.cookie}={access.redeem(access.mint())}"}
    nav = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    cases = [
        ((f"{base}/x", "GET", "http"), session, 200, "size"),
        (("/x", "GET", "http"), session, 401, "Open the studio"),
        ((f"{base}/x", "GET", "http"), {}, 401, "Open the studio"),
        ((f"{base}/x", "GET", "http"), {"accept": "text/html"}, 401, "paste a token"),
        ((f"{base}/x", "GET", "http"), {**session, "host": "example.org"}, 400, "host name"),
        ((f"{base}/x", "GET", "http"), {**session, "host": None}, 400, "host name"),
        ((f"{base}/x", "GET", "http"), {**session, "origin": "http://other"}, 403, "other origins"),
        ((f"{base}/x", "POST", "http"), {**session, "origin": "http://localhost:80"}, 200, "size"),
        ((f"{base}/x", "POST", "http"), session, 200, "size"),
        ((f"{base}/x", "GET", "http"), {**session, "sec_fetch_site": "cross-site"}, 403, "other sites"),
        ((f"{base}/x", "GET", "http"), {**session, "sec_fetch_site": "same-origin"}, 200, "size"),
        ((f"{base}/x", "GET", "http"), {**session, **nav}, 403, "other sites"),
        (("/login", "GET", "http"), {}, 200, "size"),
        (("/login", "GET", "http"), nav, 200, "size"),
        (("/login", "POST", "http"), nav, 403, "other sites"),
        (("/login", "GET", "http"), {"sec_fetch_site": "cross-site"}, 403, "other sites"),
        (("/favicon.ico", "GET", "http"), {}, 204, ""),
        (("/x", "GET", "http"), {"authorization": f"Bearer {TOKEN}"}, 200, "size"),
    ]
    for where, headers, status, text in cases:
        found, headers_sent, body = asked(guard, a_scope(*where, **headers))
        assert (found, text in body) == (status, True), (where, headers, found, body)
        for name, value in security.HEADERS.items():
            assert headers_sent[name.lower()] == value
        assert headers_sent["cache-control"] == "no-store"
    told = {"type": "lifespan"}
    asyncio.run(Guard(noted(told), access, frozenset(), Limits())(told, None, None))
    assert told["seen"]
    origin = {"origin": "http://localhost:80"}
    socket_scope = a_scope(f"{base}/x", kind="websocket", **session, **origin)
    talks = []

    async def talking(scope, receive, send):
        talks.append(receive.__self__)

    asked(guarded(access, talking), socket_scope)
    assert talks[0]._ends == access.ends(HTTPConnection(socket_scope), True)
    closed = [{"type": "websocket.close", "code": 1008, "reason": "refused"}]
    assert asked(guarded(access, talking), a_scope(f"{base}/x", kind="websocket", **session)) == closed
    assert asked(guarded(access, talking), a_scope("/x", kind="websocket", **session, **origin)) == closed
    assert len(talks) == 1


def noted(told):
    async def app(scope, receive, send):
        told["seen"] = scope is told

    return app


def test_bodies_have_their_limits(access):
    limits = Limits(upload=30, views=0, body=20)
    allowed = {"authorization": f"Bearer {TOKEN}"}
    most = {
        ("/api/tables", "POST"): 30,
        ("/api/projects/import", "POST"): 300,
        ("/_nicegui/client/x-1/upload/7", "POST"): 2**16,
        ("/_nicegui/client/x-1/upload/x", "POST"): 20,
        ("/api/runs", "POST"): 20,
        ("/api/tables", "PUT"): 20,
        ("/p/first/api/tables", "POST"): 30,
    }
    for (path, method), size in most.items():
        for length, status in ((size, 200), (size + 1, 413)):
            for declared in (None, str(length)):
                scope = a_scope(path, method, **allowed, content_length=declared)
                found, headers, body = asked(guarded(access, limits=limits), scope, b"x" * length)
                assert found == status, (path, method, length, declared)
                if status == 413:
                    assert (json.loads(body)["detail"], headers["connection"]) == (
                        f"This is larger than the limit of {size} bytes.",
                        "close",
                    )

    async def begun(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()

    found, headers, body = asked(guarded(access, begun, limits), a_scope("/x", "POST", **allowed), b"x" * 21)
    assert (found, body) == (200, "")


def test_pages_get_a_nonce_and_other_answers_a_policy(access):
    allowed = {"authorization": f"Bearer {TOKEN}"}

    def sent(response):
        async def app(scope, receive, send):
            await response(scope, receive, send)

        return asked(guarded(access, app), a_scope("/x", **allowed))

    page = f"<script nonce='{security.MARK}'></script>"
    _, headers, body = sent(HTMLResponse(page))
    nonce = body.partition("'")[2].partition("'")[0]
    assert security.MARK not in body
    assert len(nonce) >= 16
    assert headers["content-security-policy"] == security.PAGE_POLICY.format(nonce=nonce)
    assert headers["content-length"] == str(len(body))
    _, _, second = sent(HTMLResponse(page))
    assert second != body
    for given in ({"Content-Security-Policy": "own"}, {"Content-Disposition": "attachment"}):
        _, headers, body = sent(HTMLResponse(page, headers=given))
        assert body == page
        assert headers["content-security-policy"] == given.get(
            "Content-Security-Policy", security.DATA_POLICY
        )
    _, headers, _ = sent(JSONResponse({}, headers={"Cache-Control": "max-age=3"}))
    assert (headers["cache-control"], headers["content-security-policy"]) == (
        "max-age=3",
        security.DATA_POLICY,
    )

    async def in_parts(scope, receive, send):
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]}
        )
        half = len(page) // 2
        await send({"type": "http.response.body", "body": page[:half].encode(), "more_body": True})
        await send({"type": "http.response.body", "body": page[half:].encode()})

    _, headers, body = asked(guarded(access, in_parts), a_scope("/x", **allowed))
    assert security.MARK not in body
    assert headers["content-length"] == str(len(body))


def test_addresses_without_a_project_lead_to_the_last_one(access):
    store = access.store
    store.add_project("a" * 12, "A", 80)
    told = {}

    async def app(scope, receive, send):
        told["here"] = True
        await JSONResponse({})(scope, receive, send)

    def went(path, method="GET", query=b"a=1"):
        scope = {**a_scope(path, method), "query_string": query}
        security.enter(scope, access.secret)
        told.clear()
        status, headers, body = asked(Wayfinding(app, store), scope)
        return status, headers.get("location"), bool(told), "deleted in another window" in body

    last = store.last_project()
    base = f"/s/{access.secret}"
    assert went("/runs") == (307, f"/p/{last}/runs?a=1", False, False)
    assert went(f"{base}/runs", query=b"") == (307, f"{base}/p/{last}/runs", False, False)
    assert went(f"{base}/runs", "HEAD")[0] == 307
    for path, method in (
        (f"{base}/runs", "POST"),
        ("/api/x", "GET"),
        ("/_nicegui/x", "GET"),
        ("/login", "GET"),
        ("/p/first/x", "GET"),
    ):
        assert went(path, method) == (200, None, True, False)
    assert went(f"/p/{'b' * 12}/x") == (404, None, False, True)
    scope = {"path": f"{base}/x"}
    security.enter(scope, access.secret)
    assert f"href='{base}/'" in security.lost_page(scope)


# ---- the server -------------------------------------------------------------------------------------


def test_the_login_opens_a_session(tmp_path, monkeypatch):
    async def here_and_now(call, *given, **more):
        return call(*given)

    monkeypatch.setattr("anyio.to_thread.run_sync", here_and_now)
    studio = Studio(tmp_path)
    access = Access(studio.store, tmp_path, TOKEN)
    app = server.make_app(studio, access, pages=False)
    token = access.mint()
    scope = {**a_scope("/login"), "query_string": f"token={token}".encode()}
    status, headers, body = asked(app, dict(scope))
    assert (status, f"url=/s/{access.secret}/" in body) == (200, True)
    assert headers["set-cookie"].startswith(access.cookie)
    status, headers, body = asked(app, dict(scope))
    assert (status, "set-cookie" in headers, "paste a token" in body) == (401, False, True)
    assert asked(app, {**a_scope("/login"), "query_string": b""})[0] == 401
    form = f"token={access.mint()}".encode()
    posted = a_scope("/login", "POST", content_type="application/x-www-form-urlencoded")
    assert asked(app, posted, form)[0] == 200
    seen = []
    studio.queue.start, studio.queue.stop = lambda: seen.append("start"), lambda: seen.append("stop")

    async def live():
        async with app.router.lifespan_context(app):
            seen.append("here")

    asyncio.run(live())
    assert seen == ["start", "here", "stop"]
    studio.store.close()


class Server:
    """A server that is only asked to run."""

    made = None

    def __init__(self, config):
        Server.made, self.ran = self, None
        self.config = config

    def run(self, sockets):
        self.ran = sockets[0].getsockname()
        sockets[0].close()
        raise KeyboardInterrupt


@pytest.fixture
def served(monkeypatch):
    uvicorn = pytest.importorskip("uvicorn")
    opened, checked = [], []
    monkeypatch.setattr(uvicorn, "Server", Server)
    monkeypatch.setattr(server.webbrowser, "open", lambda address: opened.append(address) or True)
    monkeypatch.setattr(server, "give_back_memory", lambda: checked.append("memory"))
    monkeypatch.setattr(server, "check_host", lambda host, **given: checked.append([host, given]))
    monkeypatch.setattr(server, "_warm_up", lambda: None)
    monkeypatch.setattr(
        server,
        "make_app",
        lambda studio, access, **given: SimpleNamespace(studio=studio, access=access, **given),
    )
    timers = []

    class Begun(SimpleNamespace):
        def start(self):
            if hasattr(self, "args"):
                self.target(*self.args)

    def timer(seconds, what):
        timers.append(Begun(seconds=seconds, what=what, daemon=False))
        return timers[-1]

    monkeypatch.setattr(server, "threading", SimpleNamespace(Thread=Begun, Timer=timer))
    monkeypatch.delenv(security.TOKEN_VARIABLE, raising=False)
    monkeypatch.setenv("NICEGUI_STORAGE_PATH", "x")
    return SimpleNamespace(opened=opened, checked=checked, timers=timers)


def test_a_server_listens_says_where_and_ends(served, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(security.TOKEN_VARIABLE, TOKEN)
    folder = tmp_path / "data"
    server.serve(folder, upload=77, at_once=3, mlflow=tmp_path / "mlflow")
    made = Server.made
    app, (_, port) = made.config.app, made.ran
    assert served.checked == ["memory", ["127.0.0.1", {"exposed": False, "token": TOKEN}]]
    assert os.environ["NICEGUI_STORAGE_PATH"] == str(folder.resolve() / "studio" / "pages")
    assert (app.studio.limits.upload, app.studio.queue.at_once, app.studio.mlflow_folder) == (
        77,
        3,
        (tmp_path / "mlflow").resolve(),
    )
    assert app.hosts == security.LOOPBACK_NAMES
    assert app.access.redeem(TOKEN)
    [timer] = served.timers
    assert (timer.seconds, timer.what, timer.daemon) == (server.WARM_AFTER, server._warm_up, True)
    config = made.config
    assert (config.log_level, config.access_log, config.server_header, config.proxy_headers) == (
        "warning",
        False,
        False,
        False,
    )
    assert (config.timeout_graceful_shutdown, config.ws_max_size) == (server.FAREWELL, app.studio.limits.body)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"kernelweave studio for {folder.resolve()}"
    address = out[1].removeprefix("Open ")
    assert address.startswith(f"http://127.0.0.1:{port}/login?token=")
    assert served.opened == [address]
    assert out[2].startswith("The address works once; run the command again for another.")
    assert out[3] == "The studio has ended; its runs go on."
    lock = folder / "studio" / "server.lock"
    assert json.loads(lock.read_text()) == {"pid": os.getpid(), "address": f"http://127.0.0.1:{port}"}
    assert oct(lock.stat().st_mode & 0o777) == "0o600"
    # the token in the address opens one session
    token = address.partition("token=")[2]
    assert app.access.redeem(token)
    assert app.access.redeem(token) is None
    # of another project, without a browser, for other computers
    app.studio.store.add_project("a" * 12, "Other", 80)
    app.studio.store.open_project("first")
    monkeypatch.setattr(server, "is_loopback", lambda host: False)
    monkeypatch.setattr(server, "_own_names", lambda host: frozenset({host, "mine"}))
    server.serve(folder, host="0.0.0.0", exposed=True, browser=False, project="Other")
    app = Server.made.config.app
    assert app.studio.store.last_project() == "a" * 12
    assert app.hosts == security.LOOPBACK_NAMES | {"0.0.0.0", "mine"}
    assert "Open http://127.0.0.1:" in capsys.readouterr().out
    assert len(served.opened) == 1
    assert app.studio.limits == Limits()
    assert app.studio.mlflow_folder is None
    with pytest.raises(InputError, match="There is no project 'None'"):
        server.serve(folder, project="None")


def test_a_second_server_opens_the_first(served, tmp_path, capsys, monkeypatch):
    places = Places(tmp_path)
    with server._only_server(places.lock) as lock:
        lock.write('{"address": "http://127.0.0.1:99"}')
        lock.flush()
        with server._only_server(places.lock) as other:
            assert other is None
        Server.made = None
        server.serve(tmp_path)
    assert Server.made is None
    out = capsys.readouterr().out
    assert out.startswith(
        "A studio is running for this folder already. Open http://127.0.0.1:99/login?token="
    )
    assert served.opened == [out.split()[-1]]
    slept = []
    monkeypatch.setattr(server.time, "sleep", slept.append)
    places.lock.write_text("{")
    with pytest.raises(
        InputError,
        match=r"Another process holds .*server\.lock, but does not say where it listens\. Try again\.",
    ):
        server._open_running(places.lock, Access(Store(places.database), tmp_path), False)
    assert slept == [0.1] * 50
    places.lock.write_text('{"address": "http://x"}')
    server._open_running(places.lock, Access(Store(places.database), tmp_path), False)
    assert len(served.opened) == 1
    # whoever comes next writes anew
    with server._only_server(places.lock) as lock:
        assert places.lock.read_text() == ""
        assert lock is not None


def test_sockets_names_and_lists(tmp_path, capsys, monkeypatch):
    listener = server._listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    assert listener.family == socket.AF_INET
    assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=5)):
        pass
    with pytest.raises(
        InputError, match=rf"^Cannot listen on 127\.0\.0\.1, port {port}: .+\. Choose another --port\.$"
    ):
        server._listen("127.0.0.1", port)
    listener.close()
    monkeypatch.setattr(server.socket, "gethostname", lambda: "Mine")
    monkeypatch.setattr(server.socket, "getfqdn", lambda: "mine.org")
    monkeypatch.setattr(
        server.socket, "getaddrinfo", lambda *given: [(0, 0, 0, 0, ("1.2.3.4", 0)), (0, 0, 0, 0, ("::5", 0))]
    )
    assert server._own_names("Host") == {"host", "mine", "mine.org"}
    assert server._own_names("0.0.0.0") == {"0.0.0.0", "mine", "mine.org", "1.2.3.4", "[::5]"}
    assert server._own_names("::") == {"[::]", "mine", "mine.org", "1.2.3.4", "[::5]"}
    monkeypatch.setattr(server.webbrowser, "open", lambda address: False)
    server._open("x")
    assert capsys.readouterr().err == "No browser could be opened; open the address by hand.\n"
    with pytest.raises(InputError, match=r"has no projects yet: no studio was started for it\."):
        server.list_projects(tmp_path)
    store = Store(Places(tmp_path).database)
    (tmp_path / "t.csv").write_text("a\n")
    store.add_project("a" * 12, "Later", 80)
    store.inside("first").add_run("20240131-000000-abcdef", "r", {})
    store.close()
    server.list_projects(tmp_path)
    assert capsys.readouterr().out == f"Later  (0 tables, 0 runs)\n{tmp_path.name}  (1 table, 1 run)\n"


def test_memory_goes_back_where_that_can_be_asked_for(monkeypatch):
    import ctypes

    asked_for = []
    monkeypatch.setattr(
        ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda *given: asked_for.append(given))
    )
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    monkeypatch.setattr(server.sys, "platform", "darwin")
    server.give_back_memory()
    assert (asked_for, os.environ.get("ARROW_DEFAULT_MEMORY_POOL")) == ([], None)
    monkeypatch.setattr(server.sys, "platform", "linux")
    server.give_back_memory()
    # M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
    assert asked_for == [(-8, 2), (-3, 2**20), (-1, 2**20)]
    assert os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "system"
    seen = []
    monkeypatch.setattr(server.gc, "collect", lambda: seen.append("collect"))
    monkeypatch.setattr(server.gc, "freeze", lambda: seen.append("freeze"))
    server.keep_imports()
    assert seen == ["collect", "freeze"]
