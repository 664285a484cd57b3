"""Kernels of explicit features, which new rows have as well."""

from __future__ import annotations

from typing import cast

from kernelweave.gram.base import Array, Gram, Index
from kernelweave.gram.factors import FactorGram
from kernelweave.gram.features import FeatureStack


class FeatureGram(FactorGram):
    """Kernels ``K_m = Z_m Z_m'`` of the features of rows, held as the factors ``Z_m'``.

    To solvers of kernels they are factors. `stack` hands the same memory to solvers of features.
    """

    def stack(self) -> FeatureStack:
        """The features as blocks of columns, without a copy."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        return FeatureStack(self.rows[first:last].T, self.offsets - first)

    def describe(self) -> str:
        size = f"{self.nbytes / 2**20:.1f} MiB"
        return f"{self.n_kernels} kernels as {int(self.ranks.sum())} features, {size}"

    def _take(self, kernels: Index) -> FeatureGram:
        return _as_features(super()._take(kernels))

    def _restrict(self, rows: Index) -> FeatureGram:
        return _as_features(super()._restrict(rows))

    def _rescale(self, row_scale: Array, overwrite: bool) -> FeatureGram:
        return _as_features(super()._rescale(row_scale, overwrite))

    def _center(self, probability: Array, overwrite: bool) -> FeatureGram:
        return _as_features(super()._center(probability, overwrite))


def _as_features(gram: Gram) -> FeatureGram:
    factors = cast(FactorGram, gram)
    return FeatureGram(factors.rows, factors.offsets)
