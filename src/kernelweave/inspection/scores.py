"""How sure scores are: intervals of scores of rows that models had not seen, held out once or out of folds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special
from sklearn.base import is_classifier

from kernelweave._checks import InputError
from kernelweave._drawing import score_form, score_text
from kernelweave._parameters import Whole, checked, renamed
from kernelweave._types import Array, Features, Splits
from kernelweave.estimators.choosing import not_an_estimate
from kernelweave.inspection.arguments import (
    Entries,
    Estimator,
    Jobs,
    Level,
    OfRows,
    OptionalEntries,
    Params,
    Report,
    Seed,
    Targets,
)
from kernelweave.inspection.held import (
    COUNTS,
    IN_FIT,
    HeldOut,
    RowScore,
    class_texts,
    divisions_of,
    group_means,
    groups_of_rows,
    rows_in_fit,
)
from kernelweave.inspection.refitting import Rows, each_done, splitter_of
from kernelweave.inspection.registry import LEVEL, Basis, Finding, Interval, Table, at, ends, finding

__all__ = ["out_of_fold_scores", "score_intervals", "share_interval"]

#: Draws of the recalls of all classes.
DRAWN = 2000

WILSON = "Wilson"
DELTA = "delta method"
NEWCOMBE = "Newcombe"
JEFFREYS = "Jeffreys"


@checked
def share_interval(
    hits: Annotated[int, Whole(0)], n: Annotated[int, Whole(0)], *, level: Level = 0.95
) -> Interval:
    """Wilson's interval of a fraction of rows, such as accuracy, or the recall of a class.

    Unlike intervals of the normal distribution and of the bootstrap it has a width where all rows are right.
    Rows are taken for independent: with groups of rows see `score_intervals`.

    Parameters
    ----------
    hits : int
        Rows of which something is true.
    n : int
        Rows.
    level : float, default=0.95
        Fraction of samples that intervals cover.

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
    return wilson(hits / n if n else float("nan"), n, level)


def wilson(share: float, n: float, level: float) -> Interval:
    """The same where a share is the mean of several predictions of each row."""
    if not n:
        return Interval(float("nan"), method=WILSON)
    low, high = wilson_ends(share, n, level)
    return Interval(share, float(low), float(high), WILSON, round(n))


def wilson_ends(share: Any, n: Any, level: float) -> tuple[Array, Array]:
    """The ends of Wilson's interval, of one share or of several."""
    z = float(special.ndtri(0.5 + level / 2))
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low, high = np.maximum(0.0, centre - half), np.minimum(1.0, centre + half)
    return np.minimum(low, share), np.maximum(high, share)


def middle(samples: Array, level: float) -> Array:
    """The ends of the middle part of samples, (2, ...)."""
    return np.quantile(samples, [0.5 - level / 2, 0.5 + level / 2], axis=0)


# ---- scores of rows that a model had not seen ------------------------------------------------------


