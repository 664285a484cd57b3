"""`solve`: the one place that chooses how a problem is solved.

Least squares on the simplex goes by Newton on the weights, or on features by descents on blocks of coefficients. Other
problems go by sequences of steps on the weights (`kernelweave.mkl.steps`), each continuing if the previous one is slow,
or on features by proximal Newton steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import InputError, as_floats, check_finite
from kernelweave._devices import Kind
from kernelweave._parameters import Function, MaxIter, MaxTime, Tol, checked
from kernelweave._threads import blas_threads_for, one_blas_thread
from kernelweave._types import Array
from kernelweave.gram import kind_of
from kernelweave.machines.box import check_start
from kernelweave.mkl import published
from kernelweave.mkl.features.newton import MarginDescent, knows
from kernelweave.mkl.features.problem import FeatureProblem
from kernelweave.mkl.features.ridge_paths import (
    measure_on_features,
    on_all_rows,
    path_on_all_rows,
    relaxed_path_on_features,
    solutions_on_features,
    with_features_of_path,
)
from kernelweave.mkl.features.row_newton import check_for_chunks, solve_on_chunks
from kernelweave.mkl.kernel_problem import KernelProblem, MarginStep, Session
from kernelweave.mkl.loop import Callback, minimise
from kernelweave.mkl.problem import MarginForm, Problem, RidgeForm
from kernelweave.mkl.regularization import criteria_along, join_outputs, relax_path, squeeze
from kernelweave.mkl.ridge_problem import RidgeProblem
from kernelweave.mkl.steps.closed_form import ClosedForm
from kernelweave.mkl.steps.dual_newton import DualNewton
from kernelweave.mkl.steps.interior_point import InteriorPoint
from kernelweave.mkl.steps.newton import PATIENCE, Newton
from kernelweave.mkl.steps.ridge_newton import RidgeStart, newton_result
from kernelweave.mkl.weight_sets import Simplex, WeightSet
from kernelweave.results import Certificate, Path, RelaxedSolution, Solution, Status, Verifier, WarmStart

#: Steps by name; of those admissible for a set of weights the first is the default.
STEPS: dict[str, type[MarginStep]] = {
    "newton": Newton,
    "interior-point": InteriorPoint,
    "closed-form": ClosedForm,
    "dual-newton": DualNewton,
}
METHODS = ("auto", *STEPS, *published.MARGIN)
#: Outer iterations.
MOST = 500


#: Iterations of RLS2 by Newton and by published algorithms, unless `max_iter` says otherwise.
RIDGE_ITER, PUBLISHED_ITER = 200, 50_000
#: Called after every solution of a path with (index, result); a true return value ends the path there.
PathCallback = Callable[[int, Solution], object]
#: Of least squares on the simplex.
SOLVERS = ("newton", *published.RIDGE)


@checked
def solve(
    problem: Problem,
    *,
    solver: str = "auto",
    start: Solution | WarmStart | None = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    callback: Annotated[Callback | None, Function() | None] = None,
) -> Solution:
    """Solve a problem, and certify the solution.

    Parameters
    ----------
    problem : Problem
        Kernels, targets, loss and set of weights.
    solver : str, default="auto"
        How weights move. For least squares on the simplex one of "newton" and "alternating", see `solve_rls2`; for
        others a method of `solve_svm_mkl`.
    start : Solution or WarmStart, optional
        The solution of a similar problem.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``.
    max_iter : int, optional
        Outer iterations.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    callback : callable, optional
        ``callback(iteration, objective, rel_gap)``; a true value stops the solver.

    Returns
    -------
    Solution
        ``f = K(weights) @ dual_coef + intercept``. Its status is ``CONVERGED`` only if ``problem.certify`` confirms it.
        Non-convergence is reported in ``status``, never raised.

    Raises
    ------
    InputError
        A solver that does not fit the problem.

    Notes
    -----
    For least squares on the simplex, an iteration costs a factorisation, n_samples^3 / 3, and a pass over the kernels
    with a weight, see `solve_rls2`; for other losses one machine and such a pass, see `solve_svm_mkl`. On features,
    streams and sums over rows no matrix of rows by rows is made. The certificate costs a pass over all kernels.

    References
    ----------
    F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv 1001.2709, for least squares on the
    simplex; A. Rakotomamonjy et al., SimpleMKL, JMLR 9 (2008), and M. Kloft et al., lp-norm multiple kernel learning,
    JMLR 12 (2011), for other losses and sets of weights.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> Z = np.random.default_rng(0).normal(size=(60, 12))
    >>> stack = kw.FeatureStack(Z, [0, 4, 8, 12])
    >>> solution = kw.solve(kw.Problem(stack, Z[:, 0] - Z[:, 9], loss=kw.losses.EpsilonInsensitive(0.1), C=10.0))
    >>> solution.status, solution.feature_coef.shape
    (Status.CONVERGED, (12,))
    """
    form = problem.form
    if not form.least_squares:
        found = solve_margin(
            cast(MarginForm, form), solver, tol=tol, max_iter=max_iter, start=start, callback=callback
        )
        return confirmed(problem, found, tol).of_kind(kind_of(problem.kernels))
    if solver not in ("auto", *SOLVERS):
        raise InputError(
            f"`solver`={solver!r} does not fit {problem.loss!r} on the simplex. Possible: auto, {', '.join(SOLVERS)}."
        )
    cost, weights = problem.C, _weights_of(start, form.n_kernels)
    # the objective of the solver is divided by C
    told: Callback | None = (
        None if callback is None else lambda n, value, left: callback(n, cost * value, left)
    )
    (found,) = along_alphas(
        cast(RidgeForm, form),
        np.array([1.0 / cost]),
        solver="newton" if solver == "auto" else solver,
        tol=tol,
        single=problem.single,
        weights0=weights,
        max_iter=max_iter,
        on_iteration=told,
    ).solutions
    trace = {name: cost * values if name == "objective" else values for name, values in found.trace.items()}
    found = replace(found, certificate=found.certificate.times(cost), trace=trace)
    return found.of_kind(kind_of(problem.kernels))


def confirmed(problem: Verifier, found: Solution, tol: float) -> Solution:
    """A solution that its problem confirms, or with the certificate that the problem gives it.

    Where a problem gives all certificates itself, as of machines on kernels, or on rows and kernels that are not in
    memory in a pass, they are not computed again.
    """
    if found.status is not Status.CONVERGED or getattr(problem, "certifies_itself", False):
        return found
    own = problem.certify(found)
    agreed = found.certificate.checked_by(own).status is Status.CONVERGED
    if agreed and own.gap <= tol * abs(own.primal):
        return found
    kind = found.certificate.kind
    return replace(
        found,
        certificate=Certificate.of(kind, own.primal, own.own_gap, own.rounding, Status.STALLED, tol=tol),
    )


# ---- least squares on the simplex -----------------------------------------------------------------


def along_alphas(
    problem: RidgeForm,
    alphas: Array,
    *,
    single: bool,
    solver: str,
    tol: float,
    kind: Kind | None = None,
    max_iter: int | None = None,
    shared_weights: bool = True,
    relax: ArrayLike | None = None,
    weights0: ArrayLike | None = None,
    on_solution: PathCallback | None = None,
    on_iteration: Callback | None = None,
    **published: object,
) -> Path[Solution]:
    """RLS2 on kernels, features, streams or statistics, each solution warm-started from the one before.

    Parameters
    ----------
    problem : RidgeForm
    alphas : array of shape (n_alphas,)
        Regularisation parameters > 0, descending; ``inf`` gives f = 0.
    single : bool
        Whether there is one output, as a vector.
    solver, tol, max_iter, shared_weights, relax, weights0
        See `kernelweave.rls2_path`.
    kind : Kind, optional
        Of the arrays of the result.
    on_solution : callable, optional
        ``on_solution(index, solution)``; a true value ends the path.
    on_iteration : callable, optional
        ``on_iteration(n_iter, objective, rel_gap)``; a true value ends the solution.
    **published
        Parameters of published algorithms.

    Returns
    -------
    Path
        For all given rows. A solution is `CONVERGED` only with a certificate by its problem, over all kernels.

    Raises
    ------
    InputError
        Weights outside of the simplex, or an alpha below the rounding errors of the kernels.

    References
    ----------
    F. Dinuzzo, arXiv 1001.2709: Problems 5 to 7, and section 5.2 for the path.
    """
    start = None if weights0 is None else check_simplex(weights0, problem.n_kernels)
    call: PathCallback | None = (
        None
        if on_solution is None
        else lambda index, one: on_solution(index, on_all_rows(problem, one).of_kind(kind))
    )
    with threads_of(problem):
        given = problem.parts() if not shared_weights and len(problem.targets) > 1 else [problem]
        done: list[list[Solution]] = []
        features = [part for part in given if isinstance(part, FeatureProblem)]
        on_kernels = (
            []
            if features and solver == "newton"
            else [part.on_kernels() if isinstance(part, FeatureProblem) else part for part in given]
        )
        if on_kernels:
            how: dict[str, Any] = {
                "solver": solver,
                "tol": tol,
                "max_iter": max_iter,
                "callback": on_iteration,
            }
            found = _on_kernels(on_kernels, alphas, done, start, **how, **published)
            measure = partial(_measure, on_kernels, done)
        else:
            found = solutions_on_features(
                features, alphas, done, start, tol=tol, max_iter=max_iter, callback=on_iteration
            )
            measure = partial(measure_on_features, features, done, _measure)
        whole = (squeeze(one) if single else one for one in found)
        path = Path.collect(whole, len(alphas), call, measure)
        if features and on_kernels:
            # the certificates of descents on features are those of their problem already
            path = _confirmed(problem, with_features_of_path(features, path), tol)
        if relax is not None:
            path = relaxed_along(given, path, relax)
    return path_on_all_rows(problem, path).of_kind(kind)


def _on_kernels(
    groups: Sequence[RidgeProblem], alphas: Array, done: list[list[Solution]], start: Array | None, **how: Any
) -> Iterator[Solution]:
    """Solutions for all given rows, each of all groups of outputs; `done` receives those of the groups."""
    warm = [RidgeStart(weights=start) for _ in groups]
    for alpha in alphas:
        both = zip(groups, warm, strict=True)
        done.append([ridge_on_kernels(problem, float(alpha), own, **how) for problem, own in both])
        yield join_outputs(done[-1], groups[0].rows)


def _confirmed(problem: RidgeForm, path: Path[Solution], tol: float) -> Path[Solution]:
    """Solutions that converged are confirmed by their problem, or have its certificate."""
    checked = (confirmed(problem, on_all_rows(problem, one), tol).certificate for one in path.solutions)
    solutions = (replace(one, certificate=own) for one, own in zip(path.solutions, checked, strict=True))
    return replace(path, solutions=tuple(solutions))


def _measure(
    problems: Sequence[RidgeProblem], done: Sequence[Sequence[Solution]], everything: bool
) -> dict[str, Array]:
    """Criteria at every solution of a path, from those of all groups of outputs."""
    points = [[(one.alpha, one.weights, one.dual_coef.T) for one in found] for found in done]
    return criteria_along(problems, points, everything)


def threads_of(problem: RidgeForm) -> AbstractContextManager[object]:
    """Threads of BLAS for its solvers: on features products are small and many, and threads would wait."""
    if isinstance(problem, FeatureProblem):
        return one_blas_thread()
    return blas_threads_for(problem.targets.shape[1])


def ridge_on_kernels(
    problem: RidgeProblem,
    alpha: float,
    warm: RidgeStart,
    *,
    solver: str,
    tol: float,
    max_iter: int | None,
    callback: Callback | None,
    **literal: object,
) -> Solution:
    """RLS2 on matrices by Newton or a published algorithm; `warm` becomes the start of the next one."""
    if solver == "newton":
        limit = RIDGE_ITER if max_iter is None else max_iter
        return newton_result(problem, alpha, tol=tol, max_iter=limit, warm=warm, callback=callback)
    limit = PUBLISHED_ITER if max_iter is None else max_iter
    other, own = published.published(solver), {"callback": callback, **literal}
    found: Solution = other(problem, alpha, weights0=warm.weights, max_iter=limit, **own)
    # as in the paper, only weights are passed on
    warm.weights = found.weights
    return found


def relaxed_along(
    problems: Sequence[RidgeForm], path: Path[Solution], relax: ArrayLike
) -> Path[RelaxedSolution]:
    """Ridge regression at other regularisation parameters, on kernels or on features."""
    if isinstance(problems[0], FeatureProblem):
        return relaxed_path_on_features(cast(list[FeatureProblem], problems), path, relax)
    return relax_path(cast(list[RidgeProblem], problems), path, relax)


def check_simplex(weights: ArrayLike, n_kernels: int) -> Array:
    """Check that starting weights are on the simplex, and return them."""
    array = as_floats(weights, "start")
    if array.shape != (n_kernels,):
        raise InputError(
            f"`start` must have one entry per kernel (n_kernels={n_kernels}), got shape {array.shape}."
        )
    if not (array >= 0).all() or not abs(array.sum() - 1.0) < 1e-6:
        raise InputError("`start` must be nonnegative and sum to 1. Divide it by its sum.")
    return array / array.sum()


# ---- machines on sets of weights ------------------------------------------------------------------


def solve_margin(
    problem: MarginForm,
    method: str = "auto",
    *,
    tol: float,
    max_iter: int | None = None,
    start: Solution | WarmStart | None = None,
    callback: Callback | None = None,
) -> Solution:
    """`solve_svm_mkl` on a checked problem; `start` is not checked yet."""
    more: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "start": start, "callback": callback}
    # a line search may try values at which a loss is infinite
    with np.errstate(over="ignore", invalid="ignore"):
        (only,) = along_costs(problem, np.array([problem.machine.C]), method, **more)
    return only


def along_costs(
    problem: MarginForm,
    Cs: Array,
    method: str,
    *,
    tol: float,
    max_iter: int | None = None,
    start: Solution | WarmStart | None = None,
    callback: Callback | None = None,
) -> Iterator[Solution]:
    """Solutions for ascending C, each from the one before and the first from `start`; fewer after Ctrl-C."""
    more: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "callback": callback}
    features = problem if isinstance(problem, FeatureProblem) else None
    if features is not None and not features.in_memory:
        # before the pass that a start without coefficients of features takes
        check_for_chunks(method, problem.weight_set)
    n_given = problem.n_given if isinstance(problem, FeatureProblem) else problem.gram.n_samples
    warm = check_warm(start, problem.n_kernels, n_given)
    if features is not None and not features.in_memory:
        # all in the same passes over the rows
        yield from solve_on_chunks(features, Cs, method, start=_start_on_chunks(features, warm), **more)
        return
    descent: MarginDescent | None = None
    if features is not None and method == "auto" and knows(problem.weight_set):
        # products with vectors are many: threads of BLAS would wait for each other
        with one_blas_thread():
            descent = descent_on_features(features, _features_of(features, warm), **more)
    elif features is not None and warm.dual_coef is not None and features.rows is not None:
        warm.dual_coef = warm.dual_coef[features.rows]
    kernels: Any = features.on_kernels() if features is not None and descent is None else problem
    if descent is None and warm.weights is not None:
        warm.weights = problem.weight_set.project(warm.weights)
    for C in Cs.tolist():
        if descent is not None:
            with one_blas_thread():
                found = descent.solve(C)
        else:
            with blas_threads_for(n_given):
                found = solve_problem(kernels.at(C), method, warm=warm, **more)
            warm = WarmStart(found.weights, found.dual_coef)
            if features is not None:
                here = features.at(C)
                found = confirmed(here, here.with_features(found, tol), tol)
        yield found
        if found.status is Status.INTERRUPTED:
            return


def solve_problem(
    problem: KernelProblem,
    method: str | Sequence[MarginStep] = "auto",
    *,
    tol: float,
    max_iter: int | None = None,
    warm: WarmStart | None = None,
    callback: Callback | None = None,
    certified: bool = True,
) -> Solution:
    """`solve_svm_mkl` on a checked problem by a method or its `steps_of`; see `Session.certified`.

    Paths limit the threads of BLAS, once for all of their solutions.
    """
    steps = steps_of(method, problem) if isinstance(method, str) else method
    session = Session(problem, tol, warm or WarmStart(), certified)
    work = None if max_iter is not None else problem.most_work
    return minimise(session, steps, max_iter=max_iter or MOST, callback=callback, work=work)


@cache
def methods_for(kind: type[WeightSet]) -> tuple[str, ...]:
    """Names of the methods for a kind of sets."""
    own = (name for name, step in STEPS.items() if issubclass(kind, step.fits))
    return ("auto", *own, *(published.MARGIN if issubclass(kind, Simplex) else ()))


def steps_of(method: str, problem: KernelProblem) -> list[MarginStep]:
    """The steps of a method, in order; each continues if the previous one is slow."""
    weight_set = problem.weight_set
    possible = methods_for(type(weight_set))[1:]
    if not possible:
        raise InputError(
            f"There is no step for {weight_set!r}: a set of weights of your own derives from `ShareSet` (Newton) or "
            "`AlternatingSet` (the closed form), which need a formula more than `WeightSet`."
        )
    if method not in ("auto", *possible):
        raise InputError(f"`solver`={method!r} does not fit {weight_set!r}. Possible: {', '.join(possible)}.")
    machine = problem.machine
    if method in ("interior-point", "dual-newton") and not (machine.loss.quadratic and machine.fit_intercept):
        raise InputError(
            f"`solver`={method!r} needs a loss whose dual is a quadratic program, and an intercept, got "
            f"loss={machine.loss.name!r}, fit_intercept={machine.fit_intercept}. Use 'auto'."
        )
    if method == "dual-newton":
        return [DualNewton(), ClosedForm()]
    # the last use of Newton only refines
    turns: list[MarginStep] = [Newton(gives_way=True), InteriorPoint(), Newton(most=PATIENCE)]
    if not problem.has_interior:
        turns = [Newton()]
    if method == "auto" and possible[0] == "newton":
        return turns
    method = possible[0] if method == "auto" else method
    more = turns if method == "closed-form" and "newton" in possible else []
    step = STEPS[method] if method in STEPS else published.published(method)
    return [step(), *more]


def descent_on_features(
    problem: FeatureProblem,
    w: Array | None,
    *,
    tol: float,
    max_iter: int | None = None,
    callback: Callback | None = None,
) -> MarginDescent:
    """The solver on features from coefficients of all of them, in its units, or by smaller C.

    Working columns that outnumber the rows are solved on kernels.
    """

    def on_kernels(part: KernelProblem, aim: float, start: WarmStart) -> Solution:
        with blas_threads_for(part.gram.n_samples):
            return solve_problem(part, tol=aim, max_iter=max_iter, warm=start)

    descent = MarginDescent(problem, tol=tol, max_iter=max_iter, callback=callback, on_kernels=on_kernels)
    if w is None:
        descent.on_the_way()
    else:
        descent.begin_at(w)
    return descent


def _start_on_chunks(problem: FeatureProblem, warm: WarmStart) -> WarmStart | None:
    """A start with coefficients of features, and of rows where there are some."""
    w = _features_of(problem, warm)
    if w is None or not np.isfinite(w).all():
        return None
    b = None if warm.dual_coef is None else _coefficients_of(problem, warm.dual_coef)
    return WarmStart(None, b, w, warm.intercept)


def _features_of(problem: FeatureProblem, warm: WarmStart) -> Array | None:
    """Coefficients of all features to start from, in the solver's units."""
    given = warm.feature_coef
    if given is not None and np.shape(given) == (problem.stack.n_features,):
        return as_floats(given, "start.feature_coef") / problem.factors
    if warm.weights is None or warm.dual_coef is None:
        return None
    shares = np.repeat(np.maximum(warm.weights, 0.0), problem.stack.widths)
    return shares * problem.gradient(_coefficients_of(problem, warm.dual_coef))


