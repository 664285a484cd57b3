"""Sparse rows: SciPy's compressed rows in canonical format, and functions of dense and sparse arrays."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError
from kernelweave._types import csr_array

__all__ = [
    "as_csr",
    "entries",
    "is_sparse",
    "join_columns",
    "l1_distances",
    "row_ranks",
    "scale_rows",
    "sq_norms",
    "to_dense",
]

FloatArray = NDArray[np.float64]

#: Number of columns processed together when rows are sorted.
_BLOCK = 128


def is_sparse(X: object) -> TypeGuard[csr_array]:
    """Whether something is a sparse matrix or array of SciPy, or like one."""
    return hasattr(X, "toarray") and hasattr(X, "nnz")


def as_csr(X: Any, *, missing: bool = False) -> Any:
    """A sparse matrix or array of any format as float64 rows, sorted, without stored zeros.

    The argument is not changed. With `missing`, stored NaN are missing cells.

    Raises
    ------
    InputError
        For NaN, infinite and complex values, other dimensions than two, no rows and no columns.
    """
    from scipy import sparse

    if len(X.shape) != 2:
        raise InputError(
            f"Expected 2D array, got a sparse array of shape {tuple(X.shape)}. Reshape your data into rows and columns."
        )
    for count, what in zip(X.shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise InputError(
                f"Found array with 0 {what}(s) (shape={tuple(X.shape)}) while a minimum of 1 is required. Pass at "
                "least one."
            )
    if X.dtype.kind == "c":
        raise InputError(
            "Complex data not supported: X holds complex numbers. Pass real and imaginary parts."
        )
    if X.dtype.kind not in "fiub":
        raise InputError(f"A sparse X must have real numbers, got the type {X.dtype}. Convert it.")
    rows = sparse.csr_array(X)
    rows = rows.astype(np.float64) if rows.dtype != np.float64 else rows
    finite = np.isfinite(rows.data)
    if missing:
        finite |= np.isnan(rows.data)
    if not finite.all():
        kind = "NaN (missing values)" if np.isnan(rows.data).any() and not missing else "infinity"
        raise InputError(
            f"X must be complete and finite, but contains {kind} in {np.count_nonzero(~finite)} cells. Impute the "
            "values, as estimators do with missing='impute', or drop these rows."
        )
    if not rows.has_canonical_format or not rows.data.all():
        rows = rows.copy()
        rows.sum_duplicates()
        rows.eliminate_zeros()
    return rows


def to_dense(A: Any) -> FloatArray:
    """A plain array of either kind."""
    return A.toarray() if is_sparse(A) else A


def entries(A: Any) -> FloatArray:
    """All entries of a dense array, the stored ones of a sparse one: the others are 0. Missing cells are left out."""
    if hasattr(A, "entries"):
        return A.entries()
    return A.data if is_sparse(A) else A


def join_columns(parts: list[Any]) -> Any:
    """Arrays side by side, sparse if any of them is."""
    if not any(map(is_sparse, parts)):
        return np.concat(parts, axis=1)
    from scipy import sparse

    return sparse.hstack([sparse.csr_array(part) for part in parts], format="csr")


def sq_norms(A: Any) -> FloatArray:
    """Squared norms of the rows, with missing cells treated as given."""
    if hasattr(A, "sq_norms"):
        return A.sq_norms()
    if is_sparse(A):
        return np.asarray(A.power(2).sum(axis=1), dtype=np.float64).reshape(-1)
    return np.einsum("ij,ij->i", A, A)


def l1_distances(A: Any, B: Any) -> FloatArray:
    """Sums of absolute differences between rows, of which either may be sparse.

    Sums of absolute values of both rows, with corrections in columns where neither is 0.
    """
    from scipy.sparse import csc_array

    left, right = csc_array(A), csc_array(B)
    S = np.asarray(abs(left).sum(axis=1)).reshape(-1, 1) + np.asarray(abs(right).sum(axis=1)).reshape(-1)
    for j in np.flatnonzero((np.diff(left.indptr) > 0) & (np.diff(right.indptr) > 0)):
        i, k = (slice(M.indptr[j], M.indptr[j + 1]) for M in (left, right))
        a, b = left.data[i, None], right.data[k]
        S[left.indices[i, None], right.indices[k]] -= np.abs(a) + np.abs(b) - np.abs(a - b)
    return np.maximum(S, 0.0)


def scale_rows(A: Any, factors: FloatArray) -> Any:
    """Rows times their factors, in the format of `A`."""
    if not is_sparse(A):
        return A * factors[:, None]
    scaled = A.copy()
    scaled.data *= np.repeat(factors, np.diff(A.indptr))
    return scaled


def unit_rows(A: Any) -> Any:
    """Rows divided by their lengths, in the format of `A`; rows of zeros are not changed."""
    lengths = np.sqrt(sq_norms(A))
    some = lengths > 0
    return scale_rows(A, np.where(some, 1.0 / np.where(some, lengths, 1.0), 0.0))


def row_ranks(A: Any) -> NDArray[np.intp]:
    """Position of each row among the distinct ones in lexicographic order; equal rows share it."""
    if not is_sparse(A):
        _, rank = np.unique(A, axis=0, return_inverse=True)
        return rank.reshape(-1)
    rank = np.zeros(A.shape[0], dtype=np.intp)
    columns = A.tocsc()
    for start in range(0, A.shape[1], _BLOCK):
        block = columns[:, start : start + _BLOCK].toarray()
        _, found = np.unique(np.column_stack([rank, block]), axis=0, return_inverse=True)
        rank = found.reshape(-1)
        if rank.max(initial=0) == len(rank) - 1:
            break
    return rank
