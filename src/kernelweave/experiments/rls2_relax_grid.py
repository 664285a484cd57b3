"""What the experiment with two strengths compares: methods, columns and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelweave.experiments.rls2_uci_grid import PAPER, UCIOptions

METHODS = ("exact", "alternating")
#: What is compared: columns of `results`.
LABELS = {
    "one": "one strength",
    "two": "two strengths",
    "one, squares": "one, by squared error",
    "two, squares": "two, by squared error",
    "alternating": "Algorithm 1",
    "one, test": "one, by test score",
    "two, test": "two, by test score",
}


@dataclass(frozen=True)
class RelaxOptions(UCIOptions):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
    ratios : tuple of float
        Shares of the rows for training.
    splits : int
        Random splits of each data set and ratio, those of ``rls2-uci``.
    methods : tuple of str
        ``exact``: certified weights at every strength, with the ridge at every strength; ``alternating``: Algorithm 1
        with its residual rule, on regressions, where it is better than the exact solution.
    n_alphas : int
        Strengths, log-spaced from `largest` to `smallest`; the same for weights and ridge.
    largest, smallest : float
    tol : float
        Relative gap of the weights.
    folds : int
        Inner folds that choose.
    """

    known: ClassVar[tuple[str, ...]] = METHODS

    datasets: tuple[str, ...] = PAPER
    ratios: tuple[float, ...] = (0.7,)
    splits: int = 10
    methods: tuple[str, ...] = METHODS
