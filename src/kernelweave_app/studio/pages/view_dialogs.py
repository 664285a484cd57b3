"""Dialogs that ask for a view: for its name, or for a file of views."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave.views.groups import decode
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.dialogs import titled
from kernelweave_app.studio.pages.shell import plural, said, size, text
from kernelweave_app.studio.pages.uploads import pick_button
from kernelweave_app.studio.service import Studio

if TYPE_CHECKING:
    from nicegui.events import UploadEventArguments


def ask_for_name(n_columns: int, known: Callable[[], Collection[str]], then: Callable[[str], None]) -> None:
    """Ask for the name of a new view.

    Parameters
    ----------
    n_columns : int
        Columns that it will have.
    known : callable
        Gives the names of the views there are.
    then : callable
        Is given the name.
    """
    with titled("New view") as dialog:
        text(plural(n_columns, "column")).classes("kw-hint")
        name = ui.input("Name").props("outlined dense autofocus").style("width: 100%")

        def make() -> None:
            if not dialog.value:  # the second press of a double click
                return
            given = (name.value or "").strip()
            if not given or given in known() or ":" in given:
                name.props("error").props["error-message"] = "A new name without a colon is needed."
                return
            dialog.close()
            then(given)

        name.on("keydown.enter", make)
        with ui.element("div").classes("kw-end").style("width: 100%"):
            ui.button("Cancel", on_click=dialog.close).props("flat")
            ui.button("Make", on_click=make).props("unelevated")
    dialog.open()


def ask_for_file(
    studio: Studio, desk: Desk, names: Callable[[], list[str]], then: Callable[[dict[str, list[str]]], None]
) -> None:
    """Read views from a file that the browser reads.

    Parameters
    ----------
    studio : Studio
    desk : Desk
    names : callable
        Gives the columns that may be in a view.
    then : callable
        Is given the columns of every view.
    """
    with titled("Views from a file") as dialog:
        text(
            "TOML with a table [views], or a GMT file of gene sets. Columns that the tables lack are left out."
        ).classes("kw-hint")

        async def take(event: UploadEventArguments) -> None:
            form = "gmt" if event.file.name.lower().endswith(".gmt") else "toml"
            try:
                assert desk.data is not None
                content = decode(await event.file.read(), "The file")
                found = await offload(studio.views, desk.data, content, form)
            except InputError as error:
                said(error)
                return
            if not dialog.value:  # it was left while the file was read
                return
            known = set(names())
            views = {name: [c for c in columns if c in known] for name, columns in found.views.items()}
            dialog.close()
            if found.n_unknown:
                names_are = plural(found.n_unknown, "name is not a column", "names are not columns")
                ui.notify(f"{names_are} of these tables.", type="warning", timeout=8000, close_button="Close")
            then(views)

        most = studio.limits.views

        def refused() -> None:
            said(InputError(f"A file of views ends in .toml or .gmt and has at most {size(most)}."))

        upload = ui.upload(
            label="Drop the file here, or press +",
            auto_upload=True,
            on_upload=take,
            max_file_size=most,
            on_rejected=refused,
        )
        upload.on("failed", refused)
        upload.classes("kw-upload").props("flat bordered accept='.toml,.gmt'")
        upload.add_slot("header", pick_button("Drop the file here, or press +"))
        with ui.element("div").classes("kw-end").style("width: 100%"):
            ui.button("Cancel", on_click=dialog.close).props("flat")
    dialog.open()
