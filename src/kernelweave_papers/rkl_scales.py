"""Effect of the scale of single kernels: every kernel times 100 or 1/100 at random, and all parameters chosen again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelweave import learners
from kernelweave._errors import check_known
from kernelweave.gram import Gram
from kernelweave.learners.solving import MarginLearner
from kernelweave_papers.base import Cell, Choices, Experiment, Options, Result, frame_of
from kernelweave_papers.margin_values import accuracy, choose, decision_values, make_folds
from kernelweave_papers.rkl import GRIDS, INNER, LABELS, PRINTED, problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]

#: RKL is solved to a tolerance below the differences between draws.
METHODS: dict[str, Callable[[], MarginLearner]] = {
    "rkl": lambda: learners.RKL(tol=1e-7),
    "uniform": lambda: learners.Uniform(tol=1e-6),
    "mkl-l1": lambda: learners.SimpleMKL(tol=1e-4),
    "do": lambda: learners.DoRadius(tol=1e-4),
    "klc-l1": lambda: learners.ChapelleRadius(tol=1e-3, max_iter=60),
}
NAMES = {**{m: LABELS[m] for m in METHODS if m in LABELS}, "rkl": "RKL", "do": "Do et al."}
#: Every kernel is multiplied by one of these; the first draw keeps a mean diagonal of 1.
FACTORS = (0.01, 100.0)
#: The paper's sets, colon in the version that reproduces its numbers.
SETS = tuple("colon-log" if name == "colon" else name for name in PRINTED)


@dataclass(frozen=True)
class ScalesOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
    methods : tuple of str
    draws : int
        Draws of the factors, in addition to the unscaled kernels.
    splits : int
        Number of the five stratified test folds that are used.
    """

    protocol = "rkl"

    datasets: tuple[str, ...] = SETS
    methods: tuple[str, ...] = tuple(METHODS)
    draws: int = 5
    splits: int = 1

    def choices(self) -> Choices:
        """Data sets and methods."""
        return super().choices() | {"methods": (METHODS, "method")}

    def check(self) -> None:
        """Raise for settings that make no sense."""
        super().check()
        for split in range(self.splits):
            check_known(str(split), [str(k) for k in range(5)], "test fold")


def factors(n_kernels: int, draw: int, seed: int) -> Array:
    """Factors of the kernels: 1 for draw 0, else 1/100 or 100 with equal chances."""
    if draw == 0:
        return np.ones(n_kernels)
    return np.random.default_rng([seed, draw]).choice(FACTORS, n_kernels)


#: See `Experiment.costs`.
COSTS = {"rkl": 0.6, "uniform": 0.1, "mkl-l1": 0.3, "do": 0.9, "klc-l1": 4.7}


