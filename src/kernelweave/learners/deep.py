"""Learners of deep kernels: layers of kernels on kernels, whose weights descend a criterion."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np

from kernelweave._checks import InputError
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
from kernelweave.functions import Exponential, KernelFunction
from kernelweave.kernels import RBF, Kernel, Linear, Polynomial, parse
from kernelweave.learners.base import Array
from kernelweave.learners.margin import CriterionFolds
from kernelweave.learners.solving import CostLearner, MarginLearner, Output
from kernelweave.mkl.criteria.deep import Criterion, DualValue, OutOfFold, SpanBound, TrainingError
from kernelweave.mkl.deep import STEPS, DeepSolution, Descent, Project, Validation, solve_deep
from kernelweave.mkl.deep_kernel import DeepKernel
from kernelweave.mkl.layers import Layers
from kernelweave.mkl.weight_sets import Simplex
from kernelweave.results import Solution

__all__ = ["DMKL", "MLMKL", "DeepUniform", "TwoLayerMKL"]

CRITERIA = ("out-of-fold", "logistic", "training")

WEIGHT_SETS = ("orthant", "simplex")

#: Kernels of every layer in the papers.
LAYER_KERNELS: tuple[Kernel, ...] = (Linear(), RBF(gamma=1.0), Polynomial(degree=2), Polynomial(degree=3))


class _LayerKernels(Rule):
    """Kernels of the upper layers; the learner checks their number of layers."""

    def read(self, value: Any) -> Any:
        if isinstance(value, Kernel):
            return value
        if isinstance(value, str) or not isinstance(value, Sequence) or not len(value):
            raise Unfit
        return value

    def parse(self, text: str) -> Any:
        """Kernels separated by ";", and different layers by "|"."""
        try:
            layers = [[parse(part) for part in layer.split(";") if part.strip()] for layer in text.split("|")]
        except InputError as error:
            raise Unfit(str(error)) from None
        if not all(layers):
            raise Unfit("No kernel is named.")
        return self.read(layers if len(layers) > 1 else layers[0])

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


class DeepLearner(CostLearner):
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
        if not self.device:
            return
        try:
            import torch
        except ImportError as error:
            raise InputError(
                f"`device`: {self.device!r} needs torch. Use pip install 'kernelweave[gpu]', or leave it empty."
            ) from error
        try:
            torch.zeros(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            # torch without CUDA fails an assertion, unknown names are runtime errors
            reason = str(error).strip().splitlines()[0]
            raise InputError(
                f"`device`: {self.device!r} cannot be used: {reason:.200} Leave it empty to use the CPU."
            ) from error

    def _kernel(self, output: Output) -> DeepKernel:
        return DeepKernel(output.gram, output.problem.scale, self.layers(), self.device)


class LayeredLearner(DeepLearner):
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
        return Layers(self._functions(), bool(self.normalize_layers))

    def layer_names(self) -> list[list[str]]:
        """Names of the kernels of every layer above the first."""
        return [[kernel.label.removesuffix(" on all") for kernel in layer] for layer in self._per_layer()]

    def _functions(self) -> tuple[tuple[KernelFunction, ...], ...]:
        return tuple(tuple(kernel.layer() for kernel in layer) for layer in self._per_layer())

    def _per_layer(self) -> list[Sequence[Kernel]]:
        """Kernels of every layer above the first, checked."""
        kernels = LAYER_KERNELS if self.kernels is None else self.kernels
        if isinstance(kernels, Kernel):
            kernels = [kernels]
        if isinstance(kernels, str) or not isinstance(kernels, Sequence) or not len(kernels):
            raise InputError(
                f"`kernels` must be a list of kernels, a list of such lists (one per layer above the first) or None, "
                f"got {kernels!r}."
            )
        per_layer: Sequence[Any] = (
            kernels if not isinstance(kernels[0], Kernel) else [kernels] * (self.n_layers - 1)
        )
        if len(per_layer) != self.n_layers - 1:
            raise InputError(
                f"`kernels` must have one list for each of the {self.n_layers - 1} layers above the first, got "
                f"{len(per_layer)}."
            )
        per_layer = [[layer] if isinstance(layer, Kernel) else layer for layer in per_layer]
        for layer in per_layer:
            for kernel in layer if isinstance(layer, Sequence) else [layer]:
                if not isinstance(kernel, Kernel):
                    raise InputError(
                        f"`kernels` must hold kernels such as kw.kernels.RBF(gamma=1.0), got {kernel!r}."
                    )
            if not len(layer):
                raise InputError(
                    "`kernels` must hold at least one kernel for every layer, got an empty list."
                )
        return list(per_layer)


class DescendingLearner(DeepLearner):
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

    def _descent(self, step: str = "", **published: Any) -> Descent:
        most = 100 if self.max_iter is None else self.max_iter
        return Descent(step or self.step, float(self.eta), float(self.tol), most, **published)

    @staticmethod
    def _tell(output: Output) -> Callable[[int, float], object] | None:
        report = output.training.report
        if report is None:
            return None
        return lambda step, value: report(f"step {step}: criterion {value:.4g}")

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
        or the paper's squared error on the training rows, which favours overfitting. For regression with the
        epsilon-insensitive machine that loss replaces the squared one.
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
    as_published
        The update as it is printed: the gradient of the training error without the sign of the residual and without
        the derivatives of diagonals, *added* with a fixed step. For study only.

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
    validates = True

    criterion: Annotated[str, OneOf(*CRITERIA)] = "out-of-fold"
    weight_set: Annotated[str, OneOf(*WEIGHT_SETS), Shown("Weights of a layer")] = "orthant"
    n_folds: CriterionFolds = 3
    validation_fraction: Annotated[
        float, Number(least=0, most=0.5), Shown("Share of rows for early stopping")
    ] = 0.0
    n_iter_no_change: Annotated[int, Whole(1), Shown("Patience", unit="steps")] = 10
    as_published: Annotated[bool, Flag(), Shown("The update as published (ascends)")] = False

    def check(self) -> None:
        super().check()
        if self.as_published and self.device is not None:
            raise InputError("`as_published=True` needs NumPy. Use device=None.")

    def learn(self, output: Output) -> Solution:
        validation = self._validation(output)
        rows = np.arange(output.gram.n_samples) if validation is None else validation.train
        descent = self._descent(
            "fixed" if self.as_published else "",
            as_published=self.as_published,
            n_iter_no_change=self.n_iter_no_change,
        )
        return solve_deep(
            self._kernel(output), output.machine, self._criterion(output, rows), descent, self._project(),
            start=self._start(output), validation=validation, callback=self._tell(output),
        )  # fmt: skip

    def _project(self) -> Project:
        return onto_simplices if self.weight_set == "simplex" else onto_orthant

    def _kind(self, output: Output) -> str:
        if self.criterion == "logistic":
            if output.training.classification:
                return "logistic"
            raise InputError("criterion='logistic' is for classification. For regression take 'out-of-fold'.")
        loss = output.machine.loss
        return loss.name if loss.tube else "squared"

    def _criterion(self, output: Output, rows: np.ndarray) -> Criterion | None:
        machine, kind = output.machine, self._kind(output)
        if self.as_published or self.criterion == "training":
            return TrainingError(machine, rows, kind, as_published=self.as_published)
        folds = [np.intersect1d(fold, rows) for fold in output.folds(self.n_folds)]
        folds = [fold for fold in folds if len(fold)]
        if len(folds) < 2:
            # with one distinct row there is no validation: the weights stay at the start
            return None
        return OutOfFold(machine, folds, rows, kind)

    def _validation(self, output: Output) -> Validation | None:
        share = float(self.validation_fraction)
        if share == 0.0:
            return None
        folds = output.folds(max(2, round(min(1.0 / share, output.gram.n_samples))))
        if len(folds) < 2:
            return None
        train = np.setdiff1d(np.arange(output.gram.n_samples), folds[0])
        machine = output.machine
        if machine.loss.classifies and len(np.unique(machine.y[train])) < 2:
            return None
        return Validation(
            machine, train, folds[0], self._kind(output), classification=output.training.classification
        )


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
    regression = False
    loss = "hinge"

    smoothing: Annotated[Cost, Shown("Smoothing of the span")] = 1.0

    def learn(self, output: Output) -> Solution:
        rows = np.arange(output.gram.n_samples)
        criterion = SpanBound(output.machine, rows, smoothing=float(self.smoothing))
        return solve_deep(
            self._kernel(output), output.machine, criterion, self._descent(), last_at_most_one,
            start=self._start(output), callback=self._tell(output),
        )  # fmt: skip


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

    penalty: Annotated[Nonnegative, Shown("Penalty of the weights")] = 1.0

    def layers(self) -> Layers:
        # the normalised exponential is a Gaussian, which avoids differences of large numbers
        return Layers(((RBF(0.5) if self.normalize_layers else Exponential(),),), cosine=False)

    def layer_names(self) -> list[list[str]]:
        """The exponential."""
        return [["exp"]]

    def learn(self, output: Output) -> Solution:
        criterion = DualValue(output.machine, np.arange(output.gram.n_samples))
        return solve_deep(
            self._kernel(output), output.machine, criterion, self._descent(), onto_orthant,
            start=self._start(output), learnt=[True, False], penalty=[float(self.penalty), 0.0],
            callback=self._tell(output),
        )  # fmt: skip


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
    certificate = (
        "The weights are equal and not learnt. The gap is that of the machine: its objective is at most the gap above "
        "its optimum."
    )

    def learn(self, output: Output) -> Solution:
        return solve_deep(self._kernel(output), output.machine, None, Descent(), onto_orthant)
