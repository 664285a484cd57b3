"""Support vector machines on one kernel: hinge, squared hinge and epsilon-insensitive loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import (
    InputError,
    Labels,
    RowWeights,
    Start,
    Targets,
    check_positive,
    check_row_weights,
    check_tol,
    check_vector,
)
from kernelweave._parameters import Cost, MaxIter, Nonnegative, Switch, Tol, checked
from kernelweave._threads import blas_threads_for
from kernelweave.machines.box import UNBOUNDED, BoxProblem, OnIndefinite, as_kernel, check_start, project
from kernelweave.machines.rounding import EPS, of_machine
from kernelweave.machines.smo import Certificate, check_max_iter, solve_box
from kernelweave.results import SVMResult, relative_gap

Array = NDArray[np.float64]


@checked
def solve_svc(
    K: ArrayLike,
    y: Labels,
    C: Cost,
    *,
    sample_weight: RowWeights = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    warm_start: Start = None,
    on_indefinite: OnIndefinite = "raise",
    check: Switch = True,
) -> SVMResult:
    """Solve the support vector classifier with the hinge loss, and certify the solution.

    Minimises over f = <w, phi(x)> + intercept

        1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i f_i) ,     C_i = C * sample_weight_i ,

    through its dual, with signed coefficients b (b_i = a_i y_i for multipliers a_i),

        max_b  y'b - 1/2 b'K b     s.t.  0 <= y_i b_i <= C_i,  sum(b) = 0 .

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric positive semidefinite. Not modified, and not copied when it is C-contiguous float64.
    y : array of shape (n_samples,)
        Labels -1 and +1, both present.
    C : float
        Weight of the loss > 0, a sum over samples; in units of 1 / K.
    sample_weight : array of shape (n_samples,), optional
        Nonnegative. A weight equals a repetition, and a row of weight 0 takes no part. Weights of classes are
        weights of their rows.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``. About 1e-12 is the smallest that rounding lets most problems reach.
    max_iter : int, optional
        Largest number of SMO steps. Default: 1000000 plus 100 for each row.
    warm_start : array of shape (n_samples,), optional
        `dual_coef` of a similar problem, for example at another C or with another kernel. It is clipped and scaled
        to fit, and the best multiple of it is taken.
    on_indefinite : {"raise", "clip", "shift"}, default="raise"
        When K has negative eigenvalues: raise if that is noticed, or set them to zero, or add a multiple of the
        identity. The last two cost an eigendecomposition, and the result belongs to the changed matrix.
    check : bool, default=True
        Look at every entry of K for NaN and asymmetry.

    Returns
    -------
    SVMResult
        ``f = K @ dual_coef + intercept``. Non-convergence is reported in ``status``, never raised.

    Raises
    ------
    InputError
        Wrong shapes, NaN, an asymmetric matrix, C <= 0, labels other than -1 and +1, a single class.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    An SMO step reads two rows of K; Newton steps factorise the block of the support vectors inside the box, n_free^3
    / 3. Scaling K by a and C by 1 / a divides the coefficients by a and keeps f. Coefficients are unique when K is
    positive definite; f always is, up to an interval of intercepts.

    References
    ----------
    C. Cortes, V. Vapnik, Support-vector networks, Machine Learning 20 (1995). R.-E. Fan, P.-H. Chen, C.-J. Lin,
    Working set selection using second order information, JMLR 6 (2005).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_svc
    >>> x = np.array([-2.0, -1.0, 1.0, 3.0])
    >>> machine = solve_svc(np.outer(x, x), [-1, -1, 1, 1], C=10.0)
    >>> np.round(machine.dual_coef, 6), abs(round(machine.intercept, 6))
    (array([ 0. , -0.5,  0.5,  0. ]), 0.0)
    >>> machine.rel_gap <= 1e-6
    True
    """
    matrix = as_kernel(K, on_indefinite, check=check)
    return run_machine(*hinge(matrix, y, C, sample_weight), tol, max_iter, warm_start)


@checked
def solve_l2svc(
    K: ArrayLike,
    y: Labels,
    C: Cost,
    *,
    sample_weight: RowWeights = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    warm_start: Start = None,
    on_indefinite: OnIndefinite = "raise",
    check: Switch = True,
) -> SVMResult:
    """Solve the support vector classifier with the squared hinge loss, and certify the solution.

    Minimises over f = <w, phi(x)> + intercept

        1/2 ||w||^2 + 1/2 sum_i C_i max(0, 1 - y_i f_i)^2 ,     C_i = C * sample_weight_i ,

    which is the classifier without slack on ``K + diag(1 / C_i)``: its dual is

        max_b  y'b - 1/2 b'(K + diag(1 / C_i)) b     s.t.  y_i b_i >= 0,  sum(b) = 0 .

    Mind the factor: adding I / C to the kernel belongs to the loss ``C / 2 sum xi^2``, not ``C sum xi^2``.

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric positive semidefinite. Not modified, and not copied when it is C-contiguous float64.
    y : array of shape (n_samples,)
        Labels -1 and +1, both present.
    C : float
        Weight of the loss > 0, a sum over samples; in units of 1 / K.
    sample_weight : array of shape (n_samples,), optional
        Nonnegative. A weight equals a repetition, and a row of weight 0 takes no part.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``.
    max_iter : int, optional
        Largest number of SMO steps. Default: 1000000 plus 100 for each row.
    warm_start : array of shape (n_samples,), optional
        `dual_coef` of a similar problem, see `solve_svc`.
    on_indefinite : {"raise", "clip", "shift"}, default="raise"
        See `solve_svc`.
    check : bool, default=True
        Look at every entry of K for NaN and asymmetry.

    Returns
    -------
    SVMResult
        ``f = K @ dual_coef + intercept``, with the K that was given. At the solution the multipliers are C_i times
        the slacks.

    Raises
    ------
    InputError
        Wrong shapes, NaN, an asymmetric matrix, C <= 0, labels other than -1 and +1, a single class.
    NotPSDError
        A matrix that cannot be a kernel.

    References
    ----------
    O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, Choosing multiple parameters for support vector machines,
    Machine Learning 46 (2002), section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_l2svc
    >>> x = np.array([-1.0, 1.0])
    >>> solve_l2svc(np.outer(x, x), [-1, 1], C=2.0).dual_coef
    array([-0.4,  0.4])
    """
    matrix = as_kernel(K, on_indefinite, check=check)
    return run_machine(*squared_hinge(matrix, y, C, sample_weight), tol, max_iter, warm_start)


@checked
def solve_svr(
    K: ArrayLike,
    y: Targets,
    C: Cost,
    epsilon: Nonnegative = 0.1,
    *,
    sample_weight: RowWeights = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    warm_start: Start = None,
    on_indefinite: OnIndefinite = "raise",
    check: Switch = True,
) -> SVMResult:
    """Solve support vector regression with the epsilon-insensitive loss, and certify the solution.

    Minimises over f = <w, phi(x)> + intercept

        1/2 ||w||^2 + sum_i C_i max(0, abs(y_i - f_i) - epsilon) ,     C_i = C * sample_weight_i ,

    through its dual in n variables, where the two multipliers of a sample are the positive and negative part of b_i:

        max_b  y'b - epsilon ||b||_1 - 1/2 b'K b     s.t.  abs(b_i) <= C_i,  sum(b) = 0 .

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric positive semidefinite. Not modified, and not copied when it is C-contiguous float64.
    y : array of shape (n_samples,)
        Targets.
    C : float
        Weight of the loss > 0, a sum over samples; in units of y / K.
    epsilon : float, default=0.1
        Half width >= 0 of the tube without loss, in units of y.
    sample_weight : array of shape (n_samples,), optional
        Nonnegative. A weight equals a repetition, and a row of weight 0 takes no part.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``.
    max_iter : int, optional
        Largest number of SMO steps. Default: 1000000 plus 100 for each row.
    warm_start : array of shape (n_samples,), optional
        `dual_coef` of a similar problem, see `solve_svc`.
    on_indefinite : {"raise", "clip", "shift"}, default="raise"
        See `solve_svc`.
    check : bool, default=True
        Look at every entry of K for NaN and asymmetry.

    Returns
    -------
    SVMResult
        ``f = K @ dual_coef + intercept``.

    Raises
    ------
    InputError
        Wrong shapes, NaN, an asymmetric matrix, C <= 0, epsilon < 0.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    Costs are those of `solve_svc`: the kink at b_i = 0 takes the place of a second copy of the variables.

    References
    ----------
    A. J. Smola, B. Schölkopf, A tutorial on support vector regression, Statistics and Computing 14 (2004), (10).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_svr
    >>> x = np.array([-1.0, 0.0, 1.0])
    >>> machine = solve_svr(np.outer(x, x), 2.0 * x, C=10.0, epsilon=0.5)
    >>> np.outer(x, x) @ machine.dual_coef + machine.intercept
    array([-1.5,  0. ,  1.5])
    """
    matrix = as_kernel(K, on_indefinite, check=check)
    return run_machine(*tube(matrix, y, C, epsilon, sample_weight), tol, max_iter, warm_start)


# ---- the losses: a box problem and what certifies its coefficients --------------------------------


def hinge(K: Array, y: ArrayLike, C: float, sample_weight: ArrayLike | None) -> tuple[BoxProblem, Loss]:
    """The classifier with the hinge loss."""
    costs = check_positive(C, "C") * check_row_weights(sample_weight, len(K))
    labels = _labels(y, costs)
    lower, upper = np.minimum(0.0, labels * costs), np.maximum(0.0, labels * costs)
    return BoxProblem(K, np.zeros(len(K)), -labels, lower, upper), _Hinge(labels, costs)


def squared_hinge(
    K: Array, y: ArrayLike, C: float, sample_weight: ArrayLike | None
) -> tuple[BoxProblem, Loss]:
    """The classifier with the squared hinge loss."""
    costs = check_positive(C, "C") * check_row_weights(sample_weight, len(K))
    labels = _labels(y, costs)
    used = costs > 0
    most = np.where(used, UNBOUNDED, 0.0)
    ridge = np.divide(1.0, costs, out=np.zeros_like(costs), where=used)
    lower, upper = np.minimum(0.0, labels * most), np.maximum(0.0, labels * most)
    return BoxProblem(K, ridge, -labels, lower, upper), _SquaredHinge(labels, costs, ridge)


def tube(
    K: Array, y: ArrayLike, C: float, epsilon: float, sample_weight: ArrayLike | None
) -> tuple[BoxProblem, Loss]:
    """Regression with the epsilon-insensitive loss."""
    costs = check_positive(C, "C") * check_row_weights(sample_weight, len(K))
    epsilon = check_positive(epsilon, "epsilon", zero=True)
    targets = check_vector(y, "y", len(K))
    problem = BoxProblem(K, np.zeros(len(K)), -targets, -costs, costs, kink=epsilon)
    return problem, _Tube(targets, costs, epsilon)


@dataclass(frozen=True)
class Loss(ABC):
    """A loss with its data: certifies signed coefficients (see `kernelweave.machines.smo.Certify`).

    Attributes
    ----------
    target, costs : arrays of shape (n_samples,)
    """

    target: Array
    costs: Array

    @abstractmethod
    def __call__(self, b: Array, product: Array, factor: float) -> Certificate:
        """Certificate at the best intercept."""

    @abstractmethod
    def slope(self, f: Array) -> Array:
        """``C_i loss'(f_i)``; at a kink the steeper side."""

    @abstractmethod
    def pull(self, b: Array) -> Array:
        """Derivative of the reward."""

    def rounding(self, b: Array, product: Array, at: Certificate, error: Array) -> float:
        """Bound of the rounding errors of a certificate, given that of the product."""
        f = product + at.intercept
        # sums with a product of zero are exact
        error = error + EPS * (np.where(product != 0.0, np.abs(f), 0.0) + np.abs(self.target - f))
        return of_machine(
            b, f, error, low=self.slope(f - error), high=self.slope(f + error), pull=self.pull(b),
            loss=at.primal, gap=at.gap, bend=float(np.abs(b) @ np.abs(product)),
        )  # fmt: skip


