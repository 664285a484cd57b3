"""RLS2: least squares with kernel weights on the simplex (P1, Problems 5 to 8).

For kernels ``K(d) = sum_m d_m s_m K_m``, d on the simplex, targets y and alpha > 0,

    J(d, c) = 1/2 ||y - K(d) c||^2 + alpha/2 c' K(d) c ,      c(d) = (K(d) + alpha N)^-1 y ,

and after elimination of c, the convex Problem 6: ``min_d alpha/2 y' (K(d) + alpha N)^-1 y``. N is the inverse of
the sample weights (identity without). With q_m = s_m c' K_m c any (d, c) gives the certificate

    gap = 1/2 r' N^-1 r + alpha/2 (max_m q_m - c' K(d) c) ,    r = y - K(d) c - alpha N c .
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import (
    Floats,
    InputError,
    RowWeights,
    Scale,
    Start,
    as_floats,
    check_row_weights,
    check_scale,
    check_targets,
)
from kernelweave._loops import core
from kernelweave._parameters import Flag, Function, MaxIter, Number, OneOf, Strength, Tol, checked
from kernelweave._threads import blas_threads_for
from kernelweave.gram import Gram, as_gram
from kernelweave.machines.ridge import NotPositiveDefinite, RidgeSystem, Workspace, ridge_system
from kernelweave.mkl.certify import certify_ridge
from kernelweave.mkl.ridge_rounding import rounding_bound
from kernelweave.results import Certificate, Solution, Status, relative_gap

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Called after every iteration with (n_iter, objective, rel_gap); a true return value stops the solver.
Callback = Callable[[int, float, float], object]

SOLVERS = ("newton", "alternating")
LINEAR_SOLVERS = ("auto", "cholesky", "cg")
#: Kernels whose quadratic form is at least this share of the active level are watched in every step.
WATCH_SHARE = 0.6
#: How many kernels beyond the active ones are watched at most.
WATCH_MOST = 40
#: How many of them may be held without a factor.
WATCH_DENSE = 16
#: Share of tol that is left to the solver when rounding takes the rest.
LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Problem:
    """The data of Problem 5 in the form that the solvers use.

    Attributes
    ----------
    gram : Gram
    targets : array of shape (n_outputs, n_samples)
        Outputs as rows; all outputs share the weights.
    noise : array of shape (n_samples,)
        Diagonal of N, the inverse of the sample weights.
    scale : array of shape (n_kernels,)
        s_m, all > 0.
    rows : array of bool, shape (n_given,), or None
        Which of the rows that were given are here; None for all. Rows of weight 0 are not.
    """

    gram: Gram
    targets: Array
    noise: Array
    scale: Array
    rows: NDArray[np.bool_] | None = None

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.gram.n_kernels

    @cached_property
    def traces(self) -> Array:
        """``s_m tr(K_m)``, shape (n_kernels,)."""
        return self.scale * self.gram.trace()

    def roots(self, kernels: Index) -> Array:
        """Square roots of the diagonals of ``s_m K_m``, shape (len(kernels), n_samples)."""
        diagonal = self.gram.diagonal_of(kernels)
        return np.sqrt(np.maximum(diagonal, 0.0) * self.scale[kernels, None])

    def parts(self) -> list[Problem]:
        """One problem for each output."""
        return [replace(self, targets=row[None]) for row in self.targets]

    def for_all_rows(self, result: Solution) -> Solution:
        """A result with coefficients for all rows that were given: zeros for those of weight 0."""
        if self.rows is None:
            return result
        coef = np.zeros((len(self.rows), result.dual_coef.shape[1]))
        coef[self.rows] = result.dual_coef
        return replace(result, dual_coef=coef)

    def too_small(self, alpha: float) -> InputError:
        """The error for an alpha that is lost in the rounding errors of the kernels."""
        return InputError(
            f"`alpha`={alpha:.3g} is too small beside these kernels (trace up to {float(self.traces.max()):.3g}): "
            "K + alpha I is not positive definite in floating point. Raise alpha, or normalise the kernels."
        )

    def system(self, weights: Array, alpha: float, work: Workspace | None = None) -> RidgeSystem:
        """Factorise ``K(weights) + alpha N``."""
        return ridge_system(self.gram, weights * self.scale, alpha, self.noise, work)

    def quadratic_forms(self, C: Array, kernels: Index | None = None) -> Array:
        """Upper bounds of ``sum_t s_m c_t' K_m c_t``, exact where the representation is."""
        scale = self.scale if kernels is None else self.scale[kernels]
        residual = self.gram.residual_trace if kernels is None else self.gram.residual_trace[kernels]
        forms = self.gram.quadratic_forms(C, kernels)
        if residual.any():
            forms = forms + residual * float(np.vdot(C, C))
        return scale * forms

    def matvecs(self, C: Array, kernels: Index) -> Array:
        """``s_m K_m c_t``, shape (len(kernels), n_outputs, n_samples)."""
        V = self.gram.matvecs(C, kernels)
        V *= self.scale[kernels, None, None]
        return V

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of weights and coefficients, whatever was reported with them."""
        return certify_ridge(self, solution)

    def null_value(self) -> float:
        """The objective of f = 0."""
        return 0.5 * float(np.sum(np.square(self.targets) / self.noise))


def make_problem(
    gram: Gram | ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    scale: ArrayLike | None = None,
) -> tuple[Problem, bool]:
    """Check arrays and build a `Problem` on the rows of positive weight; also tell whether y had one dimension."""
    stack = as_gram(gram)
    targets, single = check_targets(y, stack.n_samples)
    weights = check_row_weights(sample_weight, stack.n_samples)
    factors = check_scale(scale, stack.n_kernels)
    rows = None
    if not weights.all():
        rows = weights > 0
        stack, targets, weights = stack.restrict(np.flatnonzero(rows)), targets[rows], weights[rows]
    return Problem(stack, np.ascontiguousarray(targets.T), 1.0 / weights, factors, rows), single


@dataclass
class WarmStart:
    """What one alpha hands on to the next along a path."""

    weights: Array | None = None
    before: Array | None = None  # the weights one alpha earlier, for the secant prediction
    forms: Array | None = None  # quadratic forms of all kernels (bounds for screened ones)
    reference: Array | None = None  # c at which `roots` were computed
    roots: Array | None = None  # square roots of the quadratic forms at `reference`
    work: Workspace = field(default_factory=Workspace)
    n_full_passes: int = 0
    n_screened: int = 0

    def predict(self) -> Array | None:
        """Weights extrapolated along the last step of the path, on the simplex.

        A quadratic extrapolation was tried: it saves 1 % of the factorisations, which is not worth its state.
        """
        if self.weights is None or self.before is None:
            return self.weights
        ahead = np.where(self.weights > 0, np.maximum(2.0 * self.weights - self.before, 0.0), 0.0)
        total = ahead.sum()
        return ahead / total if total > 0 else self.weights


def first_kernel(problem: Problem) -> tuple[int, Array]:
    """Lemma 5: the kernel that is left for alpha -> infinity, and ``A_m = s_m y' N^-1 K_m N^-1 y``."""
    scores = problem.quadratic_forms(problem.targets / problem.noise)
    return int(np.argmax(scores)), scores


