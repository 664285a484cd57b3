"""Sets of kernel weights, and their operations for solvers.

A `Region` has a projection, for projected gradients. A `WeightSet` is convex and bounded, and has a support function
``sigma(q) = max <weights, q>``, for certificates. Steps that need more operations require a class of sets: Newton and
the interior point a `ShareSet`, the closed form an `AlternatingSet`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, TypeAlias, cast

import numpy as np

from kernelweave._checks import InputError
from kernelweave._docstrings import InheritedTexts
from kernelweave._loops import core
from kernelweave._parameters import InstanceOf, Number, OneOf, ReadableSignature, check_fields, check_value
from kernelweave._types import Array
from kernelweave.mkl.certify import OUTSIDE
from kernelweave.results import Statement

__all__ = [
    "AlternatingSet",
    "CappedSimplex",
    "ElasticNet",
    "LpBall",
    "Orthant",
    "Parameters",
    "Region",
    "ShareSet",
    "Simplex",
    "Sphere",
    "WeightSet",
    "as_weight_set",
]

#: Weights below this are rounding errors of zero.
ROUNDING_THRESHOLD = 1e-14
#: Most Newton iterations for the shares of a projection.
MOST_NEWTON = 200
#: Vectors at which the formulas of a set of a user's own are compared, and the error of a maximum or minimum there, as
#: a share of it.
COMPARED, FORMULA_ERROR = 5, 1e-6


class Region(InheritedTexts, ABC):
    """Nonnegative weights, convex or not, bounded or not."""

    __signature__ = ReadableSignature()

    @abstractmethod
    def project(self, v: Array) -> Array:
        """The nearest point of the region.

        Parameters
        ----------
        v : array of shape (n_kernels,)
            Any vector.
        """

    def start(self, n_kernels: int) -> Array:
        """Equal weights.

        Parameters
        ----------
        n_kernels : int
            Number of kernels.
        """
        return self.project(np.full(n_kernels, 1.0 / n_kernels))

    def scaled(self, v: Array) -> Array:
        """`project`, scaled to the reported one of equivalent multiples.

        Parameters
        ----------
        v : array of shape (n_kernels,)
            Any vector.
        """
        return self.project(v)


class WeightSet(Region):
    """A convex and bounded set: a gap over it is a certificate.

    A set of your own derives from `AlternatingSet` or `ShareSet`, which have a step, and is a frozen dataclass. It has
    `best` and `project`; an `AlternatingSet` also `fixed_point`, and a `ShareSet` `of_shares`, `shares` and `slopes`,
    unless its weights are their shares. `check` is needed where the set is empty for some parameters or numbers of
    kernels. `support` and `start` follow from `best` and `project`. Formulas that contradict each other are refused.
    """

    #: Whether weights of its solutions may vanish.
    sparse: ClassVar[bool] = False

    @abstractmethod
    def best(self, q: Array) -> Array:
        """A maximiser of ``<weights, q>`` for q >= 0.

        Parameters
        ----------
        q : array of shape (n_kernels,)
            Gains of the kernels, at least 0.
        """

    def support(self, q: Array) -> float:
        """``max <weights, q>`` over the set, for q >= 0.

        Parameters
        ----------
        q : array of shape (n_kernels,)
            Gains of the kernels, at least 0.
        """
        return float(self.best(q) @ q)

    def check(self, n_kernels: int) -> None:
        """Raise if the set is empty for that many kernels.

        Parameters
        ----------
        n_kernels : int
            Number of kernels.
        """

    def in_statement(self, problem: Statement) -> Statement:
        """A problem with this set in numbers.

        Parameters
        ----------
        problem : Statement
            Problem without its set of weights.
        """
        value = next((float(getattr(self, f.name)) for f in fields(cast(Any, self))), None)
        return replace(problem, weight_set=type(self).__name__, set_value=value)

    def violation(self, weights: Array) -> float:
        """Distance from the set, per coordinate.

        Parameters
        ----------
        weights : array of shape (n_kernels,)
            Weights of the kernels.
        """
        return float(np.abs(weights - self.project(weights)).max())

    def gain(self, weights: Array, q: Array, error: Array | float = 0.0) -> float:
        """``support(q) - <weights, q>`` for weights of the set; raises `InputError` where it is negative.

        q may have an error.

        Parameters
        ----------
        weights : array of shape (n_kernels,)
            Weights of the kernels.
        q : array of shape (n_kernels,)
            Gains of the kernels, at least 0.
        error : float or array of shape (n_kernels,)
            Largest error of q.
        """
        highest, level = self.support(q), float(weights @ q)
        slack = OUTSIDE * float(np.abs(weights).max() * np.abs(q).sum()) + float(np.sum(weights * error))
        if level - highest > slack:
            raise InputError(
                f"The formulas of {type(self).__name__} disagree: support(q), the largest <weights, q> over the set, "
                f"is {highest:.6g}, and weights of the set have {level:.6g}. Mend `best` or `support`, or `project` if "
                f"these weights are outside: {np.array2string(weights, precision=4, threshold=6)}."
            )
        return highest - level

    def check_formulas(self, n_kernels: int) -> None:
        """Raise where formulas leave the set, or other points of it are better than the best.

        Parameters
        ----------
        n_kernels : int
            Number of kernels.
        """
        rng, name = np.random.default_rng(0), type(self).__name__
        with np.errstate(all="ignore"):
            forms = np.abs(rng.standard_t(2, size=(COMPARED, n_kernels)))
            places = rng.normal(size=(COMPARED, n_kernels)) / n_kernels**0.5
            tried = {
                "start(n_kernels)": [self.start(n_kernels)],
                "project(v)": [self.project(v) for v in places],
            }
            tried |= {"best(q)": [self.best(q) for q in forms], **self._further(forms)}
            for method, points in tried.items():
                for d in points:
                    if np.shape(d) != (n_kernels,) or not (np.isfinite(d).all() and (d >= 0.0).all()):
                        raise InputError(
                            f"`{method}` of {name} must return {n_kernels} weights >= 0, got {d!r}. If the set is "
                            "empty for these parameters, raise an InputError in `check(n_kernels)`."
                        )
                    if not self.violation(d) <= OUTSIDE * float(d.max()):
                        raise InputError(
                            f"The formulas of {name} disagree: `{method}` is not in the set, as `project` moves it by "
                            f"{self.violation(d):.3g}. Mend either, or if the set is empty for these parameters, raise "
                            "an InputError in `check(n_kernels)`."
                        )
            inside = np.array([d for points in tried.values() for d in points])
            for q, best in zip(forms, tried["best(q)"], strict=True):
                for d in inside:
                    self.gain(d, q)
                if not self.gain(best, q) <= FORMULA_ERROR * float(best @ q):
                    raise InputError(
                        f"The formulas of {name} disagree: support(q) is {self.support(q):.6g}, and <best(q), q> only "
                        f"{float(best @ q):.6g}. Mend `support` or `best`."
                    )
            for norms, d in zip(forms, tried.get("fixed_point(norms)", []), strict=False):
                value, least = ((np.square(norms) / at).sum(axis=-1) for at in (d, inside))
                if value > (1.0 + FORMULA_ERROR) * least.min():
                    raise InputError(
                        f"`fixed_point` of {name} must return the least sum(norms**2 / weights) over the set, got "
                        f"{value:.6g}, where other weights have {least.min():.6g}."
                    )

    def _further(self, forms: Array) -> dict[str, list[Array]]:
        """Points of the set by other formulas, which are named."""
        return {}


class AlternatingSet(WeightSet):
    """A set with a formula for the best weights of given norms, which the closed form alternates with a machine.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, kernelweave as kw
    >>> @dataclass(frozen=True)
    ... class Ball(kw.weight_sets.AlternatingSet):
    ...     radius: float = 1.0
    ...     def check(self, n_kernels):
    ...         if not self.radius > 0:
    ...             raise kw.InputError(f"`radius` must be above 0, got {self.radius}.")
    ...     def best(self, q):
    ...         return self.radius * q / np.linalg.norm(q) if q.any() else self.start(len(q))
    ...     def project(self, v):
    ...         v = np.maximum(v, 0)
    ...         return v * min(1.0, self.radius / max(np.linalg.norm(v), 1e-300))
    ...     def fixed_point(self, norms):
    ...         return self.best(norms ** (2 / 3))
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> problem = kw.Problem(X[:, None, :] * X[None, :, :], np.sign(X[:, 0]), loss="hinge", weights=Ball(2.0))
    >>> kw.solve(problem).status
    Status.CONVERGED
    """

    @abstractmethod
    def fixed_point(self, norms: Array) -> Array:
        """``argmin sum_m norms_m^2 / d_m`` over the set.

        Parameters
        ----------
        norms : array of shape (n_kernels,)
            Norms of the parts of the function.
        """

    def _further(self, forms: Array) -> dict[str, list[Array]]:
        return {**super()._further(forms), "fixed_point(norms)": [self.fixed_point(q) for q in forms]}


class ShareSet(WeightSet):
    """Weights ``d_m = phi(s_m)`` of shares s >= 0 that sum to 1, none above `largest`, and all smaller weights.

    phi is increasing and concave with phi(0) = 0, so that the optimal value of a machine is convex in the shares, too.
    Newton and the interior point use shares, which by default are the weights.
    """

    sparse: ClassVar[bool] = True
    #: Whether phi is not the identity, whose values and slopes need no call.
    bent: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Note whether there are formulas for phi."""
        super().__init_subclass__(**options)
        formulas = "of_shares", "shares", "slopes"
        cls.bent = any(getattr(cls, name) is not getattr(ShareSet, name) for name in formulas)

    @property
    def largest(self) -> float:
        """The largest admissible share."""
        return 1.0

    @property
    def fewest(self) -> int:
        """The least number of kernels with a share."""
        return math.ceil(1.0 / self.largest - 1e-12)

    def _further(self, forms: Array) -> dict[str, list[Array]]:
        shares = forms / forms.sum(axis=1, keepdims=True)
        # towards equal ones until the largest is admissible
        equal = 1.0 / forms.shape[1]
        most = shares.max(axis=1, keepdims=True)
        shares = equal + np.minimum(1.0, (self.largest - equal) / np.maximum(most - equal, 1e-12)) * (
            shares - equal
        )
        return {**super()._further(forms), "of_shares(shares)": [self.of_shares(s) for s in shares]}

    def has_interior(self, n_kernels: int) -> bool:
        """Whether the set is more than a point, or there is only one kernel.

        Parameters
        ----------
        n_kernels : int
            Number of kernels.
        """
        return n_kernels == 1 or self.largest * n_kernels > 1.0 + 1e-9

    def start(self, n_kernels: int) -> Array:
        """Equal shares.

        Parameters
        ----------
        n_kernels : int
            Number of kernels.
        """
        return self.of_shares(np.full(n_kernels, 1.0 / n_kernels))

    def of_shares(self, shares: Array) -> Array:
        """The weights phi(s).

        Parameters
        ----------
        shares : array of shape (n_kernels,)
            Shares of the kernels.
        """
        return shares

    def shares(self, weights: Array) -> Array:
        """The shares of weights, with sum 1 on the outer boundary and less inside.

        Parameters
        ----------
        weights : array of shape (n_kernels,)
            Weights of the kernels.
        """
        return weights

    def slopes(self, shares: Array) -> tuple[Array, Array]:
        """First and second derivative of phi.

        Parameters
        ----------
        shares : array of shape (n_kernels,)
            Shares of the kernels.
        """
        return np.ones(len(shares)), np.zeros(len(shares))

    def newton(self, H: Array, linear: Array, start: Array, level: float) -> Array:
        """Minimise ``1/2 s'H s + linear's`` over the shares, up to a common factor.

        Parameters
        ----------
        H : array of shape (n, n)
            Second derivatives, a positive semidefinite matrix.
        linear, start : arrays of shape (n,)
            The linear term, and shares to start from.
        level : float
            Size of the gradient, for tolerances.
        """
        if self.largest >= 1.0:
            # an active-set method
            x = start.copy()
            core.simplex_qp(H, linear, x, 1e-13, 20 * len(x) + 100)
            return x
        # two-coordinate descent
        x = np.clip(start / start.sum(), 0.0, self.largest)
        x[np.argmin(x)] += 1.0 - x.sum()
        gradient = H @ x + linear
        zero, cap = np.zeros(len(x)), np.full(len(x), self.largest)
        core.box_smo(H, zero, zero.copy(), cap, 0.0, x, gradient, 1e-12 * max(level, 1e-300), 100_000, False)
        return x


