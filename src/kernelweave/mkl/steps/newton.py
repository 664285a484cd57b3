"""Active-set Newton on the optimal value J of a margin machine, as a function of the kernel weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave.mkl.loop import Look, Loop, Moves, Step
from kernelweave.mkl.problem import FINEST, LOOSEST, Point, Session, inner_tol
from kernelweave.mkl.weight_sets import WeightSet
from kernelweave.results import Status, relative_gap

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Kernels of the working set: the active ones and those nearest to becoming active.
WORKING_MOST = 40
WORKING_SHARE = 0.5
#: Kernels that share the weight at the start.
FIRST = 40
#: All kernels are looked at when those of the working set have this share left of what all had at the last look, or of
#: J.
CHECK_SHARE = 0.3
CHECK_LARGEST = 0.1
#: Iterations without a lower objective or a smaller gap after which Newton gives up.
PATIENCE = 20
#: Newton that has not made its gap ten times smaller within so many iterations gives way to the interior point. Cold,
#: on 60 problems, it either took at most 18 iterations in all or was slow by this measure within 16. From a warm start,
#: which the interior point cannot use, its iterations are cheaper, and 30 to 40 of them still pay.
SLOW, SLOW_WARM = 15, 40
#: Rows up to which that holds; beyond, Newton gets more iterations in proportion. With 3,000 rows, 10 Gaussian kernels
#: and C = 0.01 its 27 iterations took 2.4 s, and giving way after 15 of them 5.6 s.
SLOW_ROWS = 1000
#: Rejected steps in a row after which there is none.
MOST_REJECTED = 30


@dataclass
class Newton(Step):
    """Newton with the second derivative that holds while the free rows stay the same.

    Attributes
    ----------
    gives_way : bool
        To the interior point, where it is slow.
    """

    gives_way: bool = False
    patience = PATIENCE

    def slow(self, session: Session) -> float:
        """After so many iterations, which grow with the rows as a step of the interior point does."""
        if not self.gives_way:
            return math.inf
        # a step of the interior point grows with n^3, an iteration of Newton with about n^2
        rows = max(1.0, session.problem.gram.n_samples / SLOW_ROWS)
        return int((SLOW if session.warm.weights is None else SLOW_WARM) * rows)

    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        """Machines, each from the last, on the weights of the working set."""
        problem = session.problem
        weight_set = problem.weight_set
        weights, forms = _first(session)
        working = _working_set(weights, forms, weight_set)
        b = session.warm.dual_coef
        damping = 1e-10
        rejected = 0
        accepted: tuple[Point, Array, Array] | None = None  # point, its forms of the working set, curvature
        inner = LOOSEST
        known = math.inf  # what the last look at all kernels left to gain
        while True:
            at = session.solve(weights, inner, b)
            machine = at.machine
            b = machine.dual_coef
            if accepted is not None and at.above(accepted[0]):
                # shorten the step, then trust the model less
                rejected += 1
                old, q_old, B = accepted
                if rejected <= 2:
                    weights = 0.5 * (old.weights + weights)
                else:
                    damping = min(max(100.0 * damping, 1e-6), 1e6)
                    weights = newton_step(q_old, old.weights, B, working, weight_set, damping)
                yield None
                if rejected > MOST_REJECTED:
                    return Status.STALLED
                continue
            rejected = 0
            damping = max(0.1 * damping, 1e-10)
            V = problem.products(b, working)
            q = V @ b
            residual = problem.gram.residual_trace[working]
            if residual.any():
                q = q + problem.scale[working] * residual * float(b @ b)
            level = float(weights[working] @ q)
            outer = 0.5 * max(0.0, weight_set.support(q) - level)
            gap = machine.own_gap + outer
            primal = machine.primal
            goal = problem.goal(at, session.tol)
            if outer <= max(0.5 * goal, min(CHECK_SHARE * known, CHECK_LARGEST * abs(primal))) or gap <= goal:
                forms = problem.quad(b)
                forms[working] = q
                outer = known = 0.5 * max(0.0, weight_set.support(forms) - level)
                gap = machine.own_gap + outer
                if outer > 0.5 * goal:
                    grown = np.union1d(np.flatnonzero(weights > 0), _working_set(weights, forms, weight_set))
                    grown = np.union1d(working, grown)
                    if len(grown) > len(working):
                        working = grown
                        V = problem.products(b, working)
                        q = forms[working]
            arrived = Status.CONVERGED if gap <= goal else None
            yield Look(at, primal, gap, at.n_active, arrived)
            # a warm machine that is already within the tolerance does not answer to the step: ask for more
            inner = max(inner_tol(outer / abs(primal), session.tol) * 0.1**loop.idle, FINEST)
            if machine.own_gap > outer:
                # the machine is what is left
                inner = min(inner, 0.1 * relative_gap(primal, machine.own_gap))
                if machine.status in (Status.STALLED, Status.ROUNDING):
                    return machine.status
            B = session.machine.curvature(session.kernel, b, V)
            accepted = (at, q, B)
            weights = newton_step(q, weights, B, working, weight_set, damping)


def _first(session: Session) -> tuple[Array, Array]:
    """Starting weights, and forms that rank the kernels: those of the machine on the average kernel."""
    problem, warm = session.problem, session.warm
    if warm.weights is not None and warm.dual_coef is not None:
        return session.start(), problem.quad(warm.dual_coef)
    equal = np.full(problem.n_kernels, 1.0 / problem.n_kernels)
    warm.dual_coef = session.solve(equal, LOOSEST, warm.dual_coef).machine.dual_coef
    forms = problem.quad(warm.dual_coef)
    if warm.weights is not None:
        return session.start(), forms
    weights = np.zeros(len(forms))
    few = max(min(FIRST, len(forms)), problem.weight_set.fewest)
    weights[np.argsort(-forms, kind="stable")[:few]] = 1.0 / few
    return weights, forms


def _working_set(weights: Array, forms: Array, weight_set: WeightSet) -> Index:
    """Active kernels, and those whose forms are nearest to the level at which a kernel becomes active."""
    full = weight_set.fewest
    most = min(full - 1 + WORKING_MOST, len(forms))
    near = np.argpartition(-forms, most - 1)[:most]
    level = np.sort(forms[near])[-min(full, most)]
    near = near[forms[near] >= WORKING_SHARE * level]
    return np.union1d(np.flatnonzero(weights > 0), near)


def newton_step(
    q: Array,
    weights: Array,
    B: Array,
    working: Index,
    weight_set: WeightSet,
    damping: float,
    *,
    plain: bool = False,
) -> Array:
    """Minimise the local quadratic model of J over the kernels of the working set."""
    own = weights[working]
    level = max(float(own @ q), np.finfo(float).tiny)
    H = B.copy()
    mean, top = float(np.trace(B)) / len(B), float(q.max())
    # kernels that add nothing hold all the weight: their level is no scale
    lost = level < 1e-12 * top
    # what the model lacks when no row is free
    H.flat[:: len(H) + 1] += damping * max(mean, top if lost else level) + np.finfo(float).tiny
    # Newton for q^(-1/2) = const takes longer steps than the plain model, and agrees with it at the solution
    negative_gradient = 0.5 * (q - level)
    if not (plain or weight_set.largest < 1.0 or lost):
        # below the level the longer step is the plain one: the other vanishes with q, and a kernel that adds nothing
        # would keep its weight
        longer = q * (np.sqrt(np.maximum(q, 0.0) / level) - 1.0)
        negative_gradient = np.where(q > level, longer, negative_gradient)
    x = weight_set.newton(H, -negative_gradient - H @ own, own, level)
    x = np.clip(x, 0.0, weight_set.largest)
    total = float(x.sum())
    if not np.isfinite(total) or total <= 0.0:
        return weights
    out = np.zeros_like(weights)
    out[working] = x / total
    return out
