"""Columns that give the target away: copies of it, in other words or units, which new rows may not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kernelweave._types import DataFrame, Series
    from kernelweave_app.runs.preparing import Prepared

#: Rows from which on a copy is told from chance.
FEWEST_ROWS = 20
#: Rows that a value must have on average: a value of its own in each row would tell every class.
ROWS_OF_A_VALUE = 5
#: Values of a copy of classes.
MOST_VALUES = 100
#: Rows that are looked at first, from all over the table, and those of them that are compared with all others.
SOME, MOST_PAIRS = 500, 10
#: A correlation this close to 1 is one of rounding.
ROUNDING = 1e-9


def find_giveaways(prepared: Prepared) -> dict[str, str]:
    """Columns to learn from that give the target away, and how.

    Parameters
    ----------
    prepared : Prepared

    Returns
    -------
    dict of str to str
        Of classes columns of which every value is that of one class, though values return; of numbers those on a
        straight line with the target. Empty for several targets.

    Notes
    -----
    A measurement can be as good as that: a column found here is to be looked at, not one to be left out without a look.
    """
    table = prepared.frame
    if prepared.names or len(table) < FEWEST_ROWS or not table.shape[1]:
        return {}
    if prepared.task == "regression":
        return _lines(table, np.asarray(prepared.y, dtype=float))
    _, codes = np.unique(np.asarray(prepared.y), return_inverse=True)
    return {
        name: "each of its values has rows of one class only"
        for name in _worth_a_look(table, codes)
        if _tells(table[name], codes)
    }


def _some(n_rows: int) -> NDArray[np.intp]:
    """Rows from all over a table, which may be sorted by class."""
    return np.unique(np.linspace(0, n_rows - 1, SOME).astype(np.intp))


def _worth_a_look(table: DataFrame, codes: NDArray[np.intp]) -> list[str]:
    """Columns but those of numbers that have many values, or one in common between classes: a cheap look at many."""
    rows = _some(len(table))
    numbers: Any = table.select_dtypes("number").iloc[rows]
    values, classes = numbers.to_numpy(dtype=float), codes[rows]
    few = (np.diff(np.sort(values, axis=0), axis=0) > 0).sum(axis=0) < _most_values(len(table), codes)
    _, firsts = np.unique(classes, return_index=True)
    for one in firsts[:MOST_PAIRS]:
        others = classes != classes[one]
        few &= ~(values[others] == values[one]).any(axis=0)
    plain = set(numbers.columns[~few])
    return [name for name in table.columns if name not in plain]


def _most_values(n_rows: int, codes: NDArray[np.intp]) -> int:
    """Values of a column that can be told from one that differs in every row."""
    return min(n_rows // ROWS_OF_A_VALUE, max(MOST_VALUES, 2 * (int(codes.max()) + 1)))


def _tells(column: Series, codes: NDArray[np.intp]) -> bool:
    """Whether every value of a column has one class, and as many rows on average."""
    values, n_values = _numbered(column)
    known = values >= 0
    if (
        n_values < 2
        or n_values * ROWS_OF_A_VALUE > known.sum()
        or n_values > max(MOST_VALUES, 2 * codes.max() + 2)
    ):
        return False
    pairs = np.unique(values[known] * (codes.max() + 1) + codes[known])
    return len(pairs) == n_values and len(np.unique(codes[known])) == len(np.unique(codes))


def _numbered(column: Series) -> tuple[NDArray[np.intp], int]:
    """Values as numbers from 0, -1 where missing, and how many there are."""
    import pandas as pd

    codes, levels = pd.factorize(column)
    return np.asarray(codes, dtype=np.intp), len(levels)


def _lines(table: DataFrame, y: NDArray[np.float64]) -> dict[str, str]:
    numbers: Any = table.select_dtypes("number")
    for rows in (_some(len(table)), slice(None)):
        values, target = numbers.iloc[rows].to_numpy(dtype=float), y[rows]
        # missing cells give NaN, and so do constant columns
        with np.errstate(all="ignore"):
            around, other = values - values.mean(axis=0), target - target.mean()
            r = other @ around / np.sqrt((around**2).sum(axis=0) * (other @ other))
        numbers = numbers.loc[:, np.abs(r) >= 1.0 - ROUNDING]
    return dict.fromkeys(numbers.columns, "on a straight line with it")
