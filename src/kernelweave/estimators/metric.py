"""Learnt metrics of fitted kernels, by view, and when a plain fit tries one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelweave.estimators.choosing import SQUARED, Candidates
from kernelweave.fitting.source import TableSource
from kernelweave.fitting.task import Task
from kernelweave.kernels import Metric
from kernelweave.kernels.composed import steps_of
from kernelweave.views import BlockTable, GramTable, SparseTable
from kernelweave.views.tables import TEXT

__all__ = [
    "LOST",
    "NEARLY_LOST",
    "NEARLY_WON",
    "PREFERENCE",
    "WON",
    "ViewMetric",
    "may_learn",
    "metrics_of",
    "said_of_metric",
]

#: A plain fit takes the metric if the squared error on folds is below this multiple of that of the usual kernels.
PREFERENCE = 0.98
#: Beyond these multiples of that error, on some of many rows, it is refused, or taken, without all of them.
LOST, WON = 1.1, 0.85
#: The same on all of few rows, without the last candidates beside the best ones, which change the error by less.
NEARLY_WON, NEARLY_LOST = 0.95, 1.01
#: Distinct rows, and columns of a view, with which a plain fit tries a metric.
FEWEST_ROWS, MOST_ROWS, MOST_COLUMNS = 30, 2000, 128


@dataclass(frozen=True, eq=False)
class ViewMetric:
    """The metric of a view.

    Attributes
    ----------
    step : Metric
        The learnt step.
    shares : dict of str to float
        By column its share in the trace.
    """

    step: Metric
    shares: dict[str, float]


def may_learn(task: Task, candidates: Candidates) -> bool:
    """Whether a plain fit tries a metric: one number to predict from several dense columns, on folds, of exact kernels.

    With very few rows the evidence of many rates says little; with many rows or columns it takes far more than the fit.
    """
    source = task.source
    asked = not task.classification and task.n_outputs == 1 and candidates.name == SQUARED
    if (
        not asked
        or candidates.search is None
        or candidates.n_folds < 2
        or not isinstance(source, TableSource)
    ):
        return False
    if source.explicit or not source.is_whole or any(kernel.is_corrected for kernel in source.kernels):
        return False
    if not FEWEST_ROWS <= int(task.content.max()) + 1 <= MOST_ROWS:
        return False
    blocks = list(source.raw.blocks.values()) if isinstance(source.raw, BlockTable) else [source.raw]
    dense = [block for block in blocks if not isinstance(block, SparseTable | GramTable)]
    widths = [block.n_expanded_columns for block in dense]
    return any(width > 1 for width in widths) and all(width <= MOST_COLUMNS for width in widths)


def said_of_metric(error: float, other: float, some: bool, *, taken: bool) -> str:
    """What is said of a metric: squared errors on folds of the usual kernels, and in the metric.

    `some` is whether these are errors on some of the rows, and `taken` whether the model has the metric.
    """
    more = "; `relevance_` has the shares of columns. It is a local solution." if taken else "."
    return (
        f"a factor for each column was learnt from the target and {'' if taken else 'not '}taken, as the squared error "
        f"on {'some of the rows of the same folds' if some else 'the same folds'} is {other:.3g} with it and "
        f"{error:.3g} without{more}"
    )


def metrics_of(source: TableSource) -> dict[str, ViewMetric]:
    """The learnt metric of every view whose kernels have one; the first of those that a view has."""
    found: dict[str, ViewMetric] = {}
    for kernel in source.kernels:
        steps = [one for one in steps_of(kernel) if isinstance(one, Metric) and one.is_fitted]
        if steps and kernel.view not in found:
            table = source.filled(source.raw).select(kernel.columns)
            # shares of indicators of categories and missing cells, and of parts of dates, are added up by column
            shares = np.bincount(table.owners, weights=steps[0].relevance, minlength=table.n_columns)
            read = zip(table.column_names, table.levels, shares, strict=True)
            own = {str(name): float(share) for name, level, share in read if level != TEXT}
            found[kernel.view] = ViewMetric(steps[0], own)
    return found
