"""Weights of deep kernels by descent on a criterion of the last layer, with its gradient through the layers.

The problem is not convex and the solution is local; the certificate is that of the machine at these weights.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import check_known
from kernelweave._threads import one_blas_thread
from kernelweave.machines.machine import Machine
from kernelweave.mkl.criteria.deep import Criterion, measure
from kernelweave.mkl.deep_kernel import DeepKernel
from kernelweave.mkl.layers import TrainedLayers
from kernelweave.mkl.loop import Limits, Look, Loop, Moves, SessionOf, Step, minimise
from kernelweave.results import Solution, Status

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Project = Callable[[list[Array]], list[Array]]

STEPS = ("backtracking", "fixed", "adam")

#: Armijo's rule: a step must achieve this share of the decrease predicted by the gradient.
SUFFICIENT = 1e-4
#: A rejected step is divided by this.
SHORTER = 4.0
#: Steps in a row with less than tol of progress before the descent ends.
PATIENCE = 3
#: Statuses of the descent for those of the loop.
ENDS = {Status.MAX_ITER: Status.UNFINISHED, Status.STALLED: Status.CONVERGED}
#: Tolerance of the machine on the final weights.
FINAL_TOL = 1e-8


@dataclass(frozen=True)
class DeepSolution(Solution):
    """Weights of a deep kernel: a local solution.

    `weights` are those of the base kernels; ``gap`` certifies the machine on the last layer, not the weights.

    Attributes
    ----------
    upper : TrainedLayers or None
        The upper layers; None for a single layer.
    layer_weights : tuple of arrays
        Weights of every layer, the lowest first; empty if only the base kernels have learnt weights.
    value : float
        The criterion.
    radius2 : float or None
        Squared radius of the minimum enclosing ball of the learnt kernel, NaN if the criterion uses none; None
        if no criterion of the learner does.
    """

    upper: TrainedLayers | None = None
    layer_weights: tuple[Array, ...] = ()
    value: float = math.nan
    radius2: float | None = None


@dataclass(frozen=True)
class Descent:
    """Settings of the descent.

    Attributes
    ----------
    step : {"backtracking", "fixed", "adam"}
        Projected gradient with Armijo's rule and steps of Barzilai and Borwein's length, with the fixed step `eta`, or
        with Adam's adaptive steps of size `eta`.
    eta : float
    tol : float
        Relative decrease of the criterion below which the descent ends.
    max_iter : int
    as_published : bool
        The published update, which *adds* the gradient.
    n_iter_no_change : int
        Steps without a better validation loss before the descent ends.
    """

    step: str = "backtracking"
    eta: float = 0.1
    tol: float = 1e-4
    max_iter: int = 100
    as_published: bool = False
    n_iter_no_change: int = 10

    def __post_init__(self) -> None:
        check_known(self.step, STEPS, "step")


@dataclass
class Validation:
    """Validation rows, and the loss there of a machine trained on the others."""

    machine: Machine
    train: Rows
    test: Rows
    kind: str
    tol: float = 1e-6
    classification: bool = True

    def loss(self, K: Array) -> tuple[float, float]:
        """Mean loss, and error rate (or root mean squared error)."""
        machine = self.machine
        weight = np.ones(len(K)) if machine.sample_weight is None else machine.sample_weight
        own = replace(machine, y=machine.y[self.train], sample_weight=weight[self.train])
        found = own.solve(np.ascontiguousarray(K[np.ix_(self.train, self.train)]), tol=self.tol)
        f = K[np.ix_(self.test, self.train)] @ found.dual_coef + found.intercept
        y, share = machine.y[self.test], weight[self.test] / float(weight[self.test].sum())
        loss = float(share @ measure(self.kind, f, y, machine.loss.tube)[0])
        if self.classification:
            return loss, float(share @ ((f > 0) != (y > 0)))
        return loss, math.sqrt(float(share @ np.square(f - y)))


@dataclass
class _Point:
    weights: list[Array]
    value: float
    gradient: list[Array]


def stationarity(weights: Sequence[Array], gradient: Sequence[Array], value: float) -> float:
    """Distance from stationarity: the largest predicted decrease for one weight, as a share of the value."""
    w, g = np.concatenate(list(weights)), np.concatenate(list(gradient))
    gain = float(np.abs(w * g).max(initial=0.0)) + max(0.0, -float(g[w == 0].min(initial=0.0)))
    return gain / max(abs(value), 1e-300)


@dataclass
class _Search(SessionOf[_Point]):
    """A criterion of all weights during the descent.

    Attributes
    ----------
    tried : bool
        The descent ended with a step that was not taken.
    """

    kernel: DeepKernel
    criterion: Criterion | None
    penalty: Sequence[float]
    learnt: Sequence[bool]
    project: Project
    as_published: bool
    machine: Machine | None = None
    start: list[Array] = field(default_factory=list)
    validation: Validation | None = None
    tried: bool = False

    def at(self, weights: list[Array]) -> _Point:
        K = self.kernel.forward(weights)
        if not K.diagonal().any():
            # a layer without weights: no kernel, hence an infinite value
            return _Point([w.copy() for w in weights], math.inf, [np.zeros_like(w) for w in weights])
        if self.criterion is None:
            raise RuntimeError("weights that are not learnt have no derivative")
        value, H = self.criterion.at(K)
        value += sum(p * float(w.sum()) for p, w in zip(self.penalty, weights, strict=True))
        if H is None:
            raise RuntimeError("a criterion without its derivative")
        layers = self.kernel.layers
        if self.as_published and len(layers):
            tape = self.kernel._tape
            assert tape is not None
            upper, H = layers.published_backward(tape, H)
            gradient = [self.kernel.gram.inner(H) * self.kernel.scale, *upper]
        else:
            gradient = self.kernel.backward(H)
        gradient = [
            (g + p) if free else np.zeros_like(g)
            for g, p, free in zip(gradient, self.penalty, self.learnt, strict=True)
        ]
        return _Point([w.copy() for w in weights], float(value), gradient)

    def moved(self, weights: Sequence[Array], direction: Sequence[Array], step: float) -> list[Array]:
        out = self.project([w - step * d for w, d in zip(weights, direction, strict=True)])
        return [new if free else old for new, old, free in zip(out, weights, self.learnt, strict=True)]

    def look(self, at: _Point, n_iter: int) -> Look[_Point]:
        """The result after some steps; the weights with the smallest loss are the best."""
        more: dict[str, Any] = {"weights": np.concatenate(at.weights)}
        # the published update ascends: its last weights are the result
        loss = -float(n_iter) if self.as_published else at.value
        if self.validation is not None:
            # the kernel of the last forward pass is that of the accepted point
            loss, error = self.validation.loss(self.kernel.forward(at.weights))
            more |= {"validation": loss, "validation_error": error}
        return Look(at, at.value, loss, counts=n_iter > 0, more=more)

    def result(self, at: _Point, status: Status, loop: Loop[_Point]) -> DeepSolution:
        """The machine on all rows."""
        slope = stationarity(at.weights, at.gradient, at.value)
        return self.solution(at, slope, ENDS.get(status, status), loop.n_iter + self.tried, loop.arrays())

    def solution(
        self, at: _Point, slope: float, status: Status, n_iter: int, trace: dict[str, Array]
    ) -> DeepSolution:
        """The machine on all rows, at weights with a given stationarity."""
        assert self.machine is not None
        found = self.machine.solve(self.kernel.forward(at.weights), tol=FINAL_TOL)
        if status is Status.CONVERGED and not found.status.ok:
            status = found.status
        return DeepSolution(
            weights=at.weights[0],
            dual_coef=found.dual_coef,
            intercept=found.intercept,
            certificate=replace(found.certificate, status=status, stationarity=slope),
            n_iter=max(n_iter, 1),
            n_machines=n_iter + 1,
            trace=trace,
            upper=self.kernel.trained(at.weights),
            layer_weights=tuple(np.array(w) for w in at.weights) if all(self.learnt) else (),
            value=at.value,
        )


def solve_deep(
    kernel: DeepKernel,
    machine: Machine,
    criterion: Criterion | None,
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
    criterion : Criterion or None
        None keeps the starting weights.
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
    weights = project([np.array(w) for w in (kernel.uniform() if start is None else start)])
    search = _Search(
        kernel,
        criterion,
        [0.0] * n_layers if penalty is None else list(penalty),
        [True] * n_layers if learnt is None else list(learnt),
        project,
        descent.as_published,
        machine,
        weights,
        validation,
    )
    told = None if callback is None else lambda n, value, _: callback(n, value)
    # folds and free rows are small matrices, and idle threads of BLAS would slow those of the layers
    with one_blas_thread():
        if criterion is not None and descent.max_iter > 0:
            found = minimise(search, [MOVES[descent.step](descent)], max_iter=descent.max_iter, callback=told)
            assert isinstance(found, DeepSolution)
            return found
        value = math.nan
        if criterion is not None:
            value = criterion.at(kernel.forward(weights), gradient=False)[0]
        return search.solution(_Point(weights, value, []), math.nan, Status.CONVERGED, 0, {})


def _is_empty(weights: Sequence[Array]) -> bool:
    """Whether a layer has no weights: the kernel is then zero."""
    return any(not w.any() for w in weights)


class _Descending(Step[_Search, _Point]):
    """A step of the descent.

    Attributes
    ----------
    emptied : bool
        The next step would have left a layer without weights.
    """

    emptied = False

    def __init__(self, descent: Descent) -> None:
        self.descent = descent

    @abstractmethod
    def next(self, search: _Search, here: _Point) -> _Point | None:
        """The next point; None if there is none."""

    def limits(self, session: _Search) -> Limits:
        """It ends when the criterion hardly changes, or the validation loss does not fall."""
        waits = math.inf if session.validation is None else self.descent.n_iter_no_change
        return Limits(
            idle=PATIENCE - 1, unbeaten=waits, moved=self.descent.tol, names=("criterion", "", ""), keeps=True
        )

    def moves(self, session: _Search, loop: Loop[_Point]) -> Moves[_Point]:
        """The start, and one point after every step."""
        here = session.at(session.start)
        yield session.look(here, 0)
        while (there := self.next(session, here)) is not None:
            here = there
            yield session.look(here, loop.n_iter + 1)
        session.tried = True
        return Status.EMPTIED if self.emptied else Status.CONVERGED


class _Backtracking(_Descending):
    """Projected gradient that never raises the criterion."""

    def __init__(self, descent: Descent) -> None:
        super().__init__(descent)
        self.size: float | None = None

    def next(self, search: _Search, here: _Point) -> _Point | None:
        g = np.concatenate(here.gradient)
        w = np.concatenate(here.weights)
        if self.size is None:
            self.size = 0.5 * max(float(w.max()), 1e-3) / max(float(np.abs(g).max()), 1e-300)
        step = self.size
        while True:
            weights = search.moved(here.weights, here.gradient, step)
            change = np.concatenate(weights) - w
            promised = -float(g @ change)
            if promised <= 1e-14 * abs(here.value) or not np.abs(change).max() > 1e-12 * float(
                np.abs(w).max()
            ):
                return None
            if not _is_empty(weights):
                there = search.at(weights)
                if here.value - there.value >= SUFFICIENT * promised:
                    break
            step /= SHORTER
        curvature = float(change @ (np.concatenate(there.gradient) - g))
        # if the criterion is not convex along the step, or its curvature is small: at most four times the length
        self.size = min(float(change @ change) / curvature, 4.0 * step) if curvature > 0 else 4.0 * step
        return there


class _Fixed(_Descending):
    """The paper's update with a constant step; as published it ascends."""

    def __init__(self, descent: Descent) -> None:
        super().__init__(descent)
        self.step = -descent.eta if descent.as_published else descent.eta

    def next(self, search: _Search, here: _Point) -> _Point | None:
        weights = search.moved(here.weights, here.gradient, self.step)
        if all((a == b).all() for a, b in zip(weights, here.weights, strict=True)):
            return None
        self.emptied = _is_empty(weights)
        if self.emptied:
            return None
        return search.at(weights)


class _Adam(_Descending):
    """Steps of about the same size for every weight, independent of the size of its derivative."""

    def __init__(self, descent: Descent) -> None:
        super().__init__(descent)
        self.eta, self.count = descent.eta, 0
        self.mean: list[Array] | None = None
        self.square: list[Array] | None = None

    def next(self, search: _Search, here: _Point) -> _Point | None:
        if self.mean is None or self.square is None:
            self.mean = [np.zeros_like(g) for g in here.gradient]
            self.square = [np.zeros_like(g) for g in here.gradient]
        self.count += 1
        direction = []
        for g, m, v in zip(here.gradient, self.mean, self.square, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (np.square(g) - v)
            unbiased = v / (1.0 - 0.999**self.count)
            direction.append(m / (1.0 - 0.9**self.count) / (np.sqrt(unbiased) + 1e-12))
        weights = search.moved(here.weights, direction, self.eta)
        self.emptied = _is_empty(weights)
        if self.emptied:
            return None
        return search.at(weights)


MOVES: dict[str, type[_Descending]] = {"backtracking": _Backtracking, "fixed": _Fixed, "adam": _Adam}
