"""Active-set Newton on the optimal value J of a margin machine, as a function of the kernel weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernelweave._types import Array, Index
from kernelweave.mkl.kernel_problem import FINEST, LOOSEST, MarginStep, Point, Session, inner_tol
from kernelweave.mkl.loop import Limits, Look, Loop, Moves
from kernelweave.mkl.weight_sets import ShareSet
from kernelweave.results import Status, WarmStart, relative_gap

#: Kernels of the working set: the active ones and those nearest to becoming active.
WORKING_MOST = 40
WORKING_SHARE = 0.5
#: Number of kernels with a weight at the start.
FIRST = 40
#: All kernels are evaluated when the gap of the working set is below this share of the last gap over all kernels, or
#: of J.
CHECK_SHARE = 0.3
CHECK_LARGEST = 0.1
#: Iterations without a lower objective or a smaller gap after which Newton gives up.
PATIENCE = 20
#: Iterations within which Newton must make its gap ten times smaller; else the interior point continues. From a warm
#: start, which the interior point cannot use, iterations are cheaper, and the second number is used.
SLOW, SLOW_WARM = 15, 40
#: Rows above which Newton has proportionally more iterations.
SLOW_ROWS = 1000
#: Rejected steps in a row after which Newton ends.
MOST_REJECTED = 30


@dataclass(eq=False)
class Newton(MarginStep):
    """Newton on the shares, with the second derivative for constant free rows.

    Attributes
    ----------
    most : float
        Largest number of iterations.
    gives_way : bool
        Whether it ends when slow, for the interior point.
    """

    most: float = math.inf
    gives_way: bool = False
    fits = ShareSet

    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        """Warm-started machines on the weights of the working set."""
        slow = math.inf
        if self.gives_way:
            # a step of the interior point grows with n^3, an iteration of Newton with about n^2
            rows = max(1.0, session.problem.gram.n_samples / SLOW_ROWS)
            slow = int((SLOW if session.warm.weights is None else SLOW_WARM) * rows)
        loop.limits = Limits(most=self.most, idle=PATIENCE, slow=slow)
        problem = session.problem
        weight_set = problem.weight_set
        assert isinstance(weight_set, ShareSet)
        shares, quadratic_forms = _first(session, weight_set)
        n_kernels = len(shares)
        working = _working_set(shares, quadratic_forms, weight_set)
        b = session.warm.dual_coef
        damping = 1e-10
        rejected = 0
        # J at a point, its shares, and over the working set the gains of shares and the curvature
        accepted: tuple[float, Array, Array, Array] | None = None
        inner = LOOSEST
        known = math.inf  # gap at the last evaluation of all kernels
        while True:
            weights = weight_set.of_shares(shares) if weight_set.bent else shares
            at = session.solve(weights, inner, b)
            machine = at.machine
            b = machine.dual_coef
            own, primal = machine.own_gap, machine.primal
            # J is certainly larger than before
            if accepted is not None and primal - own > (level := accepted[0]) + 1e-14 * abs(level):
                # shorten the step, then damp the model
                rejected += 1
                _, old, gains, B = accepted
                if rejected <= 2:
                    shares = 0.5 * (old + shares)
                else:
                    damping = min(max(100.0 * damping, 1e-6), 1e6)
                    shares = newton_step(gains, old, B, working, weight_set, damping)
                yield None
                if rejected > MOST_REJECTED:
                    return Status.STALLED
                continue
            rejected = 0
            damping = max(0.1 * damping, 1e-10)
            V = problem.products(b, working)
            q = V @ b
            if problem.residual is not None:
                q += problem.residual[working] * float(b @ b)
            level = float(weights[working] @ q)
            outer = 0.5 * max(0.0, weight_set.support(q) - level)
            wanted = session.tol * abs(primal)
            checks = outer <= max(0.5 * wanted, min(CHECK_SHARE * known, CHECK_LARGEST * abs(primal)))
            if len(working) < n_kernels and (checks or own + outer <= wanted):
                quadratic_forms = problem.quad(b)
                quadratic_forms[working] = q
                known = outer = 0.5 * max(0.0, weight_set.support(quadratic_forms) - level)
                if outer > 0.5 * wanted:
                    grown = np.union1d(working, _working_set(shares, quadratic_forms, weight_set))
                    if len(grown) > len(working):
                        working = grown
                        V = problem.products(b, working)
                        q = quadratic_forms[working]
            gap = own + outer
            # rounding errors take at most half of the tolerance
            arrived = gap <= 0.5 * wanted or (gap <= wanted and gap <= problem.allowed_gap(at, session.tol))
            status = None
            if arrived:
                status = Status.CONVERGED
                vars(problem)["last"] = b, q if len(working) == n_kernels else quadratic_forms
            yield Look(at, primal, gap, int(np.count_nonzero(weights)), status)
            # a warm machine within the tolerance does not change with the step: use a smaller tolerance
            inner = max(inner_tol(outer / abs(primal), session.tol) * 0.1**loop.idle, FINEST)
            if own > outer:
                # the remaining gap is that of the machine
                inner = min(inner, 0.1 * relative_gap(primal, own))
                if machine.status in (Status.STALLED, Status.ROUNDING):
                    return machine.status
            gains, B = q, session.machine.curvature(session.kernel, b, V)
            if weight_set.bent:
                first, second = weight_set.slopes(shares[working])
                gains, B = q * first, first[:, None] * B * first
                B.flat[:: len(B) + 1] -= 0.5 * q * second
            accepted = (primal, shares, gains, B)
            shares = newton_step(gains, shares, B, working, weight_set, damping)


def _first(session: Session, weight_set: ShareSet) -> tuple[Array, Array]:
    """Starting shares, and quadratic forms that rank the kernels: those of the machine on the average kernel."""
    problem, weights, b = session.problem, session.warm.weights, session.warm.dual_coef
    m = problem.gram.n_kernels
    if weights is None or b is None:
        b = session.solve(weight_set.start(m), LOOSEST, b).machine.dual_coef
        session.warm = WarmStart(weights, b)
    last = problem.last
    quadratic_forms = last[1] if last is not None and last[0] is b else problem.quad(b)
    if weights is not None:
        # weights inside the set are scaled to its boundary
        shares = weight_set.shares(weights) if weight_set.bent else weights
        total = float(shares.sum())
        return (shares / total if total > 0.0 else np.full(m, 1.0 / m)), quadratic_forms
    shares = np.zeros(m)
    few = max(min(FIRST, m), weight_set.fewest)
    shares[np.argsort(-quadratic_forms, kind="stable")[:few]] = 1.0 / few
    return shares, quadratic_forms


def _working_set(shares: Array, quadratic_forms: Array, weight_set: ShareSet) -> Index:
    """Active kernels, and those whose shares gain nearly as much as those of kernels that become active."""
    gains = quadratic_forms * weight_set.slopes(shares)[0] if weight_set.bent else quadratic_forms
    full = weight_set.fewest
    most = min(full - 1 + WORKING_MOST, len(gains))
    near = np.argpartition(-gains, most - 1)[:most]
    level = np.sort(gains[near])[-min(full, most)]
    near = near[gains[near] >= WORKING_SHARE * level]
    return np.union1d(np.flatnonzero(shares > 0), near)


def newton_step(
    q: Array,
    shares: Array,
    B: Array,
    working: Index,
    weight_set: ShareSet,
    damping: float,
    *,
    plain: bool = False,
) -> Array:
    """Minimise the local quadratic model of J, with gradient -q / 2, over the shares of the working set."""
    own, cap = shares[working], weight_set.largest
    level = max(float(own @ q), np.finfo(float).tiny)
    H = B.copy()
    mean, top = float(np.trace(B)) / len(B), float(q.max())
    # if kernels of zeros have all the weight, their level is not a scale
    lost = level < 1e-12 * top
    # needed if no row is free
    H.flat[:: len(H) + 1] += damping * max(mean, top if lost else level) + np.finfo(float).tiny
    # Newton for q^(-1/2) = const takes longer steps than the plain model, and agrees with it at the solution
    negative_gradient = 0.5 * (q - level)
    if not (plain or cap < 1.0 or lost):
        # below the level the plain step is longer: the other vanishes with q, and a kernel of zeros would keep its
        # weight
        longer = q * (np.sqrt(np.maximum(q, 0.0) / level) - 1.0)
        negative_gradient = np.where(q > level, longer, negative_gradient)
    x = weight_set.newton(H, -negative_gradient - H @ own, own, level)
    x = np.clip(x, 0.0, cap)
    total = float(x.sum())
    if not np.isfinite(total) or total <= 0.0:
        return shares
    out = np.zeros_like(shares)
    out[working] = x / total
    return out
