"""RLS2 on features whose columns have very different sizes, by every route, judged in extended precision.

Every problem follows from its number. Objective and bound are evaluated here from the numbers of the solution: nothing
of the solver is used. Run many with ``python tests/raw_scales.py --size 2000``.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

import kernelweave as kw

EXACT = np.longdouble
TOL = 1e-6
#: Rounding of the judge as a fraction of the objective: sums of at most a few thousand terms.
OWN = 1e4 * float(np.finfo(EXACT).eps)


@dataclass(frozen=True)
class Problem:
    """Blocks of features, targets (n_rows, n_outputs), weights of rows, factors of blocks, and alpha."""

    number: int
    Z: np.ndarray
    groups: np.ndarray
    Y: np.ndarray
    sample_weight: np.ndarray | None
    scale: np.ndarray | None
    alpha: float

    @property
    def blocks(self) -> list[np.ndarray]:
        return [self.Z[:, a:b] for a, b in itertools.pairwise(self.groups)]

    @property
    def options(self) -> dict[str, object]:
        return {"sample_weight": self.sample_weight, "scale": self.scale, "tol": TOL}


def make(number: int) -> Problem:
    """Columns with log-normal sizes of standard deviation 0 to 3, most with offsets, in blocks of 1 to 3."""
    rng = np.random.default_rng(number)
    n = int(rng.integers(8, 60))
    m = int(rng.integers(2, 30)) if rng.random() < 0.7 else int(rng.integers(30, 150))
    widths = rng.integers(1, 4, m)
    groups, p = np.r_[0, np.cumsum(widths)], int(widths.sum())
    spread, offset = rng.uniform(0.0, 3.0), rng.choice([0.0, 1.0, 5.0])
    sizes = np.exp(spread * rng.normal(size=p))
    Z = (rng.normal(size=(n, p)) + offset * rng.normal(size=p)) * sizes
    if rng.random() < 0.3:
        Z *= rng.random(Z.shape) < 0.4
    T = 2 if rng.random() < 0.2 else 1
    w = rng.normal(size=(p, T)) * (rng.random((p, 1)) < 0.4) / sizes[:, None]
    Y = Z @ w + rng.choice([0.01, 0.1, 1.0]) * rng.normal(size=(n, T)) + rng.choice([0.0, 3.0])
    weights = rng.uniform(0.1, 3.0, n) * (rng.random(n) < 0.9) if rng.random() < 0.3 else None
    if weights is not None and np.count_nonzero(weights) < 3:
        weights = None
    scale = np.exp(rng.normal(size=m)) if rng.random() < 0.3 else None
    top = max(float(np.square(Z[:, a:b]).sum()) for a, b in itertools.pairwise(groups))
    return Problem(number, Z, groups, Y, weights, scale, (top or 1.0) * 10.0 ** rng.uniform(-5.0, 0.3))


# ---- routes ----------------------------------------------------------------------------------------


def _features(p: Problem, Z: object, alpha: float) -> kw.Solution:
    return kw.solve_rls2(kw.FeatureStack(Z, p.groups), p.Y, alpha, **p.options)


def _path(p: Problem, alphas: list[float]) -> kw.Solution:
    return kw.rls2_path(kw.FeatureStack(p.Z, p.groups), p.Y, alphas, **p.options).solutions[-1]


def _sums(p: Problem) -> kw.Solution:
    statistics = kw.BlockStatistics(p.groups).add(p.Z, p.Y, sample_weight=p.sample_weight)
    return kw.solve_rls2(statistics, alpha=p.alpha, scale=p.scale, tol=TOL)


def _matrices(p: Problem) -> kw.Solution:
    stream = kw.KernelStream([B @ B.T for B in p.blocks], kind="matrices")
    return kw.solve_rls2(stream, p.Y, p.alpha, **p.options)


ROUTES: dict[str, Callable[[Problem], kw.Solution]] = {
    "features": lambda p: _features(p, p.Z, p.alpha),
    "columns": lambda p: _features(p, np.asfortranarray(p.Z), p.alpha),
    "sparse": lambda p: _features(p, sparse.csr_array(p.Z), p.alpha),
    "stream": lambda p: kw.solve_rls2(kw.KernelStream(p.blocks), p.Y, p.alpha, **p.options),
    "matrices": _matrices,
    "sums": _sums,
    "short path": lambda p: _path(p, [10.0 * p.alpha, p.alpha]),
    "path": lambda p: _path(p, list(np.geomspace(1e3 * p.alpha, p.alpha, 12))),
}


# ---- the judge -------------------------------------------------------------------------------------


def bounds(p: Problem, found: kw.Solution, route: str) -> tuple[float, float]:
    """The objective of a solution, and the best lower bound of its dual coefficients and of its residual.

    Sums return no dual coefficients, and their residual is not the best: they are compared with those of the features.
    """
    kept = np.ones(len(p.Y), dtype=bool) if p.sample_weight is None else p.sample_weight > 0
    Z, Y = p.Z[kept].astype(EXACT), p.Y[kept].astype(EXACT)
    v = np.ones(len(Y), dtype=EXACT) if p.sample_weight is None else p.sample_weight[kept].astype(EXACT)
    s = np.ones(len(p.blocks), dtype=EXACT) if p.scale is None else p.scale.astype(EXACT)
    d, alpha = found.weights.astype(EXACT), EXACT(p.alpha)
    owner = np.repeat(np.arange(len(s)), np.diff(p.groups))
    if not (d >= 0).all() or abs(float(d.sum()) - 1.0) > 1e-9:
        return float("inf"), 0.0
    # matrices are given with the rounding of their products
    given = [(B @ B.T)[np.ix_(kept, kept)].astype(EXACT) for B in p.blocks] if route == "matrices" else None

    def quadratic_forms(b: np.ndarray) -> np.ndarray:
        if given is not None:
            return s * np.array([(b * (K @ b)).sum() for K in given])
        return s * np.add.reduceat(np.square(Z.T @ b).sum(axis=1), p.groups[:-1])

    rows = []
    if found.dual_coef.size:
        rows.append(found.dual_coef.reshape(len(p.Y), -1)[kept].astype(EXACT))
    if found.feature_coef.size:
        w = found.feature_coef.reshape(len(owner), -1).astype(EXACT)
        f = Z @ w
        squares = np.add.reduceat(np.square(w).sum(axis=1), p.groups[:-1])
        used = squares > 0
        if not (d[used] > 0).all():
            return float("inf"), 0.0
        norm2 = (squares[used] / (s * d)[used]).sum()
    elif given is not None:
        f = sum(x * (K @ rows[0]) for x, K in zip(s * d, given, strict=True))
        norm2 = (d * quadratic_forms(rows[0])).sum()
    else:
        f = Z @ ((d * s)[owner, None] * (Z.T @ rows[0]))
        norm2 = (d * quadratic_forms(rows[0])).sum()
    rows.append(v[:, None] * (Y - f))
    if route == "sums":
        tight = kw.solve_rls2(kw.FeatureStack(p.Z, p.groups), p.Y, p.alpha, **{**p.options, "tol": 1e-12})
        rows.append(tight.dual_coef.reshape(len(p.Y), -1)[kept].astype(EXACT))

    def dual(b: np.ndarray) -> float:
        """At the best multiple of b: 1/2 (y'b)^2 / (b'V^-1 b + max_m s_m |Z_m'b|^2 / alpha)."""
        inner, below = (Y * b).sum(), (np.square(b) / v[:, None]).sum() + quadratic_forms(b).max() / alpha
        return float(0.5 * inner * inner / below) if inner > 0 and below > 0 else 0.0

    primal = 0.5 * (v[:, None] * np.square(Y - f)).sum() + 0.5 * alpha * norm2
    return float(primal), max(map(dual, rows))


def complaint(p: Problem, route: str) -> str | None:
    """What is wrong with the answer of a route, or None."""
    found = ROUTES[route](p)
    primal, dual = bounds(p, found, route)
    excess = max(0.0, primal - dual)
    if abs(found.primal - primal) > found.rounding + OWN * primal:
        return f"{p.number} {route}: the objective is {primal:.17g}, not {found.primal:.17g}"
    if excess > found.gap * (1.0 + 1e-6) + found.rounding + OWN * primal:
        return (
            f"{p.number} {route}: the gap is {excess / primal:.3g}, not {found.rel_gap:.3g}, {found.status!r}"
        )
    if found.status is kw.solvers.Status.CONVERGED and excess > TOL * primal * (1.0 + 1e-6):
        return f"{p.number} {route}: converged at {excess / primal:.3g}"
    return None


def main() -> int:
    """Judge some problems on all routes, and print what is wrong."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--size", type=int, default=500, help="problems")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    given = parser.parse_args()
    wrong: collections.Counter[str] = collections.Counter()
    start = time.process_time()
    for number in range(given.first, given.first + given.size):
        problem = make(number)
        for route in ROUTES:
            said = complaint(problem, route)
            if said:
                wrong[route] += 1
                print(said, flush=True)
    spent = time.process_time() - start
    print(f"{given.size} problems, {len(ROUTES)} routes, {spent:.0f} CPU s; wrong: {dict(wrong) or 'none'}")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
