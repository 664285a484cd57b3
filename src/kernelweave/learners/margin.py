"""Learners with a margin: one machine, and weights that minimise its optimal value or come from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._parameters import Cost, Epsilon, MaxIter, Number, OneOf, Shown, Tol, Whole
from kernelweave.gram import Gram
from kernelweave.learners.base import Info, Learner
from kernelweave.learners.folds import deal
from kernelweave.machines.losses import LOSSES, EpsilonInsensitive, Loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.deep import DeepSolution
from kernelweave.mkl.layers import TrainedLayers
from kernelweave.mkl.problem import Problem, Session, WarmStart
from kernelweave.mkl.svm_mkl import solve_problem
from kernelweave.mkl.weight_sets import CappedSimplex, LpBall, Simplex, WeightSet, as_weight_set
from kernelweave.results import Certificate, Path, Solution

Array = NDArray[np.float64]

SIMPLE_SOLVERS = ("auto", "newton", "interior-point", "reduced-gradient", "cutting-plane")
SOFT_SOLVERS = ("auto", "newton", "interior-point", "closed-form")

#: Folds inside every fit; those that choose the strength are others.
CriterionFolds = Annotated[int, Whole(2, 1000), Shown("Folds of the criterion", setting="criterion_folds")]

#: C of an automatic path: from the smallest to the largest.
C_RANGE = (1e-2, 1e3)


@dataclass(frozen=True)
class MarginSolution(Solution):
    """Solutions of all outputs at one strength; certificates add up, and `trace` is that of the first output.

    Attributes
    ----------
    outputs : tuple of Solution
    """

    intercept: Array
    outputs: tuple[Solution, ...] = field(default=(), repr=False)

    @property
    def histories(self) -> tuple[Mapping[str, Array], ...]:
        """The traces of all outputs."""
        return tuple(one.trace for one in self.outputs)

    @property
    def radius2(self) -> Array | None:
        """Squared radii of the learnt kernels, where all have one."""
        found = [getattr(one, "radius2", None) for one in self.outputs]
        return None if any(value is None for value in found) else np.array(found, dtype=np.float64)

    @cached_property
    def stationarity(self) -> Array | None:
        """How nearly the weights of each output are stationary, where the criterion is not convex."""
        deep = any(isinstance(one, DeepSolution) for one in self.outputs)
        found = [one.stationarity for one in self.outputs]
        if not deep and any(value is None for value in found):
            return None
        # an output without any machine has nothing to learn
        values = np.array([0.0 if value is None else value for value in found], dtype=np.float64)
        return None if deep and np.isnan(values).any() else values

    @property
    def uppers(self) -> tuple[TrainedLayers | None, ...]:
        """Layers above the sum of kernels, for every output; empty where there are none."""
        deep = [one for one in self.outputs if isinstance(one, DeepSolution)]
        if not deep or deep[0].upper is None:
            return ()
        return tuple(one.upper if isinstance(one, DeepSolution) else None for one in self.outputs)

    @cached_property
    def layer_weights(self) -> Array | None:
        """Weights of all layers, ([n_outputs,] n_layers, n_kernels), NaN where a layer is short; None without."""
        deep = next((one.layer_weights for one in self.outputs if isinstance(one, DeepSolution)), ())
        if not deep:
            return None
        width = max(len(w) for w in deep)
        out = np.full((len(self.outputs), len(deep), width), np.nan)
        for block, one in zip(out, self.outputs, strict=True):
            # an output without any machine has no layers: equal weights stand for it
            own = one.layer_weights if isinstance(one, DeepSolution) else ()
            for row, w in zip(block, own or [np.full(len(w), 1.0 / len(w)) for w in deep], strict=True):
                row[: len(w)] = w
        return out[0] if len(out) == 1 else out


class MarginLearner(Learner):
    """Base of the learners with a C.

    Classification uses the hinge (or squared hinge), regression the epsilon-insensitive loss; every output is a problem
    of its own.
    """

    strength = "C"
    own_intercept = True
    loss = "hinge"

    C: float
    epsilon: float
    tol: float
    max_iter: int | None

    def requested(self) -> float | None:  # noqa: D102
        return 1.0 / float(self.C)

    def default_alphas(self, n_alphas: int) -> Array:  # noqa: D102
        return 1.0 / np.geomspace(*C_RANGE, n_alphas)

    def method(self, info: Info) -> Method:
        """How the problems are solved."""
        raise NotImplementedError

    def start(self) -> WarmStart:
        """An empty start."""
        return WarmStart()

    def remember(self, warm: WarmStart, result: Solution) -> None:
        """Leave a solution as the start of the next one."""
        warm.weights, warm.dual_coef = result.weights, result.dual_coef

    def losses(self, classification: bool) -> Loss:
        """The loss of the machine."""
        return LOSSES[self.loss]() if classification else EpsilonInsensitive(float(self.epsilon))

    def solve(self, info: Info, alpha: float) -> MarginSolution:  # noqa: D102
        return self._solve_at(info, alpha, self.tol, [])

    def path(  # noqa: D102
        self,
        info: Info,
        alphas: Array,
        *,
        tol: float | None = None,
        callback: Callable[[int, Solution], object] | None = None,
    ) -> Path[MarginSolution]:
        # steps within a fit are those of one strength alone
        info = replace(info, report=None)
        warm: list[WarmStart] = []
        done: list[MarginSolution] = []
        interrupted = False
        try:
            for index, alpha in enumerate(alphas):
                done.append(
                    self._solve_at(info, alpha, self.tol if tol is None else max(tol, self.tol), warm)
                )
                if callback is not None and callback(index, done[-1]) and index + 1 < len(alphas):
                    interrupted = True
                    break
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
        return Path.of(done, interrupted=interrupted)

    def _solve_at(self, info: Info, alpha: float, tol: float, warm: list[WarmStart]) -> MarginSolution:
        """All outputs at one strength; `warm` holds their starts, and is left with those for the next one."""
        if not np.isfinite(alpha) or alpha <= 0:
            raise InputError(
                f"Margin learners need a positive finite strength, got alpha = 1 / C = {alpha!r}."
            )
        method = self.method(info)
        while len(warm) < info.y.shape[1]:
            warm.append(self.start())
        found: list[Solution] = []
        for column, start in zip(info.y.T, warm, strict=True):
            if info.classification and (column == column[0]).all():
                # a fold without one of the classes: every row is right without any kernel
                found.append(_constant(column, info.gram.n_kernels))
                continue
            machine = Machine(
                np.ascontiguousarray(column), 1.0 / float(alpha), method.loss, info.sample_weight
            )
            problem = MarginProblem(info.gram, machine, info.scale, tol, info.report, info.content)
            result = method.solve(problem, start)
            self.remember(start, result)
            found.append(result)
        return _join(found, float(alpha))


@dataclass(frozen=True)
class MarginProblem:
    """A stack with a machine, the tolerance asked for, who is told of steps within a fit, and what rows are equal."""

    gram: Gram
    machine: Machine
    scale: Array
    tol: float
    report: Callable[[str], bool] | None = None
    content: NDArray[np.intp] | None = None

    def folds(self, n_folds: int) -> list[NDArray[np.intp]]:
        """Test rows of folds by the content of the rows; without it all rows count as different, in their order."""
        y = self.machine.y
        content = np.arange(len(y)) if self.content is None else self.content
        return deal(content, y, n_folds, stratify=bool((np.abs(y) == 1.0).all()))

    def at(self, weights: Array, warm: WarmStart) -> Solution:
        """The machine at given weights; the gap is that of the machine."""
        from kernelweave._threads import blas_threads_for

        session = Session(Problem(self.gram, self.machine, self.scale, Simplex()), self.tol, warm)
        with blas_threads_for(self.gram.n_samples):
            found = session.solve(weights, self.tol, warm.dual_coef).machine
        return Solution(weights, found.dual_coef, found.intercept, found.certificate, 1, n_machines=1)


#: Finds weights, and the machine at them, from the start that an earlier solution left.
Rule = Callable[[MarginProblem, WarmStart], Solution]


@dataclass(frozen=True)
class Method:
    """How a learner solves a problem: the loss of the machine, and where weights come from.

    Attributes
    ----------
    loss : Loss
    weight_set : "simplex" or WeightSet
        The optimal value of the machine is minimised over it, unless there is a rule.
    step : str
        See `kernelweave.solve_svm_mkl`.
    max_iter : int or None
        Outer iterations.
    rule : callable or None
        Weights by other means: folds, alignment, or the descent of another criterion.
    """

    loss: Loss
    weight_set: str | WeightSet = "simplex"
    step: str = "auto"
    max_iter: int | None = None
    rule: Rule | None = None

    def solve(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        """Solve one output."""
        if self.rule is not None:
            return self.rule(problem, warm)
        joint = Problem(
            problem.gram,
            problem.machine,
            problem.scale,
            as_weight_set(self.weight_set, problem.gram.n_kernels),
        )
        start = warm if warm.weights is not None else None
        return solve_problem(joint, self.step, tol=problem.tol, max_iter=self.max_iter, warm=start)


def _constant(y: Array, n_kernels: int) -> Solution:
    exact = Certificate("machine", 0.0, 0.0, 0.0)
    return Solution(np.full(n_kernels, 1.0 / n_kernels), np.zeros_like(y), float(y[0]), exact, 1)


def _join(found: list[Solution], alpha: float) -> MarginSolution:
    weights = np.array([r.weights for r in found])
    return MarginSolution(
        weights=weights[0] if len(found) == 1 else weights,
        dual_coef=np.column_stack([r.dual_coef for r in found]),
        intercept=np.array([r.intercept for r in found]),
        certificate=Certificate.total([r.certificate for r in found]),
        n_iter=max(r.n_iter for r in found),
        trace=found[0].trace,
        alpha=alpha,
        n_machines=sum(r.n_machines for r in found),
        outputs=tuple(found),
    )


# ---- the rows -------------------------------------------------------------------------------------


class RuleLearner(MarginLearner):
    """Base of the learners whose weights come by a rule of their own."""

    def method(self, info: Info) -> Method:  # noqa: D102
        return Method(self.losses(info.classification), rule=self.learn)

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        """Learn the weights of one output, and the machine at them."""
        raise NotImplementedError


class SimpleMKL(MarginLearner):
    """L1 margin MKL: the kernel weights on the simplex that give a support vector machine the smallest objective.

    Minimises over d on the simplex and f = <w, phi_d(x)> + b with the kernel ``K(d) = sum_m d_m s_m K_m``

        1/2 ||w||^2 + C sum_i loss(y_i, f_i) .

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0, a sum over rows.
    epsilon : float, default=0.1
        Half width of the tube of regression, in units of the target.
    solver : {"auto", "newton", "interior-point", "reduced-gradient", "cutting-plane"}, default="auto"
        Active-set Newton, and an interior point where that is slow; "reduced-gradient" is the published algorithm,
        "cutting-plane" is SILP.
    tol : float, default=1e-8
        Relative duality gap at which the solver stops.
    max_iter : int, optional
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

    def __init__(
        self,
        C: Cost = 1.0,
        *,
        epsilon: Epsilon = 0.1,
        solver: Annotated[str, OneOf(*SIMPLE_SOLVERS)] = "auto",
        tol: Tol = 1e-8,
        max_iter: MaxIter = None,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    def method(self, info: Info) -> Method:  # noqa: D102
        return Method(self.losses(info.classification), Simplex(), self.solver, self.max_iter)


class SILP(MarginLearner):
    """L1 margin MKL by cutting planes: the problem of `SimpleMKL`, solved by a sequence of linear programs.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    tol : float, default=1e-6
        Relative duality gap.
    max_iter : int, optional
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

    def __init__(
        self, C: Cost = 1.0, *, epsilon: Epsilon = 0.1, tol: Tol = 1e-6, max_iter: MaxIter = None
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.tol = tol
        self.max_iter = max_iter

    def method(self, info: Info) -> Method:  # noqa: D102
        return Method(self.losses(info.classification), Simplex(), "cutting-plane", self.max_iter)


class LpMKL(MarginLearner):
    """Lp-norm margin MKL: weights of p-norm at most 1, from sparse (p = 1) to equal (p large).

    Parameters
    ----------
    p : float, default=2.0
        At least 1; at 1 the problem is that of `SimpleMKL`.
    C : float, default=1.0
        Weight of the loss > 0.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    tol : float, default=1e-8
        Relative duality gap.
    max_iter : int, optional
        Alternations; default 500.

    References
    ----------
    M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien, lp-norm multiple kernel learning, JMLR 12 (2011).

    Examples
    --------
    >>> from kernelweave.learners import LpMKL
    >>> LpMKL(p=4)
    LpMKL(p=4)
    """

    def __init__(
        self,
        p: Annotated[float, Number(least=1), Shown("Norm p")] = 2.0,
        C: Cost = 1.0,
        *,
        epsilon: Epsilon = 0.1,
        tol: Tol = 1e-8,
        max_iter: MaxIter = None,
    ) -> None:
        self.p = p
        self.C = C
        self.epsilon = epsilon
        self.tol = tol
        self.max_iter = max_iter

    def method(self, info: Info) -> Method:  # noqa: D102
        weight_set = Simplex() if self.p == 1 else LpBall(float(self.p))
        return Method(self.losses(info.classification), weight_set, max_iter=self.max_iter)


class SoftMarginMKL(MarginLearner):
    """Soft-margin MKL with the hinge (SM1MKL): weights on the simplex, none above `theta`.

    Parameters
    ----------
    theta : float, default=0.5
        From 1 / n_kernels (the average kernel; smaller values are raised to it) to 1 (`SimpleMKL`).
    C : float, default=1.0
        Weight of the loss > 0.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    solver : {"auto", "newton", "interior-point", "closed-form"}, default="auto"
        "closed-form" is the published alternation.
    tol : float, default=1e-8
        Relative duality gap.
    max_iter : int, optional
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

    def __init__(
        self,
        theta: Annotated[float, Number(above=0, most=1), Shown("Largest weight (theta)")] = 0.5,
        C: Cost = 1.0,
        *,
        epsilon: Epsilon = 0.1,
        solver: Annotated[str, OneOf(*SOFT_SOLVERS)] = "auto",
        tol: Tol = 1e-8,
        max_iter: MaxIter = None,
    ) -> None:
        self.theta = theta
        self.C = C
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    def method(self, info: Info) -> Method:  # noqa: D102
        cap = max(float(self.theta), 1.0 / info.gram.n_kernels)
        return Method(self.losses(info.classification), CappedSimplex(cap), self.solver, self.max_iter)


class Uniform(RuleLearner):
    """The average kernel: equal weights, one support vector machine. The baseline that every method must beat.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0.
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

    def __init__(self, C: Cost = 1.0, *, epsilon: Epsilon = 0.1, tol: Tol = 1e-8) -> None:
        self.C = C
        self.epsilon = epsilon
        self.tol = tol

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:  # noqa: D102
        return problem.at(np.full(problem.gram.n_kernels, 1.0 / problem.gram.n_kernels), warm)


class BestKernel(RuleLearner):
    """The best single kernel by cross-validation, with a support vector machine.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    n_folds : int, default=3
        Folds, made from the content of the rows: equal rows share one, so that a weight equals a repetition.
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
        epsilon: Epsilon = 0.1,
        n_folds: CriterionFolds = 3,
        tol: Tol = 1e-8,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.n_folds = n_folds
        self.tol = tol

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:  # noqa: D102
        losses = self._losses_of_kernels(problem)
        weights = np.zeros(problem.gram.n_kernels)
        # sums of the same losses in another order differ in their last digits
        weights[int(np.argmax(losses <= losses.min() * (1.0 + 1e-9)))] = 1.0
        return problem.at(weights, warm)

    def _losses_of_kernels(self, problem: MarginProblem) -> Array:
        """Error rate, or squared error, of every kernel over the folds; ties go to the first kernel."""
        gram, machine = problem.gram, problem.machine
        n = gram.n_samples
        classification = machine.loss.classifies
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
