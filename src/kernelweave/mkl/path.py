"""Regularisation paths of RLS2 with warm starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from kernelweave._checks import (
    Alphas,
    Floats,
    InputError,
    RowWeights,
    Scale,
    Start,
)
from kernelweave._devices import Kind
from kernelweave._parameters import (
    Flag,
    Function,
    MaxIter,
    MaxTime,
    Number,
    OneOf,
    Tol,
    Whole,
    check_value,
    checked,
)
from kernelweave._threads import blas_threads_for, one_blas_thread
from kernelweave.gram import BlockStatistics, FeatureStack, Gram, KernelStream, kind_of
from kernelweave.machines.ridge import Workspace
from kernelweave.mkl.features.problem import FeatureProblem
from kernelweave.mkl.features.ridge_paths import (
    FeaturePath,
    alpha_range_of_features,
    on_all_rows,
    path_on_all_rows,
    relaxed_path_on_features,
    with_features_of_path,
)
from kernelweave.mkl.largest_alpha import EIGEN_ROWS, smallest_single
from kernelweave.mkl.outputs import join_outputs, squeeze
from kernelweave.mkl.problem import make_ridge_form
from kernelweave.mkl.published import published
from kernelweave.mkl.relaxed import relax_path
from kernelweave.mkl.ridge_problem import RidgeProblem, first_kernel
from kernelweave.mkl.selection import Criteria, compute_criteria, mallows_cp
from kernelweave.mkl.solve import SOLVERS, check_simplex
from kernelweave.mkl.steps.ridge_newton import RidgeStart, newton_result
from kernelweave.results import Path, Solution

Array = NDArray[np.float64]

#: Called after every alpha with (index, result); a true return value ends the path there.
PathCallback = Callable[[int, Solution], object]

#: Smallest alpha of an automatic range, as a share of the largest trace of a kernel.
SMALLEST = 1e-6


def alpha_range(problem: RidgeProblem) -> tuple[float, float]:
    """Return (largest, smallest) alpha of an automatic path.

    The largest is the smallest alpha at which a single kernel is optimal, found by bisection to 5 %, or to 50 % for
    more than `EIGEN_ROWS` rows (where one
    kernel, or several that fit alike, is all there is: the trace of the largest). The smallest is `SMALLEST`
    times the largest weighted trace ``s_m sum_i w_i K_m(x_i, x_i)``.
    """
    weights = 1.0 / problem.inverse_weights
    traces = problem.scale * (problem.gram.diagonal() @ weights)
    top = float(traces.max())
    if top <= 0 or not problem.targets.any():
        return 1.0, SMALLEST
    largest = _single_kernel_alpha(problem, top)
    return largest, SMALLEST * top


def _single_kernel_alpha(problem: RidgeProblem, top: float) -> float:
    start, _ = first_kernel(problem)
    unit = np.zeros(problem.n_kernels)
    unit[start] = 1.0
    large = problem.gram.n_samples > EIGEN_ROWS
    coefficients = _dual_by_solving(problem, unit) if large else _dual_by_eigenvalues(problem, unit)

    def single(alpha: float) -> bool:
        quadratic_forms = problem.quad(coefficients(alpha))
        return bool(quadratic_forms.max() <= quadratic_forms[start] * (1 + 1e-8))

    return smallest_single(single, top, problem.gram.n_samples)


def _dual_by_eigenvalues(problem: RidgeProblem, unit: Array) -> Callable[[float], Array]:
    """Dual coefficients at fixed weights as a function of alpha, from one eigendecomposition of the whitened kernel."""
    root = 1.0 / np.sqrt(problem.inverse_weights)
    factor = problem.gram.factor(unit * problem.scale)
    if factor is not None and 2 * len(factor) < problem.gram.n_samples:
        vectors, singular, _ = np.linalg.svd((factor * root).T, full_matrices=False)
        values = np.square(singular)
    else:
        K = problem.gram.combine(unit * problem.scale) * root[:, None] * root
        values, vectors = eigh(K, driver="evd")
    white = problem.targets * root
    coordinates = white @ vectors

    def coefficients(alpha: float) -> Array:
        inside = (coordinates * (values / (values + alpha))) @ vectors.T
        return np.ascontiguousarray((white - inside) / alpha * root)

    return coefficients


def _dual_by_solving(problem: RidgeProblem, unit: Array) -> Callable[[float], Array]:
    """The same by one factorisation for each alpha; an eigendecomposition of thousands of rows costs as much as 30."""
    work = Workspace()

    def coefficients(alpha: float) -> Array:
        return np.ascontiguousarray(problem.system(unit, alpha, work).solve(problem.targets.T).T)

    return coefficients


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
    weights0: Start = None,
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
        See `solve_rls2`. With alternating only the weights are passed on, as in the paper.
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
    weights0 : array of shape (n_kernels,), optional
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
        As `solve_rls2`.

    Notes
    -----
    Kernels whose quadratic form is bounded below the active level by the triangle inequality are not evaluated
    (safe screening); the certificates account for it.

    References
    ----------
    P1, section 5.2 (30 log-spaced values, descending, warm start) and equation (15) for `df`.

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
    kind = kind_of(gram)
    call = None if callback is None else _on_all_rows(problem, callback, kind)
    # on features, products are small and many: threads of BLAS would wait for each other
    few = isinstance(problem, FeatureProblem)
    with one_blas_thread() if few else blas_threads_for(problem.targets.shape[1]):
        values = make_alphas(problem, n_alphas) if alphas is None else check_alphas(alphas)
        start = None if weights0 is None else check_simplex(weights0, problem.n_kernels)
        apart = not shared_weights and len(problem.targets) > 1
        if isinstance(problem, FeatureProblem) and solver == "newton":
            features = problem.parts() if apart else [problem]
            on_features = FeaturePath(features, tol=tol, max_iter=max_iter, start=start)
            on_features.run(values, call)
            found = on_features.result(_measure, single=single)
            done = found if relax is None else relaxed_path_on_features(features, found, relax)
            return path_on_all_rows(problem, done).of_kind(kind)
        given = problem
        problem = problem.on_kernels() if isinstance(problem, FeatureProblem) else problem
        groups = problem.parts() if apart else [problem]
        path = _Path(groups, start, tol=tol, solver=solver, max_iter=max_iter, delta=delta)
        try:
            for index, alpha in enumerate(values):
                result = path.step(float(alpha))
                if call is not None and call(index, result) and index + 1 < len(values):
                    path.interrupted = True
                    break
        except KeyboardInterrupt:
            if not path.done:
                raise
            path.interrupted = True
        found = path.result(single=single)
        if isinstance(given, FeatureProblem):
            whole = with_features_of_path(given.parts() if apart else [given], found, relax)
            return path_on_all_rows(given, whole).of_kind(kind)
        return (found if relax is None else relax_path(groups, found, relax)).of_kind(kind)


def _on_all_rows(
    problem: RidgeProblem | FeatureProblem, callback: PathCallback, kind: Kind | None
) -> PathCallback:
    """The callback with solutions as they are returned."""
    return lambda index, result: callback(index, on_all_rows(problem, result).of_kind(kind))


class _Path:
    """Solutions so far; `step` appends one regularisation parameter for every group of outputs."""

    def __init__(
        self,
        groups: list[RidgeProblem],
        start: Array | None,
        *,
        tol: float,
        solver: str,
        max_iter: int | None,
        delta: float,
    ) -> None:
        self.groups, self.tol, self.solver, self.max_iter, self.delta = groups, tol, solver, max_iter, delta
        self.warm = [RidgeStart(weights=start) for _ in groups]
        self.done: list[list[Solution]] = []
        self.measures: list[dict[str, float]] = []
        self.interrupted = False

    def step(self, alpha: float) -> Solution:
        results = [self._solve(p, alpha, warm) for p, warm in zip(self.groups, self.warm, strict=True)]
        self.done.append(results)
        return self.groups[0].for_all_rows(results[0])

    def _solve(self, problem: RidgeProblem, alpha: float, warm: RidgeStart) -> Solution:
        if self.solver == "newton":
            limit = 200 if self.max_iter is None else self.max_iter
            return newton_result(problem, alpha, tol=self.tol, max_iter=limit, warm=warm)
        limit = 50_000 if self.max_iter is None else self.max_iter
        solve = published(self.solver)
        result: Solution = solve(problem, alpha, delta=self.delta, weights0=warm.weights, max_iter=limit)
        warm.weights = result.weights
        return result

    def result(self, *, single: bool) -> Path[Solution]:
        found = []
        for results in self.done:
            whole = self.groups[0].for_all_rows(results[0] if len(results) == 1 else join_outputs(results))
            found.append(squeeze(whole) if single else whole)
        return Path.of(found, interrupted=self.interrupted, measure=partial(_measure, self.groups, self.done))


def _measure(groups: list[RidgeProblem], done: list[list[Solution]], everything: bool) -> dict[str, Array]:
    """Criteria at every solution of a path, summed over groups of outputs."""
    names = [f.name for f in fields(Criteria)] if everything else ["df"]
    found = {name: np.zeros((len(groups), len(done))) for name in names}
    with blas_threads_for(groups[0].gram.n_samples):
        for k, results in enumerate(done):
            for g, (problem, result) in enumerate(zip(groups, results, strict=True)):
                got = compute_criteria(
                    problem, result.alpha, result.weights, result.dual_coef.T, total=everything
                )
                for name in names:
                    found[name][g, k] = getattr(got, name)
    out = {name: values.sum(axis=0) for name, values in found.items()}
    if everything:
        per_group = [
            mallows_cp(rss, df, problem.n_eff)
            for problem, rss, df in zip(groups, found["rss"], found["df"], strict=True)
        ]
        out["cp"] = np.sum(per_group, axis=0)
    return out
