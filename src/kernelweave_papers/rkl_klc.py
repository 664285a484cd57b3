"""The column KL-C of Table 1 of the RKL paper: which reading of equation (10) gives the printed numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelweave.gram import Gram
from kernelweave.machines.losses import Hinge, SquaredHinge
from kernelweave.machines.machine import Machine
from kernelweave.mkl.criteria.radius import Evaluation, RadiusMargin
from kernelweave.mkl.families import WeightedSum
from kernelweave.mkl.loop import Loop
from kernelweave.mkl.radius import NORMS
from kernelweave.mkl.steps.descent import DescentSession, ProjectedGradient
from kernelweave_papers.base import Cell, Choices, Experiment, Options, Result
from kernelweave_papers.margin_values import Rows, accuracy, make_folds
from kernelweave_papers.rkl import GRIDS, INNER, PRINTED, USED, VERSIONS, problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]

#: Radius of K + I / C or of K.
RADII = {"chapelle": "kl-c", "eq10": "kl-c-eq10"}
#: Factor of C, for `n` training rows. With kernels of trace 1 it is also the inverse of a factor of all kernels, of
#: either criterion: mean diagonal 1 is a C that is n times larger.
FACTORS: dict[str, Callable[[int], float]] = {
    "C": lambda n: 1.0,
    "C, steps doubled": lambda n: 1.0,
    "2 C": lambda n: 2.0,
    "C / 2": lambda n: 0.5,
    "n C": float,
}
#: What is tried on the sets that are not searched: the nearest of the search, and its machine as it is.
NEAREST = {"radius": "chapelle", "factor": "C, steps doubled"}
ELSEWHERE = ("machine", "no intercept")
NEAREST_STEPS = 10
CS = GRIDS["literal"]
#: Steps of the descent after which it may have ended; the last is convergence: a stationarity of 1e-3.
STEPS = (0, 1, 2, 5, 10, 20, 50, 200)
#: Decision values at the learnt weights.
DECISIONS = {
    "machine": "the machine of the descent",
    "no intercept": "the same without its intercept",
    "midpoint": "the same, intercept in the middle between the support vectors of both classes",
    "unbiased": "a squared-hinge machine that has no intercept",
    "hinge": "a hinge machine on K with this C",
}
#: The sets on which all readings are tried: small, and the printed columns are unlike all others there.
SEARCHED = ("wpbc", "ionosphere")
#: The paper's sets, colon in the version that reproduces the other columns.
SETS = (*SEARCHED, *("colon-log" if name == "colon" else name for name in PRINTED if name not in SEARCHED))
COLUMNS = {1: "klc-l1", 2: "klc-l2"}
READING = ["radius", "factor", "steps", "decision", "C"]


@dataclass(frozen=True)
class KLCOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
        On those of `SEARCHED` all readings are tried, on the others only the nearest ones.
    folds : int
        Stratified test folds.
    """

    protocol = "rkl"

    datasets: tuple[str, ...] = SETS
    folds: int = 5

    def choices(self) -> Choices:
        """Data sets of the paper."""
        return super().choices()


def descend(
    gram: Gram, y: Array, C: float, kind: str, norm: int, scale: Array, doubled: bool
) -> dict[int, Evaluation]:
    """The points of the projected gradient from equal weights, after every number of `STEPS`."""
    family = WeightedSum(gram, scale)
    region, stationarity = NORMS[norm]
    criterion = RadiusMargin(family, Machine(y, C, SquaredHinge()), kind)
    session = DescentSession(criterion, family.start(), region.scaled, stationarity, 1e-3)
    found: dict[int, Evaluation] = {}
    loop: Loop[Evaluation] = Loop(STEPS[-1])
    for k, look in enumerate(ProjectedGradient(spectral=not doubled).moves(session, loop)):
        assert look is not None
        if k in STEPS:
            found[k] = look.point
        here = look.point
        if k == STEPS[-1] or look.status is not None:
            break
    # a descent that has ended stays where it is
    return {k: found.get(k, here) for k in STEPS}


def values(
    gram: Gram, y: Array, train: Rows, test: Rows, cell: Cell
) -> dict[tuple[float, int, str], tuple[Array, int]]:
    """Decision values on test rows and the number of kernels, for every C, number of steps and decision."""
    own, labels, factor = gram.restrict(train), y[train], str(cell["factor"])
    scale = 1.0 / own.trace()
    kind, norm, every = RADII[str(cell["radius"])], int(cell["norm"]), cell["dataset"] in SEARCHED
    out: dict[tuple[float, int, str], tuple[Array, int]] = {}
    for C in CS:
        cost = C * FACTORS[factor](len(train))
        points = descend(own, labels, cost, kind, norm, scale, factor.endswith("doubled"))
        for at in {id(at): at for at in points.values()}.values():
            kernels = int((at.t > USED * at.t.sum()).sum())
            for name, f in _decisions(gram, labels, train, test, at, scale, cost, every).items():
                out |= {(C, k, name): (f, kernels) for k, own in points.items() if own is at}
    return out


