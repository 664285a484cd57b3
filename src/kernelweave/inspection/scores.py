"""How sure scores are: intervals of scores of held-out rows, and of scores over folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from kernelweave._checks import Floats, InputError
from kernelweave._drawing import clip_score
from kernelweave._parameters import Number, Whole, checked
from kernelweave.inspection.arguments import Entries, Level, OfRows, OptionalEntries, Seed
from kernelweave.inspection.held import COUNTS, HeldOut, Score, values_of
from kernelweave.inspection.registry import (
    CORRECTED,
    LEVEL,
    SAMPLES,
    Basis,
    Finding,
    Interval,
    Table,
    at,
    ends,
    finding,
)

Array = NDArray[np.float64]

#: Rows times samples that are drawn at most, unless there would be too few samples; and those that are drawn at once.
MOST_DRAWN = 5_000_000
AT_ONCE = 2_000_000
FEWEST_SAMPLES = 100

WILSON = "Wilson"
BOOTSTRAP = "bootstrap"
JEFFREYS = "Jeffreys"


@checked
def share_interval(
    hits: Annotated[int, Whole(0)], n: Annotated[int, Whole(0)], *, level: Level = 0.95
) -> Interval:
    """Wilson's interval of a fraction of rows, such as accuracy, or the recall of a class.

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
        return Interval(float("nan"), method=WILSON)
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
    mean, half, _ = corrected_mean(values, values, test_share, level)
    return Interval(mean, mean - half, mean + half, CORRECTED, len(values))


def corrected_mean(values: Array, of: Array, test_share: float, level: float) -> tuple[float, float, float]:
    """A mean over folds, half of its interval, and the p-value of a mean of zero.

    The half is NaN, and the p-value 1, for one fold, and where values differ by no more than rounding in those of which
    they were computed.
    """
    k, mean = len(values), float(values.mean())
    if k < 2 or np.ptp(values) <= 1e-12 * np.abs(of).max():
        return mean, float("nan"), 1.0
    error = np.sqrt((1 / k + test_share) * values.var(ddof=1))
    half = error * stats.t.ppf(0.5 + level / 2, k - 1)
    return mean, float(half), float(2.0 * stats.t.sf(abs(mean) / error, k - 1))


def middle(samples: Array, level: float) -> Array:
    """The ends of the middle part of samples, (2, ...)."""
    return np.quantile(samples, [0.5 - level / 2, 0.5 + level / 2], axis=0)


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
    kind, names = (float, None) if classes is None else (str, np.asarray(classes).astype(str).tolist())
    values, shares = (
        None if given is None else np.asarray(given, dtype=float) for given in (decision, probability)
    )
    held = HeldOut(truth.astype(kind), guess.astype(kind), names, values, shares)
    return _intervals(held, level, n_samples, seed)


def held_intervals(held: HeldOut, *, seed: int = 0) -> dict[str, Interval]:
    """The same for rows of one target, with 95 % intervals; none of several targets, or of one row."""
    return {} if held.several or len(held.truth) < 2 else _intervals(held, LEVEL, SAMPLES, seed)


def _intervals(held: HeldOut, level: float, n_samples: int, seed: int) -> dict[str, Interval]:
    exact = {} if held.classes is None else _shares(held, level, n_samples, seed)
    others = {name: of for name, of in held.functions.items() if name not in exact}
    found = exact | bootstrap_intervals(others, len(held.truth), level=level, n_samples=n_samples, seed=seed)
    return {name: found[name] for name in dict.fromkeys([*held.functions, *exact]) if name in found}


def _shares(held: HeldOut, level: float, n_samples: int, seed: int) -> dict[str, Interval]:
    """Accuracy, recall and precision of every class, and balanced accuracy."""
    right = held.truth == held.prediction
    found = {"accuracy": share_interval(int(right.sum()), len(right), level=level)}
    for name in held.classes or ():
        for what, rows in (("recall", held.truth == name), ("precision", held.prediction == name)):
            one = share_interval(int((right & rows).sum()), int(rows.sum()), level=level)
            found[f"{what} of {name}"] = one
    recalls = [one for name, one in found.items() if name.startswith("recall of ") and one.n]
    if recalls:
        rng, size = np.random.default_rng(seed), max(n_samples, 2000)
        hits = [round(one.value * one.n) for one in recalls]
        drawn = [rng.beta(k + 0.5, one.n - k + 0.5, size) for k, one in zip(hits, recalls, strict=True)]
        value = float(np.mean([one.value for one in recalls]))
        low, high = middle(np.mean(drawn, axis=0), level).tolist()
        # where all rows are right, or none is, the interval ends at the score
        found["balanced accuracy"] = Interval(value, min(low, value), max(high, value), JEFFREYS, len(right))
    return found


