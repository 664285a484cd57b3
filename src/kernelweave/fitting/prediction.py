"""Decision values from a source, weights and coefficients, kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from kernelweave._sparse import is_sparse, to_dense, unit_rows
from kernelweave._threads import blas_threads_for
from kernelweave._types import Values
from kernelweave.fitting.source import Products as RawProducts
from kernelweave.fitting.source import Q, Source
from kernelweave.mkl.layers import FirstLayer, TrainedLayers
from kernelweave.normalizers import FittedNormalizer

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Layers above the sum of kernels, one entry for every output; empty if there are none.
UpperLayers = Sequence[TrainedLayers | None]

#: Numbers of features of new rows that are computed at a time.
FEATURES = 2**23


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
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

    @cached_property
    def users(self) -> NDArray[np.bool_]:
        """Which kernels have a part in which solutions, (n_kernels, n_solutions)."""
        return np.asarray(self.weights.any(axis=1)).T

    @property
    def active(self) -> Rows:
        """Kernels that have a part in one."""
        return np.flatnonzero(self.users.any(axis=1))

    def coefs_of(self, m: int) -> Array:
        """Coefficients of kernel m, (n_samples, n_used * n_outputs), times its weights."""
        used = np.flatnonzero(self.users[m])
        scaled = self.coefficients[used] * self.weights[used, None, :, m]
        return scaled.transpose(1, 0, 2).reshape(scaled.shape[1], scaled.shape[0] * scaled.shape[2])


class Products(Generic[Q]):
    """Normalised kernels of new rows with the training rows, times coefficients that are known before.

    Parameters
    ----------
    source : Source
    fitted : FittedNormalizer
        Of any of the problems: all of them change the kernels equally, only their factors may differ.
    kernels : array of int
    coefs : callable
        Of a kernel, of shape (n_samples, n_vectors).
    """

    def __init__(
        self, source: Source[Q], fitted: FittedNormalizer, kernels: Rows, coefs: Callable[[int], Array]
    ) -> None:
        self.source, self.fitted, self.coefs = source, fitted, coefs
        self.kernels = kernels if fitted.constant is None else kernels[~fitted.constant[kernels]]
        #: What is added to products with the raw kernels.
        self._levels: dict[int, Array] = {}

    @cached_property
    def _through_features(self) -> tuple[dict[int, tuple[Array, Array | None]], int]:
        """Coefficients of the features of kernels that have few, and means; and rows to compute at a time."""
        found, widest = {}, 1
        for m in map(int, self.kernels):
            training = self.source.training_features(m)
            if training is not None:
                found[m] = self.fitted.through_features(m, training, self.coefs(m))
                widest = max(widest, len(found[m][0]))
        return found, max(1, FEATURES // widest)

    @cached_property
    def _compared(self) -> RawProducts[Q]:
        """Products of the other kernels."""
        others = [m for m in map(int, self.kernels) if m not in self._through_features[0]]
        return self.source.products(np.array(others, dtype=np.intp), self._raw)

    def _raw(self, m: int) -> Array:
        coefs, self._levels[m] = self.fitted.raw_coefficients(m, self.coefs(m))
        return coefs

    def of(self, queries: Q) -> Iterator[tuple[slice, int, Array]]:
        """Yield (some rows, m, product (rows, n_vectors)), in chunks."""
        cosine, whole = self.fitted.cosine_scale is not None, not self.source.lacks(queries)
        known, each = self._through_features if whole else ({}, 0)
        if known:
            for where, m, phi in self.source.features(queries, np.array(list(known)), each):
                coef, mean = known[m]
                phi = unit_rows(phi) if cosine else phi
                if mean is None:
                    yield where, m, np.asarray(phi @ coef)
                elif is_sparse(phi):
                    yield where, m, np.asarray(phi @ coef) - mean @ coef
                else:
                    yield where, m, (phi - mean) @ coef
        # rows without a view have no features
        products = self._compared if whole else Source.products(self.source, self.kernels, self._raw)
        roots: dict[int, Array] = {}
        for where, m, found in products(queries):
            if cosine:
                if m not in roots:
                    roots[m] = self.fitted.row_factors(self.source.query_diagonal(queries, m))[:, None]
                found = found * roots[m][where]
            yield where, m, found + self._levels[m]


@dataclass(frozen=True, eq=False)
class NewRows(Generic[Q]):
    """New rows for a source, with the normalisation of its kernels.

    Attributes
    ----------
    source : Source
    queries : queries of that source
    fitted : FittedNormalizer
        Of any of the problems: all of them change the kernels equally, only their factors may differ.
    """

    source: Source[Q]
    queries: Q
    fitted: FittedNormalizer

    def decisions(self, found: Expansions, products: Products[Q] | None = None) -> Array:
        """Decision values of several solutions, shape (n_solutions, n_rows, n_outputs); `products` if known."""
        source, n_rows = self.source, self.source.query_length(self.queries)
        out = np.repeat(found.intercepts[:, None], n_rows, axis=1)
        with blas_threads_for(min(n_rows, source.n_samples)):
            if any(found.layers) and (found.features is None or source.lacks(self.queries)):
                for s, layers in enumerate(found.layers):
                    for output, own in enumerate(layers):
                        if own is None:
                            # an output without a machine
                            continue
                        coef = found.coefficients[s, :, output]
                        for where, K, kappa in self.below(own, found.weights[s, output]):
                            out[s, where, output] += own.cross(K, kappa) @ coef
                return out
            for where, _, used, part in self.parts(found, products):
                out[used, where] += part
        return out

    def parts(
        self, found: Expansions, products: Products[Q] | None = None
    ) -> Iterator[tuple[slice, int, Rows, Array]]:
        """What kernels add to decision values, without layers.

        Yields
        ------
        where : slice
            Some rows.
        m : int
            A kernel.
        used : array of int
            Solutions that it has a part in.
        part : array of shape (n_used, n_where, n_outputs)
        """
        shape, form = found.intercepts.shape, found.features
        if form is not None and not self.source.lacks(self.queries):
            ends = zip(form.offsets[:-1], form.offsets[1:], strict=True)
            active = np.flatnonzero([form.coef[start:stop].any() for start, stop in ends])
            for where, m, own, phi in self._features(form, active, max(1, int(np.diff(form.offsets).max()))):
                if phi is not None:
                    shift = 0.0 if form.means is None else form.means[own] @ form.coef[own]
                    flat = np.asarray(phi @ form.coef[own]) - shift
                    yield where, m, np.arange(shape[0]), flat.reshape(len(flat), *shape).transpose(1, 0, 2)
            return
        products = products or Products(self.source, self.fitted, found.active, found.coefs_of)
        for where, m, flat in products.of(self.queries):
            used = np.flatnonzero(found.users[m])
            yield where, m, used, flat.reshape(len(flat), len(used), -1).transpose(1, 0, 2)

    def features(self, form: FeatureForm) -> Iterator[tuple[slice, Array]]:
        """Yield (some rows, their normalised features (rows, n_features)), in chunks."""
        every, n_features = np.arange(len(form.offsets) - 1), int(form.offsets[-1])
        block = np.zeros((0, n_features))
        for where, m, own, phi in self._features(form, every, n_features):
            if m == 0:
                block = np.zeros((where.stop - where.start, n_features))
            if phi is not None:
                block[:, own] = to_dense(phi) - (0.0 if form.means is None else form.means[own])
            if m == len(every) - 1:
                yield where, block

    def _features(
        self, form: FeatureForm, kernels: Rows, width: int
    ) -> Iterator[tuple[slice, int, slice, Values | None]]:
        """Yield (some rows, m, places of its features, these; None for a kernel that is zero), before centring."""
        fitted = self.fitted
        for where, m, phi in self.source.features(self.queries, kernels, max(1, FEATURES // width)):
            own = slice(form.offsets[m], form.offsets[m + 1])
            if fitted.constant is not None and fitted.constant[m]:
                yield where, m, own, None
            else:
                yield where, m, own, phi if fitted.cosine_scale is None else unit_rows(phi)

    def below(self, layers: TrainedLayers, weights: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield (some rows, inner products with the training rows, squared norms), below the layers of an output.

        Parameters
        ----------
        layers : TrainedLayers
        weights : array of shape (n_kernels,)
            Effective weights of the sum of kernels, unless single kernels have outputs.
        """
        first = layers.first
        if first is None:
            yield from self.summed(weights)
            return
        outputs = self.outputs(first)
        step = max(1, FEATURES // self.source.n_samples)
        for part in range(0, max(len(outputs), 1), step):
            where = slice(part, min(part + step, len(outputs)))
            yield where, *first.inner(outputs[where])

    def outputs(self, first: FirstLayer) -> Array:
        """Outputs of the first layer, (n_rows, n_kernels)."""
        out = np.zeros((self.source.query_length(self.queries), self.source.n_kernels))
        used = np.flatnonzero(first.coef.any(axis=0))
        products = Products(self.source, self.fitted, used, lambda m: first.coef[:, m : m + 1])
        for where, m, product in products.of(self.queries):
            out[where, m] = product[:, 0]
        return out

    def summed(self, weights: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield (some rows, sum of kernels with the training rows, its values k(x, x)), in chunks.

        Parameters
        ----------
        weights : array of shape (n_kernels,)
            Effective weights.
        """
        n_samples, active = self.source.n_samples, np.flatnonzero(weights)
        if not len(active):
            n_rows = self.source.query_length(self.queries)
            yield slice(0, n_rows), np.zeros((n_rows, n_samples)), np.zeros(n_rows)
            return
        raw = {int(m): self.source.query_diagonal(self.queries, int(m)) for m in active}
        current: tuple[slice, Array, Array] | None = None
        for where, m, K in self.source.cross(self.queries, active):
            if current is None or where != current[0]:
                if current is not None:
                    yield current
                rows = where.stop - where.start
                current = where, np.zeros((rows, n_samples)), np.zeros(rows)
            own = raw[m][where]
            current[1][...] += weights[m] * self.fitted.cross(m, K, partial(np.asarray, own))
            current[2][...] += weights[m] * self.fitted.cross_diagonal(m, K, own)
        if current is not None:
            yield current


@dataclass(frozen=True, eq=False)
class KnownRows(NewRows[Q]):
    """New rows that are asked about again and again: their normalised kernels are kept, those that were needed."""

    kept: dict[int, Array] = field(default_factory=dict)

    def parts(
        self, found: Expansions, products: Products[Q] | None = None
    ) -> Iterator[tuple[slice, int, Rows, Array]]:
        """See `NewRows.parts`."""
        if products is not None or found.features is not None or self.source.lacks(self.queries):
            yield from super().parts(found, products)
            return
        needed = np.array([m for m in map(int, found.active) if m not in self.kept], dtype=np.intp)
        if len(needed):
            n_rows = self.source.query_length(self.queries)
            found_now = {int(m): np.empty((n_rows, self.source.n_samples)) for m in needed}
            for where, m, K in self.source.cross(self.queries, needed):
                found_now[m][where] = self.fitted.cross(m, K, partial(self._own, m, where))
            self.kept.update(found_now)
        for m in map(int, found.active):
            used = np.flatnonzero(found.users[m])
            flat = self.kept[m] @ found.coefs_of(m)
            yield slice(0, len(flat)), m, used, flat.reshape(len(flat), len(used), -1).transpose(1, 0, 2)

    def _own(self, m: int, where: slice) -> Array:
        """k(x, x) of some of the rows, which a precomputed kernel may lack."""
        return self.source.query_diagonal(self.queries, m)[where]
