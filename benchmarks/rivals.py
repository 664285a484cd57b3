"""Rivals in plain NumPy: the paper's Algorithm 1 at its own tolerances, and a dense active-set Newton method.

Kernels come first here, (n_kernels, n, n), the layout in which both are fastest. Every rival returns weights and
coefficients along the path and its iterations; `certificates` says how good they are, by the formula of the
library, computed independently of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RivalPath:
    weights: Array  # (n_alphas, n_kernels)
    dual_coef: Array  # (n_alphas, n)
    n_iter: NDArray[np.int64]
    status: tuple[str, ...]


def certificates(K: Array, y: Array, alphas: Array, weights: Array, dual_coef: Array) -> tuple[Array, Array]:
    """Objectives of Problem 5 and certified relative gaps at given pairs (d, c)."""
    primal, gap = np.empty((2, len(alphas)))
    for k, (alpha, d, c) in enumerate(zip(alphas, weights, dual_coef, strict=True)):
        V = _products(K, c)
        fitted = d @ V
        r = y - fitted - alpha * c
        quadratic_forms = V @ c
        primal[k] = 0.5 * np.sum(np.square(y - fitted)) + 0.5 * alpha * (d @ quadratic_forms)
        gap[k] = 0.5 * (r @ r) + 0.5 * alpha * (quadratic_forms.max() - d @ quadratic_forms)
    return primal, np.maximum(gap, 0.0) / primal


def _products(K: Array, c: Array) -> Array:
    m, n, _ = K.shape
    return (K.reshape(m * n, n) @ c).reshape(m, n)


# ---- Algorithm 1 -----------------------------------------------------------------------------------------------


def algorithm1(
    K: Array,
    y: Array,
    alphas: Array,
    *,
    delta: float = 1e-2,
    linear: str = "cholesky",
    max_rounds: int = 50_000,
) -> RivalPath:
    """Alternate between (13) and Problem 7 by SMO; the weights are handed on from one alpha to the next.

    Tolerances of the author's toolbox: relative residual 1e-2 and, in SMO, 1000 m sqrt(eps), absolute.
    """
    m, n, _ = K.shape
    d = np.zeros(m)
    d[np.argmax(_products(K, y) @ y)] = 1.0  # Lemma 5
    norm = np.linalg.norm(y)
    weights, coefficients, counts, status = [], [], [], []
    for alpha in alphas:
        c, rounds, how = np.zeros(n), 0, "MAX_ITER"
        while rounds < max_rounds:
            rounds += 1
            active = np.flatnonzero(d)
            Q = np.tensordot(d[active], K[active], 1)
            Q.flat[:: n + 1] += alpha
            c = _cholesky(Q, y) if linear == "cholesky" else _conjugate_gradient(Q, y, c, delta * norm)
            V = _products(K, c).T
            d = _smo(V, y - 0.5 * alpha * c, d, 1000 * m * np.sqrt(np.finfo(float).eps))
            if np.linalg.norm(y - V @ d - alpha * c) <= delta * norm:
                how = "RESIDUAL_RULE"
                break
        weights.append(d.copy())
        coefficients.append(c)
        counts.append(rounds)
        status.append(how)
    return RivalPath(np.array(weights), np.array(coefficients), np.array(counts), tuple(status))


def _cholesky(Q: Array, y: Array) -> Array:
    factor, info = lapack.dpotrf(Q, lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError("K + alpha I is not positive definite")
    return lapack.dpotrs(factor, y, lower=1)[0]


def _conjugate_gradient(Q: Array, y: Array, c: Array, tol: float) -> Array:
    c = c.copy()
    r = y - Q @ c
    p, rr = r.copy(), r @ r
    for _ in range(10 * len(y)):
        if rr <= tol * tol:
            break
        Qp = Q @ p
        step = rr / (p @ Qp)
        c += step * p
        r -= step * Qp
        rr, old = r @ r, rr
        p = r + (rr / old) * p
    return c


def _smo(
    V: Array, target: Array, d: Array, tol: float, most: int = 10_000, most_outer: int = 20_000
) -> Array:
    """Problem 7: 1/2 ||V d - target||^2 on the simplex; pairs inside a working set, then a scan of all kernels."""
    d = d.copy()
    for _ in range(most_outer):
        g = V.T @ (V @ d - target)
        top = g[d > 0].max()
        if top - g.min() <= tol:
            break
        # the working set: the support and the kernels that violate most
        near = np.argpartition(g, 20)[:20] if len(g) > 20 else np.arange(len(g))
        B = np.union1d(np.flatnonzero(d), near[g[near] < top - tol])
        G = V[:, B].T @ V[:, B]
        x, h = d[B], g[B]
        curvature = G.diagonal()
        for _ in range(most):
            i = int(h.argmin())
            j = int(np.where(x > 0, h, -np.inf).argmax())
            if h[j] - h[i] <= tol:
                break
            step = (h[j] - h[i]) / max(curvature[i] + curvature[j] - 2 * G[i, j], np.finfo(float).tiny)
            step = min(step, x[j])
            x[i] += step
            x[j] = 0.0 if step == x[j] else x[j] - step
            h = h + step * (G[i] - G[j])
        d[B] = x
    return d


# ---- Newton ----------------------------------------------------------------------------------------------------


def newton(
    K: Array, y: Array, alphas: Array, *, tol: float = 1e-6, grow: int = 8, most: int = 100
) -> RivalPath:
    """Active-set Newton on Problem 6 with dense matrices, warm started; the set grows by the worst violators."""
    m, n, _ = K.shape
    d = np.zeros(m)
    d[np.argmax(_products(K, y) @ y)] = 1.0
    weights, coefficients, counts, status = [], [], [], []
    for alpha in alphas:
        A, steps, how = np.flatnonzero(d), 0, "MAX_ITER"
        old, value = d[A], np.inf  # the weights before the last step, for halving
        while steps < most:
            steps += 1
            Q = np.tensordot(d[A], K[A], 1)
            Q.flat[:: n + 1] += alpha
            factor, info = lapack.dpotrf(Q, lower=1, overwrite_a=1)
            if info:
                raise np.linalg.LinAlgError("K + alpha I is not positive definite")
            c = lapack.dpotrs(factor, y, lower=1)[0]
            J = 0.5 * alpha * (y @ c)
            if value * (1 + 1e-13) < J and steps < most:
                d[A] = 0.5 * (d[A] + old)
                continue
            V = K[A] @ c
            quadratic_forms = V @ c
            level = d[A] @ quadratic_forms
            if 0.5 * alpha * (quadratic_forms.max() - level) <= 0.5 * tol * J:
                every = _products(K, c) @ c
                if 0.5 * alpha * (every.max() - level) <= tol * J:
                    how = "CONVERGED"
                    break
                worst = np.argsort(-every)[:grow]
                A = np.union1d(A, worst[every[worst] > level])
                V = K[A] @ c
                quadratic_forms = V @ c
            W = solve_triangular(factor, V.T, lower=True, check_finite=False)
            H = W.T @ W
            H.flat[:: len(A) + 1] += 1e-12 * np.trace(H) / len(A)
            x = _simplex_qp(H, 0.5 * (level - quadratic_forms) - H @ d[A], d[A])
            old, value = d[A], J
            d[A] = x / x.sum()
            if steps % 10 == 0:  # forget kernels that stay at zero
                keep = (d[A] > 0) | (old > 0)
                A, old = A[keep], old[keep]
        weights.append(d.copy())
        coefficients.append(c)
        counts.append(steps)
        status.append(how)
    return RivalPath(np.array(weights), np.array(coefficients), np.array(counts), tuple(status))


def _simplex_qp(H: Array, g: Array, start: Array) -> Array:
    """Minimise g'x + 1/2 x'Hx on the simplex by a primal active-set method from a feasible start."""
    x, free = start.copy(), start > 0
    for _ in range(20 * len(x) + 100):
        idx = np.flatnonzero(free)
        k = len(idx)
        M = np.ones((k + 1, k + 1))
        M[:k, :k] = H[np.ix_(idx, idx)]
        M[k, k] = 0.0
        target = np.linalg.solve(M, np.append(-g[idx], 1.0))[:k]
        if (target >= -1e-15).all():
            x[:] = 0.0
            x[idx] = np.maximum(target, 0.0)
            slope = g + H @ x
            slope = np.where(free, np.inf, slope - slope @ x)
            j = int(slope.argmin())
            if free.all() or slope[j] >= -1e-12 * np.abs(g).max():
                break
            free[j] = True
        else:
            step = target - x[idx]
            limit = np.where(step < 0, x[idx] / np.where(step < 0, -step, 1.0), np.inf)
            j = int(limit.argmin())
            x[idx] = np.maximum(x[idx] + min(1.0, limit[j]) * step, 0.0)
            x[idx[j]], free[idx[j]] = 0.0, False
    return x
