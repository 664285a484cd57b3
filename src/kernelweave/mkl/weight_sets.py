"""Sets in which kernel weights are sought: what solvers ask of them.

A convex set is known by its support function ``sigma(q) = max <weights, q>``, which is what a certificate needs, and by
its projection, which is what projected gradients need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, check_known
from kernelweave._parameters import Number, check_fields

Array = NDArray[np.float64]
#: What rounding leaves of a weight that is zero.
DUST = 1e-14


class WeightSet(ABC):
    """Nonnegative weights with a constraint on their size."""

    #: Whether a gap over this set is a certificate.
    convex: ClassVar[bool] = True

    @abstractmethod
    def project(self, v: Array) -> Array:
        """The nearest point of the set."""

    @abstractmethod
    def best(self, q: Array) -> Array:
        """A maximiser of ``<weights, q>`` for q >= 0."""

    def support(self, q: Array) -> float:
        """``max <weights, q>`` over the set, for q >= 0."""
        return float(self.best(q) @ q)

    def start(self, n_kernels: int) -> Array:
        """Equal weights."""
        return self.project(np.full(n_kernels, 1.0 / n_kernels))

    def check(self, n_kernels: int) -> None:  # noqa: B027  most sets fit any number
        """Raise when the set is empty for that many kernels."""

    def violation(self, weights: Array) -> float:
        """Distance from the set, per coordinate."""
        return float(np.abs(weights - self.project(weights)).max())


@dataclass(frozen=True)
class Simplex(WeightSet):
    """Nonnegative, sum 1: a few kernels."""

    def project(self, v: Array) -> Array:
        """Euclidean projection (Duchi et al. 2008), O(n log n)."""
        return _onto_simplex(v)

    def best(self, q: Array) -> Array:
        """All weight on the largest."""
        out = np.zeros(len(q))
        out[int(np.argmax(q))] = 1.0
        return out


@dataclass(frozen=True)
class CappedSimplex(WeightSet):
    """Nonnegative, sum 1, none above `cap`: soft-margin MKL. At 1 / n_kernels the average, at 1 the simplex.

    Attributes
    ----------
    cap : float
    """

    cap: Annotated[float, Number(above=0, most=1)]

    def check(self, n_kernels: int) -> None:
        """The cap must let the weights sum to 1."""
        check_fields(self)
        if self.cap < 1.0 / n_kernels - 1e-12:
            raise InputError(
                f"`cap`, the largest weight, must lie between 1 / n_kernels = {1.0 / n_kernels:.4g} and 1, got "
                f"{self.cap}. At 1 it is the simplex."
            )

    def project(self, v: Array) -> Array:
        """Euclidean projection by bisection of the shift, to rounding."""
        # gaps beyond the cap act alike, whatever their length: shortened, they cost no digits
        order = np.argsort(v)
        steps = np.minimum(np.diff(v[order], prepend=v[order[0]]), 2.0 * self.cap)
        v = np.empty_like(v)
        v[order] = np.cumsum(steps)
        low, high = float(v.min()) - self.cap, float(v.max())
        for _ in range(100):
            middle = 0.5 * (low + high)
            if np.clip(v - middle, 0.0, self.cap).sum() > 1.0:
                low = middle
            else:
                high = middle
        out = _without_dust(np.minimum(v - high, self.cap))
        # what bisection leaves goes to the coordinates inside
        inside = (out > 0) & (out < self.cap)
        if inside.any():
            out[inside] += (1.0 - out.sum()) / inside.sum()
        return np.clip(out, 0.0, self.cap)

    def best(self, q: Array) -> Array:
        """The cap on the largest, the rest on the next."""
        out = np.zeros(len(q))
        order = np.argsort(-q, kind="stable")
        full = min(int(np.floor(1.0 / self.cap + 1e-12)), len(q))
        out[order[:full]] = self.cap
        if full < len(q):
            out[order[full]] = max(0.0, 1.0 - full * self.cap)
        return out


@dataclass(frozen=True)
class LpBall(WeightSet):
    """Nonnegative with p-norm at most 1, p > 1: all kernels, more evenly the larger p; at infinity their sum.

    Attributes
    ----------
    p : float
    """

    p: Annotated[float, Number(above=1, infinite=True, remedy="For p = 1 use the simplex.")]

    def check(self, n_kernels: int) -> None:
        """Raise unless p > 1; at p = 1 the simplex is meant."""
        check_fields(self)

    def best(self, q: Array) -> Array:
        """``weights_m ~ q_m^(1 / (p - 1))``, Hölder's case of equality."""
        top = float(q.max())
        if top <= 0.0:
            return np.full(len(q), len(q) ** (-1.0 / self.p))
        shape = (np.maximum(q, 0.0) / top) ** (1.0 / (self.p - 1.0))
        return shape / float(np.linalg.norm(shape, self.p))

    def support(self, q: Array) -> float:
        """The dual norm ``|q|_(p / (p - 1))``."""
        top = float(q.max())
        exponent = 1.0 / (1.0 - 1.0 / self.p)
        return top * float(np.linalg.norm(np.maximum(q, 0.0) / top, exponent)) if top > 0 else 0.0

    def start(self, n_kernels: int) -> Array:
        """Equal weights of p-norm 1."""
        return np.full(n_kernels, n_kernels ** (-1.0 / self.p))

    def project(self, v: Array) -> Array:
        """Scale the nonnegative part onto the ball: not the Euclidean projection unless p = 2."""
        w = np.maximum(v, 0.0)
        top = float(w.max())
        if top == 0.0:
            return w
        size = top * float(np.linalg.norm(w / top, self.p))
        return w / size if size > 1.0 else w


