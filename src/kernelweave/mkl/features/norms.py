"""What a set of kernel weights makes of the norms of blocks: a penalty, and quadratic models with it.

    Omega(w) = 1/2 min_d sum_m ||w_m||^2 / d_m        over the set of weights d .

On the simplex this is ``1/2 (sum_m ||w_m||)^2``, whose quadratic models blocks descend in turn. For the other sets the
models are minimised over the weights, of which there are few: at weights d the coefficients solve one linear system.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from kernelweave._loops import core
from kernelweave._types import Array, Index
from kernelweave.mkl.weight_sets import CappedSimplex, ElasticNet, LpBall, ShareSet, Simplex, WeightSet

#: Share of the largest gradient from which blocks are taken at the beginning, and of the level with others.
FIRST, NEAR = 0.9, 0.97
#: Steps of the weights of a model, those without a smaller gap, and the shortest.
STEPS, PATIENCE, SHORTEST = 60, 5, 1e-4
#: The required share of the expected decrease, and the share of a value that is rounding.
SUFFICIENT, EPS = 1e-4, 1e-13
#: The largest change of the logarithm of a weight in a step.
LONGEST = 20.0
#: Sweeps at a time, and Newton steps after them.
SWEEPS, NEWTON_STEPS = 12, 12
#: Rounds of both.
ROUNDS = 12
#: Most columns of a system.
LARGEST = 6000


class Model:
    """``1/2 w'C w - q'w + mix/2 (sum_m ||w_m||)^2`` over some blocks."""

    def __init__(self, C: Array, q: Array, mix: float, offsets: Index, *, turn: bool = True) -> None:
        self.mix, self.offsets = mix, offsets
        self.turns: list[tuple[slice, Array]] = []
        runs = np.flatnonzero(np.diff(np.diff(offsets))) + 1
        for first, last in pairwise([0, *runs.tolist(), len(offsets) - 1]) if turn else ():
            width, own = int(offsets[first + 1] - offsets[first]), slice(offsets[first], offsets[last])
            if width > 1:
                starts = range(own.start, own.stop, width)
                blocks = np.stack([C[at : at + width, at : at + width] for at in starts])
                self.turns.append((own, np.linalg.eigh(blocks)[1]))
        self.q = self.turned(q) if self.turns else q
        self.C = self.turned(self.turned(C).T) if self.turns else C
        self.h = np.maximum(np.diag(self.C), 0.0)

    def turned(self, A: Array) -> Array:
        """Coordinates of arrays (n_columns, ...) in which C is diagonal within blocks."""
        out = np.array(A, order="C")
        for own, turn in self.turns:
            part = out[own].reshape(len(turn), turn.shape[1], -1)
            out[own] = np.matmul(turn.transpose(0, 2, 1), part).reshape(out[own].shape)
        return out

    def turned_back(self, w: Array) -> Array:
        """The inverse of `turned`."""
        out = w.copy()
        for own, turn in self.turns:
            part = out[own].reshape(len(turn), turn.shape[1], 1)
            out[own] = np.matmul(turn, part).reshape(-1)
        return out

    def norms(self, w: Array) -> Array:
        """Norms of the blocks."""
        return np.sqrt(np.add.reduceat(np.square(w), self.offsets[:-1]))

    def value(self, w: Array) -> float:
        """The model's value."""
        level = float(self.norms(w).sum())
        return 0.5 * float(w @ (self.C @ w)) - float(self.q @ w) + 0.5 * self.mix * level * level

    def gap(self, w: Array) -> float:
        """The distance of the value from a bound."""
        norms, G = self.norms(w), self.q - self.C @ w
        level = float(norms.sum())
        highest = float(self.norms(G).max())
        return max(0.0, 0.5 * self.mix * level * level + 0.5 * highest * highest / self.mix - float(w @ G))

    def minimise(self, start: Array, aim: float, extent: float) -> Array:
        """Sweeps over the blocks, and Newton steps on those with coefficients, until the gap is at most `aim`.

        `extent` is a size of the objective, for the compiled loop's own measure.
        """
        w = self.turned(start)
        chosen = np.arange(len(self.offsets) - 1)
        best, least = w, np.inf
        for round_ in range(ROUNDS):
            W = w[None].copy()
            norms = self.norms(w)
            fit = float(w @ (self.C @ w))
            # the squared length of targets that have these products, as far as it matters
            total = 2.0 * abs(float(self.q @ w)) + fit + extent
            primal = 0.5 * total - float(self.q @ w) + 0.5 * fit + 0.5 * self.mix * float(norms.sum()) ** 2
            core.blocks_on_products(
                self.C, self.offsets, chosen, self.h, self.q[None].copy(), total, W, norms,
                (self.q - self.C @ w)[None].copy(), self.mix, 0.5 * aim / primal, SWEEPS * (1 + round_),
            )  # fmt: skip
            for refined in (lambda x: x, self._newton):
                w = refined(W[0])
                gap = self.gap(w)
                if gap < least:
                    best, least = w, gap
                if gap <= aim:
                    return self.turned_back(best)
        return self.turned_back(best)

    def _newton(self, w: Array) -> Array:
        """Newton steps on the blocks with coefficients."""
        norms = self.norms(w)
        widths = np.diff(self.offsets)
        active = np.flatnonzero(norms)
        own = np.flatnonzero(np.repeat(norms > 0, widths))
        if not 0 < len(own) <= LARGEST:
            return w
        C, q, width = self.C[np.ix_(own, own)], self.q[own], widths[active]
        offsets = np.r_[0, np.cumsum(width)]
        x = w[own]
        part = Model(C, q, self.mix, offsets, turn=False)
        value = part.value(x)
        for _ in range(NEWTON_STEPS):
            norms = part.norms(x)
            if not (norms > 0).all():
                break
            level = float(norms.sum())
            unit = x / np.repeat(norms, width)
            gradient = C @ x - q + self.mix * level * unit
            H = C + self.mix * np.outer(unit, unit)
            bend = self.mix * level / norms
            for m in np.flatnonzero(width > 1):
                at = slice(offsets[m], offsets[m + 1])
                H[at, at] += bend[m] * (np.eye(width[m]) - np.outer(unit[at], unit[at]))
            try:
                step = cho_solve(cho_factor(H, lower=True, overwrite_a=True, check_finite=False), -gradient)
            except LinAlgError:
                break
            slope = float(gradient @ step)
            if not slope < 0.0:
                break
            t, after = 1.0, value
            while t > 1e-3:
                after = part.value(x + t * step)
                if after <= value + 1e-4 * t * slope:
                    break
                t *= 0.5
            if not after < value:
                break
            x, gain, value = x + t * step, value - after, after
            if gain <= 1e-14 * abs(value) or -slope <= 1e-15 * abs(value):
                break
        out = np.zeros_like(w)
        out[own] = x
        return out


