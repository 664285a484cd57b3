"""Kernels that are functions of a distance between two rows, also of rows on circles."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import Number, OneOf, Rule, Unfit, listed
from kernelweave._sparse import is_sparse
from kernelweave._types import AnyArray
from kernelweave.functions import KernelFunction
from kernelweave.kernels.base import FACTOR, Kernel, Positive
from kernelweave.kernels.pairs import IncompleteRows
from kernelweave.kernels.steps import Step
from kernelweave.kernels.training_rows import TrainingRows
from kernelweave.views import Table

__all__ = ["RBF", "Laplacian", "Matern", "Periodic", "RationalQuadratic"]

#: Names of rules for gamma.
RULES = ("median", "scale")


def _factor(value: object) -> float:
    try:
        return FACTOR.read(value)
    except Unfit as unfit:
        # the advice is for numbers only
        raise Unfit(" ".join(said for said in (unfit.remedy, FACTOR.remedy) if said)) from None


@dataclass(frozen=True)
class Width(Rule):
    """A gamma: a number, the name of a rule on training rows, or a multiple of its result."""

    def read(self, value: object) -> float | str | tuple[str, float]:
        if isinstance(value, str):
            return OneOf(*RULES).read(value)
        pair = listed(value)
        if pair is None:
            return _factor(value)
        if len(pair) != 2:
            raise Unfit("Give a rule and its factor.")
        rule, factor = OneOf(*RULES).read(pair[0]), _factor(pair[1])
        return rule if factor == 1.0 else (rule, factor)

    def kinds(self) -> tuple[str, ...]:
        return ("float", *OneOf(*RULES).kinds(), "tuple[str, float]")

    def words(self) -> str:
        return f"{FACTOR.words()}, {OneOf(*RULES).words()}, or a multiple such as ('median', 4.0)"


@dataclass(frozen=True)
class Stationary(Kernel, described=False):
    """Base of kernels of gamma times a distance, 1 on the diagonal."""

    gamma: Annotated[Any, Width()] = 1.0

    @property
    def is_fitted(self) -> bool:
        """Whether gamma is a number."""
        return isinstance(self.gamma, float)

    def _fit(self, rows: TrainingRows) -> Kernel:
        rule, factor = (self.gamma, 1.0) if isinstance(self.gamma, str) else self.gamma
        _, rows = rows.after(self.preparation)
        unit = rows.median(self.statistic) if rule == "median" else rows.n_columns * self._spread(rows)
        return replace(self, gamma=factor / unit)

    def _spread(self, rows: TrainingRows) -> float:
        """Spread of the cells around their mean, in the unit of the distance."""
        return rows.variance

    def _number(self) -> float:
        if not self.is_fitted:
            raise InputError(
                f"{self!r} takes its gamma from training rows. Call fitted(X) first, or pass a number as gamma."
            )
        return self.gamma

    def own_value(self, xp, kappa):
        return xp.ones_like(kappa)

    def _short(self, nested: bool = False) -> str:
        if not isinstance(self.gamma, tuple):
            return super()._short(nested)
        rule, factor = self.gamma
        rest = replace(self, gamma=1.0)._short(nested).removeprefix(f"{type(self).__name__}(gamma=1")
        return f"{type(self).__name__}(gamma={factor:.4g} * {rule}{rest}"


@dataclass(frozen=True)
class Decaying(Stationary, described=False):
    """Base of the Gaussian and the Laplacian kernel: exp(-gamma * distance)."""

    @property
    def decay(self) -> float | None:
        """Gamma, once it is a number."""
        return self.gamma if self.is_fitted else None

    def formula(self, xp, S, left, right):
        return xp.exp(-self._number() * S)

    def gradient(self, xp, S, value):
        return -self.gamma * value


@dataclass(frozen=True)
class RBF(Decaying):
    """The Gaussian kernel, k(x, z) = exp(-gamma ||x - z||^2).

    Parameters
    ----------
    gamma : float, "median", "scale", or a pair such as ("median", 4.0), default=1.0
        > 0; one over the squared unit of the columns. A bandwidth s is gamma = 1 / (2 s^2). A name takes gamma from
        the training rows when the kernel is fitted, a pair is a multiple of that:

        - "median": 1 / the median of the squared distances of training rows;
        - "scale": 1 / (number of columns * variance of all cells), as in scikit-learn.

    Notes
    -----
    The median is that over all pairs of rows that differ, a pair counted with the product of the weights of its rows,
    so that a weight is equivalent to repetitions; of an even number of pairs it is the mean of the two in the middle.
    Of more than 1000 distinct rows, 1000 are taken: at equal steps of the sum of weights, in an order that depends on
    the values of the rows and not on their positions. If all rows are equal, the median is set to 1, and likewise the
    variance if all cells are.

    Examples
    --------
    >>> RBF(gamma=0.5)([[0.0], [2.0]])
    array([[1.        , 0.13533528],
           [0.13533528, 1.        ]])
    >>> RBF(gamma=("median", 4.0)).fitted([[0.0], [1.0], [3.0]])
    RBF(gamma=1.0)
    """

    statistic: ClassVar[str] = "sqdist"
    aliases: ClassVar[tuple[str, ...]] = ("gaussian",)
    layer_code: ClassVar[int] = 2

    def layer_numbers(self):
        return (self.gamma, 0.0)


@dataclass(frozen=True)
class Laplacian(Decaying):
    """The Laplacian kernel, k(x, z) = exp(-gamma sum_j abs(x_j - z_j)).

    Parameters
    ----------
    gamma : float, "median", "scale", or a pair such as ("median", 4.0), default=1.0
        > 0; one over the unit of the columns. Names and pairs are those of :class:`RBF`, with the distance of this
        kernel: "median" is 1 / the median of ``sum_j abs(x_j - z_j)``, "scale" is 1 / (number of columns * standard
        deviation of all cells).

    Examples
    --------
    >>> Laplacian(gamma=0.5)([[0.0], [2.0]])
    array([[1.        , 0.36787944],
           [0.36787944, 1.        ]])
    """

    statistic: ClassVar[str] = "l1"

    def _spread(self, rows: TrainingRows) -> float:
        return float(np.sqrt(rows.variance))


@dataclass(frozen=True)
class Matern(Stationary):
    """The Matern kernel: functions that have derivatives up to an order below nu.

    With r = sqrt(4 nu gamma) ||x - z||,

        nu = 0.5: exp(-r),   nu = 1.5: (1 + r) exp(-r),   nu = 2.5: (1 + r + r^2 / 3) exp(-r).

    Parameters
    ----------
    gamma : float, "median", "scale", or a pair such as ("median", 4.0), default=1.0
        > 0; that of :class:`RBF`, the limit for large nu. A length scale l is gamma = 1 / (2 l^2).
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness. With 0.5 it is exp(-||x - z|| / l).

    Notes
    -----
    With nu = 0.5 the kernel is a function of the root of the squared distance: a rounding error of 1e-15 in that of
    nearly equal rows is one of 3e-8 in the value, see :func:`pairwise_statistic`.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, Gaussian processes for machine learning, 2006, Eq. (4.17).

    Examples
    --------
    >>> Matern(gamma=0.5, nu=0.5)([[0.0], [2.0]])
    array([[1.        , 0.13533528],
           [0.13533528, 1.        ]])
    """

    nu: Annotated[float, OneOf(0.5, 1.5, 2.5)] = 1.5

    statistic: ClassVar[str] = "sqdist"

    def formula(self, xp, S, left, right):
        squares = 4.0 * self.nu * self._number() * S
        r = xp.sqrt(squares)
        decay = xp.exp(-r)
        if self.nu == 0.5:
            return decay
        return decay * (1.0 + r if self.nu == 1.5 else 1.0 + r + squares / 3.0)

    def gradient(self, xp, S, value):
        r = xp.sqrt(4.0 * self.nu * self.gamma * S)
        if self.nu == 0.5:
            some = xp.where(r > 0, r, xp.ones_like(r))
            # the slope is not finite at equal rows, which stay equal for all weights
            return xp.where(r > 0, -self.gamma * value / some, xp.zeros_like(r))
        decay = xp.exp(-r)
        return -3.0 * self.gamma * decay if self.nu == 1.5 else -5.0 / 3.0 * self.gamma * decay * (1.0 + r)


@dataclass(frozen=True)
class RationalQuadratic(Stationary):
    """The rational quadratic kernel, k(x, z) = (1 + gamma ||x - z||^2 / power) ** -power.

    A mixture of Gaussian kernels of many widths, and close to a single one if `power` is large.

    Parameters
    ----------
    gamma : float, "median", "scale", or a pair such as ("median", 4.0), default=1.0
        > 0; that of :class:`RBF`, the limit for large `power`. A length scale l is gamma = 1 / (2 l^2).
    power : float, default=1.0
        > 0; scikit-learn's `alpha`.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, Gaussian processes for machine learning, 2006, Eq. (4.19).

    Examples
    --------
    >>> RationalQuadratic(gamma=0.5)([[0.0], [2.0]])
    array([[1.        , 0.33333333],
           [0.33333333, 1.        ]])
    """

    power: Positive = 1.0

    statistic: ClassVar[str] = "sqdist"

    def formula(self, xp, S, left, right):
        return (1.0 + self._number() * S / self.power) ** -self.power

    def gradient(self, xp, S, value):
        return -self.gamma * value / (1.0 + self.gamma * S / self.power)

    def by_power(self, S: AnyArray) -> AnyArray:
        """Derivative of the kernel by its power.

        Parameters
        ----------
        S : array
            Squared distances of rows.

        Returns
        -------
        array of the same shape
        """
        ratio = self.gamma * S / self.power
        return self.formula(np, S, None, None) * (ratio / (1.0 + ratio) - np.log1p(ratio))


# ---- columns with a period --------------------------------------------------------------------------

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
