"""The interface of losses: all that solvers need of a machine.

With signed coefficients b, costs C_i >= 0 and f = K b + intercept the machine of a loss is

    min  1/2 ||w||^2 + sum_i C_i loss(y_i, f_i)   =   max_b  dual term(b) - 1/2 b'K b     s.t.  sum(b) = 0 ,

where the dual term is minus the sum of the conjugates of ``C_i loss(y_i, .)`` at ``-b_i``. At fixed intercept the gap
between the two is a sum of one nonnegative number for each row, which is how it is computed: the difference of the two
values would lose the digits that a small tolerance needs.

Losses are values without data, see `kernelweave.machines.losses`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError, check_kernel_matrix
from kernelweave._parameters import ReadableSignature
from kernelweave._threads import blas_threads_for
from kernelweave.machines.box import BoxProblem, check_start, project
from kernelweave.machines.least_squares import Bordered
from kernelweave.machines.rounding import EPS, of_machine
from kernelweave.machines.smo import Values, solve_box
from kernelweave.results import MachineSolution

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """What `Loss.solve` is asked for, checked.

    Attributes
    ----------
    K : array of shape (n_rows, n_rows)
    y, costs : arrays of shape (n_rows,)
    tol : float
    start : array of shape (n_rows,) or None
        Coefficients of a similar problem.
    entry_error : float
    max_iter : int or None
    """

    K: Array
    y: Array
    costs: Array
    tol: float
    start: Array | None
    entry_error: float
    max_iter: int | None


@dataclass(frozen=True)
class Sides:
    """The dual of a machine for an interior point: one variable for a row of a class, two for a tube.

    Attributes
    ----------
    sign, gain : arrays of shape (n_sides, n_rows)
        ``b = sum(sign * a)``, ``0 <= a <= upper``; the dual term is ``sum(gain * a) - 1/2 sum(ridge * a^2)``.
    upper, ridge : arrays of shape (n_rows,)
        Infinite bounds go with a ridge.
    start : array of shape (n_sides, n_rows)
        Coefficients whose b sums to zero, up to their size.
    """

    sign: Array
    gain: Array
    upper: Array
    ridge: Array
    start: Array

    def loss(self, f: Array) -> float:
        """The sum of losses at f."""
        excess = np.maximum(self.gain - self.sign * f, 0.0)
        if np.isfinite(self.upper).all():
            return float((self.upper * excess).sum())
        return float((0.5 * np.square(excess) / self.ridge).sum())


class System(Protocol):
    """``[A 1; 1' 0]`` with the kernel on free rows and the curvature of the loss in A."""

    def solve(self, g: Array, s: float = 0.0) -> tuple[Array, float]:
        """Solution x and t for the right-hand side g and s."""

    def quadratic_forms(self, U: Array) -> Array:
        """``U P U'`` for U of shape (k, n_free), P the inverse without its last row and column."""


@dataclass(frozen=True)
class Loss(ABC):
    """Base class of losses. Arrays have one entry for each row: targets y, costs C_i, coefficients b, values f."""

    __signature__ = ReadableSignature()

    name: ClassVar[str]
    #: Whether targets are the labels -1 and 1.
    classifies: ClassVar[bool] = False
    #: Whether `sides` gives the dual as a quadratic program.
    quadratic: ClassVar[bool] = False
    #: Whether the loss is piecewise linear: coefficients have bounds and no curvature, so that duals are quick.
    piecewise_linear: ClassVar[bool] = False

    @property
    def tube(self) -> float:
        """Half width of a tube without loss."""
        return 0.0

    @abstractmethod
    def check(self, y: ArrayLike, costs: Array) -> Array:
        """The targets as an array; raises `InputError` for those that cannot be used."""

    @abstractmethod
    def losses(self, y: Array, f: Array) -> Array:
        """The loss of every row."""

    def log_probability(self, f: Array) -> Array | None:
        """Logarithm of the probability of the label 1 at f, that of -1 at -f; None for a loss without probabilities."""
        return None

    @abstractmethod
    def slope(self, y: Array, costs: Array, f: Array) -> Array:
        """``C_i`` times the derivative of the loss by f; at a kink the steeper side."""

    @abstractmethod
    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        """The best intercept for ``f = product + intercept``; the middle if it is not unique."""

    @abstractmethod
    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        """Sum of loss, conjugate and ``b f``, summed from nonnegative terms."""

    @abstractmethod
    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        """The dual objective without the kernel's part."""

    @abstractmethod
    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        """Derivative of the dual term."""

    @abstractmethod
    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        """Bounds of the coefficients in the dual."""

    def ridge(self, costs: Array) -> Array:
        """Ridge that the loss adds to the diagonal of the kernel, for all coefficients."""
        return np.zeros(len(costs))

    def free(self, costs: Array, b: Array) -> Index:
        """Free rows, whose coefficient changes with the kernel: neither zero nor at a bound."""
        return np.flatnonzero((b != 0) & (np.abs(b) < costs))

    def system(self, K: Array, costs: Array, b: Array, rows: Index) -> System | None:
        """The linear system of the change of free coefficients with the kernel; None if there is none.

        Parameters
        ----------
        K : array of shape (n_samples, n_samples)
        costs, b : arrays of shape (n_samples,)
        rows : array of int, shape (n_free,)
            See `free`.
        """
        block = K[np.ix_(rows, rows)]
        block.flat[:: len(rows) + 1] += self.ridge(costs)[rows]
        # a kernel of zeros has no scale for a multiple of the identity
        return Bordered(block) if float(block.diagonal().mean()) > 0.0 else None

    def curvature(self, K: Array, costs: Array, b: Array, V: Array) -> Array:
        """Second derivative of J in kernel weights; see `Machine.curvature`."""
        where = self.free(costs, b)
        system = self.system(K, costs, b, where) if len(where) > 1 else None
        return np.zeros((len(V), len(V))) if system is None else system.quadratic_forms(V[:, where])

    def sides(self, y: Array, costs: Array) -> Sides | None:
        """The dual for an interior point; None if it is not a quadratic program."""
        return None

    def solve(
        self,
        K: Array,
        y: ArrayLike,
        costs: Array,
        *,
        tol: float,
        warm_start: ArrayLike | None = None,
        entry_error: float = 0.0,
        max_iter: int | None = None,
    ) -> MachineSolution:
        """Solve on one kernel that is known to be symmetric and finite.

        Parameters
        ----------
        K : array of shape (n_samples, n_samples)
        y : array of shape (n_samples,)
        costs : array of shape (n_samples,)
            C_i >= 0; rows with 0 are ignored.
        tol : float
            Relative gap.
        warm_start : array of shape (n_samples,), optional
            `dual_coef` of a similar problem.
        entry_error : float, default=0.0
            Rounding errors of the entries of K, as a share of ``sqrt(K_ii K_jj)``.
        max_iter : int, optional
        """
        K = check_kernel_matrix(K)
        start = None if warm_start is None else check_start(warm_start, len(K))
        return self._solve(Asked(K, self.check(y, costs), costs, tol, start, entry_error, max_iter))

    @abstractmethod
    def _solve(self, asked: Asked) -> MachineSolution: ...

    def values(
        self, y: Array, costs: Array, b: Array, product: Array, intercept: float | None = None
    ) -> Values:
        """Primal value and gap of coefficients with ``product = K b``, at the best intercept or a given one."""
        if intercept is None:
            intercept = self.intercept(y, costs, product)
        f = product + intercept
        primal = 0.5 * float(b @ product) + float(costs @ self.losses(y, f))
        return Values(primal, self.gap(y, costs, b, f), intercept)

    def rounding(self, y: Array, costs: Array, b: Array, product: Array, at: Values, error: Array) -> float:
        """Bound of the rounding errors of these values, given that of the product."""
        f = product + at.intercept
        # sums with a product of zero are exact
        error = error + EPS * (np.where(product != 0.0, np.abs(f), 0.0) + np.abs(y - f))
        return of_machine(
            b,
            f,
            error,
            low=self.slope(y, costs, f - error),
            high=self.slope(y, costs, f + error),
            dual_slope=self.dual_slope(y, costs, b),
            loss=at.primal,
            gap=at.gap,
            form=float(np.abs(b) @ np.abs(product)),
        )


@dataclass(frozen=True)
class _Bounds:
    """A loss with its data, for `solve_box`."""

    loss: Loss
    y: Array
    costs: Array

    def __call__(self, b: Array, product: Array, factor: float) -> Values:
        return self.loss.values(self.y, factor * self.costs, b, product)

    def rounding(self, b: Array, product: Array, at: Values, error: Array) -> float:
        return self.loss.rounding(self.y, self.costs, b, product, at, error)


@dataclass(frozen=True)
class BoxLoss(Loss):
    """A loss whose dual is a quadratic program with a box, and a kink at zero for a tube."""

    quadratic: ClassVar[bool] = True

    def _solve(self, asked: Asked) -> MachineSolution:
        K, y, costs = asked.K, asked.y, asked.costs
        lower, upper = self.bounds(y, costs)
        problem = BoxProblem(
            K, self.ridge(costs), -y, lower, upper, kink=self.tube, entry_error=asked.entry_error
        )
        start = None if asked.start is None else project(problem, asked.start)
        start = np.zeros(len(K)) if start is None else start
        with blas_threads_for(len(K)):
            found = solve_box(
                problem, _Bounds(self, y, costs), tol=asked.tol, max_iter=asked.max_iter, start=start
            )
        return MachineSolution.of(
            found.b,
            found.intercept,
            found.certificate,
            n_iter=found.n_iter,
            infeasibility=problem.infeasibility(found.b),
        )


def check_labels(y: ArrayLike, costs: Array) -> Array:
    """Labels -1 and 1, both present among the rows with a cost."""
    try:
        labels = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        labels = np.full(len(costs), np.nan)
    if labels.shape != costs.shape:
        raise InputError(f"`y` must have one label per row of K, shape {costs.shape}, got {labels.shape}.")
    if not (np.abs(labels) == 1.0).all():
        found = sorted({str(label) for label in np.asarray(y).tolist()})[:4]
        raise InputError(
            f"`y` must hold the labels -1 and +1, got {found}. Encode them, for example "
            "np.where(y == positive, 1, -1), or use MKLClassifier."
        )
    counted = labels[costs > 0]
    if not (counted > 0).any() or not (counted < 0).any():
        kind = "class" if costs.all() else "class among the rows with positive weight"
        raise InputError(f"`y` must hold both labels, -1 and +1, got a single {kind}. Pass rows of both.")
    return labels
