"""From a stack of matrices (n, n, n_kernels) to a representation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import NOT_FINITE, InputError, NotPSDError, check_gram_stack, check_psd, rounding_tol
from kernelweave._devices import Kind, as_floating, hosted, is_foreign, on_host
from kernelweave._loops import core, numpy_core, packed_rows
from kernelweave._threads import blas_threads_for, threads_for
from kernelweave._types import Array
from kernelweave.gram import device_gram
from kernelweave.gram.base import Gram, pieces
from kernelweave.gram.building import Builder
from kernelweave.gram.chunked import ChunkedFeatures
from kernelweave.gram.device_gram import DeviceGram
from kernelweave.gram.features import FeatureStack
from kernelweave.gram.packed import PackedGram
from kernelweave.gram.statistics import BlockStatistics
from kernelweave.gram.streams import KernelStream

#: Accepted relative asymmetry, and size of negative eigenvalues, for matrices of float64 and of float32.
TOLERANCES = (1e-8, 32.0 * float(np.finfo(np.float32).eps))
#: What holds no kernels, and what to do with it.
NO_KERNELS = {
    ChunkedFeatures: "rows that are read in chunks. Use solve_svm_mkl or svm_mkl_path, block_statistics for RLS2, or "
    "pass the rows as a FeatureStack.",
    BlockStatistics: "statistics, which are enough for the squared loss only. Use solve_rls2 or rls2_path, or pass "
    "the rows as a FeatureStack.",
    KernelStream: "a KernelStream, which solve_rls2 and rls2_path take. Give an array of shape (n_samples, n_samples, "
    "n_kernels) or a FeatureStack of fewer kernels.",
}
#: Kernels of a stack that are packed at a time.
TOGETHER = 64
#: Rows up to which the compiled factorisation is faster than that of BLAS in one thread.
IN_CACHE = 1500


def gram_from_stack(gram: ArrayLike, *, reduce: bool = True, psd: bool = True) -> Gram:
    """Copy a stack of symmetric PSD matrices into the cheapest representation for each.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels)
        Kernels last. A single (n, n) matrix counts as one kernel.
    reduce : bool, default=True
        Store kernels as factors if they have low rank to a few units in the last place.
    psd : bool, default=True
        Check that every matrix is positive semidefinite: a Cholesky factorisation each.

    Raises
    ------
    InputError
        Wrong shape, NaN or infinity, asymmetric matrices.
    NotPSDError
        A matrix that is not positive semidefinite: negative diagonal, zero diagonal with nonzero entries as in a
        distance matrix, an eigenvalue below -1e-8 times the largest (or the rounding of single and half precision).
    """
    stack = check_gram_stack(gram)
    n, _, n_kernels = stack.shape
    given = np.asarray(gram).reshape(stack.shape)
    builder = Builder(n, n_kernels)
    with blas_threads_for(n):
        for first in range(0, n_kernels, TOGETHER):
            members = range(first, min(first + TOGETHER, n_kernels))
            packed = builder.triangles(len(members))
            asym, size, bad = np.empty((3, len(members)))
            core.pack(stack[:, :, first : members.stop], packed, asym, size, bad, threads_for(n))
            dense = PackedGram(packed, n)
            # most kernels pass; the others are checked again
            tol = np.full(len(members), TOLERANCES[0])
            for k in np.flatnonzero(asym > tol * size):
                tol[k] = rounding_tol(given[:, :, first + k], tol=TOLERANCES[0])
            check_entries(dense.diagonal(), first, asym, size, bad, tol)

            def check(k: int, dense: PackedGram = dense, first: int = first) -> None:
                own = PackedGram(dense.packed[k : k + 1], n)
                check_semidefinite(own, [str(first + k)], given[:, :, first + k : first + k + 1])

            builder.keep_triangles(
                list(members), max_rank=None if reduce else 0, check=check if psd else None
            )
    return builder.finish()


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
        raise InputError(NOT_FINITE.format(first + int(np.argmax(bad > 0))))
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


def check_semidefinite(
    gram: PackedGram, names: Sequence[str], given: NDArray[np.generic] | None = None
) -> None:
    """Raise for kernels with a negative eigenvalue; a shifted Cholesky factorisation clears most without one.

    The array `given`, (n, n, n_kernels), determines the precision of the numbers.
    """
    n = gram.n_samples
    places = packed_rows(n)[:-1]
    definite = (core if n <= IN_CACHE and threads_for(n) == 1 else numpy_core).definite
    with blas_threads_for(n):
        for m, own in enumerate(gram.packed):
            diagonal = own[places]
            # as `norm_bound`, of a kernel that is still in the cache
            square = 2.0 * float(own @ own) - float(diagonal @ diagonal)
            size, trace = math.sqrt(max(square, 0.0)), float(diagonal.sum())
            # a semidefinite matrix without a trace is zero
            bound = min(size, trace) if trace > 0 else size
            if bound > 0 and not definite(own, n, 1e-8 * bound, 0.05 * bound):
                tol = 1e-8 if given is None else rounding_tol(given[:, :, m])
                check_psd(gram.combine(np.eye(1, gram.n_kernels, m)[0]), f"Kernel {names[m]}", tol=tol)


def gram_on_device(stack: Any) -> DeviceGram:
    """A stack of symmetric PSD matrices that stays on its device, checked there.

    Parameters
    ----------
    stack : array of shape (n_samples, n_samples, n_kernels) or (n_samples, n_samples)
        Of a library with the array API, on a device with float64. Not copied if it is symmetric to the last digit.

    Raises
    ------
    InputError
        Wrong shape, no real numbers, NaN or infinity, asymmetric matrices.
    NotPSDError
        A matrix that is not positive semidefinite.
    """
    stack = as_floating(stack, "gram")
    if stack.ndim == 2:
        stack = stack[:, :, None]
    if stack.ndim != 3 or stack.shape[0] != stack.shape[1] or 0 in tuple(stack.shape):
        raise InputError(
            f"Kernels must have shape (n_samples, n_samples, n_kernels), kernels last, got {tuple(stack.shape)}."
        )
    gram = DeviceGram(stack)
    kind, xp = gram.kind, gram.xp
    tol = np.full(gram.n_kernels, TOLERANCES[stack.dtype == xp.float32])
    bad, size, asym = np.zeros((3, gram.n_kernels))
    for rows in pieces(gram.n_samples, device_gram.PIECE // (gram.n_samples * gram.n_kernels)):
        piece, mirrored = stack[rows, :, :], xp.permute_dims(stack[:, rows, :], (1, 0, 2))
        finite = xp.all(xp.isfinite(piece), axis=(0, 1))
        bad += np.asarray(kind.take(xp.astype(finite, xp.float64)) == 0.0)
        if not bad.any():
            size = np.maximum(size, kind.take(xp.max(xp.abs(piece), axis=(0, 1))))
            asym = np.maximum(asym, kind.take(xp.max(xp.abs(piece - mirrored), axis=(0, 1))))
    check_entries(gram.diagonal(), 0, asym, size, bad, tol)
    if asym.any():
        gram = DeviceGram(0.5 * (stack + xp.permute_dims(stack, (1, 0, 2))))
    _check_definite(gram, tol)
    return gram


def _check_definite(gram: DeviceGram, tol: Array) -> None:
    """A Cholesky factorisation of every shifted matrix on the device; those that fail are checked by eigenvalues."""
    xp, unit = gram.xp, np.zeros(gram.n_kernels)
    identity = xp.eye(gram.n_samples, dtype=xp.float64, device=gram.kind.device)
    for m, bound in enumerate(gram.norm_bound):
        if bound == 0:
            continue
        matrix = xp.astype(gram.stack[:, :, m], xp.float64) / float(bound)
        try:
            factor = xp.linalg.cholesky(matrix + float(tol[m]) * identity)
            fits = bool(xp.all(xp.isfinite(factor)))
        except (RuntimeError, ValueError):
            # not positive definite, in the words of the library
            fits = False
        if not fits:
            unit[m] = 1.0
            check_psd(gram.combine(unit), f"Kernel {m}", tol=float(tol[m]))
            unit[m] = 0.0


def kind_of(gram: object) -> Kind | None:
    """Where arrays of results belong: with the kernels or features. None for NumPy."""
    return gram.kind if isinstance(gram, Gram | FeatureStack) else Kind.of(gram)


def as_gram(gram: Gram | FeatureStack | ArrayLike) -> Gram:
    """Return a representation; arrays (n, n, n_kernels) are checked and copied, features become factors.

    Arrays on another device stay there, if it has float64.
    """
    if isinstance(gram, FeatureStack):
        return gram.gram()
    for other, why in NO_KERNELS.items():
        if isinstance(gram, other):
            raise InputError(f"Kernels or features are needed here, got {why}")
    if isinstance(gram, Gram):
        return gram
    if is_foreign(gram) and not on_host(gram):
        kind = Kind.of(gram)
        if kind is not None and kind.dtype == kind.xp.float64:
            return gram_on_device(gram)
    return gram_from_stack(hosted(gram))
