"""How sure the scores of held-out rows are, and what to distrust in a fitted model: for reports and pages alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelweave.estimators.base import BaseMKL
    from kernelweave.reports import Held

Array = NDArray[np.float64]

#: Held-out rows of a class below which scores of that class say little.
FEWEST_ROWS = 10
#: Samples of rows, with replacement, and the share of them inside an interval.
SAMPLES = 2000
LEVEL = 0.95
FEWEST_SAMPLES = 100
#: Rows times samples that are drawn at most, unless there would be too few samples; and those that are drawn at once.
MOST_DRAWN = 5_000_000
AT_ONCE = 2_000_000


def doubts(model: BaseMKL, held: Held | None = None) -> list[str]:
    """Reasons for doubt in a fitted model, one sentence each, with the numbers behind it.

    Parameters
    ----------
    model : fitted estimator
    held : Held, optional
        Held-out rows.

    Returns
    -------
    list of str
        On a regularisation parameter at an end of those tried, on classes with few held-out rows, and on kernels that
        say nothing about new rows (`kernelweave.inspection.uninformative`).
    """
    from kernelweave.inspection import uninformative

    found = [*_at_an_end(model), *([] if held is None else _few_rows(model, held))]
    return [*found, *uninformative(model, most=20)]


def _at_an_end(model: BaseMKL) -> list[str]:
    results = getattr(model, "cv_results_", None)
    if results is None:
        return []
    alphas = np.unique(np.asarray(results["alpha"], dtype=float))
    alphas = alphas[np.isfinite(alphas)]
    best = float(np.asarray(results["alpha"], dtype=float)[model.best_index_])
    if len(alphas) < 2 or alphas[0] < best < alphas[-1] or best not in (alphas[0], alphas[-1]):
        return []
    is_c = hasattr(model, "C_")
    name, value = ("C", 1.0 / best) if is_c else ("alpha", best)
    largest = (best == alphas[-1]) != is_c
    return [
        f"The chosen {name} = {value:.3g} is the {'largest' if largest else 'smallest'} of the {len(alphas)} values "
        f"tried: a {'larger' if largest else 'smaller'} one may be better. Try a wider range."
    ]


def _few_rows(model: BaseMKL, held: Held) -> list[str]:
    if not hasattr(model, "classes_") or np.ndim(held.truth) != 1:
        return []
    truth = np.asarray(held.truth).astype(str)
    few = {str(name): int((truth == str(name)).sum()) for name in model.classes_}
    few = {name: count for name, count in few.items() if count < FEWEST_ROWS}
    if not few:
        return []
    listed = ", ".join(f"{name}: {count}" for name, count in list(few.items())[:10])
    more = f" and {len(few) - 10} more" if len(few) > 10 else ""
    what = "1 class has" if len(few) == 1 else f"{len(few)} classes have"
    return [
        f"{what} fewer than {FEWEST_ROWS} held-out rows ({listed}{more}): how well such a class is predicted is hardly "
        "known. Hold out more rows, or repeat with other rows held out."
    ]


def intervals(model: BaseMKL, held: Held, *, seed: int = 0) -> dict[str, tuple[float, float]]:
    """95 % intervals of the scores of held-out rows, over samples of these rows with replacement.

    The ends are percentiles (percentile bootstrap).

    Parameters
    ----------
    model : fitted estimator
    held : Held
    seed : int, default=0
        Of the samples.

    Returns
    -------
    dict of str to pair of float
        Lower and upper end by the name of the score; those without enough rows, or of scores that samples of rows do
        not have, are left out. None for several targets or labels.

    Notes
    -----
    An interval is for this model on new rows like those held out. It does not say how much another choice of training
    rows would change the model, as repeated or nested folds do.
    """
    n_rows = len(held.truth)
    if n_rows < 2 or np.ndim(held.truth) != 1:
        return {}
    rng = np.random.default_rng(seed)
    n_samples = int(np.clip(MOST_DRAWN // n_rows, FEWEST_SAMPLES, SAMPLES))
    scores = _class_scores(model, held) if hasattr(model, "classes_") else _number_scores(held)
    scores = {name: of for name, of in scores.items() if name in held.scores}
    sampled: dict[str, list[Array]] = {name: [] for name in scores}
    left = n_samples
    while left:
        some = min(left, max(1, AT_ONCE // n_rows))
        # how often each row is in each sample: all scores are functions of sums with these weights
        counts = rng.multinomial(n_rows, np.full(n_rows, 1.0 / n_rows), size=some).astype(float)
        for name, of in scores.items():
            sampled[name].append(of(counts))
        left -= some
    found = {}
    for name, parts in sampled.items():
        values = np.concatenate(parts)
        values = values[np.isfinite(values)]
        if len(values) >= 0.9 * n_samples:
            low, high = np.quantile(values, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
            found[name] = (float(low), float(high))
    return found


def _number_scores(held: Held) -> dict[str, Callable[[Array], Array]]:
    y = np.asarray(held.truth, dtype=float)
    error = y - held.predictions["prediction"].to_numpy(dtype=float)
    n = len(y)

    def explained(w: Array) -> Array:
        centre = y - y.mean()  # sums of squares without cancellation
        total = w @ centre**2 - (w @ centre) ** 2 / n
        return 1.0 - (w @ error**2) / np.where(total > 0, total, np.nan)

    return {
        "R^2": explained,
        "RMSE": lambda w: np.sqrt(w @ error**2 / n),
        "MAE": lambda w: w @ np.abs(error) / n,
    }


def _class_scores(model: BaseMKL, held: Held) -> dict[str, Callable[[Array], Array]]:
    truth = np.asarray(held.truth).astype(str)
    guess = held.predictions["prediction"].to_numpy().astype(str)
    classes: Sequence[str] = [str(name) for name in model.classes_]
    n = len(truth)
    is_true = np.array([truth == name for name in classes], dtype=float).T
    is_guess = np.array([guess == name for name in classes], dtype=float).T
    right = (truth == guess).astype(float)

    def recalls(w: Array) -> Array:
        known = w @ is_true
        return (w @ (is_true * is_guess)) / np.where(known > 0, known, np.nan)

    def balanced(w: Array) -> Array:
        return np.nanmean(recalls(w), axis=1)

    def f1(w: Array) -> Array:
        # as scikit-learn, over classes that are true or predicted
        both, either = w @ (is_true * is_guess), w @ is_true + w @ is_guess
        return np.nanmean(2.0 * both / np.where(either > 0, either, np.nan), axis=1)

    found: dict[str, Callable[[Array], Array]] = {
        "accuracy": lambda w: w @ right / n,
        "balanced accuracy": balanced,
        "F1 (macro)": f1,
    }
    if "decision" in held.predictions and len(classes) == 2:
        values = held.predictions["decision"].to_numpy(dtype=float)
        found["ROC AUC"] = lambda w: _areas(w, truth == classes[1], values)
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
