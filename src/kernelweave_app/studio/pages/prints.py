"""Downloads of figures and tables for papers."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from nicegui import ui

from kernelweave_app.reports.printing import DOUBLE, SINGLE
from kernelweave_app.studio.pages.shell import text

#: Widths by what they are called.
WIDTHS = {SINGLE: f"one column, {SINGLE:g} mm", DOUBLE: f"two columns, {DOUBLE:g} mm"}


def prints(run_id: str, name: str, title: str) -> None:
    """A button with the figure as PDF and SVG in the widths of columns, and in one's own."""
    with ui.button(icon="download").props("flat dense round size=sm") as button:
        button.props["aria-label"] = f"Download figure: {title}"
        button.tooltip(f"{title} for print")
        with ui.menu():
            for width, said in WIDTHS.items():
                for kind in ("pdf", "svg"):
                    _item(f"{kind.upper()}, {said}", _address(run_id, name, kind, width))


def own_width(run_id: str, names: Sequence[str]) -> None:
    """Any figure in a width of one's own."""
    with ui.element("div").classes("kw-row"):
        figure = ui.select(list(names), value=names[0], label="Figure").props("outlined dense options-dense")
        width = (
            ui.number("Width in mm", value=SINGLE, min=40, max=400)
            .props("outlined dense")
            .style("width: 8rem")
        )
        kind = ui.select({"pdf": "PDF", "svg": "SVG"}, value="pdf", label="Format")
        kind.props("outlined dense options-dense").style("width: 7rem")

        def fetch() -> None:
            size = min(400.0, max(40.0, float(width.value or SINGLE)))
            ui.navigate.to(_address(run_id, str(figure.value), str(kind.value), size))

        ui.button("Download", icon="download", on_click=fetch).props("outline no-caps")


def tables(run_id: str, names: Sequence[str]) -> None:
    """Links to tables as CSV and LaTeX."""
    with ui.element("div").classes("kw-row"):
        for name in names:
            text(name.replace("-", " "), "span")
            for kind, said in (("csv", "CSV"), ("tex", "LaTeX")):
                ui.link(said, f"/api/runs/{run_id}/tables/{quote(name)}?kind={kind}").classes(
                    "kw-link"
                ).props["aria-label"] = f"{name} as {said}"


def _address(run_id: str, name: str, kind: str, width: float) -> str:
    return f"/api/runs/{run_id}/printed/{quote(name)}?kind={kind}&width={width:g}"


def _item(said: str, address: str) -> None:
    # Quasar calls it a list item, which is not what menus hold
    ui.menu_item(said, on_click=lambda: ui.navigate.to(address)).props("role=menuitem")
