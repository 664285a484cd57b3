"""Seconds and accuracy of a plain fit beside a tuned Gaussian support vector machine: ``python -m benchmarks.plain``.

Made-up tables of 20 columns (eight of them informative, a twentieth of the labels turned) with 500, 2,000 and 5,000
training rows, digits, and yeast where the packages of `default_sets` are at hand. The rival is ``GridSearchCV`` over 16
settings with five folds, on standardised columns. Processor seconds of one thread, least of the rounds; both fits of a
round follow each other. Accuracy on as many other rows. The same for numbers, with R^2 and support vector regression,
on made-up tables of 8 columns, of which four matter.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics import r2_score

from benchmarks import default_sets
from benchmarks.defaults import boosting, gaussian, plain

RESULTS = Path(__file__).parent / "results" / "plain.json"
METHODS = {"plain": plain, "gaussian": gaussian, "boosting": boosting}


def cases(sizes: list[int]) -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """Names, training rows and labels or numbers, test rows and theirs."""
    for n in sizes:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2 * n, 8))
        y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.3 * rng.normal(size=2 * n)
        yield f"numbers, 8 columns, {n} rows", X[:n], y[:n], X[n:], y[n:]
    for n in sizes:
        X, y = make_classification(2 * n, 20, n_informative=8, n_redundant=4, flip_y=0.05, random_state=0)
        yield f"20 columns, {n} rows", X[:n], y[:n], X[n:], y[n:]
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    yield f"digits, {len(train)} rows", X[train], y[train], X[test], y[test]
    try:
        data = default_sets.load("yeast")
    except (ImportError, OSError, KeyError) as error:
        print(f"yeast is left out: {error}")
        return
    train, test = default_sets.half(data, 0, 10**9)
    yield f"yeast, {len(train)} rows", data.rows(train), data.y[train], data.rows(test), data.y[test]


def measure(method: str, X: Any, y: Any, Z: Any, target: Any) -> tuple[float, float]:
    """Processor seconds, and accuracy, or R^2 of numbers."""
    regression = y.dtype.kind == "f"
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = METHODS[method](X, y, Z, regression)
    seconds = time.process_time() - start
    return seconds, float(r2_score(target, found) if regression else np.mean(found == target))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="*", default=[500, 2000, 5000])
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    rows = []
    for name, X, y, Z, target in cases(given.sizes):
        row: dict[str, Any] = {"case": name}
        for _ in range(given.rounds):
            for method in METHODS:
                seconds, score = measure(method, X, y, Z, target)
                before = row.get(method, {"seconds": np.inf})["seconds"]
                measure_of = "r2" if y.dtype.kind == "f" else "accuracy"
                row[method] = {"seconds": round(min(seconds, before), 3), measure_of: round(score, 4)}
        row["times_faster"] = round(row["gaussian"]["seconds"] / row["plain"]["seconds"], 2)
        print(json.dumps(row), flush=True)
        rows.append(row)
    given.results.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
