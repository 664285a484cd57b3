"""Decision values from a source, weights and coefficients, kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kernelweave._sparse import to_dense, unit_rows
from kernelweave._threads import blas_threads_for
from kernelweave._types import Values
from kernelweave.fitting.source import Q, Source
from kernelweave.mkl.layers import TrainedLayers
from kernelweave.normalizers import FittedNormalizer

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Layers above the sum of kernels, one entry for every output; empty if there are none.
UpperLayers = Sequence[TrainedLayers | None]

#: Numbers of features of new rows that are computed at a time.
FEATURES = 2**23


@dataclass(frozen=True)
class FeatureForm:
    """A model as a function of the features of its kernels: ``sum_m (phi_m(x) - mean_m) @ coef_m + intercept``.

    Attributes
    ----------
    coef : array of shape (n_features, n_outputs)
        Of all kernels in their order, for normalised features: with the factors of kernels and their weights.
    offsets : array of int, shape (n_kernels + 1,)
        Kernel m has the features ``offsets[m]:offsets[m + 1]``.
    means : array of shape (n_features,), or None
        Weighted means over the training rows, if kernels are centred.
    """

    coef: Array
    offsets: Rows
    means: Array | None = None

    def parts(
        self, source: Source[Q], queries: Q, fitted: FittedNormalizer
    ) -> Iterator[tuple[slice, int, Array]]:
        """Yield (query rows, m, what kernel m adds to the decision values (rows, n_outputs)), in chunks."""
        ends = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        used = np.flatnonzero([self.coef[start:stop].any() for start, stop in ends])
        widest = max(1, int(np.diff(self.offsets).max()))
        for where, m, own, phi in self._blocks(source, queries, fitted, used, widest):
            if phi is not None:
                shift = 0.0 if self.means is None else self.means[own] @ self.coef[own]
                yield where, m, np.asarray(phi @ self.coef[own]) - shift

    def rows(self, source: Source[Q], queries: Q, fitted: FittedNormalizer) -> Iterator[tuple[slice, Array]]:
        """Yield (query rows, their normalised features (rows, n_features)), in chunks."""
        every, n_features = np.arange(len(self.offsets) - 1), int(self.offsets[-1])
        block = np.zeros((0, n_features))
        for where, m, own, phi in self._blocks(source, queries, fitted, every, n_features):
            if m == 0:
                block = np.zeros((where.stop - where.start, n_features))
            if phi is not None:
                block[:, own] = to_dense(phi) - (0.0 if self.means is None else self.means[own])
            if m == len(every) - 1:
                yield where, block

    def _blocks(
        self, source: Source[Q], queries: Q, fitted: FittedNormalizer, kernels: Rows, width: int
    ) -> Iterator[tuple[slice, int, slice, Values | None]]:
        """Yield (query rows, m, places of its features, these; None for a kernel that is zero), before centring."""
        for where, m, phi in source.features(queries, kernels, max(1, FEATURES // width)):
            own = slice(self.offsets[m], self.offsets[m + 1])
            if fitted.constant is not None and fitted.constant[m]:
                yield where, m, own, None
            else:
                yield where, m, own, phi if fitted.cosine_scale is None else unit_rows(phi)


@dataclass(frozen=True)
class Expansions:
    """Several solutions at once: sums of kernels with coefficients and an intercept, for each output.

    Attributes
    ----------
    weights : array of shape (n_solutions, n_outputs, n_kernels)
        Effective weights: times the factors of the normaliser.
    coefficients : array of shape (n_solutions, n_samples, n_outputs)
    intercepts : array of shape (n_solutions, n_outputs)
    layers : sequence of sequences
        For every solution the layers above the sum of kernels of every output; empty for none.
    features : FeatureForm, optional
        Coefficients of features, where they replace the others, of all outputs of all solutions in this order.
    """

    weights: Array
    coefficients: Array
    intercepts: Array
    layers: Sequence[UpperLayers] = ()
    features: FeatureForm | None = None


def decisions(source: Source[Q], queries: Q, fitted: FittedNormalizer, found: Expansions) -> Array:
    """Decision values of several solutions.

    Parameters
    ----------
    source : Source
    queries : queries of that source
    fitted : FittedNormalizer
        Of any of the problems: all of them change the kernels equally, only their factors may differ.
    found : Expansions

    Returns
    -------
    array of shape (n_solutions, n_queries, n_outputs)
    """
    n_queries = source.query_length(queries)
    out = np.repeat(found.intercepts[:, None], n_queries, axis=1)
    with blas_threads_for(min(n_queries, source.n_samples)):
        if any(found.layers) and (found.features is None or source.lacks(queries)):
            for s, layers in enumerate(found.layers):
                for output, own in enumerate(layers):
                    if own is None:
                        # an output without a machine
                        continue
                    weights, coef = found.weights[s, output], found.coefficients[s, :, output]
                    for where, K, kappa in summed_kernels(source, queries, fitted, weights):
                        out[s, where, output] += own.cross(K, kappa) @ coef
            return out
        for where, _, used, part in kernel_parts(source, queries, fitted, found):
            out[used, where] += part
    return out


def kernel_parts(
    source: Source[Q], queries: Q, fitted: FittedNormalizer, found: Expansions
) -> Iterator[tuple[slice, int, Rows, Array]]:
    """What kernels add to decision values, without layers.

    Yields
    ------
    where : slice
        Some queries.
    m : int
        A kernel.
    used : array of int
        Solutions that it has a part in.
    part : array of shape (n_used, n_where, n_outputs)
    """
    w, c, shape = found.weights, found.coefficients, found.intercepts.shape
    if found.features is not None and not source.lacks(queries):
        for where, m, values in found.features.parts(source, queries, fitted):
            yield where, m, np.arange(shape[0]), values.reshape(len(values), *shape).transpose(1, 0, 2)
        return
    active = np.flatnonzero((w != 0).any(axis=(0, 1)))
    for where, m, times in kernel_actions(source, queries, fitted, active):
        used = np.flatnonzero(w[:, :, m].any(axis=1))
        scaled = c[used] * w[used, None, :, m]  # (used, n_samples, n_outputs)
        flat = times(scaled.transpose(1, 0, 2).reshape(source.n_samples, -1))
        yield where, m, used, flat.reshape(len(flat), len(used), -1).transpose(1, 0, 2)


def summed_kernels(
    source: Source[Q], queries: Q, fitted: FittedNormalizer, weights: Array
) -> Iterator[tuple[slice, Array, Array]]:
    """Yield (query rows, sum of kernels with the training rows, its values k(x, x)) in chunks.

    Parameters
    ----------
    source : Source
    queries : queries of that source
    fitted : FittedNormalizer
    weights : array of shape (n_kernels,)
        Effective weights.
    """
    active = np.flatnonzero(weights)
    if not len(active):
        n_queries = source.query_length(queries)
        yield slice(0, n_queries), np.zeros((n_queries, source.n_samples)), np.zeros(n_queries)
        return
    raw = {int(m): source.query_diagonal(queries, int(m)) for m in active}
    current: tuple[slice, Array, Array] | None = None
    for where, m, K in source.cross(queries, active):
        if current is None or where != current[0]:
            if current is not None:
                yield current
            rows = where.stop - where.start
            current = where, np.zeros((rows, source.n_samples)), np.zeros(rows)
        current[1][...] += weights[m] * normalized_cross(source, queries, fitted, where, m, K)
        current[2][...] += weights[m] * fitted.cross_diagonal(m, K, raw[m][where])
    if current is not None:
        yield current


def kernel_actions(
    source: Source[Q], queries: Q, fitted: FittedNormalizer, kernels: Rows
) -> Iterator[tuple[slice, int, Callable[[Array], Array]]]:
    """Yield (query rows, m, function), where ``function(C)`` is ``K_m(queries, training) @ C`` after normalisation.

    For kernels with a feature map of low rank it is used, O(n_queries + n_samples) instead of their product.
    """
    if fitted.constant is not None:
        kernels = kernels[~fitted.constant[kernels]]
    every, direct = slice(0, source.query_length(queries)), []
    for m in map(int, kernels):
        maps = source.feature_maps(m, queries)
        own = None if maps is None else fitted.of_features(m, *maps)
        if own is not None:
            yield every, m, partial(_through_features, *own)
        elif maps is not None and fitted.is_linear:
            yield every, m, partial(fitted.product, m, partial(_through_features, *maps))
        else:
            direct.append(m)
    for where, m, K in source.cross(queries, np.array(direct, dtype=np.intp)):
        if fitted.is_linear:
            yield where, m, partial(fitted.product, m, K.__matmul__)
        else:
            yield where, m, normalized_cross(source, queries, fitted, where, m, K).__matmul__


def _through_features(new: Array, training: Array, C: Array) -> Array:
    return new @ (training.T @ C)


def normalized_cross(
    source: Source[Q], queries: Q, fitted: FittedNormalizer, where: slice, m: int, K: Array
) -> Array:
    """A chunk of a cross-Gram after cosine normalisation and centring."""
    return fitted.cross(m, K, lambda: source.query_diagonal(queries, m)[where])
