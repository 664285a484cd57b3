"""Tables and pictures of the experiment with two regularisation parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from kernelweave_papers.base import Cell, Result
from kernelweave_papers.ranks import signed_rank
from kernelweave_papers.rls2_relax_grid import LABELS, RelaxOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = list[tuple[Cell, Result]]
#: Pairs of methods compared over data sets.
PAIRS = (
    ("two", "one"),
    ("two, squares", "one, squares"),
    ("two, test", "one, test"),
    ("alternating", "one"),
    ("two", "alternating"),
)


def tables(rows: Rows, options: RelaxOptions) -> dict[str, pd.DataFrame]:
    """All tables, for the first ratio; see `Relax.tables`."""
    groups: dict[str, dict[str, dict[int, Result]]] = {}
    for cell, result in rows:
        if cell["ratio"] == options.ratios[0]:
            own = groups.setdefault(str(cell["dataset"]), {})
            own.setdefault(str(cell["method"]), {})[int(cell["split"])] = result
    results = pd.DataFrame(_row(name, own, options) for name, own in groups.items() if "exact" in own)
    surfaces = [
        {"dataset": name, "alpha": float(f"{alpha:.6g}"), "score": " ".join(f"{v:.4g}" for v in line)}
        for name, own in groups.items()
        if "exact" in own
        for alpha, line in zip(options.alphas, _surface(own), strict=True)
    ]
    return {"results": results, "tests": _tests(results), "surface": pd.DataFrame(surfaces)}


def _surface(own: dict[str, dict[int, Result]]) -> np.ndarray:
    return np.mean([r["surface"] for r in own["exact"].values()], axis=0)


def _row(name: str, own: dict[str, dict[int, Result]], options: RelaxOptions) -> dict[str, object]:
    """One data set: means over splits of every choice, and summaries of both alphas."""
    exact = own["exact"]
    metric = next(iter(exact.values()))["metric"]
    sign = -1.0 if metric == "rmse" else 1.0
    mean = _surface(own)
    steps = np.arange(len(mean))
    best_one = int(np.argmax(sign * mean[steps, steps]))
    best_two = np.unravel_index(int(np.argmax(sign * mean)), mean.shape)
    out: dict[str, Any] = {"dataset": name, "metric": metric, "splits": len(exact)}
    for key in ("one", "two", "one, squares", "two, squares"):
        values = [r[key] for r in exact.values()]
        out |= {key: np.mean(values), f"{key} std": _spread(values)}
    out |= {"one, test": mean[best_one, best_one], "two, test": mean[best_two]}
    gain = sign * np.array([r["two"] - r["one"] for r in exact.values()])
    out |= {"better": int((gain > 0).sum()), "worse": int((gain < 0).sum())}
    at = np.array([r["at two"] for r in exact.values()])
    logs = np.log10(options.alphas)
    out |= {
        "alpha": 10 ** float(np.median(logs[at[:, 0]])),
        "relax": 10 ** float(np.median(logs[at[:, 1]])),
        "weaker": int((at[:, 1] > at[:, 0]).sum()),
        "kernels one": np.mean([r["kernels one"] for r in exact.values()]),
        "kernels two": np.mean([r["kernels two"] for r in exact.values()]),
        "gap": max(r["gap"] for r in exact.values()),
        "seconds": np.mean([r["seconds"] for r in exact.values()]),
    }
    other = own.get("alternating", {})
    both = sorted(set(other) & set(exact))
    values = [other[split]["alternating"] for split in both]
    out |= {
        "alternating": np.mean(values) if both else np.nan,
        "alternating std": _spread(values),
        "alternating splits": len(both),
    }
    nearest = [other[split]["nearest"] for split in both]
    out |= {"nearest": 10 ** float(np.median(logs[nearest])) if both else np.nan}
    for key, found in (
        ("distance", [other[split]["distance"] for split in both]),
        ("alternating end", [other[split]["path"][-1] for split in both]),
        ("nearest end", [other[split]["nearest score"] for split in both]),
        ("one end", [exact[split]["surface"][-1][-1] for split in both]),
    ):
        out[key] = np.mean(found) if both else np.nan
    return out


def _spread(values: Any) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def errors(results: pd.DataFrame, key: str) -> np.ndarray:
    """RMSE, or percent of wrong classes."""
    return np.where(results["metric"] == "rmse", results[key], 100.0 - results[key])


def _tests(results: pd.DataFrame) -> pd.DataFrame:
    """Relative changes of the error in percent over all sets, regressions and classifications, with Wilcoxon's test."""
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


def figures(frames: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, Figure]]:
    """Changes set by set, and the mean test score over both alphas."""
    if len(frames["results"]):
        yield "changes", _changes(frames["results"])
        yield "surface", _surfaces(frames["surface"], frames["results"])


def _changes(results: pd.DataFrame) -> Figure:
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


def _surfaces(surface: pd.DataFrame, results: pd.DataFrame) -> Figure:
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
