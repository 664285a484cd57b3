"""Survival in runs: columns of times and events, and what they say of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave._types import DataFrame, Series
from kernelweave_app.runs.columns import NO, YES, names_of_target, need_column, need_target
from kernelweave_app.runs.division import counts_of, texts_of
from kernelweave_app.runs.spec import Spec, divided_event, event_setting

#: Words for rows with an event and for censored ones, beside those of labels.
EVENT = (*YES, "t", "y", "event", "dead", "died", "death", "deceased")
CENSORED = (*NO, "f", "n", "censored", "censor", "alive", "living")
#: What `read_times` gives of a row, in this order.
TRUTH = ("event", "time", "stratum")
#: Rows, and values of a column, that a message lists.
MOST_ROWS, MOST_VALUES = 5, 6


def columns_of_times(spec: Spec, columns: Sequence[str]) -> tuple[str, str, list[str]]:
    """The columns of the time and of the event, and values of the latter that are events (none: by their words).

    Examples
    --------
    >>> columns_of_times(Spec(time="days", event="died=2"), ["days", "died"])
    ('days', 'died', ['2'])
    """
    if spec.target:
        raise InputError(
            f"Settings `time` and `event` take the place of `target`, got target {spec.target!r}. Leave it out."
        )
    if spec.task != "auto":
        raise InputError(
            f"Settings `time` and `event` are for survival, got task={spec.task!r}. Leave it out."
        )
    for name, other in (("time", "event"), ("event", "time")):
        if not getattr(spec, name).strip():
            raise InputError(
                f"Setting `{name}` is needed beside `{other}`: survival has a column of times, and one that says "
                "whether the event was seen then."
            )
    event, values = event_of(spec, columns)
    if event == spec.time:
        raise InputError(f"`time` and `event` must be two columns, got {event!r} twice.")
    return spec.time, event, values


def event_of(spec: Spec, columns: Sequence[str]) -> tuple[str, list[str]]:
    """The column of the event, and values of it that are events (none: by their words)."""
    if spec.event in columns:
        return spec.event, []
    return divided_event(spec.event)


def outcome_columns(spec: Spec, columns: Sequence[str]) -> list[str]:
    """The columns that are predicted as far as they are named: targets, or time and event."""
    if spec.survival:
        return [name for name in (spec.time, event_of(spec, columns)[0]) if name]
    return names_of_target(spec.target, columns)


#: Names of columns of times, of events, and of those that say the reverse.
_TIMES = re.compile(
    r"(?i)((survival|event|observed|follow[ _-]?up|os|pfs|dfs|fu)[ _.-]?)?(time|duration|days|weeks|months|years)"
    r"|futime|follow[ _-]?up|tenure|lenfol|survtime|t"
)
_EVENTS = re.compile(
    r"(?i)(os|pfs|dfs|fu)?[ _.-]?"
    r"(event|status|stat|died|dead|death|deceased|fail|failed|failure|churn(ed)?|relapsed?|delta)"
)
_CENSORS = re.compile(r"(?i)cens(or(ed|ing)?)?")


def is_reversed(name: str) -> bool:
    """Whether a column seems to say which rows are censored, in place of which have an event."""
    return bool(_CENSORS.fullmatch(name))


def obvious_times(table: DataFrame) -> dict[str, str]:
    """Settings `time` and `event` where one pair of columns is called so and holds such values; else none.

    Examples
    --------
    >>> import pandas as pd
    >>> obvious_times(pd.DataFrame({"age": [60, 70], "days": [20.0, 31.0], "died": [1, 0]}))
    {'time': 'days', 'event': 'died'}
    """
    import pandas as pd

    times, events = [], []
    for name in map(str, table.columns):
        if (_EVENTS.fullmatch(name) or is_reversed(name)) and not table[name].isna().all():
            with suppress(InputError):
                column = table[name].dropna()
                marked = read_events(column)
                if len(set(marked)) == 2:
                    # of a column that says which rows are censored, the value of the others
                    other = texts_of(column)[~marked].iloc[0]
                    events.append(event_setting(name, [other] if is_reversed(name) else []))
        elif (
            _TIMES.fullmatch(name)
            and pd.api.types.is_numeric_dtype(table[name])
            and table[name].nunique() > min(2, len(table) - 1)
            and table[name].min() >= 0
        ):
            times.append(name)
    return {"time": times[0], "event": events[0]} if len(times) == len(events) == 1 else {}


def need_targets(table: DataFrame, spec: Spec) -> list[str]:
    """The columns of the target, or of time, event and strata, all of them in the table."""
    if not spec.survival:
        if spec.strata:
            raise InputError("Setting `strata` is for survival, with `time` and `event`. Leave it out.")
        return need_target(table, spec.target)
    time, event, _ = columns_of_times(spec, list(map(str, table.columns)))
    need_column(table, time, "the time")
    need_column(table, event, "the event")
    if not spec.strata:
        return [time, event]
    need_column(table, spec.strata, "the strata")
    if spec.strata in (time, event):
        raise InputError(f"`strata` must be a column beside `time` and `event`, got {spec.strata!r}.")
    return [time, event, spec.strata]


def read_events(column: Series, values: Sequence[str] = ()) -> NDArray[np.bool_]:
    """Which rows have the event.

    Parameters
    ----------
    column : Series
        Without missing cells.
    values : sequence of str
        Those of an event; all others are censored. Without them words are read: 1, true, yes, dead and so on.

    Raises
    ------
    InputError
        For values that cannot be read, or that no row has.

    Examples
    --------
    >>> import pandas as pd
    >>> read_events(pd.Series(["dead", "alive"], name="status")).tolist()
    [True, False]
    >>> read_events(pd.Series([1, 2], name="status"), ["2"]).tolist()
    [False, True]
    """
    texts, name = texts_of(column).str.lower(), column.name
    counts = counts_of(texts)
    listed = ", ".join(f"{one!r} ({numbered(n, 'row')})" for one, n in list(counts.items())[:MOST_VALUES])
    if values:
        wanted = _plain(values)
        if unknown := wanted - counts.keys():
            raise InputError(
                f"Column {name!r} of the event has no value {min(unknown)!r}. Its values: {listed}."
            )
        return texts.isin(wanted).to_numpy()
    if not counts.keys() <= {*EVENT, *CENSORED}:
        named = event_setting(str(name), [max(counts)])
        raise InputError(
            f"Column {name!r} does not say which rows have the event: expected 0 and 1, true and false, yes and no, or "
            f"dead and alive, got {listed}. Name the value of an event, such as `event` '{named}'."
        )
    return texts.isin(EVENT).to_numpy()


def _plain(values: Sequence[str]) -> set[str]:
    """Values as `texts_of` writes cells, in lower case."""
    import pandas as pd

    return set(texts_of(pd.Series(list(values), dtype=object)).str.lower())


def read_strata(table: DataFrame, name: str) -> NDArray[np.object_]:
    """The strata of the rows of a table, as texts.

    Raises
    ------
    InputError
        For missing cells, with their rows.
    """
    _refuse(table, table[name].isna().to_numpy(), f"Column {name!r} of the strata has missing values")
    return np.asarray(texts_of(table[name]), dtype=object)


def strata_of(y: NDArray[Any]) -> NDArray[Any] | None:
    """The strata in what `read_times` gives, if there are some."""
    return y[:, 2] if y.shape[1] > 2 else None


def events_of(y: NDArray[Any]) -> NDArray[np.float64]:
    """The events in it: 1, or 0 where the time is censored."""
    return np.asarray(y[:, 0], dtype=np.float64)


def read_times(table: DataFrame, spec: Spec) -> NDArray[Any]:
    """Events and times of the rows of a table, (n_rows, 2), as `MKLSurvival` takes them; with strata a third column.

    Raises
    ------
    InputError
        For missing or negative times and missing events, with their rows, and where no row has an event.
    """
    import pandas as pd

    time, event, values = columns_of_times(spec, list(map(str, table.columns)))
    numbers = pd.to_numeric(table[time], errors="coerce").to_numpy(dtype=float)
    wrong = np.isnan(numbers) & ~table[time].isna().to_numpy()
    _refuse(table, wrong, f"Column {time!r} of the time must hold numbers", time)
    _refuse(table, table[time].isna().to_numpy(), f"Column {time!r} of the time has missing values")
    _refuse(table, table[event].isna().to_numpy(), f"Column {event!r} of the event has missing values")
    _refuse(table, numbers < 0.0, f"Column {time!r} of the time has negative values", time, left_out=True)
    seen = read_events(table[event], values)
    if not seen.any():
        raise InputError(
            f"No row has an event: column {event!r} of `event` holds only {table[event].iloc[0]!s:.40} or other words "
            f"for censored rows. Name the value of an event, such as '{event}=2', or choose another column."
        )
    y = np.column_stack([seen.astype(float), numbers])
    return np.column_stack([y.astype(object), read_strata(table, spec.strata)]) if spec.strata else y


def without_negative(table: DataFrame, spec: Spec) -> DataFrame:
    """A table whose negative times are missing, where rows with missing cells are left out."""
    import pandas as pd

    if not spec.survival or spec.missing != "drop" or not pd.api.types.is_numeric_dtype(table[spec.time]):
        return table
    negative = table[spec.time] < 0
    return table.assign(**{spec.time: table[spec.time].mask(negative)}) if negative.any() else table


def _refuse(
    table: DataFrame, wrong: NDArray[np.bool_], what: str, shown: str = "", *, left_out: bool = False
) -> None:
    """Raise for wrong rows, by their numbers."""
    places = np.flatnonzero(wrong)
    if not len(places):
        return
    some = places[:MOST_ROWS]
    rows = [f"{table.index[k]}" + (f" ({table[shown].iloc[k]})" if shown else "") for k in some]
    more = f" and {len(places) - MOST_ROWS} more" if len(places) > MOST_ROWS else ""
    raise InputError(
        f"{what}, in {'row' if len(places) == 1 else 'rows'} {', '.join(rows)}{more} (the first row is 0). Correct "
        f"these cells, or leave the rows out{' with `missing` drop' if left_out or not shown else ''}."
    )


def time_lines(spec: Spec, table: DataFrame) -> list[str]:
    """Lines of a script that make y of the columns of a table."""
    time, event, values = columns_of_times(spec, list(map(str, table.columns)))
    whole = r".str.replace(r'^(-?\d+)\.0$', r'\1', regex=True)"
    marks = f"table[{event!r}].astype(str).str.strip().str.lower(){whole}"
    of = sorted(_plain(values) or {*texts_of(table[event]).str.lower()} & {*EVENT})
    parts = f"event, table[{time!r}].astype(float)"
    if spec.strata:
        parts += f", table[{spec.strata!r}].astype(object).astype(str).str.strip(){whole}.astype(object)"
    return [f"event = {marks}.isin({of!r})", f"y = np.column_stack([{parts}])"]


def said(y: NDArray[Any]) -> str:
    """The rows in words.

    Examples
    --------
    >>> said(np.array([[1.0, 2.0], [0.0, 3.0], [0.0, 4.0]]))
    '3 rows, 1 event, 2 censored'
    """
    n = int(y[:, 0].sum())
    strata = strata_of(y)
    within = "" if strata is None else f", {numbered(len(set(strata)), 'stratum', 'strata')}"
    return f"{numbered(len(y), 'row')}, {numbered(n, 'event')}, {len(y) - n} censored{within}"
