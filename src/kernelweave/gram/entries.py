"""Checks of the entries of kernel matrices."""

from __future__ import annotations

import numpy as np

from kernelweave._checks import InputError, NotPSDError
from kernelweave.gram.base import Array


def check_entries(
    diagonal: Array, first: int, asym: Array, size: Array, bad: Array, symmetry_tol: Array
) -> None:
    """Raise for kernels from number `first` on that are not finite, not symmetric, or no kernels by their diagonal.

    Parameters
    ----------
    diagonal : array of shape (n_kernels, n_samples)
    asym, size, bad : arrays of shape (n_kernels,)
        Largest ``|K - K'|``, largest entry, and number of entries that are not finite.
    symmetry_tol : array of shape (n_kernels,)
        Largest accepted asymmetry relative to the largest entry.
    """
    if bad.any():
        raise InputError(
            f"`gram` must be finite, kernel {first + int(np.argmax(bad > 0))} holds NaN or infinity. "
            "Check the features it was computed from."
        )
    crooked = asym > symmetry_tol * np.maximum(size, np.finfo(float).tiny)
    if crooked.any():
        m = int(np.argmax(crooked))
        raise InputError(
            f"Kernel {first + m} must be symmetric, got max |K - K'| = {asym[m]:.3g} with entries up to "
            f"{size[m]:.3g}. A cross-Gram belongs in predict; for training pass K(X_train, X_train)."
        )
    largest = diagonal.max(axis=1)
    impossible = size > largest * (1 + np.maximum(1e-6, symmetry_tol)) + np.finfo(float).tiny
    if impossible.any():
        m = int(np.argmax(impossible))
        raise NotPSDError(
            f"Kernel {first + m} has an entry of size {size[m]:.6g} but no diagonal entry above {largest[m]:.6g}, so "
            "it is not positive semidefinite. Check that it holds similarities k(x, z), not distances."
        )
