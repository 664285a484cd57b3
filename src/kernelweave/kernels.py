"""Kernels: frozen values that compose.

A kernel is a value: hashable, comparable, picklable, never modified. ``k(X, Z)`` gives the matrix of its
values, ``k.diag(X)`` the values on the diagonal. Kernels add, multiply and scale (``2.0 * (k1 + k2)``), and
``k.on(columns)`` restricts one to some columns. Numeric kernels see each categorical column as 0/1 indicator
columns; :class:`Categorical` compares categories.

What a Gram assembler may rely on
---------------------------------
``k.columns``, ``k.base``
    The frozen selection of :meth:`Kernel.on` (None: all columns) and the kernel without it. Kernels with
    equal `columns` and equal `base.statistic` can share one pairwise statistic.
``k.statistic``, ``k.needs_norms``, ``k.from_statistic(S, sq_left, sq_right, out)``
    If `statistic` is not None, the kernel is an elementwise function of ``pairwise_statistic(statistic, A,
    B)`` of the expanded columns, and, if `needs_norms`, of the squared norms of the rows. It works on any
    shape, such as a packed triangle, and in place when `out` is `S`. Sums, products and multiples of such
    kernels have a statistic too, if all their terms (other than constants) share it.
``k.features(X)``
    A matrix phi of shape (n_rows, r) with k(x, z) = phi(x) . phi(z), or None.
"""

from __future__ import annotations

import ast
import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError, as_floats, check_known
from kernelweave._parameters import (
    LARGEST_NUMBER,
    Number,
    Text,
    Whole,
    check_fields,
    check_value,
    listed,
    shown,
)
from kernelweave.mkl import layers
from kernelweave.mkl.layers import Angle, Gaussian, Identity, LayerFunction, Power
from kernelweave.views import ColumnMask, ColumnSlice, Selection, Table, as_table, as_tables, freeze_columns

__all__ = [
    "RBF",
    "ArcCosine",
    "Categorical",
    "Constant",
    "Custom",
    "Elementwise",
    "Kernel",
    "Laplacian",
    "Linear",
    "On",
    "Polynomial",
    "Product",
    "Scaled",
    "Sum",
    "from_dict",
    "pairwise_statistic",
    "parse",
    "statistic_panels",
]

FloatArray = NDArray[np.float64]
Norms = FloatArray | None

MAX_RANK = 16
"""Largest number of features for which polynomials and products are written as explicit feature maps."""

FEW_COLUMNS = 4
"""Up to this many columns squared distances are summed column by column, without cancellation."""


# --- pairwise statistics ---


def pairwise_statistic(kind: str, A: ArrayLike, B: ArrayLike | None = None) -> FloatArray:
    """Compute a statistic of all pairs of rows.

    Parameters
    ----------
    kind : {"sqdist", "dot", "l1"}
        Squared Euclidean distance, inner product, or sum of absolute differences.
    A : array of shape (n, n_columns)
    B : array of shape (m, n_columns) or None
        None: pairs within `A`; the result is then symmetric bit for bit, and distances are exactly 0 on the
        diagonal.

    Returns
    -------
    array of shape (n, m), float64
        Squared distances are never negative.

    Notes
    -----
    Squared distances over more than four columns come from inner products of rows centred at their mean, with
    an absolute error of about 1e-16 times the squared norms; over fewer columns they are summed directly.
    Time O(n m n_columns); memory O(n m).

    Examples
    --------
    >>> pairwise_statistic("sqdist", [[0.0, 0.0], [3.0, 4.0]])
    array([[ 0., 25.],
           [25.,  0.]])
    """
    check_known(kind, ("sqdist", "dot", "l1"), "pairwise statistic")
    left = as_floats(A, "A")
    right = left if B is None else as_floats(B, "B")
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise InputError(
            f"Rows must be 2D arrays with equally many columns, got {left.shape} and {right.shape}. Select "
            "the same columns on both sides."
        )
    largest = max(float(np.abs(left).max(initial=0.0)), float(np.abs(right).max(initial=0.0)))
    if largest > LARGEST_NUMBER:
        raise InputError(
            f"Rows must not hold numbers above {LARGEST_NUMBER:g}, got {largest:.3g}, whose square overflows. Divide "
            "the column by a constant first."
        )
    symmetric = B is None
    if kind == "l1" or (kind == "sqdist" and left.shape[1] <= FEW_COLUMNS):
        return _by_columns(left, right, np.abs if kind == "l1" else np.square, symmetric)
    if kind == "dot":
        S = left @ right.T
        return _mirror(S) if symmetric else S
    centre = right.mean(axis=0) if len(right) else 0.0
    left = left - centre
    right = left if symmetric else right - centre
    S = left @ right.T
    S *= -2.0
    S += _sq_norms(left)[:, None]
    S += _sq_norms(right)
    np.maximum(S, 0.0, out=S)
    if symmetric:
        np.fill_diagonal(S, 0.0)
    return _mirror(S) if symmetric else S


