"""Weights from how well kernels agree with the target: centred alignment, and EasyMKL.

One pass over the kernels, no machine in the loop. Alignments are those of centred kernels; sample weights enter every
sum over rows, so that a weight equals a repetition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from kernelweave._checks import InputError, check_positive
from kernelweave._threads import blas_threads_for
from kernelweave.gram import Gram
from kernelweave.solvers.result import SVMResult
from kernelweave.solvers.svm import solve_l2svc

Array = NDArray[np.float64]
#: Bytes of kernel values held at a time for the products of all pairs of kernels.
PANEL = 128 * 2**20


@dataclass(frozen=True)
class AlignmentResult:
    """Weights on the simplex and what they rest on.

    Attributes
    ----------
    weights : array of shape (n_kernels,)
    alignments : array of shape (n_kernels,)
        Centred alignment of each kernel with the target, from -1 to 1; 0 for constant kernels.
    residual : float
        Largest violation of the optimality conditions, as a share of the largest alignment; 0 where weights
        are a formula.
    """

    weights: Array
    alignments: Array
    residual: float


def _rows(gram: Gram, y: Array, sample_weight: Array | None) -> tuple[Array, Array]:
    """Weights of the rows, and the centred target times them."""
    w = np.ones(gram.n_samples) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    centred = y - float(w @ y) / float(w.sum())
    return w, w * centred


def pair_products(gram: Gram, sample_weight: Array) -> Array:
    """``<K_k, K_l>`` of all pairs of centred kernels, (n_kernels, n_kernels); O(n_kernels^2 n_samples^2)."""
    n, m = gram.n_samples, gram.n_kernels
    root = np.sqrt(sample_weight)
    centred = gram.center(sample_weight / float(sample_weight.sum())).rescale(np.tile(root, (m, 1)))
    out = np.zeros((m, m))
    height = max(1, int(PANEL / (8.0 * m * n)))
    unit = np.zeros(m)
    work = np.empty((n, n))
    for start in range(0, n, height):
        stop = min(start + height, n)
        panel = np.empty((m, (stop - start) * n))
        for k in range(m):
            unit[k] = 1.0
            panel[k] = centred.combine(unit, work)[start:stop].reshape(-1)
            unit[k] = 0.0
        out += panel @ panel.T
    return out


def align(
    gram: Gram, y: Array, *, scale: Array, sample_weight: Array | None = None, optimize: bool = False
) -> AlignmentResult:
    """Weights by centred alignment (Cortes, Mohri, Rostamizadeh 2012).

    Parameters
    ----------
    gram : Gram
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets.
    scale : array of shape (n_kernels,)
    sample_weight : array of shape (n_samples,), optional
    optimize : bool, default=False
        False: every weight proportional to its kernel's own alignment (Align; negative ones count as 0). True:
        nonnegative weights whose combination has the largest alignment (AlignF), ``min v'Mv - 2 v'a``.

    Returns
    -------
    AlignmentResult

    Raises
    ------
    InputError
        No kernel agrees with the target, or all are constant.
    """
    w, b = _rows(gram, y, sample_weight)
    with blas_threads_for(gram.n_samples):
        agreement = scale * gram.quadratic_forms(b)
        if optimize:
            M = pair_products(gram, w) * np.outer(scale, scale)
            squares = np.diag(M).copy()
        else:
            squares = np.square(scale) * _own_products(gram, w)
    target = float(b @ np.divide(b, w, out=np.zeros_like(b), where=w > 0))
    # what centring leaves of a constant kernel is rounding
    used = squares > np.square(1e-10 * scale * (gram.diagonal() @ w))
    norms = np.sqrt(np.where(used, squares, 1.0))
    alignments = np.where(used, agreement / (norms * target), 0.0) if target > 0 else np.zeros(gram.n_kernels)
    if not (alignments > 1e-12).any():
        raise InputError(
            f"No kernel is aligned with the target on these rows (n_samples={gram.n_samples}): all are constant, or "
            "the target is. Use other kernels, or learner='uniform'."
        )
    if not optimize:
        weights = np.maximum(alignments, 0.0)
        return AlignmentResult(weights / weights.sum(), alignments, 0.0)
    weights, residual = _most_aligned(M, agreement, norms, used)
    return AlignmentResult(weights, alignments, residual)


def _own_products(gram: Gram, sample_weight: Array) -> Array:
    """``|K_k|^2`` of the centred kernels, (n_kernels,)."""
    n, m = gram.n_samples, gram.n_kernels
    centred = gram.center(sample_weight / float(sample_weight.sum())).rescale(
        np.tile(np.sqrt(sample_weight), (m, 1))
    )
    unit, work, out = np.zeros(m), np.empty((n, n)), np.empty(m)
    for k in range(m):
        unit[k] = 1.0
        K = centred.combine(unit, work)
        out[k] = float(np.vdot(K, K))
        unit[k] = 0.0
    return out


def _most_aligned(M: Array, a: Array, norms: Array, used: NDArray[np.bool_]) -> tuple[Array, float]:
    # kernels of norm 1 make the system as well conditioned as it can be
    index = np.flatnonzero(used)
    D = norms[index]
    G = M[np.ix_(index, index)] / np.outer(D, D)
    right = a[index] / D
    G.flat[:: len(G) + 1] += 1e-12
    L = np.linalg.cholesky(G + 1e-12 * np.eye(len(G)))
    v, _ = nnls(L.T, np.linalg.solve(L, right))
    gradient = G @ v - right
    violation = np.where(v > 0, np.abs(gradient), np.maximum(-gradient, 0.0))
    weights = np.zeros(len(a))
    weights[index] = v / D
    return weights / weights.sum(), float(violation.max() / np.abs(right).max())


@dataclass(frozen=True)
class EasyResult:
    """Weights of EasyMKL, and the machine that gave them.

    Attributes
    ----------
    weights : array of shape (n_kernels,)
        On the simplex.
    gamma : array of shape (n_samples,)
        Weights of the rows, sum 1 in each class.
    machine : SVMResult
        Its gap certifies gamma.
    """

    weights: Array
    gamma: Array
    machine: SVMResult


def easy_mkl(
    gram: Gram,
    y: ArrayLike,
    lam: float = 0.1,
    *,
    scale: Array,
    sample_weight: Array | None = None,
    tol: float = 1e-8,
    warm_start: Array | None = None,
) -> EasyResult:
    """EasyMKL (Aiolli and Donini 2015): weights by the margin of the distributions that the sum of all kernels gives.

    Minimises over row weights gamma >= 0 that sum to 1 in each class

        (1 - lam) gamma'Y (sum_m K_m) Y gamma + lam |gamma|^2 ,

    and takes weights proportional to ``gamma'Y K_m Y gamma``. By homogeneity gamma is the normalised solution of the
    squared-hinge machine on ``(1 - lam) sum_m K_m`` with C = 1 / lam, which is how it is found.

    Parameters
    ----------
    gram : Gram
    y : array of shape (n_samples,)
        Labels -1 and 1.
    lam : float, default=0.1
        From 0 (excluded) to 1.
    scale : array of shape (n_kernels,)
    sample_weight : array of shape (n_samples,), optional
        A weight equals a repetition.
    tol : float, default=1e-8
    warm_start : array of shape (n_samples,), optional

    Returns
    -------
    EasyResult
    """
    if not 0.0 < check_positive(lam, "lam", zero=True) <= 1.0:
        raise InputError(f"`lam` must be above 0 and at most 1, got {lam!r}.")
    with blas_threads_for(gram.n_samples):
        K = gram.combine((1.0 - lam) * scale)
        machine = solve_l2svc(
            K, y, 1.0 / lam, sample_weight=sample_weight, tol=tol, warm_start=warm_start, check=False
        )
        b = machine.dual_coef
        forms = scale * gram.quadratic_forms(b)
    total = float(forms.sum())
    weights = forms / total if total > 0 else np.full(gram.n_kernels, 1.0 / gram.n_kernels)
    mass = float(b[b > 0].sum())
    return EasyResult(weights, np.abs(b) / mass if mass > 0 else np.abs(b), machine)
