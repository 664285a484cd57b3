"""From a learner with a C to its solution: outputs one by one, and paths with warm starts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from kernelweave._allowance import allowed
from kernelweave._checks import InputError, as_floats
from kernelweave._parameters import Cost, Epsilon, InstanceOf, OneOf, Shown, check_value, shown
from kernelweave._threads import blas_threads_for
from kernelweave.gram import FeatureGram, FeatureStack, Gram
from kernelweave.learners.base import LEARNERS, Array, Learner, TrainingSet
from kernelweave.learners.folds import deal
from kernelweave.learners.on_features import TOGETHER, Start, machine_on, pays, solve_on
from kernelweave.machines.loss import LOSSES, Loss
from kernelweave.machines.losses import EpsilonInsensitive, Hinge, as_loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.features.newton import knows
from kernelweave.mkl.kernel_problem import KernelProblem, MarginStep, Session
from kernelweave.mkl.layers import DeepSolution, TrainedLayers
from kernelweave.mkl.problem import Problem
from kernelweave.mkl.solve import methods_for, solve_problem, steps_of
from kernelweave.mkl.weight_sets import Simplex, WeightSet
from kernelweave.results import Certificate, Path, Solution, Status

#: C of an automatic path: from the smallest to the largest.
C_RANGE = (1e-2, 1e3)
#: Bytes of features that all outputs of a path may keep for the next C.
KEPT_BYTES = 2**30

#: What `learn` returns.
SOLUTION = InstanceOf((Solution,), "a Solution, such as output.at(weights)")

#: A loss by its name, or a loss.
LossName = Annotated[
    str | Loss,
    OneOf("auto", known=LOSSES) | InstanceOf((Loss,), "a Loss"),
    Shown("Loss of the machine"),
]


@dataclass(frozen=True, repr=False, eq=False)
class MarginSolution(Solution):
    """Solutions of all outputs at one C; certificates add up, and `trace` is that of the first output.

    Attributes
    ----------
    outputs : tuple of Solution
    radius2 : array of shape (n_outputs,) or None
        Squared radii of the learnt kernels, if all have one.
    upper_layers : tuple of TrainedLayers or None
        Layers above the sum of kernels, for every output; empty if there are none.
    layer_weights : array of shape ([n_outputs,] n_layers, n_kernels) or None
        Weights of all layers, NaN for missing kernels; None without layers.
    stationarity : array of shape (n_outputs,) or None
        Distance of the weights of each output from a stationary point, if the criterion is not convex.
    """

    intercept: Array
    outputs: tuple[Solution, ...] = field(default=(), repr=False)
    radius2: Array | None = field(default=None, repr=False)
    upper_layers: tuple[TrainedLayers | None, ...] = field(default=(), repr=False)
    layer_weights: Array | None = field(default=None, repr=False)
    stationarity: Array | None = field(default=None, repr=False)

    @classmethod
    def joined(cls, found: list[Solution], alpha: float) -> MarginSolution:
        """The solutions of all outputs as one."""
        names = "weights", "dual_coef", "intercept", "n_iter", "n_machines", "feature_coef"
        weights, coefs, intercepts, n_iter, n_machines, features, certificates, distances = zip(
            *map(attrgetter(*names, "certificate", "certificate.stationarity"), found), strict=True
        )
        n_features = max(map(len, features))
        # beyond weights of kernels by a convex criterion
        simple = {*map(type, found)} == {Solution} and {*distances} == {None}
        more = {} if simple else _of_criterion(found)
        return cls(
            weights=weights[0] if len(found) == 1 else np.array(weights),
            dual_coef=np.column_stack(coefs),
            intercept=np.array(intercepts),
            certificate=Certificate.total(certificates),
            n_iter=max(n_iter),
            trace=found[0].trace,
            alpha=alpha,
            n_machines=sum(n_machines),
            outputs=tuple(found),
            # an output without a machine has no coefficients
            feature_coef=np.column_stack([own if own.size else np.zeros(n_features) for own in features])
            if n_features
            else np.empty(0),
            **more,
        )


def _of_criterion(found: list[Solution]) -> dict[str, Any]:
    """What is known of the criterion of outputs, and of their kernels beside the weights."""
    more: dict[str, Any] = {}
    radii = [getattr(one, "radius2", None) for one in found]
    if None not in radii:
        more["radius2"] = np.array(radii, dtype=np.float64)
    deep = [one for one in found if isinstance(one, DeepSolution)]
    distances = [one.stationarity for one in found]
    if deep or None not in distances:
        # an output with a single class has no machine
        values = np.array([0.0 if value is None else value for value in distances], dtype=np.float64)
        if not (deep and np.isnan(values).any()):
            more["stationarity"] = values
    if not deep:
        return more
    if deep[0].upper is not None:
        more["upper_layers"] = tuple(one.upper if isinstance(one, DeepSolution) else None for one in found)
    if layers := deep[0].layer_weights:
        out = np.full((len(found), len(layers), max(map(len, layers))), np.nan)
        for block, one in zip(out, found, strict=True):
            # an output without a machine has no layers: equal weights are shown
            own = one.layer_weights if isinstance(one, DeepSolution) else ()
            for row, w in zip(block, own or [np.full(len(w), 1.0 / len(w)) for w in layers], strict=True):
                row[: len(w)] = w
        more["layer_weights"] = out[0] if len(out) == 1 else out
    return more


@dataclass(eq=False)
class Output:
    """One output of a training set along a path: its problem at this C, and what rules for weights need beside it.

    Attributes
    ----------
    problem : KernelProblem
    tol : float
    training : TrainingSet
    start : Start
        The solution of a similar problem, if there is one.
    scored : bool
        Whether the solution is only scored, and needs no certificate.
    owner : str
        The learner, for messages.
    steps : list of MarginStep or None
        How weights are found, which is chosen for the first C; another problem (`dataclasses.replace`) has its own.
    """

    problem: KernelProblem
    tol: float
    training: TrainingSet
    start: Start
    scored: bool = False
    owner: str = "a learner"
    steps: list[MarginStep] | None = field(default=None, init=False)

    @property
    def gram(self) -> Gram:
        """The kernels."""
        return self.problem.gram

    @property
    def machine(self) -> Machine:
        """The machine."""
        return self.problem.machine

    def folds(self, n_folds: int) -> list[NDArray[np.intp]]:
        """Test rows of folds by the content of the rows; without it all rows count as distinct, in their order."""
        y, training = self.machine.y, self.training
        content = np.arange(len(y)) if training.content is None else training.content
        classes = y if training.classification else self.machine.loss.fold_classes(y)
        return deal(content, y, n_folds, classes=classes, groups=training.groups)

    @cached_property
    def features(self) -> FeatureGram | None:
        """The features, if there are some and machines on them are cheaper; None otherwise."""
        gram = self.problem.gram
        if not isinstance(gram, FeatureGram) or self.machine.one_class:
            return None
        return gram if pays(gram.n_samples, int(gram.ranks.sum()), self.machine.loss) else None

    def at(self, weights: Array) -> Solution:
        """The machine at given weights; the gap is that of the machine."""
        weights = self._usable(weights)
        gram = self.features
        if gram is not None:
            width = int(gram.ranks[weights > 0].sum())
            if 0 < width <= TOGETHER:
                return machine_on(gram, self.machine, self.problem.scale, weights, self.start, tol=self.tol)
        session = Session(self.problem, self.tol, self.start)
        with blas_threads_for(self.gram.n_samples):
            found = session.solve(weights, self.tol, self.start.dual_coef).machine
        return Solution(weights, found.dual_coef, found.intercept, found.certificate, 1, n_machines=1)

    def _usable(self, weights: object) -> Array:
        """Weights of a rule, which may be anybody's."""
        found, n_kernels = as_floats(weights, f"weights of {self.owner}"), self.gram.n_kernels
        got = ""
        if found.shape != (n_kernels,):
            got = shown(weights)
        elif (wrong := np.flatnonzero(~(np.isfinite(found) & (found >= 0.0)))).size:
            got = f"{found[wrong[0]]:g} for kernel {wrong[0]}"
        if got:
            raise InputError(
                f"`learn(output)` of {self.owner} must pass a finite weight >= 0 for each of {n_kernels} kernels to "
                f"output.at(weights), got {got}. Correct its rule for weights."
            )
        return found


