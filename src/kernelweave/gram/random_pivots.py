"""Pivots of a positive semidefinite matrix by randomly pivoted Cholesky, from blocks of it and never the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, solve_triangular

from kernelweave._checks import InputError
from kernelweave._types import Array

Rows = NDArray[np.intp]

#: Entries of the matrix: ``block(rows, columns)`` of shape (len(rows), len(columns)); None stands for all rows.
Block = Callable[[Rows | None, Rows], Array]

#: A pivot whose remaining diagonal is below this share of its own is a combination of the others.
DEPENDENT = 1e-10
#: Proposals at a time, as a share of the pivots that are wanted, and their least and largest number.
BLOCK_SHARE, BLOCK_LEAST, BLOCK_MOST = 0.1, 8, 128


@dataclass(frozen=True, eq=False)
class Pivots:
    """Pivots with the Cholesky factor of the matrix on them.

    Attributes
    ----------
    rows : array of int, shape (n_pivots,)
        In the order in which they were taken.
    factor : array of shape (n_pivots, n_pivots)
        Lower triangular L with ``L L' = K[rows, rows]``.
    residual : array of shape (n,)
        Diagonal of ``K - K[:, rows] K[rows, rows]^-1 K[rows, :]``, not negative.
    """

    rows: Rows
    factor: Array
    residual: Array


def random_pivots(
    block: Block, diagonal: Array, weights: Array, n_pivots: int, tol: float, rng: np.random.Generator
) -> Pivots:
    """Accelerated randomly pivoted Cholesky.

    Every pivot is drawn with a probability proportional to what the earlier ones leave of its diagonal entry. Rows are
    proposed many at a time, with what is left before any of them is taken, and each is rejected with the share of it
    that the ones accepted before it explain, so that pivots have the distribution of those that are drawn one by one.

    Parameters
    ----------
    block : callable
    diagonal : array of shape (n,)
    weights : array of shape (n,)
        Positive; a weight equals as many repetitions of the row.
    n_pivots : int
        Most pivots.
    tol : float
        The search ends when the weighted trace of the residual is at most this share of the weighted trace.
    rng : numpy.random.Generator

    Returns
    -------
    Pivots

    Raises
    ------
    InputError
        If a remaining diagonal entry is negative: the matrix is not positive semidefinite.

    Notes
    -----
    Time O(n n_pivots^2) and ``n n_pivots`` entries of the matrix; memory O(n n_pivots).

    References
    ----------
    E. N. Epperly, J. A. Tropp and R. J. Webber, Embrace rejection: kernel matrix approximation by accelerated randomly
    pivoted Cholesky, arXiv 2410.03969, Algorithms 2.1 and 2.2.

    Examples
    --------
    >>> K = np.diag([4.0, 1.0, 0.0])
    >>> found = random_pivots(lambda i, j: K[:, j] if i is None else K[np.ix_(i, j)], K.diagonal(), np.ones(3), 3, 0.0,
    ...     np.random.default_rng(0))
    >>> sorted(found.rows.tolist()), found.residual.tolist()
    ([0, 1], [0.0, 0.0, 0.0])
    """
    n = len(diagonal)
    n_pivots = min(n_pivots, n)
    rows: list[int] = []
    factor = np.empty((n_pivots, n))
    left = diagonal.astype(np.float64)
    least = DEPENDENT * np.maximum(left, 0.0)
    enough = tol * float(weights @ left)
    size = int(min(max(BLOCK_SHARE * n_pivots, BLOCK_LEAST), BLOCK_MOST))
    while len(rows) < n_pivots:
        mass = np.where(left > least, weights * left, 0.0)
        total = float(mass.sum())
        if total <= enough or total <= 0.0:
            break
        proposed = rng.choice(n, size=size, p=mass / total)
        known = factor[: len(rows), proposed]
        H = block(proposed, proposed) - known.T @ known
        taken, L = _accepted(H, left[proposed], least[proposed], rng, n_pivots - len(rows))
        new = proposed[taken]
        known = factor[: len(rows)]
        G = block(None, new).T - known[:, new].T @ known
        done = len(rows)
        factor[done : done + len(new)] = solve_triangular(L, G, lower=True, check_finite=False)
        rows.extend(new.tolist())
        left = left - np.square(factor[done : len(rows)]).sum(axis=0)
        if (left < -1e-6 * np.abs(diagonal) - 1e-300).any():
            raise InputError(
                "Pivots need a positive semidefinite kernel, got one with a negative eigenvalue. Use a kernel whose "
                "matrices are positive semidefinite."
            )
        left = np.maximum(left, 0.0)
        left[new] = 0.0
    index = np.array(rows, dtype=np.intp)
    return Pivots(index, np.tril(factor[: len(rows)][:, index].T), left)


def _accepted(H: Array, left: Array, least: Array, rng: np.random.Generator, most: int) -> tuple[Rows, Array]:
    """Positions of the proposals that are taken, and the Cholesky factor of `H` on them; at least one."""
    limits = rng.random(len(H)) * left
    taken: list[int] = []
    columns = np.zeros((len(H), min(most, len(H))))
    own = H.diagonal().copy()
    for i in range(len(H)):
        # the first is always taken: nothing was accepted before it
        if len(taken) == most or (taken and not (own[i] > limits[i] and own[i] > least[i])):
            continue
        k = len(taken)
        root = np.sqrt(max(own[i], np.finfo(np.float64).tiny))
        column = (H[:, i] - columns[:, :k] @ columns[i, :k]) / root
        column[taken] = 0.0
        column[i] = root
        columns[:, k] = column
        own -= np.square(column)
        taken.append(i)
    index = np.array(taken, dtype=np.intp)
    return index, np.tril(columns[index, : len(index)])


def given_pivots(K: Array) -> tuple[Rows, Array]:
    """Rows of a positive semidefinite matrix that are not combinations of others, and its Cholesky factor on them.

    Parameters
    ----------
    K : array of shape (n, n)

    Returns
    -------
    rows : array of int, shape (rank,)
    factor : array of shape (rank, rank)
        Lower triangular.
    """
    n = len(K)
    left = K.diagonal().copy()
    least = DEPENDENT * np.maximum(left, 0.0)
    factor = np.zeros((n, n))
    rows: list[int] = []
    for k in range(n):
        best = int(np.argmax(np.where(left > least, left, -np.inf)))
        if not left[best] > least[best]:
            break
        column = (K[:, best] - factor[:, :k] @ factor[best, :k]) / np.sqrt(left[best])
        factor[:, k] = column
        left -= np.square(column)
        left[best] = 0.0
        rows.append(best)
    index = np.array(rows, dtype=np.intp)
    return index, np.tril(factor[index, : len(index)])


def solve_lower(factor: Array, B: Array) -> Array:
    """``B L^-T`` for rows B (n, rank) and a lower triangular L, shape (n, rank)."""
    return np.ascontiguousarray(blas.dtrsm(1.0, factor, B.T, lower=1).T)
