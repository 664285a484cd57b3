"""A tour on the demonstration table: five steps, one on each page from the table to the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.schema import Data, Draft

if TYPE_CHECKING:
    from kernelweave_app.studio.service import Studio

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
    spec = FitSpec.model_validate(SETTINGS)
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


def start_button(studio: Studio) -> None:
    """A small button that starts the tour, from the beginning if it is under way."""
    button = ui.button(icon="tour", on_click=lambda: start(studio)).props("flat round dense")
    button.props["aria-label"] = "Tour in five steps"
    button.tooltip("Tour in five steps")


def show_step(studio: Studio, path: str) -> None:
    """The step of a page, while the tour is under way."""
    places = [step[0] for step in STEPS]
    if path not in places or studio.store.draft(_KEY) is None:
        return
    k = places.index(path)
    _, title, about = STEPS[k]
    with ui.element("section").classes("kw-tour").props('aria-label="Tour"'):
        _say(f"Tour, step {k + 1} of {len(STEPS)}: {title}", "h2")
        _say(about, "p")
        with ui.element("div").classes("kw-row"):
            if k:
                ui.link(f"Back: {STEPS[k - 1][1]}", STEPS[k - 1][0]).classes("kw-link")
            if k + 1 < len(STEPS):
                ui.link(f"Next: {STEPS[k + 1][1]}", STEPS[k + 1][0]).classes("kw-link strong")
                ui.button("Leave the tour", on_click=lambda: leave(studio)).props("flat dense no-caps")
            else:
                ui.button("Finish the tour", on_click=lambda: leave(studio)).props("outline dense no-caps")


def _say(content: str, tag: str) -> None:
    TextElement(tag=tag, text=content)
