"""Table 1 of the RKL paper: eleven data sets, five folds, twenty kernels, in the literal protocol and in a fair one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelweave import banks, datasets, learners
from kernelweave.fitting.source import TableSource
from kernelweave.gram import Gram
from kernelweave.learners.solving import MarginLearner
from kernelweave.views import as_table
from kernelweave_papers import baselines
from kernelweave_papers.base import Cell, Choices, Experiment, Options, Result, frame_of
from kernelweave_papers.margin_values import accuracy, choose, decision_values, make_folds
from kernelweave_papers.printed import RKL_ACCURACY, RKL_KERNELS
from kernelweave_papers.ranks import signed_rank

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]

#: C of the literal protocol, for kernels of trace 1; of the fair one, for kernels of mean diagonal 1.
GRIDS = {"literal": (0.01, 0.1, 1.0, 10.0, 100.0), "fair": (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)}
#: A kernel counts as used above this share of the sum of the weights; the paper does not give its threshold.
USED = 1e-4
INNER = 3

#: Columns of the table. RKL has one fit for three columns: the norm only names a multiple of the same kernel.
LEARNERS: dict[str, Callable[[], MarginLearner]] = {
    "uniform": lambda: learners.Uniform(tol=1e-6),
    "mkl-l1": lambda: learners.SimpleMKL(tol=1e-4),
    "klc-l1": lambda: learners.ChapelleRadius(tol=1e-3, max_iter=60),
    "rkl": lambda: learners.RKL(tol=1e-4, max_iter=100),
    "mkl-l2": lambda: learners.LpMKL(p=2.0, tol=1e-4),
    "klc-l2": lambda: learners.ChapelleRadius(norm=2, tol=1e-3, max_iter=60),
    "uniform-sum": lambda: learners.Uniform(tol=1e-6),
    "eq10-l1": lambda: learners.ChapelleRadius(variant="eq10", tol=1e-3, max_iter=60),
    "eq10-l2": lambda: learners.ChapelleRadius(variant="eq10", norm=2, tol=1e-3, max_iter=60),
}
LABELS = {
    "uniform": "Unif",
    "mkl-l1": "MKL L1",
    "klc-l1": "KL-C L1",
    "rkl": "RKL (any norm)",
    "mkl-l2": "MKL L2",
    "klc-l2": "KL-C L2",
    "uniform-sum": "Unif, theta = 1",
    "eq10-l1": "KL-C L1, eq. (10)",
    "eq10-l2": "KL-C L2, eq. (10)",
    "rbf": "tuned RBF",
}
#: Second readings of columns that the paper has once: the sum of the kernels instead of their mean, and the radius
#: of K instead of K + I / C.
READINGS = {"uniform-sum": "uniform", "eq10-l1": "klc-l1", "eq10-l2": "klc-l2"}
#: Factor of all kernels; on a fair scale the sum is the mean with another C.
FACTORS = {"uniform-sum": 20.0}
ONLY = {"uniform-sum": "literal", "eq10-l1": "literal", "eq10-l2": "literal"}
#: Data sets that are versions of one of the paper's.
VERSIONS = {"colon-log": "colon"}
#: Groups for means and tests: the paper's sets without colon, with its raw intensities, and with logarithms.
COLONS = ("colon", "colon-log")
WITHOUT = "without colon"
SETS = (WITHOUT, *COLONS)
#: Further columns of the paper: RKL with the L2 norm, and without one.
ALSO_PRINTED = {"rkl-l2": "RKL L2", "rkl-none": "RKL, no norm"}
#: Table 1 of the paper; accuracy, standard deviation and number of kernels.
PRINTED = {
    name: {m: (one.value, one.std, RKL_KERNELS[name][m].value) for m, one in row.items()}
    for name, row in RKL_ACCURACY.items()
}


@dataclass(frozen=True)
class RKLOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
    methods : tuple of str
    protocols : tuple of str
        ``literal``: kernels of trace 1 and C from 0.01 to 100, as printed; ``fair``: kernels of mean diagonal 1 and C
        up to 1000, so that every method sees the same scale.
    folds : int
        Stratified test folds.
    splits : int
        Repetitions of the folds with other seeds; the paper has one.
    """

    protocol = "rkl"

    datasets: tuple[str, ...] = (*PRINTED, *VERSIONS)
    methods: tuple[str, ...] = (*LEARNERS, "rbf")
    protocols: tuple[str, ...] = ("literal", "fair")
    folds: int = 5
    splits: int = 1

    def choices(self) -> Choices:
        """Data sets, methods and protocols."""
        return super().choices() | {"methods": (LABELS, "method"), "protocols": (GRIDS, "protocol")}


