"""Charts of evidence: weights with intervals, learning curve, calibration, permutations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._drawing import score_axis
from kernelweave_app.studio.pages.charts import axis, base, colour, legend, line_style

if TYPE_CHECKING:
    from kernelweave._types import Tree

MOST_KERNELS = 20
#: What stands below weights with intervals.
STABILITY = (
    "Bars: weights of the model. Lines: 95 % of the weights over random halves of the rows. Names: fraction of the "
    "halves in which a kernel has a weight."
)
MOST_LINES = 8


def _segment(low: list[float], high: list[float], rank: int, name: str, *, strong: bool = False) -> Tree:
    """A line from one point to another."""
    ink = "kw('ink')" if strong else colour(rank)
    return {
        "name": name, "type": "line", "data": [low, high], "symbol": "none", "silent": True, "z": 5,
        "lineStyle": {":color": ink, "width": 2, "type": "solid"}, "tooltip": {"show": False},
    }  # fmt: skip


def stability(found: Tree) -> tuple[Tree, str]:
    """Weights as bars with the intervals over halves of the rows."""
    weights = np.array(found["weights"])
    order = np.argsort(-weights.sum(axis=1), kind="stable")[:MOST_KERNELS]
    n_outputs = weights.shape[1]
    often = np.array(found["frequency"])[order].mean(axis=1)
    names = [f"{found['names'][m]}  {share:.0%}" for m, share in zip(order, often, strict=True)]
    series: list[dict[str, Any]] = []
    height = 0.8 / n_outputs
    for k, output in enumerate(found["outputs"]):
        # points of a value axis beside the categories: bars at the same places, with room for lines
        for place, m in enumerate(order):
            y = len(order) - 1 - place - (k - 0.5 * (n_outputs - 1)) * height
            own = float(weights[m, k])
            low, high = float(found["low"][m][k]), float(found["high"][m][k])
            bar = _segment([0.0, y], [own, y], k, output)
            bar["lineStyle"] |= {"width": max(5.0, 15.0 * height), "opacity": 0.75}
            bar["z"] = 3
            series += [bar, _segment([min(low, own), y], [max(high, own), y], k, output, strong=True)]
    labels = axis("", category=names[::-1])
    labels["axisLabel"] |= {"width": 260, "overflow": "truncate", "interval": 0}
    hidden = axis("", min=-0.5, max=len(order) - 0.5, show=False)
    for one in series:
        one["yAxisIndex"] = 1
    options = base(xAxis=axis("kernel weight", min=0), yAxis=[labels, hidden], series=series)
    # a series on the axis of names, which would not be drawn without one
    series.append({"type": "bar", "data": [0] * len(order), "silent": True, "tooltip": {"show": False}})
    options["grid"]["top"] = 30 if n_outputs > 1 else 8
    if n_outputs > 1:
        series += [
            {"name": f"{output} ", "type": "bar", "data": [], "itemStyle": {":color": colour(k)}}
            for k, output in enumerate(found["outputs"])
        ]
        options["legend"] = legend([f"{output} " for output in found["outputs"]], selectedMode=False)
    return options, f"{5 + 1.45 * len(order) * (1 + 0.35 * (n_outputs - 1)):.1f}rem"


def learning(found: Tree) -> tuple[Tree, str]:
    """Scores by the number of training rows, with a band."""
    rows = [
        (n, mean, low, high)
        for n, mean, low, high in zip(found["sizes"], found["mean"], found["low"], found["high"], strict=True)
        if mean is not None
    ]
    known = [float(v) for row in rows for v in row[1:] if v is not None]
    bottom, top, step = score_axis(known, found["score"])
    hold: Tree = {"type": "line", "stack": "band", "symbol": "none", "silent": True, "stackStrategy": "all"}
    band = [(n, low, high) for n, _, low, high in rows if low is not None and high is not None]
    cut = [(n, max(bottom, low), min(top, high)) for n, low, high in band]
    series = [
        {**hold, "data": [[n, low] for n, low, _ in cut], "lineStyle": {"opacity": 0}, "tooltip": {"show": False}},
        {
            **hold, "data": [[n, high - low] for n, low, high in cut], "lineStyle": {"opacity": 0},
            "areaStyle": {":color": colour(0), "opacity": 0.18}, "tooltip": {"show": False},
        },
        {
            "name": "mean", "type": "line", "data": [[n, mean] for n, mean, *_ in rows], "symbolSize": 6,
            "symbol": "circle", "lineStyle": line_style(0), "itemStyle": {":color": colour(0)},
        },
    ]  # fmt: skip
    upward = axis(f"{found['score']} of test folds", nameGap=44, min=bottom, max=top, interval=step)
    return base(xAxis=axis("training rows", scale=True), yAxis=upward, series=series), ""


def calibration(found: Tree) -> tuple[Tree, str]:
    """Share of rows against probability; points grow with the rows of their bins."""
    series: list[dict[str, Any]] = [
        {
            "name": "true", "type": "line", "data": [[0, 0], [1, 1]], "symbol": "none", "silent": True,
            "lineStyle": {":color": "kw('faint')", "type": [3, 3], "width": 1},
        }
    ]  # fmt: skip
    shown = list(found.items())[:MOST_LINES]
    for k, (name, one) in enumerate(shown):
        most = max(one["counts"], default=1)
        data = [
            {"value": [p, share], "symbolSize": 5 + 9 * (count / most) ** 0.5, "name": f"{count} rows"}
            for p, share, count in zip(one["predicted"], one["observed"], one["counts"], strict=True)
        ]
        series.append({
            "name": f"{name} (Brier {one['brier']:.3f})", "type": "line", "data": data, "symbol": "circle",
            "lineStyle": line_style(k), "itemStyle": {":color": colour(k)},
        })  # fmt: skip
        for p, low, high in zip(one["predicted"], one["low"], one["high"], strict=True):
            series.append(_segment([p, low], [p, high], k, f"{name} interval"))
            series[-1]["lineStyle"]["width"] = 1
    options = base(
        legend=legend([f"{name} (Brier {one['brier']:.3f})" for name, one in shown]),
        xAxis=axis("probability", min=0, max=1),
        yAxis=axis("share of rows", min=0, max=1, nameGap=36),
        series=series,
    )
    return options, ""


def permutation(found: Tree) -> tuple[Tree, str]:
    """How often permuted targets gave which score."""
    permuted = np.array(found["permuted"])
    n_bins = min(30, max(5, len(permuted) // 4))
    counts, edges = np.histogram(permuted, bins=n_bins)
    width = edges[1] - edges[0]
    # columns as an area with steps, on an axis of numbers which holds the true score too
    corners = [[edges[0], 0]]
    for k, count in enumerate(counts):
        corners += [[edges[k], int(count)], [edges[k + 1], int(count)]]
    corners.append([edges[-1], 0])
    score = found["score"]
    series = [
        {
            "type": "line", "data": [[float(a), b] for a, b in corners], "symbol": "none", "silent": True,
            "lineStyle": {":color": colour(7), "width": 1}, "areaStyle": {":color": colour(7), "opacity": 0.5},
        },
        {
            "type": "line", "data": [[score, 0], [score, int(counts.max())]], "symbol": "none", "silent": True,
            "lineStyle": {":color": colour(1), "width": 3},
        },
    ]  # fmt: skip
    low, high = min(edges[0], score), max(edges[-1], score)
    across = axis("score", min=round(float(low - width), 3), max=round(float(high + width), 3))
    options = base(xAxis=across, yAxis=axis("permutations", min=0, minInterval=1, nameGap=36), series=series)
    options["grid"]["top"] = 12
    return options, "16rem"