@renamed(seed="random_state")
@checked
def score_intervals(
    y_true: Entries,
    y_pred: Entries,
    *,
    decision: OptionalEntries = None,
    probability: Annotated[ArrayLike | None, OfRows((2,)) | None] = None,
    classes: OptionalEntries = None,
    groups: OptionalEntries = None,
    level: Level = 0.95,
    random_state: Seed = 0,
) -> dict[str, Interval]:
    """Scores of held-out rows with intervals: how far they would vary with other rows of the same kind.

    Fractions of rows, which are accuracy and the recall and precision of every class, have Wilson's interval. Balanced
    accuracy, the mean of the recalls, has quantiles over draws of all recalls from Beta(hits + 1/2, misses + 1/2),
    their posterior distributions with Jeffreys' prior. Areas under curves have Newcombe's fifth interval: all areas at
    most t of their own standard errors away, which are those of Hanley and McNeil, or larger by the ratio to them that
    DeLong's have at the area that was found. Other scores have an interval by the delta method: the standard error is
    that of the influences of the rows on the score, on the scale of log(score) for RMSE, MAE, log loss and Brier score,
    log(1 - score) for R^2, and the logit for F1, times n_rows / (n_rows - z) as few rows show few large errors. The
    quantiles are those of Student's t, and the end on the side of the long tail of the influences, whose skewness is g,
    is ``g (2 t^2 + 1) / (6 sqrt(n_rows))`` standard errors further away.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Classes, or numbers.
    y_pred : array-like of shape (n_rows,)
        Predictions of the same rows.
    decision : array-like of shape (n_rows,), optional
        Decision values of two classes, for the area under the receiver operating characteristic.
    probability : array-like of shape (n_rows, n_classes), optional
        For log loss and Brier score.
    classes : array-like, optional
        Of a classification, in the order of `probability`; default, for text, those of `y_true` and `y_pred`. Numbers
        without `classes` are a regression.
    groups : array-like of shape (n_rows,), optional
        Groups of rows that depend on each other, such as the visits of a patient: the influences of the rows of a group
        are summed, and intervals are those of so many independent groups.
    level : float, default=0.95
        Fraction of samples that intervals cover.
    random_state : int, default=0
        Seed for the draws of recalls.

    Returns
    -------
    dict of str to Interval
        By the name of the score; for classes "recall of a" and "precision of a". A score by the delta method that the
        rows determine without an error, such as an F1 of 1, has NaN as the ends of its interval.

    Notes
    -----
    An interval is for this model on new rows like those held out, which have to be independent without `groups`. It
    does not say how much another choice of training rows would change the model: see `out_of_fold_scores` and
    `weight_stability`.
    O(n_rows log(n_rows)).

    References
    ----------
    P. Hall, On the removal of skewness by transformation, Journal of the Royal Statistical Society B 54 (1992), for the
    skewness; D. G. Bonett, Approximate confidence interval for standard deviation of nonnormal distributions,
    Computational Statistics & Data Analysis 50 (2006), for the factor; R. G. Newcombe, Confidence intervals for an
    effect size measure based on the Mann-Whitney statistic, part 2, Statistics in Medicine 25 (2006), and E. R. DeLong,
    D. M. DeLong and D. L. Clarke-Pearson, Comparing the areas under two or more correlated receiver operating
    characteristic curves, Biometrics 44 (1988), for areas; L. D. Brown, T. T. Cai and A. DasGupta, Interval estimation
    for a binomial proportion, Statistical Science 16 (2001).

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
    names: list[str] | None = None
    if classes is not None or truth.dtype.kind not in "iuf":
        known = truth if classes is None else np.asarray(classes)
        truth, guess = class_texts(truth, known), class_texts(guess, known)
        both = np.unique(np.concatenate([truth, guess])) if classes is None else known.astype(str)
        names = both.tolist()
    else:
        truth, guess = truth.astype(float), guess.astype(float)
    values, shares = (
        None if given is None else np.asarray(given, dtype=float) for given in (decision, probability)
    )
    held = HeldOut(truth, guess, names, values, shares)
    held = replace(held, groups=groups_of_rows(groups, len(truth)))
    return held_intervals(held, level=level, seed=random_state)


@renamed(seed="random_state")
@checked
def out_of_fold_scores(
    estimator: Estimator,
    X: Features,
    y: Targets,
    *,
    cv: Splits = 5,
    groups: OptionalEntries = None,
    params: Params = None,
    level: Level = 0.95,
    n_jobs: Jobs = None,
    random_state: Seed = 0,
    report: Report = None,
) -> dict[str, Interval]:
    """How good is a whole fit? Scores of all rows, each predicted by a model that has not seen it.

    The estimator is fitted again on the training rows of every fold with everything that it learns or chooses: widths,
    scales, weights, alpha or C. One score is computed from the predictions of all test rows together, not a mean of
    scores over folds; only areas under a curve compare rows of the same fold. With repeated folds each repetition has
    its scores, and they are averaged.

    Parameters
    ----------
    estimator : estimator
        An estimator of this package or of scikit-learn; clones of it are fitted.
    X : array-like, frame, sparse matrix or views
        The rows, in any form that `fit` takes: a table, views, precomputed kernels or indices of a bank.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Targets of these rows.
    cv : int, splitter, or list of (train, test), default=5
        Folds: a number, a splitter of scikit-learn, or pairs of training and test rows.
    groups : array-like of shape (n_rows,), optional
        For the splitter and `fit`; intervals take groups for independent, not rows.
    params : dict of str to array, optional
        Arguments of `fit` with an entry for each row, such as ``{"sample_weight": w}``.
    level : float, default=0.95
        Fraction of samples that intervals cover.
    n_jobs : int, optional
        Fits at the same time.
    random_state : int, default=0
        Seed of the random numbers: the same one gives the same result.
    report : callable, optional
        Called with a text after every fit; a true value ends, like Ctrl-C, and folds that are done are kept.

    Returns
    -------
    dict of str to Interval
        By name each score with its interval, made as by `score_intervals`. Of several targets they are means without
        intervals.

    Raises
    ------
    InputError
        `X` and `y` have different numbers of rows, or `cv` gives no folds.
    KeyboardInterrupt
        No fold was done before.

    Notes
    -----
    One fit for each fold. The intervals are those of `score_intervals` for the rows as a sample, with larger standard
    errors: where it is larger, that with folds as groups of rows takes the place of that of independent rows. It is
    multiplied by the fourth root of the ratio of the squared errors out of fold to those of training rows, at most by
    the square root of ``1 + k / (k - 1)`` for k folds, as rows of all folds depend on each other. Of classes these are
    errors of probabilities; without probabilities intervals hold less often than they say.

    References
    ----------
    S. Bates, T. Hastie and R. Tibshirani, Cross-validation: what does it estimate and how well does it do it?, JASA 119
    (2024); P. Craven and G. Wahba, Smoothing noisy data with spline functions, Numerische Mathematik 31 (1979), for the
    ratio of errors; C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52 (2003), for
    the bound.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> found = out_of_fold_scores(kw.MKLRegressor(kw.banks.linear_features(2), alpha=0.1), X, X[:, 0])
    >>> found["R^2"].n, found["R^2"].value > 0.99
    (60, True)
    """
    rows = Rows.read(estimator, X, y, params, groups)
    folds = rows.folds(splitter_of(estimator, rows, cv))
    tasks = ((rows, estimator, fold) for fold in folds)
    done, _ = each_done(_predicted, tasks, n_jobs, report, "fold", len(folds))
    tests = [test for _, test in folds[: len(done)]]
    return held_intervals(*divisions_of(tests, done), level=level, seed=random_state)


def _predicted(rows: Rows, estimator: Any, fold: Any) -> HeldOut:
    return rows.held(rows.fit(estimator, fold[0]), fold)


def usual_score(estimator: Any, several: object) -> str:
    """The name of the score that an estimator of one target or of several gives."""
    if not is_classifier(estimator):
        return "R^2"
    return "subset accuracy" if several else "accuracy"


def headline(names: Iterable[str]) -> str:
    """The score that scikit-learn's `score` would give, among others."""
    return next(name for name in ("accuracy", "subset accuracy", "R^2") if name in names)


