"""A plain fit beside what else can be fitted without thinking: many sets, ten random halves of each.

    python -m benchmarks.defaults                    # everything that is missing in the results, then the tables
    python -m benchmarks.defaults --only heart wine --methods plain forest
    python -m benchmarks.defaults --tables           # tables of what is there

Results are lines of JSON, one for each set, half and method; a run that was stopped goes on where it was.
Seconds are processor time of one thread.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.stats import rankdata
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, SVR

import kernelweave as kw
from benchmarks import default_sets as sets
from kernelweave.kernels import RBF, Linear

RESULTS = Path(__file__).parent / "results" / "defaults.jsonl"
MOST = 600
"""Rows of a set that take part in one half: 300 to train on, 300 to test on."""


# ---- what rivals see --------------------------------------------------------------------------------


def _views(X: Any) -> list[Any]:
    return list(X.values()) if isinstance(X, dict) else [X]


def _numbers(train: Any, test: Any) -> list[tuple[Any, Any]]:
    """Views as numbers: categories as indicator columns."""
    pairs = []
    for a, b in zip(_views(train), _views(test), strict=True):
        if isinstance(a, pd.DataFrame):
            both = pd.get_dummies(pd.concat([a, b]), dtype=float).to_numpy(dtype=float)
            a, b = both[: len(a)], both[len(a) :]
        pairs.append((a, b))
    return pairs


def _scaled(train: Any, test: Any) -> list[tuple[Any, Any]]:
    """Dense views standardised, sparse ones with rows of length 1."""
    pairs = []
    for a, b in _numbers(train, test):
        scaler = Normalizer() if sparse.issparse(a) else StandardScaler()
        pairs.append((scaler.fit_transform(a), scaler.transform(b)))
    return pairs


def _joined(pairs: list[tuple[Any, Any]], *, dense: bool = False) -> tuple[Any, Any]:
    joined = []
    for parts in zip(*pairs, strict=True):
        if any(map(sparse.issparse, parts)):
            whole = sparse.hstack(parts).tocsr()
            joined.append(whole.toarray() if dense else whole)
        else:
            joined.append(np.hstack(parts))
    return joined[0], joined[1]


def _folds(regression: bool, y: np.ndarray) -> Any:
    if regression:
        return KFold(5, shuffle=True, random_state=0)
    return StratifiedKFold(max(2, min(5, np.bincount(y).min())), shuffle=True, random_state=0)


def _search(model: Any, grid: dict[str, Any], regression: bool, y: np.ndarray) -> GridSearchCV:
    return GridSearchCV(model, grid, cv=_folds(regression, y))


# ---- methods: (X, y, X_test, regression) -> predictions -----------------------------------------------


def plain(X: Any, y: Any, Z: Any, regression: bool) -> Any:
    model = kw.MKLRegressor() if regression else kw.MKLClassifier()
    return model.fit(X, y).predict(Z)


def average(X: Any, y: Any, Z: Any, regression: bool) -> Any:
    """The mean of Linear and three Gaussians of each view, C by cross-validation."""
    pairs = _scaled(X, Z)
    total, cross = 0.0, 0.0
    for a, b in pairs:
        for kernel in (Linear(), *(RBF(gamma=("median", f)) for f in (0.25, 1.0, 4.0))):
            fitted = kernel.fitted(a)
            K = fitted(a)
            scale = 1.0 / K.diagonal().mean()
            total, cross = total + scale * K, cross + scale * fitted(b, a)
    size = np.asarray(total).diagonal().mean()
    machine: Any = SVR(kernel="precomputed") if regression else SVC(kernel="precomputed")
    shift, by = (y.mean(), y.std()) if regression else (0, 1)
    target = (y - shift) / by if regression else y
    model = _search(machine, {"C": [0.1, 1.0, 10.0, 100.0]}, regression, y)
    found = model.fit(total / size, target).predict(cross / size)
    return found * by + shift if regression else found


def gaussian(X: Any, y: Any, Z: Any, regression: bool) -> Any:
    """A support vector machine with a Gaussian kernel, C and gamma by cross-validation (16 settings, 5 folds)."""
    A, B = _joined(_scaled(X, Z))
    gammas = [g * _width(A) for g in (1 / 16, 1 / 4, 1.0, 4.0)]
    grid = {"C": [0.1, 1.0, 10.0, 100.0] if not regression else [1.0, 10.0, 100.0, 1000.0], "gamma": gammas}
    shift, by = (y.mean(), y.std()) if regression else (0, 1)
    target = (y - shift) / by if regression else y
    model = _search(SVR() if regression else SVC(), grid, regression, y)
    found = model.fit(A, target).predict(B)
    return found * by + shift if regression else found


def _width(A: Any) -> float:
    """scikit-learn's gamma="scale"."""
    variance = (A.multiply(A)).mean() - A.mean() ** 2 if sparse.issparse(A) else A.var()
    return 1.0 / (A.shape[1] * float(variance))


def forest(X: Any, y: Any, Z: Any, regression: bool) -> Any:
    A, B = _joined(_numbers(X, Z))
    make = RandomForestRegressor if regression else RandomForestClassifier
    return make(300, random_state=0).fit(A, y).predict(B)


def boosting(X: Any, y: Any, Z: Any, regression: bool) -> Any:
    A, B = _joined(_numbers(X, Z), dense=True)
    make = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    return make(random_state=0).fit(A, y).predict(B)


def linear(X: Any, y: Any, Z: Any, regression: bool) -> Any:
    """Logistic or ridge regression, the penalty by cross-validation."""
    A, B = _joined(_scaled(X, Z))
    if regression:
        return RidgeCV(np.logspace(-3, 4, 15)).fit(A, y).predict(B)
    model = LogisticRegression(max_iter=300)
    return _search(model, {"C": [0.01, 0.1, 1.0, 10.0]}, False, y).fit(A, y).predict(B)


