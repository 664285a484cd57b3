"""How many sources of noise are selected, and how many that predict: ``python -m benchmarks.selection``.

Tables of normal columns, each a source with a linear kernel, without any that predicts the target or with three
(coefficient 0.5, standard deviation of the errors 1; classes are the signs of the target). `weight_stability` divides
the rows 25 times and tolerates one expected false selection. Beside it the rule "a weight in at least 80 % of the
halves", which has no error rate. Processor seconds of one thread.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kernelweave as kw

RESULTS = Path(__file__).parent / "results" / "selection.json"


def _squares(**options: Any) -> Callable[..., Any]:
    return lambda X, y: kw.MKLRegressor(kw.banks.linear_features(X.shape[1]), "rls2", **options).fit(X, y)


def _classes(X: np.ndarray, y: np.ndarray) -> Any:
    return kw.MKLClassifier(kw.banks.linear_features(X.shape[1]), "simple", C=1.0).fit(X, y > 0)


#: Fits, and on which part of the tables.
LEARNERS = {
    "RLS2, alpha chosen": (_squares(), 1.0),
    "SimpleMKL, C = 1": (_classes, 0.25),
    "RLS2, alpha = 0.1": (_squares(alpha=0.1), 0.25),
}
#: Rows, columns, and how many of them predict.
CASES = (
    *((n, columns, 0) for n in (80, 150) for columns in (10, 30, 100)),
    *((n, columns, 3) for n in (80, 150) for columns in (30, 60)),
)


def rates(fit: Callable[..., Any], n: int, columns: int, planted: int, n_tables: int) -> dict[str, Any]:
    """Mean numbers of selected sources over random tables."""
    found, fitted, begin = [], 0.0, time.process_time()
    for seed in range(n_tables):
        rng = np.random.default_rng([seed, n, columns, planted])
        X = rng.normal(size=(n, columns))
        y = 0.5 * X[:, :planted].sum(axis=1) + rng.normal(size=n)
        start = time.process_time()
        model = fit(X, y)
        target = y > 0 if hasattr(model, "classes_") else y
        fitted += time.process_time() - start
        halves = kw.inspection.weight_stability(model, X, target)
        true = {f"x{k}" for k in range(planted)}
        often = (halves.samples[:, planted:, 0] > 0).mean(axis=0) >= 0.8
        found.append([len(set(halves.selected) - true), len(set(halves.selected) & true), often.sum()])
    false, right, before = np.array(found, dtype=float).T
    return {
        "tables": n_tables,
        "largest": halves.largest,
        "bound": round(halves.bound, 4),
        "false": round(float(false.mean()), 3),
        "any false": round(float((false > 0).mean()), 3),
        "right": round(float(right.mean()), 2),
        "a weight in 80 % of the halves, false": round(float(before.mean()), 1),
        "seconds": {
            "fit": round(fitted / n_tables, 3),
            "halves": round((time.process_time() - begin - fitted) / n_tables, 3),
        },
    }


def main() -> None:
    """Run and write `RESULTS`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    out: dict[str, Any] = {}
    for name, (fit, part) in LEARNERS.items():
        out[name] = {}
        for n, columns, planted in CASES:
            key = f"{n} rows, {columns} columns, {planted} predict"
            out[name][key] = rates(fit, n, columns, planted, math.ceil(part * options.tables))
            print(name, key, out[name][key], flush=True)
            options.out.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
