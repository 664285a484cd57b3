"""The page of views and kernels: group columns, choose shapes of similarity, look at them before learning."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave.studio.methods import settings
from kernelweave.studio.pages.desk import Desk
from kernelweave.studio.pages.shell import (
    Turn,
    card,
    empty,
    guarded,
    note,
    page,
    pick_button,
    plural,
    said,
    size,
    stack,
    stat,
    tag,
    text,
)
from kernelweave.studio.schema import Joining, KernelPreviews
from kernelweave.studio.service import Studio

#: Columns that are shown as chips at once.
MOST_CHIPS = 250
THUMBNAILS = 24

BANKS = {
    "default": "Default: linear, quadratic, cubic and Gaussian, on all columns and on each",
    "rls2": "RLS2 paper: polynomial 1 to 3 and 10 Gaussian, on all and on each",
    "simplemkl": "SimpleMKL paper: Gaussian and polynomial, on all and on each",
    "rkl": "RKL paper: 10 Gaussian widths, polynomial 1 to 10, on all columns",
    "mlmkl": "MLMKL paper: four kernels on all columns",
    "linear_features": "Linear, one kernel for each column",
}
SHAPES = {
    "default": "Default: linear, quadratic, 5 Gaussian widths",
    "linear": "Linear",
    "rbf(gamma=0.01); rbf(gamma=0.1); rbf(gamma=1)": "Gaussian, 3 widths",
    "linear; rbf(gamma=0.1)": "Linear and Gaussian",
    "linear; poly(degree=2); poly(degree=3)": "Polynomial of degree 1 to 3",
    "categorical": "Categories",
}
OWN = "own"


def add(studio: Studio) -> None:
    """Add the page.

    Parameters
    ----------
    studio : Studio
    """

    @ui.page("/kernels", title="Views and kernels", response_timeout=30)
    async def kernels_page() -> None:
        await _KernelsPage(studio).build()


class _KernelsPage:
    def __init__(self, studio: Studio) -> None:
        self.studio, self.desk = studio, Desk(studio)
        self.chosen: set[str] = set()
        self.search = ""
        self.joined: Joining | None = None
        self.turn = Turn()

    async def build(self) -> None:
        lead = "Views are groups of columns that belong together. Each gets its kernels, and learning weighs them."
        with page(self.studio, "/kernels", "Views and kernels", lead):
            self.joined = await offload(self.desk.joined)
            if self.joined is None or self.joined.problem or not self.desk.spec.target:
                with card(), empty("grid_view", "Choose a table and a target first."):
                    ui.button("Data", icon="arrow_back", on_click=lambda: ui.navigate.to("/")).props(
                        "outline"
                    )
                return
            self.views()
            self.settings()
            with card("Kernels before learning") as aside:
                with aside:
                    ui.button("Look again", icon="refresh", on_click=self.preview.refresh).props("flat dense")
                # the page is there first
                self.place = stack()
                with self.place:
                    ui.spinner(size="2rem").props('aria-label="Looking at the kernels"')
                ui.timer(0.05, self.first_look, once=True)
            with ui.element("div").classes("kw-end"):
                ui.button("Method", icon="arrow_forward", on_click=lambda: ui.navigate.to("/method")).props(
                    "unelevated"
                )

    async def first_look(self) -> None:
        """Compute the preview once the page is shown."""
        self.place.clear()
        with self.place:
            await self.preview()

    def change(self, **values: Any) -> None:
        """Keep settings and show them."""
        try:
            self.desk.set(**values)
        except InputError as error:
            said(error)
        self.views.refresh()
        self.preview.refresh()

    # ---- views ------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Columns to learn from."""
        return self.desk.features(self.joined) if self.joined else []

    @ui.refreshable_method
    def views(self) -> None:
        assert self.joined is not None
        names = self.names()
        views = self.desk.views()
        given = self.joined.views if not views else {}
        with card("Views") as aside:
            with aside:
                if views:
                    ui.button(
                        "No views", icon="clear", on_click=lambda: self.change(views="", kernels="default")
                    ).props("flat dense")
                ui.button("By name", icon="auto_awesome", on_click=self.group).props("flat dense").tooltip(
                    "Columns whose names begin or end alike"
                )
                ui.button("From a file", icon="upload_file", on_click=self.open_file).props(
                    "flat dense"
                ).tooltip("TOML with a table [views], or GMT gene sets")
                ui.button("New view", icon="add", on_click=self.new_view).props("outline dense")
            if not views and not given:
                text(
                    f"No views: kernels see all {len(names)} columns, and each of them. Make views where columns come "
                    "from different sources or measure different things."
                ).classes("kw-hint")
            if given:
                text("Each table is a view. Make views of your own to divide them otherwise.").classes(
                    "kw-hint"
                )
            used = {c for columns in views.values() for c in columns}
            rest = [c for c in names if c not in used]
            with ui.element("div").classes("kw-grid"):
                for name, columns in (
                    views or {k: [c for c in v if c in names] for k, v in given.items()}
                ).items():
                    self.view_card(name, columns, own=bool(views))
            if not given and (rest or not views):
                self.shelf(rest if views else names, bool(views))

    def shelf(self, names: list[str], some: bool) -> None:
        """Columns that can be selected, or dragged to a view."""
        with stack():
            with ui.element("div").classes("kw-row"):
                text("Columns in no view" if some else "Columns", "h3")
                tag(plural(len(names), "column"))
                if some and names:
                    text("These are not learnt from.").classes("kw-hint")
            if not names:
                return
            with ui.element("div").classes("kw-row"):
                find = (
                    ui.input("Find columns", value=self.search)
                    .props("outlined dense clearable")
                    .classes("grow")
                )
                shown = [c for c in names if self.search.lower() in c.lower()]

                def look(event: Any) -> None:
                    self.search = event.value or ""
                    chips.refresh()

                find.on_value_change(look)

                def select_all() -> None:
                    found = [c for c in names if self.search.lower() in c.lower()]
                    self.chosen = set() if set(found) <= self.chosen else self.chosen | set(found)
                    chips.refresh()

                ui.button("Select all found", on_click=select_all).props("flat dense")
                ui.button("New view of the selection", icon="add", on_click=self.new_view).props("flat dense")
            del shown

            @ui.refreshable
            def chips() -> None:
                found = [c for c in names if self.search.lower() in c.lower()]
                with ui.element("div").classes("kw-chips").props('role=group aria-label="Columns"'):
                    for name in found[:MOST_CHIPS]:
                        self.chip(name)
                if len(found) > MOST_CHIPS:
                    text(f"{len(found) - MOST_CHIPS} more columns: search for them.").classes("kw-hint")

            chips()

    def chip(self, name: str) -> None:
        """A column that can be pressed or dragged."""
        button = ui.element("button").classes("kw-chip").props("type=button draggable=true")
        button.props["aria-pressed"] = "true" if name in self.chosen else "false"
        button.props["title"] = name
        with button:
            text(name, "span")

        def press() -> None:
            self.chosen ^= {name}
            button.props["aria-pressed"] = "true" if name in self.chosen else "false"
            button.update()

        def drag() -> None:
            # one that is not selected is dragged alone
            self.chosen = self.chosen if name in self.chosen else {name}

        button.on("click", press)
        button.on("dragstart", drag)

    def view_card(self, name: str, columns: list[str], *, own: bool) -> None:
        """A view: its columns, its kernels, and a place to drop more."""
        zone = ui.element("div").classes("kw-drop").props("role=group")
        zone.props["aria-label"] = f"View {name}"
        zone.on("dragover.prevent", lambda: zone.classes("over"), throttle=0.3)
        zone.on("dragleave", lambda: zone.classes(remove="over"))
        zone.on("drop.prevent", guarded(lambda: self.put(name)))
        with zone:
            with ui.element("div").classes("kw-row").style("flex-wrap: nowrap"):
                text(name, "h3").style(
                    "flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap"
                )
                tag(plural(len(columns), "column"))
                if own:
                    more = ui.button(icon="add", on_click=guarded(lambda: self.put(name))).props(
                        "flat round dense size=sm"
                    )
                    more.props["aria-label"] = f"Add the selected columns to {name}"
                    gone = ui.button(icon="close", on_click=lambda: self.remove(name)).props(
                        "flat round dense size=sm"
                    )
                    gone.props["aria-label"] = f"Remove the view {name}"
            few = ", ".join(columns[:6]) + (f" and {len(columns) - 6} more" if len(columns) > 6 else "")
            text(few).classes("kw-hint").style("overflow-wrap: anywhere")
            kernels = self.desk.spec.kernels
            self.kernel_choice(kernels.get(name, "default") if isinstance(kernels, dict) else kernels, name)

    def kernel_choice(self, value: str, view: str) -> None:
        """Which kernels a view gets, or all columns do."""
        known = SHAPES if view else BANKS
        options = {**known, OWN: "Other kernels …"}
        shown = value if value in known else OWN
        label = "Kernels" if not view else f"Kernels of {view}"

        def keep(new: str) -> None:
            if not view:
                self.change(kernels=new)
                return
            kernels = self.desk.spec.kernels
            asked = dict(kernels) if isinstance(kernels, dict) else {}
            self.change(kernels={**asked, view: new})

        def pick(event: Any) -> None:
            own.set_visibility(event.value == OWN)
            if event.value != OWN:
                keep(event.value)

        ui.select(options, value=shown, label=label, on_change=pick).props("outlined dense options-dense")
        own = ui.input("Kernels, separated by ;", value=value if shown == OWN else "linear; rbf(gamma=0.1)")
        own.props("outlined dense").props["hint"] = (
            "linear, poly(degree=2), rbf(gamma=0.1), laplacian(gamma=1), categorical"
        )
        own.set_visibility(shown == OWN)

        def typed() -> None:
            from kernelweave.runs.fitting import parse_kernels

            try:
                parse_kernels(own.value or "")
            except InputError as error:
                own.props("error").props["error-message"] = str(error)
                return
            own.props(remove="error")
            keep(own.value)

        own.on("blur", typed)
        own.on("keydown.enter", typed)

    def put(self, view: str) -> None:
        """Move the selected columns to a view."""
        if not self.chosen:
            raise InputError("Select columns first: press their names below.")
        views = self.desk.views()
        moved = [c for c in self.names() if c in self.chosen]
        out = {
            name: [c for c in columns if c not in self.chosen] + (moved if name == view else [])
            for name, columns in views.items()
        }
        self.chosen = set()
        self.change(views={name: columns for name, columns in out.items() if columns})

    def remove(self, view: str) -> None:
        """Take a view apart."""
        views = self.desk.views()
        views.pop(view, None)
        kernels = self.desk.spec.kernels
        if isinstance(kernels, dict):
            kernels = {name: value for name, value in kernels.items() if name in views}
        self.change(views=views or "", kernels=kernels if views else "default")

    def new_view(self) -> None:
        """Ask for a name, and make a view of the selected columns."""
        if not self.chosen:
            said(InputError("Select columns first: press their names."))
            return
        with ui.dialog() as dialog, ui.card().style("min-width: min(24rem, 90vw)"):
            text("New view", "h2")
            text(plural(len(self.chosen), "column")).classes("kw-hint")
            name = ui.input("Name").props("outlined dense autofocus").style("width: 100%")

            def make() -> None:
                given = (name.value or "").strip()
                views = self.desk.views()
                if not given or given in views or ":" in given:
                    name.props("error").props["error-message"] = "A new name without a colon is needed."
                    return
                moved = [c for c in self.names() if c in self.chosen]
                rest = {v: [c for c in columns if c not in self.chosen] for v, columns in views.items()}
                self.chosen = set()
                dialog.close()
                self.change(views={**{v: c for v, c in rest.items() if c}, given: moved})

            name.on("keydown.enter", make)
            with ui.element("div").classes("kw-end").style("width: 100%"):
                ui.button("Cancel", on_click=dialog.close).props("flat")
                ui.button("Make", on_click=make).props("unelevated")
        dialog.open()

    def group(self) -> None:
        """Make views of columns whose names have a word in common."""
        views = group_by_name(self.names())
        if len(views) < 2:
            said(
                InputError(
                    "The names of the columns do not fall into groups. Select them and make views by hand."
                )
            )
            return
        self.change(views=views, kernels="default")

    def open_file(self) -> None:
        """Read views from a file that the browser reads."""
        with ui.dialog() as dialog, ui.card().style("min-width: min(30rem, 92vw)"):
            text("Views from a file", "h2")
            text(
                "TOML with a table [views], or a GMT file of gene sets. Columns that the tables lack are left out."
            ).classes("kw-hint")

            async def take(event: Any) -> None:
                content = (await event.file.read()).decode("utf8", "replace")
                form = "gmt" if event.file.name.lower().endswith(".gmt") else "toml"
                try:
                    assert self.desk.data is not None
                    found = self.studio.views(self.desk.data, content, form)
                except InputError as error:
                    said(error)
                    return
                known = set(self.names())
                views = {name: [c for c in columns if c in known] for name, columns in found.views.items()}
                dialog.close()
                if found.n_unknown:
                    ui.notify(f"{found.n_unknown} names are no columns of these tables.", type="warning")
                self.change(
                    views={name: columns for name, columns in views.items() if columns}, kernels="default"
                )

            upload = ui.upload(
                label="Drop the file here, or press +",
                auto_upload=True,
                on_upload=take,
                max_file_size=4_000_000,
            )
            upload.classes("kw-upload").props("flat bordered accept='.toml,.gmt'")
            upload.add_slot("header", pick_button("Drop the file here, or press +"))
            with ui.element("div").classes("kw-end").style("width: 100%"):
                ui.button("Cancel", on_click=dialog.close).props("flat")
        dialog.open()

    # ---- settings ---------------------------------------------------------------------------------

    def settings(self) -> None:
        """Kernels on all columns, and how kernels are prepared."""
        about = {setting.name: setting for setting in settings()}
        spec = self.desk.spec
        with card("Settings"):
            if not self.desk.views() and not (self.joined and self.joined.views):
                self.kernel_choice(spec.kernels if isinstance(spec.kernels, str) else "default", "")
            with ui.element("div").classes("kw-fields"):
                ui.select(
                    {name: name for name in about["normalize"].choices},
                    value=spec.normalize,
                    label="Bring kernels to one scale by",
                    on_change=lambda event: self.change(normalize=event.value),
                ).props("outlined dense options-dense")
                ui.switch(
                    "Standardise numeric columns",
                    value=spec.standardize,
                    on_change=lambda event: self.change(standardize=event.value),
                ).tooltip(about["standardize"].about)

    # ---- preview ----------------------------------------------------------------------------------

    @ui.refreshable_method
    async def preview(self) -> None:
        assert self.desk.data is not None
        newest = self.turn.take()
        found: KernelPreviews | None = None
        problem = ""
        try:
            found = await offload(self.studio.kernels, self.desk.data, self.desk.spec, THUMBNAILS)
        except InputError as error:
            problem = str(error)
        if not newest():
            return
        if found is None:
            note(problem, "bad")
            return
        with stack("kw-stats"):
            stat(str(found.n_kernels), "kernels")
            stat(size(found.memory), "memory at most", f"of {size(found.budget)}")
            stat(str(found.n_rows), "rows to learn from")
        if found.memory > found.budget:
            note(
                "More than the memory that kernels may take: they are recomputed by tiles, which is slower.",
                "warn",
            )
        text(
            f"Gram matrices of {found.n_sampled} rows sorted by the target, light where rows are alike. Alignment with "
            "the target is from −1 to 1; best first."
        ).classes("kw-hint")
        with ui.element("div").classes("kw-thumbs"):
            for kernel in found.kernels[:THUMBNAILS]:
                with ui.element("figure").classes("kw-thumb"):
                    picture = ui.element("img")
                    picture.props["src"] = kernel.thumbnail
                    picture.props["alt"] = f"Gram matrix of {kernel.name}"
                    with ui.element("figcaption"):
                        text(kernel.name, "b").style("font-weight: 500")
                        rank = f", rank {kernel.rank}" if kernel.rank is not None else ""
                        text(f"alignment {kernel.alignment:.3f}{rank}", "span")
        if found.n_kernels > THUMBNAILS:
            text(f"The {THUMBNAILS} best aligned of {found.n_kernels} kernels.").classes("kw-hint")


def group_by_name(names: list[str]) -> dict[str, list[str]]:
    """Columns by the first or the last word of their names, whichever more of them share.

    Parameters
    ----------
    names : list of str

    Returns
    -------
    dict of str to list of str
        Groups of at least two; columns that stand alone are together in "other".
    """
    ends = {}
    for name in names:
        words = [w for w in re.split(r"[\s._\-:/]+|(?<=[a-z])(?=\d)", name) if w]
        # a number says which, not what
        ends[name] = tuple(w for w in (words[0], words[-1]) if not w.isdigit()) if len(words) > 1 else ()
    counts = Counter(word for pair in ends.values() for word in dict.fromkeys(pair))
    groups: dict[str, list[str]] = {}
    for name, pair in ends.items():
        word = max(pair, key=lambda w: counts[w], default="")
        groups.setdefault(word if counts[word] > 1 else "other", []).append(name)
    alone = {
        name for key, members in groups.items() if len(members) < 2 or key == "other" for name in members
    }
    found = {key: members for key, members in groups.items() if len(members) > 1 and key != "other"}
    if alone and found:
        found["other"] = [name for name in names if name in alone]
    return found
