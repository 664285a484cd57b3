"""Explicit features in blocks: kernels ``K_m = Z_m Z_m'`` whose matrices are never formed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas

from kernelweave._checks import LARGEST_NUMBER, InputError, as_floats
from kernelweave._devices import Kind, as_floating, hosted, is_foreign, moved, on_host, take_rows
from kernelweave._loops import core
from kernelweave._parameters import ReadableSignature, shown
from kernelweave._sparse import is_sparse
from kernelweave._types import Array, Device, Index, Values
from kernelweave.gram.base import pieces
from kernelweave.gram.factors import FactorGram, members
from kernelweave.gram.row_checks import check_entries

#: Numbers that are converted or gathered at a time, here and on another device.
PIECE, PIECE_THERE = 2**20, 2**24
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
        self.Z = _as_features(Z)
        #: The device where passes are made; None for features that NumPy reads.
        self._there = Kind.of(self.Z)
        self.n_samples, self.n_features = map(int, self.Z.shape)
        self.groups = as_groups(groups, self.n_features)
        self.n_kernels = len(self.groups) - 1
        largest = float(self.square_sums.max())
        if not np.isfinite(largest):
            check_entries(self.Z.data if is_sparse(self.Z) else hosted(self.Z))
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
        if not is_sparse(self.Z) and self._in_columns and self.Z.dtype == np.float64:
            # without the squares in between, of which too large ones are refused by their sums
            with np.errstate(over="ignore", invalid="ignore"):
                return np.einsum("ij,ij->j", self.Z, self.Z)
        return self.weighted_square_sums(np.ones(self.n_samples))

    def weighted_square_sums(self, weights: Array) -> Array:
        """``sum_i weights[i] Z[i, j]^2`` for every column j.

        Parameters
        ----------
        weights : array of shape (n_samples,)
            Weights of the rows.

        Returns
        -------
        array of shape (n_features,)
        """
        if is_sparse(self.Z):
            return np.asarray(self.Z.multiply(self.Z).T @ weights).reshape(-1)
        out, weights = np.zeros(self.n_features), self._give(weights)
        # too large numbers are refused by their sums
        with np.errstate(over="ignore", invalid="ignore"):
            for rows, columns in self._parts():
                piece = self._part(rows, columns)
                out[columns] += self._take(weights[rows] @ (piece * piece))
        return out

    def products(self, R: Array) -> Array:
        """``R Z``, shape (n_vectors, n_features).

        Parameters
        ----------
        R : array of shape (n_vectors, n_samples)
            Vectors, one in each row.
        """
        if is_sparse(self.Z):
            return np.ascontiguousarray((self.Z.T @ R.T).T)
        out = np.zeros((len(R), self.n_features))
        if self._in_columns:
            core.column_products(self.Z.T, np.ascontiguousarray(R), out)
            return out
        R = self._give(R)
        for rows, columns in self._parts():
            out[:, columns] += self._take(R[:, rows] @ self._part(rows, columns))
        return out

    def columns(self, index: Index) -> Array:
        """Some columns as rows, shape (len(index), n_samples), float64 and the caller's to change.

        Parameters
        ----------
        index : array of int
            Positions of the columns.
        """
        if is_sparse(self.Z):
            return np.ascontiguousarray(self.Z[:, index].toarray().T, dtype=np.float64)
        if self._there is None and self._by_columns:
            return np.asarray(self.Z.T[index], dtype=np.float64)
        out = np.empty((len(index), self.n_samples))
        for rows, columns in self._parts(len(index)):
            out[columns, rows] = self._take(self._part(rows, index[columns])).T
        return out

    def combine(self, index: Index, coef: Array) -> Array:
        """``coef Z[:, index]'``, shape (n_vectors, n_samples).

        Parameters
        ----------
        index : array of int, shape (n_columns,)
            Positions of the columns.
        coef : array of shape (n_vectors, n_columns)
            Coefficients of these columns, a vector of them in each row.
        """
        if is_sparse(self.Z):
            return np.ascontiguousarray((self.Z[:, index] @ coef.T).T)
        out = np.zeros((len(coef), self.n_samples))
        if self._in_columns:
            core.column_sums(self.Z.T, index, np.ascontiguousarray(coef), out)
            return out
        coef = self._give(coef)
        for rows, columns in self._parts(len(index)):
            out[:, rows] += self._take(coef[:, columns] @ self._part(rows, index[columns]).T)
        return out

    def cross(self, left: Index, right: Index, root: Array | None = None, *, single: bool = False) -> Array:
        """``Z[:, left]' diag(root)^2 Z[:, right]``.

        Parameters
        ----------
        left, right : array of int
            Positions of the columns on both sides.
        root : array of shape (n_samples,), optional
            Square roots of the weights of the rows; 1 by default.
        single : bool, default=False
            Whether the products of a few rows at a time are taken in float32, and summed in float64.

        Returns
        -------
        array of shape (len(left), len(right))
        """
        if is_sparse(self.Z):
            A = self.Z[:, left] if root is None else self.Z[:, left].multiply(np.square(root)[:, None])
            return np.asarray((A.T @ self.Z[:, right]).todense(), dtype=np.float64)
        same, host = left is right, self._there is None
        out = np.zeros((len(left), len(right)), order="F" if same and host else "C")
        widest = max(len(left), len(right))
        # adding the products of a few rows costs as much as taking them
        step = max(4 * PIECE // widest, min(ROWS_AT_A_TIME, 16 * PIECE // widest))
        for rows in pieces(self.n_samples, step):
            A = self._weighted(rows, left, root, single=single)
            if not (same and host):
                B = A if same else self._weighted(rows, right, root, single=single)
                out += self._take(A @ B.T)
            elif single:
                out += blas.ssyrk(1.0, A.T, trans=1, lower=1)
            else:
                blas.dsyrk(1.0, A.T, trans=1, lower=1, beta=1.0, c=out, overwrite_c=1)
        if same and host:
            upper = np.triu(out.T)
            return upper + np.triu(upper, 1).T
        return out

    def piece(self, index: Index, rows: slice) -> Array:
        """Some columns, as rows, of some rows, in float64 and the caller's to change.

        Parameters
        ----------
        index : array of int
            Positions of the columns.
        rows : slice
            The rows.

        Returns
        -------
        array of shape (len(index), n_rows)
        """
        return np.array(self._take(self._part(rows, index)).T, order="C")

    def restrict(self, rows: Index) -> FeatureStack:
        """The stack on some of its samples (a copy), in the order of `rows`.

        Parameters
        ----------
        rows : array of int
            Positions of the samples.
        """
        out = FeatureStack(take_rows(self.Z, rows), self.groups)
        out.kind = self.kind
        return out

    def owned(self, kernels: Index) -> Index:
        """Numbers of the columns of some kernels, in their order.

        Parameters
        ----------
        kernels : array of int
            Positions of the kernels.
        """
        return members(self.groups, kernels)

    def gram(self, kernels: Index | None = None) -> FactorGram:
        """The kernels, or some of them, as factors: a copy in float64.

        Parameters
        ----------
        kernels : array of int, optional
            Positions of the kernels; all by default.
        """
        index = np.arange(self.n_kernels) if kernels is None else kernels
        return FactorGram(self.columns(self.owned(index)), np.r_[0, np.cumsum(self.widths[index])])

    # ---- pieces, and where they are ----------------------------------------------------------------

    @property
    def _by_columns(self) -> bool:
        """Whether columns lie together in memory; on another device passes are over columns, too."""
        return self._there is not None or bool(self.Z.strides[0] <= self.Z.strides[1])

    @property
    def _in_columns(self) -> bool:
        """Whether the compiled loops read the columns."""
        return self._there is None and bool(self.Z.flags.f_contiguous)

    def _parts(self, width: int | None = None) -> Iterator[tuple[slice, slice]]:
        """Rows and columns of pieces of some width: some columns at a time, or some rows where these lie together."""
        width = self.n_features if width is None else width
        size, other = (width, self.n_samples) if self._by_columns else (self.n_samples, width)
        for part in pieces(size, (PIECE if self._there is None else PIECE_THERE) // max(1, other)):
            yield (slice(0, self.n_samples), part) if self._by_columns else (part, slice(0, width))

    def _part(self, rows: slice, columns: slice | Index, *, single: bool = False) -> Any:
        """Some rows and columns, in float64 or float32, where the features are."""
        if self._there is None:
            kind = np.float32 if single else np.float64
            if isinstance(columns, slice):
                return np.asarray(self.Z[rows, columns], dtype=kind)
            if not self._by_columns:
                return np.asarray(self.Z[rows][:, columns], dtype=kind)
            # neighbours are copied together, in the precision that is wanted
            out = np.empty((len(columns), len(range(*rows.indices(self.n_samples)))), dtype=kind)
            ends = np.r_[0, np.flatnonzero(np.diff(columns) != 1) + 1, len(columns)]
            if len(ends) > len(columns) // 4:
                out[:] = self.Z.T[columns, rows]
                return out.T
            for first, last in pairwise(ends):
                out[first:last] = self.Z.T[columns[first] : columns[first] + last - first, rows]
            return out.T
        xp = self._there.xp
        found = self.Z[rows, :]
        found = (
            found[:, columns] if isinstance(columns, slice) else xp.take(found, self._give(columns), axis=1)
        )
        return xp.astype(found, xp.float32 if single else self._there.dtype)

    def _weighted(self, rows: slice, index: Index, root: Array | None, *, single: bool) -> Any:
        """Some columns, as rows, of some rows, which are multiplied by factors."""
        found = self._part(rows, index, single=single).T
        if self._there is None:
            found = np.ascontiguousarray(found)
        if root is None:
            return found
        factors = self._give(root[rows])
        if self._there is None:
            return found * factors.astype(found.dtype)
        return found * self._there.xp.astype(factors, found.dtype)

    def _give(self, values: NDArray[Any]) -> Any:
        return values if self._there is None else self._there.give(values)

    def _take(self, values: Any) -> Array:
        return values if self._there is None else self._there.take(values)


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
    """Features as a float array, compressed columns, or an array on another device."""
    there = is_foreign(Z) and not on_host(Z)
    if not there and not is_sparse(Z):
        Z = hosted(Z)
        Z = Z if isinstance(Z, np.ndarray) and Z.dtype in (np.float32, np.float64) else as_floats(Z, "Z")
    shape = tuple(Z.shape)
    if len(shape) != 2 or 0 in shape:
        hint = " Pass Z.reshape(-1, 1) for one feature." if len(shape) == 1 and shape[0] else ""
        raise InputError(
            f"`Z` must have shape (n_samples, n_features) with at least one of each, got {shape}.{hint}"
        )
    if there:
        return as_floating(Z, "Z")
    if not is_sparse(Z):
        return Z
    from scipy import sparse

    if Z.dtype.kind not in "fiub":
        raise InputError(f"`Z` must hold real numbers, got the type {Z.dtype}. Convert it.")
    return sparse.csc_array(Z, dtype=np.float64)


def as_groups(groups: ArrayLike | None, n_features: int = 0) -> Index:
    """The starts of blocks and the end, checked; every column is a block for None. No columns: as many as they say."""
    if groups is None:
        return np.arange(n_features + 1, dtype=np.int64)
    values = as_floats(groups, "groups")
    whole = np.isfinite(values) & (values == np.floor(values))
    if values.ndim != 1 or len(values) < 2 or not whole.all():
        raise InputError(
            "`groups` must be a list of at least two whole numbers, the starts of the blocks and the end, got "
            f"{shown(groups)}."
        )
    index = values.astype(np.int64)
    n_features = n_features or int(index[-1])
    if index[0] != 0 or index[-1] != n_features or (np.diff(index) <= 0).any():
        raise InputError(
            f"`groups` must rise from 0 to the number of columns, {n_features}, and each block must have a column, got "
            f"{shown(index.tolist())}. Kernel m has the columns groups[m]:groups[m + 1]."
        )
    return index
