"""Exceptions, warnings and boundary checks for arrays.

Every message has three parts: what was expected, what came, what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._errors import InputError, NotPSDError, check_known

__all__ = [
    "InputError",
    "NotPSDError",
    "check_alpha",
    "check_gram_stack",
    "check_kernel_matrix",
    "check_known",
    "check_positive",
    "check_psd",
    "check_row_weights",
    "check_scale",
    "check_share",
    "check_targets",
    "check_vector",
    "check_weights",
]


#: Kernels with a largest diagonal entry below it, or above its inverse, have squares that are 0 or infinite.
SMALLEST = 1e-150


def check_finite(array: NDArray[Any], name: str) -> None:
    """Raise if a float array holds NaN or infinity, with the number of bad entries."""
    if np.isfinite(array).all():
        return
    n_nan = int(np.isnan(array).sum())
    n_inf = int(np.isinf(array).sum())
    raise InputError(
        f"`{name}` must be finite, got {n_nan} NaN and {n_inf} infinity among {array.size} entries. "
        "Impute or drop them first."
    )


def check_alpha(alpha: float, name: str = "alpha") -> float:
    """Return a regularisation strength as a float in (0, inf]."""
    try:
        value = float(alpha)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must be a positive number, got {alpha!r}.") from None
    if not value > 0:  # also catches NaN
        raise InputError(f"`{name}` must be > 0 (float('inf') is allowed), got {value!r}.")
    return value


def check_tol(tol: float) -> float:
    """Return a relative gap tolerance in (0, 1)."""
    try:
        value = float(tol)
    except (TypeError, ValueError):
        value = float("nan")
    if not 0 < value < 1:
        raise InputError(f"`tol` is a relative gap and must lie in (0, 1), got {tol!r}.")
    return value


def check_positive(value: float, name: str, *, zero: bool = False) -> float:
    """Return a finite number > 0, or >= 0 when `zero` is allowed."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 <= number < float("inf") or (number == 0 and not zero):
        bound = ">= 0" if zero else "> 0"
        raise InputError(f"`{name}` must be a finite number {bound}, got {value!r}.")
    return number


def check_share(value: float, name: str) -> float:
    """Return a share in [0, 1)."""
    try:
        share = float(value)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must be a number from 0 up to 1, got {value!r}.") from None
    if not 0 <= share < 1:
        raise InputError(f"`{name}` must be a number from 0 up to 1, got {value!r}.")
    return share


def check_targets(y: ArrayLike, n_samples: int | None = None) -> tuple[NDArray[np.float64], bool]:
    """Return targets as a finite float array (n_samples, n_outputs) and whether they came as one column."""
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("`y` must be numeric. Encode labels as numbers, or use MKLClassifier.") from None
    single = targets.ndim == 1
    if targets.ndim not in (1, 2) or targets.size == 0:
        raise InputError(f"`y` must have shape (n_samples,) or (n_samples, n_outputs), got {targets.shape}.")
    targets = targets.reshape(len(targets), -1)
    if n_samples is not None and len(targets) != n_samples:
        raise InputError(
            f"`y` must have one row per training sample (n_samples={n_samples}), got {len(targets)} rows."
        )
    check_finite(targets, "y")
    return targets, single


def check_weights(sample_weight: ArrayLike | None, n_samples: int) -> NDArray[np.float64] | None:
    """Return sample weights as a positive float array, or None."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_samples,):
        raise InputError(f"`sample_weight` must have shape ({n_samples},), got {weights.shape}.")
    check_finite(weights, "sample_weight")
    if (weights <= 0).any():
        raise InputError(
            "`sample_weight` must be positive here; drop the rows whose weight is zero "
            f"(got {int((weights <= 0).sum())} weights <= 0)."
        )
    return weights


def check_vector(values: ArrayLike, name: str, n_samples: int) -> NDArray[np.float64]:
    """Return finite numbers as a float array with one entry per row of the kernels."""
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be numeric, got {type(values).__name__}. Encode it as numbers."
        ) from None
    if vector.shape != (n_samples,):
        raise InputError(
            f"`{name}` must have one entry per row of K, shape ({n_samples},), got {vector.shape}."
        )
    check_finite(vector, name)
    return vector


def check_row_weights(sample_weight: ArrayLike | None, n_samples: int) -> NDArray[np.float64]:
    """Return sample weights as a nonnegative float array; ones for None, zero for rows that take no part."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = check_vector(sample_weight, "sample_weight", n_samples)
    if (weights < 0).any():
        raise InputError(
            f"`sample_weight` must be nonnegative, got {int((weights < 0).sum())} negative entries. Give rows that "
            "should not count the weight 0."
        )
    if not weights.any():
        raise InputError("`sample_weight` must leave at least one row, got only zeros.")
    return weights


def check_scale(scale: ArrayLike | None, n_kernels: int) -> NDArray[np.float64]:
    """Return the factors s_m of the kernels as a positive float array; ones for None."""
    if scale is None:
        return np.ones(n_kernels)
    try:
        factors = np.asarray(scale, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"`scale` must be numeric, one factor per kernel, got {scale!r:.50}.") from None
    if factors.shape != (n_kernels,):
        raise InputError(
            f"`scale` must hold one factor per kernel, shape ({n_kernels},), got {factors.shape}."
        )
    check_finite(factors, "scale")
    if not (factors > 0).all():
        raise InputError(
            f"`scale` must be positive, got {int((factors <= 0).sum())} factors <= 0. Drop kernels that should not "
            "count: one that is zero on the training rows has no scale."
        )
    return factors


