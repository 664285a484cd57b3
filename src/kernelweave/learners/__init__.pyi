"""The names of this module, each in one line; learners with their short names, in the order of forms and messages."""

# ruff: noqa: I001
from kernelweave.learners.base import LEARNERS as LEARNERS
from kernelweave.learners.base import Learner as Learner
from kernelweave.learners.base import resolve as resolve
from kernelweave.learners.rls2 import RLS2 as RLS2  # rls2
from kernelweave.learners.metric import MetricRLS2 as MetricRLS2  # metric
from kernelweave.learners.second_layer import NonlinearRLS2 as NonlinearRLS2  # rls2-nonlinear
from kernelweave.learners.margin import SimpleMKL as SimpleMKL  # simple
from kernelweave.learners.margin import SILP as SILP  # silp
from kernelweave.learners.margin import LpMKL as LpMKL  # lp
from kernelweave.learners.margin import ElasticNetMKL as ElasticNetMKL  # elastic-net
from kernelweave.learners.margin import SoftMarginMKL as SoftMarginMKL  # soft-margin
from kernelweave.learners.margin import Uniform as Uniform  # uniform
from kernelweave.learners.margin import BestKernel as BestKernel  # best
from kernelweave.learners.cardinality import CardinalityMKL as CardinalityMKL  # cardinality
from kernelweave.learners.alignment import Align as Align  # align
from kernelweave.learners.alignment import AlignF as AlignF  # alignf
from kernelweave.learners.alignment import EasyMKL as EasyMKL  # easy
from kernelweave.learners.radius import RKL as RKL  # rkl
from kernelweave.learners.radius import ChapelleRadius as ChapelleRadius  # kl-c
from kernelweave.learners.radius import DoRadius as DoRadius  # do
from kernelweave.learners.radius import ARDGaussian as ARDGaussian  # gaussian
from kernelweave.learners.radius import ParametricKernel as ParametricKernel  # parametric
from kernelweave.learners.deep import MLMKL as MLMKL  # mlmkl
from kernelweave.learners.deep import DMKL as DMKL  # dmkl
from kernelweave.learners.deep import TwoLayerMKL as TwoLayerMKL  # 2lmkl
from kernelweave.learners.deep import DeepUniform as DeepUniform  # deep-uniform
