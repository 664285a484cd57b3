"""Degrees of freedom and selection criteria at one RLS2 solution.

All are written so that a sample weight w equals w repetitions of the row: ``N_eff = sum of weights``, and
determinants are those of the repeated problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave.machines.ridge import RidgeSystem
from kernelweave.mkl.ridge_problem import RidgeProblem

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Criteria:
    """Selection criteria at one solution.

    Attributes
    ----------
    df : float
        ``tr(K(d) (K(d) + alpha N)^-1)`` at fixed weights: equation (15) and its kernel form. 0 at alpha = inf.
    df_total : float
        Divergence of f in y with the weights' own dependence on y (active set held), summed over outputs.
    gcv : float
        ``N_eff RSS / (N_eff - df)^2``, per output and sample.
    aic, bic : float
        ``N_eff log(RSS / N_eff) + 2 df`` and ``+ log(N_eff) df``.
    rss : float
        Weighted sum of squared residuals, per output, for `mallows_cp`.
    evidence : float
        Log marginal likelihood of the Gaussian-process reading (P1, section 4.1): prior covariance
        ``tau^2 K(d)``, noise variance ``alpha tau^2``, at the maximising scale tau^2.
    noise_variance : float
        ``alpha tau^2`` at this scale.
    """

    df: float
    df_total: float
    gcv: float
    aic: float
    bic: float
    rss: float
    evidence: float
    noise_variance: float


def compute_criteria(
    problem: RidgeProblem, alpha: float, weights: Array, C: Array, *, total: bool = True
) -> Criteria:
    """Compute all criteria; costs about two factorisations.

    Parameters
    ----------
    problem : RidgeProblem
    alpha : float
    weights : array of shape (n_kernels,)
    C : array of shape (n_outputs, n_samples)
    total : bool
        Also compute `df_total` (needs the products of all active kernels); NaN otherwise.
    """
    Y, N = problem.targets, problem.inverse_weights
    n_outputs, n = Y.shape
    sample_weight = 1.0 / N
    n_eff = problem.n_eff
    if math.isinf(alpha):
        rss = float(np.sum(np.square(Y) * sample_weight)) / n_outputs
        variance = rss / n_eff
        logl = _log_likelihood(n_eff, variance, 0.0, n_outputs) if variance > 0 else math.inf
        gcv = rss / n_eff
        aic = n_eff * _log(rss / n_eff)
        return Criteria(0.0, 0.0, gcv, aic, aic, rss, logl, variance)
    system = problem.system(weights, alpha)
    residual = alpha * N * C
    rss = float(np.sum(np.square(residual) * sample_weight)) / n_outputs
    extra = _learnt_df(problem, system, alpha, weights, C) if total else math.nan
    # of the repeated problem in units of the noise: det(I + W^1/2 K W^1/2 / alpha)
    log_det = system.log_det() - n * math.log(alpha) - float(np.log(N).sum())
    # the last use of the system
    df = max(0.0, n - alpha * float(N @ system.inverse_diagonal()))
    df_total = n_outputs * df + extra
    slack = n_eff - df
    gcv = n_eff * rss / slack**2 if slack > 0 else math.inf
    fit = n_eff * _log(rss / n_eff)
    quad = alpha * float(np.vdot(Y, C)) / n_outputs  # y' (I + K/alpha)^-1 y
    variance = quad / n_eff
    evidence = _log_likelihood(n_eff, variance, log_det, n_outputs) if variance > 0 else math.inf
    return Criteria(
        df=df,
        df_total=df_total,
        gcv=gcv,
        aic=fit + 2.0 * df,
        bic=fit + math.log(n_eff) * df,
        rss=rss,
        evidence=evidence,
        noise_variance=variance,
    )


def mallows_cp(rss: Array, df: Array, n_eff: float) -> Array:
    """Mallows' Cp along a path, ``RSS / sigma^2 - N_eff + 2 df``.

    The variance of the noise is that of the residuals of the weakest regularisation, ``RSS / (N_eff - df)`` at the last
    position, as in its use for subsets of columns, with least squares on all of them. NaN without
    residuals.

    Parameters
    ----------
    rss, df : arrays of shape (n_alphas,)
        Alphas descending.
    n_eff : float
        Sum of the sample weights.

    Returns
    -------
    array of shape (n_alphas,)
    """
    variance = rss[-1] / (n_eff - df[-1]) if n_eff > df[-1] else 0.0
    return rss / variance - n_eff + 2.0 * df if variance > 0 else np.full(len(rss), math.nan)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _log_likelihood(n_eff: float, variance: float, log_det: float, n_outputs: int) -> float:
    return -0.5 * n_outputs * (n_eff * (1.0 + math.log(2 * math.pi * variance)) + log_det)


def _learnt_df(problem: RidgeProblem, system: RidgeSystem, alpha: float, weights: Array, C: Array) -> float:
    """Contribution of the learnt weights to the divergence: ``alpha tr(N Q^-1 V P V' Q^-1)``.

    P is the inverse of ``B = V' Q^-1 V`` on directions that keep the weights summing to 1. Differentiating
    ``Q c = y`` and ``q_m = const`` over the active kernels gives ``dd = P V' Q^-1 dy``.
    """
    active = np.flatnonzero(weights > 0)
    if len(active) < 2:
        return 0.0
    V = problem.products(C, active)  # (k, T, n)
    k = len(active)
    solved = np.stack([system.solve(V[:, t].T) for t in range(V.shape[1])])  # (T, n, k)
    B = np.einsum("kti,til->kl", V, solved)
    M = alpha * np.einsum("tik,i,til->kl", solved, problem.inverse_weights, solved)
    # basis of the directions with sum zero
    basis = np.linalg.qr(np.eye(k) - 1.0 / k)[0][:, : k - 1]
    inner = basis.T @ B @ basis
    values, vectors = np.linalg.eigh(inner)
    keep = values > 1e-10 * values[-1]
    half = basis @ vectors[:, keep] / np.sqrt(values[keep])
    return float(np.einsum("ka,kl,la->", half, M, half))
