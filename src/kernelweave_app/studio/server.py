"""Start the studio: one server for a data folder, on this computer only, with API, pages and the guard around them."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

from fastapi import FastAPI, Form, Query
from fastapi.responses import HTMLResponse, Response

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave_app.studio.api import make_api
from kernelweave_app.studio.security import (
    LOCKED,
    LOGIN,
    LOOPBACK_NAMES,
    TOKEN_VARIABLE,
    WELCOME,
    Access,
    Guard,
    Wayfinding,
    base_of,
    check_host,
    is_loopback,
)
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import room

#: Settings of the GNU C library, from its malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
#: Bytes from which arrays have pages of their own, which go back to the system when they are freed.
LARGE = 2**20
ARENAS = 2


def give_back_memory() -> None:
    """Let freed memory go back to the system, where that can be asked for: on Linux with the GNU C library.

    Otherwise each of up to forty threads keeps what the largest question on it took.
    """
    if sys.platform != "linux":
        return
    # Arrow, which pandas holds texts in, would keep pages of its own: read when it is imported
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, ARENAS)
        mallopt(_MMAP_THRESHOLD, LARGE)
        mallopt(_TRIM_THRESHOLD, LARGE)


def keep_imports() -> None:
    """Take what has been imported out of later searches for unreachable objects, in which nothing else is answered."""
    gc.collect()
    gc.freeze()


Token = Annotated[str, Query(max_length=200)]


def make_app(
    studio: Studio, access: Access, *, hosts: frozenset[str] = LOOPBACK_NAMES, pages: bool = True
) -> FastAPI:
    """Put the studio together.

    Parameters
    ----------
    studio : Studio
    access : Access
    hosts : frozenset of str
        Names by which the studio may be called.
    pages : bool, default=True
        With the user interface; only once in a process.

    Returns
    -------
    FastAPI
    """
    app = make_api(studio)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        studio.queue.start()
        try:
            yield
        finally:
            studio.queue.stop()

    app.router.lifespan_context = lifespan

    def enter(token: str) -> Response:
        session = access.redeem(token) if token else None
        if session is None:
            return HTMLResponse(LOCKED, 401)
        response = HTMLResponse(WELCOME.replace("PLACE", f"{base_of(access.secret)}/"))
        access.set_cookie(response, session)
        return response

    @app.get(LOGIN, include_in_schema=False)
    def open_studio(token: Token = "") -> Response:
        return enter(token)

    @app.post(LOGIN, include_in_schema=False)
    def open_with_form(token: Annotated[str, Form(max_length=200)] = "") -> Response:
        return enter(token)

    if pages:
        from kernelweave_app.studio.pages import add_pages

        add_pages(app, studio)
        finding: Any = Wayfinding
        app.add_middleware(finding, store=studio.store)
    guard: Any = Guard
    app.add_middleware(guard, access=access, hosts=hosts, limits=studio.limits)
    return app


#: Seconds that open connections have when the server stops.
FAREWELL = 2
#: Seconds after which packages are imported that pages need later.
WARM_AFTER = 1.5


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
    exposed: bool = False,
    upload: int = 0,
    at_once: int = 1,
    mlflow: Path | None = None,
    project: str = "",
) -> None:
    """Serve until Ctrl-C; if a server runs for this folder already, open it.

    Parameters
    ----------
    folder : Path
        The data folder.
    host : str, default="127.0.0.1"
    port : int, default=0
        0 for a free one.
    browser : bool, default=True
        Open the browser.
    exposed : bool, default=False
        Whether the user allows access from other computers.
    upload : int, default=0
        Largest upload in bytes, 0 for the usual limit.
    at_once : int, default=1
        Runs at the same time.
    mlflow : Path, optional
        Folder of an MLflow file store to which runs may be written.
    project : str, default=""
        Name of the project to open; by default the one that was opened last.
    """
    give_back_memory()
    token = os.environ.get(TOKEN_VARIABLE, "")
    check_host(host, exposed=exposed, token=token)
    # NiceGUI reads this when it is imported, and would write into the current folder
    os.environ["NICEGUI_STORAGE_PATH"] = str(folder.expanduser().resolve() / "studio" / "pages")
    import uvicorn

    from kernelweave_app.studio.checking import Limits
    from kernelweave_app.studio.projects import Projects
    from kernelweave_app.studio.service import Studio

    limits = Limits(upload=upload) if upload else Limits()
    studio = Studio(folder, limits, at_once=at_once)
    studio.mlflow_folder = mlflow.expanduser().resolve() if mlflow else None
    if project:
        studio.store.open_project(Projects(studio).called(project).id)
    access = Access(studio.store, studio.places.root, token)
    with _only_server(studio.places.lock) as lock:
        if lock is None:
            _open_running(studio.places.lock, access, browser)
            return
        studio.places.sweep()
        listener = _listen(host, port)
        port = listener.getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        with room(studio.places.root):
            lock.write(json.dumps({"pid": os.getpid(), "address": f"http://{name}:{port}"}))
            lock.flush()
        hosts = LOOPBACK_NAMES if is_loopback(host) else LOOPBACK_NAMES | _own_names(host)
        app = make_app(studio, access, hosts=hosts)
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else name
        address = f"http://{shown}:{port}{LOGIN}?token={access.mint()}"
        print(f"kernelweave studio for {studio.places.root}", flush=True)
        print(f"Open {address}", flush=True)
        print(
            "The address works once; run the command again for another. Ctrl-C ends the studio, not its runs.",
            flush=True,
        )
        if browser:
            threading.Thread(target=_open, args=(address,), daemon=True).start()
        config: Any = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=FAREWELL,
            ws_max_size=studio.limits.body,
        )
        # imports for the first table take seconds: done after the first page, before the first click
        warming = threading.Timer(WARM_AFTER, _warm_up)
        warming.daemon = True
        warming.start()
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
        print("The studio has ended; its runs go on.", flush=True)


def list_projects(folder: Path) -> None:
    """Print the projects of a data folder, those that were opened last first.

    Parameters
    ----------
    folder : Path
    """
    from kernelweave_app.studio.store import Places, Store

    if not (folder.expanduser() / "studio" / "studio.sqlite").is_file():
        raise InputError(f"{folder} has no projects yet: no studio was started for it.")
    places = Places(folder)
    store = Store(places.database)
    for row in sorted(store.projects(), key=lambda row: -float(row["opened"])):
        n_tables, n_runs = len(places.inside(row["id"]).tables()), row["n_runs"]
        print(f"{row['name']}  ({numbered(n_tables, 'table')}, {numbered(n_runs, 'run')})")
    store.close()


def _warm_up() -> None:
    import pyarrow  # noqa: F401, by which pandas holds texts

    from kernelweave_app.studio import previews  # noqa: F401

    keep_imports()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"Cannot listen on {host}, port {port}: {error.strerror}. Choose another --port."
        ) from None
    listener.listen(128)
    return listener


def _own_names(host: str) -> frozenset[str]:
    """Names by which other computers may address this host."""
    names = {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
    if host in ("0.0.0.0", "::"):
        with contextlib.suppress(OSError):
            names |= {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)}
    return frozenset(f"[{name}]" if ":" in name else name for name in names)


@contextlib.contextmanager
def _only_server(path: Path) -> Iterator[TextIO | None]:
    """The lock file, open for writing; None where another server holds it. It ends with its process."""
    with path.open("a+", encoding="utf8") as file:
        if not _try_lock(file):
            yield None
            return
        file.seek(0)
        file.truncate()
        path.chmod(0o600)
        yield file


def _try_lock(file: TextIO) -> bool:
    try:
        import fcntl
    except ImportError:  # not on Windows, where a second server is not detected
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _open_running(path: Path, access: Access, browser: bool) -> None:
    token = access.mint()
    for _ in range(50):
        with contextlib.suppress(ValueError, KeyError):
            address = f"{json.loads(path.read_text('utf8'))['address']}{LOGIN}?token={token}"
            print(f"A studio is running for this folder already. Open {address}", flush=True)
            if browser:
                webbrowser.open(address)
            return
        time.sleep(0.1)
    raise InputError(f"Another process holds {path}, but does not say where it listens. Try again.")


def _open(address: str) -> None:
    # the socket listens already, so the browser waits until the server answers
    if not webbrowser.open(address):
        print("No browser could be opened; open the address by hand.", file=sys.stderr, flush=True)
