"""Margin multiple kernel learning over a convex set of weights: the optimal value of a machine, minimised.

    min_{d in D} J(d) ,    J(d) = max_b dual_term(b) - 1/2 sum_m d_m q_m(b) ,    q_m(b) = s_m b'K_m b .

J is convex in d. For every method, the result has the gap of the joint problem: with sigma the support function
of D,

    gap = (gap of the machine on K(d)) + 1/2 (sigma(q) - <d, q>) .

Methods are sequences of steps (`kernelweave.mkl.steps`), each continuing if the previous one is slow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import (
    GivenTargets,
    InputError,
    RowWeights,
    Scale,
    as_floats,
    check_finite,
    check_positive,
    check_scale,
    need_targets,
)
from kernelweave._parameters import Cost, Function, MaxIter, MaxTime, Nonnegative, OneOf, Tol, checked
from kernelweave._threads import blas_threads_for, one_blas_thread
from kernelweave.gram import ChunkedFeatures, FeatureStack, Gram, as_gram, kind_of
from kernelweave.machines.box import check_start
from kernelweave.machines.losses import LOSSES, Squared, as_loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.features.newton import MarginDescent, knows
from kernelweave.mkl.features.on_chunks import check_for_chunks, make_chunked_problem, solve_on_chunks
from kernelweave.mkl.features.problem import FeatureProblem, make_margin_feature_problem
from kernelweave.mkl.features.row_newton import Start
from kernelweave.mkl.loop import Callback, minimise
from kernelweave.mkl.problem import MarginStep, Problem, Session
from kernelweave.mkl.steps.closed_form import ClosedForm
from kernelweave.mkl.steps.cutting_plane import CuttingPlane
from kernelweave.mkl.steps.dual_newton import DualNewton
from kernelweave.mkl.steps.interior_point import InteriorPoint, has_interior
from kernelweave.mkl.steps.newton import PATIENCE, Newton
from kernelweave.mkl.steps.reduced_gradient import ReducedGradient
from kernelweave.mkl.weight_sets import WeightSet, as_weight_set
from kernelweave.results import Solution, WarmStart

Array = NDArray[np.float64]

#: Steps by name; of those admissible for a set of weights the first is the default.
STEPS: dict[str, type[MarginStep]] = {
    "newton": Newton,
    "interior-point": InteriorPoint,
    "reduced-gradient": ReducedGradient,
    "cutting-plane": CuttingPlane,
    "closed-form": ClosedForm,
    "dual-newton": DualNewton,
}
METHODS = ("auto", *STEPS)
#: Losses by name: all but that of ridge regression (see RLS2).
MARGIN_LOSSES = tuple(name for name in LOSSES if name != Squared.name)
#: Outer iterations.
MOST = 500


@checked
def solve_svm_mkl(
    gram: Gram | FeatureStack | ChunkedFeatures | ArrayLike,
    y: GivenTargets,
    C: Cost,
    weight_set: str | WeightSet = "simplex",
    *,
    loss: Annotated[str, OneOf(*MARGIN_LOSSES)] = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
    tol: Tol = 1e-4,
    method: Annotated[str, OneOf(*METHODS)] = "auto",
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    warm_start: Solution | WarmStart | None = None,
    callback: Annotated[Callback | None, Function() | None] = None,
) -> Solution:
    """Learn kernel weights with a support vector machine, and certify the solution.

    Minimises over weights d in a convex set and over f = <w, phi_d(x)> + intercept with the kernel
    ``K(d) = sum_m d_m s_m K_m``

        1/2 ||w||^2 + sum_i C_i loss(y_i, f_i) ,      C_i = C * sample_weight_i .

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels), Gram, FeatureStack or RowFeatures
        Symmetric PSD matrices, kernels last; or features in blocks, which are worked on themselves; or rows of such
        features that are read in chunks. Not modified.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets for ``loss="epsilon-insensitive"``; None for `RowFeatures`, which have them.
    C : float
        Weight of the loss > 0, a sum over samples.
    weight_set : "simplex" or WeightSet, default="simplex"
        ``Simplex()`` (SimpleMKL, SILP), ``CappedSimplex(cap)`` (soft-margin MKL), ``LpBall(p)``,
        ``ElasticNet(mix)``.
    loss : {"hinge", "squared-hinge", "epsilon-insensitive", "logistic"}, default="hinge"
        With the logistic loss ``1 / (1 + exp(-f))`` is the probability of label 1.
    epsilon : float, default=0.1
        Half width of the tube of the epsilon-insensitive loss, in units of y.
    sample_weight : array of shape (n_samples,), optional
        A weight is equivalent to a repetition; rows of weight 0 are ignored.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    tol : float, default=1e-4
        Stop when ``gap <= tol * primal``.
    method : str, default="auto"
        One of "auto", "newton", "interior-point", "reduced-gradient", "cutting-plane", "closed-form", "dual-newton":
        "newton" on the weights, and "interior-point" on weights and coefficients at once, for all but Lp balls;
        "reduced-gradient" is SimpleMKL with a line search by derivatives, and "cutting-plane" is
        SILP, both for the simplex; "closed-form" alternates the machine and the optimal weights, for all but
        the simplex; over sets where weights may vanish Newton continues if 50 rounds have not made the gap ten times
        smaller. "dual-newton", for Lp balls, is Newton on the coefficients, with the curvature of the best weights: few
        machines and many digits.
        "auto": Newton, then the interior point if Newton is slow (many kernels of low rank, few rows inside the
        box); the closed form for Lp balls. On features: proximal Newton steps for the coefficients of the features,
        for every set. All other methods hold the blocks as factors.
    max_iter : int, optional
        Outer iterations. Default: 500; of `RowFeatures` passes over the rows, 100.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    warm_start : Solution or WarmStart, optional
        The solution of a similar problem; for `RowFeatures` it takes the place of the one on a sample.
    callback : callable, optional
        ``callback(iteration, objective, rel_gap)``; a true value stops the solver.

    Returns
    -------
    Solution
        ``f = K(d) @ dual_coef + intercept``. Non-convergence is reported in ``status``, never raised. For a
        `FeatureStack` also ``f = Z @ feature_coef + intercept``, and the certificate is that of these coefficients.

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, C <= 0, one class, a method that does not fit the set.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    An outer iteration of Newton costs one warm-started machine, one combination of the active kernels and products with
    those of a working set; a pass over all kernels is made when those are solved. A step of the interior point
    costs a combination of all kernels, two products with each, and n_samples^3 / 3; it needs memory for a few times
    n_kernels * n_samples numbers, for 1,000 kernels at first if there are more.

    On features the problem is, with weights on the simplex, ``sum_i C_i loss(y_i, f_i) + 1/2 (sum_m |w_m| /
    sqrt(s_m))^2`` for ``f = Z w + intercept``: the group lasso with a square. A step costs at most n_samples times the
    square of the number of columns of a working set; hinge and tube take several steps for each change of the
    coefficients in the augmented Lagrangian of their dual.

    References
    ----------
    A. Rakotomamonjy et al., SimpleMKL, JMLR 9 (2008). S. Sonnenburg et al., Large scale multiple kernel learning, JMLR
    7 (2006). M. Kloft et al., lp-norm multiple kernel learning, JMLR 12 (2011). X. Xu et al., Soft margin multiple
    kernel learning, IEEE TNNLS 24 (2013).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_svm_mkl
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> gram = X[:, None, :] * X[None, :, :]
    >>> result = solve_svm_mkl(gram, np.sign(X[:, 0] - X[:, 2]), C=1.0)
    >>> np.flatnonzero(result.weights > 0.05), result.rel_gap <= 1e-4
    (array([0, 2]), True)
    """
    problem = make_any_margin_problem(
        gram, y, C, weight_set, loss=loss, epsilon=epsilon, sample_weight=sample_weight, scale=scale
    )
    if not isinstance(problem, FeatureProblem):
        warm = check_warm(warm_start, problem.n_kernels, problem.gram.n_samples)
        found = solve_problem(problem, method, tol=tol, max_iter=max_iter, warm=warm, callback=callback)
        return found.of_kind(kind_of(gram))
    assert isinstance(gram, FeatureStack | ChunkedFeatures)
    if isinstance(gram, ChunkedFeatures):
        # before the pass that a start without coefficients of features takes
        check_for_chunks(method, problem.weight_set)
    warm = check_warm(warm_start, gram.n_kernels, gram.n_samples)
    if isinstance(gram, FeatureStack):
        return solve_margin_on_features(
            problem, method, tol=tol, max_iter=max_iter, start=warm_start, warm=warm, callback=callback
        ).of_kind(gram.kind)
    start = _start_on_chunks(problem, warm_start, warm)
    (only,) = solve_on_chunks(
        problem, np.array([C]), method, tol=tol, max_iter=max_iter, callback=callback, start=start
    )
    return only


def solve_problem(
    problem: Problem,
    method: str = "auto",
    *,
    tol: float,
    max_iter: int | None = None,
    warm: WarmStart | None = None,
    callback: Callback | None = None,
) -> Solution:
    """`solve_svm_mkl` on a checked problem."""
    steps = steps_of(method, problem)
    with blas_threads_for(problem.gram.n_samples):
        session = Session(problem, tol, WarmStart() if warm is None else replace(warm))
        return minimise(
            session, steps, max_iter=max_iter or MOST, callback=callback, limited=max_iter is None
        )


def methods_for(kind: type[WeightSet]) -> tuple[str, ...]:
    """Names of the methods for a kind of sets."""
    return ("auto", *(name for name, step in STEPS.items() if issubclass(kind, step.fits)))


def steps_of(method: str, problem: Problem) -> list[MarginStep]:
    """The steps of a method, in order; each continues if the previous one is slow."""
    weight_set = problem.weight_set
    possible = methods_for(type(weight_set))[1:]
    if not possible or method not in ("auto", *possible):
        raise InputError(f"`method`={method!r} does not fit {weight_set!r}. Possible: {', '.join(possible)}.")
    if method in ("interior-point", "dual-newton") and not problem.machine.loss.quadratic:
        raise InputError(
            f"`method`={method!r} needs a loss whose dual is a quadratic program, got "
            f"loss={problem.machine.loss.name!r}. Use 'auto'."
        )
    if method == "dual-newton":
        return [DualNewton(), ClosedForm()]
    # the last use of Newton only refines
    turns: list[MarginStep] = [Newton(gives_way=True), InteriorPoint(), Newton(most=PATIENCE)]
    if not has_interior(problem):
        turns = [Newton()]
    if method == "auto" and possible[0] == "newton":
        return turns
    method = possible[0] if method == "auto" else method
    more = turns if method == "closed-form" and "newton" in possible else []
    return [STEPS[method](), *more]


def solve_margin_on_features(
    problem: FeatureProblem,
    method: str = "auto",
    *,
    tol: float,
    max_iter: int | None = None,
    start: Solution | WarmStart | None = None,
    warm: WarmStart | None = None,
    callback: Callback | None = None,
) -> Solution:
    """`solve_svm_mkl` on checked features; `start` may have coefficients of these, and `warm` has the rest, checked."""
    if method == "auto" and knows(problem.weight_set):
        descent = descent_on_features(problem, tol=tol, max_iter=max_iter, callback=callback)
        # products with vectors are many: threads of BLAS would wait for each other
        with one_blas_thread():
            w = _features_of(problem, start, warm)
            if w is None:
                descent.on_the_way()
            else:
                descent.begin_at(w)
            return descent.solve()
    kernels = problem.on_kernels()
    begin = WarmStart() if warm is None else replace(warm)
    if begin.dual_coef is not None and problem.rows is not None:
        begin.dual_coef = begin.dual_coef[problem.rows]
    found = solve_problem(kernels, method, tol=tol, max_iter=max_iter, warm=begin, callback=callback)
    return problem.with_features(found, tol)


def descent_on_features(
    problem: FeatureProblem,
    *,
    tol: float,
    max_iter: int | None = None,
    callback: Callback | None = None,
) -> MarginDescent:
    """The solver on features, with the one on kernels for working columns that outnumber rows."""

    def on_kernels(part: Problem, aim: float, start: WarmStart) -> Solution:
        return solve_problem(part, tol=aim, max_iter=max_iter, warm=start)

    return MarginDescent(problem, tol=tol, max_iter=max_iter, callback=callback, on_kernels=on_kernels)


def _features_of(
    problem: FeatureProblem, start: Solution | WarmStart | None, warm: WarmStart | None
) -> Array | None:
    """Coefficients of all features to start from, in the solver's units."""
    given = getattr(start, "feature_coef", None)
    if given is not None and np.shape(given) == (problem.stack.n_features,):
        return as_floats(given, "warm_start.feature_coef") / problem.factors
    if warm is None or warm.weights is None or warm.dual_coef is None:
        return None
    shares = np.repeat(np.maximum(warm.weights, 0.0), problem.stack.widths)
    return shares * problem.gradient(_coefficients_of(problem, warm.dual_coef))


