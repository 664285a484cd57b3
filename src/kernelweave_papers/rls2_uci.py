"""RLS2 on UCI data, section 5.2: ten tables, two ratios, a hundred splits, thirty alphas, and baselines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave import banks, datasets
from kernelweave._errors import InputError
from kernelweave._types import Axes
from kernelweave.fitting.source import TableSource
from kernelweave.gram import Gram
from kernelweave.mkl.path import rls2_path
from kernelweave.results import Path
from kernelweave.views import as_table
from kernelweave_papers import baselines
from kernelweave_papers.base import Cell, Choices, Experiment, Options, Result, frame_of
from kernelweave_papers.printed import RLS2_TABLE2

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: The ten tables, in the versions whose numbers of kernels are those of the paper (servo: the nearest).
PAPER = tuple(RLS2_TABLE2)
#: The same without the leak of the target (cpu) and without the patient number (wpbc).
SOUND = ("cpu", "wpbc")
NAMES = ("rls2", "rls2-alternating", "average", "rbf", "forest", "boosting")


@dataclass(frozen=True)
class UCIOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
    ratios : tuple of float
        Shares of the rows for training.
    splits : int
        Random splits of each data set and ratio.
    methods : tuple of str
        ``rls2`` (certified), ``rls2-alternating`` (the paper's Algorithm 1 with its residual rule), ``average``,
        ``rbf``, ``forest``, ``boosting``.
    n_alphas : int
        Number of alphas, log-spaced from `largest` to `smallest`.
    largest, smallest : float
    tol : float
        Relative gap of every solution.
    folds : int
        Inner folds for the choice without test rows.
    """

    #: Methods of the experiment.
    known: ClassVar[tuple[str, ...]] = NAMES
    protocol = "rls2"

    datasets: tuple[str, ...] = (*PAPER, *SOUND)
    ratios: tuple[float, ...] = (0.6, 0.7)
    splits: int = 100
    methods: tuple[str, ...] = NAMES
    n_alphas: int = 30
    largest: float = 1e2
    smallest: float = 1e-6
    tol: float = 1e-6
    folds: int = 5

    @property
    def alphas(self) -> Array:
        """Regularisation parameters, descending."""
        return np.geomspace(self.largest, self.smallest, self.n_alphas)

    def choices(self) -> Choices:
        """Data sets and methods."""
        return super().choices() | {"methods": (self.known, "method")}

    def check(self) -> None:
        """Raise for settings that make no sense."""
        super().check()
        if not all(0 < ratio < 1 for ratio in self.ratios):
            raise InputError(f"`ratios` must lie between 0 and 1, got {list(self.ratios)}.")
        if not 0 < self.smallest < self.largest:
            raise InputError(
                f"`largest` must be above `smallest` > 0, got {self.largest} and {self.smallest}."
            )


#: Relative gap of the paths of the inner folds, which are only scored.
INNER_TOL = 1e-5
#: The split ratio of the paper's figures.
SHOWN = 0.7
#: Kernels listed for each data set.
TOP = 8


@dataclass(frozen=True, eq=False)
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


@lru_cache(maxsize=1)
def _average_kernel(p: Problem) -> Array:
    return p.gram.combine(p.scale / len(p.scale))


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


#: See `Experiment.costs`.
COSTS = {"rls2": 0.9, "rls2-alternating": 0.5, "average": 0.1, "rbf": 0.8, "forest": 0.6, "boosting": 0.6}


class UCI(Experiment):
    """Section 5.2."""

    name = "rls2-uci"
    title = "RLS2 on ten UCI data sets"
    defaults = UCIOptions()
    quick = UCIOptions(datasets=("heart", "servo"), ratios=(0.7,), splits=2, n_alphas=15, folds=3)
    costs = COSTS
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
        frame = frame_of(rows)
        return {
            "results": _results(frame, options),
            "profiles": _profiles(frame, options),
            "scores": _scores(frame),
            "kernels": _kernels(frame),
        }

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Figures 4 to 8: score, number of kernels and iterations along the path, one picture for each data set.

        Splits are thin, their average thick, the alpha with the best average dotted.
        """
        frame, single = tables["profiles"], tables["scores"]
        for name in frame["dataset"].unique() if len(frame) else ():
            own = frame[frame["dataset"] == name]
            part, other = own[own["method"] == "rls2"], own[own["method"] == "rls2-alternating"]
            if not len(part):
                continue
            ratio = SHOWN if (part["ratio"] == SHOWN).any() else part["ratio"].iloc[0]
            mine = single[single["dataset"] == name] if ratio == SHOWN else single.iloc[:0]
            part, other = part[part["ratio"] == ratio], other[other["ratio"] == ratio]
            yield f"profile_{name}", _profile(name, ratio, part, other, mine)


# ---- tables and pictures ----------------------------------------------------------------------------

KEYS = ["dataset", "ratio", "method"]


def _results(frame: DataFrame, options: UCIOptions) -> DataFrame:
    """Mean and standard deviation over splits, one row for each data set, ratio and protocol.

    ``rls2 (paper)`` takes the alpha with the best average TEST score, as the paper does: optimistic.
    ``rls2`` takes the one chosen by inner folds of each training part.
    """
    import pandas as pd

    out: list[dict[str, Any]] = []
    for (name, ratio, method), part in frame.groupby(KEYS, sort=False) if len(frame) else ():
        first, every = part.iloc[0], np.arange(len(part))
        head = {"dataset": name, "ratio": ratio, "metric": first["metric"]}
        head |= {"n_kernels": first["n_kernels"], "n_train": first["n_train"], "splits": len(part)}
        if not method.startswith("rls2"):
            out.append(head | {"protocol": method} | _summary(part["score"], seconds=part["seconds"]))
            continue
        scores, kernels = np.stack(part["score"]), np.stack(part["kernels"])
        mean = scores.mean(axis=0)
        best = int(np.argmin(mean) if first["metric"] == "rmse" else np.argmax(mean))
        choices = {f"{method} (paper)": np.full(len(part), best)}
        if method == "rls2":
            choices[method] = part["chosen"].to_numpy(dtype=np.intp)
        for protocol, at in choices.items():
            steps = part["iterations"].map(sum)
            found = _summary(
                scores[every, at], kernels=kernels[every, at], iterations=steps, seconds=part["seconds"]
            )
            head["protocol"] = protocol
            head["alpha"] = float(np.median(options.alphas[at]))
            out.append(head | found | {"gap": part["gap"].max(), "certified": int(part["certified"].sum())})
    return pd.DataFrame(out)


def _summary(scores: Any, **others: Any) -> dict[str, float]:
    out = {"mean": float(np.mean(scores)), "std": spread(scores)}
    for key, values in others.items():
        out |= {key: float(np.mean(values)), f"{key}_std": spread(values)}
    return out


def spread(values: Any) -> float:
    """Standard deviation (ddof 1), NaN for a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def _profiles(frame: DataFrame, options: UCIOptions) -> DataFrame:
    """Averages along the path: score, number of kernels, iterations."""
    import pandas as pd

    out = []
    for (name, ratio, method), part in frame.groupby(KEYS, sort=False) if len(frame) else ():
        if not method.startswith("rls2"):
            continue
        columns = {key: np.stack(part[key]) for key in ("score", "kernels", "iterations")}
        for k, alpha in enumerate(options.alphas):
            row = {"dataset": name, "ratio": ratio, "method": method, "alpha": float(f"{alpha:.6g}")}
            row["metric"] = part["metric"].iloc[0]
            for key, values in columns.items():
                row[key] = float(f"{values[:, k].mean():.6g}")
                row[f"{key}_std"] = float(f"{spread(values[:, k]):.4g}")
            out.append(row)
    return pd.DataFrame(out)


