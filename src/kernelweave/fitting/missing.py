"""Missing cells of whole tables, imputed before kernels, or an error; views of a table, and the rows that have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave.kernels import Kernel
from kernelweave.kernels.composed import parts_of
from kernelweave.kernels.steps import Impute
from kernelweave.views import BlockTable, GramTable, Table, ViewColumns
from kernelweave.views.columns import HINT
from kernelweave.views.selection import column_name, listing

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Fillers = Mapping[str, Any]

#: Positions of the columns of every view of one table; None for a view of several tables.
ViewPlaces = Mapping[str, tuple[int, ...] | None]
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
    # a column without a name is "column 6", in a view "a: column 6"
    columns = [name if re.fullmatch(r"(.*: )?column \d+", name) else f"column {name!r}" for name, _ in most]
    named = ", ".join(
        f"{name} ({count} of {n_rows} rows)" for name, (_, count) in zip(columns, most, strict=True)
    )
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


def views_of(kernels: Sequence[Kernel], table: Table) -> dict[str, tuple[int, ...] | None]:
    """The views that a table has: its blocks, or the named groups of columns of kernels."""
    if isinstance(table, BlockTable):
        return dict.fromkeys(table.blocks)
    found: dict[str, set[int]] = {}
    for kernel in kernels:
        for view, columns in groups_of(kernel):
            found.setdefault(view, set()).update(table.resolve(columns).tolist())
    return {view: tuple(sorted(places)) for view, places in found.items()}


def groups_of(kernel: Kernel) -> Iterator[tuple[str, Any]]:
    """The views, or named groups of columns, that a kernel reads, each with the columns of it."""
    for _, columns, name in parts_of(kernel):
        if isinstance(columns, ViewColumns):
            yield columns.view, columns
        elif name:
            yield name, columns


def seen_by(kernel: Kernel, views: ViewPlaces) -> tuple[str, ...]:
    """The views of a kernel, which is defined for rows with all of them."""
    named = list(dict.fromkeys(view for view, _ in groups_of(kernel)))
    everywhere = all(places is None for places in views.values())
    return tuple(named) if named or not everywhere else tuple(views)


def rows_with(table: Table, views: ViewPlaces) -> dict[str, Mask]:
    """For each view the rows with a cell of it."""
    found = {}
    if not isinstance(table, BlockTable) and not table.missing().any():
        return {view: np.ones(table.n_rows, dtype=bool) for view in views}
    for view, places in views.items():
        own = table.select(ViewColumns(view) if places is None else places)
        found[view] = ~own.empty_rows()
    return found


def missing_cells(table: Table, views: ViewPlaces) -> dict[str, tuple[int, int]]:
    """For columns with missing cells their number, and that of rows with the view of the column."""
    if not views:
        return {name: (n, table.n_rows) for name, n in count_missing(table).items()}
    present = rows_with(table, views)
    found: dict[str, tuple[int, int]] = {}
    if isinstance(table, BlockTable):
        for view, there in present.items():
            own = BlockTable({view: table.blocks[view].rows(there)})
            found |= {name: (n, int(there.sum())) for name, n in count_missing(own).items()}
        return found
    if not table.missing().any():
        return {}
    lost = np.isnan(table.dense_columns(np.arange(table.n_columns)))
    rows = np.full(table.n_columns, table.n_rows)
    for view, places in views.items():
        columns = np.asarray(places)
        lost[np.ix_(~present[view], columns)] = False
        rows[columns] = present[view].sum()
    names = [f"column {j}" for j in range(table.n_columns)] if table.names is None else table.names
    counts = lost.sum(axis=0)
    return {str(names[j]): (int(counts[j]), int(rows[j])) for j in np.flatnonzero(counts)}
