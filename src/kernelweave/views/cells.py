"""Cells of texts, sets and other objects, which kernels read themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._types import RowIndex
from kernelweave.views.columns import is_missing

__all__ = ["LONG_TEXT", "Cells", "Words", "as_texts"]

#: Texts with this median number of characters, or of `WORDS` words, are not categories if most of them differ.
LONG_TEXT = 20
WORDS = 3
#: Share of distinct texts for that.
MOSTLY_DISTINCT = 0.5

Rows = NDArray[np.intp]


class Words(str):
    """A text that is read, however short, and not the name of a category."""

    __slots__ = ()


def as_texts(column: Any) -> Any:
    """A column whose cells are texts to read: a plain fit has kernels of texts for it, however short they are.

    Parameters
    ----------
    column : Series, or sequence of texts or numbers
        Whole numbers are written without a decimal point.

    Returns
    -------
    Series of objects, or array of objects of shape (n_rows,)
        Missing cells stay missing.

    Examples
    --------
    >>> as_texts(["C1CC1", 17, 2.0]).tolist()
    ['C1CC1', '17', '2']
    """
    found = np.empty(len(column), dtype=object)
    for i, value in enumerate(column):
        found[i] = value if is_missing(value) else Words(_written(value))
    if hasattr(column, "iloc"):
        return type(column)(found, index=column.index, name=column.name, dtype=object)
    return found


def _written(value: object) -> str:
    """A cell as text, the same for 17 and 17.0."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(int(value)) if isinstance(value, float | np.floating) and value == int(value) else str(value)


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
        """Whether these are texts to read: long ones that mostly differ from row to row, or such of `as_texts`."""
        texts = self.values
        if any(isinstance(text, Words) for text in texts):
            return True
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
