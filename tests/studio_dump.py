"""Everything that a page of the studio holds, as lines of text, for comparison with recorded ones."""

import asyncio
import difflib
import io
import re
import zipfile
from contextlib import contextmanager
from functools import partial

import numpy as np
import pandas as pd
from nicegui import Client, background_tasks, ui
from nicegui.elements.mixins.value_element import ValueElement
from nicegui.page import page
from nicegui.testing.user_interaction import UserInteraction

from kernelweave_app.studio.catalogue import file_id
from kernelweave_app.studio.service import Studio
from studio_user import visiting

#: Names of parts that NiceGUI or Quasar draw alike everywhere.
USUAL = {
    "outlined",
    "dense",
    "options-dense",
    "no-caps",
    "flat",
    "unelevated",
    "loopback",
    "key",
    "autocomplete",
    "color",
    "for",
    "use-input",
    "fill-input",
    "input-debounce",
    "hide-selected",
    "type",
    "role",
    "tabindex",
    "sanitize",
    "tag",
    "round",
    "size",
    "scope",
    "aria-hidden",
    "hide-bottom-space",
    "debounce",
}
#: What changes from day to day, from place to place, and by chance.
CHANGES = (
    (re.compile(r"\b\d{2} [A-Z][a-z]{2} \d{2}:\d{2}\b"), "DAY TIME"),
    (re.compile(r"\b20\d{2}-\d{2}-\d{2}( \d{2}:\d{2})?\b"), "DAY"),
    (re.compile(r"\b\d{2}:\d{2}:\d{2}\b"), "TIME"),
    (re.compile(r"version \d\S*"), "version V"),
    (re.compile(r"\b20\d{6}-\d{6}-[0-9a-f]{6}\b"), "RUN"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "SHA"),
    (re.compile(r"/p/[0-9a-f]+"), "/p/PROJECT"),
    (re.compile(r"(target=#|for=)c\d+"), r"\1c"),
    (re.compile(r"/_nicegui/client/\S+"), "/UPLOAD"),
    (re.compile(r"(image/png;base64),\S+ \d+ characters"), r"\1"),
    (re.compile(r" of \d+(\.\d)? [GT]B"), " of MEMORY"),
)


def shown(user, *, inside="kw-main", places=()):
    """Lines about all elements, from top to bottom, of the part of the page with a class; `places` are hidden."""
    with user:
        layout = ui.context.client.layout
        found: list[str] = []
        roots = [one for one in layout.descendants() if inside in one.classes] if inside else [layout]
        dialogs = [one for one in layout.descendants() if isinstance(one, ui.dialog) and one.value]
        for root in [*roots, *dialogs]:
            _walk(root, 0, found)
    hidden = [(re.compile(re.escape(str(place))), "PLACE") for place in places]
    for old, new in (*hidden, *CHANGES):
        found = [old.sub(new, one) for one in found]
    for k, one in enumerate(found[:-1]):
        if found[k + 1].endswith("span 'in memory'"):
            found[k] = re.sub(r"'.*'", "MEMORY", one)  # by the version of pandas
    # lists of the same choices are written once
    known: set[str] = set()
    return [OPTIONS.sub(partial(_once, known), one) for one in found]


OPTIONS = re.compile(r"options=\[.*?\](?= |$)")


def _once(known, found):
    if found[0] in known:
        return f"options={found[0].count('|') + 1} as above"
    known.add(found[0])
    return found[0]


def _walk(one, depth, found):
    # what is not a plain container is a line, with what is seen and heard of it
    if one.props.get("icon") == "help_outline":
        return  # texts of settings, which are not of pages
    words = table(one) if isinstance(one, ui.table) else line(one)
    if words:
        found.append(f"{'.' * depth}{words}")
        depth += 1
    if str(one.props.get("aria-label")).startswith("Download figure: "):
        return  # the same menu at all figures
    for slot in one.slots.values():
        for child in slot.children:
            _walk(child, depth, found)


def table(one):
    """A table that can be sorted: its columns, how they are sorted, and its cells."""
    heads = [f"{each['label']} {'by number' if ':sort' in each else each['align']}" for each in one.columns]
    rows = [list(row.values()) for row in one.rows]
    return f"table {one.props.get('aria-label')} {brief(heads)} {brief(rows)} {one.props.get('pagination')}"


