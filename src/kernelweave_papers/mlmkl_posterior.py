"""Equation (15) of the MLMKL paper with decision values or with probabilities, beside the printed tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelweave_papers.base import DATA_SET, Cell, Choices, Result, frame_of
from kernelweave_papers.mlmkl import MLMKLTables
from kernelweave_papers.mlmkl_grid import TRAINING, MLMKLOptions, parts
from kernelweave_papers.mlmkl_tables import PRINTED, picked

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

#: Criteria of MLMKL at C = 10. The first three descend on the training rows by fixed steps from a grid.
LABELS = {
    "mlmkl": "decision value",
    "mlmkl-platt": "Platt's probability",
    "mlmkl-logistic": "logistic probability",
    "mlmkl-default": "out-of-fold (default)",
    "mlmkl-equal": "equal weights",
}
LAYERS = (1, 2, 3)
METHODS = tuple(f"{reading}-{n}" for reading in LABELS for n in LAYERS)
#: Choice of the step size.
SELECTIONS = {"literal": "held-out rows", "literal, optimistic": "test accuracy"}


_SECONDS = {
    "mlmkl": 1.0,
    "mlmkl-platt": 1.0,
    "mlmkl-logistic": 0.6,
    "mlmkl-default": 0.4,
    "mlmkl-equal": 0.02,
}
#: See `Experiment.costs`.
COSTS = {f"literal/{reading}-{n}": seconds for reading, seconds in _SECONDS.items() for n in LAYERS}


@dataclass(frozen=True)
class PosteriorOptions(MLMKLOptions):
    """Settings: those of `MLMKLOptions` in the literal protocol.

    Attributes
    ----------
    methods : tuple of str
        Criterion and number of layers, such as ``mlmkl-platt-2``.
    """

    datasets: tuple[str, ...] = tuple(TRAINING)
    methods: tuple[str, ...] = METHODS
    protocols: tuple[str, ...] = ("literal",)

    def choices(self) -> Choices:
        """Data sets, methods, and the one protocol."""
        return {
            "datasets": (tuple(TRAINING), DATA_SET),
            "methods": (METHODS, "method"),
            "protocols": (("literal",), "protocol"),
        }


class Posterior(MLMKLTables):
    """Readings of (15), which the paper does not settle."""

    name = "mlmkl-posterior"
    title = "MLMKL with decision values or probabilities in its criterion, beside the printed tables"
    defaults = PosteriorOptions()
    quick = PosteriorOptions(datasets=("postoperative", "sonar"), splits=1, etas=(1.0, 0.01), steps=10)
    costs = COSTS
    published = ("readings", "results")
    shown = ()

    def cells(self, options: MLMKLOptions) -> list[Cell]:
        """Halves outermost, so that a run that is stopped has the same halves of all data sets."""
        every = super().cells(options)
        return sorted(every, key=lambda cell: int(cell["split"]))

    def tables(self, rows: list[tuple[Cell, Result]], options: MLMKLOptions) -> dict[str, DataFrame]:
        """Tables.

        ``results`` compares each mean accuracy with the printed cell, in printed standard deviations; ``readings``
        averages over data sets, for every number of layers and all of them together.
        """
        frame = frame_of(rows)
        if not len(frame):
            return {"readings": frame, "results": frame}
        every = picked(frame, options)
        every = every[every["method"].isin(METHODS) & every["selection"].isin(list(SELECTIONS))]
        results = (
            every.groupby(["selection", "dataset", "method"], sort=False)["accuracy"]
            .agg(accuracy="mean", std="std", halves="size")
            .reset_index()
            .replace({"selection": SELECTIONS})
        )
        families = results["method"].map(parts)
        results.insert(2, "criterion", [LABELS[family] for family, _ in families])
        results.insert(3, "layers", [n for _, n in families])
        printed = [
            PRINTED[name][f"mlmkl-{n}"] for name, n in zip(results["dataset"], results["layers"], strict=True)
        ]
        results[["printed", "printed_std"]] = printed
        results["distance"] = (results["accuracy"] - results["printed"]) / results["printed_std"]
        results = results.drop(columns="method").round(3)
        whole = results.assign(layers="all")
        import pandas as pd

        both = pd.concat([results.astype({"layers": str}), whole], ignore_index=True)
        readings = (
            both.assign(
                difference=both["accuracy"] - both["printed"],
                size=both["distance"].abs(),
                within=both["distance"].abs() <= 1.0,
            )
            .groupby(["selection", "criterion", "layers"], sort=False)
            .agg(
                accuracy=("accuracy", "mean"),
                printed=("printed", "mean"),
                difference=("difference", "mean"),
                distance=("size", "mean"),
                within=("within", "sum"),
                cells=("within", "size"),
                halves=("halves", "min"),
            )
            .reset_index()
            .round(3)
        )
        return {"readings": readings, "results": results}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Distances from the printed cells, one column of points for each criterion."""
        results = tables["results"]
        if not len(results):
            return
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        ax = figure.subplots()
        labels = list(dict.fromkeys(results["criterion"]))
        for k, (selection, part) in enumerate(results.groupby("selection", sort=False)):
            for n, own in part.groupby("layers"):
                x = [labels.index(c) for c in own["criterion"]]
                label = f"{n} layers, step by {selection}" if n > 1 else f"1 layer, step by {selection}"
                at = np.array(x) + 0.12 * (n - 2) + 0.04 * (2 * k - 1)
                ax.plot(at, own["distance"], "os^"[n - 1], ms=4, color=f"C{n - 1}", label=label,
                        mfc=f"C{n - 1}" if k == 0 else "white")  # fmt: skip
        ax.axhspan(-1.0, 1.0, color="0.9", lw=0)
        ax.set_xticks(range(len(labels)), [label.replace(" ", "\n", 1) for label in labels])
        ax.set_ylabel("difference from the printed cell,\nin printed standard deviations")
        ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
        yield "distances", figure
