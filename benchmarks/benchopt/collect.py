"""Points of the benchopt runs as one JSON file, and the figure of docs/benchmarks.md.

python benchmarks/benchopt/collect.py group_lasso/outputs/*.parquet easy_mkl/outputs/*.parquet   # needs pyarrow
python benchmarks/benchopt/collect.py                                                           # the figure alone
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from experiment_page import shortened  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "benchopt.json"
FIGURES = {"light": ROOT / "docs/pictures/benchopt.svg", "dark": ROOT / "docs/pictures/benchopt-dark.svg"}
#: Names of data sets in benchopt's files, and on the figure.
TITLES = {
    "Made up[groups=500,rows=500,width=10]": "made up: 500 rows, 500 groups of 10",
    "Made up[groups=50,rows=10000,width=20]": "made up: 10,000 rows, 50 groups of 20",
    "Digits": "digits: 1,797 rows, 64 groups of 20",
    "Genes": "genes: 83 rows, 2,308 columns",
    "Tables[table=breast cancer]": "EasyMKL, breast cancer: 569 rows, 10 kernels",
    "Tables[table=digits]": "EasyMKL, digits: 800 rows, 10 kernels",
}
LOOKS = {
    "kernelweave": ("#D55E00", "o-"),
    "adelie": ("#0072B2", "s-"),
    "celer": ("#009E73", "^-"),
    "skglm": ("#CC79A7", "v-"),
    "himalaya": ("#E69F00", "D-"),
    "MKLpy[solver=libsvm]": ("#56B4E9", "P-"),
    "MKLpy[solver=cvxopt]": ("#999999", "X-"),
}


def collected(paths: list[Path]) -> dict[str, Any]:
    """Least seconds of the repetitions at each tolerance (or number of steps), by data set and solver."""
    import pandas as pd

    table = pd.concat([pd.read_parquet(path) for path in paths])
    table = table[table.objective_cpu_seconds > 0]
    found: dict[str, Any] = {}
    for (data, solver), rows in table.groupby(["dataset_name", "solver_name"]):
        points = []
        for stop, same in rows.groupby("stop_val"):
            last = same.iloc[0]
            point = {
                "stop": float(stop),
                "cpu_seconds": round(float(same.objective_cpu_seconds.min()), 4),
                "seconds": round(float(same.time.min()), 4),
                "gap": float(f"{last.objective_gap:.3e}"),
            }
            for other in ("lasso_gap", "error"):
                if f"objective_{other}" in same and pd.notna(last[f"objective_{other}"]):
                    point[other] = float(f"{last[f'objective_{other}']:.3e}")
            points.append(point)
        points.sort(key=lambda point: point["stop"], reverse=solver != "himalaya")
        found.setdefault(TITLES[data], {})[solver] = points
    versions = {}
    for program in ("benchopt", "kernelweave", "adelie", "celer", "skglm", "himalaya", "MKLpy", "numpy"):
        try:
            versions[program] = version(program)
        except PackageNotFoundError:
            continue
    return {
        "versions": versions,
        "points": {title: found[title] for title in TITLES.values() if title in found},
    }


def draw(results: dict[str, Any], path: Path, dark: bool) -> None:
    """Gap against processor seconds, one panel for each data set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink = "#DDDDDD" if dark else "#222222"
    plt.rcParams.update(
        {
            "svg.fonttype": "path",
            "svg.hashsalt": "benchopt",
            "text.color": ink,
            "axes.labelcolor": ink,
            "axes.edgecolor": ink,
            "xtick.color": ink,
            "ytick.color": ink,
            "font.size": 9,
        }
    )
    figure, axes = plt.subplots(3, 2, figsize=(9, 9.5), layout="constrained")
    drawn: dict[str, Any] = {}
    for ax, (title, solvers) in zip(axes.flat, results["points"].items(), strict=False):
        for solver in LOOKS:
            points = [point for point in solvers.get(solver, []) if point["gap"] > 0]
            if points:
                colour, style = LOOKS[solver]
                [drawn[solver]] = ax.loglog(
                    [point["cpu_seconds"] for point in points],
                    [max(point["gap"], 1e-11) for point in points],
                    style,
                    color=colour,
                    markersize=4,
                    linewidth=1.2,
                )
        ax.set_title(title, fontsize=9.5)
        ax.set_ylim(5e-12, 1)
        ax.set(xlabel="seconds of the processor", ylabel="relative gap")
        ax.grid(alpha=0.2)
        ax.set_facecolor("none")
    figure.legend(
        list(drawn.values()),
        [name.replace("[solver=", " (").replace("]", ")") for name in drawn],
        loc="outside upper center",
        ncols=7,
        frameon=False,
        fontsize=8.5,
    )
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)
    path.write_text(shortened(path.read_text()))


def main(arguments: list[str]) -> None:
    if arguments:
        results = collected([Path(name) for name in arguments])
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    results = json.loads(RESULTS.read_text())
    for name, path in FIGURES.items():
        draw(results, path, name == "dark")
        print(path.relative_to(ROOT), f"{path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
