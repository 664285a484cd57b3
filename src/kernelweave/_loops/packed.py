"""NumPy twins of the compiled loops over packed triangles, columns, factors and weights on a simplex.

Packed triangles hold the upper triangle of a symmetric (n, n) matrix row after row: ``n * (n + 1) // 2`` numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_solve, cholesky, lapack

from kernelweave._types import Array, Index


def packed_length(n_samples: int) -> int:
    """Number of entries of a packed triangle."""
    return n_samples * (n_samples + 1) // 2


@lru_cache(maxsize=4)
def packed_rows(n_samples: int) -> NDArray[np.int64]:
    """Start of each row in a packed triangle, and the total length as the last entry."""
    i = np.arange(n_samples + 1, dtype=np.int64)
    return i * n_samples - i * (i - 1) // 2


def inside(idx: NDArray[np.int64], length: int) -> bool:
    return not len(idx) or bool(idx.min() >= 0 and idx.max() < length)


@lru_cache(maxsize=2)
def _triangle(n_samples: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.triu_indices(n_samples)


def unpack(packed: Array, n_samples: int) -> Array:
    """Return the dense symmetric matrix of one packed triangle."""
    out, upper = np.empty((n_samples, n_samples)), _triangle(n_samples)
    out[upper] = out.T[upper] = packed
    return out


def _pack_vector(C: Array) -> Array:
    """Packed w with ``packed @ w == sum_t C[t]' K C[t]``."""
    i, j = _triangle(C.shape[1])
    w = np.einsum("tp,tp->p", C[:, i], C[:, j])
    w[i != j] *= 2.0
    return w


def quadratic_forms(packed: Array, idx: NDArray[np.int64], C: Array, out: Array, threads: int = 1) -> None:
    w = _pack_vector(C)
    everything = len(idx) == len(packed) and np.array_equal(idx, np.arange(len(packed)))
    out[:] = packed @ w if everything else [packed[m] @ w for m in idx]


def inner(packed: Array, idx: NDArray[np.int64], H: Array, out: Array, threads: int = 1) -> None:
    i, j = _triangle(len(H))
    w = H[i, j]
    w[i != j] *= 2.0
    out[:] = [packed[m] @ w for m in idx]


def matvecs(packed: Array, idx: NDArray[np.int64], C: Array, out: Array, threads: int = 1) -> None:
    for k, m in enumerate(idx):
        out[k] = C @ unpack(packed[m], C.shape[1])


def combine(packed: Array, idx: NDArray[np.int64], w: Array, out: Array, threads: int = 1) -> None:
    total = np.zeros(packed.shape[1])
    for k, m in enumerate(idx):
        total += w[k] * packed[m]
    out[_triangle(len(out))] = total


def choose_rows(packed: Array, rows: NDArray[np.int64], n_samples: int, out: Array, threads: int = 1) -> None:
    upper = np.triu_indices(len(rows))
    low = np.minimum(rows[upper[0]], rows[upper[1]])
    where = packed_rows(n_samples)[low] + np.maximum(rows[upper[0]], rows[upper[1]]) - low
    for own, target in zip(packed, out, strict=True):
        # "clip" avoids a buffered copy; no index is out of range
        own.take(where, out=target, mode="clip")


def shift_rows(packed: Array, means: Array, totals: Array, threads: int = 1) -> None:
    n = means.shape[1]
    start = packed_rows(n)
    for i in range(n):
        row = packed[:, start[i] : start[i + 1]]
        row += (totals - means[:, i])[:, None]
        row -= means[:, i:]


