"""Figures of evidence: stability of weights, learning curve, calibration, permutations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernelweave._drawing import COLOURS, GREY, score_axis

if TYPE_CHECKING:
    from kernelweave._types import Axes, Figure, Tree
    from kernelweave_app.reports import Picture

#: Kernels of a figure, and lines of one.
MOST_KERNELS = 20
MOST_LINES = 8


def draw_evidence(tree: Tree) -> list[Picture]:
    """A figure for every part of the evidence that was computed; their figures stay open.

    Parameters
    ----------
    tree : dict
        Of `kernelweave_app.reports.evidence.gather`, and what was computed later.
    """
    from kernelweave_app.reports import Picture

    drawn: list[Picture] = []
    makers = (
        ("stability", "stability", "Weights over halves of the rows", _stability),
        ("learning curve", "learning-curve", "Learning curve", _curve),
        ("calibration", "calibration", "Calibration of probabilities", _calibration),
        ("permutation", "permutation", "Score among those of permuted targets", _permutation),
    )
    for key, name, title, make in makers:
        if tree.get(key):
            drawn.append(Picture(name, title, make(tree[key])))
    return drawn


def _frame(wide: float = 5.0, tall: float = 4.0) -> tuple[Figure, Axes]:
    import matplotlib.pyplot as plt

    from kernelweave.plots.drawing import plain

    figure, ax = plt.subplots(figsize=(wide, tall), layout="constrained")
    plain(ax)
    return figure, ax


def _stability(found: Tree) -> Figure:
    from kernelweave.plots.drawing import legend_beside, short

    weights = np.array(found["weights"])
    order = np.argsort(-weights.sum(axis=1), kind="stable")[:MOST_KERNELS]
    low, high = np.array(found["low"])[order], np.array(found["high"])[order]
    often = np.array(found["frequency"])[order]
    n_outputs = weights.shape[1]
    figure, ax = _frame(7.0, 1.45 + 0.28 * len(order) * max(1.0, 0.6 * n_outputs))
    height = 0.8 / n_outputs
    for k, output in enumerate(found["outputs"]):
        place = np.arange(len(order)) + (k - 0.5 * (n_outputs - 1)) * height
        own = weights[order, k]
        ax.barh(place, own, height, color=COLOURS[k % len(COLOURS)], alpha=0.75, label=output)
        # of a weight outside its interval the line begins at the bar
        ax.hlines(place, np.minimum(low[:, k], own), np.maximum(high[:, k], own), color="0.15", linewidth=1.2)
    names = [
        f"{short(found['names'][m])}  {share:.0%}" for m, share in zip(order, often.mean(axis=1), strict=True)
    ]
    ax.set_yticks(range(len(order)), names)
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    # two lines: one would be wider than a column
    ax.set_xlabel(f"kernel weight; lines: 95 % of {found['n']} halves\nbeside names: share with a weight")
    if n_outputs > 1:
        legend_beside(ax)
    return figure


def _curve(found: Tree) -> Figure:
    figure, ax = _frame()
    mean, low, high = (
        np.array([np.nan if v is None else v for v in found[name]]) for name in ("mean", "low", "high")
    )
    sizes = np.array(found["sizes"])
    ax.fill_between(sizes, low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
    ax.plot(sizes, mean, ".-", color=COLOURS[0])
    known = [float(v) for v in np.concatenate([mean, low, high]) if np.isfinite(v)]
    bottom, top, _ = score_axis(known, found["score"])
    ax.set_ylim(bottom, top)
    ax.set_xlabel("training rows")
    ax.set_ylabel(f"{found['score']} of test folds")
    return figure


def _calibration(found: Tree) -> Figure:
    import matplotlib.pyplot as plt

    from kernelweave.plots.drawing import legend, line_style, plain, short

    figure, (ax, below) = plt.subplots(
        2, 1, figsize=(5.0, 5.0), sharex=True, height_ratios=(4, 1), layout="constrained"
    )
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    for k, (name, one) in enumerate(list(found.items())[:MOST_LINES]):
        style = line_style(k)
        share = np.array(one["observed"])
        ends = np.abs(np.array([one["low"], one["high"]]) - share)
        label = f"{short(name, 24)} (Brier {one['brier']:.3f})"
        ax.errorbar(one["predicted"], share, ends, marker="o", markersize=4, label=label, **style)
        below.plot(one["predicted"], one["counts"], marker="o", markersize=3, **style)
    ax.set_ylabel("share of rows")
    ax.set_ylim(-0.02, 1.02)
    below.set_ylim(bottom=0)
    below.set_ylabel("rows")
    below.set_xlabel("probability")
    legend(ax, fontsize="small", loc="upper left")
    plain(ax)
    plain(below)
    return figure


def _permutation(found: Tree) -> Figure:
    figure, ax = _frame(5.0, 3.2)
    permuted = np.array(found["permuted"])
    ax.hist(permuted, bins=min(30, max(5, len(permuted) // 4)), color=GREY)
    ax.axvline(found["score"], color=COLOURS[1], linewidth=2)
    ax.set_xlabel(f"score of permuted targets\nline: of the true ones (p = {found['p_value']:.2g})")
    ax.set_ylabel("permutations")
    return figure
