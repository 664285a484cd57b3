"""The frame of all pages: colours, navigation, the project, and the tour."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jinja2 import FunctionLoader
from nicegui import Client, ui
from nicegui.client import templates

from kernelweave._drawing import COLOURS, LOWERS, RAISES
from kernelweave_app.runs.spec import Spec
from kernelweave_app.studio.pages.pieces import guarded, icon_button, link, said, stack, text, word_button
from kernelweave_app.studio.schema import Data, Draft
from kernelweave_app.studio.security import MARK, address_of, project_of
from kernelweave_app.studio.service import Studio

#: Colours of charts, --c1, --c2, ... in the style sheet, and those of contributions: the same in light and dark, and in
#: figures for papers.
N_COLOURS = len(COLOURS)
#: Dashes, which distinguish lines in addition to colour.
DASHES: tuple[str | list[int], ...] = ("solid", [6, 3], [2, 2], [8, 3, 2, 3])

_HERE = Path(__file__).parent
_NAMED = {**{f"c{k}": value for k, value in enumerate(COLOURS, start=1)}, "raises": RAISES, "lowers": LOWERS}
CSS = f"body {{ {' '.join(f'--{name}: {value};' for name, value in _NAMED.items())} }}\n" + (
    _HERE / "studio.css"
).read_text(encoding="utf8")
#: Script with which charts read their colours, so that they adapt to light and dark.
SCRIPT = (_HERE / "studio.js").read_text(encoding="utf8")

LOGO = """<svg width="30" height="30" viewBox="0 0 30 30" fill="none" aria-hidden="true">
<path d="M5 4c0 11 20 11 20 22" stroke="#0072B2" stroke-width="3.2" stroke-linecap="round"/>
<path d="M25 4c0 11-20 11-20 22" stroke="#E69F00" stroke-width="3.2" stroke-linecap="round"/>
<path d="M15 4v22" stroke="#009E73" stroke-width="3.2" stroke-linecap="round"/></svg>"""

FAVICON = LOGO.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ').replace(' aria-hidden="true"', "")


def here(studio: Studio) -> Studio:
    """The studio as seen from the project of the page that is being built.

    Parameters
    ----------
    studio : Studio

    Returns
    -------
    Studio
    """
    return studio.inside(project_of(ui.context.client.request.scope))


def address(project: str, path: str = "/") -> str:
    """The address of a page of any project, from the server's root."""
    return address_of(ui.context.client.request.scope, project, path)


def within(path: str) -> str:
    """The address of something in the project of the page that is open, from the server's root.

    Links of NiceGUI find the project themselves; attributes of plain elements do not.
    """
    return f"{ui.context.client.request.scope.get('root_path', '')}{path}"


#: Projects in the list, those that were opened last.
MOST = 10


def project_name(studio: Studio) -> str:
    """The name of the project of a page."""
    return str({row["id"]: row["name"] for row in studio.store.projects()}.get(studio.store.project, ""))


def project_switch(studio: Studio, path: str) -> None:
    """The name of the project, which opens a list of others.

    Parameters
    ----------
    studio : Studio
    path : str
        Of the page.
    """
    rows = sorted(studio.store.projects(), key=lambda row: -float(row["opened"]))
    name = project_name(studio)
    button = ui.button(icon="folder_open").props("flat no-caps align=left icon-right=expand_more")
    button.classes("kw-project").props["aria-label"] = f"Project {name}. Open another one."
    button.props["title"] = name
    with button:
        text(name, "span")
        # links, which a menu does not hold
        with ui.menu().classes("kw-menu").props('role=navigation aria-label="Projects"'):
            for row in rows[:MOST]:
                link = ui.element("a")
                link.props["href"] = address(row["id"])
                if row["id"] == studio.store.project:
                    link.props("aria-current=true")
                with link:
                    text(row["name"], "span")
            everything = ui.link(target="/projects")
            if path == "/projects":
                everything.props("aria-current=page")
            with everything:
                text("All projects", "b")


#: The table, and settings whose run takes seconds.
TABLE = "set-wine"
SETTINGS = {"target": "target", "kernels": "linear_features", "alphas": "10", "test_size": 0.3}
#: Page, title and text of every step.
STEPS = (
    (
        "/",
        "The table",
        "178 wines, 13 measurements of each, and the column target: which of three growers made it. The target is "
        "chosen already. Below are the classes, and the distribution of every column.",
    ),
    (
        "/kernels",
        "Views and kernels",
        "A kernel says how alike two wines are. Here every measurement has one of its own, so that the model can tell "
        "which of them matter. Groups of columns that belong together would be named as views.",
    ),
    (
        "/method",
        "Method",
        "The learner weighs the kernels, and folds choose how strongly it is regularised. Three of ten rows are held "
        "out, to see how well new wines are predicted. Press “Start the run”, at the end of this page.",
    ),
    (
        "/runs",
        "Runs",
        "The run learns in a process of its own, which takes seconds here. When it is done, its scores stand in the "
        "list. If nothing runs yet, go back and press “Start the run”.",
    ),
    (
        "/understand",
        "Understand",
        "The answers in sentences: how good the predictions are, which measurements matter, how sure that is, and what "
        "to distrust. Below are the path, the weights, single rows and held-out rows.",
    ),
)
_KEY = "tour"


