"""Design of the experiments on UCI data: tables, methods and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError
from kernelweave_papers.base import Choices, Options

Array = NDArray[np.float64]

#: The ten tables, in the versions whose numbers of kernels are those of the paper (servo: the nearest).
PAPER = (
    "autompg", "cpu_with_erp", "servo", "housing", "heart",
    "liver", "pima", "ionosphere", "wpbc_with_id", "sonar",
)  # fmt: skip
#: The same without the leak of the target (cpu) and without the patient number (wpbc).
SOUND = ("cpu", "wpbc")
METHODS = ("rls2", "rls2-alternating", "average", "rbf", "forest", "boosting")


@dataclass(frozen=True)
class UCIOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
    ratios : tuple of float
        Shares of the rows for training.
    splits : int
        Random splits of each data set and ratio.
    methods : tuple of str
        ``rls2`` (certified), ``rls2-alternating`` (the paper's Algorithm 1 with its residual rule), ``average``,
        ``rbf``, ``forest``, ``boosting``.
    n_alphas : int
        Number of alphas, log-spaced from `largest` to `smallest`.
    largest, smallest : float
    tol : float
        Relative gap of every solution.
    folds : int
        Inner folds for the choice without test rows.
    """

    #: Methods of the experiment.
    known: ClassVar[tuple[str, ...]] = METHODS
    protocol = "rls2"

    datasets: tuple[str, ...] = (*PAPER, *SOUND)
    ratios: tuple[float, ...] = (0.6, 0.7)
    splits: int = 100
    methods: tuple[str, ...] = METHODS
    n_alphas: int = 30
    largest: float = 1e2
    smallest: float = 1e-6
    tol: float = 1e-6
    folds: int = 5

    @property
    def alphas(self) -> Array:
        """Regularisation parameters, descending."""
        return np.geomspace(self.largest, self.smallest, self.n_alphas)

    def choices(self) -> Choices:
        """Data sets and methods."""
        return super().choices() | {"methods": (self.known, "method")}

    def check(self) -> None:
        """Raise for settings that make no sense."""
        super().check()
        if not all(0 < ratio < 1 for ratio in self.ratios):
            raise InputError(f"`ratios` must lie between 0 and 1, got {list(self.ratios)}.")
        if not 0 < self.smallest < self.largest:
            raise InputError(
                f"`largest` must be above `smallest` > 0, got {self.largest} and {self.smallest}."
            )
