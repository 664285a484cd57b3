"""Representations of stacks of base Gram matrices, with a common interface (see `Gram`).

=================  ==============================================  ========================================
form               what is kept                                    when it is chosen
=================  ==============================================  ========================================
`PackedGram`       upper triangles, ``n (n + 1) / 2`` each         full-rank kernels that fit in memory
`FactorGram`       factors Z with ``K = Z Z'`` (exact or bounded)  linear features, polynomials of one
                                                                   feature, anything numerically low rank
`FeatureGram`      features, as such factors                       kernels of features, where many rows make
                                                                   solvers of features cheaper
`TileGram`         nothing; blocks are recomputed                  when the memory budget would be exceeded
`DeviceGram`       matrices as given, on their device              tensors on a GPU
`CompositeGram`    several of these, side by side                  mixed banks
=================  ==============================================  ========================================

A `FeatureStack` holds features instead; solvers that know features take it, and others its factors. `BlockStatistics`
hold sums over rows of features and targets, for solvers of the squared loss. A `KernelStream` makes kernels when they
are needed, for RLS2.
"""

from kernelweave.gram.base import Gram
from kernelweave.gram.chunked import ChunkedFeatures
from kernelweave.gram.composite import CompositeGram, concatenate
from kernelweave.gram.device_gram import DeviceGram
from kernelweave.gram.factors import FactorGram
from kernelweave.gram.features import FeatureGram, FeatureStack
from kernelweave.gram.packed import PackedGram
from kernelweave.gram.repair import repair_gram
from kernelweave.gram.stack import as_gram, check_semidefinite, gram_from_stack, kind_of
from kernelweave.gram.statistics import BlockStatistics
from kernelweave.gram.streams import KernelStream
from kernelweave.gram.tiles import TileGram
from kernelweave.gram.uninformative import identities_and_constants, spread_and_alignment

__all__ = [
    "BlockStatistics",
    "ChunkedFeatures",
    "CompositeGram",
    "DeviceGram",
    "FactorGram",
    "FeatureGram",
    "FeatureStack",
    "Gram",
    "KernelStream",
    "PackedGram",
    "TileGram",
    "as_gram",
    "check_semidefinite",
    "concatenate",
    "gram_from_stack",
    "identities_and_constants",
    "kind_of",
    "repair_gram",
    "spread_and_alignment",
]
