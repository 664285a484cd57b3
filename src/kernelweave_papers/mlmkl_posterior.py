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
from kernelweave_papers.ranks import signed_rank

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
#: Halves of the printed means.
PRINTED_HALVES = 10
#: Criteria that are compared with each other.
PAIRS = tuple(
    (LABELS[left], LABELS[right])
    for left, right in (
        ("mlmkl-platt", "mlmkl"),
        ("mlmkl-logistic", "mlmkl"),
        ("mlmkl-platt", "mlmkl-logistic"),
        ("mlmkl", "mlmkl-equal"),
        ("mlmkl-platt", "mlmkl-equal"),
        ("mlmkl-logistic", "mlmkl-equal"),
    )
)


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
    published = ("readings", "results", "tests")
    shown = ()

    def cells(self, options: MLMKLOptions) -> list[Cell]:
        """Halves outermost, so that a run that is stopped has the same halves of all data sets."""
        every = super().cells(options)
        return sorted(every, key=lambda cell: int(cell["split"]))

    def tables(self, rows: list[tuple[Cell, Result]], options: MLMKLOptions) -> dict[str, DataFrame]:
        """Tables.

        ``results`` compares each mean accuracy with the printed cell, in printed standard deviations. ``readings``
        averages over data sets, for every number of layers and all of them together; ``std`` is over halves, and
        ``apart`` counts cells further from the printed one than two standard errors of the difference. ``tests``
        compares two criteria on the same halves.
        """
        import pandas as pd

        frame = frame_of(rows)
        if not len(frame):
            return {"readings": frame, "results": frame, "tests": frame}
        every = picked(frame, options)
        every = every[every["method"].isin(METHODS) & every["selection"].isin(list(SELECTIONS))]
        families = every["method"].map(parts)
        every = every.replace({"selection": SELECTIONS}).assign(
            criterion=[LABELS[family] for family, _ in families], layers=[n for _, n in families]
        )
        results = (
            every.groupby(["selection", "dataset", "criterion", "layers"], sort=False)["accuracy"]
            .agg(accuracy="mean", std="std", halves="size")
            .reset_index()
        )
        printed = [
            PRINTED[name][f"mlmkl-{n}"] for name, n in zip(results["dataset"], results["layers"], strict=True)
        ]
        results[["printed", "printed_std"]] = printed
        results["distance"] = (results["accuracy"] - results["printed"]) / results["printed_std"]
        tests, results = _tests(every, results), results.round(3)
        key = ["selection", "criterion", "layers"]
        both, halves = (
            pd.concat([part.astype({"layers": str}), part.assign(layers="all")], ignore_index=True)
            for part in (results, every)
        )
        spread = halves.groupby([*key, "split"])["accuracy"].mean().groupby(key).std()
        error = np.sqrt(both["std"] ** 2 / both["halves"] + both["printed_std"] ** 2 / PRINTED_HALVES)
        readings = (
            both.assign(
                difference=both["accuracy"] - both["printed"],
                size=both["distance"].abs(),
                within=both["distance"].abs() <= 1.0,
                apart=(both["accuracy"] - both["printed"]).abs() > 2.0 * error,
            )
            .groupby(key, sort=False)
            .agg(
                accuracy=("accuracy", "mean"),
                printed=("printed", "mean"),
                difference=("difference", "mean"),
                distance=("size", "mean"),
                within=("within", "sum"),
                apart=("apart", "sum"),
                cells=("within", "size"),
                halves=("halves", "min"),
            )
            .join(spread.rename("std"))
            .reset_index()
            .round(3)
        )
        return {"readings": readings, "results": results, "tests": tests}

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


def _tests(every: DataFrame, results: DataFrame) -> DataFrame:
    """Differences of accuracy over cells, with Wilcoxon's test over cells and over data sets, and which is nearer.

    The p-value over data sets is of means over layers: cells of one data set are not independent.
    """
    import pandas as pd

    out = []
    for selection, part in results.groupby("selection", sort=False):
        by = part.pivot_table(
            index=["dataset", "layers"], columns="criterion", values=["accuracy", "distance"]
        )
        own = every[every["selection"] == selection]
        halves = own.pivot_table(index="split", columns="criterion", values="accuracy")
        for left, right in PAIRS:
            if left not in halves or right not in halves:
                continue
            # equal means of other halves may differ by rounding
            change = (by["accuracy", left] - by["accuracy", right]).dropna().round(9)
            near = (by["distance", left].abs() - by["distance", right].abs()).dropna().round(9)
            out.append(
                {
                    "selection": selection, "left": left, "right": right, "cells": len(change),
                    "difference": change.mean(), "std": (halves[left] - halves[right]).std(),
                    "better": int((change > 0).sum()), "worse": int((change < 0).sum()),
                    "p_cells": signed_rank(change), "p_sets": signed_rank(change.groupby("dataset").mean()),
                    "nearer": int((near < 0).sum()), "farther": int((near > 0).sum()),
                    "p_nearer": signed_rank(near.groupby("dataset").mean()),
                }
            )  # fmt: skip
    return pd.DataFrame(out).round(6)
