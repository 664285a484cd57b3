"""The working blocks of a solver, rotated so that the columns of each are orthogonal, and their coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelweave._loops import core
from kernelweave.machines.rounding import EPS
from kernelweave.mkl.features.problem import FeatureProblem

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Working:
    """Some blocks of a problem, which grow in number, with coefficients that descend.

    On rows the residual is updated and columns are read; on products the gradient is updated, and ``Z'Z`` is read, at a
    cost of the square of the number of columns, for any number of rows.

    Attributes
    ----------
    kernels : array of int, shape (n_blocks,)
    place : array of int, shape (n_kernels,)
        Position of a kernel among them, -1 for others.
    offsets : array of int, shape (n_blocks + 1,)
    h : array of shape (n_columns,)
        Squared norms of the rotated columns.
    W : array of shape (n_outputs, n_columns)
        Coefficients of the rotated columns, in the solver's units.
    norms : array of shape (n_blocks,)
    single : bool
        Whether products are taken in float32: enough where the gap need not be small, in half the time.
    """

    def __init__(self, problem: FeatureProblem, on_products: bool, *, single: bool = False) -> None:
        self.problem = problem
        self.on_products = on_products
        self.single = on_products and single
        self.kernels = np.empty(0, dtype=np.int64)
        self.place = np.full(problem.n_kernels, -1, dtype=np.int64)
        self.offsets = np.zeros(1, dtype=np.int64)
        self.h = np.empty(0)
        self.turns: list[Array | None] = []
        self.W = np.empty((problem.n_outputs, 0))
        self.norms = np.empty(0)
        self._rows = np.empty((0, problem.Y.shape[1]))
        self._C = np.empty((0, 0))
        self._Q = np.empty((problem.n_outputs, 0))
        self.R = problem.Y.copy()

    # ---- growth -----------------------------------------------------------------------------------

    @property
    def n_columns(self) -> int:
        """Columns of all blocks together."""
        return int(self.offsets[-1])

    @property
    def rows(self) -> Array:
        """Rotated columns as rows, shape (n_columns, n_samples)."""
        return self._rows

    def add(self, kernels: Index) -> int:
        """Add blocks that are not in the set yet; returns their number."""
        fresh = np.unique(kernels[self.place[kernels] < 0])
        if not len(fresh):
            return 0
        before = self.n_columns
        if self.on_products:
            turned, h, widths = self._more_products(fresh)
        else:
            turned, h, widths = self._more_rows(fresh)
        self.turns.extend(turned)
        self.place[fresh] = len(self.kernels) + np.arange(len(fresh))
        self.kernels = np.r_[self.kernels, fresh]
        self.offsets = np.r_[self.offsets, before + np.cumsum(widths)]
        self.h = np.r_[self.h, h]
        self.W = np.ascontiguousarray(np.c_[self.W, np.zeros((len(self.W), len(h)))])
        self.norms = np.r_[self.norms, np.zeros(len(fresh))]
        return len(fresh)

    def _more_rows(self, kernels: Index) -> tuple[list[Array | None], Array, Index]:
        n, given = self._rows.shape[1], self.problem.stack.widths[kernels]
        widths = np.minimum(given, n)
        before, more = self.n_columns, int(widths.sum())
        # the allocator moves pages: nothing is copied
        self._rows.resize((before + more, n), refcheck=False)
        turns, h = _turn(self.problem.columns(kernels), given, self._rows[before:])
        return turns, h, widths

    def _more_products(self, kernels: Index) -> tuple[list[Array | None], Array, Index]:
        problem, stack = self.problem, self.problem.stack
        everything = np.r_[self.kernels, kernels]
        fresh, before = stack.owned(kernels), self.n_columns
        factors = np.repeat(problem.kernel_factors[everything], stack.widths[everything])
        C = np.empty((before + len(fresh), before + len(fresh)))
        C[:before, :before] = self._C
        strip = C[before:]
        if before:
            old = stack.owned(self.kernels)
            strip[:, :before] = stack.cross(fresh, old, problem.root, single=self.single)
        strip[:, before:] = stack.cross(fresh, fresh, problem.root, single=self.single)
        strip *= factors[before:, None] * factors
        turns: list[Array | None] = []
        widths = stack.widths[kernels]
        ends = np.r_[0, np.cumsum(widths)]
        Q = problem.gradient_of_targets[:, fresh]
        for k, width in enumerate(widths):
            own = slice(ends[k], ends[k + 1])
            turn = None
            if width > 1:
                block = strip[own, before + ends[k] : before + ends[k + 1]]
                _, turn = np.linalg.eigh(0.5 * (block + block.T))
                strip[own] = turn.T @ strip[own]
                Q[:, own] = Q[:, own] @ turn
            turns.append(turn)
        for k, turn in enumerate([*self.turns, *turns]):
            if turn is not None:
                first = (
                    int(self.offsets[k]) if k < len(self.kernels) else before + ends[k - len(self.kernels)]
                )
                own = slice(first, first + len(turn))
                strip[:, own] = strip[:, own] @ turn
        C[:before, before:] = strip[:, :before].T
        corner = C[before:, before:]
        corner += corner.T.copy()
        corner *= 0.5
        self._C, self._Q = C, np.ascontiguousarray(np.c_[self._Q, Q])
        return turns, np.maximum(np.diag(corner), 0.0), widths

    def sharpen(self) -> None:
        """Take all products once more, in float64, in the coordinates in which the blocks are."""
        self.single = False
        problem, stack = self.problem, self.problem.stack
        index = stack.owned(self.kernels)
        factors = np.repeat(problem.kernel_factors[self.kernels], stack.widths[self.kernels])
        C = stack.cross(index, index, problem.root)
        C *= factors[:, None] * factors
        for first, turn in zip(self.offsets, self.turns, strict=False):
            if turn is not None:
                own = slice(int(first), int(first) + len(turn))
                C[own] = turn.T @ C[own]
                C[:, own] = C[:, own] @ turn
        self._C = C
        self.h = np.maximum(np.diag(C), 0.0)

    # ---- descent ----------------------------------------------------------------------------------

    def gradient(self) -> Array:
        """``Z'R`` for these columns, shape (n_outputs, n_columns)."""
        if not self.on_products:
            return self.R @ self.rows.T
        return self._Q - self.W @ self._C

    def quadratic_forms(self, G: Array) -> Array:
        """Squared norms of the blocks of a gradient."""
        return np.add.reduceat(np.square(G).sum(axis=0), self.offsets[:-1])

    def descend(self, a: float, aim: float, most: int) -> tuple[int, float]:
        """Sweeps until the gap is at most `aim` as a share of the objective; returns their number and that share."""
        chosen = np.arange(len(self.kernels))
        if self.on_products:
            total = float(np.vdot(self.problem.Y, self.problem.Y))
            return core.blocks_on_products(
                self._C,
                self.offsets,
                chosen,
                self.h,
                self._Q,
                total,
                self.W,
                self.norms,
                self.gradient(),
                a,
                aim,
                most,
            )
        return core.blocks_on_rows(
            self.rows,
            self.offsets,
            chosen,
            self.h,
            self.problem.Y,
            self.W,
            self.norms,
            self.R,
            a,
            aim,
            most,
        )

    def residual_sums(self, G: Array) -> tuple[float, float]:
        """``<Y, R>`` and ``||R||^2``, given the gradient."""
        Y = self.problem.Y
        if not self.on_products:
            return float(np.vdot(Y, self.R)), float(np.vdot(self.R, self.R))
        inside, left = float(np.vdot(self._Q, self.W)), float(np.vdot(G, self.W))
        inner = float(np.vdot(Y, Y)) - inside
        return inner, max(0.0, inner - left)

    def refresh(self) -> None:
        """The residual and the norms from the coefficients."""
        self.norms = np.sqrt(np.add.reduceat(np.square(self.W).sum(axis=0), self.offsets[:-1]))
        if not self.on_products:
            chosen = np.flatnonzero(self.norms)
            core.blocks_residual(self.rows, self.offsets, chosen, self.problem.Y, self.W, self.R)

    def factors(self, chosen: Index, *, on_rows: bool) -> tuple[Array, Array]:
        """Columns of some blocks as rows, and targets, on all rows or on an equivalent smaller set.

        On products the latter are ``F`` with ``F'F = Z'Z`` and targets with ``F't = Z'Y``.
        """
        columns = np.concatenate([np.arange(self.offsets[m], self.offsets[m + 1]) for m in chosen])
        if not self.on_products:
            return self.rows[columns], self.problem.Y
        if on_rows:
            kernels = self.kernels[chosen]
            given = self.problem.columns(kernels)
            ends = np.r_[0, np.cumsum(self.problem.stack.widths[kernels])]
            for m, first, last in zip(chosen, ends[:-1], ends[1:], strict=True):
                turn = self.turns[m]
                if turn is not None:
                    given[first:last] = turn.T @ given[first:last]
            return given, self.problem.Y
        values, vectors = np.linalg.eigh(self._C[np.ix_(columns, columns)])
        root = np.sqrt(np.maximum(values, 0.0))
        root[root <= EPS * len(root) * root[-1]] = 0.0
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        return vectors * root, (self._Q[:, columns] @ vectors) * inverse

    def put(self, W: Array) -> None:
        """Other coefficients; those of columns that came later are zero."""
        self.W = np.zeros((len(W), self.n_columns))
        self.W[:, : W.shape[1]] = W
        self.refresh()

    def _active_columns(self) -> Index:
        return np.flatnonzero(np.repeat(self.norms > 0, np.diff(self.offsets)))

    # ---- the features -----------------------------------------------------------------------------

    def coefficients(self, W: Array, kernels: Index) -> tuple[Index, Array]:
        """Numbers of the columns of some blocks, and their coefficients before the rotation."""
        stack = self.problem.stack
        parts = []
        for m in self.place[kernels]:
            own = W[:, self.offsets[m] : self.offsets[m + 1]]
            turn = self.turns[m]
            parts.append(own if turn is None else own @ turn.T)
        index = stack.owned(kernels)
        return index, np.concatenate(parts, axis=1) if parts else np.empty((len(W), 0))


