"""Machines on sums of kernels along weights C of the loss, with warm starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import COSTS, GivenTargets, RowWeights, Scale
from kernelweave._parameters import Function, MaxIter, MaxTime, Nonnegative, OneOf, Tol, checked
from kernelweave._threads import one_blas_thread
from kernelweave.gram import ChunkedFeatures, FeatureStack, Gram, kind_of
from kernelweave.machines.losses import GivenLoss
from kernelweave.mkl.features.newton import knows
from kernelweave.mkl.features.problem import FeatureProblem
from kernelweave.mkl.features.row_newton import solve_on_chunks
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.problem import make_margin_form
from kernelweave.mkl.solve import METHODS, descent_on_features, solve_margin_on_features, solve_problem
from kernelweave.mkl.weight_sets import WeightSet
from kernelweave.results import Path, Solution, Status, WarmStart

Array = NDArray[np.float64]

#: Called after every C with (index, result); a true return value ends the path there.
PathCallback = Callable[[int, Solution], object]


@checked
def svm_mkl_path(
    gram: Gram | FeatureStack | ChunkedFeatures | ArrayLike,
    y: GivenTargets,
    Cs: Annotated[ArrayLike, COSTS],
    weight_set: str | WeightSet = "simplex",
    *,
    loss: GivenLoss = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
    tol: Tol = 1e-4,
    method: Annotated[str, OneOf(*METHODS)] = "auto",
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
    weight_set, loss, epsilon, sample_weight, scale, tol, method
        See `solve_svm_mkl`.
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
        As `solve_svm_mkl`.

    References
    ----------
    T. Hastie et al., The entire regularization path for the support vector machine, JMLR 5 (2004), for paths in C.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> Z = np.random.default_rng(0).normal(size=(60, 12))
    >>> y = np.where(Z[:, 0] - Z[:, 9] > 0, 1, -1)
    >>> path = kw.svm_mkl_path(kw.FeatureStack(Z, [0, 4, 8, 12]), y, np.geomspace(1e-3, 1.0, 4), loss="logistic")
    >>> path.feature_coef.shape, bool(path.rel_gap.max() <= 1e-4)
    ((4, 12), True)
    """
    values = np.unique(COSTS.read(Cs))
    first = float(values[0])
    problem = make_margin_form(
        gram, y, first, weight_set, loss=loss, epsilon=epsilon, sample_weight=sample_weight, scale=scale
    )
    if isinstance(gram, ChunkedFeatures):
        assert isinstance(problem, FeatureProblem)
        on_rows = solve_on_chunks(problem, values, method, tol=tol, max_iter=max_iter)
        return _told(zip(values, on_rows, strict=False), len(values), callback)
    if isinstance(problem, FeatureProblem):
        solutions = _on_features(problem, values, method, tol, max_iter)
    else:
        solutions = _on_kernels(problem, values, method, tol, max_iter)
    own = kind_of(gram)
    # fewer after Ctrl-C
    found = ((C, one.of_kind(own)) for C, one in zip(values, solutions, strict=False))
    return _told(found, len(values), callback)


def _told(
    solutions: Iterator[tuple[float, Solution]], count: int, callback: PathCallback | None
) -> Path[Solution]:
    """The path of solutions for some C, of which the callback is told."""
    done: list[Solution] = []
    interrupted = False
    try:
        for index, (C, found) in enumerate(solutions):
            done.append(replace(found, alpha=1.0 / float(C)))
            if callback is not None and callback(index, done[-1]) and index + 1 < count:
                interrupted = True
                break
    except KeyboardInterrupt:
        if not done:
            raise
        interrupted = True
    return Path.of(done, interrupted=interrupted or len(done) < count)


def _on_kernels(
    problem: KernelProblem, values: Array, method: str, tol: float, max_iter: int | None
) -> Iterator[Solution]:
    warm = WarmStart()
    for C in values:
        own = replace(problem, machine=replace(problem.machine, C=float(C)))
        found = solve_problem(own, method, tol=tol, max_iter=max_iter, warm=warm)
        warm = WarmStart(found.weights, found.dual_coef)
        yield found
        if found.status is Status.INTERRUPTED:
            return


def _on_features(
    problem: FeatureProblem, values: Array, method: str, tol: float, max_iter: int | None
) -> Iterator[Solution]:
    if method == "auto" and knows(problem.weight_set):
        descent = descent_on_features(problem, tol=tol, max_iter=max_iter)
        for C in values:
            with one_blas_thread():
                found = descent.solve(float(C))
            yield found
            if found.status is Status.INTERRUPTED:
                return
        return
    warm: WarmStart | None = None
    for C in values:
        found = solve_margin_on_features(problem.at(float(C)), method, tol=tol, max_iter=max_iter, warm=warm)
        warm = WarmStart(found.weights, found.dual_coef)
        yield found
        if found.status is Status.INTERRUPTED:
            return