class Norm(ABC):
    """The penalty of a set of weights.

    Attributes
    ----------
    ridge : float
        What it adds to the second derivative of a model.
    everywhere : bool
        Whether all blocks with a gradient have coefficients at a solution.
    fewest : int
        Blocks among which there is always a point of the set.
    """

    weight_set: WeightSet
    ridge: float = 0.0
    everywhere: bool = False
    fewest: int = 1

    @abstractmethod
    def value(self, norms: Array) -> float:
        """Omega for the norms of all blocks."""

    @abstractmethod
    def level(self, norms: Array) -> float:
        """The largest gradient at which a block without coefficients stays so."""

    def weights(self, norms: Array, reach: Array) -> Array:
        """The best weights for coefficients with these norms; for none, those for gradients with norms `reach`."""
        if norms.any():
            return self.weights_of(norms)
        if reach.any():
            return self.weight_set.best(np.square(reach))
        return self.weight_set.start(len(norms))

    @abstractmethod
    def weights_of(self, norms: Array) -> Array:
        """The best weights for coefficients with these norms, which are not all zero."""

    def entering(
        self,
        norms: Array,
        reach: Array,
        inside: NDArray[np.bool_],
        widths: Index,
        most: float,
        near: float = NEAR,
    ) -> Index:
        """Blocks outside of a working set that could gain, those that gain most first.

        Parameters
        ----------
        norms : array
            Those of the coefficients.
        reach : array of shape (n_kernels,)
            Norms of the blocks of the gradient.
        inside : array of bool, shape (n_kernels,)
            The working set.
        widths : array of int, shape (n_kernels,)
        most : float
            Columns that may join at once, unless a single block has more.
        near : float
            Share of the level from which blocks join where one is above it.
        """
        if self.everywhere:
            found = np.flatnonzero(reach > 0.0)
            return found[~inside[found]] if len(found) else np.array([0])
        level = self.level(norms)
        if level == 0.0 and norms.any():
            reach = np.where(inside, 0.0, reach)
        top = float(reach.max())
        if level == 0.0:
            found = np.flatnonzero(reach >= FIRST * top) if top > 0 else np.array([0])
            if len(found) < self.fewest:
                found = np.argsort(-reach, kind="stable")[: self.fewest]
        else:
            if near < NEAR:
                # between two solutions the gradients of blocks with coefficients differ from the level
                level = min(level, float(np.sort(reach[inside])[-np.count_nonzero(norms) :].mean()))
            found = np.flatnonzero(reach > near * level) if top > level else np.empty(0, dtype=np.int64)
        found = found[~inside[found]]
        found = found[np.argsort(-reach[found], kind="stable")]
        count = int(np.searchsorted(np.cumsum(widths[found]), most, side="right"))
        return found[: max(self.fewest, count)]

    @abstractmethod
    def minimise(self, C: Array, q: Array, offsets: Index, start: Array, aim: float, extent: float) -> Array:
        """Minimise ``1/2 w'C w - q'w + Omega(w)`` to a gap; C has the ridge, and q is without it.

        Parameters
        ----------
        C : array of shape (n_columns, n_columns)
        q, start : arrays of shape (n_columns,)
        offsets : array of int, shape (n_blocks + 1,)
        aim : float
        extent : float
            A size of the objective.
        """


