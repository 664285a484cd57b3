"""Kernels that are functions of the inner product of two rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import Function, Number, Whole, check_fields, check_value
from kernelweave._sparse import to_dense
from kernelweave.functions import power
from kernelweave.kernels.base import PSD, FloatArray, Kernel, Positive, set_fields
from kernelweave.views import Table

__all__ = ["ArcCosine", "Elementwise", "Linear", "Polynomial"]

MAX_RANK = 16
"""Largest number of features for which polynomials and products are written as explicit feature maps."""

Degree = Whole(0, 2)


@dataclass(frozen=True)
class Linear(Kernel):
    """The inner product, k(x, z) = x'z.

    Its feature map is the (expanded) columns themselves. On one column it is the rank-one kernel x_i z_i of
    linear RLS2 [1]_.

    References
    ----------
    .. [1] F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv:1001.2709, Eq. (9).

    Examples
    --------
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    statistic: ClassVar[str] = "dot"
    is_linear: ClassVar[bool] = True
    layer_code: ClassVar[int] = 0

    def formula(self, xp, S, left, right):
        return S

    def gradient(self, xp, S, value):
        return xp.ones_like(S)

    def _features(self, table: Table) -> FloatArray:
        return table.take()


@dataclass(frozen=True)
class Polynomial(Kernel):
    """The polynomial kernel, k(x, z) = (gamma x'z + coef0) ** degree.

    Parameters
    ----------
    degree : int, default=3
        >= 1. Dimensionless.
    coef0 : float, default=1.0
        >= 0; in the units of ``gamma x . z``. With 0 the kernel is homogeneous.
    gamma : float, default=1.0
        > 0; one over the squared unit of the columns.

    Notes
    -----
    On one expanded column the kernel is (gamma x z + c) ** q = sum_k binom(q, k) gamma^k c^(q-k) x^k z^k,
    which gives at most ``degree + 1`` features sqrt(binom(q, k)) gamma^(k/2) c^((q-k)/2) x^k.

    References
    ----------
    .. [1] F. Dinuzzo, arXiv:1001.2709, section 5.2, with coef0 = 1 and gamma = 1.

    Examples
    --------
    >>> k = Polynomial(degree=2)
    >>> k([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    >>> phi = k.features([[2.0], [3.0]])
    >>> bool(np.allclose(phi @ phi.T, k([[2.0], [3.0]])))
    True
    """

    degree: Annotated[int, Whole(1)] = 3
    coef0: Annotated[float, Number(least=0, remedy=PSD)] = 1.0
    gamma: Positive = 1.0

    statistic: ClassVar[str] = "dot"
    aliases: ClassVar[tuple[str, ...]] = ("poly",)

    @property
    def layer_code(self) -> int | None:
        """The compiled loop has no gamma."""
        return 1 if self.gamma == 1.0 else None

    def layer_numbers(self):
        return (float(self.degree), self.coef0)

    def formula(self, xp, S, left, right):
        return power(self.gamma * S + self.coef0, self.degree)

    def gradient(self, xp, S, value):
        factor = self.degree * self.gamma
        if self.degree == 1:
            return factor * xp.ones_like(S)
        return factor * power(self.gamma * S + self.coef0, self.degree - 1)

    def _powers(self, x: Any) -> list[Any]:
        """The explicit features of one column, from an array or node of shape (n_rows, 1)."""
        found, one = [], 0.0 * x + 1.0
        for k in range(self.degree + 1):
            scale = math.sqrt(math.comb(self.degree, k) * self.gamma**k * self.coef0 ** (self.degree - k))
            if scale > 0:
                found.append(scale * (power(x, k) if k else one))
        return found

    def _features(self, table: Table) -> FloatArray | None:
        if table.n_expanded_columns > 1 or self.degree >= MAX_RANK:
            return None
        return np.concat(self._powers(to_dense(table.take())), axis=1)

    def _short(self, nested: bool = False) -> str:
        extra = [f"{key}={getattr(self, key):.4g}" for key in ("coef0", "gamma") if getattr(self, key) != 1.0]
        return f"Polynomial({', '.join([f'degree={self.degree}', *extra])})"


