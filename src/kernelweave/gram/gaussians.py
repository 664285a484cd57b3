"""Gaussian kernels of single columns as Fourier series: quadratic forms in time proportional to the rows.

On an interval of width D and for a period P > D, Poisson's formula says

    sum_j exp(-gamma (t + j P)^2) = sum_k a_k cos(2 pi k t / P) ,     |t| <= D ,

    a_0 = sqrt(pi / gamma) / P ,     a_k = 2 a_0 exp(-pi^2 k^2 / (gamma P^2)) .

The terms j != 0 add at most ``2 exp(-gamma (P - D)^2) / (1 - q)``, and the waves above k at most
``a_0 exp(-b k^2) / (b k)`` with ``b = pi^2 / (gamma P^2)``. All a_k are positive, so the series is a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import LARGEST_NUMBER, InputError, as_floats
from kernelweave._loops import core
from kernelweave._parameters import shown
from kernelweave.gram.base import Array, Index
from kernelweave.gram.features import PIECE

#: Largest error of an entry of a kernel, without rounding.
ERROR = 1e-12
#: Smallest gamma, and the inverse of the largest.
LEAST = 1e-100
#: Most waves of a kernel.
MOST_WAVES = 20_000


class ColumnGaussians:
    """``exp(-gamma (x - z)^2)`` for every column of a table and every gamma, evaluated when needed.

    Parameters
    ----------
    X : array of shape (n_samples, n_columns)
        float32 or float64 in any order of memory, also memory-mapped. Held, not copied.
    gammas : array of shape (n_gammas,)
        Kernel ``j * n_gammas + g`` is that of column j with ``gammas[g]``.

    Attributes
    ----------
    n_samples, n_kernels : int
    widths : array of int, shape (n_kernels,)
        Columns of the factors.
    errors : array of shape (n_kernels,)
        Bounds of the error of every entry of a kernel.
    """

    def __init__(self, X: Any, gammas: Array) -> None:
        self.X, self.gammas = X, gammas
        self.n_samples, n_columns = map(int, X.shape)
        self.n_kernels = n_columns * len(gammas)
        low, high = np.empty(n_columns), np.empty(n_columns)
        for part, columns in self._pieces(np.arange(n_columns)):
            low[part], high[part] = columns.min(axis=1), columns.max(axis=1)
        _check_finite(X, low, high)
        self.middles = 0.5 * (low + high)
        # the middle is rounded
        spans = (high - low) * (1.0 + 4.0 * np.finfo(np.float64).eps)
        self.periods, self.counts, self.errors = series(
            np.repeat(spans, len(gammas)), np.tile(gammas, n_columns)
        )

    @property
    def widths(self) -> Index:
        return 2 * self.counts + 1

    def traces(self, weights: Array) -> Array:
        """``sum_i weights[i] K_m(x_i, x_i)``, shape (n_kernels,)."""
        return np.full(self.n_kernels, float(weights.sum()))

    def looks(self, C: Array, kernels: Index, weights: Array | None) -> Iterator[tuple[slice, Array, Array]]:
        """Quadratic forms of the rows of C, piece by piece: places among `kernels`, forms and traces."""
        count = len(self.gammas)
        rate = 0.0 if weights is None else float(weights.sum())
        columns = kernels // count
        chosen, place = np.unique(columns, return_inverse=True)
        for part, piece in self._pieces(chosen):
            inside = np.flatnonzero((place >= part.start) & (place < part.stop))
            own = kernels[inside]
            out = np.empty((len(C), len(own)))
            core.gaussian_quadratic_forms(
                piece,
                np.ascontiguousarray(place[inside] - part.start),
                self.middles[columns[inside]],
                self.periods[own],
                self.counts[own],
                self.gammas[own % count],
                C,
                out,
            )
            # kernels come in order, so that those of a piece are neighbours
            yield slice(int(inside[0]), int(inside[-1]) + 1), out, np.full(len(own), rate)

    def factor(self, kernel: int) -> Array:
        """Rows F with ``K = F'F`` to `errors`, shape (widths[kernel], n_samples)."""
        column, g = divmod(int(kernel), len(self.gammas))
        gamma, period = float(self.gammas[g]), float(self.periods[kernel])
        x = np.asarray(self.X[:, column], dtype=np.float64)
        k = np.arange(self.counts[kernel] + 1.0)
        a = np.where(k > 0, 2.0, 1.0) * math.sqrt(math.pi / gamma) / period
        root = np.sqrt(a * np.exp(-np.square(math.pi * k / period) / gamma))[:, None]
        angles = np.multiply.outer(k, (x - self.middles[column]) * (2.0 * math.pi / period))
        return np.concatenate([root * np.cos(angles), root[1:] * np.sin(angles[1:])])

    def factors(self, kernels: Index) -> Iterator[Array]:
        """The same of some kernels, one after another."""
        for kernel in kernels:
            yield self.factor(int(kernel))

    def products(self, C: Array, kernels: Index) -> Iterator[Array]:
        """``C K`` for some kernels, shape of C."""
        for F in self.factors(kernels):
            yield (C @ F.T) @ F

    def restrict(self, rows: Index) -> ColumnGaussians:
        """The same kernels on some of the rows (a copy)."""
        return ColumnGaussians(self.X[rows], self.gammas)

    def _pieces(self, columns: Index) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Some columns as rows in order of memory, a piece at a time."""
        step = max(1, PIECE // self.n_samples)
        for first in range(0, len(columns), step):
            part = slice(first, min(first + step, len(columns)))
            own = columns[part]
            together = own[-1] - own[0] + 1 == len(own)
            yield part, np.ascontiguousarray(self.X[:, slice(own[0], own[-1] + 1) if together else own].T)


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


def as_column_gaussians(X: Any, gamma: Any) -> ColumnGaussians:
    """Check a table and the values of gamma."""
    if not (isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)):
        X = as_floats(X, "X")
    if X.ndim != 2 or X.size == 0:
        raise InputError(
            f"`X` must have shape (n_samples, n_columns) with at least one of each, got {X.shape}."
        )
    gammas = np.atleast_1d(as_floats(gamma, "gamma"))
    if gammas.ndim != 1 or not len(gammas) or not ((gammas >= LEAST) & (gammas <= 1.0 / LEAST)).all():
        raise InputError(
            f"`gamma` must be a number from {LEAST:g} to {1 / LEAST:g}, or a list of such, got {shown(gamma)}."
        )
    return ColumnGaussians(X, gammas)


def _check_finite(X: Any, low: Array, high: Array) -> None:
    wrong = ~(np.isfinite(low) & np.isfinite(high))
    if wrong.any():
        raise InputError(
            f"`X` must be finite, got NaN or infinity in {int(wrong.sum())} of {len(low)} columns, the first of them "
            f"column {int(np.flatnonzero(wrong)[0])}. Impute or drop them first."
        )
    largest = max(float(np.abs(low).max()), float(np.abs(high).max()))
    if largest > LARGEST_NUMBER:
        raise InputError(f"`X` must not hold numbers above {LARGEST_NUMBER:g} in size, got {largest:.3g}.")
