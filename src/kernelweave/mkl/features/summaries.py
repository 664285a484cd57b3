"""RLS2 from statistics: as many rows as features stand for all rows.

For the columns of ``A = [Z, y]`` let ``A'A = R'R`` with triangular R, the Cholesky factor. Its rows are features and
targets with the same products, so that the objective is the same for all coefficients: R has a row for each
feature, and one for each output, which holds the part of the targets that no feature explains. Where rounding errors
make the square of that part negative it is a constant of the objective instead. Products about the means give the
problem with an intercept, ``ybar - w'zbar``.

A product of two columns is known up to rounding errors of ``epsilon ||z_i|| ||z_j||``, and the objective at w up to

    epsilon (||y|| + sum_j |w_j| ||z_j||)^2 / 2 ,

where solving on the rows has errors of ``epsilon ||y - Z w|| (||y|| + sum_j |w_j| ||z_j||)``: that is what squaring the
condition costs, and it is in the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from kernelweave._allowance import machine_memory
from kernelweave._checks import InputError, warn_user
from kernelweave._errors import KernelWarning
from kernelweave._types import Array, Index
from kernelweave.gram.base import pieces
from kernelweave.gram.features import FeatureStack
from kernelweave.gram.statistics import BlockStatistics
from kernelweave.machines.rounding import EPS
from kernelweave.mkl.ridge_problem import SAFETY

#: Rows of the factor that are worked on at a time.
WIDTH = 1024


class RowsInstead(FeatureStack):
    """Rows of features that stand for others. They are the solver's, which turns blocks where they lie.

    Columns, products and combinations are those of the features as they were: they are turned on their way, so that a
    problem and its certificates are the same before and after. Not for several threads at once.

    Parameters
    ----------
    Z : array of shape (n_samples, n_features)
        In the order of Fortran. It is changed.
    groups : array of int, shape (n_kernels + 1,)

    Attributes
    ----------
    turns : dict of int to array of shape (width, width)
        Of the blocks that were turned: what coefficients of the turned columns are multiplied by.
    """

    def __init__(self, Z: Array, groups: Index) -> None:
        super().__init__(Z, groups)  # which takes the squared norms of the columns as they are
        self.turns: dict[int, Array] = {}
        self._factors = np.ones(self.n_features)

    @property
    def rows(self) -> Array:
        """The columns as they lie in memory, as rows."""
        return np.asarray(self.Z.T)

    def turn(self, kernel: int, factor: float) -> Array:
        """Multiply a block by a factor, and make its columns orthogonal; returns their squared norms.

        Parameters
        ----------
        kernel : int
            Position of the block.
        factor : float
            What the columns as they were are multiplied by.
        """
        own = slice(int(self.groups[kernel]), int(self.groups[kernel + 1]))
        rows = self.rows[own]
        if len(rows) > 1 and kernel not in self.turns:
            turn = self.turns[kernel] = np.linalg.eigh(rows @ rows.T)[1]
            for part in pieces(self.n_samples, WIDTH):
                rows[:, part] = turn.T @ rows[:, part]
        rows *= factor / self._factors[own.start]
        self._factors[own] = factor
        return np.einsum("ij,ij->i", rows, rows)

    def products(self, R: Array) -> Array:
        """``R Z``, shape (n_vectors, n_features)."""
        out = super().products(R) / self._factors
        for kernel, turn in self.turns.items():
            own = slice(int(self.groups[kernel]), int(self.groups[kernel + 1]))
            out[:, own] = out[:, own] @ turn.T
        return out

    def combine(self, index: Index, coef: Array) -> Array:
        """``coef Z[:, index]'``, shape (n_vectors, n_samples)."""
        W = np.zeros((len(coef), self.n_features))
        W[:, index] = coef
        for kernel in self._blocks_of(index):
            if kernel in self.turns:
                own = slice(int(self.groups[kernel]), int(self.groups[kernel + 1]))
                W[:, own] = W[:, own] @ self.turns[kernel]
        used = np.flatnonzero(W.any(axis=0))
        return super().combine(used, W[:, used] / self._factors[used])

    def columns(self, index: Index) -> Array:
        """Some columns as rows, shape (len(index), n_samples)."""
        kernels = self._blocks_of(index)
        owned = self.owned(kernels)
        out = super().columns(owned)
        out /= self._factors[owned][:, None]
        first = 0
        for kernel in kernels:
            last = first + int(self.widths[kernel])
            if kernel in self.turns:
                out[first:last] = self.turns[kernel] @ out[first:last]
            first = last
        return out if np.array_equal(owned, index) else out[np.searchsorted(owned, index)]

    def _blocks_of(self, index: Index) -> Index:
        return np.unique(np.searchsorted(self.groups, index, side="right") - 1)


@dataclass(frozen=True, eq=False)
class Summary:
    """The rows that the rows of a problem stand for, if these are fewer rows with the same products.

    Attributes
    ----------
    feature_means, target_means : arrays of shape (n_features,) and (n_outputs,)
        For the intercept; zeros without.
    weight_sum : float
        Sum of the weights of all rows.
    error : float
        Relative rounding errors of the products of two columns, and of their factor.
    stretch : float
        Lengths of columns for these errors, as a multiple of their present ones: above 1 after subtractions.
    constants : array of shape (n_outputs,)
        Added to the objective of each output; all <= 0.
    """

    feature_means: Array
    target_means: Array
    weight_sum: float
    error: float
    stretch: float
    constants: Array