@dataclass(frozen=True)
class ArcCosine(Kernel):
    """The arc-cosine kernel of an infinite random network with activations max(0, w'x) ** degree.

    For one layer of degree n, with t the angle between x and z,

        k_n(x, z) = ||x||^n ||z||^n J_n(t) / pi,
        J_0 = pi - t,   J_1 = sin t + (pi - t) cos t,   J_2 = 3 sin t cos t + (pi - t)(1 + 2 cos^2 t),

    and each further layer applies this to the inner products of the previous layer.

    Parameters
    ----------
    degree : {0, 1, 2} or tuple of these, default=1
        A tuple has one degree per layer, the first layer first; equal degrees are kept as one integer.
    layers : int, default=1
        >= 1. With a tuple it may be left out.

    Notes
    -----
    Diagonal: degree 0 gives 1, degree 1 keeps ||x||^2, degree 2 gives 3 ||x||^4, which grows fast over
    layers: normalise. A row of zeros has no angle; it is treated as orthogonal, which gives 0 for degree 1
    and 2, and for degree 0 the value 1/2 with every row including itself, the kernel of a step function that
    is 1/2 at 0. The arc cosine turns a rounding error of 1e-16 in the cosine into 1e-8 in the angle of nearly
    parallel rows.

    References
    ----------
    .. [1] Y. Cho and L. K. Saul, Kernel methods for deep learning, NIPS 2009, Eqs (3)-(6) and (9)-(10).

    Examples
    --------
    >>> ArcCosine(degree=1).diag([[3.0, 4.0]])
    array([25.])
    >>> ArcCosine(degree=(1, 0))([[1.0, 0.0], [0.0, 1.0]]).round(3)
    array([[1.   , 0.603],
           [0.603, 1.   ]])
    """

    degree: int | tuple[int, ...] = 1
    layers: Annotated[int, Whole(1)] = 1

    statistic: ClassVar[str] = "dot"
    aliases: ClassVar[tuple[str, ...]] = ("arc_cosine",)
    needs_norms: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        degree, layers = self.degree, self.layers
        if isinstance(degree, (tuple, list)):
            if not degree or (layers != 1 and layers != len(degree)):
                raise InputError(
                    f"`degree` of ArcCosine must have one entry per layer (layers={layers}), got {degree!r}. "
                    "Leave out `layers`, or pass one integer for all layers."
                )
            degree = tuple(check_value(Degree, "degree", n, of="ArcCosine") for n in degree)
            layers = len(degree)
            degree = degree[0] if len(set(degree)) == 1 else degree
        else:
            degree = check_value(Degree, "degree", degree, of="ArcCosine")
        set_fields(self, degree=degree, layers=layers)

    @property
    def degrees(self) -> tuple[int, ...]:
        """One for each layer, the first layer first."""
        return self.degree if isinstance(self.degree, tuple) else (self.degree,) * self.layers

    @property
    def layer_code(self) -> int | None:
        """The compiled loop has one layer."""
        return 3 if self.layers == 1 else None

    def layer_numbers(self):
        return (float(self.degrees[0]), 0.0)

    def formula(self, xp, S, left, right):
        if left is None or right is None:
            raise InputError("ArcCosine needs the squared norms of the rows. Pass `sq_left` and `sq_right`.")
        for n in self.degrees:
            S = _angle(xp, n, S, left, right)
            left, right = _angle_diagonal(xp, n, left), _angle_diagonal(xp, n, right)
        return S

    def own_value(self, xp, kappa):
        return reduce(lambda sq, n: _angle_diagonal(xp, n, sq), self.degrees, kappa)

    def layer(self):
        """See :meth:`Kernel.layer`."""
        if self.layers > 1:
            raise InputError(
                f"ArcCosine of {self.layers} layers cannot be one layer of a deep kernel. Use one layer each."
            )
        return self

    def layer_partials(self, xp, K, left, right, value):
        n = self.degrees[0]
        c, lengths, norm, long = _cosine(xp, n, K, left, right)
        sine = _sine(xp, c)
        if n == 0:
            # parallel rows have no derivative; the angle does not change there when both are scaled
            slope = xp.where(
                sine > 0, 1.0 / xp.where(sine > 0, np.pi * sine, xp.ones_like(c)), xp.zeros_like(c)
            )
        elif n == 1:
            slope = xp.acos(-c) / np.pi
        else:
            slope = 4.0 * (sine + xp.acos(-c) * c) / np.pi
        turn = lengths * slope
        stretch = 0.5 * n * value - 0.5 * turn * c
        safe = xp.where(left > 0, left, xp.ones_like(left))
        none = xp.zeros_like(K)
        return xp.where(long, turn / norm, none), xp.where(long, stretch / safe, none)

    def own_slope(self, xp, kappa):
        n = self.degrees[0]
        if n == 0:
            return xp.zeros_like(kappa)
        return xp.ones_like(kappa) if n == 1 else 6.0 * kappa

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        K = super()._gram(left, right)
        if right is None:
            np.fill_diagonal(K, self._diag(left))
        return K

    def _short(self, nested: bool = False) -> str:
        layers = f", layers={self.layers}" if self.layers > 1 and not isinstance(self.degree, tuple) else ""
        return f"ArcCosine(degree={self.degree}{layers})"


