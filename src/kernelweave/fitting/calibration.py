"""From decision values to probabilities: those of the loss, or a curve learnt on folds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logsumexp

from kernelweave._checks import check_known
from kernelweave.fitting.out_of_fold import best_slope, log_shares
from kernelweave.learners import Learner

Array = NDArray[np.float64]

METHODS = ("temperature", "platt", "isotonic")


@dataclass(frozen=True, eq=False)
class Calibration:
    """Curves from decision values to probabilities.

    Attributes
    ----------
    method : {"temperature", "platt", "isotonic"}
    curves : tuple of arrays
        "temperature": the slope of `log_shares`, shared by all classes, or for each of several labels. Otherwise for
        each output slope and offset of ``1 / (1 + exp(-(slope f + offset)))``, or the (2, n_steps) thresholds and
        values of a step function.
    multilabel : bool
        Whether outputs are labels that a row may have at the same time, so that probabilities have no sum.
    """

    method: str
    curves: tuple[Array, ...] = field(repr=False)
    multilabel: bool = False

    def __call__(self, values: Array) -> Array:
        """Probabilities (n_rows, n_classes) or (n_rows, n_labels) of decision values (n_rows, n_outputs)."""
        if self.method == "temperature":
            return np.exp(self.logarithms(values))
        platt, pairs = self.method == "platt", zip(values.T, self.curves, strict=True)
        out = np.column_stack([expit(a * f + b) if platt else np.interp(f, a, b) for f, (a, b) in pairs])
        if self.multilabel:
            return out
        if out.shape[1] == 1:
            return np.column_stack([1.0 - out, out])
        total = out.sum(axis=1, keepdims=True)
        # rows with a probability of zero for all classes have no information
        return np.where(total > 0, out / np.where(total > 0, total, 1.0), 1.0 / out.shape[1])

    def logarithms(self, values: Array) -> Array:
        """Logarithms of the probabilities."""
        if self.method != "temperature":
            with np.errstate(divide="ignore"):
                return np.log(self(values))
        if self.multilabel:
            return log_expit(values * np.concatenate(self.curves))
        return log_shares(values, float(self.curves[0][0]))


def log_probabilities(learner: Learner, values: Array, *, multilabel: bool = False) -> Array | None:
    """Logarithms (n_rows, n_classes) of the probabilities by the learner's loss; None without.

    For several classes each against the rest, divided by their sum. For several labels separately,
    (n_rows, n_labels).

    Parameters
    ----------
    learner : Learner
    values : array of shape (n_rows, n_outputs)
        Decision values.
    """
    own = learner.log_probability(values)
    if own is None or multilabel:
        return own
    if values.shape[1] > 1:
        return own - logsumexp(own, axis=1, keepdims=True)
    other = learner.log_probability(-values)
    assert other is not None
    return np.column_stack([other, own])


def calibrate(
    values: Array,
    codes: NDArray[np.intp],
    weights: Array | None,
    method: str,
    *,
    multilabel: bool = False,
) -> Calibration:
    """Fit one curve for each output.

    Parameters
    ----------
    values : array of shape (n_rows, n_outputs)
        Out-of-fold decision values; rows with NaN are left out.
    codes : array of shape (n_rows,)
        Numbers of the classes; for several labels (n_rows, n_labels) 0 and 1.
    weights : array of shape (n_rows,), for the temperatures of several labels also (n_rows, n_labels), or None
    method : {"temperature", "platt", "isotonic"}

    Notes
    -----
    Platt's targets, (n_1 + 1) / (n_1 + 2) and 1 / (n_0 + 2) instead of 1 and 0, avoid probabilities of 0 and 1 for
    separable classes.
    """
    check_known(method, METHODS, "method")
    kept = np.isfinite(values).all(axis=1)
    values, codes = values[kept], codes[kept]
    own = np.ones(len(codes)) if weights is None else weights[kept]
    positive = range(1, 2) if values.shape[1] == 1 else range(values.shape[1])
    if method == "temperature":
        each = own.T if own.ndim == 2 else [own] * values.shape[1]
        parts = zip(values.T, codes.T, each, strict=True) if multilabel else [(values, codes, own)]
        slopes = [best_slope(f.reshape(len(f), -1), *part) for f, *part in parts]
        return Calibration(method, tuple(np.array([slope]) for slope in slopes), multilabel)
    right = codes.T == 1 if multilabel else [codes == k for k in positive]
    fit = _sigmoid if method == "platt" else _steps
    curves = tuple(fit(f, here, own) for f, here in zip(values.T, right, strict=True))
    return Calibration(method, curves, multilabel)


def platt_targets(right: NDArray[np.bool_], weights: Array) -> Array:
    """Targets of Platt's sigmoid: (n_1 + 1) / (n_1 + 2) and 1 / (n_0 + 2), with sums of weights for counts."""
    return np.where(
        right,
        (weights[right].sum() + 1.0) / (weights[right].sum() + 2.0),
        1.0 / (weights[~right].sum() + 2.0),
    )


def _sigmoid(f: Array, right: NDArray[np.bool_], weights: Array) -> Array:
    from sklearn.linear_model import LogisticRegression

    share = platt_targets(right, weights)
    # a soft target is a row of each class with the shares as weights; the scale keeps the steps well sized
    scale = max(float(np.abs(f).max()), 1e-300)
    # two numbers: Newton's steps end at rounding, where those of lbfgs may complain of their line search
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-8, max_iter=1000)
    model.fit(
        np.r_[f, f][:, None] / scale,
        np.repeat([1, 0], len(f)),
        sample_weight=np.r_[weights * share, weights * (1.0 - share)],
    )
    return np.array([float(model.coef_[0, 0]) / scale, float(model.intercept_[0])])


def _steps(f: Array, right: NDArray[np.bool_], weights: Array) -> Array:
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    model.fit(f, right.astype(float), sample_weight=weights)
    return np.array([model.X_thresholds_, model.y_thresholds_])