def _decisions(
    gram: Gram, labels: Array, train: Rows, test: Rows, at: Evaluation, scale: Array, cost: float, every: bool
) -> dict[str, Array]:
    def product(b: Array) -> Array:
        full = np.zeros(gram.n_samples)
        full[train] = b
        return gram.matvec(at.t * scale, full)

    f = product(at.dual_coef)
    found = {"machine": f[test] + at.machine.intercept, "no intercept": f[test]}
    if not every:
        return found
    K = WeightedSum(gram.restrict(train), scale).kernel(at.t).copy()
    support = np.abs(at.dual_coef) > 1e-8 * np.abs(at.dual_coef).max(initial=0.0)
    above, below = (f[train][support & (labels == sign)] for sign in (1.0, -1.0))
    middle = -0.5 * (above.min() + below.max()) if len(above) and len(below) else 0.0
    unbiased = Machine(labels, cost, SquaredHinge(), fit_intercept=False).solve(K, tol=1e-4)
    hinge = Machine(labels, cost, Hinge()).solve(K, tol=1e-4)
    return found | {
        "midpoint": f[test] + middle,
        "unbiased": product(unbiased.dual_coef)[test],
        "hinge": product(hinge.dual_coef)[test] + hinge.intercept,
    }


class KLC(Experiment):
    """A search for the protocol of one column, against its printed numbers."""

    name = "rkl-klc"
    title = "KL-C: readings of one column of Table 1 of the RKL paper"
    defaults = KLCOptions()
    quick = KLCOptions(datasets=("ionosphere", "sonar"), folds=2)
    published = ("search", "results")

    def cells(self, options: KLCOptions) -> list[Cell]:
        """Data sets outermost, so that their kernels are computed once."""
        return [
            {"dataset": name, "radius": radius, "factor": factor, "norm": norm, "fold": fold}
            for name in options.datasets
            for radius in (RADII if name in SEARCHED else (NEAREST["radius"],))
            for factor in (FACTORS if name in SEARCHED else (NEAREST["factor"],))
            for norm in COLUMNS
            for fold in range(options.folds)
        ]

    def run(self, cell: Cell, options: KLCOptions) -> Result:
        """All descents of one fold: accuracies with the C of three inner folds, and with every fixed C."""
        _, y, gram = problem(str(cell["dataset"]))
        train, test = make_folds(y, options.folds, options.seed)[int(cell["fold"])]
        started = time.process_time()
        right: dict[tuple[float, int, str], int] = {}
        for fit, held in make_folds(y[train], INNER, options.seed):
            for key, (f, _) in values(gram, y, train[fit], train[held], cell).items():
                right[key] = right.get(key, 0) + int(((f > 0) == (y[train[held]] > 0)).sum())
        found, readings = values(gram, y, train, test, cell), []
        for k in STEPS:
            for name in DECISIONS if cell["dataset"] in SEARCHED else ELSEWHERE:
                # the first of equals, as in the other columns
                best = max(CS, key=lambda C: (right[C, k, name], -C))
                for label, C in (("by folds", best), *((f"{C:g}", C) for C in CS)):
                    f, kernels = found[C, k, name]
                    readings.append([k, name, label, round(accuracy(f, y[test]), 3), kernels])
        return {"readings": readings, "seconds": time.process_time() - started}

    def tables(self, rows: list[tuple[Cell, Result]], options: KLCOptions) -> dict[str, DataFrame]:
        """``search``: every reading on the searched sets, the nearest first; ``results``: `NEAREST` on all sets.

        Distances from the printed means are in printed standard deviations.
        """
        import pandas as pd

        long = pd.DataFrame(
            [
                [*(cell[key] for key in ("dataset", "radius", "factor", "norm")), *reading]
                for cell, result in rows
                for reading in result["readings"]
            ],
            columns=["dataset", "radius", "factor", "norm", "steps", "decision", "C", "accuracy", "kernels"],
        )
        mean = (
            long.groupby(["dataset", *READING, "norm"], sort=False)[["accuracy", "kernels"]]
            .mean()
            .reset_index()
        )
        printed = [
            PRINTED[VERSIONS.get(name, name)][COLUMNS[norm]]
            for name, norm in zip(mean["dataset"], mean["norm"], strict=True)
        ]
        mean["printed"], mean["printed_std"], mean["printed_kernels"] = zip(*printed, strict=True)
        mean["distance"] = (mean["accuracy"] - mean["printed"]) / mean["printed_std"]
        searched, search = mean[mean["dataset"].isin(SEARCHED)], pd.DataFrame(columns=[*READING, "farthest"])
        if len(searched):
            search = searched.pivot_table(
                index=READING, columns=["dataset", "norm"], values=["accuracy", "distance"], sort=False
            )
            distances = search["distance"].abs()
            search.columns = [f"{what} {name} L{norm}" for what, name, norm in search.columns]
            search["farthest"] = distances.max(axis=1)
            search = search.sort_values("farthest", kind="stable").round(3).reset_index()
        shown = (mean["C"] == "by folds") & mean["decision"].isin(ELSEWHERE)
        for key, value in NEAREST.items():
            shown &= mean[key] == value
        results = mean[shown].round({"accuracy": 2, "kernels": 1, "distance": 3})
        return {"search": search, "results": results}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """How far every reading is from the printed numbers, by its decision values."""
        if len(tables["search"]):
            yield "distances", _figure(tables["search"])


def _figure(search: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    ax = figure.subplots()
    for name in DECISIONS:
        own = np.sort(search.loc[search["decision"] == name, "farthest"])
        ax.step(own, np.arange(1, len(own) + 1), where="post", label=name)
    ax.axvline(1.0, color="0.6", lw=1, ls=":")
    ax.set_xscale("log")
    ax.set_xlabel("largest distance from the printed means, in printed standard deviations")
    ax.set_ylabel("readings")
    ax.legend(fontsize=8)
    return figure
