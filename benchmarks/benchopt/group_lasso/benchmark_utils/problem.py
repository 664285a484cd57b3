"""The two forms of one problem, and the gaps by which all solvers are judged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


def norms(w: Array, groups: Integers) -> Array:
    """Euclidean norm of each group."""
    return np.sqrt(np.add.reduceat(w * w, groups[:-1]))


def largest_multiplier(Z: Array, groups: Integers, y: Array) -> float:
    """The smallest multiplier of the group lasso at which all coefficients are zero."""
    return float(norms(Z.T @ y, groups).max())


def squared_gap(Z: Array, groups: Integers, y: Array, alpha: float, w: Array) -> float:
    """Relative gap of 1/2 |y - Z w|^2 + alpha/2 (sum of norms)^2, with the best multiple of the residual."""
    residual = y - Z @ w
    primal = 0.5 * residual @ residual + 0.5 * alpha * norms(w, groups).sum() ** 2
    most = norms(Z.T @ residual, groups).max()
    dual = 0.5 * (y @ residual) ** 2 / (residual @ residual + most**2 / alpha)
    return float(1.0 - dual / primal)


def lasso_gap(Z: Array, groups: Integers, y: Array, multiplier: float, w: Array) -> float:
    """Relative gap of 1/2 |y - Z w|^2 + multiplier (sum of norms), with the best feasible multiple of the residual."""
    residual = y - Z @ w
    primal = 0.5 * residual @ residual + multiplier * norms(w, groups).sum()
    most = norms(Z.T @ residual, groups).max()
    square = residual @ residual
    factor = min(y @ residual / square, multiplier / most) if square > 0 and most > 0 else 1.0
    return float(1.0 - (factor * (y @ residual) - 0.5 * factor**2 * square) / primal)
