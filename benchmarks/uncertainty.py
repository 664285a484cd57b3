"""How often intervals and sets hold, and how good probabilities are: ``python -m benchmarks.uncertainty``.

Intervals of a plain regression on ten real tables and ten made-up ones (60 to 1,000 training rows; errors that are
normal, heavy-tailed, skewed, or larger in some places), random divisions: coverage of the test rows at 50, 80, 90 and
95 %, and the mean width in standard deviations of the target. Probabilities of a plain classification on 15 tables,
five of them with classes of at most 15 %: log loss, Brier score and calibration error of the test rows beside a
random forest, boosting and logistic regression; log loss after `calibrate`, whose folds learn widths and weights
again, by a temperature and by Platt's curves; coverage of sets in each class. Processor seconds of one thread;
intervals, sets and probabilities are computed from values that the fit has, so that they take no fits. Of 6,000 rows,
where folds have 1,000 (C of a regression) or 3,000 (a plain classification), the same by these and by folds of all.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelweave as kw

RESULTS = Path(__file__).parent / "results" / "uncertainty.json"
COVERAGES = (0.5, 0.8, 0.9, 0.95)
Table = tuple[Any, np.ndarray]


def made_up(n: int, noise: str, seed: int) -> Table:
    """Five columns, four of which matter, and errors of one of five kinds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, 5))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    e = {
        "normal": lambda: rng.normal(size=2 * n),
        "heavy": lambda: rng.standard_t(3, size=2 * n),
        "skewed": lambda: rng.exponential(size=2 * n) - 1.0,
        "local": lambda: (0.3 + np.abs(X[:, 0])) * rng.normal(size=2 * n),
        "none": lambda: 0.01 * rng.normal(size=2 * n),
    }[noise]()
    return X, f + 0.5 * e


def _data(name: str) -> Callable[[int], Table]:
    def read(_: int) -> Table:
        found = kw.datasets.load(name)
        return np.asarray(found.X, dtype=float), np.asarray(found.y)

    return read


def _friedman(make: Any, n: int, noise: float) -> Callable[[int], Table]:
    return lambda seed: make(n_samples=2 * n, noise=noise, random_state=seed)


NUMBERS: dict[str, Callable[[int], Table]] = {
    **{name: _data(name) for name in ("prostate", "autompg", "cpu", "servo", "housing")},
    "diabetes": lambda _: datasets.load_diabetes(return_X_y=True),
    "friedman 1, 100": _friedman(datasets.make_friedman1, 100, 1.0),
    "friedman 1, 300": _friedman(datasets.make_friedman1, 300, 1.0),
    "friedman 2, 150": _friedman(datasets.make_friedman2, 150, 100.0),
    "friedman 3, 200": _friedman(datasets.make_friedman3, 200, 0.1),
    **{
        f"{noise}, {n}": (lambda seed, n=n, noise=noise: made_up(n, noise, seed))
        for noise in ("normal", "heavy", "skewed", "local", "none")
        for n in (60, 1000 if noise == "normal" else 300)
    },
}


def _classes(n: int, weights: list[float], informative: int = 5) -> Callable[[int], Table]:
    return lambda seed: datasets.make_classification(
        2 * n,
        12,
        n_informative=informative,
        n_classes=len(weights),
        weights=weights,
        flip_y=0.05,
        random_state=seed,
    )


CLASSES: dict[str, Callable[[int], Table]] = {
    **{
        name: _data(name)
        for name in ("heart", "pima", "ionosphere", "sonar", "liver", "german_numeric", "wdbc")
    },
    "wine": lambda _: datasets.load_wine(return_X_y=True),
    "digits": lambda _: tuple(part[:800] for part in datasets.load_digits(return_X_y=True)),
    "moons": lambda seed: datasets.make_moons(400, noise=0.3, random_state=seed),
    "imbalanced 15 %": _classes(300, [0.85, 0.15]),
    "imbalanced 10 %": _classes(300, [0.9, 0.1]),
    "imbalanced 5 %": _classes(500, [0.95, 0.05]),
    "four classes, 5 %": _classes(300, [0.6, 0.25, 0.1, 0.05], 6),
    "three classes, 10 %": _classes(200, [0.6, 0.3, 0.1], 6),
}


