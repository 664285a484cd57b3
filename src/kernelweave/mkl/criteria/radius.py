"""Kernels learnt by margin and radius: RKL, KL-C and the method of Do et al.

The radius of the minimum enclosing ball measures the scale of the kernel, which the margin ignores. Given the
derivative of a kernel by its parameters, every criterion here has a gradient in closed form, because the coefficients
of the machine and of the ball are maximisers. Projected gradients find local solutions, with ``stationarity`` as a
measure of accuracy; for RKL on sums of kernels `kernelweave.mkl.steps.rkl` finds the global one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kernelweave._types import Array
from kernelweave.machines.ball import solve_meb
from kernelweave.machines.machine import Machine
from kernelweave.mkl.families import FLAT, Family, WeightedSum, coinciding
from kernelweave.results import Ball, Certificate, MachineSolution, Status


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
        self.n_machines = 0
        self._b: Array | None = None
        self._beta: Array | None = None
        self._radii: Array | None = None

    @property
    def convex(self) -> bool:
        """Whether every local solution is a global one, so that its distance from the optimum has a bound."""
        return isinstance(self.family, WeightedSum) and self.kind in ("rkl", "do", "margin")

    def at(self, t: Array, tol: float) -> Evaluation:
        """Value and gradient."""
        family, machine, kind = self.family, self.machine, self.kind
        if kind == "do":
            radii = self.radii(tol)
            machine = replace(machine, C=machine.C / float(t @ radii))
        K = family.kernel(t)
        if kind in ("do", "margin"):
            found = self._solve(machine, K, tol, t)
            b = found.dual_coef
            gradient = -0.5 * family.quadratic_forms(t, b)
            if kind == "do":
                gradient = gradient - 0.5 * radii * float(self.machine.ridge @ np.square(b))
            return Evaluation(t, found.dual, gradient, b, found, None)
        ridge = 1.0 / machine.C if kind == "kl-c" else 0.0
        ball = solve_meb(
            K,
            ridge=ridge,
            sample_weight=machine.sample_weight if ridge else None,
            tol=tol,
            start=self._beta,
            check=False,
        )
        self._beta = beta = ball.dual_coef
        r2 = ball.radius2
        if not r2 > FLAT * float(K.diagonal().mean()):
            nothing = Certificate("machine", math.inf, math.inf, 0.0, status=Status.STALLED)
            zero = np.zeros(len(K))
            found = MachineSolution(np.ones(1), zero, 0.0, nothing, n_iter=0)
            return Evaluation(t, math.inf, np.zeros_like(t), zero, found, ball)
        found = self._solve(machine, K / r2 if kind == "rkl" else K, tol, t)
        b = found.dual_coef
        quadratic_forms = family.quadratic_forms(t, b)
        radius = family.diagonals(t, beta) - family.quadratic_forms(t, beta)
        if kind == "rkl":
            gradient = -0.5 / r2 * quadratic_forms + 0.5 / r2**2 * float(b @ (K @ b)) * radius
            return Evaluation(t, found.dual, gradient, b / r2, found, ball)
        # the value of the machine is W^2 / 2
        return Evaluation(
            t, r2 * found.dual, found.dual * radius - 0.5 * r2 * quadratic_forms, b, found, ball
        )

    def _solve(self, machine: Machine, K: Array, tol: float, t: Array) -> MachineSolution:
        self.n_machines += 1
        error = self.family.entry_error(t) if isinstance(self.family, WeightedSum) else 0.0
        found = machine.solve(K, tol=tol, warm_start=self._b, entry_error=error)
        self._b = found.dual_coef
        return found

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


def on_parameters(lower: float | Array, upper: float | Array) -> Stationarity:
    """Predicted decrease between bounds >= 0, when each parameter is multiplied or leaves zero."""

    def measure(here: Evaluation) -> float:
        t, gradient = here.t, here.gradient
        # at a bound a parameter can move to one side only
        kept = ((t <= lower) & (gradient > 0)) | ((t >= upper) & (gradient < 0))
        gradient = np.where(kept, 0.0, gradient)
        gain = float(np.abs(t * gradient).max(initial=0.0))
        return _share(gain + max(0.0, -float(gradient[t == 0].min(initial=0.0))), here)

    return measure
