"""Which project a page belongs to: the one in its address."""

from __future__ import annotations

from nicegui import ui

from kernelweave_app.studio.addresses import address_of, project_of
from kernelweave_app.studio.service import Studio


def here(studio: Studio) -> Studio:
    """The studio as seen from the project of the page that is being built.

    Parameters
    ----------
    studio : Studio

    Returns
    -------
    Studio
    """
    return studio.inside(project_of(ui.context.client.request.scope))


def address(project: str, path: str = "/") -> str:
    """The address of a page of any project, from the server's root."""
    return address_of(ui.context.client.request.scope, project, path)


def within(path: str) -> str:
    """The address of something in the project of the page that is open, from the server's root.

    Links of NiceGUI find the project themselves; attributes of plain elements do not.
    """
    return f"{ui.context.client.request.scope.get('root_path', '')}{path}"
