"""The page of method and validation: a recommendation, learner, path, folds, and the start of a run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from nicegui import ui
from nicegui.events import ValueChangeEventArguments
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError, capital
from kernelweave._parameters import said as written
from kernelweave.learners import LEARNERS
from kernelweave_app.runs.estimating import span
from kernelweave_app.runs.fitting import MOST_ALPHAS, OF_PATHS, chosen, parse_values, path_setting
from kernelweave_app.runs.questions import OF_TIMES, OTHERS, PRESETS, QUESTIONS, grouped, preset_settings
from kernelweave_app.runs.recommending import Recommendation
from kernelweave_app.runs.settings import SpecField, kept, learner_settings
from kernelweave_app.runs.spec import DEFAULT, SURVIVAL, Spec, label_of
from kernelweave_app.runs.writing import in_words
from kernelweave_app.studio.looking import or_problem
from kernelweave_app.studio.methods import explanation, has_probabilities, losses_for, methods, scorers
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.form import Form, a_list, a_number, show_consequences
from kernelweave_app.studio.pages.frame import page
from kernelweave_app.studio.pages.pieces import (
    Part,
    card,
    counted,
    dropdown,
    explained,
    guarded,
    hint,
    later,
    note,
    nothing,
    once,
    plural,
    simple_table,
    size,
    stack,
    switch,
    text,
    typeset,
    waiting,
    word_button,
)
from kernelweave_app.studio.schema import Checked, Consequence, Expected, Method, RunRequest
from kernelweave_app.studio.service import Studio

ABOUT_NUMBER = (
    "Regularisation parameters on a path that begins with only a few kernels and ends close to no "
    "regularisation. More of them find the best one more closely, and take longer."
)
PLAIN = "As a plain fit chooses"
ABOUT_PLAIN = (
    "With the default kernels a support vector machine for classes, least squares for numbers; with other kernels "
    "least squares."
)
ABOUT_TIMES = "Cox's model with weights of kernels that are all above zero."
ABOUT_CHOICE = (
    "With the default kernels, C is the best of four, or alpha the best of a path, by five folds. Other values below "
    "ask for a path by those folds."
)
ABOUT_COST = (
    "One number, the weight of the loss. Left empty, the best of nine values from 0.001 to 10 by five folds."
)
#: The score that chooses, by task, where none is named.
USUAL = {"regression": "R^2", "classification": "accuracy", SURVIVAL: "partial likelihood"}
ABOUT_LIST = "All values to try, such as 0.1, 1, 10. A single value is fitted without a choice."


class Guide:
    """The card of the recommendation.

    Parameters
    ----------
    studio : Studio
    desk : Desk
    changed : callable
        Called after settings have changed.
    choose : callable
        Is given the name of a learner and its parameters.
    """

    def __init__(
        self,
        studio: Studio,
        desk: Desk,
        changed: Callable[[], object],
        choose: Callable[[str, dict[str, object]], object],
    ) -> None:
        self.studio, self.desk, self.changed, self.choose = studio, desk, changed, choose
        found = [one.name for one, names in grouped() if desk.spec.method in names]
        self.question = found[0] if found and found[0] != OTHERS.name else "predict"
        if desk.spec.survival:
            self.question = SURVIVAL
        self.found: Recommendation | None = None
        self.measured: tuple[Spec, Expected] | None = None
        self.problem = ""
        #: how often it was measured: of several at once the last one is shown
        self.asked = 0

    def expected(self) -> Expected | None:
        """Time and memory of the present settings, if they have been measured."""
        if self.measured is None or self.measured[0] != self.desk.spec:
            return None
        return self.measured[1]

    def build(self) -> None:
        """Draw the card."""
        with card("Where to begin", "These four are enough; all other settings follow from the table."):
            with stack("kw-row"):
                survival = self.desk.spec.survival
                asked = [one for one in (*QUESTIONS, OF_TIMES) if (one is OF_TIMES) is survival]
                dropdown(
                    {one.name: one.title for one in asked},
                    value=self.question,
                    label="Question",
                    on_change=lambda event: self.ask(event.value),
                ).classes("grow")
                with stack("grow"):
                    self.learner()
                if not survival:
                    once("Recommend", "auto_awesome", self.recommend)
            if not survival:
                self.presets()
            with stack("kw-row"):
                once("How long will it take?", "timer", self.measure, "outline")
            self.told()

    def ask(self, question: str) -> None:
        """Another question, with learners of its own."""
        self.question = question
        self.learner.refresh()

    @ui.refreshable_method
    def learner(self) -> None:
        """The learners of the question."""
        names = dict((one.name, names) for one, names in grouped(self.desk.spec.survival))[self.question]
        titles = {name: PLAIN if name == DEFAULT else LEARNERS[name].__name__ for name in names}
        now = self.desk.spec.method
        dropdown(
            titles,
            value=now if now in titles else None,
            label="Learner for this question",
            on_change=lambda event: self.choose(event.value, {}),
        ).style("width: 100%")

    def presets(self) -> None:
        """Quick, careful, paper, and what each sets."""
        with stack("kw-row").props('role=group aria-label="How careful?"'):
            text("How careful?", "span")
            for one in PRESETS:
                button = word_button(
                    one.title, "", guarded(partial(self.take_preset, one.name)), "outline padding='4px 14px'"
                )
                button.tooltip(one.about)
            with ui.element("details").classes("kw-fold").style("flex: 1 1 14rem"):
                text("What each sets", "summary")
                names = list(dict.fromkeys(name for one in PRESETS for name in one.settings))
                names = [name for name in names if name not in ("repeats", "splits")]
                given = [preset_settings(one.name, self.desk.spec.method) for one in PRESETS]
                rows = [[label_of(name), *(str(each[name]) for each in given)] for name in names]
                simple_table(["setting", *(one.title for one in PRESETS)], rows, label="Presets")

    def take_preset(self, name: str) -> None:
        """Set what belongs to a preset."""
        self.desk.set(**preset_settings(name, self.desk.spec.method))
        self.changed()

    async def recommend(self) -> None:
        """Find settings, take them, and measure their time."""
        data = self.desk.data
        assert data is not None
        asked = self.desk.spec
        found = await offload(self.studio.recommend, data, asked, self.question)
        # views are made on a page of their own; what is not advised may have been changed meanwhile
        advised = {one.setting for one in found.advice if one.setting != "views"} | {"learner_params"}
        reset = {name for name in ("nested", *OF_PATHS) if getattr(found.spec, name) != getattr(asked, name)}
        self.desk.set(**{name: getattr(found.spec, name) for name in advised | reset})
        self.found = found
        self.changed()
        self.told.refresh(measuring=True)
        await self.measure()

    async def measure(self) -> None:
        """Measure time and memory of the present settings."""
        data, spec = self.desk.data, self.desk.spec.model_copy(deep=True)
        assert data is not None
        self.asked += 1
        mine, client = self.asked, ui.context.client
        self.told.refresh(measuring=True)
        problem, measured = "", self.measured
        try:
            measured = spec, await offload(self.studio.estimate, data, spec)
        except InputError as error:
            problem = str(error)
        finally:
            # other settings may be measured by now
            if mine == self.asked and not client.is_deleted:
                self.problem, self.measured = problem, measured
                self.told.refresh(measuring=False)

    @ui.refreshable_method
    def told(self, measuring: bool = False) -> None:
        """The recommendation and its reasons, and the time."""
        with stack("kw-stack").props("aria-live=polite"):
            if self.found is not None:
                hint(f"{'; '.join(self.found.facts)}.")
                rows = [[label_of(one.setting), in_words(one.value), one.why] for one in self.found.advice]
                simple_table(["setting", "recommended", "because"], rows, label="Recommended settings")
                for line in self.found.warnings:
                    note(line, "warn")
                hint("These settings are taken; all of them can be changed below.")
            if measuring:
                waiting("Fitting a few rows to measure the time")
            elif self.problem:
                note(self.problem, "bad")
            elif self.measured is not None:
                found = self.measured[1]
                note(
                    f"Time: {span(found.low)} to {span(found.high)}, most likely {span(found.seconds)}. {found.sure} "
                    f"Memory for kernels: up to {size(found.memory)}.",
                    "good",
                    "timer",
                )


#: What would be run, or why nothing can; and what follows from the choices.
Ready = tuple[Checked | str, list[Consequence]]
#: Fits times squared training rows from which on the time is measured before the start, and seconds until then: the
#: settings may change again.
MUCH_WORK, SETTLED = 5e7, 1.5


class StartCard:
    """What would be run, and a button that starts it.

    Parameters
    ----------
    studio : Studio
    desk : Desk
    guide : Guide
    wrong : mapping of str to str
        Fields with values that no run could use, by setting.
    """

    def __init__(self, studio: Studio, desk: Desk, guide: Guide, wrong: Mapping[str, str]) -> None:
        self.studio, self.desk, self.guide, self.wrong = studio, desk, guide, wrong
        self.ready = Part("", self.show, self.check)
        #: The same run, asked for however often, is one; and its name in the queue.
        self.asked: tuple[object, str] = None, ""

    def build(self) -> None:
        """What would be run, and the button, which stays while that changes: no press on it is lost."""
        with card("Ready?"):
            place = stack()
            with stack("kw-row"):
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
                    if self.wrong:
                        raise InputError(self.first_correct())
                    assert self.desk.data is not None
                    request = RunRequest(
                        name=self.desk.draft.name,
                        data=self.desk.data,
                        spec=self.desk.spec,
                        expected=self.guide.expected(),
                    )
                    wanted = request.model_copy(update={"expected": None})
                    if wanted != self.asked[0]:
                        self.asked = wanted, uuid.uuid4().hex
                    started = await offload(self.studio.add_run, request, self.asked[1])
                    ui.navigate.to(f"/runs?run={started.id}")

                self.button = once("Start the run", "play_arrow", go)
                self.button.set_enabled(False)
        with place:
            self.ready.build()

    def first_correct(self) -> str:
        """What to do about fields with values that no run could use."""
        fields = ", ".join(label_of(name) for name in self.wrong)
        return f"First correct the fields marked above: {fields}."

    def renew(self) -> None:
        """Look again at what would be run."""
        if self.wrong:
            self.button.set_enabled(False)
        self.ready.renew()

    def check(self) -> Ready:
        """What would be run, or why nothing can, and what follows from the choices."""
        data, spec = self.desk.data, self.desk.spec
        assert data is not None
        told = or_problem(lambda: self.studio.consequences(data, spec))
        return or_problem(lambda: self.studio.check(data, spec)), [] if isinstance(told, str) else told

    def change(self, **settings: Any) -> None:
        """Mend something by one press."""
        self.desk.set(**settings)
        self.guide.changed()

    def show(self, ready: Ready) -> None:
        """What would be run, or why nothing can, and what follows from the choices."""
        found, told = ready
        show_consequences(told, self.change, title="Mind")
        self.button.set_enabled(not isinstance(found, str) and not self.wrong)
        if self.wrong or isinstance(found, str):
            note(self.first_correct() if self.wrong else str(found), "bad")
            return
        with stack("kw-stats"):
            counted("training row", found.n_training)
            counted("row held out", found.n_held, several="rows held out")
            counted("column", found.n_columns)
            if found.n_steps:
                counted("fit at most", found.n_steps, several="fits at most")
        hint(f"{found.task.capitalize()}: {found.reason}. {found.splitter}.").style("overflow-wrap: anywhere")
        if found.n_dropped:
            rows = plural(found.n_dropped, "row with missing values is", "rows with missing values are")
            note(f"{rows} left out.", "warn")
        if self.guide.expected() is None:
            work = (found.n_steps or 1) * found.n_training**2
            if work < MUCH_WORK:
                hint("Expected time: likely under a minute.")
            else:
                ui.timer(SETTLED, self.guide.measure, once=True)


class MethodPage:
    """The page of method and validation."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.desk = studio, Desk(studio)
        self.form = Form(lambda: self.desk, self.check)
        self.guide = Guide(studio, self.desk, self.renew, self.choose)
        #: the task, and the number of classes
        self.target = ("classification", 2)
        self.start = StartCard(studio, self.desk, self.guide, self.form.wrong)

    async def build(self) -> None:
        """Draw the page."""
        lead = (
            "How kernel weights are found, over which regularisation parameters, and how they are validated."
        )
        with page(self.studio, "/method", "Method and validation", lead):
            if self.desk.data is None or not self.desk.spec.predicted:
                nothing("tune", "Choose a table and a target first.", "Data", "/")
                return
            later("Reading the tables", self.cards, self.read_target)

    def cards(self, target: tuple[str, int]) -> None:
        """Everything below the heading."""
        self.target = target
        self.guide.build()
        with ui.element("details").classes("kw-all"):
            text("All settings: learner, path, validation", "summary")
            with stack():
                self.learners()
                with stack("kw-narrow"):
                    self.path()
                    self.validation()
                self.computing()
        self.start.build()

    def check(self) -> None:
        """Look again at what would be run."""
        self.start.renew()

    def renew(self) -> None:
        """Draw everything again after the guide has changed settings."""
        self.guide.learner.refresh()
        self.learners.refresh()
        self.path.refresh()
        self.validation.refresh()
        self.check()

    # ---- learner ----------------------------------------------------------------------------------

    @ui.refreshable_method
    def learners(self) -> None:
        """The list of learners, and the one that is chosen."""
        spec = self.desk.spec
        known = {method.name: method for method in methods()}
        for name in learner_settings():
            self.form.wrong.pop(name, None)  # another learner may not have it
        with card("Learner"), stack("kw-narrow").style("gap: 1.6rem"):
            with stack("kw-pick").props('role=radiogroup aria-label="Learner"'):
                for question, names in grouped(spec.survival):
                    fold = ui.element("details").classes("kw-fold")
                    if spec.method in names:
                        fold.props("open")
                    with fold:
                        text(question.title, "summary").props["title"] = question.about
                        for name in names:
                            if name == DEFAULT:
                                plain = partial(self.choose, DEFAULT, {})
                                about = ABOUT_TIMES if spec.survival else ABOUT_PLAIN
                                self.option(PLAIN, about, spec.method == DEFAULT, plain)
                            else:
                                self.learner_option(known[name], name == spec.method)
            if spec.method in known:
                self.explain(known[spec.method])
            elif spec.method == DEFAULT:
                now = known[chosen(spec, self.target[0]).method]
                with stack():
                    text(PLAIN, "h3").style("font-size: 1.1rem")
                    about = ABOUT_TIMES if spec.survival else ABOUT_PLAIN
                    text(f"{about} Here that is {now.title}.", "p")
                    if not spec.survival:
                        hint(ABOUT_CHOICE)

    def learner_option(self, method: Method, picked: bool) -> None:
        """A learner in the list."""
        head, _, rest = method.summary.partition(": ")
        about = rest if head == method.title else head

        def choose() -> None:
            spec = self.desk.spec
            self.choose(method.name, kept(spec.learner_params, spec.method, method.name))

        self.option(method.title, capital(about), picked, choose)

    def option(self, title: str, about: str, picked: bool, choose: Callable[[], None]) -> None:
        """An entry of the list of learners."""
        option = ui.element("button").classes("kw-option").props("type=button role=radio")
        option.props["aria-checked"] = "true" if picked else "false"
        with option:
            text(title, "b")
            text(about, "span")
        option.on("click", choose)

    def choose(self, name: str, params: dict[str, object]) -> None:
        """Store a learner and its parameters."""
        before = has_probabilities(self.desk.spec)
        if self.form.set(method=name, learner_params=params):
            self.guide.learner.refresh()
            self.learners.refresh()
            self.path.refresh()
            if has_probabilities(self.desk.spec) != before:
                self.validation.refresh()

    def explain(self, method: Method) -> None:
        """Description of a learner, its parameters, and the fields for them."""
        with stack():
            text(method.title, "h3").style("font-size: 1.1rem")
            text(f"{method.summary}.", "p")
            if method.objective:
                typeset(explanation(method.name))
            if not method.regression:
                note("For classification only.")
            # the loss of survival is that of Cox's model
            fields = [one for one in method.fields if one.name != "loss" or not self.desk.spec.survival]
            if fields:
                with stack("kw-fields"):
                    for setting in fields:
                        self.learner_field(setting)
            with ui.expansion("All parameters").props("dense"):
                rows = [[p.name, p.about or p.kind, p.default] for p in method.parameters]
                simple_table(["parameter", "meaning", "default"], rows, label=f"Parameters of {method.title}")
            inverse = method.regularization_parameter == "C"
            meaning = "C, the weight of the loss" if inverse else "alpha, the weight of the penalty"
            how = "by folds" if self.desk.spec.survival else "on the path"
            hint(f"The regularisation parameter is {meaning}. It is chosen {how}.")
            if method.reference:
                hint(method.reference)

    def learner_field(self, setting: SpecField) -> None:
        """A field for a parameter of the learner; defaults are not stored."""
        given = self.desk.spec.learner_params.get(setting.name, setting.default)
        if setting.kind == "choice" and written(given) not in setting.choices:
            given = setting.default
        if setting.name == "loss":
            # what was chosen for another task is shown
            offered = losses_for(self.target[0], setting.choices)
            setting = replace(setting, choices=tuple(dict.fromkeys((*offered, written(given)))))

        def keep(value: Any) -> None:
            before = has_probabilities(self.desk.spec)
            self.desk.set_param(setting.name, None if value in (None, "", setting.default) else value)
            if has_probabilities(self.desk.spec) != before:
                self.validation.refresh()

        self.form.field(setting, value=given, keep=keep)

    # ---- path -------------------------------------------------------------------------------------

    @ui.refreshable_method
    def path(self) -> None:
        """The regularisation parameters."""
        spec = self.desk.spec
        if spec.survival:
            self.cost()
            return
        method = chosen(spec, self.target[0]).method
        name = path_setting(method) if method in LEARNERS else "alphas"
        given = getattr(spec, name)
        automatic = given.strip().isdigit()
        for setting in ("alphas", "Cs"):
            self.form.wrong.pop(setting, None)
        parts = given.split(":") if given.count(":") == 2 else []
        kind = "automatic" if automatic else ("range" if parts else "list")
        with card("Path", "Regularisation parameters, from strong to weak regularisation."):
            kinds = {"automatic": "Automatic", "range": "Range", "list": "List"}
            defaults = {"automatic": "30", "range": "0.001:1000:30", "list": "0.1,1,10"}
            ends = ("Smallest C", "Largest C") if name == "Cs" else ("Weakest", "Strongest")
            values = "Values of C" if name == "Cs" else "Values of alpha"

            def turn(event: ValueChangeEventArguments) -> None:
                if self.form.set(**{name: defaults[event.value]}):
                    self.path.refresh()

            switch("How regularisation parameters are chosen", kinds, kind).on_value_change(turn)
            if kind == "automatic":
                many = replace(
                    self.form.known[name], label="How many", help=ABOUT_NUMBER, least=1, most=MOST_ALPHAS
                )
                many = replace(many, kind="whole number")
                self.form.field(
                    many, value=int(given), keep=lambda count: self.desk.set(**{name: str(count)})
                )
            elif kind == "range":
                fields: list[Any] = []

                def join() -> str:
                    low, high = (a_number(field.value) for field in fields[:2])
                    return f"{low:g}:{high:g}:{a_number(fields[2].value, whole=True)}"

                def check(_: Any) -> str | None:
                    # the three are one setting: an error is shown where it was changed last
                    found = self.form.take(name, join)
                    for field in fields:
                        field.error = None
                    return found

                for label, value in zip((*ends, "How many"), parts, strict=True):
                    field = ui.number(label, value=float(value), validation=check)
                    fields.append(field.props("outlined dense hide-bottom-space debounce=500 step=any"))
                hint("Equally spaced on a logarithmic scale between the two.")
            else:
                with explained(values, ABOUT_LIST):
                    ui.input(
                        f"{values}, separated by commas",
                        value=given,
                        validation=lambda given: self.form.take(name, lambda: a_list(given)),
                    ).props("outlined dense hide-bottom-space debounce=600")
            self.form.fields("rule")

    def cost(self) -> None:
        """The regularisation parameter of survival."""
        usual = str(Spec.model_fields["Cs"].default)
        one = replace(
            self.form.known["Cs"],
            label="C",
            kind="number",
            default=None,
            help=ABOUT_COST,
            least=1e-9,
            most=1e9,
        )
        with card("Regularisation", ABOUT_COST):
            values, n_values = parse_values("Cs", self.desk.spec.Cs)
            self.form.field(
                one,
                value=float(values[0]) if values is not None and n_values == 1 else None,
                keep=lambda cost: self.desk.set(Cs=usual if cost is None else repr(float(cost))),
            )

    # ---- validation -------------------------------------------------------------------------------

    @ui.refreshable_method
    def validation(self) -> None:
        """Folds, held-out rows and scores."""
        spec = self.desk.spec
        task, n_classes = self.target
        probable = has_probabilities(spec)
        with card(
            "Validation",
            "Every training row is predicted by a model of the other folds. Folds share out the events."
            if spec.survival
            else "Folds choose the regularisation parameter; held-out rows, or outer folds, assess the choice.",
        ):
            with stack("kw-fields"):
                offered = {"": f"the usual ({USUAL[task]})"}
                known = scorers(task, n_classes)
                offered |= {name: name.replace("_", " ") for name in known}
                offered |= {} if spec.scoring in offered else {spec.scoring: spec.scoring}
                hidden = ("method", *(["probabilities"] if probable else []))
                fields, switches = self.form.group("Validation", "Model", task=task, without=hidden)
                for name in fields:
                    self.form.field(self.form.known[name], choices=offered if name == "scoring" else None)
                if spec.holdout:
                    hint(f"Column {spec.holdout!r} marks the held-out rows.")
                if probable and task == "classification":
                    hint("Probabilities are those of the loss.")
            with stack("kw-row").style("gap: 0 1.6rem"):
                self.form.fields(*switches)
            if spec.group:
                hint(f"Rows of one {spec.group} stay together.")

    def read_target(self) -> tuple[str, int]:
        """The task, and the number of classes."""
        try:
            assert self.desk.data is not None
            if self.desk.spec.survival:
                return SURVIVAL, 1
            found = self.studio.target(self.desk.data, self.desk.spec.target, self.desk.spec.task)
        except InputError:
            return "classification", 2
        return found.task, len(found.classes)

    def computing(self) -> None:
        """Settings that are rarely needed, including those without a field elsewhere."""
        rest = [s for s in self.form.known.values() if s.group in ("Computing", "More")]
        with (
            card(),
            ui.expansion("More settings").props("dense"),
            stack("kw-fields").style("width: 100%"),
        ):
            for setting in rest:
                self.form.field(setting)
