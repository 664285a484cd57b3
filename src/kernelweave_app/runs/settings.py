"""The settings of a run as fields of a form: those of `Spec`, and the parameters of all learners.

How to draw a form or options from them::

    for field in spec_fields().values():            # or those of `learner_fields`
        if field.applies(spec, task):               # draw it only where it would do something
            draw(field.label, field.help, field.kind, field.choices, field.least, field.most, field.unit, field.default)

`kind` is "text", "number", "whole number", "yes/no", "choice" or "table" (a text, or a mapping or list of texts).
`group` is the card that it belongs to. A value is stored as ``Spec.<name>``, or where `learners` is not empty as
``Spec.learner_params[name]``. `check_spec` refuses a value in the words of files of settings; `in_words_of` says the
same with options or labels. Importing learners takes seconds, so `known_fields` reads fields from a file which
``make options`` writes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from kernelweave._declarations import USUAL, Declared
from kernelweave._docstrings import read_docstring
from kernelweave._errors import InputError, check_known
from kernelweave._parameters import Form, Rule, said
from kernelweave._types import Tree
from kernelweave_app.runs.spec import In, Spec

#: The fields as they were when `make options` was called.
FILE = Path(__file__).with_name("fields.json")
#: What a name stands for in messages: an entry of a file, an option, a label of a form.
PLACES = ("file", "options", "form")

Kind = Literal["text", "number", "whole number", "yes/no", "choice", "table"]

_CLASSES: Callable[[Spec, str], bool] = lambda spec, task: task != "regression"  # noqa: E731  one of many below
#: When a setting would do something; all others always.
APPLIES: dict[str, Callable[[Spec, str], bool]] = {
    "key": lambda spec, task: bool(spec.key or spec.join),
    "rows": lambda spec, task: bool(spec.join),
    "holdout_values": lambda spec, task: bool(spec.holdout),
    "test_size": lambda spec, task: not spec.holdout,
    "stratify": lambda spec, task: task != "regression" and not spec.group,
    "balanced": _CLASSES,
    "class_weights": _CLASSES,
    "probabilities": _CLASSES,
    "n_features": lambda spec, task: spec.approximation not in ("auto", "none"),
}


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

    def applies(self, spec: Spec, task: str = "") -> bool:
        """Whether it would do something beside the others; `task` is "", "classification" or "regression"."""
        if self.learners:
            from kernelweave_app.runs.fitting import chosen

            return chosen(spec, task or "classification").method in self.learners
        return self.name not in APPLIES or APPLIES[self.name](spec, task)

    @property
    def flag(self) -> str:
        """Its option on the command line."""
        return f"--{self.name.lower().replace('_', '-')}"


def own_fields() -> Mapping[str, SpecField]:
    """The settings of every run, but for the table of the learner's parameters."""
    about = read_docstring(Spec.__doc__).parameters
    found = {}
    for name, field in Spec.model_fields.items():
        if name == "learner_params":
            continue
        [shown] = [part for part in field.metadata if isinstance(part, In)]
        rules = [part for part in field.metadata if isinstance(part, Rule)]
        form = rules[0].form() if rules else Form()
        parts = [
            get_args(part)[0] if get_origin(part) is Annotated else part
            for part in get_args(field.annotation)
        ]
        kinds = [get_origin(part) for part in parts if get_origin(part) in (list, dict)]
        found[name] = SpecField(
            name,
            shown.label,
            about[name].about,
            shown.group,
            "table" if kinds else form.kind,
            field.default,
            form.choices,
            form.least,
            form.most,
            several=list in kinds,
        )
    return found


def learner_fields(method: str) -> dict[str, SpecField]:
    """The parameters of one learner."""
    return {
        name: _merged(name, {method: one}, told=False) for name, one in learner_of(method).settings().items()
    }


def spec_fields() -> dict[str, SpecField]:
    """All fields in the order of a form: those of every run, then those of all learners that are registered now."""
    of_learners = {name: one.field for name, one in learner_settings().items()}
    return {**own_fields(), **of_learners}


