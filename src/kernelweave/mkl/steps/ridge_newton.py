"""Active-set Newton on Problem 6 of RLS2, the objective as a function of the kernel weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelweave._loops import core
from kernelweave._types import Array, Index
from kernelweave.machines.ridge import NotPositiveDefinite, RidgeSystem, Workspace
from kernelweave.mkl.loop import Callback, Limits, Look, Loop, Moves, SessionOf, Step, minimise
from kernelweave.mkl.ridge_problem import RidgeProblem, first_kernel, infinite_alpha, null_result
from kernelweave.results import Certificate, Solution, Status, relative_gap

#: Kernels whose quadratic form is at least this share of the active level are in the working set.
WORKING_SHARE = 0.6
#: Most kernels of the working set beyond the active ones.
WORKING_MOST = 40
#: Most of them that are stored without a factor.
WORKING_DENSE = 16
#: Share of tol below which a bound of rounding need not be sharp.
NEGLIGIBLE = 1e-6
#: Smallest share of tol for the solver, if rounding errors use the rest.
LEAST_SHARE = 0.1
#: Iterations without a smaller gap after which it is stopped, and after which kernels outside of the working set are
#: evaluated; the latter also end it if rounding uses a part of tol.
PATIENCE, SHORT_PATIENCE = 15, 3
#: Progress is a smaller gap; the trace has no rejected iterations.
LIMITS = Limits(idle=PATIENCE, smaller=0.999, lower=math.inf, repeats=False)


@dataclass(eq=False)
class RidgeStart:
    """The warm start from one alpha to the next along a path."""

    weights: Array | None = None
    before: Array | None = None  # the weights one alpha earlier, for the secant prediction
    quadratic_forms: Array | None = None  # quadratic forms of all kernels (bounds for screened ones)
    reference: Array | None = None  # c at which `roots` were computed
    roots: Array | None = None  # square roots of the quadratic forms at `reference`
    work: Workspace = field(default_factory=Workspace)
    n_screened: int = 0

    def predict(self) -> Array | None:
        """Weights extrapolated along the last step of the path, on the simplex.

        A quadratic extrapolation saves only 1 % of the factorisations, and is not used.
        """
        if self.weights is None or self.before is None:
            return self.weights
        ahead = np.where(self.weights > 0, np.maximum(2.0 * self.weights - self.before, 0.0), 0.0)
        total = ahead.sum()
        return ahead / total if total > 0 else self.weights


@dataclass(eq=False)
class _Iterate:
    """Weights with all numbers computed at them."""

    weights: Array
    system: RidgeSystem
    C: Array
    working: Index
    V: Array
    quadratic_forms: Array  # of the working kernels
    primal: float = 0.0
    residual: float = 0.0  # 1/2 r' N^-1 r
    level: float = 0.0  # c' K(d) c
    held: float = 0.0  # largest quadratic form of the working kernels as stored, without the truncation error
    #: Bound of rounding in objective and gap, once all quadratic forms are known.
    rounding: float | None = None

    def gap(self, alpha: float, largest: float) -> float:
        """Certificate when the largest quadratic form is `largest`; never below zero."""
        return max(0.0, self.residual + 0.5 * alpha * (largest - self.level))

    def bound_rounding(
        self, problem: RidgeProblem, alpha: float, quadratic_forms: Array, enough: float = 0.0
    ) -> float:
        """Bound of rounding in objective and gap, given the quadratic forms of all kernels."""
        values = {"primal": self.primal, "residual": self.residual, "enough": enough}
        self.rounding = found = problem.rounding_bound(alpha, self.weights, self.C, quadratic_forms, **values)
        return found


def _evaluate(
    problem: RidgeProblem, alpha: float, weights: Array, working: Index, work: Workspace | None
) -> _Iterate:
    """Solve (13) at `weights` and compute the quadratic forms of the working kernels (a superset of the active)."""
    system = problem.system(weights, alpha, work)
    Y, N = problem.targets, problem.inverse_weights
    C = np.ascontiguousarray(system.solve(Y.T).T)
    V = problem.products(C, working)
    own = weights[working]
    fitted = np.tensordot(own, V, 1)
    r = Y - fitted - alpha * N * C
    if math.sqrt(float(np.vdot(r, r))) > 1e-9 * math.sqrt(float(np.vdot(Y, Y))):
        # one step of iterative refinement: tiny alpha costs digits in the solve
        C = np.ascontiguousarray(C + system.solve(r.T).T)
        V = problem.products(C, working)
        fitted = np.tensordot(own, V, 1)
        r = Y - fitted - alpha * N * C
    plain = np.einsum("kti,ti->k", V, C)
    quadratic_forms = plain
    if problem.residual is not None:
        quadratic_forms = plain + problem.residual[working] * float(np.vdot(C, C))
    level = float(own @ plain)
    error = Y - fitted
    return _Iterate(
        weights=weights,
        system=system,
        C=C,
        working=working,
        V=V,
        quadratic_forms=quadratic_forms,
        primal=0.5 * float(np.sum(np.square(error) / N)) + 0.5 * alpha * level,
        residual=0.5 * float(np.sum(np.square(r) / N)),
        level=level,
        held=float(plain.max()),
    )


def _newton_weights(it: _Iterate, B: Array, *, plain: bool) -> Array:
    """Minimise the local quadratic model of Problem 6 over the simplex of the working kernels.

    The plain model has gradient -q/2. The default uses ``q (sqrt(q / level) - 1)``, Newton's method for the
    equations ``q_m^(-1/2) = const``, which agrees to first order at the solution, is exact for kernels that do
    not interact, and takes longer steps far from it.
    """
    own = it.weights[it.working]
    q = np.maximum(it.quadratic_forms, 0.0)
    # rounding may make the level zero or negative
    level = max(it.level, np.finfo(float).eps * float(q.max()), np.finfo(float).tiny)
    negative_gradient = 0.5 * (q - level) if plain else q * (np.sqrt(q / level) - 1.0)
    H = B.copy()
    # proximal, centred at the current weights, so it does not move the solution; duplicated kernels need it
    H.flat[:: len(H) + 1] += 1e-12 * np.trace(B) / len(B) + np.finfo(float).tiny
    x = own.copy()
    core.simplex_qp(H, -negative_gradient - H @ own, x, 1e-13, 20 * len(x) + 100)
    weights = np.zeros_like(it.weights)
    weights[it.working] = x / x.sum()
    return weights


def _working_set(problem: RidgeProblem, weights: Array, quadratic_forms: Array, level: float) -> Index:
    """Active kernels and those nearest to becoming active; fewer of those whose products cost n^2."""
    most = min(WORKING_MOST, len(quadratic_forms))
    near = np.argpartition(-quadratic_forms, most - 1)[:most]
    near = near[quadratic_forms[near] >= WORKING_SHARE * level]
    near = near[np.argsort(-quadratic_forms[near], kind="stable")]
    dense = problem.gram.ranks[near] < 0
    near = near[~dense | (np.cumsum(dense) <= WORKING_DENSE)]
    return np.union1d(np.flatnonzero(weights > 0), near)


def gap_safe(problem: RidgeProblem, alpha: float, quadratic_forms: Array, gap: float) -> NDArray[np.bool_]:
    """Kernels that have weight zero in every solution, by the gap-safe sphere test.

    The dual is strongly concave, so its solution lies within ``radius^2 = 2 gap max(w) / alpha^2`` of c, and each
    ``sqrt(q_m)`` changes by at most ``sqrt(s_m lambda_max(K_m)) radius`` on the way. A kernel whose largest possible
    quadratic form is below the smallest possible maximum cannot be active.

    Parameters
    ----------
    quadratic_forms : array of shape (n_kernels,)
        At c, or upper bounds of them.
    gap : float
        Certified gap at c, in units of the objective.
    """
    radius = math.sqrt(2.0 * gap / float(problem.inverse_weights.min())) / alpha
    roots = np.sqrt(np.maximum(quadratic_forms, 0.0))
    reach = np.sqrt(problem.scale * problem.gram.norm_bound) * radius
    return roots + reach < float((roots - reach).max())


def _all_quadratic_forms(
    problem: RidgeProblem,
    it: _Iterate,
    warm: RidgeStart,
    *,
    screen: bool,
    excluded: NDArray[np.bool_] | None = None,
) -> tuple[Array, float]:
    """Quadratic forms of all kernels at ``it.C``, and the largest of those that can matter.

    A kernel is not evaluated if it is `excluded` (gap-safe), or if ``|t| sqrt(q_ref) + sqrt(s_m lambda_max(K_m))
    ||c - t c_ref||``, a bound of ``sqrt(q)`` by the triangle inequality in the seminorm of K_m, shows that its form
    is below the largest working one. Then the bound is used, or for excluded ones the last known value.
    """
    n_kernels = problem.n_kernels
    bound = np.full(n_kernels, np.inf)
    if warm.reference is not None and warm.roots is not None:
        ref = warm.reference
        t = float(np.vdot(it.C, ref)) / float(np.vdot(ref, ref))
        distance = float(np.linalg.norm(it.C - t * ref))
        reach = np.sqrt(problem.scale * problem.gram.norm_bound) * distance
        bound = np.square(abs(t) * warm.roots + reach)
    quadratic_forms = bound.copy()
    quadratic_forms[it.working] = it.quadratic_forms
    need = bound > it.quadratic_forms.max() if screen else np.ones(n_kernels, dtype=bool)
    need[it.working] = False
    out = np.zeros(n_kernels, dtype=bool)
    if screen and excluded is not None:
        out = excluded & np.isfinite(bound)
        out[it.working] = False
        need &= ~out
    if 2 * np.count_nonzero(need) > n_kernels - len(it.working):
        # most are needed: evaluate all, so that they become the new reference
        need = ~out
        need[it.working] = False
        warm.reference = it.C
    rest = np.flatnonzero(need)
    warm.n_screened += n_kernels - len(rest) - len(it.working)
    quadratic_forms[rest] = problem.quad(it.C, None if len(rest) == n_kernels else rest)
    if warm.reference is it.C:
        warm.roots = np.sqrt(np.maximum(quadratic_forms, 0.0))
    largest = float(max(it.quadratic_forms.max(), quadratic_forms[rest].max(initial=-np.inf)))
    if out.any() and warm.quadratic_forms is not None:
        quadratic_forms[out] = np.minimum(quadratic_forms[out], warm.quadratic_forms[out])
    return quadratic_forms, largest


@dataclass(eq=False)
class RidgeSession(SessionOf[_Iterate]):
    """RLS2 at one regularisation parameter during its solution.

    Attributes
    ----------
    problem : RidgeProblem
    alpha, tol : float
    warm : RidgeStart
        Updated to the start of the next regularisation parameter.
    screen : bool
        Whether kernels that cannot matter are left out.
    """

    problem: RidgeProblem
    alpha: float
    tol: float
    warm: RidgeStart
    screen: bool = True

    def result(self, at: _Iterate, status: Status, loop: Loop[_Iterate]) -> Solution:
        """The solution with the gap over all kernels; coefficients have shape (n_samples, n_outputs)."""
        warm = self.warm
        assert loop.best is not None
        gap = loop.best.gap
        if status is not Status.CONVERGED or at.rounding is None:
            quadratic_forms, largest = _all_quadratic_forms(self.problem, at, warm, screen=False)
            warm.quadratic_forms, gap = quadratic_forms, at.gap(self.alpha, largest)
            at.bound_rounding(self.problem, self.alpha, quadratic_forms)
        assert at.rounding is not None
        warm.before, warm.weights = warm.weights, at.weights
        return Solution(
            weights=at.weights,
            dual_coef=at.C.T,
            intercept=0.0,
            certificate=Certificate.of("joint", at.primal, gap, at.rounding, status, tol=self.tol),
            n_iter=loop.n_iter,
            alpha=self.alpha,
            trace=loop.arrays(),
        )


class RidgeNewton(Step[RidgeSession, _Iterate]):
    """Newton on the kernels of a working set, which grows by kernels with a possible gain."""

    def moves(self, session: RidgeSession, loop: Loop[_Iterate]) -> Moves[_Iterate]:
        """One factorisation each, of many rows fewer."""
        loop.limits = LIMITS
        problem, alpha, tol = session.problem, session.alpha, session.tol
        warm, screen = session.warm, session.screen
        weights = warm.predict()
        if weights is None or warm.quadratic_forms is None:
            start, scores = first_kernel(problem)
            warm.quadratic_forms = scores
            if weights is None:
                weights = np.zeros(problem.n_kernels)
                weights[start] = 1.0
        level = float(weights @ warm.quadratic_forms)
        working = _working_set(problem, weights, warm.quadratic_forms, level)
        # required gap, so that it is within tol including rounding
        aim = tol
        previous: tuple[_Iterate, Array] | None = (
            None  # iterate and curvature from which the current weights follow
        )
        excluded = np.zeros(problem.n_kernels, dtype=bool)
        halvings = 0
        while True:
            try:
                it = _evaluate(problem, alpha, weights, working, warm.work)
            except NotPositiveDefinite:
                if previous is None:
                    raise problem.too_small(alpha) from None
                yield None
                return Status.STALLED
            gap = it.gap(alpha, float(it.quadratic_forms.max()))
            slack = 1e-13 * abs(it.primal)
            if previous is not None and it.primal > previous[0].primal + slack and gap > aim * it.primal:
                # the step was too long: shorten it, then fall back to the plain Newton model
                halvings += 1
                old, B = previous
                yield None
                if halvings > 40:
                    return Status.STALLED
                weights = (
                    _newton_weights(old, B, plain=True) if halvings == 3 else 0.5 * (old.weights + weights)
                )
                continue
            halvings = 0
            grew = False
            # a single working kernel cannot be improved, even if rounding keeps its gap above tol
            settled = it.gap(alpha, it.held) <= aim * it.primal
            if settled or len(working) == 1 or loop.idle == SHORT_PATIENCE:
                quadratic_forms, largest = _all_quadratic_forms(
                    problem, it, warm, screen=screen, excluded=excluded
                )
                warm.quadratic_forms = quadratic_forms
                gap = it.gap(alpha, largest)
                if gap <= aim * it.primal and excluded.any():
                    # the gap of the kernels left certifies the solution; the reported one includes every kernel
                    quadratic_forms, largest = _all_quadratic_forms(problem, it, warm, screen=screen)
                    warm.quadratic_forms, gap = quadratic_forms, it.gap(alpha, largest)
                if gap <= aim * it.primal:
                    enough = NEGLIGIBLE * tol * it.primal
                    rounding = it.bound_rounding(problem, alpha, quadratic_forms, enough)
                    aim = min(aim, max(tol - relative_gap(it.primal, rounding), LEAST_SHARE * tol))
                    settled = gap <= aim * it.primal
                else:
                    if screen:
                        excluded |= gap_safe(problem, alpha, quadratic_forms, gap)
                    grown = np.union1d(
                        _working_set(problem, it.weights, quadratic_forms, it.level), it.working
                    )
                    grew = len(grown) > len(it.working)
                    if grew:
                        working, settled = grown, False
                        it.working = working
                        it.V = problem.products(it.C, working)
                        it.quadratic_forms = quadratic_forms[working]
            status = None
            if settled:
                status = Status.CONVERGED if gap <= aim * it.primal else Status.TRUNCATED
            # gaps before the working set grew were over fewer kernels
            anew = grew or settled
            yield Look(it, it.primal, gap, int(np.count_nonzero(it.weights)), status, anew=anew)
            if aim < tol and loop.idle > SHORT_PATIENCE:
                return Status.STALLED
            # the Hessian of Problem 6 is alpha times this matrix
            B = np.sum([it.system.inner(it.V[:, t].T) for t in range(it.V.shape[1])], axis=0)
            previous = (it, B)
            weights = _newton_weights(it, B, plain=False)


def newton_result(
    problem: RidgeProblem,
    alpha: float,
    *,
    tol: float,
    max_iter: int,
    warm: RidgeStart,
    callback: Callback | None = None,
    screen: bool = True,
) -> Solution:
    """Newton, or the limit for infinite alpha; dual_coef is (n, n_outputs)."""
    if math.isinf(alpha) or not problem.targets.any():
        weights, C = infinite_alpha(problem)
        return null_result(problem, alpha, weights, C, tol)
    session = RidgeSession(problem, alpha, tol, warm, screen)
    return minimise(session, [RidgeNewton()], max_iter=max_iter, callback=callback)
