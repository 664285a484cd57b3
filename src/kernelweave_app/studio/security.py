"""Access to the studio: from this computer, this origin, and with a token. All other requests are refused.

Browsers send a cookie to every port of a computer, but only with addresses below its path. The path of a session is
therefore a secret of the data folder, as in ``/s/SECRET/p/PROJECT/runs``: other services here never get the cookie,
and the cookie alone opens nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import ipaddress
import math
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Template
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelweave._errors import InputError
from kernelweave_app.studio.checking import Limits
from kernelweave_app.studio.store import DiskFull, Store

#: What comes before the path that the application sees.
_BEFORE = re.compile(r"(?:/s/(?P<secret>[A-Za-z0-9_-]{1,100}))?(?:/p/(?P<project>[a-z0-9]{1,20}))?(?=/|$)")


def enter(scope: Scope, secret: str) -> bool:
    """Divide the address of a request into what comes before the path of the application, and that path.

    Parameters
    ----------
    scope : dict
        Of the request; `root_path` and the project are put into it.
    secret : str
        The secret part of addresses with a session.

    Returns
    -------
    bool
        Whether the address has the secret part.
    """
    found = _BEFORE.match(scope["path"])
    given = (found["secret"] or "") if found else ""
    inside = bool(given) and hmac.compare_digest(given.encode(), secret.encode())
    # another secret part is an address like any that does not exist
    before = found[0] if found and (inside or not given) else ""
    project = found["project"] if before and found else None
    if before == scope["path"]:
        scope["path"] += "/"
    scope["root_path"] = before
    scope.setdefault("state", {}).update(project=project or "", base=base_of(secret) if inside else "")
    return inside


def base_of(secret: str) -> str:
    """The path of a session's cookie."""
    return f"/s/{secret}"


def path_of(scope: Mapping[str, Any]) -> str:
    """The path that the application sees."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def project_of(scope: Mapping[str, Any]) -> str:
    """The project in the address of a request, empty for none."""
    return str(scope.get("state", {}).get("project", ""))


def base_in(scope: Mapping[str, Any]) -> str:
    """The path of the session's cookie if the address of a request begins with it, else empty."""
    return str(scope.get("state", {}).get("base", ""))


def address_of(scope: Mapping[str, Any], project: str, path: str = "/") -> str:
    """The address of a page of a project, for one who has a request with an address."""
    return f"{base_in(scope)}/p/{project}{path}"


#: Code of a websocket that was closed because its session is over.
OVER = 1008
#: Seconds between two looks at the clock: a computer that slept has missed the end.
LOOK = 30.0


