"""Cutting planes (SILP): every machine bounds J from below by a linear function of the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelweave.mkl.kernel_problem import MarginStep, Point, Session
from kernelweave.mkl.loop import Limits, Look, Loop, Moves
from kernelweave.mkl.weight_sets import Simplex
from kernelweave.results import Solution, Status

Array = NDArray[np.float64]

#: Steps go from the best point towards the optimum of the cuts: twice the share after a better point, half after a
#: worse one, within these limits. Full steps, as published, go from vertex to vertex.
FIRST_STEP, SHORTEST_STEP = 0.5, 0.02
#: Cuts without a smaller gap after which rounding decides; on kernels of usual scales there were up to 3.
UNBEATEN = 20
#: Weights below this are set to zero if they are zero at the optimum of the cuts.
NEGLIGIBLE = 1e-8


@dataclass
class _Cuts:
    """``J(d) >= dual_term - <d, q> / 2`` for every q, and the coefficients of each."""

    q: list[Array] = field(default_factory=list)
    dual_terms: list[float] = field(default_factory=list)
    coefficients: list[Array] = field(default_factory=list)

    def optimum(self, size: float) -> tuple[Array, Array] | None:
        """Weights with the smallest value under the cuts, and the coefficients that prove it."""
        from scipy.optimize import linprog

        m = len(self.q[0])
        found = linprog(
            np.r_[np.zeros(m), 1.0],
            A_ub=np.column_stack([-0.5 * np.array(self.q) / size, -np.ones(len(self.q))]),
            b_ub=-np.array(self.dual_terms) / size,
            A_eq=np.r_[np.ones(m), 0.0][None],
            b_eq=[1.0],
            bounds=[(0.0, None)] * m + [(None, None)],
            method="highs",
        )
        if found.x is None:
            return None
        # the bound of an average of coefficients is no less than the average of their bounds, and with the multipliers
        # as shares that is the value of the program, but for its tolerance
        average = np.maximum(-found.ineqlin.marginals, 0.0)
        target = np.maximum(found.x[:m], 0.0)
        return target / target.sum(), (average / average.sum()) @ np.array(self.coefficients)


@dataclass
class CuttingPlane(MarginStep):
    """Column generation: a linear program over all cuts so far gives the direction of the next weights."""

    fits = Simplex
    #: The best bound of the optimum, the same less its rounding errors, and the coefficients that give it.
    lower: float = -math.inf
    certain: float = -math.inf
    proof: Array = field(default_factory=lambda: np.empty(0))

    def _raise(self, bound: float, error: float, b: Array) -> None:
        if bound - error > self.certain:
            self.lower, self.certain, self.proof = bound, bound - error, b

    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        """The best point so far, after every cut."""
        loop.limits = Limits(unbeaten=UNBEATEN)
        self.lower = self.certain = -math.inf
        problem = session.problem
        weights = session.start()
        b = session.warm.dual_coef
        cuts = _Cuts()
        best: Point | None = None
        step = FIRST_STEP
        while True:
            at = session.solve(weights, 0.1 * session.tol, b)
            machine = at.machine
            b = machine.dual_coef
            q = problem.quad(b)
            if best is None or machine.primal < best.machine.primal:
                best = at
                step = min(2.0 * step, 1.0)
            else:
                step = max(0.5 * step, SHORTEST_STEP)
            level = float(weights @ q) - problem.left_out(weights, b)
            error = machine.rounding + float(problem.quad_error(b, q).max())
            self._raise(machine.primal - machine.own_gap - 0.5 * max(0.0, float(q.max()) - level), error, b)
            own = max(0.0, best.machine.primal - self.lower)
            arrived = Status.CONVERGED if own <= problem.allowed_gap(best, session.tol) else None
            yield Look(best, best.machine.primal, own, at.n_active, arrived)
            cuts.q.append(q)
            cuts.dual_terms.append(problem.machine.dual_term(b))
            cuts.coefficients.append(b)
            found = cuts.optimum(max(abs(machine.primal), 1e-300))
            if found is None:
                return Status.STALLED
            target, b_proof = found
            self._raise(*problem.bound(b_proof), b_proof)
            # between the best point and that of the program, which goes from vertex to vertex
            weights = step * target + (1.0 - step) * best.weights
            weights[(weights < NEGLIGIBLE) & (target == 0.0)] = 0.0
            weights /= weights.sum()

    def result(self, session: Session, loop: Loop[Point], status: Status) -> Solution:
        """The solution with the bound of the cuts, which does not depend on its coefficients."""
        assert loop.best is not None
        return session.result(loop.best.point, status, loop, "cuts", self.proof[None])
