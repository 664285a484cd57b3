"""The page of method and validation: learner, path, folds, and the start of a run."""

from __future__ import annotations

import re
from typing import Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave.runs.fitting import FIELDS
from kernelweave.studio.methods import methods, scorers, settings
from kernelweave.studio.pages.desk import Desk
from kernelweave.studio.pages.shell import (
    Turn,
    card,
    empty,
    note,
    page,
    plural,
    said,
    simple_table,
    stack,
    stat,
    text,
)
from kernelweave.studio.schema import Checked, Method, RunRequest, Setting
from kernelweave.studio.service import Studio

WORDS = {
    "cv": "Folds",
    "repeats": "Repetitions",
    "nested": "Nested: outer folds",
    "test_size": "Share of rows held out",
    "seed": "Seed",
    "jobs": "Folds in parallel",
    "alphas": "Strengths",
    "p": "Norm p",
    "theta": "Largest weight (theta)",
    "lam": "Lambda",
    "epsilon": "Half width of the tube (epsilon)",
    "norm": "Norm of the weights",
    "variant": "Variant of the radius",
    "kind": "What the widths minimise",
    "solver": "Solver",
    "tol": "Relative gap (0: the usual)",
    "delta": "Residual rule (delta)",
    "max_iter": "Most iterations (0: the usual)",
    "n_layers": "Layers",
    "layer_kernels": "Kernels of upper layers (empty: the usual)",
    "normalize_layers": "Diagonals of 1 in every layer",
    "criterion": "Criterion",
    "criterion_folds": "Folds of the criterion",
    "loss": "Loss of the machine",
    "step": "Steps",
    "eta": "Length of fixed steps (eta)",
    "weight_set": "Weights of a layer",
    "validation_fraction": "Share set aside to stop early",
    "n_iter_no_change": "Patience, in steps",
    "literal": "The update as printed (ascends)",
    "penalty": "Penalty of the weights",
    "smoothing": "Smoothing of the span",
    "device": "Device (empty: this processor)",
    "max_memory": "Memory for kernels",
    "rank_tol": "Share left out of low-rank kernels",
}


def add(studio: Studio) -> None:
    """Add the page.

    Parameters
    ----------
    studio : Studio
    """

    @ui.page("/method", title="Method", response_timeout=30)
    async def method_page() -> None:
        await _MethodPage(studio).build()


