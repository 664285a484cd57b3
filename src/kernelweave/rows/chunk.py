"""Rows in chunks, and what a source of them is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._devices import take_rows
from kernelweave._errors import InputError, check_known
from kernelweave._parameters import shown

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Chunk:
    """Some rows of a source.

    Attributes
    ----------
    Z : array or sparse matrix of shape (n_samples, n_features)
    y : array of shape (n_samples,) or (n_samples, n_outputs), or None
    sample_weight : array of shape (n_samples,) or None
    source : str
        Name of the file; empty for arrays and iterators.
    first : int
        Number of the first row in the file or array.
    """

    Z: Any
    y: Any
    sample_weight: Any = None
    source: str = ""
    first: int = 0

    def __len__(self) -> int:
        return int(self.Z.shape[0])

    def but_first(self, count: int) -> Chunk:
        """Without the first rows."""
        y = None if self.y is None else self.y[count:]
        weight = None if self.sample_weight is None else self.sample_weight[count:]
        return replace(
            self, Z=take_rows(self.Z, slice(count, None)), y=y, sample_weight=weight, first=self.first + count
        )


@contextmanager
def in_chunk(chunk: Chunk) -> Iterator[None]:
    """Let errors say which rows they are about."""
    try:
        yield
    except InputError as error:
        where = f"{chunk.source}, " if chunk.source else ""
        last = chunk.first + len(chunk) - 1
        raise InputError(f"{error} (In {where}rows {chunk.first} to {last} of `rows`.)") from error


class Source(ABC):
    """Rows in chunks.

    Attributes
    ----------
    total : int or None
        Number of rows, if it is known.
    columns : tuple of str or None
        Names of the features.
    """

    total: int | None = None
    columns: tuple[str, ...] | None = None

    @abstractmethod
    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All rows but the first ``taken[file]`` of each file, in order."""

    def pieces(self) -> list[Source]:
        """Parts that can be read at the same time: a source for each file."""
        return [self]


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are features, targets and the weight.

    Attributes
    ----------
    columns : tuple of str
    targets : tuple of str
        None at all where rows are only predicted.
    single : bool
        Whether targets have one dimension.
    weight : str or None
    """

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    single: bool
    weight: str | None = None

    @property
    def needed(self) -> list[str]:
        """All columns to read, each once."""
        more = (self.weight,) if self.weight else ()
        return list(dict.fromkeys((*self.columns, *self.targets, *more)))

    def split(
        self, column: Callable[[str], NDArray[Any]], n_rows: int, source: str = "", first: int = 0
    ) -> Chunk:
        """A chunk from the columns of a table, given by name."""
        parts = {name: _numbers(name, column(name), source) for name in self.needed}
        single = all(parts[name].dtype == np.float32 for name in self.columns)
        Z = np.empty((n_rows, len(self.columns)), dtype=np.float32 if single else np.float64)
        for j, name in enumerate(self.columns):
            Z[:, j] = parts[name]
        y = np.column_stack([parts[name] for name in self.targets]) if self.targets else None
        if y is not None and self.single:
            y = y[:, 0]
        return Chunk(Z, y, parts[self.weight] if self.weight else None, source, first)


def _numbers(name: str, values: NDArray[Any], source: str) -> NDArray[Any]:
    if values.dtype.kind in "biuf":
        return values
    try:
        if values.dtype.kind == "O" and not any(isinstance(value, str | bytes) for value in values):
            # decimals, and numbers beside None
            return values.astype(np.float64)
    except (TypeError, ValueError):
        pass
    where = f" of {source}" if source else ""
    raise InputError(
        f"Column {name!r}{where} must hold numbers, got {shown(values[:3].tolist())}. Encode it, or name the features "
        "with `columns` or `groups`."
    )


def make_layout(
    known: Sequence[str],
    *,
    target: str | Sequence[str] | None,
    weight: str | None,
    columns: Sequence[str] | None,
) -> Layout:
    """The layout of tables whose columns are known; by default all others are features."""
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    for name, wanted in (
        ("target", targets),
        ("weight", (weight,) if weight else ()),
        ("columns", columns or ()),
    ):
        for one in wanted:
            check_known(one, known, f"column in `{name}`")
    left = [name for name in known if name not in targets and name != weight]
    chosen = tuple(left if columns is None else columns)
    if not chosen:
        raise InputError(
            "`columns` must name at least one feature, got none. The table has no other columns."
        )
    if both := set(chosen) & set(targets):
        raise InputError(f"`columns` must not hold a target, got {sorted(both)[0]!r}. Leave it out.")
    return Layout(chosen, targets, target is None or isinstance(target, str), weight)
