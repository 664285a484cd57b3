"""Checks of some rows of features and targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import (
    LARGEST_NUMBER,
    InputError,
    as_floats,
    check_finite,
    check_row_weights,
    check_size,
    check_targets,
)
from kernelweave._devices import Kind, as_floating, hosted, is_foreign, moved, on_host
from kernelweave._sparse import is_sparse
from kernelweave._types import Array

#: Densities of a whole sparse chunk, and of a column of it, up to which products stay sparse. Squares of a column then
#: exceed the squared deviations from its mean at most by the inverse of one less its density.
SPARSE, COLUMN = 0.1, 0.5


def check_rows(
    Z: Any, y: ArrayLike, sample_weight: ArrayLike | None, device: Any, n_features: int, n_outputs: int
) -> tuple[Any, Array, Array | None, bool]:
    """Features, targets and weights of a chunk, on a device, and whether the targets had one dimension.

    Weights may all be zero. See `check_chunk`.
    """
    if device is not None and not is_sparse(Z):
        Z = moved(Z, device, "Z")
    rows, targets, single = check_chunk(Z, y, n_features, n_outputs)
    if sample_weight is None or not len(targets):
        return rows, targets, None, single
    weights = as_floats(sample_weight, "sample_weight")
    if weights.shape != (len(targets),) or weights.any():
        weights = check_row_weights(weights, len(targets))
    return rows, targets, weights, single


def check_chunk(Z: Any, y: ArrayLike, n_features: int, n_outputs: int) -> tuple[Any, Array, bool]:
    """Features and targets (n_samples, n_outputs) of a chunk, and whether the targets had one dimension.

    Parameters
    ----------
    Z : array or sparse matrix of shape (n_samples, n_features)
    y : array of shape (n_samples,) or (n_samples, n_outputs)
    n_features, n_outputs : int
        Expected numbers; 0 for any.
    """
    rows = check_features(Z, n_features)
    if rows.shape[0] == 0:
        array = as_floats(y, "y")
        if len(array):
            raise InputError(f"`y` must have one row per row of Z, 0, got {len(array)} rows.")
        return rows, array.reshape(0, max(1, n_outputs)), array.ndim == 1
    targets, single = check_targets(y, int(rows.shape[0]))
    if n_outputs and targets.shape[1] != n_outputs:
        raise InputError(
            f"`y` must have {n_outputs} columns, as before, got {targets.shape[1]}. Targets of all chunks are those of "
            "one problem."
        )
    return rows, targets, single


def check_features(Z: Any, n_features: int) -> Any:
    """Features of a chunk, an array of floats or sparse rows, all finite; on a device with float64 they stay there."""
    kind = None if not is_foreign(Z) or on_host(Z) else Kind.of(Z)
    if kind is not None and kind.dtype != kind.xp.float64:
        kind = None
    Z = hosted(Z) if kind is None else as_floating(Z, "Z")
    if is_sparse(Z):
        from scipy import sparse

        if Z.dtype.kind not in "fiub":
            raise InputError(f"`Z` must hold real numbers, got the type {Z.dtype}. Convert it.")
        rows: Any = sparse.csr_array(Z)
    else:
        as_it_is = kind is not None or (isinstance(Z, np.ndarray) and Z.dtype.kind == "f")
        rows = Z if as_it_is else as_floats(Z, "Z")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InputError(f"`Z` must have shape (n_samples, n_features), got {tuple(rows.shape)}.")
    if n_features and rows.shape[1] != n_features:
        raise InputError(
            f"`Z` must have {n_features} columns, as before or as `groups` say, got {rows.shape[1]}."
        )
    values = rows.data if is_sparse(rows) else rows
    if kind is None:
        largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    else:
        largest = float(kind.xp.max(kind.xp.abs(rows))) if rows.shape[0] else 0.0
    if not largest <= LARGEST_NUMBER:
        check_entries(hosted(values))
    return rows


def check_entries(values: Array) -> None:
    """Raise for features that are not finite, or too large."""
    check_finite(values, "Z")
    check_size(values, "Z")


def stays_sparse(Z: Any) -> bool:
    """Whether products of sparse rows are cheap and lose no digits to the means."""
    n, p = Z.shape
    return bool(Z.nnz <= SPARSE * n * p and np.bincount(Z.indices, minlength=1).max() <= COLUMN * n)