class _MethodPage:
    def __init__(self, studio: Studio) -> None:
        self.studio, self.desk = studio, Desk(studio)
        self.known = {setting.name: setting for setting in settings()}
        self.turn = Turn()

    async def build(self) -> None:
        lead = (
            "How kernel weights are found, over which strengths of regularisation, and how they are judged."
        )
        with page(self.studio, "/method", "Method and validation", lead):
            if self.desk.data is None or not self.desk.spec.target:
                with card(), empty("tune", "Choose a table and a target first."):
                    ui.button("Data", icon="arrow_back", on_click=lambda: ui.navigate.to("/")).props(
                        "outline"
                    )
                return
            self.learners()
            with stack("kw-narrow"):
                self.path()
                self.validation()
            self.computing()
            await self.start()

    def set(self, **values: Any) -> bool:
        """Keep settings; wrong ones are told."""
        try:
            self.desk.set(**values)
        except InputError as error:
            said(error)
            return False
        self.start.refresh()
        return True

    # ---- learner ----------------------------------------------------------------------------------

    @ui.refreshable_method
    def learners(self) -> None:
        spec = self.desk.spec
        known = {method.name: method for method in methods()}
        with card("Learner"), stack("kw-narrow").style("gap: 1.6rem"):
            with ui.element("div").classes("kw-pick").props('role=radiogroup aria-label="Learner"'):
                for method in known.values():
                    self.learner_option(method, method.name == spec.method)
            if spec.method in known:
                self.explain(known[spec.method])
        # on narrow screens the list scrolls
        ui.run_javascript(
            "const chosen = document.querySelector('.kw-pick [aria-checked=true]');"
            "if (chosen) chosen.parentElement.scrollTop = chosen.offsetTop - chosen.parentElement.offsetTop - 48;"
        )

    def learner_option(self, method: Method, chosen: bool) -> None:
        option = ui.element("button").classes("kw-option").props("type=button role=radio")
        option.props["aria-checked"] = "true" if chosen else "false"
        with option:
            text(method.title, "b")
            head, _, rest = method.summary.partition(": ")
            about = rest if head == method.title else head
            text(about[:1].upper() + about[1:], "span")

        def choose() -> None:
            if self.set(method=method.name, solver="auto", step="auto"):
                self.learners.refresh()

        option.on("click", choose)

    def explain(self, method: Method) -> None:
        """What a learner does, its parameters, and those that can be set here."""
        with stack():
            text(method.title, "h3").style("font-size: 1.1rem")
            text(f"{method.summary}.", "p")
            if method.objective:
                text(method.objective, "pre").classes("kw-formula").props('tabindex=0 aria-label="Objective"')
            if not method.regression:
                note("For classification only.")
            used = [self.known[name] for name in method.settings if name in self.known]
            if used:
                with ui.element("div").classes("kw-fields"):
                    for setting in used:
                        self.learner_field(setting, method)
            with ui.expansion("All parameters").props("dense"):
                rows = [[p.name, p.about or p.kind, p.default] for p in method.parameters]
                simple_table(["parameter", "meaning", "default"], rows, label=f"Parameters of {method.title}")
            strength = (
                "C, the weight of the loss; on the path alpha is 1 / C"
                if method.strength == "C"
                else "alpha, the weight of the penalty"
            )
            text(f"The strength of regularisation is {strength}. It is chosen on the path.").classes(
                "kw-hint"
            )
            if method.reference:
                text(method.reference).classes("kw-hint")

    def learner_field(self, setting: Setting, method: Method) -> None:
        """A field for a parameter; its choices are those of the learner where its docstring lists them."""
        name = next((name for name, field in FIELDS.items() if field == setting.name), setting.name)
        parameter = next(p for p in method.parameters if p.name == name)
        listed = re.findall(r'"([^"]+)"', parameter.kind) if parameter.kind.startswith("{") else []
        if listed and not setting.choices:
            if setting.default not in listed:
                listed.insert(0, setting.default)
            value = getattr(self.desk.spec, setting.name)
            ui.select(
                listed,
                value=value if value in listed else listed[0],
                label=WORDS.get(setting.name, setting.name),
                on_change=lambda event: self.set(**{setting.name: event.value}),
            ).props("outlined dense options-dense").tooltip(parameter.about)
            return
        self.field(setting, parameter.about)

    def field(self, setting: Setting, about: str = "") -> Any:
        """A field for any setting, made from its type and its bounds."""
        name, label = setting.name, WORDS.get(setting.name, setting.name.replace("_", " ").capitalize())
        value = getattr(self.desk.spec, name)

        def change(event: Any) -> None:
            given = event.value
            if setting.kind == "whole number" and given is not None:
                given = int(given)
            if given is None and setting.kind in ("number", "whole number"):
                return
            self.set(**{name: given if given is not None else ""})

        found: Any
        if setting.kind == "yes/no":
            found = ui.switch(label, value=value, on_change=change)
        elif setting.kind == "choice":
            found = ui.select(setting.choices, value=value, label=label, on_change=change)
            found.props("outlined dense options-dense")
        elif setting.kind in ("number", "whole number"):
            found = ui.number(label, value=value, min=setting.least, max=setting.most, on_change=change)
            found.props("outlined dense debounce=400")
            if setting.kind == "whole number":
                found.props("step=1")
            else:
                found.props("step=any")
        else:
            found = ui.input(label, value=str(value), on_change=change).props("outlined dense debounce=500")
        return found.tooltip(about or setting.about)

    # ---- path -------------------------------------------------------------------------------------

    @ui.refreshable_method
    def path(self) -> None:
        spec = self.desk.spec
        automatic = spec.alphas.strip().isdigit()
        parts = spec.alphas.split(":") if spec.alphas.count(":") == 2 else []
        kind = "automatic" if automatic else ("range" if parts else "list")
        with card("Path", "Strengths of regularisation, from strong to weak."):
            kinds = {"automatic": "Automatic", "range": "Range", "list": "List"}
            defaults = {"automatic": "30", "range": "0.001:1000:30", "list": "0.1,1,10"}

            def turn(event: Any) -> None:
                if self.set(alphas=defaults[event.value]):
                    self.path.refresh()

            toggle = ui.toggle(kinds, value=kind, on_change=turn).props(
                "no-caps unelevated toggle-color=primary"
            )
            toggle.props["aria-label"] = "How strengths are chosen"
            if kind == "automatic":
                number = ui.number("How many", value=int(spec.alphas), min=1, max=1000, precision=0)
                number.props("outlined dense debounce=400")
                number.on_value_change(lambda event: event.value and self.set(alphas=str(int(event.value))))
            elif kind == "range":
                fields: list[Any] = []

                def join() -> None:
                    values = [field.value for field in fields]
                    if all(value is not None for value in values):
                        self.set(alphas=f"{values[0]:g}:{values[1]:g}:{int(values[2])}")

                for label, value in zip(("Weakest", "Strongest", "How many"), parts, strict=True):
                    field = ui.number(label, value=float(value)).props("outlined dense debounce=500 step=any")
                    field.on_value_change(join)
                    fields.append(field)
            else:
                listed = ui.input("Strengths, separated by commas", value=spec.alphas).props(
                    "outlined dense debounce=600"
                )
                listed.on_value_change(lambda event: self.set(alphas=event.value or "30"))
            rules = {"min": "the best mean score", "1se": "the simplest within one standard error"}
            ui.select(
                rules, value=spec.rule, label="Choose", on_change=lambda event: self.set(rule=event.value)
            ).props("outlined dense options-dense")

    # ---- validation -------------------------------------------------------------------------------

    @ui.refreshable_method
    def validation(self) -> None:
        spec = self.desk.spec
        task, n_classes = self.target()
        with card(
            "Validation", "Folds choose the strength; held-out rows, or outer folds, judge the choice."
        ):
            with ui.element("div").classes("kw-fields"):
                kinds = {"k-fold": "Folds", "random": "Random splits"}
                ui.select(
                    kinds,
                    value=spec.splits,
                    label="Divide rows by",
                    on_change=lambda event: self.set(splits=event.value),
                ).props("outlined dense options-dense")
                self.field(self.known["cv"])
                self.field(self.known["repeats"])
                self.field(self.known["nested"])
                if spec.holdout:
                    text(f"Held-out rows are those of column {spec.holdout}.").classes("kw-hint")
                else:
                    self.field(self.known["test_size"])
                offered = {"": f"the usual ({'R²' if task == 'regression' else 'accuracy'})"}
                offered |= {name: name.replace("_", " ") for name in scorers(task, n_classes)}
                if spec.scoring and spec.scoring not in offered:
                    offered[spec.scoring] = spec.scoring
                ui.select(
                    offered,
                    value=spec.scoring,
                    label="Score",
                    on_change=lambda event: self.set(scoring=event.value),
                ).props("outlined dense options-dense")
                self.field(self.known["seed"])
            with ui.element("div").classes("kw-row").style("gap: 0 1.6rem"):
                if task == "classification":
                    self.field(self.known["stratify"]).set_text("Keep the shares of classes in every fold")
                    self.field(self.known["balanced"]).set_text(
                        "Weight classes by the inverse of their frequency"
                    )
                self.field(self.known["intercept"]).set_text("Use the mean of the target as intercept")
            if spec.group:
                text(f"Rows of one {spec.group} stay together.").classes("kw-hint")

    def target(self) -> tuple[str, int]:
        """What the target is taken for, and how many classes it has."""
        try:
            assert self.desk.data is not None
            found = self.studio.target(self.desk.data, self.desk.spec.target, self.desk.spec.task)
        except InputError:
            return "classification", 2
        return found.task, len(found.classes)

    def computing(self) -> None:
        """Settings that few will need, those included that no page knows by name."""
        rest = [s for s in self.known.values() if s.group in ("Computing", "More")]
        with (
            card(),
            ui.expansion("More settings").props("dense"),
            ui.element("div").classes("kw-fields").style("width: 100%"),
        ):
            for setting in rest:
                self.field(setting)

    # ---- start ------------------------------------------------------------------------------------

    @ui.refreshable_method
    async def start(self) -> None:
        assert self.desk.data is not None
        data, spec = self.desk.data, self.desk.spec
        newest = self.turn.take()
        found: Checked | None = None
        problem = ""
        try:
            found = await offload(self.studio.check, data, spec)
        except InputError as error:
            problem = str(error)
        if not newest():
            return
        with card("Ready?"):
            if found is None:
                note(problem, "bad")
            else:
                with stack("kw-stats"):
                    stat(str(found.n_training), "rows to learn from")
                    stat(str(found.n_held), "rows held out")
                    stat(str(found.n_columns), "columns")
                    if found.n_steps:
                        stat(f"{found.n_steps:,}".replace(",", "\u202f"), "fits at most")
                text(f"{found.task.capitalize()}: {found.reason}. {found.splitter}").classes("kw-hint").style(
                    "overflow-wrap: anywhere"
                )
                if found.n_dropped:
                    note(f"{plural(found.n_dropped, 'row')} with missing values are left out.", "warn")
            with ui.element("div").classes("kw-row"):
                name = ui.input(
                    "Name of the run", value=self.desk.draft.name, placeholder="made from table and method"
                )
                name.props("outlined dense maxlength=200").classes("grow")

                def keep() -> None:
                    self.desk.draft.name = name.value or ""
                    self.desk.keep()

                name.on("blur", keep)

                async def go() -> None:
                    keep()
                    try:
                        started = await offload(
                            self.studio.add_run,
                            RunRequest(name=self.desk.draft.name, data=data, spec=self.desk.spec),
                        )
                    except InputError as error:
                        said(error)
                        return
                    ui.navigate.to(f"/runs?run={started.id}")

                button = ui.button("Start the run", icon="play_arrow", on_click=go).props("unelevated")
                button.set_enabled(not problem)
