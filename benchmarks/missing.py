"""Missing views and missing cells: score against the share that is missing, beside plain ways and trees.

Run ``nice -n 5 python -m benchmarks.missing``; results are written to ``benchmarks/results/missing.json``.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.model_selection import train_test_split

import kernelweave as kw
from kernelweave.kernels import RBF, Laplacian, Linear

Views = dict[str, np.ndarray]

#: Shares of views, and of cells, that are removed.
VIEW_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)
CELL_SHARES = (0.0, 0.1, 0.3, 0.5)
MFEAT = ("fou", "fac", "kar", "pix", "zer", "mor")


def view_bank() -> list[Any]:
    """Kernels of every view."""
    return [Linear().prepared("standardize"), RBF(gamma="median").prepared("standardize")]


def cell_bank() -> list[Any]:
    """Kernels of one table."""
    shapes = [Linear(), Laplacian(gamma="median"), *(RBF(gamma=("median", f)) for f in (0.25, 1.0, 4.0))]
    return [shape.prepared("standardize") for shape in shapes]


def without_views(views: Views, share: float, rng: np.random.Generator) -> Views:
    """Every view of every row is removed with the same probability; one of each row stays."""
    n, names = len(next(iter(views.values()))), list(views)
    lost = rng.random((n, len(names))) < share
    lost[np.arange(n), rng.integers(len(names), size=n)] = False
    out = {}
    for k, name in enumerate(names):
        out[name] = np.where(lost[:, [k]], np.nan, views[name])
    return out


def with_means(train: Views, test: Views) -> tuple[Views, Views]:
    """Views that are missing filled with the means of the training rows: 0 once columns are standardised."""
    means = {name: np.nanmean(X, axis=0) for name, X in train.items()}
    fill = [
        {name: np.where(np.isnan(X), means[name], X) for name, X in part.items()} for part in (train, test)
    ]
    return fill[0], fill[1]


def some(views: Views, rows: np.ndarray) -> Views:
    """Rows of all views."""
    return {name: X[rows] for name, X in views.items()}


def model(how: str) -> Any:
    """A classifier of views."""
    return kw.MKLClassifier(view_bank(), learner="simple", C=10.0, missing_views=how)


def score_views(train: Views, y: np.ndarray, test: Views, z: np.ndarray, seed: int) -> dict[str, float]:
    """Accuracy of every way."""
    found = {how: model(how).fit(train, y).score(test, z) for how in ("renormalize", "complete")}
    filled, asked = with_means(train, test)
    found["zero fill"] = model("error").fit(filled, y).score(asked, z)
    whole = np.all([~np.isnan(X).all(axis=1) for X in train.values()], axis=0)
    counts = [int((y[whole] == label).sum()) for label in np.unique(y)]
    found["complete cases"] = float("nan")
    if min(counts) >= 2:
        found["complete cases"] = model("error").fit(some(filled, whole), y[whole]).score(asked, z)
    forest = RandomForestClassifier(300, random_state=seed)
    found["forest"] = forest.fit(np.hstack(list(train.values())), y).score(np.hstack(list(test.values())), z)
    return {name: 100.0 * float(value) for name, value in found.items()}


def mfeat(share: float, seed: int) -> dict[str, float]:
    """Six views of written digits, 500 rows to learn from and 500 to predict, views removed from all of them."""
    data = kw.datasets.load("mfeat")
    names = [str(name) for name in data.feature_names]
    kept, _ = train_test_split(np.arange(len(data.y)), train_size=1000, random_state=seed, stratify=data.y)
    views = {
        v: data.X[np.ix_(kept, [j for j, name in enumerate(names) if name.startswith(v)])] for v in MFEAT
    }
    y = data.y[kept]
    views = without_views(views, share, np.random.default_rng(seed))
    train, test = train_test_split(np.arange(1000), test_size=0.5, random_state=seed, stratify=y)
    return score_views(some(views, train), y[train], some(views, test), y[test], seed)


def tcga() -> dict[str, float]:
    """Subtypes of breast cancer, 150 rows to learn from with three views, 70 to predict without proteins."""
    parts = {}
    for name in ("breast_tcga", "breast_tcga_test"):
        data = kw.datasets.load(name)
        frame = pd.DataFrame(data.X, columns=[str(n) for n in data.feature_names])
        parts[name] = frame, np.asarray(data.y)
    (frame, y), (asked, z) = parts.values()
    prefixes = ("mirna", "mrna", "protein")
    train = {v: frame[[c for c in frame if c.startswith(f"{v}_")]].to_numpy() for v in prefixes}
    test = {
        v: asked[list(frame[[c for c in frame if c.startswith(f"{v}_")]])].to_numpy() for v in prefixes[:2]
    }
    lacking = test | {"protein": np.full((len(z), train["protein"].shape[1]), np.nan)}
    found = score_views(train, y, lacking, z, 0)
    two = some(train, np.arange(len(y)))
    two.pop("protein")
    found["without the view"] = 100.0 * float(model("error").fit(two, y).score(test, z))
    # the same 150 rows, a third of them without each view in training
    thirds = np.random.default_rng(0).permutation(len(y)) % 3
    holes = {v: np.where((thirds == k)[:, None], np.nan, X) for k, (v, X) in enumerate(train.items())}
    again = score_views(holes, y, lacking, z, 0)
    return found | {f"a third lacks each view: {name}": value for name, value in again.items()}


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Tables whose cells are removed: name, X, y; numbers as targets are a regression."""
    found = {
        name: (d.X, np.asarray(d.y))
        for name in ("wdbc", "ionosphere", "sonar", "heart", "pima")
        for d in (kw.datasets.load(name),)
    }
    found["wine"] = load_wine(return_X_y=True)
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:600]
    found["digits"] = X[rows], y[rows]
    found["diabetes"] = load_diabetes(return_X_y=True)
    return found


