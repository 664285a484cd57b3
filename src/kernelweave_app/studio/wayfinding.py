"""Addresses of pages without a project, or with one that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, RedirectResponse, Response

from kernelweave_app.studio.addresses import address_of, base_in, path_of, project_of
from kernelweave_app.studio.security import GONE, LOGIN, LOST
from kernelweave_app.studio.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

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
        if not self.store.has_project(project):
            return HTMLResponse(GONE.replace("PLACE", f"{base_in(scope)}/"), 404)
        return None


def lost_page(scope: Mapping[str, Any]) -> str:
    """The page for an address that leads nowhere."""
    return LOST.replace("PLACE", f"{base_in(scope)}/")
