"""Treatment of missing cells and missing views by estimators, and its description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import InstanceOf, OneOf
from kernelweave._types import Features
from kernelweave.fitting.missing import fill, fit_fillers, missing_cells, refuse_empty, refuse_missing
from kernelweave.fitting.partial import PartialSource
from kernelweave.fitting.source import TableSource
from kernelweave.kernels import Impute, Kernel
from kernelweave.kernels.composed import cells_read
from kernelweave.kernels.steps import SHORT, as_steps
from kernelweave.views import Table

#: Values of `missing` that are texts.
MISSING = ("error", "impute", *SHORT, "skip")
#: Admissible values of `missing`.
CELLS = OneOf(*MISSING) | InstanceOf((Impute,), "a kw.kernels.Impute")
#: Values of `missing_views`.
MISSING_VIEWS = ("renormalize", "complete", "error")

_FILLED = {
    "mean": "numbers are filled with the mean of their column, categories with the most frequent one",
    "median": "numbers are filled with the median of their column, categories with the most frequent one",
    "nearest": "numbers are filled with the mean over the {k} nearest training rows, categories with the most frequent "
    "one",
}
_VIEWS = {
    "renormalize": "if one of two rows lacks a view, its kernels have the mean of those of the views that both have",
    "complete": "kernels of a view that rows lack are completed from those of the other views",
}


def imputer_of(missing: object) -> Impute | None:
    """The imputation of cells; None if they are an error, or skipped."""
    if isinstance(missing, Impute):
        return missing
    if missing in ("error", "skip"):
        return None
    [step] = as_steps([missing])
    assert isinstance(step, Impute)
    return step


def takes_missing(missing: object, kernels: Any) -> bool:
    """Whether missing cells are allowed: by `missing`, or by the steps of all kernels."""
    if not isinstance(missing, str) or missing != "error":
        return True
    if isinstance(kernels, Kernel):
        kernels = [kernels]
    if isinstance(kernels, Mapping):
        kernels = [k for own in kernels.values() for k in (own if isinstance(own, Sequence) else [own])]
    if not isinstance(kernels, Sequence) or isinstance(kernels, str) or not len(kernels):
        return False
    return all(isinstance(kernel, Kernel) and kernel.takes_missing for kernel in kernels)


def skipping(kernel: Kernel) -> Kernel:
    """The kernel after the step that skips missing cells; unchanged if its steps fill them."""
    if kernel.takes_missing:
        return kernel
    if cells_read(kernel):
        raise InputError(
            f"missing='skip' compares rows in the columns that both have, and {kernel!r} reads one column, whose "
            "cells are no numbers. Use missing='impute': a missing cell is then an empty text or graph, similar to "
            "nothing."
        )
    return kernel.prepared("skip")


def looked_at(table: Table) -> Table:
    """A table with missing cells as one without, for the inspection of columns."""
    return fill(fit_fillers(Impute(), table, None), table)


def check_cells(
    kernels: Sequence[Kernel], table: Table, views: Mapping[str, Any], imputer: Impute | None
) -> dict[str, int]:
    """Numbers of missing cells by column; raises for such without a treatment, and for columns without a known cell."""
    cells = missing_cells(table, views)
    if cells and imputer is None and not all(kernel.takes_missing for kernel in kernels):
        refuse_missing({name: lost for name, (lost, _) in cells.items()}, table.n_rows)
    refuse_empty([name for name, (lost, rows) in cells.items() if lost == rows], table.n_rows)
    return {name: lost for name, (lost, _) in cells.items()}


def missing_of(
    source: TableSource, cells: Mapping[str, int], missing: object, missing_views: str
) -> dict[str, Any]:
    """Missing cells of the training rows and their treatment as plain values; see `MKLRegressor.missing_`."""
    lost: dict[str, int] = {}
    if isinstance(source, PartialSource):
        lost = {view: int((~there).sum()) for view, there in source.present.items() if not there.all()}
    found: dict[str, Any] = {"n_rows": source.n_samples, "cells": dict(cells), "views": lost}
    imputer = source.imputer
    if cells and imputer is not None:
        done = _FILLED[imputer.rule].format(k=imputer.n_neighbors)
        marks = "; columns of 0 and 1 mark missing cells" if imputer.indicator else ""
        found["cells_done"] = f"{done}{marks}"
    elif cells:
        skip = isinstance(missing, str) and missing == "skip"
        found["cells_done"] = (
            "kernels compare rows in the columns that both have" if skip else "as in the steps of the kernels"
        )
    if lost:
        found["views_done"] = _VIEWS[missing_views]
    return found


def in_order(X: Features, given: Mapping[str, Any], missing_views: str) -> dict[str, Any]:
    """Values of rows, by name, in the order of the rows of views, if frames joined by index have different rows.

    A series is matched by its index if the first view lacks rows. Anything else belongs to the rows of the first view,
    which must have all rows then.
    """
    found = dict(given)
    if missing_views == "error" or not isinstance(X, Mapping):
        return found
    tables = list(X.values())
    if not tables or not all(hasattr(table, "iloc") and hasattr(table, "index") for table in tables):
        return found
    first, *others = [table.index for table in tables]
    if not all(index.is_unique for index in (first, *others)):
        return found
    every = first
    for index in others:
        if not len(every.intersection(index)):
            # which has its own error
            return found
        every = every.append(index.difference(every, sort=False))
    if len(every) == len(first):
        return found
    for name, values in given.items():
        if values is None or np.isscalar(values):
            continue
        labels = getattr(values, "index", None)
        known = labels is not None and hasattr(values, "loc") and labels.is_unique
        if not known or len(every.difference(labels)):
            raise InputError(
                f"The first view has {len(first)} of {len(every)} rows, so the rows of the values of `{name}` are "
                f"unknown. Pass `{name}` as a pandas series with the index of all rows, or put a view that has all "
                "rows first."
            )
        found[name] = values.loc[every]
    return found


def refuse_absent_views(X: Features) -> None:
    """Raise for a view that is None in `fit`."""
    if not isinstance(X, Mapping):
        return
    absent = [view for view, table in X.items() if table is None]
    if absent:
        raise InputError(
            f"View {absent[0]!r} is missing in all training rows: it is None. Leave it out, or pass a table with the "
            "rows that have it."
        )
