"""Stacks under construction: every kernel is written once, at its final place in memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernelweave._loops import core, packed_length, packed_rows
from kernelweave._types import Array, Index
from kernelweave.gram.base import Gram
from kernelweave.gram.composite import concatenate
from kernelweave.gram.factors import FactorGram
from kernelweave.gram.low_rank import ROUNDING, follows, hopeless_triangle
from kernelweave.gram.packed import PackedGram

#: Residual trace, as a share of the trace, that a factor may leave out. At 0 a factor is only taken when it equals
#: the matrix to a few units in the last place.
COMPRESSION = 0.0
#: Highest rank, as a share of the samples, at which a factor is cheaper than a triangle.
MAX_RANK_SHARE = 1 / 12
#: Entries of triangles up to which kernels with factors become triangles beside others.
FEW = 2**12
#: Numbers of factors that wait to be written together: room for each alone would cost more than the factors.
WAITING = 2**19


def highest_rank(n_samples: int) -> int:
    """The highest rank at which a factor is cheaper than a triangle."""
    return int(n_samples * MAX_RANK_SHARE)


class Held(NamedTuple):
    """What is known of a factor among those of a builder."""

    kernel: int
    rank: int
    residual: float = 0.0
    rounding: float = 0.0


class Builder:
    """Triangles and factors of a stack, filled from the start.

    Memory grows with what is written: pages of the triangles that nobody has written to take none, and the factors
    grow in place, which the allocator does by moving pages.

    Parameters
    ----------
    n_samples : int
    n_triangles : int
        How many kernels may become triangles.
    """

    def __init__(self, n_samples: int, n_triangles: int) -> None:
        self.n_samples = n_samples
        self.packed = np.empty((n_triangles, packed_length(n_samples)))
        self.in_triangles: list[int] = []
        self.rows = np.empty((0, n_samples))
        self.in_factors: list[Held] = []
        self._waiting: list[Array] = []
        self._room = WAITING

    def add(self, kernel: int, factor: Array, residual: float | None = None) -> None:
        """Add the factor (rank, n_samples) of a kernel, which is taken over.

        With a residual, 0 or more, it is that of a matrix, by pivoted Cholesky; without, it defines the kernel.
        """
        rounding = 0.0 if residual is None else ROUNDING * float(np.vdot(factor, factor))
        self.in_factors.append(Held(kernel, len(factor), residual or 0.0, rounding))
        self._waiting.append(factor)
        self._room -= factor.size
        if self._room < 0:
            self._write()

    def _write(self) -> None:
        """Write the factors that wait."""
        if self._waiting:
            first = len(self.rows)
            count = sum(map(len, self._waiting))
            self.rows.resize((first + count, self.n_samples), refcheck=False)
            np.concatenate(self._waiting, out=self.rows[first:])
            self._waiting.clear()
        self._room = WAITING

    def factors(self, kernels: list[int], ranks: list[int]) -> Array:
        """Room for factors of kernels, shape (sum of ranks, n_samples), to be filled before the next call."""
        self._write()
        first = len(self.rows)
        self.rows.resize((first + sum(ranks), self.n_samples), refcheck=False)
        self.in_factors.extend(map(Held, kernels, ranks))
        return self.rows[first:]

    def keep_rank(self, rank: int, residual: float) -> None:
        """Of the factor that was added last, keep some rows; none when `rank` is negative."""
        last = self.in_factors.pop()
        self.rows.resize((len(self.rows) - last.rank + max(rank, 0), self.n_samples), refcheck=False)
        if rank >= 0:
            kept = self.rows[len(self.rows) - rank :]
            self.in_factors.append(Held(last.kernel, rank, residual, ROUNDING * float(np.vdot(kept, kept))))

    def triangles(self, count: int) -> Array:
        """Room for some triangles, to be filled and then handed to `keep_triangles`."""
        first = len(self.in_triangles)
        return self.packed[first : first + count]

    def keep_triangles(
        self,
        kernels: list[int],
        *,
        tol: float = COMPRESSION,
        max_rank: int | None = None,
        check: Callable[[int], object] | None = None,
    ) -> None:
        """Store the kernels that were written to `triangles`: those of low rank as factors, the others as triangles.

        Parameters
        ----------
        kernels : list of int
            Which kernels they are.
        tol : float
            Largest residual trace of a factor as a share of the kernel's trace; certificates account for the residual.
        max_rank : int, optional
            Default: a twelfth of the samples, above which triangles are cheaper. With 0, all kernels are stored as
            triangles.
        check : callable, optional
            ``check(k)`` raises an error if the k-th triangle is not positive semidefinite. It is called for those
            triangles that are not known to be the product of a factor with its transpose.
        """
        n = self.n_samples
        cap = highest_rank(n) if max_rank is None else min(max_rank, n)
        first = len(self.in_triangles)
        diagonal = packed_rows(n)[:-1]
        work = np.empty((cap, n))
        for k, m in enumerate(kernels):
            triangle = self.packed[first + k]
            trace = float(triangle[diagonal].sum())
            bound = max(tol * trace, 0.0)
            rank, residual = -1, 0.0
            if cap and not hopeless_triangle(triangle, n, cap, bound):
                rank, residual = core.pivoted_cholesky(triangle, bound, work)
            # if every row agrees up to rounding, the error is negligible against n_samples times the largest eigenvalue
            known = rank >= 0 and residual == 0.0 and follows(triangle, work[:rank], 1e-8 * trace / n)
            if check is not None and not known:
                check(k)
            if rank >= 0:
                self.add(m, work[:rank].copy(), residual)
                continue
            if first + k > len(self.in_triangles):
                self.packed[len(self.in_triangles)] = triangle
            self.in_triangles.append(m)

    @property
    def nbytes(self) -> int:
        """Memory in bytes of the kernels stored so far."""
        self._write()
        return self.rows.nbytes + len(self.in_triangles) * self.packed.strides[0]

    def finish(self, others: list[tuple[Gram, Index]] | None = None) -> Gram:
        """Return the stack, joined with parts in other representations; it takes over the memory."""
        parts: list[tuple[Gram, Index]] = []
        self._write()
        few = len(self.in_factors) * packed_length(self.n_samples) <= FEW
        members = [own.kernel for own in self.in_factors]
        offsets = np.r_[0, np.cumsum([own.rank for own in self.in_factors], dtype=np.int64)]
        residuals, roundings = np.array([own[2:] for own in self.in_factors]).reshape(-1, 2).T.copy()
        if members and self.in_triangles and few and not residuals.any():
            # two parts would cost more calls than the factors save numbers
            upper = np.triu_indices(self.n_samples)
            factors = [self.rows[first:last] for first, last in pairwise(offsets)]
            own = [(rows.T @ rows)[upper] for rows in factors]
            order = np.argsort(self.in_triangles + members)
            self.packed = np.concatenate([self.packed[: len(self.in_triangles)], own])[order]
            self.in_triangles, members = sorted(self.in_triangles + members), []
        if members:
            parts.append((FactorGram(self.rows, offsets, residuals, roundings), np.array(members)))
        if self.in_triangles:
            # triangles that were not needed give their memory back
            self.packed.resize((len(self.in_triangles), self.packed.shape[1]), refcheck=False)
            packed = PackedGram(self.packed, self.n_samples)
            parts.append((packed, np.array(self.in_triangles)))
        parts.extend(others or [])
        return concatenate([part for part, _ in parts], [kernels for _, kernels in parts])
