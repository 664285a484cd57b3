"""Weights of kernels and of views, and contributions of kernels to decision values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kernelweave._parameters import Flag, Whole, checked
from kernelweave._types import Features
from kernelweave.inspection.arguments import Model, decision_names, outputs_of

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL

Array = NDArray[np.float64]

#: Beginnings of the labels of single kernels.
_KERNEL = r"[A-Z]\w*(?:\([^()]*\))?"


@dataclass(frozen=True)
class KernelWeights:
    """Kernel names with their weights, largest first.

    Attributes
    ----------
    names : array of str, shape (n_kernels,)
    weights : array of shape (n_kernels,) or (n_kernels, n_outputs)
        One column per class or output if each has its own weights.
    outputs : tuple of str
        Names of the columns; one empty name when there is one column.
    """

    names: NDArray[Any]
    weights: Array
    outputs: tuple[str, ...]


@checked
def kernel_weights(estimator: Model, *, nonzero: Annotated[bool, Flag()] = True) -> KernelWeights:
    """Kernel weights of a fitted estimator, sorted by their sum over outputs.

    For deep kernels those of the first layer, which has the kernels on the data; `layer_weights` has all of them.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
    nonzero : bool, default=True
        Only kernels with a nonzero weight.

    Returns
    -------
    KernelWeights
    """
    check_is_fitted(estimator)
    weights = np.atleast_2d(estimator.model_.weights).T
    total = weights.sum(axis=1)
    order = np.argsort(-total, kind="stable")
    if nonzero:
        order = order[total[order] > 0]
    chosen = weights[order]
    return KernelWeights(
        estimator.kernel_names_[order],
        chosen[:, 0] if estimator.model_.weights.ndim == 1 else chosen,
        outputs_of(estimator),
    )


@checked
def view_weights(estimator: Model) -> dict[str, float]:
    """Shares of the views (or sets of columns) in the weights of their kernels, averaged over outputs, largest first.

    For deep kernels those of the first layer.

    Returns
    -------
    dict of str to float
        View name (or the columns) to share; shares sum to 1.
    """
    check_is_fitted(estimator)
    weights = estimator.model_.weight_shares
    shares: dict[str, float] = {}
    for view, weight in zip(views_of(estimator), weights, strict=True):
        shares[view] = shares.get(view, 0.0) + float(weight)
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def view_sums(estimator: BaseMKL) -> dict[str, float]:
    """Sums of the kernel weights of every view, averaged over outputs, largest first: those of `kernel_weights`.

    `view_weights` has the shares of views instead, which sum to 1.
    """
    weights = np.atleast_2d(estimator.model_.weights).mean(axis=0)
    sums: dict[str, float] = {}
    for view, weight in zip(views_of(estimator), weights, strict=True):
        sums[view] = sums.get(view, 0.0) + float(weight)
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def views_of(estimator: Model) -> list[str]:
    """The view of every kernel: an attribute of kernels, inferred from the names of kernel matrices."""
    kernels = getattr(estimator.model_.source, "kernels", None)
    if kernels is None:
        return [view_of(str(name)) for name in estimator.kernel_names_]
    return [kernel.view for kernel in kernels]


def view_of(label: str) -> str:
    """The view part of a kernel label, inferred from the text; `Kernel.view` is exact.

    Examples
    --------
    >>> view_of("rna: RBF(gamma=1)"), view_of("RBF(gamma=1) on age")
    ('rna', 'age')
    """
    named = re.fullmatch(rf"(.+): {_KERNEL}", label) or re.fullmatch(rf"{_KERNEL} on (.+)", label)
    if named:
        return named[1]
    head, separator, _ = label.partition(": ")
    if separator and "(" not in head:
        return head
    return label.rpartition(" on ")[2] if " on " in label else label


@checked
def uninformative(estimator: Model, *, most: Annotated[int, Whole(1)] = 6) -> list[str]:
    """Sentences about kernels without information about new rows, with their names.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
    most : int, default=6
        Largest number of names in a sentence; further ones are counted.

    Returns
    -------
    list of str
        One for kernels that are the identity on the training rows, one for those that are constant; none if there
        are no such kernels.
    """
    check_is_fitted(estimator)
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
    X : array-like, frame, sparse matrix or views
        As `predict` takes them.

    Returns
    -------
    KernelWeights
        Sizes in place of weights, in units of the target.
    """
    parts = estimator.kernel_contributions(X)
    sizes = parts.std(axis=0)
    flat = sizes if sizes.ndim == 1 else sizes.sum(axis=1)
    order = np.argsort(-flat, kind="stable")
    order = order[flat[order] > 0]
    names = ("",) if sizes.ndim == 1 else decision_names(estimator)
    return KernelWeights(estimator.layer_kernel_names_[-1][order], sizes[order], names)
