"""Learners and settings, described by their own declarations, so that new ones appear without further code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kernelweave._declarations import declared
from kernelweave._docstrings import read_docstring
from kernelweave._errors import InputError
from kernelweave.learners import LEARNERS, Learner
from kernelweave.machines.loss import LOSSES, Loss
from kernelweave_app.runs.fitting import chosen, make_learner
from kernelweave_app.runs.settings import learner_fields
from kernelweave_app.runs.spec import SURVIVAL, Spec
from kernelweave_app.studio.schema import Method, Parameter

#: Scorers that are offered.
SCORERS = {
    "classification": [
        "accuracy",
        "balanced_accuracy",
        "f1_macro",
        "matthews_corrcoef",
        "roc_auc",
        "average_precision",
        "neg_log_loss",
    ],
    "regression": ["r2", "neg_root_mean_squared_error", "neg_mean_absolute_error", "explained_variance"],
    SURVIVAL: ["concordance"],
}
#: Scorers that need decision values of two classes.
OF_TWO_CLASSES = ("roc_auc",)


def scorers(task: str, n_classes: int) -> list[str]:
    """Scorers for a target."""
    return [name for name in SCORERS[task] if n_classes <= 2 or name not in OF_TWO_CLASSES]


def losses_for(task: str, names: Sequence[str]) -> list[str]:
    """Those of the names of losses that a task takes; other names, such as "auto", are kept."""

    def fits(kind: type[Loss]) -> bool:
        # a link is between numbers, and a loss that is no sum over rows is of survival
        return kind.rowwise and not (kind.classifies if task == "regression" else kind.linked)

    return [name for name in names if name not in LOSSES or fits(LOSSES[name])]


def has_probabilities(spec: Spec) -> bool:
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
    fields = list(learner_fields(name).values())
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