def differences(A: Array, B: Array, out: Array, threads: int = 1) -> None:
    out[:] = 0.0
    rows = max(1, 32768 // max(B.shape[1], 1))  # tiles that stay in the cache
    work = np.empty((rows, B.shape[1]))
    for top in range(0, len(A), rows):
        tile = out[top : top + rows]
        difference = work[: len(tile)]
        for a, b in zip(A.T, B, strict=True):
            np.subtract(a[top : top + rows, None], b, out=difference)
            np.abs(difference, out=difference)
            tile += difference


def pack(stack: Array, packed: Array, asym: Array, size: Array, bad: Array, threads: int = 1) -> None:
    n = len(stack)
    i, j = _triangle(n)
    for m in range(stack.shape[2]):
        K = stack[:, :, m]
        upper, lower = K[i, j], K[j, i]
        finite = np.isfinite(upper) & np.isfinite(lower)
        bad[m] = float((~finite).sum())
        with np.errstate(invalid="ignore"):
            asym[m] = np.abs(upper - lower).max()
            size[m] = max(np.abs(upper).max(), np.abs(lower).max())
            packed[m] = 0.5 * (upper + lower)


def definite(packed: Array, n_samples: int, shift: float, level: float) -> bool:
    values = packed + level
    values -= level
    start = packed_rows(n_samples)
    values[start[:-1]] += shift
    upper = np.zeros((n_samples, n_samples))
    for i in range(n_samples):
        upper[i, i:] = values[start[i] : start[i + 1]]
    factor, info = lapack.dpotrf(upper.T, lower=1, clean=0, overwrite_a=1)
    # OpenBLAS takes pivots that are no numbers for positive ones
    return bool(info == 0 and np.isfinite(np.diagonal(factor)).all())


def decays(D: Array, first: int, gammas: Array, packed: Array, threads: int = 1) -> None:
    n = first + D.shape[1]
    start = packed_rows(n)
    for i, row in enumerate(D):
        np.exp(-gammas[:, None] * row[i:], out=packed[:, start[first + i] : start[first + i + 1]])


def decay_product(D: Array, gamma: float, C: Array, out: Array, threads: int = 1) -> None:
    np.matmul(np.exp(-gamma * D), C.T, out=out)


def pivoted_decay(X: Array, gamma: float, squared: bool, bound: float, Z: Array) -> tuple[int, float]:
    def column(pivot: int) -> Array:
        apart = X - X[:, pivot, None]
        return np.exp(-gamma * (np.square(apart) if squared else np.abs(apart)).sum(axis=0))

    return pivoted_columns(column, np.ones(X.shape[1]), bound, Z)


def pivoted_cholesky(packed: Array, bound: float, Z: Array) -> tuple[int, float]:
    n = Z.shape[1]
    start = packed_rows(n)
    diag = packed[start[:-1]]

    def column(pivot: int) -> Array:
        above = np.arange(pivot)
        return np.concatenate(
            [packed[start[above] + pivot - above], packed[start[pivot] : start[pivot] + n - pivot]]
        )

    return pivoted_columns(column, diag, bound, Z)


def pivoted_columns(
    column: Callable[[int], Array], diagonal: Array, bound: float, Z: Array
) -> tuple[int, float]:
    """Pivoted Cholesky from single columns of a matrix; the twin of the compiled function on packed triangles.

    Parameters
    ----------
    column : callable
        ``column(i)`` returns column i of K, shape (n_samples,).
    diagonal : array of shape (n_samples,)
    bound : float
        Largest residual trace. The factor is also accepted, with residual 0, when every row's residual diagonal is
        within eight units in the last place of its own diagonal entry. Pivots are the largest residuals, for bound 0
        the largest shares of the row's own diagonal: so that one huge row has no effect on the others.
    Z : array of shape (max_rank, n_samples)
        Receives the factor rows, ``K ~ Z'Z``.

    Returns
    -------
    rank : int
        -1 if max_rank is not enough.
    residual : float
    """
    diag = np.array(diagonal, dtype=np.float64)
    limits = np.finfo(np.float64)
    floor = 8.0 * limits.eps * np.maximum(diag, 0.0)
    share = np.ones(len(diag)) if bound > 0 else 1.0 / np.maximum(diag, limits.tiny)
    rank = 0
    while True:
        rest = np.maximum(diag, 0.0)
        trace = float(rest.sum())
        if (diag <= floor).all():
            return rank, 0.0
        if trace <= bound:
            return rank, trace
        if rank == len(Z):
            return -1, trace
        pivot = int(np.argmax(share * diag))
        row = column(pivot) - Z[:rank, pivot] @ Z[:rank]
        root = np.sqrt(diag[pivot])
        z = np.where(diag > 0.0, row / root, 0.0)
        diag -= z * z
        z[pivot], diag[pivot] = root, 0.0
        Z[rank] = z
        rank += 1


def factor_matvecs(
    Zt: Array, offsets: NDArray[np.int64], idx: NDArray[np.int64], scores: Array, out: Array
) -> None:
    for k, m in enumerate(idx):
        rows = slice(int(offsets[m]), int(offsets[m + 1]))
        out[k] = scores[:, rows] @ Zt[rows]


def _solve_floored(block: Array, right: Array, floor: float) -> Array:
    """Solve with a PSD matrix that may be singular to rounding: eigenvalues below `floor` are replaced by `floor`."""
    try:
        return cho_solve((cholesky(block, lower=True), True), right)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(block)
        return vectors @ ((vectors.T @ right) / np.maximum(values, floor))


def lanczos(
    S: Array, least: float, tol: float, V: Array, diagonal: Array, beside: Array, threads: int = 1
) -> int:
    pivot, last, before = 1.0, 1.0, 0.0
    for m in range(len(V)):
        # the upper triangle in C order is the lower one of the Fortran-ordered transpose
        u = blas.dsymv(1.0, S.T, V[m], lower=1)
        diagonal[m] = V[m] @ u
        u -= diagonal[m] * V[m]
        if m:
            u -= before * V[m - 1]
            last *= -before / pivot
        u -= (V[: m + 1] @ u) @ V[: m + 1]
        pivot = diagonal[m] + least - before * before / pivot
        before = beside[m] = np.sqrt(u @ u)
        if not pivot > 0.0:
            return -(m + 1)
        if before * abs(last / pivot) <= tol:
            return m + 1
        if m + 1 < len(V):
            V[m + 1] = u / before
    return -len(V)


def covariance(Z: Array, signal: float, diagonal: Array, packed: Array, K: Array, threads: int = 1) -> None:
    start = packed_rows(Z.shape[1])
    for i, own in enumerate(diagonal):
        row = packed[start[i] : start[i + 1]]
        row[:] = signal * np.exp(-np.square(Z[:, i:] - Z[:, i, None]).sum(axis=0))
        K[i, i:] = row
        K[i, i] = own


def evidence_slopes(X: Array, packed: Array, A: Array, Q: Array, sums: Array, threads: int = 1) -> None:
    start = packed_rows(X.shape[1])
    sums[:] = 0.0
    for i in range(X.shape[1] - 1):
        m = packed[start[i] + 1 : start[i + 1]] * (A[:, i] @ A[:, i + 1 :] - len(A) * Q[i, i + 1 :])
        sums[:-1] += np.square(X[:, i + 1 :] - X[:, i, None]) @ m
        sums[-1] += m.sum()


def simplex_qp(H: Array, g: Array, x: Array, tol: float, max_iter: int) -> int:
    n_variables = len(g)
    scale = float(np.abs(g).max())
    ridge = 1e-14 * float(np.diag(H).max()) + 1e-300
    inside = x > 0
    if not inside.any():
        raise ValueError("`x` must hold a positive entry")
    for n_iter in range(max_iter):
        free = np.flatnonzero(inside)
        block = H[np.ix_(free, free)]
        # the sum of x is fixed, so a shift of g does not change the solution; it saves digits where H is small beside g
        least = float(g[free].min())
        a = _solve_floored(block, np.ones(len(free)), ridge)
        mean = float(a @ (g[free] - least)) / float(a.sum())
        b = _solve_floored(block, g[free] - least - mean, ridge)
        rise = (1.0 + float(b.sum())) / float(a.sum())
        target, level = rise * a - b, rise + mean + least
        if (target < 0).any():
            now = x[free]
            falling = target < 0
            ratio = np.full(len(free), np.inf)
            ratio[falling] = now[falling] / (now[falling] - target[falling])
            blocking = int(np.argmin(ratio))
            x[free] = np.maximum(0.0, now + min(1.0, ratio[blocking]) * (target - now))
            x[free[blocking]] = 0.0
            inside[free[blocking]] = False
            continue
        x[free] = target
        slack = g + H[:, free] @ target - level
        slack[free] = np.inf
        enter = int(np.argmin(slack))
        if len(free) == n_variables or slack[enter] >= -tol * (scale + abs(level)):
            return n_iter
        inside[enter] = True
    return -max_iter


def simplex_smo(G: Array, b: Array, d: Array, tol: float, max_inner: int, max_outer: int) -> int:
    gradient = G @ d - b
    steps = 0

    def pair(candidates: NDArray[np.int64]) -> bool:
        nonlocal steps
        support = candidates[d[candidates] > 0]
        if not len(support):
            return False
        low = candidates[np.argmin(gradient[candidates])]
        high = support[np.argmax(gradient[support])]
        violation = gradient[high] - gradient[low]
        if violation <= tol:
            return False
        curvature = G[low, low] + G[high, high] - 2.0 * G[low, high]
        wanted = violation / curvature if curvature > 0 else d[high]
        step = min(wanted, d[high])
        d[low] += step
        d[high] = 0.0 if wanted >= d[high] else d[high] - step
        gradient[:] += step * (G[low] - G[high])
        steps += 1
        return True

    everything = np.arange(len(b))
    for _ in range(max_outer):
        if not pair(everything):
            break
        active = np.flatnonzero(d > 0)
        for _ in range(max_inner):
            if not pair(active):
                break
    return steps


def inspect(K: Array) -> tuple[float, float, int]:
    worst = big = 0.0
    bad = 0
    # by panels of rows, to avoid a second matrix
    for start in range(0, len(K), 256):
        panel = K[start : start + 256]
        bad += int(np.count_nonzero(~np.isfinite(panel)))
        with np.errstate(invalid="ignore"):
            worst = max(worst, float(np.abs(panel - K[:, start : start + 256].T).max()))
            big = max(big, float(np.abs(panel).max()))
    return worst, big, bad


def mirror(K: Array, threads: int = 1) -> None:
    for start in range(0, len(K), 256):
        stop = min(start + 256, len(K))
        block = K[start:stop, start:stop]
        block[:] = np.triu(block) + np.triu(block, 1).T
        K[stop:, start:stop] = K[start:stop, stop:].T


def add_rows(K: Array, w: Array, g: Array) -> None:
    rows = np.flatnonzero(w)
    g += w @ K if 2 * len(rows) > len(w) else w[rows] @ K[rows]


def block(K: Array, rows: Index, columns: Index, out: Array) -> None:
    out[:] = K[np.ix_(rows, columns)]


def long_product(K: Array, w: Array, out: Array) -> None:
    rows = np.flatnonzero(w)
    sums = np.zeros(len(w), dtype=np.longdouble)
    for k in rows:  # one by one, to avoid a second matrix
        sums += np.longdouble(w[k]) * K[k]
    out[:] = sums
