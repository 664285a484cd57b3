"""A metric of columns that is learnt from targets: by the evidence of a Gaussian process, or by gradients of a ridge.

A metric is a map L of the columns, so that kernels of the mapped rows ``L x`` have the distances
``||L (x - z)||``. Neither objective is convex in L: what is found is a local solution. What is then fitted on the
mapped columns is a problem of its own, with its own certificate.

Equal rows are merged: with weights w, mean targets and the scatter of these, evidence and leave-one-out errors are
those of the repeated rows, so that a weight is equivalent to repetitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import minimize
from scipy.spatial.distance import cdist, pdist

from kernelweave._checks import InputError, check_known
from kernelweave._loops import core, packed_length
from kernelweave._threads import threads_for
from kernelweave.machines.ridge import invert_lower

__all__ = ["FORMS", "METRICS", "LearntMetric", "learn_metric"]

Array = NDArray[np.float64]

#: How a metric is learnt, and its forms.
METRICS = ("ard", "rfm")
FORMS = ("diagonal", "full")
#: Steps of the evidence at most, and the relative change of it at which they end.
MOST_STEPS, CHANGE = 15, 1e-5
#: Bounds of the logarithms of rates around the start, of the signal's and the noise's variance; and the least noise.
RATES, SIGNAL, NOISE, LEAST = (-9.0, 5.0), (-5.0, 6.0), (-12.0, 1.5), 1e-6
#: Widths of the Laplace kernel of a recursive feature machine, as multiples of the median distance, its rounds, and
#: its ridges.
WIDTHS, ROUNDS, RIDGES = (1.0, 3.0, 10.0), 4, np.logspace(-6, 2, 17)
#: Directions below this share of the longest are left out.
SHORTEST = 1e-6
#: Decimals of standardised columns and targets.
DIGITS = 10


@dataclass(frozen=True, eq=False)
class LearntMetric:
    """A metric, as a map of columns.

    Attributes
    ----------
    matrix : array of shape (rank, n_columns)
        L; rows of it are directions, the longest first in the full form, columns in their order in the diagonal one.
    relevance : array of shape (n_columns,)
        The share of each column in the trace of L'L in standardised columns; they sum to 1.
    error : float
        Mean squared leave-one-out error of the ridge regression at the metric, in variances of the target. The metric
        has seen the rows that are left out: this is not an estimate for new rows.
    history : array
        What was lowered, best value so far: minus the logarithm of the evidence after each evaluation, or the
        leave-one-out error in each round.
    """

    matrix: Array
    relevance: Array
    error: float
    history: Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Distinct rows in standard units, sorted, with their weights, mean targets, and the scatter around these."""

    X: Array
    Y: Array
    weights: Array
    scatter: float


def learn_metric(
    X: Array, Y: Array, sample_weight: Array | None = None, *, by: str = "ard", form: str = "diagonal"
) -> LearntMetric:
    """Learn a metric of the columns from targets.

    ``by="ard"`` maximises, over rates rho_j, a signal variance s and a noise variance t, the evidence of a Gaussian
    process with the covariance

        s exp(-sum_j rho_j^2 (x_j - z_j)^2) ,

    so that L is diagonal with the entries rho_j, and RBF kernels of the rows L x have this covariance at gamma = 1;
    several outputs share it. ``by="rfm"`` alternates ridge regression f with the kernel ``exp(-||L (x - z)|| / width)``
    and L'L = the mean of ``grad f(x_i) grad f(x_i)'``, or the diagonal of it; the round, the width and the ridge of the
    smallest leave-one-out error are taken.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Finite numbers, in any units.
    Y : array of shape (n_rows, n_outputs)
    sample_weight : array of shape (n_rows,), optional
        Positive; a weight is equivalent to repetitions of the row.
    by : {"ard", "rfm"}
    form : {"diagonal", "full"}
        The full form is that of "rfm" alone.

    Returns
    -------
    LearntMetric

    Notes
    -----
    "ard" takes O(n^3 + n^2 p) for every evaluation of the evidence and its gradient, of which there are about 20; "rfm"
    O(n^3 + n^2 p) for each of 15 eigenvalue decompositions.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning (2006), equations 5.8 and 5.9.

    A. Radhakrishnan, D. Beaglehole, P. Pandit and M. Belkin, Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models, Science 383 (2024), algorithm 1. The choice by leave-one-out error is
    not theirs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(80, 3))
    >>> learn_metric(X, np.sin(2 * X[:, :1])).relevance.round(2)
    array([1., 0., 0.])
    """
    check_known(by, METRICS, "way to learn a metric")
    check_known(form, FORMS, "form of a metric")
    if form == "full" and by != "rfm":
        raise InputError("A full metric is learnt by 'rfm', got 'ard'. Use by='rfm', or form='diagonal'.")
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    total, low = weights.sum(), X.min(axis=0)
    # rounding errors of sums in another order, or over repeated rows, would grow in the steps of a local search: rows
    # and targets are taken from their smallest values, which depend on no order, and then rounded
    X, Y = X - low, Y - Y.min(axis=0)
    mean = weights @ X / total
    scale = np.sqrt(weights @ np.square(X - mean) / total)
    varies = scale > 1e-12 * np.maximum(np.abs(low + mean), 1.0)
    Y = Y - weights @ Y / total
    spread = np.sqrt(weights @ np.square(Y) / total)
    told = spread > 0
    n_columns = X.shape[1]
    if not varies.any() or not told.any():
        # nothing to learn from
        return LearntMetric(np.eye(n_columns), np.full(n_columns, 1.0 / n_columns), 1.0, np.empty(0))
    X, Y = (X[:, varies] - mean[varies]) / scale[varies], Y[:, told] / spread[told]
    rows = _merged(np.round(X, DIGITS), np.round(Y, DIGITS), weights)
    own, error, history = _by_evidence(rows) if by == "ard" else _by_gradients(rows, form == "full")
    inside = np.zeros((len(own), n_columns))
    inside[:, varies] = own
    relevance = np.square(inside).sum(axis=0)
    with np.errstate(divide="ignore"):
        matrix = np.where(varies, inside / np.where(varies, scale, 1.0), 0.0)
    return LearntMetric(matrix, relevance / relevance.sum(), error, history)


