"""The page that explains a finished run: path, choice, weights, single rows, held-out rows, certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave._forms import plus_minus
from kernelweave_app.studio.pages import charts
from kernelweave_app.studio.pages.answers import AnswersCard
from kernelweave_app.studio.pages.contributions_card import MOST_COLUMNS, ContributionsCard
from kernelweave_app.studio.pages.evidence_card import EvidenceCard
from kernelweave_app.studio.pages.evidence_charts import STABILITY, stability
from kernelweave_app.studio.pages.finished import choose_run, finished, round_off
from kernelweave_app.studio.pages.path_card import PathCard
from kernelweave_app.studio.pages.place import here
from kernelweave_app.studio.pages.prints import prints
from kernelweave_app.studio.pages.shell import (
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
from kernelweave_app.studio.schema import Evidence, Metric, Results, Run, Weights
from kernelweave_app.studio.service import Studio

if TYPE_CHECKING:
    from kernelweave._types import Tree

MOST_BARS = 20
#: Classes whose confusion matrix fits beside something else, and the whole width.
FEW_CLASSES = 4
MANY_CLASSES = 14


def add(studio: Studio) -> None:
    """Add the page.

    Parameters
    ----------
    studio : Studio
    """

    @ui.page("/understand", title="Understand", response_timeout=30)
    async def understand_page(run: str = "") -> None:
        await _UnderstandPage(here(studio), run).build()


def reach(metric: Metric, results: Results) -> str:
    """How sure a score is: its standard error over folds, or its interval over held-out rows."""
    name, _, rows = metric.name.rpartition(", ")
    if rows == "held out" and results.held is not None and name in results.held.intervals:
        low, high = results.held.intervals[name]
        return f"({low:.3f} to {high:.3f})"
    return plus_minus(metric.spread)


def _size(n_classes: int) -> str:
    """How a confusion matrix of so many classes is laid out."""
    return "" if n_classes <= FEW_CLASSES else "many" if n_classes <= MANY_CLASSES else "many dense"


class _UnderstandPage:
    def __init__(self, studio: Studio, run_id: str) -> None:
        self.studio, self.run_id = studio, run_id
        #: what is known beyond the results
        self.known: Tree = {}
        self.answers: AnswersCard | None = None

    def renew(self, found: Evidence) -> None:
        """Draw anew what shows what was computed."""
        self.known = found.numbers
        if self.answers is not None:
            self.answers.renew(found)
        self.weight_bars.refresh()

    async def build(self) -> None:
        runs = await offload(finished, self.studio)
        if runs and self.run_id not in {run.id for run in runs}:
            self.run_id = runs[0].id
        lead = "What was learnt, how certain it is, and where it is wrong."
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
            found = await self.evidence(run.id)
            if found is not None:
                self.answers = AnswersCard(found)
                self.answers.build()
            for remark in [*([] if found else results.doubts), *results.remarks]:
                note(remark, "warn")
            if found is not None:
                self.known = found.numbers
                EvidenceCard(self.studio, run.id, found, self.renew).build()
            if results.defaults:
                # a line for each kernel: below it the path would be far away
                with (
                    card(),
                    ui.expansion("What was left to defaults").props("dense"),
                    stack("kw-stack tight"),
                ):
                    for line in results.defaults:
                        text(line.strip(), "p")
            if results.paths:
                PathCard(run.id, results).build()
            if results.curve is not None:
                self.curve(results)
            self.weights(results)
            if results.weights.layers:
                self.layers(results)
            if results.contributions is not None:
                ContributionsCard(run.id, results).build()
            if results.held is not None:
                self.held(results)
            else:
                self.none_held(results)
            if results.nested:
                self.nested(results)
            self.certificate(results)

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
                ui.link("Report", f"/api/runs/{run.id}/files/report.html?show=true", new_tab=True).classes(
                    "kw-link"
                )
                ui.link("Model and files", f"/use?run={run.id}").classes("kw-link")
            for kind in (("folds", "held out"), ("nested",)):
                found = [m for m in run.metrics if m.name.rpartition(", ")[2] in kind]
                if found:
                    with stack("kw-stats"):
                        for metric in found:
                            stat(score(metric.value), metric.name, reach(metric, results))
            if results.held is not None and results.held.intervals:
                text("In brackets 95 % intervals, over samples of the held-out rows.").classes("kw-hint")
            with stack("kw-stats"):
                with_weight = "kernel with a weight" if run.summary.n_active == 1 else "kernels with a weight"
                stat(str(run.summary.n_active), with_weight, f"of {run.summary.n_kernels}")
                stat(run.summary.regularization.split(" = ")[1], run.summary.regularization.split(" = ")[0])
                stat(f"{results.certificate.rel_gap or 0:.0e}", "relative gap")
                stat(str(run.summary.n_training), "rows learnt from")
                stat(str(run.summary.n_held), "rows held out")

    # ---- choice and weights -----------------------------------------------------------------------

    def curve(self, results: Results) -> None:
        """The cross-validation curve."""
        curve = results.curve
        assert curve is not None
        with card("Choice of the regularisation parameter") as aside:
            with aside:
                prints(self.run_id, "choice", "Choice of the regularisation parameter")
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
                    for k, (a, m, e) in enumerate(
                        zip(curve.parameter_values, curve.mean, curve.error, strict=True)
                    )
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
                self.weight_bars(found)
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
                            bar(name, share / most, f"{share:.1%}")
                text(
                    "Weights of the kernels of a view or a column, as fractions; the mean over classes."
                ).classes("kw-hint")

    @ui.refreshable_method
    def weight_bars(self, found: Weights) -> None:
        """Bars, with intervals where the stability of weights is known."""
        label = "Kernel weights as bars: " + ", ".join(found.names[:5])
        stable = self.known.get("stability")
        with ui.element("div").classes("kw-end"):
            if stable:
                prints(self.run_id, "stability", "Weights of kernels with intervals")
            prints(self.run_id, "weights", "Weights of kernels")
        if stable:
            options, height = stability(stable["details"])
            charts.figure(options, label + "; lines are intervals", STABILITY, height=height)
            return
        names, values = found.names[:MOST_BARS], found.values[:MOST_BARS]
        if names:
            tall = max(9.0, 2.2 + 1.45 * len(names) * (1 + 0.35 * (len(found.outputs) - 1)))
            charts.figure(
                charts.bars_chart(names, values, found.outputs, "weight"), label, height=f"{tall:.1f}rem"
            )
        if len(found.names) > MOST_BARS:
            text(f"The {MOST_BARS} largest of {len(found.names)}.").classes("kw-hint")

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
                    text(f"The {len(shown)} largest of {len(layer.names)} kernels.").classes("kw-hint")

    # ---- held-out rows ----------------------------------------------------------------------------

    def held(self, results: Results) -> None:
        """Results on held-out rows."""
        held = results.held
        assert held is not None
        if results.task == "classification":
            # more than a few classes need the whole width
            with stack("kw-wide" if len(held.classes) <= FEW_CLASSES else "kw-stack"):
                with card("Ranking of held-out rows") as aside:
                    if held.receivers:
                        with aside:
                            prints(self.run_id, "roc", "ROC")
                            prints(self.run_id, "precision", "Precision and recall")
                        with stack("kw-two"):
                            charts.figure(
                                charts.receiver_chart(held.receivers, precision=False, classes=held.classes),
                                "Receiver operating characteristic",
                                "Receiver operating characteristic; area in brackets.",
                            )
                            charts.figure(
                                charts.receiver_chart(held.receivers, precision=True, classes=held.classes),
                                "Precision against recall",
                                "Precision against recall; average precision in brackets.",
                            )
                    else:
                        text("The held-out rows are of one class.").classes("kw-hint")
                with card("Confusion") as aside:
                    with aside:
                        prints(self.run_id, "confusion", "Confusion")
                    self.confusion(held.classes, held.confusion)
        else:
            truth = held.columns.index("truth")
            guess = held.columns.index("prediction")
            pairs = [
                (float(r[truth] or 0.0), float(r[guess] or 0.0))
                for r in held.rows
                if r[truth] is not None and r[guess] is not None
            ]
            with card("Held-out rows") as aside, stack("kw-two"):
                with aside:
                    prints(self.run_id, "held-out", "Held-out rows")
                    prints(self.run_id, "residuals", "Residuals")
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
        """Explanation if no rows were held out."""
        lacks = (
            "no confusion matrix, no ranking and no predictions"
            if results.task == "classification"
            else "no residuals and no predictions"
        )
        with card("Held-out rows"):
            text(
                f"No rows were held out, so there are {lacks} of rows that the model has not seen. The models of the "
                "folds chose the regularisation parameter and were not kept. Hold out a share of the rows, or "
                "mark them in a column, to see these here."
            ).classes("kw-hint")

    def confusion(self, classes: list[str], counts: list[list[int]]) -> None:
        """The confusion matrix as a table for screen readers."""
        most = max((v for row in counts for v in row), default=1) or 1
        with (
            ui.element("div").classes("kw-scroll").props("tabindex=0"),
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
        wrong = sum(v for i, row in enumerate(counts) for j, v in enumerate(row) if i != j)
        are = "is" if wrong == 1 else "are"
        text(f"{plural(wrong, 'row')} of {sum(map(sum, counts))} {are} misclassified.").classes("kw-hint")

    def nested(self, results: Results) -> None:
        """Scores of outer folds."""
        names = list(results.nested[0])
        with card(
            "Nested cross-validation",
            "Each outer fold has its own choice of the regularisation parameter.",
        ):
            rows = [
                [str(k + 1), *(number(fold.get(name)) for name in names)]
                for k, fold in enumerate(results.nested)
            ]
            numbers = tuple(range(1, len(names) + 1))
            simple_table(["outer fold", *names], rows, numbers=numbers, label="Scores of outer folds")

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
                    text(
                        f"A local solution: one step could still gain {worst:.1e} of the criterion, and the gap is "
                        "that of the machine."
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
                "There is no record of single steps: on a path every fit starts from the solution of the one "
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
