"""RKL as a convex problem: Newton steps, and a certificate that is global.

The criterion of RKL is the optimal value J of a machine on ``K(t) / r^2(t)``. J is convex in t and falls when t grows,
and the squared radius r^2 is convex and homogeneous (a maximum of linear functions). So RKL is

    min J(t)   s.t.   r^2(t) <= 1 ,   t >= 0 ,

a convex problem in which the constraint is active: every local solution of RKL is a global one. With
rho_m = beta'diag(K_m) - beta'K_m beta for any beta of a ball, ``r^2(t) >= <t, rho>``, and for any feasible b

    J(t) >= dual_term(b) - 1/2 max_m q_m / rho_m ,      q_m = b'K_m b ,

which is the lower bound of the certificate. Linearising the constraint gives Newton steps over a simplex, for the
kernels divided by their rho_m: margin MKL with a learnt scaling.

If fewer rows lie on the sphere than kernels are active, r^2 has kinks, and Newton may be slow or stop. Then cutting
planes continue: every solved machine and ball bounds J and r^2 from below by linear functions, and the smallest value
under these bounds is a linear program, whose multipliers give a bound of the optimum as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kernelweave._threads import blas_threads_for
from kernelweave._types import Array, Index
from kernelweave.machines.ball import solve_meb
from kernelweave.machines.bordered import Bordered
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import sum_error
from kernelweave.mkl.certify import OUTSIDE, feasible, outside, term_error
from kernelweave.mkl.families import FLAT, WeightedSum, coinciding
from kernelweave.mkl.kernel_problem import LOOSEST, inner_tol
from kernelweave.mkl.loop import Limits, Look, Loop, Moves, SessionOf, Step
from kernelweave.mkl.steps.newton import FIRST, MOST_REJECTED, WORKING_MOST, WORKING_SHARE, newton_step
from kernelweave.mkl.weight_sets import Simplex
from kernelweave.results import (
    Ball,
    Certificate,
    MachineSolution,
    RadiusSolution,
    Solution,
    Statement,
    Status,
    relative_gap,
)


@dataclass(frozen=True)
class RKLPoint:
    """Weights with radius 1, machine and ball at them, and their certificate.

    Attributes
    ----------
    t : array of shape (n_kernels,)
    machine : MachineSolution
    ball : Ball
    q, rho : arrays of shape (n_kernels,)
    primal, dual : float
    certain : float
        The lower bound less its rounding errors.
    proof : Cut
        Coefficients of the bound.
    """

    t: Array
    machine: MachineSolution
    ball: Ball
    q: Array
    rho: Array
    primal: float
    dual: float
    certain: float
    proof: Cut

    @property
    def rounding(self) -> float:
        """Bound of the rounding errors of the certificate."""
        upper = self.machine.rounding + self.primal * self.ball.rounding / self.ball.radius2
        return upper + max(0.0, self.dual - self.certain)

    @property
    def gap(self) -> float:
        """Primal minus dual."""
        return max(0.0, self.primal - self.dual)

    @property
    def own(self) -> float:
        """The share of machine and ball in the relative gap."""
        return relative_gap(self.machine.primal, self.machine.own_gap) + relative_gap(
            self.ball.primal, self.ball.own_gap
        )

    @property
    def rel_gap(self) -> float:
        """Gap as a share of the primal."""
        return relative_gap(self.primal, self.gap)


@dataclass(frozen=True)
class Cut:
    """Linear bounds: ``J(t) >= dual_term - <t, q> / 2`` and ``r^2(t) >= <t, rho>``, and the errors of their numbers.

    Attributes
    ----------
    dual_term : float
    q, rho, q_error, rho_error : arrays of shape (n_kernels,)
    b, beta : arrays of shape (n_samples,)
        Coefficients of the machine and of the ball, both at radius 1, for these bounds.
    """

    b: Array
    beta: Array
    dual_term: float
    q: Array
    rho: Array
    q_error: Array
    rho_error: Array


#: Shares of the variances; the bound of RKL uses the best.
SHARES = (1e-13, 1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
#: Tolerance of the ball in the verification.
BALL_TOL = 1e-11
#: Number of cuts that Newton passes on.
KEPT = 40
#: Share of the way from the best point to the solution of the linear program for the next cut.
REACH = 0.5
#: Share of the gap at which Newton continues.
TURN = 1e-2
#: Iterations without progress, and those that must make the gap ten times smaller, after which cutting planes
#: continue.
PATIENCE, SLOW = 15, 20
#: Cuts without a smaller gap after which the tolerance of the linear program limits it.
UNBEATEN = 30


class RKLSession(SessionOf[RKLPoint]):
    """RKL during its solution: kernels and a machine, with warm starts.

    RKL does not depend on the scale of kernels, so that they are scaled to a total variance of 1 first: with numbers
    of very different magnitude the small ones would lose all digits. Kernels that are constant up to rounding cannot
    be scaled, and are left out.

    Parameters
    ----------
    family : WeightedSum
    machine : Machine
    start : array of shape (n_kernels,) or None
        Weights; None for equal shares of the variance.
    norm : {1, 2, None}
        Norm of the reported weights: it only selects one of the multiples of the same kernel.
    tol : float
        Relative gap.

    Attributes
    ----------
    variance : array of shape (n_kernels,)
        The total variances as given; 0 for kernels that are left out. Weights here are those of the family times this.
    start : array of shape (n_kernels,)
        Start of the next Newton step.
    best : RKLPoint or None
        The smallest value, with the best bounds of all steps.
    """

    def __init__(
        self, family: WeightedSum, machine: Machine, start: Array | None, norm: int | None, tol: float
    ) -> None:
        self.machine, self.norm, self.tol = machine, norm, tol
        self.n_machines = 0
        self.best: RKLPoint | None = None
        self._b: Array | None = None
        self._beta: Array | None = None
        self.K = np.empty((0, 0))
        self.cuts: list[Cut] = []
        n = family.n_samples
        equal = np.full(n, 1.0 / n)
        unit = np.ones(family.n_parameters)
        level = family.diagonals(unit, equal)
        variance = level - family.quadratic_forms(unit, equal)
        self.variance = np.where(variance > 4.0 * sum_error(n) * level, variance, 0.0)
        if not self.variance.any():
            raise coinciding(n)
        self.start = np.sign(self.variance) if start is None else start * self.variance
        self.family = family.rescaled(
            np.divide(1.0, self.variance, out=np.zeros(len(variance)), where=self.variance > 0)
        )

    def keep(self, at: RKLPoint) -> RKLPoint:
        """The better of a point and the best one, with the better bounds of both; both steps continue from there."""
        if (best := self.best) is not None:
            point = min(at, best, key=lambda one: one.primal)
            bound = max(at, best, key=lambda one: one.certain)
            at = replace(point, dual=bound.dual, certain=bound.certain, proof=bound.proof)
        self.best, self.start = at, at.t
        return at

    def look(self, at: RKLPoint, status: Status | None) -> Look[RKLPoint]:
        """The result of an iteration."""
        n_active = int(np.count_nonzero(at.t))
        return Look(at, at.primal, at.gap, n_active, status, more={"n_machines": self.n_machines})

    def result(self, at: RKLPoint, status: Status, loop: Loop[RKLPoint]) -> RadiusSolution:
        """The best point of all steps, with their best bounds."""
        return replace(self._solution(self.keep(at), status), n_iter=loop.n_iter, trace=loop.arrays())

    def _solution(self, best: RKLPoint, status: Status) -> RadiusSolution:
        if best.gap <= self.tol * abs(best.primal):
            status = Status.CONVERGED
        elif status is Status.NOT_STATIONARY:
            status = Status.STALLED
        own = best.proof.b is best.machine.dual_coef
        # the decrease predicted by the linear model, as a share of the value: the gap of the weights
        left = max(0.0, best.gap - best.machine.own_gap) / max(abs(best.primal), 1e-300)
        certificate = Certificate.of(
            "joint" if own else "cuts", best.primal, best.gap, best.rounding, status,
            tol=self.tol, stationarity=left,
        )  # fmt: skip
        t = np.divide(best.t, self.variance, out=np.zeros_like(best.t), where=self.variance > 0)
        size = float(np.linalg.norm(t)) if self.norm == 2 else float(t.sum())
        found = best.machine
        return RadiusSolution(
            weights=t / size,
            dual_coef=found.dual_coef * size,
            intercept=found.intercept,
            certificate=certificate,
            n_iter=0,
            n_machines=self.n_machines,
            value=found.primal - found.own_gap,
            radius2=1.0 / size,
            proof=np.empty((0, 0)) if own else np.stack([best.proof.b, best.proof.beta]),
        )

    def at(self, t: Array, tol: float) -> RKLPoint:
        """Scale the weights to radius 1, and solve machine and ball."""
        K = self.family.kernel(t)
        ball = solve_meb(K, tol=tol, start=self._beta, check=False)
        self._beta = beta = ball.dual_coef
        r2 = ball.radius2
        if not r2 > FLAT * float(K.diagonal().mean()):
            raise coinciding(len(K))
        K /= r2
        self.K, t = K, t / r2
        self.n_machines += 1
        machine = self.machine.solve(K, tol=tol, warm_start=self._b, entry_error=self.family.entry_error(t))
        self._b = b = machine.dual_coef
        # within the ball's own gap the weights are too large by this factor; the norm of w grows with it at most
        primal = machine.primal * max(1.0, ball.primal / ball.radius2)
        cut = self.cut(b, beta)
        self.cuts.append(cut)
        dual, certain = self.bounds(cut)
        return RKLPoint(t, machine, ball, cut.q, cut.rho, primal, min(dual, primal), certain, cut)

    def cut(self, b: Array, beta: Array) -> Cut:
        """Linear bounds from coefficients of the machine and of the ball."""
        unit = np.ones(self.family.n_parameters)
        q = self.family.quadratic_forms(unit, b)
        rho = np.maximum(self.family.diagonals(unit, beta) - self.family.quadratic_forms(unit, beta), 0.0)
        away = 2.0 * (sum_error(len(b)) + abs(math.fsum(beta) - 1.0))
        q_error = self.family.quadratic_form_errors(b, q)
        rho_error = away * self.family.diagonals(unit, beta)
        return Cut(b, beta, self.machine.dual_term(b), q, rho, q_error, rho_error)

    def program(self) -> tuple[Array, Cut] | None:
        """Weights with the smallest value under all cuts, and the coefficients that prove it."""
        from scipy.optimize import linprog

        size = max(max(abs(cut.dual_term) for cut in self.cuts), 1e-300)
        q, rho = np.array([cut.q for cut in self.cuts]), np.array([cut.rho for cut in self.cuts])
        dual_terms = np.array([cut.dual_term for cut in self.cuts])
        k, m = q.shape
        # the total variances, all 1, are a bound of r^2 as well
        above = np.vstack([rho, np.ones(m)])
        found = linprog(
            np.r_[np.zeros(m), 1.0],
            A_ub=np.vstack([np.c_[-0.5 * q / size, -np.ones(k)], np.c_[above, np.zeros(k + 1)]]),
            b_ub=np.r_[-dual_terms / size, np.ones(k + 1)],
            bounds=[(0.0, None)] * m + [(None, None)],
            method="highs",
        )
        if found.x is None:
            return None
        shares = np.maximum(-found.ineqlin.marginals, 0.0)
        upper, lower = shares[:k] / shares[:k].sum(), shares[k:]
        lower = lower / lower.sum() if lower.any() else np.eye(k + 1)[k]
        # the bound of an average of coefficients is no less than the average of their bounds, and with the multipliers
        # as shares it is the value of the program, up to its tolerance
        b = upper @ np.array([cut.b for cut in self.cuts])
        beta = lower[:k] @ np.array([cut.beta for cut in self.cuts]) + lower[k] / len(b)
        return np.maximum(found.x[:m], 0.0), self.cut(b, beta)

    def bounds(self, cut: Cut) -> tuple[float, float]:
        """The lower bound of the optimum, and the same less its rounding errors."""
        # every mixture of the two bounds of r^2 is a bound
        least = np.maximum(cut.rho - cut.rho_error, 0.0)
        certain = (
            cut.dual_term - term_error(self.machine, cut.b) - 0.5 * self._level(cut.q + cut.q_error, least)
        )
        return cut.dual_term - 0.5 * self._level(cut.q, cut.rho), certain

    def mixed(self, rho: Array, share: float) -> Array:
        """A linear lower bound of r^2: that of the ball, mixed with that of equal coefficients.

        The latter are the total variances, all 1, so that the bound is positive for every kernel.
        """
        return (1.0 - share) * rho + share

    def _level(self, q: Array, rho: Array) -> float:
        """The least of the largest ratios of quadratic forms to linear bounds of r^2."""
        return min(float((q / self.mixed(rho, share)).max()) for share in SHARES)

    def model(self, at: RKLPoint, working: Index, share: float) -> tuple[Array, Array]:
        """Weights times rho on the simplex, and the second derivative of the Lagrangian in these coordinates."""
        b, beta = at.machine.dual_coef, at.ball.dual_coef
        mixed = self.mixed(at.rho, share)
        rho = mixed[working]
        V = self.family.products(b, working)
        H = self.machine.curvature(self.K, b, V)
        multiplier = 0.5 * float(at.t @ at.q)
        where = np.flatnonzero(beta)
        if len(where) > 1:
            U = self.family.diagonal(working) - 2.0 * self.family.products(beta, working)
            H = H + 0.5 * multiplier * Bordered(self.K[np.ix_(where, where)]).quadratic_forms(U[:, where])
        return at.t * mixed, H / np.outer(rho, rho)


@dataclass
class RKLNewton(Step[RKLSession, RKLPoint]):
    """Newton steps until the global gap is small.

    Attributes
    ----------
    most : float
        Iterations.
    """

    most: float = math.inf

    def moves(self, session: RKLSession, loop: Loop[RKLPoint]) -> Moves[RKLPoint]:
        """One machine and one ball each; steps that are too long are shortened."""
        loop.limits = Limits(most=self.most, idle=PATIENCE, slow=SLOW, lower=1e-9)
        tol = session.tol
        here = session.at(session.start, LOOSEST)
        if np.count_nonzero(session.start) > FIRST:
            # many small weights would make many columns of the model: start with the kernels of the largest gains
            # instead
            rho = session.mixed(here.rho, 0.5)
            few = np.argsort(-here.q / rho, kind="stable")[:FIRST]
            first = np.zeros_like(session.start)
            first[few] = 1.0 / rho[few]
            here = session.at(first, LOOSEST)
        damping, share, rejected = 1e-10, 0.1, 0
        while True:
            if not rejected:
                share = max(0.2 * share, 1e-13)
            rejected, damping = 0, max(0.1 * damping, 1e-10)
            arrived = here.gap <= tol * abs(here.primal) or not here.q.any()
            yield session.look(here, Status.CONVERGED if arrived else None)
            inner = inner_tol(max(here.rel_gap - here.own, 0.0), tol)
            accepted = here
            ratio = here.q / session.mixed(here.rho, share)
            most = min(WORKING_MOST, len(ratio))
            near = np.argpartition(-ratio, most - 1)[:most]
            working = np.union1d(np.flatnonzero(here.t > 0), near[ratio[near] >= WORKING_SHARE * ratio.max()])
            scaled, H = session.model(here, working, share)
            model = (session.mixed(here.rho, share), scaled, H, working)
            direction = _next(here, *model, damping)
            here = session.at(direction, inner)
            del session.cuts[:-KEPT]
            while here.machine.primal - here.machine.own_gap > accepted.machine.primal * (1 + 1e-12):
                rejected += 1
                if rejected > MOST_REJECTED:
                    return Status.STALLED
                if rejected % 3:
                    direction = 0.5 * (direction + accepted.t)
                else:
                    damping = min(max(100.0 * damping, 1e-6), 1e6)
                    direction = _next(accepted, *model, damping)
                share = min(2.0 * share, 0.5)
                here = session.at(direction, inner)


@dataclass
class RKLCuts(Step[RKLSession, RKLPoint]):
    """Cutting planes, if Newton makes no progress; closer to the solution Newton may then converge.

    Attributes
    ----------
    failed : bool
        The linear program has no solution, or its cuts make no progress.
    """

    failed: bool = False
    _target: float = 0.0

    def moves(self, session: RKLSession, loop: Loop[RKLPoint]) -> Moves[RKLPoint]:
        """The best point after every cut."""
        loop.limits = Limits(unbeaten=UNBEATEN)
        best, tol = session.best, session.tol
        assert best is not None
        self._target = target = max(tol, TURN * best.rel_gap)
        while True:
            found = session.program()
            if found is None:
                self.failed = True
                return Status.STALLED
            t, proof = found
            bound, certain = session.bounds(proof)
            if certain > best.certain:
                best = session.best = replace(best, dual=bound, certain=certain, proof=proof)
            if best.gap <= target * abs(best.primal):
                return Status.STALLED
            # the program goes from vertex to vertex; between it and the best point cuts are deeper
            inner = inner_tol(best.rel_gap, target)
            best = session.keep(session.at(REACH * t + (1.0 - REACH) * best.t, inner))
            yield session.look(best, Status.CONVERGED if best.gap <= tol * abs(best.primal) else None)
            if best.gap <= target * abs(best.primal):
                return Status.STALLED

    def result(self, session: RKLSession, loop: Loop[RKLPoint], status: Status) -> Solution:
        """With the best bounds of all steps."""
        best = session.best
        assert best is not None
        self.failed = self.failed or (status is Status.STALLED and best.gap > self._target * abs(best.primal))
        return session.result(best, status, loop)


def turns() -> Iterator[Step[RKLSession, RKLPoint]]:
    """Newton, alternating with cutting planes once it makes no progress."""
    yield RKLNewton()
    while True:
        cuts = RKLCuts()
        yield cuts
        if cuts.failed:
            return
        yield RKLNewton(most=SLOW)


def _next(at: RKLPoint, rho: Array, scaled: Array, H: Array, working: Index, damping: float) -> Array:
    # the gradient of the criterion in the coordinates t * rho; rho may be mixed, the gradient is exact
    level = float(at.t @ at.q)
    ratio = np.maximum(level + (at.q[working] - level * at.rho[working]) / rho[working], 0.0)
    total = float(scaled[working].sum())
    moved = newton_step(ratio, scaled / total, H, working, Simplex(), damping, plain=damping >= 1e-4)
    out = np.zeros_like(at.t)
    out[working] = moved[working] / rho[working]
    return out


@dataclass(frozen=True)
class RadiusProblem:
    """RKL on sums of kernels, to verify solutions."""

    family: WeightedSum
    machine: Machine

    def certify(self, solution: Solution) -> Certificate:
        """The machine on the kernel divided by the radius of a recomputed ball, and the bound of both.

        The bound is that of the proof, if the solution has one.
        """
        weights, family, machine = solution.weights, self.family, self.machine
        if not (weights >= 0).all() or not weights.any():
            return outside("joint")
        with blas_threads_for(family.n_samples):
            K = family.kernel(weights)
            ball = solve_meb(K, tol=BALL_TOL, check=False)
            # coefficients near their bounds are feasible for the radius that they were found with
            r2 = float(getattr(solution, "radius2", ball.radius2))
            if not 0.0 < r2 < math.inf:
                return outside("joint")
            b, beta = solution.dual_coef * r2, ball.dual_coef
            found = machine.certify(
                K / r2, b, float(solution.intercept), entry_error=family.entry_error(weights)
            )
            if len(solution.proof):
                b, beta = solution.proof
                if not feasible(machine, b[None]) or beta.min() < 0.0 or abs(math.fsum(beta) - 1.0) > OUTSIDE:
                    return outside("joint")
            session = RKLSession(family, machine, None, None, BALL_TOL)
            dual, certain = session.bounds(session.cut(b, beta))
        # weights are too large by this factor for a radius of 1; the norm of w grows with it at most
        primal = found.primal * max(1.0, ball.primal / r2)
        dual = min(dual, primal)
        # an infinite gap of the machine, for coefficients outside of its box, makes the whole gap infinite
        own = primal - dual if math.isfinite(found.own_gap) else math.inf
        rounding = found.rounding + primal * ball.rounding / r2 + max(0.0, dual - certain)
        return Certificate.of("joint", primal, own, rounding, Status.CONVERGED)

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers, with the ball of the learnt kernel."""
        ball = solve_meb(self.family.kernel(solution.weights), tol=BALL_TOL, check=False)
        return replace(self.machine.statement(self.family.scale), ball=ball.dual_coef)
