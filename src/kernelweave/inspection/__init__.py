"""Tables about fitted estimators, without drawing."""

from __future__ import annotations

from kernelweave.inspection.layers import (
    LayerDescent,
    LayerGrams,
    LayerSpectra,
    LayerWeights,
    descent,
    layer_grams,
    layer_spectra,
    layer_weights,
)
from kernelweave.inspection.missing import missing
from kernelweave.inspection.paths import Path, regularization_path
from kernelweave.inspection.two_layers import TwoLayers, two_layers
from kernelweave.inspection.weights import (
    KernelWeights,
    contribution_sizes,
    kernel_weights,
    uninformative,
    view_of,
    view_weights,
)

__all__ = [
    "KernelWeights",
    "LayerDescent",
    "LayerGrams",
    "LayerSpectra",
    "LayerWeights",
    "Path",
    "TwoLayers",
    "contribution_sizes",
    "descent",
    "kernel_weights",
    "layer_grams",
    "layer_spectra",
    "layer_weights",
    "missing",
    "regularization_path",
    "two_layers",
    "uninformative",
    "view_of",
    "view_weights",
]
