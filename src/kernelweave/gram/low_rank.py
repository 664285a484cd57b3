"""Whether matrices can have low rank, decided from some of their rows."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from kernelweave._loops import core, packed_length, packed_rows
from kernelweave._types import Array

Rows = NDArray[np.intp]

#: Ranks above which some rows are tried before all.
WORTH_A_TRIAL = 16

_EPS = float(np.finfo(np.float64).eps)
#: Where pivoted Cholesky ends with residual 0: the largest difference on the diagonal, as a share of the entry.
ROUNDING = 8.0 * _EPS


@lru_cache(maxsize=4)
def some_rows(n_samples: int, size: int) -> Rows:
    """Some equally spaced rows."""
    size = min(size, n_samples)
    return np.arange(size) * n_samples // size


def of_higher_rank(block: Array, bound: float) -> bool:
    """Whether rows and columns of a kernel show that its rank is at least their number.

    Parameters
    ----------
    block : array of shape (n_rows, n_rows)
        Some rows and the same columns of a positive semidefinite matrix. Overwritten.
    bound : float
        Largest residual trace of a factor.

    Notes
    -----
    The residual of a factor Z of fewer rows on the block, E = K - Z'Z, is at most 8 units in the last place of each
    diagonal entry, or has a trace of at most `bound`. The smallest eigenvalue of the block, with unit diagonal, is at
    most that of E, at most 8 n_rows units. A Cholesky factorisation of the block less twice that, n_rows^3 / 3,
    succeeds only if it is larger, so that no kernel with an acceptable factor is excluded.
    """
    n_rows = len(block)
    diagonal = block.reshape(-1)[:: n_rows + 1]
    diagonal *= 1.0 - 16.0 * n_rows * _EPS
    diagonal -= bound
    _, info = lapack.dpotrf(block.T, lower=1, clean=0, overwrite_a=1)
    return info == 0


def hopeless(block: Array, cap: int, bound: float) -> bool:
    """Whether a factor of at most `cap` rows is impossible.

    Parameters
    ----------
    block : array of shape (n_rows, n_rows)
        `rows_to_see` of the kernel and the same columns.
    cap : int
    bound : float
        Largest residual trace of a factor.
    """
    n_rows = len(block)
    if n_rows <= cap:
        return False
    few = some_rows(n_rows, cap + 1)
    if of_higher_rank(np.ascontiguousarray(block[np.ix_(few, few)]), bound):
        return True
    return too_long(block, cap, bound)


def too_long(block: Array, cap: int, bound: float) -> bool:
    """Whether the factor of these rows is already too long, by more than rounding may add."""
    n_rows = len(block)
    if n_rows <= cap + 1:
        return False
    work = np.empty((cap + max(4, cap // 8), n_rows))
    return bool(core.pivoted_cholesky(block[_upper(n_rows)], bound, work)[0] < 0)


def rows_to_see(n_samples: int, cap: int) -> Rows:
    """Rows for `hopeless`."""
    return some_rows(n_samples, 2 * cap if cap >= WORTH_A_TRIAL else cap + 1)


def hopeless_triangle(triangle: Array, n_samples: int, cap: int, bound: float) -> bool:
    """The same of a packed triangle, of which no more is read than is needed."""
    if cap >= n_samples:
        return False
    few, seen = _places(n_samples, cap)
    return of_higher_rank(triangle[few], bound) or too_long(triangle[seen], cap, bound)


@lru_cache(maxsize=2)
def _upper(n_rows: int) -> tuple[Rows, Rows]:
    return np.triu_indices(n_rows)


@lru_cache(maxsize=2)
def _places(n_samples: int, cap: int) -> tuple[Rows, Rows]:
    """Positions of the `cap` + 1 rows that are tried first, and of all `rows_to_see`, with the same columns."""
    seen = rows_to_see(n_samples, cap)
    low, high = np.minimum(seen[:, None], seen), np.maximum(seen[:, None], seen)
    every = packed_rows(n_samples)[low] + high - low
    few = some_rows(len(seen), cap + 1)
    return every[np.ix_(few, few)], every


@lru_cache(maxsize=2)
def _directions(n_samples: int) -> Array:
    return np.random.default_rng(0).normal(size=(2, n_samples))


def follows(triangle: Array, factor: Array, tol: float) -> bool:
    """Whether a packed triangle is a factor's product up to `tol`, in the spectral norm.

    Parameters
    ----------
    triangle : array of shape (n_samples * (n_samples + 1) / 2,)
    factor : array of shape (rank, n_samples)
    tol : float
        Absolute.

    Notes
    -----
    The difference E is multiplied with two Gaussian vectors w. Along its leading eigenvector w has a standard normal
    share, which is below 1e-4 in size with probability 8e-5; so both products are at most ``1e-4 tol`` long although
    the norm of E is above `tol` with probability 7e-9 at most.
    """
    n_samples = factor.shape[1]
    assert len(triangle) == packed_length(n_samples)
    W = _directions(n_samples)
    out = np.empty((1, 2, n_samples))
    core.matvecs(triangle[None], np.zeros(1, dtype=np.int64), W, out)
    out[0] -= (W @ factor.T) @ factor
    return bool(np.linalg.norm(out[0], axis=1).max() <= 1e-4 * tol)