class CostLearner(Learner):
    """Base of the learners with a C: a machine for every output.

    A learner whose weights minimise the optimal value of the machine over a set says which in `problem`; one with
    another rule for weights says it in `learn`.

    Parameters
    ----------
    C
        Weight of the loss > 0, a sum over rows.
    """

    regularization_parameter = "C"
    leading: ClassVar[tuple[str, ...]] = ("C",)
    own_intercept = True
    #: Whether weights are those of any loss, also of one that is no sum over rows.
    any_loss: ClassVar[bool] = False
    #: Values of `solver` that stand for the best way, on features too; none for learners that need kernels.
    any_way: ClassVar[tuple[str, ...]] = ()
    # where they are no parameters: the loss, the half width of its tube, the step of the solver, the most iterations
    loss = cast("str | Loss", "auto")
    epsilon = 0.1
    solver = "auto"
    max_iter = cast("int | None", None)

    C: Cost = 1.0

    def __init_subclass__(cls, *, abstract: bool = False, **options: Any) -> None:
        """Refuse a learner that says nothing about its weights, but for `abstract` bases of others."""
        own: Any = cls
        inherited = all(
            getattr(own, name) is getattr(CostLearner, name) for name in ("problem", "learn", "path")
        )
        if not abstract and inherited:
            raise InputError(
                f"The learner {cls.__name__} must define `problem(kernels, y)` or `learn(output)`, got neither. For "
                "weights on the simplex derive from SimpleMKL, or return self.joint(kernels, y, Simplex())."
            )
        super().__init_subclass__(**options)

    def problem(self, kernels: Gram | FeatureStack, y: Array) -> Problem:
        """The problem of one output: a machine, and the set of weights over which its optimal value is minimised.

        Parameters
        ----------
        kernels : Gram or FeatureStack
            Kernels of the training rows.
        y : array of shape (n_samples,)
            Targets; for classification -1 and 1.

        Returns
        -------
        Problem
            By `joint`; a learner without a parameter `loss` may state another loss. The fit adds an intercept, the
            weights of rows and the factors of kernels; along a path it is stated once, and only C changes.
        """
        return self.joint(kernels, y, Simplex())

    def learn(self, output: Output) -> Solution:
        """Learn the weights of one output, and the machine at them.

        Parameters
        ----------
        output : Output
            The problem of the output, with the training set and a start.
        """
        problem, start = output.problem, output.start
        weight_set = problem.weight_set
        features = output.features
        if (
            features is not None
            and self.on_features
            and knows(weight_set)
            and (weight_set.sparse or features.ranks.sum() <= TOGETHER)
        ):
            own = problem.machine, problem.scale, weight_set, start
            return solve_on(features, *own, tol=output.tol, max_iter=self.max_iter)
        if output.steps is None:
            possible = methods_for(type(weight_set))
            output.steps = steps_of(self.solver if self.solver in possible else "auto", problem)
        warm = start if start.weights is not None else None
        more: dict[str, Any] = {"tol": output.tol, "max_iter": self.max_iter, "certified": not output.scored}
        return solve_problem(problem, output.steps, warm=warm, **more)

    def joint(self, kernels: Gram | FeatureStack, y: Array, weight_set: WeightSet) -> Problem:
        """The machine of this learner on kernels, over a set of weights.

        Parameters
        ----------
        kernels : Gram or FeatureStack
            Kernels of the training rows.
        y : array of shape (n_samples,)
            Targets; where all are -1 or 1, they are classes.
        weight_set : WeightSet
            Where the weights may be.
        """
        classification = bool((np.abs(y) == 1.0).all())
        return Problem(kernels, y, self.loss_for(classification), weight_set, self.C, fit_intercept=True)

    def loss_for(self, classification: bool) -> Loss:
        """The loss of the machine; raises `InputError` for one that does not fit the task.

        Parameters
        ----------
        classification : bool
            Whether the targets are classes rather than numbers.
        """
        if self.loss == "auto":
            return Hinge() if classification else EpsilonInsensitive(float(self.epsilon))
        loss = self.loss if isinstance(self.loss, Loss) else as_loss(self.loss, float(self.epsilon))
        if loss.classifies and not classification:
            raise InputError(
                f"`loss` of {type(self).__name__} is {self.loss!r}, which is for classification. For regression use "
                "'auto', the epsilon-insensitive loss."
            )
        if not loss.rowwise and not self.any_loss:
            raise InputError(
                f"`loss` is {self.loss!r}, no sum over rows, which {type(self).__name__} needs. Take one of "
                f"{', '.join(repr(name) for name, kind in LEARNERS.items() if getattr(kind, 'any_loss', False))}."
            )
        return loss

    def requested(self) -> float | None:
        return 1.0 / float(self.C)

    def default_alphas(self, n_alphas: int) -> Array:
        return 1.0 / np.geomspace(*C_RANGE, n_alphas)

    @property
    def on_features(self) -> bool:
        """Whether it solves on explicit features."""
        return self.solver in self.any_way

    @property
    def most_features(self) -> int | None:
        return None if self.sparse else TOGETHER

    def features_pay(self, n_rows: int, n_features: int) -> bool:
        return self.on_features and pays(n_rows, n_features, self.loss_for(True), sparse=self.sparse)

    def check_task(self, classification: bool) -> None:
        super().check_task(classification)
        if not self.loss_for(classification).rowwise:
            raise InputError(
                f"loss={self.loss!r} is no sum over rows. Use MKLSurvival for censored times, or kw.solve."
            )

    def fold_classes(self, y: Array) -> Array | None:
        return self.loss_for(False).fold_classes(y)

    @property
    def scoring_loss(self) -> Loss | None:
        loss = self.loss_for(False)
        return loss if loss.scores else None

    def prediction(self, values: Array) -> Array:
        return self.loss_for(False).prediction(values)

    def log_probability(self, values: Array) -> Array | None:
        return self.loss_for(True).log_probability(values)

    def path(
        self,
        training: TrainingSet,
        alphas: Array,
        *,
        tol: float | None = None,
        callback: Callable[[int, Solution], object] | None = None,
    ) -> Path[MarginSolution]:
        wrong = alphas[~(np.isfinite(alphas) & (alphas > 0))]
        if len(wrong):
            raise InputError(
                "Margin learners need a positive finite regularisation parameter, got alpha = 1 / C = "
                f"{float(wrong[0])!r}."
            )
        gram, n_outputs, wanted = training.gram, training.y.shape[1], max(tol or 0.0, self.tol)
        # weights alone are a start for one output
        first = training.start if n_outputs == 1 else None
        keeps = isinstance(gram, FeatureGram) and len(alphas) > 1 and gram.nbytes * n_outputs <= KEPT_BYTES
        one, loss, owner = copy.copy(self), self.loss_for(training.classification), type(self).__name__
        one.C, one.loss = 1.0 / float(alphas[0]), loss
        outputs = [
            # a fold with a single class: all rows are classified correctly without kernels
            None
            if training.classification and (column == column[0]).all()
            else Output(
                one._form(training, column),
                wanted,
                training,
                Start(first, keeps=keeps),
                tol is not None,
                owner,
            )
            for column in training.y.T
        ]

        learn = one.learn if self.max_time is None else allowed(seconds=self.max_time)(one.learn)

        def solutions() -> Iterator[MarginSolution]:
            for alpha in alphas.tolist():
                one.C, found = 1.0 / alpha, list[Solution]()
                for output, column in zip(outputs, training.y.T, strict=True):
                    if output is None:
                        machine = Machine(column, one.C, loss, training.sample_weight)
                        found.append(_constant(machine, gram.n_kernels))
                        continue
                    output.problem = output.problem.at(one.C)
                    learnt = learn(output)
                    if not isinstance(learnt, Solution):
                        check_value(SOLUTION, "learn(output)", learnt, of=owner)
                    found.append(learnt)
                    start, coef = output.start, learnt.feature_coef
                    start.weights, start.dual_coef, start.found = learnt.weights, learnt.dual_coef, learnt
                    start.feature_coef = coef if coef.size else None
                yield MarginSolution.joined(found, alpha)
                for each in found:
                    if each.certificate.status is Status.INTERRUPTED:
                        return

        with blas_threads_for(gram.n_samples):
            return Path.collect(solutions(), len(alphas), callback)

    def _form(self, training: TrainingSet, column: Array) -> KernelProblem:
        """The problem of one output for solvers, with what the training set adds to it."""
        kind, given = type(self), self.problem(training.gram, np.ascontiguousarray(column))
        stated = check_value(
            InstanceOf((Problem,), "a kw.Problem"), "problem(kernels, y)", given, of=kind.__name__
        )
        if stated.sample_weight is not None or stated.scale is not None or stated.C != self.C:
            raise InputError(
                f"The problem of {kind.__name__} must have the C of the learner, and leave `sample_weight` and "
                "`scale` to the fit, which adds them and moves along C. Return it without."
            )
        # probabilities are those of the loss in the parameters or in the class
        names = "loss" in kind.declared_fields or kind.loss != "auto"
        if names and stated.loss is not self.loss and stated.loss != self.loss:
            raise InputError(
                f"The problem of {kind.__name__} must have the loss of the learner, {self.loss!r}, got "
                f"{stated.loss!r}. Return self.joint(kernels, y, weight_set), or derive from CostLearner, which has no "
                "parameter `loss`."
            )
        # squares without an intercept have another form
        stated = stated if isinstance(stated.form, KernelProblem) else replace(stated, fit_intercept=True)
        form = cast(KernelProblem, stated.form)
        machine = replace(form.machine, sample_weight=training.sample_weight, fit_intercept=True)
        return replace(form, machine=machine, scale=training.scale)


class MarginLearner(CostLearner, abstract=True):
    """Base of the learners with a C and a choice of the loss.

    Parameters
    ----------
    loss
        Loss of the machine. "auto": the hinge for classes, epsilon-insensitive for regression; "hinge",
        "squared-hinge" and "logistic" are for classes. With "logistic" `MKLClassifier.predict_proba` needs no
        calibration. "huber" is for targets with outliers, "quantile" for the median,
        "poisson" for counts. A name stands for the defaults of its loss, an object such as ``kw.losses.Quantile(0.9)``
        for others.
    epsilon
        Half width of the tube of the epsilon-insensitive loss, in units of the target.
    """

    loss: LossName = "auto"
    epsilon: Epsilon = 0.1


def _constant(machine: Machine, n_kernels: int) -> Solution:
    # for any weights
    exact = Certificate("joint", 0.0, 0.0, 0.0)
    weights, none = np.full(n_kernels, 1.0 / n_kernels), np.zeros_like(machine.y)
    return Solution(weights, none, machine.constant, exact, 1)