def score_texts(held: HeldOut) -> dict[str, str]:
    """Scores of rows that a model had not seen as texts, the headline with its interval."""
    n, name = len(held), headline(held.scores)
    found = {name: score_text(name, value, n) for name, value in held.scores.items()}
    ends = held_intervals(held)[name].in_words(name, n)
    return found | {name: f"{found[name]} ({ends})"} if ends else found


def held_intervals(*held: HeldOut, level: float = LEVEL, seed: int = 0) -> dict[str, Interval]:
    """The same for known predictions, of one division of the rows or means over several; of several targets no ends."""
    if held[0].several or len(held[0].truth) < 2:
        names = [name for name in held[0].scores if all(name in one.scores for one in held)]
        return {
            name: Interval(float(np.mean([one.scores[name] for one in held])), n=len(held[0].truth))
            for name in names
        }
    scores = _mean_over(held, [one.row_scores for one in held])
    n = len(_rows_of(held)[1])
    found = {name: replace(delta_interval(one, level), n=n) for name, one in scores.items()}
    return found if held[0].classes is None else found | _shares(held, scores["accuracy"], level, seed)


def held_gain(before: Sequence[HeldOut], after: Sequence[HeldOut], level: float) -> Interval:
    """What the headline score of rows gains from predictions to others, with an interval as in `held_intervals`.

    Predictions of the same row depend on each other, so that the influences are those of the rows on the difference. Of
    classes half a row is added to each of the four kinds of rows (Agresti and Min 2005): few rows may differ.
    """
    name = headline(after[0].scores)
    if after[0].several or len(after[0].truth) < 2:
        means = [held_intervals(*own)[name].value for own in (before, after)]
        return Interval(means[1] - means[0])
    gains = [{name: b.row_scores[name].less(a.row_scores[name])} for a, b in zip(before, after, strict=True)]
    gain = _mean_over(after, gains)[name]
    if after[0].classes is not None:
        gain = replace(gain, influence=np.append(gain.influence, [0.5**0.5, -(0.5**0.5)]))
    return replace(delta_interval(gain, level), n=len(after[0].truth))


def _mean_over(held: Sequence[HeldOut], scores: Sequence[Mapping[str, RowScore]]) -> dict[str, RowScore]:
    """Scores of divisions of the rows as means, and influences on them: of groups, where rows have some."""
    places, rows = _rows_of(held)
    groups: Any = None
    if held[0].groups is not None:
        groups = np.empty(len(rows), dtype=held[0].groups.dtype)
        for one, own in zip(held, places, strict=True):
            groups[np.searchsorted(rows, own)] = one.groups
    found = {}
    for name, first in scores[0].items():
        known = [
            (one, own, by[name]) for one, own, by in zip(held, places, scores, strict=True) if name in by
        ]
        influence = np.zeros(len(rows))
        for one, own, score in known:
            factor = len(rows) / (len(own) * len(known))
            influence[np.searchsorted(rows, own)] += factor * _dependent(name, score, one)
        value = float(np.mean([score.value for _, _, score in known]))
        found[name] = RowScore(value, influence, first.kind, first.pairs).of_groups(groups)
    return found