@lru_cache(maxsize=1)
def problem(name: str) -> tuple[Array, Array, Gram]:
    """Columns standardised over all rows, labels, and the twenty kernels. The latest is cached."""
    data = datasets.load(name, protocol="rkl")
    gram = TableSource(banks.rkl(), as_table(data.X), max_memory=float("inf")).gram()
    return data.X, data.signs, gram


def scale_of(method: str, protocol: str) -> Callable[[Gram], Array]:
    """Factors of the kernels: trace 1 on the training rows as printed, or mean diagonal 1."""
    factor = FACTORS.get(method, 1.0)
    return lambda own: factor * (1.0 if protocol == "literal" else own.n_samples) / own.trace()


def wide(results: DataFrame, protocol: str, sets: str) -> DataFrame:
    """Accuracies, data sets by methods; the tuned RBF is shown with both protocols."""
    here = results[(results["protocol"] == protocol) | (results["method"] == "rbf")]
    here = here[~here["dataset"].isin([name for name in COLONS if name != sets])]
    return here.pivot_table(index="dataset", columns="method", values="accuracy", sort=False)


def compare(results: DataFrame) -> DataFrame:
    """Mean accuracies, and RKL against every other method by Wilcoxon's signed-rank test over data sets."""
    import pandas as pd

    out = []
    for protocol in dict.fromkeys(results["protocol"]):
        for sets in SETS:
            table = wide(results, protocol, sets)
            for method in table.columns:
                both = table[["rkl", method]].dropna() if "rkl" in table else table[[method]].iloc[:0]
                d = (both["rkl"] - both[method]).to_numpy() if len(both) and method != "rkl" else np.zeros(0)
                out.append(
                    {
                        "protocol": protocol,
                        "sets": sets,
                        "method": method,
                        "n": int(table[method].notna().sum()),
                        "mean": round(float(table[method].mean()), 3),
                        "difference": round(float(d.mean()), 3) if len(d) else np.nan,
                        "better": int((d > 0).sum()),
                        "worse": int((d < 0).sum()),
                        "p": signed_rank(d),
                    }
                )
    return pd.DataFrame(out)


#: See `Experiment.costs`.
COSTS = {
    "literal/uniform": 0.7, "literal/mkl-l1": 1.5, "literal/klc-l1": 4.2, "literal/rkl": 2.1,
    "literal/mkl-l2": 1.5, "literal/klc-l2": 3.8, "literal/uniform-sum": 0.6, "literal/eq10-l1": 3.2,
    "literal/eq10-l2": 2.2, "literal/rbf": 3.1, "fair/uniform": 0.7, "fair/mkl-l1": 1.6,
    "fair/klc-l1": 15.0, "fair/rkl": 2.3, "fair/mkl-l2": 1.8, "fair/klc-l2": 15.0,
}  # fmt: skip