class _Hinge(Loss):
    def __call__(self, b: Array, product: Array, factor: float) -> Certificate:
        labels, cost = self.target, factor * self.costs
        intercept = _hinge_intercept(labels - product, labels, cost)
        margin = 1.0 - labels * (product + intercept)
        loss = np.maximum(margin, 0.0)
        multipliers = labels * b
        gap = (cost - multipliers) @ loss + multipliers @ np.maximum(-margin, 0.0)
        return Certificate(0.5 * float(b @ product) + float(cost @ loss), float(gap), intercept)

    def slope(self, f: Array) -> Array:
        return np.where(self.target * f <= 1.0, -self.target * self.costs, 0.0)

    def pull(self, b: Array) -> Array:
        return self.target


@dataclass(frozen=True)
class _SquaredHinge(Loss):
    ridge: Array

    def __call__(self, b: Array, product: Array, factor: float) -> Certificate:
        labels, cost = self.target, factor * self.costs
        intercept = _squared_hinge_intercept(labels - product, labels, cost)
        margin = 1.0 - labels * (product + intercept)
        loss = np.maximum(margin, 0.0)
        multipliers = labels * b
        gap = 0.5 * cost @ np.square(loss - self.ridge / factor * multipliers) + multipliers @ np.maximum(
            -margin, 0.0
        )
        primal = 0.5 * float(b @ product) + 0.5 * float(cost @ np.square(loss))
        return Certificate(primal, float(gap), intercept)

    def slope(self, f: Array) -> Array:
        return -self.target * self.costs * np.maximum(1.0 - self.target * f, 0.0)

    def pull(self, b: Array) -> Array:
        return self.target - self.ridge * b


