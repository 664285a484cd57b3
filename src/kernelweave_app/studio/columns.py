"""Columns one by one: their type, how their cells are distributed, what is missing, and their part in learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from kernelweave.views import Cells
from kernelweave.views.groups import names_in
from kernelweave_app.runs.row_names import why_names
from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.schema import Column, Data

if TYPE_CHECKING:
    from kernelweave._types import Series
    from kernelweave_app.studio.schema.tables import ColumnKind

#: Bars of a histogram.
BINS = 20
#: Categories with a bar of their own.
MOST_LEVELS = 8

Role = Literal["feature", "target", "key", "group", "weights", "holdout", "ignored"]

#: The part that a column has in learning, by its name.
ROLES: dict[Role, str] = {
    "feature": "feature",
    "target": "target",
    "key": "key",
    "group": "groups",
    "weights": "weight",
    "holdout": "held-out",
    "ignored": "ignored",
}


def describe_column(column: Series, name: str, cut: int = 80) -> Column:
    """Type, range, distribution and missing cells of a column."""
    import pandas as pd

    known = column.dropna()
    kinds = pd.api.types
    low = high = mean = median = None
    counts: list[int] = []
    levels: dict[str, int] = {}
    kind: ColumnKind
    if kinds.is_bool_dtype(column):
        kind = "yes/no"
    elif kinds.is_numeric_dtype(column):
        values = known.to_numpy(dtype=np.float64)
        kind = "whole number" if len(values) and (values % 1 == 0).all() else "number"
        if len(values):
            low, high, mean, median = (float(f(values)) for f in (np.min, np.max, np.mean, np.median))
        counts = histogram(values)
    elif kinds.is_datetime64_any_dtype(column):
        kind = "date"
    else:
        kind = "text"
    if low is None:
        found = known.astype(str).value_counts()
        n_distinct = len(found)
        levels = {shorten(str(k), cut): int(v) for k, v in found.head(MOST_LEVELS).items()}
    else:
        n_distinct = int(known.nunique())
    return Column(
        name=name,
        kind=kind,
        n_missing=len(column) - len(known),
        n_distinct=n_distinct,
        low=low,
        high=high,
        mean=mean,
        median=median,
        counts=counts,
        levels=levels,
        examples=[] if low is not None else list(levels)[:4],
        taken_for=taken_for(column, kind),
        names_rows=why_names(column, name),
    )


def taken_for(column: Series, kind: ColumnKind) -> Literal["number", "category", "text", ""]:
    """What a fit with the default kernels takes a column for."""
    if kind == "date":
        return ""
    if kind in ("number", "whole number"):
        return "number"
    is_category = kind == "yes/no" or str(column.dtype) == "category"
    known = column.dropna()
    return "category" if is_category or not Cells(known.tolist()).is_long_text else "text"


def histogram(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[int]:
    """Counts of numbers in bins of one width, a bin for each value where there are few whole ones."""
    values = values[np.isfinite(values)]
    if not len(values):
        return []
    low, high = float(values.min()), float(values.max())
    if low == high:
        return [len(values)]
    whole = high - low < BINS and bool((values % 1 == 0).all())
    bins = int(high - low) + 1 if whole else BINS
    reach = (low - 0.5, high + 0.5) if whole else (low, high)
    if not np.isfinite(reach[1] - reach[0]):
        return []
    return [int(n) for n in np.histogram(values, bins=bins, range=reach)[0]]


def shorten(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


# ---- roles ----------------------------------------------------------------------------------------


def role_of(name: str, spec: FitSpec, data: Data) -> Role:
    """The part of a column in learning."""
    if name and name == data.key:
        return "key"
    for role in ("target", "group", "weights", "holdout"):
        if name == getattr(spec, role):
            return role
    return "ignored" if name in names_in(spec.drop) else "feature"


def with_role(name: str, role: Role, spec: FitSpec) -> dict[str, object]:
    """Settings that change so that a column has a role, other than key; no column has two."""
    changed: dict[str, object] = {}
    for other in ("target", "group", "weights", "holdout"):
        if getattr(spec, other) == name and other != role:
            changed[other] = ""
    dropped = [c for c in names_in(spec.drop) if c != name]
    if role == "ignored":
        dropped.append(name)
    if dropped != names_in(spec.drop):
        changed["drop"] = dropped
    if role not in ("feature", "ignored", "key"):
        changed[role] = name
        if role == "target":
            changed["task"] = "auto"
    return changed
