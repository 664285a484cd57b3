"""Tables about fitted estimators, without drawing."""

from __future__ import annotations

from kernelweave.inspection.curves import Calibration, LearningCurve, calibration, learning_curve
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
from kernelweave.inspection.paired import (
    PairedTest,
    adjust_p_values,
    compare_classes,
    compare_folds,
    compare_numbers,
)
from kernelweave.inspection.paths import Path, regularization_path
from kernelweave.inspection.permutation import PermutationTest, permutation_test
from kernelweave.inspection.registry import Basis, Finding, Interval, Table, finding, findings
from kernelweave.inspection.scores import out_of_fold_scores, score_intervals, share_interval
from kernelweave.inspection.sources import SourceRefitTest, SourceTest, source_refit_test, source_test
from kernelweave.inspection.stability import WeightStability, weight_stability
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
    "Basis",
    "Calibration",
    "Finding",
    "Interval",
    "KernelWeights",
    "LayerDescent",
    "LayerGrams",
    "LayerSpectra",
    "LayerWeights",
    "LearningCurve",
    "PairedTest",
    "Path",
    "PermutationTest",
    "SourceRefitTest",
    "SourceTest",
    "Table",
    "TwoLayers",
    "WeightStability",
    "adjust_p_values",
    "calibration",
    "compare_classes",
    "compare_folds",
    "compare_numbers",
    "contribution_sizes",
    "descent",
    "finding",
    "findings",
    "kernel_weights",
    "layer_grams",
    "layer_spectra",
    "layer_weights",
    "learning_curve",
    "missing",
    "out_of_fold_scores",
    "permutation_test",
    "regularization_path",
    "score_intervals",
    "share_interval",
    "source_refit_test",
    "source_test",
    "two_layers",
    "uninformative",
    "view_of",
    "view_weights",
    "weight_stability",
]
