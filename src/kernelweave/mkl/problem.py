"""A machine on a stack of kernels: what every solver of kernel weights works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelweave._loops import core
from kernelweave._threads import threads_for
from kernelweave.gram import Gram
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import imbalance, noise
from kernelweave.mkl.weight_sets import WeightSet
from kernelweave.results import Certificate, MachineSolution, Solution, Status

Array = NDArray[np.float64]
Index = NDArray[np.int64]
#: Called after every outer iteration with (iteration, objective, relative gap); a true value stops.
Callback = Callable[[int, float, float], object]
History = dict[str, list[float]]


@dataclass
class Joint:
    """A machine on a stack of kernels.

    Attributes
    ----------
    gram : Gram
    machine : Machine
    scale : array of shape (n_kernels,)
    weight_set : WeightSet
    """

    gram: Gram
    machine: Machine
    scale: Array
    weight_set: WeightSet
    n_machines: int = 0
    _matrix: Array | None = field(default=None, repr=False)
    _noise: float = 0.0

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.gram.n_kernels

    def kernel(self, weights: Array) -> Array:
        """``K(d)``, symmetric; the next call overwrites it, and machines are solved on this one."""
        # once for the sum, and once for weights whose own sum is not quite 1
        self._noise = 2.0 * noise(int(np.maximum(self.gram.ranks[weights > 0], 1).sum()))
        if self._matrix is None:
            self._matrix = np.empty((self.gram.n_samples, self.gram.n_samples))
        out = self.gram.combine_upper(weights * self.scale, self._matrix)
        core.mirror(out, threads_for(len(out)))
        return out

    def forms(self, b: Array, kernels: Index | None = None) -> Array:
        """Upper bounds of ``s_m b'K_m b``, exact where the representation is."""
        pick = slice(None) if kernels is None else kernels
        values = self.gram.quadratic_forms(b[None], kernels)
        residual = self.gram.residual_trace[pick]
        if residual.any():
            values = values + residual * float(b @ b)
        return self.scale[pick] * values

    def products(self, b: Array, kernels: Index) -> Array:
        """``s_m K_m b``, shape (len(kernels), n_samples)."""
        return self.gram.matvecs(b[None], kernels)[:, 0] * self.scale[kernels, None]

    def solve(self, K: Array, tol: float, warm: Array | None) -> MachineSolution:
        """The machine on the kernel that was combined last."""
        self.n_machines += 1
        return self.machine.solve(K, tol=tol, warm_start=warm, noise=self._noise)

    def left_out(self, weights: Array, b: Array) -> float:
        """How much the form of K(d) as it is held lies below ``<weights, forms>``: what truncated factors leave out."""
        residual = self.gram.residual_trace
        if not residual.any():
            return 0.0
        return float((weights * self.scale) @ residual) * float(b @ b)

    def goal(self, at: Point, tol: float) -> float:
        """What the own gap at upper bounds of all forms must fall to.

        The tolerance, less the rounding errors and what truncated factors leave out, where they leave half of it.
        """
        goal = tol * abs(at.machine.primal)
        spare = goal - 2.0 * at.machine.rounding - 0.5 * self.left_out(at.weights, at.machine.dual_coef)
        return spare if spare >= 0.5 * goal else goal

    def forms_error(self, b: Array, q: Array) -> Array:
        """Bound of the errors of the forms q: of rounding, and of coefficients whose sum is not quite zero."""
        # the sum of the sizes of all terms, because abs(K_ij) <= sqrt(K_ii K_jj)
        terms = self.scale * np.square(np.sqrt(np.maximum(self.gram.diagonal(), 0.0)) @ np.abs(b))
        share = imbalance(b)[0]
        return noise(len(b)) * terms + 2.0 * share * np.sqrt(np.maximum(q, 0.0) * terms)

    def result(self, at: Point, tol: float, status: Status, n_iter: int, history: History) -> Solution:
        """Wrap up, with the gap over all kernels and the rounding errors of the certificate."""
        b = at.machine.dual_coef
        q = self.forms(b)
        error = self.forms_error(b, q)
        # the machine knows the factors, the bound is one for the kernels that were given
        level = float(at.weights @ q) - self.left_out(at.weights, b)
        highest = self.weight_set.support(q)
        own = at.machine.own_gap + 0.5 * max(0.0, highest - level)
        shift = self.weight_set.support(q + error) - highest + float(at.weights @ error)
        return self.certified(at, own, at.machine.rounding + 0.5 * shift, tol, status, n_iter, history)

    def certified(
        self,
        at: Point,
        own: float,
        rounding: float,
        tol: float,
        status: Status,
        n_iter: int,
        history: History,
        kind: str = "joint",
    ) -> Solution:
        """A result with the gap that the solver left, and the rounding errors beside it."""
        return Solution(
            weights=at.weights,
            dual_coef=at.machine.dual_coef,
            intercept=at.machine.intercept,
            certificate=Certificate.of(kind, at.machine.primal, own, rounding, status, tol=tol),
            n_iter=n_iter,
            n_machines=self.n_machines,
            trace={key: np.asarray(values) for key, values in history.items()},
        )


@dataclass(frozen=True)
class Point:
    """Weights, shape (n_kernels,), and the machine solved at them."""

    weights: Array
    machine: MachineSolution


@dataclass
class WarmStart:
    """What one strength or fold hands on to the next: weights and dual coefficients.

    Attributes
    ----------
    weights : array of shape (n_kernels,) or None
    dual_coef : array of shape (n_samples,) or None
        Signed coefficients of the machine. Neither need be feasible.
    """

    weights: Array | None = None
    dual_coef: Array | None = None
