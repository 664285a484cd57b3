"""Scores of the whole procedure: outer folds that are not used for the choice of the regularisation parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave.estimators import BaseMKL
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
        `nested` is the number of outer folds, 0 for none; of survival it is `cv`.
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
        The rows with their predictions, one for each division of the rows; of survival one for all, with the
        predictions of equal weights beside them.
    """
    survival = prepared.task == SURVIVAL
    if not survival and not spec.nested:
        return []
    if not survival and spec.nested == 1:
        raise InputError("Setting `nested`: at least 2 outer folds are needed, or 0 for none.")
    what, kind, every = "outer fold", prepared.task, prepared.some(rows)
    once, shares = spec.model_copy(update={"cv": spec.nested, "repeats": 1}), every.y
    if survival:
        # each row once: repetitions are no more rows
        once, shares = spec.model_copy(update={"repeats": 1, "splits": "k-fold"}), events_of(every.y)
        enough = min(shares.sum(), (1.0 - shares).sum()) >= spec.cv
        what, kind = "fold", "classification" if enough else SURVIVAL
        times = np.unique(every.y[shares > 0, 1].astype(float))
        equal = spec.model_copy(update={"method": "uniform", "learner_params": {}})
    try:
        splitter = make_cv(once, kind, several=bool(prepared.names))
        parts = list(splitter.split(every.frame, shares, every.groups))
    except ValueError as error:
        raise InputError(f"The rows cannot be divided into {once.cv} {what}s: {error}") from error
    found: list[Any] = []
    for k, (inside, outside) in enumerate(parts):

        def fit(own: Spec, inside: Rows = inside, outside: Rows = outside) -> BaseMKL:
            return fit_model(make_model(own, prepared, rows[outside]), prepared, rows[inside], progress)

        model, seen, new = fit(spec), every.some(inside), every.some(outside)
        if survival:
            made = HeldTimes.of(model, new.X, new.y, seen.y, times=times)
            found.append(replace(made, equal=fit(equal).predict(new.X), groups=new.groups))
        else:
            held = HeldOut.of_fold(model, (new.X, new.y), (seen.X, seen.y))
            found.append(replace(held, groups=new.groups))
        if report(f"{what} {k + 1} of {len(parts)}"):
            break
    tests = [outside for _, outside in parts[: len(found)]]
    return HeldTimes.joined(found, tests, every.y) if survival else divisions_of(tests, found)
