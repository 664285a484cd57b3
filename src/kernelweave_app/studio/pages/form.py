"""Forms drawn from declarations: a field for every setting, with the values that are admissible."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from kernelweave._errors import InputError
from kernelweave._parameters import said as written
from kernelweave_app.runs.fitting import parse_values
from kernelweave_app.runs.settings import SpecField
from kernelweave_app.runs.spec import applies, in_words_of, spec_fields
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.pieces import (
    card,
    dropdown,
    explained,
    guarded,
    note,
    said,
    stack,
    word_button,
)
from kernelweave_app.studio.schema import Consequence

#: What choices say, by setting; others are shown as they are written.
WORDS: dict[str, dict[str, str]] = {
    "missing": {
        "error": "refuse to run",
        "drop": "leave out those rows",
        "impute": "fill with means",
        "impute-median": "fill with medians, and mark",
        "impute-nearest": "fill from the nearest rows",
        "skip": "compare rows in shared columns",
    },
    "missing_views": {
        "complete": "predict kernels from other views",
        "renormalize": "give the weight to other views",
        "error": "as missing cells",
    },
    "rows": {"shared": "those that every table has", "all": "all, also without some views"},
    "splits": {"k-fold": "Folds", "random": "Random splits"},
    "rule": {"min": "the best mean score", "1se": "the simplest within one standard error"},
}


def a_number(value: float | None, *, whole: bool = False) -> float | int:
    """The number in a field, or an error."""
    if value is None or (whole and value != int(value)):
        got = "this is empty" if value is None else f"got {value:g}"
        raise InputError(f"A {'' if value is None else 'whole '}number is needed, {got}.")
    return int(value) if whole else value


def a_list(value: str | None) -> str:
    """A list of regularisation parameters; a whole number alone would mean so many automatic ones."""
    given = (value or "").strip()
    if not given:
        raise InputError("At least one value is needed, this is empty.")
    return f"{given}.0" if given.isdigit() else given


class Form:
    """Fields that change the settings of a draft.

    Parameters
    ----------
    desk : Desk
        Read anew for every field, as pages may replace theirs.
    changed : callable
        Called after every change, also of what is wrong.
    refused : callable, optional
        Called after a choice that could not be stored.
    """

    def __init__(
        self,
        desk: Callable[[], Desk],
        changed: Callable[[], object],
        refused: Callable[[], object] | None = None,
    ) -> None:
        self.desk, self.changed, self.refused = desk, changed, refused
        self.known = spec_fields()
        #: Fields with values that no run could use, by setting.
        self.wrong: dict[str, str] = {}

    def set(self, **values: Any) -> bool:
        """Store settings; wrong ones are shown to the user."""
        try:
            self.desk().set(**values)
        except InputError as error:
            said(error)
            if self.refused is not None:
                self.refused()
            return False
        self.changed()
        return True

    def take(
        self, name: str, read: Callable[[], Any], keep: Callable[[Any], object] | None = None
    ) -> str | None:
        """Store the value of a field; if no run could use it, return why, to be shown there."""
        keep = keep or (lambda value: self.desk().set(**{name: value}))
        self.wrong.pop(name, None)
        try:
            value = read()
            if name in ("alphas", "Cs"):
                parse_values(name, str(value))
            keep(value)
        except InputError as error:
            # the label stands above
            self.wrong[name] = in_words_of("form", str(error).removeprefix(f"Setting `{name}`: "))
        self.changed()
        return self.wrong.get(name)

    def group(self, *groups: str, task: str, without: Collection[str] = ()) -> tuple[list[str], list[str]]:
        """Settings of some groups that would do something: those with a field, and those with a switch."""
        spec = self.desk().spec
        found = [
            name
            for name, field in self.known.items()
            if field.group in groups and name not in without and applies(field, spec, task)
        ]
        switches = [name for name in found if self.known[name].kind == "yes/no"]
        return [name for name in found if name not in switches], switches

    def fields(self, *names: str) -> None:
        """A field for each of some settings."""
        for name in names:
            self.field(self.known[name])

    def field(
        self,
        setting: SpecField,
        *,
        value: Any = None,
        keep: Callable[[Any], object] | None = None,
        choices: Mapping[str, str] | None = None,
    ) -> ui.element:
        """A field for the admissible values of a setting.

        Parameters
        ----------
        setting : SpecField
        value : object, optional
            By default that of the draft.
        keep : callable, optional
            Stores a value; by default in the draft.
        choices : mapping of str to str, optional
            In place of those that are declared.
        """
        name, free = setting.name, setting.default is None
        self.wrong.pop(name, None)  # the field shows what is stored
        label = f"{setting.label}, {setting.unit}" if setting.unit else setting.label
        value = getattr(self.desk().spec, name) if keep is None else value

        def choose(event: ValueChangeEventArguments) -> None:
            problem = self.take(name, lambda: event.value, keep)
            if problem is not None and self.refused is not None:
                said(InputError(problem))
                self.wrong.pop(name)
                self.refused()

        with explained(label, setting.help):
            if choices is not None or setting.kind == "choice":
                words = WORDS.get(name, {})
                offered = dict(choices) if choices else words or {one: one for one in setting.choices}
                shown = written(value) if written(value) in offered else None
                return dropdown(offered, value=shown, label=label, on_change=choose, clearable=free)
            if setting.kind == "yes/no":
                return ui.switch(label, value=bool(value), on_change=choose)
            usual, drawn = "the usual" if free else None, "outlined dense hide-bottom-space"
            if setting.kind in ("number", "whole number"):
                whole = setting.kind == "whole number"

                def read(given: float | None) -> Any:
                    return None if free and given is None else a_number(given, whole=whole)

                ends: dict[str, Any] = {"min": setting.least, "max": setting.most, "placeholder": usual}
                count = ui.number(
                    label,
                    value=value,
                    validation=lambda given: self.take(name, lambda: read(given), keep),
                    **ends,
                )
                return count.props(f"{drawn} debounce=400 step={1 if whole else 'any'}")
            entry = ui.input(
                label,
                value="" if value is None else str(value),
                placeholder=usual,
                validation=lambda given: self.take(name, lambda: given or "", keep),
            )
            return entry.props(f"{drawn} debounce=500")


def show_consequences(
    found: Sequence[Consequence],
    change: Callable[..., object],
    leave_out: Callable[[str], Awaitable[None]] | None = None,
    title: str = "Before you start",
) -> None:
    """What follows from the choices so far, each with a button that mends it.

    Parameters
    ----------
    found : sequence of Consequence
    change : callable
        Is given settings by their names.
    leave_out : callable, optional
        Is given the id of a file; without it such buttons are left out.
    title : str
        Of the card, which is left out where there is nothing to say.
    """
    if not found:
        return
    with card(title), stack("kw-stack tight"):
        for one in found:
            mend: Callable[[], object] = partial(change, **one.settings)
            if one.leave_out and leave_out is not None:
                mend = partial(leave_out, one.leave_out)
            with note(one.text, one.kind):
                if one.fix and (one.settings or leave_out is not None):
                    button = word_button(one.fix, "", guarded(mend), "flat dense no-caps")
                    button.props["aria-label"] = f"{one.fix}: {one.topic}"
