"""Margin multiple kernel learning over a convex set of weights: the optimal value of a machine, minimised.

    min_{d in D} J(d) ,    J(d) = max_b dual_term(b) - 1/2 sum_m d_m q_m(b) ,    q_m(b) = s_m b'K_m b .

J is convex in d. For every method, the result has the gap of the joint problem: with sigma the support function
of D,

    gap = (gap of the machine on K(d)) + 1/2 (sigma(q) - <d, q>) .

Methods are sequences of steps (`kernelweave.mkl.steps`), each continuing if the previous one is slow.
"""

from __future__ import annotations

from typing import Annotated

from numpy.typing import ArrayLike

from kernelweave._checks import GivenTargets, RowWeights, Scale
from kernelweave._parameters import (
    Cost,
    Function,
    MaxIter,
    MaxTime,
    Nonnegative,
    OneOf,
    Tol,
    checked,
    renamed,
    unchecked,
)
from kernelweave.gram import ChunkedFeatures, FeatureStack, Gram
from kernelweave.machines.losses import GivenLoss, as_loss
from kernelweave.mkl.loop import Callback
from kernelweave.mkl.problem import Problem
from kernelweave.mkl.solve import METHODS, solve
from kernelweave.mkl.weight_sets import GivenWeightSet
from kernelweave.results import Solution, WarmStart


@renamed(method="solver", warm_start="start")
@checked
def solve_svm_mkl(
    gram: Gram | FeatureStack | ChunkedFeatures | ArrayLike,
    y: GivenTargets,
    C: Cost,
    weight_set: GivenWeightSet = "simplex",
    *,
    loss: GivenLoss = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
    tol: Tol = 1e-4,
    solver: Annotated[str, OneOf(*METHODS)] = "auto",
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    start: Solution | WarmStart | None = None,
    callback: Annotated[Callback | None, Function() | None] = None,
) -> Solution:
    """Learn kernel weights with a support vector machine, and certify the solution.

    Minimises over weights d in a convex set and over f = <w, phi_d(x)> + intercept with the kernel
    ``K(d) = sum_m d_m s_m K_m``

        1/2 ||w||^2 + sum_i C_i loss(y_i, f_i) ,      C_i = C * sample_weight_i .

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels), Gram, FeatureStack or RowFeatures
        Symmetric PSD matrices, kernels last; or features in blocks, which are worked on themselves; or rows of such
        features that are read in chunks. Not modified.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets for ``loss="epsilon-insensitive"``; None for `RowFeatures`, which have them.
    C : float
        Weight of the loss > 0, a sum over samples.
    weight_set : "simplex" or WeightSet, default="simplex"
        ``Simplex()`` (SimpleMKL, SILP), ``CappedSimplex(cap)`` (soft-margin MKL), ``LpBall(p)``,
        ``ElasticNet(mix)``.
    loss : str or Loss, default="hinge"
        A loss of `kernelweave.losses`, which lists all, or its name: "hinge" for labels, "squared" for numbers.
        One of your own is an object of a subclass of `Loss`. With the logistic loss ``1 / (1 + exp(-f))`` is the
        probability of label 1.
    epsilon : float, default=0.1
        Half width of the tube of the epsilon-insensitive loss, in units of y.
    sample_weight : array of shape (n_samples,), optional
        A weight is equivalent to a repetition; rows of weight 0 are ignored.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    tol : float, default=1e-4
        Stop when ``gap <= tol * primal``.
    solver : str, default="auto"
        One of "auto", "newton", "interior-point", "reduced-gradient", "cutting-plane", "closed-form", "dual-newton":
        "newton" on the weights, and "interior-point" on weights and coefficients at once, for all but Lp balls;
        "reduced-gradient" is SimpleMKL with a line search by derivatives, and "cutting-plane" is
        SILP, both for the simplex; "closed-form" alternates the machine and the optimal weights, for all but
        the simplex; over sets where weights may vanish Newton continues if 50 rounds have not made the gap ten times
        smaller. "dual-newton", for Lp balls, is Newton on the coefficients, with the curvature of the best weights: few
        machines and many digits.
        "auto": Newton, then the interior point if Newton is slow (many kernels of low rank, few rows inside the
        box); the closed form for Lp balls. On features: proximal Newton steps for the coefficients of the features,
        for every set. All other methods hold the blocks as factors.
    max_iter : int, optional
        Outer iterations. Default: 500; of `RowFeatures` passes over the rows, 100.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    start : Solution or WarmStart, optional
        The solution of a similar problem; for `RowFeatures` it takes the place of the one on a sample.
    callback : callable, optional
        ``callback(iteration, objective, rel_gap)``; a true value stops the solver.

    Returns
    -------
    Solution
        ``f = K(d) @ dual_coef + intercept``. Non-convergence is reported in ``status``, never raised. For a
        `FeatureStack` also ``f = Z @ feature_coef + intercept``, and the certificate is that of these coefficients.

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, C <= 0, one class, a solver that does not fit the set.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    An outer iteration of Newton costs one warm-started machine, one combination of the active kernels and products with
    those of a working set; a pass over all kernels is made when those are solved. A step of the interior point
    costs a combination of all kernels, two products with each, and n_samples^3 / 3; it needs memory for a few times
    n_kernels * n_samples numbers, for 1,000 kernels at first if there are more.

    On features the problem is, with weights on the simplex, ``sum_i C_i loss(y_i, f_i) + 1/2 (sum_m |w_m| /
    sqrt(s_m))^2`` for ``f = Z w + intercept``: the group lasso with a square. A step costs at most n_samples times the
    square of the number of columns of a working set; hinge and tube take several steps for each change of the
    coefficients in the augmented Lagrangian of their dual.

    References
    ----------
    A. Rakotomamonjy et al., SimpleMKL, JMLR 9 (2008). S. Sonnenburg et al., Large scale multiple kernel learning, JMLR
    7 (2006). M. Kloft et al., lp-norm multiple kernel learning, JMLR 12 (2011). X. Xu et al., Soft margin multiple
    kernel learning, IEEE TNNLS 24 (2013).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_svm_mkl
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> gram = X[:, None, :] * X[None, :, :]
    >>> result = solve_svm_mkl(gram, np.sign(X[:, 0] - X[:, 2]), C=1.0)
    >>> np.flatnonzero(result.weights > 0.05), result.rel_gap <= 1e-4
    (array([0, 2]), True)
    """
    problem = Problem(
        gram, y, as_loss(loss, epsilon), weight_set, C, sample_weight, scale, fit_intercept=True
    )
    return unchecked(solve)(
        problem, solver=solver, start=start, tol=tol, max_iter=max_iter, callback=callback
    )
