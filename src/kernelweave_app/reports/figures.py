"""Figures of held-out rows, of the solver and of findings, beside those that any model has (`kernelweave.plots`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from numpy.typing import ArrayLike

from kernelweave._drawing import COLOURS, GREY, rounded, score_axis, score_text
from kernelweave._types import Labels, Style
from kernelweave.estimators import BaseMKL
from kernelweave.inspection.arguments import outputs_of
from kernelweave.inspection.held import HeldOut
from kernelweave.inspection.held_times import RiskGroups
from kernelweave.inspection.registry import Finding, Found
from kernelweave.plots import KernelWeightsDisplay, RiskGroupsDisplay
from kernelweave.plots.drawing import legend, legend_beside, line_style, log_axis, plain, short
from kernelweave_app.reports import Picture

#: With more classes, a confusion matrix has colours and no numbers.
MOST_NUMBERS = 24
#: Panels of a figure, kernels of one, and lines of one.
MOST_PANELS, MOST_KERNELS, MOST_LINES = 12, 20, 8


#: Inches of a figure with one panel.
SIZE = (5.0, 4.2)


def _frame(wide: float = SIZE[0], tall: float = SIZE[1]) -> tuple[Figure, Axes]:
    figure, ax = plt.subplots(figsize=(wide, tall), layout="constrained")
    return figure, ax


def residual_figure(held: HeldOut) -> Figure:
    """True minus predicted against predicted numbers, a panel for each of several targets."""
    return _panels(held, residuals=True)


def held_figure(held: HeldOut) -> Figure:
    """The confusion matrix of classes; true against predicted numbers, a panel for each of several targets."""
    if held.classes is None:
        return _panels(held, residuals=False)
    return confusion_figure(held.classes, held.truth, held.prediction)


def _panels(held: HeldOut, *, residuals: bool) -> Figure:
    """Predicted and true numbers of held-out rows, a panel for each target, at most `MOST_PANELS`."""
    names = held.targets[:MOST_PANELS] or ("",)
    n_wide = min(len(names), 3)
    n_high = -(-len(names) // n_wide)
    size = (3.4 * n_wide, 3.2 * n_high) if held.targets else SIZE
    figure, panels = plt.subplots(n_high, n_wide, figsize=size, layout="constrained", squeeze=False)
    for ax in panels.flat[len(names) :]:
        ax.set_visible(False)
    for k, (ax, name) in enumerate(zip(panels.flat, names, strict=False)):
        truth, guess = (values.reshape(len(values), -1)[:, k] for values in (held.truth, held.prediction))
        if residuals:
            ax.axhline(0.0, color=GREY, linewidth=1)
        else:
            ends = [min(truth.min(), guess.min()), max(truth.max(), guess.max())]
            ax.plot(ends, ends, color=GREY, linewidth=1)
        ax.plot(guess, truth - guess if residuals else truth, ".", color=COLOURS[0])
        ax.set_title(short(name, 32), parse_math=False)
        ax.set(xlabel="predicted", ylabel="true − predicted" if residuals else "true")
        plain(ax)
    return figure


def confusion_figure(classes: Sequence[str], truth: Labels, guess: Labels) -> Figure:
    """How often each class was predicted as which, in a figure that grows with the classes.

    Parameters
    ----------
    classes : sequence of str
    truth, guess : arrays of str, shape (n_rows,)
    """
    from sklearn.metrics import confusion_matrix

    n = len(classes)
    counts = confusion_matrix(truth, guess, labels=classes)
    names = [short(name, 24) for name in classes]
    longest = max(map(len, names))
    numbers, many = n <= MOST_NUMBERS, n > 9
    # a cell holds a number of four digits; longer names lie at an angle below it
    side = n * (0.44 if numbers else 0.2) + 0.9 + 0.075 * longest
    figure, ax = _frame(max(SIZE[0], side), max(SIZE[1], side))
    ax.imshow(counts, cmap="Blues", vmin=0)
    for (i, j), value in np.ndenumerate(counts) if numbers else ():
        colour = "white" if value > counts.max() / 2 else "black"
        at_centre: Style = {"ha": "center", "va": "center", "color": colour}
        ax.text(j, i, str(value), fontsize="small" if many else "medium", **at_centre)
    turned: Style = {}
    if longest * n > 36:
        turned = {"rotation": 90} if many else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    size = "small" if numbers else "x-small"
    ax.set_xticks(range(n), names, fontsize=size, **turned)
    ax.set_yticks(range(n), names, fontsize=size)
    ax.set(xlabel="predicted", ylabel="true")
    return figure


def ranking_figure(held: HeldOut, kind: str) -> Figure | None:
    """Curves of held-out rows for each class or label with rows inside and outside it; None without any.

    Parameters
    ----------
    held : HeldOut
    kind : {"roc", "precision"}
    """
    from sklearn import metrics

    values = held.rankings()
    shown = {name: pair for name, pair in values.items() if 0 < pair[0].sum() < len(pair[0])}
    if not shown:
        return None
    places = {name: k for k, name in enumerate(values)}
    figure, ax = _frame(6.6)
    for name, (here, value) in shown.items():
        if kind == "roc":
            x, y, _ = metrics.roc_curve(here, value)
            area = metrics.auc(x, y)
        else:
            y, x, _ = metrics.precision_recall_curve(here, value)
            area = metrics.average_precision_score(here, value)
        # the area below is the number in the legend: equal values are a slope of one, and no step of the other
        drawn = "default" if kind == "roc" else "steps-post"
        label = f"{short(name, 24)} ({rounded(area, len(here))})"
        ax.plot(x, y, label=label, **line_style(places[name]), drawstyle=drawn)
    labels = ("false positive rate", "true positive rate") if kind == "roc" else ("recall", "precision")
    ax.set(xlabel=labels[0], ylabel=labels[1], xlim=(0.0, 1.0), ylim=(0.0, 1.01))
    legend_beside(ax)
    plain(ax)
    return figure


def convergence_figure(model: BaseMKL, histories: Sequence[Mapping[str, ArrayLike]]) -> Figure:
    """The relative gap at every iteration."""
    outputs = outputs_of(model)
    names: list[str | None] = [None] * len(histories)
    if len(outputs) == len(histories) > 1:
        names = [short(name, 24) for name in outputs]
    figure, ax = _frame(6.6 if any(names) else 5.0)
    for k, (name, history) in enumerate(zip(names, histories, strict=True)):
        gaps = np.asarray(history["rel_gap"], dtype=float)
        steps = np.arange(1, len(gaps) + 1)
        ax.plot(steps[gaps > 0], gaps[gaps > 0], marker=".", label=name, **line_style(k))
    log_axis(ax, "y")
    ax.set(xlabel="iteration", ylabel="relative gap")
    ax.locator_params(axis="x", integer=True)
    legend_beside(ax)
    plain(ax)
    return figure


# ---- findings --------------------------------------------------------------------------------------


def _stability(found: Finding) -> Figure | SubFigure:
    tree = found.details
    weights = np.array(tree["weights"])
    order = np.argsort(-weights.sum(axis=1), kind="stable")[:MOST_KERNELS]
    weights, low, high = (np.array(tree[key])[order] for key in ("weights", "low", "high"))
    names = [tree["names"][m] for m in order]
    outputs = tree["outputs"] if weights.shape[1] > 1 else [""]
    bars = KernelWeightsDisplay(names, weights, outputs).plot(most=MOST_KERNELS, alpha=0.75)
    figure, ax = bars.figure_, bars.ax_
    for k, one in enumerate(bars.bars_):
        place = [bar.get_y() + 0.5 * bar.get_height() for bar in one]
        # of a weight outside its interval the line begins at the bar
        ends = np.minimum(low[:, k], weights[:, k]), np.maximum(high[:, k], weights[:, k])
        ax.hlines(place, *ends, color="0.15", linewidth=1.2)
    ax.set(xlabel=f"weight; lines: 95 % of {found.n} halves", xlim=(0, None))
    return figure


def _curve(found: Finding) -> Figure:
    tree = found.details
    figure, ax = _frame(tall=4.0)
    mean, low, high = (np.array(tree[name], dtype=float) for name in ("mean", "low", "high"))
    ax.fill_between(tree["sizes"], low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
    ax.plot(tree["sizes"], mean, ".-", color=COLOURS[0])
    known = [float(v) for v in np.concatenate([mean, low, high]) if np.isfinite(v)]
    bottom, top, _ = score_axis(known, tree["score"])
    ax.set(xlabel="training rows", ylabel=f"{tree['score']} of test folds", ylim=(bottom, top))
    return figure


def _calibration(found: Finding) -> Figure:
    tree = found.details
    figure, (ax, below) = plt.subplots(
        2, 1, figsize=(5.0, 5.0), sharex=True, height_ratios=(4, 1), layout="constrained"
    )
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    for k, (name, one) in enumerate(list(tree.items())[:MOST_LINES]):
        style = line_style(k)
        share = np.array(one["observed"])
        ends = np.abs(np.array([one["low"], one["high"]]) - share)
        label = f"{short(name, 24)} (Brier {score_text('Brier score', one['brier'], sum(one['counts']))})"
        ax.errorbar(one["predicted"], share, ends, marker="o", markersize=4, label=label, **style)
        below.plot(one["predicted"], one["counts"], marker="o", markersize=3, **style)
    ax.set_ylabel("fraction of rows")
    ax.set_ylim(-0.02, 1.02)
    below.set_ylim(bottom=0)
    below.set_ylabel("rows")
    below.set_xlabel("probability")
    legend(ax, fontsize="small", loc="upper left")
    plain(ax)
    plain(below)
    return figure


def _permutation(found: Finding) -> Figure:
    tree = found.details
    figure, ax = _frame(5.0, 3.2)
    permuted = np.array(tree["permuted"])
    ax.hist(permuted, bins=min(30, max(5, len(permuted) // 4)), color=GREY)
    ax.axvline(tree["score"], color=COLOURS[1], linewidth=2)
    ax.set(
        xlabel=f"score of permuted targets\nline: of the true ones (p = {tree['p_value']:.2g})",
        ylabel="permutations",
    )
    return figure


def _risk_groups(found: Finding) -> Figure | SubFigure:
    tree = found.details
    times, survival, errors, low, high = (
        [np.array(one) for one in tree[key]] for key in ("times", "survival", "errors", "low", "high")
    )
    bands = list(zip(low, high, strict=True))
    groups = RiskGroups(tree["names"], [np.arange(n) for n in tree["rows"]], times, survival, errors, bands)
    return RiskGroupsDisplay(groups).plot().figure_


def _survival_calibration(found: Finding) -> Figure:
    tree = found.details
    figure, ax = _frame()
    observed = np.array(tree["observed"])
    spread = np.abs(np.array([tree["low"], tree["high"]]) - observed)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    ax.errorbar(tree["predicted"], observed, spread, marker="o", markersize=4, color=COLOURS[0])
    ax.set(
        xlabel=f"predicted share without an event at time {tree['time']:g}",
        ylabel="observed share",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
    )
    plain(ax)
    return figure


def _survival_error(found: Finding) -> Figure:
    figure, ax = _frame(5.0, 3.2)
    for rank, (name, values) in enumerate(list(found.details.items())[1:]):
        ax.plot(found.details["time"], values, **{**line_style(rank), "label": name})
    ax.set(xlabel="time", ylabel="Brier score")
    ax.set_ylim(bottom=0.0)
    legend(ax)
    plain(ax)
    return figure


#: Figures by the names of findings: names of files, titles, and what draws them.
OF_FINDINGS: dict[str, tuple[str, str, Callable[[Finding], Figure | SubFigure]]] = {
    "stability": ("stability", "Weights over halves of the rows", _stability),
    "learning curve": ("learning-curve", "Learning curve", _curve),
    "calibration": ("calibration", "Calibration of probabilities", _calibration),
    "permutation": ("permutation", "Score among those of permuted targets", _permutation),
    "risk groups": ("risk-groups", "Survival by risk out of fold", _risk_groups),
    "survival calibration": ("survival-calibration", "Calibration of survival", _survival_calibration),
    "survival error": ("survival-error", "Error of survival over time", _survival_error),
}


def draw_findings(found: Found, only: str = "") -> list[Picture]:
    """A figure of every finding that has one, or of one by the name of its file; the figures stay open."""
    return [
        Picture(file, title, draw(found[name]))
        for name, (file, title, draw) in OF_FINDINGS.items()
        if name in found and only in ("", file)
    ]
