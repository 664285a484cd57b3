"""The pages, on NiceGUI, on top of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from nicegui import app as nicegui
from nicegui import ui
from starlette.datastructures import QueryParams

from kernelweave_app.studio.pages.compare import ComparePage
from kernelweave_app.studio.pages.data import DataPage
from kernelweave_app.studio.pages.frame import FAVICON, head, here
from kernelweave_app.studio.pages.kernels import KernelsPage
from kernelweave_app.studio.pages.method import MethodPage
from kernelweave_app.studio.pages.projects import ProjectsPage
from kernelweave_app.studio.pages.runs import runs_page
from kernelweave_app.studio.pages.understand import UnderstandPage
from kernelweave_app.studio.pages.use import UsePage
from kernelweave_app.studio.security import lost_page
from kernelweave_app.studio.service import Studio

__all__ = ["add_pages", "declare_pages"]

#: Addresses, and what is shown in a project to one who asks so.
PAGES: dict[str, Callable[[Studio, QueryParams], Any]] = {
    "/": lambda studio, _: DataPage(studio),
    "/kernels": lambda studio, _: KernelsPage(studio),
    "/method": lambda studio, _: MethodPage(studio),
    "/runs": runs_page,
    "/understand": lambda studio, asked: UnderstandPage(studio, asked.get("run", "")),
    "/compare": lambda studio, asked: ComparePage(studio, asked.getlist("runs") + asked.getlist("run")),
    "/use": lambda studio, asked: UsePage(studio, asked.get("run", "")),
    "/projects": lambda studio, _: ProjectsPage(studio),
}


def declare_pages(studio: Studio) -> None:
    """Tell NiceGUI which pages there are; each gives itself a title."""

    def declare(path: str, make: Callable[[Studio, QueryParams], Any]) -> None:
        @ui.page(path, response_timeout=30)
        async def shown(request: Request) -> None:
            await make(here(studio), request.query_params).build()

    for path, make in PAGES.items():
        declare(path, make)


def add_pages(app: FastAPI, studio: Studio) -> None:
    """Add the user interface to an application.

    Parameters
    ----------
    app : FastAPI
    studio : Studio
    """
    head()
    declare_pages(studio)

    @nicegui.exception_handler(404)
    def lost(request: Request, error: Exception) -> Response:
        return HTMLResponse(lost_page(request.scope), 404)

    ui.run_with(
        app,
        title="kernelweave studio",
        favicon=FAVICON,
        dark=None,
        # our own style sheet is enough, so that no styles are compiled in the browser
        tailwind=False,
        gzip_middleware_factory=None,
        show_welcome_message=False,
        reconnect_timeout=20.0,
        cache_control_directives="private, max-age=31536000, immutable",
    )
