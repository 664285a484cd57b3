"""Censored times: reading them, the baseline hazard of a Cox model, and scores of predictions.

All functions take arrays of times, events (True where the event was seen) and weights of rows.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError, as_floats, check_finite, is_missing
from kernelweave._types import Array
from kernelweave.machines.losses import Cox

#: Rows of a block in which pairs are compared one by one.
BLOCK = 2000
#: What `y` may be, in words.
TAKEN = (
    "`y` must hold events and times: a structured array or a frame with the columns `event` and `time`, or two "
    "columns, the event (1, or 0 where the time is censored) before the time; a third one, `stratum`, is optional"
)


def read_times(y: Any) -> tuple[Array, NDArray[np.bool_], NDArray[Any] | None]:
    """Times, events and strata, if there are some, of what an estimator takes as y."""
    if hasattr(y, "columns") and not isinstance(y, np.ndarray):
        names = [str(name) for name in y.columns]
        columns = {name: np.asarray(y[column]) for name, column in zip(names, y.columns, strict=True)}
    elif getattr(getattr(y, "dtype", None), "names", None):
        names = list(y.dtype.names)
        columns = {name: np.asarray(y[name]) for name in names}
    else:
        try:
            array = np.asarray(y)
            rows = array if array.dtype.kind == "O" else array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{TAKEN}: {error}.") from error
        if rows.ndim != 2:
            raise InputError(f"{TAKEN}, got shape {rows.shape}.")
        names = ["event", "time", "stratum"][: rows.shape[1]]
        columns = dict(zip(names, rows.T, strict=False))
        if rows.shape[1] > 3:
            names = [str(k) for k in range(rows.shape[1])]
    if not 2 <= len(names) <= 3:
        raise InputError(f"{TAKEN}, got {len(names)} columns.")
    if not {"event", "time"} <= set(columns):
        # columns with names of their own, in this order
        columns = dict(zip(("event", "time", "stratum"), columns.values(), strict=False))
    elif len(names) == 3 and "stratum" not in columns:
        raise InputError(f"{TAKEN}, got {', '.join(names)}.")
    times = as_floats(columns["time"], "time")
    check_finite(times, "time")
    if (times < 0.0).any():
        raise InputError(
            f"Times must not be negative, got {float(times.min()):g}. Check the column of times."
        )
    seen = as_floats(columns["event"], "event")
    check_finite(seen, "event")
    if not np.isin(seen, (0.0, 1.0)).all():
        wrong = float(seen[~np.isin(seen, (0.0, 1.0))][0])
        swapped = (
            " The columns seem to be swapped: the event comes first." if np.isin(times, (0, 1)).all() else ""
        )
        raise InputError(f"Events must be 1, or 0 where the time is censored, got {wrong:g}.{swapped}")
    strata = columns.get("stratum")
    if strata is not None and any(missing := [is_missing(one) for one in np.asarray(strata, dtype=object)]):
        raise InputError(
            f"Row {missing.index(True)} has no stratum. Fill missing strata, or leave these rows out."
        )
    if strata is not None and len({isinstance(one, str) for one in np.asarray(strata, dtype=object)}) > 1:
        raise InputError("Strata must be all texts or all numbers, got both. Convert them to text.")
    return times, seen > 0.0, strata


def targets_of(
    time: Array, event: NDArray[np.bool_], strata: NDArray[Any] | None, weight: Array | None
) -> Array:
    """Targets of `Cox`; raises for rows of which nothing can be learnt."""
    used = event if weight is None else event & (weight > 0.0)
    if not used.any():
        raise InputError(
            "No row has an event: all times are censored, and nothing can be learnt of them. Check the column of "
            "events, which is 1 where the event was seen."
        )
    return Cox.targets(time, event, strata)


# ---- curves ---------------------------------------------------------------------------------------


def value_at(
    times: Array, values: Array, when: ArrayLike, before: float, side: Literal["left", "right"] = "right"
) -> Array:
    """A function with steps at some times, at others, or its limit from the left; `before` the first of them."""
    place = np.searchsorted(times, np.asarray(when, dtype=np.float64), side=side)
    return np.asarray(np.r_[before, values][place])


def counts(time: Array, event: NDArray[np.bool_]) -> tuple[Array, Array, Array, Array]:
    """Distinct times, and the numbers of rows at risk, with an event, and censored there."""
    times, where, both = np.unique(time, return_inverse=True, return_counts=True)
    events = np.asarray(np.bincount(where, event, len(times)), dtype=np.float64)
    at_risk = np.cumsum(both[::-1], dtype=np.float64)[::-1]
    return times, at_risk, events, both - events


def kaplan_meier(time: Array, event: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Distinct times, the share without an event after each, and its standard error by Greenwood's formula."""
    times, at_risk, events, _ = counts(time, event)
    left = 1.0 - events / at_risk
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(left > 0.0, events / (at_risk * np.maximum(at_risk - events, 1e-300)), 0.0)
    survival = np.asarray(np.cumprod(left), dtype=np.float64)
    return times, survival, np.asarray(survival * np.sqrt(np.cumsum(terms)))


