"""Survival on the data sets of lifelines and scikit-survival: ``python -m benchmarks.survival [accuracy|size]``.

Harrell's concordance on test rows of random divisions (two thirds for training, equal shares of events) of ten data
sets that come with these packages: `MKLSurvival` as it is, the same with weights on the simplex and with equal weights,
and of scikit-survival Coxnet, a random survival forest and a survival machine (Gaussian kernel, 60 Nystroem features).
All but the forest choose their regularisation on folds of the training rows; the forest has 200 trees with leaves of
at least 10 rows. All get the same table: categories as 0 and 1, missing cells filled with medians; Coxnet and the
machine get standardised columns. Of larger data sets 500 rows are drawn. Seconds are
processor time, the smallest over divisions.

``size``: seconds and memory of a fit of 100,000 rows with 100 columns in 10 groups.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import kernelweave as kw

RESULTS = Path(__file__).parent / "results" / "survival.json"
#: Files of lifelines: the columns of times and events.
OF_LIFELINES = {
    "rossi": ("week", "arrest"),
    "lung": ("time", "status"),
    "kidney_transplant": ("time", "death"),
    "larynx": ("time", "death"),
}
#: Rows of a data set at most, drawn at random.
MOST = 500


def data_sets() -> dict[str, tuple[str, pd.DataFrame, np.ndarray, np.ndarray]]:
    """The package, the table, times and events of every data set."""
    from sksurv import datasets

    found = {}
    for name, load in {
        "whas500": datasets.load_whas500,
        "veterans": datasets.load_veterans_lung_cancer,
        "gbsg2": datasets.load_gbsg2,
        "breast_cancer": datasets.load_breast_cancer,
        "aids": datasets.load_aids,
        "flchain": datasets.load_flchain,
    }.items():
        X, y = load()
        event, when = y.dtype.names
        # the cause of death is known of those who died alone
        X = X.drop(columns="chapter", errors="ignore")
        found[name] = "scikit-survival", X, y[when].astype(float), y[event].astype(bool)
    folder = Path(find_spec("lifelines").submodule_search_locations[0]) / "datasets"
    for name, (when, event) in OF_LIFELINES.items():
        table = pd.read_csv(folder / f"{name}.csv")
        seen = table[event].to_numpy() == 1
        found[name] = "lifelines", table.drop(columns=[when, event]), table[when].to_numpy(float), seen
    return found


def prepared(X: pd.DataFrame) -> np.ndarray:
    """Categories as 0 and 1, missing cells as medians, constant columns left out."""
    numbers = pd.get_dummies(X, drop_first=True).astype(float)
    numbers = numbers.fillna(numbers.median())
    return numbers.loc[:, numbers.std() > 0].to_numpy()


def rivals(n_columns: int, seed: int) -> dict[str, Callable[[], Any]]:
    """Estimators of scikit-survival, with what they choose on folds of training rows."""
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.linear_model import CoxnetSurvivalAnalysis
    from sksurv.svm import FastSurvivalSVM

    def forest() -> Any:
        return RandomSurvivalForest(200, min_samples_leaf=10, max_features="sqrt", random_state=seed)

    def coxnet() -> Any:
        return _Path(
            CoxnetSurvivalAnalysis(l1_ratio=0.5, alpha_min_ratio=0.02, n_alphas=30, max_iter=10_000), seed
        )

    def machine() -> Any:
        one = FastSurvivalSVM(max_iter=50, tol=1e-4, random_state=seed)
        features = Nystroem(gamma=0.5 / n_columns, n_components=60, random_state=seed)
        pipe = Pipeline([("scale", StandardScaler()), ("features", features), ("model", one)])
        return GridSearchCV(pipe, {"model__alpha": np.geomspace(1e-4, 1.0, 5)}, cv=3, error_score=0.5)

    return {"Coxnet": coxnet, "random survival forest": forest, "survival SVM": machine}


class _Path:
    """A path on standardised columns, of which folds choose the point by concordance."""

    def __init__(self, model: Any, seed: int) -> None:
        self.model, self.seed = model, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> _Path:
        from sksurv.metrics import concordance_index_censored

        self.scaler = StandardScaler().fit(X)
        Z = self.scaler.transform(X)
        alphas = clone(self.model).fit(Z, y).alphas_
        self.model = clone(self.model).set_params(alphas=alphas)
        scores = np.zeros(len(alphas))
        for train, test in StratifiedKFold(5, shuffle=True, random_state=self.seed).split(Z, y["event"]):
            one = clone(self.model).fit(Z[train], y[train])
            for k, alpha in enumerate(alphas):
                risk = one.predict(Z[test], alpha=alpha)
                scores[k] += concordance_index_censored(y["event"][test], y["time"][test], risk)[0]
        self.alpha = alphas[int(np.argmax(scores))]
        self.model.fit(Z, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(self.scaler.transform(X), alpha=self.alpha)


def accuracy(n_splits: int, out: Path, found: dict[str, Any]) -> None:
    """Concordance of every way on every data set, one division after another; written after each."""
    from sksurv.metrics import concordance_index_censored

    tables: dict[str, dict[str, Any]] = {}
    scores: dict[tuple[str, str], list[float]] = {}
    seconds: dict[tuple[str, str], list[float]] = {}
    sets = data_sets()
    for seed in range(n_splits):
        for name, (package, X, when, seen) in sets.items():
            X = prepared(X)
            if len(X) > MOST:
                kept = np.sort(np.random.default_rng(0).permutation(len(X))[:MOST])
                X, when, seen = X[kept], when[kept], seen[kept]
            y = np.array(list(zip(seen, when, strict=True)), dtype=[("event", bool), ("time", float)])
            divided = StratifiedShuffleSplit(1, test_size=1 / 3, random_state=seed)
            ((train, test),) = divided.split(X, seen)
            ways: dict[str, Callable[[], Any]] = {
                "MKLSurvival": lambda: kw.MKLSurvival(),
                "simplex": lambda: kw.MKLSurvival(learner="simple", C="auto"),
                "equal weights": lambda: kw.MKLSurvival(learner="uniform", C="auto"),
                **rivals(X.shape[1], seed),
            }
            for way, make in ways.items():
                begin = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    risk = make().fit(X[train], y[train]).predict(X[test])
                seconds.setdefault((name, way), []).append(time.process_time() - begin)
                score = concordance_index_censored(seen[test], when[test], risk)[0]
                scores.setdefault((name, way), []).append(float(score))
            tables[name] = {
                "package": package,
                "rows": len(X),
                "columns": X.shape[1],
                "events": int(seen.sum()),
                "concordance": {way: round(float(np.mean(scores[name, way])), 4) for way in ways},
                "standard deviation": {way: round(float(np.std(scores[name, way])), 4) for way in ways},
                "seconds": {way: round(float(np.min(seconds[name, way])), 2) for way in ways},
            }
        mean = {
            way: round(float(np.mean([one["concordance"][way] for one in tables.values()])), 4)
            for way in ways
        }
        print(seed + 1, mean, flush=True)
        found["accuracy"] = {"splits": seed + 1, "tables": tables, "mean": mean}
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def size(n_rows: int = 100_000, n_columns: int = 100) -> dict[str, Any]:
    """Seconds and memory of one fit on features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    when, seen = rng.exponential(np.exp(-X[:, 0] - 0.5 * X[:, 57])), rng.random(n_rows) < 0.6
    y = np.column_stack([seen, when])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    views = {f"group {k}": slice(10 * k, 10 * k + 10) for k in range(n_columns // 10)}
    model = kw.MKLSurvival([kw.kernels.Linear()], "simple", C=1.0, views=views, max_memory="3GB").fit(X, y)
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    concordance = model.score(X, y)
    return {
        "rows": n_rows,
        "columns": n_columns,
        "seconds of a fit": round(seconds, 2),
        "seconds of a score": round(time.process_time() - begin, 2),
        "peak GB": round(peak / 2**20, 3),
        "GB before": round(before / 2**20, 3),
        "gap": model.rel_gap_,
        "concordance": round(concordance, 4),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("accuracy", "size"))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    found = json.loads(chosen.out.read_text(encoding="utf-8")) if chosen.out.exists() else {}
    if chosen.part == "accuracy":
        accuracy(chosen.splits, chosen.out, found)
        return
    found["size"] = size()
    print(found["size"])
    chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
