"""Sparse MKL with a limit on the number of kernels, SimpleMKL and tuned machines, on UCI sets of its paper."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave import datasets, learners
from kernelweave.gram import Gram, as_gram
from kernelweave.kernels import RBF, Laplacian, Linear, Polynomial
from kernelweave.learners.solving import MarginLearner
from kernelweave_papers.base import DATA_SET, Cell, Choices, Experiment, Options, Result, frame_of
from kernelweave_papers.baselines import tuned_rbf
from kernelweave_papers.margin_values import accuracy, choose, decision_values, make_folds

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: The kernels of the paper's program without its two sigmoid kernels, which are not positive semidefinite.
KERNELS = (
    Linear(), Polynomial(2, coef0=1.0), Polynomial(3, coef0=1.0), Polynomial(5, coef0=1.0),
    RBF(0.5), RBF(0.3), RBF(0.1), Laplacian(0.3),
)  # fmt: skip
#: Test accuracy (%), kernels with a weight that the authors' program stored for its single split, from random starts:
#: ``results/final_results_cold_SMKL.csv`` of the repository iglesiascaio/SparseMKL. Its "heart" is the Cleveland set.
STORED = {
    "iris": (100.00, 1), "wine": (100.00, 2), "wdbc": (98.25, 2), "ionosphere": (92.96, 1), "heart": (93.44, 4),
    "haberman": (67.74, 1),
}  # fmt: skip
CS, KS, RIDGES = (5.0, 10.0, 50.0, 100.0), (1, 2, 3, 4, 5), (0.01, 1.0, 100.0)
#: Tolerance and number of nodes in inner folds; reported machines are solved to `TOL`.
INNER_TOL, INNER_NODES, TOL, NODES = 1e-3, 100, 1e-6, 1000
METHODS = {
    "cardinality": "at most k kernels",
    "simple": "SimpleMKL",
    "uniform": "average kernel",
    "rbf": "one Gaussian",
}
PROTOCOLS = ("literal", "fair")


@dataclass(frozen=True)
class CardinalityOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
    methods : tuple of str
    protocols : tuple of str
        ``literal``: kernels as they are, as in the paper's program; ``fair``: with a mean diagonal of 1 on the training
        rows.
    folds : int
        Inner folds that choose C, k and ridge; the paper has ten.
    splits : int
        Random splits, 80 % for training; the paper has one.
    """

    datasets: tuple[str, ...] = tuple(STORED)
    methods: tuple[str, ...] = tuple(METHODS)
    protocols: tuple[str, ...] = PROTOCOLS
    folds: int = 3
    splits: int = 5

    def choices(self) -> Choices:
        """Data sets, methods and protocols."""
        return {
            "datasets": (tuple(STORED), DATA_SET), "methods": (METHODS, "method"), "protocols": (PROTOCOLS, "protocol"),
        }  # fmt: skip


@lru_cache(maxsize=1)
def table(name: str) -> tuple[Array, Array]:
    """Columns and labels as in the paper; of iris only the two columns of the sepal."""
    if name in ("iris", "wine"):
        from sklearn.datasets import load_iris, load_wine

        data = load_iris() if name == "iris" else load_wine()
        X = data.data[:, :2] if name == "iris" else data.data
        return X, np.where(data.target == 0, 1.0, -1.0)
    known = "rkl" in datasets.info(name).papers
    found = datasets.load(name, protocol="rkl" if known else None)
    return np.asarray(found.X, dtype=np.float64), found.signs


def split_rows(y: Array, split: int, seed: int) -> tuple[Rows, Rows]:
    """A random 80 % for training, and the rest, as the paper's program splits."""
    order = np.random.default_rng([seed, split]).permutation(len(y))
    return order[: int(0.8 * len(y))], order[int(0.8 * len(y)) :]


def standardised(X: Array, train: Rows) -> Array:
    """Standardised by the training rows; columns that are constant there are zero."""
    spread = X[train].std(axis=0, ddof=1)
    return (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, np.inf)


def candidates(method: str, tol: float, nodes: int) -> list[tuple[dict[str, Any], MarginLearner]]:
    """Learners that differ in other parameters than C, few kernels first."""
    if method == "simple":
        return [({}, learners.SimpleMKL(tol=tol))]
    if method == "uniform":
        return [({}, learners.Uniform(tol=tol))]
    return [
        ({"k": k, "ridge": ridge}, learners.CardinalityMKL(k=k, ridge=ridge, tol=tol, max_iter=nodes))
        for k, ridge in product(KS, RIDGES)
    ]


