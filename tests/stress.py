"""Random problems over the whole range of scales, judged in extended precision: ``make stress``.

Every problem follows from its number. Its kernels are exact products of short numbers, so that what the solver is
given is positive semidefinite to the last bit. Objective and bound are evaluated here, in extended precision, at points
that are made feasible here: nothing of the solver's own arithmetic is used. What is demanded of each result:

- no exception but a refusal that this module expects, and never NotPSDError;
- CONVERGED means that the true gap is at most three times tol, and what the result states as rounding;
- the gap is no smaller than the distance to the best value that is known, and the bound not above that value;
- the objective that is reported is the one of the returned coefficients, within the gap.

Run it by hand with ``python tests/stress.py --size 1000 --hostile``; a slice of it runs in `test_stress.py`.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import joblib
import numpy as np

import kernelweave as kw
import oracles
from kernelweave.machines.losses import LOSSES
from oracles import elastic_support, rkl_point_by_conic

EXACT = np.longdouble
#: Rounding of the evaluation here, as a share of the sums of absolute values that it adds up.
OWN = 64 * float(np.finfo(EXACT).eps)
#: A result that says CONVERGED may have a true gap of so many times its tol, besides the rounding that it states.
ALLOWED = 3.0
#: Regularisation of EasyMKL.
LAM = 0.1


# ---- problems --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """One problem: a stack of kernels, targets, and what is asked of which solver."""

    number: int
    hostile: bool
    solver: str
    gram: np.ndarray
    y: np.ndarray
    parameter: float
    tol: float
    weights: np.ndarray | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def costs(self) -> np.ndarray:
        """C times the weights of the rows, in extended precision."""
        ones = np.ones(len(self.gram), dtype=EXACT)
        return EXACT(self.parameter) * (ones if self.weights is None else self.weights.astype(EXACT))

    @property
    def name(self) -> str:
        """The solver, with weight set and method where it has them, and losses that took the place of others."""
        if self.solver != "mkl":
            return self.solver
        loss = self.options["loss"]
        other = f" {loss}" if loss in ("logistic", "poisson", *NUMBERS) else ""
        return f"mkl {self.options['set']} {self.options['method']}{other}"

    def __str__(self) -> str:
        n, _, m = self.gram.shape
        kind = "hostile" if self.hostile else "ordinary"
        return (
            f"{kind} {self.number}: {self.solver} {self.options or ''} n={n} kernels={m} "
            f"parameter={self.parameter:.3g} tol={self.tol:.1g} weighted={self.weights is not None}"
        )


def _power(rng: np.random.Generator, low: float, high: float) -> float:
    """A power of two between 10^low and 10^high: multiplying by it is exact."""
    return float(2.0 ** np.round(rng.uniform(low, high) / np.log10(2.0)))


def _short(values: np.ndarray, bits: int) -> np.ndarray:
    """Round to a grid of 2^-bits."""
    return np.round(values * 2.0**bits) / 2.0**bits


def _kernel(rng: np.random.Generator, base: np.ndarray, hostile: bool) -> np.ndarray:
    """One kernel whose entries are exact sums of products of short numbers, hence exactly semidefinite."""
    n = len(base)
    kind = rng.choice(["features", "gaussian", "rank one", "one feature"], p=[0.3, 0.4, 0.15, 0.15])
    if kind == "gaussian":
        columns = rng.choice(base.shape[1], size=rng.integers(1, base.shape[1] + 1), replace=False)
        part = base[:, columns]
        distances = np.square(part[:, None] - part[None]).sum(axis=2)
        K = np.exp(-(10.0 ** rng.uniform(-2, 1)) * distances)
        # 20 bits leave room for sums of 60 products
        K.flat[:: n + 1] += 1e-10
        F = _short(np.linalg.cholesky(K), 20)
    elif kind == "features":
        F = _short(base[:, : rng.integers(1, base.shape[1] + 1)], 10)
    elif kind == "rank one":
        F = _short(rng.normal(size=(n, 1)), 10)
    else:
        F = _short(base[:, [rng.integers(base.shape[1])]], 10)
    if hostile and rng.random() < 0.15:
        # rows graded over many orders of magnitude
        F = F * 2.0 ** np.round(rng.uniform(-20, 20, size=n))[:, None]
    return F @ F.T


def make_gram(rng: np.random.Generator, hostile: bool) -> np.ndarray:
    """Between 1 and 40 kernels on 5 to 60 rows."""
    n = int(rng.integers(5, 61))
    m = int(np.round(np.exp(rng.uniform(0.0, np.log(40.0)))))
    base = rng.normal(size=(n, int(rng.integers(1, 9))))
    if rng.random() < (0.3 if hostile else 0.05):
        # equal rows, which may carry opposite labels
        base[rng.integers(n, size=n // 3)] = base[0]
    kernels = [_kernel(rng, base, hostile) for _ in range(m)]
    if hostile:
        for k in range(m):
            chance = rng.random()
            if chance < 0.05:
                kernels[k] = np.zeros((n, n))
            elif chance < 0.1:
                kernels[k] = np.ones((n, n))
            elif chance < 0.15:
                kernels[k] = np.eye(n)
            elif chance < 0.25:
                kernels[k] = kernels[rng.integers(m)].copy()
        spread = rng.choice([0.0, 3.0, 12.0])
        common = _power(rng, -12, 12) if rng.random() < 0.5 else 1.0
        # scales from 1e-12 to 1e12 in all
        sizes = [common * _power(rng, -spread, spread) for _ in range(m)]
        kernels = [K * float(np.clip(s, 2.0**-40, 2.0**40)) for K, s in zip(kernels, sizes, strict=True)]
    else:
        # mean diagonals near 1, as normalisation gives them
        kernels = [K / 2.0 ** np.round(np.log2(max(K.diagonal().mean(), 1e-3))) for K in kernels]
    return np.stack(kernels, axis=-1)


#: Solvers and their shares of the problems.
SHARES = {
    "rls2": 0.2, "rls2-path": 0.04, "rls2-alternating": 0.03, "svc": 0.1, "l2svc": 0.05, "svr": 0.1, "meb": 0.06,
    "mkl": 0.26, "rkl": 0.12, "easy": 0.02, "alignf": 0.01, "do": 0.01,
}  # fmt: skip
#: Share of the problems with the hinge, or with kernel weights and a squared hinge, that get the logistic loss instead.
LOGISTIC = 0.4
#: Share of the problems with a tube that get another loss for numbers instead.
OTHER = 0.5
#: Those, each with its parameter, as a share of the spread of the targets for a distance.
NUMBERS: dict[str, Callable[[np.random.Generator, float], dict[str, float]]] = {
    "huber": lambda rng, size: {"delta": size * float(10.0 ** rng.uniform(-2.0, 1.0))},
    "quantile": lambda rng, size: {"q": float(rng.choice([0.05, 0.25, 0.5, 0.9]))},
}
#: Share of the problems with a tube, or another loss in its place, that have counts or rates as targets instead.
COUNTS = 0.3
MKL = (
    ("simplex", "auto"), ("simplex", "auto"), ("simplex", "auto"), ("simplex", "newton"), ("simplex", "newton"),
    ("simplex", "interior-point"), ("simplex", "interior-point"), ("simplex", "reduced-gradient"),
    ("simplex", "cutting-plane"), ("capped", "auto"), ("capped", "auto"), ("capped", "closed-form"), ("lp", "auto"),
    ("lp", "auto"),
)  # fmt: skip


def make(number: int, hostile: bool) -> Problem:
    """The problem of this number."""
    rng = np.random.default_rng([number, int(hostile)])
    gram = make_gram(rng, hostile)
    n, _, m = gram.shape
    solver = str(rng.choice(list(SHARES), p=list(SHARES.values())))
    parameter = float(10.0 ** (rng.uniform(-8, 8) if hostile else rng.uniform(-3, 4)))
    tol = float(10.0 ** rng.uniform(-12, -3)) if hostile else 1e-6
    weights = None
    if rng.random() < 0.3:
        weights = 10.0 ** rng.uniform(-6, 6, size=n) if hostile else rng.uniform(0.5, 2.0, size=n)
    options: dict[str, Any] = {}
    if solver == "mkl":
        loss = str(rng.choice(["hinge", "squared-hinge", "epsilon-insensitive"], p=[0.5, 0.2, 0.3]))
        kind, method = MKL[rng.integers(len(MKL))]
        options = {"loss": loss, "method": method, "set": kind}
        if kind == "capped":
            options["value"] = float(max(1.0 / m, rng.uniform(0.0, 1.0)))
        elif kind == "lp":
            options["value"] = float(rng.choice([1.1, 4 / 3, 2.0, 4.0]))
            # numbers of their own: those of the other problems stay
            more = np.random.default_rng([number, int(hostile), 1])
            if more.random() < 0.5:
                low = 1e-6 if hostile else 1e-2
                method = str(more.choice(["auto", "auto", "newton", "interior-point", "closed-form"]))
                options |= {"set": "net", "method": method, "value": float(more.uniform(low, 1 - low))}
    tube = solver == "svr" or options.get("loss") == "epsilon-insensitive"
    if tube:
        options["epsilon"] = float(rng.choice([0.0, 0.1, 1.0]))
    if tube or solver.startswith("rls2"):
        size = 10.0 ** rng.uniform(-6, 6) if hostile and rng.random() < 0.3 else 1.0
        y = rng.normal(size=n) * size
        if rng.random() < 0.5:
            # a target that the first kernel explains
            K = gram[:, :, 0]
            signal = K @ rng.normal(size=n)
            y = size * (signal / max(np.abs(signal).max(), 1e-300) + 0.1 * rng.normal(size=n))
    else:
        y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        signal = gram[:, :, 0] @ rng.normal(size=n)
        if rng.random() < 0.6:
            y = np.where(
                signal + 0.3 * np.abs(signal).mean() * rng.normal(size=n) > np.median(signal), 1.0, -1.0
            )
        y[0], y[1] = 1.0, -1.0
    if np.random.default_rng([number, int(hostile), 1]).random() < LOGISTIC:
        if solver == "svc":
            solver = "klr"
        elif options.get("loss") in ("hinge", "squared-hinge"):
            method = "auto" if options["method"] == "interior-point" else options["method"]
            options |= {"loss": "logistic", "method": method}
    # numbers of their own, as above
    more = np.random.default_rng([number, int(hostile), 2])
    if tube and more.random() < OTHER:
        del options["epsilon"]
        loss = str(more.choice(list(NUMBERS)))
        if solver == "svr":
            solver, options = "mkl", {"method": "auto", "set": "simplex"}
        options |= {"loss": loss, **NUMBERS[loss](more, float(np.abs(y).mean()) or 1.0)}
    more = np.random.default_rng([number, int(hostile), 3])
    if tube and more.random() < COUNTS:
        size = float(10.0 ** (more.uniform(-2, 6) if hostile else more.uniform(-0.5, 2)))
        y = more.poisson(size * np.exp(y / max(float(np.abs(y).max()), 1e-300))).astype(float)
        y[0] += not y.any()
        if more.random() < 0.3:
            y = y / (more.uniform(0.5, 2.0, n) if more.random() < 0.5 else size)
        method = options.get("method", "auto")
        options = {name: options[name] for name in ("set", "value") if name in options}
        options = {"set": "simplex"} | options
        options |= {"loss": "poisson", "method": "auto" if method == "interior-point" else method}
        solver = "mkl"
    return Problem(number, hostile, solver, gram, y, parameter, tol, weights, options)


# ---- evaluation in extended precision ----------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """Objective and lower bound of a point, with the rounding of their own evaluation."""

    primal: float
    dual: float
    own: float = 0.0


def _quadratic_forms(stack: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``b'K_m b`` for every kernel, and the same of absolute values."""
    quadratic_forms = np.einsum("i,ijm,j->m", b, stack, b, optimize=["einsum_path", (0, 1), (0, 1)])
    size = np.einsum(
        "i,ijm,j->m", np.abs(b), np.abs(stack), np.abs(b), optimize=["einsum_path", (0, 1), (0, 1)]
    )
    return np.maximum(quadratic_forms, EXACT(0)), size


