"""Learners by margin and radius: of weights, and of the parameters of one kernel."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import LARGEST_NUMBER, MaxIter, Number, OneOf, Shown, Whole
from kernelweave.functions import KernelFunction
from kernelweave.gram import Gram
from kernelweave.kernels import RBF, Polynomial, RationalQuadratic
from kernelweave.learners.base import Array
from kernelweave.learners.solving import CostLearner, MarginLearner, Output
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import SquaredHinge
from kernelweave.mkl.families import FunctionOfSum, GaussianOfSum, WeightedSum
from kernelweave.mkl.layers import DeepSolution, TrainedLayers
from kernelweave.mkl.radius import MOST, STEPS, solve_radius_problem
from kernelweave.results import RadiusSolution, Solution

LOCAL_STEPS = ("auto", "spectral", "armijo")
LOCAL = (
    "The parameters are a local solution: the criterion is not convex. The gap certifies the machine on the learnt "
    "kernel: its objective is at most the gap above its optimum."
)
#: Multiples of the first guess of the widths; the best is the start.
STARTS = (0.1, 0.3, 1.0, 3.0, 10.0)


#: Families of `ParametricKernel`.
FAMILIES = ("polynomial", "rational-quadratic")


@dataclass(frozen=True)
class Form:
    """A kernel as a function phi of a sum of kernels; without a function it is the Gaussian.

    Attributes
    ----------
    name : str
    function : callable or None
        Returns phi for its own parameters.
    own, least, most : tuple of float
        Where these start, and their range.
    slope : callable
        Derivative of phi by these, see `FunctionOfSum`.
    """

    name: str
    function: Callable[..., KernelFunction] | None = None
    own: tuple[float, ...] = ()
    least: tuple[float, ...] = ()
    most: tuple[float, ...] = ()
    slope: Callable[[Any, Array], Array] | None = None

    def on(self, gram: Gram, scale: Array, sample_weight: Array | None) -> GaussianOfSum | FunctionOfSum:
        """The family of kernels."""
        if self.function is None:
            return GaussianOfSum(gram, scale)
        return FunctionOfSum(gram, scale, self.function, np.array(self.own), self.slope, sample_weight)

    def at(self, own: Array) -> KernelFunction:
        """The kernel at its own parameters."""
        return RBF(1.0) if self.function is None else self.function(*own.tolist())


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
    question = "sources"

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
    question = "radius"
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
    question = "radius"
    regression = False
    loss = "squared-hinge"

    solver: Annotated[str, OneOf(*STEPS)] = "auto"
    tol = 1e-6

    def learn(self, output: Output) -> Solution:
        return self._minimise(output, "do", 1)


def _by_constant(phi: KernelFunction, S: Array) -> Array:
    """The derivative by the constant is that by the inner product."""
    return phi.gradient(np, S, None)


class FamilyLearner(RadiusLearner, MarginLearner, abstract=True):
    """Base of the learners of a kernel phi(sum_m t_m s_m K_m), by the same criteria: t and the parameters of phi.

    Parameters
    ----------
    kind
        Margin over radius; radius times margin with the squared hinge, after Chapelle et al. or as equation (10) of the
        RKL paper prints it (both for classification only); or the margin alone. See `kernelweave.solvers.solve_radius`.
    start
        Where the descent starts, as a multiple of the typical size: equal parts of a mean squared distance, or norm, of
        1. None: the best of 0.1, 0.3, 1, 3 and 10 by the criterion.
    lower
        Least t, as a multiple of the same size; 0 allows that a kernel is left out.
    upper
        Largest t, as a multiple of the same size; None for no bound.
    """

    certificate = LOCAL
    one_kernel = True

    kind: Annotated[
        str, OneOf("rkl", "kl-c", "kl-c-eq10", "margin"), Shown("Criterion of the parameters")
    ] = "rkl"
    start: Annotated[float | None, Number(above=0) | None, Shown("Start of the parameters")] = None
    lower: Annotated[float, Number(least=0), Shown("Least parameter")] = 0.0
    upper: Annotated[float | None, Number(above=0) | None, Shown("Largest parameter")] = None

    @abstractmethod
    def form(self) -> Form:
        """The kernel as a function of the sum."""

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
        return [[self.form().name]]

    def loss_for(self, classification: bool) -> Loss:
        if not self.kind.startswith("kl-c"):
            return super().loss_for(classification)
        if not classification:
            raise InputError(
                f"kind={self.kind!r} is for classification; for regression use 'rkl' or 'margin'."
            )
        if self.loss not in ("auto", SquaredHinge.name, SquaredHinge()):
            raise InputError(
                f"`kind` {self.kind!r} has the squared hinge, got `loss` {self.loss!r}. Use the loss "
                "'auto', or the `kind` 'rkl' or 'margin'."
            )
        return SquaredHinge()

    def learn(self, output: Output) -> Solution:
        machine, gram, scale, form = output.machine, output.gram, output.problem.scale, self.form()
        family = form.on(gram, scale, machine.sample_weight)
        guess = family.start(machine.sample_weight)
        m = gram.n_kernels
        upper = LARGEST_NUMBER if self.upper is None else self.upper
        family.bounds = np.r_[self.lower * guess[:m], form.least], np.r_[upper * guess[:m], form.most]

        def run(start: Array, max_iter: int, tol: float) -> RadiusSolution:
            return solve_radius_problem(
                family, machine, self.kind, tol=tol, step=self.solver, max_iter=max_iter, start=start
            )

        starts = STARTS if self.start is None else (self.start,)
        trials = [run(np.r_[share * guess[:m], guess[m:]], 1, 1e-2) for share in starts]
        best = min(trials, key=lambda found: found.value)
        found = run(best.weights, self.max_iter or MOST, output.tol)
        return found.extended(
            DeepSolution,
            weights=found.weights[:m] * family.unit,
            upper=TrainedLayers(
                ((form.at(found.weights[m:]),),), False, (np.ones(1),), (family.diagonal(found.weights),)
            ),
            value=found.value,
            radius2=found.radius2,
        )


class ARDGaussian(FamilyLearner):
    """ARD Gaussian: one Gaussian kernel with learnt widths: a relevance for each kernel instead of a weight.

    ARD stands for automatic relevance determination: irrelevant kernels have the relevance 0.

    The kernel is, with ``t >= 0`` and ``s_m`` from the estimator's normaliser,

        k(x, z) = exp(-sum_m t_m s_m D_m(x, z)) ,      D_m(x, z) = K_m(x, x) + K_m(z, z) - 2 K_m(x, z) .

    With one linear kernel of all columns t is the gamma of an RBF kernel; with one linear kernel for each column every
    column has its own gamma; with other kernels the distances are those of their feature spaces. The criterion is
    not convex; the descent starts from the best of a few equal shares.

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
    question = "columns"

    def form(self) -> Form:
        return Form("Gaussian")