def _rows_of(held: Sequence[HeldOut]) -> tuple[list[NDArray[np.intp]], NDArray[np.intp]]:
    """Positions of the rows of every division, and of all."""
    places = [np.arange(len(one.truth)) if one.rows is None else one.rows for one in held]
    return places, np.unique(np.concatenate(places))


def _dependent(name: str, score: RowScore, held: HeldOut) -> Array:
    """Influences of the rows on a score or a gain of it, with what folds add to its standard error.

    Models of folds that predict little more than the mean have an R^2 near 0 on any rows, where the fit on all rows may
    have found more: its standard error is at least that for a known variance of the target.
    """
    if held.folds is None:
        return score.influence
    # in the influences of an area every pair counts twice, for both of its rows
    found = [_shared(score.influence, held.folds, held, times=1 if score.pairs is None else 2)]
    if name == "R^2" and score.kind != "difference" and held.row_scores["RMSE"].value > 0:
        root = held.row_scores["RMSE"]
        known = -2.0 * (1.0 - score.value) / root.value * root.influence
        found.append(_shared(known, held.folds, held))
    return max(found, key=lambda one: group_means(one, held.groups).std())


def _shared(influence: Array, folds: NDArray[np.intp], held: HeldOut, times: int = 1) -> Array:
    """Influences times what folds add to the standard error of independent rows or groups, for two reasons.

    Rows of a fold share a model. And rows of different folds are in the fits of each other: the errors out of fold of a
    regression with d degrees of freedom vary like those of n - d rows. They are 1 / (1 - d / n)^2 times those of the
    training rows (Craven and Wahba), which gives d; of classes those of their probabilities are. More than in Nadeau
    and Bengio's test is not added for it.
    """
    sums = np.bincount(folds - folds.min(), influence)[np.unique(folds) - folds.min()] / times
    own = group_means(influence, held.groups)
    k, alone = len(sums), float(np.square(own).sum()) * (len(influence) / len(own)) ** 2
    if k < 2 or not alone > 0:
        return influence
    factor = max(1.0, k / (k - 1) * float(np.square(sums).sum()) / alone)
    if held.seen is not None and (errors := held.squared_errors) is not None:
        ratio = errors.mean() / max(held.seen.mean(), np.finfo(float).tiny)
        factor *= np.clip(np.sqrt(ratio), 1.0, 1.0 + k / (k - 1))
    return influence * np.sqrt(factor)


def around(influence: Array, level: float) -> Array:
    """Ends of an interval as distances from its value, further away on the side of the long tail of the influences."""
    n = len(influence)
    t, z = special.stdtrit(n - 1, 0.5 + level / 2), special.ndtri(0.5 + level / 2)
    error = influence.std(ddof=1) / np.sqrt(n) * n / max(n - z, 1.0)
    moves = influence - influence.mean()
    with np.errstate(invalid="ignore"):
        skewness = (moves**3).mean() / np.square(moves).mean() ** 1.5
    more = skewness * (2 * t**2 + 1) / (6 * np.sqrt(n))
    return error * np.array([-t - max(-more, 0.0), t + max(more, 0.0)])


def delta_interval(score: RowScore, level: float) -> Interval:
    """An interval on a scale without ends; of an area, see `_area_interval`."""
    if score.pairs is not None:
        return _area_interval(score, *score.pairs, level)
    value, n = score.value, len(score.influence)
    if n < 2:
        return Interval(value, method=DELTA)
    # on the scales of losses, and of fractions
    distance = 1.0 - value if score.kind == "gain" else value
    slope = {"fraction": distance * (1.0 - distance), "difference": 1.0}.get(score.kind, distance)
    bare = Interval(value, method=DELTA, n=n)
    size = np.abs(score.influence).max()
    # what rounding leaves is no spread
    if not size > 1e-12 * max(1.0, abs(value)) or not slope > 0:
        return bare
    moves = score.influence / slope * (-1.0 if score.kind == "gain" else 1.0)
    low, high = around(moves, level)
    if score.kind == "difference":
        ends = [value + low, value + high]
    elif score.kind == "fraction":
        odds = value / (1.0 - value)
        ends = [1.0 / (1.0 + np.exp(-end) / odds) for end in (low, high)]
    else:
        ends = [distance * np.exp(end) for end in (low, high)]
        if score.kind == "gain":
            ends = [1.0 - end for end in ends[::-1]]
    return replace(bare, low=float(ends[0]), high=float(ends[1]))