class RKLTable(Experiment):
    """Table 1."""

    name = "rkl"
    title = "RKL and its competitors, Table 1"
    defaults = RKLOptions()
    quick = RKLOptions(datasets=("sonar",), folds=2)
    costs = COSTS
    published = ("results", "tests")

    def cells(self, options: RKLOptions) -> list[Cell]:
        """Data sets outermost; the tuned RBF does not depend on the protocol and is computed for the first."""
        return [
            {"dataset": name, "protocol": protocol, "method": method, "split": split, "fold": fold}
            for name in options.datasets
            for protocol in options.protocols
            for method in options.methods
            if method != "rbf" or protocol == options.protocols[0]
            if ONLY.get(method, protocol) == protocol
            for split in range(options.splits)
            for fold in range(options.folds)
        ]

    def run(self, cell: Cell, options: RKLOptions) -> Result:
        """One method on one fold."""
        X, y, gram = problem(str(cell["dataset"]))
        train, test = make_folds(y, options.folds, options.seed + int(cell["split"]))[int(cell["fold"])]
        protocol, method = str(cell["protocol"]), str(cell["method"])
        started = time.perf_counter()
        folds = make_folds(y[train], INNER, options.seed)
        if method == "rbf":
            f, chosen = baselines.tuned_rbf(X[train], y[train], X[test], folds, options.seed, False)
            result: Result = {"accuracy": accuracy(f, y[test]), "C": chosen["C"]}
        else:
            learner, scale, Cs = LEARNERS[method](), scale_of(method, protocol), GRIDS[protocol]
            best = choose([learner], gram, y, train, folds, Cs, scale)[1]
            values, solutions = decision_values(learner, gram, y, train, test, Cs[: best + 1], scale)
            found = solutions[best]
            result = {
                "accuracy": accuracy(values[best], y[test]),
                "C": Cs[best],
                "kernels": int((found.weights > USED * found.weights.sum()).sum()),
                "gap": float(found.rel_gap),
                "status": found.status.name,
            }
        return result | {"seconds": time.perf_counter() - started}

    def tables(self, rows: list[tuple[Cell, Result]], options: RKLOptions) -> dict[str, DataFrame]:
        """``results``: means and standard deviations (ddof 1) over folds, beside the printed values; ``tests``."""
        keys = ["dataset", "protocol", "method"]
        frame = frame_of(rows, *keys, "accuracy", "kernels", "C", "gap", "seconds")
        results = (
            frame.groupby(keys, sort=False)
            .agg(
                accuracy=("accuracy", "mean"),
                std=("accuracy", "std"),
                kernels=("kernels", "mean"),
                C=("C", lambda values: " ".join(f"{C:g}" for C in values)),
                gap=("gap", "max"),
                seconds=("seconds", "mean"),
                folds=("accuracy", "size"),
            )
            .round({"accuracy": 3, "std": 3, "seconds": 3})
            .reset_index()
        )
        printed = [
            PRINTED.get(VERSIONS.get(name, name), {}).get(READINGS.get(method, method), (np.nan,) * 3)
            for name, method in zip(results["dataset"], results["method"], strict=True)
        ]
        for at, column in enumerate(("printed", "printed_std", "printed_kernels")):
            results.insert(results.shape[1] - 1, column, [values[at] for values in printed])
        return {"results": results, "tests": compare(results)}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Accuracy of RKL against MKL L1, data set by data set, in both protocols and as printed."""
        frame = tables["results"]
        wide = frame.pivot_table(
            index=["dataset", "protocol"], columns="method", values="accuracy", sort=False
        )
        if {"rkl", "mkl-l1"} <= set(wide.columns):
            yield "rkl_against_mkl", _figure(wide)


def _figure(wide: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 4.6), layout="constrained")
    ax = figure.subplots()
    ax.plot([50, 100], [50, 100], color="0.7", lw=1)
    for marker, protocol in zip("so", ("literal", "fair"), strict=True):
        part = wide[wide.index.get_level_values("protocol") == protocol]
        ax.plot(part["mkl-l1"], part["rkl"], marker, label=f"{protocol} protocol", alpha=0.8)
    names = wide.index.get_level_values("dataset").unique()
    printed = [(PRINTED[n]["mkl-l1"][0], PRINTED[n]["rkl"][0]) for n in names if n in PRINTED]
    if "colon-log" in names:
        for protocol in ("literal", "fair"):
            if ("colon-log", protocol) in wide.index:
                row = wide.loc[("colon-log", protocol)]
                ax.annotate("colon-log", (row["mkl-l1"], row["rkl"]), fontsize=6)
    ax.plot(*zip(*printed, strict=True), "x", color="0.3", label="printed")
    ax.set_xlabel("MKL L1, accuracy in %")
    ax.set_ylabel("RKL, accuracy in %")
    ax.legend()
    return figure