def infinite_alpha(problem: Problem) -> tuple[Array, Array]:
    """Weights and dual coefficients in the limit alpha -> infinity (f = 0)."""
    weights = np.zeros(problem.n_kernels)
    weights[first_kernel(problem)[0]] = 1.0
    return weights, np.zeros_like(problem.targets)


@dataclass
class _Iterate:
    """Weights with everything that was computed at them."""

    weights: Array
    system: RidgeSystem
    C: Array
    watched: Index
    V: Array
    forms: Array  # of the watched kernels
    primal: float = 0.0
    residual: float = 0.0  # 1/2 r' N^-1 r
    level: float = 0.0  # c' K(d) c
    held: float = (
        0.0  # largest form of the watched kernels as they are held, without what truncation leaves out
    )

    def gap(self, alpha: float, largest: float) -> float:
        """Certificate when the largest quadratic form is `largest`; never below zero."""
        return max(0.0, self.residual + 0.5 * alpha * (largest - self.level))

    def rounding(self, problem: Problem, alpha: float, forms: Array) -> float:
        """What rounding may hide in objective and gap, given the forms of all kernels."""
        return rounding_bound(
            problem, alpha, self.weights, self.C, forms, primal=self.primal, residual=self.residual
        )


def _evaluate(
    problem: Problem, alpha: float, weights: Array, watched: Index, work: Workspace | None
) -> _Iterate:
    """Solve (13) at `weights` and compute the quadratic forms of the watched kernels (a superset of the active)."""
    system = problem.system(weights, alpha, work)
    Y, noise = problem.targets, problem.noise
    C = np.ascontiguousarray(system.solve(Y.T).T)
    V = problem.matvecs(C, watched)
    own = weights[watched]
    fitted = np.tensordot(own, V, 1)
    r = Y - fitted - alpha * noise * C
    if math.sqrt(float(np.vdot(r, r))) > 1e-9 * math.sqrt(float(np.vdot(Y, Y))):
        # one step of iterative refinement: tiny alpha costs digits in the solve
        C = np.ascontiguousarray(C + system.solve(r.T).T)
        V = problem.matvecs(C, watched)
        fitted = np.tensordot(own, V, 1)
        r = Y - fitted - alpha * noise * C
    plain = np.einsum("kti,ti->k", V, C)
    residual_trace = problem.gram.residual_trace[watched]
    forms = plain
    if residual_trace.any():
        forms = plain + problem.scale[watched] * residual_trace * float(np.vdot(C, C))
    level = float(own @ plain)
    error = Y - fitted
    return _Iterate(
        weights=weights,
        system=system,
        C=C,
        watched=watched,
        V=V,
        forms=forms,
        primal=0.5 * float(np.sum(np.square(error) / noise)) + 0.5 * alpha * level,
        residual=0.5 * float(np.sum(np.square(r) / noise)),
        level=level,
        held=float(plain.max()),
    )


