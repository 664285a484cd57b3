"""RLS2: least squares with kernel weights on the simplex (the RLS2 paper, Problems 5 to 8).

For kernels ``K(d) = sum_m d_m s_m K_m``, d on the simplex, targets y and alpha > 0,

    J(d, c) = 1/2 ||y - K(d) c||^2 + alpha/2 c' K(d) c ,      c(d) = (K(d) + alpha N)^-1 y ,

and after elimination of c, the convex Problem 6: ``min_d alpha/2 y' (K(d) + alpha N)^-1 y``. N is the inverse of
the sample weights (identity without). With q_m = s_m c' K_m c any (d, c) gives the certificate

    gap = 1/2 r' N^-1 r + alpha/2 (max_m q_m - c' K(d) c) ,    r = y - K(d) c - alpha N c .
"""

from __future__ import annotations

from typing import Annotated, cast

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import Floats, RowWeights, Scale, Start
from kernelweave._parameters import (
    Flag,
    Function,
    MaxIter,
    MaxTime,
    Number,
    OneOf,
    Tol,
    check_value,
    checked,
    renamed,
)
from kernelweave.gram import BlockStatistics, FeatureStack, Gram, KernelStream, kind_of
from kernelweave.mkl.loop import Callback
from kernelweave.mkl.problem import make_ridge_form
from kernelweave.mkl.solve import SOLVERS, along_alphas
from kernelweave.results import Solution


@renamed(weights0="start")
@checked
def solve_rls2(
    gram: Gram | FeatureStack | BlockStatistics | KernelStream | ArrayLike,
    y: Annotated[ArrayLike | None, Floats((1, 2)) | None] = None,
    alpha: Annotated[float | None, Number(above=0, infinite=True) | None] = None,
    *,
    tol: Tol = 1e-6,
    solver: Annotated[str, OneOf(*SOLVERS)] = "newton",
    sample_weight: RowWeights = None,
    scale: Scale = None,
    shared_weights: Annotated[bool, Flag()] = True,
    start: Start = None,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    delta: Annotated[float, Number(above=0, below=1, remedy="It is a relative residual.")] = 1e-2,
    linear_solver: Annotated[str, OneOf("auto", "cholesky", "cg")] = "auto",
    relax: Annotated[float | None, Number(above=0, infinite=True) | None] = None,
    fit_intercept: Annotated[bool, Flag()] = False,
    callback: Annotated[Callback | None, Function() | None] = None,
) -> Solution:
    """Solve RLS2, least squares with learnt kernel weights, and certify the solution.

    Minimises over d on the simplex and c

        1/2 ||y - K(d) c||^2 + alpha/2 c' K(d) c ,     K(d) = sum_m d_m s_m K_m .

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels), Gram, FeatureStack, BlockStatistics or KernelStream
        Symmetric PSD matrices, kernels last, or explicit features in blocks, or sums over any number of rows of
        features and targets, or kernels that are made when needed. Not modified.
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        Targets. There is no intercept: subtract it beforehand. None for statistics, which include them.
    alpha : float
        Regularisation parameter > 0, in units of the kernels; ``inf`` gives f = 0. Always needed.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``. Dimensionless. Used by ``solver="newton"``.
    solver : {"newton", "alternating"}, default="newton"
        Active-set Newton on Problem 6, or Algorithm 1 of the paper with its residual rule.
    sample_weight : array of shape (n_samples,), optional
        Weights w >= 0: the loss becomes ``1/2 sum_i w_i (y_i - f_i)^2``. A weight is equivalent to a repetition; rows
        of weight 0 are ignored.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    shared_weights : bool, default=True
        With several outputs: one set of weights for all (the objectives are added), or one for each.
    start : array of shape (n_kernels,), optional
        Starting weights on the simplex. Default: Lemma 5.
    max_iter : int, optional
        Default: 200 factorisations (newton) or 50000 rounds (alternating, as in the paper).
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    delta : float, default=1e-2
        ``solver="alternating"`` only: stop when ``||(K(d) + alpha I) c - y|| <= delta ||y||``.
    linear_solver : {"auto", "cholesky", "cg"}, default="auto"
        ``solver="alternating"`` only: how (13) is solved; "cg" stops at the relative residual `delta`.
    relax : float, optional
        Another regularisation parameter > 0: weights are those of `alpha`, ``dual_coef`` is ridge regression with
        ``K(d)`` at `relax`. One more factorisation.
    fit_intercept : bool, default=False
        Statistics only: with an intercept, which is not penalised.
    callback : callable, optional
        ``callback(n_iter, objective, rel_gap)`` after every iteration; a true value stops the solver.

    Returns
    -------
    Solution
        Weights on the simplex, ``dual_coef`` with ``f = K(d) @ dual_coef``, ``primal``, ``dual``, ``gap`` in
        units of the objective, ``status``. Non-convergence is reported in ``status``, never raised. With `relax` a
        `RelaxedSolution`, which adds ``ridge_primal`` and ``ridge_gap``. From statistics ``dual_coef`` is empty, as it
        would have an entry for each row; ``f = Z @ feature_coef + intercept``.

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, alpha <= 0, unknown names.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    Newton costs a factorisation, n^3 / 3, and one pass over the active kernels per iteration, and one or two
    passes over all kernels per call; typically 3 to 8 iterations. The weights are unique only if the active
    ``K_m c`` are affinely independent; the objective and f always are.

    References
    ----------
    F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv 1001.2709: Problems 5 to 7,
    equation (13), Lemmas 3 to 5, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_rls2
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> gram = X[:, None, :] * X[None, :, :]          # one linear kernel per feature
    >>> result = solve_rls2(gram, X[:, 0] - X[:, 2], alpha=1.0)
    >>> np.flatnonzero(result.weights > 0.05)
    array([0, 2])
    >>> result.rel_gap <= 1e-6
    True
    """
    alpha = cast(float, check_value(Number(above=0, infinite=True), "alpha", alpha))
    problem, single = make_ridge_form(gram, y, sample_weight, scale, fit_intercept=fit_intercept)
    (found,) = along_alphas(
        problem,
        np.array([alpha]),
        single=single,
        solver=solver,
        tol=tol,
        weights0=start,
        max_iter=max_iter,
        shared_weights=shared_weights,
        relax=relax,
        on_iteration=callback,
        delta=delta,
        linear_solver=linear_solver,
    ).solutions
    return found.of_kind(kind_of(gram))
