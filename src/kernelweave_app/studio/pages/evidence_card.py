"""The card on which evidence is computed: buttons, progress, and what came out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave.inspection.findings import Finding, repeated
from kernelweave_app.studio.evidence_jobs import ACTIVE
from kernelweave_app.studio.pages import charts, evidence_charts
from kernelweave_app.studio.pages.prints import own_width, prints, tables
from kernelweave_app.studio.pages.shell import card, duration, guarded, note, simple_table, stack, text
from kernelweave_app.studio.printing import FIGURES
from kernelweave_app.studio.schema import Evidence, EvidenceProgress
from kernelweave_app.studio.service import Studio

#: Seconds between two looks at what is being computed.
EVERY = 1.0


class EvidenceCard:
    """Buttons that compute evidence, with progress, and its charts.

    Parameters
    ----------
    studio : Studio
    run_id : str
    found : Evidence
    renewed : callable
        Is given the evidence when it has changed.
    """

    def __init__(
        self, studio: Studio, run_id: str, found: Evidence, renewed: Callable[[Evidence], None]
    ) -> None:
        self.renewed = renewed
        self.studio, self.run_id, self.found = studio, run_id, found
        self.counts = {kind: one.usual for kind, one in repeated().items()}
        self.refit = True
        self.lines: dict[str, Callable[[], object]] = {}
        #: the bar and the words of what is being computed
        self.bars: dict[str, tuple[ui.linear_progress, TextElement]] = {}
        #: what was read first is not taken for newer: buttons and the timer may ask at the same time
        self.asking = asyncio.Lock()

    def build(self) -> None:
        """Draw the card."""
        with card("How sure?", "Each of these takes time and can be stopped; what is done is kept."):
            self.buttons()
        self.parts()
        self.timer = ui.timer(EVERY, self.look, active=self.busy())

    def busy(self) -> bool:
        """Whether something is being computed."""
        return any(one.state in ACTIVE for one in self.found.progress.values())

    async def look(self) -> None:
        """Read the progress, and draw anew what has changed."""
        async with self.asking:
            try:
                self.take(await offload(self.studio.evidence.read, self.run_id))
            except InputError:
                self.timer.deactivate()

    def take(self, found: Evidence) -> None:
        """Draw anew what has changed; fields and buttons of what has not stay as they are."""
        before, self.found = self.found, found
        for kind, draw in self.lines.items():
            old, new = before.progress.get(kind), found.progress.get(kind)
            if old == new and bool(before.numbers.get(kind)) == bool(found.numbers.get(kind)):
                continue
            if old and new and (old.state, old.stopping) == (new.state, new.stopping) and kind in self.bars:
                self.advance(kind, new)
            else:
                draw()
        if found.numbers != before.numbers:
            self.parts.refresh()
            self.renewed(found)
        # the page may have been left
        if not self.timer.is_deleted:
            self.timer.active = self.busy()

    async def start(self, kind: str) -> None:
        """Begin to compute."""
        async with self.asking:
            self.take(
                await offload(
                    lambda: self.studio.evidence.start(
                        self.run_id, kind, int(self.counts[kind] or 0), refit=self.refit
                    )
                )
            )

    async def stop(self, kind: str) -> None:
        """Stop computing."""
        async with self.asking:
            self.take(await offload(self.studio.evidence.stop, self.run_id, kind))

    def buttons(self) -> None:
        """A line for each kind of evidence."""
        with stack("kw-stack"):
            for kind in self.found.kinds:
                self.place(kind)

    def place(self, kind: str) -> None:
        """A line that is drawn anew without the others."""

        @ui.refreshable
        def shown() -> None:
            self.bars.pop(kind, None)
            self.line(kind)

        shown()
        self.lines[kind] = shown.refresh

    def line(self, kind: str) -> None:
        """What it is, how many, a button or the progress."""
        declared = repeated()[kind]
        title, counted = declared.title, declared.counted if declared.usual else ""
        now = self.found.progress.get(kind)
        with ui.element("div").classes("kw-proof").props(f'role=group aria-label="{title}"'):
            with ui.element("div"):
                text(title, "h3")
                text(declared.about, "p").classes("kw-hint")
            with ui.element("div").classes("kw-row"):
                if now is not None and now.state in ACTIVE:
                    self.progress(kind, title)
                    return
                if counted:
                    field = ui.number(
                        counted.capitalize(),
                        value=self.counts[kind],
                        min=2,
                        max=10_000,
                        on_change=lambda event: self.counts.update({kind: int(event.value or 0)}),
                    )
                    field.props("outlined dense").style("width: 11rem")
                if kind == "permutation":
                    ui.switch("Fit again", value=self.refit, on_change=self.turn).tooltip(
                        "Off: models stay, and only the targets of held-out rows are permuted"
                    )
                known = bool(self.found.numbers.get(kind))
                ui.button(
                    "Compute again" if known and kind != "baselines" else "Compute",
                    icon="play_arrow",
                    on_click=guarded(lambda: self.start(kind)),
                ).props("outline no-caps").props["aria-label"] = f"Compute: {title}"
            if now is not None and now.reason:
                note(now.reason, "bad" if now.state == "failed" else "warn")

    def turn(self, event: object) -> None:
        """Fit again for permutations, or not."""
        self.refit = bool(getattr(event, "value", True))

    def progress(self, kind: str, title: str) -> None:
        """A bar, the time left, and a button that stops."""
        now = self.found.progress[kind]
        shown = ui.linear_progress(0.0, show_value=False).style("width: 12rem")
        self.bars[kind] = shown, text("", "span").classes("kw-hint")
        self.advance(kind, now)
        stop = ui.button(
            "Stopping" if now.stopping else "Stop", icon="stop", on_click=guarded(lambda: self.stop(kind))
        ).props("outline no-caps")
        stop.props["aria-label"] = f"Stop: {title}"
        stop.set_enabled(not now.stopping)

    def advance(self, kind: str, now: EvidenceProgress) -> None:
        """Move the bar; the button beside it stays, so that no press on it is lost."""
        bar, said = self.bars[kind]
        total = max(1, now.total or len(self.found.kinds))
        bar.set_value(min(1.0, now.done / total))
        bar.props["aria-label"] = f"{repeated()[kind].title}: {now.done} of {now.total}"
        words = {"waiting": "waits for another computation", "starting": "is starting"}
        left = f", {duration(now.seconds_left)} left" if now.seconds_left is not None else ""
        counted = f"{now.done} of {now.total}{left}" if now.total else f"{now.done} done{left}"
        said.set_text(words.get(now.state, counted))

    @ui.refreshable_method
    def parts(self) -> None:
        """Charts of what was computed, and downloads."""
        tree = self.found.numbers
        for key, name, title, make, caption in (
            ("learning curve", "learning-curve", "Learning curve", evidence_charts.learning, LEARNING),
            (
                "calibration",
                "calibration",
                "Calibration of probabilities",
                evidence_charts.calibration,
                CALIBRATION,
            ),
            ("permutation", "permutation", "Permutation test", evidence_charts.permutation, PERMUTATION),
        ):
            if not tree.get(key):
                continue
            with card(title) as aside:
                with aside:
                    prints(self.run_id, name, title)
                options, tall = make(tree[key]["details"])
                charts.figure(options, title, caption, height=tall)
                if key == "calibration":
                    for group, one in tree[key]["details"].items():
                        text(
                            f"{group}: Brier score {one['brier']:.3f}, of the share of the class alone "
                            f"{one['brier_of_share']:.3f}."
                        ).classes("kw-hint")
        self.classes()
        with card("For a paper"), stack():
            own_width(self.run_id, list(FIGURES))
            tables(self.run_id, self.found.tables)

    def classes(self) -> None:
        """Scores of every class with intervals."""
        tree = self.found.numbers.get("classes")
        if not tree or not tree["tables"]:
            return
        (table,) = Finding.from_json(tree).tables
        with card(table.title, table.note):
            simple_table(table.heads, table.shown(), numbers=range(1, len(table.heads)), label=table.title)


LEARNING = "Mean over folds with its 95 % interval, corrected for rows that folds have in common."
CALIBRATION = (
    "Share of held-out rows in the class against their probability, with 95 % intervals; points grow "
    "with rows."
)
PERMUTATION = "Scores with permuted targets; the line is the score with the true ones."