def _curvature(it: _Iterate) -> Array:
    """``B = sum_t V_t' Q^-1 V_t`` over the watched kernels: the Hessian of Problem 6 is alpha * B."""
    total = it.system.inner(it.V[:, 0].T)
    for t in range(1, it.V.shape[1]):
        total = total + it.system.inner(it.V[:, t].T)
    return total


def _newton_weights(it: _Iterate, B: Array, *, plain: bool) -> Array:
    """Minimise the local quadratic model of Problem 6 over the simplex of the watched kernels.

    The plain model has gradient -q/2. The default uses ``q (sqrt(q / level) - 1)``, Newton's method for the
    equations ``q_m^(-1/2) = const``, which agrees to first order at the solution, is exact for kernels that do
    not interact, and takes longer steps far from it.
    """
    own = it.weights[it.watched]
    q = np.maximum(it.forms, 0.0)
    # rounding may leave nothing, or less, of the level
    level = max(it.level, np.finfo(float).eps * float(q.max()), np.finfo(float).tiny)
    drive = 0.5 * (q - level) if plain else q * (np.sqrt(q / level) - 1.0)
    H = B.copy()
    # proximal, centred at the current weights, so it does not move the solution; duplicated kernels need it
    H.flat[:: len(H) + 1] += 1e-12 * np.trace(B) / len(B) + np.finfo(float).tiny
    x = own.copy()
    core.simplex_qp(H, -drive - H @ own, x, 1e-13, 20 * len(x) + 100)
    weights = np.zeros_like(it.weights)
    weights[it.watched] = x / x.sum()
    return weights


