"""Kernel matrices on another device, such as a GPU: passes over all kernels are made there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelweave._checks import InputError, check_psd
from kernelweave._devices import Kind, as_floating
from kernelweave.gram.base import Array, Gram, Index
from kernelweave.gram.entries import check_entries

#: Numbers of a stack that are read at a time.
PIECE = 2**26
#: Share of the kernels above which a pass reads all, and weighs those that were not asked for with zero.
MOST = 0.5
#: Accepted relative asymmetry, and size of negative eigenvalues, for matrices of float64 and of float32.
TOLERANCES = (1e-8, 32.0 * float(np.finfo(np.float32).eps))


class DeviceGram(Gram):
    """Full matrices of any library with the array API, on their device; sums are taken in float64 there.

    Parameters
    ----------
    stack : array of shape (n_samples, n_samples, n_kernels)
        Symmetric to the last digit, float32 or float64. Not copied.
    """

    kind: Kind

    def __init__(self, stack: Any) -> None:
        kind = Kind.of(stack)
        assert kind is not None
        self.stack, self.kind = stack, kind
        self.xp = kind.xp
        self.n_samples, _, self.n_kernels = map(int, stack.shape)

    def diagonal(self) -> Array:
        return self._here(self.xp.linalg.diagonal(self.xp.permute_dims(self.stack, (2, 0, 1))))

    def _quadratic_forms(self, C: Array, kernels: Index | None) -> Array:
        n_kernels = self.n_kernels if kernels is None else len(kernels)
        out = np.zeros(n_kernels)
        vectors = self.kind.give(C)
        for rows, piece in self._parts(kernels):
            found = self._times(vectors[:, rows], piece) * vectors[:, :, None]
            out += self._here(self.xp.sum(found, axis=(0, 1)))
        return out

    def _matvecs(self, C: Array, kernels: Index | None) -> Array:
        vectors, out = self.kind.give(C), None
        for rows, piece in self._parts(kernels):
            found = self._times(vectors[:, rows], piece)
            out = found if out is None else out + found
        return np.ascontiguousarray(np.moveaxis(self._here(out), -1, 0))

    def _inner(self, H: Array) -> Array:
        upper = np.triu(H)
        whole = self.kind.give(upper + np.triu(upper, 1).T)
        out = np.zeros(self.n_kernels)
        for rows, piece in self._parts(None):
            own = self.xp.reshape(whole[rows, :], (1, -1))
            out += self._here(own @ self.xp.reshape(piece, (-1, self.n_kernels)))[0]
        return out

    def _add_combination(self, weights: Array, out: Array, *, empty: bool) -> None:
        active = np.flatnonzero(weights)
        chosen = active if len(active) < MOST * self.n_kernels else None
        own = self.kind.give(weights if chosen is None else weights[chosen])
        for rows, piece in self._parts(chosen):
            found = self._here(piece @ own)
            if empty:
                out[rows] = found
            else:
                out[rows] += found
        if empty and not len(active):
            out[:] = 0.0

    def _take(self, kernels: Index) -> DeviceGram:
        return DeviceGram(self.xp.take(self.stack, self._places(kernels), axis=2))

    def _restrict(self, rows: Index) -> DeviceGram:
        places = self._places(rows)
        return DeviceGram(self.xp.take(self.xp.take(self.stack, places, axis=0), places, axis=1))

    def _rescale(self, row_scale: Array, overwrite: bool) -> DeviceGram:
        factors = self.kind.give(row_scale.T)
        # products of factors first, which are symmetric to the last digit
        return DeviceGram(self._wide(self.stack) * (factors[:, None, :] * factors[None, :, :]))

    def _center(self, probability: Array, overwrite: bool) -> DeviceGram:
        means = self.matvecs(probability[None])[:, 0]
        rows, total = self.kind.give(means.T), self.kind.give(means @ probability)
        return DeviceGram(self._wide(self.stack) - (rows[:, None, :] + rows[None, :, :]) + total)

    @property
    def nbytes(self) -> int:
        size = 4 if self.stack.dtype == self.xp.float32 else 8
        return self.n_samples * self.n_samples * self.n_kernels * size

    def describe(self) -> str:
        return f"{self.n_kernels} matrices on {self.kind.device}, {self.nbytes / 2**20:.1f} MiB"

    # ---- pieces -----------------------------------------------------------------------------------

    def _parts(self, kernels: Index | None) -> Iterator[tuple[slice, Any]]:
        """Some rows at a time of the chosen kernels, in float64: (n_rows, n_samples, n_chosen)."""
        n_kernels = self.n_kernels if kernels is None else len(kernels)
        places = None if kernels is None else self._places(kernels)
        step = max(1, PIECE // (self.n_samples * max(1, n_kernels)))
        for first in range(0, self.n_samples, step):
            rows = slice(first, min(first + step, self.n_samples))
            piece = self.stack[rows, :, :]
            yield rows, self._wide(piece if places is None else self.xp.take(piece, places, axis=2))

    def _times(self, vectors: Any, piece: Any) -> Any:
        """``sum_i vectors[:, i] piece[i]``, shape (n_vectors, n_samples, n_chosen)."""
        found = vectors @ self.xp.reshape(piece, (piece.shape[0], -1))
        return self.xp.reshape(found, (vectors.shape[0], *piece.shape[1:]))

    def _places(self, index: Index) -> Any:
        return self.kind.give(np.asarray(index, dtype=np.int64))

    def _wide(self, values: Any) -> Any:
        return self.xp.astype(values, self.xp.float64, copy=False)

    def _here(self, values: Any) -> Array:
        return self.kind.take(values)


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
            f"`gram` must have shape (n_samples, n_samples, n_kernels), kernels last, got {tuple(stack.shape)}."
        )
    gram = DeviceGram(stack)
    kind, xp = gram.kind, gram.xp
    tol = np.full(gram.n_kernels, TOLERANCES[stack.dtype == xp.float32])
    bad, size, asym = np.zeros((3, gram.n_kernels))
    step = max(1, PIECE // (gram.n_samples * gram.n_kernels))
    for first in range(0, gram.n_samples, step):
        rows = slice(first, min(first + step, gram.n_samples))
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
