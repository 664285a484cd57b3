"""Many fits of the same estimator on other rows or targets: one after another or in processes, until Ctrl-C."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags

from kernelweave._checks import InputError
from kernelweave._interrupts import interrupts_noticed
from kernelweave._parameters import Function, InstanceOf, Number, Rule, Text, Unfit, Whole
from kernelweave._types import BaseCrossValidator, Features, Splits
from kernelweave.estimators.missing import target_in_order
from kernelweave.views import by_rows, take_rows

Rows = NDArray[np.intp]
Fold = tuple[Rows, Rows]

Estimator = Annotated[Any, InstanceOf((BaseEstimator,), "an estimator of scikit-learn's kind")]
Scoring = Annotated[Any, Text() | Function() | None]
#: Arguments of `fit` with an entry for each row.
Params = Annotated[Mapping[str, Any] | None, InstanceOf((Mapping,), "a dict of arrays") | None]
#: Called with a text after every fit; a true value ends, like Ctrl-C, and what is done is kept.
Report = Annotated[Callable[[str], bool] | None, Function() | None]
#: Fits at the same time.
Jobs = Annotated[int | None, Whole(1) | Whole(None, -1) | None]
#: The share of intervals.
Level = Annotated[float, Number(above=0, below=1)]


@dataclass(frozen=True)
class OfRows(Rule):
    """An array with an entry for each row: numbers, texts or truth values.

    Attributes
    ----------
    ndim : tuple of int
        Admissible numbers of dimensions.
    """

    ndim: tuple[int, ...] = (1,)

    def read(self, value: Any) -> Any:
        """The array; frames stay what they are, and so do series where a frame may stand."""
        if value is None or isinstance(value, str | bytes):
            raise Unfit
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):  # rows of different lengths
            raise Unfit from None
        if array.ndim not in self.ndim or not array.size or array.dtype.kind not in "biufUSO":
            raise Unfit("", f"shape {array.shape}")
        if array.dtype.kind == "O" and any(isinstance(entry, list | dict) for entry in array.flat):
            raise Unfit
        return value if hasattr(value, "iloc") and 2 in self.ndim else array

    def kinds(self) -> tuple[str, ...]:
        """The types that it takes."""
        return ("ArrayLike",)

    def words(self) -> str:
        """What is expected."""
        return f"an array with an entry for each row ({' or '.join(f'{d}D' for d in self.ndim)})"


#: Classes or numbers of rows, and of rows and targets.
Entries = Annotated[ArrayLike, OfRows()]
OptionalEntries = Annotated[ArrayLike | None, OfRows() | None]
Targets = Annotated[ArrayLike, OfRows((1, 2))]
OptionalTargets = Annotated[ArrayLike | None, OfRows((1, 2)) | None]


@dataclass(frozen=True)
class Between:
    """Kernel values between rows, (n_rows, n_rows) or (n_rows, n_rows, n_kernels), as the X of precomputed kernels."""

    values: Any

    def __len__(self) -> int:
        return len(self.values)


def take(X: Features, rows: Rows, train: Rows | None = None) -> Any:
    """Some rows of what `as_rows` gives: of kernel values those with training rows, or for `fit` with each other."""
    if isinstance(X, Between):
        return X.values[np.ix_(rows, rows if train is None else train)]
    return take_rows(X, rows)


def as_rows(estimator: Any, X: Features, y: ArrayLike) -> tuple[Any, Any]:
    """What an estimator takes as X and y: rows that can be taken apart, and targets as an array or a frame of several.

    Frames of views are joined as in `fit`, and the targets have the order of the joined rows.
    """
    missing_views = getattr(estimator, "missing_views", "error")
    y = target_in_order(X, y, missing_views)
    targets: Any = y if hasattr(y, "iloc") and np.ndim(y) == 2 else np.asarray(y)
    if isinstance(targets, np.ndarray) and targets.dtype.kind == "f" and not np.isfinite(targets).all():
        raise InputError("`y` must be finite, got NaN or infinity. Leave these rows out.")
    n = len(targets)
    rows: Any
    if get_tags(estimator).input_tags.pairwise:
        rows = Between(X if hasattr(X, "shape") else np.asarray(X))
    else:
        rows = by_rows(X, "same" if missing_views == "error" else "all")
    try:
        found = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    except (TypeError, IndexError):
        raise InputError(
            f"`X` must have one row for each of the {n} targets, got {type(X).__name__}."
        ) from None
    if found != n:
        raise InputError(f"`X` and `y` must have as many rows, got {found} and {n}.")
    return rows, targets


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
