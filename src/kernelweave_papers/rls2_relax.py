"""Does Algorithm 1 regularise by stopping early, or by having two alphas? Weights at one, ridge at another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave import datasets
from kernelweave.mkl.path import rls2_path
from kernelweave.mkl.regularization import ridge_path
from kernelweave.mkl.ridge_problem import make_problem
from kernelweave.results import Path
from kernelweave_papers.base import Cell, Experiment, Result, frame_of
from kernelweave_papers.ranks import signed_rank
from kernelweave_papers.rls2_uci import (
    INNER_TOL,
    PAPER,
    Problem,
    Rows,
    UCIOptions,
    decision_values,
    inner_folds,
    problem,
    split_rows,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]

METHODS = ("exact", "alternating")
#: Compared methods: columns of `results`.
LABELS = {
    "one": "one alpha",
    "two": "two alphas",
    "one, squares": "one, by squared error",
    "two, squares": "two, by squared error",
    "alternating": "Algorithm 1",
    "one, test": "one, by test score",
    "two, test": "two, by test score",
}
#: Pairs of methods compared over data sets.
PAIRS = (
    ("two", "one"),
    ("two, squares", "one, squares"),
    ("two, test", "one, test"),
    ("alternating", "one"),
    ("two", "alternating"),
)


@dataclass(frozen=True)
class RelaxOptions(UCIOptions):
    """Settings: those of `UCIOptions`, with the same alphas for weights and ridge, on the same splits.

    Attributes
    ----------
    methods : tuple of str
        ``exact``: certified weights at every alpha, with the ridge at every alpha; ``alternating``: Algorithm 1
        with its residual rule, on regressions, where it is better than the exact solution.
    """

    known: ClassVar[tuple[str, ...]] = METHODS

    datasets: tuple[str, ...] = PAPER
    ratios: tuple[float, ...] = (0.7,)
    splits: int = 10
    methods: tuple[str, ...] = METHODS


def exact_path(p: Problem, rows: Rows, alphas: Array, tol: float) -> Path:
    """Certified weights along the path of the training rows."""
    target = p.y[rows] - p.intercept(rows)
    return rls2_path(p.gram.restrict(rows), target, alphas, scale=p.scale, tol=tol)


def surface(p: Problem, path: Path, train: Rows, test: Rows) -> Array:
    """Decision values with the weights of every alpha and the ridge at every alpha, (a, a, n_test)."""
    b = p.intercept(train)
    reduced, _ = make_problem(p.gram.restrict(train), p.y[train] - b, None, p.scale)
    out = np.empty((len(path), len(path), len(test)))
    for k, weights in enumerate(path.weights):
        C = ridge_path(reduced, weights, path.alphas)[0][:, 0]
        K = p.gram.combine(weights * p.scale)[np.ix_(test, train)]
        out[k] = C @ K.T + b
    return out


def losses(p: Problem, f: Array, rows: Rows) -> tuple[Array, Array]:
    """Mean error of the data set's own kind (squared error, or share of wrong signs), and mean squared error."""
    squares = np.square(f - p.y[rows]).mean(axis=-1)
    return (squares if p.regression else 1.0 - p.score(f, rows) / 100.0), squares


def chosen(loss: Array, allowed: NDArray[np.bool_]) -> tuple[int, int]:
    """Position of the smallest loss; among equals the largest alpha of the weights, then of the ridge."""
    found = np.unravel_index(int(np.argmin(np.where(allowed, loss, np.inf))), loss.shape)
    return int(found[0]), int(found[1])


def run_exact(p: Problem, train: Rows, test: Rows, split: int, o: RelaxOptions) -> Result:
    """Scores of all pairs of alphas, and of those that inner folds choose."""
    path = exact_path(p, train, o.alphas, o.tol)
    score = p.score(surface(p, path, train, test), test)
    inner = np.zeros((2, o.n_alphas, o.n_alphas))
    for fit, held in inner_folds(p.y[train], o.folds, split, o.seed, p.regression):
        own = exact_path(p, train[fit], o.alphas, INNER_TOL)
        inner += np.array(losses(p, surface(p, own, train[fit], train[held]), train[held])) * len(held)
    out: Result = {"surface": _short(score), "gap": float(path.rel_gap.max())}
    square, diagonal = np.ones_like(score, dtype=bool), np.eye(len(score), dtype=bool)
    for kind, loss in zip(("", ", squares"), inner, strict=True):
        for name, allowed in (("one", diagonal), ("two", square)):
            where = chosen(loss, allowed)
            out[name + kind] = float(score[where])
            out[f"at {name}{kind}"] = list(where)
            out[f"kernels {name}{kind}"] = int(path.n_active[where[0]])
    return out


