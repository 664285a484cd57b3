"""Learners and settings, explained by their own docstrings and signatures: new ones appear by themselves."""

from __future__ import annotations

import inspect
import re
from functools import lru_cache
from typing import Any

import docstring_parser

from kernelweave.learners import LEARNERS
from kernelweave.runs.fitting import learner_fields
from kernelweave.runs.spec import FitSpec
from kernelweave.studio.schema import Method, Parameter, Setting

#: Settings by topic; what is not listed belongs to its learner, or to "More".
GROUPS = {
    "Data": ("target", "task", "join", "key", "missing", "weights", "group", "holdout", "drop"),
    "Kernels": ("views", "kernels", "normalize", "transductive", "standardize"),
    "Path": ("alphas", "rule"),
    "Validation": ("splits", "cv", "repeats", "stratify", "nested", "test_size", "scoring", "seed"),
    "Model": ("method", "intercept", "balanced", "class_weights", "probabilities"),
    "Computing": ("jobs", "max_memory", "rank_tol"),
}
CHOICES = {
    "normalize": ["mean-diagonal", "trace", "norm", "cosine", "center", "within-class", "none"],
}
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


def scorers(task: str, n_classes: int) -> list[str]:
    """Scorers on offer for a target."""
    return [name for name in SCORERS[task] if n_classes <= 2 or name not in OF_TWO_CLASSES]


@lru_cache(maxsize=1)
def methods() -> list[Method]:
    """All learners."""
    return [_method(name, learner) for name, learner in LEARNERS.items()]


def _method(name: str, learner: Any) -> Method:
    doc = docstring_parser.parse(inspect.cleandoc(learner.__doc__ or ""))
    signature = inspect.signature(learner).parameters
    fields = learner_fields(learner).values()
    about = {n.strip(): p for p in doc.params for n in p.arg_name.split(",")}
    parameters = []
    for key, parameter in signature.items():
        entry = about.get(key)
        kind = re.sub(r",?\s*default[=:].*$", "", (entry.type_name or "") if entry else "")
        parameters.append(
            Parameter(
                name=key,
                kind=kind,
                about=plain(entry.description or "") if entry else "",
                default=repr(parameter.default),
            )
        )
    sections = [m.description for m in doc.meta if getattr(m, "args", [""])[0] in ("references", "reference")]
    return Method(
        name=name,
        title=learner.__name__,
        summary=plain(doc.short_description or "").rstrip("."),
        objective=re.sub(r"``([^`]*)``", r"\1", inspect.cleandoc(doc.long_description or "")),
        strength=learner.strength,
        regression=learner.regression,
        parameters=parameters,
        settings=[field for field in learner_settings() if field in fields],
        reference=" ".join(plain(text) for text in sections if text),
    )


def plain(text: str) -> str:
    """Text of a docstring without its markup."""
    text = re.sub(r":\w+(?::\w+)?:`~?(?:[^`]*\.)?([^`]*)`", r"\1", text)
    text = re.sub(r"``?([^`]*)``?|\*(\w+)\*", r"\1\2", text)
    return " ".join(re.sub(r"(?:^|\s)(?:\.\. )?\[\d+\]_?", " ", text).split())


@lru_cache(maxsize=1)
def learner_settings() -> tuple[str, ...]:
    """Settings of a fit that some learner has a parameter for."""
    grouped = {name for names in GROUPS.values() for name in names}
    of_some = {field for learner in LEARNERS.values() for field in learner_fields(learner).values()}
    return tuple(name for name in FitSpec.model_fields if name in of_some - grouped)


@lru_cache(maxsize=1)
def settings() -> list[Setting]:
    """All settings of a fit, from its typed record."""
    doc = docstring_parser.parse(inspect.cleandoc(FitSpec.__doc__ or ""))
    about = {p.arg_name: plain(p.description or "") for p in doc.params}
    schema = FitSpec.model_json_schema()["properties"]
    return [_setting(name, schema[name], about.get(name, "")) for name in FitSpec.model_fields]


def _setting(name: str, schema: dict[str, Any], about: str) -> Setting:
    group = next((g for g, names in GROUPS.items() if name in names), "")
    if not group:
        group = "Learner" if name in learner_settings() else "More"
    choices = CHOICES.get(name) or [str(c) for c in schema.get("enum", [])]
    kinds = {"boolean": "yes/no", "integer": "whole number", "number": "number", "string": "text"}
    kind = "choice" if choices else kinds.get(schema.get("type", ""), "table")
    if name == "method":
        kind, choices = "choice", list(LEARNERS)
    return Setting(
        name=name,
        group=group,
        about=about,
        kind=kind,  # type: ignore[arg-type]
        default=FitSpec.model_fields[name].default,
        choices=choices,
        least=schema.get("minimum", schema.get("exclusiveMinimum")),
        most=schema.get("maximum", schema.get("exclusiveMaximum")),
    )
