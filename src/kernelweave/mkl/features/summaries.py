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

from kernelweave._checks import InputError
from kernelweave._types import Array
from kernelweave.gram.features import FeatureStack
from kernelweave.gram.statistics import BlockStatistics
from kernelweave.machines.rounding import EPS
from kernelweave.mkl.ridge_problem import SAFETY


@dataclass(frozen=True)
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


def summarised(statistics: BlockStatistics, *, centered: bool) -> tuple[FeatureStack, Array, Summary]:
    """Rows of features and of targets that stand for those of statistics, about their means or about zero."""
    if not statistics.n_rows or statistics.groups is None:
        raise InputError("`gram` must be statistics of at least one row, got none. Add rows first.")
    p, T = statistics.n_features, statistics.n_outputs
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
    return FeatureStack(Z, statistics.groups), targets, summary


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
    Z = np.zeros((rank + T, p + T), order="F")
    Z[:rank, order] = np.triu(A[:rank])
    Z = Z[:, :p]
    lead = np.triu(A[:rank, :rank])
    del A
    inner = solve_triangular(lead, P[order[:rank]], trans=1) if rank else np.zeros((0, T))
    # what was left out of G, and products of these columns with the targets that the factor does not have
    lost = np.abs(P - Z[:rank].T @ inner).max(initial=0.0)
    return Z, inner, floor + 2.0 * float(lost)
