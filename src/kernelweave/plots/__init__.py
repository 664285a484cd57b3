"""Pictures of fitted estimators: display classes as in scikit-learn; matplotlib is imported when drawing."""

from kernelweave.plots.layers import DescentDisplay, KernelMatricesDisplay, LayerSpectraDisplay
from kernelweave.plots.path import CVCurveDisplay, RegularizationPathDisplay, SelectionCriteriaDisplay
from kernelweave.plots.weights import KernelContributionsDisplay, KernelWeightsDisplay, LayerWeightsDisplay

__all__ = [
    "CVCurveDisplay",
    "DescentDisplay",
    "KernelContributionsDisplay",
    "KernelMatricesDisplay",
    "KernelWeightsDisplay",
    "LayerSpectraDisplay",
    "LayerWeightsDisplay",
    "RegularizationPathDisplay",
    "SelectionCriteriaDisplay",
]
