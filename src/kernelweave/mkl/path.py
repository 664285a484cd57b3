"""Regularisation paths with warm starts: RLS2 along alpha, machines on sums of kernels along C."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, cast

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import (
    COSTS,
    Alphas,
    Floats,
    GivenTargets,
    InputError,
    RowWeights,
    Scale,
    Start,
)
from kernelweave._docstrings import texts_of
from kernelweave._parameters import (
    Flag,
    Function,
    MaxIter,
    MaxTime,
    Nonnegative,
    Number,
    OneOf,
    Tol,
    Whole,
    check_value,
    checked,
    renamed,
)
from kernelweave._types import Array
from kernelweave.gram import BlockStatistics, ChunkedFeatures, FeatureStack, Gram, KernelStream, kind_of
from kernelweave.machines.losses import GivenLoss, as_loss
from kernelweave.mkl.features.problem import FeatureProblem
from kernelweave.mkl.features.ridge_paths import alpha_range_of_features
from kernelweave.mkl.problem import MarginForm, Problem, make_ridge_form
from kernelweave.mkl.regularization import SMALLEST, alpha_range
from kernelweave.mkl.ridge_problem import RidgeProblem
from kernelweave.mkl.solve import (
    METHODS,
    SOLVERS,
    PathCallback,
    along_alphas,
    along_costs,
    threads_of,
)
from kernelweave.mkl.svm_mkl import solve_svm_mkl
from kernelweave.mkl.weight_sets import GivenWeightSet
from kernelweave.results import Path, Solution


def make_alphas(problem: RidgeProblem | FeatureProblem, n_alphas: int) -> Array:
    """A descending log-spaced grid over `alpha_range`."""
    if n_alphas < 1:
        raise InputError(f"`n_alphas` must be at least 1, got {n_alphas!r}.")
    if isinstance(problem, FeatureProblem):
        largest, smallest = alpha_range_of_features(problem, SMALLEST)
    else:
        largest, smallest = alpha_range(problem)
    return np.geomspace(largest, smallest, n_alphas)


def check_alphas(alphas: ArrayLike) -> Array:
    """Return regularisation parameters in descending order after checking each."""
    return np.sort(check_value(Alphas(), "alphas", alphas))[::-1]


@renamed(weights0="start")
@checked
def rls2_path(
    gram: Gram | FeatureStack | BlockStatistics | KernelStream | ArrayLike,
    y: Annotated[ArrayLike | None, Floats((1, 2)) | None] = None,
    alphas: Annotated[ArrayLike | None, Alphas() | None] = None,
    *,
    n_alphas: Annotated[int, Whole(1)] = 30,
    tol: Tol = 1e-6,
    solver: Annotated[str, OneOf(*SOLVERS)] = "newton",
    sample_weight: RowWeights = None,
    scale: Scale = None,
    shared_weights: Annotated[bool, Flag()] = True,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    delta: Annotated[float, Number(above=0, below=1, remedy="It is a relative residual.")] = 1e-2,
    relax: Annotated[ArrayLike | None, Alphas(table=True) | None] = None,
    start: Start = None,
    fit_intercept: Annotated[bool, Flag()] = False,
    callback: Annotated[PathCallback | None, Function() | None] = None,
) -> Path[Solution]:
    """Solve RLS2 for a descending sequence of regularisation parameters, each warm-started from the previous one.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels), Gram, FeatureStack, BlockStatistics or KernelStream
        Symmetric PSD matrices, kernels last, or explicit features in blocks, or sums over any number of rows of
        features and targets, or kernels that are made when needed. Not modified.
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        Targets, without intercept. None for statistics, which include them.
    alphas : array of shape (n_alphas,), optional
        Regularisation parameters > 0, in any order; ``inf`` allowed. Default: `n_alphas` log-spaced values from the
        point where one kernel is left down to 1e-6 times the largest trace.
    n_alphas : int, default=30
        Length of the automatic grid.
    tol : float, default=1e-6
        Relative gap of every solution.
    solver : {"newton", "alternating"}, default="newton"
        Active-set Newton on Problem 6 of the paper, or its Algorithm 1, in which only the weights are passed on from
        one regularisation parameter to the next.
    sample_weight : array of shape (n_samples,), optional
        Weights >= 0 of the squared errors; rows of weight 0 are ignored.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    shared_weights : bool, default=True
        With several outputs: one set of weights for all, or one for each.
    max_iter : int, optional
        Per regularisation parameter, as in `solve_rls2`.
    max_time : float, optional
        Seconds for the whole path; regularisation parameters that are not solved by then get few iterations each. The
        status is ``MAX_TIME``.
    delta : float, default=1e-2
        Residual rule of ``solver="alternating"``.
    relax : float, array of shape (n_relax,) or (n_alphas, n_relax), optional
        Other regularisation parameters > 0: weights along the path are as without, ``dual_coef`` is ridge regression
        with ``K(d)`` at these, one for all points of the path, several, or several for each.
    start : array of shape (n_kernels,), optional
        Weights on the simplex with which the first regularisation parameter begins. Default: Lemma 5.
    fit_intercept : bool, default=False
        Statistics only: with an intercept, which is not penalised.
    callback : callable, optional
        ``callback(index, result)`` after every regularisation parameter, before the ridge; a true value ends the path
        there.

    Returns
    -------
    Path
        Arrays over the path, and certificates; `df` and `criteria` are computed on first access. After Ctrl-C, or
        a true callback, the finished part is returned and the last status is ``INTERRUPTED``. With `relax` its
        solutions are `RelaxedSolution`. From statistics ``dual_coef`` is empty, and ``criteria`` count all rows.

    Raises
    ------
    InputError
        Wrong arguments, and whatever `solve_rls2` refuses.

    Notes
    -----
    Kernels whose quadratic form is bounded below the active level by the triangle inequality are not evaluated
    (safe screening); the certificates account for it.

    References
    ----------
    RLS2 paper, section 5.2 (30 log-spaced values, descending, warm start) and equation (15) for `df`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import rls2_path
    >>> X = np.random.default_rng(0).normal(size=(40, 5))
    >>> path = rls2_path(X[:, None, :] * X[None, :, :], X[:, 0] - X[:, 2])
    >>> len(path), int(path.n_active[0]), bool(path.rel_gap.max() <= 1e-6)
    (30, 1, True)
    """
    problem, single = make_ridge_form(gram, y, sample_weight, scale, fit_intercept=fit_intercept)
    with threads_of(problem):
        values = make_alphas(problem, n_alphas) if alphas is None else check_alphas(alphas)
    return along_alphas(
        problem,
        values,
        single=single,
        kind=kind_of(gram),
        tol=tol,
        solver=solver,
        shared_weights=shared_weights,
        max_iter=max_iter,
        relax=relax,
        weights0=start,
        on_solution=callback,
        delta=delta,
    )


# ---- machines along C -----------------------------------------------------------------------------


@texts_of(solve_svm_mkl)
@renamed(method="solver")
@checked
def svm_mkl_path(
    gram: Gram | FeatureStack | ChunkedFeatures | ArrayLike,
    y: GivenTargets,
    Cs: Annotated[ArrayLike, COSTS],
    weight_set: GivenWeightSet = "simplex",
    *,
    loss: GivenLoss = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
    tol: Tol = 1e-4,
    solver: Annotated[str, OneOf(*METHODS)] = "auto",
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    callback: Annotated[PathCallback | None, Function() | None] = None,
) -> Path[Solution]:
    """Solve `solve_svm_mkl` for ascending C, each from the solution before.

    Minimises over weights d in a convex set and over f = <w, phi_d(x)> + intercept with the kernel
    ``K(d) = sum_m d_m s_m K_m``, for every C,

        1/2 ||w||^2 + C sum_i sample_weight_i loss(y_i, f_i) .

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels), Gram, FeatureStack or RowFeatures
        Symmetric PSD matrices, kernels last, or features in blocks. Not modified. With `RowFeatures` all C are solved
        in the same passes over the rows.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets for ``loss="epsilon-insensitive"``; None for `RowFeatures`, which have them.
    Cs : array of shape (n_values,)
        Weights of the loss > 0, in any order.
    max_iter : int, optional
        Outer iterations for each C. Default: 500; of `RowFeatures` passes, 100.
    max_time : float, optional
        Seconds for the whole path; regularisation parameters that are not solved by then get few iterations each. The
        status is ``MAX_TIME``.
    callback : callable, optional
        ``callback(index, result)`` after each C; a true value ends the path there.

    Returns
    -------
    Path
        ``alphas`` are 1 / C, in descending order. After Ctrl-C or a true value of `callback` it is the finished part.

    Raises
    ------
    InputError
        Wrong arguments, and whatever `solve_svm_mkl` refuses.

    References
    ----------
    T. Hastie et al., The entire regularization path for the support vector machine, JMLR 5 (2004), for paths in C.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> Z = np.random.default_rng(0).normal(size=(60, 12))
    >>> y = np.where(Z[:, 0] - Z[:, 9] > 0, 1, -1)
    >>> stack, Cs = kw.FeatureStack(Z, [0, 4, 8, 12]), np.geomspace(1e-3, 1.0, 4)
    >>> path = kw.solvers.svm_mkl_path(stack, y, Cs, loss="logistic")
    >>> path.feature_coef.shape, bool(path.rel_gap.max() <= 1e-4)
    ((4, 12), True)
    """
    values = np.unique(COSTS.read(Cs))
    given = as_loss(loss, epsilon), weight_set, float(values[0]), sample_weight, scale
    problem = cast(MarginForm, Problem(gram, y, *given, fit_intercept=True).form)
    found, kind = along_costs(problem, values, solver, tol=tol, max_iter=max_iter), kind_of(gram)
    both = zip(values, found, strict=False)
    stated = (replace(one, alpha=1.0 / float(C)).of_kind(kind) for C, one in both)
    return Path.collect(stated, len(values), callback)
