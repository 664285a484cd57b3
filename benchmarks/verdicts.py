"""How often verdicts are wrong, with known truth: ``python -m benchmarks.verdicts``.

"Better": two classifiers of which the second is right on 80 % of the rows, one of them alone on 20 % of the rows, and
the first gains 0 to 0.1 of accuracy. "Uses" and "needs": linear RLS2 on five columns of normal numbers, of which three
hold 0.4, 0.05 and 0.02 of the variance of the target and two nothing; what a fitted model loses where a column is
exchanged is measured on 20,000 further rows.

"Noise" and "planted": whole tables of independent normal columns, each a source with a linear kernel, through a plain
fit and its findings. Nothing predicts the target, with 40 held-out rows for 100 of the fit; or the sum of some of 100
columns, which is as strong as the noise, does, with 80 rows for 160. "More rows": the step from 80 % to all training
rows of five folds, for ten columns that hold half of the variance of the target, or none of it, and RLS2 with alpha =
0.1; what the step gains on average is measured with further tables.

A rate is a mean over tables with its standard error, which for what a table has or has not is that of a binomial.
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
from kernelweave.inspection.registry import MARGIN, decided, gained
from kernelweave.inspection.sources import CERTAIN, answers_of, source_refit_test, source_test

RESULTS = Path(__file__).parent / "results" / "verdicts.json"
PARTS = np.array([0.4, 0.05, 0.02, 0.0, 0.0])
#: Columns of tables of noise, whether their targets are classes, and tables for a hundred repeats.
NOISE = ((10, False, 50), (100, False, 20), (1000, False, 10), (20, True, 15))
#: Rows of tables, whether their targets are classes, and whether the columns predict them.
GROWING = (
    *((n, False, True) for n in (60, 100, 300, 1000)),
    *((n, True, True) for n in (40, 100, 300, 1000)),
    *((n, True, False) for n in (100, 300)),
)


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
        found = source_test(model, *table(rng, n), random_state=seed)
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


def rate(found: list[Any]) -> list[float]:
    """A mean, and its standard error."""
    values = np.array(found, dtype=float)
    return [round(float(values.mean()), 4), round(float(values.std() / np.sqrt(len(values))), 4)]


def answered(X: Any, y: Any, n: int) -> tuple[set[str], str]:
    """Sources that a fit on the first n rows uses, and whether it is better than the simplest rule."""
    bank = kw.banks.linear_features(X.shape[1])
    model = kw.MKLClassifier(bank, "simple", C=1.0) if y.dtype == bool else kw.MKLRegressor(bank)
    found = kw.inspection.findings(model.fit(X[:n], y[:n]), X[n:], y[n:], names=["sources"])
    [table] = found["sources"].tables
    return {row[0] for row in table.rows if row[-1] == "yes"}, found["simplest"].verdicts[0].answer


def noise(columns: int, classes: bool, repeats: int) -> dict[str, Any]:
    """Wrong verdicts on tables without anything to find."""
    found = []
    for seed in range(repeats):
        rng = np.random.default_rng([seed, columns])
        X, y = rng.normal(size=(140, columns)), rng.normal(size=140)
        sources, better = answered(X, y > 0 if classes else y, 100)
        found.append([len(sources) > 0, better == "yes"])
    used, better = zip(*found, strict=True)
    return {"tables": repeats, "a source": rate(used), "better": rate(better)}


def planted(n_right: int, repeats: int) -> dict[str, Any]:
    """Right and wrong sources among 100 columns."""
    right, found = {f"x{k}" for k in range(n_right)}, []
    for seed in range(repeats):
        rng = np.random.default_rng([seed, n_right])
        X = rng.normal(size=(240, 100))
        y = X[:, :n_right].sum(axis=1) / np.sqrt(n_right) + rng.normal(size=240)
        sources, better = answered(X, y, 160)
        found.append([len(sources & right) / n_right, bool(sources - right), better == "yes"])
    power, wrong, better = zip(*found, strict=True)
    return {"tables": repeats, "power": rate(power), "a wrong source": rate(wrong), "better": rate(better)}


def growing(n: int, classes: bool, predict: bool, repeats: int) -> dict[str, Any]:
    """What the last step of learning curves gains on average, and the verdicts on it."""
    bank = kw.banks.linear_features(10)
    model = (kw.MKLClassifier if classes else kw.MKLRegressor)(bank, "rls2", alpha=0.1)

    def drawn(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
        X, error = rng.normal(size=(n, 10)), rng.normal(size=n)
        y = (X.sum(axis=1) / np.sqrt(10) + error) / np.sqrt(2) if predict else error
        return X, y > 0 if classes else y

    answers, gains, held = [], [], []
    for seed in range(repeats):
        rng = np.random.default_rng([seed, n])
        curve = kw.inspection.learning_curve(model, *drawn(rng, n), sizes=(0.8, 1.0), random_state=seed)
        answers.append(gained(curve.gain))
        (X, y), further = drawn(rng, int(curve.sizes[-1])), drawn(rng, 5000)
        less, more = (model.fit(X[:k], y[:k]).score(*further) for k in curve.sizes)
        gains.append(more - less)
        held.append((curve.gain.low, curve.gain.high))
    # of targets without a rule nothing is gained
    gain = rate(gains) if predict else [0.0, 0.0]
    return {
        "tables": repeats,
        "gain": gain,
        "interval holds it": rate([low <= gain[0] <= high for low, high in held]),
        **{answer: rate([one == answer for one in answers]) for answer in ("yes", "no")},
    }


def main() -> None:
    """Run and write `RESULTS`: fifteen minutes."""
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
        "noise": {
            f"{columns}, {'classes' if classes else 'numbers'}": noise(
                columns, classes, share * repeats // 100
            )
            for columns, classes, share in NOISE
        },
        "planted": {n_right: planted(n_right, repeats // 10) for n_right in (1, 3, 5)},
        "more rows": {
            f"{n}, {'classes' if classes else 'numbers'}{'' if predict else ', noise'}": growing(
                n, classes, predict, 2 * few
            )
            for n, classes, predict in GROWING
        },
    }
    options.out.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
