"""Learners whose weights minimise the optimal value of a machine over a set of weights, and their baselines."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import numpy as np

from kernelweave._parameters import MaxIter, Number, OneOf, Shown, Whole
from kernelweave.gram import FeatureStack, Gram
from kernelweave.learners.base import Array
from kernelweave.learners.solving import MarginLearner, Output
from kernelweave.mkl.problem import Problem
from kernelweave.mkl.solve import methods_for
from kernelweave.mkl.weight_sets import CappedSimplex, ElasticNet, LpBall, Simplex
from kernelweave.results import Solution

#: Folds inside every fit, separate from those that choose the regularisation parameter.
CriterionFolds = Annotated[int, Whole(2, 1000), Shown("Folds of the criterion", setting="criterion_folds")]


class SimpleMKL(MarginLearner):
    """L1 margin MKL: the kernel weights on the simplex that give a support vector machine the smallest objective.

    Minimises over d on the simplex and ``f = <w, phi_d(x)> + b`` with the kernel ``K(d) = sum_m d_m s_m K_m``

        1/2 ||w||^2 + C sum_i loss(y_i, f_i) .

    Parameters
    ----------
    solver
        Active-set Newton, and an interior point if that is slow; "reduced-gradient" is the published descent
        with a line search by derivatives, "cutting-plane" is SILP with shortened steps.
    max_iter
        Outer iterations; default 500.

    References
    ----------
    A. Rakotomamonjy, F. Bach, S. Canu, Y. Grandvalet, SimpleMKL, JMLR 9 (2008).

    Examples
    --------
    >>> from kernelweave.learners import SimpleMKL
    >>> SimpleMKL(C=10.0)
    SimpleMKL(C=10.0)
    """

    name = "simple"
    question = "few"
    any_loss = True
    any_way = ("auto",)

    solver: Annotated[str, OneOf(*methods_for(Simplex))] = "auto"
    max_iter: MaxIter = None

    def problem(self, kernels: Gram | FeatureStack, y: Array) -> Problem:
        return self.joint(kernels, y, Simplex())


class SILP(MarginLearner):
    """L1 margin MKL by cutting planes: the problem of `SimpleMKL`, solved by a sequence of linear programs.

    Steps go from the best weights part of the way to the optimum of the linear program; the published steps go all the
    way.

    Parameters
    ----------
    tol
        Relative duality gap.
    max_iter
        Cuts; default 500.

    References
    ----------
    S. Sonnenburg, G. Rätsch, C. Schäfer, B. Schölkopf, Large scale multiple kernel learning, JMLR 7 (2006).

    Examples
    --------
    >>> from kernelweave.learners import SILP
    >>> SILP(C=10.0)
    SILP(C=10.0)
    """

    name = "silp"
    question = "few"
    any_loss = True
    solver = "cutting-plane"

    tol = 1e-6
    max_iter: MaxIter = None

    def problem(self, kernels: Gram | FeatureStack, y: Array) -> Problem:
        return self.joint(kernels, y, Simplex())


class LpMKL(MarginLearner):
    """Lp-norm margin MKL: weights of p-norm at most 1, from sparse (p = 1) to equal (p large).

    Parameters
    ----------
    p
        At least 1; at 1 the problem is that of `SimpleMKL`.
    solver
        "closed-form" alternates the machine and the weights; "dual-newton" finds both at once in fewer machines, for
        losses other than the logistic. "auto" is the closed form.
    max_iter
        Iterations; default 500.

    References
    ----------
    M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien, lp-norm multiple kernel learning, JMLR 12 (2011).

    Examples
    --------
    >>> from kernelweave.learners import LpMKL
    >>> LpMKL(p=4)
    LpMKL(p=4)
    """

    name = "lp"
    question = "predict"
    any_loss = True
    any_way = ("auto", "dual-newton")

    p: Annotated[float, Number(least=1), Shown("Norm p")] = 2.0
    solver: Annotated[str, OneOf(*methods_for(LpBall))] = "auto"
    max_iter: MaxIter = None

    @property
    def sparse(self) -> bool:
        return self.p == 1

    def problem(self, kernels: Gram | FeatureStack, y: Array) -> Problem:
        return self.joint(kernels, y, Simplex() if self.sparse else LpBall(float(self.p)))


class ElasticNetMKL(MarginLearner):
    """Elastic-net MKL: few kernels, but correlated ones together.

    With ``f = sum_m f_m + b``, one part ``f_m`` for each kernel ``s_m K_m``, minimises

        1/2 (mix (sum_m ||f_m||)^2 + (1 - mix) sum_m ||f_m||^2) + C sum_i loss(y_i, f_i) ,

    which is margin MKL with weights ``d_m = t_m / (mix + (1 - mix) t_m)`` of shares t on the simplex, at the optimum
    ``t_m = ||f_m|| / sum_k ||f_k||``.

    Parameters
    ----------
    mix
        From 0 (the sum of all kernels) to 1 (`SimpleMKL`).
    solver
        Newton on the shares, and an interior point if that is slow; "closed-form" is the published alternation.
        At mix = 0 and 1 always "auto".
    max_iter
        Outer iterations; default 500.

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

    name = "elastic-net"
    question = "sources"
    any_loss = True
    any_way = ("auto",)

    mix: Annotated[float, Number(least=0, most=1), Shown("Share of the 1-norm (mix)")] = 0.5
    solver: Annotated[str, OneOf(*methods_for(ElasticNet))] = "auto"
    max_iter: MaxIter = None

    @property
    def sparse(self) -> bool:
        return self.mix > 0

    def problem(self, kernels: Gram | FeatureStack, y: Array) -> Problem:
        mix = float(self.mix)
        inner = ElasticNet(mix) if 0.0 < mix < 1.0 else None
        return self.joint(kernels, y, inner or (Simplex() if mix == 1.0 else LpBall(math.inf)))


