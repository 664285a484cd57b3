"""Newton steps on the free coefficients of a box problem, for digits that SMO would find slowly.

With the free set F known, a solution is one linear system,

    Q_FF b_F + level 1 = -(q + Q b_fixed + kink sign)_F ,     1'b = total .

The free set is found by the primal-dual active set method: solve, fix coefficients that left their segment, free those
with a derivative of the wrong sign, repeat. It ends after a few systems if it starts near the solution, and may cycle
otherwise. Then a primal active set method continues within its budget: it never raises the objective, changes the free
set by one coefficient for each system, and saves SMO most of its steps if K has low rank.

References
----------
M. Hintermüller, K. Ito, K. Kunisch, The primal-dual active set strategy as a semismooth Newton method, SIAM Journal
on Optimization 13 (2002), 865-888.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from kernelweave._allowance import used_up
from kernelweave._checks import NotPSDError
from kernelweave._loops import HAS_EXTENSION, core
from kernelweave._threads import blas_threads_for
from kernelweave._types import Array
from kernelweave.machines.box import INDEFINITE, BoxProblem, derivatives, resolution
from kernelweave.machines.rounding import EPS

Mask = NDArray[np.bool_]

#: Most systems of one run.
MOST_SYSTEMS = 20
#: Cost of a system, as a multiple of n_free^3, in units in which an SMO step on n coefficients costs n.
SYSTEM_COST = 1.0 / 40.0
#: Largest cost of a run, as a multiple of the cost of the preceding SMO steps.
SHARE = 2.0
#: Largest number of free coefficients for a dense factor, whose memory is its square, and for the compiled one.
MOST_FREE, FEW = 6000, 128


class Polished(NamedTuple):
    """Result of the Newton steps.

    Attributes
    ----------
    b : array of shape (n,)
        Feasible coefficients.
    systems : int
        Linear systems that were solved.
    solved : bool
        Whether the active set method converged.
    """

    b: Array
    systems: int
    solved: bool = False


def _step(problem: BoxProblem, free: NDArray[np.int64], slope: Array, missing: float) -> tuple[Array, float]:
    """The step d and level with ``Q_FF d - level 1 = -slope`` and ``1'd = missing``.

    The factor of Q_FF is that with the smallest jitter that makes it positive definite.
    """
    n = len(free)
    block = problem.K[free[:, None], free]
    block.flat[:: n + 1] += problem.box.ridge[free]
    diagonal = np.abs(block.diagonal())
    # rows of zeros in the kernel have no scale of their own
    jitter = n * EPS * float(diagonal.max()) if block.any() else 1.0
    with blas_threads_for(n):
        while True:
            shifted = block.copy()
            shifted.flat[:: n + 1] += jitter
            factor, info = lapack.dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)
            if info == 0:
                break
            # a block of zeros does not occur here
            jitter = 100.0 * jitter + 1e-300
            if not jitter <= 1e-7 * float(diagonal.sum()):
                raise NotPSDError(INDEFINITE)
        ones = lapack.dpotrs(factor, np.ones(n), lower=1)[0]
        total = float(ones.sum())
        d, level = np.zeros(n), 0.0
        for _ in range(3):  # the first solve, and refinements that correct for the jitter
            plain = lapack.dpotrs(factor, level - slope - block @ d, lower=1)[0]
            more = (missing - float(d.sum()) - float(plain.sum())) / total
            d += plain + more * ones
            level += more
    return d, level


def _segments(problem: BoxProblem, b: Array) -> tuple[Array, Array, Array]:
    """Ends of the segment of each coordinate on which the objective is smooth, and the kink's slope there."""
    if problem.box.kink == 0.0:
        return problem.box.lower.copy(), problem.box.upper.copy(), np.zeros_like(b)
    low, high = np.where(b > 0, 0.0, problem.box.lower), np.where(b < 0, 0.0, problem.box.upper)
    return low, high, problem.box.kink * np.sign(b)


def _free(problem: BoxProblem, b: Array) -> Mask:
    inside = (b > problem.box.lower) & (b < problem.box.upper)
    return inside & (b != 0) if problem.box.kink > 0 else inside


def polish(
    problem: BoxProblem, b: Array, g: Array, work: float, tried: tuple[int, bool] | None = None
) -> Polished:
    """Try the active set method from feasible b with gradient g.

    Parameters
    ----------
    problem : BoxProblem
    b, g : arrays of shape (n,)
    work : float
        SMO steps since the last try, times n. Systems cost ``n_free^3 / 3`` each and read the rows of K whose
        coefficients change; a try costs about as much as the steps, so that nothing is tried after few steps.
    tried : (int, bool), optional
        Systems of the compiled try, if it was made, and whether LAPACK is needed.
    """
    end = b.copy()
    systems, large = (0, True) if tried is None else tried
    if HAS_EXTENSION and tried is None:
        most = work / SYSTEM_COST
        own = problem.K, problem.total, end, g.copy(), most, SHARE * most, MOST_SYSTEMS, FEW
        systems, solved, large = core.box_newton(*problem.box, *own)
        if solved:
            return Polished(end, systems, solved)
    if not (systems or large):
        return Polished(b, 0)
    free = _free(problem, b)
    found = Polished(b, systems)
    if large:
        n_free = int(np.count_nonzero(free))
        if not 2 <= n_free <= MOST_FREE or SYSTEM_COST * n_free**3 > work:
            return Polished(b, 0)
        found = _active_set(problem, b, g, free, work)
        if found.solved:
            return found
    rest = _descend(problem, b, g, free, work)
    return rest._replace(systems=found.systems + rest.systems)


