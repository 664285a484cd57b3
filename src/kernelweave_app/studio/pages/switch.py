"""The project in the frame of all pages, and the way to others."""

from __future__ import annotations

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from kernelweave_app.studio.pages.place import address
from kernelweave_app.studio.service import Studio

#: Projects in the list, those that were opened last.
MOST = 10


def project_name(studio: Studio) -> str:
    """The name of the project of a page."""
    return str({row["id"]: row["name"] for row in studio.store.projects()}.get(studio.store.project, ""))


def project_switch(studio: Studio, path: str) -> None:
    """The name of the project, which opens a list of others.

    Parameters
    ----------
    studio : Studio
    path : str
        Of the page.
    """
    rows = sorted(studio.store.projects(), key=lambda row: -float(row["opened"]))
    name = project_name(studio)
    button = ui.button(icon="folder_open").props("flat no-caps align=left icon-right=expand_more")
    button.classes("kw-project").props["aria-label"] = f"Project {name}. Open another one."
    button.props["title"] = name
    with button:
        TextElement(tag="span", text=name)
        # links, which a menu does not hold
        with ui.menu().classes("kw-menu").props('role=navigation aria-label="Projects"'):
            for row in rows[:MOST]:
                link = ui.element("a")
                link.props["href"] = address(row["id"])
                if row["id"] == studio.store.project:
                    link.props("aria-current=true")
                with link:
                    TextElement(tag="span", text=row["name"])
            everything = ui.link(target="/projects")
            if path == "/projects":
                everything.props("aria-current=page")
            with everything:
                TextElement(tag="b", text="All projects")
