"""How learners with a C solve: their method, outputs one by one, and paths with warm starts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from kernelweave._allowance import allowed
from kernelweave._checks import InputError
from kernelweave._parameters import OneOf, Shown
from kernelweave._threads import blas_threads_for
from kernelweave.gram import FeatureGram, Gram
from kernelweave.learners.base import Info, Learner
from kernelweave.learners.folds import deal
from kernelweave.learners.on_features import TOGETHER, FeatureStart, machine_on, pays, solve_on
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import LOSSES, EpsilonInsensitive, Hinge
from kernelweave.machines.machine import Machine
from kernelweave.mkl.deep import DeepSolution
from kernelweave.mkl.features.newton import knows
from kernelweave.mkl.kernel_problem import KernelProblem, Session
from kernelweave.mkl.layers import TrainedLayers
from kernelweave.mkl.solve import solve_problem
from kernelweave.mkl.weight_sets import Simplex, WeightSet, as_weight_set
from kernelweave.results import Certificate, Path, Solution, Status, WarmStart

Array = NDArray[np.float64]

#: C of an automatic path: from the smallest to the largest.
C_RANGE = (1e-2, 1e3)
#: Bytes of features that all outputs of a path may keep for the next C.
KEPT_BYTES = 2**30

#: Losses of classification by name, and the name for the default of each task.
CLASS_LOSSES = ("auto", *(name for name, kind in LOSSES.items() if kind.classifies))
#: The loss of a machine.
MachineLoss = Annotated[str, OneOf(*CLASS_LOSSES), Shown("Loss of the machine")]


@dataclass(frozen=True)
class MarginSolution(Solution):
    """Solutions of all outputs at one C; certificates add up, and `trace` is that of the first output.

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
        """Squared radii of the learnt kernels, if all have one."""
        found = [getattr(one, "radius2", None) for one in self.outputs]
        return None if any(value is None for value in found) else np.array(found, dtype=np.float64)

    @cached_property
    def stationarity(self) -> Array | None:
        """Distance of the weights of each output from a stationary point, if the criterion is not convex."""
        deep = any(isinstance(one, DeepSolution) for one in self.outputs)
        found = [one.stationarity for one in self.outputs]
        if not deep and any(value is None for value in found):
            return None
        # an output with a single class has no machine
        values = np.array([0.0 if value is None else value for value in found], dtype=np.float64)
        return None if deep and np.isnan(values).any() else values

    @property
    def upper_layers(self) -> tuple[TrainedLayers | None, ...]:
        """Layers above the sum of kernels, for every output; empty if there are none."""
        deep = [one for one in self.outputs if isinstance(one, DeepSolution)]
        if not deep or deep[0].upper is None:
            return ()
        return tuple(one.upper if isinstance(one, DeepSolution) else None for one in self.outputs)

    @cached_property
    def layer_weights(self) -> Array | None:
        """Weights of all layers, ([n_outputs,] n_layers, n_kernels), NaN for missing kernels; None without layers."""
        deep = next((one.layer_weights for one in self.outputs if isinstance(one, DeepSolution)), ())
        if not deep:
            return None
        width = max(len(w) for w in deep)
        out = np.full((len(self.outputs), len(deep), width), np.nan)
        for block, one in zip(out, self.outputs, strict=True):
            # an output without a machine has no layers: equal weights are shown
            own = one.layer_weights if isinstance(one, DeepSolution) else ()
            for row, w in zip(block, own or [np.full(len(w), 1.0 / len(w)) for w in deep], strict=True):
                row[: len(w)] = w
        return out[0] if len(out) == 1 else out