def _active_set(problem: BoxProblem, start: Array, g0: Array, free: Mask, work: float) -> Polished:
    b, g, free = start.copy(), g0.copy(), free.copy()
    low, high, slope = _segments(problem, b)
    spent = 0.0
    n_systems = 0
    # far from the solution whole groups are freed, and systems become too large to be useful
    while n_systems < MOST_SYSTEMS and not used_up():
        where = np.flatnonzero(free)
        spent += SYSTEM_COST * len(where) ** 3
        if spent > SHARE * work:
            break
        n_systems += 1
        d, level = _step(problem, where, g[where] + slope[where], problem.total - float(b.sum()))
        target = b[where] + d
        over, under = target > high[where], target < low[where]
        target = np.where(over, high[where], np.where(under, low[where], target))
        change = np.zeros_like(b)
        change[where] = target - b[where]
        b[where] = target
        core.add_rows(problem.K, change, g)
        g += problem.box.ridge * change
        U, D = derivatives(problem, b, g)
        threshold = resolution(problem, b)
        rise, fall = ~free & (level - U > threshold), ~free & (D - level > threshold)
        left = where[over | under]
        if not len(left) and not rise.any() and not fall.any():
            _settle(problem, b, where)
            return Polished(b, n_systems, solved=True)
        free[left] = False
        for side, sign in ((rise, 1.0), (fall, -1.0)):
            _turn(problem, side & (b == 0), sign, low, high, slope)
        free |= rise | fall
        if not 2 <= np.count_nonzero(free) <= MOST_FREE:
            break
    return Polished(start, n_systems)


def _descend(problem: BoxProblem, start: Array, g0: Array, free: Mask, work: float) -> Polished:
    b, g, free = start.copy(), g0.copy(), free.copy()
    low, high, slope = _segments(problem, b)
    n_systems, spent = 0, 0.0
    solved = False
    while not used_up() and n_systems < MOST_SYSTEMS and np.count_nonzero(free) >= 2:
        where = np.flatnonzero(free)
        spent += SYSTEM_COST * len(where) ** 3
        if spent > work:
            break
        n_systems += 1
        d, level = _step(problem, where, g[where] + slope[where], 0.0)
        room = np.where(d > 0, high[where] - b[where], low[where] - b[where])
        with np.errstate(over="ignore"):  # without a bound
            ratio = np.divide(room, d, out=np.full(len(d), np.inf), where=d != 0)
        first = int(np.argmin(ratio))
        size = min(1.0, float(ratio[first]))
        change = np.zeros_like(b)
        change[where] = size * d
        if size < 1.0:
            change[where[first]] = room[first]
        b += change
        np.clip(b, low, high, out=b)
        core.add_rows(problem.K, change, g)
        g += problem.box.ridge * change
        if size < 1.0:
            k = where[first]
            b[k] = high[k] if d[first] > 0 else low[k]
            free[k] = False
            continue
        U, D = derivatives(problem, b, g)
        U[free], D[free] = np.inf, -np.inf
        rise, fall = int(np.argmin(U)), int(np.argmax(D))
        sign = 1.0 if level - U[rise] >= D[fall] - level else -1.0
        k = rise if sign > 0 else fall
        if max(level - U[rise], D[fall] - level) <= resolution(problem, b):
            solved = True
            break
        _turn(problem, (np.arange(len(b)) == k) & (b == 0), sign, low, high, slope)
        free[k] = True
    _settle(problem, b, np.flatnonzero(_free(problem, b)))
    return Polished(b, n_systems, solved=solved)


def _turn(problem: BoxProblem, which: Mask, sign: float, low: Array, high: Array, slope: Array) -> None:
    """Coordinates at the kink leave it on one side."""
    if problem.box.kink > 0.0:
        low[which] = 0.0 if sign > 0 else problem.box.lower[which]
        high[which] = problem.box.upper[which] if sign > 0 else 0.0
        slope[which] = sign * problem.box.kink


def _settle(problem: BoxProblem, b: Array, free: NDArray[np.int64]) -> None:
    """Correct the rounding error of the constraint in the coefficient farthest from its bounds."""
    if len(free):
        k = free[np.argmax(np.minimum(b[free] - problem.box.lower[free], problem.box.upper[free] - b[free]))]
        b[k] = np.clip(b[k] + problem.total - float(b.sum()), problem.box.lower[k], problem.box.upper[k])
