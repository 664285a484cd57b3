"""Rows with kernels on them, behind one interface.

A *source* is the layer between the estimators and the Gram matrices. It gives the training stack, the values between
new rows and the training rows kernel by kernel, and the same for a subset of the training rows (for folds).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._sparse import row_ranks
from kernelweave._types import Values
from kernelweave.gram import Gram

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: New rows, in the format of a source: a table, indices of samples, rows of kernel values.
Q = TypeVar("Q")


class Source(ABC, Generic[Q]):
    """Rows and kernels behind one interface. `queries` are new rows in the format of this source."""

    names: tuple[str, ...]
    n_samples: int

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return len(self.names)

    @abstractmethod
    def gram(self) -> Gram:
        """The raw training stack in its automatic representation."""

    @abstractmethod
    def take(self, rows: Rows) -> Source[Q]:
        """A source whose training rows are a subset of these."""

    @abstractmethod
    def queries(self, rows: Rows) -> Q:
        """Some of the training rows, as queries to another source made by `take`."""

    @abstractmethod
    def query_length(self, queries: Q) -> int:
        """Number of query rows."""

    @abstractmethod
    def cross(self, queries: Q, kernels: Rows) -> Iterator[tuple[slice, int, Array]]:
        """Yield (query rows, m, values k_m(queries, training) of shape (rows, n_samples)), in chunks."""

    @abstractmethod
    def query_diagonal(self, queries: Q, m: int) -> Array:
        """``k_m(x, x)`` of the queries, shape (n_queries,)."""

    @abstractmethod
    def distinguish(self) -> Values:
        """Numbers (n_samples, n_columns), possibly sparse, that are equal only for equal rows."""

    def content(self) -> Rows:
        """Position of each row among the distinct ones, shared by equal rows, independent of order and repetitions."""
        return row_ranks(self.distinguish())

    def feature_maps(self, m: int, queries: Q) -> tuple[Array, Array] | None:
        """Features of the queries and of the training rows, ``k_m(q, x) = <phi(q), phi(x)>``, if they are few."""
        return None

    def features(self, queries: Q, kernels: Rows, n_rows: int) -> Iterator[tuple[slice, int, Values]]:
        """Yield (query rows, m, features of kernel m of these), `n_rows` at a time; of kernels that have some."""
        yield from ()

    def extra_diagonal(self, extra: Q) -> Array:
        """``k_m(x, x)`` of further inputs, shape (n_kernels, n_extra)."""
        return np.stack([self.query_diagonal(extra, m) for m in range(self.n_kernels)])
