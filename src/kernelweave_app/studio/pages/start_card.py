"""The card that starts a run: what would be run, its name, and the button."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave_app.studio.methods import called
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.guidance import Guide
from kernelweave_app.studio.pages.shell import Turn, card, counted, note, once, plural, stack, stat, text
from kernelweave_app.studio.schema import Checked, RunRequest
from kernelweave_app.studio.service import Studio


class StartCard:
    """What would be run, and a button that starts it.

    Parameters
    ----------
    studio : Studio
    desk : Desk
    guide : Guide
    wrong : mapping of str to str
        Fields with values that no run could use, by setting.
    """

    def __init__(self, studio: Studio, desk: Desk, guide: Guide, wrong: Mapping[str, str]) -> None:
        self.studio, self.desk, self.guide, self.wrong = studio, desk, guide, wrong
        self.turn = Turn()
        #: The same run, asked for however often, is one; and its name in the queue.
        self.asked: tuple[object, str] = None, ""

    async def build(self) -> None:
        """What would be run, and the button, which stays while that changes: no press on it is lost."""
        with card("Ready?"):
            self.place = stack()
            with ui.element("div").classes("kw-row"):
                name = ui.input(
                    "Name of the run", value=self.desk.draft.name, placeholder="made from table and method"
                )
                name.props("outlined dense maxlength=200").classes("grow")

                def keep() -> None:
                    self.desk.draft.name = name.value or ""
                    self.desk.keep()

                name.on("blur", keep)

                async def go() -> None:
                    keep()
                    if self.wrong:
                        raise InputError(self.first_correct())
                    assert self.desk.data is not None
                    request = RunRequest(
                        name=self.desk.draft.name,
                        data=self.desk.data,
                        spec=self.desk.spec,
                        expected=self.guide.expected(),
                    )
                    wanted = request.model_copy(update={"expected": None})
                    if wanted != self.asked[0]:
                        self.asked = wanted, uuid.uuid4().hex
                    started = await offload(self.studio.add_run, request, self.asked[1])
                    ui.navigate.to(f"/runs?run={started.id}")

                self.button = once("Start the run", "play_arrow", go)
                self.button.set_enabled(False)
        with self.place:
            await self.ready()

    def first_correct(self) -> str:
        """What to do about fields with values that no run could use."""
        fields = ", ".join(called(name) for name in self.wrong)
        return f"First correct the fields marked above: {fields}."

    @ui.refreshable_method
    async def ready(self) -> None:
        """What would be run, or why nothing can."""
        assert self.desk.data is not None
        newest = self.turn.take()
        if self.wrong:
            self.button.set_enabled(False)
        found: Checked | None = None
        problem = ""
        try:
            found = await offload(self.studio.check, self.desk.data, self.desk.spec)
        except InputError as error:
            problem = str(error)
        if not newest():
            return
        self.button.set_enabled(not problem and not self.wrong)
        if self.wrong:
            note(self.first_correct(), "bad")
        elif found is None:
            note(problem, "bad")
        else:
            with stack("kw-stats"):
                counted("training row", found.n_training)
                stat(str(found.n_held), "row held out" if found.n_held == 1 else "rows held out")
                counted("column", found.n_columns)
                if found.n_steps:
                    number, _, fits = plural(found.n_steps, "fit").partition(" ")
                    stat(number, f"{fits} at most")
            text(f"{found.task.capitalize()}: {found.reason}. {found.splitter}").classes("kw-hint").style(
                "overflow-wrap: anywhere"
            )
            if found.n_dropped:
                are = "is" if found.n_dropped == 1 else "are"
                note(f"{plural(found.n_dropped, 'row')} with missing values {are} left out.", "warn")
