"""Several representations side by side, one for each part of a bank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._types import Array, Index
from kernelweave.gram.base import Gram
from kernelweave.gram.factors import FactorGram
from kernelweave.gram.packed import PackedGram


def _of_kernels(name: str) -> Any:
    """What the parts know of each of their kernels."""
    return cached_property(lambda self: self._of_parts(lambda part, _: getattr(part, name)))


class CompositeGram(Gram):
    """Kernels spread over several representations.

    Parameters
    ----------
    parts : sequence of Gram
        Representations over the same samples.
    kernels : sequence of int arrays
        ``kernels[p]`` are the positions of the kernels of ``parts[p]`` in this stack; together a permutation.
    """

    def __init__(self, parts: Sequence[Gram], kernels: Sequence[Index]) -> None:
        self.parts = list(parts)
        self.kernels = [np.asarray(members, dtype=np.int64) for members in kernels]
        self.n_samples = self.parts[0].n_samples
        self.n_kernels = sum(part.n_kernels for part in self.parts)
        self._part = np.repeat(np.arange(len(self.parts)), [len(members) for members in self.kernels])
        self._position = np.concatenate([np.arange(len(members)) for members in self.kernels])
        order = np.argsort(np.concatenate(self.kernels))
        self._part, self._position = self._part[order], self._position[order]

    def _split(self, kernels: Index) -> list[tuple[Gram, Index, Index]]:
        """Parts, positions inside each, and their positions in `kernels`."""
        places = [(part, np.flatnonzero(self._part[kernels] == p)) for p, part in enumerate(self.parts)]
        return [(part, self._position[kernels[here]], here) for part, here in places if len(here)]

    def _of_parts(self, function: Callable[[Gram, Any], NDArray[Any]], kernels: Index | None = None) -> Array:
        """Numbers of the chosen kernels, from those that a function gives of every part, and of some kernels of it."""
        if kernels is None:
            found = [(function(part, None), own) for part, own in zip(self.parts, self.kernels, strict=True)]
        else:
            found = [(function(part, inside), here) for part, inside, here in self._split(kernels)]
        if not found:
            # of no kernels the shape is that of the first ones
            return function(self.parts[0], np.zeros(0, dtype=np.int64))
        out = np.empty((sum(len(own) for own, _ in found), *found[0][0].shape[1:]), found[0][0].dtype)
        for own, here in found:
            out[here] = own
        return out

    def diagonal(self, kernels: Index | None = None) -> Array:
        return self._of_parts(lambda part, own: part.diagonal(own), kernels)

    def quadratic_forms(self, C: Array, kernels: Index | None = None) -> Array:
        return self._of_parts(lambda part, own: part.quadratic_forms(C, own), kernels)

    def matvecs(self, C: Array, kernels: Index | None = None) -> Array:
        return self._of_parts(lambda part, own: part.matvecs(C, own), kernels)

    def panel(self, rows: slice, kernels: Index | None = None) -> Array:
        return self._of_parts(lambda part, own: part.panel(rows, own), kernels)

    def inner(self, H: Array) -> Array:
        return self._of_parts(lambda part, _: part.inner(H))

    def trace(self, sample_weight: Array | None = None) -> Array:
        return self._of_parts(lambda part, _: part.trace(sample_weight))

    def add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        # triangles first: they fill an empty matrix without a temporary, and factors are added in place
        for p in sorted(range(len(self.parts)), key=lambda p: not isinstance(self.parts[p], PackedGram)):
            own = weights[self.kernels[p]]
            if own.any():
                self.parts[p].add_combination(own, out, empty=empty)
                empty = False
        if empty:
            out[:] = 0.0

    def square_norm(self, kernel: int, sample_weight: Array | None = None) -> float:
        return self.parts[self._part[kernel]].square_norm(int(self._position[kernel]), sample_weight)

    def scaled_factor(self, weights: Array) -> tuple[Array, Array] | None:
        rows = []
        for part, members in zip(self.parts, self.kernels, strict=True):
            own = weights[members]
            if own.any():
                block = part.factor(own)
                if block is None:
                    return None
                rows.append(block)
        whole = np.concatenate(rows) if rows else np.empty((0, self.n_samples))
        return whole, np.ones(len(whole))

    def take(self, kernels: Index) -> Gram:
        found = self._split(kernels)
        return concatenate([part.take(inside) for part, inside, _ in found], [here for *_, here in found])

    def restrict(self, rows: Index) -> CompositeGram:
        return CompositeGram([part.restrict(rows) for part in self.parts], self.kernels)

    def rescale(self, row_scale: Array, *, overwrite: bool = False) -> CompositeGram:
        both = zip(self.parts, self.kernels, strict=True)
        parts = [part.rescale(row_scale[own], overwrite=overwrite) for part, own in both]
        return CompositeGram(parts, self.kernels)

    def center(self, probability: Array, *, overwrite: bool = False) -> CompositeGram:
        parts = [part.center(probability, overwrite=overwrite) for part in self.parts]
        return CompositeGram(parts, self.kernels)

    ranks, residual_trace = _of_kernels("ranks"), _of_kernels("residual_trace")
    rounding_trace, norm_bound = _of_kernels("rounding_trace"), _of_kernels("norm_bound")

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def describe(self) -> str:
        return "; ".join(part.describe() for part in self.parts)


def concatenate(parts: Sequence[Gram], kernels: Sequence[Index] | None = None) -> Gram:
    """Put representations side by side; a single part in natural order is returned unchanged.

    Without `kernels` the parts follow each other. Factor parts are merged into one.
    """
    if kernels is None:
        stops = np.cumsum([part.n_kernels for part in parts])
        kernels = [np.arange(stop - part.n_kernels, stop) for part, stop in zip(parts, stops, strict=True)]
    factors = [p for p, part in enumerate(parts) if isinstance(part, FactorGram)]
    if len(factors) > 1:
        merged = [part for part in parts if isinstance(part, FactorGram)]
        joined = FactorGram(
            np.concatenate([part.rows for part in merged]),
            np.r_[0, np.cumsum(np.concatenate([part.ranks for part in merged]))],
            np.concatenate([part.residual_trace for part in merged]),
            np.concatenate([part.rounding_trace for part in merged]),
        )
        others = [p for p in range(len(parts)) if p not in factors]
        kernels = [np.concatenate([kernels[p] for p in factors]), *(kernels[p] for p in others)]
        parts = [joined, *(parts[p] for p in others)]
    if len(parts) == 1 and np.array_equal(kernels[0], np.arange(len(kernels[0]))):
        return parts[0]
    return CompositeGram(parts, kernels)
