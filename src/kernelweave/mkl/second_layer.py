"""A nonlinear second layer on the outputs of the kernels: Problem 1 of RLS2's paper, by descent over the first layer.

The first layer has one function for each kernel, f1 = (f1_1, ..., f1_m) with f1_i in the space of s_i K_i; the second
layer is a machine with a kernel K2 on the m numbers f1(x). With the first layer in a ball,

    min over sum_i ||f1_i||^2 <= r^2  of  J(f1) ,
    J(f1) = min over f2 and b  of  ||f2||^2 / 2 + sum_j C_j L(y_j, f2(f1(x_j)) + b) ,

J is the optimal value of the machine on the matrix K2(f1(x_j), f1(x_l)), so that its derivative is that of a machine by
its kernel. The gradient in the space of f1 has the coefficients dJ / df1_i(x_j): Theorem 1 without any projection, and
steps need one product with every kernel. J is not convex in f1 and the solution is local.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kernelweave._loops import core
from kernelweave._threads import one_blas_thread
from kernelweave._types import Array
from kernelweave.functions import KernelFunction
from kernelweave.gram import Gram
from kernelweave.machines.machine import Machine
from kernelweave.mkl.deep import ENDS, FINAL_TOL, PATIENCE, SHORTER, SUFFICIENT
from kernelweave.mkl.layers import DeepSolution, FirstLayer, Layers, TrainedLayers
from kernelweave.mkl.loop import Limits, Look, Loop, Moves, SessionOf, Step, minimise
from kernelweave.results import MachineSolution, Solution, Status

#: Share of the squared norm of the first layer that all kernels have at the start, if this lowers the objective, and
#: the factor by which it is lowered if not. A kernel without any output would never get one: its derivative is zero.
ENTERING, LESS, TRIALS = 1e-2, 0.1, 3


@dataclass(frozen=True)
class Point:
    """A first layer, with the machine on its outputs.

    Attributes
    ----------
    coef : array of shape (n_kernels, n_samples)
        Of the kernels times their factors.
    values : array of shape (n_kernels, n_samples)
        The outputs at the training rows.
    found : MachineSolution
    slope : array of shape (n_kernels, n_samples)
        Derivatives of the objective by the outputs: the coefficients of the gradient.
    """

    coef: Array
    values: Array
    found: MachineSolution
    slope: Array

    @property
    def value(self) -> float:
        """The objective."""
        return self.found.primal

    @property
    def norms2(self) -> Array:
        """Squared norms of the functions of all kernels, (n_kernels,)."""
        return np.maximum(np.einsum("mi,mi->m", self.coef, self.values), 0.0)


@dataclass
class SecondLayer(SessionOf[Point]):
    """Problem 1 during its solution.

    Attributes
    ----------
    gram : Gram
    scale : array of shape (n_kernels,)
    machine : Machine
    function : KernelFunction
        K2, of inner products or distances of outputs.
    radius : float
    """

    gram: Gram
    scale: Array
    machine: Machine
    function: KernelFunction
    radius: float

    def __post_init__(self) -> None:
        self.layers = Layers(((self.function,),), cosine=False)

    def products(self, C: Array) -> Array:
        """``s_m K_m C[m]`` for every kernel, (n_kernels, n_samples)."""
        out = np.zeros_like(C)
        for m in np.flatnonzero(C.any(axis=1)):
            out[m] = self.scale[m] * self.gram.matvecs(C[m : m + 1], np.array([m]))[0, 0]
        return out

    def at(self, coef: Array, values: Array, start: Array | None = None) -> Point:
        """The machine on the outputs, and the derivative of its value."""
        K = values.T @ values
        tape = self.layers.forward(K, K.diagonal().copy(), [np.ones(1)])
        found = self.machine.solve(tape.top, tol=FINAL_TOL, warm_start=start)
        self.n_machines += 1
        H = self.layers.backward(tape, np.multiply.outer(-0.5 * found.dual_coef, found.dual_coef))[1]
        core.mirror(H)
        return Point(coef, values, found, 2.0 * (values @ H))

    def of_sum(self, weights: Array, c: Array) -> tuple[Array, Array]:
        """Coefficients and outputs of a weighted sum of kernels as two layers, the first on the edge of the ball."""
        coef = np.sqrt(weights)[:, None] * c
        values = self.products(coef)
        norm = math.sqrt(max(float(np.sum(coef * values)), 0.0))
        factor = self.radius / norm if norm > 0 else 0.0
        return factor * coef, factor * values

    def begin(self, weights: Array, c: Array) -> list[Point]:
        """The linear solution, and after it one in which all kernels have outputs, if its objective is lower."""
        first = self.at(*self.of_sum(weights, c))
        share = ENTERING
        for _ in range(TRIALS if (weights == 0).any() else 0):
            mixed = (1.0 - share) * weights + share / len(weights)
            more = self.at(*self.of_sum(mixed, c), first.found.dual_coef)
            if more.value < first.value:
                return [first, more]
            share *= LESS
        return [first]

    def stationarity(self, at: Point) -> float:
        """The largest decrease within the ball that the gradient predicts, as a share of the objective."""
        length = math.sqrt(max(float(np.sum(at.slope * self.products(at.slope))), 0.0))
        gain = float(np.sum(at.slope * at.values)) + self.radius * length
        return max(gain, 0.0) / max(abs(at.value), 1e-300)

    def result(self, at: Point, status: Status, loop: Loop[Point]) -> DeepSolution:
        """The machine on the outputs; weights are the shares of the squared norm of the first layer."""
        norms2, ended = at.norms2, ENDS.get(status, status)
        found = at.found
        ok = Status.CONVERGED if found.status.ok else found.status
        kappa = np.square(at.values).sum(axis=0)
        first = FirstLayer((at.coef * self.scale[:, None]).T, at.values.T)
        return DeepSolution(
            weights=norms2 / norms2.sum() if norms2.any() else np.full(len(norms2), 1.0 / len(norms2)),
            dual_coef=found.dual_coef,
            intercept=found.intercept,
            certificate=replace(
                found.certificate,
                status=ok if ended is Status.CONVERGED else ended,
                stationarity=self.stationarity(at),
            ),
            n_iter=max(loop.n_iter, 1),
            n_machines=self.n_machines,
            trace=loop.arrays(),
            upper=TrainedLayers(self.layers.functions, False, (np.ones(1),), (kappa,), first),
            value=at.value,
        )


@dataclass
class Descent(Step[SecondLayer, Point]):
    """Projected gradient in the space of the first layer: Armijo's rule, steps of Barzilai and Borwein's length.

    Attributes
    ----------
    weights : array of shape (n_kernels,)
    c : array of shape (n_samples,)
        Of the weighted sum of kernels at which it starts.
    tol : float
        Relative decrease of the objective below which the descent ends.
    """

    weights: Array
    c: Array
    tol: float

    def moves(self, session: SecondLayer, loop: Loop[Point]) -> Moves[Point]:
        """The start, and one point after every step."""
        loop.limits = Limits(idle=PATIENCE - 1, moved=self.tol, names=("criterion", "", ""), keeps=True)
        points = session.begin(self.weights, self.c)
        for place, here in enumerate(points):
            yield Look(here, here.value, here.value, counts=place > 0)
        size = 0.0
        while True:
            through = session.products(here.slope)
            n2 = float(here.norms2.sum())
            inner, g2 = float(np.sum(here.slope * here.values)), float(np.sum(here.slope * through))
            if not g2 > 0:
                return Status.CONVERGED
            step = size or 0.5 * session.radius / math.sqrt(g2)
            while True:
                norm = math.sqrt(max(n2 - 2.0 * step * inner + step * step * g2, 0.0))
                factor = min(1.0, session.radius / norm) if norm > 0 else 1.0
                coef = factor * (here.coef - step * here.slope)
                values = factor * (here.values - step * through)
                promised = -float(np.sum(here.slope * (values - here.values)))
                if not promised > 1e-14 * abs(here.value):
                    return Status.CONVERGED
                there = session.at(coef, values, here.found.dual_coef)
                if here.value - there.value >= SUFFICIENT * promised:
                    break
                step /= SHORTER
            change = values - here.values
            curvature = float(np.sum(change * (there.slope - here.slope)))
            length2 = float(np.sum((coef - here.coef) * change))
            size = min(length2 / curvature, 4.0 * step) if curvature > 0 and length2 > 0 else 4.0 * step
            here = there
            yield Look(here, here.value, here.value)


def solve_second_layer(
    gram: Gram,
    scale: Array,
    machine: Machine,
    function: KernelFunction,
    start: Solution,
    *,
    radius: float = 1.0,
    tol: float = 1e-4,
    max_iter: int = 100,
    callback: Callable[[int, float], object] | None = None,
) -> DeepSolution:
    """Descend the optimal value of a machine on the outputs of a first layer, over the first layer in a ball.

    Parameters
    ----------
    gram : Gram
    scale : array of shape (n_kernels,)
        Factors s_m of the kernels.
    machine : Machine
    function : KernelFunction
        K2, of inner products or distances.
    start : Solution
        A weighted sum of kernels, at whose two layers the descent starts; its outputs are scaled to the radius.
    radius : float
        Of the ball; the widths of Gaussians are in its unit.
    tol : float
        Relative decrease of the objective at which to stop.
    max_iter : int
    callback : callable, optional
        ``callback(iteration, value)``; a true value ends the descent.

    Returns
    -------
    DeepSolution
        A local solution, whose objective is at most that of the start; ``history`` holds ``criterion``.
    """
    session = SecondLayer(gram, scale, machine, function, radius)
    told = None if callback is None else lambda n, value, _: callback(n, value)
    with one_blas_thread():
        found = minimise(
            session, [Descent(start.weights, start.dual_coef, tol)], max_iter=max_iter, callback=told
        )
    assert isinstance(found, DeepSolution)
    return found
