"""Dialogs with a heading, by which they are also called where they are not seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nicegui import ui

from kernelweave.studio.pages.shell import text


@contextmanager
def titled(title: str) -> Iterator[ui.dialog]:
    """A dialog with a heading; what is made in the context stands below.

    Parameters
    ----------
    title : str
        May hold names of any length.

    Yields
    ------
    ui.dialog
        Not yet open.
    """
    with ui.dialog() as dialog, ui.card().classes("kw-ask"):
        dialog.props["aria-label"] = title
        text(title, "h2").style("overflow-wrap: anywhere")
        yield dialog