def bootstrap_intervals(
    scores: Mapping[str, Score], n_rows: int, *, level: float = 0.95, n_samples: int = 2000, seed: int = 0
) -> dict[str, Interval]:
    """Percentile intervals of scores that are functions of how often each row is in a sample, (n_samples, n_rows)."""
    values = values_of(scores, n_rows)
    found = {name: Interval(value, method=BOOTSTRAP, n=n_rows) for name, value in values.items()}
    if n_rows < 2:
        return found
    rng = np.random.default_rng(seed)
    wanted = int(np.clip(MOST_DRAWN // n_rows, FEWEST_SAMPLES, n_samples))
    at_once = max(1, AT_ONCE // n_rows)
    sampled: dict[str, list[Array]] = {name: [] for name in scores}
    for begin in range(0, wanted, at_once):
        size = min(at_once, wanted - begin)
        counts = rng.multinomial(n_rows, np.full(n_rows, 1.0 / n_rows), size=size).astype(float)
        for name, of in scores.items():
            sampled[name].append(of(counts))
    for name, parts in sampled.items():
        drawn = np.concatenate(parts)
        drawn = drawn[np.isfinite(drawn)]
        if len(drawn) < 0.9 * wanted or np.ptp(drawn) <= 1e-12 * np.abs(drawn).max(initial=0.0):
            continue
        low, high = middle(drawn, level)
        found[name] = Interval(values[name], float(low), float(high), BOOTSTRAP, n_rows)
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
NEW_ROWS = "It is for this model on new rows like those held out, not for other training rows."


def of_held(held: HeldOut, values: Mapping[str, Interval], meaning: str, **more: Any) -> Finding:
    """A finding about held-out rows."""
    return Finding(values, meaning, len(held.truth), "held-out rows", LEVEL, **more)


@finding("rows", title="Rows", needs=("model",))
def _rows(basis: Basis) -> Finding:
    n = int(basis.model.model_.task.source.n_samples)
    n_held = 0 if basis.held is None else len(basis.held.truth)
    made = Finding(
        {"training": Interval(n), "held out": Interval(n_held)},
        "Rows from which the model was learnt, and rows that it had not seen.",
        form="d",
        details={"task": "classification" if hasattr(basis.model, "classes_") else "regression"},
    )
    if n < FEWEST_TRAINING:
        made = made.says(
            "distrust",
            f"The model was learnt from {{n:d}} rows, fewer than {FEWEST_TRAINING}: another sample may give quite "
            "another model.",
            n=at("training"),
        )
    if not n_held and not basis.nested:
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


@finding("held out", title="Scores of held-out rows", needs=("held",))
def _held_scores(basis: Basis) -> Finding | None:
    found = {name: one for name, one in held_intervals(basis.held).items() if not name.startswith(OF_CLASS)}
    if not found:
        return None
    note = f"{OF_95}. {NEW_ROWS}"
    table = Table.of_intervals("scores", "Scores of held-out rows", ("score", "value", "rows"), found, note)
    meaning = f"Scores of rows that the model had not seen, with intervals. {NEW_ROWS}"
    made = of_held(basis.held, found, meaning, tables=(table,))
    if basis.held.classes is not None:
        return made.says(
            "score",
            "{v:.1%} of the {n:d} held-out rows, which the model had not seen, are predicted correctly{interval:.1%}.",
            **ends("accuracy"),
        ).says(
            "score",
            "ROC AUC is {v:.3f}{interval:.3f}: the chance that of two rows of different classes the model ranks the "
            "right one higher.",
            **ends("ROC AUC"),
        )
    return made.says(
        "score",
        "On {n:d} held-out rows, which the model had not seen, R^2 is {v:.3f}{interval:.3f}: the fraction of the "
        "variance of the target that the predictions explain.",
        **ends("R^2"),
    ).says(
        "score",
        "Predictions are off by {v:.4g} on average{interval:.4g}, in units of the target.",
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
        rows = [[name, recall.n, *recall.cells, *other.cells] for name, (recall, other) in of.items()]
        heads = ["class", "rows", "recall", "low", "high", *PRECISION]
        table = Table("classes", "Held-out rows by class", heads, rows, f"{OF_95} (Wilson). {made.meaning}")
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
    formats = {name: ".4f" for name in scores[0] if name not in COUNTS}
    table = Table.of("targets", f"Held-out rows by {what}", columns, "", formats)
    return Finding(
        {name: Interval(one[main]) for name, one in zip(held.targets, scores, strict=True)},
        f"{main} of held-out rows for each {what}.",
        len(held.truth),
        "held-out rows",
        form=".4f",
        tables=(table,),
    )


def fold_ratio(model: Any, n_folds: int) -> float:
    """Test rows for each training row of the folds that chose the regularisation parameter."""
    cv: Any = getattr(model, "cv", None)
    size = getattr(cv, "test_size", None)
    if isinstance(size, float):
        return size / (1.0 - size)
    given = cv if isinstance(cv, int) else getattr(cv, "n_splits", getattr(cv, "cvargs", {}).get("n_splits"))
    k = int(given) if isinstance(given, int) else n_folds
    return 1.0 / max(1, k - 1)


def _over_folds(scores: Mapping[str, Sequence[float]], share: float) -> dict[str, Interval]:
    """Mean scores over folds with their intervals, which end where scores end."""
    found = {name: fold_interval(values, share, level=LEVEL) for name, values in scores.items()}
    return {
        name: replace(one, low=clip_score(one.low, name), high=clip_score(one.high, name))
        for name, one in found.items()
    }


@finding("folds", title="Scores over folds", needs=("model",))
def _folds(basis: Basis) -> Finding | None:
    results = getattr(basis.model, "cv_results_", None)
    if results is None or "score_name" not in results:
        return None
    folds = [v for k, v in results.items() if k.startswith("split") and k.endswith("_test_score")]
    values = [float(fold[basis.model.best_index_]) for fold in folds]
    known = [value for value in values if np.isfinite(value)]
    if not known:
        return None
    name = str(results["score_name"])
    found = _over_folds({name: known}, fold_ratio(basis.model, len(folds)))
    listed = ", ".join(f"{value:.4f}" for value in values)
    note = f"{OF_95}, corrected for rows in common. At the chosen regularisation parameter, fold by fold: {listed}."
    return Finding(
        found,
        "Mean score over folds at the chosen regularisation parameter.",
        len(known),
        "folds of the training rows",
        LEVEL,
        details={"score": name},
        tables=(Table.of_intervals("folds", "Scores over folds", ("score", "mean", "folds"), found, note),),
    ).says(
        "score",
        "The mean {name} over {n:d} folds is {v:.3f}{interval:.3f}; it chose the regularisation parameter, so it is "
        "somewhat too good.",
        {"name": name},
        **ends(name),
    )


@finding("range", title="Range of the regularisation parameter", needs=("model",))
def _at_an_end(basis: Basis) -> Finding | None:
    results = getattr(basis.model, "cv_results_", None)
    if results is None:
        return None
    tried = np.asarray(results["alpha"], dtype=float)
    alphas, best = np.unique(tried[np.isfinite(tried)]), float(tried[basis.model.best_index_])
    if len(alphas) < 2 or best not in (alphas[0], alphas[-1]):
        return None
    is_c = hasattr(basis.model, "C_")
    name, value = ("C", 1.0 / best) if is_c else ("alpha", best)
    largest = (best == alphas[-1]) != is_c
    made = Finding(
        {name: Interval(value)}, "The chosen regularisation parameter among those tried.", len(alphas)
    )
    return made.warns(
        f"The chosen {name} = {value:.3g} is the {'largest' if largest else 'smallest'} of the {len(alphas)} "
        f"values tried: a {'larger' if largest else 'smaller'} one may be better. Try a wider range.",
        {name: value, "values tried": len(alphas)},
    )


@finding("nested", title="Nested cross-validation", needs=("nested",))
def _nested(basis: Basis) -> Finding | None:
    outer = list(basis.nested or ())
    if not outer:
        return None
    scores = {name: [one[name] for one in outer if name in one] for name in outer[0]}
    found = _over_folds(scores, 1 / max(1, len(outer) - 1))
    note = f"{OF_95}, corrected for rows in common."
    table = Table.of_intervals("nested", "Nested cross-validation", ("score", "mean", "folds"), found, note)
    meaning = "Mean scores of outer folds, which played no part in any choice."
    made = Finding(found, meaning, len(outer), "outer folds", LEVEL, tables=(table,))
    for name in {"accuracy", "R^2"} & set(found):
        made = made.says(
            "score",
            "Nested cross-validation, which repeats the whole fit on {n:d} parts of the rows, gives a mean {name} "
            "of {v:.3f}{interval:.3f}.",
            {"name": name},
            **ends(name),
        )
    return made