@dataclass(frozen=True)
class Simplex(ShareSet):
    """Nonnegative, sum 1: a few kernels."""

    largest = 1.0
    fewest = 1

    def project(self, v: Array) -> Array:
        """Euclidean projection by the algorithm of Duchi and others (2008), O(n log n)."""
        # the projection does not change with a common shift, and rounding is smallest near zero
        v = v - v.max()
        u = np.sort(v)[::-1]
        excess = np.cumsum(u) - 1.0
        last = int(np.flatnonzero(u * np.arange(1, len(u) + 1) > excess)[-1])
        return _without_rounding(v - excess[last] / (last + 1))

    def best(self, q: Array) -> Array:
        """All weight on the largest."""
        out = np.zeros(len(q))
        out[int(np.argmax(q))] = 1.0
        return out

    def support(self, q: Array) -> float:
        """The largest entry."""
        return float(q.max())


@dataclass(frozen=True)
class CappedSimplex(ShareSet, AlternatingSet):
    """Nonnegative, sum 1, none above `cap`: soft-margin MKL. At 1 / n_kernels the average, at 1 the simplex.

    Attributes
    ----------
    cap : float
        Upper bound of each weight.
    """

    cap: Annotated[float, Number(above=0, most=1)]

    @property
    def largest(self) -> float:
        """The cap."""
        return self.cap

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
        # gaps beyond the cap have the same effect for any length: shortening them saves digits
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
        out = _without_rounding(np.minimum(v - high, self.cap))
        # the remainder of the bisection is added to the coordinates inside
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

    def fixed_point(self, norms: Array) -> Array:
        """Proportional to the norms, with the largest at the cap."""
        order = np.argsort(-norms, kind="stable")
        descending = norms[order]
        tail = np.r_[np.cumsum(descending[::-1])[::-1], 0.0]
        out = np.zeros(len(norms))
        for held in range(len(norms)):
            rest = 1.0 - held * self.cap
            if rest <= 0.0:
                break
            if tail[held] <= 0.0:
                # fewer kernels have norms than the cap needs: the others share the rest
                out[held:] = rest / (len(norms) - held)
                break
            if descending[held] * rest / tail[held] <= self.cap * (1 + 1e-12):
                out[held:] = descending[held:] * rest / tail[held]
                break
            out[held] = self.cap
        result = np.empty(len(norms))
        result[order] = np.minimum(out, self.cap)
        return result / result.sum()