def _cosine(xp: Any, degree: int, K: Any, left: Any, right: Any) -> tuple[Any, Any, Any, Any]:
    """The cosine, the factor before J / pi, the norm, 1 where it vanishes, and where it does not."""
    square = left * right
    norm = xp.sqrt(square)
    lengths = 1.0 if degree == 0 else norm if degree == 1 else square
    long = norm > 0
    if not (isinstance(K, np.ndarray) and np.all(long)):
        norm = xp.where(long, norm, xp.ones_like(norm))
        K = xp.where(long, K, xp.zeros_like(K))
    return xp.clip(K / norm, -1.0, 1.0), lengths, norm, long


def _sine(xp: Any, cosine: Any) -> Any:
    """Sine of the angle between 0 and pi, from its cosine; as accurate as from the angle, and faster."""
    return xp.sqrt((1.0 - cosine) * (1.0 + cosine))


def _angle(xp: Any, degree: int, K: Any, left: Any, right: Any) -> Any:
    """One layer of the arc-cosine kernel; a row of length zero is treated as orthogonal to all others."""
    cosine, lengths, _, _ = _cosine(xp, degree, K, left, right)
    # pi - theta
    value = xp.acos(-cosine)
    if degree == 1:
        value = value * cosine + _sine(xp, cosine)
    elif degree == 2:
        value = value * (1.0 + 2.0 * cosine * cosine) + 3.0 * _sine(xp, cosine) * cosine
    return value / np.pi * lengths


def _angle_diagonal(xp: Any, degree: int, kappa: Any) -> Any:
    if degree == 0:
        return xp.where(kappa > 0, xp.ones_like(kappa), 0.5 * xp.ones_like(kappa))
    # in the same order as off the diagonal, so that a row and its copy are exactly parallel in the next layer
    return kappa if degree == 1 else 3.0 * (kappa * kappa)


@dataclass(frozen=True)
class Elementwise(Kernel, described=False):
    """A function of the inner product, k(x, z) = function(x'z), with its derivative: for layers of deep kernels.

    Parameters
    ----------
    function : callable
        Takes an array or tensor of inner products and returns one of the same shape. A power series with nonnegative
        coefficients gives a kernel; estimators check it on the training rows, layers of deep kernels do not.
    derivative : callable
        Its derivative, of the same form.
    name : str or None, default=None
        For the label; by default the function's name.

    Examples
    --------
    >>> Elementwise(np.cosh, np.sinh)([[0.0], [1.0]]).round(3)
    array([[1.   , 1.   ],
           [1.   , 1.543]])
    """

    function: Annotated[Callable[[FloatArray], FloatArray], Function()]
    derivative: Annotated[Callable[[FloatArray], FloatArray], Function()]
    name: str | None = None

    statistic: ClassVar[str] = "dot"
    needs_psd_check: ClassVar[bool] = True

    def formula(self, xp, S, left, right):
        values = self.function(S)
        if isinstance(S, np.ndarray):
            values = np.asarray(values, dtype=np.float64)
            if values.shape != S.shape or not np.isfinite(values).all():
                raise InputError(
                    f"The function of {self._short()} must return finite values of the shape {S.shape} it was given, "
                    f"got shape {values.shape}. Rescale the columns if it overflows."
                )
        return values

    def gradient(self, xp, S, value):
        return self.derivative(S)

    def _short(self, nested: bool = False) -> str:
        return self.name or getattr(self.function, "__name__", None) or "Elementwise"
