"""Methods compared over data sets: average ranks, Friedman's test, Nemenyi's critical difference and its picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ranking:
    """Average ranks, 1 the best, and whether they differ by more than chance.

    Attributes
    ----------
    ranks : array of shape (n_methods,)
    statistic, p : float
        Friedman's chi-squared with the correction for ties, and its p-value.
    critical : float
        Nemenyi's critical difference at the 5 % level: larger differences of average ranks are significant.
    n_sets : int
    """

    ranks: Array
    statistic: float
    p: float
    critical: float
    n_sets: int


def average_ranks(scores: ArrayLike, ties: str = "average") -> Array:
    """Average over rows of the ranks within each row; the largest score has rank 1.

    Parameters
    ----------
    scores : array of shape (n_sets, n_methods)
    ties : {"average", "min"}
        Equal scores share the mean of their ranks, as Friedman's test requires, or all get the smallest.
    """
    from scipy.stats import rankdata

    return rankdata(-np.asarray(scores, dtype=np.float64), method=ties, axis=1).mean(axis=0)


def critical_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    """Nemenyi's critical difference of average ranks, ``q sqrt(k (k + 1) / (6 N))``.

    q is the quantile of the studentised range with infinitely many degrees of freedom, divided by the root of 2.

    References
    ----------
    J. Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 7 (2006).
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1.0 - level, n_methods, np.inf)) / math.sqrt(2.0)
    return q * math.sqrt(n_methods * (n_methods + 1) / (6.0 * n_sets))


def rank(scores: ArrayLike) -> Ranking:
    """Average ranks with Friedman's test; at least three methods and two data sets."""
    from scipy.stats import friedmanchisquare

    scores = np.asarray(scores, dtype=np.float64)
    n_sets, n_methods = scores.shape
    if n_methods < 3 or n_sets < 2:
        raise InputError(
            f"Ranks need at least three methods and two data sets, got {n_methods} and {n_sets}."
        )
    statistic, p = friedmanchisquare(*scores.T)
    return Ranking(
        average_ranks(scores), float(statistic), float(p), critical_difference(n_methods, n_sets), n_sets
    )


def signed_rank(differences: ArrayLike) -> float:
    """The p of Wilcoxon's signed-rank test, two-sided; NaN for fewer than two differences or none."""
    from scipy.stats import rankdata, wilcoxon

    d = np.asarray(differences, dtype=np.float64)
    if len(d) < 2 or not np.any(d != 0):
        return math.nan
    if len(d) > 13:
        return float(wilcoxon(d).pvalue)
    # the same value without a loop over all signs, which SciPy takes where differences are equal
    d = d[d != 0]
    doubled = np.rint(2 * rankdata(np.abs(d))).astype(int)
    ways = np.ones(1)
    for step in doubled:
        ways = np.pad(ways, (0, step)) + np.pad(ways, (step, 0))
    at = int(doubled[d > 0].sum())
    return min(1.0, 2.0 * min(ways[: at + 1].sum(), ways[at:].sum()) / ways.sum())


def cliques(ranks: Sequence[float], critical: float) -> list[tuple[int, int]]:
    """Largest runs of ascending ranks within the critical difference, as (first, last) positions."""
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(k for k in range(first, len(ranks)) if ranks[k] - ranks[first] <= critical)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def critical_difference_figure(ranks: Mapping[str, float], critical: float, title: str) -> Figure:
    """Average ranks on a line, the best on the left; bars join methods that do not differ significantly."""
    from matplotlib.figure import Figure

    names = sorted(ranks, key=lambda name: ranks[name])
    values = [ranks[name] for name in names]
    k, half = len(names), (len(names) + 1) // 2
    bars = cliques(values, critical)
    first_label = 0.75 + 0.28 * len(bars)
    depth = first_label + 0.36 * (half - 1) + 0.35
    figure = Figure(figsize=(7.2, 0.55 * (depth + 1.6)), layout="constrained")
    ax = figure.subplots()
    ax.set_xlim(1.0 - 0.28 * (k - 1), k + 0.28 * (k - 1))
    ax.set_ylim(depth, -1.3)
    ax.axis("off")
    ax.set_title(title, fontsize=10)
    ax.plot([1, k], [0, 0], color="black", lw=1)
    for tick in range(1, k + 1):
        ax.plot([tick, tick], [-0.12, 0], color="black", lw=1)
        ax.text(tick, -0.2, str(tick), ha="center", va="bottom", fontsize=8)
    if critical < k - 1:
        ax.plot([1, 1 + critical], [-0.85, -0.85], color="0.35", lw=2, solid_capstyle="butt")
        ax.text(1 + critical / 2, -0.9, f"CD {critical:.2f}", ha="center", va="bottom", fontsize=8)
    for position, (name, value) in enumerate(zip(names, values, strict=True)):
        left = position < half
        level = first_label + 0.36 * (position if left else k - 1 - position)
        end = 1.0 - 0.04 * (k - 1) if left else k + 0.04 * (k - 1)
        ax.plot([value, value, end], [0, level, level], color="0.55", lw=0.8)
        text = f"{name}  {value:.2f}" if left else f"{value:.2f}  {name}"
        ax.text(end, level, f" {text} ", ha="right" if left else "left", va="center", fontsize=8)
    for row, (first, last) in enumerate(bars):
        level = 0.42 + 0.28 * row
        margin = 0.02 * (k - 1) / 3
        ax.plot(
            [values[first] - margin, values[last] + margin],
            [level, level],
            color="black",
            lw=2.5,
            solid_capstyle="butt",
        )
    return figure
