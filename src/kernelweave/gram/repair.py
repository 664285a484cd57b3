"""Correction of indefinite similarities to kernels."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import InputError, check_finite, check_gram_stack
from kernelweave._parameters import OneOf, checked
from kernelweave._threads import blas_threads_for
from kernelweave._types import Array

#: Corrections of negative eigenvalues.
CORRECTIONS = ("clip", "shift")


def repair(K: Array, how: str) -> Array:
    """Return K, or a copy without its negative eigenvalues; see `repair_gram`."""
    with blas_threads_for(len(K)):
        values, vectors = np.linalg.eigh(K)
        lowest = float(values[0])
        if lowest >= 0.0:
            return K
        if how == "shift":
            repaired = K.copy()
            repaired.flat[:: len(K) + 1] -= lowest
            return repaired
        repaired = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return 0.5 * (repaired + repaired.T)


@checked
def repair_gram(gram: ArrayLike, how: Annotated[str, OneOf(*CORRECTIONS)] = "clip") -> Array:
    """Make kernels of symmetric similarities: remove the negative eigenvalues of every matrix of a stack.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or (n_samples, n_samples)
        Symmetric, kernels last. Not modified.
    how : {"clip", "shift"}, default="clip"
        Set negative eigenvalues to zero, which gives the nearest positive semidefinite matrix in the Frobenius norm,
        or add the smallest sufficient multiple of the identity, which does not change values between different
        rows.

    Returns
    -------
    array of the shape of `gram`

    Raises
    ------
    InputError
        Wrong shape, NaN or infinity, an asymmetric matrix.

    Notes
    -----
    An eigendecomposition for each kernel, O(n_kernels n_samples^3). Values of new rows are known
    only if they were in the repaired matrix: repair the matrix of all rows, training and test, and use a `KernelBank`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.solvers import repair_gram
    >>> similar = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
    >>> np.linalg.eigvalsh(similar).round(2), np.linalg.eigvalsh(repair_gram(similar)).round(2) + 0.0
    (array([-0.27,  1.  ,  2.27]), array([0.  , 1.  , 2.27]))
    """
    stack = check_gram_stack(gram)
    check_finite(stack, "gram")
    out = np.empty_like(stack)
    for m in range(stack.shape[2]):
        K = np.ascontiguousarray(stack[:, :, m])
        asymmetry, size = float(np.abs(K - K.T).max()), float(np.abs(K).max())
        if asymmetry > 1e-8 * size:
            raise InputError(
                f"Kernel {m} must be symmetric, got max |K - K'| = {asymmetry:.3g} with entries up to {size:.3g}. "
                "Pass (K + K.T) / 2 to symmetrise it."
            )
        out[:, :, m] = repair(0.5 * (K + K.T), how)
    return out.reshape(np.shape(gram))
