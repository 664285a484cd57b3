"""The page of runs: a leaderboard of all of them, or one of them."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

from nicegui import ui
from nicegui.events import ValueChangeEventArguments
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave.inspection.held_times import smallest_is_best
from kernelweave_app.runs.estimating import span
from kernelweave_app.runs.lineage import Lineage
from kernelweave_app.studio.looking import shorten
from kernelweave_app.studio.pages.charts import figure, live_chart
from kernelweave_app.studio.pages.frame import page
from kernelweave_app.studio.pages.naming import score_name
from kernelweave_app.studio.pages.pieces import (
    card,
    confirm,
    dropdown,
    empty,
    guarded,
    hint,
    icon_button,
    later,
    note,
    nothing,
    once,
    pick_row,
    plural,
    redraw,
    said,
    score,
    simple_table,
    size,
    stack,
    stat,
    tag,
    text,
    turner,
    verbatim,
    word_button,
)
from kernelweave_app.studio.schema import (
    LONGEST_NOTE,
    LONGEST_TAG,
    MOST_TAGS,
    Draft,
    Log,
    Marks,
    PathPoint,
    PathPoints,
    Run,
)
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import FINAL, free_name

#: Columns by which runs can be sorted, and whether the largest comes first at the beginning.
ORDERS = {"name": False, "score": True, "method": False, "table": False, "seconds": False, "created": True}


@dataclass(frozen=True)
class Wanted:
    """What is looked for.

    Attributes
    ----------
    text : str
        Part of the name, the tags, the note, the learner or the table.
    method, table, state, tag : str
        Empty for all.
    least : float or None
        Of runs that are at least so good; of errors at most so large.
    score : str
        The score that is shown; empty for the most frequent one.
    order : str
        One of `ORDERS`.
    backwards : bool
    """

    text: str = ""
    method: str = ""
    table: str = ""
    state: str = ""
    tag: str = ""
    least: float | None = None
    score: str = ""
    order: str = "created"
    backwards: bool = True

    @property
    def narrow(self) -> bool:
        """Whether anything is left out."""
        return any((self.text, self.method, self.table, self.state, self.tag)) or self.least is not None


def scores_of(runs: Iterable[Run]) -> list[str]:
    """Names of the scores of runs, the most frequent first."""
    counts = Counter(metric.name for run in runs for metric in run.metrics)
    # of equally frequent ones the first, which is of rows that were held out
    return [name for name, _ in counts.most_common()]


def value_of(run: Run, score: str) -> float | None:
    """A score of a run, None if it has no such score."""
    return next((metric.value for metric in run.metrics if metric.name == score), None)


def table_of(run: Run, names: Mapping[str, str]) -> str:
    """Names of the tables of a run."""
    return ", ".join(names.get(table, "deleted table") for table in run.request.data.tables)


def seconds_of(run: Run) -> float | None:
    """Seconds that a run took."""
    return None if run.started is None or run.finished is None else run.finished - run.started


def select(runs: Sequence[Run], wanted: Wanted, names: Mapping[str, str]) -> list[Run]:
    """Runs that are looked for, pinned ones first.

    Parameters
    ----------
    runs : sequence of Run
    wanted : Wanted
    names : mapping
        Names of tables by their ids.

    Returns
    -------
    list of Run
        Those without the value that they are sorted by are last, whatever the direction.
    """
    found = [(_key(run, wanted, names), run) for run in runs if _fits(run, wanted, names)]
    known: list[tuple[Any, Run]] = [pair for pair in found if pair[0] is not None]
    known.sort(key=itemgetter(0), reverse=wanted.backwards)
    ordered = [run for _, run in known] + [run for key, run in found if key is None]
    return sorted(ordered, key=lambda run: not run.marks.pinned)


def _key(run: Run, wanted: Wanted, names: Mapping[str, str]) -> float | str | None:
    values: dict[str, float | str | None] = {
        "score": value_of(run, wanted.score),
        "seconds": seconds_of(run),
        "created": run.created,
        "name": run.name.casefold(),
        "method": run.method.casefold(),
        "table": table_of(run, names).casefold(),
    }
    return values[wanted.order]


def _fits(run: Run, wanted: Wanted, names: Mapping[str, str]) -> bool:
    table = table_of(run, names)
    own: dict[str, list[str]] = {
        "method": [run.method],
        "table": [table],
        "state": [run.state],
        "tag": run.marks.tags,
    }
    if any(getattr(wanted, name) and getattr(wanted, name) not in values for name, values in own.items()):
        return False
    if wanted.least is not None:
        value = value_of(run, wanted.score)
        if value is None or (
            value > wanted.least if smallest_is_best(wanted.score) else value < wanted.least
        ):
            return False
    words = " ".join(
        [run.name, *run.marks.tags, run.marks.note, run.method, table, run.request.spec.predicted]
    )
    return all(part in words.casefold() for part in wanted.text.casefold().split())


def finished(studio: Studio) -> list[Run]:
    """Runs that have a model."""
    return [run for run in studio.runs() if run.summary is not None]


def when(run: Run) -> str:
    """Day and time of a run."""
    return time.strftime("%d %b %H:%M", time.localtime(run.created))


def titles(runs: list[Run]) -> dict[str, str]:
    """Distinct names of runs: equal names get a number."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for run in sorted(runs, key=lambda run: run.created):
        found[run.id] = free_name(run.name, taken)
        taken.add(found[run.id])
    return {run.id: found[run.id] for run in runs}


