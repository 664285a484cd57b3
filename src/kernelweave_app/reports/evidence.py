"""How sure the scores of a fitted model are, and what to distrust in it: for reports, pages and files alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._drawing import clip_score
from kernelweave.inspection import (
    calibration,
    compare_classes,
    compare_numbers,
    fold_interval,
    score_intervals,
)
from kernelweave.inspection.scores import Interval

if TYPE_CHECKING:
    from kernelweave._types import Labels, Tree
    from kernelweave.estimators import BaseMKL
    from kernelweave_app.reports import Held

#: Held-out rows of a class below which scores of that class say little.
FEWEST_ROWS = 10
#: Training rows below which all of a model is uncertain.
FEWEST_TRAINING = 50
#: Predictions without any input, as baselines; the name of the class follows.
MOST_FREQUENT, MEAN = "the most frequent class", "the mean of the training rows"
#: Samples of rows, with replacement, and the share of them inside an interval.
SAMPLES = 2000
LEVEL = 0.95
#: Classes whose calibration is in a file.
MOST_CLASSES = 40


@dataclass(frozen=True)
class Doubt:
    """A reason for doubt, and the numbers behind it by what they are."""

    sentence: str
    numbers: dict[str, float] = field(default_factory=dict)


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
    return [one.sentence for one in reasons(model, held)]


def reasons(model: BaseMKL, held: Held | None = None) -> list[Doubt]:
    """What `doubts` says, with the numbers behind it."""
    from kernelweave.inspection import uninformative

    found = [*_at_an_end(model), *([] if held is None else _few_rows(model, held))]
    kinds = [kind for _, kind in model.uninformative_kernels_]
    counts = [float(kinds.count(kind)) for kind in ("identity", "constant") if kind in kinds]
    said = uninformative(model, most=20)
    return [*found, *(Doubt(one, {"kernels": n}) for one, n in zip(said, counts, strict=True))]


def _at_an_end(model: BaseMKL) -> list[Doubt]:
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
        Doubt(
            f"The chosen {name} = {value:.3g} is the {'largest' if largest else 'smallest'} of the {len(alphas)} "
            f"values tried: a {'larger' if largest else 'smaller'} one may be better. Try a wider range.",
            {name: value, "values tried": float(len(alphas))},
        )
    ]


def _few_rows(model: BaseMKL, held: Held) -> list[Doubt]:
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
        Doubt(
            f"{what} fewer than {FEWEST_ROWS} held-out rows ({listed}{more}): how well such a class is predicted is "
            "hardly known. Hold out more rows, or repeat with other rows held out.",
            {f"held-out rows of {name}": float(count) for name, count in list(few.items())[:10]},
        )
    ]


# ---- intervals -------------------------------------------------------------------------------------


def held_intervals(model: BaseMKL, held: Held, *, seed: int = 0) -> dict[str, Interval]:
    """Scores of held-out rows with 95 % intervals, those of every class among them (`inspection.score_intervals`).

    None for several targets or labels.
    """
    if len(held.truth) < 2 or np.ndim(held.truth) != 1:
        return {}
    table = held.predictions
    guess = table["prediction"].to_numpy()
    if not hasattr(model, "classes_"):
        return score_intervals(
            np.asarray(held.truth, dtype=float),
            guess.astype(float),
            n_samples=SAMPLES,
            level=LEVEL,
            seed=seed,
        )
    classes = [str(name) for name in model.classes_]
    shares = [f"probability {name}" for name in classes]
    return score_intervals(
        np.asarray(held.truth).astype(str),
        guess.astype(str),
        decision=table["decision"].to_numpy(dtype=float) if "decision" in table else None,
        probability=table[shares].to_numpy(dtype=float) if set(shares) <= set(table.columns) else None,
        classes=classes,
        n_samples=SAMPLES,
        level=LEVEL,
        seed=seed,
    )


def intervals(model: BaseMKL, held: Held, *, seed: int = 0) -> dict[str, tuple[float, float]]:
    """95 % intervals of the scores of held-out rows.

    Parameters
    ----------
    model : fitted estimator
    held : Held
    seed : int, default=0
        Of the samples of rows.

    Returns
    -------
    dict of str to pair of float
        Lower and upper end by the name of the score; those without one are left out. None for several targets or
        labels.

    Notes
    -----
    An interval is for this model on new rows like those held out. It does not say how much another choice of training
    rows would change the model, as repeated or nested folds do.
    """
    return {
        name: (one.low, one.high)
        for name, one in held_intervals(model, held, seed=seed).items()
        if name in held.scores and np.isfinite(one.low)
    }


def share_of_tests(model: BaseMKL, n_folds: int) -> float:
    """Test rows for each training row of the folds that chose the regularisation parameter."""
    cv: Any = getattr(model, "cv", None)
    size = getattr(cv, "test_size", None)
    if isinstance(size, float):
        return size / (1.0 - size)
    given = cv if isinstance(cv, int) else getattr(cv, "n_splits", getattr(cv, "cvargs", {}).get("n_splits"))
    k = int(given) if isinstance(given, int) else n_folds
    return 1.0 / max(1, k - 1)


def chosen_score(model: BaseMKL) -> tuple[str, Interval] | None:
    """The mean score over folds at the chosen regularisation parameter, with its corrected interval."""
    results = getattr(model, "cv_results_", None)
    if results is None:
        return None
    folds = [v for k, v in results.items() if k.startswith("split") and k.endswith("_test_score")]
    values = np.array([float(fold[model.best_index_]) for fold in folds])
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    name = str(results["score_name"])
    return name, _within(fold_interval(values, share_of_tests(model, len(folds))), name)


def _within(found: Interval, name: str) -> Interval:
    """An interval of Student's t, which may reach further than a score can, cut there."""
    return replace(found, low=clip_score(found.low, name), high=clip_score(found.high, name))