def line(one):
    """One element; empty for a container that says nothing."""
    kind = one.tag.removeprefix("q-").removeprefix("nicegui-")
    parts = []
    if getattr(one, "_text", None):
        parts.append(f"'{brief(one._text)}'")
    for name, value in one.props.items():
        if name in USUAL or value in (None, "", {}, []) or name.startswith("_") or name == "href-target":
            continue
        if isinstance(one, ui.echart) and name == "options":
            value = chart(value)
        if name == "model-value" and isinstance(value, dict):
            value = value.get("label", value)
        parts.append(name if value is True else f"{name.removeprefix('aria-')}={brief(value)}")
    if not one.visible:
        parts.append("HIDDEN")
    if getattr(one, "enabled", True) is False:
        parts.append("OFF")
    heard = sorted({each.type for each in one._event_listeners.values()})
    if heard and kind in ("div", "button", "p", "span", "table", "tr", "td", "upload"):
        parts.append(f"on {','.join(heard)}")
    style = ";".join(f"{key}:{value}" for key, value in one.style.items() if key in STYLES)
    classes = " ".join(
        name
        for name in one.classes
        if name.startswith(
            (
                "kw-",
                "num",
                "miss",
                "warn",
                "bad",
                "good",
                "strong",
                "now",
                "pinned",
                "many",
                "wide",
                "pick",
                "tight",
            )
        )
    )
    if not parts and not style and kind == "div":
        return (
            f"<{classes}>"
            if classes and classes not in ("kw-stack", "kw-row", "kw-what", "kw-spread")
            else ""
        )
    if classes:
        kind = f"{kind}.{classes.replace(' ', '.')}"
    return " ".join([kind, *parts, *([f"{{{style}}}"] if style else [])])


#: Styles that say something; others are of the looks alone.
STYLES = ("width", "height", "left", "background", "grid-column")


