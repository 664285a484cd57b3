"""Problems as values, with which certificates can be recomputed.

A solution holds weights and coefficients, a problem the kernels and targets. ``solution.verify(problem)`` evaluates
both bounds of the optimal value from these numbers, independently of the solver. In all of them d are weights of
kernels, ``K(d) = sum_m d_m s_m K_m``, and decision values are ``f = K(d) b + intercept`` unless another f is given.
"""

from __future__ import annotations

from typing import Annotated, cast

from numpy.typing import ArrayLike

from kernelweave._checks import (
    Floats,
    GivenTargets,
    RowWeights,
    Scale,
    Targets,
    check_row_weights,
    check_scale,
    check_vector,
)
from kernelweave._parameters import Cost, Flag, Nonnegative, Number, Whole, checked
from kernelweave.gram import BlockStatistics, ChunkedFeatures, FeatureStack, Gram, KernelStream, as_gram
from kernelweave.machines.box import as_kernel
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import GivenLoss, SquaredHinge, as_loss
from kernelweave.machines.machine import Machine, OnKernel
from kernelweave.mkl.cardinality import CardinalityProblem
from kernelweave.mkl.criteria.alignment import AlignmentProblem
from kernelweave.mkl.criteria.easy_mkl import EasyProblem
from kernelweave.mkl.families import WeightedSum
from kernelweave.mkl.features.problem import FeatureProblem
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.problem import Problem, make_ridge_form
from kernelweave.mkl.ridge_problem import RidgeProblem
from kernelweave.mkl.steps.rkl import RadiusProblem
from kernelweave.mkl.weight_sets import GivenWeightSet

__all__ = [
    "alignf_problem",
    "cardinality_problem",
    "easy_mkl_problem",
    "machine_problem",
    "margin_problem",
    "rkl_problem",
    "rls2_problem",
]


@checked
def machine_problem(
    K: ArrayLike,
    y: Targets,
    C: Cost,
    loss: GivenLoss = "hinge",
    *,
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
) -> OnKernel:
    """A machine on one kernel: the problem of `solve_svc`, `solve_l2svc`, `solve_svr` and `solve_klr`.

    Minimises over b and the intercept, for ``f = K b + intercept``,

        1/2 b'K b + C sum_i sample_weight_i loss(y_i, f_i) ,

    whose dual is ``max_b dual term(b) - 1/2 b'K b``, with b in the box of the loss and sum zero.

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric positive semidefinite.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets.
    C : float
        Weight of the loss > 0.
    loss : str or Loss, default="hinge"
        A loss of `kernelweave.losses`, which lists all, or its name: "hinge" for labels, "squared" for numbers.
    epsilon : float, default=0.1
        Half width of the tube of the epsilon-insensitive loss.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows, as the solver had them.

    Returns
    -------
    OnKernel

    Raises
    ------
    InputError
        Wrong shapes, NaN, an asymmetric matrix, C <= 0, labels that the loss does not allow.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> x = np.array([-2.0, -1.0, 1.0, 3.0])
    >>> K, y = np.outer(x, x), [-1, -1, 1, 1]
    >>> kw.solve_svc(K, y, C=10.0).verify(kw.problems.machine_problem(K, y, C=10.0)).status
    Status.CONVERGED
    """
    matrix = as_kernel(K, "raise")
    return OnKernel(matrix, _machine(y, C, as_loss(loss, epsilon), sample_weight, len(matrix)))


@checked
def margin_problem(
    gram: Gram | FeatureStack | ChunkedFeatures | ArrayLike,
    y: GivenTargets,
    C: Cost,
    weight_set: GivenWeightSet = "simplex",
    *,
    loss: GivenLoss = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
) -> Problem:
    """A machine on a sum of kernels with weights in a convex set: the problem of `solve_svm_mkl`.

    Minimises over d in a convex set and over b and the intercept

        1/2 b'K(d) b + C sum_i sample_weight_i loss(y_i, f_i) .

    For every b that is feasible in the dual of the machine ``dual term(b) - 1/2 sigma(q)`` is a lower bound, with
    ``q_m = s_m b'K_m b`` and sigma the support function of the set.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels), Gram, FeatureStack or RowFeatures
        Kernels or features that were given to the solver.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets for ``loss="epsilon-insensitive"``; None for `RowFeatures`.
    C : float
        Weight of the loss > 0.
    weight_set : "simplex" or WeightSet, default="simplex"
        Where weights may lie.
    loss : str or Loss, default="hinge"
        A loss of `kernelweave.losses`, which lists all, or its name: "hinge" for labels, "squared" for numbers.
    epsilon : float, default=0.1
        Half width of the tube of the epsilon-insensitive loss.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows, as the solver had them.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.

    Returns
    -------
    Problem

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, C <= 0.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> gram, y = X[:, None, :] * X[None, :, :], np.sign(X[:, 0] - X[:, 2])
    >>> result = kw.solve_svm_mkl(gram, y, C=1.0)
    >>> problem = kw.problems.margin_problem(gram, y, C=1.0)
    >>> result.verify(problem).status
    Status.CONVERGED
    >>> from dataclasses import replace
    >>> replace(result, dual_coef=1.01 * result.dual_coef).verify(problem).status
    Status.REFUTED
    """
    return Problem(gram, y, as_loss(loss, epsilon), weight_set, C, sample_weight, scale, fit_intercept=True)


