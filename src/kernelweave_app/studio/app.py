"""The whole application: API, pages, login, and the guard around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Form, Query
from fastapi.responses import HTMLResponse, Response

from kernelweave_app.studio.addresses import base_of
from kernelweave_app.studio.api import make_api
from kernelweave_app.studio.security import LOCKED, LOGIN, LOOPBACK_NAMES, WELCOME, Access, Guard
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.wayfinding import Wayfinding

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
