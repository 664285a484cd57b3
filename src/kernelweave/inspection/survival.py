"""Scores of survival models on rows: concordance, Brier scores, calibration at a time, and curves of groups of risk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import Floats, InputError
from kernelweave._docstrings import texts_of
from kernelweave._parameters import InstanceOf, Number, OneOf, Positive, Rule, Unfit, Whole, checked
from kernelweave._types import Array, Features
from kernelweave.estimators import MKLSurvival
from kernelweave.fitting.survival import brier, counts, harrell, kaplan_meier, read_times, uno, value_at
from kernelweave.inspection.arguments import OptionalEntries
from kernelweave.inspection.registry import LEVEL, Interval
from kernelweave.inspection.scores import WILSON, wilson, wilson_ends

__all__ = [
    "RiskGroups",
    "SurvivalCalibration",
    "brier_scores",
    "concordance",
    "integrated_brier_score",
    "risk_groups",
    "survival_calibration",
]

SurvivalModel = Annotated[MKLSurvival, InstanceOf((MKLSurvival,), "a fitted MKLSurvival")]
Groups = Annotated[int, Whole(2)]


@dataclass(frozen=True)
class Times(Rule):
    """Events and times of rows."""

    def read(self, value: Any) -> Any:
        """What was given, if events and times can be read."""
        if value is None:
            raise Unfit
        read_times(value)
        return value

    def kinds(self) -> tuple[str, ...]:
        """The types that it takes."""
        return ("ArrayLike",)

    def words(self) -> str:
        """What is expected."""
        return "events and times of rows"


GivenTimes = Annotated[Any, Times()]
OptionalTimes = Annotated[Any, Times() | None]
Line = Annotated[ArrayLike, Floats()]


@dataclass(frozen=True)
class RiskGroups:
    """Kaplan-Meier curves of rows with small to large predicted risk.

    Attributes
    ----------
    names : list of str
        Names of the groups, the smallest risk first.
    rows : list of array of int
        Positions of the rows of each group.
    times, survival, errors : list of arrays
        For each group the distinct times, the share without an event after each, and its standard error.
    bands : list of pairs of arrays
        Ends of 95 % intervals of the shares: Wilson's, for as many rows as the standard error stands for.
    """

    names: list[str]
    rows: list[NDArray[np.intp]]
    times: list[Array]
    survival: list[Array]
    errors: list[Array]
    bands: list[tuple[Array, Array]]


@dataclass(frozen=True)
class SurvivalCalibration:
    """Predicted and observed survival at one time, by groups of predictions.

    Attributes
    ----------
    time : float
        The time at which survival is compared, in the unit of the times.
    predicted : array of shape (n_groups,)
        Mean predicted probability of an event later than the time.
    observed, low, high : arrays of shape (n_groups,)
        The Kaplan-Meier estimate of each group there, and a 95 % interval: Wilson's, for as many rows as Greenwood's
        standard error stands for. NaN where the last row of a group is censored before.
    n_rows : array of int, shape (n_groups,)
        Rows in each group.
    """

    time: float
    predicted: Array
    observed: Array
    low: Array
    high: Array
    n_rows: NDArray[np.intp]


def _read(y: Any, n_rows: int) -> tuple[Array, NDArray[np.bool_]]:
    time, event, _ = read_times(y)
    if len(time) != n_rows:
        raise InputError(f"`y` must have an event and a time for each of the {n_rows} rows, got {len(time)}.")
    return time, event


@checked
def concordance(
    y: GivenTimes,
    risk: Line,
    *,
    kind: Annotated[str, OneOf("harrell", "uno")] = "harrell",
    training: OptionalTimes = None,
    tau: Annotated[float | None, Number(above=0) | None] = None,
) -> float:
    """How often, of two rows, the one with the larger risk has its event first.

    Parameters
    ----------
    y : structured array, frame or array with events and times
        Observed events and times, in a form that `MKLSurvival.fit` takes; strata are not used.
    risk : array-like of shape (n_rows,)
        Predicted risk, as `MKLSurvival.predict` returns it: the larger, the earlier the event.
    kind : {"harrell", "uno"}, default="harrell"
        "uno" weights pairs by the inverse square of the share that is not censored by then, so that the value does not
        depend on how rows were censored.
    training : as y, optional
        For "uno" the rows that censoring is estimated from. Default: `y`.
    tau : float, optional
        For "uno" events before this time are counted.

    Returns
    -------
    float
        1 for the right order of all pairs that can be compared, 0.5 for chance; equal risks count half.

    References
    ----------
    F. E. Harrell et al., Evaluating the yield of medical tests, JAMA 247 (1982); H. Uno et al., On the C-statistics for
    evaluating overall adequacy of risk prediction procedures, Statistics in Medicine 30 (2011).

    Examples
    --------
    >>> concordance([[1, 2.0], [1, 3.0], [0, 4.0]], [0.9, 0.1, 0.5])
    0.6666666666666666
    """
    values = np.asarray(risk)
    time, event = _read(y, len(values))
    if kind == "harrell":
        return harrell(time, event, values)
    others = (time, event) if training is None else read_times(training)[:2]
    return uno(time, event, values, others, tau)


@checked
def brier_scores(
    y: GivenTimes,
    survival: Annotated[ArrayLike, Floats((2,))],
    times: Line,
    *,
    training: OptionalTimes = None,
) -> Array:
    """Squared errors of predicted survival at some times, with weights against censoring.

    Parameters
    ----------
    y : structured array, frame or array with events and times
        Observed events and times, as `MKLSurvival.fit` takes them.
    survival : array-like of shape (n_rows, n_times)
        Probabilities that the event of a row comes later than each of these times, from
        `MKLSurvival.predict_survival_function`.
    times : array-like of shape (n_times,)
        The times at which survival was predicted, in the unit of the times of `y`.
    training : as y, optional
        The rows that censoring is estimated from. Default: `y`.

    Returns
    -------
    array of shape (n_times,)
        0 is best; 0.25 for predictions of 0.5.

    References
    ----------
    E. Graf et al., Assessment and comparison of prognostic classification schemes for survival data, Statistics in
    Medicine 18 (1999).

    Examples
    --------
    >>> brier_scores([[1, 2.0], [1, 5.0]], [[0.2, 0.1], [1.0, 0.9]], [3.0, 4.0]).round(3)
    array([0.02, 0.01])
    """
    when, values = np.asarray(times), np.asarray(survival)
    if values.shape[1] != len(when):
        raise InputError(f"`survival` must have shape (n_rows, {len(when)}), got {values.shape}.")
    time, event = _read(y, len(values))
    others = (time, event) if training is None else read_times(training)[:2]
    return brier(time, event, values, when, others)


@texts_of(brier_scores)
@checked
def integrated_brier_score(
    y: GivenTimes,
    survival: Annotated[ArrayLike, Floats((2,))],
    times: Line,
    *,
    training: OptionalTimes = None,
) -> float:
    """The mean of `brier_scores` over a range of times, by trapezes.

    Parameters
    ----------
    times : array-like of shape (n_times,)
        At least two, ascending.

    Returns
    -------
    float

    Examples
    --------
    >>> round(integrated_brier_score([[1, 2.0], [1, 5.0]], [[0.2, 0.1], [1.0, 0.9]], [3.0, 4.0]), 4)
    0.015
    """
    when = np.asarray(times)
    if len(when) < 2 or not (np.diff(when) > 0.0).all():
        raise InputError("`times` must be at least two ascending numbers.")
    return float(
        np.trapezoid(brier_scores(y, survival, when, training=training), when) / (when[-1] - when[0])
    )


def divided(values: Array, n_groups: int) -> list[NDArray[np.intp]]:
    """Rows in groups of about the same size by their values, smallest first; rows of equal values stay together."""
    order = np.argsort(values, kind="stable")
    between = np.flatnonzero(np.diff(values[order]) > 0.0) + 1
    if not len(between):
        return [order]
    wanted = len(values) * np.arange(1, n_groups) / n_groups
    nearest = between[np.abs(between[:, None] - wanted).argmin(axis=0)]
    return [np.sort(part) for part in np.split(order, np.unique(nearest))]


def _divided(values: Array, n_groups: int) -> list[NDArray[np.intp]]:
    found = divided(values, n_groups) if len(values) >= n_groups else []
    if len(found) < n_groups:
        raise InputError(
            f"{len(values)} rows with {len(np.unique(values))} different predictions cannot be divided into {n_groups} "
            "groups. Take fewer groups."
        )
    return found


def curves_of(
    names: list[str], rows: list[NDArray[np.intp]], time: Array, event: NDArray[np.bool_]
) -> RiskGroups:
    """Curves of groups of rows, with bands of the intervals of `survival_at`."""
    curves = [kaplan_meier(time[own], event[own]) for own in rows]
    bands = []
    for own, (_, share, error) in zip(rows, curves, strict=True):
        at_risk = counts(time[own], event[own])[1]
        n = np.where(share > 0.5, at_risk, float(event[own].sum()))
        known = error > 0.0
        n[known] = (share * (1.0 - share))[known] / np.square(error[known])
        bands.append(wilson_ends(share, n, LEVEL))
    times, survival, errors = map(list, zip(*curves, strict=True))
    return RiskGroups(names, rows, times, survival, errors, bands)


def survival_at(time: Array, event: NDArray[np.bool_], when: float) -> Interval:
    """Kaplan-Meier's estimate at a time, with a 95 % interval; NaN after the last row was censored.

    The interval is Wilson's for as many rows as Greenwood's standard error stands for, so that it has a width where no
    row has an event, or all have one.
    """
    times, share, error = kaplan_meier(time, event)
    if when > times[-1] and share[-1] > 0.0:
        return Interval(math.nan, math.nan, math.nan, WILSON, 0)
    middle, spread = (
        float(value_at(times, values, when, before)) for values, before in ((share, 1.0), (error, 0.0))
    )
    if spread > 0.0:
        n = middle * (1.0 - middle) / spread**2
    else:
        n = float((time >= when).sum() if middle > 0.5 else event.sum())
    return wilson(min(max(middle, 0.0), 1.0), n, LEVEL)


@checked
def risk_groups(estimator: SurvivalModel, X: Features, y: GivenTimes, *, n_groups: Groups = 3) -> RiskGroups:
    """Kaplan-Meier curves of rows, divided into groups of equal size by their predicted risk.

    Parameters
    ----------
    estimator : fitted MKLSurvival
        The model whose predictions are grouped.
    X, y
        Rows that were not in the fit.
    n_groups : int, default=3
        Number of groups, each of nearly the same number of rows.

    Returns
    -------
    RiskGroups

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(90, 2))
    >>> y = np.column_stack([rng.random(90) < 0.8, rng.exponential(np.exp(-2.0 * X[:, 0]))])
    >>> model = kw.MKLSurvival([kw.kernels.Linear()], "simple", C=1.0).fit(X[:60], y[:60])
    >>> found = risk_groups(model, X[60:], y[60:])
    >>> found.names
    ['low risk', 'risk 2 of 3', 'high risk']
    """
    risk = estimator.predict(X)
    time, event = _read(y, len(risk))
    rows = _divided(risk, n_groups)
    names = ["low risk", *(f"risk {k + 1} of {n_groups}" for k in range(1, n_groups - 1)), "high risk"]
    return curves_of(names, rows, time, event)


@checked
def survival_calibration(
    estimator: SurvivalModel,
    X: Features,
    y: GivenTimes,
    *,
    time: Positive,
    n_groups: Groups = 5,
    strata: OptionalEntries = None,
) -> SurvivalCalibration:
    """Whether as many rows survive a time as a model predicts, by groups of predictions of equal size.

    Parameters
    ----------
    estimator : fitted MKLSurvival
        The model whose predictions are grouped.
    X, y
        Rows that were not in the fit.
    time : float
        The time that rows survive or not, in the unit of the times of `y`.
    n_groups : int, default=5
        Number of groups, each of nearly the same number of rows.
    strata : array-like of shape (n_rows,), optional
        The stratum of every row, if there were strata in the fit.

    Returns
    -------
    SurvivalCalibration

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = np.column_stack([rng.random(200) < 0.8, rng.exponential(np.exp(-X[:, 0]))])
    >>> model = kw.MKLSurvival([kw.kernels.Linear()], "simple", C=1.0).fit(X[:100], y[:100])
    >>> found = survival_calibration(model, X[100:], y[100:], time=1.0, n_groups=2)
    >>> bool(((found.low < found.predicted) & (found.predicted < found.high)).all())
    True
    """
    predicted = estimator.predict_survival_function(X, [time], strata=strata)[:, 0]
    when, event = _read(y, len(predicted))
    found = []
    groups = _divided(predicted, n_groups)
    for own in groups:
        one = survival_at(when[own], event[own], time)
        found.append((float(predicted[own].mean()), one.value, one.low, one.high))
    predictions, middles, lows, highs = np.array(found).T
    return SurvivalCalibration(
        time, predictions, middles, lows, highs, np.array([len(own) for own in groups])
    )
