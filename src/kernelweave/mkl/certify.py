"""Certificates recomputed from the numbers of a solution, independently of the solver.

Any weights in the set and any feasible coefficients bound the optimum from both sides. These functions evaluate both
bounds; `kernelweave.results.Solution.verify` compares them with the reported ones. Other
problems have a method (`RidgeProblem.certify`, `Problem.certify`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelweave._loops import core
from kernelweave._threads import blas_threads_for, threads_for
from kernelweave.gram import Gram
from kernelweave.machines.ball import solve_meb
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import imbalance, sum_error
from kernelweave.results import Certificate, Solution, Statement, Status

Array = NDArray[np.float64]

#: Tolerance of weights outside of their set, relative to the largest: rounding errors of projections.
OUTSIDE = 1e-9
#: Tolerance of the ball in the verification of RKL.
BALL_TOL = 1e-11
#: Shares of the variances; the bound of RKL uses the best.
SHARES = (1e-13, 1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1.0)


@dataclass(frozen=True)
class RadiusProblem:
    """RKL for verification: kernels, a machine, and factors s_m."""

    gram: Gram
    machine: Machine
    scale: Array

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of weights, coefficients and intercept, with a recomputed ball."""
        return certify_radius(self.gram, self.machine, self.scale, solution)

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers, with the ball of the learnt kernel."""
        K = self.gram.combine_upper(solution.weights * self.scale)
        core.mirror(K, threads_for(len(K)))
        ball = solve_meb(K, tol=BALL_TOL, check=False)
        return replace(self.machine.statement(self.scale), ball=ball.dual_coef)


def certify_radius(gram: Gram, machine: Machine, scale: Array, solution: Solution) -> Certificate:
    """RKL: the machine on the kernel divided by the radius of a recomputed ball, and the bound of both.

    The bound is that of the proof, if the solution has one.
    """
    weights = solution.weights
    if not (weights >= 0).all() or not weights.any():
        return outside("joint")
    n = gram.n_samples
    with blas_threads_for(n):
        K = gram.combine_upper(weights * scale)
        core.mirror(K, threads_for(n))
        ball = solve_meb(K, tol=BALL_TOL, check=False)
        beta = ball.dual_coef
        # coefficients near their bounds are feasible for the radius that they were found with
        r2 = float(getattr(solution, "radius2", ball.radius2))
        if not 0.0 < r2 < math.inf:
            return outside("joint")
        K /= r2
        b = solution.dual_coef * r2
        terms = int(np.maximum(gram.ranks[weights > 0], 1).sum())
        found = machine.certify(K, b, float(solution.intercept), entry_error=2.0 * sum_error(terms))
        if len(solution.proof):
            b, beta = solution.proof
            if not feasible(machine, b[None]) or beta.min() < 0.0 or abs(math.fsum(beta) - 1.0) > OUTSIDE:
                return outside("joint")
        q = scale * gram.quadratic_forms(b[None])
        diagonal = gram.diagonal()
        equal = np.full(n, 1.0 / n)
        spread = scale * (diagonal @ equal - gram.quadratic_forms(equal[None]))
        rho = np.maximum(scale * (diagonal @ beta - gram.quadratic_forms(beta[None])), 0.0)
    error = quadratic_form_errors(gram, scale, b, q)
    short = 2.0 * (sum_error(n) + abs(math.fsum(beta) - 1.0)) * scale * (diagonal @ beta)
    used = spread > 4.0 * sum_error(n) * scale * (diagonal @ equal)

    def level(q: Array, rho: Array) -> float:
        """The least of the largest ratios of q to linear bounds of r^2: those of the ball and of equal shares."""
        bounds = ((1.0 - share) * rho[used] + share * spread[used] for share in SHARES)
        return min(float((q[used] / bound).max()) for bound in bounds)

    # weights are too large by this factor for a radius of 1; the norm of w grows with it at most
    primal = found.primal * max(1.0, ball.primal / r2)
    term = machine.dual_term(b)
    dual = min(term - 0.5 * level(q, rho), primal)
    certain = term - 0.5 * level(q + error, np.maximum(rho - short, 0.0))
    # an infinite gap of the machine, for coefficients outside of its box, makes the whole gap infinite
    own = primal - dual if math.isfinite(found.own_gap) else math.inf
    rounding = found.rounding + primal * ball.rounding / r2 + max(0.0, dual - certain)
    return Certificate.of("joint", primal, own, rounding, Status.CONVERGED)


def feasible(machine: Machine, coefficients: Array) -> bool:
    """Whether coefficients, in rows, are dual feasible up to rounding errors."""
    return all(machine.feasible(b, OUTSIDE) for b in coefficients)


def term_error(machine: Machine, b: Array) -> float:
    """Bound of the rounding errors of the dual term."""
    slope = machine.loss.dual_slope(machine.y, machine.costs, b)
    return sum_error(len(b)) * float(np.abs(b) @ (np.abs(slope) + np.abs(machine.y)))


def quadratic_form_errors(
    gram: Gram, scale: Array, b: Array, q: Array, *, fit_intercept: bool = True
) -> Array:
    """Bounds of the errors of quadratic forms: of rounding, and of coefficients whose sum is not quite zero."""
    # the sum of the sizes of all terms, because abs(K_ij) <= sqrt(K_ii K_jj)
    share = imbalance(b)[0] if fit_intercept else 0.0
    terms = scale * np.square(np.sqrt(np.maximum(gram.diagonal(), 0.0)) @ np.abs(b))
    return sum_error(len(b)) * terms + 2.0 * share * np.sqrt(np.maximum(q, 0.0) * terms)


def outside(kind: str) -> Certificate:
    """Infinite bounds for infeasible points."""
    return Certificate.of(kind, math.inf, math.inf, 0.0, Status.REFUTED)