def _turn(columns: Array, widths: Index, out: Array) -> tuple[list[Array | None], Array]:
    """Turn blocks of columns, as rows, so that they are orthogonal within blocks.

    Parameters
    ----------
    columns : array of shape (sum of widths, n_samples)
    widths : array of int, shape (n_blocks,)
    out : array of shape (n_rows, n_samples)
        Receives the turned blocks; of those with more columns than rows, as many as there are rows.

    Returns
    -------
    turns : list of array of shape (width, n_kept) or None
        What coefficients of turned columns are multiplied by; None for the identity.
    h : array of shape (n_rows,)
        Squared norms of the turned columns.
    """
    n = columns.shape[1]
    turns: list[Array | None] = []
    first = at = 0
    # neighbours of one width together
    for run in np.split(widths, np.flatnonzero(np.diff(widths)) + 1):
        count, width = len(run), int(run[0])
        kept = min(width, n)
        blocks = columns[first : first + count * width].reshape(count, width, n)
        target = out[at : at + count * kept].reshape(count, kept, n)
        if width == 1:
            target[:] = blocks
            turns.extend([None] * count)
        elif width <= n:
            _, turn = np.linalg.eigh(blocks @ blocks.transpose(0, 2, 1))
            np.matmul(turn.transpose(0, 2, 1), blocks, out=target)
            turns.extend(turn)
        else:
            values, vectors = np.linalg.eigh(blocks.transpose(0, 2, 1) @ blocks)
            root = np.sqrt(np.maximum(values, 0.0))
            # directions that are rounding errors have no coefficients
            root[root <= EPS * width * root[:, -1:]] = 0.0
            inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
            target[:] = root[:, :, None] * vectors.transpose(0, 2, 1)
            turns.extend((blocks @ vectors) * inverse[:, None, :])
        first, at = first + count * width, at + count * kept
    return turns, np.einsum("ij,ij->i", out, out)
