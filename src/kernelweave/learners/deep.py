"""Learners of deep kernels: layers of kernels on kernels, whose weights descend a criterion."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from kernelweave._checks import InputError
from kernelweave._devices import moved
from kernelweave._parameters import (
    Cost,
    Flag,
    MaxIter,
    Nonnegative,
    Number,
    OneOf,
    Rule,
    Shown,
    Text,
    Unfit,
    Whole,
)
from kernelweave.functions import Exponential
from kernelweave.kernels import RBF, Kernel, Linear, Polynomial, parse
from kernelweave.learners.base import Array
from kernelweave.learners.margin import CriterionFolds
from kernelweave.learners.solving import CostLearner, MarginLearner, Output
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import Logistic, Squared
from kernelweave.mkl.criteria.deep import Criterion, DualValue, OutOfFold, SpanBound, TrainingError
from kernelweave.mkl.deep import (
    STEPS,
    DeepKernel,
    Descent,
    Project,
    Validation,
    machine_at,
    solve_deep,
)
from kernelweave.mkl.layers import DeepSolution, Layers
from kernelweave.mkl.weight_sets import Simplex

__all__ = ["DMKL", "MLMKL", "DeepUniform", "TwoLayerMKL"]

CRITERIA = ("out-of-fold", "logistic", "training")

WEIGHT_SETS = ("orthant", "simplex")

#: Kernels of every layer in the papers.
LAYER_KERNELS: tuple[Kernel, ...] = (Linear(), RBF(gamma=1.0), Polynomial(degree=2), Polynomial(degree=3))


class _LayerKernels(Rule):
    """Kernels of the upper layers: one list for all of them, or one list (or kernel) for each."""

    def read(self, value: Any) -> Any:
        layers = [value] if isinstance(value, Kernel) else value
        if isinstance(layers, str) or not isinstance(layers, Sequence) or not len(layers):
            raise Unfit
        for layer in layers:
            for kernel in layer if isinstance(layer, Sequence) and len(layer) else [layer]:
                if not isinstance(kernel, Kernel):
                    raise Unfit("Each layer has kernels such as kw.kernels.RBF(gamma=1.0).")
        return value

    def parse(self, text: str) -> Any:
        """Kernels separated by ";", and different layers by "|"."""
        try:
            layers = [[parse(part) for part in layer.split(";") if part.strip()] for layer in text.split("|")]
        except InputError as error:
            raise Unfit(str(error)) from None
        if not all(layers):
            raise Unfit("No kernel is named.")
        return layers if len(layers) > 1 else layers[0]

    def kinds(self) -> tuple[str, ...]:
        return ("Sequence[Kernel]", "Sequence[Sequence[Kernel]]")

    def words(self) -> str:
        return "a list of kernels, a list of such lists (one per layer above the first)"


LayerKernels = Annotated[
    Any,
    _LayerKernels() | None,
    Shown(
        "Kernels of upper layers",
        help='Separated by ";", and different layers by "|", such as "arc_cosine(degree=0) | linear; '
        'rbf(gamma=1)".',
        setting="layer_kernels",
    ),
]


def onto_orthant(weights: list[np.ndarray]) -> list[np.ndarray]:
    """Nonnegative weights."""
    return [np.maximum(w, 0.0) for w in weights]


def onto_simplices(weights: list[np.ndarray]) -> list[np.ndarray]:
    """Nonnegative weights with sum 1 in every layer."""
    return [Simplex().project(w) for w in weights]


def last_at_most_one(weights: list[np.ndarray]) -> list[np.ndarray]:
    """Nonnegative weights, those of the last layer with a sum of at most 1."""
    out = onto_orthant(weights)
    if out[-1].sum() > 1.0:
        out[-1] = Simplex().project(weights[-1])
    return out


class DeepLearner(CostLearner, abstract=True):
    """Base of learners with several layers.

    Parameters
    ----------
    normalize_layers
        Cosine normalisation of every kernel of those layers. Without it values explode with depth.
    device
        Torch device for the layers, such as "cuda"; needs the extra ``kernelweave[gpu]``.
    """

    iterates = True
    certificate = (
        "The weights are a local solution: the criterion is not convex. The gap certifies the machine on the learnt "
        "kernel: its objective is at most the gap above its optimum."
    )

    normalize_layers: Annotated[bool, Flag(), Shown("Diagonals of 1 in every layer")] = True
    device: Annotated[str | None, Text() | None, Shown("Device (empty: the CPU)")] = None
    tol = 1e-4

    @abstractmethod
    def layers(self) -> Layers:
        """The functions above the base kernels."""

    def check(self) -> None:
        super().check()
        self.layers()

    def check_here(self) -> None:
        """Raise if torch or the device is not available."""
        if self.device:
            moved(np.zeros(1), self.device, "device")

    def _kernel(self, output: Output) -> DeepKernel:
        return DeepKernel(output.gram, output.problem.scale, self.layers(), self.device)

    def _equal(self, output: Output) -> DeepSolution:
        """The machine on the kernel with equal weights in every layer."""
        kernel = self._kernel(output)
        return machine_at(kernel, output.machine, kernel.uniform())


class LayeredLearner(DeepLearner, abstract=True):
    """Base of learners with a choice of layers.

    Parameters
    ----------
    n_layers
        The first, of base kernels, included.
    kernels : list of kernels, list of lists, or None
        Kernels of the upper layers: `Linear`, `Polynomial`, `RBF`, `ArcCosine` or `Elementwise`; one list for all or
        one for each. None: linear, RBF with gamma 1, polynomials of degree 2 and 3.
    """

    n_layers: Annotated[int, Whole(1, 100), Shown("Layers")] = 2
    kernels: LayerKernels = None

    def layers(self) -> Layers:
        """The functions above the base kernels."""
        functions = tuple(tuple(kernel.layer() for kernel in layer) for layer in self._per_layer())
        return Layers(functions, bool(self.normalize_layers))

    def layer_names(self) -> list[list[str]]:
        """Names of the kernels of every layer above the first."""
        return [[kernel.label.removesuffix(" on all") for kernel in layer] for layer in self._per_layer()]

    def _per_layer(self) -> list[Sequence[Kernel]]:
        """Kernels of every layer above the first."""
        kernels = LAYER_KERNELS if self.kernels is None else self.kernels
        if isinstance(kernels, Kernel):
            kernels = [kernels]
        n_above = self.n_layers - 1
        one = all(isinstance(kernel, Kernel) for kernel in kernels)
        layers = [kernels] * n_above if one else kernels
        if len(layers) != n_above:
            raise InputError(
                f"`kernels` must have one list for each of the {n_above} layers above the first, got {len(layers)}."
            )
        return [[layer] if isinstance(layer, Kernel) else layer for layer in layers]


class DescendingLearner(DeepLearner, abstract=True):
    """Base of learners whose weights descend a criterion.

    Parameters
    ----------
    step
        A projected gradient that never raises the criterion, a fixed step as in the papers, or adaptive steps.
    eta
        Size of fixed and adaptive steps.
    tol
        Relative decrease of the criterion at which to stop.
    max_iter
        Steps; default 100.
    """

    step: Annotated[str, OneOf(*STEPS), Shown("Steps")] = "backtracking"
    eta: Annotated[float, Number(above=0), Shown("Length of fixed steps (eta)")] = 0.1
    max_iter: MaxIter = None

    def _descend(self, output: Output, criterion: Criterion, project: Project, **more: Any) -> DeepSolution:
        """The solution; `more` is passed to `solve_deep`."""
        report = output.training.report
        return solve_deep(
            self._kernel(output),
            output.machine,
            criterion,
            self._descent(),
            project,
            start=self._start(output),
            callback=None
            if report is None
            else lambda step, value: report(f"step {step}: criterion {value:.4g}"),
            **more,
        )

    def _descent(self) -> Descent:
        most = 100 if self.max_iter is None else self.max_iter
        return Descent(self.step, float(self.eta), float(self.tol), most)

    @staticmethod
    def _start(output: Output) -> list[Array] | None:
        found = output.start.found
        if not isinstance(found, DeepSolution):
            return None
        layers = (found.weights, *(found.upper.weights if found.upper is not None else ()))
        # a kernel without weight at an earlier regularisation parameter would stay without weight where its
        # derivative is zero
        return [np.maximum(w, 1e-3 * w.max()) for w in layers]


class MLMKL(LayeredLearner, DescendingLearner, MarginLearner):
    """Deep multilayer multiple kernel learning: weights of every layer that minimise the error of a machine.

    The first layer is the weighted sum of the estimator's kernels. Every further one is

        K'(x, z) = sum_k w_k phi_k(K(x, z), K(x, x), K(z, z)) ,   w >= 0 ,

    with kernels phi_k evaluated in the feature space of the layer below. Descends the chosen criterion of the last
    kernel; the problem is not convex, and the solution is local.

    Parameters
    ----------
    criterion
        Mean squared or logistic (classification only) loss of decision values on rows outside the training folds,
        or the paper's squared error on the training rows, which favours overfitting. For regression the
        loss of the machine replaces the squared one.
    weight_set
        Weights without an upper bound, as in the paper, or with sum 1 in every layer, which leaves
        regularisation to C alone.
    n_folds
        Folds of the out-of-fold criteria.
    validation_fraction
        Share of rows held out for validation: the weights with the smallest loss there are kept, and
        `n_iter_no_change` steps without a better one end the descent. 0 keeps the weights with the best criterion.
    n_iter_no_change
        Steps without a better validation loss that end the descent.

    Notes
    -----
    Each step costs `n_folds` machines and O(n_layers n_kernels n_samples^2).

    References
    ----------
    I. Rebai, Y. BenAyed, W. Mahdi, Deep multilayer multiple kernel learning, Neural Computing and Applications (2015).

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> learner = kw.learners.MLMKL(n_layers=2, C=10.0)
    >>> model = kw.MKLClassifier(kw.banks.mlmkl(), learner, normalize="cosine").fit(X, X[:, 0] * X[:, 1] > 0)
    >>> model.weights_.shape
    (2, 4)
    """

    name = "mlmkl"
    question = "deep"
    validates = True

    criterion: Annotated[str, OneOf(*CRITERIA)] = "out-of-fold"
    weight_set: Annotated[str, OneOf(*WEIGHT_SETS), Shown("Weights of a layer")] = "orthant"
    n_folds: CriterionFolds = 3
    validation_fraction: Annotated[
        float, Number(least=0, most=0.5), Shown("Share of rows for early stopping")
    ] = 0.0
    n_iter_no_change: Annotated[int, Whole(1), Shown("Patience", unit="steps")] = 10

    def learn(self, output: Output) -> DeepSolution:
        validation = self._validation(output)
        rows = np.arange(output.gram.n_samples) if validation is None else validation.train
        criterion = self._criterion(output, rows)
        if criterion is None:
            # with one distinct row there is no validation: the weights stay at the start
            return self._equal(output)
        project = onto_simplices if self.weight_set == "simplex" else onto_orthant
        return self._descend(output, criterion, project, validation=validation)

    def _descent(self) -> Descent:
        return replace(super()._descent(), n_iter_no_change=self.n_iter_no_change)

    def _measure(self, output: Output) -> Loss:
        """The loss of decision values."""
        if self.criterion == "logistic":
            if output.training.classification:
                return Logistic()
            raise InputError("criterion='logistic' is for classification. For regression take 'out-of-fold'.")
        return Squared() if output.training.classification else output.machine.loss

    def _criterion(self, output: Output, rows: np.ndarray) -> Criterion | None:
        machine, loss = output.machine, self._measure(output)
        if self.criterion == "training":
            return TrainingError(machine, rows, loss=loss)
        folds = [np.intersect1d(fold, rows) for fold in output.folds(self.n_folds)]
        folds = [fold for fold in folds if len(fold)]
        return OutOfFold(machine, folds, rows, loss) if len(folds) > 1 else None

    def _validation(self, output: Output) -> Validation | None:
        share = float(self.validation_fraction)
        if share == 0.0:
            return None
        every, machine = np.arange(output.gram.n_samples), output.machine
        folds = output.folds(max(2, round(min(1.0 / share, len(every)))))
        train = np.setdiff1d(every, folds[0])
        if len(folds) < 2 or (machine.loss.classifies and len(np.unique(machine.y[train])) < 2):
            return None
        classification = output.training.classification
        return Validation(machine, train, folds[0], self._measure(output), classification=classification)


class DMKL(LayeredLearner, DescendingLearner):
    """Deep kernels by the span bound: weights that minimise an estimate of the leave-one-out error.

    The span of support vectors bounds the change of a row's decision value when the row is left out. The smoothed
    estimate is differentiated exactly, including rows at their bound; the last layer's weights sum to at most 1.

    Parameters
    ----------
    tol
        Relative decrease of the bound at which to stop.
    smoothing
        > 0; larger values reduce the change of the span when the set of support vectors changes.

    Notes
    -----
    Each step costs a machine, O(n_support^3) and O(n_layers n_kernels n_samples^2). The weight of a row is not
    exactly equivalent to repetitions, because repeated rows span each other.

    References
    ----------
    E. Strobl, S. Visweswaran, Deep multiple kernel learning, ICMLA 2013.

    Examples
    --------
    >>> from kernelweave.learners import DMKL
    >>> DMKL(n_layers=3, C=10.0)
    DMKL(C=10.0, n_layers=3)
    """

    name = "dmkl"
    question = "deep"
    regression = False
    loss = "hinge"

    smoothing: Annotated[Cost, Shown("Smoothing of the span")] = 1.0

    def learn(self, output: Output) -> DeepSolution:
        rows = np.arange(output.gram.n_samples)
        criterion = SpanBound(output.machine, rows, smoothing=float(self.smoothing))
        return self._descend(output, criterion, last_at_most_one)


class TwoLayerMKL(DescendingLearner, MarginLearner):
    """Two-layer MKL (2LMKL): the exponential of a weighted sum of kernels, by the dual objective of the machine.

    Minimises over weights ``w >= 0``, with ``K(w) = sum_m w_m s_m K_m``,

        max_b  dual_term(b) - 1/2 b' exp(K(w)) b  +  penalty sum_m w_m ,

    with the exponential taken entry by entry. Not convex; the solution is local.

    Parameters
    ----------
    normalize_layers
        ``exp(K(x, z) - K(x, x) / 2 - K(z, z) / 2)``, the Gaussian kernel in the feature space of the sum, instead of
        the plain exponential, which overflows when values reach 709.
    penalty
        Weight >= 0 of the sum of the weights.
    tol
        Relative decrease of the objective at which to stop.

    References
    ----------
    J. Zhuang, I. W. Tsang, S. C. H. Hoi, Two-layer multiple kernel learning, AISTATS 2011.

    Examples
    --------
    >>> from kernelweave.learners import TwoLayerMKL
    >>> TwoLayerMKL(C=10.0)
    TwoLayerMKL(C=10.0)
    """

    name = "2lmkl"
    question = "deep"

    penalty: Annotated[Nonnegative, Shown("Penalty of the weights")] = 1.0

    def layers(self) -> Layers:
        # the normalised exponential is a Gaussian, which avoids differences of large numbers
        return Layers(((RBF(0.5) if self.normalize_layers else Exponential(),),), cosine=False)

    def layer_names(self) -> list[list[str]]:
        """The exponential."""
        return [["exp"]]

    def learn(self, output: Output) -> DeepSolution:
        criterion = DualValue(output.machine, np.arange(output.gram.n_samples))
        own: dict[str, Any] = {"learnt": [True, False], "penalty": [float(self.penalty), 0.0]}
        return self._descend(output, criterion, onto_orthant, **own)


class DeepUniform(LayeredLearner, MarginLearner):
    """A deep kernel with equal weights in every layer: depth without learning.

    Parameters
    ----------
    tol
        Not used: there is one machine.

    Examples
    --------
    >>> from kernelweave.learners import DeepUniform
    >>> DeepUniform(n_layers=3)
    DeepUniform(n_layers=3)
    """

    name = "deep-uniform"
    question = "deep"
    sparse = False
    certificate = (
        "The weights are equal and not learnt. The gap is that of the machine: its objective is at most the gap above "
        "its optimum."
    )

    def learn(self, output: Output) -> DeepSolution:
        return self._equal(output)
