"""The logistic loss: its conjugate is the entropy of a share of the cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, expit, log_expit, xlog1py, xlogy

from kernelweave._threads import blas_threads_for
from kernelweave.machines.box import kernel_product
from kernelweave.machines.logistic import Weighted, best_intercept, solve_logistic
from kernelweave.machines.loss import Asked, Index, Loss, System, check_labels
from kernelweave.machines.rounding import EPS
from kernelweave.results import Certificate, MachineSolution, Status, limit_reached

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(-y f))``: probabilities are those of f itself.

    With ``a_i = y_i b_i / C_i`` the dual term is the entropy ``-sum_i C_i (a log a + (1 - a) log(1 - a))``, and the gap
    ``sum_i C_i`` times the divergence of a_i from the probability of the other label.
    """

    name: ClassVar[str] = "logistic"
    classifies: ClassVar[bool] = True

    def check(self, y: ArrayLike, costs: Array) -> Array:
        return check_labels(y, costs)

    def losses(self, y: Array, f: Array) -> Array:
        return np.logaddexp(0.0, -y * f)

    def log_probability(self, f: Array) -> Array:
        return log_expit(f)

    def slope(self, y: Array, costs: Array, f: Array) -> Array:
        return -y * costs * expit(-y * f)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        return best_intercept(y, costs, product)

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        a = self._shares(y, costs, b)
        p = expit(-y * f)
        # the linear terms of both logarithms cancel, and the rest has no sign
        own = _beyond_linear(a, p - a, log_expit(-y * f))
        return float(costs @ (own + _beyond_linear(1.0 - a, a - p, log_expit(y * f))))

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        a = self._shares(y, costs, b)
        # 1 - a is exact in the logarithm, also where a is small
        return float(costs @ (entr(a) - xlog1py(1.0 - a, -a)))

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        a = np.clip(self._shares(y, costs, b), np.finfo(float).tiny, 1.0 - 0.5 * EPS)
        return y * (np.log1p(-a) - np.log(a))

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        return np.minimum(0.0, y * costs), np.maximum(0.0, y * costs)

    def free(self, costs: Array, b: Array) -> Index:
        return np.flatnonzero(self._second_derivative(costs, b) > 0.0)

    def system(self, K: Array, costs: Array, b: Array, rows: Index) -> System:
        block = K if len(rows) == len(K) else K[np.ix_(rows, rows)]
        return Weighted(block, self._second_derivative(costs, b)[rows])

    def _solve(self, asked: Asked) -> MachineSolution:
        K, y, costs, tol = asked.K, asked.y, asked.costs, asked.tol
        used = np.flatnonzero(costs > 0)
        part = K if len(used) == len(K) else np.ascontiguousarray(K[np.ix_(used, used)])
        own, weight = y[used], costs[used]
        start = np.zeros(len(used)) if asked.start is None else asked.start[used]
        with blas_threads_for(len(used)):
            found, _, n_iter, all_steps = solve_logistic(
                part,
                own,
                weight,
                start,
                lambda b, product: self.values(own, weight, b, product),
                tol,
                asked.max_iter,
            )
        b = np.zeros(len(K))
        b[used] = found
        product, error = kernel_product(K, b, asked.entry_error)
        at = self.values(y, costs, b, product)
        rounding = self.rounding(y, costs, b, product, at, error)
        if at.gap + rounding > tol * abs(at.primal) and asked.entry_error == 0.0:
            product, error = kernel_product(K, b, long=True)
            at = self.values(y, costs, b, product)
            rounding = self.rounding(y, costs, b, product, at, error)
        ended = limit_reached() or Status.STALLED
        if all_steps and at.gap > tol * abs(at.primal):
            ended = Status.MAX_ITER
        low, high = self.bounds(y, costs)
        return MachineSolution.of(
            b,
            at.intercept,
            Certificate.of("machine", at.primal, at.gap, rounding, ended, tol=tol),
            n_iter=n_iter,
            infeasibility=max(float(np.maximum(low - b, b - high).max()), abs(float(b.sum())), 0.0),
        )

    @staticmethod
    def _second_derivative(costs: Array, b: Array) -> Array:
        """Second derivatives of the losses by f."""
        a = np.clip(np.divide(np.abs(b), costs, out=np.zeros_like(b), where=costs > 0), 0.0, 1.0)
        return costs * a * (1.0 - a)

    @staticmethod
    def _shares(y: Array, costs: Array, b: Array) -> Array:
        """The multipliers as shares of the costs, between 0 and 1."""
        return np.clip(np.divide(y * b, costs, out=np.zeros_like(b), where=costs > 0), 0.0, 1.0)


def _beyond_linear(a: Array, d: Array, log_p: Array) -> Array:
    """``a (x - log(1 + x))`` for ``x = d / a``; the logarithm of ``a + d``, a probability, is given too."""
    # far from a, the probability may be 0 or x infinite, but the logarithms are not
    far = np.abs(d) > 0.5 * a
    x = np.divide(d, a, out=np.zeros_like(a), where=~far & (a > 0))
    small = np.abs(x) < 1e-4
    y = np.where(small, x, 0.0)
    series = np.square(y) * (0.5 - y * (1.0 / 3.0 - y * (0.25 - 0.2 * y)))
    near = a * np.where(small, series, x - np.log1p(x))
    return np.where(far, d - a * log_p + xlogy(a, a), near)
