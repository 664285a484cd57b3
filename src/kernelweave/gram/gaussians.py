"""Gaussian kernels of single columns as Fourier series: quadratic forms in time proportional to the rows.

On an interval of width D and for a period P > D, Poisson's formula says

    sum_j exp(-gamma (t + j P)^2) = sum_k a_k cos(2 pi k t / P) ,     |t| <= D ,

    a_0 = sqrt(pi / gamma) / P ,     a_k = 2 a_0 exp(-pi^2 k^2 / (gamma P^2)) .

The terms j != 0 add at most ``2 exp(-gamma (P - D)^2) / (1 - q)``, and the waves above k at most
``a_0 exp(-b k^2) / (b k)`` with ``b = pi^2 / (gamma P^2)``. All a_k are positive, so the series is a kernel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import LARGEST_NUMBER, Floats, InputError, as_floats
from kernelweave._types import Array, Index

#: Largest error of an entry of a kernel, without rounding.
ERROR = 1e-12
#: Values of gamma.
GAMMAS = Floats((0, 1), above=0.0, smallest=1e-100, largest=1e100)
#: Most waves of a kernel.
MOST_WAVES = 20_000


def series(spans: Array, gammas: Array) -> tuple[Array, Index, Array]:
    """Periods, numbers of waves and bounds of the error for kernels on intervals.

    Parameters
    ----------
    spans : array of shape (n_kernels,)
        Widths of the intervals.
    gammas : array of shape (n_kernels,)
    """
    periods = spans + np.sqrt(math.log(8.0 / ERROR) / gammas)
    around = 2.0 * np.exp(-gammas * np.square(periods - spans)) * (1.0 + 1e-6)
    b = np.square(math.pi / periods) / gammas
    a = np.sqrt(math.pi / gammas) / periods
    counts = np.ceil(np.sqrt(math.log(1.0 / ERROR) / b)) - 4.0
    counts = np.maximum(1.0, counts)

    def above(k: Array) -> Array:
        return a * np.exp(-b * np.square(k)) / (b * k)

    for _ in range(100):
        short = above(counts) > 0.5 * ERROR
        if not short.any():
            break
        counts[short] += 1.0
    most = float(counts.max())
    if most > MOST_WAVES:
        worst = int(np.argmax(counts))
        raise InputError(
            f"The values of a column span {spans[worst] * math.sqrt(gammas[worst]):.3g} widths 1/sqrt(gamma) of its "
            f"Gaussian kernel (gamma={gammas[worst]:.3g}), which is too many. Standardise the columns, limit values "
            "that lie far from all others, or choose a smaller `gamma`."
        )
    # waves are multiplied up, and lose a few units in the last place each
    rounding = 4.0 * np.finfo(np.float64).eps * (counts + 8.0)
    return periods, counts.astype(np.int64), around + above(counts) + rounding


def as_columns(X: Any) -> NDArray[Any]:
    """A table of float32 or float64, checked."""
    if not (isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)):
        X = as_floats(X, "X")
    if X.ndim != 2 or X.size == 0:
        raise InputError(
            f"`X` must have shape (n_samples, n_columns) with at least one of each, got {X.shape}."
        )
    return X


def check_range(low: Array, high: Array) -> None:
    """Raise for columns whose smallest and largest values are not finite, or too large."""
    wrong = ~(np.isfinite(low) & np.isfinite(high))
    if wrong.any():
        raise InputError(
            f"`X` must be finite, got NaN or infinity in {int(wrong.sum())} of {len(low)} columns, the first of them "
            f"column {int(np.flatnonzero(wrong)[0])}. Impute or drop them first."
        )
    largest = max(float(np.abs(low).max()), float(np.abs(high).max()))
    if largest > LARGEST_NUMBER:
        raise InputError(f"`X` must not hold numbers above {LARGEST_NUMBER:g} in size, got {largest:.3g}.")
