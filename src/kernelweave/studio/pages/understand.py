"""The page that explains a finished run: path, choice, weights, single rows, held-out rows, certificate."""

from __future__ import annotations

import re
import time
from typing import Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave.studio.pages import charts
from kernelweave.studio.pages.shell import (
    bar,
    big_table,
    card,
    empty,
    note,
    number,
    page,
    plural,
    score,
    simple_table,
    stack,
    stat,
    tag,
    text,
)
from kernelweave.studio.schema import PathResult, Results, Run
from kernelweave.studio.service import Studio

MOST_BARS = 20
#: Kernels of one layer that are shown.
MOST_COLUMNS = 24
#: Kernels listed at the cursor.
AT_CURSOR = 8


def add(studio: Studio) -> None:
    """Add the page.

    Parameters
    ----------
    studio : Studio
    """

    @ui.page("/understand", title="Understand", response_timeout=30)
    async def understand_page(run: str = "") -> None:
        await _UnderstandPage(studio, run).build()


def finished(studio: Studio) -> list[Run]:
    """Runs that have a model."""
    return [run for run in studio.runs() if run.summary is not None]


def when(run: Run) -> str:
    """Day and time of a run."""
    return time.strftime("%d %b %H:%M", time.localtime(run.created))


def titles(runs: list[Run]) -> dict[str, str]:
    """Names of runs by which they can be told apart: of those with the same one, with a number."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for run in sorted(runs, key=lambda run: run.created):
        title, number = run.name, 2
        while title in taken:
            title, number = f"{run.name} {number}", number + 1
        taken.add(title)
        found[run.id] = title
    return {run.id: found[run.id] for run in runs}


def dated(runs: list[Run]) -> dict[str, str]:
    """Choices of a select: what runs are called, and when they were started."""
    named = titles(runs)
    return {run.id: f"{named[run.id]} · {when(run)}" for run in runs}


def choose_run(runs: list[Run], chosen: str, path: str) -> None:
    """A select that goes to another run."""
    found = ui.select(
        dated(runs),
        value=chosen,
        label="Run",
        on_change=lambda event: ui.navigate.to(f"{path}?run={event.value}"),
    )
    found.props("outlined dense options-dense").style("width: min(26rem, 80vw)")


class _UnderstandPage:
    def __init__(self, studio: Studio, run_id: str) -> None:
        self.studio, self.run_id = studio, run_id

    async def build(self) -> None:
        runs = finished(self.studio)
        if runs and self.run_id not in {run.id for run in runs}:
            self.run_id = runs[0].id
        lead = "What was learnt, how sure it is, and where it goes wrong."
        with page(self.studio, "/understand", "Understand", lead) as aside:
            if not runs:
                with card(), empty("insights", "No run has finished yet."):
                    ui.button("Runs", icon="play_circle", on_click=lambda: ui.navigate.to("/runs")).props(
                        "outline"
                    )
                return
            with aside:
                choose_run(runs, self.run_id, "/understand")
            run = next(run for run in runs if run.id == self.run_id)
            try:
                results = await offload(self.studio.results, run.id)
            except InputError as error:
                note(str(error), "bad")
                return
            self.summary(run, results)
            for remark in results.remarks:
                note(remark, "warn")
            if results.paths:
                PathCard(results).build()
            if results.curve is not None:
                self.curve(results)
            self.weights(results)
            if results.weights.layers:
                self.layers(results)
            if results.contributions is not None:
                ContributionsCard(results).build()
            if results.held is not None:
                self.held(results)
            else:
                self.none_held(results)
            if results.nested:
                self.nested(results)
            self.certificate(results)

    def summary(self, run: Run, results: Results) -> None:
        """The numbers that count."""
        assert run.summary is not None
        with card(run.name) as aside:
            with aside:
                if run.state == "cancelled":
                    tag("stopped early", "warn", "stop")
                ui.link("Report", f"/api/runs/{run.id}/files/report.html?show=true", new_tab=True).classes(
                    "kw-link"
                )
                ui.link("Model and files", f"/use?run={run.id}").classes("kw-link")
            for kind in (("folds", "held out"), ("nested",)):
                found = [m for m in run.metrics if m.name.rpartition(", ")[2] in kind]
                if found:
                    with stack("kw-stats"):
                        for metric in found:
                            spread = f"± {metric.spread:.3f}" if metric.spread is not None else ""
                            stat(score(metric.value), metric.name, spread)
            with stack("kw-stats"):
                stat(str(run.summary.n_active), "kernels with a weight", f"of {run.summary.n_kernels}")
                stat(run.summary.strength.split(" = ")[1], run.summary.strength.split(" = ")[0])
                stat(f"{results.certificate.rel_gap or 0:.0e}", "relative gap")
                stat(str(run.summary.n_training), "rows learnt from")
                stat(str(run.summary.n_held), "rows held out")

    # ---- choice and weights -----------------------------------------------------------------------

    def curve(self, results: Results) -> None:
        """The cross-validation curve."""
        curve = results.curve
        assert curve is not None
        with card("Choice of the strength"):
            best = curve.mean[curve.best]
            rule = (
                "the best mean score"
                if curve.rule == "min"
                else "the strongest within one standard error of the best"
            )
            charts.figure(
                charts.curve_chart([("mean over folds", curve)], score=curve.score),
                f"{curve.score} over {len(curve.folds)} folds against {curve.parameter}; best {number(best)}",
                f"Mean over {len(curve.folds)} folds with one standard error to each side. Chosen: {rule}.",
            )
            with ui.expansion("As a table").props("dense"):
                rows = [
                    [f"{a:.4g}", number(m), number(e), "chosen" if k == curve.chosen else ""]
                    for k, (a, m, e) in enumerate(zip(curve.strengths, curve.mean, curve.error, strict=True))
                ]
                simple_table(
                    [curve.parameter, curve.score, "standard error", ""],
                    rows,
                    numbers=(0, 1, 2),
                    label="Scores over folds",
                )

    def weights(self, results: Results) -> None:
        """Weights as bars, and by view."""
        found = results.weights
        with stack("kw-wide"):
            with card("Weights of kernels"):
                names, values = found.names[:MOST_BARS], found.values[:MOST_BARS]
                if names:
                    tall = max(9.0, 2.2 + 1.45 * len(names) * (1 + 0.35 * (len(found.outputs) - 1)))
                    charts.figure(
                        charts.bars_chart(names, values, found.outputs, "weight"),
                        "Kernel weights as bars: " + ", ".join(names[:5]),
                        height=f"{tall:.1f}rem",
                    )
                if len(found.names) > MOST_BARS:
                    text(f"The {MOST_BARS} largest of {len(found.names)}.").classes("kw-hint")
                with ui.expansion("As a table").props("dense"):
                    rows = [
                        [n, *(round(v, 5) for v in row)]
                        for n, row in zip(found.names, found.values, strict=True)
                    ]
                    big_table(["kernel", *found.outputs], rows, label="Weights of kernels")
            with card("Weights by view"):
                views = list(found.views.items())[:MOST_BARS]
                with stack("kw-stack tight"):
                    most = max((share for _, share in views), default=1.0) or 1.0
                    for name, share in views:
                        if share > 0:
                            bar(name, share / most, f"{share:.3f}")
                text("Sums over the kernels of a view or a column, averaged over classes.").classes("kw-hint")

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
                    text(f"The {len(shown)} heaviest of {len(layer.names)} kernels.").classes("kw-hint")

    # ---- held-out rows ----------------------------------------------------------------------------

    def held(self, results: Results) -> None:
        """What happened on rows that were held out."""
        held = results.held
        assert held is not None
        if results.task == "classification":
            with stack("kw-wide"):
                with card("Ranking of held-out rows"):
                    if held.receivers:
                        with stack("kw-two"):
                            charts.figure(
                                charts.receiver_chart(held.receivers, precision=False),
                                "Receiver operating characteristic",
                                "Receiver operating characteristic; area in brackets.",
                            )
                            charts.figure(
                                charts.receiver_chart(held.receivers, precision=True),
                                "Precision against recall",
                                "Precision against recall; average precision in brackets.",
                            )
                    else:
                        text("The held-out rows are of one class.").classes("kw-hint")
                with card("Confusion"):
                    self.confusion(held.classes, held.confusion)
        else:
            truth = held.columns.index("truth")
            guess = held.columns.index("prediction")
            pairs = [
                (float(r[truth] or 0.0), float(r[guess] or 0.0))
                for r in held.rows
                if r[truth] is not None and r[guess] is not None
            ]
            with card("Held-out rows"), stack("kw-two"):
                for residuals, caption in (
                    (False, "True against predicted."),
                    (True, "Residuals against predicted."),
                ):
                    charts.figure(
                        charts.residual_chart(
                            [p[0] for p in pairs], [p[1] for p in pairs], residuals=residuals
                        ),
                        caption,
                        caption,
                    )
        cut = held.n_rows > len(held.rows)
        cut_off = f"The first {len(held.rows):,} of {plural(held.n_rows, 'row')}".replace(",", "\u202f")
        if cut and results.task == "regression":
            text(f"{cut_off} are drawn.").classes("kw-hint")
        with card("Predictions of held-out rows"):
            if cut:
                text(f"{cut_off}; the file of predictions, on the page Use, has all.").classes("kw-hint")
            columns = held.columns
            rows = [[round_off(value) for value in row] for row in held.rows]
            if results.task == "classification":
                truth, guess = columns.index("truth"), columns.index("prediction")
                columns = ["right", *columns]
                rows = [["yes" if str(row[truth]) == str(row[guess]) else "no", *row] for row in rows]
            big_table(columns, rows, label="Predictions of held-out rows")

    def none_held(self, results: Results) -> None:
        """Why there is nothing about held-out rows."""
        lacks = (
            "no confusion matrix, no ranking and no predictions"
            if results.task == "classification"
            else "no residuals and no predictions"
        )
        with card("Held-out rows"):
            text(
                f"No rows were held out, so there are {lacks} of rows that the model has not seen. The models of the "
                "folds chose the strength and were not kept. Hold out a share of the rows, or mark them in a column, "
                "to see these here."
            ).classes("kw-hint")

    def confusion(self, classes: list[str], counts: list[list[int]]) -> None:
        """The confusion matrix as a table that can be read aloud."""
        most = max((v for row in counts for v in row), default=1) or 1
        with (
            ui.element("div").classes("kw-scroll").props("tabindex=0"),
            ui.element("table")
            .classes("kw-confusion")
            .props('aria-label="Confusion matrix: rows true, columns predicted"'),
        ):
            with ui.element("thead"), ui.element("tr"):
                text("true \\ predicted", "th")
                for name in classes:
                    text(name, "th").props("scope=col")
            with ui.element("tbody"):
                for i, row in enumerate(counts):
                    with ui.element("tr"):
                        text(classes[i], "th").props("scope=row").style("text-align: right")
                        for j, value in enumerate(row):
                            colour = "var(--accent)" if i == j else "var(--bad)"
                            # no deeper than the numbers can be read on, in light and dark
                            share = 6 + 30 * value / most if value else 0
                            text(value, "td").style(
                                f"background: color-mix(in srgb, {colour} {share:.0f}%, var(--sunk)); color: var(--ink)"
                            )
        wrong = sum(v for i, row in enumerate(counts) for j, v in enumerate(row) if i != j)
        text(f"{plural(wrong, 'row')} of {sum(map(sum, counts))} went wrong.").classes("kw-hint")

    def nested(self, results: Results) -> None:
        """Scores of outer folds."""
        names = list(results.nested[0])
        with card("Nested cross-validation", "Every outer fold chose its own strength on the other rows."):
            rows = [
                [str(k + 1), *(number(fold.get(name)) for name in names)]
                for k, fold in enumerate(results.nested)
            ]
            numbers = tuple(range(1, len(names) + 1))
            simple_table(["outer fold", *names], rows, numbers=numbers, label="Scores of outer folds")

    # ---- certificate ------------------------------------------------------------------------------

    def certificate(self, results: Results) -> None:
        """How far the objective may be from its optimum, and how it got there."""
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
                    text(
                        f"A local solution: a step could still gain {worst:.1e} of the criterion, and the gap is that "
                        "of the machine."
                    ).classes("kw-hint")
                text(f"Kernels were held as: {found.held_as}.").classes("kw-hint")
                if found.citation:
                    text(found.citation).classes("kw-hint")
            with card("Convergence"):
                self.convergence(results)

    def convergence(self, results: Results) -> None:
        """Histories of the solver, one quantity at a time."""
        histories = [(part.output, part.history) for part in results.convergence[: charts.MOST_LINES]]
        keys = list(dict.fromkeys(key for _, history in histories for key in history))
        if not keys:
            text(
                "There is no record of single steps: on a path every strength begins at the solution of the one "
                "before, or the solution is found at once. The certificate says how far it is from the optimum."
            ).classes("kw-hint")
            return
        first = "rel_gap" if "rel_gap" in keys else keys[0]

        @ui.refreshable
        def draw(key: str) -> None:
            name = key.replace("_", " ").replace("rel gap", "relative gap")
            charts.figure(
                charts.convergence_chart(histories, key), f"{name} at every iteration", height="14rem"
            )

        names = {key: key.replace("_", " ").replace("rel gap", "relative gap") for key in keys}
        pick = ui.select(
            names, value=first, label="Quantity", on_change=lambda event: draw.refresh(event.value)
        )
        pick.props("outlined dense options-dense")
        draw(first)


def short(name: str) -> str:
    """A kernel's name where there is little room."""
    name = re.sub(r"RBF\(gamma=([^()]*)\)", r"RBF \1", name)
    return re.sub(r"Polynomial\(degree=(\d+)\)", r"degree \1", name)