class ParametricKernel(FamilyLearner):
    """A parametric kernel: a family of kernels by its name, with learnt parameters instead of weights.

    With ``t >= 0``, ``s_m`` from the estimator's normaliser, ``K(t) = sum_m t_m s_m K_m`` and squared distances D(t):

    - "polynomial": ``(K(t) + coef0) ** degree``, where `coef0` >= 0 is learnt too;
    - "rational-quadratic": ``(1 + D(t) / power) ** -power``, where `power` between 0.1 and 100 is learnt too: a small
      one mixes Gaussians of many widths. The descent takes many steps, and often ends at `max_iter`.

    The Gaussian family is `ARDGaussian`.

    With one linear kernel of all columns there is one width, with one for each column (`banks.linear_features`) every
    column has its own. The criterion is not convex; the solution is local.

    Parameters
    ----------
    family
        The kernel.
    degree
        Degree of the polynomial, which is not learnt.

    References
    ----------
    K. Gai, G. Chen, C. Zhang, Learning kernels with radiuses of minimum enclosing balls, NIPS 2010, section 4.
    C. Cortes, M. Mohri, A. Rostamizadeh, Learning non-linear combinations of kernels, NIPS 2009.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> learner = kw.learners.ParametricKernel(C=10.0, degree=2)
    >>> model = kw.MKLClassifier(kw.banks.linear_features(3), learner).fit(X, X[:, 0] * X[:, 1] > 0)
    >>> int(np.argmin(model.weights_)), model.kernel_parameters_["coef0"] >= 0
    (2, True)
    """

    name = "parametric"
    question = "columns"
    learnt = ("power", "coef0")
    leading: ClassVar[tuple[str, ...]] = ("C", "family")

    family: Annotated[
        str,
        OneOf(
            *FAMILIES, remedy="For another family use kw.solvers.KernelFamily and kw.solvers.solve_radius."
        ),
        Shown("Family of kernels"),
    ] = "polynomial"
    degree: Annotated[int, Whole(1, 20), Shown("Degree of the polynomial")] = 2

    def check(self) -> None:
        super().check()
        if self.degree != type(self).degree and self.family != "polynomial":
            raise InputError(
                f"`degree` is for family='polynomial', got {self.degree} with {self.family!r}. Leave it out."
            )

    def form(self) -> Form:
        if self.family == "rational-quadratic":
            made = partial(RationalQuadratic, 1.0)
            return Form("rational quadratic", made, (1.0,), (0.1,), (100.0,), RationalQuadratic.by_power)
        own = (1.0,), (0.0,), (math.inf,), _by_constant
        return Form("polynomial", partial(Polynomial, self.degree), *own)
