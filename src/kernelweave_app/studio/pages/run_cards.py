"""What is written about a run, and where its numbers come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave_app.runs.lineage import Lineage
from kernelweave_app.studio.pages.dialogs import titled
from kernelweave_app.studio.pages.shell import card, guarded, note, simple_table, size, stack, text
from kernelweave_app.studio.schema import Marks, Run
from kernelweave_app.studio.schema.runs import LONGEST_NOTE, LONGEST_TAG, MOST_TAGS
from kernelweave_app.studio.service import Studio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def check_marks(marks: dict[str, object]) -> Marks:
    """Marks of a run; wrong ones are an `InputError`."""
    try:
        return Marks.model_validate(marks)
    except ValueError:
        raise InputError(
            f"A run has at most {MOST_TAGS} tags of {LONGEST_TAG} characters, and a note of {LONGEST_NOTE}."
        ) from None


class MarksCard:
    """Tags, a note and a pin.

    Parameters
    ----------
    studio : Studio
    run : Run
    """

    def __init__(self, studio: Studio, run: Run) -> None:
        self.studio, self.run = studio, run
        #: What this page has stored, or found.
        self.marks = run.marks

    def build(self) -> None:
        """Draw the fields."""
        with card("Tags and note") as aside:
            with aside:
                pin = ui.switch("Pinned", value=self.run.marks.pinned)
            with ui.element("div").classes("kw-row").style("align-items: flex-start"):
                tags = ui.input("Tags, separated by commas", value=", ".join(self.run.marks.tags))
                tags.props(f"outlined dense maxlength={MOST_TAGS * (LONGEST_TAG + 2)}").classes("grow")
                words = ui.textarea("Note", value=self.run.marks.note)
                words.props(f"outlined dense autogrow maxlength={LONGEST_NOTE}").classes("grow")

            async def keep() -> None:
                given = {
                    "pinned": pin.value,
                    "note": words.value or "",
                    "tags": (tags.value or "").split(","),
                }
                marks, before = check_marks(given), self.marks
                # what was not changed here may have been changed in another window
                changed = {name: value for name, value in marks if value != getattr(before, name)}
                if changed:
                    self.marks = marks
                    await offload(self.studio.change_marks, self.run.id, **changed)

            pin.on_value_change(guarded(keep))
            tags.on("blur", guarded(keep))
            words.on("blur", guarded(keep))


class LineageCard:
    """Tables, versions and the command of a run.

    Parameters
    ----------
    studio : Studio
    run_id : str
    """

    def __init__(self, studio: Studio, run_id: str) -> None:
        self.studio, self.run_id = studio, run_id

    def build(self) -> None:
        """Draw the card once the page is shown: checksums of large tables take a while."""
        place = stack()

        async def draw() -> None:
            try:
                found = await offload(self.studio.lineage, self.run_id)
            except InputError as error:
                with place:
                    note(str(error), "warn")
                return
            if found is not None:
                with place:
                    self.draw(found)

        ui.timer(0.05, draw, once=True)

    @staticmethod
    def draw(found: Lineage) -> None:
        """What the run recorded."""
        with card("Where these numbers come from"), stack():
            for line in found.changed:
                note(line, "warn")
            rows = [[one.name, size(one.size), one.sha256 or "unknown"] for one in found.tables]
            simple_table(["table", "size", "SHA-256 of the file"], rows, label="Tables of the run")
            versions = ", ".join(f"{name} {value}" for name, value in found.versions.items())
            text(f"Made with {versions}; seed {found.seed}; on {found.when}.").classes("kw-hint")
            if found.command:
                text("The same again:").classes("kw-hint")
                text(found.command, "pre").classes("kw-log").props(
                    'tabindex=0 aria-label="Command of the run"'
                )


def ask(
    title: str, about: str, word: str, action: Callable[[], Awaitable[object]], keep: str = "Keep them"
) -> None:
    """Ask before something that cannot be undone."""
    with titled(title) as dialog:
        text(about).style("overflow-wrap: anywhere")

        async def do() -> None:
            # the second press of a double click finds it closed
            if dialog.value:
                dialog.close()
                await action()

        with ui.element("div").classes("kw-end").style("width: 100%"):
            ui.button(keep, on_click=dialog.close).props("flat")
            ui.button(word, on_click=guarded(do)).props("unelevated color=negative")
    dialog.open()
