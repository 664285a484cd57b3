"""Learning curves, and calibration of probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from kernelweave._checks import Floats, InputError
from kernelweave._forms import ShortRepr
from kernelweave._parameters import OneOf, Whole, checked, renamed
from kernelweave._types import Array, Features, Splits
from kernelweave.inspection.arguments import (
    Entries,
    Estimator,
    Jobs,
    Level,
    OptionalEntries,
    Params,
    Report,
    Scoring,
    Seed,
    Targets,
)
from kernelweave.inspection.held import HeldOut, divisions_of
from kernelweave.inspection.refitting import Fold, Places, Rows, each_done, splitter_of
from kernelweave.inspection.registry import (
    LEVEL,
    Basis,
    Finding,
    Interval,
    Table,
    at,
    finding,
    gained,
    intervals_of,
    plain,
    unsure,
)
from kernelweave.inspection.scores import (
    OF_95,
    headline,
    held_gain,
    held_intervals,
    of_held,
    share_interval,
    usual_score,
)

__all__ = ["Calibration", "LearningCurve", "calibration", "learning_curve"]


@dataclass(frozen=True)
class LearningCurve(ShortRepr):
    """Scores of test folds by the number of training rows.

    Attributes
    ----------
    sizes : array of int, shape (n_sizes,)
        Training rows.
    scores : array of shape (n_sizes, n_folds)
        NaN where a fit was not possible.
    score, low, high : array of shape (n_sizes,)
        The score of the test rows of all folds together, with its interval, as in `out_of_fold_scores`. With `scoring`
        the mean over folds, and no interval.
    gain : Interval
        The last score less the one before it, of the same test rows; without ends with `scoring`, and NaN for one size.
    interrupted : bool
        Whether sizes are missing.
    """

    sizes: NDArray[np.intp]
    scores: Array
    score: Array
    low: Array
    high: Array
    gain: Interval
    interrupted: bool


@renamed(seed="random_state")
@checked
def learning_curve(
    estimator: Estimator,
    X: Features,
    y: Targets,
    *,
    sizes: Annotated[ArrayLike, Floats(above=0)] = (0.2, 0.4, 0.6, 0.8, 1.0),
    cv: Splits = 5,
    scoring: Scoring = None,
    groups: OptionalEntries = None,
    params: Params = None,
    level: Level = 0.95,
    n_jobs: Jobs = None,
    random_state: Seed = 0,
    report: Report = None,
) -> LearningCurve:
    """Would more rows help? Scores of test folds for growing numbers of training rows.

    The same as scikit-learn's `learning_curve` with shuffled training rows; here every size of every fold is reported,
    and Ctrl-C keeps the sizes that are done. Smaller sizes are parts of larger ones.

    Parameters
    ----------
    estimator : estimator
        An estimator of this package or of scikit-learn; clones of it are fitted.
    X : array-like, frame, sparse matrix or views
        The rows, in any form that `fit` takes: a table, views, precomputed kernels or indices of a bank.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Targets of these rows.
    sizes : array-like, default=(0.2, 0.4, 0.6, 0.8, 1.0)
        Shares of the training rows of a fold up to 1, or numbers of rows above.
    cv : int, splitter, or list of (train, test), default=5
        Folds: a number, a splitter of scikit-learn, or pairs of training and test rows.
    scoring : str or callable, optional
        Default: accuracy, or R^2.
    groups : array-like of shape (n_rows,), optional
        For the splitter and `fit`. Training rows come by whole groups, but for the last one.
    params : dict of str to array, optional
        Arguments of `fit` with an entry for each row, such as ``{"sample_weight": w}``.
    level : float, default=0.95
        Fraction of samples that intervals cover.
    n_jobs : int, optional
        Fits at the same time.
    random_state : int, default=0
        Seed for the order of training rows.
    report : callable, optional
        Called with a text after every fit; a true value ends, like Ctrl-C, and what is done is kept.

    Returns
    -------
    LearningCurve

    Raises
    ------
    InputError
        `X` and `y` have different numbers of rows, or a size is larger than the training rows.
    ValueError
        No fit was possible: what the last of them says.
    KeyboardInterrupt
        Nothing was done before.

    Notes
    -----
    One fit for each size and fold.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = kw.MKLRegressor(kw.banks.linear_features(2), kw.learners.RLS2(alpha=0.1))
    >>> found = learning_curve(model, X, X[:, 0], sizes=[5, 40], cv=3)
    >>> found.sizes.tolist(), found.scores.shape, bool((found.score > 0.9).all())
    ([5, 40], (2, 3), True)
    """
    rows = Rows.read(estimator, X, y, params, groups)
    rng = np.random.RandomState(random_state)
    folds = [(_mixed(rng, train, rows), test) for train, test in rows.folds(splitter_of(estimator, rows, cv))]
    numbers = _numbers(np.asarray(sizes), min(len(train) for train, _ in folds))
    parts = [(train[:size], test) for size in numbers for train, test in folds]
    tasks = ((rows, estimator, part, scoring) for part in parts)
    found, stopped = each_done(_score_part, tasks, n_jobs, report, "fit", len(parts))
    if not any(np.isfinite(score) for score, _ in found):
        # nothing but failures: raise what one of them says
        rows.fit(estimator, parts[len(found) - 1][0])
    k, done = len(folds), max(1, len(found) // len(folds))
    by_size = [found[start : start + k] for start in range(0, done * k, k)]
    scores = np.array([[one for one, _ in own] + [np.nan] * (k - len(own)) for own in by_size])
    ends = [_together(own, folds, level, scoring) for own in by_size]
    score, low, high = np.array([(one.value, one.low, one.high) for one in ends]).T
    gain = _gain(by_size, folds, level, scoring)
    return LearningCurve(np.array(numbers[:done]), scores, score, low, high, gain, stopped)


def _mixed(rng: np.random.RandomState, places: Places, rows: Rows) -> Places:
    """Places in any order, those of a group one after another: fewer rows are of fewer groups."""
    mixed = rng.permutation(places)
    if rows.groups is None:
        return mixed
    _, first, place = np.unique(rows.groups[mixed], return_index=True, return_inverse=True)
    return mixed[np.argsort(first[place], kind="stable")]


Scored = list[tuple[float, HeldOut | None]]


def _together(found: Scored, folds: list[Fold], level: float, scoring: Any) -> Interval:
    """The score of all test rows, or with `scoring` the mean over folds."""
    known = [
        (score, test, held)
        for (score, held), (_, test) in zip(found, folds, strict=False)
        if held is not None
    ]
    if scoring is not None or not known:
        finite = [score for score, _ in found if np.isfinite(score)]
        return Interval(float(np.mean(finite)) if finite else float("nan"))
    scores = held_intervals(*divisions_of(*zip(*[one[1:] for one in known], strict=True)), level=level)
    return scores[headline(scores)]


def _gain(by_size: list[Scored], folds: list[Fold], level: float, scoring: Any) -> Interval:
    """What is gained by the rows of the largest size; no ends where a fold could not be fitted."""
    if len(by_size) < 2:
        return Interval(float("nan"))
    tests = [test for _, test in folds]
    first, second = ([held for _, held in own if held is not None] for own in by_size[-2:])
    if scoring is None and len(first) == len(second) == len(tests):
        return held_gain(divisions_of(tests, first), divisions_of(tests, second), level)
    means = [_together(own, folds, level, scoring).value for own in by_size[-2:]]
    return Interval(means[1] - means[0])


def _numbers(sizes: Array, most: int) -> list[int]:
    numbers = np.where(sizes <= 1.0, np.floor(sizes * most), sizes).astype(int)
    if (numbers > most).any():
        raise InputError(
            f"`sizes` must be at most the training rows of a fold, {most}, got {int(numbers.max())}."
        )
    return np.unique(np.maximum(numbers, 1)).tolist()


def _score_part(rows: Rows, estimator: Any, part: Fold, scoring: Any) -> tuple[float, HeldOut | None]:
    if is_classifier(estimator) and np.ndim(rows.y) == 1 and len(np.unique(rows.y[part[0]])) < 2:
        return float("nan"), None
    try:
        model = rows.fit(estimator, part[0])
    except ValueError:
        # too few rows of a class for the folds of this estimator
        return float("nan"), None
    return rows.score(model, part, scoring), rows.held(model, part) if scoring is None else None


@dataclass(frozen=True)
class Calibration(ShortRepr):
    """How often what has a probability happens.

    Attributes
    ----------
    predicted : array of shape (n_bins,)
        Mean probability of the rows of a bin; empty bins are left out.
    observed : array of shape (n_bins,)
        Their share in the class.
    low, high : array of shape (n_bins,)
        Wilson's interval of the share.
    counts : array of int, shape (n_bins,)
        Rows.
    brier : float
        Mean squared distance of the probability from 1 and 0.
    brier_of_share : float
        That of the share of the class as the probability of all rows, for comparison.
    """

    predicted: Array
    observed: Array
    low: Array
    high: Array
    counts: NDArray[np.intp]
    brier: float
    brier_of_share: float


@checked
def calibration(
    is_class: Entries,
    probability: Annotated[ArrayLike, Floats(least=0)],
    *,
    n_bins: Annotated[int, Whole(1)] = 10,
    bins: Annotated[str, OneOf("quantile", "uniform")] = "quantile",
    level: Level = 0.95,
) -> Calibration:
    """Are the probabilities of a class calibrated? The share of rows in the class by their probability.

    Means are those of scikit-learn's `calibration_curve`, with the number of rows of every bin and the interval of its
    share.

    Parameters
    ----------
    is_class : array-like of bool, shape (n_rows,)
        Which held-out rows are in the class.
    probability : array-like of shape (n_rows,)
        Probability of the class, for every row.
    n_bins : int, default=10
        Intervals of probabilities, with equally many rows.
    bins : {"quantile", "uniform"}, default="quantile"
        Bins of about as many rows, or of the same width.
    level : float, default=0.95
        Fraction of samples that intervals cover.

    Returns
    -------
    Calibration

    Raises
    ------
    InputError
        Arrays of different lengths, probabilities above 1, or classes in place of truth values.

    References
    ----------
    G. W. Brier, Verification of forecasts expressed in terms of probability, Monthly Weather Review 78 (1950).

    Examples
    --------
    >>> found = calibration([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8], n_bins=2)
    >>> found.counts.tolist(), found.observed.tolist(), round(found.brier, 3)
    ([2, 2], [0.0, 1.0], 0.045)
    """
    truth, share = _truth(np.asarray(is_class)), np.asarray(probability)
    if truth.shape != share.shape:
        raise InputError(
            f"`is_class` and `probability` must have the same length, got {len(truth)} and {len(share)}."
        )
    if share.max() > 1.0 + 1e-9:
        raise InputError(
            f"`probability` must be at most 1, got {share.max():.3g}. Pass one column of predict_proba."
        )
    share = np.minimum(share, 1.0)
    edges = np.linspace(0, 1, n_bins + 1)
    edges = np.quantile(share, edges) if bins == "quantile" else edges
    place = np.searchsorted(edges[1:-1], share)
    sums = [np.bincount(place, weights=one, minlength=n_bins) for one in (None, truth, share)]
    counts, hits, shares = (one[sums[0] > 0] for one in sums)
    ends = [share_interval(round(h), int(n), level=level) for h, n in zip(hits, counts, strict=True)]
    return Calibration(
        shares / counts,
        hits / counts,
        np.array([one.low for one in ends]),
        np.array([one.high for one in ends]),
        counts,
        float(np.square(share - truth).mean()),
        float(truth.mean() * (1 - truth.mean())),
    )


def _truth(is_class: NDArray[Any]) -> Array:
    """1 for rows in the class, 0 for others."""
    found = is_class.astype(object)
    if not all(isinstance(one, bool | int | float) and one in (0, 1) for one in found):
        few = ", ".join(map(repr, list(dict.fromkeys(found.tolist()))[:3]))
        raise InputError(
            f"`is_class` must be True or False for every row, got {few}. Compare with the class: y_true == 'ill'."
        )
    return found.astype(float)


# ---- findings --------------------------------------------------------------------------------------

#: Classes whose calibration is in a file.
MOST_CLASSES = 40


@finding(
    "learning curve",
    title="Learning curve",
    needs=("estimator", "training"),
    about="Would more rows help? The model is fitted on growing parts of the rows.",
    counted="sizes",
    usual=5,
    possible=lambda found: found["rows"].details["task"] != "survival",
)
def _learning_curve(basis: Basis) -> Finding:
    found = learning_curve(
        basis.estimator,
        **basis.training.given,
        sizes=np.linspace(1.0 / basis.count, 1.0, basis.count),
        cv=basis.inner(),
        **basis.how,
    )
    score = usual_score(basis.estimator, np.ndim(basis.training.y) == 2)
    n, labels = len(basis.training), [f"{size} rows" for size in found.sizes]
    parts = {"sizes": found.sizes, "mean": found.score, "low": found.low, "high": found.high}
    columns = dict(zip(("training rows", score, "low", "high"), parts.values(), strict=True))
    note = f"Scores of the test rows of {found.scores.shape[1]} folds together. {OF_95}."
    rows = len(basis.training)
    formats = dict.fromkeys((score, "low", "high"), f"score@{rows}")
    made = Finding(
        intervals_of(labels, found.score, found.low, found.high, n),
        f"{score} of the test rows of all folds by the number of training rows.",
        n,
        "rows out of fold",
        LEVEL,
        rows=rows,
        details=plain({"interrupted": found.interrupted, "score": score, "gain": vars(found.gain), **parts}),
        tables=(Table.of("learning-curve", "Learning curve", columns, note, formats),),
    )
    if np.isfinite([found.gain.low, found.gain.high]).all():
        answer = gained(found.gain)
        made = made.decides(
            "sure",
            "Would more rows help?",
            answer,
            "with {a:d} training rows {score} is {u:score}, with {b:d} it is {w:score}, a gain of {v:score}"
            f"{{interval:score}}{unsure(answer, 'gain')}.",
            {"score": score},
            v=("details", "gain", "value"),
            low=("details", "gain", "low"),
            high=("details", "gain", "high"),
            a=("details", "sizes", len(labels) - 2),
            b=("details", "sizes", len(labels) - 1),
            u=at(labels[-2]),
            w=at(labels[-1]),
            rows=("rows",),
        )
    return made


@finding("calibration", title="Calibration of probabilities", needs=("held",))
def _calibration(basis: Basis) -> Finding | None:
    held = basis.held
    if held.several or held.probability is None or held.classes is None or len(held) < 2:
        return None
    meaning = "The fraction of rows in a class by their probability, and mean squared errors (Brier scores)."
    made = of_held(held, {}, meaning)
    few = max(1, min(10, len(held) // 10))
    first = 1 if len(held.classes) == 2 else 0
    for k, name in enumerate(held.classes[first:MOST_CLASSES]):
        found = calibration(held.truth == name, np.clip(held.probability[:, first + k], 0.0, 1.0), n_bins=few)
        parts = plain(vars(found))
        heads = {
            "predicted": "probability",
            "observed": "fraction",
            "low": "low",
            "high": "high",
            "counts": "rows",
        }
        table = Table.of(
            f"calibration-{k + 1}" if k else "calibration",
            f"Probability of {name} and fraction of rows",
            {head: parts[key] for key, head in heads.items()},
            formats=dict.fromkeys(("probability", "fraction", "low", "high"), "score@rows"),
        )
        made = replace(
            made,
            values={**made.values, f"Brier score of {name}": Interval(found.brier)},
            details={**made.details, name: parts},
            tables=(*made.tables, table),
        ).says(
            "sure",
            "The Brier score of the probability of {name} is {v:score}; that of its fraction of all rows is {w:score}.",
            {"name": name},
            v=at(f"Brier score of {name}"),
            w=("details", name, "brier_of_share"),
        )
    return made
