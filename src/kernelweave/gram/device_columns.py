"""Columns of features that lie on another device, such as a GPU: passes over them are made there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelweave._checks import InputError
from kernelweave._devices import Kind, as_floating, is_foreign, on_host
from kernelweave.gram.base import Array, Index

#: Numbers that are converted at a time.
PIECE = 2**24


class DeviceColumns:
    """Products with columns of an array of any library with the array API, on its device, in and out as NumPy arrays.

    Parameters
    ----------
    Z : array of shape (n_samples, n_features)
        In float32 or float64. Products are taken in float64 where the device has it.
    """

    def __init__(self, Z: Any) -> None:
        self.Z = Z
        kind = Kind.of(Z)
        assert kind is not None
        self.kind, self.xp, self.device = kind, kind.xp, kind.device
        #: The distance from 1 to the next number in products.
        self.precision, self.wide = kind.precision, kind.dtype
        self.n_samples, self.n_features = map(int, Z.shape)

    def square_sums(self, weights: Array) -> Array:
        """``sum_i weights[i] Z[i, j]^2`` for every column j."""
        w = self._there(weights)
        # some libraries compute with NumPy, and warn; too large numbers are refused by their sums
        with np.errstate(over="ignore", invalid="ignore"):
            return np.concatenate([self._here(w @ (piece * piece)) for piece in self._parts()])

    def products(self, R: Array) -> Array:
        """``R Z``."""
        rows = self._there(R)
        return np.concatenate([self._here(rows @ piece) for piece in self._parts()], axis=1)

    def columns(self, index: Index) -> Array:
        """Some columns as rows, in float64."""
        return np.ascontiguousarray(self._here(self._chosen(self.Z, index)).T)

    def combine(self, index: Index, coef: Array) -> Array:
        """``coef Z[:, index]'``."""
        out = np.zeros((len(coef), self.n_samples))
        step = max(1, PIECE // self.n_samples)
        for first in range(0, len(index), step):
            piece = self._chosen(self.Z, index[first : first + step])
            own = self._there(coef[:, first : first + step])
            out += self._here(own @ self.xp.astype(piece, self.wide).T)
        return out

    def cross(self, left: Index, right: Index, root: Array | None, *, single: bool) -> Array:
        """``Z[:, left]' diag(root)^2 Z[:, right]``, products of some rows in float32 with `single`."""
        out = np.zeros((len(left), len(right)))
        step = max(1, PIECE // max(len(left), len(right)))
        for first in range(0, self.n_samples, step):
            rows = slice(first, min(first + step, self.n_samples))
            weights = None if root is None else root[rows]
            A = self._rows_of(left, rows, weights, single=single)
            B = A if left is right else self._rows_of(right, rows, weights, single=single)
            out += self._here(A.T @ B)
        return out

    def piece(self, index: Index, rows: slice, kind: type) -> Array:
        """Some columns, as rows, of some rows."""
        inside = slice(rows.start, min(rows.stop, self.n_samples))
        chosen = self._here(self._chosen(self.Z[inside, :], index))
        return np.array(chosen.T, dtype=kind, order="C")

    def rows(self, index: Index) -> Any:
        """Some rows, on the device."""
        return self.xp.take(self.Z, self._places(index), axis=0)

    # ---- between devices --------------------------------------------------------------------------

    def _there(self, values: Array) -> Any:
        return self.kind.give(values)

    def _here(self, values: Any) -> Array:
        return self.kind.take(values)

    def _places(self, index: Index) -> Any:
        return self.xp.asarray(np.asarray(index, dtype=np.int64), device=self.device)

    def _chosen(self, Z: Any, index: Index) -> Any:
        return self.xp.take(Z, self._places(index), axis=1)

    def _rows_of(self, index: Index, rows: slice, weights: Array | None, *, single: bool) -> Any:
        kind = self.xp.float32 if single else self.wide
        chosen = self.xp.astype(self._chosen(self.Z[rows, :], index), kind)
        if weights is None:
            return chosen
        return chosen * self.xp.astype(self._there(weights), kind)[:, None]

    def _parts(self) -> Iterator[Any]:
        step = max(1, PIECE // self.n_samples)
        for first in range(0, self.n_features, step):
            part = slice(first, min(first + step, self.n_features))
            yield self.xp.astype(self.Z[:, part], self.wide)


def as_device_columns(Z: Any) -> DeviceColumns | None:
    """The columns of an array that lies on another device, checked; None for arrays that NumPy can read."""
    if not is_foreign(Z) or on_host(Z):
        return None
    if len(Z.shape) != 2 or 0 in tuple(Z.shape):
        raise InputError(
            f"`Z` must have shape (n_samples, n_features) with at least one of each, got {tuple(Z.shape)}."
        )
    return DeviceColumns(as_floating(Z, "Z"))
