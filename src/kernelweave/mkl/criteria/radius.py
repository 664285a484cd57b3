"""Kernels learnt by margin and radius: RKL, KL-C and the method of Do et al.

The radius of the minimum enclosing ball measures the scale of the kernel, which the margin ignores. Given the
derivative of a kernel by its parameters, every criterion here has a gradient in closed form, because the coefficients
of the machine and of the ball are maximisers. Projected gradients find local solutions, with ``stationarity`` as a
measure of accuracy; for RKL on sums of kernels `kernelweave.mkl.steps.rkl` finds the global one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._loops import core
from kernelweave.gram import Gram
from kernelweave.machines.ball import solve_meb
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import imbalance, sum_error
from kernelweave.results import Ball, Certificate, MachineSolution, Status

Array = NDArray[np.float64]

#: A radius below this share of the mean diagonal means that the rows coincide in the feature space.
FLAT = 1e-12


class Family(Protocol):
    """Kernels K(t) on the training rows with parameters t >= 0, and their derivatives."""

    n_parameters: int
    n_samples: int

    def kernel(self, t: Array) -> Array:
        """K(t), symmetric; the next call may overwrite it."""

    def quadratic_forms(self, t: Array, b: Array) -> Array:
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
        criterion differentiable, if rows repeat or the rank is low.
    """

    def __init__(self, gram: Gram, scale: Array, ridge: float = 0.0) -> None:
        self.gram, self.scale = gram, scale
        self.n_parameters, self.n_samples = gram.n_kernels, gram.n_samples
        self._diagonal = gram.diagonal()
        self.ridge = ridge
        self._ridge = ridge * self._diagonal.max(axis=1) + gram.residual_trace
        self._matrix = np.empty((gram.n_samples, gram.n_samples))

    def rescaled(self, factors: Array) -> WeightedSum:
        """The same kernels with other factors; a factor of 0 excludes a kernel."""
        out = copy(self)
        out.scale = self.scale * factors
        return out

    def kernel(self, t: Array) -> Array:
        """K(t)."""
        weights = t * self.scale
        out = self.gram.combine_upper(weights, self._matrix)
        core.mirror(out)
        out.flat[:: len(out) + 1] += float(weights @ self._ridge)
        return out

    def quadratic_forms(self, t: Array, b: Array) -> Array:
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

    def quadratic_form_errors(self, b: Array, q: Array) -> Array:
        """Bounds of the errors of quadratic forms: of rounding, and of coefficients whose sum is not quite zero."""
        size = self._root @ np.abs(b)
        return (
            sum_error(len(b)) * np.square(size) + 2.0 * imbalance(b)[0] * np.sqrt(np.maximum(q, 0.0)) * size
        )

    @property
    def _root(self) -> Array:
        """Square roots of the diagonals, ridge included, shape (n_kernels, n_samples)."""
        return np.sqrt(np.maximum(self.diagonal(np.arange(self.n_parameters)), 0.0))

    def entry_error(self, t: Array) -> float:
        """Rounding of the entries of K(t), as a share of the roots of its diagonal."""
        return 2.0 * sum_error(int(np.maximum(self.gram.ranks[t > 0], 1).sum()))


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
    machine : MachineSolution
    ball : Ball or None
    """

    t: Array
    value: float
    gradient: Array
    dual_coef: Array
    machine: MachineSolution
    ball: Ball | None

    @property
    def usable(self) -> bool:
        """Whether the criterion exists at this point."""
        return math.isfinite(self.value)


def coinciding(n_samples: int) -> InputError:
    """The error for rows without a distance under any kernel."""
    return InputError(
        f"The rows (n_samples={n_samples}) coincide in the feature space of the kernel: its enclosing ball has no "
        "radius. Drop constant kernels, and `distances` that are all zero; centre or rescale the others."
    )


class RadiusMargin:
    """A criterion of margin and radius on a family of kernels, with warm starts of machine and ball.

    Parameters
    ----------
    family : Family
    machine : Machine
    kind : {"rkl", "kl-c", "kl-c-eq10", "do", "margin"}
        See `solve_radius`.
    """

    def __init__(self, family: Family, machine: Machine, kind: str) -> None:
        self.family, self.machine, self.kind = family, machine, kind
        self.n_machines = self.n_balls = 0
        self._b: Array | None = None
        self._beta: Array | None = None
        self._radii: Array | None = None

    def _ball(self, K: Array, tol: float, ridge: float = 0.0) -> Ball:
        self.n_balls += 1
        ball = solve_meb(
            K,
            ridge=ridge,
            sample_weight=self.machine.sample_weight if ridge else None,
            tol=tol,
            warm_start=self._beta,
            check=False,
        )
        self._beta = ball.dual_coef
        return ball

    @property
    def convex(self) -> bool:
        """Whether every local solution is a global one, so that its distance from the optimum has a bound."""
        return isinstance(self.family, WeightedSum) and self.kind in ("rkl", "do", "margin")

    def _solve(self, machine: Machine, K: Array, tol: float, t: Array) -> MachineSolution:
        self.n_machines += 1
        error = self.family.entry_error(t) if isinstance(self.family, WeightedSum) else 0.0
        found = machine.solve(K, tol=tol, warm_start=self._b, entry_error=error)
        self._b = found.dual_coef
        return found

    def at(self, t: Array, tol: float) -> Evaluation:
        """Value and gradient."""
        own = {
            "rkl": self._rkl,
            "kl-c": self._klc,
            "kl-c-eq10": self._klc,
            "do": self._do,
            "margin": self._margin,
        }
        return own[self.kind](t, tol)

    def _margin(self, t: Array, tol: float) -> Evaluation:
        machine = self._solve(self.machine, self.family.kernel(t), tol, t)
        b = machine.dual_coef
        return Evaluation(t, machine.dual, -0.5 * self.family.quadratic_forms(t, b), b, machine, None)

    def _rkl(self, t: Array, tol: float) -> Evaluation:
        K = self.family.kernel(t)
        mean = float(K.diagonal().mean())
        ball = self._ball(K, tol)
        r2 = ball.radius2
        if not r2 > FLAT * mean:
            return Evaluation(t, math.inf, np.zeros_like(t), np.zeros(len(K)), _nothing(len(K)), ball)
        machine = self._solve(self.machine, K / r2, tol, t)
        b, beta = machine.dual_coef, ball.dual_coef
        quadratic_forms = self.family.quadratic_forms(t, b)
        squares = float(b @ (K @ b))
        radius = self.family.diagonals(t, beta) - self.family.quadratic_forms(t, beta)
        gradient = -0.5 / r2 * quadratic_forms + 0.5 / r2**2 * squares * radius
        return Evaluation(t, machine.dual, gradient, b / r2, machine, ball)

    def _klc(self, t: Array, tol: float) -> Evaluation:
        K = self.family.kernel(t)
        ridge = 1.0 / self.machine.C if self.kind == "kl-c" else 0.0
        ball = self._ball(K, tol, ridge)
        r2 = ball.radius2
        if not r2 > FLAT * float(K.diagonal().mean()):
            return Evaluation(t, math.inf, np.zeros_like(t), np.zeros(len(K)), _nothing(len(K)), ball)
        machine = self._solve(self.machine, K, tol, t)
        b, beta = machine.dual_coef, ball.dual_coef
        half = machine.dual  # W^2 / 2
        radius = self.family.diagonals(t, beta) - self.family.quadratic_forms(t, beta)
        gradient = half * radius - 0.5 * r2 * self.family.quadratic_forms(t, b)
        return Evaluation(t, r2 * half, gradient, b, machine, ball)

    def _do(self, t: Array, tol: float) -> Evaluation:
        radii = self.radii(tol)
        rho = float(t @ radii)
        machine = replace(self.machine, C=self.machine.C / rho)
        found = self._solve(machine, self.family.kernel(t), tol, t)
        b = found.dual_coef
        gradient = -0.5 * self.family.quadratic_forms(t, b) - 0.5 * radii * float(
            self.machine.ridge @ np.square(b)
        )
        return Evaluation(t, found.dual, gradient, b, found, None)

    def radii(self, tol: float) -> Array:
        """Squared radius of every kernel on its own (Do et al.), computed once."""
        if self._radii is None:
            self._radii = radii_of(self.family.kernel, self.family.n_parameters, tol)
        return self._radii


def radii_of(kernel: Callable[[Array], Array], n_kernels: int, tol: float) -> Array:
    """Squared radius of every kernel on its own; `kernel` makes a sum from weights."""
    unit = np.zeros(n_kernels)
    out, level = np.empty(n_kernels), 0.0
    for m in range(n_kernels):
        unit[m] = 1.0
        K = kernel(unit)
        level = max(level, float(K.diagonal().mean()))
        out[m] = solve_meb(K, tol=tol, check=False).radius2
        unit[m] = 0.0
    if not out.max() > FLAT * level:
        raise coinciding(len(K))
    return out


def _nothing(n: int) -> MachineSolution:
    nothing = Certificate("machine", math.inf, math.inf, 0.0, status=Status.STALLED)
    return MachineSolution.of(np.zeros(n), 0.0, nothing, n_iter=0, infeasibility=0.0)


#: Distance of a point from stationarity, as a share of the value; 0 means that no feasible direction descends.
Stationarity = Callable[[Evaluation], float]


def _share(gain: float, here: Evaluation) -> float:
    return max(0.0, gain) / max(abs(here.value), 1e-300)


def on_simplex(here: Evaluation) -> float:
    """Decrease predicted by the linear model over the simplex."""
    t, gradient = here.t, here.gradient
    return _share(float(t @ gradient) - float(t.sum()) * float(gradient.min()), here)


def on_sphere(here: Evaluation) -> float:
    """Decrease predicted by the linear model over the nonnegative part of the unit sphere, along its tangents."""
    t, gradient = here.t, here.gradient
    tangential = gradient - float(t @ gradient) * t
    return _share(float(np.linalg.norm(np.minimum(tangential, 0.0))), here)


def on_parameters(here: Evaluation) -> float:
    """Predicted decrease over parameters >= 0, when each is multiplied or leaves zero."""
    t, gradient = here.t, here.gradient
    gain = float(np.abs(t * gradient).max(initial=0.0))
    return _share(gain + max(0.0, -float(gradient[t == 0].min(initial=0.0))), here)
