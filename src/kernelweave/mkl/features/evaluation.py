"""What a pass over rows in chunks computes of several machines at their points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._sparse import is_sparse
from kernelweave.gram.chunked import Vectors, times, times_transposed
from kernelweave.machines.loss import Loss
from kernelweave.machines.smooth import Augmented, Exact, Smooth

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Numbers of rows whose products are taken together.
TOGETHER = 2**18


@dataclass(frozen=True)
class HessianColumns:
    """Columns between which second derivatives of the losses are wanted, and of which machines.

    Attributes
    ----------
    machines : tuple of int
    index : array of int, shape (n_columns,)
    factors, centre : arrays of shape (n_columns,)
        Columns are multiplied by the first, and the second is subtracted.
    """

    machines: tuple[int, ...] = ()
    index: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    factors: Array = field(default_factory=lambda: np.empty(0))
    centre: Array = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Evaluation:
    """Values and derivatives of machines at points: ``f = Z coef + intercept``.

    Beside the rows stand their targets, weights and folds, and the centres of augmented losses. Of every machine the
    numbers of rows are ``Z coef``; added up are ``Z'b`` for the coefficients b of rows, ``Z' max(b, 0)``, and for
    augmented losses ``Z'b`` once these have moved on to b as their centre; then the second derivatives, of augmented
    losses also once they have moved.

    Attributes
    ----------
    loss : Loss
    coef : array of shape (n_machines, n_features)
    intercept, C : arrays of shape (n_machines,)
    fold : array of int, shape (n_machines,)
        The fold whose rows are left out, -1 for none.
    radius, later : arrays of shape (n_machines,)
        Of augmented losses, and after their centre has moved.
    hessian : HessianColumns
    """

    loss: Loss
    coef: Array
    intercept: Array
    C: Array
    fold: Index
    radius: Array
    later: Array
    hessian: HessianColumns

    def __call__(self, Z: Any, beside: Vectors) -> tuple[Sequence[Array], tuple[Array, ...]]:
        """Results of a chunk."""
        (y, weight, folds), centres = beside[:3], beside[3:]
        exact = self.loss.smooth
        product = times_transposed(self.coef, Z)
        b, later = np.empty_like(product), np.empty_like(product if not exact else product[:0])
        hessians: list[Array] = []
        for k, own in enumerate(product):
            f = own + self.intercept[k]
            costs = self.C[k] * weight
            if self.fold[k] >= 0:
                costs[folds == self.fold[k]] = 0.0
            both: list[Smooth]
            if exact:
                both = [Exact(self.loss, y, costs)]
                b[k] = both[0].coefficients(f)
            else:
                first = Augmented(self.loss, y, costs, centres[k], float(self.radius[k]))
                b[k] = first.coefficients(f)
                moved = Augmented(self.loss, y, costs, b[k], float(self.later[k]))
                later[k] = moved.coefficients(f)
                both = [first, moved]
            if k in self.hessian.machines:
                for smooth in both:
                    hessians += self._second_derivative(Z, smooth.curvature(f))
        above = self._above(Z, y, b)
        return list(product), (times(b, Z), above, times(later, Z), *hessians)

    def _above(self, Z: Any, y: Array, b: Array) -> Array:
        """``Z' max(b, 0)``."""
        own = np.flatnonzero((b > 0.0).any(axis=0))
        above = np.maximum(b, 0.0)
        # for most losses of classes these are half of the rows
        return times(above[:, own], Z[own]) if 4 * len(own) < 3 * len(y) else times(above, Z)

    def _second_derivative(self, Z: Any, h: Array) -> tuple[Array, Array, Array]:
        """``X diag(h) X'`` for columns as rows of X, ``X h`` and the sum of h."""
        columns = self.hessian
        used = np.flatnonzero(h)
        size = len(columns.index)
        out, sums = np.zeros((size, size)), np.zeros(size)
        step = max(1, TOGETHER // max(1, size))
        for first in range(0, len(used), step):
            some = used[first : first + step]
            X = Z[some][:, columns.index]
            X = (X.toarray() if is_sparse(X) else X) * columns.factors - columns.centre
            root = np.sqrt(h[some])
            X *= root[:, None]
            out += X.T @ X
            sums += root @ X
        return out, sums, np.array([h.sum()])
