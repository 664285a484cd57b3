"""Explicit features in blocks: kernels ``K_m = Z_m Z_m'`` whose matrices are never formed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import blas

from kernelweave._checks import LARGEST_NUMBER, InputError, as_floats
from kernelweave._devices import Kind, hosted, moved
from kernelweave._loops import core
from kernelweave._parameters import ReadableSignature, shown
from kernelweave._sparse import is_sparse
from kernelweave._types import Device, Values
from kernelweave.gram.base import Array, Index
from kernelweave.gram.device_columns import as_device_columns
from kernelweave.gram.factors import FactorGram

#: Numbers that are converted or gathered at a time.
PIECE = 2**20
#: Rows whose products are taken together, where memory allows.
ROWS_AT_A_TIME = 1024


class FeatureStack:
    """Features in blocks, one kernel for each block: ``K_m = Z_m Z_m'``.

    Taken wherever a stack of Gram matrices is. `solve_rls2`, `rls2_path` and `solve_svm_mkl` work on the features
    themselves, with no matrix of n_samples x n_samples, so that rows and kernels may be many; other solvers hold the
    blocks as factors.

    Parameters
    ----------
    Z : array or sparse matrix of shape (n_samples, n_features)
        In any order of memory, float32 or float64, also memory-mapped; other numbers are converted. Held, not copied.
        Also an array of a library with the array API, or a torch tensor: on another device, such as a GPU, it stays
        there.
    groups : array of int, shape (n_kernels + 1,), optional
        The starts of the blocks and the end: kernel m has the columns ``groups[m]:groups[m + 1]``. Default: every
        column is a block.
    device : str or device, optional
        Where to hold the features: a device of torch, such as "cuda", or of another library with the array API.
        Default: where they are.

    Attributes
    ----------
    n_samples, n_features, n_kernels : int
    groups : array of int, shape (n_kernels + 1,)
    precision : float
        Distance from 1 to the next number in sums: that of float64, or of float32 on a device without float64.

    Raises
    ------
    InputError
        No numbers, NaN or infinity, another number of dimensions, groups that do not rise from 0 to n_features, a
        device that cannot be used.

    Notes
    -----
    Products are taken in float64, whatever Z holds: float32 saves memory, not digits. RLS2 has no
    intercept: centre the columns of Z and the targets where one is wanted.

    For features on another device the passes over all columns are made there. Working blocks and their descent, which
    is compiled for the processor, are here. Weights and coefficients of results are arrays of the library and on the
    device of Z as it was given. A device without float64 sums in float32: the certificate has its rounding errors, and
    results are in main memory.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> Z = np.random.default_rng(0).normal(size=(50, 12))
    >>> stack = kw.FeatureStack(Z, [0, 4, 8, 12])
    >>> result = kw.solve_rls2(stack, Z[:, 0] - Z[:, 9], alpha=1.0)
    >>> result.weights[1] < 0.05, result.feature_coef.shape
    (np.True_, (12,))
    """

    __signature__ = ReadableSignature()

    def __init__(self, Z: Values, groups: ArrayLike | None = None, *, device: Device = None) -> None:
        self.kind = Kind.of(Z)
        if device is not None:
            if is_sparse(Z):
                raise InputError("`device` must be None for a sparse Z, which stays on the processor.")
            Z = moved(Z, device, "Z")
        self._there = as_device_columns(Z)
        self.Z = _as_features(Z) if self._there is None else self._there.Z
        self.n_samples, self.n_features = map(int, self.Z.shape)
        self.groups = as_groups(groups, self.n_features)
        self.n_kernels = len(self.groups) - 1
        largest = float(self.square_sums.max())
        if not np.isfinite(largest):
            _refuse(self.Z)
        if largest > LARGEST_NUMBER**2:
            raise InputError(
                f"Columns of `Z` must not have norms above {LARGEST_NUMBER:g}, got {np.sqrt(largest):.3g}. Divide by a "
                "constant first."
            )

    def __repr__(self) -> str:
        kind = "sparse" if is_sparse(self.Z) else getattr(self.Z.dtype, "name", str(self.Z.dtype))
        if self._there is not None:
            kind += f" on {self._there.device}"
        return f"FeatureStack({self.n_samples} samples, {self.n_features} features in {self.n_kernels} blocks, {kind})"

    @property
    def precision(self) -> float:
        """Distance from 1 to the next number in sums."""
        return float(np.finfo(np.float64).eps) if self._there is None else self._there.precision

    @cached_property
    def widths(self) -> Index:
        """Number of columns of each block."""
        return np.diff(self.groups)

    @cached_property
    def square_sums(self) -> Array:
        """Squared norms of the columns, shape (n_features,)."""
        return self.weighted_square_sums(None)

    def weighted_square_sums(self, weights: Array | None) -> Array:
        """``sum_i weights[i] Z[i, j]^2`` for every column j."""
        ones = np.ones(self.n_samples) if weights is None else weights
        if self._there is not None:
            return self._there.square_sums(ones)
        if is_sparse(self.Z):
            return np.asarray(self.Z.multiply(self.Z).T @ ones).reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            if self._by_columns:
                out = np.empty(self.n_features)
                for part in self._column_parts():
                    piece = np.asarray(self.Z[:, part].T, dtype=np.float64)
                    if weights is None:
                        np.einsum("ij,ij->i", piece, piece, out=out[part])
                    else:
                        out[part] = np.square(piece) @ ones
                return out
            out = np.zeros(self.n_features)
            for rows in self._row_parts():
                out += ones[rows] @ np.square(np.asarray(self.Z[rows], dtype=np.float64))
            return out

    def products(self, R: Array) -> Array:
        """``R Z``, shape (n_vectors, n_features), for vectors as rows of R (n_vectors, n_samples)."""
        if self._there is not None:
            return self._there.products(R)
        if is_sparse(self.Z):
            return np.ascontiguousarray((self.Z.T @ R.T).T)
        if self.Z.flags.f_contiguous:
            out = np.empty((len(R), self.n_features))
            core.column_products(self.Z.T, np.ascontiguousarray(R), out)
            return out
        if self.Z.dtype == np.float64 and self.Z.flags.c_contiguous:
            return R @ self.Z
        if self._by_columns:
            parts = [R @ np.asarray(self.Z[:, part], dtype=np.float64) for part in self._column_parts()]
            return np.concatenate(parts, axis=1)
        out = np.zeros((len(R), self.n_features))
        for rows in self._row_parts():
            out += R[:, rows] @ np.asarray(self.Z[rows], dtype=np.float64)
        return out

    def columns(self, index: Index) -> Array:
        """Some columns as rows, shape (len(index), n_samples), float64 and the caller's to change."""
        if self._there is not None:
            return self._there.columns(index)
        if is_sparse(self.Z):
            return np.ascontiguousarray(self.Z[:, index].toarray().T, dtype=np.float64)
        out = np.empty((len(index), self.n_samples))
        if self._by_columns:
            np.take(self.Z.T, index, axis=0, out=out) if self.Z.dtype == np.float64 else out.__setitem__(
                slice(None), self.Z.T[index]
            )
        else:
            for rows in self._row_parts(len(index)):
                out[:, rows] = self.Z[rows][:, index].T
        return out

    def combine(self, index: Index, coef: Array) -> Array:
        """``coef Z[:, index]'``, shape (n_vectors, n_samples), for coefficients (n_vectors, len(index))."""
        if self._there is not None:
            return self._there.combine(index, coef)
        if is_sparse(self.Z):
            return np.ascontiguousarray((self.Z[:, index] @ coef.T).T)
        out = np.zeros((len(coef), self.n_samples))
        if self.Z.flags.f_contiguous:
            core.column_sums(self.Z.T, index, np.ascontiguousarray(coef), out)
            return out
        if self._by_columns:
            step = max(1, PIECE // max(1, self.n_samples))
            for first in range(0, len(index), step):
                part = index[first : first + step]
                out += coef[:, first : first + step] @ self.columns(part)
            return out
        for rows in self._row_parts(len(index)):
            out[:, rows] = coef @ np.asarray(self.Z[rows][:, index], dtype=np.float64).T
        return out

    def cross(self, left: Index, right: Index, root: Array | None = None, *, single: bool = False) -> Array:
        """``Z[:, left]' diag(root)^2 Z[:, right]``; with `single`, products of some rows at a time in float32."""
        if self._there is not None:
            return self._there.cross(left, right, root, single=single)
        if is_sparse(self.Z):
            A = self.Z[:, left] if root is None else self.Z[:, left].multiply(np.square(root)[:, None])
            return np.asarray((A.T @ self.Z[:, right]).todense(), dtype=np.float64)
        kind = np.float32 if single else np.float64
        same = left is right
        out = np.zeros((len(left), len(right)), order="F" if same else "C")
        widest = max(len(left), len(right))
        # adding the products of a few rows costs as much as taking them
        step = max(1, 4 * PIECE // widest, min(ROWS_AT_A_TIME, 16 * PIECE // widest))
        for first in range(0, self.n_samples, step):
            part = slice(first, min(first + step, self.n_samples))
            A = self.piece(left, part, kind)
            if root is not None:
                A *= root[part].astype(kind)
            if not same:
                B = self.piece(right, part, kind)
                if root is not None:
                    B *= root[part].astype(kind)
                out += A @ B.T
            elif single:
                out += blas.ssyrk(1.0, A.T, trans=1, lower=1)
            else:
                blas.dsyrk(1.0, A.T, trans=1, lower=1, beta=1.0, c=out, overwrite_c=1)
        if same:
            upper = np.triu(out.T)
            return upper + np.triu(upper, 1).T
        return out

    def piece(self, index: Index, rows: slice, kind: type = np.float64) -> Array:
        """Some columns, as rows, of some rows."""
        if self._there is not None:
            return self._there.piece(index, rows, kind)
        if self._by_columns:
            return np.ascontiguousarray(self.Z.T[index, rows], dtype=kind)
        return np.ascontiguousarray(self.Z[rows][:, index].T, dtype=kind)

    def restrict(self, rows: Index) -> FeatureStack:
        """The stack on some of its samples (a copy), in the order of `rows`."""
        out = FeatureStack(self.Z[rows] if self._there is None else self._there.rows(rows), self.groups)
        out.kind = self.kind
        return out

    def owned(self, kernels: Index) -> Index:
        """Numbers of the columns of some kernels, in their order."""
        widths = self.widths[kernels]
        first = np.repeat(self.groups[kernels] - np.r_[0, np.cumsum(widths)[:-1]], widths)
        return first + np.arange(widths.sum())

    def gram(self, kernels: Index | None = None) -> FactorGram:
        """The kernels, or some of them, as factors: a copy in float64."""
        index = np.arange(self.n_kernels) if kernels is None else kernels
        return FactorGram(self.columns(self.owned(index)), np.r_[0, np.cumsum(self.widths[index])])

    # ---- pieces -----------------------------------------------------------------------------------

    @property
    def _by_columns(self) -> bool:
        """Whether columns lie together in memory."""
        return bool(self.Z.strides[0] <= self.Z.strides[1])

    def _column_parts(self) -> Iterator[slice]:
        step = max(1, PIECE // self.n_samples)
        for first in range(0, self.n_features, step):
            yield slice(first, min(first + step, self.n_features))

    def _row_parts(self, width: int | None = None) -> Iterator[slice]:
        step = max(1, PIECE // max(1, self.n_features if width is None else width))
        for first in range(0, self.n_samples, step):
            yield slice(first, min(first + step, self.n_samples))


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


def _as_features(Z: Any) -> Any:
    """Features as a float array or compressed columns."""
    if is_sparse(Z):
        from scipy import sparse

        if len(Z.shape) != 2 or 0 in Z.shape:
            raise InputError(
                f"`Z` must have shape (n_samples, n_features) with at least one of each, got {tuple(Z.shape)}."
            )
        if Z.dtype.kind not in "fiub":
            raise InputError(f"`Z` must hold real numbers, got the type {Z.dtype}. Convert it.")
        return sparse.csc_array(Z, dtype=np.float64)
    Z = hosted(Z)
    array = Z if isinstance(Z, np.ndarray) and Z.dtype in (np.float32, np.float64) else as_floats(Z, "Z")
    if array.ndim != 2 or array.size == 0:
        hint = " Pass Z.reshape(-1, 1) for one feature." if array.ndim == 1 and array.size else ""
        raise InputError(
            f"`Z` must have shape (n_samples, n_features) with at least one of each, got {array.shape}.{hint}"
        )
    return array


def as_groups(groups: ArrayLike | None, n_features: int) -> Index:
    """The starts of blocks and the end, checked; every column is a block for None."""
    if groups is None:
        return np.arange(n_features + 1, dtype=np.int64)
    values = as_floats(groups, "groups")
    if values.ndim != 1 or len(values) < 2 or not (values == np.floor(values)).all():
        raise InputError(
            "`groups` must be a list of at least two whole numbers, the starts of the blocks and the end, got "
            f"{shown(groups)}."
        )
    index = values.astype(np.int64)
    if index[0] != 0 or index[-1] != n_features or (np.diff(index) <= 0).any():
        raise InputError(
            f"`groups` must rise from 0 to the number of columns, {n_features}, and each block must have a column, got "
            f"{shown(index.tolist())}. Kernel m has the columns groups[m]:groups[m + 1]."
        )
    return index


def _refuse(Z: Any) -> None:
    values = Z.data if is_sparse(Z) else hosted(Z)
    n_nan, n_inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    if n_nan or n_inf:
        raise InputError(
            f"`Z` must be finite, got {n_nan} NaN and {n_inf} infinity among {values.size} entries. Impute or drop "
            "them first."
        )
    raise InputError("The squares of `Z` must be finite, and overflow. Divide by a constant first.")
