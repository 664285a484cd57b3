"""How often intervals of scores hold, and what scores over folds say of new rows: ``python -m benchmarks.scores``.

Simulations with known truth. Intervals of 95 % of the scores of held-out rows (`score_intervals`), for errors that are
normal, heavy-tailed, contaminated or skewed, and for classes of two normal distributions. Scores of rows out of fold
(`out_of_fold_scores`) of an estimator that chooses its regularisation parameter, beside the score that chose it and the
mean over folds: mean difference to the score of new rows, and coverage; coverage for linear models of ten columns.
Fits without a source that is noise, or not (`source_refit_test`): how often a loss is found. Then scores that are
reported of plain fits on 30 tables, less those of the test rows. Names of parts of the results compute these alone.
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
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score
from sklearn.model_selection import ShuffleSplit, train_test_split

import kernelweave as kw
from benchmarks import default_sets, uncertainty
from kernelweave.inspection import out_of_fold_scores, score_intervals, source_refit_test
from kernelweave.inspection.held import HeldOut
from kernelweave.inspection.scores import headline

RESULTS = Path(__file__).parent / "results" / "scores.json"
SIZES = (30, 60, 100, 300)
Draw = Callable[[np.random.Generator, int], np.ndarray]

ERRORS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "Laplace": lambda rng, n: rng.laplace(size=n),
    "t, 5 df": lambda rng, n: rng.standard_t(5, size=n),
    "t, 3 df": lambda rng, n: rng.standard_t(3, size=n),
    "10 % of 3 sd": lambda rng, n: np.where(rng.random(n) < 0.1, 3.0, 1.0) * rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1.0,
}
#: Exact variances of these.
VARIANCES = {
    "normal": 1.0,
    "Laplace": 2.0,
    "t, 5 df": 5 / 3,
    "t, 3 df": 3.0,
    "10 % of 3 sd": 1.8,
    "exponential": 1.0,
}


def of_numbers(kind: str, n: int, repeats: int, seed: int = 0) -> dict[str, float]:
    """Coverage of RMSE, MAE and R^2, where half of the variance is explained."""
    rng, variance = np.random.default_rng(seed), VARIANCES[kind]
    truth = {
        "RMSE": np.sqrt(variance),
        "MAE": np.abs(ERRORS[kind](np.random.default_rng(1), 4_000_000)).mean(),
        "R^2": 0.5,
    }
    held = dict.fromkeys(truth, 0)
    for _ in range(repeats):
        guess = np.sqrt(variance) * rng.normal(size=n)
        found = score_intervals(guess + ERRORS[kind](rng, n), guess)
        for name, value in truth.items():
            held[name] += found[name].low <= value <= found[name].high
    return {name: round(float(count) / repeats, 3) for name, count in held.items()}


def of_classes(share: float, n: int, repeats: int, seed: int = 0) -> dict[str, float]:
    """Coverage of scores of two normal distributions, 1.5 standard deviations apart."""
    rng = np.random.default_rng(seed)

    def rows(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        y = (rng.random(n) < share).astype(int)
        f = rng.normal(size=n) + 1.5 * y - 0.75 + np.log(share / (1 - share)) / 1.5
        p = 1.0 / (1.0 + np.exp(-1.5 * f))
        return y, f, np.column_stack([1 - p, p])

    y, f, p = rows(1_000_000)
    losses = {
        "log loss": -np.log(p[np.arange(len(y)), y]).mean(),
        "Brier score": np.square(p[:, 1] - y).mean(),
    }
    guess = (f > 0).astype(int)
    recalls = [np.mean(guess[y == k] == k) for k in (0, 1)]
    truth = {
        "accuracy": np.mean(guess == y),
        "balanced accuracy": np.mean(recalls),
        "F1 (macro)": f1_score(y, guess, average="macro"),
        "ROC AUC": stats.norm.cdf(1.5 / np.sqrt(2)),
        **losses,
    }
    held = dict.fromkeys(truth, 0)
    for _ in range(repeats):
        y, f, p = rows(n)
        found = score_intervals(y, (f > 0).astype(int), decision=f, probability=p, classes=[0, 1])
        for name, value in truth.items():
            held[name] += found[name].low <= value <= found[name].high
    return {name: round(float(count) / repeats, 3) for name, count in held.items()}


#: Decision values of the first class, and of the second less their shift.
DECISIONS: dict[str, tuple[Draw, Draw]] = {
    "normal": (ERRORS["normal"], ERRORS["normal"]),
    "normal, twice as wide": (ERRORS["normal"], lambda rng, n: 2.0 * rng.normal(size=n)),
    "t, 3 df": (ERRORS["t, 3 df"], ERRORS["t, 3 df"]),
    "Gumbel": (lambda rng, n: rng.gumbel(size=n), lambda rng, n: rng.gumbel(size=n)),
}
AREAS = (0.7, 0.85, 0.93, 0.98)


def of_areas(kind: str, n: int, share: float, repeats: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """Coverage and mean width of intervals of areas, with a fixed number of rows of each class."""
    rng, out = np.random.default_rng(seed), {}
    y = np.arange(n) < round(n * share)
    first, second = (draw(np.random.default_rng(1 + k), 1_000_000) for k, draw in enumerate(DECISIONS[kind]))
    for area in AREAS:
        shift = float(np.quantile(first - second, area))
        held, width = 0, 0.0
        for _ in range(repeats):
            f = np.where(y, DECISIONS[kind][1](rng, n) + shift, DECISIONS[kind][0](rng, n))
            found = score_intervals(y.astype(int), (f > 0).astype(int), decision=f, classes=[0, 1])["ROC AUC"]
            held += found.low <= area <= found.high
            width += found.high - found.low
        out[str(area)] = {"coverage": round(held / repeats, 3), "width": round(width / repeats, 3)}
    return out


def out_of_fold(n: int, classes: bool, repeats: int) -> dict[str, Any]:
    """Mean differences to the score of new rows, and coverage of the interval of rows out of fold."""
    name = "accuracy" if classes else "R^2"
    apart: dict[str, list[float]] = {"score that chose": [], "mean over folds": [], "out of fold": []}
    held, values = 0, []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 2000, 10))
        y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=len(X))
        y = (y > 0).astype(int) if classes else y
        kind = kw.MKLClassifierCV if classes else kw.MKLRegressorCV
        model = kind(kw.banks.linear_features(10), "rls2", n_alphas=8)
        found = out_of_fold_scores(model, X[:n], y[:n])[name]
        model.fit(X[:n], y[:n])
        new = model.score(X[n:], y[n:])
        apart["score that chose"].append(model.best_score_ - new)
        apart["mean over folds"].append(model.cv_results_["mean_test_score"][model.best_index_] - new)
        apart["out of fold"].append(found.value - new)
        held += found.low <= new <= found.high
        values.append(new)
    return {
        "rows": n,
        "score": name,
        "new rows": round(float(np.mean(values)), 3),
        **{k: round(float(np.mean(v)), 3) for k, v in apart.items()},
        "coverage": round(float(held) / repeats, 3),
    }


def of_ten_columns(n: int, classes: bool, repeats: int) -> dict[str, float]:
    """Coverage of intervals of rows out of fold, of linear models of scikit-learn with a fixed penalty."""
    held: dict[str, int] = {}
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 2000, 10))
        y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=len(X))
        y = (y > 0).astype(int) if classes else y
        model = LogisticRegression() if classes else Ridge()
        found = out_of_fold_scores(model, X[:n], y[:n])
        new = HeldOut.of(model.fit(X[:n], y[:n]), X[n:], y[n:]).scores
        for name, value in new.items():
            held[name] = held.get(name, 0) + (found[name].low <= value <= found[name].high)
    return {name: round(float(count) / repeats, 3) for name, count in held.items()}


def omission(n: int, repeats: int) -> dict[str, float]:
    """How often the fit without a source is found to lose, by what the source has, at p < 0.05 after correction."""
    names = {"x0": "signal", "x1": "weak signal", "x2": "noise"}
    found = dict.fromkeys(names.values(), 0)
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 3))
        y = X[:, 0] + 0.3 * X[:, 1] + rng.normal(size=n)
        model = kw.MKLRegressor(kw.banks.linear_features(3), "rls2", alpha=0.1).fit(X, y)
        cv = ShuffleSplit(10, test_size=0.2, random_state=seed)
        test = source_refit_test(model, X, y, sources=list(names), cv=cv, choose_again=False)
        for name, p in zip(test.names, test.adjusted, strict=True):
            found[names[name]] += p < 0.05
    return {name: round(float(count) / repeats, 3) for name, count in found.items()}


def _wide(name: str) -> Callable[[int], uncertainty.Table]:
    """A table of far more columns than rows."""
    return lambda _: (default_sets.load(name).X.to_numpy(dtype=float), default_sets.load(name).y)


def tables() -> dict[str, Callable[[int], uncertainty.Table]]:
    """15 regressions and 15 classifications, real and made up."""
    larger = {"normal, 1000", "heavy, 300", "skewed, 300", "local, 300", "none, 300"}
    alike = {"imbalanced 10 %", "three classes, 10 %"}
    return {
        **{name: read for name, read in uncertainty.NUMBERS.items() if name not in larger},
        **{name: read for name, read in uncertainty.CLASSES.items() if name not in alike},
        **{name: _wide(name) for name in ("colon", "srbct")},
    }


def reported(name: str, splits: int) -> dict[str, Any]:
    """Scores that are reported of a plain fit less the score of the test rows, means over divisions of a table."""
    apart, values = [], []
    for seed in range(splits):
        X, y = tables()[name](seed)
        kind = None if name in uncertainty.NUMBERS else y
        train, test = train_test_split(
            np.arange(len(y)), train_size=min(400, len(y) // 2), random_state=seed, stratify=kind
        )
        model = kw.MKLRegressor() if kind is None else kw.MKLClassifier()
        found = out_of_fold_scores(model, X[train], y[train])
        model.fit(X[train], y[train])
        new = model.score(X[test], y[test])
        chose = model.cv_results_["test_score"][model.best_index_]
        if kind is None:
            # a negative squared error
            chose = 1.0 + chose / y[train].var()
        apart.append([chose - new, found[headline(found)].value - new])
        values.append(new)
    means = dict(
        zip(("score that chose", "out of fold"), np.mean(apart, axis=0).round(4).tolist(), strict=True)
    )
    score = "R^2" if kind is None else "accuracy"
    return {"rows": len(train), "score": score, "test rows": round(float(np.mean(values)), 4), **means}


def reports(splits: int) -> dict[str, Any]:
    """The same of all tables, with means over them and their standard errors."""
    of = {}
    for name in tables():
        of[name] = reported(name, splits)
        print(name, of[name], flush=True)
    found: dict[str, Any] = {"splits": splits, "tables": of}
    for score in ("R^2", "accuracy", "both"):
        for what in ("score that chose", "out of fold"):
            apart = np.array([one[what] for one in of.values() if score in (one["score"], "both")])
            error = apart.std(ddof=1) / np.sqrt(len(apart))
            found.setdefault(score, {})[what] = [round(float(apart.mean()), 4), round(float(error), 4)]
    return found


def main() -> None:
    """Run and write `RESULTS`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--fits", type=int, default=150)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    repeats, fits = options.repeats, options.fits
    cases = ((30, False), (100, False), (100, True))
    parts: dict[str, Callable[[], Any]] = {
        "numbers": lambda: {kind: {str(n): of_numbers(kind, n, repeats) for n in SIZES} for kind in ERRORS},
        "classes": lambda: {
            str(share): {str(n): of_classes(share, n, repeats // 2) for n in SIZES} for share in (0.5, 0.2)
        },
        "areas": lambda: {
            kind: {
                f"{n}, {share}": of_areas(kind, n, share, repeats // 2)
                for n, share in ((20, 0.5), (60, 0.2), (100, 0.5), (300, 0.1))
            }
            for kind in DECISIONS
        },
        "out of fold": lambda: [out_of_fold(n, classes, fits) for n, classes in cases],
        "ten columns": lambda: {
            "classes" if classes else "numbers": {str(n): of_ten_columns(n, classes, 2 * fits) for n in SIZES}
            for classes in (False, True)
        },
        "omission": lambda: {str(n): omission(n, fits) for n in (60, 200)},
        "reported": lambda: reports(options.splits),
    }
    out: dict[str, Any] = {"repeats": repeats, "fits": fits, "level": 0.95, "processor seconds": {}}
    out |= json.loads(options.out.read_text()) if options.parts else {}
    for name in options.parts or parts:
        begin = time.process_time()
        out[name] = parts[name]()
        out["processor seconds"][name] = round(time.process_time() - begin)
        options.out.write_text(json.dumps(out, indent=1) + "\n")
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
