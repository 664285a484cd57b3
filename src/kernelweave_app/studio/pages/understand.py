"""The page that explains a finished run: answers, evidence, path, weights, rows, certificate."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._drawing import (
    LOWERS_WORD,
    RAISES_WORD,
    explain_signs,
    percent,
    rounded,
    score_form,
    score_text,
)
from kernelweave._errors import InputError
from kernelweave._types import Tree
from kernelweave.estimators.choosing import not_an_estimate
from kernelweave.inspection.registry import QUESTIONS, Finding, repeated
from kernelweave_app.runs.estimating import span
from kernelweave_app.runs.spec import SURVIVAL, in_words_of
from kernelweave_app.studio.catalogue import PROSTATE
from kernelweave_app.studio.jobs import FIGURES, GOING, OF_EVIDENCE
from kernelweave_app.studio.pages import charts
from kernelweave_app.studio.pages.charts import STABILITY, stability
from kernelweave_app.studio.pages.naming import plain_names, score_name
from kernelweave_app.studio.pages.pieces import (
    bars,
    big_table,
    card,
    counted,
    dropdown,
    finding_table,
    guarded,
    hint,
    link,
    note,
    number,
    own_width,
    pick_row,
    plural,
    print_card,
    prints,
    redraw,
    score,
    simple_table,
    stack,
    stat,
    switch,
    tabbed,
    tables,
    tag,
    text,
    word_button,
)
from kernelweave_app.studio.pages.runs import RunPage, round_off, targets_card
from kernelweave_app.studio.pages.story import announced, finding_of, show_story
from kernelweave_app.studio.schema import (
    Evidence,
    EvidenceProgress,
    HeldResult,
    PathResult,
    Results,
    Run,
    Weights,
)
from kernelweave_app.studio.service import Studio
from kernelweave_papers.printed import RLS2_TABLE1

#: Kernels of one layer that are shown.
MOST_COLUMNS = 24


class ContributionsCard:
    """Contributions of kernels to the decision value of one row.

    Parameters
    ----------
    run_id : str
    results : Results
    """

    def __init__(self, run_id: str, results: Results) -> None:
        assert results.contributions is not None
        self.run_id, self.results, self.found = run_id, results, results.contributions
        self.row = self.output = 0

    def build(self) -> None:
        """Draw the card."""
        found = self.found
        which = "held-out" if found.held else "training"
        layer = " of the last layer" if self.results.weights.layers else ""
        with card(
            "Contributions to single rows",
            f"What every kernel{layer} adds to the decision value, for {plural(len(found.rows), f'{which} row')}.",
        ) as aside:
            with aside:
                pick_row(found.rows, lambda row: self.turn(row=row))
                if len(found.outputs) > 1:
                    outputs = dict(enumerate(found.outputs))
                    held = self.results.held
                    targets = self.results.task == "regression" or bool(held and held.targets)
                    dropdown(
                        outputs,
                        value=0,
                        label="Target" if targets else "Class",
                        on_change=lambda event: self.turn(output=event.value),
                    ).style("width: 9rem")
                prints(self.run_id, "contributions", "Contribution of each kernel")
            with stack("kw-two"):
                with stack():
                    self.one = charts.figure(
                        self.options(), "Contributions of kernels to one row",
                        height=f"{4 + 1.75 * (len(found.kernels) + 2):.1f}rem",
                    )  # fmt: skip
                    self.signs()
                    self.said = hint(self.describe())
                with stack():
                    self.all = charts.figure(
                        self.heat(), "Contributions of kernels to all rows",
                        f"All rows, sorted by their decision value. {explain_signs()}",
                        height=f"{4 + 1.75 * (len(found.kernels) + 2):.1f}rem",
                    )  # fmt: skip

    def turn(self, **values: Any) -> None:
        """Show another row or class."""
        for name, value in values.items():
            setattr(self, name, value or 0)
        redraw(self.one, self.options())
        redraw(self.all, self.heat())
        self.said.set_text(self.describe())

    @staticmethod
    def signs() -> None:
        """What the colours of the bars mean."""
        with stack("kw-signs").props('role=note aria-label="Colours"'):
            for kind, word in (("raises", RAISES_WORD), ("lowers", LOWERS_WORD)):
                ui.element("i").classes(f"kw-{kind}").props("aria-hidden=true")
                text(f"{word.capitalize()} {kind} the decision value", "span")

    def options(self) -> Tree:
        """One row as bars."""
        found = self.found
        return charts.contributions_chart(
            found.kernels, found.values[self.output][self.row], found.intercepts[self.output]
        )

    def describe(self) -> str:
        """The prediction for the row, and its true value."""
        held = self.results.held
        if held is None or not self.found.held or self.row >= len(held.rows):
            return ""
        row = dict(zip(held.columns, held.rows[self.row], strict=True))
        if "truth" not in row:
            return ""
        return f"Predicted {row['prediction']}, true {row['truth']}."

    def heat(self) -> Tree:
        """All rows as a heat map."""
        return charts.rows_chart(self.found.kernels, self.found.rows, self.found.values[self.output])


Charts = Mapping[str, tuple[Callable[[Tree], tuple[Tree, str]], str]]
#: Charts of findings: what draws it, and what stands below.
CHARTS: Charts = {
    "learning curve": (
        charts.learning,
        "Score of the test rows of all folds together with its 95 % interval.",
    ),
    "calibration": (
        charts.calibration,
        "Share of held-out rows in the class against their probability, with 95 % intervals; points grow with rows.",
    ),
    "permutation": (
        charts.permutation,
        "Scores with permuted targets; the line is the score with the true ones.",
    ),
}
#: Those of survival.
OF_TIMES: Charts = {
    "risk groups": (
        charts.risk_groups,
        "Share of rows without an event (Kaplan-Meier), in thirds of the rows by the risk that models of the other "
        "folds predict, with 95 % bands.",
    ),
    "survival calibration": (
        charts.survival_calibration,
        "Observed against predicted survival at one time, by groups of predictions out of fold, with 95 % intervals.",
    ),
    "survival error": (
        charts.survival_error,
        "Brier score out of fold at every time; smaller is better.",
    ),
}
#: Seconds between two looks at what is being computed.
EVERY = 1.0


class EvidenceCard:
    """Buttons that compute evidence, with progress, and its charts.

    Parameters
    ----------
    studio : Studio
    run : Run
    found : Evidence
    renewed : callable
        Is given the evidence when it has changed.
    """

    def __init__(
        self, studio: Studio, run: Run, found: Evidence, renewed: Callable[[Evidence], None]
    ) -> None:
        self.renewed = renewed
        self.studio, self.run, self.run_id, self.found = studio, run, run.id, found
        self.counts = {kind: one.usual for kind, one in repeated().items()}
        self.refit, self.max_false = True, 1.0
        #: by kind and place: the story has the next one too
        self.lines: dict[tuple[str, bool], Callable[[], object]] = {}
        #: the bar and the words of what is being computed
        self.bars: dict[tuple[str, bool], tuple[ui.linear_progress, TextElement]] = {}
        #: what was read first is not taken for newer: buttons and the timer may ask at the same time
        self.asking = asyncio.Lock()

    def build(self) -> None:
        """Draw the card."""
        about = "Each of these takes time and can be stopped; what is done is kept."
        with card("More computations", about), stack("kw-stack"):
            for kind in self.found.kinds:
                self.place(kind)
        self.parts()

    def watch(self) -> None:
        """Look at what is being computed, from now on."""
        self.timer = ui.timer(EVERY, self.look, active=self.busy())

    def busy(self) -> bool:
        """Whether something is being computed."""
        return any(one.state in GOING for one in self.found.progress.values())

    async def look(self) -> None:
        """Read the progress, and draw anew what has changed."""
        try:
            await self.ask(self.studio.evidence.read)
        except InputError:
            self.timer.deactivate()

    async def ask(self, what: Callable[..., Evidence], *given: object, **more: object) -> None:
        """Ask for something about the run, one after the other, and show the answer."""
        async with self.asking:
            self.take(await offload(what, self.run_id, *given, **more))

    def take(self, found: Evidence) -> None:
        """Draw anew what has changed; fields and buttons of what has not stay as they are."""
        before, self.found = self.found, found
        for (kind, brief), draw in list(self.lines.items()):
            old, new = before.progress.get(kind), found.progress.get(kind)
            if old == new and bool(before.numbers.get(kind)) == bool(found.numbers.get(kind)):
                continue
            if (
                old
                and new
                and (old.state, old.stopping) == (new.state, new.stopping)
                and (kind, brief) in self.bars
            ):
                self.advance(kind, new, brief)
            else:
                draw()
        if found.numbers != before.numbers:
            self.parts.refresh()
            self.paper.refresh()
            self.renewed(found)
        # the page may have been left
        if not self.timer.is_deleted:
            self.timer.active = self.busy()

    async def start(self, kind: str) -> None:
        """Begin to compute."""
        how = {"refit": self.refit, "max_false": self.max_false}
        await self.ask(self.studio.evidence.start, kind, int(self.counts[kind] or 0), **how)

    def place(self, kind: str, brief: bool = False) -> None:
        """A line that is drawn anew without the others; a brief one has no fields."""

        @ui.refreshable
        def shown() -> None:
            self.bars.pop((kind, brief), None)
            self.line(kind, brief)

        shown()
        self.lines[kind, brief] = shown.refresh

    def place_next(self, kind: str) -> None:
        """The line of the next computation, in the story."""
        for key in [key for key in self.lines if key[1]]:
            del self.lines[key]
        self.place(kind, True)

    def line(self, kind: str, brief: bool) -> None:
        """What it is, how many, a button or the progress."""
        declared = repeated()[kind]
        title, counted = declared.title, "" if brief else declared.counted
        now = self.found.progress.get(kind)
        named = f"Next: {title}" if brief else title
        with stack("kw-proof").props(f'role=group aria-label="{named}"'):
            with ui.element("div"):
                text(title, "h4" if brief else "h3")
                work = announced(self.run, self.found, kind, int(self.counts[kind] or 0), self.refit)
                hint(f"{declared.about} {work}", "p")
            with stack("kw-row"):
                if now is not None and now.state in GOING:
                    self.progress(kind, title, brief)
                    return
                if counted:
                    field = ui.number(
                        counted.capitalize(),
                        value=self.counts[kind] or None,
                        placeholder=None if declared.usual else "automatic",
                        min=2,
                        max=10_000,
                        on_change=lambda event: self.counts.update({kind: int(event.value or 0)}),
                    )
                    field.props("outlined dense").style("width: 11rem")
                if kind == "permutation" and not brief:
                    again = ui.switch("Fit again", value=self.refit).bind_value_to(self, "refit")
                    again.props["title"] = (
                        "Off: models stay, and only the targets of held-out rows are permuted"
                    )
                if kind == "stability" and not brief:
                    field = ui.number("False selections", value=self.max_false, min=0.01)
                    # one where the field is empty
                    field.bind_value_to(self, "max_false", lambda given: 1.0 if given is None else given)
                    field.props("outlined dense").style("width: 9rem")
                    field.props["title"] = "Sources that predict nothing and may be selected, on average"
                known = bool(self.found.numbers.get(kind))
                word_button(
                    "Compute again" if known and kind != "baselines" else "Compute",
                    "play_arrow",
                    guarded(lambda: self.start(kind)),
                    "outline no-caps",
                    f"Compute: {named}",
                )
            if now is not None and now.reason:
                note(now.reason, "bad" if now.state == "failed" else "warn")

    def progress(self, kind: str, title: str, brief: bool) -> None:
        """A bar, the time left, and a button that stops."""
        now = self.found.progress[kind]
        shown = ui.linear_progress(0.0, show_value=False).style("width: 12rem")
        self.bars[kind, brief] = shown, hint("", "span")
        self.advance(kind, now, brief)
        stop = word_button(
            "Stopping" if now.stopping else "Stop",
            "stop",
            guarded(lambda: self.ask(self.studio.evidence.stop, kind)),
            "outline no-caps",
            f"Stop: {title}",
        )
        stop.set_enabled(not now.stopping)

    def advance(self, kind: str, now: EvidenceProgress, brief: bool) -> None:
        """Move the bar; the button beside it stays, so that no press on it is lost."""
        bar, said = self.bars[kind, brief]
        total = max(1, now.total or len(self.found.kinds))
        bar.set_value(min(1.0, now.done / total))
        bar.props["aria-label"] = f"{repeated()[kind].title}: {now.done} of {now.total}"
        words = {"waiting": "waits for another computation", "starting": "is starting"}
        left = f", {span(now.seconds_left)} left" if now.seconds_left is not None else ""
        counted = f"{now.done} of {now.total}{left}" if now.total else f"{now.done} done{left}"
        said.set_text(words.get(now.state, counted))

    @ui.refreshable_method
    def parts(self) -> None:
        """Charts of what was computed, and downloads."""
        self.charts(CHARTS)
        self.classes()

    def charts(self, known: Charts) -> None:
        """Charts of findings, each with its sentences and its table."""
        for key, (make, caption) in known.items():
            if (found := finding_of(self.found.numbers, key)) is None:
                continue
            with print_card(found.title, self.run_id, OF_EVIDENCE[key]):
                options, tall = make(found.details)
                charts.figure(options, found.title, caption, height=tall)
                if known is OF_TIMES:
                    for one in found.sentences:
                        text(one.text, "p")
                    with ui.expansion("As a table").props("dense"):
                        for table in found.tables:
                            finding_table(table)

    @ui.refreshable_method
    def paper(self) -> None:
        """Figures and tables for print."""
        with card("For a paper"), stack():
            own_width(self.run_id, list(FIGURES))
            tables(self.run_id, self.found.tables)

    def classes(self) -> None:
        """Scores of every class with intervals."""
        tree = self.found.numbers.get("classes")
        if not tree or not tree["tables"]:
            return
        (table,) = Finding.from_json(tree).tables
        with card(table.title, table.note):
            finding_table(table)


#: Kernels listed at the cursor.
AT_CURSOR = 8


class PathCard:
    """The regularisation path with a movable cursor.

    Parameters
    ----------
    run_id : str
    results : Results
    """

    def __init__(self, run_id: str, results: Results) -> None:
        self.run_id, self.results = run_id, results
        self.which = 0
        #: "df", or the learner's own parameter.
        self.by: str = results.paths[0].parameter
        self.cursor = results.paths[0].chosen
        #: None if there is only one regularisation parameter.
        self.chart: Any = None

    @property
    def path(self) -> PathResult:
        """The path that is shown."""
        return self.results.paths[self.which]

    def build(self) -> None:
        """Draw the card."""
        with card(
            "Regularisation path",
            "Weights from strong to weak regularisation. Move the cursor to see the model there.",
        ) as aside:
            with aside:
                if len(self.results.paths) > 1:
                    names = {k: path.output for k, path in enumerate(self.results.paths)}
                    dropdown(
                        names, value=0, label="Class", on_change=lambda event: self.turn(which=event.value)
                    ).style("min-width: 9rem")
                if len(self.path.alphas) > 1 and any(d is not None for d in self.path.df):
                    axes, props = {name: name for name in (self.by, "df")}, "dense padding='2px 12px'"
                    pick = switch("Horizontal axis", axes, self.by, props)
                    pick.on_value_change(lambda event: self.turn(by=event.value))
                if len(self.path.alphas) > 1:
                    prints(self.run_id, "path", "Regularisation path")
            if len(self.path.alphas) < 2:
                hint("Only one regularisation parameter was requested: there is no path to draw.")
                self.at_cursor()
                return
            with stack("kw-wide"):
                with stack():
                    self.chart = charts.figure(self.options(), self.label())
                    # anywhere in the chart, since the points of lines are too small to be hit
                    where = f"(event) => kwAcross(event, {self.chart.id}, emit)"
                    self.chart.on("click", self.clicked, js_handler=where)
                    self.chart.style("cursor: pointer")
                    slider = ui.slider(min=0, max=len(self.path.alphas) - 1, value=self.cursor).props("label")
                    slider.props["aria-label"] = "Cursor along the path"
                    slider.props["label-value"] = self.at_cursor_text()
                    slider.on_value_change(lambda event: self.move(int(event.value)))
                    self.slider = slider
                with stack():
                    self.at_cursor()

    def at_cursor_text(self) -> str:
        """The regularisation parameter at the cursor."""
        return f"{self.path.parameter} {self.path.parameter_values[self.cursor]:.3g}"

    def label(self) -> str:
        """Description of the chart for screen readers."""
        kernels = plural(len(self.path.names), "kernel")
        return f"Weights of {kernels} along {plural(len(self.path.alphas), 'regularisation parameter')}"

    def options(self) -> Tree:
        """The chart at the cursor."""
        path = self.path
        x: list[float | None] = [*path.df] if self.by == "df" else [*path.parameter_values]
        return charts.path_chart(
            x, path.names, path.weights, by=self.by, cursor=self.cursor, chosen=path.chosen
        )

    def turn(self, **values: Any) -> None:
        """Show another path, or another horizontal axis."""
        for name, value in values.items():
            setattr(self, name, value)
        if "which" in values and self.chart is None:
            self.cursor = 0
        elif "which" in values:
            self.cursor = min(self.path.chosen, len(self.path.alphas) - 1)
            self.slider.props["max"] = len(self.path.alphas) - 1
            self.slider.set_value(self.cursor)
        self.draw()

    def move(self, cursor: int) -> None:
        """Move the cursor."""
        if cursor != self.cursor:
            self.cursor = cursor
            self.slider.props["label-value"] = self.at_cursor_text()
            self.draw()

    def clicked(self, event: Any) -> None:
        """Move the cursor to the regularisation parameter next to the place that was clicked."""
        place = event.args
        if isinstance(place, int | float):
            self.slider.set_value(self.nearest(float(place)))

    def nearest(self, place: float) -> int:
        """The position on the path that is drawn next to a place on the horizontal axis."""
        if self.by == "df":
            apart = {k: abs(d - place) for k, d in enumerate(self.path.df) if d is not None}
        else:  # drawn on a logarithmic scale
            at = math.log(max(place, sys.float_info.min))
            apart = {k: abs(math.log(value) - at) for k, value in enumerate(self.path.parameter_values)}
        return min(apart, key=lambda k: apart[k])

    def draw(self) -> None:
        """Redraw the chart and the list."""
        if self.chart is not None:
            redraw(self.chart, self.options())
        self.at_cursor.refresh()

    @ui.refreshable_method
    def at_cursor(self) -> None:
        """The model at the cursor."""
        path, k = self.path, self.cursor
        with ui.element("div").props('role=status aria-label="At the cursor"').classes("kw-stack"):
            with stack("kw-row"):
                text(f"{path.parameter} {path.parameter_values[k]:.4g}", "h3")
                if k == path.chosen:
                    tag("chosen", "now")
            with stack("kw-stats"):
                counted("kernel", path.n_active[k])
                if path.df[k] is not None:
                    stat(number(path.df[k], 3), "df")
                curve, found = self.results.curve, self.score_at(path.alphas[k])
                if found is not None and curve is not None:
                    stat(
                        score_text(curve.score, found, curve.n_rows),
                        f"{curve.score} over folds",
                        not_an_estimate(path.parameter) if k == path.chosen else "",
                    )
            values = sorted(zip(path.names, path.weights[k], strict=True), key=lambda item: -item[1])
            values = [item for item in values if item[1] > 0]
            bars(values[:AT_CURSOR], partial(percent, digits=1))
            if len(values) > AT_CURSOR:
                rest = path.n_active[k] - AT_CURSOR
                hint(
                    f"and {plural(rest, 'more kernel')} with {percent(sum(v for _, v in values[AT_CURSOR:]), 1)}"
                )
            if not values:
                hint("No kernel has a weight here.")

    def score_at(self, alpha: float) -> float | None:
        """The score over folds at an alpha."""
        curve = self.results.curve
        if curve is None:
            return None
        k = min(range(len(curve.alphas)), key=lambda j: abs(curve.alphas[j] - alpha))
        if abs(curve.alphas[k] - alpha) > 1e-6 * alpha:
            return None
        return curve.mean[k]


MOST_BARS = 20
#: Classes whose confusion matrix fits beside something else, and the whole width.
FEW_CLASSES = 4
MANY_CLASSES = 14


def _size(n_classes: int) -> str:
    """How a confusion matrix of so many classes is laid out."""
    return "" if n_classes <= FEW_CLASSES else "many" if n_classes <= MANY_CLASSES else "many dense"


def plainly(results: Results) -> tuple[Results, dict[str, str]]:
    """Results with kernels named as people think, and their labels by these names."""
    found = results.model_copy(deep=True)
    lists = [found.weights.names, *(path.names for path in found.paths)]
    lists += [layer.names for layer in found.weights.layers[:1]]
    if found.contributions is not None:
        lists.append(found.contributions.kernels)
    plain = plain_names(list(dict.fromkeys(name for names in lists for name in names)))
    for names in lists:
        names[:] = [plain[name] for name in names]
    return found, {name: label for label, name in plain.items()}


class UnderstandPage(RunPage):
    """The page that explains a finished run."""

    path, title, icon = "/understand", "Understand", "insights"
    lead = "What was learnt, how certain it is, and where it is wrong."

    def __init__(self, studio: Studio, run_id: str) -> None:
        super().__init__(studio, run_id)
        #: what is known beyond the results
        self.known: Tree = {}
        #: labels of kernels by the names that are shown
        self.formulas: dict[str, str] = {}

    def renew(self, found: Evidence) -> None:
        """Draw anew what shows what was computed."""
        self.known = found.numbers
        self.story.refresh(self.run, found, self.proofs)
        self.answers.refresh(found)
        self.weight_bars.refresh()

    @ui.refreshable_method
    def story(self, run: Run, found: Evidence, proofs: EvidenceCard) -> None:
        """The answers on one screen."""
        show_story(run, found, proofs.place_next)

    @ui.refreshable_method
    def answers(self, found: Evidence) -> None:
        """Sentences by question, and a table of their numbers."""
        with card("All answers"):
            with stack("kw-answers"):
                for topic, head in QUESTIONS.items():
                    said = [one for one in found.statements if one.topic == topic]
                    if not said:
                        continue
                    with ui.element("section").classes(f"kw-{topic}"):
                        text(head, "h3")
                        with ui.element("ul"):
                            for one in said:
                                text(in_words_of("form", one.text), "li")
            with ui.expansion("The numbers behind these sentences").props("dense"):
                rows = [
                    [one.text if not k else "", " › ".join(map(str, cited.source)), f"{cited.value:.6g}"]
                    for one in found.statements
                    for k, cited in enumerate(one.numbers)
                ]
                heads = ["sentence", "in evidence.json", "number"]
                simple_table(heads, rows, numbers=(2,), label="Numbers of the sentences")

    async def show(self, run: Run) -> None:
        """The story, and everything else behind tabs."""
        results = await offload(self.studio.results, run.id)
        results, self.formulas = plainly(results)
        found = await self.evidence(run.id)
        proofs = None
        if found is not None:
            self.known = found.numbers
            self.run = run
            proofs = self.proofs = EvidenceCard(self.studio, run, found, self.renew)
            self.story(run, found, proofs)
        for remark in results.remarks:
            note(in_words_of("form", remark), "warn")
        parts: dict[str, Callable[[], object]] = {"Scores": lambda: self.scores(run, results, found)}
        if proofs is not None:
            parts["More computations"] = proofs.build
        if proofs is not None and OF_TIMES.keys() & self.known.keys():
            parts["Survival"] = lambda: proofs.charts(OF_TIMES)
        parts["Kernels"] = lambda: self.kernels(results)
        if results.paths:
            parts["Path"] = lambda: self.paths(run, results)
        parts["Rows"] = lambda: self.rows(run, results)
        if proofs is not None:
            parts["For a paper"] = proofs.paper
        parts["Solver"] = lambda: self.certificate(results)
        tabbed(parts)
        if proofs is not None:
            proofs.watch()

    def coefficients(self, run: Run, results: Results) -> None:
        """The coefficients of a linear model with its test error, beside those that a paper printed."""
        with card("Coefficients"):
            rows = [
                [name, f"{value:.3f}".replace("-0.000", "0.000")]
                for name, value in results.coefficients.items()
            ]
            for name, value in zip(("test error", "std error"), results.squared_error, strict=False):
                rows.append([name, f"{value:.3f}"])
            heads = ["", "this model"]
            if run.request.data.tables == [f"set-{PROSTATE}"]:
                printed = {name: row["rls2"].text for name, row in RLS2_TABLE1.items()}
                rows = [[*row, printed.get(row[0], "")] for row in rows]
                heads.append("printed in Table 1")
            simple_table(heads, rows, numbers=range(1, len(heads)), label="Coefficients")
            if results.squared_error:
                hint("Test error: the mean squared error of the held-out rows, with its standard error.")

    def scores(self, run: Run, results: Results, found: Evidence | None) -> None:
        """All scores, and all sentences."""
        if results.coefficients:
            self.coefficients(run, results)
        self.summary(run, results)
        if found is not None:
            self.answers(found)

    def kernels(self, results: Results) -> None:
        """Weights of kernels, by view and by layer, and what was left to defaults."""
        self.weights(results)
        if results.weights.layers:
            self.layers(results)
        if results.defaults:
            with (
                card(),
                ui.expansion("What was left to defaults").props("dense"),
                stack("kw-stack tight"),
            ):
                for line in results.defaults:
                    text(line.strip(), "p")

    def paths(self, run: Run, results: Results) -> None:
        """The path, and how its end was chosen."""
        PathCard(run.id, results).build()
        if results.curve is not None:
            self.curve(results)

    def rows(self, run: Run, results: Results) -> None:
        """Single rows: contributions, and those that were held out."""
        if results.held is not None:
            self.held(results)
        else:
            self.none_held(results)
        if results.contributions is not None:
            ContributionsCard(run.id, results).build()

    async def evidence(self, run_id: str) -> Evidence | None:
        """What is known beyond the results; None for a run of an older version."""
        try:
            found = await offload(self.studio.evidence.read, run_id)
        except InputError:
            return None
        return found if found.statements else None

    def summary(self, run: Run, results: Results) -> None:
        """The main numbers."""
        assert run.summary is not None
        with card(run.name) as aside:
            with aside:
                if run.state == "cancelled":
                    tag("stopped early", "warn", "stop")
                link("Report", f"/api/runs/{run.id}/files/report.html?show=true", new_tab=True)
                link("Model and files", f"/use?run={run.id}")
            for apart in (False, True):
                found = [m for m in run.metrics if m.name.endswith((", nested", ", out of fold")) == apart]
                if found:
                    with stack("kw-stats"):
                        for metric in found:
                            stat(score(metric), score_name(metric.name, [run]))
            if any(metric.low is not None for metric in run.metrics):
                hint("In brackets 95 % intervals, over the rows.")
            with stack("kw-stats"):
                with_weight = "kernel with a weight" if run.summary.n_active == 1 else "kernels with a weight"
                stat(str(run.summary.n_active), with_weight, f"of {run.summary.n_kernels}")
                stat(run.summary.regularization.split(" = ")[1], run.summary.regularization.split(" = ")[0])
                stat(str(run.summary.n_training), "rows learnt from")
                stat(str(run.summary.n_held), "rows held out")

    # ---- choice and weights -----------------------------------------------------------------------

    def curve(self, results: Results) -> None:
        """The cross-validation curve."""
        curve = results.curve
        assert curve is not None
        with print_card("Choice of the regularisation parameter", self.run_id, "choice"):

            def told(value: float | None, form: str) -> str:
                return "–" if value is None else rounded(value, curve.n_rows, form)

            form = score_form(curve.score)
            best = told(curve.mean[curve.best], form)
            rules = {"min": "the best score"}
            rule = rules.get(curve.rule, "the strongest within one standard error of the best")
            said = not_an_estimate(curve.parameter)
            charts.figure(
                charts.curve_chart([("over folds", curve)], score=curve.score),
                f"{curve.score} over {len(curve.folds)} folds against {curve.parameter}; best {best}",
                f"{curve.score} over {len(curve.folds)} folds with one standard error to each side. Chosen: {rule}. "
                f"The score there is {said}.",
            )
            with ui.expansion("As a table").props("dense"):
                columns = zip(curve.parameter_values, curve.mean, curve.error, strict=True)
                rows = [
                    [f"{a:.4g}", told(m, form), told(e, form), "chosen" if k == curve.chosen else ""]
                    for k, (a, m, e) in enumerate(columns)
                ]
                heads = [curve.parameter, curve.score, "standard error", ""]
                simple_table(heads, rows, numbers=(0, 1, 2), label="Scores over folds")

    def weights(self, results: Results) -> None:
        """Weights as bars, and by view."""
        found = results.weights
        with stack("kw-wide"):
            with card("Weights of kernels"):
                self.weight_bars(found)
                with ui.expansion("As a table").props("dense"):
                    rows = [
                        [n, *(round(v, 5) for v in row), self.formulas.get(n, n)]
                        for n, row in zip(found.names, found.values, strict=True)
                    ]
                    big_table(["kernel", *found.outputs, "formula"], rows, label="Weights of kernels")
            with card("Weights by view"):
                self.share_bars(found.views)
                mean = "; the mean over classes or targets" if len(found.outputs) > 1 else ""
                hint(f"Weights of the kernels of a view or a column, as fractions{mean}.")

            if found.relevance:
                with print_card("Columns in the learnt metric", self.run_id, "relevance"):
                    self.share_bars(found.relevance)
                    hint(
                        "Fractions of the trace of the metric: how fast predictions change along each column."
                    )

    def share_bars(self, found: Mapping[str, float]) -> None:
        """Fractions by name, as bars."""
        shares = [pair for pair in list(found.items())[:MOST_BARS] if pair[1] > 0]
        bars(shares, partial(percent, digits=1))

    @ui.refreshable_method
    def weight_bars(self, found: Weights) -> None:
        """Bars, with intervals where the stability of weights is known."""
        label = "Kernel weights as bars: " + ", ".join(found.names[:5])
        stable = self.known.get("stability")
        with stack("kw-end"):
            if stable:
                prints(self.run_id, "stability", "Weights of kernels with intervals")
            prints(self.run_id, "weights", "Weights of kernels")
        if stable:
            plain = {label: name for name, label in self.formulas.items()}
            details = {**stable["details"], "names": [plain.get(n, n) for n in stable["details"]["names"]]}
            options, height = stability(details)
            charts.figure(options, label + "; lines are intervals", STABILITY, height=height)
            return
        names, values = found.names[:MOST_BARS], found.values[:MOST_BARS]
        if names:
            tall = max(9.0, 2.2 + 1.45 * len(names) * (1 + 0.35 * (len(found.outputs) - 1)))
            charts.figure(
                charts.bars_chart(names, values, found.outputs, "weight"), label, height=f"{tall:.1f}rem"
            )
        if len(found.names) > MOST_BARS:
            hint(f"The {MOST_BARS} largest of {len(found.names)}.")

    def layers(self, results: Results) -> None:
        """Weights of deep models by layer."""
        found = results.weights
        with card("Weights by layer", "Each layer combines the kernels anew."):
            for depth, layer in enumerate(found.layers, start=1):
                most = sorted(range(len(layer.names)), key=lambda k: -sum(layer.values[k]))[:MOST_COLUMNS]
                shown = sorted(most)
                title = f"Layer {depth}" + (", the kernels of the views" if depth == 1 else "")
                text(title, "h3").style("font-size: 1rem")
                charts.figure(
                    charts.heat_chart(
                        layer.outputs,
                        [layer.names[k] for k in shown],
                        [[layer.values[k][j] for k in shown] for j in range(len(layer.outputs))],
                    ),
                    f"Heat map of the kernel weights of layer {depth}",
                    height=f"{13 + 2.2 * len(layer.outputs)}rem",
                )
                if len(shown) < len(layer.names):
                    hint(f"The {len(shown)} largest of {len(layer.names)} kernels.")

    # ---- held-out rows ----------------------------------------------------------------------------

    def held(self, results: Results) -> None:
        """Results on held-out rows."""
        held, classes = results.held, results.task == "classification"
        assert held is not None
        columns, rows = held.columns, [[round_off(value) for value in row] for row in held.rows]
        places = {name: columns.index(name) for name in ("truth", "prediction") if name in columns}
        truth, guess = places.get("truth", 0), places.get("prediction", 0)
        cut = held.n_rows > len(held.rows)
        cut_off = f"The first {len(held.rows):,} of {plural(held.n_rows, 'row')}".replace(",", "\u202f")
        if held.targets:
            # a column for every target and number would be wider than any page
            targets_card(held.columns, held.rows, held.targets)
            hint("The file of predictions, on the page Use, has all rows and targets.")
            return
        if results.task == SURVIVAL:
            pass
        elif classes:
            self.ranking(held)
            columns = ["right", *columns]
            rows = [["yes" if str(row[truth]) == str(row[guess]) else "no", *row] for row in rows]
        else:
            known = [row for row in held.rows if row[truth] is not None and row[guess] is not None]
            self.residuals(*([float(row[place] or 0.0) for row in known] for place in (truth, guess)))
            if cut:
                hint(f"{cut_off} are drawn.")
        with card("Predictions of held-out rows"):
            if cut:
                hint(f"{cut_off}; the file of predictions, on the page Use, has all.")
            big_table(columns, rows, label="Predictions of held-out rows")

    def ranking(self, held: HeldResult) -> None:
        """How classes are ranked and confused."""
        # more than a few classes need the whole width
        with stack("kw-wide" if len(held.classes) <= FEW_CLASSES else "kw-stack"):
            figures = {"roc": "ROC", "precision": "Precision and recall"} if held.receivers else {}
            with print_card("Ranking of held-out rows", self.run_id, figures):
                if held.receivers:
                    with stack("kw-two"):
                        for precision, label, area in (
                            (False, "Receiver operating characteristic", "; area in brackets."),
                            (True, "Precision against recall", "; average precision in brackets."),
                        ):
                            options = charts.receiver_chart(held, precision=precision)
                            charts.figure(options, label, label + area)
                else:
                    hint("The held-out rows are of one class.")
            with print_card("Confusion", self.run_id, "confusion"):
                self.confusion(held.classes, held.confusion)

    def residuals(self, truth: list[float], predicted: list[float]) -> None:
        """True and predicted numbers."""
        figures = {"held-out": "Held-out rows", "residuals": "Residuals"}
        with print_card("Held-out rows", self.run_id, figures), stack("kw-two"):
            for residuals, caption in (
                (False, "True against predicted."),
                (True, "Residuals against predicted."),
            ):
                options = charts.residual_chart(truth, predicted, residuals=residuals)
                charts.figure(options, caption, caption)

    def none_held(self, results: Results) -> None:
        """Explanation if no rows were held out."""
        lacks = (
            "no confusion matrix, no ranking and no predictions"
            if results.task == "classification"
            else "no residuals and no predictions"
        )
        with card("Held-out rows"):
            hint(
                f"No rows were held out, so there are {lacks} of rows that the model has not seen. The models of the "
                "folds chose the regularisation parameter and were not kept. Hold out a share of the rows, or "
                "mark them in a column, to see these here."
            )

    def confusion(self, classes: list[str], counts: list[list[int]]) -> None:
        """The confusion matrix as a table for screen readers."""
        most = max((v for row in counts for v in row), default=1) or 1
        with (
            stack("kw-scroll").props("tabindex=0"),
            ui.element("table")
            .classes(f"kw-confusion {_size(len(classes))}")
            .props('aria-label="Confusion matrix: rows true, columns predicted"'),
        ):
            with ui.element("thead"), ui.element("tr"):
                text("true \\ predicted", "th")
                for name in classes:
                    text(name, "th").props("scope=col").props["title"] = name
            with ui.element("tbody"):
                for i, row in enumerate(counts):
                    with ui.element("tr"):
                        text(classes[i], "th").props("scope=row").style("text-align: right")
                        for j, value in enumerate(row):
                            colour = "var(--accent)" if i == j else "var(--bad)"
                            # light enough for the numbers to be readable, in light and dark
                            share = 6 + 30 * value / most if value else 0
                            text(value, "td").style(
                                f"background: color-mix(in srgb, {colour} {share:.0f}%, var(--sunk)); color: var(--ink)"
                            )
        total = sum(map(sum, counts))
        wrong = total - sum(row[i] for i, row in enumerate(counts))
        hint(f"Of {plural(total, 'row')}, {plural(wrong, 'is', 'are')} misclassified.")

    # ---- certificate ------------------------------------------------------------------------------

    def certificate(self, results: Results) -> None:
        """The certificate, and the convergence of the solver."""
        found = results.certificate
        with stack("kw-two"):
            with card("Certificate"):
                with stack("kw-stats"):
                    stat(number(found.objective, 5), "objective")
                    stat(f"{found.gap or 0:.1e}", "gap")
                    stat(f"{found.rel_gap or 0:.1e}", "relative gap")
                text(
                    f"The objective is at most {found.gap or 0:.2e} above its optimum. Status: {found.status}, "
                    f"{plural(found.n_iter, 'iteration')}."
                )
                if found.stationarity:
                    worst = max(v for v in found.stationarity if v is not None)
                    hint(
                        f"A local solution: one step could still gain {worst:.1e} of the criterion, and the gap is "
                        "that of the machine."
                    )
                hint(f"Kernels were held as: {found.held_as}.")
                if found.citation:
                    hint(found.citation)
            with card("Convergence"):
                self.convergence(results)

    def convergence(self, results: Results) -> None:
        """Histories of the solver, one quantity at a time."""
        histories = [(part.output, part.history) for part in results.convergence[: charts.MOST_LINES]]
        keys = list(dict.fromkeys(key for _, history in histories for key in history))
        if not keys:
            hint(
                "There is no record of single steps: on a path every fit starts from the solution of the one "
                "before, or the solution is found at once. The certificate says how far it is from the optimum."
            )
            return
        first = "rel_gap" if "rel_gap" in keys else keys[0]
        names = {key: charts.quantity_name(key) for key in keys}

        @ui.refreshable
        def draw(key: str) -> None:
            options = charts.convergence_chart(histories, key)
            charts.figure(options, f"{names[key]} at every iteration", height="14rem")

        dropdown(names, value=first, label="Quantity", on_change=lambda event: draw.refresh(event.value))
        draw(first)
