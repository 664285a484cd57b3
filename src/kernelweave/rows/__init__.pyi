"""The names of this module, each in one line."""

from kernelweave.gram.statistics import BlockStatistics as BlockStatistics
from kernelweave.gram.streams import KernelStream as KernelStream
from kernelweave.rows.collecting import block_statistics as block_statistics
from kernelweave.rows.folds import FoldStatistics as FoldStatistics
from kernelweave.rows.predicting import predict_rows as predict_rows
from kernelweave.rows.row_features import RowFeatures as RowFeatures
from kernelweave.rows.validation import rls2_path_cv as rls2_path_cv
from kernelweave.rows.validation import svm_mkl_path_cv as svm_mkl_path_cv
