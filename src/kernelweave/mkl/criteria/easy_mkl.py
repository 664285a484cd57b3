"""EasyMKL: kernel weights from the margin of each kernel in one common solution, before the machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import InputError, RowWeights, Scale, Start, Targets, check_row_weights, check_scale
from kernelweave._parameters import MaxIter, MaxTime, Number, Tol, checked, renamed
from kernelweave._threads import blas_threads_for
from kernelweave._types import Array
from kernelweave.gram import Gram, as_gram
from kernelweave.machines.box import check_start
from kernelweave.machines.losses import SquaredHinge
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import EPS, entry_error, sum_error
from kernelweave.mkl.certify import outside
from kernelweave.results import Certificate, Solution, Statement, Status

#: Ridge used for lam = 0, as a share of the mean diagonal of the summed kernel: too small to affect the weights, and
#: large enough for numerical accuracy.
SMALLEST_RIDGE = 1e-12
#: Weights of rows of a class have sum one, up to this.
UNEVEN = 1e-12


@renamed(warm_start="start")
@checked
def solve_easy_mkl(
    gram: Gram | ArrayLike,
    y: Targets,
    lam: Annotated[float, Number(least=0, most=1)] = 0.1,
    *,
    scale: Scale = None,
    sample_weight: RowWeights = None,
    tol: Tol = 1e-8,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    start: Start = None,
) -> Solution:
    """Weight kernels by the margin of each in one common solution (EasyMKL), and certify the solution.

    With ``K = sum_m s_m K_m``, Y = diag(y), and probability vectors gamma on either class,

        gamma = argmin (1 - lam) gamma' Y K Y gamma + lam sum_i gamma_i^2 / sample_weight_i ,

    the weights are proportional to ``s_m gamma' Y K_m Y gamma``, the squared distance between the
    two mixtures under ``s_m K_m``, with sum 1.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last. Not modified.
    y : array of shape (n_samples,)
        Labels -1 and +1, both present.
    lam : float, default=0.1
        From 0 (the nearest points of the two convex hulls) to 1 (the means of the classes).
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    sample_weight : array of shape (n_samples,), optional
        Nonnegative. A weight is equivalent to a repetition: w copies of a row share its gamma_i equally, and the sum
        of their squares is ``gamma_i^2 / w``. A row of weight 0 is ignored.
    tol : float, default=1e-8
        Stop when ``gap <= tol * primal``. Weights have about half as many correct digits.
    max_iter : int, optional
        Largest number of SMO steps. Default: 1000000 plus 100 for each row.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    start : array of shape (n_samples,), optional
        `dual_coef` of a similar problem, for example at another `lam`; see `solve_svc`.

    Returns
    -------
    Solution
        Non-convergence is reported in ``status``, never raised.

    Raises
    ------
    InputError
        Wrong shapes, NaN, lam outside [0, 1], labels other than -1 and +1, a single class, or no kernel that
        separates the two mixtures.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    The quadratic program has two equalities; for lam > 0 it is solved with one. Over coefficients t gamma with t > 0,
    the dual of the classifier with the squared hinge loss, kernel (1 - lam) K and C = 1 / lam is
    ``2 t - t^2 / 2 * objective(gamma)``, at most ``2 / objective(gamma)``: both problems have the same solution up to
    its length, and a bound P of the classifier's value bounds this objective by ``2 / P``. Costs one combination of all
    kernels and one such classifier, see `solve_l2svc`.

    At lam = 0 a ridge of 1e-12 times the mean diagonal is used; `primal` and `gap` belong to lam = 0. If the
    classes overlap in the feature space, the optimal value is 0 and determines no weights: the gap is then as large as
    `primal` and its rounding errors, or, if only rounding errors are left, an `InputError` suggests a larger lam.

    References
    ----------
    F. Aiolli, M. Donini, EasyMKL: a scalable multiple kernel learning algorithm, Neurocomputing 169 (2015).
    Weights have sum 1 as in the authors' package MKLpy, not Euclidean norm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.solvers import solve_easy_mkl
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> result = solve_easy_mkl(X[:, None, :] * X[None, :, :], np.sign(X[:, 1]), 0.5)
    >>> int(np.argmax(result.weights)), result.rel_gap <= 1e-8
    (1, True)
    """
    stack = as_gram(gram)
    factors = check_scale(scale, stack.n_kernels)
    row_weight = check_row_weights(sample_weight, stack.n_samples)
    labels = SquaredHinge().check(y, row_weight)
    problem = EasyProblem(stack, labels, lam, row_weight, factors)
    with blas_threads_for(stack.n_samples):
        K = problem.sum_of_kernels()
        diagonal = np.diag(K)
        ridge = lam if lam > 0 else SMALLEST_RIDGE * float(diagonal.mean())
        if ridge == 0.0:
            raise InputError("The kernels must not all be zero.")
        first = None if start is None else check_start(start, stack.n_samples)
        machine = Machine(labels, 1.0 / ridge, SquaredHinge(), row_weight, max_iter).solve(
            K, tol=0.1 * tol, warm_start=first, entry_error=entry_error(int(stack.terms.sum()))
        )
        b = machine.dual_coef
        if not b.any():  # stopped before the first step: the means of the classes
            b = labels * row_weight
        # the two sums agree up to rounding
        b = b / np.where(labels > 0, b[labels > 0].sum(), -b[labels < 0].sum())
        quadratic_forms = stack.quadratic_forms(b[None])
        primal, own, missing, rounding = problem.bounds(K, quadratic_forms, b, machine.dual_coef)
    allowed = tol * primal
    if own + rounding <= allowed:
        status = Status.CONVERGED
    elif own - missing > allowed:
        status = Status.STALLED if machine.status in (Status.CONVERGED, Status.ROUNDING) else machine.status
    else:
        status = Status.TRUNCATED if own > allowed else Status.ROUNDING
    # no kernel has larger entries than their sum
    share = (1.0 - lam) * factors
    bound = np.divide(diagonal.max(), share, out=np.full_like(share, np.inf), where=share > 0)
    return Solution(
        weights=_shares(stack, quadratic_forms, bound, row_weight, factors),
        dual_coef=b,
        intercept=0.0,
        certificate=Certificate.of("margins", primal, own, rounding, status),
        n_iter=machine.n_iter,
        proof=machine.dual_coef[None],
    )


def _shares(gram: Gram, quadratic_forms: Array, bound: Array, row_weight: Array, factors: Array) -> Array:
    """Divide ``s_m b'K_m b`` by the sum, after removing values that are only rounding errors.

    `bound` holds upper bounds of the entries of each kernel.
    """
    # quadratic forms from factors are squares of small numbers, those from entries are small sums of large ones
    threshold = np.where(gram.ranks >= 0, (256.0 * EPS) ** 2, 256.0 * EPS)
    if not (quadratic_forms > threshold * bound).all():
        # all diagonals together cost more than the quadratic forms, so they are read only if they matter
        bound = gram.diagonal()[:, row_weight > 0].max(axis=1)
    kept = np.where(quadratic_forms > threshold * bound, factors * quadratic_forms, 0.0)
    total = float(kept.sum())
    if total == 0.0:
        raise InputError(
            "At least one kernel must separate the classes, got none: the kernels are constant on these rows, or the "
            "classes overlap and lam is next to 0. Raise lam, or use other kernels."
        )
    return kept / total


@dataclass(frozen=True)
class EasyProblem:
    """EasyMKL: kernels, labels -1 and 1, lam, sample weights, and factors s_m."""

    gram: Gram
    y: Array
    lam: float
    row_weight: Array
    scale: Array

    def sum_of_kernels(self) -> Array:
        """``(1 - lam) sum_m s_m K_m``."""
        return self.gram.combine((1.0 - self.lam) * self.scale)

    def bounds(
        self, K: Array, quadratic_forms: Array, b: Array, ended: Array
    ) -> tuple[float, float, float, float]:
        """The value at weights of rows, its gap, the part of it from truncated factors, and the rounding of both.

        The lower bound is that of the machine with the squared hinge loss, at multiples of these weights; for lam = 0
        it is the distance of the classes along the difference of the two mixtures.

        Parameters
        ----------
        K : array of shape (n_samples, n_samples)
            `sum_of_kernels`.
        quadratic_forms : array of shape (n_kernels,)
        b : array of shape (n_samples,)
            Weights of the rows times the labels, with sum 1 over the rows of either class.
        ended : array of shape (n_samples,)
            Coefficients with which the machine ended.
        """
        share, used = (1.0 - self.lam) * self.scale, self.row_weight > 0
        product = K @ b
        spread = float(np.square(b[used]) @ (1.0 / self.row_weight[used]))
        # truncated factors can only lower the objective, at most by this
        missing = float(share @ self.gram.residual_trace) * float(np.square(b).sum())
        primal = max(float(share @ quadratic_forms) + self.lam * spread + missing, 0.0)
        root = np.sqrt(np.maximum(np.diag(K), 0.0))
        size = float(root @ np.abs(b))
        unit = sum_error(len(b))
        if primal == 0.0:
            lower = certain = 0.0
        elif self.lam == 0.0:
            rise, fall = product[used & (self.y > 0)].min(), product[used & (self.y < 0)].max()
            margin = max(float(rise - fall), 0.0)
            lower, entries = margin**2 / primal, entry_error(int(self.gram.terms.sum()))
            certain = lower - 4.0 * margin * (unit + entries) * float(root.max()) * size / primal
        else:
            machine = Machine(self.y, 1.0 / self.lam, SquaredHinge(), self.row_weight)
            lower = certain = 0.0
            # of the length that is best at the optimum, and of the one that the solver ended with
            for length in (2.0 / primal, 0.5 * float(np.abs(ended).sum())):
                intercept = machine.loss.intercept(self.y, machine.costs, length * product)
                found = machine.certify(
                    K, length * b, intercept, entry_error=entry_error(int(self.gram.terms.sum()))
                )
                if math.isfinite(found.gap) and 2.0 / (found.primal + found.rounding) > certain:
                    lower, certain = 2.0 / found.primal, 2.0 / (found.primal + found.rounding)
        of_bound = min(lower, primal) - min(max(certain, 0.0), primal)
        rounding = unit * (size**2 + self.lam * spread) + of_bound
        return primal, max(primal - lower, 0.0), missing, rounding

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of weights of rows."""
        b = np.asarray(solution.dual_coef)
        sides = [math.fsum(b[self.y * sign > 0]) - sign for sign in (1.0, -1.0)]
        apart = max(map(abs, sides))
        if not (b * self.y >= 0.0).all() or b[self.row_weight == 0].any() or apart > UNEVEN:
            return outside("margins")
        with blas_threads_for(self.gram.n_samples):
            forms, ended = self.gram.quadratic_forms(b[None]), np.asarray(solution.proof)
            primal, own, _, rounding = self.bounds(self.sum_of_kernels(), forms, b, ended)
        return Certificate.of("margins", primal, own, rounding, Status.CONVERGED)

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers."""
        return Statement(
            "squared-hinge", 1.0, self.row_weight, self.scale, criterion="margins", set_value=self.lam
        )
