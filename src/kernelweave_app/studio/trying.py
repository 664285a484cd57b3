"""Whether the rows of a table can be divided as a run would do it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from kernelweave._errors import InputError
from kernelweave_app.runs.fitting import make_cv
from kernelweave_app.runs.preparing import Prepared
from kernelweave_app.runs.spec import FitSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def try_splits(spec: FitSpec, prepared: Prepared, train: NDArray[np.intp]) -> None:
    """Make the first fold, inner and outer: a splitter that cannot divide the rows raises an error."""
    if spec.nested == 1:
        raise InputError("Setting `nested`: at least 2 outer folds are needed, or 0 for none.")
    groups = None if prepared.groups is None else prepared.groups[train]
    for number in (spec.cv, spec.nested):
        if number:
            splitter = make_cv(spec.model_copy(update={"cv": number}), prepared.task)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the run itself warns of rare classes
                try:
                    next(iter(splitter.split(prepared.X.iloc[train], prepared.y[train], groups)))
                except ValueError as error:
                    raise InputError(f"The rows cannot be divided into {number} folds: {error}") from error
