"""Explicit features of rows that are read in chunks, again in every pass."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NoReturn, Protocol

import numpy as np

from kernelweave._checks import InputError
from kernelweave._docstrings import InheritedTexts
from kernelweave._sparse import is_sparse
from kernelweave._types import Array, Index
from kernelweave.gram.features import FeatureStack

#: Numbers of rows, each apart, so that memory of one can be given back.
Vectors = Sequence[Array]


class ChunkWork(Protocol):
    """What is computed of a chunk: vectors with a number for each of its rows, and arrays to add up over chunks."""

    def __call__(self, Z: Any, beside: Vectors) -> tuple[Sequence[Array], tuple[Array, ...]]:
        """Results of a chunk.

        Parameters
        ----------
        Z : array or sparse matrix of shape (n_rows, n_features)
        beside : sequence of arrays of shape (n_rows,)
            Numbers of these rows.
        """


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Some rows, held.

    Attributes
    ----------
    Z : array or sparse matrix of shape (n_sampled, n_features)
    positions : array of int, shape (n_sampled,)
        Numbers of the rows, ascending.
    shares : array of shape (n_sampled,)
        For how many rows each stands.
    """

    Z: Any
    positions: Index
    shares: Array


class ChunkedFeatures(InheritedTexts, ABC):
    """Rows with explicit features in blocks, of which a chunk at a time is in memory.

    Attributes
    ----------
    n_samples, n_features, n_kernels : int
    groups : array of int, shape (n_kernels + 1,)
    square_sums : array of shape (n_features,)
        Squared norms of the columns.
    y, sample_weight : arrays of shape (n_samples,)
    sample : SampledRows
    n_given : int
        Rows in every pass.
    kept : array of int, shape (n_samples,), or None
        Numbers of those that take part; None for all.
    budget : float
        Bytes for numbers of rows.
    """

    n_samples: int
    groups: Index
    square_sums: Array
    y: Array
    sample_weight: Array
    sample: SampledRows
    budget: float
    n_given: int
    kept: Index | None = None
    #: Rounding errors of sums, which are taken in double precision.
    precision: float = float(np.finfo(np.float64).eps)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.groups[-1])

    @property
    def n_kernels(self) -> int:
        """Number of blocks."""
        return len(self.groups) - 1

    @cached_property
    def widths(self) -> Index:
        """Number of columns of each block."""
        return np.diff(self.groups)

    @abstractmethod
    def over_all(self, work: ChunkWork, beside: Vectors) -> tuple[list[Array], tuple[Array, ...]]:
        """The work on all rows, of `beside` the part of each chunk: a pass over the rows.

        Parameters
        ----------
        work : callable
            Called with the features of a chunk and the part of `beside` for its rows; returns numbers of each row, and
            sums.
        beside : sequence of arrays of shape (n_given,)
            Numbers of all rows, which the work reads beside the features.

        Returns
        -------
        vectors : list of arrays of shape (n_given,)
            The numbers of each row, of all chunks one after another.
        sums : tuple of arrays
            The sums over all chunks.
        """

    def over_rows(self, work: ChunkWork, beside: Vectors = ()) -> tuple[list[Array], tuple[Array, ...]]:
        """The work on the rows that are kept; vectors of length n_samples, and sums.

        Parameters
        ----------
        work : callable
            The work on a chunk, as for `over_all`; it sees only the rows that are kept.
        beside : sequence of arrays of shape (n_samples,)
            Numbers of the rows that are kept, which the work reads beside the features.
        """
        if self.kept is None:
            return self.over_all(work, beside)
        whole = []
        for values in (np.ones(self.n_samples), *beside):
            whole.append(np.zeros(self.n_given))
            whole[-1][self.kept] = values
        out, sums = self.over_all(partial(_masked, work), whole)
        return [values[self.kept] for values in out], sums

    def products(self, R: Array) -> Array:
        """``R Z``, shape (n_vectors, n_features): a pass.

        Parameters
        ----------
        R : array of shape (n_vectors, n_samples)
            Vectors, one in each row.
        """
        return self.over_rows(_products, list(R))[1][0]

    def combine(self, index: Index, coef: Array) -> Array:
        """``coef Z[:, index]'``, shape (n_vectors, n_samples): a pass.

        Parameters
        ----------
        index : array of int, shape (n_columns,)
            Positions of the columns.
        coef : array of shape (n_vectors, n_columns)
            Coefficients of these columns, a vector of them in each row.
        """
        whole = np.zeros((len(coef), self.n_features))
        whole[:, index] = coef
        return np.array(self.over_rows(partial(_combined, whole))[0])

    def restrict(self, rows: Index) -> ChunkedFeatures:
        """Some of the rows, in ascending order; chunks are still read whole.

        Parameters
        ----------
        rows : array of int
            Positions of the rows to keep, ascending.
        """
        if self.kept is not None:
            raise InputError("Rows of a part of chunked rows cannot be left out once more.")
        found = copy.copy(self)
        found.kept, found.n_samples = rows, len(rows)
        found.y, found.sample_weight = self.y[rows], self.sample_weight[rows]
        place = np.full(self.n_samples, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        inside = np.flatnonzero(place[self.sample.positions] >= 0)
        found.sample = SampledRows(
            self.sample.Z[inside], place[self.sample.positions[inside]], self.sample.shares[inside]
        )
        return found

    def gram(self, kernels: Index | None = None) -> NoReturn:
        """Raises `InputError`: kernel matrices of rows that are read in chunks are never formed.

        Parameters
        ----------
        kernels : array of int, optional
            Kernels that are asked for; all by default.
        """
        raise InputError(
            "Rows that are read in chunks are solved with method='auto' and weights on the simplex or in an elastic "
            f"net. Other methods and sets need the {self.n_samples:,} rows in memory: pass a FeatureStack."
        )

    def held(self) -> FeatureStack:
        """The sampled rows as a stack."""
        return FeatureStack(self.sample.Z, self.groups)


def _masked(work: ChunkWork, Z: Any, beside: Vectors) -> tuple[Sequence[Array], tuple[Array, ...]]:
    """A work on the rows of a chunk that are kept; zeros for others."""
    own = np.flatnonzero(beside[0])
    found, sums = work(Z[own], [values[own] for values in beside[1:]])
    out = np.zeros((len(found), Z.shape[0]))
    for row, values in zip(out, found, strict=True):
        row[own] = values
    return list(out), sums


def _products(Z: Any, beside: Vectors) -> tuple[Sequence[Array], tuple[Array, ...]]:
    """``R Z`` for the vectors beside the rows."""
    return [], (times(np.array(beside), Z),)


def _combined(coef: Array, Z: Any, beside: Vectors) -> tuple[Sequence[Array], tuple[Array, ...]]:
    """``coef Z'`` for coefficients (n_vectors, n_features), and nothing to add up."""
    return list(times_transposed(coef, Z)), ()


def times(R: Array, Z: Any) -> Array:
    """``R Z`` as an array."""
    if is_sparse(Z):
        return np.ascontiguousarray((Z.T @ R.T).T)
    return R @ Z


def times_transposed(W: Array, Z: Any) -> Array:
    """``W Z'`` as an array."""
    if is_sparse(Z):
        return np.ascontiguousarray((Z @ W.T).T)
    return W @ Z.T
