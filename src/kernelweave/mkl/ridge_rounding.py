"""Bounds of rounding errors in the certificate of an RLS2 solution.

The gap of Problem 5 is a small difference of large numbers. The reported gap includes a bound of the rounding errors in
the objective and in the gap, to first order, for the kernels as stored. For a PSD kernel ``|K_ij| <= k_i k_j`` with
``k_i = sqrt(K_ii)``, so that diagonals are enough: with ``a = sum_i k_i |c_i|`` every partial sum of
``(K c)_i`` is at most ``k_i a``.

Rounding errors are treated as independent with mean zero: then they add up like the square root of their number, and
`SAFETY` times that is exceeded with a probability of about ``2 exp(-SAFETY^2 / 2)``. The deterministic bound (n where
this has sqrt(n), and sums where it has roots of sums of squares) is thousands of times larger at 1000 rows and would
reject paths whose solutions have ten correct digits.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kernelweave.gram import Gram

Array = NDArray[np.float64]

#: Standard deviations allowed for a sum of rounding errors.
SAFETY = 4.0
#: Number of kernels whose diagonals are processed together.
CHUNK = 256


class LeastSquares(Protocol):
    """The interface of the problem, a `kernelweave.mkl.ridge_problem.RidgeProblem`."""

    @property
    def gram(self) -> Gram:
        """The kernels."""

    @property
    def inverse_weights(self) -> Array:
        """Diagonal of N."""

    @property
    def traces(self) -> Array:
        """Traces of all kernels, with their factors."""

    def roots(self, kernels: NDArray[np.int64]) -> Array:
        """Square roots of diagonals."""


def rounding_bound(
    problem: LeastSquares,
    alpha: float,
    weights: Array,
    C: Array,
    quadratic_forms: Array,
    *,
    primal: float,
    residual: float,
) -> float:
    """Bound of ``|computed - exact|`` of the objective plus that of the gap, in units of the objective.

    Parameters
    ----------
    problem, alpha, weights, C
        As in `kernelweave.mkl.selection.compute_criteria`.
    quadratic_forms : array of shape (n_kernels,)
        Computed ``q_m``, or upper bounds of them.
    primal, residual : float
        The objective, and ``1/2 r' N^-1 r`` of equation (13).

    Notes
    -----
    With errors e in ``f = K(d) c`` and e_m in ``s_m K_m c``, the objective changes by ``-(alpha/2 c + w r)' e``, and
    the gap by ``-(alpha/2 c + w r)' e + 1/2 e' N^-1 e + alpha/2 c' e_m`` for the kernel m with the largest quadratic
    form.
    """
    own = np.flatnonzero(weights)
    unit = np.finfo(np.float64).eps / 2 * SAFETY * math.sqrt(problem.gram.n_samples + len(own) + 8)
    own_errors, rows = _quadratic_form_errors(problem, own, C, quadratic_forms, unit)
    level = float(weights[own] @ own_errors)
    highest = float(quadratic_forms.max())
    top = max(highest, float((quadratic_forms[own] + own_errors).max()))
    # the trace bounds the diagonal: precise bounds are computed only for kernels that could matter
    reach = np.sqrt(np.maximum(problem.traces, 0.0)) * float(np.linalg.norm(C))
    crude = quadratic_forms + unit * reach * (np.sqrt(np.maximum(quadratic_forms, 0.0)) + reach)
    crude[own] = -np.inf
    others = np.flatnonzero(crude > top)
    for start in range(0, len(others), CHUNK):
        part = others[start : start + CHUNK]
        errors, _ = _quadratic_form_errors(problem, part, C, quadratic_forms, unit)
        top = max(top, float((quadratic_forms[part] + errors).max()))
    roots = problem.roots(own)
    fitted = unit * float(
        np.sqrt(np.sum(np.square((weights[own] * rows.T) @ roots) / problem.inverse_weights))
    )
    # rounding of the subtractions in r
    fitted += np.finfo(np.float64).eps * math.sqrt(8.0 * primal)
    return float(
        alpha * level
        + 0.5 * alpha * (top - highest)
        + 2.0 * math.sqrt(2.0 * residual) * fitted
        + fitted * fitted
        + 2.0 * unit * primal
    )


def bound_at_fixed_weights(
    alpha: float,
    roots: Array,
    inverse_weights: Array,
    Y: Array,
    C: Array,
    fitted: Array,
    residuals: Array,
    *,
    primal: float,
    terms: int,
    left_out: float,
) -> float:
    """Gap of the ridge with one kernel K, plus a bound of the rounding of its objective.

    Parameters
    ----------
    alpha : float
    roots : array of shape (n_samples,)
        Square roots of the diagonal of K.
    inverse_weights : array of shape (n_samples,)
    Y, C, fitted, residuals : arrays of shape (n_outputs, n_samples)
        Targets, coefficients, K c, and ``y - K c - alpha N c``, as computed.
    primal : float
        The objective, as computed.
    terms : int
        Number of kernels in the sum K.
    left_out : float
        Trace of the part of K that the stored factors leave out.

    Notes
    -----
    With the exact r, the objective is at most ``1/2 r' N^-1 r`` above the optimum. With errors e in ``f = K c`` it
    changes by ``-(alpha/2 c + N^-1 r)' e + 1/2 e' N^-1 e``, where ``c'e`` is the error of a quadratic form.
    """
    eps = float(np.finfo(np.float64).eps)
    unit = eps / 2 * SAFETY * math.sqrt(len(roots) + terms + 8)
    root = 1.0 / np.sqrt(inverse_weights)
    length, sizes = np.linalg.norm(C, axis=1), np.abs(C) @ roots
    errors = unit * sizes[:, None] * roots
    missing = left_out * length * float(root.max())
    off = np.linalg.norm(errors * root, axis=1) + missing
    parts = 2.0 * eps * (np.abs(Y) + np.abs(fitted) + alpha * inverse_weights * np.abs(C))
    reach = np.linalg.norm((np.abs(residuals) + errors + parts) * root, axis=1) + missing
    quadratic_forms = np.maximum(np.einsum("tn,tn->t", C, fitted), 0.0)
    form_errors = (
        unit * sizes * (np.sqrt(quadratic_forms) + np.linalg.norm(C * roots, axis=1)) + left_out * length**2
    )
    of_objective = 0.5 * alpha * form_errors + reach * off + 0.5 * off**2
    return float(np.sum(0.5 * reach**2 + of_objective)) + 2.0 * unit * primal


def _quadratic_form_errors(
    problem: LeastSquares, kernels: NDArray[np.int64], C: Array, quadratic_forms: Array, unit: float
) -> tuple[Array, Array]:
    """Bounds of the errors in the quadratic forms of some kernels, and their ``a``, shape (len(kernels), n_outputs)."""
    roots = problem.roots(kernels)
    rows = roots @ np.abs(C).T
    spread = np.sqrt(np.square(roots) @ np.square(C).sum(axis=0))
    errors = (
        unit
        * np.sqrt(np.square(rows).sum(axis=1))
        * (np.sqrt(np.maximum(quadratic_forms[kernels], 0.0)) + spread)
    )
    return errors, rows
