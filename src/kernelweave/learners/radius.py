"""Learners by margin and radius: of weights, and of the widths of Gaussians."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import Cost, Epsilon, MaxIter, MaxTime, OneOf, Shown, Tol
from kernelweave.kernels import RBF
from kernelweave.learners.method import MachineLoss, MarginProblem, RuleLearner
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import SquaredHinge
from kernelweave.mkl.criteria.gaussians import GaussianOfSum
from kernelweave.mkl.criteria.radius import WeightedSum
from kernelweave.mkl.deep import DeepSolution
from kernelweave.mkl.layers import TrainedLayers
from kernelweave.mkl.radius import MOST, STEPS, solve_radius_problem
from kernelweave.results import RadiusSolution, Solution, WarmStart

LOCAL_STEPS = ("auto", "spectral", "armijo")
LOCAL = (
    "The parameters are a local solution: the criterion is not convex. The gap certifies the machine on the learnt "
    "kernel: its objective is at most the gap above its optimum."
)
#: Multiples of the first guess of the widths; the best is the start.
STARTS = (0.1, 0.3, 1.0, 3.0, 10.0)


class _RadiusLearner(RuleLearner):
    """A criterion of `solve_radius`."""

    step: str

    def _run(self, problem: MarginProblem, warm: WarmStart, kind: str, norm: int | None) -> Solution:
        # convex problems may start from the last solution; others would stay near its local minimum
        convex = kind in ("rkl", "do") and self.step in ("auto", "newton")
        family = WeightedSum(problem.gram, problem.scale)
        return solve_radius_problem(
            family, problem.machine, kind, norm, tol=problem.tol, step=self.step, max_iter=self.max_iter or MOST,
            start=warm.weights if convex else None,
        )  # fmt: skip


class RKL(_RadiusLearner):
    """Radius-margin kernel learning: weights that minimise the optimal value of a machine on ``K / r^2(K)``.

    r^2 is the squared radius of the minimum enclosing ball. The criterion does not change when a kernel or the sum is
    multiplied, so it needs no norm on the weights. On sums of kernels it is equivalent to a convex problem, solved with
    a global certificate.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0, on a kernel whose ball has radius 1.
    norm : {1, 2, None}, default=1
        Constraint on the weights, which does not change the learnt kernel.
    loss : {"auto", "hinge", "squared-hinge", "logistic"}, default="auto"
        Loss of the machine. "auto": the hinge for classes, epsilon-insensitive for regression. The others are for
        classes; with "logistic" `MKLClassifier.predict_proba` needs no calibration.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    step : {"auto", "newton", "spectral", "armijo"}, default="auto"
        Newton steps, or the published projected gradient with one of two guesses of the step length. "auto": Newton.
    tol : float, default=1e-9
        Relative gap at which to stop; see `kernelweave.solve_radius`.
    max_iter : int, optional
        Steps; default 200.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    References
    ----------
    K. Gai, G. Chen, C. Zhang, Learning kernels with radiuses of minimum enclosing balls, NIPS 2010.

    Examples
    --------
    >>> from kernelweave.learners import RKL
    >>> RKL(C=10.0, norm=2)
    RKL(C=10.0, norm=2)
    """

    def __init__(
        self,
        C: Cost = 1.0,
        *,
        norm: Annotated[int | None, OneOf(1, 2, None), Shown("Norm of the weights")] = 1,
        loss: MachineLoss = "auto",
        epsilon: Epsilon = 0.1,
        step: Annotated[str, OneOf(*STEPS), Shown("Steps")] = "auto",
        tol: Tol = 1e-9,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.norm = norm
        self.epsilon = epsilon
        self.step = step
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        return self._run(problem, warm, "rkl", self.norm)


class ChapelleRadius(_RadiusLearner):
    """Radius times margin with the squared hinge (KL-C): weights that minimise ``r^2 W^2 / 2``.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared hinge > 0.
    variant : {"chapelle", "eq10"}, default="chapelle"
        Radius of ``K + I / C``, as Chapelle et al. do, or of K alone, as equation (10) of the RKL paper prints it.
        They are not equivalent; the second goes to zero with the scale of the kernel.
    norm : {1, 2}, default=1
        Constraint on the weights, which changes the solution.
    step : {"auto", "spectral", "armijo"}, default="auto"
        Guess of the step length of the projected gradient.
    tol : float, default=1e-3
        Stationarity at which to stop.
    max_iter : int, optional
        Steps; default 200.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    References
    ----------
    O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, Choosing multiple parameters for support vector machines,
    Machine Learning 46 (2002).

    Examples
    --------
    >>> from kernelweave.learners import ChapelleRadius
    >>> ChapelleRadius(C=10.0)
    ChapelleRadius(C=10.0)
    """

    regression = False
    loss = "squared-hinge"
    epsilon = 0.0
    certificate = LOCAL

    def __init__(
        self,
        C: Cost = 1.0,
        *,
        variant: Annotated[str, OneOf("chapelle", "eq10"), Shown("Variant of the radius")] = "chapelle",
        norm: Annotated[int, OneOf(1, 2), Shown("Norm of the weights")] = 1,
        step: Annotated[str, OneOf(*LOCAL_STEPS), Shown("Steps")] = "auto",
        tol: Tol = 1e-3,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.C = C
        self.variant = variant
        self.norm = norm
        self.step = step
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        return self._run(problem, warm, "kl-c" if self.variant == "chapelle" else "kl-c-eq10", self.norm)


class DoRadius(_RadiusLearner):
    """Margin MKL with a bound of the radius (Do et al.): C is divided by ``sum_m d_m r_m^2``, d on the simplex.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared hinge > 0.
    step : {"auto", "newton", "spectral", "armijo"}, default="auto"
        Newton steps, or a projected gradient. "auto": Newton.
    tol : float, default=1e-6
        Relative gap at which to stop.
    max_iter : int, optional
        Steps; default 200.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    References
    ----------
    H. Do, A. Kalousis, A. Woznica, M. Hilario, Margin and radius based multiple kernel learning, ECML PKDD 2009.

    Examples
    --------
    >>> from kernelweave.learners import DoRadius
    >>> DoRadius(C=10.0)
    DoRadius(C=10.0)
    """

    regression = False
    loss = "squared-hinge"
    epsilon = 0.0

    def __init__(
        self,
        C: Cost = 1.0,
        *,
        step: Annotated[str, OneOf(*STEPS), Shown("Steps")] = "auto",
        tol: Tol = 1e-6,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.C = C
        self.step = step
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        return self._run(problem, warm, "do", 1)


class ARDGaussian(_RadiusLearner):
    """ARD Gaussian: one Gaussian kernel with learnt widths: a relevance for each kernel instead of a weight.

    ARD stands for automatic relevance determination: irrelevant kernels have the relevance 0.

    The kernel is, with ``t >= 0`` and ``s_m`` from the estimator's normaliser,

        k(x, z) = exp(-sum_m t_m s_m D_m(x, z)) ,      D_m(x, z) = K_m(x, x) + K_m(z, z) - 2 K_m(x, z) .

    With one linear kernel of all columns t is the gamma of an RBF kernel; with one linear kernel for each column every
    column has its own gamma; with other kernels the distances are those of their feature spaces. The criterion is
    not convex; the descent starts from the best of a few equal shares.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0.
    kind : {"rkl", "kl-c", "kl-c-eq10", "margin"}, default="rkl"
        Margin over radius; radius times margin with the squared hinge, after Chapelle et al. or as equation (10) of the
        RKL paper prints it (both for classification only); or the margin alone. See `kernelweave.solve_radius`.
    loss
        See `RKL`.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    step : {"auto", "spectral", "armijo"}, default="auto"
        Guess of the step length of the projected gradient.
    tol : float, default=1e-3
        Stationarity at which to stop.
    max_iter : int, optional
        Steps; default 200.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    References
    ----------
    K. Gai, G. Chen, C. Zhang, Learning kernels with radiuses of minimum enclosing balls, NIPS 2010, section 4.
    O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, Choosing multiple parameters for support vector machines,
    Machine Learning 46 (2002).

    Examples
    --------
    >>> from kernelweave.learners import ARDGaussian
    >>> ARDGaussian(C=10.0, kind="margin")
    ARDGaussian(C=10.0, kind='margin')
    """

    certificate = LOCAL

    def __init__(
        self,
        C: Cost = 1.0,
        *,
        kind: Annotated[
            str, OneOf("rkl", "kl-c", "kl-c-eq10", "margin"), Shown("Criterion of the widths")
        ] = "rkl",
        loss: MachineLoss = "auto",
        epsilon: Epsilon = 0.1,
        step: Annotated[str, OneOf(*LOCAL_STEPS), Shown("Steps")] = "auto",
        tol: Tol = 1e-3,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.kind = kind
        self.epsilon = epsilon
        self.step = step
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def layer_names(self) -> list[list[str]]:
        """The Gaussian."""
        return [["Gaussian"]]

    def losses(self, classification: bool) -> Loss:
        if not self.kind.startswith("kl-c"):
            return super().losses(classification)
        if not classification:
            raise InputError(
                f"kind={self.kind!r} is for classification; for regression use 'rkl' or 'margin'."
            )
        if self.loss not in ("auto", SquaredHinge.name):
            raise InputError(
                f"kind={self.kind!r} has the squared hinge, got loss={self.loss!r}. Use loss='auto', or kind='rkl' or "
                "'margin'."
            )
        return SquaredHinge()

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        m = problem.machine
        family = GaussianOfSum(problem.gram, problem.scale)

        def run(start: np.ndarray, max_iter: int, tol: float) -> RadiusSolution:
            return solve_radius_problem(
                family, m, self.kind, tol=tol, step=self.step, max_iter=max_iter, start=start
            )

        guess = family.start(m.sample_weight)
        trials = [run(share * guess, 1, 1e-2) for share in STARTS]
        best = min(trials, key=lambda found: found.value)
        found = run(best.weights, self.max_iter or MOST, problem.tol)
        diagonal = family.diagonal(found.weights)
        return found.extended(
            DeepSolution,
            upper=TrainedLayers(((RBF(1.0),),), False, (np.ones(1),), (diagonal,)),
            value=found.value,
            radius2=found.radius2,
        )
