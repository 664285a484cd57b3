"""Some kernels of a stack for an interior point: its start, and the solution at its end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelweave.machines.loss import Sides
from kernelweave.mkl.kernel_problem import Index, KernelProblem, Point, Session
from kernelweave.mkl.steps.interior_system import State
from kernelweave.mkl.weight_sets import ShareSet
from kernelweave.results import relative_gap

Array = NDArray[np.float64]

#: Tolerance at which coefficients of the interior are kept for the machine.
LOOSE = 1e-2

#: Share of the box for both sides of the tube at the start.
OFFSET = 0.1


def set_of(problem: KernelProblem) -> ShareSet:
    """The set of weights of a problem, which is one of shares."""
    assert isinstance(problem.weight_set, ShareSet)
    return problem.weight_set


@dataclass
class Part:
    """Some kernels of a stack on the rows with a positive cost."""

    session: Session
    rows: Index
    kernels: Index

    def __post_init__(self) -> None:
        self.problem = self.session.problem

    @property
    def weight_set(self) -> ShareSet:
        """The set of the weights of all kernels."""
        return set_of(self.problem)

    @cached_property
    def sides(self) -> Sides:
        """The dual of the machine on these rows."""
        machine = self.problem.machine
        found = machine.loss.sides(machine.y[self.rows], machine.costs[self.rows])
        if found is None:
            raise TypeError(f"the dual of {machine.loss} is not a quadratic program")
        return found

    @property
    def _all_rows(self) -> bool:
        return len(self.rows) == self.problem.gram.n_samples

    def spread(self, values: Array) -> Array:
        """Coefficients of all rows: zeros for those without a cost."""
        out = np.zeros(self.problem.gram.n_samples)
        out[self.rows] = values
        return out

    def scatter(self, weights: Array) -> Array:
        """Weights of all kernels: zeros for the others."""
        out = np.zeros(self.problem.n_kernels)
        out[self.kernels] = weights
        return out

    def products(self, values: Array) -> Array:
        """``s_m K_m b``, shape (n_kernels, n_rows)."""
        V = self.problem.products(self.spread(values), self.kernels)
        return V if self._all_rows else V[:, self.rows]

    def kernel(self, weights: Array) -> Array:
        """K(d), as a copy."""
        K = self.session.combine(self.scatter(weights))
        return K.copy() if self._all_rows else K[np.ix_(self.rows, self.rows)]

    def support(self, q: Array, b: Array) -> float:
        """Support function at bounds of the quadratic forms, given those of the factors."""
        residual = self.problem.gram.residual_trace[self.kernels]
        if residual.any():
            q = q + self.problem.scale[self.kernels] * residual * float(b @ b)
        return self.weight_set.support(q)

    def rel_gap(self, at: Point) -> float:
        """The relative gap if these were all kernels."""
        q = self.problem.quad(at.machine.dual_coef, self.kernels)
        level = float(at.weights[self.kernels] @ q) - self.problem.left_out(at.weights, at.machine.dual_coef)
        outer = self.weight_set.support(q) - level
        return relative_gap(at.machine.primal, at.machine.own_gap + 0.5 * max(0.0, outer))


def first_point(part: Part, sides: Sides) -> tuple[State, Array]:
    """The best multiple of simple coefficients, equal weights, and multipliers as large as the gap there."""
    m, weight_set = len(part.kernels), part.weight_set
    cap = weight_set.largest
    a = sides.start
    b = np.sum(sides.sign * a, axis=0)
    V = part.products(b)
    top = float((V @ b).max())
    dual_term = float((sides.gain * a).sum())
    bounded = bool(np.isfinite(sides.upper).all())
    most = 0.5 / max(float((a / sides.upper).max()), np.finfo(float).tiny) if bounded else np.inf
    curvature = top + float((sides.ridge * np.square(a)).sum())
    size = min(dual_term / curvature if curvature > 0.0 and dual_term > 0.0 else most, most)
    a, b, V = size * a, size * b, size * V
    if len(a) > 1:
        # adding to both sides leaves b unchanged and moves to the middle of the box
        a = a + OFFSET * (sides.upper - a.max(axis=0))
    q = V @ b
    d = np.full(m, 1.0 / m)
    first, weights = weight_set.slopes(d)[0], weight_set.of_shares(d)
    # as large as the support function: a smaller level would be too small for the other constraints
    level = max(float((first * q).max()), weight_set.support(q))
    tau = 2.0 * level if level > 0.0 else max(dual_term * size, 1e-300)
    f = weights @ V
    dual_term = float((sides.gain * a).sum() - 0.5 * (sides.ridge * np.square(a)).sum())
    # phi is concave: its tangents bound the support function
    gap = 0.5 * float((first * d) @ q) + sides.loss(f) - (dual_term - 0.5 * tau)
    mean = gap / (2 * a.size + m)
    low = mean / a
    room = sides.upper - a
    high = np.where(np.isfinite(room), mean / np.where(np.isfinite(room), room, 1.0), 0.0)
    zeta = u = np.zeros(m)
    if cap < 1.0:
        u = cap - d
        zeta = np.minimum(2.0 * mean / u, tau)
    return State(a, tau, zeta, d, u, low, high, 0.0), V


def without_interior(part: Part, at: State, q: Array, sides: Sides, tol: float) -> tuple[Point, bool]:
    """Weights and coefficients without entries that are only positive in the interior; and whether their gap is small.

    If no such point has a gap within `tol`, it is the one with the smallest gap.
    """
    weight_set = part.weight_set
    cap = weight_set.largest
    level = max(abs(at.tau), np.finfo(float).tiny)
    slack = at.tau + at.zeta - weight_set.slopes(at.d)[0] * q
    sparse = np.where(at.d > slack / level, at.d, 0.0)
    capped = (at.u < at.zeta / level) & (sparse > 0) if cap < 1.0 else np.zeros(len(q), dtype=bool)
    a = np.where(at.a / at.a.max() < at.low / max(float(at.low.max()), 1e-300), 0.0, at.a)
    room = sides.upper - at.a
    if np.isfinite(room).all():
        near = room / sides.upper.max() < at.high / max(float(at.high.max()), 1e-300)
        a = np.where(near, sides.upper, a)
    snapped, inside = (part.spread(np.sum(sides.sign * values, axis=0)) for values in (a, at.a))
    best: tuple[float, Point] | None = None
    whole = weight_set.project(weight_set.of_shares(at.d / at.d.sum()))
    kept = _normalised(sparse, capped, cap)
    for weights in (whole,) if kept is None else (weight_set.of_shares(kept), whole):
        # coefficients of the interior are accurate enough, and others may be worse by rounding
        for b, own in ((snapped, 0.1 * tol), (snapped, LOOSE), (inside, LOOSE)):
            point = part.session.solve(part.scatter(weights), own, b)
            gap = part.rel_gap(point)
            if best is None or gap < best[0]:
                best = (gap, point)
            if gap <= tol:
                return point, True
    assert best is not None
    return best[1], False


def _normalised(weights: Array, capped: NDArray[np.bool_], cap: float) -> Array | None:
    """Shares that sum to 1 by a common factor of those below the cap; None if that is impossible."""
    below = float(weights[~capped].sum())
    left = 1.0 - cap * np.count_nonzero(capped)
    if not left * below > 0.0:
        return None
    out = np.where(capped, cap, weights * (left / below))
    return out if out.max() <= cap else None
