"""The quadratic program of machines with one kernel, its derivatives and feasible points.

    min  1/2 b'Q b + q'b + kink |b|_1     s.t.  1'b = total,  lower <= b <= upper,     Q = K + diag(ridge) ,

in signed coefficients b, with ``lower <= 0 <= upper``. With g = Q b + q, the derivative of coordinate i is
``U_i = g_i +- kink`` upwards and ``D_i = g_i +- kink`` downwards (infinite where the box ends); b is optimal when
some level lies between all D and all U.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import (
    ROUNDED,
    InputError,
    as_floats,
    check_finite,
    check_kernel_matrix,
    rounding_tol,
)
from kernelweave._loops import core
from kernelweave._parameters import OneOf
from kernelweave._types import Array
from kernelweave.gram.repair import CORRECTIONS, repair
from kernelweave.machines.rounding import EPS, sum_error
from kernelweave.results import Certificate, MachineSolution, Status

#: Represents infinity, as the compiled core assumes finite numbers.
UNBOUNDED = 1e300
#: Treatments of a matrix that is not positive semidefinite.
OnIndefinite = Annotated[str, OneOf("raise", *CORRECTIONS)]


#: What a matrix with a direction of negative curvature gets as an answer.
INDEFINITE = (
    "`K` must be positive semidefinite, got a matrix with a direction of negative curvature. Use another "
    "kernel, repair the matrices with kernelweave.solvers.repair_gram, or pass on_indefinite='clip' (drop negative "
    "eigenvalues) or 'shift' (add a multiple of the identity) to solvers of a single kernel."
)


class Values(NamedTuple):
    """Values of a machine at coefficients.

    Attributes
    ----------
    primal, gap : float
        The dual value is ``primal - gap``. The gap is summed from one nonnegative term for each sample: the
        difference of the two values would lose the digits that a small tolerance needs.
    intercept : float
    """

    primal: float
    gap: float
    intercept: float


class Trained(NamedTuple):
    """A machine on one kernel, as solvers of kernel weights see it; `solution` is what users get.

    Attributes
    ----------
    dual_coef : array of shape (n_samples,)
    intercept, primal : float
    own_gap : float
        The gap without rounding errors.
    rounding : float
        Bound of the rounding errors of the gap.
    ended : Status
        How it ended, unless the gap decides.
    tol : float or None
        The required relative gap; None if the gap does not decide.
    n_iter : int
        SMO steps plus systems.
    infeasibility : float
        The largest violation of a constraint of the dual.
    """

    dual_coef: Array
    intercept: float
    primal: float
    own_gap: float
    rounding: float
    ended: Status
    tol: float | None = None
    n_iter: int = 0
    infeasibility: float = 0.0

    @property
    def certificate(self) -> Certificate:
        """The bounds, with the status that follows."""
        bounds = self.primal, self.own_gap, self.rounding
        return Certificate.of("machine", *bounds, self.ended, tol=self.tol)

    @property
    def status(self) -> Status:
        """That of the certificate."""
        return self.certificate.status

    @property
    def solution(self) -> MachineSolution:
        """The machine with its certificate."""
        given = np.ones(1), self.dual_coef, self.intercept, self.certificate, self.n_iter
        return MachineSolution(*given, infeasibility=self.infeasibility)


class Point(NamedTuple):
    """Coefficients of a box problem as they are reported, and what is known of them.

    Attributes
    ----------
    b, product, error, g : arrays of shape (n,)
        Coefficients, their product with K and a bound of its rounding errors, and ``Q b + linear``.
    resolution, value, infeasibility, rounding : float
        The rounding error of an entry of g, the value of the problem, the largest violation of a constraint, and a
        bound of the rounding errors of the values of the machine.
    primal, gap, intercept : float
        As in `Values`.
    """

    b: Array
    product: Array
    error: Array
    g: Array
    resolution: float
    value: float
    infeasibility: float
    rounding: float
    primal: float
    gap: float
    intercept: float


class Box(NamedTuple):
    """The dual of a machine in numbers, but for the kernel.

    Attributes
    ----------
    linear, ridge, lower, upper : arrays of shape (n,)
        ``lower <= 0 <= upper``; large numbers stand for infinity.
    kink : float
        >= 0.
    """

    linear: Array
    ridge: Array
    lower: Array
    upper: Array
    kink: float = 0.0


class WithData(Protocol):
    """A loss with its data, as its solvers see it: a `kernelweave.machines.machine.Machine`."""

    @property
    def y(self) -> Array:
        """Targets."""

    @property
    def costs(self) -> Array:
        """C times the weights of the rows."""

    @property
    def box(self) -> Box:
        """The dual in numbers, of a loss with a box."""

    @property
    def max_iter(self) -> int | None:
        """Steps of one solution."""

    @property
    def fit_intercept(self) -> bool:
        """Whether there is an intercept."""

    def values(self, b: Array, product: Array, intercept: float | None = None) -> Values:
        """The values at the best intercept, or a given one, with ``product = K b``."""

    def rounding(self, b: Array, product: Array, at: Values, error: Array) -> float:
        """Bound of the rounding errors of these values, given that of the product."""

    def infeasibility(self, b: Array) -> float:
        """The largest violation of a dual constraint by coefficients."""

    def restricted(self, rows: NDArray[np.int64]) -> Self:
        """The machine of some rows."""


@dataclass(frozen=True, eq=False)
class BoxProblem:
    """The data of the quadratic program.

    Attributes
    ----------
    K : array of shape (n, n)
        Symmetric, C-contiguous; never written.
    box : Box
    total : float
    entry_error : float
        Rounding errors of the entries of K, as a share of ``sqrt(K_ii K_jj)``: 0 for given matrices, positive
        for sums of kernels.
    """

    K: Array
    box: Box
    total: float = 0.0
    entry_error: float = 0.0

    def look(self, at: Array, *, before: bool = False) -> Point:
        """Coefficients without differences from zero and bounds that are only rounding.

        Before a solution those that must sum to zero are made feasible, and multiplied by the best factor.
        """
        b, (product, error, g) = at.copy(), np.empty((3, len(at)))
        own = self.K, self.total, self.entry_error, before, b, product, error, g
        return Point(b, product, error, g, *core.box_look(*self.box, *own))

    def values(self, b: Array, product: Array) -> Values:
        """The values of the machine at b, at the best intercept, with ``product = K b``."""
        return Values(*core.box_values(*self.box, b, product, 0.0, True))

    def rounding(self, b: Array, product: Array, at: Values, error: Array) -> float:
        """Bound of the rounding errors of these values, given that of the product."""
        return float(core.box_rounding(*self.box, b, product, at.intercept, error, at.primal + at.gap, True))

    def scaled(self, factor: float) -> Self:
        """The problem with C multiplied by a factor."""
        linear, ridge, lower, upper, kink = self.box
        return replace(self, box=Box(linear, ridge / factor, lower * factor, upper * factor, kink))


def kernel_product(K: Array, b: Array, entries: float = 0.0, *, long: bool = False) -> tuple[Array, Array]:
    """``K b``, and a bound of its rounding errors, those of the entries of K as a share of ``sqrt(K_ii K_jj)``."""
    out = np.zeros_like(b)
    (core.long_product if long else core.add_rows)(K, b, out)
    # abs(K_ij) <= sqrt(K_ii K_jj), also for the terms of a sum of kernels; a product with abs(K) would be sharper
    # only by a small factor
    root = np.sqrt(np.maximum(np.diag(K), 0.0))
    size = root * float(root @ np.abs(b))
    own = sum_error(int(np.count_nonzero(b)), long=long) * size + (EPS * np.abs(out) if long else 0.0)
    return out, own + entries * size


def derivatives(problem: BoxProblem, b: Array, g: Array) -> tuple[Array, Array]:
    """U and D: derivatives of all coordinates upwards and downwards, infinite where the box ends."""
    up = np.where(b < 0, g - problem.box.kink, g + problem.box.kink)
    down = np.where(b > 0, g + problem.box.kink, g - problem.box.kink)
    up[b >= problem.box.upper] = np.inf
    down[b <= problem.box.lower] = -np.inf
    return up, down


def resolution(problem: BoxProblem, b: Array) -> float:
    """Rounding error of a derivative at b."""
    largest, level = (
        float(np.abs(problem.K.diagonal() + problem.box.ridge).max()),
        float(np.abs(problem.box.linear).max()),
    )
    return 8.0 * EPS * (largest * float(np.abs(b).sum()) + level)


def as_kernel(K: ArrayLike, on_indefinite: str, *, check: bool = True) -> Array:
    """A training kernel, checked, symmetric, C-contiguous and float64; copied only where it must be.

    With ``on_indefinite="clip"`` or ``"shift"`` negative eigenvalues are removed here, at the cost of an
    eigendecomposition. ``check=False`` skips the check of all entries.
    """
    matrix = check_kernel_matrix(K)
    if check:
        asymmetry, size, bad = core.inspect(matrix)
        if bad:
            check_finite(matrix, "K")
        if asymmetry > ROUNDED * size and asymmetry > rounding_tol(K) * size:
            raise InputError(
                f"`K` must be symmetric, got max |K - K'| = {asymmetry:.3g} with entries up to {size:.3g}. "
                "Pass (K + K.T) / 2 if the difference is rounding, or K(X_train, X_train) if it is a cross-Gram."
            )
        if asymmetry > 1e-14 * size:
            matrix = 0.5 * (matrix + matrix.T)
    return matrix if on_indefinite == "raise" else repair(matrix, on_indefinite)


def check_start(warm_start: ArrayLike, n_samples: int) -> Array:
    """Coefficients to start from, as a finite array; they need not fit the problem."""
    start = as_floats(warm_start, "start")
    if start.shape != (n_samples,):
        raise InputError(
            f"`start` must be the `dual_coef` of an earlier result, shape ({n_samples},), got shape "
            f"{start.shape}. Leave it out for another set of rows."
        )
    check_finite(start, "start")
    return start
