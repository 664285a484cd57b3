"""Criteria of kernels with a non-convex problem of weights: their values and exact derivatives by the kernel.

Every criterion trains one or several machines on K and returns a number with the symmetric matrix H of its derivatives
by the entries of K; layers compute the derivatives by the weights from it. The coefficients of a machine change with K.
If the criterion is not the machine's own optimal value, they must be differentiated too: on the free rows F they
solve a linear system,

    M [b_F; t] = [r; s] ,     M = [K_FF + D, 1; 1', 0] ,      D the inverse second derivatives of the loss,

so a solution with the right-hand side of the criterion's derivatives by b_F and t gives the whole derivative.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from kernelweave._threads import one_blas_thread
from kernelweave._types import Array
from kernelweave.machines.bordered import Bordered
from kernelweave.machines.loss import Loss
from kernelweave.machines.machine import Machine
from kernelweave.results import MachineSolution

Rows = NDArray[np.int64]
#: The value of a criterion, and its derivative by the kernel, if it was asked for.
Value = tuple[float, Array | None]

#: Steepness of the smoothed step in the span bound.
STEEPNESS = 5.0


class Criterion(ABC):
    """A number to minimise, as a function of the kernel."""

    @abstractmethod
    def at(self, K: Array, gradient: bool = True) -> Value:
        """The value, and the upper triangle of H (n, n); lower values are better. K is symmetric."""


def shares_of(machine: Machine, rows: Rows) -> Array:
    """Weights of all rows, divided by the sum over some of them."""
    weight = np.ones(len(machine.y)) if machine.sample_weight is None else machine.sample_weight
    return weight / float(weight[rows].sum())


@dataclass
class OutOfFold(Criterion):
    """Mean loss of the decision values of machines trained on the other folds.

    Attributes
    ----------
    machine : Machine
        Over all rows.
    folds : sequence of int arrays
        Test rows.
    rows : int array
        Rows used, which include the folds.
    loss : Loss
        Of the decision values.
    tol : float
        Relative gap of the machines.
    """

    machine: Machine
    folds: Sequence[Rows]
    rows: Rows
    loss: Loss
    tol: float = 1e-8
    _warm: list[Array | None] = field(default_factory=list, repr=False)

    def at(self, K: Array, gradient: bool = True) -> Value:
        machine, n = self.machine, len(K)
        share = shares_of(machine, np.concatenate(list(self.folds)))
        self._warm = self._warm or [None] * len(self.folds)
        value = 0.0
        left: list[Array] = []
        right: list[Array] = []
        for k, test in enumerate(self.folds):
            train = np.setdiff1d(self.rows, test)
            own, y = machine.restricted(train), machine.y[test]
            if own.one_class:
                value += float(share[test] @ self.loss.value(y, np.full(len(test), own.constant)))
                continue
            # whole rows, then columns: twice as fast as both at once
            block = np.take(np.take(K, train, axis=0), train, axis=1)
            found = own.solve(block, tol=self.tol, warm_start=self._warm[k])
            b = self._warm[k] = found.dual_coef
            cross, spread = np.take(K, test, axis=0), np.zeros(n)
            spread[train] = b
            f = cross @ spread + found.intercept
            value += float(share[test] @ self.loss.value(y, f))
            if gradient:
                e = share[test] * self.loss.slope(y, f)
                row = np.zeros(n)
                row[test] = e
                free = own.free(b)
                row[train[free]] -= _adjoint(own, block, b, free, (e @ cross)[train[free]], float(e.sum()))
                left.append(row)
                right.append(spread)
        if not gradient:
            return value, None
        return value, _outer_sum(np.array(left), np.array(right)) if left else np.zeros((n, n))


@dataclass
class OnRows(Criterion):
    """Base of the criteria of one machine, on some of the rows.

    Attributes
    ----------
    machine : Machine
        Over all rows.
    rows : int array
        Rows used, ascending.
    tol : float
        Relative gap of the machine.
    """

    machine: Machine
    rows: Rows
    tol: float = 1e-8
    _warm: Array | None = field(default=None, init=False, repr=False)

    @abstractmethod
    def of(self, own: Machine, K: Array, found: MachineSolution, gradient: bool) -> Value:
        """`at` of a solved machine and its kernel."""

    def at(self, K: Array, gradient: bool = True) -> Value:
        rows, own = self.rows, self.machine.restricted(self.rows)
        if own.one_class:
            return 0.0, np.zeros_like(K)
        block = np.ascontiguousarray(K[np.ix_(rows, rows)])
        found = own.solve(block, tol=self.tol, warm_start=self._warm)
        self._warm = found.dual_coef
        value, H = self.of(own, block, found, gradient)
        if H is None or len(rows) == len(K):
            return value, H
        out = np.zeros_like(K)
        out[np.ix_(rows, rows)] = H
        return value, out


@dataclass
class TrainingError(OnRows):
    """Mean loss on the training rows of the machine, as in the MLMKL paper; it favours overfitting.

    The derivative is that at fixed coefficients.

    Attributes
    ----------
    loss : Loss
        Of the decision values.
    """

    loss: Loss = field(kw_only=True)

    def of(self, own: Machine, K: Array, found: MachineSolution, gradient: bool) -> Value:
        b, share = found.dual_coef, shares_of(own, np.arange(len(K)))
        f = K @ b + found.intercept
        value, slope = self.error(own.y, f, share)
        return value, _outer_sum(slope[None], b[None]) if gradient else None

    def error(self, y: Array, f: Array, share: Array) -> tuple[float, Array]:
        """The mean loss, and its derivative by the decision values."""
        return float(share @ self.loss.value(y, f)), share * self.loss.slope(y, f)


@dataclass
class DualValue(OnRows):
    """The optimal value of the machine: its derivative is ``-b b' / 2``, without any further system."""

    def of(self, own: Machine, K: Array, found: MachineSolution, gradient: bool) -> Value:
        b = found.dual_coef[None]
        return found.primal, _outer_sum(-0.5 * b, b) if gradient else None