def _coefficients_of(problem: FeatureProblem, dual_coef: Array) -> Array:
    """Coefficients of the rows of positive weight, in the solver's units."""
    b = dual_coef if problem.rows is None else dual_coef[problem.rows]
    return b * problem.unit**2


def _start_on_chunks(
    problem: FeatureProblem, start: Solution | WarmStart | None, warm: WarmStart
) -> Start | None:
    """Where to begin on rows in chunks; None without coefficients."""
    w = _features_of(problem, start, warm)
    if w is None or not np.isfinite(w).all():
        return None
    b = None if warm.dual_coef is None else _coefficients_of(problem, warm.dual_coef)
    return Start(w, float(getattr(start, "intercept", 0.0)), b)


def check_warm(warm_start: Solution | WarmStart | None, n_kernels: int, n_samples: int) -> WarmStart:
    """Copy a warm start, so that the caller's is not changed. It need not be feasible."""
    if warm_start is None:
        return WarmStart()
    if not isinstance(warm_start, (Solution, WarmStart)):
        raise InputError(
            "`warm_start` must be an earlier result or a kernelweave.results.WarmStart, got "
            f"{type(warm_start).__name__}. For weights alone pass WarmStart(weights)."
        )
    weights, b = warm_start.weights, warm_start.dual_coef
    if weights is not None:
        weights = as_floats(weights, "warm_start.weights")
        if weights.shape != (n_kernels,):
            raise InputError(
                f"`warm_start` must be a solution for {n_kernels} kernels, got weights of shape "
                f"{weights.shape}. Leave it out for another stack."
            )
        check_finite(weights, "warm_start.weights")
    return WarmStart(weights, None if b is None else check_start(b, n_samples))


