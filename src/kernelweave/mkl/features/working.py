"""The working blocks of a solver, rotated so that the columns of each are orthogonal, and their coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelweave._loops import core
from kernelweave.mkl.features.problem import EPS, FeatureProblem

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
    """

    def __init__(self, problem: FeatureProblem, on_products: bool) -> None:
        self.problem = problem
        self.on_products = on_products
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
        return self._rows[: self.n_columns]

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
        columns = self.problem.columns(kernels)
        given = self.problem.stack.widths[kernels]
        pieces, h, turns = _rotate(columns, given)
        widths = np.array([len(piece) for piece in h], dtype=np.int64)
        before, need = self.n_columns, self.n_columns + int(widths.sum())
        if need > len(self._rows):
            # a resize moves pages, where the array is the only owner
            held = self._rows
            del self._rows
            more = np.empty((max(need, min(2 * len(held), len(held) + 2000)), columns.shape[1]))
            more[:before] = held[:before]
            self._rows = more
        at = before
        for piece in pieces:
            self._rows[at : at + len(piece)] = piece
            at += len(piece)
        return turns, np.concatenate(h), widths

    def _more_products(self, kernels: Index) -> tuple[list[Array | None], Array, Index]:
        problem, stack = self.problem, self.problem.stack
        everything = np.r_[self.kernels, kernels]
        fresh, columns = stack.owned(kernels), stack.owned(everything)
        factors = np.repeat(problem.factors[everything], stack.widths[everything])
        strip = stack.cross(fresh, columns, problem.root)
        strip *= factors[-len(fresh) :, None]
        strip *= factors
        before = self.n_columns
        turns: list[Array | None] = []
        widths = stack.widths[kernels]
        ends = np.r_[0, np.cumsum(widths)]
        Q = problem.gradient_of_targets()[:, fresh] * factors[-len(fresh) :]
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
        C = np.empty((len(columns), len(columns)))
        C[:before, :before] = self._C
        C[before:] = strip
        C[:before, before:] = strip[:, :before].T
        corner = C[before:, before:]
        corner += corner.T.copy()
        corner *= 0.5
        self._C, self._Q = C, np.ascontiguousarray(np.c_[self._Q, Q])
        return turns, np.maximum(np.diag(corner), 0.0), widths

    # ---- descent ----------------------------------------------------------------------------------

    def gradient(self) -> Array:
        """``Z'R`` for these columns, shape (n_outputs, n_columns)."""
        if not self.on_products:
            return self.R @ self.rows.T
        index = self._active_columns()
        return self._Q - self.W[:, index] @ self._C[index]

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


def _rotate(columns: Array, widths: Index) -> tuple[list[Array], list[Array], list[Array | None]]:
    """Blocks of columns, as rows, rotated to be orthogonal within blocks; their squared norms; the rotations.

    Blocks with more columns than rows keep as many as there are rows.
    """
    n = columns.shape[1]
    starts = np.r_[0, np.cumsum(widths)]
    pieces: list[Array] = [columns[:0]] * len(widths)
    h: list[Array] = [np.empty(0)] * len(widths)
    turns: list[Array | None] = [None] * len(widths)
    for width in np.unique(widths):
        which = np.flatnonzero(widths == width)
        if width == 1:
            for k in which:
                pieces[k] = columns[starts[k] : starts[k + 1]]
                h[k] = np.square(pieces[k]).sum(axis=1)
            continue
        for k in which:
            block = columns[starts[k] : starts[k + 1]]
            if width <= n:
                _, turn = np.linalg.eigh(block @ block.T)
                pieces[k] = turn.T @ block
            else:
                values, vectors = np.linalg.eigh(block.T @ block)
                root = np.sqrt(np.maximum(values, 0.0))
                # directions that are rounding errors have no coefficients
                root[root <= EPS * width * root[-1]] = 0.0
                inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
                turn = (block @ vectors) * inverse
                pieces[k] = root[:, None] * vectors.T
            h[k], turns[k] = np.einsum("ij,ij->i", pieces[k], pieces[k]), turn
    return pieces, h, turns