def round_off(value: Any) -> Any:
    """A cell with the digits that people read."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


class PathCard:
    """The regularisation path with a movable cursor.

    Parameters
    ----------
    results : Results
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.which = 0
        #: "df", or the learner's own parameter.
        self.by: str = results.paths[0].parameter
        self.cursor = results.paths[0].chosen
        #: None where there is one strength alone.
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
                    ui.select(
                        names, value=0, label="Class", on_change=lambda event: self.turn(which=event.value)
                    ).props("outlined dense options-dense").style("min-width: 9rem")
                if len(self.path.alphas) > 1 and any(d is not None for d in self.path.df):
                    toggle = ui.toggle(
                        [self.by, "df"],
                        value=self.by,
                        on_change=lambda event: self.turn(by=event.value),
                    )
                    toggle.props("no-caps unelevated dense toggle-color=primary padding='2px 12px'")
                    toggle.props["aria-label"] = "Horizontal axis"
            if len(self.path.alphas) < 2:
                text("One strength alone was asked for: there is no path to draw.").classes("kw-hint")
                self.at_cursor()
                return
            with stack("kw-wide"):
                with stack():
                    self.chart = charts.figure(self.options(), self.label())
                    self.chart.on("chart:click", self.clicked, args=["data"])
                    slider = ui.slider(min=0, max=len(self.path.alphas) - 1, value=self.cursor).props("label")
                    slider.props["aria-label"] = "Cursor along the path"
                    slider.props["label-value"] = self.strength()
                    slider.on_value_change(lambda event: self.move(int(event.value)))
                    self.slider = slider
                with stack():
                    self.at_cursor()

    def strength(self) -> str:
        """The strength at the cursor."""
        return f"{self.path.parameter} {self.path.strengths[self.cursor]:.3g}"

    def label(self) -> str:
        """What the chart shows, for those who do not see it."""
        return f"Weights of {len(self.path.names)} kernels along {len(self.path.alphas)} strengths"

    def options(self) -> dict[str, Any]:
        """The chart at the cursor."""
        path = self.path
        x: list[float | None] = [*path.df] if self.by == "df" else [*path.strengths]
        return charts.path_chart(
            x, path.names, path.weights, by=self.by, cursor=self.cursor, chosen=path.chosen
        )

    def turn(self, **values: Any) -> None:
        """Show another path, or against another quantity."""
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
        """Put the cursor somewhere else."""
        if cursor != self.cursor:
            self.cursor = cursor
            self.slider.props["label-value"] = self.strength()
            self.draw()

    def clicked(self, event: Any) -> None:
        """Put the cursor to the point that was clicked."""
        data = event.args.get("data") if isinstance(event.args, dict) else None
        if isinstance(data, list) and data:
            x = [d or 0.0 for d in self.path.df] if self.by == "df" else self.path.strengths
            self.slider.set_value(min(range(len(x)), key=lambda k: abs(x[k] - data[0])))

    def draw(self) -> None:
        """Draw the chart and the list anew."""
        if self.chart is not None:
            self.chart.options.clear()
            self.chart.options.update(self.options())
            self.chart.update()
        self.at_cursor.refresh()

    @ui.refreshable_method
    def at_cursor(self) -> None:
        """The model at the cursor."""
        path, k = self.path, self.cursor
        with ui.element("div").props('role=status aria-label="At the cursor"').classes("kw-stack"):
            with ui.element("div").classes("kw-row"):
                text(f"{path.parameter} {path.strengths[k]:.4g}", "h3")
                if k == path.chosen:
                    tag("chosen", "now")
            with stack("kw-stats"):
                stat(str(path.n_active[k]), "kernels")
                if path.df[k] is not None:
                    stat(number(path.df[k], 3), "df")
                found = self.score_at(path.alphas[k])
                if found is not None and self.results.curve is not None:
                    stat(
                        score(found[0]),
                        self.results.curve.score,
                        f"± {found[1]:.3f}" if found[1] is not None else "",
                    )
            values = sorted(zip(path.names, path.weights[k], strict=True), key=lambda item: -item[1])
            values = [item for item in values if item[1] > 0]
            with stack("kw-stack tight"):
                for name, weight in values[:AT_CURSOR]:
                    bar(short(name), weight / values[0][1], f"{weight:.3f}")
            if len(values) > AT_CURSOR:
                rest = path.n_active[k] - AT_CURSOR
                text(
                    f"and {plural(rest, 'more kernel')} with {sum(v for _, v in values[AT_CURSOR:]):.3f}"
                ).classes("kw-hint")
            if not values:
                text("No kernel has a weight here.").classes("kw-hint")

    def score_at(self, alpha: float) -> tuple[float | None, float | None] | None:
        """Mean score over folds at a strength, and its standard error."""
        curve = self.results.curve
        if curve is None:
            return None
        k = min(range(len(curve.alphas)), key=lambda j: abs(curve.alphas[j] - alpha))
        if abs(curve.alphas[k] - alpha) > 1e-6 * alpha:
            return None
        return curve.mean[k], curve.error[k]


