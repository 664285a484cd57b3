"""The path of a run while it is computed: one class at a time, or the mean of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from kernelweave_app.studio.pages.charts import figure, live_chart
from kernelweave_app.studio.pages.shell import empty, text
from kernelweave_app.studio.schema import PathPoint, PathPoints

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
        self.pick = ui.select(
            [NEWEST], value=NEWEST, label="Class", on_change=lambda event: self.turn(event.value)
        )
        self.pick.props("outlined dense options-dense").style("max-width: 18rem").set_visibility(False)
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
        self.chart.options.clear()
        self.chart.options.update(live_chart(self.kernels, here, alphas, self.parameter))
        self.chart.update()
        self.empty.set_visibility(False)
        self.chart.set_visibility(True)
