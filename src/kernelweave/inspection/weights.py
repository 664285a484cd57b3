"""Weights of kernels and of views, contributions of kernels to decision values, and columns in a learnt metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from kernelweave._forms import ShortRepr
from kernelweave._parameters import Flag, Whole, checked
from kernelweave._types import Array, Features
from kernelweave.fitting.model import fractions_of
from kernelweave.inspection.arguments import Model, Names, decision_names, outputs_of
from kernelweave.inspection.registry import (
    MOST_NAMED,
    Basis,
    Finding,
    Interval,
    Table,
    at,
    enumerated,
    finding,
    named,
)

__all__ = [
    "KernelWeights",
    "column_relevance",
    "contribution_sizes",
    "kernel_weights",
    "uninformative",
    "view_weights",
]


@dataclass(frozen=True)
class KernelWeights(ShortRepr):
    """Kernel names with their weights, largest first.

    Attributes
    ----------
    names : array of str, shape (n_kernels,)
        Labels of the kernels, in the order of `weights`.
    weights : array of shape (n_kernels,) or (n_kernels, n_outputs)
        In the scale of the solver, as `weights_`; one column per class or output if each has its own weights.
    outputs : tuple of str
        Names of the columns; one empty name when there is one column.
    """

    names: Names
    weights: Array
    outputs: tuple[str, ...]

    @property
    def fractions(self) -> Array:
        """The weights divided by their sum, for each output: fractions that sum to one where all weights are here."""
        return fractions_of(self.weights)


@checked
def kernel_weights(estimator: Model, *, nonzero: Annotated[bool, Flag()] = True) -> KernelWeights:
    """Kernel weights of a fitted estimator, sorted by their mean fractions over outputs, as in `view_weights`.

    For deep kernels those of the first layer, which has the kernels on the data; `layer_weights` has all of them.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Whose kernels and weights are looked at.
    nonzero : bool, default=True
        Only kernels with a nonzero weight.

    Returns
    -------
    KernelWeights
    """
    weights = np.atleast_2d(estimator.model_.weights).T
    # outputs need not have weights of one scale
    order = np.argsort(-estimator.model_.weight_shares, kind="stable")
    if nonzero:
        order = order[weights[order].any(axis=1)]
    chosen = weights[order]
    return KernelWeights(
        estimator.kernel_names_[order],
        chosen[:, 0] if estimator.model_.weights.ndim == 1 else chosen,
        outputs_of(estimator),
    )


@checked
def view_weights(estimator: Model) -> dict[str, float]:
    """Weights of the sources (views, or sets of columns): fractions that sum to one, the largest first.

    The weight of a source is the sum of the weights of its kernels, divided by the sum of all weights. Of several
    classes or targets with weights of their own it is the mean; for deep kernels it is that of the first layer.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Whose kernels and weights are looked at.

    Returns
    -------
    dict of str to float
        By view name, or by columns.
    """
    sources, found = estimator.model_.sources
    order = np.argsort(-found, kind="stable")
    return {sources[k]: float(found[k]) for k in order}


@checked
def uninformative(estimator: Model, *, most: Annotated[int, Whole(1)] = 6) -> list[str]:
    """Sentences about kernels without information about new rows, with their names.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Whose kernels and weights are looked at.
    most : int, default=6
        Largest number of names in a sentence; further ones are counted.

    Returns
    -------
    list of str
        One for kernels that are the identity on the training rows, one for those that are constant; none if there
        are no such kernels.
    """
    sentences = []
    for kind, words in (
        ("identity", "the identity on the training rows: in them no row is similar to another"),
        ("constant", "constant on the training rows: in them all rows are equal"),
    ):
        names = [name for name, found in estimator.uninformative_kernels_ if found == kind]
        if names:
            more = f" and {len(names) - most} more" if len(names) > most else ""
            one = "1 kernel is" if len(names) == 1 else f"{len(names)} kernels are"
            sentences.append(f"{one} {words} ({', '.join(names[:most])}{more}).")
    return sentences


@checked
def contribution_sizes(estimator: Model, X: Features) -> KernelWeights:
    """Standard deviation over rows of each kernel's contribution to the decision values, largest first.

    For deep kernels the contributions of the last layer, whose sum is the decision value.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Whose kernels and weights are looked at.
    X : array-like, frame, sparse matrix or views
        Rows in the form that `fit` took: an array, a data frame or views with the same columns.

    Returns
    -------
    KernelWeights
        Sizes in place of weights, in units of the decision values: those of the target, or of its logarithm for counts.
    """
    parts = estimator.kernel_contributions(X)
    sizes = parts.std(axis=0)
    flat = sizes if sizes.ndim == 1 else sizes.sum(axis=1)
    order = np.argsort(-flat, kind="stable")
    order = order[flat[order] > 0]
    names = ("",) if sizes.ndim == 1 else decision_names(estimator)
    return KernelWeights(estimator.layer_kernel_names_[-1][order], sizes[order], names)


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
    views = getattr(estimator, "relevance_", {})
    found = {
        name if len(views) == 1 else f"{view}: {name}": share
        for view, own in views.items()
        for name, share in own.items()
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


# ---- findings --------------------------------------------------------------------------------------

#: Kernels in a table of weights.
MOST_KERNELS = 60


def weight_table(
    name: str,
    title: str,
    head: str,
    names: Names,
    fractions: Array,
    outputs: Sequence[str],
    note: str = "",
    brief: bool = True,
) -> Table:
    """A table of fractions with a row for each kernel and a column for each output."""
    heads = [output or "weight" for output in outputs]
    columns = fractions.reshape(len(names), -1).tolist()
    rows = [[str(one), *row] for one, row in zip(names, columns, strict=True)]
    return Table(name, title, [head, *heads], rows, note, dict.fromkeys(heads, ".1%"), brief=brief)


@finding("views", title="Weight by source", needs=("model",))
def _view_weights(basis: Basis) -> Finding:
    found = view_weights(basis.model)
    made = Finding(
        {name: Interval(share) for name, share in found.items()},
        "The sum of the weights of the kernels of a source, as a fraction of all weights.",
        form=".1%",
    )
    if len(found) < 2:
        return made
    head = "weight, first layer" if basis.model.model_.layers else "weight"
    columns = {"source": list(found), head: list(found.values())}
    table = Table.of("sources-weights", "Weight by source", columns, made.meaning, {head: ".1%"})
    made = replace(made, tables=(table,))
    shown = [name for name, share in found.items() if share > 0]
    largest, rest = shown[:MOST_NAMED], len(shown[MOST_NAMED:])
    if not largest:
        return made
    parts = [f"{{s{k}}} has {{v{k}:.1%}}{'' if k else ' of the weight'}" for k in range(len(largest))]
    if rest:
        parts.append("1 more source has the rest" if rest == 1 else f"{rest} more sources have the rest")
    return made.says(
        "which",
        f"{enumerated(parts)}.",
        {f"s{k}": named(name) for k, name in enumerate(largest)},
        **{f"v{k}": at(name) for k, name in enumerate(largest)},
    )


@finding("kernels", title="Weight by kernel", needs=("model",))
def _kernel_weights(basis: Basis) -> Finding:
    model, found = basis.model, kernel_weights(basis.model)
    # those of sources, in the order of `found`: kernels of constant targets alone come last, and have none
    shares = -np.sort(-model.model_.weight_shares)
    layers = bool(model.model_.layers)
    n_active, n_all = int(np.count_nonzero(shares)), int(model.n_kernels_)
    shown = slice(min(n_active, MOST_KERNELS))
    names, fractions, means = found.names[shown], found.fractions[shown], shares[shown]
    hidden = f"{n_active - len(names)} more kernels have a weight. " if n_active > len(names) else ""
    note = f"{hidden}{n_all} kernels in {'this layer' if layers else 'all'}. Stored as: {model.gram_}."
    title = "Weight by kernel, first layer" if layers else "Weight by kernel"
    # of several sources their weights are what was asked for
    brief = len(set(model.model_.views)) < 2
    return Finding(
        {str(name): Interval(float(mean)) for name, mean in zip(names, means, strict=True)},
        "The weight of a kernel as a fraction of all weights of an output.",
        form=".1%",
        details={"all": n_all, "with a weight": n_active, "in layers": layers},
        tables=(weight_table("weights", title, "kernel", names, fractions, found.outputs, note, brief),),
    ).says(
        "which",
        f"{{v:d}} of {{n:d}} kernels {'has' if n_active == 1 else 'have'} a weight.",
        v=("details", "with a weight"),
        n=("details", "all"),
    )


@finding("uninformative", title="Kernels without information", needs=("model",))
def _uninformative(basis: Basis) -> Finding | None:
    made = Finding(meaning="Kernels that are the identity, or constant, on the training rows.")
    kinds = [kind for _, kind in basis.model.uninformative_kernels_]
    present = [kind for kind in ("identity", "constant") if kind in kinds]
    for kind, text in zip(present, uninformative(basis.model, most=20), strict=True):
        made = made.warns(text, {f"kernels, {kind}": kinds.count(kind)})
    return made if present else None


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
