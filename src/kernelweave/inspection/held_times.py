"""Rows with censored times that were not fitted: risks, survival, scores, curves of groups of risk, and findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import Floats, InputError
from kernelweave._docstrings import texts_of
from kernelweave._drawing import rounded, score_text
from kernelweave._forms import ShortRepr, numbered
from kernelweave._parameters import InstanceOf, Number, OneOf, Positive, Rule, Unfit, Whole, checked
from kernelweave._types import Array, DataFrame, Features, Labels, Tree
from kernelweave.estimators import MKLSurvival
from kernelweave.fitting.survival import brier, counts, harrell, kaplan_meier, read_times, uno, value_at
from kernelweave.inspection.arguments import OptionalEntries
from kernelweave.inspection.held import RowScore, beside, losses_of_rows
from kernelweave.inspection.paired import PairedTest
from kernelweave.inspection.registry import (
    LEVEL,
    Basis,
    Finding,
    Interval,
    Table,
    at,
    ends,
    finding,
    gained,
    intervals_of,
    only,
    unsure,
)
from kernelweave.inspection.scores import (
    FEWEST_ROWS,
    NEW_ROWS,
    OF_95,
    WILSON,
    delta_interval,
    delta_p_value,
    of_held,
    wilson,
    wilson_ends,
)

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


def calibration_of(
    groups: list[NDArray[np.intp]], predicted: Array, time: Array, event: NDArray[np.bool_], when: float
) -> SurvivalCalibration:
    """Predicted survival at a time, and what was observed, of groups of rows."""
    observed = [survival_at(time[own], event[own], when) for own in groups]
    means = np.array([predicted[own].mean() for own in groups])
    middles, lows, highs = np.array([[one.value, one.low, one.high] for one in observed]).reshape(-1, 3).T
    return SurvivalCalibration(when, means, middles, lows, highs, np.array([len(own) for own in groups]))


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
    return calibration_of(_divided(predicted, n_groups), predicted, when, event, time)


#: Times at which errors of survival are averaged, between these shares of the events.
N_TIMES, FIRST, LAST = 30, 0.1, 0.9
#: Groups of risk, and at most of predicted survival, with the rows that each of these has at least.
N_GROUPS, MOST_GROUPS, ROWS_OF_GROUP = 3, 5, 20
CONCORDANCE, BRIER = "concordance", "integrated Brier score"
#: The same without any column: Kaplan-Meier's curve of the training rows for all.
WITHOUT = f"{BRIER} of one curve for all"
EQUAL, GAIN = "concordance of equal weights", "gain over equal weights"
OUT_OF_FOLD = "rows out of fold"
ABOUT = "the chance that of two rows the one with the larger risk has its event first"


def smallest_is_best(score: str) -> bool:
    """Whether the smallest value of a score of rows or of survival is the best, by its name up to a comma.

    Examples
    --------
    >>> smallest_is_best("RMSE, held out"), smallest_is_best("integrated Brier score"), smallest_is_best("R^2")
    (True, True, False)
    """
    return score.partition(",")[0] in {*losses_of_rows(), BRIER, WITHOUT}


def is_survival(model: Any) -> bool:
    """Whether a model predicts censored times."""
    return hasattr(model, "predict_cumulative_hazard")


def usual_times(model: Any) -> Array:
    """Times for predictions of survival where none are named: quarters of the times of events of the fit."""
    found = np.quantile(model.event_times_, (0.25, 0.5, 0.75))
    return np.unique([rounded_time(float(one), model.event_times_) for one in found])


def rounded_time(time: float, times: Array) -> float:
    """A time with digits for a thousandth of the range of times."""
    span = float(np.ptp(times))
    return round(time, 3 - math.floor(math.log10(span))) if span > 0.0 else time


def survival_columns(
    model: Any, X: Features, times: Any = None, strata: Labels | None = None
) -> dict[str, Labels]:
    """Risks and survival as columns by their names, such as "risk" and "survival at 365"."""
    when = usual_times(model) if times is None else np.atleast_1d(np.asarray(times, dtype=float))
    survival = _known_survival(model, X, when, strata)
    named = {f"survival at {time:.6g}": own for time, own in zip(when, survival.T, strict=True)}
    return {"risk": model.predict(X), **named}


def _known_survival(model: Any, X: Features, times: Array, strata: Labels | None) -> Array:
    """Predicted survival; NaN in rows of strata without training rows, which have a risk but no baseline."""
    if strata is None or not len(model.strata_):
        return np.asarray(model.predict_survival_function(X, times, strata=strata))
    seen = np.isin(strata, model.strata_)
    stand_in = np.where(seen, strata, model.strata_[0])
    survival = model.predict_survival_function(X, times, strata=stand_in)
    return np.where(seen[:, None], survival, np.nan)


def concordance_of_rows(
    time: Array, event: NDArray[np.bool_], risk: Array, folds: NDArray[np.intp] | None = None
) -> RowScore:
    """Harrell's concordance with what each row has in it; with `folds`, or other parts, of pairs within one."""
    right, pairs = np.zeros(len(time)), np.zeros(len(time))
    for one in np.flatnonzero(event):
        # at equal times events come first
        outlive = (time > time[one]) | ((time == time[one]) & ~event)
        if folds is not None:
            outlive &= folds == folds[one]
        better = outlive * (0.5 * (risk < risk[one]) + 0.5 * (risk <= risk[one]))
        pairs += outlive
        right += better
        pairs[one] += outlive.sum()
        right[one] += better.sum()
    total = 0.5 * pairs.sum()
    value = float(0.5 * right.sum() / total) if total else float("nan")
    return RowScore(value, len(time) * (right - value * pairs) / (total or 1.0), "fraction")


