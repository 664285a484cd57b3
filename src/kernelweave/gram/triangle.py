"""Symmetric matrices in blocks: about half the memory of a square, added to in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from scipy.linalg import blas

from kernelweave._types import Array

#: Columns of a block. Matrices of no more columns are one block.
WIDTH = 2048


class Triangle:
    """A symmetric matrix of which blocks of columns are held from the diagonal on.

    Parameters
    ----------
    size : int
        Rows and columns; all entries are zero.
    width : int, optional
        Columns of a block. Default: `WIDTH`.

    Attributes
    ----------
    tops, tails : lists of arrays
        For each block of columns the square on the diagonal, of which the lower triangle counts, and what is below.
    source : array or InFile, or None
        The rows of the lower triangle, one after another, which the blocks are read from each time while this is not
        None. They are held from the first change on.
    """

    def __init__(self, size: int, width: int | None = None) -> None:
        self.size, self.width = size, width or WIDTH
        self.source: Any = None
        self.tops, self.tails = [], []
        for own in self._blocks():
            count = own.stop - own.start
            self.tops.append(np.zeros((count, count), order="F"))
            self.tails.append(np.zeros((size - own.stop, count), order="F"))

    def _blocks(self) -> Iterator[slice]:
        for first in range(0, self.size, self.width):
            yield slice(first, min(first + self.width, self.size))

    def _parts(self) -> Iterator[tuple[slice, Array, Array]]:
        """The blocks, not to be changed; of a file one at a time."""
        for k, own in enumerate(self._blocks()):
            yield (own, self.tops[k], self.tails[k]) if self.source is None else (own, *self._read(own))

    def _read(self, own: slice) -> tuple[Array, Array]:
        """A block of the source."""
        count, start = own.stop - own.start, own.start * (own.start + 1) // 2
        top = np.zeros((count, count), order="F")
        below = np.empty((self.size - own.stop, count), order="F")
        rows = self.source[start:]
        for row in range(own.start, self.size):
            place = row * (row + 1) // 2 + own.start - start
            if row < own.stop:
                top[row - own.start, : row - own.start + 1] = rows[place : place + row - own.start + 1]
            else:
                below[row - own.stop] = rows[place : place + count]
        return top, below

    def hold(self) -> None:
        """Read the blocks of the source, and hold them."""
        if self.source is not None:
            parts = [(top, below) for _, top, below in self._parts()]
            self.tops, self.tails = [top for top, _ in parts], [below for _, below in parts]
            self.source = None

    def _writable(self) -> Iterator[tuple[slice, Array, Array]]:
        """The blocks, to be changed in place; a copy of those that came from the memory of another process."""
        self.hold()
        for k, own in enumerate(self._blocks()):
            for parts in (self.tops, self.tails):
                if not parts[k].flags.writeable:
                    parts[k] = parts[k].copy(order="F")
            yield own, self.tops[k], self.tails[k]

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return sum(part.nbytes for part in (*self.tops, *self.tails))

    def add_products(self, B: Array) -> None:
        """Add ``B'B`` for rows B, C-contiguous."""
        for own, top, below in self._writable():
            columns = B[:, own].T
            blas.dsyrk(1.0, columns, beta=1.0, c=top, lower=1, overwrite_c=1)
            if len(below):
                blas.dgemm(1.0, B[:, own.stop :].T, columns, trans_b=1, beta=1.0, c=below, overwrite_c=1)

    def add_outer(self, share: float, v: Array) -> None:
        """Add ``share v v'``."""
        for own, top, below in self._writable():
            blas.dsyr(share, v[own], a=top, lower=1, overwrite_a=1)
            if len(below):
                blas.dger(share, v[own.stop :], v[own], a=below, overwrite_a=1)

    def add_square(self, S: Array) -> None:
        """Add a matrix of which the lower triangle counts."""
        for own, top, below in self._writable():
            top += np.tril(S[own, own])
            below += S[own.stop :, own]

    def add(self, other: Triangle) -> None:
        """Add another one."""
        self._change(np.add, other)

    def subtract(self, other: Triangle) -> None:
        """Subtract another one."""
        self._change(np.subtract, other)

    def _change(self, operator: np.ufunc, other: Triangle) -> None:
        assert (self.size, self.width) == (other.size, other.width)
        for (_, *own), (_, *theirs) in zip(self._writable(), other._parts(), strict=True):
            for block, more in zip(own, theirs, strict=True):
                operator(block, more, out=block)

    def copy(self) -> Self:
        """Another one with the same numbers."""
        out = type(self).__new__(type(self))
        out.size, out.width, out.source = self.size, self.width, self.source
        out.tops = [part.copy(order="F") for part in self.tops]
        out.tails = [part.copy(order="F") for part in self.tails]
        return out

    def diagonal(self) -> Array:
        """The diagonal, shape (size,)."""
        if self.source is not None:
            rows = np.arange(self.size)
            return np.array(self.source[:][rows * (rows + 3) // 2])
        return np.concatenate([np.diag(top) for top in self.tops]) if self.tops else np.empty(0)

    def raise_diagonal(self, least: float) -> None:
        """Set smaller entries of the diagonal to a number."""
        for _, top, _ in self._writable():
            np.fill_diagonal(top, np.maximum(np.diag(top), least))

    def upper(self) -> Array:
        """The upper triangle as a matrix (size, size), in the order of Fortran; zeros below the diagonal."""
        out = np.zeros((self.size, self.size), order="F")
        for own, top, below in self._parts():
            out[own, own] = np.tril(top).T
            out[own, own.stop :] = below.T
        return out

    def square(self) -> Array:
        """The whole matrix (size, size)."""
        out = self.upper()
        for own, top, below in self._parts():
            out[own, own] += np.tril(top, -1)
            out[own.stop :, own] = below
        return out

    def times(self, V: Array) -> Array:
        """Products with some vectors (size, n_vectors)."""
        out = np.zeros(V.shape)
        for own, top, below in self._parts():
            out[own] += np.tril(top) @ V[own] + np.tril(top, -1).T @ V[own] + below.T @ V[own.stop :]
            out[own.stop :] += below @ V[own]
        return out

    def packed(self) -> Array:
        """The rows of the lower triangle, one after another."""
        if self.source is not None:
            return np.array(self.source[:])
        out = np.empty(self.size * (self.size + 1) // 2)
        for own, top, below in self._parts():
            for row in range(own.start, self.size):
                first = row - own.start
                part = top[first, : first + 1] if row < own.stop else below[row - own.stop]
                place = row * (row + 1) // 2 + own.start
                out[place : place + len(part)] = part
        return out

    @classmethod
    def of_packed(cls, packed: Any, size: int) -> Self:
        """The reverse of `packed`, which is read where it is until `hold` or the first change."""
        out = cls(0)
        out.size, out.source = size, packed
        return out
