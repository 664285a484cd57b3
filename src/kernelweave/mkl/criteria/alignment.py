"""Kernel weights from the targets, before and without a machine: alignment, and alignment of the combination.

The alignment of a kernel with the targets is the cosine between two matrices,

    rho(K) = <K^c, T> / (|K^c| |T|) ,      T = y^c y^c' ,

with Frobenius products of the centred matrices. It lies between 0 and 1 for positive semidefinite kernels. Sample
weights enter the mean and the products, so that a weight is equivalent to a repetition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from kernelweave._allowance import used_up
from kernelweave._checks import (
    InputError,
    RowWeights,
    Scale,
    Targets,
    check_row_weights,
    check_scale,
    check_vector,
)
from kernelweave._parameters import MaxIter, MaxTime, Tol, checked
from kernelweave._threads import blas_threads_for
from kernelweave._types import Array, Index
from kernelweave.gram import Gram, as_gram
from kernelweave.machines.rounding import EPS, sum_error
from kernelweave.mkl.certify import outside
from kernelweave.mkl.frobenius import frobenius_norms, frobenius_products
from kernelweave.results import (
    REACHED,
    AlignmentSolution,
    Certificate,
    Solution,
    Statement,
    Status,
)


@checked
def solve_align(
    gram: Gram | ArrayLike,
    y: Targets,
    *,
    scale: Scale = None,
    sample_weight: RowWeights = None,
) -> AlignmentSolution:
    """Weight kernels by their own alignment with the targets (Align).

    ``weights_m`` is proportional to ``max(0, rho(K_m))``, the centred alignment.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last. Not modified.
    y : array of shape (n_samples,)
        Labels or real targets. Only their deviations from the mean matter, up to a factor.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0 of the kernels. They have no effect here, because an alignment is a cosine.
    sample_weight : array of shape (n_samples,), optional
        Nonnegative. A weight is equivalent to a repetition, and a row of weight 0 is ignored.

    Returns
    -------
    AlignmentSolution
        These weights do not solve an optimisation problem: `primal`, `dual` and `gap` are NaN.

    Raises
    ------
    InputError
        Wrong shapes, NaN, constant targets, or no kernel with a positive alignment.

    Notes
    -----
    Costs n^2 / 2 products for each kernel, ``rank^2 n`` for factors of low rank; memory of about one matrix. Kernels
    that are constant on these rows get weight 0.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, Algorithms for learning kernels based on centered alignment, JMLR 13 (2012),
    section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.solvers import solve_align
    >>> X = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> solve_align(X[:, None, :] * X[None, :, :], X @ [2.0, 1.0]).weights
    array([0.8, 0.2])
    """
    stack, _, row_weight = _prepare(gram, scale, sample_weight)
    target, _ = _centred_target(y, row_weight)
    with blas_threads_for(stack.n_samples):
        alignments = _alignments(stack, target, row_weight, frobenius_norms(stack, row_weight))
    optimises_nothing = Certificate("alignment", math.nan, math.nan, math.nan)
    return AlignmentSolution(
        alignments / alignments.sum(), np.empty(0), 0.0, optimises_nothing, 0, alignments=alignments
    )


@checked
def solve_alignf(
    gram: Gram | ArrayLike,
    y: Targets,
    *,
    scale: Scale = None,
    sample_weight: RowWeights = None,
    tol: Tol = 1e-10,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
) -> AlignmentSolution:
    """Find the combination of kernels with the largest alignment (AlignF), and certify it.

    Maximises ``rho(sum_m d_m s_m K_m)`` over d >= 0, which is, up to the length of d,

        min_{v >= 0} v'Mv - 2 v'a ,    M_kl = s_k s_l <K_k^c, K_l^c> ,    a_k = s_k <K_k^c, T> .

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last. Not modified.
    y : array of shape (n_samples,)
        Labels or real targets. Only their deviations from the mean matter, up to a factor.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1. They change the weights, but the combined kernel only by a factor.
    sample_weight : array of shape (n_samples,), optional
        Nonnegative. A weight is equivalent to a repetition, and a row of weight 0 is ignored.
    tol : float, default=1e-10
        Stop when ``gap <= tol * alignment``.
    max_iter : int, optional
        Largest number of linear systems. Default: 100 plus 5 for each kernel.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.

    Returns
    -------
    AlignmentSolution
        Non-convergence is reported in ``status``, never raised.

    Raises
    ------
    InputError
        Wrong shapes, NaN, constant targets, or no kernel with a positive alignment.

    Notes
    -----
    M costs n^2 / 2 products for each pair of kernels, ``rank_k rank_l n`` if both are factors of low rank, with
    memory for about one matrix and M. The gap contains the rounding errors of centring, which are large for kernels
    far from zero, and what truncated factors leave out. Kernels that are constant on these rows get weight 0. Weights
    are unique when M is nonsingular; the combined kernel, centred, always is.

    With kernels of length 1 and g = a - Mu, any other combination v of length 1 has
    ``<v, a> = <v, Mu> + <v, g> <= |u|_M + |max(g, 0)|``: products of positive semidefinite matrices are nonnegative,
    therefore the coefficients of v have at most length 1. `gap` follows from this.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, Algorithms for learning kernels based on centered alignment, JMLR 13 (2012),
    section 4.2. C. L. Lawson, R. J. Hanson, Solving least squares problems (1974), chapter 23: the
    active-set method.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.solvers import solve_alignf
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> result = solve_alignf(X[:, None, :] * X[None, :, :], X[:, 0] - 2 * X[:, 2])
    >>> int(np.argmax(result.weights)), result.rel_gap <= 1e-10
    (2, True)
    """
    stack, factors, row_weight = _prepare(gram, scale, sample_weight)
    with blas_threads_for(stack.n_samples):
        at = KernelTargets.of(stack, y, row_weight)
        most = 100 + 5 * len(at.used) if max_iter is None else max_iter
        u, n_iter = _nonnegative_least_squares(at.cosines, at.alignments[at.used], tol, most)
    status = Status.MAX_ITER if n_iter >= most else REACHED[used_up()] or Status.STALLED
    weights = np.zeros(stack.n_kernels)
    weights[at.used] = u / (at.lengths * factors[at.used])
    return AlignmentSolution(
        weights=weights / weights.sum(),
        dual_coef=np.empty(0),
        intercept=0.0,
        certificate=certify_alignment(at, u, tol, status),
        n_iter=n_iter,
        alignments=at.alignments,
    )


@dataclass(frozen=True)
class KernelTargets:
    """Products of centred kernels and targets, all of length 1.

    Attributes
    ----------
    used : array of int
        Kernels that are aligned with the targets.
    lengths : array of shape (n_used,)
        Lengths of these kernels, centred.
    cosines : array of shape (n_used, n_used)
    alignments : array of shape (n_kernels,)
    errors : array of shape (n_used,)
        Rounding errors of kernels, as shares of their lengths.
    target_error : float
        Rounding errors of the targets.
    """

    used: Index
    lengths: Array
    cosines: Array
    alignments: Array
    errors: Array
    target_error: float

    @classmethod
    def of(cls, gram: Gram, y: ArrayLike, row_weight: Array) -> KernelTargets:
        """Those of kernels and targets."""
        target, target_error = _centred_target(y, row_weight)
        M, errors = frobenius_products(gram, row_weight)
        norms = np.sqrt(np.diag(M))
        alignments = _alignments(gram, target, row_weight, norms)
        used = np.flatnonzero(alignments)
        length = norms[used]
        return cls(
            used,
            length,
            M[np.ix_(used, used)] / np.outer(length, length),
            alignments,
            errors[used] / length + sum_error(gram.n_samples**2),
            target_error,
        )


def certify_alignment(at: KernelTargets, u: Array, tol: float, status: Status) -> Certificate:
    """Bounds of the largest alignment, for kernels and a target that are off by shares of their lengths."""
    cosines, linear, of_kernels, of_target = at.cosines, at.alignments[at.used], at.errors, at.target_error
    product = cosines @ u
    curvature = float(u @ product)
    # the best multiple of u has the length of its alignment
    factor = float(u @ linear) / curvature
    value = factor * math.sqrt(curvature)
    u, product = factor * u, factor * product
    slope = linear - product
    own = float(np.linalg.norm(np.maximum(slope, 0.0)))
    # at first order, of the length of u, of u'a divided by it, and of the slope of each kernel; a quadratic form of the
    # target is off by at most twice its centred kernel
    off = float(u @ of_kernels)
    of_value = off + 2.0 * off / value + 2.0 * of_target + 2.0 * off
    of_slopes = (2.0 + value) * of_kernels + 2.0 * of_target + off
    reach = float(np.linalg.norm(np.maximum(slope + of_slopes, 0.0)))
    highest = float(of_kernels.max())
    gap = reach / (1.0 - highest) + of_value if highest < 1.0 else math.inf
    # no alignment is above 1
    gap = min(gap, 1.0 - value + of_value) if value < 1.0 else min(gap, of_value)
    own = min(own, max(gap - of_value, 0.0))
    found = Certificate.of("alignment", value, own, gap - own, status, tol=tol)
    # the alignment is maximised, so that the bound is above the value
    return replace(found, dual=value + gap)


def _centred_target(y: ArrayLike, row_weight: Array) -> tuple[Array, float]:
    """Deviations from the weighted mean, of weighted length 1, and a bound of the length of their rounding errors."""
    target = check_vector(y, "y", len(row_weight))
    size = float(np.abs(target[row_weight > 0]).max())
    if size > 0:
        target = target / size
        target = target - float(row_weight @ target) / float(row_weight.sum())
    length = float(np.sqrt(row_weight @ np.square(target)))
    if length <= 1e-14 * np.sqrt(row_weight.sum()):
        raise InputError(
            f"`y` must vary, got the same value in all rows that count (n_samples={len(target)}). Pass rows of both "
            "classes, or other targets."
        )
    total = float(row_weight.sum())
    target = target / length
    # once more: kernels with large entries multiply what is left of the mean
    target -= float(row_weight @ target) / total
    return target, sum_error(len(target)) * (1.0 + math.sqrt(total) / length)


def _alignments(gram: Gram, target: Array, row_weight: Array, norms: Array) -> Array:
    """``<K_m^c, T> / |K_m^c|``; needs no centred kernel, because the weighted target sums to zero."""
    products = gram.quadratic_forms((row_weight * target)[None])
    out = np.divide(np.maximum(products, 0.0), norms, out=np.zeros(gram.n_kernels), where=norms > 0)
    if not out.max() > 16.0 * EPS:
        raise InputError(
            f"At least one kernel must be aligned with `y`, got alignment 0 for all {gram.n_kernels}: on these rows "
            "they are constant, or vary only where `y` does not. Use other kernels, or equal weights."
        )
    return np.minimum(out, 1.0)


def _nonnegative_least_squares(cosines: Array, linear: Array, tol: float, max_iter: int) -> tuple[Array, int]:
    """Maximise ``u'linear / sqrt(u' cosines u)`` over u >= 0: u of some length, and the number of systems solved.

    Lawson and Hanson's method on the normal equations: SciPy's `nnls` would need a square root of a matrix that is
    often singular.
    """
    n = len(linear)
    u = np.zeros(n)
    inside = np.zeros(n, dtype=bool)
    refused = np.zeros(n, dtype=bool)
    best, least = linear, np.inf
    n_iter = 0
    while True:
        # for the best multiple the gap has no second term
        product = cosines @ u
        curvature = float(u @ product)
        if curvature > 0:
            factor = float(u @ linear) / curvature
            value = factor * float(np.sqrt(curvature))
            gap = float(np.linalg.norm(np.maximum(linear - factor * product, 0.0)))
            if gap < least:
                best, least = u.copy(), gap
            if gap <= 0.1 * tol * value:
                break
        slope = np.where(inside | refused, -np.inf, linear - product)
        enter = int(np.argmax(slope))
        if not slope[enter] > 0 or n_iter >= max_iter or used_up():
            break
        inside[enter] = True
        while n_iter < max_iter:
            n_iter += 1
            free = np.flatnonzero(inside)
            point = _solve(cosines[np.ix_(free, free)], linear[free])
            if point is None or (u[enter] == 0 and point[free == enter][0] <= 0):
                # nearly a combination of the others: left out until the weights change, because rounding would decide
                inside[enter] = False
                refused[enter] = True
                break
            if (point > 0).all():
                u[:] = 0.0
                u[free] = point
                refused[:] = False
                break
            falling = point <= 0
            now = u[free]
            ratio = np.where(falling, now / np.where(falling, now - point, 1.0), np.inf)
            step = float(ratio.min())
            u[free] = now + step * (point - now)
            gone = free[ratio <= step]
            u[gone] = 0.0
            inside[gone] = False
    return best, n_iter


def _solve(block: Array, right: Array) -> Array | None:
    """Solve with a positive definite block; None if it is singular up to rounding."""
    factor, info = lapack.dpotrf(block, lower=1, clean=0)
    if info != 0 or np.diag(factor).min() <= 1e-7:
        return None
    solution: Array = lapack.dpotrs(factor, right, lower=1)[0]
    return solution


@dataclass(frozen=True)
class AlignmentProblem:
    """AlignF: kernels, targets, sample weights, and factors s_m."""

    gram: Gram
    y: Array
    row_weight: Array
    scale: Array

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of weights, with recomputed products of all kernels."""
        weights = np.asarray(solution.weights)
        if not (weights >= 0.0).all() or not weights.any():
            return outside("alignment")
        with blas_threads_for(self.gram.n_samples):
            at = KernelTargets.of(self.gram, self.y, self.row_weight)
        # any length of them has the same alignment
        u = weights[at.used] * self.scale[at.used] * at.lengths
        return certify_alignment(at, u / u.sum(), 0.0, Status.CONVERGED)

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers."""
        return Statement("", 1.0, self.row_weight, self.scale, criterion="alignment")


def _prepare(
    gram: Gram | ArrayLike, scale: ArrayLike | None, sample_weight: ArrayLike | None
) -> tuple[Gram, Array, Array]:
    """The stack, s_m and w_i."""
    stack = as_gram(gram)
    return stack, check_scale(scale, stack.n_kernels), check_row_weights(sample_weight, stack.n_samples)
