"""The names of this module, each in one line."""

from kernelweave.fitting.stacks import KernelBank as KernelBank
from kernelweave.gram.features import FeatureStack as FeatureStack
from kernelweave.gram.repair import repair_gram as repair_gram
from kernelweave.machines.ball import solve_meb as solve_meb
from kernelweave.machines.svm import solve_klr as solve_klr
from kernelweave.machines.svm import solve_l2svc as solve_l2svc
from kernelweave.machines.svm import solve_svc as solve_svc
from kernelweave.machines.svm import solve_svr as solve_svr
from kernelweave.mkl.cardinality import solve_cardinality_mkl as solve_cardinality_mkl
from kernelweave.mkl.criteria.alignment import solve_align as solve_align
from kernelweave.mkl.criteria.alignment import solve_alignf as solve_alignf
from kernelweave.mkl.criteria.easy_mkl import solve_easy_mkl as solve_easy_mkl
from kernelweave.mkl.families import Gaussians as Gaussians
from kernelweave.mkl.families import KernelFamily as KernelFamily
from kernelweave.mkl.path import rls2_path as rls2_path
from kernelweave.mkl.path import svm_mkl_path as svm_mkl_path
from kernelweave.mkl.problem import Problem as Problem
from kernelweave.mkl.radius import solve_radius as solve_radius
from kernelweave.mkl.radius import solve_rkl as solve_rkl
from kernelweave.mkl.rls2 import solve_rls2 as solve_rls2
from kernelweave.mkl.solve import solve as solve
from kernelweave.mkl.svm_mkl import solve_svm_mkl as solve_svm_mkl
from kernelweave.results import Status as Status