@dataclass(frozen=True)
class LpBall(AlternatingSet):
    """Nonnegative with p-norm at most 1, p > 1: all kernels, more evenly the larger p; at infinity their sum.

    Attributes
    ----------
    p : float
        Exponent of the norm.
    """

    p: Annotated[float, Number(above=1, infinite=True, remedy="For p = 1 use the simplex.")]

    def check(self, n_kernels: int) -> None:
        """Raise unless p > 1; for p = 1 use the simplex."""
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
        return (
            top * float(np.sum((np.maximum(q, 0.0) / top) ** exponent)) ** (1.0 / exponent)
            if top > 0
            else 0.0
        )

    def start(self, n_kernels: int) -> Array:
        """Equal weights of p-norm 1."""
        return np.full(n_kernels, n_kernels ** (-1.0 / self.p))

    def fixed_point(self, norms: Array) -> Array:
        """``weights_m ~ norms_m^(2 / (p + 1))``."""
        top = float(norms.max())
        if top == 0.0:
            return self.start(len(norms))
        shape = (norms / top) ** (2.0 / (self.p + 1.0))
        return shape / float(np.sum(shape**self.p)) ** (1.0 / self.p)

    def project(self, v: Array) -> Array:
        """Scale the nonnegative part onto the ball: not the Euclidean projection unless p = 2."""
        w = np.maximum(v, 0.0)
        top = float(w.max())
        if top == 0.0:
            return w
        size = top * float(np.linalg.norm(w / top, self.p))
        return w / size if size > 1.0 else w


