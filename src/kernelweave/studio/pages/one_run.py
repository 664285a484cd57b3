"""One run: its progress and its path while it is computed, its result, what was used, and what is written about it."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from kernelweave._errors import InputError
from kernelweave.runs.estimating import span
from kernelweave.studio.pages.live import LivePath
from kernelweave.studio.pages.run_cards import LineageCard, MarksCard
from kernelweave.studio.pages.shell import (
    card,
    duration,
    guarded,
    note,
    page,
    score,
    stack,
    stat,
    tag,
    text,
)
from kernelweave.studio.schema import Run
from kernelweave.studio.service import Studio

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
FINAL = ("done", "cancelled", "failed")


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

    async def build(self) -> None:
        """Draw the page."""
        run = self.studio.run(self.run_id)
        lead = "A separate process: it continues when the page or the studio is closed."
        with page(self.studio, "/runs", "Run", lead if run.state not in FINAL else "") as aside:
            with aside:
                ui.button("All runs", icon="arrow_back", on_click=lambda: ui.navigate.to("/runs")).props(
                    "outline"
                )
                ui.button("New run", icon="add", on_click=lambda: ui.navigate.to("/method")).props("flat")
            self.show()
            MarksCard(self.studio, run).build()
            await LineageCard(self.studio, run.id).build()
        self.seen = self.print_of(run)
        ui.timer(EVERY, self.look)

    # ---- updating ---------------------------------------------------------------------------------

    @staticmethod
    def print_of(run: Run) -> Any:
        """What the page shows, for later comparison."""
        return run.state, run.cancelling, run.name, len(run.metrics)

    def look(self) -> None:
        """Show changes since the last update."""
        try:
            run = self.studio.run(self.run_id)
        except InputError:  # deleted in another window
            ui.navigate.to("/runs")
            return
        if self.print_of(run) != self.seen:
            self.seen = self.print_of(run)
            self.show.refresh()
        elif run.state not in FINAL:
            self.update(run)

    def update(self, run: Run) -> None:
        """Update the run that is shown, without rebuilding it."""
        parts = self.detail
        if "progress" not in parts:
            return
        share = run.done / run.total if run.total else 0.0
        parts["progress"].style(f"width: {100 * share:.1f}%")
        parts["meter"].props["aria-valuenow"] = str(round(100 * share))
        parts["steps"].set_text(progress_line(run) or STATES[run.state][0])
        parts["step"].set_text(run.step)
        self.live.add(self.studio.points(run.id, self.live.last))
        if "late" in parts:
            parts["late"].set_visibility(is_late(run))

    # ---- one run ----------------------------------------------------------------------------------

    @ui.refreshable_method
    def show(self) -> None:
        """Progress and path, or the result."""
        self.live = LivePath()
        for key in ("progress", "steps", "step", "meter", "late"):
            self.detail.pop(key, None)
        run = self.studio.run(self.run_id)
        with card(run.name) as aside:
            with aside:
                state_tag(run)
            if run.state not in FINAL:
                self.going(run)
            else:
                self.ended(run)
            self.live.add(self.studio.points(run.id, 0))
            if run.state not in FINAL or (self.live.points and not run.summary):
                self.live.build()
            self.log(run)

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

            def stop() -> None:
                self.studio.cancel(run.id)
                self.look()

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
                    spread = f"± {metric.spread:.3f}" if metric.spread is not None else ""
                    stat(score(metric.value), metric.name, spread)
        if run.summary is not None:
            found = run.summary
            text(
                f"{found.n_active} of {found.n_kernels} kernels have a weight. {found.regularization}, relative gap "
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

    def again(self, run: Run) -> None:
        """Take the settings of a run as a draft."""
        from kernelweave.studio.schema import Draft

        self.studio.set_draft(Draft(data=run.request.data, spec=run.request.spec))
        ui.navigate.to("/method")

    def delete(self, run: Run) -> None:
        """Ask, then delete."""
        with ui.dialog() as dialog, ui.card():
            text("Delete this run?", "h2")
            text(f"{run.name}, with its model and its files.")

            def do() -> None:
                dialog.close()
                self.studio.delete(run.id)
                ui.navigate.to("/runs")

            with ui.element("div").classes("kw-end").style("width: 100%"):
                ui.button("Keep it", on_click=dialog.close).props("flat")
                ui.button("Delete", on_click=guarded(do)).props("unelevated color=negative")
        dialog.open()

    def log(self, run: Run) -> None:
        """Events and output of the run."""
        found = self.studio.log(run.id)
        opened = run.state == "failed"
        with ui.expansion("Log", value=opened).props("dense"):
            lines = [f"{time.strftime('%H:%M:%S', time.localtime(e.time))}  {e.text}" for e in found.events]
            text("\n".join(lines), "pre").classes("kw-log").props('tabindex=0 aria-label="Events"')
            if opened or "Traceback" in found.text:
                text(found.text, "pre").classes("kw-log").props(
                    'tabindex=0 aria-label="Output of the process"'
                )