def summarised(statistics: BlockStatistics, *, centered: bool) -> tuple[RowsInstead, Array, Summary]:
    """Rows of features and of targets that stand for those of statistics, about their means or about zero."""
    if not statistics.n_rows or statistics.groups is None:
        raise InputError("Statistics must be of at least one row, got none. Add rows first.")
    p, T = statistics.n_features, statistics.n_outputs
    needed, there = 8.0 * (p + T) ** 2, machine_memory()
    if there is not None and needed > there:
        warn_user(
            f"A factor of {p + T:,} columns takes {needed / 2**30:.1f} GB, more than the {there / 2**30:.1f} GB of "
            "this machine. Take fewer columns.",
            KernelWarning,
        )
    lengths = np.sqrt(statistics.reach(centered=centered))
    lengths[lengths == 0] = 1.0

    def white() -> Array:
        A = statistics.upper_products(centered=centered)
        A /= lengths[:, None]
        A /= lengths
        return A

    squares = statistics.squares(centered=centered)
    Z, inner, error = _factor(white, p)
    left = squares[p:] / np.square(lengths[p:]) - np.square(inner).sum(axis=0)
    Z *= lengths[:p]
    targets = np.concatenate([inner, np.diag(np.sqrt(np.maximum(left, 0.0)))]) * lengths[p:]
    # sums over rows, and over columns in the factor, of which each loses a part of its last digit
    error += 0.5 * EPS * SAFETY * math.sqrt(statistics.n_rows + p + T + 8.0)
    now = np.sqrt(np.maximum(squares, 0.0))
    known = now > 0
    stretch = float((lengths[known] / now[known]).max(initial=1.0))
    zeros = np.zeros(p + T)
    means = np.r_[statistics.feature_means, statistics.target_means] if centered else zeros
    summary = Summary(
        feature_means=means[:p],
        target_means=means[p:],
        weight_sum=statistics.weight_sum,
        error=error,
        stretch=stretch,
        constants=0.5 * np.minimum(left, 0.0) * np.square(lengths[p:]),
    )
    return RowsInstead(Z, statistics.groups), targets, summary


def _factor(products: Callable[[], Array], p: int) -> tuple[Array, Array, float]:
    """Rows Z of features, the last ones zero, with ``Z'Z = G``, ``t`` with ``Z't = P``, and the relative error of both.

    Columns have lengths up to one. Without pivots where the matrix is clearly positive definite, else with them, up to
    columns that are combinations of others but for rounding errors.

    Parameters
    ----------
    products : callable
        Makes the upper triangle of G and P side by side, shape (p + n_outputs, p + n_outputs), which is overwritten: it
        takes as much memory as all else.
    p : int
        Number of features.

    Returns
    -------
    Z : array of shape (rank + n_outputs, p)
    t : array of shape (rank, n_outputs)
    error : float
    """
    floor = EPS * max(p, 8)
    A = products()
    T = len(A) - p
    # products of targets are left out: the factorisation goes on beside these columns, and cannot fail there
    A[p:, p:] = np.eye(T) * (4.0 * (p + 1.0))
    A, info = lapack.dpotrf(A, lower=0, clean=1, overwrite_a=1)
    if info == 0 and float(np.square(np.diag(A)[:p]).min()) > 16.0 * floor:
        inner = A[:p, p:].copy()
        A[p:, p:] = 0.0
        return A[:, :p], inner, 0.0
    del A
    A = products()
    P = A[:p, p:].copy()
    # columns of zeros are never pivots, and let the factor take the place of the products
    A[:, p:] = 0.0
    A, pivots, rank, _ = lapack.dpstrf(A, lower=0, tol=floor, overwrite_a=1)
    rank, order = int(rank), np.asarray(pivots) - 1
    inner = np.zeros((rank, T))
    for part in pieces(rank, WIDTH):
        known = P[order[part]] - A[: part.start, part].T @ inner[: part.start]
        inner[part] = solve_triangular(A[part, part], known, trans=1)
    Z = _in_order(A, rank, order, rank + T)[:, :p]
    # what was left out of G, and products of these columns with the targets that the factor does not have
    lost = np.abs(P - Z[:rank].T @ inner).max(initial=0.0)
    return Z, inner, floor + 2.0 * float(lost)


def _in_order(A: Array, rank: int, order: Index, n_rows: int) -> Array:
    """The factor of `rank` rows with its columns in their own order, shape (n_rows, n_columns), in the memory of A.

    Parameters
    ----------
    A : array of shape (n_columns, n_columns)
        In the order of Fortran, the factor above its diagonal. It is overwritten.
    rank : int
    order : array of int, shape (n_columns,)
        Which column each one is.
    n_rows : int
        At least `rank`; the others are zero.
    """
    size = len(A)
    for k in range(size):
        A[min(k + 1, rank) :, k] = 0.0
    moved = np.zeros(size, dtype=bool)
    for first in range(size):
        # along a cycle of the permutation
        k, held = first, A[:n_rows, first].copy()
        while not moved[k]:
            moved[k], to = True, int(order[k])
            following = A[:n_rows, to].copy()
            A[:n_rows, to] = held
            k, held = to, following
    flat = A.T.reshape(-1)
    for k in range(size):
        flat[k * n_rows : (k + 1) * n_rows] = flat[k * size : k * size + n_rows]
    return flat[: n_rows * size].reshape(size, n_rows).T
