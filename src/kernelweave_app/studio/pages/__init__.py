"""The pages, on NiceGUI, on top of the service."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from nicegui import app as nicegui
from nicegui import ui

from kernelweave_app.studio.pages import (
    compare,
    data,
    frame,
    kernels,
    method,
    projects,
    runs,
    understand,
    use,
)
from kernelweave_app.studio.pages.frame import FAVICON
from kernelweave_app.studio.security import lost_page
from kernelweave_app.studio.service import Studio

__all__ = ["add_pages"]


def add_pages(app: FastAPI, studio: Studio) -> None:
    """Add the user interface to an application.

    Parameters
    ----------
    app : FastAPI
    studio : Studio
    """
    frame.head()
    for module in (data, kernels, method, runs, understand, compare, use, projects):
        module.add(studio)

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
