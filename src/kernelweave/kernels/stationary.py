"""Kernels that are functions of a distance between two rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelweave._parameters import check_fields
from kernelweave.functions import Gaussian, KernelFunction, decay
from kernelweave.kernels.base import FloatArray, Kernel, Norms, Positive, leaf
from kernelweave.views import Table

__all__ = ["RBF", "Laplacian"]


@dataclass(frozen=True)
class _Exponential(Kernel):
    """What the Gaussian and the Laplacian kernel share: exp(-gamma * distance), 1 on the diagonal."""

    gamma: Positive = 1.0

    def __post_init__(self) -> None:
        check_fields(self, named=True)

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        return decay(np, S, self.gamma, out)

    def _diag(self, table: Table) -> FloatArray:
        return np.ones(table.n_rows)

    def _short(self, nested: bool = False) -> str:
        return f"{type(self).__name__}(gamma={self.gamma:.4g})"


@leaf("gaussian")
@dataclass(frozen=True)
class RBF(_Exponential):
    """The Gaussian kernel, k(x, z) = exp(-gamma ||x - z||^2).

    Parameters
    ----------
    gamma : float, default=1.0
        > 0; one over the squared unit of the columns. A bandwidth s is gamma = 1 / (2 s^2).

    Examples
    --------
    >>> RBF(gamma=0.5)([[0.0], [2.0]])
    array([[1.        , 0.13533528],
           [0.13533528, 1.        ]])
    """

    statistic: ClassVar[str] = "sqdist"

    def layer(self) -> KernelFunction:
        """See :meth:`Kernel.layer`."""
        return Gaussian(float(self.gamma))


@leaf()
@dataclass(frozen=True)
class Laplacian(_Exponential):
    """The Laplacian kernel, k(x, z) = exp(-gamma sum_j abs(x_j - z_j)).

    Parameters
    ----------
    gamma : float, default=1.0
        > 0; one over the unit of the columns.

    Examples
    --------
    >>> Laplacian(gamma=0.5)([[0.0], [2.0]])
    array([[1.        , 0.36787944],
           [0.36787944, 1.        ]])
    """

    statistic: ClassVar[str] = "l1"