class SoftMarginMKL(MarginLearner):
    """Soft-margin MKL with the hinge (SM1MKL): weights on the simplex, none above `theta`.

    Parameters
    ----------
    theta
        From 1 / n_kernels (the average kernel; smaller values are raised to it) to 1 (`SimpleMKL`).
    solver
        "closed-form" is the published alternation, after which Newton continues if it is slow.
    max_iter
        Outer iterations; default 500.

    References
    ----------
    X. Xu, I. W. Tsang, D. Xu, Soft margin multiple kernel learning, IEEE TNNLS 24 (2013).

    Examples
    --------
    >>> from kernelweave.learners import SoftMarginMKL
    >>> SoftMarginMKL(theta=0.25)
    SoftMarginMKL(theta=0.25)
    """

    name = "soft-margin"
    question = "predict"
    any_loss = True
    any_way = ("auto",)

    theta: Annotated[float, Number(above=0, most=1), Shown("Largest weight (theta)")] = 0.5
    solver: Annotated[str, OneOf(*methods_for(CappedSimplex))] = "auto"
    max_iter: MaxIter = None

    def problem(self, kernels: Gram | FeatureStack, y: Array) -> Problem:
        return self.joint(kernels, y, CappedSimplex(max(float(self.theta), 1.0 / kernels.n_kernels)))


class Uniform(MarginLearner):
    """The average kernel: equal weights, one support vector machine. A baseline for all other methods.

    Parameters
    ----------
    tol
        Relative duality gap of the machine.

    Examples
    --------
    >>> from kernelweave.learners import Uniform
    >>> Uniform(C=10.0)
    Uniform(C=10.0)
    """

    name = "uniform"
    question = "baseline"
    any_loss = True
    any_way = ("auto",)
    sparse = False

    def learn(self, output: Output) -> Solution:
        return output.at(np.full(output.gram.n_kernels, 1.0 / output.gram.n_kernels))


class BestKernel(MarginLearner):
    """The best single kernel by cross-validation, with a support vector machine.

    Parameters
    ----------
    n_folds
        Folds, made from the content of the rows: equal rows share one, so that a weight is equivalent to a repetition.
    tol
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

    name = "best"
    question = "baseline"
    any_loss = True
    validates = True

    n_folds: CriterionFolds = 3

    def learn(self, output: Output) -> Solution:
        losses = self._losses_of_kernels(output)
        weights = np.zeros(output.gram.n_kernels)
        # sums of the same losses in another order differ in their last digits
        weights[int(np.argmax(losses <= losses.min() * (1.0 + 1e-9)))] = 1.0
        return output.at(weights)

    def _losses_of_kernels(self, output: Output) -> Array:
        """Error rate, or squared error or what scores its loss, of every kernel over the folds."""
        gram, machine = output.gram, output.machine
        n = gram.n_samples
        classification = output.training.classification
        weight = np.ones(n) if machine.sample_weight is None else machine.sample_weight
        folds = output.folds(self.n_folds)
        losses = np.zeros(gram.n_kernels)
        if len(folds) < 2:
            return losses
        unit = np.zeros(gram.n_kernels)
        for m in range(gram.n_kernels):
            unit[m] = output.problem.scale[m]
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
                y = machine.y[fold]
                wrong = (f > 0) != (y > 0) if classification else np.square(f - y)
                if machine.loss.scores:
                    losses[m] += machine.loss.total(y, weight[fold], f)
                else:
                    losses[m] += float(weight[fold] @ wrong)
        return losses
