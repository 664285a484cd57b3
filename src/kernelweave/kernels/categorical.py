"""The kernel of categories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._checks import InputError
from kernelweave._sparse import is_sparse
from kernelweave.kernels.base import FloatArray, Kernel
from kernelweave.kernels.pairs import has_missing
from kernelweave.views import Table

__all__ = ["Categorical"]


@dataclass(frozen=True)
class Categorical(Kernel):
    """The share of columns in which two rows agree, k(x, z) = #{j : x_j = z_j} / n_columns.

    Categorical columns are compared by category, numeric columns by value. An unknown category is equal
    to no other, not even to itself in another row; k(x, x) is still 1.

    Notes
    -----
    On categorical columns only, the feature map is the indicator columns divided by sqrt(n_columns). It gives
    a row with unknown categories a squared norm below 1.

    Examples
    --------
    >>> Categorical()([["red", "small"], ["red", "large"]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        left = left.joined()
        A, B = left.values, left.values if right is None else right.joined().values
        if is_sparse(A) or is_sparse(B):
            raise InputError(
                "Categorical compares cells, for which sparse columns must be dense. Pass X.toarray(), or use Linear."
            )
        K: Any = 0.0
        for j, level in enumerate(left.levels):
            own = A[:, j : j + 1]
            # NaN is equal to nothing
            own = np.where(own < 0, np.nan, own) if level > 0 else own
            K += own == B[:, j]
        if has_missing(A) or has_missing(B):
            shared = (~np.isnan(A)).astype(np.float64) @ ~np.isnan(B).T
            K = np.divide(K, shared, out=np.zeros_like(shared), where=shared > 0)
        else:
            K /= left.n_columns
        if right is None:
            np.fill_diagonal(K, 1.0)
        return K

    def _diag(self, table: Table) -> FloatArray:
        return table.per_row(1.0)

    def _features(self, table: Table) -> FloatArray | None:
        return table.take() / math.sqrt(table.n_columns) if min(table.levels) > 0 else None