def _watch(problem: Problem, weights: Array, forms: Array, level: float) -> Index:
    """Active kernels and those nearest to becoming active; fewer of those that cost n^2 a product."""
    most = min(WATCH_MOST, len(forms))
    near = np.argpartition(-forms, most - 1)[:most]
    near = near[forms[near] >= WATCH_SHARE * level]
    near = near[np.argsort(-forms[near], kind="stable")]
    dense = problem.gram.ranks[near] < 0
    near = near[~dense | (np.cumsum(dense) <= WATCH_DENSE)]
    return np.union1d(np.flatnonzero(weights > 0), near)


def gap_safe(problem: Problem, alpha: float, forms: Array, gap: float) -> NDArray[np.bool_]:
    """Kernels that have weight zero in every solution, by the gap-safe sphere test.

    The dual is strongly concave, so its solution lies within ``radius^2 = 2 gap max(w) / alpha^2`` of c, and each
    ``sqrt(q_m)`` changes by at most ``sqrt(s_m lambda_max(K_m)) radius`` on the way. A kernel whose largest possible
    form is below the smallest possible maximum cannot be active.

    Parameters
    ----------
    forms : array of shape (n_kernels,)
        Quadratic forms at c, or upper bounds of them.
    gap : float
        Certified gap at c, in units of the objective.
    """
    radius = math.sqrt(2.0 * gap / float(problem.noise.min())) / alpha
    roots = np.sqrt(np.maximum(forms, 0.0))
    reach = np.sqrt(problem.scale * problem.gram.norm_bound) * radius
    return roots + reach < float((roots - reach).max())


def _all_forms(
    problem: Problem,
    it: _Iterate,
    warm: WarmStart,
    *,
    screen: bool,
    excluded: NDArray[np.bool_] | None = None,
) -> tuple[Array, float]:
    """Quadratic forms of all kernels at ``it.C``, and the largest of those that can matter.

    A kernel is not evaluated when it is `excluded` (gap-safe), or when ``|t| sqrt(q_ref) + sqrt(s_m lambda_max(K_m))
    ||c - t c_ref||``, a bound of ``sqrt(q)`` by the triangle inequality in the seminorm of K_m, shows that its form
    lies below the largest watched one. Then the bound stands for it, or for excluded ones the last known value.
    """
    n_kernels = problem.n_kernels
    bound = np.full(n_kernels, np.inf)
    if warm.reference is not None and warm.roots is not None:
        ref = warm.reference
        t = float(np.vdot(it.C, ref)) / float(np.vdot(ref, ref))
        distance = float(np.linalg.norm(it.C - t * ref))
        reach = np.sqrt(problem.scale * problem.gram.norm_bound) * distance
        bound = np.square(abs(t) * warm.roots + reach)
    forms = bound.copy()
    forms[it.watched] = it.forms
    need = bound > it.forms.max() if screen else np.ones(n_kernels, dtype=bool)
    need[it.watched] = False
    out = np.zeros(n_kernels, dtype=bool)
    if screen and excluded is not None:
        out = excluded & np.isfinite(bound)
        out[it.watched] = False
        need &= ~out
    if 2 * np.count_nonzero(need) > n_kernels - len(it.watched):
        # most are needed: take all, so that they become the new reference
        need = ~out
        need[it.watched] = False
        warm.reference = it.C
    rest = np.flatnonzero(need)
    warm.n_screened += n_kernels - len(rest) - len(it.watched)
    forms[rest] = problem.quadratic_forms(it.C, None if len(rest) == n_kernels else rest)
    if warm.reference is it.C:
        warm.n_full_passes += 1
        warm.roots = np.sqrt(np.maximum(forms, 0.0))
    largest = float(max(it.forms.max(), forms[rest].max(initial=-np.inf)))
    if out.any() and warm.forms is not None:
        forms[out] = np.minimum(forms[out], warm.forms[out])
    return forms, largest