class Talk:
    """Both directions of a websocket, until a time.

    Parameters
    ----------
    receive, send : ASGI callables
    ends : float
        Seconds since the epoch, infinity for never.
    """

    def __init__(self, receive: Receive, send: Send, ends: float) -> None:
        self._receive, self._send, self._ends = receive, send, ends
        self._next: asyncio.Future[Message] | None = None
        self._closed = False

    async def receive(self) -> Message:
        """The next message; at the end of the session the websocket is closed, whatever else arrives."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._receive())
        while (left := self._ends - time.time()) > 0:
            done, _ = await asyncio.wait({self._next}, timeout=min(left, LOOK))
            if done and self._ends > time.time():
                message, self._next = self._next.result(), None
                return message
        self._next.cancel()
        await self.send({"type": "websocket.close", "code": OVER, "reason": "The session is over."})
        self._closed = True
        return {"type": "websocket.disconnect", "code": OVER}

    async def send(self, message: Message) -> None:
        """Send a message, unless the session is over."""
        if not self._closed:
            await self._send(message)


#: Environment variable with a token for programs; required if other computers have access.
TOKEN_VARIABLE = "KERNELWEAVE_STUDIO_TOKEN"
SHORTEST_TOKEN = 20
#: Seconds that a token in an address, and a session, can be used.
TOKEN_AGE = 3600.0
SESSION_AGE = 12 * 3600.0
LOGIN = "/login"
#: What browsers ask for beside pages that name no icon, outside the address of any session.
ICON = "/favicon.ico"
#: Name of what is stored of addresses.
SECRET = "address"
UPLOAD = "/api/tables"
IMPORT = "/api/projects/import"
#: Address to which the pages upload files.
PAGE_UPLOAD = re.compile(r"/_nicegui/client/[^/]+/upload/[0-9]+")

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
#: For pages. NiceGUI compiles templates in the browser, which is what 'unsafe-eval' allows; inline scripts need the
#: nonce, inline handlers never run, and nothing is loaded from or sent to anywhere else.
PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
#: Stands for the nonce in the scripts of the framework and of this package, before anything else is put into a page.
#: What a page is made of cannot know it.
MARK = secrets.token_urlsafe(24)
#: For everything that is not a page: data that a browser should not run, and reports and figures, which have their own
#: styles and pictures, and no scripts.
DATA_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"


class Access:
    """Tokens and sessions; only their hashes are kept.

    Parameters
    ----------
    store : Store
    folder : Path
        The data folder. The name of the cookie is made from it, because cookies do not depend on ports.
    token : str
        A reusable token for programs, empty for none.

    Attributes
    ----------
    secret : str
        Part of the addresses of pages, without which a session is none: see `enter`.
    """

    def __init__(self, store: Store, folder: Path, token: str = "") -> None:
        self.store = store
        # a cookie of the versions before, which went to all addresses, has another name
        self.cookie = f"kernelweave-{_digest(str(folder))[:8]}-s"
        self.secret = secrets.token_urlsafe(16)
        with contextlib.suppress(DiskFull):
            self.secret = str(store.settle(SECRET, self.secret))
        self._token = _digest(token) if token else ""
        self._known: dict[str, float] = {}
        self._spent: set[str] = set()

    def mint(self) -> str:
        """A token that opens one session."""
        token = secrets.token_urlsafe(32)
        self.store.add_secret("token", _digest(token))
        return token

    def redeem(self, token: str) -> str | None:
        """The secret of a new session in exchange for a token."""
        digest = _digest(token)
        if not self._take(digest) and not self._is_fixed(digest):
            return None
        session = secrets.token_urlsafe(32)
        try:
            self.store.add_secret("session", _digest(session))
        except DiskFull:
            # whoever deletes runs to make room must be able to enter; this server remembers the session
            self._known[_digest(session)] = time.time()
        return session

    def _take(self, digest: str) -> bool:
        """Whether a token opens a session; it does so once."""
        if digest in self._spent:
            return False
        try:
            return self.store.take_token(digest, TOKEN_AGE)
        except DiskFull:
            found = self.store.has_token(digest, TOKEN_AGE)
            self._spent |= {digest} if found else set()
            return found

    def allows(self, connection: HTTPConnection, inside: bool) -> bool:
        """Whether a request comes with a session or the token for programs.

        Parameters
        ----------
        connection : HTTPConnection
        inside : bool
            Whether its address has the secret part, without which a session does not count.

        Returns
        -------
        bool
        """
        return self.ends(connection, inside) > time.time()

    def ends(self, connection: HTTPConnection, inside: bool) -> float:
        """Until when a request like this is allowed: zero if it is not, infinity for the token for programs."""
        kind, _, token = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_fixed(_digest(token.strip())):
            return math.inf
        session = connection.cookies.get(self.cookie) if inside else None
        begun = self._begun(_digest(session)) if session else None
        return 0.0 if begun is None else begun + SESSION_AGE

    def _is_fixed(self, digest: str) -> bool:
        return bool(self._token) and hmac.compare_digest(digest, self._token)

    def _begun(self, digest: str) -> float | None:
        begun = self._known.get(digest)
        if begun is None and (begun := self.store.session_begun(digest)) is not None:
            self._known[digest] = begun
        return begun

    def set_cookie(self, response: Response, session: str) -> None:
        """Give a session to the browser as a cookie that scripts, other sites and other services cannot read."""
        response.set_cookie(
            self.cookie,
            session,
            max_age=int(SESSION_AGE),
            path=base_of(self.secret),
            httponly=True,
            samesite="strict",
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def check_host(host: str, *, exposed: bool, token: str) -> None:
    """Refuse to listen to other computers unless both `exposed` and a token are given.

    Parameters
    ----------
    host : str
        Address to listen on.
    exposed : bool
        Whether the user allows access from other computers.
    token : str
        Content of `TOKEN_VARIABLE`.
    """
    if token and len(token) < SHORTEST_TOKEN:
        raise InputError(f"{TOKEN_VARIABLE} must hold at least {SHORTEST_TOKEN} characters.")
    if is_loopback(host):
        return
    if not exposed:
        raise InputError(
            f"--host {host} would give other computers access over plain HTTP. Use ssh port forwarding, or "
            "pass --expose and set a token."
        )
    if not token:
        raise InputError(
            f"--host {host} needs a token of your own: set {TOKEN_VARIABLE} to at least {SHORTEST_TOKEN} characters."
        )


def is_loopback(host: str) -> bool:
    """Whether an address belongs to this computer only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware that checks requests, HTTP and websockets alike, and adds headers to every response.

    Parameters
    ----------
    app : ASGI application
    access : Access
    hosts : frozenset of str
        Names by which the studio may be called.
    limits : Limits
    """

    def __init__(self, app: ASGIApp, access: Access, hosts: frozenset[str], limits: Limits) -> None:
        self.app, self.access, self.hosts, self.limits = app, access, hosts, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        inside = enter(scope, self.access.secret)
        connection = HTTPConnection(scope)
        refusal = self.refuse(scope, connection, inside)
        if scope["type"] == "websocket":
            if refusal is not None:
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
                return
            talk = Talk(receive, send, self.access.ends(connection, inside))
            await self.app(scope, talk.receive, talk.send)
            return
        answer = _Answer(send, secrets.token_urlsafe(16))
        if refusal is not None:
            await refusal(scope, receive, answer)
            return
        body = _Body(receive, self._most(scope))
        if _declared(connection.headers) > body.most:
            await _too_large(body.most)(scope, receive, answer)
            return
        try:
            await self.app(scope, body, answer)
        except BodyTooLarge:
            if not answer.started:
                await _too_large(body.most)(scope, receive, answer)

    def _most(self, scope: Scope) -> int:
        path = path_of(scope)
        if scope["method"] == "POST" and path == UPLOAD:
            return self.limits.upload
        if scope["method"] == "POST" and path == IMPORT:
            return self.limits.project
        # a form around the file takes a little more
        is_views = scope["method"] == "POST" and PAGE_UPLOAD.fullmatch(path)
        return self.limits.views + 2**16 if is_views else self.limits.body

    def refuse(self, scope: Scope, connection: HTTPConnection, inside: bool) -> Response | None:
        """The response to a request that is refused, None for one that is allowed."""
        headers = connection.headers
        host = headers.get("host", "")
        if _host_name(host) not in self.hosts:
            return JSONResponse({"detail": "This host name is not the studio's."}, 400)
        websocket = scope["type"] == "websocket"
        changes = websocket or scope["method"] not in SAFE_METHODS
        origin = headers.get("origin")
        if (origin is not None or websocket) and not _same_origin(origin, host, scope):
            return JSONResponse({"detail": "Requests of other origins are refused."}, 403)
        site = headers.get("sec-fetch-site", "none")
        if scope["path"] == ICON:
            return Response(status_code=204)
        login = scope["path"] == LOGIN
        opens_login = login and headers.get("sec-fetch-mode") == "navigate" and not changes
        if site not in ("same-origin", "none") and not opens_login:
            return JSONResponse({"detail": "Requests of other sites are refused."}, 403)
        if login or self.access.allows(connection, inside):
            return None
        if "text/html" in headers.get("accept", "") and scope["type"] == "http":
            return HTMLResponse(LOCKED, 401)
        return JSONResponse({"detail": "Open the studio with the address that its terminal shows."}, 401)


class BodyTooLarge(Exception):
    """More bytes arrived than are allowed."""


class _Body:
    """Counts the bytes of a request, whatever length its header declares."""

    def __init__(self, receive: Receive, most: int) -> None:
        self.receive, self.most, self.count = receive, most, 0

    async def __call__(self) -> Message:
        message = await self.receive()
        self.count += len(message.get("body", b""))
        if self.count > self.most:
            raise BodyTooLarge
        return message


class _Answer:
    """Adds the headers, and the nonce to the scripts of pages that have the mark."""

    def __init__(self, send: Send, nonce: str) -> None:
        self.send, self.nonce, self.started = send, nonce, False
        self._page: Message | None = None
        self._parts: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            if "cache-control" not in headers:
                headers["Cache-Control"] = "no-store"
            is_page = headers.get("content-type", "").startswith("text/html")
            if is_page and "content-disposition" not in headers and "content-security-policy" not in headers:
                headers["Content-Security-Policy"] = PAGE_POLICY.format(nonce=self.nonce)
                self._page = message
                return
            headers.setdefault("Content-Security-Policy", DATA_POLICY)
        elif self._page is not None and message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))
            if message.get("more_body"):
                return
            body = b"".join(self._parts).replace(MARK.encode(), self.nonce.encode())
            MutableHeaders(scope=self._page)["Content-Length"] = str(len(body))
            await self.send(self._page)
            await self.send({"type": "http.response.body", "body": body})
            self._page = None
            return
        await self.send(message)


def _declared(headers: Headers) -> int:
    length = headers.get("content-length", "")
    return int(length) if re.fullmatch(r"[0-9]{1,18}", length) else (2**62 if length else 0)


def _too_large(most: int) -> Response:
    return JSONResponse(
        {"detail": f"This is larger than the limit of {most} bytes."}, 413, {"Connection": "close"}
    )


def _host_name(host: str) -> str:
    match = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^:@/\\\s]+)(:[0-9]{1,5})?", host)
    return match[1].lower() if match else ""


def _same_origin(origin: str | None, host: str, scope: Mapping[str, object]) -> bool:
    if not origin:
        return False
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    secure = scope["scheme"] in ("https", "wss")
    return parts.scheme == ("https" if secure else "http") and parts.netloc.lower() == host.lower()


#: A page without the pages' frame, for those who may not see it.
_PLAIN = Template((Path(__file__).parent / "plain.html").read_text(encoding="utf8"))
_BACK = "<a href='PLACE'>Go to the studio</a>"
LOCKED = _PLAIN.render(
    title="Sign in",
    about="Open the studio with the address that its terminal shows, or run <code>kernelweave studio</code> again: it "
    "prints a new one. Each address works once.",
    more=f"<form method='post' action='{LOGIN}'><label for='token'>Or paste a token</label>"
    "<input id='token' name='token' type='password' autocomplete='off' required><button>Open</button></form>",
)
LOST = _PLAIN.render(
    title="Page not found", about=f"The address may be misspelt, or belong to another version. {_BACK}"
)
GONE = _PLAIN.render(title="No such project", about=f"It may have been deleted in another window. {_BACK}")
#: A redirect would still count as a request of the site that opened the page, and a strict cookie is not sent with it.
WELCOME = _PLAIN.render(
    about="Opening the studio. <a href='PLACE'>Continue</a>",
    head="<meta http-equiv='refresh' content='0;url=PLACE'>",
)


#: What is the same in all projects, or says itself that there is none.
_NO_PAGES = ("/api", "/_nicegui", LOGIN)


class Wayfinding:
    """ASGI middleware that leads to the project that was opened last where an address names none.

    Parameters
    ----------
    app : ASGI application
    store : Store
    """

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self.app, self.store = app, store.inside(None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102
        other = self._elsewhere(scope) if scope["type"] == "http" else None
        await (other or self.app)(scope, receive, send)

    def _elsewhere(self, scope: Scope) -> Response | None:
        path = path_of(scope)
        if scope["method"] not in ("GET", "HEAD") or path.startswith(_NO_PAGES):
            return None
        project = project_of(scope)
        if not project:
            query = scope["query_string"].decode("latin-1")
            place = address_of(scope, self.store.last_project(), path)
            return RedirectResponse(place + (f"?{query}" if query else ""), 307)
        if project not in self.store.project_ids():
            return HTMLResponse(GONE.replace("PLACE", f"{base_in(scope)}/"), 404)
        return None


def lost_page(scope: Mapping[str, Any]) -> str:
    """The page for an address that leads nowhere."""
    return LOST.replace("PLACE", f"{base_in(scope)}/")
