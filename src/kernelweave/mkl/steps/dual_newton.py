"""Newton on the coefficients over an Lp ball, where the best weights of given coefficients have a formula.

With the dual norm sigma of the ball the problem in the coefficients alone is

    min_b  1/2 sigma(q(b)) - dual_term(b) ,    q_m(b) = s_m b'K_m b ,

whose second derivative is ``K(d) + 2 sum_ml v_m (dd_m / dq_l) v_l'`` with ``v_m = s_m K_m b`` and the best weights d.
As ``1/2 sigma(q(b))`` is homogeneous of degree 2, this matrix times b is the first derivative ``K(d) b``: the quadratic
model is that of the same machine on the matrix H in place of K(d). So each iteration solves one machine, and
converges quadratically once the free rows do not change.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from kernelweave._types import Array
from kernelweave.machines.box import Trained
from kernelweave.mkl.kernel_problem import FINEST, LOOSEST, KernelProblem, MarginStep, Point, Session
from kernelweave.mkl.loop import Limits, Look, Loop, Moves
from kernelweave.mkl.weight_sets import LpBall
from kernelweave.results import Status

#: Gap of the machine at the first weights, and share of the square of the gap to which the others are solved.
FIRST_TOL = 1e-2
INNER_SHARE = 0.1
#: Below this tolerance the gap without rounding errors must be smaller by the second number, if steps still make it ten
#: times smaller: the last step, which doubles the digits, is taken as well.
SHARP_BELOW, SHARPER = 1e-6, 1e-3
#: Iterations without progress after which the closed form continues.
PATIENCE = 3
#: Kernels below this share of the dual norm, and directions below this share of the largest, have no curvature.
NEGLIGIBLE = 1e-14
#: Values of the objective that differ by less than this share count as equal.
EQUAL = 1e-13


class DualNewton(MarginStep):
    """One machine in each iteration, on the kernel with the curvature of the weights."""

    fits = LpBall

    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        """Machines from the coefficients before."""
        loop.limits = Limits(idle=PATIENCE)
        problem, machine = session.problem, session.problem.machine
        ball, tol = problem.weight_set, session.tol
        assert isinstance(ball, LpBall)
        sharp = tol * SHARPER if tol < SHARP_BELOW else tol
        last = math.inf
        b = session.solve(session.start(), FIRST_TOL, session.warm.dual_coef).machine.dual_coef
        V = problem.products(b)
        level = objective(problem, b, V)
        while True:
            weights = ball.best(problem.quad_of(b, V))
            values = machine.values(b, weights @ V)
            way = Trained(b, values.intercept, values.primal, values.gap, 0.0, Status.STALLED)
            at = Point(weights, way)
            enough = values.gap <= problem.allowed_gap(at, sharp)
            slow, last = values.gap > 0.1 * last, values.gap
            if enough or (slow and values.gap <= problem.allowed_gap(at, tol)):
                # the certificate is that of the machine at these weights
                at = session.solve(weights, tol, b)
                b = at.machine.dual_coef
                V = problem.products(b)
                level, q = objective(problem, b, V), problem.quad_of(b, V)
                gap = at.machine.own_gap + 0.5 * max(0.0, ball.support(q) - float(weights @ q))
                arrived = Status.CONVERGED if gap <= problem.allowed_gap(at, tol) else None
                yield Look(at, at.machine.primal, gap, at.n_active, arrived)
                if at.machine.status in (Status.STALLED, Status.ROUNDING):
                    return at.machine.status
                weights = ball.best(q)
            else:
                yield Look(at, values.primal, values.gap, at.n_active)
            H = session.combine_with(weights, _curvature(ball, problem.quad_of(b, V), V))
            share = values.gap / abs(values.primal)
            inner = float(
                np.clip(INNER_SHARE * min(share, share**2 / FIRST_TOL), max(FINEST, 0.1 * sharp), LOOSEST)
            )
            session.n_machines += 1
            found = machine.solve(H, tol=inner, warm_start=b).dual_coef
            W = problem.products(found)
            t, level = step_size(problem, b, found, V, W, level)
            b, V = (found, W) if t == 1.0 else (b + t * (found - b), V + t * (W - V))


def _curvature(ball: LpBall, q: Array, V: Array) -> Array:
    """Rows U with ``U'U = 2 sum_ml v_m (dd_m / dq_l) v_l'``, at most one for each kernel."""
    size = ball.support(q)
    if size <= 0.0:
        return np.empty((0, V.shape[1]))
    share, power = np.maximum(q, 0.0) / size, 1.0 / (ball.p - 1.0)
    used = share > NEGLIGIBLE
    x = share[used]
    d = x**power
    values, vectors = np.linalg.eigh(2.0 * power / size * (np.diag(x ** (power - 1.0)) - np.outer(d, d)))
    kept = values > NEGLIGIBLE * float(values.max(initial=0.0))
    return (np.sqrt(values[kept]) * vectors[:, kept]).T @ V[used]


def objective(problem: KernelProblem, b: Array, V: Array) -> float:
    """What is minimised, of coefficients and the products of all kernels with them."""
    return 0.5 * problem.weight_set.support(problem.quad_of(b, V)) - problem.machine.dual_term(b)


def step_size(
    problem: KernelProblem, b: Array, end: Array, V: Array, W: Array, first: float
) -> tuple[float, float]:
    """Where the objective, at first that of b, is lowest on the way to `end`, and its value; 1 if not larger there."""

    def value(t: float) -> float:
        return objective(problem, b + t * (end - b), V + t * (W - V))

    last = objective(problem, end, W)
    if last <= first + EQUAL * abs(first):
        return 1.0, last
    least = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9})
    return float(least.x), float(least.fun)
