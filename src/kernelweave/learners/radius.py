"""Learners by margin and radius: of weights, and of the parameters of one kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import LARGEST_NUMBER, MaxIter, Number, OneOf, Shown
from kernelweave.kernels import RBF
from kernelweave.learners.base import Array
from kernelweave.learners.solving import CostLearner, MarginLearner, Output
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import SquaredHinge
from kernelweave.mkl.deep import DeepSolution
from kernelweave.mkl.families import GaussianOfSum, WeightedSum
from kernelweave.mkl.layers import TrainedLayers
from kernelweave.mkl.radius import MOST, STEPS, solve_radius_problem
from kernelweave.results import RadiusSolution, Solution

LOCAL_STEPS = ("auto", "spectral", "armijo")
LOCAL = (
    "The parameters are a local solution: the criterion is not convex. The gap certifies the machine on the learnt "
    "kernel: its objective is at most the gap above its optimum."
)
#: Multiples of the first guess of the widths; the best is the start.
STARTS = (0.1, 0.3, 1.0, 3.0, 10.0)


class RadiusLearner(CostLearner, abstract=True):
    """Base of the learners by a criterion of `solve_radius`.

    Parameters
    ----------
    solver
        Guess of the step length of the projected gradient.
    tol
        Stationarity at which to stop.
    max_iter
        Steps; default 200.
    """

    former: ClassVar[Mapping[str, str]] = {"step": "solver"}

    solver: Annotated[str, OneOf(*LOCAL_STEPS)] = "auto"
    tol = 1e-3
    max_iter: MaxIter = None

    def _minimise(self, output: Output, kind: str, norm: int | None) -> Solution:
        # convex problems may start from the last solution; others would stay near its local minimum
        convex = kind in ("rkl", "do") and self.solver in ("auto", "newton")
        family = WeightedSum(output.gram, output.problem.scale)
        return solve_radius_problem(
            family, output.machine, kind, norm, tol=output.tol, step=self.solver, max_iter=self.max_iter or MOST,
            start=output.start.weights if convex else None,
        )  # fmt: skip


class RKL(RadiusLearner, MarginLearner):
    """Radius-margin kernel learning: weights that minimise the optimal value of a machine on ``K / r^2(K)``.

    r^2 is the squared radius of the minimum enclosing ball. The criterion does not change when a kernel or the sum is
    multiplied, so it needs no norm on the weights. On sums of kernels it is equivalent to a convex problem, solved with
    a global certificate.

    Parameters
    ----------
    C
        Weight of the loss > 0, on a kernel whose ball has radius 1.
    norm
        Constraint on the weights, which does not change the learnt kernel.
    solver
        Newton steps, or the published projected gradient with one of two guesses of the step length. "auto": Newton.
    tol
        Relative gap at which to stop; see `kernelweave.solvers.solve_radius`.

    References
    ----------
    K. Gai, G. Chen, C. Zhang, Learning kernels with radiuses of minimum enclosing balls, NIPS 2010.

    Examples
    --------
    >>> from kernelweave.learners import RKL
    >>> RKL(C=10.0, norm=2)
    RKL(C=10.0, norm=2)
    """

    name = "rkl"

    norm: Annotated[int | None, OneOf(1, 2, None), Shown("Norm of the weights")] = 1
    solver: Annotated[str, OneOf(*STEPS)] = "auto"
    tol = 1e-9

    def learn(self, output: Output) -> Solution:
        return self._minimise(output, "rkl", self.norm)


class ChapelleRadius(RadiusLearner):
    """Radius times margin with the squared hinge (KL-C): weights that minimise ``r^2 W^2 / 2``.

    Parameters
    ----------
    C
        Weight of the squared hinge > 0.
    variant
        Radius of ``K + I / C``, as Chapelle et al. do, or of K alone, as equation (10) of the RKL paper prints it.
        They are not equivalent; the second goes to zero with the scale of the kernel.
    norm
        Constraint on the weights, which changes the solution.

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

    name = "kl-c"
    regression = False
    loss = "squared-hinge"
    certificate = LOCAL

    variant: Annotated[str, OneOf("chapelle", "eq10"), Shown("Variant of the radius")] = "chapelle"
    norm: Annotated[int, OneOf(1, 2), Shown("Norm of the weights")] = 1

    def learn(self, output: Output) -> Solution:
        return self._minimise(output, "kl-c" if self.variant == "chapelle" else "kl-c-eq10", self.norm)


