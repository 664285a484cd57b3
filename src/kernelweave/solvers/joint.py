"""A machine on a stack of kernels: what every solver of kernel weights works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelweave._loops import core
from kernelweave._threads import threads_for
from kernelweave.gram import Gram
from kernelweave.solvers.machines import Machine
from kernelweave.solvers.result import MKLResult, Status, SVMResult, relative_gap
from kernelweave.solvers.weight_sets import WeightSet

Array = NDArray[np.float64]
Index = NDArray[np.int64]
#: Called after every outer iteration with (iteration, objective, relative gap); a true value stops.
Callback = Callable[[int, float, float], object]


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

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.gram.n_kernels

    def kernel(self, weights: Array) -> Array:
        """``K(d)``, symmetric; the next call overwrites it."""
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

    def solve(self, K: Array, tol: float, warm: Array | None) -> SVMResult:
        """The machine on one kernel."""
        self.n_machines += 1
        return self.machine.solve(K, tol=tol, warm_start=warm)

    def result(self, at: Point, status: Status, n_iter: int, history: dict[str, list[float]]) -> MKLResult:
        """Wrap up, with the gap over all kernels."""
        q = self.forms(at.machine.dual_coef)
        level = float(at.weights @ q)
        gap = at.machine.gap + 0.5 * max(0.0, self.weight_set.support(q) - level)
        primal = at.machine.primal
        return MKLResult(
            weights=at.weights,
            dual_coef=at.machine.dual_coef,
            intercept=at.machine.intercept,
            primal=primal,
            dual=primal - gap,
            gap=gap,
            rel_gap=relative_gap(primal, gap),
            status=status,
            n_iter=n_iter,
            n_machines=self.n_machines,
            history={key: np.asarray(values) for key, values in history.items()},
        )


@dataclass(frozen=True)
class Point:
    """Weights, shape (n_kernels,), and the machine solved at them."""

    weights: Array
    machine: SVMResult


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
