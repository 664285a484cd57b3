"""Fits of the same estimator on other rows or targets: rows that can be taken apart, and fits until Ctrl-C."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils import get_tags

from kernelweave._checks import InputError
from kernelweave._interrupts import interrupts_noticed
from kernelweave._types import BaseCrossValidator, Features, Splits, Tree
from kernelweave.estimators import MKLClassifier, MKLRegressor, MKLSurvival
from kernelweave.estimators.sources import in_order
from kernelweave.estimators.targets import read_labels
from kernelweave.inspection.held import HeldOut
from kernelweave.learners import RLS2, MetricRLS2
from kernelweave.views import by_rows, take_rows

#: Positions of rows, and training and test rows.
Places = NDArray[np.intp]
Fold = tuple[Places, Places]


@dataclass(frozen=True)
class Between:
    """Kernel values between rows, (n_rows, n_rows) or (n_rows, n_rows, n_kernels), as the X of precomputed kernels."""

    values: Any

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Rows:
    """Rows with their targets, arguments of `fit` with an entry for each row, and groups."""

    X: Any
    y: Any
    params: Mapping[str, Any] = field(default_factory=dict)
    groups: Any = None

    @classmethod
    def read(
        cls,
        estimator: Any,
        X: Features,
        y: ArrayLike,
        params: Mapping[str, Any] | None = None,
        groups: Any = None,
    ) -> Self:
        """Rows that can be taken apart, of what an estimator takes; targets as an array, or a frame of several.

        Frames of views are joined as in `fit`, and targets, arguments and groups have the order of the joined rows.
        """
        missing_views = getattr(estimator, "missing_views", "error")
        y, groups = in_order(X, {"y": y, "groups": groups}, missing_views).values()
        targets: Any = y if hasattr(y, "iloc") and np.ndim(y) == 2 else np.asarray(y)
        if isinstance(targets, np.ndarray) and targets.dtype.kind == "f" and not np.isfinite(targets).all():
            raise InputError("`y` must be finite, got NaN or infinity. Leave these rows out.")
        if is_classifier(estimator) and isinstance(targets, np.ndarray) and targets.ndim == 1:
            read_labels(targets)
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
        ordered = in_order(X, params or {}, missing_views)
        given = {name: np.asarray(one) for name, one in ordered.items() if one is not None}
        return cls(rows, targets, given, None if groups is None else np.asarray(groups))

    def __len__(self) -> int:
        return len(self.y)

    @property
    def given(self) -> Tree:
        """The same as arguments of functions."""
        return {"X": self.X, "y": self.y, "params": self.params, "groups": self.groups}

    def folds(self, splitter: BaseCrossValidator) -> list[Fold]:
        """Training and test rows of every fold."""
        try:
            parts = list(splitter.split(np.zeros((len(self), 1)), self.y, self.groups))
        except (TypeError, ValueError) as error:
            raise InputError(f"The rows cannot be divided into folds by `cv`: {error}") from error
        folds = [(np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp)) for train, test in parts]
        if not folds or any(rows.ndim != 1 for fold in folds for rows in fold):
            raise InputError(
                "`cv` must give at least one fold, with a list of rows to train on and one to test on for each."
            )
        return folds

    def take(self, places: Places, train: Places | None = None) -> Any:
        """Some rows of X; of kernel values those with training rows, or for `fit` with each other."""
        if isinstance(self.X, Between):
            return self.X.values[np.ix_(places, places if train is None else train)]
        return take_rows(self.X, places)

    def fit(self, estimator: Any, places: Places) -> Any:
        """A clone of an estimator, fitted on some rows; its own folds keep groups together."""
        params = {name: value[places] for name, value in self.params.items()}
        if self.groups is not None and isinstance(estimator, MKLClassifier | MKLRegressor | MKLSurvival):
            params["groups"] = self.groups[places]
        return clone(estimator).fit(self.take(places), take_rows(self.y, places), **params)

    def held(self, model: Any, fold: Fold) -> HeldOut:
        """What a model that was fitted on the training rows predicts for the test rows."""
        train, test = fold
        new, seen = ((self.take(part, train), take_rows(self.y, part)) for part in (test, train))
        held = HeldOut.of_fold(model, new, seen)
        return held if self.groups is None else replace(held, groups=self.groups[test])

    def score(self, model: Any, fold: Fold, scoring: Any) -> float:
        """The score on test rows of a model that was fitted on the training rows."""
        train, test = fold
        scorer = check_scoring(model, scoring=scoring)
        return float(scorer(model, self.take(test, train), take_rows(self.y, test)))

    def fit_and_score(self, estimator: Any, fold: Fold, scoring: Any) -> float:
        """The score on test rows of an estimator fitted on the training rows."""
        return self.score(self.fit(estimator, fold[0]), fold, scoring)


def splitter_of(estimator: Any, rows: Rows, cv: Splits) -> BaseCrossValidator:
    """The splitter for a number of folds, a list of folds or a splitter.

    A number of folds keeps groups together; without groups those of classes are stratified.
    """
    y = rows.y
    try:
        # scikit-learn casts numbers to integers to see whether they are
        with np.errstate(invalid="ignore"):
            splitter = check_cv(cv, y if np.ndim(y) == 1 else None, classifier=is_classifier(estimator))
        return GroupKFold(cv) if rows.groups is not None and isinstance(cv, numbers.Integral) else splitter
    except (TypeError, ValueError) as error:
        raise InputError(f"`cv` must be a number of folds, a splitter or pairs of rows: {error}") from error


def plainly(estimator: Any) -> Any:
    """An estimator that is not fitted, without a choice of the regularisation parameter: that of a fitted one."""
    kinds = (MKLClassifier, MKLRegressor, MKLSurvival)
    kind: Any = next(one for one in kinds if isinstance(estimator, one))
    options = clone(estimator).get_params(deep=False)
    known = kind().get_params(deep=False)
    learner = clone(estimator.model_.learner)
    parameter = learner.regularization_parameter
    value = estimator.C_ if parameter == "C" else estimator.alpha_
    settings: dict[str, Any] = {parameter: float(value)}
    if hasattr(estimator, "relax_") and "relax" in learner.get_params(deep=False):
        settings["relax"] = float(estimator.relax_)
    kept = {name: value for name, value in options.items() if name in known and name not in ("C", "alpha")}
    if hasattr(estimator, "target_alphas_"):
        # each target has its own, which folds choose again
        return kind(**{**kept, "learner": learner, "targets": "own"})
    learner.set_params(**settings)
    if hasattr(estimator, "relevance_") and type(learner) is RLS2:
        # a metric that a plain fit took is learnt again
        learner = MetricRLS2(**learner.get_params(deep=False))
    return kind(**{**kept, "learner": learner})


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
    # one after another, where they are asked for, with one process
    results = joblib.Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="2*n_jobs")(
        joblib.delayed(_quietly)(function, *one) for one in arguments
    )
    with interrupts_noticed() as interrupted:
        try:
            for result in results:
                stopped = interrupted()
                if stopped:
                    # a path keeps what is done after Ctrl-C: such a fit is not like the others
                    break
                done.append(result)
                told = report is not None and report(f"{what} {len(done)} of {total}")
                stopped = told and len(done) < total
                if stopped:
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


def _quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """A result without warnings, which would repeat with every fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)
