"""Algorithm 1 of P1, as published: alternate between the coefficients (13) and the weights (Problem 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from kernelweave._checks import InputError, check_known
from kernelweave._loops import core
from kernelweave.machines.ridge import NotPositiveDefinite
from kernelweave.mkl.loop import Callback, Limits, Look, Loop, Moves, SessionOf, Step, minimise
from kernelweave.mkl.ridge_problem import RidgeProblem, infinite_alpha, null_result
from kernelweave.results import Certificate, Solution, Status

Array = NDArray[np.float64]

LINEAR_SOLVERS = ("auto", "cholesky", "cg")
#: Rows up to which a Cholesky factor replaces conjugate gradients under ``linear_solver="auto"``.
CHOLESKY_ROWS = 5000
#: Lemma 4: the objective falls in every round until rounding; smaller changes are rounding errors.
LIMITS = Limits(idle=50, smaller=0.0, lower=1e-15, names=("objective", "residual", "n_active"))


def conjugate_gradient(
    problem: RidgeProblem, weights: Array, alpha: float, y: Array, start: Array, delta: float
) -> Array:
    """Solve ``(K(weights) + alpha N) c = y`` to the relative residual `delta`; y and c are (n_samples,)."""
    scaled = weights * problem.scale

    def times(v: Array) -> Array:
        return problem.gram.matvec(scaled, v[None])[0] + alpha * problem.inverse_weights * v

    operator = LinearOperator((len(y), len(y)), times, dtype=np.float64)
    return cg(operator, y, x0=start, rtol=delta, atol=0.0, maxiter=10 * len(y))[0]


def solve_weights(V: Array, target: Array, weights: Array, *, tol: float = 1e-9) -> Array:
    """Problem 7, ``min_d 1/2 ||V d - target||^2`` over the simplex, by two-coordinate descent (SMO).

    Parameters
    ----------
    V : array of shape (n_rows, n_kernels)
        Columns ``s_m K_m c``.
    target : array of shape (n_rows,)
        ``y - alpha N c / 2``.
    weights : array of shape (n_kernels,)
        Starting point on the simplex. Not modified.
    tol : float
        Largest violation of optimality, relative to the size of the gradient. (The author's toolbox uses an
        absolute one, which depends on the units of y.)
    """
    G = V.T @ V
    b = V.T @ target
    d = weights.copy()
    size = float(np.abs(b).max()) + float(np.abs(G).max())
    core.simplex_smo(np.ascontiguousarray(G), b, d, tol * size, 10_000, 20_000)
    return d / d.sum()


@dataclass(slots=True)
class Round:
    """The coefficients of some weights, and the best weights for them, all outputs as rows.

    Attributes
    ----------
    weights, C, fitted : arrays
        New weights, coefficients of the old ones, and ``K(weights) C``.
    level, objective : float
        ``c' K(weights) c`` and the value of the pair.
    """

    weights: Array
    C: Array
    fitted: Array
    level: float
    objective: float


@dataclass
class AlternatingSession(SessionOf[Round]):
    """RLS2 at one regularisation parameter, ended by the residual rule.

    Attributes
    ----------
    problem : RidgeProblem
    alpha, delta : float
    weights : array of shape (n_kernels,)
        The start.
    """

    problem: RidgeProblem
    alpha: float
    delta: float
    weights: Array

    def result(self, at: Round, status: Status, loop: Loop[Round]) -> Solution:
        """The solution with the certificate of weights and coefficients, which the rule does not use."""
        problem, alpha, C = self.problem, self.alpha, at.C
        N = problem.inverse_weights
        quadratic_forms = problem.quad(C)
        r = problem.targets - at.fitted - alpha * N * C
        left = 0.5 * float(np.sum(np.square(r) / N))
        rounding = problem.rounding_bound(
            alpha, at.weights, C, quadratic_forms, primal=at.objective, residual=left
        )
        own = max(0.0, left + 0.5 * alpha * (float(quadratic_forms.max()) - at.level))
        return Solution(
            weights=at.weights,
            dual_coef=C.T,
            intercept=0.0,
            certificate=Certificate.of("joint", at.objective, own, rounding, status),
            n_iter=loop.n_iter,
            alpha=alpha,
            trace=loop.arrays(),
        )


@dataclass
class Alternating(Step[AlternatingSession, Round]):
    """Rounds of coefficients and weights.

    Attributes
    ----------
    linear_solver : {"auto", "cholesky", "cg"}
    """

    linear_solver: str = "auto"

    def moves(self, session: AlternatingSession, loop: Loop[Round]) -> Moves[Round]:
        """One solution of (13) and one of Problem 7 each."""
        loop.limits = LIMITS
        problem, alpha, delta, weights = session.problem, session.alpha, session.delta, session.weights
        Y, N = problem.targets, problem.inverse_weights
        norm = float(np.linalg.norm(Y))
        everything = np.arange(problem.n_kernels)
        direct = self.linear_solver == "cholesky" or (
            self.linear_solver == "auto" and problem.gram.n_samples <= CHOLESKY_ROWS
        )
        # the loss is weighted by 1/N, so Problem 7 is solved in whitened rows
        root = 1.0 / np.sqrt(N)
        C = np.zeros_like(Y)
        while True:
            if direct:
                try:
                    C = problem.system(weights, alpha).solve(Y.T).T
                except NotPositiveDefinite:
                    if loop.n_iter == 0:
                        raise problem.too_small(alpha) from None
                    yield None
                    return Status.STALLED
            else:
                C = np.stack(
                    [
                        conjugate_gradient(problem, weights, alpha, y, c, delta)
                        for y, c in zip(Y, C, strict=True)
                    ]
                )
            C = np.ascontiguousarray(C)
            V = problem.products(C, everything)
            rows = (V * root).reshape(problem.n_kernels, -1).T
            linear = ((Y - 0.5 * alpha * N * C) * root).reshape(-1)
            weights = solve_weights(rows, linear, weights)
            fitted = np.tensordot(weights, V, 1)
            level = float(weights @ np.einsum("kti,ti->k", V, C))
            objective = 0.5 * float(np.sum(np.square(Y - fitted) / N)) + 0.5 * alpha * level
            residual = float(np.linalg.norm(Y - fitted - alpha * N * C)) / norm
            at = Round(weights, C, fitted, level, objective)
            arrived = Status.RESIDUAL_RULE if residual <= delta else None
            yield Look(at, objective, residual, int(np.count_nonzero(weights)), arrived, left=residual)

    def result(self, session: AlternatingSession, loop: Loop[Round], status: Status) -> Solution:
        """The last round, as published."""
        assert loop.here is not None
        return session.result(loop.here.point, status, loop)


def solve_alternating(
    problem: RidgeProblem,
    alpha: float,
    *,
    delta: float = 1e-2,
    weights0: Array | None = None,
    max_iter: int = 50_000,
    linear_solver: str = "auto",
    callback: Callback | None = None,
) -> Solution:
    """Run Algorithm 1: Lemma 5 start, (13), Problem 7 by SMO, until the residual of (13) at the new weights is small.

    The rule ``||(K(d) + alpha I) c - y|| <= delta ||y||`` measures how much the last weight step changed the
    system; a loose delta stops early at small alpha. The certificate of the result bounds its error.
    If delta is below rounding, the objective stops decreasing and the status says so.
    """
    check_known(linear_solver, LINEAR_SOLVERS, "linear_solver")
    if not 0 < delta < 1:
        raise InputError(f"`delta` is a relative residual and must lie in (0, 1), got {delta!r}.")
    nothing = np.isinf(alpha) or not problem.targets.any()
    if nothing or weights0 is None:
        weights, C = infinite_alpha(problem)
        if nothing:
            return null_result(problem, alpha, weights, C, delta)
    else:
        weights = weights0.copy()
    session = AlternatingSession(problem, alpha, delta, weights)
    return minimise(session, [Alternating(linear_solver)], max_iter=max_iter, callback=callback)
