"""Where to begin: a recommendation for the table with its reasons, time and memory, and presets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave_app.runs.estimating import span
from kernelweave_app.runs.fitting import OF_PATHS
from kernelweave_app.runs.questions import PRESETS, QUESTIONS, preset_settings
from kernelweave_app.runs.recommending import Recommendation
from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.methods import called
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.shell import (
    Turn,
    card,
    note,
    once,
    said,
    simple_table,
    size,
    stack,
    text,
    waiting,
)
from kernelweave_app.studio.schema import Expected
from kernelweave_app.studio.service import Studio

#: Settings that a recommendation may change, beside those of learner and path.
CHANGED = (
    "method",
    "learner_params",
    "nested",
    "kernels",
    "normalize",
    "missing",
    "missing_views",
    "balanced",
    "drop",
)


class Guide:
    """The card of the recommendation.

    Parameters
    ----------
    studio : Studio
    desk : Desk
    changed : callable
        Called after settings have changed.
    """

    def __init__(self, studio: Studio, desk: Desk, changed: Callable[[], object]) -> None:
        self.studio, self.desk, self.changed = studio, desk, changed
        self.question = "predict"
        self.found: Recommendation | None = None
        self.measured: tuple[FitSpec, Expected] | None = None
        self.problem = ""
        self.turn = Turn()

    def expected(self) -> Expected | None:
        """Time and memory of the present settings, if they have been measured."""
        if self.measured is None or self.measured[0] != self.desk.spec:
            return None
        return self.measured[1]

    def build(self) -> None:
        """Draw the card."""
        with card(
            "Where to begin", "Choose what you want to know; learner and settings follow from the table."
        ):
            with ui.element("div").classes("kw-row"):
                asked = ui.select(
                    {one.name: one.title for one in QUESTIONS},
                    value=self.question,
                    label="Question",
                    on_change=lambda event: setattr(self, "question", event.value),
                )
                asked.props("outlined dense options-dense").classes("grow")
                once("Recommend", "auto_awesome", self.recommend)
                once("How long will it take?", "timer", self.measure, "outline")
            self.presets()
            self.told()

    def presets(self) -> None:
        """Quick, careful, paper, and what each sets."""
        with ui.element("div").classes("kw-row"):
            for one in PRESETS:
                button = ui.button(one.title, on_click=self.take_preset(one.name)).props(
                    "outline padding='4px 14px'"
                )
                button.tooltip(one.about)
            with ui.element("details").classes("kw-fold").style("flex: 1 1 14rem"):
                text("What each sets", "summary")
                names = list(dict.fromkeys(name for one in PRESETS for name in one.settings))
                names = [name for name in names if name not in ("repeats", "splits")]
                given = [preset_settings(one.name, self.desk.spec.method) for one in PRESETS]
                rows = [[called(name), *(str(each[name]) for each in given)] for name in names]
                simple_table(["setting", *(one.title for one in PRESETS)], rows, label="Presets")

    def take_preset(self, name: str) -> Callable[[], None]:
        """Set what belongs to a preset."""

        def do() -> None:
            try:
                self.desk.set(**preset_settings(name, self.desk.spec.method))
            except InputError as error:
                said(error)
                return
            self.changed()

        return do

    async def recommend(self) -> None:
        """Find settings, take them, and measure their time."""
        data = self.desk.data
        assert data is not None
        asked = self.desk.spec
        found = await offload(self.studio.recommend, data, asked, self.question)
        advised = {one.setting for one in found.advice}
        if "method" in advised:
            advised.add("learner_params")
        # what is not advised may have been changed meanwhile
        self.desk.set(
            **{
                name: getattr(found.spec, name)
                for name in (*CHANGED, *OF_PATHS)
                if name != "group" and (name in advised or getattr(found.spec, name) != getattr(asked, name))
            }
        )
        self.found = found
        self.changed()
        self.told.refresh(measuring=True)
        await self.measure()

    async def measure(self) -> None:
        """Measure time and memory of the present settings."""
        data, spec = self.desk.data, self.desk.spec.model_copy(deep=True)
        assert data is not None
        newest = self.turn.take()
        self.told.refresh(measuring=True)
        problem, measured = "", self.measured
        try:
            measured = spec, await offload(self.studio.estimate, data, spec)
        except InputError as error:
            problem = str(error)
        finally:
            # other settings may be measured by now
            if newest():
                self.problem, self.measured = problem, measured
                self.told.refresh(measuring=False)

    @ui.refreshable_method
    def told(self, measuring: bool = False) -> None:
        """The recommendation and its reasons, and the time."""
        with stack("kw-stack").props("aria-live=polite"):
            if self.found is not None:
                text(f"{'; '.join(self.found.facts)}.").classes("kw-hint")
                rows: list[list[Any]] = [
                    [called(one.setting), _word(one.value), one.why] for one in self.found.advice
                ]
                simple_table(["setting", "recommended", "because"], rows, label="Recommended settings")
                for line in self.found.warnings:
                    note(line, "warn")
                text("These settings are taken; all of them can be changed below.").classes("kw-hint")
            if measuring:
                waiting("Fitting a few rows to measure the time")
            elif self.problem:
                note(self.problem, "bad")
            elif self.measured is not None:
                found = self.measured[1]
                note(
                    f"Time: {span(found.low)} to {span(found.high)}, most likely {span(found.seconds)}. {found.sure} "
                    f"Memory for kernels: up to {size(found.memory)}.",
                    "good",
                    "timer",
                )


def _word(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