@dataclass(frozen=True)
class ElasticNet(ShareSet, AlternatingSet):
    """``d_m = s_m / (mix + (1 - mix) s_m)`` with shares s >= 0 of sum 1, and all smaller weights: elastic-net MKL.

    Near mix = 1 the simplex, near 0 the sum of all kernels. The smallest ``sum_m |f_m|^2 / d_m`` over these weights is
    ``mix (sum_m |f_m|)^2 + (1 - mix) sum_m |f_m|^2``, the elastic net of the norms of f's parts. The set is convex,
    as it is ``sum_m mix d_m / (1 - (1 - mix) d_m) <= 1``.

    Attributes
    ----------
    mix : float
        Between the sum of all kernels (0) and the simplex (1).
    """

    mix: Annotated[
        float,
        Number(
            above=0, below=1, remedy="For mix = 1 use the simplex, for mix = 0 LpBall(p) with p = infinity."
        ),
    ]

    def check(self, n_kernels: int) -> None:
        """Raise unless 0 < mix < 1."""
        check_fields(self)

    def of_shares(self, shares: Array) -> Array:
        """``s_m / (mix + (1 - mix) s_m)``."""
        return shares / (self.mix + (1.0 - self.mix) * shares)

    def shares(self, weights: Array) -> Array:
        """``mix d_m / (1 - (1 - mix) d_m)``."""
        return self.mix * weights / (1.0 - (1.0 - self.mix) * weights)

    def slopes(self, shares: Array) -> tuple[Array, Array]:
        """``mix / (mix + (1 - mix) s_m)^2`` and its derivative."""
        below = self.mix + (1.0 - self.mix) * shares
        first = self.mix / np.square(below)
        return first, -2.0 * (1.0 - self.mix) * first / below

    def best(self, q: Array) -> Array:
        """``mix + (1 - mix) s_m ~ sqrt(q_m)`` for the kernels with a share."""
        root = np.sqrt(np.maximum(q, 0.0) / max(float(q.max()), np.finfo(float).tiny))
        order = np.argsort(-root, kind="stable")
        number = np.arange(1, len(root) + 1)
        mean = np.cumsum(root[order]) / number
        # those whose root is large enough relative to the mean of it and all before
        last = int(
            np.flatnonzero(root[order] * (1.0 - self.mix + number * self.mix) >= self.mix * number * mean)[-1]
        )
        shares = np.zeros(len(root))
        if mean[last] <= 0.0:
            return self.start(len(root))
        own = order[: last + 1]
        ratio = root[own] / mean[last]
        shares[own] = np.maximum(ratio / number[last] + self.mix / (1.0 - self.mix) * (ratio - 1.0), 0.0)
        return self.of_shares(shares / shares.sum())

    def fixed_point(self, norms: Array) -> Array:
        """Shares proportional to the norms."""
        total = float(norms.sum())
        return self.of_shares(norms / total) if total > 0.0 else self.start(len(norms))

    def project(self, v: Array) -> Array:
        """Euclidean projection: the root of the multiplier, and for each of its values the shares by Newton."""
        v = np.maximum(v, 0.0)
        if v.max() <= 1.0 and self.shares(v).sum() <= 1.0:
            return v
        size = max(float(v.max()), 1.0)
        order = np.argsort(-v, kind="stable")
        u, mix = v[order] / size, self.mix

        def shares(multiplier: float) -> Array:
            """Of ``s / t + multiplier t^2 / mix = v`` with ``t = mix + (1 - mix) s``, none above 1."""
            s = np.where(u > mix * multiplier, 1.0, 0.0)
            # times t it is convex in s: from the right, Newton does not pass the root
            for _ in range(MOST_NEWTON):
                t = mix + (1.0 - mix) * s
                value = s / size + multiplier * t**3 / mix - u * t
                slope = 1.0 / size + (1.0 - mix) * (3.0 * multiplier * t**2 / mix - u)
                falls = (s > 0.0) & (value > 0.0)
                after = np.where(falls, np.maximum(s - value / np.where(falls, slope, 1.0), 0.0), s)
                if np.array_equal(after, s):
                    break
                s = after
            return s

        from scipy.optimize import brentq

        # at the boundary there may be nothing to subtract
        root, most = 0.0, float(u[0]) / mix
        if shares(0.0).sum() > 1.0:
            root = brentq(lambda x: float(shares(x).sum()) - 1.0, 0.0, most, xtol=1e-300, rtol=1e-15)
        out = np.zeros(len(v))
        found = shares(root)
        out[order] = found / found.sum()
        return self.of_shares(out)


