"""Columns in a learnt metric: the share of each, as a table and as a finding."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from kernelweave._parameters import checked
from kernelweave.inspection.arguments import Model
from kernelweave.inspection.registry import MOST_NAMED, Basis, Finding, Interval, Table, at, finding, named

__all__ = ["column_relevance"]

#: Columns in a table, at most.
MOST_COLUMNS = 50


@checked
def column_relevance(estimator: Model) -> dict[str, float]:
    """Shares of columns in the learnt metric, the largest first; empty for models without one.

    Parameters
    ----------
    estimator : fitted estimator
        Whose kernels and weights are looked at.

    Returns
    -------
    dict of str to float
        The attribute `relevance_` as one dict: by column, or by view and column where there are several views. The
        shares of a view sum to 1.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = kw.MKLRegressor(learner="metric").fit(X, np.sin(2 * X[:, 1]))
    >>> next(iter(column_relevance(model)))
    'x1'
    """
    check_is_fitted(estimator)
    views = getattr(estimator, "relevance_", {})
    found = {
        name if len(views) == 1 else f"{view}: {name}": share
        for view, own in views.items()
        for name, share in own.items()
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


@finding("relevance", title="Columns in the learnt metric", needs=("model",))
def _relevance(basis: Basis) -> Finding | None:
    found = column_relevance(basis.model)
    if not found:
        return None
    meaning = (
        "The share of a column in the trace of the metric, in standardised columns: how fast predictions change along "
        "it. The metric is a local solution, learnt on at most 300 training rows; a share is no test."
    )
    shown = list(found)[:MOST_COLUMNS]
    columns = {"column": shown, "share": [found[name] for name in shown]}
    hidden = len(found) - len(shown)
    note = meaning + (f" {hidden} more columns have smaller shares." if hidden else "")
    table = Table.of("relevance", "Columns in the learnt metric", columns, note, {"share": ".1%"})
    values = {name: Interval(share) for name, share in found.items()}
    made = Finding(values, meaning, form=".1%", tables=(table,))
    largest = list(found)[:MOST_NAMED]
    said = ", ".join(f"{{s{k}}} has {{v{k}:.1%}}" for k in range(len(largest)))
    return made.says(
        "which",
        f"In the learnt metric {said} of the trace.",
        {f"s{k}": named(name) for k, name in enumerate(largest)},
        **{f"v{k}": at(name) for k, name in enumerate(largest)},
    )