def statistic_panels(kind: str, A: FloatArray, entries: int) -> Iterator[tuple[slice, FloatArray]]:
    """The upper triangle of `pairwise_statistic(kind, A)` without the whole matrix.

    Parameters
    ----------
    kind, A : see `pairwise_statistic`
    entries : int
        Numbers that are computed at a time; a row is the least.

    Yields
    ------
    rows : slice
        Some rows, in order.
    S : array of shape (n_rows, n - rows.start)
        Their values with all rows from their own first one on. Inner products of rows with themselves are those that
        `_sq_norms` gives, and their distances exactly 0.
    """
    n = len(A)
    by_columns = kind == "l1" or (kind == "sqdist" and A.shape[1] <= FEW_COLUMNS)
    if kind == "sqdist" and not by_columns:
        A = A - A.mean(axis=0)
    squares = None if by_columns else _sq_norms(A)
    start = 0
    while start < n:
        rows = slice(start, min(n, start + max(1, entries // (n - start))))
        if squares is None:
            S = _by_columns(A[rows], A[start:], np.abs if kind == "l1" else np.square, False)
        else:
            S = A[rows] @ A[start:].T
            if kind == "sqdist":
                S *= -2.0
                S += squares[rows, None]
                S += squares[start:]
                np.maximum(S, 0.0, out=S)
            np.fill_diagonal(S, squares[rows] if kind == "dot" else 0.0)
        yield rows, S
        start = rows.stop


def _by_columns(A: FloatArray, B: FloatArray, fold: np.ufunc, symmetric: bool) -> FloatArray:
    """Sum ``fold(A[i, j] - B[k, j])`` over the columns j, in tiles of rows that stay in the cache."""
    n, m = len(A), len(B)
    S = np.zeros((n, m))
    rows = max(1, 32768 // max(m, 1))
    work = np.empty((rows, m))
    A_columns, B_columns = np.ascontiguousarray(A.T), np.ascontiguousarray(B.T)
    for top in range(0, n, rows):
        start = top if symmetric else 0
        tile = S[top : top + rows, start:]
        difference = work[: len(tile), start:]
        for a, b in zip(A_columns, B_columns, strict=True):
            np.subtract(a[top : top + rows, None], b[start:], out=difference)
            fold(difference, out=difference)
            tile += difference
    return _mirror(S) if symmetric else S


def _mirror(K: FloatArray, block: int = 512) -> FloatArray:
    """Copy the upper triangle of a square matrix onto the lower one, in place."""
    for top in range(0, len(K), block):
        end = top + block
        K[top:end, :top] = K[:top, top:end].T
        corner = K[top:end, top:end]
        lower = np.tril_indices(len(corner), -1)
        corner[lower] = corner.T[lower]
    return K


def _sq_norms(A: FloatArray) -> FloatArray:
    return np.einsum("ij,ij->i", A, A)


def _power(x: FloatArray, exponent: int) -> FloatArray:
    """Raise to an integer power >= 1 in place, by repeated squaring."""
    if exponent == 1:
        return x
    square = x.copy()
    while not exponent & 1:
        square *= square
        exponent >>= 1
    x[...] = square
    exponent >>= 1
    while exponent:
        square *= square
        if exponent & 1:
            x *= square
        exponent >>= 1
    return x


# --- the base class ---


class Kernel:
    """Base class of all kernels; see the module's text for what an implementation offers.

    Notes
    -----
    ``k1 + k2``, ``k1 * k2``, ``2.0 * k`` and ``k + 1.0`` give new kernels, and ``sum([k1, k2])`` works. Sums
    and products are flat, so that ``(k1 + k2) + k3 == k1 + (k2 + k3)``; the order of terms counts in
    comparisons.

    Examples
    --------
    >>> k = 2.0 * RBF(gamma=0.5) + Linear().on([0])
    >>> k([[0.0, 0.0], [1.0, 0.0]])
    array([[2.        , 1.21306132],
           [1.21306132, 3.        ]])
    >>> k.label
    '2 * RBF(gamma=0.5) on all + Linear on x0'
    """

    columns: Any = None
    name: Any = None
    statistic: ClassVar[Any] = None
    needs_norms: ClassVar[Any] = False
    is_linear: ClassVar[Any] = False
    needs_psd_check: ClassVar[Any] = False  # whether it may fail to be positive semidefinite
    __array_ufunc__ = None  # so that numpy scalars on the left leave the multiplication to us

    @property
    def base(self) -> Kernel:
        """The kernel without its selection of columns."""
        return self

    @property
    def label(self) -> str:
        """A short name for people, such as ``"RBF(gamma=0.5) on age, bmi"``."""
        return f"{self._short(nested=True)} on all"

    @property
    def view(self) -> str:
        """What the kernel sees: the name of a view, its columns, or "all"."""
        return "all"

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return the kernel matrix.

        Parameters
        ----------
        X : array, data frame or Table of shape (n, n_columns)
        Z : the same of shape (m, n_columns), or None
            None: pairs within `X`. If both are frames, categories are those of `X`.

        Returns
        -------
        array of shape (n, m), float64
            ``k(X)`` is symmetric bit for bit.
        """
        left, right = as_tables(X, Z)
        K = self._gram(left, right)
        return _mirror(K) if right is None else K

    def diag(self, X: Any) -> FloatArray:
        """Return k(x, x) for every row of `X`, shape (n,), without computing the matrix."""
        return self._diag(as_table(X))

    def features(self, X: Any) -> FloatArray | None:
        """Return a finite feature map of the rows of `X`, or None if the kernel has none that is small.

        Returns
        -------
        array of shape (n_rows, r), or None
            ``phi(X) @ phi(Z).T == k(X, Z)`` up to rounding. The answer (None or r) depends on the columns of
            the table only, never on its rows. Do not modify the array: it may be a view of the data.
        """
        return self._features(as_table(X))

    def on(self, columns: Any, name: str | None = None) -> On:
        """Restrict the kernel to some columns.

        Parameters
        ----------
        columns : int, str, slice, boolean mask, sequence of int and str, or None
            As in :meth:`kernelweave.views.Table.resolve`; None means all columns, to give the kernel a name.
        name : str or None
            What the view is called in the label.

        Raises
        ------
        InputError
            If the kernel, or a term of it, is restricted already.

        Examples
        --------
        >>> RBF(gamma=0.5).on(["age", "bmi"]).label
        'RBF(gamma=0.5) on age, bmi'
        >>> Linear().on(slice(0, 20), name="rna").label
        'rna: Linear'
        """
        return On(self, columns, name)

    def from_statistic(
        self,
        S: FloatArray,
        sq_left: FloatArray | None = None,
        sq_right: FloatArray | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Compute kernel values from the pairwise statistic named by `statistic`.

        Parameters
        ----------
        S : array of any shape
            Values of the statistic. Not modified unless it is `out`.
        sq_left, sq_right : arrays that broadcast against `S`, or None
            Squared norms of the rows on either side; read only where `needs_norms`. For a matrix pass
            ``sq[:, None]`` and ``sq[None, :]``. Take them from the diagonal of the same inner products, so
            that angles of rows with themselves are exactly 0.
        out : array of the shape of `S`, or None
            Where to put the result; may be `S` itself.

        Returns
        -------
        array of the shape of `S`

        Raises
        ------
        InputError
            If the kernel is not a function of one pairwise statistic.

        Examples
        --------
        >>> RBF(gamma=0.5).from_statistic(np.array([0.0, 2.0]))
        array([1.        , 0.36787944])
        """
        raise InputError(
            f"{self!r} is not a function of one pairwise statistic. Call it on the table instead."
        )

    def layer(self) -> LayerFunction:
        """The kernel as a function of inner products, to be evaluated in the feature space of another kernel.

        Raises
        ------
        InputError
            If the kernel is not such a function, or is restricted to columns.
        """
        raise InputError(
            f"{self._short()} cannot be a layer of a deep kernel, which sees inner products only. Use Linear, "
            "Polynomial, RBF, ArcCosine of one layer, or Elementwise, without `on`."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values that JSON can hold; :func:`from_dict` reads it.

        Examples
        --------
        >>> RBF(gamma=0.5).on(["age"]).to_dict()
        {'kernel': 'on', 'base': {'kernel': 'rbf', 'gamma': 0.5}, 'columns': ['age'], 'name': None}
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"kernel": type(self).__name__.lower()} | {
            key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
        }

    @staticmethod
    def from_dict(description: Mapping[str, Any]) -> Kernel:
        """Read what `to_dict` wrote; the same as the function :func:`from_dict`."""
        return from_dict(description)

    # What kernels implement. Tables, not arrays: selection and expansion are done where columns are read.

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        A = left.take()
        S = pairwise_statistic(self.statistic, A, None if right is None else right.take())
        if not self.needs_norms:
            return self.from_statistic(S, out=S)
        sq_left = S.diagonal().copy() if right is None else _sq_norms(A)
        sq_right = sq_left if right is None else _sq_norms(right.take())
        return self.from_statistic(S, sq_left[:, None], sq_right, out=S)

    def _diag(self, table: Table) -> FloatArray:
        raise NotImplementedError

    def _features(self, table: Table) -> FloatArray | None:
        return None

    def _short(self, nested: bool = False) -> str:
        return type(self).__name__

    def _restricted(self) -> bool:
        """Return whether the kernel or a term of it selects columns."""
        return False

    # Algebra.

    def __add__(self, other: Any) -> Kernel:
        if isinstance(other, numbers.Real):
            if other == 0:
                return self
            other = Constant(other)  # type: ignore[arg-type]
        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: Any) -> Kernel:
        if isinstance(other, numbers.Real):  # 0 + k is how sum() starts
            return self if other == 0 else Sum((Constant(other), self))  # type: ignore[arg-type]
        return NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, numbers.Real):
            return self._times(other)  # type: ignore[arg-type]
        return Product((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __rmul__(self, other: Any) -> Kernel:
        return self * other if isinstance(other, numbers.Real) else NotImplemented

    def _times(self, factor: float) -> Kernel:
        return Scaled(self, factor)


# --- kernels that are functions of a pairwise statistic ---


def _set(frozen: Kernel, /, **values: Any) -> None:
    for key, value in values.items():
        object.__setattr__(frozen, key, value)


PSD = "Other values do not give a positive semidefinite kernel."
Positive = Annotated[float, Number(above=0, remedy=PSD)]
FACTOR = Number(above=0, remedy=PSD)
Degree = Whole(0, 2)
VIEW_NAME = Text() | None


@dataclass(frozen=True)
class Linear(Kernel):
    """The inner product, k(x, z) = x . z.

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
        if out is None:
            return S.copy()
        if out is not S:
            out[...] = S
        return out

    def layer(self) -> LayerFunction:
        """See :meth:`Kernel.layer`."""
        return Identity()

    def _diag(self, table: Table) -> FloatArray:
        return _sq_norms(table.take())

    def _features(self, table: Table) -> FloatArray:
        return table.take()


@dataclass(frozen=True)
class Polynomial(Kernel):
    """The polynomial kernel, k(x, z) = (gamma x . z + coef0) ** degree.

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
        out = np.multiply(S, self.gamma, out=out)
        out += self.coef0
        return _power(out, self.degree)

    def layer(self) -> LayerFunction:
        """See :meth:`Kernel.layer`."""
        return Power(self.degree, float(self.coef0), float(self.gamma))

    def _diag(self, table: Table) -> FloatArray:
        return self.from_statistic(_sq_norms(table.take()))

    def _features(self, table: Table) -> FloatArray | None:
        if table.n_expanded_columns > 1 or self.degree >= MAX_RANK:
            return None
        x, q = table.take()[:, 0], self.degree
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
        out = np.multiply(S, -self.gamma, out=out)
        return np.exp(out, out=out)

    def _diag(self, table: Table) -> FloatArray:
        return np.ones(table.n_rows)

    def _short(self, nested: bool = False) -> str:
        return f"{type(self).__name__}(gamma={self.gamma:.4g})"


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

    def layer(self) -> LayerFunction:
        """See :meth:`Kernel.layer`."""
        return Gaussian(float(self.gamma))


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


@dataclass(frozen=True)
class ArcCosine(Kernel):
    """The arc-cosine kernel of an infinite random network with activations max(0, w . x) ** degree.

    For one layer of degree n, with t the angle between x and z,

        k_n(x, z) = ||x||^n ||z||^n J_n(t) / pi,
        J_0 = pi - t,   J_1 = sin t + (pi - t) cos t,   J_2 = 3 sin t cos t + (pi - t)(1 + 2 cos^2 t),

    and each further layer applies this to the inner products of the layer before.

    Parameters
    ----------
    degree : {0, 1, 2} or tuple of these, default=1
        A tuple has one degree per layer, the first layer first; equal degrees are kept as one integer.
    layers : int, default=1
        >= 1. With a tuple it may be left out.

    Notes
    -----
    Diagonal: degree 0 gives 1, degree 1 keeps ||x||^2, degree 2 gives 3 ||x||^4, which grows fast over
    layers: normalise. A row of zeros has no angle; it is taken as a right angle, which gives 0 for degree 1
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
        _set(self, degree=degree, layers=layers)

    @property
    def _degrees(self) -> tuple[int, ...]:
        return self.degree if isinstance(self.degree, tuple) else (self.degree,) * self.layers

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        if sq_left is None or sq_right is None:
            raise InputError("ArcCosine needs the squared norms of the rows. Pass `sq_left` and `sq_right`.")
        K = S
        for n in self._degrees:
            K = _arc_cosine_layer(n, K, sq_left * sq_right)
            sq_left, sq_right = _arc_cosine_diag(n, sq_left), _arc_cosine_diag(n, sq_right)
        if out is None:
            return K
        out[...] = K
        return out

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        K = super()._gram(left, right)
        if right is None:
            np.fill_diagonal(K, self._diag(left))
        return K

    def layer(self) -> LayerFunction:
        """See :meth:`Kernel.layer`."""
        if len(self._degrees) > 1:
            raise InputError(
                f"ArcCosine of {len(self._degrees)} layers cannot be one layer of a deep kernel. Use one layer each."
            )
        return Angle(self._degrees[0])

    def _diag(self, table: Table) -> FloatArray:
        return reduce(lambda sq, n: _arc_cosine_diag(n, sq), self._degrees, _sq_norms(table.take()))

    def _short(self, nested: bool = False) -> str:
        layers = f", layers={self.layers}" if self.layers > 1 and not isinstance(self.degree, tuple) else ""
        return f"ArcCosine(degree={self.degree}{layers})"


def _arc_cosine_layer(n: int, K: FloatArray, sq: FloatArray) -> FloatArray:
    """Apply one layer to inner products `K` of rows whose squared norms multiply to `sq`."""
    norms = np.sqrt(sq)
    cosine = np.divide(K, norms, out=np.zeros(np.broadcast_shapes(np.shape(K), sq.shape)), where=norms > 0)
    np.clip(cosine, -1.0, 1.0, out=cosine)
    angle = np.arccos(cosine)
    left_over = np.pi - angle
    if n == 0:
        J = left_over
    elif n == 1:
        J = (np.sin(angle) + left_over * cosine) * norms
    else:
        J = (3.0 * np.sin(angle) * cosine + left_over * (1.0 + 2.0 * cosine * cosine)) * sq
    J /= np.pi
    return J


def _arc_cosine_diag(n: int, sq: FloatArray) -> FloatArray:
    if n == 0:
        return np.where(sq > 0, 1.0, 0.5)
    return sq if n == 1 else 3.0 * sq * sq


# --- other kernels ---


@dataclass(frozen=True)
class Categorical(Kernel):
    """The share of columns in which two rows agree, k(x, z) = #{j : x_j = z_j} / n_columns.

    Categorical columns are compared by category, numeric columns by value. An unknown category equals
    nothing, not even itself in another row; k(x, x) is 1 all the same.

    Notes
    -----
    On categorical columns only, the feature map is the indicator columns divided by sqrt(n_columns). It gives
    a row with unknown categories a squared norm below 1.

    Examples
    --------
    >>> Categorical()([["red", "small"], ["red", "large"]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        A = left.values.copy()
        for j, level in enumerate(left.levels):
            if level:
                A[A[:, j] < 0, j] = np.nan  # NaN equals nothing
        B = (left if right is None else right).values
        K = np.zeros((len(A), len(B)))
        for a, b in zip(A.T, B.T, strict=True):
            K += a[:, None] == b
        K /= left.n_columns
        if right is None:
            np.fill_diagonal(K, 1.0)
        return K

    def _diag(self, table: Table) -> FloatArray:
        return np.ones(table.n_rows)

    def _features(self, table: Table) -> FloatArray | None:
        return table.take() / math.sqrt(table.n_columns) if all(table.levels) else None


@dataclass(frozen=True)
class Constant(Kernel):
    """The kernel that is the same for all pairs, k(x, z) = value: a penalised intercept.

    Parameters
    ----------
    value : float, default=1.0
        > 0.

    Examples
    --------
    >>> (Linear() + 1.0)([[1.0], [2.0]])
    array([[2., 3.],
           [3., 5.]])
    """

    value: Positive = 1.0

    def __post_init__(self) -> None:
        check_fields(self, named=True)

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        out = np.empty_like(S) if out is None else out
        out[...] = self.value
        return out

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        return np.full((left.n_rows, (left if right is None else right).n_rows), self.value)

    def _diag(self, table: Table) -> FloatArray:
        return np.full(table.n_rows, self.value)

    def _features(self, table: Table) -> FloatArray:
        return np.full((table.n_rows, 1), math.sqrt(self.value))

    def _times(self, factor: float) -> Kernel:
        return Constant(self.value * check_value(FACTOR, "factor", factor, of="Constant"))

    def _short(self, nested: bool = False) -> str:
        return f"Constant({self.value:.4g})"


@dataclass(frozen=True, init=False)
class Custom(Kernel):
    """Any function of two arrays of rows.

    Parameters
    ----------
    function : callable
        ``function(X, Z)`` with float arrays (n, n_columns) and (m, n_columns), categorical columns as
        indicator columns, returns (n, m). It must be symmetric, ``function(X, X)`` up to rounding, and
        positive semidefinite; estimators check both on the training rows as long as the matrix fits in memory.
    diag : callable or None, default=None
        ``diag(X)`` returns k(x, x) for every row, (n,). None: taken from small blocks of ``function``.
    name : str or None, default=None
        For the label; by default the function's name.

    Notes
    -----
    Equal if function, diag and name are the same objects; picklable if they are.

    Examples
    --------
    >>> cosine = Custom(lambda X, Z: np.cos(X - Z.T), name="cosine")
    >>> cosine.on([1]).label
    'cosine on x1'
    >>> cosine.diag([[0.5], [2.0]])
    array([1., 1.])
    """

    function: Callable[[FloatArray, FloatArray], ArrayLike]
    diagonal: Callable[[FloatArray], ArrayLike] | None
    name: str | None

    needs_psd_check: ClassVar[bool] = True

    def __init__(
        self,
        function: Callable[[FloatArray, FloatArray], ArrayLike],
        diag: Callable[[FloatArray], ArrayLike] | None = None,
        name: str | None = None,
    ) -> None:
        for label, value in (("function", function), ("diag", diag)):
            if not callable(value) and (label == "function" or value is not None):
                raise InputError(
                    f"`{label}` of Custom must be callable, got {value!r}. Pass a function of arrays."
                )
        check_value(VIEW_NAME, "name", name, of="Custom")
        _set(self, function=function, diagonal=diag, name=name)

    def _values(self, A: FloatArray, B: FloatArray) -> FloatArray:
        return self._checked(self.function(A, B), (len(A), len(B)), "(X.shape[0], Z.shape[0])")

    def _checked(self, result: ArrayLike, shape: tuple[int, ...], formula: str) -> FloatArray:
        values = np.array(result, dtype=np.float64)
        if values.shape != shape:
            raise InputError(
                f"The function of {self._short()} must return shape {formula} = {shape}, got {values.shape}. "
                "Compute all pairs of rows."
            )
        if not np.isfinite(values).all():
            raise InputError(
                f"The function of {self._short()} must return finite values, got NaN or infinity. Fix it."
            )
        return values

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        A = left.take()
        if right is not None:
            return self._values(A, right.take())
        K = self._values(A, A)
        if not np.allclose(K, K.T, rtol=1e-8, atol=1e-10 * float(np.abs(K).max(initial=0.0))):
            worst = float(np.abs(K - K.T).max())
            raise InputError(
                f"The function of {self._short()} must be symmetric, got values that differ by {worst:.3g} "
                "when X and Z are exchanged. Average both orders."
            )
        return K

    def _diag(self, table: Table) -> FloatArray:
        A = table.take()
        if self.diagonal is not None:
            return self._checked(self.diagonal(A), (len(A),), "(X.shape[0],)")
        blocks = [A[top : top + 32] for top in range(0, len(A), 32)]
        return np.concatenate([self._values(block, block).diagonal() for block in blocks] or [np.empty(0)])

    def _short(self, nested: bool = False) -> str:
        return self.name or getattr(self.function, "__name__", None) or type(self.function).__name__

    def __repr__(self) -> str:
        diag = "" if self.diagonal is None else f", diag={self.diagonal!r}"
        return f"Custom({self.function!r}{diag}" + (f", name={self.name!r})" if self.name else ")")

    def to_dict(self) -> dict[str, Any]:
        """Raise: a function cannot be written down as plain values."""
        raise InputError(
            f"The custom kernel {self._short()!r} cannot be saved as plain values, because it is a Python "
            "function. Save the model with pickle or skops, or use built-in kernels."
        )


@dataclass(frozen=True)
class Elementwise(Kernel):
    """A function of the inner product, k(x, z) = function(x . z), with its derivative: for layers of deep kernels.

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
        values = np.asarray(self.function(S), dtype=np.float64)
        if values.shape != np.shape(S) or not np.isfinite(values).all():
            raise InputError(
                f"The function of {self._short()} must return finite values of the shape {np.shape(S)} it was given, "
                f"got shape {values.shape}. Rescale the columns if it overflows."
            )
        if out is None:
            return values
        out[...] = values
        return out

    def layer(self) -> LayerFunction:
        """See :meth:`Kernel.layer`."""
        return layers.Elementwise(self.function, self.derivative)

    def _diag(self, table: Table) -> FloatArray:
        return self.from_statistic(_sq_norms(table.take()))

    def _short(self, nested: bool = False) -> str:
        return self.name or getattr(self.function, "__name__", None) or "Elementwise"

    def to_dict(self) -> dict[str, Any]:
        """Raise: a function cannot be written down as plain values."""
        raise InputError(
            f"The kernel {self._short()!r} cannot be saved as plain values, because it is a Python function."
        )


# --- composites ---


def _is_kernel(kernel: Any, owner: str) -> Kernel:
    if not isinstance(kernel, Kernel):
        raise InputError(f"{owner} is made of kernels, got {shown(kernel)}. Pass for example RBF(gamma=0.5).")
    return kernel


@dataclass(frozen=True)
class _Terms(Kernel):
    """What sums and products share: a flat tuple of terms, folded by one operation."""

    terms: tuple[Kernel, ...]

    operation: ClassVar[np.ufunc]
    symbol: ClassVar[str]

    def __post_init__(self) -> None:
        owner = type(self)
        flat: list[Kernel] = []
        terms = listed(self.terms)
        if terms is None:
            raise InputError(
                f"The terms of {owner.__name__} must be a tuple of kernels, got {shown(self.terms)}. Pass for example "
                "(Linear(), RBF(gamma=0.5))."
            )
        for term in terms:
            _is_kernel(term, owner.__name__)
            flat.extend(term.terms if isinstance(term, owner) else (term,))
        if not flat:
            raise InputError(
                f"{owner.__name__} must have at least one term, got none. Pass a tuple of kernels."
            )
        _set(self, terms=tuple(flat))

    @property
    def needs_psd_check(self) -> bool:
        """Whether any term may fail to be positive semidefinite."""
        return any(term.needs_psd_check for term in self.terms)

    @property
    def statistic(self) -> str | None:
        """The pairwise statistic all terms share, or None."""
        if self._restricted():
            return None
        kinds = {term.statistic for term in self.terms if not isinstance(term, Constant)}
        return kinds.pop() if len(kinds) == 1 else None

    @property
    def needs_norms(self) -> bool:
        """Whether a term needs the squared norms of the rows."""
        return any(term.needs_norms for term in self.terms)

    def _fold(self, parts: Iterator[FloatArray]) -> FloatArray:
        result = next(parts)
        for part in parts:
            self.operation(result, part, out=result)
        return result

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        if self.statistic is None:
            return super().from_statistic(S)
        result = self._fold(term.from_statistic(S, sq_left, sq_right) for term in self.terms)
        if out is None:
            return result
        out[...] = result
        return out

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        if self.statistic is not None and not self.needs_norms:
            return super()._gram(left, right)
        return self._fold(term._gram(left, right) for term in self.terms)

    def _diag(self, table: Table) -> FloatArray:
        return self._fold(term._diag(table).copy() for term in self.terms)

    def _restricted(self) -> bool:
        return any(term._restricted() for term in self.terms)

    @property
    def label(self) -> str:
        """A short name for people."""
        if not self._restricted():
            return super().label
        parts = (f"({term.label})" if isinstance(term, Sum) else term.label for term in self.terms)
        return f" {self.symbol} ".join(parts)

    @property
    def view(self) -> str:
        """What the terms see; several views have "+" or "*" between them."""
        return f" {self.symbol} ".join(dict.fromkeys(term.view for term in self.terms))

    def _short(self, nested: bool = False) -> str:
        parts = (term.label if self._restricted() else term._short(nested=True) for term in self.terms)
        text = f" {self.symbol} ".join(parts)
        return f"({text})" if nested else text

    def __repr__(self) -> str:
        if len(self.terms) == 1:
            return f"{type(self).__name__}(({self.terms[0]!r},))"
        parts = (f"({term!r})" if isinstance(term, _Terms) else repr(term) for term in self.terms)
        return f" {self.symbol} ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values that JSON can hold."""
        return {"kernel": type(self).__name__.lower(), "terms": [term.to_dict() for term in self.terms]}


@dataclass(frozen=True, repr=False)
class Sum(_Terms):
    """The sum of kernels, k(x, z) = sum_t k_t(x, z); usually written ``k1 + k2``.

    Parameters
    ----------
    terms : tuple of kernels
        At least one. Sums among them are merged into this one.

    Examples
    --------
    >>> sum([Linear(), RBF(gamma=0.5)])
    Linear() + RBF(gamma=0.5)
    """

    operation: ClassVar[np.ufunc] = np.add
    symbol: ClassVar[str] = "+"

    @property
    def is_linear(self) -> bool:
        """Whether all terms are linear."""
        return all(term.is_linear for term in self.terms)

    def _features(self, table: Table) -> FloatArray | None:
        parts = [part for term in self.terms if (part := term._features(table)) is not None]
        return np.concatenate(parts, axis=1) if len(parts) == len(self.terms) else None


@dataclass(frozen=True, repr=False)
class Product(_Terms):
    """The product of kernels, k(x, z) = prod_t k_t(x, z); usually written ``k1 * k2``.

    Parameters
    ----------
    terms : tuple of kernels
        At least one. Products among them are merged into this one.

    Notes
    -----
    Positive semidefinite by Schur's theorem. The feature map is the product of the terms' features, all
    pairs, if there are at most 16 of them.

    Examples
    --------
    >>> (RBF(gamma=0.5) * Linear())([[2.0]], [[2.0]])
    array([[4.]])
    """

    operation: ClassVar[np.ufunc] = np.multiply
    symbol: ClassVar[str] = "*"

    def _features(self, table: Table) -> FloatArray | None:
        phi = np.ones((table.n_rows, 1))
        for term in self.terms:
            part = term._features(table)
            if part is None or phi.shape[1] * part.shape[1] > MAX_RANK:
                return None
            phi = (phi[:, :, None] * part[:, None, :]).reshape(table.n_rows, -1)
        return phi


@dataclass(frozen=True)
class Scaled(Kernel):
    """A positive multiple of a kernel, factor * k(x, z); usually written ``2.0 * k``.

    Parameters
    ----------
    kernel : Kernel
    factor : float
        > 0. Factors of factors are multiplied.

    Examples
    --------
    >>> 2 * (0.5 * RBF(gamma=0.5)), 3.0 * Linear().on(["age"])
    (1.0 * RBF(gamma=0.5), (3.0 * Linear()).on(['age']))
    """

    kernel: Kernel
    factor: Positive

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        kernel, factor = _is_kernel(self.kernel, "Scaled"), self.factor
        if isinstance(kernel, Scaled):
            factor = check_value(FACTOR, "factor", factor * kernel.factor, of="Scaled")
            kernel = kernel.kernel
        _set(self, kernel=kernel, factor=factor)

    @property
    def statistic(self) -> str | None:
        """The pairwise statistic of the kernel that is scaled."""
        return self.kernel.statistic

    @property
    def needs_norms(self) -> bool:
        """Whether the kernel that is scaled needs squared norms."""
        return self.kernel.needs_norms

    @property
    def needs_psd_check(self) -> bool:
        """Whether the kernel that is scaled may fail to be positive semidefinite."""
        return self.kernel.needs_psd_check

    @property
    def is_linear(self) -> bool:
        """Whether the kernel that is scaled is linear."""
        return self.kernel.is_linear

    @property
    def label(self) -> str:
        """A short name for people."""
        return f"{self.factor:.4g} * ({self.kernel.label})" if self._restricted() else super().label

    @property
    def view(self) -> str:
        """What the kernel that is scaled sees."""
        return self.kernel.view

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        out = self.kernel.from_statistic(S, sq_left, sq_right, out)
        out *= self.factor
        return out

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        K = self.kernel._gram(left, right)
        K *= self.factor
        return K

    def _diag(self, table: Table) -> FloatArray:
        return self.factor * self.kernel._diag(table)

    def _features(self, table: Table) -> FloatArray | None:
        phi = self.kernel._features(table)
        return None if phi is None else math.sqrt(self.factor) * phi

    def _restricted(self) -> bool:
        return self.kernel._restricted()

    def _short(self, nested: bool = False) -> str:
        return f"{self.factor:.4g} * {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, _Terms) else repr(self.kernel)
        return f"{self.factor!r} * {inner}"

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values that JSON can hold."""
        return {"kernel": "scaled", "base": self.kernel.to_dict(), "factor": self.factor}


@dataclass(frozen=True)
class On(Kernel):
    """A kernel restricted to some columns, k(x[columns], z[columns]); usually written ``k.on(columns)``.

    Parameters
    ----------
    kernel : Kernel
        Not restricted itself.
    columns : see :meth:`Kernel.on`
        Kept as a hashable value.
    name : str or None
        Name of the view.

    Examples
    --------
    >>> k = Linear().on([1])
    >>> k([[1.0, 2.0], [3.0, 4.0]])
    array([[ 4.,  8.],
           [ 8., 16.]])
    >>> k.columns, k.base
    ((1,), Linear())
    """

    kernel: Kernel
    columns: Selection = None
    name: str | None = None

    def __post_init__(self) -> None:
        kernel = _is_kernel(self.kernel, "On")
        if kernel._restricted():
            raise InputError(
                f"A kernel can be restricted to columns once, got {kernel!r}, which is restricted already. "
                "Call `on` on the kernel inside, with the columns it should see."
            )
        check_value(VIEW_NAME, "name", self.name, of="a view")
        _set(self, columns=freeze_columns(self.columns))

    @property
    def base(self) -> Kernel:
        """The kernel without its selection of columns."""
        return self.kernel

    @property
    def needs_psd_check(self) -> bool:
        """Whether the restricted kernel may fail to be positive semidefinite."""
        return self.kernel.needs_psd_check

    @property
    def is_linear(self) -> bool:
        """Whether the restricted kernel is linear."""
        return self.kernel.is_linear

    @property
    def label(self) -> str:
        """A short name for people."""
        if self.name:
            return f"{self.name}: {self.kernel._short()}"
        return f"{self.kernel._short(nested=True)} on {_columns_label(self.columns)}"

    @property
    def view(self) -> str:
        """The name of the view, or the columns."""
        return self.name or _columns_label(self.columns)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        return self.kernel._gram(
            left.select(self.columns), None if right is None else right.select(self.columns)
        )

    def _diag(self, table: Table) -> FloatArray:
        return self.kernel._diag(table.select(self.columns))

    def _features(self, table: Table) -> FloatArray | None:
        return self.kernel._features(table.select(self.columns))

    def _restricted(self) -> bool:
        return True

    def _times(self, factor: float) -> Kernel:
        return On(Scaled(self.kernel, factor), self.columns, self.name)

    def _short(self, nested: bool = False) -> str:
        return f"({self.label})" if nested else self.label

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, (_Terms, Scaled)) else repr(self.kernel)
        name = "" if self.name is None else f", name={self.name!r}"
        return f"{inner}.on({_columns_repr(self.columns)}{name})"

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values that JSON can hold."""
        columns: Any = self.columns
        if isinstance(columns, ColumnSlice):
            columns = {"slice": [columns.start, columns.stop, columns.step]}
        elif isinstance(columns, ColumnMask):
            columns = {"mask": list(columns.values)}
        elif columns is not None:
            columns = list(columns)
        return {"kernel": "on", "base": self.kernel.to_dict(), "columns": columns, "name": self.name}


def _columns_repr(columns: Selection) -> str:
    if isinstance(columns, ColumnSlice):
        return f"slice({columns.start!r}, {columns.stop!r}, {columns.step!r})"
    if isinstance(columns, ColumnMask):
        return repr(list(columns.values))
    return repr(columns if columns is None else list(columns))


def _columns_label(columns: Selection) -> str:
    if columns is None:
        return "all"
    if isinstance(columns, ColumnSlice):
        ends = ("" if end is None else str(end) for end in (columns.start, columns.stop))
        return "columns " + ":".join(ends) + ("" if columns.step is None else f":{columns.step}")
    if isinstance(columns, ColumnMask):
        columns = tuple(np.flatnonzero(columns.values).tolist())
    names = [c if isinstance(c, str) else f"x{c}" if c >= 0 else f"column {c}" for c in columns]
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]}, ... ({len(names)} columns)"


# --- reading kernels from plain values and text ---

_LEAVES: dict[str, type[Kernel]] = {
    "linear": Linear,
    "polynomial": Polynomial,
    "rbf": RBF,
    "laplacian": Laplacian,
    "arccosine": ArcCosine,
    "categorical": Categorical,
    "constant": Constant,
}
_ALIASES = {"poly": "polynomial", "gaussian": "rbf", "arc_cosine": "arccosine"}


def from_dict(description: Mapping[str, Any]) -> Kernel:
    """Read the description that :meth:`Kernel.to_dict` wrote.

    Raises
    ------
    InputError
        For unknown kernels and parameters; the known ones are listed.

    Examples
    --------
    >>> from_dict({"kernel": "rbf", "gamma": 0.5})
    RBF(gamma=0.5)
    """
    if not isinstance(description, Mapping) or "kernel" not in description:
        raise InputError(
            f"A kernel is described by a dict with the key 'kernel', got {description!r}. See to_dict."
        )
    values = dict(description)
    kind = check_known(values.pop("kernel"), [*_LEAVES, "on", "product", "scaled", "sum"], "kernel")
    if kind in _LEAVES:
        return _build(kind, (), {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    parts = {"on": {"base", "columns", "name"}, "scaled": {"base", "factor"}}.get(kind, {"terms"})
    if set(values) != parts:
        raise InputError(
            f"The description of {kind!r} must have the keys {sorted(parts)}, got {sorted(values)}."
        )
    if kind == "scaled":
        return Scaled(from_dict(values["base"]), values["factor"])
    if kind == "on":
        columns = values["columns"]
        if isinstance(columns, Mapping):
            columns = slice(*columns["slice"]) if "slice" in columns else list(columns["mask"])
        return On(from_dict(values["base"]), columns, values["name"])
    return (Sum if kind == "sum" else Product)(tuple(map(from_dict, values["terms"])))


def _build(kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kernel:
    """Make a kernel from its short name, with an error that lists its parameters."""
    cls = _LEAVES[kind]
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for key in kwargs:
        if not known:
            raise InputError(f"Kernel {kind!r} has no parameters, got {key!r}. Leave it out.")
        check_known(key, known, f"parameter of kernel {kind!r}")
    if len(args) > len(known) or set(known[: len(args)]) & set(kwargs):
        raise InputError(f"Kernel {kind!r} takes the parameters {known} once each, got {args} and {kwargs}.")
    return cls(*args, **kwargs)


def parse(text: str) -> Kernel:
    """Read a kernel from text, for the command line and configuration files.

    Parameters
    ----------
    text : str
        Names in any case, with parameters in parentheses where they are not the defaults; sums, products and
        positive factors; and ``.on([...])``. What ``repr`` of a built-in kernel prints can be read back. The
        text is read as data, never executed.

    Raises
    ------
    InputError
        For anything else, saying which part was not understood.

    Examples
    --------
    >>> parse("rbf(gamma=0.5)"), parse("poly(degree=2)"), parse("linear")
    (RBF(gamma=0.5), Polynomial(degree=2, coef0=1.0, gamma=1.0), Linear())
    >>> parse("linear + 2.0 * rbf(0.5).on(['age', 'bmi'])").label
    'Linear on all + 2 * RBF(gamma=0.5) on age, bmi'
    """
    if not isinstance(text, str) or not text.strip() or len(text) > 10_000:
        raise InputError(
            f"A kernel is given as text of 1 to 10000 characters, got {text!r:.60}. Try 'rbf(gamma=0.5)'."
        )
    try:
        tree = ast.parse(text.strip(), mode="eval")
        kernel = _read_node(tree.body, text)
    except InputError:
        raise
    except (SyntaxError, RecursionError, MemoryError, OverflowError, ValueError, TypeError):
        raise InputError(
            f"Cannot read the kernel {text!r:.200}. Write it like 'rbf(gamma=0.5)' or 'linear'."
        ) from None
    if not isinstance(kernel, Kernel):
        raise InputError(f"{text!r:.200} is a number, not a kernel. Write for example 'constant({kernel})'.")
    return kernel


def _read_node(node: ast.expr, text: str) -> Kernel | float:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _read_node(node.left, text), _read_node(node.right, text)
        return left + right if isinstance(node.op, ast.Add) else left * right
    if isinstance(node, ast.Name):
        return _build(_kind(node.id), (), {})
    if isinstance(node, ast.Call) and all(keyword.arg for keyword in node.keywords):
        args = tuple(_read_literal(arg, text) for arg in node.args)
        kwargs = {str(keyword.arg): _read_literal(keyword.value, text) for keyword in node.keywords}
        if isinstance(node.func, ast.Name):
            return _build(_kind(node.func.id), args, kwargs)
        columns_once = bool(args) != ("columns" in kwargs)
        readable = columns_once and len(args) + len(kwargs) <= 2 and set(kwargs) <= {"columns", "name"}
        if isinstance(node.func, ast.Attribute) and node.func.attr == "on" and readable:
            inner = _read_node(node.func.value, text)
            if isinstance(inner, Kernel):
                return inner.on(*args, **kwargs)
    raise InputError(
        f"Cannot read {ast.unparse(node)!r:.100} in the kernel {text!r:.200}. Write it like "
        "'rbf(gamma=0.5)', '2.0 * linear + poly(degree=2)' or \"linear.on(['age'])\"."
    )


def _kind(name: str) -> str:
    lower = name.lower()
    return check_known(_ALIASES.get(lower, lower), [*_LEAVES, *_ALIASES], "kernel")


def _read_literal(node: ast.expr, text: str) -> Any:
    """Read a number, string, None, or list of these; and slice(a, b, c)."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "slice" and not node.keywords:
        ends = [_read_literal(arg, text) for arg in node.args]
        if 1 <= len(ends) <= 3:
            return slice(*ends)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise InputError(
            f"Cannot read the value {ast.unparse(node)!r:.100} in the kernel {text!r:.200}. Values are "
            "numbers, quoted strings and lists of them."
        ) from None