class MarginLearner(Learner):
    """Base of the learners with a C.

    Classification uses the hinge unless another loss is named, regression the epsilon-insensitive loss; every output is
    a separate problem.
    """

    regularization_parameter = "C"
    own_intercept = True
    #: Values of `solver` that stand for the best way, on features too; none for learners that need kernels.
    any_way: tuple[str, ...] = ()
    #: Whether kernels may have no weight.
    sparse = True

    #: Also for learners with a single loss, and for older model files.
    loss: str = "auto"
    C: float
    epsilon: float
    tol: float
    max_iter: int | None
    #: Seconds for each problem, if there is a limit.
    max_time: float | None = None

    def requested(self) -> float | None:
        return 1.0 / float(self.C)

    def default_alphas(self, n_alphas: int) -> Array:
        return 1.0 / np.geomspace(*C_RANGE, n_alphas)

    @abstractmethod
    def method(self, info: Info) -> Method:
        """How the problems are solved."""

    @property
    def on_features(self) -> bool:
        """Whether it solves on explicit features."""
        return getattr(self, "solver", "auto") in self.any_way

    @property
    def most_features(self) -> int | None:
        return None if self.sparse else TOGETHER

    def features_pay(self, n_rows: int, n_features: int) -> bool:
        loss = Hinge() if self.loss == "auto" else LOSSES[self.loss]()
        return self.on_features and pays(n_rows, n_features, loss, sparse=self.sparse)

    def start(self) -> WarmStart:
        """An empty start."""
        return FeatureStart()

    def remember(self, warm: WarmStart, result: Solution) -> None:
        """Store a solution as the start of the next one."""
        warm.weights, warm.dual_coef = result.weights, result.dual_coef

    def losses(self, classification: bool) -> Loss:
        """The loss of the machine; raises `InputError` for one that does not fit the task."""
        if self.loss == "auto":
            return Hinge() if classification else EpsilonInsensitive(float(self.epsilon))
        kind = LOSSES[self.loss]
        if kind.classifies and not classification:
            raise InputError(
                f"loss={self.loss!r} of {type(self).__name__} is for classification. For regression use loss='auto', "
                "the epsilon-insensitive loss."
            )
        return kind()

    def check_task(self, classification: bool) -> None:
        super().check_task(classification)
        self.losses(classification)

    def log_probability(self, values: Array) -> Array | None:
        return self.losses(True).log_probability(values)

    def solve(self, info: Info, alpha: float) -> MarginSolution:
        return self._solve_at(info, alpha, self.tol, [])

    def path(
        self,
        info: Info,
        alphas: Array,
        *,
        tol: float | None = None,
        callback: Callable[[int, Solution], object] | None = None,
    ) -> Path[MarginSolution]:
        # steps within a fit are reported for a single regularisation parameter only
        info = replace(info, report=None)
        # weights alone are a start for one output
        alone = info.start is not None and info.y.shape[1] == 1
        warm: list[WarmStart] = [replace(self.start(), weights=info.start)] if alone else []
        if isinstance(info.gram, FeatureGram) and len(alphas) > 1:
            keeps = info.gram.nbytes * info.y.shape[1] <= KEPT_BYTES
            warm = [FeatureStart(weights=info.start if alone else None, keeps=keeps) for _ in info.y.T]
        done: list[MarginSolution] = []
        interrupted = False
        try:
            for index, alpha in enumerate(alphas):
                done.append(
                    self._solve_at(info, alpha, self.tol if tol is None else max(tol, self.tol), warm)
                )
                told = callback is not None and callback(index, done[-1])
                # after an interrupted solution no further regularisation parameter is solved
                if (told or done[-1].status is Status.INTERRUPTED) and index + 1 < len(alphas):
                    interrupted = True
                    break
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
        return Path.of(done, interrupted=interrupted)

    def _solve_at(self, info: Info, alpha: float, tol: float, warm: list[WarmStart]) -> MarginSolution:
        """All outputs at one C; `warm` has their starts, and receives those of the next one."""
        if not np.isfinite(alpha) or alpha <= 0:
            raise InputError(
                f"Margin learners need a positive finite regularisation parameter, got alpha = 1 / C = {alpha!r}."
            )
        method = replace(self.method(info), on_features=self.on_features)
        while len(warm) < info.y.shape[1]:
            warm.append(self.start())
        found: list[Solution] = []
        for column, start in zip(info.y.T, warm, strict=True):
            if info.classification and (column == column[0]).all():
                # a fold with a single class: all rows are classified correctly without kernels
                found.append(_constant(column, info.gram.n_kernels))
                continue
            machine = Machine(
                np.ascontiguousarray(column), 1.0 / float(alpha), method.loss, info.sample_weight
            )
            problem = MarginProblem(
                info.gram, machine, info.scale, tol, info.report, info.content, info.classification
            )
            with allowed(seconds=self.max_time):
                result = method.solve(problem, start)
            self.remember(start, result)
            found.append(result)
        return _join(found, float(alpha))


