"""The page of tables: choose, upload, join and view them, and choose the target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nicegui import ui
from nicegui.events import ValueChangeEventArguments
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._drawing import percent
from kernelweave._errors import InputError
from kernelweave._forms import names_in
from kernelweave_app.runs.columns import names_of_target, read_types
from kernelweave_app.runs.proposing import by_names
from kernelweave_app.runs.spec import Spec, event_setting, label_of
from kernelweave_app.runs.survival import event_of, outcome_columns
from kernelweave_app.studio.consequences import NO_TIMES
from kernelweave_app.studio.looking import FAR, MOST_OUTLIERS, ROLES, or_problem, role_of, with_role
from kernelweave_app.studio.pages import charts
from kernelweave_app.studio.pages.desk import ELSEWHERE, Desk
from kernelweave_app.studio.pages.form import Form, show_consequences
from kernelweave_app.studio.pages.frame import page, start
from kernelweave_app.studio.pages.kernels import ask_for_file
from kernelweave_app.studio.pages.pieces import (
    Part,
    bar,
    bars,
    big_table,
    card,
    counted,
    drop_zone,
    dropdown,
    file_row,
    guarded,
    hint,
    icon_button,
    later,
    note,
    number,
    pick_column,
    plural,
    said,
    simple_table,
    size,
    stack,
    stat,
    switch,
    tabbed,
    tag,
    text,
    titled,
    turner,
    waiting,
    warn,
    word_button,
)
from kernelweave_app.studio.pages.story import SourceRow, draw_sources
from kernelweave_app.studio.projects import replace_file
from kernelweave_app.studio.schema import (
    Alignments,
    Column,
    Columns,
    Consequence,
    Data,
    Further,
    Gap,
    Joining,
    Marked,
    Missing,
    Outliers,
    Rows,
    Table,
    TableRef,
    Target,
    Times,
    Use,
)
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.templates import EXAMPLE, PAPERS, Template


@dataclass(frozen=True)
class Choice:
    """Files to learn from.

    Attributes
    ----------
    files : dict of str to {"table", "kernels", "sparse"}
        What each is used as.
    key : str
        Column that names the rows.
    by_order : bool
        Whether rows are matched by their order.
    instead : dict of str to str, optional
        Tables that are replaced, and by which.
    """

    files: dict[str, Use]
    key: str = ""
    by_order: bool = False
    instead: dict[str, str] | None = None


#: From the files that are chosen, and are there, to those that are to be chosen.
Choosing = Callable[[Choice], Choice]


def look(studio: Studio, tables: list[str], new: str) -> tuple[list[str], bool]:
    """Columns by which the chosen tables and a new one can be joined, and whether they have equally many rows."""
    ids = list(dict.fromkeys([*tables, new]))
    try:
        frames = [studio.catalogue.read(table_id) for table_id in ids]
    except InputError:
        return [], False
    keys = studio.join(Data(tables=ids)).keys
    # a key names each row once
    usable = [key for key in keys if all(not f[key].isna().any() and f[key].is_unique for f in frames)]
    return usable, len({len(frame) for frame in frames}) == 1


async def ask(
    refs: dict[str, TableRef], tables: list[str], new: str, keys: list[str], in_order: bool, key: str
) -> tuple[Choosing | None, str]:
    """Ask how a table that was uploaded is to be used.

    Parameters
    ----------
    refs : dict of str to TableRef
    tables : list of str
        Those that are chosen.
    new : str
    keys : list of str
        Columns by which all of them can be joined.
    in_order : bool
        Whether they can be joined by the order of their rows.
    key : str
        The key of now.

    Returns
    -------
    choosing : callable or None
        None if it is only stored.
    old : str
        The id of a file that is to be deleted, empty for none.
    """
    ways = {"key": "Join: rows are matched by a column that names them"} if keys else {}
    if in_order:
        ways["order"] = "Join: rows are matched by their order"
    ways |= {"replace": "Replace a table that is chosen", "later": "Only store it in the project"}
    with titled(f"How should {refs[new].name} be used?") as dialog:
        # Escape only stores it; a press beside the dialog could be a mistake
        dialog.props("no-backdrop-dismiss")
        way = ui.radio(ways, value=next(iter(ways))).props("dense").classes("kw-ways")
        way.props["aria-label"] = "Use of the table"
        usual = key if key in keys else next(iter(keys), None)
        by = dropdown(keys, value=usual, label="Key")
        old = dropdown({t: refs[t].name for t in tables}, value=tables[0], label="Table to replace")
        for pick, of in ((by, "key"), (old, "replace")):
            pick.style("width: 100%").bind_visibility_from(way, "value", value=of)
        delete = ui.checkbox("Delete its file; the new one takes its name if they were called the same")
        delete.bind_visibility_from(way, "value", value="replace")
        if not keys and not in_order:
            hint(
                "It cannot be joined: no column names each row in all tables, and their rows are not equally many."
            )
        with stack("kw-end").style("width: 100%"):
            word_button("Do that", "", lambda: dialog.submit(way.value), "unelevated")
    chosen = await dialog

    def instead(now: Choice) -> Choice:
        # the old one may have been left out in another window
        files = {new if file == old.value else file: use for file, use in now.files.items()}
        return replace(now, files={**files, new: "table"}, instead={old.value: new})

    if chosen == "replace":
        return instead, old.value if delete.value and refs[old.value].source == "data folder" else ""
    if chosen in ("key", "order"):
        key = (by.value or "") if chosen == "key" else ""
        return lambda now: Choice({**now.files, new: "table"}, key, chosen == "order"), ""
    return None, ""


VIEWS = {
    "complete": "their kernels are predicted from those of the other views",
    "renormalize": "the weight of the view goes to the others",
    "error": "their cells are treated as missing cells",
}


def show_sides(joined: Joining) -> None:
    """How many rows tables have in common, and which are missing from each."""
    most = max(side.n_rows for side in joined.sides)
    text(f"{plural(joined.n_rows, 'row is', 'rows are')} in every table.").style("font-weight: 500")
    for side in joined.sides:
        bar(side.name, side.n_rows / most, f"{side.n_rows}")
        if side.n_missing:
            few = ", ".join(side.examples)
            more = ", …" if side.n_missing > len(side.examples) else ""
            hint(f"{plural(side.n_missing, 'row')} of other tables not in {side.name}: {few}{more}")


def show_missing(found: Missing, spec: Spec) -> None:
    """Missing cells by column, and what would fill them."""
    if not found.n_cells:
        return
    with card("Missing values") as aside:
        with aside:
            tag(f"{plural(found.n_cells, 'cell')} in {plural(found.n_columns, 'column')}", "warn")
        whole = found.n_rows - found.n_incomplete
        text(
            f"Of {plural(found.n_rows, 'row')}, {plural(found.n_incomplete, 'lacks', 'lack')} a cell, and "
            f"{plural(whole, 'is', 'are')} complete."
        )
        for view, count in found.views.items():
            text(
                f"{plural(count, 'row lacks', 'rows lack')} all of view {view}: {VIEWS[spec.missing_views]}."
            )
        simple_table(
            ["column", "missing", "share", "mean", "median", "most frequent", "from nearest rows"],
            [_gap(gap, found.n_rows) for gap in found.columns],
            numbers=(1, 2, 3, 4),
            label="Missing cells by column",
        )
        rest = found.n_columns - len(found.columns)
        more = f" {plural(rest, 'more column')} with fewer missing cells." if rest > 0 else ""
        hint(f"Of all rows here; a run takes these numbers from its training rows.{more}")


def _gap(gap: Gap, n_rows: int) -> list[object]:
    low, high = (gap.nearest[0], gap.nearest[-1]) if gap.nearest else (None, None)
    near = number(low) if low == high else f"{number(low)} to {number(high)}"
    return [
        gap.name,
        gap.n_missing,
        percent(gap.n_missing / n_rows),
        number(gap.mean),
        number(gap.median),
        gap.frequent or "–",
        near if low is not None else "–",
    ]


def show_outliers(found: Outliers, table: str, n_rows: int) -> None:
    """Numbers far from the median of their column, with their rows."""
    rule = (
        f"Numbers {FAR:g} or more robust standard deviations (1.4826 times the median absolute deviation) from the "
        "median."
    )
    if not found.n_outliers:
        hint(f"None. {rule}")
        return
    worst = sorted(found.columns.items(), key=lambda pair: -pair[1])[:5]
    hint(
        f"{plural(found.n_outliers, 'number')} in {plural(len(found.columns), 'column')}, most of them in "
        f"{', '.join(f'{name} ({count})' for name, count in worst)}. {rule} Skewed columns have many."
    )
    rows = [
        [one.row + 1, one.column, f"{one.value:.6g}", f"{one.median:.6g}", f"{one.z:.1f}"]
        for one in found.outliers
    ]
    big_table(["row", "column", "value", "median", "robust z"], rows, label=f"Outliers of {table}")
    if found.n_outliers > MOST_OUTLIERS:
        hint(f"The {MOST_OUTLIERS} farthest ones.")
    if found.n_rows < n_rows:
        hint(f"Of {plural(found.n_rows, 'row')}, evenly spread over all {n_rows}.")


def show_rows(found: Rows, table: Table) -> None:
    """The first rows of a table."""
    big_table(found.columns, found.rows, label=f"First rows of {table.name}")
    if table.n_columns > WIDEST or table.n_rows > SHOWN_ROWS:
        rows = plural(min(SHOWN_ROWS, table.n_rows), "row")
        hint(f"The first {rows} and {plural(min(WIDEST, table.n_columns), 'column')}.")


def show_alignments(found: Alignments) -> None:
    """How alike views are, as a heat map, and how alike the target."""
    if not found.names:
        hint("There is no view with differing rows.")
        return
    with stack("kw-two"):
        with stack():
            text("With the target", "h3")
            best = sorted(zip(found.names, found.target, strict=True), key=lambda pair: -pair[1])
            bars(best, "{:.2f}".format, 1.0)
        if len(found.names) > 1:
            charts.figure(
                charts.heat_chart(found.names, found.names, found.values),
                "Alignment of views: " + _pairs(found.names, found.values),
                height=f"{9 + 1.6 * min(len(found.names), 20):.1f}rem",
            )
    hint(
        f"Centred alignment of the linear kernels of the views on {plural(found.n_rows, 'row')}: 0 where views say "
        "different things about rows, 1 where they say the same. Missing cells count as the mean."
    )


def _pairs(names: Sequence[str], values: Sequence[Sequence[float]]) -> str:
    pairs = [(values[i][j], a, names[j]) for i, a in enumerate(names) for j in range(i)]
    pairs.sort(reverse=True)
    return "; ".join(f"{a} and {b} {value:.2f}" for value, a, b in pairs[:6])


def show_further(found: Sequence[Further]) -> None:
    """Views from files of their own."""
    if not found:
        return
    with card(
        "Views from files", "They are used beside the columns of the table, each with a weight of its own."
    ):
        for one in found:
            what = (
                f"a precomputed kernel, taken as it is ({plural(one.n_columns, 'row')} in the file)"
                if one.use == "kernels"
                else f"{plural(one.n_columns, 'sparse column')}"
            )
            by = f"rows matched by {one.by}" if one.by else "rows in the order of the table"
            with file_row(one.name, f"{what}; {by}. From {one.file}."):
                pass
        if any(not one.by for one in found):
            note(
                "Rows that belong together by position must be the same rows in the same order as in the table."
            )


#: Columns that are shown at once.
SHOWN = 12
WIDTH, HEIGHT = 120, 26


class ColumnList:
    """The columns of one table.

    Parameters
    ----------
    page : DataPage
        Drawn anew when a type or a role has changed.
    table : Table
    names : mapping of str to str
        The name after joining of each column.
    """

    def __init__(self, page: DataPage, table: Table, names: Mapping[str, str]) -> None:
        self.page, self.studio, self.desk = page, page.studio, page.desk
        self.table, self.names = table, names
        self.search, self.start, self.total = "", 0, 0
        self.part = Part("", self.shown, self.read)

    def build(self) -> None:
        """Search field, and the columns."""
        if self.table.n_columns > SHOWN:
            find = ui.input(f"Find columns of {self.table.name}", on_change=self._look)
            find.props("outlined dense clearable debounce=250").style("max-width: 24rem; width: 100%")
        self.part.build()

    def _look(self, event: ValueChangeEventArguments) -> None:
        self.search, self.start = (event.value or "").strip(), 0
        self.part.renew(quietly=True)

    def _turn(self, by: int) -> None:
        # a press that comes before the button is disabled leads nowhere
        if 0 <= self.start + by < self.total:
            self.start += by
        self.part.renew(quietly=True)

    def read(self) -> Columns:
        """Describe a page of columns."""
        types = types_of(self.desk, self.names)
        return self.studio.columns(self.table.id, self.start, SHOWN, self.search, types)

    def shown(self, found: Columns) -> None:
        """A page of columns."""
        self.total = found.total
        if not found.total:
            hint(f"No column has {self.search!r} in its name.")
            return
        with ui.element("ul").classes("kw-columns").props("role=list") as group:
            group.props["aria-label"] = f"Columns of {self.table.name}"
            for column in found.columns[:SHOWN]:
                self.column(column)
        if found.total > SHOWN:
            with stack("kw-row"):
                turner(self.start, SHOWN, found.total, "column", self._turn)

    def column(self, column: Column) -> None:
        """One column."""
        data = self.desk.data
        assert data is not None
        name = self.names.get(column.name, column.name)
        with ui.element("li").classes("kw-column"):
            with stack("kw-what"):
                text(column.name, "b").props["title"] = column.name
                text(said_of(column), "small")
            with stack("kw-spread"):
                ui.html(drawing(column), sanitize=False).props("aria-hidden=true")
                text(spread_of(column), "small")
            kind = read_types(self.desk.spec.types).get(name, "")
            types, retype = type_options(column, kind), partial(self._retype, name)
            dropdown(types, name=f"Type of {column.name}", value=kind, on_change=retype)
            role = role_of(name, self.desk.spec, data, self.page.columns)
            useless = {
                *(() if len(data.files) > 1 else ("key",)),
                *(() if self.desk.spec.survival else ("strata",)),
            }
            offered = {key: label for key, label in ROLES.items() if key not in useless}
            recast = partial(self._recast, name)
            dropdown(offered, name=f"Role of {column.name}", value=role, on_change=recast)

    def _retype(self, name: str, event: ValueChangeEventArguments) -> None:
        kinds = {key: kind for key, kind in read_types(self.desk.spec.types).items() if key != name}
        if event.value:
            kinds[name] = event.value
        try:
            self.desk.set(types=kinds or "")
        except InputError as error:
            said(error)
        self.page.renew()

    async def _recast(self, name: str, event: ValueChangeEventArguments) -> None:
        client = ui.context.client  # the list may be gone by the end
        async with self.page.choosing:
            desk = Desk(self.studio)
            try:
                if desk.data is None or desk.data != self.desk.data:
                    raise InputError(ELSEWHERE)
                if event.value == "key" or name == desk.data.key:
                    key = name if event.value == "key" else ""
                    # columns of all tables are looked at
                    await offload(desk.set_tables, desk.data.files, key)
                if event.value != "key":
                    desk.set(**with_role(name, event.value, desk.spec, self.page.columns))
            except InputError as error:
                with client:
                    said(error)
        self.page.renew()


def types_of(desk: Desk, names: Mapping[str, str]) -> dict[str, str]:
    """Types that were given to columns of a table, by their names there; `names` are those after joining."""
    asked = read_types(desk.spec.types)
    return {plain: asked[name] for plain, name in names.items() if name in asked}


def type_options(column: Column, kind: str) -> dict[str, str]:
    """Types to choose from: what a column looks like, and what else it may be."""
    seen: str = "as it looks" if kind else column.kind
    if not kind and column.kind == "text" and column.taken_for == "category":
        seen = "text: a category"
    found = {"": seen, "number": "number", "category": "category", "text": "text to read", "date": "date"}
    if not kind and column.taken_for in ("number", "text", "date"):
        del found[column.taken_for]
    return found


def said_of(column: Column) -> str:
    """What is missing, and how many different values there are."""
    parts = [plural(column.n_distinct or 0, "value")]
    if column.n_missing:
        parts.append(f"{column.n_missing} missing")
    if column.names_rows:
        parts.append("names of rows, left out" if not column.taken_for else "names of rows?")
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


#: Size of a table, its first rows, numbers far from the others, and names of columns after joining.
Look = tuple[Table, Rows, Outliers, dict[str, str]]
#: The target, missing cells, held-out rows, what follows, and each table; texts say what is wrong.
Looks = tuple[
    Target | Times | str | None,
    Missing | str | None,
    Marked | str | None,
    list[Consequence] | str,
    list[Look | str],
]
#: Rows that are shown at once.
SHOWN_ROWS = 50
WIDEST = 30
READING = "Reading the tables"
#: What files are used as.
USES: dict[Use, str] = {"table": "table", "kernels": "kernels", "sparse": "sparse view"}
#: The sources of the example after its fits without each of them, with ten divisions of the rows.
PICTURE = [
    SourceRow("worst", "0.016", 0.0158, -0.0018, 0.0334, "inconclusive"),
    SourceRow("error", "0.006", 0.0058, 0.0013, 0.0104, "no"),
    SourceRow("mean", "0.001", 0.0006, -0.0167, 0.0178, "no"),
]


class DataPage:
    """The page of tables."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.desk = studio, Desk(studio)
        self.asking = asyncio.Lock()
        # what handlers say after they have waited is said here: the part with their button may be gone by then
        self.client = ui.context.client
        self.about = Part(READING, self.show, self.read)
        self.form = Form(lambda: self.desk, self.about.renew, self.about.renew)
        #: the tables side by side, once they have been read
        self.joined: Joining | None = None
        #: what is to be predicted, before columns say it
        self.what = ""
        #: of several choices each begins with what the one before it has left
        self.choosing = asyncio.Lock()

    async def build(self) -> None:
        """Draw the page."""
        lead = "Choose the tables to learn from, and the column to predict. Files stay on this computer."
        with page(self.studio, "/", "Data", lead):
            with stack("kw-wide"):
                with stack():
                    self.chosen()
                with stack():
                    self.uploads()
            self.sign = stack()
            # large tables take a while to read, so the page is shown first
            self.about.build()
            if self.desk.data is None:
                self.about.show(self.examples)

    def renew(self) -> None:
        """Show changes."""
        self.desk, self.joined = Desk(self.studio), None
        self.chosen.refresh()
        if self.desk.data is None:
            self.about.show(self.examples)
        else:
            self.about.renew()

    @property
    def columns(self) -> list[str]:
        """Columns of the tables side by side."""
        return self.joined.columns if self.joined else []

    # ---- choosing ---------------------------------------------------------------------------------

    @ui.refreshable_method
    def chosen(self) -> None:
        """The files that are chosen, and a list to choose more from."""
        refs = {ref.id: ref for ref in self.studio.tables()}
        ids, gone = self.desk.found()
        with card("Tables"):
            options = {
                ref.id: f"{ref.name}  ·  {ref.about or size(ref.size)}"
                for ref in refs.values()
                if ref.id not in ids
            }
            label = "Choose a table" if not ids else "Add another table, joined by a key"
            pick = dropdown(options, props="clearable", label=label, with_input=True)
            pick.on_value_change(lambda event: self.add(event.value))
            pick.style("width: 100%")
            if not ids and not gone:
                hint("No table is chosen yet.")
            for table_id in ids:
                ref = refs[table_id]
                self._file(table_id, ref.name, ref.about or f"{ref.source}, {size(ref.size)}", ref.uses)
            for table_id in gone:
                self._file(table_id, "A removed table", "It is no longer in the data folder.")
            if gone:
                note("Put the file back and load this page again, or leave the table out.", "warn")
            self.key_place = stack()
            self._show_key()

    def _file(self, table_id: str, name: str, about: str, uses: Sequence[Use] = ()) -> None:
        """A chosen file, which can be left out, or used otherwise."""
        with file_row(name, about):
            use = self.desk.use_of(table_id)
            if len(uses) > 1:
                pick = dropdown({one: USES[one] for one in uses}, name=f"Use {name} as", value=use)
                pick.on_value_change(lambda event: self.use(table_id, event.value)).style("width: 9rem")
            elif use != "table":
                tag(USES[use])
            icon_button("close", f"Leave out {name}", lambda: self.leave_out(table_id))

    async def add(self, table_id: str) -> None:
        """Choose one more file, if one was picked."""
        if table_id:
            uses = {ref.id: ref.uses[0] for ref in await offload(self.studio.tables)}
            await self.use(table_id, uses.get(table_id, "table"))

    async def use(self, table_id: str, use: Use) -> None:
        """Use a file as something."""
        await self.choose(lambda now: replace(now, files={**now.files, table_id: use}))

    async def leave_out(self, table_id: str) -> None:
        """Leave out a file."""

        def others(now: Choice) -> Choice:
            return replace(now, files={file: use for file, use in now.files.items() if file != table_id})

        await self.choose(others)

    async def choose(self, choosing: Choosing) -> bool:
        """Choose files, one choice after the other; tells whether that was possible."""
        async with self.choosing:
            with self.client:
                return await self._choose(choosing)

    async def _choose(self, choosing: Choosing) -> bool:
        desk = Desk(self.studio)
        if not self.client.is_deleted:
            with self.sign:
                waiting(READING)
        try:
            there, _ = await offload(desk.found)
            files = {file: use for file, use in desk.uses().items() if file in there}
            now = Choice(files, desk.data.key, desk.data.by_order) if desk.data else Choice({})
            chosen = choosing(now)
            files, key = chosen.files, chosen.key
            frames = [file for file, use in files.items() if use == "table"]
            for table_id in frames:
                await offload(self.studio.catalogue.read, table_id)
            if len(frames) > 1 and not key and not chosen.by_order:
                shared = (await offload(self.studio.join, Data(tables=frames))).keys
                key = shared[0] if shared else ""
            lost = await offload(desk.set_tables, list(files), key, files, chosen.by_order, chosen.instead)
        except InputError as error:
            said(error)
            return False
        finally:
            self.sign.clear()
        if lost and not self.client.is_deleted:
            target = desk.spec.predicted
            then = (
                f" The target is {target!r} now." if any(text.startswith("target") for text in lost) else ""
            )
            warn(f"Reset, because the tables do not have it: {'; '.join(lost)}.{then if target else ''}")
        self.renew()
        return True

    def _show_key(self) -> None:
        """Show how the tables are joined, among those that are chosen."""
        self.key_place.clear()
        if self.joined is not None and len(self.joined.sides) > 1:
            with self.key_place:
                self._joining(self.joined)

    def _joining(self, joined: Joining) -> None:
        data = self.desk.data
        assert data is not None

        async def change(key: str) -> None:
            await self.choose(lambda now: Choice(now.files, key))

        if data.by_order:
            hint("Rows are matched by their order.")
        options = list(dict.fromkeys([*joined.keys, *([data.key] if data.key else [])]))
        pick_column(options, data.key, "Key: the column that names the rows", change, clearable=False)
        if joined.problem:
            note(joined.problem, "warn")
            return
        show_sides(joined)

    # ---- uploading --------------------------------------------------------------------------------

    def uploads(self) -> None:
        """A place to drop files on."""
        about = self.studio.about()
        with card(
            "Upload",
            f"Tables, sparse tables and precomputed kernels ({', '.join(about.suffixes)}), up to {size(about.upload)}. "
            "The file goes to the data folder.",
        ):
            drop_zone("Drop a table here, or press +", self.uploaded, multiple=True)
            hint(f"Data folder: {about.data_folder}").style("overflow-wrap: anywhere")

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
            choosing, old = await ask(refs, tables, table_id, *offer, desk.data.key if desk.data else "")
            if choosing is None:
                self.chosen.refresh()
            elif await self.choose(choosing) and old:
                try:
                    kept = await offload(replace_file, self.studio, old, table_id)
                except InputError as error:
                    said(error)
                    return
                Desk(self.studio).rename_table(table_id, kept)
                self.renew()

    # ---- contents --------------------------------------------------------------------------------

    def examples(self) -> None:
        """Without a table: what this is for, a picture of a result, an example, and tables of the papers."""
        with card("What this is for"), stack("kw-story kw-hero"):
            with ui.element("section").classes("kw-verdict"):
                text(
                    "Find out which of several sources of data predict an outcome, and how sure that is.", "p"
                ).classes("kw-said")
                text("Drop a table above. Or begin with an example:", "p")
                self.template(EXAMPLE, "unelevated")
                ui.button("Tour in five steps", icon="tour", on_click=lambda: start(self.studio)).props(
                    "flat no-caps"
                )
            with (
                ui.element("section")
                .classes("kw-matter")
                .props('role=img aria-label="A picture of a result"')
            ):
                text("The example: which sources matter?", "h3")
                draw_sources(PICTURE)
                hint("Loss of accuracy when the model is fitted without the source, with 95 % intervals.")
        with (
            card(
                "The papers in one press",
                "Tables and settings of published results; the run is then yours to start.",
            ),
            stack("kw-grid"),
        ):
            for one in PAPERS:
                with stack():
                    self.template(one, "outline")
                    if not one.is_here:
                        note(
                            f"The data set {one.data} is not on this computer. Put its file into the folder of data "
                            "sets, as the user guide describes, and load this page again.",
                            "warn",
                        )

    def template(self, one: Template, props: str) -> None:
        """A button that takes a table and settings."""

        async def take() -> None:
            draft = await offload(lambda: one.draft)
            await offload(self.studio.change_draft, lambda _: draft)
            ui.navigate.to("/method")

        button = word_button(one.title, "play_arrow", guarded(take), f"no-caps {props}")
        button.set_enabled(one.is_here)
        hint(one.about, "p")

    def read(self) -> tuple[Joining | None, Looks]:
        """The tables side by side, and what they hold."""
        desk = self.desk
        joined = desk.joined()
        if joined is None or joined.problem:
            return joined, (None, None, None, [], [])
        return joined, self._look(desk, joined)

    def show(self, found: tuple[Joining | None, Looks]) -> None:
        """What the chosen tables hold."""
        joined, (target, missing, marked, told, tables) = found
        data = self.desk.data
        if joined is None or data is None:
            return
        self.joined = joined
        self._show_key()
        if joined.problem:
            if len(joined.sides) < 2:
                note(joined.problem, "bad")
            return
        with stack("kw-two"):
            self._target(data, joined, target)
            self._roles(joined, marked)
        if not isinstance(told, str):
            # the column of held-out rows says at its field what it does
            show_consequences(
                [one for one in told if one.topic != "held-out rows"], self.form.set, self.leave_out
            )
        show_further(joined.further)
        if isinstance(missing, str):
            note(missing, "bad")
        elif missing is not None:
            show_missing(missing, self.desk.spec)
        for table in tables:
            self._preview(table)
        if self.desk.spec.predicted and len(joined.further) + len(self._views(joined)) > 1:
            with card("Views beside each other"):
                later(
                    "Comparing the views",
                    show_alignments,
                    partial(self.studio.alignments, data, self.desk.spec),
                )
        with stack("kw-end"):
            word_button(
                "Views from a file", "upload_file", lambda: self._open_views(joined), "outline"
            ).tooltip("Groups of columns: TOML with a table [views], or GMT gene sets")
            word_button("Views and kernels", "arrow_forward", "/kernels", "unelevated")

    def _open_views(self, joined: Joining) -> None:
        """Read views from a file, and show them on the page of kernels."""

        def take(views: dict[str, list[str]]) -> None:
            self.desk.set_views(views, joined)
            ui.navigate.to("/kernels")

        ask_for_file(self.studio, self.desk, lambda: self.desk.features(joined), take)

    def _views(self, joined: Joining) -> dict[str, list[str]]:
        """Views of columns: those that were made here, or the tables."""
        return self.desk.views() or joined.views or ({"table": joined.columns} if joined.further else {})

    def _look(self, desk: Desk, joined: Joining) -> Looks:
        """What the tables hold: the target, missing cells, held-out rows, and each table by itself."""
        data, spec, studio = desk.data, desk.spec, self.studio
        assert data is not None
        names = desk.names_after_joining()

        def look(table_id: str) -> Look:
            rows = studio.rows(table_id, 0, SHOWN_ROWS, 0, WIDEST)
            return studio.table(table_id), rows, studio.outliers(table_id), names.get(table_id, {})

        outcome = outcome_columns(spec, joined.columns)
        has_target = bool(outcome) and {*outcome} <= {*joined.columns} - {data.key}
        describe = (
            studio.times if spec.survival else lambda data, spec: studio.target(data, spec.target, spec.task)
        )
        has_marks = spec.holdout in joined.columns
        return (
            or_problem(lambda: describe(data, spec)) if has_target else None,
            or_problem(lambda: studio.missing(data, spec)),
            or_problem(lambda: studio.marked(data, spec)) if has_marks else None,
            or_problem(lambda: studio.consequences(data, spec)),
            [or_problem(partial(look, table_id)) for table_id in data.tables],
        )

    async def _predict(self, what: str) -> None:
        """Predict something else: one column, several, or the time until an event."""
        self.what = what
        spec, settings = self.desk.spec, dict(NO_TIMES)
        if what == "survival":
            settings |= {"target": "", "task": "auto", **await offload(self.desk.times)}
        elif what == "one":
            settings["target"] = next(iter(names_of_target(spec.target, self.columns)), "")
        with self.client:
            self.form.set(**settings)

    def _target(self, data: Data, joined: Joining, found: Target | Times | str | None) -> None:
        spec = self.desk.spec
        names = names_of_target(spec.target, joined.columns)
        what = "survival" if spec.survival else "several" if names[1:] else self.what or "one"
        with card("Target"):
            options = [c for c in joined.columns if c != data.key]
            kinds = {"one": "One column", "several": "Several columns", "survival": "Time until an event"}
            switch("What is predicted", kinds, what).on_value_change(lambda event: self._predict(event.value))
            if what == "survival":
                self._times(options, found)
                return
            if what == "several":
                self._several(options, names)
            else:
                pick_column(options, spec.target, "Column to predict", self._take_target, clearable=False)
            if found is None or isinstance(found, Times):
                hint("Without a target there is nothing to learn.")
                return
            if isinstance(found, str):
                note(found, "bad")
                return
            tasks = {"auto": "Automatic", "classification": "Classes", "regression": "Numbers"}
            pick = switch("What the target is", tasks, spec.task)
            pick.on_value_change(lambda event: self.form.set(task=event.value))
            hint(f"{found.task.capitalize()}: {found.reason}.")
            if found.problem:
                note(found.problem, "warn")
            if found.classes:
                bars(list(found.classes.items())[:12], str)
                if len(found.classes) > 12:
                    rest = plural(len(found.classes) - 12, "more class", "more classes")
                    hint(f"and {rest}")
            elif found.low is not None:
                text(f"From {number(found.low)} to {number(found.high)}.")

    def _take_target(self, names: str | Sequence[str]) -> None:
        """Predict a column, or several."""
        self.form.set(target=names if isinstance(names, str) else ",".join(names), task="auto")

    def _several(self, options: list[str], names: list[str]) -> None:
        """Several columns, all of labels or all of numbers."""
        pick_column(options, names, "Columns to predict", self._take_target)
        alike = [
            one for one in by_names(options).values() if {*names} <= {*one} and len(one) > len(names) > 0
        ]
        for some in alike[:1]:
            word_button(
                f"All {len(some)} columns with such a name",
                "",
                partial(self._take_target, some),
                "flat dense no-caps",
            )
        self.form.fields("targets")

    def _times(self, options: list[str], found: Target | Times | str | None) -> None:
        """The columns of time and event, and which values are events."""
        spec, event = self.desk.spec, event_of(self.desk.spec, options)[0]

        def choose(role: str, name: str) -> None:
            changed: dict[str, object] = {role: ""}
            self.form.set(**(with_role(name, role, spec, options) if name else changed))

        strata = "Groups of rows, such as hospitals, with a baseline hazard of their own"
        for value, role, take, about in (
            (spec.time, "time", choose, "Until the event, or until the row was last seen without one"),
            (event, "event", choose, "Whether the event was seen then: 1 and 0, yes and no, dead and alive"),
            (spec.strata, "strata", self._set_role, strata),
        ):
            pick_column(options, value, role.capitalize(), partial(take, role), hint=about)
        if isinstance(found, str):
            note(found, "bad")
        elif isinstance(found, Times):
            if found.event and spec.time:
                pick_column(
                    list(found.values),
                    found.events,
                    "Values that are the event",
                    lambda values: self.form.set(event=event_setting(event, values)),
                    clearable=False,
                )
            if not found.problem:
                with stack("kw-stats"):
                    counted("event", found.n_events)
                    stat(str(found.n_censored), "censored")
                text(f"Times from {number(found.low)} to {number(found.high)}.")
            elif not (spec.time and event):
                hint(f"Choose the column of the {'event' if spec.time else 'time'} too.")

    def _set_role(self, setting: str, columns: str | list[str]) -> None:
        self.form.set(**{setting: columns})

    def _roles(self, joined: Joining, marked: Marked | str | None) -> None:
        spec = self.desk.spec
        key = self.desk.data.key if self.desk.data else ""
        options = [c for c in joined.columns if c not in (key, *outcome_columns(spec, joined.columns))]
        with (
            card("Other roles", "Columns that are not used as features."),
            stack("kw-fields"),
        ):
            for name, label, hint in (
                ("group", "Groups", "Rows of a group stay together in folds"),
                ("holdout", "Held-out rows", "A column of train and test, T and F, or 1 and 0"),
                ("weights", "Weights", "Weight of each row"),
            ):
                pick_column(options, getattr(spec, name), label, partial(self._set_role, name), hint=hint)
            pick_column(options, names_in(spec.drop), "Leave out", partial(self._set_role, "drop"))
            self.form.fields("missing", "missing_views", "rows")
            if isinstance(marked, str):
                note(marked, "bad")
            elif marked is not None:
                self._marks(marked)

    def _marks(self, marked: Marked) -> None:
        """How many rows are held out, and another reading of the column."""
        with stack().style("grid-column: 1 / -1"):
            if marked.problem:
                note(marked.problem, "bad")
            else:
                text(f"{marked.said}.")
                word_button(
                    "Swap held-out and training rows",
                    "swap_horiz",
                    lambda: self.form.set(holdout_values=marked.swapped or ""),
                    "flat dense",
                )
            if marked.problem or self.desk.spec.holdout_values:
                pick_column(
                    [value for value in marked.values if value],
                    marked.held,
                    label_of("holdout_values"),
                    partial(self._set_role, "holdout_values"),
                )

    def _preview(self, look: Look | str) -> None:
        if isinstance(look, str):
            note(look, "bad")
            return
        table, rows, far, names = look
        with card(table.name) as aside:
            with aside:
                if table.n_missing:
                    missing = plural(table.n_missing, "missing value")
                    tag(f"{missing} in {plural(table.rows_missing, 'row')}", "warn")
                else:
                    tag("complete", "good", "check")
            with stack("kw-stats"):
                counted("row", table.n_rows)
                counted("column", table.n_columns)
                stat(str(table.n_numeric), "numeric")
                stat(size(table.memory), "in memory")
            parts: dict[str, Callable[[], None]] = {
                "Columns": ColumnList(self, table, names).build,
                "Rows": lambda: show_rows(rows, table),
                "Outliers": lambda: show_outliers(far, table.name, table.n_rows),
            }
            tabbed(parts)
