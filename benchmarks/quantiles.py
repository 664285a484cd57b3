"""How often intervals between two quantile fits hold: ``python -m benchmarks.quantiles``.

Fits of the quantiles 0.05 and 0.95, each with its own C and weights, on ten tables of `benchmarks.uncertainty`, random
divisions: coverage of the test rows at 90 %, also of the rows that the fit itself says are easy and hard (the halves
with the narrower and the wider intervals), and the mean width, beside `predict_interval` of both of them, and of a
plain regression.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import kernelweave as kw
from benchmarks.uncertainty import NUMBERS

RESULTS = Path(__file__).parent / "results" / "quantiles.json"
TABLES = (
    "prostate", "autompg", "cpu", "servo", "housing", "diabetes", "friedman 1, 100", "friedman 3, 200", "heavy, 300",
    "local, 300",
)  # fmt: skip
ENDS = (0.05, 0.95)


def fitted(q: float, X: np.ndarray, y: np.ndarray) -> kw.MKLRegressor:
    """A quantile, with C by the pinball loss of folds."""
    learner = kw.learners.SimpleMKL(loss=kw.losses.Quantile(q))
    return kw.MKLRegressor(learner=learner, C="auto").fit(X, y)


def table(name: str, n_splits: int) -> dict[str, Any]:
    """Means over divisions of a table."""
    rows = []
    for seed in range(n_splits):
        X, y = NUMBERS[name](seed)
        train, test = train_test_split(
            np.arange(len(y)), train_size=min(300, max(60, len(y) // 2)), random_state=seed
        )
        unit = y[train].std()
        begin = time.process_time()
        models = [fitted(q, X[train], y[train] / unit) for q in ENDS]
        low, high = (model.predict(X[test]) * unit for model in models)
        both = unit * models[0].predict_interval(X[test], 0.9, upper=models[1])
        seconds = time.process_time() - begin
        # quantiles that cross
        low, high = np.minimum(low, high), np.maximum(low, high)
        begin = time.process_time()
        constant = kw.MKLRegressor().fit(X[train], y[train]).predict_interval(X[test], 0.9)
        plain = time.process_time() - begin
        held = {
            "quantiles": (low <= y[test]) & (y[test] <= high),
            "both": (both[:, 0] <= y[test]) & (y[test] <= both[:, 1]),
            "plain": (constant[:, 0] <= y[test]) & (y[test] <= constant[:, 1]),
        }
        wide = high - low > np.median(high - low)
        row = {}
        for way, inside in held.items():
            row[way] = inside.mean(), inside[~wide].mean(), inside[wide].mean()
        rows.append(
            [
                *row["quantiles"],
                *row["both"],
                *row["plain"],
                (high - low).mean() / np.ptp(constant, axis=1).mean(),
                np.ptp(both, axis=1).mean() / np.ptp(constant, axis=1).mean(),
                seconds,
                plain,
            ]
        )
    mean = np.mean(rows, axis=0).round(4).tolist()
    names = ("coverage", "of narrow", "of wide")
    return {
        "rows": len(train),
        "quantiles": dict(zip(names, mean[:3], strict=True)),
        "both": dict(zip(names, mean[3:6], strict=True)),
        "plain": dict(zip(names, mean[6:9], strict=True)),
        "times the width": {"quantiles": mean[9], "both": mean[10]},
        "seconds": {"quantiles": mean[11], "plain": mean[12]},
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    found = {}
    for name in TABLES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name] = table(name, chosen.splits)
        print(name, found[name], flush=True)
        chosen.out.write_text(
            json.dumps({"splits": chosen.splits, "tables": found}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
