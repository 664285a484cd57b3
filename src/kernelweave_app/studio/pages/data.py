"""The page of tables: choose, upload, join and view them, and choose the target."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave.views.groups import names_in
from kernelweave_app.runs.settings import label_of
from kernelweave_app.studio.pages.arrivals import Arriving, Choice, Choosing, choice_of
from kernelweave_app.studio.pages.column_choice import pick_column
from kernelweave_app.studio.pages.data_cards import (
    MISSING,
    show_alignments,
    show_further,
    show_missing,
    show_outliers,
    show_sides,
)
from kernelweave_app.studio.pages.data_columns import SHOWN, ColumnList, types_of
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.place import here
from kernelweave_app.studio.pages.shell import (
    Turn,
    bar,
    big_table,
    card,
    counted,
    empty,
    note,
    number,
    page,
    plural,
    said,
    size,
    stack,
    stat,
    tag,
    text,
    waiting,
)
from kernelweave_app.studio.pages.tour import start
from kernelweave_app.studio.pages.uploads import drop_zone
from kernelweave_app.studio.pages.view_dialogs import ask_for_file
from kernelweave_app.studio.schema import (
    Columns,
    Data,
    Joining,
    Marked,
    Missing,
    Outliers,
    Rows,
    Table,
    Target,
    Use,
)
from kernelweave_app.studio.service import Studio

if TYPE_CHECKING:
    from nicegui.events import ValueChangeEventArguments

#: Size and columns of a table, its first rows, and numbers far from the others.
Look = tuple[Table, Columns, Rows, Outliers]
#: Rows that are shown at once.
SHOWN_ROWS = 50
WIDEST = 30
READING = "Reading the tables"
#: What files are used as.
USES: dict[Use, str] = {"table": "table", "kernels": "kernels", "sparse": "sparse view"}
EXAMPLES = {"set-wine": "Wine", "set-breast-cancer": "Breast cancer", "set-diabetes": "Diabetes"}


def add(studio: Studio) -> None:
    """Add the page.

    Parameters
    ----------
    studio : Studio
    """

    @ui.page("/", title="Data", response_timeout=30)
    async def data_page() -> None:
        await _DataPage(here(studio)).build()


class _DataPage(Arriving):
    def __init__(self, studio: Studio) -> None:
        super().__init__(studio)
        self.turn = Turn()
        #: the tables side by side, once they have been read
        self.joined: Joining | None = None
        #: of several choices each begins with what the one before it has left
        self.choosing = asyncio.Lock()

    async def build(self) -> None:
        lead = "Choose the tables to learn from, and the column to predict. Files stay on this computer."
        with page(self.studio, "/", "Data", lead):
            with stack("kw-wide"):
                with stack():
                    self.chosen()
                with stack():
                    self.uploads()
            self.sign = stack()
            self.below = stack()
            if self.desk.data is None:
                with self.below:
                    await self.about()
                return
            # large tables take a while to read, so the page is shown first
            with self.below:
                waiting(READING)
            ui.timer(0.05, self.first_look, once=True)

    async def first_look(self) -> None:
        """Read the tables once the page is shown."""
        self.below.clear()
        with self.below:
            await self.about()

    def renew(self) -> None:
        """Show changes."""
        self.desk, self.joined = Desk(self.studio), None
        self.chosen.refresh()
        self.about.refresh()

    # ---- choosing ---------------------------------------------------------------------------------

    @ui.refreshable_method
    def chosen(self) -> None:
        refs = {ref.id: ref for ref in self.studio.tables()}
        ids, gone = self.desk.found()
        with card("Tables"):
            groups = sorted(refs.values(), key=lambda r: (r.source != "data folder", r.name.lower()))
            options = {
                ref.id: f"{ref.name}  ·  {ref.about}" if ref.about else f"{ref.name}  ·  {size(ref.size)}"
                for ref in groups
                if ref.id not in ids
            }
            label = "Choose a table" if not ids else "Add another table, joined by a key"
            pick = ui.select(options, label=label, with_input=True, on_change=self._pick)
            pick.props("outlined dense options-dense clearable").style("width: 100%")
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
        with ui.element("div").classes("kw-file"):
            with ui.element("div"):
                text(name, "b").style("font-weight: 500; overflow-wrap: anywhere")
                text(about, "small")
            use = self.desk.use_of(table_id)
            if len(uses) > 1:
                pick = ui.select(
                    {one: USES[one] for one in uses}, value=use, on_change=partial(self._use, table_id)
                )
                pick.props("outlined dense options-dense").style("width: 9rem").props["aria-label"] = (
                    f"Use {name} as"
                )
            elif use != "table":
                tag(USES[use])
            remove = ui.button(icon="close", on_click=lambda: self._drop(table_id))
            remove.props("flat round dense").props["aria-label"] = f"Leave out {name}"

    async def _pick(self, event: ValueChangeEventArguments) -> None:
        if event.value:
            await self.add(event.value)

    async def add(self, table_id: str) -> None:
        uses = {ref.id: ref.uses[0] for ref in await offload(self.studio.tables)}
        await self.choose(partial(choice_of, more=[table_id], uses={table_id: uses.get(table_id, "table")}))

    async def _use(self, table_id: str, event: ValueChangeEventArguments) -> None:
        await self.choose(partial(choice_of, uses={table_id: event.value}))

    async def _drop(self, table_id: str) -> None:
        await self.choose(partial(choice_of, less=[table_id]))

    async def choose(self, choosing: Choosing) -> bool:
        async with self.choosing:
            with self.client:
                return await self._choose(choosing)

    async def _choose(self, choosing: Choosing) -> bool:
        desk = Desk(self.studio)
        if not self.client.is_deleted:
            with self.sign:
                waiting(READING)
        try:
            chosen = choosing(desk, (await offload(desk.found))[0])
            tables, key = list(dict.fromkeys(chosen.tables)), chosen.key
            uses = desk.uses() if chosen.uses is None else chosen.uses
            frames = [t for t in tables if uses.get(t, "table") == "table"]
            for table_id in frames:
                await offload(self.studio.catalogue.read, table_id)
            if len(frames) > 1 and not key and not chosen.by_order:
                shared = (await offload(self.studio.join, Data(tables=frames))).keys
                key = shared[0] if shared else ""
            lost = await offload(desk.set_tables, tables, key, uses, chosen.by_order, chosen.instead)
        except InputError as error:
            said(error)
            return False
        finally:
            self.sign.clear()
        if lost and not self.client.is_deleted:
            target = desk.spec.target
            now = f" The target is {target!r} now." if any(text.startswith("target") for text in lost) else ""
            ui.notify(
                f"Reset, because the tables do not have it: {'; '.join(lost)}.{now if target else ''}",
                type="warning",
                multi_line=True,
                timeout=8000,
                close_button="Close",
            )
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

        async def change(event: ValueChangeEventArguments) -> None:
            await self.choose(lambda _, tables: Choice(tables, event.value or ""))

        if data.by_order:
            text("Rows are matched by their order.").classes("kw-hint")
        options = list(dict.fromkeys([*joined.keys, *([data.key] if data.key else [])]))
        pick_column(options, data.key, "Key: the column that names the rows", change)
        if joined.problem:
            note(joined.problem, "warn")
            return
        show_sides(joined)

    # ---- uploading --------------------------------------------------------------------------------

    def uploads(self) -> None:
        about = self.studio.about()
        with card(
            "Upload",
            "CSV, TSV, Parquet, AnnData (h5ad), sparse tables (npz, mtx, svmlight) or precomputed kernels (npy, npz), "
            f"up to {size(about.upload)}. The file goes to the data folder.",
        ):
            drop_zone("Drop a table here, or press +", self.uploaded, multiple=True)
            text(f"Data folder: {about.data_folder}").classes("kw-hint").style("overflow-wrap: anywhere")

    # ---- contents --------------------------------------------------------------------------------

    @ui.refreshable_method
    async def about(self) -> None:
        newest = self.turn.take()
        data = self.desk.data
        if data is None:
            with (
                card(),
                empty("table_view", "No table is chosen yet. To try the studio, choose a built-in data set:"),
                ui.element("div").classes("kw-row").style("justify-content: center"),
            ):
                for table_id, name in EXAMPLES.items():
                    ui.button(name, on_click=partial(self.choose, lambda *_, t=table_id: Choice([t]))).props(
                        "outline"
                    )
                ui.button("Tour in five steps", icon="tour", on_click=lambda: start(self.studio))
            return
        # reading large tables takes seconds, in which the page must not be blank
        sign = waiting(READING)
        joined = await offload(self.desk.joined)
        target = looks = missing = marked = None
        names: dict[str, dict[str, str]] = {}
        if joined is not None and not joined.problem and newest():
            target = await offload(self._look_at_target, data, joined)
            names = await offload(self.desk.names_after_joining)
            looks = [await offload(self._look, table_id, names.get(table_id, {})) for table_id in data.tables]
            missing = await offload(self._look_at_missing, data)
            marked = await offload(self._look_at_marks, data, joined)
        if joined is None or not newest():
            return
        sign.delete()
        self.joined = joined
        self._show_key()
        if len(joined.sides) < 2 and joined.problem:
            note(joined.problem, "bad")
        if joined.problem:
            return
        with stack("kw-two"):
            self._target(data, joined, target)
            self._roles(joined, marked)
        show_further(joined.further)
        if isinstance(missing, str):
            note(missing, "bad")
        elif missing is not None:
            show_missing(missing, self.desk.spec)
        for look in looks or ():
            self._preview(look, names)
        if self.desk.spec.target and len(joined.further) + len(self._views(joined)) > 1:
            with card("Views beside each other"):
                self.alike = stack()
                with self.alike:
                    waiting("Comparing the views")
                ui.timer(0.05, self._compare, once=True)
        with ui.element("div").classes("kw-end"):
            ui.button(
                "Views from a file", icon="upload_file", on_click=lambda: self._open_views(joined)
            ).props("outline").tooltip("Groups of columns: TOML with a table [views], or GMT gene sets")
            ui.button(
                "Views and kernels", icon="arrow_forward", on_click=lambda: ui.navigate.to("/kernels")
            ).props("unelevated")

    def _open_views(self, joined: Joining) -> None:
        """Read views from a file, and show them on the page of kernels."""

        def take(views: dict[str, list[str]]) -> None:
            self.desk.set_views(views, joined)
            ui.navigate.to("/kernels")

        ask_for_file(self.studio, self.desk, lambda: self.desk.features(joined), take)

    def _views(self, joined: Joining) -> dict[str, list[str]]:
        """Views of columns: those that were made here, or the tables."""
        return self.desk.views() or joined.views or ({"table": joined.columns} if joined.further else {})

    async def _compare(self) -> None:
        """Compare the views once the rest of the page is shown."""
        place, data = self.alike, self.desk.data
        assert data is not None
        try:
            found = await offload(self.studio.alignments, data, self.desk.spec)
        except InputError as error:
            place.clear()
            with place:
                note(str(error), "warn")
            return
        place.clear()
        with place:
            show_alignments(found)

    def _look_at_missing(self, data: Data) -> Missing | str:
        try:
            return self.studio.missing(data, self.desk.spec)
        except InputError as error:
            return str(error)

    def _look_at_marks(self, data: Data, joined: Joining) -> Marked | str | None:
        if self.desk.spec.holdout not in joined.columns:
            return None
        try:
            return self.studio.marked(data, self.desk.spec)
        except InputError as error:
            return str(error)

    def _look_at_target(self, data: Data, joined: Joining) -> Target | str | None:
        spec = self.desk.spec
        if spec.target not in joined.columns or spec.target == data.key:
            return None
        try:
            return self.studio.target(data, spec.target, spec.task)
        except InputError as error:
            return str(error)

    def _look(self, table_id: str, names: dict[str, str]) -> Look | str:
        try:
            return (
                self.studio.table(table_id),
                self.studio.columns(table_id, 0, SHOWN, "", types_of(self.desk, names)),
                self.studio.rows(table_id, 0, SHOWN_ROWS, 0, WIDEST),
                self.studio.outliers(table_id),
            )
        except InputError as error:
            return str(error)

    def _target(self, data: Data, joined: Joining, found: Target | str | None) -> None:
        spec = self.desk.spec
        with card("Target"):
            options = [c for c in joined.columns if c != data.key]
            pick_column(
                options,
                spec.target,
                "Column to predict",
                lambda event: self._set(target=event.value or "", task="auto"),
            )
            if found is None:
                text("Without a target there is nothing to learn.").classes("kw-hint")
                return
            if isinstance(found, str):
                note(found, "bad")
                return
            tasks = {"auto": "Automatic", "classification": "Classes", "regression": "Numbers"}
            toggle = ui.toggle(tasks, value=spec.task, on_change=lambda event: self._set(task=event.value))
            toggle.props("no-caps unelevated toggle-color=primary").props["aria-label"] = "What the target is"
            text(f"{found.task.capitalize()}: {found.reason}.").classes("kw-hint")
            if found.problem:
                note(found.problem, "warn")
            if found.classes:
                most = max(found.classes.values())
                with stack("kw-stack tight"):
                    for name, count in list(found.classes.items())[:12]:
                        bar(name, count / most, str(count))
                if len(found.classes) > 12:
                    rest = plural(len(found.classes) - 12, "more class", "more classes")
                    text(f"and {rest}").classes("kw-hint")
            elif found.low is not None:
                text(f"From {number(found.low)} to {number(found.high)}.")

    def _set(self, **values: Any) -> None:
        try:
            self.desk.set(**values)
        except InputError as error:
            said(error)
        self.about.refresh()

    def _set_role(self, name: str, event: ValueChangeEventArguments) -> None:
        self._set(**{name: event.value or ""})

    def _roles(self, joined: Joining, marked: Marked | str | None) -> None:
        spec = self.desk.spec
        key = self.desk.data.key if self.desk.data else ""
        options = [c for c in joined.columns if c not in (key, spec.target)]
        with (
            card("Other roles", "Columns that are not used as features."),
            ui.element("div").classes("kw-fields"),
        ):
            for name, label, hint in (
                ("group", "Groups", "Rows of a group stay together in folds"),
                ("holdout", "Held-out rows", "A column of train and test, T and F, or 1 and 0"),
                ("weights", "Weights", "Weight of each row"),
            ):
                pick_column(
                    options,
                    getattr(spec, name),
                    label,
                    partial(self._set_role, name),
                    clearable=True,
                    hint=hint,
                )
            pick_column(
                options,
                names_in(spec.drop),
                "Leave out",
                lambda event: self._set(drop=list(event.value)),
                multiple=True,
                clearable=True,
            )
            for name, choices in MISSING.items():
                ui.select(
                    choices,
                    value=getattr(spec, name),
                    label=label_of(name),
                    on_change=lambda event, name=name: self._set(**{name: event.value}),
                ).props("outlined dense options-dense")
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
                ui.button(
                    "Swap held-out and training rows",
                    icon="swap_horiz",
                    on_click=lambda: self._set(holdout_values=marked.swapped or ""),
                ).props("flat dense")
            if marked.problem or self.desk.spec.holdout_values:
                pick_column(
                    [value for value in marked.values if value],
                    marked.held,
                    label_of("holdout_values"),
                    lambda event: self._set(holdout_values=list(event.value)),
                    multiple=True,
                    clearable=True,
                )

    def _preview(self, look: Look | str, names: dict[str, dict[str, str]]) -> None:
        if isinstance(look, str):
            note(look, "bad")
            return
        table, columns, rows, far = look
        with card(table.name) as aside:
            with aside:
                if table.n_missing:
                    tag(
                        f"{plural(table.n_missing, 'missing value')} in {plural(table.rows_missing, 'row')}",
                        "warn",
                    )
                else:
                    tag("complete", "good", "check")
            with stack("kw-stats"):
                counted("row", table.n_rows)
                counted("column", table.n_columns)
                stat(str(table.n_numeric), "numeric")
                stat(size(table.memory), "in memory")
            with ui.tabs().props("dense align=left no-caps") as tabs:
                first = ui.tab("Columns")
                second = ui.tab("Rows")
                third = ui.tab("Outliers")
            with ui.tab_panels(tabs, value=first).props("animated=false").style("background: transparent"):
                with ui.tab_panel(first).style("padding: 0"):
                    ColumnList(
                        self.studio,
                        self.desk,
                        table.id,
                        table.name,
                        names.get(table.id, {}),
                        columns,
                        self.renew,
                        self.choosing,
                    ).build()
                with ui.tab_panel(third).style("padding: 0"):
                    show_outliers(far, table.name, table.n_rows)
                with ui.tab_panel(second).style("padding: 0"):
                    big_table(rows.columns, rows.rows, label=f"First rows of {table.name}")
                    if table.n_columns > WIDEST or table.n_rows > SHOWN_ROWS:
                        rows_shown = plural(min(SHOWN_ROWS, table.n_rows), "row")
                        columns_shown = plural(min(WIDEST, table.n_columns), "column")
                        text(f"The first {rows_shown} and {columns_shown}.").classes("kw-hint")
