"""RLS2 on UCI data, section 5.2: ten tables, two ratios, a hundred splits, thirty alphas, and baselines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave import banks, datasets
from kernelweave.fitting.source import TableSource
from kernelweave.gram import Gram
from kernelweave.mkl.path import rls2_path
from kernelweave.results import Path
from kernelweave.views import as_table
from kernelweave_papers import baselines
from kernelweave_papers.base import Cell, Experiment, Result
from kernelweave_papers.rls2_uci_grid import UCIOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Relative gap of the paths of the inner folds, which are only scored.
INNER_TOL = 1e-5


@dataclass(frozen=True)
class Problem:
    """One data set with its kernels on all rows.

    Attributes
    ----------
    X, y : arrays
        Targets are -1 and 1 for classification.
    gram : Gram
    scale : array of shape (n_kernels,)
        One over the trace on training and test rows together: rule (18), transductive.
    labels : tuple of str
    regression : bool
    """

    X: Array
    y: Array
    gram: Gram
    scale: Array
    labels: tuple[str, ...]
    regression: bool

    @property
    def metric(self) -> str:
        """Name of the score."""
        return "rmse" if self.regression else "accuracy"

    def intercept(self, rows: Rows) -> float:
        """Mean of the training targets, 0 for classification."""
        return float(self.y[rows].mean()) if self.regression else 0.0

    def score(self, f: Array, rows: Rows) -> Array:
        """RMSE or accuracy (in percent) of decision values (..., len(rows))."""
        truth = self.y[rows]
        if self.regression:
            return np.sqrt(np.square(f - truth).mean(axis=-1))
        return 100.0 * ((f > 0) == (truth > 0)).mean(axis=-1)

    def best(self, scores: Array) -> int:
        """Position of the best score, the first (largest alpha) of equal ones."""
        return int(np.argmin(scores) if self.regression else np.argmax(scores))


@lru_cache(maxsize=1)
def problem(name: str) -> Problem:
    """Load a data set and compute its kernels. The latest is cached, as cells of one data set follow each other."""
    data = datasets.load(name, protocol="rls2")
    regression = data.task == "regression"
    source = TableSource(banks.rls2(data.X.shape[1]), as_table(data.X), max_memory=float("inf"))
    gram = source.gram()
    y = data.y.astype(float) if regression else data.signs
    labels = tuple(_readable(label, data.feature_names) for label in source.names)
    return Problem(data.X, y, gram, 1.0 / gram.trace(), labels, regression)


def _readable(label: str, columns: tuple[str, ...]) -> str:
    """Names of columns instead of positions: ``RBF(gamma=1) on x3`` -> ``RBF(gamma=1) on oldpeak``."""
    kernel, _, where = label.rpartition(" on ")
    return f"{kernel} on {columns[int(where[1:])]}" if where[1:].isdigit() else label


def split_rows(n: int, ratio: float, split: int, seed: int) -> tuple[Rows, Rows]:
    """Sorted training and test rows of one random split."""
    order = np.random.default_rng([seed, split, round(1000 * ratio)]).permutation(n)
    n_train = round(ratio * n)
    return np.sort(order[:n_train]), np.sort(order[n_train:])


def inner_folds(y: Array, n_folds: int, split: int, seed: int, regression: bool) -> list[tuple[Rows, Rows]]:
    """Folds of the training rows, stratified for classification."""
    from sklearn.model_selection import KFold, StratifiedKFold

    cls = KFold if regression else StratifiedKFold
    state = int(np.random.default_rng([seed, split, 1]).integers(2**31))
    folds = cls(n_folds, shuffle=True, random_state=state)
    return list(folds.split(np.zeros((len(y), 1)), None if regression else y > 0))


# ---- RLS2 -----------------------------------------------------------------------------------------


def decision_values(p: Problem, path: Path, train: Rows, test: Rows) -> Array:
    """Values on test rows along a path solved on training rows, shape (n_alphas, n_test)."""
    out = np.empty((len(path), len(test)))
    full = np.zeros(len(p.y))
    for k in range(len(path)):
        full[train] = path.dual_coef[k]
        out[k] = p.gram.matvec(path.weights[k] * p.scale, full)[test]
    return out + p.intercept(train)


def run_rls2(p: Problem, train: Rows, test: Rows, split: int, o: UCIOptions, solver: str) -> Result:
    """The path on the training rows, its test scores, and the choice by inner folds."""
    alphas = o.alphas
    gram = p.gram.restrict(train)
    target = p.y[train] - p.intercept(train)
    started = time.perf_counter()
    path = rls2_path(gram, target, alphas, scale=p.scale, tol=o.tol, solver=solver)
    seconds = time.perf_counter() - started
    result: Result = {
        "score": _short(p.score(decision_values(p, path, train, test), test)),
        "kernels": path.n_active.tolist(),
        "iterations": path.n_iter.tolist(),
        "gap": float(path.rel_gap.max()),
        "certified": int((path.rel_gap <= o.tol).sum()),
        "seconds": seconds,
    }
    if solver != "newton":
        return result
    inner = np.zeros(len(alphas))
    started = time.perf_counter()
    for fit, held in inner_folds(p.y[train], o.folds, split, o.seed, p.regression):
        b = p.intercept(train[fit])
        fold = rls2_path(gram.restrict(fit), p.y[train[fit]] - b, alphas, scale=p.scale, tol=INNER_TOL)
        f = decision_values(p, fold, train[fit], train[held])
        loss = p.score(f, train[held])
        inner += (np.square(loss) if p.regression else loss) * len(held)
    chosen = p.best(inner)
    used = np.flatnonzero(path.weights[chosen])
    result |= {
        "inner": _short(inner / len(train)),
        "inner_seconds": time.perf_counter() - started,
        "chosen": chosen,
        "weights": {p.labels[m]: round(float(path.weights[chosen, m]), 5) for m in used},
    }
    return result


def _short(values: Array) -> list[float]:
    return [float(f"{value:.8g}") for value in np.atleast_1d(values)]


Method = Callable[[Problem, Rows, Rows, int, UCIOptions], Result]


def _baseline(fit: Callable[..., tuple[Array, dict[str, object]]]) -> Method:
    def run(p: Problem, train: Rows, test: Rows, split: int, o: UCIOptions) -> Result:
        started = time.perf_counter()
        folds = inner_folds(p.y[train], o.folds, split, o.seed, p.regression)
        f, chosen = fit(p, train, test, folds, o.seed + split)
        return {
            "score": float(p.score(f, test)),
            "chosen": chosen,
            "seconds": time.perf_counter() - started,
        }

    return run


def _average(p: Problem, train: Rows, test: Rows, folds: Any, seed: int) -> tuple[Array, dict[str, object]]:
    K = _average_kernel(p)
    return baselines.kernel_ridge(
        K, p.y, train, test, folds, np.geomspace(1e2, 1e-6, 30), p.intercept, p.score, p.best
    )


_AVERAGES: dict[int, Array] = {}


def _average_kernel(p: Problem) -> Array:
    if id(p) not in _AVERAGES:
        _AVERAGES.clear()
        _AVERAGES[id(p)] = p.gram.combine(p.scale / len(p.scale))
    return _AVERAGES[id(p)]


def _on_columns(fit: Callable[..., tuple[Array, dict[str, object]]]) -> Method:
    return _baseline(
        lambda p, train, test, folds, seed: fit(p.X[train], p.y[train], p.X[test], folds, seed, p.regression)
    )


METHODS: dict[str, Method] = {
    "rls2": lambda p, train, test, split, o: run_rls2(p, train, test, split, o, "newton"),
    "rls2-alternating": lambda p, train, test, split, o: run_rls2(p, train, test, split, o, "alternating"),
    "average": _baseline(_average),
    "rbf": _on_columns(baselines.tuned_rbf),
    "forest": _on_columns(baselines.forest),
    "boosting": _on_columns(baselines.boosting),
}


class UCI(Experiment):
    """Section 5.2."""

    name = "rls2-uci"
    title = "RLS2 on ten UCI data sets"
    defaults = UCIOptions()
    published = ("results", "profiles", "kernels", "scores")
    shown = (
        "dataset",
        "ratio",
        "protocol",
        "metric",
        "mean",
        "std",
        "kernels",
        "iterations",
        "seconds",
        "gap",
    )

    def cells(self, options: UCIOptions) -> list[Cell]:
        """Data set, method, ratio, split; data sets outermost, so that their kernels are computed once."""
        return [
            {"dataset": name, "method": method, "ratio": ratio, "split": split}
            for name in options.datasets
            for method in options.methods
            for ratio in options.ratios
            for split in range(options.splits)
        ]

    def run(self, cell: Cell, options: UCIOptions) -> Result:
        """One method on one split."""
        p = problem(str(cell["dataset"]))
        split = int(cell["split"])
        train, test = split_rows(len(p.y), float(cell["ratio"]), split, options.seed)
        result = METHODS[str(cell["method"])](p, train, test, split, options)
        return result | {"metric": p.metric, "n_kernels": len(p.labels), "n_train": len(train)}

    def tables(self, rows: list[tuple[Cell, Result]], options: UCIOptions) -> dict[str, DataFrame]:
        """Summaries.

        ``results`` has one row for each data set, ratio and protocol, ``profiles`` the averages along the path,
        ``scores`` every split at 70/30 along the path, and ``kernels`` the selected kernels.
        """
        from kernelweave_papers import rls2_uci_tables as made

        return {
            "results": made.results(rows, options),
            "profiles": made.profiles(rows, options),
            "scores": made.scores(rows, options),
            "kernels": made.kernels(rows, options),
        }

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Figures 4 to 8: score, number of kernels and iterations along the path, one picture for each data set."""
        from kernelweave_papers.rls2_uci_tables import profile_figures

        yield from profile_figures(tables)