def solve_newton(
    problem: Problem,
    alpha: float,
    *,
    tol: float,
    max_iter: int,
    warm: WarmStart,
    callback: Callback | None = None,
    screen: bool = True,
) -> tuple[_Iterate, Certificate, int, dict[str, list[float]]]:
    """Active-set Newton on Problem 6.

    Returns the best iterate, its certificate, iterations and history.
    """
    weights = warm.predict()
    if weights is None or warm.forms is None:
        start, scores = first_kernel(problem)
        warm.forms = scores
        if weights is None:
            weights = np.zeros(problem.n_kernels)
            weights[start] = 1.0
    level = float(weights @ warm.forms)
    watched = _watch(problem, weights, warm.forms, level)

    history: dict[str, list[float]] = {"objective": [], "rel_gap": [], "n_active": []}
    status, gap, rounding = Status.MAX_ITER, math.inf, 0.0
    # what the gap must reach so that it stays within tol with its rounding
    aim = tol
    best: _Iterate | None = None
    previous: tuple[_Iterate, Array] | None = None  # iterate and curvature that led to the current weights
    excluded = np.zeros(problem.n_kernels, dtype=bool)
    halvings = stalled = 0
    n_iter = 0
    it: _Iterate | None = None
    best_gap = math.inf
    while n_iter < max_iter:
        n_iter += 1
        try:
            it = _evaluate(problem, alpha, weights, watched, warm.work)
        except NotPositiveDefinite:
            status = Status.STALLED
            break
        gap = it.gap(alpha, float(it.forms.max()))
        slack = 1e-13 * abs(it.primal)
        if previous is not None and it.primal > previous[0].primal + slack and gap > aim * it.primal:
            # the step was too long: shorten it, then fall back to the plain Newton model
            halvings += 1
            old, B = previous
            if halvings == 3:
                weights = _newton_weights(old, B, plain=True)
            elif halvings > 40:
                status = Status.STALLED
                break
            else:
                weights = 0.5 * (old.weights + weights)
            continue
        halvings = 0
        # a lone watched kernel leaves nothing to improve, however far rounding keeps its gap from tol
        settled = it.gap(alpha, it.held) <= aim * it.primal
        if settled or len(watched) == 1 or stalled == 3:
            forms, largest = _all_forms(problem, it, warm, screen=screen, excluded=excluded)
            warm.forms = forms
            gap = it.gap(alpha, largest)
            if gap <= aim * it.primal and excluded.any():
                # the gap of the kernels left certifies the solution; the one reported looks at every kernel
                forms, largest = _all_forms(problem, it, warm, screen=screen)
                warm.forms, gap = forms, it.gap(alpha, largest)
            if gap <= aim * it.primal:
                rounding = it.rounding(problem, alpha, forms)
                aim = min(aim, max(tol - relative_gap(it.primal, rounding), LEAST_SHARE * tol))
                settled = gap <= aim * it.primal
            else:
                if screen:
                    excluded |= gap_safe(problem, alpha, forms, gap)
                grown = np.union1d(_watch(problem, it.weights, forms, it.level), it.watched)
                if len(grown) > len(it.watched):
                    watched, settled = grown, False
                    it.watched = watched
                    it.V = problem.matvecs(it.C, watched)
                    it.forms = forms[watched]
                    # gaps so far were over fewer kernels
                    best_gap, stalled = math.inf, 0
        history["objective"].append(it.primal)
        history["rel_gap"].append(relative_gap(it.primal, gap))
        history["n_active"].append(float(np.count_nonzero(it.weights)))
        if settled and gap <= aim * it.primal:
            status = Status.CONVERGED
            best, best_gap = it, gap
            break
        if settled:
            status = Status.TRUNCATED
            best, best_gap = it, gap
            break
        if gap < best_gap * 0.999:
            best, best_gap, stalled = it, gap, 0
        else:
            stalled += 1
            if stalled > (15 if aim == tol else 3):
                status = Status.STALLED
                break
        if callback is not None and callback(n_iter, it.primal, relative_gap(it.primal, gap)):
            status = Status.INTERRUPTED
            break
        B = _curvature(it)
        previous = (it, B)
        weights = _newton_weights(it, B, plain=False)
    if best is None:
        if it is None:
            raise problem.too_small(alpha)
        best = it
    if status is not Status.CONVERGED:
        forms, largest = _all_forms(problem, best, warm, screen=False)
        warm.forms = forms
        best_gap = best.gap(alpha, largest)
        rounding = best.rounding(problem, alpha, forms)
    warm.before, warm.weights = warm.weights, best.weights
    certificate = Certificate.of("joint", best.primal, best_gap, rounding, status, tol=tol)
    return best, certificate, n_iter, history


