"""Settings of the learners, collected from the declarations of their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelweave._declarations import USUAL, Declared
from kernelweave._errors import InputError, check_known
from kernelweave._parameters import Form, said
from kernelweave.learners import LEARNERS, Learner

#: Former names of settings, which files may contain, and their present names.
FORMER = {"literal": "as_published"}


@dataclass(frozen=True)
class LearnerSetting:
    """A setting that one or several learners have.

    Attributes
    ----------
    name : str
    of : dict of str to Declared
        The parameter that it sets, by the short names of the learners.
    """

    name: str
    of: Mapping[str, Declared]

    @property
    def label(self) -> str:
        """The label of the setting."""
        return next(iter(self.of.values())).label

    @property
    def unit(self) -> str:
        """Unit of a number."""
        return next(iter(self.of.values())).shown.unit

    @property
    def form(self) -> Form:
        """A field for all values that any of the learners accepts."""
        forms = list(dict.fromkeys(one.form for one in self.of.values()))
        if len({form.kind for form in forms}) > 1:
            return Form()
        choices = tuple(dict.fromkeys(choice for form in forms for choice in form.choices))
        least, most = [form.least for form in forms], [form.most for form in forms]
        return Form(
            forms[0].kind,
            choices,
            min((bound for bound in least if bound is not None), default=None) if None not in least else None,
            max((bound for bound in most if bound is not None), default=None) if None not in most else None,
        )

    @property
    def about(self) -> str:
        """Meaning and admissible values, for each learner with a description of its own."""
        limits = {limit(one) for one in self.of.values()}
        words: dict[str, list[str]] = {}
        for learner, one in self.of.items():
            words.setdefault(one.help if len(limits) == 1 else f"{one.help} {limit(one)}", []).append(learner)
        text = " ".join(f"{', '.join(learners)}: {text}" for text, learners in words.items())
        return f"{text} {next(iter(limits))}".strip() if len(limits) == 1 else text

    def written(self, value: object) -> Any:
        """The value in a file of settings, which has no null; raises `InputError` if no learner accepts it."""
        if value is None:
            return said(None) if any(takes(one, said(None)) for one in self.of.values()) else ""
        if not any(takes(one, value) for one in self.of.values()):
            next(iter(self.of.values())).settle(value)
        return value

    def is_usual(self, value: object, method: str) -> bool:
        """Whether a value is the default: of the learner of that name, or of any if it has no such parameter."""
        asked = [self.of[method]] if method in self.of else self.of.values()
        for one in asked:
            if not takes(one, value):
                continue
            found = one.settle(value)
            if found is USUAL or (type(found) is type(one.default) and found == one.default):
                return True
        return False


def limit(one: Declared) -> str:
    """Admissible values and default of a parameter, in brackets."""
    form = one.form
    numbers = form.kind in ("number", "whole number")
    parts = [one.rule.words().removesuffix(" or None")] if one.rule is not None and numbers else []
    parts += [" | ".join(form.choices)] if form.choices else []
    parts += [f"in {one.shown.unit}"] if one.shown.unit else []
    parts += [f"default {said(one.default)}"] if one.default is not None else []
    return f"[{'; '.join(parts)}]" if parts else ""


def learner_settings() -> dict[str, LearnerSetting]:
    """The settings of all learners by name, those of the first learner first."""
    found: dict[str, dict[str, Declared]] = {}
    for learner, kind in LEARNERS.items():
        for name, one in kind.settings().items():
            found.setdefault(name, {})[learner] = one
    return {name: LearnerSetting(name, of) for name, of in found.items()}


def renamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with present names; if a setting has both names, the present one counts."""
    now = {FORMER[name]: value for name, value in settings.items() if name in FORMER}
    return now | {name: value for name, value in settings.items() if name not in FORMER}


def learner_of(method: str) -> type[Learner]:
    """The learner of a short name."""
    return LEARNERS[check_known(method, LEARNERS, "method")]


def settled(method: str, params: Mapping[str, object]) -> dict[str, object]:
    """Arguments of a learner's constructor, from settings that it may not all have."""
    out = {}
    for name, one in learner_of(method).settings().items():
        if name in params and (value := one.settle(params[name])) is not USUAL:
            out[one.name] = value
    return out


def effective(method: str, params: Mapping[str, object]) -> dict[str, str]:
    """All settings of a learner as text, given or default."""
    known = LEARNERS[method].settings() if method in LEARNERS else {}
    return {name: said(params.get(name, one.default)) for name, one in known.items()}


def kept(params: Mapping[str, object], old: str, new: str) -> dict[str, object]:
    """Settings that another learner can keep, without those that mean something else there."""
    before = LEARNERS[old].settings() if old in LEARNERS else {}
    return {
        name: value
        for name, value in params.items()
        if (mine := learner_of(new).settings().get(name)) is None
        or (alike(before[name], mine) if name in before else takes(mine, value))
    }


def alike(one: Declared, other: Declared) -> bool:
    """Whether two parameters have the same admissible values."""
    return one.rule is not None and other.rule is not None and one.rule.words() == other.rule.words()


def takes(one: Declared, value: object) -> bool:
    """Whether a parameter accepts a value."""
    try:
        one.settle(value)
    except InputError:
        return False
    return True
