"""Learners and settings, described by their own declarations, so that new ones appear without further code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kernelweave._declarations import Declared, declared
from kernelweave._docstrings import read_docstring
from kernelweave._errors import InputError
from kernelweave._parameters import Form, said
from kernelweave._types import Tree
from kernelweave.learners import LEARNERS, Learner
from kernelweave_app.runs.fitting import chosen, make_learner
from kernelweave_app.runs.settings import learner_settings
from kernelweave_app.runs.spec import DEFAULT, FitSpec
from kernelweave_app.studio.schema import Method, Parameter, Setting

if TYPE_CHECKING:
    from kernelweave_app.studio.schema import SettingKind

#: Scorers that need nothing but predictions and decision values.
SCORERS = {
    "classification": [
        "accuracy",
        "balanced_accuracy",
        "f1_macro",
        "matthews_corrcoef",
        "roc_auc",
        "average_precision",
    ],
    "regression": ["r2", "neg_root_mean_squared_error", "neg_mean_absolute_error", "explained_variance"],
}
#: Scorers that need decision values of two classes.
OF_TWO_CLASSES = ("roc_auc",)
#: Scorers that need probabilities.
OF_PROBABILITIES = ("neg_log_loss",)


def scorers(task: str, n_classes: int, *, probabilities: bool = False) -> list[str]:
    """Scorers for a target, and for a learner that gives probabilities."""
    found = [name for name in SCORERS[task] if n_classes <= 2 or name not in OF_TWO_CLASSES]
    return [*found, *OF_PROBABILITIES] if probabilities and task == "classification" else found


def has_probabilities(spec: FitSpec) -> bool:
    """Whether the learner of a spec gives probabilities by its loss."""
    try:
        return bool(make_learner(chosen(spec, "classification")).has_probabilities)
    except InputError:
        return False


def methods() -> list[Method]:
    """All learners."""
    return [_method(name, learner) for name, learner in LEARNERS.items()]


def _method(name: str, learner: type[Learner]) -> Method:
    doc = read_docstring(learner.__doc__)
    own: Any = learner
    fields = [_field(setting, one) for setting, one in learner.settings().items()]
    return Method(
        name=name,
        title=learner.__name__,
        summary=doc.summary.rstrip("."),
        objective=re.sub(r"``([^`]*)``", r"\1", doc.text),
        regularization_parameter=learner.regularization_parameter,
        regression=learner.regression,
        parameters=[
            Parameter(name=one.name, kind=one.kind, about=one.about, default=repr(one.default))
            for one in declared(own).values()
        ],
        settings=[field.name for field in fields],
        fields=fields,
        reference=learner.reference(),
    )


def explanation(name: str) -> str:
    """The text on a learner with its formulas, for `typesetting.parts`."""
    return read_docstring(LEARNERS[name].__doc__).text


def _field(name: str, one: Declared) -> Setting:
    choice = one.form.kind == "choice"
    default = said(one.default) if choice and one.default is not None else one.default
    return _of_form(name, one.label, one.help, one.form, one.shown.unit, default)


def _of_form(name: str, label: str, about: str, form: Form, unit: str, default: object) -> Setting:
    return Setting(
        name=name,
        label=label,
        group="Learner",
        about=about,
        kind=form.kind,
        unit=unit,
        default=default,
        choices=list(form.choices),
        least=form.least,
        most=form.most,
    )


def settings() -> list[Setting]:
    """All settings of a fit, those of every learner last."""
    schema = FitSpec.model_json_schema()["properties"]
    found = [_setting(name, schema[name]) for name in FitSpec.model_fields if name != "learner_params"]
    return found + [
        _of_form(name, one.label, one.about, one.form, one.unit, None)
        for name, one in learner_settings().items()
    ]


def called(name: str) -> str:
    """The label of a setting."""
    if name in FitSpec.model_fields:
        return str(FitSpec.model_fields[name].title)
    known = learner_settings()
    return known[name].label if name in known else name.replace("_", " ").capitalize()


def _setting(name: str, schema: Tree) -> Setting:
    choices = schema.get("x-choices") or [str(c) for c in schema.get("enum", [])]
    kinds: dict[str, SettingKind] = {
        "boolean": "yes/no",
        "integer": "whole number",
        "number": "number",
        "string": "text",
    }
    kind: SettingKind = "choice" if choices else kinds.get(schema.get("type", ""), "table")
    if name == "method":
        kind, choices = "choice", [DEFAULT, *LEARNERS]
    return Setting(
        name=name,
        label=schema["title"],
        group=schema["x-group"],
        about=schema["description"].replace("`", ""),
        kind=kind,
        default=FitSpec.model_fields[name].default,
        choices=choices,
        least=schema.get("minimum", schema.get("exclusiveMinimum")),
        most=schema.get("maximum", schema.get("exclusiveMaximum")),
    )
