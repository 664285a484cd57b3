"""Bounds of rounding errors in a certificate, which are part of every reported gap.

A sum of k terms is off by at most ``k u`` times the sum of their sizes, with u half the distance of floating-point
numbers near 1. `sum_error` is ``(4 + 2 sqrt(k)) u``: errors of both signs cancel, and the loops here add four terms or
more at a time, so that no sum is a chain of more than k / 4 roundings. Up to 150 terms that is the worst case of such a
chain, and beyond it four times the root of its length, which is the form of the probabilistic bounds.

References
----------
N. J. Higham, T. Mary, A new approach to probabilistic rounding error analysis, SIAM Journal on Scientific Computing 41
(2019).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from kernelweave._loops import core
from kernelweave._types import Array

EPS = float(np.finfo(np.float64).eps)


#: Equal to double precision on platforms without extended precision.
LONG_EPS = float(np.finfo(np.longdouble).eps)


@lru_cache
def sum_error(n_terms: int, *, long: bool = False) -> float:
    """Error of a sum of that many terms, as a share of the sum of their sizes."""
    return (LONG_EPS if long else EPS) * (2.0 + math.sqrt(n_terms))


@lru_cache
def entry_error(n_terms: int) -> float:
    """Error of the entries of a sum of kernels with that many terms, as a share of ``sqrt(K_ii K_jj)``."""
    # once for the sum, and once for weights whose own sum is not quite 1
    return 2.0 * sum_error(n_terms)


def imbalance(b: Array) -> tuple[float, Array]:
    """Share to subtract from the heavier side of b, so that ``sum(b) = 0``, and the sizes on that side."""
    missing = float(core.compensated_sum(b))
    side = np.maximum(b, 0.0) if missing > 0.0 else np.maximum(-b, 0.0)
    total = float(side.sum())
    return (abs(missing) / total if total > 0.0 else 0.0), side


def balanced(b: Array) -> Array:
    """Coefficients with the remaining sum subtracted from the heavier side."""
    share, side = imbalance(b)
    return b if share == 0.0 else b - np.sign(b) * side * share
