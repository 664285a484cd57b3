"""RLS2 on features for one regularisation parameter and along a path, with the interface for kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._types import Array, Index
from kernelweave.gram import KernelStream
from kernelweave.mkl.features.block_descent import FeatureDescent
from kernelweave.mkl.features.problem import FeatureProblem
from kernelweave.mkl.features.stream_descent import StreamDescent, single_block_alpha_of_stream
from kernelweave.mkl.loop import Callback
from kernelweave.mkl.regularization import join_outputs, relax_path, smallest_single
from kernelweave.mkl.ridge_problem import RidgeProblem
from kernelweave.results import Path, RelaxedSolution, Solution

#: Computes criteria from problems on kernels and the solutions for each alpha.
Criteria = Callable[[list[RidgeProblem], list[list[Solution]], bool], dict[str, Array]]
#: Points on the way to a single small alpha, per factor of ten, and the tolerance there.
STEPS_PER_DECADE, ROUGH = 3.0, 1e-2


def _begin(
    descent: FeatureDescent, alphas: list[float], weights0: Array | None, max_iter: int | None
) -> None:
    """Begin with weights, if there are some; to a single alpha by way of larger ones."""
    descent.prepare(alphas)
    if weights0 is not None:
        descent.work.add(np.flatnonzero(weights0))
    problem = descent.problem
    top = float(problem.traces.max())
    if len(alphas) > 1 or max_iter is not None or not 0 < alphas[0] < top or not problem.targets.any():
        return
    steps = math.ceil(STEPS_PER_DECADE * math.log10(top / alphas[0]))
    descent.on_the_way(np.geomspace(top, alphas[0], 1 + steps)[:-1], ROUGH)


def relaxed_path_on_features(
    problems: list[FeatureProblem], path: Path[Solution], relax: ArrayLike
) -> Path[RelaxedSolution]:
    """Replace the coefficients along a path by those of the ridge at another alpha, or several."""
    used = path.weights.reshape(-1, problems[0].n_kernels)
    kernels, parts = on_used_kernels(problems, used)
    restricted = tuple(replace(one, weights=one.weights[..., kernels]) for one in path.solutions)
    found = relax_path(parts, replace(path, solutions=restricted), relax)
    pairs = zip(path.solutions, found.solutions, strict=True)
    whole = tuple(replace(relaxed, weights=one.weights) for one, relaxed in pairs)
    if not isinstance(problems[0].stack, KernelStream):
        # with the features' coefficients of its own dual ones
        whole = tuple(with_own_features(problems, one) for one in whole)
    return Path(found.alphas, whole, found.measure)


def on_used_kernels(problems: list[FeatureProblem], weights: Array) -> tuple[Index, list[RidgeProblem]]:
    """Kernels that have a weight in any row of weights, and the problems on factors of these."""
    kernels = np.flatnonzero(weights.any(axis=0))
    first = problems[0].on_kernels(kernels)
    return kernels, [replace(first, targets=problem.targets) for problem in problems]


S = TypeVar("S", bound=Solution)


def with_own_features(problems: list[FeatureProblem], solution: S) -> S:
    """A solution with the features' coefficients that its weights and dual coefficients have, ``d_m s_m Z_m'c``."""
    rows, dual = problems[0].rows, solution.dual_coef
    n_outputs = sum(len(problem.targets) for problem in problems)
    # with several alphas of the ridge they come first
    several = isinstance(solution, RelaxedSolution) and np.ndim(solution.relax) == 1
    C = dual if several else dual[None]
    single = C.ndim == 2
    C = C.reshape(*C.shape[:2], n_outputs)
    if rows is not None and C.shape[1] == len(rows):
        C = C[:, rows]
    coef = np.empty((len(C), problems[0].stack.n_features, n_outputs))
    for own, out in zip(C, coef, strict=True):
        start = 0
        for problem, weights in zip(problems, np.atleast_2d(solution.weights), strict=True):
            stop = start + len(problem.targets)
            out[:, start:stop] = problem.features_of(weights, np.ascontiguousarray(own[:, start:stop].T)).T
            start = stop
    coef = coef[..., 0] if single else coef
    return replace(solution, feature_coef=coef if several else coef[0])


# ---- paths ----------------------------------------------------------------------------------------


def alpha_range_of_features(problem: FeatureProblem, smallest: float) -> tuple[float, float]:
    """(largest, smallest) alpha of an automatic path, as for kernels; `smallest` is a share of the largest trace."""
    top = float(problem.traces.max())
    if top <= 0 or not problem.targets.any():
        return 1.0, smallest
    if isinstance(problem.stack, KernelStream):
        return single_block_alpha_of_stream(problem, top), smallest * top
    return _single_block_alpha(problem, top), smallest * top


def _single_block_alpha(problem: FeatureProblem, top: float) -> float:
    G = problem.gradient_of_targets
    start = int(np.argmax(problem.quadratic_forms(G[None])[0]))
    columns = problem.columns(np.array([start]))
    # the residual of ridge regression on one block is Y less a combination of left singular vectors of the block
    vectors, singular, _ = np.linalg.svd(columns.T, full_matrices=False)
    inside = problem.Y @ vectors
    H = problem.gradient(np.ascontiguousarray(vectors.T))
    values = np.square(singular)

    def single(alpha: float) -> bool:
        shrunk = inside * (values / (values + problem.in_units(alpha)))
        quadratic_forms = problem.quadratic_forms((G - shrunk @ H)[None])[0]
        return bool(quadratic_forms.max() <= quadratic_forms[start] * (1 + 1e-8))

    return smallest_single(single, top, problem.Y.shape[1])


def solutions_on_features(
    groups: list[FeatureProblem],
    alphas: Array,
    done: list[list[Solution]],
    start: Array | None,
    *,
    tol: float,
    max_iter: int | None,
    callback: Callback | None,
) -> Iterator[Solution]:
    """Solutions for all given rows, each of all groups of outputs; `done` receives those of the groups.

    The blocks with a weight in `start` are in the working sets from the beginning.
    """
    values = [float(alpha) for alpha in alphas]
    kind = StreamDescent if isinstance(groups[0].stack, KernelStream) else FeatureDescent
    descents = [kind(group, tol=tol, max_iter=max_iter, callback=callback) for group in groups]
    # several alphas are evaluated in one pass, unless groups wait for each other
    steps = [values] if len(groups) == 1 else [[alpha] for alpha in values]
    for found in zip(*(_along(one, values, steps, start, max_iter) for one in descents), strict=False):
        done.append(list(found))
        yield join_outputs(done[-1], groups[0].rows)


def _along(
    descent: FeatureDescent,
    values: list[float],
    steps: list[list[float]],
    start: Array | None,
    max_iter: int | None,
) -> Iterator[Solution]:
    try:
        _begin(descent, values, start, max_iter)
        for alphas in steps:
            yield from descent.solve(alphas)
    except KeyboardInterrupt:
        # of a path what is done is kept
        best = descent.best_so_far(values[0]) if isinstance(descent, StreamDescent) else None
        if best is None or len(values) > 1:
            raise
        yield best


def measure_on_features(
    groups: list[FeatureProblem], done: list[list[Solution]], measure: Criteria, everything: bool
) -> dict[str, Array]:
    """Criteria along a path, from the kernels that have a weight somewhere on it."""
    weights = np.array([part.weights for parts in done for part in parts])
    kernels, problems = on_used_kernels(groups, weights)
    restricted = [[replace(part, weights=part.weights[kernels]) for part in parts] for parts in done]
    return measure(problems, restricted, everything)


def with_features_of_path(problems: list[FeatureProblem], path: Path[Solution]) -> Path[Solution]:
    """A path that was solved on kernels, with the coefficients of the features."""
    return replace(path, solutions=tuple(with_own_features(problems, one) for one in path.solutions))


# ---- statistics -----------------------------------------------------------------------------------


def on_all_rows(problem: FeatureProblem | RidgeProblem, solution: S) -> S:
    """A solution of statistics with an intercept, and without dual coefficients, of which all rows would have one.

    Its `proof` has those of the rows that stand for all. Solutions of other problems are returned as they are.
    """
    summary = problem.summary if isinstance(problem, FeatureProblem) else None
    if summary is None:
        return solution
    several = isinstance(solution, RelaxedSolution) and np.ndim(solution.relax) == 1
    coef, dual = np.asarray(solution.feature_coef), np.asarray(solution.dual_coef)
    at = 1 if several else 0
    fitted = np.tensordot(coef, summary.feature_means, axes=([at], [0]))
    means = summary.target_means if coef.ndim == at + 2 else summary.target_means[0]
    intercept = means - fitted
    none = isinstance(solution, RelaxedSolution)
    return replace(
        solution,
        dual_coef=np.empty(0),
        proof=np.empty((0, 0)) if none else np.atleast_2d(dual.T),
        intercept=float(intercept) if np.ndim(intercept) == 0 else intercept,
    )


def path_on_all_rows(problem: FeatureProblem | RidgeProblem, path: Path[S]) -> Path[S]:
    """The same for all solutions of a path."""
    return replace(path, solutions=tuple(on_all_rows(problem, one) for one in path.solutions))
