"""Certificates computed from the numbers of a solution.

Any weights in the set and any feasible coefficients bound the optimum from both sides. Problems evaluate both bounds in
their method `certify`; `kernelweave.results.Solution.verify` compares them with the reported ones.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._types import Array
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import EPS, sum_error
from kernelweave.results import Certificate, RelaxedSolution, Solution, Status

#: Tolerance of weights outside of their set, relative to the largest: rounding errors of projections.
OUTSIDE = 1e-9


def included(solution: Solution, rows: NDArray[np.bool_] | None) -> Array:
    """Dual coefficients of the included rows, shape (n_outputs, n_included); `rows` is None for all."""
    b = np.asarray(solution.dual_coef, dtype=np.float64)
    b = b.reshape(len(b), -1)
    return np.ascontiguousarray((b if rows is None else b[rows]).T)


def refuse_relaxed(solution: Solution) -> None:
    """Raise for a solution whose coefficients are not those of its certificate."""
    if isinstance(solution, RelaxedSolution):
        raise InputError(
            "The certificate of a relaxed solution belongs to the replaced coefficients: verify the solution without "
            "`relax`."
        )


def of_null(value: float, *coefficients: Array) -> Certificate:
    """The certificate at infinite alpha, where f = 0 with this value is the solution."""
    left = math.inf if any(one.any() for one in coefficients) else 0.0
    return Certificate.of("joint", value, left, 16.0 * EPS * value, Status.CONVERGED)


def feasible(machine: Machine, coefficients: Array) -> bool:
    """Whether coefficients, in rows, are dual feasible up to rounding errors."""
    return all(machine.feasible(b, OUTSIDE) for b in coefficients)


def term_error(machine: Machine, b: Array) -> float:
    """Bound of the rounding errors of the dual term."""
    slope = machine.loss.dual_slope(machine.y, machine.costs, b)
    return sum_error(len(b)) * float(np.abs(b) @ (np.abs(slope) + np.abs(machine.y)))


def outside(kind: str) -> Certificate:
    """Infinite bounds for infeasible points."""
    return Certificate.of(kind, math.inf, math.inf, 0.0, Status.REFUTED)
