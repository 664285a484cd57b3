"""How often intervals and sets hold, and how good probabilities are: ``python -m benchmarks.uncertainty``.

Intervals of a plain regression on ten real tables and ten made-up ones (60 to 1,000 training rows; errors that are
normal, heavy-tailed, skewed, or larger in some places), random divisions: coverage of the test rows at 50, 80, 90 and
95 %, and the mean width in standard deviations of the target. Where MAPIE is installed, the same of its CV+ with five
folds, around the model with its alpha and around a tuned kernel ridge regression. Probabilities of a plain
classification on 15 tables, five of them with classes of at most 15 %: log loss, Brier score and calibration error of
the test rows beside a random forest, boosting and logistic regression; log loss after `calibrate`, whose folds learn
widths and weights again, by a temperature and by Platt's curves; coverage of sets in each class, and of MAPIE's around
the same classifier. Processor seconds of one thread; intervals, sets and probabilities are computed from values that
the fit has, so that they take no fits. Rare classes: balanced accuracy and log loss of a plain classification with
``scoring="balanced_accuracy"`` on 15 real tables whose smallest class has less than 15 % of the rows, beside these
methods without and with balanced classes, and mean ranks. Of 6,000 rows, where folds have 1,000 (C of a regression) or
3,000 (a plain classification), the same by these and by folds of all. With ``--resume`` tables that are in the file
stay.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn import datasets
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import kernelweave as kw
from benchmarks import default_sets
from kernelweave.inspection.refitting import plainly

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


def kernel_ridge(n_columns: int) -> RegressorMixin:
    """Ridge regression with a Gaussian kernel on standardised columns, the best of nine settings by five folds."""
    grid = {
        "kernelridge__alpha": [0.01, 0.1, 1.0],
        "kernelridge__gamma": [width / n_columns for width in (1 / 16, 1 / 4, 1.0)],
    }
    model = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
    search = GridSearchCV(model, grid, cv=KFold(5, shuffle=True, random_state=0))
    return TransformedTargetRegressor(search, transformer=StandardScaler())


def _theirs(estimator: RegressorMixin, X: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """MAPIE's CV+: a function of new rows to ends, (n_rows, 2, n_coverages)."""
    from mapie.regression import CrossConformalRegressor

    folds = KFold(5, shuffle=True, random_state=0)
    model = CrossConformalRegressor(estimator, confidence_level=COVERAGES, cv=folds).fit_conformalize(X, y)
    return lambda rows: model.predict_interval(rows)[1]


def _ends(model: kw.MKLRegressor, rows: np.ndarray) -> np.ndarray:
    return np.stack([model.predict_interval(rows, coverage) for coverage in COVERAGES], axis=2)