def _on_simplex(d: np.ndarray) -> np.ndarray:
    d = np.maximum(np.asarray(d, dtype=EXACT), EXACT(0))
    return d / d.sum()


def rls2_value(p: Problem, d: np.ndarray, c: np.ndarray, alpha: float) -> Value:
    """Problem 5 at (d, c), and its dual at the best multiple of c."""
    stack, y = p.gram.astype(EXACT), p.y.astype(EXACT)
    w = np.ones(len(y), dtype=EXACT) if p.weights is None else p.weights.astype(EXACT)
    d, c, alpha = _on_simplex(d), np.asarray(c, dtype=EXACT), EXACT(alpha)
    f = (stack @ d) @ c
    size = (np.abs(stack) @ d) @ np.abs(c)
    rest = y - f
    primal = (w @ (rest * rest)) / 2 + alpha * (c @ f) / 2
    own = w @ (np.abs(rest) * (size + np.abs(y))) + alpha * (np.abs(c) @ size)
    quadratic_forms, _ = _quadratic_forms(stack, c)
    linear = alpha * (c @ y)
    quadratic = alpha * alpha * (c @ (c / w)) + alpha * quadratic_forms.max()
    dual = linear * linear / (2 * quadratic) if quadratic > 0 else EXACT(0)
    return Value(float(primal), float(dual), OWN * float(own))