@checked
def solve_rls2(
    gram: Gram | ArrayLike,
    y: Annotated[ArrayLike, Floats((1, 2))],
    alpha: Strength,
    *,
    tol: Tol = 1e-6,
    solver: Annotated[str, OneOf(*SOLVERS)] = "newton",
    sample_weight: RowWeights = None,
    scale: Scale = None,
    shared_weights: Annotated[bool, Flag()] = True,
    weights0: Start = None,
    max_iter: MaxIter = None,
    delta: Annotated[float, Number(above=0, below=1, remedy="It is a relative residual.")] = 1e-2,
    linear_solver: Annotated[str, OneOf(*LINEAR_SOLVERS)] = "auto",
    relax: Annotated[float | None, Number(above=0, infinite=True) | None] = None,
    callback: Annotated[Callback | None, Function() | None] = None,
) -> Solution:
    """Solve RLS2, least squares with learnt kernel weights, and certify the solution.

    Minimises over d on the simplex and c

        1/2 ||y - K(d) c||^2 + alpha/2 c' K(d) c ,     K(d) = sum_m d_m s_m K_m .

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last. Not modified.
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        Targets. There is no intercept: subtract it beforehand.
    alpha : float
        Regularisation strength > 0, in units of the kernels; ``inf`` gives f = 0.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``. Dimensionless. Used by ``solver="newton"``.
    solver : {"newton", "alternating"}, default="newton"
        Active-set Newton on Problem 6, or Algorithm 1 of the paper with its residual rule.
    sample_weight : array of shape (n_samples,), optional
        Weights w >= 0: the loss becomes ``1/2 sum_i w_i (y_i - f_i)^2``. A weight equals a repetition; rows of
        weight 0 take no part.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    shared_weights : bool, default=True
        With several outputs: one set of weights for all (the objectives are added), or one for each.
    weights0 : array of shape (n_kernels,), optional
        Starting weights on the simplex. Default: Lemma 5.
    max_iter : int, optional
        Default: 200 factorisations (newton) or 50000 rounds (alternating, as in the paper).
    delta : float, default=1e-2
        ``solver="alternating"`` only: stop when ``||(K(d) + alpha I) c - y|| <= delta ||y||``.
    linear_solver : {"auto", "cholesky", "cg"}, default="auto"
        ``solver="alternating"`` only: how (13) is solved; "cg" stops at the relative residual `delta`.
    relax : float, optional
        Another strength > 0: weights are those of `alpha`, ``dual_coef`` is ridge regression with ``K(d)`` at `relax`.
        One more factorisation.
    callback : callable, optional
        ``callback(n_iter, objective, rel_gap)`` after every iteration; a true value stops the solver.

    Returns
    -------
    Solution
        Weights on the simplex, ``dual_coef`` with ``f = K(d) @ dual_coef``, ``primal``, ``dual``, ``gap`` in
        units of the objective, ``status``. Non-convergence is reported in ``status``, never raised. With `relax` a
        `RelaxedSolution`, which adds ``ridge_primal`` and ``ridge_gap``.

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, alpha <= 0, unknown names.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    Newton costs a factorisation, n^3 / 3, and one pass over the active kernels per iteration, and one or two
    passes over all kernels per call; typically 3 to 8 iterations. The weights are unique only if the active
    ``K_m c`` are affinely independent; the objective and f always are.

    References
    ----------
    F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv 1001.2709: Problems 5 to 7,
    equation (13), Lemmas 3 to 5, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_rls2
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> gram = X[:, None, :] * X[None, :, :]          # one linear kernel per feature
    >>> result = solve_rls2(gram, X[:, 0] - X[:, 2], alpha=1.0)
    >>> np.flatnonzero(result.weights > 0.05)
    array([0, 2])
    >>> result.rel_gap <= 1e-6
    True
    """
    problem, single = make_problem(gram, y, sample_weight, scale)
    start = None if weights0 is None else check_simplex(weights0, problem.n_kernels)

    def solve(part: Problem) -> Solution:
        if solver == "newton":
            return newton_result(
                part,
                alpha,
                tol=tol,
                max_iter=200 if max_iter is None else max_iter,
                warm=WarmStart(weights=start),
                callback=callback,
            )
        from kernelweave.mkl.steps.alternating import solve_alternating

        return solve_alternating(
            part,
            alpha,
            delta=delta,
            weights0=start,
            max_iter=50_000 if max_iter is None else max_iter,
            linear_solver=linear_solver,
            callback=callback,
        )

    with blas_threads_for(problem.gram.n_samples):
        if shared_weights or len(problem.targets) == 1:
            result = solve(problem)
        else:
            result = join_outputs([solve(part) for part in problem.parts()])
        if relax is not None:
            from kernelweave.mkl.relaxed import relax_result

            result = relax_result(problem.parts() if result.weights.ndim == 2 else [problem], result, relax)
    result = problem.for_all_rows(result)
    return squeeze(result) if single else result


