"""Columns of dates: as they are given, and the numbers that kernels read of them: trend, season and elapsed time."""

from __future__ import annotations

import datetime
import math
import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, is_missing
from kernelweave._errors import capital
from kernelweave._types import Values

__all__ = ["DateForm", "at_zone", "date_forms", "elapsed_pairs", "read_dates"]

Array = NDArray[np.float64]

#: Lengths of periods in days, and what they are called.
PERIODS = {"year": 365.2425, "week": 7.0, "day": 1.0}
SAID = {"year": "day of the year", "week": "weekday", "day": "time of day"}
#: Days that the training rows must cover for a period. A year: eleven months, so that records of one year have it.
COVERED = {"year": 334.0, "week": 7.0, "day": 1.0}
#: Different positions in a period below which it is not taken: yearly records have one day of the year.
FEWEST_POSITIONS = {"year": 3, "week": 2, "day": 2}
#: Columns of dates of which every pair has its elapsed time; of more columns, each has that since the column before.
PAIRED = 4

_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = datetime.timedelta(days=1)
_ORDINAL = _EPOCH.toordinal()
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)(?::?(\d\d))?")
#: An offset holds for a quarter of an hour.
_QUARTERS = 96


@dataclass(frozen=True)
class DateForm:
    """The numbers that kernels read of a column of dates, with what was taken from training rows.

    These are the trend, ``(days - mean) / scale``, sine and cosine of the position in each period, and for other
    columns of dates in the same table the elapsed time since then.

    Attributes
    ----------
    place : int
        Position of the column in its table.
    first, last : float
        The first and last date of the training rows, as days since 1970.
    mean, scale : float
        Mean and standard deviation of the days.
    periods : tuple of {"year", "week", "day"}
        Those that the training rows cover.
    zone : str
        The time zone in which dates are read; empty for dates without one.
    since : tuple of (int, float, float)
        Positions of other columns of dates, with mean and standard deviation of the days since them.

    Examples
    --------
    >>> form = date_forms({0: np.arange(0.0, 800.0)})[0]
    >>> form.describe()
    'dates from 1970-01-01 to 1972-03-10, as trend, day of the year and weekday'
    >>> form.features(np.array([[0.0]])).round(2)
    array([[-1.73,  0.  ,  1.  ,  0.  ,  1.  ]])
    """

    place: int
    first: float
    last: float
    mean: float = 0.0
    scale: float = 1.0
    periods: tuple[str, ...] = ()
    zone: str = ""
    since: tuple[tuple[int, float, float], ...] = ()

    @property
    def width(self) -> int:
        """Number of columns of `features`."""
        return 1 + 2 * len(self.periods)

    def features(self, days: Values) -> Values:
        """Trend and season of days, shape (n_rows, 1), also of nodes of a graph; NaN of NaN."""
        found: list[Any] = [(days - self.mean) / self.scale]
        for period in self.periods:
            # a weekday is the same all day
            angle = (2.0 * math.pi / PERIODS[period]) * (np.floor(days) if period == "week" else days)
            found += [np.sin(angle), np.cos(angle)]
        return np.concat(found, axis=1)

    def names(self, column: str) -> list[str]:
        """What the columns of `features` are called."""
        parts = [f"{SAID[period]} ({wave})" for period in self.periods for wave in ("sine", "cosine")]
        return [f"{column}: {part}" for part in (f"days since {_written(self.first)}", *parts)]

    def describe(self) -> str:
        """The dates of the training rows, and what is read of them."""
        zone = f" in the time zone {self.zone}" if self.zone else ""
        parts = ["trend", *(SAID[period] for period in self.periods)]
        said = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        return f"dates from {_written(self.first)} to {_written(self.last)}{zone}, as {said}"


def _written(days: float) -> str:
    return str(np.datetime64(0, "D") + np.timedelta64(math.floor(days), "D"))


