"""Checks of some rows of features and targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import LARGEST_NUMBER, InputError, as_floats, check_row_weights, check_targets
from kernelweave._devices import Kind, as_floating, hosted, is_foreign, moved, namespace_of, on_host
from kernelweave._parameters import listed, shown
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
    if is_foreign(Z):
        kind = Kind.of(Z)
        if kind is not None and kind.dtype == kind.xp.float64 and not on_host(Z):
            return _check_there(Z, n_features)
        Z = hosted(Z)
    if is_sparse(Z):
        from scipy import sparse

        if Z.dtype.kind not in "fiub":
            raise InputError(f"`Z` must hold real numbers, got the type {Z.dtype}. Convert it.")
        rows: Any = sparse.csr_array(Z)
    else:
        rows = Z if isinstance(Z, np.ndarray) and Z.dtype.kind == "f" else as_floats(Z, "Z")
    _check_shape(rows, n_features)
    values = rows.data if is_sparse(rows) else rows
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if not largest <= LARGEST_NUMBER:
        refuse(values, largest)
    return rows


def _check_shape(rows: Any, n_features: int) -> None:
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InputError(f"`Z` must have shape (n_samples, n_features), got {tuple(rows.shape)}.")
    if n_features and rows.shape[1] != n_features:
        raise InputError(
            f"`Z` must have {n_features} columns, as before or as `groups` say, got {rows.shape[1]}."
        )


def _check_there(Z: Any, n_features: int) -> Any:
    """The same on another device."""
    rows, xp = as_floating(Z, "Z"), namespace_of(Z)
    _check_shape(rows, n_features)
    largest = float(xp.max(xp.abs(rows))) if rows.shape[0] else 0.0
    if not largest <= LARGEST_NUMBER:
        refuse(hosted(rows), largest)
    return rows


def refuse(values: Array, largest: float) -> NoReturn:
    """Raise for features that are not finite, or too large."""
    n_nan, n_inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    if n_nan or n_inf:
        raise InputError(
            f"`Z` must be finite, got {n_nan} NaN and {n_inf} infinity among {values.size} entries. Impute or drop "
            "them first."
        )
    raise InputError(
        f"`Z` must not exceed {LARGEST_NUMBER:g} in size, got {largest:.3g}, whose square overflows. Divide by a "
        "constant first."
    )


def stays_sparse(Z: Any) -> bool:
    """Whether products of sparse rows are cheap and lose no digits to the means."""
    n, p = Z.shape
    return bool(Z.nnz <= SPARSE * n * p and np.bincount(Z.indices, minlength=1).max() <= COLUMN * n)


def check_texts(values: Sequence[str] | None, name: str) -> tuple[str, ...] | None:
    """Names as a tuple, or None."""
    if values is None:
        return None
    texts = listed(values)
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise InputError(f"`{name}` must be a list of texts, got {shown(values)}.")
    return tuple(texts)