def _seconds(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    begin = time.process_time()
    found = call(*arguments)
    return found, time.process_time() - begin


def _ends(model: kw.MKLRegressor, X: np.ndarray) -> list[np.ndarray]:
    return [model.predict_interval(X, coverage) for coverage in COVERAGES]


def numbers(name: str, n_splits: int) -> dict[str, Any]:
    """Mean coverage and width over divisions of a table."""
    held, widths, fit, more = [], [], 0.0, 0.0
    for seed in range(n_splits):
        X, y = NUMBERS[name](seed)
        train, test = train_test_split(
            np.arange(len(y)), train_size=min(1000, len(y) // 2), random_state=seed
        )
        model, seconds = _seconds(kw.MKLRegressor().fit, X[train], y[train])
        ends, further = _seconds(partial(_ends, model), X[test])
        held.append([np.mean((e[:, 0] <= y[test]) & (y[test] <= e[:, 1])) for e in ends])
        widths.append([np.ptp(e, axis=1).mean() / y[test].std() for e in ends])
        fit, more = fit + seconds, more + further
    return {
        "rows": len(train),
        "coverage": np.mean(held, axis=0).round(4).tolist(),
        "width": np.mean(widths, axis=0).round(3).tolist(),
        "seconds": {"fit": round(fit / n_splits, 3), "intervals": round(more / n_splits, 4)},
    }


def calibration_error(p: np.ndarray, right: np.ndarray, n_bins: int = 10) -> float:
    """Mean distance of the largest probability from how often it is right, over bins of as many rows."""
    order = np.argsort(p)
    return float(
        sum(len(b) * abs(p[b].mean() - right[b].mean()) for b in np.array_split(order, n_bins) if len(b))
        / len(p)
    )


RIVALS: dict[str, Callable[[], ClassifierMixin]] = {
    "plain": kw.MKLClassifier,
    "forest": lambda: RandomForestClassifier(300, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
}


def classes(name: str, n_splits: int) -> dict[str, Any]:
    """Mean scores of probabilities over divisions of a table, and coverage of sets by class."""
    found: dict[str, list[list[float]]] = {rival: [] for rival in RIVALS}
    refitted: dict[str, list[float]] = {method: [] for method in ("temperature", "platt")}
    sets = []
    for seed in range(n_splits):
        X, y = CLASSES[name](seed)
        codes = np.unique(y, return_inverse=True)[1]
        train, test = train_test_split(
            np.arange(len(y)), train_size=len(y) // 2, random_state=seed, stratify=codes
        )
        one = np.eye(codes.max() + 1)[codes[test]]

        def loss(p: np.ndarray, truth: np.ndarray = codes[test], kinds: int = one.shape[1]) -> float:
            return float(log_loss(truth, np.clip(p, 1e-6, 1.0), labels=range(kinds)))

        for rival, make in RIVALS.items():
            model, seconds = _seconds(make().fit, X[train], codes[train])
            p, more = _seconds(model.predict_proba, X[test])
            best = p.argmax(axis=1)
            found[rival].append(
                [
                    loss(p),
                    float(np.square(p - one).sum(axis=1).mean()),
                    calibration_error(p.max(axis=1), best == codes[test]),
                    float(np.mean(best == codes[test])),
                    seconds + more,
                ]
            )
            if rival == "plain":
                held = model.predict_set(X[test], 0.9)
                sets.append([held[codes[test] == k, k].mean() for k in range(one.shape[1])])
                for method, losses in refitted.items():
                    losses.append(loss(model.calibrate(method).predict_proba(X[test])))
    names = ("log loss", "Brier", "calibration error", "accuracy", "seconds")
    means = {rival: np.mean(rows, axis=0).round(4).tolist() for rival, rows in found.items()}
    return {
        "rows": len(train),
        "smallest class": round(float(np.bincount(codes).min() / len(codes)), 3),
        **{rival: dict(zip(names, values, strict=True)) for rival, values in means.items()},
        "refitted log loss": {method: round(float(np.mean(one)), 4) for method, one in refitted.items()},
        "sets": np.mean(sets, axis=0).round(3).tolist(),
    }


def many(seed: int, n: int = 6000) -> dict[str, Any]:
    """Intervals, probabilities and sets by the folds that chose C, of some rows, and by folds of all rows."""
    X, y = made_up(n // 2 + 1500, "normal", seed)
    found: dict[str, Any] = {}
    for kind, make, target in (
        ("numbers", partial(kw.MKLRegressor, learner="lp", C="auto"), y),
        ("classes", kw.MKLClassifier, (y > 0).astype(int)),
    ):
        chosen, seconds = _seconds(make().fit, X[:n], target[:n])
        all_rows = make(C=1.0 / chosen.alpha_).fit(X[:n], target[:n])
        for name, model in (("some rows", chosen), ("all rows", all_rows)):
            if kind == "numbers":
                ends, more = _seconds(model.predict_interval, X[n:])
                right = (ends[:, 0] <= target[n:]) & (target[n:] <= ends[:, 1])
                one = {"coverage": [right.mean()], "width": np.ptp(ends, axis=1).mean() / y.std()}
            else:
                held, more = _seconds(model.predict_set, X[n:])
                right = held[np.arange(len(held)), target[n:]]
                one = {
                    "log loss": log_loss(target[n:], model.predict_proba(X[n:])),
                    "coverage": [right[target[n:] == k].mean() for k in (0, 1)],
                    "size": held.sum(axis=1).mean(),
                }
            rounded = {what: np.round(value, 4).tolist() for what, value in one.items()}
            found[f"{kind}, {name}"] = rounded | {"seconds": round(more, 2)}
        found[f"{kind}, seconds of the fit"] = round(seconds, 2)
    return found


def main() -> None:
    """Run and write `RESULTS`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--many", type=int, default=3, help="Draws of 6,000 rows.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    out: dict[str, Any] = {"splits": options.splits, "coverages": COVERAGES, "numbers": {}, "classes": {}}
    for kind, tables, run in (("numbers", NUMBERS, numbers), ("classes", CLASSES, classes)):
        for name in tables:
            out[kind][name] = run(name, options.splits)
            print(name, out[kind][name], flush=True)
            options.out.write_text(json.dumps(out, indent=1) + "\n")
    out["6,000 rows"] = [many(seed) for seed in range(options.many)]
    options.out.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
