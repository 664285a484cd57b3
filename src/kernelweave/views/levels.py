"""Columns with a level of their own in nearly every row, and columns with many levels: what a plain fit makes of them.

Everything here follows from training rows without targets. Rows that repeat count once, so that weights as repetitions
change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave.views.tables import Cells, SparseTable, Table

__all__ = ["FEWEST_ROWS", "MOSTLY", "Levels", "identifier", "is_called", "levels_of", "mostly_rare"]

Array = NDArray[np.float64]

#: Rows from which on identifiers are told from measurements, and the fraction of them with a value of its own.
FEWEST_ROWS, MOSTLY = 10, 0.9
#: What identifiers are called: "id", "patient_id", "sample no", and "PatientID".
CALLED = re.compile(
    r"(?:^|[\W_])(?i:id|ids|idx|identifier|no|nr|number|accession|barcode)$|(?<=[a-z])(?:Id|ID|No|Nr)$"
)
#: What columns are called that count the rows: those that pandas and R add when they write a table.
COUNTERS = re.compile(r"(?i:|unnamed: 0|index|row|rownames?|row[ _.]names?)")
#: A code: one word of letters, digits and marks, with a digit, that is no number with a unit and no time of day.
CODE = re.compile(r"(?=\S*\d)(?!\d+(?:[.:]\d+)*[A-Za-z%]{0,3}$)[A-Za-z0-9][\w.:#/-]*")
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
    """

    identifiers: dict[int, str]
    texts: tuple[int, ...]

    def describe(self, table: Table) -> list[str]:
        """What follows for the columns of a table, in sentences."""
        names = table.column_names
        found = [
            f"{names[j]!r} is left out: it names the rows ({why})." for j, why in self.identifiers.items()
        ]
        return found + [
            f"{names[j]!r} has {table.levels[j]} levels, most rows with a rare one: compared as texts."
            for j in self.texts
        ]


def levels_of(table: Table, skip: Collection[int] = ()) -> Levels:
    """The identifiers, and the columns with many levels, of the training rows of one table.

    Parameters
    ----------
    table : Table
        With the cells of all columns of texts.
    skip : collection of int, default=()
        Columns that are read as texts anyway.

    Returns
    -------
    Levels
        Never all columns are identifiers.
    """
    identifiers: dict[int, str] = {}
    texts: list[int] = []
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
        elif own is not None and own.are(str):
            # to let the rare levels of other columns count as one was worse where levels return, as of countries
            known = values[values >= 0].astype(np.intp)
            if mostly_rare(np.bincount(known, minlength=table.levels[j])):
                texts.append(j)
    if len(identifiers) == table.n_columns:
        identifiers = {}
    return Levels(identifiers, tuple(texts))


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

    Texts do if nearly all of them are codes, one word with a digit, or if the column is called like an identifier.
    Numbers do if they are whole and the column is called so, or as pandas and R call the numbers of the rows.

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
    'a text of its own in 20 of 20 rows'
    >>> identifier(np.arange(20.0), "SampleID", 20), identifier(np.arange(20.0), "year", 20)
    ('whole numbers, another one in 20 of 20 rows', '')
    """
    n, n_distinct = len(known), len(set(known))
    if n < max(FEWEST_ROWS, MOSTLY * n_rows) or n_distinct < MOSTLY * n:
        return ""
    called = is_called(name)
    if not isinstance(known, np.ndarray):
        codes = sum(CODE.fullmatch(text) is not None for text in known)
        return f"a text of its own in {n_distinct} of {n_rows} rows" if called or codes >= MOSTLY * n else ""
    if not called or (known % 1 != 0).any():
        return ""
    return f"whole numbers, another one in {n_distinct} of {n_rows} rows"


def is_called(name: str) -> bool:
    """Whether a column is called like an identifier, or like a count of the rows."""
    return bool(CALLED.search(name) or COUNTERS.fullmatch(name))
