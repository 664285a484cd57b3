"""Statistics of folds: each row goes to the fold that a hash of its number says."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError
from kernelweave._devices import is_foreign, take_rows
from kernelweave._docstrings import texts_of
from kernelweave._interrupts import interrupts_deferred
from kernelweave._parameters import OneOf, ReadableSignature, Whole, checked, shown
from kernelweave._types import Device, Index, Labels, Tree, Values
from kernelweave.gram import BlockStatistics
from kernelweave.gram.row_checks import check_rows
from kernelweave.gram.statistics_files import AddedRows, taken_of, unreadable
from kernelweave.rows.chunks import Chunk, in_chunk

#: What goes to a fold together.
UNITS = ("row", "file")


def folds_of_rows(
    first: int, count: int, n_folds: int, *, source: str = "", by: str = "row", seed: int = 0
) -> Index:
    """Folds of successive rows, whatever chunks they are in: a hash of the name of the file and the number of the row.

    Parameters
    ----------
    first, count : int
        Number of the first row in its file or array, and of rows.
    n_folds : int
    source : str
        Name of the file.
    by : {"row", "file"}
        Whether rows of a file may be in different folds.
    seed : int
    """
    x = hashes_of_rows(first, count, source=source, by=by, seed=seed)
    return (x % np.uint64(n_folds)).astype(np.int64)


def hashes_of_rows(
    first: int, count: int, *, source: str = "", by: str = "row", seed: int = 0
) -> NDArray[np.uint64]:
    """Hashes of successive rows: of the name of the file and the number of the row."""
    key = np.uint64((zlib.crc32(source.encode()) << 32) ^ (seed & 0xFFFFFFFF))
    rows = (
        np.arange(first, first + count, dtype=np.uint64) if by == "row" else np.zeros(count, dtype=np.uint64)
    )
    with np.errstate(over="ignore"):
        # splitmix64 (S. Vigna), once for the key and once for the row
        return _mixed(_mixed(np.full(1, key)) + rows * np.uint64(0x9E3779B97F4A7C15))


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@texts_of(BlockStatistics)
class FoldStatistics(AddedRows):
    """Statistics of folds of rows, for cross-validation without the rows: see `rls2_path_cv`.

    Parameters
    ----------
    n_folds : int, default=5
        Number of folds, at least 2.
    by : {"row", "file"}, default="row"
        Whether a fold is made of rows or of whole files. A row's fold follows from its number in its file or array, not
        from the chunk that it is in.
    seed : int, default=0
        Other numbers make other folds.

    Attributes
    ----------
    parts : list of BlockStatistics
        One for each fold.
    taken : dict of str to int
        Rows that were taken from each source.

    Raises
    ------
    InputError
        Fewer than two folds, and as `BlockStatistics`.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> Z = np.random.default_rng(0).normal(size=(300, 6))
    >>> folds = kw.rows.FoldStatistics(5, [0, 2, 4, 6]).add(Z, Z[:, 0] - Z[:, 5])
    >>> sum(part.n_rows for part in folds.parts), folds.total.n_rows
    (300, 300)
    """

    KIND = "statistics of folds"
    __signature__ = ReadableSignature()

    @checked
    def __init__(
        self,
        n_folds: Annotated[int, Whole(2)] = 5,
        groups: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        by: Annotated[str, OneOf(*UNITS)] = "row",
        seed: Annotated[int, Whole(0)] = 0,
        device: Device = None,
    ) -> None:
        self.by, self.seed = by, seed
        self.parts = [
            BlockStatistics(groups, names=names, columns=columns, device=device) for _ in range(n_folds)
        ]
        self.taken: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"FoldStatistics({len(self.parts)} folds by {self.by}, {self.total_rows} rows)"

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.parts)

    @property
    def total_rows(self) -> int:
        """Rows of positive weight in all folds."""
        return sum(part.n_rows for part in self.parts)

    @property
    def n_features(self) -> int:
        """Number of features; 0 before the first chunk."""
        return max(part.n_features for part in self.parts)

    @property
    def total(self) -> BlockStatistics:
        """Statistics of all rows."""
        return _sum_of(self.parts)

    def without(self, fold: int) -> BlockStatistics:
        """Statistics of the rows of all other folds.

        The sum of the others rather than the difference from all: that keeps the digits also where one fold has much
        larger numbers, and takes less time than the Cholesky factor that follows.

        Parameters
        ----------
        fold : int
            The fold to leave out, from 0.
        """
        return _sum_of([part for k, part in enumerate(self.parts) if k != fold])

    @texts_of(BlockStatistics.add)
    def add(
        self,
        Z: Values,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        taken: tuple[str, int] | None = None,
        first: int | None = None,
    ) -> Self:
        """Add rows, each to its fold; returns itself.

        Parameters
        ----------
        taken : (str, int), optional
            Name of the file and number of its rows that these are.
        first : int, optional
            Number of the first row in its file or array. Default: the rows follow those that were taken before.
        """
        rows, targets, weights, single = check_rows(
            Z,
            y,
            sample_weight,
            self.parts[0].device,
            self.n_features,
            max(part.n_outputs for part in self.parts),
        )
        source, count = ("", len(targets)) if taken is None else taken
        if self.by == "file" and not source:
            raise InputError("`by` must be 'row' for rows that come from no file, got 'file'.")
        start = self.taken.get(source, 0) if first is None else first
        folds = folds_of_rows(start, len(targets), self.n_folds, source=source, by=self.by, seed=self.seed)
        with interrupts_deferred(), ExitStack() as errors:
            if is_foreign(rows):
                for part in self.parts:
                    errors.enter_context(part.unchanged_by_errors())
            for k, part in enumerate(self.parts):
                own = np.flatnonzero(folds == k)
                if len(own):
                    mine = None if weights is None else weights[own]
                    part.add_checked(take_rows(rows, own), targets[own], mine, single, None)
            self._count({source: count})
        return self

    def merge(self, other: FoldStatistics) -> Self:
        """Add the rows of other statistics, fold by fold; returns itself."""
        if not isinstance(other, FoldStatistics) or other is self:
            raise InputError(f"`merge` takes other FoldStatistics, got {shown(other)}.")
        for what in ("n_folds", "by", "seed"):
            if getattr(self, what) != getattr(other, what):
                raise InputError(
                    f"Statistics must have the same `{what}` to merge, got {getattr(self, what)!r} and "
                    f"{getattr(other, what)!r}. Their folds are different."
                )
        with interrupts_deferred():
            for part, more in zip(self.parts, other.parts, strict=True):
                part.merge(more)
            self._count(other.taken)
        return self

    def copy(self) -> Self:
        """Another one with the same numbers."""
        out = type(self).__new__(type(self))
        out.by, out.seed = self.by, self.seed
        out.parts, out.taken = [part.copy() for part in self.parts], dict(self.taken)
        return out

    def empty(self) -> Self:
        """Statistics of the same folds and blocks without rows."""
        out = self.copy()
        out.parts, out.taken = [part.empty() for part in self.parts], {}
        return out

    # ---- files ------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Read products of columns that stay in a file, and hold them in memory."""
        for part in self.parts:
            part.hold()

    def state(self) -> Tree:
        """All numbers as plain arrays."""
        folds = np.array([self.n_folds, UNITS.index(self.by), self.seed], dtype=np.int64)
        parts = {
            f"{k}.{name}": value for k, part in enumerate(self.parts) for name, value in part.state().items()
        }
        return {"folds": folds, **self._state_of_taken(), **parts}

    @classmethod
    def of_state(cls, arrays: Mapping[str, Labels], where: object) -> Self:
        """Statistics from the arrays of `state`; what does not fit together is an `InputError`."""
        try:
            n_folds, unit, seed = map(int, arrays["folds"])
            out = cls(n_folds, by=UNITS[unit], seed=seed)
            out.taken = taken_of(arrays)
        except (KeyError, ValueError, IndexError) as error:
            raise unreadable(where, error) from error
        out.parts = [BlockStatistics.of_state(_of_fold(arrays, k), where) for k in range(n_folds)]
        return out


def _sum_of(parts: Sequence[BlockStatistics]) -> BlockStatistics:
    """The sum of some statistics, which are not changed: one copy, whatever their number."""
    return BlockStatistics.merged([parts[0].copy(), *parts[1:]])


def _of_fold(arrays: Mapping[str, Any], fold: int) -> dict[str, Any]:
    start = f"{fold}."
    return {name[len(start) :]: value for name, value in arrays.items() if name.startswith(start)}


# ---- statistics of all rows or of folds -----------------------------------------------------------

Statistics = BlockStatistics | FoldStatistics


def add_chunk(found: Statistics, chunk: Chunk) -> None:
    """Add a chunk; messages name its file and rows."""
    taken = (chunk.source, len(chunk))
    with in_chunk(chunk):
        if isinstance(found, FoldStatistics):
            found.add(chunk.Z, chunk.y, chunk.sample_weight, taken=taken, first=chunk.first)
        else:
            found.add(chunk.Z, chunk.y, chunk.sample_weight, taken=taken)