@dataclass
class SpanBound(OnRows):
    """A smooth estimate of the leave-one-out error of a classifier with the hinge loss.

    With a_p the multiplier of row p and S_p^2 the squared distance of its image from the span of the other free ones,
    removing a support vector lowers ``y_p f(x_p)`` by ``a_p S_p^2`` as long as no other row changes between free and
    bound. The criterion is the mean of ``Psi(a_p S_p^2 - y_p f(x_p))``, ``Psi(u) = 1 / (1 + exp(-5 u))``, with the
    spans of

        S_p^2 = 1 / ((M + D)^-1)_pp - D_pp                   for free rows,
        S_p^2 = K_pp - v'(M + D)^-1 v ,  v = [K_Fp; 1]       for rows at their bound,

    and D = smoothing / a on the free rows. Rows that are not support vectors contribute ``Psi(-1)``. If no other row is
    free, there is no span, and S_p^2 is K_pp.

    Attributes
    ----------
    machine : Machine
        Its loss must be the hinge.
    smoothing : float
        > 0.

    References
    ----------
    O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, Choosing multiple parameters for support vector machines,
    Machine Learning 46 (2002), sections 3.3 and 5. E. Strobl, S. Visweswaran, Deep multiple kernel learning,
    ICMLA 2013. The derivatives printed with the latter's code are wrong in several places; these are the exact ones.
    """

    smoothing: float = field(default=1.0, kw_only=True)

    def of(self, own: Machine, K: Array, found: MachineSolution, gradient: bool) -> Value:
        share = shares_of(own, np.arange(len(K)))
        spans = Spans.of(own, K, found.dual_coef, found.intercept, self.smoothing)
        smooth = 1.0 / (1.0 + np.exp(-STEEPNESS * np.clip(spans.fall, -100.0, 100.0)))
        value = float(share @ smooth)
        return value, spans.gradient(share * STEEPNESS * smooth * (1.0 - smooth)) if gradient else None


