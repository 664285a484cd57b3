"""The pieces that pages are made of: cards, tables, fields, buttons, dialogs, uploads, and numbers as text."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, SupportsFloat, TypeVar
from urllib.parse import quote

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._drawing import score_text
from kernelweave._errors import InputError
from kernelweave._types import Tree
from kernelweave.inspection.registry import Table
from kernelweave_app.reports.printing import DOUBLE, SINGLE
from kernelweave_app.runs.formats import upload_suffixes
from kernelweave_app.runs.spec import in_words_of
from kernelweave_app.studio.schema import Metric
from kernelweave_app.studio.typesetting import parts, to_mathml

Answer = TypeVar("Answer")


def text(content: object, tag: str = "div") -> TextElement:
    """Text in an element; never markup."""
    return ui.label(str(content)) if tag == "div" else TextElement(tag=tag, text=str(content))


@contextmanager
def card(title: str = "", about: str = "") -> Iterator[Any]:
    """A section with a heading; yields the element beside the heading."""
    section = ui.element("section").classes("kw-card")
    if title:
        section.props["aria-label"] = title
    with section:
        aside = None
        if title:
            with ui.element("header"):
                text(title, "h2")
                aside = stack("kw-row")
            if about:
                hint(about, "p").style("margin-top: -.5rem")
        yield aside


def stack(kind: str = "kw-stack", name: str = "") -> ui.element:
    """A plain container; one with a role has a name that is read aloud."""
    found = ui.element("div").classes(kind)
    if name:
        found.props["aria-label"] = name
    return found


def hint(content: str, tag: str = "div") -> TextElement:
    """A remark in small grey letters."""
    return text(content, tag).classes("kw-hint")


def link(content: str, target: str, new_tab: bool = False, download: str = "") -> ui.link:
    """A link in a line of its own, whose address begins at the project; one to a file has a name that is read aloud."""
    found = ui.link(content, target, new_tab).classes("kw-link")
    if download:
        found.props("download").props["aria-label"] = download
    return found


def dropdown(options: Any, *, props: str = "", name: str = "", **more: Any) -> Any:
    """A list to choose from; one without a label has a name that is read aloud."""
    found = ui.select(options, **more).props(f"outlined dense options-dense {props}")
    if name:
        found.props["aria-label"] = name
    return found


def pick_row(names: Sequence[object], act: Callable[[int], object]) -> None:
    """A list of rows to look at one of, by its number."""
    rows = dict(enumerate(f"row {name}" for name in names))
    found = dropdown(rows, value=0, label="Row", with_input=True, on_change=lambda event: act(event.value))
    found.style("width: 9rem")


def switch(name: str, options: dict[str, str], value: str, props: str = "") -> ui.toggle:
    """A row of buttons of which one is pressed, with a name that is read aloud."""
    found = ui.toggle(options, value=value).props(f"no-caps unelevated toggle-color=primary {props}")
    found.props["aria-label"] = name
    return found


def icon_button(icon: str, label: str, action: Any, props: str = "") -> ui.button:
    """A button without words, whose name is read aloud."""
    button = ui.button(icon=icon, on_click=action).props(f"flat round dense {props}")
    button.props["aria-label"] = label
    return button


def word_button(
    label: str, icon: str, action: Callable[[], object] | str, props: str = "", name: str = ""
) -> ui.button:
    """A button that does something, or opens a page; `name` is read aloud in place of its label."""
    do = (lambda: ui.navigate.to(action)) if isinstance(action, str) else action
    button = ui.button(label, icon=icon or None, on_click=do).props(props)
    if name:
        button.props["aria-label"] = name
    return button


def stat(value: str, label: str, note: str = "") -> None:
    """A number with its name."""
    with stack("kw-stat"):
        with ui.element("b"):
            text(value, "span").style("color: inherit; font-size: inherit")
            if note:
                text(f" {note}", "i")
        text(label, "span")


def counted(name: str, count: int, note: str = "", several: str = "") -> None:
    """A number of things."""
    number, _, word = plural(count, name, several).partition(" ")
    stat(number, word, note)


@contextmanager
def thumb(source: str, alternative: str) -> Iterator[ui.element]:
    """A small picture; what is made in the context stands in its caption, which it yields."""
    with ui.element("figure").classes("kw-thumb"):
        picture = ui.element("img").props("loading=lazy")
        picture.props["src"], picture.props["alt"] = source, alternative
        with ui.element("figcaption") as caption:
            yield caption


def verbatim(content: str, label: str) -> None:
    """Text of a program, as it is, that scrolls by the keyboard too."""
    text(content, "pre").classes("kw-log").props("tabindex=0").props["aria-label"] = label


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
        text(in_words_of("form", content) if kind in ("warn", "bad") else content)
    return found


def empty(icon: str, content: str) -> ui.element:
    """A placeholder where there is nothing yet."""
    with stack("kw-empty") as found:
        ui.icon(icon).props("aria-hidden=true")
        text(content)
    return found


def bar(label: str, share: float, value: str) -> None:
    """A horizontal bar with its name and its value."""
    with stack("kw-bar"):
        text(label, "span").props["title"] = label
        with ui.element("div").props("aria-hidden=true"):
            ui.element("div").style(f"width: {100 * min(max(share, 0.0), 1.0):.1f}%")
        text(value, "span")


def bars(found: Iterable[tuple[str, float]], said: Callable[[float], str], most: float = 0.0) -> None:
    """Horizontal bars; the longest is as wide as all, or one of the number `most` would be."""
    found = list(found)
    most = most or max((value for _, value in found), default=1.0) or 1.0
    with stack("kw-stack tight"):
        for name, value in found:
            bar(name, value / most, said(value))


def simple_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[int] = (), label: str = ""
) -> None:
    """A small table of text; a cell that is a function draws itself."""
    with stack("kw-scroll").props("tabindex=0"):
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
                            if callable(value):
                                with ui.element("td"):
                                    value()
                                continue
                            found = text("missing" if value is None else value, "td")
                            found.classes(
                                f"{'miss' if value is None else ''} {'num' if j in numbers else ''}"
                            )


def finding_table(table: Table) -> None:
    """A table of a finding, whose first column has no numbers."""
    simple_table(table.heads, table.shown(), numbers=range(1, len(table.heads)), label=table.title)


#: A heading that sorts: a button, for the keyboard, within the cell that hears its clicks. Constants alone.
HEADING = (
    '<q-th :props="props" :aria-sort="props.col.__thClass.includes(\' sorted\') '
    "? (props.col.__thClass.includes('sort-desc') ? 'descending' : 'ascending') : 'none'\">"
    '<button type="button" class="kw-sort">{{ props.col.label }}</button></q-th>'
)


def big_table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, label: str) -> ui.table:
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
            **({":sort": "kwNumerically"} if numbers[j] else {}),
        }
        for j, name in enumerate(headers)
    ]
    # names of columns come from users, names of fields do not: NiceGUI interprets some characters
    values = [{"id": k, **{f"c{j}": v for j, v in enumerate(row)}} for k, row in enumerate(rows)]
    # the part of a table that scrolls has no stop of the keyboard; what is around it has one
    with stack("kw-scroll").props("tabindex=0"):
        found = ui.table(columns=columns, rows=values, row_key="id", pagination={"rowsPerPage": 10})
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
    act, doing = guarded(action), False

    async def do() -> None:
        nonlocal doing
        if doing:
            return
        doing = True
        button.props("loading")
        try:
            with client:
                await act()
        finally:
            doing = False
            if not button.is_deleted:
                button.props(remove="loading")

    button.on_click(do)
    return button


def waiting(content: str) -> ui.element:
    """A sign that something is being read or computed, in words too."""
    with stack("kw-waiting").props("role=status") as found:
        ui.spinner(size="1.6rem").props("aria-hidden=true")
        text(content, "span")
    return found


class Part:
    """A part of a page that is read beside the server's loop and then drawn, at first and whenever it is renewed.

    A sign stands there until then. Of several readings under way only the newest is drawn, and one that fails says why.
    `draw` is a plain method: a refreshable one that is called later would be that of the window that was made last.

    Parameters
    ----------
    content : str
        What is being done; without it nothing is shown until it is done.
    draw : callable
        Draws the part; is given what was read.
    read : callable, optional
    """

    def __init__(
        self, content: str, draw: Callable[..., object], read: Callable[[], object] | None = None
    ) -> None:
        self.content, self.draw, self.read = content, draw, read
        self._number = 0

    def build(self) -> Part:
        """Put the part here; it is read once the page is shown."""
        self._slot, self.place = ui.context.slot, stack()
        self.renew()
        return self

    def renew(self, *, quietly: bool = False) -> None:
        """Read and draw anew; quietly, what is there stays until then."""
        if self.place.is_deleted:
            return
        self._number += 1
        if not quietly:
            with self.place.clear():
                if self.content:
                    waiting(self.content)
        # beside the place, since a timer ends with what holds it; it waits until the browser is there
        with self._slot:
            ui.timer(0.05, partial(self._do, self._number), once=True)

    def show(self, draw: Callable[[], object]) -> None:
        """Draw something that needs no reading."""
        self._number += 1
        with self.place.clear():
            draw()

    async def _do(self, number: int) -> None:
        found: list[object] = []
        failed: Exception | None = None
        try:
            if self.read is not None:
                found = [await offload(self.read)]
        except Exception as error:
            failed = error
        if number != self._number or self.place.is_deleted:
            return
        if failed is None:
            self.show(lambda: self.draw(*found))
            return
        why = error_words(failed)
        self.show(lambda: note(why, "bad"))
        if not isinstance(failed, InputError):
            raise failed


def later(content: str, draw: Callable[..., object], read: Callable[[], object] | None = None) -> Part:
    """A part of the page from here on, see `Part`."""
    return Part(content, draw, read).build()


def nothing(icon: str, content: str, label: str = "", path: str = "", arrow: str = "arrow_back") -> None:
    """A card where there is nothing yet, and the way to where it is made."""
    with card(), empty(icon, content):
        if label:
            word_button(label, arrow, path, "outline")


def tabbed(parts: Mapping[str, Callable[[], object]]) -> None:
    """Parts of a page of which one is shown at a time, the first at the beginning."""
    with ui.tabs().props("dense align=left no-caps outside-arrows mobile-arrows") as tabs:
        for name in parts:
            ui.tab(name)
    with ui.tab_panels(tabs, value=next(iter(parts))).props("animated=false").classes("kw-panels"):
        for name, draw in parts.items():
            with ui.tab_panel(name), stack():
                draw()


def redraw(chart: ui.echart, options: Tree) -> None:
    """Give a chart other options."""
    chart.options.clear()
    chart.options.update(options)
    chart.update()


def turner(first: int, size: int, total: int, name: str, turn: Callable[[int], object]) -> None:
    """Which of many are shown, and buttons to those before and after; `turn` is given by how many to go on."""
    end = min(first + size, total)
    hint(f"{first + 1} to {end} of {plural(total, name)}")
    for label, icon, by, there in (
        (f"Earlier {name}s", "chevron_left", -size, first > 0),
        (f"Further {name}s", "chevron_right", size, end < total),
    ):
        icon_button(icon, label, partial(turn, by)).set_enabled(there)


@contextmanager
def explained(label: str, about: str) -> Iterator[None]:
    """A field with a button that explains it, which can be read without a pointer."""
    with stack("kw-explained"):
        yield
        button = icon_button("help_outline", f"About {label}", None, "size=sm color=grey-7")
        with button, ui.menu().props("max-width=24rem role=note"):
            text(about, "p").classes("kw-about")


def said(error: Exception) -> None:
    """Show an error as a notification, unless the window has been closed."""
    if not ui.context.client.is_deleted:
        warn(error_words(error), "negative")


def warn(words: str, kind: Literal["warning", "negative"] = "warning") -> None:
    """Show words that stay for a while."""
    ui.notify(words, type=kind, multi_line=True, timeout=8000, close_button="Close")


def error_words(error: Exception) -> str:
    """What an error says to a user."""
    what = in_words_of("form", str(error))
    if isinstance(error, InputError):
        return what
    return (
        f"This did not work, by a mistake of the studio: {type(error).__name__}: {what:.300}. The terminal in "
        "which it was started says more."
    )


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


# ---- numbers --------------------------------------------------------------------------------------


def number(value: float | None, digits: int = 4) -> str:
    """A number as text."""
    if value is None:
        return "–"
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e9):
        return f"{value:.{digits - 2}e}"
    if abs(value) >= 1e5:
        return f"{float(f'{value:.{digits}g}'):,.0f}".replace(",", "\u202f")
    return f"{value:.{digits}g}" if abs(value) >= 1 else f"{value:.{digits}f}".rstrip("0").rstrip(".") or "0"


def score(metric: Metric | None) -> str:
    """A score with its interval."""
    if metric is None or metric.value is None:
        return "–"
    ends = [score_text(metric.name, one, metric.n) for one in (metric.low, metric.high) if one is not None]
    return score_text(metric.name, metric.value, metric.n) + (f" ({' to '.join(ends)})" if ends else "")


def size(value: float | None) -> str:
    """Bytes as text."""
    if value is None:
        return ""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return ""


def plural(count: int, name: str, several: str = "") -> str:
    """A count with its noun, and with a verb where both forms are given."""
    return f"{count:,} {name if count == 1 else several or name + 's'}".replace(",", "\u202f")


@contextmanager
def titled(title: str) -> Iterator[ui.dialog]:
    """A dialog with a heading; what is made in the context stands below.

    It belongs to the page, and so stays while the part of the page with its button is drawn anew; it is deleted when it
    has been closed.

    Parameters
    ----------
    title : str
        May hold names of any length.

    Yields
    ------
    ui.dialog
        Not yet open.
    """
    with ui.context.client.content:
        place = ui.element().props("hidden")
    with place, ui.dialog() as dialog, ui.card().classes("kw-ask"):

        def leave() -> None:
            dialog.delete()
            place.delete()

        dialog.on("hide", leave)
        dialog.props["aria-label"] = title
        text(title, "h2").style("overflow-wrap: anywhere")
        yield dialog


def ask_text(
    title: str,
    label: str,
    word: str,
    done: Callable[[str], object],
    *,
    value: str = "",
    most: int = 200,
    below: Callable[[], object] | None = None,
) -> None:
    """Ask for a text, such as a name.

    Parameters
    ----------
    title, label, word : str
        Of the dialog, the field and the button.
    done : callable
        Is given the text; may be a coroutine function. Its input errors are shown at the field, and the dialog stays.
    value : str, default=""
        What stands there at the beginning.
    most : int, default=200
        Characters.
    below : callable, optional
        Draws more fields.
    """
    with titled(title) as dialog:
        field = ui.input(label, value=value).props(f"outlined dense maxlength={most} autofocus")
        field.style("width: 100%")
        if below is not None:
            below()

        async def do() -> None:
            if not dialog.value:  # the second press of a double click
                return
            try:
                found = done((field.value or "").strip())
                if inspect.isawaitable(found):
                    await found
            except InputError as error:
                field.props("error").props["error-message"] = str(error)
            else:
                dialog.close()

        with stack("kw-end").style("width: 100%"):
            word_button("Cancel", "", dialog.close, "flat")
            button = once(word, "check", do)
        field.on("keydown.enter", js_handler=f"() => getElement({button.id}).$el.click()")
    dialog.open()


@contextmanager
def file_row(name: str, about: str) -> Iterator[ui.element]:
    """A file with what is said about it; what is made in the context stands beside it."""
    with stack("kw-file") as found:
        with ui.element("div"):
            text(name, "b").style("font-weight: 500; overflow-wrap: anywhere")
            text(about, "small")
        yield found


def confirm(
    title: str, about: str, word: str, action: Callable[[], Awaitable[object]], keep: str = "Keep them"
) -> None:
    """Ask before something that cannot be undone."""
    with titled(title) as dialog:
        text(about).style("overflow-wrap: anywhere")

        async def do() -> None:
            # the second press of a double click finds it closed
            if dialog.value:
                dialog.close()
                await action()

        with stack("kw-end").style("width: 100%"):
            word_button(keep, "", dialog.close, "flat")
            word_button(word, "", guarded(do), "unelevated color=negative")
    dialog.open()


def pick_button(label: str) -> str:
    """The head of an uploader, whose field and button have names; a template of constants alone.

    The button beside the field opens it: one in the other could not be told apart without a pointer.
    """
    return (
        f'<div class="row no-wrap items-center q-pa-sm"><label class="col q-uploader__title kw-picker">{label}'
        '<q-uploader-add-trigger /></label><q-btn flat round dense icon="add" aria-label="Choose a file" '
        '@click="props.pickFiles($event)" /></div>'
    )


def drop_zone(
    label: str,
    done: Callable[[str], object],
    *,
    multiple: bool = False,
    path: str = "/api/tables",
    accept: str = "",
) -> None:
    """Upload files to the API, which checks size and content while the bytes arrive.

    Parameters
    ----------
    label : str
    done : callable
        Called with the id of what is new.
    multiple : bool, default=False
    path : str, default="/api/tables"
        Where they go.
    accept : str
        Suffixes.
    """
    upload = ui.upload(multiple=multiple, auto_upload=True).classes("kw-upload")
    # a browser looks at the last of several endings
    ends = dict.fromkeys(f".{end.rsplit('.', 1)[1]}" for end in upload_suffixes())
    upload.props(f"flat bordered accept='{accept or ','.join(ends)}'")
    upload.add_slot("header", pick_button(label))
    upload.props[":factory"] = (
        "(files) => ({sendRaw: true, "
        f"url: `${{window.path_prefix}}{path}?name=${{encodeURIComponent(files[0].name)}}`}})"
    )

    async def arrived(event: GenericEventArguments) -> None:
        answer = done(event.args if isinstance(event.args, str) else event.args[0])
        if isinstance(answer, Awaitable):
            await answer

    def refused(event: GenericEventArguments) -> None:
        said(InputError(event.args if isinstance(event.args, str) else event.args[0]))

    upload.on("uploaded", arrived, js_handler=f"(info) => kwUploaded(info, {upload.id}, emit)")
    upload.on("failed", refused, js_handler=f"(info) => kwRefused(info, {upload.id}, emit)")


#: Columns that a list shows at once; of longer lists, those that match the typed text.
MOST_OPTIONS = 200


def pick_column(
    names: Sequence[str],
    value: Any,
    label: str,
    take: Callable[[Any], object],
    *,
    clearable: bool = True,
    hint: str = "",
) -> Any:
    """A list of columns; a long one is searched here, so that the browser is not sent all of it.

    Parameters
    ----------
    names : sequence of str
    value : str, list of str or None
        Chosen; a list where several can be. What is not among the names is left out.
    label : str
    take : callable
        Is given what is chosen: a name, empty for none, or a list of names. May be a coroutine function.
    clearable : bool, default=True
    hint : str, default=""

    Returns
    -------
    Select
    """
    known, multiple = set(names), isinstance(value, list)
    if multiple:
        value = [name for name in value if name in known]
    elif value not in known:
        value = None
    long = len(names) > MOST_OPTIONS

    def offered(text: str, chosen: Any) -> list[str]:
        kept = [chosen] if isinstance(chosen, str) else list(chosen or [])
        if text == chosen:  # the field shows what is chosen, and nothing has been typed
            text = ""
        return list(dict.fromkeys([*find_columns(names, text), *kept]))

    pick = dropdown(
        offered("", value) if long else list(names),
        props=f"{'clearable' if clearable else ''} {'use-chips' if multiple else ''}",
        value=value,
        label=label,
        multiple=multiple,
        with_input=len(names) > 12,
        on_change=lambda event: take(event.value or ([] if multiple else "")),
    )
    if long:
        count = f"{plural(len(names), 'column')}: type a part of the name"
        hint = f"{hint}. {count}" if hint else count
        pick.on(
            "input-value",
            lambda event: pick.set_options(
                offered(event.args if isinstance(event.args, str) else "", pick.value)
            ),
            throttle=0.2,
            leading_events=False,
        )
    if hint:
        pick.props["hint"] = hint
    return pick


def find_columns(names: Sequence[str], text: str, most: int = MOST_OPTIONS) -> list[str]:
    """Columns whose names hold a text, those that begin with it first.

    Parameters
    ----------
    names : sequence of str
    text : str
    most : int, default=200

    Returns
    -------
    list of str
    """
    part = text.lower()
    if not part:
        return list(names[:most])
    found = [name for name in names if part in name.lower()]
    # sorting keeps the order of the table within both halves
    return sorted(found, key=lambda name: not name.lower().startswith(part))[:most]


def typeset(content: str) -> None:
    """Paragraphs of a docstring; formulas as MathML, below each other where they have lines of their own."""
    with stack("kw-formulas").props('role=group aria-label="Objective"'):
        for paragraph in parts(content):
            if all(kind == "block" for kind, _ in paragraph):
                with stack("kw-formula").props("tabindex=0"):
                    for _, formula in paragraph:
                        # made of docstrings of this package, so that nothing of a user is in it
                        ui.html(to_mathml(formula, block=True), sanitize=False)
                continue
            with ui.element("p"):
                for kind, piece in paragraph:
                    if kind == "text":
                        text(piece, "span")
                    else:
                        ui.html(to_mathml(piece), sanitize=False, tag="span")


#: Widths by what they are called.
WIDTHS = {SINGLE: f"one column, {SINGLE:g} mm", DOUBLE: f"two columns, {DOUBLE:g} mm"}


def prints(run_id: str, name: str, title: str) -> None:
    """A button with the figure as PDF and SVG in the widths of columns, and in one's own."""
    with ui.button(icon="download").props("flat dense round size=sm") as button:
        button.props["aria-label"] = f"Download figure: {title}"
        button.props["title"] = f"{title} for print"
        with ui.menu():
            for width, said in WIDTHS.items():
                for kind in ("pdf", "svg"):
                    address = _address(run_id, name, kind, width)
                    item = ui.menu_item(f"{kind.upper()}, {said}", partial(ui.navigate.to, address))
                    # Quasar calls it a list item, which is not what menus hold
                    item.props("role=menuitem")


