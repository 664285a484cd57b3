"""Kernels learnt by margin and radius: RKL, KL-C and the method of Do et al.

The radius of the minimum enclosing ball measures the scale that the margin alone cannot see. With the derivative of a
kernel in its parameters at hand, every criterion here has a gradient in closed form, because the coefficients of the
machine and of the ball are maximisers. Projected gradients find local solutions, and ``stationarity`` says how nearly;
for RKL on sums of kernels `kernelweave.solvers.rkl` does better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError
from kernelweave._loops import core
from kernelweave.gram import Gram
from kernelweave.solvers.machines import Machine
from kernelweave.solvers.meb import solve_meb
from kernelweave.solvers.result import MEBResult, Status, SVMResult

Array = NDArray[np.float64]
#: Called after every step with (iteration, value, stationarity); a true value stops.
Callback = Callable[[int, float, float], object]

#: Armijo: a step must bring this share of what the gradient promises; shorter steps are this factor shorter.
SUFFICIENT = 1e-3
SHORTER = 0.4
#: A radius below this share of the mean diagonal means that the rows coincide in the feature space.
FLAT = 1e-12
#: Tolerance of machines and balls on the way, beside the requested one.
INNER = 1e-3


class Family(Protocol):
    """Kernels K(t) on the training rows with parameters t >= 0, and their derivatives."""

    n_parameters: int
    n_samples: int

    def kernel(self, t: Array) -> Array:
        """K(t), symmetric; the next call may overwrite it."""

    def forms(self, t: Array, b: Array) -> Array:
        """``b' (dK / dt_m) b`` for every parameter."""

    def diagonals(self, t: Array, weights: Array) -> Array:
        """``sum_i weights_i (dK / dt_m)_ii`` for every parameter."""


class WeightedSum:
    """``K(t) = sum_m t_m s_m (K_m + ridge_m I)``.

    Parameters
    ----------
    gram : Gram
    scale : array of shape (n_kernels,)
    ridge : float
        Added to every kernel, as a share of its largest diagonal entry: it makes coefficients unique, hence the
        criterion differentiable, where rows repeat or rank is low.
    """

    def __init__(self, gram: Gram, scale: Array, ridge: float = 0.0) -> None:
        self.gram, self.scale = gram, scale
        self.n_parameters, self.n_samples = gram.n_kernels, gram.n_samples
        self._diagonal = gram.diagonal()
        self._ridge = ridge * self._diagonal.max(axis=1) + gram.residual_trace
        self._matrix = np.empty((gram.n_samples, gram.n_samples))

    def kernel(self, t: Array) -> Array:
        """K(t)."""
        weights = t * self.scale
        out = self.gram.combine_upper(weights, self._matrix)
        core.mirror(out)
        out.flat[:: len(out) + 1] += float(weights @ self._ridge)
        return out

    def forms(self, t: Array, b: Array) -> Array:
        """``b'K_m b``, which does not depend on t."""
        return self.scale * (self.gram.quadratic_forms(b[None]) + self._ridge * float(b @ b))

    def products(self, b: Array, kernels: NDArray[np.int64]) -> Array:
        """``(s_m K_m) b`` of some kernels, ridge included, shape (len(kernels), n_samples)."""
        plain = self.gram.matvecs(b[None], kernels)[:, 0] + self._ridge[kernels, None] * b
        return plain * self.scale[kernels, None]

    def diagonal(self, kernels: NDArray[np.int64]) -> Array:
        """Diagonals of some kernels, ridge included."""
        return (self._diagonal[kernels] + self._ridge[kernels, None]) * self.scale[kernels, None]

    def diagonals(self, t: Array, weights: Array) -> Array:
        """Weighted diagonals of the kernels."""
        return self.scale * (self._diagonal @ weights + self._ridge * float(weights.sum()))