class Scales(Experiment):
    """Proposition 3 of the paper, measured."""

    name = "rkl-scales"
    title = "RKL and other methods with kernels on different scales"
    defaults = ScalesOptions()
    quick = ScalesOptions(datasets=("sonar", "heart"), draws=1)
    costs = COSTS
    published = ("results", "draws")

    def cells(self, options: ScalesOptions) -> list[Cell]:
        """Data sets outermost, so that their kernels are computed once."""
        return [
            {"dataset": name, "method": method, "draw": draw, "split": split}
            for name in options.datasets
            for method in options.methods
            for draw in range(options.draws + 1)
            for split in range(options.splits)
        ]

    def run(self, cell: Cell, options: ScalesOptions) -> Result:
        """One method on one draw: C by inner folds, then the fit and its decision values."""
        _, y, gram = problem(str(cell["dataset"]))
        train, test = make_folds(y, 5, options.seed)[int(cell["split"])]
        factor = factors(gram.n_kernels, int(cell["draw"]), options.seed)
        learner, Cs = METHODS[str(cell["method"])](), GRIDS["fair"]
        started = time.process_time()

        def scale(own: Gram) -> Array:
            return factor * own.n_samples / own.trace()

        folds = make_folds(y[train], INNER, options.seed)
        best = choose([learner], gram, y, train, folds, Cs, scale)[1]
        f, solutions = decision_values(learner, gram, y, train, test, Cs[: best + 1], scale)
        found = solutions[best]
        return {
            "accuracy": accuracy(f[best], y[test]),
            "C": Cs[best],
            "values": [float(f"{v:.7g}") for v in f[best]],
            "gap": float(found.rel_gap),
            "status": found.status.name,
            "seconds": time.process_time() - started,
        }

    def tables(self, rows: list[tuple[Cell, Result]], options: ScalesOptions) -> dict[str, DataFrame]:
        """``draws``: mean accuracy of every draw; ``results``: the unscaled kernels, and the range over draws."""
        import pandas as pd

        keys = ["dataset", "method"]
        every = frame_of(rows, *keys, "draw", "split", "accuracy", "C", "values", "seconds")
        draws = every.groupby([*keys, "draw"], sort=False)["accuracy"].mean().round(3).reset_index()
        out = []
        for (name, method), part in every.groupby(keys, sort=False):
            own = draws[(draws["dataset"] == name) & (draws["method"] == method)]
            scaled, as_is = own[own["draw"] > 0]["accuracy"], own[own["draw"] == 0]["accuracy"]
            # every draw beside the unscaled kernels on the same fold
            both = part.merge(part[part["draw"] == 0], on="split", suffixes=("", "_as_is"))
            out.append(
                {
                    "dataset": name,
                    "method": method,
                    "as_is": as_is.mean(),
                    "worst": scaled.min(),
                    "best": scaled.max(),
                    **_changes(both[both["draw"] > 0]),
                    "same_C": bool((both["C"] == both["C_as_is"]).all()),
                    "draws": len(scaled),
                    "folds": part.groupby("draw").size().max(),
                    "seconds": round(float(part["seconds"].mean()), 3),
                }
            )
        return {"results": pd.DataFrame(out), "draws": draws}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Accuracy with unscaled kernels, and its range over the draws, for every set and method."""
        if len(tables["results"]):
            yield "ranges", _figure(tables["results"], tables["draws"])


def _changes(both: DataFrame) -> dict[str, float]:
    """Share of test rows whose class changes with the scales, and the largest change of a decision value."""
    if not len(both):
        return {"flipped": np.nan, "change": np.nan}
    pairs = [(np.array(f), np.array(g)) for f, g in zip(both["values"], both["values_as_is"], strict=True)]
    flips = np.concatenate([(f > 0) != (g > 0) for f, g in pairs])
    change = max(float(np.abs(f - g).max() / max(np.abs(g).max(), 1e-300)) for f, g in pairs)
    return {"flipped": 100.0 * float(flips.mean()), "change": change}


def _figure(results: DataFrame, draws: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(results["dataset"]))
    methods = [m for m in METHODS if (results["method"] == m).any()]
    figure = Figure(figsize=(8.4, 3.8), layout="constrained")
    ax = figure.subplots()
    width = 0.8 / len(methods)
    for k, method in enumerate(methods):
        for j, name in enumerate(names):
            x = j + (k - (len(methods) - 1) / 2) * width
            own = draws[(draws["method"] == method) & (draws["dataset"] == name)]
            scaled = own[own["draw"] > 0]["accuracy"]
            as_is = own[own["draw"] == 0]["accuracy"]
            label = NAMES[method] if j == 0 else None
            ax.plot([x, x], [scaled.min(), scaled.max()], color=f"C{k}", lw=1.5)
            ax.plot([x] * len(scaled), scaled, "_", color=f"C{k}", ms=5)
            ax.plot([x] * len(as_is), as_is, "o", color=f"C{k}", ms=4, label=label)
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    ax.set_ylabel("test accuracy in %")
    ax.set_title("Dots: mean diagonal 1. Lines: every kernel times 100 or 1/100 at random", fontsize=9)
    ax.legend(fontsize=8, ncols=len(methods), loc="lower center")
    return figure
