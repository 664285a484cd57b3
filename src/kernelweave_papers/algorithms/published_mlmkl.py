"""The update of MLMKL as it is printed, for study: it ascends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._loops import core
from kernelweave.learners import MLMKL
from kernelweave.learners.solving import Output
from kernelweave.mkl.criteria.deep import TrainingError
from kernelweave.mkl.deep import DeepKernel, DeepSession, Descent, Point
from kernelweave.mkl.layers import finite
from kernelweave.mkl.loop import Loop
from kernelweave.results import Solution, Status

Array = NDArray[np.float64]


class PublishedMLMKL(MLMKL):
    """MLMKL by equations (17) to (20) of its paper.

    The gradient of the training error, without the sign of the residual and without the derivatives of diagonals, is
    *added* with the fixed step `eta`.
    """

    step = "fixed"

    def check(self) -> None:
        """Raise for a device, too."""
        super().check()
        if self.device is not None:
            raise InputError("The published update needs NumPy. Use device=None.")

    def _kernel(self, output: Output) -> DeepKernel:
        return PublishedKernel(output.gram, output.problem.scale, self.layers())

    def _criterion(self, output: Output, rows: np.ndarray) -> TrainingError:
        return PublishedError(output.machine, rows, loss=self._measure(output))

    def _descent(self) -> Descent:
        found = super()._descent()
        return Ascent("fixed", -found.eta, found.tol, found.max_iter, found.n_iter_no_change)


class PublishedError(TrainingError):
    """The published equation (18), which has ``abs(f - y)`` for the residual."""

    def error(self, y: Array, f: Array, share: Array) -> tuple[float, Array]:
        """The error, and the residual without its sign."""
        value, slope = super().error(y, f, share)
        return value, np.abs(slope)


class PublishedKernel(DeepKernel):
    """Layers with the published chain rule: entry by entry, without the terms through diagonals and normalisation."""

    def backward(self, H: Array) -> list[Array]:
        """The published derivatives by all weights."""
        tape, layers = self.tape, self.layers.functions
        core.mirror(H)
        gradients: list[Array] = []
        for depth in reversed(range(len(layers))):
            K, kappa = tape.kernels[depth], tape.diagonals[depth]
            core.mirror(K)
            left, right = kappa[:, None], kappa[None, :]
            below, gradient = np.zeros_like(K), np.empty(len(layers[depth]))
            for k, (f, w, r) in enumerate(
                zip(layers[depth], tape.weights[depth], tape.roots[depth], strict=True)
            ):
                u = f.layer_value(np, K, left, right)
                outside = H * r[:, None] * r[None, :]
                gradient[k] = float(np.vdot(outside, u))
                inner = f.layer_partials(np, K, left, right, u)[0]
                below += float(w) * finite(np, f, outside * inner)
            gradients.insert(0, gradient)
            H = below
        return [self.gram.inner(H) * self.scale, *gradients]


@dataclass
class Ascent(Descent):
    """Steps that may raise the criterion: without validation rows the last weights are the result."""

    def result(self, session: DeepSession, loop: Loop[Any], status: Status) -> Solution:
        """The last point, or the one with the smallest loss on validation rows."""
        last: Point | None = loop.here.point if loop.here is not None else None
        if session.validation is not None or last is None:
            return super().result(session, loop, status)
        return session.result(last, status, loop)
