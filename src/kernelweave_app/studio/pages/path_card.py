"""The card of a path: weights and scores over the regularisation parameter."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from nicegui import ui

from kernelweave._forms import plus_minus
from kernelweave_app.studio.pages import charts
from kernelweave_app.studio.pages.finished import short
from kernelweave_app.studio.pages.prints import prints
from kernelweave_app.studio.pages.shell import (
    bar,
    card,
    counted,
    number,
    plural,
    score,
    stack,
    stat,
    tag,
    text,
)
from kernelweave_app.studio.schema import PathResult, Results

if TYPE_CHECKING:
    from kernelweave._types import Tree

#: The horizontal coordinate of a click inside the axes of a chart.
PLACE = """(event) => {
  const chart = getElement(ID).chart, box = chart.getDom().getBoundingClientRect();
  const at = [event.clientX - box.left, event.clientY - box.top];
  if (chart.containPixel('grid', at)) emit(chart.convertFromPixel({gridIndex: 0}, at)[0]);
}"""
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
                if len(self.path.alphas) > 1:
                    prints(self.run_id, "path", "Regularisation path")
            if len(self.path.alphas) < 2:
                text("Only one regularisation parameter was requested: there is no path to draw.").classes(
                    "kw-hint"
                )
                self.at_cursor()
                return
            with stack("kw-wide"):
                with stack():
                    self.chart = charts.figure(self.options(), self.label())
                    # anywhere in the chart, since the points of lines are too small to be hit
                    self.chart.on("click", self.clicked, js_handler=PLACE.replace("ID", str(self.chart.id)))
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
                text(f"{path.parameter} {path.parameter_values[k]:.4g}", "h3")
                if k == path.chosen:
                    tag("chosen", "now")
            with stack("kw-stats"):
                counted("kernel", path.n_active[k])
                if path.df[k] is not None:
                    stat(number(path.df[k], 3), "df")
                found = self.score_at(path.alphas[k])
                if found is not None and self.results.curve is not None:
                    stat(
                        score(found[0]),
                        self.results.curve.score,
                        plus_minus(found[1]),
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
        """Mean score over folds at an alpha, and its standard error."""
        curve = self.results.curve
        if curve is None:
            return None
        k = min(range(len(curve.alphas)), key=lambda j: abs(curve.alphas[j] - alpha))
        if abs(curve.alphas[k] - alpha) > 1e-6 * alpha:
            return None
        return curve.mean[k], curve.error[k]
