"""How sure scores are: intervals of scores of held-out rows, and of scores over folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from kernelweave._checks import Floats, InputError
from kernelweave._parameters import Number, Whole, checked
from kernelweave._types import Labels
from kernelweave.inspection.arguments import Seed
from kernelweave.inspection.resampling import Entries, Level, OfRows, OptionalEntries

Array = NDArray[np.float64]
Score = Callable[[Array], Array]

#: Rows times samples that are drawn at most, unless there would be too few samples; and those that are drawn at once.
MOST_DRAWN = 5_000_000
AT_ONCE = 2_000_000
FEWEST_SAMPLES = 100

WILSON = "Wilson"
BOOTSTRAP = "bootstrap"
JEFFREYS = "Jeffreys"
CORRECTED = "corrected t"


@dataclass(frozen=True)
class Interval:
    """A score with an interval.

    Attributes
    ----------
    value : float
    low, high : float
        Ends of the interval; NaN where there is none.
    method : str
        "Wilson" for shares of rows, "Jeffreys" for means of recalls, "bootstrap" for other scores of held-out rows,
        "corrected t" for scores over folds.
    n : int
        Rows, or folds.
    """

    value: float
    low: float
    high: float
    method: str
    n: int


@checked
def share_interval(
    hits: Annotated[int, Whole(0)], n: Annotated[int, Whole(0)], *, level: Level = 0.95
) -> Interval:
    """Wilson's interval of a share of rows, such as accuracy, or the recall of a class.

    Unlike intervals of the normal distribution and of the bootstrap it has a width where all rows are right.

    Parameters
    ----------
    hits : int
    n : int
        Rows.
    level : float, default=0.95

    Returns
    -------
    Interval

    References
    ----------
    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).

    Examples
    --------
    >>> found = share_interval(20, 20)
    >>> round(found.low, 3), round(found.high, 3)
    (0.839, 1.0)
    """
    if hits > n:
        raise InputError(f"`hits` must be at most `n`, {n}, got {hits}.")
    if not n:
        return Interval(float("nan"), float("nan"), float("nan"), WILSON, 0)
    found = stats.binomtest(hits, n).proportion_ci(level, method="wilson")
    return Interval(hits / n, float(found.low), float(found.high), WILSON, n)


@checked
def fold_interval(
    scores: Annotated[ArrayLike, Floats()],
    test_share: Annotated[float, Number(above=0)],
    *,
    level: Level = 0.95,
) -> Interval:
    """An interval of a mean score over folds, corrected for the training rows that folds have in common.

    The variance of the mean of k scores is taken as ``(1/k + n_test/n_train) s^2`` instead of ``s^2 / k``, which is too
    small, because the models of two folds are learnt from much the same rows; the quantiles are those of Student's t
    with k - 1 degrees of freedom.

    Parameters
    ----------
    scores : array of shape (n_folds,)
    test_share : float
        Test rows for each training row of a fold: ``1 / (k - 1)`` for k folds.
    level : float, default=0.95

    Returns
    -------
    Interval
        Without ends for one score, and for scores that are all the same, whose spread is not known.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52 (2003).

    Examples
    --------
    >>> found = fold_interval([0.8, 0.9, 0.85, 0.8, 0.9], 1 / 4)
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.85, 0.757, 0.943)
    """
    values = np.asarray(scores)
    if len(values) < 2 or all_equal(values, values):
        return Interval(float(values.mean()), float("nan"), float("nan"), CORRECTED, len(values))
    half = corrected_error(values, test_share) * stats.t.ppf(0.5 + level / 2, len(values) - 1)
    return Interval(
        float(values.mean()), float(values.mean() - half), float(values.mean() + half), CORRECTED, len(values)
    )


def all_equal(values: Array, of: Array) -> bool:
    """Whether numbers differ by no more than rounding in those of which they were computed."""
    return bool(np.ptp(values) <= 1e-12 * np.abs(of).max())


def corrected_error(values: Array, test_share: float) -> float:
    """The standard error of a mean over folds, corrected as in `fold_interval`."""
    return float(np.sqrt((1 / len(values) + test_share) * values.var(ddof=1)))


# ---- scores of held-out rows -----------------------------------------------------------------------


@checked
def score_intervals(
    y_true: Entries,
    y_pred: Entries,
    *,
    decision: OptionalEntries = None,
    probability: Annotated[ArrayLike | None, OfRows((2,)) | None] = None,
    classes: OptionalEntries = None,
    level: Level = 0.95,
    n_samples: Annotated[int, Whole(2)] = 2000,
    seed: Seed = 0,
) -> dict[str, Interval]:
    """Scores of held-out rows with intervals: how far they would vary with other rows of the same kind.

    Shares of rows, which are accuracy and the recall and precision of every class, have Wilson's interval; balanced
    accuracy, the mean of the recalls, quantiles over draws of all recalls from Beta(hits + 1/2, misses + 1/2), their
    posterior distributions with Jeffreys' prior; other scores the percentiles over samples of rows with replacement.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Classes, or numbers.
    y_pred : array-like of shape (n_rows,)
    decision : array-like of shape (n_rows,), optional
        Decision values of two classes, for the area under the receiver operating characteristic.
    probability : array-like of shape (n_rows, n_classes), optional
        For log loss and Brier score.
    classes : array-like, optional
        Of a classification, in the order of `probability`; default, for text, those of `y_true` and `y_pred`. Numbers
        without `classes` are a regression.
    level : float, default=0.95
    n_samples : int, default=2000
        Samples of rows; fewer, but at least 100, for more than 2,500 rows.
    seed : int, default=0

    Returns
    -------
    dict of str to Interval
        By the name of the score; for classes "recall of a" and "precision of a". An interval that samples do not give,
        because too few have the score or because all have the same, has NaN as its ends.

    Notes
    -----
    An interval is for this model on new rows like those held out, which have to be independent. It does not say how
    much another choice of training rows would change the model: see `fold_interval` and `weight_stability`.
    O(n_rows n_samples).

    References
    ----------
    B. Efron and R. Tibshirani, An introduction to the bootstrap, Chapman & Hall (1993), 13.3; L. D. Brown, T. T. Cai
    and A. DasGupta, Interval estimation for a binomial proportion, Statistical Science 16 (2001).

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat(["ill", "well"], 30)
    >>> found = score_intervals(y, np.where(np.arange(60) % 10, y, "well"))
    >>> [(name, round(one.value, 2), round(one.low, 2), round(one.high, 2)) for name, one in found.items()][:2]
    [('accuracy', 0.95, 0.86, 0.98), ('balanced accuracy', 0.95, 0.87, 0.98)]
    """
    truth, guess = np.asarray(y_true), np.asarray(y_pred)
    if truth.ndim != 1 or truth.shape != guess.shape:
        raise InputError(
            f"`y_true` and `y_pred` must be 1D arrays of the same length, got shapes {truth.shape} and {guess.shape}."
        )
    if classes is None and truth.dtype.kind not in "iuf":
        classes = np.unique(np.concatenate([truth.astype(str), guess.astype(str)]))
    exact: dict[str, Interval] = {}
    rng = np.random.default_rng(seed)
    if classes is None:
        sampled = number_scores(truth.astype(float), guess.astype(float))
    else:
        names = np.asarray(classes).astype(str).tolist()
        truth, guess = truth.astype(str), guess.astype(str)
        values = None if decision is None else np.asarray(decision, dtype=float)
        shares = None if probability is None else np.asarray(probability, dtype=float)
        sampled = class_scores(truth, guess, names, values, shares)
        exact = _shares(truth, guess, names, level, rng, n_samples)
    found = bootstrap_intervals(
        {name: of for name, of in sampled.items() if name not in exact},
        len(truth),
        level=level,
        n_samples=n_samples,
        seed=seed,
    )
    first = [name for name in sampled if name in exact or name in found]
    return {**{name: exact.get(name) or found[name] for name in first}, **exact}


def _shares(
    truth: Labels,
    guess: Labels,
    classes: Sequence[str],
    level: float,
    rng: np.random.Generator,
    n_samples: int,
) -> dict[str, Interval]:
    right = truth == guess
    found = {"accuracy": share_interval(int(right.sum()), len(truth), level=level)}
    recalls = []
    for name in classes:
        for what, rows in (("recall", truth == name), ("precision", guess == name)):
            one = share_interval(int((right & rows).sum()), int(rows.sum()), level=level)
            found[f"{what} of {name}"] = one
            if what == "recall" and one.n:
                recalls.append((round(one.value * one.n), one.n))
    if recalls:
        drawn = np.mean(
            [rng.beta(hits + 0.5, n - hits + 0.5, max(n_samples, 2000)) for hits, n in recalls], axis=0
        )
        value = float(np.mean([hits / n for hits, n in recalls]))
        low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
        # where all rows are right, or none is, the interval ends at the score
        low, high = min(low, value), max(high, value)
        found["balanced accuracy"] = Interval(value, float(low), float(high), JEFFREYS, len(truth))
    return found


def bootstrap_intervals(
    scores: Mapping[str, Score], n_rows: int, *, level: float = 0.95, n_samples: int = 2000, seed: int = 0
) -> dict[str, Interval]:
    """Percentile intervals of scores that are functions of how often each row is in a sample, (n_samples, n_rows)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        values = {name: float(of(np.ones((1, n_rows)))[0]) for name, of in scores.items()}
    nothing = {
        name: Interval(value, float("nan"), float("nan"), BOOTSTRAP, n_rows) for name, value in values.items()
    }
    if n_rows < 2:
        return nothing
    rng = np.random.default_rng(seed)
    wanted = int(np.clip(MOST_DRAWN // n_rows, FEWEST_SAMPLES, n_samples))
    sampled: dict[str, list[Array]] = {name: [] for name in scores}
    left = wanted
    while left:
        some = min(left, max(1, AT_ONCE // n_rows))
        counts = rng.multinomial(n_rows, np.full(n_rows, 1.0 / n_rows), size=some).astype(float)
        for name, of in scores.items():
            sampled[name].append(of(counts))
        left -= some
    found = nothing
    for name, parts in sampled.items():
        drawn = np.concatenate(parts)
        drawn = drawn[np.isfinite(drawn)]
        if len(drawn) < 0.9 * wanted or np.ptp(drawn) <= 1e-12 * np.abs(drawn).max(initial=0.0):
            continue
        low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
        found[name] = Interval(values[name], float(low), float(high), BOOTSTRAP, n_rows)
    return found


def number_scores(truth: Array, guess: Array) -> dict[str, Score]:
    """Scores of numbers as functions of weights of rows, (n_samples, n_rows)."""
    n = len(truth)
    error = truth - guess
    # squares of numbers far from 0 would lose the variance
    centred = truth - truth.mean()

    def r2(w: Array) -> Array:
        total = w @ centred**2 - (w @ centred) ** 2 / n
        return 1.0 - (w @ error**2) / np.where(total > 0, total, np.nan)

    return {
        "R^2": r2,
        "RMSE": lambda w: np.sqrt(w @ error**2 / n),
        "MAE": lambda w: w @ np.abs(error) / n,
    }


def class_scores(
    truth: Labels,
    guess: Labels,
    classes: Sequence[str],
    decision: Array | None = None,
    probability: Array | None = None,
) -> dict[str, Score]:
    """Scores of classes as functions of weights of rows, (n_samples, n_rows)."""
    n = len(truth)
    is_true = np.array([truth == name for name in classes], dtype=float).T
    is_guess = np.array([guess == name for name in classes], dtype=float).T
    right = (truth == guess).astype(float)

    def recalls(w: Array) -> Array:
        known = w @ is_true
        return (w @ (is_true * is_guess)) / np.where(known > 0, known, np.nan)

    def f1(w: Array) -> Array:
        # as scikit-learn, over classes that are true or predicted
        both, either = w @ (is_true * is_guess), w @ is_true + w @ is_guess
        return _known_mean(2.0 * both / np.where(either > 0, either, np.nan))

    found: dict[str, Score] = {
        "accuracy": lambda w: w @ right / n,
        "balanced accuracy": lambda w: _known_mean(recalls(w)),
        "F1 (macro)": f1,
    }
    if decision is not None and decision.ndim == 1 and len(classes) == 2:
        values = decision
        found["ROC AUC"] = lambda w: _areas(w, truth == classes[1], values)
    if probability is not None:
        own = np.clip((probability * is_true).sum(axis=1), np.finfo(float).eps, 1.0)
        loss = -np.log(own)
        brier = np.square(probability - is_true).sum(axis=1) / (2 if len(classes) == 2 else 1)
        found["log loss"] = lambda w: w @ loss / n
        found["Brier score"] = lambda w: w @ brier / n
    return found


def _areas(w: Array, positive: NDArray[np.bool_], values: Array) -> Array:
    """Areas under the receiver operating characteristic with weights of rows, (n_samples,)."""
    order = np.argsort(values, kind="stable")
    w, positive, values = w[:, order], positive[order], values[order]
    # of equal values each counts as half below the others
    starts = np.flatnonzero(np.r_[True, np.diff(values) > 0])
    above = np.add.reduceat(w * positive, starts, axis=1)
    below = np.add.reduceat(w * ~positive, starts, axis=1)
    pairs = above.sum(axis=1) * below.sum(axis=1)
    won = (above * (np.cumsum(below, axis=1) - 0.5 * below)).sum(axis=1)
    return won / np.where(pairs > 0, pairs, np.nan)


def _known_mean(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each row without NaN; NaN for a row that has nothing else."""
    known = ~np.isnan(shares)
    number = known.sum(axis=1)
    total = np.where(known, shares, 0.0).sum(axis=1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