def _area_interval(score: RowScore, n_yes: int, n_no: int, pairs: int, level: float) -> Interval:
    """Areas at most t standard errors away from what was found, each with its own standard error.

    The standard error is that of Hanley and McNeil, as in the fifth method of Newcombe, or larger by the ratio to it
    that the influences of the rows have at the area that was found. In k folds only rows of the same fold are compared.
    """
    n, area = len(score.influence), score.value
    if not pairs or n < 2:
        return Interval(area, method=NEWCOMBE, n=n)
    size = 0.5 * (n_yes + n_no) * pairs / (n_yes * n_no)

    def variance(at: float) -> float:
        return at * (1 - at) * (1 + (size - 1) * ((1 - at) / (2 - at) + at / (1 + at))) / pairs

    # half a pair in the wrong order, where there is none
    inside = np.clip(area, 0.5 / pairs, 1 - 0.5 / pairs)
    ratio = max(1.0, float(np.var(score.influence, ddof=1)) / n / variance(inside))
    t = special.stdtrit(n - 1, 0.5 + level / 2)

    def beyond(at: float) -> float:
        return abs(at - area) - t * np.sqrt(ratio * variance(at))

    # the area itself is within; at 0 and 1, where the standard error vanishes, only a perfect one is
    low, high = (optimize.brentq(beyond, end, inside) if beyond(end) > 0 else end for end in (0.0, 1.0))
    return Interval(area, float(low), float(high), NEWCOMBE, n)


def delta_p_value(difference: RowScore) -> float:
    """The p-value of a difference: one less the smallest level at which `delta_interval` contains 0."""

    def beyond(level: float) -> float:
        """How far the interval is from 0; negative where it contains it, or has no ends."""
        found = delta_interval(difference, level)
        end = found.low if difference.value > 0.0 else -found.high
        return float(end) if end == end else -1.0

    # no smaller probability can be told from the level 1
    if beyond(highest := 1.0 - 1e-15) > 0.0:
        return 1.0 - highest
    return 1.0 - float(optimize.brentq(beyond, 0.0, highest)) if beyond(0.0) > 0.0 else 1.0


def _shares(held: tuple[HeldOut, ...], accuracy: RowScore, level: float, seed: int) -> dict[str, Interval]:
    """Accuracy, recall and precision of every class, and balanced accuracy."""
    right = [one.truth == one.prediction for one in held]
    n, p = len(_rows_of(held)[1]), accuracy.value
    # as many independent rows as have the variance of these, or of so many groups
    units = len(accuracy.influence)
    alone = float(units)
    if 0 < p < 1 and units > 1:
        spread = float(np.square(accuracy.influence).mean()) / units
        if units < n:
            wider = special.stdtrit(units - 1, 0.5 + level / 2) / special.ndtri(0.5 + level / 2)
            spread *= units / (units - 1) * wider**2
        alone = p * (1 - p) / max(spread, p * (1 - p) / n, 1e-300)

    def share(chosen: list[NDArray[np.bool_]]) -> Interval:
        hits = np.mean([(r & c).sum() for r, c in zip(right, chosen, strict=True)])
        count = float(np.mean([c.sum() for c in chosen]))
        value = float(hits / count) if count else float("nan")
        return replace(wilson(value, count * alone / n, level), n=round(count))

    found = {"accuracy": replace(wilson(p, alone, level), n=n)}
    for name in held[0].classes or ():
        found[f"recall of {name}"] = share([one.truth == name for one in held])
        found[f"precision of {name}"] = share([one.prediction == name for one in held])
    recalls = [one for name, one in found.items() if name.startswith("recall of ") and one.n]
    if recalls:
        rng = np.random.default_rng(seed)
        shares = [(one.value, one.n * alone / n) for one in recalls]
        drawn = [rng.beta(value * m + 0.5, (1 - value) * m + 0.5, DRAWN) for value, m in shares]
        value = float(np.mean([one.value for one in recalls]))
        low, high = middle(np.mean(drawn, axis=0), level).tolist()
        # where all rows are right, or none is, the interval ends at the score
        found["balanced accuracy"] = Interval(value, min(low, value), max(high, value), JEFFREYS, n)
    return found


# ---- findings --------------------------------------------------------------------------------------

