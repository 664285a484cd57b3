"""Missing cells of whole tables: imputed before kernels, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave.kernels.steps import Impute
from kernelweave.views import BlockTable, GramTable, Table
from kernelweave.views.columns import HINT
from kernelweave.views.messages import column_name, listing

Array = NDArray[np.float64]
Fillers = Mapping[str, Any]

#: The name of a table that is not one of several views.
ALONE = ""


def blocks_of(table: Table) -> dict[str, Table]:
    """The tables with columns, by view."""
    if not isinstance(table, BlockTable):
        return {ALONE: table}
    return {view: block for view, block in table.blocks.items() if not isinstance(block, GramTable)}


def fit_fillers(rule: Impute, table: Table, sample_weight: Array | None) -> dict[str, Impute]:
    """The imputation of every view."""
    found: dict[str, Impute] = {}
    for view, block in blocks_of(table).items():
        try:
            found[view] = rule.fitted(block, sample_weight)
        except InputError as error:
            raise InputError(f"View {view!r}: {error}" if view else str(error)) from None
    return found


def fill(fillers: Fillers, table: Table) -> Table:
    """The table without missing cells."""
    if not isinstance(table, BlockTable):
        return fillers[ALONE].apply(table)
    return BlockTable(
        {view: fillers[view].apply(b) if view in fillers else b for view, b in table.blocks.items()}
    )


def count_missing(table: Table) -> dict[str, int]:
    """Numbers of missing cells of the columns that have some, by name."""
    found = {}
    for view, block in blocks_of(table).items():
        counts = block.missing()
        for j in np.flatnonzero(counts):
            name = column_name(int(j), None) if block.names is None else block.names[j]
            found[f"{view}: {name}" if view else str(name)] = int(counts[j])
    return found


def refuse_missing(counts: Mapping[str, int], n_rows: int) -> None:
    """Raise if there are missing cells, naming columns and counts."""
    if not counts:
        return
    most = sorted(counts.items(), key=lambda item: -item[1])[:5]
    named = ", ".join(f"column {name!r} ({count} of {n_rows} rows)" for name, count in most)
    more = f" and {len(counts) - 5} more columns" if len(counts) > 5 else ""
    raise InputError(
        f"X must be complete and finite, but contains NaN (missing values) in {named}{more}. Impute the values or drop "
        f"these rows{HINT}."
    )


def refuse_empty(columns: list[str], n_rows: int) -> None:
    """Raise if a column has no known cell in any training row."""
    if columns:
        raise InputError(
            f"Every column must have known cells, but in {listing(columns, limit=5)} all of the {n_rows} training rows "
            "that could have them lack them. Leave these columns out."
        )
