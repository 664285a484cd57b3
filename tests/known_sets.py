"""Every weight set, with a definition of its own for the tests: nothing here calls the package's methods.

A new weight set gets all tests of projections, support functions and certificates by a row in `KNOWN`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from kernelweave.mkl.weight_sets import CappedSimplex, ElasticNet, LpBall, Simplex, WeightSet
from oracles import elastic_support


@dataclass(frozen=True)
class Known:
    """A weight set and what it is.

    `outside` says how far a point lies outside, `sample` draws points of it, `support` is ``max <d, q>`` for any q,
    `limits` are its constraints for a cone solver.
    """

    name: str
    weight_set: WeightSet
    outside: Callable[[np.ndarray], float]
    sample: Callable[[np.random.Generator, int], np.ndarray]
    support: Callable[[np.ndarray], float]
    limits: Callable
    #: Whether `project` is the Euclidean projection.
    nearest: bool = True

    def __str__(self) -> str:
        return self.name


def _spread(rng, n):
    return rng.dirichlet(np.full(n, 10.0 ** rng.uniform(-1.5, 1)))


def simplex(name, weight_set, cap=1.0):
    """Sum 1, no weight above `cap`."""

    def outside(d):
        return max(abs(float(d.sum()) - 1.0), float(d.max()) - cap, -float(d.min()))

    def sample(rng, n):
        d = _spread(rng, n)
        over = float(d.max()) - 1 / n
        share = min(1.0, (cap - 1 / n) / over) if over > 0 else 1.0  # towards the average until the cap holds
        return share * d + (1 - share) / n

    def support(q):
        total, rest = 0.0, 1.0
        for value in np.sort(q)[::-1]:  # the largest up to the cap
            total += min(cap, rest) * value
            rest = max(0.0, rest - cap)
        return float(total)

    def limits(d):
        return [d >= 0, sum(d) == 1, d <= cap]

    return Known(name, weight_set, outside, sample, support, limits)


def ball(name, weight_set, p):
    """The p-norm is at most 1."""

    def outside(d):
        return max(float(np.linalg.norm(d, p)) - 1.0, -float(d.min()))

    def sample(rng, n):
        d = _spread(rng, n)
        return d / np.linalg.norm(d, p) * (1 if rng.random() < 0.5 else rng.uniform())

    def support(q):
        top = float(max(q.max(), 0.0))
        return top * float(np.linalg.norm(np.maximum(q, 0.0) / top, 1 / (1 - 1 / p))) if top else 0.0

    def limits(d):
        import cvxpy as cp

        return [d >= 0, d <= 1 if math.isinf(p) else cp.pnorm(d, p) <= 1]

    return Known(name, weight_set, outside, sample, support, limits, nearest=p == 2)


def elastic_net(name, weight_set, mix):
    """``sum_m mix d_m / (1 - (1 - mix) d_m)`` is at most 1."""

    def size(d):
        return mix * d / (1 - (1 - mix) * d)

    def outside(d):
        return max(float(size(d).sum()) - 1.0, float(d.max()) - 1.0, -float(d.min()))

    def sample(rng, n):
        # multiplied until the boundary is met, or less
        d = _spread(rng, n)
        low, high = 0.0, 1.0 / float(d.max())
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if size(middle * d).sum() > 1 else (middle, high)
        return low * d * (1 if rng.random() < 0.5 else rng.uniform())

    def limits(d):
        import cvxpy as cp

        return [d >= 0, mix / (1 - mix) * cp.sum(cp.inv_pos(1 - (1 - mix) * d) - 1) <= 1]

    return Known(name, weight_set, outside, sample, lambda q: float(elastic_support(q, mix)), limits)


KNOWN = [
    simplex("simplex", Simplex()),
    simplex("cap 0.2", CappedSimplex(0.2), 0.2),
    simplex("cap 0.37", CappedSimplex(0.37), 0.37),
    simplex("cap 1", CappedSimplex(1.0)),
    ball("p 4/3", LpBall(4 / 3), 4 / 3),
    ball("p 2", LpBall(2.0), 2.0),
    ball("p 4", LpBall(4.0), 4.0),
    ball("p 50", LpBall(50.0), 50.0),
    ball("p inf", LpBall(math.inf), math.inf),
    elastic_net("mix 0.1", ElasticNet(0.1), 0.1),
    elastic_net("mix 0.5", ElasticNet(0.5), 0.5),
    elastic_net("mix 0.9", ElasticNet(0.9), 0.9),
]
every_set = pytest.mark.parametrize("known", KNOWN, ids=str)
every_projection = pytest.mark.parametrize("known", [known for known in KNOWN if known.nearest], ids=str)