@dataclass(frozen=True)
class MarginProblem:
    """One output: a stack with a machine, and further information for learners.

    Attributes
    ----------
    gram : Gram
    machine : Machine
    scale : array of shape (n_kernels,)
    tol : float
    report, content, classification
        See `Info`.
    """

    gram: Gram
    machine: Machine
    scale: Array
    tol: float
    report: Callable[[str], bool] | None = None
    content: NDArray[np.intp] | None = None
    classification: bool = False

    def folds(self, n_folds: int) -> list[NDArray[np.intp]]:
        """Test rows of folds by the content of the rows; without it all rows count as distinct, in their order."""
        y = self.machine.y
        content = np.arange(len(y)) if self.content is None else self.content
        return deal(content, y, n_folds, stratify=self.classification)

    @property
    def features(self) -> FeatureGram | None:
        """The features, if there are some and machines on them are cheaper; None otherwise."""
        gram, machine = self.gram, self.machine
        if not isinstance(gram, FeatureGram) or machine.one_class:
            return None
        return gram if pays(gram.n_samples, int(gram.ranks.sum()), machine.loss) else None

    def at(self, weights: Array, warm: WarmStart) -> Solution:
        """The machine at given weights; the gap is that of the machine."""
        gram = self.features
        if gram is not None:
            width = int(gram.ranks[weights > 0].sum())
            if 0 < width <= TOGETHER:
                return machine_on(gram, self.machine, self.scale, weights, warm, tol=self.tol)
        session = Session(KernelProblem(self.gram, self.machine, self.scale, Simplex()), self.tol, warm)
        with blas_threads_for(self.gram.n_samples):
            found = session.solve(weights, self.tol, warm.dual_coef).machine
        return Solution(weights, found.dual_coef, found.intercept, found.certificate, 1, n_machines=1)


#: Finds weights, and the machine at them, from the start of an earlier solution.
Rule = Callable[[MarginProblem, WarmStart], Solution]


@dataclass(frozen=True)
class Method:
    """How a learner solves a problem: the loss of the machine, and how weights are found.

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
    on_features : bool
        Whether the step may be that of features instead, where they are cheaper.
    """

    loss: Loss
    weight_set: str | WeightSet = "simplex"
    step: str = "auto"
    max_iter: int | None = None
    rule: Rule | None = None
    on_features: bool = False

    def solve(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        """Solve one output."""
        if self.rule is not None:
            return self.rule(problem, warm)
        weight_set = as_weight_set(self.weight_set, problem.gram.n_kernels)
        features = problem.features if self.on_features and knows(weight_set) else None
        if features is not None and (weight_set.sparse or features.ranks.sum() <= TOGETHER):
            own = problem.machine, problem.scale, weight_set, warm
            return solve_on(features, *own, tol=problem.tol, max_iter=self.max_iter)
        joint = KernelProblem(problem.gram, problem.machine, problem.scale, weight_set)
        start = warm if warm.weights is not None else None
        return solve_problem(joint, self.step, tol=problem.tol, max_iter=self.max_iter, warm=start)


def _constant(y: Array, n_kernels: int) -> Solution:
    # for any weights
    exact = Certificate("joint", 0.0, 0.0, 0.0)
    return Solution(np.full(n_kernels, 1.0 / n_kernels), np.zeros_like(y), float(y[0]), exact, 1)


def _join(found: list[Solution], alpha: float) -> MarginSolution:
    weights = np.array([r.weights for r in found])
    n_features = max(len(r.feature_coef) for r in found)
    coefs = [r.feature_coef if r.feature_coef.size else np.zeros(n_features) for r in found]
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
        feature_coef=np.column_stack(coefs) if n_features else np.empty(0),
    )


class RuleLearner(MarginLearner):
    """Base of the learners with their own rule for weights."""

    def method(self, info: Info) -> Method:
        return Method(self.losses(info.classification), rule=self.learn)

    @abstractmethod
    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        """Learn the weights of one output, and the machine at them."""