@dataclass(frozen=True)
class Sphere(Region):
    """Nonnegative with Euclidean norm 1. Not convex: used if the scale of the weights does not matter."""

    def project(self, v: Array) -> Array:
        """Exact unless no coordinate is positive; then the largest one is used."""
        w = np.maximum(v, 0.0)
        size = float(np.linalg.norm(w))
        if size == 0.0:
            w[int(np.argmax(v))] = size = 1.0
        return w / size


@dataclass(frozen=True)
class Orthant(Region):
    """Nonnegative; scaled to sum 1 after every step, which has no effect if the scale does not matter."""

    def project(self, v: Array) -> Array:
        """The nonnegative part."""
        w = np.maximum(v, 0.0)
        return w if w.any() else np.full(len(v), 1.0 / len(v))

    def scaled(self, v: Array) -> Array:
        """With sum 1."""
        w = self.project(v)
        return w / w.sum()

    def start(self, n_kernels: int) -> Array:
        """Equal weights."""
        return np.full(n_kernels, 1.0 / n_kernels)


@dataclass(frozen=True)
class Parameters(Orthant):
    """Between bounds, each in its own unit: parameters of a family of kernels instead of weights.

    Parameters
    ----------
    lower : float or array of shape (n_parameters,), default=0
        The smallest value of each parameter.
    upper : float or array of shape (n_parameters,), default=inf
        The largest value of each parameter.
    """

    lower: float | Array = 0.0
    upper: float | Array = math.inf

    def project(self, v: Array) -> Array:
        """The nearest parameters between the bounds, which may be zero."""
        return np.clip(v, self.lower, self.upper)

    def scaled(self, v: Array) -> Array:
        """The scale matters."""
        return self.project(v)


#: What functions take as `weight_set`, and problems as `weights`.
WEIGHTS = OneOf("simplex") | InstanceOf(
    (WeightSet,), "a convex and bounded set of weights such as weight_sets.LpBall(2)"
)
GivenWeightSet: TypeAlias = Annotated[str | WeightSet, WEIGHTS]


def as_weight_set(weights: str | WeightSet, n_kernels: int) -> WeightSet:
    """Return a weight set from ``"simplex"`` or an object, after checking it for the number of kernels.

    Parameters
    ----------
    weights : {"simplex"} or WeightSet
        What problems take as `weights`. The formulas of a set of your own are checked against each other.
    n_kernels : int
        Number of kernels, for which the set must not be empty.

    Returns
    -------
    WeightSet
    """
    if isinstance(weights, WeightSet):
        value = weights
    else:
        check_value(WEIGHTS, "weights", weights)
        value = Simplex()
    value.check(n_kernels)
    if not type(value).__module__.startswith("kernelweave."):
        value.check_formulas(n_kernels)
    return value


def _without_rounding(w: Array) -> Array:
    """Zero for negative values and rounding errors: a weight of 1e-16 would count as active."""
    return np.where(w > ROUNDING_THRESHOLD, w, 0.0)