class SumOfNorms(Norm):
    """``1/2 mix (sum_m ||w_m||)^2 + 1/2 (1 - mix) sum_m ||w_m||^2``: the simplex and the elastic net."""

    weight_set: ShareSet

    def __init__(self, weight_set: ShareSet, mix: float) -> None:
        self.weight_set, self.mix, self.ridge = weight_set, mix, 1.0 - mix

    def value(self, norms: Array) -> float:
        """Omega."""
        return 0.5 * self.mix * float(norms.sum()) ** 2 + 0.5 * (1.0 - self.mix) * float(norms @ norms)

    def level(self, norms: Array) -> float:
        """The largest gradient of a block without coefficients."""
        return self.mix * float(norms.sum())

    def weights_of(self, norms: Array) -> Array:
        """Shares proportional to the norms."""
        return self.weight_set.of_shares(norms / float(norms.sum()))

    def minimise(self, C: Array, q: Array, offsets: Index, start: Array, aim: float, extent: float) -> Array:
        """Sweeps over the blocks, and Newton steps on those with coefficients."""
        return Model(C, q, self.mix, offsets).minimise(start, aim, extent)


class OverWeights(Norm):
    """A penalty whose models are minimised over the weights: see `System`."""

    weight_set: CappedSimplex | LpBall

    def value(self, norms: Array) -> float:
        """Omega, by the best weights."""
        used = norms > 0
        if not used.any():
            return 0.0
        d = self.weight_set.fixed_point(norms)
        return 0.5 * float((np.square(norms[used]) / d[used]).sum())

    def weights_of(self, norms: Array) -> Array:
        """The closed form."""
        return self.weight_set.fixed_point(norms)

    def minimise(self, C: Array, q: Array, offsets: Index, start: Array, aim: float, extent: float) -> Array:
        """Newton steps for the weights, or the closed form where these do not help."""
        norms = np.sqrt(np.add.reduceat(np.square(start), offsets[:-1]))
        system = System(C, q, offsets)
        d = self._begin(norms)
        at = system.at(d)
        gap = least = self._gap(at, d)
        best, idle = at, 0
        for _ in range(STEPS):
            if gap <= aim or idle > PATIENCE:
                break
            found = self._nearer(system, at, d, gap)
            if found is None:
                # never worse: these weights are the best for the coefficients
                d = self.weight_set.fixed_point(at.norms)
                after = system.at(d)
            else:
                d, after = found
            # to the last digits of the value the gap still falls
            at, gap = after, self._gap(after, d)
            idle = 0 if gap < 0.9 * least else idle + 1
            if gap < least:
                best, least = at, gap
        return best.w

    def _nearer(self, system: System, at: At, d: Array, gap: float) -> tuple[Array, At] | None:
        """Weights on the way of a Newton step with a smaller value, or none."""
        aimed = self._step(system, at, d)
        if aimed is None:
            return None
        slope, t = max(0.0, 0.5 * float(at.squares @ (aimed - d))), 1.0
        while t > SHORTEST:
            nearer = self._between(d, aimed, t)
            tried = system.at(nearer)
            if tried.value <= at.value - SUFFICIENT * t * slope:
                return nearer, tried
            if tried.value <= at.value + EPS * abs(at.value) and self._gap(tried, nearer) < 0.5 * gap:
                return nearer, tried
            t *= 0.3
        return None

    def _gap(self, at: At, d: Array) -> float:
        return 0.5 * max(0.0, self.weight_set.support(at.squares) - float(d @ at.squares))

    def _begin(self, norms: Array) -> Array:
        """Weights to begin with."""
        return self.weight_set.fixed_point(norms) if norms.any() else self.weight_set.start(len(norms))

    @abstractmethod
    def _step(self, system: System, at: At, d: Array) -> Array | None:
        """Weights to which a Newton step leads; None if there is none."""

    def _between(self, d: Array, aimed: Array, t: float) -> Array:
        return d + t * (aimed - d)


