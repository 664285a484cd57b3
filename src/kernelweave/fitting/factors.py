"""Factors of kernels without their matrices: from features, and from single columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._loops import core, pivoted_columns
from kernelweave._sparse import is_sparse, sq_norms, to_dense
from kernelweave.gram import FeatureGram
from kernelweave.gram.building import Builder
from kernelweave.gram.low_rank import highest_rank, hopeless, rows_to_see
from kernelweave.kernels import Kernel, Linear
from kernelweave.kernels.pairs import pair_values
from kernelweave.views import Table

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Kernels on one column each whose features are computed together.
TOGETHER = 64
#: Operations of a trial below which no check is made before.
SMALL_TRIAL = 2_000_000


def single_columns(
    kernels: Sequence[Kernel], columns: Sequence[Rows | None], table: Table
) -> dict[int, tuple[Kernel, int]]:
    """Kernels on one unprepared numeric column, without their selection, with the position of the column."""
    found, marked = {}, table.marked
    for m, (kernel, chosen) in enumerate(zip(kernels, columns, strict=True)):
        if chosen is None or len(chosen) != 1 or table.levels[chosen[0]] or marked[chosen[0]]:
            continue
        base = kernel.base
        if not base.preparation:
            found[m] = base, int(chosen[0])
    return found


class Features:
    """Features of kernels, in the form of factors: of kernels that are equal but for their column, of many at a time.

    Parameters
    ----------
    kernels : sequence of Kernel
    single : dict
        What `single_columns` found.
    table : Table
    """

    def __init__(
        self, kernels: Sequence[Kernel], single: dict[int, tuple[Kernel, int]], table: Table
    ) -> None:
        self.kernels, self.table = kernels, table
        self.known: dict[int, Array | None] = {}
        self.alike: dict[int, list[int]] = {}
        same: dict[Kernel, list[int]] = {}
        for m, (base, _) in single.items():
            same.setdefault(base, []).append(m)
        self.single = single
        for members in same.values():
            for first in range(0, len(members), TOGETHER):
                some = members[first : first + TOGETHER]
                if len(some) > 1:
                    self.alike.update(dict.fromkeys(some, some))

    def of(self, m: int) -> Array | None:
        """Features of one kernel (n_features, n_samples), perhaps sparse; None if it has none. To be called once."""
        if m not in self.alike:
            phi = self.kernels[m].features(self.table)
            return None if phi is None else phi.T
        if m not in self.known:
            self._look(self.alike[m])
        return self.known.pop(m)

    def _look(self, members: list[int]) -> None:
        base = self.single[members[0]][0]
        columns = np.array([self.single[m][1] for m in members], dtype=np.intp)
        X = self.table.dense_columns(columns)
        # one under the other: a feature map looks at rows one by one
        phi = base.features(Table(np.ascontiguousarray(X.T).reshape(-1, 1)))
        if phi is None:
            self.known.update(dict.fromkeys(members))
            return
        blocks = np.asarray(phi).reshape(len(members), len(X), -1).transpose(0, 2, 1)
        self.known.update(zip(members, blocks, strict=True))


def feature_widths(
    kernels: Sequence[Kernel], single: dict[int, tuple[Kernel, int]], table: Table
) -> list[int | None]:
    """Number of features of every fitted kernel on a table; None for a kernel without any.

    Parameters
    ----------
    kernels : sequence of Kernel
    single : dict
        What `single_columns` found.
    table : Table
    """
    first = table.rows(slice(0, 1))
    known: dict[Kernel, int | None] = {Linear(): 1}
    found: list[int | None] = []
    for m, kernel in enumerate(kernels):
        base = single[m][0] if m in single else None
        if base is not None and base in known:
            found.append(known[base])
            continue
        phi = kernel.features(first)
        found.append(None if phi is None else int(phi.shape[1]))
        if base is not None:
            known[base] = found[-1]
    return found


def feature_gram(
    kernels: Sequence[Kernel], columns: Sequence[Rows | None], table: Table, room: float
) -> FeatureGram:
    """The features of kernels that all have some, side by side in their order.

    Parameters
    ----------
    kernels : sequence of Kernel
    columns : sequence of arrays of int or None
        The columns of each.
    table : Table
    room : float
        Bytes that they may take.
    """
    single = single_columns(kernels, columns, table)
    widths = feature_widths(kernels, single, table)
    without = [m for m, width in enumerate(widths) if width is None]
    if without:
        raise InputError(
            f"{kernels[without[0]].label!r} has no finite features. Use kernels.approximate on it, or "
            "approximation='nystroem'."
        )
    offsets = np.r_[0, np.cumsum([width or 0 for width in widths])].astype(np.int64)
    n, needed = table.n_rows, 8.0 * float(offsets[-1]) * table.n_rows
    if needed > room:
        raise InputError(
            f"{int(offsets[-1])} features of {n} rows take {needed / 2**30:.3g} GiB, got max_memory="
            f"{room / 2**30:.3g} GiB. Allow more, or take fewer features."
        )
    rows = np.empty((int(offsets[-1]), n))
    features = Features(kernels, single, table)
    for m in range(len(kernels)):
        phi = features.of(m)
        assert phi is not None
        rows[offsets[m] : offsets[m + 1]] = to_dense(phi)
    return FeatureGram(rows, offsets)


def add_factors(kernels: Sequence[Kernel], members: Rows, A: Any, builder: Builder, tol: float) -> list[int]:
    """Add factors of kernels that share a statistic, if they are of low rank, and return the others.

    Parameters
    ----------
    kernels : sequence of Kernel
        All kernels, without their selections.
    members : array of int
        Those that share a statistic of the same columns.
    A : array of shape (n_samples, n_columns), or sparse
        These columns.
    builder : Builder
    tol : float
        Largest residual trace as a share of the trace.
    """
    n = A.shape[0]
    cap = highest_rank(n)
    if cap < 1:
        return list(map(int, members))
    kind = kernels[members[0]].statistic
    X = None if is_sparse(A) else np.ascontiguousarray(A.T)
    looks = _Looks(kind, A, cap)
    work = np.empty((cap, n))
    rest = []
    for m in map(int, members):
        kernel = kernels[m]
        gamma = kernel.decay
        quick = X is not None and gamma is not None
        # a check costs more than the trial of a small kernel
        if not (quick and cap * cap * n < SMALL_TRIAL) and hopeless(
            looks.block(kernel), cap, tol * looks.trace(kernel)
        ):
            rest.append(m)
            continue
        if X is not None and gamma is not None:
            rank, residual = core.pivoted_decay(X, gamma, kind == "sqdist", tol * n, work)
        else:
            bound = max(tol * looks.trace(kernel), 0.0)
            rank, residual = pivoted_columns(looks.column(kernel), looks.diagonal(kernel), bound, work)
        if rank < 0:
            rest.append(m)
        else:
            builder.add(m, work[:rank].copy(), residual)
    return rest


class _Looks:
    """Parts of kernels that share a statistic: a block of some rows, single columns, the diagonal."""

    def __init__(self, kind: str, A: Any, cap: int) -> None:
        self.kind, self.A, self.cap = kind, A, cap
        self._statistic: Array | None = None

    @cached_property
    def squares(self) -> Array:
        """Squared norms of the rows."""
        return sq_norms(self.A)

    def block(self, kernel: Kernel) -> Array:
        """The block for `hopeless`."""
        seen = rows_to_see(self.A.shape[0], self.cap)
        if self._statistic is None:
            self._statistic = pair_values(self.kind, self.A[seen])
        squares = self.squares[seen]
        return np.array(kernel.from_statistic(self._statistic, squares[:, None], squares))

    def diagonal(self, kernel: Kernel) -> Array:
        """Values of all rows with themselves."""
        S = self.squares if self.kind == "dot" else np.zeros(len(self.squares))
        return np.array(kernel.from_statistic(S, self.squares, self.squares))

    def trace(self, kernel: Kernel) -> float:
        """The sum of the diagonal."""
        return float(self.diagonal(kernel).sum())

    def column(self, kernel: Kernel) -> Any:
        """A function that gives single columns."""

        def values(i: int) -> Array:
            S = pair_values(self.kind, self.A[i : i + 1], self.A)
            return np.array(kernel.from_statistic(S, self.squares[i : i + 1, None], self.squares))[0]

        return values