class Gaussians:
    """``K(t)_ij = exp(-sum_p t_p D_pij)``: one Gaussian with a parameter for each squared distance.

    Parameters
    ----------
    distances : array of shape (n_parameters, n_samples, n_samples)
        Squared distances; one of all columns gives the usual gamma, one for each column a relevance for each.
    """

    def __init__(self, distances: Array) -> None:
        self.distances = np.ascontiguousarray(distances, dtype=np.float64)
        self.n_parameters, self.n_samples = self.distances.shape[:2]
        self._at: Array | None = None
        self._matrix = np.empty(self.distances.shape[1:])

    @classmethod
    def of_columns(cls, X: ArrayLike, *, each: bool) -> Gaussians:
        """From rows X (n_samples, n_features): one gamma for all columns, or one for each."""
        values = np.asarray(X, dtype=np.float64)
        columns = values.T[:, :, None] if each else values[None]
        return cls(np.stack([np.square(c[:, None] - c[None]).sum(axis=-1) for c in columns]))

    def kernel(self, t: Array) -> Array:
        """K(t)."""
        np.exp(-np.tensordot(t, self.distances, 1), out=self._matrix)
        self._at = t.copy()
        return self._matrix

    def _values(self, t: Array) -> Array:
        return self._matrix if self._at is not None and np.array_equal(self._at, t) else self.kernel(t)

    def forms(self, t: Array, b: Array) -> Array:
        """``-sum_ij b_i b_j K_ij D_pij``."""
        return -np.einsum("pij,ij->p", self.distances, self._values(t) * np.outer(b, b), optimize=True)

    def diagonals(self, t: Array, weights: Array) -> Array:
        """Zero: the diagonal is always 1."""
        return np.zeros(self.n_parameters)


@dataclass(frozen=True)
class Evaluation:
    """A criterion at one point.

    Attributes
    ----------
    t : array of shape (n_parameters,)
    value : float
    gradient : array of shape (n_parameters,)
    dual_coef : array of shape (n_samples,)
        For K(t) as it is: ``f = K(t) @ dual_coef + intercept``.
    machine : SVMResult
    ball : MEBResult or None
    """

    t: Array
    value: float
    gradient: Array
    dual_coef: Array
    machine: SVMResult
    ball: MEBResult | None

    @property
    def usable(self) -> bool:
        """Whether the criterion exists at this point."""
        return math.isfinite(self.value)


class RadiusMargin:
    """A criterion of margin and radius on a family of kernels, with hot starts of machine and ball.

    Parameters
    ----------
    family : Family
    machine : Machine
    kind : {"rkl", "kl-c", "kl-c-eq10", "do"}
        See `solve_radius`.
    """

    def __init__(self, family: Family, machine: Machine, kind: str) -> None:
        self.family, self.machine, self.kind = family, machine, kind
        self.n_machines = self.n_balls = 0
        self._b: Array | None = None
        self._beta: Array | None = None
        self._radii: Array | None = None

    def _ball(self, K: Array, ridge: float, tol: float) -> MEBResult:
        self.n_balls += 1
        ball = solve_meb(K, ridge=ridge, tol=tol, warm_start=self._beta, check=False)
        self._beta = ball.dual_coef
        return ball

    def _solve(self, machine: Machine, K: Array, tol: float) -> SVMResult:
        self.n_machines += 1
        found = machine.solve(K, tol=tol, warm_start=self._b)
        self._b = found.dual_coef
        return found

    def at(self, t: Array, tol: float) -> Evaluation:
        """Value and gradient."""
        return {"rkl": self._rkl, "kl-c": self._klc, "kl-c-eq10": self._klc, "do": self._do}[self.kind](
            t, tol
        )

    def _rkl(self, t: Array, tol: float) -> Evaluation:
        K = self.family.kernel(t)
        mean = float(K.diagonal().mean())
        ball = self._ball(K, 0.0, tol)
        r2 = ball.radius2
        if not r2 > FLAT * mean:
            return Evaluation(t, math.inf, np.zeros_like(t), np.zeros(len(K)), _nothing(len(K)), ball)
        machine = self._solve(self.machine, K / r2, tol)
        b, beta = machine.dual_coef, ball.dual_coef
        forms = self.family.forms(t, b)
        squares = float(b @ (K @ b))
        radius = self.family.diagonals(t, beta) - self.family.forms(t, beta)
        gradient = -0.5 / r2 * forms + 0.5 / r2**2 * squares * radius
        return Evaluation(t, machine.dual, gradient, b / r2, machine, ball)

    def _klc(self, t: Array, tol: float) -> Evaluation:
        K = self.family.kernel(t)
        ridge = 1.0 / self.machine.C if self.kind == "kl-c" else 0.0
        ball = self._ball(K, ridge, tol)
        r2 = ball.radius2
        if not r2 > FLAT * float(K.diagonal().mean()):
            return Evaluation(t, math.inf, np.zeros_like(t), np.zeros(len(K)), _nothing(len(K)), ball)
        machine = self._solve(self.machine, K, tol)
        b, beta = machine.dual_coef, ball.dual_coef
        half = machine.dual  # W^2 / 2
        radius = self.family.diagonals(t, beta) - self.family.forms(t, beta)
        gradient = half * radius - 0.5 * r2 * self.family.forms(t, b)
        return Evaluation(t, r2 * half, gradient, b, machine, ball)

    def _do(self, t: Array, tol: float) -> Evaluation:
        radii = self.radii(tol)
        rho = float(t @ radii)
        machine = replace(self.machine, C=self.machine.C / rho)
        found = self._solve(machine, self.family.kernel(t), tol)
        b = found.dual_coef
        inverse = np.divide(1.0, self.machine.costs, out=np.zeros_like(b), where=self.machine.costs > 0)
        gradient = -0.5 * self.family.forms(t, b) - 0.5 * radii * float(inverse @ np.square(b))
        return Evaluation(t, found.dual, gradient, b, found, None)

    def radii(self, tol: float) -> Array:
        """Squared radius of every kernel on its own (Do et al.), computed once."""
        if self._radii is None:
            out = np.empty(self.family.n_parameters)
            for m in range(len(out)):
                unit = np.zeros(len(out))
                unit[m] = 1.0
                out[m] = solve_meb(self.family.kernel(unit), tol=tol, check=False).radius2
            self._radii = out
        return self._radii


