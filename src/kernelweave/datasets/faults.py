"""Known faults of copies in circulation: recognised by their content, and refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelweave.datasets.reading import RawTable


@dataclass(frozen=True)
class Fault:
    """A property that only faulty copies have, and a description of the fault."""

    present: Callable[[RawTable], bool]
    reason: str


def _largest(column: str, limit: float) -> Callable[[RawTable], bool]:
    return lambda table: column in table.columns and max(table.numbers(column)) > limit


def _rounded(table: RawTable) -> bool:
    cells = [cell for row in table.rows for cell in row[:-1] if cell]
    return all(len(cell.partition(".")[2].rstrip("0")) <= 3 for cell in cells)


def _complete(table: RawTable) -> bool:
    return all(cell for row in table.rows for cell in row)


def _disagree(rule: Callable[..., bool], *columns: str) -> Callable[[RawTable], bool]:
    def present(table: RawTable) -> bool:
        values = zip(*(table.column(c) for c in columns), strict=True)
        right = [str(int(rule(*map(int, row)))) for row in values]
        return right != table.column("target")

    return present


_KEEL = (
    "it is the KEEL copy, where {} lost the decimal point (30.83 became 3083); the digits cannot be restored."
)
_ROUNDED = "it is the KEEL copy, rounded to three decimals."

#: By data set. Order matters: the first that is present is reported.
FAULTS: dict[str, tuple[Fault, ...]] = {
    "australian": (Fault(_largest("A2", 200), _KEEL.format("A2, A3 and A7")),),
    "credit": (Fault(_largest("A2", 200), _KEEL.format("A2, A3 and A8")),),
    "heart": (Fault(_largest("oldpeak", 6.5), _KEEL.format("oldpeak")),),
    "prostate": (
        Fault(
            _largest("lweight", 6.0),
            "it has the old lweight 6.1076 of subject 32, later corrected to 3.8044.",
        ),
    ),
    "ionosphere": (Fault(_rounded, _ROUNDED),),
    "sonar": (Fault(_rounded, _ROUNDED),),
    "servo": (
        Fault(
            lambda table: all(value == int(value) for value in table.numbers("target")),
            "its target has the ranks 1 to 51 of the rise times, not the times.",
        ),
    ),
    "autompg": (
        Fault(
            lambda table: 81.0 not in table.numbers("model_year"),
            "it writes the model year 1981 as 1982.",
        ),
    ),
    "cpu": (
        Fault(
            lambda table: len(table.rows) == 209 and table.rows[147][-1] in ("110", "110.0"),
            "PRP of row 148 is 110 instead of 111, as in an R package.",
        ),
    ),
    "wpbc": (Fault(_complete, "its four missing lymph node counts were replaced by numbers."),),
    "ilpd": (Fault(_complete, "its four missing albumin ratios were replaced by numbers."),),
    "monk3": (
        Fault(
            _disagree(lambda a2, a4, a5: (a5 == 3 and a4 == 1) or (a5 != 4 and a2 != 3), "a2", "a4", "a5"),
            "its labels are not those of the third problem (copies named monk-2 and monk-3 are mixed up).",
        ),
    ),
}
FAULTS["cpu_with_erp"] = FAULTS["cpu"]
FAULTS["wpbc_with_id"] = FAULTS["wpbc"]


def find_fault(name: str, table: RawTable) -> str:
    """Describe the fault of a copy, or return an empty text."""
    for fault in FAULTS.get(name, ()):
        try:
            if fault.present(table):
                return fault.reason
        except ValueError:
            return "it has text instead of numbers."
    return ""