def without_cells(X: np.ndarray, share: float, how: str, rng: np.random.Generator) -> np.ndarray:
    """Cells removed at random, or those above the median of their column, twice as often."""
    lost = rng.random(X.shape) < share
    if how == "large":
        lost = (rng.random(X.shape) < 2.0 * share) & (np.median(X, axis=0) < X)
    out = np.where(lost, np.nan, X)
    # a column that nobody knows says nothing to anybody
    out[0] = X[0]
    return out


def score_cells(
    X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int
) -> dict[str, float]:
    """Accuracy, or R^2 for numbers, of every way."""
    regression = len(np.unique(y)) > 20
    found: dict[str, float] = {}
    for way in ("impute", "impute-median", "impute-nearest", "skip"):
        make: Callable[..., Any] = kw.MKLRegressor if regression else kw.MKLClassifier
        options = {"learner": "rls2"} if regression else {"learner": "simple", "C": 10.0}
        fitted = make(cell_bank(), missing=way, **options).fit(X[train], y[train])
        found[way] = fitted.score(X[test], y[test])
        if way == "skip":
            found["residual"] = max(fitted.missing_.get("residuals", {"": 0.0}).values())
    boosting = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    means = np.nanmean(X[train], axis=0)
    filled = np.where(np.isnan(X), means, X)
    found["boosting"] = boosting(random_state=seed).fit(X[train], y[train]).score(X[test], y[test])
    found["imputed, boosting"] = (
        boosting(random_state=seed).fit(filled[train], y[train]).score(filled[test], y[test])
    )
    return {name: 100.0 * float(value) for name, value in found.items()}


def mean_of(runs: list[dict[str, float]]) -> dict[str, float]:
    """Means over repetitions, two decimals."""
    return {name: round(float(np.nanmean([run[name] for run in runs])), 2) for name in runs[0]}


def run(repeats: int, only: str) -> dict[str, Any]:
    """Everything, as it is written."""
    found: dict[str, Any] = {"repeats": repeats}
    if only in ("", "views"):
        found["tcga"] = {name: round(value, 2) for name, value in tcga().items()}
        print("tcga", found["tcga"], flush=True)
        found["mfeat"] = {}
        for share in VIEW_SHARES:
            found["mfeat"][str(share)] = mean_of([mfeat(share, seed) for seed in range(min(repeats, 2))])
            print("mfeat", share, found["mfeat"][str(share)], flush=True)
    if only in ("", "cells"):
        found["cells"] = {}
        for name, (X, y) in tables().items():
            for how in ("random", "large"):
                for share in CELL_SHARES if how == "random" else (0.3,):
                    runs = []
                    for seed in range(repeats):
                        rng = np.random.default_rng(seed)
                        labels = y if len(np.unique(y)) <= 20 else None
                        train, test = train_test_split(
                            np.arange(len(y)), test_size=0.5, random_state=seed, stratify=labels
                        )
                        runs.append(score_cells(without_cells(X, share, how, rng), y, train, test, seed))
                    found["cells"].setdefault(name, {}).setdefault(how, {})[str(share)] = mean_of(runs)
                    print(name, how, share, mean_of(runs), flush=True)
    return found


def without_nan(found: Any) -> Any:
    """The same with None for what could not be measured."""
    if isinstance(found, dict):
        return {name: without_nan(value) for name, value in found.items()}
    return None if isinstance(found, float) and np.isnan(found) else found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", choices=("", "views", "cells"))
    parser.add_argument("--out", default=str(Path(__file__).parent / "results" / "missing.json"))
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    found = run(options.repeats, options.only)
    path = Path(options.out)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(without_nan(known | found), indent=1) + "\n")


if __name__ == "__main__":
    main()