#: Held-out rows of a class below which scores of that class say little.
FEWEST_ROWS = 10
#: Training rows below which all of a model is uncertain.
FEWEST_TRAINING = 50
#: Held-out rows below which all intervals are wide: that of an accuracy of 80 % is 0.28 wide for 30 rows.
FEWEST_HELD = 30
#: Beginnings of the names of scores of one class.
OF_CLASS = ("recall of ", "precision of ")
#: Heads of columns about precision, beside those about recall.
PRECISION = ("precision", "low of precision", "high of precision")
#: What a table says of its intervals.
OF_95 = "Low and high are the ends of 95 % intervals"
NEW_ROWS = (
    "The intervals are for this model on new rows like those held out, not for models of other training rows."
)


def of_held(
    held: Sized, values: Mapping[str, Interval], meaning: str, sampled: str = "held-out rows", **more: Any
) -> Finding:
    """A finding about rows that were not fitted."""
    return Finding(values, meaning, len(held), sampled, LEVEL, **more)


@finding("rows", title="Rows", needs=("model",))
def _rows(basis: Basis) -> Finding:
    n = int(basis.model.model_.task.source.n_samples)
    survival = hasattr(basis.model, "predict_cumulative_hazard")
    n_held = 0 if basis.held is None else len(basis.held)
    n_held = n_held if basis.held_times is None else len(basis.held_times)
    task = "classification" if hasattr(basis.model, "classes_") else "survival" if survival else "regression"
    made = Finding(
        {"training": Interval(n), "held out": Interval(n_held)},
        "Rows from which the model was learnt, and rows that it had not seen.",
        form="d",
        details={"task": task},
    )
    if n < FEWEST_TRAINING:
        made = made.says(
            "distrust",
            f"The model was learnt from {{n:d}} rows, fewer than {FEWEST_TRAINING}: another sample may give quite "
            "another model.",
            n=at("training"),
        )
    weight = basis.model.model_.task.row_weight
    if (
        weight is not None
        and np.ptp(weight) > 0
        and (n_held or basis.nested or basis.nested_times is not None)
    ):
        made = replace(made, details={**made.details, "weights": [float(weight.min()), float(weight.max())]})
        made = made.says(
            "sure",
            "Rows have weights from {a:.3g} to {b:.3g} in the fit and in the score that chose. All other scores, their "
            "intervals and tests count every row once.",
            a=("details", "weights", 0),
            b=("details", "weights", 1),
        )
    if not n_held and not basis.nested and basis.nested_times is None:
        made = made.says(
            "distrust",
            "{n:d} rows were held out: there is no score of rows that played no part in the choice. Hold out a "
            "fraction of the rows, or use nested folds.",
            n=at("held out"),
        )
    few = basis.held is not None and basis.held.classes is not None and 1 < n_held < FEWEST_HELD
    if few and not basis.held.several and not _few(basis.held):
        made = made.says(
            "distrust", "There are {n:d} held-out rows: intervals of scores are wide.", n=at("held out")
        )
    return made


@finding("in fit", title="Rows that were in the fit", needs=("model", "held_rows"))
def _in_fit(basis: Basis) -> Finding | None:
    found = rows_in_fit(basis.model, basis.held_rows.X)
    if found is None or not found.any():
        return None
    return Finding(
        {"in the fit": Interval(float(found.mean()), n=len(found))},
        "Fraction of the held-out rows that equal a training row in all columns.",
        len(found),
        "held-out rows",
        details={"rows": int(found.sum())},
    ).says(
        "distrust",
        f"{{k:d}} of {{n:d}} held-out rows equal training rows in all columns. {IN_FIT}",
        k=("details", "rows"),
        n=("n",),
    )


@finding("held out", title="Scores of held-out rows", needs=("held",))
def _held_scores(basis: Basis) -> Finding | None:
    if basis.held.several or len(basis.held) < 2:
        return None
    found = {name: one for name, one in held_intervals(basis.held).items() if not name.startswith(OF_CLASS)}
    note = f"{OF_95}. {NEW_ROWS}"
    words = {"groups": basis.held.in_groups}
    table = Table.of_scores("scores", "Scores of held-out rows", found, note)
    meaning = f"Scores of rows that the model had not seen, with intervals. {NEW_ROWS}"
    made = of_held(basis.held, found, meaning, tables=(table,))
    # beside nested folds the finding "reported" says which
    which = "" if basis.nested else " This is the {} to report, with its interval."
    if basis.held.classes is not None:
        made = made.says(
            "score",
            "Of {n:d} held-out rows{groups}, which the model had not seen, {v:fraction} are predicted "
            f"correctly{{interval:percent}}.{which.format('accuracy')}",
            words,
            **ends("accuracy"),
        )
        if "ROC AUC" not in found:
            return made
        return made.says(
            "score",
            "ROC AUC is {v:score}{interval:score}: the chance that of two rows of different classes the model ranks "
            "the right one higher.",
            **ends("ROC AUC"),
        )
    return made.says(
        "score",
        "On {n:d} held-out rows{groups}, which the model had not seen, R^2 is {v:score}{interval:score}: the fraction "
        f"of the variance of the target that the predictions explain.{which.format('score')}",
        words,
        **ends("R^2"),
    ).says(
        "score",
        "Predictions are off by {v:units} on average{interval:units}, in units of the target.",
        **ends("MAE"),
    )


