"""Cells of texts, sets and other objects, which kernels read themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._types import RowIndex

__all__ = ["LONG_TEXT", "Cells"]

#: Texts with this median number of characters, or of `WORDS` words, are not categories if most of them differ.
LONG_TEXT = 20
WORDS = 3
#: Share of distinct texts for that.
MOSTLY_DISTINCT = 0.5

Rows = NDArray[np.intp]


class Cells:
    """One column of texts or other objects, or some of its rows.

    Rows of a column share results for the whole column, such as counts of words; see `counted`.

    Parameters
    ----------
    values : sequence of objects
        One for each row.
    """

    def __init__(self, values: Any) -> None:
        if isinstance(values, _Part):
            self.part = values
            return
        column = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            column[i] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        self.part = _Part(column, slice(None), {})

    @property
    def values(self) -> NDArray[np.object_]:
        """The objects, shape (n_rows,)."""
        return self.part.column[self.part.rows]

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, index: RowIndex) -> Cells:
        """The column of some rows: a slice, integers, or a mask."""
        return Cells(self.part.take(index))

    def counted(self, key: Hashable, count: Callable[[NDArray[Any]], tuple[Any, Any]]) -> tuple[Any, Any]:
        """The result of `count` for the whole column, with its first part for these rows only.

        Parameters
        ----------
        key : hashable
            Identifies the result.
        count : callable
            Given all objects, returns an array with one row for each, and another result.
        """
        known = self.part.known
        if key not in known:
            known[key] = count(self.part.column)
        found, others = known[key]
        return found[self.part.rows], others

    def are(self, kind: type | tuple[type, ...]) -> bool:
        """Whether all objects are of a type."""
        return all(isinstance(value, kind) for value in self.values)

    @property
    def is_long_text(self) -> bool:
        """Whether these are texts to read rather than categories: long ones that mostly differ from row to row."""
        texts = self.values
        if not self.are(str) or len(set(texts)) < max(3, MOSTLY_DISTINCT * len(texts)):
            return False
        long = np.median([len(text) for text in texts]) >= LONG_TEXT
        return bool(long or np.median([len(text.split()) for text in texts]) >= WORDS)

    def digests(self) -> NDArray[np.float64]:
        """A number for every object, equal for equal texts."""
        return np.array([_digest(value) for value in self.values])

    def __reduce__(self) -> tuple[object, ...]:
        # counts are not copied but computed again
        return Cells, (self.values,)


@dataclass(frozen=True)
class _Part:
    """Some rows of a column, with results for all of it."""

    column: NDArray[Any]
    rows: Rows | slice
    known: dict[Hashable, Any]

    def take(self, index: RowIndex) -> _Part:
        """Some of these rows."""
        return replace(self, rows=np.arange(len(self.column))[self.rows][index])


def _digest(value: object) -> float:
    if isinstance(value, set | frozenset):
        value = sorted(map(repr, value))
    text = value if isinstance(value, str) else repr(value)
    # a whole number of 48 bits is exact as a float
    return float(int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:6], "big"))
