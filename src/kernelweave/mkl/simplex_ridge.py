"""Margin MKL over the simplex with a ridge on the weights: its bound, and Newton's method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelweave._types import Array
from kernelweave.mkl.kernel_problem import FINEST, LOOSEST, KernelProblem, Point, Session, inner_tol
from kernelweave.mkl.weight_sets import Simplex
from kernelweave.results import Certificate, Solution, Status, WarmStart, relative_gap

#: Most iterations, those without progress, rejected steps in a row, and those of them that are halved.
NEWTON_MOST, PATIENCE, MOST_REJECTED, HALVED = 200, 20, 40, 2
TINY = float(np.finfo(np.float64).tiny)


def spread(quadratic_forms: Array, ridge: float) -> Array:
    """``min over d on the simplex of  ridge |d|^2 - 1/2 <d, q>``, for every row of q.

    Rows are in descending order, and their first entry is zero.
    """
    x = quadratic_forms / (4.0 * ridge)
    sums = np.cumsum(np.maximum(x, -2.0), axis=1)
    number = np.arange(1, x.shape[1] + 1)
    held = x * number > sums - 1.0
    size = held.sum(axis=1)
    shift = (sums[np.arange(len(x)), size - 1] - 1.0) / size
    squares = np.where(held, np.square(np.maximum(x, -2.0)), 0.0).sum(axis=1)
    return -ridge * (squares - size * np.square(shift))


def solve_ridge(problem: KernelProblem, ridge: float, tol: float, warm: WarmStart) -> Solution:
    """Newton on ``J(d) + ridge |d|^2`` over the simplex.

    The Hessian is that of J while the free rows are the same, plus ``2 ridge``. A step that does not lower the value is
    halved, and then damped. The gap is that of the machine and

        ridge |d|^2 - 1/2 <d, q> - min over d' of (ridge |d'|^2 - 1/2 <d', q>) .
    """
    session = Session(problem, tol, warm)
    every = np.arange(problem.n_kernels)
    weights, b = session.start(), warm.dual_coef
    model: Model | None = None
    best: tuple[float, float, Point] | None = None
    inner, damping, rejected, idle = LOOSEST, 0.0, 0, 0
    status = Status.MAX_ITER
    for _ in range(NEWTON_MOST):
        at = session.solve(weights, inner, b)
        machine = at.machine
        b = machine.dual_coef
        value = machine.primal + ridge * float(weights @ weights)
        if model is not None and value - machine.own_gap > model.value + 1e-14 * abs(model.value):
            rejected += 1
            if rejected > MOST_REJECTED:
                status = Status.STALLED
                break
            if rejected <= HALVED:
                weights = 0.5 * (model.weights + weights)
            else:
                damping = min(max(100.0 * damping, 1e-6), 1e6)
                weights = model.step(damping)
            continue
        rejected, damping = 0, 0.1 * damping if damping > 1e-10 else 0.0
        q = problem.quad(b)
        outer = _outer(weights, q, ridge)
        gap = machine.own_gap + outer
        idle = 0 if best is None or gap < 0.9 * best[0] else idle + 1
        if best is None or gap < best[0]:
            best = (gap, value, at)
        if gap <= tol * abs(value) or idle > PATIENCE:
            status = Status.CONVERGED if gap <= tol * abs(value) else Status.STALLED
            break
        inner = max(inner_tol(relative_gap(value, outer), tol) * 0.1**idle, FINEST)
        if machine.own_gap > outer:
            # the remaining gap is that of the machine
            if machine.status in (Status.STALLED, Status.ROUNDING):
                status = machine.status
                break
            inner = min(inner, 0.1 * relative_gap(machine.primal, machine.own_gap))
        hessian = session.machine.curvature(session.kernel, b, problem.products(b, every))
        hessian.flat[:: len(hessian) + 1] += 2.0 * ridge
        model = Model(value, weights, 2.0 * ridge * weights - 0.5 * q, hessian)
        weights = model.step(damping)
    assert best is not None
    gap, value, at = best
    q = problem.quad(at.machine.dual_coef)
    error = problem.quad_error(at.machine.dual_coef, q)
    rounding = at.machine.rounding + 0.5 * (float(error.max()) + float(at.weights @ error))
    return Solution(
        weights=at.weights,
        dual_coef=at.machine.dual_coef,
        intercept=at.machine.intercept,
        certificate=Certificate.of("joint", value, gap, rounding, status, tol=tol),
        n_iter=session.n_machines,
        n_machines=session.n_machines,
    )


@dataclass(frozen=True)
class Model:
    """Value, gradient and Hessian at weights of the simplex."""

    value: float
    weights: Array
    gradient: Array
    hessian: Array

    def step(self, damping: float) -> Array:
        """The minimiser of the quadratic model with a damping share of its size on the diagonal."""
        H, size = self.hessian.copy(), float(np.abs(self.gradient).max())
        H.flat[:: len(H) + 1] += damping * max(float(np.trace(H)) / len(H), size)
        x = Simplex().newton(H, self.gradient - H @ self.weights, self.weights, max(size, TINY))
        total = float(np.maximum(x, 0.0).sum())
        return np.maximum(x, 0.0) / total if np.isfinite(total) and total > 0.0 else self.weights


def _outer(weights: Array, q: Array, ridge: float) -> float:
    """Largest gain of other weights at these quadratic forms."""
    top = float(q.max())
    least = float(spread(-np.sort(top - q)[None], ridge)[0]) - 0.5 * top
    return max(0.0, ridge * float(weights @ weights) - 0.5 * float(weights @ q) - least)