def _few(held: HeldOut) -> dict[str, int]:
    """Classes with few held-out rows."""
    counts = {name: int((held.truth == name).sum()) for name in held.classes or ()}
    return {name: count for name, count in counts.items() if count < FEWEST_ROWS}


@finding("classes", title="Held-out rows by class", needs=("held",))
def _classes(basis: Basis) -> Finding | None:
    held = basis.held
    if held.several or held.classes is None:
        return None
    found = {name: one for name, one in held_intervals(held).items() if name.startswith(OF_CLASS)}
    made = of_held(
        held,
        found,
        "Recall is the fraction of the rows of a class that are found, precision the fraction of the rows predicted as "
        "a class that are of it.",
        form=".1%",
    )
    if found:
        of = {name: (found[f"recall of {name}"], found[f"precision of {name}"]) for name in held.classes}
        rows = [
            [name, recall.n, *recall.cells, other.n, *other.cells] for name, (recall, other) in of.items()
        ]
        heads = ["class", "rows", "recall", "low", "high", "predicted", *PRECISION]
        forms = ("fraction", "percent", "percent")
        formats = dict(zip(heads[2:5], (f"{form}@rows" for form in forms), strict=True))
        formats |= dict(zip(PRECISION, (f"{form}@predicted" for form in forms), strict=True))
        table = Table(
            "classes", "Held-out rows by class", heads, rows, f"{OF_95} (Wilson). {made.meaning}", formats
        )
        made = replace(made, tables=(table,))
        recalls = {name: recall for name, (recall, _) in of.items() if recall.n}
        if len({recall.value for recall in recalls.values()}) > 1:
            worst = min(recalls, key=lambda name: recalls[name].value)
            hits = round(recalls[worst].value * recalls[worst].n)
            made = replace(made, details={"hardest": {"class": worst, "found": hits}}).says(
                "score",
                "Hardest class: {name}, of which {hits:d} of {n:d} held-out rows are found.",
                {"name": worst},
                hits=("details", "hardest", "found"),
                n=at(f"recall of {worst}", "n"),
            )
    few = _few(held)
    if few:
        shown = dict(list(few.items())[:10])
        listed = ", ".join(f"{name}: {count}" for name, count in shown.items())
        more = f" and {len(few) - len(shown)} more" if len(few) > len(shown) else ""
        what = "1 class has" if len(few) == 1 else f"{len(few)} classes have"
        made = made.warns(
            f"{what} fewer than {FEWEST_ROWS} held-out rows ({listed}{more}): how well such a class is predicted is "
            "hardly known. Hold out more rows, or repeat with other rows held out.",
            {f"held-out rows of {name}": count for name, count in shown.items()},
        )
    return made if found or few else None


@finding("targets", title="Held-out rows by target", needs=("held",))
def _targets(basis: Basis) -> Finding | None:
    held = basis.held
    if not held.several or not held.targets:
        return None
    labels, scores = held.decision is not None, held.by_target()
    what, main = ("label", "accuracy") if labels else ("target", "R^2")
    columns = {what: list(held.targets), **{name: [one[name] for one in scores] for name in scores[0]}}
    n = len(held)
    formats = {name: f"{score_form(name)}@{n}" for name in scores[0] if name not in COUNTS}
    table = Table.of("targets", f"Held-out rows by {what}", columns, "", formats)
    values = {name: Interval(one[main], n=n) for name, one in zip(held.targets, scores, strict=True)}
    ordered = sorted(values, key=lambda name: values[name].value)
    mean = float(np.mean([one.value for one in values.values()]))
    made = Finding(
        values,
        f"{main} of held-out rows for each {what}.",
        n,
        "held-out rows",
        details={"mean": mean, "targets": len(values)},
        tables=(table,),
    )
    return made.says(
        "score",
        f"The mean {main} of {{k:d}} {what}s is {{m:score}}, from {{low:score}} ({{worst}}) to {{high:score}} "
        "({best}).",
        {"worst": ordered[0], "best": ordered[-1]},
        k=("details", "targets"),
        m=("details", "mean"),
        low=at(ordered[0]),
        high=at(ordered[-1]),
    )


