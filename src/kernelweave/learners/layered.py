"""Common parts of learners with several layers: parameters, layers and starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import (
    Flag,
    Number,
    OneOf,
    Rule,
    Shown,
    Text,
    Unfit,
    Whole,
)
from kernelweave.functions import KernelFunction
from kernelweave.kernels import RBF, Kernel, Linear, Polynomial, parse
from kernelweave.learners.method import CLASS_LOSSES, MarginProblem, RuleLearner
from kernelweave.mkl.deep import STEPS, DeepSolution
from kernelweave.mkl.deep_kernel import DeepKernel
from kernelweave.mkl.layers import Layers
from kernelweave.mkl.weight_sets import Simplex
from kernelweave.results import Solution, WarmStart

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

    def words(self) -> str:
        return "a list of kernels, a list of such lists (one per layer above the first)"


Depth = Annotated[int, Whole(1, 100), Shown("Layers")]

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

CosineLayers = Annotated[bool, Flag(), Shown("Diagonals of 1 in every layer")]

DeepLoss = Annotated[str, OneOf(*CLASS_LOSSES, "squared"), Shown("Loss of the machine")]

Steps = Annotated[str, OneOf(*STEPS), Shown("Steps")]

StepSize = Annotated[float, Number(above=0), Shown("Length of fixed steps (eta)")]

Device = Annotated[str | None, Text() | None, Shown("Device (empty: the CPU)")]


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


class DeepWarmStart(WarmStart):
    """A start with the weights of every layer."""

    layers: tuple[np.ndarray, ...] | None = None


class DeepLearner(RuleLearner):
    """Base of learners with several layers."""

    n_layers: int
    kernels: Any
    normalize_layers: bool
    device: str | None
    iterates = True
    certificate = (
        "The weights are a local solution: the criterion is not convex. The gap certifies the machine on the learnt "
        "kernel: its objective is at most the gap above its optimum."
    )

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

    def start(self) -> WarmStart:
        return DeepWarmStart()

    def remember(self, warm: WarmStart, result: Solution) -> None:
        super().remember(warm, result)
        if isinstance(warm, DeepWarmStart) and isinstance(result, DeepSolution):
            warm.layers = (result.weights, *(result.upper.weights if result.upper is not None else ()))

    @staticmethod
    def _tell(problem: MarginProblem) -> Callable[[int, float], object] | None:
        report = problem.report
        if report is None:
            return None
        return lambda step, value: report(f"step {step}: criterion {value:.4g}")

    def _kernel(self, problem: MarginProblem) -> DeepKernel:
        return DeepKernel(problem.gram, problem.scale, self.layers(), self.device)

    def _start(self, warm: WarmStart) -> list[np.ndarray] | None:
        layers = getattr(warm, "layers", None)
        # a kernel without weight at an earlier regularisation parameter would stay without weight where its
        # derivative is zero
        return None if layers is None else [np.maximum(w, 1e-3 * w.max()) for w in layers]