def numbers(name: str, n_splits: int, n_tuned: int) -> dict[str, Any]:
    """Mean coverage, width and seconds over divisions of a table, of intervals by each method."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for seed in range(n_splits):
        X, y = NUMBERS[name](seed)
        train, test = train_test_split(
            np.arange(len(y)), train_size=min(1000, max(60, len(y) // 2)), random_state=seed
        )
        model, fitting = _seconds(kw.MKLRegressor().fit, X[train], y[train])
        ends, asking = _seconds(_ends, model, X[test])
        asked = {"ours": (ends, fitting, asking)}
        rivals = {"MAPIE, same model": plainly(model)} if find_spec("mapie") else {}
        if rivals and seed < n_tuned:
            rivals["MAPIE, kernel ridge"] = kernel_ridge(X.shape[1])
        for way, estimator in rivals.items():
            ends_of, fitting = _seconds(_theirs, estimator, X[train], y[train])
            ends, asking = _seconds(ends_of, X[test])
            asked[way] = (ends, fitting, asking)
        widths = {way: np.ptp(ends, axis=1).mean(axis=0) for way, (ends, _, _) in asked.items()}
        for way, (ends, *seconds) in asked.items():
            inside = (ends[:, 0] <= y[test, None]) & (y[test, None] <= ends[:, 1])
            row = (inside.mean(axis=0), widths[way] / y[test].std(), widths[way] / widths["ours"], *seconds)
            found.setdefault(way, []).append(row)
    means = {way: [np.mean(part, axis=0) for part in zip(*rows, strict=True)] for way, rows in found.items()}
    return {"rows": len(train)} | {
        way: {
            "coverage": held.round(4).tolist(),
            "width": width.round(3).tolist(),
            "times ours": times.round(3).tolist(),
            "seconds": {"fit": round(float(fitting), 3), "intervals": round(float(asking), 4)},
        }
        for way, (held, width, times, fitting, asking) in means.items()
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


def _halves(name: str, seed: int) -> tuple[np.ndarray, ...]:
    X, y = CLASSES[name](seed)
    codes = np.unique(y, return_inverse=True)[1]
    every = np.arange(len(y))
    return X, codes, *train_test_split(every, train_size=len(y) // 2, random_state=seed, stratify=codes)


def classes(name: str, n_splits: int) -> dict[str, Any]:
    """Mean scores of probabilities over divisions of a table."""
    found: dict[str, list[list[float]]] = {rival: [] for rival in RIVALS}
    refitted: dict[str, list[float]] = {method: [] for method in ("temperature", "platt")}
    for seed in range(n_splits):
        X, codes, train, test = _halves(name, seed)
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
                for method, losses in refitted.items():
                    losses.append(loss(model.calibrate(method).predict_proba(X[test])))
    names = ("log loss", "Brier", "calibration error", "accuracy", "seconds")
    means = {rival: np.mean(rows, axis=0).round(4).tolist() for rival, rows in found.items()}
    return {
        "rows": len(train),
        "smallest class": round(float(np.bincount(codes).min() / len(codes)), 3),
        **{rival: dict(zip(names, values, strict=True)) for rival, values in means.items()},
        "refitted log loss": {method: round(float(np.mean(one)), 4) for method, one in refitted.items()},
    }


def _their_sets(model: ClassifierMixin, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """MAPIE's sets by the folds of CV+, (n_rows, n_classes, n_coverages); their coverage is meant over all classes."""
    from mapie.classification import CrossConformalClassifier

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    made = CrossConformalClassifier(model, confidence_level=COVERAGES, cv=folds)
    return made.fit_conformalize(X, y).predict_set(new)[1]


def sets(name: str, n_splits: int) -> dict[str, Any]:
    """Mean coverage of each class, and number of classes, of sets over divisions of a table."""
    found: dict[str, list[Any]] = {}
    for seed in range(n_splits):
        X, codes, train, test = _halves(name, seed)
        model = kw.MKLClassifier().fit(X[train], codes[train])
        own = np.stack([model.predict_set(X[test], coverage) for coverage in COVERAGES], axis=2)
        ways = {"ours": own}
        if find_spec("mapie"):
            ways["MAPIE"] = _their_sets(plainly(model), X[train], codes[train], X[test])
        for way, held in ways.items():
            by_class = [held[codes[test] == k, k].mean(axis=0) for k in range(codes.max() + 1)]
            found.setdefault(way, []).append([*by_class, held.sum(axis=1).mean(axis=0)])
    means = {way: np.mean(rows, axis=0).round(4) for way, rows in found.items()}
    return {"class rows": np.bincount(codes[train]).tolist()} | {
        way: {"coverage": mean[:-1].T.tolist(), "size": mean[-1].tolist()} for way, mean in means.items()
    }


def _columns(*, scale: bool) -> Any:
    """Categories as indicator columns; numbers as they are, or standardised."""
    numbers = (StandardScaler() if scale else "passthrough", make_column_selector(dtype_include=np.number))
    return make_column_transformer(
        numbers,
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            make_column_selector(dtype_exclude=np.number),
        ),
    )


def _rare_rivals(weight: str | None) -> dict[str, Callable[[], ClassifierMixin]]:
    """Forest, boosting and logistic regression, with balanced classes or without."""
    boosting = partial(HistGradientBoostingClassifier, categorical_features="from_dtype", random_state=0)
    return {
        "forest": lambda: make_pipeline(
            _columns(scale=False), RandomForestClassifier(300, class_weight=weight, random_state=0)
        ),
        "boosting": lambda: boosting(class_weight=weight),
        "logistic": lambda: make_pipeline(
            _columns(scale=True), LogisticRegression(max_iter=5000, class_weight=weight)
        ),
    }


