"""The page of runs: the queue, and the path of a run while it is computed."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from kernelweave._errors import InputError
from kernelweave.studio.pages.finished import when
from kernelweave.studio.pages.live import LivePath
from kernelweave.studio.pages.place import here
from kernelweave.studio.pages.shell import (
    card,
    duration,
    empty,
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
STATES = {
    "queued": ("waiting", "", "schedule"),
    "starting": ("starting", "now", "hourglass_empty"),
    "running": ("running", "now", "autorenew"),
    "done": ("done", "good", "check"),
    "cancelled": ("stopped", "warn", "stop"),
    "failed": ("failed", "bad", "error_outline"),
}
FINAL = ("done", "cancelled", "failed")


def add(studio: Studio) -> None:
    """Add the page.

    Parameters
    ----------
    studio : Studio
    """

    @ui.page("/runs", title="Runs", response_timeout=30)
    def runs_page(run: str = "") -> None:
        _RunsPage(here(studio), run).build()


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


class _RunsPage:
    def __init__(self, studio: Studio, run_id: str) -> None:
        self.studio, self.run_id = studio, run_id
        self.seen: Any = None
        self.live = LivePath()
        self.detail: dict[str, Any] = {}

    def build(self) -> None:
        lead = "Runs are separate processes: they continue when the page or the studio is closed."
        runs = self.studio.runs()
        if runs and self.run_id not in {run.id for run in runs}:
            self.run_id = runs[0].id
        with page(self.studio, "/runs", "Runs", lead) as aside:
            with aside:
                ui.button("New run", icon="add", on_click=lambda: ui.navigate.to("/method")).props("outline")
            with stack("kw-runs"):
                self.queue()
                with stack():
                    self.show()
        self.seen = self.print_of(runs)
        ui.timer(EVERY, self.look)

    # ---- updating ---------------------------------------------------------------------------------

    @staticmethod
    def print_of(runs: list[Run]) -> Any:
        """What the list shows, for later comparison."""
        return [(r.id, r.state, r.cancelling, r.name, len(r.metrics)) for r in runs]

    def look(self) -> None:
        """Show changes since the last update."""
        runs = self.studio.runs()
        now = self.print_of(runs)
        if now != self.seen:
            old = dict((r[0], r[1:]) for r in self.seen or [])
            self.seen = now
            self.queue.refresh()
            new = dict((r[0], r[1:]) for r in now)
            if old.get(self.run_id) != new.get(self.run_id):
                self.show.refresh()
                return
        for run in runs:
            bar = self.detail.get(f"bar {run.id}")
            if bar is not None and run.total:
                bar.style(f"width: {100 * run.done / run.total:.1f}%")
            said = self.detail.get(f"said {run.id}")
            if said is not None:
                said.set_text(progress_line(run))
        chosen = next((run for run in runs if run.id == self.run_id), None)
        if chosen is not None and chosen.state not in FINAL:
            self.update(chosen)

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

    # ---- the list ---------------------------------------------------------------------------------

    @ui.refreshable_method
    def queue(self) -> None:
        runs = self.studio.runs()
        for key in [key for key in self.detail if key.startswith(("bar ", "said "))]:
            del self.detail[key]
        with card("Queue"):
            if not runs:
                empty("play_circle", "No runs yet.")
                return
            with ui.element("div").classes("kw-pick").props('role=list aria-label="Runs"'):
                for run in runs:
                    self.entry(run)

    def entry(self, run: Run) -> None:
        option = ui.element("button").classes("kw-option").props("type=button")
        option.props["aria-current"] = "true" if run.id == self.run_id else "false"
        with ui.element("div").props("role=listitem") as item:
            pass
        option.move(item)
        with option:
            with (
                ui.element("div").classes("kw-row").style("flex-wrap: nowrap; justify-content: space-between")
            ):
                text(run.name, "b").style(
                    "overflow: hidden; text-overflow: ellipsis; white-space: nowrap; min-width: 0"
                )
                state_tag(run)
            if run.state == "running":
                with ui.element("div").classes("kw-progress").style("margin: .3rem 0 .1rem"):
                    self.detail[f"bar {run.id}"] = ui.element("div").style(
                        f"width: {100 * run.done / run.total if run.total else 0:.1f}%"
                    )
                self.detail[f"said {run.id}"] = text(progress_line(run)).classes("kw-hint")
            else:
                first = run.metrics[0] if run.metrics else None
                parts = [when(run)]
                if first is not None:
                    parts.append(f"{first.name} {score(first.value, first.spread)}")
                text(" · ".join(parts), "span")

        def choose() -> None:
            self.run_id = run.id
            ui.run_javascript(f"history.replaceState(null, '', window.path_prefix + '/runs?run={run.id}')")
            self.queue.refresh()
            self.show.refresh()

        option.on("click", choose)

    # ---- one run ----------------------------------------------------------------------------------

    @ui.refreshable_method
    def show(self) -> None:
        self.live = LivePath()
        for key in ("progress", "steps", "step", "meter"):
            self.detail.pop(key, None)
        if not self.run_id:
            return
        try:
            run = self.studio.run(self.run_id)
        except InputError:
            return
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
