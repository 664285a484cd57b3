"""The page of runs: a leaderboard of all of them, or one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave_app.studio.leaderboard import (
    ORDERS,
    Wanted,
    scores_of,
    seconds_of,
    select,
    small_is_good,
    table_of,
)
from kernelweave_app.studio.pages.finished import when
from kernelweave_app.studio.pages.one_run import STATES, OneRun, progress_line, state_tag
from kernelweave_app.studio.pages.place import here
from kernelweave_app.studio.pages.run_cards import ask
from kernelweave_app.studio.pages.shell import (
    card,
    duration,
    empty,
    guarded,
    once,
    page,
    plural,
    said,
    score,
    stack,
    tag,
    text,
)
from kernelweave_app.studio.schema import Run
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import FINAL

if TYPE_CHECKING:
    from nicegui.events import ValueChangeEventArguments

#: Seconds between two queries of the store.
EVERY = 0.8
#: Runs on one page of the list.
PAGE = 25
#: Runs that are compared at once.
MOST_COMPARED = 8
#: Characters of a tag and of a note in the list; the page of the run has all of them.
SHORT_TAG, SHORT_NOTE = 24, 90
COLUMNS = {
    "name": "Run",
    "score": "Score",
    "method": "Learner",
    "table": "Table",
    "seconds": "Took",
    "created": "Started",
}


def add(studio: Studio) -> None:
    """Add the page.

    Parameters
    ----------
    studio : Studio
    """

    @ui.page("/runs", title="Runs", response_timeout=30)
    async def runs_page(run: str = "") -> None:
        inside, known = here(studio), False
        if run:
            try:
                known = bool(inside.run(run))
            except InputError:
                known = False
        if known:
            await OneRun(inside, run).build()
        else:
            await Board(inside).build()


class Board:
    """The leaderboard.

    Parameters
    ----------
    studio : Studio
    """

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.wanted = Wanted()
        self.chosen: dict[str, None] = {}
        self.first = 0
        self.seen: Any = None
        self.runs: list[Run] = []
        self.tables: dict[str, str] = {}
        self.going: dict[str, tuple[Any, Any]] = {}
        self.picks: dict[str, Any] = {}
        self.leaving = False
        #: the newest list is read last: a press on a button and the timer may look at the same time
        self.looking = asyncio.Lock()

    async def build(self) -> None:
        """Draw the page."""
        await self.read()
        lead = "All runs with their scores. They are separate processes, and go on when the page is closed."
        with page(self.studio, "/runs", "Runs", lead) as aside:
            with aside:
                ui.button("New run", icon="add", on_click=lambda: ui.navigate.to("/method")).props("outline")
            with card():
                if not self.runs:
                    empty("play_circle", "No runs yet. Start one on the page Method.")
                else:
                    self.filters()
                    self.board()
        ui.timer(EVERY, self.look)

    async def read(self) -> None:
        """Read runs and names of tables."""
        self.take(await offload(self.studio.runs))
        self.tables = {ref.id: ref.name for ref in await offload(self.studio.tables)}

    def take(self, runs: list[Run]) -> None:
        """Take a list of runs."""
        self.runs, self.seen = runs, self.print_of(runs)
        if not self.wanted.score and (scores := scores_of(runs)):
            self.wanted = replace(self.wanted, score=scores[0])

    @staticmethod
    def print_of(runs: list[Run]) -> Any:
        """What the list shows, for later comparison."""
        return [(r.id, r.state, r.cancelling, r.name, len(r.metrics), r.marks) for r in runs]

    async def look(self) -> None:
        """Show changes since the last update."""
        async with self.looking:
            runs = await offload(self.studio.runs)
            if self.print_of(runs) != self.seen:
                self.take(runs)
                # filters are there if there were runs when the page was drawn
                if bool(self.picks) != bool(runs):
                    if not self.leaving:
                        ui.navigate.to("/runs")
                    self.leaving = True
                elif runs:
                    self.offer()
                    self.board.refresh()
                return
        for run in runs:
            if run.id in self.going and run.total:
                bar, words = self.going[run.id]
                bar.style(f"width: {100 * run.done / run.total:.1f}%")
                words.set_text(progress_line(run))

    # ---- what is looked for -----------------------------------------------------------------------

    def want(self, **values: Any) -> None:
        """Change what is looked for."""
        self.wanted = replace(self.wanted, **values)
        self.first = 0
        if "order" in values:
            self.sorter.set_value(self.wanted.order)
            self.direction.refresh()
        self.board.refresh()

    def filters(self) -> None:
        """Search, filters, the score that is shown, and the order."""

        def pick(label: str, name: str) -> None:
            def choose(event: ValueChangeEventArguments) -> None:
                if (event.value or "") != getattr(self.wanted, name):
                    self.want(**{name: event.value or ""})

            self.picks[name] = ui.select({}, label=label, on_change=choose).props(
                "outlined dense options-dense"
            )

        with ui.element("div").classes("kw-filters"):
            ui.input(
                "Search",
                placeholder="name, tag, note, learner, table",
                on_change=lambda event: self.want(text=event.value or ""),
            ).props("outlined dense clearable debounce=250").classes("wide")
            pick("Score", "score")

            def bound(event: ValueChangeEventArguments) -> None:
                self.want(least=event.value)

            self.least = (
                ui.number("Limit", on_change=bound)
                .props("outlined dense clearable debounce=400 step=any")
                .tooltip("Runs that score at least this; of errors, at most this")
            )
            pick("Learner", "method")
            pick("Table", "table")
            pick("State", "state")
            pick("Tag", "tag")
            with ui.element("div").classes("kw-sorter"):
                self.sorter = ui.select(
                    COLUMNS, value=self.wanted.order, label="Sort by", on_change=self.sort_by
                ).props("outlined dense options-dense")
                self.direction()
        self.offer()

    def offer(self) -> None:
        """Offer what the runs of now have."""
        found: dict[str, dict[str, str]] = {
            "score": {name: name for name in scores_of(self.runs)},
            "method": {name: name for name in sorted({run.method for run in self.runs})},
            "table": {name: name for name in sorted({table_of(run, self.tables) for run in self.runs})},
            "state": {run.state: STATES[run.state][0] for run in self.runs},
            "tag": {name: name for name in sorted({tag for run in self.runs for tag in run.marks.tags})},
        }
        for name, options in found.items():
            now = getattr(self.wanted, name)
            every = {} if name == "score" else {"": "all"}
            # what is chosen stays, also if no run has it any more
            kept = {now: STATES[now][0] if name == "state" else now} if now else {}
            options = {**every, **options, **kept}
            pick = self.picks[name]
            if pick.options != options:
                pick.set_options(options, value=now if now in options else None)
            pick.set_visibility(len(options) > 1 or name not in ("score", "tag") or bool(now))
        self.least.set_visibility(bool(found["score"]))

    def sort_by(self, event: ValueChangeEventArguments) -> None:
        """Sort by a column that is chosen from a list."""
        # it follows the headings of the columns too
        if event.value != self.wanted.order:
            self.turn(event.value)()

    @ui.refreshable_method
    def direction(self) -> None:
        """The direction of the order, for screens too narrow for headings."""
        icon, now = ("south", "descending") if self.wanted.backwards else ("north", "ascending")
        button = ui.button(icon=icon, on_click=self.turn(self.wanted.order)).props("flat round dense")
        button.props["aria-label"] = f"Sort the other way round, now {now}"

    def turn(self, name: str) -> Callable[[], None]:
        """Sort by a column, or the other way round."""

        def do() -> None:
            backwards = ORDERS[name] and not (name == "score" and small_is_good(self.wanted.score))
            if self.wanted.order == name:
                backwards = not self.wanted.backwards
            self.want(order=name, backwards=backwards)

        return do

    # ---- the list ---------------------------------------------------------------------------------

    @ui.refreshable_method
    def board(self) -> None:
        """The runs that are looked for, and what can be done with those that are chosen."""
        self.going = {}
        found = select(self.runs, self.wanted, self.tables)
        self.chosen = {name: None for name in self.chosen if name in {run.id for run in self.runs}}
        self.first = min(self.first, max(0, (len(found) - 1) // PAGE * PAGE))
        shown = found[self.first : self.first + PAGE]
        with stack():
            self.actions(found)
            if not found:
                empty("search_off", "No run is like that.")
                return
            with ui.element("table").classes("kw-table kw-board").props('aria-label="Runs"'):
                with ui.element("thead"), ui.element("tr"):
                    with ui.element("th").props("scope=col"):
                        self.choose_all(found)
                    for name, label in COLUMNS.items():
                        self.heading(name, label)
                with ui.element("tbody"):
                    for run in shown:
                        self.row(run)
            if len(found) > PAGE:
                self.pages(len(found))

    def choose_all(self, found: list[Run]) -> None:
        """A box for all runs that are looked for."""
        every = all(run.id in self.chosen for run in found)

        def choose(event: ValueChangeEventArguments) -> None:
            for run in found:
                if event.value:
                    self.chosen[run.id] = None
                else:
                    self.chosen.pop(run.id, None)
            self.board.refresh()

        box = ui.checkbox(value=every, on_change=choose).props("dense")
        box.props["aria-label"] = f"Choose {'the run' if len(found) == 1 else f'all {len(found)} runs'}"

    def heading(self, name: str, label: str) -> None:
        """The heading of a column, which sorts."""
        mine = self.wanted.order == name
        head = ui.element("th").props("scope=col").classes("num" if name in ("score", "seconds") else "")
        if mine:
            head.props["aria-sort"] = "descending" if self.wanted.backwards else "ascending"
        arrow = ("↓" if self.wanted.backwards else "↑") if mine else ""
        label = self.wanted.score or label if name == "score" else label
        with head:
            button = ui.element("button").classes("kw-sort").props("type=button")
            with button:
                text(f"{label} {arrow}".strip(), "span")
            button.on("click", self.turn(name))

    def row(self, run: Run) -> None:
        """One run."""
        with ui.element("tr").classes("pinned" if run.marks.pinned else ""):
            with ui.element("td").classes("pick"):

                def choose(event: ValueChangeEventArguments) -> None:
                    if event.value:
                        self.chosen[run.id] = None
                    else:
                        self.chosen.pop(run.id, None)
                    self.actions.refresh()

                box = ui.checkbox(value=run.id in self.chosen, on_change=choose).props("dense")
                box.props["aria-label"] = f"Choose {run.name}"
            with ui.element("td").classes("name"):
                self.name(run)
            metric = next((m for m in run.metrics if m.name == self.wanted.score), None)
            value = score(metric.value, metric.spread) if metric else "–"
            self.cell(self.wanted.score or "score", value, "num strong")
            self.cell("learner", run.method)
            self.cell("table", f"{table_of(run, self.tables)}: {run.request.spec.target}")
            seconds = seconds_of(run)
            self.cell("took", duration(seconds) if run.state in FINAL and seconds is not None else "–", "num")
            self.cell("started", when(run))

    @staticmethod
    def cell(label: str, value: str, kind: str = "") -> None:
        """A cell, with the name of its column for narrow screens."""
        cell = ui.element("td").classes(kind)
        cell.props["data-label"] = label
        with cell:
            text(value, "span")

    def name(self, run: Run) -> None:
        """Name, state, tags and note of a run."""
        with ui.element("div").classes("kw-runname"):
            pin = ui.button(icon="push_pin" if run.marks.pinned else "o_push_pin").props(
                "flat round dense size=sm"
            )
            pin.props["aria-label"] = f"{'Unpin' if run.marks.pinned else 'Pin'} {run.name}"
            pin.props["aria-pressed"] = "true" if run.marks.pinned else "false"

            async def turn() -> None:
                await offload(self.studio.change_marks, run.id, pinned=not run.marks.pinned)
                await self.look()

            pin.on_click(guarded(turn))
            with stack("kw-stack tight"):
                ui.link(run.name, f"/runs?run={run.id}").classes("kw-runlink")
                with ui.element("div").classes("kw-row").style("gap: .3rem"):
                    state_tag(run)
                    for one in run.marks.tags:
                        tag(one if len(one) <= SHORT_TAG else f"{one[: SHORT_TAG - 1]}…", "", "sell").props[
                            "title"
                        ] = one
                if run.state == "running":
                    with ui.element("div").classes("kw-progress"):
                        share = 100 * run.done / run.total if run.total else 0
                        bar = ui.element("div").style(f"width: {share:.1f}%")
                    self.going[run.id] = bar, text(progress_line(run)).classes("kw-hint")
                words = run.marks.note.replace("\n", " ")
                if words:
                    text(words if len(words) <= SHORT_NOTE else f"{words[: SHORT_NOTE - 1]}…").classes(
                        "kw-hint"
                    )

    def pages(self, number: int) -> None:
        """Earlier and later runs."""

        def go(first: int) -> Callable[[], None]:
            def do() -> None:
                self.first = first
                self.board.refresh()

            return do

        with ui.element("div").classes("kw-end"):
            text(f"{self.first + 1} to {min(self.first + PAGE, number)} of {number}").classes("kw-hint")
            before = ui.button(icon="chevron_left", on_click=go(self.first - PAGE)).props("flat round dense")
            before.props["aria-label"] = "Earlier in the list"
            before.set_enabled(self.first > 0)
            after = ui.button(icon="chevron_right", on_click=go(self.first + PAGE)).props("flat round dense")
            after.props["aria-label"] = "Further in the list"
            after.set_enabled(self.first + PAGE < number)

    # ---- what is done with several ----------------------------------------------------------------

    @ui.refreshable_method
    def actions(self, found: list[Run]) -> None:
        """How many there are, and what can be done with those that are chosen."""
        count = len(self.chosen)
        with ui.element("div").classes("kw-row").style("justify-content: space-between; min-height: 2.2rem"):
            what = plural(len(found), "run")
            if self.wanted.narrow:
                what = f"{len(found)} of {plural(len(self.runs), 'run')}"
            text(f"{what}; {count} chosen" if count else what).classes("kw-hint").props("role=status")
            if not count:
                return
            with ui.element("div").classes("kw-row"):
                ui.button("Compare", icon="balance", on_click=self.compare).props("outline dense")
                if self.studio.mlflow_folder is not None:
                    once("To MLflow", "ios_share", self.export, "outline dense")
                ui.button("Delete", icon="delete", on_click=self.delete).props("flat dense color=negative")

    def compare(self) -> None:
        """Compare what is chosen."""
        done = [run.id for run in self.runs if run.id in self.chosen and run.summary is not None]
        if not done:
            said(InputError("None of these runs has a model to compare."))
        elif len(done) > MOST_COMPARED:
            said(InputError(f"{len(done)} runs are too many side by side: choose up to {MOST_COMPARED}."))
        else:
            ui.navigate.to(f"/compare?runs={','.join(done)}")

    def delete(self) -> None:
        """Ask, then delete what is chosen."""
        chosen = [run for run in self.runs if run.id in self.chosen]
        ended = [run for run in chosen if run.state in FINAL]
        going = len(chosen) - len(ended)
        if not ended:
            said(InputError("None of these runs has ended. Stop them first."))
            return
        names = ", ".join(run.name if len(run.name) <= 60 else f"{run.name[:59]}…" for run in ended[:5])
        more = f" and {len(ended) - 5} more" if len(ended) > 5 else ""
        rest = (
            f" {plural(going, 'run')} that {'has' if going == 1 else 'have'} not ended stay." if going else ""
        )

        async def do() -> None:
            # some may have been deleted in another window
            there = {run.id for run in await offload(self.studio.runs)}
            for run in ended:
                if run.id in there:
                    await offload(self.studio.delete, run.id)
            self.chosen = {}
            await self.look()

        ask(
            f"Delete {plural(len(ended), 'run')}?",
            f"{names}{more}, with their models and files.{rest}",
            "Delete",
            do,
        )

    async def export(self) -> None:
        """Write what is chosen to MLflow."""
        done = [run.id for run in self.runs if run.id in self.chosen and run.summary is not None]
        if not done:
            raise InputError("None of these runs has a model to export.")
        for run_id in done:
            await offload(self.studio.export_to_mlflow, run_id)
        ui.notify(f"{plural(len(done), 'run')} written to {self.studio.mlflow_folder}", type="positive")
