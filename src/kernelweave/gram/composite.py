"""Several representations side by side, one for each part of a bank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave.gram.base import Array, Gram, Index, as_index
from kernelweave.gram.factors import FactorGram
from kernelweave.gram.packed import PackedGram


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
        self.kernels = [np.asarray(k, dtype=np.int64) for k in kernels]
        self.n_samples = self.parts[0].n_samples
        self.n_kernels = sum(part.n_kernels for part in self.parts)
        if any(part.n_samples != self.n_samples for part in self.parts):
            raise InputError(
                f"Parts must be over the same samples, got {[part.n_samples for part in self.parts]} of them."
            )
        places = np.sort(np.concatenate(self.kernels))
        if [part.n_kernels for part in self.parts] != [len(k) for k in self.kernels] or not np.array_equal(
            places, np.arange(self.n_kernels)
        ):
            raise InputError(
                f"`kernels` must give every kernel of every part one position from 0 to {self.n_kernels - 1}, got "
                f"{[len(k) for k in self.kernels]} positions for parts of {[part.n_kernels for part in self.parts]}."
            )
        self._part = np.empty(self.n_kernels, dtype=np.int64)
        self._position = np.empty(self.n_kernels, dtype=np.int64)
        for p, members in enumerate(self.kernels):
            self._part[members] = p
            self._position[members] = np.arange(len(members))

    def _split(self, idx: Index) -> Iterator[tuple[Gram, Index, Index]]:
        """Yield (part, positions inside the part, their positions in `idx`)."""
        owner = self._part[idx]
        for p, part in enumerate(self.parts):
            here = np.flatnonzero(owner == p)
            if len(here):
                yield part, self._position[idx[here]], here

    def _of_parts(self, function: Callable[[Gram], NDArray[Any]]) -> Array:
        """Numbers of all kernels from those of every part."""
        out: Array | None = None
        for part, members in zip(self.parts, self.kernels, strict=True):
            own = function(part)
            out = np.empty((self.n_kernels, *own.shape[1:])) if out is None else out
            out[members] = own
        assert out is not None
        return out

    def diagonal(self) -> Array:
        return self._of_parts(lambda part: part.diagonal())

    def _diagonal_of(self, kernels: Index) -> Array:
        out = np.empty((len(kernels), self.n_samples))
        for part, inside, here in self._split(kernels):
            out[here] = part._diagonal_of(inside)
        return out

    def _trace(self, sample_weight: Array | None) -> Array:
        return self._of_parts(lambda part: part._trace(sample_weight))

    def _quadratic_forms(self, C: Array, kernels: Index | None) -> Array:
        if kernels is None:
            return self._of_parts(lambda part: part._quadratic_forms(C, None))
        out = np.empty(len(kernels))
        for part, inside, here in self._split(kernels):
            out[here] = part._quadratic_forms(C, inside)
        return out

    def _matvecs(self, C: Array, kernels: Index | None) -> Array:
        if kernels is None:
            return self._of_parts(lambda part: part._matvecs(C, None))
        out = np.empty((len(kernels), *C.shape))
        for part, inside, here in self._split(kernels):
            out[here] = part._matvecs(C, inside)
        return out

    def _inner(self, H: Array) -> Array:
        return self._of_parts(lambda part: part._inner(H))

    def _add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        # triangles first: they fill an empty matrix without a temporary, and factors are added in place
        for p in sorted(range(len(self.parts)), key=lambda p: not isinstance(self.parts[p], PackedGram)):
            own = weights[self.kernels[p]]
            if own.any():
                self.parts[p]._add_combination(own, out, empty=empty)
                empty = False
        if empty:
            out[:] = 0.0

    def _panel(self, rows: slice, kernels: Index | None) -> Array:
        idx = as_index(kernels, self.n_kernels)
        out = np.empty((len(idx), rows.stop - rows.start, self.n_samples - rows.start))
        for part, inside, here in self._split(idx):
            out[here] = part._panel(rows, inside)
        return out

    def _square_norm(self, kernel: int, sample_weight: Array | None) -> float | None:
        return self.parts[self._part[kernel]].square_norm(int(self._position[kernel]), sample_weight)

    @property
    def ranks(self) -> Index:
        return np.asarray(self._of_parts(lambda part: part.ranks), dtype=np.int64)

    def _factor(self, weights: Array) -> Array | None:
        rows = []
        for part, members in zip(self.parts, self.kernels, strict=True):
            own = weights[members]
            if own.any():
                block = part._factor(own)
                if block is None:
                    return None
                rows.append(block)
        return np.concatenate(rows) if rows else np.empty((0, self.n_samples))

    def _take(self, kernels: Index) -> Gram:
        parts, places = [], []
        for part, inside, here in self._split(kernels):
            parts.append(part._take(inside))
            places.append(here)
        return concatenate(parts, places)

    def _restrict(self, rows: Index) -> CompositeGram:
        return CompositeGram([part._restrict(rows) for part in self.parts], self.kernels)

    def _rescale(self, row_scale: Array, overwrite: bool) -> CompositeGram:
        parts = [p._rescale(row_scale[k], overwrite) for p, k in zip(self.parts, self.kernels, strict=True)]
        return CompositeGram(parts, self.kernels)

    def _center(self, probability: Array, overwrite: bool) -> CompositeGram:
        return CompositeGram([part._center(probability, overwrite) for part in self.parts], self.kernels)

    @cached_property
    def residual_trace(self) -> Array:
        return self._of_parts(lambda part: part.residual_trace)

    @cached_property
    def rounding_trace(self) -> Array:
        return self._of_parts(lambda part: part.rounding_trace)

    @cached_property
    def norm_bound(self) -> Array:
        return self._of_parts(lambda part: part.norm_bound)

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
    if len(parts) == 1:
        order = np.asarray(kernels[0])
        if np.array_equal(order, np.arange(len(order))):
            return parts[0]
    return CompositeGram(parts, kernels)
