"""Arguments of inspection: an estimator and one of its outputs."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from kernelweave._checks import InputError, check_known
from kernelweave._parameters import InstanceOf, OneOf, Text, Whole
from kernelweave._types import Labels
from kernelweave.estimators import BaseMKL, MKLClassifier, MKLRegressor

#: A fitted estimator.
Model = Annotated[
    Any,
    InstanceOf(
        (MKLClassifier, MKLRegressor), "a fitted MKLRegressor, MKLClassifier or one of their CV variants"
    ),
]

#: Which class or output of a model with several: its name or position.
Output = Annotated[str | int | None, Text() | Whole() | None]

#: The weights of the model, or the equal ones that learners start from.
WhichWeights = Annotated[str, OneOf("learnt", "initial")]

#: Of more training rows, as many as this are drawn at random, with a seed.
MostRows = Annotated[int, Whole(2)]
Seed = Annotated[int, Whole(0)]


def outputs_of(estimator: BaseMKL) -> tuple[str, ...]:
    """Names of the classes or outputs with separate weights; one empty name if there is only one."""
    return ("",) if estimator.model_.weights.ndim == 1 else decision_names(estimator)


def decision_names(estimator: BaseMKL) -> tuple[str, ...]:
    """Names of several columns of decision values, which may share their weights."""
    named = class_names(estimator) or target_names(estimator)
    return named or tuple(f"output {k}" for k in range(estimator.model_.n_outputs))


def target_names(estimator: Any) -> tuple[str, ...]:
    """Names of several labels or several outputs; none for one target."""
    return tuple(map(str, getattr(estimator, "label_names_", getattr(estimator, "output_names_", ()))))


def class_names(estimator: Any) -> tuple[str, ...]:
    """Names of the classes, or of the labels of multilabel targets; none for regression."""
    return tuple(map(str, getattr(estimator, "label_names_", getattr(estimator, "classes_", ()))))


def which_output(outputs: tuple[str, ...], output: str | int | None) -> int:
    """Position of a class or output; the first by default."""
    if output is None:
        return 0
    which = (
        int(output)
        if isinstance(output, int | np.integer)
        else outputs.index(check_known(str(output), outputs, "output"))
    )
    if not 0 <= which < len(outputs):
        raise InputError(f"`output` must be from 0 to {len(outputs) - 1}, got {output!r}.")
    return which


def targets_of(estimator: Model, which: int) -> Labels:
    """The classes, or the targets of one output, of the training rows."""
    task, classes = estimator.model_.task, getattr(estimator, "classes_", None)
    if classes is None:
        targets = task.targets
        return targets[0][:, min(which, targets[0].shape[1] - 1)]
    return task.codes[:, which] if task.multilabel else classes[task.codes]