def brief(value):
    """A value of an element in few characters."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {brief(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        if len(value) > 20:
            return f"[{', '.join(map(brief, value[:3]))} … {len(value)} … {brief(value[-1])}]"
        if all(isinstance(one, dict) and set(one) <= {"value", "label", "icon"} for one in value):
            return "[" + " | ".join(str(one.get("label")) for one in value) + "]"
        return "[" + ", ".join(map(brief, value)) + "]"
    if isinstance(value, str):
        return value if len(value) < 200 else f"{value[:60]}… {len(value)} characters"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


#: Options that all charts have.
CONSTANT = {
    "animation",
    ":color",
    "textStyle",
    "tooltip",
    "aria",
    "nameTextStyle",
    "axisLine",
    "axisTick",
    "nameLocation",
    "pageTextStyle",
    ":pageIconColor",
    "itemWidth",
    "itemHeight",
    "splitLine",
}


def chart(value):
    """What a chart draws; long lists of numbers as sums, which change with each of them."""
    if isinstance(value, dict):
        return {key: chart(one) for key, one in value.items() if key not in CONSTANT}
    if isinstance(value, list | tuple):
        try:
            numbers = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            return [chart(one) for one in value]
        if numbers.size <= 6:
            return [chart(one) for one in value]
        flat = np.nan_to_num(numbers.ravel(), nan=0.7)
        sums = [float(f"{flat @ np.cos(turn * np.arange(flat.size) + turn):.4g}") for turn in (0.0, 0.9)]
        return [f"{'x'.join(map(str, numbers.shape))}", *sums]
    return value


class Noted:
    """Messages and other pages that a page asks for, in place of what shows them."""

    def __init__(self):
        self.messages, self.found = [], []

    def __call__(self, message, **more):
        self.messages.append(message)
        self.found.append(f"said {message!r} {more.get('type', '')}")

    def to(self, target, *_, **__):
        self.found.append(f"goes to {target}")

    def reload(self):
        self.found.append("loads again")


def drawn(draw):
    """Lines about what a function draws on an empty page, in this thread."""
    found: list[str] = []
    with Client(page("")) as client:
        draw()
        for child in client.content.default_slot.children:
            _walk(child, 0, found)
    return found


def busy():
    """Whether a handler, a reading or a timer that ends is under way."""
    return any(
        not task.done() and task.get_coro().__qualname__.rpartition(".")[2] in ENDING
        for task in background_tasks.running_tasks
    )


#: Coroutines of NiceGUI in which handlers and timers are awaited.
ENDING = ("_run_once", "_await_in_context", "do")


def hearing(one):
    """The element, or what holds it, that hears clicks."""
    while one is not None and not any(each.type == "click" for each in one._event_listeners.values()):
        one = one.parent_slot.parent if one.parent_slot else None
    return one


class Window:
    """One page in a window: what it shows, and what changes with every step, is compared with what was recorded."""

    def __init__(self, user, recorded, places=(), inside="kw-main"):
        self.user, self.recorded, self.places, self.inside = user, recorded, places, inside
        self.lines, self.noted = [], Noted()
        #: lines that have been compared; those that come again are counted
        self.known: set[str] = set()

    def look(self):
        """All lines of now."""
        return shown(self.user, inside=self.inside, places=self.places)

    def all(self):
        """All elements."""
        with self.user:
            return list(ui.context.client.layout.descendants())

    async def rest(self, seconds=20.0):
        """Wait until nothing is read or drawn any more, or an answer is waited for."""
        still = 0
        for turn in range(1, int(seconds / 0.02)):
            await asyncio.sleep(0.02)
            still = 0 if busy() else still + 1
            # a handler that asks waits for an answer
            asks = turn % 12 == 0 and any(isinstance(one, ui.dialog) and one.value for one in self.all())
            if still > 1 or asks:
                return self.look()
        raise AssertionError(f"the page still changes after {seconds} s")

    async def open(self, path, name=""):
        """Open a page; with a name all of it is compared."""
        await self.user.open(path)
        self.user.notify = self.user.navigate = self.noted
        assert self.user.notify is self.noted
        self.lines = await self.rest()
        self.noted.found.clear()
        if name:
            self.recorded(name, self.fresh(self.lines, [f"{len(self.lines)} lines"]))

    def fresh(self, lines, more):
        """Lines that have not been compared before, and how many more there are."""
        found = [one for one in lines if one.lstrip(".") not in self.known]
        self.known |= {one.lstrip(".") for one in found}
        return [*more, *found]

    async def then(self, name, act):
        """Do something, and compare what it has changed, and what it has said."""
        self.noted.found.clear()
        with self.user:
            answer = act()
            if asyncio.iscoroutine(answer):
                await answer
        now = await self.rest()
        come, n_gone = [], 0
        for what, a, b, c, d in difflib.SequenceMatcher(None, self.lines, now, autojunk=False).get_opcodes():
            if what != "equal":
                come += now[c:d]
                n_gone += b - a
        counts = f"{n_gone} lines go, {len(come)} come"
        self.recorded(name, [*self.noted.found, *dict.fromkeys(self.fresh(come, [counts]))])
        self.lines = now

    def one(self, name, kind=ui.element, place=0):
        """An element by its label, the name that is read aloud, or its words."""
        found = self.named(name, kind)
        assert found, f"no {name!r}: {[one for one in self.look() if name.split()[0] in one]}"
        return found[place]

    def named(self, name, kind=ui.element):
        """Elements by their labels, the names that are read aloud, or their words, from top to bottom."""
        return [
            one
            for one in self.all()
            if isinstance(one, kind)
            and name in (*map(one.props.get, ("aria-label", "label", "title")), getattr(one, "_text", None))
        ]

    def press(self, name, place=0):
        """Click something, or what holds it and hears clicks."""
        heard = [found for one in self.named(name) if (found := hearing(one)) is not None]
        assert heard, f"nothing called {name!r} hears clicks"
        UserInteraction(self.user, {heard[place]}, name).click()

    def tell(self, name, kind, args=None, place=0):
        """Let an element hear an event of the browser."""
        one = self.one(name, place=place)
        UserInteraction(self.user, {one}, name).trigger(kind, args)

    def choose(self, name, value, place=0):
        """Give a field another value."""
        self.one(name, kind=ValueElement, place=place).set_value(value)


N = 36
ROWS, MORE, PLAIN, GRAM = (file_id(name) for name in ("rows.csv", "more.csv", "plain.csv", "gram.npz"))


@contextmanager
def a_studio(tmp_path, monkeypatch):
    """A studio with two tables that have a key in common, one that has none, and a kernel."""
    monkeypatch.delenv("KERNELWEAVE_DATA", raising=False)
    rng = np.random.default_rng(0)
    who = [f"p{k:02d}" for k in range(N)]
    rows = pd.DataFrame(
        {
            "who": who,
            "age": [20 + (7 * k) % 31 for k in range(N)],
            "dose": [None if k % 9 == 2 else 0.5 * (k % 8) for k in range(N)],
            "far": [500.0 if k == 11 else float(k % 5) for k in range(N)],
            "site": ["north", "south", "west"] * (N // 3),
            "begun": [f"2020-0{1 + k % 9}-1{k % 3}" for k in range(N)],
            "part": ["train", "train", "test"] * (N // 3),
            "clinic": [k // 6 for k in range(N)],
            "worth": [1.0 + k % 2 for k in range(N)],
            "months": [1.0 + (5 * k) % 23 for k in range(N)],
            "died": [k % 4 == 0 for k in range(N)],
            "out_1": [k % 5 for k in range(N)],
            "out_2": [k % 3 for k in range(N)],
            "out_3": [k % 2 for k in range(N)],
            "blood": ["low" if k % 3 else "high" for k in range(N)],
            "y": ["a" if k % 4 < 2 else "b" if k % 4 == 2 else "c" for k in range(N)],
        }
    )
    more = pd.DataFrame(
        {
            "who": who[2:],
            "rna_1": [None if k % 7 == 0 else k % 6 for k in range(N - 2)],
            "rna_2": [None if k % 7 == 0 else (k * k) % 11 for k in range(N - 2)],
            "age": range(N - 2),
        }
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    more[::-1].to_csv(tmp_path / "more.csv", index=False)
    pd.DataFrame({"u": range(N), "v": [(k * k) % 13 for k in range(N)]}).to_csv(
        tmp_path / "plain.csv", index=False
    )
    features = rng.integers(-3, 4, size=(N, 3)).astype(float)
    # as `np.savez` does, whose bytes depend on the version of Python
    with zipfile.ZipFile(tmp_path / "gram.npz", "w") as archive:
        for name, values in (("first", features @ features.T), ("names", np.array(who))):
            data = io.BytesIO()
            np.save(data, values)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), data.getvalue())
    studio = Studio(tmp_path)
    yield studio
    studio.store.close()


def seen(studio, recorded, visit, inside="kw-main"):
    """Let a coroutine function look at pages through a window."""

    async def go(user):
        await visit(Window(user, recorded, (studio.places.files, studio.places.root), inside))

    visiting(studio, go)
