"""The constant kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelweave._parameters import check_value
from kernelweave.kernels.base import FACTOR, FloatArray, Kernel, Positive
from kernelweave.kernels.steps import Step
from kernelweave.views import Table

__all__ = ["Constant"]


@dataclass(frozen=True)
class Constant(Kernel):
    """The kernel that is the same for all pairs, k(x, z) = value: a penalised intercept.

    Parameters
    ----------
    value : float, default=1.0
        > 0.

    Examples
    --------
    >>> from kernelweave.kernels import Linear
    >>> (Linear() + 1.0)([[1.0], [2.0]])
    array([[2., 3.],
           [3., 5.]])
    """

    value: Positive = 1.0

    takes_missing: ClassVar[bool] = True  # it reads no cells

    def formula(self, xp, S, left, right):
        return self.value * xp.ones_like(S)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        return self._diag(left)[:, None] * np.ones((left if right is None else right).n_rows)

    def _diag(self, table: Table) -> FloatArray:
        return table.per_row(self.value)

    def _features(self, table: Table) -> FloatArray:
        return table.per_row(math.sqrt(self.value))[:, None]

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return self

    def _times(self, factor: float) -> Kernel:
        return Constant(self.value * check_value(FACTOR, "factor", factor, of="Constant"))

    def _short(self, nested: bool = False) -> str:
        return f"Constant({self.value:.4g})"