@dataclass(frozen=True)
class Spans:
    """Spans of the support vectors of a trained classifier, and their derivatives by the kernel.

    Attributes
    ----------
    machine : Machine
    K : array of shape (n, n)
    b : array of shape (n,)
    smoothing : float
    free, bound : int arrays
        Support vectors inside the box and at its edge.
    fall : array of shape (n,)
        ``a_p S_p^2 - y_p f(x_p)``: above 0, the row is expected to be misclassified if it is left out. -1 for rows
        that are not support vectors.
    span2 : array of shape (n_free,)
    inverse : array of shape (n_free, n_free)
        ``(M + D)^-1`` without its last row and column.
    through : array of shape (n_bound, n_free)
        ``(M + D)^-1 [K_Fp; 1]`` without its last entry, for every bound row.
    """

    machine: Machine
    K: Array
    b: Array
    smoothing: float
    free: Rows
    bound: Rows
    fall: Array
    span2: Array
    inverse: Array
    through: Array

    @classmethod
    def of(cls, machine: Machine, K: Array, b: Array, intercept: float, smoothing: float) -> Spans:
        """Spans of a solution."""
        y, size = machine.y, np.abs(b)
        free = machine.free(b)
        bound = np.setdiff1d(np.flatnonzero(b), free)
        fall = np.full(len(y), -1.0)
        inverse, span2 = np.zeros((0, 0)), np.zeros(0)
        through = np.zeros((len(bound), len(free)))
        distance = K[bound, bound].copy()
        if len(free):
            jitter = smoothing / size[free]
            A = K[np.ix_(free, free)]
            A.flat[:: len(free) + 1] += jitter
            system = Bordered(A, jitter=0.0)
            # a single free row has no span, not even through the sum of the coefficients
            inverse = system.inverse() if len(free) > 1 else 1.0 / A
            span2 = 1.0 / inverse.diagonal() - jitter
            fall[free] = size[free] * span2 - 1.0
            right = K[np.ix_(bound, free)]
            for p, g in enumerate(right):
                through[p], level = system.solve(g, 1.0)
                distance[p] -= float(g @ through[p]) + level
        if len(bound):
            f = K[bound] @ b + intercept
            fall[bound] = size[bound] * np.maximum(distance, 0.0) - y[bound] * f
        return cls(machine, K, b, smoothing, free, bound, fall, span2, inverse, through)

    def gradient(self, slope: Array) -> Array:
        """The symmetric derivative by K of a function whose derivatives by `fall` are `slope`."""
        y, K, b, free, bound = self.machine.y, self.K, self.b, self.free, self.bound
        size = np.abs(b)
        by_free, by_bound = slope[free], slope[bound]
        H = np.zeros_like(K)
        by_span = by_free * size[free]
        # derivative by M + D on the free rows
        system = (self.inverse * (by_span / np.square(self.inverse.diagonal()))) @ self.inverse.T
        by_coefficient = np.zeros(len(free))
        if len(bound):
            reach = by_bound * size[bound]
            H[bound, bound] += reach
            half = -reach[:, None] * self.through  # each pair has two entries
            H[np.ix_(bound, free)] += half
            H[np.ix_(free, bound)] += half.T
            system += (self.through.T * reach) @ self.through
            by_coefficient -= K[np.ix_(free, bound)] @ (by_bound * y[bound])
        H[np.ix_(free, free)] += system
        row = np.zeros(len(y))
        row[bound] = -by_bound * y[bound]
        if len(free):
            through_smoothing = (by_span - system.diagonal()) * self.smoothing / np.square(size[free])
            by_coefficient += np.sign(b[free]) * (by_free * self.span2 + through_smoothing)
            row[free] -= _adjoint(self.machine, K, b, free, by_coefficient, -float(by_bound @ y[bound]))
        H += 0.5 * (np.outer(row, b) + np.outer(b, row))
        return H


def _outer_sum(left: Array, right: Array) -> Array:
    """The upper triangle of ``sum_t (l_t r_t' + r_t l_t') / 2`` for rows of both."""
    n = left.shape[1]
    out = np.zeros((n, n))
    # the upper triangle of a C-ordered matrix is the lower one of its Fortran-ordered transpose
    # the rank is so low that a second thread makes it slower
    with one_blas_thread():
        done = blas.dsyr2k(0.5, left.T, right.T, beta=0.0, c=out.T, lower=1, overwrite_c=1)
    return done.T


def _adjoint(
    machine: Machine, K: Array, b: Array, free: Rows, by_coefficient: Array, by_intercept: float
) -> Array:
    """Derivative of the criterion by the right-hand side on the free rows, shape (n_free,)."""
    if not len(free):
        # the intercept is the middle of an interval, which is constant here
        return np.zeros(0)
    # learners of this criterion take losses that are sums over rows
    system = cast(Bordered | None, machine.loss.system(K, machine.y, machine.costs, b, free))
    return np.zeros(len(free)) if system is None else system.solve(by_coefficient, by_intercept)[0]