def check_gram_stack(gram: ArrayLike, *, tol: float = 1e-8) -> NDArray[np.float64]:
    """Return a training stack as float64 (n, n, n_kernels) after checking shape, finiteness and the diagonal.

    Symmetry is checked where the stack is packed, in the same pass that copies it.
    """
    try:
        stack = np.asarray(gram, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("`gram` must be a numeric array of shape (n, n, n_kernels).") from None
    if stack.ndim == 2 and stack.shape[0] == stack.shape[1]:
        stack = stack[:, :, None]
    if stack.ndim != 3 or stack.shape[0] != stack.shape[1]:
        hint = ""
        if stack.ndim == 3 and stack.shape[1] == stack.shape[2]:
            hint = " This stack is kernels first; pass np.moveaxis(gram, 0, -1)."
        elif stack.ndim in (2, 3):
            hint = " For training pass K(X_train, X_train); a cross-Gram belongs into predict."
        raise InputError(
            f"`gram` must have shape (n_samples, n_samples, n_kernels), kernels last, got {stack.shape}.{hint}"
        )
    if stack.shape[0] == 0 or stack.shape[2] == 0:
        raise InputError(f"`gram` must hold at least one sample and one kernel, got shape {stack.shape}.")
    diagonal = np.einsum("iim->mi", stack)
    check_finite(diagonal, "gram")
    for m, diag in enumerate(diagonal):
        _refuse_negative_or_distance(diag, stack[0, :, m], f"Kernel {m}", tol)
    return stack


def check_kernel_matrix(K: ArrayLike, *, name: str = "K", tol: float = 1e-8) -> NDArray[np.float64]:
    """Return one training kernel as C-contiguous float64 (n, n) after checking shape and diagonal.

    Other entries are looked at by the caller, which has a compiled loop for it.
    """
    try:
        matrix = np.asarray(K, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must be a numeric array of shape (n_samples, n_samples).") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        hint = " For training pass K(X_train, X_train)." if matrix.ndim == 2 else ""
        if matrix.ndim == 3:
            hint = " Combine the stack first, for example gram @ weights."
        raise InputError(f"`{name}` must have shape (n_samples, n_samples), got {matrix.shape}.{hint}")
    check_finite(np.diag(matrix), name)
    _refuse_negative_or_distance(np.diag(matrix), matrix[0], f"`{name}`", tol)
    if not matrix.flags.c_contiguous and matrix.flags.f_contiguous:
        matrix = matrix.T  # the same matrix, because it is symmetric
    return np.ascontiguousarray(matrix)


def _refuse_negative_or_distance(
    diagonal: NDArray[np.float64], row: NDArray[np.float64], label: str, tol: float
) -> None:
    largest = float(np.abs(diagonal).max())
    if largest > 1.0 / SMALLEST or 0.0 < largest < SMALLEST:
        raise InputError(
            f"{label} must have its largest diagonal entry between {SMALLEST:g} and {1 / SMALLEST:g}, or be zero, "
            f"because squares of its entries are needed, got {largest:.3g}. Multiply it by a factor."
        )
    size = float(np.abs(row).max()) + float(np.abs(diagonal).max())
    if size > 0 and np.abs(diagonal).max() <= tol * size and len(diagonal) > 1:
        raise NotPSDError(
            f"{label} has a zero diagonal but nonzero entries, like a distance matrix. A kernel holds "
            "similarities: convert first, for example np.exp(-gamma * distance**2)."
        )
    if diagonal.min() < -tol * size:
        raise NotPSDError(
            f"{label} has a negative diagonal entry ({diagonal.min():.3g}), so it is not positive "
            "semidefinite. Check that it holds similarities k(x, z), not distances."
        )


def rounding_tol(values: ArrayLike, *, tol: float = 1e-8) -> float:
    """Relative errors that a matrix may have by its rounding: `tol`, or more where it holds single or half precision.

    Values are looked at too: what was float32 once may have been converted on its way.
    """
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return tol
    if array.dtype.itemsize >= 8:
        with np.errstate(over="ignore", under="ignore"):
            single = (array.astype(np.float32) == array).all()
            # small whole numbers are exact in every precision
            if not single or (array.astype(np.float16) == array).all():
                return tol
        return max(tol, 32.0 * float(np.finfo(np.float32).eps))
    return max(tol, 32.0 * float(np.finfo(array.dtype).eps))


def check_psd(K: NDArray[np.float64], label: str, *, tol: float = 1e-8) -> None:
    """Raise `NotPSDError` if the smallest eigenvalue of K is below ``-tol * max eigenvalue``."""
    values = np.linalg.eigvalsh(K)
    if values[0] < -tol * max(values[-1], 0.0) and values[0] < 0:
        raise NotPSDError(
            f"{label} must be positive semidefinite, got eigenvalues from {values[0]:.3g} to {values[-1]:.3g}. "
            "Drop the kernel, or mend the matrix of all rows with kernelweave.repair_gram (clip or shift) and pass it "
            "as KernelBank."
        )


def as_names(names: Sequence[str] | None, n_kernels: int) -> tuple[str, ...]:
    """Return kernel names, default ``kernel 0``, ``kernel 1``, ...; check the number."""
    if names is None:
        return tuple(f"kernel {m}" for m in range(n_kernels))
    if len(names) != n_kernels:
        raise InputError(f"`names` must have one entry per kernel (n_kernels={n_kernels}), got {len(names)}.")
    return tuple(map(str, names))