@contextmanager
def print_card(title: str, run_id: str, figures: Mapping[str, str] | str) -> Iterator[None]:
    """A card with figures for print beside its heading: what each is called by its name, or the name of one."""
    with card(title) as aside:
        with aside:
            for name, called in ({figures: title} if isinstance(figures, str) else figures).items():
                prints(run_id, name, called)
        yield


def own_width(run_id: str, names: Sequence[str]) -> None:
    """Any figure in a width of one's own."""
    with stack("kw-row"):
        figure = dropdown(list(names), value=names[0], label="Figure")
        width = ui.number("Width in mm", value=SINGLE, min=40, max=400)
        width.props("outlined dense").style("width: 8rem")
        kind = dropdown({"pdf": "PDF", "svg": "SVG"}, value="pdf", label="Format").style("width: 7rem")

        def fetch() -> None:
            size = min(400.0, max(40.0, float(width.value or SINGLE)))
            ui.navigate.to(_address(run_id, str(figure.value), str(kind.value), size))

        word_button("Download", "download", fetch, "outline no-caps")


def tables(run_id: str, names: Sequence[str]) -> None:
    """Links to tables as CSV and LaTeX."""
    with stack("kw-row"):
        for name in names:
            text(name.replace("-", " "), "span")
            for kind, said in (("csv", "CSV"), ("tex", "LaTeX")):
                address = f"/api/runs/{run_id}/tables/{quote(name)}?kind={kind}"
                link(said, address).props["aria-label"] = f"{name} as {said}"


def _address(run_id: str, name: str, kind: str, width: float) -> str:
    return f"/api/runs/{run_id}/printed/{quote(name)}?kind={kind}&width={width:g}"