class DoRadius(RadiusLearner):
    """Margin MKL with a bound of the radius (Do et al.): C is divided by ``sum_m d_m r_m^2``, d on the simplex.

    Parameters
    ----------
    C
        Weight of the squared hinge > 0.
    solver
        Newton steps, or a projected gradient. "auto": Newton.
    tol
        Relative gap at which to stop.

    References
    ----------
    H. Do, A. Kalousis, A. Woznica, M. Hilario, Margin and radius based multiple kernel learning, ECML PKDD 2009.

    Examples
    --------
    >>> from kernelweave.learners import DoRadius
    >>> DoRadius(C=10.0)
    DoRadius(C=10.0)
    """

    name = "do"
    regression = False
    loss = "squared-hinge"

    solver: Annotated[str, OneOf(*STEPS)] = "auto"
    tol = 1e-6

    def learn(self, output: Output) -> Solution:
        return self._minimise(output, "do", 1)


class ARDGaussian(RadiusLearner, MarginLearner):
    """ARD Gaussian: one Gaussian kernel with learnt widths: a relevance for each kernel instead of a weight.

    ARD stands for automatic relevance determination: irrelevant kernels have the relevance 0.

    The kernel is, with ``t >= 0`` and ``s_m`` from the estimator's normaliser,

        k(x, z) = exp(-sum_m t_m s_m D_m(x, z)) ,      D_m(x, z) = K_m(x, x) + K_m(z, z) - 2 K_m(x, z) .

    With one linear kernel of all columns t is the gamma of an RBF kernel; with one linear kernel for each column every
    column has its own gamma; with other kernels the distances are those of their feature spaces. The criterion is
    not convex; the descent starts from the best of a few equal shares.

    Parameters
    ----------
    kind
        Margin over radius; radius times margin with the squared hinge, after Chapelle et al. or as equation (10) of the
        RKL paper prints it (both for classification only); or the margin alone. See `kernelweave.solvers.solve_radius`.
    start
        Where the descent starts, as a multiple of the typical size: equal parts of a mean squared distance of 1. None:
        the best of 0.1, 0.3, 1, 3 and 10 by the criterion.
    lower
        Least t, as a multiple of the same size; 0 allows that a kernel is left out.
    upper
        Largest t, as a multiple of the same size; None for no bound.

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

    name = "gaussian"
    certificate = LOCAL

    kind: Annotated[
        str, OneOf("rkl", "kl-c", "kl-c-eq10", "margin"), Shown("Criterion of the parameters")
    ] = "rkl"
    start: Annotated[float | None, Number(above=0) | None, Shown("Start of the parameters")] = None
    lower: Annotated[float, Number(least=0), Shown("Least parameter")] = 0.0
    upper: Annotated[float | None, Number(above=0) | None, Shown("Largest parameter")] = None

    def check(self) -> None:
        super().check()
        least, most = self.lower, math.inf if self.upper is None else self.upper
        first = self.start if self.start is not None else min(max(1.0, least), most)
        if not least <= first <= most:
            raise InputError(
                f"`lower`, `start` and `upper` must be in this order, got {least:g}, {first:g} and {most:g}."
            )

    def layer_names(self) -> list[list[str]]:
        """The function."""
        return [["Gaussian"]]

    def loss_for(self, classification: bool) -> Loss:
        if not self.kind.startswith("kl-c"):
            return super().loss_for(classification)
        if not classification:
            raise InputError(
                f"kind={self.kind!r} is for classification; for regression use 'rkl' or 'margin'."
            )
        if self.loss not in ("auto", SquaredHinge.name, SquaredHinge()):
            raise InputError(
                f"kind={self.kind!r} has the squared hinge, got loss={self.loss!r}. Use loss='auto', or kind='rkl' or "
                "'margin'."
            )
        return SquaredHinge()

    def learn(self, output: Output) -> Solution:
        machine = output.machine
        family = GaussianOfSum(output.gram, output.problem.scale)
        guess = family.start(machine.sample_weight)
        upper = LARGEST_NUMBER if self.upper is None else self.upper
        family.bounds = self.lower * guess, upper * guess

        def run(start: Array, max_iter: int, tol: float) -> RadiusSolution:
            return solve_radius_problem(
                family, machine, self.kind, tol=tol, step=self.solver, max_iter=max_iter, start=start
            )

        starts = STARTS if self.start is None else (self.start,)
        trials = [run(share * guess, 1, 1e-2) for share in starts]
        best = min(trials, key=lambda found: found.value)
        found = run(best.weights, self.max_iter or MOST, output.tol)
        return found.extended(
            DeepSolution,
            upper=TrainedLayers(((RBF(1.0),),), False, (np.ones(1),), (family.diagonal(found.weights),)),
            value=found.value,
            radius2=found.radius2,
        )
