"""Tables and pictures of the UCI experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from kernelweave._types import Axes
from kernelweave_papers.base import Cell, Result
from kernelweave_papers.rls2_uci_grid import UCIOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = list[tuple[Cell, Result]]
#: The split ratio of the paper's figures.
SHOWN = 0.7
#: Kernels listed for each data set.
TOP = 8


def _groups(rows: Rows, *keys: str) -> Iterator[tuple[tuple[Any, ...], list[Result]]]:
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for cell, result in rows:
        groups.setdefault(tuple(cell[key] for key in keys), []).append(result)
    yield from groups.items()


def _path_methods(method: str) -> bool:
    return method.startswith("rls2")


def _spread(values: Any) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def results(rows: Rows, options: UCIOptions) -> pd.DataFrame:
    """Mean and standard deviation over splits, one row for each data set, ratio and protocol.

    ``rls2 (paper)`` takes the alpha with the best average TEST score, as the paper does: optimistic.
    ``rls2`` takes the one chosen by inner folds of each training part.
    """
    out: list[dict[str, Any]] = []
    for (name, ratio, method), group in _groups(rows, "dataset", "ratio", "method"):
        head = {
            "dataset": name,
            "ratio": ratio,
            "metric": group[0]["metric"],
            "n_kernels": group[0]["n_kernels"],
            "n_train": group[0]["n_train"],
            "splits": len(group),
        }
        if not _path_methods(method):
            picked = [float(r["score"]) for r in group]
            seconds = [r["seconds"] for r in group]
            out.append(head | {"protocol": method} | _summary(picked, seconds=seconds))
            continue
        scores = np.array([r["score"] for r in group])
        mean = scores.mean(axis=0)
        best = int(np.argmin(mean) if group[0]["metric"] == "rmse" else np.argmax(mean))
        common = {
            "seconds": [r["seconds"] for r in group],
            "iterations": [float(np.sum(r["iterations"])) for r in group],
            "gap": max(r["gap"] for r in group),
            "certified": sum(r["certified"] for r in group),
        }
        kernels = np.array([r["kernels"] for r in group])
        label = "rls2" if method == "rls2" else method
        out.append(
            head
            | {"protocol": f"{label} (paper)", "alpha": float(options.alphas[best])}
            | _summary(scores[:, best], kernels=kernels[:, best], **common)
        )
        if "chosen" in group[0]:
            chosen = [r["chosen"] for r in group]
            at = np.arange(len(group))
            median = float(np.median(options.alphas[chosen]))
            out.append(
                head
                | {"protocol": label, "alpha": median}
                | _summary(scores[at, chosen], kernels=kernels[at, chosen], **common)
            )
    return pd.DataFrame(out)


def _summary(scores: Any, kernels: Any = None, **common: Any) -> dict[str, object]:
    out: dict[str, Any] = {"mean": float(np.mean(scores)), "std": _spread(scores)}
    if kernels is not None:
        out |= {"kernels": float(np.mean(kernels)), "kernels_std": _spread(kernels)}
    for key in ("iterations", "seconds"):
        if key in common:
            out |= {key: float(np.mean(common[key])), f"{key}_std": _spread(common[key])}
    return out | {key: common[key] for key in ("gap", "certified") if key in common}


def profiles(rows: Rows, options: UCIOptions) -> pd.DataFrame:
    """Averages along the path: score, number of kernels, iterations."""
    out = []
    for (name, ratio, method), group in _groups(rows, "dataset", "ratio", "method"):
        if not _path_methods(method):
            continue
        columns = {key: np.array([r[key] for r in group]) for key in ("score", "kernels", "iterations")}
        for k, alpha in enumerate(options.alphas):
            row = {"dataset": name, "ratio": ratio, "method": method, "alpha": float(f"{alpha:.6g}")}
            row["metric"] = group[0]["metric"]
            for key, values in columns.items():
                row[key] = float(f"{values[:, k].mean():.6g}")
                row[f"{key}_std"] = float(f"{_spread(values[:, k]):.4g}")
            out.append(row)
    return pd.DataFrame(out)


def scores(rows: Rows, options: UCIOptions) -> pd.DataFrame:
    """Every split of the certified paths at 70/30: scores, kernels and iterations as texts along the path."""
    out = []
    for cell, result in rows:
        if cell["method"] != "rls2" or cell["ratio"] != SHOWN:
            continue
        row = {"dataset": cell["dataset"], "split": cell["split"], "chosen": result.get("chosen")}
        row["score"] = " ".join(f"{value:.4g}" for value in result["score"])
        row["kernels"] = " ".join(map(str, result["kernels"]))
        row["iterations"] = " ".join(map(str, result["iterations"]))
        out.append(row)
    return pd.DataFrame(out, columns=["dataset", "split", "chosen", "score", "kernels", "iterations"])


def kernels(rows: Rows, options: UCIOptions) -> pd.DataFrame:
    """The kernels with the largest average weight at the choice by inner folds, and how often they were selected."""
    out = []
    for (name, ratio, _), group in _groups(
        [(c, r) for c, r in rows if "weights" in r], "dataset", "ratio", "method"
    ):
        total: dict[str, float] = {}
        count: dict[str, int] = {}
        for result in group:
            for label, weight in result["weights"].items():
                total[label] = total.get(label, 0.0) + weight
                count[label] = count.get(label, 0) + 1
        top = sorted(total, key=lambda label: -total[label])[:TOP]
        out += [
            {
                "dataset": name,
                "ratio": ratio,
                "kernel": label,
                "weight": round(total[label] / len(group), 4),
                "selected": round(count[label] / len(group), 3),
            }
            for label in top
        ]
    return pd.DataFrame(out, columns=["dataset", "ratio", "kernel", "weight", "selected"])


def profile_figures(tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, Figure]]:
    """One picture for each data set: splits thin, their average thick, the alpha with the best average dotted.

    The third panel has the rounds of Algorithm 1, which the paper counts, and the factorisations of Newton's method.
    """
    frame, single = tables["profiles"], tables["scores"]
    for name in frame["dataset"].unique():
        own = frame[frame["dataset"] == name]
        part, other = own[own["method"] == "rls2"], own[own["method"] == "rls2-alternating"]
        if not len(part):
            continue
        ratio = SHOWN if (part["ratio"] == SHOWN).any() else part["ratio"].iloc[0]
        mine = single[single["dataset"] == name] if ratio == SHOWN else single.iloc[:0]
        yield (
            f"profile_{name}",
            _profile(name, ratio, part[part["ratio"] == ratio], other[other["ratio"] == ratio], mine),
        )


def _profile(
    name: str, ratio: float, part: pd.DataFrame, other: pd.DataFrame, single: pd.DataFrame
) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.6), layout="constrained")
    axes = figure.subplots(3, 1, sharex=True)
    metric = part["metric"].iloc[0]
    alphas = part["alpha"].to_numpy()
    names = {"score": "test accuracy, %" if metric == "accuracy" else "test RMSE"}
    names |= {"kernels": "selected kernels"}
    best = int(part["score"].argmin() if metric == "rmse" else part["score"].argmax())
    for ax, (key, label) in zip(axes, names.items(), strict=False):
        for text in single[key]:
            ax.plot(alphas, np.fromstring(text, sep=" "), color="0.8", lw=0.4, rasterized=True)
        ax.plot(alphas, part[key], color="C0", lw=2.0, label="exact")
        if len(other):
            ax.plot(other["alpha"], other[key], color="C1", lw=1.2, ls="--", label="Algorithm 1")
        ax.set_ylabel(label)
    _iterations(axes[-1], part, other)
    for ax in axes:
        ax.axvline(alphas[best], color="0.2", ls=":", lw=1.0)
        ax.set_xscale("log")
    axes[-1].legend(fontsize=7)
    if metric == "rmse" and len(single):
        # the unregularised end of single splits may be far away
        top = float(part["score"].max() * 1.3)
        axes[0].set_ylim(0.0, top)
    axes[0].set_title(f"{name}, {round(100 * ratio)} % for training")
    axes[-1].set_xlabel("regularisation parameter alpha")
    axes[-1].invert_xaxis()
    return figure


def _iterations(ax: Axes, part: pd.DataFrame, other: pd.DataFrame) -> None:
    """Rounds of Algorithm 1 with their standard deviation over splits, and factorisations of the exact solver."""
    if len(other):
        mean, spread = other["iterations"].to_numpy(), other["iterations_std"].to_numpy()
        ax.fill_between(
            other["alpha"], np.maximum(mean - spread, 1.0), mean + spread, color="C1", alpha=0.2, lw=0
        )
        ax.plot(other["alpha"], mean, color="C1", lw=2.0, label="rounds of Algorithm 1")
    ax.plot(part["alpha"], part["iterations"], color="C0", lw=1.0, label="factorisations, exact")
    ax.set_ylabel("iterations")