def dated(runs: list[Run]) -> dict[str, str]:
    """Choices of a select: names of runs, and when they were started."""
    named = titles(runs)
    return {run.id: f"{named[run.id]} · {when(run)}" for run in runs}


class RunPage(ABC):
    """A page about one finished run, which is chosen beside the heading.

    Parameters
    ----------
    studio : Studio
    run_id : str
        By default the newest.
    """

    path: ClassVar[str]
    title: ClassVar[str]
    lead: ClassVar[str]
    icon: ClassVar[str]

    def __init__(self, studio: Studio, run_id: str) -> None:
        self.studio, self.run_id = studio, run_id

    async def build(self) -> None:
        """Draw the page."""
        runs = {run.id: run for run in await offload(finished, self.studio)}
        with page(self.studio, self.path, self.title, self.lead) as aside:
            if not runs:
                nothing(self.icon, "No run has finished yet.", "Runs", "/runs", "play_circle")
                return
            self.run_id = self.run_id if self.run_id in runs else next(iter(runs))
            with aside:
                dropdown(
                    dated(list(runs.values())),
                    value=self.run_id,
                    label="Run",
                    on_change=lambda event: ui.navigate.to(f"{self.path}?run={event.value}"),
                ).style("width: min(26rem, 80vw)")
            try:
                await self.show(runs[self.run_id])
            except InputError as error:
                note(str(error), "bad")

    @abstractmethod
    async def show(self, run: Run) -> None:
        """Draw what is below the heading."""


def targets_card(columns: Sequence[str], rows: Sequence[Sequence[object]], targets: Sequence[str]) -> None:
    """Several targets of one row, a row of the table for each.

    Parameters
    ----------
    columns : sequence of str
        Such as "prediction a", and "row" or the key first.
    rows : sequence of rows
    targets : sequence of str
    """

    @ui.refreshable
    def one(place: int | None) -> None:
        cells = dict(zip(columns, rows[place or 0], strict=True))
        parts = ("prediction", "low", "high", "probability", "truth")
        heads = ["target", *(part for part in parts if f"{part} {targets[0]}" in cells)]
        shown = [[name, *(round_off(cells[f"{kind} {name}"]) for kind in heads[1:])] for name in targets]
        with stack("kw-scroll kw-targets").props("tabindex=0").style("max-height: 30rem"):
            simple_table(heads, shown, numbers=range(1, len(heads)), label="Targets of one row")

    with card("Targets of one row") as aside:
        with aside:
            pick_row([row[0] for row in rows], one.refresh)
        one(0)


