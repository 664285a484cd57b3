"""Reasons for doubt that lie in the columns of a table: names of rows, and copies of the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelweave_app.runs.giveaways import find_giveaways
from kernelweave_app.runs.row_names import row_names_in

if TYPE_CHECKING:
    from kernelweave_app.reports.evidence import Doubt
    from kernelweave_app.runs.preparing import Prepared

#: Columns that are told by name.
SHOWN = 5


def doubts_of_table(prepared: Prepared) -> list[Doubt]:
    """Reasons for doubt in models that learn from a table.

    Parameters
    ----------
    prepared : Prepared

    Returns
    -------
    list of Doubt
    """
    from kernelweave_app.reports.evidence import Doubt

    found = []
    names = row_names_in(prepared)
    if names:
        what, them = ("A column looks", "it") if len(names) == 1 else (f"{len(names)} columns look", "them")
        found.append(
            Doubt(
                f"{what} like names of the rows, which say nothing about new rows ({_listed(names)}). Leave {them} "
                "out (`drop`).",
                {"columns that look like names of rows": float(len(names))},
            )
        )
    copies = {name: why for name, why in find_giveaways(prepared).items() if name not in names}
    if copies:
        what, them = ("A column tells", "it") if len(copies) == 1 else (f"{len(copies)} columns tell", "them")
        found.append(
            Doubt(
                f"{what} the target of every row ({_listed(copies)}). If new rows will not have {them}, as with copies "
                f"of the target, leave {them} out (`drop`): scores are too good with {them}.",
                {"columns that tell the target": float(len(copies))},
            )
        )
    return found


def _listed(found: Mapping[str, str]) -> str:
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(f"{name!r}: {why}" for name, why in list(found.items())[:SHOWN]) + more
