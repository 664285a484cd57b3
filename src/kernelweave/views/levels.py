"""Columns with a level of their own in nearly every row, and columns with many levels: what a plain fit makes of them.

Everything here follows from training rows without targets. Rows that repeat count once, so that weights as repetitions
change nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kernelweave.views.tables import Cells, SparseTable, Table

__all__ = ["FEWEST_ROWS", "MOSTLY", "Levels", "identifier", "is_called", "levels_of", "mostly_rare"]

Array = NDArray[np.float64]

#: Rows from which on identifiers are told from measurements, and the fraction of them with a value of its own.
FEWEST_ROWS, MOSTLY = 10, 0.9
#: What identifiers are called: "id", "patient_id", and "PatientID".
IDS = re.compile(r"(?:^|[\W_])(?i:ids?|identifier|accession|barcode)$|(?<=[a-z])(?:Id|ID)$")
#: What names of rows are called that pandas and R add when they write a table.
ROW_NAMES = re.compile(r"(?i:|unnamed: 0|row[ _.]?names?)")
#: What columns are called that may count the rows, or hold a measurement: "index", "sample no", and "DoseNo".
COUNTERS = re.compile(r"^(?i:row)$|(?:^|[\W_])(?i:index|idx|no|nr|number)$|(?<=[a-z])(?:No|Nr)$")
#: A code: one word without digits, then digits. Its beginning must be that of the others.
CODE = re.compile(r"(?=[^\d\s]*[^\W\d_])([^\d\s]+)\d+")
#: A checksum or another random number, and one as UUID.
HEX, UUID = re.compile(r"[\da-fA-F]{8,}"), re.compile(r"[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}")
#: A letter that decimal numbers such as 12345e67 do not have, and a digit.
LETTER, DIGIT = re.compile(r"[a-df-zA-DF-Z]"), re.compile(r"\d")
#: A date, which is a measurement though it differs in every row.
DATED = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
#: Levels above which a column has many, and rows below which a level is rare.
MANY, RARE = 20, 3
#: Fraction of the rows in rare levels from which on levels are texts that resemble each other, like names of models.
MOSTLY_RARE = 0.5


@dataclass(frozen=True)
class Levels:
    """What the levels of the columns of a table are.

    Attributes
    ----------
    identifiers : dict of int to str
        Columns that name the rows, and why.
    texts : tuple of int
        Columns of many levels, most rows in rare ones: they are compared as texts.
    dates : tuple of int, default=()
        Those among them that hold dates as texts.
    """

    identifiers: dict[int, str]
    texts: tuple[int, ...]
    dates: tuple[int, ...] = ()

    def of_view(self, columns: Collection[int]) -> Self:
        """The same where a view has these columns: one of identifiers alone keeps them."""
        if not set(columns) <= self.identifiers.keys():
            return self
        return replace(self, identifiers={j: why for j, why in self.identifiers.items() if j not in columns})

    def describe(self, table: Table) -> list[str]:
        """What follows for the columns of a table, in sentences."""
        names = table.column_names
        found = [
            f"{names[j]!r} is left out: it looks like a row identifier ({why})."
            for j, why in self.identifiers.items()
        ]
        for j in self.texts:
            said = f"{names[j]!r} has {table.levels[j]} levels, most rows with a rare one: compared as texts."
            hint = " These are dates: convert them with pandas.to_datetime." if j in self.dates else ""
            found.append(said + hint)
        return found


def levels_of(table: Table, skip: Collection[int] = (), *, compares: bool = True) -> Levels:
    """The identifiers, and the columns with many levels, of the training rows of one table.

    Parameters
    ----------
    table : Table
        With the cells of all columns of texts.
    skip : collection of int, default=()
        Columns that are read as texts anyway.
    compares : bool, default=True
        Whether columns of many levels may be compared as texts; otherwise they stay categories.

    Returns
    -------
    Levels
        Never all columns are identifiers.
    """
    identifiers: dict[int, str] = {}
    texts: list[int] = []
    dates: list[int] = []
    names = table.column_names
    if isinstance(table, SparseTable):
        return Levels({}, ())
    candidates = [
        j
        for j, level in enumerate(table.levels)
        if j not in skip
        and (level >= FEWEST_ROWS or (level == 0 and table.names is not None and is_called(names[j])))
    ]
    if not candidates:
        return Levels({}, ())
    rows = _distinct(table.values)
    for j in candidates:
        own = None if table.cells is None else table.cells[j]
        values = table.values[rows, j]
        if why := _why(values, own, rows, names[j], table.levels[j]):
            identifiers[j] = why
        elif compares and own is not None and own.are(str):
            # to let the rare levels of other columns count as one was worse where levels return, as of countries
            known = values[values >= 0].astype(np.intp)
            if mostly_rare(np.bincount(known, minlength=table.levels[j])):
                texts.append(j)
                if all(DATED.fullmatch(text) for text in own.values.tolist() if text):
                    dates.append(j)
    if len(identifiers) == table.n_columns:
        identifiers = {}
    return Levels(identifiers, tuple(texts), tuple(dates))


def _distinct(values: Array) -> NDArray[np.intp]:
    """Positions of the rows that differ, the first of equal ones."""
    plain = np.ascontiguousarray(np.where(np.isnan(values), -np.inf, values) + 0.0)
    first: dict[bytes, int] = {}
    for i, row in enumerate(plain):
        first.setdefault(row.tobytes(), i)
    return np.fromiter(first.values(), dtype=np.intp)


def _why(values: Array, own: Cells | None, rows: NDArray[np.intp], name: str, level: int) -> str:
    known = ~np.isnan(values)
    if level == 0:
        return identifier(values[known], name, len(values))
    if own is None or not own.are(str):
        return ""
    return identifier([str(text) for text in own.values[rows][known]], name, len(values))


def mostly_rare(counts: NDArray[np.intp]) -> bool:
    """Whether there are many levels, with most rows in rare ones; `counts` are the rows of each level."""
    return len(counts) > MANY and int(counts[counts < RARE].sum()) >= MOSTLY_RARE * int(counts.sum())


def identifier(known: Sequence[str] | Array, name: str, n_rows: int) -> str:
    """Why the values of a column name its rows; empty where they do not.

    Texts do if the column is called like an identifier, or if nearly all are codes of one shape: the same beginning
    and a number (P0001, GSM12345), UUIDs, or hexadecimal numbers of one length. Whole numbers do if the column is
    called like an identifier or like the names that pandas and R write; in columns called index, row, no or number
    they do if they count the rows.

    Parameters
    ----------
    known : sequence of str, or array
        The values that are not missing.
    name : str
    n_rows : int
        The number of rows.

    Examples
    --------
    >>> identifier([f"p{k}" for k in range(20)], "patient", 20)
    '20 distinct values in 20 rows'
    >>> identifier(np.arange(20.0) ** 2, "SampleID", 20), identifier(np.arange(20.0) ** 2, "dose no", 20)
    ('whole numbers, 20 distinct ones in 20 rows', '')
    """
    n, n_distinct = len(known), len(set(known))
    if n < max(FEWEST_ROWS, MOSTLY * n_rows) or n_distinct < MOSTLY * n:
        return ""
    named = bool(IDS.search(name) or ROW_NAMES.fullmatch(name))
    if not isinstance(known, np.ndarray):
        dated = all(DATED.fullmatch(text) for text in known)
        is_name = (named and not dated) or _are_codes(known)
        return f"{n_distinct} distinct values in {n_rows} rows" if is_name else ""
    if (known % 1 != 0).any():
        return ""
    counts = n_distinct == n and known.max() - known.min() == n - 1
    if not named and not (counts and COUNTERS.search(name)):
        return ""
    return f"whole numbers, {n_distinct} distinct ones in {n_rows} rows"


def _are_codes(texts: Sequence[str]) -> bool:
    """Whether nearly all texts are codes of one shape."""
    enough = MOSTLY * len(texts)
    beginnings = Counter(match[1] for text in texts if (match := CODE.fullmatch(text)))
    if max(beginnings.values(), default=0) >= enough or sum(map(bool, map(UUID.fullmatch, texts))) >= enough:
        return True
    numbers = [text for text in texts if HEX.fullmatch(text)]
    sizes = Counter(map(len, numbers))
    # words such as "defaced" have no digit and decimal numbers no letter; half of them, as random ones may lack either
    both = sum(bool(LETTER.search(text) and DIGIT.search(text)) for text in numbers)
    return max(sizes.values(), default=0) >= enough and both >= 0.5 * len(numbers)


def is_called(name: str) -> bool:
    """Whether a column is called like an identifier, or like a count of the rows."""
    return bool(IDS.search(name) or ROW_NAMES.fullmatch(name) or COUNTERS.search(name))
