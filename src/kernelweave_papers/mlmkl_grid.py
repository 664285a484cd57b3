"""Design of the MLMKL experiment: data sets, methods, protocols and settings, and the rule of choice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError
from kernelweave_papers.base import DATA_SET, Choices, Options
from kernelweave_papers.printed import MLMKL_METHODS, MLMKL_TABLE1

Array = NDArray[np.float64]

#: Data sets of the paper in its order, with the training rows of its Table 1.
TRAINING = {name: int(row["training rows"].value) for name, row in MLMKL_TABLE1.items()}
#: Other versions: copies with a known fault, and categories as indicators instead of numbers.
VERSIONS = {
    "australian_keel": "australian",
    "credit_keel": "credit",
    "postoperative_indicators": "postoperative",
    "tictactoe_indicators": "tictactoe",
    "credit_indicators": "credit",
}
DATASETS = (*TRAINING, *VERSIONS)

#: Methods with their labels; the first ten are the paper's columns.
LABELS = {
    "sksvm": "SKSVM",
    "l2mkl": "L2MKL",
    "sm1mkl": "SM1MKL",
    "dmkl-1": "DMKL-1",
    "dmkl-2": "DMKL-2",
    "dmkl-3": "DMKL-3",
    "2lmkl": "2LMKL",
    "mlmkl-1": "MLMKL-1",
    "mlmkl-2": "MLMKL-2",
    "mlmkl-3": "MLMKL-3",
    "mlmkl-literal-1": "MLMKL-literal-1",
    "mlmkl-literal-2": "MLMKL-literal-2",
    "mlmkl-literal-3": "MLMKL-literal-3",
    "sm1mkl-half": "SM1MKL, cap 1/2",
    "average": "average kernel",
    "uniform-2": "uniform-2",
    "uniform-3": "uniform-3",
    "rbf": "tuned RBF",
}
PAPER = MLMKL_METHODS
#: Methods with a step size, which the literal protocol chooses from a grid.
STEPPED = ("dmkl", "2lmkl", "mlmkl", "mlmkl-literal", "mlmkl-platt", "mlmkl-logistic")
#: The literal protocol has no tuned machine; the tuned one leaves out the update that ascends.
ONLY = {"rbf": "tuned", "mlmkl-literal": "literal"}
PROTOCOLS = ("literal", "tuned")


@dataclass(frozen=True)
class MLMKLOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
    methods : tuple of str
    protocols : tuple of str
        ``literal``: C = 10, fixed steps from a grid; ``tuned``: C by inner folds, criteria and steps of the library.
    splits : int
        Random halves.
    etas : tuple of float
        Fixed steps of the literal protocol.
    Cs : tuple of float
        Grid of the tuned protocol, ascending.
    steps : int
        Largest number of fixed steps; the paper gives none. Backtracking takes up to the library's 100.
    """

    datasets: tuple[str, ...] = DATASETS
    methods: tuple[str, ...] = tuple(LABELS)
    protocols: tuple[str, ...] = PROTOCOLS
    splits: int = 10
    etas: tuple[float, ...] = tuple(10.0**-k for k in range(9))
    Cs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    steps: int = 50

    def choices(self) -> Choices:
        """Data sets of the paper, methods and protocols."""
        return {
            "datasets": (DATASETS, DATA_SET),
            "methods": (LABELS, "method"),
            "protocols": (PROTOCOLS, "protocol"),
        }

    def check(self) -> None:
        """Raise for settings that make no sense."""
        super().check()
        if not any(belongs(m, p) for m in self.methods for p in self.protocols):
            raise InputError(
                f"None of the methods {', '.join(self.methods)} belongs to the protocol "
                f"{', '.join(self.protocols)}. Name another protocol."
            )


def parts(method: str) -> tuple[str, int]:
    """Family and number of layers: ``mlmkl-literal-2`` is ("mlmkl-literal", 2)."""
    family, _, number = method.rpartition("-")
    return (family, int(number)) if number.isdigit() else (method, 1)


def belongs(method: str, protocol: str) -> bool:
    """Whether a protocol has the method."""
    return ONLY.get(parts(method)[0], protocol) == protocol


def best(accuracy: Array, loss: Array) -> int:
    """Position of the highest accuracy; among equals that of the smallest loss. NaN never wins."""
    accuracy = np.where(np.isnan(accuracy), -1.0, accuracy)
    ties = np.flatnonzero(accuracy >= accuracy.max() - 1e-9)
    return int(ties[np.argmin(np.where(np.isnan(loss), np.inf, loss)[ties])])


#: Seconds of a half of 500 rows, for the first estimate of the remaining time.
COSTS = {f"{protocol}/{method}": 0.03 for protocol in PROTOCOLS for method in LABELS if belongs(method, protocol)} | {
    "literal/dmkl-1": 2.9, "literal/dmkl-2": 2.9, "literal/dmkl-3": 3.1, "literal/2lmkl": 1.5,
    "literal/mlmkl-1": 0.9, "literal/mlmkl-2": 1.0, "literal/mlmkl-3": 1.1, "literal/mlmkl-literal-1": 0.9,
    "literal/mlmkl-literal-2": 1.3, "literal/mlmkl-literal-3": 1.6, "tuned/rbf": 0.3, "tuned/2lmkl": 0.5,
    "tuned/dmkl-1": 0.95, "tuned/dmkl-2": 1.7, "tuned/dmkl-3": 2.1, "tuned/mlmkl-1": 1.4, "tuned/mlmkl-2": 3.0,
    "tuned/mlmkl-3": 3.3,
}  # fmt: skip