def date_forms(
    columns: Mapping[int, Array], zones: Mapping[int, str] | None = None, weights: Array | None = None
) -> dict[int, DateForm]:
    """The forms of the columns of dates of one table.

    Parameters
    ----------
    columns : dict of int to array of shape (n_rows,)
        Days of the training rows by position of the column, NaN where missing.
    zones : dict of int to str, optional
    weights : array of shape (n_rows,), optional
        Weights as repetitions of the rows.
    """
    some = next(iter(columns.values()), np.empty(0))
    counted = np.ones(len(some)) if weights is None else weights
    found = {}
    for j, days in columns.items():
        known = days[~np.isnan(days)]
        mean, scale = _moments(days, counted)
        first, last = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        found[j] = DateForm(j, first, last, mean, scale, _periods(known), (zones or {}).get(j, ""))
    for j, k in elapsed_pairs(list(columns)):
        passed = columns[k] - columns[j]
        known = ~np.isnan(passed)
        # equal spans between days differ by their rounding
        rounding = 16.0 * np.finfo(np.float64).eps * np.abs(columns[k][known]).max(initial=1.0)
        if known.any() and np.ptp(passed[known]) > rounding:
            found[k] = replace(found[k], since=(*found[k].since, (j, *_moments(passed, counted))))
    return found


def elapsed_pairs(places: list[int]) -> list[tuple[int, int]]:
    """The pairs of columns that have an elapsed time: all of a few columns, of more each with the one before."""
    return list(combinations(places, 2) if len(places) <= PAIRED else pairwise(places))


def _moments(values: Array, weights: Array) -> tuple[float, float]:
    """Weighted mean and standard deviation of the known values; 1 for the latter where they do not vary."""
    known = ~np.isnan(values) & (weights > 0)
    if not known.any():
        return 0.0, 1.0
    mean = float(np.average(values[known], weights=weights[known]))
    scale = math.sqrt(np.average((values[known] - mean) ** 2, weights=weights[known]))
    return mean, scale if scale > 1e-12 * max(1.0, abs(mean)) else 1.0


def _periods(days: Array) -> tuple[str, ...]:
    """The periods that some days cover, and in which they have different positions."""
    if not len(days):
        return ()
    reach, whole = float(days.max() - days.min()), np.floor(days)
    calendar = whole.astype("datetime64[D]")
    positions = {
        "year": (calendar - calendar.astype("datetime64[Y]")).astype(np.int64) // 2,  # leap years
        "week": whole % 7,
        "day": days - whole,
    }
    found = [
        period
        for period, length in COVERED.items()
        if reach >= length and len(np.unique(positions[period])) >= FEWEST_POSITIONS[period]
    ]
    # of monthly records the weekday is an accident; one on day 31 is on the last day of shorter months
    months = calendar.astype("datetime64[M]")
    day, last = calendar - months.astype("datetime64[D]"), (months + 1).astype("datetime64[D]") - 1
    monthly = bool((day == np.minimum(day.max(), last - months.astype("datetime64[D]"))).all())
    return tuple(period for period in found if not (monthly and period == "week"))


# ---- given columns ------------------------------------------------------------------------------------


