"""Problem 1 of the RLS2 paper, which it does not solve: linear and nonlinear second layers on the MLMKL data sets.

Halves and protocol are those of the MLMKL tables: the parameters of each method by three inner folds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kernelweave import banks, datasets, learners
from kernelweave.inspection import adjust_p_values
from kernelweave.kernels import RBF
from kernelweave.learners.solving import MarginLearner
from kernelweave_papers.base import DATA_SET, Cell, Choices, Experiment, Options, Result, frame_of
from kernelweave_papers.mlmkl import INNER, Split, fit, halves, make_split, run_rbf, table
from kernelweave_papers.mlmkl_grid import TRAINING, MLMKLOptions, best
from kernelweave_papers.ranks import signed_rank

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

#: Methods with their labels.
LABELS = {
    "rls2": "RLS2",
    "linear": "linear second layer",
    "polynomial": "polynomial second layer",
    "gaussian": "Gaussian second layer",
    "mlmkl": "MLMKL, two layers",
    "2lmkl": "2LMKL",
    "rbf": "tuned RBF",
}
#: Kernels: the four of the MLMKL paper on all columns, and a Gaussian on each column.
BANKS = ("mlmkl", "columns")
#: Folds of the criterion of MLMKL.
FOLDS = 3
#: Pairs of methods compared over data sets.
PAIRS = tuple(
    (left, right) for left in ("gaussian", "polynomial") for right in ("rls2", "mlmkl", "2lmkl", "rbf")
)


@dataclass(frozen=True)
class SecondLayerOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
    methods : tuple of str
    banks : tuple of str
        ``mlmkl``: four kernels on all columns; ``columns``: a Gaussian on each column.
    splits : int
        Random halves.
    Cs : tuple of float
        Grid of all methods, ascending.
    radii : tuple of float
        Grid of nonlinear second layers.
    penalties : tuple of float
        Grid of 2LMKL.
    steps : int
        Of every descent with one machine a step. MLMKL, which has no second grid and three machines a step, takes as
        many as give the same number of machines.
    """

    datasets: tuple[str, ...] = tuple(TRAINING)
    methods: tuple[str, ...] = tuple(LABELS)
    banks: tuple[str, ...] = BANKS
    splits: int = 10
    Cs: tuple[float, ...] = (1.0, 10.0, 100.0)
    radii: tuple[float, ...] = (1.0, 3.0)
    penalties: tuple[float, ...] = (0.1, 1.0)
    steps: int = 24

    def choices(self) -> Choices:
        """Data sets of the MLMKL paper, methods and kernels."""
        return {
            "datasets": (tuple(TRAINING), DATA_SET),
            "methods": (LABELS, "method"),
            "banks": (BANKS, "set of kernels"),
        }


@lru_cache(maxsize=1)
def load_split(name: str, bank: str, split: int, seed: int) -> Split:
    """One split of a data set with its kernels, on the rows of the MLMKL tables."""
    X, y = table(name)
    train, test = halves(y, TRAINING[name], seed, split)
    kernels = banks.mlmkl() if bank == "mlmkl" else [RBF(gamma=0.5).on([j]) for j in range(X.shape[1])]
    return make_split(X, y, train, test, seed, kernels)


