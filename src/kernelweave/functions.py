"""A kernel as a formula of one statistic of a pair of rows, on arrays of any kind: for tables, layers and graphs.

A formula is written once, against the array API: ``xp`` is the namespace of the arrays. With NumPy it fills Gram
matrices, with tensors or NumPy it is a function in a layer of a deep kernel, and with the nodes of an ONNX graph it is
a part of that graph.

A kernel that is a function of inner products can be evaluated in the feature space of another kernel K: ``x . z``
becomes ``K(x, z)``, and ``||x - z||^2`` becomes ``K(x, x) + K(z, z) - 2 K(x, z)``. The methods `layer_value`,
`layer_partials`, `own_value` and `own_slope` do that; they take inner products, and the squared norms of the rows on
the left and on the right, in shapes that broadcast. The compiled loops of layers have the same formulas, and these are
their oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import AnyArray

__all__ = ["Exponential", "KernelFunction", "power", "squared_distances"]


class KernelFunction:
    """A formula of a statistic of a pair of rows, and what follows from it.

    Subclasses have `statistic` and `formula`, and `gradient` if they may be layers of deep kernels.
    """

    #: The statistic of a pair: "dot", "sqdist" or "l1"; None if there is no formula.
    statistic: ClassVar[Any] = None
    #: Number of the compiled loop of layers; None if there is none.
    layer_code: ClassVar[Any] = None

    def layer_numbers(self) -> tuple[float, float]:
        """Parameters of the compiled loop."""
        return (0.0, 0.0)

    def formula(self, xp: ModuleType, S: AnyArray, left: AnyArray, right: AnyArray) -> AnyArray:
        """Values from the statistic.

        Parameters
        ----------
        xp : module
            Module of the arrays, such as NumPy.
        S : array
            The statistic of pairs of rows; not changed.
        left, right : arrays that broadcast against S
            Squared norms of the rows on either side, for a kernel that `needs_norms`.
        """
        raise InputError(
            f"{self!r} is not a function of one pairwise statistic. Call it on the table instead."
        )

    def gradient(self, xp: ModuleType, S: AnyArray, value: AnyArray) -> AnyArray:
        """Derivative of the formula by the statistic.

        Parameters
        ----------
        xp : module
            Module of the arrays, such as NumPy.
        S : array
            The statistic of pairs of rows; not changed.
        value : array of the shape of S
            Values of the formula there; not changed.

        Returns
        -------
        array of the shape of S
            The diagonal of a matrix is not used: the squared distance of a row to itself is always 0, so that the
            derivative may be infinite there. For inner products it is also called with the squared norms of the rows,
            which have one dimension. Anywhere else layers refuse what is not finite.
        """
        raise InputError(
            f"The formula of {self!r} has no derivative, so it cannot be a layer of a deep kernel."
        )

    # ---- in the feature space of another kernel ---------------------------------------------------

    def layer_value(self, xp: ModuleType, K: AnyArray, left: AnyArray, right: AnyArray) -> AnyArray:
        """Values from inner products; K is not changed, and may be returned.

        Parameters
        ----------
        xp : module
            Module of the arrays, such as NumPy.
        K : array
            Inner products, or values of the layer before.
        left : array
            Squared norms of the rows of K, as a column.
        right : array
            Squared norms of the columns of K, as a row.
        """
        S = K if self.statistic == "dot" else squared_distances(xp, K, left, right)
        return self.formula(xp, S, left, right)

    def layer_partials(
        self, xp: ModuleType, K: AnyArray, left: AnyArray, right: AnyArray, value: AnyArray
    ) -> tuple[AnyArray, AnyArray | None]:
        """Derivatives by K and by `left`; None for a derivative that is zero. Entries on the diagonal are not used.

        Parameters
        ----------
        xp : module
            Module of the arrays, such as NumPy.
        K : array
            Inner products, or values of the layer before.
        left : array
            Squared norms of the rows of K, as a column.
        right : array
            Squared norms of the columns of K, as a row.
        value : array
            What `layer_value` returned.
        """
        if self.statistic == "dot":
            return self.gradient(xp, K, value), None
        by_distance = self.gradient(xp, squared_distances(xp, K, left, right), value)
        return -2.0 * by_distance, by_distance

    def own_value(self, xp: ModuleType, kappa: AnyArray) -> AnyArray:
        """The values of rows with themselves, from their squared norms.

        Parameters
        ----------
        xp : module
            Module of the arrays, such as NumPy.
        kappa : array
            Squared norms of the rows, or values of the layer before with themselves.
        """
        return self.formula(xp, kappa if self.statistic == "dot" else xp.zeros_like(kappa), kappa, kappa)

    def own_slope(self, xp: ModuleType, kappa: AnyArray) -> AnyArray:
        """Derivative of `own_value`.

        Parameters
        ----------
        xp : module
            Module of the arrays, such as NumPy.
        kappa : array
            Squared norms of the rows, or values of the layer before with themselves.
        """
        if self.statistic != "dot":
            return xp.zeros_like(kappa)
        return self.gradient(xp, kappa, self.own_value(xp, kappa))


@dataclass(frozen=True)
class Exponential(KernelFunction):
    """``exp(K)``, the second layer of 2LMKL. Its cosine normalisation is `RBF` with gamma 1/2."""

    statistic: ClassVar[str] = "dot"
    layer_code: ClassVar[int] = 4

    def formula(self, xp, S, left, right):
        return xp.exp(S)

    def gradient(self, xp, S, value):
        return value


def power(x: AnyArray, exponent: int) -> AnyArray:
    """A whole power >= 1 by repeated squaring, which is faster than that of arrays, and exact where x is."""
    result, square = None, x
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        square = square * square if exponent else square
    return result


def squared_distances(
    xp: ModuleType, K: AnyArray, left: AnyArray, right: AnyArray, out: AnyArray | None = None
) -> AnyArray:
    """``left + right - 2 K``: the squared distances from inner products, never negative.

    Parameters
    ----------
    xp : array API namespace
    K : array
        Inner products.
    left, right : arrays that broadcast against K
        Squared norms of the rows on either side.
    out : array, optional
        NumPy only: the array for the distances; may be K itself.

    Returns
    -------
    array of the shape of K
        Exactly symmetric if K is. Negative values by rounding are set to zero.
    """
    D = left - K
    rest = np.subtract(right, K, out=out) if isinstance(K, np.ndarray) else right - K
    rest += D
    return np.clip(rest, 0.0, None, out=rest) if isinstance(rest, np.ndarray) else xp.clip(rest, 0.0, None)
