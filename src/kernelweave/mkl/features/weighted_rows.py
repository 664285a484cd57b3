"""The quadratic model of losses on rows, which blocks of the working columns descend in turn.

At weights h of the rows and coefficients b, minus the derivatives of the losses, the model of a step to W is

    1/2 sum_i h_i (b_i / h_i - x_i'(W - w))^2 + 1/2 (sum_m |W_m|)^2 ,

less the weighted mean of the columns with an intercept. Second derivatives are formed of single blocks only, and kept
while the weights are nearly a multiple of theirs; the model's derivative is exact all the same.
"""

from __future__ import annotations

import numpy as np

from kernelweave._loops import core
from kernelweave._types import Array, Index
from kernelweave.mkl.features.columns import WorkingColumns

#: Most sweeps of a model.
SWEEPS = 100
#: Weights may differ from a multiple of those of the blocks by this share of their sum.
COARSE = 0.15


class WeightedRows:
    """Second derivatives of single working blocks at weights of the rows, by their eigenvectors.

    Attributes
    ----------
    fresh : bool
        Whether they have the weights of the last model.
    """

    def __init__(self, columns: WorkingColumns) -> None:
        self.columns = columns
        self.forget()

    def forget(self) -> None:
        """Take the next weights as they are."""
        self.fresh = False
        self._h = np.zeros(0)
        self._done = np.zeros(0, dtype=bool)
        self._turns = np.empty((0, 0))
        self._squares = self._means = np.empty(0)

    def minimise(
        self, h: Array, b: Array, w: Array, product: Array, taken: Index, aim: float, *, exact: bool
    ) -> tuple[Array, bool]:
        """Coefficients with a gap of `aim`, from w, and whether it was reached.

        Parameters
        ----------
        h, b : arrays of shape (n_samples,)
        w : array of shape (n_columns,)
        product : array of shape (n_samples,)
            ``X'w``.
        taken : array of int
            Blocks that may have coefficients, among the working blocks: at least those that have.
        aim : float
        exact : bool
            Whether the weights have to be a multiple of those of the blocks.
        """
        columns = self.columns
        self._prepare(h, taken, 0.0 if exact else COARSE)
        scale = float(h.sum()) / self._total
        weight, inverse = scale * self._h, self._inverse / scale
        fit, u = product.copy(), b.copy()
        if columns.centred:
            fit -= float(self._h @ fit) / self._total
        W = w[None].copy()
        norms = np.sqrt(np.add.reduceat(np.square(w), columns.offsets[:-1]))
        level = float(norms.sum())
        share = aim / (0.5 * float(np.square(u) @ inverse) + 0.5 * level * level)
        _, left = core.blocks_on_weighted_rows(
            columns.rows, columns.offsets, np.flatnonzero(self._done), scale * self._squares, self._turns, self._means,
            weight, inverse, W, norms, fit, u, 1.0, share, SWEEPS,
        )  # fmt: skip
        return W[0], left <= share

    def _prepare(self, h: Array, taken: Index, coarse: float) -> None:
        """Second derivatives at about these weights for at least these blocks."""
        columns, offsets = self.columns, self.columns.offsets
        self.fresh = not self._near(h, coarse)
        if self.fresh:
            self._h, self._total = h, float(h.sum())
            self._inverse = np.divide(1.0, h, out=np.zeros_like(h), where=h > 0.0)
            self._done = np.zeros(0, dtype=bool)
            self._turns, self._squares, self._means = np.empty((0, 0)), np.empty(0), np.empty(0)
        widths, before = columns.widths, len(self._squares)
        if before < columns.n_columns:
            turns = np.zeros((columns.n_columns, int(widths.max())))
            turns[:before, : self._turns.shape[1]] = self._turns
            self._turns, more = turns, np.zeros(columns.n_columns - before)
            self._squares, self._means = np.concatenate([[self._squares, self._means], [more, more]], axis=1)
            self._done = np.concatenate([self._done, np.zeros(len(widths) - len(self._done), dtype=bool)])
        fresh = taken[~self._done[taken]]
        if not len(fresh):
            return
        self._done[fresh] = True
        core.blocks_weighted_products(columns.rows, offsets, fresh, self._h, self._turns, self._means)
        for width in np.unique(widths[fresh]):
            own = offsets[fresh[widths[fresh] == width]][:, None] + np.arange(width)
            C, sums = self._turns[own, :width], self._means[own]
            if columns.centred:
                sums = sums / self._total
                C -= self._total * sums[:, :, None] * sums[:, None, :]
            else:
                sums = np.zeros_like(sums)
            self._means[own] = sums
            # of the lower triangles
            values, self._turns[own, :width] = np.linalg.eigh(C)
            self._squares[own] = np.maximum(values, 0.0)

    def _near(self, h: Array, coarse: float) -> bool:
        """Whether weights are nearly a multiple of those of the blocks, and zero where these are."""
        if not np.array_equal(h > 0.0, self._h > 0.0):
            return False
        total = float(h.sum())
        return float(np.abs(h - self._h * (total / self._total)).sum()) <= max(coarse, 1e-12) * total