# ---- everything together ---------------------------------------------------------------------------


def number(value: Any) -> float | None:
    """A number for JSON, which has no NaN."""
    return float(value) if np.isfinite(value) else None


def _plain(one: Interval) -> Tree:
    return {name: number(v) if isinstance(v, float) else v for name, v in asdict(one).items()}


def gather(
    model: BaseMKL,
    held: Held | None = None,
    *,
    nested: list[dict[str, float]] | None = None,
    doubts: Sequence[Doubt] = (),
) -> Tree:
    """Numbers about a fitted model that say how good and how sure it is, as a tree for a file.

    Parameters
    ----------
    model : fitted estimator
    held : Held, optional
        Held-out rows.
    nested : list of dict, optional
        Scores of outer folds.
    doubts : sequence of Doubt
        Further reasons for doubt, such as those of the table.

    Returns
    -------
    dict
        With the keys "rows", "kernels", "views", "held out", "folds", "nested", "baselines", "calibration" and
        "doubts", as far as they apply. `kernelweave_app.reports.statements` makes sentences of it.
    """
    from kernelweave.inspection import view_weights
    from kernelweave.inspection.arguments import targets_of

    several = hasattr(model, "label_names_") or hasattr(model, "output_names_")
    source = model.model_.task.source
    tree: Tree = {
        "task": "classification" if hasattr(model, "classes_") else "regression",
        "rows": {"training": source.n_samples, "held out": 0 if held is None else len(held.truth)},
        "kernels": {
            "all": int(model.n_kernels_),
            "with a weight": int((np.atleast_2d(model.model_.weights).sum(axis=0) > 0).sum()),
            "in layers": bool(model.model_.layers),
        },
        "views": view_weights(model),
        "doubts": [asdict(one) for one in (*doubts, *reasons(model, held))],
    }
    folds = chosen_score(model)
    if folds is not None:
        tree["folds"] = {"score": folds[0], **_plain(folds[1])}
    if nested:
        k = len(nested)
        tree["nested"] = {
            name: _plain(
                _within(fold_interval([one[name] for one in nested if name in one], 1 / max(1, k - 1)), name)
            )
            for name in nested[0]
        }
    if held is None or several or np.ndim(held.truth) != 1:
        return tree
    found = held_intervals(model, held)
    kept = [name for name in found if name in held.scores]
    tree["held out"] = {name: _plain(found[name]) for name in kept}
    if tree["task"] == "classification":
        classes = [str(name) for name in model.classes_]
        tree["classes"] = {
            name: {what: _plain(found[f"{what} of {name}"]) for what in ("recall", "precision")}
            for name in classes
            if f"recall of {name}" in found
        }
        shares = {name: f"probability {name}" for name in classes}
        shown = classes[1:] if len(classes) == 2 else classes[:MOST_CLASSES]
        tree["calibration"] = {
            name: describe_calibration(
                np.asarray(held.truth).astype(str) == name,
                held.predictions[shares[name]].to_numpy(dtype=float),
            )
            for name in shown
            if shares[name] in held.predictions
        }
    name, guess = simplest(targets_of(model, 0), len(held.truth), classes="classes" in tree)
    tree["baselines"] = {name: against(model, held, guess)}
    return tree


def describe_calibration(is_class: Labels, probability: Labels, n_bins: int = 10) -> Tree:
    """Bins of probabilities as lists."""
    few = max(1, min(n_bins, len(is_class) // 10))
    found = calibration(is_class, np.clip(np.asarray(probability, dtype=float), 0.0, 1.0), n_bins=few)
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(found).items()
    }


def simplest(training: Labels, n_rows: int, *, classes: bool) -> tuple[str, Labels]:
    """The prediction without any input: the most frequent class of the training rows, or their mean."""
    if classes:
        names, counts = np.unique(np.asarray(training).astype(str), return_counts=True)
        most = str(names[np.argmax(counts)])
        return f"{MOST_FREQUENT}, {most}", np.full(n_rows, most, dtype=object)
    return MEAN, np.full(n_rows, float(np.mean(training.astype(float))))


def against(model: BaseMKL, held: Held, guess: Labels) -> Tree:
    """Scores of other predictions of the held-out rows, and a paired test of the model against them."""
    mine = held.predictions["prediction"].to_numpy()
    if hasattr(model, "classes_"):
        truth, guess = np.asarray(held.truth).astype(str), np.asarray(guess).astype(str)
        classes = [str(name) for name in model.classes_]
        found = score_intervals(truth, guess, classes=classes, n_samples=SAMPLES)
        test = compare_classes(truth, mine.astype(str), guess)
    else:
        truth, guess = np.asarray(held.truth, dtype=float), np.asarray(guess, dtype=float)
        found = score_intervals(truth, guess, n_samples=SAMPLES)
        test = compare_numbers(truth, mine.astype(float), guess)
    kept = ("accuracy", "balanced accuracy", "R^2", "RMSE")
    return {
        "scores": {name: _plain(one) for name, one in found.items() if name in kept},
        "test": describe_test(test),
    }


def describe_test(test: Any) -> Tree:
    """A paired test for a file."""
    return {name: number(v) if isinstance(v, float) else v for name, v in asdict(test).items()}