def grid_of(method: str, options: SecondLayerOptions) -> list[MarginLearner]:
    """Learners to choose from, beside C."""
    o = options
    if method == "rls2":
        return [learners.SimpleMKL(loss="squared", tol=1e-6)]
    if method == "mlmkl":
        return [learners.MLMKL(max_iter=max(1, o.steps * len(o.radii) // FOLDS), n_folds=FOLDS)]
    if method == "2lmkl":
        return [learners.TwoLayerMKL(penalty=p, max_iter=o.steps) for p in o.penalties]
    if method == "linear":
        return [learners.NonlinearRLS2(second="linear", max_iter=o.steps)]
    second = "rbf" if method == "gaussian" else method
    return [learners.NonlinearRLS2(second=second, radius=r, max_iter=o.steps) for r in o.radii]


def run_method(method: str, split: Split, options: SecondLayerOptions) -> Result:
    """C and the other parameter by inner folds, and the model with these on the half."""
    grid, Cs = grid_of(method, options), options.Cs
    each = FOLDS if method == "mlmkl" else 1
    held, machines = np.zeros((2, len(grid), len(Cs))), 0
    for k in range(INNER):
        part = split.inner(k)
        for place, learner in enumerate(grid):
            for c, C in enumerate(Cs):
                found = fit(learner, part, (C,))[0]
                held[:, place, c] += np.array(part.score(found)) * len(part.y_held) / len(split.train)
                machines += each * found.n_machines
    chosen = best(held[0].ravel(), held[1].ravel())
    place, c = divmod(chosen, len(Cs))
    outer = split.outer()
    found = fit(grid[place], outer, (Cs[c],))[0]
    trace = found.history.get("criterion", np.zeros(0)) if method != "rls2" else np.zeros(0)
    return {
        "accuracy": outer.score(found)[0],
        "C": Cs[c],
        "other": {"gaussian": options.radii, "polynomial": options.radii, "2lmkl": options.penalties}.get(
            method, (np.nan,)
        )[place],
        "machines": machines + each * found.n_machines,
        "fall": float(1.0 - trace[-1] / trace[0]) if len(trace) else np.nan,
        "kernels": int((found.weights > 1e-3 * found.weights.sum()).sum()),
    }  # fmt: skip


class SecondLayers(Experiment):
    """Linear and nonlinear second layers, and deep kernels at equal cost."""

    name = "rls2-second-layer"
    title = "RLS2 with a nonlinear second layer"
    defaults = SecondLayerOptions()
    quick = SecondLayerOptions(
        datasets=("postoperative",), splits=1, Cs=(1.0, 10.0), radii=(1.0,), penalties=(0.1,), steps=8
    )
    published = ("results", "means", "tests")
    shown = ("bank", "dataset", "method", "error", "std", "splits", "machines", "cpu")

    def prepare(self, options: SecondLayerOptions) -> list[str]:
        """Load every data set once."""
        return [repr(datasets.load(name, protocol="mlmkl", progress=True)) for name in options.datasets]

    def cells(self, options: SecondLayerOptions) -> list[Cell]:
        """Splits outermost, so that an interrupted run has all data sets; methods innermost share kernels."""
        return [
            {"split": split, "dataset": name, "bank": bank, "method": method}
            for split in range(options.splits)
            for name in options.datasets
            for bank in options.banks
            for method in options.methods
            # it has a grid of its own for the width, on all columns
            if method != "rbf" or bank == "mlmkl"
        ]

    def run(self, cell: Cell, options: SecondLayerOptions) -> Result:
        """One method on one split."""
        split = load_split(str(cell["dataset"]), str(cell["bank"]), int(cell["split"]), options.seed)
        method, cpu = str(cell["method"]), time.process_time()
        if method == "rbf":
            found = run_rbf(split, MLMKLOptions(seed=options.seed, Cs=options.Cs))
            result: Result = {"accuracy": float(np.nanmax(found["test"])), "C": found["C"]}
        else:
            result = run_method(method, split, options)
        return result | {"cpu": time.process_time() - cpu}

    def tables(self, rows: list[tuple[Cell, Result]], options: SecondLayerOptions) -> dict[str, DataFrame]:
        """Tables.

        ``results`` has a row for each set of kernels, data set and method, ``means`` their means over data sets with
        standard deviations over halves, and ``tests`` differences over data sets.
        """
        import pandas as pd

        frame = frame_of(
            rows, "dataset", "bank", "method", "split", "accuracy", "C", "other", "machines", "fall", "kernels", "cpu"
        )  # fmt: skip
        frame["error"] = 100.0 - frame["accuracy"]
        results = [
            {
                "bank": bank, "dataset": name, "method": method, "error": part["error"].mean(),
                "std": part["error"].std(), "splits": len(part), "C": part["C"].median(),
                "other": part["other"].median(), "machines": part["machines"].mean(), "fall": part["fall"].median(),
                "kernels": part["kernels"].mean(), "cpu": part["cpu"].mean(),
            }
            for (bank, name, method), part in frame.groupby(["bank", "dataset", "method"], sort=False)
        ]  # fmt: skip
        over = frame.groupby(["bank", "method", "split"], sort=False)["error"].mean()
        means = over.groupby(["bank", "method"], sort=False).agg(error="mean", std="std", splits="size")
        return {"results": pd.DataFrame(results), "means": means.reset_index(), "tests": _tests(frame)}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Differences of the test error from RLS2's."""
        if len(tables["results"]):
            yield "differences", _differences(tables["results"])


def errors(results: DataFrame, bank: str) -> DataFrame:
    """Mean test errors, a row for each data set and a column for each method; the tuned RBF beside all kernels."""
    own = results[(results["bank"] == bank) | (results["method"] == "rbf")]
    wide = own.pivot_table(index="dataset", columns="method", values="error", sort=False)
    return wide[[method for method in LABELS if method in wide]]


def _tests(frame: DataFrame) -> DataFrame:
    """Differences of the test error in points over all sets, with Wilcoxon's test; ``std`` is over halves."""
    import pandas as pd

    out = []
    for bank in BANKS if len(frame) else ():
        wide = errors(frame, bank)
        halves = [errors(part, bank).mean() for _, part in frame.groupby("split")]
        for left, right in PAIRS:
            if left not in wide or right not in wide or not (frame["bank"] == bank).any():
                continue
            # equal means of other halves may differ by rounding
            change = (wide[left] - wide[right]).dropna().round(9).to_numpy()
            out.append(
                {
                    "bank": bank, "left": left, "right": right, "n": len(change), "difference": float(change.mean()),
                    "std": pd.Series([half[left] - half[right] for half in halves]).std(),
                    "better": int((change < 0).sum()), "worse": int((change > 0).sum()), "p": signed_rank(change),
                }
            )  # fmt: skip
    columns = ["bank", "left", "right", "n", "difference", "std", "better", "worse", "p", "adjusted"]
    found = pd.DataFrame(out, columns=columns)
    known = found["p"].notna()
    if known.any():
        found.loc[known, "adjusted"] = adjust_p_values(found.loc[known, "p"])
    return found


def _differences(results: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    shown = [bank for bank in BANKS if (results["bank"] == bank).any()]
    figure = Figure(figsize=(8.0, 3.8), layout="constrained")
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for ax, bank in zip(axes, shown, strict=True):
        wide = errors(results, bank)
        place = np.arange(len(wide))
        for k, method in enumerate(("gaussian", "polynomial", "mlmkl", "2lmkl")):
            if method in wide and "rls2" in wide:
                change = wide[method] - wide["rls2"]
                ax.plot(change, place + 0.15 * (k - 1.5), "os^v"[k], ms=4, label=LABELS[method])
        ax.axvline(0.0, color="0.6", lw=1)
        ax.set_yticks(place, list(wide.index))
        ax.set_title(
            "four kernels on all columns" if bank == "mlmkl" else "a Gaussian on each column", fontsize=9
        )
        ax.set_xlabel("test error minus that of RLS2, points", fontsize=8)
    axes[0].invert_yaxis()
    axes[-1].legend(fontsize=7)
    return figure