def _scores(frame: DataFrame) -> DataFrame:
    """Every split of the certified paths at 70/30: scores, kernels and iterations as texts along the path."""
    frame = frame.reindex(
        columns=["dataset", "split", "chosen", "score", "kernels", "iterations", "method", "ratio"]
    )
    own = frame[(frame["method"] == "rls2") & (frame["ratio"] == SHOWN)].drop(columns=["method", "ratio"])
    for key, form in (("score", "{:.4g}"), ("kernels", "{}"), ("iterations", "{}")):
        own[key] = [" ".join(map(form.format, values)) for values in own[key]]
    return own


def _kernels(frame: DataFrame) -> DataFrame:
    """The kernels with the largest average weight at the choice by inner folds, and how often they were selected."""
    import pandas as pd

    out = []
    frame = frame.reindex(columns=[*KEYS, "weights"]).dropna()
    for (name, ratio, _), part in frame.groupby(KEYS, sort=False):
        weights = pd.DataFrame(list(part["weights"]))
        total = weights.sum().sort_values(ascending=False, kind="stable")[:TOP]
        for label, weight in total.items():
            row = {"dataset": name, "ratio": ratio, "kernel": label, "weight": round(weight / len(part), 4)}
            out.append(row | {"selected": round(float(weights[label].notna().mean()), 3)})
    return pd.DataFrame(out, columns=["dataset", "ratio", "kernel", "weight", "selected"])


def _profile(name: str, ratio: float, part: DataFrame, other: DataFrame, single: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.6), layout="constrained")
    axes = figure.subplots(3, 1, sharex=True)
    metric = part["metric"].iloc[0]
    alphas = part["alpha"].to_numpy()
    names = {"score": "test accuracy, %" if metric == "accuracy" else "test RMSE"}
    names |= {"kernels": "selected kernels"}
    best = int(part["score"].argmin() if metric == "rmse" else part["score"].argmax())
    for ax, (key, label) in zip(axes, names.items(), strict=False):
        for text in single[key]:
            ax.plot(alphas, np.fromstring(text, sep=" "), color="0.8", lw=0.4, rasterized=True)
        ax.plot(alphas, part[key], color="C0", lw=2.0, label="exact")
        if len(other):
            ax.plot(other["alpha"], other[key], color="C1", lw=1.2, ls="--", label="Algorithm 1")
        ax.set_ylabel(label)
    _iterations(axes[-1], part, other)
    for ax in axes:
        ax.axvline(alphas[best], color="0.2", ls=":", lw=1.0)
        ax.set_xscale("log")
    axes[-1].legend(fontsize=7)
    if metric == "rmse" and len(single):
        # the unregularised end of single splits may be far away
        top = float(part["score"].max() * 1.3)
        axes[0].set_ylim(0.0, top)
    axes[0].set_title(f"{name}, {round(100 * ratio)} % for training")
    axes[-1].set_xlabel("regularisation parameter alpha")
    axes[-1].invert_xaxis()
    return figure


def _iterations(ax: Axes, part: DataFrame, other: DataFrame) -> None:
    """Rounds of Algorithm 1, which the paper counts, with their spread, and factorisations of the exact solver."""
    if len(other):
        mean, spread = other["iterations"].to_numpy(), other["iterations_std"].to_numpy()
        ax.fill_between(
            other["alpha"], np.maximum(mean - spread, 1.0), mean + spread, color="C1", alpha=0.2, lw=0
        )
        ax.plot(other["alpha"], mean, color="C1", lw=2.0, label="rounds of Algorithm 1")
    ax.plot(part["alpha"], part["iterations"], color="C0", lw=1.0, label="factorisations, exact")
    ax.set_ylabel("iterations")
