"""Paths along regularisation parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import COSTS, Alphas
from kernelweave._forms import ShortRepr
from kernelweave._parameters import Whole, checked
from kernelweave._types import Array
from kernelweave.estimators.choosing import check_path_arguments
from kernelweave.fitting.model import fractions_of
from kernelweave.fitting.source import TableSource
from kernelweave.fitting.task import path_task, problems_of, shared_alphas, silent
from kernelweave.inspection.arguments import Model, Names, Output, output_of

__all__ = ["Path", "regularization_path"]


@dataclass(frozen=True)
class Path(ShortRepr):
    """Weights along a regularisation path.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        Descending; for learners with a C they are 1 / C.
    df : array of shape (n_alphas,)
        Degrees of freedom, RLS2 paper, (15).
    names : array of str, shape (n_kernels,)
        Labels of the kernels, in the order of the columns of `weights`.
    weights : array of shape (n_alphas, n_kernels)
        In the scale of the solver, as `weights_`.
    coef : array of shape (n_alphas, n_features) or None
        For linear kernels: coefficients of the (standardised) columns.
    chosen : int
        Position of the estimator's alpha, or of the target's own.
    output : str
        Which class or output.
    upper_weights : tuple of arrays of shape (n_alphas, n_kernels of the layer)
        Weights of the upper layers, the lowest first; `names` and `weights` are those of the first.
    criteria : dict of str to array of shape (n_alphas,)
        Selection criteria of RLS2, see `kernelweave.Path`; empty for other learners. Summed over outputs that
        were solved together.
    Cs : array of shape (n_alphas,) or None
        C of learners that have one, ascending.
    """

    alphas: Array
    df: Array
    names: Names
    weights: Array
    coef: Array | None
    chosen: int
    output: str
    upper_weights: tuple[Array, ...] = ()
    criteria: Mapping[str, Array] = field(default_factory=dict)
    Cs: Array | None = None

    @property
    def fractions(self) -> Array:
        """The weights divided by their sum at each regularisation parameter."""
        return fractions_of(self.weights, axis=1)


@checked
def regularization_path(
    estimator: Model,
    *,
    alphas: Annotated[ArrayLike | None, Alphas() | None] = None,
    Cs: Annotated[ArrayLike | None, COSTS | None] = None,
    n_alphas: Annotated[int, Whole(1)] = 30,
    output: Output = None,
    report: Callable[[str], bool] | None = None,
) -> Path:
    """Solve the path again on the training rows of a fitted estimator, with degrees of freedom and criteria.

    Of a target with weights and alpha of its own it is the path of this target alone. Its weights were chosen among
    those of paths of all targets, and need not be on it.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Whose kernels and weights are looked at.
    alphas : array-like, optional
        For RLS2. Default: the regularisation parameters the estimator tried, else an automatic path.
    Cs : array-like, optional
        The same for learners with a C.
    n_alphas : int, default=30
        Length of the automatic path.
    output : str or int, optional
        Class (or output) of a one-vs-rest model; default the first.
    report : callable, optional
        Called with a text after every regularisation parameter; a true value ends the path, like Ctrl-C; the
        finished part is kept.

    Returns
    -------
    Path
    """
    which, name = output_of(estimator, output)
    task = estimator.model_.task
    problems = problems_of(task)
    learner = estimator.model_.learner
    check_path_arguments(learner, alphas, Cs)
    if Cs is not None:
        alphas = 1.0 / np.atleast_1d(np.asarray(Cs, dtype=np.float64))
    if alphas is None:
        # also those that were not scored
        found = getattr(estimator, "_candidates", getattr(estimator, "alphas_", None))
        alphas = shared_alphas(task, problems, n_alphas, learner) if found is None else found
    grid = np.sort(np.asarray(alphas, dtype=np.float64))[::-1]
    problem, alpha = problems[which if len(problems) > 1 else 0], estimator.alpha_
    inner = which if len(problems) == 1 else 0
    if hasattr(estimator, "target_alphas_"):
        problem = replace(problem, y=problem.y[:, [which]], intercept=problem.intercept[[which]])
        alpha, inner = estimator.target_alphas_[which], 0
    [path] = path_task(task, [problem], learner, grid, report=report or silent)
    weights = path.weights if path.weights.ndim == 2 else path.weights[:, which]
    stacks = [layers[inner] for layers in getattr(path, "upper_layers", ()) if layers]
    coef = None
    source = task.source
    if hasattr(estimator, "coef_") and isinstance(source, TableSource):
        scale = problem.normalizer.scale
        dual = path.dual_coef.reshape(len(path), source.n_samples, -1)[:, :, inner]
        layout, probability = source.linear_layout(), problem.normalizer.probability
        found = [
            layout.coefficients(w * scale, c, source.table.values, probability)
            for w, c in zip(weights, dual, strict=True)
        ]
        coef = np.array([own for own, _ in found])
    criteria = getattr(path, "criteria", {})
    return Path(
        alphas=path.alphas,
        df=criteria["df"] if criteria else path.df,
        names=estimator.kernel_names_,
        weights=weights,
        coef=coef,
        chosen=int(np.argmin(np.abs(np.log(path.alphas) - np.log(alpha)))),
        output=name,
        upper_weights=tuple(
            map(np.array, zip(*(layers.weights for layers in stacks if layers), strict=True))
        ),
        criteria=criteria,
        Cs=1.0 / path.alphas if learner.regularization_parameter == "C" else None,
    )
