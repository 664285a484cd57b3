"""The frame of all pages, and their components."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, SupportsFloat

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from kernelweave._errors import InputError
from kernelweave._forms import plus_minus
from kernelweave_app.studio.pages.switch import project_name, project_switch
from kernelweave_app.studio.pages.theme import CSS, LOGO, SCRIPT
from kernelweave_app.studio.pages.tour import show_step, start_button
from kernelweave_app.studio.service import Studio

PAGES = (
    ("", "/", "Data", "table_view"),
    ("", "/kernels", "Views and kernels", "grid_view"),
    ("", "/method", "Method", "tune"),
    ("", "/runs", "Runs", "play_circle"),
    ("", "/understand", "Understand", "insights"),
    ("", "/compare", "Compare", "balance"),
    ("", "/use", "Use", "output"),
)
#: How tables sort a column of numbers.
NUMERICALLY = (
    "(a, b) => { const n = (v) => v === null || v === undefined || v === '' ? -Infinity : Number(v); "
    "const x = n(a), y = n(b); return x < y ? -1 : x > y ? 1 : 0 }"
)
APPEARANCE = "appearance"
NEXT_LOOK = {"auto": "light", "light": "dark", "dark": "auto"}
LOOKS = {
    "auto": ("contrast", "Colours follow the system"),
    "light": ("light_mode", "Light colours"),
    "dark": ("dark_mode", "Dark colours"),
}


@contextmanager
def page(studio: Studio, path: str, title: str, lead: str) -> Iterator[ui.element]:
    """A page with navigation and a heading; yields the element beside the heading."""
    everywhere = studio.store.inside(None)
    look = everywhere.draft(APPEARANCE) or "auto"
    ui.dark_mode({"auto": None, "light": False, "dark": True}[look])
    ui.on_exception(_teller())
    everywhere.open_project(studio.store.project or "")
    ui.page_title(f"{title} · {project_name(studio)} · kernelweave studio")
    # NiceGUI makes the whole page a main element; here it is only the content
    around = ui.context.client.content.parent_slot
    if around is not None:
        around.parent.props("role=presentation")
    with ui.element("div").classes("kw-frame"):
        with ui.element("header").classes("kw-edge"), ui.element("div").classes("kw-side"):
            ui.link("Skip to the content", "#content").classes("kw-skip")
            with ui.link(target="/").classes("kw-brand").props('aria-label="kernelweave studio: data"'):
                ui.html(LOGO, sanitize=False)
                with ui.element("span"):
                    ui.label("kernelweave").style("line-height: 1.2")
                    ui.html("<small>studio</small>", sanitize=False)
            project_switch(studio, path)
            with ui.element("nav").props('aria-label="Steps"'), ui.element("ul").classes("kw-nav"):
                for _, target, name, icon in PAGES:
                    with ui.element("li"):
                        link = ui.link(target=target)
                        if target == path:
                            link.props("aria-current=page")
                        with link:
                            ui.icon(icon).props("aria-hidden=true")
                            text(name, "span")
            with ui.element("div").classes("kw-foot"):
                text(f"version {studio.about().version}", "span")
                start_button(studio)

                def turn() -> None:
                    new = NEXT_LOOK[everywhere.draft(APPEARANCE) or "auto"]
                    everywhere.set_draft(APPEARANCE, new)
                    # charts take their colours when they are drawn
                    ui.navigate.reload()

                icon, said = LOOKS[look]
                ui.button(icon=icon, on_click=guarded(turn)).props(
                    f'flat round dense aria-label="{said}. Change."'
                ).tooltip(said)
        with ui.element("main").classes("kw-main").props("id=content tabindex=-1"):
            with ui.element("div").classes("kw-head"):
                with ui.element("div"):
                    text(title, "h1")
                    if lead:
                        text(lead, "p").classes("kw-lead")
                aside = ui.element("div").classes("kw-end")
            show_step(studio, path)
            yield aside
    # on narrow screens the steps are a row that may be longer than the screen
    ui.run_javascript(
        "document.querySelector('.kw-nav [aria-current]')?.scrollIntoView({inline: 'center', block: 'nearest'})"
    )


def text(content: object, tag: str = "div") -> TextElement:
    """Text in an element; never markup."""
    return ui.label(str(content)) if tag == "div" else TextElement(tag=tag, text=str(content))


@contextmanager
def card(title: str = "", hint: str = "", level: str = "h2") -> Iterator[Any]:
    """A section with a heading; yields the element beside the heading."""
    section = ui.element("section").classes("kw-card")
    if title:
        section.props["aria-label"] = title
    with section:
        aside = None
        if title:
            with ui.element("header"):
                text(title, level)
                aside = ui.element("div").classes("kw-row")
            if hint:
                text(hint, "p").classes("kw-hint").style("margin-top: -.5rem")
        yield aside


def stack(kind: str = "kw-stack") -> ui.element:
    """A plain container."""
    return ui.element("div").classes(kind)


def stat(value: str, label: str, note: str = "") -> None:
    """A number with its name."""
    with ui.element("div").classes("kw-stat"):
        with ui.element("b"):
            text(value, "span").style("color: inherit; font-size: inherit")
            if note:
                text(f" {note}", "i")
        text(label, "span")


def counted(name: str, count: int, note: str = "") -> None:
    """A number of things."""
    number, _, word = plural(count, name).partition(" ")
    stat(number, word, note)


def tag(content: str, kind: str = "", icon: str = "") -> ui.element:
    """A short state."""
    with ui.element("span").classes(f"kw-tag {kind}") as found:
        if icon:
            ui.icon(icon).props("aria-hidden=true")
        text(content, "span")
    return found


def note(content: str, kind: str = "", icon: str = "") -> ui.element:
    """A remark, a warning or an error."""
    icons = {"": "info", "warn": "warning_amber", "bad": "error_outline", "good": "check_circle"}
    role = "alert" if kind == "bad" else "note"
    with ui.element("div").classes(f"kw-note {kind}").props(f"role={role}") as found:
        ui.icon(icon or icons[kind]).props("aria-hidden=true")
        text(content)
    return found


def empty(icon: str, content: str) -> ui.element:
    """A placeholder where there is nothing yet."""
    with ui.element("div").classes("kw-empty") as found:
        ui.icon(icon).props("aria-hidden=true")
        text(content)
    return found


def bar(label: str, share: float, value: str, colour: str = "") -> None:
    """A horizontal bar with its name and its value."""
    with ui.element("div").classes("kw-bar"):
        text(label, "span").props["title"] = label
        with ui.element("div").props("aria-hidden=true"):
            width = f"width: {100 * min(max(share, 0.0), 1.0):.1f}%"
            ui.element("div").style(width + (f"; background: {colour}" if colour else ""))
        text(value, "span")


def simple_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[int] = (), label: str = ""
) -> None:
    """A small table of text."""
    with ui.element("div").classes("kw-scroll").props("tabindex=0"):
        grid = ui.element("table").classes("kw-table")
        if label:
            grid.props["aria-label"] = label
        with grid:
            with ui.element("thead"), ui.element("tr"):
                for j, name in enumerate(headers):
                    text(name, "th").classes("num" if j in numbers else "").props("scope=col")
            with ui.element("tbody"):
                for row in rows:
                    with ui.element("tr"):
                        for j, value in enumerate(row):
                            shown = "missing" if value is None else value
                            kind = "miss" if value is None else ""
                            text(shown, "td").classes(f"{kind} {'num' if j in numbers else ''}")


#: A heading that sorts: a button, for the keyboard, within the cell that hears its clicks. Constants alone.
HEADING = (
    '<q-th :props="props" :aria-sort="props.col.__thClass.includes(\' sorted\') '
    "? (props.col.__thClass.includes('sort-desc') ? 'descending' : 'ascending') : 'none'\">"
    '<button type="button" class="kw-sort">{{ props.col.label }}</button></q-th>'
)


def big_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], *, label: str, page_size: int = 10
) -> ui.table:
    """A table that can be sorted, with pages; cells are text or numbers."""
    numbers = [all(_is_number(row[j]) for row in rows) for j in range(len(headers))]
    columns = [
        {
            "name": f"c{j}",
            "label": name,
            "field": f"c{j}",
            "sortable": True,
            "align": "right" if numbers[j] else "left",
            # numbers given as text are sorted as numbers, and empty cells before them
            **({":sort": NUMERICALLY} if numbers[j] else {}),
        }
        for j, name in enumerate(headers)
    ]
    # names of columns come from users, names of fields do not: NiceGUI interprets some characters
    values = [{"id": k, **{f"c{j}": v for j, v in enumerate(row)}} for k, row in enumerate(rows)]
    # the part of a table that scrolls has no stop of the keyboard; what is around it has one
    with ui.element("div").classes("kw-scroll").props("tabindex=0"):
        found = ui.table(columns=columns, rows=values, row_key="id", pagination={"rowsPerPage": page_size})
    found.props("flat dense rows-per-page-label='Rows on a page:'").style("width: 100%")
    found.props["aria-label"] = label
    found.add_slot("header-cell", HEADING)
    return found


def _is_number(value: object) -> bool:
    try:
        if value is None or value == "":
            return True
        return isinstance(value, str | SupportsFloat) and float(value) == float(value)
    except (TypeError, ValueError):
        return False


def once(
    label: str, icon: str, action: Callable[[], Awaitable[object]], props: str = "unelevated"
) -> ui.button:
    """A button that says at once that it was pressed, and does nothing more until that is done.

    Parameters
    ----------
    label, icon : str
    action : coroutine function
        Input errors are shown to the user.
    props : str, default="unelevated"

    Returns
    -------
    ui.button
    """
    # the browser marks it before the server has heard, see studio.js
    client = ui.context.client  # the part of the page with the button may be gone by the end
    button = ui.button(label, icon=icon).props(props).classes("kw-once")
    doing = False

    async def do() -> None:
        nonlocal doing
        if doing:
            return
        doing = True
        button.props("loading")
        try:
            with client:
                try:
                    await action()
                except InputError as error:
                    said(error)
        finally:
            doing = False
            if not button.is_deleted:
                button.props(remove="loading")

    button.on_click(do)
    return button


def waiting(content: str) -> ui.element:
    """A sign that something is being read or computed, in words too."""
    with ui.element("div").classes("kw-waiting").props("role=status") as found:
        ui.spinner(size="1.6rem").props("aria-hidden=true")
        text(content, "span")
    return found


@contextmanager
def explained(label: str, about: str) -> Iterator[None]:
    """A field with a button that explains it, which can be read without a pointer."""
    with ui.element("div").classes("kw-explained"):
        yield
        button = ui.button(icon="help_outline").props("flat round dense size=sm color=grey-7")
        button.props["aria-label"] = f"About {label}"
        with button, ui.menu().props("max-width=24rem role=note"):
            text(about, "p").classes("kw-about")


def said(error: Exception) -> None:
    """Show an error as a notification, unless the window has been closed."""
    if ui.context.client.is_deleted:
        return
    what = str(error)
    if not isinstance(error, InputError):
        what = (
            f"This did not work, by a mistake of the studio: {type(error).__name__}: {what:.300}. The terminal in "
            "which it was started says more."
        )
    ui.notify(what, type="negative", multi_line=True, timeout=8000, close_button="Close")


def _teller() -> Callable[[Exception], None]:
    """Show what nothing else has shown: errors of handlers and timers of a page, the same one once in a while."""
    seen: dict[str, float] = {}

    def tell(error: Exception) -> None:
        now, what = time.monotonic(), repr(error)
        if now - seen.get(what, -AGAIN) >= AGAIN:
            seen[what] = now
            said(error)

    return tell


#: Seconds after which an error that occurs again, such as that of a timer, is shown again.
AGAIN = 30.0


class Turn:
    """Of several pending responses, only the newest is shown.

    Parts of a page that wait for a response before they are drawn could otherwise be drawn twice.
    """

    def __init__(self) -> None:
        self._now = 0

    def take(self) -> Callable[[], bool]:
        """Begin; returns a function that tells whether this is still the newest, and its window open."""
        self._now += 1
        mine, client = self._now, ui.context.client
        return lambda: mine == self._now and not client.is_deleted


def guarded(action: Callable[[], object]) -> Callable[[], Awaitable[None]]:
    """An action, which may be a coroutine function, whose input errors are shown to the user."""

    async def do() -> None:
        # the part of the page with the button may be gone by the end
        with ui.context.client:
            try:
                found = action()
                if inspect.isawaitable(found):
                    await found
            except InputError as error:
                said(error)

    return do


def head() -> None:
    """Style and script of all pages."""
    ui.add_css(CSS, shared=True)
    ui.add_head_html(f"<script>{SCRIPT}</script>", shared=True)


# ---- numbers --------------------------------------------------------------------------------------


def number(value: float | None, digits: int = 4) -> str:
    """A number as text."""
    if value is None:
        return "–"
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e5):
        return f"{value:.{digits - 2}e}"
    return f"{value:.{digits}g}" if abs(value) >= 1 else f"{value:.{digits}f}".rstrip("0").rstrip(".") or "0"


def score(value: float | None, spread: float | None = None) -> str:
    """A score with its spread."""
    if value is None:
        return "–"
    return f"{value:.3f} {plus_minus(spread)}".rstrip()


def size(value: float | None) -> str:
    """Bytes as text."""
    if value is None:
        return ""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return ""


def duration(seconds: float | None) -> str:
    """A duration as text."""
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def has(count: int) -> str:
    """The verb after so many."""
    return "has" if count == 1 else "have"


def plural(count: int, name: str, several: str = "") -> str:
    """A count with its noun."""
    return f"{count:,} {name if count == 1 else several or name + 's'}".replace(",", "\u202f")
