"""Scores of the whole procedure: outer folds that are not used for the choice of the regularisation parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kernelweave._errors import InputError
from kernelweave.inspection.held import HeldOut, divisions_of
from kernelweave.inspection.held_times import HeldTimes
from kernelweave_app.runs.fitting import fit_model, make_cv, make_model
from kernelweave_app.runs.preparing import Prepared, Rows
from kernelweave_app.runs.spec import SURVIVAL, Spec
from kernelweave_app.runs.survival import events_of


def nested_predictions(
    spec: Spec,
    prepared: Prepared,
    rows: Rows,
    progress: object = None,
    report: Callable[[str], bool] = lambda _: False,
) -> list[HeldOut] | HeldTimes:
    """Fit and choose again on each outer fold's training rows, and predict the others.

    Parameters
    ----------
    spec : Spec
        `nested` is the number of outer folds, 0 for none.
    prepared : Prepared
    rows : array of int
        Rows to divide; held-out rows are not among them.
    progress : callback, optional
        Called with the steps of every fit.
    report : callable
        Called after every outer fold; a true value stops and keeps the finished folds.

    Returns
    -------
    list of HeldOut, or HeldTimes
        The rows with their predictions, one for each division of the rows; of survival, where outer folds are those of
        `cv`, one for all.
    """
    if prepared.task == SURVIVAL:
        return _out_of_fold(spec, prepared, rows, progress, report)
    if not spec.nested:
        return []
    if spec.nested == 1:
        raise InputError("Setting `nested`: at least 2 outer folds are needed, or 0 for none.")
    once = spec.model_copy(update={"cv": spec.nested, "repeats": 1})
    outer = make_cv(once, prepared.task, several=bool(prepared.names))
    all_rows = prepared.some(rows)
    found: list[HeldOut] = []
    try:
        parts = list(outer.split(all_rows.frame, all_rows.y, all_rows.groups))
    except ValueError as error:
        raise InputError(f"The rows cannot be divided into {spec.nested} outer folds: {error}") from error
    for k, (inside, outside) in enumerate(parts):
        model = fit_model(make_model(spec, prepared, rows[outside]), prepared, rows[inside], progress)
        new, seen = all_rows.some(outside), all_rows.some(inside)
        found.append(HeldOut.of_fold(model, (new.X, new.y), (seen.X, seen.y)))
        if report(f"outer fold {k + 1} of {spec.nested}"):
            break
    return divisions_of([outside for _, outside in parts[: len(found)]], found)


def _out_of_fold(
    spec: Spec,
    prepared: Prepared,
    rows: Rows,
    progress: object,
    report: Callable[[str], bool] = lambda _: False,
) -> HeldTimes:
    """The training rows as models of the other folds predict them, each with a C of its own; equal weights beside.

    Parameters
    ----------
    spec : Spec
        `cv` is the number of folds.
    prepared : Prepared
    rows : array of int
    progress : callback, optional
        Called with the steps of every fit.
    report : callable
        Called after every fold; a true value stops.

    Returns
    -------
    HeldTimes
    """
    every = prepared.some(rows)
    event = events_of(every.y)
    enough = min(event.sum(), (1.0 - event).sum()) >= spec.cv
    # each row once: repetitions are no more rows
    once = spec.model_copy(update={"repeats": 1, "splits": "k-fold"})
    folds = make_cv(once, "classification" if enough else SURVIVAL)
    try:
        parts = list(folds.split(every.frame, event, every.groups))
    except ValueError as error:
        raise InputError(f"The rows cannot be divided into {spec.cv} folds: {error}") from error
    times = np.unique(every.y[event > 0, 1].astype(float))
    equal = spec.model_copy(update={"method": "uniform", "learner_params": {}})
    found: list[HeldTimes] = []
    for k, (inside, outside) in enumerate(parts):
        seen, new = rows[inside], every.some(outside)
        model = fit_model(make_model(spec, prepared, rows[outside]), prepared, seen, progress)
        held = HeldTimes.of(model, new.X, new.y, prepared.y[seen], times=times)
        other = fit_model(make_model(equal, prepared, rows[outside]), prepared, seen, progress)
        found.append(replace(held, equal=other.predict(new.X)))
        if report(f"fold {k + 1} of {len(parts)}"):
            break
    return HeldTimes.joined(found, [outside for _, outside in parts[: len(found)]], every.y)
