"""Design of the experiment with two regularisation parameters: methods, columns and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelweave_papers.rls2_uci_grid import PAPER, UCIOptions

METHODS = ("exact", "alternating")
#: Compared methods: columns of `results`.
LABELS = {
    "one": "one alpha",
    "two": "two alphas",
    "one, squares": "one, by squared error",
    "two, squares": "two, by squared error",
    "alternating": "Algorithm 1",
    "one, test": "one, by test score",
    "two, test": "two, by test score",
}


@dataclass(frozen=True)
class RelaxOptions(UCIOptions):
    """Settings: those of `UCIOptions`, with the same alphas for weights and ridge, on the same splits.

    Attributes
    ----------
    methods : tuple of str
        ``exact``: certified weights at every alpha, with the ridge at every alpha; ``alternating``: Algorithm 1
        with its residual rule, on regressions, where it is better than the exact solution.
    """

    known: ClassVar[tuple[str, ...]] = METHODS

    datasets: tuple[str, ...] = PAPER
    ratios: tuple[float, ...] = (0.7,)
    splits: int = 10
    methods: tuple[str, ...] = METHODS