def _loss(p: Problem, f: np.ndarray, loss: str) -> np.ndarray:
    y = p.y.astype(EXACT)
    if loss == "epsilon-insensitive":
        return np.maximum(np.abs(y - f) - EXACT(p.options["epsilon"]), EXACT(0))
    if loss == "huber":
        size = np.abs(y - f)
        near = np.minimum(size, EXACT(p.options["delta"]))
        return near * (size - near / 2)
    if loss == "quantile":
        q = EXACT(p.options["q"])
        return np.maximum(q * (y - f), (q - 1) * (y - f))
    if loss == "poisson":
        return np.exp(f) - y * f + _log_times(y) - y
    if loss == "logistic":
        return np.logaddexp(EXACT(0), -y * f)
    slack = np.maximum(EXACT(1) - y * f, EXACT(0))
    return slack * slack / 2 if loss == "squared-hinge" else slack


def _log_times(y: np.ndarray) -> np.ndarray:
    """``y log(y)``."""
    return y * np.log(np.where(y > 0, y, EXACT(1)))


def _box(p: Problem, loss: str) -> tuple[np.ndarray, np.ndarray]:
    costs, y = p.costs, p.y
    if loss == "epsilon-insensitive":
        return -costs, costs
    if loss == "quantile":
        return (EXACT(p.options["q"]) - 1) * costs, EXACT(p.options["q"]) * costs
    if loss == "huber":
        return -EXACT(p.options["delta"]) * costs, EXACT(p.options["delta"]) * costs
    if loss == "poisson":
        return np.where(costs > 0, -EXACT(np.inf), EXACT(0)), costs * y
    most = np.where(costs > 0, EXACT(np.inf), EXACT(0)) if loss == "squared-hinge" else costs
    return np.where(y > 0, EXACT(0), -most), np.where(y > 0, most, EXACT(0))