def run_alternating(p: Problem, train: Rows, test: Rows, split: int, o: RelaxOptions) -> Result:
    """Algorithm 1 along the path, its alpha by inner folds, and the exact solution nearest to its last one.

    Its function at the smallest alpha is compared with exact weights of every alpha, all with the ridge of the
    smallest: ``nearest`` is the alpha whose function is nearest on test rows, ``distance`` the remaining
    share of the distance to the exact solution.
    """

    def solve(rows: Rows) -> Path:
        target = p.y[rows] - p.intercept(rows)
        return rls2_path(p.gram.restrict(rows), target, o.alphas, scale=p.scale, solver="alternating")

    path = solve(train)
    score = p.score(decision_values(p, path, train, test), test)
    inner = np.zeros(o.n_alphas)
    for fit, held in inner_folds(p.y[train], o.folds, split, o.seed, p.regression):
        f = decision_values(p, solve(train[fit]), train[fit], train[held])
        inner += losses(p, f, train[held])[0] * len(held)
    where = int(np.argmin(inner))
    b = p.intercept(train)
    reduced, _ = make_problem(p.gram.restrict(train), p.y[train] - b, None, p.scale)
    last = decision_values(p, path, train, test)[-1]
    exact = exact_path(p, train, o.alphas, o.tol)
    others = np.array(
        [
            ridge_path(reduced, weights, path.alphas[-1:])[0][0, 0] @ own.T + b
            for weights in exact.weights
            for own in [p.gram.combine(weights * p.scale)[np.ix_(test, train)]]
        ]
    )
    apart = np.sqrt(np.square(others - last).mean(axis=1))
    nearest = int(np.argmin(apart))
    return {
        "path": _short(score),
        "alternating": float(score[where]),
        "at": where,
        "kernels": int(path.n_active[where]),
        "rounds": path.n_iter.tolist(),
        "nearest": nearest,
        "distance": float(apart[nearest] / apart[-1]) if apart[-1] > 0 else 0.0,
        "nearest score": float(p.score(others[nearest], test)),
    }


def _short(values: Array) -> Any:
    return [float(f"{v:.6g}") for v in values] if values.ndim == 1 else [_short(row) for row in values]


#: See `Experiment.costs`.
COSTS = {"exact": 3.0, "alternating": 3.0}