@dataclass(frozen=True)
class Sphere(WeightSet):
    """Nonnegative with Euclidean norm 1. Not convex: used where the scale of the weights does not matter."""

    convex: ClassVar[bool] = False

    def project(self, v: Array) -> Array:
        """Exact unless no coordinate is positive; then the largest is taken."""
        w = np.maximum(v, 0.0)
        size = float(np.linalg.norm(w))
        if size == 0.0:
            w[int(np.argmax(v))] = size = 1.0
        return w / size

    def best(self, q: Array) -> Array:
        """Proportional to q."""
        return self.project(q)


@dataclass(frozen=True)
class Orthant(WeightSet):
    """Nonnegative; scaled to sum 1 after every step, which changes nothing where the scale does not matter."""

    convex: ClassVar[bool] = False

    def project(self, v: Array) -> Array:
        """The nonnegative part."""
        w = np.maximum(v, 0.0)
        return w if w.any() else np.full(len(v), 1.0 / len(v))

    def best(self, q: Array) -> Array:
        """Unbounded: there is none."""
        raise NotImplementedError

    def start(self, n_kernels: int) -> Array:
        """Equal weights."""
        return np.full(n_kernels, 1.0 / n_kernels)


WEIGHT_SETS = {"simplex": Simplex()}


def as_weight_set(value: str | WeightSet, n_kernels: int) -> WeightSet:
    """Return a weight set from ``"simplex"`` or an object, after checking that it fits the number of kernels."""
    if isinstance(value, str):
        value = WEIGHT_SETS[check_known(value, WEIGHT_SETS, "weight_set")]
    if not isinstance(value, WeightSet):
        raise InputError(f"`weight_set` must be 'simplex' or a weight set such as LpBall(2), got {value!r}.")
    value.check(n_kernels)
    return value


def _onto_simplex(v: Array) -> Array:
    # the projection does not change when all entries move together, and rounding is least near zero
    v = v - v.max()
    u = np.sort(v)[::-1]
    excess = np.cumsum(u) - 1.0
    last = int(np.flatnonzero(u * np.arange(1, len(u) + 1) > excess)[-1])
    return _without_dust(v - excess[last] / (last + 1))


def _without_dust(w: Array) -> Array:
    """Zero for what is negative or rounding: a weight of 1e-16 would count as active."""
    return np.where(w > DUST, w, 0.0)
