"""The public names, each in one line: type checkers read this file, and `__init__.py` imports by it at first use."""

# ruff: noqa: I001
# The names of the front page.
from kernelweave import banks as banks
from kernelweave import datasets as datasets
from kernelweave import inspection as inspection
from kernelweave import kernels as kernels
from kernelweave import learners as learners
from kernelweave import plots as plots
from kernelweave import rows as rows
from kernelweave import solvers as solvers
from kernelweave._checks import InputError as InputError
from kernelweave._checks import KernelWarning as KernelWarning
from kernelweave.estimators.classifier import MKLClassifier as MKLClassifier
from kernelweave.estimators.cv import MKLClassifierCV as MKLClassifierCV
from kernelweave.estimators.cv import MKLRegressorCV as MKLRegressorCV
from kernelweave.estimators.regressor import MKLRegressor as MKLRegressor
from kernelweave.estimators.selecting import SelectViews as SelectViews
from kernelweave.estimators.survival import MKLSurvival as MKLSurvival
from kernelweave.fitting.stacks import KernelBank as KernelBank
from kernelweave.machines import losses as losses
from kernelweave.mkl import weight_sets as weight_sets
from kernelweave.mkl.problem import Problem as Problem
from kernelweave.mkl.solve import solve as solve
from kernelweave.persistence import load as load
from kernelweave.persistence import save as save
from kernelweave.persistence.onnx_file import to_onnx as to_onnx
from kernelweave.views.container import Views as Views
from kernelweave.views.container import precomputed as precomputed

# Of `solvers`, `rows` and modules, by shorter names.
from kernelweave import normalizers as normalizers
from kernelweave import results as results
from kernelweave import views as views
from kernelweave._checks import NotPSDError as NotPSDError
from kernelweave.gram.features import FeatureStack as FeatureStack
from kernelweave.gram.statistics import BlockStatistics as BlockStatistics
from kernelweave.gram.streams import KernelStream as KernelStream
from kernelweave.machines.ball import solve_meb as solve_meb
from kernelweave.machines.svm import solve_svc as solve_svc
from kernelweave.machines.svm import solve_svr as solve_svr
from kernelweave.mkl import problems as problems
from kernelweave.mkl.path import rls2_path as rls2_path
from kernelweave.mkl.radius import solve_rkl as solve_rkl
from kernelweave.mkl.rls2 import solve_rls2 as solve_rls2
from kernelweave.mkl.svm_mkl import solve_svm_mkl as solve_svm_mkl
from kernelweave.rows.row_features import RowFeatures as RowFeatures

# Former names, with a warning: they are in `solvers` and `rows`.
from kernelweave.gram.repair import repair_gram as repair_gram
from kernelweave.machines.svm import solve_klr as solve_klr
from kernelweave.machines.svm import solve_l2svc as solve_l2svc
from kernelweave.mkl.cardinality import solve_cardinality_mkl as solve_cardinality_mkl
from kernelweave.mkl.criteria.alignment import solve_align as solve_align
from kernelweave.mkl.criteria.alignment import solve_alignf as solve_alignf
from kernelweave.mkl.criteria.easy_mkl import solve_easy_mkl as solve_easy_mkl
from kernelweave.mkl.families import Gaussians as Gaussians
from kernelweave.mkl.families import KernelFamily as KernelFamily
from kernelweave.mkl.path import svm_mkl_path as svm_mkl_path
from kernelweave.mkl.radius import solve_radius as solve_radius
from kernelweave.results import Status as Status
from kernelweave.rows.collecting import block_statistics as block_statistics
from kernelweave.rows.folds import FoldStatistics as FoldStatistics
from kernelweave.rows.predicting import predict_rows as predict_rows
from kernelweave.rows.validation import rls2_path_cv as rls2_path_cv
from kernelweave.rows.validation import svm_mkl_path_cv as svm_mkl_path_cv

__version__: str
