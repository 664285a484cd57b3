"""The quadratic model of losses on rows: working columns times the roots of the rows' weights.

At weights h of the rows and coefficients b, minus the derivatives of the losses, the model of a step to W is

    1/2 sum_i h_i (b_i / h_i - x_i'(W - w))^2 + 1/2 (sum_m |W_m|)^2 ,

less the weighted mean of the columns with an intercept: RLS2 on weighted rows, which the descent of RLS2 solves. The
weighted rows are kept while the weights are nearly a multiple of theirs; the model's derivative is exact all the same.
"""

from __future__ import annotations

import numpy as np

from kernelweave._loops import core
from kernelweave._types import Array, Index
from kernelweave.mkl.features.block_descent import turn_blocks, turned
from kernelweave.mkl.features.columns import WorkingColumns

#: Most sweeps of a model.
SWEEPS = 100
#: Numbers of weighted columns that are turned at a time.
PIECE = 2**17
#: Weights may differ from a multiple of those of the rows by this share of their sum.
COARSE = 0.15


class WeightedRows:
    """Some working blocks on weighted rows, turned so that the columns of each are orthogonal.

    Attributes
    ----------
    fresh : bool
        Whether the rows have the weights of the last model.
    """

    def __init__(self, columns: WorkingColumns) -> None:
        self.columns = columns
        self._memory = np.empty(0)
        self._rows = self._memory
        self.forget()

    def forget(self) -> None:
        """Take the next weights as they are."""
        self.fresh = False
        self._h = np.zeros(0)
        self._blocks = np.empty(0, dtype=np.int64)  # positions among the working blocks

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
            Whether the weights have to be a multiple of those of the rows.
        """
        self._prepare(h, taken, 0.0 if exact else COARSE)
        widths, own = self._widths, self._own
        scale = float(h.sum()) / self._total
        W = turned(w[own], widths, self._turns)
        R = b[self._used] / (self._root * scale)
        offsets = np.r_[0, np.cumsum(widths)]
        norms = np.sqrt(np.add.reduceat(np.square(W), offsets[:-1]))
        level, fit = float(norms.sum()), product[self._used]
        if self.columns.centred:
            fit = fit - float(np.square(self._root) @ fit) / self._total
        Y = R + self._root * fit
        primal = 0.5 * float(R @ R) + 0.5 * level * level / scale
        share = aim / scale / primal
        W = W[None]
        _, left = core.blocks_on_rows(
            self._rows, offsets, np.arange(len(widths)), self._squares, Y[None], W, norms, R[None],
            1.0 / scale, share, SWEEPS,
        )  # fmt: skip
        out = np.zeros_like(w)
        out[own] = turned(W[0], widths, self._turns, back=True)
        return out, left <= share

    def _prepare(self, h: Array, taken: Index, coarse: float) -> None:
        """Rows with about these weights for at least these blocks."""
        self.fresh = not self._near(h, coarse)
        if self.fresh:
            self._h, self._total = h, float(h.sum())
            self._used = np.flatnonzero(h)
            self._root = np.sqrt(h[self._used])
            self._blocks, self._own = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
            self._squares = np.empty(0)
            self._turns: list[Array | None] = []
            self._widths = np.empty(0, dtype=np.int64)
        more = np.setdiff1d(taken, self._blocks)
        if not len(more):
            return
        offsets, n = self.columns.offsets, len(self._used)
        ends = np.r_[0, np.cumsum(np.diff(offsets)[more])]
        before, added = len(self._own), int(ends[-1])
        self._rows = self._room(before + added, n)
        # pieces stay in a cache
        cuts = np.flatnonzero(np.diff(ends[:-1] * n // PIECE)) + 1
        for part in np.split(np.arange(len(more)), cuts):
            own = np.concatenate([np.arange(offsets[m], offsets[m + 1]) for m in more[part]])
            into = self._rows[before + ends[part[0]] : before + ends[part[-1] + 1]]
            given = self.columns.weighted(own, self._used, self._root)
            turns, squares = turn_blocks(given, np.diff(offsets)[more[part]], into)
            self._turns.extend(turns)
            self._squares, self._own = np.r_[self._squares, squares], np.r_[self._own, own]
        self._widths = np.r_[self._widths, np.diff(ends)]
        self._blocks = np.r_[self._blocks, more]

    def _room(self, count: int, n: int) -> Array:
        """An array of shape (count, n) that begins with the rows so far, in memory that is used again."""
        if count * n > len(self._memory):
            # the allocator moves pages: nothing is copied
            self._rows = self._memory
            self._memory.resize(max(count * n, 3 * len(self._memory) // 2), refcheck=False)
        return self._memory[: count * n].reshape(count, n)

    def _near(self, h: Array, coarse: float) -> bool:
        """Whether weights are nearly a multiple of those of the rows, and zero where these are."""
        if not np.array_equal(h > 0.0, self._h > 0.0):
            return False
        total = float(h.sum())
        return float(np.abs(h - self._h * (total / self._total)).sum()) <= max(coarse, 1e-12) * total
