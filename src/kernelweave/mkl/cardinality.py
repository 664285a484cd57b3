"""Margin multiple kernel learning with a limit on the number of kernels, solved to a stated gap.

    min  J(d) + ridge |d|^2     over d on the simplex with at most k weights that are not zero,

where J is the optimal value of a machine. Over a given subset S of kernels that is the convex problem of
`kernelweave.mkl.svm_mkl`, with value v(S), which never rises when a kernel is added. Any coefficients b that the dual
allows bound the values of *all* subsets from below: with q_m = s_m b'K_m b,

    v(S) >= B(S; b) = max over t in (0, 1] of   dual_term(t b) + min over d on the simplex of S of
                      (ridge |d|^2 - t^2/2 sum_m d_m q_m) ,

and at the solution of S itself the two agree. Without a ridge B depends on the largest q_m in S alone: a subset that is
better than what is known must hold one of the kernels whose q_m is above a threshold. `Pool` keeps all coefficients
that were met, and `branch_and_bound.Search` branches on the shortest list of kernels of which one is needed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import RowWeights, Scale, Targets
from kernelweave._parameters import Cost, Function, MaxIter, Nonnegative, Number, OneOf, Tol, Whole, checked
from kernelweave._threads import blas_threads_for
from kernelweave.gram import Gram
from kernelweave.machines.rounding import sum_error
from kernelweave.mkl.branch_and_bound import Search, Subsets
from kernelweave.mkl.certify import OUTSIDE, outside
from kernelweave.mkl.loop import Callback
from kernelweave.mkl.problem import FINEST, LOOSEST, Point, Problem, Session, inner_tol
from kernelweave.mkl.svm_mkl import LOSSES, check_warm, make_problem, solve_problem
from kernelweave.mkl.weight_sets import Simplex
from kernelweave.results import Certificate, Solution, Status, WarmStart, relative_gap

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Nodes of the tree.
MOST = 1000
#: Multiples of coefficients that give bounds too. Shorter ones are best where the forms are larger than their own.
MULTIPLES = np.array([1.0, 0.97, 0.93, 0.88, 0.8, 0.7, 0.55, 0.35])
#: Values of subsets are computed to this share of the tolerance, those of relaxations to no less than the second.
SHARE = 0.2
RELAXED = 1e-5
#: Swaps that are tried before the search, for every kernel that may have a weight.
SWAPS = 5
#: Newton with a ridge: iterations, those without progress, steps in a row that may be rejected, those that are halved.
NEWTON_MOST, PATIENCE, MOST_REJECTED, HALVED = 200, 20, 40, 2
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class CardinalitySolution(Solution):
    """Weights of at most k kernels, and what proves how good they are.

    Attributes
    ----------
    proof : array of shape (n_bounds, n_samples)
        Coefficients whose bounds together leave no subset of k kernels a value below `dual`.
    n_nodes : int
        Nodes of the tree that were looked at.
    """

    proof: Array = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    n_nodes: int = 0


@dataclass(frozen=True)
class CardinalityProblem:
    """A machine on a stack of kernels of which at most `k` may have a weight.

    Attributes
    ----------
    whole : Problem
        The same without the limit and without the ridge.
    k : int
    ridge : float
        Factor of the squared weights.
    """

    whole: Problem
    k: int
    ridge: float = 0.0

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.whole.n_kernels

    def on(self, members: Index) -> Problem:
        """The problem of some kernels alone, without a limit."""
        whole = self.whole
        return Problem(whole.gram.take(members), whole.machine, whole.scale[members], whole.weight_set)

    def penalty(self, weights: Array) -> float:
        """``ridge |d|^2``."""
        return self.ridge * float(weights @ weights)

    def certify(self, solution: Solution) -> Certificate:
        """The value of the weights, and the bound that the coefficients of the proof leave, both computed again."""
        machine, weights = self.whole.machine, solution.weights
        apart = max(float(-weights.min()), abs(math.fsum(weights) - 1.0))
        proof = getattr(solution, "proof", np.empty((0, 0)))
        low, high = machine.loss.bounds(machine.y, machine.costs)
        sizes = np.abs(proof).sum(axis=1)
        over = np.maximum(low - proof, proof - high).max(axis=1, initial=0.0)
        unequal = np.array([abs(math.fsum(b)) for b in proof])
        if (
            not apart <= OUTSIDE
            or np.count_nonzero(weights) > self.k
            or not len(proof)
            or not (np.maximum(over, unequal) <= OUTSIDE * sizes).all()
        ):
            return outside("cardinality")
        used = np.flatnonzero(weights)
        part = self.on(used)
        with blas_threads_for(self.whole.gram.n_samples):
            terms = int(np.maximum(part.gram.ranks, 1).sum())
            found = machine.certify(
                part.combine(weights[used]),
                solution.dual_coef,
                float(solution.intercept),
                entry_error=2.0 * sum_error(terms),
            )
            pool = Pool(self)
            for b in proof:
                pool.add(b)
        primal = found.primal + self.penalty(weights)
        proven = Proof(pool, self.k, solution.dual + solution.rounding)
        search = Search(proven)
        search.run(10**9, lambda: False)
        own = max(0.0, primal - search.bound)
        return Certificate.of("cardinality", primal, own, found.rounding, Status.CONVERGED)


class Pool:
    """Dual coefficients that were met, and their bounds of the values of subsets.

    Parameters
    ----------
    problem : CardinalityProblem
    """

    def __init__(self, problem: CardinalityProblem) -> None:
        self.problem = problem
        self.coefficients: list[Array] = []
        self._terms = np.empty((0, len(MULTIPLES)))
        self._forms = np.empty((0, problem.n_kernels))

    def __len__(self) -> int:
        return len(self.coefficients)

    def add(self, b: Array) -> None:
        """Add coefficients that the dual allows."""
        whole = self.problem.whole
        machine = whole.machine
        forms = whole.quad(b)
        forms = forms + whole.quad_error(b, forms)
        size = np.abs(b) @ (np.abs(machine.loss.dual_slope(machine.y, machine.costs, b)) + np.abs(machine.y))
        terms = np.array([machine.dual_term(t * b) for t in MULTIPLES]) - sum_error(len(b)) * size
        self.coefficients.append(b)
        self._terms = np.vstack([self._terms, terms])
        self._forms = np.vstack([self._forms, forms])

    def bound(self, inside: Index, free: Index, room: int) -> float:
        """The largest bound of the pool of all subsets of `inside` and at most `room` of `free`."""
        if not len(self):
            return -math.inf
        values = self._forms[:, free]
        if 0 < room < len(free):
            values = -np.partition(-values, room - 1, axis=1)[:, :room]
        elif room == 0:
            values = values[:, :0]
        return float(self._value(np.hstack([self._forms[:, inside], values])).max())

    def bounds_with(self, inside: Index, free: Index) -> Array:
        """The largest bound of `inside` with one of `free`, for each of them."""
        own = self._forms[:, inside]
        if self.problem.ridge > 0.0:
            return np.array([self._value(np.hstack([own, self._forms[:, [j]]])).max() for j in free])
        tops = np.maximum(own.max(axis=1, initial=0.0)[:, None], self._forms[:, free])
        out = np.full(len(free), -np.inf)
        for t, terms in zip(MULTIPLES, self._terms.T, strict=True):
            np.maximum(out, (terms[:, None] - 0.5 * t**2 * tops).max(axis=0), out=out)
        return out

    def needed(self, inside: Index, free: Index, room: int, target: float) -> Index | None:
        """The shortest list of kernels of which a subset below the target holds one, largest forms first."""
        own = self._forms[:, inside]
        telling = np.flatnonzero(self._value(own) >= target) if len(inside) else np.arange(len(self))
        if not len(telling):
            return None
        own, values = own[telling], self._forms[np.ix_(telling, free)]
        order = np.argsort(-values, axis=1, kind="stable")
        ranked = np.hstack([np.take_along_axis(values, order, 1), np.full((len(telling), room), -np.inf)])
        # how many of the first are needed: bounds rise when they are left out
        low, high = np.zeros(len(telling), np.int64), np.full(len(telling), len(free))
        while (low < high).any():
            middle = (low + high) // 2
            rest = np.take_along_axis(ranked, middle[:, None] + np.arange(room), 1)
            enough = self._value(np.hstack([own, rest]), telling) >= target
            high, low = np.where(enough, middle, high), np.where(enough, low, np.minimum(middle + 1, high))
        best = int(np.argmin(high))
        return free[order[best, : high[best]]]

    def _value(self, forms: Array, rows: Index | slice = slice(None)) -> Array:
        """Bounds of subsets with these forms, one row for every entry of the pool."""
        if not forms.shape[1]:
            return np.full(len(forms), np.inf)
        ridge, out = self.problem.ridge, np.full(len(forms), -np.inf)
        forms = forms if ridge == 0.0 else -np.sort(-forms, axis=1)
        top = forms.max(axis=1)
        empty = np.isneginf(top)
        forms, top = np.where(empty[:, None], 0.0, forms), np.where(empty, 0.0, top)
        for t, terms in zip(MULTIPLES, self._terms[rows].T, strict=True):
            least = -0.5 * t**2 * top
            if ridge > 0.0:
                least = least + spread(t**2 * (forms - top[:, None]), ridge)
            np.maximum(out, terms + least, out=out)
        return np.where(empty, np.inf, out)


def spread(forms: Array, ridge: float) -> Array:
    """``min over d on the simplex of  ridge |d|^2 - 1/2 <d, q>``, for every row of q.

    Rows are in descending order, and their first entry is zero.
    """
    x = forms / (4.0 * ridge)
    sums = np.cumsum(np.maximum(x, -2.0), axis=1)
    number = np.arange(1, x.shape[1] + 1)
    held = x * number > sums - 1.0
    size = held.sum(axis=1)
    shift = (sums[np.arange(len(x)), size - 1] - 1.0) / size
    squares = np.where(held, np.square(np.maximum(x, -2.0)), 0.0).sum(axis=1)
    return -ridge * (squares - size * np.square(shift))


class Proof(Subsets):
    """The subsets as a pool of coefficients bounds them, and nothing is computed: what is left of a target."""

    def __init__(self, pool: Pool, most: int, target: float) -> None:
        self.pool, self.most = pool, most
        self.n_members = pool.problem.n_kernels
        self._target = target

    @property
    def incumbent(self) -> float:
        """The target: there is no other."""
        return self._target

    @property
    def target(self) -> float:
        """The value that no subset is to be below."""
        return self._target

    def bound(self, inside: Index, free: Index, room: int) -> float:
        """See `Pool.bound`."""
        return self.pool.bound(inside, free, room)

    def bounds_with(self, inside: Index, free: Index) -> Array:
        """See `Pool.bounds_with`."""
        return self.pool.bounds_with(inside, free)

    def needed(self, inside: Index, free: Index, room: int) -> Index | None:
        """See `Pool.needed`."""
        return self.pool.needed(inside, free, room, self.target)

    def compute(self, members: Index, near: Any = None) -> Any:
        """Nothing: the pool stays as it is."""
        return None


class Kernels(Proof):
    """Subsets of kernels while the best is sought: values are computed, and the best point is remembered.

    Parameters
    ----------
    problem : CardinalityProblem
    tol : float
        Relative gap.
    """

    def __init__(self, problem: CardinalityProblem, tol: float) -> None:
        super().__init__(Pool(problem), min(problem.k, problem.n_kernels), math.inf)
        self.problem, self.tol = problem, tol
        self.best: Solution | None = None
        self.n_machines = 0
        self._known: dict[bytes, Solution] = {}

    @property
    def incumbent(self) -> float:
        """Value of the best weights so far."""
        return math.inf if self.best is None else self.best.primal

    @property
    def target(self) -> float:
        """The incumbent less the tolerance."""
        # half of it is for the bounds, and the rest for the rounding errors beside them
        return self.incumbent - 0.5 * self.tol * abs(self.incumbent) if self.best is not None else math.inf

    def compute(self, members: Index, near: Solution | None = None) -> Solution:
        """Solve the convex problem of these kernels; with few enough of them it is a candidate."""
        members = np.sort(members)
        key = members.tobytes()
        if key in self._known:
            return self._known[key]
        tol = SHARE * self.tol
        if len(members) > self.most:
            tol = max(tol, RELAXED)
        found = solve_convex(self.problem, members, tol, near)
        self.n_machines += found.n_machines
        self.pool.add(found.dual_coef)
        self._known[key] = found
        if np.count_nonzero(found.weights) <= self.most and found.primal < self.incumbent:
            self.best = found
        return found

    def improve(self, near: Solution, start: Array | None, late: Callable[[], bool]) -> None:
        """Candidates: the largest weights of a relaxation, and swaps of one kernel as long as one may help."""
        for weights in (near.weights, start):
            if weights is not None:
                order = np.argsort(-weights, kind="stable")[: self.most]
                self.compute(order, near)
        tried = 0
        while self.best is not None and tried < SWAPS * self.most and not late():
            used = np.flatnonzero(self.best.weights)
            swaps = [np.setdiff1d(used, [m]) for m in used]
            if len(used) < self.most:
                swaps = [used]
            free = np.setdiff1d(np.arange(self.n_members), used)
            if not len(free):
                return
            bounds = np.array([self.pool.bounds_with(swap, free) for swap in swaps])
            out, new = np.unravel_index(int(np.argmin(bounds)), bounds.shape)
            if bounds[out, new] >= self.target:
                return
            self.compute(np.append(swaps[out], free[new]), self.best)
            tried += 1


def solve_convex(
    problem: CardinalityProblem, members: Index, tol: float, near: Solution | None = None
) -> Solution:
    """Minimise over the simplex of some kernels; weights of the others are zero."""
    part = problem.on(members)
    warm = WarmStart()
    if near is not None:
        warm.dual_coef = near.dual_coef
        own = near.weights[members]
        if own.any():
            warm.weights = own / own.sum()
    if problem.ridge == 0.0 or len(members) == 1:
        found = solve_problem(part, tol=tol, warm=warm if warm.dual_coef is not None else None)
        found = _raised(found, problem.penalty(found.weights))
    else:
        found = solve_ridge(part, problem.ridge, tol, warm)
    weights = np.zeros(problem.n_kernels)
    weights[members] = found.weights
    return replace(found, weights=weights)


def _raised(found: Solution, by: float) -> Solution:
    c = found.certificate
    return replace(found, certificate=replace(c, primal=c.primal + by, dual=c.dual + by)) if by else found


def solve_ridge(problem: Problem, ridge: float, tol: float, warm: WarmStart) -> Solution:
    """Newton on ``J(d) + ridge |d|^2`` over the simplex.

    The Hessian is that of J while the free rows stay the same, and ``2 ridge``. A step that does not lower the value is
    halved, and then damped. The gap is that of the machine and

        ridge |d|^2 - 1/2 <d, q> - min over d' of (ridge |d'|^2 - 1/2 <d', q>) .
    """
    session = Session(problem, tol, warm)
    every = np.arange(problem.n_kernels)
    weights, b = session.start(), warm.dual_coef
    model: Model | None = None
    best: tuple[float, float, Point] | None = None
    inner, damping, rejected, idle = LOOSEST, 0.0, 0, 0
    status = Status.MAX_ITER
    for _ in range(NEWTON_MOST):
        at = session.solve(weights, inner, b)
        machine = at.machine
        b = machine.dual_coef
        value = machine.primal + ridge * float(weights @ weights)
        if model is not None and value - machine.own_gap > model.value + 1e-14 * abs(model.value):
            rejected += 1
            if rejected > MOST_REJECTED:
                status = Status.STALLED
                break
            if rejected <= HALVED:
                weights = 0.5 * (model.weights + weights)
            else:
                damping = min(max(100.0 * damping, 1e-6), 1e6)
                weights = model.step(damping)
            continue
        rejected, damping = 0, 0.1 * damping if damping > 1e-10 else 0.0
        q = problem.quad(b)
        outer = _outer(weights, q, ridge)
        gap = machine.own_gap + outer
        idle = 0 if best is None or gap < 0.9 * best[0] else idle + 1
        if best is None or gap < best[0]:
            best = (gap, value, at)
        if gap <= tol * abs(value) or idle > PATIENCE:
            status = Status.CONVERGED if gap <= tol * abs(value) else Status.STALLED
            break
        inner = max(inner_tol(relative_gap(value, outer), tol) * 0.1**idle, FINEST)
        if machine.own_gap > outer:
            # the machine is what is left
            if machine.status in (Status.STALLED, Status.ROUNDING):
                status = machine.status
                break
            inner = min(inner, 0.1 * relative_gap(machine.primal, machine.own_gap))
        bend = session.machine.curvature(session.kernel, b, problem.products(b, every))
        bend.flat[:: len(bend) + 1] += 2.0 * ridge
        model = Model(value, weights, 2.0 * ridge * weights - 0.5 * q, bend)
        weights = model.step(damping)
    assert best is not None
    gap, value, at = best
    q = problem.quad(at.machine.dual_coef)
    error = problem.quad_error(at.machine.dual_coef, q)
    rounding = at.machine.rounding + 0.5 * (float(error.max()) + float(at.weights @ error))
    return Solution(
        weights=at.weights,
        dual_coef=at.machine.dual_coef,
        intercept=at.machine.intercept,
        certificate=Certificate.of("joint", value, gap, rounding, status, tol=tol),
        n_iter=session.n_machines,
        n_machines=session.n_machines,
    )


@dataclass(frozen=True)
class Model:
    """Value, gradient and Hessian at weights of the simplex."""

    value: float
    weights: Array
    gradient: Array
    hessian: Array

    def step(self, damping: float) -> Array:
        """The minimiser of the quadratic model with a share of its size on the diagonal."""
        H, size = self.hessian.copy(), float(np.abs(self.gradient).max())
        H.flat[:: len(H) + 1] += damping * max(float(np.trace(H)) / len(H), size)
        x = Simplex().newton(H, self.gradient - H @ self.weights, self.weights, max(size, TINY))
        total = float(np.maximum(x, 0.0).sum())
        return np.maximum(x, 0.0) / total if np.isfinite(total) and total > 0.0 else self.weights


def _outer(weights: Array, q: Array, ridge: float) -> float:
    """What other weights could gain at most, at these forms."""
    top = float(q.max())
    least = float(spread(-np.sort(top - q)[None], ridge)[0]) - 0.5 * top
    return max(0.0, ridge * float(weights @ weights) - 0.5 * float(weights @ q) - least)


@checked
def solve_cardinality_mkl(
    gram: Gram | ArrayLike,
    y: Targets,
    C: Cost,
    k: Annotated[int, Whole(1)],
    *,
    ridge: Nonnegative = 0.0,
    loss: Annotated[str, OneOf(*LOSSES)] = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    max_time: Annotated[float | None, Number(above=0) | None] = None,
    warm_start: Solution | WarmStart | None = None,
    callback: Annotated[Callback | None, Function() | None] = None,
) -> CardinalitySolution:
    """Learn the weights of at most k kernels with a support vector machine, and prove how good they are.

    Minimises over weights d on the simplex, of which at most k are not zero, and over f = <w, phi_d(x)> + intercept
    with the kernel ``K(d) = sum_m d_m s_m K_m``

        1/2 ||w||^2 + sum_i C_i loss(y_i, f_i) + ridge sum_m d_m^2 ,      C_i = C * sample_weight_i .

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last. Not modified.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets for ``loss="epsilon-insensitive"``.
    C : float
        Weight of the loss > 0, a sum over samples.
    k : int
        Most kernels with a weight, at least 1. As many as there are kernels, or more, are no limit.
    ridge : float, default=0.0
        Factor of the squared weights, in units of the objective: the larger, the more equal the weights that are left.
    loss : {"hinge", "squared-hinge", "epsilon-insensitive", "logistic"}, default="hinge"
    epsilon : float, default=0.1
        Width of the tube of the epsilon-insensitive loss.
    sample_weight : array of shape (n_samples,), optional
        A weight equals a repetition; rows of weight 0 take no part.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``, with the gap to the smallest bound of all subsets.
    max_iter : int, optional
        Nodes of the tree. Default: 1000.
    max_time : float, optional
        Seconds after which no other node is begun.
    warm_start : Solution or WarmStart, optional
        The solution of a similar problem: the first subset that is tried.
    callback : callable, optional
        ``callback(node, objective, rel_gap)`` before every node; a true value stops the solver.

    Returns
    -------
    CardinalitySolution
        ``f = K(d) @ dual_coef + intercept``. Its certificate is of kind ``"cardinality"``: `dual` is the smallest bound
        of the subsets of k kernels, over all nodes. Where nodes or time end the search, `gap` says how far the weights
        are from the best at most, and the status is ``MAX_ITER`` or ``MAX_TIME``.
        Ctrl-C gives the best weights so far. `trace` holds ``objective``, ``rel_gap`` and ``n_open`` at every node.

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, C <= 0, k < 1, one class.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    The problem is NP-hard; how many subsets have to be computed depends on how close the best of them are. Nodes cost
    the convex problem of the kernels that they leave, and those of a few subsets of at most k kernels.

    The source solves the problem with the hinge loss by a local search, and bounds it by semidefinite programs; here
    the search is exhaustive, and ends with the best subset or a gap. Its problem has the same terms, with
    ``ridge = lambda``.

    References
    ----------
    D. Bertsimas, C. de Prospero Iglesias, N. A. G. Johnson, Sparse multiple kernel learning: alternating best response
    and semidefinite relaxations, arXiv 2511.21890 (2025).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_cardinality_mkl
    >>> X = np.random.default_rng(0).normal(size=(40, 6))
    >>> gram = X[:, None, :] * X[None, :, :]
    >>> result = solve_cardinality_mkl(gram, np.sign(X[:, 0] - X[:, 2] + X[:, 4]), C=1.0, k=2)
    >>> np.flatnonzero(result.weights), result.rel_gap <= 1e-6
    (array([0, 2]), True)
    """
    whole = make_problem(
        gram, y, C, "simplex", loss=loss, epsilon=epsilon, sample_weight=sample_weight, scale=scale
    )
    warm = check_warm(warm_start, whole)
    problem = CardinalityProblem(whole, min(k, whole.n_kernels), ridge)
    return solve_cardinality(
        problem, tol=tol, max_iter=max_iter, max_time=max_time, warm=warm, callback=callback
    )


def solve_cardinality(
    problem: CardinalityProblem,
    *,
    tol: float,
    max_iter: int | None = None,
    max_time: float | None = None,
    warm: WarmStart | None = None,
    callback: Callback | None = None,
) -> CardinalitySolution:
    """`solve_cardinality_mkl` on a problem that was checked."""
    kernels = Kernels(problem, tol)
    search = Search(kernels)
    trace: dict[str, list[float]] = {"objective": [], "rel_gap": [], "n_active": [], "n_open": []}
    end = math.inf if max_time is None else time.monotonic() + max_time

    def late() -> bool:
        return time.monotonic() > end

    def stop() -> bool:
        best = kernels.best
        assert best is not None
        gap = relative_gap(best.primal, max(0.0, best.primal - search.bound))
        for key, value in (
            ("objective", best.primal), ("rel_gap", gap),
            ("n_active", float(np.count_nonzero(best.weights))), ("n_open", float(search.n_open)),
        ):  # fmt: skip
            trace[key].append(value)
        if callback is not None and callback(search.n_nodes + 1, best.primal, gap):
            raise KeyboardInterrupt
        return late()

    most = max_iter or MOST
    with blas_threads_for(problem.whole.gram.n_samples):
        try:
            start = warm.weights if warm is not None else None
            near = None
            if warm is not None and warm.dual_coef is not None and start is not None:
                near = Solution(start, warm.dual_coef, 0.0, Certificate("joint", 0.0, 0.0, 0.0), 0)
            whole = kernels.compute(np.arange(problem.n_kernels), near)
            kernels.improve(whole, start, late)
            finished = search.run(most, stop)
            status = Status.CONVERGED if finished else Status.MAX_TIME if late() else Status.MAX_ITER
        except KeyboardInterrupt:
            if kernels.best is None:
                raise
            status = Status.INTERRUPTED
    best = kernels.best
    assert best is not None
    # before the search, one bound speaks of all subsets
    everything = kernels.bound(np.empty(0, np.int64), np.arange(problem.n_kernels), kernels.most)
    own = max(0.0, best.primal - max(search.bound, everything))
    return CardinalitySolution(
        weights=best.weights,
        dual_coef=best.dual_coef,
        intercept=best.intercept,
        certificate=Certificate.of("cardinality", best.primal, own, best.rounding, status, tol=tol),
        n_iter=max(1, search.n_nodes),
        n_machines=kernels.n_machines,
        trace={key: np.asarray(values) for key, values in trace.items()},
        proof=np.array(kernels.pool.coefficients),
        n_nodes=search.n_nodes,
    )