class Relax(Experiment):
    """Two regularisation parameters instead of one."""

    name = "rls2-relax"
    title = "RLS2 with the weights of one alpha and the ridge of another"
    defaults = RelaxOptions()
    quick = RelaxOptions(datasets=("servo", "heart"), splits=2, n_alphas=12, folds=3)
    costs = COSTS
    published = ("results", "tests", "surface")

    def cells(self, options: RelaxOptions) -> list[Cell]:
        """Data sets outermost, so that their kernels are computed once."""
        return [
            {"dataset": name, "method": method, "ratio": ratio, "split": split}
            for name in options.datasets
            for method in options.methods
            if method == "exact" or datasets.info(name).task == "regression"
            for ratio in options.ratios
            for split in range(options.splits)
        ]

    def run(self, cell: Cell, options: RelaxOptions) -> Result:
        """One method on one split."""
        p = problem(str(cell["dataset"]))
        split = int(cell["split"])
        train, test = split_rows(len(p.y), float(cell["ratio"]), split, options.seed)
        run = run_exact if cell["method"] == "exact" else run_alternating
        started = time.process_time()
        result = run(p, train, test, split, options)
        return result | {"metric": p.metric, "seconds": time.process_time() - started}

    def tables(self, rows: list[tuple[Cell, Result]], options: RelaxOptions) -> dict[str, DataFrame]:
        """``results``: one row for each set and ratio; ``tests``: over sets; ``surface``: mean scores of all pairs."""
        import pandas as pd

        frame = frame_of(rows, *COLUMNS)
        results, surfaces = [], []
        for name, part in frame[frame["ratio"] == options.ratios[0]].groupby("dataset", sort=False):
            exact, other = (
                part[part["method"] == method].set_index("split").sort_index() for method in METHODS
            )
            if not len(exact):
                continue
            mean = np.mean(list(exact["surface"]), axis=0)
            results.append(
                {"dataset": name} | _row(exact, other[other.index.isin(exact.index)], mean, options)
            )
            surfaces += [
                {"dataset": name, "alpha": float(f"{alpha:.6g}"), "score": " ".join(f"{v:.4g}" for v in line)}
                for alpha, line in zip(options.alphas, mean, strict=True)
            ]
        found = pd.DataFrame(results)
        return {"results": found, "tests": _tests(found), "surface": pd.DataFrame(surfaces)}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Effect of the second alpha, set by set, and the mean test score over both."""
        if len(tables["results"]):
            yield "changes", _changes(tables["results"])
            yield "surface", _surfaces(tables["surface"], tables["results"])


# ---- tables and pictures ----------------------------------------------------------------------------

CHOICES = ("one", "two", "one, squares", "two, squares")
COLUMNS = (
    "dataset", "method", "ratio", "split", "metric", "seconds", *CHOICES, "surface", "at two", "kernels one",
    "kernels two", "gap", "alternating", "path", "nearest", "distance", "nearest score",
)  # fmt: skip


def _row(exact: DataFrame, other: DataFrame, mean: Array, options: RelaxOptions) -> dict[str, Any]:
    """One data set: means over splits of every choice, and summaries of both alphas."""
    metric = exact["metric"].iloc[0]
    sign = -1.0 if metric == "rmse" else 1.0
    logs = np.log10(options.alphas)
    out: dict[str, Any] = {"metric": metric, "splits": len(exact)}
    for key in CHOICES:
        out |= {key: exact[key].mean(), f"{key} std": exact[key].std()}
    out |= {"one, test": sign * (sign * mean.diagonal()).max(), "two, test": sign * (sign * mean).max()}
    gain = sign * (exact["two"] - exact["one"])
    at = np.stack(list(exact["at two"]))
    out |= {
        "better": int((gain > 0).sum()),
        "worse": int((gain < 0).sum()),
        "alpha": 10 ** float(np.median(logs[at[:, 0]])),
        "relax": 10 ** float(np.median(logs[at[:, 1]])),
        "weaker": int((at[:, 1] > at[:, 0]).sum()),
        "kernels one": exact["kernels one"].mean(),
        "kernels two": exact["kernels two"].mean(),
        "gap": exact["gap"].max(),
        "seconds": exact["seconds"].mean(),
        "alternating": other["alternating"].mean(),
        "alternating std": other["alternating"].std(),
        "alternating splits": len(other),
        "nearest": 10 ** float(np.median(logs[other["nearest"].astype(int)])) if len(other) else np.nan,
        "distance": other["distance"].mean(),
        "alternating end": other["path"].str[-1].mean() if len(other) else np.nan,
        "nearest end": other["nearest score"].mean(),
        "one end": exact.loc[other.index, "surface"].map(lambda rows: rows[-1][-1]).mean(),
    }
    return out


def errors(results: DataFrame, key: str) -> Array:
    """RMSE, or percent of wrong classes."""
    return np.where(results["metric"] == "rmse", results[key], 100.0 - results[key])


def _tests(results: DataFrame) -> DataFrame:
    """Relative changes of the error in percent over all sets, regressions and classifications, with Wilcoxon's test."""
    import pandas as pd

    out = []
    kinds = {"all": ("rmse", "accuracy"), "regression": ("rmse",), "classification": ("accuracy",)}
    for left, right in PAIRS:
        for kind, metrics in kinds.items():
            part = results[results["metric"].isin(metrics)] if len(results) else results
            if not len(part) or part[[left, right]].isna().any().any():
                continue
            change = 100.0 * (errors(part, left) / errors(part, right) - 1.0)
            out.append(
                {
                    "left": left,
                    "right": right,
                    "sets": kind,
                    "n": len(change),
                    "change": float(change.mean()),
                    "median": float(np.median(change)),
                    "better": int((change < 0).sum()),
                    "worse": int((change > 0).sum()),
                    "p": signed_rank(change),
                }
            )
    header = ["left", "right", "sets", "n", "change", "median", "better", "worse", "p"]
    return pd.DataFrame(out, columns=header)


def _changes(results: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    ax = figure.subplots()
    place = np.arange(len(results))
    shown = (("two", "one", "o"), ("two, squares", "one, squares", "s"), ("alternating", "one", "x"))
    for k, (left, right, marker) in enumerate(shown):
        if results[left].notna().any():
            change = 100.0 * (errors(results, left) / errors(results, right) - 1.0)
            ax.plot(change, place + 0.18 * (k - 1), marker, ms=5, label=f"{LABELS[left]} / {LABELS[right]}")
    ax.axvline(0.0, color="0.6", lw=1)
    ax.set_yticks(place, results["dataset"])
    ax.invert_yaxis()
    ax.set_xlabel("change of the test error in %")
    ax.legend(fontsize=7)
    return figure


def _surfaces(surface: DataFrame, results: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    names = list(results["dataset"])
    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    axes = figure.subplots(2, (len(names) + 1) // 2, sharex=True, sharey=True, squeeze=False).ravel()
    for ax in axes[len(names) :]:
        ax.axis("off")
    for ax, (_, row) in zip(axes, results.iterrows(), strict=False):
        part = surface[surface["dataset"] == row["dataset"]]
        alphas = part["alpha"].to_numpy()
        values = np.array([np.array(text.split(), dtype=float) for text in part["score"]])
        error = values if row["metric"] == "rmse" else 100.0 - values
        best = error.min()
        ax.contourf(
            alphas, alphas, np.minimum(error / best, 1.5), levels=np.linspace(1.0, 1.5, 11), cmap="viridis_r"
        )
        ax.plot(alphas, alphas, color="white", lw=0.8)
        ax.plot(row["relax"], row["alpha"], "o", color="red", ms=4)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(row["dataset"], fontsize=8)
        ax.tick_params(labelsize=6)
    figure.supxlabel("alpha of the ridge", fontsize=8)
    figure.supylabel("alpha of the weights", fontsize=8)
    return figure