def known_fields() -> dict[str, SpecField]:
    """All fields; those of the file, unless the learners have been imported already."""
    if "kernelweave.learners" in sys.modules:
        return spec_fields()
    told = json.loads(FILE.read_text("utf8"))
    tuples = ("choices", "learners")
    return {one["name"]: SpecField(**{**one, **{key: tuple(one[key]) for key in tuples}}) for one in told}


def label_of(name: str) -> str:
    """The label of a setting."""
    if name in own_fields():
        return own_fields()[name].label
    if name in Spec.model_fields:
        return Spec.model_fields["learner_params"].metadata[-1].label if name == "learner_params" else name
    known = learner_settings()
    return known[name].field.label if name in known else name.replace("_", " ").capitalize()


def in_words_of(place: str, message: str) -> str:
    """A message about settings with their options ("options"), or with their labels ("form").

    Examples
    --------
    >>> in_words_of("options", "Setting `jobs`: 0 folds at once is not possible.")
    '--jobs: 0 folds at once is not possible.'
    >>> in_words_of("form", "`test_size` must be a number >= 0 and < 1, got 2.0.")
    "'Share of rows held out' must be a number >= 0 and < 1, got 2.0."
    """

    def said_there(found: re.Match[str]) -> str:
        field = known_fields().get(found[1])
        if field is None:
            return found[0]
        return field.flag if place == "options" else repr(field.label)

    return message if place == "file" else re.sub(r"(?:Setting )?`(\w+)`", said_there, message)


def describe_schema(schema: Tree) -> None:
    """Add labels, meanings and ranges to the JSON schema of `Spec`."""
    properties = schema["properties"]
    schema["description"] = read_docstring(Spec.__doc__).summary
    properties["learner_params"] |= {
        "title": label_of("learner_params"),
        "description": read_docstring(Spec.__doc__).parameters["learner_params"].about,
        "properties": {name: _schema_of(one.field) for name, one in learner_settings().items()},
        "additionalProperties": False,
    }
    for name, field in own_fields().items():
        found = _schema_of(field)
        found.pop("type")
        properties[name] |= found


def _schema_of(field: SpecField) -> Tree:
    kinds = {"number": "number", "whole number": "integer", "yes/no": "boolean"}
    found: dict[str, Any] = {"title": field.label, "description": field.help}
    found["type"] = kinds.get(field.kind, "string")
    bounds = {"minimum": field.least, "maximum": field.most, "x-unit": field.unit or None}
    found |= {key: value for key, value in bounds.items() if value is not None}
    return found | ({"enum": list(field.choices)} if field.choices and field.name != "method" else {})


# ---- parameters of learners -------------------------------------------------------------------------


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
    def field(self) -> SpecField:
        """Its field, for all values that any of the learners accepts."""
        return _merged(self.name, self.of)

    def written(self, value: object) -> Any:
        """The value in a file of settings, which has no null; raises `InputError` if no learner accepts it."""
        if value is None:
            return said(None) if any(takes(one, said(None)) for one in self.of.values()) else ""
        if not any(takes(one, value) for one in self.of.values()):
            next(iter(self.of.values())).settle(value)
        return value


def _merged(name: str, of: Mapping[str, Declared], *, told: bool = True) -> SpecField:
    """The field of a parameter of several learners; with `told` it names them."""
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


def learner_settings() -> dict[str, LearnerSetting]:
    """The settings of all learners by name, those of the first learner first."""
    from kernelweave.learners import LEARNERS

    found: dict[str, dict[str, Declared]] = {}
    for learner, kind in LEARNERS.items():
        for name, one in kind.settings().items():
            found.setdefault(name, {})[learner] = one
    return {name: LearnerSetting(name, of) for name, of in found.items()}


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


def write_fields() -> None:
    """Write the file of `known_fields`."""
    told = [asdict(field) for field in spec_fields().values()]
    FILE.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf8")


if __name__ == "__main__":
    write_fields()
