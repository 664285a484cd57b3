"""The page that compares runs side by side."""

from __future__ import annotations

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._drawing import score_text
from kernelweave._errors import InputError
from kernelweave_app.runs.spec import label_of
from kernelweave_app.studio.pages import charts
from kernelweave_app.studio.pages.frame import page
from kernelweave_app.studio.pages.naming import plain_names, score_name
from kernelweave_app.studio.pages.pieces import (
    card,
    dropdown,
    hint,
    note,
    nothing,
    score,
    simple_table,
    stack,
)
from kernelweave_app.studio.pages.runs import dated, finished, titles
from kernelweave_app.studio.schema import Comparison, PairedComparison, Run
from kernelweave_app.studio.service import Studio

MOST_RUNS = 8
#: Runs whose columns fit the screen; more can be scrolled.
FITTING = 6


def alike(runs: list[Run]) -> list[str]:
    """The newest runs that predict the same column of the same tables."""
    for first in runs:
        asked = first.request
        same = [
            r
            for r in runs
            if r.request.data == asked.data and r.request.spec.predicted == asked.spec.predicted
        ]
        if len(same) > 1:
            return [run.id for run in same[:4]]
    return [run.id for run in runs[:1]]


class ComparePage:
    """The page that compares runs side by side."""

    def __init__(self, studio: Studio, runs: list[str]) -> None:
        self.studio = studio
        self.chosen = list(dict.fromkeys(name for part in runs for name in part.split(",") if name))[
            :MOST_RUNS
        ]

    async def build(self) -> None:
        """Draw the page."""
        runs = await offload(finished, self.studio)
        known = dated(runs)
        self.named = titles(runs)
        self.chosen = [name for name in self.chosen if name in known] or alike(runs)
        lead = "Scores with 95 % intervals, weights, and the settings that differ."
        with page(self.studio, "/compare", "Compare", lead):
            if not runs:
                nothing("balance", "No run has finished yet.")
                return
            with card("Runs"):
                props, label = f"use-chips max-values={MOST_RUNS}", "Runs to compare"
                pick = dropdown(
                    known, props=props, value=self.chosen, label=label, multiple=True, with_input=True
                )
                pick.style("width: 100%").on(
                    "popup-hide",
                    lambda: ui.navigate.to(f"/compare?runs={','.join(pick.value)}") if pick.value else None,
                )
            try:
                found = await offload(self.studio.compare, self.chosen)
            except InputError as error:
                note(str(error), "bad")
                return
            self.names = [self.named[run.id] for run in found.runs]
            self.scores(found)
            self.tests(found)
            self.curves(found)
            self.weights(found)
            self.differences(found)

    def scores(self, found: Comparison) -> None:
        """Scores of all runs, as a table and as dots."""
        with card("Scores"), stack():
            by_run = [{metric.name: metric for metric in run.metrics} for run in found.runs]
            rows = [
                [score_name(metric, found.runs), *(score(m.get(metric)) for m in by_run)]
                for metric in found.metrics
            ]
            rows.append(
                [
                    "kernels with a weight",
                    *(str(r.summary.n_active) if r.summary else "–" for r in found.runs),
                ]
            )
            rows.append(["seconds", *(f"{r.summary.seconds:.1f}" if r.summary else "–" for r in found.runs)])
            self.table(["", *self.names], rows, tuple(range(1, len(self.names) + 1)), "Scores of the runs")
            with stack():
                shared = [m for m in found.metrics if sum(m in run for run in by_run) > 1] or found.metrics
                if shared:
                    self.dots(found, shared)

    def tests(self, found: Comparison) -> None:
        """Paired tests of runs on the same rows."""
        with card("Are the differences real?"), stack():
            if not found.tests:
                hint(
                    "No two of these runs were scored on the same rows. Runs of the same table with the same seed and "
                    "the same share of rows held out, or the same folds, can be compared by a paired test."
                )
                return

            def told(one: PairedComparison, value: float | None) -> str:
                return "–" if value is None else score_text(one.what, value, one.rows)

            rows = [
                [
                    f"{self.named[one.first]} minus {self.named[one.second]}",
                    one.what,
                    told(one, one.difference),
                    f"{told(one, one.low)} to {told(one, one.high)}",
                    f"{one.p_value:.2g}" if one.p_value is not None else "–",
                    f"{one.adjusted:.2g}" if one.adjusted is not None else "–",
                    one.test,
                ]
                for one in found.tests
            ]
            heads = ["runs", "difference of", "difference", "95 % interval", "p", "p, corrected", "test"]
            simple_table(heads, rows, numbers=(2, 3, 4, 5), label="Paired tests of runs")
            for why in dict.fromkeys(f"{one.test}: {one.why}." for one in found.tests):
                hint(why)
            hint("Corrected for the number of pairs by Holm's method.")

    @staticmethod
    def table(headers: list[str], rows: list[list[str]], numbers: tuple[int, ...], label: str) -> None:
        """A column for each run; a few of them fit the screen, since their names are broken into lines."""
        with stack("kw-wraps" if len(headers) <= FITTING + 1 else "kw-stack"):
            simple_table(headers, rows, numbers=numbers, label=label)

    def dots(self, found: Comparison, metrics: list[str]) -> None:
        """One score of all runs with its interval."""

        @ui.refreshable
        def draw(metric: str) -> None:
            values: list[tuple[float | None, float | None, float | None]] = []
            for run in found.runs:
                here = next((m for m in run.metrics if m.name == metric), None)
                values.append((here.value, here.low, here.high) if here else (None, None, None))
            tall = f"{5 + 2.4 * len(self.names):.1f}rem"
            charts.figure(
                charts.dots_chart(self.names, values, named[metric]),
                f"{named[metric]} of the runs",
                height=tall,
            )

        named = {metric: score_name(metric, found.runs) for metric in metrics}
        dropdown(named, value=metrics[0], label="Score", on_change=lambda event: draw.refresh(event.value))
        draw(metrics[0])
        hint("Lines show 95 % intervals, over the rows.")

    def curves(self, found: Comparison) -> None:
        """Scores over folds along the paths."""
        curves = [
            (self.named[run.id], curve)
            for run, curve in zip(found.runs, found.curves, strict=True)
            if curve is not None
        ]
        kinds = {curve.score for _, curve in curves}
        if len(kinds) == 1:
            with card("Scores along the path"):
                label = "Scores over folds along the paths of the runs"
                charts.figure(charts.curve_chart(curves, score=kinds.pop()), label)

    def weights(self, found: Comparison) -> None:
        """Weights of the same kernels in all runs."""
        if not found.kernels:
            return
        with card("Weights of kernels", "Averaged over classes; the largest in any of the runs."):
            tall = 4 + (0.6 + 0.95 * len(self.names)) * len(found.kernels)
            names = list(plain_names(found.kernels).values())
            charts.figure(
                charts.bars_chart(names, found.weights, self.names, "weight"),
                "Weights by run",
                height=f"{tall:.1f}rem",
            )

    def differences(self, found: Comparison) -> None:
        """Settings that differ."""
        with card("Settings that differ"):
            if found.differences:
                rows = [
                    [label_of(d.setting), *(value or "–" for value in d.values)] for d in found.differences
                ]
                self.table(["setting", *self.names], rows, (), "Settings that differ")
            else:
                hint("None: these runs have the same settings.")