@checked
def cardinality_problem(
    gram: Gram | ArrayLike,
    y: Targets,
    C: Cost,
    k: Annotated[int, Whole(1)],
    *,
    ridge: Nonnegative = 0.0,
    loss: GivenLoss = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
) -> CardinalityProblem:
    """A machine on a sum of at most k kernels: the problem of `solve_cardinality_mkl`.

    Minimises over d on the simplex with at most k weights that are not zero, and over b and the intercept

        1/2 b'K(d) b + C sum_i sample_weight_i loss(y_i, f_i) + ridge sum_m d_m^2 .

    Verifying a solution recomputes the bounds of its `proof` and searches the tree of subsets with them, without
    solving machines.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets for ``loss="epsilon-insensitive"``.
    C : float
        Weight of the loss > 0.
    k : int
        Most kernels with a weight, at least 1.
    ridge : float, default=0.0
        Factor of the squared weights.
    loss : str or Loss, default="hinge"
        A loss of `kernelweave.losses`, which lists all, or its name: "hinge" for labels, "squared" for numbers.
    epsilon : float, default=0.1
        Half width of the tube of the epsilon-insensitive loss.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows, as the solver had them.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.

    Returns
    -------
    CardinalityProblem

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, C <= 0, k < 1.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 6))
    >>> gram, y = X[:, None, :] * X[None, :, :], np.sign(X[:, 0] - X[:, 2] + X[:, 4])
    >>> result = kw.solvers.solve_cardinality_mkl(gram, y, C=1.0, k=2)
    >>> result.verify(kw.problems.cardinality_problem(gram, y, C=1.0, k=2)).status
    Status.CONVERGED
    """
    problem = Problem(
        as_gram(gram), y, as_loss(loss, epsilon), "simplex", C, sample_weight, scale, fit_intercept=True
    )
    whole = cast(KernelProblem, problem.form)
    return CardinalityProblem(whole, min(k, whole.n_kernels), ridge)


@checked
def rls2_problem(
    gram: Gram | FeatureStack | BlockStatistics | KernelStream | ArrayLike,
    y: Annotated[ArrayLike | None, Floats((1, 2)) | None] = None,
    *,
    sample_weight: RowWeights = None,
    scale: Scale = None,
    fit_intercept: Annotated[bool, Flag()] = False,
) -> RidgeProblem | FeatureProblem:
    """RLS2: the problem of `solve_rls2`, for every regularisation parameter.

    Minimises over d on the simplex and c

        1/2 sum_i sample_weight_i (y_i - f_i)^2 + alpha/2 c'K(d) c ,     f = K(d) c ,

    Problem 5 of the RLS2 paper (arXiv 1001.2709). With ``r = y - K(d) c - alpha N c``, N the inverse of the weights of
    rows, any (d, c) has the gap ``1/2 r'N^-1 r + alpha/2 (max_m s_m c'K_m c - c'K(d) c)``.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels), Gram, FeatureStack, BlockStatistics or KernelStream
        Kernels or features that were given to the solver.
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        Targets, as given to the solver; None for statistics.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows, as the solver had them.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    fit_intercept : bool, default=False
        Statistics only: as given to the solver.

    Returns
    -------
    RidgeProblem or FeatureProblem
        The regularisation parameter is that of the solution that is verified.

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> gram = X[:, None, :] * X[None, :, :]
    >>> kw.solve_rls2(gram, X[:, 0], alpha=1.0).verify(kw.problems.rls2_problem(gram, X[:, 0])).status
    Status.CONVERGED
    """
    return make_ridge_form(gram, y, sample_weight, scale, fit_intercept=fit_intercept)[0]


