"""The card on which evidence is computed: buttons, progress, and what came out."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave.runs.evidence import KINDS, USUAL
from kernelweave.studio.evidence_jobs import ACTIVE
from kernelweave.studio.pages import charts, evidence_charts
from kernelweave.studio.pages.prints import own_width, prints, tables
from kernelweave.studio.pages.shell import card, duration, note, said, simple_table, stack, text
from kernelweave.studio.printing import FIGURES
from kernelweave.studio.schema import Evidence
from kernelweave.studio.service import Studio

#: Seconds between two looks at what is being computed.
EVERY = 1.0
ABOUT = {
    "permutation": "Could the score be chance? The targets are permuted, and everything is fitted again each time.",
    "sources": "Does the model use each source for new rows? Sources are exchanged between held-out rows.",
    "omission": "Does the model need each source? It is fitted without it, on random divisions of the rows.",
    "stability": "Would other rows give the same weights? The model is fitted on random halves of the rows.",
    "learning curve": "Would more rows help? The model is fitted on growing parts of the rows.",
    "baselines": "Do several kernels pay? The average, the best single kernel and a linear model, on the same rows.",
}


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
        self.counts = dict(USUAL)
        self.refit = True

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
        before = self.found
        try:
            self.found = await offload(self.studio.evidence.read, self.run_id)
        except InputError:
            self.timer.deactivate()
            return
        if self.found.progress != before.progress:
            self.buttons.refresh()
        if self.found.numbers != before.numbers:
            self.parts.refresh()
            self.renewed(self.found)
        if not self.busy():
            self.timer.deactivate()

    async def start(self, kind: str) -> None:
        """Begin to compute."""
        try:
            self.found = await offload(
                lambda: self.studio.evidence.start(
                    self.run_id, kind, int(self.counts[kind] or 0), refit=self.refit
                )
            )
        except InputError as error:
            said(error)
            return
        self.buttons.refresh()
        self.timer.activate()

    async def stop(self, kind: str) -> None:
        """Stop computing."""
        try:
            self.found = await offload(self.studio.evidence.stop, self.run_id, kind)
        except InputError as error:
            said(error)
        self.buttons.refresh()

    @ui.refreshable_method
    def buttons(self) -> None:
        """A line for each kind of evidence."""
        with stack("kw-stack"):
            for kind in self.found.kinds:
                self.line(kind)

    def line(self, kind: str) -> None:
        """What it is, how many, a button or the progress."""
        title, counted = KINDS[kind]
        now = self.found.progress.get(kind)
        with ui.element("div").classes("kw-proof").props(f'role=group aria-label="{title}"'):
            with ui.element("div"):
                text(title, "h3")
                text(ABOUT[kind], "p").classes("kw-hint")
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
                    on_click=lambda: self.start(kind),
                ).props("outline no-caps").props["aria-label"] = f"Compute: {title}"
            if now is not None and now.reason:
                note(now.reason, "bad" if now.state == "failed" else "warn")

    def turn(self, event: object) -> None:
        """Fit again for permutations, or not."""
        self.refit = bool(getattr(event, "value", True))

    def progress(self, kind: str, title: str) -> None:
        """A bar, the time left, and a button that stops."""
        now = self.found.progress[kind]
        total = max(1, now.total or len(self.found.kinds))
        shown = ui.linear_progress(min(1.0, now.done / total), show_value=False).style("width: 12rem")
        shown.props["aria-label"] = f"{title}: {now.done} of {now.total}"
        words = {"waiting": "waits for another computation", "starting": "is starting"}
        left = f", {duration(now.seconds_left)} left" if now.seconds_left is not None else ""
        counted = f"{now.done} of {now.total}{left}" if now.total else f"{now.done} done{left}"
        text(words.get(now.state, counted), "span").classes("kw-hint")
        stop = ui.button(
            "Stopping" if now.stopping else "Stop", icon="stop", on_click=lambda: self.stop(kind)
        ).props("outline no-caps")
        stop.props["aria-label"] = f"Stop: {title}"
        stop.set_enabled(not now.stopping)

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
                options, tall = make(tree[key])
                charts.figure(options, title, caption, height=tall)
                if key == "calibration":
                    for group, one in tree[key].items():
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
        found = self.found.numbers.get("classes")
        if not found:
            return
        rows = [
            [name, one["recall"]["n"], *(_ends(one[what]) for what in ("recall", "precision"))]
            for name, one in found.items()
        ]
        with card("Scores by class", "Of held-out rows, with 95 % intervals."):
            simple_table(
                ["class", "rows", "recall", "precision"], rows, numbers=(1, 2, 3), label="Scores by class"
            )


def _ends(one: dict[str, float | None]) -> str:
    value, low, high = one["value"], one["low"], one["high"]
    return "–" if value is None or low is None or high is None else f"{value:.3f} ({low:.3f} to {high:.3f})"


LEARNING = "Mean over folds with its 95 % interval, corrected for rows that folds have in common."
CALIBRATION = (
    "Share of held-out rows in the class against their probability, with 95 % intervals; points grow "
    "with rows."
)
PERMUTATION = "Scores with permuted targets; the line is the score with the true ones."
