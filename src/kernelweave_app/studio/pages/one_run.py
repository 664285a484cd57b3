"""One run: its progress and its path while it is computed, its result, what was used, and what is written about it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave._forms import plus_minus
from kernelweave_app.runs.estimating import span
from kernelweave_app.studio.pages.live import LivePath
from kernelweave_app.studio.pages.run_cards import LineageCard, MarksCard, ask
from kernelweave_app.studio.pages.shell import (
    card,
    duration,
    guarded,
    has,
    note,
    page,
    plural,
    score,
    stack,
    stat,
    tag,
    text,
)
from kernelweave_app.studio.schema import Draft, Log, PathPoints, Run
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import FINAL

#: Seconds between two queries of the store.
EVERY = 0.4
#: Seconds for reading, figures and the report, which are not part of an estimate.
SLACK = 10.0
STATES = {
    "queued": ("waiting", "", "schedule"),
    "starting": ("starting", "now", "hourglass_empty"),
    "running": ("running", "now", "autorenew"),
    "done": ("done", "good", "check"),
    "cancelled": ("stopped", "warn", "stop"),
    "failed": ("failed", "bad", "error_outline"),
}


def state_tag(run: Run) -> ui.element:
    """The state of a run in one word."""
    word, kind, icon = STATES[run.state]
    return tag("stopping" if run.cancelling else word, kind, icon)


def progress_line(run: Run) -> str:
    """The progress of a run in words."""
    if run.state == "running" and run.total:
        left = (
            f", about {duration(run.seconds_left)} left" if run.seconds_left is not None and run.done else ""
        )
        return f"{run.done} of {run.total} steps{left}"
    if run.state in FINAL and run.started and run.finished:
        return f"took {duration(run.finished - run.started)}"
    return ""


def is_late(run: Run) -> bool:
    """Whether a run takes longer than was expected at most."""
    expected = run.request.expected
    return bool(expected and run.started and time.time() - run.started > expected.high + SLACK)


class OneRun:
    """The page of one run.

    Parameters
    ----------
    studio : Studio
    run_id : str
    """

    def __init__(self, studio: Studio, run_id: str) -> None:
        self.studio, self.run_id = studio, run_id
        self.seen: Any = None
        self.live = LivePath()
        self.detail: dict[str, Any] = {}
        #: points are added once: a press on a button and the timer may look at the same time
        self.looking = asyncio.Lock()

    async def build(self) -> None:
        """Draw the page."""
        self.found = await offload(self.read)
        run, _, _ = self.found
        lead = "A separate process: it continues when the page or the studio is closed."
        with page(self.studio, "/runs", "Run", lead if run.state not in FINAL else "") as aside:
            with aside:
                ui.button("All runs", icon="arrow_back", on_click=lambda: ui.navigate.to("/runs")).props(
                    "outline"
                )
                ui.button("New run", icon="add", on_click=lambda: ui.navigate.to("/method")).props("flat")
            self.show()
            MarksCard(self.studio, run).build()
            LineageCard(self.studio, run.id).build()
        self.seen = self.print_of(run)
        self.timer = ui.timer(EVERY, self.look)

    # ---- updating ---------------------------------------------------------------------------------

    def read(self) -> tuple[Run, PathPoints, Log]:
        """The run, its path so far, and its log."""
        run = self.studio.run(self.run_id)
        return run, self.studio.points(run.id, 0), self.studio.log(run.id)

    @staticmethod
    def print_of(run: Run) -> Any:
        """What the page shows, for later comparison."""
        return run.state, run.cancelling, run.name, len(run.metrics)

    async def look(self) -> None:
        """Show changes since the last update."""
        async with self.looking:
            try:
                run = await offload(self.studio.run, self.run_id)
                if self.print_of(run) != self.seen:
                    self.found = await offload(self.read)
                    self.seen = self.print_of(self.found[0])
                    self.show.refresh()
                elif run.state not in FINAL:
                    self.update(run, await offload(self.studio.points, run.id, self.live.last))
            except InputError:  # deleted in another window
                # only once: a page that takes its time would be asked for again before it comes
                if self.timer.active:
                    self.timer.deactivate()
                    ui.navigate.to("/runs")

    def update(self, run: Run, points: PathPoints) -> None:
        """Update the run that is shown, without rebuilding it."""
        parts = self.detail
        if "progress" not in parts:
            return
        share = run.done / run.total if run.total else 0.0
        parts["progress"].style(f"width: {100 * share:.1f}%")
        parts["meter"].props["aria-valuenow"] = str(round(100 * share))
        parts["steps"].set_text(progress_line(run) or STATES[run.state][0])
        parts["step"].set_text(run.step)
        self.live.add(points)
        if "late" in parts:
            parts["late"].set_visibility(is_late(run))

    # ---- one run ----------------------------------------------------------------------------------

    @ui.refreshable_method
    def show(self) -> None:
        """Progress and path, or the result."""
        self.live = LivePath()
        for key in ("progress", "steps", "step", "meter", "late"):
            self.detail.pop(key, None)
        run, points, log = self.found
        with card(run.name) as aside:
            with aside:
                state_tag(run)
            if run.state not in FINAL:
                self.going(run)
            else:
                self.ended(run)
            self.live.add(points)
            if run.state not in FINAL or (self.live.points and not run.summary):
                self.live.build()
            self.log(run, log)

    def going(self, run: Run) -> None:
        """Progress, and a way to stop."""
        share = run.done / run.total if run.total else 0.0
        with (
            ui.element("div")
            .classes("kw-progress")
            .props("role=progressbar aria-valuemin=0 aria-valuemax=100") as meter
        ):
            meter.props["aria-label"] = "Progress"
            meter.props["aria-valuenow"] = str(round(100 * share))
            self.detail["progress"] = ui.element("div").style(f"width: {100 * share:.1f}%")
        self.detail["meter"] = meter
        with ui.element("div").classes("kw-row").style("justify-content: space-between"):
            with stack("kw-stack tight"):
                self.detail["steps"] = text(progress_line(run) or STATES[run.state][0]).style(
                    "font-weight: 500"
                )
                self.detail["step"] = text(run.step).classes("kw-hint")

            async def stop() -> None:
                await offload(self.studio.cancel, run.id)
                await self.look()

            button = ui.button("Stop", icon="stop", on_click=guarded(stop)).props("outline")
            button.set_enabled(not run.cancelling)
        expected = run.request.expected
        if expected is not None:
            text(f"Expected: {span(expected.low)} to {span(expected.high)}. {expected.sure}").classes(
                "kw-hint"
            )
            late = note(
                f"This takes longer than expected (at most {span(expected.high)}). You may stop it: the folds that are "
                "complete are kept, and choose the model.",
                "warn",
            )
            late.set_visibility(is_late(run))
            self.detail["late"] = late

    def ended(self, run: Run) -> None:
        """The result, or why there is none."""
        if run.reason:
            note(run.reason, "bad" if run.state == "failed" else "warn")
        if run.metrics:
            with stack("kw-stats"):
                for metric in run.metrics:
                    stat(score(metric.value), metric.name, plus_minus(metric.spread))
        if run.summary is not None:
            found = run.summary
            text(
                f"{found.n_active} of {plural(found.n_kernels, 'kernel')} {has(found.n_active)} a weight. "
                f"{found.regularization}, relative gap "
                f"{found.rel_gap or 0:.1e}, {found.status}; it {progress_line(run)}."
            ).classes("kw-hint")
        with ui.element("div").classes("kw-row"):
            if run.summary is not None:
                ui.button(
                    "Understand",
                    icon="insights",
                    on_click=lambda: ui.navigate.to(f"/understand?run={run.id}"),
                ).props("unelevated")
                ui.button("Use", icon="output", on_click=lambda: ui.navigate.to(f"/use?run={run.id}")).props(
                    "outline"
                )
            ui.button("Settings as a draft", icon="edit", on_click=guarded(lambda: self.again(run))).props(
                "flat"
            )
            ui.button("Delete", icon="delete", on_click=lambda: self.delete(run)).props("flat color=negative")

    async def again(self, run: Run) -> None:
        """Take the settings of a run as a draft."""
        await offload(self.studio.set_draft, Draft(data=run.request.data, spec=run.request.spec))
        ui.navigate.to("/method")

    def delete(self, run: Run) -> None:
        """Ask, then delete."""

        async def do() -> None:
            await offload(self.studio.delete, run.id)
            await self.look()

        about = f"{run.name}, with its model and its files."
        ask("Delete this run?", about, "Delete", do, keep="Keep it")

    def log(self, run: Run, found: Log) -> None:
        """Events and output of the run."""
        opened = run.state == "failed"
        with ui.expansion("Log", value=opened).props("dense"):
            lines = [f"{time.strftime('%H:%M:%S', time.localtime(e.time))}  {e.text}" for e in found.events]
            text("\n".join(lines), "pre").classes("kw-log").props('tabindex=0 aria-label="Events"')
            if opened or "Traceback" in found.text:
                text(found.text, "pre").classes("kw-log").props(
                    'tabindex=0 aria-label="Output of the process"'
                )