def start(studio: Studio) -> None:
    """Choose the table and the settings of the tour, and keep what was chosen before."""
    if studio.store.draft(_KEY) is None:
        studio.store.set_draft(_KEY, {"before": studio.draft().model_dump(mode="json")})
    spec = Spec.model_validate(SETTINGS)
    studio.change_draft(lambda _: Draft(data=Data(tables=[TABLE]), spec=spec, name="Tour"))
    ui.navigate.to("/")


def leave(studio: Studio) -> None:
    """End the tour; tables and settings that were chosen before it are chosen again."""
    kept = studio.store.draft(_KEY)
    studio.store.set_draft(_KEY, None)
    before = Draft.model_validate(kept["before"]) if kept else None
    if before is not None and before.data is not None:
        studio.change_draft(lambda _: before)
    ui.navigate.to("/")


def show_step(studio: Studio, path: str) -> None:
    """The step of a page, while the tour is under way."""
    places = [step[0] for step in STEPS]
    if path not in places or studio.store.draft(_KEY) is None:
        return
    k = places.index(path)
    _, title, about = STEPS[k]
    with ui.element("section").classes("kw-tour").props('aria-label="Tour"'):
        text(f"Tour, step {k + 1} of {len(STEPS)}: {title}", "h2")
        text(about, "p")
        with stack("kw-row"):
            if k:
                link(f"Back: {STEPS[k - 1][1]}", STEPS[k - 1][0])
            if k + 1 < len(STEPS):
                ui.link(f"Next: {STEPS[k + 1][1]}", STEPS[k + 1][0]).classes("kw-link strong")
                word_button("Leave the tour", "", lambda: leave(studio), "flat dense no-caps")
            else:
                word_button("Finish the tour", "", lambda: leave(studio), "outline dense no-caps")


PAGES = (
    ("/", "Data", "table_view"),
    ("/kernels", "Views and kernels", "grid_view"),
    ("/method", "Method", "tune"),
    ("/runs", "Runs", "play_circle"),
    ("/understand", "Understand", "insights"),
    ("/compare", "Compare", "balance"),
    ("/use", "Use", "output"),
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
    with stack("kw-frame"):
        with ui.element("header").classes("kw-edge"), stack("kw-side"):
            ui.link("Skip to the content", "#content").classes("kw-skip")
            with ui.link(target="/").classes("kw-brand").props('aria-label="kernelweave studio: data"'):
                ui.html(LOGO, sanitize=False)
                with ui.element("span"):
                    ui.label("kernelweave").style("line-height: 1.2")
                    ui.html("<small>studio</small>", sanitize=False)
            project_switch(studio, path)
            with ui.element("nav").props('aria-label="Steps"'), ui.element("ul").classes("kw-nav"):
                for target, name, icon in PAGES:
                    with ui.element("li"):
                        link = ui.link(target=target)
                        if target == path:
                            link.props("aria-current=page")
                        with link:
                            ui.icon(icon).props("aria-hidden=true")
                            text(name, "span")
            with stack("kw-foot"):
                text(f"version {studio.about().version}", "span")
                tour = "Tour in five steps"
                icon_button("tour", tour, lambda: start(studio)).tooltip(tour)

                def turn() -> None:
                    new = NEXT_LOOK[everywhere.draft(APPEARANCE) or "auto"]
                    everywhere.set_draft(APPEARANCE, new)
                    # charts take their colours when they are drawn
                    ui.navigate.reload()

                icon, said = LOOKS[look]
                icon_button(icon, f"{said}. Change.", guarded(turn)).tooltip(said)
        with ui.element("main").classes("kw-main").props("id=content tabindex=-1"):
            with stack("kw-head"):
                with ui.element("div"):
                    text(title, "h1")
                    if lead:
                        text(lead, "p").classes("kw-lead")
                aside = stack("kw-end")
            show_step(studio, path)
            yield aside
    ui.run_javascript("kwShowStep()")


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


def head() -> None:
    """Style and script of all pages; only the scripts of the framework and these get the nonce."""
    ui.add_css(CSS, shared=True)
    ui.add_head_html(f"<script>{SCRIPT}</script>", shared=True)
    Client.shared_head_html = marked(Client.shared_head_html)
    loader: Any = templates.env.loader

    def read(name: str) -> str:
        return marked(str(loader.get_source(templates.env, name)[0]))

    templates.env.loader = FunctionLoader(read)
    if templates.env.cache is not None:
        templates.env.cache.clear()


def marked(page: str) -> str:
    """A page of constants whose scripts have the mark of the nonce."""
    return page.replace("<script", f'<script nonce="{MARK}"')
