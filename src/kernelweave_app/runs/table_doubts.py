"""Reasons for doubt that lie in the columns of a table: names of rows, and copies of the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelweave.inspection.registry import Basis, Finding, Found, collect, finding
from kernelweave_app.runs.giveaways import find_giveaways
from kernelweave_app.runs.row_names import row_names_in

if TYPE_CHECKING:
    from kernelweave_app.runs.preparing import Prepared

#: Columns that are told by name.
SHOWN = 5


def doubts_of_table(prepared: Prepared) -> Found:
    """Reasons for doubt in models that learn from a table."""
    return collect(Basis(table=prepared))


@finding("row names", title="Columns that look like names of rows", needs=("table",))
def _row_names(basis: Basis) -> Finding | None:
    names = row_names_in(basis.table)
    if not names:
        return None
    what, them = ("A column looks", "it") if len(names) == 1 else (f"{len(names)} columns look", "them")
    return Finding(meaning="Columns with a value of its own in every row say nothing about new rows.").warns(
        f"{what} like names of the rows, which say nothing about new rows ({_listed(names)}). Leave {them} out "
        "(`drop`).",
        {"columns that look like names of rows": len(names)},
    )


@finding("giveaways", title="Columns that give the target away", needs=("table",))
def _giveaways(basis: Basis) -> Finding | None:
    names = row_names_in(basis.table)
    copies = {name: why for name, why in find_giveaways(basis.table).items() if name not in names}
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