@finding("folds", title="The score that chose", needs=("model",))
def _folds(basis: Basis) -> Finding | None:
    results = getattr(basis.model, "cv_results_", None)
    if results is None or "score_name" not in results:
        return None
    value, name = float(results["test_score"][basis.model.best_index_]), str(results["score_name"])
    n_folds = sum(one.startswith("split") for one in results)
    said = not_an_estimate("C" if hasattr(basis.model, "C_") else "alpha")
    rows = int(basis.model.model_.task.source.n_samples)
    # files of earlier versions have no scores of single folds for targets with weights of their own
    columns = {"score": [name], "value": [value], "folds": [n_folds or None], "what it is": [said]}
    where = "{n:d} fold" if n_folds == 1 else "{n:d} folds" if n_folds else "folds"
    formats = {"value": f"{score_form(name)}@{rows}"}
    return Finding(
        {name: Interval(value, n=n_folds)},
        f"{name} of the test rows of the folds: {said}.",
        n_folds or None,
        "folds of the training rows",
        rows=rows,
        details={"score": name, "said": said},
        tables=(Table.of("folds", "The score that chose", columns, "", formats),),
    ).says(
        "score",
        f"{{name}} over {where} of the training rows is {{v:{score_form(name)}}}: {{said}}.",
        {"name": name.replace(", mean over folds", ", mean"), "said": said},
        v=at(name),
        n=at(name, "n"),
    )


@finding("range", title="Range of the regularisation parameter", needs=("model",))
def _at_an_end(basis: Basis) -> Finding | None:
    results = getattr(basis.model, "cv_results_", None)
    if results is None:
        return None
    tried = np.asarray(results["alpha"], dtype=float)
    alphas, best = np.unique(tried[np.isfinite(tried)]), float(tried[basis.model.best_index_])
    # a search leaves out what promised nothing at its end
    given = np.asarray(getattr(basis.model, "_candidates", tried), dtype=float)
    given = given[np.isfinite(given)]
    if len(alphas) < 2 or best not in (alphas[0], alphas[-1]) or given.min() < best < given.max():
        return None
    is_c = hasattr(basis.model, "C_")
    name, value = ("C", 1.0 / best) if is_c else ("alpha", best)
    largest = (best == alphas[-1]) != is_c
    end, beyond = ("largest", "larger") if largest else ("smallest", "smaller")
    made = Finding(
        {name: Interval(value)}, "The chosen regularisation parameter among those tried.", len(alphas)
    )
    return made.decides(
        "distrust",
        f"Were all useful values of {name} tried?",
        "inconclusive",
        f"the chosen one, {{v:.3g}}, is the {end} of {{n:d}}, and a {beyond} one may be better. Try a wider range.",
        v=at(name),
        n=("n",),
    )


@finding("nested", title="Nested cross-validation", needs=("nested",))
def _nested(basis: Basis) -> Finding | None:
    if not basis.nested:
        return None
    found = {
        name: one for name, one in held_intervals(*basis.nested).items() if not name.startswith(OF_CLASS)
    }
    n_folds = sum(len(np.unique(one.folds)) for one in basis.nested if one.folds is not None)
    meaning = (
        f"Scores of rows that were predicted by models of {n_folds} folds, for which everything was learnt and chosen "
        "again without these rows."
    )
    n = max(one.n for one in found.values())
    table = Table.of_scores("nested", "Nested cross-validation", found, f"{OF_95}. {meaning}")
    details = {"folds": n_folds}
    made = Finding(found, meaning, n, "rows out of fold", LEVEL, rows=n, details=details, tables=(table,))
    name = headline(found)
    return made.says(
        "score",
        "In nested cross-validation, which repeats the whole fit in {k:d} folds without the rows that it predicts, "
        "{name} of {n:d} rows{groups} is {v:score}{interval:score}.",
        {"name": name, "groups": basis.nested[0].in_groups},
        **ends(name),
        k=("details", "folds"),
    )


@finding("reported", title="Which score to report", needs=("held", "nested"))
def _reported(basis: Basis) -> Finding | None:
    if not basis.nested or len(basis.held) < 2:
        return None
    made = Finding(
        {
            "nested": Interval(max(len(one.truth) for one in basis.nested)),
            "held out": Interval(len(basis.held)),
        },
        "Rows behind the scores that are estimates for new rows.",
        form="d",
    )
    chose = ""
    if getattr(basis.model, "cv_results_", None) is not None:
        chose = " The score over folds is neither: it has chosen."
    return made.says(
        "score",
        "In a paper, report the score of nested cross-validation with its interval: it is that of the whole procedure, "
        "on {n:d} rows. The score of the {m:d} held-out rows is that of this one model, for rows that were set "
        f"apart beforehand.{chose}",
        n=at("nested"),
        m=at("held out"),
    )
