"""The kernel of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._checks import InputError
from kernelweave._sparse import entries
from kernelweave.kernels.base import FloatArray, Kernel
from kernelweave.kernels.pairs import IncompleteRows, Others, is_node, mirror, pair_values, row_sums
from kernelweave.views import Table

__all__ = ["Tanimoto"]

#: Values computed at a time.
ENTRIES = 2**20


@dataclass(frozen=True)
class Tanimoto(Kernel):
    """The Tanimoto kernel of counts, k(x, z) = sum_j min(x_j, z_j) / sum_j max(x_j, z_j).

    Of columns of 0 and 1 it is the share of those that both rows have among those that one of them has (Jaccard), the
    usual similarity of fingerprints of molecules; of counts it is also called the MinMax kernel.

    Notes
    -----
    Cells must not be negative. Rows of zeros are equal to each other, with the value 1, and have 0 with all others.
    Graphs do not check the sign of cells. It has no small feature map; `Nystroem` approximates it.

    References
    ----------
    L. Ralaivola, S. J. Swamidass, H. Saigo, P. Baldi, Graph kernels for chemical informatics, Neural Networks 18, 2005,
    which proves that both forms are kernels.

    Examples
    --------
    >>> Tanimoto()([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [2.0, 2.0, 0.0]]).round(3)
    array([[1.   , 0.333, 0.5  ],
           [0.333, 1.   , 0.2  ],
           [0.5  , 0.2  , 1.   ]])
    """

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        A = _counts(left)
        B = A if right is None else _counts(right)
        own, other = row_sums(A), row_sums(B)
        if is_node(A):
            return _ratio(pair_values("l1", A, B), own[:, None] + other)
        K, others = np.empty((A.shape[0], B.shape[0])), Others.of("l1", B)
        step = max(1, ENTRIES // max(1, B.shape[0]))
        for start in range(0, len(K), step):
            rows = slice(start, start + step)
            K[rows] = _ratio(others.values(A[rows]), own[rows, None] + other)
        return mirror(K) if right is None else K

    def _diag(self, table: Table) -> FloatArray:
        return table.per_row(1.0)


def _counts(table: Table) -> Any:
    """The cells, checked."""
    values = table.take()
    if isinstance(values, IncompleteRows):
        raise InputError("Tanimoto cannot skip missing cells. Fill them with missing='impute'.")
    least = 0.0 if is_node(values) else float(entries(values).min(initial=0.0))
    if least < 0:
        raise InputError(
            f"Tanimoto compares counts, which are never negative, got {least:.3g}. Pass columns as they are, without "
            "`standardize`, or take RBF for numbers of any sign."
        )
    return values


def _ratio(distance: Any, total: Any) -> Any:
    """Sums of the smaller over sums of the larger cells, from sums of differences and of both cells."""
    larger = distance + total
    smaller = np.maximum(total - distance, 0.0)
    return np.where(larger > 0, smaller / np.where(larger > 0, larger, 1.0), 1.0)
