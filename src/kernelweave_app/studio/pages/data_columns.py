"""The columns of a table: searched, with their distribution, and a type and a role that can be changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave_app.runs.columns import read_types
from kernelweave_app.studio.columns import ROLES, role_of, with_role
from kernelweave_app.studio.pages.desk import ELSEWHERE, Desk
from kernelweave_app.studio.pages.shell import Turn, number, plural, said, stack, text
from kernelweave_app.studio.schema import Column, Columns
from kernelweave_app.studio.service import Studio

if TYPE_CHECKING:
    from nicegui.events import ValueChangeEventArguments

#: Columns that are shown at once.
SHOWN = 12
WIDTH, HEIGHT = 120, 26


class ColumnList:
    """The columns of one table.

    Parameters
    ----------
    studio : Studio
    desk : Desk
    table_id, table : str
        Id and name of the table.
    names : mapping of str to str
        The name after joining of each column.
    first : Columns
        The first columns.
    changed : callable
        Called when a type or a role has changed.
    choosing : asyncio.Lock
        Held while tables are chosen.
    """

    def __init__(
        self,
        studio: Studio,
        desk: Desk,
        table_id: str,
        table: str,
        names: Mapping[str, str],
        first: Columns,
        changed: Callable[[], object],
        choosing: asyncio.Lock,
    ) -> None:
        self.studio, self.desk, self.table_id, self.table = studio, desk, table_id, table
        self.names, self.found, self.changed, self.choosing = names, first, changed, choosing
        self.search, self.start = "", 0
        self.turn = Turn()

    def build(self) -> None:
        """Search field, and the columns."""
        if self.found.total > SHOWN:
            find = ui.input(f"Find columns of {self.table}", on_change=self._look)
            find.props("outlined dense clearable debounce=250").style("max-width: 24rem; width: 100%")
        self.shown()

    async def _look(self, event: ValueChangeEventArguments) -> None:
        self.search, self.start = (event.value or "").strip(), 0
        await self._read()

    async def _turn(self, by: int) -> None:
        # a press that comes before the button is disabled leads nowhere
        if 0 <= self.start + by < self.found.total:
            self.start += by
        await self._read()

    async def _read(self) -> None:
        newest = self.turn.take()
        types = types_of(self.desk, self.names)
        found = await offload(self.studio.columns, self.table_id, self.start, SHOWN, self.search, types)
        if newest():
            self.found = found
            self.shown.refresh()

    @ui.refreshable_method
    def shown(self) -> None:
        """A page of columns."""
        found = self.found
        if not found.total:
            text(f"No column has {self.search!r} in its name.").classes("kw-hint")
            return
        with ui.element("ul").classes("kw-columns").props("role=list") as group:
            group.props["aria-label"] = f"Columns of {self.table}"
            for column in found.columns[:SHOWN]:
                self.column(column)
        if found.total > SHOWN:
            end = min(self.start + SHOWN, found.total)
            with ui.element("div").classes("kw-row"):
                text(f"{self.start + 1} to {end} of {plural(found.total, 'column')}").classes("kw-hint")
                for label, icon, by, off in (
                    ("Earlier columns", "chevron_left", -SHOWN, self.start == 0),
                    ("Further columns", "chevron_right", SHOWN, end >= found.total),
                ):
                    button = ui.button(icon=icon, on_click=partial(self._turn, by)).props("flat round dense")
                    button.props["aria-label"] = label
                    button.set_enabled(not off)

    def column(self, column: Column) -> None:
        """One column."""
        data = self.desk.data
        assert data is not None
        name = self.names.get(column.name, column.name)
        with ui.element("li").classes("kw-column"):
            with stack("kw-what"):
                text(column.name, "b").props["title"] = column.name
                text(said_of(column), "small")
            with ui.element("div").classes("kw-spread"):
                ui.html(drawing(column), sanitize=False).props("aria-hidden=true")
                text(spread_of(column), "small")
            kind = read_types(self.desk.spec.types).get(name, "")
            types = ui.select(type_options(column, kind), value=kind, on_change=partial(self._retype, name))
            types.props("outlined dense options-dense").props["aria-label"] = f"Type of {column.name}"
            role = role_of(name, self.desk.spec, data)
            offered = {key: label for key, label in ROLES.items() if key != "key" or len(data.files) > 1}
            roles = ui.select(offered, value=role, on_change=partial(self._recast, name))
            roles.props("outlined dense options-dense").props["aria-label"] = f"Role of {column.name}"

    def _retype(self, name: str, event: ValueChangeEventArguments) -> None:
        kinds = {key: kind for key, kind in read_types(self.desk.spec.types).items() if key != name}
        if event.value:
            kinds[name] = event.value
        self._set(types=kinds or "")

    async def _recast(self, name: str, event: ValueChangeEventArguments) -> None:
        client = ui.context.client  # the list may be gone by the end
        async with self.choosing:
            desk = Desk(self.studio)
            try:
                if desk.data is None or desk.data != self.desk.data:
                    raise InputError(ELSEWHERE)
                if event.value == "key" or name == desk.data.key:
                    key = name if event.value == "key" else ""
                    # columns of all tables are looked at
                    await offload(desk.set_tables, desk.data.files, key)
                if event.value != "key":
                    desk.set(**with_role(name, event.value, desk.spec))
            except InputError as error:
                with client:
                    said(error)
        self.changed()

    def _set(self, **values: Any) -> None:
        try:
            self.desk.set(**values)
        except InputError as error:
            said(error)
        self.changed()


def types_of(desk: Desk, names: Mapping[str, str]) -> dict[str, str]:
    """Types that were given to columns of a table, by their names there; `names` are those after joining."""
    asked = read_types(desk.spec.types)
    return {plain: asked[name] for plain, name in names.items() if name in asked}


def type_options(column: Column, kind: str) -> dict[str, str]:
    """Types to choose from: what a column looks like, and what else it may be."""
    seen: str = "as it looks" if kind else column.kind
    if not kind and column.kind == "text" and column.taken_for == "category":
        seen = "text: a category"
    found = {"": seen, "number": "number", "category": "category", "text": "text to read"}
    if not kind and column.taken_for in ("number", "text"):
        del found[column.taken_for]
    return found


def said_of(column: Column) -> str:
    """What is missing, and how many different values there are."""
    parts = [plural(column.n_distinct or 0, "value")]
    if column.n_missing:
        parts.append(f"{column.n_missing} missing")
    if column.names_rows:
        parts.append("names of rows?")
    return ", ".join(parts)


def spread_of(column: Column) -> str:
    """Range and median of numbers, the most frequent values of others."""
    if column.low is not None:
        return f"{number(column.low)} to {number(column.high)}, median {number(column.median)}"
    few = [f"{name} ({count})" for name, count in list(column.levels.items())[:3]]
    return ", ".join(few) + (", …" if (column.n_distinct or 0) > len(few) else "")


def drawing(column: Column) -> str:
    """A small histogram of numbers, or bars of the most frequent values; made of numbers alone."""
    counts = column.counts or list(column.levels.values())
    most = max(counts, default=0)
    if not most:
        return ""
    step = WIDTH / max(len(counts), 3)
    bars = "".join(
        f'<rect x="{k * step + 0.5:.1f}" y="{HEIGHT * (1 - n / most):.1f}" width="{step - 1:.1f}" '
        f'height="{max(HEIGHT * n / most, 0.6 if n else 0):.1f}"/>'
        for k, n in enumerate(counts)
    )
    kind = "kw-bins" if column.counts else "kw-levels"
    return f'<svg class="{kind}" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">{bars}</svg>'