#: What is ranked: a plain classification for the balanced accuracy, and the others without and with balanced classes.
RANKED = {
    "balanced score": lambda: kw.MKLClassifier(scoring="balanced_accuracy"),
    **_rare_rivals(None),
    **{f"{name}, balanced": make for name, make in _rare_rivals("balanced").items()},
}
#: Other settings of the same, beside them.
BESIDE = {
    "plain": kw.MKLClassifier,
    "log loss": lambda: kw.MKLClassifier(scoring="neg_log_loss"),
    "plain, balanced": lambda: kw.MKLClassifier(class_weight="balanced"),
}


def rare(name: str, n_splits: int) -> dict[str, Any]:
    """Mean scores over divisions of a table with a rare class: half of the rows, at most 500; at most 1,000 others."""
    frame, target = default_sets.RARE[name]()
    labels, counts = np.unique(target.astype(str), return_counts=True)
    kept = np.isin(target.astype(str), labels[counts >= 20])
    X, y = frame[kept].reset_index(drop=True), np.unique(target[kept].astype(str), return_inverse=True)[1]
    words = [column for column in X if X[column].dtype.kind not in "fiu"]
    X = X.astype(dict.fromkeys(words, "category"))
    found: dict[str, list[list[float]]] = {}
    for seed in range(n_splits):
        train, test = train_test_split(
            np.arange(len(y)), train_size=min(500, len(y) // 2), random_state=seed, stratify=y
        )
        test = test[:1000]
        for way, make in {**RANKED, **BESIDE}.items():
            model, seconds = _seconds(make().fit, X.iloc[train], y[train])
            p = np.clip(model.predict_proba(X.iloc[test]), 1e-6, 1.0)
            loss = log_loss(y[test], p / p.sum(axis=1, keepdims=True), labels=model.classes_)
            score = balanced_accuracy_score(y[test], model.predict(X.iloc[test]))
            found.setdefault(way, []).append([score, loss, seconds])
    means = {way: np.mean(rows, axis=0).round(4).tolist() for way, rows in found.items()}
    return {
        "rows": len(train),
        "smallest class": int(np.bincount(y[train]).min()),
        "classes": int(y.max() + 1),
    } | {
        way: dict(zip(("balanced accuracy", "log loss", "seconds"), values, strict=True))
        for way, values in means.items()
    }


def rare_ranks(tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Means over tables, and mean ranks of what is ranked."""
    found: dict[str, Any] = {}
    for score, sign in (("balanced accuracy", -1.0), ("log loss", 1.0)):
        values = np.array([[one[way][score] for way in RANKED] for one in tables.values()])
        ranks = np.mean([rankdata(sign * row) for row in values], axis=0)
        found[score] = {
            "mean rank": dict(zip(RANKED, ranks.round(2).tolist(), strict=True)),
            "mean": {
                way: round(float(np.mean([one[way][score] for one in tables.values()])), 4)
                for way in {**RANKED, **BESIDE}
            },
        }
    return found


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
    parser.add_argument("--tuned", type=int, default=5, help="Divisions for kernel ridge regression.")
    parser.add_argument("--rivals", type=int, default=8, help="Divisions for probabilities.")
    parser.add_argument("--rare", type=int, default=10, help="Divisions of tables with a rare class.")
    parser.add_argument("--many", type=int, default=3, help="Draws of 6,000 rows.")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    runs: dict[str, tuple[Any, Callable[[str], dict[str, Any]]]] = {
        "numbers": (NUMBERS, partial(numbers, n_splits=options.splits, n_tuned=options.tuned)),
        "sets": (CLASSES, partial(sets, n_splits=options.splits)),
        "classes": (CLASSES, partial(classes, n_splits=options.rivals)),
        "rare classes": (default_sets.RARE, partial(rare, n_splits=options.rare)),
    }
    divisions = {
        "splits": options.splits,
        "tuned": options.tuned,
        "rivals": options.rivals,
        "rare": options.rare,
    }
    out: dict[str, Any] = {**divisions, "coverages": COVERAGES}
    out |= json.loads(options.out.read_text()) if options.resume else {}
    for kind, (tables, run) in runs.items():
        done = out.setdefault(kind, {})
        for name in [one for one in tables if one not in done]:
            done[name] = run(name)
            print(name, done[name], flush=True)
            options.out.write_text(json.dumps(out, indent=1) + "\n")
    out["rare classes, together"] = rare_ranks(out["rare classes"])
    options.out.write_text(json.dumps(out, indent=1) + "\n")
    if "6,000 rows" in out:
        return
    out["6,000 rows"] = [many(seed) for seed in range(options.many)]
    options.out.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
