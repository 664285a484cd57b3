"""The kernel of periodic columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import Number, Rule, Unfit, listed
from kernelweave._sparse import is_sparse
from kernelweave.functions import KernelFunction
from kernelweave.kernels.pairs import IncompleteRows
from kernelweave.kernels.stationary import Decaying
from kernelweave.kernels.steps import Step
from kernelweave.views import Table

__all__ = ["Periodic"]

PERIOD = Number(above=0)


@dataclass(frozen=True)
class Periods(Rule):
    """A period: a number, or one for each column."""

    def read(self, value: object) -> float | tuple[float, ...]:
        several = listed(value)
        if several is None:
            return PERIOD.read(value)
        if not several:
            raise Unfit("Give a period for each column.")
        return tuple(map(PERIOD.read, several))

    def kinds(self) -> tuple[str, ...]:
        return ("float", "tuple[float, ...]")

    def words(self) -> str:
        return f"{PERIOD.words()}, or one for each column such as (24.0, 7.0)"


@dataclass(frozen=True)
class Circles(Step):
    """Columns as points on circles: 2 pi x / period as cosine and sine."""

    period: float | tuple[float, ...]

    name: ClassVar[str] = "circles"
    word: ClassVar[str] = "on circles,"

    def apply(self, table: Table) -> Table:
        """See :meth:`Step.apply`."""
        values = table.take()
        if is_sparse(values) or isinstance(values, IncompleteRows):
            what = "sparse rows" if is_sparse(values) else "missing cells that are skipped"
            remedy = "Pass X.toarray()." if is_sparse(values) else "Fill them with missing='impute'."
            raise InputError(f"Periodic needs dense columns with all their cells, got {what}. {remedy}")
        period = self.period
        if isinstance(period, tuple) and len(period) != values.shape[1]:
            raise InputError(
                f"Periodic has {len(period)} periods, got {values.shape[1]} columns (categories are several). Give one "
                "period for each column, or put the kernel on them with `on`."
            )
        # the same place on a circle is the same number, whichever turn it is
        turns = values / np.asarray(period)
        angles = (turns - np.floor(turns)) * (2.0 * math.pi)
        return Table.of_checked(np.concat([np.cos(angles), np.sin(angles)], axis=1), None)


@dataclass(frozen=True)
class Periodic(Decaying):
    """The periodic kernel, k(x, z) = exp(-4 gamma sum_j sin^2(pi (x_j - z_j) / period_j)).

    It is the Gaussian kernel of columns that are wound around circles of radius 1.

    Parameters
    ----------
    gamma : float, "median", "scale", or a pair such as ("median", 4.0), default=1.0
        > 0; that of :class:`RBF` on the circles. A length scale l of the usual form
        ``exp(-2 sin^2(pi d / period) / l^2)`` is gamma = 1 / (2 l^2).
    period : float or tuple of float, default=1.0
        > 0; in the unit of the columns. A tuple has one for each column.

    Notes
    -----
    Columns that are standardised have other periods: do not prepare them, or give the period in standard deviations.
    Every column has its own circle; the sine of a Euclidean distance of several columns gives no kernel.

    References
    ----------
    D. J. C. MacKay, Introduction to Gaussian processes, 1998, section 5.2.

    Examples
    --------
    >>> Periodic(period=24.0)([[1.0], [13.0], [25.0]]).round(3)
    array([[1.   , 0.018, 1.   ],
           [0.018, 1.   , 0.018],
           [1.   , 0.018, 1.   ]])
    """

    period: Annotated[Any, Periods()] = 1.0

    statistic: ClassVar[str] = "sqdist"
    # layers have inner products, without columns
    gradient = KernelFunction.gradient

    @property
    def preparation(self) -> tuple[Step, ...]:
        """The columns on circles."""
        return (Circles(self.period),)