class Capped(OverWeights):
    """The capped simplex: blocks at the cap have a ridge, the others the square of the sum of their norms."""

    weight_set: CappedSimplex

    def __init__(self, weight_set: CappedSimplex) -> None:
        self.weight_set, self.fewest = weight_set, weight_set.fewest

    def level(self, norms: Array) -> float:
        """The largest gradient of a block without coefficients: 0 while weight is left over."""
        if int(np.count_nonzero(norms)) * self.weight_set.cap < 1.0:
            return 0.0
        d = self.weight_set.fixed_point(norms)
        used = d > 0
        return float((norms[used] / d[used]).min())

    def _step(self, system: System, at: At, d: Array) -> Array | None:
        H = system.curvature(at, d)
        linear = -0.5 * at.squares - H @ d
        try:
            aimed = self.weight_set.newton(H, linear, d, float(at.squares.max()))
        except (LinAlgError, FloatingPointError):
            return None
        aimed = np.clip(aimed, 0.0, self.weight_set.cap)
        total = float(aimed.sum())
        return aimed if np.isfinite(total) and abs(total - 1.0) <= 1e-9 else None


class Ball(OverWeights):
    """Lp balls, for all p > 1; at infinity a ridge."""

    everywhere = True
    weight_set: LpBall

    def __init__(self, weight_set: LpBall) -> None:
        self.weight_set = weight_set

    def level(self, norms: Array) -> float:
        """Every gradient gives a block coefficients."""
        return 0.0

    def _begin(self, norms: Array) -> Array:
        start = self.weight_set.start(len(norms))
        if not norms.any():
            return start
        d = self.weight_set.fixed_point(norms)
        # from zero a weight would not move
        return d if (d > 1e-8 * start).all() else self.weight_set.project(np.maximum(d, 1e-3 * start))

    def _step(self, system: System, at: At, d: Array) -> Array | None:
        """Newton for the logarithms of the weights on the sphere, with the curvature of the sphere."""
        p = self.weight_set.p
        if math.isinf(p) or not (d > 0).all():
            return None
        share = d**p
        # at the solution q_m is proportional to d_m^(p - 1): Newton for the logarithms of both sides
        with np.errstate(divide="ignore"):
            away = np.log(at.squares) - (p - 1.0) * np.log(d)
        mass = 0.5 * at.squares * d
        if not np.isfinite(away).all() or not (mass > 0).all():
            return None
        A = d[:, None] * system.curvature(at, d) * d
        # rows and columns of blocks with hardly a weight keep their digits
        root = np.sqrt(mass)
        A /= root * root[:, None]
        A.flat[:: len(A) + 1] += p - 1.0
        try:
            both = cho_solve(cho_factor(A), np.column_stack([root * away, root])) / root[:, None]
        except (LinAlgError, ValueError):
            return None
        step = both[:, 0] - both[:, 1] * float(share @ both[:, 0]) / float(share @ both[:, 1])
        if not np.isfinite(step).all():
            return None
        return self._on_sphere(d * np.exp(np.clip(step, -LONGEST, LONGEST)))

    def _on_sphere(self, d: Array) -> Array:
        top = float(d.max())
        return d / (top * float(np.linalg.norm(d / top, self.weight_set.p)))

    def _between(self, d: Array, aimed: Array, t: float) -> Array:
        return self._on_sphere(d * (aimed / d) ** t)


