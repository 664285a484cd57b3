"""Reasons for doubt that lie in the columns of a table: names of rows, and columns that give the target away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kernelweave._types import Series
from kernelweave.inspection.registry import Basis, Finding, Found, collect, finding
from kernelweave_app.runs.preparing import Prepared
from kernelweave_app.runs.spec import SURVIVAL
from kernelweave_app.runs.survival import events_of

#: Columns that are told by name.
SHOWN = 5


def doubts_of_table(prepared: Prepared) -> Found:
    """Reasons for doubt in models that learn from a table."""
    return collect(Basis(table=prepared))


def _read(basis: Basis) -> Prepared:
    """The table that rows were read from."""
    return cast(Prepared, basis.table)


@finding("row names", title="Columns that look like names of rows", needs=("table",))
def _names_doubt(basis: Basis) -> Finding | None:
    names = _read(basis).row_names_read
    if not names:
        return None
    what, them = ("A column looks", "it") if len(names) == 1 else (f"{len(names)} columns look", "them")
    return Finding(meaning="Columns with a value of its own in every row say nothing about new rows.").warns(
        f"{what} like names of the rows, which say nothing about new rows ({_listed(names)}). Leave {them} out "
        "(`drop`).",
        {"columns that look like names of rows": len(names)},
    )


@finding("giveaways", title="Columns that give the target away", needs=("table",))
def _giveaways_doubt(basis: Basis) -> Finding | None:
    table = _read(basis)
    copies = {name: why for name, why in find_giveaways(table).items() if name not in table.row_names}
    if not copies:
        return None
    what, them = ("A column tells", "it") if len(copies) == 1 else (f"{len(copies)} columns tell", "them")
    return Finding(meaning="Columns from which the target of every row follows.").warns(
        f"{what} the target of every row ({_listed(copies)}). If new rows will not have {them}, as with copies of the "
        f"target, leave {them} out (`drop`): scores are too good with {them}.",
        {"columns that tell the target": len(copies)},
    )


def _listed(found: Mapping[str, str]) -> str:
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(f"{name!r}: {why}" for name, why in list(found.items())[:SHOWN]) + more


# ---- columns that give the target away --------------------------------------------------------------

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
    # rows from all over a table, which may be sorted by class: a cheap look at many columns
    some = np.unique(np.linspace(0, len(table) - 1, SOME).astype(np.intp))
    numbers: Any = table.select_dtypes("number")
    y = np.asarray(prepared.y)
    if prepared.task == "regression":
        return _on_a_line(numbers, y.astype(float), some)
    on_a_line: dict[str, str] = {}
    if prepared.task == SURVIVAL:
        on_a_line, y = _on_a_line(numbers, y[:, 1].astype(float), some), events_of(y)
    classes, codes = np.unique(y, return_inverse=True)
    # more values than these cannot be told from one that differs in every row
    most = max(MOST_VALUES, 2 * len(classes))
    values, here = numbers.iloc[some].to_numpy(dtype=float), codes[some]
    few = (np.diff(np.sort(values, axis=0), axis=0) > 0).sum(axis=0) < min(
        len(table) // ROWS_OF_A_VALUE, most
    )
    _, firsts = np.unique(here, return_index=True)
    for one in firsts[:MOST_PAIRS]:
        few &= ~(values[here != here[one]] == values[one]).any(axis=0)
    plain = set(numbers.columns[~few])
    return on_a_line | {
        name: "each of its values has rows of one class only"
        for name in table.columns
        if name not in plain and _tells(table[name], codes, most)
    }


def _tells(column: Series, codes: NDArray[np.intp], most: int) -> bool:
    """Whether every value of a column has one class, and enough rows on average."""
    import pandas as pd

    values, levels = pd.factorize(column)
    known = values >= 0  # others are missing
    if not 2 <= len(levels) <= min(most, known.sum() // ROWS_OF_A_VALUE):
        return False
    pairs = np.unique(values[known] * (codes.max() + 1) + codes[known])
    return len(pairs) == len(levels) and len(np.unique(codes[known])) == len(np.unique(codes))


def _on_a_line(numbers: Any, y: NDArray[np.float64], some: NDArray[np.intp]) -> dict[str, str]:
    for rows in (some, slice(None)):
        values, target = numbers.iloc[rows].to_numpy(dtype=float), y[rows]
        # missing cells give NaN, and so do constant columns
        with np.errstate(all="ignore"):
            around, other = values - values.mean(axis=0), target - target.mean()
            r = other @ around / np.sqrt((around**2).sum(axis=0) * (other @ other))
        numbers = numbers.loc[:, np.abs(r) >= 1.0 - ROUNDING]
    return dict.fromkeys(numbers.columns, "on a straight line with it")
