"""Estimators: scikit-learn's contract around sources, learners and normalisers."""

from kernelweave.estimators.base import MKLClassifier, MKLRegressor
from kernelweave.estimators.cv import MKLClassifierCV, MKLRegressorCV

__all__ = ["MKLClassifier", "MKLClassifierCV", "MKLRegressor", "MKLRegressorCV"]
