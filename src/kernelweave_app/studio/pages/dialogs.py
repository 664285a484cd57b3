"""Dialogs with a heading, by which they are also called where they are not seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nicegui import ui

from kernelweave_app.studio.pages.shell import text


@contextmanager
def titled(title: str) -> Iterator[ui.dialog]:
    """A dialog with a heading; what is made in the context stands below.

    It belongs to the page, and so stays while the part of the page with its button is drawn anew; it is deleted when it
    has been closed.

    Parameters
    ----------
    title : str
        May hold names of any length.

    Yields
    ------
    ui.dialog
        Not yet open.
    """
    with ui.context.client.content:
        place = ui.element().props("hidden")
    with place, ui.dialog() as dialog, ui.card().classes("kw-ask"):

        def leave() -> None:
            dialog.delete()
            place.delete()

        dialog.on("hide", leave)
        dialog.props["aria-label"] = title
        text(title, "h2").style("overflow-wrap: anywhere")
        yield dialog
