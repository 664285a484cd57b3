"""The card of contributions: what each kernel adds to the decision for a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from kernelweave._drawing import LOWERS_WORD, RAISES_WORD, SIGNED, explain_signs
from kernelweave_app.studio.pages import charts
from kernelweave_app.studio.pages.prints import prints
from kernelweave_app.studio.pages.shell import (
    card,
    plural,
    stack,
    text,
)
from kernelweave_app.studio.schema import Results

if TYPE_CHECKING:
    from kernelweave._types import Tree

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
                prints(self.run_id, "contributions", "Contribution of each kernel")
            with stack("kw-two"):
                with stack():
                    self.one = charts.figure(
                        self.options(), "Contributions of kernels to one row",
                        height=f"{4 + 1.75 * (len(found.kernels) + 2):.1f}rem",
                    )  # fmt: skip
                    self.signs()
                    self.said = text(self.describe()).classes("kw-hint")
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
        for chart, options in ((self.one, self.options()), (self.all, self.heat())):
            chart.options.clear()
            chart.options.update(options)
            chart.update()
        self.said.set_text(self.describe())

    @staticmethod
    def signs() -> None:
        """What the colours of the bars mean."""
        with ui.element("div").classes("kw-signs").props('role=note aria-label="Colours"'):
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
        return f"Predicted {row['prediction']}, true {row['truth']}."

    def heat(self) -> Tree:
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
                "inRange": {"color": list(SIGNED)},
            },
            series=[{"type": "heatmap", "data": data, "progressive": 0}],
        )  # fmt: skip
        options["grid"]["top"] = 8
        return options
