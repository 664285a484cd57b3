"""The names of this module, each in one line."""

from kernelweave.estimators.classifier import MKLClassifier as MKLClassifier
from kernelweave.estimators.cv import MKLClassifierCV as MKLClassifierCV
from kernelweave.estimators.cv import MKLRegressorCV as MKLRegressorCV
from kernelweave.estimators.estimator import BaseMKL as BaseMKL
from kernelweave.estimators.regressor import MKLRegressor as MKLRegressor
from kernelweave.estimators.survival import MKLSurvival as MKLSurvival
