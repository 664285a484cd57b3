"""Decision values of training rows by models of the other folds, and what follows for new rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_softmax

from kernelweave._checks import InputError
from kernelweave.fitting.folds import Fold, classes_of, content_folds, walk_folds
from kernelweave.fitting.task import Task
from kernelweave.learners import Learner

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Folds of rows whose models chose no regularisation parameter.
N_FOLDS = 5
#: Newton steps of slope and offsets, and the smallest deviation of log odds over rows with which they have offsets.
MOST_STEPS, FLATTEST = 50, 0.1


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Training rows with their decision values by models that had not seen them.

    Attributes
    ----------
    values : array of shape (n_rows, n_outputs)
        Of numbers the predictions.
    truth : array
        Numbers (n_rows, n_outputs), the positions of classes (n_rows,), or labels 0 and 1, (n_rows, n_labels).
    weights : array of shape (n_rows,)
        Of the rows, which count like repetitions, without the factors of classes.
    """

    values: Array
    truth: Array | Rows
    weights: Array

    @classmethod
    def of(cls, task: Task, learner: Learner, values: Array) -> Self | None:
        """From decision values of all rows of a task, NaN for those that no fold had; None without any."""
        kept = np.isfinite(values).all(axis=1)
        if not kept.any():
            return None
        truth = task.codes if task.classification else np.concatenate(task.targets, axis=1)
        values = values if task.classification else learner.prediction(values)
        weights = np.ones(len(values)) if task.row_weight is None else task.row_weight
        return cls(values[kept], truth[kept], weights[kept])

    @classmethod
    def refitted(cls, task: Task, learner: Learner, alpha: float) -> Self:
        """From fits on folds that rows determine, in which widths, scales and weights are learnt again."""
        labels = (
            np.asarray(task.codes, dtype=float)
            if task.classification
            else np.concatenate(task.targets, axis=1)
        )
        classes = classes_of(task, learner, labels)
        folds = content_folds(task.content, labels, N_FOLDS, classes=classes, groups=task.groups)
        found = cls.of(task, learner, decided(task, learner, alpha, folds))
        if found is None:
            raise InputError(
                "Intervals, sets and probabilities need training rows that differ; all of these are equal."
            )
        return found

    @property
    def unlinked(self) -> OutOfFold:
        """The same for intervals, sets and probabilities, without the order of the rows or their targets."""
        if self.truth.dtype.kind == "f":
            errors = np.asarray(self.truth - self.values)
            order = np.lexsort(np.abs(errors).T)
            return OutOfFold(np.zeros_like(errors), errors[order], self.weights[order])
        order = np.lexsort(self.values.T)
        return OutOfFold(self.values[order], self.truth[order], self.weights[order])

    def half_widths(self, coverage: float, upper: OutOfFold | None = None) -> Array:
        """Of intervals of numbers, one for each output: a quantile of the sizes of the errors.

        With `upper` what is added at both ends of intervals between the predictions of two models, which may be
        negative: a quantile of the distances of the targets from these intervals.
        """
        if upper is not None and not np.array_equal(upper.truth, self.truth):
            raise InputError(
                "`upper` must be fitted to the same rows and targets in the same order, and neither model saved "
                "without its training rows."
            )
        if self.weights.sum() < fewest(coverage) - 1e-9:
            raise InputError(
                f"Intervals with coverage={coverage:g} need at least {fewest(coverage)} training rows, got "
                f"{self.weights.sum():g}. Use more rows, or a smaller coverage."
            )
        high = self.values if upper is None else upper.values
        low, high = np.minimum(self.values, high), np.maximum(self.values, high)
        return np.array(
            [_high(e, self.weights, coverage) for e in np.maximum(low - self.truth, self.truth - high).T]
        )

    def lowest_shares(self, coverage: float, slope: float) -> Array:
        """The smallest logarithm of its probability at which each class is in a set; -inf for one of too few rows."""
        logs = log_shares(self.values, slope)
        return np.array(
            [
                -_high(-logs[here, k], self.weights[here], coverage)
                for k in range(logs.shape[1])
                for here in [self.truth == k]
            ]
        )


def fewest(coverage: float) -> int:
    """The number of rows with which an interval of this coverage has ends."""
    return int(np.ceil(coverage / (1.0 - coverage) - 1e-9))


def decided(task: Task, learner: Learner, alpha: float, folds: list[Fold]) -> Array:
    """Decision values of every row by models of the other folds, NaN for rows outside of all folds."""
    values = np.full((task.source.n_samples, task.n_outputs), np.nan)
    paths = walk_folds(task, learner, folds, np.array([alpha]), tol=learner.tol)
    for (_, test), path in zip(folds, paths, strict=True):
        values[test] = path.values[0]
    return values