@checked
def rkl_problem(
    gram: Gram | ArrayLike,
    y: Targets,
    C: Cost,
    *,
    loss: GivenLoss = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
) -> RadiusProblem:
    """RKL: the problem of `solve_rkl` on sums of kernels without a ridge. The ball is recomputed.

    Minimises over ``d >= 0``, b and the intercept, with the squared radius ``r^2(d)`` of the minimum enclosing ball,

        1/2 b'K(d) b / r^2(d) + C sum_i sample_weight_i loss(y_i, f_i) ,     f = K(d) b / r^2(d) + intercept ,

    K. Gai et al., Learning kernels with radiuses of minimum enclosing balls, NIPS 2010.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets for ``loss="epsilon-insensitive"``.
    C : float
        Weight of the loss > 0, on a kernel whose ball has radius 1.
    loss : str or Loss, default="hinge"
        A loss of `kernelweave.losses`, which lists all, or its name: "hinge" for labels, "squared" for numbers.
    epsilon : float, default=0.1
        Half width of the tube of the epsilon-insensitive loss.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows, as the solver had them.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.

    Returns
    -------
    RadiusProblem

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, C <= 0.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> gram, y = X[:, None, :] * X[None, :, :], np.sign(X[:, 0] + 0.1)
    >>> kw.solve_rkl(gram, y, C=10.0).verify(kw.problems.rkl_problem(gram, y, C=10.0)).status
    Status.CONVERGED
    """
    stack = as_gram(gram)
    machine = _machine(y, C, as_loss(loss, epsilon), sample_weight, stack.n_samples)
    return RadiusProblem(WeightedSum(stack, check_scale(scale, stack.n_kernels)), machine)


@checked
def alignf_problem(
    gram: Gram | ArrayLike,
    y: Targets,
    *,
    sample_weight: RowWeights = None,
    scale: Scale = None,
) -> AlignmentProblem:
    """AlignF: the problem of `solve_alignf`.

    Maximises over ``d >= 0`` the alignment of the centred combination with the centred target,

        <K(d), yy'> / (||K(d)|| ||yy'||) ,

    C. Cortes et al., Algorithms for learning kernels based on centered alignment, JMLR 13 (2012).

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last.
    y : array of shape (n_samples,)
        Labels or real targets.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows, as the solver had them.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.

    Returns
    -------
    AlignmentProblem

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> gram, y = X[:, None, :] * X[None, :, :], X[:, 0]
    >>> kw.solvers.solve_alignf(gram, y).verify(kw.problems.alignf_problem(gram, y)).status
    Status.CONVERGED
    """
    stack = as_gram(gram)
    n = stack.n_samples
    target = check_vector(y, "y", n)
    return AlignmentProblem(
        stack, target, check_row_weights(sample_weight, n), check_scale(scale, stack.n_kernels)
    )


@checked
def easy_mkl_problem(
    gram: Gram | ArrayLike,
    y: Targets,
    lam: Annotated[float, Number(least=0, most=1)] = 0.1,
    *,
    sample_weight: RowWeights = None,
    scale: Scale = None,
) -> EasyProblem:
    """EasyMKL: the problem of `solve_easy_mkl`.

    Minimises over weights of rows ``gamma >= 0`` with sum 1 in either class

        (1 - lam) gamma'Y (sum_m s_m K_m) Y gamma + lam sum_i gamma_i^2 / sample_weight_i ,

    F. Aiolli, M. Donini, EasyMKL, Neurocomputing 169 (2015). Weights of kernels are shares of the first term.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last.
    y : array of shape (n_samples,)
        Labels -1 and 1.
    lam : float, default=0.1
        From 0 (the nearest points of the two convex hulls) to 1 (the means of the classes).
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows, as the solver had them.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.

    Returns
    -------
    EasyProblem

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, labels other than -1 and 1.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> gram, y = X[:, None, :] * X[None, :, :], np.sign(X[:, 0] + 0.1)
    >>> kw.solvers.solve_easy_mkl(gram, y, 0.5).verify(kw.problems.easy_mkl_problem(gram, y, 0.5)).status
    Status.CONVERGED
    """
    stack = as_gram(gram)
    weights = check_row_weights(sample_weight, stack.n_samples)
    labels = SquaredHinge().check(y, weights)
    return EasyProblem(stack, labels, lam, weights, check_scale(scale, stack.n_kernels))


def _machine(y: ArrayLike, C: float, loss: Loss, sample_weight: ArrayLike | None, n_rows: int) -> Machine:
    weights = check_row_weights(sample_weight, n_rows)
    return Machine(loss.check(y, C * weights), C, loss, weights)
