"""Tables about fitted estimators: data, never drawings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kernelweave import learners
from kernelweave._checks import InputError, check_known
from kernelweave.assembly import TableSource
from kernelweave.training import path_task, rebuild_task, set_up, shared_alphas

__all__ = [
    "KernelWeights",
    "Path",
    "contribution_sizes",
    "kernel_weights",
    "regularization_path",
    "view_weights",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KernelWeights:
    """Kernel names with their weights, largest first.

    Attributes
    ----------
    names : array of str, shape (n_kernels,)
    weights : array of shape (n_kernels,) or (n_kernels, n_outputs)
        One column per class or output where each has its own weights.
    outputs : tuple of str
        Names of the columns; one empty name when there is one column.
    """

    names: NDArray[Any]
    weights: Array
    outputs: tuple[str, ...]


def _outputs(estimator: Any) -> tuple[str, ...]:
    if estimator.weights_.ndim == 1:
        return ("",)
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        return tuple(map(str, classes))
    return tuple(f"output {k}" for k in range(len(estimator.weights_)))


def kernel_weights(estimator: Any, *, nonzero: bool = True) -> KernelWeights:
    """Kernel weights of a fitted estimator, sorted by their sum over outputs.

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
    weights = np.atleast_2d(estimator.weights_).T
    total = weights.sum(axis=1)
    order = np.argsort(-total, kind="stable")
    if nonzero:
        order = order[total[order] > 0]
    chosen = weights[order]
    return KernelWeights(
        estimator.kernel_names_[order],
        chosen[:, 0] if estimator.weights_.ndim == 1 else chosen,
        _outputs(estimator),
    )


def view_weights(estimator: Any) -> dict[str, float]:
    """Sum of the weights of the kernels on each view or set of columns, averaged over outputs, largest first.

    Returns
    -------
    dict of str to float
        View name (or the columns) to share; shares sum to 1.
    """
    check_is_fitted(estimator)
    weights = np.atleast_2d(estimator.weights_).mean(axis=0)
    shares: dict[str, float] = {}
    for name, weight in zip(estimator.kernel_names_, weights, strict=True):
        view = view_of(str(name))
        shares[view] = shares.get(view, 0.0) + float(weight)
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def view_of(label: str) -> str:
    """The view part of a kernel label: ``rna`` of ``rna: RBF(gamma=1)``, ``age`` of ``RBF(gamma=1) on age``."""
    head, separator, _ = label.partition(": ")
    if separator and "(" not in head:
        return head
    return label.rpartition(" on ")[2] if " on " in label else label


@dataclass(frozen=True)
class Path:
    """Weights along a regularisation path.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        Descending.
    df : array of shape (n_alphas,)
        Degrees of freedom, P1 (15).
    names : array of str, shape (n_kernels,)
    weights : array of shape (n_alphas, n_kernels)
    coef : array of shape (n_alphas, n_features) or None
        For linear kernels: coefficients of the (standardised) columns.
    chosen : int
        Position of the estimator's alpha.
    output : str
        Which class or output.
    """

    alphas: Array
    df: Array
    names: NDArray[Any]
    weights: Array
    coef: Array | None
    chosen: int
    output: str


def regularization_path(
    estimator: Any,
    *,
    alphas: ArrayLike | None = None,
    n_alphas: int = 30,
    output: str | int | None = None,
    report: Callable[[str], bool] | None = None,
) -> Path:
    """Solve the path again on the training rows of a fitted estimator, with degrees of freedom.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
    alphas : array-like, optional
        Default: the strengths the estimator tried, else an automatic path.
    n_alphas : int, default=30
        Length of the automatic path.
    output : str or int, optional
        Class (or output) of a one-vs-rest model; default the first.
    report : callable, optional
        Called with a text after every strength; a true value ends the path, as Ctrl-C does: what is done is kept.

    Returns
    -------
    Path
    """
    check_is_fitted(estimator)
    outputs = _outputs(estimator)
    which = 0
    if output is not None:
        which = (
            output if isinstance(output, int) else outputs.index(check_known(str(output), outputs, "output"))
        )
        if not 0 <= which < len(outputs):
            raise InputError(f"`output` must be from 0 to {len(outputs) - 1}, got {output!r}.")
    task = rebuild_task(estimator)
    setups = set_up(task)
    learner = learners.resolve(estimator.learner)
    if alphas is None:
        found = getattr(estimator, "alphas_", None)
        alphas = shared_alphas(task, setups, n_alphas, learner) if found is None else found
    grid = np.sort(np.asarray(alphas, dtype=np.float64))[::-1]
    problem = which if len(setups) > 1 else 0
    tell = report or (lambda _: False)
    path = path_task(task, [setups[problem]], learner, grid, report=tell)[0]
    weights = path.weights if path.weights.ndim == 2 else path.weights[:, which]
    coef = None
    source = task.source
    if hasattr(estimator, "coef_") and isinstance(source, TableSource):
        scale = setups[problem].normalizer.scale
        dual = path.dual_coef.reshape(len(path), source.n_samples, -1)[:, :, which if len(setups) == 1 else 0]
        columns, factors, owners = source.linear_layout()
        projected = dual @ source.table.values
        coef = np.zeros((len(path), source.table.n_columns))
        for k in range(len(path)):
            np.add.at(coef[k], columns, (weights[k] * scale)[owners] * factors * projected[k, columns])
    return Path(
        alphas=path.alphas,
        df=path.df,
        names=estimator.kernel_names_,
        weights=weights,
        coef=coef,
        chosen=int(np.argmin(np.abs(np.log(path.alphas) - np.log(estimator.alpha_)))),
        output=outputs[which],
    )


def contribution_sizes(estimator: Any, X: Any) -> KernelWeights:
    """Standard deviation over rows of what each kernel adds to the decision values, largest first.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
    X : array-like of shape (n_rows, n_features)

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
    names = ("",) if sizes.ndim == 1 else _outputs(estimator)
    return KernelWeights(estimator.kernel_names_[order], sizes[order], names)
