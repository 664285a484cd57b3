"""How often verdicts are wrong, with known truth: ``python -m benchmarks.verdicts``.

"Better": two classifiers of which the second is right on 80 % of the rows, one of them alone on 20 % of the rows, and
the first gains 0 to 0.1 of accuracy. "Uses" and "needs": linear RLS2 on five columns of normal numbers, of which three
hold 0.4, 0.05 and 0.02 of the variance of the target and two nothing; what a fitted model loses where a column is
exchanged is measured on 20,000 further rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import ShuffleSplit

import kernelweave as kw
from kernelweave.inspection.paired import compare_classes
from kernelweave.inspection.registry import MARGIN, decided
from kernelweave.inspection.sources import CERTAIN, answers_of, source_refit_test, source_test

RESULTS = Path(__file__).parent / "results" / "verdicts.json"
PARTS = np.array([0.4, 0.05, 0.02, 0.0, 0.0])


def counted(answers: Iterable[str]) -> dict[str, float]:
    """Fractions of the three answers."""
    found = list(answers)
    return {name: round(found.count(name) / len(found), 3) for name in ("yes", "no", "inconclusive")}


def better(n: int, gain: float, repeats: int) -> dict[str, float]:
    """Verdicts on two classifiers and n rows."""
    rng, found = np.random.default_rng(0), []
    for _ in range(repeats):
        place = rng.random(n)
        first, second = place < 0.1 + gain / 2, (place >= 0.1 + gain / 2) & (place < 0.2)
        both = rng.random(n) < (0.8 - (0.1 - gain / 2)) / 0.8
        one, two = (np.where(place < 0.2, own, both).astype(int) for own in (first, second))
        test = compare_classes(np.ones(n, dtype=int), one, two)
        found.append(decided(test.p_value, test.difference, test.high))
    return counted(found)


def table(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Columns and a target of variance one."""
    X = rng.normal(size=(n, len(PARTS)))
    return X, X @ np.sqrt(PARTS) + np.sqrt(1.0 - PARTS.sum()) * rng.normal(size=n)


def model_of(X: Any, y: Any) -> Any:
    """A kernel on each column."""
    return kw.MKLRegressor(kw.banks.linear_features(len(PARTS)), alpha=0.1, standardize=True).fit(X, y)


def uses(n: int, repeats: int) -> dict[str, Any]:
    """Verdicts on exchanged columns of n held-out rows of models of 100 rows."""
    by_column: list[list[str]] = [[] for _ in PARTS]
    wrong_yes, wrong_no, losing = 0, 0, 0
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        model = model_of(*table(rng, 100))
        found = source_test(model, *table(rng, n), seed=seed)
        X, y = table(rng, 20_000)
        error, wrong = np.square(y - model.predict(X)).mean(), False
        for name, answer in zip(found.names, answers_of(found, CERTAIN / n), strict=True):
            k, moved = int(name[1:]), X.copy()
            by_column[k].append(answer)
            moved[:, k] = rng.permutation(moved[:, k])
            loss = (np.square(y - model.predict(moved)).mean() - error) / y.var()
            losing += loss >= MARGIN
            wrong_no += loss >= MARGIN and answer == "no"
            wrong |= loss <= 0 and answer == "yes"
        wrong_yes += wrong
    return {
        "columns": [counted(own) for own in by_column],
        "models with a wrong yes": round(wrong_yes / repeats, 3),
        "wrong no": [int(wrong_no), int(losing)],
    }


def needs(n: int, repeats: int) -> list[dict[str, float]]:
    """Verdicts on columns that are left out, over ten random divisions of n rows."""
    by_column: list[list[str]] = [[] for _ in PARTS]
    for seed in range(repeats):
        X, y = table(np.random.default_rng(seed), n)
        found = source_refit_test(model_of(X, y), X, y, cv=ShuffleSplit(10, test_size=0.2, random_state=seed))
        for name, answer in zip(found.names, answers_of(found), strict=True):
            by_column[int(name[1:])].append(answer)
    return [counted(own) for own in by_column]


def main() -> None:
    """Run and write `RESULTS`: four minutes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    repeats, few = options.repeats, max(2, options.repeats // 20)
    gains = (0.0, 0.02, 0.05, 0.1)
    out = {
        "repeats": [repeats, few],
        "better": {n: {gain: better(n, gain, repeats) for gain in gains} for n in (20, 50, 200, 1000, 5000)},
        "uses": {n: uses(n, few) for n in (30, 100, 300, 1000)},
        "needs": {n: needs(n, few) for n in (60, 200)},
    }
    options.out.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