def compare_risks(
    time: Array,
    event: NDArray[np.bool_],
    first: Array,
    second: Array,
    strata: Labels | None = None,
    groups: Labels | None = None,
) -> PairedTest:
    """Whether two models have the same concordance on the same rows, by what each row has in the difference.

    With `strata` pairs of rows are those of one stratum; with `groups` these are independent, not rows.
    """
    parts = None if strata is None else np.unique(strata, return_inverse=True)[1]
    one, other = (concordance_of_rows(time, event, risk, parts) for risk in (first, second))
    gain = one.less(other).of_groups(groups)
    found, why = delta_interval(gain, LEVEL), "both models predict risks of the same held-out rows"
    # where no row differs the interval has no ends
    low, high = (found.low, found.high) if found.low == found.low else (gain.value, gain.value)
    return PairedTest(
        "test by the delta method", why, gain.value, low, high, delta_p_value(gain), len(time), {}
    )


@dataclass(frozen=True)
class HeldTimes(ShortRepr):
    """Rows with censored times that were not fitted, with their predictions.

    Attributes
    ----------
    time, event, risk : array of shape (n_rows,)
    times : array of shape (n_times,)
        Where survival was predicted, ascending.
    survival : array of shape (n_rows, n_times)
    alone : array of shape (n_rows, n_times), optional
        Kaplan-Meier's curve of the training rows.
    training : pair of arrays, optional
        Times and events of the training rows, from which censoring is estimated.
    equal : array of shape (n_rows,), optional
        Risks by a model with equal weights.
    table : frame, optional
        Of predictions, with names of the rows.
    folds : array of int, shape (n_rows,), optional
        Which of several models has predicted each row.
    strata : array of shape (n_rows,), optional
        The stratum of each row, if the model has strata.
    groups : array of shape (n_rows,), optional
        Groups of rows that depend on each other; rows of different ones are independent.
    """

    time: Array
    event: NDArray[np.bool_]
    risk: Array
    times: Array
    survival: Array
    alone: Array | None = None
    training: tuple[Array, NDArray[np.bool_]] | None = None
    equal: Array | None = None
    table: DataFrame = None
    folds: NDArray[np.intp] | None = None
    strata: Labels | None = None
    groups: Labels | None = None

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def of(cls, model: Any, X: Features, y: Any, training: Any = None, *, times: Any = None) -> Self:
        """The predictions of a model for rows; `training` are the targets of its training rows."""
        time, event, strata = read_times(y)
        strata = strata if len(model.strata_) else None
        when = model.event_times_ if times is None else times
        alone, known = None, None
        if training is not None:
            known = read_times(training)[:2]
            seen, share, _ = kaplan_meier(*known)
            alone = np.tile(value_at(seen, share, when, 1.0), (len(time), 1))
        survival = _known_survival(model, X, when, strata)
        if alone is not None:
            # both scores are of the same rows
            alone[np.isnan(survival).any(axis=1)] = np.nan
        return cls(time, event, model.predict(X), when, survival, alone, known, strata=strata)

    @classmethod
    def joined(cls, parts: Sequence[Self], tests: Sequence[NDArray[np.intp]], training: Any) -> Self:
        """Test rows of folds, all at the same times, in the order of the rows; censoring is that of all rows."""
        every = np.concatenate(tests)
        if len(np.unique(every)) < len(every):
            raise ValueError("a row is in several folds")
        order = np.argsort(every, kind="stable")
        names = ("time", "event", "risk", "survival", "alone", "equal", "strata", "groups")
        folds = np.concatenate([np.full(len(test), k) for k, test in enumerate(tests)])[order]
        found = beside(parts, names)
        columns: Tree = {name: None if one is None else one[order] for name, one in found.items()}
        return cls(times=parts[0].times, training=read_times(training)[:2], folds=folds, **columns)

    @property
    def n_events(self) -> int:
        """Rows with an event."""
        return int(self.event.sum())

    @property
    def compared(self) -> NDArray[np.intp] | None:
        """Numbers of the parts of the rows in which pairs are compared: those of one fold and stratum; None for one."""
        if self.strata is None:
            return self.folds
        own = np.unique(self.strata, return_inverse=True)[1]
        return own if self.folds is None else own + (own.max() + 1) * self.folds

    @cached_property
    def row_scores(self) -> dict[str, RowScore]:
        """Scores with what every row has in them."""
        found = {CONCORDANCE: concordance_of_rows(self.time, self.event, self.risk, self.compared)}
        if self.equal is not None:
            found[EQUAL] = concordance_of_rows(self.time, self.event, self.equal, self.compared)
            found[GAIN] = found[CONCORDANCE].less(found[EQUAL])
        return found

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Scores with their intervals; those of Brier scores are not known."""
        n = len(self)
        made = {
            name: delta_interval(one.of_groups(self.groups), LEVEL) for name, one in self.row_scores.items()
        }
        found = {name: replace(one, n=n) for name, one in made.items()}
        for name, survival in ((BRIER, self.survival), (WITHOUT, self.alone)):
            value = None if survival is None else self._integrated(survival)
            if value is not None:
                found[name] = Interval(value, n=n)
        return found

    @property
    def scores(self) -> dict[str, float]:
        """Scores by their names."""
        return {name: one.value for name, one in self.intervals.items()}

    @property
    def texts(self) -> dict[str, str]:
        """Scores as texts, with their intervals."""
        n = len(self)
        found = {}
        for name, one in self.intervals.items():
            if one.value == one.value:
                words = one.in_words(name, n)
                found[name] = score_text(name, one.value, n) + (f" ({words})" if words else "")
        return found

    def _integrated(self, survival: Array) -> float | None:
        grid, errors = self.grid, self.errors(survival)
        return (
            None
            if errors is None or grid is None
            else float(np.trapezoid(errors, grid) / (grid[-1] - grid[0]))
        )

    def errors(self, survival: Array) -> Array | None:
        """Brier scores of survival at the times of the grid; None where events are too few."""
        grid = self.grid
        if grid is None:
            return None
        places = np.searchsorted(self.times, grid, side="right") - 1
        # before the first of the times nothing has happened
        values = np.where(places >= 0, survival[:, np.maximum(places, 0)], 1.0)
        known = (self.time, self.event) if self.training is None else self.training
        rows = ~np.isnan(values).any(axis=1)
        return brier(self.time[rows], self.event[rows], values[rows], grid, known) if rows.any() else None

    @property
    def grid(self) -> Array | None:
        """Times over which errors are averaged; None where events are too few."""
        if self.n_events < 2:
            return None
        first, last = np.quantile(self.time[self.event], (FIRST, LAST))
        return np.linspace(first, last, N_TIMES) if first < last else None

    @property
    def middle(self) -> float:
        """The median of the times of events: where survival is compared."""
        return rounded_time(float(np.median(self.time[self.event])), self.time[self.event])

    def predicted_at(self, time: float) -> Array:
        """Predicted survival of every row at a time."""
        place = int(np.searchsorted(self.times, time, side="right")) - 1
        return self.survival[:, place] if place >= 0 else np.ones(len(self))

    def risk_groups(self) -> RiskGroups | None:
        """Kaplan-Meier curves of rows with small to large risk; risks of several models are compared within folds.

        None where too few risks differ.
        """
        folds = np.zeros(len(self), dtype=np.intp) if self.folds is None else self.folds
        parts: list[list[NDArray[np.intp]]] = [[] for _ in range(N_GROUPS)]
        for fold in np.unique(folds):
            own = np.flatnonzero(folds == fold)
            divided_rows = divided(self.risk[own], N_GROUPS)
            if len(divided_rows) < N_GROUPS:
                return None
            for k, some in enumerate(divided_rows):
                parts[k].append(own[some])
        rows = [np.sort(np.concatenate(part)) for part in parts]
        return curves_of(["low risk", "middle risk", "high risk"], rows, self.time, self.event)

    def calibration(self, time: float, n_groups: int) -> SurvivalCalibration:
        """Predicted and observed survival at a time, by groups of predictions."""
        predicted = self.predicted_at(time)
        rows = np.flatnonzero(~np.isnan(predicted))
        groups = [rows[own] for own in divided(predicted[rows], n_groups)]
        found = calibration_of(groups, predicted, self.time, self.event, time)
        # a group that was not followed so far says nothing
        known = ~np.isnan(found.observed)
        columns = {name: part[known] for name, part in vars(found).items() if name != "time"}
        return SurvivalCalibration(time, **columns)


# ---- findings --------------------------------------------------------------------------------------


def _scores_of(held: HeldTimes, where: str, name: str, note: str) -> Finding:
    found: Mapping[str, Interval] = {k: one for k, one in held.intervals.items() if one.value == one.value}
    title = f"Scores of {where}"
    if held.strata is not None:
        note += " Pairs of rows are those of the same stratum."
        if without := int(np.isnan(held.survival).any(axis=1).sum()):
            note += (
                f" {numbered(without, 'row')} of strata without training rows have a risk and no survival."
            )
    brier_note = (
        f" {BRIER.capitalize()}: mean squared error of predicted survival between the times by which {FIRST:.0%} and "
        f"{LAST:.0%} of the events had happened, weighted against censoring; smaller is better."
    )
    table = Table.of_scores(name, title, found, f"{OF_95}. {note}{brier_note if BRIER in found else ''}")
    details = {"events": held.n_events}
    made = of_held(held, found, f"Scores of {where}. {note}", where, details=details, tables=(table,))
    if CONCORDANCE not in found:
        return made.warns(f"No two of the {where} can be compared: they have no concordance.", {})
    about = ABOUT if held.strata is None else ABOUT.replace("two rows", "two rows of one stratum")
    made = made.says(
        "score",
        f"Concordance of {{n:d}} {where} with {{k:d}} {'event' if held.n_events == 1 else 'events'} is {{v:score}}"
        f"{{interval:score}}: {about}.",
        **ends(CONCORDANCE),
        k=("details", "events"),
    )
    one = found[CONCORDANCE]
    made = made.decides(
        "baseline",
        "Better than chance?",
        "yes" if one.low > 0.5 else "no" if one.high < 0.5 else "inconclusive",
        "rows in any order have a concordance of 0.5, and here it is {v:score}{interval:score}.",
        **ends(CONCORDANCE),
    )
    if BRIER in found and WITHOUT in found:
        made = made.says(
            "score",
            "The integrated Brier score of these rows, a mean squared error of predicted survival, is {v:score}; with "
            "the same curve for all it is {w:score}.",
            v=at(BRIER),
            w=at(WITHOUT),
        )
    if held.n_events < FEWEST_ROWS:
        made = made.warns(
            f"The {where} have {numbered(held.n_events, 'event')}, fewer than {FEWEST_ROWS}: their scores say little.",
            {"events": held.n_events},
        )
    return made


@finding("held-out times", title="Scores of held-out rows", needs=("held_times",))
def _held_out(basis: Basis) -> Finding | None:
    return _scores_of(only(HeldTimes, basis.held_times), "held-out rows", "scores", NEW_ROWS)


@finding("out-of-fold times", title="Scores out of fold", needs=("nested_times",))
def _out_of_fold(basis: Basis) -> Finding:
    held = only(HeldTimes, basis.nested_times)
    n_folds = 0 if held.folds is None else len(np.unique(held.folds))
    note = (
        f"Each row was predicted by a model of the other {n_folds - 1} of {n_folds} folds, with a C of its own. Pairs "
        "of rows are those of the same fold."
    )
    made = _scores_of(held, "training rows out of fold", "out-of-fold", note)
    if GAIN not in made.values:
        return made
    answer = gained(made.values[GAIN])
    return made.decides(
        "baseline",
        "Better than equal weights of all kernels?",
        answer,
        f"their concordance is {{w:score}}, a difference of {{v:score}}{{interval:score}}{unsure(answer, 'gain')}.",
        **ends(GAIN),
        rows=at(GAIN, "n"),
        w=at(EQUAL),
    )


@finding("risk groups", title="Survival by risk", needs=("nested_times",))
def _risk_groups(basis: Basis) -> Finding | None:
    held = only(HeldTimes, basis.nested_times)
    if not held.n_events or len(held) < N_GROUPS * FEWEST_ROWS:
        return None
    time, found = held.middle, held.risk_groups()
    if found is None:
        return None
    values = {
        name: survival_at(held.time[rows], held.event[rows], time)
        for name, rows in zip(found.names, found.rows, strict=True)
    }
    if any(one.value != one.value for one in values.values()):
        return None
    columns = {
        "group": found.names,
        "rows": [len(rows) for rows in found.rows],
        "events": [int(held.event[rows].sum()) for rows in found.rows],
        f"without an event at {time:g}": [one.value for one in values.values()],
        "low": [one.low for one in values.values()],
        "high": [one.high for one in values.values()],
    }
    meaning = (
        f"Share of the rows without an event at time {time:g} (Kaplan-Meier), in thirds of the rows by the risk that "
        "models of the other folds predict."
    )
    formats = dict.fromkeys(list(columns)[3:], "percent@rows")
    table = Table.of("risk-groups", "Survival by risk", columns, f"{OF_95}. {meaning}", formats, brief=True)
    curve_lists = {
        "times": [one.tolist() for one in found.times],
        "survival": [one.tolist() for one in found.survival],
        "errors": [one.tolist() for one in found.errors],
        "low": [low.tolist() for low, _ in found.bands],
        "high": [high.tolist() for _, high in found.bands],
    }
    details = {"time": time, "names": found.names, "rows": columns["rows"], **curve_lists}
    made = of_held(held, values, meaning, OUT_OF_FOLD, form=".1%", details=details, tables=(table,))
    return made.says(
        "score",
        "At time {t:g}, {v:percent} of the third of the rows with the smallest risk have no event yet, and "
        "{w:percent} of the third with the largest.",
        t=("details", "time"),
        v=at(found.names[0]),
        w=at(found.names[-1]),
    )


@finding("survival calibration", title="Calibration of survival", needs=("nested_times",))
def _calibration(basis: Basis) -> Finding | None:
    held = only(HeldTimes, basis.nested_times)
    n_groups = min(MOST_GROUPS, len(held) // ROWS_OF_GROUP)
    if n_groups < 2 or not held.n_events:
        return None
    found = held.calibration(held.middle, n_groups)
    n_groups = len(found.n_rows)
    if n_groups < 2:
        return None
    inside = (found.low <= found.predicted) & (found.predicted <= found.high)
    shown = ("predicted", "observed", "low", "high")
    columns = {"rows": found.n_rows, **{name: getattr(found, name) for name in shown}}
    names = [f"group {k + 1}" for k in range(n_groups)]
    values = intervals_of(names, found.observed, found.low, found.high, method="Wilson")
    meaning = (
        f"Predicted and observed (Kaplan-Meier) survival at time {found.time:g}, by groups of predictions out of "
        "fold."
    )
    note = f"{OF_95} of what was observed. {meaning}"
    formats = dict.fromkeys(shown, "percent@rows")
    table = Table.of("survival-calibration", "Calibration of survival", columns, note, formats)
    far = float(np.abs(found.predicted - found.observed).max())
    details = {"time": found.time, "inside": int(inside.sum()), "groups": n_groups, "largest": far}
    details |= {name: np.asarray(one).tolist() for name, one in columns.items()}
    made = of_held(held, values, meaning, OUT_OF_FOLD, form=".1%", details=details, tables=(table,))
    return made.says(
        "score",
        "Calibration at time {t:g}: in {k:d} of {m:d} groups of rows, predicted survival lies inside the 95 % interval "
        f"of what was observed; the largest difference is {rounded(far, len(held), 'percent')}.",
        t=("details", "time"),
        k=("details", "inside"),
        m=("details", "groups"),
    )


@finding("survival error", title="Error of survival over time", needs=("nested_times",))
def _error_over_time(basis: Basis) -> Finding | None:
    held = only(HeldTimes, basis.nested_times)
    grid, own = held.grid, held.errors(held.survival)
    alone = None if held.alone is None else held.errors(held.alone)
    if grid is None or own is None or alone is None:
        return None
    columns = {"time": grid, "model": own, "one curve for all": alone}
    meaning = (
        "Brier score of survival out of fold, a mean squared error weighted against censoring, at times by which "
        f"{FIRST:.0%} to {LAST:.0%} of the events had happened; smaller is better."
    )
    formats = dict.fromkeys(list(columns)[1:], f"score@{len(held)}")
    table = Table.of("survival-error", "Brier score of survival over time", columns, meaning, formats)
    return Finding(
        {name: held.intervals[name] for name in (BRIER, WITHOUT)},
        meaning,
        len(held),
        OUT_OF_FOLD,
        details={name: one.tolist() for name, one in columns.items()},
        tables=(table,),
    )