@dataclass(frozen=True)
class _Tube(Loss):
    epsilon: float

    def __call__(self, b: Array, product: Array, factor: float) -> Certificate:
        cost = factor * self.costs
        rest = self.target - product
        intercept = _quantile(
            np.concatenate([rest - self.epsilon, rest + self.epsilon]), np.tile(cost, 2), float(cost.sum())
        )
        rest -= intercept
        loss = np.maximum(np.abs(rest) - self.epsilon, 0.0)
        size = np.abs(b)
        # the second bracket is nonnegative but for rounding
        gap = (cost - size) @ loss + size @ np.maximum(loss + self.epsilon - np.sign(b) * rest, 0.0)
        return Certificate(0.5 * float(b @ product) + float(cost @ loss), float(gap), intercept)

    def slope(self, f: Array) -> Array:
        rest = f - self.target
        return np.where(np.abs(rest) >= self.epsilon, self.costs * np.sign(rest), 0.0)

    def pull(self, b: Array) -> Array:
        return self.target - self.epsilon * np.sign(b)


def run_machine(
    problem: BoxProblem, loss: Loss, tol: float, max_iter: int | None, warm_start: ArrayLike | None
) -> SVMResult:
    """Solve one of these problems, and certify the solution."""
    tol, max_iter = check_tol(tol), check_max_iter(max_iter)
    n = len(problem.linear)
    start = None if warm_start is None else project(problem, check_start(warm_start, n))
    with blas_threads_for(n):
        found = solve_box(
            problem, loss, tol=tol, max_iter=max_iter, start=np.zeros(n) if start is None else start
        )
    primal, gap = found.certificate.primal, found.certificate.gap + found.rounding
    return SVMResult(
        dual_coef=found.b,
        intercept=found.certificate.intercept,
        primal=primal,
        dual=primal - gap,
        gap=gap,
        rel_gap=relative_gap(primal, gap),
        status=found.status,
        n_iter=found.n_iter,
        support=np.flatnonzero(found.b),
        infeasibility=problem.infeasibility(found.b),
        rounding=found.rounding,
    )