def feasible(b: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """A point of the box with sum zero near b: the heavier side is made lighter."""
    b = np.clip(np.asarray(b, dtype=EXACT), lower, upper)
    up, down = b[b > 0].sum(), -b[b < 0].sum()
    level = min(up, down)
    return np.where(b > 0, b * (level / up if up else 0), b * (level / down if down else 0))


def support(p: Problem, quadratic_forms: np.ndarray) -> Any:
    """Largest ``<d, q>`` over the weight set."""
    kind, value = p.options.get("set", "simplex"), p.options.get("value")
    if kind == "net":
        return elastic_support(quadratic_forms, value)
    if kind == "lp":
        top = quadratic_forms.max()
        r = EXACT(value) / (EXACT(value) - 1)
        return top * ((quadratic_forms / top) ** r).sum() ** (1 / r) if top > 0 else top
    if kind == "simplex":
        return quadratic_forms.max()
    rest, total = EXACT(1), EXACT(0)
    for form in np.sort(quadratic_forms)[::-1]:
        share = min(EXACT(value), rest)
        total += share * form
        rest -= share
    return total


def in_set(p: Problem, d: np.ndarray) -> np.ndarray:
    """Weights made feasible."""
    kind, value = p.options.get("set", "simplex"), p.options.get("value")
    d = np.maximum(np.asarray(d, dtype=EXACT), EXACT(0))
    if kind == "net":
        mix = EXACT(value)
        shares = mix * d / (1 - (1 - mix) * d)
        shares /= max(shares.sum(), EXACT(1))
        return shares / (mix + (1 - mix) * shares)
    if kind == "lp":
        top = d.max()
        norm = top * ((d / top) ** EXACT(value)).sum() ** (1 / EXACT(value)) if top > 0 else EXACT(0)
        return d / max(norm, EXACT(1))
    d = d / d.sum()
    if kind == "capped":
        d = np.minimum(d, EXACT(value))
        room = EXACT(value) - d
        d = d + room * ((1 - d.sum()) / room.sum() if room.sum() > 0 else EXACT(0))
    return d


def margin_value(p: Problem, d: np.ndarray, b: np.ndarray, intercept: float, loss: str) -> Value:
    """A margin machine with kernel weights: objective at (d, b, intercept), bound at the best multiple of b."""
    stack, costs = p.gram.astype(EXACT), p.costs
    d, b = in_set(p, d), np.asarray(b, dtype=EXACT)
    K = stack @ d
    f = K @ b
    size = (np.abs(stack) @ d) @ np.abs(b)
    primal = (b @ f) / 2 + costs @ _loss(p, f + EXACT(intercept), loss)
    slope = costs * (
        np.abs(1 - p.y * (f + intercept)) if loss == "squared-hinge" else p.options.get("delta", 1)
    )
    own = np.abs(b) @ size + slope @ (size + abs(intercept) + np.abs(p.y))
    if loss == "poisson":
        values, y = f + EXACT(intercept), p.y.astype(EXACT)
        steepest = np.abs(np.exp(values) - y) * (size + abs(intercept))
        own = np.abs(b) @ size + costs @ (
            steepest + np.exp(values) + y * (np.abs(values) + 1) + abs(_log_times(y))
        )
    return Value(float(primal), _margin_dual(p, stack, b, loss), OWN * float(own))


def _margin_dual(
    p: Problem, stack: np.ndarray, b: np.ndarray, loss: str, rho: np.ndarray | None = None
) -> float:
    lower, upper = _box(p, loss)
    b = feasible(b, lower, upper)
    if loss == "logistic":
        quadratic_forms, _ = _quadratic_forms(stack, b)
        return float(_entropy(p, b) - support(p, quadratic_forms) / 2)
    if loss == "poisson":
        used, y = p.costs > 0, p.y.astype(EXACT)
        m = np.maximum(y[used] - b[used] / p.costs[used], EXACT(0))
        terms = _log_times(y[used]) - y[used] - _log_times(m) + m
        quadratic_forms, _ = _quadratic_forms(stack, b)
        return float(p.costs[used] @ terms - support(p, quadratic_forms) / 2)
    linear = p.y.astype(EXACT) @ b - EXACT(p.options.get("epsilon", 0)) * np.abs(b).sum()
    quadratic_forms, _ = _quadratic_forms(stack, b)
    quadratic = support(p, quadratic_forms) if rho is None else _over(quadratic_forms, rho).max()
    if loss in ("squared-hinge", "huber"):
        used = p.costs > 0
        quadratic += (b[used] * b[used] / p.costs[used]).sum()
    most = np.where(b > 0, upper, -lower)
    room = (most[b != 0] / np.abs(b[b != 0])).min(initial=EXACT(np.inf))
    t = min(linear / quadratic if quadratic > 0 else EXACT(1), room)
    return max(0.0, float(t * linear - t * t * quadratic / 2))


def _entropy(p: Problem, b: np.ndarray) -> Any:
    """The dual term of the logistic loss: at least 0 at b = 0, and not homogeneous, so that b is taken as it is."""
    used = p.costs > 0
    costs, a = p.costs[used], np.minimum(np.abs(b[used]) / p.costs[used], EXACT(1))
    inside = (a > 0) & (a < 1)
    costs, a = costs[inside], a[inside]
    return -(costs @ (a * np.log(a) + (1 - a) * np.log1p(-a)))


def _over(quadratic_forms: np.ndarray, rho: np.ndarray) -> np.ndarray:
    return np.where(quadratic_forms > 0, quadratic_forms / np.where(rho > 0, rho, EXACT(np.nan)), EXACT(0))


def meb_value(K: np.ndarray, beta: np.ndarray) -> Value:
    """Ball about the centre of these coefficients, and the dual at them."""
    K, beta = K.astype(EXACT), _on_simplex(beta)
    product, diagonal = K @ beta, np.diag(K)
    middle = beta @ product
    own = np.abs(diagonal).max() + (np.abs(K) @ beta).max()
    farthest = (diagonal - 2 * product + middle).max()
    return Value(float(farthest), float(beta @ diagonal - middle), 4 * OWN * float(own))


def rkl_value(
    p: Problem, t: np.ndarray, a: np.ndarray, radius2: float, intercept: float, proof: np.ndarray
) -> Value:
    """RKL at weights t and coefficients a (f = K(t) a), with an enclosing ball of its own, or those of the proof."""
    stack, costs = p.gram.astype(EXACT), p.costs
    t, a = _on_simplex(t), np.asarray(a, dtype=EXACT)
    K = stack @ t
    ball = kw.solve_meb(K.astype(float), tol=1e-11, check=False).dual_coef
    around = meb_value(K, ball)
    large = EXACT(around.primal)
    f = K @ a
    size = (np.abs(stack) @ t) @ np.abs(a)
    primal = large * (a @ f) / 2 + costs @ _loss(p, f + EXACT(intercept), "hinge")
    own = large * (np.abs(a) @ size) + costs @ (size + abs(intercept) + 1)
    dual = _rkl_dual(p, stack, ball, a * EXACT(radius2))
    if len(proof):
        dual = max(dual, _rkl_dual(p, stack, proof[1], proof[0]))
    if dual < primal * (1 - EXACT(p.tol)):
        # a cone program may have a better one
        try:
            _, b, beta = rkl_point_by_conic(p.gram[:, :, ~_constant(stack)], p.y, p.costs.astype(float))
            dual = max(dual, _rkl_dual(p, stack, beta, b))
        except oracles.Undecided:  # by its module: a copy of the class in another process would not match
            pass
    # the ball about this centre may be larger than the smallest by its own gap
    inexact = max(0.0, around.primal - around.dual) * float(a @ f) / 2
    return Value(float(primal), dual, OWN * float(own) + inexact)


def _constant(stack: np.ndarray) -> np.ndarray:
    return (stack == stack[:1, :1]).all(axis=(0, 1))


def _rkl_dual(p: Problem, stack: np.ndarray, ball: np.ndarray, b: np.ndarray) -> float:
    """Best bound of these coefficients, over mixtures of the ball's linear bound with that of equal coefficients."""
    n = len(ball)
    b, beta, equal = np.asarray(b, dtype=EXACT), _on_simplex(ball), np.full(n, EXACT(1) / n)
    diagonals = np.einsum("iim->im", stack)
    tight, loose = (v @ diagonals - _quadratic_forms(stack, v)[0] for v in (beta, equal))
    tight = np.maximum(tight, EXACT(0))
    # a constant kernel adds nothing to coefficients that sum to zero, and needs no room in the ball
    tight[_constant(stack)] = loose[_constant(stack)] = 1
    dual = 0.0
    for share in [0.0, *(10.0 ** np.arange(-13.0, 1.0))]:
        rho = (1 - EXACT(share)) * tight + EXACT(share) * loose
        if (rho[_quadratic_forms(stack, b)[0] > 0] > 0).all():
            dual = max(dual, _margin_dual(p, stack, b, "hinge", rho))
    return dual


def easy_value(p: Problem, b: np.ndarray) -> Value:
    """EasyMKL's quadratic program at b = y gamma; no bound of its own."""
    stack = p.gram.astype(EXACT)
    w = np.ones(len(p.y), dtype=EXACT) if p.weights is None else p.weights.astype(EXACT)
    b = np.asarray(b, dtype=EXACT)
    gamma = np.maximum(b * p.y, EXACT(0))
    for side in (p.y > 0, p.y < 0):
        gamma[side] /= gamma[side].sum()
    b = gamma * p.y
    K = stack.sum(axis=2)
    lam = EXACT(LAM)
    value = (1 - lam) * (b @ K @ b) + lam * (gamma @ (gamma / w))
    return Value(float(value), -np.inf, OWN * float(np.abs(b) @ np.abs(K) @ np.abs(b) + gamma @ (gamma / w)))


# ---- solvers ---------------------------------------------------------------------------------------

#: What a solver gives: certificates with the value of their points.
Answers = list[tuple[Any, Value]]


def _rls2(p: Problem, tol: float) -> Answers:
    found = kw.solve_rls2(p.gram, p.y, p.parameter, tol=tol, sample_weight=p.weights)
    return [(found, rls2_value(p, found.weights, found.dual_coef, p.parameter))]


def _alternating(p: Problem, tol: float) -> Answers:
    found = kw.solve_rls2(
        p.gram, p.y, p.parameter, solver="alternating", delta=1e-4, max_iter=300, sample_weight=p.weights
    )
    return [(found, rls2_value(p, found.weights, found.dual_coef, p.parameter))]


def _path(p: Problem, tol: float) -> Answers:
    alphas = p.parameter * np.array([100.0, 10.0, 1.0])
    path = kw.rls2_path(p.gram, p.y, alphas, tol=tol, sample_weight=p.weights)
    parts = [path.at(k) for k in range(len(path))]
    return [(part, rls2_value(p, part.weights, part.dual_coef, part.alpha)) for part in parts]


def _machine(solve: Callable[..., Any], loss: str) -> Callable[[Problem, float], Answers]:
    def run(p: Problem, tol: float) -> Answers:
        more = (p.options["epsilon"],) if "epsilon" in p.options else ()
        found = solve(p.gram[:, :, 0], p.y, p.parameter, *more, sample_weight=p.weights, tol=tol)
        one = Problem(
            p.number, p.hostile, p.solver, p.gram[:, :, :1], p.y, p.parameter, tol, p.weights, p.options
        )
        return [(found, margin_value(one, np.ones(1), found.dual_coef, found.intercept, loss))]

    return run


def _meb(p: Problem, tol: float) -> Answers:
    found = kw.solve_meb(p.gram[:, :, 0], tol=tol)
    return [(found, meb_value(p.gram[:, :, 0], found.dual_coef))]


def weight_set(p: Problem) -> Any:
    """The weight set of a margin problem."""
    sets = {
        "simplex": kw.weight_sets.Simplex,
        "capped": kw.weight_sets.CappedSimplex,
        "lp": kw.weight_sets.LpBall,
        "net": kw.weight_sets.ElasticNet,
    }
    value = p.options.get("value")
    return sets[p.options["set"]](*(() if value is None else (value,)))


def loss_of(p: Problem) -> kw.losses.Loss:
    """The loss of a margin problem."""
    kind = LOSSES[p.options["loss"]]
    return kind(*(p.options[f.name] for f in fields(kind)))


def solve_margin(p: Problem, tol: float) -> kw.results.Solution:
    """The margin problem by its method."""
    return kw.solve_svm_mkl(
        p.gram, p.y, p.parameter, weight_set(p), loss=loss_of(p), solver=p.options["method"],
        sample_weight=p.weights, tol=tol,
    )  # fmt: skip


def _mkl(p: Problem, tol: float) -> Answers:
    found = solve_margin(p, tol)
    return [(found, margin_value(p, found.weights, found.dual_coef, found.intercept, p.options["loss"]))]


def _rkl(p: Problem, tol: float) -> Answers:
    found = kw.solve_rkl(p.gram, p.y, p.parameter, tol=tol, sample_weight=p.weights)
    return [
        (found, rkl_value(p, found.weights, found.dual_coef, found.radius2, found.intercept, found.proof))
    ]


def _easy(p: Problem, tol: float) -> Answers:
    found = kw.solvers.solve_easy_mkl(p.gram, p.y, LAM, tol=tol, sample_weight=p.weights)
    return [(found, easy_value(p, found.dual_coef))]


def _unjudged(solve: Callable[[Problem, float], Any]) -> Callable[[Problem, float], Answers]:
    """A solver that must end without an error; its certificate is judged by tests of its own."""

    def run(p: Problem, tol: float) -> Answers:
        solve(p, tol)
        return []

    return run


SOLVERS: dict[str, Callable[[Problem, float], Answers]] = {
    "rls2": _rls2,
    "rls2-path": _path,
    "rls2-alternating": _alternating,
    "svc": _machine(kw.solve_svc, "hinge"),
    "l2svc": _machine(kw.solvers.solve_l2svc, "squared-hinge"),
    "svr": _machine(kw.solve_svr, "epsilon-insensitive"),
    "klr": _machine(kw.solvers.solve_klr, "logistic"),
    "meb": _meb,
    "mkl": _mkl,
    "rkl": _rkl,
    "easy": _easy,
    "alignf": _unjudged(lambda p, tol: kw.solvers.solve_alignf(p.gram, p.y, sample_weight=p.weights)),
    "do": _unjudged(lambda p, tol: kw.solvers.solve_radius(p.gram, p.y, p.parameter, "do", tol=tol)),
}

#: Refusals that are right: parts of their messages.
REFUSALS = (
    "is too small for these kernels",  # alpha below rounding
    "rows all coincide",
    "coincide",
    "no kernel",
    "separate the classes",  # easy: they overlap, and lam is nothing beside the kernels
)


# ---- judgement -------------------------------------------------------------------------------------


@dataclass
class Verdict:
    """What came of one problem: its description, the solver with its method, and how it ended."""

    problem: str
    solver: str
    status: str
    complaints: list[str] = field(default_factory=list)
    seconds: float = 0.0


def judge(p: Problem, found: Any, value: Value, best: float) -> list[str]:
    """What is wrong with one certificate, given its objective, the best bound and the best objective known."""
    wrong, tol = [], p.tol
    rounding = getattr(found, "rounding", 0.0)
    size = abs(value.primal)
    slack = value.own + 1e-14 * size
    numbers = (found.primal, found.dual, found.gap, rounding)
    if not np.isfinite(numbers).all():
        return [f"not finite: primal, dual, gap, rounding = {numbers}"]
    if found.gap < 0:
        wrong.append(f"negative gap {found.gap:.3g}")
    true_gap = value.primal - value.dual
    if found.status is kw.solvers.Status.CONVERGED:
        if np.isfinite(value.dual) and true_gap > ALLOWED * tol * size + rounding + slack:
            wrong.append(
                f"CONVERGED with a true gap of {true_gap:.3g} (objective {size:.6g}, tol {tol:.1g}, "
                f"reported {found.gap:.3g}, rounding {rounding:.3g})"
            )
        if found.gap > tol * abs(found.primal) * (1 + 1e-9):
            wrong.append(f"CONVERGED with a reported gap of {found.rel_gap:.3g} (tol {tol:.1g})")
    below = value.primal - best - found.gap
    if below > slack:
        wrong.append(f"gap {found.gap:.3g} below the truth by {below:.3g} (objective {value.primal:.6g})")
    above = found.dual - best
    if above > slack:
        wrong.append(f"bound {found.dual:.6g} above the best value known, by {above:.3g}")
    off = abs(found.primal - value.primal)
    if off > found.gap + slack:
        wrong.append(
            f"objective {found.primal:.9g}, but {value.primal:.9g} at these coefficients (gap {found.gap:.3g})"
        )
    return wrong


def run(number: int, hostile: bool, *, reference: bool = True) -> Verdict:
    """Make, solve and judge one problem."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return _run(make(number, hostile), reference)


def _run(p: Problem, reference: bool) -> Verdict:
    solve = SOLVERS[p.solver]
    began = time.process_time()
    try:
        answers = solve(p, p.tol)
    except kw.InputError as error:
        refused = not isinstance(error, kw.NotPSDError) and any(part in str(error) for part in REFUSALS)
        return Verdict(str(p), p.name, "refused", [] if refused else [f"{type(error).__name__}: {error}"])
    except Exception as error:  # a crash is what is looked for
        return Verdict(str(p), p.name, "crashed", [f"{type(error).__name__}: {error}"])
    seconds = time.process_time() - began
    values = [value for _, value in answers]
    # the best value and the best bound that are known, from a tighter solution too
    bests, bounds = [v.primal for v in values], [v.dual for v in values]
    if reference and answers and any(found.gap > 0 for found, _ in answers):
        options = {**p.options, "method": "auto"} if p.solver == "mkl" else p.options
        try:
            tighter = [v for _, v in solve(replace(p, options=options), min(1e-2 * p.tol, 1e-9))]
        except kw.InputError:
            tighter = values
        bests = [min(b, v.primal) for b, v in zip(bests, tighter, strict=True)]
        bounds = [max(b, v.dual) for b, v in zip(bounds, tighter, strict=True)]
    complaints = []
    for (found, value), best, bound in zip(answers, bests, bounds, strict=True):
        complaints += judge(p, found, Value(value.primal, bound, value.own), best)
    worst = next((f.status for f, _ in answers if not f.status.ok), answers[0][0].status if answers else None)
    return Verdict(str(p), p.name, "done" if worst is None else worst.name, complaints, seconds)


# ---- by hand ---------------------------------------------------------------------------------------


def tally(verdicts: list[Verdict]) -> dict[str, dict[str, Any]]:
    """Numbers of every solver: problems, how they ended, complaints, and the longest time."""
    table: dict[str, dict[str, Any]] = {}
    for v in verdicts:
        row = table.setdefault(
            v.solver,
            {"problems": 0, "complaints": 0, "seconds": 0.0, "slowest": 0.0, "status": collections.Counter()},
        )
        row["problems"] += 1
        row["complaints"] += bool(v.complaints)
        row["seconds"] += v.seconds
        row["slowest"] = max(row["slowest"], v.seconds)
        row["status"][v.status] += 1
    return dict(sorted(table.items()))


def main(arguments: list[str] | None = None) -> int:
    """Run problems of consecutive numbers, print what is wrong at once, and a table at the end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=1000, help="problems of each kind")
    parser.add_argument("--seed", type=int, default=0, help="number of the first problem")
    parser.add_argument("--kind", choices=["ordinary", "hostile", "both"], default="both")
    parser.add_argument("--solver", choices=sorted(SOLVERS), help="only this solver's problems")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", help="file for the table")
    chosen = parser.parse_args(arguments)
    kinds = {"ordinary": [False], "hostile": [True], "both": [False, True]}[chosen.kind]
    tables, wrong = {}, 0
    for hostile in kinds:
        verdicts: list[Verdict] = []
        began = said = time.monotonic()
        label = "hostile" if hostile else "ordinary"
        numbers = [
            number
            for number in range(chosen.seed, chosen.seed + chosen.size)
            if not chosen.solver or make(number, hostile).solver == chosen.solver
        ]
        work = joblib.Parallel(n_jobs=chosen.jobs, return_as="generator_unordered", batch_size=4)(
            joblib.delayed(run)(number, hostile) for number in numbers
        )
        try:
            for verdict in work:
                verdicts.append(verdict)
                for complaint in verdict.complaints:
                    print(f"{verdict.problem}\n    {complaint}", flush=True)
                if time.monotonic() - said > 10:
                    said = time.monotonic()
                    print(
                        f"... {label}: {len(verdicts)} of {len(numbers)} in {said - began:.0f} s",
                        file=sys.stderr,
                    )
        except KeyboardInterrupt:
            print("Interrupted; the table holds what was done.", file=sys.stderr)
        tables[label] = tally(verdicts)
        wrong += sum(bool(v.complaints) for v in verdicts)
        print(f"\n{label}: {len(verdicts)} problems in {time.monotonic() - began:.0f} s")
        for name, row in tables[label].items():
            ends = ", ".join(f"{status} {count}" for status, count in row["status"].most_common())
            print(
                f"  {name:28s} {row['problems']:6d}  wrong {row['complaints']:3d}  "
                f"{row['seconds']:6.1f} s, slowest {row['slowest']:5.1f} s  {ends}"
            )
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump({"seed": chosen.seed, "size": chosen.size, "tables": tables}, file, indent=1)
    print(f"{wrong} problems with a complaint")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
