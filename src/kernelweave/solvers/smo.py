"""Box problems solved to a certified gap.

Two methods take turns. SMO finds out which coefficients are free; Newton steps on the free set
(`kernelweave.solvers.polish`) give the digits. SMO alone needs a number of steps that grows with the condition of the
free block, Newton alone needs to know the free set.

References
----------
R.-E. Fan, P.-H. Chen, C.-J. Lin, Working set selection using second order information for training support vector
machines, Journal of Machine Learning Research 6 (2005), 1889-1918: the choice of pairs ("WSS 2") and shrinking.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, NotPSDError
from kernelweave._loops import core
from kernelweave.solvers.box import BoxProblem, derivatives, rescale
from kernelweave.solvers.polish import polish
from kernelweave.solvers.result import Status

Array = NDArray[np.float64]

#: Curvatures below minus this share of the diagonal are no rounding errors, not even those of float32 kernels.
NEGATIVE = 1e-6
#: Entries of K read in one call of the compiled loop: Ctrl-C is noticed between calls, within about a second.
CHUNK = 4e8
#: Rounds without progress after which rounding errors are blamed.
PATIENCE = 4


@dataclass(frozen=True)
class Certificate:
    """What a machine says about coefficients.

    Attributes
    ----------
    primal, gap : float
        The dual value is ``primal - gap``. The gap is summed from one nonnegative term for each sample: the
        difference of the two values would lose the digits that a tight tolerance asks for.
    intercept : float
    """

    primal: float
    gap: float
    intercept: float


#: From (b, K b) to a certificate.
Certify = Callable[[Array, Array], Certificate]


@dataclass(frozen=True)
class Outcome:
    """Coefficients, ``K b``, certificate, status, and SMO steps plus Newton systems."""

    b: Array
    product: Array
    certificate: Certificate
    status: Status
    n_iter: int


def solve_box(
    problem: BoxProblem, certify: Certify, *, tol: float, max_iter: int | None, start: Array
) -> Outcome:
    """Solve until ``gap <= tol * |primal|``.

    Parameters
    ----------
    problem : BoxProblem
    certify : callable
    tol : float
        Relative gap.
    max_iter : int or None
        Largest number of SMO steps; None: ``10^6 + 100 n``.
    start : array of shape (n,)
        Feasible.

    Raises
    ------
    NotPSDError
        Negative curvature was met.
    """
    n = len(start)
    limit = 1_000_000 + 100 * n if max_iter is None else max_iter
    b, g = start, problem.gradient(start)
    if b.any():
        b, g = rescale(problem, b, g)

    def judge(b: Array, g: Array) -> Certificate:
        return certify(b, g - problem.linear - problem.ridge * b)

    def good(c: Certificate) -> bool:
        return c.gap <= tol * abs(c.primal)

    best_b, best = b, judge(b, g)
    b, g = b.copy(), g.copy()
    steps = systems = idle = 0
    budget = max(5 * n, 1000)
    up, down = derivatives(problem, b, g)
    eps = max(1e-2 * float(down.max() - up.min()), 1e-300)
    while not good(best) and steps < limit and idle < PATIENCE:
        before = best.gap
        done, reached = _run(problem, b, g, eps, min(budget, limit - steps))
        steps += done
        here = judge(b, g)
        if good(here):
            # the gradient was updated step by step; the certificate must not depend on that
            g = problem.gradient(b)
            here = judge(b, g)
        if not good(here) and (here.gap <= 1e-2 * abs(here.primal) or not reached):
            found = polish(problem, b, g)
            systems += found.systems
            if found.negative:
                raise NotPSDError(_indefinite())
            there = judge(found.b, found.g)
            if there.gap < here.gap:
                b, g, here = found.b.copy(), found.g.copy(), there
        if here.gap < best.gap:
            best_b, best = b.copy(), here
        idle = idle + 1 if best.gap > 0.9 * before else 0
        if reached:
            share = tol * abs(best.primal) / best.gap if best.gap > 0 else 1.0
            eps *= min(max(0.3 * share, 1e-2), 0.3)
        else:
            budget *= 2

    product = np.zeros(n)
    core.add_rows(problem.K, best_b, product)
    if float(best_b @ product) < -NEGATIVE * float(np.diag(problem.K) @ np.square(best_b)):
        raise NotPSDError(_indefinite())
    final = certify(best_b, product)
    if good(final):
        status = Status.CONVERGED
    else:
        status = Status.MAX_ITER if steps >= limit else Status.STALLED
    return Outcome(best_b, product, final, status, steps + systems)


def check_max_iter(max_iter: int | None) -> int | None:
    """A number of steps >= 1, or None."""
    if max_iter is not None and (not isinstance(max_iter, (int, np.integer)) or max_iter < 1):
        raise InputError(f"`max_iter` must be a whole number >= 1, or None for the default, got {max_iter!r}.")
    return max_iter


def _run(problem: BoxProblem, b: Array, g: Array, eps: float, budget: int) -> tuple[int, bool]:
    """SMO in chunks; b and g are changed. Returns the steps, and whether the violation fell to eps."""
    total = 0
    size = max(int(CHUNK / len(b)), 100)
    while True:
        chunk = min(size, budget - total)
        steps, violation, bent = core.box_smo(
            problem.K, problem.ridge, problem.lower, problem.upper, problem.kink, b, g, eps, chunk, True
        )
        total += steps
        if bent < -NEGATIVE:
            raise NotPSDError(_indefinite())
        if violation <= eps or steps < chunk or total >= budget:
            return total, violation <= eps


def _indefinite() -> str:
    return (
        "`K` must be positive semidefinite, got a matrix along which the objective bends the wrong way. Pass "
        "on_indefinite='clip' (drop its negative eigenvalues) or 'shift' (add a multiple of the identity), or use "
        "another kernel."
    )