def read_dates(values: NDArray[Any], what: str, zone: str = "") -> tuple[Array, str | None] | None:
    """Dates of a given column as days since 1970, or durations as days, NaN where missing; None if it holds neither.

    The second part is the time zone of dates, whose days are those of UTC then, and empty for dates without one, whose
    days are as on a calendar; it is None for durations, which are numbers.

    Parameters
    ----------
    values : array of shape (n_rows,)
        Of datetime64 or timedelta64, or of objects: dates of Python, times with a date, pandas' timestamps, periods
        (their start) and durations.
    what : str
        The name of the column in messages.
    zone : str, default=""
        The time zone of values in UTC.

    Raises
    ------
    InputError
        For columns that hold dates and something else, or dates with and without a time zone.
    """
    if values.dtype.kind in "Mm":
        unit = np.timedelta64(1, "D")
        since = values - np.datetime64(0, "D") if values.dtype.kind == "M" else values
        missing = np.isnat(values)
        days = np.where(missing, np.timedelta64(0, "D"), since) / unit
        return np.where(missing, np.nan, days), zone if values.dtype.kind == "M" else None
    if values.dtype.kind != "O":
        return None
    first = next((value for value in values if not is_missing(value)), None)
    if not _is_date(first) and not _is_duration(first):
        return None
    right = _is_duration if _is_duration(first) else _is_date
    wrong = next((value for value in values if not is_missing(value) and not right(value)), None)
    if wrong is not None:
        raise InputError(
            f"{capital(what)} must hold dates only, got {wrong!r:.40} beside {first!r:.60}. Convert it, "
            "for example with pandas.to_datetime."
        )
    if _is_duration(first):
        spans = [math.nan if is_missing(v) else _span(v) for v in values]
        return np.array(spans, dtype=np.float64), None
    read = [(math.nan, None) if is_missing(value) else _moment(value) for value in values]
    zones = {own for days, own in read if not math.isnan(days)}
    if None in zones and len(zones) > 1:
        raise InputError(
            f"{capital(what)} has dates with and without a time zone. Give all of them one, or none."
        )
    [own] = zones if len(zones) == 1 else ["UTC"]
    return np.array([days for days, _ in read], dtype=np.float64), own or ""


def at_zone(days: Array, zone: str) -> Array:
    """Days of UTC as those on the calendar and the clock of a time zone."""
    if not zone or (place := _zone(zone)) is None:
        return days
    found = days.copy()
    known = np.flatnonzero(np.isfinite(days))
    quarters, back = np.unique(np.floor(days[known] * _QUARTERS), return_inverse=True)
    offsets = [_offset(float(quarter), place) for quarter in quarters]
    found[known] += np.array(offsets, dtype=np.float64)[back]
    return found


def _offset(quarter: float, place: datetime.tzinfo) -> float:
    try:
        moment = (_EPOCH + datetime.timedelta(days=quarter / _QUARTERS)).replace(tzinfo=datetime.UTC)
        return (moment.astimezone(place).utcoffset() or datetime.timedelta()) / _DAY
    except OverflowError:
        # before the year 1 or after 9999
        return 0.0


def _zone(name: str) -> datetime.tzinfo | None:
    """A time zone by its name, or by its offset; None for UTC and for unknown ones."""
    if name in ("", "UTC"):
        return None
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes, seconds = match.groups()
        span = datetime.timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds or 0))
        return datetime.timezone(span if sign == "+" else -span)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return None


def _is_date(value: object) -> bool:
    """Whether a cell is a date; those of pandas' periods have a start."""
    return isinstance(value, datetime.date | np.datetime64) or type(value).__name__ == "Period"


def _is_duration(value: object) -> bool:
    return isinstance(value, datetime.timedelta | np.timedelta64)


def _span(value: Any) -> float:
    return float(value / (np.timedelta64(1, "D") if isinstance(value, np.timedelta64) else _DAY))


def _moment(value: Any) -> tuple[float, str | None]:
    """Days since 1970, in UTC where the cell has a time zone, and its name."""
    if isinstance(value, np.datetime64):
        return float((value - np.datetime64(0, "D")) / np.timedelta64(1, "D")), None
    if not isinstance(value, datetime.date):
        value = value.start_time
    if not isinstance(value, datetime.datetime):
        return float(value.toordinal() - _ORDINAL), None
    offset = value.utcoffset()
    days = (value.replace(tzinfo=None) - _EPOCH) / _DAY
    if offset is None:
        return float(days), None
    name = str(value.tzinfo)
    return float(days - offset / _DAY), name if name == "UTC" or _zone(name) is not None else "UTC"
