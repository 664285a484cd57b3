"""Layers of kernels: weighted sums of functions of the kernel below, with reverse-mode derivatives.

Any kernel that is a function of inner products can be evaluated in the feature space of another kernel K, see
`kernelweave.functions`. A layer is

    K'(x, z) = sum_k w_k phi_k(K(x, z), K(x, x), K(z, z)) ,

with every term divided by ``sqrt(phi_k(x, x) phi_k(z, z))`` under cosine normalisation. Diagonals are stored with the
matrices, so that kernels between new and old rows need nothing else.

This module is written against the array API and works on NumPy arrays and on tensors. For NumPy arrays there are
compiled loops for the standard functions; the code here is then their oracle.

References
----------
I. Rebai, Y. BenAyed, W. Mahdi, Deep multilayer multiple kernel learning, Neural Computing and Applications (2015),
equations (13) and (20). The published chain rule leaves out the diagonals; here it is complete.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._devices import namespace_of
from kernelweave._loops import HAS_EXTENSION, core
from kernelweave._parameters import LARGEST_NUMBER
from kernelweave._threads import threads_for
from kernelweave._types import Array
from kernelweave.functions import KernelFunction
from kernelweave.results import Solution

__all__ = ["DeepSolution", "FirstLayer", "Layers", "Tape", "TrainedLayers"]


@dataclass(eq=False)
class Tape:
    """Results of a forward pass for the backward pass.

    Attributes
    ----------
    kernels : list of arrays (n, n)
        From the sum of base kernels to the last layer. Only the last needs its lower triangle.
    diagonals : list of arrays (n,)
    weights : list of arrays (n_functions,)
    roots : list of lists of arrays (n,)
        Inverse roots of the functions' diagonals, of every layer.
    units : list of lists of arrays (n,)
        Diagonals of the normalised functions.
    """

    kernels: list[Any]
    diagonals: list[Any]
    weights: list[Array]
    roots: list[list[Any]] = field(default_factory=list)
    units: list[list[Any]] = field(default_factory=list)

    @property
    def top(self) -> Any:
        """The last kernel, symmetric."""
        return self.kernels[-1]


@dataclass(frozen=True, eq=False)
class Layers:
    """The functions of every layer above the sum of base kernels.

    Attributes
    ----------
    functions : tuple of tuples of KernelFunction
        One tuple per layer, the lowest first.
    cosine : bool
        Divide every function by the roots of its diagonal, so that its own diagonal is 1.
    """

    functions: tuple[tuple[KernelFunction, ...], ...]
    cosine: bool = True

    def __len__(self) -> int:
        return len(self.functions)

    @cached_property
    def _codes(self) -> dict[int, tuple[NDArray[np.int64], Array]]:
        """Numbers and parameters of the compiled loops, of the layers that have them."""
        return {
            depth: (
                np.array([f.layer_code for f in layer], dtype=np.int64),
                np.array([f.layer_numbers() for f in layer]),
            )
            for depth, layer in enumerate(self.functions)
            if all(f.layer_code is not None for f in layer)
        }

    def _is_compiled(self, K: Any, depth: int) -> bool:
        return (
            HAS_EXTENSION
            and isinstance(K, np.ndarray)
            and K.dtype == np.float64
            and K.flags.c_contiguous
            and depth in self._codes
        )

    def diagonals(self, kappa: Any, weights: Sequence[Array]) -> list[Any]:
        """The diagonal below every layer and that of the last one, each of shape (n,)."""
        return self.climb(kappa, weights)[0]

    def climb(
        self, kappa: Any, weights: Sequence[Array], xp: Any = None
    ) -> tuple[list[Any], list[list[Any]], list[list[Any]]]:
        """Diagonals, and for every layer those of the normalised functions and their normalising factors."""
        xp = namespace_of(kappa) if xp is None else xp
        out, units, roots = [kappa], [], []
        for layer, w in zip(self.functions, weights, strict=True):
            raw, factors = self._own(xp, layer, out[-1])
            if self.cosine:
                raw = [xp.where(u > 0, xp.ones_like(u), xp.zeros_like(u)) for u in raw]
            units.append(raw)
            roots.append(factors)
            out.append(_sum([float(v) * d for v, d in zip(w, raw, strict=True)]))
        return out, units, roots

    def _own(self, xp: Any, layer: Sequence[KernelFunction], kappa: Any) -> tuple[list[Any], list[Any]]:
        """Diagonals of the functions, and their factors on either side."""
        raw = [f.own_value(xp, kappa) for f in layer]
        if not self.cosine:
            return raw, [xp.ones_like(u) for u in raw]
        # where a diagonal is zero, so is the whole row
        safe = [xp.where(u > 0, u, xp.ones_like(u)) for u in raw]
        return raw, [
            xp.where(u > 0, 1.0 / xp.sqrt(v), xp.zeros_like(u)) for u, v in zip(raw, safe, strict=True)
        ]

    def forward(self, K: Any, kappa: Any, weights: Sequence[Array], workspace: Tape | None = None) -> Tape:
        """Compute every layer on the training rows.

        Parameters
        ----------
        K : array of shape (n, n)
            The weighted sum of base kernels; NumPy arrays need only their upper triangle (the rest is overwritten).
        kappa : array of shape (n,)
            Its diagonal.
        weights : sequence of arrays (n_functions,)
        workspace : Tape, optional
            Tape of an earlier pass over as many rows, whose matrices are used again.
        """
        xp = namespace_of(K)
        with np.errstate(over="ignore"):
            diagonals, units, roots = self.climb(kappa, weights)
        for depth, diagonal in enumerate(diagonals):
            largest = float(xp.max(xp.abs(diagonal)))
            # squares and cubes of the next layer, or a machine, would lose all digits
            if not largest <= LARGEST_NUMBER:
                raise InputError(
                    f"The kernel of layer {depth + 1} reaches {largest:.1e} on its diagonal, too large to continue. "
                    "Use cosine normalisation between the layers, or scale the base kernels."
                )
        kernels = [K]
        for depth, (layer, w) in enumerate(zip(self.functions, weights, strict=True)):
            below, kappa = kernels[-1], diagonals[depth]
            if self._is_compiled(below, depth):
                out = np.empty_like(below) if workspace is None else workspace.kernels[depth + 1]
                threads = threads_for(len(below))
                core.layer_forward(
                    below,
                    kappa,
                    *self._codes[depth],
                    np.ascontiguousarray(w),
                    np.stack(roots[depth]),
                    out,
                    threads,
                )
            else:
                _complete(below)
                out = self.cross_layer(xp, layer, w, below, kappa, kappa)
            kernels.append(_with_diagonal(xp, out, diagonals[depth + 1]))
        _complete(kernels[-1])
        return Tape(kernels, diagonals, [np.array(w) for w in weights], roots, units)

    def cross_layer(
        self, xp: Any, layer: Sequence[KernelFunction], w: Array, K: Any, left: Any, right: Any
    ) -> Any:
        """The kernel above a (cross) kernel with the diagonals of its rows and columns."""
        terms = [float(v) * B for v, B in zip(w, self.terms(xp, layer, w, K, left, right), strict=True) if v]
        return _sum(terms) if terms else xp.zeros_like(K)

    def terms(
        self, xp: Any, layer: Sequence[KernelFunction], w: Array, K: Any, left: Any, right: Any
    ) -> Iterator[Any]:
        """Normalised functions of a (cross) kernel, one at a time; None for those without weight."""
        rows, columns = (self._own(xp, layer, d)[1] for d in (left, right))
        for f, v, a, b in zip(layer, w, rows, columns, strict=True):
            if not v:
                yield None
                continue
            u = f.layer_value(xp, K, left[:, None], right[None, :])
            yield u * a[:, None] * b[None, :] if self.cosine else u

    def backward(self, tape: Tape, H: Any) -> tuple[list[Array], Any]:
        """Propagate the derivative by the last kernel back to the weights and to the sum of base kernels.

        Parameters
        ----------
        tape : Tape
        H : array of shape (n, n)
            Symmetric derivative of a number by the entries of ``tape.top``. Overwritten. NumPy arrays need only their
            upper triangle.

        Returns
        -------
        gradients : list of arrays (n_functions,)
            Lowest layer first.
        H : array of shape (n, n)
            Derivative by ``tape.kernels[0]``; of NumPy arrays only the upper triangle counts.
        """
        gradients: list[Array] = []
        for depth in range(len(self.functions) - 1, -1, -1):
            gradient, H = self._backward_layer(tape, depth, H)
            gradients.insert(0, gradient)
        return gradients, H

    def _backward_layer(self, tape: Tape, depth: int, H: Any) -> tuple[Array, Any]:
        layer, w = self.functions[depth], tape.weights[depth]
        K, kappa, roots = tape.kernels[depth], tape.diagonals[depth], tape.roots[depth]
        xp = namespace_of(K)
        own = _diagonal_of(xp, H)
        if self._is_compiled(K, depth):
            half, along, across = np.empty(len(layer)), np.empty((len(layer), len(K))), np.empty(len(K))
            threads = threads_for(len(K))
            core.layer_backward(
                K,
                kappa,
                *self._codes[depth],
                np.ascontiguousarray(w),
                np.stack(roots),
                H,
                half,
                along,
                across,
                threads,
            )
            below, twice, sums = H, 2.0 * half, list(along)
        else:
            _complete(K)
            _complete(H)
            none = xp.zeros_like(own)
            H = _with_diagonal(xp, H, none)
            below, across = xp.zeros_like(K), xp.zeros_like(kappa)
            twice, sums = np.zeros(len(layer)), []
            left, right = kappa[:, None], kappa[None, :]
            for k, (f, v, r) in enumerate(zip(layer, w, roots, strict=True)):
                u = f.layer_value(xp, K, left, right)
                g = H * r[:, None] * r[None, :] if self.cosine else H
                sums.append(xp.sum(g * u, axis=1))
                twice[k] = float(xp.sum(sums[-1]))
                if v:
                    # where rows meet themselves g is 0, and a derivative by the distance may be infinite
                    with np.errstate(divide="ignore", invalid="ignore"):
                        inner, norm = f.layer_partials(xp, K, left, right, u)
                        below = below + float(v) * finite(xp, f, _with_diagonal(xp, g * inner, none))
                        if norm is not None:
                            by_norm = finite(xp, f, _with_diagonal(xp, g * norm, none))
                            across = across + float(v) * xp.sum(by_norm, axis=1)
        diagonal = 2.0 * across
        gradient = np.empty(len(layer))
        for k, (f, v, r, unit) in enumerate(zip(layer, w, roots, tape.units[depth], strict=True)):
            gradient[k] = float(twice[k]) + float(xp.sum(own * unit))
            if v:
                # the diagonal of a normalised function is constant, but its root divides all other entries
                by_value = -sums[k] * r * r if self.cosine else own
                with np.errstate(divide="ignore", invalid="ignore"):
                    slope = finite(xp, f, f.own_slope(xp, kappa))
                diagonal = diagonal + float(v) * by_value * slope
        return gradient, _with_diagonal(xp, below, diagonal)


def finite(xp: Any, function: KernelFunction, derivative: Any) -> Any:
    """A derivative of a function; raises `InputError` where it is infinite or NaN."""
    if not bool(xp.all(xp.isfinite(derivative))):
        raise InputError(
            f"The `gradient` of {function!r} must be finite for pairs of different rows, got infinity or NaN. Return 0 "
            "at a distance of 0: rows that are equal stay equal for all weights."
        )
    return derivative


def _sum(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _complete(K: Any) -> None:
    """Copy the upper triangle of a NumPy array onto the lower one; tensors are always complete."""
    if isinstance(K, np.ndarray):
        core.mirror(K, threads_for(len(K)))


def _diagonal_of(xp: Any, K: Any) -> Any:
    if isinstance(K, np.ndarray):
        return K.diagonal().copy()
    return xp.linalg.diagonal(K) + 0.0


def _with_diagonal(xp: Any, K: Any, diagonal: Any) -> Any:
    """K with another diagonal; NumPy arrays are changed in place."""
    if isinstance(K, np.ndarray):
        K.flat[:: len(K) + 1] = diagonal
        return K
    n = K.shape[0]
    index = xp.arange(n, device=K.device)
    return xp.where(index[:, None] == index[None, :], diagonal[:, None], K)


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """A function for each kernel, whose values are the inputs of the layers above: ``K_m(x, X) @ coef[:, m]``.

    Attributes
    ----------
    coef : array of shape (n_samples, n_kernels)
        With the factors of the kernels.
    values : array of shape (n_samples, n_kernels)
        At the training rows.
    """

    coef: Array = field(repr=False)
    values: Array = field(repr=False)

    def inner(self, new: Any, xp: Any = np) -> tuple[Any, Any]:
        """Inner products of outputs of new rows (n_rows, n_kernels) with those of training rows, and squared norms."""
        return new @ np.ascontiguousarray(self.values.T), xp.sum(new * new, axis=1)


@dataclass(frozen=True, eq=False)
class TrainedLayers:
    """Layers with their weights and the diagonals of the training rows, for predictions.

    Attributes
    ----------
    functions : tuple of tuples of KernelFunction
    cosine : bool
    weights : tuple of arrays (n_functions,)
    diagonals : tuple of arrays (n_samples,)
        Below every layer.
    first : FirstLayer or None
        Outputs of single kernels below the layers, in place of the feature space of a weighted sum.
    """

    functions: tuple[tuple[KernelFunction, ...], ...]
    cosine: bool
    weights: tuple[Array, ...] = field(repr=False)
    diagonals: tuple[Array, ...] = field(repr=False)
    first: FirstLayer | None = field(default=None, repr=False)

    @property
    def layers(self) -> Layers:
        """The functions without their weights."""
        return Layers(self.functions, self.cosine)

    def cross(self, K: Any, kappa: Any, xp: Any = None) -> Any:
        """The last kernel between new rows and training rows.

        Parameters
        ----------
        K : array of shape (n_rows, n_samples)
            Sum of base kernels.
        kappa : array of shape (n_rows,)
            Its values k(x, x) of the new rows.
        xp : namespace, optional
            Of the arrays; by default their own.
        """
        return self._up_to(len(self.functions), K, kappa, namespace_of(K) if xp is None else xp)[0]

    def last_terms(self, K: Array, kappa: Array) -> Iterator[tuple[int, Array]]:
        """Yield (k, weighted function k of the last layer) between new rows and training rows; see `cross`."""
        functions, w = self.functions[-1], self.weights[-1]
        K, own = self._up_to(len(self.functions) - 1, K, kappa, np)
        for k, term in enumerate(self.layers.terms(np, functions, w, K, own, self.diagonals[-1])):
            if term is not None:
                yield k, float(w[k]) * term

    def _up_to(self, depth: int, K: Any, kappa: Any, xp: Any) -> tuple[Any, Any]:
        """The kernel below a layer, and the values k(x, x) of the new rows there."""
        layers = self.layers
        own = layers.climb(kappa, self.weights, xp)[0]
        for layer, w, left, right in zip(
            self.functions[:depth], self.weights, own, self.diagonals, strict=False
        ):
            K = layers.cross_layer(xp, layer, w, K, left, right)
        return K, own[depth]


@dataclass(frozen=True, repr=False, eq=False)
class DeepSolution(Solution):
    """Weights of a deep kernel: a local solution.

    `weights` are those of the base kernels; ``gap`` certifies the machine on the last layer, not the weights.

    Attributes
    ----------
    upper : TrainedLayers or None
        The upper layers; None for a single layer.
    layer_weights : tuple of arrays
        Weights of every layer, the lowest first; empty if only the base kernels have learnt weights.
    value : float
        The criterion.
    radius2 : float or None
        Squared radius of the minimum enclosing ball of the learnt kernel, NaN if the criterion uses none; None
        if no criterion of the learner does.
    """

    upper: TrainedLayers | None = None
    layer_weights: tuple[Array, ...] = ()
    value: float = math.nan
    radius2: float | None = None