def censoring(time: Array, event: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Distinct times, and the share that is not censored up to each; events come before censoring at the same time."""
    times, at_risk, events, censored = counts(time, event)
    rest = at_risk - events
    gone = np.divide(censored, rest, out=np.zeros_like(rest), where=rest > 0.0)
    share = np.asarray(np.cumprod(1.0 - gone), dtype=np.float64)
    return times, share


def baselines(
    loss: Cox, time: Array, targets: Array, risk: Array, weight: Array | None = None
) -> list[tuple[Array, Array]]:
    """Of every stratum the times of events, and the cumulative hazard of a row with risk 0 after each.

    It is the sum of the terms of the loss: of Breslow, or of Efron.

    References
    ----------
    N. Breslow, discussion of Cox (1972), Journal of the Royal Statistical Society B 34.
    """
    weight = np.ones(len(time)) if weight is None else weight
    at = loss.at(targets, weight, risk)
    times, hazard = time[at.by.order[at.by.starts]], at.hazard
    some = np.isin(np.arange(len(times)), at.terms.group)
    return [(times[part][some[part]], hazard[part][some[part]]) for part in at.by.strata]


# ---- scores ---------------------------------------------------------------------------------------


def concordant(
    time: Array, event: NDArray[np.bool_], risk: Array, weight: Array | None = None
) -> tuple[Array, ...]:
    """For every row with an event the weights of the rows that outlive it, those with a smaller and an equal risk."""
    weight = np.ones(len(time)) if weight is None else weight
    # at equal times events come first, and censored rows outlive them
    order = np.lexsort((~event, time))
    time, event, risk, weight = time[order], event[order], risk[order], weight[order]
    n = len(time)
    places = np.flatnonzero(event)
    # the first row that outlives each event
    after = np.searchsorted(time[places], time[places], side="right")
    first = np.zeros(n, dtype=np.intp)
    start = np.searchsorted(time, time[places])
    first[places] = start + after - np.searchsorted(time[places], time[places], side="left")
    found = np.zeros((3, n))
    for low in range(0, n, BLOCK):
        high = min(low + BLOCK, n)
        mine = places[(first[places] >= low) & (first[places] < high)]
        if not len(mine):
            continue
        later = np.argsort(risk[high:], kind="stable") + high
        sums = np.r_[0.0, np.cumsum(weight[later])]
        below = sums[np.searchsorted(risk[later], risk[mine], side="left")]
        up_to = sums[np.searchsorted(risk[later], risk[mine], side="right")]
        here = (np.arange(low, high) >= first[mine][:, None]) * weight[low:high]
        found[0, mine] = sums[-1] + here.sum(axis=1)
        found[1, mine] = below + (here * (risk[low:high] < risk[mine][:, None])).sum(axis=1)
        found[2, mine] = up_to - below + (here * (risk[low:high] == risk[mine][:, None])).sum(axis=1)
    out = np.empty_like(found)
    out[:, order] = found
    return tuple(out)


def harrell(
    time: Array,
    event: NDArray[np.bool_],
    risk: Array,
    weight: Array | None = None,
    strata: NDArray[Any] | None = None,
) -> float:
    """The share of comparable pairs in which the row with the larger risk has its event first; NaN without pairs.

    Pairs are those within a stratum.
    """
    weight = np.ones(len(time)) if weight is None else weight
    total = agreed = 0.0
    for one in (None,) if strata is None else np.unique(strata):
        rows = slice(None) if strata is None else strata == one
        own = weight[rows]
        pairs, right, same = concordant(time[rows], event[rows], risk[rows], own)
        total += float(own @ pairs)
        agreed += float(own @ (right + 0.5 * same))
    return agreed / total if total > 0.0 else float("nan")


def uno(
    time: Array,
    event: NDArray[np.bool_],
    risk: Array,
    training: tuple[Array, NDArray[np.bool_]],
    tau: float | None = None,
) -> float:
    """The same with pairs weighted by the inverse square of the share that is not censored by then."""
    # an event at a time is seen unless the row was censored before
    share = value_at(*censoring(*training), time, 1.0, "left")
    use = event & (share > 0.0) & (time < (np.inf if tau is None else tau))
    own = np.where(use, 1.0 / np.square(np.where(share > 0.0, share, 1.0)), 0.0)
    pairs, right, same = concordant(time, event, risk)
    total = float(own @ pairs)
    return float(own @ (right + 0.5 * same)) / total if total > 0.0 else float("nan")


def brier(
    time: Array,
    event: NDArray[np.bool_],
    survival: Array,
    times: Array,
    training: tuple[Array, NDArray[np.bool_]],
) -> Array:
    """Squared errors of predicted survival (n_rows, n_times) at every time, weighted against censoring."""
    curve = censoring(*training)
    later, own = value_at(*curve, times, 1.0), value_at(*curve, time, 1.0, "left")
    with np.errstate(divide="ignore"):
        of_times, of_rows = (np.where(one > 0.0, 1.0 / one, 0.0) for one in (later, own))
    died = (time[:, None] <= times) & event[:, None]
    alive = time[:, None] > times
    errors = np.square(survival) * died * of_rows[:, None] + np.square(1.0 - survival) * alive * of_times
    return np.asarray(errors.mean(axis=0))
