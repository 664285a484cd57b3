"""Estimators: scikit-learn's interface for sources, learners and normalisers."""

from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.estimators.cv import MKLClassifierCV, MKLRegressorCV
from kernelweave.estimators.estimator import BaseMKL
from kernelweave.estimators.regressor import MKLRegressor
from kernelweave.estimators.survival import MKLSurvival

__all__ = ["BaseMKL", "MKLClassifier", "MKLClassifierCV", "MKLRegressor", "MKLRegressorCV", "MKLSurvival"]