class ContributionsCard:
    """What kernels add to the decision value of one row.

    Parameters
    ----------
    results : Results
    """

    def __init__(self, results: Results) -> None:
        assert results.contributions is not None
        self.results, self.found = results, results.contributions
        self.row = self.output = 0

    def build(self) -> None:
        """Draw the card."""
        found = self.found
        which = "held-out" if found.held else "training"
        layer = " of the last layer" if self.results.weights.layers else ""
        with card(
            "Contributions to single rows",
            f"What every kernel{layer} adds to the decision value, for {len(found.rows)} {which} rows.",
        ) as aside:
            with aside:
                rows = dict(enumerate(f"row {name}" for name in found.rows))
                ui.select(
                    rows,
                    value=0,
                    label="Row",
                    with_input=True,
                    on_change=lambda event: self.turn(row=event.value),
                ).props("outlined dense options-dense").style("width: 9rem")
                if len(found.outputs) > 1:
                    outputs = dict(enumerate(found.outputs))
                    ui.select(
                        outputs, value=0, label="Class", on_change=lambda event: self.turn(output=event.value)
                    ).props("outlined dense options-dense").style("width: 9rem")
            with stack("kw-two"):
                with stack():
                    self.one = charts.figure(
                        self.options(), "Contributions of kernels to one row",
                        height=f"{4 + 1.75 * (len(found.kernels) + 2):.1f}rem",
                    )  # fmt: skip
                    self.said = text(self.describe()).classes("kw-hint")
                with stack():
                    self.all = charts.figure(
                        self.heat(), "Contributions of kernels to all rows",
                        "All rows, sorted by their decision value: blue lowers it, orange raises it.",
                        height=f"{4 + 1.75 * (len(found.kernels) + 2):.1f}rem",
                    )  # fmt: skip

    def turn(self, **values: Any) -> None:
        """Show another row or class."""
        for name, value in values.items():
            setattr(self, name, value or 0)
        for chart, options in ((self.one, self.options()), (self.all, self.heat())):
            chart.options.clear()
            chart.options.update(options)
            chart.update()
        self.said.set_text(self.describe())

    def options(self) -> dict[str, Any]:
        """One row as bars."""
        found = self.found
        return charts.contributions_chart(
            found.kernels, found.values[self.output][self.row], found.intercepts[self.output]
        )

    def describe(self) -> str:
        """What was predicted for the row, and what is true."""
        held = self.results.held
        if held is None or not self.found.held or self.row >= len(held.rows):
            return ""
        row = dict(zip(held.columns, held.rows[self.row], strict=True))
        return f"Predicted {row['prediction']}, true {row['truth']}."

    def heat(self) -> dict[str, Any]:
        """All rows as a heat map."""
        found = self.found
        values = found.values[self.output]
        order = sorted(range(len(values)), key=lambda i: sum(values[i]))
        most = max((abs(v) for row in values for v in row), default=1.0) or 1.0
        data = [
            [i, len(found.kernels) - 1 - j, v] for i, r in enumerate(order) for j, v in enumerate(values[r])
        ]
        labels = charts.axis("", category=found.kernels[::-1])
        labels["axisLabel"] |= {"width": 150, "overflow": "truncate", "interval": 0}
        across = charts.axis("rows by decision value", category=[found.rows[r] for r in order])
        across["axisLabel"] |= {"show": False}
        across["nameGap"] = 12
        options = charts.base(
            xAxis=across,
            yAxis=labels,
            visualMap={
                "min": -most, "max": most, "show": False,
                "inRange": {"color": ["#0072B2", "#9cc9e3", "#f4f4f2", "#f3cf9b", "#D55E00"]},
            },
            series=[{"type": "heatmap", "data": data, "progressive": 0}],
        )  # fmt: skip
        options["grid"]["top"] = 8
        return options