def newton_result(
    problem: Problem,
    alpha: float,
    *,
    tol: float,
    max_iter: int,
    warm: WarmStart,
    callback: Callback | None = None,
) -> Solution:
    """Run `solve_newton` (or take the limit for infinite alpha) and wrap it up; dual_coef is (n, n_outputs)."""
    if math.isinf(alpha) or not problem.targets.any():
        weights, C = infinite_alpha(problem)
        return null_result(problem, alpha, weights, C, tol)
    it, certificate, n_iter, history = solve_newton(
        problem, alpha, tol=tol, max_iter=max_iter, warm=warm, callback=callback
    )
    return Solution(
        weights=it.weights,
        dual_coef=it.C.T,
        intercept=0.0,
        certificate=certificate,
        n_iter=n_iter,
        alpha=alpha,
        trace={k: np.asarray(v) for k, v in history.items()},
    )


def null_result(problem: Problem, alpha: float, weights: Array, C: Array, tol: float) -> Solution:
    """The result for f = 0: nothing is left to the solver but the rounding of one sum."""
    value = problem.null_value()
    rounding = np.finfo(np.float64).eps * math.sqrt(problem.targets.size + 8) * value
    certificate = Certificate.of("joint", value, 0.0, rounding, Status.CONVERGED, tol=tol)
    return Solution(weights, C.T, 0.0, certificate, 1, alpha=alpha)


def check_simplex(weights: ArrayLike, n_kernels: int) -> Array:
    """Return starting weights after checking that they lie on the simplex."""
    array = as_floats(weights, "weights0")
    if array.shape != (n_kernels,):
        raise InputError(
            f"`weights0` must have one entry per kernel (n_kernels={n_kernels}), got shape {array.shape}."
        )
    if not (array >= 0).all() or not abs(array.sum() - 1.0) < 1e-6:
        raise InputError("`weights0` must be nonnegative and sum to 1. Divide it by its sum.")
    return array / array.sum()


def squeeze(result: Solution) -> Solution:
    """The result of a single output, with coefficients in one dimension."""
    return replace(result, dual_coef=np.ascontiguousarray(result.dual_coef[:, 0]))


def join_outputs(parts: list[Solution]) -> Solution:
    """One result from one solution per output; certificates add up."""
    return Solution(
        weights=np.stack([part.weights for part in parts]),
        dual_coef=np.hstack([part.dual_coef for part in parts]),
        intercept=0.0,
        certificate=Certificate.total([part.certificate for part in parts]),
        n_iter=sum(part.n_iter for part in parts),
        alpha=parts[0].alpha,
    )