def round_off(value: object) -> object:
    """A cell with a readable number of digits."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def check_marks(marks: dict[str, object]) -> Marks:
    """Marks of a run; wrong ones are an `InputError`."""
    try:
        return Marks.model_validate(marks)
    except ValueError:
        raise InputError(
            f"A run has at most {MOST_TAGS} tags of {LONGEST_TAG} characters, and a note of {LONGEST_NOTE}."
        ) from None


def marks_card(studio: Studio, run: Run) -> None:
    """Tags, a note and a pin of a run."""
    # what this page has stored, or found
    kept = run.marks
    with card("Tags and note") as aside:
        with aside:
            pin = ui.switch("Pinned", value=kept.pinned)
        with stack("kw-row").style("align-items: flex-start"):
            tags = ui.input("Tags, separated by commas", value=", ".join(kept.tags))
            tags.props(f"outlined dense maxlength={MOST_TAGS * (LONGEST_TAG + 2)}").classes("grow")
            words = ui.textarea("Note", value=kept.note)
            words.props(f"outlined dense autogrow maxlength={LONGEST_NOTE}").classes("grow")

    async def keep() -> None:
        nonlocal kept
        given = {"pinned": pin.value, "note": words.value or "", "tags": (tags.value or "").split(",")}
        marks, before = check_marks(given), kept
        # what was not changed here may have been changed in another window
        changed = {name: value for name, value in marks if value != getattr(before, name)}
        if changed:
            kept = marks
            await offload(studio.change_marks, run.id, **changed)

    pin.on_value_change(guarded(keep))
    tags.on("blur", guarded(keep))
    words.on("blur", guarded(keep))


def show_lineage(found: Lineage | None) -> None:
    """Tables, versions and the command of a run: what it recorded."""
    if found is None:
        return
    with card("Where these numbers come from"), stack():
        for line in found.changed:
            note(line, "warn")
        rows = [[one.name, size(one.size), one.sha256 or "unknown"] for one in found.tables]
        simple_table(["table", "size", "SHA-256 of the file"], rows, label="Tables of the run")
        versions = ", ".join(f"{name} {value}" for name, value in found.versions.items())
        hint(f"Made with {versions}; seed {found.seed}; on {found.when}.")
        if found.command:
            hint("The same again:")
            verbatim(found.command, "Command of the run")


#: Number of points from which a stage is drawn.
FEWEST = 5
#: Choices beside the classes themselves.
NEWEST = "The class that is being fitted"
MEAN = "Mean of all classes"


def outputs_of(points: Sequence[PathPoint]) -> list[str]:
    """Classes with a path of their own, in the order in which they were fitted."""
    return list(dict.fromkeys(point.output for point in points))


def chosen_points(points: Sequence[PathPoint], choice: str) -> list[PathPoint]:
    """The points of one path: of the newest stage that has some, and of one class or the mean of all.

    Parameters
    ----------
    points : sequence of PathPoint
        All of a run, in the order in which they came.
    choice : str
        A class, `NEWEST`, or `MEAN`.

    Returns
    -------
    list of PathPoint
        Of one stage; of `MEAN` one point for every alpha that all classes have reached.
    """
    stages: dict[str, dict[str, list[PathPoint]]] = {}
    for point in points:
        stages.setdefault(point.stage, {}).setdefault(point.output, []).append(point)
    n_outputs = len(outputs_of(points))
    paths: list[list[PathPoint]] = []
    for outputs in stages.values():
        if choice == MEAN:
            paths.append(_mean(list(outputs.values()), n_outputs))
        elif choice in outputs:
            paths.append(outputs[choice])
        elif choice == NEWEST:
            paths += outputs.values()
    paths = [path for path in paths if path]
    # a path that has just begun has fewer points than the one before it
    return next((path for path in reversed(paths[-2:]) if len(path) >= FEWEST), paths[-1] if paths else [])


def _mean(paths: list[list[PathPoint]], number: int) -> list[PathPoint]:
    if len(paths) < number:
        return []
    others = [{point.alpha: point for point in path} for path in paths]
    found = []
    for point in paths[-1]:
        here = [other.get(point.alpha) for other in others]
        known = [one for one in here if one is not None]
        if len(known) == number:
            kernels = dict.fromkeys(m for one in known for m in one.weights)
            weights = {m: sum(one.weights.get(m, 0.0) for one in known) / number for m in kernels}
            found.append(point.model_copy(update={"weights": weights, "output": MEAN}))
    return found


class LivePath:
    """The chart of a path that is being computed, with a choice among classes."""

    def __init__(self) -> None:
        self.points: list[PathPoint] = []
        self.kernels: list[str] = []
        self.parameter = "alpha"
        self.choice = NEWEST
        self.chart: Any = None

    @property
    def last(self) -> int:
        """Number of the last point."""
        return self.points[-1].number if self.points else 0

    def build(self) -> None:
        """Draw what there is."""
        self.title = text("Kernel weights", "h3")
        self.pick = dropdown(
            [NEWEST], value=NEWEST, label="Class", on_change=lambda event: self.turn(event.value)
        )
        self.pick.style("max-width: 18rem").set_visibility(False)
        self.chart = figure(live_chart([], [], []), "Kernel weights along the path so far")
        self.empty = empty("show_chart", "The path appears with its first points.")
        self.chart.set_visibility(False)
        self.draw()

    def turn(self, choice: str | None) -> None:
        """Show another class."""
        self.choice = choice or NEWEST
        self.draw()

    def add(self, found: PathPoints) -> None:
        """Take further points, and draw them."""
        if found.points:
            self.points += found.points
            self.kernels, self.parameter = found.kernels, found.parameter
            self.draw()

    def draw(self) -> None:
        """Draw the stage that is being computed."""
        if self.chart is None or not self.points:
            return
        outputs = outputs_of(self.points)
        options = [NEWEST, MEAN, *outputs]
        if len(outputs) > 1 and options != self.pick.options:
            self.pick.set_options(options, value=self.choice)
            self.pick.set_visibility(True)
        here = chosen_points(self.points, self.choice)
        if here:
            of = f", {here[0].output}" if here[0].output else ""
            self.title.set_text(f"Kernel weights, {here[0].stage}{of}")
        alphas = [point.alpha for point in self.points]
        redraw(self.chart, live_chart(self.kernels, here, alphas, self.parameter))
        self.empty.set_visibility(False)
        self.chart.set_visibility(True)


#: Seconds between two queries of the store.
EVERY_RUN = 0.4
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
        left = f", about {span(run.seconds_left)} left" if run.seconds_left is not None and run.done else ""
        return f"{run.done} of {run.total} steps{left}"
    if run.state in FINAL and run.started and run.finished:
        return f"took {span(run.finished - run.started)}"
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
                word_button("All runs", "arrow_back", "/runs", "outline")
                word_button("New run", "add", "/method", "flat")
            self.show()
            marks_card(self.studio, run)
            # checksums of large tables take a while
            lineage = partial(self.studio.lineage, run.id)
            later("Comparing the tables with those of the run", show_lineage, lineage)
        self.seen = self.print_of(run)
        self.timer = ui.timer(EVERY_RUN, self.look)

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
                    self.advance(run)
                    self.live.add(await offload(self.studio.points, run.id, self.live.last))
            except InputError:  # deleted in another window
                # only once: a page that takes its time would be asked for again before it comes
                if self.timer.active:
                    self.timer.deactivate()
                    ui.navigate.to("/runs")

    def advance(self, run: Run) -> None:
        """Show how far the run is, without rebuilding anything."""
        parts = self.detail
        if not parts:
            return
        share = run.done / run.total if run.total else 0.0
        parts["progress"].style(f"width: {100 * share:.1f}%")
        parts["meter"].props["aria-valuenow"] = str(round(100 * share))
        parts["steps"].set_text(progress_line(run) or STATES[run.state][0])
        parts["step"].set_text(run.step)
        if "late" in parts:
            parts["late"].set_visibility(is_late(run))

    # ---- one run ----------------------------------------------------------------------------------

    @ui.refreshable_method
    def show(self) -> None:
        """Progress and path, or the result."""
        self.live = LivePath()
        self.detail.clear()
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
        parts = self.detail
        parts["meter"] = stack("kw-progress", "Progress")
        with parts["meter"].props("role=progressbar aria-valuemin=0 aria-valuemax=100"):
            parts["progress"] = ui.element("div")
        with stack("kw-row").style("justify-content: space-between"):
            with stack("kw-stack tight"):
                parts["steps"] = text("").style("font-weight: 500")
                parts["step"] = hint("")

            async def stop() -> None:
                await offload(self.studio.cancel, run.id)
                await self.look()

            button = word_button("Stop", "stop", guarded(stop), "outline")
            button.set_enabled(not run.cancelling)
        expected = run.request.expected
        if expected is not None:
            hint(f"Expected: {span(expected.low)} to {span(expected.high)}. {expected.sure}")
            parts["late"] = note(
                f"This takes longer than expected (at most {span(expected.high)}). You may stop it: the folds that are "
                "complete are kept, and choose the model.",
                "warn",
            )
        self.advance(run)

    def ended(self, run: Run) -> None:
        """The result, or why there is none."""
        if run.reason:
            note(run.reason, "bad" if run.state == "failed" else "warn")
        if run.metrics:
            with stack("kw-stats"):
                for metric in run.metrics:
                    stat(score(metric), score_name(metric.name, [run]))
        if run.summary is not None:
            found = run.summary
            active = plural(found.n_active, "has", "have")
            hint(
                f"Of {plural(found.n_kernels, 'kernel')}, {active} a weight. {found.regularization}, relative gap "
                f"{found.rel_gap or 0:.1e}, {found.status}; it {progress_line(run)}."
            )
        with stack("kw-row"):
            if run.summary is not None:
                word_button("Understand", "insights", f"/understand?run={run.id}", "unelevated")
                word_button("Use", "output", f"/use?run={run.id}", "outline")
            word_button("Settings as a draft", "edit", guarded(lambda: self.again(run)), "flat")
            word_button("Delete", "delete", lambda: self.delete(run), "flat color=negative")

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
        confirm("Delete this run?", about, "Delete", do, keep="Keep it")

    def log(self, run: Run, found: Log) -> None:
        """Events and output of the run."""
        opened = run.state == "failed"
        with ui.expansion("Log", value=opened).props("dense"):
            lines = [f"{time.strftime('%H:%M:%S', time.localtime(e.time))}  {e.text}" for e in found.events]
            verbatim("\n".join(lines), "Events")
            if opened or "Traceback" in found.text:
                verbatim(found.text, "Output of the process")


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


def runs_page(studio: Studio, asked: Mapping[str, str]) -> OneRun | Board:
    """The run that is asked for, or all of them."""
    try:
        return OneRun(studio, studio.run(asked.get("run", "")).id)
    except InputError:
        return Board(studio)


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
        self.take(await offload(self.studio.runs))
        self.tables = {ref.id: ref.name for ref in await offload(self.studio.tables)}
        lead = "All runs with their scores. They are separate processes, and go on when the page is closed."
        with page(self.studio, "/runs", "Runs", lead) as aside:
            with aside:
                word_button("New run", "add", "/method", "outline")
            with card():
                if not self.runs:
                    empty("play_circle", "No runs yet. Start one on the page Method.")
                else:
                    self.filters()
                    self.board()
        ui.timer(EVERY, self.look)

    def take(self, runs: list[Run]) -> None:
        """Take a list of runs."""
        self.runs, self.seen = runs, self.print_of(runs)
        if not self.wanted.score and (scores := scores_of(runs)):
            turned = self.wanted.order == "score" and smallest_is_best(scores[0])
            self.wanted = replace(self.wanted, score=scores[0], backwards=self.wanted.backwards != turned)

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
        before, self.wanted = self.wanted, replace(self.wanted, **values)
        if smallest_is_best(before.score) != smallest_is_best(self.wanted.score) and before.order == "score":
            # the best of the other score stay at the same end
            self.wanted = replace(self.wanted, backwards=not before.backwards)
        self.first = 0
        if "order" in values:
            self.sorter.set_value(self.wanted.order)
        if self.wanted.backwards != before.backwards or "order" in values:
            self.direction.refresh()
        self.board.refresh()

    def filters(self) -> None:
        """Search, filters, the score that is shown, and the order."""

        def pick(label: str, name: str) -> None:
            def choose(event: ValueChangeEventArguments) -> None:
                if (event.value or "") != getattr(self.wanted, name):
                    self.want(**{name: event.value or ""})

            self.picks[name] = dropdown({}, label=label, on_change=choose)

        with stack("kw-filters"):
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
            with stack("kw-sorter"):
                self.sorter = dropdown(
                    COLUMNS, value=self.wanted.order, label="Sort by", on_change=self.sort_by
                )
                self.direction()
        self.offer()

    def offer(self) -> None:
        """Offer what the runs of now have."""
        found: dict[str, dict[str, str]] = {
            "score": {name: score_name(name, self.runs) for name in scores_of(self.runs)},
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
            self.turn(event.value)

    @ui.refreshable_method
    def direction(self) -> None:
        """The direction of the order, for screens too narrow for headings."""
        icon, now = ("south", "descending") if self.wanted.backwards else ("north", "ascending")
        icon_button(icon, f"Sort the other way round, now {now}", partial(self.turn, self.wanted.order))

    def turn(self, name: str) -> None:
        """Sort by a column, or the other way round."""
        backwards = ORDERS[name] and not (name == "score" and smallest_is_best(self.wanted.score))
        if self.wanted.order == name:
            backwards = not self.wanted.backwards
        self.want(order=name, backwards=backwards)

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
            if len(found) > 1 and self.wanted.score.endswith("held out"):
                hint(
                    "Whoever chooses the best of several runs by the score of held-out rows makes that score too good. "
                    "Keep other rows for the last look."
                )
            if len(found) > PAGE:
                with stack("kw-end"):
                    turner(self.first, PAGE, len(found), "run", self.go_on)

    def choose_all(self, found: list[Run]) -> None:
        """A box for all runs that are looked for."""
        every = all(run.id in self.chosen for run in found)
        label = f"Choose {'the run' if len(found) == 1 else f'all {len(found)} runs'}"
        self.box(label, every, found, self.board.refresh)

    def box(self, label: str, value: bool, runs: list[Run], then: Callable[[], object]) -> None:
        """A box that chooses some runs."""

        def choose(event: ValueChangeEventArguments) -> None:
            for run in runs:
                self.chosen.pop(run.id, None)
                if event.value:
                    self.chosen[run.id] = None
            then()

        box = ui.checkbox(value=value, on_change=choose).props("dense")
        box.props["aria-label"] = label

    def heading(self, name: str, label: str) -> None:
        """The heading of a column, which sorts."""
        mine = self.wanted.order == name
        head = ui.element("th").props("scope=col").classes("num" if name in ("score", "seconds") else "")
        if mine:
            head.props["aria-sort"] = "descending" if self.wanted.backwards else "ascending"
        arrow = ("↓" if self.wanted.backwards else "↑") if mine else ""
        label = score_name(self.wanted.score, self.runs) or label if name == "score" else label
        with head:
            button = ui.element("button").classes("kw-sort").props("type=button")
            with button:
                text(f"{label} {arrow}".strip(), "span")
            button.on("click", partial(self.turn, name))

    def row(self, run: Run) -> None:
        """One run."""
        with ui.element("tr").classes("pinned" if run.marks.pinned else ""):
            with ui.element("td").classes("pick"):
                self.box(f"Choose {run.name}", run.id in self.chosen, [run], self.actions.refresh)
            with ui.element("td").classes("name"):
                self.name(run)
            metric = next((m for m in run.metrics if m.name == self.wanted.score), None)
            self.cell(score_name(self.wanted.score, self.runs) or "score", score(metric), "num strong")
            self.cell("learner", run.method)
            self.cell("table", f"{table_of(run, self.tables)}: {run.request.spec.predicted}")
            seconds = seconds_of(run)
            self.cell("took", span(seconds) if run.state in FINAL and seconds is not None else "–", "num")
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
        with stack("kw-runname"):

            async def turn() -> None:
                await offload(self.studio.change_marks, run.id, pinned=not run.marks.pinned)
                await self.look()

            icon, word = ("push_pin", "Unpin") if run.marks.pinned else ("o_push_pin", "Pin")
            pin = icon_button(icon, f"{word} {run.name}", guarded(turn), "size=sm")
            pin.props["aria-pressed"] = "true" if run.marks.pinned else "false"
            with stack("kw-stack tight"):
                ui.link(run.name, f"/runs?run={run.id}").classes("kw-runlink")
                with stack("kw-row").style("gap: .3rem"):
                    state_tag(run)
                    for one in run.marks.tags:
                        tag(shorten(one, SHORT_TAG), "", "sell").props["title"] = one
                if run.state == "running":
                    with stack("kw-progress"):
                        share = 100 * run.done / run.total if run.total else 0
                        bar = ui.element("div").style(f"width: {share:.1f}%")
                    self.going[run.id] = bar, hint(progress_line(run))
                if run.marks.note:
                    hint(shorten(run.marks.note.replace("\n", " "), SHORT_NOTE))

    def go_on(self, by: int) -> None:
        """Show earlier or later runs."""
        self.first += by
        self.board.refresh()

    # ---- what is done with several ----------------------------------------------------------------

    @ui.refreshable_method
    def actions(self, found: list[Run]) -> None:
        """How many there are, and what can be done with those that are chosen."""
        count = len(self.chosen)
        with stack("kw-row").style("justify-content: space-between; min-height: 2.2rem"):
            what = plural(len(found), "run")
            if self.wanted.narrow:
                what = f"{len(found)} of {plural(len(self.runs), 'run')}"
            hint(f"{what}; {count} chosen" if count else what).props("role=status")
            if not count:
                return
            with stack("kw-row"):
                word_button("Compare", "balance", guarded(self.compare), "outline dense")
                if self.studio.mlflow_folder is not None:
                    once("To MLflow", "ios_share", self.export, "outline dense")
                word_button("Delete", "delete", self.delete, "flat dense color=negative")

    def with_models(self, what: str) -> list[str]:
        """Those that are chosen and have a model; none is an error."""
        done = [run.id for run in self.runs if run.id in self.chosen and run.summary is not None]
        if not done:
            raise InputError(f"None of these runs has a model to {what}.")
        return done

    def compare(self) -> None:
        """Compare what is chosen."""
        done = self.with_models("compare")
        if len(done) > MOST_COMPARED:
            raise InputError(f"{len(done)} runs are too many side by side: choose up to {MOST_COMPARED}.")
        ui.navigate.to(f"/compare?runs={','.join(done)}")

    def delete(self) -> None:
        """Ask, then delete what is chosen."""
        chosen = [run for run in self.runs if run.id in self.chosen]
        ended = [run for run in chosen if run.state in FINAL]
        going = len(chosen) - len(ended)
        if not ended:
            said(InputError("None of these runs has ended. Stop them first."))
            return
        names = ", ".join(shorten(run.name, 60) for run in ended[:5])
        more = f" and {len(ended) - 5} more" if len(ended) > 5 else ""
        stay = plural(going, "run that has not ended stays", "runs that have not ended stay")
        rest = f" {stay}." if going else ""

        async def do() -> None:
            # some may have been deleted in another window
            there = {run.id for run in await offload(self.studio.runs)}
            for run in ended:
                if run.id in there:
                    await offload(self.studio.delete, run.id)
            self.chosen = {}
            await self.look()

        about = f"{names}{more}, with their models and files.{rest}"
        confirm(f"Delete {plural(len(ended), 'run')}?", about, "Delete", do)

    async def export(self) -> None:
        """Write what is chosen to MLflow."""
        done = self.with_models("export")
        for run_id in done:
            await offload(self.studio.export_to_mlflow, run_id)
        ui.notify(f"{plural(len(done), 'run')} written to {self.studio.mlflow_folder}", type="positive")