@dataclass(eq=False)
class At:
    """The best coefficients at some weights, with the gradients there, the value, and a factor of the system."""

    w: Array
    G: Array
    value: float
    factor: Array
    active: Index
    norms: Array
    squares: Array


class System:
    """``min_w 1/2 w'C w - q'w + 1/2 sum_m ||w_m||^2 / d_m`` as a function of the weights d: convex and falling."""

    def __init__(self, C: Array, q: Array, offsets: Index) -> None:
        self.C, self.q, self.offsets = C, q, offsets
        self.owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))

    def at(self, d: Array) -> At:
        """Coefficients ``S (I + S C S)^-1 S q`` with S the roots of the weights, and the gradient ``q - C w``."""
        root = np.sqrt(d)[self.owner]
        active = np.flatnonzero(root)
        S = root[active]
        whole = len(active) == len(root)
        A = (self.C if whole else self.C[np.ix_(active, active)]) * S[:, None] * S
        A.flat[:: len(A) + 1] += 1.0
        factor = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)[0]
        w = np.zeros(len(root))
        w[active] = S * cho_solve((factor, True), S * self.q[active], check_finite=False)
        G = self.q - self.C @ w
        squares = np.add.reduceat(np.square([w, G]), self.offsets[:-1], axis=1)
        return At(w, G, -0.5 * float(self.q @ w), factor, active, np.sqrt(squares[0]), squares[1])

    def curvature(self, at: At, d: Array) -> Array:
        """Second derivative in the weights, ``Gamma'(C - C S (I + S C S)^-1 S C) Gamma`` for the gradients' blocks."""
        n = len(self.offsets) - 1
        products = np.empty((len(self.q), n))
        for m in range(n):
            own = slice(self.offsets[m], self.offsets[m + 1])
            products[:, m] = self.C[:, own] @ at.G[own]
        H = np.add.reduceat(products * at.G[:, None], self.offsets[:-1], axis=0)
        root = np.sqrt(d)[self.owner[at.active], None]
        half = solve_triangular(at.factor, root * products[at.active], lower=True, check_finite=False)
        H -= half.T @ half
        return 0.5 * (H + H.T)


#: Sets of weights whose norms are known.
KNOWN = (Simplex, ElasticNet, CappedSimplex, LpBall)
#: Those whose penalty is a sum of norms.
SUMS = (Simplex, ElasticNet)


def norm_of(weight_set: WeightSet) -> Norm:
    """The penalty of a set of weights, one of `KNOWN`."""
    if isinstance(weight_set, CappedSimplex) and weight_set.cap < 1.0:
        return Capped(weight_set)
    if isinstance(weight_set, LpBall):
        return Ball(weight_set)
    assert isinstance(weight_set, Simplex | ElasticNet | CappedSimplex)
    return SumOfNorms(weight_set, weight_set.mix if isinstance(weight_set, ElasticNet) else 1.0)