def make_any_margin_problem(
    gram: Gram | FeatureStack | ChunkedFeatures | ArrayLike,
    y: ArrayLike | None,
    C: float,
    weight_set: str | WeightSet,
    *,
    loss: str,
    epsilon: float,
    sample_weight: ArrayLike | None,
    scale: ArrayLike | None,
) -> Problem | FeatureProblem:
    """Check arguments of the solvers: a problem on kernels, on features, or on rows in chunks."""
    if isinstance(gram, ChunkedFeatures):
        return make_chunked_problem(
            gram, y, C, weight_set, loss=loss, epsilon=epsilon, sample_weight=sample_weight, scale=scale
        )
    targets = need_targets(y)
    if isinstance(gram, FeatureStack):
        return make_margin_feature_problem(
            gram, targets, C, weight_set, loss=loss, epsilon=epsilon, sample_weight=sample_weight, scale=scale
        )
    return make_problem(
        gram, targets, C, weight_set, loss=loss, epsilon=epsilon, sample_weight=sample_weight, scale=scale
    )


def make_problem(
    gram: Gram | ArrayLike,
    y: ArrayLike,
    C: float,
    weight_set: str | WeightSet,
    *,
    loss: str = "hinge",
    epsilon: float = 0.1,
    sample_weight: ArrayLike | None = None,
    scale: ArrayLike | None = None,
) -> Problem:
    """Check arrays and put a machine on a stack."""
    stack = as_gram(gram)
    targets = as_floats(y, "y")
    if targets.shape != (stack.n_samples,):
        raise InputError(
            f"`y` must have one entry per row of the kernels, shape ({stack.n_samples},), got {targets.shape}."
        )
    factors = check_scale(scale, stack.n_kernels)
    weights = None if sample_weight is None else as_floats(sample_weight, "sample_weight")
    machine = Machine(targets, check_positive(C, "C"), as_loss(loss, epsilon), weights)
    return Problem(stack, machine, factors, as_weight_set(weight_set, stack.n_kernels))
