"""Training matrices that may be no kernels: asymmetric ones are refused, negative eigenvalues can be set to zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from kernelweave._checks import InputError
from kernelweave._threads import blas_threads_for

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Correction:
    """Negative eigenvalues of a training matrix that were set to zero.

    Attributes
    ----------
    vectors : array of shape (n_samples, n_negative)
        Their eigenvectors V. Values of new rows are projected, ``K (I - V V')``, which gives training rows their
        corrected values exactly.
    values : array of shape (n_negative,)
        The eigenvalues.
    residual : float
        The change as a share of the matrix, in the Frobenius norm.
    lowest : float
        The smallest eigenvalue as a share of the largest.
    """

    vectors: Array
    values: Array
    residual: float
    lowest: float

    def project(self, K: Array) -> Array:
        """Values of new rows with the training rows, shape (n_rows, n_samples)."""
        return K - (K @ self.vectors) @ self.vectors.T

    def beyond(self, K: Array) -> Array:
        """Change of k(x, x) of new rows by the correction, from their values before it."""
        return -np.square(K @ self.vectors) @ (1.0 / self.values)


def correct(K: Array) -> tuple[Array, Correction | None]:
    """The nearest positive semidefinite matrix in the Frobenius norm, and the correction; None if there is none."""
    n = len(K)
    with blas_threads_for(n):
        shifted = K.copy()
        shifted.flat[:: n + 1] += 1e-10 * max(float(np.trace(K)), 0.0) / n
        _, info = lapack.dpotrf(shifted, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            return K, None
        values, vectors = np.linalg.eigh(K)
        low = values < 0.0
        if not low.any():
            return K, None
        V = vectors[:, low]
        fixed = K - (V * values[low]) @ V.T
        residual = float(np.linalg.norm(values[low]) / np.linalg.norm(values))
    largest = max(float(values[-1]), np.finfo(np.float64).tiny)
    return 0.5 * (fixed + fixed.T), Correction(V, values[low], residual, float(values[0]) / largest)


def check_kernel_values(name: str, asymmetry: float, size: float, bad: float) -> None:
    """Raise for NaN, infinity and asymmetry that were found in the values of a kernel."""
    if bad:
        raise InputError(
            f"Kernel {name!r} gave NaN or infinity. Check its parameters and the scale of the columns."
        )
    if asymmetry > 1e-8 * size:
        raise InputError(
            f"Kernel {name!r} must be symmetric, got max |K - K'| = {asymmetry:.3g} with entries up to {size:.3g}."
        )
