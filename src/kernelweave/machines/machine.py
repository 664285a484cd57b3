"""Machines behind one interface: a loss with its data, as solvers of kernel weights see it.

With signed coefficients b the optimal value of every machine on a kernel K is

    J(K) = max_b  dual term(b) - 1/2 b'K b ,      dJ/dK = -1/2 b b' at the maximiser,

so weights depend on the kernels only through q_m = b'K_m b, and for a convex set of weights with support function
sigma, any feasible b bounds the joint optimum from below by ``dual term(b) - sigma(q) / 2``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, check_row_weights, of_given_rows
from kernelweave._loops import HAS_EXTENSION, core
from kernelweave._types import Array
from kernelweave.machines.box import Box, Values, kernel_product
from kernelweave.machines.loss import BoxLoss, Loss
from kernelweave.machines.losses import Hinge
from kernelweave.machines.polish import FEW
from kernelweave.results import Certificate, MachineSolution, Solution, Statement, Status

#: Tolerance of the box and of the sum of coefficients, as a share of the sum of their sizes.
OUTSIDE = 1e-12


@dataclass(frozen=True, eq=False)
class Machine:
    """A loss with its data.

    Attributes
    ----------
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets, as the loss takes them.
    C : float
        Weight of the loss.
    loss : Loss
    sample_weight : array of shape (n_samples,) or None
    max_iter : int or None
        Steps of one solution.
    fit_intercept : bool
    """

    y: Array
    C: float
    loss: Loss = field(default_factory=Hinge)
    sample_weight: Array | None = None
    max_iter: int | None = None
    fit_intercept: bool = True

    @cached_property
    def costs(self) -> Array:
        """C times the sample weights."""
        if self.sample_weight is None:
            return np.full(len(self.y), self.C, dtype=np.float64)
        return self.C * check_row_weights(self.sample_weight, len(self.y))

    def restricted(self, rows: NDArray[np.int64]) -> Machine:
        """The machine of some rows."""
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        return replace(self, y=self.y[rows], sample_weight=weights)

    @cached_property
    def box(self) -> Box:
        """The dual in numbers, of a loss with a box."""
        return self.loss.box(self.y, self.costs)

    @property
    def ridge(self) -> Array:
        """Ridge that the loss adds to the diagonal of the kernel."""
        return self.loss.ridge(self.costs)

    @property
    def one_class(self) -> bool:
        """Whether all rows have the same label."""
        return self.loss.classifies and bool((self.y == self.y[0]).all())

    @property
    def constant(self) -> float:
        """The decision value where all rows have the same label, which needs no kernel.

        The label itself if it has no loss. Otherwise, as the logistic loss of n rows falls without end, the best value
        for one row more, half of it with each label: ``log(2 n + 1)`` times the label.
        """
        y = self.y[:1]
        if not self.loss.value(y, y)[0] > 0:
            return float(y[0])
        n = float(len(self.y) if self.sample_weight is None else self.sample_weight.sum())
        return self.loss.intercept(np.r_[y, 1.0, -1.0], np.array([n, 0.5, 0.5]), np.zeros(3))

    def solve(
        self, K: Array, *, tol: float, warm_start: Array | None = None, entry_error: float = 0.0
    ) -> MachineSolution:
        """Solve on one kernel.

        Parameters
        ----------
        K : array of shape (n_samples, n_samples)
            Known to be symmetric and finite.
        tol : float
            Relative gap.
        warm_start : array of shape (n_samples,), optional
            Coefficients of a similar problem.
        entry_error : float, default=0.0
            Rounding errors of the entries of K, as a share of ``sqrt(K_ii K_jj)``.
        """
        return self.loss.solve(self, K, tol, warm_start, entry_error).solution

    def values(self, b: Array, product: Array, intercept: float | None = None) -> Values:
        """Primal value and gap of coefficients with ``product = K b``, at the best intercept or a given one."""
        if intercept is None and not self.fit_intercept:
            intercept = 0.0
        return self.loss.values(self, b, product, intercept)

    def rounding(self, b: Array, product: Array, at: Values, error: Array) -> float:
        """Bound of the rounding errors of these values, given that of the product."""
        return self.loss.rounding(self, b, product, at, error)

    def dual_term(self, b: Array) -> float:
        """The dual objective without the kernel's part."""
        return self.loss.dual_term(self.y, self.costs, b)

    def certify(self, K: Array, b: Array, intercept: float, entry_error: float = 0.0) -> Certificate:
        """The certificate of any coefficients and intercept on a kernel; the gap of coefficients outside is infinite.

        Products are summed in extended precision, unless the entries of K are less exact.
        """
        product, error = kernel_product(K, b, entry_error, long=entry_error == 0.0)
        return Certificate.of("machine", *self.bounds_of(product, error, b, intercept), Status.CONVERGED)

    def bounds_of(
        self, product: Array, error: Array, b: Array, intercept: float
    ) -> tuple[float, float, float]:
        """Primal value, gap and rounding errors of these from ``K b``, and a bound of the errors of the product."""
        at = self.values(b, product, intercept)
        rounding = self.rounding(b, product, at, error)
        possible = self.feasible(b, OUTSIDE) and (self.fit_intercept or intercept == 0.0)
        return at.primal, at.gap if possible else math.inf, rounding

    def infeasibility(self, b: Array) -> float:
        """The largest violation of a dual constraint by coefficients."""
        outside = self.loss.infeasibility(self.y, self.costs, b)
        return max(outside, abs(float(core.compensated_sum(b))) if self.fit_intercept else 0.0)

    def feasible(self, b: Array, tolerance: float) -> bool:
        """Whether coefficients are dual feasible up to a share of the sum of their sizes."""
        return self.infeasibility(b) <= tolerance * float(np.abs(b).sum())

    def statement(self, scale: Array, rows: NDArray[np.bool_] | None = None) -> Statement:
        """The machine in numbers, of all given rows."""
        if not self.loss.judged:
            raise InputError(
                f"A certificate of {self.loss!r} cannot be exported: judges do not know this loss. "
                "`problem.certify(solution)` computes it here."
            )
        weights = of_given_rows(check_row_weights(self.sample_weight, len(self.y)), rows)
        return Statement(
            self.loss.name, self.C, weights, scale, intercept=self.fit_intercept, parameters=vars(self.loss)
        )

    def free(self, b: Array) -> NDArray[np.int64]:
        """Free rows, whose coefficient changes with the kernel."""
        return self.loss.free(self.y, self.costs, b)

    def curvature(self, K: Array, b: Array, V: Array) -> Array:
        """Second derivative of J in the weights: ``V_F' P V_F``.

        P is the inverse of the kernel on the free rows F, with the curvature of the loss, on coefficients
        that sum to zero; V (n_kernels, n_samples) holds the K_m b. It is valid as long as the free rows do not
        change.
        """
        own, out = self.fit_intercept, np.empty((len(V), len(V)))
        compiled = HAS_EXTENSION and isinstance(self.loss, BoxLoss)
        if compiled and core.box_curvature(*self.box, K, b, V, own, FEW, out):
            return out
        where, system = self.free(b), None
        if len(where) > int(own):
            system = self.loss.system(K, self.y, self.costs, b, where, fit_intercept=own)
        return np.zeros((len(V), len(V))) if system is None else system.quadratic_forms(V[:, where])


@dataclass(frozen=True, eq=False)
class OnKernel:
    """A machine on one kernel, of shape (n_samples, n_samples)."""

    K: Array
    machine: Machine

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of coefficients and intercept."""
        return self.machine.certify(self.K, np.asarray(solution.dual_coef), float(solution.intercept))

    def statement(self, solution: Solution) -> Statement:
        """The machine in numbers."""
        return self.machine.statement(np.ones(1))
