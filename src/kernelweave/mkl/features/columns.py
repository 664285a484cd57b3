"""The working columns of a margin problem, and the quadratic model of its losses on them.

At weights h of the rows the model's second derivative is ``X diag(h) X'`` less what the intercept takes, for columns as
rows of X. It is kept from one step to the next: only rows whose weight has changed are added and subtracted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelweave._loops import core
from kernelweave._sparse import is_sparse
from kernelweave._threads import blas_threads_for
from kernelweave._types import Array, Index
from kernelweave.gram.base import pieces
from kernelweave.gram.features import FeatureStack
from kernelweave.machines.bordered import Root
from kernelweave.mkl.features.problem import FeatureProblem

#: Numbers of the working columns that are held; of more, pieces are read again and again.
HELD = 2**27
#: Numbers of a piece, of those whose products are taken together, and of those that are prepared together.
PIECE, TOGETHER, PREPARED = 2**22, 2**18, 2**16
#: Changes after which the second derivative is computed afresh.
AFRESH = 30


class WorkingColumns:
    """Columns of some kernels, in the solver's units.

    Attributes
    ----------
    kernels : array of int, shape (n_blocks,)
    inside : array of bool, shape (n_kernels,)
    widths : array of int, shape (n_blocks,)
    offsets : array of int, shape (n_blocks + 1,)
    index : array of int, shape (n_columns,)
        Numbers of the columns in the stack.
    centre : array of shape (n_features,)
        What is subtracted from every column.
    single : bool
        Whether columns are held in float32; sums are in float64.
    """

    def __init__(self, problem: FeatureProblem, centre: Array | None = None, *, single: bool = False) -> None:
        assert isinstance(problem.stack, FeatureStack)
        self.problem, self.stack = problem, problem.stack
        self.kernels = np.empty(0, dtype=np.int64)
        self.inside = np.zeros(problem.n_kernels, dtype=bool)
        self.widths = np.empty(0, dtype=np.int64)
        self.offsets = np.zeros(1, dtype=np.int64)
        self.index = np.empty(0, dtype=np.int64)
        self.single = single
        self._rows = np.empty((0, problem.stack.n_samples), dtype=np.float32 if single else np.float64)
        self._sparse = is_sparse(self.stack.Z)
        self._held = True
        # a large common shift of a column would cost digits of the second derivatives
        self._fit_intercept = problem.machine.fit_intercept
        if not self._fit_intercept:
            centre = np.zeros(problem.stack.n_features)
        if centre is None:
            shares = problem.costs / problem.costs.sum()
            centre = np.zeros(problem.stack.n_features) if self._sparse else problem.gradient(shares)
        self.centre = centre
        self._h = np.zeros(problem.stack.n_samples)
        self._C = np.empty((0, 0))
        self._x = np.empty(0)  # X h
        self._changes = 0

    @property
    def n_columns(self) -> int:
        """Columns of all blocks together."""
        return len(self.index)

    def add(self, kernels: Index) -> int:
        """Add blocks that are not in the set yet; returns their number."""
        fresh = np.unique(kernels[~self.inside[kernels]])
        if not len(fresh):
            return 0
        stack, before = self.stack, self.n_columns
        own = stack.owned(fresh)
        widths = stack.widths[fresh]
        self.kernels = np.concatenate([self.kernels, fresh])
        self.inside[fresh] = True
        self.widths = np.concatenate([self.widths, widths])
        self.offsets = np.concatenate([self.offsets, before + np.cumsum(widths)])
        self.index = np.concatenate([self.index, own])
        n = stack.n_samples
        if self._sparse:
            self._columns = stack.Z[:, self.index].multiply(self.problem.factors[self.index]).tocsc()
        elif self._held and self.n_columns * n <= HELD:
            # the allocator moves pages: nothing is copied
            self._rows.resize((self.n_columns, n), refcheck=False)
            for part in pieces(len(own), PREPARED // n):
                self._rows[before:][part] = self._prepared(stack.columns(own[part]), own[part])
        else:
            self._held = False
            self._rows = np.empty((0, n))
            self.single = False
        return len(fresh)

    def _prepared(self, rows: Array, index: Index) -> Array:
        rows *= self.problem.factors[index][:, None]
        rows -= self.centre[index][:, None]
        return rows

    def sharpen(self) -> bool:
        """Hold the columns in float64; returns whether they were not."""
        was, self.single = self.single, False
        if was:
            self._rows = self._prepared(self.stack.columns(self.index), self.index)
            self._h, self._C, self._x = np.zeros_like(self._h), np.empty((0, 0)), np.empty(0)
        return was

    def _pieces(self) -> Iterator[tuple[slice, Array]]:
        """Rows of the samples, and the columns there as rows."""
        n = self.problem.stack.n_samples
        if self._held:
            yield slice(0, n), self._rows
            return
        for part in pieces(n, PIECE // self.n_columns):
            yield part, self._prepared(self.stack.piece(self.index, part), self.index)

    def products(self, v: Array) -> Array:
        """``X v``."""
        if self._sparse:
            return np.asarray(self._columns.T @ v)
        if self.single:
            sums = np.empty((1, self.n_columns))
            core.column_products(self._rows, np.ascontiguousarray(v)[None], sums)
            return sums[0]
        out = np.zeros(self.n_columns)
        for part, rows in self._pieces():
            out += rows @ v[part]
        return out

    def combine(self, w: Array) -> Array:
        """``X'w``."""
        if self._sparse:
            return np.asarray(self._columns @ w)
        used = np.flatnonzero(w)
        if self.single:
            sums = np.empty((1, self.stack.n_samples))
            core.column_sums(self._rows, used, w[None, used], sums)
            return sums[0]
        out = np.empty(self.problem.stack.n_samples)
        few = 2 * len(used) < len(w)
        for part, rows in self._pieces():
            out[part] = w[used] @ rows[used] if few else w @ rows
        return out

    @property
    def held(self) -> bool:
        """Whether all columns are in memory, as a dense array."""
        return self._held and not self._sparse

    @property
    def rows(self) -> Array:
        """Columns that are held, as rows."""
        return self._rows

    @property
    def centred(self) -> bool:
        """Whether an intercept takes the weighted means of columns."""
        return self._fit_intercept

    def shift(self, w: Array) -> float:
        """What to subtract from the intercept of columns as they are here."""
        return float(w @ self.centre[self.index])

    # ---- second derivatives -----------------------------------------------------------------------

    def _strip(self, first: int, h: Array) -> tuple[Array, Array]:
        """``X[first:] diag(h) X'``, and ``X[first:] h``."""
        if self._sparse:
            weighted = self._columns[:, first:].multiply(h[:, None]).T.tocsr()
            return np.asarray((weighted @ self._columns).todense()), np.asarray(weighted.sum(axis=1)).ravel()
        out = np.zeros((self.n_columns - first, self.n_columns))
        sums = np.zeros(self.n_columns - first)
        with blas_threads_for(len(h)):
            for part, rows in self._pieces():
                self._accumulate(out, sums, first, rows, h[part])
        return out, sums

    def _accumulate(self, out: Array, sums: Array, first: int, rows: Array, h: Array) -> None:
        used = np.flatnonzero(h)
        few = 2 * len(used) < len(h)
        places = used if few else np.arange(len(h))
        # with weights >= 0 a product with itself costs half
        root = np.sqrt(h) if first == 0 and (h >= 0.0).all() else None
        for part in pieces(len(places), TOGETHER // max(1, len(rows))):
            some = places[part]
            which: Index | slice = some if few else slice(int(some[0]), int(some[-1]) + 1)
            own = rows[:, which]
            if root is not None:
                weighted = own * root[which]
                sums += weighted @ root[which]
                out += weighted @ weighted.T
            else:
                weighted = own[first:] * h[which]
                sums += weighted.sum(axis=1)
                out += weighted @ own.T

    def _extend(self) -> None:
        """The second derivative's parts of columns that came later."""
        before = len(self._C)
        if before == self.n_columns:
            return
        C = np.zeros((self.n_columns, self.n_columns))
        C[:before, :before] = self._C
        strip, sums = self._strip(before, self._h)
        C[before:] = strip
        C[:before, before:] = strip[:, :before].T
        self._C, self._x = C, np.r_[self._x, sums]

    def second_derivative(self, h: Array, coarse: float, ridge: float) -> tuple[Array, Array, float]:
        """``X diag(h) X'`` less the share of the intercept, plus a ridge; ``X h / sum(h)``, and the sum of h.

        Weights that have changed by a share of at most `coarse` stay as they are.
        """
        change = h - self._h
        change[np.abs(change) <= coarse * np.maximum(h, self._h)] = 0.0
        changed = int(np.count_nonzero(change))
        used = int(np.count_nonzero(h))
        if 2 * changed > used or self._changes >= AFRESH or not len(self._C):
            self._h, self._changes = h.copy(), 0
            self._C, self._x = self._strip(0, h)
            changed = 0
        self._extend()
        if changed:
            more, sums = self._strip(0, change)
            self._C += more
            self._x += sums
            self._h += change
            self._changes += 1
        total = float(self._h.sum())
        return *self.reduced(self._C, self._x, total, ridge), total

    def second_derivative_of(self, root: Root, ridge: float) -> Array:
        """``X U U'X'`` plus a ridge, for a loss whose second derivative is no diagonal; of columns that are held."""
        C = np.zeros((self.n_columns, self.n_columns))
        with blas_threads_for(self._rows.shape[1]):
            half = root.transposed(self._rows.T)
            C += half.T @ half
        C.flat[:: len(C) + 1] += ridge
        return C

    def reduced(self, C: Array, x: Array, total: float, ridge: float) -> tuple[Array, Array]:
        """A second derivative less the share of the intercept, plus a ridge; and ``x / total``, for ``x = X h``."""
        mean = x / total if total > 0.0 and self._fit_intercept else np.zeros_like(x)
        C = C - np.outer(x, mean)
        C += C.T.copy()
        C *= 0.5
        C.flat[:: len(C) + 1] += ridge
        return C, mean

    def scale(self, factor: float) -> None:
        """Multiply all weights of the rows."""
        self._h *= factor
        self._C *= factor
        self._x *= factor