#: See `Experiment.costs`.
COSTS = {
    "literal/cardinality": 3.0, "fair/cardinality": 3.0, "literal/simple": 0.5, "fair/simple": 0.5,
    "literal/uniform": 0.2, "fair/uniform": 0.2, "rbf": 1.0,
}  # fmt: skip


class Cardinality(Experiment):
    """At most k kernels."""

    name = "cardinality"
    title = "Sparse MKL with a limit on the number of kernels"
    defaults = CardinalityOptions()
    quick = CardinalityOptions(datasets=("iris", "heart"), splits=1, folds=2)
    costs = COSTS
    published = ("results",)

    def cells(self, options: CardinalityOptions) -> list[Cell]:
        """Data sets outermost; one Gaussian has one scale."""
        return [
            {"dataset": name, "method": method, "protocol": protocol, "split": split}
            for name in options.datasets
            for split in range(options.splits)
            for method in options.methods
            for protocol in (options.protocols if method != "rbf" else ("",))
        ]

    def prepare(self, options: CardinalityOptions) -> list[str]:
        """Read the data sets."""
        return [f"{name}: {len(table(name)[1])} rows" for name in options.datasets]

    def run(self, cell: Cell, options: CardinalityOptions) -> Result:
        """Settings by inner folds, then the fit and its errors on the other rows."""
        X, y = table(str(cell["dataset"]))
        train, test = split_rows(y, int(cell["split"]), options.seed)
        X = standardised(X, train)
        folds = make_folds(y[train], options.folds, options.seed)
        method, protocol = str(cell["method"]), str(cell["protocol"])
        started = time.process_time()
        if method == "rbf":
            f, chosen = tuned_rbf(X[train], y[train], X[test], folds, options.seed, False)
            return {
                "accuracy": accuracy(f, y[test]), **chosen, "kernels": 1,
                "gap": 0.0, "nodes": 0, "status": "CONVERGED", "seconds": 0.0,
                "all seconds": time.process_time() - started,
            }  # fmt: skip
        gram = as_gram(np.stack([kernel(X) for kernel in KERNELS], axis=-1))

        def scale(own: Gram) -> Array:
            return np.ones(own.n_kernels) if protocol == "literal" else own.n_samples / own.trace()

        tried = [learner for _, learner in candidates(method, INNER_TOL, INNER_NODES)]
        which, at = choose(tried, gram, y, train, folds, CS, scale)
        fitted = time.process_time()
        settings, learner = candidates(method, TOL, NODES)[which]
        out, solutions = decision_values(learner, gram, y, train, test, CS[at : at + 1], scale)
        found = solutions[0]
        return {
            "accuracy": accuracy(out[0], y[test]),
            "C": CS[at],
            **settings,
            "kernels": int(np.count_nonzero(found.weights > 1e-6)),
            "gap": float(found.rel_gap),
            "nodes": int(found.n_iter) if method == "cardinality" else 0,
            "status": found.status.name,
            "seconds": time.process_time() - fitted,
            "all seconds": time.process_time() - started,
        }

    def tables(self, rows: list[tuple[Cell, Result]], options: CardinalityOptions) -> dict[str, DataFrame]:
        """``results``: means over splits; ``cells``: every split with what was chosen."""
        cells = frame_of(rows)
        if not len(cells):
            return {"results": cells, "cells": cells}
        results = (
            cells.groupby(["dataset", "method", "protocol"], sort=False)
            .agg(
                accuracy=("accuracy", "mean"),
                spread=("accuracy", "std"),
                kernels=("kernels", "mean"),
                gap=("gap", lambda values: float(f"{values.max():.1e}")),
                nodes=("nodes", "max"),
                unproven=("status", lambda values: int((values != "CONVERGED").sum())),
                seconds=("seconds", "mean"),
                splits=("accuracy", "size"),
            )
            .round({"accuracy": 2, "spread": 2, "kernels": 1, "seconds": 2})
        )
        return {"results": results.reset_index(), "cells": cells}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Accuracy against the number of kernels."""
        results = tables["results"]
        if not len(results):
            return
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        ax = figure.subplots()
        for k, ((method, protocol), part) in enumerate(results.groupby(["method", "protocol"], sort=False)):
            label = METHODS[str(method)] + (f", {protocol}" if protocol else "")
            ax.plot(part["kernels"], part["accuracy"], "osD^v<>"[k % 7], color=f"C{k}", label=label)
        ax.set_xlabel("kernels with a weight")
        ax.set_ylabel("test accuracy in %")
        ax.legend(fontsize=7)
        yield "kernels", figure
