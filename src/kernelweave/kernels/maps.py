"""Maps of rows to few features whose inner products are close to the values of a kernel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from kernelweave._parameters import ReadableSignature
from kernelweave.kernels.base import FloatArray, Kernel
from kernelweave.kernels.rows import TrainingRows
from kernelweave.views import Table

__all__ = ["FeatureMap", "LeftOut"]

#: Rows, and pairs of rows, on which an error is measured.
MEASURED = 2_000
#: Probability with which a bound may fail.
RISK = 0.01


@dataclass(frozen=True)
class LeftOut:
    """What a map leaves out of a kernel, on the training rows.

    Attributes
    ----------
    share : float
        Of `Nystroem` the trace of the residual as a share of the trace of the kernel; of `RandomFeatures` the root of
        the mean squared error of the values of pairs of rows, as a share of the mean of the diagonal.
    bound : float
        What `share` exceeds with a probability of at most 1 %, in the draw of the rows on which it was measured.
    n_measured : int
        Number of rows, or of pairs of rows, on which it was measured.
    exact : bool
        Whether these are all training rows, so that `share` is no estimate.
    """

    share: float
    bound: float
    n_measured: int
    exact: bool


class FeatureMap(ABC):
    """A rule that turns a kernel into few features, fitted on training rows: a frozen value, like kernels.

    `Approximate` is the kernel of such features.
    """

    __signature__ = ReadableSignature()

    name: ClassVar[str]
    #: Its word in labels of kernels.
    word: ClassVar[str]
    #: Whether it goes inside multiples, sums and preparations, to the kernels that they are made of.
    goes_inside: ClassVar[bool] = False
    left_out: LeftOut | None

    @property
    @abstractmethod
    def is_fitted(self) -> bool:
        """Whether all numbers from training rows are known."""

    @abstractmethod
    def fitted(self, kernel: Kernel, rows: TrainingRows) -> FeatureMap:
        """The map for a fitted kernel, with its numbers from training rows."""

    @abstractmethod
    def features(self, kernel: Kernel, table: Table) -> FloatArray:
        """Features of rows, shape (n_rows, width). Only of fitted maps."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features; before the map is fitted, at most."""

    @abstractmethod
    def takes(self, kernel: Kernel) -> bool:
        """Whether the kernel can have these features."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The rule as plain values, by the names of the parameters."""

    @abstractmethod
    def _stored(self) -> list[Any]:
        """What is compared: the settings, and arrays from training rows."""

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return tuple(part.tobytes() if hasattr(part, "tobytes") else part for part in self._stored())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def excess(values: FloatArray, largest: float) -> float:
    """By how much a mean may exceed that of independent draws from 0 to `largest`, but for a probability of `RISK`.

    The empirical Bernstein bound of A. Maurer and M. Pontil, COLT 2009, Theorem 4.
    """
    n, log = len(values), math.log(2.0 / RISK)
    return math.sqrt(2.0 * float(values.var(ddof=1)) * log / n) + 7.0 * largest * log / (3.0 * (n - 1))
