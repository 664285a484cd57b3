"""Problems on rows that are read in chunks, checked, and their solutions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError
from kernelweave.gram import ChunkedFeatures
from kernelweave.machines.loss import Loss
from kernelweave.mkl.features.norms import SUMS
from kernelweave.mkl.features.problem import FeatureProblem, make_margin_feature_problem
from kernelweave.mkl.features.row_newton import RowDescent, Start
from kernelweave.mkl.weight_sets import WeightSet
from kernelweave.results import Solution

Array = NDArray[np.float64]


def make_chunked_problem(
    rows: ChunkedFeatures,
    y: ArrayLike | None,
    C: float,
    weight_set: str | WeightSet,
    *,
    loss: str | Loss,
    sample_weight: ArrayLike | None,
    scale: ArrayLike | None,
    fit_intercept: bool = True,
) -> FeatureProblem:
    """Check arguments beside rows that have their own targets and weights."""
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise InputError(
                f"`{name}` must be None for RowFeatures, which have it, got values. Pass it to RowFeatures."
            )
    return make_margin_feature_problem(
        rows,
        rows.y,
        C,
        weight_set,
        loss=loss,
        sample_weight=rows.sample_weight,
        scale=scale,
        fit_intercept=fit_intercept,
    )


def solve_on_chunks(
    problem: FeatureProblem,
    Cs: Array,
    method: str,
    *,
    tol: float,
    max_iter: int | None = None,
    callback: Callable[[int, float, float], object] | None = None,
    start: Start | None = None,
) -> list[Solution]:
    """Solutions for ascending C, all in the same passes; after an interruption those that have begun."""
    check_for_chunks(method, problem.weight_set)
    descent = RowDescent(problem, Cs, tol=tol, max_iter=max_iter, callback=callback, start=start)
    return descent.solutions()


def check_for_chunks(method: str, weight_set: WeightSet) -> None:
    """Raise for a method or a set of weights that needs all rows in memory."""
    if method != "auto" or not isinstance(weight_set, SUMS):
        names = " or ".join(kind.__name__ for kind in SUMS)
        raise InputError(
            f"`method` must be 'auto', with weights of a {names}, for RowFeatures, got {method!r} and "
            f"{weight_set!r}. Others need all rows in memory: pass a FeatureStack."
        )
