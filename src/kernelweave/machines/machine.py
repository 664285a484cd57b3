"""Margin machines behind one interface: what solvers of kernel weights ask of them.

With signed coefficients b the optimal value of every machine on a kernel K is

    J(K) = max_b  reward(b) - 1/2 b'K b ,      dJ/dK = -1/2 b b' at the maximiser,

so q_m = b'K_m b is all that a weight needs, and for a convex set of weights with support function sigma, any feasible b
bounds the joint optimum from below by ``reward(b) - sigma(q) / 2``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import check_kernel_matrix, check_known
from kernelweave.machines.least_squares import Bordered, solve_least_squares
from kernelweave.machines.svm import hinge, run_machine, squared_hinge, tube
from kernelweave.results import SVMResult

Array = NDArray[np.float64]

LOSSES = ("hinge", "squared-hinge", "epsilon-insensitive", "squared")

#: Losses that act as a multiple of the identity beside the kernel.
RIDGED = ("squared-hinge", "squared")


@dataclass(frozen=True)
class Machine:
    """A loss with its data.

    Attributes
    ----------
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets.
    C : float
        Weight of the loss.
    loss : {"hinge", "squared-hinge", "epsilon-insensitive", "squared"}
    epsilon : float
    sample_weight : array of shape (n_samples,) or None
    max_iter : int or None
        SMO steps of one solution.
    """

    y: Array
    C: float
    loss: str = "hinge"
    epsilon: float = 0.1
    sample_weight: Array | None = None
    max_iter: int | None = None

    def __post_init__(self) -> None:
        check_known(self.loss, LOSSES, "loss")

    @property
    def costs(self) -> Array:
        """C times the sample weights."""
        return np.full(len(self.y), self.C) if self.sample_weight is None else self.C * self.sample_weight

    @property
    def ridge(self) -> Array:
        """What the loss adds to the diagonal of the kernel."""
        if self.loss not in RIDGED:
            return np.zeros(len(self.y))
        costs = self.costs
        return np.divide(1.0, costs, out=np.zeros_like(costs), where=costs > 0)

    def solve(
        self, K: Array, *, tol: float, warm_start: Array | None = None, noise: float = 0.0
    ) -> SVMResult:
        """Solve on one kernel that is known to be symmetric and finite.

        Parameters
        ----------
        K : array of shape (n_samples, n_samples)
        tol : float
        warm_start : array of shape (n_samples,), optional
        noise : float, default=0.0
            Rounding errors of the entries of K, as a share of ``sqrt(K_ii K_jj)``.
        """
        if self.loss == "squared":
            return solve_least_squares(K, self.y, self.costs, noise)
        K = check_kernel_matrix(K)
        if self.loss == "hinge":
            problem, loss = hinge(K, self.y, self.C, self.sample_weight)
        elif self.loss == "squared-hinge":
            problem, loss = squared_hinge(K, self.y, self.C, self.sample_weight)
        else:
            problem, loss = tube(K, self.y, self.C, self.epsilon, self.sample_weight)
        return run_machine(replace(problem, noise=noise), loss, tol, self.max_iter, warm_start)

    def reward(self, b: Array) -> float:
        """The dual objective without the kernel's part."""
        value = float(self.y @ b)
        if self.loss == "epsilon-insensitive":
            value -= self.epsilon * float(np.abs(b).sum())
        elif self.loss in RIDGED:
            value -= 0.5 * float(self.ridge @ np.square(b))
        return value

    def free(self, b: Array) -> NDArray[np.int64]:
        """Rows whose coefficient moves when the kernel changes a little: neither zero nor at a bound."""
        inside = b != 0
        if self.loss == "squared":
            inside = self.costs > 0
        elif self.loss != "squared-hinge":
            inside &= np.abs(b) < self.costs
        return np.flatnonzero(inside)

    def curvature(self, K: Array, b: Array, V: Array) -> Array:
        """Second derivative of J in the weights: ``V_F' P V_F``.

        P is the inverse of the kernel on the free rows F, on coefficients that sum to zero; V (n_kernels, n_samples)
        holds the K_m b. It describes J as long as the free rows stay the same.
        """
        where = self.free(b)
        if len(where) < 2:
            return np.zeros((len(V), len(V)))
        block = K[np.ix_(where, where)]
        block.flat[:: len(where) + 1] += self.ridge[where]
        if not float(block.diagonal().mean()) > 0.0:
            # a kernel of zeros, which no lift would make positive
            return np.zeros((len(V), len(V)))
        return Bordered(block).forms(V[:, where])
