"""A table that is uploaded where one is chosen already: it replaces it, or joins it, as the user says."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave_app.studio.files import replace_file
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.dialogs import titled
from kernelweave_app.studio.pages.shell import said, text
from kernelweave_app.studio.schema import Data, TableRef, Use
from kernelweave_app.studio.service import Studio

KEY, ORDER, REPLACE, LATER = "key", "order", "replace", "later"


@dataclass(frozen=True)
class Arrival:
    """What the user wants.

    Attributes
    ----------
    way : {"key", "order", "replace", "later"}
    key : str
        Column that names the rows.
    old : str
        Id of the table that is replaced.
    delete : bool
        Whether its file is deleted.
    """

    way: str
    key: str = ""
    old: str = ""
    delete: bool = False


@dataclass(frozen=True)
class Choice:
    """Files to learn from.

    Attributes
    ----------
    tables : list of str
    key : str
        Column that names the rows.
    by_order : bool
        Whether rows are matched by their order.
    uses : dict of str to {"table", "kernels", "sparse"}, optional
        By default as before.
    instead : dict of str to str, optional
        Tables that are replaced, and by which.
    """

    tables: list[str]
    key: str = ""
    by_order: bool = False
    uses: dict[str, Use] | None = None
    instead: dict[str, str] | None = None


def choice_of(
    desk: Desk,
    tables: list[str],
    *,
    more: Sequence[str] = (),
    less: Sequence[str] = (),
    uses: Mapping[str, Use] | None = None,
) -> Choice:
    """The files of a draft with some more, without some, or otherwise used; their rows matched as before."""
    key, by_order = (desk.data.key, desk.data.by_order) if desk.data else ("", False)
    kept = [table for table in tables if table not in less]
    return Choice([*kept, *more], key, by_order, {**desk.uses(), **(uses or {})})


#: From the draft, and those of its files that are there, to those that are to be chosen.
Choosing = Callable[[Desk, list[str]], Choice]


@dataclass(frozen=True)
class Offer:
    """What is possible.

    Attributes
    ----------
    keys : list of str
        Columns that all tables have.
    in_order : bool
        Whether all tables have equally many rows.
    """

    keys: list[str]
    in_order: bool


def look(studio: Studio, tables: list[str], new: str) -> Offer:
    """What is possible with the chosen tables and a new one.

    Parameters
    ----------
    studio : Studio
    tables : list of str
    new : str

    Returns
    -------
    Offer
    """
    ids = list(dict.fromkeys([*tables, new]))
    try:
        frames = [studio.catalogue.read(table_id) for table_id in ids]
    except InputError:
        return Offer([], False)
    keys = studio.join(Data(tables=ids)).keys
    # a key names each row once
    usable = [key for key in keys if all(not f[key].isna().any() and f[key].is_unique for f in frames)]
    return Offer(usable, len({len(frame) for frame in frames}) == 1)


async def ask(refs: dict[str, TableRef], tables: list[str], new: str, offer: Offer, key: str) -> Arrival:
    """Ask how a table that was uploaded is to be used.

    Parameters
    ----------
    refs : dict of str to TableRef
    tables : list of str
        Those that are chosen.
    new : str
    offer : Offer
    key : str
        The key of now.

    Returns
    -------
    Arrival
    """
    ways = {}
    if offer.keys:
        ways[KEY] = "Join: rows are matched by a column that names them"
    if offer.in_order:
        ways[ORDER] = "Join: rows are matched by their order"
    ways[REPLACE] = "Replace a table that is chosen"
    ways[LATER] = "Only store it in the project"
    with titled(f"How should {refs[new].name} be used?") as dialog:
        # Escape only stores it; a press beside the dialog could be a mistake
        dialog.props("no-backdrop-dismiss")
        way = ui.radio(ways, value=next(iter(ways))).props("dense").classes("kw-ways")
        way.props["aria-label"] = "Use of the table"
        keys = ui.select(
            offer.keys, value=key if key in offer.keys else next(iter(offer.keys), None), label="Key"
        )
        keys.props("outlined dense options-dense").style("width: 100%")
        keys.bind_visibility_from(way, "value", value=KEY)
        old = ui.select({t: refs[t].name for t in tables}, value=tables[0], label="Table to replace")
        old.props("outlined dense options-dense").style("width: 100%")
        old.bind_visibility_from(way, "value", value=REPLACE)
        delete = ui.checkbox("Delete its file; the new one takes its name if they were called the same")
        delete.bind_visibility_from(way, "value", value=REPLACE)
        if not offer.keys and not offer.in_order:
            text(
                "It cannot be joined: no column names each row in all tables, and their rows are not equally many."
            ).classes("kw-hint")
        with ui.element("div").classes("kw-end").style("width: 100%"):
            ui.button("Do that", on_click=lambda: dialog.submit(way.value)).props("unelevated")
    chosen = await dialog
    if chosen == KEY:
        return Arrival(KEY, key=keys.value or "")
    if chosen == REPLACE:
        own = refs[old.value].source == "data folder"
        return Arrival(REPLACE, old=old.value, delete=bool(delete.value) and own)
    return Arrival(chosen or LATER)


class Arriving(ABC):
    """The part of the data page that asks how uploaded files are to be used.

    Parameters
    ----------
    studio : Studio
    """

    chosen: Any

    def __init__(self, studio: Studio) -> None:
        self.studio, self.desk = studio, Desk(studio)
        self.asking = asyncio.Lock()
        # what handlers say after they have waited is said here: the part with their button may be gone by then
        self.client = ui.context.client

    @abstractmethod
    async def add(self, table_id: str) -> None:
        """Choose one more file."""

    @abstractmethod
    async def choose(self, choosing: Choosing) -> bool:
        """Choose files; tells whether that was possible."""

    @abstractmethod
    def renew(self) -> None:
        """Show changes."""

    async def uploaded(self, table_id: str) -> None:
        """Add a file that was uploaded, or ask how it is to be used."""
        async with self.asking:  # of several files, one after the other
            desk = Desk(self.studio)
            tables, _ = await offload(desk.found)
            refs = {ref.id: ref for ref in await offload(self.studio.tables)}
            # kernels and sparse views come beside tables, whatever is chosen
            tables = [table for table in tables if desk.use_of(table) == "table"]
            if not tables or refs[table_id].uses[0] != "table":
                await self.add(table_id)
                return
            offer = await offload(look, self.studio, tables, table_id)
            if self.client.is_deleted:  # nobody is left to be asked
                return
            wish = await ask(refs, tables, table_id, offer, desk.data.key if desk.data else "")
            if wish.way == REPLACE:
                await self._replace(wish.old, table_id, wish.delete)
            elif wish.way == LATER:
                self.chosen.refresh()
            else:
                await self.choose(
                    lambda _, tables: Choice([*tables, table_id], wish.key, by_order=wish.way == ORDER)
                )

    async def _replace(self, old: str, new: str, delete: bool) -> None:
        def instead(desk: Desk, tables: list[str]) -> Choice:
            key, by_order = (desk.data.key, desk.data.by_order) if desk.data else ("", False)
            # the old one may have been left out in another window
            tables = [new if table == old else table for table in tables]
            return Choice([*tables, new], key, by_order, instead={old: new})

        if await self.choose(instead) and delete:
            try:
                kept = await offload(replace_file, self.studio, old, new)
            except InputError as error:
                said(error)
                return
            Desk(self.studio).rename_table(new, kept)
            self.renew()
