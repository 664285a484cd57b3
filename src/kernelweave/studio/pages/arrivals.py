"""What becomes of a table that arrives where one is chosen already: it replaces it, or joins it."""

from __future__ import annotations

from dataclasses import dataclass

from nicegui import ui

from kernelweave._errors import InputError
from kernelweave.studio.pages.shell import text
from kernelweave.studio.schema import Data, TableRef
from kernelweave.studio.service import Studio

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
    """Ask what becomes of a table that has arrived.

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
    with ui.dialog().props("persistent") as dialog, ui.card().classes("kw-ask"):
        text(f"What becomes of {refs[new].name}?", "h2").style("overflow-wrap: anywhere")
        way = ui.radio(ways, value=next(iter(ways))).props("dense").classes("kw-ways")
        way.props["aria-label"] = "What becomes of the table"
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
    dialog.delete()
    if chosen == KEY:
        return Arrival(KEY, key=keys.value or "")
    if chosen == REPLACE:
        own = refs[old.value].source == "data folder"
        return Arrival(REPLACE, old=old.value, delete=bool(delete.value) and own)
    return Arrival(chosen or LATER)
