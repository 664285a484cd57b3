"""Learners with a margin: one machine, and weights that minimise its optimal value or are found otherwise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from kernelweave._parameters import Cost, Epsilon, MaxIter, MaxTime, Number, OneOf, Shown, Tol, Whole
from kernelweave.learners.base import Info
from kernelweave.learners.method import MachineLoss, MarginLearner, MarginProblem, Method, RuleLearner
from kernelweave.mkl.solve import methods_for
from kernelweave.mkl.weight_sets import CappedSimplex, ElasticNet, LpBall, Simplex
from kernelweave.results import Solution, WarmStart

Array = NDArray[np.float64]

SIMPLE_SOLVERS = methods_for(Simplex)
SOFT_SOLVERS = methods_for(CappedSimplex)
NET_SOLVERS = methods_for(ElasticNet)
BALL_SOLVERS = methods_for(LpBall)

#: Folds inside every fit, separate from those that choose the regularisation parameter.
CriterionFolds = Annotated[int, Whole(2, 1000), Shown("Folds of the criterion", setting="criterion_folds")]


class SimpleMKL(MarginLearner):
    """L1 margin MKL: the kernel weights on the simplex that give a support vector machine the smallest objective.

    Minimises over d on the simplex and ``f = <w, phi_d(x)> + b`` with the kernel ``K(d) = sum_m d_m s_m K_m``

        1/2 ||w||^2 + C sum_i loss(y_i, f_i) .

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0, a sum over rows.
    loss : {"auto", "hinge", "squared-hinge", "logistic"}, default="auto"
        Loss of the machine. "auto": the hinge for classes, epsilon-insensitive for regression. The others are for
        classes; with "logistic" `MKLClassifier.predict_proba` needs no calibration.
    epsilon : float, default=0.1
        Half width of the tube of regression, in units of the target.
    solver : {"auto", "newton", "interior-point", "reduced-gradient", "cutting-plane"}, default="auto"
        Active-set Newton, and an interior point if that is slow; "reduced-gradient" is the published descent
        with a line search by derivatives, "cutting-plane" is SILP with shortened steps.
    tol : float, default=1e-8
        Relative duality gap at which the solver stops.
    max_iter : int, optional
        Outer iterations; default 500.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    References
    ----------
    A. Rakotomamonjy, F. Bach, S. Canu, Y. Grandvalet, SimpleMKL, JMLR 9 (2008).

    Examples
    --------
    >>> from kernelweave.learners import SimpleMKL
    >>> SimpleMKL(C=10.0)
    SimpleMKL(C=10.0)
    """

    any_way = ("auto",)

    def __init__(
        self,
        C: Cost = 1.0,
        *,
        loss: MachineLoss = "auto",
        epsilon: Epsilon = 0.1,
        solver: Annotated[str, OneOf(*SIMPLE_SOLVERS)] = "auto",
        tol: Tol = 1e-8,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def method(self, info: Info) -> Method:
        return Method(self.losses(info.classification), Simplex(), self.solver, self.max_iter)


class SILP(MarginLearner):
    """L1 margin MKL by cutting planes: the problem of `SimpleMKL`, solved by a sequence of linear programs.

    Steps go from the best weights part of the way to the optimum of the linear program; the published steps go all the
    way.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0.
    loss
        See `SimpleMKL`.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    tol : float, default=1e-6
        Relative duality gap.
    max_iter : int, optional
        Cuts; default 500.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    References
    ----------
    S. Sonnenburg, G. Rätsch, C. Schäfer, B. Schölkopf, Large scale multiple kernel learning, JMLR 7 (2006).

    Examples
    --------
    >>> from kernelweave.learners import SILP
    >>> SILP(C=10.0)
    SILP(C=10.0)
    """

    def __init__(
        self,
        C: Cost = 1.0,
        *,
        loss: MachineLoss = "auto",
        epsilon: Epsilon = 0.1,
        tol: Tol = 1e-6,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def method(self, info: Info) -> Method:
        return Method(self.losses(info.classification), Simplex(), "cutting-plane", self.max_iter)


class LpMKL(MarginLearner):
    """Lp-norm margin MKL: weights of p-norm at most 1, from sparse (p = 1) to equal (p large).

    Parameters
    ----------
    p : float, default=2.0
        At least 1; at 1 the problem is that of `SimpleMKL`.
    C : float, default=1.0
        Weight of the loss > 0.
    loss
        See `SimpleMKL`.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    solver : {"auto", "closed-form", "dual-newton"}, default="auto"
        "closed-form" alternates the machine and the weights; "dual-newton" finds both at once in fewer machines, for
        losses other than the logistic. "auto" is the closed form.
    tol : float, default=1e-8
        Relative duality gap.
    max_iter : int, optional
        Iterations; default 500.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    References
    ----------
    M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien, lp-norm multiple kernel learning, JMLR 12 (2011).

    Examples
    --------
    >>> from kernelweave.learners import LpMKL
    >>> LpMKL(p=4)
    LpMKL(p=4)
    """

    #: Also for older model files.
    solver = "auto"

    any_way = ("auto", "dual-newton")
    sparse = False

    def __init__(
        self,
        p: Annotated[float, Number(least=1), Shown("Norm p")] = 2.0,
        C: Cost = 1.0,
        *,
        loss: MachineLoss = "auto",
        epsilon: Epsilon = 0.1,
        solver: Annotated[str, OneOf(*BALL_SOLVERS)] = "auto",
        tol: Tol = 1e-8,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.p = p
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def method(self, info: Info) -> Method:
        weight_set = Simplex() if self.p == 1 else LpBall(float(self.p))
        solver = self.solver if self.p > 1 else "auto"
        return Method(self.losses(info.classification), weight_set, solver, self.max_iter)


class ElasticNetMKL(MarginLearner):
    """Elastic-net MKL: few kernels, but correlated ones together.

    With ``f = sum_m f_m + b``, one part ``f_m`` for each kernel ``s_m K_m``, minimises

        1/2 (mix (sum_m ||f_m||)^2 + (1 - mix) sum_m ||f_m||^2) + C sum_i loss(y_i, f_i) ,

    which is margin MKL with weights ``d_m = t_m / (mix + (1 - mix) t_m)`` of shares t on the simplex, at the optimum
    ``t_m = ||f_m|| / sum_k ||f_k||``.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0.
    mix : float, default=0.5
        From 0 (the sum of all kernels) to 1 (`SimpleMKL`).
    loss
        See `SimpleMKL`.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    solver : {"auto", "newton", "interior-point", "closed-form"}, default="auto"
        Newton on the shares, and an interior point if that is slow; "closed-form" is the published alternation.
        At mix = 0 and 1 always "auto".
    tol : float, default=1e-8
        Relative duality gap.
    max_iter : int, optional
        Outer iterations; default 500.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    Notes
    -----
    The problem is that of the alternation in the authors' toolbox PRoNTo 3.1 (``ENMKLSVMtrain``), with its mu as
    `mix`; it was taken from that code, not from an equation of the paper, and no table of the paper was reproduced.
    PRoNTo stops when coefficients hardly change, drops parts with norms below 1e-4, and divides the weights by their
    sum at the end, which gives the same f; its regression has the squared loss.

    References
    ----------
    J. Mourão-Miranda, Z. Hussain, K. Tsirlis, C. Phillips, J. Shawe-Taylor, Elastic-net multiple kernel learning:
    combining multiple data sources for prediction, arXiv:2512.11547 (2025).

    Examples
    --------
    >>> from kernelweave.learners import ElasticNetMKL
    >>> ElasticNetMKL(C=10.0, mix=0.9)
    ElasticNetMKL(C=10.0, mix=0.9)
    """

    any_way = ("auto",)

    def __init__(
        self,
        C: Cost = 1.0,
        mix: Annotated[float, Number(least=0, most=1), Shown("Share of the 1-norm (mix)")] = 0.5,
        *,
        loss: MachineLoss = "auto",
        epsilon: Epsilon = 0.1,
        solver: Annotated[str, OneOf(*NET_SOLVERS)] = "auto",
        tol: Tol = 1e-8,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.C = C
        self.mix = mix
        self.loss = loss
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def method(self, info: Info) -> Method:
        loss, mix = self.losses(info.classification), float(self.mix)
        if 0.0 < mix < 1.0:
            return Method(loss, ElasticNet(mix), self.solver, self.max_iter)
        return Method(loss, Simplex() if mix == 1.0 else LpBall(math.inf), max_iter=self.max_iter)


class SoftMarginMKL(MarginLearner):
    """Soft-margin MKL with the hinge (SM1MKL): weights on the simplex, none above `theta`.

    Parameters
    ----------
    theta : float, default=0.5
        From 1 / n_kernels (the average kernel; smaller values are raised to it) to 1 (`SimpleMKL`).
    C : float, default=1.0
        Weight of the loss > 0.
    loss
        See `SimpleMKL`.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    solver : {"auto", "newton", "interior-point", "closed-form"}, default="auto"
        "closed-form" is the published alternation, after which Newton continues if it is slow.
    tol : float, default=1e-8
        Relative duality gap.
    max_iter : int, optional
        Outer iterations; default 500.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    References
    ----------
    X. Xu, I. W. Tsang, D. Xu, Soft margin multiple kernel learning, IEEE TNNLS 24 (2013).

    Examples
    --------
    >>> from kernelweave.learners import SoftMarginMKL
    >>> SoftMarginMKL(theta=0.25)
    SoftMarginMKL(theta=0.25)
    """

    any_way = ("auto",)

    def __init__(
        self,
        theta: Annotated[float, Number(above=0, most=1), Shown("Largest weight (theta)")] = 0.5,
        C: Cost = 1.0,
        *,
        loss: MachineLoss = "auto",
        epsilon: Epsilon = 0.1,
        solver: Annotated[str, OneOf(*SOFT_SOLVERS)] = "auto",
        tol: Tol = 1e-8,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.theta = theta
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def method(self, info: Info) -> Method:
        cap = max(float(self.theta), 1.0 / info.gram.n_kernels)
        return Method(self.losses(info.classification), CappedSimplex(cap), self.solver, self.max_iter)


class Uniform(RuleLearner):
    """The average kernel: equal weights, one support vector machine. A baseline for all other methods.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0.
    loss
        See `SimpleMKL`.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    tol : float, default=1e-8
        Relative duality gap of the machine.

    Examples
    --------
    >>> from kernelweave.learners import Uniform
    >>> Uniform(C=10.0)
    Uniform(C=10.0)
    """

    max_iter = None

    any_way = ("auto",)
    sparse = False

    def __init__(
        self, C: Cost = 1.0, *, loss: MachineLoss = "auto", epsilon: Epsilon = 0.1, tol: Tol = 1e-8
    ) -> None:
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.tol = tol

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        return problem.at(np.full(problem.gram.n_kernels, 1.0 / problem.gram.n_kernels), warm)


class BestKernel(RuleLearner):
    """The best single kernel by cross-validation, with a support vector machine.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0.
    loss
        See `SimpleMKL`.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    n_folds : int, default=3
        Folds, made from the content of the rows: equal rows share one, so that a weight is equivalent to a repetition.
    tol : float, default=1e-8
        Relative duality gap of the final machine.

    Notes
    -----
    Costs ``n_kernels * n_folds`` machines.

    Examples
    --------
    >>> from kernelweave.learners import BestKernel
    >>> BestKernel(C=10.0)
    BestKernel(C=10.0)
    """

    max_iter = None
    validates = True

    def __init__(
        self,
        C: Cost = 1.0,
        *,
        loss: MachineLoss = "auto",
        epsilon: Epsilon = 0.1,
        n_folds: CriterionFolds = 3,
        tol: Tol = 1e-8,
    ) -> None:
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.n_folds = n_folds
        self.tol = tol

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        losses = self._losses_of_kernels(problem)
        weights = np.zeros(problem.gram.n_kernels)
        # sums of the same losses in another order differ in their last digits
        weights[int(np.argmax(losses <= losses.min() * (1.0 + 1e-9)))] = 1.0
        return problem.at(weights, warm)

    def _losses_of_kernels(self, problem: MarginProblem) -> Array:
        """Error rate, or squared error, of every kernel over the folds; ties go to the first kernel."""
        gram, machine = problem.gram, problem.machine
        n = gram.n_samples
        classification = problem.classification
        weight = np.ones(n) if machine.sample_weight is None else machine.sample_weight
        folds = problem.folds(self.n_folds)
        losses = np.zeros(gram.n_kernels)
        if len(folds) < 2:
            return losses
        unit = np.zeros(gram.n_kernels)
        for m in range(gram.n_kernels):
            unit[m] = problem.scale[m]
            K = gram.combine(unit)
            unit[m] = 0.0
            for fold in folds:
                train = np.setdiff1d(np.arange(n), fold)
                own = replace(machine, y=machine.y[train], sample_weight=weight[train])
                if classification and len(np.unique(own.y)) < 2:
                    f = np.full(len(fold), own.y[0])
                else:
                    found = own.solve(np.ascontiguousarray(K[np.ix_(train, train)]), tol=1e-4)
                    f = K[np.ix_(fold, train)] @ found.dual_coef + found.intercept
                wrong = (f > 0) != (machine.y[fold] > 0) if classification else np.square(f - machine.y[fold])
                losses[m] += float(weight[fold] @ wrong)
        return losses
