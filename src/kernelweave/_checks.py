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
    "check_known",
    "check_psd",
    "check_share",
    "check_targets",
    "check_weights",
]


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
    _refuse_negative_or_distance(diagonal, stack, tol)
    return stack


def _refuse_negative_or_distance(
    diagonal: NDArray[np.float64], stack: NDArray[np.float64], tol: float
) -> None:
    for m, diag in enumerate(diagonal):
        size = float(np.abs(stack[0, :, m]).max()) + float(np.abs(diag).max())
        if size > 0 and np.abs(diag).max() <= tol * size and stack.shape[0] > 1:
            raise NotPSDError(
                f"Kernel {m} has a zero diagonal but nonzero entries, like a distance matrix. A kernel holds "
                "similarities: convert first, for example np.exp(-gamma * distance**2)."
            )
        if diag.min() < -tol * size:
            raise NotPSDError(
                f"Kernel {m} has a negative diagonal entry ({diag.min():.3g}), so it is not positive "
                "semidefinite. Check that it holds similarities k(x, z), not distances."
            )


def check_psd(K: NDArray[np.float64], label: str, *, tol: float = 1e-8) -> None:
    """Raise `NotPSDError` if the smallest eigenvalue of K is below ``-tol * max eigenvalue``."""
    values = np.linalg.eigvalsh(K)
    if values[0] < -tol * max(values[-1], 0.0) and values[0] < 0:
        raise NotPSDError(
            f"{label} must be positive semidefinite, got eigenvalues from {values[0]:.3g} to {values[-1]:.3g}. "
            "Clip the negative eigenvalues, add a multiple of the identity, or drop the kernel."
        )


def as_names(names: Sequence[str] | None, n_kernels: int) -> tuple[str, ...]:
    """Return kernel names, default ``kernel 0``, ``kernel 1``, ...; check the number."""
    if names is None:
        return tuple(f"kernel {m}" for m in range(n_kernels))
    if len(names) != n_kernels:
        raise InputError(f"`names` must have one entry per kernel (n_kernels={n_kernels}), got {len(names)}.")
    return tuple(map(str, names))
