"""Many fits of the same estimator on other rows or targets: one after another or in processes, until Ctrl-C."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from kernelweave._checks import InputError
from kernelweave._interrupts import interrupts_noticed
from kernelweave._types import BaseCrossValidator, Features, Splits
from kernelweave.inspection.arguments import Fold, Rows, take


def of_rows(params: Mapping[str, Any] | None, rows: Rows) -> dict[str, Any]:
    """Arguments of `fit` with one entry for each row, for some rows."""
    return {name: np.asarray(value)[rows] for name, value in (params or {}).items() if value is not None}


def splitter_of(estimator: Any, y: Any, cv: Splits) -> BaseCrossValidator:
    """The splitter for a number of folds, a list of folds or a splitter; folds of classes are stratified."""
    try:
        return check_cv(cv, y if np.ndim(y) == 1 else None, classifier=is_classifier(estimator))
    except (TypeError, ValueError) as error:
        raise InputError(f"`cv` must be a number of folds, a splitter or pairs of rows: {error}") from error


def folds_of(splitter: BaseCrossValidator, y: Any, groups: ArrayLike | None) -> list[Fold]:
    """Training and test rows of every fold."""
    try:
        parts = [(train, test) for train, test in splitter.split(np.zeros((len(y), 1)), y, groups)]
    except (TypeError, ValueError) as error:
        raise InputError(f"The rows cannot be divided into folds by `cv`: {error}") from error
    folds = [(np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp)) for train, test in parts]
    if any(rows.ndim != 1 for fold in folds for rows in fold):
        raise InputError("`cv` must give lists of rows, one to train on and one to test on for every fold.")
    return folds


def fit_on(estimator: Any, X: Features, y: Any, rows: Rows, params: Mapping[str, Any] | None) -> Any:
    """A clone of an estimator, fitted on some rows."""
    return clone(estimator).fit(take(X, rows), take(y, rows), **of_rows(params, rows))


def score_on(model: Any, X: Features, y: Any, train: Rows, rows: Rows, scoring: Any) -> float:
    """The score on some rows of a model that was fitted on others."""
    return float(check_scoring(model, scoring=scoring)(model, take(X, rows, train), take(y, rows)))


def each_done(
    function: Callable[..., Any],
    arguments: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    report: Callable[[str], bool] | None,
    what: str,
    total: int,
) -> tuple[list[Any], bool]:
    """Results of a function for some arguments in their order, and whether Ctrl-C or `report` ended them early.

    Parameters
    ----------
    function : callable
    arguments : iterable of tuple
        Made one by one.
    n_jobs : int or None
    report : callable or None
        Called with ``"<what> k of <total>"``.
    what : str
    total : int

    Returns
    -------
    list, bool

    Raises
    ------
    KeyboardInterrupt
        Nothing was done before.
    """
    done: list[Any] = []
    stopped = False
    results = _results(function, arguments, n_jobs)
    with interrupts_noticed() as interrupted:
        try:
            for result in results:
                if interrupted():
                    # a path keeps what is done after Ctrl-C: such a fit is not like the others
                    stopped = True
                    break
                done.append(result)
                if report is not None and report(f"{what} {len(done)} of {total}") and len(done) < total:
                    stopped = True
                    break
        except KeyboardInterrupt:
            stopped = True
        finally:
            with warnings.catch_warnings():
                # joblib warns of what is unfinished after a stop
                warnings.filterwarnings("ignore", message=".*have been cancelled", category=UserWarning)
                results.close()
    if not done:
        raise KeyboardInterrupt(f"interrupted before one {what} was complete; nothing could be kept")
    return done, stopped


def _results(
    function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], n_jobs: int | None
) -> Generator[Any, None, None]:
    if n_jobs in (None, 1):
        for one in arguments:
            yield _quietly(function, *one)
        return
    yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="2*n_jobs")(
        joblib.delayed(_quietly)(function, *one) for one in arguments
    )


def _quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """A result without warnings, which would repeat with every fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)