def former(X: Any, y: Any, Z: Any, regression: bool) -> Any:
    """The default of version 0.1, stated: its bank on standardised columns of one table, "rls2" with alpha="auto"."""
    A, B = _joined(_numbers(X, Z), dense=True)
    mean, scale = A.mean(axis=0), A.std(axis=0)
    scale[scale <= 1e-12] = 1.0
    A, B = (A - mean) / scale, (B - mean) / scale
    options = {"learner": "rls2", "normalize": "mean-diagonal", "standardize": False}
    kernels = former_bank(A.shape[1])
    model = kw.MKLRegressor(kernels, **options) if regression else kw.MKLClassifier(kernels, **options)
    return model.fit(A, y).predict(B)


def former_bank(p: int) -> list[Any]:
    """The bank that `kernels=None` took in version 0.1, for p numeric columns."""
    from kernelweave.kernels import Polynomial

    shapes: list[Any] = [Linear(), Polynomial(degree=2), Polynomial(degree=3)]
    bank = [*shapes, *(RBF(gamma=float(g) / p) for g in np.logspace(-2, 1, 7))]
    if p > 2000:
        return bank
    single = [*shapes, *(RBF(gamma=g) for g in (0.1, 1.0, 10.0))] if p <= 40 else shapes[:1]
    return bank + [kernel.on([j]) for j in range(p) for kernel in single]


METHODS: dict[str, Callable[..., Any]] = {
    "plain": plain,
    "average": average,
    "gaussian": gaussian,
    "forest": forest,
    "boosting": boosting,
    "linear": linear,
    "former": former,
}
KERNEL_METHODS = ("plain", "average", "gaussian", "former")
HALVES = {"former": 2}
"""Methods that take too long for ten halves."""


def run(names: list[str], methods: list[str], seeds: range, results: Path) -> None:
    """Fill in what is missing."""
    done = {(r["set"], r["seed"], r["method"]) for r in read(results)}
    results.parent.mkdir(exist_ok=True, parents=True)
    with results.open("a") as file:
        for seed in seeds:
            for name in names:
                for method in methods:
                    if (name, seed, method) in done or seed >= HALVES.get(method, 10**9):
                        continue
                    line = json.dumps(measure(name, seed, method))
                    file.write(line + "\n")
                    file.flush()
                    print(line, flush=True)


def measure(name: str, seed: int, method: str) -> dict[str, Any]:
    """One fit and its score on the other half: accuracy, or R^2 of numbers."""
    data = sets.load(name)
    train, test = sets.half(data, seed, MOST)
    X, Z, y = data.rows(train), data.rows(test), data.y[train]
    if method in ("former", "boosting") and isinstance(X, dict) and any(map(sparse.issparse, X.values())):
        # neither takes sparse tables
        return {"set": name, "seed": seed, "method": method, "score": None, "seconds": None}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = METHODS[method](X, y, Z, data.regression)
    seconds = time.process_time() - start
    score = r2_score(data.y[test], found) if data.regression else accuracy_score(data.y[test], found)
    return {
        "set": name,
        "seed": seed,
        "method": method,
        "score": round(float(score), 5),
        "seconds": round(seconds, 3),
    }


def read(results: Path) -> list[dict[str, Any]]:
    """Lines of a file of results."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def table(results: Path) -> str:
    """The table of mean scores in Markdown, of the halves that every method finished, with ranks, wins and seconds."""
    found: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for r in read(results):
        if r["score"] is not None:
            found.setdefault(r["set"], {}).setdefault(r["method"], {})[r["seed"]] = r
    methods = [m for m in METHODS if any(m in own for own in found.values()) and m != "former"]
    lines = ["| set | halves | " + " | ".join(methods) + " |", "|---|" + "---|" * (1 + len(methods))]
    ranks: dict[str, list[np.ndarray]] = {"chosen on": [], "kept aside": [], "all": []}
    for name in sets.NAMES:
        own = found.get(name, {})
        if not all(m in own for m in methods if m != "boosting"):
            continue
        seeds = set.intersection(*(set(own[m]) for m in methods if m in own))
        means = [np.mean([own[m][k]["score"] for k in seeds]) if m in own else np.nan for m in methods]
        aside = "" if name in sets.SEARCHED else " *"
        cells = ["" if np.isnan(v) else f"{100 * v:.1f}" for v in means]
        lines.append(f"| {name}{aside} | {len(seeds)} | " + " | ".join(cells) + " |")
        if not np.isnan(means).any():
            rank = rankdata(-np.round(means, 6))
            ranks["all"].append(rank)
            ranks["kept aside" if aside else "chosen on"].append(rank)
    for label, rows in ranks.items():
        mean = np.mean(rows, axis=0)
        lines.append(
            f"| mean rank, {label} | {len(rows)} sets | " + " | ".join(f"{v:.2f}" for v in mean) + " |"
        )
    wins = (np.array(ranks["all"]) == np.min(ranks["all"], axis=1, keepdims=True)).sum(axis=0)
    lines.append("| first or equal | | " + " | ".join(map(str, wins)) + " |")
    times = [
        np.median([r["seconds"] for own in found.values() for r in own.get(m, {}).values()]) for m in methods
    ]
    lines.append("| median seconds | | " + " | ".join(f"{v:.2f}" for v in times) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=list(sets.NAMES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    if not given.tables:
        here = [name for name in given.only if sets.is_here(name)]
        run(here, given.methods, range(*given.seeds), given.results)
    print(table(given.results))


if __name__ == "__main__":
    main()
