"""From a stack of matrices (n, n, n_kernels) to a representation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from kernelweave._checks import InputError, NotPSDError, check_gram_stack, check_psd
from kernelweave._loops import core, packed_length
from kernelweave._threads import blas_threads_for
from kernelweave.gram.base import Array, Gram
from kernelweave.gram.composite import concatenate
from kernelweave.gram.factors import FactorGram
from kernelweave.gram.packed import PackedGram

#: Residual trace, as a share of the trace, that a factor may leave out. At 0 a factor is only taken when it equals
#: the matrix to two units in the last place.
COMPRESSION = 0.0
#: Highest rank, as a share of the samples, at which a factor is cheaper than a triangle.
MAX_RANK_SHARE = 1 / 12


def gram_from_stack(
    gram: ArrayLike, *, reduce: bool = True, psd: bool = True, symmetry_tol: float = 1e-8
) -> Gram:
    """Copy a stack of symmetric PSD matrices into the representation that is cheapest for each.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels)
        Kernels last. A single (n, n) matrix counts as one kernel.
    reduce : bool, default=True
        Hold kernels as factors that are of low rank to two units in the last place.
    psd : bool, default=True
        Check that every matrix is positive semidefinite: a Cholesky factorisation each.
    symmetry_tol : float, default=1e-8
        Largest accepted ``|K - K'|`` relative to the largest entry; below it both halves are averaged.

    Raises
    ------
    InputError
        Wrong shape, NaN or infinity, asymmetric matrices.
    NotPSDError
        A matrix that is not positive semidefinite: negative diagonal, zero diagonal with nonzero entries as in a
        distance matrix, an eigenvalue below -1e-8 times the largest.
    """
    stack = check_gram_stack(gram)
    n, _, n_kernels = stack.shape
    packed = np.empty((n_kernels, packed_length(n)))
    asym, size, bad = np.empty((3, n_kernels))
    core.pack(stack, packed, asym, size, bad)
    if bad.any():
        raise InputError(
            f"`gram` must be finite, kernel {int(np.argmax(bad > 0))} holds NaN or infinity. "
            "Check the features it was computed from."
        )
    crooked = asym > symmetry_tol * np.maximum(size, np.finfo(float).tiny)
    if crooked.any():
        m = int(np.argmax(crooked))
        raise InputError(
            f"Kernel {m} must be symmetric, got max |K - K'| = {asym[m]:.3g} with entries up to {size[m]:.3g}. "
            "A cross-Gram belongs into predict; for training pass K(X_train, X_train)."
        )
    dense = PackedGram(packed, n)
    largest = dense.diagonal().max(axis=1)
    impossible = size > largest * (1 + 1e-6) + np.finfo(float).tiny
    if impossible.any():
        m = int(np.argmax(impossible))
        raise NotPSDError(
            f"Kernel {m} has an entry of size {size[m]:.6g} but no diagonal entry above {largest[m]:.6g}, so it "
            "is not positive semidefinite. Check that it holds similarities k(x, z), not distances."
        )
    if psd:
        check_semidefinite(dense)
    return compress(dense) if reduce else dense


def check_semidefinite(gram: PackedGram, names: Sequence[str] | None = None) -> None:
    """Raise for kernels with a negative eigenvalue; a shifted Cholesky factorisation clears most without one."""
    n = gram.n_samples
    work = np.empty((n, n))
    weights = np.zeros(gram.n_kernels)
    with blas_threads_for(n):
        for m, bound in enumerate(gram.norm_bound):
            weights[m] = 1.0
            upper = gram.combine_upper(weights, work)
            upper.reshape(-1)[:: n + 1] += 1e-8 * bound
            _, info = lapack.dpotrf(upper.T, lower=1, clean=0, overwrite_a=1)
            if info != 0 and bound > 0:
                check_psd(gram.combine(weights), f"Kernel {m}" if names is None else f"Kernel {names[m]!r}")
            weights[m] = 0.0


def compress(gram: PackedGram, *, tol: float = COMPRESSION, max_rank: int | None = None) -> Gram:
    """Replace numerically low-rank kernels by pivoted Cholesky factors with a certified residual trace.

    Parameters
    ----------
    gram : PackedGram
    tol : float
        Largest residual trace as a share of the kernel's trace; what is left out enters certificates.
    max_rank : int, optional
        Default: a twelfth of the samples, above which triangles are cheaper.
    """
    n = gram.n_samples
    cap = int(n * MAX_RANK_SHARE) if max_rank is None else min(max_rank, n)
    if cap < 1:
        return gram
    work = np.zeros((cap, n))
    factors: list[Array] = []
    residuals: list[float] = []
    low: list[int] = []
    traces = gram.trace()
    for m in range(gram.n_kernels):
        rank, residual = core.pivoted_cholesky(gram.packed[m], max(tol * traces[m], 0.0), work)
        if rank >= 0:
            factors.append(work[:rank].copy())
            residuals.append(residual)
            low.append(m)
    if not low:
        return gram
    ranks = [len(z) for z in factors]
    held = FactorGram(np.concatenate(factors), np.r_[0, np.cumsum(ranks)], np.array(residuals))
    full = np.setdiff1d(np.arange(gram.n_kernels), low)
    if not len(full):
        return concatenate([held], [np.array(low)])
    return concatenate([held, gram.take(full)], [np.array(low), full])


def as_gram(gram: Gram | ArrayLike) -> Gram:
    """Return a representation; arrays (n, n, n_kernels) are checked and copied."""
    return gram if isinstance(gram, Gram) else gram_from_stack(gram)