def _coefficients_of(problem: FeatureProblem, dual_coef: Array) -> Array:
    """Coefficients of the rows of positive weight, in the solver's units."""
    b = dual_coef if problem.rows is None else dual_coef[problem.rows]
    return b * problem.unit**2


def check_warm(warm_start: Solution | WarmStart | None, n_kernels: int, n_samples: int) -> WarmStart:
    """Copy a warm start, so that the caller's is not changed. It need not be feasible."""
    if warm_start is None:
        return WarmStart()
    weights, b = _weights_of(warm_start, n_kernels), warm_start.dual_coef
    features, intercept = warm_start.feature_coef, warm_start.intercept
    return WarmStart(
        weights,
        None if b is None else check_start(b, n_samples),
        features,
        float(intercept) if np.ndim(intercept) == 0 else 0.0,
    )


def _weights_of(warm_start: Solution | WarmStart | None, n_kernels: int) -> Array | None:
    """The weights of a warm start, checked; None where it has none."""
    if warm_start is None:
        return None
    if not isinstance(warm_start, (Solution, WarmStart)):
        raise InputError(
            "`start` must be an earlier result or a kernelweave.results.WarmStart, got "
            f"{type(warm_start).__name__}. For weights alone pass WarmStart(weights)."
        )
    if warm_start.weights is None:
        return None
    weights = as_floats(warm_start.weights, "start.weights")
    if weights.shape != (n_kernels,):
        raise InputError(
            f"`start` must be a solution for {n_kernels} kernels, got weights of shape "
            f"{weights.shape}. Leave it out for another stack."
        )
    check_finite(weights, "start.weights")
    return weights
