"""Weights of deep kernels by descent on a criterion of the last layer, with its gradient through the layers.

The problem is not convex and the solution is local; the certificate is that of the machine at these weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import check_known
from kernelweave._devices import moved, to_numpy
from kernelweave._loops import core
from kernelweave._threads import one_blas_thread
from kernelweave._types import Array
from kernelweave.gram import Gram
from kernelweave.machines.loss import Loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.criteria.deep import Criterion, shares_of
from kernelweave.mkl.layers import DeepSolution, Layers, Tape, TrainedLayers
from kernelweave.mkl.loop import Limits, Look, Loop, Moves, SessionOf, Step, minimise
from kernelweave.results import Status

Rows = NDArray[np.int64]
Project = Callable[[list[Array]], list[Array]]

#: Armijo's rule: a step must achieve this share of the decrease predicted by the gradient.
SUFFICIENT = 1e-4
#: A rejected step is divided by this.
SHORTER = 4.0
#: Steps in a row with less than tol of progress before the descent ends.
PATIENCE = 3
#: Statuses of the descent for those of the loop.
ENDS = {Status.MAX_ITER: Status.UNFINISHED, Status.STALLED: Status.CONVERGED}
#: Tolerance of the machine on the final weights, and of the one that is scored on validation rows.
FINAL_TOL, VALIDATION_TOL = 1e-8, 1e-6


@dataclass
class DeepKernel:
    """A stack of base kernels with layers above, as a function of all weights.

    Attributes
    ----------
    gram : Gram
    scale : array of shape (n_kernels,)
    layers : Layers
    device : str or None
        Torch device for the layers; None for NumPy.
    """

    gram: Gram
    scale: Array
    layers: Layers
    device: str | None = None
    _matrix: Array | None = field(default=None, repr=False)
    _tape: Tape | None = field(default=None, repr=False)

    @property
    def sizes(self) -> list[int]:
        """Number of weights of every layer."""
        return [self.gram.n_kernels, *(len(layer) for layer in self.layers.functions)]

    def uniform(self) -> list[Array]:
        """Equal weights that sum to 1 in every layer."""
        return [np.full(k, 1.0 / k) for k in self.sizes]

    @property
    def tape(self) -> Tape:
        """That of the last `forward`."""
        if self._tape is None:
            raise RuntimeError("forward comes first")
        return self._tape

    def forward(self, weights: Sequence[Array]) -> Array:
        """The last kernel on the training rows, symmetric; the next call overwrites it."""
        n = self.gram.n_samples
        if self._matrix is None:
            self._matrix = np.empty((n, n))
        K = self.gram.combine(weights[0] * self.scale, self._matrix, upper=True)
        kappa = K.diagonal().copy()
        if self.device is None and len(self.layers):
            self._tape = self.layers.forward(K, kappa, weights[1:], self._tape)
            return self._tape.top
        core.mirror(K)
        if not len(self.layers):
            self._tape = Tape([K], [kappa], [])
            return K
        there, diagonal = (moved(x, self.device, "device") for x in (K, kappa))
        self._tape = self.layers.forward(there, diagonal, weights[1:])
        return np.ascontiguousarray(to_numpy(self._tape.top))

    def backward(self, H: Array) -> list[Array]:
        """Derivatives by all weights at the point of the last `forward`; H is overwritten, see `Layers.backward`."""
        if self.device is None or not len(self.layers):
            upper, H = self.layers.backward(self.tape, H)
        else:
            core.mirror(H)
            upper, there = self.layers.backward(self.tape, moved(H, self.device, "device"))
            H = np.ascontiguousarray(to_numpy(there))
        return [self.gram.inner(H) * self.scale, *upper]

    def trained(self, weights: Sequence[Array]) -> TrainedLayers | None:
        """The layers with weights and diagonals, for predictions; None without layers."""
        if not len(self.layers):
            return None
        kappa = (weights[0] * self.scale) @ self.gram.diagonal()
        diagonals = self.layers.diagonals(kappa, weights[1:])[:-1]
        upper = tuple(np.array(w) for w in weights[1:])
        return TrainedLayers(self.layers.functions, self.layers.cosine, upper, tuple(diagonals))


@dataclass
class Validation:
    """Validation rows, and the loss there of a machine trained on the others."""

    machine: Machine
    train: Rows
    test: Rows
    measure: Loss
    tol: float = VALIDATION_TOL
    classification: bool = True

    def loss(self, K: Array) -> tuple[float, float]:
        """Mean loss, and error rate (or root mean squared error)."""
        own = self.machine.restricted(self.train)
        found = own.solve(np.ascontiguousarray(K[np.ix_(self.train, self.train)]), tol=self.tol)
        f = K[np.ix_(self.test, self.train)] @ found.dual_coef + found.intercept
        y, share = self.machine.y[self.test], shares_of(self.machine, self.test)[self.test]
        loss = float(share @ self.measure.value(y, f))
        if self.classification:
            return loss, float(share @ ((f > 0) != (y > 0)))
        return loss, math.sqrt(float(share @ np.square(f - y)))


@dataclass
class Point:
    """Weights of all layers, and the criterion with its gradient there."""

    weights: list[Array]
    value: float
    gradient: list[Array]

    def stationarity(self) -> float:
        """The largest predicted decrease for one weight, as a share of the value."""
        w, g = np.concatenate(self.weights), np.concatenate(self.gradient)
        gain = float(np.abs(w * g).max(initial=0.0)) + max(0.0, -float(g[w == 0].min(initial=0.0)))
        return gain / max(abs(self.value), 1e-300)


@dataclass
class DeepSession(SessionOf[Point]):
    """A criterion of all weights during the descent; see `solve_deep`.

    Attributes
    ----------
    tried, emptied : bool
        The descent ended with a step that was not taken; it would have left a layer without weights.
    """

    kernel: DeepKernel
    machine: Machine
    criterion: Criterion
    project: Project
    start: list[Array]
    learnt: Sequence[bool]
    penalty: Sequence[float]
    validation: Validation | None = None
    tried: bool = False
    emptied: bool = False

    def at(self, weights: list[Array]) -> Point:
        """The criterion and its gradient."""
        K = self.kernel.forward(weights)
        if not K.diagonal().any():
            # a layer without weights: no kernel, hence an infinite value
            return Point([w.copy() for w in weights], math.inf, [np.zeros_like(w) for w in weights])
        value, H = self.criterion.at(K)
        value += sum(p * float(w.sum()) for p, w in zip(self.penalty, weights, strict=True))
        assert H is not None
        gradient = [
            (g + p) if free else np.zeros_like(g)
            for g, p, free in zip(self.kernel.backward(H), self.penalty, self.learnt, strict=True)
        ]
        return Point([w.copy() for w in weights], float(value), gradient)

    def after(self, here: Point, direction: Sequence[Array], step: float) -> list[Array] | None:
        """Weights after a step; None if it would leave a layer without weights, and the kernel zero."""
        out = self.project([w - step * d for w, d in zip(here.weights, direction, strict=True)])
        weights = [
            new if free else old for new, old, free in zip(out, here.weights, self.learnt, strict=True)
        ]
        self.emptied = any(not w.any() for w in weights)
        return None if self.emptied else weights

    def look(self, at: Point, n_iter: int) -> Look[Point]:
        """The result after some steps; the weights with the smallest loss are the best."""
        more: dict[str, Any] = {"weights": np.concatenate(at.weights)}
        loss = at.value
        if self.validation is not None:
            # the kernel of the last forward pass is that of the accepted point
            loss, error = self.validation.loss(self.kernel.forward(at.weights))
            more |= {"validation": loss, "validation_error": error}
        return Look(at, at.value, loss, counts=n_iter > 0, more=more)

    def result(self, at: Point, status: Status, loop: Loop[Point]) -> DeepSolution:
        """The machine on all rows."""
        found = machine_at(self.kernel, self.machine, at.weights, at.value, all(self.learnt))
        n_iter, ended = loop.n_iter + self.tried, ENDS.get(status, status)
        certificate = replace(
            found.certificate,
            status=found.status if ended is Status.CONVERGED else ended,
            stationarity=at.stationarity(),
        )
        return replace(
            found, certificate=certificate, n_iter=max(n_iter, 1), n_machines=n_iter + 1, trace=loop.arrays()
        )


def machine_at(
    kernel: DeepKernel, machine: Machine, weights: list[Array], value: float = math.nan, learnt: bool = True
) -> DeepSolution:
    """The machine on the kernel of given weights, of which all layers may be reported."""
    with one_blas_thread():
        found = machine.solve(kernel.forward(weights), tol=FINAL_TOL)
    status = Status.CONVERGED if found.status.ok else found.status
    return DeepSolution(
        weights=weights[0],
        dual_coef=found.dual_coef,
        intercept=found.intercept,
        certificate=replace(found.certificate, status=status, stationarity=math.nan),
        n_iter=1,
        n_machines=1,
        upper=kernel.trained(weights),
        layer_weights=tuple(np.array(w) for w in weights) if learnt else (),
        value=value,
    )


def solve_deep(
    kernel: DeepKernel,
    machine: Machine,
    criterion: Criterion,
    descent: Descent,
    project: Project,
    *,
    start: Sequence[Array] | None = None,
    learnt: Sequence[bool] | None = None,
    penalty: Sequence[float] | None = None,
    validation: Validation | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> DeepSolution:
    """Descend a criterion over the weights of all layers, and train the machine on the learnt kernel.

    Parameters
    ----------
    kernel : DeepKernel
    machine : Machine
        Trained on all rows at the end.
    criterion : Criterion
    descent : Descent
    project : callable
        From a list of weights to the nearest admissible one.
    start : sequence of arrays, optional
        Default: equal weights.
    learnt : sequence of bool, optional
        Layers whose weights are learnt; default all.
    penalty : sequence of float, optional
        Added to the criterion: this number times the sum of the weights of each layer.
    validation : Validation, optional
        Its loss, instead of the criterion, determines the best weights and when to stop.
    callback : callable, optional
        ``callback(iteration, value)``; a true value ends the descent.

    Returns
    -------
    DeepSolution
        ``history`` holds ``criterion``, ``weights`` (all layers in a row) and, with validation rows, ``validation`` and
        ``validation_error`` after every step, the start included.
    """
    n_layers = len(kernel.sizes)
    session = DeepSession(
        kernel,
        machine,
        criterion,
        project,
        project([np.array(w) for w in (kernel.uniform() if start is None else start)]),
        learnt or [True] * n_layers,
        penalty or [0.0] * n_layers,
        validation,
    )
    told = None if callback is None else lambda n, value, _: callback(n, value)
    # folds and free rows are small matrices, and idle threads of BLAS would slow those of the layers
    with one_blas_thread():
        found = minimise(session, [descent], max_iter=descent.max_iter, callback=told)
    assert isinstance(found, DeepSolution)
    return found


@dataclass
class Descent(Step[DeepSession, Point]):
    """The descent, by one of three rules for the next point.

    Attributes
    ----------
    step : {"backtracking", "fixed", "adam"}
        Projected gradient with Armijo's rule and steps of Barzilai and Borwein's length, with the fixed step `eta`, or
        with Adam's adaptive steps of size `eta`.
    eta : float
    tol : float
        Relative decrease of the criterion below which the descent ends.
    max_iter : int
    n_iter_no_change : int
        Steps without a better validation loss before the descent ends.
    """

    step: str = "backtracking"
    eta: float = 0.1
    tol: float = 1e-4
    max_iter: int = 100
    n_iter_no_change: int = 10

    def __post_init__(self) -> None:
        check_known(self.step, STEPS, "step")

    def moves(self, session: DeepSession, loop: Loop[Point]) -> Moves[Point]:
        """The start, and one point after every step."""
        waits = math.inf if session.validation is None else self.n_iter_no_change
        loop.limits = Limits(
            idle=PATIENCE - 1, unbeaten=waits, moved=self.tol, names=("criterion", "", ""), keeps=True
        )
        here = session.at(session.start)
        yield session.look(here, 0)
        for there in STEPS[self.step](session, here, self.eta):
            yield session.look(there, loop.n_iter + 1)
        session.tried = True
        return Status.EMPTIED if session.emptied else Status.CONVERGED


def backtracking(session: DeepSession, here: Point, eta: float) -> Iterator[Point]:
    """Projected gradient that never raises the criterion."""
    size = 0.0
    while True:
        g, w = np.concatenate(here.gradient), np.concatenate(here.weights)
        if not size:
            size = 0.5 * max(float(w.max()), 1e-3) / max(float(np.abs(g).max()), 1e-300)
        step = size
        while True:
            weights = session.after(here, here.gradient, step)
            if weights is not None:
                change = np.concatenate(weights) - w
                promised = -float(g @ change)
                least = 1e-12 * float(np.abs(w).max())
                if promised <= 1e-14 * abs(here.value) or not np.abs(change).max() > least:
                    return
                there = session.at(weights)
                if here.value - there.value >= SUFFICIENT * promised:
                    break
            step /= SHORTER
        curvature = float(change @ (np.concatenate(there.gradient) - g))
        # if the criterion is not convex along the step, or its curvature is small: at most four times the length
        size = min(float(change @ change) / curvature, 4.0 * step) if curvature > 0 else 4.0 * step
        here = there
        yield here


def fixed(session: DeepSession, here: Point, eta: float) -> Iterator[Point]:
    """The paper's update with a constant step."""
    while (weights := session.after(here, here.gradient, eta)) is not None:
        if all((a == b).all() for a, b in zip(weights, here.weights, strict=True)):
            return
        here = session.at(weights)
        yield here


def adam(session: DeepSession, here: Point, eta: float) -> Iterator[Point]:
    """Steps of about the same size for every weight, independent of the size of its derivative."""
    mean = [np.zeros_like(g) for g in here.gradient]
    square = [np.zeros_like(g) for g in here.gradient]
    count = 0
    while True:
        count += 1
        direction = []
        for g, m, v in zip(here.gradient, mean, square, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (np.square(g) - v)
            unbiased = v / (1.0 - 0.999**count)
            direction.append(m / (1.0 - 0.9**count) / (np.sqrt(unbiased) + 1e-12))
        weights = session.after(here, direction, eta)
        if weights is None:
            return
        here = session.at(weights)
        yield here


STEPS: dict[str, Callable[[DeepSession, Point, float], Iterator[Point]]] = {
    "backtracking": backtracking,
    "fixed": fixed,
    "adam": adam,
}