def _high(scores: Array, weights: Array, coverage: float) -> float:
    """The score below or at which a new one is with this probability; inf where the scores are too few to tell.

    The new one may be anywhere among them, hence the weight 1 beside theirs.
    """
    order = np.argsort(scores)
    reached = np.cumsum(weights[order]) >= coverage * (weights.sum() + 1.0) - 1e-9
    return float(scores[order][np.argmax(reached)]) if reached.any() else np.inf


def log_shares(values: Array, slope: float) -> Array:
    """Logarithms of probabilities in proportion to ``exp(slope f)``, (n_rows, n_classes); of two classes f and 0."""
    return log_softmax(_of_each_class(slope * values), axis=1)


def _of_each_class(values: Array) -> Array:
    """Decision values with a column for each class: of two classes 0 and f."""
    return np.column_stack([np.zeros(len(values)), values]) if values.shape[1] == 1 else values


def _shares(codes: Rows, weights: Array, kinds: int) -> Array:
    """The class of every row as shares, (n_rows, n_classes), with one row more, of all classes in equal parts."""
    total = float(weights.sum())
    return (np.eye(kinds)[codes.astype(np.intp)] * total + 1.0 / kinds) / (total + 1.0)


def best_slope(values: Array, codes: Rows, weights: Array) -> float:
    """The slope of `log_shares` with the smallest log loss; its inverse is called the temperature.

    One row more, of all classes in equal parts and at every row in turn, keeps it finite where decision values separate
    the classes. It is given to three digits: rows do not carry more, and folds are solved to a tolerance.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, On calibration of modern neural networks, ICML 2017.
    """
    size = float(np.abs(values).mean())
    if not size:
        return 1.0
    both = _of_each_class(values)
    target = _shares(codes, weights, both.shape[1])

    def derivative(slope: float) -> float:
        wrong = np.exp(log_softmax(slope / size * both, axis=1)) - target
        return float(weights @ (wrong * both).sum(axis=1))

    # small and positive where values say nothing, so that the order of the classes stays that of the values
    low, high = 1e-6, 1.0
    if derivative(low) >= 0.0:
        best = low
    else:
        while derivative(high) < 0.0 and high < 1e6:
            high *= 4.0
        best = high if high >= 1e6 else float(brentq(derivative, low, high, xtol=1e-8, rtol=1e-8))
    return float(f"{best / size:.2e}")


def best_offsets(values: Array, codes: Rows, weights: Array) -> Array:
    """What is added to the decision values of each output so that those with `best_slope` have the smallest log loss.

    Mean probabilities are then the shares of the classes. Slope and offsets are fitted together, with the same row more
    as there, by Newton's method; of several classes the offsets have mean zero. All are zero where the log odds that
    follow hardly differ from row to row: nothing then tells the classes apart.

    References
    ----------
    A. Alexandari, A. Kundaje and A. Shrikumar, Maximum likelihood with bias-corrected calibration is hard-to-beat at
    label shift adaptation, ICML 2020.
    """
    size = float(np.abs(values).mean())
    if not size:
        return np.zeros(values.shape[1])
    f = _of_each_class(values / size)
    kinds, total, w = f.shape[1], float(weights.sum()), weights[:, None]
    target = _shares(codes, weights, kinds)

    def loss(point: Array) -> float:
        return -float((w * target * log_softmax(point[0] * f + point[1:], axis=1)).sum())

    point = np.r_[1.0, np.zeros(kinds)]
    value = loss(point)
    for _ in range(MOST_STEPS):
        p = np.exp(log_softmax(point[0] * f + point[1:], axis=1))
        wrong, about = w * (p - target), f - (p * f).sum(axis=1, keepdims=True)
        slopes = np.r_[(wrong * f).sum(), wrong.sum(axis=0)]
        mixed = (w * p * about).sum(axis=0)
        curvature = np.block(
            [
                [(w * p * about * f).sum(), mixed],
                [mixed[:, None], np.diag((w * p).sum(axis=0)) - (w * p).T @ p],
            ]
        )
        # a constant for all classes changes nothing
        step = np.linalg.lstsq(curvature, slopes, rcond=1e-12)[0]
        drop, length = float(slopes @ step), 1.0
        if drop <= 1e-12 * total:
            break
        while length > 1e-9 and not loss(point - length * step) <= value - 1e-4 * length * drop:
            length *= 0.5
        point = point - length * step
        value = loss(point)
    odds = point[0] * (f - f.mean(axis=1, keepdims=True))
    squares = np.square(odds - np.average(odds, axis=0, weights=weights)).sum(axis=1)
    if point[0] <= 0.0 or np.average(squares, weights=weights) < FLATTEST**2:
        return np.zeros(values.shape[1])
    offsets = point[1:] * size / point[0]
    return offsets[1:] - offsets[:1] if values.shape[1] == 1 else offsets - offsets.mean()
