"""The page of views and kernels: group columns, choose kernels, and view them before learning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Literal

from nicegui import ui
from nicegui.events import UploadEventArguments, ValueChangeEventArguments
from starlette.concurrency import run_in_threadpool as offload

from kernelweave import banks
from kernelweave._declarations import declared
from kernelweave._docstrings import read_docstring
from kernelweave._errors import InputError, capital
from kernelweave.banks import FEW_COLUMNS, MANY_COLUMNS
from kernelweave.kernels.parsing import text_names
from kernelweave.views.groups import decode
from kernelweave_app.runs.kernels_of import BANKS as KNOWN_BANKS
from kernelweave_app.runs.kernels_of import kernel_names, parse_kernels
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.form import Form
from kernelweave_app.studio.pages.frame import page
from kernelweave_app.studio.pages.pieces import (
    Part,
    ask_text,
    card,
    counted,
    dropdown,
    guarded,
    hint,
    icon_button,
    later,
    note,
    nothing,
    pick_button,
    plural,
    said,
    size,
    stack,
    stat,
    tag,
    text,
    thumb,
    titled,
    warn,
    word_button,
)
from kernelweave_app.studio.schema import Joining, KernelPreviews
from kernelweave_app.studio.service import Studio

BANKS = {
    "default": "Default: linear, Gaussian, Laplacian and cosine, by what the rows hold",
    "per_column": "By column: linear, quadratic, cubic and Gaussian, on all columns",
    "rls2": "RLS2 paper: polynomial 1 to 3 and 10 Gaussian, on all and on each",
    "simplemkl": "SimpleMKL paper: Gaussian and polynomial, on all and on each",
    "rkl": "RKL paper: 10 Gaussian widths, polynomial 1 to 10, on all columns",
    "mlmkl": "MLMKL paper: four kernels on all columns",
    "linear_features": "Linear, one kernel for each column",
}

SHAPES = {
    "default": "Default: linear, Gaussian, Laplacian and cosine, by what the rows hold",
    "linear": "Linear",
    "rbf(gamma=0.01); rbf(gamma=0.1); rbf(gamma=1)": "Gaussian, 3 widths",
    "rbf(gamma=('median', 0.25)); rbf(gamma='median'); rbf(gamma=('median', 4))": "Gaussian, 3 widths from the data",
    "linear; rbf(gamma=0.1)": "Linear and Gaussian",
    "linear; poly(degree=2); poly(degree=3)": "Polynomial of degree 1 to 3",
    "categorical": "Categories",
}


def banks_for(n_columns: int) -> dict[str, str]:
    """Banks and their contents; the bank by column has fewer kernels on single columns if there are many columns.

    Parameters
    ----------
    n_columns : int

    Returns
    -------
    dict of str to str
    """
    if n_columns <= FEW_COLUMNS:
        singles = " and on each"
    elif n_columns <= MANY_COLUMNS:
        singles = ", and linear on each"
    else:
        singles = f" together; with more than {MANY_COLUMNS} columns none on each"
    # a bank without words here is told in its own
    told = {
        name: BANKS.get(name) or read_docstring(getattr(banks, name).__doc__).summary for name in KNOWN_BANKS
    }
    return {**{name: told[name] for name in BANKS}, **told, "per_column": BANKS["per_column"] + singles}


def kernel_choices() -> dict[str, str]:
    """Kernels of a view to choose from: usual ones, and then every kernel that is declared, with its defaults."""
    found = dict(SHAPES)
    names = {kind: name for name, kind in reversed(text_names().items())}  # the first of several
    for kind, name in reversed(names.items()):
        if name in ("constant", "precomputed"):  # no kernel of columns
            continue
        given = {key: one.default for key, one in declared(kind).items() if one.default is not None}
        arguments = ", ".join(f"{key}={value!r}" for key, value in given.items())
        about = (
            re.split(r", k\(|: ", read_docstring(kind.__doc__).summary)[0].removeprefix("The ").rstrip(".")
        )
        found.setdefault(f"{name}({arguments})" if arguments else name, capital(about))
    return found


def group_by_name(names: list[str]) -> dict[str, list[str]]:
    """Groups of columns by the first or the last word of their names, whichever is shared by more of them.

    Parameters
    ----------
    names : list of str

    Returns
    -------
    dict of str to list of str
        Groups of at least two columns; all other columns are in "other".
    """
    ends = {}
    for name in names:
        words = [w for w in re.split(r"[\s._\-:/]+|(?<=[a-z])(?=\d)", name) if w]
        # a number only counts columns, it does not name their kind
        ends[name] = tuple(w for w in (words[0], words[-1]) if not w.isdigit()) if len(words) > 1 else ()
    counts = Counter(word for pair in ends.values() for word in dict.fromkeys(pair))
    groups: dict[str, list[str]] = {}
    for name, pair in ends.items():
        word = max(pair, key=lambda w: counts[w], default="")
        groups.setdefault(word if counts[word] > 1 else "other", []).append(name)
    found = {key: members for key, members in groups.items() if len(members) > 1 and key != "other"}
    grouped = {name for members in found.values() for name in members}
    rest = [name for name in names if name not in grouped]
    return {**found, "other": rest} if rest and found else found


THUMBNAILS = 24


def show_kernels(found: KernelPreviews) -> None:
    """Gram matrices, those best aligned with the target."""
    with stack("kw-stats"):
        counted("kernel", found.n_kernels)
        stat(size(found.memory), "memory at most", f"of {size(found.budget)}")
        counted("training row", found.n_rows)
    if found.memory > found.budget:
        note(
            "More than the memory for kernels: they are recomputed by tiles, which is slower.",
            "warn",
        )
    hint(
        f"Gram matrices of {plural(found.n_sampled, 'row')} sorted by the target, light where rows are alike. "
        "Alignment with the target is from −1 to 1; best first."
    )
    with stack("kw-thumbs"):
        for kernel in found.kernels[:THUMBNAILS]:
            with thumb(kernel.thumbnail, f"Gram matrix of {kernel.name}"):
                text(kernel.name, "b").style("font-weight: 500")
                rank = f", rank {kernel.rank}" if kernel.rank is not None else ""
                text(f"alignment {kernel.alignment:.3f}{rank}", "span")
    if found.n_looked < found.n_kernels:
        hint(
            f"The {THUMBNAILS} best aligned of {found.n_looked} kernels, which are spread evenly over "
            f"all {found.n_kernels}."
        )
    elif found.n_kernels > THUMBNAILS:
        hint(f"The {THUMBNAILS} best aligned of {found.n_kernels} kernels.")


def ask_for_file(
    studio: Studio, desk: Desk, names: Callable[[], list[str]], then: Callable[[dict[str, list[str]]], None]
) -> None:
    """Read views from a file that the browser reads.

    Parameters
    ----------
    studio : Studio
    desk : Desk
    names : callable
        Gives the columns that may be in a view.
    then : callable
        Is given the columns of every view.
    """
    with titled("Views from a file") as dialog:
        hint(
            "TOML with a table [views], or a GMT file of gene sets. Columns that the tables lack are left out."
        )

        async def take(event: UploadEventArguments) -> None:
            form: Literal["gmt", "toml"] = "gmt" if event.file.name.lower().endswith(".gmt") else "toml"
            try:
                assert desk.data is not None
                content = decode(await event.file.read(), "The file")
                found = await offload(studio.views, desk.data, content, form)
            except InputError as error:
                said(error)
                return
            if not dialog.value:  # it was left while the file was read
                return
            known = set(names())
            views = {name: [c for c in columns if c in known] for name, columns in found.views.items()}
            dialog.close()
            if found.n_unknown:
                names_are = plural(found.n_unknown, "name is not a column", "names are not columns")
                warn(f"{names_are} of these tables.")
            then(views)

        most = studio.limits.views

        def refused() -> None:
            said(InputError(f"A file of views ends in .toml or .gmt and has at most {size(most)}."))

        upload = ui.upload(
            label="Drop the file here, or press +",
            auto_upload=True,
            on_upload=take,
            max_file_size=most,
            on_rejected=refused,
        )
        upload.on("failed", refused)
        upload.classes("kw-upload").props("flat bordered accept='.toml,.gmt'")
        upload.add_slot("header", pick_button("Drop the file here, or press +"))
        with stack("kw-end").style("width: 100%"):
            word_button("Cancel", "", dialog.close, "flat")
    dialog.open()


#: Columns that are shown as chips at once.
MOST_CHIPS = 250

#: Views with a card of their own.
MOST_CARDS = 60

OWN = "own"

NOT_YET = "Choose a table and a target first."
SELECT_FIRST = (
    "Select columns first: press their names below, or show the columns of a view and press them there."
)


def _all_of(names: list[str]) -> str:
    """What kernels see without views."""
    if len(names) == 1:
        return "the only column"
    return f"all {plural(len(names), 'column')} together or one at a time"


class KernelsPage:
    """The page of views and kernels."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.desk = studio, Desk(studio)
        self.chosen: set[str] = set()
        #: text searched for among the columns of a view, or of none
        self.search: dict[str, str] = {}
        #: views whose columns are shown
        self.opened: set[str] = set()
        self.joined: Joining | None = None
        self.pictures = Part("Computing the kernels", show_kernels, self.read_kernels)
        # fields stay, since what is pressed next may be among them
        self.form = Form(lambda: self.desk, self.pictures.renew, self.refused)

    async def build(self) -> None:
        """Draw the page."""
        lead = "Views are groups of columns that belong together. Each has its own kernels, and learning weights them."
        with page(self.studio, "/kernels", "Views and kernels", lead):
            if self.desk.data is None or not self.desk.spec.predicted:
                nothing("grid_view", NOT_YET, "Data", "/")
                return
            # large tables take a while to read, so the page is shown first
            later("Reading the tables", self.cards, self.desk.joined)

    def read_kernels(self) -> KernelPreviews:
        """The kernels that are chosen, on some rows."""
        assert self.desk.data is not None
        return self.studio.kernels(self.desk.data, self.desk.spec, THUMBNAILS)

    def cards(self, joined: Joining | None) -> None:
        """What can be chosen, once the tables are read."""
        self.joined = joined
        if joined is None or joined.problem:
            nothing("grid_view", NOT_YET, "Data", "/")
            return
        self.views()
        self.settings()
        with card("Kernels before learning") as aside:
            with aside:
                word_button("Look again", "refresh", self.pictures.renew, "flat dense")
            # the choices are shown first
            self.pictures.build()
        with stack("kw-end"):
            word_button("Method", "arrow_forward", "/method", "unelevated")

    def refused(self) -> None:
        """Show what is stored in place of what could not be."""
        self.views.refresh()
        self.settings.refresh()

    def change_views(self, views: dict[str, list[str]]) -> None:
        """Keep views, and the kernels of those that are still there."""
        assert self.joined is not None
        self.chosen = set()
        try:
            self.desk.set_views(views, self.joined)
        except InputError as error:
            said(error)
        self.views.refresh()
        self.pictures.renew()
        self.settings.refresh()

    # ---- views ------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Columns to learn from."""
        return self.desk.features(self.joined) if self.joined else []

    def groups(self) -> dict[str, list[str]]:
        """Views that were made here, or else the tables if there are several."""
        if self.joined is None or self.desk.views():
            return self.desk.views()
        known = set(self.names())
        found = {name: [c for c in columns if c in known] for name, columns in self.joined.views.items()}
        return {name: columns for name, columns in found.items() if columns}

    @ui.refreshable_method
    def views(self) -> None:
        """A card for every view, and the columns in none."""
        assert self.joined is not None
        names = self.names()
        own, views = bool(self.desk.views()), self.groups()
        with card("Views") as aside:
            with aside:
                if own:
                    label = "Tables as views" if self.joined.views else "No views"
                    word_button(label, "clear", lambda: self.change_views({}), "flat dense")
                word_button("By name", "auto_awesome", guarded(self.group), "flat dense").tooltip(
                    "Columns whose names begin or end alike"
                )
                ask = partial(ask_for_file, self.studio, self.desk, self.names, self.change_views)
                word_button("From a file", "upload_file", ask, "flat dense").tooltip(
                    "TOML with a table [views], or GMT gene sets"
                )
                word_button("New view", "add", guarded(self.new_view), "outline dense")
            if not views:
                hint(
                    f"No views: kernels see {_all_of(names)}, as chosen below. Make views where columns come from "
                    "different sources or measure different things."
                )
            elif not own:
                hint(
                    "Each table is a view. Show the columns of one to move them, or to make a new view of them."
                )
            with stack("kw-grid"):
                for name in list(views)[:MOST_CARDS]:
                    self.view_card(name, views[name])
            if len(views) > MOST_CARDS:
                hidden = plural(len(views) - MOST_CARDS, "more view is", "more views are")
                hint(f"{hidden} not shown, but used all the same.")
            for one in self.joined.further:
                what = (
                    "a precomputed kernel" if one.use == "kernels" else plural(one.n_columns, "sparse column")
                )
                hint(f"{one.name}: {what}, from {one.file}.")
            used = {c for columns in views.values() for c in columns}
            self.shelf([c for c in names if c not in used], bool(views))

    def shelf(self, names: list[str], some: bool) -> None:
        """Columns in no view: they can be selected, or dragged to one; others are dropped here to take them out."""
        with stack() as zone:
            if some:
                zone.classes("kw-drop").props('role=group aria-label="Columns in no view"')
                self.receive(zone, self.take_out)
            with stack("kw-row"):
                text("Columns in no view" if some else "Columns", "h3")
                tag(plural(len(names), "column"))
                if some:
                    hint("These are not used as features.")
            if names:
                self.chips(names, "")

    @staticmethod
    def receive(zone: ui.element, action: Callable[[], None]) -> None:
        """Let columns be dropped on an element."""
        zone.on("dragover.prevent", lambda: zone.classes("over"), throttle=0.3)
        zone.on("dragleave", lambda: zone.classes(remove="over"))
        zone.on("drop.prevent", guarded(action))

    def chips(self, names: list[str], view: str) -> None:
        """Columns that can be searched and selected; of a view, or of none."""

        def found() -> list[str]:
            part = self.search.get(view, "").lower()
            return [c for c in names if part in c.lower()]

        def look(event: ValueChangeEventArguments) -> None:
            self.search[view] = event.value or ""
            shown.refresh()

        def select_all() -> None:
            these = set(found())
            self.chosen = self.chosen - these if these <= self.chosen else self.chosen | these
            shown.refresh()

        @ui.refreshable
        def shown() -> None:
            these = found()
            with stack("kw-chips", f"Columns of {view}" if view else "Columns").props("role=group"):
                for name in these[:MOST_CHIPS]:
                    self.chip(name)
            if len(these) > MOST_CHIPS:
                rest = plural(len(these) - MOST_CHIPS, "more column")
                hint(f"{rest}: type a part of the name above.")

        with stack("kw-row"):
            label = f"Find columns of {view}" if view else "Find columns"
            find = ui.input(label, value=self.search.get(view, ""), on_change=look)
            find.props("outlined dense clearable").classes("grow")
            word_button("Select all found", "", select_all, "flat dense")
            if view:
                word_button("Take out", "remove", guarded(self.take_out), "flat dense").tooltip(
                    "The selected columns are then in no view, and not used as features"
                )
            else:
                word_button("New view of the selection", "add", guarded(self.new_view), "flat dense")
        shown()

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
            # a column that is not selected is dragged alone
            self.chosen = self.chosen if name in self.chosen else {name}

        button.on("click", press)
        button.on("dragstart", drag)

    def view_card(self, name: str, columns: list[str]) -> None:
        """A view: its columns, its kernels, and a place to drop more."""
        zone = stack("kw-drop", f"View {name}").props("role=group")
        self.receive(zone, lambda: self.put(name))
        with zone:
            with stack("kw-row").style("flex-wrap: nowrap"):
                text(name, "h3").style(
                    "flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap"
                )
                tag(plural(len(columns), "column"))
                put = guarded(lambda: self.put(name))
                icon_button("add", f"Add the selected columns to {name}", put, "size=sm")
                icon_button("close", f"Remove the view {name}", lambda: self.remove(name), "size=sm")
            self.members(name, columns)
            kernels = self.desk.spec.kernels
            self.kernel_choice(kernels.get(name, "default") if isinstance(kernels, dict) else kernels, name)

    def members(self, name: str, columns: list[str]) -> None:
        """The columns of a view: the first ones as text, or all of them to be selected."""

        @ui.refreshable
        def shown() -> None:
            is_open = name in self.opened
            if not is_open:
                few = ", ".join(columns[:6]) + (f" and {len(columns) - 6} more" if len(columns) > 6 else "")
                hint(few).style("overflow-wrap: anywhere")
            label, icon = ("Hide columns", "expand_less") if is_open else ("Show columns", "expand_more")
            button = word_button(label, icon, turn, "flat dense no-caps size=sm", f"{label} of {name}")
            button.props["aria-expanded"] = "true" if is_open else "false"
            if is_open:
                self.chips(columns, name)

        def turn() -> None:
            self.opened ^= {name}
            shown.refresh()

        shown()

    def kernel_choice(self, value: str, view: str) -> None:
        """Which kernels a view gets, or all columns do."""
        known = kernel_choices() if view else banks_for(len(self.names()))
        options = {**known, OWN: "Other kernels …"}
        shown = value if value in known else OWN
        label = "Kernels" if not view else f"Kernels of {view}"

        def keep(new: str) -> None:
            if not view:
                self.form.set(kernels=new)
                return
            kernels = self.desk.spec.kernels
            asked = dict(kernels) if isinstance(kernels, dict) else {}
            self.form.set(kernels={**asked, view: new})
            if kernels != "default" and not asked:  # those of the other views are others now
                self.views.refresh()

        def pick(event: ValueChangeEventArguments) -> None:
            own.set_visibility(event.value == OWN)
            if event.value != OWN:
                keep(event.value)

        dropdown(options, value=shown, label=label, on_change=pick)
        own = ui.input("Kernels, separated by ;", value=value if shown == OWN else "linear; rbf(gamma=0.1)")
        own.props("outlined dense").props["hint"] = (
            "Such as linear; poly(degree=2); rbf(gamma='median'); linear.prepared('normalize-rows'). "
            f"Kernels: {', '.join(kernel_names())}."
        )
        own.set_visibility(shown == OWN)

        def typed() -> None:
            try:
                parse_kernels(own.value or "")
            except InputError as error:
                own.props("error").props["error-message"] = str(error)
                return
            own.props(remove="error")
            keep(own.value)

        own.on("blur", typed)
        own.on("keydown.enter", typed)

    def without_chosen(self) -> dict[str, list[str]]:
        """The views without the selected columns."""
        return {view: [c for c in names if c not in self.chosen] for view, names in self.groups().items()}

    def put(self, view: str) -> None:
        """Move the selected columns to a view, which may be new."""
        if not self.chosen:
            raise InputError(SELECT_FIRST)
        views = self.without_chosen()
        self.change_views(
            {**views, view: views.get(view, []) + [c for c in self.names() if c in self.chosen]}
        )

    def take_out(self) -> None:
        """Take the selected columns out of their views."""
        views = self.without_chosen()
        if views == self.groups():
            raise InputError("Select columns of a view first: show its columns and press their names.")
        if not any(views.values()):
            raise InputError("One view must keep a column. Remove the views instead.")
        self.change_views(views)

    def remove(self, view: str) -> None:
        """Remove a view."""
        self.change_views({name: columns for name, columns in self.groups().items() if name != view})

    def new_view(self) -> None:
        """Ask for a name, and make a view of the selected columns."""
        if not self.chosen:
            raise InputError(SELECT_FIRST)

        def make(name: str) -> None:
            if not name or name in self.groups() or ":" in name:
                raise InputError("A new name without a colon is needed.")
            self.put(name)

        of = plural(len(self.chosen), "column")
        ask_text("New view", "Name", "Make", make, below=lambda: hint(of))

    async def group(self) -> None:
        """Make views of columns whose names have a word in common."""
        views = await offload(group_by_name, self.names())
        if len(views) < 2:
            raise InputError(
                "The names of the columns do not fall into groups. Select them and make views by hand."
            )
        self.change_views(views)

    # ---- settings ---------------------------------------------------------------------------------

    @ui.refreshable_method
    def settings(self) -> None:
        """Kernels on all columns, and how kernels are prepared."""
        spec = self.desk.spec
        with card("Settings"):
            if not self.desk.views() and not (self.joined and self.joined.views):
                self.kernel_choice(spec.kernels if isinstance(spec.kernels, str) else "default", "")
            with stack("kw-fields"):
                fields, switches = self.form.group("Kernels", task="", without=("kernels", "views"))
                self.form.fields(*fields, *switches)