def _merged(X: Array, Y: Array, weights: Array) -> _Rows:
    """Distinct rows with sums of weights and mean targets."""
    distinct, inverse = np.unique(X, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    total: Array = np.bincount(inverse, weights=weights).astype(np.float64)
    means = np.column_stack([np.bincount(inverse, weights=weights * y) for y in Y.T]) / total[:, None]
    scatter = float((weights @ np.square(Y - means[inverse])).sum())
    return _Rows(distinct, np.round(means, DIGITS), total, scatter)


# ---- the evidence ---------------------------------------------------------------------------------------


def _by_evidence(rows: _Rows) -> tuple[Array, float, Array]:
    X, Y, w = np.ascontiguousarray(rows.X.T), rows.Y, rows.weights
    p, n = X.shape
    T, repeats = Y.shape[1], float((rows.weights - 1.0).sum())
    history: list[float] = []
    kernel, noisy = np.empty(packed_length(n)), np.zeros((n, n))
    #: Where the inverse was last, and the leave-one-out errors there.
    last: tuple[Array, Array] = np.empty(0), np.empty(0)

    def inverse(theta: Array) -> tuple[Array, Array, float, float]:
        """At the covariance with noise: inverse, coefficients, log determinant, and noise.

        The kernel is packed into `kernel`; of the inverse, which takes the place of the matrix, there is one triangle.
        """
        nonlocal last
        signal, noise = float(np.exp(theta[p])), float(np.exp(theta[p + 1])) + LEAST
        Z = np.exp(0.5 * theta[:p, None]) * X
        core.covariance(Z, signal, signal + noise / w, kernel, noisy, threads_for(n))
        # the upper triangle in C order is the lower one of the Fortran-ordered transpose
        factor, failed = lapack.dpotrf(noisy.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError
        A, log_det = lapack.dpotrs(factor, Y, lower=1)[0], 2.0 * float(np.log(np.diag(factor)).sum())
        invert_lower(factor)
        Ki = lapack.dlauum(factor, lower=1, overwrite_c=1)[0]
        last = theta.copy(), A / np.diag(Ki)[:, None]
        return Ki, A, log_det, noise

    def objective(theta: Array) -> tuple[float, Array]:
        try:
            Ki, A, log_det, noise = inverse(theta)
        except np.linalg.LinAlgError:
            return 1e300, np.zeros_like(theta)
        value = 0.5 * (float((Y * A).sum()) + T * log_det)
        value += 0.5 * T * repeats * np.log(noise) + 0.5 * rows.scatter / noise
        # with A A' - T Ki, of pairs and of rows
        sums, diagonal = np.empty(p + 1), np.square(A).sum(axis=1) - T * np.diag(Ki)
        core.evidence_slopes(X, kernel, np.ascontiguousarray(A.T), Ki.T, sums, threads_for(n))
        slopes = np.empty(p + 2)
        slopes[:p] = np.exp(theta[:p]) * sums[:p]
        slopes[p] = -sums[p] - 0.5 * np.exp(theta[p]) * diagonal.sum()
        by_noise = -0.5 * (diagonal / w).sum() + 0.5 * T * repeats / noise - 0.5 * rows.scatter / noise**2
        slopes[p + 1] = by_noise * np.exp(theta[p + 1])
        history.append(min(value, history[-1]) if history else value)
        return value, slopes

    first = float(np.log(1.0 / np.median(pdist(rows.X, "sqeuclidean")))) if n > 1 else 0.0
    start = np.r_[np.full(p, first), 0.0, np.log(0.1)]
    bounds = [(first + RATES[0], first + RATES[1])] * p + [SIGNAL, NOISE]
    options = {"maxiter": MOST_STEPS, "ftol": CHANGE}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if not np.array_equal(last[0], found.x):
        inverse(found.x)
    errors = last[1]
    rho = np.exp(0.5 * found.x[:p])
    kept = rho > SHORTEST * rho.max()
    return np.diag(rho)[kept], float(w @ np.square(errors).mean(axis=1) / w.sum()), np.array(history)


# ---- recursive feature machines -------------------------------------------------------------------------


def _by_gradients(rows: _Rows, full: bool) -> tuple[Array, float, Array]:
    X, Y, w = rows.X, rows.Y, rows.weights
    n, p = X.shape
    best, chosen = np.inf, np.eye(p)
    history = np.full(ROUNDS + 1, np.inf)
    for width in WIDTHS:
        L = np.eye(p)
        for k in range(ROUNDS + 1):
            U = X @ L.T
            D = cdist(U, U)
            apart = D[np.triu_indices(n, 1)]
            unit = width * float(np.median(apart)) if n > 1 else 1.0
            if not unit > 0:
                break
            K = np.exp(-D / unit)
            error, coef = left_one_out(K, Y, w)
            history[k] = min(history[k], error)
            if error < best:
                best, chosen = error, L
            if k == ROUNDS:
                break
            M = _gradients(U, D, K / unit, coef, L, w, full)
            L = _root(M, full)
    return chosen / np.sqrt(np.square(chosen).sum()), best, np.minimum.accumulate(history)


def left_one_out(K: Array, Y: Array, weights: Array) -> tuple[float, Array]:
    """The smallest weighted mean squared leave-one-out error over ridges, and the coefficients there.

    Row i of weight w_i is left out with all its repetitions: the error is ``c_i / H_ii``, with
    ``H = (K + ridge W^-1)^-1`` and ``c = H Y``, without an intercept.
    """
    root = np.sqrt(weights)[:, None]
    values, V = np.linalg.eigh(root * K * root.T)
    values, turned, squares = np.maximum(values, 0.0), V.T @ (root * Y), np.square(V)
    best, coef = np.inf, np.zeros_like(Y)
    for ridge in RIDGES:
        by = 1.0 / (values + ridge)
        c = root * (V @ (by[:, None] * turned))
        errors = c / (np.square(root) * (squares @ by)[:, None])
        error = float(weights @ np.square(errors).mean(axis=1) / weights.sum())
        if error < best:
            best, coef = error, c
    return best, coef


def _gradients(U: Array, D: Array, K: Array, coef: Array, L: Array, weights: Array, full: bool) -> Array:
    """The weighted mean of outer products of gradients, summed over outputs, or its diagonal; `K` is over the width."""
    p = L.shape[1]
    M = np.zeros((p, p) if full else p)
    # at a training row its own kernel has no gradient
    rates = np.divide(K, D, out=np.zeros_like(K), where=D > 1e-10)
    for c in coef.T:
        W = rates * c
        G = (W @ U - U * W.sum(axis=1)[:, None]) @ L
        M += (G * weights[:, None]).T @ G if full else weights @ np.square(G)
    return M / weights.sum()


def _root(M: Array, full: bool) -> Array:
    """The map of a metric, of length 1 in its longest direction."""
    if not full:
        lengths = np.sqrt(M / M.max()) if M.max() > 0 else np.ones_like(M)
        return np.diag(lengths)[lengths > SHORTEST]
    values, V = np.linalg.eigh(M)
    if not values[-1] > 0:
        return np.eye(len(M))
    kept = values > SHORTEST**2 * values[-1]
    return (np.sqrt(values[kept] / values[-1])[:, None] * V.T[kept])[::-1]