def _nothing(n: int) -> SVMResult:
    return SVMResult(
        np.zeros(n), 0.0, math.inf, math.inf, 0.0, 0.0, Status.STALLED, 0, np.empty(0, np.int64), 0.0
    )


def stationarity(here: Evaluation, *, scaled: bool = True) -> float:
    """How far from stationary: what the linear model promises over the simplex, as a share of the value.

    Parameters
    ----------
    here : Evaluation
    scaled : bool, default=True
        Weights, whose scale does not matter; otherwise parameters >= 0.
    """
    t, gradient = here.t, here.gradient
    if scaled:
        gain = float(t @ gradient) - float(t.sum()) * float(gradient.min())
    else:
        gain = float(np.abs(t * gradient).max(initial=0.0)) + max(
            0.0, -float(gradient[t == 0].min(initial=0.0))
        )
    return max(0.0, gain) / max(abs(here.value), 1e-300)


def descend(
    criterion: RadiusMargin,
    start: Array,
    project: Callable[[Array], Array],
    *,
    tol: float,
    max_iter: int,
    spectral: bool,
    scaled: bool = True,
    callback: Callback | None = None,
) -> tuple[Evaluation, Status, dict[str, list[float]]]:
    """Projected gradient with Armijo's rule.

    Parameters
    ----------
    criterion : RadiusMargin
    start : array of shape (n_parameters,)
    project : callable
    tol : float
        Stationarity at which to stop; machines and balls are solved to a thousandth of it.
    max_iter : int
        Accepted steps.
    spectral : bool
        Try steps of Barzilai and Borwein's length first; otherwise twice the last accepted one.
    scaled : bool, default=True
        See `stationarity`.
    callback : callable, optional
    """
    inner = max(INNER * tol, 1e-12)
    here = criterion.at(project(start), inner)
    if not here.usable:
        raise InputError(
            f"The rows (n_samples={criterion.family.n_samples}) coincide in the feature space of the starting kernel: "
            "its enclosing ball has no radius. Drop constant kernels, or centre or rescale them."
        )
    history: dict[str, list[float]] = {
        "objective": [here.value],
        "stationarity": [stationarity(here, scaled=scaled)],
    }
    size = 1.0 / max(float(np.abs(here.gradient).max()), 1e-300) * max(float(np.abs(here.t).max()), 1e-3)
    status = Status.MAX_ITER
    idle = 0
    for n in range(1, max_iter + 1):
        if history["stationarity"][-1] <= tol:
            status = Status.CONVERGED
            break
        there = None
        step = size
        while True:
            t = project(here.t - step * here.gradient)
            promised = float(here.gradient @ (here.t - t))
            if promised <= 1e-15 * abs(here.value) or not np.abs(t - here.t).max() > 0:
                break
            candidate = criterion.at(t, inner)
            if candidate.usable and here.value - candidate.value >= SUFFICIENT * promised:
                there = candidate
                break
            step *= SHORTER
        if there is None:
            status = Status.STALLED
            break
        moved, turned = there.t - here.t, there.gradient - here.gradient
        bent = float(moved @ turned)
        size = float(moved @ moved) / bent if spectral and bent > 0 else 2.0 * step
        fell = here.value - there.value
        here = there
        history["objective"].append(here.value)
        history["stationarity"].append(stationarity(here, scaled=scaled))
        idle = idle + 1 if fell <= 1e-3 * tol * abs(here.value) else 0
        if idle >= 5:
            # five steps together brought less than what the tolerance can see
            status = Status.CONVERGED if history["stationarity"][-1] <= 10 * tol else Status.STALLED
            break
        if callback is not None and callback(n, here.value, history["stationarity"][-1]):
            status = Status.INTERRUPTED
            break
    return here, status, history
