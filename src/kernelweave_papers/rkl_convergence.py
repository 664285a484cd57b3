"""Number of machines that RKL solves: the published projected gradient with Armijo's rule, or Newton's method."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError
from kernelweave.mkl.radius import solve_rkl
from kernelweave_papers.base import Cell, Choices, Experiment, Options, Result
from kernelweave_papers.rkl import PRINTED, problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]

#: Steps and their stopping rule: relative gap, or stationarity. The first gives the reference optimum.
TOLERANCES = {"newton": 1e-8, "armijo": 1e-5, "spectral": 1e-5}
LABELS = {"newton": "Newton", "armijo": "Armijo (published)", "spectral": "Armijo, spectral steps"}
#: Reported distances from the optimum, as shares of it.
LEVELS = (1e-2, 1e-3, 1e-4, 1e-5)
#: Excess below which a curve ends: the tolerance of the reference.
FLOOR = 1e-8


@dataclass(frozen=True)
class ConvergenceOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
    steps : tuple of str
        Newton is always among them.
    C : float
        On kernels whose ball has radius 1.
    max_iter : int
        Accepted steps of the projected gradients.
    """

    protocol = "rkl"

    datasets: tuple[str, ...] = tuple(PRINTED)
    steps: tuple[str, ...] = tuple(TOLERANCES)
    C: float = 10.0
    max_iter: int = 500

    def choices(self) -> Choices:
        """Data sets and steps."""
        return super().choices() | {"steps": (TOLERANCES, "step")}

    def check(self) -> None:
        """Raise for settings that make no sense."""
        super().check()
        if not self.C > 0:
            raise InputError(f"`C` must be positive, got {self.C}.")


#: See `Experiment.costs`.
COSTS = {"newton": 0.13, "armijo": 2.6, "spectral": 1.2}


class RKLConvergence(Experiment):
    """Excess over the optimum against the number of machines, on all rows of every data set."""

    name = "rkl-convergence"
    title = "Machines that RKL needs, by step"
    defaults = ConvergenceOptions()
    quick = ConvergenceOptions(datasets=("sonar", "heart"), max_iter=100)
    costs = COSTS
    published = ("counts", "curves")

    def cells(self, options: ConvergenceOptions) -> list[Cell]:
        """Data sets outermost."""
        steps = ["newton", *(step for step in options.steps if step != "newton")]
        return [{"dataset": name, "step": step} for name in options.datasets for step in steps]

    def run(self, cell: Cell, options: ConvergenceOptions) -> Result:
        """One descent from equal weights, on kernels of trace 1."""
        _, y, gram = problem(str(cell["dataset"]))
        step = str(cell["step"])
        started = time.process_time()
        found = solve_rkl(
            gram,
            y,
            options.C,
            scale=1.0 / gram.trace(),
            solver=step,
            tol=TOLERANCES[step],
            max_iter=options.max_iter,
        )
        return {
            "n_samples": len(y),
            "machines": [int(k) for k in found.history["n_machines"]],
            "objective": [float(v) for v in found.history["objective"]],
            "active": [int(k) for k in found.history["n_active"]],
            "dual": float(found.dual),
            "status": found.status.name,
            "all_machines": int(found.n_machines),
            "seconds": time.process_time() - started,
        }

    def tables(self, rows: list[tuple[Cell, Result]], options: ConvergenceOptions) -> dict[str, DataFrame]:
        """Machines until the excess is small, kernels with a weight there, and the curves, thinned."""
        import pandas as pd

        optimum = {cell["dataset"]: result["dual"] for cell, result in rows if cell["step"] == "newton"}
        counts, curves = [], []
        for cell, result in rows:
            if cell["dataset"] not in optimum:
                continue
            excess = np.maximum(np.array(result["objective"]) / optimum[cell["dataset"]] - 1.0, 0.0)
            machines, active = np.array(result["machines"]), np.array(result["active"])
            row: dict[str, object] = {
                "dataset": cell["dataset"],
                "step": cell["step"],
                "rows": result["n_samples"],
            }
            for level in LEVELS:
                there = np.flatnonzero(excess <= level)
                row[f"machines {level:g}"] = int(machines[there[0]]) if len(there) else np.nan
                row[f"kernels {level:g}"] = int(active[there[0]]) if len(there) else np.nan
            row |= {
                "machines": result["all_machines"],
                "kernels": int(active[-1]),
                "excess": float(f"{excess[-1]:.2g}"),
                "status": result["status"],
                "seconds": round(result["seconds"], 2),
            }
            counts.append(row)
            seen = np.unique(np.searchsorted(machines, np.unique(np.geomspace(1, machines[-1], 60).round())))
            curves += [
                {
                    "dataset": cell["dataset"],
                    "step": cell["step"],
                    "machines": int(machines[k]),
                    "excess": float(f"{excess[k]:.3g}"),
                    "kernels": int(active[k]),
                }
                for k in seen[seen < len(machines)]
            ]
        return {"counts": pd.DataFrame(counts), "curves": pd.DataFrame(curves)}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Excess against machines, one line for each data set and step."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        ax = figure.subplots()
        frame = tables["curves"]
        colors = {"newton": "C0", "armijo": "C3", "spectral": "C1"}
        for step in ("armijo", "spectral", "newton"):
            label: str | None = LABELS[step]
            for _, part in frame[frame["step"] == step].groupby("dataset", sort=False):
                ax.plot(
                    part["machines"],
                    np.maximum(part["excess"], FLOOR),
                    color=colors[step],
                    lw=1.2,
                    alpha=0.8,
                    label=label,
                )
                label = None
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("machines solved")
        ax.set_ylabel("excess over the optimum, as a share of it")
        ax.legend()
        yield "convergence", figure
