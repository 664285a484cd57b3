"""Fields of settings for forms and options, and the settings of learners, which are declared at their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kernelweave._declarations import USUAL, Declared
from kernelweave._errors import InputError, check_known
from kernelweave._parameters import Form, said
from kernelweave._types import Tree

Kind = Literal["text", "number", "whole number", "yes/no", "choice", "table"]


@dataclass(frozen=True)
class SpecField:
    """A setting of a run, for a form or as an option.

    Attributes
    ----------
    name, label, help : str
    group : str
        Part of a form: Data, Kernels, Model, Path, Validation, Computing or Learner.
    kind : {"text", "number", "whole number", "yes/no", "choice", "table"}
    default : object
        None where learners have different ones.
    choices : tuple of str
        Values of a choice, or examples of a text.
    least, most : float, optional
        Ends of the range.
    unit : str
    learners : tuple of str
        Learners that have it, by short names; empty for a setting of every run.
    several : bool
        Whether it is a text or a list of texts.
    """

    name: str
    label: str
    help: str
    group: str
    kind: Kind
    default: Any = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    unit: str = ""
    learners: tuple[str, ...] = ()
    several: bool = False

    @property
    def flag(self) -> str:
        """Its option on the command line."""
        return f"--{self.name.lower().replace('_', '-')}"


def learner_fields(method: str) -> dict[str, SpecField]:
    """The parameters of one learner."""
    return {
        name: merged_field(name, {method: one}, told=False)
        for name, one in learner_of(method).settings().items()
    }


def schema_of(field: SpecField) -> Tree:
    """A field in a JSON schema."""
    kinds = {"number": "number", "whole number": "integer", "yes/no": "boolean"}
    found: dict[str, Any] = {"title": field.label, "description": field.help}
    found["type"] = kinds.get(field.kind, "string")
    bounds = {"minimum": field.least, "maximum": field.most, "x-unit": field.unit or None}
    found |= {key: value for key, value in bounds.items() if value is not None}
    return found | ({"enum": list(field.choices)} if field.choices and field.name != "method" else {})


# ---- parameters of learners -------------------------------------------------------------------------


def written(of: Mapping[str, Declared], value: object, method: str | None = None) -> Any:
    """The value of a setting in a file, which has no null; raises `InputError` if none of its learners accepts it.

    The error has the values of the learner `method`, where the setting is one of its own.
    """
    if value is None:
        return said(None) if any(takes(one, said(None)) for one in of.values()) else ""
    if not any(takes(one, value) for one in of.values()):
        own = of.get(method or "")
        (next(iter(of.values())) if own is None else own).settle(value)
    return value


def merged_field(name: str, of: Mapping[str, Declared], *, told: bool = True) -> SpecField:
    """The field for all values that any of these learners accepts; with `told` it names them."""
    first, forms = next(iter(of.values())), list(dict.fromkeys(one.form for one in of.values()))
    if len({form.kind for form in forms}) > 1:
        forms = [Form()]
    least, most = [form.least for form in forms], [form.most for form in forms]
    default = None if told else first.default
    return SpecField(
        name,
        first.label,
        _about(of) if told else first.help,
        "Learner",
        forms[0].kind,
        said(default) if forms[0].kind == "choice" and default is not None else default,
        tuple(dict.fromkeys(choice for form in forms for choice in form.choices)),
        min((bound for bound in least if bound is not None), default=None) if None not in least else None,
        max((bound for bound in most if bound is not None), default=None) if None not in most else None,
        first.shown.unit,
        tuple(of),
    )


def _about(of: Mapping[str, Declared]) -> str:
    """Meaning and admissible values, for each learner with a description of its own."""
    limits = {limit(one) for one in of.values()}
    words: dict[str, list[str]] = {}
    for learner, one in of.items():
        words.setdefault(one.help if len(limits) == 1 else f"{one.help} {limit(one)}", []).append(learner)
    text = " ".join(f"{', '.join(learners)}: {text}" for text, learners in words.items())
    return f"{text} {next(iter(limits))}".strip() if len(limits) == 1 else text


def limit(one: Declared) -> str:
    """Admissible values and default of a parameter, in brackets."""
    form = one.form
    numbers = form.kind in ("number", "whole number")
    parts = [one.rule.words().removesuffix(" or None")] if one.rule is not None and numbers else []
    parts += [" | ".join(form.choices)] if form.choices else []
    parts += [f"in {one.shown.unit}"] if one.shown.unit else []
    parts += [f"default {said(one.default)}"] if one.default is not None else []
    return f"[{'; '.join(parts)}]" if parts else ""


def learner_settings() -> dict[str, dict[str, Declared]]:
    """The settings of all learners by name, those of the first learner first: the parameter of each learner."""
    from kernelweave.learners import LEARNERS

    found: dict[str, dict[str, Declared]] = {}
    for learner, kind in LEARNERS.items():
        for name, one in kind.settings().items():
            found.setdefault(name, {})[learner] = one
    return found


def learner_of(method: str) -> Any:
    """The learner of a short name, a class."""
    from kernelweave.learners import LEARNERS

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
    from kernelweave.learners import LEARNERS

    known = LEARNERS[method].settings() if method in LEARNERS else {}
    return {name: said(params.get(name, one.default)) for name, one in known.items()}


def kept(params: Mapping[str, object], old: str, new: str) -> dict[str, object]:
    """Settings that another learner can keep, without those that mean something else there."""
    from kernelweave.learners import LEARNERS

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
