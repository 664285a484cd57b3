"""Kernels that are functions of the inner product of two rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import Number, Whole, check_fields, check_value
from kernelweave._sparse import sq_norms, to_dense
from kernelweave.functions import Angle, Identity, KernelFunction, Pointwise, Power
from kernelweave.kernels.base import PSD, FloatArray, Kernel, Norms, Positive, leaf, set_fields
from kernelweave.views import Table

__all__ = ["ArcCosine", "Elementwise", "Linear", "Polynomial"]

MAX_RANK = 16
"""Largest number of features for which polynomials and products are written as explicit feature maps."""

Degree = Whole(0, 2)


@leaf()
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

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        return self.layer().value(np, S, sq_left, sq_right, np.empty_like(S) if out is None else out)

    def layer(self) -> KernelFunction:
        """See :meth:`Kernel.layer`."""
        return Identity()

    def _diag(self, table: Table) -> FloatArray:
        return sq_norms(table.take())

    def _features(self, table: Table) -> FloatArray:
        return table.take()


@leaf("poly")
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

    def __post_init__(self) -> None:
        check_fields(self, named=True)

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        return self.layer().value(np, S, sq_left, sq_right, out)

    def layer(self) -> KernelFunction:
        """See :meth:`Kernel.layer`."""
        return Power(self.degree, float(self.coef0), float(self.gamma))

    def _diag(self, table: Table) -> FloatArray:
        return self.layer().diagonal(np, sq_norms(table.take()))

    def _features(self, table: Table) -> FloatArray | None:
        if table.n_expanded_columns > 1 or self.degree >= MAX_RANK:
            return None
        x, q = to_dense(table.take())[:, 0], self.degree
        columns, power = [], np.ones(len(x))
        for k in range(q + 1):
            if k:
                power = power * x
            scale = math.sqrt(math.comb(q, k) * self.gamma**k * self.coef0 ** (q - k))
            if scale > 0:
                columns.append(scale * power)
        return np.stack(columns, axis=1)

    def _short(self, nested: bool = False) -> str:
        extra = [f"{key}={getattr(self, key):.4g}" for key in ("coef0", "gamma") if getattr(self, key) != 1.0]
        return f"Polynomial({', '.join([f'degree={self.degree}', *extra])})"


@leaf("arc_cosine")
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
    def _functions(self) -> tuple[Angle, ...]:
        """One for each layer, the first layer first."""
        degrees = self.degree if isinstance(self.degree, tuple) else (self.degree,) * self.layers
        return tuple(map(Angle, degrees))

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        if sq_left is None or sq_right is None:
            raise InputError("ArcCosine needs the squared norms of the rows. Pass `sq_left` and `sq_right`.")
        below: Angle | None = None
        for function in self._functions:
            if below is not None:
                sq_left, sq_right = below.diagonal(np, sq_left), below.diagonal(np, sq_right)
            S = function.value(np, S, sq_left, sq_right, out)
            below = function
        return S

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        K = super()._gram(left, right)
        if right is None:
            np.fill_diagonal(K, self._diag(left))
        return K

    def layer(self) -> KernelFunction:
        """See :meth:`Kernel.layer`."""
        functions = self._functions
        if len(functions) > 1:
            raise InputError(
                f"ArcCosine of {len(functions)} layers cannot be one layer of a deep kernel. Use one layer each."
            )
        return functions[0]

    def _diag(self, table: Table) -> FloatArray:
        return reduce(lambda sq, f: f.diagonal(np, sq), self._functions, sq_norms(table.take()))

    def _short(self, nested: bool = False) -> str:
        layers = f", layers={self.layers}" if self.layers > 1 and not isinstance(self.degree, tuple) else ""
        return f"ArcCosine(degree={self.degree}{layers})"


@dataclass(frozen=True)
class Elementwise(Kernel):
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

    function: Callable[[Any], Any]
    derivative: Callable[[Any], Any]
    name: str | None = None

    statistic: ClassVar[str] = "dot"
    needs_psd_check: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for label in ("function", "derivative"):
            if not callable(getattr(self, label)):
                raise InputError(
                    f"`{label}` of Elementwise must be callable, got {getattr(self, label)!r}. Pass a function "
                    "of arrays."
                )

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        values = np.asarray(self.layer().value(np, S, sq_left, sq_right), dtype=np.float64)
        if values.shape != np.shape(S) or not np.isfinite(values).all():
            raise InputError(
                f"The function of {self._short()} must return finite values of the shape {np.shape(S)} it was given, "
                f"got shape {values.shape}. Rescale the columns if it overflows."
            )
        if out is None:
            return values
        out[...] = values
        return out

    def layer(self) -> KernelFunction:
        """See :meth:`Kernel.layer`."""
        return Pointwise(self.function, self.derivative)

    def _diag(self, table: Table) -> FloatArray:
        return self.from_statistic(sq_norms(table.take()))

    def _short(self, nested: bool = False) -> str:
        return self.name or getattr(self.function, "__name__", None) or "Elementwise"

    def to_dict(self) -> dict[str, Any]:
        """Raise: a function cannot be written as plain values."""
        raise InputError(
            f"The kernel {self._short()!r} cannot be saved as plain values, because it is a Python function."
        )