def _labels(y: ArrayLike, costs: Array) -> Array:
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


def _quantile(points: Array, weights: Array, level: float) -> float:
    """Where the sum of the weights of smaller points passes `level`; the middle when that is an interval."""
    order = np.argsort(points)
    total = np.cumsum(weights[order])
    # sums that differ by rounding are equal: the function is flat between such points
    slack = 1e-13 * total[-1]
    first = int(np.searchsorted(total, level - slack))
    last = int(np.searchsorted(total, level + slack, side="right"))
    ends = points[order[[min(first, len(order) - 1), min(last, len(order) - 1)]]]
    return 0.5 * float(ends[0] + ends[1])


def _hinge_intercept(rest: Array, labels: Array, costs: Array) -> float:
    """Minimiser t of ``sum_i C_i max(0, y_i (rest_i - t))``, the middle when it is not unique."""
    used = costs > 0
    return _quantile(rest[used], costs[used], float(costs[labels > 0].sum()))


def _squared_hinge_intercept(rest: Array, labels: Array, costs: Array) -> float:
    """Minimiser t of ``sum_i C_i max(0, y_i (rest_i - t))^2``."""
    order = np.argsort(rest)
    points, weights, positive = rest[order], costs[order], labels[order] > 0
    # t lies before the first point at which the derivative is nonnegative; there, positive samples from this point
    # on and negative ones before it have a loss
    above, below = np.where(positive, weights, 0.0), np.where(positive, 0.0, weights)
    mass = above.sum() - np.cumsum(above) + np.cumsum(below)
    moment = above @ points - np.cumsum(above * points) + np.cumsum(below * points)
    rising = np.flatnonzero(mass * points >= moment)
    first = int(rising[0]) if len(rising) else len(points)
    active = np.where(np.arange(len(points)) >= first, above, below)
    total = float(active.sum())
    return float(active @ points) / total if total > 0 else float(points[min(first, len(points) - 1)])
