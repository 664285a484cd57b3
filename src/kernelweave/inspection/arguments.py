"""Arguments of inspection: an estimator, one of its outputs, and rows in every form that `fit` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelweave._checks import InputError, check_known
from kernelweave._parameters import Function, InstanceOf, Number, OneOf, Rule, Text, Unfit, Whole
from kernelweave._types import Labels
from kernelweave.estimators import BaseMKL, MKLClassifier, MKLRegressor, MKLSurvival

#: Names of kernels.
Names = NDArray[np.object_]


@dataclass(frozen=True)
class FittedModel(InstanceOf):
    """A fitted estimator of this package."""

    classes: tuple[type, ...] = (MKLClassifier, MKLRegressor, MKLSurvival)
    said: str = "a fitted MKLRegressor, MKLClassifier, one of their CV variants, or MKLSurvival"

    def read(self, value: Any) -> Any:
        """The estimator; raises `NotFittedError` of scikit-learn before `fit`."""
        check_is_fitted(super().read(value))
        return value


#: A fitted estimator.
Model = Annotated[BaseMKL, FittedModel()]

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


def output_of(estimator: BaseMKL, output: str | int | None) -> tuple[int, str]:
    """Position and name of a class or output with its own weights, of a fitted estimator."""
    outputs = outputs_of(estimator)
    which = which_output(outputs, output)
    return which, outputs[which]


def targets_of(estimator: Model, which: int) -> Labels:
    """The classes, or the targets of one output, of the training rows."""
    task, classes = estimator.model_.task, getattr(estimator, "classes_", None)
    if classes is None:
        return task.targets[0][:, which]
    return task.codes[:, which] if task.multilabel else classes[task.codes]


# ---- rows ------------------------------------------------------------------------------------------

Estimator = Annotated[BaseEstimator, InstanceOf((BaseEstimator,), "an estimator of scikit-learn's kind")]
Scoring = Annotated[str | Callable[..., float] | None, Text() | Function() | None]
#: Arguments of `fit` with an entry for each row.
Params = Annotated[Mapping[str, ArrayLike] | None, InstanceOf((Mapping,), "a dict of arrays") | None]
#: Called with a text after every fit; a true value ends, like Ctrl-C, and what is done is kept.
Report = Annotated[Callable[[str], bool] | None, Function() | None]
#: Fits at the same time.
Jobs = Annotated[int | None, Whole(1) | Whole(None, -1) | None]
#: The share of intervals.
Level = Annotated[float, Number(above=0, below=1)]


@dataclass(frozen=True)
class OfRows(Rule):
    """An array with an entry for each row: numbers, texts or truth values.

    Attributes
    ----------
    ndim : tuple of int
        Admissible numbers of dimensions.
    """

    ndim: tuple[int, ...] = (1,)

    def read(self, value: Any) -> Any:
        """The array; frames stay what they are, and so do series where a frame may stand."""
        if value is None or isinstance(value, str | bytes):
            raise Unfit
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):  # rows of different lengths
            raise Unfit from None
        if array.ndim not in self.ndim or not array.size or array.dtype.kind not in "biufUSO":
            raise Unfit("", f"shape {array.shape}")
        if array.dtype.kind == "O" and any(isinstance(entry, list | dict) for entry in array.flat):
            raise Unfit
        return value if hasattr(value, "iloc") and 2 in self.ndim else array

    def kinds(self) -> tuple[str, ...]:
        """The types that it takes."""
        return ("ArrayLike",)

    def words(self) -> str:
        """What is expected."""
        return f"an array with an entry for each row ({' or '.join(f'{d}D' for d in self.ndim)})"


#: Classes or numbers of rows, and of rows and targets.
Entries = Annotated[ArrayLike, OfRows()]
OptionalEntries = Annotated[ArrayLike | None, OfRows() | None]
Targets = Annotated[ArrayLike, OfRows((1, 2))]
OptionalTargets = Annotated[ArrayLike | None, OfRows((1, 2)) | None]
